"""A path as one program: what it computes, and how many of Python's questions had the answers that were recorded.

Idea: a path that comes again asks the same and gets the same answers. So all its segments run as one program, past their
questions, and beside the results it counts the answers that are as recorded, up to the first that is not. The count stands in
the place of each question, so that a loop's turns stay alike and are rolled with their questions (passes/roll.py). If all are
right, the results are. If not, the first wrong answer is known, and the call starts from the top on another path.

Invariants: what runs past a question must have no effect, and must end: such a path keeps its segments. What a program raises
or computes after a wrong answer is dropped. Trap: an answer is compared as Python has asked: a NaN that is asked for its truth
is true, and a float is true unless it is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.engines import program_of
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs
from funcad.ir.primitive import Primitive
from funcad.jitted.path_segments import Leaf, Node
from funcad.primitives.arithmetic import add
from funcad.primitives.comparison import eq, ne, select
from funcad.primitives.conversion import convert_p
from funcad.primitives.loop import Loop

INT = np.dtype(np.int64)
_INT, _BOOL, _WRONG = Aval((), INT), Aval((), np.dtype(np.bool_)), Literal(np.int64(0))  # for thousands of questions
ASKED = frozenset(["bool()", "int()", "an index"])  # questions that a program can go past
_KINDS = "biuf"


class PathProgram:
    """A path as one program, whose last output is the number of right answers."""

    __slots__ = ("node", "nodes", "keys", "consts", "jaxpr", "leaf")

    def __init__(self, nodes: Sequence[Node], keys: list[Any], jaxpr: Jaxpr, consts: list[Any]):
        self.node, self.nodes = nodes[-1], nodes
        self.keys = keys  # of the answers that were recorded
        self.jaxpr, self.consts = jaxpr, consts
        self.leaf: Leaf = nodes[-1].leaf  # type: ignore[assignment]

    def run(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The results of these arguments, and how many answers are right."""
        program = program_of(self.jaxpr)
        program.runs = max(program.runs, 1)  # it was recorded before: that was its first run
        fast = getattr(program, "fast", None)
        if fast is not None:
            outs = fast(*self.consts, *leaves)
            if outs is not NotImplemented:
                return outs if len(self.jaxpr.outputs) > 1 else (outs,)
        return program.consume([*self.consts, *leaves])

    def is_native(self) -> bool:
        return getattr(program_of(self.jaxpr), "native", None) is not None

    def after(self, right: int, programs: Sequence[PathProgram]) -> PathProgram | None:
        """One of these whose path is as this one up to the first wrong answer, and may have the right one there."""
        node, taken = self.nodes[right], self.nodes[right + 1]
        wanted = node.children.get(not self.keys[right]) if node.kind == "bool()" else None
        for p in programs:
            if right + 1 < len(p.nodes) and p.nodes[right] is node:
                way = p.nodes[right + 1]
                if way is wanted or wanted is None and node.kind != "bool()" and way is not taken:
                    return p
        return None


def nodes_to(node: Node) -> list[Node]:
    """The nodes of the path that ends in this one, from the first."""
    nodes = [node]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    nodes.reverse()
    return nodes


def keys_along(nodes: Sequence[Node]) -> list[Any]:
    """The answers that lead from each node to the next."""
    return [next(key for key, child in node.children.items() if child is after) for node, after in zip(nodes, nodes[1:])]


def runs_past(nodes: Sequence[Node]) -> bool:
    """May the path run past its questions?"""
    return not any([node.has_effects or not _is_asked(node) or _has_endless(node.equations) for node in nodes])


def _is_asked(node: Node) -> bool:
    if node.leaf is not None:
        return not node.leaf.raises
    aval = node.guard.aval
    return node.kind in ASKED and type(aval) is Aval and aval.dtype.kind in _KINDS and not aval.shape


def _has_endless(equations: Sequence[Equation]) -> bool:
    """A loop that ends by its values may not end after a wrong answer."""
    params = [e.params for e in equations if e.primitive.multiple]  # programs are parameters of these alone
    if any([isinstance(value, Loop) and value.cond is not None for p in params for value in p.values()]):
        return True
    return any([_has_endless(jaxpr.equations) for p in params for jaxpr in subjaxprs(p)])


def path_program(node: Node, inputs: Sequence[Var], memo: dict[str, Any]) -> PathProgram:
    """The program of the path that ends in this node, which may run past its questions; `inputs`: of the function."""
    nodes = nodes_to(node)
    keys = keys_along(nodes)
    counting = _Counting()
    for n, key in zip(nodes, [*keys, None]):
        counting.equations += n.equations
        if n.leaf is None:
            counting.asks(n, key)
    consts = [c for n in nodes for c in n.consts]
    leaf: Any = node.leaf
    jaxpr = Jaxpr((*[v for v, _ in consts], *inputs), tuple(counting.equations), (*leaf.outputs, counting.right))
    jaxpr.memo.update(memo)
    return PathProgram(nodes, keys, jaxpr, [x for _, x in consts])


class _Counting:
    """Equations of a path, with those that count."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.going: Any = Literal(np.int64(1))  # 1 as long as all answers were right, then 0
        self.right: Any = Literal(np.int64(0))

    def _record(self, primitive: Primitive, atoms: Any, aval: Aval, source: Any, params: Any = None) -> Var:
        out = Var(aval)
        self.equations.append(Equation(primitive, atoms, params or {}, (out,), source))
        return out

    def asks(self, node: Node, key: Any) -> None:
        guard, source = node.guard, node.source
        if node.kind != "bool()":
            whole = guard if guard.aval.dtype == INT else self._record(convert_p, (guard,), _INT, source, {"dtype": INT})
            guard, key = self._record(eq, (whole, Literal(np.int64(key))), _BOOL, source), True
        elif guard.aval.dtype != bool:
            guard = self._record(ne, (guard, Literal(guard.aval.dtype.type(0))), _BOOL, source)
        sides = (self.going, _WRONG) if key else (_WRONG, self.going)
        self.going = self._record(select, (guard, *sides), _INT, source)
        self.right = self._record(add, (self.right, self.going), _INT, source)

"""Segments: what a path computes between two guards, and the programs that equal segments share.

Idea: a `Node` holds the equations of one segment, in the canonical variables of its path, and ends in a guard, with a child for
each answer, or in a `Leaf`. Nodes that do the same to other variables (the turns of a Python loop) share one program: it is
looked up by its structure, without the numbers that are written in it. Where two segments differ in numbers only, these become
inputs of the program for both that come later, so that a loop's counter does not make a program of each turn.

Invariants: a variable is made in one node, so it is a segment's output if some other node reads it; what has effects is always
an output, because it is never computed again. Trap: a program takes its inputs in the order in which the segment reads them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from funcad.backends.engines import program_of
from funcad.configuration import config
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, params_key
from funcad.jitted.account import COSTS
from funcad.primitives.conversion import convert_p
from funcad.primitives.shape import broadcast_in_dim
from funcad.tree.same import same_key


class Leaf:
    """How a path ends: the function's results, what it writes, or that it raises."""

    __slots__ = ("outputs", "out_tree", "written", "returned", "visits", "raises", "consts", "whole", "stores", "orders")

    def __init__(self, outputs: Sequence[Any], raises: str = ""):
        self.outputs = outputs
        self.out_tree: Any = None
        self.written: tuple[int, ...] = ()  # as of an `Entry`, see jit_writes.py
        self.returned: dict[int, int] = {}
        self.stores: tuple[Any, ...] = ()
        self.orders: tuple[Any, ...] = ()
        self.visits = 1
        self.raises = raises  # the name of the error, if it raises
        self.consts: list[Any] = []
        self.whole: Any = None  # the path as one program, for derivatives

    def without_stores(self) -> Leaf:
        found = copy.copy(self)
        found.stores = found.orders = ()  # for results that lie so already
        return found


class Node:
    """A segment of a path."""

    __slots__ = ("equations", "consts", "guard", "kind", "source", "children", "leaf", "parent")
    __slots__ += ("has_effects", "reads", "number", "past")

    def __init__(self, equations: Sequence[Equation], consts: Sequence[tuple[Var, Any]] = (), leaf: Leaf | None = None):
        self.equations = tuple(equations)
        self.consts = list(consts)  # captured here: (variable, value)
        self.guard: Any = None
        self.kind = ""
        self.source: Any = None  # where the user's program asked
        self.children: dict[Any, Node] = {}
        self.leaf = leaf
        self.parent: Node | None = None
        asked = [e for e in self.equations if e.primitive.effect or e.primitive.multiple]
        self.has_effects = any(map(equation_has_effects, asked))
        inside = {v for e in self.equations for v in e.outputs}
        self.reads = list(dict.fromkeys([a for e in self.equations for a in e.inputs if type(a) is Var and a not in inside]))
        self.number = -1  # of its structure
        self.past: bool | None = None  # may the path that ends here run past its questions?

    @property
    def ends(self) -> list[Var]:
        """The variables that are read where the segment ends."""
        return [self.guard] if self.leaf is None else [a for a in self.leaf.outputs if type(a) is Var]


class _Program:
    """The program of one structure; `lifted`: the literals (by number) that it takes as further inputs."""

    __slots__ = ("literals", "lifted", "jaxpr")

    def __init__(self, literals: list[Any], lifted: tuple[int, ...], jaxpr: Jaxpr):
        self.literals = literals
        self.lifted = lifted
        self.jaxpr = jaxpr


class Segments:
    """The programs of one function's segments, by structure."""

    def __init__(self, memo: dict[str, Any], account: Any):
        self._programs: dict[Any, list[_Program]] = {}
        self._numbers: dict[Any, int] = {}
        self.memo = memo
        self.account = account
        self.made = 0  # programs
        self.whole = False  # are paths compiled as a whole, and segments not?

    def number(self, node: Node) -> int:
        """The number of its structure, whatever its outputs."""
        if node.number < 0:
            node.number = self._numbers.setdefault(_key(node, ()), len(self._numbers))
        return node.number

    def program(self, node: Node, outputs: Sequence[Var]) -> tuple[Any, list[Any]]:
        """(the program, the literals that it takes after the variables which the node reads)."""
        literals = [a for e in node.equations for a in e.inputs if type(a) is Literal]
        known = self._programs.setdefault(_key(node, outputs), [])
        keys = [same_key(a.value) for a in literals]
        fewest: set[int] = set(range(len(literals)))
        for found in known:
            differing = {i for i, a in enumerate(found.literals) if same_key(a.value) != keys[i]}
            if differing <= set(found.lifted):
                return self._ready(found.jaxpr), [literals[i].value for i in found.lifted]
            if len(differing) < len(fewest):
                fewest = differing
        lifted: tuple[int, ...] = ()
        if known:
            wanted = fewest.union(*[p.lifted for p in known if set(p.lifted) <= fewest])
            lifted = tuple(sorted(wanted & _liftable(node)))
            if not fewest <= set(lifted):
                lifted = ()
        made = _Program(literals, lifted, _program(node, outputs, lifted))
        made.jaxpr.memo.update(self.memo)
        if config.jit_patience:
            made.jaxpr.memo.update(account=self.account, part=self)
        made.jaxpr.memo["siblings"] = max(0, self.made - int(COSTS["eager"]))  # see engines.py
        known.append(made)
        self.made += 1
        return self._ready(made.jaxpr), [literals[i].value for i in lifted]

    def _ready(self, jaxpr: Jaxpr) -> Any:
        program = program_of(jaxpr)
        program.runs = max(program.runs, 1)  # it was recorded before: that was its first run
        return program


def _key(node: Node, outputs: Iterable[Var]) -> Any:
    numbers: dict[Var, int] = {v: i for i, v in enumerate(node.reads)}
    parts: list[Any] = [_aval(v.aval) for v in node.reads]
    for primitive, atoms, params, outs, _ in node.equations:
        key = params_key(params) if params else ()
        if key is None:
            key = params_key(params, lambda jaxpr: jaxpr)
            try:
                hash(key)
            except TypeError:
                key = id(params)
        parts.append((primitive, *[_literal(a) if type(a) is Literal else numbers[a] for a in atoms], key))
        for v in outs:
            numbers[v] = len(numbers)
    return (*parts, "->", *[numbers[v] for v in outputs])


def _aval(aval: Any) -> Any:
    return (aval.shape, aval.dtype, aval.weak) if type(aval) is Aval else aval


def _literal(a: Literal) -> Any:
    return (type(a.value), a.aval.dtype, a.aval.weak)


def _places(node: Node) -> list[tuple[Equation, int]]:
    """Of each literal, its equation and its place there."""
    return [(e, i) for e in node.equations for i, a in enumerate(e.inputs) if type(a) is Literal]


def _liftable(node: Node) -> set[int]:
    """The literals that may as well be inputs."""
    return {n for n, (e, i) in enumerate(_places(node)) if _dtype_at(e, i) is not None}


def _dtype_at(equation: Equation, place: int) -> Any:
    """The dtype in which an elementwise operation uses a number; None if that is not clear."""
    number = equation.inputs[place].aval
    others = [a.aval for a in equation.inputs if type(a) is Var]
    if equation.primitive.emit is None or equation.primitive.multiple or len({a.shape for a in others if a.shape}) > 1:
        return None
    dtypes = {a.dtype for a in others if a.dtype != bool} if number.weak else {number.dtype}
    dtype = dtypes.pop() if len(dtypes) == 1 else number.dtype if not dtypes else None
    return dtype if dtype is not None and dtype.kind == number.dtype.kind else None


def _program(node: Node, outputs: Sequence[Var], lifted: Sequence[int]) -> Jaxpr:
    if not lifted:
        return Jaxpr(tuple(node.reads), node.equations, tuple(outputs))
    inputs, equations, n = [], [], 0
    for e in node.equations:
        atoms = list(e.inputs)
        for i, a in enumerate(e.inputs):
            if type(a) is not Literal:
                continue
            if n in lifted:
                v = Var(Aval((), a.aval.dtype, a.aval.weak))
                inputs.append(v)
                atoms[i] = _shaped(v, e, i, equations)
            n += 1
        equations.append(e._replace(inputs=tuple(atoms)))
    return Jaxpr((*node.reads, *inputs), tuple(equations), tuple(outputs))


def _shaped(v: Var, equation: Equation, place: int, equations: list[Equation]) -> Var:
    """A number as an operand beside variables."""
    shape = next((a.aval.shape for a in equation.inputs if type(a) is Var and a.aval.shape), ())
    dtype = _dtype_at(equation, place)
    if v.aval.dtype != dtype or shape:
        converted = Var(Aval((), dtype))
        equations.append(Equation(convert_p, (v,), {"dtype": dtype}, (converted,), equation.source))
        v = converted
    if shape:
        wide = Var(Aval(shape, dtype))
        equations.append(Equation(broadcast_in_dim, (v,), {"shape": shape, "axes": ()}, (wide,), equation.source))
        v = wide
    return v

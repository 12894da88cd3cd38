"""Rules cut in two: of operations on large arrays a tape keeps what the derivative needs, and no operand or result.

Idea: a rule is a program of operands, result and tangents. What reads no tangent is done at the user's line, where the operands
are at hand anyway, and what it gives is kept: of `np.maximum` a mask. The rest is linear in the tangents and stands in the row;
it is run when the backward program is derived. So the rule itself runs once for operands of one kind, not once for each call.
A rule that asks whether a condition holds everywhere is cut there: the first part computes the condition, and each answer has
a part of its own.

Invariants: what is kept is what the rule would keep if it ran on the values. In the values of the tape an array that is not
kept is represented by a `stand_in`, which has its shape and no memory: only shapes are read of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.interpreter import Program
from funcad.host.locks import SMALL
from funcad.host.where import state, user_source
from funcad.ir.aval import Atom, aval_of
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import rule_of
from funcad.memo import compared_by, remembers, table
from funcad.transforms.partial import drop_unused_residuals
from funcad.unjitted.tape_program import LinearTrace, input_like

_MOST = 4096
_splits = table(
    "unjitted.splits",
    "primitive and kinds of operands: its rule, split",
    _MOST,
)
_UNKNOWN = object()


class _Part:
    """What a rule computes of operands, results, and what the parts before it have computed; all these are numbered."""

    __slots__ = ("program", "consts", "reads")

    def __init__(self, outer: AbstractTrace, equations: Sequence[Equation], outputs: Sequence[Atom], numbers: dict[Var, int]):
        captured = dict(outer.captured.values())
        plain = tuple([e._replace(source=None) for e in equations])
        jaxpr = prune(Jaxpr((*captured, *numbers), plain, tuple(outputs)))
        used = {a for e in jaxpr.equations for a in e.inputs} | set(outputs)
        consts = [v for v in captured if v in used]
        inputs = [v for v in numbers if v in used]
        self.program = Program(Jaxpr((*consts, *inputs), jaxpr.equations, jaxpr.outputs))
        self.consts = [captured[v] for v in consts]
        self.reads = [numbers[v] for v in inputs]

    def computed(self, known: list[Any]) -> list[Any]:
        return self.program.consume([*self.consts, *[known[i] for i in self.reads]])


class _Question:
    """Where a rule asks whether a condition holds everywhere."""

    __slots__ = ("part", "number", "ways")

    def __init__(self, part: _Part, number: int):
        self.part = part
        self.number = number  # of the condition
        self.ways: dict[bool, Any] = {}


compared_by[_Question] = lambda question: (question.part.program.jaxpr, question.part.reads, question.number)


class Split:
    """A rule for operands of one kind: what is kept, and the linear `rest`, which reads it beside the tangents."""

    __slots__ = ("rest", "part", "sources", "there", "many")

    def __init__(self, rest: Jaxpr, part: _Part | None, sources: list[int], there: Sequence[int]):
        self.rest = rest  # (kept, distinct tangents) -> tangents of the results
        self.part = part  # None: nothing is computed
        self.sources = sources  # the numbers of what is kept
        self.there = there  # the results that have tangents
        self.many = len(sources)

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Of the results that have tangents, recorded where `ts` are."""
        trace, source, rest = ts[0].owner, state.source or user_source(), self.rest
        atoms: dict[Atom, Any] = dict(zip(rest.inputs, [*map(trace.atom, kept), *[t.atom for t in ts]]))
        for primitive, inputs, params, outputs, _ in rest.equations:
            new = tuple([Var(v.aval) for v in outputs])
            given = tuple([a if type(a) is Literal else atoms[a] for a in inputs])
            trace.equations.append(Equation(primitive, given, params, new, source))
            atoms.update(zip(outputs, new))
        return [Tracer(trace, atoms[o], None, None, source) for o in rest.outputs]


def split_of(
    key: tuple, primitive: Any, primals: Sequence[Any], rows: Sequence[Any], outs: Sequence[Any], params: dict, shape: Any
) -> tuple[Any, list[Any]]:
    """(the rule for operands of the kind that the key says, what it keeps of these).

    In place of the rule None: it gives no tangent; False: it raises. `rows`, for the tangents: None, or a number for each.
    """
    known = [*primals, *outs]
    rule = primitive, primals, rows, outs, params, shape
    node = _splits.get(key, _UNKNOWN)
    if node is _UNKNOWN:
        node = _splits.put(key, _derived([], rule))
    answers: list[tuple[bool, int]] = []
    while type(node) is _Question:
        known += node.part.computed(known)
        answer = bool(known[node.number].all())
        answers.append((answer, len(known)))
        found = node.ways.get(answer, _UNKNOWN)
        if found is _UNKNOWN:
            found = node.ways[answer] = _derived(answers, rule)
        node = found
    if not node:
        return node, []
    if node.part is not None:
        known += node.part.computed(known)
    return node, [known[i] for i in node.sources]


class _Undecided(Exception):
    pass


class _Deciding(AbstractTrace):
    """The part of a rule that reads no tangents; knows the `answers` to its first questions, and when they were asked."""

    __slots__ = ("answers", "asked_for")

    def __init__(self, answers: Sequence[tuple[bool, int]]):
        super().__init__("the backward pass")
        self.answers = iter(answers)
        self.asked_for: Any = None

    def decide(self, condition: Tracer) -> bool:
        for answer, _ in self.answers:
            return answer
        self.asked_for = condition.atom
        raise _Undecided


def _derived(answers: Sequence[tuple[bool, int]], rule: tuple) -> Any:
    outer, inner = _Deciding(answers), LinearTrace("linearize")
    saved, state.source = state.source, state.source or user_source()  # what is derived has no lines
    try:
        return _cut(outer, inner, answers[-1][1] if answers else 0, *rule)
    except Exception:  # whatever it is, it happens again where the operation stands
        return False
    finally:
        state.source = saved
        inner.close()
        outer.close()


def _cut(
    outer: _Deciding, inner: LinearTrace, n_known: int,
    primitive: Any, primals: Sequence[Any], rows: Sequence[Any], outs: Sequence[Any], params: dict, shape: Any,
) -> Any:  # fmt: skip
    """The part of a rule after the values numbered below `n_known`."""
    values: dict[int, Tracer] = {}
    tangents: dict[int, Tracer] = {}
    for p, row in zip(primals, rows):  # rules look whether two are one
        if id(p) not in values:
            values[id(p)] = input_like(outer, p)
        if row is not None and row not in tangents:
            tangents[row] = inner.new_input(aval_of(p).update())
    like = [input_like(outer, o) for o in outs]
    given = [None if row is None else tangents[row] for row in rows]
    results: list[Any] = []
    try:
        operands = [values[id(p)] for p in primals]
        found = rule_of(primitive, operands, given, like if primitive.multiple else like[0], params, shape)
        results = found if primitive.multiple else [found]
    except _Undecided:
        pass
    numbers: Any = {x.atom: len(primals) + i for i, x in enumerate(like)}
    for i, p in enumerate(primals):
        numbers.setdefault(values[id(p)].atom, i)
    start, number = 0, len(primals) + len(outs)
    while number < n_known:  # computed by the parts before
        for v in outer.equations[start].outputs:
            numbers[v] = number
            number += 1
        start += 1
    equations = outer.equations[start:]
    if outer.asked_for is not None:
        new = [v for e in equations for v in e.outputs]
        found = {v: number + i for i, v in enumerate(new)}
        return _Question(_Part(outer, equations, new, numbers), (numbers | found)[outer.asked_for])
    for t, o in zip(results, outs):
        if t is not None and (type(t) is not Tracer or t.owner is not inner or t.aval != aval_of(o).update()):
            return False
    there = tuple([i for i, t in enumerate(results) if t is not None])
    if not there:
        return None
    rest, kept = inner.jaxpr([results[i] for i in there])
    rest, kept = drop_unused_residuals(prune(rest), kept)
    rest = Jaxpr(rest.inputs, tuple([e._replace(source=None) for e in rest.equations]), rest.outputs)
    atoms = [outer.atom(x) for x in kept]
    fresh = list(dict.fromkeys([a for a in atoms if a not in numbers]))
    part = _Part(outer, equations, fresh, numbers) if fresh else None
    numbers |= {a: number + i for i, a in enumerate(fresh)}
    return Split(rest, part, [numbers[a] for a in atoms], there)


def stand_in(x: Any) -> Any:
    """What represents a value that is not kept: a small one itself."""
    return _empty(x.shape, x.dtype.char) if type(x) is np.ndarray and x.nbytes > SMALL else x


@remembers(_MOST)
def _empty(shape: tuple[int, ...], char: str) -> np.ndarray:
    return np.broadcast_to(np.zeros((), char), shape)

"""Pulls that are in no table: the linear part of a rule, transposed, as a Python function.

Idea: a rule is a program of operands, results and tangents. What reads no tangent is done at the user's line, where operands
are at hand anyway, and what it gives is kept: of `np.maximum` a mask. The rest is linear in the tangents. Both are found once
for operands of one kind, with variables in the place of the values, and the rest is transposed and written as a Python function
of a few lines, the *pull*, which makes the calls that `transpose_eval` would make.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from funcad.host.where import open_traces, state, user_source
from funcad.ir.aval import Atom, LiteralAval, StackAval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.ir.primitive import CALM
from funcad.ir.trace import AbstractTrace, bind
from funcad.ir.tracer import Tracer, snapshot, value_key
from funcad.memo import compared_by
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import broadcast_to, rule_of
from funcad.transforms.partial import TangentTrace, drop_unused_residuals
from funcad.unjitted.kinds import Pull, RowCotangents, RuleQuestion, add_read, compiled, fit

_interpreter = partial(import_module, "funcad.backends.interpreter")
_transpose = partial(import_module, "funcad.transforms.transpose")
INFIX = {add: "+", sub: "-", mul: "*"}


def input_of(trace: AbstractTrace, aval: Any) -> Tracer:
    if type(aval) is not LiteralAval:
        return trace.new_input(aval)
    variable = Var(aval)  # a LiteralAval, so that it may stand beside shaped operands, as the scalar does
    trace.inputs.append(variable)
    return Tracer(trace, variable)


class DerivedPull(Pull):
    """A pull by the rule; `rest` is its linear part."""

    def __init__(
        self,
        rest: Jaxpr,
        part: _RulePart | None,
        sources: Sequence[int],
        there: Sequence[int],
        wide: bool = False,
    ):
        super().__init__(part, sources, there, wide)
        self.rest: Any = rest  # (kept, distinct tangents) -> tangents of the results
        # consts and what is kept -> what `rest` reads, where that is computed on the way back
        self.late: Jaxpr | None = None
        self.consts: list[Any] = []
        self.derived: dict[Any, Any] = {}
        self.begins = begins_in(rest)
        self.run: Any = self._several if self.many else self._first

    def _first(
        self,
        cts: RowCotangents,
        ct: Any,
        numbers: Sequence[int],
        kept: Sequence[Any],
    ) -> None:
        try:
            self.run = self._reads() or self._function((False,), False)
        except Exception:  # a rule that needs values; what is truly wrong is raised by these
            if self.wide or self.late is not None:
                raise
            self.run = self._transpose
        self.run(cts, ct, numbers, kept)

    def _transpose(
        self,
        cts: RowCotangents,
        ct: Any,
        numbers: Sequence[int],
        kept: Sequence[Any],
    ) -> None:
        """The linear part transposed as it is, on values of any kind."""
        n, m = len(kept), len(numbers)
        flags = [False] * n + [True] * m
        given = list(ct) if self.many else [ct]
        found = _transpose().transpose_eval(self.rest, flags, [*kept, *[None] * m], given, all_linear=True)
        for number, c in zip(numbers, found):
            if c is not None:
                cts.add(number, c)

    def _several(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
    ) -> None:
        run = self._function(tuple([c is None for c in given]), False)
        run(cts, [c for c in given if c is not None], numbers, kept)

    def _recording(self, given: Sequence[Any], m: int) -> tuple[Any, bool]:
        return self._function(tuple([c is None for c in given]), True), True

    def columns(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
        size: int,
    ) -> None:
        """The same for many cotangents at once, along a new axis 0."""
        if self.free:
            found = self.derived.get("columns")
            if found is None:
                program = self.transposed((False,))
                found = self.derived["columns"] = _written(program, False, self.wide, False, columns=True)
            found(cts, given[0], numbers, kept)
            return
        absent = tuple([c is None for c in given])
        found = self.derived.get(("columns", absent, size))
        if found is None:
            program = self.batched(absent, size)
            found = self.derived["columns", absent, size] = _written(program, self.many, False, False)
        found(cts, [c for c in given if c is not None] if self.many else given[0], numbers, kept)

    def _function(self, absent: tuple[bool, ...], traced: bool) -> Any:
        found = self.derived.get((absent, traced))
        if found is None:
            program = self.derived.get(absent)
            if program is None:
                program = self.derived[absent] = self.transposed(absent)
            found = self.derived[absent, traced] = _written(program, self.many, self.wide, traced)
        return found

    def transposed(self, absent: tuple[bool, ...]) -> Any:
        """(the program, its constants, how many values it keeps and operands it has, and which it gives cotangents of)."""
        rest, n = self.rest, self.n_kept
        m = len(rest.inputs) - (n if self.late is None else len(self.late.outputs))
        outer = AbstractTrace("the backward pass")
        saved, state.source = state.source, state.source or user_source()  # programs of this kind have no lines
        try:
            inputs = (self.late or rest).inputs[len(self.consts) :]
            kept = [input_of(outer, v.aval) for v in inputs[:n]]
            read = kept if self.late is None else eval_jaxpr(self.late, [*self.consts, *kept])
            seeds = [None if gone else outer.new_input(o.aval.update()) for o, gone in zip(rest.outputs, absent)]
            known = [False] * len(read) + [True] * m
            found = _transpose().transpose_eval(rest, known, [*read, *[None] * m], seeds, all_linear=True)
            which = [j for j, c in enumerate(found) if c is not None]
            derived, consts = outer.jaxpr([found[j] for j in which])
        finally:
            state.source = saved
            outer.close()
        derived = _without_sources(prune(derived))
        return derived, consts, n, m, which

    def batched(self, absent: tuple[bool, ...], size: int) -> Any:
        """`transposed` for as many cotangents, along a new axis 0."""
        jaxpr, consts, n, m, which = self.transposed(absent)
        jaxpr = _interpreter().broadcast_scalars(jaxpr)
        mapped = [False] * (len(consts) + n) + [True] * absent.count(False)
        batch = import_module("funcad.transforms.batch")
        derived, more, _ = batch.batch_jaxpr(jaxpr, size, tuple(mapped), (True,) * len(which))
        return _without_sources(prune(derived)), [*more, *consts], n, m, which

    def _reads(self) -> Any:
        """The pull of what only reads elements of an array: they are added where they were, in one buffer."""
        if len(self.rest.equations) != 1 or self.wide or self.late is not None:
            return None
        primitive, (x, *others), params, *_ = self.rest.equations[0]
        known = dict(zip(self.rest.inputs[: len(self.sources)], range(len(self.sources))))
        if primitive.adds is None or x in known or not all([type(a) is Literal or a in known for a in others]):
            return None
        array: Any = x
        places = [(a.value, None) if type(a) is Literal else (None, known[a]) for a in others]

        def run(
            cts: RowCotangents,
            ct: Any,
            numbers: Sequence[int],
            kept: Sequence[Any],
        ) -> None:
            add_read(cts, ct, numbers[0], primitive, array, [v if i is None else kept[i] for v, i in places], params)

        return run

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Of the results that have tangents, recorded where `ts` are."""
        if self.wide:
            shape = kept[len(self.sources)]
            ts = [broadcast_to(t, shape) for t in ts]
            kept = [broadcast_to(k, shape) for k in kept[: len(self.sources)]]
        if self.late is not None:
            kept = eval_jaxpr(self.late, [*self.consts, *kept])
        if self.free:
            return eval_jaxpr(self.rest, [*kept, *ts])
        trace, source, rest = ts[0].owner, state.source or user_source(), self.rest
        atoms: dict[Atom, Any] = dict(zip(rest.inputs, [*map(trace.atom, kept), *[t.atom for t in ts]]))
        for primitive, inputs, params, outputs, own in rest.equations:
            new = tuple([Var(v.aval) for v in outputs])
            given = tuple([a if type(a) is Literal else atoms[a] for a in inputs])
            trace.equations.append(Equation(primitive, given, params, new, own or source))
            atoms.update(zip(outputs, new))
        return [Tracer(trace, atoms[o], None, None, source) for o in rest.outputs]


compared_by[DerivedPull] = lambda pull: (pull.rest, pull.sources, pull.there)


class ByProgram(DerivedPull):
    """Of one row: what its rule recorded when it ran on the values, transposed as it is."""

    alone = True

    def __init__(self, rest: Jaxpr, n_kept: int, there: Sequence[int]):
        super().__init__(rest, None, (), there)
        self.n_kept = n_kept
        self.stacks = StackAval in map(type, (*rest.in_avals, *rest.out_avals))
        self.run = self._transpose


def row_of_halves(
    tape: Any, primitive: Any, args: Sequence[Any], primals: list[Any], numbers: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The results of a call of a program, whose row has what the linear half reads; None if there are no halves."""
    if state.axis_env or params["jaxpr"].has_effects:  # collectives know the axis by its trace
        return None
    halves = primitive.halves(tuple([n is not None for n in numbers]), **params)
    if halves is None or not any(halves.out_nonzero):
        return None
    if halves.pull is None:
        halves.pull = _linear_call(primitive, halves, params)
    if open_traces:
        primals = capture_as_inputs(primals, primals)
    saved, source = state.source, state.source or user_source(4)
    state.source = source
    try:
        outs = bind(primitive, *halves.consts, *primals, **{**params, "jaxpr": halves.forward})
    finally:
        state.source = saved
    kept = [tape(snapshot(x) if type(x) is Tracer else x) for x in halves.collect(primals, outs)]
    rows = tuple([n for n in numbers if n is not None])
    operation = primitive, tuple(args), params, None, None
    return tape.rows(halves.pull, rows, tuple(kept), operation, outs[: halves.n_outputs], source, primals)


def _linear_call(primitive: Any, halves: Any, params: dict[str, Any]) -> DerivedPull:
    """The pull of a call of the linear half."""
    linear = halves.linear
    inputs, outputs = tuple([Var(a) for a in linear.in_avals]), tuple([Var(a) for a in linear.out_avals])
    rest = Jaxpr(inputs, (Equation(primitive, inputs, {**params, "jaxpr": linear}, outputs),), outputs)
    pull = DerivedPull(rest, None, (), [i for i, z in enumerate(halves.out_nonzero) if z])
    pull.n_kept = len(halves.residuals)
    pull.stacks = pull.alone = StackAval in map(type, rest.in_avals)
    return pull


def begins_in(rest: Jaxpr) -> bool:
    """May a mask begin in this linear program?"""
    return not all([e.primitive.reach in CALM and e.primitive.needs is None for e in rest.equations])


def _without_sources(jaxpr: Jaxpr) -> Jaxpr:
    return Jaxpr(jaxpr.inputs, tuple([e._replace(source=None) for e in jaxpr.equations]), jaxpr.outputs)


def _written(
    program: tuple,
    many: bool,
    wide: bool,
    traced: bool,
    columns: bool = False,
) -> Any:
    """A function of the transposed program: `run(cts, ct, numbers, kept)`; `traced`: some of the values are."""
    jaxpr, consts, n, m, which = program
    scope: dict[str, Any] = {"fit": fit}
    names: dict[Any, str] = {}
    for i, (v, c) in enumerate(zip(jaxpr.inputs, consts)):
        names[v] = f"g{i}"
        scope[f"g{i}"] = c
    inputs = jaxpr.inputs[len(consts) :]
    kept = [f"k{i}" for i in range(n)]
    seeds = [f"s{i}" for i in range(len(inputs) - n)] if many else ["ct"]
    names.update(zip(inputs, [*kept, *seeds]))
    used = {a for e in jaxpr.equations for a in e.inputs} | set(jaxpr.outputs)
    lines = ["def run(cts, ct, numbers, kept):"]
    if wide:
        kept += ["_", *[f"f{j}" for j in range(m)]]
    if wide or any([v in used for v in inputs[:n]]):
        lines.append(f" {', '.join(kept)}, = kept")
    if many:
        lines.append(f" {', '.join(seeds)}, = ct")

    def read(a: Any) -> str:
        if type(a) is Literal:
            name = f"l{len(scope)}"
            scope[name] = a.value
            return name
        return names[a]

    for i, e in enumerate(jaxpr.equations):
        operands = [read(a) for a in e.inputs]
        names.update([(v, f"v{i}_{j}") for j, v in enumerate(e.outputs)])
        if e.primitive in INFIX and not e.params:
            text = f" {names[e.outputs[0]]} = {operands[0]} {INFIX[e.primitive]} {operands[1]}"
        elif e.primitive is neg:
            text = f" {names[e.outputs[0]]} = -{operands[0]}"
        else:
            scope[f"c{i}"] = partial(bind, e.primitive, **e.params) if traced else _interpreter().on(np, e)
            targets = ", ".join([names[v] for v in e.outputs])
            text = f" {f'[{targets}]' if e.primitive.multiple else targets} = c{i}({', '.join(operands)})"
        lines.append(text)
    for j, o in zip(which, jaxpr.outputs):
        value = read(o)
        value = f"fit({value}, f{j}, {int(columns)})" if wide else value
        lines += [f" n = numbers[{j}]", f" if cts[n] is None: cts[n] = {value}", f" else: cts.add(n, {value})"]
    if len(lines) == 1:
        lines.append(" pass")
    exec(compiled("\n".join(lines)), scope)
    return scope["run"]


# -- rules cut in two
#
# The outer trace records what reads no tangent, the inner one the rest. Questions of a rule are answered by values: each answer
# leads to a part of its own, so that a kind is a tree, of one leaf in most cases.


class _RulePart:
    """What a rule computes of operands, results, and what the parts before it have computed; all these are numbered."""

    __slots__ = ("program", "consts", "reads")

    def __init__(
        self,
        outer: AbstractTrace,
        equations: Sequence[Equation],
        outputs: Sequence[Atom],
        numbers: dict[Var, int],
    ):
        captured = dict(outer.captured.values())
        plain = tuple([e._replace(source=None) for e in equations])
        jaxpr = prune(Jaxpr((*captured, *numbers), plain, tuple(outputs)))
        used = {a for e in jaxpr.equations for a in e.inputs} | set(outputs)
        consts = [v for v in captured if v in used]
        inputs = [v for v in numbers if v in used]
        self.program = _interpreter().Program(Jaxpr((*consts, *inputs), jaxpr.equations, jaxpr.outputs))
        self.consts = [captured[v] for v in consts]
        self.reads = [numbers[v] for v in inputs]

    def computed(self, known: Sequence[Any], outer: bool = False) -> list[Any]:
        values = [*self.consts, *[known[i] for i in self.reads]]
        return eval_jaxpr(self.program.jaxpr, values) if outer else self.program.consume(values)


compared_by[_RulePart] = lambda part: (part.program.jaxpr, part.reads)


class LinearTrace(TangentTrace):
    """Captures values of the backward program as they are: a scalar may stand beside shaped operands there too."""

    __slots__ = ()

    def _capture(self, x: Any) -> tuple[Var, Any]:
        entry = self.captured[value_key(x)] = Var(aval_of(x)), x
        return entry


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


def derived(
    answers: Sequence[tuple[bool, int]],
    use: tuple,
    wide: bool,
    reads: tuple[int, ...] | None = None,
) -> Any:
    """The pull, or a question, found by the rule; `reads`: what it keeps, and no more."""
    outer, inner = _Deciding(answers), LinearTrace("linearize")
    saved, state.source = state.source, state.source or user_source()  # what is derived has no lines
    try:
        return _cut(outer, inner, answers, wide, use, reads)
    except Exception:  # whatever it is, it happens again where the operation stands
        return False
    finally:
        state.source = saved
        inner.close()
        outer.close()


def _cut(
    outer: _Deciding,
    inner: LinearTrace,
    answers: Sequence[tuple[bool, int]],
    wide: bool,
    use: tuple,
    reads: tuple[int, ...] | None,
) -> Any:
    """The part of a rule after what has been computed for its answers."""
    primitive, avals, alike, rows, outs, params, shape = use
    n_known = answers[-1][1] if answers else 0
    values: dict[int, Tracer] = {}
    tangents: dict[int, Tracer] = {}
    for i, aval, row in zip(alike, avals, rows):  # rules look whether two are one
        if i not in values:
            values[i] = input_of(outer, aval)
        if row is not None and row not in tangents:
            tangents[row] = inner.new_input(aval.update())
    like = [input_of(outer, o) for o in outs]
    given = [None if row is None else tangents[row] for row in rows]
    results: list[Any] = []
    operands = [values[i] for i in alike]
    try:
        found = rule_of(primitive, operands, given, like if primitive.multiple else like[0], params, shape)
        results = found if primitive.multiple else [found]
    except _Undecided:
        pass
    numbers: Any = {}
    for i, x in enumerate([*operands, *like]):
        numbers.setdefault(x.atom, i)
    start, number = 0, len(avals) + len(outs)
    while number < n_known:  # computed by the parts before
        for v in outer.equations[start].outputs:
            numbers[v] = number
            number += 1
        start += 1
    equations = outer.equations[start:]
    if outer.asked_for is not None:
        new = [v for e in equations for v in e.outputs]
        found = {v: number + i for i, v in enumerate(new)}
        question = RuleQuestion(_RulePart(outer, equations, new, numbers), (numbers | found)[outer.asked_for])
        question.free = _by_elements(equations)
        return question
    for t, o in zip(results, outs):
        if t is not None and (type(t) is not Tracer or t.owner is not inner or t.aval != o.update()):
            return False
    there = tuple([i for i, t in enumerate(results) if t is not None])
    if not there:
        return None
    rest, kept = inner.jaxpr([results[i] for i in there])
    rest, kept = drop_unused_residuals(prune(rest), kept)
    rest = _without_sources(rest)
    atoms = [outer.atom(x) for x in kept]
    fresh = list(dict.fromkeys([a for a in atoms if a not in numbers]))
    part = _RulePart(outer, equations, fresh, numbers) if fresh else None
    # what is computed of values that are kept anyway, or element by element of no larger ones, may wait until the way back
    if part is not None and reads is None and not answers:
        of_numbers = {n: a.aval for a, n in numbers.items()}
        others = [numbers[a] for a in atoms if a in numbers]
        more = [n for n in part.reads if n not in others]
        read = sum([of_numbers[n].dtype.itemsize for n in more])
        computed = sum([a.aval.dtype.itemsize for a in fresh])
        late = part.reads and not more or not equations
        if late or _by_elements(equations) and not part.consts and read <= computed:
            reads = tuple(dict.fromkeys([*part.reads, *others]))
    if reads is not None:
        of_number = {n: a for a, n in reversed(numbers.items()) if n in reads}
        pull = DerivedPull(rest, None, reads, there, wide)
        plain = tuple([e._replace(source=None) for e in equations])
        captured = dict(outer.captured.values())
        pull.consts = list(captured.values())
        pull.late = prune(Jaxpr((*captured, *[of_number[n] for n in reads]), plain, tuple(atoms)))
    else:
        numbers |= {a: number + i for i, a in enumerate(fresh)}
        pull = DerivedPull(rest, part, [numbers[a] for a in atoms], there, wide)
    pull.free = _by_elements(equations) and _by_elements(rest.equations)
    pull.plain = primitive.layout is not None
    return pull


def _by_elements(equations: Sequence[Equation]) -> bool:
    """Is each an operation element by element, which says no shape?"""
    return all([e.primitive.emit is not None and "shape" not in e.params for e in equations])

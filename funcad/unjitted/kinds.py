"""What rows of one kind have in common: what they keep, their linear part, and its transpose, which is their pull.

Idea: a rule is a program of operands, results and tangents. What reads no tangent is done at the user's line, where operands
are at hand anyway, and what it gives is kept: of `np.maximum` a mask. The rest is linear in the tangents. Both are found once
for operands of one kind, with variables in the place of the values, and the rest is transposed and written as a Python function
of a few lines, the *pull*. A rule that asks whether a condition holds everywhere is cut there: the first part computes the
condition, and each answer has a part of its own. Of most kinds the pull was written ahead (pulls.py, `WrittenPull`).

Invariants: what is kept is what the rule would keep if it ran on the values, and the pull makes the calls that `transpose_eval`
would make. Of an operation element by element the kind has no shapes in it: the same pull serves all sizes, also where NumPy
broadcast the operands (`wide`); then the cotangents are summed at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import GENERATED, state, user_source
from funcad.ir.aval import SCALAR_AVALS, Atom, LiteralAval, StackAval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.ir.trace import AbstractTrace, bind
from funcad.ir.tracer import Tracer, concrete_value, value_key
from funcad.masks.masked_rules import rule_of
from funcad.masks.masks import CALM
from funcad.memo import compared_by, remembers, table
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.loop import add_values
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import broadcast_to, reshape
from funcad.transforms.partial import TangentTrace, drop_unused_residuals
from funcad.unjitted.pulls import BY_ONES, FIRST, WrittenAhead, is_elementwise, ones_of, reads_of, recording, written_ahead

_MOST = 4096
kinds = table(
    "unjitted.kinds",
    "primitive and kinds of operands: what its rows keep, and their pull",
    _MOST,
)
UNKNOWN: Any = object()
# what is asked only where a pull is derived, which most processes never do
_interpreter = partial(import_module, "funcad.backends.interpreter")
_transpose = partial(import_module, "funcad.transforms.transpose")
INFIX = {add: "+", sub: "-", mul: "*"}


@remembers(1000)
def has_rows(primitive: Any) -> bool:
    """Has it a rule that can be split for operands of a kind? Not what calls programs, nor what has effects."""
    if primitive.primal_and_jvp is not None or primitive.linearize is not None:
        return False
    if primitive.effect or primitive.barrier or primitive.collective is not None:
        return False
    return primitive.jvp is not None and not primitive.passive


def input_of(trace: AbstractTrace, aval: Any) -> Tracer:
    if type(aval) is not LiteralAval:
        return trace.new_input(aval)
    variable = Var(aval)  # a LiteralAval, so that it may stand beside shaped operands, as the scalar does
    trace.inputs.append(variable)
    return Tracer(trace, variable)


def input_like(trace: AbstractTrace, value: Any) -> Tracer:
    """An input that stands for a value."""
    return input_of(trace, aval_of(value))


# -- cotangents by the numbers of the rows


class RowCotangents(list):
    """One for each row, or None; `own` are the numbers of those in buffers that nobody else holds.

    `mine`: is the cotangent that is being pulled in such a buffer?
    """

    __slots__ = ("own", "mine")
    own: set[int]
    mine: bool

    def add(self, n: int, ct: Any) -> None:
        old = self[n]
        if old is None:
            self[n] = ct
        elif n in self.own and type(old) is np.ndarray and type(ct) is np.ndarray and old.dtype == ct.dtype:
            np.add(old, ct, out=old)
        else:
            total = self[n] = add_values(old, ct)
            if type(total) is np.ndarray and total.ndim:
                self.own.add(n)


def fit(ct: Any, shape: tuple[int, ...]) -> Any:
    """The cotangent of what was broadcast."""
    given = ct.shape
    if given == shape:
        return ct
    extra = len(given) - len(shape)
    axes = (*range(extra), *[i + extra for i, n in enumerate(shape) if n == 1 != given[i + extra]])
    if not axes:
        return ct
    if type(ct) is Tracer:
        return reshape(reduce_sum(ct, axes=axes), shape=shape)
    return np.add.reduce(ct, axis=axes).reshape(shape)[()]


def fit_columns(ct: Any, shape: tuple[int, ...]) -> Any:
    """The same of many cotangents, along axis 0."""
    extra = ct.ndim - 1 - len(shape)
    axes = (*range(1, 1 + extra), *[i + 1 + extra for i, n in enumerate(shape) if n == 1 != ct.shape[i + 1 + extra]])
    return np.add.reduce(ct, axis=axes).reshape((len(ct), *shape)) if axes else ct


# -- pulls
#
# A pull is what is left of a rule: the linear part, transposed, as a function of the cotangent and of what a row keeps. It is
# written for plain arrays, for values of outer traces (`traced`: each call is an operation there) and for many cotangents at
# once (`columns`), each when it is first wanted.


class Pull:
    """Of rows of one kind: `run(cts, ct, numbers, kept)` adds to the cotangents of the operands.

    `ct` is the cotangent of the result, or a list of those of the results if there are `many`.
    """

    __slots__ = (
        *("rest", "part", "sources", "there", "begins", "wide", "run", "derived", "square", "free", "many"),
        *("asked", "late", "consts"),
    )

    def __init__(
        self,
        rest: Jaxpr | None,
        part: _RulePart | _WrittenPart | None,
        sources: Sequence[int],
        there: Sequence[int],
        wide: bool = False,
    ):
        self.rest: Any = rest  # (kept, distinct tangents) -> tangents of the results
        self.part = part  # what computes a part of what is kept, or None
        self.sources = tuple(sources)  # the numbers of what is kept, among operands, results, and what the parts computed
        self.there = tuple(there)  # the results that have tangents
        self.wide = wide  # NumPy broadcast the operands
        # consts and what is kept -> what `rest` reads, where that is computed on the way back
        self.late: Jaxpr | None = None
        self.consts: list[Any] = []
        self.many = len(there) > 1
        self.begins = rest is not None and begins_in(rest)
        self.free = False  # of shapes: element by element, so that it serves lanes
        self.asked = False  # did the rule ask whether a condition holds everywhere?
        self.square = False  # may the square of the result be known?
        self.derived: dict[Any, Any] = {}
        self.run: Any = self._several if self.many else self._first

    @property
    def n_kept(self) -> int:
        return len(self.sources)

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
        self.transpose(cts, (ct,), numbers, kept)

    def transpose(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
    ) -> None:
        """The linear part transposed as it is, on values of any kind."""
        n, m = len(kept), len(numbers)
        flags = [False] * n + [True] * m
        found = _transpose().transpose_eval(self.rest, flags, [*kept, *[None] * m], list(given), all_linear=True)
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

    def traced(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
    ) -> None:
        """The same where outer traces have a part in the values: the operations are recorded there."""
        if Tracer not in map(type, given) and Tracer not in map(type, kept):
            self.run(cts, given if self.many else given[0], numbers, kept)
            return
        run, one_shape = self._recording(given, len(numbers))
        if self.wide and one_shape:
            n = self.n_kept
            kept = [*[broadcast_to(k, kept[n]) for k in kept[:n]], *kept[n:]]
        run(cts, [c for c in given if c is not None] if self.many else given[0], numbers, kept)

    def _recording(self, given: Sequence[Any], m: int) -> tuple[Any, bool]:
        """What `run` is for traced values, with m operands; is what it records to have operands of one shape?"""
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
                program = self._transposed((False,))
                found = self.derived["columns"] = _written(program, False, self.wide, False, columns=True)
            found(cts, given[0], numbers, kept)
            return
        absent = tuple([c is None for c in given])
        found = self.derived.get(("columns", absent, size))
        if found is None:
            jaxpr, consts, n, m, which = self._transposed(absent)
            jaxpr = _interpreter().broadcast_scalars(jaxpr)
            batched = [False] * (len(consts) + n) + [True] * absent.count(False)
            batch = import_module("funcad.transforms.batch")
            derived, more, flags = batch.batch_jaxpr(jaxpr, size, tuple(batched), (True,) * len(which))
            derived = _without_sources(prune(derived))
            found = _written((derived, [*more, *consts], n, m, which), self.many, False, False)
            self.derived["columns", absent, size] = found
        found(cts, [c for c in given if c is not None] if self.many else given[0], numbers, kept)

    def _function(self, absent: tuple[bool, ...], traced: bool) -> Any:
        found = self.derived.get((absent, traced))
        if found is None:
            program = self.derived.get(absent)
            if program is None:
                program = self.derived[absent] = self._transposed(absent)
            found = self.derived[absent, traced] = _written(program, self.many, self.wide, traced)
        return found

    def _transposed(self, absent: tuple[bool, ...]) -> Any:
        """(the program, its constants, how many values it keeps and operands it has, and which it gives cotangents of)."""
        rest, n = self.rest, len(self.sources)
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


compared_by[Pull] = lambda pull: (pull.rest, pull.sources, pull.there)


class ByProgram(Pull):
    """Of one row: what its rule recorded when it ran on the values, transposed as it is."""

    __slots__ = ("stacks",)

    def __init__(self, rest: Jaxpr, n_kept: int, there: Sequence[int]):
        super().__init__(rest, None, range(n_kept), there)
        self.stacks = StackAval in map(type, (*rest.in_avals, *rest.out_avals))
        self.run = self.transpose if self.many else self._transpose

    def traced(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
    ) -> None:
        self.transpose(cts, given, numbers, kept)


def begins_in(rest: Jaxpr) -> bool:
    """May a mask begin in this linear program?"""
    return not all([e.primitive.reach in CALM and e.primitive.needs is None for e in rest.equations])


def add_read(
    cts: RowCotangents, ct: Any, number: int, primitive: Any, x: Var, others: Sequence[Any], params: dict[str, Any]
) -> None:
    """Elements of an array were read: their cotangents are added where they were."""
    old = cts[number]
    operands = [x, *others]
    if old is None:
        cts[number] = primitive.transpose(ct, *operands, **params)[0]
    else:
        adds, (_, *rest), where = primitive.adds(ct, *operands, **params)
        if number in cts.own and type(old) is np.ndarray and old.dtype == ct.dtype:
            adds.over(np, old, ct, *rest, **where)
            return
        cts[number] = adds(old, ct, *rest, **where)
    if type(cts[number]) is np.ndarray:
        cts.own.add(number)


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
    scope: dict[str, Any] = {"fit": fit_columns if columns else fit}
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
        value = f"fit({value}, f{j})" if wide else value
        lines += [f" n = numbers[{j}]", f" if cts[n] is None: cts[n] = {value}", f" else: cts.add(n, {value})"]
    if len(lines) == 1:
        lines.append(" pass")
    exec(_code("\n".join(lines)), scope)
    return scope["run"]


@remembers(_MOST)
def _code(text: str) -> Any:
    return compile(text, GENERATED, "exec")


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


class _RuleQuestion:
    """Where a rule asks whether a condition holds everywhere."""

    __slots__ = ("part", "number", "ways", "free")

    def __init__(self, part: _RulePart, number: int):
        self.part = part
        self.number = number  # of the condition
        self.ways: dict[bool, Any] = {}
        self.free = False


compared_by[_RuleQuestion] = lambda question: (question.part.program.jaxpr, question.part.reads, question.number)


def pull_of(
    key: tuple,
    primitive: Any,
    primals: Sequence[Any],
    rows: Sequence[Any],
    outs: Sequence[Any],
    params: dict,
    shape: Any,
    outer: bool = False,
) -> tuple[Any, list[Any]]:
    """(the pull of operands of the kind that the key says, what it keeps of these).

    In place of the pull None: the rule gives no tangent; False: it raises. `rows`, for tangents: None, or a number for each.
    `outer`: outer traces have a part in the values.
    """
    return _found(key, (primitive, primals, rows, outs, params, shape), [*primals, *outs], False, outer)


def pull_by_elements(
    key: tuple,
    primitive: Any,
    primals: Sequence[Any],
    rows: Sequence[Any],
    out: Any,
    params: dict,
    wide: bool,
    outer: bool = False,
) -> tuple[Any, list[Any]]:
    """The same of an operation element by element, whose key has no shapes; `wide`: NumPy broadcast the operands.

    In place of the pull False, if this cannot be said without shapes.
    """
    node: Any = kinds.get(key, UNKNOWN)
    rule: tuple = ()
    if node is False:
        return False, []
    if node is UNKNOWN or type(node) is _RuleQuestion:
        like: dict[int, Any] = {}
        given = [concrete_value(p) for p in primals]
        # a traced scalar stands beside arrays of rank 0 alone, unless NumPy broadcast it
        arrays = [type(p) is np.ndarray or type(p) is Tracer and p.aval.shape != () for p in given]
        size = () if not wide and any([row is not None and not array for row, array in zip(rows, arrays)]) else 2
        for p, value, array in zip(primals, given, arrays):
            if id(p) not in like:  # new objects: the value of a traced number may be the object that another operand is
                like[id(p)] = np.empty(size, aval_of(p).dtype) if wide or array else _like(aval_of(value))
        examples = [like[id(p)] for p in primals]
        some = np.ndarray in map(type, examples)
        rule = primitive, examples, rows, [np.empty(size, aval_of(out).dtype) if some else out], params, None
    known = [*primals, out]
    if wide and outer:  # what is recorded has operands of one shape
        known = [broadcast_to(x, out.shape) for x in known]
    return _found(key, rule, known, True, outer, wide)


def _found(
    key: tuple,
    rule: tuple,
    known: list[Any],
    free: bool,
    outer: bool,
    wide: bool = False,
) -> tuple[Any, list[Any]]:
    node = kinds.get(key, UNKNOWN)
    if node is UNKNOWN:
        node = _derived([], rule, wide)
        node = kinds.put(key, node if not (free and node) or node.free else False)
    answers: list[tuple[bool, int]] = []
    while type(node) is _RuleQuestion:
        known += node.part.computed(known, outer)
        condition: Any = concrete_value(known[node.number])
        # of values that nobody knows the rule says what holds always
        if type(condition) is Tracer:
            answer = condition.owner.decide is not None and condition.owner.decide(condition)
        else:
            answer = bool(np.all(condition))
        answers.append((answer, len(known)))
        found = node.ways.get(answer, UNKNOWN)
        if found is UNKNOWN:
            found = _derived(answers, rule, wide)
            found = node.ways[answer] = found if not (free and found) or found.free else False
            if isinstance(found, Pull):
                found.asked = True
        node = found
    if not node:
        return node, []
    if node.part is not None:
        known += node.part.computed(known, outer)
    return node, [known[i] for i in node.sources]


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


def _ahead(rule: tuple, wide: bool) -> Any:
    """The pull of a table, if it reads no more than the rule would keep; None: it is to be derived."""
    primitive, primals, rows, outs, params, shape = rule
    if primitive.multiple or primitive.adds is not None or shape is not None:
        return None
    first: dict[Any, int] = {}
    pattern = tuple([None if row is None else first.setdefault(row, i) for i, row in enumerate(rows)])
    if len(primals) > 1:
        ids = list(map(id, primals))
        # one value, of which tables know no more than that it is two operands
        if len(set(ids)) < len(ids) and any([pattern[i] != pattern[ids.index(p)] for i, p in enumerate(ids)]):
            return None
    avals = [aval_of(p) for p in primals]
    if is_elementwise(primitive) and not wide:  # what NumPy would have to broadcast is refused by the rule
        if any([row is not None and a.shape != aval_of(outs[0]).shape for row, a in zip(rows, avals)]):
            return None
    ones = ones_of([a.shape for a in avals] + [aval_of(o).shape for o in outs]) if primitive in BY_ONES else ()
    found = written_ahead(primitive, pattern, avals, params, ones)
    if found is None:
        return None
    # what NumPy computes of Python's numbers has 64 bits
    if found.first is not None and any([a.weak for a in avals]) and aval_of(outs[0]).dtype.char not in "dD":
        return None
    return WrittenPull(found, rule, pattern, avals, ones, len(first), wide)


class _WrittenPart:
    """What a table has for the place where an operation stands: it computes what the row keeps."""

    __slots__ = ("function", "reads", "bound")

    def __init__(self, function: Any, n: int, bound: dict[str, Any]):
        reads = reads_of(function, 1)
        self.function = function
        self.reads = [r if r >= 0 else n + ~r for r in reads if type(r) is int]
        self.bound = tuple([bound[r] for r in reads if type(r) is str])

    def computed(self, known: Sequence[Any], outer: bool = False) -> list[Any]:
        token = suppress_warnings()
        try:
            function = recording(self.function) if outer else self.function
            found = function(np, *[known[i] for i in self.reads], *self.bound)
        finally:
            restore_warnings(token)
        return list(found) if type(found) is tuple else [found]


class WrittenPull(Pull):
    """A pull that a table has; the linear part of its rule is derived where masks or linear programs ask for it."""

    __slots__ = ("function", "bound", "rule", "kind", "recorded", "by_rule")

    def __init__(self, found: WrittenAhead, rule: tuple, pattern: tuple, avals: list, ones: tuple, m: int, wide: bool):
        primitive, primals, rows, outs, params, _ = rule
        n, values = len(primals), [r for r in found.reads if type(r) is int]
        bound = {"shapes": tuple([a.shape for a in avals]), "params": params}
        part = None if found.first is None else _WrittenPart(found.first, n, bound)
        sources = [n + 1 + r - FIRST if r >= FIRST else r if r >= 0 else n + ~r for r in values]
        super().__init__(None, part, sources, (0,), wide)
        whole = "shapes" not in found.reads and (part is None or not part.bound)
        self.begins, self.free = found.begins, whole and primitive.emit is not None
        self.square = primitive.square is not None
        self.function: Any = found.function
        self.bound: Any = tuple([bound[r] for r in found.reads if type(r) is str])
        ids = list(map(id, primals))
        self.rule: Any = primitive, [ids.index(i) for i in ids], avals, rows, [aval_of(o) for o in outs], params
        self.kind: Any = pattern, ones, found.reads
        self.recorded: Any = None
        self.by_rule: Any = None
        self.run = self._adding(found.function, m)

    def _adding(self, function: Any, m: int, fit: Any = fit) -> Any:
        """The function as rows run it: what it gives is added to the cotangents."""
        n, bound, wide = len(self.sources), self.bound, self.wide

        def run(cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
            found = function(np, ct, *(kept[:n] if wide else kept), *bound)
            for j, c in enumerate((found,) if m == 1 else found):
                if c is not None:
                    if wide:
                        c = fit(c, kept[n + 1 + j])
                    number = numbers[j]
                    if cts[number] is None:
                        cts[number] = c
                    else:
                        cts.add(number, c)

        return run

    def linear(self) -> Pull:
        """The pull by the rule, which reads the same."""
        if self.by_rule is None:
            primitive, alike, avals, rows, outs, params = self.rule
            like = [_like(a) for a in avals]
            examples = [like[i] for i in alike]  # rules look whether two are one
            rule = primitive, examples, rows, [_like(a) for a in outs], params, None
            found = self.by_rule = _derived([], rule, self.wide, None if self.part else self.sources, False)
            found.free = self.free
        return self.by_rule

    def _recording(self, given: Sequence[Any], m: int) -> tuple[Any, bool]:
        if self.recorded is None:
            self.recorded = self._adding(recording(self.function), m)
        return self.recorded, "impl" in self.function.__code__.co_names

    def columns(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
        size: int,
    ) -> None:
        run: Any = self.derived.get("columns")
        if run is None:
            function: Any = self.function
            if not self.free:
                pattern, ones, reads = self.kind
                found = written_ahead(self.rule[0], pattern, self.rule[2], self.rule[-1], ones, True)
                function = found.function if found is not None and found.reads == reads else None
            run = False if function is None else self._adding(function, len(numbers), fit_columns)
            self.derived["columns"] = run
        if run is False:
            self.linear().columns(cts, given, numbers, kept, size)
        else:
            run(cts, given[0], numbers, kept)

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return self.linear().tangents(kept, ts)


compared_by[WrittenPull] = lambda pull: (pull.function, pull.sources, pull.bound)


def _like(aval: Any) -> Any:
    """A value of this aval that takes no memory."""
    if type(aval) is not LiteralAval:
        return np.broadcast_to(np.zeros((), aval.dtype), aval.shape)
    number = aval.dtype.type(0)
    return number.item() if aval.weak else number


def _derived(
    answers: Sequence[tuple[bool, int]],
    rule: tuple,
    wide: bool,
    reads: tuple[int, ...] | None = None,
    tables: bool = True,
) -> Any:
    """The pull, or a question, found by the rule or in the `tables`; `reads`: what it keeps, and no more."""
    if tables and not answers:
        found = _ahead(rule, wide)
        if found is not None:
            return found
    outer, inner = _Deciding(answers), LinearTrace("linearize")
    saved, state.source = state.source, state.source or user_source()  # what is derived has no lines
    try:
        return _cut(outer, inner, answers, wide, rule, reads)
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
    rule: tuple,
    reads: tuple[int, ...] | None,
) -> Any:
    """The part of a rule after what has been computed for its answers."""
    primitive, primals, rows, outs, params, shape = rule
    n_known = answers[-1][1] if answers else 0
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
        question = _RuleQuestion(_RulePart(outer, equations, new, numbers), (numbers | found)[outer.asked_for])
        question.free = _by_elements(equations)
        return question
    for t, o in zip(results, outs):
        if t is not None and (type(t) is not Tracer or t.owner is not inner or t.aval != aval_of(o).update()):
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
    # what is computed element by element of no more than it gives may wait until the way back
    if part is not None and reads is None and not answers and _by_elements(equations):
        if _is_cheap_to_keep(part, atoms, fresh, numbers):
            reads = tuple(dict.fromkeys([*part.reads, *[numbers[a] for a in atoms if a in numbers]]))
    if reads is not None:
        of_number = {n: a for a, n in reversed(numbers.items()) if n in reads}
        pull = Pull(rest, None, reads, there, wide)
        plain = tuple([e._replace(source=None) for e in equations])
        captured = dict(outer.captured.values())
        pull.consts = list(captured.values())
        pull.late = prune(Jaxpr((*captured, *[of_number[n] for n in reads]), plain, tuple(atoms)))
    else:
        numbers |= {a: number + i for i, a in enumerate(fresh)}
        pull = Pull(rest, part, [numbers[a] for a in atoms], there, wide)
    pull.free = _by_elements(equations) and _by_elements(rest.equations)
    pull.square = primitive.square is not None
    return pull


def _is_cheap_to_keep(
    part: _RulePart,
    atoms: Sequence[Any],
    fresh: Sequence[Any],
    numbers: Mapping[Any, int],
) -> bool:
    """Are what the part reads no more and no larger values than what it computes, so that it may wait until going back?"""
    if part.consts:
        return False
    others = {numbers[a] for a in atoms if a in numbers}
    avals = {n: a.aval for a, n in numbers.items()}
    read = [avals[n] for n in part.reads if n not in others]
    return sum([a.dtype.itemsize for a in read]) <= sum([a.aval.dtype.itemsize for a in fresh])


def _by_elements(equations: Sequence[Equation]) -> bool:
    """Is each an operation element by element, which says no shape?"""
    return all([e.primitive.emit is not None and "shape" not in e.params for e in equations])


def kind_of(x: Any) -> Any:
    """What a key says of an operand."""
    if type(x) is np.ndarray:
        return x.shape, x.dtype.char
    if type(x) in SCALAR_AVALS:
        return type(x)
    aval = aval_of(x)
    return aval.shape, aval.dtype.char, aval.weak

"""Padding: turns whose slices grow or shrink, as over a triangle, become turns of one shape, so that they can be rolled.

Idea: a slice `x[lo:hi]` whose length differs from turn to turn is read as far as any turn reads the axis, and a value that was
made of it has that length: its elements stand where they stand in x, and what is outside lo and hi is anything. Where that
would matter, in sums, products of matrices and writes, it is replaced by zeros or by what was there. So each equation is
rewritten by itself: operands that agree in lo and hi stay padded, all others are cut or placed.

Invariants: a padded value holds, from lo to hi, the bits of the value that it stands for; what leaves the turns is cut again;
no element that is outside reaches a result. Traps: a broadcast says a length but no place, so it waits for an operand that has
one; each turn asks for its masks anew, since a mask that an earlier turn made would make them differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects
from funcad.passes.turns import INDEXED, TURNS, index_of, stretches
from funcad.primitives.arithmetic import add
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_place_p, basic_update_p
from funcad.primitives.comparison import and_, ge, lt, select
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.families import reduce_sum_p
from funcad.primitives.loop import table_p
from funcad.primitives.shape import broadcast_in_dim, slice_p

WORSE = 4.0  # times as many elements may be read as without padding
NEARLY = 0.875  # of an axis: all of it is as quick to read, and simpler
_INT = np.dtype(np.int64)


class Reach(NamedTuple):
    """The part of axes of one length that the slices of all turns read or write."""

    start: int
    size: int


class Span(NamedTuple):
    """Of an axis, the elements in reach; those from lo to hi are the value's; `open`: at which ends others never are."""

    reach: Reach
    lo: int
    hi: int
    open: tuple[bool, bool]

    @property
    def size(self) -> int:
        return self.reach.size

    @property
    def index(self) -> tuple[int, int, int]:
        """Where the value is in its padded form."""
        return self.lo - self.reach.start, self.hi - self.lo, 1

    def same(self, other: Span | None, reach: bool = True) -> bool:
        """Are they the same elements, in the same reach?"""
        return other is not None and self[1:3] == other[1:3] and (not reach or self.reach == other.reach)


Spans = tuple[Span | None, ...]  # of each axis


class Padded(NamedTuple):
    var: Var
    spans: Spans


class RaggedTurns(NamedTuple):
    """A stretch of turns, with the slots in which shapes differ and the entries of indices whose lengths do."""

    start: int
    period: int
    end: int
    ragged: frozenset[int]
    entries: dict[int, dict[int, tuple[bool, bool]]]  # slot -> entry -> does it always begin, always end where all do?
    reaches: dict[int, Reach]  # by the length of the axis


def pad(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the turns of triangles padded, or the same program.

    >>> import numpy as np, funcad
    >>> from funcad.passes.ragged import pad
    >>> def f(x):
    ...     return sum([x[i] * np.sum(x[:i]) for i in range(1, 30)])
    >>> program = funcad.make_jaxpr(f)(np.ones(30)).jaxpr
    >>> {v.aval.shape for e in program.equations for v in e.outputs} > {(3,), (4,), (5,)}
    True
    >>> sorted({v.aval.shape for e in pad(program).equations for v in e.outputs})
    [(), (30,)]
    """
    words, exact = _words(jaxpr.equations)
    found = []
    for start, period, end in stretches(words):
        if exact[start : end - period] != exact[start + period : end]:
            region = _region(jaxpr.equations, start, period, end)
            found += [] if region is None else [region]
    return _Padding(jaxpr, found).run() if found else jaxpr


def _words(equations: Sequence[Equation]) -> tuple[list[int], list[int]]:
    """Numbers for each equation, equal for those that differ in lengths alone, and for those that differ in nothing."""
    words: dict[object, int] = {}
    numbers: dict[object, int] = {}
    word: list[int] = []  # by the second number
    exact: list[int] = []
    for i, equation in enumerate(equations):
        primitive, outputs = equation.primitive, equation.outputs
        key: tuple[object, ...] = (i,)
        if outputs and not (primitive.effect or primitive.multiple and equation_has_effects(equation)):
            aval = outputs[0].aval
            key = primitive, aval.shape if isinstance(aval, Aval) else None
            if primitive in INDEXED:
                key = *key, *[e[1] if type(e) is tuple else type(e) for e in index_of(equation)]
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(numbers)
            if len(key) > 1:
                shape: Any = key[1]
                key = primitive, -1 if shape is None else len(shape), *[0 if type(n) is int else n for n in key[2:]]
            word.append(words.setdefault(key, len(words)))
        exact.append(number)
    return [word[n] for n in exact], exact


def _region(equations: Sequence[Equation], start: int, period: int, end: int) -> RaggedTurns | None:
    """The stretch, if lengths differ in it often enough, and padding makes it not much more work."""
    ragged, spans = set(), dict[int, dict[int, list[tuple[int, int]]]]()  # slot -> entry -> from where to where
    changes: set[int] = set()
    axes: dict[int, list[int]] = {}  # by slot
    rows: dict[int, list[list[int]]] = {}  # lengths
    for q in range(period):
        turns = equations[start + q : end : period]
        avals = [[a.aval for a in (*e.inputs, *e.outputs)] for e in turns]
        if not all([type(a) is Aval or a.shape == () for row in avals for a in row]):
            return None
        shapes = [[a.shape for a in row] for row in avals]
        indexed = turns[0].primitive in INDEXED
        lengths = [[e[1] if type(e) is tuple else 1 for e in index_of(t)] if indexed else [] for t in turns]
        found = [t for t in range(1, len(turns)) if shapes[t] != shapes[t - 1] or lengths[t] != lengths[t - 1]]
        if not found:
            continue
        ragged.add(q)
        changes.update(found)
        if indexed:
            wholes = [_whole(t) for t in turns]
            axes[q], rows[q], spans[q] = wholes[0], lengths, {}
            for n, size in enumerate(wholes[0]):
                own = [index_of(t)[n] for t in turns]
                if type(own[0]) is tuple and len({s[1] for s in own}) > 1:
                    if any([s[2] != 1 for s in own]) or any([w[n] != size for w in wholes]):
                        return None
                    spans[q][n] = [(s[0], s[0] + s[1]) for s in own]
    if len(changes) < TURNS or not any(spans.values()):
        return None
    met: dict[int, list[tuple[int, int]]] = {}  # by the length of the axis
    for q, own in spans.items():
        for n, each in own.items():
            met.setdefault(axes[q][n], []).extend([s for s in each if s[0] < s[1]])
    reaches = {}
    for size, each in met.items():
        first = min([lo for lo, _ in each])
        last = max([hi for _, hi in each])
        whole = last - first > NEARLY * size
        reaches[size] = Reach(0, size) if whole else Reach(first, last - first)
    elements = padded = 1
    entries: dict[int, dict[int, tuple[bool, bool]]] = {}
    for q, own in spans.items():
        entries[q], window = {}, 1
        for n, each in own.items():
            first, size = reaches[axes[q][n]]
            low = all([lo == first for lo, _ in each])
            high = all([hi == first + size for _, hi in each])
            entries[q][n] = low, high
            window *= size
        rest = prod([n for i, n in enumerate(rows[q][0]) if i not in own])
        padded += window * rest * len(rows[q])
        elements += rest * sum([prod([row[n] for n in own]) for row in rows[q]])
    return None if padded > WORSE * elements else RaggedTurns(start, period, end, frozenset(ragged), entries, reaches)


def _whole(equation: Equation) -> list[int]:
    """The lengths of the axes to which the entries of the index belong, -1 for a new one."""
    place = equation.primitive is basic_place_p
    sizes = iter(equation.params["shape"] if place else equation.inputs[0].aval.shape)
    return [-1 if e is None else next(sizes) for e in index_of(equation)]


class _Padding:
    """One program, written anew."""

    def __init__(self, jaxpr: Jaxpr, regions: list[RaggedTurns]):
        self.jaxpr = jaxpr
        self.regions = regions
        self.equations: list[Equation] = []
        self.padded: dict[Any, Padded] = {}
        self.waiting: dict[Any, Equation] = {}  # results of which only the length is known
        self.missing: dict[Any, Equation | None] = {}  # results that have no form without padding yet
        self.tables: dict[int, Var] = {}
        self.masks: dict[Any, Var] = {}  # of this turn

    def run(self) -> Jaxpr:
        equations, i = self.jaxpr.equations, 0
        for region in self.regions:
            for equation in equations[i : region.start]:
                self.plain(equation)
            self.reaches = region.reaches
            for _, size in region.reaches.values():
                if size not in self.tables:
                    data = np.arange(size, dtype=_INT).tobytes()
                    self.tables[size] = self.add(table_p, [], data=data, dtype=_INT)
            for i in range(region.start, region.end):
                q = (i - region.start) % region.period
                if q == 0:
                    self.masks.clear()
                self.source = equations[i].source
                if q not in region.ragged or not self.rewritten(equations[i], region.entries.get(q, {})):
                    self.plain(equations[i])
            i = region.end
        for equation in equations[i:]:
            self.plain(equation)
        outputs = [self.cut(o) for o in self.jaxpr.outputs]
        return Jaxpr(self.jaxpr.inputs, tuple(self.equations), tuple(outputs))

    source: Any = None
    reaches: dict[int, Reach]

    def add(self, primitive: Any, inputs: Sequence[Any], **params: Any) -> Var:
        output = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params))
        self.equations.append(Equation(primitive, tuple(inputs), params, (output,), self.source))
        return output

    def plain(self, equation: Equation) -> None:
        """The equation as it was."""
        self.equations.append(equation._replace(inputs=tuple(map(self.cut, equation.inputs))))

    # -- the two forms of a value

    def cut(self, atom: Any) -> Any:
        """The value as it was."""
        if atom not in self.missing:
            return atom
        equation = self.missing.pop(atom)
        if equation is not None:
            self.plain(equation)
            return atom
        found = self.padded[atom]
        index = tuple([(0, n, 1) if s is None else s.index for n, s in zip(found.var.aval.shape, found.spans)])
        self.equations.append(Equation(basic_index_p, (found.var,), {"index": index}, (atom,), self.source))
        return atom

    def spans(self, atom: Any) -> Spans | None:
        found = self.padded.get(atom) if type(atom) is Var else None
        return None if found is None else found.spans

    def form(self, atom: Any, spans: Spans) -> Any:
        """The value with these spans."""
        if type(atom) is not Var or not atom.aval.shape or not any(spans):
            return self.cut(atom)
        found = self.padded.get(atom)
        for reach in (True, False) if found is not None else ():
            if all([a is b or a is not None and a.same(b, reach) for a, b in zip(found.spans, spans)]):
                return found.var if reach else self.in_reach(found, spans)
        waiting = self.waiting.get(atom)
        if waiting is not None:
            shape = tuple([n if s is None else s.size for n, s in zip(atom.aval.shape, spans)])
            if waiting.primitive is broadcast_in_dim:
                (a,), axes = waiting.inputs, waiting.params["axes"]
                own = [None if n == 1 else spans[axis] for n, axis in zip(a.aval.shape, axes)]
                made = self.add(broadcast_in_dim, [self.form(a, tuple(own))], shape=shape, axes=axes)
            else:
                made = self.add(waiting.primitive, [self.form(a, spans) for a in waiting.inputs], **waiting.params)
            if found is None:
                self.padded[atom] = Padded(made, spans)
            return made
        shape = tuple([n if s is None else s.size for n, s in zip(atom.aval.shape, spans)])
        index = tuple([(0, n, 1) if s is None else s.index for n, s in zip(atom.aval.shape, spans)])
        return self.add(basic_place_p, [self.cut(atom)], index=index, shape=shape)

    def in_reach(self, found: Padded, spans: Spans) -> Any:
        """The same elements among fewer or more others, as turns elsewhere reach further, or less far."""
        shape = found.var.aval.shape
        read, put, wide = [[(0, n, 1) for n in shape] for _ in range(2)] + [list(shape)]
        for n, (own, span) in enumerate(zip(found.spans, spans)):
            if own is not None and span is not None:
                (a, size), (b, wide[n]) = own.reach, span.reach
                first, count = max(a, b), min(a + size, b + wide[n]) - max(a, b)
                read[n], put[n] = (first - a, count, 1), (first - b, count, 1)
        value = found.var
        if read != [(0, n, 1) for n in shape]:
            value = self.add(basic_index_p, [value], index=tuple(read))
        if put == [(0, n, 1) for n in wide]:
            return value
        return self.add(basic_place_p, [value], index=tuple(put), shape=tuple(wide))

    def made(self, equation: Equation, var: Var, spans: Spans) -> bool:
        """The result of the equation has a padded form."""
        (output,) = equation.outputs
        if any(spans):
            self.padded[output] = Padded(var, spans)
            self.missing[output] = None
        else:
            made = self.equations[-1]
            assert made.outputs == (var,)
            self.equations[-1] = made._replace(outputs=(output,))
        return True

    # -- masks

    def mask(self, spans: Spans, shape: tuple) -> Any:
        """True where an element is the value's; None where all are."""
        found = None
        for axis, span in enumerate(spans):
            if span is None or span.open == (True, True):
                continue
            key = axis, shape, span
            if key not in self.masks:
                numbers, mask = self.tables[span.size], None
                for ask, bound, needless in ((ge, span.lo, span.open[0]), (lt, span.hi, span.open[1])):
                    if not needless:
                        part = self.add(ask, [numbers, Literal(np.int64(bound - span.reach.start))])
                        mask = part if mask is None else self.add(and_, [mask, part])
                if len(shape) > 1:
                    mask = self.add(broadcast_in_dim, [mask], shape=shape, axes=(axis,))
                self.masks[key] = mask
            mine = self.masks[key]
            found = mine if found is None else self.add(and_, [found, mine])
        return found

    def cleared(self, atom: Any, spans: Spans, axes: Sequence[int]) -> Any:
        """The value with these spans, and zeros outside those of some axes."""
        form = self.form(atom, spans)
        mask = self.mask(tuple([s if i in axes else None for i, s in enumerate(spans)]), form.aval.shape)
        return form if mask is None else self.add(select, [mask, form, Literal(form.aval.dtype.type(0))])

    # -- equations

    def rewritten(self, equation: Equation, entries: dict[int, tuple[bool, bool]]) -> bool:
        """Is the equation written with padded operands or a padded result? Otherwise nothing has happened."""
        primitive = equation.primitive
        if primitive in INDEXED:
            return self.indexed(equation, entries)
        if primitive is broadcast_in_dim:
            return self.waits(equation) if self.spans(equation.inputs[0]) is None else self.spread(equation)
        if primitive.emit is not None and not primitive.multiple and len(equation.outputs) == 1:
            return self.element(equation)
        if primitive is dot_general_p:
            return self.product(equation)
        if primitive is reduce_sum_p:
            spans = self.spans(equation.inputs[0])
            if spans is None:
                return False
            axes = equation.params["axes"]
            made = self.add(reduce_sum_p, [self.cleared(equation.inputs[0], spans, axes)], **equation.params)
            return self.made(equation, made, tuple([s for i, s in enumerate(spans) if i not in axes]))
        return False

    def waits(self, equation: Equation) -> bool:
        (output,) = equation.outputs
        self.waiting[output] = self.missing[output] = equation
        return True

    def spread(self, equation: Equation) -> bool:
        """A padded value that is broadcast says the place of its own axes."""
        (a,), axes, shape = equation.inputs, equation.params["axes"], list(equation.params["shape"])
        spans: list[Span | None] = [None] * len(shape)
        for axis, span in zip(axes, self.spans(a) or ()):
            if span is not None:
                spans[axis], shape[axis] = span, span.size
        made = self.add(broadcast_in_dim, [self.form(a, self.spans(a) or ())], shape=tuple(shape), axes=axes)
        return self.made(equation, made, tuple(spans))

    def element(self, equation: Equation) -> bool:
        shape = equation.outputs[0].aval.shape
        arrays = [a for a in equation.inputs if type(a) is Var]
        if not shape or any([a.aval.shape != shape for a in arrays]):
            return False
        spans = next((s for a in arrays if (s := self.spans(a)) is not None), None)
        if spans is None:
            return all([a in self.waiting for a in arrays]) and self.waits(equation)
        made = self.add(equation.primitive, [self.form(a, spans) for a in equation.inputs], **equation.params)
        return self.made(equation, made, spans)

    def product(self, equation: Equation) -> bool:
        (contracted, batch) = equation.params["dimension_numbers"]
        sides: list[list[Span | None]] = [list(self.spans(a) or [None] * len(a.aval.shape)) for a in equation.inputs]
        if not any([s for side in sides for s in side]):
            return False
        for pairs in (contracted, batch):
            for i, j in zip(*pairs):
                sides[0][i] = sides[0][i] or sides[1][j]
                sides[1][j] = sides[0][i]
        operands = [self.cleared(a, tuple(side), axes) for a, side, axes in zip(equation.inputs, sides, contracted)]
        free = [[s for i, s in enumerate(side) if i not in (*contracted[k], *batch[k])] for k, side in enumerate(sides)]
        spans = (*[sides[0][i] for i in batch[0]], *free[0], *free[1])
        return self.made(equation, self.add(dot_general_p, operands, **equation.params), spans)

    def indexed(self, equation: Equation, entries: dict[int, tuple[bool, bool]]) -> bool:
        primitive, index = equation.primitive, index_of(equation)
        whole = _whole(equation)
        kept: list[Span | None] = []  # of the axes of what the index selects
        wide: list[Any] = []
        for n, entry in enumerate(index):
            if n in entries:
                first, size = reach = self.reaches[whole[n]]
                lo, hi = [min(max(at, first), first + size) for at in (entry[0], entry[0] + entry[1])]  # it may be empty
                wide.append((first, size, 1))
                kept.append(Span(reach, lo, hi, entries[n]))
            else:
                wide.append(entry)
                if type(entry) is not int:
                    kept.append(None)
        spans = tuple(kept)
        reads = primitive is basic_index_p or primitive is slice_p
        if not any(spans) or self.spans(equation.inputs[0]) is not None and primitive is not basic_place_p:
            return False
        if reads:
            made = self.add(basic_index_p, [self.cut(equation.inputs[0])], index=tuple(wide))
            return self.made(equation, made, spans)
        value = equation.inputs[-1]
        if type(value) is not Var or len(value.aval.shape) != len(spans):
            return False
        if primitive is basic_place_p:
            made = self.add(
                basic_place_p,
                [self.cleared(value, spans, range(len(spans)))],
                index=tuple(wide),
                shape=equation.params["shape"],
            )
            return self.made(equation, made, ())
        target, value = self.cut(equation.inputs[0]), self.form(value, spans)
        everything = wide == [(0, n, 1) for n in target.aval.shape]
        old = target if everything else self.add(basic_index_p, [target], index=tuple(wide))
        if primitive is basic_add_p:
            value = self.add(add, [old, value])
        mask = self.mask(spans, old.aval.shape)
        if mask is not None:
            value = self.add(select, [mask, value, old])
            if everything:
                return self.made(equation, value, ())
        return self.made(equation, self.add(basic_update_p, [target, value], index=tuple(wide)), ())

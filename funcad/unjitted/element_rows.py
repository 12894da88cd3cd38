"""Rows of reads and writes of elements: their cotangents are added where they were, and cleared, in one buffer.

Idea: a loop that reads or writes an array element by element has a backward pass of the same order, if that of a read is work
of the size of what was read. So the array's cotangent is added up in a buffer of its own, and a write clears a part of it. The
index is kept in the row; no kind tells indices apart. Invariant: a cotangent is written only in a buffer that was allocated
here, and that nobody else holds.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from funcad.host.progress import collector
from funcad.host.where import internal, open_traces, state
from funcad.ir.aval import Aval, shape_of
from funcad.ir.jaxpr import Var
from funcad.ir.tracer import Tracer
from funcad.memo import remembers
from funcad.primitives.basic_indexing import (
    basic_add_p,
    basic_index_p,
    basic_place_p,
    basic_shape,
    basic_update_p,
    gather,
    python_index,
    scatter,
    stack_p,
)  # fmt: skip
from funcad.primitives.shape import concatenate, reshape, slice_p
from funcad.unjitted.kinds import RowCotangents, add_read

_array, _zeros = np.array, np.zeros  # in the module each may be a door, which costs a call of Python (doors/)


@remembers(4096)
def variable(shape: tuple[int, ...], dtype: np.dtype) -> Var:
    return Var(Aval(shape, dtype if dtype.isnative else dtype.newbyteorder("=")))


class _ElementRow:
    """What three kinds of rows have in common, which keep the index as it is: it would make a kind of each.

    `run(cts, ct, numbers, kept)` adds to the cotangents of the operands, as pulls do; `back(ct, *kept)` gives those of
    the operands in operations that are recorded, and `tangents` those of the result.
    """

    __slots__ = ()
    run: Any
    back: Any
    there: tuple[int, ...] = (0,)
    sources = ()
    many = free = wide = False
    over = direct = None
    begins = plain = True
    n_kept = 0

    def traced(self, cts: RowCotangents, given: Sequence[Any], numbers: Sequence[int], kept: Sequence[Any]) -> None:
        for n, c in zip(numbers, self.back(given[0], *kept)):
            cts.add(n, c)

    def columns(self, cts: RowCotangents, given: Any, numbers: Sequence[int], kept: Sequence[Any], size: int) -> None:
        """Along axis 0 of all arrays the cotangents are counted."""
        self.run(cts, given[0], numbers, (((0, size, 1), *kept[0]), (size, *kept[1]), *kept[2:]))


class _ReadRow(_ElementRow):
    """The pull of `x[index]`, of which rows keep the index, and shape and dtype of x."""

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        index, shape, dtype = kept
        (n,) = numbers
        buffer = cts[n]
        where = index if len(index) == 1 and type(index[0]) is int else python_index(index)
        # the first read makes the buffer, later ones add to it
        if buffer is None:
            cts[n] = buffer = _zeros(shape, ct.dtype)
            cts.own.add(n)
            buffer[where] = ct
        elif n in cts.own and buffer.dtype is ct.dtype:
            buffer[where] += ct
        else:
            add_read(cts, ct, n, basic_index_p, variable(shape, dtype), (), {"index": index})

    def back(self, ct: Any, index: Any, shape: Any, dtype: Any) -> Sequence[Any]:
        return basic_index_p.transpose(ct, variable(shape, dtype), index=index)  # type: ignore[misc]

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return [basic_index_p(ts[0], index=kept[0])]


class _WriteRow(_ElementRow):
    """The pull of an array of which the elements at an index were written; rows keep the index, and what `_ReadRow` keeps."""

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        self.cleared(cts, ct, numbers, python_index(kept[0]))

    def cleared(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], where: tuple) -> None:
        """The cotangent of what was written, and of the array without it."""
        # somebody else may hold it: the user who gave it, or another row; operations on arrays of rank 0 give scalars
        if cts.at not in cts.own or type(ct) is not np.ndarray:
            ct = _array(ct)
        if len(numbers) > 1:
            c = ct[where]
            cts.add(numbers[1], c.copy() if type(c) is np.ndarray else c)
        ct[where] = 0
        n = numbers[0]
        if cts[n] is None:
            cts[n] = ct
            cts.own.add(n)
        else:
            cts.add(n, ct)

    def back(self, ct: Any, index: Any, shape: Any, dtype: Any) -> Sequence[Any]:
        x, u = variable(shape, dtype), variable(basic_shape(index), dtype)
        return basic_update_p.transpose(ct, x, u, index=index)  # type: ignore[misc]

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        index, _, dtype = kept
        written = ts[1] if len(ts) > 1 else _zeros(basic_shape(index), dtype)[()]
        return [basic_update_p(ts[0], written, index=index)]


class _WritePlacesRow(_WriteRow):
    """The same at arrays of integers, one for each of the leading axes, that name each place once."""

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        self.cleared(cts, ct, numbers, kept[0])

    def columns(self, cts: RowCotangents, given: Any, numbers: Sequence[int], kept: Sequence[Any], size: int) -> None:
        self.cleared(cts, given[0], numbers, (slice(None), *kept[0]))

    def back(self, ct: Any, places: Any, shape: Any, dtype: Any) -> Sequence[Any]:
        written = gather(ct, *places, unique=True)
        nothing = _zeros(shape_of(written), dtype)
        return [scatter(ct, nothing, *places, unique=True), written]

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        places, shape, dtype = kept
        written = ts[1] if len(ts) > 1 else _zeros((*places[0].shape, *shape[len(places) :]), dtype)
        return [scatter(ts[0], written, *places, unique=True)]


class _AddRow(_ElementRow):
    """The pull of an array to whose elements at an index something was added; rows keep what those of a write keep."""

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        self.added(cts, ct, numbers, python_index(kept[0]))

    def added(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], where: tuple) -> None:
        if len(numbers) > 1:
            c = ct[where]
            cts.add(numbers[1], c.copy() if type(c) is np.ndarray else c)
        n = numbers[0]
        if cts[n] is None:
            cts[n] = ct
            if cts.at in cts.own:  # and nobody else holds it
                cts.own.add(n)
        else:
            cts.add(n, ct)

    def back(self, ct: Any, index: Any, *_: Any) -> Sequence[Any]:
        return [ct, basic_index_p(ct, index=index)]

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return [ts[0] if len(ts) < 2 else basic_add_p(*ts, index=kept[0])]


class _AddPlacesRow(_AddRow):
    """The same at arrays of integers, one for each of the leading axes; a place may come more than once."""

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        self.added(cts, ct, numbers, kept[0])

    def columns(self, cts: RowCotangents, given: Any, numbers: Sequence[int], kept: Sequence[Any], size: int) -> None:
        self.added(cts, given[0], numbers, (slice(None), *kept[0]))

    def back(self, ct: Any, places: Any, *_: Any) -> Sequence[Any]:
        return [ct, gather(ct, *places)]

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return [ts[0] if len(ts) < 2 else scatter(*ts, *kept[0], mode="add")]


class _PickRow(_ElementRow):
    """The pull of elements that stand at an index of an array of zeros, or of values without a tangent."""

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        c = ct[python_index(kept[0])]
        cts.add(numbers[0], c.copy() if cts.at in cts.own and type(c) is np.ndarray else c)

    def back(self, ct: Any, index: Any, *_: Any) -> Sequence[Any]:
        return [basic_index_p(ct, index=index)]

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return [basic_place_p(ts[0], index=kept[0], shape=kept[1])]


class _NumbersRow(_ElementRow):
    """The pull of an array of numbers side by side, and its shape and dtype.

    Rows keep where those with tangents are, each number (place, place + 1, None), and all numbers of an array, in its order,
    together: (first place, end, shape). None: everywhere, one by one.
    """

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        spans = kept[0]
        if spans is not None:
            parts: Any = [ct[a] if shape is None else ct[a:b].reshape(shape) for a, b, shape in spans]
        for n, c in zip(numbers, ct if spans is None else parts):
            if cts[n] is None:
                cts[n] = c
            else:
                cts.add(n, c)

    def back(self, ct: Any, spans: Any, shape: Any, dtype: Any) -> Sequence[Any]:
        found = []
        for a, b, whole in [(i, i + 1, None) for i in range(shape[0])] if spans is None else spans:
            part = basic_index_p(ct, index=(a if whole is None else (a, b - a, 1),))
            found.append(part if whole is None else reshape(part, shape=whole))
        return found

    def columns(self, cts: RowCotangents, given: Any, numbers: Sequence[int], kept: Sequence[Any], size: int) -> None:
        ct = given[0]
        if kept[0] is None:
            self.run(cts, ct.T, numbers, kept)
            return
        for n, (a, b, shape) in zip(numbers, kept[0]):
            cts.add(n, ct[:, a] if shape is None else ct[:, a:b].reshape(size, *shape))

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        spans, (n,), dtype = kept
        if spans is None:
            return [stack_p(*[dtype.type(0) if t is None else t for t in ts], axis=0)]
        parts, end = [], 0
        for (a, b, _), t in zip([*spans, (n, n, None)], [*ts, None]):
            if end < a:  # of numbers without tangents
                parts.append(_zeros(a - end, dtype))
            if a < b:
                parts.append(_zeros(b - a, dtype) if t is None else reshape(t, shape=(b - a,)))
            end = b
        return [concatenate(parts, axis=0)]


class _AllRow(_ElementRow):
    """The pull of all elements of a small array, each a number of its own; rows keep its shape and dtype."""

    __slots__ = ("there",)
    many = True

    def __init__(self, size: int):
        self.there = tuple(range(size))

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        shape, dtype = kept
        whole = _array([0.0 if c is None else c for c in ct], dtype).reshape(shape)
        (n,) = numbers
        if cts[n] is None:
            cts[n] = whole
            cts.own.add(n)
        else:
            cts.add(n, whole)

    def traced(self, cts: RowCotangents, given: Sequence[Any], numbers: Sequence[int], kept: Sequence[Any]) -> None:
        shape, dtype = kept
        whole = stack_p(*[dtype.type(0) if c is None else c for c in given], axis=0)
        cts.add(numbers[0], reshape(whole, shape=shape))

    def columns(self, cts: RowCotangents, given: Any, numbers: Sequence[int], kept: Sequence[Any], size: int) -> None:
        shape, dtype = kept
        whole = np.stack([_zeros(size, dtype) if c is None else c for c in given], axis=1)
        cts.add(numbers[0], whole.reshape(size, *shape))

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return [basic_index_p(ts[0], index=index) for index in np.ndindex(*kept[0])]


_MANY = 10_000  # rows, from which on Python looks for cycles rarely until the function has returned
_FEW = 16  # elements, which all become numbers when one of them is read: their rows cost less than reading two of them
_SOME = 144  # elements, which do so where one after the other is read
_all_rows = remembers(_SOME)(_AllRow)
READ, WRITE, WRITE_PLACES, PICK, NUMBERS = _ReadRow(), _WriteRow(), _WritePlacesRow(), _PickRow(), _NumbersRow()
ADD, ADD_PLACES = _AddRow(), _AddPlacesRow()


def elements_row(
    primitive: Any,
    primals: Sequence[Any],
    numbers: Sequence[Any],
    params: dict[str, Any],
) -> tuple | None:
    """(pull, numbers, what is kept) of an operation on elements at a basic index; None if it has no row of this kind."""
    x = primals[0]
    if primitive is slice_p:
        start, limit, strides = params["start"], params["limit"], params["strides"] or (1,) * len(x.shape)
        index = tuple([(a, len(range(a, b, k)), k) for a, b, k in zip(start, limit, strides)])
        return READ, (numbers[0],), (index, x.shape, x.dtype)
    if primitive is basic_index_p:
        return READ, (numbers[0],), (params["index"], x.shape, x.dtype)
    if primitive is basic_place_p:
        return PICK, (numbers[0],), (params["index"], params["shape"])
    if primitive is basic_update_p and numbers[0] != numbers[1]:
        kept = params["index"], x.shape, x.dtype
        if numbers[0] is None:
            return PICK, (numbers[1],), kept
        return WRITE, (numbers[0],) if numbers[1] is None else tuple(numbers), kept
    return None


ELEMENTS = frozenset([basic_index_p, basic_place_p, basic_update_p, slice_p])
FLOATS = frozenset([np.float64, np.float32])
_new: Any = object.__new__
_getframe = sys._getframe
_INTEGERS = frozenset([int, np.int64])
_REAL = frozenset([float, np.float64])
_OF_LISTS = _REAL | {Tracer}
_F64 = np.dtype(np.float64)


@remembers(64)
def _places(shape: tuple[int, ...]) -> dict[Any, int]:
    """The place of each element, from either end, among all of a small array."""
    found = {i: at for at, both in enumerate(product(*[[(k, k - n) for k in range(n)] for n in shape])) for i in product(*both)}
    return found if len(shape) > 1 else {**found, **{i: at for (i,), at in found.items()}}


@remembers(64)
def _rows(shape: tuple[int, ...], n: int) -> tuple[dict[Any, int], tuple, tuple, bytes]:
    """Of all elements of an array: their places, and of their rows the pulls, what nobody keeps, and that they are our own."""
    return _places(shape), (*[None] * (n - 1), _all_rows(n)), ((),) * (n - 1), b"\1" * n


# A tape knows the arrays that are `apart`, all of whose elements are numbers: the number of the first, the places by their
# indices, and the line of the first read; the sizes of larger ones of which that is so (`wholes`); and, once there are many
# rows, in how many blocks that make many objects the thread was (`depth`, see host/progress.py).


def _reads_all(tape: Any, n: int, size: int) -> bool:
    """Were elements of this array, or of one of this size before, read one after the other, an eighth of all?"""
    if size not in tape.wholes:
        many = size // 8 + 2
        if tape.numbers[-many:] == [(n,)] * many and tape.pulls[-many:] == [READ] * many:
            tape.wholes += (size,)
    return size in tape.wholes


def element(tape: Any, x: Tracer, index: Any) -> Any:
    """`x[index]` of integers, x an array of floats: the traced number; None of everything else.

    All elements of a small array get rows now, and those that are read later have this line, too: `getitem` makes them.
    """
    kind = type(index)
    here = tape.here
    if kind is slice or open_traces != tape.open or here["checked"] or tape.notes is not None:
        return None
    p: Any = x.primal
    shape, n, first = p.shape, x.tangent, len(tape.own)
    size, source, frame = p.size, here["source"], _getframe(2)
    at: Any = 0
    few = 1 < size <= _FEW or size <= _SOME and _reads_all(tape, n, size)
    if few:
        places, pulls, nothing, own = _rows(shape, size)
        try:
            at = places.get(index)
        except TypeError:  # no number has this index
            return None
        if at is None or n in tape.apart:
            return None
    elif x.owner.turned:  # a square may be known
        return None
    elif kind is not tuple:
        if kind is not int and kind is not np.int64 or len(shape) != 1:
            return None
        where: Any = (int(index) if index >= 0 else int(index) + size,)
    elif len(index) == len(shape) and _INTEGERS.issuperset(map(type, index)):
        where = tuple([int(i) if i >= 0 else int(i) + m for i, m in zip(index, shape)])
    else:
        return None
    out = p[index]
    if type(out) not in FLOATS:
        return None
    if source is None:  # this is `source_at`, where the line is known
        known = internal.get(frame.f_code.co_filename) is False and here["observer"] is None
        source = (frame.f_code, frame.f_lasti, here["scope"]) if known else tape.source_at(frame)
    if few:
        if first > _MANY and tape.depth is None:  # whoever collects the numbers has many objects, none of them in a cycle
            thread = get_ident()
            tape.depth = collector.making.get(thread, 0)
            collector.begins(thread)
        tape.apart = tape.apart or {}
        tape.apart[n] = first, places, source
        tape.pulls += pulls
        tape.numbers += nothing
        tape.numbers.append((n,))
        tape.kept += nothing
        tape.kept.append((shape, p.dtype))
        tape.sources += (source,) * size
        tape.own += own
    else:
        tape.pulls.append(READ)
        tape.numbers.append((n,))
        tape.kept.append((where, shape, p.dtype))
        tape.sources.append(source)
        tape.own.append(True)
    if n >= tape.first:  # as of a row
        tape.begins = True
    result = _new(Tracer)
    result.owner, result.primal, result.tangent, result.source = x.owner, out, first + at, source
    result.atom = result.box = None
    return result


def array_of_numbers(tape: Any, values: Sequence[Any], source: Any) -> Any:
    """`np.array(values)` of floats, traced or not: the traced result; None for everything else."""
    trace, kinds_met = tape.trace, set(map(type, values))
    if open_traces != tape.open or state.checked or tape.notes is not None or not kinds_met <= _OF_LISTS:
        return None
    given = values
    if len(kinds_met) > 1:
        places = [i for i, x in enumerate(values) if type(x) is Tracer]
        given = [values[i] for i in places]
    primals = [x.primal for x in given]
    if {x.owner for x in given} != {trace} or not _REAL.issuperset(map(type, primals)):
        return None
    tangents = [x.tangent for x in given]
    if given is values:
        out = _array(primals, _F64)
        numbers, spans = _together(tape, range(len(out)), tangents)
        if len(numbers) == len(out):
            spans = None
    else:
        out = _array([0.0 if type(x) is Tracer else x for x in values], _F64)
        out[places] = primals
        numbers, spans = _together(tape, places, tangents)
    operation = stack_p, tuple(values), {"axis": 0}, None, None
    return tape.row(NUMBERS, tuple(numbers), (spans, out.shape, _F64), operation, out, True, source)


def _together(tape: Any, places: Sequence[int], tangents: list[int]) -> tuple[list[int], Any]:
    """What `_NumbersRow` keeps of traced numbers at these places: the numbers of rows, and where their values are."""
    pulls, numbers, spans = tape.pulls, [], []
    i, size, count, first, end = 0, 1, len(tangents), tape.first, len(tape.pulls)
    while i < count:
        t, at = tangents[i], places[i]
        # the last of all elements of an array has their pull, and most arrays in a list have one size
        row = last = t - first
        if row >= 0:
            last += size - 1
            if last >= end or type(pulls[last]) is not _AllRow or len(pulls[last].there) != size:
                last = row
                while pulls[last] is None:
                    last += 1
                size = len(pulls[last].there) if type(pulls[last]) is _AllRow else 1
        stop = i + size
        if row >= 0 and size > 1 and tangents[i:stop] == [*range(t, t + size)] and places[stop - 1] == at + size - 1:
            numbers.append(tape.numbers[last][0])
            spans.append((at, at + size, tape.kept[last][0]))
            i = stop
        else:
            numbers.append(t)
            spans.append((at, at + 1, None))
            i += 1
    return numbers, spans

"""Rows of reads and writes of elements: their cotangents are added where they were, and cleared, in one buffer.

Idea: a loop that reads or writes an array element by element has a backward pass of the same order, if that of a read is work
of the size of what was read. So the array's cotangent is added up in a buffer of its own, and a write clears a part of it. The
index is kept in the row; no kind tells indices apart. Invariant: a cotangent is written only in a buffer that was allocated
here, and that nobody else holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from funcad.host.where import open_traces, state
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
from funcad.primitives.shape import reshape, slice_p
from funcad.unjitted.kinds import RowCotangents, add_read


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
        # the first read makes the buffer, later ones add to it
        if buffer is None:
            cts[n] = buffer = np.zeros(shape, ct.dtype)
            cts.own.add(n)
            buffer[python_index(index)] = ct
        elif n in cts.own and buffer.dtype is ct.dtype:
            buffer[python_index(index)] += ct
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
            ct = np.array(ct)
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
        written = ts[1] if len(ts) > 1 else np.zeros(basic_shape(index), dtype)[()]
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
        nothing = np.zeros(shape_of(written), dtype)
        return [scatter(ct, nothing, *places, unique=True), written]

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        places, shape, dtype = kept
        written = ts[1] if len(ts) > 1 else np.zeros((*places[0].shape, *shape[len(places) :]), dtype)
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
    """The pull of an array of numbers side by side; rows keep the places of those that have tangents, and the shape."""

    __slots__ = ()

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        for n, c in zip(numbers, ct if kept[0] is None else ct[kept[0]]):
            if cts[n] is None:
                cts[n] = c
            else:
                cts.add(n, c)

    def back(self, ct: Any, places: Any, shape: Any, dtype: Any) -> Sequence[Any]:
        return [basic_index_p(ct, index=(i,)) for i in (range(shape[0]) if places is None else places.tolist())]

    def columns(self, cts: RowCotangents, given: Any, numbers: Sequence[int], kept: Sequence[Any], size: int) -> None:
        self.run(cts, given[0].T, numbers, kept)

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        places, n, dtype = kept[0], kept[1][0], kept[2]
        if places is not None:
            found = dict(zip(places.tolist(), ts))
            ts = [found.get(i, dtype.type(0)) for i in range(n)]
        return [stack_p(*[dtype.type(0) if t is None else t for t in ts], axis=0)]


class _AllRow(_ElementRow):
    """The pull of all elements of a small array, each a number of its own; rows keep its shape and dtype."""

    __slots__ = ("there",)
    many = True

    def __init__(self, size: int):
        self.there = tuple(range(size))

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        shape, dtype = kept
        whole = np.array([0.0 if c is None else c for c in ct], dtype).reshape(shape)
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
        whole = np.stack([np.zeros(size, dtype) if c is None else c for c in given], axis=1)
        cts.add(numbers[0], whole.reshape(size, *shape))

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return [basic_index_p(ts[0], index=index) for index in np.ndindex(*kept[0])]


_FEW = 16  # elements, which all become numbers when one of them is read: their rows cost less than reading two of them
_all_rows = remembers(_FEW)(_AllRow)
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
_FLOATS = frozenset([np.float64, np.float32])
_new: Any = object.__new__
_getframe = sys._getframe
_OF_LISTS = frozenset([Tracer, float, np.float64])
_F64 = np.dtype(np.float64)


@remembers(64)
def _places(shape: tuple[int, ...]) -> dict[Any, int]:
    """The place of each element, from either end, among all of a small array."""
    found = {i: at for at, both in enumerate(product(*[[(k, k - n) for k in range(n)] for n in shape])) for i in product(*both)}
    return found if len(shape) > 1 else {**found, **{i: at for (i,), at in found.items()}}


def element(tape: Any, x: Tracer, index: Any) -> Any:
    """`x[index]` of integers, x a small array of floats: the traced number; None of everything else."""
    p: Any = x.primal
    if type(index) is slice:
        return None
    known = tape.apart.get(x.tangent)
    if known is None and not 1 < p.size <= _FEW or open_traces != tape.open or state.checked or tape.notes is not None:
        return None
    first, places = known or (None, _places(p.shape))
    try:
        at = places.get(index)
    except TypeError:  # no number has this index
        return None
    if at is None:
        return None
    out = p[index]
    if type(out) not in _FLOATS:
        return None
    source, frame = state.source, _getframe(2)
    if source is None:  # this is `source_at`, where the line is known
        source = tape.lines.get(frame.f_lasti)
        if source is None or source[0] is not frame.f_code or source[2] is not state.scope or state.observer is not None:
            source = tape.source_at(frame)
    if first is None:
        first = len(tape.own)
        tape.apart[x.tangent] = first, places
        more = p.size - 1
        tape.pulls += [*[None] * more, _all_rows(p.size)]
        tape.numbers += [*[()] * more, (x.tangent,)]
        tape.kept += [*[()] * more, (p.shape, p.dtype)]
        tape.sources += [source] * p.size
        tape.own += b"\1" * p.size
        tape.begins = tape.begins or x.tangent >= tape.first  # as of a row
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
    if any([x.owner is not trace for x in given]):
        return None
    primals = [x.primal for x in given]
    if not _OF_LISTS.issuperset(map(type, primals)) or Tracer in map(type, primals):
        return None
    where = None
    if given is values:
        out = np.array(primals, _F64)
    else:
        where = np.array(places)
        out = np.array([0.0 if type(x) is Tracer else x for x in values], _F64)
        out[where] = primals
    operation = stack_p, tuple(values), {"axis": 0}, None, None
    kept, numbers = (where, out.shape, _F64), tuple([x.tangent for x in given])
    return tape.row(NUMBERS, numbers, kept, operation, out, True, source)

"""What a whole program's values are while its code is written: lanes in registers, views of memory, constants, pieces.

A value of rank 0 is a `Lane` of a one-lane emitter. An array is a `View`, strides and offset in elements, so reshaping,
transposing, broadcasting and basic indexing make no code; a `Splat` is an array all of whose elements are one lane; `Pieces`
are an array that lies in several places, as a roll, a concatenation or a frame of zeros does (see program_pieces.py). Working
memory is planned while code is written: `Arena.take` and `give` follow the order of the code, which is the order of execution,
so two values share a place only if one is dead when the other is made. Invariant: memory that a value lies in is not written
while the value lives; views keep the buffers alive that they look into.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import RECORD, contiguous_strides, seen
from funcad.ir.primitive import Primitive
from funcad.primitives.basic_indexing import python_index

ALIGNMENT = 64
_ONE = np.empty((), RECORD)  # what any element of a splat is looked at as


class Buffer:
    """A piece of the arena; `users` counts the live values that lie in it. Of size 0: memory that others give back."""

    __slots__ = ("offset", "size", "users")

    def __init__(self, offset: int, size: int):
        self.offset = offset
        self.size = size
        self.users = 0


class Arena:
    """A program's working memory: first fit, offsets known when the code is written."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (offset, size), by offset

    def take(self, size: int) -> Buffer:
        size = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        for i, (offset, room) in enumerate(self._free):
            if room >= size:
                self._free[i : i + 1] = [(offset + size, room - size)] if room > size else []
                return Buffer(offset, size)
        if self._free and sum(self._free[-1]) == self.size:  # grow the last hole
            offset, _ = self._free.pop()
            self.size = offset + size
            return Buffer(offset, size)
        self.size += size
        return Buffer(self.size - size, size)

    def give(self, buffer: Buffer) -> None:
        if not buffer.size:
            return
        holes = sorted([*self._free, (buffer.offset, buffer.size)])
        merged = [holes[0]]
        for offset, size in holes[1:]:
            last, room = merged[-1]
            if last + room == offset:
                merged[-1] = (last, room + size)
            else:
                merged.append((offset, size))
        self._free = merged


class View(NamedTuple):
    """An array in memory; `pointer` is an SSA name, `offset` is added to it."""

    pointer: str
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    buffers: tuple[Buffer, ...] = ()

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def contiguous(self) -> bool:
        return all(n == 1 or s == t for n, s, t in zip(self.shape, self.strides, contiguous_strides(self.shape)))


class Splat(NamedTuple):
    """An array whose elements are all one lane."""

    lane: Any
    dtype: np.dtype
    shape: tuple[int, ...]


class Along(NamedTuple):
    """How far an element is along an axis that is reduced: the index of this loop."""

    index: str = ""
    dtype: np.dtype = np.dtype(np.int64)


class Pieces(NamedTuple):
    """An array made of boxes, each with a view or a splat of its shape; a box is a (start, stop) of each axis."""

    dtype: np.dtype
    shape: tuple[int, ...]
    cells: tuple[tuple[tuple[tuple[int, int], ...], Any], ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple([buffer for _, value in self.cells if type(value) is View for buffer in value.buffers])


def viewed(x: Any, look: Callable[[np.ndarray], Any]) -> Any:
    """A view, a splat or pieces as `look` sees it, which takes views of arrays; None if elements would have to move."""
    if type(x) is Splat:
        return x._replace(shape=look(np.ndarray(x.shape, RECORD, _ONE, 0, (0,) * len(x.shape))).shape)
    return _pieces_viewed(x, look) if type(x) is Pieces else seen(x, look)


def moved_by(primitive: Primitive, x: Any, **params: Any) -> Any:
    """What a primitive makes of x, of those that only look at an array in another way."""
    return viewed(x, lambda a: primitive.impl(np, a, **params))


def part(x: Any, index: Sequence[Any]) -> Any:
    """x at a canonical basic index (see primitives/basic_indexing.py)."""
    return viewed(x, lambda a: a[python_index(tuple(index))])


def reshaped(x: Any, shape: tuple) -> Any:
    """x in another shape without moving elements; None if that cannot be."""
    try:
        return viewed(x, lambda a: a.reshape(shape, copy=False))
    except ValueError:
        return None


def _pieces_viewed(x: Pieces, look: Callable[[np.ndarray], Any]) -> Any:
    """Each box by where the places along each of its axes go: to one axis of the result, or they are at one place of it."""
    axes, ways, shape = range(len(x.shape)), [], ()
    for k in axes:
        way = seen(View("", x.dtype, x.shape, tuple([int(i == k) for i in axes])), look)
        shape = () if way is None else way.shape
        goes = [] if way is None else [(j, s) for j, s in enumerate(way.strides) if s and shape[j] > 1]
        if way is None or len(goes) > 1:
            return None
        ways.append((way.offset, *(goes or [(None, 1)])[0]))
    found = []
    for box, value in x.cells:
        to, offset, strides = [(0, n) for n in shape], 0, [0] * len(shape)
        for (start, j, step), (a, b), own in zip(ways, box, value.strides if type(value) is View else repeat(0)):
            first, last = _met(start, 1 if j is None else shape[j], step, a, b)
            if first >= last:
                break
            if j is not None:
                to[j], strides[j] = (first, last), step * own
            offset += (start + first * step - a) * own
        else:
            value = value._replace(shape=tuple([b - a for a, b in to]))
            if type(value) is View:
                value = value._replace(strides=tuple(strides), offset=value.offset + offset)
            found.append((tuple(to), value))
    return pieces(x.dtype, shape, found)


def _met(start: int, count: int, step: int, a: int, b: int) -> tuple[int, int]:
    """For which k in range(count) does a <= start + k * step < b hold? (first, last + 1)"""
    if step < 0:
        start, step, a, b = -start, -step, 1 - b, 1 - a
    return max(0, -((start - a) // step)), min(count, -((start - b) // step))


def pieces(dtype: np.dtype, shape: tuple, cells: Sequence[tuple[Any, Any]]) -> Any:
    """An array made of boxes; a box that is all of it is that value."""
    cells = [cell for cell in cells if all([a < b for a, b in cell[0]])]
    return cells[0][1] if len(cells) == 1 else Pieces(dtype, shape, tuple(cells))


def same_place(a: Any, b: View | Pieces) -> bool:
    if type(a) is not type(b):
        return False
    if type(b) is Pieces:
        return [box for box, _ in a.cells] == [box for box, _ in b.cells] and all([
            same_place(x, y) for (_, x), (_, y) in zip(a.cells, b.cells)
        ])  # fmt: skip
    return type(a) is View and (a.pointer, a.offset, a.strides) == (b.pointer, b.offset, b.strides)

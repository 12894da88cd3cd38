"""What a whole program's values are while its code is written: lanes in registers, views of memory, constants, pieces.

A value of rank 0 is a `Lane` of a one-lane emitter. An array is a `View`, strides and offset in elements, so reshaping,
transposing, broadcasting and basic indexing make no code; a `Splat` is an array all of whose elements are one lane; `Pieces`
are an array that lies in several places, as a roll, a concatenation or a frame of zeros does (see program_pieces.py). Working
memory is planned while code is written: `Arena.take` and `give` follow the order of the code, which is the order of execution,
so two values share a place only if one is dead when the other is made. Invariant: memory that a value lies in is not written
while the value lives; views keep the buffers alive that they look into.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import contiguous_strides, seen

ALIGNMENT = 64


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


def spread(x: Any, shape: tuple, axes: tuple) -> Any:
    """broadcast_in_dim of a view or a splat."""
    if type(x) is Splat:
        return x._replace(shape=shape)
    strides = [0] * len(shape)
    for axis, n, s in zip(axes, x.shape, x.strides):
        strides[axis] = s if n == shape[axis] and n != 1 else 0
    return x._replace(shape=shape, strides=tuple(strides))


def transposed(x: Any, perm: Sequence[int]) -> Any:
    shape = tuple([x.shape[i] for i in perm])
    return x._replace(shape=shape) if type(x) is Splat else x._replace(shape=shape, strides=tuple([x.strides[i] for i in perm]))


def indexed(x: Any, index: Sequence[Any]) -> Any:
    """x at a canonical basic index (see primitives/basic_indexing.py)."""
    shape, strides, offset, axis = [], [], 0, 0
    for entry in index:
        if entry is None:
            shape.append(1)
            strides.append(0)
            continue
        own = 0 if type(x) is Splat else x.strides[axis]
        if type(entry) is tuple:
            start, count, step = entry
            shape.append(count)
            strides.append(own * step)
        else:
            start = entry
        offset += start * own
        axis += 1
    if type(x) is Splat:
        return x._replace(shape=tuple(shape))
    return x._replace(shape=tuple(shape), strides=tuple(strides), offset=x.offset + (offset if prod(shape) else 0))


def reshaped(x: Any, shape: tuple) -> Any:
    """x in another shape without moving elements; None if that cannot be."""
    if type(x) is Splat:
        return x._replace(shape=shape)
    if x.contiguous or x.size == 0:
        return x._replace(shape=shape, strides=contiguous_strides(shape))
    try:
        return seen(x, lambda a: a.reshape(shape, copy=False))
    except ValueError:
        return None


def same_place(a: Any, b: View | Pieces) -> bool:
    if type(a) is not type(b):
        return False
    if type(b) is Pieces:
        return [box for box, _ in a.cells] == [box for box, _ in b.cells] and all([
            same_place(x, y) for (_, x), (_, y) in zip(a.cells, b.cells)
        ])  # fmt: skip
    return type(a) is View and (a.pointer, a.offset, a.strides) == (b.pointer, b.offset, b.strides)

"""Arrays that lie in several places: rolls, concatenations and frames as index maps, and loops that read and write them.

Idea: nothing is moved. A roll is two pieces of the array it was made of, a concatenation the pieces that were joined, a frame a
view inside zeros; slices and transpositions of pieces are pieces. A loop over elements whose operands are in pieces takes each
row in segments, between the cuts of all of them; in a segment an operand is one row of memory, the address of which is selected
by the indices of the outer axes. So the code grows with the cuts of the last axis only, and a step of a stencil is one pass.
Invariant: within a segment all of an operand's rows have one stride (`regular`), whence a constant beside views is a row of
memory. Trap: pieces look into memory that others own, so who writes elements of that memory needs a copy (program_region.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_values import Pieces, Splat, View, part, pieces

MOST = 16  # pieces of one array
WIDE = 16  # elements of the widest piece's rows, at least, or whole vectors are not worth the cuts
SEGMENTS = 9  # of a row in one loop
Box = tuple[tuple[int, int], ...]


def whole_box(shape: Sequence[int]) -> Box:
    return tuple([(0, n) for n in shape])


def cells_of(x: Any) -> Sequence[tuple[Box, Any]]:
    return x.cells if type(x) is Pieces else ((whole_box(x.shape), x),)


def index_of(box: Box) -> list[tuple[int, int, int]]:
    """The basic index that selects a box."""
    return [(a, b - a, 1) for a, b in box]


# -- index maps


def joined(xs: Sequence[Any], axis: int, shape: tuple) -> Any:
    found, start = [], 0
    for x in xs:
        for box, value in cells_of(x):
            a, b = box[axis]
            found.append(((*box[:axis], (a + start, b + start), *box[axis + 1 :]), value))
        start += x.shape[axis]
    return pieces(xs[0].dtype, shape, found)


def rolled(x: Any, shift: int, axis: int) -> Any:
    n = x.shape[axis]
    shift %= max(n, 1)
    half = lambda start, count: part(x, [(start, count, 1) if i == axis else (0, m, 1) for i, m in enumerate(x.shape)])
    return joined([half(n - shift, shift), half(0, n - shift)], axis, x.shape)


def framed(x: Any, box: Box, shape: tuple, around: Lane) -> Any:
    """x in a box of an array that is `around` elsewhere."""
    outside, rest = [], list(whole_box(shape))
    for i, (a, b) in enumerate(box):
        for interval in ((0, a), (b, shape[i])):
            outside.append(tuple([*rest[:i], interval, *rest[i + 1 :]]))
        rest[i] = (a, b)
    at = [(tuple([(c + a, d + a) for (c, d), (a, _) in zip(own, box)]), value) for own, value in cells_of(x)]
    splats = [(o, Splat(around, x.dtype, tuple([b - a for a, b in o]))) for o in outside]
    return pieces(x.dtype, shape, [*at, *splats])


# -- loops


def regular(x: Any) -> bool:
    """Can a loop read this array as it lies, and is it worth it?"""
    if type(x) is not Pieces:
        return True
    if not x.shape or x.size == 0 or len(x.cells) > MOST or max([box[-1][1] - box[-1][0] for box, _ in x.cells]) < WIDE:
        return False
    last = [(box[-1], 0 if type(v) is Splat else v.strides[-1], type(v) is Splat) for box, v in x.cells]
    for i, ((a, b), step, constant) in enumerate(last):
        for (c, d), other, also in last[:i]:
            if a < d and c < b and not (step == other if constant == also else 1 in (step, other)):
                return False
    return True


class _Operand:
    """One operand in a loop nest: its cells with the axes of the nest."""

    def __init__(self, dtype: np.dtype, cells: list[tuple[Box, Any, tuple[int, ...]]]):
        self.dtype = dtype
        self.cells = cells  # (box, value, strides)

    def within(self, a: int, b: int) -> list[tuple[Box, Any, tuple[int, ...]]]:
        """The cells that a segment of the last axis meets."""
        return [cell for cell in self.cells if cell[0][-1][0] <= a and b <= cell[0][-1][1]]


def segments_of(operands: Sequence[_Operand], extent: int) -> list[tuple[int, int]]:
    cuts = sorted({0, extent, *[c for x in operands for box, _, _ in x.cells for c in box[-1]]})
    return list(zip(cuts[:-1], cuts[1:]))


def fitting(shape: tuple, values: Sequence[Any]) -> bool:
    """Are the rows of a loop over these arrays cut into few segments?"""
    if not any([type(x) is Pieces for x in values]):
        return True
    operands, extents = _operands(shape, values)
    return len(segments_of(operands, extents[-1])) <= SEGMENTS


def _operands(shape: tuple, values: Sequence[Any]) -> tuple[list[_Operand], list[int]]:
    """The operands in memory with the axes of a loop nest: none of size 1, neighbours merged where all of them allow it."""
    kept = [i for i, n in enumerate(shape) if n != 1] or [len(shape) - 1]
    extents = [shape[i] for i in kept]
    found = []
    for x in values:
        if type(x) is not Splat:
            take = lambda t: [t[i] for i in kept]
            found.append([(take(box), v, take(v.strides) if type(v) is View else []) for box, v in cells_of(x)])
    for i in range(len(extents) - 2, -1, -1):
        n = extents[i + 1]
        together = all([
            box[i + 1] == (0, n) and (not steps or steps[i] == n * steps[i + 1] or box[i][1] - box[i][0] == 1)
            for cells in found for box, _, steps in cells
        ])  # fmt: skip
        if together:
            extents[i : i + 2] = [extents[i] * n]
            for cells in found:
                for box, _, steps in cells:
                    box[i : i + 2] = [(box[i][0] * n, box[i][1] * n)]
                    steps[i : i + 1] = []
    dtypes = [x.dtype for x in values if type(x) is not Splat]
    as_tuples = lambda cells: [(tuple(box), v, tuple(steps)) for box, v, steps in cells]
    return [_Operand(dtype, as_tuples(cells)) for dtype, cells in zip(dtypes, found)], extents


def nest(build: Any, shape: tuple, inputs: Sequence[Any], outputs: Sequence[Any], body: Callable[..., Any], key: Any) -> None:
    """`Build.nest` where an input or an output is in pieces."""
    if 0 in shape:
        return
    operands, extents = _operands(shape, (*inputs, *outputs))
    segments = segments_of(operands, extents[-1])
    rows = _rows(build, operands, segments)

    def along(a: int, b: int, indices: list[str]) -> None:
        there: list[Any] = []
        for x in operands:
            cells = x.within(a, b)
            if len(cells) == 1 and type(cells[0][1]) is Splat:
                there.append(cells[0][1])
            else:
                step = next((steps[-1] for _, v, steps in cells if type(v) is View), 1)
                there.append((_address(build, rows, cells, 0, indices, a), (1 if b - a == 1 else step,)))
        rest = iter(there)
        sources = [value if type(value) is Splat else next(rest) for value in inputs]
        given = [x if type(x) is Splat else value for x, value in zip(sources, inputs)]
        places = [x for x in (*sources, *rest) if type(x) is not Splat]
        build.sweep([b - a], given, places, outputs, body, False, key)

    with build.over([(n, None) for n in extents[:-1]]) as indices:
        for a, b in segments:
            along(a, b, indices)
    for view in rows.values():
        build.drop(view)


def _rows(build: Any, operands: Sequence[_Operand], segments: Sequence[tuple[int, int]]) -> dict[tuple, View]:
    """A row of memory for each constant that stands where other rows of its operand are in memory."""
    rows: dict[tuple, View] = {}
    for x in operands:
        for a, b in segments:
            cells = x.within(a, b)
            for _, value, _ in cells if len(cells) > 1 else ():
                key = (value.lane, x.dtype) if type(value) is Splat else None
                if key is not None and (key not in rows or rows[key].shape[0] < b - a):
                    if key in rows:
                        build.drop(rows[key])
                    rows[key] = build.new(x.dtype, (b - a,))
    for (lane, dtype), view in rows.items():
        build.copy(Splat(lane, dtype, view.shape), view)
    return rows


def _address(build: Any, rows: dict, cells: Sequence[Any], axis: int, indices: list[str], start: int) -> str:
    """Where the elements of a segment that begins at `start` lie, at these indices of the outer axes."""
    if axis == len(indices):
        ((box, value, steps),) = cells
        if type(value) is Splat:
            return str(rows[value.lane, value.dtype].pointer)
        fixed = sum([-a * s for (a, _), s in zip(box, steps)]) + start * steps[-1]
        view = build.moved(value, list(zip(indices, steps)))
        return str(build.pointer(view._replace(offset=view.offset + fixed)))
    cuts = sorted({c for box, _, _ in cells for c in box[axis]})
    found = before = ""
    for a, b in zip(cuts[:-1], cuts[1:]):
        here = [cell for cell in cells if cell[0][axis][0] <= a and b <= cell[0][axis][1]]
        pointer = _address(build, rows, here, axis + 1, indices, start)
        if not found:
            found = pointer
        elif pointer != before:
            later = build.f.put(f"icmp sge i64 {indices[axis]}, {a}")
            found = build.f.put(f"select i1 {later}, ptr {pointer}, ptr {found}")
        before = pointer
    return found

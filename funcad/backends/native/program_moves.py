"""Moving elements inside a whole program: placing, updating, slicing at computed places, gather and scatter.

Whatever can be a view is one. An index that NumPy would refuse makes the program leave with status 1: the caller then runs the
reference, which raises NumPy's error at the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.backends.loops.ordered_loops import INT64, ORDERED
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_build import Build
from funcad.backends.native.program_values import Along, Splat, View, part, viewed
from funcad.ir.jaxpr import Equation
from funcad.primitives.basic_indexing import common_index

MAX_CELLS = 27  # parts of a result of `place_sum` that are written one by one


def fill(build: Build, target: View, value: Any = 0) -> None:
    build.copy(Splat(build.one.literal(value, target.dtype), target.dtype, target.shape), target)


def place(build: Build, x: Any, index: Sequence[Any], target: View) -> None:
    """Zeros, with x at a basic index."""
    where = part(target, index)
    if where.size < target.size:
        fill(build, target)
    build.copy(_in_shape(x, where.shape), where)


def place_sum(build: Build, xs: Sequence[Any], indices: Sequence[Any], target: View) -> None:
    """The sum of arrays, each at its basic index: one loop for each part of the result in which the same arrays meet."""
    found = [box_of(index) for index in indices]
    boxes = [box for box in found if box is not None]
    if len(boxes) < len(found):
        return _place_one_by_one(build, xs, indices, target)
    cells: list[list[tuple[int, int]]] = [[]]
    for axis, n in enumerate(target.shape):
        cuts = sorted({0, n, *[c for box in boxes for c in box[axis]]})
        cells = [[*cell, interval] for cell in cells for interval in zip(cuts[:-1], cuts[1:])]
    if len(cells) > MAX_CELLS:
        return _place_one_by_one(build, xs, indices, target)
    for cell in cells:
        where = part(target, [(a, b - a, 1) for a, b in cell])
        met = [i for i, box in enumerate(boxes) if all(a <= c and d <= b for (a, b), (c, d) in zip(box, cell))]
        terms = [_within(xs[i], indices[i], cell) for i in met]
        zero = target.dtype.kind in "fc" and len(met) < len(xs)  # the others add a zero, so that -0.0 becomes 0.0

        def add_up(e: Any, lanes: list, zero: bool = zero) -> list:
            total = lanes[0]
            for lane in lanes[1:]:
                total = e.add(total, lane)
            return [e.add(total, e.literal(0, target.dtype)) if zero else total]

        if terms:
            build.nest(where.shape, terms, [where], add_up)
        else:
            fill(build, where)


def _place_one_by_one(build: Build, xs: Sequence[Any], indices: Sequence[Any], target: View) -> None:
    """The same for strided parts, and for many: each is added to what is there."""
    fill(build, target)
    common = common_index(tuple(indices), target.shape) if target.dtype.kind in "fc" else None
    if common is not None:  # no zero is added there: -0.0 stays -0.0
        zero = complex(-0.0, -0.0) if target.dtype.kind == "c" else -0.0
        fill(build, viewed(target, lambda a: a[common]), zero)
    for x, index in zip(xs, indices):
        add(build, x, part(target, index))


def box_of(index: Sequence[Any]) -> list[tuple[int, int]] | None:
    """The interval of each axis that a basic index selects; None if it takes only some elements of one."""
    box = []
    for entry in index:
        if type(entry) is int:
            box.append((entry, entry + 1))
        elif entry is not None:
            start, count, step = entry
            if step != 1 and count > 1:
                return None
            box.append((start, start + count))
    return box


def _within(x: Any, index: Sequence[Any], cell: Sequence[tuple[int, int]]) -> Any:
    """The part of x that lies in a cell of the target, with the target's axes."""
    x = _in_shape(x, ())
    own: list[Any] = []
    axes = iter(cell)
    for entry in index:
        if entry is None:
            own.append(0)
            continue
        a, b = next(axes)
        own.append(None if type(entry) is int else (a - entry[0], b - a, 1))
    return part(x, own)


def update(build: Build, u: Any, index: Sequence[Any], target: View) -> None:
    where = part(target, index)
    build.copy(_in_shape(u, where.shape), where)


def add(build: Build, u: Any, where: View) -> None:
    """Add to elements that are there."""
    build.nest(where.shape, [where, _in_shape(u, where.shape)], [where], lambda e, v: [e.add(*v)], True, "add")


def _in_shape(x: Any, shape: tuple) -> Any:
    return Splat(x, x.dtype, shape) if type(x) is Lane else x


def _start(build: Build, lane: Lane, size: int, extent: int) -> str:
    """A computed start of a window, wrapped if negative, then clamped so that the window fits."""
    f = build.f
    at = _wide(build, lane)
    if lane.dtype.kind == "i":
        negative = f.put(f"icmp slt i64 {at}, 0")
        at = f.put(f"select i1 {negative}, i64 {f.put(f'add i64 {at}, {extent}')}, i64 {at}")
        at = f.put(f"select i1 {f.put(f'icmp slt i64 {at}, 0')}, i64 0, i64 {at}")
        return build.least(at, extent - size)
    return f.put(f"select i1 {f.put(f'icmp ult i64 {at}, {extent - size}')}, i64 {at}, i64 {extent - size}")


def _wide(build: Build, lane: Lane) -> str:
    """An integer lane as i64."""
    size = 8 * lane.dtype.itemsize
    if size == 64:
        return lane.name
    return build.f.put(f"{'sext' if lane.dtype.kind == 'i' else 'zext'} i{size} {lane.name} to i64")


def window(build: Build, x: View, starts: Sequence[Any], sizes: tuple) -> View:
    """The window of x at computed starts: a view."""
    steps = [
        (_start(build, build.lane(s), k, n), step) for s, k, n, step in zip(starts, sizes, x.shape, x.strides) if k != n
    ]
    return build.moved(x, steps)._replace(shape=sizes)


def _row(build: Build, lane: Lane, extent: int) -> str:
    """A position along an axis, wrapped and checked as NumPy does."""
    f = build.f
    at = _wide(build, lane)
    if lane.dtype.kind == "i":
        negative = f.put(f"icmp slt i64 {at}, 0")
        at = f.put(f"select i1 {negative}, i64 {f.put(f'add i64 {at}, {extent}')}, i64 {at}")
    build.leave_if(f.put(f"icmp uge i64 {at}, {extent}"), 1)
    return at


def ordered(build: Build, equation: Equation, values: Sequence[Any], target: View) -> None:
    """An operation of loops/ordered_loops.py."""
    look = lambda e, lane, size: Lane(INT64, (_row(build, lane, size),))
    build.walk(ORDERED[equation.primitive.name](equation, target, values, look))


def positions(build: Build, target: View) -> None:
    if target.size:
        numbers = lambda e, lanes: [e.convert(lanes[0], target.dtype)]
        build.sweep(target.shape, [Along("c")], [(target, target.strides)], [target], numbers)


def picked(build: Build, x: View, *indices: Any) -> View:
    """What lies at computed indices that are numbers: a view."""
    places = [_row(build, build.lane(index), n) for index, n in zip(indices, x.shape)]
    n = len(places)
    return build.moved(x, list(zip(places, x.strides)))._replace(shape=x.shape[n:], strides=x.strides[n:])


def dynamic_update(build: Build, u: Any, starts: Sequence[Any], target: View) -> None:
    shape = () if type(u) is Lane else u.shape
    build.copy(u, window(build, target, starts, shape))

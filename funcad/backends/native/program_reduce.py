"""Reductions inside a whole program: sums, products, extrema, any and all, positions of extrema, shares of ties.

`reduce` takes any number of inputs and a body that makes the element to be reduced from theirs, so an elementwise computation
need not be stored first. Vectors run along the last axis: if it is reduced, several accumulators of vectors are combined at
the end (more exact than a running sum, and not bound by the latency of an addition); if it stays, each lane is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.loops.nest import BACK, ONES, VECTORS, Fold, For, Let, Put, Total, nested, strided
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_build import Build, memory_of
from funcad.backends.native.program_values import Along, Splat, View, moved_by
from funcad.backends.plans.element_plan import Unsupported, merged_axes
from funcad.primitives.families import broadcast_in_dim

AT_ONCE = 4  # accumulators, or vectors that are reduced without a loop
Body = Callable[[Emitter, list], Lane]


def _unit(axis: tuple[int, Sequence[int]]) -> int:
    """How many of the arrays have unit stride along an axis, less those that would have to be gathered."""
    return sum([1 if s == 1 else 0 if s == 0 else -1 for s in axis[1]])


def reduce(
    build: Build,
    kind: str,
    dtype: np.dtype,
    shape: tuple,
    axes: Sequence[int],
    inputs: Sequence[Any],
    body: Body,
    target: View | None,
    key: Any = None,
) -> Lane | None:
    """Reduce body(inputs) of that shape over axes: into `target`, or, where no axis stays, to a lane.

    Bodies with equal keys, if they have any, compute the same.
    """
    if not axes:
        assert target is not None
        build.nest(shape, inputs, [target], lambda e, lanes: [body(e, lanes)], key=key)
        return None
    size = prod([shape[a] for a in axes])
    stay = [i for i in range(len(shape)) if i not in axes]
    if size == 0 or not all(shape[i] for i in stay):
        empty = build.one.identity(kind, dtype)
        if not stay:
            return empty
        assert target is not None
        build.copy(Splat(empty, dtype, target.shape), target)
        return None
    views = [v for v in inputs if type(v) is View]
    own = [] if target is None else [target]
    none = [(0,) * len(axes)] * len(own)
    gone = merged_axes([shape[i] for i in axes], [*[[v.strides[i] for i in axes] for v in views], *none])
    gone = gone or [(1, (0,) * (len(views) + len(own)))]
    kept = merged_axes([shape[i] for i in stay], [*[[v.strides[i] for i in stay] for v in views], *[v.strides for v in own]])
    across = bool(kept) and (gone[-1][0] == 1 or _unit(kept[-1]) >= _unit(gone[-1]) and kept[-1][0] > 1)
    n = (kept if across else gone)[-1][0]
    lanes = build.lanes_of(n, [dtype, *[v.dtype for v in inputs]])
    lanes = lanes if across or n != 3 else 1  # three are added as NumPy adds them
    ways = AT_ONCE if across or n >= 2 * AT_ONCE * lanes else n // lanes if n < (AT_ONCE + 1) * lanes else 1
    places = [(v, [steps[k] for _, steps in (*kept, *gone)]) for k, v in enumerate([*views, *own])]
    extents = [n for n, _ in (*kept, *gone)]

    def write(build: Build, extents: Sequence[Any], inputs: Sequence[Any], places: Sequence[tuple[Any, Any]]) -> Lane | None:
        """The loops over the axes that stay, and then over those that go; extents are numbers or names."""
        total, known = Total("total", dtype, kind), lambda n: n if type(n) is int else None
        rows, columns = extents[: len(kept)], extents[len(kept) :]
        ones = lambda name, sizes, **more: [For(f"{name}{k}", 0, n, ONES, (), **more) for k, n in enumerate(sizes)]
        n = (rows if across else columns)[-1]
        along = For("c", 0, n, VECTORS, (), rest=BACK, extent=known(n), ways=ways)
        if across:
            loops = [*ones("i", rows[:-1]), along, *ones("g", columns, totals=[total])]
        else:
            loops = [*ones("i", rows), *ones("g", columns[:-1], totals=[total]), along._replace(totals=[total])]
        inputs = [v._replace(index=loops[-1].index) if type(v) is Along else v for v in inputs]
        printer, bodies, operands = build.loads(lanes, loops, inputs, places)
        bodies[-1] += [Let(("x",), operands, lambda e, lanes: [body(e, lanes)]), Fold("total", "x")]
        after: list[list[Any]] = [[] for _ in bodies]
        if target is not None:
            place, strides = places[-1]
            printer.memory["target"] = memory_of(place)
            after[len(kept)].append(Put(strided("target", loops, dtype, strides[: len(kept)]), "total", dtype))
        printer.write(nested(loops, bodies, after))
        return printer.get("total", (), build.one) if target is None else None

    words = None if key is None or across else ("reduce", key, kind, dtype, lanes, ways, len(kept))
    return build.shared(words, extents, inputs, places, write, dtype if target is None else None)


def position(build: Build, kind: str, value: Any, axis: int, target: View | None) -> Lane | None:
    """argmax or argmin, along an axis: the least place of those that attain the extremum, or are NaN where it is."""
    shape, stay = value.shape, tuple([i for i in range(len(value.shape)) if i != axis])
    x = build.in_memory(value)
    dtype = np.dtype(np.int8) if x.dtype.kind == "b" else x.dtype
    best = build.new(dtype, target.shape) if target is not None else None
    found = reduce(build, f"{kind}imum", dtype, shape, [axis], [x], lambda e, v: e.convert(v[0], dtype), best)
    end = lambda e, v: e.literal(shape[axis], v[2].dtype)
    where = lambda e, v: e.select(tied(e, e.convert(v[0], dtype), v[1]), v[2], end(e, v))
    wide = _onto(build, found if best is None else best, shape, stay)
    lane = reduce(build, "minimum", Along().dtype, shape, [axis], [x, wide, Along()], where, target)
    for view in (x, best):
        build.drop(view)
    return lane


def tied(e: Emitter, x: Lane, m: Lane) -> Lane:
    """Does x attain the extremum m?"""
    same: Lane = e.eq(x, m)
    if x.dtype.kind in "fc":
        same = e.logical_or(same, e.logical_and(e.isnan(x), e.isnan(m)))
    return same


def ties(build: Build, mean: bool, t: Any, x: Any, out: Any, axes: tuple, target: View | None) -> Lane | None:
    """`tied_mean` (of t over the elements of x that attain the extremum) or `tied_spread` (of t onto them)."""
    shape, dtype = x.shape, x.dtype
    real = np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype
    if real.kind != "f" or real != t.dtype:
        raise Unsupported(f"shares of ties of {dtype} have no native code")
    stay = tuple([i for i in range(len(shape)) if i not in axes])
    full = lambda v: _onto(build, v, shape, stay)
    wide = full(out)

    rest = tuple([shape[i] for i in stay])
    counts = build.new(real, rest) if rest else None
    one_each = lambda e, v: e.select(tied(e, *v), e.literal(1, real), e.literal(0, real))
    ones = reduce(build, "add", real, shape, axes, [x, wide], one_each, counts)
    count = ones if counts is None else counts
    at_least = lambda e, n: e.maximum(n, e.literal(1, real))
    if mean:
        picked = lambda e, v: e.select(tied(e, v[1], v[2]), v[0], e.literal(0, real))
        total = reduce(build, "add", real, shape, axes, [t, x, wide], picked, target)
        if target is None:
            return build.one.div(total, at_least(build.one, count))
        share = build.in_order(target)
        build.nest(rest, [share, count], [target], lambda e, v: [e.div(v[0], at_least(e, v[1]))])
        build.drop(share)
    else:
        assert target is not None
        onto = lambda e, v: [e.select(tied(e, v[2], v[3]), e.div(v[0], at_least(e, v[1])), e.literal(0, real))]
        build.nest(shape, [full(t), full(count), x, wide], [target], onto)
    if counts is not None:
        build.drop(counts)
    return None


def _onto(build: Build, value: Any, shape: tuple, stay: tuple) -> Any:
    if type(value) is Lane:
        return Splat(value, value.dtype, shape)
    return moved_by(broadcast_in_dim, value, shape=shape, axes=stay)

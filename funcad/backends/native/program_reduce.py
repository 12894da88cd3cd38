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

from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_build import Build, merged_axes
from funcad.backends.native.program_values import Splat, View, spread
from funcad.backends.native.target import lanes_of
from funcad.backends.plans.element_plan import Unsupported

AT_ONCE = 4  # accumulators
SHORT = 4  # vectors that are reduced without a loop
Body = Callable[[Emitter, list], Lane]


class _Reduction:
    """One reduction under construction: the inputs' axes split into those that stay and those that go."""

    def __init__(self, build: Build, kind: str, dtype: np.dtype, inputs: Sequence[Any], body: Body):
        self.build = build
        self.f = build.f
        self.kind = kind
        self.dtype = dtype
        self.inputs = list(inputs)
        self.body = body
        self.views = [v for v in inputs if type(v) is View]

    def element(self, e: Emitter, views: Sequence[View], index: str, strides: Sequence[int]) -> Lane:
        there = iter(zip(views, strides))
        lanes: list[Any] = []
        for value in self.inputs:
            if type(value) is View:
                view, stride = next(there)
                where = index if stride == 1 else self.build.sum_of([(index, stride)])
                lanes.append(e.load(view.dtype, self.build.pointer(view), where, stride))
            else:
                lanes.append(e.splat(value.lane))
        return self.body(e, lanes)

    def carried_loop(
        self, axes: Sequence[tuple[int, Any]], views: Sequence[View], accumulators: list[Lane], e: Emitter, inside: Any
    ) -> list[Lane]:
        """Nested loops over reduced axes that carry the accumulators; `inside(views, accumulators)` at the bottom."""
        if not axes:
            return inside(views, accumulators)
        extent, strides = axes[0]
        with self.f.loop(0, extent, carried=_flat(e, accumulators)) as loop:
            shifted = [self.build.moved(v, [(loop.index, s)]) for v, s in zip(views, strides)]
            found = self.carried_loop(axes[1:], shifted, _lanes(accumulators, loop.values), e, inside)
            loop.next(*[p for lane in found for p in lane.parts])
        return _lanes(accumulators, loop.results)

    def along(self, views: Sequence[View], gone: Sequence[tuple[int, Any]]) -> Lane:
        """The scalar that all elements at these axes reduce to, vectors running along the last one."""
        build, f, one = self.build, self.f, self.build.one
        if not gone:
            x = self.element(one, views, "0", [0] * len(views))
            return one.combine(self.kind, x, one.identity(self.kind, self.dtype))
        extent, strides = gone[-1]
        lanes = 1
        while 2 * lanes <= min(extent, lanes_of(build.host, [self.dtype, *[v.dtype for v in self.inputs]])):
            lanes *= 2
        if len(gone) == 1 and extent <= SHORT * lanes:
            return self.short(views, extent, strides, lanes)
        e = build.emitter(lanes)
        many = AT_ONCE if extent >= 2 * AT_ONCE * lanes else 1
        whole = extent - extent % (many * lanes)
        vectors = extent - extent % lanes
        start = [e.identity(self.kind, self.dtype)] * many
        rest = one.identity(self.kind, self.dtype)

        def line(views: Sequence[View], state: list[Lane]) -> list[Lane]:
            sums, tail = state[:-1], state[-1]
            with f.loop(0, whole, many * lanes, carried=_flat(e, sums)) as loop:
                found = []
                for k, total in enumerate(_lanes(sums, loop.values)):
                    index = loop.index if k == 0 else f.put(f"add i64 {loop.index}, {k * lanes}")
                    found.append(e.combine(self.kind, total, self.element(e, views, index, strides)))
                loop.next(*[p for lane in found for p in lane.parts])
            sums = _lanes(sums, loop.results)
            if vectors > whole:
                sums[:1] = rest_of_line(e, whole, vectors, sums[:1], views)
            if extent > vectors:
                (tail,) = rest_of_line(one, vectors, extent, [tail], views)
            return [*sums, tail]

        def rest_of_line(e: Emitter, first: int, last: int, state: list[Lane], views: Sequence[View]) -> list[Lane]:
            with f.loop(first, last, e.lanes, carried=_flat(e, state)) as loop:
                x = self.element(e, views, loop.index, strides)
                loop.next(*e.combine(self.kind, _lanes(state, loop.values)[0], x).parts)
            return _lanes(state, loop.results)

        kinds = [e] * many + [one]
        *sums, tail = self._nested(gone[:-1], views, [*start, rest], kinds, line)
        while len(sums) > 1:
            sums = [e.combine(self.kind, a, b) for a, b in zip(sums[::2], sums[1::2])]
        result = e.horizontal(self.kind, sums[0])
        return result if extent == vectors else one.combine(self.kind, result, tail)

    def short(self, views: Sequence[View], extent: int, strides: Sequence[int], lanes: int) -> Lane:
        """A few elements along one axis, without a loop: vectors, then halves of vectors for what is left."""
        build, start = self.build, 0
        total: Lane | None = None
        while lanes:
            e = build.emitter(lanes)
            part: Lane | None = None
            while extent - start >= lanes:
                x = self.element(e, views, str(start), strides)
                part = x if part is None else e.combine(self.kind, part, x)
                start += lanes
            if part is not None:
                scalar = e.horizontal(self.kind, part)
                total = scalar if total is None else build.one.combine(self.kind, total, scalar)
            lanes //= 2
        assert total is not None
        return build.one.combine(self.kind, total, build.one.identity(self.kind, self.dtype))

    def _nested(self, axes: Any, views: Any, state: list[Lane], kinds: Sequence[Emitter], inside: Any) -> list[Lane]:
        if not axes:
            return inside(views, state)  # type: ignore[no-any-return]
        extent, strides = axes[0]
        carried = [(e.register(e.part(lane.dtype)), p) for lane, e in zip(state, kinds) for p in lane.parts]
        with self.f.loop(0, extent, carried=carried) as loop:
            shifted = [self.build.moved(v, [(loop.index, s)]) for v, s in zip(views, strides)]
            found = self._nested(axes[1:], shifted, _lanes(state, loop.values), kinds, inside)
            loop.next(*[p for lane in found for p in lane.parts])
        return _lanes(state, loop.results)

    def across(
        self, views: Sequence[View], gone: Sequence[Any], extent: int, strides: Sequence[int], target: View, step: int
    ) -> None:
        """Results along an axis of this extent that stays: each lane is one."""
        build, f = self.build, self.f
        lanes = 1
        while 2 * lanes <= min(extent, lanes_of(build.host, [self.dtype, *[v.dtype for v in self.inputs]])):
            lanes *= 2
        e = build.emitter(lanes)

        def block(places: Sequence[str]) -> None:
            def inside(views: Sequence[View], state: list[Lane]) -> list[Lane]:
                return [e.combine(self.kind, a, self.element(e, views, i, strides)) for a, i in zip(state, places)]

            start = [e.identity(self.kind, self.dtype)] * len(places)
            for lane, place in zip(self.carried_loop(gone, views, start, e, inside), places):
                e.store(lane, build.pointer(target), build.sum_of([(place, step)]), step)

        if extent <= AT_ONCE * lanes:  # all at once; the last vector ends with the row
            block([str(min(i, extent - lanes)) for i in range(0, extent, lanes)])
            return
        whole = extent - extent % (AT_ONCE * lanes)
        with f.loop(0, whole, AT_ONCE * lanes) as loop:
            block([loop.index, *[f.put(f"add i64 {loop.index}, {k * lanes}") for k in range(1, AT_ONCE)]])
            loop.next()
        if whole < extent:
            with f.loop(whole, extent, lanes) as loop:
                block([build.least(loop.index, extent - lanes) if extent % lanes else loop.index])
                loop.next()


def _flat(e: Emitter, lanes: Sequence[Lane]) -> list[tuple[str, str]]:
    return [(e.register(e.part(lane.dtype)), p) for lane in lanes for p in lane.parts]


def _lanes(like: Sequence[Lane], names: Sequence[str]) -> list[Lane]:
    """Lanes of the same dtypes with other names."""
    it = iter(names)
    return [Lane(lane.dtype, tuple([next(it) for _ in lane.parts])) for lane in like]


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
) -> Lane | None:
    """Reduce body(inputs) of that shape over axes: into `target`, or, where no axis stays, to a lane."""
    if not axes:
        assert target is not None
        build.nest(shape, inputs, [target], lambda e, lanes: [body(e, lanes)])
        return None
    work = _Reduction(build, kind, dtype, inputs, body)
    size = prod([shape[a] for a in axes])
    stay = [i for i in range(len(shape)) if i not in axes]
    if size == 0 or not all(shape[i] for i in stay):
        empty = build.one.identity(kind, dtype)
        if not stay:
            return empty
        assert target is not None
        build.copy(Splat(empty, dtype, target.shape), target)
        return None
    gone = merged_axes([shape[i] for i in axes], [[v.strides[i] for i in axes] for v in work.views])
    if not stay:
        return work.along(work.views, gone)
    assert target is not None
    kept = merged_axes(
        [shape[i] for i in stay], [*[[v.strides[i] for i in stay] for v in work.views], target.strides]
    )
    lanes_stay = bool(kept) and (not gone or _unit(kept[-1]) >= _unit(gone[-1]) and kept[-1][0] > 1)
    outer = kept[:-1] if lanes_stay else kept
    with build.over(outer) as indices:
        steps = [[(name, axis[1][k]) for name, axis in zip(indices, outer)] for k in range(len(work.views))]
        shifted = [build.moved(v, s) for v, s in zip(work.views, steps)]
        place = build.moved(target, [(name, axis[1][-1]) for name, axis in zip(indices, outer)])
        if lanes_stay:
            extent, strides = kept[-1]
            work.across(shifted, gone, extent, strides[:-1], place, strides[-1])
        else:
            build.one.store(work.along(shifted, gone), build.pointer(place), "0")
    return None


def position(build: Build, kind: str, value: Any, axis: int, target: View | None) -> Lane | None:
    """argmax or argmin: the first extremum, or the first NaN, along an axis."""
    one, f = build.one, build.f
    view = build.in_memory(value)
    stay = [i for i in range(len(view.shape)) if i != axis]
    extent, step, dtype = view.shape[axis], view.strides[axis], view.dtype
    int64 = np.dtype(np.int64)

    def line(view: View) -> Lane:
        first = one.load(dtype, build.pointer(view), "0")
        kept = [(one.register(one.part(dtype)), p) for p in first.parts]
        with f.loop(1, extent, carried=[*kept, ("i64", "0")]) as loop:
            *parts, at = loop.values
            best = Lane(dtype, tuple(parts))
            x = one.load(dtype, build.pointer(view), build.sum_of([(loop.index, step)]))
            better = (one.gt if kind == "max" else one.lt)(x, best)
            if dtype.kind == "f":
                nan = one.logical_and(one.isnan(x), one.logical_not(one.isnan(best)))
                better = one.logical_or(better, nan)
            chosen = one.select(better, x, best)
            where = f.put(f"select i1 {better.name}, i64 {loop.index}, i64 {at}")
            loop.next(*chosen.parts, where)
        return Lane(int64, (loop.results[-1],))

    try:
        if not stay:
            return line(view)
        assert target is not None
        if 0 in target.shape:
            return None
        axes = merged_axes([view.shape[i] for i in stay], [[view.strides[i] for i in stay], target.strides])
        with build.over(axes) as indices:
            source = build.moved(view, [(name, a[1][0]) for name, a in zip(indices, axes)])
            place = build.moved(target, [(name, a[1][1]) for name, a in zip(indices, axes)])
            one.store(line(source), build.pointer(place), "0")
        return None
    finally:
        build.drop(view)


def ties(build: Build, mean: bool, t: Any, x: Any, out: Any, axes: tuple, target: View | None) -> Lane | None:
    """`tied_mean` (of t over the elements of x that attain the extremum) or `tied_spread` (of t onto them)."""
    shape, dtype = x.shape, x.dtype
    real = np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype
    if real.kind != "f" or real != t.dtype:
        raise Unsupported(f"shares of ties of {dtype} have no native code")
    stay = tuple([i for i in range(len(shape)) if i not in axes])
    full = lambda v: _onto(build, v, shape, stay)
    wide = full(out)

    def tied(e: Emitter, x: Lane, m: Lane) -> Lane:
        return e.logical_or(e.eq(x, m), e.logical_and(e.isnan(x), e.isnan(m)))

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
    return spread(value, shape, stay)

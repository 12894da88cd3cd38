"""The code of linear systems, inverses, determinants and Cholesky factors inside a whole program, also of stacks of matrices.

Idea: calls of the functions of small_matrices.py. A stack is worked on by as many matrices at once as a vector has lanes: they
are brought side by side, number by number, and the results are brought back. Invariants: what LAPACK refuses (a singular
matrix, one that is not positive definite) makes the program leave, and the reference raises; the last lanes of a stack overlap
those before them, so nothing is read from where results are written. Larger matrices are LAPACK's (lapack.py), one after the
other, by functions of the same operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.native import small_matrices as small_matrices  # whose functions are found by their names
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.lapack import LARGE, lapack_table
from funcad.backends.native.program_build import Build
from funcad.backends.native.program_moves import fill
from funcad.backends.native.program_region import Region, rule
from funcad.backends.native.program_values import Splat, View, viewed
from funcad.backends.native.target import lanes_of
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Equation

LARGEST, LARGEST_OF_STACK = 16, 64  # rows: up to there the loops take less time than LAPACK's calls and their work
STACK = 8  # matrices
ALL_CORES = 384  # rows from which on LAPACK's own threads are worth more than a program without calls of Python
FLOAT64 = np.dtype(np.float64)


def _check(equation: Equation) -> tuple[int, np.dtype]:
    """The rows of the matrices, and their dtype; Unsupported for what no code is written for."""
    aval = equation.inputs[0].aval
    if aval.dtype.kind != "f":
        raise Unsupported(f"{equation.primitive.name} of {aval.dtype} has no native code")
    if aval.shape[-1] >= ALL_CORES:
        raise Unsupported(f"{equation.primitive.name} of {ALL_CORES} or more rows is LAPACK's, on all cores")
    return aval.shape[-1], aval.dtype


def _call(build: Build, name: str, dtype: np.dtype, *arguments: tuple[str, Any]) -> str:
    given = ", ".join([f"{kind} {value}" for kind, value in arguments])
    return build.f.load(f"call i64 {build.helper(name, dtype)}({given})")


class _Stack:
    """Calls for each matrix of stacks, as many at once as a vector has lanes if there are so many, and if they are small.

    `each(views, body)`: body(pointers) for a matrix, or for the lanes, of each view. What is read is brought to lanes
    before it, what is written is brought back after it.
    """

    def __init__(self, build: Build, dtype: np.dtype, count: int, n: int):
        self.build, self.dtype, self.count = build, dtype, count
        self.lanes = lanes_of(build.host, [dtype])
        self.large = n > (LARGEST if count < STACK else LARGEST_OF_STACK)
        self.wide = count >= self.lanes > 1 and not self.large
        self.eliminated = (1, n) if self.large else (n, 1)  # how far rows and columns of what `eliminate` leaves are apart
        if self.large:
            lapack_table(dtype)  # or Unsupported
        self.status = build.new(np.dtype(np.int64), (self.lanes,))

    def call(self, name: str, *arguments: tuple[str, Any]) -> str:
        """1, or 0 if there is no result for one of the matrices; which one it is stands in `status`."""
        build, by_lapack = self.build, self.large and name in LARGE
        pointers = [build.helper("lapack_table", self.dtype)] if by_lapack else []
        own = f"{name}_lanes" if self.wide else f"{name}_large" if by_lapack else name
        places = [("ptr", p) for p in (*pointers, build.pointer(self.status))]
        return _call(build, own, self.dtype, *arguments, *places)

    def need(self, name: str, *arguments: tuple[str, Any]) -> None:
        self.build.leave_if(self.build.f.put(f"icmp eq i64 {self.call(name, *arguments)}, 0"), 1)

    def each(self, read: list[Any], results: list[tuple[Any, View]], body: Callable[..., None], writes: bool = False) -> None:
        """body(pointers) of what is read and of the results, each of which begins as another value, if one is given.

        `writes`: the body writes over what it reads, so that it gets copies.
        """
        build, views = self.build, [self.build.ordered(_array_of(x)) for x in read]
        starts = [None if start is None else build.ordered(_array_of(start)) for start, _ in results]
        targets = [target for _, target in results]
        sizes = [view.size // self.count for view in (*views, *targets)]
        lanes = self.lanes if self.wide else 1
        aside = [self.wide or writes and i < len(views) for i in range(len(sizes))]
        own = [build.new(self.dtype, (size * lanes,)) if needed else None for size, needed in zip(sizes, aside)]

        def at(view: View, first: str, size: int) -> str:
            return build.pointer(build.moved(view, [(first, size)]))

        def move(way: str, size: int, *pointers: str) -> None:
            if self.wide:
                _call(build, f"{way}_lanes", self.dtype, ("i64", size), *[("ptr", p) for p in pointers])
            else:
                source, target = [View(p, self.dtype, (size,), (1,)) for p in pointers]
                build.copy(source, target)

        with build.f.loop(0, -(-self.count // self.lanes) if self.wide else self.count) as loop:
            first = loop.index
            if self.wide:
                first = build.least(build.f.put(f"mul i64 {first}, {self.lanes}"), self.count - self.lanes)
            pointers = []
            for view, start, size, scratch in zip((*views, *targets), (*views, *starts), sizes, own):
                pointer = at(view, first, size) if scratch is None else build.pointer(scratch)
                if start is not None and (scratch is not None or start is not view):
                    move("gather", size, at(start, first, size), pointer)
                pointers.append(pointer)
            body(*pointers)
            if self.wide:
                for view, size, pointer in list(zip((*views, *targets), sizes, pointers))[len(views) :]:
                    move("scatter", size, at(view, first, size), pointer)
            loop.next()
        for used in (*views, *starts, *own, self.status):
            build.drop(used)


def _array_of(value: Any) -> Any:
    return Splat(value, value.dtype, ()) if type(value) is Lane else value


def _results(region: Region, equation: Equation, compute: Callable[..., None], dtype: np.dtype) -> list[Any]:
    """The results of an equation, which `compute` writes, in this dtype, into contiguous memory; rank 0 is read from there."""
    build = region.build
    targets = [region.target(v) if v.aval.shape else build.new(v.aval.dtype, ()) for v in equation.outputs]
    places = [t if t.contiguous and t.dtype == dtype else build.new(dtype, t.shape) for t in targets]
    if places[0].size:
        compute(*places)
    outs: list[Any] = []
    for target, place in zip(targets, places):
        if place is not target:
            _convert(build, place, target)
            build.drop(place)
        outs.append(target if target.shape else build.lane(target))
        if not target.shape:
            build.drop(target)
    return outs


def _convert(build: Build, value: Any, target: View) -> None:
    build.nest(target.shape, [value], [target], lambda e, lanes: [e.convert(lanes[0], target.dtype)])


def _in_double(region: Region, equation: Equation, values: list, compute: Callable[..., None]) -> list[Any]:
    """`compute(values, *targets)` in double precision, as NumPy has it of float32, too."""
    build, wide = region.build, []
    for x in map(_array_of, values):
        if x.dtype != FLOAT64:
            view = build.new(FLOAT64, x.shape)
            _convert(build, x, view)
            wide.append(view)
        else:
            wide.append(build.hold(x))
    outs = _results(region, equation, lambda *targets: compute(wide, *targets), FLOAT64)
    for x in wide:
        build.drop(x)
    return outs


def _sizes(*numbers: int) -> list[tuple[str, Any]]:
    return [("i64", n) for n in numbers]


@rule("solve")
def _solve(region: Region, equation: Equation, values: list) -> list:
    n, _ = _check(equation)
    k = equation.outputs[0].aval.shape[-1]

    def compute(values: list, target: View) -> None:
        stack = _Stack(region.build, FLOAT64, target.size // (n * k), n)

        def body(a: str, b: str) -> None:
            stack.need("eliminate", *_sizes(n, k), ("ptr", a), ("ptr", b))
            stack.call("substitute", *_sizes(n, k), ("ptr", a), *_sizes(*stack.eliminated), ("ptr", b), *_sizes(1, 0))

        stack.each(values[:1], [(values[1], target)], body, writes=True)

    return _in_double(region, equation, values, compute)


@rule("inv")
def _inv(region: Region, equation: Equation, values: list, *, strict: bool) -> list:
    n, _ = _check(equation)

    def compute(values: list, target: View) -> None:
        stack = _Stack(region.build, FLOAT64, target.size // (n * n), n)
        build = region.build
        status = build.new(np.dtype(np.int64), (stack.lanes,))

        def body(a: str, b: str) -> None:
            stack.call("identity", *_sizes(n), ("ptr", b))
            eliminate = stack.need if strict else stack.call
            eliminate("eliminate", *_sizes(n, n), ("ptr", a), ("ptr", b))
            if not strict:
                build.copy(stack.status, status)
            stack.call("substitute", *_sizes(n, n), ("ptr", a), *_sizes(*stack.eliminated), ("ptr", b), *_sizes(1, 0))
            if not strict:
                build.copy(status, stack.status)
                stack.call("spoil", *_sizes(n * n), ("ptr", b))

        stack.each(values, [(None, target)], body, writes=True)
        build.drop(status)

    return _in_double(region, equation, values, compute)


@rule("slogdet", "log_abs_det", "det")
def _logarithm(region: Region, equation: Equation, values: list) -> list:
    n, _ = _check(equation)
    build, name = region.build, equation.primitive.name

    def compute(values: list, *targets: View) -> None:
        stack = _Stack(build, FLOAT64, targets[0].size, n)
        spare = build.new(FLOAT64, (stack.lanes,))

        def body(a: str, *places: str) -> None:
            aside = build.pointer(spare)
            own = {"slogdet": (*places, aside), "log_abs_det": (aside, *places, aside), "det": (aside, aside, *places)}[name]
            stack.call("eliminate", *_sizes(n, 0), ("ptr", a), ("ptr", a))
            stack.call("determinant", *_sizes(n), *[("ptr", p) for p in (a, *own)])

        stack.each(values, [(None, t) for t in targets], body, writes=True)
        build.drop(spare)

    return _in_double(region, equation, values, compute)


@rule("cholesky")
def _cholesky(region: Region, equation: Equation, values: list) -> list:
    n, _ = _check(equation)

    def compute(values: list, target: View) -> None:
        stack = _Stack(region.build, FLOAT64, target.size // (n * n), n)
        stack.each(values, [(None, target)], lambda a, c: stack.need("factor", *_sizes(n), ("ptr", a), ("ptr", c)))

    return _in_double(region, equation, values, compute)


@rule("triangular_solve")
def _triangular_solve(
    region: Region, equation: Equation, values: list, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> list:
    n, dtype = _check(equation)
    k = equation.outputs[0].aval.shape[-1]
    steps, end = (1, n) if transposed else (n, 1), (int(lower == transposed), int(unit_diagonal))

    def compute(target: View) -> None:
        stack = _Stack(region.build, dtype, target.size // (n * k), n)

        def body(a: str, b: str) -> None:
            stack.need("substitute", *_sizes(n, k), ("ptr", a), *_sizes(*steps), ("ptr", b), *_sizes(*end))

        stack.each(values[:1], [(values[1], target)], body)

    return _results(region, equation, compute, dtype)


@rule("triangular_inverse")
def _triangular_inverse(region: Region, equation: Equation, values: list, *, lower: bool) -> list:
    n, dtype = _check(equation)

    def compute(target: View) -> None:
        stack = _Stack(region.build, dtype, target.size // (n * n), n)

        def body(a: str, b: str) -> None:
            if stack.large:
                stack.call("invert_triangle", *_sizes(n), ("ptr", a), ("ptr", b), *_sizes(int(not lower)))
            else:
                stack.call("identity", *_sizes(n), ("ptr", b))
                stack.call("substitute", *_sizes(n, n), ("ptr", a), *_sizes(n, 1), ("ptr", b), *_sizes(int(not lower), 0))
            stack.call("spoil", *_sizes(n * n), ("ptr", b))

        stack.each(values, [(None, target)], body)
        _keep(region, target, target, lower, 1.0)

    return _results(region, equation, compute, dtype)


@rule("triangle")
def _triangle(region: Region, equation: Equation, values: list, *, lower: bool, diagonal: float) -> list:
    dtype = equation.outputs[0].aval.dtype
    if dtype.kind != "f":
        raise Unsupported(f"triangle of {dtype} has no native code")

    def compute(target: View) -> None:
        work = region.build.ordered(_array_of(values[0]))
        _keep(region, work, target, lower, diagonal)
        region.build.drop(work)

    return _results(region, equation, compute, dtype)


def _keep(region: Region, source: View, target: View, lower: bool, diagonal: float) -> None:
    build, dtype = region.build, target.dtype
    m, n = target.shape[-2:]
    number = (build.one.register(dtype), build.one.literal(diagonal, dtype).name)
    with build.f.loop(0, target.size // (m * n)) as loop:
        places = [("ptr", build.pointer(build.moved(v, [(loop.index, m * n)]))) for v in (source, target)]
        _call(build, "keep_triangle", dtype, *_sizes(m, n), *places, *_sizes(int(not lower)), number)
        loop.next()


@rule("unit_lower")
def _unit_lower(region: Region, equation: Equation, values: list) -> list:
    dtype = equation.outputs[0].aval.dtype
    if dtype.kind != "f":
        raise Unsupported(f"unit_lower of {dtype} has no native code")

    def compute(target: View) -> None:
        build = region.build
        work = build.ordered(_array_of(values[0]))
        _keep(region, work, target, True, 0.0)
        build.drop(work)
        *batch, m, n = target.shape
        steps = (*target.strides[:-2], n + 1)
        fill(build, target._replace(shape=(*batch, min(m, n)), strides=steps), 1.0)

    return _results(region, equation, compute, dtype)


@rule("lu")
def _lu(region: Region, equation: Equation, values: list) -> list:
    """By LAPACK, of any size: its pivots are part of the result."""
    build, aval = region.build, equation.outputs[0].aval
    *batch, m, n = aval.shape
    if aval.dtype.kind != "f" or 0 in aval.shape:
        raise Unsupported(f"lu of {aval} has no native code")
    if min(m, n) >= ALL_CORES:
        raise Unsupported(f"lu of {ALL_CORES} or more rows is LAPACK's, on all cores")
    lapack_table(aval.dtype)
    x, own = build.in_memory(values[0]), [region.targets.get(v) for v in equation.outputs]
    places = [build.new(aval.dtype, (*batch, n, m)), *[build.new(v.aval.dtype, v.aval.shape) for v in equation.outputs[1:]]]
    status = build.new(np.dtype(np.int64), ())
    with build.over([(size, None) for size in batch]) as indices:
        work, pivots, order = [_matrix(build, place, indices) for place in places]
        build.copy(viewed(_matrix(build, x, indices), np.transpose), work)
        pointers = [build.pointer(work), build.pointer(pivots), build.helper("lapack_table", aval.dtype), build.pointer(status)]
        _call(build, "lu_large", aval.dtype, *_sizes(m, n), *[("ptr", p) for p in pointers])
        _call(build, "order_of_pivots", FLOAT64, *_sizes(m, min(m, n)), *_places(build, pivots, order, status))
    build.drop(x)
    build.drop(status)
    places[0] = viewed(places[0], lambda a: a.swapaxes(-1, -2))
    return [place if target is None else _moved(build, place, build.hold(target)) for place, target in zip(places, own)]


@rule("pivot_permutation")
def _pivot_permutation(region: Region, equation: Equation, values: list) -> list:
    build, aval = region.build, equation.outputs[0].aval
    if aval.dtype != np.int32 or 0 in aval.shape:
        raise Unsupported(f"pivot_permutation of {aval} has no native code")
    *batch, n = aval.shape
    pivots, target = build.ordered(values[0]), region.target(equation.outputs[0])
    order, status = build.new(aval.dtype, aval.shape), build.new(np.dtype(np.int64), ())
    with build.over([(size, None) for size in batch]) as indices:
        views = [_matrix(build, view, indices) for view in (pivots, order)]
        done = _call(build, "order_of_pivots", FLOAT64, *_sizes(n, n), *_places(build, *views, status))
        build.leave_if(build.f.put(f"icmp eq i64 {done}, 0"), 1)
    for view in (pivots, status):
        build.drop(view)
    return [_moved(build, order, target)]


def _places(build: Build, *views: View) -> list[tuple[str, str]]:
    return [("ptr", build.pointer(view)) for view in views]


def _moved(build: Build, place: View, target: View) -> View:
    """What was made in one place, in another one, of which the result is a user."""
    build.copy(place, target)
    build.drop(place)
    return target


def _matrix(build: Build, view: View, indices: Sequence[str]) -> View:
    """The part of a stack at these indices."""
    n = len(indices)
    return build.moved(view, list(zip(indices, view.strides)))._replace(shape=view.shape[n:], strides=view.strides[n:])


@rule("factored_solve")
def _factored_solve(region: Region, equation: Equation, values: list, *, transposed: bool) -> list:
    (n, dtype), build = _check(equation), region.build
    *batch, _, k = equation.outputs[0].aval.shape
    lapack_table(dtype)

    def compute(target: View) -> None:
        factors, pivots = [build.in_memory(_array_of(x)) for x in values[2:]]
        steps = factors.strides[-2:]
        if steps not in ((n, 1), (1, n)) or pivots.strides[-1:] != (1,):
            held = (factors, pivots)
            factors, pivots = [build.in_order(x) for x in held]
            steps = (n, 1)
            for view in held:
                build.drop(view)
        build.copy(_array_of(values[1]), target)
        status = build.new(np.dtype(np.int64), ())
        with build.over([(size, None) for size in batch]) as indices:
            a, order, b = [build.pointer(_matrix(build, view, indices)) for view in (factors, pivots, target)]
            pointers = [build.helper("lapack_table", dtype), build.pointer(status)]
            rest = [("ptr", order), ("ptr", b), *_sizes(int(transposed)), *[("ptr", p) for p in pointers]]
            done = _call(build, "solve_factored_large", dtype, *_sizes(n, k), ("ptr", a), *_sizes(*steps), *rest)
            build.leave_if(build.f.put(f"icmp eq i64 {done}, 0"), 1)
        for view in (factors, pivots, status):
            build.drop(view)

    return _results(region, equation, compute, dtype)

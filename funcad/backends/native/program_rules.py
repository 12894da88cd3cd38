"""The code of a whole program's operations that are not elementwise: views, reductions, products, moves, running sums.

Each rule takes the region, the equation, the operands' values and the equation's params, and gives the results' values, each
with a user of the memory that it lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.backends.loops.ordered_loops import CONTIGUOUS, ORDERED
from funcad.backends.native import batch_call, gemm, program_moves, program_reduce
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_pieces import framed, joined, rolled
from funcad.backends.native.program_region import Region, rule
from funcad.backends.native.program_values import Splat, View, moved_by, part, reshaped, same_place
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides
from funcad.ir.jaxpr import Equation, Jaxpr
from funcad.primitives.atoms import fold_of


def _view(region: Region, value: Any) -> Any:
    """A view as the result of an equation: rank 0 is read at once."""
    if type(value) is not Lane and not value.shape:
        return region.build.lane(value)
    return region.build.hold(value)


@rule("broadcast_in_dim", "transpose", "basic_index", "slice", "rev", views=True)
def _looked_at(region: Region, equation: Equation, values: list, **params: Any) -> list:
    (x,) = values
    return [_view(region, moved_by(equation.primitive, Splat(x, x.dtype, ()) if type(x) is Lane else x, **params))]


@rule("reshape", views=True)
def _reshape(region: Region, equation: Equation, values: list, *, shape: tuple) -> list:
    (x,) = values
    view = reshaped(Splat(x, x.dtype, ()) if type(x) is Lane else x, shape)
    return [reshaped(region.build.in_order(x), shape) if view is None else _view(region, view)]


@rule("stop_gradient", "optimization_barrier", "name", views=True)
def _same(region: Region, equation: Equation, values: list, **params: Any) -> list:
    return [region.build.hold(v) for v in values]


@rule("python_checked", views=True)
def _checked(region: Region, equation: Equation, values: list, *, function: str) -> list:
    """Where Python may refuse the numbers the program leaves: the reference asks Python."""
    x, build = values[0], region.build
    if type(x) is not Lane or x.dtype.kind != "f":
        raise Unsupported("only Python's numbers are asked for what Python refuses")
    build.leave_if(build.f.put(f"xor i1 {build.one.isfinite(x).name}, true"), 1)
    return [build.hold(x)]


def _into(region: Region, equation: Equation, write: Callable[[View], Any]) -> list:
    """The result of an operation that writes into memory; rank 0 is read from there."""
    (v,) = equation.outputs
    target = region.target(v) if v.aval.shape else region.build.new(v.aval.dtype, ())
    write(target)
    if v.aval.shape:
        return [target]
    lane = region.build.lane(target)
    region.build.drop(target)
    return [lane]


@rule("reduction")
def _reduction(region: Region, equation: Equation, values: list, *, axes: tuple) -> list:
    (x,), (v,) = values, equation.outputs
    dtype, kind = v.aval.dtype, fold_of(equation.primitive)
    if kind is None:
        raise Unsupported(f"{equation.primitive.name} has no native code")
    read = lambda e, x: e.convert(x, dtype)
    if type(x) is Lane:
        return [read(region.build.one, x)]
    if not axes:
        return _into(region, equation, lambda t: region.build.nest(t.shape, [x], [t], lambda e, l: [read(e, l[0])]))
    target = region.target(v) if v.aval.shape else None
    lane = program_reduce.reduce(region.build, kind, dtype, x.shape, axes, [x], lambda e, l: read(e, l[0]), target, "elements")
    return [lane if target is None else target]


@rule("argmax", "argmin")
def _position(region: Region, equation: Equation, values: list, *, axis: int) -> list:
    (v,) = equation.outputs
    target = region.target(v) if v.aval.shape else None
    lane = program_reduce.position(region.build, equation.primitive.name[3:], values[0], axis, target)
    return [lane if target is None else target]


@rule("tied_mean", "tied_spread")
def _ties(region: Region, equation: Equation, values: list, *, axes: tuple) -> list:
    (v,) = equation.outputs
    target = region.target(v) if v.aval.shape else None
    t, x, out = values
    lane = program_reduce.ties(region.build, equation.primitive.name == "tied_mean", t, x, out, axes, target)
    return [lane if target is None else target]


@rule("dot_general")
def _dot(region: Region, equation: Equation, values: list, *, dimension_numbers: Any) -> list:
    build, (v,) = region.build, equation.outputs
    x, y = [Splat(a, a.dtype, ()) if type(a) is Lane else a for a in values]
    target = region.target(v) if v.aval.shape else None
    lane = gemm.dot(build, x, y, dimension_numbers, target)
    return [lane if target is None else target]


@rule("concatenate", moves=True)
def _concatenate(region: Region, equation: Equation, values: list, *, axis: int) -> list:
    (v,) = equation.outputs
    return region.in_pieces(equation, joined(values, axis, v.aval.shape))


@rule("pad", moves=True)
def _pad(region: Region, equation: Equation, values: list, *, low: tuple, high: tuple, interior: tuple) -> list:
    (x,) = values
    return _framed(region, equation, x, [(a if n else 0, n, k + 1) for a, n, k in zip(low, x.shape, interior)])


@rule("basic_place", moves=True)
def _place(region: Region, equation: Equation, values: list, *, index: tuple, shape: tuple) -> list:
    return _framed(region, equation, values[0], index)


def _framed(region: Region, equation: Equation, x: Any, index: Any) -> list:
    """Zeros, with x at a basic index."""
    (v,) = equation.outputs
    box = program_moves.box_of(index)
    if type(x) is Lane or box is None or 0 in x.shape:
        region.settle(equation.inputs[0])
        x = region.read(equation.inputs[0])
        return _into(region, equation, lambda t: program_moves.place(region.build, x, index, t))
    x = part(x, [0 if entry is None else None if type(entry) is int else (0, entry[1], 1) for entry in index])
    zero = region.build.one.literal(0, v.aval.dtype)
    return region.in_pieces(equation, framed(x, tuple(box), v.aval.shape, zero))


@rule("place_sum")
def _place_sum(region: Region, equation: Equation, values: list, *, indices: tuple, shape: tuple) -> list:
    return _into(region, equation, lambda t: program_moves.place_sum(region.build, values, indices, t))


def _written(region: Region, equation: Equation, values: list, write: Callable[[View], Any]) -> list:
    """The first operand with some elements written: in its own memory if nobody else needs it, else in a copy."""
    x = values[0]
    (v,) = equation.outputs
    if region.writable(equation, x) or v in region.written_there and same_place(x, region.targets[v]):
        write(x)
        return [region.build.hold(x)]

    def anew(target: View) -> None:
        region.build.copy(x, target)
        write(target)

    return _into(region, equation, anew)


@rule("basic_update")
def _update(region: Region, equation: Equation, values: list, *, index: tuple) -> list:
    return _written(region, equation, values, lambda t: program_moves.update(region.build, values[1], index, t))


@rule("basic_add")
def _add(region: Region, equation: Equation, values: list, *, index: tuple) -> list:
    return _written(region, equation, values, lambda t: program_moves.add(region.build, values[1], part(t, index)))


@rule("table")
def _table(region: Region, equation: Equation, values: list, *, data: bytes, dtype: np.dtype) -> list:
    constants, (v,) = region.build.f.module.constants, equation.outputs
    size = len(data)
    definition = f"= internal constant [{size} x i8] [{', '.join([f'i8 {byte}' for byte in data])}], align 64"
    name = next((n for n, text in constants.items() if text.endswith(definition)), f"@numbers{len(constants)}")
    constants[name] = f"{name} {definition}"
    pointer = region.build.f.put(f"getelementptr i8, ptr {name}, i64 0")
    return [View(pointer, dtype, v.aval.shape, contiguous_strides(v.aval.shape))]


@rule("roll", moves=True)
def _roll(region: Region, equation: Equation, values: list, *, shift: int, axis: int) -> list:
    return region.in_pieces(equation, rolled(values[0], shift, axis))


@rule("shift", moves=True)
def _shift(region: Region, equation: Equation, values: list, *, axis: int, reverse: bool, fill: int) -> list:
    (x,) = values
    n = x.shape[axis]
    box = tuple([(int(not reverse), n - int(reverse)) if i == axis else (0, m) for i, m in enumerate(x.shape)])
    kept = part(x, [(int(reverse), n - 1, 1) if i == axis else (0, m, 1) for i, m in enumerate(x.shape)]) if n else x
    around = region.build.one.literal(fill, x.dtype)
    return region.in_pieces(equation, framed(kept, box, x.shape, around) if n else x)


@rule("dynamic_slice")
def _dynamic_slice(region: Region, equation: Equation, values: list, *, sizes: tuple) -> list:
    x, *starts = values
    if type(x) is Lane:
        return [x]
    x = region.build.in_memory(x)
    view = _view(region, program_moves.window(region.build, x, starts, sizes))
    region.build.drop(x)
    return [view]


@rule("dynamic_update_slice")
def _dynamic_update(region: Region, equation: Equation, values: list) -> list:
    _, u, *starts = values
    return _written(region, equation, values, lambda t: program_moves.dynamic_update(region.build, u, starts, t))


@rule("dynamic_add")
def _dynamic_add(region: Region, equation: Equation, values: list) -> list:
    _, u, *starts = values
    build, shape = region.build, equation.inputs[1].aval.shape
    window = lambda t: program_moves.window(build, t, starts, shape)
    return _written(region, equation, values, lambda t: program_moves.add(build, u, window(t)))


@rule("positions")
def _positions(region: Region, equation: Equation, values: list, *, size: int, dtype: Any) -> list:
    return _into(region, equation, lambda t: program_moves.positions(region.build, t))


@rule(*ORDERED)
def _ordered(region: Region, equation: Equation, values: list, **params: Any) -> list:
    build, name = region.build, equation.primitive.name
    order = build.ordered if name in CONTIGUOUS else build.in_memory
    if name == "scatter":
        return _written(region, equation, values, lambda t: program_moves.ordered(build, equation, values, t))
    values = [x if type(x) is Lane and name not in CONTIGUOUS else order(x) for x in values]
    if name == "is_last":
        values = [build.new(np.dtype(np.int64), params["dims"]), *values]
    if name == "gather" and not equation.inputs[1].aval.shape:
        outs = [_view(region, program_moves.picked(build, *values))]
    else:
        outs = _into(region, equation, lambda t: program_moves.ordered(build, equation, values, t))
    for view in values:
        build.drop(view)
    return outs


@rule("fused")
def _batch(region: Region, equation: Equation, values: list, *, jaxpr: Jaxpr, kind: str, shape: tuple) -> list:
    """A loop over small examples."""
    if kind != "batch":  # a program that was fused for the other engine
        raise Unsupported(f"a group of kind {kind} is no part of a whole program")
    build, (size,) = region.build, shape
    places = [region.target(v) for v in equation.outputs]
    views = [build.ordered(x) for x in values]
    pointers = [build.pointer(view) for view in (*views, *places)]
    lanes, n = batch_call.lanes_for(jaxpr, build.host, size), len(views)
    batch_call.write(build.f, jaxpr, build.host, lanes, pointers[:n], pointers[n:], begin=0, end=size)
    for view in views:
        build.drop(view)
    return places

"""Operations that write some elements, look elements up, run along an axis or sort, in C.

Invariants: an array whose last reader is a write is written in place. A computed index out of bounds ends the function with a
status before anything is read there. Sorting is stable, NaN last, by positions: keys are looked at where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from funcad.backends.export.c_elements import CValue, c_type, lane_type
from funcad.backends.export.c_program import INDEX, CArray, CProgram, rule
from funcad.backends.loops.nest import ONES, At, For, Into, Let, Load, Put, loaded, nested, strided
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides, seen
from funcad.ir.jaxpr import Equation
from funcad.primitives.atoms import RUNNING
from funcad.primitives.basic_indexing import common_index, python_index

_INT64 = np.dtype(np.int64)


# -- writes of some elements


def _over(p: CProgram, equation: Equation, x: Any) -> Any:
    """The first operand's elements in an array that may be written: its own, if nobody else needs it."""
    (v,) = equation.outputs
    if v not in p.wanted and p.writable(x):
        return p.hold(x)
    target = p.new(v)
    p.copy(x, target)
    return target


@rule("basic_update", "basic_add")
def _update(p: CProgram, equation: Equation, values: list, *, index: tuple) -> list:
    (v,) = equation.outputs
    if not v.aval.shape:
        x, u = values
        return [u if equation.primitive.name == "basic_update" else p.e.add(x, u)]
    target = _over(p, equation, values[0])
    _write(p, seen(target, lambda a: a[python_index(index)]), values[1], equation.primitive.name == "basic_add")
    return [target]


def _write(p: CProgram, part: CArray, u: Any, adds: bool) -> None:
    reads = [part, u] if adds else [u]
    p.sweep(part.shape, reads, [part], lambda lanes: [p.e.add(*lanes) if adds else lanes[0]])


@rule("place_sum")
def _place_sum(p: CProgram, equation: Equation, values: list, *, indices: tuple, shape: tuple) -> list:
    (v,) = equation.outputs
    target = p.new(v)
    p.fill(target, 0)
    common = common_index(indices, shape) if v.aval.dtype.kind in "fc" else None
    if common is not None:
        p.fill(seen(target, lambda a: a[common]), complex(-0.0, -0.0) if v.aval.dtype.kind == "c" else -0.0)
    for x, index in zip(values, indices):
        _write(p, seen(target, lambda a, index=index: a[python_index(index)]), x, True)
    return [target]


def _window(p: CProgram, x: CArray, starts: Sequence[Any], sizes: Sequence[int], const: str) -> CArray:
    """The window of x at computed starts: wrapped once, then clamped."""
    terms = []
    for start, k, n, s in zip(starts, sizes, x.shape, x.strides):
        at = p.fresh("j")
        p.line(f"int64_t {at} = (int64_t){start.text};")
        p.line(f"{at} = {at} < 0 ? {at} + {n} : {at};")
        p.line(f"{at} = {at} < 0 ? 0 : {at} > {n - k} ? {n - k} : {at};")
        terms.append(f"{at} * {s}")
    name = p.fresh("q")
    p.line(f"{const}{c_type(x.dtype)} *{name} = {x.pointer} + {' + '.join(terms) or '0'};")
    return x._replace(base=name, shape=tuple(sizes), offset=0)


@rule("dynamic_slice")
def _dynamic_slice(p: CProgram, equation: Equation, values: list, *, sizes: tuple) -> list:
    x, *starts = values
    if type(x) is not CArray:
        return [x]
    part = _window(p, x, starts, sizes, "const ")
    (v,) = equation.outputs
    if v in p.wanted:
        target = p.new(v)
        p.copy(part, target)
        return [target]
    return [p.hold(part)]


@rule("dynamic_update_slice", "dynamic_add")
def _dynamic_update(p: CProgram, equation: Equation, values: list) -> list:
    x, u, *starts = values
    adds = equation.primitive.name == "dynamic_add"
    if type(x) is not CArray:
        return [p.e.add(x, u) if adds else u]
    target = _over(p, equation, x)
    if 0 not in target.shape:
        _write(p, _window(p, target, starts, u.shape, ""), u, adds)
    return [target]


# -- computed indices
#
# As in Python negative indices count from the end, and what is out of bounds is an error: the function ends with a status, with
# some of its results written. Index arrays of lanes (`batch_dims`) are read with the loops that they share with the operand.


def _checked_at(p: CProgram, index: CValue, n: int) -> str:
    """A computed index as a number in [0, n); elsewhere the function ends."""
    at = p.fresh("j")
    p.line(f"int64_t {at} = (int64_t){index.text};")
    high = f"{index.text} > UINT64_C({2**63 - 1}) || " if index.dtype == np.uint64 else ""
    p.leave_if(f"{high}{at} < -{n} || {at} >= {n}" if n else "1", INDEX)
    p.line(f"{at} = {at} < 0 ? {at} + {n} : {at};")
    return at


def _at_indices(p: CProgram, place: CArray, indices: list, shape: tuple, lanes: int) -> Any:
    """Loops over `shape`, what is known in each, where in `place` the computed indices lead, and strides by index.

    Indices are looked at where they change, outside of the other loops.
    """
    loops = [For(f"i{k}", 0, n, ONES, ()) for k, n in enumerate(shape)]
    given = {("index", k): x for k, x in enumerate(indices)}
    rows = {key: x.strides if type(x) is CArray else () for key, x in given.items()}
    bodies = loaded(loops, [(key, x.dtype, rows[key]) for key, x in given.items()])
    numbers, rank = tuple([("at", k) for k in range(len(indices))]), max(map(len, rows.values()), default=lanes)
    checked = lambda e, xs: [CValue(_INT64, _checked_at(p, x, n)) for x, n in zip(xs, place.shape[lanes:])]
    bodies[rank].append(Let(numbers, tuple(given), checked))
    names = [loop.index for loop in loops]
    steps = dict(zip([*names[:lanes], *numbers, *names[rank:]], place.strides, strict=True))
    along: dict[Any, Any] = {key: dict(zip(names, row)) for key, row in rows.items()}
    at = At("place", tuple([(name, s * place.dtype.itemsize) for name, s in steps.items()]))
    return loops, bodies, at, given, {**along, "place": steps}


@rule("gather")
def _gather(p: CProgram, equation: Equation, values: list, *, batch_dims: int, unique: bool) -> list:
    (v,), x = equation.outputs, p.as_array(values[0])
    shape = v.aval.shape
    if 0 in shape:
        return [p.new(v)]
    target = p.new(v) if shape else p.variable(x.dtype)
    loops, bodies, at, given, along = _at_indices(p, x, values[1:], shape, batch_dims)
    strides = target.strides if shape else ()
    bodies[-1] += [Load("element", x.dtype, at), Put(strided("out", loops, x.dtype, strides), "element", x.dtype)]
    along["out"] = {loop.index: s for loop, s in zip(loops, strides)}
    p.nest(nested(loops, bodies), {"place": x, **given}, {"out": target}, along)
    return [target]


def _lane(p: CProgram, x: Any, names: Sequence[str]) -> CValue:
    """The element of an array at the first of these indices."""
    return p.e.load(x.dtype, x.at(names[: len(x.shape)])) if type(x) is CArray else x


@rule("scatter")
def _scatter(p: CProgram, equation: Equation, values: list, *, mode: str, batch_dims: int, unique: bool) -> list:
    x, u, *indices = values
    if type(x) is not CArray:
        raise Unsupported("a scatter into a number")
    shape, target = equation.inputs[1].aval.shape, _over(p, equation, x)
    word = {"set": None, "add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}[mode]
    if 0 in shape:
        return [target]
    loops, bodies, at, given, along = _at_indices(p, target, indices, shape, batch_dims)
    along["update"] = {loop.index: s for loop, s in zip(loops, u.strides)} if type(u) is CArray else {}
    bodies[-1].append(Load("update", u.dtype, At("update", tuple(along["update"].items()))))
    bodies[-1].append(Into(at, target.dtype, word, "update") if word else Put(at, "update", target.dtype))
    p.nest(nested(loops, bodies), {"update": u, **given}, {"place": target}, along)
    return [target]


@rule("checked_index")
def _checked_index(
    p: CProgram, equation: Equation, values: list, *, shape: tuple, size: int, axis: int, dtype: np.dtype
) -> list:
    (v,) = equation.outputs
    (x,) = values
    if not shape:
        at = _checked_at(p, _lane(p, x, ["0"] * 9), size)
        return [p.e.put(dtype, f"({c_type(dtype)}){at}")]
    x = p.contiguous(x)
    target = p.new(v)
    flat = x._replace(shape=shape, strides=contiguous_strides(shape))
    p.sweep(shape, [flat], [target], lambda l: [p.e.put(dtype, f"({c_type(dtype)}){_checked_at(p, l[0], size)}")])
    p.release(x)
    return [target]


@rule("pick_lanes")
def _pick_lanes(p: CProgram, equation: Equation, values: list) -> list:
    """Lanes where the mask does not hold are the first one where it does; as they are, if there is none."""
    x, mask = values
    target = p.new(equation.outputs[0])
    mask = p.contiguous(mask)
    rank, lanes = len(mask.shape), prod(mask.shape)
    chosen = p.fresh("s")
    p.line(f"int64_t {chosen} = 0;")
    p.line(f"while ({chosen} < {lanes} && {mask.base}[{mask.offset} + {chosen}] == 0) {chosen}++;")
    p.line(f"if ({chosen} == {lanes}) {chosen} = -1;")
    if 0 not in x.shape:
        with p.loops(x.shape) as names:
            terms = [f"{name} * {s}" for name, s in zip(names, contiguous_strides(mask.shape))]
            lane, held = p.fresh("j"), p.e.load(mask.dtype, mask.at(names[:rank]))
            p.line(f"const int64_t {lane} = {held.text} || {chosen} < 0 ? {' + '.join(terms)} : {chosen};")
            own = []
            for n, s in zip(mask.shape, contiguous_strides(mask.shape)):
                own.append(f"({lane} / {s} % {n})")
            p.line(f"{target.at(names)} = {x.at([*own, *names[rank:]])};")
    p.release(mask)
    return [target]


@rule("positions")
def _positions(p: CProgram, equation: Equation, values: list, *, size: int, dtype: np.dtype) -> list:
    target = p.new(equation.outputs[0])
    p.each(target, lambda i: f"({c_type(dtype)}){i}")
    return [target]


# -- along an axis
#
# An array is looked at with that axis last, and from its end where the order is the other one. A running total is a variable,
# so that the order is NumPy's, and so are the bits.


def _along(p: CProgram, x: Any, axis: int, reverse: bool = False) -> CArray:
    step = -1 if reverse else 1
    return seen(p.as_array(x), lambda a: np.moveaxis(a, axis, -1)[..., ::step])


def _running(
    p: CProgram, equation: Equation, values: list, axis: int, reverse: bool, step: Callable[..., CValue]
) -> list:
    """out[k] = step(out[k - 1], operands at k) along an axis; out[0] is the first operand's."""
    target = p.new(equation.outputs[0])
    if 0 in target.shape:
        return [target]
    out, *ins = [_along(p, x, axis, reverse) for x in (target, *values)]
    with p.loops(out.shape[:-1]) as names:
        total = CValue(target.dtype, p.fresh("t"))
        load = lambda x, k: p.e.load(target.dtype, x.at([*names, k]))
        p.line(f"{lane_type(target.dtype)} {total.text} = {load(ins[0], '0').text};")
        p.line(f"{out.at([*names, '0'])} = {total.text};")
        with p.block(f"for (int64_t k = 1; k < {out.shape[-1]}; k++)"):
            p.line(f"{total.text} = {step(total, *[load(x, 'k') for x in ins]).text};")
            p.line(f"{out.at([*names, 'k'])} = {total.text};")
    return [target]


@rule(*RUNNING)
def _cumulative(p: CProgram, equation: Equation, values: list, *, axis: int, reverse: bool) -> list:
    step = lambda total, x: p.e.combine(RUNNING[equation.primitive.name], total, x)
    return _running(p, equation, values, axis, reverse, step)


@rule("linear_recurrence")
def _recurrence(p: CProgram, equation: Equation, values: list, *, axis: int, reverse: bool) -> list:
    step = lambda total, more, factor: p.e.add(p.e.mul(factor, total), more)
    return _running(p, equation, values, axis, reverse, step)


@rule("argmax", "argmin")
def _position(p: CProgram, equation: Equation, values: list, *, axis: int) -> list:
    (v,), x = equation.outputs, _along(p, values[0], axis)
    target = p.new(v) if v.aval.shape else None
    if 0 in v.aval.shape:
        return [target]
    best = p.fresh("s")
    if target is None:
        p.line(f"int64_t {best} = 0;")
    with p.loops(x.shape[:-1]) as names:
        if target is not None:
            p.line(f"int64_t {best} = 0;")
        with p.block(f"for (int64_t k = 1; k < {x.shape[-1]}; k++)"):
            old, new = [p.e.load(x.dtype, x.at([*names, k])) for k in (best, "k")]
            better = p.e.gt(new, old) if equation.primitive.name == "argmax" else p.e.lt(new, old)
            known = p.e.eq(old, old)
            p.line(f"if ({known.text} && ({better.text} || {p.e.ne(new, new).text})) {best} = k;")
        if target is not None:
            p.line(f"{target.at(names)} = {best};")
    return [CValue(_INT64, best) if target is None else target]


@contextmanager
def _ordered(
    p: CProgram, keys: Sequence[CArray], axis: int, descending: bool = False
) -> Iterator[tuple[list[str], Callable[[str], str]]]:
    """For each lane: its place, and which position is the i-th, sorted by the first key, equal ones by the next ..."""
    keys = [_along(p, x, axis, descending) for x in keys]
    n = keys[0].shape[-1]
    if any([k.dtype.kind == "c" for k in keys]):
        raise Unsupported("sorting complex numbers")
    order, spare = [p.array(_INT64, (n,)) for _ in range(2)]
    with p.loops(keys[0].shape[:-1]) as names:
        p.each(order, lambda i: i)
        for x in reversed(keys):
            call = f"{n}, &{x.at([*names, '0'])}, {x.strides[-1]}, {order.base}, {spare.base}"
            p.line(f"{p.helper('argsort', x.dtype)}({call});")
        place = "{0}[{2}]" if not descending else "{1} - {0}[{1} - {2}]"
        yield names, lambda i: place.format(order.base, n - 1, i)
    p.release(order, spare)


@rule("argsort", "argsort_many")
def _argsort(
    p: CProgram, equation: Equation, values: list, *, axis: int, descending: bool = False, stable: bool = True
) -> list:
    target = p.new(equation.outputs[0])
    out = _along(p, target, axis)
    if 0 not in target.shape:
        with _ordered(p, values, axis, descending) as (names, place), p.loops(out.shape[-1:]) as (i,):
            p.line(f"{out.at([*names, i])} = {place(i)};")
    return [target]


@rule("sort")
def _sort(p: CProgram, equation: Equation, values: list, *, axis: int) -> list:
    target = p.new(equation.outputs[0])
    x, out = _along(p, values[0], axis), _along(p, target, axis)
    if 0 not in target.shape:
        with _ordered(p, values, axis) as (names, place), p.loops(out.shape[-1:]) as (i,):
            p.line(f"{out.at([*names, i])} = {x.at([*names, place(i)])};")
    return [target]


@rule("top_k")
def _top_k(p: CProgram, equation: Equation, values: list, *, k: int) -> list:
    (x,), (best, where) = values, [p.new(v) for v in equation.outputs]
    if 0 not in best.shape:
        with _ordered(p, values, len(x.shape) - 1, True) as (names, place), p.loops([k]) as (i,):
            at = p.fresh("j")
            p.line(f"const int64_t {at} = {place(i)};")
            p.line(f"{best.at([*names, i])} = {x.at([*names, at])};")
            p.line(f"{where.at([*names, i])} = {at};")
    return [best, where]


@rule("searchsorted")
def _searchsorted(p: CProgram, equation: Equation, values: list, *, side: str, lanes: int) -> list:
    table, x = values
    (v,) = equation.outputs
    if table.dtype.kind == "c":
        raise Unsupported("searching complex numbers")
    n, s = table.shape[-1], table.strides[-1]
    call = lambda lane, names: (
        f"{p.helper('search', table.dtype)}({n}, &{table.at(names[:lanes])}, {s}, {lane.text}, {int(side == 'right')})"
    )
    if not v.aval.shape:
        return [p.e.put(_INT64, call(x, []))]
    target = p.new(v)
    with p.loops(v.aval.shape) as names:
        p.line(f"{target.at(names)} = {call(_lane(p, x, names), names)};")
    return [target]

"""Operations that write some elements, look elements up, run along an axis or sort, in C.

Invariants: an array whose last reader is a write is written in place. A computed index out of bounds ends the function with a
status before anything is read there. Sorting is stable, NaN last, by positions: keys are looked at where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from funcad.backends.export.c_elements import CValue, c_type
from funcad.backends.export.c_program import INDEX, CArray, CProgram, rule
from funcad.backends.loops.ordered_loops import CONTIGUOUS, INT64, ORDERED
from funcad.backends.plans.element_plan import Unsupported, seen
from funcad.ir.jaxpr import Equation
from funcad.primitives.basic_indexing import common_index, python_index

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


# -- elements that go in order: the nests are those of loops/ordered_loops.py
#
# As in Python negative indices count from the end, and what is out of bounds is an error: the function ends with a status, with
# some of its results written.


@rule(*ORDERED)
def _in_order(p: CProgram, equation: Equation, values: list, **params: Any) -> list:
    (v,), name = equation.outputs, equation.primitive.name
    made: list[CArray] = []

    def look(e: Any, index: CValue, n: int) -> CValue:
        """A computed index as a number in [0, n); elsewhere the function ends."""
        at = p.fresh("j")
        p.line(f"int64_t {at} = (int64_t){index.text};")
        high = f"{index.text} > UINT64_C({2**63 - 1}) || " if index.dtype == np.uint64 else ""
        p.leave_if(f"{high}{at} < -{n} || {at} >= {n}" if n else "1", INDEX)
        p.line(f"{at} = {at} < 0 ? {at} + {n} : {at};")
        return CValue(INT64, at)

    if name == "scatter":
        if type(values[0]) is not CArray:
            raise Unsupported("a scatter into a number")
        target = _over(p, equation, values[0])
    else:
        target = p.new(v) if v.aval.shape else p.variable(v.aval.dtype)
        if name in CONTIGUOUS:
            values = [p.contiguous(x) for x in values]
            made += values
        else:
            values = [p.as_array(values[0]), *values[1:]]
    if name == "is_last":
        made.append(p.array(INT64, params["dims"]))
        values = [*made, *values]
    walk = ORDERED[name](equation, target, values, look)
    given = {k: x for k, x in walk.arrays.items() if k not in walk.writes}
    written = {k: walk.arrays[k] for k in walk.writes}
    p.nest(walk.nest, given, written, walk.steps)
    p.release(*made)
    return [target]


@rule("positions")
def _positions(p: CProgram, equation: Equation, values: list, *, size: int, dtype: np.dtype) -> list:
    target = p.new(equation.outputs[0])
    p.each(target, lambda i: f"({c_type(dtype)}){i}")
    return [target]


# -- along an axis
#
# An array is looked at with that axis last, and from its end where the order is the other one.


def _along(p: CProgram, x: Any, axis: int, reverse: bool = False) -> CArray:
    step = -1 if reverse else 1
    return seen(p.as_array(x), lambda a: np.moveaxis(a, axis, -1)[..., ::step])


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
    return [CValue(INT64, best) if target is None else target]


@contextmanager
def _ordered(
    p: CProgram, keys: Sequence[CArray], axis: int, descending: bool = False
) -> Iterator[tuple[list[str], Callable[[str], str]]]:
    """For each lane: its place, and which position is the i-th, sorted by the first key, equal ones by the next ..."""
    keys = [_along(p, x, axis, descending) for x in keys]
    n = keys[0].shape[-1]
    if any([k.dtype.kind == "c" for k in keys]):
        raise Unsupported("sorting complex numbers")
    order, spare = [p.array(INT64, (n,)) for _ in range(2)]
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
        return [p.e.put(INT64, call(x, []))]
    target = p.new(v)
    with p.loops(v.aval.shape) as names:
        lane = p.e.load(x.dtype, x.at(names[: len(x.shape)])) if type(x) is CArray else x
        p.line(f"{target.at(names)} = {call(lane, names)};")
    return [target]

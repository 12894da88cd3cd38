"""Sums whose error does not grow with the number of elements: a total, and what it has lost to rounding (Neumaier's way).

Idea: `two_sum` says exactly what an addition loses. Lanes and parts are added with it, in a fixed order, and at the end
`settled` adds to the total what was lost. Trap: an infinity must not meet its own compensation, which is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.backends.native import ir
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane


def plus(e: Emitter, dtype: np.dtype, a: str, b: str) -> str:
    operation = {"f": "fadd", "b": "or"}.get(dtype.kind, "add")  # NumPy's sum of bools, in bool, is `or`
    return e.put(f"{operation} {e.register(dtype)} {a}, {b}")


def two_sum(e: Emitter, dtype: np.dtype, a: str, b: str) -> tuple[str, str]:
    """a + b, and what it lost to rounding, exactly (Knuth)."""
    kind = e.register(dtype)
    total = plus(e, dtype, a, b)
    back = e.put(f"fsub {kind} {total}, {a}")
    left = e.put(f"fsub {kind} {a}, {e.put(f'fsub {kind} {total}, {back}')}")
    right = e.put(f"fsub {kind} {b}, {back}")
    return total, e.put(f"fadd {kind} {left}, {right}")


def added(e: Emitter, total: Lane, lost: Lane, term: Lane) -> tuple[Lane, Lane]:
    """The total with one more term, and what was lost so far."""
    part = e.part(total.dtype)
    pairs = [two_sum(e, part, a, b) for a, b in zip(total.parts, term.parts)]
    less = [plus(e, part, a, error) for a, (_, error) in zip(lost.parts, pairs)]
    return Lane(total.dtype, tuple([t for t, _ in pairs])), Lane(total.dtype, tuple(less))


def settled(one: Emitter, dtype: np.dtype, total: str, lost: str) -> str:
    """total + lost; but an infinity, and what became of one, stays what it is."""
    kind = one.register(dtype)
    finite = one.put(f"fcmp oeq {kind} {one.put(f'fsub {kind} {lost}, {lost}')}, {one.literal(0, dtype).name}")
    return one.put(f"select i1 {finite}, {kind} {plus(one, dtype, total, lost)}, {kind} {total}")


def across(e: Emitter, total: Lane, lost: Lane) -> Lane:
    """The sum of all lanes and of what they lost, a scalar."""
    part, found = e.part(total.dtype), []
    for a, b in zip(total.parts, lost.parts):
        each = e
        while each.lanes > 1:
            half = Emitter(e.function, each.lanes // 2, e.host)
            low = plus(half, part, *_halves(each, part, b))
            a, error = two_sum(half, part, *_halves(each, part, a))
            b, each = plus(half, part, low, error), half
        found.append(settled(each, part, a, b))
    return Lane(total.dtype, tuple(found))


def _halves(e: Emitter, dtype: np.dtype, value: str) -> tuple[str, str]:
    """The lower and the upper half of a vector; scalars, if it has two lanes."""
    kind, width = e.register(dtype), e.lanes // 2
    if width == 1:
        return e.put(f"extractelement {kind} {value}, i64 0"), e.put(f"extractelement {kind} {value}, i64 1")
    orders = [", ".join([f"i32 {first + i}" for i in range(width)]) for first in (0, width)]
    low, high = [e.put(f"shufflevector {kind} {value}, {kind} poison, <{width} x i32> <{o}>") for o in orders]
    return low, high


def emit_total(function: ir.Function, host: Any, kind: str, dtype: np.dtype, pointer: str, count: str, stride: Any) -> Lane:
    """One accumulation from those of `count` parts, which are `stride` elements apart; in order, compensated."""
    one = Emitter(function, 1, host)
    first = one.load(dtype, pointer, "0")
    exact = kind == "add" and one.part(dtype).kind == "f"
    nothing = Lane(dtype, (one.literal(0, one.part(dtype)).name,) * len(first.parts))
    carried = [(one.register(dtype), p) for lane in ((first, nothing) if exact else (first,)) for p in lane.parts]
    n = len(first.parts)
    with function.loop(1, count, carried=carried) as loop:
        term = one.load(dtype, pointer, function.put(f"mul i64 {loop.index}, {stride}"))
        total, lost = Lane(dtype, tuple(loop.values[:n])), Lane(dtype, tuple(loop.values[n:]))
        lanes = added(one, total, lost, term) if exact else (one.combine(kind, total, term),)
        loop.next(*[p for lane in lanes for p in lane.parts])
    total, lost = Lane(dtype, tuple(loop.results[:n])), Lane(dtype, tuple(loop.results[n:]))
    return across(one, total, lost) if exact else total

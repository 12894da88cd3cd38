"""Integrals of sampled functions: the rules of trapezoids, of Simpson and of Romberg."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy import calculus
from funcad.numpy.axes import array_of, axis_of, move
from funcad.numpy.fft import floating
from funcad.primitives.conversion import convert
from funcad.primitives.shape import reshape
from funcad.scipy.constants import constant
from funcad.scipy.door import implements, keeps_single_precision, refuse

__all__ = ["trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson", "romb"]


@implements("integrate.trapezoid", lift=True)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    return calculus.trapezoid(y, x, dx, axis)


def _lines(y: Any, axis: int) -> tuple[Any, int, int]:
    """y with the axis at the end, the axis and the rank."""
    y = floating(y)
    rank = len(shape_of(y))
    axis = axis_of(axis, rank)
    return move(y, axis, rank - 1), axis, rank


def _steps(x: Any, dx: Any, y: Any, axis: int, rank: int) -> Any:
    """The widths of the intervals, broadcasting against y's last axis."""
    n = shape_of(y)[-1]
    if x is None:
        if is_a(dx, (int, float, np.generic)):
            return constant(np.full(n - 1, dx), y)
        dx = array_of(dx)
        if len(shape_of(dx)) > 1:
            dx = move(dx, axis_of(axis, len(shape_of(dx))), len(shape_of(dx)) - 1)
        return np.broadcast_to(dx, (*shape_of(dx)[:-1], n - 1)) if len(shape_of(dx)) != 1 else dx
    x = array_of(x)
    if len(shape_of(x)) == 1:
        if shape_of(x)[0] != n:
            raise ValueError("If given, length of x along axis must be the same as y.")
        return np.diff(x)
    if len(shape_of(x)) != rank:
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    x = move(x, axis, rank - 1)
    if shape_of(x)[-1] != n:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return np.diff(x)


def _with_initial(result: Any, initial: Any, axis: int, rank: int) -> Any:
    if initial is not None:
        result = np.concatenate([np.zeros_like(result[..., :1]) + initial, result], axis=-1)
    return move(result, rank - 1, axis)


@implements("integrate.cumulative_trapezoid", lift=True)
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    y, axis, rank = _lines(y, axis)
    if not shape_of(y)[-1]:
        raise ValueError("At least one point is required along `axis`.")
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    parts = _steps(x, dx, y, axis, rank) * (y[..., 1:] + y[..., :-1]) / 2.0
    return _with_initial(np.cumsum(parts, axis=-1), initial, axis, rank)


@implements("integrate.simpson", lift=True)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """`scipy.integrate.simpson`: with an even number of samples the last interval has a rule of its own."""
    y, axis, rank = _lines(y, axis)
    n = shape_of(y)[-1]
    h = _steps(x, dx, y, axis, rank)
    h = h if n == 2 or x is None or keeps_single_precision() else _double(h)  # as SciPy
    if n == 2:
        return np.sum(h * (y[..., :1] + y[..., 1:]) / 2.0, axis=-1)
    stop = n if n % 2 else n - 1
    h0, h1 = h[..., 0 : stop - 1 : 2], h[..., 1 : stop - 1 : 2]
    y0, y1, y2 = [y[..., i : stop - 2 + i : 2] for i in range(3)]
    total, ratio = h0 + h1, _ratio(h0, h1)
    middle = _ratio(total * total, h0 * h1)
    parts = total / 6.0 * (y0 * (2.0 - _ratio(1.0, ratio)) + y1 * middle + y2 * (2.0 - ratio))
    result = np.sum(parts, axis=-1)
    if n % 2 or n < 2:
        return result
    h0, h1 = h[..., -2], h[..., -1]
    last = _ratio(2 * h1**2 + 3 * h0 * h1, 6 * (h1 + h0))
    before = _ratio(h1**2 + 3 * h0 * h1, 6 * h0)
    first = _ratio(h1**3, 6 * h0 * (h0 + h1))
    return result + last * y[..., -1] + before * y[..., -2] - first * y[..., -3]


def _ratio(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0: intervals of no width add nothing."""
    empty = np.equal(b, 0.0)
    return np.where(empty, 0.0, a / np.where(empty, 1.0, b))


def _parabolas(y: Any, h: Any) -> Any:
    """The integral of the parabola through three neighbours over the first of their two intervals."""
    h0, h1 = h[..., :-1], h[..., 1:]
    share = h0 / (h0 + h1)
    excess = share * h0 / h1
    return h0 / 6.0 * ((3.0 - share) * y[..., :-2] + (3.0 + excess + share) * y[..., 1:-1] - excess * y[..., 2:])


@implements("integrate.cumulative_simpson", lift=True)
def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    y, axis, rank = _lines(y, axis)
    h = _steps(x, dx, y, axis, rank)
    n = shape_of(y)[-1]
    h = _double(h) if n > 2 and x is None else h  # as SciPy
    if n < 3:
        result = np.cumsum(h * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    else:
        h = np.broadcast_to(h, (*shape_of(y)[:-1], n - 1))
        first = _parabolas(y, h)
        second = np.flip(_parabolas(np.flip(y, -1), np.flip(h, -1)), -1)
        even, odd = first[..., ::2], second[..., ::2]  # by the parabola to the right, by that to the left
        both = np.stack([even, odd], axis=-1)
        parts = reshape(both, shape=(*shape_of(both)[:-2], 2 * shape_of(both)[-2]))
        if n % 2 == 0:
            parts = np.concatenate([parts[..., : n - 2], second[..., -1:]], axis=-1)
        result = np.cumsum(parts, axis=-1)
    if initial is not None:
        result = _double(result) + initial
    return _with_initial(result, initial, axis, rank)


def _double(x: Any) -> Any:
    return convert(x, np.result_type(dtype_of(x), float))


@implements("integrate.romb", lift=True)
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Any:
    refuse("integrate.romb", show=show or None)
    y, axis, _ = _lines(y, axis)
    y = _double(y)
    intervals = shape_of(y)[-1] - 1
    levels = intervals.bit_length() - 1
    if intervals < 1 or 1 << levels != intervals:
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    h = intervals * dx
    row = [(y[..., 0] + y[..., -1]) / 2.0 * h]
    for level in range(1, levels + 1):
        step = intervals >> level
        h = h / 2.0
        better = [0.5 * row[0] + h * np.sum(y[..., step : intervals : 2 * step], axis=-1)]
        for j in range(1, level + 1):
            better.append(better[-1] + (better[-1] - row[j - 1]) / (4.0**j - 1.0))
        row = better
    return row[-1]

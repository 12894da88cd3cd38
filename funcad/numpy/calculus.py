"""Differences, integrals, interpolation, polynomials and one-dimensional convolution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from funcad.custom.custom_jvp import custom_jvp
from funcad.host.real_types import COMPUTED, is_narrow
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy import indexing
from funcad.numpy.dispatch import implements
from funcad.primitives.conversion import conj, convert, stop_gradient
from funcad.primitives.convolution import conv
from funcad.primitives.shape import move_axis, pad_p, reshape, rev, static_slice

from funcad.numpy.promote import (  # isort: skip
    apart, array_of, as_array, axis_of, beside, numbers, promote_dtype, ravelled, result_dtype, strong,
)

_NO = np._NoValue


@implements("diff", alias="same", by_kind=True)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NO, append: Any = _NO) -> Any:
    x = array_of(a)
    if n == 0:
        return x
    if n < 0:
        raise ValueError("order must be non-negative but got " + repr(n))
    if not shape_of(x):
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, len(shape_of(x)))
    parts = []
    for extra in (_NO if prepend is None else prepend, _NO if append is None else append):
        if extra is not _NO:
            extra = array_of(extra)
            if not shape_of(extra):
                extra = np.broadcast_to(extra, tuple([1 if i == axis else m for i, m in enumerate(shape_of(x))]))
        parts.append(extra)
    if parts[0] is not _NO or parts[1] is not _NO:
        x = np.concatenate([p for p in (parts[0], x, parts[1]) if p is not _NO], axis=axis)
    subtract = np.not_equal if aval_of(x).dtype.kind == "b" else np.subtract
    for _ in range(n):
        m = shape_of(x)[axis]
        x = subtract(static_slice(x, min(1, m), m, axis), static_slice(x, 0, max(m - 1, 0), axis))
    return x


@implements("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    x = ravelled(array_of(ary))
    dtype = dtype_of(x)

    def end(name: str, v: Any) -> list[Any]:
        if v is None:
            return []
        v = as_array(v)
        if not np.can_cast(dtype_of(v), dtype, "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
        return [beside(np.ravel(convert(strong(v), dtype)), x)]

    parts = [*end("to_begin", to_begin), diff(x), *end("to_end", to_end)]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


@implements("gradient", lift=True)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """`numpy.gradient`: second-order differences; the spacings may be traced."""
    x = array_of(f)
    if dtype_of(x).kind not in "fc" or is_narrow(dtype_of(x)):
        x = convert(x, np.dtype(float))
    ndim = len(shape_of(x))
    axes = tuple(range(ndim)) if axis is None else tuple([axis_of(i, ndim) for i in np.atleast_1d(axis)])
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    spacings = [1.0] * len(axes) if not varargs else list(varargs) * (len(axes) if len(varargs) == 1 else 1)
    if len(varargs) == 1 and len(axes) > 1 and np.ndim(varargs[0]) == 1 and len(axes) != 1:
        raise ValueError("distances must be either scalars or 1d")
    results = [_gradient(x, i, h, edge_order) for i, h in zip(axes, spacings)]
    return results[0] if len(axes) == 1 else tuple(results)


def _gradient(x: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    y = move_axis(x, axis, len(shape_of(x)) - 1)
    n = shape_of(y)[-1]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."
        )
    if np.ndim(spacing):
        if shape_of(array_of(spacing)) != (n,):
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        h = np.diff(spacing)
        a, b = h[:-1], h[1:]
        first, last = h[0], h[-1]
        weights = (-b / (a * (a + b)), (b - a) / (a * b), a / (b * (a + b)))
        inner = weights[0] * y[..., :-2] + weights[1] * y[..., 1:-1] + weights[2] * y[..., 2:]
        ends = [(h[0], h[1]), (h[-1], h[-2])] if n > 2 else []
    else:
        first = last = spacing
        inner = (y[..., 2:] - y[..., :-2]) / (2.0 * spacing)
        ends = [(spacing, spacing), (spacing, spacing)]
    if edge_order == 1:
        low, high = (y[..., 1:2] - y[..., :1]) / first, (y[..., -1:] - y[..., -2:-1]) / last
    else:
        low = _edge(ends[0], y[..., 0:1], y[..., 1:2], y[..., 2:3])
        high = -_edge(ends[1], y[..., -1:], y[..., -2:-1], y[..., -3:-2])
    result = np.concatenate([low, inner, high], axis=-1)
    return move_axis(result, len(shape_of(x)) - 1, axis)


def _edge(steps: Any, y0: Any, y1: Any, y2: Any) -> Any:
    """The second-order one-sided difference at the end that y0 is."""
    h, k = steps
    return -(2.0 * h + k) / (h * (h + k)) * y0 + (h + k) / (h * k) * y1 - h / (k * (h + k)) * y2


@implements("trapezoid", lift=True, by_kind=True)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = array_of(y)
    rank = len(shape_of(y))
    axis = axis_of(axis, rank)
    if x is None:
        d = dx
    else:
        x = array_of(x)
        if len(shape_of(x)) == 1:
            d = np.diff(x)
            d = reshape(d, shape=tuple([shape_of(d)[0] if i == axis else 1 for i in range(rank)]))
        else:
            d = np.diff(x, axis=axis)
    n = shape_of(y)[axis]
    return np.sum(d * (static_slice(y, min(1, n), n, axis) + static_slice(y, 0, max(n - 1, 0), axis)) / 2.0, axis=axis)


@implements("unwrap", lift=True)
@apart
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * math.pi) -> Any:
    """`numpy.unwrap` of floats; the corrections are locally constant, so the derivative is the identity."""
    x = array_of(p)
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    dtype = np.result_type(aval_of(x).dtype, period)
    if n < 2:
        return convert(x, dtype)
    whole = dtype.kind in "iu"
    half, odd = divmod(period, 2) if whole else (period / 2, 0)
    discont = period / 2 if discont is None else discont
    jump = np.diff(stop_gradient(x), axis=axis)
    wrapped = np.remainder(jump + half, period) - half
    if not odd:
        wrapped = np.where(np.logical_and(np.equal(wrapped, -half), jump > 0), half, wrapped)
    correction = np.where(np.abs(jump) < discont, 0 if whole else 0.0, wrapped - jump)
    tail = static_slice(x, 1, n, axis) + np.cumsum(correction, axis=axis)
    return np.concatenate([static_slice(x, 0, 1, axis), convert(tail, dtype)], axis=axis)


@custom_jvp
def _with_slope(x: Any, y: Any) -> Any:
    """x, with the derivatives of y."""
    return x


@_with_slope.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return _with_slope(*primals), tangents[1]


@implements("interp", lift=True)
@numbers
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """`numpy.interp`, differentiable in x, xp and fp (with the slope of the right-hand piece at the nodes)."""
    x, nodes, values = array_of(x), array_of(xp), array_of(fp)
    if len(shape_of(nodes)) != 1 or shape_of(nodes) != shape_of(values):
        raise ValueError("fp and xp are not of the same length.")
    n = shape_of(nodes)[0]
    if n == 0:
        raise ValueError("array of sample points is empty")
    double = np.dtype(float)
    for v in (x, nodes):
        np.empty(0, dtype_of(v)).astype(double, casting="safe")  # which raises for complex numbers, as NumPy does
    x, nodes = convert(x, double), convert(nodes, double)
    values = convert(values, np.result_type(double, dtype_of(values)))
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period = abs(period)
        x, nodes = np.remainder(x, period), np.remainder(nodes, period)
        order = np.argsort(nodes)
        nodes, values = indexing.getitem(nodes, order), indexing.getitem(values, order)
        nodes = np.concatenate([nodes[-1:] - period, nodes, nodes[:1] + period])
        values = np.concatenate([values[-1:], values, values[:1]])
        left = right = None
        n += 2
    # pieces are chosen by the values, if there are any: what holds for no element is not asked for in operations
    known = all([type(concrete_value(v)) in COMPUTED for v in (x, nodes)])
    at, places = (concrete_value(x), concrete_value(nodes)) if known else (x, nodes)

    def chosen(mask: Any, first: Any, second: Any) -> Any:
        return second if known and not mask.any() else np.where(mask, first, second)

    below, above = at < places[0], at > places[-1]
    if n == 1:
        result = np.zeros(shape_of(x)) + values[0]
    else:
        i = np.clip(np.searchsorted(places, at, side="right") - 1, 0, n - 2)
        x0, x1, y0, y1 = [indexing.getitem(v, j) for v in (nodes, values) for j in (i, i + 1)]
        flat = np.equal(x0, x1)  # only of the last two
        y0 = chosen(flat, y1, y0)
        slope = (y1 - y0) / chosen(flat, 1.0, x1 - x0)
        inside, within = x, np.logical_and(at >= places[0], at <= places[-1])
        if not (known and within.all()):
            nearest = np.clip(at, places[0], places[-1]) if period is None else x
            inside = np.where(within, x, stop_gradient(nearest))
        result = slope * (inside - x0) + y0
        given = list(map(concrete_value, (values, nodes)))
        if not all([type(v) is not Tracer and np.isfinite(v).all() for v in given]):
            other = slope * (inside - x1) + y1
            exact = np.where(np.equal(x, x0) | np.equal(y0, y1) & (x > x0), y0, other)
            exact = np.where(np.equal(x, x1), y1, exact)
            other = np.where(np.isnan(other), exact, other)
            result = _with_slope(np.where(np.isnan(result), other, result), result)
    result = chosen(below, values[0] if left is None else left, result)
    return chosen(above, values[-1] if right is None else right, result)


# -- convolution


_FEW = 2048  # products, which loops compile as one expression, in about the time of a call of NumPy's


def _one_dimensional(a: Any, v: Any, name: str) -> tuple[Any, Any]:
    x, y = array_of(a), array_of(v)
    if len(shape_of(x)) != 1 or len(shape_of(y)) != 1:
        raise ValueError("object too deep for desired array")
    if not shape_of(x)[0] or not shape_of(y)[0]:
        raise ValueError(f"{'a' if not shape_of(x)[0] else 'v'} cannot be empty")
    x, y = promote_dtype([x, y], result_dtype([x, y])[0])
    return x, y


def _slid(x: Any, y: Any, mode: str, turned: bool) -> Any:
    """The sum over j of x[i - j] * y[j]; `turned`: which of two middles "same" has."""
    if shape_of(y)[0] > shape_of(x)[0]:
        x, y = y, x
    n, m = shape_of(x)[0], shape_of(y)[0]
    if mode not in ("full", "same", "valid"):
        raise ValueError("mode must be one of 'valid', 'same', or 'full'")
    low = {"full": m - 1, "same": m // 2 if not turned else (m - 1) // 2, "valid": 0}[mode]
    size = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    high, kernel = size + m - 1 - n - low, rev(y, axes=(0,))
    if size * m <= _FEW:
        padded = pad_p(x, low=(low,), high=(high,), interior=(0,))
        return np.dot(indexing.getitem(padded, np.arange(size)[:, None] + np.arange(m)[None, :]), kernel)
    found = conv(
        reshape(x, shape=(1, 1, 1, n)),
        reshape(kernel, shape=(1, 1, 1, m)),
        strides=(1,),
        padding=((low, high),),
    )
    return reshape(found, shape=(size,))


@implements("convolve", lift=True)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    a, v = [x if shape_of(x) else reshape(x, shape=(1,)) for x in (array_of(a), array_of(v))]  # numbers have one element
    return _slid(*_one_dimensional(a, v, "convolve"), mode, False)


@implements("correlate", lift=True)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    x, y = _one_dimensional(a, v, "correlate")
    return _slid(x, rev(conj(y), axes=(0,)), mode, shape_of(x)[0] < shape_of(y)[0])


# -- polynomials


@implements("polyval", lift=True)
def polyval(p: Any, x: Any) -> Any:
    coefficients, x = array_of(p), array_of(x)
    result: Any = np.zeros_like(x)
    for i in range(shape_of(coefficients)[0]):
        result = result * x + coefficients[i]
    return result


@implements("polyadd", lift=True)
def polyadd(a1: Any, a2: Any) -> Any:
    return _aligned(np.add, a1, a2)


@implements("polysub", lift=True)
def polysub(a1: Any, a2: Any) -> Any:
    return _aligned(np.subtract, a1, a2)


def _aligned(combine: Any, a1: Any, a2: Any) -> Any:
    x, y = np.atleast_1d(array_of(a1)), np.atleast_1d(array_of(a2))
    n = max(shape_of(x)[0], shape_of(y)[0])
    x, y = [pad_p(v, low=(n - shape_of(v)[0],), high=(0,), interior=(0,)) for v in (x, y)]
    return combine(x, y)


@implements("polymul", lift=True)
def polymul(a1: Any, a2: Any) -> Any:
    """`numpy.polymul`; inside jit and vmap leading zeros of the factors are kept, for they cannot be seen there."""
    return convolve(_leading(a1), _leading(a2))


def _leading(a: Any) -> Any:
    """Coefficients from the first that is not zero on, if they have values."""
    x = np.atleast_1d(array_of(a))
    value = concrete_value(x)
    if type(value) is Tracer:
        return x
    places = np.flatnonzero(value)
    return static_slice(x, int(places[0]) if len(places) else max(shape_of(x)[0] - 1, 0), shape_of(x)[0], 0)


@implements("polyder", alias="same")
def polyder(p: Any, m: int = 1) -> Any:
    p = array_of(p)
    for _ in range(int(m)):
        n = shape_of(p)[0] - 1
        p = static_slice(p, 0, max(n, 0), 0) * beside(np.arange(n, 0, -1), p)
    return p


@implements("polyint", alias="same")
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    p = array_of(p)
    m = int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.zeros(m) if k is None else np.atleast_1d(array_of(k))
    if shape_of(constants)[0] == 1 and m > 1:
        constants = np.broadcast_to(constants, (m,))
    if shape_of(constants)[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    constants = beside(constants, p)
    for i in range(m):
        p = np.concatenate([p / beside(np.arange(shape_of(p)[0], 0, -1), p), constants[i : i + 1]])
    return p


@implements("vander", lift=True)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    x = array_of(x)
    if len(shape_of(x)) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = shape_of(x)[0] if N is None else int(N)
    x = convert(x, np.promote_types(dtype_of(x), int))
    columns: list[Any] = [np.ones_like(x)] if n else []
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    if not n:
        return np.zeros((shape_of(x)[0], 0), dtype_of(x))
    return np.stack(columns if increasing else columns[::-1], axis=1)

"""Bits, uniform and normal numbers, integers: what the other distributions are made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from funcad.host.layout import native_dtype
from funcad.ir.aval import dtype_of
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import shape_argument
from funcad.primitives.conversion import convert, make_complex, stop_gradient
from funcad.primitives.erf_inverse import erf_inverse
from funcad.primitives.random_bits import draw
from funcad.primitives.special import erf
from funcad.random.draw_operands import check_key, float_dtype, parameters, shape_of_draw, together
from funcad.random.keys import split

__all__ = ["bernoulli", "bits", "normal", "rademacher", "randint", "truncated_normal", "uniform"]


def _uint(itemsize: int) -> np.dtype:
    return np.dtype(f"u{itemsize}")


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Uniform random bits, as unsigned integers: uint64 unless dtype says otherwise. Equal to JAX's, bit for bit.

    >>> import funcad
    >>> funcad.random.bits(funcad.random.key(0), (2,), "uint8")
    array([167, 146], dtype=uint8)
    """
    check_key("bits", key)
    found = native_dtype(np.uint64 if dtype is None else dtype)
    if found.kind != "u":
        raise ValueError(f"bits: dtype must be an unsigned integer dtype, got {found}")
    return draw(key, "bits", found, shape_argument(shape))


def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Uniform numbers in [minval, maxval), float64 unless dtype says otherwise. JAX's, bit for bit.

    The bounds broadcast to `shape` and may be traced: the result is differentiable in them.

    >>> import funcad
    >>> funcad.random.uniform(funcad.random.key(0), (2,))
    array([0.41845711, 0.21629545])
    """
    check_key("uniform", key)
    dtype = float_dtype("uniform", dtype)
    shape = shape_argument(shape)
    u = draw(key, "unit", dtype, shape)
    if type(minval) in _PLAIN and type(maxval) in _PLAIN and minval == 0 and maxval == 1:
        return u
    low, high = parameters("uniform", key, dtype, minval, maxval)
    shape_of_draw("uniform", shape, low, high)
    if type(u) is np.ndarray and type(low) is not Tracer and type(high) is not Tracer:
        u *= high - low  # in place: u is ours
        u += low
        return np.maximum(low, u, out=u)
    return np.maximum(low, u * (high - low) + low)


_PLAIN = (int, float)


def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard normal numbers, float64 unless dtype says otherwise; complex dtypes have variance 1 too.

    JAX's numbers: of float64, seven of eight are equal bit for bit, the others to a relative 1e-14; see erf_inverse.py.

    >>> import funcad
    >>> funcad.random.normal(funcad.random.key(0), (3,)).round(6)
    array([-0.205842, -0.784766,  1.816087])
    """
    check_key("normal", key)
    dtype = float_dtype("normal", dtype, "fc")
    shape = shape_argument(shape)
    if dtype.kind == "f":
        return draw(key, "normal", dtype, shape)
    keys, half = split(key), np.dtype(f"f{dtype.itemsize // 2}")
    root = half.type(np.sqrt(2))
    return make_complex(draw(keys[0], "normal", half, shape) / root, draw(keys[1], "normal", half, shape) / root)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers in [minval, maxval), int64 unless dtype says otherwise. Equal to JAX's.

    The bounds are integers, or arrays of them that broadcast to `shape`. If maxval <= minval the result is minval. As in JAX,
    a span that is no power of two is reduced by a remainder of twice as many bits, so the bias is negligible, not nil.

    >>> import funcad
    >>> funcad.random.randint(funcad.random.key(0), (5,), 0, 10)
    array([5, 1, 5, 7, 3])
    """
    check_key("randint", key)
    found = native_dtype(int if dtype is None else dtype)
    if found.kind not in "iu":
        raise TypeError(f"randint: dtype must be an integer dtype, got {found}")
    shape = shape_argument(shape)
    wide = found if found.itemsize >= 4 else np.dtype(np.int32)
    limits = np.iinfo(found)
    if type(minval) is int and type(maxval) is int:
        low = min(max(minval, int(limits.min)), int(limits.max))
        high = min(max(maxval, int(limits.min)), int(limits.max) + 1)
        span: Any = max(high - low, 1)
        modulus = 1 << 8 * wide.itemsize
        rest = (1 << 4 * wide.itemsize) % span
        rest = rest * rest % modulus % span
        unsigned = _uint(wide.itemsize).type
        start = wide.type(low)
        if span == modulus:  # all there is
            offset = draw(split(key)[1], "bits", _uint(wide.itemsize), shape)
        else:
            offset = _offsets(key, shape, wide, unsigned(span), unsigned(rest) if rest else None)
    else:
        start, span, rest = _bounds(key, shape, minval, maxval, wide, limits)
        offset = _offsets(key, shape, wide, span, rest)
    with np.errstate(over="ignore"):
        result = start + offset.astype(wide)
    return result if wide == found else result.astype(found)


def _offsets(key: Any, shape: tuple, wide: np.dtype, span: Any, rest: Any) -> Any:
    """Numbers below span, from twice as many bits; `rest` is what the upper half counts for, None for nothing."""
    keys = split(key)
    lower = draw(keys[1], "bits", _uint(wide.itemsize), shape) % span
    if rest is None:
        return lower
    with np.errstate(over="ignore"):
        return (draw(keys[0], "bits", _uint(wide.itemsize), shape) % span * rest + lower) % span


def _bounds(key: Any, shape: tuple, minval: Any, maxval: Any, wide: np.dtype, limits: Any) -> tuple[Any, Any, Any]:
    """The lower bound, the span, and the upper half's weight, of bounds that may be arrays and traced."""
    bounds = []
    for v in together("randint", key, minval, maxval):
        kind = dtype_of(v).kind
        if kind not in "iub":
            raise TypeError(f"randint: minval and maxval must be integers, got {dtype_of(v)}")
        bounds.append(v)
    shape_of_draw("randint", shape, *bounds)
    low, high = bounds
    unsigned = _uint(wide.itemsize)
    above = high > int(limits.max) if dtype_of(high).itemsize >= wide.itemsize else False
    low, high = (_clipped(v, limits, wide) for v in bounds)
    is_empty = high <= low if above is False else (high <= low) & ~above
    with np.errstate(over="ignore"):
        span = (high - low).astype(unsigned)
        if above is not False:
            span = span + above.astype(unsigned)
        span = np.where(is_empty, unsigned.type(1), span)
        rest = unsigned.type(1 << 4 * wide.itemsize) % span
        rest = rest * rest % span
    return low, span, rest


def _clipped(v: Any, limits: Any, wide: np.dtype) -> Any:
    own = np.iinfo(dtype_of(v)) if dtype_of(v).kind != "b" else np.iinfo(np.int8)
    low, high = max(int(limits.min), int(own.min)), min(int(limits.max), int(own.max))
    v = convert(v, wide) if dtype_of(v).kind == "b" else v
    v = np.clip(v, low, high)
    return convert(v, wide) if type(v) is Tracer else v.astype(wide)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """True with probability p (a float or an array of floats, which broadcasts to `shape`). Equal to JAX's.

    `mode="high"` uses twice as many bits, for small p.

    >>> import funcad
    >>> funcad.random.bernoulli(funcad.random.key(0), 0.5, (4,))
    array([ True,  True, False, False])
    """
    check_key("bernoulli", key)
    if mode not in ("high", "low"):
        raise ValueError(f"bernoulli: mode must be 'high' or 'low', got {mode!r}")
    dtype = dtype_of(p) if type(p) is Tracer or hasattr(p, "dtype") else np.asarray(p).dtype
    if dtype.kind != "f":
        raise TypeError(f"bernoulli: the probability p must be a float, got {dtype}")
    (p,) = parameters("bernoulli", key, dtype, p)
    shape = shape_of_draw("bernoulli", shape, p)
    p = stop_gradient(p) if type(p) is Tracer else p
    if mode == "low":
        return draw(key, "unit", dtype, shape) < p
    u = draw(key, "unit", dtype, (2, *shape))
    return u[1] * dtype.type(2.0 ** -np.finfo(dtype).nmant) < p - u[0]


def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Signs: 1 and -1 with equal probability, int64 unless dtype says otherwise. Equal to JAX's.

    >>> import funcad
    >>> funcad.random.rademacher(funcad.random.key(0), (4,))
    array([ 1,  1, -1, -1])
    """
    check_key("rademacher", key)
    found = native_dtype(int if dtype is None else dtype)
    heads = bernoulli(key, 0.5, shape_argument(shape)).astype(found)
    return (2 * heads - 1).astype(found)


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Standard normal numbers between lower and upper; both broadcast to `shape`. JAX's, to the last bits.

    Differentiable in both bounds: by the quantile function, at a fixed uniform number.

    >>> import funcad
    >>> funcad.random.truncated_normal(funcad.random.key(0), -2.0, 2.0, (3,)).round(6)
    array([-0.196352, -0.741471,  1.590591])
    """
    check_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    low, high = parameters("truncated_normal", key, dtype, lower, upper)
    shape = shape_of_draw("truncated_normal", shape, low, high)
    root = dtype.type(math.sqrt(2))
    u = uniform(key, shape, dtype, erf(low / root), erf(high / root))
    if np.ndim(u) == 0 and type(u) is not Tracer:
        u = dtype.type(u)
    out = root * erf_inverse(u)
    inside = (np.nextafter(_constant(low), dtype.type(np.inf)), np.nextafter(_constant(high), dtype.type(-np.inf)))
    return np.clip(out, *inside)


def _constant(x: Any) -> Any:
    return stop_gradient(x) if type(x) is Tracer else x

"""Polynomials that need linear algebra: fits and roots; and those whose shapes depend on values.

NumPy drops leading zeros here (of the coefficients in `roots`, of the remainder in `polydiv`): so do we where values are
known. Under jit and vmap they are not, and nothing is dropped: the first coefficient of `roots` must not be 0 then.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.host.where import outside
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.calculus import convolve
from funcad.numpy.dispatch import implements
from funcad.numpy.linalg import eigvals, inv, known_array, lstsq
from funcad.numpy.promote import apart, array_of
from funcad.primitives.conversion import complex_dtype, convert, real
from funcad.primitives.shape import concatenate, reshape, static_slice


def _inexact(x: Any) -> Any:
    x = array_of(x)
    return x if dtype_of(x).kind in "fc" else convert(x, np.dtype(float))


@implements("polyfit", lift=True)
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """`numpy.polyfit`; differentiable in x, y and w."""
    order = int(deg) + 1
    x, y = _inexact(x), _inexact(y)
    if order < 1:
        raise ValueError("expected deg >= 0")
    if len(shape_of(x)) != 1:
        raise TypeError("expected 1D vector for x")
    n = shape_of(x)[0]
    if not n:
        raise TypeError("expected non-empty vector for x")
    if len(shape_of(y)) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if shape_of(y)[0] != n:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = n * np.finfo(dtype_of(x)).eps
    left, right = np.vander(x, order), y
    if w is not None:
        w = _inexact(w)
        if len(shape_of(w)) != 1:
            raise TypeError("expected a 1-d array for weights")
        if shape_of(w)[0] != n:
            raise TypeError("expected w and y to have the same length")
        left = left * reshape(w, shape=(n, 1))
        right = right * (reshape(w, shape=(n, 1)) if len(shape_of(right)) == 2 else w)
    scale = np.sqrt((left * left).sum(axis=0))
    left = left / scale
    c, residuals, rank, s = lstsq(left, right, rcond)
    c = (c.T / scale).T
    known = known_array(rank)
    if known is not None and int(known) != order and not full:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=outside(2))
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    base = inv(left.T @ left) / np.outer(scale, scale)
    factor: Any = 1
    if cov != "unscaled":
        if n <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (n - order)
    return c, base * factor if len(shape_of(y)) == 1 else base[:, :, None] * factor


@implements("roots", lift=True)
def roots(p: Any) -> Any:
    """`numpy.roots`; under jit and vmap complex, and the first coefficient must not be 0. Multiple roots have no derivative."""
    p = np.atleast_1d(array_of(p))
    if len(shape_of(p)) != 1:
        raise ValueError("Input must be a rank-1 array.")
    value = known_array(p)
    trailing = 0
    if value is not None:
        (nonzero,) = np.nonzero(np.asarray(value if is_a(value, np.ndarray) else value.get()))
        if not len(nonzero):
            return np.array([])
        trailing = shape_of(p)[0] - int(nonzero[-1]) - 1
        p = static_slice(p, int(nonzero[0]), int(nonzero[-1]) + 1, 0)
    p = _inexact(p)
    n = shape_of(p)[0]
    if n < 2:
        return np.zeros(trailing)
    first = reshape(-static_slice(p, 1, n, 0) / static_slice(p, 0, 1, 0), shape=(1, n - 1))
    found = eigvals(concatenate([first, _shifted_identity(first)], axis=0))
    return np.hstack([found, np.zeros(trailing, dtype_of(found))]) if trailing else found


def _shifted_identity(like: Any) -> Any:
    """The rows of a companion matrix below its first."""
    n = shape_of(like)[1]
    return np.eye(n - 1, n, dtype=dtype_of(like))


@implements("poly", lift=True)
def poly(seq_of_zeros: Any) -> Any:
    """`numpy.poly`; complex roots give complex coefficients under jit and vmap, a real matrix real ones."""
    zeros = np.atleast_1d(array_of(seq_of_zeros))
    shape = shape_of(zeros)
    of_real = False
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        of_real = dtype_of(zeros).kind != "c"
        zeros = eigvals(zeros)
    elif len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    else:
        zeros = convert(zeros, np.dtype(np.mintypecode(dtype_of(zeros).char)))  # type: ignore[arg-type]
    n = shape_of(zeros)[0]
    if not n:
        return 1.0
    dtype = dtype_of(zeros)
    result: Any = np.ones((1,), dtype)
    for k in range(n):
        result = convolve(result, concatenate([np.ones((1,), dtype), -static_slice(zeros, k, k + 1, 0)], axis=0))
    value = known_array(zeros)
    if of_real:
        return real(result)
    if dtype == complex_dtype(dtype) and value is not None:
        value = value if is_a(value, np.ndarray) else value.get()
        if np.array_equal(np.sort(value), np.sort(value.conjugate())):
            return real(result)
    return result


@implements("polydiv", lift=True)
@apart
def polydiv(u: Any, v: Any) -> Any:
    """`numpy.polydiv`: (quotient, remainder); under jit and vmap the remainder has u's length, its leading zeros kept."""
    u, v = [np.atleast_1d(_inexact(x)) for x in (u, v)]
    dtype = np.result_type(dtype_of(u), dtype_of(v))
    u, v = convert(u, dtype), convert(v, dtype)
    m, n = shape_of(u)[0] - 1, shape_of(v)[0] - 1
    scale = 1.0 / v[0]
    quotient, remainder = [np.zeros((1,), dtype)] if m < n else [], u
    for k in range(m - n + 1):
        d = reshape(scale * remainder[k], shape=(1,))
        quotient.append(d)
        ahead, here, behind = [static_slice(remainder, a, b) for a, b in ((0, k), (k, k + n + 1), (k + n + 1, m + 1))]
        parts = [ahead, here - d * v, behind]
        remainder = concatenate([part for part in parts if shape_of(part)[0]], axis=0)
    value = known_array(remainder)
    if value is not None:
        value = value if is_a(value, np.ndarray) else value.get()
        start = 0
        while start < m and np.allclose(value[start], 0, rtol=1e-14):
            start += 1
        remainder = static_slice(remainder, start, m + 1, 0)
    return concatenate(quotient, axis=0), remainder

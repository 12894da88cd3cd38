"""Draws whose result is an array as a whole: permutations and choices, normal vectors, orthogonal matrices."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import axis_of, shape_argument
from funcad.primitives.random_bits import draw
from funcad.primitives.rejection import shuffled
from funcad.primitives.sorting import top_k
from funcad.random.basic import normal, randint, uniform
from funcad.random.continuous import gumbel
from funcad.random.draw_operands import check_key, float_dtype, inexact_dtype, parameters, together

__all__ = ["choice", "multivariate_normal", "orthogonal", "permutation"]


def _count(name: str, x: Any) -> int:
    """x as a number of elements."""
    try:
        return operator.index(x if type(x) is int or type(x) is Tracer else x.item() if hasattr(x, "item") else x)
    except TypeError:
        raise TypeError(f"{name}: expected an integer or an array with at least one axis, got {x!r:.60}") from None


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The numbers 0 .. x - 1 in random order, or the array x permuted along an axis. Equal to JAX's.

    `independent=True` permutes each lane along the axis in its own way. Differentiable in x.

    >>> import funcad
    >>> funcad.random.permutation(funcad.random.key(0), 5)
    array([0, 1, 4, 3, 2])
    """
    check_key("permutation", key)
    if shape_of(x if hasattr(x, "dtype") or type(x) is int else np.asarray(x)) == ():
        return shuffled(key, shape=(_count("permutation", x),), axis=0)
    (x,) = together("permutation", key, x)
    shape = shape_of(x)
    axis = axis_of(axis, len(shape))
    if independent and len(shape) > 1:
        return np.take_along_axis(x, shuffled(key, shape=shape, axis=axis), axis=axis)
    return np.take(x, shuffled(key, shape=(shape[axis],), axis=0), axis=axis)


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: str | None = None
) -> Any:
    """Elements of a (of range(a), if it is an integer) along an axis, with probabilities p. JAX's.

    The result has `shape` in the place of the axis. p is a vector of as many probabilities as there are elements. Raises
    ValueError if more are drawn without replacement than there are. `mode` is that of `gumbel`. Differentiable in a.

    >>> import funcad
    >>> funcad.random.choice(funcad.random.key(0), 5, (3,), replace=False)
    array([0, 1, 4])
    """
    check_key("choice", key)
    shape = shape_argument(shape)
    is_number = shape_of(a if hasattr(a, "dtype") or type(a) is int else np.asarray(a)) == ()
    if is_number:
        n, own, axis = _count("choice", a), (), 0
    else:
        (a,) = together("choice", key, a)
        own = shape_of(a)
        axis = axis_of(axis, len(own))
        n = own[axis]
    draws = math.prod(shape)
    if draws == 0:
        return np.zeros(shape, int if is_number else dtype_of(a))
    if n <= 0:
        raise ValueError("choice: a must have elements unless none are drawn")
    if not replace and draws > n:
        raise ValueError(f"choice: cannot draw {draws} elements without replacement from {n}")
    if p is None:
        index = randint(key, shape, 0, n) if replace else shuffled(key, shape=(n,), axis=0)[:draws]
    else:
        index = _weighted(key, p, n, shape, draws, replace, mode)
    if is_number:
        return index if replace else np.reshape(index, shape)
    found = np.take(a, np.reshape(index, (draws,)), axis=axis)
    return np.reshape(found, (*own[:axis], *shape, *own[axis + 1 :]))[()]


def _weighted(key: Any, p: Any, n: int, shape: tuple, draws: int, replace: bool, mode: Any) -> Any:
    (p,) = together("choice", key, p)
    dtype = inexact_dtype(p)
    (p,) = parameters("choice", key, dtype, p)
    if shape_of(p) != (n,):
        raise ValueError(f"choice: p must have shape ({n},), one probability per element, got {shape_of(p)}")
    if replace:
        total = np.cumsum(p)
        level = total[-1] * (1 - uniform(key, shape, dtype))
        return np.searchsorted(total, level)
    with np.errstate(divide="ignore"):
        logs = np.log(p)
    return top_k(gumbel(key, (n,), dtype, mode) + logs, draws)[1]


def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky") -> Any:
    """Normal vectors of a mean (..., n) and a covariance (..., n, n): shape (*shape, n). Differentiable in both.

    `method` is the factorisation of the covariance: "cholesky", "eigh" or "svd". The result has the dtype of mean and cov
    together (`dtype` that of the standard normal numbers, as in JAX).

    >>> import numpy as np, funcad
    >>> funcad.random.multivariate_normal(funcad.random.key(0), np.zeros(2), np.eye(2)).round(6)
    array([-0.205842, -0.784766])
    """
    check_key("multivariate_normal", key)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f"multivariate_normal: method must be 'cholesky', 'eigh' or 'svd', got {method!r}")
    mean, cov = together("multivariate_normal", key, mean, cov)
    common = inexact_dtype(mean, cov)
    mean, cov = parameters("multivariate_normal", key, common, mean, cov)
    dtype = float_dtype("multivariate_normal", common if dtype is None else dtype)
    m, c = shape_of(mean), shape_of(cov)
    if len(m) < 1 or len(c) < 2 or c[-2:] != (m[-1], m[-1]):
        raise ValueError(f"multivariate_normal: mean must be (..., n) and cov (..., n, n), got shapes {m} and {c}")
    batch = np.broadcast_shapes(m[:-1], c[:-2])
    shape = batch if shape is None else shape_argument(shape)
    if np.broadcast_shapes(shape, batch) != shape:
        raise ValueError(f"multivariate_normal: mean {m} and cov {c} do not broadcast to shape={shape}")
    if method == "cholesky":
        factor = np.linalg.cholesky(cov)
    elif method == "eigh":
        w, v = np.linalg.eigh(cov)
        factor = v * np.sqrt(w)[..., None, :]
    else:
        u, s, _ = np.linalg.svd(cov)
        factor = u * np.sqrt(s)[..., None, :]
    z = draw(key, "normal", dtype, (*shape, m[-1]))
    return mean + np.einsum("...ij,...j->...i", factor, z)


def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Orthogonal matrices, uniform (Haar): shape (*shape, n, m), with orthonormal rows or columns if m is not n. JAX's.

    >>> import funcad
    >>> q = funcad.random.orthogonal(funcad.random.key(0), 3)
    >>> (q @ q.T).round(6) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    check_key("orthogonal", key)
    dtype = float_dtype("orthogonal", dtype, "fc")
    n = operator.index(n)
    columns = n if m is None else operator.index(m)
    shape = shape_argument(shape)
    wide, narrow = max(n, columns), min(n, columns)
    z = normal(key, (*shape, wide, narrow), dtype)
    q, r = np.linalg.qr(z)
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    x = q * np.sign(diagonal)[..., None, :]
    return np.swapaxes(x, -1, -2) if n < columns else x

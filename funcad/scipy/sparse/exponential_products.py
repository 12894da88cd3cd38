"""`expm_multiply`: the exponential of a sparse matrix times an array, without the exponential.

Of traced values it is computed by products with the matrix, after Al-Mohy and Higham (2011): exp(A) B = (T(A / s))^s B, with
the Taylor polynomial T of degree 30 and as many steps s as the norm of A asks for. That is a program like any other, so it
has all derivatives, and those of the polynomial are as accurate as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.control.loops import fori_loop
from funcad.ir.aval import dtype_of, shape_of
from funcad.primitives.conversion import convert, stop_gradient
from funcad.scipy.sparse.factorized_systems import scipy_linalg
from funcad.scipy.sparse.sparse_arrays import entries, is_traced, product, sums
from funcad.show.docstrings import mirrors

__all__ = ["expm_multiply"]

DEGREE, NORM = 30, 3.5  # up to this norm of A / s the polynomial of this degree is exact to double precision


def _step(row: np.ndarray, col: np.ndarray, data: Any, n: int, b: Any, t: Any) -> Any:
    """exp(t A) b."""
    diagonal = row == col
    mean = sums(data[np.flatnonzero(diagonal)], np.zeros(int(diagonal.sum()), np.intp), 1)[0] / max(n, 1)
    mean = stop_gradient(mean)  # exp(A) = exp(mean) exp(A - mean), whatever it is; the norm is smaller
    columns = sums(abs(stop_gradient(data)), col, n)
    norm = abs(stop_gradient(t)) * (fnp.max(columns, initial=0.0) + abs(mean))
    steps = fnp.maximum(fnp.ceil(fnp.where(np.isfinite(norm), norm, 0.0) / NORM), 1.0)

    def term(j: Any, state: Any) -> Any:
        total, last = state
        last = (product(row, col, data, n, last) - mean * last) * (t / (steps * (j + 1)))
        return total + last, last

    def one(_: Any, v: Any) -> Any:
        return fori_loop(0, DEGREE, term, (v, v))[0] * np.exp(mean * t / steps)

    return fori_loop(0, convert(steps, np.dtype(int)), one, b)


@api
def expm_multiply(
    A: Any,
    B: Any,
    start: Any = None,
    stop: Any = None,
    num: int | None = None,
    endpoint: bool | None = None,
    traceA: Any = None,
) -> Any:
    """exp(A) B, or exp(t A) B at `num` times t from `start` to `stop`, differentiably in the elements of A, in B and the times.

    As SciPy's, which it is with nothing traced. `A` is a sparse or dense square matrix, also one with traced elements, `B` a
    vector or a matrix; with times the result has a new axis 0 (`endpoint` as of np.linspace). `traceA` is a hint of SciPy's
    that traced values do not need. ValueError if shapes do not fit, TypeError for a LinearOperator beside traced values.

    >>> import numpy as np, funcad
    >>> f = lambda d: funcad.scipy.sparse.linalg.expm_multiply(np.diag(d), np.ones(2)).sum()
    >>> funcad.grad(f)(np.array([0.0, 1.0])).round(6)
    array([1.      , 2.718282])
    """
    if not is_traced(A, B, start, stop):
        return scipy_linalg().expm_multiply(A, B, start, stop, num, endpoint, traceA)
    if hasattr(A, "matvec"):
        raise TypeError("expm_multiply: beside traced values A must be a sparse or dense matrix, not a LinearOperator")
    row, col, data, shape = entries(A)
    if shape[0] != shape[1]:
        raise ValueError("expected A to be like a square matrix")
    if not 1 <= len(shape_of(B)) <= 2 or shape_of(B)[0] != shape[1]:
        raise ValueError(f"shapes of matrices A {shape} and B {shape_of(B)} are incompatible")
    times = [start, stop]
    dtype = np.result_type(dtype_of(data), dtype_of(B), float)
    data, b = [v if dtype_of(v) == dtype else convert(fnp.asarray(v), dtype) for v in (data, B)]
    if all([t is None for t in (*times, num, endpoint)]):
        return _step(row, col, data, shape[0], b, 1.0)
    first, last = [1.0 if t is None and i else 0.0 if t is None else t for i, t in enumerate(times)]
    count = 50 if num is None else int(num)
    points = fnp.linspace(first, last, count, endpoint=True if endpoint is None else endpoint)
    found = [_step(row, col, data, shape[0], b, points[0])]
    width = points[1] - points[0] if count > 1 else 0.0
    for _ in range(count - 1):
        found.append(_step(row, col, data, shape[0], found[-1], width))
    return fnp.stack(found)


mirrors([expm_multiply], "scipy.sparse.linalg")

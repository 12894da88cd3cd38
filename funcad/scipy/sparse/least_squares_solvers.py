"""Least squares with sparse matrices: lsqr and lsmr, SciPy's solvers in a callback, differentiated by the normal equations.

The minimum of |A x - b|^2 + damp^2 |x - x0|^2 and its residual solve one symmetric system, [[-damp^2, A^T], [A, 1]]; a
solution of least norm, of a matrix with more columns than rows, solves [[-1, A^T], [A, 0]]. The root of that system is
differentiated (`custom_root`), by SuperLU. A matrix without full rank makes it singular: the derivatives are NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.api.tools import ShapeDtypeStruct
from funcad.control.callback import pure_callback
from funcad.control.solve import custom_linear_solve, custom_root
from funcad.ir.aval import dtype_of, shape_of
from funcad.primitives.conversion import convert, stop_gradient
from funcad.scipy.sparse.factorized_systems import host_solver, scipy_linalg
from funcad.scipy.sparse.sparse_arrays import entries, is_sparse, is_traced, product
from funcad.show.docstrings import mirrors

__all__ = ["lsmr", "lsqr"]


def _least_squares(name: str, a: Any, b: Any, damp: Any, x0: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    if not is_traced(a, b, damp, x0):
        found: tuple[Any, ...] = getattr(scipy_linalg(), name)(a, b, damp, x0=x0, **options)
        return found
    if not is_sparse(a) and not hasattr(a, "shape") or hasattr(a, "matvec"):
        raise TypeError(
            f"{name}: beside traced values A must be a sparse or dense matrix, got {type(a).__name__}.\n"
            "Remedy: solve the normal equations with funcad.scipy.sparse.linalg.cg, which takes functions."
        )
    row, col, data, (m, n) = entries(a)
    if shape_of(b) not in ((m,), (m, 1)):
        raise ValueError(f"{name}: the shapes of A {(m, n)} and b {shape_of(b)} do not fit")
    values = [data, fnp.reshape(b, (m,)), damp, fnp.zeros(n) if x0 is None else x0]
    dtype = np.dtype(float)
    for v in values:
        if dtype_of(v).kind == "c":
            raise TypeError(f"{name}: funcad differentiates real systems, got {dtype_of(v)}")
    data, b, damp, start = [v if dtype_of(v) == dtype else convert(fnp.asarray(v), dtype) for v in values]

    def host(data: np.ndarray, b: np.ndarray, damp: np.ndarray, start: np.ndarray) -> list[Any]:
        matrix = _matrix(data, row, col, (m, n))
        given = None if x0 is None else start
        return [np.asarray(v, float) for v in getattr(scipy_linalg(), name)(matrix, b, float(damp), x0=given, **options)]

    like = [ShapeDtypeStruct((n,), dtype), *[ShapeDtypeStruct((), dtype)] * (8 if name == "lsqr" else 7)]
    like += [ShapeDtypeStruct((n,), dtype)] if name == "lsqr" else []
    fixed = [stop_gradient(v) for v in (data, b, damp, start)]
    x, *rest = pure_callback(host, like, *fixed, vmap_method="sequential")
    x = _differentiable(row, col, data, (m, n), b, damp, start, x)
    return (x, *[convert(v, np.dtype(int)) if i < 2 else v for i, v in enumerate(rest)])


def _matrix(data: Any, row: Any, col: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    return csr_array((data, (row, col)), shape=shape)


def _differentiable(row: Any, col: Any, data: Any, shape: tuple[int, int], b: Any, damp: Any, start: Any, x: Any) -> Any:
    """The solution x as a root of the normal equations."""
    m, n = shape
    least_norm = (damp == 0) & (m < n)  # damp may be traced
    p, q = fnp.where(least_norm, 1.0, damp**2), fnp.where(least_norm, 0.0, 1.0)
    rows = np.concatenate([row + n, col, np.arange(n + m)])
    cols = np.concatenate([col, row + n, np.arange(n + m)])
    solve = host_solver(rows, cols, n + m)
    matrix = stop_gradient(fnp.concatenate([data, data, fnp.broadcast_to(-p, (n,)), fnp.broadcast_to(q, (m,))]))

    def equations(pair: Any) -> Any:
        x, z = pair
        return -p * (x - start) + product(col, row, data, n, z), product(row, col, data, m, x) + q * z - b

    def inverse(_: Any, y: Any) -> Any:
        found = solve(matrix, fnp.concatenate(y), "N")
        return found[:n], found[n:]

    residual = stop_gradient(b) - product(row, col, stop_gradient(data), m, x)
    gap = fnp.concatenate([stop_gradient(p) * (x - stop_gradient(start)), fnp.zeros(m)])
    weights = fnp.where(least_norm, solve(matrix, gap, "N")[n:], residual) if m < n else residual
    guess = (x, stop_gradient(weights))
    linear = lambda g, y: custom_linear_solve(g, y, inverse, symmetric=True)
    return custom_root(equations, guess, lambda f, pair: pair, linear)[0]


@api
def lsqr(
    A: Any,
    b: Any,
    damp: Any = 0.0,
    atol: float = 1e-06,
    btol: float = 1e-06,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
) -> tuple[Any, ...]:
    """The least-squares solution of A x = b by Golub-Kahan bidiagonalization: SciPy's tuple, `(x, istop, itn, ...)`.

    With nothing traced it is SciPy's own. x is differentiable in the elements of a real matrix `A` (sparse, with traced
    elements, or dense), in `b`, `damp` and `x0`; the other results are numbers without derivative. `atol`, `btol`, `conlim`,
    `iter_lim`, `show` and `calc_var` are SciPy's: derivatives are as accurate as the solution. TypeError for a LinearOperator
    or complex numbers beside traced values; ValueError if shapes do not fit.

    >>> import numpy as np, funcad
    >>> a = np.array([[1.0], [1.0]])
    >>> funcad.grad(lambda b: funcad.scipy.sparse.linalg.lsqr(a, b)[0][0])(np.array([1.0, 3.0]))
    array([0.5, 0.5])
    """
    options = {"atol": atol, "btol": btol, "conlim": conlim, "iter_lim": iter_lim, "show": show, "calc_var": calc_var}
    return _least_squares("lsqr", A, b, damp, x0, options)


@api
def lsmr(
    A: Any,
    b: Any,
    damp: Any = 0.0,
    atol: float = 1e-06,
    btol: float = 1e-06,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: Any = None,
) -> tuple[Any, ...]:
    """The least-squares solution of A x = b by LSMR: SciPy's tuple, `(x, istop, itn, normr, normar, norma, conda, normx)`.

    As `lsqr`: arguments, derivatives and errors are the same, `maxiter` is its iter_lim.

    >>> import numpy as np, funcad
    >>> a = np.array([[1.0], [1.0]])
    >>> funcad.grad(lambda b: funcad.scipy.sparse.linalg.lsmr(a, b)[0][0])(np.array([1.0, 3.0]))
    array([0.5, 0.5])
    """
    options = {"atol": atol, "btol": btol, "conlim": conlim, "maxiter": maxiter, "show": show}
    return _least_squares("lsmr", A, b, damp, x0, options)


mirrors([lsmr, lsqr], "scipy.sparse.linalg")

"""A few eigenvalues and singular values of sparse matrices: eigsh and svds, SciPy's ARPACK in a callback.

An eigenpair of a symmetric matrix is a root of `A v - w v = 0, (1 - v.v) / 2 = 0`, whose derivative is the symmetric bordered
matrix [[A - w, -v], [-v^T, 0]]: it is regular if the eigenvalue is simple, and SuperLU solves with it. The singular vectors
of A are the halves of the eigenvectors of [[0, A], [A^T, 0]]. A multiple eigenvalue has no derivative: it is NaN or very
large. Trap: the sign of a vector is ARPACK's, which starts from the same vector each time, or a call and its derivative would
not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.api.tools import ShapeDtypeStruct
from funcad.control.callback import pure_callback
from funcad.control.solve import custom_linear_solve, custom_root
from funcad.ir.aval import dtype_of
from funcad.primitives.conversion import convert, stop_gradient
from funcad.scipy.sparse.factorized_systems import host_solver, scipy_linalg
from funcad.scipy.sparse.sparse_arrays import entries, is_sparse, is_traced, product
from funcad.show.docstrings import mirrors

__all__ = ["eigsh", "svds"]


def _real(name: str, a: Any) -> tuple[np.ndarray, np.ndarray, Any, tuple[int, int]]:
    if not is_sparse(a) and not hasattr(a, "shape") or hasattr(a, "matvec"):
        raise TypeError(f"{name}: beside traced values A must be a sparse or dense matrix, got {type(a).__name__}")
    row, col, data, shape = entries(a)
    if dtype_of(data).kind == "c":
        raise TypeError(
            f"{name}: funcad differentiates eigenvectors of real matrices here, got {dtype_of(data)}.\n"
            "Remedy: np.linalg.eigh or np.linalg.svd of A.toarray(), for complex ones."
        )
    return row, col, data if dtype_of(data) == np.dtype(float) else convert(data, np.dtype(float)), shape


def _pair(row: np.ndarray, col: np.ndarray, data: Any, v: Any, w: Any) -> tuple[Any, Any]:
    """One eigenvector and its eigenvalue, given without derivatives, as functions of the elements."""
    n = v.shape[0]
    every = np.arange(n)
    rows = np.concatenate([row, every, every, np.full(n, n), [n]])
    cols = np.concatenate([col, every, np.full(n, n), every, [n]])
    solve = host_solver(rows, cols, n + 1)
    bordered = fnp.concatenate([stop_gradient(data), fnp.broadcast_to(-w, (n,)), -v, -v, fnp.zeros(1)])

    def equations(pair: Any) -> Any:
        v, w = pair
        return product(row, col, data, n, v) - w * v, (1 - v @ v) / 2

    def inverse(_: Any, y: Any) -> Any:
        found = solve(bordered, fnp.append(y[0], y[1]), "N")
        return found[:n], found[n]

    linear = lambda g, y: custom_linear_solve(g, y, inverse, symmetric=True)
    return custom_root(equations, (v, w), lambda f, pair: pair, linear)  # type: ignore[no-any-return]


def _start(n: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, n)


def _matrix(data: Any, row: Any, col: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    return csr_array((data, (row, col)), shape=shape)


def _on_host(call: Callable[[np.ndarray], Any], like: list[tuple[int, ...]], data: Any) -> Any:
    structs = [ShapeDtypeStruct(shape, np.dtype(float)) for shape in like]
    return pure_callback(call, structs, stop_gradient(data), vmap_method="sequential")


@api
def eigsh(
    A: Any,
    k: int = 6,
    M: Any = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: Any = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    Minv: Any = None,
    OPinv: Any = None,
    mode: str = "normal",
) -> Any:
    """k eigenvalues, and eigenvectors, of a real symmetric sparse matrix, differentiably in its elements: `(w, v)`.

    With nothing traced it is SciPy's own, and its options `sigma`, `which`, `v0`, `ncv`, `maxiter`, `tol` and `mode` are handed
    on. The eigenvalues must be simple for their derivatives; derivatives of an element alone are those of a symmetric change
    shared by it and its mirror image. TypeError for complex matrices, LinearOperators and the options `M`, `Minv` and `OPinv`
    beside traced values.

    >>> import numpy as np, funcad
    >>> f = lambda d: funcad.scipy.sparse.linalg.eigsh(np.diag(d), k=1)[0][0]
    >>> funcad.grad(f)(np.array([1.0, 2.0, 3.0])).round(6) + 0.0
    array([0., 0., 1.])
    """
    if not is_traced(A):
        return scipy_linalg().eigsh(A, k, M, sigma, which, v0, ncv, maxiter, tol, return_eigenvectors, Minv, OPinv, mode)
    if M is not None or Minv is not None or OPinv is not None:
        raise TypeError("eigsh: M, Minv and OPinv are not differentiated.\nRemedy: np.linalg.eigh of the dense problem.")
    row, col, data, (n, m) = _real("eigsh", A)
    if n != m:
        raise ValueError(f"expected square matrix (shape={(n, m)})")
    start = _start(n) if v0 is None else np.asarray(v0)
    options = {"sigma": sigma, "which": which, "v0": start, "ncv": ncv, "maxiter": maxiter, "tol": tol, "mode": mode}

    def host(data: np.ndarray) -> Any:
        return list(scipy_linalg().eigsh(_matrix(data, row, col, (n, n)).tocsc(), k, **options))

    w, v = _on_host(host, [(k,), (n, k)], data)
    pairs = [_pair(row, col, data, v[:, i], w[i]) for i in range(k)]
    values = fnp.stack([w for _, w in pairs])
    return (values, fnp.stack([v for v, _ in pairs], 1)) if return_eigenvectors else values


@api
def svds(
    A: Any,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: Any = None,
    maxiter: int | None = None,
    return_singular_vectors: Any = True,
    solver: str = "arpack",
    **options: Any,
) -> Any:
    """k singular values, and vectors, of a real sparse matrix, differentiably in its elements: `(u, s, vt)`.

    With nothing traced it is SciPy's own; its options are handed on: `ncv`, `tol`, `which`, `v0`, `maxiter`, `solver` and
    `options` of its own. `return_singular_vectors=False` gives s alone. The singular values must be simple and not zero for
    their derivatives. TypeError for complex matrices and LinearOperators beside traced values.

    >>> import numpy as np, funcad
    >>> f = lambda d: funcad.scipy.sparse.linalg.svds(np.diag(d), k=1)[1][0]
    >>> funcad.grad(f)(np.array([1.0, 2.0, -3.0])).round(6) + 0.0
    array([ 0.,  0., -1.])
    """
    options = {"ncv": ncv, "tol": tol, "which": which, "v0": v0, "maxiter": maxiter, "solver": solver, **options}
    if not is_traced(A):
        return scipy_linalg().svds(A, k, return_singular_vectors=return_singular_vectors, **options)
    row, col, data, (m, n) = _real("svds", A)
    options["v0"] = _start(min(m, n)) if v0 is None else np.asarray(v0)
    if return_singular_vectors not in (True, False):
        raise ValueError(f"svds: of traced values, return_singular_vectors is True or False, got {return_singular_vectors!r}")

    def host(data: np.ndarray) -> Any:
        return list(scipy_linalg().svds(_matrix(data, row, col, (m, n)), k, **options))

    u, s, vt = _on_host(host, [(m, k), (k,), (k, n)], data)
    rows, cols = np.concatenate([row, col + m]), np.concatenate([col + m, row])
    both = fnp.concatenate([data, data])
    half = np.sqrt(0.5)
    pairs = [_pair(rows, cols, both, half * fnp.concatenate([u[:, i], vt[i]]), s[i]) for i in range(k)]
    values = fnp.stack([w for _, w in pairs])
    if not return_singular_vectors:
        return values
    vectors = fnp.stack([z for z, _ in pairs]) / half
    return vectors[:, :m].T, values, vectors[:, m:]


mirrors([eigsh, svds], "scipy.sparse.linalg")

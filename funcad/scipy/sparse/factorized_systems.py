"""Sparse systems by factors, few eigenpairs, and products with exponentials.

The solution is differentiated by the equation that it satisfies (`custom_linear_solve`): with respect to the right-hand side
and to the elements of the matrix, whose places are fixed. SciPy's SuperLU runs on the host, in a callback, lane after lane
under vmap. The last factorization is kept, so that derivatives, which solve with the same matrix, do not factorize again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vmap import vmap
from funcad.configuration import mirrors
from funcad.control.callback import pure_callback
from funcad.control.loops import fori_loop
from funcad.control.solve import custom_linear_solve, custom_root
from funcad.ir.aval import dtype_of, shape_of
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.matrix_functions import expm as dense_exponential
from funcad.scipy.sparse.sparse_arrays import SparseArray, entries, is_sparse, is_traced, product, sums


def scipy_linalg() -> Any:
    """The one door to scipy.sparse.linalg."""
    return importlib.import_module("scipy.sparse.linalg")


class _LastFactors:
    """SuperLU's factors of the last matrix with these places; None if it is singular."""

    def __init__(self, row: np.ndarray, col: np.ndarray, n: int, options: dict[str, Any]):
        self.row, self.col, self.n, self.options = row, col, n, options
        self.last: tuple[np.ndarray, Any] | None = None  # replaced as a whole, so that threads may share it

    def of(self, data: np.ndarray) -> Any:
        last = self.last
        if last is None or last[0].dtype != data.dtype or not np.array_equal(last[0], data):
            matrix = importlib.import_module("scipy.sparse").csc_array((data, (self.row, self.col)), shape=(self.n, self.n))
            try:
                factors = scipy_linalg().splu(matrix, **self.options)
            except RuntimeError as error:  # as spsolve, which gives NaN
                if "singular" not in str(error):
                    raise
                factors = None
            last = self.last = (data.copy(), factors)
        return last[1]

    def solve(self, trans: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        def host(data: np.ndarray, b: np.ndarray) -> np.ndarray:
            if not np.isfinite(data).all():
                return np.full_like(b, np.nan)
            factors = self.of(data)
            return np.full_like(b, np.nan) if factors is None else factors.solve(b, trans).astype(b.dtype, copy=False)

        return host


def solved(row: np.ndarray, col: np.ndarray, data: Any, n: int, b: Any, trans: str = "N", options: Any = None) -> Any:
    """The solution of a square system for a vector or for the columns of a matrix, by SuperLU."""
    dtype = np.result_type(dtype_of(data), dtype_of(b))
    dtype = dtype if dtype.char in "fdFD" else np.dtype(float)
    data, b = [v if dtype_of(v) == dtype else convert(fnp.asarray(v), dtype) for v in (data, b)]
    by = host_solver(row, col, n, options)
    if trans == "H":  # the transposed system of the conjugates
        return np.conj(solved(row, col, data, n, np.conj(b), "T", options))
    if trans == "T":
        matvec = lambda x: product(col, row, data, n, x)
        return custom_linear_solve(matvec, b, lambda _, v: by(data, v, "T"), lambda _, v: by(data, v, "N"))
    matvec = lambda x: product(row, col, data, n, x)
    return custom_linear_solve(matvec, b, lambda _, v: by(data, v, "N"), lambda _, v: by(data, v, "T"))


def host_solver(row: np.ndarray, col: np.ndarray, n: int, options: Any = None) -> Callable[[Any, Any, str], Any]:
    """`solve(data, b, trans)`, which calls SuperLU when the program runs; without derivatives."""
    factors = _LastFactors(row, col, n, options or {})

    def solve(data: Any, b: Any, trans: str) -> Any:
        like = ShapeDtypeStruct(shape_of(b), dtype_of(b))
        return pure_callback(factors.solve(trans), like, data, b, vmap_method="sequential")

    return solve


def _square(what: str, a: Any) -> tuple[np.ndarray, np.ndarray, Any, int]:
    row, col, data, shape = entries(a)
    if shape[0] != shape[1]:
        raise ValueError(f"{what}: matrix must be square (has shape {shape})")
    return row, col, data, shape[0]


@api
def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Solve A x = b for a sparse matrix, differentiably in the elements of A and in b.

    As SciPy's; with nothing traced it is SciPy's own. `A` is a sparse array, also one with traced elements
    (`funcad.scipy.sparse.csr_array`), `b` a vector or a dense matrix. `permc_spec` says how SuperLU orders the columns;
    `use_umfpack` makes no difference to traced values. A singular matrix gives NaN. ValueError if shapes do not fit, TypeError
    for a sparse right-hand side with traced elements.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import csr_array
    >>> f = lambda d: np.sum(funcad.scipy.sparse.linalg.spsolve(csr_array((d, [0, 1], [0, 1, 2])), np.ones(2)))
    >>> funcad.grad(f)(np.array([2.0, 4.0]))
    array([-0.25  , -0.0625])
    """
    if not is_traced(A, b):
        return scipy_linalg().spsolve(A, b, permc_spec=permc_spec, use_umfpack=use_umfpack)
    if is_sparse(b):
        raise TypeError("spsolve: a right-hand side beside traced values must be dense.\nRemedy: b.toarray().")
    row, col, data, n = _square("spsolve", A)
    shape = shape_of(b)
    if not 1 <= len(shape) <= 2 or shape[0] != n:
        raise ValueError(f"spsolve: the shapes of the matrix {(n, n)} and of the right-hand side {shape} do not fit")
    column = len(shape) == 2 and shape[1] == 1
    found = solved(row, col, data, n, fnp.ravel(b) if column else b, options={"permc_spec": permc_spec})
    return found


@api
def inv(A: Any) -> Any:
    """The inverse of a sparse matrix A, a sparse array again, as SciPy's; most of its elements are there.

    ValueError if it is not square; a singular matrix gives NaN.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import csr_array
    >>> f = lambda d: funcad.scipy.sparse.linalg.inv(csr_array((d, [0, 1], [0, 1, 2]))).trace()
    >>> funcad.grad(f)(np.array([2.0, 4.0]))
    array([-0.25  , -0.0625])
    """
    if type(A) is not SparseArray:
        return scipy_linalg().inv(A)
    return SparseArray.of(spsolve(A, np.eye(A.shape[0], dtype=A.dtype)), A.kind.replace("coo", "csc"))


@api
def spsolve_triangular(
    A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False, unit_diagonal: bool = False
) -> Any:
    """Solve A x = b for a sparse triangular matrix, differentiably in the elements of A and in b.

    As SciPy's, whose options `overwrite_A` and `overwrite_b` make no difference to traced values; `unit_diagonal` takes the
    diagonal for ones. LinAlgError for elements on the other side of the diagonal.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import csr_array
    >>> f = lambda d: np.sum(funcad.scipy.sparse.linalg.spsolve_triangular(csr_array((d, [0, 1], [0, 1, 2])), np.ones(2)))
    >>> funcad.grad(f)(np.array([2.0, 4.0]))
    array([-0.25  , -0.0625])
    """
    if not is_traced(A, b):
        return scipy_linalg().spsolve_triangular(A, b, lower, overwrite_A, overwrite_b, unit_diagonal)
    row, col, data, n = _square("spsolve_triangular", A)
    if (row < col if lower else row > col).any():
        side = "lower" if lower else "upper"
        raise np.linalg.LinAlgError(f"A is not triangular: it has elements that are not in the {side} triangle.")
    if unit_diagonal:
        off, places = row != col, np.arange(n)
        row, col = np.concatenate([row[off], places]), np.concatenate([col[off], places])
        data = fnp.concatenate([data[np.flatnonzero(off)], fnp.ones(n, dtype_of(data))])
    return solved(row, col, data, n, b, options={"permc_spec": "NATURAL"})


@api
def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """The norm of a sparse array or matrix, as SciPy's: of the dense one; `ord` and `axis` as of `numpy.linalg.norm`.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import csr_array
    >>> f = lambda d: funcad.scipy.sparse.linalg.norm(csr_array((d, [0, 1], [0, 1, 2])))
    >>> funcad.grad(f)(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    if not is_traced(x):
        return scipy_linalg().norm(x, ord, axis)
    return fnp.linalg.norm(x.toarray(), ord, axis)


@api
def expm(A: Any) -> Any:
    """The exponential of a sparse matrix, by that of the dense one; a sparse array again, as SciPy's.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import csr_array
    >>> f = lambda d: funcad.scipy.sparse.linalg.expm(csr_array((d, [0, 1], [0, 1, 2]))).trace()
    >>> funcad.grad(f)(np.zeros(2))
    array([1., 1.])
    """
    if type(A) is not SparseArray:
        return scipy_linalg().expm(A)
    return SparseArray.of(dense_exponential(A.toarray()), A.kind.replace("coo", "csc"))


class Factorization:
    """What `splu` gives: `solve(b, trans)`, differentiable in b and in the elements of the matrix.

    `trans` is "N" for A x = b, "T" for the transposed and "H" for the conjugate transposed system. With a known matrix the
    factors are made at once and `L`, `U`, `perm_r`, `perm_c`, `nnz` are those of SciPy's SuperLU object; with traced elements
    they are made when the program runs.
    """

    def __init__(self, a: Any, options: dict[str, Any]):
        self.a, self.options = a, options
        self.shape = a.shape
        self.factors = None if type(a) is SparseArray else scipy_linalg().splu(a.tocsc(), **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self.__dict__.get("factors") is None:
            raise AttributeError(
                f"splu(A).{name} is not there where A has traced elements.\n"
                "Remedy: scipy.linalg.lu(A.toarray()) gives factors with derivatives."
            )
        return getattr(self.factors, name)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        if trans not in ("N", "T", "H"):
            raise ValueError(f"trans must be 'N', 'T' or 'H', got {trans!r}")
        if self.factors is not None and not is_traced(rhs):
            return self.factors.solve(rhs, trans)
        row, col, data, n = _square("splu", self.a)
        if not 1 <= len(shape_of(rhs)) <= 2 or shape_of(rhs)[0] != n:
            raise ValueError(f"rhs is of incompatible size: {shape_of(rhs)} for a matrix of shape {(n, n)}")
        return solved(row, col, data, n, rhs, trans, self.options)


@api
def splu(
    A: Any,
    permc_spec: Any = None,
    diag_pivot_thresh: Any = None,
    relax: Any = None,
    panel_size: Any = None,
    options: Any = None,
) -> Any:
    """The LU factorization of a sparse square matrix: an object with `solve(b, trans)`, differentiable in b and A.

    As SciPy's, whose options `permc_spec`, `diag_pivot_thresh`, `relax`, `panel_size` and `options` are handed on; the result
    is a `Factorization` around SciPy's SuperLU object, which takes traced right-hand sides too. RuntimeError if a known A is
    singular; with traced elements solutions are NaN then.

    >>> import numpy as np, scipy.sparse, funcad
    >>> lu = funcad.scipy.sparse.linalg.splu(scipy.sparse.csc_array(np.diag([2.0, 4.0])))
    >>> funcad.grad(lambda b: np.sum(lu.solve(b)))(np.ones(2))
    array([0.5 , 0.25])
    """
    given = {"permc_spec": permc_spec, "diag_pivot_thresh": diag_pivot_thresh, "relax": relax, "panel_size": panel_size}
    kept = {k: v for k, v in given.items() if v is not None}
    return Factorization(A, kept if options is None else {**kept, "options": options})


@api
def factorized(A: Any) -> Callable[[Any], Any]:
    """A function that solves A x = b for a fixed sparse A, as SciPy's; differentiable in b and in the elements of A.

    ValueError or RuntimeError as of `splu`, of which it is the method `solve`.

    >>> import numpy as np, scipy.sparse, funcad
    >>> solve = funcad.scipy.sparse.linalg.factorized(scipy.sparse.csc_array(np.diag([2.0, 4.0])))
    >>> funcad.grad(lambda b: np.sum(solve(b)))(np.ones(2))
    array([0.5 , 0.25])
    """
    found: Callable[[Any], Any] = Factorization(A, {}).solve
    return found


mirrors([expm, factorized, norm, splu, spsolve, spsolve_triangular], "scipy.sparse.linalg")


# -- A few eigenvalues and singular values of sparse matrices: eigsh and svds, SciPy's ARPACK in a callback
#
# An eigenpair of a symmetric matrix is a root of `A v - w v = 0, (1 - v.v) / 2 = 0`, whose derivative is the symmetric bordered
# matrix [[A - w, -v], [-v^T, 0]]: it is regular if the eigenvalue is simple, and SuperLU solves with it. The singular vectors
# of A are the halves of the eigenvectors of [[0, A], [A^T, 0]]. A multiple eigenvalue has no derivative: it is NaN or very
# large. Trap: the sign of a vector is ARPACK's, which starts from the same vector each time, or a call and its derivative would
# not fit.


def matrix_of(a: Any, *beside: Any) -> Any:
    """A LinearOperator as the matrix that it multiplies by, if it closes over traced values or stands beside such ones."""
    if not hasattr(a, "matvec"):
        return a
    if not is_traced(*beside) and not is_traced(a.matvec(np.zeros(a.shape[1], a.dtype))):
        return a
    return fnp.transpose(vmap(a.matvec)(np.eye(a.shape[1], dtype=a.dtype)))


def _real(name: str, a: Any) -> tuple[np.ndarray, np.ndarray, Any, tuple[int, int]]:
    if not is_sparse(a) and not hasattr(a, "shape"):
        raise TypeError(f"{name}: A must be a sparse or dense matrix, or a LinearOperator, got {type(a).__name__}")
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
    shared by it and its mirror image. A LinearOperator that closes over traced values is written out as a matrix. TypeError for
    complex matrices and the options `M`, `Minv` and `OPinv` beside traced values.

    >>> import numpy as np, funcad
    >>> f = lambda d: funcad.scipy.sparse.linalg.eigsh(np.diag(d), k=1)[0][0]
    >>> funcad.grad(f)(np.array([1.0, 2.0, 3.0])).round(6) + 0.0
    array([0., 0., 1.])
    """
    A = matrix_of(A)
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
    if return_eigenvectors:
        return values, fnp.stack([v for v, _ in pairs], 1)
    if sigma is None and which in ("LM", "SA", "SM"):  # in ARPACK's order, which SciPy keeps
        size = abs(values)
        order = {"LM": size, "SA": -values, "SM": -size}[which]
        values = values[fnp.argsort(order)]
    return values


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
    their derivatives. A LinearOperator that closes over traced values is written out as a matrix. TypeError for complex ones.

    >>> import numpy as np, funcad
    >>> f = lambda d: funcad.scipy.sparse.linalg.svds(np.diag(d), k=1)[1][0]
    >>> funcad.grad(f)(np.array([1.0, 2.0, -3.0])).round(6) + 0.0
    array([ 0.,  0., -1.])
    """
    options = {"ncv": ncv, "tol": tol, "which": which, "v0": v0, "maxiter": maxiter, "solver": solver, **options}
    A = matrix_of(A)
    if not is_traced(A):
        return scipy_linalg().svds(A, k, return_singular_vectors=return_singular_vectors, **options)
    row, col, data, (m, n) = _real("svds", A)
    options["v0"] = _start(min(m, n)) if v0 is None else np.asarray(v0)
    if return_singular_vectors not in (True, False):
        raise ValueError(
            f"svds(return_singular_vectors={return_singular_vectors!r}) is not there for traced values.\n"
            "Remedy: True, and take the vectors that you need."
        )

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


# -- `expm_multiply`: the exponential of a sparse matrix times an array, without the exponential
#
# Of traced values it is computed by products with the matrix, after Al-Mohy and Higham (2011): exp(A) B = (T(A / s))^s B, with
# the Taylor polynomial T of degree 30 and as many steps s as the norm of A asks for. That is a program like any other, so it
# has all derivatives, and those of the polynomial are as accurate as it is.


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
    that traced values do not need; a LinearOperator is written out as a matrix for them. ValueError if shapes do not fit.

    >>> import numpy as np, funcad
    >>> f = lambda d: funcad.scipy.sparse.linalg.expm_multiply(np.diag(d), np.ones(2)).sum()
    >>> funcad.grad(f)(np.array([0.0, 1.0])).round(6)
    array([1.      , 2.718282])
    """
    A = matrix_of(A, B, start, stop)
    if not is_traced(A, B, start, stop):
        return scipy_linalg().expm_multiply(A, B, start, stop, num, endpoint, traceA)
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

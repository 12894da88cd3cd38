"""Linear systems with sparse matrices by SciPy's factorizations: spsolve, splu, factorized.

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
from funcad.control.callback import pure_callback
from funcad.control.solve import custom_linear_solve
from funcad.ir.aval import dtype_of, shape_of
from funcad.primitives.conversion import convert
from funcad.scipy.sparse.sparse_arrays import SparseArray, entries, is_sparse, is_traced, product
from funcad.show.docstrings import mirrors

__all__ = ["Factorization", "factorized", "spsolve", "splu", "solved", "host_solver", "scipy_linalg"]


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
            raise AttributeError(f"a factorization of traced values has no {name!r}")
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


mirrors([factorized, splu, spsolve], "scipy.sparse.linalg")

"""Eigenvalues, singular values, QR, Schur and polar forms, pseudo-inverses, norms, least squares.

Traced, `check_finite` and `overwrite_*` make no difference. Vectors that belong to exactly coinciding eigenvalues or singular
values have no derivative: it is NaN where they are used (as in JAX); functions of the matrix that do not depend on the choice
of vectors have one: use `expm`, `sqrtm`, `logm`, `polar`, `funm_sym`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import array_of, python_number
from funcad.primitives import linear_systems
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.conversion import complex_dtype, convert
from funcad.primitives.linear_systems import hermitian_part, mH, mm, mT, triangular_solve
from funcad.primitives.shape import broadcast_to, pad, reshape, rev, static_slice
from funcad.scipy.door import implements, scipy_function

from funcad.scipy.linalg.matrix_operands import (  # isort: skip
    check_square, identity, inexact, is_complex, matrices, stacks, symmetric, unsupported,
)

eigen, factorizations = OnDemand("funcad.primitives.eigen"), OnDemand("funcad.primitives.factorizations")
matrix_functions = OnDemand("funcad.primitives.matrix_functions")


def _adjoint(a: Any) -> Any:
    return mH(a) if is_complex(a) else mT(a)


def _flipped(a: Any, axis: int) -> Any:
    return rev(a, axes=(len(shape_of(a)) + axis,))


# -- eigenvalues


def _subset(name: str, n: int, by_index: Any) -> tuple[int, int]:
    if by_index is None:
        return 0, n
    first, last = map(int, by_index)
    if not 0 <= first <= last < n:
        raise ValueError(f"{name}: the indices must be valid, 0 <= start <= end < {n}; got {by_index}")
    return first, last + 1


def _eigh(name: str, a: Any, b: Any, lower: bool, kind: int, by_index: Any, by: tuple[str, Any]) -> tuple[Any, Any]:
    (a, *rest) = inexact(a) if b is None else inexact(a, b)
    check_square(name, a)
    start, stop = _subset(name, shape_of(a)[-1], by_index)
    part = None if by_index is None else (start, stop - 1)
    if not rest:
        w, v = eigen.eigh(a, lower=lower, by=(*by, part))
    else:
        check_square(name, rest[0])
        w, v = _generalized(name, a, rest[0], lower, kind, () if part is None else ("eigh", "evx", part))
    return static_slice(w, start, stop, len(shape_of(w)) - 1), factorizations.columns(v, start, stop)


def _generalized(name: str, a: Any, b: Any, lower: bool, kind: int, by: tuple) -> tuple[Any, Any]:
    """a v = w b v (1), a b v = w v (2), b a v = w v (3), by the Cholesky factor of b."""
    if kind not in (1, 2, 3):
        raise ValueError(f'"type" keyword only accepts 1, 2, and 3; got {kind!r}')
    a, b = stacks(a, b)
    factor = linear_systems.cholesky(b if lower else _adjoint(b))
    a = symmetric(a, lower)
    if kind > 1:
        w, y = eigen.eigh(mm(_adjoint(factor), mm(a, factor)), by=by)
        v = mm(factor, y) if kind == 3 else _under(factor, y)
        return w, v
    half = triangular_solve(factor, a, lower=True)
    w, y = eigen.eigh(triangular_solve(factor, _adjoint(half), lower=True), by=by)
    return w, _under(factor, y)


def _under(factor: Any, y: Any) -> Any:
    """factor^-H y."""
    return triangular_solve(_adjoint(factor), y)


@implements("linalg.eigh", lift=True)
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """(eigenvalues ascending, eigenvectors as columns) of Hermitian a (..., n, n), or of the pair (a, b) as `type` says.

    As SciPy's; traced, `subset_by_value` and `driver` raise TypeError. Differentiated in the direction of the Hermitian part.

    >>> import numpy as np, funcad
    >>> f = lambda t: funcad.scipy.linalg.eigh(np.diag([1.0, 2.0]), t * np.eye(2), eigvals_only=True)[1]
    >>> round(float(funcad.grad(f)(2.0)), 6)
    -0.5
    """
    unsupported("eigh", subset_by_value=subset_by_value, driver=None if b is None else driver)
    w, v = _eigh("eigh", a, b, bool(lower), type, subset_by_index, ("eigh", driver))
    return w if eigvals_only else (w, v)


@implements("linalg.eigvalsh", lift=True)
def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """The eigenvalues alone, as `eigh` gives them."""
    unsupported("eigvalsh", subset_by_value=subset_by_value, driver=None if b is None else driver)
    return _eigh("eigvalsh", a, b, bool(lower), type, subset_by_index, ("eigh", driver))[0]


_OTHER = "multiply by the inverse first: a = solve(b, a)"


@implements("linalg.eig", lift=True)
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """(eigenvalues, right eigenvectors as columns) of matrices (..., n, n), complex; the vectors have norm 1.

    Traced, `b`, `left` and `homogeneous_eigvals` raise TypeError, and eigenvectors are always complex.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.eig(a)[0][0].real)(np.diag([1.0, 2.0])) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """
    unsupported("eig", _OTHER, b=b)
    unsupported("eig", "the left ones are the rows of inv(v)", left=left or None)
    unsupported("eig", homogeneous_eigvals=homogeneous_eigvals or None)
    (a,) = inexact(a)
    check_square("eig", a)
    w, v = eigen.eig(a)
    return (w, v) if right else w


@implements("linalg.eigvals", lift=True)
def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    """The eigenvalues of matrices (..., n, n), complex; traced, `b` and `homogeneous_eigvals` raise TypeError."""
    unsupported("eigvals", _OTHER, b=b)
    unsupported("eigvals", homogeneous_eigvals=homogeneous_eigvals or None)
    (a,) = inexact(a)
    check_square("eigvals", a)
    return eigen.eig(a)[0]


def eigh_selected(name: str, a: Any, select: Any, select_range: Any, by: tuple[str, Any]) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of a Hermitian matrix, all or those of the indices in a range."""
    if select in ("v", "value", 1):
        raise TypeError(
            f"scipy.linalg.{name} does not support select={select!r} with traced values.\n"
            "Remedy: select='i' takes indices."
        )
    return _eigh(name, a, None, True, 1, select_range if select in ("i", "index", 2) else None, by)


def _tridiagonal(name: str, d: Any, e: Any, select: Any, select_range: Any) -> tuple[Any, Any]:
    d, e = inexact(d, e)
    n = shape_of(d)[-1]
    if shape_of(e)[-1] != n - 1:
        raise ValueError(f"d (size {n}) must have one more element than e (size {shape_of(e)[-1]})")
    on = broadcast_to(reshape(d, shape=(*shape_of(d), 1)), (*shape_of(d), n))
    on = mul(on, identity(on))
    whole = (*shape_of(e), n)
    below = broadcast_to(reshape(e, shape=(*shape_of(e), 1)), whole)
    below = pad(mul(below, identity(below)), low=(*[0] * (len(whole) - 2), 1, 0), high=(0,) * len(whole))
    return eigh_selected(name, add(on, add(below, mT(below))), select, select_range, ("eigh_tridiagonal", None))


@implements("linalg.eigh_tridiagonal", lift=True)
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Eigenvalues and eigenvectors of the real symmetric tridiagonal matrix with diagonal d and off-diagonal e.

    Traced, the matrix is formed, `select="v"` raises TypeError, and `tol` and `lapack_driver` must be left out.

    >>> import numpy as np, funcad
    >>> f = lambda d: funcad.scipy.linalg.eigh_tridiagonal(d, np.zeros(1), eigvals_only=True)[1]
    >>> funcad.grad(f)(np.array([1.0, 2.0])) + 0.0
    array([0., 1.])
    """
    unsupported("eigh_tridiagonal", tol=tol or None, lapack_driver=None if lapack_driver == "auto" else lapack_driver)
    w, v = _tridiagonal("eigh_tridiagonal", d, e, select, select_range)
    return w if eigvals_only else (w, v)


@implements("linalg.eigvalsh_tridiagonal", lift=True)
def eigvalsh_tridiagonal(
    d: Any,
    e: Any,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """The eigenvalues alone, as `eigh_tridiagonal` gives them."""
    unsupported("eigvalsh_tridiagonal", tol=tol or None, lapack_driver=None if lapack_driver == "auto" else lapack_driver)
    return _tridiagonal("eigvalsh_tridiagonal", d, e, select, select_range)[0]


# -- singular values


@implements("linalg.svd", lift=True)
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(u, s, vh) with a = u diag(s) vh for matrices (..., m, n), or s alone; both drivers of SciPy give the same when traced.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.svd(a, compute_uv=False)[0])(np.diag([2.0, 1.0])) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """
    (a,) = matrices("svd", a)
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ValueError(f'lapack_driver must be "gesdd" or "gesvd", not "{lapack_driver}"')
    u, s, vh = eigen.svd(a, full_matrices=bool(full_matrices and compute_uv))
    return (u, s, vh) if compute_uv else s


@implements("linalg.svdvals", lift=True)
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The singular values of matrices (..., m, n), in descending order."""
    (a,) = matrices("svdvals", a)
    return eigen.svd(a)[1]


# -- QR, Schur, polar


@implements("linalg.qr", lift=True)
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """(q, r) with a = q r for matrices (..., m, n); mode "full", "economic" or "r".

    With `pivoting` (q, r, p) with a[:, p] = q r, where p is asked at the values. Traced, mode "raw" raises TypeError. Of
    "full", only what depends on the span of the last columns of q has a derivative.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.qr(a, mode="r")[0][0, 0] ** 2)(np.eye(2)).round(6) + 0.0
    array([[2., 0.],
           [0., 0.]])
    """
    unsupported("qr", lwork=lwork)
    if mode not in ("full", "economic", "r"):
        raise (TypeError if mode == "raw" else ValueError)(
            f"scipy.linalg.qr(mode={mode!r}) of traced values: mode must be 'full', 'economic' or 'r'.\n"
            "Remedy: mode='economic', or scipy.linalg.qr_multiply."
        )
    (a,) = inexact(a)
    pivots: tuple[Any, ...] = ()
    if pivoting:
        matrices("qr with pivoting", a)
        find = lambda a: (scipy_function("linalg.qr")(a, mode="r", pivoting=True)[1],)
        pivots = Tracer.namespace.scipy.spatial.structures.structure(find, [(np.int32, shape_of(a)[1:])], a)
        a = a[:, pivots[0]]
    q, r = factorizations.qr(a, full=mode != "economic")
    return (r, *pivots) if mode == "r" else (q, r, *pivots)


@implements("linalg.qr_multiply", lift=True)
def qr_multiply(
    a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
    overwrite_a: bool = False, overwrite_c: bool = False,
) -> Any:  # fmt: skip
    """(q c or c q, r) with a = q r: the product with the factor q, whose columns are as many as a has, or as c asks for.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.linalg.qr_multiply(a, np.ones((1, 1)))[1][0, 0]
    >>> abs(funcad.grad(f)(np.array([[2.0]])))
    array([[1.]])
    """
    unsupported("qr_multiply", "permute the columns of a yourself: a[:, p]", pivoting=pivoting or None)
    if mode not in ("left", "right"):
        raise ValueError(f"Mode argument can only be 'left' or 'right' but not '{mode}'")
    a, c = inexact(a, c)
    matrices("qr_multiply", a)
    m, k = shape_of(a)[0], min(shape_of(a))
    vector = len(shape_of(c)) == 1
    x = np.atleast_2d(c)
    x = x.T if vector and mode == "left" else x
    inner = shape_of(x)[0 if mode == "left" else 1]
    if inner not in ((k, m) if mode == "left" else (m,)):
        raise ValueError(f"Array shapes are not compatible for Q @ c operation: {shape_of(a)} vs {shape_of(c)}")
    q, r = factorizations.qr(a, full=mode == "left" and inner == m)
    q = np.conj(q) if conjugate else q
    found = q @ x if mode == "left" else x @ q
    return np.ravel(found) if vector else found, r[:k]


@implements("linalg.rq", lift=True)
def rq(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", check_finite: bool = True) -> Any:
    """(r, q) with a = r q for matrices (..., m, n); mode "full", "economic" or "r"."""
    unsupported("rq", lwork=lwork)
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"Mode argument should be one of ['full', 'r', 'economic'], got {mode!r}")
    (a,) = inexact(a)
    turned = _flipped(_flipped(_adjoint(a), -2), -1)  # LAPACK begins with the last row
    q, r = [_flipped(_flipped(_adjoint(f), -2), -1) for f in factorizations.qr(turned, full=mode != "economic")]
    return r if mode == "r" else (r, q)


@implements("linalg.schur", lift=True)
def schur(
    a: Any, output: str = "real", lwork: Any = None, overwrite_a: bool = False, sort: Any = None, check_finite: bool = True
) -> Any:
    """(t, z) with a = z t z^H, t upper triangular, for matrices (..., n, n); traced, `sort` raises TypeError.

    The derivative holds the phases of the columns of z; it is NaN at coinciding eigenvalues. The real form of a matrix with
    complex eigenvalues is not triangular; differentiating it raises NotImplementedError: take output="complex".

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.schur(a)[0][0, 0])(np.array([[1.0, 1.0], [0.0, 2.0]])) + 0.0
    array([[ 1.,  0.],
           [-1.,  0.]])
    """
    unsupported("schur", lwork=lwork, sort=sort)
    if output not in ("real", "complex", "r", "c"):
        raise ValueError("argument must be 'real', or 'complex'")
    (a,) = inexact(a)
    check_square("schur", a)
    if output in ("complex", "c"):
        a = convert(a, complex_dtype(dtype_of(a)))
    return tuple(eigen.schur(a))


@implements("linalg.polar", lift=True)
def polar(a: Any, side: str = "right") -> Any:
    """(u, p) with a = u p ("right") or p u ("left"), u with orthonormal columns or rows, p positive semidefinite.

    As SciPy's; traced, a must have full rank. Its derivatives are right at coinciding singular values.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda t: funcad.scipy.linalg.polar(t * np.eye(2))[1][0, 0])(2.0)
    np.float64(1.0)
    """
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    (a,) = matrices("polar", a)
    m, n = shape_of(a)[-2:]
    u = matrix_functions.polar_unitary(a) if m >= n else _adjoint(matrix_functions.polar_unitary(_adjoint(a)))
    p = mm(_adjoint(u), a) if side == "right" else mm(a, _adjoint(u))
    return u, hermitian_part(p)


@implements("linalg.orthogonal_procrustes", lift=True)
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:
    """(r, scale): the orthogonal r for which norm(A r - B) is least, and the sum of the singular values of A^H B.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.orthogonal_procrustes(a, np.eye(2))[1])(np.eye(2)).round(6) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    a, b = stacks(*inexact(A, B))
    if shape_of(a) != shape_of(b):
        raise ValueError(f"the shapes of A and B differ ({shape_of(a)} vs {shape_of(b)})")
    product = mm(_adjoint(a), b)
    return matrix_functions.polar_unitary(product), factorizations.nuclear_norm(product)


# -- NumPy's


@implements("linalg.pinv", lift=True)
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """The pseudo-inverse of matrices (..., m, n), for constant rank; traced, `atol` and `return_rank` raise TypeError."""
    unsupported("pinv", atol=atol, return_rank=return_rank or None)
    (a,) = matrices("pinv", a)
    m, n = shape_of(a)[-2:]
    return np.linalg.pinv(a, max(m, n) * np.finfo(dtype_of(a)).eps if rtol is None else rtol)


@implements("linalg.pinvh", lift=True)
def pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False, check_finite: bool = True
) -> Any:
    """The pseudo-inverse of Hermitian matrices, of which one triangle is read; `atol` and `return_rank` as in `pinv`."""
    unsupported("pinvh", atol=atol, return_rank=return_rank or None)
    (a,) = inexact(a)
    check_square("pinvh", a)
    a = symmetric(a, bool(lower))
    return np.linalg.pinv(a, shape_of(a)[-1] * np.finfo(dtype_of(a)).eps if rtol is None else rtol)


@implements("linalg.norm", lift=True)
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """`numpy.linalg.norm`, with its derivatives: 0 at 0.

    >>> import numpy as np, funcad
    >>> funcad.grad(funcad.scipy.linalg.norm)(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    a = array_of(a)
    found, ndim = np.linalg.norm(a, ord, axis, keepdims), len(shape_of(a))
    by_blas = 0 not in shape_of(a) and dtype_of(a).char in "fdFD" and axis is None and not keepdims
    if by_blas and (ndim == 1 and ord in (None, 2) or ndim == 2 and ord in (1, np.inf)):  # whose numbers are Python's
        return python_number(found)
    return found


@implements("linalg.lstsq", lift=True)
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: Any = None,
) -> Any:
    """(x, residues, rank, singular values) of the least squares problem a x = b, for constant rank; all drivers find the same.

    "gelsy" gives no residues and no singular values, as in SciPy.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda b: funcad.scipy.linalg.lstsq(np.ones((2, 1)), b)[0][0])(np.ones(2)).round(6)
    array([0.5, 0.5])
    """
    a, b = inexact(a, b)
    if len(shape_of(a)) != 2:
        raise ValueError("Input array a should be 2D")
    if shape_of(b)[0] != shape_of(a)[0]:
        rows = f"{shape_of(a)[0]} != {shape_of(b)[0]}"
        raise ValueError(f"Shape mismatch: a and b should have the same number of rows ({rows}).")
    if lapack_driver not in (None, "gelsd", "gelss", "gelsy"):
        raise ValueError(f'LAPACK driver "{lapack_driver}" is not found')
    x, residues, rank, s = np.linalg.lstsq(a, b, np.finfo(dtype_of(a)).eps if cond is None else cond)
    if lapack_driver == "gelsy" and all(shape_of(a)):
        return x, np.zeros(0, dtype_of(x)), rank, None
    return x, reshape(residues, shape=()) if len(shape_of(b)) == 1 and shape_of(residues) == (1,) else residues, rank, s

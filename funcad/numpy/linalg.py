"""Linear algebra under NumPy's names, differentiable: decompositions, solvers, norms.

Signatures, shapes, named results and errors are NumPy's; every function acts on stacks of matrices. Derivatives: jvp and
vjp of everything, real and complex, of every order. `cholesky`, `eigh` and `eigvalsh` read one triangle, and their gradients
are Hermitian (as JAX's): derivatives go in the direction of the tangent's Hermitian part. Eigenvectors and singular vectors
that belong to exactly equal eigenvalues or singular values have no derivative: it is NaN in the entries concerned, and
nothing for those who do not use them; the same holds of the second derivatives of the equal values. A function of a
symmetric matrix is differentiable there all the same: see `funcad.scipy.linalg.funm_sym`. `norm` has derivative 0 at 0.
Only what NumPy decides by values differs on traced values whose values are not known (under jit and vmap): `eig` and
`eigvals` give complex results, and `lstsq` the residuals of full rank.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.names import public_names
from funcad.numpy import linear
from funcad.numpy.axes import array_of, expand, permute
from funcad.numpy.dispatch import implements
from funcad.numpy.linalg_norms import cond as cond
from funcad.numpy.linalg_norms import matrix_norm as matrix_norm
from funcad.numpy.linalg_norms import norm as norm
from funcad.numpy.linalg_norms import vector_norm as vector_norm
from funcad.numpy.linalg_operands import common, known_array, same_stack, square, stack_of_matrices
from funcad.numpy.linear import linalg_outer as outer
from funcad.numpy.linear import multi_dot as multi_dot
from funcad.numpy.shaping import linalg_diagonal as diagonal
from funcad.numpy.shaping import linalg_trace as trace
from funcad.numpy.shaping import matrix_transpose
from funcad.primitives import eigen, factorizations, linear_systems
from funcad.primitives.arithmetic import square as squared
from funcad.primitives.comparison import ge, gt, select
from funcad.primitives.contraction import matmul as _matmul
from funcad.primitives.conversion import convert, imag, real, stop_gradient
from funcad.primitives.families import REAL
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, full, reshape

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
__dir__ = public_names(globals())

_ONE = np.ones((1, 1))
_SLOGDET, _EIG, _EIGH = [type(f(_ONE)) for f in (np.linalg.slogdet, np.linalg.eig, np.linalg.eigh)]
_SVD, _QR = type(np.linalg.svd(_ONE)), type(np.linalg.qr(_ONE))
_INT32 = np.dtype(np.int32)
_NO = np._NoValue


@implements("linalg.solve", lift=True, by_kind=True)
def solve(a: Any, b: Any) -> Any:
    a, b = common(square(a), b)
    vector = len(shape_of(b)) == 1
    if vector:
        b = expand(b, (1,))
    n, m = shape_of(a)[-1], shape_of(b)[-2]
    if n != m:
        signature = "(m,m),(m)->(m)" if vector else "(m,m),(m,n)->(m,n)"
        raise ValueError(
            f"solve{'1' if vector else ''}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"{signature} (size {m} is different from {n})"
        )
    x = _solve(a, b)
    return reshape(x, shape=shape_of(x)[:-1]) if vector else x


def _solve(a: Any, b: Any) -> Any:
    shape = shape_of(b)
    lead = len(shape) - 2
    if len(shape_of(a)) > 2 or not lead:
        return factorizations.solve(*same_stack(a, b))
    columns = permute(b, (lead, *range(lead), lead + 1))  # one matrix for all: their right hand sides are its columns
    moved = shape_of(columns)
    flat = factorizations.solve(a, reshape(columns, shape=(moved[0], aval_of(columns).size // max(moved[0], 1))))
    return permute(reshape(flat, shape=moved), (*range(1, lead + 1), 0, lead + 1))


@implements("linalg.inv", by_kind=True)
def inv(a: Any) -> Any:
    return linear_systems.inv(square(a))


@implements("linalg.det", by_kind=True)
def det(a: Any) -> Any:
    """`numpy.linalg.det`; first and second derivatives are right at singular matrices too."""
    return linear_systems.det(square(a))


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    tape = a.owner.tape if type(a) is Tracer else None
    if tape is not None and len(a.shape) > 1 and a.shape[-1] == a.shape[-2]:
        sign: Any = None

        def size(x: np.ndarray) -> Any:
            nonlocal sign
            sign, out = np.linalg.slogdet(x)
            return out

        found = tape.unary(linear_systems.log_abs_det_p, size, a)
        if found is not None:
            return _SLOGDET(sign, found)
    return _SLOGDET(*linear_systems.slogdet(square(a)))


@implements("linalg.cholesky", by_kind=True)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """`numpy.linalg.cholesky`; gradients are Hermitian."""
    a = square(a)
    return linear_systems.mH(linear_systems.cholesky(linear_systems.mH(a))) if upper else linear_systems.cholesky(a)


@implements("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """`numpy.linalg.qr`; mode "raw" has no derivative. That of "complete" follows LAPACK's reflectors."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    a = stack_of_matrices(a)
    if mode == "raw":
        h, tau = factorizations.qr_raw(a)
        return h, tau
    q, r = factorizations.qr(a, full=mode == "complete")
    return r if mode == "r" else _QR(q, r)


def _lower(uplo: str) -> bool:
    uplo = uplo.upper()
    if uplo not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo == "L"


@implements("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigh`; gradients are Hermitian. Vectors of equal eigenvalues have the derivative NaN: see `funm_sym`."""
    lower = _lower(UPLO)
    return _EIGH(*eigen.eigh(square(a), lower=lower))


@implements("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigvalsh`; gradients are Hermitian, and finite at equal eigenvalues.

    Second derivatives there are NaN for those who use the equal ones (one by one they have none): the second derivatives
    of np.sum(f(eigvalsh(a))) are those of np.trace(funm_sym(a, f)).
    """
    lower = _lower(UPLO)
    return eigen.eigvalsh(square(a), lower=lower)


def _real_if_known(w: Any, *others: Any) -> list[Any]:
    """NumPy gives real results if all eigenvalues are real: so do we where the values are known."""
    value = known_array(w)
    if value is not None and bool((value.imag == 0).all()):
        return [real(x) for x in (w, *others)]
    return [w, *others]


@implements("linalg.eig")
def eig(a: Any) -> Any:
    """`numpy.linalg.eig`; complex under jit and vmap. The vectors' derivatives keep norm 1 and a real largest component."""
    a = square(a)
    found = eigen.eig(a)
    return _EIG(*(found if dtype_of(a).kind == "c" else _real_if_known(*found)))


@implements("linalg.eigvals")
def eigvals(a: Any) -> Any:
    """`numpy.linalg.eigvals`; complex under jit and vmap."""
    a = square(a)
    w = eigen.eig(a)[0]
    return w if dtype_of(a).kind == "c" else _real_if_known(w)[0]


@implements("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """`numpy.linalg.svd`. Vectors of equal singular values have the derivative NaN; use values only (`compute_uv=False`),
    `pinv`, `norm` or `funm_sym` there. Vectors that complete a basis (`full_matrices`) do not turn among themselves."""
    if hermitian:
        return _hermitian_svd(square(a), compute_uv)
    a = stack_of_matrices(a)
    if compute_uv:
        return _SVD(*eigen.svd(a, full_matrices=bool(full_matrices)))
    return eigen.svdvals(a)


def _hermitian_svd(a: Any, compute_uv: bool) -> Any:
    if not compute_uv:
        return np.sort(np.abs(eigen.eigvalsh(a)))[..., ::-1]
    w, v = eigen.eigh(a)
    order = np.argsort(stop_gradient(np.abs(w)))[..., ::-1]
    w, v = np.take_along_axis(w, order, -1), np.take_along_axis(v, order[..., None, :], -1)
    sign = stop_gradient(select(ge(w, 0.0), 1.0, full(aval_of(w), -1)))
    return _SVD(v, np.abs(w), linear_systems.mH(v * sign[..., None, :]))


@implements("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    return svd(x, compute_uv=False)


@implements("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NO) -> Any:
    """`numpy.linalg.pinv`; the derivative takes the rank as constant."""
    a = stack_of_matrices(a)
    if rcond is None:
        rcond = 1e-15 if rtol is _NO else max(shape_of(a)[-2:]) * np.finfo(dtype_of(a)).eps if rtol is None else rtol
    elif rtol is not _NO:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    rcond = convert(stop_gradient(array_of(rcond)), np.dtype(np.float64))
    lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(rcond))
    a = broadcast_to(a, (*lead, *shape_of(a)[-2:]))
    return factorizations.pinv(a, broadcast_to(rcond, lead), hermitian=bool(hermitian))


@implements("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """`numpy.linalg.matrix_rank`: an integer, without derivative."""
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    a = stop_gradient(array_of(A))
    if len(shape_of(a)) < 2:
        return convert(np.any(a != 0), np.dtype(int))
    s = svd(a, compute_uv=False, hermitian=hermitian)
    if tol is None:
        if rtol is None:
            rtol = max(shape_of(a)[-2:]) * np.finfo(dtype_of(s)).eps
        else:
            rtol = np.expand_dims(array_of(rtol), -1)
        tol = np.max(s, axis=-1, keepdims=True, initial=0) * rtol
    else:
        tol = np.expand_dims(array_of(tol), -1)
    return np.count_nonzero(s > tol, axis=-1)


@implements("linalg.lstsq", lift=True)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """`numpy.linalg.lstsq`: (x, residuals, rank, singular values); a 2-D.

    Differs where the rank is not known (under jit and vmap): residuals are those of full rank, NaN if the rank is smaller.
    """
    a, b = common(a, b)
    vector = len(shape_of(b)) == 1
    if vector:
        b = expand(b, (1,))
    for x in (a, b):
        if len(shape_of(x)) != 2:
            raise LinAlgError(f"{len(shape_of(x))}-dimensional array given. Array must be two-dimensional")
    m, n = shape_of(a)
    if shape_of(b)[0] != m:
        raise LinAlgError("Incompatible dimensions")
    eps = float(np.finfo(np.float64).eps)  # NumPy solves in double precision
    rcond = eps * max(m, n) if rcond is None else float(rcond)
    rcond = eps if rcond < 0 else rcond
    x = factorizations.lstsq(a, b, rcond=rcond)
    s = eigen.svdvals(a)
    values = stop_gradient(s)
    k = min(m, n)
    if k:
        largest = broadcast_in_dim(reshape(values[0], shape=(1,)), shape=(k,), axes=(0,))
        rank = convert(reduce_sum(convert(gt(values, largest * dtype_of(s).type(rcond)), _INT32), axes=(0,)), _INT32)
    else:
        rank = np.int32(0)
    return reshape(x, shape=(n,)) if vector else x, _residuals(a, b, x, rank), rank, s


def _residuals(a: Any, b: Any, x: Any, rank: Any) -> Any:
    (m, n), dtype = shape_of(a), REAL(dtype_of(a))
    known = known_array(rank)
    if m <= n or known is not None and int(known) != n:
        return np.zeros((0,), dtype)
    difference = linear_systems.sub(b, _matmul(a, x))
    squares = squared(real(difference))
    if dtype_of(a).kind == "c":
        squares = linear_systems.add(squares, squared(imag(difference)))
    total = reduce_sum(squares, axes=(0,))
    if known is not None:
        return total
    complete = broadcast_in_dim(ge(rank, _INT32.type(n)), shape=shape_of(total), axes=())
    return select(complete, total, float("nan"))


@implements("linalg.matrix_power", alias="same", by_kind=True)
def matrix_power(a: Any, n: Any) -> Any:
    a = array_of(a)
    ndim = len(shape_of(a))
    if ndim < 2:
        raise LinAlgError(f"{ndim}-dimensional array given. Array must be at least two-dimensional")
    if shape_of(a)[-1] != shape_of(a)[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if n == 0:
        return np.broadcast_to(np.eye(shape_of(a)[-1], dtype=dtype_of(a)), shape_of(a)).copy()
    if n < 0:
        a, n = inv(a), -n
    result = None
    while True:
        if n & 1:
            result = a if result is None else linear.matmul_of(result, a)
        n >>= 1
        if not n:
            return result
        a = linear.matmul_of(a, a)


@implements("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Any:
    (a,) = common(a)
    shape = shape_of(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    n = 1
    for k in shape[ind:]:
        n *= k
    return reshape(inv(np.reshape(a, (n, -1))), shape=(*shape[ind:], *shape[:ind]))


@implements("linalg.tensorsolve", lift=True)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = common(a, b)
    ndim = len(shape_of(a))
    if axes is not None:
        order = list(range(ndim))
        for k in axes:
            order.remove(k)
            order.insert(ndim, k)
        a = permute(a, order)
    shape = shape_of(a)[-(ndim - len(shape_of(b))) :]
    n = 1
    for k in shape:
        n *= k
    if aval_of(a).size != n**2:
        raise LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return reshape(solve(reshape(a, shape=(n, n)), np.ravel(b)), shape=shape)


@implements("linalg.matmul")
def matmul(x1: Any, x2: Any, /) -> Any:
    return linear.matmul(x1, x2)


@implements("linalg.tensordot")
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return linear.tensordot(x1, x2, axes)


@implements("linalg.vecdot")
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return linear.vecdot(x1, x2, axis=axis)


@implements("linalg.cross")
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    x1, x2 = array_of(x1), array_of(x2)
    if shape_of(x1)[axis] != 3 or shape_of(x2)[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{shape_of(x1)[axis]} and {shape_of(x2)[axis]} dimensional instead."
        )
    return linear.cross(x1, x2, axis=axis)

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
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.linalg import LinAlgError

from funcad.configuration import OnDemand, public_names
from funcad.host.devices import NAMESPACES, restore_warnings, suppress_warnings
from funcad.host.real_types import is_a, is_narrow
from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.ir.trace import abstract_trace_of, trace_function
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import remembers
from funcad.numpy import linear
from funcad.numpy.dispatch import implements
from funcad.numpy.linear import linalg_outer as outer
from funcad.numpy.linear import matrix_transpose, multi_dot
from funcad.numpy.promote import array_of, convert_in, expand, permute
from funcad.primitives.arithmetic import abs_, div, mul
from funcad.primitives.arithmetic import square as squared
from funcad.primitives.comparison import and_, ge, gt, isnan, ne, not_, select
from funcad.primitives.contraction import matmul as _matmul
from funcad.primitives.conversion import convert, imag, real, stop_gradient
from funcad.primitives.families import REAL
from funcad.primitives.reduction import reduce_any, reduce_max, reduce_min, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, full, reshape
from funcad.primitives.transcendental import pow
from funcad.unjitted.following import follow

eigen, factorizations = OnDemand("funcad.primitives.eigen"), OnDemand("funcad.primitives.factorizations")
linear_systems, norms = OnDemand("funcad.primitives.linear_systems"), OnDemand("funcad.primitives.norms")
matrix_functions, shaping = OnDemand("funcad.primitives.matrix_functions"), OnDemand("funcad.numpy.shaping")

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


# -- operands of linear algebra: NumPy's dtypes, shapes and errors


_UNSUPPORTED = (np.dtype(np.float16), np.dtype(np.longdouble), np.dtype(np.clongdouble))


def common(*arrays: Any) -> list[Any]:
    """The operands in the one dtype in which NumPy computes: float64 for integers."""
    xs = [array_of(a) for a in arrays]
    dtypes = []
    for x in xs:
        dtype = dtype_of(x)
        if dtype.kind not in "fc" or is_narrow(dtype):
            dtype = np.dtype(np.float64)
        elif dtype in _UNSUPPORTED and dtype.itemsize not in (4, 8):
            raise TypeError(f"array type {dtype.name} is unsupported in linalg")
        dtypes.append(dtype)
    target = np.result_type(*dtypes)
    trace = abstract_trace_of(xs)
    return [x if dtype_of(x) == target else convert_in(trace, x, target) for x in xs]


def stack_of_matrices(a: Any) -> Any:
    """The operand as floats; LinAlgError if it is no stack of matrices."""
    (x,) = common(a)
    ndim = len(shape_of(x))
    if ndim < 2:
        raise LinAlgError(f"{ndim}-dimensional array given. Array must be at least two-dimensional")
    return x


def square(a: Any) -> Any:
    x = stack_of_matrices(a)
    shape = shape_of(x)
    if shape[-1] != shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return x


def same_stack(*xs: Any) -> list[Any]:
    """Stacks of matrices with their leading axes broadcast against each other."""
    lead = np.broadcast_shapes(*[shape_of(x)[:-2] for x in xs])
    return [broadcast_to(x, (*lead, *shape_of(x)[-2:])) for x in xs]


def known_array(x: Any) -> Any:
    """The array behind x if it has a value now, otherwise None."""
    value = concrete_value(x)
    return value if is_a(value, (np.ndarray, np.generic)) or type(value) in NAMESPACES else None


# -- norms and condition numbers
#
# Conventions where a norm has no derivative. At 0 the slope is 0, which every norm's subgradient contains; times an infinite
# slope outside (`log(norm(x))`) that is nan, and so is the derivative of the slope where it turns: at 0 in norms of order p >
# 1, whereas norms made of absolute values and maxima are linear on both sides and have the second derivative 0. Powers of
# Euclidean norms are exact: `norm(x)**2` has all derivatives. Between equal candidates of a maximum or minimum (elements, rows,
# largest singular values) the derivative is shared. The nuclear norm has its right first and second derivatives at equal
# singular values; at singular values 0 it has the subgradient of least norm, whose derivative is nan. The values of Euclidean
# norms neither overflow nor underflow; NumPy's do.


_INF = float("inf")


def _maximum(x: Any, axis: int) -> Any:
    """The largest of numbers >= 0, 0 if there are none."""
    shape = shape_of(x)
    if not shape[axis]:
        return full(Aval((*shape[:axis], *shape[axis + 1 :]), dtype_of(x)), 0)
    return reduce_max(x, axes=(axis,))


def _minimum(x: Any, axis: int) -> Any:
    if not shape_of(x)[axis]:
        raise ValueError("zero-size array to reduction operation minimum which has no identity")
    return reduce_min(x, axes=(axis,))


def _vector(x: Any, ord: Any, axis: int) -> Any:
    if ord is None or ord == 2:
        return norms.norm(x, axes=(axis,))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == _INF:
        return _maximum(abs_(x), axis)
    if ord == -_INF:
        return _minimum(abs_(x), axis)
    if ord == 0:
        nonzero = ne(x, dtype_of(x).type(0))
        return reduce_sum(convert(nonzero, REAL(dtype_of(x))), axes=(axis,))
    size = abs_(x)
    if ord == 1:
        return reduce_sum(size, axes=(axis,))
    ord = float(ord)
    total = reduce_sum(pow(size, ord), axes=(axis,))
    return norms.rooted(total, ord) if ord > 1 else pow(total, 1.0 / ord)


def _matrix(x: Any, ord: Any) -> Any:
    """Over the last two axes."""
    columns, rows = len(shape_of(x)) - 1, len(shape_of(x)) - 2
    if ord in (None, "fro", "f"):
        return norms.norm(x, axes=(rows, columns))
    if ord == "nuc":
        return factorizations.nuclear_norm(stack_of_matrices(x))
    if ord in (2, -2):
        s = eigen.svdvals(stack_of_matrices(x))
        extreme = _maximum(s, rows) if ord == 2 else _minimum(s, rows)
        return norms.norm(extreme, axes=())  # its slope at 0: of zero matrices any direction is a singular vector
    if ord in (1, -1):
        return (_maximum if ord == 1 else _minimum)(reduce_sum(abs_(x), axes=(rows,)), rows)
    if ord in (_INF, -_INF):
        return (_maximum if ord == _INF else _minimum)(reduce_sum(abs_(x), axes=(columns,)), rows)
    raise ValueError("Invalid norm order for matrices.")


@implements("linalg.norm", by_kind=True)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`numpy.linalg.norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    x = array_of(x)
    if dtype_of(x).kind not in "fc" or is_narrow(dtype_of(x)):
        x = convert(x, np.dtype(float))
    shape = shape_of(x)
    ndim = len(shape)
    if axis is None:
        axes: tuple = tuple(range(ndim))
        if ord is None or ord in ("f", "fro") and ndim == 2 or ord == 2 and ndim == 1:
            result = norms.norm(x, axes=axes)
            return reshape(result, shape=(1,) * ndim) if keepdims else result
    elif isinstance(axis, tuple):
        axes = axis
    else:
        try:
            axes = (int(axis),)
        except Exception as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    if len(axes) == 1:
        axes = (normalize_axis_index(axes[0], ndim),)
        result = _vector(x, ord, axes[0])
    elif len(axes) == 2:
        axes = tuple([normalize_axis_index(a, ndim) for a in axes])
        if axes[0] == axes[1]:
            raise ValueError("Duplicate axes given.")
        rest = [i for i in range(ndim) if i not in axes]
        result = _matrix(permute(x, (*rest, *axes)), ord)
    else:
        raise ValueError("Improper number of dimensions to norm.")
    return reshape(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else result


@implements("linalg.vector_norm", by_kind=True)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """`numpy.linalg.vector_norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    x = array_of(x)
    shape = shape_of(x)
    ndim = len(shape)
    if axis is None:
        axes = tuple(range(ndim))
        result = norm(reshape(x, shape=(aval_of(x).size,)), ord, axis=0)
    elif isinstance(axis, tuple):
        axes = normalize_axis_tuple(axis, ndim)
        rest = [i for i in range(ndim) if i not in axes]
        count = 1
        for i in axes:
            count *= shape[i]
        result = norm(reshape(permute(x, (*axes, *rest)), shape=(count, *[shape[i] for i in rest])), ord, axis=0)
    else:
        axes = (normalize_axis_index(axis, ndim),)
        result = norm(x, ord, axis=axes[0])
    return reshape(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else result


@implements("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """`numpy.linalg.matrix_norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    return norm(x, ord, axis=(-2, -1), keepdims=keepdims)


@implements("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    x = stack_of_matrices(x)
    shape = shape_of(x)
    if 0 in shape[-2:]:
        raise LinAlgError("cond is not defined on empty arrays")
    with np.errstate(all="ignore"):  # as NumPy's: a singular matrix has the condition number inf
        if p is None or p in (2, -2):
            s = eigen.svdvals(x)
            first, last = s[..., 0], s[..., -1]
            result = div(last, first) if p == -2 else div(first, last)
        else:
            x = square(x)
            result = mul(norm(x, p, axis=(-2, -1)), norm(linear_systems.inv(x, strict=False), p, axis=(-2, -1)))
        missing = reduce_any(isnan(x), axes=(len(shape) - 2, len(shape) - 1))
        return select(and_(isnan(result), not_(missing)), _INF, result)


# -- linear algebra under NumPy's names, differentiable


__dir__ = public_names(globals())


@remembers()
def _result(name: str) -> Any:
    """The class of the named results of a function of NumPy's."""
    return type(getattr(np.linalg, name)(np.ones((1, 1))))


_INT32 = np.dtype(np.int32)
_NO = np._NoValue


@implements("linalg.diagonal", alias="view", by_kind=True)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return shaping.diagonal_of(array_of(x), offset, -2, -1)


@implements("linalg.trace", by_kind=True)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return shaping.trace(x, offset, -2, -1, dtype)


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


_LARGE, _MANY = 32, 64


def _by_size(a: Any, b: Any) -> Any:
    *batch, n, _ = shape_of(a)
    return (linear_systems if n < _LARGE or prod(batch) > _MANY else factorizations).solve(a, b)


def _solve(a: Any, b: Any) -> Any:
    shape = shape_of(b)
    lead = len(shape) - 2
    if len(shape_of(a)) > 2 or not lead:
        return _by_size(*same_stack(a, b))
    columns = permute(b, (lead, *range(lead), lead + 1))  # one matrix for all: their right hand sides are its columns
    moved = shape_of(columns)
    flat = _by_size(a, reshape(columns, shape=(moved[0], aval_of(columns).size // max(moved[0], 1))))
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
    if tape is not None and type(a.primal) is np.ndarray and len(a.shape) > 1 and a.shape[-1] == a.shape[-2]:
        sign: Any = None

        def size(x: np.ndarray) -> Any:
            nonlocal sign
            sign, out = np.linalg.slogdet(x)
            return out

        found = tape.unary(linear_systems.log_abs_det_p, size, a)
        if found is not None:
            return _result("slogdet")(sign, found)
    return _result("slogdet")(*linear_systems.slogdet(square(a)))


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
    return r if mode == "r" else _result("qr")(q, r)


def _lower(uplo: str) -> bool:
    uplo = uplo.upper()
    if uplo not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo == "L"


@implements("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigh`; gradients are Hermitian. Vectors of equal eigenvalues have the derivative NaN: see `funm_sym`."""
    lower = _lower(UPLO)
    return _result("eigh")(*eigen.eigh(square(a), lower=lower))


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
    return _result("eig")(*(found if dtype_of(a).kind == "c" else _real_if_known(*found)))


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
        return _result("svd")(*eigen.svd(a, full_matrices=bool(full_matrices)))
    return eigen.svdvals(a)


def _hermitian_svd(a: Any, compute_uv: bool) -> Any:
    if not compute_uv:
        return np.sort(np.abs(eigen.eigvalsh(a)))[..., ::-1]
    w, v = eigen.eigh(a)
    order = np.argsort(stop_gradient(np.abs(w)))[..., ::-1]
    w, v = np.take_along_axis(w, order, -1), np.take_along_axis(v, order[..., None, :], -1)
    sign = stop_gradient(select(ge(w, 0.0), 1.0, full(aval_of(w), -1)))
    return _result("svd")(v, np.abs(w), linear_systems.mH(v * sign[..., None, :]))


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


# -- `funm_sym`: a function of a Hermitian matrix, differentiable at equal eigenvalues
#
# The public name is `funcad.scipy.linalg.funm_sym`. Trap: the function may not close over values that are being traced, because
# its derivatives are taken when a rule runs, outside the trace that these values belong to.


class _Derivatives:
    """f and all its derivatives, element by element; equal if made of the same functions."""

    __slots__ = ("func", "dfunc")

    def __init__(self, func: Callable[..., Any], dfunc: Callable[..., Any] | None):
        self.func = func
        self.dfunc = dfunc

    def __eq__(self, other: object) -> bool:
        return type(other) is _Derivatives and (self.func, self.dfunc) == (other.func, other.dfunc)

    def __hash__(self) -> int:
        return hash((self.func, self.dfunc))

    def __repr__(self) -> str:
        return getattr(self.func, "__name__", repr(self.func))

    def __call__(self, order: int, x: Any) -> Any:
        if not order:
            return self.func(x)
        if order == 1 and self.dfunc is not None:
            return self.dfunc(x)
        ones = full(Aval(shape_of(x), dtype_of(x)), 1)
        token = suppress_warnings()
        try:
            (out,), (t,) = follow(lambda y: [self(order - 1, y)], [x], [ones])
        finally:
            restore_warnings(token)
        return full(Aval(shape_of(out), dtype_of(out)), 0) if t is None else t


def _check(f: Callable[..., Any], argument: str, dtype: np.dtype) -> None:
    jaxpr, captured = trace_function(lambda x: [f(x)], [Aval((2,), dtype)], name=f"funm_sym: {argument}")
    if any(type(c) is Tracer for c in captured):
        raise TypeError(
            f"funm_sym: {argument} uses a value that is being traced, whose derivative would be lost.\n"
            "Remedy: let the matrix carry it (exp(c * x) of a is exp of c * a), or take funcad.stop_gradient of the value."
        )
    shape = jaxpr.out_avals[0].shape
    if shape != (2,):
        raise ValueError(f"funm_sym: {argument} must act element by element; for an argument of shape (2,) it gave {shape}")


def funm_sym(a: Any, func: Callable[..., Any], dfunc: Callable[..., Any] | None = None) -> Any:
    """The function `func` of Hermitian matrices: v diag(func(w)) v^H, with the eigenvalues w and eigenvectors v of a.

    a: shape (..., n, n), of which the lower triangle is read; the result has a's shape. `func` acts element by element on
    real arrays (np.exp, np.log, lambda x: x**0.5 ...); `dfunc` is its derivative, taken by funcad if not given. Derivatives
    of every order are right and finite wherever func is smooth, at equal eigenvalues too: use it in place of eigenvectors,
    which have none there. Gradients are Hermitian, as those of `numpy.linalg.eigh`. `func` must not use values that
    are being traced. Neither SciPy nor JAX has it; `scipy.linalg.funm` is for general matrices.

    >>> import numpy as np, funcad
    >>> from funcad.numpy.linalg import funm_sym
    >>> np.round(funcad.grad(lambda a: np.trace(funm_sym(a, np.sqrt)))(4 * np.eye(2)), 6)
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """
    a = array_of(a)
    if dtype_of(a).kind not in "fc":
        a = convert(a, np.dtype(np.float64))
    linear_systems.square_aval("funm_sym", Aval(shape_of(a), dtype_of(a)))
    dtype = np.dtype(np.float32) if dtype_of(a).itemsize == (8 if dtype_of(a).kind == "c" else 4) else np.dtype(np.float64)
    _check(func, "func", dtype)
    if dfunc is not None:
        _check(dfunc, "dfunc", dtype)
    return matrix_functions.symmetric_function(a, _Derivatives(func, dfunc))

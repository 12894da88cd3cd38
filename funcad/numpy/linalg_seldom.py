"""Linear algebra under NumPy's names that few programs call: `funcad.numpy.linalg` loads it with the first name of it.

Conditions, ranks and least squares, pseudo-inverses and powers, tensors as matrices, other names of products; and `funm_sym`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from funcad.configuration import OnDemand
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.real_types import NUMPY
from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import implements
from funcad.numpy.linalg import common, inv, known_array, norm, solve, square, stack_of_matrices, svd
from funcad.numpy.promote import array_of, expand
from funcad.primitives.arithmetic import div, mul
from funcad.primitives.arithmetic import square as squared
from funcad.primitives.comparison import and_, ge, gt, isnan, not_, select
from funcad.primitives.contraction import matmul as _matmul
from funcad.primitives.conversion import convert, imag, real, stop_gradient
from funcad.primitives.families import REAL
from funcad.primitives.reduction import reduce_any, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, full, permute, reshape
from funcad.unjitted.pushes import follow

eigen, factorizations = OnDemand("funcad.primitives.eigen"), OnDemand("funcad.primitives.factorizations")
linear_systems, matrix_functions = OnDemand("funcad.primitives.linear_systems"), OnDemand("funcad.primitives.matrix_functions")
linear, shaping = OnDemand("funcad.numpy.linear"), OnDemand("funcad.numpy.shaping")

_INF = float("inf")
_INT32 = np.dtype(np.int32)
_NO = np._NoValue


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
    strict = NUMPY < (2, 5)  # NaN raises
    with np.errstate(all="ignore"):  # as NumPy's: a singular matrix has the condition number inf
        if p is None or p in (2, -2):
            s = eigen.svdvals(x, strict=strict)
            first, last = s[..., 0], s[..., -1]
            result = div(last, first) if p == -2 else div(first, last)
        else:
            x = square(x)
            both = x, linear_systems.inv(x, strict=False)
            if p == "nuc" and not strict:
                sizes = [factorizations.nuclear_norm(a, strict=False) for a in both]
            else:
                sizes = [norm(a, p, axis=(-2, -1)) for a in both]
            result = mul(*sizes)
        missing = reduce_any(isnan(x), axes=(len(shape) - 2, len(shape) - 1))
        return select(and_(isnan(result), not_(missing)), _INF, result)


@implements("linalg.diagonal", alias="view", by_kind=True)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return linear.diagonal_of(array_of(x), offset, -2, -1)


@implements("linalg.trace", by_kind=True)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return linear.trace(x, offset, -2, -1, dtype)


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

"""Linear systems: solving, inverses, determinants and Cholesky factors; triangular and band matrices.

Every operation here acts on the last two axes; the axes before them are stack axes, equal in all operands, so that the
batch rule is to give an operand that lacks the batch axis one, and to call the same operation. Derivatives are matrix
products and reuse the result of the operation itself. Conventions: `cholesky` reads the lower triangle, as NumPy does,
and differentiates in the direction of the Hermitian part of the tangent, as JAX, so that gradients are Hermitian.
`det` has its right derivatives at singular matrices: the adjugate is computed from singular values, without division.
Trap: what is zero by selection stays zero. `triangle` drops what it does not keep, whatever it is (0 * NaN is NaN).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.primitives import contraction
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.contraction import matmul
from funcad.primitives.conversion import conj, imag, make_complex, real
from funcad.primitives.families import REAL, avals_text, structural, sum_tangents
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import broadcast_in_dim, concatenate, pad, permute, reshape, static_slice, transpose, with_lanes

mm = contraction.matmul


# -- helpers, for the other modules of linear algebra too


def mT(x: Any) -> Any:
    """The matrices transposed."""
    n = len(shape_of(x))
    return transpose(x, perm=(*range(n - 2), n - 1, n - 2))


def mH(x: Any) -> Any:
    """The matrices transposed and conjugated."""
    return conj(mT(x))


def hermitian_part(x: Any) -> Any:
    return mul(0.5, add(x, mH(x)))


def last_two(x: Any) -> tuple[int, int]:
    n = len(shape_of(x))
    return (n - 2, n - 1)


def inner_product(x: Any, y: Any) -> Any:
    """The sum of x * y over each matrix."""
    return reduce_sum(mul(x, y), axes=last_two(x))


def per_matrix(x: Any, shape: tuple) -> Any:
    """One number per matrix, at every place of the matrix."""
    return broadcast_in_dim(x, shape=shape, axes=tuple(range(len(shape) - 2)))


def in_rows(x: Any, shape: tuple) -> Any:
    """Vectors x as every row of matrices: the result at [..., i, j] is x[..., j]."""
    n = len(shape)
    return broadcast_in_dim(x, shape=shape, axes=(*range(n - 2), n - 1))


def in_columns(x: Any, shape: tuple) -> Any:
    """Vectors x as every column of matrices: the result at [..., i, j] is x[..., i]."""
    return broadcast_in_dim(x, shape=shape, axes=tuple(range(len(shape) - 1)))


def square_aval(name: str, a: Aval) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(f"{name}: last 2 dimensions of the array must be square, got {a}")


def missing_on_device(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name}: this CuPy has no such function.\n"
        "Compute it on the CPU: funcad.device_get(x), then funcad.device_put of the result."
    )


def lapack() -> Any:
    """The one door to SciPy's LAPACK, which has what NumPy's does not hand out."""
    return importlib.import_module("scipy.linalg.lapack")


def scipy_linalg(xp: Any) -> Any:
    """The one door to scipy.linalg, or cupyx.scipy.linalg."""
    if xp is np:
        return sys.modules.get("scipy.linalg") or importlib.import_module("scipy.linalg")
    return importlib.import_module("cupyx.scipy.linalg")


def _raising(impl: Callable[..., Any]) -> Callable[..., Any]:
    """The implementation, whose errors CuPy reports: by default it hands out what its libraries left behind."""

    def checked(xp: Any, *args: Any, **params: Any) -> Any:
        if xp is np:
            return impl(np, *args, **params)
        with importlib.import_module("cupyx").errstate(linalg="raise"):
            return impl(xp, *args, **params)

    checked.__wrapped__ = impl  # type: ignore[attr-defined]
    return checked


def stacked(
    name: str,
    impl: Callable[..., Any],
    abstract_eval: Callable[..., Any],
    jvp: Callable[..., Any] | None,
    *,
    transpose: Callable[..., Any] | None = None,
    multiple: int = 0,
    batch: Callable[..., Any] | None = None,
    kernel: str = "",
    asserts: bool = False,
) -> Primitive:
    """A primitive on stacks of matrices whose leading axes are equal; `multiple` is its number of outputs, if several.

    `kernel`: what np.linalg calls for it.
    """

    def batch_rule(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> Any:
        found = batch(size, args, batched, **params) if batch is not None else None
        if found is not None:
            return found
        return primitive(*with_lanes(size, args, batched), **params), ([True] * multiple if multiple else True)

    primitive = Primitive(
        name,
        _raising(impl),
        abstract_eval,
        jvp=jvp,
        transpose=transpose,
        batch=batch_rule,
        multiple=bool(multiple),
        fails=True,
        asserts=asserts,
        ready=_ready(kernel, impl) if kernel else None,
    )
    return primitive


def _ready(name: str, impl: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's kernel alone for one matrix: what its function does around that takes longer than a small matrix.

    Where the function raises, the kernel gives NaN: upon NaN the function is called, which raises or gives the same.
    """
    kernel = getattr(importlib.import_module("numpy.linalg._umath_linalg"), name, None)

    def ready(*avals: Aval, **params: Any) -> Callable[..., Any]:
        single = [len(a.shape) == 2 and a.size and a.dtype.char in "dD" for a in avals]
        if kernel is None or not all(single):
            return partial(impl, np, **params)

        def run(*matrices: Any) -> Any:
            token = suppress_warnings()  # the function tells of them, where it has to
            try:
                found = kernel(*matrices)
            finally:
                restore_warnings(token)
            if type(found) is tuple:
                return list(found)
            first = found.item(0)
            return found if first == first else impl(np, *matrices, **params)

        return run

    return ready


# -- triangles


def _triangle_impl(xp: Any, x: Any, *, lower: bool, diagonal: float) -> Any:
    i, j = xp.arange(x.shape[-2])[:, None], xp.arange(x.shape[-1])
    beside, with_diagonal = (xp.greater, xp.greater_equal) if lower else (xp.less, xp.less_equal)
    out = xp.where((with_diagonal if diagonal else beside)(i, j), x, x.dtype.type(0))
    if diagonal not in (0.0, 1.0):
        i = j[: len(i)]
        out[..., i, i] *= x.dtype.type(diagonal)
    return out


triangle_p = structural(  # the elements below (or above) the diagonal, and the diagonal times a number
    "triangle",
    _triangle_impl,
    lambda x, *, lower, diagonal: x,
    lambda ct, x, *, lower, diagonal: triangle(ct, lower=lower, diagonal=diagonal),
    lambda size, x, *, lower, diagonal: triangle(x, lower=lower, diagonal=diagonal),
    reach="picks",
)


def triangle(x: Any, *, lower: bool = True, diagonal: float = 1.0) -> Any:
    return triangle_p(x, lower=lower, diagonal=diagonal)


_SMALL = 24  # below this size NumPy's own routines are as quick as the triangular ones, without SciPy


def _triangular_inverse_impl(xp: Any, x: Any, *, lower: bool) -> Any:
    n = x.shape[-1]
    if xp is not np or n < _SMALL or x.size > n * n * 64:
        kept = _triangle_impl(xp, x, lower=lower, diagonal=1.0)
        return _triangle_impl(xp, _quiet_inverse(xp, kept), lower=lower, diagonal=1.0)
    trtri = lapack().get_lapack_funcs(("trtri",), (x,))[0]
    out = np.empty(x.shape, x.dtype)
    for i in np.ndindex(x.shape[:-2]):
        inverse, info = trtri(x[i], lower=int(lower))
        out[i] = np.nan if info else inverse
    return _triangle_impl(xp, out, lower=lower, diagonal=1.0)


def _triangular_inverse_jvp(tangents: Any, out: Any, x: Any, *, lower: bool) -> Any:
    return neg(mm(out, mm(triangle(tangents[0], lower=lower), out)))


triangular_inverse_p = stacked(
    "triangular_inverse", _triangular_inverse_impl, lambda x, *, lower: x, _triangular_inverse_jvp
)


def triangular_inverse(x: Any, *, lower: bool = True) -> Any:
    """The inverse of the lower (or upper) triangle of x; NaN if it is singular."""
    return triangular_inverse_p(x, lower=lower)


# -- solve and inverse


def _solve_abstract(a: Aval, b: Aval) -> Aval:
    square_aval("solve", a)
    if a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"solve: operands {a} and {b} do not fit")
    return b


def _solve_jvp(tangents: Any, out: Any, a: Any, b: Any) -> Any:
    ta, tb = tangents
    if ta is None:
        return solve(a, tb)
    change = mm(ta, out)
    return neg(solve(a, change)) if tb is None else solve(a, sub(tb, change))


def _solve_transpose(ct: Any, a: Any, b: Any) -> list:
    if is_linear(a):
        raise not_linear("solve")
    return [None, solve(mT(a), ct)]


def _solve_batch(size: int, args: Any, batched: Any) -> Any:
    """One matrix, many right hand sides: the batch becomes columns."""
    a, b = args
    if batched[0] or len(shape_of(a)) != 2:
        return None
    _, n, k = shape_of(b)
    columns = reshape(transpose(b, perm=(1, 0, 2)), shape=(n, size * k))
    return transpose(reshape(solve(a, columns), shape=(n, size, k)), perm=(1, 0, 2)), True


def _solve_impl(xp: Any, a: Any, b: Any) -> Any:
    x = xp.linalg.solve(a, b)
    if xp is not np and a.ndim > 2 and not bool(xp.isfinite(x).all()) and bool((xp.linalg.slogdet(a)[0] == 0).any()):
        raise np.linalg.LinAlgError("Singular matrix")  # CuPy's solver of stacks of small matrices never says so
    return x


# x with a @ x = b; a of shape (..., n, n), b of shape (..., n, k), the same leading axes and dtype.
solve = stacked(
    "solve",
    _solve_impl,
    _solve_abstract,
    _solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
    kernel="solve",
)


def _quiet_inverse(xp: Any, a: Any) -> Any:
    """The inverse, NaN where there is none."""
    try:
        return xp.linalg.inv(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return xp.full(a.shape, np.nan, a.dtype)
    out = xp.empty(a.shape, a.dtype)
    for i in np.ndindex(a.shape[:-2]):
        out[i] = _quiet_inverse(xp, a[i])
    return out


def _square(name: str) -> Callable[..., Aval]:
    def abstract_eval(a: Aval, **params: Any) -> Aval:
        square_aval(name, a)
        return a

    return abstract_eval


inv_p = stacked(
    "inv",
    lambda xp, a, *, strict: xp.linalg.inv(a) if strict else _quiet_inverse(xp, a),
    _square("inv"),
    lambda tangents, out, a, *, strict: neg(mm(out, mm(tangents[0], out))),
    kernel="inv",
)


def inv(a: Any, *, strict: bool = True) -> Any:
    """The inverse; of a singular matrix LinAlgError, or NaN if not strict."""
    return inv_p(a, strict=strict)


# -- determinants


def products_but(xp: Any, s: Any) -> tuple[Any, Any]:
    """(products of all but s[i], products of all but s[i] and s[j], 0 on the diagonal): exact where elements are 0."""
    n = s.shape[-1]
    ones = xp.ones((*s.shape[:-1], 1), s.dtype)
    before = xp.cumprod(xp.concatenate([ones, s], -1), axis=-1)[..., :n]
    after = xp.flip(xp.cumprod(xp.concatenate([ones, xp.flip(s, -1)], -1), axis=-1)[..., :n], -1)
    upper = ~np.tri(n, n, 0, bool)
    upper = upper if xp is np else xp.asarray(upper)
    spread = xp.where(upper, s[..., None, :], s.dtype.type(1))  # row i: s[k] for k > i
    first = xp.ones((*s.shape, 1), s.dtype)
    between = xp.cumprod(xp.concatenate([first, spread], -1), axis=-1)[..., :n]
    pairs = xp.where(upper, before[..., :, None] * between * after[..., None, :], s.dtype.type(0))
    return before * after, pairs + xp.swapaxes(pairs, -1, -2)


def of_finite(xp: Any, f: Any, a: Any, *, strict: bool = False) -> list:
    """The results of f(a), NaN for matrices that are not finite: LAPACK's SVD may never end on infinities.

    On NaN it fails: where f is the user's own call, `strict`, it is to raise that.
    """
    finite = xp.isfinite(a).all((-2, -1))
    if bool(finite.all()):
        out = f(a)
        return [*out] if isinstance(out, tuple) else [out]
    out = f(xp.where(finite[..., None, None] | (strict & xp.isnan(a)), a, 0))
    parts = out if isinstance(out, tuple) else (out,)
    return [xp.where(finite.reshape((*finite.shape, *[1] * (p.ndim - finite.ndim))), p, xp.nan) for p in parts]


def _is_regular(xp: Any, a: Any, inverse: Any) -> bool:
    """Are all the matrices conditioned well enough for formulas with the inverse?"""
    worst = xp.abs(a).sum(-1).max(-1) * xp.abs(inverse).sum(-1).max(-1)
    return bool((worst < np.finfo(a.dtype).eps ** -0.5).all())


def _singular_parts(xp: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """(det(u) * det(vh), u, s, vh)."""
    u, s, vh = of_finite(xp, xp.linalg.svd, a)
    return (xp.linalg.det(u) * xp.linalg.det(vh))[..., None, None], u, s, vh


def _adjoint(xp: Any, x: Any) -> Any:
    return xp.conj(xp.swapaxes(x, -1, -2))


def _adjugate_impl(xp: Any, a: Any) -> Any:
    if not a.size:
        return a
    inverse = _quiet_inverse(xp, a)
    if _is_regular(xp, a, inverse):
        return inverse * xp.linalg.det(a)[..., None, None]
    sign, u, s, vh = _singular_parts(xp, a)
    single, _ = products_but(xp, s)
    return (sign * _adjoint(xp, vh) * single[..., None, :]) @ _adjoint(xp, u)


def _adjugate_linear_impl(xp: Any, t: Any, a: Any) -> Any:
    if not a.size:
        return a
    n = a.shape[-1]
    diagonal = np.arange(n) if xp is np else xp.arange(n)
    inverse = _quiet_inverse(xp, a)
    if _is_regular(xp, a, inverse):
        x = -(inverse @ t)
        x[..., diagonal, diagonal] -= xp.trace(x, axis1=-2, axis2=-1)[..., None]
        return (x @ inverse) * xp.linalg.det(a)[..., None, None]
    sign, u, s, vh = _singular_parts(xp, a)
    _, pairs = products_but(xp, s)
    m = _adjoint(xp, u) @ t @ _adjoint(xp, vh)
    out = -pairs * m
    out[..., diagonal, diagonal] = (pairs @ m[..., diagonal, diagonal][..., None])[..., 0]
    return sign * (_adjoint(xp, vh) @ out @ _adjoint(xp, u))


def _adjugate_linear_jvp(tangents: Any, out: Any, t: Any, a: Any) -> Any:
    """By `a`, the second derivative of the adjugate: of (tr(x) - x) adj(a) with x = inverse(a) t, for regular matrices."""
    u, v = tangents
    if v is None:
        return adjugate_linear(u, a)
    adjugate_, change, inverse = adjugate(a), adjugate_linear(v, a), inv(a, strict=False)
    x, y = mm(inverse, t), mm(inverse, v)
    shape = shape_of(a)
    by_x = sub(mul(per_matrix(inner_product(mT(inverse), t), shape), change), mm(x, change))
    by_y = sub(mm(mm(y, x), adjugate_), mul(per_matrix(inner_product(mT(y), x), shape), adjugate_))
    by_a = add(by_x, by_y)
    return by_a if u is None else add(adjugate_linear(u, a), by_a)


def _adjugate_linear_transpose(ct: Any, t: Any, a: Any) -> list:
    if is_linear(a):
        raise not_linear("adjugate_linear")
    return [mT(adjugate_linear(mT(ct), a)), None]


adjugate_linear = stacked(  # the derivative of the adjugate of a in the direction t
    "adjugate_linear",
    _adjugate_linear_impl,
    lambda t, a: t,
    _adjugate_linear_jvp,
    transpose=_adjugate_linear_transpose,
)
# det(a) * inverse(a), finite for every matrix: the derivative of det.
adjugate = stacked(
    "adjugate",
    _adjugate_impl,
    _square("adjugate"),
    lambda tangents, out, a: adjugate_linear(tangents[0], a),
)
det = stacked(
    "det",
    lambda xp, a: xp.linalg.det(a),
    lambda a: square_aval("det", a) or Aval(a.shape[:-2], a.dtype),
    lambda tangents, out, a: inner_product(mT(adjugate(a)), tangents[0]),
)


def _slogdet_jvp(tangents: Any, out: Any, a: Any) -> list:
    change = inner_product(mT(inv(a, strict=False)), tangents[0])
    if dtype_of(a).kind != "c":
        return [None, change]
    return [mul(out[0], make_complex(0.0, imag(change))), real(change)]


# [sign, log(abs(det))]; the derivative at a singular matrix is NaN.
slogdet = stacked(
    "slogdet",
    lambda xp, a: list(xp.linalg.slogdet(a)),
    lambda a: square_aval("slogdet", a) or [Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], REAL(a.dtype))],
    _slogdet_jvp,
    multiple=2,
    kernel="slogdet",
)
log_abs_det_p = stacked(  # of real matrices: what an un-jitted gradient records of `slogdet`, whose sign has no derivative
    "log_abs_det",
    lambda xp, a: xp.linalg.slogdet(a)[1],
    lambda a: square_aval("slogdet", a) or Aval(a.shape[:-2], a.dtype),
    lambda tangents, out, a: inner_product(mT(inv(a, strict=False)), tangents[0]),
)


# -- Cholesky


def _cholesky_jvp(tangents: Any, out: Any, a: Any) -> Any:
    inverse = triangular_inverse(out)
    inner = mm(inverse, mm(hermitian_part(tangents[0]), mH(inverse)))
    return mm(out, triangle(inner, diagonal=0.5))


# The lower Cholesky factor of the Hermitian matrix whose lower triangle is that of x.
cholesky = stacked(
    "cholesky", lambda xp, a: xp.linalg.cholesky(a), _square("cholesky"), _cholesky_jvp, kernel="cholesky_lo"
)


# -- how SciPy's matrix functions are called: the door to scipy.linalg, stacks in a loop, NaN instead of a call that would hang
#
# LAPACK must not see NaN or infinity where it iterates: `finite_only` answers NaN for such a matrix instead of calling it.


def linalg_of(xp: Any, name: str) -> Callable[..., Any]:
    """A function of scipy.linalg for numpy, of cupyx.scipy.linalg for cupy."""
    found = getattr(scipy_linalg(xp), name, None)
    if found is None:
        raise missing_on_device(name)
    return found


def each(xp: Any, f: Callable[..., Any], arrays: Sequence[Any], core: tuple[int, ...], dtype: Any) -> Any:
    """f of each matrix of the stacks; its results have the shape `core`."""
    lead = arrays[0].shape[:-2]
    if 0 in [n for a in arrays for n in a.shape]:
        return xp.zeros((*lead, *core), dtype)
    if not lead:
        out = f(*arrays)
        return out.astype(dtype, copy=xp is np and not out.flags.owndata)  # some of SciPy's results have no owner
    out = xp.empty((*lead, *core), dtype)
    for index in np.ndindex(*lead):
        out[index] = f(*[a[index] for a in arrays])
    return out


def finite_only(xp: Any, f: Callable[..., Any], core: tuple[int, ...]) -> Callable[..., Any]:
    """f, but NaN for matrices that are not finite."""

    def guarded(*matrices: Any) -> Any:
        if all(bool(xp.isfinite(m).all()) for m in matrices):
            return f(*matrices)
        return xp.full(core, np.nan, matrices[0].dtype)

    return guarded


def placed(x: Any, shape: tuple[int, int], row: int, column: int) -> Any:
    """Zero matrices of a shape, with x at (row, column)."""
    own = shape_of(x)
    lead = (0,) * (len(own) - 2)
    below, right = shape[0] - row - own[-2], shape[1] - column - own[-1]
    return pad(x, low=(*lead, row, column), high=(*lead, below, right))


# -- triangular systems
#
# `triangular_solve(a, b, lower=, transposed=, unit_diagonal=)` solves op(a) x = b, op the identity or the transposition, for
# stacks of matrices with equal leading axes. It is linear in b, and its transpose is the same with op transposed. Only the
# named triangle of a is read, so the derivative is zero in the other one (and on the diagonal if that is taken as 1). Trap:
# under vmap with one matrix for all lanes, the lanes become columns: the matrix is not copied.


def check_system(name: str, a: Aval, b: Aval) -> None:
    """Are these stacks of square matrices, and of right-hand sides that fit?"""
    square_aval(name, a)
    if a.dtype != b.dtype or a.ndim != b.ndim or a.shape[:-1] != b.shape[:-1]:
        raise ValueError(f"{name}: operands must fit and have equal dtypes, got {avals_text([a, b])}")


_FEW_ROWS = 32  # rows up to which the calls of SciPy take longer than substitution in all systems of a stack at once


def _of_stack(one: Any, a: Any, b: Any, lower: bool, transposed: bool, unit_diagonal: bool) -> Any:
    """Column by column, with the systems of the stack along the last axis."""
    *_, n, k = b.shape
    if not unit_diagonal:
        i = np.arange(n)
        for index in zip(*np.nonzero((a[..., i, i] == 0).any(axis=-1))):
            one(a[index], b[index])  # raises
    m, x = [np.ascontiguousarray(np.moveaxis(v.reshape(-1, *v.shape[-2:]), 0, -1)) for v in (a, b)]
    m = np.swapaxes(m, 0, 1) if transposed else m
    x = x.copy() if np.may_share_memory(x, b) else x
    forward = lower != transposed
    with np.errstate(all="ignore"):  # LAPACK says nothing
        for i in range(n) if forward else reversed(range(n)):
            rest = slice(i + 1, n) if forward else slice(i)
            if not unit_diagonal:
                x[i] /= m[i, i]
            x[rest] -= m[rest, i, None] * x[i]
    return np.ascontiguousarray(np.moveaxis(x, -1, 0)).reshape(b.shape)


def _tri_impl(xp: Any, a: Any, b: Any, *, lower: bool, transposed: bool, unit_diagonal: bool) -> Any:
    solve = linalg_of(xp, "solve_triangular")

    def one(a: Any, b: Any) -> Any:
        return solve(a, b, trans=int(transposed), lower=lower, unit_diagonal=unit_diagonal, check_finite=False)

    if xp is np and a.ndim > 2 and b.size and a.shape[-1] <= _FEW_ROWS and 4 * prod(a.shape[:-2]) > a.shape[-1]:
        return _of_stack(one, a, b, lower, transposed, unit_diagonal)
    return each(xp, one, (a, b), b.shape[-2:], b.dtype)


def _tri_abstract(a: Aval, b: Aval, **params: Any) -> Aval:
    check_system("triangular_solve", a, b)
    return Aval(b.shape, b.dtype)


def _tri_jvp(tangents: Sequence[Any], out: Any, a: Any, b: Any, *, lower: bool, transposed: bool, unit_diagonal: bool) -> Any:
    ta, tb = tangents
    if ta is not None:
        ta = triangle(ta, lower=lower, diagonal=0.0 if unit_diagonal else 1.0)
        moved = matmul(mT(ta) if transposed else ta, out)
        tb = neg(moved) if tb is None else sub(tb, moved)
    return triangular_solve(a, tb, lower=lower, transposed=transposed, unit_diagonal=unit_diagonal)


def _tri_transpose(ct: Any, a: Any, b: Any, *, transposed: bool, **params: Any) -> list[Any]:
    if is_linear(a):
        raise not_linear("triangular_solve")
    return [None, triangular_solve(a, ct, transposed=not transposed, **params)]


def _tri_batch(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool] | None:
    a, b = args
    if batched[0]:
        return None
    n = len(shape_of(b))  # (size, ..., n, k) -> (..., n, size, k) -> (..., n, size * k)
    b = permute(b, (*range(1, n - 1), 0, n - 1))
    merged = shape_of(b)
    b = reshape(b, shape=(*merged[:-2], merged[-2] * merged[-1]))
    out = reshape(triangular_solve(a, b, **params), shape=merged)
    return permute(out, (n - 2, *range(n - 2), n - 1)), True


triangular_solve_p = stacked("triangular_solve", _tri_impl, _tri_abstract, _tri_jvp, transpose=_tri_transpose, batch=_tri_batch)


def triangular_solve(a: Any, b: Any, *, lower: bool = False, transposed: bool = False, unit_diagonal: bool = False) -> Any:
    """x with op(a) x = b, for stacks (..., n, n) and (..., n, k)."""
    return triangular_solve_p(a, b, lower=lower, transposed=transposed, unit_diagonal=unit_diagonal)


def _permutation_impl(xp: Any, pivots: Any) -> Any:
    n = pivots.shape[-1]
    out = xp.empty(pivots.shape, pivots.dtype)
    for index in np.ndindex(pivots.shape[:-1]):
        order = np.arange(n, dtype=pivots.dtype)
        for row, other in enumerate(pivots[index].tolist()):
            order[row], order[other] = order[other], order[row]
        out[index] = order if xp is np else xp.asarray(order)
    return out


# The order of rows after row i has been exchanged with row pivots[i], for each i in turn.
pivot_permutation = stacked("pivot_permutation", _permutation_impl, lambda pivots: pivots, None)


# -- systems with a band matrix, in SciPy's diagonal-ordered form: `ab[u + i - j, j] == a[i, j]`, stored by diagonals
#
# `banded_solve(ab, b, lower=l, upper=u)` is linear in b; its transpose solves with the transposed matrix, which is a shift of
# each row of ab; its derivative needs the product with a band matrix, one shifted multiplication per diagonal. So all costs
# stay linear in n. Trap: the corners of ab lie outside the matrix; what stands there must not count, whatever it is (the shifts
# cut it off), and its derivative is zero. With `positive`, the matrix is Hermitian positive definite and solved by Cholesky.


def shifted(x: Any, k: int, axis: int) -> Any:
    """Element j goes to j - k; zeros come in."""
    shape = shape_of(x)
    n = shape[axis]
    move = min(abs(k), n)
    if not move:
        return x
    x = static_slice(x, move, n, axis) if k > 0 else static_slice(x, 0, n - move, axis)
    low, high = [0] * len(shape), [0] * len(shape)
    (high if k > 0 else low)[axis] = move
    return pad(x, low=tuple(low), high=tuple(high))


def _row(ab: Any, r: int) -> Any:
    shape = shape_of(ab)
    return reshape(static_slice(ab, r, r + 1, len(shape) - 2), shape=(*shape[:-2], shape[-1]))


def _rows(rows: Sequence[Any]) -> Any:
    shape = shape_of(rows[0])
    return concatenate([reshape(r, shape=(*shape[:-1], 1, shape[-1])) for r in rows], axis=len(shape) - 1)


def banded_transpose(ab: Any, lower: int, upper: int) -> Any:
    """The transposed matrix, in the same form; its bandwidths are exchanged."""
    axis = len(shape_of(ab)) - 2
    return _rows([shifted(_row(ab, upper - k), k, axis) for k in range(-lower, upper + 1)])


def hermitian_band(ab: Any, lower: bool) -> Any:
    """All diagonals of the Hermitian matrix of which the lower or the upper ones are given."""
    width = shape_of(ab)[-2] - 1
    own = [_row(ab, r) for r in range(width + 1)]
    if aval_of(ab).dtype.kind == "c":  # of the diagonal, the real part counts
        on = 0 if lower else width
        own[on] = mul(0.5, add(own[on], conj(own[on])))
    axis = len(shape_of(ab)) - 2
    mirror = (lambda x: conj(x)) if aval_of(ab).dtype.kind == "c" else (lambda x: x)
    if lower:
        return _rows([*[shifted(mirror(own[m]), -m, axis) for m in range(width, 0, -1)], *own])
    return _rows([*own, *[shifted(mirror(own[width - m]), m, axis) for m in range(1, width + 1)]])


def _times(ab: Any, x: Any, upper: int) -> Any:
    """The product of the band matrix and x (..., n, k)."""
    shape = shape_of(x)
    axis = len(shape) - 2
    terms = [shifted(mul(in_columns(_row(ab, r), shape), x), upper - r, axis) for r in range(shape_of(ab)[-2])]
    return sum_tangents(terms, add)


def _banded_impl(xp: Any, ab: Any, b: Any, *, lower: int, upper: int, positive: bool) -> Any:
    if positive:
        solve = linalg_of(xp, "solveh_banded")
        one = lambda ab, b: solve(ab[: upper + 1], b, check_finite=False)
    else:
        solve = linalg_of(xp, "solve_banded")
        one = lambda ab, b: solve((lower, upper), ab, b, check_finite=False)
    if ab.ndim > 2 and ab.size and b.size:  # a stack is one matrix, as long as no NaN spreads from one part to the next
        found = one(_in_a_row(xp, ab, upper), b.reshape(-1, b.shape[-1])).reshape(b.shape)
        if xp.isfinite(found).all():
            return found
    return each(xp, one, (ab, b), b.shape[-2:], b.dtype)


def _in_a_row(xp: Any, ab: Any, upper: int) -> Any:
    """The band matrix on whose diagonal those of a stack stand."""
    *_, rows, n = ab.shape
    row = xp.moveaxis(ab, -2, 0).reshape(rows, -1, n).copy()
    for r in range(rows):
        row[r, :, : max(upper - r, 0)] = 0
        row[r, :, max(n + upper - r, 0) if r > upper else n :] = 0
    return row.reshape(rows, -1)


def _banded_abstract(ab: Aval, b: Aval, *, lower: int, upper: int, positive: bool) -> Aval:
    if ab.ndim < 2 or b.shape[:-1] != (*ab.shape[:-2], ab.shape[-1]) or ab.dtype != b.dtype:
        raise ValueError(f"banded_solve: operands must fit and have equal dtypes, got {avals_text([ab, b])}")
    if ab.shape[-2] != lower + upper + 1:
        raise ValueError(f"banded_solve: {ab} has not {lower} + {upper} + 1 diagonals")
    return Aval(b.shape, b.dtype)


def _banded_jvp(tangents: Sequence[Any], out: Any, ab: Any, b: Any, *, lower: int, upper: int, positive: bool) -> Any:
    t_ab, tb = tangents
    if t_ab is not None:
        moved = _times(t_ab, out, upper)
        tb = neg(moved) if tb is None else sub(tb, moved)
    return banded_solve(ab, tb, lower=lower, upper=upper, positive=positive)


def _banded_transpose(ct: Any, ab: Any, b: Any, *, lower: int, upper: int, positive: bool) -> list[Any]:
    if is_linear(ab):
        raise not_linear("banded_solve")
    mirrored = banded_transpose(ab, lower, upper)
    return [None, banded_solve(mirrored, ct, lower=upper, upper=lower, positive=positive)]


banded_solve_p = stacked("banded_solve", _banded_impl, _banded_abstract, _banded_jvp, transpose=_banded_transpose)


def banded_solve(ab: Any, b: Any, *, lower: int, upper: int, positive: bool = False) -> Any:
    """x with a x = b, for stacks of bands (..., lower + upper + 1, n) and right-hand sides (..., n, k)."""
    return banded_solve_p(ab, b, lower=lower, upper=upper, positive=positive)

"""Solving, inverses, determinants and Cholesky factors of stacks of matrices, with their derivatives.

Every operation here acts on the last two axes; the axes before them are stack axes, equal in all operands, so that the
batch rule is to give an operand that lacks the batch axis one, and to call the same operation. Derivatives are matrix
products and reuse the result of the operation itself. Conventions: `cholesky` reads the lower triangle, as NumPy does,
and differentiates in the direction of the Hermitian part of the tangent, as JAX, so that gradients are Hermitian.
`det` has its right derivatives at singular matrices: the adjugate is computed from singular values, without division.
Trap: what is zero by selection stays zero. `triangle` drops what it does not keep, whatever it is (0 * NaN is NaN).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.primitives import contraction
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.conversion import conj, make_complex, real
from funcad.primitives.conversion import imag as imag_part
from funcad.primitives.families import REAL, structural
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_leading, reshape, transpose

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
    return importlib.import_module("scipy.linalg" if xp is np else "cupyx.scipy.linalg")


def _raising(impl: Callable[..., Any]) -> Callable[..., Any]:
    """The implementation, whose errors CuPy reports: by default it hands out what its libraries left behind."""

    def checked(xp: Any, *args: Any, **params: Any) -> Any:
        if xp is np:
            return impl(np, *args, **params)
        with importlib.import_module("cupyx").errstate(linalg="raise"):
            return impl(xp, *args, **params)

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
) -> Primitive:
    """A primitive on stacks of matrices whose leading axes are equal; `multiple` is its number of outputs, if several."""

    def batch_rule(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> Any:
        found = batch(size, args, batched, **params) if batch is not None else None
        if found is not None:
            return found
        whole = [a if b else broadcast_leading(a, size) for a, b in zip(args, batched)]
        return primitive(*whole, **params), ([True] * multiple if multiple else True)

    primitive = Primitive(
        name,
        _raising(impl),
        abstract_eval,
        jvp=jvp,
        transpose=transpose,
        batch=batch_rule,
        multiple=bool(multiple),
        fails=True,
    )
    return primitive


# -- triangles


def _triangle_impl(xp: Any, x: Any, *, lower: bool, diagonal: float) -> Any:
    n, m = x.shape[-2:]
    mask = np.tri(n, m, -1, bool) if lower else ~np.tri(n, m, 0, bool)
    out = xp.where(mask if xp is np else xp.asarray(mask), x, x.dtype.type(0))
    if diagonal:
        i = np.arange(min(n, m)) if xp is np else xp.arange(min(n, m))
        out[..., i, i] = x[..., i, i] * x.dtype.type(diagonal)
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
)


def inv(a: Any, *, strict: bool = True) -> Any:
    """The inverse; of a singular matrix LinAlgError, or NaN if not strict."""
    return inv_p(a, strict=strict)


# -- determinants


def _products_but(xp: Any, s: Any) -> tuple[Any, Any]:
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


def of_finite(xp: Any, f: Any, a: Any) -> list:
    """The results of f(a), NaN for matrices that are not finite: LAPACK's SVD fails on NaN and may never end on infinities."""
    finite = xp.isfinite(a).all((-2, -1))
    if bool(finite.all()):
        out = f(a)
        return [*out] if isinstance(out, tuple) else [out]
    out = f(xp.where(finite[..., None, None], a, 0))
    parts = out if isinstance(out, tuple) else (out,)
    return [xp.where(finite.reshape(*finite.shape, *[1] * (p.ndim - finite.ndim)), p, xp.nan) for p in parts]


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
    single, _ = _products_but(xp, s)
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
    _, pairs = _products_but(xp, s)
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
    return [mul(out[0], make_complex(0.0, imag_part(change))), real(change)]


# [sign, log(abs(det))]; the derivative at a singular matrix is NaN.
slogdet = stacked(
    "slogdet",
    lambda xp, a: list(xp.linalg.slogdet(a)),
    lambda a: square_aval("slogdet", a) or [Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], REAL(a.dtype))],
    _slogdet_jvp,
    multiple=2,
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
cholesky = stacked("cholesky", lambda xp, a: xp.linalg.cholesky(a), _square("cholesky"), _cholesky_jvp)

"""QR and LU factors, pseudo-inverses, least squares, polar factors.

All act on the last two axes; see linalg.py for stack axes. The derivatives are those of the factors that LAPACK
computes (R with a real diagonal, the pivots held), matrix products with inverses of triangles. `pinv` and `lstsq` have
the formula for constant rank, which needs no gaps between singular values; where `rcond` may cut singular values that are
not 0, the terms between these and the kept ones are added: see `stein`. `polar` is the derivative of the nuclear
norm: its denominators are sums of singular values, so that equal ones are no trouble; directions whose singular value is
0 are left out of it, which is the subgradient of least norm. The columns by which `full` completes Q follow from LAPACK's
reflectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.host.real_types import finfo
from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import is_linear, not_linear
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import remembers
from funcad.primitives import linear_systems
from funcad.primitives.arithmetic import add, div, mul, neg, sub
from funcad.primitives.basic_indexing import take_along
from funcad.primitives.comparison import eq, isnan, select
from funcad.primitives.conversion import conj, convert, real, stop_gradient
from funcad.primitives.eigen import columns, singular_values, svd
from funcad.primitives.families import REAL, sum_tangents
from funcad.primitives.reduction import reduce_any
from funcad.primitives.shape import broadcast_in_dim, concatenate, pad, reshape, slice_p, transpose

from funcad.primitives.linear_systems import (  # isort: skip
    hermitian_part, in_columns, in_rows, inner_product, lapack, last_two, mH, mm, mT, of_finite, per_matrix, scipy_linalg,
    stacked, triangle, triangular_inverse,
)

_INT32 = np.dtype(np.int32)


def rows(x: Any, start: int, stop: int) -> Any:
    shape = shape_of(x)
    if (start, stop) == (0, shape[-2]):
        return x
    low, high = (0,) * len(shape[:-2]), shape[:-2]
    return slice_p(x, start=(*low, start, 0), limit=(*high, stop, shape[-1]), strides=None)


def _grown(x: Any, shape: tuple) -> Any:
    """x with zeros below and to the right."""
    own = shape_of(x)
    if own == shape:
        return x
    return pad(x, low=(0,) * len(shape), high=tuple([n - m for n, m in zip(shape, own)]))


# -- QR


def _qr_abstract(a: Aval, *, full: bool) -> list:
    *batch, m, n = a.shape
    p = m if full else min(m, n)
    return [Aval((*batch, m, p), a.dtype), Aval((*batch, p, n), a.dtype)]


def _qr_jvp(tangents: Any, out: Any, a: Any, *, full: bool) -> list:
    (t,), (q, r) = tangents, out
    m, n = shape_of(a)[-2:]
    k, p = min(m, n), shape_of(q)[-1]
    first, upper = columns(q, 0, k), rows(r, 0, k)
    inverse = triangular_inverse(columns(upper, 0, k), lower=False)
    inside = mm(mH(first), t)
    c = mm(columns(inside, 0, k), inverse)
    below = triangle(c, diagonal=0.0)
    turn = sub(below, mH(below))
    if dtype_of(a).kind == "c":  # the diagonal of R stays real
        on = triangle(triangle(c), lower=False)
        turn = add(turn, _halved(sub(on, mH(on))))
    change = triangle(sub(inside, mm(turn, upper)), lower=False)
    dq = mm(first, turn)
    if m == k:
        return [dq, change]
    moved = mm(t, inverse)
    if p == k:
        return [add(dq, sub(moved, mm(first, c))), change]
    rest = columns(q, k, p)
    out_of = mm(mH(rest), moved)
    dq = add(dq, mm(rest, out_of))
    return [concatenate([dq, _completion(first, rest, dq, out_of)], axis=len(shape_of(q)) - 1), _grown(change, shape_of(r))]


def _completion(first: Any, rest: Any, dq: Any, out_of: Any) -> Any:
    """The tangent of the columns by which LAPACK's reflectors complete those of `first`.

    A product of reflectors is determined by its first k columns Q1 = [Q11; Q21]: the others are E2 + (E1 - Q1) w with
    (1 - Q11)^H w = Q21^H. Where a reflector is missing (a column that needed none), Q jumps; the tangent is then that of
    columns which do not turn among themselves, right for all that depends on their span.
    """
    m, k = shape_of(first)[-2:]
    top, below = rows(first, 0, k), rows(first, k, m)
    reflected = one_minus_p(top)
    probe = isnan(linear_systems.inv(stop_gradient(reflected), strict=False))
    missing = reduce_any(probe, axes=last_two(probe))
    safe = select(per_matrix(missing, shape_of(top)), unit_lower(reflected), reflected)
    inverse = mH(linear_systems.inv(safe))
    w = mm(inverse, mH(below))
    dw = mm(inverse, add(mH(rows(dq, k, m)), mm(mH(rows(dq, 0, k)), w)))
    exact = sub(mm(one_minus_p(first), dw), mm(dq, w))
    return select(per_matrix(missing, shape_of(exact)), neg(mm(first, mH(out_of))), exact)


def _one_minus_impl(xp: Any, x: Any) -> Any:
    out = -x
    i = np.arange(min(x.shape[-2:])) if xp is np else xp.arange(min(x.shape[-2:]))
    out[..., i, i] += 1
    return out


one_minus_p = stacked("one_minus", _one_minus_impl, lambda x: x, lambda tangents, out, x: neg(tangents[0]))  # I - x


def _halved(x: Any) -> Any:
    return div(x, 2.0)


qr_p = stacked(
    "qr",
    lambda xp, a, *, full: list(xp.linalg.qr(a, "complete" if full else "reduced")),
    _qr_abstract,
    _qr_jvp,
    multiple=2,
)


def qr(a: Any, *, full: bool = False) -> list[Any]:
    """[q, r] with a = q @ r; with `full`, q is square."""
    return qr_p(a, full=full)


def _raw_jvp(tangents: Any, out: Any, a: Any) -> Any:
    raise MissingRuleError(
        'qr(mode="raw") has no derivative: its reflectors are LAPACK\'s way to store Q.\n'
        'Use mode="reduced" or mode="complete", or take funcad.stop_gradient of the matrix.'
    )


def _raw_abstract(a: Aval) -> list:
    *batch, m, n = a.shape
    return [Aval((*batch, n, m), a.dtype), Aval((*batch, min(m, n)), a.dtype)]


# [h, tau], LAPACK's reflectors (h transposed) and their factors.
qr_raw = stacked("qr_raw", lambda xp, a: list(xp.linalg.qr(a, "raw")), _raw_abstract, _raw_jvp, multiple=2)


# -- LU


@remembers(128, same=None)
def _lapack(name: str, dtype: np.dtype) -> Any:
    """LAPACK's function for a dtype: SciPy takes as long to look it up as it takes to factor a small matrix."""
    return lapack().get_lapack_funcs((name,), (np.empty(0, dtype),))[0]


def _lu_impl(xp: Any, a: Any) -> list:
    *batch, m, n = a.shape
    k = min(m, n)
    lu, pivots = xp.empty(a.shape, a.dtype), xp.empty((*batch, k), _INT32)
    permutation = xp.empty((*batch, m), _INT32)
    factor = _lapack("getrf", a.dtype) if xp is np else scipy_linalg(xp).lu_factor
    for i in np.ndindex(*batch):
        order = np.arange(m, dtype=_INT32)
        if k:
            lu[i], pivots[i] = factor(a[i])[:2]
            for row, other in enumerate(pivots[i].tolist()):
                order[row], order[other] = order[other], order[row]
        permutation[i] = order if xp is np else xp.asarray(order)
    return [lu, pivots, permutation]


def _lu_abstract(a: Aval) -> list:
    *batch, m, n = a.shape
    return [a, Aval((*batch, min(m, n)), _INT32), Aval((*batch, m), _INT32)]


def _lu_jvp(tangents: Any, out: Any, a: Any) -> list:
    (t,), (lu_, _, permutation) = tangents, out
    shape = shape_of(a)
    m, n = shape[-2:]
    k = min(m, n)
    order = broadcast_in_dim(permutation, shape=shape, axes=tuple(range(len(shape) - 1)))
    t = take_along(t, order, len(shape) - 2, unique=True)
    square = columns(rows(lu_, 0, k), 0, k)
    left = triangular_inverse(unit_lower(square))
    right = triangular_inverse(square, lower=False)
    below = triangle(columns(lu_, 0, k), diagonal=0.0)
    if m >= n:
        x = mm(t, right)
        upper = triangle(mm(left, rows(x, 0, k)), lower=False)
        lower = sub(x, add(mm(below, upper), _grown(upper, shape)))
        change = _grown(mm(upper, triangle(square, lower=False)), shape)
        return [add(triangle(lower, diagonal=0.0), change), None, None]
    x = mm(left, t)
    lower = triangle(mm(columns(x, 0, k), right), diagonal=0.0)
    change = triangle(sub(x, mm(lower, triangle(lu_, lower=False))), lower=False)
    return [add(_grown(add(lower, mm(below, lower)), shape), change), None, None]


def _unit_lower_impl(xp: Any, x: Any) -> Any:
    out = xp.tril(x, -1)
    i = np.arange(x.shape[-1]) if xp is np else xp.arange(x.shape[-1])
    out[..., i, i] = 1
    return out


unit_lower = stacked(  # what is below the diagonal, and ones on it
    "unit_lower", _unit_lower_impl, lambda x: x, lambda tangents, out, x: triangle(tangents[0], diagonal=0.0)
)

# [lu, pivots, permutation], int32 as LAPACK's: a[permutation] = tril(lu, -1) + I times triu(lu).
# Row i was exchanged with row pivots[i] >= i, in this order.
lu = stacked("lu", _lu_impl, _lu_abstract, _lu_jvp, multiple=3)


# -- solving with factors that are kept


def _factored_abstract(a: Aval, b: Aval, *rest: Aval, transposed: bool) -> Aval:
    return b


def _factored_impl(xp: Any, a: Any, b: Any, factors: Any, pivots: Any, *, transposed: bool) -> Any:
    if not b.size:
        return b
    out = xp.empty(b.shape, b.dtype)
    solve = _lapack("getrs", factors.dtype) if xp is np else scipy_linalg(xp).lu_solve
    for i in np.ndindex(a.shape[:-2]):
        if xp is not np:
            out[i] = solve((factors[i], pivots[i]), b[i], trans=int(transposed))
        elif (factors[i].diagonal() == 0).any():
            raise np.linalg.LinAlgError("Singular matrix")
        else:
            out[i] = solve(factors[i], pivots[i], b[i], trans=int(transposed))[0]
    return out


def _factored_jvp(tangents: Any, out: Any, a: Any, b: Any, factors: Any, pivots: Any, *, transposed: bool) -> Any:
    ta, tb = tangents[:2]
    if ta is None:
        change = tb
    else:
        moved = mm(mT(ta) if transposed else ta, out)
        change = neg(moved) if tb is None else sub(tb, moved)
    return factored_solve_p(a, change, factors, pivots, transposed=transposed)


def _factored_transpose(ct: Any, a: Any, b: Any, factors: Any, pivots: Any, *, transposed: bool) -> list:
    if is_linear(a):
        raise not_linear("solve")
    return [None, factored_solve_p(a, ct, factors, pivots, transposed=not transposed), None, None]


def _factored_batch(size: int, args: Any, batched: Any, *, transposed: bool) -> Any:
    """One matrix, many right hand sides: the batch becomes columns."""
    a, b, factors, pivots = args
    if batched[0] or batched[2] or batched[3] or len(shape_of(a)) != 2:
        return None
    _, n, k = shape_of(b)
    columns_ = reshape(transpose(b, perm=(1, 0, 2)), shape=(n, size * k))
    out = factored_solve_p(a, columns_, factors, pivots, transposed=transposed)
    return transpose(reshape(out, shape=(n, size, k)), perm=(1, 0, 2)), True


factored_solve_p = stacked(  # a's factors come from stop_gradient(a): they carry no tangents, `a` does
    "factored_solve",
    _factored_impl,
    _factored_abstract,
    _factored_jvp,
    transpose=_factored_transpose,
    batch=_factored_batch,
)


def solve(a: Any, b: Any) -> Any:
    """As `linear_systems.solve`, with one factorization for the value and all derivatives: for large matrices that are few."""
    dtype = dtype_of(a)
    double = np.promote_types(dtype, np.float64)  # as NumPy, which solves in double precision
    wide = convert(a, double)
    factors, pivots, _ = lu(stop_gradient(wide))
    return convert(factored_solve_p(wide, convert(b, double), factors, pivots, transposed=False), dtype)


# -- pseudo-inverse and least squares


def _pinv_impl(xp: Any, a: Any, rcond: Any, *, hermitian: bool, truncates: bool) -> Any:
    if not a.size:
        return xp.empty((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian and xp is np:
        return np.linalg.pinv(a, rcond, hermitian=True)
    return of_finite(xp, lambda a: xp.linalg.pinv(a, rcond), a, strict=True)[0]


def _stein_impl(xp: Any, f: Any, g: Any, r: Any) -> Any:
    sizes = [float(abs(x).max()) * x.shape[-1] if r.size else 0.0 for x in (f, g)]
    if sizes[0] * sizes[1] <= np.finfo(r.dtype).eps:
        return r.copy()  # nothing is cut but zeros
    (w, u), (z, v) = [of_finite(xp, xp.linalg.eigh, x) for x in (f, g)]
    uh, vh = [xp.swapaxes(x.conj(), -1, -2) for x in (u, v)]
    return u @ (uh @ r @ v / (1 - w[..., :, None] * z[..., None, :])) @ vh


def _stein_jvp(tangents: Any, out: Any, f: Any, g: Any, r: Any) -> Any:
    tf, tg, tr = tangents
    by_f = None if tf is None else mm(mm(tf, out), g)
    by_g = None if tg is None else mm(mm(f, out), tg)
    return stein(f, g, sum_tangents([tr, by_f, by_g], add))


def _stein_transpose(ct: Any, f: Any, g: Any, r: Any) -> list:
    if is_linear(f) or is_linear(g):
        raise not_linear("stein")
    return [None, None, stein(conj(f), conj(g), ct)]


# x = r + f x g of Hermitian f and g. With f of the kept singular values s (1 / s**2) and g of the cut ones c (c**2) that
# divides what belongs to a pair of singular vectors by 1 - (c / s)**2; singular values may be equal but for these pairs.
stein = stacked("stein", _stein_impl, lambda f, g, r: r, _stein_jvp, transpose=_stein_transpose)


def _pinv_jvp(tangents: Any, out: Any, a: Any, rcond: Any, *, hermitian: bool, truncates: bool) -> Any:
    t, p = tangents[0], out
    if t is None:
        return None
    t = hermitian_part(t) if hermitian else t
    adjoint = mH(t)
    kept = mm(p, mH(p))
    first = mm(kept, adjoint)  # of the residual a p - 1
    second = mm(mm(adjoint, mH(p)), p)  # of the residual p a - 1
    first = sub(first, mm(mm(first, a), p))
    second = sub(second, mm(p, mm(a, second)))
    if truncates:
        left = mH(sub(a, mm(mm(a, p), a)))  # what was cut
        first = stein(kept, mm(mH(left), left), add(first, mm(mm(p, mH(second)), left)))
        second = add(second, mm(mm(left, mH(first)), p))
    return add(sub(first, mm(p, mm(t, p))), second)


pinv_p = stacked(
    "pinv",
    _pinv_impl,
    lambda a, rcond, **params: Aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),
    _pinv_jvp,
)


def _truncates(a: Any, rcond: Any) -> bool:
    """Whether rcond may cut more than what is zero to rounding."""
    known = concrete_value(rcond)
    rounding = max(shape_of(a)[-2:]) * float(finfo(dtype_of(a)).eps)
    return type(known) is Tracer or bool((known > 4 * rounding).any())


def pinv(a: Any, rcond: Any, *, hermitian: bool = False) -> Any:
    """The pseudo-inverse, leaving out singular values up to rcond (one per matrix) times the largest; constant rank assumed."""
    return pinv_p(a, rcond, hermitian=hermitian, truncates=_truncates(a, rcond))


def _lstsq_impl(xp: Any, a: Any, b: Any, *, rcond: float) -> Any:
    out = xp.empty((*a.shape[:-2], a.shape[-1], b.shape[-1]), a.dtype)
    for i in np.ndindex(a.shape[:-2]):
        if not bool(xp.isfinite(a[i]).all()):  # LAPACK fails, or never ends
            raise np.linalg.LinAlgError("SVD did not converge in Linear Least Squares")
        out[i] = xp.linalg.lstsq(a[i], b[i], rcond)[0]
    return out


def _lstsq_jvp(tangents: Any, out: Any, a: Any, b: Any, *, rcond: float) -> Any:
    ta, tb = tangents
    shape = shape_of(a)
    least = REAL(dtype_of(a)).type(rcond)
    cut = broadcast_in_dim(least, shape=shape[:-2], axes=())
    params = {"hermitian": False, "truncates": _truncates(a, least)}
    p = pinv_p(a, cut, **params)
    if ta is None:
        return mm(p, tb)
    if params["truncates"]:
        change = mm(_pinv_jvp([ta], p, a, cut, **params), b)
        return change if tb is None else add(change, mm(p, tb))
    change = neg(mm(ta, out)) if tb is None else sub(tb, mm(ta, out))
    total = mm(p, change)
    adjoint, residual = mH(ta), sub(b, mm(a, out))
    total = add(total, mm(p, mm(mH(p), mm(adjoint, residual))))
    outside = mm(adjoint, mm(mH(p), out))
    return add(total, sub(outside, mm(p, mm(a, outside))))


# The x of least norm among those of least norm(a @ x - b); b of shape (..., m, k).
lstsq = stacked(
    "lstsq",
    _lstsq_impl,
    lambda a, b, *, rcond: Aval((*a.shape[:-2], a.shape[-1], b.shape[-1]), a.dtype),
    _lstsq_jvp,
)


# -- the polar factor and the nuclear norm


def _polar_impl(xp: Any, a: Any) -> Any:
    if not a.size:
        return a
    u, s, vh = of_finite(xp, lambda a: xp.linalg.svd(a, full_matrices=False), a)
    return (u * (s > 0).astype(a.dtype)[..., None, :]) @ vh


def _over(x: Any, sums: Any) -> Any:
    """x / sums, NaN where the sum is 0: there the factor jumps."""
    sums = convert(sums, dtype_of(x))
    empty = eq(sums, 0.0)
    return mul(x, select(empty, float("nan"), div(1.0, select(empty, 1.0, sums))))


def _polar_jvp(tangents: Any, out: Any, a: Any) -> Any:
    (t,) = tangents
    u, s, vh = svd(a)
    v = mH(vh)
    by_v, by_u = mm(t, v), mm(mH(u), t)
    m = mm(mH(u), by_v)
    shape = shape_of(m)
    total = mm(u, _over(sub(m, mH(m)), add(in_rows(s, shape), in_columns(s, shape))))
    if shape_of(u)[-2] > shape[-1]:
        outside = sub(by_v, mm(u, m))
        total = add(total, _over(outside, in_rows(s, shape_of(outside))))
    total = mm(total, vh)
    if shape_of(v)[-2] > shape[-1]:
        outside = sub(by_u, mm(m, vh))
        total = add(total, mm(u, _over(outside, in_columns(s, shape_of(outside)))))
    return total


# The (partial) isometry u @ vh of a = u diag(s) vh, over the singular values that are not 0.
polar = stacked("polar", _polar_impl, lambda a: a, _polar_jvp)
nuclear_norm_p = stacked(
    "nuclear_norm",
    lambda xp, a, *, strict: singular_values(xp, a, strict=strict).sum(-1),
    lambda a, *, strict: Aval(a.shape[:-2], REAL(a.dtype)),
    lambda tangents, out, a, *, strict: real(inner_product(conj(polar(a)), tangents[0])),
)


def nuclear_norm(a: Any, *, strict: bool = True) -> Any:
    """The sum of the singular values; of a matrix with NaN LinAlgError, or NaN if not strict."""
    return nuclear_norm_p(a, strict=strict)

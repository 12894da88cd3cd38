"""Eigenvalues and eigenvectors, singular values and singular vectors, and the Schur form.

Values, first derivatives and what is unaffected by degeneracy (`eigh`'s and `svd`'s values, and vectors whose value is
simple) are right everywhere. Vectors that belong to an exactly degenerate pair have no derivative: it is NaN for those
who use them, and nothing for those who do not (see below). `eigh` reads one triangle, as NumPy does, and
differentiates in the direction of the Hermitian part of the tangent, as JAX. Gauges: `eigh` and `svd` leave the phase of
a vector where it is (of a pair of singular vectors, that of the right one); the vectors by which full matrices complete
a basis do not turn among themselves; `eig` has norm 1 and a real largest component, as LAPACK's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.primitives.arithmetic import abs_, add, div, mul, neg, sub
from funcad.primitives.basic_indexing import take_along
from funcad.primitives.comparison import eq, isnan, select
from funcad.primitives.conversion import complex_dtype, conj, convert, imag, make_complex, real
from funcad.primitives.families import REAL, elementwise, sum_tangents
from funcad.primitives.reduction import argmax, reduce_sum
from funcad.primitives.shape import broadcast_to, concatenate, multilinear, reshape, slice_p

from funcad.primitives.linear_systems import (  # isort: skip
    hermitian_part, in_columns, in_rows, inv, linalg_of, mH, missing_on_device, mm, mT, of_finite, square_aval, stacked,
    triangle,
)

# -- products and quotients of which derivatives of eigenvalues and singular values are made
#
# Eigenvectors of an exactly degenerate pair have no derivative: `gap_quotient` makes it NaN. But NaN must not reach those who
# did not ask for these vectors, so everything here is *careful*: a factor that is exactly 0 (a cotangent of what was not used)
# selects 0, whatever the other factor is. `outer_sum(u, c, v)` is the sum of c[k] * u[:, k] v[:, k]^T and `inner_diagonal(u, t,
# v)` the numbers u[:, k]^T t v[:, k]; each is the other's transpose. Nothing conjugates.


def _careful_mul_impl(xp: Any, x: Any, y: Any) -> Any:
    product = x * y
    dead = (x == 0) | (y == 0)
    if xp is np and not dead.any():
        return product
    out = xp.where(dead, product.dtype.type(0), product)
    return out[()] if xp is np and not out.ndim else out


careful_mul = elementwise(  # x * y, 0 where a factor is 0
    "careful_mul",
    _careful_mul_impl,
    [lambda t, out, x, y: careful_mul(t, y), lambda t, out, x, y: careful_mul(x, t)],
    transpose=lambda ct, x, y: [
        careful_mul(ct, y) if is_linear(x) else None,
        careful_mul(x, ct) if is_linear(y) else None,
    ],
)


def scale_columns(x: Any, c: Any) -> Any:
    """x[:, k] * c[k]; columns with c[k] = 0 are 0, whatever is in them."""
    return careful_mul(x, in_rows(c, shape_of(x)))


# -- the sum of c[k] * u[:, k] v[:, k]^T, and its transpose


def _outer_sum_impl(xp: Any, u: Any, c: Any, v: Any) -> Any:
    c = c[..., None, :]
    dead = c == 0
    if xp is not np or dead.any():
        u, v = xp.where(dead, u.dtype.type(0), u), xp.where(dead, v.dtype.type(0), v)
    return (u * c) @ xp.swapaxes(v, -1, -2)


def _outer_sum_transpose(ct: Any, u: Any, c: Any, v: Any) -> list:
    return [
        scale_columns(mm(ct, v), c) if is_linear(u) else None,
        inner_diagonal(u, ct, v) if is_linear(c) else None,
        scale_columns(mm(mT(ct), u), c) if is_linear(v) else None,
    ]


outer_sum = stacked(
    "outer_sum",
    _outer_sum_impl,
    lambda u, c, v: Aval((*u.shape[:-1], v.shape[-2]), u.dtype),
    multilinear(lambda: outer_sum),
    transpose=_outer_sum_transpose,
)


def _inner_diagonal_transpose(ct: Any, u: Any, t: Any, v: Any) -> list:
    return [
        scale_columns(mm(t, v), ct) if is_linear(u) else None,
        outer_sum(u, ct, v) if is_linear(t) else None,
        scale_columns(mm(mT(t), u), ct) if is_linear(v) else None,
    ]


inner_diagonal = stacked(
    "inner_diagonal",
    lambda xp, u, t, v: (u * (t @ v)).sum(-2),
    lambda u, t, v: Aval((*u.shape[:-2], u.shape[-1]), u.dtype),
    multilinear(lambda: inner_diagonal),
    transpose=_inner_diagonal_transpose,
)


# -- quotients by gaps


def _gap_impl(xp: Any, m: Any, gap: Any, *, strict: bool, diagonal: bool) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        out = m / gap
    closed = gap == 0
    if xp is not np or closed.any():
        nan, zero = m.dtype.type(np.nan), m.dtype.type(0)
        out = xp.where(closed, nan if strict else xp.where((m != 0).any(-2, keepdims=True), nan, zero), out)
    if not diagonal:
        i = np.arange(m.shape[-1]) if xp is np else xp.arange(m.shape[-1])
        out[..., i, i] = 0
    return out


def _gap_jvp(tangents: Any, out: Any, m: Any, gap: Any, **params: Any) -> Any:
    tm, tg = tangents
    terms = [
        None if tm is None else gap_p(tm, gap, **params),
        None if tg is None else neg(gap_p(careful_mul(out, tg), gap, **params)),
    ]
    return sum_tangents(terms, add)


def _gap_transpose(ct: Any, m: Any, gap: Any, *, strict: bool, diagonal: bool) -> list:
    if is_linear(gap):
        raise not_linear("gap_quotient")
    return [gap_p(ct, gap, strict=False, diagonal=diagonal), None]


gap_p = stacked(
    "gap_quotient",
    _gap_impl,
    lambda m, gap, *, strict, diagonal: m,
    _gap_jvp,
    transpose=_gap_transpose,
)


def gap_quotient(m: Any, gap: Any, *, diagonal: bool = False) -> Any:
    """m / gap, NaN where the gap is 0; unless `diagonal`, 0 on the diagonal.

    The transpose has 0 where the gap is 0 and the whole column that it divides is: nobody used that vector.
    """
    return gap_p(m, convert(gap, dtype_of(m)), strict=True, diagonal=diagonal)


# -- eigenvalues and eigenvectors, singular values and singular vectors


def differences(w: Any, shape: tuple) -> Any:
    """w[j] - w[i] at [i, j]."""
    return sub(in_rows(w, shape), in_columns(w, shape))


# -- Hermitian matrices


def _eigh_impl(xp: Any, a: Any, *, lower: bool, by: tuple) -> list:
    if not by or xp is not np or not a.size or not np.isfinite(a).all():
        return list(xp.linalg.eigh(a, "L" if lower else "U"))
    w, v = np.empty(a.shape[:-1], REAL(a.dtype)), np.empty(a.shape, a.dtype)
    for place in np.ndindex(a.shape[:-2]):
        w[place], v[place] = _eigh_of_scipy(a[place], lower, *by)
    return [w, v]


def _eigh_of_scipy(a: np.ndarray, lower: bool, name: str, detail: Any, part: tuple[int, int] | None) -> Any:
    """Eigenvalues and eigenvectors by SciPy's function of that name; those of a part by themselves, as it finds them."""
    theirs = linalg_of(np, name)
    chosen = {} if part is None else {"select": "i", "select_range": part}
    if name == "eigh":
        arguments, options, chosen = (a,), {"lower": lower, "driver": detail}, {} if part is None else {"subset_by_index": part}
    elif name == "eig_banded":
        band = np.zeros((detail + 1, len(a)), a.dtype)
        for k in range(detail + 1):
            band[k, : len(a) - k] = np.diagonal(a, -k)
        arguments, options = (band,), {"lower": True}
    else:
        arguments, options = (np.diagonal(a).real.copy(), np.diagonal(a, -1).real.copy()), {}
    w, v = theirs(*arguments, **options)
    if part is not None:
        inside = slice(part[0], part[1] + 1)
        w[inside], v[:, inside] = theirs(*arguments, **options, **chosen)
    return w, v


def _eigh_abstract(a: Aval, *, lower: bool, by: tuple = ()) -> list:
    square_aval("eigh", a)
    return [Aval(a.shape[:-1], REAL(a.dtype)), a]


def _eigh_jvp(tangents: Any, out: Any, a: Any, *, lower: bool, by: tuple) -> list:
    w, v = out
    t = hermitian_part(tangents[0])
    change = real(inner_diagonal(conj(v), t, v))
    turned = gap_quotient(mm(mH(v), mm(t, v)), differences(w, shape_of(a)))
    return [change, mm(v, turned)]


eigh_p = stacked(
    "eigh",
    _eigh_impl,
    _eigh_abstract,
    _eigh_jvp,
    multiple=2,
)


def eigh(a: Any, *, lower: bool = True, by: tuple = ()) -> list[Any]:
    """[eigenvalues in ascending order, eigenvectors as columns] of Hermitian matrices, of which one triangle is read.

    `by`: the function of SciPy's whose choice of signs it is ("eigh", "eig_banded", "eigh_tridiagonal"), its driver or the
    width of its band, and the first and the last index of a part that it finds by itself; NumPy's if that is empty.
    """
    return eigh_p(a, lower=lower, by=by)


def _eigvalsh_jvp(tangents: Any, out: Any, a: Any, *, lower: bool) -> Any:
    v = eigh(a, lower=lower)[1]
    return real(inner_diagonal(conj(v), hermitian_part(tangents[0]), v))


eigvalsh_p = stacked(
    "eigvalsh",
    lambda xp, a, *, lower: xp.linalg.eigvalsh(a, "L" if lower else "U"),
    lambda a, *, lower: _eigh_abstract(a, lower=lower)[0],
    _eigvalsh_jvp,
)


def eigvalsh(a: Any, *, lower: bool = True) -> Any:
    """The eigenvalues alone: several times quicker where no derivative is taken."""
    return eigvalsh_p(a, lower=lower)


# -- general matrices


def _eig_impl(xp: Any, a: Any) -> list:
    function = getattr(xp.linalg, "eig", None)
    if function is None:
        raise missing_on_device("eig")
    w, v = function(a)
    dtype = complex_dtype(a.dtype)
    return [w.astype(dtype), v.astype(dtype)]


def _eig_abstract(a: Aval) -> list:
    square_aval("eig", a)
    dtype = complex_dtype(a.dtype)
    return [Aval(a.shape[:-1], dtype), Aval(a.shape, dtype)]


def _eig_jvp(tangents: Any, out: Any, a: Any) -> list:
    w, v = out
    inverse, t = inv(v, strict=False), convert(tangents[0], dtype_of(v))
    change = inner_diagonal(mT(inverse), t, v)
    turned = mm(v, gap_quotient(mm(inverse, mm(t, v)), differences(w, shape_of(a))))
    return [change, sub(turned, scale_columns(v, _change_of_scale(v, turned)))]


def _change_of_scale(v: Any, t: Any) -> Any:
    """How the columns v + t leave norm 1 and a real largest component: the factors to be taken out, to first order."""
    shape = shape_of(v)
    rows = len(shape) - 2
    growth = reduce_sum(real(mul(conj(v), t)), axes=(rows,))
    if not shape[-1]:
        return make_complex(growth, 0.0)
    largest = argmax(select(eq(imag(v), 0.0), abs_(v), -1.0), axis=rows)
    largest = reshape(largest, shape=(*shape[:-2], 1, shape[-1]))
    v, t = [reshape(take_along(x, largest, rows), shape=(*shape[:-2], shape[-1])) for x in (v, t)]
    return make_complex(growth, imag(div(t, v)))


# [eigenvalues, eigenvectors as columns], complex.
eig = stacked("eig", _eig_impl, _eig_abstract, _eig_jvp, multiple=2)


# -- singular values


def _svd_impl(xp: Any, a: Any, *, full_matrices: bool) -> list:
    return of_finite(xp, lambda a: xp.linalg.svd(a, full_matrices=full_matrices), a, strict=True)


def _svd_abstract(a: Aval, *, full_matrices: bool) -> list:
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"svd: {a.ndim}-dimensional array given. Array must be at least two-dimensional")
    *batch, m, n = a.shape
    k = min(m, n)
    p, q = (m, n) if full_matrices else (k, k)
    return [Aval((*batch, m, p), a.dtype), Aval((*batch, k), REAL(a.dtype)), Aval((*batch, q, n), a.dtype)]


def columns(x: Any, start: int, stop: int) -> Any:
    shape = shape_of(x)
    if (start, stop) == (0, shape[-1]):
        return x
    low, high = (0,) * (len(shape) - 1), shape[:-1]
    return slice_p(x, start=(*low, start), limit=(*high, stop), strides=None)


def _side(u: Any, k: int, turn: Any, moved: Any, s: Any) -> Any:
    """The tangent of the singular vectors u, of which the first k belong to singular values.

    These turn among themselves by `turn`, and out of their span towards `moved` / s; vectors beyond them turn against that.
    """
    first = columns(u, 0, k)
    total = mm(first, turn)
    m, p = shape_of(u)[-2:]
    if m == k:
        return total
    if p > k:
        rest = columns(u, k, p)
        out = mm(mH(rest), moved)
        out = gap_quotient(out, in_rows(s, shape_of(out)), diagonal=True)
        return concatenate([add(total, mm(rest, out)), neg(mm(first, mH(out)))], axis=len(shape_of(u)) - 1)
    outside = sub(moved, mm(first, mm(mH(first), moved)))
    return add(total, gap_quotient(outside, in_rows(s, shape_of(outside)), diagonal=True))


def _svd_jvp(tangents: Any, out: Any, a: Any, *, full_matrices: bool) -> list:
    (t,), (u, s, vh) = tangents, out
    k = shape_of(s)[-1]
    v = mH(vh)
    first_u, first_v = columns(u, 0, k), columns(v, 0, k)
    change = real(inner_diagonal(conj(first_u), t, first_v))
    by_u, by_v = mm(t, first_v), mm(mH(t), first_u)
    m = mm(mH(first_u), by_u)
    shape = shape_of(m)
    s_ = convert(s, dtype_of(a))
    gaps = mul(differences(s, shape), add(in_rows(s, shape), in_columns(s, shape)))
    in_u, in_v = mul(m, in_rows(s_, shape)), mul(in_columns(s_, shape), m)
    turn_u, turn_v = [gap_quotient(add(x, mH(x)), gaps) for x in (in_u, in_v)]
    if dtype_of(a).kind == "c":  # the phase, all of it to u
        phase = triangle(triangle(mul(0.5, sub(m, mH(m)))), lower=False)
        turn_u = add(turn_u, gap_quotient(phase, in_rows(s, shape), diagonal=True))
    return [_side(u, k, turn_u, by_u, s_), change, mH(_side(v, k, turn_v, by_v, s_))]


svd_p: Primitive = stacked("svd", _svd_impl, _svd_abstract, _svd_jvp, multiple=3)


def svd(a: Any, *, full_matrices: bool = False) -> list[Any]:
    """[u, s, vh] with a = u @ diag(s) @ vh, singular values in descending order."""
    return svd_p(a, full_matrices=full_matrices)


def _svdvals_jvp(tangents: Any, out: Any, a: Any, *, strict: bool) -> Any:
    u, _, vh = svd(a if strict else select(isnan(a), 0.0, a))
    change = real(inner_diagonal(conj(u), tangents[0], mH(vh)))
    return change if strict else mul(add(mul(0.0, out), 1.0), change)  # NaN of a matrix that has it


def singular_values(xp: Any, a: Any, *, strict: bool) -> Any:
    values = lambda a: xp.linalg.svd(a, compute_uv=False)
    return of_finite(xp, values, a, strict=strict)[0]


svdvals_p = stacked(
    "svdvals",
    singular_values,
    lambda a, *, strict: _svd_abstract(a, full_matrices=False)[1],
    _svdvals_jvp,
)


def svdvals(a: Any, *, strict: bool = True) -> Any:
    """The singular values alone, in descending order; of a matrix with NaN LinAlgError, or NaN if not strict.

    Several times quicker than `svd` where no derivative is taken.
    """
    return svdvals_p(a, strict=strict)


# -- the Schur form a = z t z^H, t upper triangular
#
# With m = z^H da z and dz = z w, the antihermitian w is what keeps t triangular: the part of m + t w - w t below the diagonal
# is zero, an equation for the part of w below the diagonal in which entry (i, j) depends on those further from the diagonal
# only; it is solved in n - 1 steps by products of matrices, so every order of derivative exists. Gauge: the columns of z do not
# turn their phase (the diagonal of w is 0). Eigenvalues that coincide give NaN. Trap: the real form of a matrix with complex
# eigenvalues is not triangular; `triangular_only` raises there, when a derivative is taken.


def _schur_impl(xp: Any, a: Any) -> list[Any]:
    form = linalg_of(xp, "schur")
    t, z = np.full(a.shape, np.nan, a.dtype), np.full(a.shape, np.nan, a.dtype)
    for index in np.ndindex(*a.shape[:-2]):
        if a.shape[-1] and np.isfinite(a[index]).all():
            t[index], z[index] = form(a[index], output="complex" if a.dtype.kind == "c" else "real")
    return [t, z]


def _check_triangular(xp: Any, t: Any) -> Any:
    if t.dtype.kind == "f" and bool((xp.diagonal(t, -1, -2, -1) != 0).any()):
        raise NotImplementedError(
            "schur: the real Schur form of this matrix has 2 x 2 blocks (complex eigenvalues); its derivative is unknown.\n"
            "Remedy: schur(a, output='complex'), or schur(a.astype(complex))."
        )
    return t.copy()


triangular_only_p = stacked(  # t itself, if it is triangular
    "triangular_only", _check_triangular, lambda t: t, lambda tangents, out, t: tangents[0]
)


def _diagonal(t: Any) -> Any:
    """The diagonals of matrices, as vectors."""
    shape = shape_of(t)
    mask = broadcast_to(np.eye(shape[-1], dtype=bool), shape)
    return reduce_sum(select(mask, t, t.dtype.type(0)), axes=(len(shape) - 2,))


def _schur_jvp(tangents: Sequence[Any], out: Sequence[Any], a: Any) -> list[Any]:
    (da,), (t, z) = tangents, out
    t = triangular_only_p(t)
    shape = shape_of(t)
    m = mm(mH(z), mm(da, z))
    gaps = differences(_diagonal(t), shape)
    above = triangle(t, lower=False, diagonal=0.0)

    def next_w(rest: Any) -> Any:
        return gap_quotient(triangle(rest, diagonal=0.0), gaps)

    w = next_w(m)
    for _ in range(shape[-1] - 2):
        w = next_w(add(m, sub(mm(above, w), mm(w, above))))
    w = sub(w, mH(w))
    dt = add(m, sub(mm(t, w), mm(w, t)))
    return [triangle(dt, lower=False), mm(z, w)]


def _schur_abstract(a: Aval) -> list[Aval]:
    square_aval("schur", a)
    return [a, a]


# [t, z] with a = z t z^H; real matrices give the real form, quasi-triangular if eigenvalues are complex.
schur = stacked("schur", _schur_impl, _schur_abstract, _schur_jvp, multiple=2)

"""Eigenvalues and eigenvectors, singular values and singular vectors.

Values, first derivatives and what is unaffected by degeneracy (`eigh`'s and `svd`'s values, and vectors whose value is
simple) are right everywhere. Vectors that belong to an exactly degenerate pair have no derivative: it is NaN for those
who use them, and nothing for those who do not (see spectral.py). `eigh` reads one triangle, as NumPy does, and
differentiates in the direction of the Hermitian part of the tangent, as JAX. Gauges: `eigh` and `svd` leave the phase of
a vector where it is (of a pair of singular vectors, that of the right one); the vectors by which full matrices complete
a basis do not turn among themselves; `eig` has norm 1 and a real largest component, as LAPACK's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import abs_, add, div, mul, neg, sub
from funcad.primitives.basic_indexing import take_along
from funcad.primitives.comparison import eq, select
from funcad.primitives.conversion import complex_dtype, conj, convert, imag, make_complex, real
from funcad.primitives.families import REAL
from funcad.primitives.linear_systems import (
    hermitian_part,
    in_columns,
    in_rows,
    inv,
    mH,
    missing_on_device,
    mm,
    mT,
    of_finite,
    square_aval,
    stacked,
    triangle,
)
from funcad.primitives.reduction import argmax, reduce_sum
from funcad.primitives.shape import concatenate, reshape, slice_p
from funcad.primitives.spectral import gap_quotient, inner_diagonal, scale_columns


def differences(w: Any, shape: tuple) -> Any:
    """w[j] - w[i] at [i, j]."""
    return sub(in_rows(w, shape), in_columns(w, shape))


# -- Hermitian matrices


def _eigh_abstract(a: Aval, *, lower: bool) -> list:
    square_aval("eigh", a)
    return [Aval(a.shape[:-1], REAL(a.dtype)), a]


def _eigh_jvp(tangents: Any, out: Any, a: Any, *, lower: bool) -> list:
    w, v = out
    t = hermitian_part(tangents[0])
    change = real(inner_diagonal(conj(v), t, v))
    turned = gap_quotient(mm(mH(v), mm(t, v)), differences(w, shape_of(a)))
    return [change, mm(v, turned)]


eigh_p = stacked(
    "eigh",
    lambda xp, a, *, lower: list(xp.linalg.eigh(a, "L" if lower else "U")),
    _eigh_abstract,
    _eigh_jvp,
    multiple=2,
)


def eigh(a: Any, *, lower: bool = True) -> list[Any]:
    """[eigenvalues in ascending order, eigenvectors as columns] of Hermitian matrices, of which one triangle is read."""
    return eigh_p(a, lower=lower)


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
    return of_finite(xp, lambda a: xp.linalg.svd(a, full_matrices=full_matrices), a)


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


def _svdvals_jvp(tangents: Any, out: Any, a: Any) -> Any:
    u, _, vh = svd(a)
    return real(inner_diagonal(conj(u), tangents[0], mH(vh)))


# The singular values alone, in descending order: several times quicker where no derivative is taken.
svdvals = stacked(
    "svdvals",
    lambda xp, a: of_finite(xp, lambda a: xp.linalg.svd(a, compute_uv=False), a)[0],
    lambda a: _svd_abstract(a, full_matrices=False)[1],
    _svdvals_jvp,
)

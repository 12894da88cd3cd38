"""Products and quotients of which derivatives of eigenvalues and singular values are made.

Eigenvectors of an exactly degenerate pair have no derivative: `gap_quotient` makes it NaN. But NaN must not reach those
who did not ask for these vectors, so everything here is *careful*: a factor that is exactly 0 (a cotangent of what was
not used) selects 0, whatever the other factor is. `outer_sum(u, c, v)` is the sum of c[k] * u[:, k] v[:, k]^T and
`inner_diagonal(u, t, v)` the numbers u[:, k]^T t v[:, k]; each is the other's transpose. Nothing conjugates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import is_linear, not_linear
from funcad.primitives.arithmetic import add, neg
from funcad.primitives.conversion import convert
from funcad.primitives.families import elementwise, sum_tangents
from funcad.primitives.linear_systems import in_rows, mm, mT, stacked


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


def _outer_sum_jvp(tangents: Any, out: Any, u: Any, c: Any, v: Any) -> Any:
    tu, tc, tv = tangents
    terms = [
        None if tu is None else outer_sum(tu, c, v),
        None if tc is None else outer_sum(u, tc, v),
        None if tv is None else outer_sum(u, c, tv),
    ]
    return sum_tangents(terms, add)


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
    _outer_sum_jvp,
    transpose=_outer_sum_transpose,
)


def _inner_diagonal_jvp(tangents: Any, out: Any, u: Any, t: Any, v: Any) -> Any:
    tu, tt, tv = tangents
    terms = [
        None if tu is None else inner_diagonal(tu, t, v),
        None if tt is None else inner_diagonal(u, tt, v),
        None if tv is None else inner_diagonal(u, t, tv),
    ]
    return sum_tangents(terms, add)


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
    _inner_diagonal_jvp,
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

"""Cumulative sums, products, maxima, minima and logsumexps along one axis, forwards or in reverse.

Idea: all their derivatives are one linear recurrence, `h[k] = a[k] * h[k-1] + b[k]`, which is a primitive that is closed under
differentiation and transposition (the transpose is the recurrence in the other direction, with the coefficients moved by one).
So every order is exact, also at zero factors of a product. It divides by nothing. Ties of cummax and cummin share the tangent
equally, as `max` does: the last element's derivative is that of the reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.primitives import families
from funcad.primitives.arithmetic import add, mul, sub
from funcad.primitives.comparison import isfinite, select
from funcad.primitives.families import structural
from funcad.primitives.transcendental import exp

_FEW_LANES = 4  # so few independent recurrences are quicker in Python floats than as NumPy calls on tiny rows


def along(ndim: int, axis: int, entry: Any) -> tuple:
    """An index that is `entry` along one axis and everything along the others."""
    return (slice(None),) * axis + (entry,) + (slice(None),) * (ndim - axis - 1)


def _flipped(x: Any, axis: int, reverse: bool) -> Any:
    return x[along(x.ndim, axis, slice(None, None, -1))] if reverse else x


def _aligned(size: int, args: Any, batched: Any) -> list:
    return families.align_batched(size, args, batched)


def keep(t: Any, mask: Any) -> Any:
    """t where mask holds, zero elsewhere: selected, because a mask's zero times an infinite tangent would be NaN."""
    return select(mask, t, 0.0)


# -- moving by one


def _shift_impl(xp: Any, x: Any, *, axis: int, reverse: bool, fill: int) -> Any:
    out = xp.empty(x.shape, x.dtype)
    n = x.shape[axis]
    source, target, edge = (slice(1, None), slice(0, n - 1), slice(n - 1, None))
    if not reverse:
        source, target, edge = target, source, slice(0, 1)
    if n:
        out[along(x.ndim, axis, target)] = x[along(x.ndim, axis, source)]
        out[along(x.ndim, axis, edge)] = fill
    return out


shift_p = Primitive(
    "shift",
    _shift_impl,
    lambda x, *, axis, reverse, fill: Aval(x.shape, x.dtype),
    jvp=lambda tangents, out, x, *, axis, reverse, fill: shift(tangents[0], axis, reverse=reverse),
    transpose=lambda ct, x, *, axis, reverse, fill: [shift(ct, axis, reverse=not reverse)],
    batch=lambda size, args, batched, *, axis, reverse, fill: (
        shift_p(args[0], axis=axis + 1, reverse=reverse, fill=fill),
        True,
    ),
    reach="picks",
)


def shift(x: Any, axis: int, *, reverse: bool = False, fill: int = 0) -> Any:
    """x moved by one along an axis: out[k] = x[k-1] (x[k+1] in reverse), and `fill` at the free end."""
    return shift_p(x, axis=axis, reverse=reverse, fill=fill)


# -- the linear recurrence


def _recurrence_impl(xp: Any, b: Any, a: Any, *, axis: int, reverse: bool) -> Any:
    out = xp.empty(b.shape, b.dtype)
    result, b, a = [_flipped(xp.moveaxis(x, axis, 0), 0, reverse) for x in (out, b, a)]
    n = b.shape[0]
    if xp is not np:
        result[...] = _doubling(xp, b, a)
    elif b.size <= _FEW_LANES * n and b.dtype.kind == "f" and b.dtype.itemsize <= 8:
        _few_lanes(result, b, a)
    elif b.size:
        result[0] = b[0]
        for k in range(1, n):
            result[k] = a[k] * result[k - 1] + b[k]
    return out


def _few_lanes(result: Any, b: Any, a: Any) -> None:
    for lane in np.ndindex(b.shape[1:]):
        where = (slice(None), *lane)
        factors, column = a[where].tolist(), b[where].tolist()
        for k in range(1, len(column)):
            column[k] += factors[k] * column[k - 1]
        result[where] = column


def _doubling(xp: Any, b: Any, a: Any) -> Any:
    """The recurrence in log2(n) sweeps over whole arrays, for devices."""
    b, a, d = b.copy(), a.copy(), 1
    while d < b.shape[0]:
        b[d:] = a[d:] * b[:-d] + b[d:]
        a[d:] = a[d:] * a[:-d]
        d *= 2
    return b


def _recurrence_jvp(tangents: Any, out: Any, b: Any, a: Any, *, axis: int, reverse: bool) -> Any:
    tb, ta = tangents
    if ta is not None:
        change = mul(ta, shift(out, axis, reverse=reverse))
        tb = change if tb is None else add(tb, change)
    return linear_recurrence(tb, a, axis, reverse)


def _recurrence_transpose(ct: Any, b: Any, a: Any, *, axis: int, reverse: bool) -> list:
    return [linear_recurrence(ct, shift(a, axis, reverse=not reverse), axis, not reverse), None]


def _recurrence_abstract(b: Aval, a: Aval, *, axis: int, reverse: bool) -> Aval:
    if b.shape != a.shape or b.dtype != a.dtype:
        raise TypeError(f"linear_recurrence: operands must have equal shapes and dtypes, got {b}, {a}")
    return Aval(b.shape, b.dtype)


linear_recurrence_p = Primitive(
    "linear_recurrence",
    _recurrence_impl,
    _recurrence_abstract,
    jvp=_recurrence_jvp,
    transpose=_recurrence_transpose,
    batch=lambda size, args, batched, *, axis, reverse: (
        linear_recurrence(*_aligned(size, args, batched), axis + 1, reverse),
        True,
    ),
)


def linear_recurrence(b: Any, a: Any, axis: int, reverse: bool = False) -> Any:
    """h[k] = a[k] * h[k-1] + b[k] along an axis, from h[-1] = 0 (from the far end in reverse); linear in b."""
    return linear_recurrence_p(b, a, axis=axis, reverse=reverse)


# -- the public five


def _accumulate(ufunc: np.ufunc) -> Callable[..., Any]:
    name = ufunc.__name__
    keeps_dtype = name in ("add", "multiply")  # their accumulate would widen small integers

    def impl(xp: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        x = _flipped(x, axis, reverse)
        if xp is np:
            out = ufunc.accumulate(x, axis=axis, dtype=x.dtype.type) if keeps_dtype else ufunc.accumulate(x, axis=axis)
        elif keeps_dtype:
            out = (xp.cumsum if name == "add" else xp.cumprod)(x, axis=axis, dtype=x.dtype)
        else:
            out = accumulate_by_doubling(getattr(xp, name), x, axis)
        return _flipped(out, axis, reverse)

    return impl


def accumulate_by_doubling(f: Callable[..., Any], x: Any, axis: int) -> Any:
    """`ufunc.accumulate` in log2(n) sweeps, for devices whose ufuncs have none."""
    x, d = x.copy(), 1
    while d < x.shape[axis]:
        later = along(x.ndim, axis, slice(d, None))
        x[later] = f(x[later], x[along(x.ndim, axis, slice(None, -d))])
        d *= 2
    return x


def _same(x: Aval, *, axis: int, reverse: bool) -> Aval:
    if not 0 <= axis < len(x.shape):
        raise ValueError(f"a cumulative operation along axis {axis} of {x}: there is no such axis")
    return Aval(x.shape, x.dtype)


def _cumulative(name: str, ufunc: np.ufunc, jvp: Callable[..., Any]) -> Primitive:
    primitive = Primitive(
        name,
        _accumulate(ufunc),
        _same,
        jvp=jvp,
        batch=lambda size, args, batched, *, axis, reverse: (primitive(args[0], axis=axis + 1, reverse=reverse), True),
    )
    return primitive


cumsum_p = structural(
    "cumsum",
    _accumulate(np.add),
    _same,
    lambda ct, x, *, axis, reverse: cumsum(ct, axis, not reverse),
    lambda size, x, *, axis, reverse: cumsum(x, axis + 1, reverse),
    reach="sums",
)
cumprod_p = _cumulative(
    "cumprod",
    np.multiply,
    lambda tangents, out, x, *, axis, reverse: linear_recurrence(
        mul(tangents[0], shift(out, axis, reverse=reverse, fill=1)), x, axis, reverse
    ),
)


def _weights_impl(xp: Any, x: Any, out: Any, *, axis: int, reverse: bool) -> list:
    x, out = _flipped(x, axis, reverse), _flipped(out, axis, reverse)
    tied = (x == out) | ((x != x) & (out != out))
    starts = xp.ones(x.shape, bool)
    now, before = along(x.ndim, axis, slice(1, None)), along(x.ndim, axis, slice(None, -1))
    starts[now] = (out[now] != out[before]) & ((out[now] == out[now]) | (out[before] == out[before]))
    total = xp.cumsum(tied, axis=axis)
    base = xp.where(starts, total - 1, 0)
    base = np.maximum.accumulate(base, axis=axis) if xp is np else accumulate_by_doubling(xp.maximum, base, axis)
    count = xp.maximum(total - base, 1)
    share = (1 / count).astype(x.dtype)
    decay = xp.where(tied, (count - 1) / count, 1.0).astype(x.dtype)
    return [_flipped(y, axis, reverse) for y in (tied, share, decay)]


def _weights_batch(size: int, args: Any, batched: Any, *, axis: int, reverse: bool) -> tuple[Any, Any]:
    return extremum_weights_p(*_aligned(size, args, batched), axis=axis + 1, reverse=reverse), [True] * 3


# Of a running maximum or minimum: which elements are tied with it, and the factors of the tied element's and of the previous
# result's tangent. The c-th of equal extrema takes 1/c of its own tangent and (c-1)/c of the others' mean.
extremum_weights_p = Primitive(
    "extremum_weights",
    _weights_impl,
    lambda x, out, *, axis, reverse: [Aval(x.shape, np.dtype(bool)), Aval(x.shape, x.dtype), Aval(x.shape, x.dtype)],
    jvp=lambda tangents, out, x, y, *, axis, reverse: [None] * 3,
    batch=_weights_batch,
    multiple=True,
)


def _extremum_jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    tied, share, decay = extremum_weights_p(x, out, axis=axis, reverse=reverse)
    return linear_recurrence(mul(keep(tangents[0], tied), share), decay, axis, reverse)


cummax_p = _cumulative("cummax", np.maximum, _extremum_jvp)
cummin_p = _cumulative("cummin", np.minimum, _extremum_jvp)


def _cumlogsumexp_jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    mask = isfinite(out)
    level = keep(out, mask)  # where nothing but -inf was summed yet, weights are exp(-inf - 0) = 0 instead of NaN
    previous = shift(out, axis, reverse=reverse)
    decay = keep(exp(sub(previous, level)), shift(mask, axis, reverse=reverse))  # False at the free end
    return linear_recurrence(mul(tangents[0], exp(sub(x, level))), decay, axis, reverse)


cumlogsumexp_p = _cumulative("cumlogsumexp", np.logaddexp, _cumlogsumexp_jvp)


def cumsum(x: Any, axis: int, reverse: bool = False) -> Any:
    """Running sums along an axis, in the operand's own dtype."""
    return cumsum_p(x, axis=axis, reverse=reverse)


def cumprod(x: Any, axis: int, reverse: bool = False) -> Any:
    """Running products along an axis, in the operand's own dtype; every derivative is exact at zeros."""
    return cumprod_p(x, axis=axis, reverse=reverse)


def cummax(x: Any, axis: int, reverse: bool = False) -> Any:
    """Running maxima along an axis; NaN propagates, tied elements share the tangent equally."""
    return cummax_p(x, axis=axis, reverse=reverse)


def cummin(x: Any, axis: int, reverse: bool = False) -> Any:
    """Running minima along an axis; NaN propagates, tied elements share the tangent equally."""
    return cummin_p(x, axis=axis, reverse=reverse)


def cumlogsumexp(x: Any, axis: int, reverse: bool = False) -> Any:
    """log of the running sums of exp(x) along an axis, without overflow (real dtypes)."""
    return cumlogsumexp_p(x, axis=axis, reverse=reverse)

"""Reductions over axes, and cumulative operations along one axis.

`axes` is a sorted tuple of non-negative axes; the reduced axes are dropped.

The derivative of max and min is shared equally among the tied elements; a NaN result is tied with the NaNs that made it. The
derivative of prod multiplies running products from both sides, so it is exact with any number of zero factors, in every order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any, Unpack

import numpy as np

from funcad.host.devices import deliver, pending
from funcad.host.real_types import keep as in_order_of
from funcad.host.real_types import of_reduction
from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive, Reduction, Said
from funcad.primitives.arithmetic import add, div, maximum, mul, square_p, sub
from funcad.primitives.comparison import and_, eq, isnan, ne, or_, select
from funcad.primitives.conversion import convert
from funcad.primitives.families import BOOL, REAL, implementation, kept_axes, reduce_sum, reduced_aval, structural
from funcad.primitives.families import reduce_sum_p as reduce_sum_p
from funcad.primitives.shape import batched_with, broadcast_in_dim, next_axes, next_axis
from funcad.primitives.transcendental import difference_p, logistic

# -- cumulative sums, products, maxima, minima and logsumexps along one axis, forwards or in reverse
#
# Idea: all their derivatives are one linear recurrence, `h[k] = a[k] * h[k-1] + b[k]`, which is a primitive that is closed
# under differentiation and transposition (the transpose is the recurrence in the other direction, with the coefficients moved
# by one). So every order is exact, also at zero factors of a product. It divides by nothing. Ties of cummax and cummin share
# the tangent equally, as `max` does: the last element's derivative is that of the reduction.


_RUN = 25  # elements in Python floats take as long as one call of NumPy
_FEW_LANES = 4  # so few independent recurrences are quicker in Python floats than as NumPy calls on tiny rows


def along(ndim: int, axis: int, entry: Any) -> tuple:
    """An index that is `entry` along one axis and everything along the others."""
    return (slice(None),) * axis + (entry,) + (slice(None),) * (ndim - axis - 1)


def _flipped(x: Any, axis: int, reverse: bool) -> Any:
    return x[along(x.ndim, axis, slice(None, None, -1))] if reverse else x


def keep(t: Any, mask: Any) -> Any:
    """t where mask holds, zero elsewhere: selected, because a mask's zero times an infinite tangent would be NaN."""
    return and_(mask, t) if dtype_of(t).kind == "b" else select(mask, t, 0.0)


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
    batch=batched_with(lambda: shift_p, axis=next_axis),
    reach="picks",
)


def shift(x: Any, axis: int, *, reverse: bool = False, fill: float = 0) -> Any:
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
        factors, own = a[where], b[where]
        turns = np.flatnonzero(factors[1:] != 1.0) + 1
        if len(turns) * _RUN < len(own):  # between them these are sums
            sums, before = own.astype(float), 0
            for k in (*turns.tolist(), len(own)):
                np.add.accumulate(sums[before:k], out=sums[before:k])
                if k < len(own):
                    sums[k] += factors[k] * sums[k - 1]
                before = k
            result[where] = sums
            continue
        known, column = factors.tolist(), own.tolist()
        for k in range(1, len(column)):
            column[k] += known[k] * column[k - 1]
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
    batch=batched_with(lambda: linear_recurrence_p, axis=next_axis),
)


def linear_recurrence(b: Any, a: Any, axis: int, reverse: bool = False) -> Any:
    """h[k] = a[k] * h[k-1] + b[k] along an axis, from h[-1] = 0 (from the far end in reverse); linear in b."""
    return linear_recurrence_p(b, a, axis=axis, reverse=reverse)


# -- the public five


def _lies_like(x: Any, **params: Any) -> Any:
    """The layout that NumPy gives to what it accumulates of x."""
    return x if x.flags.c_contiguous else in_order_of(x)


def _accumulate(ufunc: np.ufunc) -> Callable[..., Any]:
    name = ufunc.__name__
    keeps_dtype = name in ("add", "multiply")

    def impl(xp: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        if xp is np:
            out = np.empty_like(x if x.ndim < 2 else _lies_like(x))  # not itself reversed: its readers would copy it
            accumulate_into(ufunc, _flipped(x, axis, reverse), axis, _flipped(out, axis, reverse))
            return out
        x = _flipped(x, axis, reverse)
        if keeps_dtype:
            out = (xp.cumsum if name == "add" else xp.cumprod)(x, axis=axis, dtype=x.dtype)
        else:
            out = accumulate_by_doubling(getattr(xp, name), x, axis)
        return _flipped(out, axis, reverse)

    return impl


MANY = 512  # rows of a matrix from which on a column at a time is accumulated,
SAME_PLACE = 1024  # bytes: rows that lie a multiple apart would push each other out of the cache
AT_ONCE = 2048  # for so many rows: what of their neighbouring columns comes with a column stays in the cache


def accumulate_into(ufunc: np.ufunc, x: Any, axis: int, out: Any) -> None:
    """`ufunc.accumulate` in the dtype of x; of many short rows a column at a time, where no sum waits for the one before it.

    >>> out = np.empty((2, 3))
    >>> accumulate_into(np.add, np.ones((2, 3)), 1, out)
    >>> out.tolist()
    [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    """
    many = x.ndim == 2 and axis == 1 and len(x) >= MANY and 2 < x.shape[1] < MANY
    if not many or not x.strides[0] % SAME_PLACE or x.dtype.char not in "fdFD":
        widens = ufunc in (np.add, np.multiply)  # small integers
        ufunc.accumulate(x, axis, x.dtype.type if widens else None, out)
        return
    for i in range(0, len(x), AT_ONCE):
        given, made = x[i : i + AT_ONCE].T, out[i : i + AT_ONCE].T
        made[0] = given[0]
        for k in range(1, len(given)):
            ufunc(made[k - 1], given[k], out=made[k])


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
        layout=_lies_like,
    )
    return primitive


cumsum_p = structural(
    "cumsum",
    _accumulate(np.add),
    _same,
    lambda ct, x, *, axis, reverse: cumsum(ct, axis, not reverse),
    lambda size, x, *, axis, reverse: cumsum(x, axis + 1, reverse),
    reach="sums",
    layout=_lies_like,
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
    if xp is np and not (tied > starts).any():  # none is tied with another one
        weights = [np.ones(x.shape, x.dtype), np.where(tied, 0.0, 1.0).astype(x.dtype)]
        return [_flipped(y, axis, reverse) for y in (tied, *weights)]
    total = xp.cumsum(tied, axis=axis)
    base = xp.where(starts, total - 1, 0)
    base = np.maximum.accumulate(base, axis=axis) if xp is np else accumulate_by_doubling(xp.maximum, base, axis)
    count = xp.maximum(total - base, 1)
    share = (1 / count).astype(x.dtype)
    decay = xp.where(tied, (count - 1) / count, 1.0).astype(x.dtype)
    return [_flipped(y, axis, reverse) for y in (tied, share, decay)]


# Of a running maximum or minimum: which elements are tied with it, and the factors of the tied element's and of the previous
# result's tangent. The c-th of equal extrema takes 1/c of its own tangent and (c-1)/c of the others' mean.
extremum_weights_p = Primitive(
    "extremum_weights",
    _weights_impl,
    lambda x, out, *, axis, reverse: [Aval(x.shape, np.dtype(bool)), Aval(x.shape, x.dtype), Aval(x.shape, x.dtype)],
    jvp=lambda tangents, out, x, y, *, axis, reverse: [None] * 3,
    batch=batched_with(lambda: extremum_weights_p, axis=next_axis),
    multiple=True,
)


def _running_extremum_jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    tied, share, decay = extremum_weights_p(x, out, axis=axis, reverse=reverse)
    return linear_recurrence(mul(keep(tangents[0], tied), share), decay, axis, reverse)


cummax_p = _cumulative("cummax", np.maximum, _running_extremum_jvp)
cummin_p = _cumulative("cummin", np.minimum, _running_extremum_jvp)


def _cumlogsumexp_jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    previous = keep(shift(out, axis, reverse=reverse, fill=-inf), ne(out, -inf))  # of -inf alone, weights are 0
    weight, decay = logistic(difference_p(x, previous)), logistic(difference_p(previous, x))  # as of logaddexp
    return linear_recurrence(mul(tangents[0], weight), decay, axis, reverse)


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


# -- reductions over axes


# CuPy folds by these functions; it does not reduce by other ufuncs
_ON_DEVICE = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all"}


def fold_on_device(ufunc: str) -> str | None:
    """The name of CuPy's function that folds by this ufunc, if it has one."""
    return _ON_DEVICE.get(ufunc)


def _fold(xp: Any, ufunc: np.ufunc, x: Any, axes: tuple) -> Any:
    name = ufunc.__name__
    own = {"dtype": x.dtype.type} if name in ("add", "multiply") else {}  # where NumPy would widen; the type: no byte order
    if xp is np:
        return ufunc.reduce(x, axis=axes, **own)
    if name in _ON_DEVICE:
        return getattr(xp, _ON_DEVICE[name])(x, axis=axes, **own)
    x = xp.moveaxis(x, axes, range(len(axes))).reshape(-1, *[n for i, n in enumerate(x.shape) if i not in axes])
    while len(x) > 1:
        half = len(x) // 2
        x = xp.concatenate([getattr(xp, name)(x[:half], x[half : 2 * half]), x[2 * half :]])
    return x[0] if len(x) else xp.full(x.shape[1:], ufunc.identity, x.dtype)


def reduction(
    name: str, fact: Reduction, jvp: Callable[..., Any] | None = None, /, dtype: Any = None, **said: Unpack[Said]
) -> Primitive:
    """A primitive that combines elements, or what the fact's `element` makes of them, over the parameter `axes`.

    From the fact alone it fuses with its neighbours and is native; `dtype` is that of the results, if not the operand's.
    """
    ufunc = fact.ufunc
    element = None if fact.element is None else implementation(fact.element)

    def impl(xp: Any, x: Any, *, axes: tuple) -> Any:
        return _fold(xp, ufunc, x if element is None else element(xp, x), axes)

    def abstract_eval(x: Aval, *, axes: tuple) -> Aval:
        if fact.identity is None and any(x.shape[a] == 0 for a in axes):
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        return reduced_aval(x, axes, dtype)

    primitive = Primitive(
        name,
        impl,
        abstract_eval,
        jvp=jvp,
        batch=lambda size, args, batched, *, axes: (primitive(args[0], axes=next_axes(size, axes)), True),
        layout=of_reduction,
        reduction=fact,
        label="reduce",
        **said,
    )
    return primitive


# -- prod


def _prod_jvp(tangents: Any, out: Any, x: Any, *, axes: tuple) -> Any:
    t = tangents[0]
    for axis in reversed(axes):  # one axis at a time, so that nothing is reshaped
        others = mul(shift(cumprod(x, axis), axis, fill=1), shift(cumprod(x, axis, True), axis, reverse=True, fill=1))
        t = reduce_sum(mul(t, others), axes=(axis,))
        x = reduce_prod(x, axes=(axis,)) if axis != axes[0] else None
    return t


reduce_prod_p = reduction("reduce_prod", Reduction(np.multiply, 1), _prod_jvp)


def reduce_prod(x: Any, *, axes: tuple) -> Any:
    """Product over axes in the operand's own dtype."""
    return reduce_prod_p(x, axes=axes) if axes else x


# -- max and min


def _kept(x: Any, axes: tuple) -> tuple:
    """The shape of a reduction of x that keeps its axes."""
    return tuple([1 if i in axes else n for i, n in enumerate(x.shape)])


def _tied(xp: Any, x: Any, out: Any, axes: tuple) -> tuple[Any, Any]:
    """Where x attains its extremum `out`, and how often along each reduced line (at least once)."""
    whole = xp is np and len(axes) == x.ndim
    full = out if whole else xp.reshape(out, _kept(x, axes))
    mask = x == full
    if x.dtype.kind in "fc" and (xp is not np or (full != full if whole else (full != full).any())):
        mask |= (x != x) & (full != full)
    if whole:
        return mask, REAL(x.dtype).type(max(np.count_nonzero(mask), 1))
    count = np.add.reduce(mask, axis=axes, dtype=np.intp) if xp is np else xp.sum(mask, axis=axes)
    return mask, xp.maximum(count, 1).astype(REAL(x.dtype))


def _tied_mean_impl(xp: Any, t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    mask, count = _tied(xp, x, out, axes)
    return (xp.sum(xp.where(mask, t, xp.zeros((), t.dtype)), axis=axes, dtype=t.dtype.type) / count)[()]


def _tied_spread_impl(xp: Any, t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    mask, count = _tied(xp, x, out, axes)
    return xp.where(mask, xp.reshape(t / count, _kept(x, axes)), xp.zeros((), t.dtype))


# the same in operations that fuse
def count_over(shape: tuple, axes: tuple) -> int:
    return prod([shape[i] for i in axes])


def spread_over(x: Any, shape: tuple, axes: tuple) -> Any:
    return broadcast_in_dim(x, shape=shape, axes=kept_axes(len(shape), axes))


def _counted(axes: tuple, *xs: Any) -> bool:
    """Are they floats whose dtype holds the number of elements of a line?"""
    x = xs[1]
    count = prod([x.shape[a] for a in axes])
    return all([x.dtype.kind == "f" == a.dtype.kind and a.dtype == x.dtype for a in xs]) and bool(
        x.size and axes and count <= 2 ** np.finfo(x.dtype).nmant
    )


def _ties(x: Any, out: Any, axes: tuple) -> tuple[Any, Any]:
    """Where x attains its extremum `out`, and how often along each line: NaN attains it, for then the extremum is NaN too."""
    mask = or_(eq(x, spread_over(out, shape_of(x), axes)), isnan(x))
    return mask, reduce_sum(convert(mask, x.dtype), axes=axes)


def _tied_mean_lowering(t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    if not _counted(axes, t, x, out):
        return None
    mask, count = _ties(x, out, axes)
    return div(reduce_sum(select(mask, t, 0.0), axes=axes), maximum(count, 1.0))


def _tied_spread_lowering(t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    if not _counted(axes, t, x, out):
        return None
    mask, count = _ties(x, out, axes)  # where the count is zero, nothing is selected
    return select(mask, spread_over(div(t, count), shape_of(x), axes), 0.0)


def _tied_primitive(
    name: str, impl: Callable[..., Any], aval: Callable[..., Aval], other: Callable[[], Primitive], reach: str,
    lowering: Callable[..., Any],
) -> Primitive:
    primitive = Primitive(
        name,
        impl,
        aval,
        jvp=lambda tangents, result, t, x, out, *, axes: (
            None if tangents[0] is None else primitive(tangents[0], x, out, axes=axes)
        ),
        transpose=lambda ct, t, x, out, *, axes: [other()(ct, x, out, axes=axes), None, None],
        batch=batched_with(lambda: primitive, axes=next_axes),
        reach=reach,
        lowering=lowering,
    )
    return primitive


tied_mean_p = _tied_primitive(  # the mean tangent of the elements that attain the extremum `out` of x
    "tied_mean",
    _tied_mean_impl,
    lambda t, x, out, *, axes: reduced_aval(t, axes),
    lambda: tied_spread_p,
    "reads",
    _tied_mean_lowering,
)
tied_spread_p = _tied_primitive(  # its transpose: each of those elements gets its share of the cotangent
    "tied_spread",
    _tied_spread_impl,
    lambda t, x, out, *, axes: Aval(x.shape, t.dtype),
    lambda: tied_mean_p,
    "picks",
    _tied_spread_lowering,
)


def _extremum_jvp(tangents: Any, out: Any, x: Any, *, axes: tuple) -> Any:
    return tied_mean_p(tangents[0], x, out, axes=axes)


reduce_max_p = reduction("reduce_max", Reduction(np.maximum), _extremum_jvp)
reduce_min_p = reduction("reduce_min", Reduction(np.minimum), _extremum_jvp)


def reduce_max(x: Any, *, axes: tuple) -> Any:
    """Maximum over axes; NaN propagates; ValueError if a reduced axis is empty."""
    return reduce_max_p(x, axes=axes) if axes else x


def reduce_min(x: Any, *, axes: tuple) -> Any:
    """Minimum over axes; NaN propagates; ValueError if a reduced axis is empty."""
    return reduce_min_p(x, axes=axes) if axes else x


# -- truth and positions: without derivative

# Is any element over the axes true (nonzero)? A bool.
reduce_any = reduction("reduce_any", Reduction(np.logical_or, False), dtype=BOOL)
# Are all elements over the axes true (nonzero)? A bool.
reduce_all = reduction("reduce_all", Reduction(np.logical_and, True), dtype=BOOL)


def _position(name: str, impl: Callable[..., Any]) -> Primitive:
    def abstract_eval(x: Aval, *, axis: int) -> Aval:
        if x.shape[axis] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        return reduced_aval(x, (axis,), np.dtype(np.int64))

    primitive = Primitive(
        name,
        impl,
        abstract_eval,
        batch=batched_with(lambda: primitive, axis=next_axis),
    )
    return primitive


argmax_p = _position("argmax", lambda xp, x, *, axis: x.argmax(axis=axis))
argmin_p = _position("argmin", lambda xp, x, *, axis: x.argmin(axis=axis))


def argmax(x: Any, axis: int) -> Any:
    """The position (int64) of the first maximum along an axis, or of the first NaN."""
    return argmax_p(x, axis=axis)


def argmin(x: Any, axis: int) -> Any:
    """The position (int64) of the first minimum along an axis, or of the first NaN."""
    return argmin_p(x, axis=axis)


# -- the variance over axes of real numbers as one operation: un-jitted, what it is made of costs more than its numbers
#
# Programs that are compiled have the sums and products instead (numpy/statistics.py), which fuse. The derivative is the mean of
# the deviations times the tangent; that the mean moves too cancels, because deviations add up to zero.


def _apply(primitive: Any, ufunc: Any, *operands: Any, **options: Any) -> Any:
    """A step, whose warnings have its own name."""
    try:
        return ufunc(*operands, **options)
    finally:
        if pending:
            deliver(primitive, operands)


def _variance_impl(xp: Any, x: Any, *, axes: tuple, ddof: float) -> Any:
    n = count_over(x.shape, axes)
    add = np.add.reduce if xp is np else xp.sum
    center = _apply(reduce_sum_p, add, x, axis=axes, keepdims=True) / x.dtype.type(n)
    deviation = _apply(sub, xp.subtract, x, center)
    total = _apply(reduce_sum_p, add, _apply(square_p, xp.square, deviation), axis=axes)
    return total / x.dtype.type(n - ddof)


def _variance_jvp(tangents: Any, out: Any, x: Any, *, axes: tuple, ddof: float) -> Any:
    return reduce_sum(mul(variance_slope_p(x, axes=axes, ddof=ddof), tangents[0]), axes=axes)


def _twice_a_part(n: float) -> float:
    return 2.0 / n if n else inf


def _slope_of_variance(x: Any, *, axes: tuple, ddof: float) -> Any:
    """The deviations from the mean, times what the variance changes with each of their squares, twice.

    Theirs have a mean again, by rounding: without it equal numbers have no slope.
    """
    shape = shape_of(x)
    n = count_over(shape, axes)
    for _ in range(2):
        center = div(reduce_sum(x, axes=axes), float(n))
        x = sub(x, broadcast_in_dim(center, shape=shape, axes=kept_axes(len(shape), axes)))
    return mul(_twice_a_part(n - ddof), x)


def _slope_impl(xp: Any, x: Any, *, axes: tuple, ddof: float) -> Any:
    n = count_over(x.shape, axes)
    add = np.add.reduce if xp is np else xp.sum
    x = x - add(x, axis=axes, keepdims=True) / x.dtype.type(n)
    x -= add(x, axis=axes, keepdims=True) / x.dtype.type(n)
    x *= x.dtype.type(_twice_a_part(n - ddof))
    return x


variance_slope_p = structural(  # one operation, so that the variance's pull is the same for all sizes
    "variance_slope",
    _slope_impl,
    lambda x, *, axes, ddof: x.update(),
    lambda ct, x, *, axes, ddof: variance_slope_p(ct, axes=axes, ddof=ddof),
    lambda size, x, *, axes, ddof: variance_slope_p(x, axes=tuple([a + 1 for a in axes]), ddof=ddof),
    _slope_of_variance,
)
variance_p = Primitive(
    "variance",
    _variance_impl,
    lambda x, *, axes, ddof: reduced_aval(x, axes),
    jvp=_variance_jvp,
    batch=batched_with(lambda: variance_p, axes=next_axes),
    layout=of_reduction,
)


def variance(x: Any, *, axes: tuple, ddof: float = 0) -> Any:
    """sum((x - mean)**2) / (n - ddof) over axes, of n elements, more than `ddof`."""
    return variance_p(x, axes=axes, ddof=ddof)

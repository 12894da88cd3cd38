"""Reductions over axes. `axes` is a sorted tuple of non-negative axes; the reduced axes are dropped.

The derivative of max and min is shared equally among the tied elements; a NaN result is tied with the NaNs that made it. The
derivative of prod multiplies running products from both sides, so it is exact with any number of zero factors, in every order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Unpack

import numpy as np

from funcad.host.layout import of_reduction
from funcad.ir.aval import Aval, shape_of
from funcad.ir.primitive import Primitive, Reduction, Said
from funcad.primitives import families
from funcad.primitives.arithmetic import div, mul
from funcad.primitives.array_formulas import implementation
from funcad.primitives.comparison import eq, isnan, or_, select
from funcad.primitives.conversion import convert
from funcad.primitives.cumulative import cumprod, shift
from funcad.primitives.extrema import maximum
from funcad.primitives.families import REAL, broadcast_in_dim, kept_axes, reduce_sum, reduced_aval
from funcad.primitives.families import reduce_sum_p as reduce_sum_p


def _moved(axes: tuple) -> tuple:
    return tuple([a + 1 for a in axes])


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
        batch=lambda size, args, batched, *, axes: (primitive(args[0], axes=_moved(axes)), True),
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


def _copies(size: int, x: Any) -> Any:
    shape = shape_of(x)
    return broadcast_in_dim(x, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))


def _kept(x: Any, axes: tuple) -> tuple:
    """The shape of a reduction of x that keeps its axes."""
    return tuple([1 if i in axes else n for i, n in enumerate(x.shape)])


def _tied(xp: Any, x: Any, out: Any, axes: tuple) -> tuple[Any, Any]:
    """Where x attains its extremum `out`, and how often along each reduced line (at least once)."""
    full = xp.reshape(out, _kept(x, axes))
    mask = x == full
    if x.dtype.kind in "fc" and (xp is not np or (full != full).any()):
        mask |= (x != x) & (full != full)
    count = np.add.reduce(mask, axis=axes, dtype=np.intp) if xp is np else xp.sum(mask, axis=axes)
    return mask, xp.maximum(count, 1).astype(REAL(x.dtype))


def _tied_mean_impl(xp: Any, t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    mask, count = _tied(xp, x, out, axes)
    return (xp.sum(xp.where(mask, t, xp.zeros((), t.dtype)), axis=axes, dtype=t.dtype.type) / count)[()]


def _tied_spread_impl(xp: Any, t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    mask, count = _tied(xp, x, out, axes)
    return xp.where(mask, xp.reshape(t / count, _kept(x, axes)), xp.zeros((), t.dtype))


# the same in operations that fuse
def _spread_over(x: Any, shape: tuple, axes: tuple) -> Any:
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
    mask = or_(eq(x, _spread_over(out, shape_of(x), axes)), isnan(x))
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
    return select(mask, _spread_over(div(t, count), shape_of(x), axes), 0.0)


def _tied_primitive(
    name: str, impl: Callable[..., Any], aval: Callable[..., Aval], other: Callable[[], Primitive], reach: str,
    lowering: Callable[..., Any],
) -> Primitive:
    def batch(size: int, args: Any, batched: Any, *, axes: tuple) -> tuple[Any, bool]:
        return primitive(*[a if b else _copies(size, a) for a, b in zip(args, batched)], axes=_moved(axes)), True

    primitive = Primitive(
        name,
        impl,
        aval,
        jvp=lambda tangents, result, t, x, out, *, axes: (
            None if tangents[0] is None else primitive(tangents[0], x, out, axes=axes)
        ),
        transpose=lambda ct, t, x, out, *, axes: [other()(ct, x, out, axes=axes), None, None],
        batch=batch,
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
reduce_any = reduction("reduce_any", Reduction(np.logical_or, False), dtype=families.BOOL)
# Are all elements over the axes true (nonzero)? A bool.
reduce_all = reduction("reduce_all", Reduction(np.logical_and, True), dtype=families.BOOL)


def _position(name: str, impl: Callable[..., Any]) -> Primitive:
    def abstract_eval(x: Aval, *, axis: int) -> Aval:
        if x.shape[axis] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        return reduced_aval(x, (axis,), np.dtype(np.int64))

    primitive = Primitive(
        name,
        impl,
        abstract_eval,
        batch=lambda size, args, batched, *, axis: (primitive(args[0], axis=axis + 1), True),
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

"""Sums of exponentials along axes: softmax, log_softmax, logsumexp, logmeanexp; all of them shifted by the maximum.

Idea: each is a primitive over one axis (primitives/activation.py) with closed-form derivatives; several axes are merged
into one first. Trap: an element that `where` leaves out is -inf to the primitive, so it gets no cotangent, and the result
there is selected, never multiplied.
"""

from __future__ import annotations

from math import log as _log
from math import prod
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.nn.nn_operands import broadcasts, operands, real_operand
from funcad.numpy.axes import array_of, axes_of, merge_axes
from funcad.primitives import activation
from funcad.primitives.arithmetic import abs_, add, mul, sign, sub
from funcad.primitives.comparison import and_, eq, gt, isfinite, ne, select
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.reduction import reduce_max, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, reshape
from funcad.primitives.transcendental import exp, log

__all__ = ["softmax", "log_softmax", "logsumexp", "logmeanexp", "mask_of"]

_BOOL = np.dtype(bool)


def mask_of(where: Any, shape: tuple, what: str) -> Any:
    """`where` as bools of that shape."""
    mask = array_of(where)
    if dtype_of(mask) != _BOOL:
        raise TypeError(f"{what}: where must hold bools, got {dtype_of(mask)}; write where=x > 0, for example")
    own = shape_of(mask)
    if not broadcasts(own, shape):
        raise ValueError(f"{what}: where has shape {own}, which does not broadcast to {shape}")
    return broadcast_to(mask, shape)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """As `axes_of`, and a scalar is an array of one element: it has the axes 0 and -1."""
    return (0,) if not ndim and type(axis) is int and axis in (0, -1) else axes_of(axis, ndim)


def _along(what: str, function: Any, x: Any, axis: Any, where: Any, outside: float) -> Any:
    """Apply a primitive over axes; where the mask is False x counts as -inf and the result is `outside`."""
    x = real_operand(x, what)
    mask = None if where is None else mask_of(where, shape_of(x), what)
    if mask is not None:
        x = select(mask, x, -np.inf)
    one, merged, back = merge_axes(x, _axes(axis, len(shape_of(x))))
    out = back(function(one, axis=merged))
    return out if mask is None else select(mask, out, outside)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) over its sum along an axis, several, or all of them (None); shifted by the maximum.

    Where the bool mask `where` is False the result is 0 and x is not read. A row of -inf gives equal shares (JAX: NaN).

    >>> import numpy as np; from funcad import nn
    >>> nn.softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    return _along("softmax", activation.softmax, x, axis, where, 0.0)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """x - logsumexp(x) along an axis, several, or all of them (None); -inf where the bool mask `where` is False.

    >>> import numpy as np; from funcad import nn
    >>> nn.log_softmax(np.array([1000.0, 1000.0])).round(4)
    array([-0.6931, -0.6931])
    """
    return _along("log_softmax", activation.log_softmax, x, axis, where, -np.inf)


def _with_axes(x: Any, shape: tuple, axes: tuple, keepdims: bool) -> Any:
    return reshape(x, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else x


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log(sum(b * exp(a))) over an axis, several, or all of them (None); shifted by the maximum, -inf for nothing.

    `where` (bools) says which elements count. The sum may be negative if weights `b` are given: then the result is NaN, or
    with `return_sign` it is the pair (log of the absolute value, sign). Arguments as `jax.nn.logsumexp`, real ones only.
    With `keepdims` the axes stay, with length 1.

    >>> import numpy as np; from funcad import nn
    >>> round(float(nn.logsumexp(np.array([1000.0, 1000.0]))), 4)
    1000.6931
    """
    if b is not None:
        return _weighted(a, b, axis, keepdims, return_sign, where)
    x = real_operand(a, "logsumexp")
    shape = shape_of(x)
    axes = _axes(axis, len(shape))
    if where is not None:
        x = select(mask_of(where, shape, "logsumexp"), x, -np.inf)
    if axes:
        one, merged, _ = merge_axes(x, axes)
        out = activation.logsumexp(one, axis=merged)
    else:
        out = x
    out = _with_axes(out, shape, axes, keepdims)
    if not return_sign:
        return out
    return out, convert(ne(out, -np.inf), dtype_of(out))


def _weighted(a: Any, b: Any, axis: Any, keepdims: bool, return_sign: bool, where: Any) -> Any:
    x, b = operands(real_operand(a, "logsumexp"), real_operand(b, "logsumexp"))
    shape = np.broadcast_shapes(shape_of(x), shape_of(b))
    x, b = broadcast_to(x, shape), broadcast_to(b, shape)
    if where is not None:
        mask = mask_of(where, shape, "logsumexp")
        x, b = select(mask, x, -np.inf), select(mask, b, 0.0)
    nothing = eq(b, 0.0)  # 0 * exp(x) is 0, whatever x is; the derivative towards b there is exp(x) all the same
    axes = axes_of(axis, len(shape))
    seen = select(nothing, -np.inf, x)
    top = stop_gradient(reduce_max(seen, axes=axes)) if axes else stop_gradient(seen)
    top = select(isfinite(top), top, 0.0)
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    shifted = sub(x, broadcast_in_dim(top, shape=shape, axes=kept))
    # 0 * inf, where x is far above everything that has a weight
    unseen = and_(nothing, gt(shifted, _log(np.finfo(dtype_of(shifted)).max)))
    total = reduce_sum(select(unseen, 0.0, mul(b, exp(select(unseen, 0.0, shifted)))), axes=axes)
    amount = abs_(total) if return_sign else total
    some = gt(amount, 0.0)  # of nothing it is -inf, of a negative number NaN, and neither warns
    size = select(some, add(log(select(some, amount, 1.0)), top), np.nan)
    size = select(eq(amount, 0.0), -np.inf, size)
    size = _with_axes(size, shape, axes, keepdims)
    return (size, _with_axes(sign(total), shape, axes, keepdims)) if return_sign else size


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(exp(x))) over an axis, several, or all of them (None): logsumexp(x) - log(count).

    `where` (bools) says which elements count; none gives NaN. As `jax.nn.logmeanexp`.
    With `keepdims` the axes stay, with length 1.

    >>> import numpy as np; from funcad import nn
    >>> nn.logmeanexp(np.array([1000.0, 1000.0]))
    np.float64(1000.0)
    """
    x = real_operand(x, "logmeanexp")
    out = logsumexp(x, axis=axis, keepdims=keepdims, where=where)
    shape = shape_of(x)
    axes = _axes(axis, len(shape))
    if where is None:
        count = prod([shape[i] for i in axes]) if shape else 1
        return sub(out, _log(count)) if count else mul(out, np.nan)
    mask = convert(mask_of(where, shape, "logmeanexp"), dtype_of(out))
    count = _with_axes(reduce_sum(mask, axes=axes if shape else ()), shape, axes, keepdims)
    some = gt(count, 0.0)
    return select(some, sub(select(some, out, 0.0), log(select(some, count, 1.0))), np.nan)

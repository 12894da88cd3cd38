"""The variance over axes of real numbers as one operation: un-jitted, what it is made of costs more than its numbers.

Programs that are compiled have the sums and products instead (numpy/statistics.py), which fuse. The derivative is the mean of
the deviations times the tangent; that the mean moves too cancels, because deviations add up to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.layout import of_reduction
from funcad.host.user_warnings import deliver, pending
from funcad.ir.aval import shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import div, mul, square_p, sub
from funcad.primitives.reduction import kept_axes, reduce_sum, reduce_sum_p, reduced_aval
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["variance", "variance_p"]


def _count(shape: tuple, axes: tuple) -> int:
    n = 1
    for i in axes:
        n *= shape[i]
    return n


def _apply(primitive: Any, ufunc: Any, *operands: Any, **options: Any) -> Any:
    """A step, whose warnings have its own name."""
    try:
        return ufunc(*operands, **options)
    finally:
        if pending:
            deliver(primitive, operands)


def _variance_impl(xp: Any, x: Any, *, axes: tuple, ddof: float) -> Any:
    n = _count(x.shape, axes)
    add = np.add.reduce if xp is np else xp.sum
    center = _apply(reduce_sum_p, add, x, axis=axes, keepdims=True) / x.dtype.type(n)
    deviation = _apply(sub, xp.subtract, x, center)
    total = _apply(reduce_sum_p, add, _apply(square_p, xp.square, deviation), axis=axes)
    return total / x.dtype.type(n - ddof)


def _variance_jvp(tangents: Any, out: Any, x: Any, *, axes: tuple, ddof: float) -> Any:
    shape = shape_of(x)
    n = _count(shape, axes)
    center = broadcast_in_dim(div(reduce_sum(x, axes=axes), float(n)), shape=shape, axes=kept_axes(len(shape), axes))
    return mul(2.0 / (n - ddof), reduce_sum(mul(sub(x, center), tangents[0]), axes=axes))


variance_p = Primitive(
    "variance",
    _variance_impl,
    lambda x, *, axes, ddof: reduced_aval(x, axes),
    jvp=_variance_jvp,
    batch=lambda size, args, batched, *, axes, ddof: (variance(args[0], axes=tuple([a + 1 for a in axes]), ddof=ddof), True),
    layout=of_reduction,
)


def variance(x: Any, *, axes: tuple, ddof: float = 0) -> Any:
    """sum((x - mean)**2) / (n - ddof) over axes, of n elements, more than `ddof`."""
    return variance_p(x, axes=axes, ddof=ddof)

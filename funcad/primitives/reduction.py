"""Reductions over axes. `axes` is a sorted tuple of non-negative axes; the reduced axes are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.primitives import families
from funcad.primitives.families import structural


def reduced_aval(x: Aval, axes: tuple, dtype: Any = None) -> Aval:
    shape = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    return Aval(shape, x.dtype if dtype is None else dtype)


def kept_axes(ndim: int, axes: tuple) -> tuple:
    return tuple([i for i in range(ndim) if i not in axes])


def _sum_impl(xp: Any, x: Any, *, axes: tuple) -> Any:
    dtype = x.dtype
    if xp is np:
        return np.add.reduce(x, axis=axes, dtype=dtype) if axes else x
    return xp.sum(x, axis=axes, dtype=dtype) if axes else x


def _sum_transpose(ct: Any, x: Aval, *, axes: tuple) -> Any:
    return families._BROADCAST[0](ct, shape=x.shape, axes=kept_axes(len(x.shape), axes))


reduce_sum_p = structural(
    "reduce_sum",
    _sum_impl,
    lambda x, *, axes: reduced_aval(x, axes),
    _sum_transpose,
    lambda size, x, *, axes: reduce_sum(x, axes=tuple([a + 1 for a in axes])),
)


def reduce_sum(x: Any, *, axes: tuple) -> Any:
    """Sum over axes in the operand's own dtype (the public `sum` converts small integers first)."""
    return reduce_sum_p(x, axes=axes) if axes else x

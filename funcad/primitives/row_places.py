"""Which element of each row: indices that have been looked at, and the positions to compare them with.

A value placed at one element of each row is `select(checked index == positions, value, 0)`, element operations that a loop over
rows takes in (passes/row_scatters.py). Passes alone make these operations, after differentiation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.primitives.shape import broadcast_leading

__all__ = ["checked_index_p", "positions_p"]


def _checked(xp: Any, index: Any, *, shape: tuple, size: int, axis: int, dtype: np.dtype) -> Any:
    index = index.reshape(shape)
    if xp is np and index.size:
        low, high = index.min(), index.max()
        if low < -size or high >= size:
            bad = low if low < -size else high
            raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {size}")
        if low >= 0:
            return index.astype(dtype)
    return xp.where(index < 0, index + size, index).astype(dtype)


# The index in this shape, wrapped as NumPy does, which raises where it is out of bounds.
checked_index_p = Primitive(
    "checked_index",
    _checked,
    lambda index, *, shape, size, axis, dtype: Aval(shape, dtype),
    batch=lambda n, args, batched, *, shape, **params: (checked_index_p(*args, shape=(n, *shape), **params), True),
)

# 0, 1, 2 ...
positions_p = Primitive(
    "positions",
    lambda xp, *, size, dtype: xp.arange(size, dtype=dtype),
    lambda *, size, dtype: Aval((size,), dtype),
    batch=lambda n, args, batched, **params: (broadcast_leading(positions_p(**params), n), True),
)

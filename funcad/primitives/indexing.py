"""Indexing: static slices here; gather, scatter and dynamic slices."""

from __future__ import annotations

from typing import Any

from funcad.ir.aval import shape_of
from funcad.primitives.shape import slice_p


def static_slice(x: Any, start: int, stop: int, axis: int = 0) -> Any:
    """x[start:stop] along one axis, with known bounds."""
    shape = shape_of(x)
    if start == 0 and stop == shape[axis]:
        return x
    starts = tuple([start if i == axis else 0 for i in range(len(shape))])
    limits = tuple([stop if i == axis else n for i, n in enumerate(shape)])
    return slice_p(x, start=starts, limit=limits, strides=None)

"""What `at(x)[index]` does with positions out of bounds when the caller says so: `mode="clip"`, `"fill"`, `"drop"`, as in JAX.

Idea: "clip" rewrites the index. "drop" writes into x with one more layer on each axis that is addressed by numbers, which takes
what is out of bounds and is cut off again; so every update, at repeated positions too, means what it means without a mode.
Trap: negative positions count from the end first, as everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of
from funcad.ir.tracer import Tracer
from funcad.numpy.index_plan import canonical_entries, counted_axes
from funcad.numpy.promote import beside

__all__ = ["MODES", "clipped", "spilled", "default_fill"]

MODES = (None, "promise_in_bounds", "clip", "fill", "drop")


def _rewritten(shape: tuple, index: Any, change: Any) -> tuple:
    """The index with `change(position, n, axis)` instead of every number or array of numbers."""
    entries = canonical_entries(shape, index)
    result = []
    for e, axis in zip(entries, counted_axes(shape, entries)):
        kind = type(e)
        if kind is int or kind is Tracer or is_a(e, np.ndarray) or hasattr(e, "dtype"):
            result.append(change(e, shape[axis], axis))
        else:
            result.append(e)
    return tuple(result)


def _from_start(i: Any, n: int) -> Any:
    """Positions counted from the start, in a dtype that holds them."""
    if type(i) is int:
        return i + n if i < 0 else i
    kind = aval_of(i).dtype.kind
    i = i if kind == "i" and aval_of(i).dtype.itemsize == 8 else i.astype(np.int64)
    return i if kind == "u" else np.where(np.less(i, 0), np.add(i, n), i)


def clipped(shape: tuple, index: Any) -> tuple[tuple, list[Any]]:
    """(the index with its positions moved into bounds, for each whether it was inside)."""
    inside: list[Any] = []

    def change(i: Any, n: int, axis: int) -> Any:
        i = _from_start(i, n)
        if type(i) is int:
            inside.append(0 <= i < n)
            return min(max(i, 0), max(n - 1, 0))
        inside.append(np.logical_and(np.greater_equal(i, 0), np.less(i, n)))
        return np.clip(i, 0, max(n - 1, 0))

    return _rewritten(shape, index, change), inside


def spilled(x: Any, index: Any) -> tuple[Any, tuple, tuple]:
    """(x with one more layer on the addressed axes, the index that sends there what is out of bounds, what to cut out)."""
    shape = aval_of(x).shape
    axes: list[int] = []

    def change(i: Any, n: int, axis: int) -> Any:
        axes.append(axis)
        i = _from_start(i, n)
        if type(i) is int:
            return i if 0 <= i < n else n
        return np.where(np.logical_and(np.greater_equal(i, 0), np.less(i, n)), i, n)

    index = _rewritten(shape, index, change)
    widths = [(0, int(k in axes)) for k in range(len(shape))]
    grown = np.pad(x, widths, constant_values=1) if axes else x  # 1: no function that is applied has a pole there for certain
    return grown, tuple([beside(i, x) if is_a(i, np.ndarray) else i for i in index]), tuple([slice(0, n) for n in shape])


def default_fill(dtype: np.dtype) -> Any:
    """What stands for elements out of bounds: NaN, the smallest (signed) or largest (unsigned) integer, True."""
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max

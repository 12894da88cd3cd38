"""Sorting: stable sorts along one axis. The derivative of a sort is the gather of the tangents by the permutation.

NaN is the largest value, as in NumPy; descending order is the reverse of ascending order of the reversed array, so that equal
elements keep their order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.basic_indexing import take_along
from funcad.primitives.reduction import along
from funcad.primitives.shape import batched_with, next_axis, with_lanes

_INDEX = np.dtype(np.int64)
_LONG = 1024


def _stable_argsort(x: Any, axis: int) -> Any:
    """NumPy's stable argsort; without ties any order is the stable one, and the quick sort is several times quicker."""
    if x.size > _LONG and x.shape[axis] > 1:
        order = np.argsort(x, axis=axis)
        ordered = np.moveaxis(np.take_along_axis(x, order, axis=axis), axis, 0)
        if not ((ordered[1:] == ordered[:-1]).any() or (ordered[-1] != ordered[-1]).any()):
            return order
    return np.argsort(x, axis=axis, kind="stable")


def _argsort_impl(xp: Any, x: Any, *, axis: int, stable: bool, descending: bool) -> Any:
    if xp is np:
        argsort = _stable_argsort if stable else np.argsort
    else:
        argsort = functools.partial(xp.argsort, kind="stable")
    if not descending:
        return argsort(x, axis=axis)
    backwards = along(x.ndim, axis, slice(None, None, -1))
    return x.shape[axis] - 1 - argsort(x[backwards], axis=axis)[backwards]


argsort_p = Primitive(
    "argsort",
    _argsort_impl,
    lambda x, *, axis, stable, descending: Aval(x.shape, _INDEX),
    batch=batched_with(lambda: argsort_p, axis=next_axis),
)


def argsort(x: Any, axis: int, stable: bool = True, descending: bool = False) -> Any:
    """The positions (int64) that sort x along an axis."""
    return argsort_p(x, axis=axis, stable=stable, descending=descending)


sort_p = Primitive(
    "sort",
    lambda xp, x, *, axis: xp.sort(x, axis=axis),
    lambda x, *, axis: Aval(x.shape, x.dtype),
    jvp=lambda tangents, out, x, *, axis: take_along(tangents[0], argsort(x, axis), axis, unique=True),
    batch=batched_with(lambda: sort_p, axis=next_axis),
)


def sort(x: Any, axis: int) -> Any:
    """x sorted along an axis, ascending, NaN last."""
    return sort_p(x, axis=axis)


# -- several operands by the first ones


def _argsort_many_impl(xp: Any, *keys: Any, axis: int) -> Any:
    if xp is np:
        return np.lexsort(keys[::-1], axis=axis)
    order = None
    for key in reversed(keys):
        key = key if order is None else xp.take_along_axis(key, order, axis=axis)
        step = xp.argsort(key, axis=axis, kind="stable")
        order = step if order is None else xp.take_along_axis(order, step, axis=axis)
    return order


argsort_many_p = Primitive(
    "argsort_many",
    _argsort_many_impl,
    lambda *keys, axis: Aval(keys[0].shape, _INDEX),
    batch=batched_with(lambda: argsort_many_p, axis=next_axis),
)


def sort_many(operands: Sequence[Any], axis: int, num_keys: int = 1) -> list[Any]:
    """All operands (of one shape) in the order of the first `num_keys` of them, compared lexicographically; stable."""
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"sort_many: num_keys must be between 1 and {len(operands)}, got {num_keys}")
    shape = shape_of(operands[0])
    if any(shape_of(x) != shape for x in operands):
        raise TypeError(f"sort_many: operands must have equal shapes, got {[shape_of(x) for x in operands]}")
    order = argsort_many_p(*operands[:num_keys], axis=axis)
    return [take_along(x, order, axis, unique=True) for x in operands]


# -- the largest


def _top_k_positions(x: Any, k: int) -> Any:
    """For few of many: only what is not below the k-th largest needs sorting."""
    positions = np.empty((*x.shape[:-1], k), np.int64)
    n = x.shape[-1]
    for lane in np.ndindex(x.shape[:-1]):
        row = x[lane]
        (candidates,) = np.nonzero(~(row < np.partition(row, n - k)[n - k]))  # NaN is not below anything
        order = _argsort_impl(np, row[candidates], axis=0, stable=True, descending=True)
        positions[lane] = candidates[order[:k]]
    return positions


def _top_k_impl(xp: Any, x: Any, *, k: int) -> list:
    if xp is np and x.shape[-1] > _LONG and 0 < k <= x.shape[-1] // 8:
        positions = _top_k_positions(x, k)
    else:
        positions = _argsort_impl(xp, x, axis=x.ndim - 1, stable=True, descending=True)[..., :k]
    return [xp.take_along_axis(x, positions, axis=-1), positions]


def _top_k_abstract(x: Aval, *, k: int) -> list:
    if not x.shape or not 0 <= k <= x.shape[-1]:
        raise ValueError(f"top_k: k must be between 0 and the size of the last axis, got k={k} for {x}")
    shape = (*x.shape[:-1], k)
    return [Aval(shape, x.dtype), Aval(shape, _INDEX)]


top_k_p = Primitive(
    "top_k",
    _top_k_impl,
    _top_k_abstract,
    jvp=lambda tangents, out, x, *, k: [take_along(tangents[0], out[1], len(shape_of(x)) - 1, unique=True), None],
    batch=batched_with(lambda: top_k_p),
    multiple=True,
)


def top_k(x: Any, k: int) -> tuple[Any, Any]:
    """The k largest elements along the last axis, largest first, and their positions; NaN counts as the largest.

    Of equal elements the first comes first.
    """
    if not 0 <= k <= (shape_of(x) or (0,))[-1] or not shape_of(x):
        raise ValueError(f"top_k: k must be between 0 and the size of the last axis, got k={k} for shape {shape_of(x)}")
    values, positions = top_k_p(x, k=k)
    return values, positions


# -- searching


def _searchsorted_impl(xp: Any, table: Any, values: Any, *, side: str, lanes: int) -> Any:
    if not lanes:
        return xp.searchsorted(table, values, side=side)
    shape = values.shape
    out = xp.empty(shape, np.int64)
    for lane in np.ndindex(shape[:lanes]):
        out[lane] = xp.searchsorted(table[lane], values[lane], side=side)
    return out


def _searchsorted_abstract(table: Aval, values: Aval, *, side: str, lanes: int) -> Aval:
    if len(table.shape) != lanes + 1 or table.shape[:lanes] != values.shape[:lanes] or table.dtype != values.dtype:
        raise ValueError(f"searchsorted: needs a 1-d table and values of its dtype, got {table} and {values}")
    return Aval(values.shape, _INDEX)


def _searchsorted_batch(size: int, args: Any, batched: Any, *, side: str, lanes: int) -> tuple[Any, bool]:
    if not batched[0] and not lanes:
        return searchsorted(*args, side), True
    return searchsorted_p(*with_lanes(size, args, batched), side=side, lanes=lanes + 1), True


# the table's leading `lanes` axes are separate tables, each for its own values
searchsorted_p = Primitive("searchsorted", _searchsorted_impl, _searchsorted_abstract, batch=_searchsorted_batch)


def searchsorted(table: Any, values: Any, side: str = "left") -> Any:
    """Positions (int64) at which values of the table's dtype would be inserted into a sorted 1-d table; no derivative."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    return searchsorted_p(table, values, side=side, lanes=0)

"""Slices at computed starts, and elements at computed places of each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, aval_of, shape_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.primitives import families
from funcad.primitives.basic_indexing import filled, gather, known_aval, scatter, written
from funcad.primitives.shape import batched_with, broadcast_leading, with_lanes, zeros

# -- which element of each row: indices that have been looked at, and the positions to compare them with
#
# A value placed at one element of each row is `select(checked index == positions, value, 0)`, element operations that a loop
# over rows takes in (passes/scatters.py). Passes alone make these operations, after differentiation.


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
    batch=batched_with(lambda: checked_index_p, shape=lambda size, shape: (size, *shape)),
)

# 0, 1, 2 ...
positions_p = Primitive(
    "positions",
    lambda xp, *, size, dtype: xp.arange(size, dtype=dtype),
    lambda *, size, dtype: Aval((size,), dtype),
    batch=lambda n, args, batched, **params: (broadcast_leading(positions_p(**params), n), True),
)


# -- slices at computed starts, which wrap once if negative and are then clamped so that the slice fits, as in JAX


def _window(xp: Any, starts: Any, sizes: tuple, shape: tuple) -> tuple:
    if xp is not np and any([type(s) is xp.ndarray for s in starts]):
        return _window_on_device(xp, starts, sizes, shape)
    window = []
    for start, k, n in zip(starts, sizes, shape):
        start = int(start)
        start = min(max(start + n if start < 0 else start, 0), n - k)
        window.append(slice(start, start + k))
    return tuple(window)


def _window_on_device(xp: Any, starts: Any, sizes: tuple, shape: tuple) -> tuple:
    """The same as arrays of indices, so that nobody waits for the starts; axes outside of those that are cut stay whole."""
    cut = [axis for axis, (k, n) in enumerate(zip(sizes, shape)) if k != n]
    index: list[Any] = [slice(None)] * len(shape)
    for axis in range(cut[0], cut[-1] + 1) if cut else ():
        places = xp.arange(sizes[axis])
        if axis in cut:
            start, n = xp.asarray(starts[axis]).astype(np.int64, copy=False), shape[axis]
            places = places + xp.clip(xp.where(start < 0, start + n, start), 0, n - sizes[axis])
        index[axis] = places.reshape((sizes[axis],) + (1,) * (cut[-1] - axis))
    return tuple(index)


def _check_window(name: str, x: Aval, starts: tuple, sizes: tuple) -> None:
    if len(starts) != len(x.shape) or len(sizes) != len(x.shape):
        raise TypeError(f"{name}: needs one start and one size per axis of {x}, got {len(starts)} and {sizes}")
    if any(s.shape != () or s.dtype.kind not in "iu" for s in starts):
        raise TypeError(f"{name}: starts must be integer scalars, got {families.avals_text(starts)}")
    if any(not 0 <= k <= n for k, n in zip(sizes, x.shape)):
        raise TypeError(f"{name}: a slice of shape {sizes} does not fit into {x}")


def _dynamic_slice_abstract(x: Aval, *starts: Aval, sizes: tuple) -> Aval:
    _check_window("dynamic_slice", x, starts, sizes)
    return Aval(sizes, x.dtype)


def _window_indices_impl(xp: Any, *starts: Any, sizes: tuple, extents: tuple) -> list:
    lanes = starts[0].ndim
    indices = []
    for axis, (start, k, n) in enumerate(zip(starts, sizes, extents)):
        start = start.astype(np.int64)
        start = xp.clip(xp.where(start < 0, start + n, start), 0, n - k).reshape(start.shape + (1,) * len(sizes))
        offset = xp.arange(k).reshape((k,) + (1,) * (len(sizes) - axis - 1))
        indices.append(xp.broadcast_to(start + offset, start.shape[:lanes] + sizes))
    return indices


# Index arrays of shape (*lanes, *sizes) that address slices whose starts, arrays of shape `lanes`, differ from lane to lane.
window_indices_p = Primitive(
    "window_indices",
    _window_indices_impl,
    lambda *starts, sizes, extents: [Aval(starts[0].shape + sizes, np.dtype(np.int64))] * len(starts),
    batch=batched_with(lambda: window_indices_p),
    multiple=True,
    may_share=True,  # elements that are one in memory: nobody may write over them
)


def _window_indices(size: int, starts: Any, batched: Any, sizes: tuple, shape: tuple) -> list[Any]:
    """Index arrays for the leading axes of a batch of windows, up to the last axis that is not taken whole."""
    n = 1 + max((i for i, (k, m) in enumerate(zip(sizes, shape)) if k != m), default=0)
    return window_indices_p(*with_lanes(size, starts[:n], batched), sizes=sizes[:n], extents=shape[:n])


def _dynamic_slice_batch(size: int, args: Any, batched: Any, *, sizes: tuple) -> tuple[Any, bool]:
    x, *starts = args
    if not any(batched[1:]):
        return dynamic_slice(x, (0, *starts), (size, *sizes)), True
    shape = shape_of(x)[1:] if batched[0] else shape_of(x)
    indices = _window_indices(size, starts, batched[1:], sizes, shape)
    return gather(x, *indices, batch_dims=int(batched[0]), unique=batched[0]), True


def _dynamic_slice_transpose(ct: Any, x: Any, *starts: Any, sizes: tuple) -> list:
    return [dynamic_update_slice(zeros(x.aval), ct, starts), *[None] * len(starts)]


dynamic_slice_p = Primitive(
    "dynamic_slice",
    lambda xp, x, *starts, sizes: x[_window(xp, starts, sizes, x.shape)],
    _dynamic_slice_abstract,
    jvp=lambda tangents, out, x, *starts, sizes: dynamic_slice(tangents[0], starts, sizes),
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
    reach="reads",
    may_share=True,
    adds=lambda ct, x, *starts, sizes: (dynamic_add_p, (ct, *starts), {}),
)


def dynamic_slice(x: Any, starts: Any, sizes: tuple) -> Any:
    """The window of shape `sizes` of x at computed starts (integer scalars), wrapped if negative, then clamped to fit."""
    return dynamic_slice_p(x, *starts, sizes=tuple(sizes))


def _dynamic_update_over(xp: Any, x: Any, u: Any, *starts: Any) -> Any:
    x[_window(xp, starts, u.shape, x.shape)] = u
    return x


def _dynamic_add_over(xp: Any, x: Any, u: Any, *starts: Any) -> Any:
    x[_window(xp, starts, u.shape, x.shape)] += u
    return x


def _dynamic_update_abstract(x: Aval, u: Aval, *starts: Aval) -> Aval:
    _check_window("dynamic_update_slice", x, starts, u.shape)
    if u.dtype != x.dtype:
        raise TypeError(f"dynamic_update_slice: operand and update must have equal dtypes, got {x}, {u}")
    return Aval(x.shape, x.dtype)


def _dynamic_update_jvp(tangents: Any, out: Any, x: Any, u: Any, *starts: Any) -> Any:
    return dynamic_update_slice(*filled(tangents[:2], (x, u)), starts)


def _dynamic_update_transpose(ct: Any, x: Any, u: Any, *starts: Any) -> list:
    aval = known_aval(u)
    ct_u = dynamic_slice(ct, starts, aval.shape) if is_linear(u) else None
    ct_x = dynamic_update_slice(ct, zeros(aval), starts) if is_linear(x) else None
    return [ct_x, ct_u, *[None] * len(starts)]


def _dynamic_update_transpose_over(ct: Any, x: Any, u: Any, *starts: Any) -> list:
    where = _window(np, starts, known_aval(u).shape, ct.shape)
    ct_u = np.array(ct[where]) if is_linear(u) else None
    ct[where] = 0
    return [ct, ct_u, *[None] * len(starts)]


def _batched_windows(primitive: Any, mode: str) -> Callable[..., tuple[Any, bool]]:
    def batch(size: int, args: Any, batched: Any) -> tuple[Any, bool]:
        x, u = with_lanes(size, args[:2], batched)
        starts = args[2:]
        if not any(batched[2:]):
            return primitive()(x, u, 0, *starts), True
        indices = _window_indices(size, starts, batched[2:], shape_of(u)[1:], shape_of(x)[1:])
        return scatter(x, u, *indices, mode=mode, batch_dims=1, unique=True), True

    return batch


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    written(_dynamic_update_over),
    _dynamic_update_abstract,
    jvp=_dynamic_update_jvp,
    transpose=_dynamic_update_transpose,
    batch=_batched_windows(lambda: dynamic_update_slice_p, "set"),
    reach="picks",
    over=_dynamic_update_over,
    transpose_over=_dynamic_update_transpose_over,
)


def _dynamic_add_jvp(tangents: Any, out: Any, x: Any, u: Any, *starts: Any) -> Any:
    tx, tu = tangents[:2]
    if tu is None:
        return tx
    return dynamic_update_slice(zeros(aval_of(x)), tu, starts) if tx is None else dynamic_add_p(tx, tu, *starts)


def _dynamic_add_transpose(ct: Any, x: Any, u: Any, *starts: Any) -> list:
    ct_u = dynamic_slice(ct, starts, u.aval.shape) if is_linear(u) else None
    return [ct if is_linear(x) else None, ct_u, *[None] * len(starts)]


dynamic_add_p = Primitive(  # x with u added at computed starts, as `dynamic_update_slice` has them
    "dynamic_add",
    written(_dynamic_add_over),
    _dynamic_update_abstract,
    jvp=_dynamic_add_jvp,
    transpose=_dynamic_add_transpose,
    batch=_batched_windows(lambda: dynamic_add_p, "add"),
    reach="picks",
    over=_dynamic_add_over,
)


def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    """A copy of x with `update` written at computed starts, wrapped if negative, then clamped to fit."""
    return dynamic_update_slice_p(x, update, *starts)

"""Indexing by known and by computed bounds: basic indices, dynamic slices; gather and scatter are next door (scatter.py).

`basic_index(x, index)` is one equation for everything that NumPy calls basic indexing. `index` is canonical: an int in [0, n),
a triple (start, count, step) per axis that stays, None for a new axis; no Ellipsis, one entry per axis of x. Its transpose is
`basic_place` (zeros but for the selected elements), of which `place_sum` adds up several; `basic_update` writes into a copy.
`dynamic_slice` takes computed starts, which wrap once if negative and are then clamped so that the slice fits, as in JAX.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, aval_of, shape_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.primitives import families
from funcad.primitives.arithmetic import square
from funcad.primitives.families import structural
from funcad.primitives.scatter import fresh
from funcad.primitives.scatter import gather as gather
from funcad.primitives.scatter import scatter as scatter
from funcad.primitives.shape import broadcast_leading, slice_p, transpose, zeros
from funcad.primitives.squares import exact_square


def static_slice(x: Any, start: int, stop: int, axis: int = 0) -> Any:
    """x[start:stop] along one axis, with known bounds."""
    shape = shape_of(x)
    if start == 0 and stop == shape[axis]:
        return x
    starts = tuple([start if i == axis else 0 for i in range(len(shape))])
    limits = tuple([stop if i == axis else n for i, n in enumerate(shape)])
    return slice_p(x, start=starts, limit=limits, strides=None)


# -- basic indices


def python_index(index: tuple) -> tuple:
    """The canonical index as NumPy takes it."""
    result: list = []
    for entry in index:
        if type(entry) is tuple:
            start, count, step = entry
            stop = start + count * step
            entry = slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)
        result.append(entry)
    return tuple(result)


def _basic_shape(index: tuple) -> tuple:
    return tuple([1 if e is None else e[1] for e in index if type(e) is not int])


def _basic_abstract(x: Aval, *, index: tuple) -> Aval:
    if len([e for e in index if e is not None]) != len(x.shape):
        raise IndexError(f"basic_index: the index {index} has not one entry per axis of {x}")
    return Aval(_basic_shape(index), x.dtype)


def _batched_index(size: int, index: tuple) -> tuple:
    return ((0, size, 1), *index)


def _index_impl(xp: Any, x: Any, *, index: tuple) -> Any:
    return x[python_index(index)]


def _place_impl(xp: Any, x: Any, *, index: tuple, shape: tuple) -> Any:
    out = xp.zeros(shape, x.dtype)
    out[python_index(index)] = x
    return out


basic_index_p = structural(
    "basic_index",
    _index_impl,
    _basic_abstract,
    lambda ct, x, *, index: basic_place_p(ct, index=index, shape=x.shape),
    lambda size, x, *, index: basic_index_p(x, index=_batched_index(size, index)),
    silent=True,
    layout=partial(_index_impl, np),
    reach="moves",
    free=True,
)
basic_place_p = structural(  # zeros of a shape, with x at the index
    "basic_place",
    _place_impl,
    lambda x, *, index, shape: Aval(shape, x.dtype),
    lambda ct, x, *, index, shape: basic_index_p(ct, index=index),
    lambda size, x, *, index, shape: basic_place_p(x, index=_batched_index(size, index), shape=(size, *shape)),
    silent=True,
    reach="moves",
)


# -- the sum of several placements, which the compiler makes of additions


@lru_cache(maxsize=512)
def _common_index(indices: tuple, shape: tuple) -> tuple | None:
    """The elements that all canonical indices address, as NumPy takes them; None if there are none."""
    result = []
    for axis, n in enumerate(shape):
        places = set(range(n))
        for index in indices:
            entry = [e for e in index if e is not None][axis]
            start, count, step = (entry, 1, 1) if type(entry) is int else entry
            places &= set(range(start, start + count * step, step))
        if not places:
            return None
        ordered = sorted(places)
        result.append(slice(ordered[0], ordered[-1] + 1, ordered[1] - ordered[0] if len(ordered) > 1 else 1))
    return tuple(result)


def _place_sum_impl(xp: Any, *xs: Any, indices: tuple, shape: tuple) -> Any:
    dtype = xs[0].dtype
    out = xp.zeros(shape, dtype)
    common = _common_index(indices, shape) if dtype.kind in "fc" else None
    if common is not None:  # elsewhere some term adds a zero, so that -0.0 becomes 0.0; here none does
        out[common] = complex(-0.0, -0.0) if dtype.kind == "c" else -0.0
    for x, index in zip(xs, indices):
        out[python_index(index)] += x
    return out


def _place_sum_abstract(*avals: Aval, indices: tuple, shape: tuple) -> Aval:
    for x, index in zip(avals, indices, strict=True):
        axes = len([e for e in index if e is not None])
        if x.shape != _basic_shape(index) or x.dtype != avals[0].dtype or axes != len(shape):
            raise TypeError(f"place_sum: {x} does not fit at {index} of shape {shape}, or has not the others' dtype")
    return Aval(shape, avals[0].dtype)


def _place_sum_jvp(tangents: Any, out: Any, *xs: Any, indices: tuple, shape: tuple) -> Any:
    terms = [(t, index) for t, index in zip(tangents, indices) if t is not None]
    return place_sum_p(*[t for t, _ in terms], indices=tuple([index for _, index in terms]), shape=shape)


def _place_sum_transpose(ct: Any, *xs: Any, indices: tuple, shape: tuple) -> list:
    return [basic_index_p(ct, index=i) if is_linear(x) else None for x, i in zip(xs, indices)]


def _place_sum_batch(size: int, args: Any, batched: Any, *, indices: tuple, shape: tuple) -> tuple[Any, bool]:
    xs = [a if b else broadcast_leading(a, size) for a, b in zip(args, batched)]
    return place_sum_p(*xs, indices=tuple([_batched_index(size, i) for i in indices]), shape=(size, *shape)), True


place_sum_p = Primitive(  # basic_place of each operand at its index, added up from the left, in one array
    "place_sum",
    _place_sum_impl,
    _place_sum_abstract,
    jvp=_place_sum_jvp,
    transpose=_place_sum_transpose,
    batch=_place_sum_batch,
    reach="picks",
)


# -- arrays of one shape side by side, which compiled programs make of reshapes and a concatenation


def _stack_impl(xp: Any, *xs: Any, axis: int) -> Any:
    shape = xs[0].shape
    if xp is np and not shape:
        return np.array(xs, xs[0].dtype)
    grown = (*shape[:axis], 1, *shape[axis:])
    return xp.concatenate([xp.asarray(x).reshape(grown) for x in xs], axis)


def _stack_abstract(*avals: Aval, axis: int) -> Aval:
    first = avals[0]
    if any([a.shape != first.shape or a.dtype != first.dtype for a in avals]):
        raise TypeError(f"stack: operands must have equal shapes and dtypes, got {families.avals_text(avals)}")
    return Aval((*first.shape[:axis], len(avals), *first.shape[axis:]), first.dtype)


def _stack_transpose(ct: Any, *xs: Any, axis: int) -> list:
    whole = [(0, n, 1) for n in shape_of(ct)]
    before, after = whole[:axis], whole[axis + 1 :]
    return [basic_index_p(ct, index=(*before, i, *after)) if is_linear(x) else None for i, x in enumerate(xs)]


def _stack_batch(size: int, args: Any, batched: Any, *, axis: int) -> tuple[Any, bool]:
    return stack_p(*[a if b else broadcast_leading(a, size) for a, b in zip(args, batched)], axis=axis + 1), True


def _stack_square(*xs: Any, axis: int) -> Any:
    found = [exact_square(x) for x in xs]
    if all([s is None for s in found]):
        return None
    return stack_p(*[square(x) if s is None else s for x, s in zip(xs, found)], axis=axis)


stack_p = Primitive(
    "stack",
    _stack_impl,
    _stack_abstract,
    jvp=lambda tangents, out, *xs, axis: stack_p(*_filled(tangents, xs), axis=axis),
    transpose=_stack_transpose,
    batch=_stack_batch,
    square=_stack_square,
    reach="moves",
)


def basic_index(x: Any, index: tuple) -> Any:
    """x at a canonical basic index; see the module's text."""
    return basic_index_p(x, index=index)


def _update_impl(xp: Any, x: Any, u: Any, *, index: tuple) -> Any:
    out = fresh(xp, x)
    out[python_index(index)] = u
    return out[()] if xp is np and not out.ndim else out


def _update_abstract(x: Aval, u: Aval, *, index: tuple) -> Aval:
    expected = _basic_abstract(x, index=index)
    if u.shape != expected.shape or u.dtype != x.dtype:
        raise TypeError(f"basic_update: the update must be {expected}, got {u}")
    return Aval(x.shape, x.dtype)


def _filled(tangents: Any, primals: Any) -> list:
    return [zeros(aval_of(p)) if t is None else t for t, p in zip(tangents, primals)]


def _known_aval(x: Any) -> Any:
    return x.aval if is_linear(x) else aval_of(x)


def _update_transpose(ct: Any, x: Any, u: Any, *, index: tuple) -> list:
    ct_x = basic_update(ct, zeros(_known_aval(u)), index) if is_linear(x) else None
    return [ct_x, basic_index(ct, index) if is_linear(u) else None]


basic_update_p = Primitive(
    "basic_update",
    _update_impl,
    _update_abstract,
    jvp=lambda tangents, out, x, u, *, index: basic_update(*_filled(tangents, (x, u)), index),
    transpose=_update_transpose,
    batch=lambda size, args, batched, *, index: (
        basic_update(*[a if b else broadcast_leading(a, size) for a, b in zip(args, batched)], _batched_index(size, index)),
        True,
    ),
    reach="picks",
)


def basic_update(x: Any, update: Any, index: tuple) -> Any:
    """A copy of x in which the elements at a canonical basic index are those of `update`."""
    return basic_update_p(x, update, index=index)


# -- dynamic slices


def _window(xp: Any, starts: Any, sizes: tuple, shape: tuple) -> tuple:
    if xp is not np and len(starts) > 1:  # from the device all in one go
        starts = xp.stack([xp.asarray(s).astype(np.int64) for s in starts]).tolist()
    window = []
    for start, k, n in zip(starts, sizes, shape):
        start = int(start)
        start = min(max(start + n if start < 0 else start, 0), n - k)
        window.append(slice(start, start + k))
    return tuple(window)


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


def _window_indices_batch(size: int, starts: Any, batched: Any, **params: Any) -> tuple[list, list]:
    starts = [s if b else broadcast_leading(s, size) for s, b in zip(starts, batched)]
    return window_indices_p(*starts, **params), [True] * len(starts)


# Index arrays of shape (*lanes, *sizes) that address slices whose starts, arrays of shape `lanes`, differ from lane to lane.
window_indices_p = Primitive(
    "window_indices",
    _window_indices_impl,
    lambda *starts, sizes, extents: [Aval(starts[0].shape + sizes, np.dtype(np.int64))] * len(starts),
    batch=_window_indices_batch,
    multiple=True,
)


def _window_indices(size: int, starts: Any, batched: Any, sizes: tuple, shape: tuple) -> list[Any]:
    """Index arrays for the leading axes of a batch of windows, up to the last axis that is not taken whole."""
    n = 1 + max((i for i, (k, m) in enumerate(zip(sizes, shape)) if k != m), default=0)
    starts = [s if b else broadcast_leading(s, size) for s, b in zip(starts[:n], batched)]
    return window_indices_p(*starts, sizes=sizes[:n], extents=shape[:n])


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
)


def dynamic_slice(x: Any, starts: Any, sizes: tuple) -> Any:
    """The window of shape `sizes` of x at computed starts (integer scalars), wrapped if negative, then clamped to fit."""
    return dynamic_slice_p(x, *starts, sizes=tuple(sizes))


def _dynamic_update_impl(xp: Any, x: Any, u: Any, *starts: Any) -> Any:
    out = fresh(xp, x)
    out[_window(xp, starts, u.shape, x.shape)] = u
    return out[()] if xp is np and not out.ndim else out


def _dynamic_update_abstract(x: Aval, u: Aval, *starts: Aval) -> Aval:
    _check_window("dynamic_update_slice", x, starts, u.shape)
    if u.dtype != x.dtype:
        raise TypeError(f"dynamic_update_slice: operand and update must have equal dtypes, got {x}, {u}")
    return Aval(x.shape, x.dtype)


def _dynamic_update_jvp(tangents: Any, out: Any, x: Any, u: Any, *starts: Any) -> Any:
    return dynamic_update_slice(*_filled(tangents[:2], (x, u)), starts)


def _dynamic_update_transpose(ct: Any, x: Any, u: Any, *starts: Any) -> list:
    aval = _known_aval(u)
    ct_x = dynamic_update_slice(ct, zeros(aval), starts) if is_linear(x) else None
    return [ct_x, dynamic_slice(ct, starts, aval.shape) if is_linear(u) else None, *[None] * len(starts)]


def _dynamic_update_batch(size: int, args: Any, batched: Any) -> tuple[Any, bool]:
    x, u = [a if b else broadcast_leading(a, size) for a, b in zip(args[:2], batched)]
    starts = args[2:]
    if not any(batched[2:]):
        return dynamic_update_slice(x, u, (0, *starts)), True
    indices = _window_indices(size, starts, batched[2:], shape_of(u)[1:], shape_of(x)[1:])
    return scatter(x, u, *indices, batch_dims=1, unique=True), True


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    _dynamic_update_impl,
    _dynamic_update_abstract,
    jvp=_dynamic_update_jvp,
    transpose=_dynamic_update_transpose,
    batch=_dynamic_update_batch,
    reach="picks",
)


def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    """A copy of x with `update` written at computed starts, wrapped if negative, then clamped to fit."""
    return dynamic_update_slice_p(x, update, *starts)


def take_along(x: Any, indices: Any, axis: int, *, unique: bool = False) -> Any:
    """x at an integer array of x's rank: along `axis` the elements that it names, along the others its own position."""
    ndim = len(shape_of(x))
    if axis == ndim - 1:
        return gather(x, indices, batch_dims=axis, unique=unique)
    perm = tuple([i for i in range(ndim) if i != axis] + [axis])
    back = tuple([perm.index(i) for i in range(ndim)])
    out = gather(transpose(x, perm=perm), transpose(indices, perm=perm), batch_dims=ndim - 1, unique=unique)
    return transpose(out, perm=back)

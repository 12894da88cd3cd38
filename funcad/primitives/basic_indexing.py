"""Indexing by known bounds; gather and scatter are next door (scatter.py), and so are slices at computed starts.

`basic_index(x, index)` is one equation for everything that NumPy calls basic indexing. `index` is canonical: an int in [0, n),
a triple (start, count, step) per axis that stays, None for a new axis; no Ellipsis, one entry per axis of x. Its transpose is
`basic_place` (zeros but for the selected elements), of which `place_sum` adds up several. `basic_update` writes elements of a
copy, and `basic_add` adds to them.
"""

from __future__ import annotations

from collections.abc import Callable
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


def are_apart(a: tuple, b: tuple) -> bool:
    """Do two canonical indices of one array have no element in common, as the bounds along one axis show?"""
    for e, f in zip([e for e in a if e is not None], [f for f in b if f is not None]):
        if (type(e) is tuple and not e[1]) or (type(f) is tuple and not f[1]):  # none at all
            return True
        (first, last), (start, stop) = _bounds(e), _bounds(f)
        if last < start or stop < first:
            return True
    return False


def _bounds(entry: Any) -> tuple[int, int]:
    if type(entry) is int:
        return entry, entry
    start, count, step = entry
    end = start + (count - 1) * step
    return (start, end) if step > 0 else (end, start)


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
    adds=lambda ct, x, *, index: (basic_add_p, (ct,), {"index": index}),
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
    jvp=lambda tangents, out, *xs, axis: stack_p(*filled(tangents, xs), axis=axis),
    transpose=_stack_transpose,
    batch=_stack_batch,
    square=_stack_square,
    reach="moves",
)


def basic_index(x: Any, index: tuple) -> Any:
    """x at a canonical basic index; see the module's text."""
    return basic_index_p(x, index=index)


def _update_over(xp: Any, x: Any, u: Any, *, index: tuple) -> Any:
    x[python_index(index)] = u
    return x


def _add_over(xp: Any, x: Any, u: Any, *, index: tuple) -> Any:
    x[python_index(index)] += u
    return x


def written(over: Callable[..., Any]) -> Callable[..., Any]:
    """The implementation of what writes over its first operand: into a copy."""

    def impl(xp: Any, x: Any, *operands: Any, **params: Any) -> Any:
        out = over(xp, fresh(xp, x), *operands, **params)
        return out[()] if xp is np and not out.ndim else out

    return impl


def _update_abstract(x: Aval, u: Aval, *, index: tuple) -> Aval:
    expected = _basic_abstract(x, index=index)
    if u.shape != expected.shape or u.dtype != x.dtype:
        raise TypeError(f"basic_update: the update must be {expected}, got {u}")
    return Aval(x.shape, x.dtype)


def filled(tangents: Any, primals: Any) -> list:
    return [zeros(aval_of(p)) if t is None else t for t, p in zip(tangents, primals)]


def known_aval(x: Any) -> Any:
    return x.aval if is_linear(x) else aval_of(x)


def _update_transpose(ct: Any, x: Any, u: Any, *, index: tuple) -> list:
    ct_u = basic_index(ct, index) if is_linear(u) else None  # read first, so that ct may be written over
    return [basic_update(ct, zeros(known_aval(u)), index) if is_linear(x) else None, ct_u]


def _update_transpose_over(ct: Any, x: Any, u: Any, *, index: tuple) -> list:
    where = python_index(index)
    ct_u = np.array(ct[where])[()] if is_linear(u) else None
    ct[where] = 0
    return [ct, ct_u]


def _batched_write(primitive: Any) -> Callable[..., tuple[Any, bool]]:
    def batch(size: int, args: Any, batched: Any, *, index: tuple) -> tuple[Any, bool]:
        args = [a if b else broadcast_leading(a, size) for a, b in zip(args, batched)]
        return primitive()(*args, index=_batched_index(size, index)), True

    return batch


basic_update_p = Primitive(
    "basic_update",
    written(_update_over),
    _update_abstract,
    jvp=lambda tangents, out, x, u, *, index: basic_update(*filled(tangents, (x, u)), index),
    transpose=_update_transpose,
    batch=_batched_write(lambda: basic_update_p),
    reach="picks",
    over=_update_over,
    transpose_over=_update_transpose_over,
)


def _add_jvp(tangents: Any, out: Any, x: Any, u: Any, *, index: tuple) -> Any:
    tx, tu = tangents
    if tx is None:
        return basic_place_p(tu, index=index, shape=shape_of(x))
    return tx if tu is None else basic_add_p(tx, tu, index=index)


basic_add_p = Primitive(  # x with u added to the elements at a basic index
    "basic_add",
    written(_add_over),
    _update_abstract,
    jvp=_add_jvp,
    transpose=lambda ct, x, u, *, index: [ct if is_linear(x) else None, basic_index(ct, index) if is_linear(u) else None],
    batch=_batched_write(lambda: basic_add_p),
    reach="picks",
    over=_add_over,
)


def _slice_adds(ct: Any, x: Any, *, start: tuple, limit: tuple, strides: tuple | None) -> tuple:
    steps = strides or (1,) * len(start)
    return basic_add_p, (ct,), {"index": tuple(zip(start, shape_of(ct), steps))}


slice_p.adds = _slice_adds  # here, because slices come before indices


def basic_update(x: Any, update: Any, index: tuple) -> Any:
    """A copy of x in which the elements at a canonical basic index are those of `update`."""
    return basic_update_p(x, update, index=index)


def take_along(x: Any, indices: Any, axis: int, *, unique: bool = False) -> Any:
    """x at an integer array of x's rank: along `axis` the elements that it names, along the others its own position."""
    ndim = len(shape_of(x))
    if axis == ndim - 1:
        return gather(x, indices, batch_dims=axis, unique=unique)
    perm = tuple([i for i in range(ndim) if i != axis] + [axis])
    back = tuple([perm.index(i) for i in range(ndim)])
    out = gather(transpose(x, perm=perm), transpose(indices, perm=perm), batch_dims=ndim - 1, unique=unique)
    return transpose(out, perm=back)

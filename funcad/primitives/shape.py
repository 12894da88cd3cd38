"""Shape: broadcast_in_dim, reshape, transpose ... All are linear and structural; the first two stand in families.py.

`broadcast_in_dim(x, shape, axes)` puts axis i of x at `axes[i]` of the result (size 1 may grow); it is the only way in which
an operand changes its shape to meet another. Its transpose is a sum over the axes that were added or grown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.host.real_types import COMPUTED
from funcad.ir.aval import Aval, Params, aval_of, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import stage_constants
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import add, square, sub
from funcad.primitives.conversion import convert
from funcad.primitives.families import avals_text, broadcast_in_dim, exact_square, structural, sum_tangents
from funcad.primitives.families import reshape as reshape


def broadcast_leading(x: Any, size: int) -> Any:
    """`size` equal copies along a new axis 0."""
    shape = shape_of(x)
    return broadcast_in_dim(x, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))


def with_lanes(size: int, args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Operands that all have the batch axis."""
    return [a if b else broadcast_leading(a, size) for a, b in zip(args, batched)]


def batched_with(primitive: Callable[[], Primitive], **moved: Callable[[int, Any], Any]) -> Callable[..., tuple[Any, Any]]:
    """The batch rule of an operation that is itself on operands with a new axis 0, but for params: `moved(size, value)`."""

    def batch(size: int, args: Sequence[Any], batched: Sequence[bool], /, **params: Any) -> tuple[Any, Any]:
        params.update({name: move(size, params[name]) for name, move in moved.items()})
        out = primitive()(*with_lanes(size, args, batched), **params)
        return out, [True] * len(out) if primitive().multiple else True

    return batch


def multilinear(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """The jvp of an operation that is linear in each of its operands."""

    def jvp(tangents: Sequence[Any], out: Any, *xs: Any, **params: Any) -> Any:
        terms = [None if t is None else primitive()(*xs[:i], t, *xs[i + 1 :], **params) for i, t in enumerate(tangents)]
        return sum_tangents(terms, add)

    return jvp


def next_axis(size: int, axis: int) -> int:
    return axis + 1


def next_axes(size: int, axes: tuple) -> tuple:
    return tuple([a + 1 for a in axes])


def broadcast_to(x: Any, shape: tuple) -> Any:
    """NumPy's broadcasting: axes aligned at the right. A no-op when the shape is right already."""
    own = shape_of(x)
    if own == shape:
        return x
    if shape and min(shape) < 0:
        raise ValueError("all elements of broadcast shape must be non-negative")
    offset = len(shape) - len(own)
    return broadcast_in_dim(x, shape=shape, axes=tuple(range(offset, len(shape))))


def beside(x: Any, other: Any) -> Any:
    """An operand for a rule that computes with it alone: a scalar whose value is not known takes the other operand's shape."""
    if type(x) is not Tracer or x.shape or not shape_of(other):
        return x
    return broadcast_in_dim(convert(x, dtype_of(other)), shape=shape_of(other), axes=())


def shape_of_two(a: tuple, b: tuple) -> tuple:
    """`np.broadcast_shapes` without building arrays; the error of NumPy's operators where they do not fit."""
    first, second = a, b
    if len(a) < len(b):
        a, b = b, a
    lead = len(a) - len(b)
    tail = [m if n == 1 else n for n, m in zip(a[lead:], b)]
    if any([m != 1 and m != n for n, m in zip(tail, b)]):
        texts = [f"({','.join(map(str, s))}{',' if len(s) == 1 else ''})" for s in (first, second)]
        raise ValueError(f"operands could not be broadcast together with shapes {' '.join(texts)} ")
    return (*a[:lead], *tail)


def full(aval: Any, value: Any) -> Any:
    """A (read-only, stride-0) array filled with one value, in the aval's dtype."""
    return broadcast_in_dim.impl(np, np.asarray(value, aval.dtype), shape=aval.shape, axes=())


def zeros(aval: Any) -> Any:
    return full(aval, 0)


def constant_beside(values: Sequence[Any], aval: Any, number: int) -> Any:
    """The same number everywhere; recorded where the values are, and so known: a captured array could hold anything."""
    scalar = aval.dtype.type(number)
    if not aval.shape:
        return scalar  # a literal
    stage = stage_constants(values)
    if stage is None:
        return full(aval, number)
    return stage.record(broadcast_in_dim, (scalar,), {"shape": aval.shape, "axes": ()})


transpose = structural(
    "transpose",
    lambda xp, x, *, perm: x.transpose(perm),
    lambda x, *, perm: Aval(tuple([x.shape[i] for i in perm]), x.dtype),
    lambda ct, x, *, perm: transpose(ct, perm=tuple(int(i) for i in np.argsort(perm))),
    lambda size, x, *, perm: transpose(x, perm=(0, *[i + 1 for i in perm])),
    silent=True,
    ready=lambda x, *, perm: lambda x: x.transpose(perm),
    layout=lambda x, *, perm: x.transpose(perm),
    reach="moves",
    free=True,
)


def _concatenate_abstract(*avals: Aval, axis: int) -> Aval:
    first = avals[0]
    for a in avals:
        if a.dtype != first.dtype or len(a.shape) != len(first.shape):
            raise TypeError(f"concatenate: operands must have equal dtypes and ranks, got {avals_text(avals)}")
        if any(n != m for i, (n, m) in enumerate(zip(a.shape, first.shape)) if i != axis):
            raise ValueError(f"concatenate: operands may differ only along axis {axis}, got {avals_text(avals)}")
    total = sum(a.shape[axis] for a in avals)
    return Aval((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _concatenate_jvp(tangents: Any, out: Any, *primals: Any, axis: int) -> Any:
    filled = [zeros(aval_of(p)) if t is None else t for t, p in zip(tangents, primals)]
    return concatenate(filled, axis=axis)


def _concatenate_transpose(ct: Any, *xs: Any, axis: int) -> list:
    result, start = [], 0
    shape = shape_of(ct)
    for x in xs:
        n = shape_of(x.aval if is_linear(x) else x)[axis]
        if is_linear(x):
            starts = tuple([start if i == axis else 0 for i in range(len(shape))])
            limits = tuple([start + n if i == axis else m for i, m in enumerate(shape)])
            result.append(slice_p(ct, start=starts, limit=limits, strides=None))
        else:
            result.append(None)
        start += n
    return result


def _concatenate_square(*xs: Any, axis: int) -> Any:
    found = [exact_square(x) for x in xs]
    if all([s is None for s in found]):
        return None
    return concatenate([square(x) if s is None else s for x, s in zip(xs, found)], axis=axis)


concatenate_p = Primitive(
    "concatenate",
    lambda xp, *xs, axis: xp.concatenate(xs, axis=axis),
    _concatenate_abstract,
    jvp=_concatenate_jvp,
    transpose=_concatenate_transpose,
    batch=batched_with(lambda: concatenate_p, axis=next_axis),
    square=_concatenate_square,
    ready=lambda *avals, axis: lambda *xs: np.concatenate(xs, axis),
    reach="moves",
)


def concatenate(xs: Any, *, axis: int) -> Any:
    """Join arrays of equal dtype along an axis."""
    return concatenate_p(*xs, axis=axis)


def _slice_index(start: tuple, limit: tuple, strides: tuple | None) -> tuple:
    return tuple([slice(s, e, k) for s, e, k in zip(start, limit, strides or (1,) * len(start))])


def _slice_abstract(x: Aval, *, start: tuple, limit: tuple, strides: tuple | None) -> Aval:
    steps = strides or (1,) * len(start)
    for s, e, k, n in zip(start, limit, steps, x.shape):
        if not (0 <= s <= e <= n and k > 0):
            raise ValueError(f"slice: start={start}, limit={limit}, strides={strides} do not fit {x}")
    return Aval(tuple([max(0, -(-(e - s) // k)) for s, e, k in zip(start, limit, steps)]), x.dtype)


def _slice_transpose(ct: Any, x: Aval, *, start: tuple, limit: tuple, strides: tuple | None) -> Any:
    steps = strides or (1,) * len(start)
    low, high = start, []
    for s, k, n, m in zip(start, steps, x.shape, shape_of(ct)):
        high.append(n - s - (m - 1) * k - 1 if m else n - s)
    return pad_p(ct, low=low, high=tuple(high), interior=tuple([k - 1 for k in steps]))


def _slice_batch(size: int, x: Any, *, start: tuple, limit: tuple, strides: tuple | None) -> Any:
    return slice_p(x, start=(0, *start), limit=(size, *limit), strides=strides and (1, *strides))


def _slice_impl(xp: Any, x: Any, *, start: tuple, limit: tuple, strides: tuple | None) -> Any:
    return x[_slice_index(start, limit, strides)]


def _slice_ready(x: Aval, *, start: tuple, limit: tuple, strides: tuple | None) -> Any:
    index = _slice_index(start, limit, strides)
    return lambda x: x[index]


slice_p = structural(
    "slice",
    _slice_impl,
    _slice_abstract,
    _slice_transpose,
    _slice_batch,
    silent=True,
    ready=_slice_ready,
    layout=partial(_slice_impl, np),
    reach="moves",
    free=True,
)


def static_slice(x: Any, start: int, stop: int, axis: int = 0) -> Any:
    """x[start:stop] along one axis, with known bounds."""
    shape = shape_of(x)
    if start == 0 and stop == shape[axis]:
        return x
    starts = tuple([start if i == axis else 0 for i in range(len(shape))])
    limits = tuple([stop if i == axis else n for i, n in enumerate(shape)])
    return slice_p(x, start=starts, limit=limits, strides=None)


def permute(x: Any, perm: Sequence[int]) -> Any:
    """`transpose`, or x itself if nothing moves."""
    perm = tuple(perm)
    return x if perm == tuple(range(len(perm))) else transpose(x, perm=perm)


def move_axis(x: Any, source: int, destination: int) -> Any:
    """One axis moved, the others in their order."""
    perm = [i for i in range(len(shape_of(x))) if i != source]
    perm.insert(destination, source)
    return permute(x, perm)


def _pad_impl(xp: Any, x: Any, *, low: tuple, high: tuple, interior: tuple) -> Any:
    out = xp.zeros(_padded_shape(x.shape, low, high, interior), x.dtype)
    out[pad_index(x.shape, low, high, interior)] = x
    return out


def pad_index(shape: tuple, low: tuple, high: tuple, interior: tuple) -> tuple:
    """Where the elements go."""
    return tuple([slice(a, a + (n - 1) * (k + 1) + 1 if n else a, k + 1) for a, n, k in zip(low, shape, interior)])


def _padded_shape(shape: tuple, low: tuple, high: tuple, interior: tuple) -> tuple:
    return tuple([a + b + n + max(0, n - 1) * k for n, a, b, k in zip(shape, low, high, interior)])


def _pad_transpose(ct: Any, x: Aval, *, low: tuple, high: tuple, interior: tuple) -> Any:
    limit = tuple([a + (n - 1) * (k + 1) + 1 if n else a for a, n, k in zip(low, x.shape, interior)])
    return slice_p(ct, start=low, limit=limit, strides=tuple([k + 1 for k in interior]))


pad_p = structural(  # zeros around (low, high >= 0) and between (interior) the elements
    "pad",
    _pad_impl,
    lambda x, *, low, high, interior: Aval(_padded_shape(x.shape, low, high, interior), x.dtype),
    _pad_transpose,
    lambda size, x, *, low, high, interior: pad_p(x, low=(0, *low), high=(0, *high), interior=(0, *interior)),
    silent=True,
    reach="moves",
)


def _rev_impl(xp: Any, x: Any, *, axes: tuple) -> Any:
    return x[tuple([slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim)])]


rev_p = structural(
    "rev",
    _rev_impl,
    lambda x, *, axes: Aval(x.shape, x.dtype),
    lambda ct, x, *, axes: rev(ct, axes=axes),
    lambda size, x, *, axes: rev(x, axes=tuple([a + 1 for a in axes])),
    silent=True,
    layout=partial(_rev_impl, np),
    reach="moves",
    free=True,
)


def _roll_impl(xp: Any, x: Any, *, shift: int, axis: int) -> Any:
    before, cut = (slice(None),) * axis, x.shape[axis] - shift
    return xp.concatenate([x[(*before, slice(cut, None))], x[(*before, slice(0, cut))]], axis)


roll_p = structural(  # stencils are made of it: one operation where slices and a concatenation were three
    "roll",
    _roll_impl,
    lambda x, *, shift, axis: Aval(x.shape, x.dtype),
    lambda ct, x, *, shift, axis: roll(ct, shift=-shift, axis=axis),
    lambda size, x, *, shift, axis: roll(x, shift=shift, axis=axis + 1),
    silent=True,
    reach="moves",
)


def roll(x: Any, *, shift: int, axis: int) -> Any:
    """x with its elements moved `shift` places along one axis; those that leave come in at the other end."""
    shift %= max(shape_of(x)[axis], 1)
    return roll_p(x, shift=shift, axis=axis) if shift else x


def rev(x: Any, *, axes: tuple) -> Any:
    """x with the order of its elements reversed along axes."""
    return rev_p(x, axes=axes) if axes else x


def pad(x: Any, *, low: tuple, high: tuple, interior: tuple | None = None) -> Any:
    """x with zeros around it (low, high >= 0 per axis) and between its elements (interior >= 0)."""
    return pad_p(x, low=low, high=high, interior=interior or (0,) * len(low))


# -- tangents by rules


def rule_of(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: Params, shape: Any = None
) -> Any:
    """The tangent by the primitive's rule; `shape`: of the result, where NumPy broadcast the primals itself."""
    if shape is not None:
        if primitive is not add and primitive is not sub:  # their rules read tangents only
            primals = [p if p.shape == shape else broadcast_to(p, shape) for p in primals]
        tangents = [t if t is None or t.shape == shape else broadcast_to(t, shape) for t in tangents]
    return primitive.jvp(tangents, out, *primals, **params)


def moves_within(primitive: Primitive, primals: Sequence[Any], out: Any) -> bool:
    """Does it only move numbers of an array that has been computed, and add no zeros to them, so that no mask begins?"""
    if not primitive.structural or primitive.reach != "moves":
        return False
    x = primals[0]
    return type(out) in COMPUTED and type(x) in COMPUTED and bool(out.size <= x.size)

"""Joining and splitting arrays, repeating and padding them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, mirrors, named_after
from funcad.errors import TracerIntegerConversionError
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value, has_value
from funcad.numpy import indexing
from funcad.numpy.dispatch import anew, implements, laid_out, where_am_i
from funcad.primitives.basic_indexing import stack_p
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of, put
from funcad.primitives.shape import broadcast_in_dim, full, move_axis, pad_p, reshape, static_slice
from funcad.primitives.shape import concatenate as _concatenate
from funcad.primitives.shape import roll as _roll

from funcad.numpy.promote import (  # isort: skip
    apart, array_of, arrays, axis_of, beside, expand, one_dtype, promote_dtype, ravelled, result_dtype, shape_argument,
)

index_plan, shaping = OnDemand("funcad.numpy.index_plan"), OnDemand("funcad.numpy.shaping")
value_reads = OnDemand("funcad.api.value_reads")


def _in_one_dtype(arrays: Sequence[Any], dtype: Any) -> list[Any]:
    if dtype is None and one_dtype(arrays):
        return list(arrays)
    target = result_dtype(arrays)[0] if dtype is None else np.dtype(dtype)
    for own in [aval_of(a).dtype for a in arrays] if dtype is not None else []:
        if not np.can_cast(own, target, "same_kind"):
            raise TypeError(f"Cannot cast array data from {own!r} to {target!r} according to the rule 'same_kind'")
    return promote_dtype(arrays, target)


def join(arrays: Sequence[Any], axis: int, dtype: Any = None) -> Any:
    """Concatenate arrays of any dtypes, promoted."""
    arrays = _in_one_dtype(arrays, dtype)
    return laid_out(arrays[0], "K") if len(arrays) == 1 else _concatenate(arrays, axis=axis)


def sequence(arrays: Any, name: str) -> list[Any]:
    """The arrays of a sequence argument; an array stands for its rows."""
    if not isinstance(arrays, (list, tuple)) and not hasattr(arrays, "__getitem__"):
        raise TypeError(f"{name} takes a sequence of arrays, got {type(arrays).__name__}")
    result = [array_of(a) for a in arrays]
    if not result:
        raise ValueError(
            "need at least one array to concatenate" if name == "concatenate" else f"need at least one array to {name}"
        )
    return result


@implements("concatenate", "concat", by_kind=True)
@apart
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    xs = _cast(sequence(arrays, "concatenate"), dtype, casting)
    if axis is None:
        return join([ravelled(x) for x in xs], 0, dtype)
    shapes = [shape_of(x) for x in xs]
    if () in shapes:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = axis_of(axis, len(shapes[0]))
    if len({(len(s), *s[:axis], *s[axis + 1 :]) for s in shapes}) > 1:
        np.concatenate([np.broadcast_to(False, s) for s in shapes], axis)  # NumPy's error
    return join(xs, axis, dtype)


@implements("stack", by_kind=True)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    xs = _cast(sequence(arrays, "stack"), dtype, casting)
    shapes = {shape_of(x) for x in xs}
    if len(shapes) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis = axis_of(axis, len(shapes.pop()) + 1)
    if len(xs) > 1 and any([type(x) is Tracer and (x.owner.tape is not None or has_value(x)) for x in xs]):
        return stack_p(*_in_one_dtype(xs, dtype), axis=axis)
    return join([expand(x, (axis,)) for x in xs], axis, dtype)


def _cast(xs: list[Any], dtype: Any, casting: Any) -> list[Any]:
    """The arrays in the result's dtype, by a rule that is not the usual one; or NumPy's error."""
    if casting == "same_kind":
        return xs
    made = np.concatenate([np.empty(0, aval_of(x).dtype) for x in xs], dtype=dtype, casting=casting)
    return promote_dtype(xs, made.dtype)


def _each(function: Any, arrays: Any, name: str) -> list[Any]:
    return [function(x) for x in sequence(arrays, name)]


@implements("vstack", by_kind=True)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return concatenate(_each(shaping.atleast_2d, tup, "vstack"), 0, dtype=dtype, casting=casting)


@implements("hstack", by_kind=True)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    xs = _each(shaping.atleast_1d, tup, "hstack")
    return concatenate(xs, 0 if len(shape_of(xs[0])) == 1 else 1, dtype=dtype, casting=casting)


@implements("dstack", by_kind=True)
def dstack(tup: Any) -> Any:
    return concatenate(_each(shaping.atleast_3d, tup, "dstack"), 2)


@implements("column_stack", by_kind=True)
def column_stack(tup: Any) -> Any:
    xs = [reshape(x, shape=(aval_of(x).size, 1)) if len(shape_of(x)) < 2 else x for x in sequence(tup, "column_stack")]
    return concatenate(xs, 1)


@implements("append", by_kind=True)
@apart
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is None:
        return join([ravelled(array_of(arr)), ravelled(array_of(values))], 0)
    return concatenate([arr, values], axis=axis)


@implements("block")
@arrays
def block(arrays: Any) -> Any:
    """`numpy.block`: nested lists, the innermost joined along the last axis."""

    def depth(x: Any) -> int:
        levels = {depth(v) for v in x} if isinstance(x, list) else {-1}
        if len(levels) > 1:
            raise ValueError("List depths are mismatched.")
        return 1 + max(levels)

    levels = depth(arrays)

    def leaves(x: Any) -> Any:
        return [v for item in x for v in leaves(item)] if isinstance(x, list) else [array_of(x)]

    ndim = max(levels, *[len(shape_of(x)) for x in leaves(arrays)])

    def build(x: Any, level: int) -> Any:
        if not isinstance(x, list):
            x = array_of(x)
            return reshape(x, shape=(1,) * (ndim - len(shape_of(x))) + shape_of(x))
        if not x:
            raise ValueError("List cannot be empty")
        return concatenate([build(v, level + 1) for v in x], axis=level - levels)

    return build(arrays, 0)


# -- splitting


@implements("array_split", alias="view")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list:
    x = array_of(ary)
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    if np.ndim(indices_or_sections):
        points = [int(i) for i in indices_or_sections]
        bounds = [slice(a, b).indices(n) for a, b in zip([0, *points], [*points, n])]
        return [static_slice(x, a, max(a, b), axis) for a, b, _ in bounds]
    sections = int(indices_or_sections)
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    small, larger = divmod(n, sections)
    stops = np.cumsum([0, *[small + 1] * larger, *[small] * (sections - larger)]).tolist()
    return [static_slice(x, a, b, axis) for a, b in zip(stops, stops[1:])]


@implements("split", alias="view")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list:
    x = array_of(ary)
    if not np.ndim(indices_or_sections):
        n = shape_of(x)[axis_of(axis, len(shape_of(x)))]
        if n % int(indices_or_sections):
            raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


def _directed(name: str, x: Any, sections: Any, axis: int, least: int) -> list:
    x = array_of(x)
    if len(shape_of(x)) < least:
        raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
    return split(x, sections, axis)


@implements("hsplit", alias="view")
def hsplit(ary: Any, indices_or_sections: Any) -> list:
    return _directed("hsplit", ary, indices_or_sections, 1 if len(shape_of(array_of(ary))) > 1 else 0, 1)


@implements("vsplit", alias="view")
def vsplit(ary: Any, indices_or_sections: Any) -> list:
    return _directed("vsplit", ary, indices_or_sections, 0, 2)


@implements("dsplit", alias="view")
def dsplit(ary: Any, indices_or_sections: Any) -> list:
    return _directed("dsplit", ary, indices_or_sections, 2, 3)


@implements("unstack", alias="view")
def unstack(x: Any, /, *, axis: int = 0) -> tuple:
    x = array_of(x)
    if not shape_of(x):
        raise ValueError("Input array must be at least 1-d.")
    x = move_axis(x, axis_of(axis, len(shape_of(x))), 0)
    return tuple([x[i] for i in range(shape_of(x)[0])])


# -- repeating


@implements("tile")
@arrays
def tile(A: Any, reps: Any) -> Any:
    x, reps = array_of(A), shape_argument(reps)
    shape = shape_of(x)
    rank = max(len(shape), len(reps))
    shape, reps = (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(reps)) + reps
    x = reshape(x, shape=shape)
    paired = tuple([m for r, n in zip(reps, shape) for m in (r, n)])
    x = broadcast_in_dim(x, shape=paired, axes=tuple(range(1, 2 * rank, 2)))
    return anew(reshape(x, shape=tuple([r * n for r, n in zip(reps, shape)])))


def repeat(a: Any, repeats: Any, axis: Any = None, *, total_repeat_length: int | None = None) -> Any:
    """`numpy.repeat`; repeats without values (inside jit, vmap) need `total_repeat_length`, as in JAX: what lies beyond is cut
    off, what is missing repeats the last element.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.repeat(np.array([1.0, 2.0]), np.array([2, 1]), total_repeat_length=4)
    array([1., 1., 2., 2.])
    """
    if total_repeat_length is None:
        return _repeat(a, repeats, axis)
    x = array_of(a)
    if axis is None:
        x, axis = ravelled(x), 0
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    ends = np.cumsum(np.broadcast_to(array_of(repeats), (n,)))
    places = np.searchsorted(ends, beside(np.arange(total_repeat_length), ends), side="right")
    return indexing.getitem(x, (slice(None),) * axis + (beside(np.minimum(places, max(n - 1, 0)), x),))


@implements("repeat")
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x = array_of(a)
    if axis is None:
        x, axis = ravelled(x), 0
    shape = shape_of(x)
    axis = axis_of(axis, len(shape))
    if index_plan.can_count(repeats):
        total = operator.index(np.sum(np.broadcast_to(repeats, (shape[axis],)) if shape_of(repeats) in ((), (1,)) else repeats))
        return repeat(x, repeats, axis, total_repeat_length=total)
    if type(repeats) is Tracer and not has_value(repeats):
        value_reads.part_lanes_around(concrete_value(repeats).owner)
        raise TracerIntegerConversionError(
            f"np.repeat was called with repeats without values{where_am_i()}: the result's shape depends on them.\nRemedy: "
            "funcad.numpy.repeat(x, repeats, total_repeat_length=n), or pass the repeats as static (static_argnums=...)."
        )
    counts = np.asarray(put(concrete_value(repeats), "cpu", None) if hasattr(repeats, "shape") else repeats)
    if counts.ndim and counts.size != 1:
        index = np.repeat(np.arange(shape[axis]), counts)
        return indexing.getitem(x, (slice(None),) * axis + (index,))
    r = int(counts.reshape(()))
    if r < 0:
        raise ValueError("repeats may not contain negative values.")
    grown = (*shape[: axis + 1], r, *shape[axis + 1 :])
    x = broadcast_in_dim(x, shape=grown, axes=tuple([i for i in range(len(grown)) if i != axis + 1]))
    return anew(reshape(x, shape=(*shape[:axis], shape[axis] * r, *shape[axis + 1 :])))


@implements("resize")
def resize(a: Any, new_shape: Any) -> Any:
    x, shape = ravelled(array_of(a)), shape_argument(new_shape)
    n, size = shape_of(x)[0], int(np.prod(shape, dtype=np.int64))
    if n == 0 or size == 0:
        return full(aval_of(x).update(shape=shape), 0)
    return reshape(static_slice(tile(x, -(-size // n)), 0, size, 0), shape=shape)


@implements("roll", by_kind=True)
@arrays
@apart
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """`numpy.roll`; the shift may be traced."""
    x = array_of(a)
    if axis is None and len(shape_of(x)) != 1:
        return reshape(roll(ravelled(x), shift, 0), shape=shape_of(x))
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    axes = axis if isinstance(axis, (tuple, list)) else (0 if axis is None else axis,)
    if len(shifts) == 1:
        shifts = tuple(shifts) * len(axes)
    elif len(axes) == 1:
        axes = tuple(axes) * len(shifts)
    elif len(shifts) != len(axes):
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    for s, i in zip(shifts, axes):
        i = axis_of(i, len(shape_of(x)))
        n = shape_of(x)[i]
        if n == 0:
            continue
        if type(s) is Tracer and not has_value(s):
            x = indexing.getitem(x, (slice(None),) * i + (np.remainder(np.arange(n) - s, n),))
            continue
        x = _roll(x, shift=int(s), axis=i)
    return x


# -- padding


_STATISTICS: dict[str, Any] = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}


@implements("pad", by_kind=True)
@arrays
@apart
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """`numpy.pad` with all modes but functions; "empty" pads with zeros."""
    x = array_of(array)
    widths = _widths(pad_width, len(shape_of(x)))
    if mode not in ("constant", "empty"):
        for i, (n, width) in enumerate(zip(shape_of(x), widths)):
            if not n and any(width):
                raise ValueError(f"can't extend empty axis {i} using modes other than 'constant' or 'empty'")
    if mode in ("edge", "wrap", "reflect", "symmetric"):
        odd = mode in ("reflect", "symmetric") and kwargs.pop("reflect_type", "even") == "odd"
        _no_more(mode, kwargs)
        if odd:
            for i, (low, high) in enumerate(widths):
                x = _reflected(x, i, low, high, int(mode == "reflect"))
            return x
        for i, (low, high) in enumerate(widths):
            if low or high:
                index = np.pad(np.arange(shape_of(x)[i]), (low, high), mode)
                x = indexing.getitem(x, (slice(None),) * i + (index,))
        return x
    if mode in _STATISTICS:
        lengths = kwargs.pop("stat_length", None)
        _no_more(mode, kwargs)
        lengths = [(None, None)] * len(widths) if lengths is None else np.broadcast_to(lengths, (len(widths), 2)).tolist()
        for i, (width, length) in enumerate(zip(widths, lengths)):
            n = shape_of(x)[i]
            ends = [0 if k is None else max(n - k, 0) for k in length]
            low = _statistic(mode, static_slice(x, 0, n - ends[0], i), i)
            high = low if ends == [0, 0] else _statistic(mode, static_slice(x, ends[1], n, i), i)
            x = _concatenate([*_beside(x, low, width[0], i), x, *_beside(x, high, width[1], i)], axis=i)
        return x
    if mode == "linear_ramp":
        targets = np.broadcast_to(array_of(kwargs.pop("end_values", 0)), (len(widths), 2))
        _no_more(mode, kwargs)
        for i, width in enumerate(widths):
            n = shape_of(x)[i]
            edges = [static_slice(x, 0, 1, i), static_slice(x, n - 1, n, i)]
            before, after = [_ramp(targets[i, k], edges[k], width[k], i) for k in (0, 1)]
            x = _concatenate([*before, x, *[np.flip(h, i) for h in after]], axis=i)
        return x
    if mode not in ("constant", "empty"):
        if callable(mode):
            raise TypeError(
                "np.pad does not support a function as mode with traced values: it writes into an array.\n"
                "Remedy: np.concatenate of the parts."
            )
        raise ValueError(f"mode '{mode}' is not supported")
    values = kwargs.pop("constant_values", 0)
    _no_more(mode, kwargs)
    if type(values) in (int, float) and values == 0:
        if not any(low or high for low, high in widths):
            return x
        lows, highs = zip(*widths)
        return pad_p(x, low=lows, high=highs, interior=(0,) * len(widths))
    pairs = np.broadcast_to(array_of(values), (len(widths), 2))
    for i, (low, high) in enumerate(widths):
        x = _concatenate([*_beside(x, pairs[i, 0], low, i), x, *_beside(x, pairs[i, 1], high, i)], axis=i)
    return x


def _statistic(mode: str, x: Any, axis: int) -> Any:
    value = _STATISTICS[mode](x, axis=axis, keepdims=True)
    return np.rint(value) if aval_of(x).dtype.kind in "iu" and aval_of(value).dtype.kind == "f" else value


def _ramp(end: Any, edge: Any, n: int, axis: int) -> list[Any]:
    """n layers from `end` towards the edge, which is left out; nothing if n is 0."""
    if not n:
        return []
    steps = reshape(np.arange(n) / n, shape=tuple([n if i == axis else 1 for i in range(len(shape_of(edge)))]))
    (steps,) = on_device_of((steps,), (edge,))
    ramp = np.add(end, np.multiply(np.subtract(edge, end), steps))
    dtype = aval_of(edge).dtype
    return [convert(np.floor(ramp) if dtype.kind in "iu" and aval_of(ramp).dtype.kind == "f" else ramp, dtype)]


def _reflected(x: Any, axis: int, low: int, high: int, skip: int) -> Any:
    """Both ends continued by reflection in the point at the edge; `skip`: the edge itself is not repeated."""
    period = shape_of(x)[axis] - skip
    if period == 0:
        edges = [np.repeat(x, n, axis) for n in (low, high)]
        return _concatenate([edges[0], x, edges[1]], axis=axis)
    while low > 0 or high > 0:
        n = shape_of(x)[axis]
        whole = (n - skip) // period * period
        below, above = min(whole, low), min(whole, high)
        parts = [x]
        if below:
            mirror = np.flip(static_slice(x, skip, skip + below, axis), axis)
            parts.insert(0, np.subtract(np.multiply(2, static_slice(x, 0, 1, axis)), mirror))
        if above:
            mirror = np.flip(static_slice(x, n - skip - above, n - skip, axis), axis)
            parts.append(np.subtract(np.multiply(2, static_slice(x, n - 1, n, axis)), mirror))
        x = _concatenate(parts, axis=axis)
        low, high = low - below, high - above
    return x


def _no_more(mode: str, kwargs: dict[str, Any]) -> None:
    for name, value in kwargs.items():
        if value is not None:
            raise TypeError(
                f"np.pad(mode={mode!r}) does not support {name}= with traced values.\nRemedy: leave the argument out."
            )


def _beside(x: Any, value: Any, n: int, axis: int) -> list[Any]:
    """The padding on one side: `value` in n layers; nothing if n is 0."""
    if not n:
        return []
    shape = tuple([n if i == axis else m for i, m in enumerate(shape_of(x))])
    return [np.broadcast_to(convert(array_of(value), aval_of(x).dtype), shape)]


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        given, pad_width = pad_width, [(0, 0)] * ndim
        for axis, width in given.items():
            pad_width[axis_of(axis, ndim)] = (width, width) if np.ndim(width) == 0 else tuple(width)
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    result = [(int(a), int(b)) for a, b in np.broadcast_to(widths, (ndim, 2))]
    if any(a < 0 or b < 0 for a, b in result):
        raise ValueError("index can't contain negative values")
    return result


# -- inserting and deleting, at places that are known


def _line(arr: Any, axis: Any) -> tuple[Any, int]:
    x = array_of(arr)
    if axis is None:
        return ravelled(x), 0
    return x, axis_of(axis, len(shape_of(x)))


def _known(obj: Any) -> Any:
    return obj.__array__() if type(obj) is Tracer else obj


@implements("delete")
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """`numpy.delete` at known places."""
    x, axis = _line(arr, axis)
    index = np.delete(np.arange(shape_of(x)[axis]), _known(obj))
    return indexing.getitem(x, (slice(None),) * axis + (index,))


@implements("insert")
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """`numpy.insert` at known places."""
    x, axis = _line(arr, axis)
    obj, shape = _known(obj), shape_of(x)
    n = shape[axis]
    new = convert(array_of(values), aval_of(x).dtype)
    new = new if shape_of(new) else beside(reshape(new, shape=(1,)), x)
    new = reshape(new, shape=(1,) * (len(shape) - len(shape_of(new))) + shape_of(new))
    count = len(np.insert(np.zeros(n), obj, 1)) - n
    if not isinstance(obj, slice) and np.size(obj) == 1:  # all values go to one place
        new = move_axis(new, 0, axis) if np.ndim(obj) == 0 else new
        count, obj = shape_of(new)[axis], np.full(shape_of(new)[axis], np.reshape(obj, ()))
    order = np.insert(np.arange(n), obj, n + np.arange(count))
    new = np.broadcast_to(new, tuple([count if i == axis else m for i, m in enumerate(shape)]))
    joined = _concatenate([x, new], axis=axis)
    return indexing.getitem(joined, (slice(None),) * axis + (order,))


concat = concatenate
mirrors(named_after(globals(), "numpy"), "numpy")

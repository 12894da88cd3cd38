"""Sorting, searching, selecting: where, take, sort, searchsorted, nonzero, unique and their relatives.

Functions whose result's *shape* depends on values (nonzero, unique ...) read the value of a traced argument where there is
one, that is outside jit and vmap: positions are found in the value, then gathered, so derivatives flow. Where there is no
value they raise, naming the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, mirrors, named_after
from funcad.errors import TracerIntegerConversionError
from funcad.host.conversions import conversion_of, given
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.numpy import indexing, reductions
from funcad.numpy.dispatch import implements, is_traced, refuse, where_am_i
from funcad.numpy.index_plan import can_count, count_of, is_selected
from funcad.numpy.joining import join
from funcad.numpy.promote import apart, array_of, arrays, axis_of, check_kth, numbers, promote_dtype, ravelled, result_dtype
from funcad.numpy.views import destination
from funcad.primitives import sorting
from funcad.primitives.basic_indexing import gather, take_along
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_to
from funcad.writes.boxes import assign

strides = OnDemand("funcad.unjitted.strides")
value_reads = OnDemand("funcad.api.value_reads")
_NO = np._NoValue


def value_of(x: Any, name: str, remedy: str, counting: bool = False) -> Any:
    """The value behind x, or an error: the result's shape depends on it. `counting`: what can be counted will do."""
    value = concrete_value(x)
    if type(value) is Tracer and not (counting and can_count(value)):
        value_reads.part_lanes_around(value.owner)
        raise TracerIntegerConversionError(
            f"the shape of {name}'s result depends on the values of a traced {value.aval}{where_am_i()}, but inside "
            f"{value.owner.name} it has no value.\nRemedy: {remedy}"
        )
    return value


# -- choosing


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """`numpy.where`; with one argument the positions, which need values, or `size` and `fill_value` as in `nonzero`.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.where(np.array([True, False]), 1.0, 0.0)
    array([1., 0.])
    """
    if size is None:
        return reductions.where(condition) if x is None and y is None else reductions.where(condition, x, y)
    if x is not None or y is not None:
        raise TypeError("funcad.numpy.where: size= goes with one argument, whose nonzero positions are wanted")
    return nonzero(condition, size=size, fill_value=fill_value)


where.numpy_function = np.where  # type: ignore[attr-defined]


@implements("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    mask = value_of(condition, "np.compress", "np.where(condition, x, fill) keeps the shape.", True)
    return take(a, np.flatnonzero(mask), axis)


@implements("extract")
def extract(condition: Any, arr: Any) -> Any:
    mask = value_of(condition, "np.extract", "np.where(condition, x, fill) keeps the shape.", True)
    return take(arr, np.flatnonzero(mask))


# -- taking


def _places(axis: int, index: Any) -> tuple:
    return (slice(None),) * axis + (index,)


@implements("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """`numpy.take`; repeated indices add up in the derivative."""
    x = array_of(a)
    if axis is None:
        x, axis = ravelled(x), 0
    axis = axis_of(axis, len(shape_of(x)))
    index = array_of(indices)
    if aval_of(index).size == 0 and aval_of(index).dtype.kind == "f":
        index = np.zeros(shape_of(index), np.intp)
    if aval_of(index).dtype.kind not in "iu":
        index = convert(index, np.dtype(np.intp)) if aval_of(index).dtype.kind == "b" else index
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    n = shape_of(x)[axis]
    if mode == "wrap":
        index = np.remainder(index, n)
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    return indexing.read(x, _places(axis, index))


@implements("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x, index = array_of(arr), array_of(indices)
    if axis is None:
        x, axis = ravelled(x), 0
    ndim = len(shape_of(x))
    if len(shape_of(index)) != ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    if aval_of(index).dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    axis = axis_of(axis, ndim)
    if axis == ndim - 1 and shape_of(index)[:-1] == shape_of(x)[:-1]:
        return gather(x, *on_device_of((index,), (x,)), batch_dims=axis)
    return indexing.getitem(x, _mesh(shape_of(x), index, axis))


def _mesh(shape: tuple, index: Any, axis: int) -> tuple:
    """An index array along one axis, every other axis' own positions along the others."""
    places = []
    for i, n in enumerate(shape):
        own = tuple([n if k == i else 1 for k in range(len(shape))])
        places.append(index if i == axis else np.arange(n).reshape(own))
    return tuple(places)


@implements("put_along_axis", always=True)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any, *, inplace: bool = True) -> Any:
    """`numpy.put_along_axis`, but with `inplace=False` it returns a new array."""
    if inplace:
        if not is_traced((arr, indices, values)):
            return np.put_along_axis(arr, indices, values, axis)
        x = destination(arr, "np.put_along_axis")
        return assign(x, put_along_axis(snapshot(x), indices, values, axis, inplace=False))
    x, index = array_of(arr), array_of(indices)
    shape = shape_of(x)
    if axis is None:
        flat = put_along_axis(ravelled(x), indices, values, 0, inplace=False)
        return np.reshape(flat, shape)
    return indexing.at(x)[_mesh(shape, index, axis_of(axis, len(shape)))].set(values)


@implements("put", always=True)
def put(a: Any, ind: Any, v: Any, mode: Any = None, *, inplace: bool = True) -> Any:
    """`numpy.put`, but with `inplace=False` it returns a new array, as JAX's.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.put(np.zeros(4), [0, 2], [1.0, 2.0], inplace=False)
    array([1., 0., 2., 0.])
    """
    if inplace:
        if not is_traced((a, ind, v)):
            return np.put(a, ind, v, mode or "raise")
        x = destination(a, "np.put")
        return assign(x, put(snapshot(x), ind, v, mode, inplace=False))
    x, index = array_of(a), ravelled(array_of(ind))
    n, size = aval_of(x).size, shape_of(index)[0]
    values = ravelled(array_of(v))
    if mode == "wrap":
        index = np.remainder(index, n)
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    elif mode not in (None, "raise"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if not size or not shape_of(values)[0]:
        return x
    (values,) = on_device_of((np.resize(values, size),), (x,))
    return np.reshape(indexing.at(ravelled(x))[index].set(values), shape_of(x))


@implements("place", always=True)
def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """`numpy.place`, but with `inplace=False` it returns a new array, as JAX's.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.place(np.zeros(4), np.array([True, False, True, True]), [1.0, 2.0], inplace=False)
    array([1., 0., 2., 1.])
    """
    if inplace:
        if not is_traced((arr, mask, vals)):
            return np.place(arr, mask, vals)
        x = destination(arr, "np.place")
        return assign(x, place(snapshot(x), mask, vals, inplace=False))
    x, held, values = array_of(arr), reductions.truth(array_of(mask)), ravelled(array_of(vals))
    if aval_of(held).size != aval_of(x).size:
        raise ValueError("place: mask and data must be the same size")
    n = shape_of(values)[0]
    if not n:
        if held.any():
            raise ValueError("Cannot insert from an empty array!")
        return x
    count = np.cumsum(ravelled(held)) - 1  # the n-th element that is replaced gets the n-th value, round and round
    new = convert(take(values, np.remainder(np.maximum(count, 0), n)), aval_of(x).dtype)
    return where(np.reshape(held, shape_of(x)), np.reshape(new, shape_of(x)), x)


# -- sorting


def _sort_arguments(a: Any, axis: Any) -> tuple[Any, int]:
    x = array_of(a)
    if axis is None:
        x, axis = ravelled(x), 0
    return x, axis_of(axis, len(shape_of(x)))


def _turned(x: Any) -> Any:
    """What sorts x from its largest element on, NaN last."""
    return np.negative(x) if aval_of(x).dtype.kind in "fc" else np.invert(x)


@implements("sort", by_kind=True)
def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: Any = None) -> Any:
    refuse("np.sort", order=order)
    if not kind is stable is None:
        np.empty(0).sort(kind=kind, stable=stable)  # NumPy's errors
    x, axis = _sort_arguments(a, axis)
    return _turned(sorting.sort(_turned(x), axis)) if descending else sorting.sort(x, axis)


def _order_given(kind: Any, order: Any, stable: Any) -> dict[str, Any]:
    """The options that say something: device libraries do not have all of NumPy's."""
    return {name: v for name, v in (("kind", kind), ("order", order), ("stable", stable)) if v is not None}


def sort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Any:
    """`numpy.sort`; the derivative goes to where the elements came from. `descending` is NumPy 2.5's: NaN is last.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.sort(np.array([2.0, 1.0, 3.0]), descending=True)
    array([3., 2., 1.])
    """
    if not descending:
        return _sort(a, axis, **_order_given(kind, order, stable))
    refuse("funcad.numpy.sort with descending=True", order=order)
    x, axis = _sort_arguments(a, axis)
    return _turned(sorting.sort(_turned(x), axis))


@implements("argsort")
def _argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: Any = None
) -> Any:
    refuse("np.argsort", order=order)
    if not kind is stable is None:
        np.empty(0).sort(kind=kind, stable=stable)  # NumPy's errors
    a = array_of(a)
    x, axis = _sort_arguments(a, None if np.ndim(a) == 0 and axis in (0, -1) else axis)  # of a number: [0], as NumPy has it
    if descending:
        return sorting.argsort(_turned(x), axis)
    return sorting.argsort(x, axis, stable=bool(stable) or kind in ("stable", "mergesort"))


def argsort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = False,
) -> Any:
    """`numpy.argsort`; `descending` is NumPy 2.5's, NaN is last: equal elements stay in their order.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.argsort(np.array([2.0, 1.0, 3.0]), descending=True)
    array([2, 0, 1])
    """
    if not descending:
        return _argsort(a, axis, **_order_given(kind, order, stable))
    refuse("funcad.numpy.argsort with descending=True", order=order)
    x, axis = _sort_arguments(a, axis)
    return sorting.argsort(_turned(x), axis)


@implements("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """`numpy.partition`; a full sort, which is one of the allowed answers."""
    refuse("np.partition", order=order)
    check_kth(a, kth, axis, kind)
    return sort(a, axis)


@implements("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """`numpy.argpartition`; the order of a full sort, which is one of the allowed answers."""
    refuse("np.argpartition", order=order)
    check_kth(a, kth, axis, kind)
    return argsort(a, axis)


@implements("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Any:
    rows = [array_of(k.__array__() if conversion_of(type(k)) else k) for k in keys]  # an order has no labels
    if len(set(map(shape_of, rows))) > 1:
        raise ValueError("all keys need to be the same shape")
    axis = axis_of(axis, len(shape_of(rows[0])))
    order = sorting.argsort(rows[0], axis)
    for row in rows[1:]:
        order = take_along(order, sorting.argsort(take_along(row, order, axis), axis), axis)
    return order


@implements("sort_complex")
def sort_complex(a: Any) -> Any:
    x = sort(a, -1)
    dtype = aval_of(x).dtype
    narrow = {"b": np.complex64, "h": np.complex64, "B": np.complex64, "H": np.complex64, "g": np.clongdouble}
    return x if dtype.kind == "c" else convert(x, np.dtype(narrow.get(dtype.char, np.complex128)))


@implements("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    x, values = array_of(a), array_of(v)
    if len(shape_of(x)) != 1:
        raise ValueError("object too deep for desired array" if shape_of(x) else "object of too small depth for desired array")
    x = take(x, sorter) if sorter is not None else x
    x, values = promote_dtype([x, values], result_dtype([x, values])[0])
    return sorting.searchsorted(x, values, side)


@implements("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """`numpy.digitize`; the bins must be sorted, rising or falling (inside jit it is not noticed if they are not)."""
    if aval_of(array_of(x)).dtype.kind == "c":
        raise TypeError("x may not be complex")
    bins = array_of(bins)
    value = concrete_value(bins)
    side = "left" if right else "right"
    n = shape_of(bins)[0] if len(shape_of(bins)) == 1 else 0
    if n < 2:
        return searchsorted(bins, x, side)
    if type(value) is np.ndarray:
        np.digitize((), value)  # raises if they are not sorted
    falling = value[0] > value[-1]
    if type(value) is Tracer:
        return np.where(falling, n - searchsorted(bins[::-1], x, side), searchsorted(bins, x, side))
    if falling:
        return n - searchsorted(bins[::-1], x, side)
    return searchsorted(bins, x, side)


# -- positions, which depend on values


_MASK_REMEDY = (
    "np.where(mask, x, fill) keeps the shape; funcad.numpy.{name}(..., size=n) says how many there are at most; or work "
    "outside jit and vmap."
)


@implements("nonzero")
def _nonzero(a: Any) -> tuple:
    a = array_of(a)
    if can_count(a):
        return nonzero(a, size=count_of(a))
    return tuple(map(given, np.nonzero(value_of(a, "np.nonzero", _MASK_REMEDY.format(name="nonzero")))))


@implements("flatnonzero")
def _flatnonzero(a: Any) -> Any:
    a = array_of(a)
    if not can_count(a):
        return given(np.flatnonzero(value_of(a, "np.flatnonzero", _MASK_REMEDY.format(name="flatnonzero"))))
    return _nonzero(ravelled(array_of(value_of(a, "np.flatnonzero", _MASK_REMEDY.format(name="flatnonzero"), True))))[0]


@implements("argwhere")
def _argwhere(a: Any) -> Any:
    if can_count(a):
        return argwhere(a, size=count_of(a))
    return given(np.argwhere(value_of(a, "np.argwhere", _MASK_REMEDY.format(name="argwhere"))))


def kept_positions(keep: Any, size: int) -> tuple[Any, Any]:
    """(the first `size` positions where a mask of rank 1 holds, how many there are); the first of them fills the rest."""
    order = sorting.argsort(np.logical_not(keep), 0, stable=True)
    n = shape_of(order)[0]
    if size > n:
        first = order[:1] if n else on_device_of((np.zeros(1, np.intp),), (keep,))[0]
        order = join([order, np.broadcast_to(first, (size - n,))], 0)
    order, count = order[:size], np.sum(keep)
    return np.where(ramp_like(size, keep) < count, order, order[:1]) if size else order, count


def ramp_like(n: int, x: Any) -> Any:
    """0, 1, ... n - 1, where x is."""
    return on_device_of((np.arange(n),), (x,))[0]


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple:
    """`numpy.nonzero`; with `size`, as in JAX, so many positions, the rest `fill_value` (0): works inside jit and vmap too.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.nonzero(np.array([0, 3, 4]), size=3)
    (array([1, 2, 0]),)
    """
    if size is None:
        return _nonzero(a)
    x = array_of(a)
    shape = shape_of(x)
    if not shape:
        np.nonzero(np.zeros(()))  # NumPy's ValueError
    fills = fill_value if isinstance(fill_value, tuple) else (0 if fill_value is None else fill_value,) * len(shape)
    if len(fills) != len(shape):
        raise ValueError(f"nonzero: fill_value has {len(fills)} entries for an array of rank {len(shape)}")
    places, count = kept_positions(reductions.truth(ravelled(x)), size)
    found = np.unravel_index(places, shape) if aval_of(x).size else (np.zeros(size, np.intp),) * len(shape)
    return tuple(
        [np.where(ramp_like(size, x) < count, i, convert(array_of(f), np.dtype(np.intp))) for i, f in zip(found, fills)]
    )


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """`numpy.flatnonzero`; with `size` as `nonzero`.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.flatnonzero(np.array([[0, 3], [4, 0]]))
    array([1, 2])
    """
    return _flatnonzero(a) if size is None else nonzero(ravelled(array_of(a)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """`numpy.argwhere`; with `size` as `nonzero`.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.argwhere(np.array([0, 3, 4]))
    array([[1],
           [2]])
    """
    if size is None:
        return _argwhere(a)
    found = nonzero(np.atleast_1d(array_of(a)), size=size, fill_value=fill_value)
    return np.stack(found[: len(shape_of(array_of(a)))], axis=1) if shape_of(array_of(a)) else np.zeros((size, 0), np.intp)


@implements("bincount", always=True)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """`numpy.bincount`; positions without a value need `length`, the size of the result (what lies beyond is left out)."""
    if length is None and not is_traced((x, weights)):
        return np.bincount(x, weights, minlength)  # a device's library answers for its arrays
    np.bincount((), minlength=minlength)  # NumPy's error
    if length is None:
        positions = value_of(x, "np.bincount", "funcad.numpy.bincount(x, length=n) with a known n.", True)
        positions = positions if hasattr(positions, "shape") else np.asarray(positions)
        if weights is None and type(positions) is not Tracer:
            return np.bincount(positions, minlength=minlength)
        if positions.size and positions.min() < 0:
            raise ValueError("'list' argument must have no negative elements")
        length = max(minlength, int(positions.max()) + 1 if positions.size else 0)
    else:
        positions = array_of(x)
    inside = np.logical_and(np.greater_equal(positions, 0), np.less(positions, length))
    if weights is None:
        amounts = np.where(inside, np.int64(1), np.int64(0))
    else:
        weights = convert(array_of(weights), np.dtype(float))
        if shape_of(weights) != shape_of(positions):
            raise ValueError("The weights and list don't have the same length.")
        amounts = np.where(inside, weights, 0.0)
    (counts,) = on_device_of((np.zeros(length, aval_of(amounts).dtype),), (amounts,))
    return indexing.at(counts)[np.where(inside, positions, 0)].add(amounts) if length else counts


# -- choosing among arrays by conditions or positions: select, piecewise and choose, which are made of `where`


@implements("select")
@arrays
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    for i, condition in enumerate(condlist):
        if aval_of(array_of(condition)).dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    result = default
    for condition, chosen in zip(reversed(condlist), reversed(choicelist)):
        result = reductions.choice(condition, chosen, result)
    return np.asarray(result, order="C") if type(result) is np.ndarray else strides.doubt(result)


@implements("piecewise")
@arrays
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """`numpy.piecewise`: each function of the elements where its condition holds, as `x[condition]` gives them."""
    x = array_of(x)
    if not isinstance(condlist, (list, tuple)) and not np.ndim(condlist) or not np.ndim(condlist[0]) and shape_of(x):
        condlist = [condlist]
    conditions = [reductions.truth(c) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected"
        )
    shape, dtype = shape_of(x), aval_of(x).dtype
    if len(functions) == len(conditions) + 1:
        conditions.append(np.logical_not(np.any(np.stack(conditions), axis=0)))
    if not shape:  # one element is selected, or none
        x, conditions = np.reshape(x, (1,)), [np.reshape(c, (1,)) for c in conditions]
    conditions = [concrete_value(c) for c in conditions]
    known = all([type(c) is np.ndarray and c.shape == shape_of(x) for c in conditions])
    functions = [(lambda v, f=f: f(v, *args, **kw)) if callable(f) else (lambda v, f=f: f) for f in functions]
    result = (_counted if known else _uncounted)(x, conditions, functions, dtype)
    return strides.doubt(result if shape else np.reshape(result, ()))


def _counted(x: Any, conditions: Sequence[np.ndarray], functions: Sequence[Any], dtype: np.dtype) -> Any:
    """The functions' values beside each other, and each element taken from its place among them."""
    chosen = [np.flatnonzero(c) for c in conditions]
    selected = gather(x if len(shape_of(x)) == 1 else np.reshape(x, (-1,)), np.concatenate(chosen))
    values, n, places = [], 0, np.full(shape_of(x), selected.size)
    for own, function in zip(chosen, functions):
        if end := len(own) and n + len(own):
            value = function(selected[n:end])
            values.append(broadcast_to(convert(array_of(value), dtype), own.shape))
            places.flat[own] = np.arange(n, end)
            n = end
    if n in places or not n:
        values.append(np.zeros(1, dtype))
    return gather(np.concatenate(values), places)


def _uncounted(x: Any, conditions: Sequence[Any], functions: Sequence[Any], dtype: np.dtype) -> Any:
    """One after the other, of which nobody knows how many elements they are."""
    result = broadcast_to(dtype.type(0), shape_of(x))
    for condition, function in zip(conditions, functions):
        unknown = type(condition) is Tracer
        if not unknown and not condition.any():
            continue
        whole = unknown and condition.shape == shape_of(x)
        try:  # no derivative leaks from elsewhere
            value = function(indexing.getitem(reductions.choice(condition, x, stop_gradient(x)) if whole else x, condition))
        except Exception:
            if not can_count(condition) or count_of(condition):
                raise
            continue  # NumPy calls no function where nothing is selected
        if whole and is_selected(value) and value.is_of(condition):
            value = value.elements(condition, ())
        elif not whole or np.ndim(value):
            result = indexing.at(result)[condition].set(value)
            continue
        result = reductions.choice(condition, convert(array_of(value), dtype), result)
    return result


@implements("choose")
@numbers
@apart
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    index, options = array_of(a), [array_of(c) for c in choices]
    n = len(options)
    np.choose(0, (0,), mode=mode)  # NumPy's error
    if mode == "wrap":
        index = np.remainder(index, n)
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    elif type(concrete_value(index)) is not Tracer and np.any((concrete_value(index) < 0) | (concrete_value(index) >= n)):
        raise ValueError("invalid entry in choice array")
    result = options[-1]
    for i in range(n - 2, -1, -1):
        result = reductions.choice(np.equal(index, i), options[i], result)
    return strides.doubt(broadcast_to(result, np.broadcast_shapes(shape_of(index), shape_of(result))))


mirrors(named_after(globals(), "numpy"), "numpy")

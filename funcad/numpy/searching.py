"""Sorting, searching, selecting: where, take, sort, searchsorted, nonzero, unique and their relatives.

Functions whose result's *shape* depends on values (nonzero, unique ...) read the value of a traced argument where there is
one, that is outside jit and vmap: positions are found in the value, then gathered, so derivatives flow. Where there is no
value they raise, naming the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.errors import TracerIntegerConversionError
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy import indexing
from funcad.numpy.axes import array_of, axis_of, expand, ravelled
from funcad.numpy.dispatch import implements, is_traced, refuse, where_am_i
from funcad.numpy.joining import join
from funcad.numpy.promote import agree, as_array, broadcast, promote_dtype, result_dtype
from funcad.numpy.reductions import truth
from funcad.primitives import comparison, sorting
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.indexing import take_along
from funcad.primitives.shape import broadcast_to, rev

_NO = np._NoValue


def value_of(x: Any, name: str, remedy: str) -> Any:
    """The value behind x, or an error: the result's shape depends on it."""
    value = concrete_value(x)
    if type(value) is Tracer:
        raise TracerIntegerConversionError(
            f"the shape of {name}'s result depends on the values of a traced {value.aval}{where_am_i()}, but inside "
            f"{value.owner.name} it has no value.\nRemedy: {remedy}"
        )
    return value


# -- choosing


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """`numpy.where`; with one argument the positions, which need a value."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    if type(condition) is np.ndarray and condition.dtype == bool and agree(x, y):  # the common case of a plain mask
        aval = x.aval if type(x) is Tracer else y.aval
        if aval.shape == condition.shape and not aval.weak:
            return comparison.select(condition, x, y)
    mask, x, y = truth(condition), as_array(x), as_array(y)
    dtype = result_dtype([x, y])[0]
    x, y = promote_dtype([x, y], dtype)
    if isinstance(x, (int, float, complex)) and isinstance(y, (int, float, complex)):
        x = dtype.type(x)
    return comparison.select(*broadcast([mask, x, y]))


@implements("select")
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        result = where(condition, choice, result)
    return result


@implements("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """`numpy.piecewise`; every function is applied to all of x (masked elements get no derivative from it)."""
    x = array_of(x)
    if not isinstance(condlist, (list, tuple)) or not np.ndim(condlist[0]) and shape_of(x):
        condlist = [condlist]
    conditions = [truth(c) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected"
        )
    dtype = aval_of(x).dtype
    if len(functions) == len(conditions) + 1:
        conditions.append(np.logical_not(np.any(np.stack(conditions), axis=0)))
    result = broadcast_to(dtype.type(0), shape_of(x))
    for condition, function in zip(conditions, functions):
        value = function(_inside(x, condition), *args, **kw) if callable(function) else function
        result = where(condition, convert(array_of(value), dtype), result)
    return result


def _inside(x: Any, condition: Any) -> Any:
    """x where the condition holds, elsewhere its stop_gradient: no derivative leaks from there."""
    return where(condition, x, stop_gradient(x))


@implements("choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    refuse("np.choose", out=out)
    index, options = array_of(a), [array_of(c) for c in choices]
    n = len(options)
    if mode == "wrap":
        index = np.remainder(index, n)
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    elif type(concrete_value(index)) is not Tracer and np.any((concrete_value(index) < 0) | (concrete_value(index) >= n)):
        raise ValueError("invalid entry in choice array")
    result = options[-1]
    for i in range(n - 2, -1, -1):
        result = where(np.equal(index, i), options[i], result)
    return broadcast_to(result, np.broadcast_shapes(shape_of(index), shape_of(result)))


@implements("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    refuse("np.compress", out=out)
    mask = value_of(condition, "np.compress", "np.where(condition, x, fill) keeps the shape.")
    return take(a, np.flatnonzero(mask), axis)


@implements("extract")
def extract(condition: Any, arr: Any) -> Any:
    mask = value_of(condition, "np.extract", "np.where(condition, x, fill) keeps the shape.")
    return take(arr, np.flatnonzero(mask))


# -- taking


def _places(axis: int, index: Any) -> tuple:
    return (slice(None),) * axis + (index,)


@implements("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """`numpy.take`; repeated indices add up in the derivative."""
    refuse("np.take", out=out)
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
    return indexing.getitem(x, _places(axis, index))


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
    """`numpy.put_along_axis`, but with `inplace=False`, which is needed on traced values, it returns a new array."""
    if inplace:
        raise TypeError(
            "np.put_along_axis writes into its argument, which traced values do not allow.\n"
            "Remedy: a = funcad.numpy.put_along_axis(a, indices, values, axis, inplace=False)."
        )
    x, index = array_of(arr), array_of(indices)
    shape = shape_of(x)
    if axis is None:
        flat = put_along_axis(ravelled(x), indices, values, 0, inplace=False)
        return np.reshape(flat, shape)
    return indexing.at(x)[_mesh(shape, index, axis_of(axis, len(shape)))].set(values)


# -- sorting


def _sort_arguments(a: Any, axis: Any) -> tuple[Any, int]:
    x = array_of(a)
    if axis is None:
        x, axis = ravelled(x), 0
    return x, axis_of(axis, len(shape_of(x)))


@implements("sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False) -> Any:
    """`numpy.sort`; the derivative goes to where the elements came from."""
    refuse("np.sort", order=order)
    x, axis = _sort_arguments(a, axis)
    result = sorting.sort(x, axis)
    return rev(result, axes=(axis,)) if descending else result


@implements("argsort")
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Any:
    refuse("np.argsort", order=order)
    x, axis = _sort_arguments(a, axis)
    return sorting.argsort(x, axis, stable=bool(stable) or kind in ("stable", "mergesort"), descending=descending)


@implements("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """`numpy.partition`; a full sort, which is one of the allowed answers."""
    refuse("np.partition", order=order)
    return sort(a, axis)


@implements("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """`numpy.argpartition`; the order of a full sort, which is one of the allowed answers."""
    refuse("np.argpartition", order=order)
    return argsort(a, axis)


@implements("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Any:
    rows = [array_of(k) for k in keys]
    axis = axis_of(axis, len(shape_of(rows[0])))
    order = sorting.argsort(rows[0], axis)
    for row in rows[1:]:
        order = take_along(order, sorting.argsort(take_along(row, order, axis), axis), axis)
    return order


@implements("sort_complex")
def sort_complex(a: Any) -> Any:
    x = sort(a, -1)
    dtype = aval_of(x).dtype
    return x if dtype.kind == "c" else convert(x, np.result_type(dtype, np.complex64))


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
    """`numpy.digitize`; the bins must be sorted, rising or (if they have values) falling."""
    bins = array_of(bins)
    value = concrete_value(bins)
    side = "left" if right else "right"
    if type(value) is not Tracer and len(value) > 1 and value[0] > value[-1]:
        n = len(value)
        return n - searchsorted(bins[::-1], x, "left" if side == "right" else "right")
    return searchsorted(bins, x, side)


# -- positions, which depend on values


_MASK_REMEDY = "np.where(mask, x, fill) keeps the shape; or work outside jit and vmap."


@implements("nonzero")
def nonzero(a: Any) -> tuple:
    return np.nonzero(value_of(a, "np.nonzero", _MASK_REMEDY))


@implements("flatnonzero")
def flatnonzero(a: Any) -> Any:
    return np.flatnonzero(value_of(a, "np.flatnonzero", _MASK_REMEDY))


@implements("argwhere")
def argwhere(a: Any) -> Any:
    return np.argwhere(value_of(a, "np.argwhere", _MASK_REMEDY))


@implements("unique")
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    **options: Any,
) -> Any:
    """`numpy.unique`, outside jit and vmap; the derivative goes to the first of equal elements."""
    value = value_of(ar, "np.unique", "work outside jit and vmap.")
    find: Any = np.unique
    results = find(value, True, return_inverse, return_counts, axis, equal_nan=equal_nan, **options)
    x = array_of(ar)
    chosen = take(ravelled(x) if axis is None else x, results[1], 0 if axis is None else axis)
    rest = results[1:] if return_index else results[2:]
    return (chosen, *rest) if rest else chosen


def _set_operation(name: str, *arrays: Any, **options: Any) -> Any:
    """A set operation on two arrays: which elements, found in the values, then taken from both, joined."""
    xs = [ravelled(array_of(a)) for a in arrays]
    values = [np.asarray(value_of(x, f"np.{name}", "work outside jit and vmap.")) for x in xs]
    chosen = getattr(np, name)(*values, **options)
    both = np.concatenate(values)
    order = np.argsort(both, kind="stable")
    return convert(take(join(xs, 0), order[np.searchsorted(both[order], chosen)]), chosen.dtype)


@implements("union1d")
def union1d(ar1: Any, ar2: Any) -> Any:
    return _set_operation("union1d", ar1, ar2)


@implements("intersect1d")
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    refuse("np.intersect1d", return_indices=return_indices or None)
    return _set_operation("intersect1d", ar1, ar2, assume_unique=assume_unique)


@implements("setdiff1d")
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    return _set_operation("setdiff1d", ar1, ar2, assume_unique=assume_unique)


@implements("setxor1d")
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    return _set_operation("setxor1d", ar1, ar2, assume_unique=assume_unique)


@implements("isin")
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    x, tests = array_of(element), ravelled(array_of(test_elements))
    found = np.any(np.equal(expand(x, (len(shape_of(x)),)), tests), axis=-1)
    return np.logical_not(found) if invert else found


@implements("bincount", always=True)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """`numpy.bincount`; positions without a value need `length`, the size of the result (what lies beyond is left out)."""
    if length is None and not is_traced((x, weights)):
        return np.bincount(x, weights, minlength)
    if length is None:
        positions = np.asarray(value_of(x, "np.bincount", "funcad.numpy.bincount(x, length=n) with a known n."))
        if weights is None:
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
    counts = np.zeros(length, aval_of(amounts).dtype)
    return indexing.at(counts)[np.where(inside, positions, 0)].add(amounts) if length else counts

"""Sets of values: unique and its relatives, unions, intersections, differences, membership, trim_zeros.

Idea: the shape of such a result depends on values, so they are read: positions are found in the values, then gathered, and
derivatives flow to where the elements came from. Inside jit and vmap there are no values: there the caller gives `size`, as in
JAX, what is missing is filled with `fill_value` (default: the smallest element of the result), and the positions are computed.
Loaded at its first use: `import funcad` does not pay for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.configuration import mirrors, named_after
from funcad.host.locks import handed
from funcad.host.real_types import dtype_kind
from funcad.ir.aval import aval_of, shape_of
from funcad.numpy import indexing
from funcad.numpy.dispatch import anew, implements
from funcad.numpy.index_plan import can_count, count_of
from funcad.numpy.joining import join
from funcad.numpy.promote import array_of, axes_of, expand, ravelled
from funcad.numpy.searching import kept_positions, ramp_like, take, value_of
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of

_REMEDY = "work outside jit and vmap, or say how many elements there are at most: funcad.numpy.{name}(..., size=n)."


def _value(x: Any, name: str) -> Any:
    return value_of(x, f"np.{name}", _REMEDY.format(name=name))


@implements("unique")
def _unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    **options: Any,
) -> Any:
    ar = array_of(ar)
    if axis is None and can_count(ar):
        size = count_of(_sorted_first(ar, equal_nan, return_index or return_inverse)[2])
        return unique(ar, return_index, return_inverse, return_counts, equal_nan=equal_nan, size=size)
    value = _value(ar, "unique")
    find: Any = np.unique
    results = find(value, True, return_inverse, return_counts, axis, equal_nan=equal_nan, **options)
    chosen = take(ravelled(ar) if axis is None else ar, handed(results[1]), 0 if axis is None else axis)
    rest = results[1:] if return_index else results[2:]
    return (chosen, *rest) if rest else chosen


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    **options: Any,
) -> Any:
    """`numpy.unique`; the derivative goes to the first of equal elements. Inside jit and vmap give `size`, as in JAX.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.unique(np.array([2.0, 1.0, 2.0]), size=4, fill_value=0.0)
    array([1., 2., 0., 0.])
    """
    if size is None:
        return _unique(ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan, **options)
    if axis is not None:
        raise TypeError("funcad.numpy.unique: size= goes with axis=None; leave one of them out")
    shape = shape_of(array_of(ar))
    x, order, first = _sorted_first(ar, equal_nan, return_index or return_inverse)
    n = shape_of(x)[0]
    if not n and size:
        if fill_value is None:
            raise ValueError("unique of an empty array: size= needs a fill_value=")
        empty = np.zeros(size, np.intp)
        results = [np.full(size, fill_value, aval_of(x).dtype), empty, np.zeros(shape, np.intp), empty]
    else:
        places, count = kept_positions(first, size)
        missing = ramp_like(size, x) >= count
        values = take(x, places)
        values = values if fill_value is None else np.where(missing, convert(array_of(fill_value), aval_of(x).dtype), values)
        results = [values, None, None, None]
        if order is not None:
            (zeros,) = on_device_of((np.zeros(n, np.intp),), (x,))
            inverse = indexing.at(zeros)[order].set(np.cumsum(first) - 1)
            results[1:3] = take(order, places), np.reshape(inverse, shape)
        if return_counts:
            results[3] = np.diff(np.where(ramp_like(size + 1, x) < count, kept_positions(first, size + 1)[0], n))
    wanted = [results[0], *[r for r, w in zip(results[1:], (return_index, return_inverse, return_counts)) if w]]
    return tuple(wanted) if len(wanted) > 1 else wanted[0]


def _sorted_first(ar: Any, equal_nan: bool = True, ordered: bool = True) -> tuple[Any, Any, Any]:
    """(the elements in order, where they came from if that is wanted, which of them are the first of equal ones)."""
    x = ravelled(array_of(ar))
    order = np.argsort(x, stable=True) if ordered else None
    x = np.sort(x) if order is None else take(x, order)
    n = shape_of(x)[0]
    if not n:
        return x, order, np.zeros(0, bool)
    same = np.equal(x[1:], x[:-1])
    if equal_nan and dtype_kind(aval_of(x).dtype) in "fc":
        same = np.logical_or(same, np.logical_and(np.isnan(x[1:]), np.isnan(x[:-1])))
    return x, order, np.concatenate([*on_device_of((np.ones(1, bool),), (x,)), np.logical_not(same)])


def _sized(x: Any, keep: Any, size: int, fill_value: Any) -> Any:
    """The first `size` elements that are kept; what is missing is filled."""
    if not shape_of(x)[0]:
        return np.full(size, 0 if fill_value is None else fill_value, aval_of(x).dtype)
    places, count = kept_positions(keep, size)
    values = take(x, places)
    if fill_value is None:
        return values
    return np.where(ramp_like(size, x) < count, values, convert(array_of(fill_value), aval_of(x).dtype))


# -- the functions of the array API standard


@implements("unique_values")
def _unique_values(x: Any) -> Any:
    value = _value(x, "unique_values")
    chosen = np.unique_values(value)  # in NumPy's order, which is not always sorted
    flat = np.ravel(value)
    order = np.argsort(flat, kind="stable")
    places = np.searchsorted(flat[order], chosen)
    nan = np.cumsum(np.isnan(chosen)) - 1 if dtype_kind(flat.dtype) in "fc" else 0  # each NaN is a value of its own
    places = places + np.where(np.isnan(chosen), nan, 0) if dtype_kind(flat.dtype) in "fc" else places
    return take(ravelled(array_of(x)), order[places])


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """`numpy.unique_values`; inside jit and vmap give `size`, as in JAX.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.unique_values(np.array([2.0, 1.0, 2.0]), size=2)
    array([1., 2.])
    """
    return _unique_values(x) if size is None else unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _unique_with(name: str, **returns: bool) -> Any:
    find: Any = getattr(np, name)
    kind = type(find(np.zeros(0)))  # NumPy's named tuple

    @implements(name)
    def implementation(x: Any) -> Any:
        return kind(*_unique(x, equal_nan=False, **returns))

    def public(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
        if size is None:
            return implementation(x)
        return kind(*unique(x, equal_nan=False, size=size, fill_value=fill_value, **returns))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"`numpy.{name}`; inside jit and vmap give `size`, as in JAX."
    return public


unique_all = _unique_with("unique_all", return_index=True, return_inverse=True, return_counts=True)
unique_counts = _unique_with("unique_counts", return_counts=True)
unique_inverse = _unique_with("unique_inverse", return_inverse=True)


# -- two sets


def _both(name: str, ar1: Any, ar2: Any, **options: Any) -> Any:
    """A set operation on two arrays: which elements, found in the values, then taken from both, joined."""
    xs = [ravelled(array_of(a)) for a in (ar1, ar2)]
    values = [_value(x, name) for x in xs]
    chosen = getattr(np, name)(*values, **options)
    both = np.concatenate(values)
    order = np.argsort(both, kind="stable")
    return convert(take(join(xs, 0), order[np.searchsorted(both[order], chosen)]), aval_of(chosen).dtype)


@implements("union1d")
def _union1d(ar1: Any, ar2: Any) -> Any:
    if can_count(ar1) or can_count(ar2):
        return _unique(join([ravelled(array_of(a)) for a in (ar1, ar2)], 0))
    return _both("union1d", ar1, ar2)


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """`numpy.union1d`; inside jit and vmap give `size`, as in JAX.

    >>> import funcad.numpy as fnp
    >>> fnp.union1d([1, 2], [2, 5])
    array([1, 2, 5])
    """
    if size is None:
        return _union1d(ar1, ar2)
    return unique(join([ravelled(array_of(a)) for a in (ar1, ar2)], 0), size=size, fill_value=fill_value)


def _beside(ar1: Any, ar2: Any) -> Any:
    """The first array, with the dtype of both joined."""
    x, y = array_of(ar1), array_of(ar2)
    return convert(x, np.result_type(aval_of(x).dtype, aval_of(y).dtype))


@implements("intersect1d")
def _intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    if not return_indices and (can_count(ar1) or can_count(ar2)):
        return _selected(*_members(_beside(ar1, ar2), ar2, False), None)
    if not return_indices:
        return _both("intersect1d", ar1, ar2, assume_unique=assume_unique)
    xs = [ravelled(array_of(a)) for a in (ar1, ar2)]
    find: Any = np.intersect1d
    common, *places = find(*[_value(x, "intersect1d") for x in xs], assume_unique=assume_unique, return_indices=True)
    return convert(take(xs[0], places[0]), aval_of(common).dtype), *places


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`numpy.intersect1d`; inside jit and vmap give `size`, as in JAX.

    >>> import funcad.numpy as fnp
    >>> fnp.intersect1d([1, 2, 2], [2, 5])
    array([2])
    """
    if size is None:
        return _intersect1d(ar1, ar2, assume_unique, return_indices)
    if return_indices:
        raise TypeError("funcad.numpy.intersect1d: size= goes with return_indices=False; use np.searchsorted for the positions")
    return _selected(*_members(_beside(ar1, ar2), ar2, False), size, fill_value)


@implements("setdiff1d")
def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    if can_count(ar1) or can_count(ar2):
        return _selected(*_members(ar1, ar2, True, assume_unique), None, 0)
    return _both("setdiff1d", ar1, ar2, assume_unique=assume_unique)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None) -> Any:
    """`numpy.setdiff1d`; inside jit and vmap give `size`, as in JAX (fill_value is 0 then, if not given).

    >>> import funcad.numpy as fnp
    >>> fnp.setdiff1d([3, 1, 2], [2])
    array([1, 3])
    """
    if size is None:
        return _setdiff1d(ar1, ar2, assume_unique)
    return _selected(*_members(ar1, ar2, True, assume_unique), size, 0 if fill_value is None else fill_value)


@implements("setxor1d")
def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    if can_count(ar1) or can_count(ar2):
        return _in_one(ar1, ar2, None, None, assume_unique)
    return _both("setxor1d", ar1, ar2, assume_unique=assume_unique)


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None) -> Any:
    """`numpy.setxor1d`; inside jit and vmap give `size`, as in JAX.

    >>> import funcad.numpy as fnp
    >>> fnp.setxor1d([1, 2], [2, 5])
    array([1, 5])
    """
    if size is None:
        return _setxor1d(ar1, ar2, assume_unique)
    return _in_one(ar1, ar2, size, fill_value, assume_unique)


def _members(ar1: Any, ar2: Any, invert: bool, assume_unique: bool = False) -> tuple[Any, Any]:
    """(the elements of ar1, sorted unless they are unique, which of them to keep: the first of equal ones, if ar2 has it)."""
    x, first = ravelled(array_of(ar1)), True
    if not assume_unique:
        x, _, first = _sorted_first(x)
    return x, np.logical_and(first, isin(x, ar2, invert=invert))


def _selected(x: Any, keep: Any, size: int | None, fill_value: Any = None) -> Any:
    return _sized(x, keep, count_of(keep) if size is None else size, fill_value)


def _in_one(ar1: Any, ar2: Any, size: int | None, fill_value: Any, assume_unique: bool) -> Any:
    parts = [_members(a, b, True, assume_unique) for a, b in ((ar1, ar2), (ar2, ar1))]
    x, keep = [join(list(both), 0) for both in zip(*parts)]
    order = np.argsort(x, stable=True)
    return _selected(take(x, order), take(keep, order), size, fill_value)


@implements("isin")
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    x, tests = array_of(element), ravelled(array_of(test_elements))
    np.isin(*[np.empty(0, aval_of(v).dtype) for v in (x, tests)], kind=kind)  # NumPy's errors
    found = np.any(np.equal(expand(x, (len(shape_of(x)),)), tests), axis=-1)
    return anew(np.logical_not(found) if invert else found)


@implements("trim_zeros", alias="same")
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """`numpy.trim_zeros`; the derivative of what is left goes to where it was."""
    x = array_of(filt)
    if trim.lower() not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    ndim = len(shape_of(x))
    axes = axes_of(axis, ndim)
    if not axes:
        return x
    ends = []
    for i, (places, n) in enumerate(zip(np.nonzero(x), shape_of(x))):
        if i not in axes:
            ends.append(slice(None))
        elif not len(places):
            ends.append(slice(0, 0))
        else:
            first, last = int(np.min(places)), int(np.max(places))
            ends.append(slice(first if "f" in trim.lower() else 0, last + 1 if "b" in trim.lower() else n))
    return indexing.getitem(x, tuple(ends))


mirrors(named_after(globals(), "numpy"), "numpy")

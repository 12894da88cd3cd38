"""Shapes and axes: reshape, broadcasting, flips, triangles. Nothing here computes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from funcad.configuration import OnDemand
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, has_value, snapshot
from funcad.numpy.dispatch import implements, in_order, is_fortran, is_traced, order_of, refuse
from funcad.numpy.views import destination
from funcad.primitives import comparison
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_in_dim, full, move_axis, permute, rev
from funcad.primitives.shape import broadcast_to as _broadcast_to
from funcad.primitives.shape import reshape as _reshape
from funcad.writes.boxes import assign

from funcad.numpy.promote import (  # isort: skip
    array_of, as_array_of_rank_0, axes_of, axis_of, expand, numbers, ravelled, shape_argument,
)

strides = OnDemand("funcad.unjitted.strides")
_NO = np._NoValue


def resolve_shape(shape: Any, size: int) -> tuple[int, ...]:
    """A reshape target with its -1 filled in."""
    shape = shape_argument(shape)
    unknown = [i for i, n in enumerate(shape) if n < 0]
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    if unknown:
        known = 1
        for n in shape:
            known *= n if n >= 0 else 1
        if known == 0 or size % known:
            raise ValueError(f"cannot reshape array of size {size} into shape {_shape_text(shape)}")
        shape = tuple([n if n >= 0 else size // known for n in shape])
    return shape


def _shape_text(shape: tuple) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


@implements("reshape", alias="view", by_kind=True)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    """`numpy.reshape`; `copy=False` is refused where NumPy would copy, `newshape` is the old name of `shape`.

    `order="A"` needs a traced value whose memory order is known: an argument, a captured array, a view of these, what was
    computed from them element by element; otherwise TypeError.
    """
    shape = newshape if shape is None else shape
    if shape is None:
        raise TypeError("reshape() missing 1 required positional argument: 'shape'")
    x = array_of(a)
    own = aval_of(x)
    target = resolve_shape(shape, own.size)
    order = order_of(order, "CFA", "C")
    if order == "F" or order == "A" and is_fortran(x, "reshape"):
        x = _reshape(permute(x, range(len(own.shape))[::-1]), shape=target[::-1])
        return permute(x, range(len(target))[::-1])
    return x if target == own.shape else _reshape(x, shape=target)


@implements("ravel", alias="view", by_kind=True)
def ravel(a: Any, order: str = "C") -> Any:
    """`numpy.ravel`; order="K" and "A" need a traced value whose memory order is known, as in `reshape`."""
    return flattened(a, order, "ravel")


def flattened(a: Any, order: Any, what: str) -> Any:
    """All elements of a in one axis, in one of NumPy's four orders."""
    x = array_of(a)
    order = order_of(order, "CFAK", "C")
    if order == "K":
        x = permute(x, in_order(x, what))
    elif order == "F" or order == "A" and is_fortran(x, what):
        x = permute(x, range(len(shape_of(x)))[::-1])
    return x if len(shape_of(x)) == 1 else _reshape(x, shape=(aval_of(x).size,))


@implements("swapaxes", alias="view", by_kind=True)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    x = array_of(a)
    ndim = len(shape_of(x))
    perm = list(range(ndim))
    i, j = axis_of(axis1, ndim), axis_of(axis2, ndim)
    perm[i], perm[j] = perm[j], perm[i]
    return permute(x, perm)


@implements("moveaxis", alias="view", by_kind=True)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    x = array_of(a)
    ndim = len(shape_of(x))
    source = normalize_axis_tuple(source, ndim, "source")
    destination = normalize_axis_tuple(destination, ndim, "destination")
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    perm = [i for i in range(ndim) if i not in source]
    for to, of in sorted(zip(destination, source)):
        perm.insert(to, of)
    return permute(x, perm)


@implements("rollaxis", alias="view", by_kind=True)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    x = array_of(a)
    ndim = len(shape_of(x))
    axis = axis_of(axis, ndim)
    start = start + ndim if start < 0 else start
    if not 0 <= start <= ndim:
        raise np.exceptions.AxisError(f"'start' arg requires {-ndim} <= start < {ndim + 1}, but {start} was passed in")
    return move_axis(x, axis, start - 1 if axis < start else start)


@implements("expand_dims", alias="view", by_kind=True)
def expand_dims(a: Any, axis: Any) -> Any:
    x = array_of(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return expand(x, normalize_axis_tuple(axes, len(axes) + len(shape_of(x))))


@implements("squeeze", alias="same", by_kind=True)
def squeeze(a: Any, axis: Any = None) -> Any:
    x = array_of(a)
    shape = shape_of(x)
    if axis is None:
        axes: Sequence[int] = [i for i, n in enumerate(shape) if n == 1]
    else:
        axes = axes_of(axis, len(shape))
        if any(shape[i] != 1 for i in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return _reshape(x, shape=tuple([n for i, n in enumerate(shape) if i not in axes])) if axes else x


def _at_least(x: Any, ndim: int) -> Any:
    x = array_of(x)
    shape = shape_of(x)
    if len(shape) >= ndim:
        return x
    if ndim == 3:
        new = (1, *shape, 1) if len(shape) == 1 else (*shape, 1) if len(shape) == 2 else (1, 1, 1)
        return _reshape(x, shape=new)
    return _reshape(x, shape=(1,) * (ndim - len(shape)) + shape)


def _several(arrays: Sequence[Any], ndim: int) -> Any:
    results = tuple([_at_least(a, ndim) for a in arrays])
    return results[0] if len(results) == 1 else results


@implements("atleast_1d", alias="same")
def atleast_1d(*arys: Any) -> Any:
    return _several(arys, 1)


@implements("atleast_2d", alias="same")
def atleast_2d(*arys: Any) -> Any:
    return _several(arys, 2)


@implements("atleast_3d", alias="same")
def atleast_3d(*arys: Any) -> Any:
    return _several(arys, 3)


@implements("broadcast_to", alias="view", by_kind=True)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    x, shape = array_of(array), shape_argument(shape)
    own = shape_of(x)
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1])):
        raise ValueError(
            "operands could not be broadcast together with remapped shapes [original->remapped]: "
            f"{_shape_text(own)}  and requested shape {_shape_text(shape)}"
        )
    return _broadcast_to(x, shape)


@implements("broadcast_arrays", alias="same")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple:
    refuse("np.broadcast_arrays", subok=subok or None)
    arrays = [array_of(a) for a in args]
    shape = np.broadcast_shapes(*[shape_of(a) for a in arrays])
    return tuple([as_array_of_rank_0(a if shape_of(a) == shape else broadcast_to(a, shape)) for a in arrays])


# -- order along axes


@implements("flip", alias="view", by_kind=True)
@numbers
def flip(m: Any, axis: Any = None) -> Any:
    x = array_of(m)
    axes = axes_of(axis, len(shape_of(x)))
    return rev(x, axes=axes) if axes else x


@implements("fliplr", alias="view", by_kind=True)
def fliplr(m: Any) -> Any:
    if len(shape_of(array_of(m))) < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


@implements("flipud", alias="view", by_kind=True)
def flipud(m: Any) -> Any:
    if len(shape_of(array_of(m))) < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(m, 0)


@implements("rot90", alias="view", by_kind=True)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    x = array_of(m)
    i, j = normalize_axis_tuple(axes, len(shape_of(x)))
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (i, j))
    return swapaxes(flip(x, j), i, j) if k == 1 else flip(swapaxes(x, i, j), j)


# -- triangles


def _triangle(m: Any, keep: np.ndarray) -> Any:
    aval = aval_of(m)
    mask = keep if keep.shape == aval.shape else np.broadcast_to(keep, aval.shape)
    return comparison.select(mask, m, full(aval, 0))


def _matrix(m: Any) -> Any:
    x = array_of(m)
    if len(shape_of(x)) == 1:
        x = _broadcast_to(x, shape_of(x) * 2)
    if not shape_of(x):
        np.tril(0.0)  # NumPy's error
    return x


@implements("tril")
def tril(m: Any, k: int = 0) -> Any:
    x = _matrix(m)
    n, m = shape_of(x)[-2:]
    return _triangle(x, np.tri(n, m, k, dtype=bool))


@implements("triu")
def triu(m: Any, k: int = 0) -> Any:
    x = _matrix(m)
    n, m = shape_of(x)[-2:]
    return _triangle(x, ~np.tri(n, m, k - 1, dtype=bool))


@implements("fill_diagonal", always=True)
def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """`numpy.fill_diagonal`, but with `inplace=False` it returns a new array."""
    if inplace:
        if not is_traced((a, val)):
            return np.fill_diagonal(a, val, wrap)
        x = destination(a, "np.fill_diagonal")
        return assign(x, fill_diagonal(snapshot(x), val, wrap, inplace=False))
    x = array_of(a)
    shape = shape_of(x)
    if len(set(shape)) != 1 and len(shape) != 2:
        raise ValueError("All dimensions of input must be of equal length")
    mask = np.zeros(shape, bool)
    np.fill_diagonal(mask, True, wrap)
    filled = np.nonzero(mask)[0]  # rows, each of which has one place at most
    (mask,) = on_device_of((mask,), (x,))
    value = convert(array_of(val), aval_of(x).dtype)
    if shape_of(value):
        index = np.zeros(shape[0], int)
        index[filled] = np.arange(len(filled)) % prod(shape_of(value))
        value = ravelled(value)[index]
        value = broadcast_in_dim(value, shape=shape, axes=(0,))
    else:
        value = _broadcast_to(value, shape)
    return strides.doubt(comparison.select(mask, value, x))


def known(x: Any) -> bool:
    """Is x an ordinary value, or a traced one whose value can be read?"""
    return type(x) is not Tracer or has_value(x)

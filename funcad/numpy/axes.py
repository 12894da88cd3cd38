"""Arguments that name axes and shapes, made definite: non-negative, sorted, checked in NumPy's words."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import index
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.numpy.promote import as_array, strong
from funcad.primitives.shape import reshape, transpose

__all__ = [
    "axis_of",
    "check_kth",
    "axes_of",
    "reduced_axes",
    "shape_argument",
    "array_of",
    "move",
    "permute",
    "expand",
    "ravelled",
    "merge_axes",
]


def array_of(x: Any) -> Any:
    """An argument as an array, tracer or strong scalar; lists (of tracers too) become arrays."""
    return strong(as_array(x))


def axis_of(axis: Any, ndim: int) -> int:
    return normalize_axis_index(axis if type(axis) is int else index(axis), ndim)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Sorted non-negative axes; None means all."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (normalize_axis_index(axis, ndim),)
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """As `axes_of` for what ufuncs reduce: they let an array of rank 0 have the axes 0 and -1."""
    return () if not ndim and type(axis) is int and axis in (0, -1) else axes_of(axis, ndim)


def shape_argument(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints."""
    if isinstance(shape, (tuple, list, range)) or is_a(shape, np.ndarray) and shape.ndim:
        return tuple([n if type(n) is int else index(n) for n in shape])
    return (index(shape),)


def permute(x: Any, perm: Any) -> Any:
    perm = tuple(perm)
    return x if perm == tuple(range(len(perm))) else transpose(x, perm=perm)


def move(x: Any, source: int, destination: int) -> Any:
    """One axis moved, the others in their order."""
    perm = [i for i in range(len(shape_of(x))) if i != source]
    perm.insert(destination, source)
    return permute(x, perm)


def expand(x: Any, axes: Any) -> Any:
    """New axes of size 1 at the given places of the result."""
    shape = list(shape_of(x))
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshape(x, shape=tuple(shape)) if axes else x


def ravelled(x: Any) -> Any:
    aval = aval_of(x)
    return x if len(aval.shape) == 1 else reshape(x, shape=(aval.size,))


def merge_axes(x: Any, axes: tuple[int, ...]) -> tuple[Any, int, Callable[[Any], Any]]:
    """x with its `axes` as one, which one that is, and how to come back; a scalar becomes an array of one element."""
    shape = shape_of(x)
    if not shape:
        return reshape(x, shape=(1,)), 0, lambda y: reshape(y, shape=())
    if len(axes) == 1:
        return x, axes[0], lambda y: y
    kept = [i for i in range(len(shape)) if i not in axes]
    perm = (*kept, *axes)
    moved = tuple([shape[i] for i in perm])
    one = reshape(transpose(x, perm=perm), shape=(*moved[: len(kept)], prod(moved[len(kept) :])))
    inverse = tuple([perm.index(i) for i in range(len(shape))])
    return one, len(kept), lambda y: transpose(reshape(y, shape=moved), perm=inverse)


def check_kth(a: Any, kth: Any, axis: Any) -> None:
    """Of np.partition: NumPy's error if there is no such position along the axis."""
    aval = aval_of(array_of(a))
    n = aval.size if axis is None or not aval.shape else aval.shape[axis_of(axis, len(aval.shape))]
    if n and not np.all((np.asarray(kth) >= -n) & (np.asarray(kth) < n)):
        np.partition(np.empty(n), kth)

"""Shapes and dtypes; and the operands of all of `funcad.lax`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import dtype_kind, is_a
from funcad.ir.aval import LiteralAval, aval_of, dtype_of, said, shape_of
from funcad.primitives import comparison, conversion, shape
from funcad.primitives.basic_indexing import basic_index
from funcad.primitives.conversion import convert
from funcad.primitives.families import avals_text
from funcad.primitives.shape import broadcast_in_dim as _broadcast_in_dim

# -- what the functions of `funcad.lax` ask of their operands: equal dtypes, and equal shapes but for scalars and axes of size 1
#
# Nothing is promoted, as in JAX: TypeError names the operands. A Python number adapts to the dtype of the arrays that it meets
# if its kind fits (a float beside float32, an int beside int8; JAX with 64-bit types enabled refuses some of these).


NUMBER, FLOAT, REAL_FLOAT, INTEGER, BITS, ANY, ORDERED = "iufc", "fc", "f", "iu", "biu", "biufc", "biuf"
_NAMES = {"b": "bool", "i": "int", "u": "unsigned int", "f": "float", "c": "complex"}
_FITS = {"b": "b", "i": "iu", "f": "fc", "c": "c"}


def equal_dtypes(name: str, kinds: str, xs: Sequence[Any]) -> list[Any]:
    """The operands with Python numbers made NumPy scalars of the common dtype; TypeError if the dtypes differ."""
    avals = [aval_of(x) for x in xs]
    strong = [a.dtype for a in avals if not a.weak]
    dtype = strong[0] if strong else np.result_type(*[a.dtype for a in avals])
    for a in avals:
        if a.dtype != dtype and not (a.weak and dtype.kind in _FITS[a.dtype.kind]):
            raise TypeError(
                f"lax.{name} requires operands of equal dtypes, got {avals_text(avals)}. Convert them with "
                "lax.convert_element_type, or use funcad.numpy, which promotes."
            )
    if dtype_kind(dtype) not in kinds:
        raise TypeError(
            f"lax.{name} takes {' or '.join([_NAMES[k] for k in kinds])} operands, got {avals_text(avals)}. Convert them "
            "with lax.convert_element_type, or use funcad.numpy, which promotes."
        )
    result = []
    for x, a in zip(xs, avals):
        if a.weak:
            x = dtype.type(x) if isinstance(a, LiteralAval) else convert(x, dtype)
        result.append(x)
    return result


def equal_shapes(name: str, xs: Sequence[Any]) -> list[Any]:
    """The operands in one shape: scalars and axes of size 1 are repeated; TypeError if the shapes differ otherwise."""
    avals = [aval_of(x) for x in xs]
    first = avals[0].shape
    if all(a.shape == first for a in avals):
        return list(xs)
    shaped = [a.shape for a in avals if a.shape]
    shape = tuple([next((n for n in sizes if n != 1), 1) for sizes in zip(*shaped)])
    result = []
    for x, a in zip(xs, avals):
        if a.shape and (len(a.shape) != len(shape) or any(n not in (1, m) for n, m in zip(a.shape, shape))):
            raise TypeError(
                f"lax.{name} requires operands of equal shapes, got {avals_text(avals)}. Broadcast them with "
                "lax.broadcast_in_dim, or use funcad.numpy, which broadcasts."
            )
        if a.shape != shape and not isinstance(a, LiteralAval):
            x = _broadcast_in_dim(x, shape=shape, axes=tuple(range(len(a.shape))))
        result.append(x)
    return result


def operands(name: str, kinds: str, *xs: Any) -> list[Any]:
    """The operands of an elementwise function, ready for its primitive."""
    xs = equal_dtypes(name, kinds, xs)  # type: ignore[assignment]
    return equal_shapes(name, xs) if len(xs) > 1 else list(xs)


def axis_in(name: str, axis: int, ndim: int) -> int:
    """The axis counted from the front; ValueError if there is none."""
    axis = axis.__index__()
    if not -ndim <= axis < ndim:
        raise ValueError(f"lax.{name}: axis {axis} is out of bounds for an operand with {ndim} axes")
    return axis % ndim


def axes_in(name: str, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """The axes counted from the front, in order; ValueError if one is missing or repeated."""
    found = sorted([axis_in(name, a, ndim) for a in axes])
    if len(set(found)) != len(found):
        raise ValueError(f"lax.{name}: axes {tuple(axes)} of an operand with {ndim} axes are repeated")
    return tuple(found)


# -- shapes, joining, padding, slicing and making arrays, with the names and semantics of `jax.lax`


_slice = slice


def _sizes(sizes: Any) -> tuple[int, ...]:
    return tuple([n.__index__() for n in sizes])


def dtype(x: Any) -> np.dtype:
    """The dtype of an array or a number."""
    return dtype_of(x)


def shape_as_value(shape: Sequence[int]) -> np.ndarray:
    """A shape as an integer array (JAX: int32; here int64)."""
    return np.array(_sizes(shape), np.int64)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which NumPy broadcasts these shapes; ValueError if there is none.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return tuple([int(n) for n in np.broadcast_shapes(*[tuple(s) for s in shapes])])


def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """operand repeated along new leading axes."""
    own, sizes = shape_of(operand), _sizes(sizes)
    return shape.broadcast_in_dim(operand, shape=(*sizes, *own), axes=tuple(range(len(sizes), len(sizes) + len(own))))


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """operand with its axis i at broadcast_dimensions[i] of `shape`; axes of size 1 are repeated.

    >>> broadcast_in_dim(np.array([1, 2]), (2, 3), (0,))
    array([[1, 1, 1],
           [2, 2, 2]])
    """
    new, axes = _sizes(shape), _sizes(broadcast_dimensions)
    own = shape_of(operand)
    if list(axes) != sorted(set(axes)) or len(axes) != len(own) or any(not 0 <= a < len(new) for a in axes):
        raise TypeError(
            f"lax.broadcast_in_dim: broadcast_dimensions must give each axis of {said(operand)} a place in {new}, in "
            f"order, got {axes}"
        )
    if any(n not in (1, new[a]) for n, a in zip(own, axes)):
        raise TypeError(f"lax.broadcast_in_dim: {said(operand)} does not fit {new} along the axes {axes}")
    return _broadcast(operand, new, axes)


def _broadcast(x: Any, new: tuple, axes: tuple) -> Any:
    return shape.broadcast_in_dim(x, shape=new, axes=axes)


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """x with leading axes of size 1 up to the rank."""
    own = shape_of(x)
    if len(own) > rank:
        raise ValueError(f"lax.broadcast_to_rank: {said(x)} has more than {rank} axes")
    return x if len(own) == rank else shape.reshape(x, shape=(1,) * (rank - len(own)) + own)


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """arr broadcast, by NumPy's rule, to the shape of like_arr."""
    return shape.broadcast_to(arr, shape_of(like_arr))


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Any:
    """operand in another shape, its axes taken in the order `dimensions` first; sizes are given in full (no -1).

    >>> reshape(np.arange(6), (3, 2))
    array([[0, 1],
           [2, 3],
           [4, 5]])
    """
    new, own = _sizes(new_sizes), aval_of(operand)
    if any(n < 0 for n in new):
        raise TypeError(f"lax.reshape: new_sizes must not be negative, got {new}; funcad.numpy.reshape understands -1")
    size = 1
    for n in new:
        size *= n
    if size != own.size:
        raise TypeError(f"lax.reshape: {own} has {own.size} elements, which do not fit {new}")
    if dimensions is not None and tuple(dimensions) != tuple(range(own.ndim)):
        operand = transpose(operand, dimensions)
    return operand if shape_of(operand) == new else shape.reshape(operand, shape=new)


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """operand with its axes in another order."""
    perm, ndim = _sizes(permutation), len(shape_of(operand))
    if sorted(perm) != list(range(ndim)):
        raise TypeError(f"lax.transpose: {perm} is not a permutation of the axes of {said(operand)}")
    return operand if perm == tuple(range(ndim)) else shape.transpose(operand, perm=perm)


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """array with axes of size 1 at `dimensions` of the result."""
    own = shape_of(array)
    ndim = len(own) + len(dimensions)
    added, sizes = axes_in("expand_dims", dimensions, ndim), iter(own)
    return shape.reshape(array, shape=tuple([1 if i in added else next(sizes) for i in range(ndim)]))


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """array without the axes `dimensions`, which have size 1."""
    own = shape_of(array)
    dropped = axes_in("squeeze", dimensions, len(own))
    if any(own[a] != 1 for a in dropped):
        raise ValueError(f"lax.squeeze: axes {tuple(dimensions)} of {said(array)} must have size 1")
    return shape.reshape(array, shape=tuple([n for i, n in enumerate(own) if i not in dropped]))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """operand with the axes from start to stop (exclusive) merged into one."""
    own = shape_of(operand)
    start, stop, _ = slice_bounds(start_dimension, stop_dimension, len(own))
    if start >= stop:
        raise ValueError(f"lax.collapse: no axes between {start_dimension} and {stop_dimension} of {said(operand)}")
    size = 1
    for n in own[start:stop]:
        size *= n
    return reshape(operand, (*own[:start], size, *own[stop:]))


def slice_bounds(start: int | None, stop: int | None, n: int) -> tuple[int, int, int]:
    """Bounds as Python's slices understand them."""
    return _slice(start, stop).indices(n)


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Arrays of equal dtype joined along an axis.

    >>> concatenate([np.array([1, 2]), np.array([3])], 0)
    array([1, 2, 3])
    """
    if len(operands) == 0:
        raise ValueError("lax.concatenate: at least one operand is needed")
    operands = equal_dtypes("concatenate", ANY, operands)
    shapes = [shape_of(x) for x in operands]
    ndim = len(shapes[0])
    if not 0 <= dimension < ndim or any(
        len(s) != ndim or s[:dimension] + s[dimension + 1 :] != shapes[0][:dimension] + shapes[0][dimension + 1 :]
        for s in shapes
    ):
        raise TypeError(
            f"lax.concatenate: operands may differ only along axis {dimension}, got "
            f"{avals_text([aval_of(x) for x in operands])}"
        )
    return operands[0] if len(operands) == 1 else shape.concatenate(operands, axis=dimension)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of equal shape and dtype joined along a new axis."""
    if len(operands) == 0:
        raise ValueError("lax.stack: at least one operand is needed")
    axis = axis_in("stack", axis, len(shape_of(operands[0])) + 1)
    return concatenate([expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of x along an axis, without it."""
    axis = axis_in("unstack", axis, len(shape_of(x)))
    return tuple([index_in_dim(x, i, axis, keepdims=False) for i in range(shape_of(x)[axis])])


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Pieces of the given sizes along an axis; the sizes add up to the axis.

    >>> split(np.arange(3), (1, 2))
    [array([0]), array([1, 2])]
    """
    axis, sizes = axis_in("split", axis, len(shape_of(operand))), _sizes(sizes)
    if sum(sizes) != shape_of(operand)[axis] or any(n < 0 for n in sizes):
        raise ValueError(f"lax.split: sizes {sizes} do not add up to axis {axis} of {said(operand)}")
    pieces, start = [], 0
    for n in sizes:
        pieces.append(slice_in_dim(operand, start, start + n, 1, axis))
        start += n
    return pieces


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """operand repeated reps[i] times along axis i."""
    own, reps = shape_of(operand), _sizes(reps)
    if len(reps) != len(own):
        raise ValueError(f"lax.tile: reps {reps} must have one entry for each axis of {said(operand)}")
    wide = tuple([n for pair in zip(reps, own) for n in pair])
    repeated = _broadcast(operand, wide, tuple(range(1, len(wide), 2)))
    return shape.reshape(repeated, shape=tuple([r * n for r, n in zip(reps, own)]))


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """operand with the order of its elements reversed along axes."""
    return shape.rev(operand, axes=axes_in("rev", dimensions, len(shape_of(operand))))


def _all_true(x: Any) -> Any:
    """True in the shape of x, where x is (computed, so that it is on x's device)."""
    differs = comparison.ne(x, x)
    return comparison.or_(differs, comparison.not_(differs))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """operand with (low, high, interior) elements of `padding_value` before, after and between; negative ones crop.

    Both have one dtype, and both have derivatives. As JAX's.

    >>> pad(np.array([1.0, 2.0, 3.0]), 0.0, [(1, -1, 1)])
    array([0., 1., 0., 2., 0.])
    """
    operand, value = equal_dtypes("pad", ANY, (operand, padding_value))
    own = shape_of(operand)
    if shape_of(value) != ():
        raise TypeError(f"lax.pad: padding_value must be a scalar, got {said(value)}")
    if len(padding_config) != len(own) or any(k < 0 for _, _, k in padding_config):
        raise TypeError(
            f"lax.pad: padding_config has one triple (low, high, interior >= 0) for each axis of {said(operand)}, got "
            f"{padding_config}"
        )
    triples = [_sizes(triple) for triple in padding_config]
    spread = tuple([n + max(n - 1, 0) * k for n, (_, _, k) in zip(own, triples)])
    if any(n + low + high < 0 for n, (low, high, _) in zip(spread, triples)):
        raise ValueError(f"lax.pad: padding_config {padding_config} leaves less than nothing of {said(operand)}")
    padded = _pad_zeros(operand, spread, triples)
    if is_a(value, np.generic) and value == 0 and not np.signbit(value.real):
        return padded
    inside = _pad_zeros(_all_true(operand), spread, triples)
    return comparison.select(inside, padded, _broadcast(value, shape_of(padded), ()))


def _pad_zeros(x: Any, spread: tuple, triples: Sequence[tuple]) -> Any:
    low, high = [tuple([max(t[i], 0) for t in triples]) for i in (0, 1)]
    interior = tuple([t[2] for t in triples])
    if any(low) or any(high) or any(interior):
        x = shape.pad(x, low=low, high=high, interior=interior)
    start = tuple([max(-t[0], 0) for t in triples])
    limit = tuple([n + min(t[1], 0) for n, t in zip([a + m + b for a, m, b in zip(low, spread, high)], triples)])
    if any(start) or limit != shape_of(x):
        x = shape.slice_p(x, start=tuple(map(min, start, limit)), limit=limit, strides=None)
    return x


def slice(
    operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Any:
    """operand[start:limit:stride] along every axis; bounds within the shape, not negative."""
    own, start, limit = shape_of(operand), _sizes(start_indices), _sizes(limit_indices)
    steps = (1,) * len(own) if strides is None else _sizes(strides)
    if not len(start) == len(limit) == len(steps) == len(own):
        raise TypeError(f"lax.slice: start_indices, limit_indices and strides need one entry per axis of {said(operand)}")
    if any(not 0 <= a <= b <= n for a, b, n in zip(start, limit, own)) or any(s < 1 for s in steps):
        raise TypeError(
            f"lax.slice: start_indices {start}, limit_indices {limit} and strides {steps} do not fit {said(operand)}"
        )
    if limit == own and not any(start) and all(s == 1 for s in steps):
        return operand
    return shape.slice_p(operand, start=start, limit=limit, strides=None if set(steps) <= {1} else steps)


def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Any:
    """operand[start:limit:stride] along one axis; negative bounds count from the end."""
    own = shape_of(operand)
    axis = axis_in("slice_in_dim", axis, len(own))
    n = own[axis]
    start = 0 if start_index is None else start_index.__index__()
    limit = n if limit_index is None else limit_index.__index__()
    start, limit = start + n if start < 0 else start, limit + n if limit < 0 else limit
    starts, limits = [0] * len(own), list(own)
    starts[axis], limits[axis] = start, limit
    return slice(operand, starts, limits, [stride if i == axis else 1 for i in range(len(own))])


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """operand at one (known) index of an axis; IndexError out of bounds."""
    own = shape_of(operand)
    axis, index = axis_in("index_in_dim", axis, len(own)), index.__index__()
    n = own[axis]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {n}")
    index %= n
    if keepdims:
        return slice_in_dim(operand, index, index + 1, 1, axis)
    return basic_index(operand, tuple([index if i == axis else (0, m, 1) for i, m in enumerate(own)]))


# ---- making arrays


def iota(dtype: Any, size: int) -> np.ndarray:
    """0, 1, ... size - 1."""
    return np.arange(size, dtype=np.dtype(dtype))


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> np.ndarray:
    """An array that holds at each place its index along one axis.

    >>> broadcasted_iota(int, (2, 3), 1)
    array([[0, 1, 2],
           [0, 1, 2]])
    """
    new = _sizes(shape)
    axis = axis_in("broadcasted_iota", dimension, len(new))
    line = np.arange(new[axis], dtype=np.dtype(dtype)).reshape([-1 if i == axis else 1 for i in range(len(new))])
    return np.broadcast_to(line, new).copy()


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Any:
    """An array filled with one (possibly traced) value."""
    if shape_of(fill_value) != ():
        raise TypeError(f"lax.full: fill_value must be a scalar, got {said(fill_value)}")
    wanted = dtype_of(fill_value) if dtype is None else np.dtype(dtype)
    if is_a(fill_value, (np.generic, int, float, complex)):
        return np.full(_sizes(shape), fill_value, wanted)
    return _broadcast(conversion.convert(fill_value, wanted), _sizes(shape), ())


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None) -> Any:
    """An array of x's shape and dtype (or those given) filled with one value."""
    return full(shape_of(x) if shape is None else shape, fill_value, dtype_of(x) if dtype is None else dtype)


def empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array of zeros (there is nothing to gain by leaving it undefined)."""
    return np.zeros(_sizes(shape), np.dtype(dtype))

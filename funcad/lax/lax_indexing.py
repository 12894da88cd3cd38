"""Dynamic slices, gather and scatter, with the names and semantics of `jax.lax`.

`gather` and `scatter` read and write windows: `start_indices[..., k]` is where a window starts along the operand's axis
`start_index_map[k]`. Here a window becomes index arrays for the canonical forms of `primitives/basic_indexing.py`. Windows that
do not fit are treated by `mode`: "clip" (the default of a gather) moves them inside, "fill" (or "drop", the default of a
scatter) reads `fill_value` and writes nothing, "promise_in_bounds" does not look (NumPy's IndexError, and negative indices
count from the end).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.lax.shapes import ANY, axis_in, equal_dtypes
from funcad.primitives import arithmetic, basic_indexing, comparison, computed_slices
from funcad.primitives.basic_indexing import gather as _gather
from funcad.primitives.basic_indexing import scatter as _scatter
from funcad.primitives.conversion import convert
from funcad.primitives.reduction import reduce_all
from funcad.primitives.shape import broadcast_in_dim, pad, reshape, slice_p, transpose

_INT64 = np.dtype(np.int64)


# ---- dynamic slices


def _starts(name: str, operand: Any, start_indices: Any, negative: bool | Sequence[bool]) -> list[Any]:
    ndim = len(shape_of(operand))
    if isinstance(start_indices, (tuple, list)):
        starts = list(start_indices)
    else:
        if len(shape_of(start_indices)) != 1:
            raise TypeError(f"lax.{name}: start_indices must be a sequence or a 1-d array, got {said(start_indices)}")
        starts = [basic_indexing.basic_index(start_indices, (i,)) for i in range(shape_of(start_indices)[0])]
    if len(starts) != ndim:
        raise TypeError(f"lax.{name}: needs one start per axis of {said(operand)}, got {len(starts)}")
    flags = [negative] * ndim if is_a(negative, bool) else list(negative)
    result = []
    for start, wraps in zip(starts, flags):
        if dtype_of(start).kind not in "iu" or shape_of(start) != ():
            raise TypeError(f"lax.{name}: starts must be integer scalars, got {said(start)}")
        result.append(start if wraps else arithmetic.maximum(start, dtype_of(start).type(0)))
    return result


def _check_fits(name: str, operand: Any, sizes: tuple) -> None:
    own = shape_of(operand)
    if len(sizes) != len(own) or any(not 0 <= k <= n for k, n in zip(sizes, own)):
        raise TypeError(f"lax.{name}: a window of shape {sizes} does not fit {said(operand)}")


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The window of shape slice_sizes at computed starts; starts count from the end if negative, then move to fit.

    >>> dynamic_slice(np.arange(5), (9,), (2,))
    array([3, 4])
    """
    starts = _starts("dynamic_slice", operand, start_indices, allow_negative_indices)
    sizes = tuple([n.__index__() for n in slice_sizes])
    _check_fits("dynamic_slice", operand, sizes)
    return computed_slices.dynamic_slice(operand, starts, sizes)


def dynamic_update_slice(
    operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Any:
    """A copy of operand with update written at computed starts, which are treated as by dynamic_slice.

    >>> dynamic_update_slice(np.zeros(4), np.ones(2), (1,))
    array([0., 1., 1., 0.])
    """
    operand, update = equal_dtypes("dynamic_update_slice", ANY, (operand, update))
    starts = _starts("dynamic_update_slice", operand, start_indices, allow_negative_indices)
    _check_fits("dynamic_update_slice", operand, shape_of(update))
    return computed_slices.dynamic_update_slice(operand, update, starts)


def _along(ndim: int, axis: int, start: Any) -> list[Any]:
    return [start if i == axis else 0 for i in range(ndim)]


def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Any:
    """slice_size elements along one axis from a computed start."""
    own = shape_of(operand)
    axis = axis_in("dynamic_slice_in_dim", axis, len(own))
    sizes = [slice_size if i == axis else n for i, n in enumerate(own)]
    starts = _along(len(own), axis, start_index)
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """A copy of operand with update written from a computed start along one axis."""
    ndim = len(shape_of(operand))
    starts = _along(ndim, axis_in("dynamic_update_slice_in_dim", axis, ndim), start_index)
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Any:
    """operand at a computed index of one axis."""
    own = shape_of(operand)
    axis = axis_in("dynamic_index_in_dim", axis, len(own))
    result = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return result if keepdims else reshape(result, shape=own[:axis] + own[axis + 1 :])


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """A copy of operand with update written at a computed index of one axis, which update may lack."""
    own = shape_of(operand)
    axis = axis_in("dynamic_update_index_in_dim", axis, len(own))
    shape = shape_of(update)
    if len(shape) == len(own) - 1:
        update = reshape(update, shape=(*shape[:axis], 1, *shape[axis:]))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """src at index vectors (1-d, of one length) along axes, which become one leading axis; negative indices wrap."""
    ndim = len(shape_of(src))
    axes = tuple([axis_in("index_take", a, ndim) for a in axes])
    perm = (*axes, *[i for i in range(ndim) if i not in axes])
    return _gather(_permuted(src, perm), *idxs)


# ---- gather and scatter


class GatherScatterMode(enum.Enum):
    """What happens to windows that do not fit; `from_any` reads the names too."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """The mode that a name or a mode stands for; ValueError for anything else."""
        if isinstance(mode, GatherScatterMode):
            return mode
        try:
            return GatherScatterMode("fill" if mode == "drop" else mode)
        except ValueError:
            raise ValueError(f'mode is "clip", "fill", "drop" or "promise_in_bounds", got {mode!r}') from None


class GatherDimensionNumbers(NamedTuple):
    """Which axes of result, operand and start_indices belong together in `gather`."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of updates, operand and scatter_indices belong together in `scatter`."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


def _permuted(x: Any, perm: tuple) -> Any:
    return x if perm == tuple(range(len(perm))) else transpose(x, perm=perm)


def _inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple([list(perm).index(i) for i in range(len(perm))])


class _Windows:
    """Windows as index arrays: `perm` brings the indexed axes of the operand to the front, `indices` address them."""

    __slots__ = ("batch", "perm", "indexed", "starts", "sizes", "shape", "layout", "own")

    def __init__(
        self, name: str, operand: Any, indices: Any, index_map: Any, hidden: Any, op_batch: Any, ix_batch: Any, sizes: Any
    ):
        """`hidden`: axes that the result lacks; `sizes`: the window's size along each axis of the operand."""
        shape, ndim = shape_of(operand), len(shape_of(operand))
        if dtype_of(indices).kind not in "iu":
            raise TypeError(f"lax.{name}: indices must be integers, got {said(indices)}")
        full = shape_of(indices)
        if not full or full[-1] != len(index_map) or len(sizes) != ndim or len(op_batch) != len(ix_batch):
            raise TypeError(
                f"lax.{name}: the last axis of the indices ({said(indices)}) must have one entry for each of the axes "
                f"{index_map} of {said(operand)}, and windows one size per axis, got {sizes}"
            )
        if any(not 0 <= k <= n for k, n in zip(sizes, shape)) or any(sizes[d] != 1 for d in (*hidden, *op_batch)):
            raise TypeError(f"lax.{name}: windows of sizes {sizes} do not fit {said(operand)}, collapsed axes {hidden}")
        self.batch, self.shape, self.sizes = full[:-1], shape, tuple(sizes)
        self.own = [d for d in range(ndim) if d not in hidden and d not in op_batch]  # the axes that the window keeps
        self.indexed = [d for d in range(ndim) if d in index_map or d in op_batch or d in hidden or sizes[d] != shape[d]]
        self.perm = (*self.indexed, *[d for d in range(ndim) if d not in self.indexed])
        self.layout = [d for d in self.indexed if d in self.own] + [d for d in self.own if d not in self.indexed]
        self.starts = {}
        whole = tuple([(0, n, 1) for n in self.batch])
        for k, d in enumerate(index_map):
            self.starts[d] = convert(basic_indexing.basic_index(indices, (*whole, k)), _INT64)
        for d, b in zip(op_batch, ix_batch):
            self.starts[d] = broadcast_in_dim(np.arange(shape[d]), shape=self.batch, axes=(b,))

    def fits(self) -> Any:
        """For each window, does it lie inside? True if all are known to."""
        inside: Any = None
        for d, start in self.starts.items():
            last = np.int64(self.shape[d] - self.sizes[d])
            ok = comparison.and_(comparison.ge(start, np.int64(0)), comparison.le(start, last))
            inside = ok if inside is None else comparison.and_(inside, ok)
        if inside is None:
            return True
        known = concrete_value(inside)
        if type(known) is not Tracer and bool(reduce_all(known, axes=tuple(range(len(self.batch))))):
            return True
        return inside

    def clip(self) -> None:
        for d, start in self.starts.items():
            last = np.int64(self.shape[d] - self.sizes[d])
            self.starts[d] = arithmetic.minimum(arithmetic.maximum(start, np.int64(0)), last)

    def index_arrays(self) -> list[Any]:
        n = len(self.batch)
        window = [d for d in self.indexed if d in self.own]
        shape = (*self.batch, *[self.sizes[d] for d in window])
        arrays = []
        for d in self.indexed:
            array = None
            if d in self.starts:
                array = broadcast_in_dim(self.starts[d], shape=shape, axes=tuple(range(n)))
            if d in window and self.sizes[d] != 1:
                offset = broadcast_in_dim(np.arange(self.sizes[d]), shape=shape, axes=(n + window.index(d),))
                array = offset if array is None else arithmetic.add(array, offset)
            arrays.append(np.zeros(shape, np.int64) if array is None else array)
        return arrays

    def result_perm(self, window_dims: Sequence[int]) -> tuple[int, ...]:
        """For each axis of the result (or of the updates), where it is in batch + window order."""
        n, batch = len(self.batch), iter(range(len(self.batch)))
        perm = []
        for i in range(n + len(self.own)):
            if i in window_dims:
                perm.append(n + self.layout.index(self.own[list(window_dims).index(i)]))
            else:
                perm.append(next(batch))
        return tuple(perm)


def _fill(dtype: np.dtype, fill_value: Any) -> Any:
    if fill_value is not None:
        return dtype.type(fill_value)
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)
    return dtype.type(True if dtype.kind == "b" else np.nan)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """Windows of operand that start at start_indices, arranged by dimension_numbers; see the module's text.

    `unique_indices` promises that no element is read twice; `indices_are_sorted` changes nothing here.

    >>> numbers = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(np.array([1.0, 2.0]), np.array([[1], [5]]), numbers, (1,), mode="fill")
    array([ 2., nan])
    """
    offset, collapsed, index_map, op_batch, ix_batch = dimension_numbers
    windows = _Windows("gather", operand, start_indices, index_map, collapsed, op_batch, ix_batch, slice_sizes)
    mode = GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode)
    inside: Any = True
    if mode is not GatherScatterMode.PROMISE_IN_BOUNDS:
        inside = windows.fits()
        if inside is not True:
            windows.clip()
    x = _permuted(operand, windows.perm)
    out = _gather(x, *windows.index_arrays(), unique=unique_indices) if windows.indexed else x
    if not windows.indexed and windows.batch:
        n = len(windows.batch)
        out = broadcast_in_dim(out, shape=windows.batch + shape_of(out), axes=tuple(range(n, n + len(shape_of(out)))))
    if inside is not True and mode is GatherScatterMode.FILL_OR_DROP:
        shape = shape_of(out)
        mask = broadcast_in_dim(inside, shape=shape, axes=tuple(range(len(windows.batch))))
        out = comparison.select(mask, out, _fill(dtype_of(out), fill_value))
    return _permuted(out, windows.result_perm(offset))


def _scatter_windows(
    name: str, how: str, operand: Any, indices: Any, updates: Any, numbers: Any, unique: bool, mode: Any
) -> Any:
    window_dims, inserted, index_map, op_batch, ix_batch = numbers
    operand, updates = equal_dtypes(name, ANY, (operand, updates))
    shape = shape_of(operand)
    kept = [d for d in range(len(shape)) if d not in inserted and d not in op_batch]
    if len(kept) != len(window_dims) or len(shape_of(updates)) != len(window_dims) + len(shape_of(indices)) - 1:
        raise TypeError(
            f"lax.{name}: updates ({said(updates)}) must have the axes of the indices ({said(indices)}) but the last, and "
            f"update_window_dims {window_dims} for the axes {tuple(kept)} of {said(operand)}"
        )
    sizes = [1] * len(shape)
    for d, i in zip(kept, window_dims):
        sizes[d] = shape_of(updates)[i]
    windows = _Windows(name, operand, indices, index_map, inserted, op_batch, ix_batch, sizes)
    mode = GatherScatterMode.FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode)
    inside: Any = True
    if mode is not GatherScatterMode.PROMISE_IN_BOUNDS:
        inside = windows.fits()
    x, u = _permuted(operand, windows.perm), _permuted(updates, _inverse(windows.result_perm(window_dims)))
    if not windows.indexed:  # whole windows at no index: as many updates of everything
        x, u = reshape(x, shape=(1, *shape_of(x))), u
        flat = (int(np.prod(windows.batch, dtype=int)), *shape)
        return reshape(_scatter(x, reshape(u, shape=flat), np.zeros(flat[0], np.int64), mode=how), shape=shape)
    if inside is True:
        return _permuted(_scatter(x, u, *windows.index_arrays(), mode=how, unique=unique), _inverse(windows.perm))
    windows.clip()
    if mode is GatherScatterMode.CLIP:
        return _permuted(_scatter(x, u, *windows.index_arrays(), mode=how, unique=unique), _inverse(windows.perm))
    return _permuted(_scatter_dropping(x, u, windows, inside, how, unique), _inverse(windows.perm))


def _scatter_dropping(x: Any, u: Any, windows: _Windows, inside: Any, how: str, unique: bool) -> Any:
    """Windows that do not fit are sent into rows behind the operand, which are cut off again."""
    shape = shape_of(x)
    d = next(d for d in windows.indexed if d in windows.starts)
    at, extra = windows.indexed.index(d), windows.sizes[d]
    padded = pad(x, low=(0,) * len(shape), high=tuple([extra if i == at else 0 for i in range(len(shape))]))
    windows.starts[d] = comparison.select(inside, windows.starts[d], np.int64(windows.shape[d]))
    out = _scatter(padded, u, *windows.index_arrays(), mode=how, unique=False)
    return slice_p(out, start=(0,) * len(shape), limit=shape, strides=None)


def scatter(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """A copy of operand with updates written as windows that start at scatter_indices; of overlapping ones the last wins.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter(np.zeros(3), np.array([[2]]), np.array([5.0]), numbers)
    array([0., 0., 5.])
    """
    return _scatter_windows("scatter", "set", operand, scatter_indices, updates, dimension_numbers, unique_indices, mode)


def _accumulating(name: str, how: str, verb: str) -> Callable[..., Any]:
    def f(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        return _scatter_windows(name, how, operand, scatter_indices, updates, dimension_numbers, unique_indices, mode)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"A copy of operand {verb} updates in windows that start at scatter_indices; arguments as of `scatter`."
    return f


scatter_add = _accumulating("scatter_add", "add", "increased by")
scatter_mul = _accumulating("scatter_mul", "mul", "multiplied by")
scatter_min = _accumulating("scatter_min", "min", "limited from above by")
scatter_max = _accumulating("scatter_max", "max", "limited from below by")


def scatter_sub(operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: Any, **options: Any) -> Any:
    """A copy of operand decreased by updates; arguments as of `scatter`."""
    return scatter_add(operand, scatter_indices, arithmetic.neg(updates), dimension_numbers, **options)

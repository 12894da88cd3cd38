"""An index of any kind that NumPy knows, taken apart; and what a mask selects.

Idea: an `IndexPlan` is first one basic index (ints, slices, new axes; one equation), then, if arrays are among the entries, one
gather on the axes that they address, moved to the front and back again by transposes, so that the result's axes stand where
NumPy puts them (at the first array if all arrays are neighbours, else in front). Updates go the same way backwards.
Invariants: concrete integers stay static, also inside jit; refused indices raise NumPy's own IndexError, because NumPy is asked
(`refuse`). Traps: an int counts as an array, for where the axes go, as soon as a real array is present; an Ellipsis separates
arrays even if it stands for no axis.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from funcad.errors import TracerBoolConversionError
from funcad.host.devices import is_device
from funcad.host.locks import is_constant
from funcad.host.real_types import is_a
from funcad.host.where import user_source
from funcad.ir.aval import is_labelled, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.indexing import BASIC, has_tracer, slice_triple
from funcad.numpy.promote import as_array, values_of
from funcad.primitives.basic_indexing import basic_index_p, basic_update, gather, scatter
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_to, transpose


def refuse(shape: tuple, index: Any, otherwise: str) -> Any:
    """Raise the error that NumPy raises for this index on an array of this shape."""

    def without_tracers(entry: Any) -> Any:
        if is_device(type(entry)):
            return entry.get()
        if type(entry) is _Mask:
            return np.zeros(entry.shape, bool)
        if isinstance(entry, Tracer):
            return np.zeros(entry.shape, entry.dtype)[()]
        if isinstance(entry, (tuple, list)):
            return type(entry)([without_tracers(e) for e in entry])
        return entry

    np.broadcast_to(np.False_, shape)[without_tracers(index)]
    raise IndexError(otherwise)


class IndexPlan:
    """An index on an array of known shape, taken apart."""

    __slots__ = ("basic", "trivial", "front", "arrays", "unique", "place", "shape", "index_shape", "inner", "source")

    def __init__(self, shape: tuple, index: Any):
        self.source = (shape, index)
        self.index_shape: tuple = ()  # what the arrays broadcast to
        entries: Any = index if type(index) is tuple else (index,)
        if not all(type(e) in BASIC for e in entries):
            entries = [_canonical(e, shape, index) for e in entries]
        used = 0
        for e in entries:
            used += 0 if e is None or e is Ellipsis or type(e) is _Truth else e.ndim if type(e) is _Mask else 1
        ellipses = [k for k, e in enumerate(entries) if e is Ellipsis]
        if used > len(shape) or len(ellipses) > 1:
            refuse(shape, index, f"too many indices for array: array is {len(shape)}-dimensional")
        where = ellipses[0] if ellipses else len(entries)
        rest = [slice(None)] * (len(shape) - used)
        entries = [*entries[:where], *([_GAP] if ellipses else []), *rest, *entries[where + 1 :]]
        self._take_apart(shape, index, entries)

    def _take_apart(self, shape: tuple, index: Any, entries: list) -> None:
        basic: list[Any] = []
        arrays: list[tuple[int, Any]] = []  # (axis after the basic index, index array)
        fancy: list[int] = []  # where in the tuple the entries stand that NumPy treats as arrays
        ints: list[tuple[int, int]] = []
        axis = kept = 0
        first: Any = None
        unique = True
        for position, e in enumerate(entries):
            kind = type(e)
            if e is _GAP:
                continue
            if e is None:
                basic.append(None)
                kept += 1
            elif kind is slice:
                triple = slice_triple(e, shape[axis])
                basic.append(triple)
                axis += 1
                kept += 1
            elif kind is int:
                n = shape[axis]
                if not -n <= e < n:
                    refuse(shape, index, f"index {e} is out of bounds for axis {axis} with size {n}")
                basic.append(e % n)
                ints.append((position, kept - len(arrays)))
                axis += 1
            else:
                fancy.append(position)
                first = kept - len(arrays) if first is None else first
                if kind is _Truth:
                    basic.append(None)
                    arrays.append((kept, np.zeros(int(e.value), np.int64)))
                    kept += 1
                elif kind is _Mask:
                    if any(m not in (n, 0) for m, n in zip(e.shape, shape[axis:])):  # NumPy lets empty masks pass
                        refuse(shape, index, f"boolean index of shape {e.shape} did not match the indexed array")
                    for a in e.arrays:
                        basic.append((0, shape[axis], 1))
                        arrays.append((kept, a))
                        axis += 1
                        kept += 1
                else:
                    unique = False
                    basic.append((0, shape[axis], 1))
                    arrays.append((kept, e))
                    axis += 1
                    kept += 1
        self.basic = tuple(basic)
        self.trivial = self.basic == tuple([(0, n, 1) for n in shape])
        self.inner = tuple([1 if e is None else e[1] for e in basic if type(e) is not int])
        self.arrays: list[Any] = []
        self.unique = not arrays or (unique and len(fancy) == 1)
        if not arrays:
            self.shape = self.inner
            return
        axes = [a for a, _ in arrays]
        self.front = tuple([*axes, *[i for i in range(len(self.inner)) if i not in axes]])
        shapes = [shape_of(a) for _, a in arrays]
        try:
            self.index_shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else np.broadcast_shapes(*shapes)
        except ValueError:
            refuse(shape, index, "shape mismatch: indexing arrays could not be broadcast together")
        self.arrays = [a if s == self.index_shape else broadcast_to(a, self.index_shape) for s, (_, a) in zip(shapes, arrays)]
        if self.index_shape:
            everything = sorted([*fancy, *[p for p, _ in ints]])  # a real array makes arrays of the ints
            together = everything[-1] - everything[0] == len(everything) - 1
            starts = [first, *[k for p, k in ints if p < fancy[0]]]
            self.place = min(starts) if together else 0
        else:
            self.place = 0
        kept_shape = [self.inner[i] for i in self.front[len(axes) :]]
        self.shape = (*kept_shape[: self.place], *self.index_shape, *kept_shape[self.place :])

    # -- there and back
    def get(self, x: Any) -> Any:
        if not self.trivial or not self.arrays:
            x = basic_index_p(x, index=self.basic)
        if not self.arrays:
            return x
        try:
            out = gather(_permuted(x, self.front), *on_device_of(self.arrays, (x,)), unique=self.unique)
        except IndexError as error:
            refuse(*self.source, str(error))  # the same error, with NumPy's number of the axis
        return _permuted(out, self._result_order())

    def _result_order(self) -> tuple:
        """The order that moves the gathered axes from the front to their place."""
        n, p = len(self.index_shape), self.place
        return (*range(n, n + p), *range(n), *range(n + p, len(self.shape)))

    def update(self, x: Any, values: Any, mode: str) -> Any:
        """x with values (of the result's shape) written by scatter's mode; "set" and modes of distinct elements."""
        if not self.arrays:
            return basic_update(x, values, self.basic)
        inner = x if self.trivial else basic_index_p(x, index=self.basic)
        values = _permuted(values, _inverse(self._result_order()))
        arrays = on_device_of(self.arrays, (x, values))
        try:
            inner = scatter(_permuted(inner, self.front), values, *arrays, mode=mode, unique=self.unique)
        except IndexError as error:
            refuse(*self.source, str(error))
        inner = _permuted(inner, _inverse(self.front))
        return inner if self.trivial else basic_update(x, inner, self.basic)


def _inverse(order: tuple) -> tuple:
    result = [0] * len(order)
    for i, j in enumerate(order):
        result[j] = i
    return tuple(result)


def _permuted(x: Any, order: tuple) -> Any:
    return x if order == tuple(range(len(order))) else transpose(x, perm=order)


_GAP = object()  # where the Ellipsis stood: it separates arrays even if it stands for no axis


class _Mask:
    """A bool array among the entries: one index array per axis that it covers."""

    __slots__ = ("arrays", "shape", "ndim")

    def __init__(self, mask: Any):
        self.arrays = mask.nonzero()
        self.shape = mask.shape
        self.ndim = len(mask.shape)


class _Truth:
    """A rank-0 bool among the entries: a new axis of size 1 or 0."""

    __slots__ = ("value",)

    def __init__(self, value: bool):
        self.value = value


def canonical_entries(shape: tuple, index: Any) -> list[Any]:
    """The entries of an index, each as an int, slice, None, Ellipsis, integer array or tracer, or mask."""
    return [_canonical(e, shape, index) for e in (index if type(index) is tuple else (index,))]


def counted_axes(shape: tuple, entries: list[Any]) -> list[int]:
    """The axis at which each entry stands (of canonical ones)."""
    covers = [0 if e is None or e is Ellipsis or type(e) is _Truth else e.ndim if type(e) is _Mask else 1 for e in entries]
    axis, axes = 0, []
    for e, n in zip(entries, covers):
        axes.append(axis)
        axis += len(shape) - sum(covers) if e is Ellipsis else n
    if sum(covers) > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {sum(covers)} were indexed")
    return axes


def _canonical(e: Any, shape: tuple, index: Any) -> Any:
    """An entry as an int, slice, None, Ellipsis, integer array or tracer, _Mask or _Truth."""
    kind = type(e)
    if kind is Tracer:
        return _traced_entry(e, shape, index)
    if kind in BASIC or isinstance(e, slice):
        return e if kind in BASIC else slice(e.start, e.stop, e.step)
    if is_a(e, (bool, np.bool_)):
        return _Truth(bool(e))
    if kind is _Mask or kind is _Truth:
        return e
    if is_a(e, np.integer):
        return int(e)
    if isinstance(e, (list, tuple, range)):
        if has_tracer(e):
            return _canonical(as_array(e), shape, index)
        e = np.asarray(e)
        if not e.size:
            e = e.astype(np.intp)
    elif is_labelled(kind):
        e = values_of(e)
    elif not hasattr(e, "dtype"):
        if hasattr(e, "__index__"):
            return operator.index(e)
        if not hasattr(e, "__array__"):
            refuse(shape, index, "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis and arrays are valid indices")
        e = np.asarray(e)
    if e.dtype.kind == "b":
        return _Mask(e) if e.ndim else _Truth(bool(e))
    if e.dtype.kind not in "iu":
        refuse(shape, index, "arrays used as indices must be of integer (or boolean) type")
    return e if e.ndim else int(e)


def can_count(x: Any) -> bool:
    """Has x no value, but a trace that can run to find out how many elements are selected (jit's, see path_recording.py)?"""
    value = concrete_value(x)
    return type(value) is Tracer and value.owner.recorder is not None


def count_of(mask: Any) -> int:
    """How many elements are not zero, asked of the trace: a guard, on which the path depends from here on."""
    return operator.index(np.count_nonzero(mask))


def unknown_count(mask: Tracer) -> TracerBoolConversionError:
    where = user_source()
    return TracerBoolConversionError(
        f"a traced mask, {mask.aval:a}, was used as an index{f' at {where}' if where is not None else ''}: how many elements "
        f"it selects is not known inside {mask.owner.name}, and more was asked of them than elementwise functions, sums and "
        "writes by the same mask.\nRemedy: np.where(mask, x, 0) instead of x[mask]; np.where(mask, v, x) for x[mask] = v."
    )


def _traced_entry(e: Tracer, shape: tuple, index: Any) -> Any:
    aval = e.aval
    if aval.dtype.kind == "b":
        if not aval.shape:  # it adds an axis, of one element or of none
            return _Truth(bool(e))
        value = concrete_value(e)
        if type(value) is not Tracer:
            return _canonical(value, shape, index)
        if can_count(value):
            return _Mask(value)
        raise unknown_count(value)
    if aval.dtype.kind not in "iu":
        refuse(shape, index, "arrays used as indices must be of integer (or boolean) type")
    return e


# -- plans for tapes


def leading_arrays(shape: tuple, index: Any) -> tuple | None:
    """The arrays of integers, of one shape, by which the leading axes are addressed; None if there is anything else."""
    if type(index) is np.ndarray and index.dtype.kind == "b" and index.ndim:
        return index.nonzero() if index.shape == shape[: index.ndim] else None
    entries = index if type(index) is tuple else (index,)
    if not 0 < len(entries) <= len(shape):
        return None
    found: list[Any] = []
    for e in entries:
        if type(e) is list and {int}.issuperset(map(type, e)) and e:
            e = np.asarray(e)
        if type(e) is not np.ndarray or e.dtype.kind not in "iu" or not e.ndim or found and e.shape != found[0].shape:
            return None
        found.append(e)
    return tuple(found)


def own_places(x: Any, index: tuple) -> int:
    """How many leading axes of x, which is being recorded, are addressed at their own places, `x[np.arange(n), labels]`.

    Only by arrays that nobody can write later, since programs read what they capture when they run: read-only ones, and those
    that the index alone holds.
    """
    if len(index) < 2 or type(concrete_value(x)) is not Tracer:
        return 0
    shape = shape_of(x)
    if len(index) > len(shape) or 0 in shape:
        return 0
    ndim, count = max([len(shape_of(e)) for e in index if hasattr(e, "shape")], default=0), 0
    for e in index:
        if type(e) is not np.ndarray or e.dtype.kind not in "iu" or count + 1 == len(index) or e.size != shape[count]:
            break
        alone = sys.getrefcount(e) == 3 and (e.base is None or type(e.base) is np.ndarray and sys.getrefcount(e.base) == 2)
        own = (*[1] * count, e.size, *[1] * (ndim - count - 1))  # its shape beside the others
        if not alone and not is_constant(e) or e.shape != own[ndim - e.ndim :] or (e.ravel() != np.arange(e.size)).any():
            break
        count += 1
    arrays = index[count:]
    lead = shape[:count]
    if not all([hasattr(e, "shape") and shape_of(e)[:count] == lead and np.dtype(e.dtype).kind in "iu" for e in arrays]):
        return 0
    return count if len({shape_of(e) for e in arrays}) == 1 else 0


# -- masks whose values are not known: inside jit, vmap and the bodies of loops


def is_unknown_mask(index: Tracer) -> bool:
    return index.dtype.kind == "b" and bool(index.shape) and type(concrete_value(index)) is Tracer


def selected_places(mask: Tracer) -> tuple:
    """The indices that a mask without a value selects, if they can be counted."""
    if not can_count(mask):
        raise unknown_count(mask)
    return np.nonzero(mask)


def is_selected(x: Any) -> bool:
    """Is it what a mask selects? Then the file of that is loaded."""
    found = sys.modules.get("funcad.numpy.selected")
    return found is not None and type(x) is found.Selected


def holds_selected(index: Any) -> bool:
    """Is it what a mask selects, or a tuple with such?"""
    return any(map(is_selected, index)) if type(index) is tuple else is_selected(index)


def closed(x: Any) -> Any:
    """An argument or an index with arrays in the place of what masks select."""
    if is_selected(x):
        return x.closed_up()
    if type(x) not in (list, tuple, dict):
        return x
    parts = x.values() if type(x) is dict else x
    found = list(map(closed, parts))
    if all(map(operator.is_, found, parts)):  # what is changed stays itself
        return x
    return dict(zip(x, found)) if type(x) is dict else type(x)(found)

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
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import to_close_up
from funcad.configuration import OnDemand
from funcad.errors import TracerBoolConversionError, TracerIntegerConversionError
from funcad.host.devices import is_device
from funcad.host.locks import is_constant
from funcad.host.real_types import is_a
from funcad.host.where import state, user_source
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.jaxpr import Equation, Literal, Var, params_key
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.memo import table
from funcad.numpy.promote import as_array, is_labelled, values_of
from funcad.primitives.basic_indexing import basic_index_p, basic_update, gather, scatter
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, transpose
from funcad.writes.plain import lent

same = OnDemand("funcad.tree.same")
_BASIC = frozenset([int, slice, type(None), type(Ellipsis)])


def has_tracer(index: Any) -> bool:
    kind = type(index)
    if kind is Tracer:
        return True
    if kind is tuple or kind is list:
        return any(has_tracer(i) for i in index)
    return kind is slice and (type(index.start) is Tracer or type(index.stop) is Tracer or type(index.step) is Tracer)


def slice_triple(entry: slice, n: int) -> tuple[int, int, int]:
    """(start, count, step) of a slice along an axis of n elements."""
    try:
        start, stop, step = entry.indices(n)
    except TracerIntegerConversionError:
        where = user_source()
        raise TracerIntegerConversionError(
            f"a bound of a slice is a traced value{f' at {where}' if where is not None else ''}: the result's shape would "
            "not be known.\n"
            "Remedy: use funcad.lax.dynamic_slice for a window of known size at a computed start, or pass the bound as "
            "static."
        ) from None
    return start, len(range(start, stop, step)), step


def simple_index(shape: tuple, index: tuple) -> tuple | None:
    """The canonical index of plain ints within bounds and slices; None if there is anything else, or too many."""
    if len(index) == 2 == len(shape):  # an element of a matrix
        i, j = index
        if type(i) is int is type(j) and 0 <= i < shape[0] and 0 <= j < shape[1]:
            return index
    basic: list[Any] = []
    for n, e in zip(shape, index):
        if type(e) is int:
            if not -n <= e < n:
                return None
            basic.append(e if e >= 0 else e + n)
        elif type(e) is not slice:
            return None
        else:
            start, stop = e.start, e.stop
            if start is None:
                start = 0
            if stop is None:
                stop = n
            if e.step is None and type(start) is int is type(stop) and 0 <= start <= stop <= n:
                basic.append((start, stop - start, 1))
            else:
                basic.append(slice_triple(e, n))
    if len(basic) < len(shape):
        basic += [(0, n, 1) for n in shape[len(basic) :]]
    return tuple(basic) if len(index) <= len(shape) else None


def refuse(shape: tuple, index: Any, otherwise: str) -> Any:
    """Raise the error that NumPy raises for this index on an array of this shape."""

    def without_tracers(entry: Any) -> Any:
        if is_device(type(entry)):
            return entry.get()
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
        if not all(type(e) in _BASIC for e in entries):
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
            self.index_shape = np.broadcast_shapes(*shapes)
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
    if kind in _BASIC or isinstance(e, slice):
        return e if kind in _BASIC else slice(e.start, e.stop, e.step)
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


def has_ellipsis(index: Any) -> bool:
    for e in index if type(index) is tuple else (index,):
        if e is Ellipsis:
            return True
    return False


def is_basic(index: Any) -> bool:
    """Does NumPy give a view?"""
    for e in index if type(index) is tuple else (index,):
        if type(e) not in _BASIC and not _is_integer(e):
            return False
    return True


def _is_integer(e: Any) -> bool:
    if type(e) is Tracer:
        return not e.shape and e.dtype.kind in "iu"
    return is_a(e, (int, np.integer)) and not is_a(e, (bool, np.bool_))


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
        raise unknown_count(value)
    if aval.dtype.kind not in "iu":
        refuse(shape, index, "arrays used as indices must be of integer (or boolean) type")
    return e


# -- plans for tapes


def leading_arrays(shape: tuple, index: Any) -> tuple | None:
    """The arrays of integers, of one shape, by which the leading axes are addressed; None if there is anything else."""
    if type(index) is list:
        if not index or not shape or not all([type(i) is int for i in index]):
            return None
        index = np.asarray(index)
    if type(index) is np.ndarray:
        if index.dtype.kind == "b" and index.ndim:
            return index.nonzero() if index.shape == shape[: index.ndim] else None
        index = (index,)
    if not 0 < len(index) <= len(shape) or type(index[0]) is not np.ndarray or not index[0].ndim:
        return None
    first = index[0].shape
    return index if all([type(e) is np.ndarray and e.shape == first and e.dtype.kind in "iu" for e in index]) else None


def own_places(x: Any, index: tuple) -> int:
    """How many leading axes of x, which is being recorded, are addressed at their own places, `x[np.arange(n), labels]`.

    Only by arrays that nobody can write later, since programs read what they capture when they run: read-only ones, and those
    that the index alone holds.
    """
    shape = shape_of(x)
    if not 2 <= len(index) <= len(shape) or 0 in shape or type(concrete_value(x)) is not Tracer:
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


_PLAIN_BOUNDS = frozenset([int, type(None)])
_canonical_indices = table(
    "numpy.basic indices",
    "shape and basic index: its canonical form",
    4096,
)


def canonical_basic(shape: tuple, index: Any) -> tuple | None:
    """The canonical form of a basic index; None for all others, and for those out of bounds."""
    kind = type(index)
    if kind is tuple or shape and (kind is int or kind is slice):
        simple = simple_index(shape, index if kind is tuple else (index,))
        if simple is not None:
            return simple
    if kind is int or kind is np.int64:
        key: Any = shape, index
    elif kind is slice:
        key = shape, kind, index.start, index.stop, index.step
        if not _PLAIN_BOUNDS.issuperset(map(type, key[2:])):
            return None
    elif kind is tuple:
        parts: list[Any] = [shape, kind]
        for e in index:
            of = type(e)
            if of is int or of is np.int64 or e is None or e is Ellipsis:
                parts.append(e)
            elif of is slice and _PLAIN_BOUNDS.issuperset((type(e.start), type(e.stop), type(e.step))):
                parts.append((e.start, e.stop, e.step))
            else:
                return None
        key = tuple(parts)
    else:
        return None
    basic = _canonical_indices.get(key)
    if basic is None:
        try:
            basic = IndexPlan(shape, index).basic
        except IndexError:  # raised anew by the general way
            return None
        _canonical_indices.put(key, basic)
    return basic  # type: ignore[no-any-return]


# -- what a mask selects while its values are not known: `x[mask]` inside jit, vmap and the bodies of loops
#
# Idea: how many elements there are is not known, but where each of them stands is. So `Selected` keeps all elements beside the
# mask: it computes elementwise on all of them, adds up where the mask holds, and `x[mask] = selected` is a select. Whatever
# needs the elements closed up, or meets what another mask selects, raises `TracerBoolConversionError`; under jit with guards,
# which can ask how many there are, they are closed up then (`closed_up`), and from then on they are that one array, which can
# be written and viewed. Invariant: elements that are not selected never come out; what is computed of them is discarded, so it
# does not warn.


_SUMS = ("sum", "prod", "mean", "var", "std", "any", "all")  # the reductions that take `where`
_DEEPEST = 8  # steps back, in the comparison of two masks


def is_unknown_mask(index: Tracer) -> bool:
    return index.dtype.kind == "b" and bool(index.shape) and type(concrete_value(index)) is Tracer


def selected_places(mask: Tracer) -> tuple:
    """The indices that a mask without a value selects, if they can be counted."""
    if not can_count(mask):
        raise unknown_count(mask)
    return np.nonzero(mask)


def with_places(index: tuple) -> tuple:
    """An index with places instead of masks without values, where these can be counted."""
    parts = [np.nonzero(e) if type(e) is Tracer and is_unknown_mask(e) and can_count(e) else (e,) for e in index]
    return tuple([i for part in parts for i in part])


class Selected:
    """The elements of an array where a traced mask holds."""

    __slots__ = ("_all", "_mask", "_array", "_body")
    __array_priority__ = 2000.0  # operators of traced values leave it to us

    def __init__(self, x: Any, mask: Tracer):
        shape = shape_of(x)
        if mask.shape != shape[: mask.ndim]:
            refuse(shape, mask, f"boolean index of shape {mask.shape} did not match the indexed array")
        self._all = snapshot(x)
        self._mask = snapshot(mask)
        self._array: Any = None  # closed up, once it is
        self._body = state.abstract  # in which it was made

    # -- closed up

    def closed_up(self) -> Any:
        """The elements as an array of its own: the path depends on how many there are."""
        if self._array is not None:
            return self._array
        array = self._all[selected_places(self._mask)]
        if state.abstract is self._body:  # an inner body runs several times, but would write once
            self._array = array = lent(array)
        return array

    def is_of(self, mask: Tracer) -> bool:
        """Does the same mask select?"""
        return self._array is None and _same(self._mask, mask)

    # -- what is known

    @property
    def dtype(self) -> np.dtype:
        return aval_of(self._all).dtype

    @property
    def ndim(self) -> int:
        return len(self._rest) + 1

    @property
    def size(self) -> Any:
        """How many elements there are, a traced number."""
        return np.sum(self._mask) * int(np.prod(self._rest, dtype=int))

    @property
    def _rest(self) -> tuple[int, ...]:
        return shape_of(self._all)[self._mask.ndim :]

    def elements(self, mask: Tracer, rest: tuple[int, ...]) -> Any:
        """All elements, for who writes them where `mask` holds."""
        if self._array is not None or self._rest != rest or not _same(self._mask, mask):
            raise unknown_count(mask)
        return self._all

    # -- elementwise

    def _with(self, x: Any) -> Selected:
        return Selected(x, self._mask)

    def _operand(self, x: Any) -> Any:
        """All elements of another operand: those of the same mask, or values that are the same for all that is selected."""
        if type(x) is Selected:
            return x.elements(self._mask, self._rest)
        shape = np.shape(x)
        if len(shape) == len(self._rest) + 1 and shape[0] == 1:
            x, shape = x[0], shape[1:]
        if len(shape) > len(self._rest):
            raise unknown_count(self._mask)
        np.broadcast_shapes(shape, self._rest)  # or NumPy's error
        return x

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        try:
            return self._elementwise(ufunc, method, *inputs, **kwargs)
        except TracerBoolConversionError:
            if not can_count(self._mask):
                raise
            return getattr(ufunc, method)(*map(closed, inputs), **{k: closed(v) for k, v in kwargs.items()})

    def _elementwise(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        is_closed = any([type(x) is Selected and x._array is not None for x in inputs])
        if is_closed or method != "__call__" or not {"dtype", "casting"}.issuperset(kwargs):
            raise unknown_count(self._mask)
        operands = [self._operand(x) for x in inputs]
        with np.errstate(all="ignore"):
            out = ufunc(*operands, **kwargs)
        return tuple(map(self._with, out)) if type(out) is tuple else self._with(out)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(function, "__name__", "")
        if name in _SUMS and args and args[0] is self:
            return getattr(self, name)(*args[1:], **kwargs)
        return function(*closed(args), **{k: closed(v) for k, v in kwargs.items()})

    def astype(self, dtype: Any) -> Any:
        return self._with(self._all.astype(dtype)) if self._array is None else self._array.astype(dtype)

    def copy(self) -> Any:
        return self._with(self._all) if self._array is None else self._array.copy()

    def conj(self) -> Any:
        return self._with(np.conj(self._all)) if self._array is None else np.conj(self._array)

    conjugate = conj

    # -- added up

    def _reduced(self, name: str, axis: Any = None, **options: Any) -> Any:
        if self._array is not None or axis not in (None, 0) or not {"dtype", "ddof"}.issuperset(options):
            return getattr(np, name)(self.closed_up(), axis=axis, **options)
        mask = self._mask
        held = broadcast_in_dim(mask, shape=shape_of(self._all), axes=tuple(range(mask.ndim)))
        axes = None if axis is None else tuple(range(mask.ndim))
        with np.errstate(all="ignore"):
            return getattr(np, name)(self._all, axis=axes, where=held, **options)

    # -- what is not known

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.closed_up())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise unknown_count(self._mask)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.closed_up()
        if self._array is None:  # the write would be lost
            raise unknown_count(self._mask)
        self._array[closed(index)] = closed(value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(
                f"what a traced mask selects has no attribute {name!r}.\nRemedy: np.where(mask, x, 0.0), which keeps the shape."
            )
        return getattr(self.closed_up(), name)

    def __repr__(self) -> str:
        source = user_source()
        return f"<elements of {aval_of(self._all)} that a traced mask selects{f', at {source}' if source is not None else ''}>"


def holds_selected(index: Any) -> bool:
    """Is it what a mask selects, or a tuple with such?"""
    return type(index) is Selected or type(index) is tuple and Selected in map(type, index)


def closed(x: Any) -> Any:
    """An argument or an index with arrays in the place of what masks select."""
    if type(x) is Selected:
        return x.closed_up()
    return type(x)(map(closed, x)) if type(x) in (list, tuple) else x


def _of_array(name: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self.closed_up(), name)(*map(closed, args))


def _operator(ufunc: Any, reflected: bool) -> Callable[..., Any]:
    def method(self: Selected, *others: Any) -> Any:
        return self.__array_ufunc__(ufunc, "__call__", *((*others, self) if reflected else (self, *others)))

    return method


def _in_place(name: str, ufunc: Any) -> Callable[[Selected, Any], Selected]:
    def method(self: Selected, other: Any) -> Selected:
        if self._array is not None:
            self._array = getattr(operator, name)(self._array, closed(other))
            return self
        out = self.__array_ufunc__(ufunc, "__call__", self, other)
        if out.dtype != self.dtype and not np.can_cast(out.dtype, self.dtype, "same_kind"):
            own = np.empty(0, self.dtype)
            ufunc(own, np.empty(0, out.dtype), out=own)  # NumPy's TypeError
        self._all = convert(out._all, self.dtype)
        return self

    return method


def _reduction(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: self._reduced(name, *args, **kwargs)


_OPERATORS = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide},
    **{"mod": np.remainder, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"lshift": np.left_shift, "rshift": np.right_shift},
}
for _name, _ufunc in _OPERATORS.items():
    setattr(Selected, f"__{_name}__", _operator(_ufunc, False))
    setattr(Selected, f"__r{_name}__", _operator(_ufunc, True))
    setattr(Selected, f"__i{_name}__", _in_place(f"__i{_name}__", _ufunc))
for _name, _ufunc in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    setattr(Selected, f"__{_name}__", _operator(_ufunc, False))
for _name, _ufunc in {"eq": np.equal, "ne": np.not_equal, "neg": np.negative, "pos": np.positive, "abs": np.absolute}.items():
    setattr(Selected, f"__{_name}__", _operator(_ufunc, False))
Selected.__invert__ = _operator(np.invert, False)  # type: ignore[attr-defined]
Selected.__hash__ = None  # type: ignore[assignment]
for _name in _SUMS:
    setattr(Selected, _name, _reduction(_name))
for _name in ("bool", "complex", "float", "getitem", "index", "int", "iter", "len", "matmul", "rmatmul"):
    setattr(Selected, f"__{_name}__", _of_array(f"__{_name}__"))


# -- equal masks


def _same(mask: Tracer, other: Tracer) -> bool:
    """Are two masks one value, or computed in the same way from the same values?"""
    if mask.owner is not other.owner or mask.atom is None:
        return mask is other
    return _equal(mask.owner.equations, mask.atom, other.atom, _DEEPEST)


def _equal(equations: list[Equation], x: Any, y: Any, depth: int) -> bool:
    if x is y:
        return True
    if type(x) is Literal and type(y) is Literal:
        return x.aval == y.aval and bool(same.same_key(x.value) == same.same_key(y.value))
    if type(x) is not Var or type(y) is not Var or x.aval != y.aval or depth == 0:
        return False
    found = [next((e for e in reversed(equations) if operator.contains(e.outputs, v)), None) for v in (x, y)]
    if found[0] is None or found[1] is None:
        return False
    a, b = found
    key = params_key(a.params)
    return (
        a.primitive is b.primitive
        and not a.primitive.effect
        and a.outputs.index(x) == b.outputs.index(y)
        and key is not None
        and key == params_key(b.params)
        and len(a.inputs) == len(b.inputs)
        and all([_equal(equations, u, v, depth - 1) for u, v in zip(a.inputs, b.inputs)])
    )


to_close_up.add(Selected)

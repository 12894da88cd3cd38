"""NumPy's indexing of traced values: `getitem(x, index)`, and `at(x)[index].set(v)` & co. in place of assignment.

What has no tracer in it is left to NumPy; the common indices (`x[i]`, `x[a:b]`, `x[:, j]`, one integer array) take short ways,
all others the `IndexPlan` of index_plan.py.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from opcode import opmap
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.errors import TracerIntegerConversionError
from funcad.host.real_types import dtype_kind, is_a
from funcad.host.where import user_source
from funcad.ir.aval import aval_of, dtype_of, said, shape_of
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer, snapshot
from funcad.numpy.promote import aliased, array_of, as_array, beside, strong
from funcad.primitives.arithmetic import add, div, maximum, minimum, mul, neg
from funcad.primitives.basic_indexing import are_apart, basic_index_p, basic_shape, basic_update, gather
from funcad.primitives.comparison import select
from funcad.primitives.conversion import convert
from funcad.primitives.placement import capture_as_inputs, on_device_of
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, reshape
from funcad.primitives.transcendental import pow
from funcad.unjitted.element_rows import FLOATS, element
from funcad.unjitted.remembered import remembered
from funcad.writes.boxes import ViewStep, check_write, is_array, linked, rebind, refresh, write
from funcad.writes.plain import PLAIN, buffer, lent, read_known, started, write_plain, written_known

index_plan, selected = OnDemand("funcad.numpy.index_plan"), OnDemand("funcad.numpy.selected")
held_arrays = OnDemand("funcad.writes.held")

# -- basic indices in their canonical form


BASIC = frozenset([int, slice, type(None), type(Ellipsis)])


_HOLDING = frozenset([tuple, list, slice])
_STORES = frozenset([opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opmap])


def has_tracer(index: Any) -> bool:
    kind = type(index)
    if kind is Tracer:
        return True
    if kind is tuple or kind is list:
        for i in index:
            if type(i) is Tracer or type(i) in _HOLDING and has_tracer(i):
                return True
        return False
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


def canonical_basic(shape: tuple, index: Any) -> tuple | None:
    """The canonical form of a basic index; None for all others, and for those out of bounds."""
    if type(index) is not tuple:
        index = (index,)
    n_axes = len(shape)
    if len(index) == 2 == n_axes:  # an element of a matrix
        i, j = index
        if type(i) is int is type(j) and 0 <= i < shape[0] and 0 <= j < shape[1]:
            return index
        if type(i) is np.int64 is type(j) and 0 <= i < shape[0] and 0 <= j < shape[1]:
            return int(i), int(j)
    basic: list[Any] = []
    axis, gap = 0, False
    for e in index:
        kind = type(e)
        if e is None:
            basic.append(None)
            continue
        if e is Ellipsis:
            end = axis + n_axes - sum([other is not None and other is not Ellipsis for other in index])
            if gap or end < axis:
                return None
            gap = True
            basic += [(0, n, 1) for n in shape[axis:end]]
            axis = end
            continue
        if axis >= n_axes:
            return None
        n = shape[axis]
        axis += 1
        if kind is int or kind is np.int64:
            if not -n <= e < n:
                return None
            basic.append(int(e) if e >= 0 else int(e) + n)
        elif kind is not slice:
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
    if axis < n_axes:
        basic += [(0, n, 1) for n in shape[axis:]]
    return tuple(basic)


def has_ellipsis(index: Any) -> bool:
    for e in index if type(index) is tuple else (index,):
        if e is Ellipsis:
            return True
    return False


def is_basic(index: Any) -> bool:
    """Does NumPy give a view?"""
    for e in index if type(index) is tuple else (index,):
        if type(e) not in BASIC and not _is_integer(e):
            return False
    return True


def _is_integer(e: Any) -> bool:
    if type(e) is Tracer:
        return not e.shape and e.dtype.kind in "iu"
    return is_a(e, (int, np.integer)) and not is_a(e, (bool, np.bool_))


# -- what `at(x)[index]` does with positions out of bounds when the caller says so: `mode="clip"`, `"fill"`, `"drop"`, as in JAX
#
# Idea: "clip" rewrites the index. "drop" writes into x with one more layer on each axis that is addressed by numbers, which
# takes what is out of bounds and is cut off again; so every update, at repeated positions too, means what it means without a
# mode. Trap: negative positions count from the end first, as everywhere.


MODES = (None, "promise_in_bounds", "clip", "fill", "drop")


def _rewritten(shape: tuple, index: Any, change: Any) -> tuple:
    """The index with `change(position, n, axis)` instead of every number or array of numbers."""
    entries = index_plan.canonical_entries(shape, index)
    result = []
    for e, axis in zip(entries, index_plan.counted_axes(shape, entries)):
        kind = type(e)
        if kind is int or kind is Tracer or is_a(e, np.ndarray) or hasattr(e, "dtype"):
            result.append(change(e, shape[axis], axis))
        else:
            result.append(e)
    return tuple(result)


def _from_start(i: Any, n: int) -> Any:
    """Positions counted from the start, in a dtype that holds them."""
    if type(i) is int:
        return i + n if i < 0 else i
    kind = aval_of(i).dtype.kind
    i = i if kind == "i" and aval_of(i).dtype.itemsize == 8 else i.astype(np.int64)
    return i if kind == "u" else np.where(np.less(i, 0), np.add(i, n), i)


def clipped(shape: tuple, index: Any) -> tuple[tuple, list[Any]]:
    """(the index with its positions moved into bounds, for each whether it was inside)."""
    inside: list[Any] = []

    def change(i: Any, n: int, axis: int) -> Any:
        i = _from_start(i, n)
        if type(i) is int:
            inside.append(0 <= i < n)
            return min(max(i, 0), max(n - 1, 0))
        inside.append(np.logical_and(np.greater_equal(i, 0), np.less(i, n)))
        return np.clip(i, 0, max(n - 1, 0))

    return _rewritten(shape, index, change), inside


def spilled(x: Any, index: Any) -> tuple[Any, tuple, tuple]:
    """(x with one more layer on the addressed axes, the index that sends there what is out of bounds, what to cut out)."""
    shape = aval_of(x).shape
    axes: list[int] = []

    def change(i: Any, n: int, axis: int) -> Any:
        axes.append(axis)
        i = _from_start(i, n)
        if type(i) is int:
            return i if 0 <= i < n else n
        return np.where(np.logical_and(np.greater_equal(i, 0), np.less(i, n)), i, n)

    index = _rewritten(shape, index, change)
    widths = [(0, int(k in axes)) for k in range(len(shape))]
    grown = np.pad(x, widths, constant_values=1) if axes else x  # 1: no function that is applied has a pole there for certain
    return grown, tuple([beside(i, x) if is_a(i, np.ndarray) else i for i in index]), tuple([slice(0, n) for n in shape])


def default_fill(dtype: np.dtype) -> Any:
    """What stands for elements out of bounds: NaN, the smallest (signed) or largest (unsigned) integer, True."""
    if dtype_kind(dtype) in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


# -- NumPy's indexing of traced values


class Index(ViewStep):
    """The elements at a basic index."""

    __slots__ = ("index",)

    def __init__(self, index: Any):
        self.index = index

    def look(self, base: Any) -> Any:
        return read(base, self.index)

    def lies(self, layout: np.ndarray) -> np.ndarray:
        entries = self.index if type(self.index) is tuple else (self.index,)
        return layout[tuple([0 if type(e) is Tracer else e for e in entries])]

    def apart(self, base: Any, index: tuple) -> bool:
        own = canonical_basic(base.primal.shape, self.index)
        return own is not None and are_apart(own, index)

    def shares(self, base: Any) -> bool:
        """At an array of rank 0 NumPy gives a copy."""
        entries = self.index if type(self.index) is tuple else (self.index,)
        return not any([type(e) is Tracer and is_array(e) for e in entries])

    def write(self, base: Tracer, value: Any, view: Tracer | None) -> None:
        store(base, self.index, value, view)


def stored(x: Tracer, index: Any, value: Any, view: Tracer | None = None) -> bool:
    """`x[index] = value` of an array that holds its buffer, if only a row is to be written down; `view`: as in `store`."""
    basic = canonical_basic(x.primal.shape, index)
    if basic is None or not _fits(x, basic, value) or not x.owner.write(x, index, basic, value):
        return False
    if x.box is not None and x.box.views:
        refresh(x, view, basic)
    return True


def stored_by(view: Tracer, value: Any) -> bool:
    """The same of a view, which becomes `value`."""
    base, step = view.box.base, view.box.step
    known = type(base) is type(value) is Tracer and base.owner.holds and type(step) is Index
    if not known or not stored(base, step.index, value, view):
        return False
    rebind(view, value)
    refresh(view, None)
    return True


def setitem(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value`: NumPy's, for every index that NumPy takes."""
    if x.box is not None and x.box.step is not None and x.box.step.copied and aval_of(array_of(value)).size > 1:  # of x.flat
        places = np.arange(aval_of(x).size)[index]
        value = cycled(value, places.size) if places.ndim else value
    trace = x.owner
    if trace is PLAIN:
        known = value
        if type(value) is Tracer and value.owner is PLAIN and (value.box is None or value.box.base is not x):
            known = value.primal
        if type(known) in _KNOWN and written_known(x, index, known):
            return
    held = trace.holds
    if not held and not is_array(x):
        kind = type(x.primal).__name__ if x.primal is not None else "numpy.float64"
        raise TypeError(f"'{kind}' object does not support item assignment")
    if type(value) is Tracer:
        box = value.box
        if box is not None and box.base is x and type(box.step) is Index and _same(box.step.index, index):
            return  # the last step of `x[i] += v`: the view has written it
        if box is not None and box.base is x and "shuffle" in (code := sys._getframe(1).f_code).co_names:
            if code.co_code[sys._getframe(1).f_lasti] not in _STORES:  # but a call
                where = user_source()
                raise TypeError(
                    f"NumPy shuffles a traced array{f' at {where}' if where else ''} by swaps, and its rows are views.\n"
                    "Remedy: x[generator.permutation(len(x))] in the place of generator.shuffle(x)."
                )
    if held and stored(x, index, value):
        return
    check_write(x)
    store(x, index, value)


def cycled(values: Any, n: int) -> Any:
    """n elements of the values, again and again, as NumPy takes them for `x.flat`."""
    values = array_of(values)
    count = aval_of(values).size
    return getitem(reshape(values, shape=(count,)), np.arange(n) % count)


def _same(index: Any, other: Any) -> bool:
    if type(index) is tuple and type(other) is tuple:
        return len(index) == len(other) and all(map(_same, index, other))
    if type(index) is slice and type(other) is slice:
        return all(map(_same, (index.start, index.stop, index.step), (other.start, other.stop, other.step)))
    return index is other or type(index) is int and type(other) is int and index == other


def store(x: Tracer, index: Any, value: Any, view: Tracer | None = None) -> None:
    """`x[index] = value`, in place where that is possible; `view` is the view of x that is written, if it is one."""
    box = x.box
    if (box is None or box.base is None) and (type(x.primal) is np.ndarray or held_arrays.is_held_outside(x.primal)):
        if x.owner is PLAIN:
            if not write_plain(x, index, value, view):
                start = started(x, [value, *(index if type(index) is tuple else (index,))])
                write(x, at(start)[index].set(value), view)
            return
        basic = canonical_basic(x.primal.shape, index)
        if basic is not None:
            if not _fits(x, basic, value):
                value = _Updater(x, index)._values(value)
            if held_arrays.write_in_place(x, basic, value):
                if box is not None:
                    refresh(x, view, basic)
                return
        elif held_arrays.write_at_places(x, index, value):
            if box is not None:
                refresh(x, view)
            return
    start = snapshot(x)
    basic = canonical_basic(x.shape, index) if type(value) is Tracer and type(index) is tuple else None
    aval = None if basic is None else aval_of(value)
    if aval is not None and not aval.weak and aval.dtype == x.dtype and aval.shape == basic_shape(basic):  # as most are
        write(x, basic_update(start, value, basic), view)
        return
    write(x, at(start)[index].set(value), view)


def _fits(x: Tracer, basic: tuple, value: Any) -> bool:
    """Is the value of the right dtype and shape? (False may also mean: not seen at a glance.)"""
    p = value.primal if type(value) is Tracer else value
    if type(p) is np.ndarray or type(p) is Tracer and p.owner.level and not p.owner.holds:
        return p.dtype == x.primal.dtype and p.shape == tuple([1 if e is None else e[1] for e in basic if type(e) is not int])
    if type(p) is not x.primal.dtype.type:
        return False
    for e in basic:
        if type(e) is not int:
            return False
    return True


@aliased("view")
def getitem(x: Any, index: Any) -> Any:
    """x[index] for every index that NumPy takes, differentiable in x.

    Shape, dtype and errors are NumPy's (IndexError out of bounds, also for computed indices in jitted programs, where JAX
    clamps). Traced integers may be entries. Of a mask without a value, inside jit, elementwise functions of x[mask], its sums
    and `x[mask] = ...` by the same mask work; what needs the number of elements raises TracerBoolConversionError.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda x: funcad.numpy.indexing.getitem(x, [0, 0]).sum())(np.ones(3))
    array([2., 0., 0.])
    """
    if type(x) is Tracer:
        trace, p = x.owner, x.primal
        tape = trace.tape
        if tape is not None and (known := tape.apart.get(x.tangent)) is not None:
            first, places, source = known
            try:
                at = places[index]
            except (KeyError, TypeError):  # no number has this index
                pass
            else:
                if type(value := p[index]) in FLOATS:
                    number = _new(Tracer)
                    number.owner, number.primal, number.tangent, number.source = trace, value, first + at, source
                    number.atom = number.box = None
                    return number
        if type(index) in _ARRAYS:
            found = None if trace is not PLAIN or x.box is None or x.box.doubtful else read_known(x, index)
            return read(x, index) if found is None else buffer(found)
        if trace is PLAIN and (number := read_known(x, index)) is not None:
            return number
        held = trace.holds
        tape = trace.trace.tape if held else tape
        if tape is not None and not held and type(p) is np.ndarray and (out := element(tape, x, index)) is not None:
            return out
        if tape is not None and type(p) is np.ndarray:
            basic = canonical_basic(p.shape, index)
            out = None if basic is None else tape.part(x, index, basic, held)
            if out is not None:
                return linked(out, x, Index(index)) if type(out.primal) is np.ndarray else out
    out = read(x, index)
    if type(index) in _ARRAYS:
        return out
    plain = type(out) is not Tracer and type(x) is Tracer and x.owner is PLAIN
    if plain and has_ellipsis(index) and is_basic(index):
        out = lent(np.array(out))  # of rank 0
    if type(out) is not Tracer or type(x) is not Tracer:
        return out
    p = out.primal
    if p.ndim if type(p) is np.ndarray else out.shape if p is None or type(p) is Tracer else ():
        basic = is_basic(index)
    else:  # of rank 0: a number, unless there is an ellipsis
        basic = has_ellipsis(index) and is_basic(index)
    return linked(out, x, Index(index)) if basic else out


def read(x: Any, index: Any) -> Any:
    """`getitem`, of which nobody asks whether it is a view."""
    if type(x) is Tracer:
        trace, p = x.owner, x.primal
        held = trace.holds
        tape = trace.trace.tape if held else trace.tape
        if tape is not None and type(p) is np.ndarray and type(index) not in _ARRAYS:
            basic = canonical_basic(p.shape, index)
            out = None if basic is None else tape.part(x, index, basic, held)
            if out is not None:
                return out
    elif not has_tracer(index):
        x = x if hasattr(x, "dtype") else np.asarray(x)
        return on_device_of([x], index if type(index) is tuple else (index,))[0][index]
    x = as_array(x)
    shape = shape_of(x)
    if not shape:
        x = strong(x)
    kind = type(index)
    basic = canonical_basic(shape, index) if kind is tuple else None
    if basic is not None:
        return basic_index_p(x, index=basic)
    if kind is Tracer and shape and not index.owner.level and index.dtype.kind in "iu":
        (places,) = plain_values([index])  # which are lent, so they are known
        if places.size and not -shape[0] <= places.min() <= places.max() < shape[0]:
            index, kind = places, np.ndarray
    if kind is Tracer and index_plan.is_unknown_mask(index):
        return selected.Selected(x, index)
    if kind is not int and kind is not slice and index_plan.holds_selected(index):  # x[i[mask]]
        index = index_plan.closed(index)
    if kind is int and shape:
        n = shape[0]
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of bounds for axis 0 with size {n}")
        return basic_index_p(x, index=(index % n, *[(0, m, 1) for m in shape[1:]]))
    if kind is slice and shape:
        return basic_index_p(x, index=(slice_triple(index, shape[0]), *[(0, m, 1) for m in shape[1:]]))
    if kind is tuple and len(index) <= len(shape):
        if n := index_plan.own_places(x, index):
            return gather(x, *on_device_of(index[n:], (x,)), batch_dims=n)
    arrays = index_plan.leading_arrays(shape, index) if kind is np.ndarray or kind is list or kind is tuple else None
    if arrays is not None:
        return _gathered(x, kind is np.ndarray and index.dtype.kind == "b", *on_device_of(arrays, (x,)))
    return index_plan.IndexPlan(shape, index).get(x)


_gathered = remembered(lambda x, unique, *indices: gather(x, *indices, unique=unique))


_new: Any = object.__new__
_INTEGERS = frozenset([int, np.int64])
_KNOWN = frozenset([float, int, np.float64, np.ndarray])
_ARRAYS = frozenset([np.ndarray, list])  # what they select is no view


class at:
    """`at(x)[index].set(v)`: a new array, x with the elements at index replaced; x is never written.

    After the index: `set, add, subtract, multiply, divide, power, min, max, apply(f), get()`. Values broadcast and are cast to
    x's dtype as NumPy's assignment does (complex values into a real array raise TypeError). Where NumPy's `x[i] += v` counts a
    repeated index once, here repeated indices accumulate, as in `np.add.at` and JAX; of `set` the last wins, `apply` applies f
    once. Out of bounds raises IndexError, where JAX drops the update, unless `mode=` is "drop" ("fill" for get) or "clip".
    A traced bool mask is taken if the values do not
    depend on how many elements it selects. Differentiable in x and v.

    >>> import numpy as np, funcad
    >>> funcad.numpy.indexing.at(np.zeros(3))[[0, 0, 2]].add(1.0)
    array([2., 0., 1.])
    """

    __slots__ = ("_x",)

    def __init__(self, x: Any):
        x = as_array(x)
        self._x = strong(x) if type(x) is Tracer else x if hasattr(x, "dtype") else np.asarray(x)

    def __getitem__(self, index: Any) -> _Updater:
        if type(index) is Tracer and index_plan.is_unknown_mask(index):
            return _MaskedUpdater(self._x, index)
        return _Updater(self._x, index)

    def __repr__(self) -> str:
        return f"at({self._x!r})"


def _by_default(mode: Any) -> bool:
    if mode not in MODES:
        raise ValueError(f"at(x)[index]: mode={mode!r} is none of {', '.join(repr(m) for m in MODES)}")
    return mode is None or mode == "promise_in_bounds"


def _with_mode(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with JAX's keyword arguments; the promises that indices are sorted or unique are not needed."""

    @functools.wraps(method)
    def update(
        self: Any, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | None = None
    ) -> Any:
        if _by_default(mode) or type(self) is _MaskedUpdater:
            return method(self, values)
        if mode == "clip":
            return method(_Updater(self._x, clipped(shape_of(self._x), self._index)[0]), values)
        grown, index, inner = spilled(self._x, self._index)
        return getitem(method(_Updater(grown, index), values), inner)

    return update


class _Updater:
    """The elements of x at an index, about to be read or replaced."""

    __slots__ = ("_x", "_index", "_made")

    def __init__(self, x: Any, index: Any):
        self._x = x
        self._index = index = index_plan.closed(index) if index_plan.holds_selected(index) else index
        self._made: Any = None
        try:
            self._made = index_plan.IndexPlan(shape_of(x), index)
        except IndexError:  # a number out of bounds waits for the mode; what else is wrong raises now
            index_plan.IndexPlan(shape_of(x), clipped(shape_of(x), index)[0])

    @property
    def _plan(self) -> Any:
        if self._made is None:
            self._made = index_plan.IndexPlan(shape_of(self._x), self._index)
        return self._made

    def get(
        self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | None = None, fill_value: Any = None
    ) -> Any:
        """x[index]; out of bounds mode="fill" gives fill_value (NaN, or the least integer), "clip" the nearest element."""
        if _by_default(mode):
            if fill_value is not None:
                raise TypeError('at(x)[index].get: fill_value= goes with mode="fill"')
            return self._plan.get(self._x)
        index, inside = clipped(shape_of(self._x), self._index)
        if mode == "clip":
            return _Updater(self._x, index).get()
        dtype = dtype_of(self._x)
        fill = convert(as_array(default_fill(dtype) if fill_value is None else fill_value), dtype)
        if not aval_of(self._x).size:
            grown, index, _ = spilled(self._x, self._index)
            found = _Updater(grown, index).get()
            return broadcast_to(fill, shape_of(found))
        plan = index_plan.IndexPlan(shape_of(self._x), index)
        valid: Any = np.True_
        for i in inside:
            valid = np.logical_and(valid, beside(np.asarray(i), self._x) if not isinstance(i, Tracer) else i)
        if plan.arrays:
            after = len(plan.shape) - plan.place - len(plan.index_shape)
            valid = np.broadcast_to(valid, plan.index_shape)
            valid = reshape(valid, shape=(*[1] * plan.place, *plan.index_shape, *[1] * after))
        return np.where(beside(valid, self._x), plan.get(self._x), beside(fill, self._x))

    @_with_mode
    def set(self, values: Any) -> Any:
        """x with x[index] = values."""
        return self._plan.update(self._x, self._values(values), "set")

    @_with_mode
    def add(self, values: Any) -> Any:
        """x with values added at index."""
        return self._combine(self._values(values), "add", add)

    @_with_mode
    def subtract(self, values: Any) -> Any:
        """x with values subtracted at index."""
        if self._x.dtype.kind == "b":
            raise TypeError("at(x)[index].subtract: numpy has no subtraction of bools; use np.logical_xor")
        return self._combine(neg(self._values(values)), "add", add)

    @_with_mode
    def multiply(self, values: Any) -> Any:
        """x with the elements at index multiplied by values."""
        return self._combine(self._values(values), "mul", mul)

    mul = multiply

    @_with_mode
    def divide(self, values: Any) -> Any:
        """x with the elements at index divided by values; TypeError for integers, as `x[i] /= v` in NumPy."""
        if dtype_kind(self._x.dtype) not in "fc":
            raise TypeError(
                f"at(x)[index].divide on {said(self._x)}: a quotient is a float, which does not fit; convert x first"
            )
        return self._replace(div, values)

    @_with_mode
    def power(self, values: Any) -> Any:
        """x with the elements at index raised to the power of values."""
        return self._replace(pow, values)

    @_with_mode
    def min(self, values: Any) -> Any:
        """x with the elements at index replaced by their minimum with values."""
        return self._combine(self._values(values), "min", minimum)

    @_with_mode
    def max(self, values: Any) -> Any:
        """x with the elements at index replaced by their maximum with values."""
        return self._combine(self._values(values), "max", maximum)

    @_with_mode
    def apply(self, f: Callable[[Any], Any]) -> Any:
        """x with the elements at index replaced by f of them (f takes and gives an array of their shape)."""
        return self.set(f(self.get()))

    def _combine(self, values: Any, mode: str, f: Callable[..., Any]) -> Any:
        if self._plan.arrays:
            return self._plan.update(self._x, values, mode)
        return self._plan.update(self._x, self._values(f(self.get(), values)), "set")

    def _replace(self, f: Callable[..., Any], values: Any) -> Any:
        """f(element, product of the element's values) at index: repeated indices accumulate, and the last of them, equal to the
        others, is written."""
        values = self._values(values)
        plan = self._plan
        if plan.arrays and not plan.unique:
            aval = aval_of(self._x)
            (ones,) = on_device_of((np.broadcast_to(np.ones((), aval.dtype), aval.shape),), (self._x, values))
            values = plan.get(plan.update(ones, values, "mul"))
        return self.set(f(self.get(), values))

    def _values(self, values: Any) -> Any:
        """The values in x's dtype and in the shape of the elements."""
        shape, index = self._plan.shape, self._index if type(self._index) is tuple else (self._index,)
        values = as_array(values) if isinstance(values, (list, tuple)) else values
        if not shape and np.ndim(values) and not any([i is Ellipsis for i in index]):
            np.empty(1)[0] = np.zeros(np.shape(values))  # NumPy's error: an element takes no array
        return self._cast(index_plan.closed(values) if index_plan.is_selected(values) else values, shape)

    def shape(self) -> tuple | None:
        """Of the elements, if that is known."""
        return self._plan.shape

    def _cast(self, values: Any, shape: tuple) -> Any:
        values = as_array(values)
        aval, dtype = aval_of(values), dtype_of(self._x)
        if aval.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(
                f"at(x)[index]: values of dtype {aval.dtype} do not fit into {said(self._x)} without losing their imaginary "
                "part; take values.real, or convert x first"
            )
        if aval.weak and type(values) is not Tracer:
            cell = np.empty((), dtype)
            cell[()] = values  # NumPy's own rule, with its errors
            values = cell[()]
        elif aval.dtype != dtype or aval.weak:
            values = convert(capture_as_inputs((values,), (self._x,))[0], dtype)
        own = aval.shape
        if own == shape:
            return values
        if len(own) > len(shape) and all(n == 1 for n in own[: len(own) - len(shape)]):
            own = own[len(own) - len(shape) :]
            values = reshape(values, shape=own)
        try:
            fits = np.broadcast_shapes(own, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"shape mismatch: value array of shape {aval.shape} could not be broadcast to indexing result of shape {shape}"
            )
        values = broadcast_to(values, shape)
        return beside(values, self._x) if not aval.shape else values  # scalars follow x to its device


class _MaskedUpdater(_Updater):
    """The elements of x where a traced mask holds. How many is not known: values are the same for all, or of the same mask."""

    __slots__ = ("_mask", "_traced")

    def __init__(self, x: Any, mask: Tracer):
        shape = shape_of(x)
        if any(m != n for m, n in itertools.zip_longest(mask.shape, shape[: mask.ndim])):
            index_plan.refuse(shape, mask, f"boolean index of shape {mask.shape} did not match the indexed array")
        self._x = x
        self._traced = mask
        self._mask = broadcast_in_dim(mask, shape=shape, axes=tuple(range(mask.ndim)))

    def shape(self) -> tuple | None:
        return None

    def get(self, **options: Any) -> Any:
        return selected.Selected(self._x, self._traced)

    @_with_mode
    def set(self, values: Any) -> Any:
        return select(self._mask, self._values(values), self._x)

    def _combine(self, values: Any, mode: str, f: Callable[..., Any]) -> Any:
        return select(self._mask, f(self._x, values), self._x)

    def _replace(self, f: Callable[..., Any], values: Any) -> Any:
        one = self._x.dtype.type(1)  # what is not selected must not make NaNs either, in the derivative
        return select(self._mask, f(self._x, select(self._mask, self._values(values), one)), self._x)

    def _values(self, values: Any) -> Any:
        shape = shape_of(self._x)
        if index_plan.is_selected(values):
            if index_plan.can_count(self._traced) and not values.is_of(self._traced):
                return self._values(values.closed_up())
            return self._cast(values.elements(self._traced, shape[self._traced.ndim :]), shape)
        try:
            return broadcast_to(self._cast(values, shape[self._traced.ndim :]), shape)
        except ValueError:
            places = index_plan.selected_places(self._traced)  # as many values as the mask selects, closed up
            return _Updater(broadcast_to(self._cast(0, ()), shape), places).set(values)

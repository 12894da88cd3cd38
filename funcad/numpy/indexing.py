"""NumPy's indexing, translated: `getitem(x, index)` and `at(x)[index].set(v)` & co.

Idea: an index of any kind NumPy knows becomes a `_Plan`: first one basic index (ints, slices, new axes; one equation), then,
if arrays are among the entries, one gather on the axes that they address, moved to the front and back again by transposes, so
that the result's axes stand where NumPy puts them (at the first array if all arrays are neighbours, else in front). Updates go
the same way backwards. Invariants: concrete integers stay static, also inside jit; what has no tracer in it is left to NumPy;
refused indices raise NumPy's own IndexError, because NumPy is asked (`_refuse`). Trap: an int counts as an array, for where the
axes go, as soon as a real array is present.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.place import near
from funcad.ir.source import user_source
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.promote import as_array, strengthen
from funcad.primitives.arithmetic import neg
from funcad.primitives.comparison import select
from funcad.primitives.conversion import convert
from funcad.primitives.indexing import basic_index_p, basic_update
from funcad.primitives.scatter import gather, scatter
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, reshape, transpose

__all__ = ["getitem", "setitem", "at"]

_BASIC = (int, slice, type(None), type(Ellipsis))


def getitem(x: Any, index: Any) -> Any:
    """x[index] for every index that NumPy takes, differentiable in x.

    Shape, dtype and errors are NumPy's (IndexError out of bounds, also for computed indices in jitted programs, where JAX
    clamps). Traced integers may be entries; traced bool masks have no value inside jit and raise TracerBoolConversionError.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda x: funcad.numpy.indexing.getitem(x, [0, 0]).sum())(np.ones(3))
    array([2., 0., 0.])
    """
    if type(x) is not Tracer and not _has_tracer(index):
        return x[index] if hasattr(x, "dtype") else np.asarray(x)[index]
    x = as_array(x)
    shape = shape_of(x)
    if not shape:
        x = strengthen(x)
    kind = type(index)
    if kind is int and shape:
        n = shape[0]
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of bounds for axis 0 with size {n}")
        return basic_index_p(x, index=(index % n, *[(0, m, 1) for m in shape[1:]]))
    if kind is slice and shape:
        return basic_index_p(x, index=(_triple(index, shape[0]), *[(0, m, 1) for m in shape[1:]]))
    if kind is tuple and len(index) <= len(shape):
        basic = _simple(shape, index)
        if basic is not None:
            return basic_index_p(x, index=basic)
    if kind is np.ndarray and shape and index.ndim and index.dtype.kind in "iu":
        return gather(x, *near((index,), (x,)))
    return _Plan(shape, index).get(x)


def setitem(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value` on a traced x: refused, with the remedy."""
    where = user_source()
    raise TracerArrayConversionError(
        f"x[...] = value on a traced {aval_of(x)}{f' at {where}' if where is not None else ''}: traced values do not change in "
        "place.\nRemedy: x = funcad.numpy.at(x)[i].set(v), which gives a new array (also .add, .multiply, .min, .max ...)."
    )


def _has_tracer(index: Any) -> bool:
    kind = type(index)
    if kind is Tracer:
        return True
    if kind is tuple or kind is list:
        return any(_has_tracer(i) for i in index)
    return kind is slice and (type(index.start) is Tracer or type(index.stop) is Tracer or type(index.step) is Tracer)


def _triple(entry: slice, n: int) -> tuple[int, int, int]:
    """(start, count, step) of a slice along an axis of n elements."""
    try:
        start, stop, step = entry.indices(n)
    except TracerIntegerConversionError:
        where = user_source()
        raise TracerIntegerConversionError(
            f"a bound of a slice is a traced value{f' at {where}' if where is not None else ''}: the result's shape would not be "
            "known.\nUse funcad.lax.dynamic_slice for a window of known size at a computed start, or pass the bound as static."
        ) from None
    return start, len(range(start, stop, step)), step


def _simple(shape: tuple, index: tuple) -> tuple | None:
    """The canonical index of plain ints within bounds and slices; None if there is anything else."""
    basic: list[Any] = [(0, n, 1) for n in shape]
    for axis, e in enumerate(index):
        n = shape[axis]
        if type(e) is slice:
            basic[axis] = _triple(e, n)
        elif type(e) is int and -n <= e < n:
            basic[axis] = e % n
        else:
            return None
    return tuple(basic)


def _refuse(shape: tuple, index: Any, otherwise: str) -> Any:
    """Raise the error that NumPy raises for this index on an array of this shape."""

    def without_tracers(entry: Any) -> Any:
        if isinstance(entry, Tracer):
            return np.zeros(entry.shape, entry.dtype)[()]
        if isinstance(entry, (tuple, list)):
            return type(entry)([without_tracers(e) for e in entry])
        return entry

    np.broadcast_to(np.False_, shape)[without_tracers(index)]
    raise IndexError(otherwise)


class _Plan:
    """An index on an array of known shape, taken apart."""

    __slots__ = ("basic", "trivial", "front", "arrays", "unique", "place", "shape", "index_shape", "inner", "source")

    def __init__(self, shape: tuple, index: Any):
        self.source = (shape, index)
        entries = index if type(index) is tuple else (index,)
        if not all(type(e) in _BASIC for e in entries):
            entries = [_canonical(e, shape, index) for e in entries]
        used = 0
        for e in entries:
            used += 0 if e is None or e is Ellipsis or type(e) is _Truth else e.ndim if type(e) is _Mask else 1
        ellipses = [k for k, e in enumerate(entries) if e is Ellipsis]
        if used > len(shape) or len(ellipses) > 1:
            _refuse(shape, index, f"too many indices for array: array is {len(shape)}-dimensional")
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
        first: int | None = None
        unique = True
        for position, e in enumerate(entries):
            kind = type(e)
            if e is _GAP:
                continue
            if e is None:
                basic.append(None)
                kept += 1
            elif kind is slice:
                triple = _triple(e, shape[axis])
                basic.append(triple)
                axis += 1
                kept += 1
            elif kind is int:
                n = shape[axis]
                if not -n <= e < n:
                    _refuse(shape, index, f"index {e} is out of bounds for axis {axis} with size {n}")
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
                        _refuse(shape, index, f"boolean index of shape {e.shape} did not match the indexed array")
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
            _refuse(shape, index, "shape mismatch: indexing arrays could not be broadcast together")
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
            out = gather(_permuted(x, self.front), *near(self.arrays, (x,)), unique=self.unique)
        except IndexError as error:
            _refuse(*self.source, str(error))  # the same error, with NumPy's number of the axis
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
        arrays = near(self.arrays, (x, values))
        try:
            inner = scatter(_permuted(inner, self.front), values, *arrays, mode=mode, unique=self.unique)
        except IndexError as error:
            _refuse(*self.source, str(error))
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


def _canonical(e: Any, shape: tuple, index: Any) -> Any:
    """An entry as an int, slice, None, Ellipsis, integer array or tracer, _Mask or _Truth."""
    kind = type(e)
    if kind in _BASIC or isinstance(e, slice):
        return e if kind in _BASIC else slice(e.start, e.stop, e.step)
    if isinstance(e, (bool, np.bool_)):
        return _Truth(bool(e))
    if kind is Tracer:
        return _traced_entry(e, shape, index)
    if isinstance(e, np.integer):
        return int(e)
    if isinstance(e, (list, tuple)):
        if _has_tracer(e):
            return _canonical(as_array(e), shape, index)
        e = np.asarray(e)
        if not e.size:
            e = e.astype(np.intp)
    elif not hasattr(e, "dtype"):
        if hasattr(e, "__index__"):
            return operator.index(e)
        if not hasattr(e, "__array__"):
            _refuse(shape, index, "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis and arrays are valid indices")
        e = np.asarray(e)
    if e.dtype.kind == "b":
        return _Mask(e) if e.ndim else _Truth(bool(e))
    if e.dtype.kind not in "iu":
        _refuse(shape, index, "arrays used as indices must be of integer (or boolean) type")
    return e if e.ndim else int(e)


def _unknown_count(mask: Tracer) -> TracerBoolConversionError:
    where = user_source()
    return TracerBoolConversionError(
        f"a traced mask {mask.aval} was used as an index{f' at {where}' if where is not None else ''}: how many elements it "
        f"selects is not known inside {mask.trace.name}.\nUse np.where(mask, x, 0); np.where(mask, v, x) instead of x[mask] = v "
        "with one value per element; or pass the mask as a static or concrete value."
    )


def _traced_entry(e: Tracer, shape: tuple, index: Any) -> Any:
    aval = e.aval
    if aval.dtype.kind == "b":
        value = concrete_value(e)
        if type(value) is not Tracer:
            return _canonical(value, shape, index)
        raise _unknown_count(value)
    if aval.dtype.kind not in "iu":
        _refuse(shape, index, "arrays used as indices must be of integer (or boolean) type")
    return e


# -- functional updates


class at:
    """`at(x)[index].set(v)`: a new array, x with the elements at index replaced; x is never written.

    After the index: `set, add, subtract, multiply, divide, power, min, max, apply(f), get()`. Values broadcast and are cast to
    x's dtype as NumPy's assignment does (complex values into a real array raise TypeError). Where NumPy's `x[i] += v` counts a
    repeated index once, here repeated indices accumulate, as in `np.add.at` and JAX; of `set` the last wins, `apply` applies f
    once. Out of bounds raises IndexError, where JAX drops the update. A traced bool mask is taken if the values do not depend on
    how many elements it selects. Differentiable in x and v.

    >>> import numpy as np, funcad
    >>> funcad.numpy.indexing.at(np.zeros(3))[[0, 0, 2]].add(1.0)
    array([2., 0., 1.])
    """

    __slots__ = ("_x",)

    def __init__(self, x: Any):
        x = as_array(x)
        self._x = strengthen(x) if type(x) is Tracer else x if hasattr(x, "dtype") else np.asarray(x)

    def __getitem__(self, index: Any) -> _Updater:
        if type(index) is Tracer and index.dtype.kind == "b" and type(concrete_value(index)) is Tracer:
            return _MaskedUpdater(self._x, index)
        return _Updater(self._x, index)

    def __repr__(self) -> str:
        return f"at({self._x!r})"


class _Updater:
    """The elements of x at an index, about to be read or replaced."""

    __slots__ = ("_x", "_plan")

    def __init__(self, x: Any, index: Any):
        self._x = x
        self._plan = _Plan(shape_of(x), index)

    def get(self) -> Any:
        """x[index]."""
        return self._plan.get(self._x)

    def set(self, values: Any) -> Any:
        """x with x[index] = values."""
        return self._plan.update(self._x, self._values(values), "set")

    def add(self, values: Any) -> Any:
        """x with values added at index."""
        return self._combine(self._values(values), "add", np.add)

    def subtract(self, values: Any) -> Any:
        """x with values subtracted at index."""
        if self._x.dtype.kind == "b":
            raise TypeError("at(x)[index].subtract: numpy has no subtraction of bools; use np.logical_xor")
        return self._combine(neg(self._values(values)), "add", np.add)

    def multiply(self, values: Any) -> Any:
        """x with the elements at index multiplied by values."""
        return self._combine(self._values(values), "mul", np.multiply)

    mul = multiply

    def divide(self, values: Any) -> Any:
        """x with the elements at index divided by values; TypeError for integers, as `x[i] /= v` in NumPy."""
        if self._x.dtype.kind not in "fc":
            raise TypeError(
                f"at(x)[index].divide on {aval_of(self._x)}: a quotient is a float, which does not fit; convert x first"
            )
        return self._replace(np.true_divide, values)

    def power(self, values: Any) -> Any:
        """x with the elements at index raised to the power of values."""
        return self._replace(np.power, values)

    def min(self, values: Any) -> Any:
        """x with the elements at index replaced by their minimum with values."""
        return self._combine(self._values(values), "min", np.minimum)

    def max(self, values: Any) -> Any:
        """x with the elements at index replaced by their maximum with values."""
        return self._combine(self._values(values), "max", np.maximum)

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
            ones = np.broadcast_to(np.ones((), aval.dtype), aval.shape)
            values = plan.get(plan.update(ones, values, "mul"))
        return self.set(f(self.get(), values))

    def _values(self, values: Any) -> Any:
        """The values in x's dtype and in the shape of the elements."""
        return self._cast(values, self._plan.shape)

    def _cast(self, values: Any, shape: tuple) -> Any:
        values = as_array(values)
        aval, dtype = aval_of(values), self._x.dtype
        if aval.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(
                f"at(x)[index]: values of dtype {aval.dtype} do not fit into {aval_of(self._x)} without losing their imaginary "
                "part; take values.real, or convert x first"
            )
        if aval.weak and type(values) is not Tracer:
            cell = np.empty((), dtype)
            cell[()] = values  # NumPy's own rule, with its errors
            values = cell[()]
        elif aval.dtype != dtype or aval.weak:
            values = convert(values, dtype)
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
        return broadcast_to(values, shape)


class _MaskedUpdater(_Updater):
    """The elements of x where a traced mask holds. How many is not known, so values must be the same for all of them."""

    __slots__ = ("_mask", "_traced")

    def __init__(self, x: Any, mask: Tracer):
        shape = shape_of(x)
        if any(m != n for m, n in itertools.zip_longest(mask.shape, shape[: mask.ndim])):
            _refuse(shape, mask, f"boolean index of shape {mask.shape} did not match the indexed array")
        self._x = x
        self._traced = mask
        self._mask = broadcast_in_dim(mask, shape=shape, axes=tuple(range(mask.ndim)))

    def get(self) -> Any:
        raise _unknown_count(self._traced)

    def set(self, values: Any) -> Any:
        return select(self._mask, self._values(values), self._x)

    def _combine(self, values: Any, mode: str, f: Callable[..., Any]) -> Any:
        return select(self._mask, f(self._x, values), self._x)

    def _replace(self, f: Callable[..., Any], values: Any) -> Any:
        one = self._x.dtype.type(1)  # what is not selected must not make NaNs either, in the derivative
        return select(self._mask, f(self._x, select(self._mask, self._values(values), one)), self._x)

    def _values(self, values: Any) -> Any:
        shape = shape_of(self._x)
        try:
            return broadcast_to(self._cast(values, shape[self._traced.ndim :]), shape)
        except ValueError:
            raise _unknown_count(self._traced) from None

"""Where results are written, and where the elements of a view lie in its base.

Idea: a function that only selects or reorders elements is run by NumPy on the numbers of the base's elements; what comes out
are their places. Places that are a lattice of the base (transposes, flips, pieces) are written by a basic index, all others
(diagonals, reshapes of pieces) one by one. Trap: `reshape` and `ravel` give a view only if the base's memory order allows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, named_as
from funcad.errors import BufferNeeded, WriteError
from funcad.host.conversions import missed
from funcad.host.devices import deliver, restore_warnings, warn_at_user_line
from funcad.host.real_types import memory_axes, of_reshape, view_of_reshape
from funcad.host.where import tracing, user_source
from funcad.ir.aval import aval_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.memo import remembers
from funcad.numpy.indexing import Index, at, canonical_basic, getitem
from funcad.numpy.promote import array_of, cast, fresh
from funcad.primitives.arithmetic import neg
from funcad.primitives.basic_indexing import basic_add_p
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_to, reshape, transpose
from funcad.writes.boxes import ViewStep, assign, check_write, is_array, linked, rebind, refresh, write

added, strides = OnDemand("funcad.numpy.added"), OnDemand("funcad.unjitted.strides")
tracing.added = lambda x: added.Added(x)

# -- where results are written: the destinations of `out=`, of in-place operators and of `ufunc.at`, traced arrays
#
# Idea: a result is computed as without a destination, cast and broadcast as NumPy casts and broadcasts into it, and then
# assigned (boxes.py). Trap: a plain NumPy array cannot take a traced value, and a number cannot be written.


def _where() -> str:
    source = user_source()
    return f" at {source}" if source is not None else ""


def destination(x: Any, what: str, instead: str = "") -> Tracer:
    """x, which is about to be written with traced values, or the error that says why it cannot be; `instead`: a remedy."""
    if type(x) is not Tracer:
        error = (
            f"{what} writes a traced value{_where()} into a plain NumPy array, which cannot hold it.\n"
            f"Remedy: K = np.array(K) inside the traced function makes a copy that can{instead}."
        )
        raise missed(BufferNeeded(error))
    if not is_array(x):
        raise TypeError(f"{what} writes into a number{_where()}: NumPy's scalars cannot be written.")
    return x


def fitted(x: Tracer, value: Any, casting: str = "unsafe") -> Any:
    """The value in x's dtype and shape."""
    value = array_of(value)
    own, aval = aval_of(x), aval_of(value)
    if casting != "unsafe" and not np.can_cast(aval.dtype, own.dtype, casting):
        np.copyto(np.empty(0, own.dtype), np.empty(0, aval.dtype), casting=casting)  # NumPy's TypeError
    if aval.dtype != own.dtype:
        value = cast(value, own.dtype)
    shape = aval.shape
    if shape == own.shape:
        return value
    if len(shape) > len(own.shape) and all([n == 1 for n in shape[: len(shape) - len(own.shape)]]):
        shape = shape[len(shape) - len(own.shape) :]
        value = reshape(value, shape=shape)
    if np.broadcast_shapes(shape, own.shape) != own.shape:
        raise ValueError(f"could not broadcast input array from shape {aval.shape} into shape {own.shape}")
    return broadcast_to(value, own.shape)


def write_result(x: Tracer, out: Any, ufunc: Any, operands: Sequence[Any], casting: str = "same_kind") -> None:
    """x becomes the result of a ufunc, in its own dtype."""
    own, aval = aval_of(x), aval_of(out)
    if aval.shape != own.shape and ufunc.signature is not None:
        _check_core(own.shape, aval.shape, ufunc, operands)
    if aval.shape != own.shape and np.broadcast_shapes(aval.shape, own.shape) != own.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {_text(own.shape)} doesn't match the broadcast shape "
            f"{_text(aval.shape)}"
        )
    if aval.dtype != own.dtype and not np.can_cast(aval.dtype, own.dtype, casting):
        empty = np.empty(0, own.dtype)
        given = [np.empty(0, aval_of(array_of(a)).dtype) for a in operands]
        ufunc(*given, out=(empty, *[None] * (ufunc.nout - 1)), casting=casting)  # NumPy's TypeError
    assign(x, fitted(x, out))


def added_by(view: Tracer, out: Any, ufunc: Any, y: Any) -> bool:
    """`x[i] += y` and `x[i] -= y`, of whose result `out` the view of x is: an addition to x, if arrays of floats are recorded.

    The same bits as x with the sum written into it; its derivative hands cotangents on, where that takes them out and gives
    them back.
    """
    base, step, own = view.box.base, view.box.step, aval_of(view)
    if ufunc not in (np.add, np.subtract) or type(base) is not Tracer or type(step) is not Index or not base.owner.level:
        return False
    basic = canonical_basic(base.shape, step.index) if type(base.primal) is not np.ndarray else None
    if basic is None or own.dtype.kind not in "fc" or aval_of(out).dtype != own.dtype or shape_of(out) != own.shape:
        return False
    check_write(view)
    y = fitted(view, y)
    write(base, basic_add_p(snapshot(base), neg(y) if ufunc is np.subtract else y, index=basic), view)
    rebind(view, out)
    refresh(view, None)
    return True


def _check_core(own: tuple, shape: tuple, ufunc: Any, operands: Sequence[Any]) -> None:
    """The axes that a generalised ufunc computes are not broadcast into its output."""
    core = ufunc.signature.partition("->")[2].strip("()").split(",")
    flat = sum([aval_of(array_of(a)).ndim == 1 for a in operands])  # of matmul: their optional axis is left out
    n = len([name for name in core if name]) - min(flat, sum([name.endswith("?") for name in core]))
    for i, (a, b) in enumerate(zip(own[len(own) - n :], shape[len(shape) - n :])):
        if a != b or len(own) < n:
            raise ValueError(
                f"{ufunc.__name__}: Output operand 0 has a mismatch in its core dimension {i}, with gufunc signature "
                f"{ufunc.signature} (size {a} is different from {b})"
            )


def _text(shape: tuple) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def write_out(ufunc: Any, inputs: Sequence[Any], out: Any, where: Any, casting: str, results: Any) -> Any:
    """The outputs of a ufunc's call with `out`, after they were written where `where` holds."""
    outs = out if type(out) is tuple else (out,)
    found = results if type(results) is tuple else (results,)
    written = []
    for x, value in zip(outs, found):
        if x is None:
            written.append(value)
            continue
        x = destination(x, f"np.{ufunc.__name__}(..., out=)", f"; or use the result, y = np.{ufunc.__name__}(...)")
        if where is not True:
            value = np.where(where, value, convert(snapshot(x), aval_of(value).dtype))
        write_result(x, value, ufunc, inputs, casting)
        written.append(x)
    return written[0] if len(written) == 1 else tuple(written)


def warn_where(ufunc: Any, inputs: Sequence[Any], where: Any, options: dict[str, Any]) -> None:
    """NumPy's warnings of the elements where the mask holds, if there are values; of the others it gives none."""
    values = [concrete_value(a) for a in (*inputs, where)]
    if any([type(v) is Tracer or np.shape(v) != shape_of(a) for v, a in zip(values, (*inputs, where))]):
        return
    token = warn_at_user_line()
    try:
        ufunc(*values[:-1], where=values[-1], out=None, **options)
    finally:
        if token is not None:
            restore_warnings(token)
            deliver(SimpleNamespace(ufunc=ufunc, label=ufunc.__name__), values[:-1])


def function_out(name: str, out: Any, value: Any) -> Any:
    """`out` after a function of NumPy's or SciPy's (`special.zeta`) that is no ufunc has written its result."""
    library = "np" if name.partition(".")[0] in ("linalg", "fft", name) else "scipy"
    label = f"{library}.{name}"
    out = out[0] if type(out) is tuple else out
    x = destination(out, f"{label}(..., out=)", f"; or use the result, y = {label}(...)")
    own, aval = aval_of(x), aval_of(value)
    if own.shape != aval.shape:
        raise ValueError(f"{label}: output array has the shape {_text(own.shape)}, the result {_text(aval.shape)}")
    if name in ("dot", "multi_dot"):
        if own.dtype != aval.dtype or not strides.supposed_layout(x).flags.c_contiguous:
            raise ValueError(
                "output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)"
            )
    casting = "safe" if name == "einsum" else "same_kind"
    kinds = (own.dtype, aval.dtype) if name in ("argmax", "argmin") else (aval.dtype, own.dtype)  # as NumPy asks there
    if not np.can_cast(*kinds, casting):
        raise TypeError(f"{label}: cannot cast the result from {aval.dtype!r} to {own.dtype!r} according to {casting!r}")
    assign(x, fitted(x, value))
    return x


_ACCUMULATED = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "minimum": "min",
    "maximum": "max",
    "power": "power",
}


def add_at(ufunc: Any, x: Any, index: Any, *values: Any) -> None:
    """`ufunc.at(x, index, values)`: repeated indices count each time."""
    method = _ACCUMULATED.get(ufunc.__name__)
    instead = f"; or take y = funcad.numpy.at(K)[indices].{method}(values), a new array" if method is not None else ""
    x = destination(x, f"np.{ufunc.__name__}.at", instead)
    if method == "add" and values and added.add_at(x, index, *values):
        return
    updater = at(snapshot(x))[index]
    own = aval_of(x).dtype
    given, shape = [array_of(v) for v in values], updater.shape()
    if shape is not None and any([len(shape_of(v)) > len(shape) for v in given]):
        raise ValueError("array is not broadcastable to correct shape")
    if (len(given), ufunc.nout) != (ufunc.nin - 1, 1):
        ufunc.at(np.ones(1, own), [0], *[np.ones(1, aval_of(v).dtype) for v in given])  # NumPy's error
    result = ufunc(np.empty(0, own), *[np.empty(0, aval_of(v).dtype) for v in given]).dtype
    casts = not np.can_cast(result, own, "same_kind")
    if casts:
        ufunc.at(np.empty(1, own), [0], *[np.ones(1, aval_of(v).dtype) for v in given])  # NumPy's TypeError
    if casts or method is None:
        return _at_in_turn(ufunc, x, index, given, own)
    assign(x, getattr(updater, method)(*given))


_VARARGS = 0x04  # a flag of a code object, as `inspect` has it
_VARKEYWORDS = 0x08
_MOST_TURNS = 64  # of an index that is repeated


def _at_in_turn(ufunc: np.ufunc, x: Any, index: Any, values: Sequence[Any], own: np.dtype) -> None:
    """`ufunc.at` where each result is there, and is cast, before the next comes: repeated indices one after the other."""
    parts = [concrete_value(part) for part in (index if type(index) is tuple else (index,))]  # buffers have their values
    places = None
    if Tracer not in map(type, parts):
        places = np.arange(math.prod(shape_of(x))).reshape(shape_of(x))[tuple(parts)]
        turns = np.zeros(places.size, int)
        order = np.argsort(places, axis=None, kind="stable")
        lines = np.ravel(places)[order]
        first = np.r_[True, lines[1:] != lines[:-1]] if len(lines) else np.zeros(0, bool)
        turns[order] = np.arange(len(lines)) - np.maximum.accumulate(np.where(first, np.arange(len(lines)), 0))
    if places is None or len(lines) and turns.max() >= _MOST_TURNS:
        raise TypeError(
            f"np.{ufunc.__name__}.at of {', '.join(map(said, values)) or 'elements'} into {own} goes on from each result"
            f"{_where()}, which is done in a program for untraced indices that are repeated less than {_MOST_TURNS} times.\n"
            f"Remedy: x[index] = np.{ufunc.__name__}(x[index], ...), if no index is repeated; or an array of floats."
        )
    flat = [np.reshape(np.broadcast_to(v, places.shape), (-1,)) for v in values]
    for turn in range(int(turns.max()) + 1 if len(lines) else 0):
        chosen = np.flatnonzero(turns == turn)
        where = np.unravel_index(np.ravel(places)[chosen], shape_of(x))
        now = snapshot(x)
        assign(x, at(now)[where].set(convert(ufunc(getitem(now, where), *[v[chosen] for v in flat]), own)))


def _own_code(f: Any) -> CodeType:
    """The code behind all that was wrapped around it."""
    while hasattr(f, "__wrapped__"):
        f = f.__wrapped__
    return f.__code__  # type: ignore[no-any-return]


@remembers()
def place_of_out(implementation: Callable[..., Any]) -> int:
    """Which positional argument is `out`; a large number if there is none."""
    code = _own_code(implementation)
    names = () if code.co_posonlyargcount else code.co_varnames[: code.co_argcount]
    return names.index("out") if "out" in names else 1000


def with_out(implementation: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The implementation of a function or method of NumPy's, called directly: what is given as `out` is written."""
    code = _own_code(implementation)
    if "out" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] and not code.co_flags & _VARKEYWORDS:
        return implementation
    place = place_of_out(implementation)

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= place and "out" not in kwargs:
            return implementation(*args, **kwargs)
        out, args, kwargs = out_given(implementation, args, kwargs)
        result = implementation(*args, **kwargs)
        return result if out is None else function_out(name, out, result)

    return named_as(call, implementation)


def out_given(implementation: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Sequence, dict]:
    """(what is given as `out`, the other arguments); None if nothing is."""
    if "out" in kwargs:
        out = kwargs["out"]
        return out, args, {name: value for name, value in kwargs.items() if name != "out"}
    place = place_of_out(implementation)
    if len(args) > place and args[place] is not None and args[place] is not np._NoValue:
        return args[place], [*args[:place], None, *args[place + 1 :]], kwargs
    return None, args, kwargs


# -- views that functions give: where the elements of a view lie in its base, found by NumPy itself


def _are_traced(values: Iterable[Any]) -> bool:
    return any([type(v) is Tracer or type(v) in (list, tuple) and _are_traced(v) for v in values])


class Selection(ViewStep):
    """What `function(*args, **kwargs)` of NumPy's gives with the base at one place of args; `part` if it gives several."""

    __slots__ = ("function", "traced", "args", "kwargs", "place", "part")

    def __init__(self, function: Any, traced: Any, args: Sequence[Any], kwargs: dict[str, Any], place: int, part: int | None):
        self.function = function  # NumPy's
        self.traced = traced  # that for traced values
        self.args = list(args)
        self.args[place] = None
        self.kwargs = kwargs
        self.place = place
        self.part = part

    def look(self, base: Any) -> Any:
        return self._of(self.traced, base)

    def put(self, base: Any, value: Any) -> Any:
        places = self._of(self.function, self._numbers(base))
        if not places.flags.writeable:
            raise ValueError("assignment destination is read-only")
        return placed(base, places, value)

    def shares(self, base: Any) -> bool:
        if _are_traced((*self.args, *self.kwargs.values())):  # of no view an option is
            return False
        numbers = self._numbers(base)
        return np.shares_memory(self._of(self.function, numbers), numbers)

    def lies(self, layout: np.ndarray) -> np.ndarray:
        return self._of(self.function, layout)

    def _of(self, function: Callable[..., Any], base: Any) -> Any:
        args = [base if i == self.place else a for i, a in enumerate(self.args)]
        found = function(*args, **self.kwargs)
        return found if self.part is None else found[self.part]

    def _numbers(self, base: Any) -> np.ndarray:
        aval = aval_of(base)
        return np.arange(aval.size).reshape(aval.shape)


class Reshaped(Selection):
    """`reshape` and `ravel`: a view if the memory order allows it."""

    __slots__ = ()

    def _numbers(self, base: Any) -> np.ndarray:
        """As they would lie in the base's memory, for order="K" and "A"."""
        numbers, layout = super()._numbers(base), strides.layout_of(base)
        if layout is None or numbers.ndim < 2:
            return numbers
        axes = memory_axes([layout])
        return np.ascontiguousarray(numbers.transpose(axes)).transpose(np.argsort(axes))

    def shares(self, base: Any) -> bool:
        if not shape_of(base):
            return True
        layout = strides.layout_of(base)
        if layout is None:
            own = base.box is None or base.box.base is None  # and no piece of something larger
            if len(shape_of(base)) < 2 and (own or self.function is not np.ravel):
                return True
            source, name = user_source(), self.function.__name__
            raise WriteError(
                f"a write into {said(base)}, or into its {name}{f' at {source}' if source is not None else ''}: whether "
                f"NumPy gives a view or a copy there depends on the memory order, which is not known here.\n"
                f"Remedy: x.{name}(...).copy(), or x.copy() before both."
            )
        if self.function is np.ravel:
            return bool(self._turned(layout).flags.c_contiguous)
        shape = self._of(np.reshape, np.empty(layout.shape, bool)).shape
        turned = self._turned(layout)
        return view_of_reshape(turned, shape if turned is layout else shape[::-1]) is not None

    def lies(self, layout: np.ndarray) -> np.ndarray:
        turned = self._turned(layout)
        if self.function is np.ravel:
            return of_reshape(turned, shape=(layout.size,))
        shape = self._of(np.reshape, np.empty(layout.shape, bool)).shape
        if turned is layout:
            return of_reshape(layout, shape=shape)
        return of_reshape(turned, shape=shape[::-1]).T

    def _turned(self, layout: np.ndarray) -> np.ndarray:
        """With its axes in the order in which they are read."""
        place = 1 if self.function is np.ravel else 2
        order = str(self.kwargs.get("order") or (self.args[place] if len(self.args) > place else "C")).upper()
        if order == "K":
            return layout.transpose(memory_axes([layout]))
        fortran = order == "F" or order == "A" and layout.flags.f_contiguous and not layout.flags.c_contiguous
        return layout.T if fortran else layout


def viewing(function: Any, implementation: Callable[..., Any], alias: str) -> Callable[..., Any]:
    """The implementation of a function of NumPy's whose traced results may be views of an argument."""
    step = Reshaped if function in (np.reshape, np.ravel) else Selection
    several = bool(_own_code(implementation).co_flags & _VARARGS)  # has it *args?

    def one(found: Any, args: Sequence[Any], kwargs: dict[str, Any], part: int | None) -> Any:
        if type(found) is not Tracer:
            return found
        own, places, base = False, [], found.box and found.box.base
        for i, a in enumerate(args):
            if type(a) is Tracer:
                places.append(i)
                own = own or found is a
        p = found.primal
        if not (p.ndim if type(p) is np.ndarray else found.shape) and _is_number(args, kwargs, places, part):
            found = snapshot(found)
            found.box = None
            return found
        while base is not None and not own:
            if any([base is args[i] for i in places]):
                return found  # a view that was found by the values (trim_zeros), or by steps
            base = base.box and base.box.base
        if own and alias == "same":
            return found
        if len(places) != 1:
            return snapshot(found) if own else found
        return linked(found, args[places[0]], step(function, implementation, args, kwargs, places[0], part))

    def _is_number(args: Sequence[Any], kwargs: dict[str, Any], places: list[int], part: int | None) -> bool:
        """Is a result of rank 0 a number, as NumPy has it? Of numbers some functions give numbers, others arrays."""
        if getattr(implementation, "of_numbers", False):
            return True
        if len(places) != 1 or args[places[0]].shape or is_array(args[places[0]]):
            return False
        aval = aval_of(args[places[0]])
        sample = aval.dtype.type(1)
        given = [(sample.item() if aval.weak else sample) if i == places[0] else a for i, a in enumerate(args)]
        like = function(*given, **kwargs)
        return type(like[part or 0] if type(like) is tuple or type(like) is list else like) is not np.ndarray

    def view(*args: Any, **kwargs: Any) -> Any:
        found = implementation(*args, **kwargs)
        kind = type(found)
        if kind is not list and kind is not tuple:
            found = one(found, args, kwargs, None)
            if kwargs.get("copy") is False and (layout := strides.layout_of(args[0])) is not None:
                function(layout, *args[1:], **kwargs)  # NumPy's error where it copies
            return fresh(found) if kwargs.get("copy") else found
        if several and len(found) == len(args):
            return kind([one(x, (a,), kwargs, None) for x, a in zip(found, args)])
        return kind([one(x, args, kwargs, i) for i, x in enumerate(found)])

    return named_as(view, implementation)


def placed(base: Any, places: np.ndarray, value: Any) -> Any:
    """The base's value with those of its elements replaced that are at these places, numbered in C's order."""
    shape = shape_of(base)
    if places.size == 0:
        return base
    if places.size == aval_of(base).size and np.array_equal(places.ravel(), np.arange(places.size)):
        return reshape(value, shape=shape)
    found = _lattice(places, shape)
    if found is None:
        flat = reshape(base, shape=(aval_of(base).size,))
        return reshape(at(flat)[places.ravel()].set(reshape(value, shape=(places.size,))), shape=shape)
    index, order = found
    value = reshape(value, shape=tuple([n for n in places.shape if n > 1]))
    return at(base)[index].set(transpose(value, perm=order))


def _lattice(places: np.ndarray, shape: tuple[int, ...]) -> tuple[tuple, tuple] | None:
    """`(index, order)` such that base[index] are the elements at these places, their axes of more than one element in order."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    start = list(np.unravel_index(int(places.flat[0]), shape))
    index: list[Any] = [int(i) for i in start]
    axes = []
    squeezed = places.squeeze()
    for axis, n in enumerate(squeezed.shape):
        second = squeezed[tuple([1 if i == axis else 0 for i in range(squeezed.ndim)])]
        distance = int(second) - int(places.flat[0])
        for own in sorted(range(len(shape)), key=lambda i: -strides[i]):
            hop, rest = divmod(distance, strides[own])
            last = int(start[own]) + hop * (n - 1)
            if rest == 0 and hop and type(index[own]) is int and 0 <= last < shape[own]:
                stop = last + (1 if hop > 0 else -1)
                index[own] = slice(int(start[own]), None if stop < 0 else stop, hop)
                axes.append(own)
                break
        else:
            return None
    order = tuple([axes.index(own) for own in sorted(axes)])
    numbers = np.arange(step).reshape(shape)
    if not np.array_equal(numbers[tuple(index)], squeezed.transpose(order)):
        return None
    return tuple(index), order

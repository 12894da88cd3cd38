"""Views that functions give: where the elements of a view lie in its base, found by NumPy itself.

Idea: a function that only selects or reorders elements is run by NumPy on the numbers of the base's elements; what comes out
are their places. Places that are a lattice of the base (transposes, flips, pieces) are written by a basic index, all others
(diagonals, reshapes of pieces) one by one. Trap: `reshape` and `ravel` give a view only if the base's memory order allows it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.errors import WriteError
from funcad.host.layout import memory_axes, of_reshape, view_of_reshape
from funcad.host.where import user_source
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, snapshot
from funcad.numpy.indexing import at
from funcad.primitives.shape import reshape, transpose
from funcad.unjitted.strides import layout_of
from funcad.writes.boxes import ViewStep, is_array, linked

__all__ = ["Reshaped", "Selection", "viewing"]


class Selection(ViewStep):
    """What `function(*args, **kwargs)` of NumPy's gives with the base at one place of args; `part` if it gives several."""

    __slots__ = ("function", "traced", "args", "kwargs", "place", "part")

    def __init__(self, function: Any, traced: Any, args: Sequence[Any], kwargs: dict[str, Any], place: int, part: int | None):
        self.function = function  # NumPy's
        self.traced = traced  # that for traced values
        self.args = [None if i == place else a for i, a in enumerate(args)]
        self.kwargs = kwargs
        self.place = place
        self.part = part

    def look(self, base: Any) -> Any:
        return self._of(self.traced, base)

    def put(self, base: Any, value: Any) -> Any:
        places = self._of(self.function, self._numbers(base))
        if not places.flags.writeable:
            raise ValueError("assignment destination is read-only")
        return _placed(base, places, value)

    def shares(self, base: Any) -> bool:
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
        numbers, layout = super()._numbers(base), layout_of(base)
        if layout is None or numbers.ndim < 2:
            return numbers
        axes = memory_axes([layout])
        return np.ascontiguousarray(numbers.transpose(axes)).transpose(np.argsort(axes))

    def shares(self, base: Any) -> bool:
        if not shape_of(base):
            return True
        layout = layout_of(base)
        if layout is None:
            own = base.box is None or base.box.base is None  # and no piece of something larger
            if len(shape_of(base)) < 2 and (own or self.function is not np.ravel):
                return True
            source, name = user_source(), self.function.__name__
            raise WriteError(
                f"a write into {aval_of(base)}, or into its {name}{f' at {source}' if source is not None else ''}: whether "
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
    several = any([p.kind is p.VAR_POSITIONAL for p in inspect.signature(implementation).parameters.values()])

    def one(found: Any, args: Sequence[Any], kwargs: dict[str, Any], part: int | None) -> Any:
        places = [i for i, a in enumerate(args) if type(a) is Tracer]
        if type(found) is not Tracer:
            return found
        p = found.primal
        if not (p.ndim if type(p) is np.ndarray else found.shape) and _is_number(args, kwargs, places, part):
            found = snapshot(found)
            found.box = None
            return found
        own = any([found is args[i] for i in places])
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

    @functools.wraps(implementation)
    def view(*args: Any, **kwargs: Any) -> Any:
        found = implementation(*args, **kwargs)
        kind = type(found)
        if kind is not list and kind is not tuple:
            return one(found, args, kwargs, None)
        if several and len(found) == len(args):
            return kind([one(x, (a,), kwargs, None) for x, a in zip(found, args)])
        return kind([one(x, args, kwargs, i) for i, x in enumerate(found)])

    return view


def _placed(base: Any, places: np.ndarray, value: Any) -> Any:
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

"""Buffers: arrays that a traced function made and writes, before anything traced is in them.

Idea: such an array is a handle of the trace `PLAIN`, below all others: an operation on plain handles alone is computed, and
gives a plain handle, or a number; beside a traced value it counts as its array. A traced value that is written makes it a
value of the other trace. Invariants: it belongs to no function, so it outlives traces; nobody else has the array behind a
handle that is its `own`. Trap: what was filled with one number is recorded as that, not captured as an array.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, config
from funcad.host.conversions import needs_buffers
from funcad.host.devices import compute
from funcad.host.real_types import KINDS, dtype_kind
from funcad.host.where import state, tracing
from funcad.ir.aval import aval_of
from funcad.ir.trace import Trace, abstract_trace_of
from funcad.ir.tracer import Tracer, snapshot
from funcad.primitives.shape import broadcast_in_dim
from funcad.unjitted.linearizing import FOLLOWING
from funcad.writes.boxes import Box, refresh

strides = OnDemand("funcad.unjitted.strides")
tree = OnDemand("funcad.tree")


class _PlainTrace(Trace):
    """Where operations on plain handles alone are computed."""

    __slots__ = ()
    doubtful: Any = ()  # how they lie in memory is known
    linear = False

    def __init__(self) -> None:
        self.level = 0
        self.name = "NumPy"
        self.closed = False

    def value(self, x: Tracer) -> Any:
        """The array as an operand that may be kept."""
        self.settle(x)
        return x.primal

    def again(self, x: Tracer) -> Tracer:
        return lent(x.primal)

    def settle(self, x: Tracer) -> None:
        if x.box is not None:
            x.box.own, x.box.fill = False, None

    def record(
        self, primitive: Any, args: Sequence[Any], params: dict, shape: tuple | None = None, known: tuple | None = None
    ) -> Any:
        values = [a.primal if type(a) is Tracer else a for a in args]
        out = compute(primitive, values, params) if known is None else known[0]
        if primitive.multiple:
            return [self._wrapped(o, values, args, primitive) for o in out]
        return self._wrapped(out, values, args, primitive)

    def _wrapped(self, out: Any, operands: Sequence[Any], args: Sequence[Any], primitive: Any) -> Any:
        if type(out) is not np.ndarray:
            return out
        if out.base is not None or any([v is out for v in operands]):  # else it is in memory of its own
            if any([type(v) is np.ndarray and np.may_share_memory(out, v) for v in operands]):
                out = out.copy(order="K")
        elif state.running is None:  # of what a run has left somewhere
            return out
        result = buffer(out)
        if type(result) is Tracer:
            boxed = [a for a in args if type(a) is Tracer and a.box is not None]
            odd = [a.box.doubtful or strides.made_like(a.primal) is not None for a in boxed]
            result.box.doubtful = primitive.layout is None or any(odd)
        return result


PLAIN = _PlainTrace()
_PLACES = frozenset([int, np.int64])
_BOUNDS = _PLACES | {type(None)}
_KNOWN = frozenset([int, float, np.int64, np.float64, np.ndarray])


def lent(array: Any) -> Any:
    """An array that others have too as a handle that can be written with traced values: it is copied at its first write."""
    if type(array) is Tracer:
        return snapshot(array)
    if type(array) is not np.ndarray or dtype_kind(array.dtype) not in KINDS:
        return array
    x = Tracer(PLAIN, None, array)
    x.box = Box()
    x.box.body = 0 if state.abstract is None else state.abstract.level
    x.box.made = 0 if state.running is None else state.running.level
    return x


tracing.lend = lent


def lent_to(f: Any, args: list, kwargs: dict[str, Any]) -> tuple[list, dict[str, Any]]:
    """The arguments along which a function is not differentiated: its writes into them are its own, if it writes."""
    if not config.doors or not needs_buffers(f):
        return args, kwargs
    leaves, structure = tree.flatten((args, kwargs))
    trace = state.running
    if type(trace) in FOLLOWING:  # they may share memory with those along which it is differentiated
        trace.arguments = [*trace.arguments, *leaves]
    found = structure.unflatten([lent(x) for x in leaves])
    twins = sys.modules.get("funcad.twin.templates")  # whoever has found its source
    for i, (given, is_read) in enumerate(zip(args, twins.arguments_only_read(f) if twins is not None else ())):
        if is_read:
            found[0][i] = given
    return found[0], found[1]


def buffer(array: np.ndarray, fill: Any = None) -> Any:
    """A new array as a handle that can be written with traced values; `fill`: the number that it is full of."""
    x = lent(array)
    if type(x) is Tracer:
        x.box.own, x.box.fill = array.flags.writeable, fill
    return x


def read_known(x: Tracer, index: Any) -> Any:
    """The elements of a plain handle at integers or at an array of them, in memory of their own; None of other indices."""
    kind = type(index)
    if kind is int or kind is np.int64 or kind is tuple and _PLACES.issuperset(map(type, index)):
        found = x.primal[index]
        return None if type(found) is np.ndarray else found
    return x.primal[index] if kind is np.ndarray and index.dtype.kind in "iub" and index.ndim else None


def written_known(x: Tracer, index: Any, value: Any) -> bool:
    """`x[index] = value` of a known value into an array that was written before, if nothing but NumPy need know of it."""
    box, trace = x.box, state.running
    if box is None or not box.own or box.first is None or box.base is not None or box.views or state.abstract is not None:
        return False
    if trace is not None and trace.level != int(box.made):  # the traces between are told
        return False
    if not _is_known(index):
        return False
    box.fill = None
    x.primal[index] = value
    return True


def _is_known(index: Any) -> bool:
    """Integers, slices and arrays of integers or bools, without a traced value."""
    kind = type(index)
    if kind is tuple:
        return _PLACES.issuperset(map(type, index)) or all(map(_is_known, index))
    if kind is slice:
        return _BOUNDS.issuperset((type(index.start), type(index.stop), type(index.step)))
    return kind is int or kind is np.int64 or kind is np.ndarray and index.dtype.kind in "iub"


class PlainAdded:
    """Stands for a plain handle in `x[index] += value` and the like."""

    __slots__ = ("x",)

    def __init__(self, x: Any):
        self.x = x

    def __getitem__(self, index: Any) -> Any:
        found = read_known(self.x, index)
        return self.x[index] if found is None else _Part(found) if type(found) is np.ndarray else found

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(value) not in _KNOWN or not written_known(self.x, index, value):
            self.x[index] = value


class _Part:
    """Elements that were read: known values change them as NumPy does, of traced ones they are an array to be written."""

    __slots__ = ("old",)

    def __init__(self, old: np.ndarray):
        self.old = old


def _changed(operation: Callable[[Any, Any], Any]) -> Callable[[_Part, Any], Any]:
    return lambda part, value: operation(part.old if type(value) in _KNOWN else buffer(part.old), value)


_IN_PLACE = "iadd iand ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor".split()
for _name in _IN_PLACE:
    setattr(_Part, f"__{_name}__", _changed(getattr(operator, _name)))


def write_plain(x: Tracer, index: Any, value: Any, view: Tracer | None) -> bool:
    """`x[index] = value` of a plain handle that is no view and a value that is not traced, by NumPy itself."""
    value = value.primal if type(value) is Tracer and value.owner is PLAIN else value
    if _traced(value) or _traced(index):
        return False
    box = x.box
    if box is None:
        box = x.box = Box()
    if not box.own:
        x.primal, box.own = x.primal.copy(order="K"), True
    box.fill = None
    x.primal[index] = value
    refresh(x, view)
    return True


def _traced(x: Any) -> bool:
    return type(x) is Tracer or hasattr(x, "closed_up") or type(x) in (list, tuple) and any(map(_traced, x))


def started(x: Tracer, values: Sequence[Any]) -> Any:
    """The value of a plain handle that traced `values` are about to be written into: in a program, what made it."""
    fill = x.box.fill if x.box is not None else None
    trace = abstract_trace_of([v for v in values if type(v) is Tracer])
    known = x.primal.flags.c_contiguous and strides.made_like(x.primal) is None  # as the program's own would lie in memory
    if fill is None or trace is None or trace.closed or not known:
        return PLAIN.value(x)
    aval = aval_of(x)
    return trace.record(broadcast_in_dim, (aval.dtype.type(fill),), {"shape": aval.shape, "axes": ()})

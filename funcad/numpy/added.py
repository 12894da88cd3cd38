"""`x[index] += value`, where x holds its buffer and a tape is written: one row says that the value was added there.

Idea: NumPy reads, adds and writes, which would be three rows, each with a cotangent of its own; but what is added to elements
leaves the array's cotangent as it is. So a twin hands over `Added` in the place of x: what it reads is `_Old`, whose sum is
written at once. Whatever is not seen at a glance goes the way that it would have gone. `np.add.at` of what is held is the same
row, also where a place comes more than once.

Invariant: the old elements are those of the time when they were read, also if what computes the value writes x meanwhile.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from funcad.host.devices import compute
from funcad.host.where import open_traces, state
from funcad.ir.tracer import Tracer, tangent_of
from funcad.numpy.indexing import canonical_basic
from funcad.primitives.arithmetic import add
from funcad.primitives.basic_indexing import basic_index_p, gather_p
from funcad.unjitted.element_rows import ADD, ADD_PLACES, WRITE, WRITE_PLACES
from funcad.unjitted.linearizing import FOLLOWING
from funcad.writes.boxes import check_write
from funcad.writes.held import Held, hold, in_place, is_held_outside, places_of, write_tangent

_getframe = sys._getframe
_ARRAYS = frozenset([np.ndarray, Tracer])
_FLOATS = {np.dtype(np.float64): (float, np.float64), np.dtype(np.float32): (np.float32,)}


class Added:
    """Stands for x in `x[index] += value`."""

    __slots__ = ("x",)

    def __init__(self, x: Tracer):
        self.x = x

    def __getitem__(self, index: Any) -> Any:
        x = self.x
        p: Any = x.primal
        if not _is_ours(x) or x.owner.trace.tape is None or p.dtype not in _FLOATS:
            return x[index]
        where = canonical_basic(p.shape, index)
        if where is None:
            where = places_of(p.shape, index)
            return x[index] if where is None else _Old(x, index, where, ADD_PLACES, p[where])
        for e in where:
            if type(e) is not int:  # a view, which would see what is written meanwhile
                return x[index]
        return _Old(x, index, where, ADD, p[where])

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(value) is not _Old:
            self.x[index] = value


class _Old:
    """Elements that were read, to which something is about to be added."""

    __slots__ = ("x", "index", "where", "pull", "old", "row")

    def __init__(self, x: Tracer, index: Any, where: tuple, pull: Any, old: Any):
        self.x, self.index, self.where, self.pull, self.old = x, index, where, pull, old
        self.row: Any = x.tangent

    def __iadd__(self, value: Any) -> Any:
        x, old, u, n = self.x, self.old, value, None
        if type(x.tangent) is not int or x.tangent != self.row:
            return operator.iadd(self._read(), value)
        tape = x.owner.trace.tape if _is_ours(x) else None
        if type(value) is Tracer:
            if tape is None or value.owner is not x.owner.trace:
                return operator.iadd(x[self.index], value)
            u, n = value.primal, value.tangent
        p: Any = x.primal
        nested = type(p) is Tracer
        if type(old) is np.ndarray or nested:
            like = type(u) in _ARRAYS and u.dtype == p.dtype and u.shape == old.shape
            like = like and (nested or type(u) is np.ndarray)
        else:
            like = type(u) in _FLOATS[p.dtype]
        if tape is None or not like:
            return operator.iadd(x[self.index], value)
        if not nested:
            p[self.where] = compute(add, (old, u), {})
        elif not in_place(p, self.where, self.where, add(old, u), WRITE if self.pull is ADD else WRITE_PLACES):
            return operator.iadd(x[self.index], value)
        _row(x, tape, self.pull, self.where, n, value, tape.source_at(_getframe(1)))
        return self

    def _read(self) -> Any:
        """What was read of x, which has been written since."""
        trace = self.x.owner.trace if self.x.owner.holds else self.x.owner
        before = Tracer(trace, None, self.x.primal, self.row)
        if self.pull is ADD:
            return trace.record(basic_index_p, (before,), {"index": self.where}, None, (self.old,))
        return trace.record(gather_p, (before, *self.where), {"batch_dims": 0, "unique": True}, None, (self.old,))


def _is_ours(x: Tracer) -> bool:
    """Does x hold its buffer, outside of other traces, and has it no views, which would have to be told?"""
    held, box = x.owner, x.box
    if type(held) is not Held or open_traces or state.checked:
        return False
    if type(x.primal) is not np.ndarray and not is_held_outside(x.primal):
        return False
    return state.running is held.trace and (box is None or box.base is None and not box.views)


def _row(x: Tracer, tape: Any, pull: Any, where: tuple, n: Any, value: Any, source: Any) -> None:
    p = x.primal
    if tape.notes is not None:
        tape.notes["looked"] = True
    numbers = (x.tangent,) if n is None else (x.tangent, n)
    made = tape.row(pull, numbers, (where, p.shape, p.dtype), (add, (x, value), {}, None, None), p, True, source)
    x.tangent, x.source = made.tangent, made.source


def add_at(x: Tracer, index: Any, value: Any, within: bool = False) -> bool:
    """`np.add.at(x, index, value)` in place, if nothing has to be broadcast or cast; False where that cannot be.

    `within`: x is what an array of an inner trace holds, and nobody else has it.
    """
    trace, p, u, n = x.owner, x.primal, value, None
    trace = trace.trace if trace.holds else trace
    nested = is_held_outside(p)
    if type(trace) not in FOLLOWING or not nested and type(p) is not np.ndarray or p.dtype not in _FLOATS:
        return False
    if type(value) is Tracer:
        if value.owner is not trace:
            return False
        u, n = value.primal, value.tangent
    where = places_of(p.shape, index, False)
    if where is None or type(u) is not np.ndarray and not (nested and type(u) is Tracer) or u.dtype != p.dtype:
        return False
    if u.shape != (*where[0].shape, *p.shape[len(where) :]) or trace.tape is None and (trace.linear or nested):
        return False
    if not within:
        check_write(x)
    if not x.owner.holds:
        hold(x)
    if not within and not _is_ours(x) or not x.owner.holds or open_traces or state.checked:
        return False
    if nested:
        if not add_at(x.primal, where, u, True):
            return False
        trace.tape.outer = True
    elif trace.tape is not None or write_tangent(x, where, tangent_of(value) if n is not None else None, True):
        np.add.at(x.primal, where, u)
    else:
        return False
    if trace.tape is not None:
        _row(x, trace.tape, ADD_PLACES, where, n, value, trace.tape.source_at(_getframe(2)))
    return True

"""Un-jitted writes in place: an array that has been written holds a buffer that nobody else has.

Idea: recorders keep what they read, so a write would change it. Instead of copying at every write, the array copies at its
first one; from then on it belongs to a `Held` trace in front of its own, where every operation on it arrives: what reads a part
of it gets a copy of that part, and what keeps the whole of it ends the holding, so that the next write copies again. Writes
themselves copy nothing. Invariant: the buffer, and in forward mode the buffer of its tangent, are in no row, residual or view.
Trap: what keeps the handle itself would see later writes, so `snapshot` ends the holding too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.devices import compute
from funcad.host.real_types import is_a
from funcad.host.where import open_traces, state
from funcad.ir.trace import Trace, bind
from funcad.ir.tracer import Tracer
from funcad.primitives.basic_indexing import basic_update_p, python_index, scatter_p
from funcad.unjitted.element_rows import WRITE, WRITE_PLACES
from funcad.unjitted.following import FollowingTrace
from funcad.unjitted.linearizing import FOLLOWING
from funcad.unjitted.tape import linear

_getframe = sys._getframe


class Held(Trace):
    """Where operations on arrays that hold their buffers arrive, before they are recorded in the arrays' own trace."""

    __slots__ = ("trace",)
    holds = True

    def __init__(self, trace: FollowingTrace):
        self.trace = trace
        self.level = trace.level + 0.5  # before the trace itself, where both are among the operands
        self.name = trace.name

    @property
    def closed(self) -> bool:  # type: ignore[override]
        return self.trace.closed

    def settle(self, x: Tracer) -> None:
        x.owner = self.trace

    @property
    def settled(self) -> Any:  # type: ignore[override]
        return self.trace.settled

    def write(self, x: Tracer, index: Any, basic: tuple, value: Any, pull: Any = WRITE) -> bool:
        """`x[index] = value`, of the elements' shape and dtype, by a row of the tape; False where that cannot be."""
        tape, t, u = self.trace.tape, None, value
        if type(value) is Tracer:
            if value.owner is not self.trace:
                return False
            t, u = value.tangent, value.primal
        p = x.primal
        if tape is None or open_traces or state.running is not self.trace or type(p) is not np.ndarray:
            return False
        if x.box is not None and x.box.base is not None or type(u) is Tracer:
            return False
        numbers = (x.tangent,) if t is None else (x.tangent, t)
        if tape.notes is not None:
            tape.notes["looked"] = True
        operation = basic_update_p if pull is WRITE else scatter_p, (x, value), {"index": basic}, None, None
        made = tape.row(pull, numbers, (basic, p.shape, p.dtype), operation, p, True, tape.source_at(_getframe(3)))
        x.source = made.source
        p[index] = u
        x.tangent = made.tangent
        return True

    def record(
        self, primitive: Any, args: Sequence[Any], params: dict, shape: tuple | None = None, known: tuple | None = None
    ) -> Any:
        trace = self.trace
        traced = [a for a in args if type(a) is Tracer]
        held = [a for a in traced if type(a.owner) is Held]
        apart = any([a.owner is not self and a.owner is not trace or type(a.primal) is Tracer for a in traced])
        for x in held:
            x.owner = trace if type(x.owner) is Held else x.owner  # it may be there twice
        if apart or len(held) != 1 or not linear(primitive) or primitive.multiple or known is not None or open_traces:
            return bind(primitive, *args, **params) if shape is None else trace.record(primitive, args, params, shape, known)
        (x,) = held
        try:
            out = compute(primitive, [a.primal if type(a) is Tracer else a for a in args], params)
            if type(out) is np.ndarray and np.may_share_memory(out, x.primal):
                out = out.copy(order="K")
            result = trace.record(primitive, args, params, shape, (out,))
            if not trace.linear and type(result) is Tracer:
                _part(result, x)
            return result
        finally:
            x.owner = self


def _part(result: Tracer, x: Tracer) -> None:
    """In forward mode: a tangent of its own, where it is a view of x's."""
    t = result.tangent
    if type(t) is np.ndarray and type(x.tangent) is np.ndarray and np.may_share_memory(t, x.tangent):
        result.tangent = t.copy(order="K")


def write_in_place(x: Tracer, index: tuple, value: Any) -> bool:
    """`x[index] = value` of a value that fits, at a canonical basic index, if x has an array behind it that may be written."""
    trace: Any = x.owner
    first = type(trace) is not Held
    if not first:
        trace = trace.trace
    if not first and x.owner.write(x, python_index(index), index, value):
        return True
    p, u = x.primal, value
    if type(trace) not in FOLLOWING or trace.closed or open_traces or type(p) is not np.ndarray or not p.ndim:
        return False
    if type(u) is Tracer:
        if type(u.owner) is Held:
            u.owner.settle(u)
        if u.owner is not trace:
            return False
        u = u.primal
    if type(u) is Tracer:
        return False
    places = python_index(index)
    t = value.tangent if type(value) is Tracer else None
    if not first and type(x.tangent) is np.ndarray and (t is None or type(t) is np.ndarray or is_a(t, np.generic)):
        p[places] = u
        x.tangent[places] = 0 if t is None else t
        return True
    x.owner = trace
    if trace.held is None:
        trace.held = Held(trace)
    if first:
        x.primal = p = np.array(p, order="K")
        if trace.held.write(x, places, index, value):
            x.owner = trace.held
            return True
    out = trace.record(basic_update_p, (x, value), {"index": index}, None, (p,))
    p[places] = u
    x.tangent, x.source, x.owner = out.tangent, out.source, trace.held
    return True


def write_at_places(x: Tracer, index: Any, value: Any) -> bool:
    """`x[index] = value` at arrays of integers that name each place once, by a row that goes back over these places alone."""
    trace: Any = x.owner
    first = type(trace) is not Held
    p: Any = x.primal
    tape = (trace if first else trace.trace).tape
    places = None if tape is None or open_traces or type(p) is not np.ndarray else _different_places(p.shape, index)
    if places is None:
        return False
    shape = (*places[0].shape, *p.shape[len(places) :])
    given = value.primal if type(value) is Tracer else value
    if type(given) is not np.ndarray or given.dtype is not p.dtype or given.shape != shape:
        return False
    if not first:
        return bool(trace.write(x, places, places, value, WRITE_PLACES))
    if trace.held is None:
        trace.held = Held(trace)
    x.primal = np.array(p, order="K")
    if trace.held.write(x, places, places, value, WRITE_PLACES):
        x.owner = trace.held
        return True
    x.primal = p
    return False


def _different_places(shape: tuple[int, ...], index: Any) -> tuple[np.ndarray, ...] | None:
    """The arrays of integers, as they are broadcast, by which leading axes are addressed; None if a place comes twice."""
    index = index if type(index) is tuple else (index,)
    if len(index) > len(shape) or any([type(e) is not np.ndarray or e.dtype.kind not in "iu" or not e.size for e in index]):
        return None
    if any([e.min() < -n or e.max() >= n for e, n in zip(index, shape)]):
        return None
    found = np.broadcast_arrays(*[e % n for e, n in zip(index, shape)])  # of our own: the user's may change
    flat = np.ravel_multi_index(found, shape[: len(found)]).ravel()
    return tuple(found) if len(found[0].shape) and len(set(flat.tolist())) == flat.size else None

"""Un-jitted writes in place: an array that has been written holds a buffer that nobody else has.

Idea: recorders keep what they read, so a write would change it. Instead of copying at every write, the array copies at its
first one; from then on it belongs to a `Held` trace in front of its own, where every operation on it arrives: what reads a part
of it gets a copy of that part, and what keeps the whole of it ends the holding, so that the next write copies again. Writes
themselves copy nothing. A primal may be held in an outer trace, and belongs to nobody else then. Invariant: the buffer, and
in forward mode those of its tangent and of that one's mask, are in no row, residual or view. Trap: what keeps the handle itself
would see later writes, so `snapshot` ends the holding too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.devices import compute
from funcad.host.real_types import is_a
from funcad.host.where import open_traces, state, user_source
from funcad.ir.trace import Trace, bind
from funcad.ir.tracer import Tracer, concrete_value, snapshot, tangent_of
from funcad.masks.masks import LazyBools
from funcad.primitives.basic_indexing import basic_index_p, basic_update_p, gather_p, python_index, scatter_p
from funcad.primitives.shape import slice_p
from funcad.unjitted.element_rows import READ, WRITE, WRITE_PLACES
from funcad.unjitted.following import FollowingTrace
from funcad.unjitted.linearizing import FOLLOWING
from funcad.unjitted.tape import linear

masks, masked_rules = OnDemand("funcad.masks.masks"), OnDemand("funcad.masks.masked_rules")
_getframe = sys._getframe
_ARRAYS = frozenset([np.ndarray, Tracer])
_INTEGERS = frozenset([int, np.int64])
_FEW = 256  # places, which a set tells apart soonest


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
        p: Any = x.primal
        if type(p) is Tracer and p.owner.settle is not None:  # held in an outer trace
            p.owner.settle(p)

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
        nested = type(p) is Tracer
        if tape is None or open_traces or state.running is not self.trace or not nested and type(p) is not np.ndarray:
            return False
        if x.box is not None and x.box.base is not None or type(u) is Tracer and not nested:
            return False
        if nested and not in_place(p, index if pull is WRITE_PLACES else python_index(basic), basic, u, pull):
            return False
        tape.outer = tape.outer or nested
        numbers = (x.tangent,) if t is None else (x.tangent, t)
        if tape.notes is not None:
            tape.notes["looked"] = True
        operation = basic_update_p if pull is WRITE else scatter_p, (x, value), {"index": basic}, None, None
        made = tape.row(pull, numbers, (basic, p.shape, p.dtype), operation, p, True, tape.source_at(_getframe(3)))
        x.source = made.source
        if not nested:
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
        if primitive is basic_index_p and held == traced and type(held[0].primal) is Tracer and not open_traces:
            return self._read_outer(held[0], params["index"])
        for x in held:
            if type(x.owner) is Held:  # it may be there twice
                x.owner.settle(x)
        if apart or len(held) != 1 or not linear(primitive) or primitive.multiple or known is not None or open_traces:
            return bind(primitive, *args, **params) if shape is None else trace.record(primitive, args, params, shape, known)
        (x,) = held
        try:
            primals = [a.primal if type(a) is Tracer else a for a in args]
            out = _apart(compute(primitive, primals, params), x.primal)
            if primitive in _READS and not trace.linear and not trace.turned:
                return self._read(x, out, lambda a: _apart(compute(primitive, [a, *primals[1:]], params), a))
            result = trace.record(primitive, args, params, shape, (out,))
            if not trace.linear and type(result) is Tracer:
                _part(result, x)
            return result
        finally:
            x.owner = self

    def _read_outer(self, x: Tracer, index: tuple) -> Any:
        """Elements of what is held in an outer trace, where they are read."""
        p: Any = x.primal
        tape, out = self.trace.tape, basic_index_p(p, index=index)
        if tape is None:
            self.settle(x)
            return basic_index_p(x, index=index)
        operation = basic_index_p, (x,), {"index": index}, None, None
        return tape.row(READ, (x.tangent,), (index, p.shape, p.dtype), operation, out, True, user_source(4))

    def _read(self, x: Tracer, out: Any, part: Callable[[Any], Any]) -> Any:
        """In forward mode: what was read of x, with the same part of its tangent and of the tangent's mask."""
        t, mask = _values(x.tangent)
        t = part(t)
        if mask is not None:
            bools = part(mask.bools.get(x.primal.shape))
            if not bools.all():
                t = masks.Masked(t, masks.Mask(masks.LazyBools(lambda: bools), not out.shape, mask.dirty))
        return self.trace.result(out, t, user_source(4))


_READS = frozenset([basic_index_p, slice_p, gather_p])


def _apart(out: Any, x: np.ndarray) -> Any:
    """A result in memory of its own."""
    return out.copy(order="K") if type(out) is np.ndarray and np.may_share_memory(out, x) else out


def _values(tangent: Any) -> tuple[Any, Any]:
    """A tangent and its mask, if it has one."""
    return (tangent.value, tangent.mask) if type(tangent) is masks.Masked else (tangent, None)


def _part(result: Tracer, x: Tracer) -> None:
    """In forward mode: a tangent and a mask of its own, where they are of x's, or would be made of x's later."""
    (t, mask), (own, bools) = _values(tangent_of(result)), _values(x.tangent)
    if type(t) is not np.ndarray or type(own) is not np.ndarray:
        return
    t = _apart(t, own)
    if mask is not None and bools is not None:
        now = np.array(mask.bools.get())
        mask = masks.Mask(masks.LazyBools(lambda: now), mask.whole, mask.dirty)
    result.tangent = t if mask is None else masks.Masked(t, mask)


class _Buffer(LazyBools):
    """The bools of a mask in a buffer that nobody else has."""

    __slots__ = ()


def write_tangent(x: Tracer, places: Any, written: Any, added: bool = False) -> bool:
    """The tangent of what is written goes into the buffer of x's, and where paths lead to it into the buffer of the mask.

    `added`: of what is added to the elements at these places, which may come more than once.
    """
    (t, mask), (u, own) = _values(x.tangent), _values(written)
    there = True if own is None else own.bools.get()
    if type(t) is not np.ndarray or not (u is None or type(u) is np.ndarray or is_a(u, np.generic)) or type(there) is Tracer:
        return False
    if added and u is None:
        return True
    if mask is None and not added and (u is None or own is not None):
        mask = masks.Mask(_Buffer(partial(np.ones, t.shape, bool)), False, 0)
    elif mask is not None and type(mask.bools) is not _Buffer:
        t, bools = masked_rules.cleaned(x.tangent), mask.bools.get(t.shape)
        if type(t) is not np.ndarray or type(bools) is not np.ndarray:
            return False
        mask = masks.Mask(_Buffer(partial(np.array, bools)), False, 0)
    if added:
        np.add.at(t, places, masked_rules.cleaned(written))
    else:
        t[places] = 0 if u is None else masked_rules.cleaned(written)
    if mask is not None:
        if added:
            np.logical_or.at(mask.bools.get(), places, there)
        else:
            mask.bools.get()[places] = u is not None and there
        x.owner.trace.masked = True
        x.tangent = masks.Masked(t, mask)
    return True


def write_in_place(x: Tracer, index: tuple, value: Any) -> bool:
    """`x[index] = value` of a value that fits, at a canonical basic index, if x has an array behind it that may be written."""
    return in_place(x, python_index(index), index, value, WRITE)


def in_place(x: Tracer, places: Any, index: tuple, value: Any, pull: Any) -> bool:
    trace: Any = x.owner
    first = type(trace) is not Held
    if not first:
        trace = trace.trace
    if not first and x.owner.write(x, places, index, value, pull):
        return True
    p, u = x.primal, value
    if type(trace) not in FOLLOWING or trace.closed or open_traces:
        return False
    if type(p) is Tracer and p.shape and first and is_held_outside(p) and trace.tape is not None:
        x.primal, trace.held = p.owner.again(snapshot(p)), trace.held or Held(trace)
        if trace.held.write(x, places, index, value, pull):
            x.owner = trace.held
            return True
        x.primal = p
    if type(p) is not np.ndarray or not p.ndim:
        return False
    if type(u) is Tracer:
        if type(u.owner) is Held:
            u.owner.settle(u)
        if u.owner is not trace:
            return False
        u = u.primal
    if type(u) is Tracer:
        return False
    if not first and not trace.linear and write_tangent(x, places, tangent_of(value) if type(value) is Tracer else None):
        p[places] = u
        return True
    x.owner = trace
    if trace.held is None:
        trace.held = Held(trace)
    if first:
        x.primal = p = np.array(p, order="K")
        if trace.held.write(x, places, index, value, pull):
            x.owner = trace.held
            return True
    if pull is WRITE:
        out = trace.record(basic_update_p, (x, value), {"index": index}, None, (p,))
    else:
        params = {"mode": "set", "batch_dims": 0, "unique": True}
        out = trace.record(scatter_p, (x, value, *places), params, None, (p,))
    p[places] = u
    x.tangent, x.source, x.owner = out.tangent, out.source, trace.held
    return True


def hold(x: Tracer) -> None:
    """From now on x has a buffer of its own, and its tangent too, if it can be written."""
    trace, p = x.owner, x.primal
    if type(p) is Tracer:  # the primal is held in its own trace, when it is written
        x.primal = p.owner.again(snapshot(p))
    else:
        if trace.tape is None:
            t, mask = _values(tangent_of(x))
            if type(t) is not np.ndarray:
                return
            t = t.copy(order="K")
            x.tangent = t if mask is None else masks.Masked(t, mask)
        x.primal = np.array(p, order="K")
    trace.held = trace.held or Held(trace)
    x.owner = trace.held


def is_held_outside(p: Any) -> bool:
    """Can an array of an outer trace, the primal of another, hold its buffer?"""
    return type(p) is Tracer and (type(p.owner) in FOLLOWING or p.owner.holds) and type(p.primal) is np.ndarray


def write_at_places(x: Tracer, index: Any, value: Any) -> bool:
    """`x[index] = value` at arrays of integers that name each place once, in place as `write_in_place` writes."""
    p: Any = x.primal
    given = value.primal if type(value) is Tracer else value
    if type(p) is not np.ndarray and not is_held_outside(p) or type(given) not in _ARRAYS or given.dtype != p.dtype:
        return False
    places = places_of(p.shape, index)
    if places is None or given.shape != (*places[0].shape, *p.shape[len(places) :]):
        return False
    return in_place(x, places, places, value, WRITE_PLACES)


def places_of(shape: tuple[int, ...], index: Any, once: bool = True) -> tuple[np.ndarray, ...] | None:
    """Arrays of integers, of our own and of one shape, by which leading axes are addressed; None if a place comes twice."""
    given = index if type(index) is tuple else (index,)
    index = [np.array(e) if type(e) is list and {*map(type, e)} <= _INTEGERS else e for e in map(concrete_value, given)]
    if len(index) > len(shape) or any([type(e) is not np.ndarray or e.dtype.kind not in "iu" or not e.size for e in index]):
        return None
    dims = shape[: len(index)]
    try:
        flat = np.ravel_multi_index(index, dims)
    except (ValueError, TypeError):
        if any([e.min() < -n or e.max() >= n for e, n in zip(index, dims)]):
            return None
        flat = np.ravel_multi_index(np.broadcast_arrays(*[(e % n).astype(np.int64) for e, n in zip(index, dims)]), dims)
    if type(flat) is not np.ndarray:
        return None
    places = np.unravel_index(flat, dims)
    if once and flat.size <= _FEW:
        return places if len(set(flat.ravel().tolist())) == flat.size else None
    if once:
        order = np.arange(flat.size).reshape(flat.shape)
        last = np.empty(shape[: len(index)], np.int64)  # which is the last that stands at a place? Nobody reads the others
        last[places] = order
        return places if (last[places] == order).all() else None
    return places

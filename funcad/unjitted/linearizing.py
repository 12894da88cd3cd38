"""Un-jitted reverse mode: operations run at the user's line, and what their derivatives need is kept.

Idea: `linearize_following` runs the function once, and each operation writes a row (tape.py), over which `backward.pull` goes
back. Within a program that is being traced (by jit, a loop) and on devices rules run at once, as in forward mode, on tangents
that are recorded: a tangent program, which is transposed later, or becomes a part of the program that is traced. Within an
un-jitted vmap rows are written as outside, of the values that vmap has.

Invariant: both make the same calls of rules, in the same order. Trap: an array that the user can still write is protected
before it becomes a residual (see host/locks.py).
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.devices import NAMESPACES, on_device
from funcad.host.locks import Locks
from funcad.host.progress import collector
from funcad.host.real_types import ordinary
from funcad.host.where import noted, open_traces, state, user_source
from funcad.ir.aval import Aval, aval_of
from funcad.ir.trace import AbstractTrace, Trace, bind, plain_values
from funcad.ir.tracer import Tracer, concrete_value, leaked
from funcad.primitives.shape import broadcast_to
from funcad.unjitted.backward import linear_of, linear_program
from funcad.unjitted.following import FollowingTrace, run_following
from funcad.unjitted.outside import Protector
from funcad.unjitted.tape import Tape, within_lanes

partial_eval = OnDemand("funcad.transforms.partial")

_FLOATS, _ndarray = (float, np.float64), np.ndarray


class LinearizingTrace(FollowingTrace):
    """Reverse mode: writes rows, or runs rules whose tangents it records."""

    __slots__ = ()
    linear = True

    def open_recording(self) -> Any:
        """The trace of the tangent program, made when something is to be recorded there."""
        if self.recording is None:
            self.recording = partial_eval.TangentTrace(self.name, protect=self.protector)
        return self.recording

    def record(
        self,
        primitive: Any,
        args: Sequence[Any],
        params: dict[str, Any],
        shape: tuple | None = None,
        known: tuple | None = None,
    ) -> Any:
        if self.closed:
            raise leaked(next(a for a in args if type(a) is Tracer and a.owner is self))
        tape, protector = self.tape, self.protector
        if tape is not None and open_traces and not (state.abstract is tape.around and within_lanes()):
            self.give_up(tape)
            tape = None
        saved, protector.args = protector.args, args
        try:
            if tape is not None:
                return tape.record(primitive, args, params, shape, known)
            if shape is not None and known is None and self.is_nested(args):
                return bind(primitive, *[broadcast_to(a, shape) for a in args], **params)
            learned = self.learned
            if learned is not None and known is None:
                return learned.record(self, primitive, args, params, shape)
            return self.by_rule(primitive, args, params, shape, known)
        finally:
            protector.args = saved

    def give_up(self, tape: Tape) -> None:
        """Within a program that is being traced, rules run at once, on tangents; those of the rows are recorded now."""
        self.tape, self.short, self.made = None, None, tape.made
        if tape.lanes is not None:
            tape.lanes.short = tape.lanes.tape = None  # where operations on lanes look for it
        recording = self.open_recording()
        recording.level = tape.level
        self.settled = linear_program(tape, recording)[0]
        tape.forget()

    again = Trace.again

    def _maker(self, x: Tracer) -> Any:
        if type(x.tangent) is not int or self.closed:
            return super()._maker(x)
        if self.tape is None:
            return self.made.get(x.tangent)
        if self.tape.notes is not None:
            self.tape.notes["looked"] = True
        return self.tape.made.get(x.tangent)


FOLLOWING = FollowingTrace, LinearizingTrace  # the traces of derivatives that run beside the user's code


def linearize_following(
    f: Any,
    primals: Sequence[Any],
    differentiated: Sequence[bool],
    name: str,
    box: dict[str, Any],
    rows: bool = False,
) -> tuple[list[Any], list[bool], Any, list[Any], Locks]:
    """Run f once and record its tangent program: (outputs, out_nonzero, linear jaxpr, residuals, locks).

    If f puts "n" into `box`, only its first n outputs are differentiated; the others are auxiliary, of any type. `rows`: what
    comes in place of the linear jaxpr may be a `Tape`, without residuals.
    """
    for x in primals:
        kind = type(x)
        if kind in _FLOATS or kind is _ndarray and x.dtype.isbuiltin == 1 or kind is Tracer and x.owner.level:
            continue
        primals = ordinary(plain_values(primals) if Tracer in map(type, primals) else primals)
        break
    trace = LinearizingTrace(name)
    source = user_source(3)  # a thread may begin with a derivative: no fourth frame is there
    tangents: list[Any] = []
    tape = around = None
    protector: Any
    devices = NAMESPACES or "cupy" in sys.modules  # this is `device_in_use`, without a call
    on_devices = devices and (open_traces or on_device(list(map(concrete_value, primals))))
    if not on_devices and (not open_traces or within_lanes()):
        protector = tape = trace.protector = trace.short = trace.tape = Tape(trace, primals, differentiated)
        # operators of lanes look there for short ways
        if tape.lanes is not None:
            around, tape.lanes.tape, tape.lanes.short = tape.lanes.tape, tape, tape
        n = 0
        for d in differentiated:
            tangents.append(n if d else None)
            n += d
    else:
        protector = trace.protector = Protector(primals)
        recording = trace.open_recording()
        if type(state.abstract) is AbstractTrace:
            trace.learned = import_module("funcad.unjitted.learned").Learned(state.abstract)
        for p, d in zip(primals, differentiated):
            tangents.append(recording.new_input(_tangent_aval(p), source) if d else None)
    try:
        outs, touts = run_following(trace, f, primals, tangents, source)
        protector.args = outs
        del touts[box.get("n", len(touts)) :]
        if tape is not None and trace.tape is tape:
            nonzero = [True] * len(touts)
            noted.rows += len(tape.pulls)
            tape.ends = touts
            if None in touts:
                nonzero = [t is not None for t in touts]
                tape.ends = [t for t in touts if t is not None]
            if rows:
                return outs, nonzero, tape, [], protector.locks
            return outs, nonzero, *linear_of(tape), protector.locks
        recording = trace.open_recording()
        touts = [trace.settled[t] if type(t) is int and trace.settled is not None else t for t in touts]
        nonzero = [t is not None for t in touts]
        jaxpr, residuals = recording.jaxpr([t for t in touts if t is not None])
    except BaseException:
        if tape is not None:
            tape.forget()
        protector.locks.release()  # at once: whoever keeps the exception keeps this frame
        raise
    finally:
        if trace.recording is not None:
            trace.recording.closed = True
        trace.tape = trace.short = trace.protector = trace.settled = None
        if tape is not None and tape.depth is not None:
            collector.ends(get_ident(), tape.depth)
        if tape is not None and tape.lanes is not None:
            tape.lanes.short = tape.lanes.tape = around
    return outs, nonzero, jaxpr, residuals, protector.locks


def _tangent_aval(primal: Any) -> Any:
    aval = aval_of(primal)
    return Aval(aval.shape, aval.dtype)

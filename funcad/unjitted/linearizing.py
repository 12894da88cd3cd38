"""Un-jitted reverse mode: operations run at the user's line, and what their derivatives need is kept.

Idea: `linearize_following` runs the function once, and each operation writes a row (tape.py), over which `backward.pull` goes
back. Within a program that is being traced (by jit, vmap, a loop) and on devices rules run at once, as in forward mode, on
tangents that are recorded: a tangent program, which is transposed later, or becomes a part of the program that is traced.

Invariant: both make the same calls of rules, in the same order. Trap: an array that the user can still write is protected
before it becomes a residual (see host/locks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.devices import device_in_use, on_device
from funcad.host.locks import SMALL, Locks, root_of, was_handed
from funcad.host.real_types import ordinary
from funcad.host.where import Source, noted, open_traces, state, user_source
from funcad.ir.aval import Aval, aval_of
from funcad.ir.trace import bind, plain_values
from funcad.ir.tracer import Tracer, concrete_value, leaked
from funcad.primitives.shape import broadcast_to
from funcad.transforms.partial import TangentTrace
from funcad.unjitted.backward import linear_of, linear_program
from funcad.unjitted.following import FollowingTrace, run_following, with_value
from funcad.unjitted.tape import Tape

NO_LOCKS = Locks()  # of derivatives that need none


class Protector:
    """Keeps residuals safe from in-place writes by the user: copies the small ones, locks the others."""

    __slots__ = ("primals", "roots", "args", "locks", "kept")

    def __init__(self, primals: Sequence[Any]):
        self.primals = primals
        self.roots: set[int] | None = None  # of the arrays behind them, which `kept` keeps alive
        self.args: Sequence[Any] = ()
        self.locks = NO_LOCKS

    def is_users(self, x: np.ndarray) -> bool:
        root = x if x.base is None else root_of(x)
        if self.roots is None:
            known = [concrete_value(p) if type(p) is Tracer else p for p in self.primals]
            self.kept = [a if a.base is None else root_of(a) for a in known if type(a) is np.ndarray]
            self.roots = set(map(id, self.kept))
        if id(root) in self.roots:
            return True
        for a in self.args:
            if type(a) is np.ndarray and (a is root or root_of(a) is root):
                return True
        return False

    def __call__(self, x: Any) -> Any:
        array = concrete_value(x)
        if type(array) is not np.ndarray or not self.is_users(array) or array.size == 0:
            return x
        compact = array[tuple([slice(None) if s else slice(1) for s in array.strides])]
        if compact.nbytes <= SMALL or was_handed(array):
            whole = compact.size == array.size
            return with_value(x, array.copy("K") if whole else np.broadcast_to(compact.copy(), array.shape))
        if self.locks is NO_LOCKS:
            self.locks = Locks()
        source = state.source or user_source()
        return x if self.locks.lock(array, Source(*source) if source is not None else None) else with_value(x, array.copy("K"))


def also_users(tangents: Sequence[Any], values: Sequence[Any]) -> None:
    """Within a rule on these tangents: the user may write into the values too, which came from the user's code, not from ours.

    Until the operation ends, what a derivative keeps of them is protected as its operands are.
    """
    for t in tangents:
        protector = t.owner.protect if type(t) is Tracer and type(t.owner) is TangentTrace else None
        if type(protector) is Protector:
            protector.args = [*protector.args, *values]
            return


class LinearizingTrace(FollowingTrace):
    """Reverse mode: writes rows, or runs rules whose tangents it records."""

    __slots__ = ("protector", "tape", "recording", "settled", "made")
    linear = True

    def __init__(self, name: str, protector: Protector):
        super().__init__(name)
        self.protector = protector
        self.tape: Tape | None = None
        self.recording: TangentTrace | None = None  # where tangents are recorded
        self.settled: Any = None  # if the tape has been given up: the tangents by the numbers of its rows
        self.made: dict[int, Any] = {}  # and what made values whose square may be known

    def open_recording(self) -> TangentTrace:
        """The trace of the tangent program, made when something is to be recorded there."""
        if self.recording is None:
            self.recording = TangentTrace(self.name, protect=self.protector)
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
        if tape is not None and open_traces:
            self.give_up(tape)
            tape = None
        saved, protector.args = protector.args, args
        try:
            if tape is not None:
                return tape.record(primitive, args, params, shape, known)
            if shape is not None and known is None and self.is_nested(args):
                return bind(primitive, *[broadcast_to(a, shape) for a in args], **params)
            return self.by_rule(primitive, args, params, shape, known)
        finally:
            protector.args = saved

    def give_up(self, tape: Tape) -> None:
        """Within a program that is being traced, rules run at once, on tangents; those of the rows are recorded now."""
        self.tape, self.made = None, tape.made
        recording = self.open_recording()
        recording.level = tape.level
        self.settled = linear_program(tape, recording)[0]
        tape.forget()

    def again(self, x: Tracer) -> Tracer:
        return Tracer(self, None, x.primal, x.tangent, x.source)

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
    primals = ordinary(plain_values(primals) if Tracer in map(type, primals) else primals)
    protector = Protector(primals)
    trace = LinearizingTrace(name, protector)
    source = user_source(4)
    tangents: list[Any] = []
    tape = None
    if not open_traces and not (device_in_use() and on_device(list(map(concrete_value, primals)))):
        tape = trace.tape = Tape(trace, protector, primals, differentiated)
        n = 0
        for d in differentiated:
            tangents.append(n if d else None)
            n += d
    else:
        recording = trace.recording = TangentTrace(name, protect=protector)
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
        trace.tape = trace.settled = None
    return outs, nonzero, jaxpr, residuals, protector.locks


def _tangent_aval(primal: Any) -> Any:
    aval = aval_of(primal)
    return Aval(aval.shape, aval.dtype)

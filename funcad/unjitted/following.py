"""Following: outside jit and vmap, the interpreter of jvp keeps pace with the recording.

Idea: an operation on a tracer of a `FollowingTrace` is not written down for later; `jvp_step` runs at once, at the user's
line, inside the user's `try` and `np.errstate`, on the buffers' contents of that moment. A tracer holds its primal (an array
or an outer tracer) and its tangent. What has no tangent (comparisons, integers, `stop_gradient`) is handed back as the
primal itself: no longer traced, so `if`, masks and `float` simply work on it.

Invariants: every primitive runs exactly once; an intermediate dies with the last tracer or residual that holds it. Traps: an
output that *is* one of its operands is returned as a read-only view, or writing into it would change a residual; an array
that the user can still write is protected before it becomes a residual (see host/locks.py).
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.errors import TracerArrayConversionError
from funcad.host.compute import compute
from funcad.host.devices import NAMESPACES, namespace_of, on_device, resident
from funcad.host.layout import ordinary
from funcad.host.locks import SMALL, Locks, handed, read_only, root_of, was_handed
from funcad.host.needs import given, starts_again
from funcad.host.state import state, tracing
from funcad.host.user_warnings import restore_warnings, suppress_warnings
from funcad.host.where import Source, user_source
from funcad.ir.aval import Aval, aval_of, shape_of
from funcad.ir.trace import Trace, bind, leaked, next_level, open_traces, plain_values
from funcad.ir.tracer import Tracer, concrete_value, snapshot, tangent_of
from funcad.masks.masked_rules import Masked, cleaned, masked_rule, owned, rule_of
from funcad.masks.masks import Mask, mask_of
from funcad.primitives.comparison import and_, select_p
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import broadcast_to
from funcad.primitives.squares import keeps_operands
from funcad.transforms.jvp import jvp_step
from funcad.transforms.partial import TangentTrace
from funcad.unjitted.apart import apart
from funcad.unjitted.nested import can_lift, with_value
from funcad.unjitted.tape import Tape
from funcad.unjitted.tape_ends import bind_known, find, flush, linear_of
from funcad.unjitted.tape_plans import has_rows
from funcad.unjitted.tape_program import maker_of

__all__ = ["FollowingTrace", "also_users", "follow", "linearize_following"]


_NOTHING: frozenset = frozenset()
NO_LOCKS = Locks()  # of derivatives that need none


class _Protector:
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
            return with_value(x, array.copy() if compact.size == array.size else np.broadcast_to(compact.copy(), array.shape))
        if self.locks is NO_LOCKS:
            self.locks = Locks()
        source = state.source or user_source()
        return x if self.locks.lock(array, Source(*source) if source is not None else None) else with_value(x, array.copy())


def also_users(tangents: Sequence[Any], values: Sequence[Any]) -> None:
    """Within a rule on these tangents: the user may write into the values too, which came from the user's code, not from ours.

    Until the operation ends, what a derivative keeps of them is protected as its operands are.
    """
    for t in tangents:
        protector = t.owner.protect if type(t) is Tracer and type(t.owner) is TangentTrace else None
        if type(protector) is _Protector:
            protector.args = [*protector.args, *values]
            return


class FollowingTrace(Trace):
    """Runs `jvp_step` as operations are recorded."""

    made: dict[int, Any]
    __slots__ = (
        *("linear", "protector", "moved", "tape", "recording", "doubtful", "turned", "masked", "arguments", "held"),
        *("settled", "made"),
    )

    def __init__(self, name: str, linear: bool, protector: _Protector | None = None):
        self.level = next_level()
        self.name = name
        self.closed = False
        self.linear = linear
        self.protector = protector
        self.moved: dict[int, tuple[Any, Any]] = {}
        self.tape: Tape | None = None
        self.settled: Any = None  # when the rules of the tape's rows have run: the tangents, and what made values in `made`
        self.turned = self.foreign = False
        self.masked = False  # has a tangent a mask? With `linear` none has
        self.recording: TangentTrace | None = None  # where the tangents of `linear` are recorded
        self.held: Any = None  # see held.py
        self.arguments: Sequence[Any] = ()  # the values that the function was called with
        self.doubtful: Any = _NOTHING  # ids of tracers whose strides may not be NumPy's, or their tangents with `linear`

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
        """`shape` is given for an elementwise operation whose operands have other shapes: NumPy broadcasts the primals
        itself, and equations broadcast only the tangents. `known`: `(out,)`, if the result has been computed."""
        if self.closed:
            raise leaked(next(a for a in args if type(a) is Tracer and a.owner is self))
        ready: Any = known
        saved = source = state.source
        tape, alone = self.tape, None
        if tape is not None:
            taken: Any = None
            if has_rows(primitive) and not open_traces:
                taken = tape.record(primitive, args, params, shape, known)
                if type(taken) is Tracer or type(taken) is list:
                    return taken
                ready = taken or known
            if taken is not None and len(taken) == 2:  # it gives no tangent for such operands: the tape goes on
                return given(taken[0]) if state.source is None else taken[0]
            if taken is not None or not primitive.passive:
                source = source or user_source()
                alone = apart(tape, args, source)
                if alone is None:
                    self._give_up(tape)
        primals, tangents = [], []
        nested = bool(open_traces)
        if primitive.turns:
            self.turned = True
        for a in args:
            if type(a) is Tracer and a.owner is self:
                t = tangent_of(a) if alone is None else alone.tangent(a)
                a = a.primal
            else:
                t = None
            nested = nested or type(a) is Tracer
            primals.append(a)
            tangents.append(t)
        if NAMESPACES or "cupy" in sys.modules:  # `device_in_use`, without a call for each operation
            primals = self._move_captured(args, primals)
        if shape is not None and nested and ready is None and any([type(p) is Tracer for p in primals]):
            return bind(primitive, *[broadcast_to(a, shape) for a in args], **params)
        if nested and state.abstract is not None:
            primals = capture_as_inputs(primals, primals)
        protector = self.protector
        source = source or user_source()
        if saved is None:
            state.source = source
        if protector is not None:
            saved_args, protector.args = protector.args, args
        try:
            if ready is not None and primitive.multiple:
                outs = bind_known(primitive, primals, params, shape, ready[0])
                token = suppress_warnings()
                try:
                    touts = (rule_of if self.linear else masked_rule)(primitive, primals, tangents, outs, params)
                finally:
                    restore_warnings(token)
                self.masked = self.masked or any([type(t) is Masked for t in touts])
            elif primitive.multiple or primitive.jvp is None:
                outs, touts = jvp_step(primitive, primals, tangents, params, self.linear)
                self.masked = self.masked or any([type(t) is Masked for t in touts])
            else:  # the same step without its lists
                if ready is not None:
                    (out,) = ready
                    if nested:
                        out = bind_known(primitive, primals, params, shape, out)
                else:
                    out = bind(primitive, *primals, **params) if nested else compute(primitive, primals, params)
                token = suppress_warnings()
                try:
                    if not self.linear and (self.masked or not primitive.calm):
                        tangent = masked_rule(primitive, primals, tangents, out, params, shape)
                        self.masked = self.masked or type(tangent) is Masked
                    elif shape is None:
                        tangent = primitive.jvp(tangents, out, *primals, **params)
                    else:
                        tangent = rule_of(primitive, primals, tangents, out, params, shape)
                finally:
                    restore_warnings(token)
                if tangent is not None and alone is None:
                    if self.turned and primitive.square is not None and keeps_operands(primitive, args, params):
                        tangent = [tangent, (primitive, list(map(snapshot, args)), params, 0, shape)]
                    result = Tracer(self, None, out, tangent, source)
                    if (self.doubtful or primitive.layout is None) and not self.linear:
                        return self._note_layout(primitive, args, result)
                    return result
                outs, touts = [out], [tangent]
            traced = None
            if alone is not None:
                traced = alone.written(primitive, args, primals, params, shape, outs, touts, source)
                if traced is None:
                    self._give_up(alone.tape)
                    touts = alone.flushed(touts, [self.settled[n] for n in alone.rows])
        finally:
            if saved is None:
                state.source = None
            if protector is not None:
                protector.args = saved_args
        results: list[Any] = []
        asked = primitive.square is not None and primitive.multiple
        for i, (p, t) in enumerate(zip(outs, touts)):
            if traced is not None and t is not None:
                results.append(traced[i])
            elif t is not None:
                if asked and keeps_operands(primitive, args, params, i):
                    t = [t, (primitive, list(map(snapshot, args)), params, i, None)]
                results.append(Tracer(self, None, p, t, source))
            else:
                if type(p) is np.ndarray:
                    own = not any([p is q for q in primals])
                    p = given(p, own) if saved is None else handed(p) if own else read_only(p)
                results.append(p)
        if (self.doubtful or primitive.layout is None) and not self.linear:
            for result in results:
                self._note_layout(primitive, args, result)
        return results if primitive.multiple else results[0]

    def _give_up(self, tape: Tape) -> None:
        """Rules from now on."""
        self.tape = None
        flush(tape, self.open_recording())

    def _note_layout(self, primitive: Any, args: Sequence[Any], result: Any) -> Any:
        """The result; in forward mode: may its strides be others than NumPy's would be? (see strides.py)"""
        doubtful = self.doubtful
        if len(shape_of(result)) > 1 and (primitive.layout is None or any([id(a) in doubtful for a in args])):
            self._doubt(result)
        elif doubtful:
            doubtful.discard(id(result))  # it may be the id of a tracer that is gone
        return result

    def behind(self, x: Tracer, mask: Mask) -> Tracer:
        """x, a cotangent that is zero where no path leads to it: what its tangent has there is zero for the same reason."""
        t = tangent_of(x)
        value, own = (t.value, t.mask) if type(t) is Masked else (t, None)
        if not mask.bools.fixed:  # until it is asked for, the user may write into what it would be made of
            mask = mask_of(owned(mask.bools.get()), mask.whole)
        both = mask.with_dirt(0) if own is None else own.combined(and_, mask, shape_of(x), False)
        self.masked = True
        return self._note_layout(select_p, [x], Tracer(self, None, x.primal, Masked(value, both), x.source))

    def result(self, value: Any, tangent: Any, source: Any) -> Tracer:
        """In forward mode: the traced result of work that was done elsewhere."""
        traced = Tracer(self, None, value, tangent, source)
        self.masked = self.masked or type(tangent) is Masked
        if len(shape_of(value)) > 1:
            self._doubt(traced)
        return traced

    def again(self, x: Tracer) -> Tracer:
        made = Tracer(self, None, x.primal, x.tangent, x.source)
        if self.tape is not None and self.tape.traced is not None:
            self.tape.traced.append(made)
        if self.doubtful and not self.linear:
            (self.doubtful.add if id(x) in self.doubtful else self.doubtful.discard)(id(made))
        return made

    def _doubt(self, result: Any) -> None:
        if self.doubtful is _NOTHING:
            self.doubtful = set()
        self.doubtful.add(id(result))

    def made_by(self, x: Tracer, look: bool = False) -> tuple[Any, Sequence[Any], dict[str, Any], int] | None:
        tangent, made = x.tangent, None
        if self.closed:
            return None
        if type(tangent) is list:
            made = tangent[1]
        elif type(tangent) is int and self.linear:
            if self.tape is not None and self.tape.notes is not None:
                self.tape.notes["looked"] = True
            made = self.made.get(tangent) if self.settled is not None else maker_of(self.tape, tangent)
        if made is None or look:
            return made
        primitive, operands, params, i, shape = made
        return primitive, operands if shape is None else [broadcast_to(a, shape) for a in operands], params, i

    def _move_captured(self, args: Sequence[Any], primals: list[Any]) -> list[Any]:
        """Captured NumPy arrays that meet a device array are moved to it, once per trace."""
        xp = namespace_of([concrete_value(p) for p in primals])
        if xp is np:
            return primals
        result = []
        for a, p in zip(args, primals):
            if type(a) is np.ndarray:
                if id(a) not in self.moved:
                    self.moved[id(a)] = (a, resident(xp, a))
                p = self.moved[id(a)][1]
            result.append(p)
        return result


def _inputs(trace: FollowingTrace, primals: Sequence[Any], tangents: Sequence[Any], source: Any) -> list[Any]:
    inputs = []
    for p, t in zip(primals, tangents):
        p = snapshot(p) if type(p) is Tracer else p
        inputs.append(p if t is None else Tracer(trace, None, p, t, source))
    return inputs


def _run(trace: FollowingTrace, f: Any, primals: Sequence[Any], tangents: Sequence[Any], source: Any) -> tuple[list, list]:
    inputs = _inputs(trace, primals, tangents, source)
    tape = trace.tape
    if tape is not None and tape.traced is not None:
        tape.traced += [x for x, t in zip(inputs, tangents) if t is not None]
    lifted = [tape.lifted.get(place) for place in tape.places[: tape.first]] if tape is not None and tape.lifted else ()
    outer = trace.outer = state.running
    trace.function, trace.arguments, trace.foreign, trace.lends, trace.missed = f, primals, False, None, None
    try:
        state.running = trace
        if outer is None:
            tracing.threads[get_ident()] = {}
            if not tracing.ready:
                tracing.prepare()
        while True:
            try:
                outs = f(*inputs)
                if trace.missed is None:
                    break
                raise trace.missed
            except (TracerArrayConversionError, ValueError) as error:
                if not starts_again(trace, error):
                    raise
            if lifted and trace.tape is None:  # by rules now: the tape knew what is behind these values
                above = [None if t is None else lifted[t] for t in tangents]
                primals, lifted = [p if x is None else with_value(x, p) for p, x in zip(primals, above)], ()
            inputs = _inputs(trace, primals, tangents, source)
        del inputs
        if trace.held is not None:
            outs = list(map(snapshot, outs))
        if tape is not None and tape.lifted:
            tape.outs = [o if type(o) is Tracer and o.owner is trace else None for o in outs]
        values, touts = [], []
        for o in outs:
            t = None
            if type(o) is Tracer:
                if o.owner is trace:
                    o, t = o.primal, tangent_of(o)
                    if type(t) is not np.ndarray:
                        t = cleaned(t)
                elif not o.owner.level:
                    (o,) = plain_values([o])
                elif o.owner.closed:
                    raise leaked(o)
            values.append(o)
            touts.append(t)
        return values, touts
    finally:
        if outer is None:
            tracing.threads.pop(get_ident(), None)
        state.running = outer
        trace.closed = True
        trace.function = trace.outer = trace.held = None
        trace.arguments, trace.doubtful = (), _NOTHING


def follow(f: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Run `f(*values) -> list` on pairs of primals and tangents (None: zero)."""
    if Tracer in map(type, primals):
        primals, tangents = plain_values(primals), plain_values(tangents)
    return _run(FollowingTrace("jvp", linear=False), f, ordinary(primals), ordinary(tangents), user_source())


def linearize_following(
    f: Any,
    primals: Sequence[Any],
    differentiated: Sequence[bool],
    name: str,
    box: dict[str, Any],
    kind: str | Callable[[Sequence[Any]], str] = "linear",
) -> tuple[list[Any], list[bool], Any, list[Any], Locks]:
    """Run f once and record its tangent program: (outputs, out_nonzero, linear jaxpr, residuals, locks).

    If f puts "n" into `box`, only its first n outputs are differentiated; the others are auxiliary, of any type. `kind`, or
    `kind(outputs)`, is what is wanted: "linear", or in place of the linear jaxpr a `Tape` that has found a program of the
    backward pass ("tape"), or of the "columns" of a Jacobian.
    """
    primals = ordinary(plain_values(primals) if Tracer in map(type, primals) else primals)
    protector = _Protector(primals)
    trace = FollowingTrace(name, linear=True, protector=protector)
    source = user_source(4)
    tangents: list[Any] = []
    tape = None
    outer = Tracer in map(type, primals)
    if not (open_traces or on_device(primals)) and (not outer or all(map(can_lift, primals))):
        tape = trace.tape = Tape(trace, protector, primals, differentiated)
        primals = list(map(concrete_value, primals)) if outer else primals
        n = 0
        for d in differentiated:
            tangents.append(n if d else None)
            n += d
    else:
        recording = trace.recording = TangentTrace(name, protect=protector)
        for p, d in zip(primals, differentiated):
            tangents.append(recording.new_input(_tangent_aval(p), source) if d else None)
    try:
        outs, touts = _run(trace, f, primals, tangents, source)
        protector.args = outs
        del touts[box.get("n", len(touts)) :]
        if tape is not None and trace.tape is tape:
            how = kind if type(kind) is str else kind(outs[: box.get("n", len(outs))])  # type: ignore[operator]
            if find(tape, [t for t in touts if t is not None], how):
                if how == "linear":
                    return outs, [t is not None for t in touts], *linear_of(tape), protector.locks
                return outs, [t is not None for t in touts], tape, [], protector.locks
            returned = tape.outs
            flush(tape, trace.open_recording())
            outs = [x.primal if type(x) is Tracer else o for x, o in zip(returned, outs)] or outs
        recording = trace.open_recording()
        touts = [trace.settled[t] if type(t) is int and trace.settled is not None else t for t in touts]
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
    return outs, [t is not None for t in touts], jaxpr, residuals, protector.locks


def _tangent_aval(primal: Any) -> Any:
    aval = aval_of(primal)
    return Aval(aval.shape, aval.dtype)

"""Following: outside jit and vmap, the interpreter of jvp keeps pace with the recording.

Idea: an operation on a tracer of a `FollowingTrace` is not written down for later; its jvp rule runs at once, at the user's
line, inside the user's `try` and `np.errstate`, on the buffers' contents of that moment. A tracer holds its primal (an array
or an outer tracer) and its tangent. What has no tangent (comparisons, integers, `stop_gradient`) is handed back as the
primal itself: no longer traced, so `if`, masks and `float` simply work on it. This is forward mode, whose common operations
have short ways (pushes.py); reverse mode writes down what its derivative needs in the same way (linearizing.py).

Invariants: every primitive runs exactly once; an intermediate dies with the last tracer or residual that holds it. Trap: an
output that *is* one of its operands is returned as a read-only view, or writing into it would change a residual.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.conversions import given, is_told, starts_again
from funcad.host.devices import NAMESPACES, compute, namespace_of, resident, restore_warnings, suppress_warnings
from funcad.host.locks import handed, read_only
from funcad.host.where import open_traces, state, tracing, user_source
from funcad.ir.aval import aval_of, is_inexact, shape_of
from funcad.ir.trace import Trace, bind, next_level, plain_values
from funcad.ir.tracer import Tracer, concrete_value, leaked, snapshot, tangent_of
from funcad.primitives.comparison import and_, select
from funcad.primitives.families import keeps_operands
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import broadcast_to, moves_within, rule_of

masks = OnDemand("funcad.masks.masks")
masked_rules = OnDemand("funcad.masks.masked_rules")
jvp = OnDemand("funcad.transforms.jvp")
_NOTHING: frozenset = frozenset()
_new: Any = object.__new__


def bind_known(primitive: Any, args: Sequence[Any], params: dict, shape: Any, out: Any) -> Any:
    """The result of an operation that has been computed (the results, if it has several), traced if an argument is."""
    top: Any = None
    for a in args:
        if type(a) is Tracer and (top is None or a.owner.level > top.level):
            top = a.owner
    return out if top is None else top.record(primitive, args, params, shape, (out,))


def with_value(x: Any, value: Any) -> Any:
    """The value; for a traced x (not an abstract one) the same tracer with this value behind it."""
    if type(x) is not Tracer:
        return value
    if x.owner.settle is not None:
        x.owner.settle(x)
    trace = x.owner
    result = trace.again(x)
    result.primal = with_value(x.primal, value)
    if trace.doubtful and not trace.linear:
        trace.doubtful.discard(id(result))  # it lies in memory as the value does
    return result


def whole_as_float(x: Any) -> Any:
    """A Python integer that is a float, too, as one; everything else as it is."""
    return float(x) if type(x) is int and -(2**53) <= x <= 2**53 else x


def plain_result(x: Any, operands: Sequence[Any]) -> Any:
    """A result that has no tangent, as the user's code gets it."""
    if type(x) is not np.ndarray:
        return x
    own = not any([x is p for p in operands])
    return given(x, own) if state.source is None else handed(x) if own else read_only(x)


class FollowingTrace(Trace):
    """Forward mode: runs rules as operations are recorded."""

    __slots__ = (
        *("moved", "turned", "masked", "arguments", "held", "doubtful"),
        *("protector", "tape", "short", "recording", "settled", "made", "learned"),  # see linearizing.py and pushes.py
    )
    linear = False  # are the tangents being recorded?

    def __init__(self, name: str):
        self.level = next_level()
        self.name = name
        self.closed = False
        self.moved: dict[int, tuple[Any, Any]] = {}
        self.turned = self.writes_outside = False
        self.masked = False  # has a tangent a mask? With `linear` none has
        self.held: Any = None  # see held.py
        self.arguments: Sequence[Any] = ()  # the values that the function was called with
        self.doubtful: Any = _NOTHING  # ids of tracers whose strides may not be NumPy's, or their tangents with `linear`
        self.protector: Any = None  # keeps residuals safe: the tape, if there is one
        self.tape: Any = None
        self.short: Any = None
        self.recording: Any = None  # where tangents are recorded
        self.settled: Any = None  # if the tape has been given up: the tangents by the numbers of its rows
        self.made: Any = None  # and what made values whose square may be known
        self.learned: Any = None  # what rules have recorded, within a program that is being traced (learned.py)

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
        if shape is not None and known is None and self.is_nested(args):
            return bind(primitive, *[broadcast_to(a, shape) for a in args], **params)
        if known is None and self.short is not None:
            result = self.short.operation(primitive, args, params, shape is not None)
            if result is not None:
                return result
        results = self.by_rule(primitive, args, params, shape, known)
        if self.doubtful or primitive.layout is None:
            for result in results if primitive.multiple else (results,):
                self._note_layout(primitive, args, result)
        return results

    def is_nested(self, args: Sequence[Any]) -> bool:
        """Do outer traces trace some of the primals?"""
        return any([type(a.primal if type(a) is Tracer and a.owner is self else a) is Tracer for a in args])

    def by_rule(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], shape: tuple | None, known: tuple | None,
        alone: Any = None,
    ) -> Any:  # fmt: skip
        """What `record` gives, by the rule, which runs now; `alone`: on tangents of its own (`ByRule`)."""
        primals, tangents = [], []
        nested = bool(open_traces)
        for a in args:
            t = None
            if type(a) is Tracer and a.owner is self:
                t = tangent_of(a) if alone is None else alone.tangent(a)
                a = a.primal
            nested = nested or type(a) is Tracer
            primals.append(a)
            tangents.append(t)
        if primitive.turns:
            self.turned = True
        if NAMESPACES or "cupy" in sys.modules:  # `device_in_use`, without a call for each operation
            primals = self._move_captured(args, primals)
        if nested and state.abstract is not None:
            primals = capture_as_inputs(primals, primals)
        if primitive.passive and known is None and not primitive.multiple:
            if self.tape is not None and self.tape.notes is not None:  # what is decided by it, remembered.py cannot know
                self.tape.notes["looked"] = True
            out = bind(primitive, *primals, **params) if nested else compute(primitive, primals, params)
            if primitive.jvp is not None or not is_inexact(aval_of(out)):  # otherwise it has no rule, which is said below
                return plain_result(out, primals)
        plain = self.linear
        saved = state.source
        source = saved or user_source(4)  # behind `record` and `bind`
        if saved is None:
            state.source = source
        try:
            if primitive.jvp is None or known is None and primitive.multiple:
                outs, touts = jvp.jvp_step(primitive, primals, tangents, params, self.linear)
            else:
                if known is None:
                    out = bind(primitive, *primals, **params) if nested else compute(primitive, primals, params)
                else:
                    (out,) = known
                    if nested and (alone is None or not alone.bound):
                        out = bind_known(primitive, primals, params, shape, out)
                if not plain and not self.masked and not primitive.multiple:
                    plain = primitive.calm or moves_within(primitive, primals, out)
                by = rule_of if plain else masked_rules.masked_rule
                token = suppress_warnings()
                try:
                    found = by(primitive, primals, tangents, out, params, shape)
                finally:
                    restore_warnings(token)
                if found is not None and alone is None and not primitive.multiple:
                    self.masked = self.masked or not plain and type(found) is masks.Masked
                    return self._traced(primitive, args, params, 0, shape, out, found, source)
                outs, touts = (out, found) if primitive.multiple else ([out], [found])
            self.masked = self.masked or not plain and masks.Masked in map(type, touts)
            rows = None
            if alone is not None:
                rows, touts = alone.rows_or_tangents(self, primitive, args, primals, params, shape, outs, touts, source)
        finally:
            if saved is None:
                state.source = None
        results: list[Any] = []
        for i, (p, t) in enumerate(zip(outs, touts)):
            if t is None:
                results.append(plain_result(p, primals))
            else:
                results.append(rows[i] if rows else self._traced(primitive, args, params, i, shape, p, t, source))
        return results if primitive.multiple else results[0]

    def _traced(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], i: int, shape: tuple | None, out: Any, t: Any,
        source: Any,
    ) -> Tracer:  # fmt: skip
        if primitive.square is not None and (self.turned or primitive.multiple) and keeps_operands(primitive, args, params, i):
            t = [t, (primitive, list(map(snapshot, args)), params, i, shape)]
        return Tracer(self, None, out, t, source)

    def _note_layout(self, primitive: Any, args: Sequence[Any], result: Any) -> Any:
        """The result; in forward mode: may its strides be others than NumPy's would be? (see strides.py)"""
        doubtful = self.doubtful
        if len(shape_of(result)) > 1 and (primitive.layout is None or any([id(a) in doubtful for a in args])):
            self._doubt(result)
        elif doubtful:
            doubtful.discard(id(result))  # it may be the id of a tracer that is gone
        return result

    def behind(self, x: Tracer, mask: Any) -> Tracer:
        """x, a cotangent that is zero where no path leads to it: what its tangent has there is zero for the same reason."""
        t = tangent_of(x)
        value, own = (t.value, t.mask) if type(t) is masks.Masked else (t, None)
        if not mask.bools.fixed:  # until it is asked for, the user may write into what it would be made of
            mask = masks.mask_of(masked_rules.owned(mask.bools.get()), mask.whole)
        both = mask.with_dirt(0) if own is None else own.combined(and_, mask, shape_of(x), False)
        self.masked = True
        return self._note_layout(select, [x], Tracer(self, None, x.primal, masks.Masked(value, both), x.source))

    def result(self, value: Any, tangent: Any, source: Any) -> Tracer:
        """The traced result of work that was done elsewhere."""
        traced = Tracer(self, None, value, tangent, source)
        self.masked = self.masked or type(tangent) is masks.Masked
        if len(shape_of(value)) > 1:
            self._doubt(traced)
        return traced

    def again(self, x: Tracer) -> Tracer:
        made = Tracer(self, None, x.primal, x.tangent, x.source)
        if self.doubtful:
            (self.doubtful.add if id(x) in self.doubtful else self.doubtful.discard)(id(made))
        return made

    def _doubt(self, result: Any) -> None:
        if self.doubtful is _NOTHING:
            self.doubtful = set()
        self.doubtful.add(id(result))

    def made_by(self, x: Tracer, look: bool = False) -> tuple[Any, Sequence[Any], dict[str, Any], int] | None:
        made = self._maker(x)
        if made is None or look:
            return made
        primitive, operands, params, i, shape = made
        return primitive, operands if shape is None else [broadcast_to(a, shape) for a in operands], params, i

    def _maker(self, x: Tracer) -> Any:
        return x.tangent[1] if type(x.tangent) is list and not self.closed else None

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


def run_following(
    trace: FollowingTrace, f: Any, primals: Sequence[Any], tangents: Sequence[Any], source: Any
) -> tuple[list, list]:
    """The outputs of f and their tangents; the trace is closed at the end."""
    here = state.__dict__  # of this thread: to read and write there costs a fifth
    outer = trace.outer = here["running"]
    began, thread = here["began"], 0
    trace.function, trace.arguments, trace.writes_outside, trace.lends, trace.missed = f, primals, False, None, None
    trace.users, trace.late = None, False
    try:
        here["running"] = trace
        here["began"] = sys._getframe(), source
        if outer is None:
            thread = get_ident()
            tracing.threads[thread] = {}
            if not tracing.ready:
                tracing.prepare()
        while True:
            inputs = []
            for p, t in zip(primals, tangents):
                if type(p) is Tracer:
                    p = snapshot(p) if p.owner.settle is not None else p.owner.again(p)
                if t is not None:
                    value, p = p, _new(Tracer)  # which costs less than a call of Tracer.__init__
                    p.owner, p.primal, p.tangent, p.source = trace, value, t, source
                    p.atom = p.box = None
                inputs.append(p)
            try:
                outs = f(*inputs)
                if trace.missed is None or is_told(trace.missed):
                    break
                raise trace.missed
            except (TypeError, ValueError) as error:
                if not starts_again(trace, error):
                    raise
        del inputs
        if trace.held is not None:
            outs = list(map(snapshot, outs))
        values, touts = [], []
        for o in outs:
            t = None
            if type(o) is Tracer:
                if o.owner is trace:
                    t = o.tangent if type(o.tangent) is int else tangent_of(o)
                    t = masked_rules.cleaned(t) if trace.masked else t
                    o = o.primal
                elif not o.owner.level:
                    (o,) = plain_values([o])
                elif o.owner.closed:
                    raise leaked(o)
            values.append(o)
            touts.append(t)
        return values, touts
    finally:
        if outer is None:
            tracing.threads.pop(thread, None)
        here["running"], here["began"] = outer, began
        trace.closed = True
        trace.function = trace.users = trace.outer = trace.held = trace.short = None
        trace.arguments, trace.doubtful = (), _NOTHING

"""Tracing: `bind` decides where an operation goes, a `Trace` records it.

Idea (data-based dispatch): an operation with no tracer among its arguments computes now; otherwise it is recorded by the
innermost trace among its arguments *and the innermost open staging trace of this thread*. Staging traces are the bodies of
cond, switch, while_loop, checkpoint and custom rules, so that an operation on outer values inside a branch stays in the
branch. Bodies of jit, scan and vmap are not staging: work on outer values only is done outside them, once. This is the only
semantics under which plain NumPy calls can be traced: a NumPy call on concrete arrays will never reach us.

Invariants: levels grow inwards; a trace that has been closed records nothing (a leaked tracer raises, saying where it was
made); captured arrays become leading inputs of the jaxpr, keyed by the value (an array's `id`), which the table keeps alive.
"""

from __future__ import annotations

import itertools
import warnings
from _thread import get_ident
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from funcad.errors import FuncadError
from funcad.host.conversions import is_told, starts_again
from funcad.host.devices import compute, error_mode, raising_later
from funcad.host.locks import NO_LOCKS, Locks
from funcad.host.where import open_traces, state, tracing, user_source
from funcad.ir.aval import SCALAR_AVALS, AnyAval, Atom, Aval, LiteralAval, Location, Params, Value, aval_of
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, may_fail, subjaxprs
from funcad.ir.tracer import Tracer, array_type, leaked, snapshot, value_key

if TYPE_CHECKING:
    from funcad.ir.primitive import Primitive


next_level = itertools.count(1).__next__
_new_object, _new_tuple = object.__new__, tuple.__new__
_Made = TypeVar("_Made")


def bind(primitive: Primitive, *args: Value, **params: Any) -> Any:
    """Apply a primitive: compute now, or record in the trace that the arguments belong to."""
    top: Any = None
    mixed = False  # are there buffers among values of other traces?
    for a in args:
        if type(a) is Tracer and a.owner is not top:
            mixed = top is not None and (mixed or not top.level or not a.owner.level)
            if top is None or a.owner.level > top.level:
                top = a.owner
    if mixed:
        args = tuple(plain_values(args))
    elif top is not None and not top.level:
        return top.record(primitive, args, params)
    if not open_traces:  # nobody's trace is open in any thread: nothing to look up
        return compute(primitive, args, params) if top is None else top.record(primitive, args, params)
    if state.axis_env:
        axis = _axis_trace(primitive, params)
        if axis is not None and (top is None or axis.level > top.level):
            top = axis
    abstract = state.abstract
    acts = abstract is not None and (primitive.effect or primitive.multiple) and _has_effect(primitive, params)
    if top is None and not acts:
        return compute(primitive, args, params)
    inner = abstract if acts else state.staging
    if inner is not None and (top is None or inner.level > top.level):
        top = inner
    out = top.record(primitive, args, params)
    if abstract is not None and top.level < abstract.level:
        abstract.hoisted += out if type(out) is list else [out]
    return out


def _has_effect(primitive: Primitive, params: Params) -> bool:
    return primitive.effect or (primitive.multiple and any(j.has_effects for j in subjaxprs(params)))


def _axis_trace(primitive: Primitive, params: Params) -> AbstractTrace | None:
    """The trace that must record a collective, or a program with one: that of the innermost axis which it acts on."""
    if primitive.collective is None and not primitive.multiple:
        return None
    name = params.get("axis_name")
    names = set(name if isinstance(name, tuple) else (name,))
    for jaxpr in subjaxprs(params):
        names |= jaxpr.axis_names
    for bound, _, index in reversed(state.axis_env):
        if bound in names and type(index) is Tracer and not index.owner.closed:
            return index.owner
    return None


def plain_values(values: Sequence[Value]) -> list[Value]:
    """The values, with the arrays behind buffers (writes/plain.py) in their place."""
    return [x.owner.value(x) if type(x) is Tracer and not x.owner.level else x for x in values]


class Trace:
    """Somewhere operations are recorded."""

    level: float
    function: Callable[..., object] | None
    users: list[Any] | None
    outer: Trace | None
    writes_outside: bool
    lends: bool | None
    late: bool
    missed: FuncadError | None
    # while the user's function runs: which one, the user's own behind it (None: nobody has asked), the trace around this one,
    # has an array of that been written, are its plain results to be written with traced values (None: not known yet), was
    # that learned of a function since this one began, and the error if some were and could not
    __slots__ = ("level", "name", "closed", "function", "users", "outer", "writes_outside", "lends", "late", "missed")
    turned: bool = True  # may a value have been made whose square is known? Squares look here first
    settle: Callable[[Tracer], None] | None = None  # ends that a value is written in place (writes/held.py)
    holds: bool = False  # do its arrays hold buffers that nobody else has (writes/held.py)?
    tape: Any = None  # of a following trace: where common operations are written down instead of recorded
    short: Any = None  # who has short ways for common operations: the tape, or in forward mode pushes
    settled: Sequence[object] | None = None  # the tangents that are told by their numbers, when they are known
    decide: Callable[[Tracer], bool] | None = None  # says whether a condition holds everywhere, where values are at hand
    reads: Callable[[Tracer, str], None] | None = None  # is told what Python's control flow reads, and how
    at_once: Callable[..., Any] | None = None  # computes an operation on known values, without a rule (api/lane_trace.py)
    recorder: Any = None  # who runs what was recorded when Python asks for a value (jitted/path_recording.py)

    def __init__(self, name: str):
        self.level = next_level()
        self.name = name
        self.closed = False

    def record(self, primitive: Primitive, args: Sequence[Value], params: Params) -> Any:
        raise TypeError(f"{type(self).__name__} does not record")

    def again(self, x: Tracer) -> Tracer:
        """Another tracer of the same value, at no cost: the handle that a copy or a view gets."""
        made = _new_object(Tracer)  # which costs less than a call of Tracer.__init__
        made.owner, made.atom, made.primal, made.tangent, made.source = self, x.atom, x.primal, x.tangent, x.source
        made.box = None
        if x.atom is not None:
            made.aval = x.atom.aval
        return made

    def made_by(self, x: Tracer, look: bool = False) -> tuple[Primitive, Sequence[Value], Params, int] | None:
        """(primitive, operands, params, which output) of what made a value, if that has a `square`; `look`: is there one?"""
        return None


class AbstractTrace(Trace):
    """Records equations without running them: bodies of jit, vmap, scan, and every program derived by a transform."""

    __slots__ = (
        *("equations", "captured", "inputs", "locks", "protect", "mode", "modes", "array", "stands_for", "asked"),
        *("given", "layouts", "makers", "n_makers", "looks", "hoisted", "recorder", "tries", "filters", "seeded", "results"),
        *("around",),
    )

    def __init__(self, name: str, protect: Callable[[Value], Value] | None = None, errstate: str = ""):
        self.level, self.name, self.closed = next_level(), name, False
        self.modes: dict[int, Any] | None = {} if errstate == "kept" else None  # of equations in another errstate than ...
        self.mode = error_mode() if errstate else None  # ... that in which the trace was opened
        self.filters = warnings.filters  # the user's `catch_warnings` puts others there
        self.array: type = np.ndarray if state.abstract is None else state.abstract.array  # what its values stand for
        self.stands_for: dict[Var, Value | None] = {}  # inputs of rank 0 -> a NumPy scalar, or an array of rank 0
        self.asked = False  # did somebody ask which of the two?
        self.equations: list[Equation] = []
        self.results: dict[tuple[Any, ...], Any] = {}  # operation without parameters, `id`s of avals: the aval of its result
        # ... and shape, `id` of dtype, weak: the aval that has these
        self.captured: dict[object, tuple[Var, Value]] = {}
        self.inputs: list[Var] = []
        self.given: Any = None  # what the inputs stand for (unjitted/strides.py), where that can be known
        self.layouts: Any = None  # of variables whose memory order was asked for (unjitted/strides.py)
        self.makers: dict[Var, Equation] = {}  # of the first `n_makers` equations, for `made_by`
        self.n_makers = self.looks = 0
        self.recorder = None
        self.around: tuple[Any, Any] | None = None  # the staging and the abstract trace around it, while a function runs in it
        self.seeded = False  # has its function seeded NumPy's generator?
        self.tries: Callable[..., Any] | None = None  # records what may fail; so do the traces inside it
        self.hoisted: list[Value] = []  # values of outer traces that were made here: they may be written here
        self.locks = Locks()
        self.protect = protect or self.locks.guard  # keeps a captured array safe; Locks: until the trace closes

    def new_input(self, aval: AnyAval, source: Location = None) -> Tracer:
        var = Var(Aval(aval.shape, aval.dtype, aval.weak) if type(aval) is LiteralAval else aval)
        self.inputs.append(var)
        return Tracer(self, var, source=source)

    def new_inputs(self, avals: Sequence[AnyAval]) -> list[Tracer]:
        source = user_source()
        return [self.new_input(a, source) for a in avals]

    def same_inputs(self) -> list[Tracer]:
        """The inputs as they were, for a function that is started again."""
        self.seeded = False
        self.captured.clear()  # what is read is read anew: the first of them are fed by what was read (reads/observer.py)
        self.equations[:], self.makers, self.n_makers, self.looks = [], {}, 0, 0  # whatever they did happens in the next run
        return [Tracer(self, v) for v in self.inputs]

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for x in this program."""
        kind = type(x)
        if kind is Tracer:
            if x.owner is self:
                return x.atom
            if not x.owner.level:
                return self.atom(x.owner.value(x))
            if x.owner.closed:
                raise leaked(x)
        elif kind in SCALAR_AVALS:
            literal = _new_object(Literal)  # without the checks of Literal(...), which this branch has made
            literal.value = x
            literal.aval = SCALAR_AVALS[kind] if kind is not int else aval_of(x)
            return literal
        key = value_key(x)
        entry = self.captured.get(key)
        if entry is not None and kind is not Tracer and (was := self.locks.as_it_was(x)) is not x:
            del self.captured[key]  # it is another value now
            self.captured[value_key(was)], entry = (entry[0], was), None
        if entry is None:
            entry = self._capture(snapshot(x))
        return entry[0]

    def capture(self, x: Value) -> Tracer:
        """x, a value from outside, as one of this trace's."""
        return Tracer(self, self.atom(x))

    def _capture(self, x: Value) -> tuple[Var, Value]:
        aval, value = aval_of(x), self.protect(x)
        if type(aval) is LiteralAval:
            aval = Aval(aval.shape, aval.dtype, aval.weak)
        entry = self.captured[value_key(value)] = (Var(aval), value)  # of a private copy: x may change before it comes again
        return entry

    def record(self, primitive: Primitive, args: Sequence[Value], params: Params) -> Any:
        if self.closed:
            raise leaked(next(a for a in args if type(a) is Tracer and a.owner is self))
        if self.tries is not None and (primitive.fails or primitive.multiple) and may_fail(primitive, params):
            return self.tries(self, primitive, args, params)
        atoms = []
        avals = []
        for a in args:
            atom = a.atom if type(a) is Tracer and a.owner is self else self.atom(a)
            atoms.append(atom)
            avals.append(atom.aval)
        if params:
            out = primitive.abstract_eval(*avals, **params)
            if type(out) is Aval:  # one for all results that are alike
                out = self.results.setdefault((out.shape, id(out.dtype), out.weak), out)
        else:
            kind = (primitive, *map(id, avals))
            out = self.results.get(kind)
            if out is None:
                out = self.results[kind] = primitive.abstract_eval(*avals)
                self.results[kind, None] = avals  # as long as an `id` is a key, nothing else may have it
        source = state.source or user_source()
        if self.mode is not None:
            if error_mode() != self.mode:
                if self.modes is not None:
                    self.modes[len(self.equations)] = error_mode()
                elif not primitive.silent and (error := raising_later(self.name, self.mode, source)) is not None:
                    self.missed = error  # raised again behind an `except` of the user's
                    raise error
            if warnings.filters is not self.filters and self.recorder is not None:  # it warns, or raises, where it is written
                self.recorder.answer(args[0], "warnings")
        if primitive.multiple:
            outputs = tuple([Var(a) for a in out])
            self.equations.append(Equation(primitive, tuple(atoms), params, outputs, source))
            return [Tracer(self, v, None, None, source) for v in outputs]
        output, result = _new_object(Var), _new_object(Tracer)  # this is `append`, without a call of it and of two constructors
        output.aval = result.aval = out
        self.equations.append(_new_tuple(Equation, (primitive, tuple(atoms), params, (output,), source)))
        result.owner, result.atom, result.source = self, output, source
        result.primal = result.tangent = result.box = None
        return result

    def append(self, primitive: Primitive, atoms: tuple[Atom, ...], params: Params, aval: AnyAval, source: Location) -> Tracer:
        """Write down an equation with one output whose aval is known already."""
        output = Var(aval)
        self.equations.append(_new_tuple(Equation, (primitive, atoms, params, (output,), source)))
        return Tracer(self, output, None, None, source)

    def made_by(self, x: Tracer, look: bool = False) -> tuple[Primitive, Sequence[Value], Params, int] | None:
        self.looks += 1
        for equation in self.equations[self.n_makers :]:
            if equation.primitive.square is not None:
                self.makers.update([(v, equation) for v in equation.outputs])
        self.n_makers = len(self.equations)
        maker = self.makers.get(x.atom)
        if maker is None or self.closed:
            return None
        primitive, atoms, params, outputs, _ = maker
        operands = [a.value if type(a) is Literal else Tracer(self, a) for a in atoms]
        return primitive, operands, params, outputs.index(x.atom)

    def close(self) -> None:
        if self.around is not None:
            if self.outer is None:
                tracing.threads.pop(get_ident(), None)
            state.running = self.outer
            state.staging, state.abstract = self.around
            open_traces.discard(self.level)
        self.function = self.users = self.outer = None
        self.stands_for, self.hoisted, self.results = {}, [], {}
        if self.layouts is not None:
            self.layouts.close()
        self.given = self.layouts = self.recorder = self.tries = None
        if self.locks is not NO_LOCKS:
            self.locks.release()
        self.around, self.closed = None, True  # at last: until then `run_in` begins anew

    def jaxpr(self, outputs: Sequence[Value]) -> tuple[Jaxpr, list[Value]]:
        """The recorded program whose leading inputs are the captured values, and those values."""
        atoms = tuple([self.atom(o) for o in outputs])
        entries = sorted(self.captured.items(), key=lambda entry: type(entry[0]) is not tuple or entry[0][0] != "read")
        captured = [(v, self.locks.as_it_was(x, whole=True)) for _, (v, x) in entries]  # what is read at each call comes first
        jaxpr = Jaxpr((*[v for v, _ in captured], *self.inputs), tuple(self.equations), atoms)
        if self.modes:
            jaxpr.modes = self.modes
        if self.asked:
            jaxpr.memo["asked"] = True
        return jaxpr, [x for _, x in captured]


def trace_function(
    f: Callable[..., Sequence[Value]],
    avals: Sequence[AnyAval],
    *,
    name: str,
    staging: bool = False,
    abstract: bool = True,
    errstate: str = "",
    given: Any = None,
    beside: Sequence[Value] = (),
    recorder: object = None,
) -> tuple[Jaxpr, list[Value]]:
    """Trace `f(*tracers) -> list of values` into `(jaxpr, captured)`; the captured values are the leading inputs.

    `abstract=True` means that f is the user's and runs when the program runs: effects are recorded here. `errstate="kept"`:
    the program remembers which equations were written in which `np.errstate`, because it runs un-jitted; "refused": one that
    is to raise is refused. `given`: the values that the tracers stand for (unjitted/strides.py), which answer type tests and
    questions for the memory order; `beside`: values that only tell whether arrays are NumPy's or a device's. A program that
    told arrays of rank 0 from scalars has "asked" in its memo.
    """
    trace = AbstractTrace(name, errstate=errstate)
    trace.recorder = recorder
    if abstract:
        trace.tries = state.abstract and state.abstract.tries or tracing.keep
    found = array_type(beside if given is None else given.values)
    if found is not np.ndarray:
        trace.array = found
    return run_in(trace, f, avals, trace.jaxpr, staging=staging, abstract=abstract, given=given)


def run_in(
    trace: AbstractTrace,
    f: Callable[..., Sequence[Value]],
    avals: Sequence[AnyAval],
    finish: Callable[[Sequence[Value]], _Made],
    *,
    staging: bool = False,
    abstract: bool = True,
    given: Any = None,
) -> _Made:
    """`finish(f(*tracers))`: f runs on new inputs of the trace, which is open until then; see `trace_function`."""
    outer, trace.around = state.running, (state.staging, state.abstract)
    trace.function, trace.outer, trace.writes_outside, trace.lends, trace.missed = f, outer, False, None, None
    trace.users, trace.late = None, False
    try:
        try:
            state.running = trace
            if outer is None:
                tracing.threads[get_ident()] = {}
                if not tracing.ready:
                    tracing.prepare()
            tracers = trace.new_inputs(avals)
            if staging:
                state.staging = trace
            if abstract:
                state.abstract = trace
            if abstract or staging:
                open_traces.add(trace.level)
            if given is not None:
                given.stand_behind(trace, tracers)
            while True:
                try:
                    outs = f(*tracers)
                    if trace.missed is None or is_told(trace.missed):
                        break
                    raise trace.missed
                except (TypeError, ValueError) as error:
                    if not starts_again(trace, error):
                        raise
                tracers = trace.same_inputs()
            return finish(outs)
        finally:
            trace.close()
    finally:
        if not trace.closed:  # Ctrl-C came in the midst of the first, and a trace that stays noted as open makes all slow
            trace.close()


def abstract_trace_of(values: Sequence[Value]) -> AbstractTrace | None:
    """The innermost abstract trace that the values belong to, also behind following traces; None if all are known."""
    top = None
    for x in values:
        while type(x) is Tracer and x.atom is None:  # this is `concrete_value`, without a call
            x = x.primal
        if type(x) is Tracer and (top is None or x.owner.level > top.level):
            top = x.owner
    return top


def stage_constants(values: Sequence[Value]) -> AbstractTrace | None:
    """The abstract trace in which an interpreter of a program with these inputs records operations on numbers alone.

    They make seeds of derivatives. Computed now, a seed would become a constant, and what is made of it arrays of constants.
    None unless the values belong to the innermost open trace: a derived program that captured a tracer could not be used again.
    """
    if not open_traces:
        return None
    trace = abstract_trace_of(values)
    return trace if trace is state.abstract else None


def any_tracer(values: Sequence[object]) -> bool:
    return any(type(v) is Tracer for v in values)

"""Gradients that un-jitted vmap maps, `vmap(grad(f))`: the backward pass as a program that is found by what f recorded.

Idea: f runs on the tracers of vmap itself, without rules; what it recorded is a key, as the rows of a tape are. A program of
the backward pass that was derived for it before is one operation in the program of vmap, with a batched program of its own for
each size. Where there is none, what f recorded is recorded anew by its rules (`_by_rules`). Invariant: both ways record each
operation of f once, at its line, and the backward pass is made by the same rules. Trap: this needs that f is given nothing else
of vmap's, or what it captured could be what it is differentiated along, so it is for a gradient that vmap calls itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.backends.engines import BYTES
from funcad.backends.interpreter import broadcast_scalars
from funcad.host.devices import enter, restore_warnings, suppress_warnings
from funcad.host.where import open_traces, setting, state
from funcad.ir.aval import Aval, is_inexact
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Literal, Var, prune, used_inputs
from funcad.ir.trace import AbstractTrace, plain_values
from funcad.ir.tracer import Tracer, snapshot
from funcad.masks.masked_rules import rule_of
from funcad.memo import Table
from funcad.passes.subprograms import program_key
from funcad.primitives.conversion import convert_p
from funcad.primitives.fused import known_program_p
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_step
from funcad.transforms.partial import TangentTrace
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted.kinds import LinearTrace, input_like
from funcad.unjitted.outside import NO_LOCKS
from funcad.unjitted.structural import MAX_EQUATIONS, UNSEEN, cached, compiled

_SIZES = 8  # of batches, that a program is kept for


class _Backward:
    """The gradient as a program of some of the values of f: their `places` among inputs, numbers and results."""

    __slots__ = ("jaxpr", "consts", "places", "nonzero", "batched", "size")

    def __init__(self, jaxpr: Jaxpr, consts: list[Any], places: list[int], nonzero: list[bool]):
        self.jaxpr = jaxpr
        self.consts = consts
        self.places = places
        self.nonzero = nonzero  # which inputs have a gradient
        what = "how many lanes, and which inputs have them: a program, and which results have them"
        self.batched = Table("unjitted.mapped gradients", what, _SIZES)
        self.size = _SIZES * BYTES * len(jaxpr.equations)

    @property
    def out_avals(self) -> list[Any]:
        return self.jaxpr.out_avals

    def run(self, values: Sequence[Any]) -> list[Any]:
        return eval_jaxpr(self.jaxpr, values)

    def batch(self, size: int, args: Sequence[Any], batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        key = size, *batched
        found = self.batched.get(key)
        if found is None:
            jaxpr, consts, flags = batch_jaxpr(self.jaxpr, size, tuple(batched))
            self.jaxpr.memo.clear()
            found = self.batched.put(key, (compiled(prune(jaxpr), consts), flags))
        token = suppress_warnings()  # as all derivative work
        try:
            return list(found[0](list(args))), found[1]
        finally:
            restore_warnings(token)


class MappedGradient:
    """The gradient of what a trace has recorded."""

    __slots__ = ("program", "values", "order")

    def __init__(self, program: _Backward, values: list[Any], order: list[int]):
        self.program = program
        self.values = values
        self.order = order  # of each input along which f is differentiated: its place among those of the program

    def pull(self) -> list[Any]:
        """The gradient (None: zero), as an operation of the trace."""
        program = self.program
        found = iter(known_program_p(*program.consts, *[self.values[i] for i in program.places], program=program))
        grads = [next(found) if z else None for z in program.nonzero]
        return [grads[i] for i in self.order]


def linearize_recorded(
    trace: AbstractTrace, f: Callable[..., list], inputs: Sequence[Tracer], differentiated: Sequence[bool]
) -> tuple[list[Any], list[bool], Any, list[Any], Any]:
    """What `linearize_following` gives for a function of one output whose inputs belong to the trace, which is empty."""
    along = [x.atom for x, d in zip(inputs, differentiated) if d]
    trial = trace.recorder
    trial.mapping = True
    try:
        outs = plain_values(f(*map(snapshot, inputs)))
    finally:
        trial.mapping = False
    out = outs[0]
    if type(out) is not Tracer or out.owner is not trace:
        return outs, [False], None, [], NO_LOCKS
    jaxpr, values = trace.jaxpr([out])
    found: Any = UNSEEN
    if len(jaxpr.equations) <= MAX_EQUATIONS and not state.checked and Tracer not in map(type, values):
        flags = [v in along for v in jaxpr.inputs]
        try:
            key = ("mapped", *flags, *program_key(jaxpr, literal=type))
        except TypeError:  # parameters of which not all is known
            key = None
        if key is not None:
            found = cached(key, lambda: _derive(jaxpr, flags))
    if type(found) is tuple:
        (program,) = found
        of_trace = [Tracer(trace, a) if type(a) is Var else a.value for a in _atoms(jaxpr)]
        numbers = [v for v in jaxpr.inputs if v in along]
        return outs, [any(program.nonzero)], MappedGradient(program, of_trace, [numbers.index(v) for v in along]), [], NO_LOCKS
    return _by_rules(trace, out, along)


def _atoms(jaxpr: Jaxpr) -> list[Any]:
    """The values of a program in the order in which `_derive` makes inputs of them."""
    found: list[Any] = list(jaxpr.inputs)
    for equation in jaxpr.equations:
        found += [a for a in equation.inputs if type(a) is Literal]
        found += equation.outputs
    return found


def _derive(jaxpr: Jaxpr, flags: Sequence[bool]) -> Any:
    """(the backward program,); False if there is none."""
    opened, trace = set(), state.running  # of this thread: others open and close theirs meanwhile
    while trace is not None:
        opened.add(trace.level)
        trace = trace.outer
    opened &= open_traces
    open_traces.difference_update(opened)
    try:
        with setting(abstract=None, staging=None, running=None):
            return (_derived(jaxpr, flags),)
    except Exception:  # a rule that needs values or computes them: by the rules, and what is truly wrong is raised there
        return False
    finally:
        open_traces.update(opened)


def _derived(jaxpr: Jaxpr, flags: Sequence[bool]) -> _Backward:
    outer, inner = AbstractTrace("the backward pass"), LinearTrace("linearize")
    values: dict[Var, Tracer] = {}
    tangents: dict[Any, Any] = {}
    try:
        for v, along in zip(jaxpr.inputs, flags):
            values[v] = outer.new_input(v.aval)
            if along:
                tangents[v] = inner.new_input(_strong(v))
        for primitive, atoms, params, variables, _ in jaxpr.equations:
            operands = [input_like(outer, a.value) if type(a) is Literal else values[a] for a in atoms]
            outs = [outer.new_input(v.aval) for v in variables]
            values.update(zip(variables, outs))
            ts = [tangents.get(a) if type(a) is Var else None for a in atoms]
            if all([t is None for t in ts]):
                continue
            if primitive.linearize or primitive.primal_and_jvp or primitive.effect:
                raise ValueError("its rule computes the values, too")
            if primitive.jvp is None:
                if any([is_inexact(v.aval) for v in variables]):
                    raise ValueError("it has no rule")
                continue
            found = rule_of(primitive, operands, ts, outs if primitive.multiple else outs[0], params)
            tangents.update(zip(variables, found if primitive.multiple else [found]))
        end: Any = jaxpr.outputs[0]
        n = sum(flags)
        if tangents.get(end) is None:
            return _Backward(Jaxpr((), (), ()), [], [], [False] * n)
        linear, residuals = inner.jaxpr([tangents[end]])
        seed = outer.record(convert_p, [end.aval.dtype.type(1)], {"dtype": end.aval.dtype})
        mask = [False] * len(residuals) + [True] * n
        grads = transpose_eval(linear, mask, residuals + [None] * n, [seed], all_linear=True)
        derived, consts = outer.jaxpr([g for g in grads if g is not None])
    finally:
        inner.close()
        outer.close()
    derived, m = broadcast_scalars(prune(derived)), len(consts)
    places = [i for i, used in enumerate(used_inputs(derived)[m:]) if used]
    left = (*derived.inputs[:m], *[derived.inputs[m + i] for i in places])
    equations = tuple([e._replace(source=None) for e in derived.equations])
    return _Backward(Jaxpr(left, equations, derived.outputs), consts, places, [g is not None for g in grads])


def _strong(v: Var) -> Aval:
    return Aval(v.aval.shape, v.aval.dtype)


def _by_rules(trace: AbstractTrace, out: Tracer, along: Sequence[Var]) -> tuple[list[Any], list[bool], Any, list[Any], Any]:
    """Record anew what the trace has, each operation along with its tangent."""
    equations, modes = trace.equations, trace.modes or {}
    trace.equations, trace.modes, trace.makers, trace.n_makers = [], {}, {}, 0
    recording = TangentTrace("grad", protect=lambda x: x)  # the trace keeps safe what was captured
    values: dict[Any, Any] = {}  # of the variables that others stand for now
    tangents: dict[Any, Any] = {v: recording.new_input(_strong(v)) for v in along}
    saved = state.source
    try:
        for i, equation in enumerate(equations):
            primitive, atoms, params, variables, source = equation
            ts = [tangents.get(a) if type(a) is Var else None for a in atoms]
            if all([t is None for t in ts]):
                if i in modes:
                    trace.modes[len(trace.equations)] = modes[i]
                found = [trace.atom(values[a]) if type(a) is Var and a in values else a for a in atoms]
                trace.equations.append(equation._replace(inputs=tuple(found)))
                continue
            operands = [a.value if type(a) is Literal else values[a] if a in values else Tracer(trace, a) for a in atoms]
            state.source = source or saved
            token = enter(modes[i]) if i in modes else None
            try:
                outs, touts = jvp_step(primitive, operands, ts, params, True)
            finally:
                if token is not None:
                    restore_warnings(token)
            values.update(zip(variables, outs))
            tangents.update(zip(variables, touts))
        out, t = values.get(out.atom, out), tangents.get(out.atom)
        if t is None:
            return [out], [False], None, [], NO_LOCKS
        jaxpr, residuals = recording.jaxpr([t])
    finally:
        state.source = saved
        recording.closed = True
    return [out], [True], jaxpr, residuals, NO_LOCKS

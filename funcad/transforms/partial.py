"""Partial evaluation: what of a program needs only some of its inputs, the known ones.

Idea: every operation that reads no unknown input is done at once; the rest is left. A linear program (that of the tangents, or
a part of it that transposition meets) has linear inputs, which are the unknown ones here. Three forms: `partial_eval` runs the
known part and hands back the equations that are left; `partial_jaxpr` is the program of the known outputs alone; `split_jaxpr`
cuts a program into two `Halves`, the first of which keeps residuals for the second. An operation that calls a program has two
rules for this, `partial_eval` and `split` (ir/primitive.py), so that a loop's counter need not wait for what the loop carries.

Invariant: what is unknown is found by reading the program, never by running it, so both halves agree on it. Trap: effects
belong to the known half; a program that runs beside another which has them must be pruned without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.host.where import note_source, state
from funcad.ir.aval import AnyAval, Aval, Params, StackAval, Tangent, Value, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune, stays, subjaxprs, used_inputs
from funcad.ir.primitive import Primitive, not_linear
from funcad.ir.trace import AbstractTrace, bind, trace_function
from funcad.ir.tracer import Tracer, value_key
from funcad.transforms.jvp import jvp_eval


def unknown_outputs(jaxpr: Jaxpr, unknown: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which outputs depend on the unknown inputs, also through the programs that the equations call."""
    found = jaxpr.memo.get(("unknown_outputs", unknown))
    if found is None:
        reached = {v for v, u in zip(jaxpr.inputs, unknown) if u}
        for equation in jaxpr.equations:
            flags = tuple([type(a) is Var and a in reached for a in equation.inputs])
            if not any(flags):
                continue
            rule = equation.primitive.partial_eval
            out_unknown = [True] * len(equation.outputs) if rule is None else rule(flags, **equation.params)[0]
            reached.update([v for v, u in zip(equation.outputs, out_unknown) if u])
        answer = tuple([type(o) is Var and o in reached for o in jaxpr.outputs])
        found = jaxpr.memo.setdefault(("unknown_outputs", unknown), answer)
    return found


def partial_eval(jaxpr: Jaxpr, known: dict[Var, Value], unknown: set[Var]) -> list[Equation]:
    """Run the equations that read nothing unknown, and such parts of programs; return the other equations.

    Both tables are completed: `known` has the values found, `unknown` the variables that the equations left will compute.
    """
    left = []
    saved = state.source
    for equation in jaxpr.equations:
        primitive = equation.primitive
        flags = tuple([type(a) is Var and a in unknown for a in equation.inputs])
        state.source = equation.source or saved
        try:
            args: list[Any] = [
                None if u else a.value if type(a) is Literal else known[a] for a, u in zip(equation.inputs, flags)
            ]
            if any(flags):
                left.append(equation)
                if primitive.partial_eval is None:
                    unknown.update(equation.outputs)
                    if not primitive.multiple and _is_integer(equation.outputs[0].aval):
                        raise not_linear(primitive.name)  # a comparison, an index: no linear function asks for them
                    continue
                out_unknown, run = primitive.partial_eval(flags, **equation.params)
                unknown.update([v for v, u in zip(equation.outputs, out_unknown) if u])
                if not (out_unknown and all(out_unknown)):  # one without results may be there for what it refuses
                    known.update([(v, x) for v, x, u in zip(equation.outputs, run(args), out_unknown) if not u])
                continue
            out = bind(primitive, *args, **equation.params)
        except Exception as error:
            note_source(error, state.source)
            raise
        finally:
            state.source = saved
        known.update(zip(equation.outputs, out if primitive.multiple else [out]))
    return left


def _is_integer(aval: AnyAval) -> bool:
    return type(aval) is not StackAval and aval.dtype.kind in "biu"


def partial_jaxpr(
    jaxpr: Jaxpr, unknown: tuple[bool, ...], without: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, list[Value], list[bool]]:
    """`(program, consts, out_unknown)`: (consts, known inputs) -> the outputs that do not depend on the unknown inputs.

    `without` flags outputs that are left out even if they do not.
    """
    found = jaxpr.memo.get(("partial", unknown, without))
    if found is None:
        out_unknown: list[bool] = []

        def program(*values: Value) -> list[Value]:
            known = dict(zip([v for v, u in zip(jaxpr.inputs, unknown) if not u], values))
            reached = {v for v, u in zip(jaxpr.inputs, unknown) if u}
            partial_eval(jaxpr, known, reached)
            out_unknown[:] = without or [type(o) is Var and o in reached for o in jaxpr.outputs]
            outs = [o for o, u in zip(jaxpr.outputs, out_unknown) if not u]
            return [o.value if isinstance(o, Literal) else known[o] for o in outs]

        avals = [v.aval for v, u in zip(jaxpr.inputs, unknown) if not u]
        derived, consts = trace_function(program, avals, name="transpose")
        derived = prune(derived, effects=not any(out_unknown))  # or they would happen again when the rest is transposed
        found = jaxpr.memo.setdefault(("partial", unknown, without), (derived, consts, out_unknown))
    return found


class TangentTrace(AbstractTrace):
    """Records what is left: an operation that needs nothing unknown is computed outside of it, also where one equation computes
    both. What such a split leaves is recorded as it is: a loop or a checkpoint may compute something known anew in it."""

    __slots__ = ("splits",)

    def __init__(self, name: str, protect: Callable[[Value], Value] | None = None, errstate: str = "") -> None:
        super().__init__(name, protect, errstate)
        self.splits = False  # is an operation being split?

    def record(self, primitive: Primitive, args: Sequence[Value], params: Params) -> Any:
        for a in args:
            if type(a) is Tracer and a.owner is self:
                break
        else:
            if not self.closed:
                return self._outside(primitive, args, params)
        if primitive.partial_eval is None or self.closed:
            return AbstractTrace.record(self, primitive, args, params)
        unknown = tuple([type(a) is Tracer and a.owner is self for a in args])
        out_unknown, run = primitive.partial_eval(unknown, **params)
        if all(out_unknown) and (self.splits or not any([_checks(j, unknown) for j in subjaxprs(params)])):
            return super().record(primitive, args, params)
        if primitive.split is not None and any(out_unknown):
            outer, self.splits = self.splits, True
            try:
                return primitive.split(unknown, args, **params)
            finally:
                self.splits = outer
        values = run([None if u else a for a, u in zip(args, unknown)])
        if any(out_unknown):
            outs = super().record(primitive, args, params)
            values = [o if u else v for o, v, u in zip(outs, values, out_unknown)]
        return values

    def _outside(self, primitive: Primitive, args: Sequence[Value], params: Params) -> Any:
        """Of plain arrays in the abstract trace around this one, if there is one: it goes on reading them by reference."""
        around = state.abstract
        if around is None or around.level > self.level or Tracer in map(type, args):
            return bind(primitive, *args, **params)
        return around.record(primitive, args, params)


def _checks(jaxpr: Jaxpr, unknown: Sequence[bool]) -> bool:
    """Has the program something that stays and needs nothing unknown? `unknown`: flags, the last ones those of its inputs."""
    met = {v for v, u in zip(reversed(jaxpr.inputs), reversed(unknown)) if u}
    for equation in jaxpr.equations if jaxpr.stays else ():
        flags = [a in met for a in equation.inputs]
        if not any(flags) and stays(equation) or any([_checks(j, flags) for j in subjaxprs(equation.params)]):
            return True
        met.update(equation.outputs if any(flags) else ())
    return False


class Halves:
    """The two halves of a program: the known one, which runs first, and the linear rest.

    `forward`: (consts, known inputs) -> (known outputs, new residuals). `residuals` says where each residual of `linear` comes
    from: ("in", i) an input, ("out", j) an output, ("new", k) a new residual, ("const", array). `linear`: (residuals, unknown
    inputs) -> unknown outputs. Of a linearized program all inputs are known, and the unknown ones are tangents.
    """

    __slots__ = ("forward", "consts", "linear", "residuals", "out_nonzero", "n_outputs", "pull")

    def __init__(
        self,
        forward: Jaxpr,
        consts: list[Value],
        linear: Jaxpr,
        residuals: list[tuple[str, Any]],
        out_nonzero: list[bool],
        n_outputs: int,
    ):
        self.forward = forward
        self.consts = consts
        self.linear = linear
        self.residuals = residuals
        self.out_nonzero = out_nonzero
        self.n_outputs = n_outputs
        self.pull: object = None  # of a row, once there is one (unjitted/derived_pulls.py)

    def collect(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> list[Value]:
        """The residuals, given the inputs and everything that `forward` returned."""
        n = self.n_outputs
        where = {"in": inputs, "out": outputs, "new": outputs[n:]}
        return [spec if kind == "const" else where[kind][spec] for kind, spec in self.residuals]


def split_jaxpr(jaxpr: Jaxpr, unknown: tuple[bool, ...], out_unknown: tuple[bool, ...] | None = None) -> Halves:
    """A program cut in two: what needs no unknown input, and the rest.

    `out_unknown` may flag more outputs than depend on the unknown inputs; by default it is those.
    """
    out_unknown = out_unknown or unknown_outputs(jaxpr, unknown)
    found = jaxpr.memo.get(("split", unknown, out_unknown))
    if found is None:
        avals = [a for a, u in zip(jaxpr.in_avals, unknown) if not u]
        halves = in_halves(avals, lambda xs: _split_eval(jaxpr, xs, unknown, out_unknown))
        found = jaxpr.memo.setdefault(("split", unknown, out_unknown), halves)
    return found


def _split_eval(
    jaxpr: Jaxpr, known: Sequence[Value], unknown: tuple[bool, ...], out_unknown: tuple[bool, ...]
) -> tuple[list[Value], list[bool], Jaxpr, list[Value]]:
    """(known outputs, which outputs are unknown, program of the rest, residuals)."""
    recording = TangentTrace("linearize", protect=lambda x: x)
    given = iter(known)
    try:
        args = [recording.new_input(v.aval) if u else next(given) for v, u in zip(jaxpr.inputs, unknown)]
        outs = eval_jaxpr(jaxpr, args)
        program, residuals = recording.jaxpr([o for o, u in zip(outs, out_unknown) if u])
    finally:
        recording.closed = True
    program, residuals = drop_unused_residuals(prune(program), residuals)
    return [o for o, u in zip(outs, out_unknown) if not u], list(out_unknown), program, residuals


def in_halves(
    avals: Sequence[AnyAval], run: Callable[[Sequence[Value]], tuple[list[Value], list[bool], Jaxpr, list[Value]]]
) -> Halves:
    """Both halves; `run(inputs) -> (outputs, out_nonzero, linear jaxpr, residuals)` computes one, records the other."""
    box: dict[str, Any] = {}

    def forward(*xs: Value) -> list[Value]:
        outs, out_nonzero, linear, residuals = run(xs)
        inputs = {value_key(x): i for i, x in enumerate(xs)}
        outputs = {value_key(o): i for i, o in enumerate(outs) if type(o) is Tracer}
        sources: list[tuple[str, Any]] = []
        new: list[Value] = []
        for r in residuals:
            if value_key(r) in inputs:
                sources.append(("in", inputs[value_key(r)]))
            elif value_key(r) in outputs:
                sources.append(("out", outputs[value_key(r)]))
            elif type(r) is Tracer:
                sources.append(("new", len(new)))
                new.append(r)
            else:
                sources.append(("const", r))
        box.update(linear=linear, residuals=sources, out_nonzero=out_nonzero, n_outputs=len(outs))
        return [*outs, *new]

    program, consts = trace_function(forward, avals, name="linearize")
    return Halves(prune(program), consts, **box)


def drop_unused_residuals(linear: Jaxpr, residuals: list[Value]) -> tuple[Jaxpr, list[Value]]:
    """Remove leading inputs that no equation reads any more."""
    n = len(residuals)
    used = used_inputs(linear)[:n]
    if all(used):
        return linear, residuals
    inputs = (*[v for v, u in zip(linear.inputs, used) if u], *linear.inputs[n:])
    return Jaxpr(inputs, linear.equations, linear.outputs), [r for r, u in zip(residuals, used) if u]


# -- linearization of a program: run it once, keep residuals, leave a linear program for the tangents
#
# Idea: linearize is jvp with traced tangents and untraced primals. The primal work runs (or is recorded further out); what is
# recorded is the tangent program, whose captured values are exactly the residuals. A custom rule may compute its primal and its
# tangent in one program (the jvp of a loop); such a program is split as it is recorded (below), or the primal would be
# lost in the tangent program.


def linearize_eval(
    jaxpr: Jaxpr, primals: Sequence[Value], nonzero: Sequence[bool]
) -> tuple[list[Value], list[bool], Jaxpr, list[Value]]:
    """(outputs, out_nonzero, linear jaxpr, residuals); the linear jaxpr maps (residuals, nonzero tangents) to tangents."""
    recording = TangentTrace("linearize", protect=lambda x: x)
    avals: list[AnyAval] = []
    for p, z in zip(primals, nonzero):
        if z:
            aval = aval_of(p)
            avals.append(Aval(aval.shape, aval.dtype) if isinstance(aval, Aval) else aval)
    tangents = iter(recording.new_inputs(avals))
    try:
        outs, touts = jvp_eval(jaxpr, primals, [next(tangents) if z else None for z in nonzero], linear=True)
        linear, residuals = recording.jaxpr([t for t in touts if t is not None])
    finally:
        recording.closed = True
    linear, residuals = drop_unused_residuals(prune(linear), residuals)
    return outs, [t is not None for t in touts], linear, residuals


def linearize_jaxpr(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> Halves:
    """The two halves of a program, memoised on it."""
    found = jaxpr.memo.get(("linearize", nonzero))
    if found is None:
        halves = in_halves(jaxpr.in_avals, lambda xs: linearize_eval(jaxpr, xs, nonzero))
        found = jaxpr.memo.setdefault(("linearize", nonzero), halves)
    return found


def linearize_by_halves(
    primitive: Primitive, primals: Sequence[Value], tangents: Sequence[Tangent], params: Params
) -> tuple[list[Value], list[Tangent]]:
    """The rule `linearize` of what calls a program and has `halves`: a call of each."""
    halves = primitive.halves(tuple([t is not None for t in tangents]), **params)  # type: ignore[misc]
    outs = bind(primitive, *halves.consts, *primals, **{**params, "jaxpr": halves.forward})
    if not any(halves.out_nonzero):
        return outs[: halves.n_outputs], [None] * halves.n_outputs
    known, ts = halves.collect(primals, outs), [t for t in tangents if t is not None]
    touts = iter(bind(primitive, *known, *ts, **{**params, "jaxpr": halves.linear}))
    return outs[: halves.n_outputs], [next(touts) if z else None for z in halves.out_nonzero]

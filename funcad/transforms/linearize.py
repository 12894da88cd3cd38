"""Linearization of a program: run it once, keep residuals, leave a linear program for the tangents.

Idea: linearize is jvp with traced tangents and untraced primals. The primal work runs (or is recorded further out); what is
recorded is the tangent program, whose captured values are exactly the residuals. A custom rule may compute its primal and its
tangent in one program (the jvp of a loop); such a program is taken apart as it is recorded, or the primal would be lost in the
tangent program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.ir.aval import Aval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.prune import prune, used_inputs
from funcad.ir.trace import AbstractTrace, trace_function
from funcad.ir.tracer import Tracer
from funcad.transforms.jvp import jvp_eval
from funcad.transforms.transpose import linear_outputs

__all__ = ["linearize_eval", "linearize_jaxpr", "apart_jaxpr", "Linearized", "TangentTrace"]


class TangentTrace(AbstractTrace):
    """Records a tangent program: what does not depend on a tangent is computed outside of it, also where one equation computes
    both."""

    __slots__ = ()

    def record(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.known is None or self.closed:
            return super().record(primitive, args, params)
        linear = tuple([type(a) is Tracer and a.owner is self for a in args])
        out_linear, run = primitive.known(linear, **params)
        if all(out_linear):
            return super().record(primitive, args, params)
        if primitive.apart is not None and any(out_linear):
            return primitive.apart(linear, args, **params)
        values = run([None if lin else a for a, lin in zip(args, linear)])
        if any(out_linear):
            outs = super().record(primitive, args, params)
            values = [o if lin else v for o, v, lin in zip(outs, values, out_linear)]
        return values


def linearize_eval(
    jaxpr: Jaxpr, primals: Sequence[Any], nonzero: Sequence[bool]
) -> tuple[list[Any], list[bool], Jaxpr, list[Any]]:
    """(outputs, out_nonzero, linear jaxpr, residuals); the linear jaxpr maps (residuals, nonzero tangents) to tangents."""
    recording = TangentTrace("linearize", protect=lambda x: x)
    avals = []
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


def drop_unused_residuals(linear: Jaxpr, residuals: list[Any]) -> tuple[Jaxpr, list[Any]]:
    """Remove leading inputs that no equation reads any more."""
    n = len(residuals)
    used = used_inputs(linear)[:n]
    if all(used):
        return linear, residuals
    inputs = (*[v for v, u in zip(linear.inputs, used) if u], *linear.inputs[n:])
    return Jaxpr(inputs, linear.equations, linear.outputs), [r for r, u in zip(residuals, used) if u]


class Linearized:
    """A program's forward half and linear half.

    `forward`: (consts, inputs) -> (outputs, new residuals). `residuals` says where each residual of `linear` comes from:
    ("in", i) an input, ("out", j) an output, ("new", k) a new residual, ("const", array). `linear`: (residuals, nonzero
    tangents) -> nonzero output tangents.
    """

    __slots__ = ("forward", "consts", "linear", "residuals", "out_nonzero", "n_outputs")

    def __init__(self, forward: Jaxpr, consts: list, linear: Jaxpr, residuals: list, out_nonzero: list, n_outputs: int):
        self.forward = forward
        self.consts = consts
        self.linear = linear
        self.residuals = residuals
        self.out_nonzero = out_nonzero
        self.n_outputs = n_outputs

    def collect(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The residuals, given the inputs and everything that `forward` returned."""
        n = self.n_outputs
        where = {"in": inputs, "out": outputs, "new": outputs[n:]}
        return [spec if kind == "const" else where[kind][spec] for kind, spec in self.residuals]


def linearize_jaxpr(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> Linearized:
    """The two halves of a program, memoised on it."""
    found = jaxpr.memo.get(("linearize", nonzero))
    if found is None:
        halves = _in_halves(jaxpr.in_avals, lambda xs: linearize_eval(jaxpr, xs, nonzero))
        found = jaxpr.memo.setdefault(("linearize", nonzero), halves)
    return found


def apart_jaxpr(jaxpr: Jaxpr, linear: tuple[bool, ...], out_linear: tuple[bool, ...] | None = None) -> Linearized:
    """A program that is linear in some of its inputs, taken apart: what does not depend on those, and the rest.

    `forward`: (consts, known inputs) -> (known outputs, new residuals), `linear`: (residuals, linear inputs) -> linear outputs.
    `out_linear` may flag more outputs than depend on the linear inputs; by default it is those.
    """
    out_linear = out_linear or linear_outputs(jaxpr, linear)
    found = jaxpr.memo.get(("apart", linear, out_linear))
    if found is None:
        avals = [a for a, lin in zip(jaxpr.in_avals, linear) if not lin]
        halves = _in_halves(avals, lambda xs: _apart_eval(jaxpr, xs, linear, out_linear))
        found = jaxpr.memo.setdefault(("apart", linear, out_linear), halves)
    return found


def _apart_eval(
    jaxpr: Jaxpr, known: Sequence[Any], linear: tuple[bool, ...], out_linear: tuple[bool, ...]
) -> tuple[list[Any], list[bool], Jaxpr, list[Any]]:
    """(known outputs, which outputs are linear, linear jaxpr, residuals)."""
    recording = TangentTrace("linearize", protect=lambda x: x)
    given = iter(known)
    try:
        args = [recording.new_input(v.aval) if lin else next(given) for v, lin in zip(jaxpr.inputs, linear)]
        outs = eval_jaxpr(jaxpr, args)
        program, residuals = recording.jaxpr([o for o, lin in zip(outs, out_linear) if lin])
    finally:
        recording.closed = True
    program, residuals = drop_unused_residuals(prune(program), residuals)
    return [o for o, lin in zip(outs, out_linear) if not lin], list(out_linear), program, residuals


def _in_halves(avals: Sequence[Any], run: Callable[[Sequence[Any]], tuple[list, list, Jaxpr, list]]) -> Linearized:
    """Both halves; `run(inputs) -> (outputs, out_nonzero, linear jaxpr, residuals)` computes one, records the other."""
    box: dict[str, Any] = {}

    def forward(*xs: Any) -> list[Any]:
        outs, out_nonzero, linear, residuals = run(xs)
        inputs = {id(x): i for i, x in enumerate(xs)}
        outputs = {id(o): i for i, o in enumerate(outs) if type(o) is Tracer}
        sources: list[tuple[str, Any]] = []
        new: list[Any] = []
        for r in residuals:
            if id(r) in inputs:
                sources.append(("in", inputs[id(r)]))
            elif id(r) in outputs:
                sources.append(("out", outputs[id(r)]))
            elif type(r) is Tracer:
                sources.append(("new", len(new)))
                new.append(r)
            else:
                sources.append(("const", r))
        box.update(linear=linear, residuals=sources, out_nonzero=out_nonzero, n_outputs=len(outs))
        return [*outs, *new]

    program, consts = trace_function(forward, avals, name="linearize")
    return Linearized(prune(program), consts, **box)

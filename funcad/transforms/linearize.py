"""Linearization of a program: run it once, keep residuals, leave a linear program for the tangents.

Idea: linearize is jvp with traced tangents and untraced primals. The primal work runs (or is recorded further out); what is
recorded is the tangent program, whose captured values are exactly the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.prune import prune, used_inputs
from funcad.ir.trace import AbstractTrace, trace_function
from funcad.ir.tracer import Tracer
from funcad.transforms.jvp import jvp_eval

__all__ = ["linearize_eval", "linearize_jaxpr", "Linearized"]


def linearize_eval(
    jaxpr: Jaxpr, primals: Sequence[Any], nonzero: Sequence[bool]
) -> tuple[list[Any], list[bool], Jaxpr, list[Any]]:
    """(outputs, out_nonzero, linear jaxpr, residuals); the linear jaxpr maps (residuals, nonzero tangents) to tangents."""
    recording = AbstractTrace("linearize", protect=lambda x: x)
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
    key = ("linearize", nonzero)
    found = jaxpr.memo.get(key)
    if found is None:
        box: dict[str, Any] = {}

        def forward(*xs: Any) -> list[Any]:
            outs, out_nonzero, linear, residuals = linearize_eval(jaxpr, xs, nonzero)
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

        program, consts = trace_function(forward, jaxpr.in_avals, name="linearize")
        found = jaxpr.memo.setdefault(key, Linearized(prune(program), consts, **box))
    return found

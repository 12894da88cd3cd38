"""Linearization of a program: run it once, keep residuals, leave a linear program for the tangents.

Idea: linearize is jvp with traced tangents and untraced primals. The primal work runs (or is recorded further out); what is
recorded is the tangent program, whose captured values are exactly the residuals. A custom rule may compute its primal and its
tangent in one program (the jvp of a loop); such a program is split as it is recorded (partial.py), or the primal would be lost
in the tangent program.
"""

from __future__ import annotations

from collections.abc import Sequence

from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.prune import prune
from funcad.ir.types import AnyAval, Value
from funcad.transforms.jvp import jvp_eval
from funcad.transforms.partial import Halves, TangentTrace, drop_unused_residuals, in_halves

__all__ = ["linearize_eval", "linearize_jaxpr"]


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

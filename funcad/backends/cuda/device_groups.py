"""Operations that are kernels of their own on a device: a draw, and a loop that fits one block, each a group of one equation.

Invariant: a group's program is the equation itself, so where its kernel is not there yet, or never, its lines run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from funcad.backends.cuda.cuda_loops import loop_text
from funcad.backends.plans.unsupported import Unsupported
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.passes.subprograms import with_subprograms
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import LOOPS
from funcad.primitives.random_bits import draw_p

__all__ = ["with_device_groups"]


def with_device_groups(jaxpr: Jaxpr, note: Callable[[str], None]) -> Jaxpr:
    """The program with these as groups, of kinds "draw" and "loop"; `note` hears why a loop is none."""
    found = tuple([_grouped(e, note) for e in jaxpr.equations])
    same = all([a is b for a, b in zip(found, jaxpr.equations)])
    return jaxpr if same else Jaxpr(jaxpr.inputs, found, jaxpr.outputs)


def _grouped(equation: Equation, note: Callable[[str], None]) -> Equation:
    inputs = tuple(dict.fromkeys([a for a in equation.inputs if type(a) is Var]))
    if equation.primitive is draw_p and inputs:
        return _alone(equation, inputs, "draw", equation.outputs[0].aval.shape)
    if equation.primitive.name in LOOPS:
        try:
            loop_text(equation, inputs)
        except Unsupported as reason:
            note(f"{equation.primitive.name} at {equation.source}: {reason}")
        else:
            length = equation.params["loop"].length
            return _alone(equation, inputs, "loop", () if length is None else (length,))
    if equation.primitive.multiple:
        return with_subprograms(equation, partial(with_device_groups, note=note))
    return equation


def _alone(equation: Equation, inputs: tuple[Var, ...], kind: str, shape: tuple[int, ...]) -> Equation:
    group = Jaxpr(inputs, (equation,), equation.outputs)
    return Equation(fused_p, inputs, {"jaxpr": group, "kind": kind, "shape": shape}, equation.outputs, equation.source)

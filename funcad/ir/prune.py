"""Dead code: drop the equations whose results nobody reads, and find the inputs that are then unused.

Effects are never dropped, except from a program that runs beside another which has them too. Used by transforms on the
programs that they derive; the compiler's own pass builds on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from funcad.ir.jaxpr import Jaxpr, Var, equation_has_effects

__all__ = ["prune", "used_inputs"]


def prune(jaxpr: Jaxpr, keep: Sequence[bool] | None = None, effects: bool = True) -> Jaxpr:
    """The program with only the outputs flagged in `keep` (default: all) and the equations that they need, or `effects`."""
    outputs = jaxpr.outputs if keep is None else tuple(o for o, k in zip(jaxpr.outputs, keep) if k)
    live = {o for o in outputs if type(o) is Var}
    kept = []
    for equation in reversed(jaxpr.equations):
        if any(o in live for o in equation.outputs) or (effects and equation_has_effects(equation)):
            kept.append(equation)
            live.update(a for a in equation.inputs if type(a) is Var)
    if len(kept) == len(jaxpr.equations) and len(outputs) == len(jaxpr.outputs):
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(reversed(kept)), outputs)


def used_inputs(jaxpr: Jaxpr) -> list[bool]:
    """Which inputs some equation or output reads."""
    used = {o for o in jaxpr.outputs if type(o) is Var}
    for equation in jaxpr.equations:
        used.update(a for a in equation.inputs if type(a) is Var)
    return [v in used for v in jaxpr.inputs]

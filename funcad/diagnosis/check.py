"""`check_jaxpr`: the IR's specification as a program, run after every pass in the tests.

Checked: every variable is defined once before it is used; the outputs of an equation have the avals that its primitive's
`abstract_eval` gives for its inputs; only literals stand at rank 0 beside shaped operands of elementwise primitives (their
`abstract_eval` rejects variables); sub-programs too.
"""

from __future__ import annotations

from funcad.ir.jaxpr import Jaxpr, Literal, subjaxprs
from funcad.ir.types import AnyAval

__all__ = ["check_jaxpr", "JaxprError"]


class JaxprError(AssertionError):
    """A program violates the IR's rules: a bug of funcad's, never of the user's."""


def _same(a: AnyAval, b: AnyAval) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise JaxprError at the first equation that breaks the rules."""
    defined = set()
    for v in jaxpr.inputs:
        if v in defined:
            raise JaxprError(f"input {v} appears twice in\n{jaxpr}")
        defined.add(v)
    for equation in jaxpr.equations:
        for atom in equation.inputs:
            if not isinstance(atom, Literal) and atom not in defined:
                raise JaxprError(f"{atom} is used before it is defined, in\n{equation}\nof\n{jaxpr}")
        avals = equation.primitive.abstract_eval(*[a.aval for a in equation.inputs], **equation.params)
        if not equation.primitive.multiple:
            avals = [avals]
        if len(avals) != len(equation.outputs) or not all(_same(a, o.aval) for a, o in zip(avals, equation.outputs)):
            raise JaxprError(f"{equation}\nshould give {avals}, in\n{jaxpr}")
        for v in equation.outputs:
            if v in defined:
                raise JaxprError(f"{v} is defined twice, in\n{jaxpr}")
            defined.add(v)
        for sub in subjaxprs(equation.params):
            check_jaxpr(sub)
    for atom in jaxpr.outputs:
        if not isinstance(atom, Literal) and atom not in defined:
            raise JaxprError(f"output {atom} is not defined in\n{jaxpr}")

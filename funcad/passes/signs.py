"""Signs move out of sums: the sum of -x is 0 - the sum of x, and of x * -y it is 0 - the sum of x * y.

A negation inside a sum is a pass over an array; behind it, an operation on what is left of the axes. Not a bit changes:
rounding knows no direction, and NumPy's sums start at +0, so none is -0. Trap: 0 - 0 is +0, as the sum of negative zeros is,
but -(0) is not. Only what the sum alone reads is rewritten, so nothing is computed twice.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.rewrite import Work, rewrite, uses_of
from funcad.primitives.arithmetic import mul, neg, sub
from funcad.primitives.reduction import reduce_sum_p

__all__ = ["signs"]


def signs(jaxpr: Jaxpr) -> Jaxpr:
    """The program with negations behind the sums that alone read them.

    >>> import numpy as np, funcad
    >>> from funcad.passes.signs import signs
    >>> print(signs(funcad.make_jaxpr(lambda x: np.sum(-x))(np.ones(2)).jaxpr))
    { lambda a:f64[2] . let
        b:f64[2] = neg a
        c:f64[] = reduce_sum[axes=(0,)] a
        d:f64[] = sub 0.0 c
      in (d,) }
    """
    present = {e.primitive for e in jaxpr.equations}
    if reduce_sum_p not in present or neg not in present:
        return jaxpr
    uses = uses_of(jaxpr)

    def step(work: Work, equation: Equation) -> Any:
        if equation.primitive is not reduce_sum_p or not equation.params["axes"]:
            return None
        x = _positive(work, equation.inputs[0], uses)
        if x is None:
            return None
        total = work.add(reduce_sum_p, (x,), equation.params, equation.source)
        found = work.add(sub, (Literal(0.0), total), {}, equation.source)
        uses[found] = uses.get(equation.outputs[0], 0)
        return [found]

    return rewrite(jaxpr, step)


def _positive(work: Work, x: Any, uses: dict[Any, int]) -> Any:
    """-x, if x is for one reader and a negation, or a product with one."""
    if type(x) is not Var or type(x.aval) is not Aval or x.aval.dtype.kind != "f" or uses.get(x) != 1:
        return None
    made = work.definition(x, neg)
    if made is not None:
        return made.inputs[0]
    made = work.definition(x, mul)
    if made is None:
        return None
    for k, a in enumerate(made.inputs):
        inner = work.definition(a, neg) if uses.get(a) == 1 else None
        if inner is not None and inner.inputs[0].aval == x.aval:
            inputs = [inner.inputs[0] if i == k else b for i, b in enumerate(made.inputs)]
            return work.add(mul, tuple(inputs), {}, made.source)
    return None

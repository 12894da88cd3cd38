"""Constant folding: an equation of literals whose result is a scalar becomes that literal.

The primitive's own implementation computes it, so the value and its type are those of the reference. What NumPy warns of, what
raises, and what does not come out as the promised scalar is left to run time. Programs hold no arrays: a broadcast literal
stays an equation, which costs a view, and an element operation on broadcast literals, or a reduction of one, becomes the
broadcast of another literal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from funcad.ir.aval import SCALAR_AVALS, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal
from funcad.passes.rewrite import Work, fits, rewrite
from funcad.primitives.shape import broadcast_in_dim, reshape, transpose

__all__ = ["fold", "fold_equation"]

LONGEST = 1 << 16  # elements of a broadcast literal that are summed up, or otherwise reduced, beforehand
_MOVES = frozenset([reshape, broadcast_in_dim, transpose])


def fold(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its constant scalars computed.

    >>> import numpy as np, funcad
    >>> from funcad.passes.fold import fold
    >>> from funcad.passes.inline import inline
    >>> f = funcad.jit(lambda a, x: np.sqrt(a) * np.sum(x))
    >>> print(fold(inline(funcad.make_jaxpr(lambda x: f(4.0, x))(np.ones(2)).jaxpr)))
    { lambda a:f64[2] . let
        b:f64[] = reduce_sum[axes=(0,)] a
        c:f64[] = mul 2.0:f64[] b
      in (c,) }
    """
    return rewrite(jaxpr, _step)


def _step(work: Work, equation: Equation) -> list[Any] | None:
    literal = fold_equation(equation)
    if literal is not None:
        return [literal]
    return _reduced(work, equation) if equation.primitive.reduction else _filled(work, equation)


def _reduced(work: Work, equation: Equation) -> list[Any] | None:
    """The reduction of an array that is one literal everywhere."""
    (x,), axes, out = equation.inputs, equation.params["axes"], equation.outputs[0]
    literal = _fill(work, x)
    count = math.prod([x.aval.shape[a] for a in axes])
    if literal is None or not axes or not 0 < count <= LONGEST:
        return None
    value = evaluate(equation.primitive, [np.full(count, literal.value)], {"axes": (0,)})
    if type(value) not in SCALAR_AVALS or SCALAR_AVALS[type(value)].dtype != out.aval.dtype:
        return None
    found = Literal(value)
    if out.aval.shape:
        found = work.add(broadcast_in_dim, [found], {"shape": out.aval.shape, "axes": ()}, equation.source)
    return [found] if fits(found.aval, out.aval) else None


def _filled(work: Work, equation: Equation) -> list[Any] | None:
    """An operation on arrays that are one literal everywhere, as such an array."""
    primitive, inputs, outputs = equation.primitive, equation.inputs, equation.outputs
    if primitive.emit is None and primitive is not broadcast_in_dim or primitive.multiple or not outputs[0].aval.shape:
        return None
    literals = [_fill(work, a) for a in inputs]
    if not inputs or any([a is None for a in literals]) or primitive is broadcast_in_dim and literals[0] is inputs[0]:
        return None
    aval = outputs[0].aval
    if primitive is broadcast_in_dim:
        value = literals[0].value
    else:
        value = evaluate(primitive, [a.value for a in literals], equation.params)
    if type(value) not in SCALAR_AVALS or SCALAR_AVALS[type(value)].dtype != aval.dtype:
        return None
    made = work.add(broadcast_in_dim, [Literal(aval.dtype.type(value))], {"shape": aval.shape, "axes": ()}, equation.source)
    return [made] if fits(made.aval, aval) else None


def _fill(work: Work, atom: Any) -> Literal | None:
    """The literal that a value is everywhere, with the dtype that it has there."""
    if type(atom) is Literal:
        return atom
    definition = work.definition(atom, broadcast_in_dim)
    if definition is None or type(definition.inputs[0]) is not Literal:
        return None
    aval = definition.outputs[0].aval
    return Literal(aval.dtype.type(definition.inputs[0].value))


def fold_equation(equation: Equation) -> Literal | None:
    """The literal that the equation computes, or None."""
    inputs = equation.inputs
    for a in inputs:
        if type(a) is not Literal:
            return None
    primitive = equation.primitive
    if not inputs or primitive.multiple or primitive.effect or primitive.barrier:
        return None
    aval = equation.outputs[0].aval
    if aval.shape or type(aval) is StackAval or not (primitive.emit or primitive.reduction or primitive in _MOVES):
        return None
    value = evaluate(primitive, [a.value for a in inputs], equation.params)
    if type(value) not in SCALAR_AVALS:
        return None
    try:
        literal = Literal(value)
    except OverflowError:  # a Python integer that fits no dtype
        return None
    return literal if fits(literal.aval, aval) else None


def evaluate(primitive: Any, values: list[Any], params: dict[str, Any]) -> Any:
    """The result, or None if NumPy would warn or raise."""
    try:
        with np.errstate(all="raise"):
            return primitive.impl(np, *values, **params)
    except (ArithmeticError, ValueError, TypeError, AttributeError, RuntimeError):  # then it is for run time to say so
        return None

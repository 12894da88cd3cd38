"""Compositions taken apart where one part of them is known before the loop that they stand in.

`t * (1 - y * y)` is one equation, for tanh's derivative; in a loop where t changes with the carry and y is an x, the factor is
the same work in every turn that could be done once for all of them. Used by hoist.py, which then moves the part. Invariant: the
parts compute what the composition's implementation computes, operation by operation, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.ir.jaxpr import Equation, Literal, Var
from funcad.primitives.arithmetic import add_p, mul_add_p, mul_p, sub_p
from funcad.primitives.transcendental import logistic_linear_p, tanh_linear_p

__all__ = ["split_up", "tanh_slope", "logistic_slope"]


def tanh_slope(do: Callable[..., Any], y: Any) -> Any:
    """The derivative of tanh, from its value."""
    return do(sub_p, Literal(1.0), do(mul_p, y, y))


def logistic_slope(do: Callable[..., Any], y: Any) -> Any:
    """The derivative of the logistic function, from its value."""
    return do(mul_p, y, do(sub_p, Literal(1.0), y))


def _tanh_linear(do: Callable[..., Any], known: Callable[..., bool], t: Any, y: Any) -> tuple | None:
    return (mul_p, t, tanh_slope(do, y)) if known(y) and not known(t) else None


def _logistic_linear(do: Callable[..., Any], known: Callable[..., bool], t: Any, y: Any) -> tuple | None:
    return (mul_p, t, logistic_slope(do, y)) if known(y) and not known(t) else None


def _mul_add(do: Callable[..., Any], known: Callable[..., bool], a: Any, b: Any, c: Any, d: Any) -> tuple | None:
    varies = any([type(x) is Var for x in (a, b)]) and any([type(x) is Var for x in (c, d)])
    return (add_p, do(mul_p, a, b), do(mul_p, c, d)) if varies and known(a, b) != known(c, d) else None


PARTS: dict[Any, Callable[..., tuple | None]] = {
    tanh_linear_p: _tanh_linear,
    logistic_linear_p: _logistic_linear,
    mul_add_p: _mul_add,
}


def split_up(body: Sequence[Equation], start: set[Any]) -> list[Equation]:
    """The equations; those of PARTS in parts if one part, but not the whole, depends on `start` alone."""
    if not any([e.primitive in PARTS for e in body]):
        return list(body)
    names = set(start)
    result: list[Equation] = []

    def known(*atoms: Any) -> bool:
        return any([type(a) is Var for a in atoms]) and all([type(a) is Literal or a in names for a in atoms])

    for equation in body:
        steps: list[Equation] = []

        def do(primitive: Any, *inputs: Any, steps: list = steps, equation: Equation = equation) -> Var:
            v = Var(primitive.abstract_eval(*[a.aval for a in inputs]))
            steps.append(Equation(primitive, inputs, {}, (v,), equation.source))
            return v

        rule = PARTS.get(equation.primitive)
        found = rule(do, known, *equation.inputs) if rule is not None and _alike(equation) else None
        for e in (*steps, equation if found is None else equation._replace(primitive=found[0], inputs=found[1:])):
            result.append(e)
            if known(*e.inputs):
                names.update(e.outputs)
    return result


def _alike(equation: Equation) -> bool:
    """Have all operands the result's shape and dtype, apart from weak literals?"""
    out = equation.outputs[0].aval
    return not out.weak and all(
        [
            a.aval.weak if type(a) is Literal else a.aval.shape == out.shape and a.aval.dtype == out.dtype and not a.aval.weak
            for a in equation.inputs
        ]
    )

"""Squares of values whose slope turns: norms, absolute values, standard deviations.

`norm(x)` has no second derivative at 0, `norm(x)**2` has all: it is a sum of squares. Multiplied by itself, such a value would
give 2 * 0 * NaN there. So a square asks the operation that made its operand: a primitive declares by `square(*operands,
**params)` what the square of its result is, in operations whose derivatives are right everywhere; operations that only move
numbers (reshape, indexing) hand the question on to their operand. The value is still the product; `exact_pow`
(primitives/arithmetic.py) takes its derivatives from the answer.

Invariant: the answer is recorded where the square is, so every transform finds it in the program and none needs to know of it.
Trap: the operands are kept alive as long as the value that was made of them, hence `keeps_operands`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.ir.tracer import Tracer

__all__ = ["exact_square", "keeps_operands", "moved_square"]


def exact_square(x: Any) -> Any:
    """The square of a traced x in operations that have all derivatives, if what made x knows it; None otherwise."""
    if type(x) is not Tracer or not x.owner.turned:
        return None
    made = x.owner.made_by(x)
    if made is None:
        return None
    primitive, operands, params, i = made
    if primitive.multiple:
        return primitive.square(i, *operands, **params)
    return primitive.square(*operands, **params)


def moved_square(primitive: Any) -> Callable[..., Any]:
    """The fact `square` of a primitive that moves the elements of its first operand: the square moves with them."""

    def square(x: Any, *others: Any, **params: Any) -> Any:
        found = exact_square(x)
        return None if found is None else primitive(found, *others, **params)

    return square


def keeps_operands(primitive: Any, operands: Sequence[Any], params: dict[str, Any], i: int = 0) -> bool:
    """Must an un-jitted trace remember what the result (number i) is made of?"""
    if primitive.square is None:
        return False
    if primitive.multiple:
        return primitive.turns(i, params["jaxpr"])
    return primitive.turns or any([type(a) is Tracer and a.owner.made_by(a, True) is not None for a in operands])

"""Powers: `pow` of two operands that may both be variables; a literal integral exponent goes to `integer_pow` of arithmetic.py.

Traps: x**0 has derivative exactly 0, 0**y is flat in y for positive y, and x**x at 0 has one slope.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.primitives.arithmetic import add, integer_pow, mul, sub
from funcad.primitives.array_formulas import power
from funcad.primitives.comparison import and_, eq, gt, select
from funcad.primitives.families import add_tangents, elementwise
from funcad.primitives.python_operators import with_ufunc
from funcad.primitives.shape import beside, broadcast_in_dim
from funcad.primitives.transcendental import log

__all__ = ["pow", "pow_p"]


def _is_scalar(x: Any) -> bool:
    return is_a(x, (int, float, complex, np.generic))


def _pow_tangents(tangents: Any, out: Any, x: Any, y: Any) -> Any:
    tx, ty = tangents
    if ty is None and _is_scalar(y) and y == 0:
        return None
    x, y = beside(x, y), beside(y, x)
    if ty is None:
        return mul(_slope_by_base(x, y, True), tx)
    by_exponent = _slope_by_exponent(out, x, y)
    if tx is ty and x is y:  # x**x: one slope, or its 0 would meet infinities at 0 in reverse mode
        return mul(add(_slope_by_base(x, y, False), by_exponent), tx)
    return add_tangents(None if tx is None else mul(_slope_by_base(x, y, False), tx), mul(by_exponent, ty))


def _grown(x: Any, other: Any) -> Any:
    """A variable that stands for a literal, in the shape of the other operand: what is made of it is no literal any more."""
    shape = shape_of(other)
    return x if shape_of(x) == shape or shape_of(x) else broadcast_in_dim(x, shape=shape, axes=())


def _slope_by_base(x: Any, y: Any, constant: bool) -> Any:
    if constant and _is_scalar(y):
        return mul(y, pow(x, y - 1))
    y = _grown(y, x)
    safe = select(and_(eq(x, 0.0), eq(y, 0.0)), 1.0, x)  # 0 * 0**-1: the derivative of x**0 is 0 at 0, too
    return mul(y, pow(safe, sub(y, 1.0)))


def _slope_by_exponent(out: Any, x: Any, y: Any) -> Any:
    """out * log(x); where 0**y is 0 that is flat in y, and 0 * -inf; at 0**0 the slope is -inf."""
    if _is_scalar(x):  # the logarithm of a literal is a literal of the operands' dtype
        scalar = dtype_of(out).type
        return mul(out, select(gt(y, 0.0), scalar(0), scalar(-np.inf)) if x == 0 else np.log(scalar(x)))
    x = _grown(x, y)
    return mul(out, log(select(and_(eq(x, 0.0), gt(y, 0.0)), 1.0, x)))


pow_p = with_ufunc(elementwise("pow", power, _pow_tangents, emit=lambda e, x, y: e.pow(x, y), weak=True), np.power)


def _integral(y: Any) -> int | None:
    """The integer that a literal exponent is, if it is one."""
    if not _is_scalar(y) or is_a(y, (bool, np.bool_)):
        return None
    if is_a(y, (complex, np.complexfloating)):
        if y.imag != 0:
            return None
        y = y.real
    return int(y) if abs(y) < 2**31 and int(y) == y else None


def pow(x: Any, y: Any) -> Any:
    """x**y; an integral literal exponent is a polynomial or its reciprocal, with safe derivatives at 0."""
    n = None if _is_scalar(x) or aval_of(x).weak and not aval_of(y).weak else _integral(y)
    return pow_p(x, y) if n is None else integer_pow(x, n)

"""Transcendental functions: exponentials, logarithms, trigonometric and hyperbolic functions and their inverses, and powers.

Where the derivative is a function of the result (exp, tanh, logistic), the result is the only residual. Special
points: the derivatives of `logaddexp` of two equal infinities are those of any other tie; `sinc` and all its derivatives are
exact to rounding near 0 (one primitive with the order of the derivative as a parameter).
"""

from __future__ import annotations

from math import factorial, pi
from math import log as _log
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.primitive import is_linear
from funcad.primitives import placement
from funcad.primitives.arithmetic import abs_, add, div, hypot, integer_pow, mul, neg, sqrt, square, sub
from funcad.primitives.comparison import and_, eq, gt, select
from funcad.primitives.families import add_tangents, elementwise, power, with_ufunc
from funcad.primitives.shape import beside, broadcast_in_dim

_LN2, _LN10 = _log(2.0), _log(10.0)

sin = elementwise("sin", np.sin, [lambda t, out, x: mul(t, cos(x))], emit=lambda e, x: e.sin(x), calm=True)
cos = elementwise("cos", np.cos, [lambda t, out, x: mul(t, neg(sin(x)))], emit=lambda e, x: e.cos(x), calm=True)
tan = elementwise("tan", np.tan, [lambda t, out, x: mul(t, add(1.0, square(out)))], emit=lambda e, x: e.tan(x))
exp = elementwise("exp", np.exp, [lambda t, out, x: mul(t, out)], emit=lambda e, x: e.exp(x), calm=True)
exp2 = elementwise("exp2", np.exp2, [lambda t, out, x: mul(t, mul(_LN2, out))], emit=lambda e, x: e.exp2(x), calm=True)
expm1 = elementwise("expm1", np.expm1, [lambda t, out, x: mul(t, add(out, 1.0))], emit=lambda e, x: e.expm1(x), calm=True)
log = elementwise("log", np.log, [lambda t, out, x: div(t, x)], emit=lambda e, x: e.log(x), calm=True)
log2 = elementwise("log2", np.log2, [lambda t, out, x: div(t, mul(_LN2, x))], emit=lambda e, x: e.log2(x), calm=True)
log10 = elementwise("log10", np.log10, [lambda t, out, x: div(t, mul(_LN10, x))], emit=lambda e, x: e.log10(x), calm=True)
log1p = elementwise("log1p", np.log1p, [lambda t, out, x: div(t, add(1.0, x))], emit=lambda e, x: e.log1p(x), calm=True)


def _root(x: Any, *, a: float, b: float) -> Any:
    """sqrt(a * x**2 + b) with its full accuracy near the zeros of the square, for (a, b) = (-1, 1), (1, -1), (1, 1)."""
    if a < 0:
        return sqrt(mul(sub(1.0, x), add(1.0, x)))
    if b < 0:
        return mul(sqrt(sub(x, 1.0)), sqrt(add(x, 1.0)))
    if dtype_of(x).kind == "c":
        return mul(sqrt(add(1.0, mul(1j, x))), sqrt(sub(1.0, mul(1j, x))))
    root = sqrt(add(1.0, square(x)))
    return select(gt(root, 2.0 ** (np.finfo(dtype_of(x)).nmant + 1)), abs_(x), root)  # far away, for the square may overflow


def over_root(x: Any, *, a: float, b: float) -> Any:
    """1 / sqrt(a * x**2 + b): the slopes of the inverse functions."""
    return div(1.0, _root(x, a=a, b=b))


# its derivative is a product of itself, in which no 0 meets an infinity at the ends of the domains
over_root_p = elementwise(
    "over_root",
    lambda xp, x, *, a, b: over_root(x, a=a, b=b),
    [lambda t, out, x, *, a, b: mul(mul(mul(-a, x), mul(out, mul(out, out))), t)],
    lowering=over_root,
)
arcsin = elementwise(
    "arcsin", np.arcsin, [lambda t, out, x: mul(over_root_p(x, a=-1.0, b=1.0), t)], emit=lambda e, x: e.arcsin(x)
)
arccos = elementwise(
    "arccos", np.arccos, [lambda t, out, x: neg(mul(over_root_p(x, a=-1.0, b=1.0), t))], emit=lambda e, x: e.arccos(x)
)
arctan = elementwise(
    "arctan", np.arctan, [lambda t, out, x: div(t, add(1.0, square(x)))], emit=lambda e, x: e.arctan(x)
)


def _arctan2_by_y(t: Any, out: Any, y: Any, x: Any) -> Any:
    r = hypot(y, x)
    return mul(div(div(x, r), r), t)


def _arctan2_by_x(t: Any, out: Any, y: Any, x: Any) -> Any:
    r = hypot(y, x)
    return neg(mul(div(div(y, r), r), t))


arctan2 = elementwise(
    "arctan2", np.arctan2, [_arctan2_by_y, _arctan2_by_x], emit=lambda e, y, x: e.arctan2(y, x)
)
sinh = elementwise("sinh", np.sinh, [lambda t, out, x: mul(t, cosh(x))], emit=lambda e, x: e.sinh(x))
cosh = elementwise("cosh", np.cosh, [lambda t, out, x: mul(t, sinh(x))], emit=lambda e, x: e.cosh(x))
tanh = elementwise("tanh", np.tanh, [lambda t, out, x: tanh_linear(t, out)], emit=lambda e, x: e.tanh(x), calm=True)
arcsinh = elementwise(
    "arcsinh", np.arcsinh, [lambda t, out, x: mul(over_root_p(x, a=1.0, b=1.0), t)], emit=lambda e, x: e.arcsinh(x)
)
arccosh = elementwise(
    "arccosh", np.arccosh, [lambda t, out, x: mul(over_root_p(x, a=1.0, b=-1.0), t)], emit=lambda e, x: e.arccosh(x)
)
arctanh = elementwise(
    "arctanh", np.arctanh, [lambda t, out, x: div(t, mul(sub(1.0, x), add(1.0, x)))], emit=lambda e, x: e.arctanh(x)
)


# t * (1 - y * y): tanh's output is its only residual, so a chain of tanh keeps one array per layer
tanh_linear = elementwise(
    "tanh_linear",
    None,
    [lambda u, out, t, y: tanh_linear(u, y), lambda u, out, t, y: mul(mul(mul(-2.0, y), t), u)],
    transpose=lambda ct, t, y: [tanh_linear(ct, y) if is_linear(t) else None, None],
    emit=lambda e, t, y: e.mul(t, e.sub(e.const(1.0), e.mul(y, y))),
)


def _logistic(e: Any, x: Any) -> Any:
    small = e.exp(e.neg(e.abs(x)))  # never overflows, and keeps the relative accuracy of tiny results
    return e.div(e.select(e.lt(x, e.const(0.0)), small, e.const(1.0)), e.add(e.const(1.0), small))


logistic_p = elementwise("logistic", None, [lambda t, out, x: logistic_linear(t, out)], emit=_logistic, calm=True)
complex_logistic_p = elementwise(  # complex numbers have no order
    "complex_logistic",
    None,
    [lambda t, out, x: logistic_linear(t, out)],
    emit=lambda e, x: e.div(e.const(1.0), e.add(e.const(1.0), e.exp(e.neg(x)))),
    calm=True,
)
# t * y * (1 - y): the output is the only residual
logistic_linear = elementwise(
    "logistic_linear",
    None,
    [lambda u, out, t, y: logistic_linear(u, y), lambda u, out, t, y: mul(mul(sub(1.0, mul(2.0, y)), t), u)],
    transpose=lambda ct, t, y: [logistic_linear(ct, y) if is_linear(t) else None, None],
    emit=lambda e, t, y: e.mul(t, e.mul(y, e.sub(e.const(1.0), y))),
)


difference_p = elementwise(  # x - y with 0 between equal infinities, too; its derivative is that of x - y everywhere
    "difference",
    None,
    lambda tangents, out, x, y: sub(*[0.0 if t is None else t for t in tangents]),
    emit=lambda e, x, y: e.select(e.eq(x, y), e.const(0.0), e.sub(x, y)),
)


def _difference(x: Any, y: Any) -> Any:
    """x - y, 0 between equal infinities."""
    for v in (x, y):
        if is_a(v, (int, float, np.floating)) and np.isfinite(v):
            return sub(x, y)
    return difference_p(x, y)


logaddexp = elementwise(
    "logaddexp",
    np.logaddexp,
    [
        lambda t, out, x, y: mul(logistic(_difference(x, y)), t),
        lambda t, out, x, y: mul(logistic(_difference(y, x)), t),
    ],
    emit=lambda e, x, y: e.logaddexp(x, y),
)
logaddexp2 = elementwise(
    "logaddexp2",
    np.logaddexp2,
    [
        lambda t, out, x, y: mul(logistic(mul(_LN2, _difference(x, y))), t),
        lambda t, out, x, y: mul(logistic(mul(_LN2, _difference(y, x))), t),
    ],
    emit=lambda e, x, y: e.logaddexp2(x, y),
    device=placement.logaddexp2,
)


def _sinc_impl(xp: Any, x: Any, *, order: int) -> Any:
    """The derivative of this order of sin(u)/u at u = pi * x, times pi**order."""
    if not order:
        return np.sinc(x) if xp is np else placement.sinc(xp, xp.sinc, x)
    u = xp.asarray(x) * pi
    near = xp.abs(u) < order + 2.0
    v = xp.where(near, u, 0.0)  # Taylor's series near 0 ...
    series, k = xp.zeros_like(v), -(-order // 2)
    terms = [(-1) ** j / ((2 * j + 1) * factorial(2 * j - order)) for j in range(k, k + 14 + 2 * order)]
    for term in reversed(terms):
        series = series * (v * v) + term
    if order % 2:
        series = series * v
    w = xp.where(near, float(order + 2), u)  # ... and the recursion by parts elsewhere
    value, shift = xp.sin(w) / w, w
    for n in range(1, order + 1):
        shift = shift + pi / 2
        value = (xp.sin(shift) - n * value) / w
    out = xp.where(near, series, value) * pi**order
    return out[()] if xp is np and not out.ndim else out


sinc_p = elementwise("sinc", _sinc_impl, [lambda t, out, x, *, order: mul(sinc(x, order + 1), t)])


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    return complex_logistic_p(x) if dtype_of(x).kind == "c" else logistic_p(x)


def sinc(x: Any, order: int = 0) -> Any:
    """NumPy's sinc, sin(pi x) / (pi x), or its derivative of some order."""
    return sinc_p(x, order=order)


# -- powers: `pow` of two operands that may both be variables
#
# Powers: `pow` of two operands that may both be variables; a literal integral exponent goes to `integer_pow` of arithmetic.py.
#
# Traps: x**0 has derivative exactly 0, 0**y is flat in y for positive y, and x**x at 0 has one slope.


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

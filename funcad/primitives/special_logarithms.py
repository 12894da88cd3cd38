"""Special functions: entropies, logits, power transforms and robust losses.

They are made of logarithms and powers, exact at their limits.
"""

from __future__ import annotations

from math import inf
from typing import Any

from funcad.primitives import placement
from funcad.primitives.arithmetic import abs_, add, div, hypot, mul, neg, sign, square, sub
from funcad.primitives.comparison import and_, eq, gt, le, select
from funcad.primitives.special_rules import gauss, numerical, ratio, ufunc
from funcad.primitives.transcendental import log, log1p, logistic, pow, sin

# x * log(y), 0 where x is 0.
xlogy = ufunc(
    "xlogy",
    lambda t, out, x, y: mul(log(y), t),
    lambda t, out, x, y: mul(ratio(x, y), t),
    transpose=lambda ct, x, y: [mul(log(y), ct), None],
)
# x * log1p(y), 0 where x is 0.
xlog1py = ufunc(
    "xlog1py",
    lambda t, out, x, y: mul(log1p(y), t),
    lambda t, out, x, y: mul(ratio(x, add(1.0, y)), t),
    transpose=lambda ct, x, y: [mul(log1p(y), ct), None],
    device=placement.either_nan,
)
entr = ufunc("entr", lambda t, out, x: neg(mul(add(log(x), 1.0), t)))
rel_entr = ufunc(
    "rel_entr",
    lambda t, out, x, y: mul(add(log(div(x, y)), 1.0), t),
    lambda t, out, x, y: neg(mul(ratio(x, y), t)),
    device=placement.rel_entr,
)
kl_div = ufunc(
    "kl_div",
    lambda t, out, x, y: mul(log(div(x, y)), t),
    lambda t, out, x, y: mul(sub(1.0, ratio(x, y)), t),
)
logit = ufunc("logit", lambda t, out, x: div(t, mul(x, sub(1.0, x))))
log_expit = ufunc("log_expit", lambda t, out, x: mul(logistic(neg(x)), t))

# -- powers


def _exp_moment_kernel(xp: Any, z: Any, *, n: int) -> Any:
    """The integral of s**n exp(s z) over 0 < s < 1."""
    near = abs(z) < 16.0
    w = xp.where(near, z, 0.0)
    inner = 0.0
    for point, weight in zip(*gauss(24)):
        inner = inner + (weight * point**n) * xp.exp(w * point)
    w = xp.where(near, 1.0, z)
    power = xp.exp(w)
    outer = xp.expm1(w) / w
    for k in range(1, n + 1):
        outer = (power - k * outer) / w
    outer = xp.where(power == xp.inf, xp.inf, xp.where(power == 0, xp.where(z == -xp.inf, 0.0, outer), outer))
    return xp.where(near, inner, outer)


exp_moment_p = numerical("exp_moment", _exp_moment_kernel, lambda t, out, z, *, n: mul(exp_moment(z, n + 1), t))
# (exp(x) - 1) / x.
exprel = ufunc("exprel", lambda t, out, x: mul(exp_moment(x, 1), t), device=placement.at_infinity(inf))


def _slope_by_power(y: Any, m: Any) -> Any:
    """The derivative of (exp(m y) - 1) / m by m; at y = -inf, where x = 0, it is 1 / m**2 for positive m."""
    at_end = and_(eq(y, -inf), gt(m, 0.0))
    y = select(at_end, 0.0, y)
    return select(at_end, div(1.0, square(select(at_end, m, 1.0))), mul(square(y), exp_moment(mul(m, y), 1)))


boxcox = ufunc(
    "boxcox",
    lambda t, out, x, m: mul(pow(x, sub(m, 1.0)), t),
    lambda t, out, x, m: mul(_slope_by_power(log(x), m), t),
)
boxcox1p = ufunc(
    "boxcox1p",
    lambda t, out, x, m: mul(pow(add(1.0, x), sub(m, 1.0)), t),
    lambda t, out, x, m: mul(_slope_by_power(log1p(x), m), t),
)
inv_boxcox = ufunc(
    "inv_boxcox",
    lambda t, out, y, m: mul(pow(out, sub(1.0, m)), t),
    lambda t, out, y, m: neg(mul(mul(pow(out, sub(1.0, m)), _slope_by_power(log(out), m)), t)),
    device=placement.inv_boxcox("exp"),
)
inv_boxcox1p = ufunc(
    "inv_boxcox1p",
    lambda t, out, y, m: mul(pow(add(1.0, out), sub(1.0, m)), t),
    lambda t, out, y, m: neg(mul(mul(pow(add(1.0, out), sub(1.0, m)), _slope_by_power(log1p(out), m)), t)),
    device=placement.inv_boxcox("expm1"),
)
# x**y - 1.
powm1 = ufunc(
    "powm1",
    lambda t, out, x, y: mul(mul(y, pow(x, sub(y, 1.0))), t),
    lambda t, out, x, y: mul(xlogy(add(out, 1.0), x), t),
)
# cos(x) - 1.
cosm1 = ufunc("cosm1", lambda t, out, x: neg(mul(sin(x), t)))
exp10 = ufunc("exp10", lambda t, out, x: mul(mul(2.302585092994046, out), t))

# -- losses


def _huber_by_r(t: Any, out: Any, delta: Any, r: Any) -> Any:
    return mul(select(le(abs_(r), delta), r, mul(delta, sign(r))), t)


def _huber_by_delta(t: Any, out: Any, delta: Any, r: Any) -> Any:
    return mul(select(le(abs_(r), delta), 0.0, sub(abs_(r), delta)), t)


huber = ufunc("huber", _huber_by_delta, _huber_by_r)


def _pseudo_huber_by_delta(t: Any, out: Any, delta: Any, r: Any) -> Any:
    h = hypot(delta, r)
    return mul(ratio(square(ratio(square(r), add(h, delta))), h), t)


pseudo_huber = ufunc(
    "pseudo_huber",
    _pseudo_huber_by_delta,
    lambda t, out, delta, r: mul(ratio(mul(r, delta), hypot(delta, r)), t),
    device=placement.pseudo_huber,
)


def expit(x: Any) -> Any:
    """The logistic function."""
    return logistic(x)


def exp_moment(z: Any, n: int) -> Any:
    """The integral of s**n exp(s z) over 0 < s < 1: the derivative of order n of exprel."""
    return exp_moment_p(z, n=n)

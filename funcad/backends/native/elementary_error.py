"""erf and erfc, in double precision.

Idea: near 0 an odd polynomial. From 1/2 on, erfc(a) = exp(-a**2) f(t) / (1 + 2 a) with t = (a - 4) / (a + 4): f is smooth and
near 1, and one polynomial serves to where erfc underflows. The square's rounding error is part of the exponential, so that
erfc keeps its relative precision to the end.
"""

from __future__ import annotations

import math
from typing import Any

from funcad.backends.native.elementary import Floats

ERF = [  # erf(x) / x - 1 in x**2, |x| <= 1/2
    0.12837916709551256, -0.3761263890318347, 0.11283791670925271, -0.026866170632859, 0.0052239773725259965,
    -0.0008548297707906897, 0.00012053332795966865, -1.4845787890421724e-05, 1.4725211252266738e-06,
]  # fmt: skip
SCALED = [  # (1 + 2 a) exp(a**2) erfc(a) in t, for a in [1/2, 28]
    1.2329951186255526, -0.13962111684056253, 0.015379652102618924, 0.06809705425469509, -0.10103906603624732,
    0.09373283499827899, -0.06633036581376228, 0.037167515538287656, -0.016197734036370443, 0.005031969975154374,
    -0.0007577734619229854, -0.00019925671366880827, 0.00015062255128409077, -2.439897246410647e-05,
    -1.1224879165538663e-05, 5.708592413922289e-06, 2.9978954459972463e-07, -8.224542389218725e-07,
    6.682281028406653e-08, 1.0557011136782243e-07, -1.2149547563749143e-08, -1.0430346208360845e-08,
]  # fmt: skip
SCALED_LOW = -4.358824996576808e-17  # what the first one lacks


def _far(c: Floats, a: str) -> tuple[str, str, str]:
    """erfc(a) = (high + low) * 2**k for a >= 1/2, with k's bits."""
    a = c.at_least(c.at_most(a, 28.0), 0.5)
    square, square_low = c.product(a, a)
    power, power_low, bits = c.exp_parts(c.neg(square))
    power_low = c.less(power, square_low, power_low)
    t = c.div(c.sub(a, 4.0), c.add(a, 4.0))
    series = c.polynomial(SCALED[1:], t)
    f = c.fma(t, series, SCALED[0])
    f_low = c.add(c.fma(t, series, c.sub(SCALED[0], f)), SCALED_LOW)
    below, below_low = c.two_sum(c.add(a, a), 1.0)
    inverse = c.div(1.0, below)
    q = c.mul(f, inverse)
    q_low = c.mul(c.add(c.less(q, below, f), c.less(q, below_low, f_low)), inverse)
    high, low = c.product(power, q)
    return high, c.add(low, c.fma(power_low, q, c.mul(power, q_low))), bits


def _near(c: Floats, x: str) -> str:
    """erf(x) - x."""
    return c.mul(x, c.polynomial(ERF, c.mul(x, x)))


def erf(c: Floats, x: str) -> str:
    a = c.abs(x)
    high, low, bits = _far(c, c.at_most(a, 6.0))
    scale = c.power_of_two(bits)
    total, error = c.two_sum(c.k(1.0), c.neg(c.mul(high, scale)))
    far = c.add(total, c.less(low, scale, error))
    near = c.compare("olt", a, 0.5)
    out = c.copysign(c.select(near, c.add(a, _near(c, a)), far), x)
    return c.select(c.compare("uno", x, x), x, out)


def erfc(c: Floats, x: str) -> str:
    a = c.abs(x)
    high, low, bits = _far(c, a)
    far = c.scale(c.add(high, low), bits)
    below, error = c.two_sum(c.k(2.0), c.neg(far))
    negative = c.compare("olt", x, 0.0)
    out = c.select(negative, c.add(below, error), far)
    total, rest = c.two_sum(c.k(1.0), c.neg(x))
    near = c.add(total, c.sub(rest, _near(c, x)))
    out = c.select(c.compare("olt", a, 0.5), near, out)
    return c.select(c.compare("uno", x, x), math.nan, out)


def functions() -> dict[str, Any]:
    return {"erf": erf, "erfc": erfc}

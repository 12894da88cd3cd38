"""Hyperbolic functions and the inverses of circular and hyperbolic functions, in double precision.

Idea: near 0 an odd polynomial, whose leading term is exact; elsewhere a sum of a constant or a logarithm with small terms.
The leading part's rounding error (of a square root, a quotient, a sum) is computed, and added at the end. Single precision
runs through these functions, too.
"""

from __future__ import annotations

import math
from typing import Any

from funcad.backends.native.elementary import LN2, Floats

HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
QUARTER_PI, QUARTER_PI_LOW = 0.7853981633974483, 3.061616997868383e-17
# (f(t) - t) / t**3 as polynomials in t**2
SINH = [  # |t| <= 1
    0.16666666666666666, 0.008333333333333333, 0.00019841269841269773, 2.755731922404034e-06, 2.505210836405804e-08,
    1.6059048396350562e-10, 7.646625361656657e-13, 2.8445264169895285e-15,
]  # fmt: skip
ATAN = [  # |t| <= tan(pi / 8)
    -0.3333333333333333, 0.19999999999999804, -0.14285714285659779, 0.11111111105150588, -0.09090908753259112,
    0.07692296368042296, -0.0666642476020052, 0.05878927554473807, -0.05230443640686948, 0.045515447340221615,
    -0.03456931506332609, 0.016284375050043393,
]  # fmt: skip
ASIN = [  # |t| <= 1/2
    0.16666666666666669, 0.07499999999998425, 0.04464285714637338, 0.030381944137085216, 0.022372173002005596,
    0.017352391265909227, 0.013971235301124539, 0.011478952690257387, 0.010324318288744113, 0.00545087818772055,
    0.017419357964884856, -0.014881409392818066, 0.02877844261259304,
]  # fmt: skip
ASINH = [  # |t| <= 1/2
    -0.16666666666666666, 0.07499999999998634, -0.04464285714024319, 0.030381944247929123, -0.022372151428877916,
    0.017352587298211573, -0.013962230549022544, 0.011526169710979665, -0.009591247936123641, 0.007621670522957958,
    -0.004991590535569121, 0.0018845555695869874,
]  # fmt: skip
TINIEST = 1e-300  # a divisor that stands in for 0 under a numerator that is 0


def _odd(c: Floats, coefficients: list[float], t: str) -> str:
    """The term that follows t in an odd series."""
    z = c.mul(t, t)
    return c.mul(c.mul(t, z), c.polynomial(coefficients, z))


def _root(c: Floats, s: str, low: Any) -> tuple[str, str]:
    """The square root of s + low and its rest."""
    r = c.sqrt(s)
    rest = c.less(r, r, s)
    if low is not None:
        rest = c.add(rest, low)
    return r, c.mul(rest, c.div(0.5, c.at_least(r, TINIEST)))


def sinh(c: Floats, x: str) -> str:
    size = c.abs(x)
    near = c.add(size, _odd(c, SINH, size))
    return c.copysign(c.select(c.compare("olt", size, 1.0), near, c.hyperbolic(x, -1.0)), x)


def cosh(c: Floats, x: str) -> str:
    return c.hyperbolic(x, 1.0)


def _angle(c: Floats, above: str, right: str, back: str | None) -> str:
    """The angle of the point (right, above), both >= 0; of (-right, above) where `back`."""
    steep = c.compare("ogt", above, right)
    large, small = c.select(steep, above, right), c.select(steep, right, above)
    far = c.compare("ogt", small, c.mul(large, 0.41421356237309503))
    over = c.select(far, c.sub(small, large), small)
    under = c.select(far, c.add(small, large), large)
    q = c.div(over, c.select(c.compare("oeq", large, 0.0), 1.0, under))
    eighths = c.select(far, 1.0, 0.0)  # the angle is this multiple of pi / 4, plus or minus q's
    eighths = c.select(steep, c.sub(2.0, eighths), eighths)
    turned = steep
    if back is not None:
        eighths = c.select(back, c.sub(4.0, eighths), eighths)
        turned = c.put(f"xor {c.truth} {steep}, {back}")
    q = c.select(turned, c.neg(q), q)
    base, base_low = c.product(eighths, QUARTER_PI)
    base_low = c.fma(eighths, QUARTER_PI_LOW, base_low)
    total, error = c.two_sum(base, q)
    return c.add(total, c.add(error, c.add(_odd(c, ATAN, q), base_low)))


def arctan(c: Floats, x: str) -> str:
    return c.copysign(_angle(c, c.abs(x), c.k(1.0), None), x)


def arctan2(c: Floats, y: str, x: str) -> str:
    above, right = c.abs(y), c.abs(x)
    corner = c.both(c.compare("oeq", above, math.inf), c.compare("oeq", right, math.inf))
    huge = c.either(c.compare("ogt", above, 2.0**1020), c.compare("ogt", right, 2.0**1020))
    down = c.select(huge, 2.0**-10, 1.0)  # so that no sum overflows
    above = c.select(corner, 1.0, c.mul(above, down))
    right = c.select(corner, 1.0, c.mul(right, down))
    back = c.put(f"icmp slt {c.integers} {c.bits(x)}, {c.ik(0)}")
    out = c.copysign(_angle(c, above, right, back), y)
    return c.select(c.compare("uno", x, y), c.add(x, y), out)


def _arc(c: Floats, x: str) -> tuple[str, str, str, str]:
    """|x|; whether it is < 1/2; t, the |x| or sqrt((1 - |x|) / 2) whose arcsine leads; what follows t."""
    size = c.abs(x)
    near = c.compare("olt", size, 0.5)
    z = c.mul(c.sub(1.0, size), 0.5)
    root, rest = _root(c, z, None)
    t = c.select(near, size, root)
    return size, near, t, c.add(_odd(c, ASIN, t), c.select(near, 0.0, rest))


def arcsin(c: Floats, x: str) -> str:
    size, near, t, rest = _arc(c, x)
    total, error = c.two_sum(c.select(near, 0.0, HALF_PI), c.select(near, t, c.mul(t, -2.0)))
    low = c.select(near, rest, c.fma(rest, -2.0, HALF_PI_LOW))
    return c.copysign(c.add(total, c.add(error, low)), x)


def arccos(c: Floats, x: str) -> str:
    size, near, t, rest = _arc(c, x)
    positive = c.compare("ogt", x, 0.0)
    base = c.select(near, HALF_PI, c.select(positive, 0.0, 2 * HALF_PI))
    base_low = c.select(near, HALF_PI_LOW, c.select(positive, 0.0, 2 * HALF_PI_LOW))
    factor = c.select(near, c.copysign(1.0, x), c.select(positive, -2.0, 2.0))
    total, error = c.two_sum(base, c.neg(c.mul(t, factor)))
    return c.add(total, c.add(error, c.less(rest, factor, base_low)))


def arcsinh(c: Floats, x: str) -> str:
    size = c.abs(x)
    near = c.add(size, _odd(c, ASINH, size))
    large = c.compare("ogt", size, 2.0**28)
    a = c.at_most(size, 2.0**28)
    square, square_low = c.product(a, a)
    s = c.add(square, 1.0)
    one = c.sub(s, square)
    low = c.add(c.sub(square, c.sub(s, one)), c.sub(1.0, one))
    r, rest = _root(c, s, c.add(low, square_low))
    u, error = c.two_sum(r, a)
    u = c.select(large, size, u)
    k, m = c.split(u)
    k = c.select(large, c.add(k, 1.0), k)  # log(2 x)
    rest = c.select(large, 0.0, c.div(c.add(error, rest), u))
    out = c.log_core(c.sub(m, 1.0), k, rest)
    out = c.select(c.compare("olt", size, 0.5), near, out)
    return c.copysign(c.select(c.compare("olt", size, math.inf), out, size), x)


def arccosh(c: Floats, x: str) -> str:
    large = c.compare("ogt", x, 2.0**54)
    t = c.at_most(c.sub(x, 1.0), 2.0**55)
    double = c.add(t, t)
    s = c.fma(t, t, double)
    r, rest = _root(c, s, c.fma(t, t, c.sub(double, s)))
    v, error = c.two_sum(r, t)
    v = c.select(large, x, v)
    out = c.log1p_parts(v, c.select(large, 0.0, c.add(error, rest)))
    out = c.select(large, c.add(out, LN2[0]), out)
    out = c.select(c.compare("olt", x, math.inf), out, x)
    return c.select(c.compare("ult", x, 1.0), math.nan, out)


def arctanh(c: Floats, x: str) -> str:
    """log1p(2 a / (1 - a)) / 2 for a = |x|."""
    size = c.abs(x)
    below = c.sub(1.0, size)
    below_low = c.sub(c.sub(1.0, below), size)
    above = c.add(size, size)
    inverse = c.div(1.0, below)
    q = c.mul(above, inverse)
    rest = c.mul(c.add(c.less(q, below, above), c.less(q, below_low, 0.0)), inverse)
    out = c.mul(c.log1p_parts(q, rest), 0.5)
    edge = c.select(c.compare("oeq", size, 1.0), math.inf, math.nan)
    return c.copysign(c.select(c.compare("olt", size, 1.0), out, edge), x)


def functions() -> dict[str, Any]:
    return {
        "sinh": sinh,
        "cosh": cosh,
        "arctan": arctan,
        "arctan2": arctan2,
        "arcsin": arcsin,
        "arccos": arccos,
        "arcsinh": arcsinh,
        "arccosh": arccosh,
        "arctanh": arctanh,
    }

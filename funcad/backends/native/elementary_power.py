"""Powers and roots: pow, integer powers, cbrt, hypot.

Idea: x**y = 2**(y log2(x)) with the logarithm as a sum of two doubles (about 66 bits): y log2(x) is up to 1024, and its
absolute error becomes the result's relative one. Zeros, infinities, NaN and subnormal bases take the C library's pow behind
one branch; a negative base takes the sign of an odd exponent. In single precision all of it is done in double precision,
without such care. An integer power multiplies, with the rounding errors of the products added at the end.
"""

from __future__ import annotations

import math
from typing import Any

from funcad.backends.native.elementary import LN2, LOG2_E, Floats
from funcad.backends.native.elementary_inverse import TINIEST
from funcad.backends.plans.element_writer import FLOAT64

THIRD = (0.3333333333333333, 1.850371707708594e-17)
# (log((1 + s) / (1 - s)) / (2 s) - 1 - z / 3) / z**2 as a polynomial in z = s**2, for z <= 0.0295
LOG_TAIL = [
    0.2, 0.14285714285714682, 0.11111111110827943, 0.09090909167696401, 0.07692297481259215, 0.06667402346923655,
    0.05853118169745603, 0.05861589311938259,
]  # fmt: skip
# for single precision: log2((1 + s) / (1 - s)) / s - 2 log2(e), over z, in z = s**2; (2**r - 1) / r for |r| <= 1/2
LOG2_40 = [0.9617966939362012, 0.5770779989977809, 0.412203287224679, 0.3201541478571431, 0.27934582120215357]
EXP2_33 = [
    0.6931471805599453, 0.24022650922833036, 0.05550410883951513, 0.009618056562442629, 0.00133335022968135,
    0.00015461491116674697, 1.5297359488555046e-05,
]  # fmt: skip
CUBE_ROOT = [0.5092481335492415, 0.7117423866025924, -0.2939541180848237, 0.08307903547963541, -0.010102212336338642]


def _log2_parts(c: Floats, a: str) -> tuple[str, str]:
    """log2(a) as a sum of two, for positive normal a."""
    k, m = c.split(a)
    above = c.sub(m, 1.0)
    below, below_low = c.two_sum(c.k(1.0), m)
    inverse = c.div(1.0, below)
    s = c.mul(above, inverse)
    s_low = c.mul(c.add(c.less(s, below, above), c.less(s, below_low, 0.0)), inverse)
    z, z_low = c.product(s, s)
    z_low = c.fma(c.add(s, s), s_low, z_low)
    third, third_low = c.product(z, THIRD[0])
    third_low = c.add(third_low, c.fma(z_low, THIRD[0], c.mul(z, THIRD[1])))
    w, w_low = c.two_sum(third, c.mul(c.mul(z, z), c.polynomial(LOG_TAIL, z)))
    w_low = c.add(w_low, third_low)
    twice, twice_low = c.add(s, s), c.add(s_low, s_low)
    v, v_low = c.product(twice, w)
    v_low = c.add(v_low, c.fma(twice, w_low, c.mul(twice_low, w)))
    log, log_low = c.two_sum(twice, v)
    log_low = c.add(log_low, c.add(v_low, twice_low))
    g, g_low = c.product(log, LOG2_E[0])
    g_low = c.add(g_low, c.fma(log_low, LOG2_E[0], c.mul(log, LOG2_E[1])))
    total, total_low = c.two_sum(k, g)
    return total, c.add(total_low, g_low)


def _power_of_two(c: Floats, p: str, low: str) -> str:
    """2**(p + low) for |p| < 1100."""
    k, bits = c.nearest(p, 1.0)
    rest = c.add(c.sub(p, k), low)
    r = c.fma(rest, LN2[0], c.mul(rest, LN2[1]))
    return c.scale_more(c.expm1_reduced(r), bits)


def _integral(c: Floats, y: str) -> tuple[str, str]:
    """Whether y is an integer, and whether an odd one."""
    half = c.mul(y, 0.5)
    whole = c.compare("oeq", c.call("trunc", y), y)
    even = c.compare("oeq", c.call("trunc", half), half)
    return whole, c.both(whole, c.put(f"xor {c.truth} {even}, {c.emitter.constant('i1', 'true')}"))


def _signed(c: Floats, x: str, y: str, out: str) -> str:
    """What |x|**y becomes for a negative x: itself, its negative, NaN."""
    whole, odd = _integral(c, y)
    negative = c.compare("olt", x, 0.0)
    out = c.select(c.both(negative, odd), c.neg(out), out)
    fraction = c.put(f"xor {c.truth} {whole}, {c.emitter.constant('i1', 'true')}")
    return c.select(c.both(negative, fraction), math.nan, out)


def pow(c: Floats, x: str, y: str) -> str:
    a = c.abs(x)
    log, log_low = _log2_parts(c, a)
    p, p_low = c.product(y, log)
    p_low = c.fma(y, log_low, p_low)
    p_low = c.select(c.compare("olt", c.abs(p), 1090.0), p_low, 0.0)
    p = c.at_least(c.at_most(p, 1090.0), -1090.0)
    out = _signed(c, x, y, _power_of_two(c, p, p_low))
    usual = c.both(c.compare("oge", a, 2.0**-1022), c.compare("olt", a, math.inf))
    usual = c.both(usual, c.compare("olt", c.abs(y), 2.0**63))
    rare = c.put(f"xor {c.truth} {usual}, {c.emitter.constant('i1', 'true')}")
    return c.emitter.where_rare("pow", c, rare, [x, y], out)


def pow_single(c: Floats, x: str, y: str) -> str:
    """In single precision: the logarithm and the power in double precision, with polynomials of 40 and 33 bits."""
    wide = Floats(c.emitter, FLOAT64)
    a, exponent = (c.put(f"fpext {c.kind} {v} to {wide.kind}") for v in (c.abs(x), y))
    k, m = wide.split(a)
    f = wide.sub(m, 1.0)
    s = wide.div(f, wide.add(f, 2.0))
    z = wide.mul(s, s)
    series = wide.fma(z, wide.polynomial(LOG2_40, z), 2 * LOG2_E[0])
    log = wide.fma(s, series, k)
    usual = wide.both(wide.compare("ogt", a, 0.0), wide.compare("olt", a, math.inf))
    log = wide.select(usual, log, wide.select(wide.compare("oeq", a, 0.0), -math.inf, a))
    p = wide.at_least(wide.at_most(wide.mul(exponent, log), 200.0), -200.0)
    k, bits = wide.nearest(p, 1.0)
    r = wide.sub(p, k)
    value = wide.mul(wide.fma(r, wide.polynomial(EXP2_33, r), 1.0), wide.power_of_two(bits))
    out = c.put(f"fptrunc {wide.kind} {value} to {c.kind}")
    whole, odd = _integral(c, y)
    out = c.select(odd, c.copysign(out, x), out)
    root = c.both(c.compare("olt", x, 0.0), c.compare("ogt", x, -math.inf))
    out = c.select(c.both(root, c.emitter.put(f"xor {c.truth} {whole}, {c.emitter.constant('i1', 'true')}")), math.nan, out)
    endless = c.both(c.compare("oeq", c.abs(y), math.inf), c.compare("oeq", x, -1.0))
    ones = c.either(c.compare("oeq", y, 0.0), c.compare("oeq", x, 1.0))
    return c.select(c.either(ones, endless), 1.0, out)


def _times(c: Floats, a: tuple[str, str | None], b: tuple[str, str | None]) -> tuple[str, str | None]:
    high, low = c.product(a[0], b[0])
    if a[1] is not None:
        low = c.fma(a[1], b[0], low)
    if b[1] is not None:
        low = c.fma(a[0], b[1], low)
    return high, low


def integer_power(c: Floats, x: str, n: int) -> str:
    """x**n for a known |n| >= 3 (or n = -2) that is not large: left to right through n's binary digits."""
    value: tuple[str, str | None] = (x, None)
    for digit in bin(abs(n))[3:]:
        value = _times(c, value, value)
        if digit == "1":
            value = _times(c, value, (x, None))
    high, low = value
    size = c.abs(high)
    if n > 0:  # 0 keeps its sign, inf does not meet inf - inf
        finite = c.both(c.compare("ogt", size, 0.0), c.compare("olt", size, math.inf))
        return c.select(finite, c.add(high, low), high)
    inverse = c.div(1.0, high)
    out = c.fma(inverse, c.add(c.less(inverse, high, 1.0), c.less(inverse, low, 0.0)), inverse)
    usual = c.both(c.compare("ogt", size, 2.0**-1000), c.compare("olt", size, 2.0**1000))
    rare = c.put(f"xor {c.truth} {usual}, {c.emitter.constant('i1', 'true')}")
    return c.emitter.where_rare("pow", c, rare, [x, c.k(float(n))], out)


def integer_power_single(c: Floats, x: str, n: int) -> str:
    """The same for an x that was single precision: plain products in double precision are exact enough."""
    value = x
    for digit in bin(abs(n))[3:]:
        value = c.mul(value, value)
        if digit == "1":
            value = c.mul(value, x)
    return value if n > 0 else c.div(1.0, value)


def cbrt(c: Floats, x: str) -> str:
    """A polynomial in the mantissa, one step of Halley's method, one of Newton's with the cube's rounding error."""
    a = c.abs(x)
    subnormal = c.compare("olt", a, 2.0**-1022)
    bits = c.bits(c.select(subnormal, c.mul(a, 2.0**54), a))
    anchor = 2.0**52
    number = c.float(c.iop("or", c.iop("lshr", bits, 52), 0x433 << 52))
    exponent = c.sub(number, anchor + 1023.0)
    m = c.float(c.iop("or", c.iop("and", bits, (1 << 52) - 1), 1023 << 52))
    third, third_bits = c.nearest(c.sub(exponent, 1.0), 1.0 / 3.0)
    rest = c.fma(third, -3.0, exponent)  # 0, 1 or 2
    one, two = c.compare("oeq", rest, 1.0), c.compare("oeq", rest, 2.0)
    m = c.mul(m, c.select(two, 4.0, c.select(one, 2.0, 1.0)))
    guess = c.polynomial(CUBE_ROOT, c.float(c.iop("or", c.iop("and", bits, (1 << 52) - 1), 1023 << 52)))
    y = c.mul(guess, c.select(two, 2.0 ** (2 / 3), c.select(one, 2.0 ** (1 / 3), 1.0)))
    cube = c.mul(c.mul(y, y), y)
    y = c.div(c.mul(y, c.fma(m, 2.0, cube)), c.fma(cube, 2.0, m))
    square, square_low = c.product(y, y)
    cube, cube_low = c.product(square, y)
    error = c.add(c.sub(cube, m), c.fma(square_low, y, cube_low))
    y = c.sub(y, c.div(error, c.mul(square, 3.0)))
    y = c.mul(c.mul(y, c.power_of_two(third_bits)), c.select(subnormal, 2.0**-18, 1.0))
    usual = c.both(c.compare("ogt", a, 0.0), c.compare("olt", a, math.inf))
    return c.copysign(c.select(usual, y, a), x)


def hypot(c: Floats, x: str, y: str) -> str:
    x, y = c.abs(x), c.abs(y)
    order = c.compare("ogt", x, y)
    a, b = c.select(order, x, y), c.select(order, y, x)
    large, small = c.compare("ogt", a, 2.0**500), c.compare("olt", a, 2.0**-400)
    scale = c.select(large, 2.0**-600, c.select(small, 2.0**600, 1.0))
    back = c.select(large, 2.0**600, c.select(small, 2.0**-600, 1.0))
    a, b = c.mul(a, scale), c.mul(b, scale)
    h, h_low = c.product(a, a)
    g, g_low = c.product(b, b)
    s, low = c.two_sum(h, g)
    low = c.add(low, c.add(h_low, g_low))
    r = c.sqrt(s)
    rest = c.mul(c.add(c.less(r, r, s), low), c.div(0.5, c.at_least(r, TINIEST)))
    out = c.mul(c.add(r, rest), back)
    endless = c.either(c.compare("oeq", x, math.inf), c.compare("oeq", y, math.inf))
    return c.select(endless, math.inf, out)


def hypot_single(c: Floats, x: str, y: str) -> str:
    """Squares of single precision neither overflow nor round in double precision."""
    endless = c.either(c.compare("oeq", c.abs(x), math.inf), c.compare("oeq", c.abs(y), math.inf))
    return c.select(endless, math.inf, c.sqrt(c.fma(x, x, c.mul(y, y))))


def functions() -> dict[str, Any]:
    return {"pow": pow, "cbrt": cbrt, "hypot": hypot}

"""sin, cos and tan on vectors.

Idea: x = k pi/2 + r + low with pi/2 in three parts (Cody and Waite); the first product is exact in a fused multiply-add, so
the reduction keeps all bits of r, near multiples of pi/2 too. Single precision is reduced in double precision. Arguments from
2**30 on, infinities and NaN take the scalar function of the C library, lane by lane, behind one branch that is never taken
otherwise.
"""

from __future__ import annotations

from funcad.backends.native.elementary import Floats
from funcad.backends.plans.element_writer import FLOAT64

HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814
LIMIT = 2.0**30
# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 as polynomials in r**2, |r| <= pi / 4
SIN = [
    -0.16666666666666666, 0.008333333333330936, -0.00019841269836740532, 2.7557316093198404e-06, -2.5051129896450185e-08,
    1.5917988979397435e-10,
]  # fmt: skip
COS = [
    0.041666666666666664, -0.0013888888888887389, 2.48015872987544e-05, -2.755731726587808e-07, 2.087614504941318e-09,
    -1.138254464534925e-11,
]  # fmt: skip
SIN_SINGLE = [-0.16666664661114838, 0.008332748037517147, -0.00019587840521305324]
COS_SINGLE = [0.04166666465830042, -0.0013888302802309161, 2.454789161981386e-05]


def _reduced(c: Floats, x: str) -> tuple[str, str, str]:
    """r, low and the bits that end with k."""
    k, bits = c.nearest(x, TWO_OVER_PI)
    first = c.fma(k, -HALF_PI[0], x)
    p, p_low = c.product(k, HALF_PI[1])
    r = c.sub(first, p)
    low = c.sub(c.sub(c.sub(first, r), p), p_low)
    return r, c.fma(k, -HALF_PI[2], low), bits


def _double_parts(c: Floats, r: str, low: str) -> tuple[str, str, str, str]:
    """Sine as r + s, cosine as w + t."""
    z = c.mul(r, r)
    half = c.mul(z, 0.5)
    w = c.sub(1.0, half)
    s = c.fma(c.mul(r, z), c.polynomial(SIN, z), c.mul(low, w))
    t = c.fma(c.mul(z, z), c.polynomial(COS, z), c.sub(c.sub(c.sub(1.0, w), half), c.mul(r, low)))
    return r, s, w, t


def _sine_cosine(c: Floats, x: str) -> tuple[str, str, str]:
    """Sine and cosine of the reduced argument, and k (its low bits)."""
    if c.double:
        r, low, bits = _reduced(c, x)
        r, s, w, t = _double_parts(c, r, low)
        return c.add(r, s), c.add(w, t), bits
    wide = Floats(c.emitter, FLOAT64)
    x = c.put(f"fpext {c.kind} {x} to {wide.kind}")
    k, bits = wide.nearest(x, TWO_OVER_PI)
    r = wide.fma(k, -HALF_PI[1], wide.fma(k, -HALF_PI[0], x))
    r = c.put(f"fptrunc {wide.kind} {r} to {c.kind}")
    bits = c.put(f"trunc {wide.integers} {bits} to {c.integers}")
    z = c.mul(r, r)
    sine = c.fma(c.mul(r, z), c.polynomial(SIN_SINGLE, z), r)
    cosine = c.fma(c.mul(z, z), c.polynomial(COS_SINGLE, z), c.fma(z, -0.5, 1.0))
    return sine, cosine, bits


def _quadrant(c: Floats, k: str, sine: str, cosine: str) -> str:
    odd = c.nonzero(c.iop("and", k, 1))
    value = c.select(odd, cosine, sine)
    sign = c.iop("shl", c.iop("and", k, 2), 62 if c.double else 30)
    return c.float(c.iop("xor", c.bits(value), sign))


def _rare(c: Floats, name: str, x: str, out: str) -> str:
    return c.emitter.where_rare(name, c, c.compare("uge", c.abs(x), LIMIT), [x], out)


def sin(c: Floats, x: str) -> str:
    sine, cosine, k = _sine_cosine(c, x)
    out = _quadrant(c, k, sine, cosine)
    out = c.select(c.compare("oeq", x, 0.0), x, out)  # of -0.0 the reduction makes 0.0
    return _rare(c, "sin", x, out)


def cos(c: Floats, x: str) -> str:
    sine, cosine, k = _sine_cosine(c, x)
    return _rare(c, "cos", x, _quadrant(c, c.iop("add", k, 1), sine, cosine))


def tan(c: Floats, x: str) -> str:
    """In double precision: the quotient of sine and cosine, with its rounding error and theirs."""
    r, low, k = _reduced(c, x)
    r, s, w, t = _double_parts(c, r, low)
    sine, sine_low = c.two_sum(r, s)
    cosine, cosine_low = c.two_sum(w, t)
    odd = c.nonzero(c.iop("and", k, 1))
    above = c.select(odd, c.neg(cosine), sine)
    above_low = c.select(odd, c.neg(cosine_low), sine_low)
    below = c.select(odd, sine, cosine)
    below_low = c.select(odd, sine_low, cosine_low)
    q = c.div(above, below)
    error = c.add(c.less(q, below, above), c.less(q, below_low, above_low))
    out = c.add(q, c.div(error, below))
    out = c.select(c.compare("olt", c.abs(x), 2.0**-28), x, out)
    return _rare(c, "tan", x, out)


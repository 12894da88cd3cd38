"""exp, log, sqrt and integer powers of complex lanes, made of the real functions; at special values as C99 has them.

Idea: each is a formula of the parts, with choices where a part is zero, infinite or NaN, or where the formula would overflow.
The logarithm of a size near 1 is log1p of size**2 - 1, whose terms cancel: they are summed with their rounding errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from funcad.backends.native.elementary import Floats
from funcad.backends.native.emitter_memory import FLOAT64, Lane
from funcad.backends.plans.unsupported import Unsupported

__all__ = ["exp", "log", "sqrt", "integer_pow"]


class _Parts:
    """The parts of a complex lane, and words on real lanes."""

    def __init__(self, e: Any, z: Lane):
        self.e, self.dtype = e, e.part(z.dtype)
        self.x, self.y = [Lane(self.dtype, (p,)) for p in z.parts]
        self.double = self.dtype == FLOAT64

    def k(self, value: float) -> Lane:
        return self.e.literal(value, self.dtype)  # type: ignore[no-any-return]

    def either(self, condition: Lane, a: Lane, b: Lane) -> Lane:
        return self.e.select(condition, a, b)  # type: ignore[no-any-return]

    def is_infinite(self, a: Lane) -> Lane:
        return self.e.eq(self.e.abs(a), self.k(math.inf))  # type: ignore[no-any-return]

    def is_nan(self, a: Lane) -> Lane:
        return self.e.ne(a, a)  # type: ignore[no-any-return]


def exp(e: Any, z: Lane) -> Lane:
    p = _Parts(e, z)
    x, y = p.x, p.y
    edge, one, zero = 700.0 if p.double else 80.0, p.k(1.0), p.k(0.0)
    size, factors = x, []
    for k in (1, 2):  # where exp(x) overflows, and its product with a small sine or cosine may not
        beyond = e.gt(x, p.k(k * edge))
        size = e.sub(size, p.either(beyond, p.k(edge), zero))
        factors.append(p.either(beyond, p.k(float(np.exp(p.dtype.type(edge)))), one))
    size, flat = e.exp(size), e.eq(y, zero)
    real, imag = p.either(flat, one, e.cos(y)), e.sin(y)
    for factor in (*factors, size):
        real, imag = e.mul(real, factor), e.mul(imag, factor)
    imag = p.either(flat, y, imag)
    lost = e.and_(p.is_infinite(x), e.not_(e.isfinite(y)))  # of an infinite real part the size is known all the same
    falls = e.lt(x, zero)
    real = p.either(lost, p.either(falls, zero, x), real)
    imag = p.either(e.and_(lost, falls), e.copysign(zero, y), imag)
    return Lane(z.dtype, (real.name, imag.name))


def sqrt(e: Any, z: Lane) -> Lane:
    p = _Parts(e, z)
    a, b = e.abs(p.x), e.abs(p.y)
    largest = e.maximum(a, b)
    power, edge = (2.0**600, 2.0**450) if p.double else (2.0**40, 2.0**56)
    high, low = e.gt(largest, p.k(edge)), e.lt(largest, p.k(1 / edge))
    one = p.k(1.0)
    factor = p.either(high, p.k(1 / power), p.either(low, p.k(power), one))
    back = p.either(high, p.k(math.sqrt(power)), p.either(low, p.k(1 / math.sqrt(power)), one))
    near = e.mul(a, factor)
    main = e.mul(e.sqrt(e.mul(e.add(near, e.hypot(near, e.mul(b, factor))), p.k(0.5))), back)
    other = e.div(b, e.add(main, main))
    falls = e.lt(p.x, p.k(0.0))
    real, imag = p.either(falls, other, main), e.copysign(p.either(falls, main, other), p.y)
    nothing = e.eq(largest, p.k(0.0))
    real, imag = p.either(nothing, p.k(0.0), real), p.either(nothing, p.y, imag)
    endless = p.is_infinite(p.x)
    unknown = p.is_nan(p.y)
    real = p.either(endless, p.either(falls, p.either(unknown, p.y, p.k(0.0)), p.x), real)
    rest = p.either(unknown, p.y, e.copysign(p.k(0.0), p.y))
    imag = p.either(endless, p.either(falls, e.copysign(p.k(math.inf), p.y), rest), imag)
    tall = p.is_infinite(p.y)
    return Lane(z.dtype, (p.either(tall, p.k(math.inf), real).name, p.either(tall, p.y, imag).name))


def log(e: Any, z: Lane) -> Lane:
    if not e.fused:
        raise Unsupported("log of complex numbers needs a fused multiply-add")
    p = _Parts(e, z)
    a, b = e.abs(p.x), e.abs(p.y)
    x, y = e.maximum(a, b), e.minimum(a, b)
    power, edge = (600, 2.0**450) if p.double else (75, 2.0**56)  # out there a square, or a size, is no number
    high, low = e.gt(x, p.k(edge)), e.lt(x, p.k(1 / edge))
    factor = p.either(high, p.k(2.0**-power), p.either(low, p.k(2.0**power), p.k(1.0)))
    moved = p.either(high, p.k(power * math.log(2)), p.either(low, p.k(-power * math.log(2)), p.k(0.0)))
    far = e.add(e.log(e.hypot(e.mul(a, factor), e.mul(b, factor))), moved)
    c = Floats(e, p.dtype)
    less, more = c.sub(x.name, 1.0), c.add(x.name, 1.0)
    more_low = c.sub(x.name, c.sub(more, 1.0))
    first, first_low = c.product(less, more)
    second, second_low = c.product(y.name, y.name)
    swap = c.compare("olt", c.abs(first), c.abs(second))
    total, error = c.two_sum(c.select(swap, second, first), c.select(swap, first, second))
    rest = c.add(c.add(first_low, second_low), c.fma(less, more_low, error))
    near = e.mul(e.log1p(Lane(p.dtype, (c.add(total, rest),))), p.k(0.5))
    close = e.and_(e.gt(x, p.k(0.5)), e.lt(x, p.k(1.5)))
    return Lane(z.dtype, (p.either(close, near, far).name, e.arctan2(p.y, p.x).name))


def integer_pow(e: Any, z: Lane, n: int) -> Lane:
    """By products, in the order in which NumPy takes them up to powers of 100."""
    if not -100 < n < 100:
        raise Unsupported(f"power {n} of {z.dtype}")
    one = e.literal(1, z.dtype)
    first = n in (-1, 3)  # NumPy begins with the number itself, and with 1 for other powers
    out, square, rest = z if first else one, z, abs(n) - first
    while rest:
        out = e.mul(out, square) if rest & 1 else out
        rest >>= 1
        square = e.mul(square, square) if rest else square
    out = e.div(one, out) if n < 0 else out
    of_zero = e.literal(complex(math.nan, math.nan) if n < 0 else 0, z.dtype)
    return e.select(e.eq(z, e.literal(0, z.dtype)), of_zero, out)  # type: ignore[no-any-return]

"""Floating-point arithmetic on one register, and on it exp, log and their relatives.

`Floats` writes instructions on names of values: the words in which the elementary functions are written. The polynomials were
fitted in 80 digits at the Chebyshev nodes of the reduced interval and rounded to double (or single) precision. Errors stay
below 1 ulp where the last operation adds a small correction to an exactly known leading part; where that part is itself
rounded, its rounding error is carried along (a name that ends in `low`). All of it needs a fused multiply-add: `fma(a, b, -a
* b)` is the error of a product. Trap: a float becomes an integer by adding 1.5 * 2**52, after which its low bits are the
integer, and back by the same way: AVX2 has no conversions of 64-bit integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.native.lane_types import float_text
from funcad.backends.plans.element_writer import FLOAT64

# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2
EXP = [
    0.5000000000000001, 0.16666666666666669, 0.041666666666624094, 0.00833333333333006, 0.0013888888917230724,
    0.00019841269863066696, 2.4801521269532122e-05, 2.7557268439678e-06, 2.7620101012098e-07, 2.5100395159429243e-08,
]  # fmt: skip
EXP_SINGLE = [0.5, 0.16666576989698775, 0.041666554617204574, 0.008363179052722578, 0.0013926183587713494]
# (log((1 + s) / (1 - s)) - 2 s) / s**3 as a polynomial in s**2, for (1 + s) / (1 - s) in [sqrt(1/2), sqrt(2)]
LOG = [
    0.666666666666667, 0.39999999999899444, 0.2857142862600327, 0.22222211130259878, 0.18182889455674947,
    0.15331710618210773, 0.14616585424888623,
]  # fmt: skip
LOG_SINGLE = [0.6666666655440618, 0.4000012191414928, 0.28550812382590146, 0.2333069667245578]
LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)  # sums of a rounded number and the rest, here and below
LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
LN2 = (0.6931471805599453, 2.3190468138462996e-17)
LN2_SINGLE = (0.693147182464599609375, -1.904654323148236017e-09)
LN2_SHORT = (0.6931471805598903, 5.497923018708371e-14)  # 42 bits: times an exponent it is exact
LN2_SHORT_SINGLE = (6.9313812256e-01, 9.0580006145e-06)
LOG10_2_SHORT = (0.30102999566383914, 1.42050232272661e-13)
LOG2_E_SINGLE = (1.4426950216293335, 1.925963033500011e-08)
LOG10_E_SINGLE = (0.4342944920063019, -1.0103049952192578e-08)
LOG10_2_SHORT_SINGLE = (0.301025390625, 4.605039066518657e-06)


class Floats:
    """Operations on values of one float dtype; operands are names of values, or Python floats."""

    def __init__(self, emitter: Any, dtype: np.dtype):
        self.emitter = emitter
        self.function = emitter.function
        self.put = emitter.put
        self.dtype = dtype
        self.double = dtype == FLOAT64
        self.size = 8 if self.double else 4
        self.element = "double" if self.double else "float"
        self.whole = "i64" if self.double else "i32"
        self.kind = emitter.vector(self.element)
        self.integers = emitter.vector(self.whole)
        self.truth = emitter.vector("i1")
        self.mantissa = 52 if self.double else 23
        self.bias = 1023 if self.double else 127
        self.magic = 1.5 * 2.0**self.mantissa

    # -- words
    def k(self, x: Any) -> str:
        if isinstance(x, str):
            return x
        text = self.emitter.constant(self.element, float_text(x, self.size))
        return text if self.emitter.lanes == 1 else self.function.constant(self.kind, text)

    def ik(self, x: Any) -> str:
        return x if isinstance(x, str) else self.emitter.constant(self.whole, str(x))

    def op(self, name: str, a: Any, b: Any) -> str:
        return self.put(f"{name} {self.kind} {self.k(a)}, {self.k(b)}")

    def add(self, a: Any, b: Any) -> str:
        return self.op("fadd", a, b)

    def sub(self, a: Any, b: Any) -> str:
        return self.op("fsub", a, b)

    def mul(self, a: Any, b: Any) -> str:
        return self.op("fmul", a, b)

    def div(self, a: Any, b: Any) -> str:
        return self.op("fdiv", a, b)

    def neg(self, a: str) -> str:
        return self.put(f"fneg {self.kind} {a}")

    def call(self, name: str, *operands: Any) -> str:
        full = f"llvm.{name}.{self.emitter.suffix(self.element)}"
        return self.function.intrinsic(full, self.kind, *[(self.kind, self.k(o)) for o in operands])

    def fma(self, a: Any, b: Any, c: Any) -> str:
        return self.call("fma", a, b, c)

    def less(self, a: Any, b: Any, c: Any) -> str:
        """c - a * b, rounded once."""
        return self.fma(self.neg(a), b, c)

    def abs(self, a: str) -> str:
        return self.call("fabs", a)

    def sqrt(self, a: str) -> str:
        return self.call("sqrt", a)

    def copysign(self, a: Any, b: str) -> str:
        return self.call("copysign", a, b)

    def compare(self, predicate: str, a: Any, b: Any) -> str:
        return self.put(f"fcmp {predicate} {self.kind} {self.k(a)}, {self.k(b)}")

    def select(self, condition: str, a: Any, b: Any) -> str:
        return self.put(f"select {self.truth} {condition}, {self.kind} {self.k(a)}, {self.kind} {self.k(b)}")

    def both(self, a: str, b: str) -> str:
        return self.put(f"and {self.truth} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.put(f"or {self.truth} {a}, {b}")

    def at_most(self, a: str, limit: float) -> str:
        return self.select(self.compare("ogt", a, limit), limit, a)  # NaN stays

    def at_least(self, a: str, limit: float) -> str:
        return self.select(self.compare("olt", a, limit), limit, a)

    def iop(self, name: str, a: Any, b: Any) -> str:
        return self.put(f"{name} {self.integers} {self.ik(a)}, {self.ik(b)}")

    def bits(self, a: str) -> str:
        return self.put(f"bitcast {self.kind} {self.k(a)} to {self.integers}")

    def float(self, a: str) -> str:
        return self.put(f"bitcast {self.integers} {a} to {self.kind}")

    def negative(self, a: str) -> str:
        """Whether the sign bit is set; a choice by it needs no comparison."""
        return self.put(f"icmp slt {self.integers} {self.bits(a)}, {self.ik(0)}")

    def nonzero(self, a: str) -> str:
        return self.put(f"icmp ne {self.integers} {a}, {self.ik(0)}")

    def polynomial(self, coefficients: Sequence[float], x: str) -> str:
        """c[0] + c[1] x + ...: even and odd terms by themselves, of long ones every fourth (Horner); those are joined.

        Pairs all the way down (Estrin) wait less for each other, but need more instructions, and these are what counts: the
        processor works on several vectors at once, as many as it can hold the unfinished instructions of.
        """
        power, step = x, 1
        while step < 4 and len(coefficients) > (4, 12)[step // 2]:
            power, step = self.mul(power, power), 2 * step
        terms: list[Any] = []
        for first in range(step):
            term: Any = None
            for c in reversed(coefficients[first::step]):
                term = c if term is None else self.fma(term, power, c)
            terms.append(term)
        while step > 1:
            step //= 2
            power = x if step == 1 else self.mul(x, x)
            terms = [self.fma(terms[i + step], power, terms[i]) for i in range(step)]
        return terms[0]  # type: ignore[no-any-return]

    def two_sum(self, large: Any, small: Any) -> tuple[str, str]:
        """The sum and its rounding error, for |large| >= |small| (or large = 0)."""
        total = self.add(large, small)
        return total, self.add(self.sub(large, total), small)

    def product(self, a: str, b: Any) -> tuple[str, str]:
        """The product and its rounding error."""
        p = self.mul(a, b)
        return p, self.fma(a, b, self.neg(p))

    def any(self, condition: str) -> str:
        """An i1: whether the condition holds on some lane."""
        n = self.emitter.lanes
        return self.put(f"icmp ne i{n} {self.put(f'bitcast <{n} x i1> {condition} to i{n}')}, 0")

    # -- exponentials
    def nearest(self, x: Any, factor: Any) -> tuple[str, str]:
        """x * factor rounded to an integer, and the bits that end with it."""
        shifted = self.fma(x, factor, self.magic)
        return self.sub(shifted, self.magic), self.bits(shifted)

    def power_of_two(self, bits: str, less: int = 0) -> str:
        """2**k for the bits that `nearest` gives; 2**(k - less)."""
        return self.float(self.iop("shl", self.iop("add", bits, self.bias - less), self.mantissa))

    def _two_steps(self, bits: str) -> tuple[str, str]:
        """2**k as a product of two, for results that are subnormal or overflow."""
        total = self.iop("add", bits, 2 * self.bias)
        half = self.iop("lshr", total, 1)
        rest = self.iop("sub", total, half)
        first, second = (self.float(self.iop("shl", part, self.mantissa)) for part in (half, rest))
        return first, second

    def scale(self, y: str, bits: str) -> str:
        """y * 2**k."""
        first, second = self._two_steps(bits)
        return self.mul(self.mul(y, first), second)

    def scale_more(self, q: str, bits: str) -> str:
        """(1 + q) * 2**k."""
        first, second = self._two_steps(bits)
        return self.mul(self.fma(first, q, first), second)

    def reduce_exp(self, x: str) -> tuple[str, str]:
        """r with x = k log(2) + r, and k's bits."""
        high, low = LN2 if self.double else LN2_SINGLE
        k, bits = self.nearest(x, LOG2_E[0])
        return self.fma(k, -low, self.fma(k, -high, x)), bits

    def expm1_reduced(self, r: str) -> str:
        return self.fma(self.mul(r, r), self.polynomial(EXP if self.double else EXP_SINGLE, r), r)

    def exp(self, x: str, nonpositive: bool = False) -> str:
        high, low = (710.0, -746.0) if self.double else (89.0, -104.0)
        if not nonpositive:
            x = self.at_most(x, high)
        r, bits = self.reduce_exp(self.at_least(x, low))
        return self.scale_more(self.expm1_reduced(r), bits)

    def exp2(self, x: str) -> str:
        high, low = LN2 if self.double else LN2_SINGLE
        x = self.at_least(self.at_most(x, 1025.0 if self.double else 129.0), -1080.0 if self.double else -160.0)
        k, bits = self.nearest(x, 1.0)
        rest = self.sub(x, k)
        r = self.fma(rest, high, self.mul(rest, low))
        return self.scale_more(self.expm1_reduced(r), bits)

    def expm1(self, x: str) -> str:
        high, low = LN2 if self.double else LN2_SINGLE
        inside = self.at_least(self.at_most(x, 710.0 if self.double else 89.0), -40.0)
        k, bits = self.nearest(inside, LOG2_E[0])
        first = self.fma(k, -high, inside)
        r = self.fma(k, -low, first)
        r2 = self.mul(r, r)
        p = self.polynomial(EXP if self.double else EXP_SINGLE, r)
        q = self.fma(r2, p, r)
        q_low = self.add(self.fma(r2, p, self.sub(r, q)), self.fma(k, -low, self.sub(first, r)))
        half = self.power_of_two(bits, 1)  # 2**k itself may overflow where the result does not
        base = self.sub(half, 0.5)
        m = self.fma(half, q, base)
        m = self.add(m, self.fma(half, q_low, self.fma(half, q, self.sub(base, m))))
        out = self.add(m, m)
        tiny = self.compare("olt", self.abs(x), 2.0**-54 if self.double else 2.0**-25)
        return self.select(tiny, x, out)  # exact, and -0.0 stays

    def exp_parts(self, x: str) -> tuple[str, str, str]:
        """exp(x) = (high + low) * 2**k, with k's bits."""
        r, bits = self.reduce_exp(x)
        r2 = self.mul(r, r)
        p = self.polynomial(EXP if self.double else EXP_SINGLE, r)
        q = self.fma(r2, p, r)
        high = self.add(q, 1.0)
        return high, self.add(self.sub(1.0, high), q), bits

    def tanh(self, x: str) -> str:
        """h / (h + 1) for h = (exp(2 |x|) - 1) / 2.

        With 2 |x| = k log(2) + r, h is (2**k - 1) / 2 + 2**k r / 2, both of them exact or nearly so, and a small rest. Below
        0.35 the rounding of h + 1 would show; there h - h * (h / (h + 1)) is better.
        """
        high, low = LN2 if self.double else LN2_SINGLE
        sign = self.iop("and", self.bits(x), -1 << (8 * self.size - 1))
        size = self.at_most(self.float(self.iop("xor", self.bits(x), sign)), 22.0 if self.double else 10.0)
        k, bits = self.nearest(size, 2 * LOG2_E[0])
        first = self.fma(k, -high, self.add(size, size))
        r = self.fma(k, -low, first)
        series = self.polynomial(EXP if self.double else EXP_SINGLE, r)
        rest = self.fma(self.mul(r, r), series, self.mul(k, -low))
        power = self.power_of_two(bits, 1)
        h = self.fma(power, rest, self.fma(power, first, self.sub(power, 0.5)))
        far = self.div(h, self.add(h, 1.0))
        out = self.select(self.compare("olt", size, 0.35), self.less(h, far, h), far)
        return self.float(self.iop("or", self.bits(out), sign))

    def hyperbolic(self, x: str, sign: float) -> str:
        """(exp(a) + sign exp(-a)) / 2 for a = |x|; without cancellation only for a >= 1 if sign is -1."""
        size = self.at_most(self.abs(x), 710.6)  # beyond the largest result
        high, low, bits = self.exp_parts(size)
        half = self.power_of_two(bits, 2)  # a quarter of 2**k: twice the largest result may not be a number
        large, small = self.mul(high, half), self.mul(low, half)
        inverse = self.div(0.0625 * sign, large)
        out = self.add(large, self.add(small, inverse))
        return self.add(out, out)

    # -- logarithms
    def split(self, x: str, extra: Any = 0.0) -> tuple[str, str]:
        """k and m in [sqrt(1/2), sqrt(2)] with x = 2**(k + extra) m, for positive normal x."""
        shifted, start = self._shifted(x)
        number = self._anchored(self.iop("lshr", shifted, self.mantissa))
        k = self.sub(number, 2.0**self.mantissa + self.bias if extra == 0.0 else extra)
        rest = self.iop("and", shifted, (1 << self.mantissa) - 1)
        return k, self.float(self.iop("add", rest, start))

    def _shifted(self, x: str) -> tuple[str, int]:
        """The bits of x, moved so that the exponent is k plus the bias, and the bits of sqrt(1/2)."""
        start = int(np.sqrt(self.dtype.type(0.5)).view(f"i{self.size}"))
        return self.iop("add", self.bits(x), (self.bias << self.mantissa) - start), start

    def _anchored(self, exponent: str) -> str:
        """2**mantissa + exponent, for an integer that fits into the low bits of that power."""
        anchor = self.dtype.type(2.0**self.mantissa).view(f"i{self.size}")
        return self.float(self.iop("or", exponent, int(anchor)))

    def normal(self, x: str) -> tuple[str, str]:
        """k and m of `split` for every positive x: subnormal ones are scaled first."""
        tiny, up = (2.0**-1022, 54) if self.double else (2.0**-126, 25)
        subnormal = self.compare("olt", x, tiny)
        anchor = 2.0**self.mantissa + self.bias
        offset = self.select(subnormal, anchor + up, anchor)
        return self.split(self.select(subnormal, self.mul(x, 2.0**up), x), offset)

    def log_core(self, f: str, k: Any, correction: Any = None) -> str:
        """k log(2) + log(1 + f) + correction."""
        half, t, _ = self._log_terms(f)
        return self._log_sum(f, k, half, t, correction)

    def _log_sum(self, f: str, k: Any, half: str, t: str, correction: Any, sign: float = 1.0) -> str:
        """`sign` -1.0: k is given as -k."""
        high, low = LN2_SHORT if self.double else LN2_SHORT_SINGLE
        rest = self.fma(k, sign * low, t) if correction is None else self.add(t, self.fma(k, sign * low, correction))
        return self.fma(k, sign * high, self.sub(f, self.sub(half, rest)))

    def _log_terms(self, f: str) -> tuple[str, str, str]:
        """f**2 / 2, t with log(1 + f) = f - f**2 / 2 + t, and s = f / (2 + f)."""
        half = self.mul(self.mul(f, f), 0.5)
        s = self.div(f, self.add(f, 2.0))
        z = self.mul(s, s)
        series = self.polynomial(LOG if self.double else LOG_SINGLE, z)
        return half, self.mul(s, self.fma(z, series, half)), s

    def at_edges(self, x: str, out: str, above: str) -> str:
        """A logarithm of x at its pole (-inf), below it (NaN), and at inf and NaN; `above` is x minus the pole."""
        out = self.select(self.compare("olt", x, math.inf), out, x)
        out = self.select(self.negative(above), math.nan, out)
        return self.select(self.compare("oeq", above, 0.0), -math.inf, out)

    def log(self, x: str) -> str:
        k, m = self.normal(x)
        return self.at_edges(x, self.log_core(self.sub(m, 1.0), k), x)

    def log_base(self, x: str, factor: tuple[float, float], exponent: tuple[float, float]) -> str:
        """log(x) times `factor`; `exponent` is log(2) times it, short enough for exact products."""
        k, m = self.normal(x)
        f = self.sub(m, 1.0)
        half, t, _ = self._log_terms(f)
        high = self.sub(f, half)
        low = self.add(self.sub(self.sub(f, high), half), t)
        p, p_low = self.product(high, factor[0])
        rest = self.add(p_low, self.fma(low, factor[0], self.mul(high, factor[1])))
        total, error = self.two_sum(self.mul(k, exponent[0]), p)
        out = self.add(total, self.add(error, self.fma(k, exponent[1], rest)))
        return self.at_edges(x, out, x)

    def log2(self, x: str) -> str:
        return self.log_base(x, LOG2_E if self.double else LOG2_E_SINGLE, (1.0, 0.0))

    def log10(self, x: str) -> str:
        if self.double:
            return self.log_base(x, LOG10_E, LOG10_2_SHORT)
        return self.log_base(x, LOG10_E_SINGLE, LOG10_2_SHORT_SINGLE)

    def log1p_parts(self, x: str, low: Any = None) -> str:
        """log(1 + x + low) for 1 + x > 0 that is finite.

        1 + x = 2**k (1 + f), and f = 2**-k x - (1 - 2**-k) is exact but for its last bit, at the ends of the interval. What
        is 0 for k = 0 is -0.0 here, so that the result has the sign of x.
        """
        exponent = self.iop("lshr", self._shifted(self.add(x, 1.0))[0], self.mantissa)
        minus_k = self.sub(2.0**self.mantissa + self.bias, self._anchored(exponent))
        scale = self.float(self.iop("shl", self.iop("sub", 2 * self.bias + 2, exponent), self.mantissa))
        scale = self.mul(scale, 0.25)  # 2**-k, which may be subnormal
        f = self.fma(x, scale, self.neg(self.sub(1.0, scale)))
        half, t, s = self._log_terms(f)
        correction = None
        if low is not None:  # low / (1 + x), of which a few digits will do: 1 / (1 + f) = (1 - s) / (1 + s)
            share = self.mul(self.mul(low, scale), self.sub(1.0, s))
            correction = self.mul(share, self.add(self.mul(s, s), self.sub(1.0, s)))
        return self._log_sum(f, minus_k, half, t, correction, -1.0)

    def log1p(self, x: str, nonnegative: bool = False) -> str:
        out = self.log1p_parts(x)
        if nonnegative:  # no pole
            return self.select(self.compare("olt", x, math.inf), out, x)
        return self.at_edges(x, out, self.add(x, 1.0))

    def log1p_unit(self, x: str) -> str:
        """log(1 + x) for x in [0, 1] or NaN: no pole, no division but one."""
        upper = self.compare("ogt", x, 0.4142)
        f = self.select(upper, self.mul(self.sub(x, 1.0), 0.5), x)
        return self.log_core(f, self.select(upper, 1.0, 0.0))

"""Atoms made of other atoms: the one statement of each, from which every engine derives its own.

Idea: an engine writes some forty base atoms as instructions or as text, kind of number by kind of number; what it has not, it
composes by the functions here. They call the methods of a writer `e`, as an `emit` does, on values of one dtype; besides the
atoms a writer has `WORDS`, and `kind`, `like`, `sized`, `width`, `real`, `imag` and `pair`. `COMPOSITES` has a function for an
atom and the kind of its operands. Python's scalars have texts of their own (backends/text.py): a conditional expression
computes the chosen side alone.

Traps, all of them NumPy's rules: integers wrap; x // 0 and x % 0 are 0, and INT_MIN // -1 is INT_MIN (a processor may fault on
both, and lanes that are off are computed too, so the divisor is replaced first); a shift by the width or more (or by a negative
number) shifts everything out; of two equal operands `maximum` and `minimum` give the second (so -0.0 and 0.0 depend on the
order); complex division is Smith's. Complex products are written without fused multiplication, which NumPy's own loops use on
part of an array where the processor has it: the real and imaginary parts may differ by their cancellation error. At special
values complex functions are C99's; where a part would overflow it is scaled first. The logarithm of a size near 1 is log1p of
size**2 - 1, whose terms cancel: they are summed with their rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# integers cut towards zero by a divisor that is none of the traps, shifts within the width, < of bits as an unsigned number,
# and a * b + c rounded once
WORDS = frozenset(["quotient", "rest", "shifted_left", "shifted_right", "below", "fma"])
COMPOSITES: dict[tuple[str, str], Callable[..., Any]] = {}


def _composite(kinds: str, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """This is the atom of these names, of operands of these kinds."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPOSITES.update({(name, kind): function for name in names for kind in kinds})
        return function

    return put


_composite("b", "add", "maximum", "fmax", "logical_or")(lambda e, a, b: e.or_(a, b))
_composite("b", "mul", "minimum", "fmin", "logical_and")(lambda e, a, b: e.and_(a, b))
_composite("b", "logical_xor")(lambda e, a, b: e.xor(a, b))
_composite("b", "logical_not")(lambda e, a: e.not_(a))
_composite("bu", "abs")(lambda e, a: a)
_composite("biu", "floor", "ceil", "trunc")(lambda e, a: a)


# -- truth, and what kind of number it is
def _truth(e: Any, a: Any) -> Any:
    return e.ne(a, e.like(a, 0))


_composite("iufc", "logical_and")(lambda e, a, b: e.and_(_truth(e, a), _truth(e, b)))
_composite("iufc", "logical_or")(lambda e, a, b: e.or_(_truth(e, a), _truth(e, b)))
_composite("iufc", "logical_xor")(lambda e, a, b: e.xor(_truth(e, a), _truth(e, b)))
_composite("iufc", "logical_not")(lambda e, a: e.not_(_truth(e, a)))
_composite("biufc", "isnan")(lambda e, a: e.ne(a, a))
_composite("biu", "isinf")(lambda e, a: e.ne(a, a))
_composite("biu", "isfinite")(lambda e, a: e.eq(a, a))
_composite("f", "isinf")(lambda e, a: e.eq(e.abs(a), e.like(a, math.inf)))
_composite("f", "isfinite")(lambda e, a: e.lt(e.abs(a), e.like(a, math.inf)))
_composite("c", "isinf")(lambda e, a: e.or_(e.isinf(e.real(a)), e.isinf(e.imag(a))))
_composite("c", "isfinite")(lambda e, a: e.and_(e.isfinite(e.real(a)), e.isfinite(e.imag(a))))


# -- sign, size, the larger one
@_composite("ifu", "sign")
def _sign(e: Any, a: Any) -> Any:
    zero, one = e.like(a, 0), e.like(a, 1)
    if e.kind(a) == "u":
        return e.select(e.gt(a, zero), one, zero)
    out = e.select(e.gt(a, zero), one, e.select(e.lt(a, zero), e.like(a, -1), zero))
    return e.select(e.ne(a, a), a, out) if e.kind(a) == "f" else out


_composite("iu", "neg")(lambda e, a: e.sub(e.like(a, 0), a))
_composite("i", "abs")(lambda e, a: e.select(e.lt(a, e.like(a, 0)), e.neg(a), a))
_composite("f", "reciprocal")(lambda e, a: e.div(e.like(a, 1.0), a))
_composite("iu", "maximum", "fmax")(lambda e, a, b: e.select(e.gt(a, b), a, b))
_composite("iu", "minimum", "fmin")(lambda e, a, b: e.select(e.lt(a, b), a, b))
_composite("f", "maximum")(lambda e, a, b: e.select(e.ne(a, a), a, e.select(e.gt(a, b), a, b)))
_composite("f", "minimum")(lambda e, a, b: e.select(e.ne(a, a), a, e.select(e.lt(a, b), a, b)))
_composite("f", "fmax")(lambda e, a, b: e.select(e.ne(b, b), a, e.select(e.gt(a, b), a, b)))
_composite("f", "fmin")(lambda e, a, b: e.select(e.ne(b, b), a, e.select(e.lt(a, b), a, b)))


# -- shifts
def _last_bit(e: Any, a: Any) -> Any:
    return e.sub(e.width(a), e.like(a, 1))


@_composite("iu", "shift_left")
def _shift_left(e: Any, a: Any, b: Any) -> Any:
    fits, nothing = e.below(b, e.width(a)), e.like(a, 0)
    return e.select(fits, e.shifted_left(a, e.select(fits, b, nothing)), nothing)


@_composite("iu", "shift_right")
def _shift_right(e: Any, a: Any, b: Any) -> Any:
    fits, nothing = e.below(b, e.width(a)), e.like(a, 0)
    if e.kind(a) == "i":  # by width - 1 it leaves the sign
        return e.shifted_right(a, e.select(fits, b, _last_bit(e, a)))
    return e.select(fits, e.shifted_right(a, e.select(fits, b, nothing)), nothing)


# -- division with rest
def _divisor(e: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """b where a processor can divide by it, else 1, and where b is 0."""
    one = e.like(a, 1)
    zero = bad = e.eq(b, e.like(b, 0))
    if e.kind(a) == "i":
        least = e.eq(a, e.shifted_left(one, _last_bit(e, a)))
        bad = e.or_(bad, e.and_(least, e.eq(b, e.like(b, -1))))
    return e.select(bad, one, b), zero


def _wrong_sign(e: Any, rest: Any, divisor: Any) -> Any:
    """Where a rest that is not zero has the other sign than the divisor."""
    zero = e.like(rest, 0)
    return e.and_(e.ne(rest, zero), e.lt(e.xor(rest, divisor), zero))


@_composite("iu", "floor_divide")
def _floor_divide(e: Any, a: Any, b: Any) -> Any:
    divisor, zero = _divisor(e, a, b)
    out = e.quotient(a, divisor)
    if e.kind(a) == "i":
        wrong = _wrong_sign(e, e.sub(a, e.mul(out, divisor)), divisor)
        out = e.select(wrong, e.sub(out, e.like(a, 1)), out)
    return e.select(zero, e.like(a, 0), out)


@_composite("iu", "mod")
def _mod(e: Any, a: Any, b: Any) -> Any:
    """The rest with the divisor's sign."""
    divisor, zero = _divisor(e, a, b)
    rest = e.rest(a, divisor)
    if e.kind(a) == "i":
        rest = e.select(_wrong_sign(e, rest, divisor), e.add(rest, divisor), rest)
    return e.select(zero, e.like(a, 0), rest)


@_composite("iu", "fmod")
def _fmod(e: Any, a: Any, b: Any) -> Any:
    """The rest with the dividend's sign."""
    divisor, zero = _divisor(e, a, b)
    return e.select(zero, e.like(a, 0), e.rest(a, divisor))


def _rest(e: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """The rest of floats that `fmod` gives, whether it is 0, and whether it has the other sign than the divisor."""
    rest, zero = e.fmod(x, y), e.like(x, 0.0)
    exact = e.eq(rest, zero)
    return rest, exact, e.and_(e.xor(e.lt(y, zero), e.lt(rest, zero)), e.not_(exact))


@_composite("f", "floor_divide")
def _floor_divide_floats(e: Any, x: Any, y: Any) -> Any:
    """Step by step as CPython and NumPy define it."""
    rest, _, wrong = _rest(e, x, y)
    zero, one, plain = e.like(x, 0.0), e.like(x, 1.0), e.div(x, y)
    quotient = e.div(e.sub(x, rest), y)
    quotient = e.select(wrong, e.sub(quotient, one), quotient)
    low = e.floor(quotient)
    low = e.select(e.gt(e.sub(quotient, low), e.like(x, 0.5)), e.add(low, one), low)
    low = e.select(e.eq(quotient, zero), e.copysign(zero, plain), low)
    return e.select(e.eq(y, zero), plain, low)


@_composite("f", "mod")
def _mod_floats(e: Any, x: Any, y: Any) -> Any:
    rest, exact, wrong = _rest(e, x, y)
    zero = e.like(x, 0.0)
    moved = e.select(exact, e.copysign(zero, y), e.select(wrong, e.add(rest, y), rest))
    return e.select(e.eq(y, zero), rest, moved)


# -- sums of exponentials
def _log_sum(exponential: str, factor: float | None, double: float) -> Callable[..., Any]:
    def log_sum(e: Any, a: Any, b: Any) -> Any:
        rest = e.log1p(getattr(e, exponential)(e.neg(e.abs(e.sub(a, b)))))
        rest = rest if factor is None else e.mul(rest, e.like(a, factor))
        return e.select(e.eq(a, b), e.add(a, e.like(a, double)), e.add(e.maximum(a, b), rest))  # equal infinities, too

    return log_sum


_composite("f", "logaddexp")(_log_sum("exp", None, math.log(2.0)))
_composite("f", "logaddexp2")(_log_sum("exp2", 1.4426950408889634, 1.0))


# -- complex numbers
def _by_parts(name: str) -> Callable[..., Any]:
    def by_parts(e: Any, *operands: Any) -> Any:
        atom = getattr(e, name)
        return e.pair(atom(*[e.real(z) for z in operands]), atom(*[e.imag(z) for z in operands]))

    return by_parts


for _name in ("add", "sub", "neg"):
    _composite("c", _name)(_by_parts(_name))
_composite("c", "eq")(lambda e, a, b: e.and_(e.eq(e.real(a), e.real(b)), e.eq(e.imag(a), e.imag(b))))
_composite("c", "ne")(lambda e, a, b: e.or_(e.ne(e.real(a), e.real(b)), e.ne(e.imag(a), e.imag(b))))
_composite("c", "abs")(lambda e, a: e.hypot(e.real(a), e.imag(a)))


@_composite("c", "mul")
def _product(e: Any, a: Any, b: Any) -> Any:
    r, i, s, j = e.real(a), e.imag(a), e.real(b), e.imag(b)
    return e.pair(e.sub(e.mul(r, s), e.mul(i, j)), e.add(e.mul(r, j), e.mul(i, s)))


@_composite("c", "div")
def _quotient(e: Any, a: Any, b: Any) -> Any:
    r, i, s, j = e.real(a), e.imag(a), e.real(b), e.imag(b)
    size, other = e.abs(s), e.abs(j)
    leads = e.ge(size, other)  # the real part of the divisor
    large, small = e.select(leads, s, j), e.select(leads, j, s)
    ratio = e.div(small, large)
    scale = e.div(e.like(r, 1.0), e.add(large, e.mul(small, ratio)))
    x, y = e.select(leads, r, i), e.select(leads, i, r)
    real = e.mul(e.add(x, e.mul(y, ratio)), scale)
    turned = e.mul(x, ratio)
    imag = e.mul(e.select(leads, e.sub(y, turned), e.sub(turned, y)), scale)
    zero = e.like(r, 0.0)
    nothing = e.and_(e.eq(size, zero), e.eq(other, zero))
    return e.pair(e.select(nothing, e.div(r, size), real), e.select(nothing, e.div(i, size), imag))


@_composite("c", "exp")
def _exp(e: Any, z: Any) -> Any:
    x, y = e.real(z), e.imag(z)
    one, zero = e.like(x, 1.0), e.like(x, 0.0)
    edge, power = e.sized(x, 700.0, 80.0), e.sized(x, math.exp(700.0), float(np.exp(np.float32(80.0))))
    beyond = e.gt(x, edge)  # where exp(x) overflows, and its product with a small sine or cosine may not
    far = e.gt(x, e.add(edge, edge))
    size = e.exp(e.sub(e.sub(x, e.select(beyond, edge, zero)), e.select(far, edge, zero)))
    flat = e.eq(y, zero)
    real, imag = e.select(flat, one, e.cos(y)), e.sin(y)
    for factor in (e.select(beyond, power, one), e.select(far, power, one), size):
        real, imag = e.mul(real, factor), e.mul(imag, factor)
    imag = e.select(flat, y, imag)
    lost = e.and_(e.isinf(x), e.not_(e.isfinite(y)))  # of an infinite real part the size is known all the same
    falls = e.lt(x, zero)
    real = e.select(lost, e.select(falls, zero, x), real)
    return e.pair(real, e.select(e.and_(lost, falls), e.copysign(zero, y), imag))


@_composite("c", "sqrt")
def _sqrt(e: Any, z: Any) -> Any:
    x, y = e.real(z), e.imag(z)
    a, b = e.abs(x), e.abs(y)
    largest, zero, one, infinite = e.maximum(a, b), e.like(x, 0.0), e.like(x, 1.0), e.like(x, math.inf)
    high = e.gt(largest, e.sized(x, 2.0**450, 2.0**56))
    low = e.lt(largest, e.sized(x, 2.0**-450, 2.0**-56))
    factor = e.select(high, e.sized(x, 2.0**-600, 2.0**-40), e.select(low, e.sized(x, 2.0**600, 2.0**40), one))
    back = e.select(high, e.sized(x, 2.0**300, 2.0**20), e.select(low, e.sized(x, 2.0**-300, 2.0**-20), one))
    near = e.mul(a, factor)
    main = e.mul(e.sqrt(e.mul(e.add(near, e.hypot(near, e.mul(b, factor))), e.like(x, 0.5))), back)
    other = e.div(b, e.add(main, main))
    falls, nothing = e.lt(x, zero), e.eq(largest, zero)
    real, imag = e.select(falls, other, main), e.copysign(e.select(falls, main, other), y)
    real, imag = e.select(nothing, zero, real), e.select(nothing, y, imag)
    endless, unknown = e.isinf(x), e.ne(y, y)
    real = e.select(endless, e.select(falls, e.select(unknown, y, zero), x), real)
    rest = e.select(unknown, y, e.copysign(zero, y))
    imag = e.select(endless, e.select(falls, e.copysign(infinite, y), rest), imag)
    tall = e.isinf(y)
    return e.pair(e.select(tall, infinite, real), e.select(tall, y, imag))


@_composite("c", "log")
def _log(e: Any, z: Any) -> Any:
    a, b = e.abs(e.real(z)), e.abs(e.imag(z))
    x, y = e.maximum(a, b), e.minimum(a, b)
    one, zero = e.like(x, 1.0), e.like(x, 0.0)
    high = e.gt(x, e.sized(x, 2.0**450, 2.0**56))  # out there a square, or a size, is no number
    low = e.lt(x, e.sized(x, 2.0**-450, 2.0**-56))
    factor = e.select(high, e.sized(x, 2.0**-600, 2.0**-75), e.select(low, e.sized(x, 2.0**600, 2.0**75), one))
    moved = e.sized(x, 600 * math.log(2), 75 * math.log(2))
    moved = e.select(high, moved, e.select(low, e.neg(moved), zero))
    far = e.add(e.log(e.hypot(e.mul(a, factor), e.mul(b, factor))), moved)
    less, more = e.sub(x, one), e.add(x, one)
    more_low = e.sub(x, e.sub(more, one))
    first, second = e.mul(less, more), e.mul(y, y)
    first_low, second_low = e.fma(less, more, e.neg(first)), e.fma(y, y, e.neg(second))
    swap = e.lt(e.abs(first), e.abs(second))
    large, small = e.select(swap, second, first), e.select(swap, first, second)
    total = e.add(large, small)
    error = e.add(e.sub(large, total), small)
    rest = e.add(e.add(first_low, second_low), e.fma(less, more_low, error))
    near = e.mul(e.log1p(e.add(total, rest)), e.like(x, 0.5))
    close = e.and_(e.gt(x, e.like(x, 0.5)), e.lt(x, e.like(x, 1.5)))
    return e.pair(e.select(close, near, far), e.arctan2(e.imag(z), e.real(z)))


def integer_power(e: Any, a: Any, n: int) -> Any:
    """a**n of an integer (n >= 0) or of a complex number, by products in the order in which NumPy takes them."""
    complex_ = e.kind(a) == "c"
    first = n in (-1, 3) or not complex_  # NumPy begins with the number itself, and with 1 for other powers of complex numbers
    out, square, rest = a if first else e.like(a, 1), a, abs(n) - first
    while rest:
        out = e.mul(out, square) if rest & 1 else out
        rest >>= 1
        square = e.mul(square, square) if rest else square
    if not complex_:
        return out
    out = e.div(e.like(a, 1), out) if n < 0 else out
    of_zero = e.like(a, complex(math.nan, math.nan) if n < 0 else 0)
    return e.select(e.eq(a, e.like(a, 0)), of_zero, out)

"""Arithmetic: neg, add, sub, mul, div, roots, size, sign; rounding, extrema of two values, and operations on whole numbers and
on the bits of floats.

Operands have equal shapes and dtypes (literals excepted). Rules at special points: where a slope turns (`hypot` and complex
`abs` at 0, `root` of a sum of squares) it is 0, a number like others: times an infinite slope outside it gives NaN, and so is
its own derivative (`turn`). Powers of such values are exact (`exact_pow`, see families.py). x**0 has derivative exactly 0; a
literal integral exponent takes `integer_pow`, whose derivatives of every order are polynomials (so the hessian of x**3 at 0 is
0, not NaN).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from funcad.host.real_types import dtype_kind
from funcad.ir.aval import Aval, dtype_of
from funcad.ir.primitive import is_linear, not_linear
from funcad.ir.tracer import Tracer
from funcad.primitives import placement
from funcad.primitives.comparison import and_, eq, ge, gt, isinf, isnan, lt, ne, not_, or_, select, signbit
from funcad.primitives.conversion import conj, convert, imag, make_complex, real
from funcad.primitives.families import REAL, elementwise, exact_square, integer_power, operator_impl, with_ufunc
from funcad.primitives.families import add as add

neg = elementwise(
    "neg",
    operator_impl(operator.neg, np.negative),
    [lambda t, out, x: neg(t)],
    transpose=lambda ct, x: [neg(ct)],
    emit=lambda e, x: e.neg(x),
    weak=True,
    square=lambda x: exact_square(x),
    calm=True,
)
sub = elementwise(
    "sub",
    operator_impl(operator.sub, np.subtract),
    lambda tangents, out, x, y: _sub_tangents(*tangents),
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, neg(ct) if is_linear(y) else None],
    emit=lambda e, x, y: e.sub(x, y),
    weak=True,
    calm=True,
)
mul = elementwise(
    "mul",
    operator_impl(operator.mul, np.multiply),
    lambda tangents, out, x, y: _mul_tangents(tangents[0], tangents[1], x, y),
    transpose=lambda ct, x, y: _mul_transpose(ct, x, y),
    emit=lambda e, x, y: e.mul(x, y),
    commutes="bits",  # except for which NaN comes out of two
    weak=True,
    square=lambda x, y: _square_of_product(mul, x, y),
    calm=True,
)


def _mul_transpose(ct: Any, x: Any, y: Any) -> list:
    if is_linear(x):
        if is_linear(y):
            raise not_linear("mul")
        return [mul(ct, y), None]
    return [None, mul(x, ct)]


def _square_of_product(function: Any, x: Any, y: Any) -> Any:
    """Of a product or quotient with a factor whose square is known; two factors that are products might be a large tree."""
    if type(x) is Tracer and type(y) is Tracer:
        if x is y:
            return None
        first, second = [None if _is_product(a) else exact_square(a) for a in (x, y)]
    else:
        first, second = exact_square(x), exact_square(y)
    if first is None and second is None:
        return None
    return function(*[integer_pow(a, 2) if s is None else s for a, s in ((x, first), (y, second))])


def _is_product(x: Any) -> bool:
    made = x.owner.made_by(x, True)
    return made is None or made[0] is mul or made[0] is div


def _div_transpose(ct: Any, x: Any, y: Any) -> list:
    if is_linear(y):
        raise not_linear("div")
    return [div(ct, y), None]


# -- product rules as one linear equation where they can be: un-jitted gradients pay per recorded equation
def _sub_tangents(tx: Any, ty: Any) -> Any:
    return neg(ty) if tx is None else tx if ty is None else sub(tx, ty)


def _mul_tangents(tx: Any, ty: Any, x: Any, y: Any) -> Any:
    if ty is None:
        return mul(tx, y)
    if tx is None:
        return mul(x, ty)
    return mul(tx, add(x, x)) if tx is ty and x is y else mul_add_p(tx, y, x, ty)


def _div_tangents(tx: Any, ty: Any, out: Any, y: Any) -> Any:
    if ty is None:
        return div(tx, y)
    return mul(neg(div(out, y)), ty) if tx is None else div(sub(tx, mul(out, ty)), y)


mul_add_p = elementwise(  # a * b + c * d
    "mul_add",
    None,
    [
        lambda t, out, a, b, c, d: mul(t, b),
        lambda t, out, a, b, c, d: mul(a, t),
        lambda t, out, a, b, c, d: mul(t, d),
        lambda t, out, a, b, c, d: mul(c, t),
    ],
    transpose=lambda ct, a, b, c, d: [
        mul(ct, b) if is_linear(a) else None,
        mul(a, ct) if is_linear(b) else None,
        mul(ct, d) if is_linear(c) else None,
        mul(c, ct) if is_linear(d) else None,
    ],
    emit=lambda e, a, b, c, d: e.add(e.mul(a, b), e.mul(c, d)),
    weak=True,
)


def _true_dtype(dtype: np.dtype) -> np.dtype:
    return dtype if dtype_kind(dtype) in "fc" else np.dtype(np.float64)


div = elementwise(
    "div",
    operator_impl(operator.truediv, np.true_divide),
    lambda tangents, out, x, y: _div_tangents(tangents[0], tangents[1], out, y),
    transpose=lambda ct, x, y: _div_transpose(ct, x, y),
    emit=lambda e, x, y: e.div(x, y),
    dtype=_true_dtype,
    weak=True,
    square=lambda x, y: _square_of_product(div, x, y),
    calm=True,
)
# -- powers
def _integer_pow_abstract(x: Aval, *, n: int) -> Aval:
    if n >= 0 or dtype_kind(x.dtype) in "fc":
        return Aval(x.shape, x.dtype, x.weak)
    if not x.weak:
        raise ValueError("Integers to negative integer powers are not allowed.")
    return Aval(x.shape, np.dtype(np.float64), True)


def _integer_pow_jvp(t: Any, out: Any, x: Any, *, n: int) -> Any:
    if n == 0:
        return None
    if n == 1:
        return t
    return mul(mul(float(n), x if n == 2 else integer_pow(x, n - 1)), t)


integer_pow_p = elementwise(
    "integer_pow",
    integer_power,
    [_integer_pow_jvp],
    abstract_eval=_integer_pow_abstract,
    emit=lambda e, x, *, n: e.integer_pow(x, n),
    calm=True,
    label="power",
)
square_p = elementwise("square", np.square, [lambda t, out, x: mul(mul(2.0, x), t)], emit=lambda e, x: e.mul(x, x), calm=True)
reciprocal = elementwise(
    "reciprocal",
    np.reciprocal,
    [lambda t, out, x: neg(mul(mul(out, out), t))],
    emit=lambda e, x: e.reciprocal(x),
    calm=True,
)
sqrt = elementwise("sqrt", np.sqrt, [lambda t, out, x: div(t, mul(2.0, out))], emit=lambda e, x: e.sqrt(x), calm=True)
rsqrt = elementwise(
    "rsqrt",
    None,
    [lambda t, out, x: mul(mul(-0.5, div(out, x)), t)],
    emit=lambda e, x: e.div(e.const(1.0), e.sqrt(x)),
)
cbrt = elementwise("cbrt", np.cbrt, [lambda t, out, x: div(t, mul(3.0, mul(out, out)))], emit=lambda e, x: e.cbrt(x))


# -- where slopes turn


# x / r; where r is 0, 0 * x, and NaN is what its derivative by r is there.
turn = elementwise(  # t / r with 0 * t where r is 0; there its derivative by r, along which the slope turns, is NaN
    "turn",
    None,
    [
        lambda t, out, x, r: turn(t, r),
        lambda t, out, x, r: mul(select(eq(r, 0.0), float("nan"), neg(div(out, r))), t),
    ],
    transpose=lambda ct, x, r: [turn(ct, r), None],
    emit=lambda e, x, r: e.div(x, e.select(e.eq(r, e.const(0.0)), e.const(float("inf")), r)),
)
# The square root of a sum of squares: its derivative at 0 is 0, because all of theirs are.
root = elementwise(  # of a sum of squares
    "root_of_squares",
    np.sqrt,
    [lambda t, out, x: turn(mul(0.5, t), out)],
    emit=lambda e, x: e.sqrt(x),
    square=lambda x: x,
    turns=True,
    lowering=lambda x: sqrt(x),
)


def _exact_pow_tangent(tangents: Any, out: Any, r: Any, s: Any, *, n: int) -> Any:
    t = tangents[1]
    if t is None or n == 2:
        return t
    return mul(mul(n / 2, root(s) if n == 3 else exact_pow_p(r, s, n=n - 2)), t)


exact_pow_p = elementwise(  # r**n for n >= 2, where s is r**2 exactly, with all derivatives
    "exact_pow",
    None,
    _exact_pow_tangent,
    abstract_eval=lambda r, s, *, n: Aval(r.shape, r.dtype, r.weak),
    emit=lambda e, r, s, *, n: e.integer_pow(r, n),
    square=lambda r, s, *, n: integer_pow(s, n),
    lowering=lambda r, s, *, n: integer_pow(r, n),
)


def exact_power(x: Any, n: int) -> Any:
    """x**n if the square of x is known exactly, else None."""
    s = exact_square(x)
    return None if s is None else exact_pow_p(x, s, n=n)


# -- size and sign
def _nonzero(x: Any) -> Any:
    """x with its zeros replaced by one: a divisor where the numerator is zero, too."""
    return select(eq(x, 0.0), 1.0, x)


def _abs_jvp(t: Any, out: Any, x: Any) -> Any:
    if dtype_of(x).kind != "c":
        return mul(sign(x), t)
    slope = make_complex(turn(real(x), out), turn(imag(x), out))  # of its derivatives none is 0 or inf before its time
    return real(mul(conj(slope), t))


def _abs_square(x: Any) -> Any:
    return integer_pow(x, 2) if dtype_of(x).kind != "c" else add(square(real(x)), square(imag(x)))


def _sign_jvp(t: Any, out: Any, x: Any) -> Any:
    if dtype_of(x).kind != "c":
        return None
    size = abs_(x)  # x / |x| moves along the circle only
    along = convert(_abs_jvp(t, size, x), dtype_of(x))
    return select(eq(x, 0.0), 0.0, div(sub(t, mul(out, along)), convert(_nonzero(size), dtype_of(x))))


abs_ = elementwise(
    "abs",
    operator_impl(operator.abs, np.absolute),
    [_abs_jvp],
    dtype=REAL,
    weak=True,
    emit=lambda e, x: e.abs(x),
    square=_abs_square,
    turns=True,
)
# -1, 0 or 1; x / |x| for complex x.
sign = elementwise("sign", np.sign, [_sign_jvp], emit=lambda e, x: e.sign(x))
copysign = elementwise(
    "copysign",
    np.copysign,
    [lambda t, out, x, y: select(eq(signbit(x), signbit(out)), t, neg(t)), None],
    emit=lambda e, x, y: e.copysign(x, y),
)


def _squared(x: Any) -> Any:
    """A number of Python's stays one, which adapts to the dtype that it meets."""
    return mul(x, x) if type(x) in (int, float) else square(x)


hypot = elementwise(
    "hypot",
    np.hypot,
    [lambda t, out, x, y: mul(turn(x, out), t), lambda t, out, x, y: mul(turn(y, out), t)],
    emit=lambda e, x, y: e.hypot(x, y),
    square=lambda x, y: add(_squared(x), _squared(y)),
    turns=True,
)
heaviside = elementwise(
    "heaviside",
    np.heaviside,
    [None, lambda t, out, x, y: select(eq(x, 0.0), t, 0.0)],
)
nextafter = elementwise(
    "nextafter", np.nextafter, [lambda t, out, x, y: t, None], transpose=lambda ct, x, y: [ct, None]
)

for _p, _u in (
    (neg, np.negative),
    (sub, np.subtract),
    (mul, np.multiply),
    (div, np.true_divide),
    (abs_, np.absolute),
):
    with_ufunc(_p, _u)
abs_.inplace = None  # the absolute value of complex numbers has another dtype


def integer_pow(x: Any, n: int) -> Any:
    """x**n for a known integer n."""
    if n > 1 and type(x) is Tracer and x.owner.turned:
        exact = exact_power(x, n)
        if exact is not None:
            return exact
    return integer_pow_p(x, n=n)


def square(x: Any) -> Any:
    exact = exact_power(x, 2)
    return square_p(x) if exact is None else exact


def product(x: Any, y: Any) -> Any:
    """x * y of a user's: exact if it is a square."""
    exact = exact_power(x, 2) if x is y else None
    return mul(x, y) if exact is None else exact


# -- rounding, and the quotients and remainders that round


floor_divide = elementwise(
    "floor_divide",
    operator_impl(operator.floordiv, np.floor_divide, placement.floor_divide),
    [None, None],
    emit=lambda e, x, y: e.floor_divide(x, y),
    weak=True,
)
# The remainder with the divisor's sign (`%`, np.remainder).
mod = elementwise(  # the sign of the divisor, as Python's and NumPy's remainder
    "mod",
    operator_impl(operator.mod, np.remainder, placement.remainder),
    [lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(floor_divide(x, y), t))],
    emit=lambda e, x, y: e.mod(x, y),
    weak=True,
)
fmod = elementwise(  # the sign of the dividend, as C's
    "fmod",
    np.fmod,
    [lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(rint(div(sub(x, out), y)), t))],
    emit=lambda e, x, y: e.fmod(x, y),
)

# -- rounding: no derivative
floor = elementwise("floor", np.floor, [None], emit=lambda e, x: e.floor(x))
ceil = elementwise("ceil", np.ceil, [None], emit=lambda e, x: e.ceil(x))
rint = elementwise("rint", np.rint, [None], emit=lambda e, x: e.rint(x))
trunc = elementwise("trunc", np.trunc, [None], emit=lambda e, x: e.trunc(x))

with_ufunc(floor_divide, np.floor_divide)
with_ufunc(mod, np.remainder)


def round_(x: Any, decimals: int = 0) -> Any:
    """NumPy's rounding to decimals: scale, round half to even, scale back. Integers for decimals >= 0: x itself."""
    kind = dtype_of(x).kind
    if decimals == 0 or (kind in "biu" and decimals > 0):
        return x if kind in "biu" else rint(x)
    if kind in "biu":
        scale = dtype_of(x).type(10**-decimals)
        return convert(mul(rint(div(x, scale)), float(scale)), dtype_of(x))
    scale = float(10 ** abs(decimals))
    return div(rint(mul(x, scale)), scale) if decimals > 0 else mul(rint(div(x, scale)), scale)


# -- extrema of two values, element by element, and clamp
#
# A tie splits the derivative in halves. `maximum` and `minimum` propagate NaN, and so do their derivatives; `fmax` and `fmin`
# ignore it, and the operand that they return has the whole derivative. `clamp` says by a parameter what its derivative on the
# bounds is.


def _share(t: Any, out: Any, wins: Any, loses: Any) -> Any:
    """The share of t of one of two competitors: all, nothing, a half in a tie, NaN if the result is.

    A mask and a weight: its transpose is no longer than itself. Where there are values, they say what is not needed.
    """
    if _everywhere(or_, wins, loses):
        return select(loses, 0.0, t)
    undefined, kind = isnan(out), out.dtype.type
    if not issubclass(kind, np.floating):
        return select(wins, t, select(loses, 0.0, mul(select(undefined, out, 0.5), t)))
    tied = kind(0.5) if _everywhere(not_, undefined) else select(undefined, out, kind(0.5))
    return mul(select(loses, 0.0, t), select(wins, kind(1.0), tied))


_KNOWN = frozenset([np.ndarray, np.bool_, bool])


def _everywhere(condition: Any, *of: Any) -> bool:
    """Does the condition hold everywhere? False where nobody can say."""
    traced = [x for x in of if type(x) not in _KNOWN]
    if not traced:
        known = condition(*of)
        return bool(known.all()) if type(known) is np.ndarray else bool(known)
    decide = traced[0].owner.decide if type(traced[0]) is Tracer else None
    return decide is not None and decide(condition(*of))


maximum = elementwise(
    "maximum",
    np.maximum,
    [
        lambda t, out, x, y: _share(t, out, gt(x, y), lt(x, y)),
        lambda t, out, x, y: _share(t, out, lt(x, y), gt(x, y)),
    ],
    emit=lambda e, x, y: e.maximum(x, y),
    commutes="value",
)
minimum = elementwise(
    "minimum",
    np.minimum,
    [
        lambda t, out, x, y: _share(t, out, lt(x, y), gt(x, y)),
        lambda t, out, x, y: _share(t, out, gt(x, y), lt(x, y)),
    ],
    emit=lambda e, x, y: e.minimum(x, y),
    commutes="value",
)


def _in_contest(out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Whether x wins, and whether it loses, against y, where a NaN loses against numbers and two are a tie."""
    differ = ne(x, y)
    return and_(eq(out, x), differ), and_(eq(out, y), differ)


fmax = elementwise(
    "fmax",
    np.fmax,
    [
        lambda t, out, x, y: _share(t, out, *_in_contest(out, x, y)),
        lambda t, out, x, y: _share(t, out, *_in_contest(out, y, x)),
    ],
    emit=lambda e, x, y: e.fmax(x, y),
    commutes="value",
)
fmin = elementwise(
    "fmin",
    np.fmin,
    [
        lambda t, out, x, y: _share(t, out, *_in_contest(out, x, y)),
        lambda t, out, x, y: _share(t, out, *_in_contest(out, y, x)),
    ],
    emit=lambda e, x, y: e.fmin(x, y),
    commutes="value",
)


def _clamp_by_x(t: Any, out: Any, x: Any, lo: Any, hi: Any, *, boundary_grad: float) -> Any:
    if boundary_grad == 1.0:
        return select(and_(ge(x, lo), ge(hi, x)), t, 0.0)
    inside = select(and_(gt(x, lo), gt(hi, x)), t, 0.0)
    if boundary_grad == 0.0:
        return inside
    at_bound = and_(or_(eq(x, lo), eq(x, hi)), and_(ge(x, lo), ge(hi, x)))
    return select(at_bound, mul(boundary_grad, t), inside)


clamp_p = elementwise(
    "clamp",
    None,
    [
        _clamp_by_x,
        lambda t, out, x, lo, hi, *, boundary_grad: select(and_(gt(lo, x), gt(hi, lo)), t, 0.0),
        lambda t, out, x, lo, hi, *, boundary_grad: select(or_(gt(x, hi), gt(lo, hi)), t, 0.0),
    ],
    emit=lambda e, x, lo, hi, *, boundary_grad: e.minimum(hi, e.maximum(lo, x)),
)


def clamp(x: Any, lo: Any, hi: Any, *, boundary_grad: float = 0.0) -> Any:
    """min(hi, max(lo, x)); the derivative is 1 inside, 0 outside and `boundary_grad` on the bounds. NaN stays NaN."""
    return clamp_p(x, lo, hi, boundary_grad=float(boundary_grad))


# -- mantissa and exponent: ldexp, frexp, modf


# x * 2**n with an integer n.
ldexp = elementwise(
    "ldexp",
    np.ldexp,
    [lambda t, out, x, n: ldexp(t, n), None],
    transpose=lambda ct, x, n: [ldexp(ct, n), None],
    abstract_eval=lambda x, n: Aval(x.shape or n.shape, x.dtype),
)
# The first part of np.frexp.
mantissa = elementwise(
    "mantissa", lambda xp, x: xp.frexp(x)[0], [lambda t, out, x: ldexp(t, neg(exponent(x)))]
)
# The second part of np.frexp, int32.
exponent = elementwise("exponent", lambda xp, x: xp.frexp(x)[1], [None], dtype=np.dtype(np.int32))


def frexp(x: Any) -> tuple[Any, Any]:
    return mantissa(x), exponent(x)


def modf(x: Any) -> tuple[Any, Any]:
    """Fractional and integral part, both with x's sign."""
    return select(isinf(x), copysign(0.0, x), fmod(x, 1.0)), trunc(x)


# -- whole numbers and the grid of floats: gcd, lcm, the number of set bits, the distance to the next float
#
# None has a derivative other than zero. Trap: NumPy counts the bits of the absolute value of a signed integer.


def _bit_count(xp: Any, x: Any) -> Any:
    if xp is np:
        return np.bitwise_count(x)
    dtype = np.dtype(f"u{x.dtype.itemsize}")  # on the device: neighbours added in ever wider fields
    bits, width, shift = xp.abs(x).astype(dtype), 8 * dtype.itemsize, 1
    while shift < width:
        mask = dtype.type(sum([((1 << shift) - 1) << i for i in range(0, width, 2 * shift)]))
        bits = (bits & mask) + ((bits >> dtype.type(shift)) & mask)
        shift *= 2
    return bits.astype(np.uint8)


def _spacing(xp: Any, x: Any) -> Any:
    if xp is np:
        return np.spacing(x)
    return xp.copysign(xp.nextafter(xp.abs(x), x.dtype.type(np.inf)) - xp.abs(x), x)


gcd = elementwise("gcd", np.gcd, [None, None])
lcm = elementwise("lcm", np.lcm, [None, None])
# The number of ones in the binary form of |x|, as uint8.
bit_count = elementwise("bit_count", _bit_count, [None], dtype=np.dtype(np.uint8))
# The distance from x to the next float away from zero, with x's sign.
spacing = elementwise("spacing", _spacing, [None])

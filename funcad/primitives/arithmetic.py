"""Arithmetic: neg, add, sub, mul, div, powers, roots, size, sign, rounding.

Operands have equal shapes and dtypes (literals excepted). Rules at special points: `abs` has derivative 0 at 0 and
`hypot` at (0, 0); x**0 has derivative exactly 0; a literal integral exponent takes `integer_pow`, whose derivatives of
every order are polynomials (so the hessian of x**3 at 0 is 0, not NaN).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, aval_of, dtype_of
from funcad.ir.primitive import is_linear, not_linear
from funcad.primitives import families
from funcad.primitives.comparison import and_, eq, ge, isinf, select, signbit
from funcad.primitives.conversion import conj, convert, real
from funcad.primitives.families import REAL, elementwise
from funcad.primitives.operators import operator_impl, with_ufunc

neg_p = elementwise(
    "neg",
    operator_impl(operator.neg, np.negative),
    [lambda t, out, x: neg(t)],
    transpose=lambda ct, x: [neg(ct)],
    emit=lambda e, x: e.neg(x),
    weak=True,
)
add_p = elementwise(
    "add",
    operator_impl(operator.add, np.add),
    lambda tangents, out, x, y: _add_tangents(*tangents),
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, ct if is_linear(y) else None],
    emit=lambda e, x, y: e.add(x, y),
    commutes="bits",  # except for which NaN comes out of two
    weak=True,
)
sub_p = elementwise(
    "sub",
    operator_impl(operator.sub, np.subtract),
    lambda tangents, out, x, y: _sub_tangents(*tangents),
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, neg(ct) if is_linear(y) else None],
    emit=lambda e, x, y: e.sub(x, y),
    weak=True,
)
mul_p = elementwise(
    "mul",
    operator_impl(operator.mul, np.multiply),
    lambda tangents, out, x, y: _mul_tangents(tangents[0], tangents[1], x, y),
    transpose=lambda ct, x, y: _mul_transpose(ct, x, y),
    emit=lambda e, x, y: e.mul(x, y),
    commutes="bits",  # except for which NaN comes out of two
    weak=True,
)


def _mul_transpose(ct: Any, x: Any, y: Any) -> list:
    if is_linear(x):
        if is_linear(y):
            raise not_linear("mul")
        return [mul(ct, y), None]
    return [None, mul(x, ct)]


def _div_transpose(ct: Any, x: Any, y: Any) -> list:
    if is_linear(y):
        raise not_linear("div")
    return [div(ct, y), None]


# -- product rules as one linear equation where they can be: un-jitted gradients pay per recorded equation
def _add_tangents(tx: Any, ty: Any) -> Any:
    return ty if tx is None else tx if ty is None else add(tx, ty)


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


def _mul_add_impl(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    left, right = a * b, c * d
    if type(left) is np.ndarray and type(right) is np.ndarray:
        return np.add(left, right, out=left)
    return left + right


mul_add_p = elementwise(  # a * b + c * d
    "mul_add",
    _mul_add_impl,
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
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


div_p = elementwise(
    "div",
    operator_impl(operator.truediv, np.true_divide),
    lambda tangents, out, x, y: _div_tangents(tangents[0], tangents[1], out, y),
    transpose=lambda ct, x, y: _div_transpose(ct, x, y),
    emit=lambda e, x, y: e.div(x, y),
    dtype=_true_dtype,
    weak=True,
)
floor_divide_p = elementwise(
    "floor_divide",
    operator_impl(operator.floordiv, np.floor_divide),
    [None, None],
    emit=lambda e, x, y: e.floor_divide(x, y),
    weak=True,
)
mod_p = elementwise(  # the sign of the divisor, as Python's and NumPy's remainder
    "mod",
    operator_impl(operator.mod, np.remainder),
    [lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(floor_divide(x, y), t))],
    emit=lambda e, x, y: e.mod(x, y),
    weak=True,
)
fmod_p = elementwise(  # the sign of the dividend, as C's
    "fmod",
    np.fmod,
    [lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(rint(div(sub(x, out), y)), t))],
    emit=lambda e, x, y: e.fmod(x, y),
)


# -- powers
_python_pow = operator_impl(operator.pow, np.power)


def _pow_impl(xp: Any, x: Any, y: Any) -> Any:
    out = _python_pow(xp, x, y)
    if type(out) is complex and type(x) is not complex and type(y) is not complex:
        return np.power(x, y)  # Python leaves the real line where NumPy says NaN
    return out


def _is_scalar(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.generic))


def _pow_by_base(t: Any, out: Any, x: Any, y: Any) -> Any:
    if _is_scalar(y):
        return None if y == 0 else mul(mul(y, pow(x, y - 1)), t)
    safe = select(and_(eq(x, 0.0), eq(y, 0.0)), 1.0, x)  # 0 * 0**-1: the derivative of x**0 is 0 at 0, too
    return mul(mul(y, pow(safe, sub(y, 1.0))), t)


def _pow_by_exponent(t: Any, out: Any, x: Any, y: Any) -> Any:
    if _is_scalar(x):  # the logarithm of a literal is a literal of the operands' dtype
        scalar = dtype_of(out).type
        return mul(mul(out, select(ge(y, 0.0), scalar(0), scalar(-np.inf)) if x == 0 else np.log(scalar(x))), t)
    one_at_zero = and_(eq(x, 0.0), ge(y, 0.0))  # there x**y is flat in y: its factor out * log(x) is 0 * -inf
    from_log = mul(out, _LOG[0](select(one_at_zero, 1.0, x)))
    return mul(from_log, t)


_LOG: list[Any] = [None]  # the function `log`, set by transcendental.py

pow_p = elementwise(
    "pow", _pow_impl, [_pow_by_base, _pow_by_exponent], emit=lambda e, x, y: e.pow(x, y), weak=True
)


def _integer_pow_impl(xp: Any, x: Any, *, n: int) -> Any:
    if n == 2:
        return x * x
    return _pow_impl(xp, x, n)


def _integer_pow_abstract(x: Aval, *, n: int) -> Aval:
    if n >= 0 or x.dtype.kind in "fc":
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
    _integer_pow_impl,
    [_integer_pow_jvp],
    abstract_eval=_integer_pow_abstract,
    emit=lambda e, x, *, n: e.integer_pow(x, n),
)
square_p = elementwise("square", np.square, [lambda t, out, x: mul(mul(2.0, x), t)], emit=lambda e, x: e.mul(x, x))
reciprocal_p = elementwise(
    "reciprocal",
    np.reciprocal,
    [lambda t, out, x: neg(mul(mul(out, out), t))],
    emit=lambda e, x: e.reciprocal(x),
)
sqrt_p = elementwise("sqrt", np.sqrt, [lambda t, out, x: div(t, mul(2.0, out))], emit=lambda e, x: e.sqrt(x))
rsqrt_p = elementwise(
    "rsqrt",
    lambda xp, x: 1.0 / xp.sqrt(x),
    [lambda t, out, x: mul(mul(-0.5, div(out, x)), t)],
    emit=lambda e, x: e.div(e.const(1.0), e.sqrt(x)),
)
cbrt_p = elementwise("cbrt", np.cbrt, [lambda t, out, x: div(t, mul(3.0, mul(out, out)))], emit=lambda e, x: e.cbrt(x))


# -- size and sign
def _nonzero(x: Any) -> Any:
    """x with its zeros replaced by one: a divisor where the numerator is zero, too."""
    return select(eq(x, 0.0), 1.0, x)


def _abs_jvp(t: Any, out: Any, x: Any) -> Any:
    if dtype_of(x).kind != "c":
        return select(eq(x, 0.0), 0.0, mul(sign(x), t))
    return div(real(mul(conj(x), t)), _nonzero(out))


def _sign_jvp(t: Any, out: Any, x: Any) -> Any:
    if dtype_of(x).kind != "c":
        return None
    size = abs_(x)  # x / |x| moves along the circle only
    along = convert(_abs_jvp(t, size, x), dtype_of(x))
    return select(eq(x, 0.0), 0.0, div(sub(t, mul(out, along)), convert(_nonzero(size), dtype_of(x))))


abs_p = elementwise(
    "abs", operator_impl(operator.abs, np.absolute), [_abs_jvp], dtype=REAL, weak=True, emit=lambda e, x: e.abs(x)
)
sign_p = elementwise("sign", np.sign, [_sign_jvp], emit=lambda e, x: e.sign(x))
copysign_p = elementwise(
    "copysign",
    np.copysign,
    [lambda t, out, x, y: select(eq(signbit(x), signbit(out)), t, neg(t)), None],
    emit=lambda e, x, y: e.copysign(x, y),
)
hypot_p = elementwise(
    "hypot",
    np.hypot,
    [lambda t, out, x, y: mul(div(x, _nonzero(out)), t), lambda t, out, x, y: mul(div(y, _nonzero(out)), t)],
    emit=lambda e, x, y: e.hypot(x, y),
)
heaviside_p = elementwise(
    "heaviside",
    np.heaviside,
    [None, lambda t, out, x, y: select(eq(x, 0.0), t, 0.0)],
)
nextafter_p = elementwise(
    "nextafter", np.nextafter, [lambda t, out, x, y: t, None], transpose=lambda ct, x, y: [ct, None]
)

# -- rounding: no derivative
floor_p = elementwise("floor", np.floor, [None], emit=lambda e, x: e.floor(x))
ceil_p = elementwise("ceil", np.ceil, [None], emit=lambda e, x: e.ceil(x))
rint_p = elementwise("rint", np.rint, [None], emit=lambda e, x: e.rint(x))
trunc_p = elementwise("trunc", np.trunc, [None], emit=lambda e, x: e.trunc(x))


# -- mantissa and exponent
ldexp_p = elementwise(
    "ldexp",
    np.ldexp,
    [lambda t, out, x, n: ldexp(t, n), None],
    transpose=lambda ct, x, n: [ldexp(ct, n), None],
    abstract_eval=lambda x, n: Aval(x.shape or n.shape, x.dtype),
)
mantissa_p = elementwise(
    "mantissa", lambda xp, x: xp.frexp(x)[0], [lambda t, out, x: ldexp(t, neg(exponent(x)))]
)
exponent_p = elementwise("exponent", lambda xp, x: xp.frexp(x)[1], [None], dtype=np.dtype(np.int32))

for _p, _u in (
    (neg_p, np.negative),
    (add_p, np.add),
    (sub_p, np.subtract),
    (mul_p, np.multiply),
    (div_p, np.true_divide),
    (floor_divide_p, np.floor_divide),
    (mod_p, np.remainder),
    (pow_p, np.power),
    (abs_p, np.absolute),
):
    with_ufunc(_p, _u)
abs_p.inplace = None  # the absolute value of complex numbers has another dtype


def neg(x: Any) -> Any:
    return neg_p(x)


def add(x: Any, y: Any) -> Any:
    return add_p(x, y)


def sub(x: Any, y: Any) -> Any:
    return sub_p(x, y)


def mul(x: Any, y: Any) -> Any:
    return mul_p(x, y)


def div(x: Any, y: Any) -> Any:
    return div_p(x, y)


def floor_divide(x: Any, y: Any) -> Any:
    return floor_divide_p(x, y)


def mod(x: Any, y: Any) -> Any:
    """The remainder with the divisor's sign (`%`, np.remainder)."""
    return mod_p(x, y)


def fmod(x: Any, y: Any) -> Any:
    return fmod_p(x, y)


def _integral(y: Any) -> int | None:
    """The integer that a literal exponent is, if it is one."""
    if not _is_scalar(y) or isinstance(y, (bool, np.bool_)):
        return None
    if isinstance(y, (complex, np.complexfloating)):
        if y.imag != 0:
            return None
        y = y.real
    return int(y) if abs(y) < 2**31 and int(y) == y else None


def pow(x: Any, y: Any) -> Any:
    """x**y; an integral literal exponent is a polynomial or its reciprocal, with safe derivatives at 0."""
    n = None if _is_scalar(x) or aval_of(x).weak and not aval_of(y).weak else _integral(y)
    return pow_p(x, y) if n is None else integer_pow(x, n)


def integer_pow(x: Any, n: int) -> Any:
    """x**n for a known integer n."""
    return integer_pow_p(x, n=n)


def square(x: Any) -> Any:
    return square_p(x)


def reciprocal(x: Any) -> Any:
    return reciprocal_p(x)


def sqrt(x: Any) -> Any:
    return sqrt_p(x)


def rsqrt(x: Any) -> Any:
    return rsqrt_p(x)


def cbrt(x: Any) -> Any:
    return cbrt_p(x)


def abs_(x: Any) -> Any:
    return abs_p(x)


def sign(x: Any) -> Any:
    """-1, 0 or 1; x / |x| for complex x."""
    return sign_p(x)


def copysign(x: Any, y: Any) -> Any:
    return copysign_p(x, y)


def hypot(x: Any, y: Any) -> Any:
    return hypot_p(x, y)


def heaviside(x: Any, y: Any) -> Any:
    return heaviside_p(x, y)


def nextafter(x: Any, y: Any) -> Any:
    return nextafter_p(x, y)


def floor(x: Any) -> Any:
    return floor_p(x)


def ceil(x: Any) -> Any:
    return ceil_p(x)


def rint(x: Any) -> Any:
    return rint_p(x)


def trunc(x: Any) -> Any:
    return trunc_p(x)


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


def ldexp(x: Any, n: Any) -> Any:
    """x * 2**n with an integer n."""
    return ldexp_p(x, n)


def mantissa(x: Any) -> Any:
    """The first part of np.frexp."""
    return mantissa_p(x)


def exponent(x: Any) -> Any:
    """The second part of np.frexp, int32."""
    return exponent_p(x)


def frexp(x: Any) -> tuple[Any, Any]:
    return mantissa(x), exponent(x)


def modf(x: Any) -> tuple[Any, Any]:
    """Fractional and integral part, both with x's sign."""
    return select(isinf(x), copysign(0.0, x), fmod(x, 1.0)), trunc(x)


families._ADD[0] = add

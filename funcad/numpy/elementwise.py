"""NumPy's elementwise functions: arithmetic, powers, transcendental functions, rounding.

A function's result is strong (`np.multiply(x, 2.0)` is a np.float64) where an operator's between Python scalars is weak; which
dtype an operand is converted to is NumPy's own table of loops (`promote_for`).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from funcad.errors import TracerBoolConversionError
from funcad.host.needs import given
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy import reductions
from funcad.numpy.aliases import apart, arrays, as_number, fresh, numbers
from funcad.numpy.axes import array_of
from funcad.numpy.creation import library
from funcad.numpy.dispatch import QUICK, checked_options, elementwise_ufunc, implements, refuse, where_am_i
from funcad.numpy.memory_order import laid_out
from funcad.numpy.promote import as_array, broadcast, promote, promote_for, strong
from funcad.primitives import arithmetic, comparison, conversion, extrema, mantissa, powers, rounding, transcendental
from funcad.primitives.shape import broadcast_to
from funcad.unjitted.strides import doubt

ARITHMETIC = "iufc"
REAL = "iuf"
FLOAT = "f"

add = elementwise_ufunc("add", arithmetic.add, ARITHMETIC, reduce=reductions.sum_, accumulate=reductions.cumsum)
subtract = elementwise_ufunc("subtract", arithmetic.sub, ARITHMETIC)
multiply = elementwise_ufunc("multiply", arithmetic.product, ARITHMETIC, reduce=reductions.prod, accumulate=reductions.cumprod)
divide = elementwise_ufunc("divide", arithmetic.div)
negative = elementwise_ufunc("negative", arithmetic.neg, ARITHMETIC)
positive = elementwise_ufunc("positive", lambda x: as_number(fresh(laid_out(x, "K"))), ARITHMETIC)
floor_divide = elementwise_ufunc("floor_divide", rounding.floor_divide, REAL)
remainder = elementwise_ufunc("remainder", rounding.mod, REAL)
fmod = elementwise_ufunc("fmod", rounding.fmod, REAL)
absolute = elementwise_ufunc("absolute", arithmetic.abs_, ARITHMETIC)
fabs = elementwise_ufunc("fabs", arithmetic.abs_, FLOAT)
sign = elementwise_ufunc("sign", arithmetic.sign, ARITHMETIC, by_kind=False)
square = elementwise_ufunc("square", arithmetic.square, ARITHMETIC)
sqrt = elementwise_ufunc("sqrt", arithmetic.sqrt)
cbrt = elementwise_ufunc("cbrt", arithmetic.cbrt, FLOAT)
reciprocal = elementwise_ufunc("reciprocal", arithmetic.reciprocal, ARITHMETIC)
floor = elementwise_ufunc("floor", rounding.floor, FLOAT, by_kind=False)
ceil = elementwise_ufunc("ceil", rounding.ceil, FLOAT, by_kind=False)
trunc = elementwise_ufunc("trunc", rounding.trunc, FLOAT, by_kind=False)
rint = elementwise_ufunc("rint", rounding.rint, by_kind=False)
maximum = elementwise_ufunc("maximum", extrema.maximum, ARITHMETIC, reduce=reductions.max_, accumulate=reductions.cummax)
minimum = elementwise_ufunc("minimum", extrema.minimum, ARITHMETIC, reduce=reductions.min_, accumulate=reductions.cummin)
fmax = elementwise_ufunc("fmax", extrema.fmax, ARITHMETIC)
fmin = elementwise_ufunc("fmin", extrema.fmin, ARITHMETIC)
copysign = elementwise_ufunc("copysign", arithmetic.copysign, FLOAT)
nextafter = elementwise_ufunc("nextafter", arithmetic.nextafter, FLOAT)
hypot = elementwise_ufunc("hypot", arithmetic.hypot, FLOAT)
heaviside = elementwise_ufunc("heaviside", arithmetic.heaviside, FLOAT)
conjugate = elementwise_ufunc("conjugate", lambda x: conj_(x), ARITHMETIC)

exp = elementwise_ufunc("exp", transcendental.exp)
exp2 = elementwise_ufunc("exp2", transcendental.exp2)
expm1 = elementwise_ufunc("expm1", transcendental.expm1)
log = elementwise_ufunc("log", transcendental.log)
log2 = elementwise_ufunc("log2", transcendental.log2)
log10 = elementwise_ufunc("log10", transcendental.log10)
log1p = elementwise_ufunc("log1p", transcendental.log1p)
sin = elementwise_ufunc("sin", transcendental.sin)
cos = elementwise_ufunc("cos", transcendental.cos)
tan = elementwise_ufunc("tan", transcendental.tan)
arcsin = elementwise_ufunc("arcsin", transcendental.arcsin)
arccos = elementwise_ufunc("arccos", transcendental.arccos)
arctan = elementwise_ufunc("arctan", transcendental.arctan)
arctan2 = elementwise_ufunc("arctan2", transcendental.arctan2, FLOAT)
sinh = elementwise_ufunc("sinh", transcendental.sinh)
cosh = elementwise_ufunc("cosh", transcendental.cosh)
tanh = elementwise_ufunc("tanh", transcendental.tanh)
arcsinh = elementwise_ufunc("arcsinh", transcendental.arcsinh)
arccosh = elementwise_ufunc("arccosh", transcendental.arccosh)
arctanh = elementwise_ufunc("arctanh", transcendental.arctanh)
logaddexp = elementwise_ufunc("logaddexp", transcendental.logaddexp, FLOAT)
logaddexp2 = elementwise_ufunc("logaddexp2", transcendental.logaddexp2, FLOAT)

_UNARY = "sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p".split()
QUICK.update({getattr(np, n): (getattr(transcendental, n), None) for n in _UNARY})
QUICK.update({p.ufunc: (p, None) for p in (arithmetic.sqrt, arithmetic.square_p, arithmetic.reciprocal)})
_OTHERS = (arithmetic.abs_, extrema.maximum, extrema.minimum, transcendental.logaddexp, transcendental.arctan2)
QUICK.update({p.ufunc: (p, p.ufunc) for p in _OTHERS})
QUICK.update({np.add: (arithmetic.add, operator.add), np.subtract: (arithmetic.sub, operator.sub)})
QUICK.update({np.power: (powers.pow_p, operator.pow)})  # of constant exponents the operators know more
QUICK.update({np.multiply: (arithmetic.mul, operator.mul), np.divide: (arithmetic.div, operator.truediv)})


def _to_radians(x: Any) -> Any:
    return arithmetic.mul(x, np.deg2rad(aval_of(x).dtype.type(1)))


def _to_degrees(x: Any) -> Any:
    return arithmetic.mul(x, np.rad2deg(aval_of(x).dtype.type(1)))


deg2rad = elementwise_ufunc("deg2rad", _to_radians, FLOAT)
rad2deg = elementwise_ufunc("rad2deg", _to_degrees, FLOAT)
radians = elementwise_ufunc("radians", _to_radians, FLOAT)
degrees = elementwise_ufunc("degrees", _to_degrees, FLOAT)


def conj_(x: Any) -> Any:
    return conversion.conj(x) if aval_of(x).dtype.kind == "c" else fresh(laid_out(x, "K"))


# -- powers


def exponent_of(y: Any) -> Any:
    """The exponent as a Python number if it is a plain scalar, else None."""
    kind = type(y)
    if kind is int or kind is float:
        return y
    if is_a(y, (np.floating, np.integer)) and not is_a(y, np.longdouble):
        return y.item()
    return None


def power_of(x: Any, y: Any) -> Any:
    """x ** y for operands of one dtype and one shape; constant exponents go to the cheap primitives."""
    n = exponent_of(y)
    kind = aval_of(x).dtype.kind
    if n is None or kind == "b":
        return powers.pow(x, y)
    if kind in "iu":
        if n < 0:
            raise ValueError("Integers to negative integer powers are not allowed.")
        return arithmetic.square(x) if n == 2 else arithmetic.integer_pow(x, int(n))
    if n == 2:
        return arithmetic.square(x)
    if n == 0.5:
        return arithmetic.sqrt(x)
    if n == int(n) if math.isfinite(n) and abs(n) < 2**31 else False:
        return arithmetic.integer_pow(x, int(n))
    return powers.pow(x, y)


power = elementwise_ufunc("power", power_of, ARITHMETIC, by_kind=False)
float_power = elementwise_ufunc("float_power", power_of, "", by_kind=False)


# -- not ufuncs


@implements("real_if_close", alias="same")
@arrays
def real_if_close(a: Any, tol: float = 100) -> Any:
    """`numpy.real_if_close`, where values are known: the dtype of the result depends on them."""
    x = array_of(a)
    dtype = aval_of(x).dtype
    if dtype.kind != "c":
        return x
    value = concrete_value(x)
    if type(value) is Tracer:
        raise TracerBoolConversionError(
            f"the dtype of np.real_if_close's result depends on the values of a traced {aval_of(x)}{where_am_i()}, but inside "
            f"{value.owner.name} it has no value.\nRemedy: np.real(x)."
        )
    limit = tol * np.finfo(dtype).eps if tol > 1 else tol
    return real(x) if np.all(np.absolute(np.imag(value)) < limit) else x


@implements("sinc", by_kind=True)
def sinc(x: Any) -> Any:
    x = array_of(x)
    return transcendental.sinc(conversion.convert(x, np.result_type(aval_of(x).dtype, 1.0)))


@implements("clip", by_kind=True, numbers=True)
@apart
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """`numpy.clip`; the bounds are differentiable; where x equals one, each gets half the derivative (as `maximum`)."""
    refuse("np.clip", out=out)
    low, high = a_min if min is None else min, a_max if max is None else max
    a = array_of(a)
    if aval_of(a).dtype.kind in "iu":  # Python integers beyond what the dtype holds bound nothing
        limits = np.iinfo(aval_of(a).dtype)
        low = None if type(low) is int and low < limits.min else low
        high = None if type(high) is int and high > limits.max else high
    if low is not None:
        a = maximum(a, low)
    if high is not None:
        a = minimum(a, high)
    return a


@implements("round", "around")
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    refuse("np.round", out=out)
    a = as_array(a)
    aval = aval_of(a)
    if aval.dtype.kind in "biu":
        if decimals < 0 and aval.dtype.kind != "b":
            scale = 10**-decimals
            return conversion.convert(arithmetic.mul(rounding.rint(arithmetic.div(a, scale)), float(scale)), aval.dtype)
        return fresh(strong(a))
    if decimals == 0:
        return rint(a)
    if aval.dtype.kind == "c":
        return conversion.make_complex(round_(conversion.real(a), decimals), round_(conversion.imag(a), decimals))
    scale = 10.0 ** abs(decimals)
    up, down = (arithmetic.mul, arithmetic.div) if decimals > 0 else (arithmetic.div, arithmetic.mul)
    result = down(rint(up(a, scale)), scale)
    own = concrete_value(a)
    if type(result) is np.ndarray and type(own) is np.ndarray and own.ndim > 1:  # as NumPy lays it out
        result = np.asarray(result, order="F" if own.flags.fnc else "C")
    return doubt(given(result))


@implements("fix")
def fix(x: Any, out: Any = None) -> Any:
    refuse("np.fix", out=out)
    return trunc(x)


@implements("real", alias="same")
def real(val: Any) -> Any:
    val = as_array(val)
    return conversion.real(val) if aval_of(val).dtype.kind == "c" else val


@implements("imag", alias="view")
def imag(val: Any) -> Any:
    val = as_array(val)
    aval = aval_of(val)
    return conversion.imag(val) if aval.dtype.kind == "c" else given(library(like=val).zeros(aval.shape, aval.dtype)[()])


@implements("angle")
def angle(z: Any, deg: bool = False) -> Any:
    z = as_array(z)
    result = arctan2(imag(z), real(z))
    return doubt(rad2deg(result) if deg else result)


@implements("nan_to_num", alias="same")
@numbers
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """`numpy.nan_to_num`; the derivative is 0 where a value is replaced. `copy=False` is refused on traced values."""
    if not copy:
        refuse("np.nan_to_num", copy=False)
    x = strong(as_array(x))
    dtype = aval_of(x).dtype
    if dtype.kind in "biu":
        return fresh(x)
    if dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (real(x), imag(x))]
        return conversion.make_complex(*promote(*parts))
    limits = np.finfo(dtype)
    x = _replace(comparison.isnan(x), nan, x)
    positive_infinity = comparison.eq(x, dtype.type(np.inf))
    negative_infinity = comparison.eq(x, dtype.type(-np.inf))
    x = _replace(positive_infinity, limits.max if posinf is None else posinf, x)
    return _replace(negative_infinity, limits.min if neginf is None else neginf, x)


def _replace(mask: Any, value: Any, x: Any) -> Any:
    aval = aval_of(x)
    value = np.asarray(value, aval.dtype) if not isinstance(value, Tracer) else conversion.convert(value, aval.dtype)
    return comparison.select(mask, broadcast_to(value, aval.shape), x)


@implements("divmod")
def divmod_(x1: Any, x2: Any, /, **options: Any) -> tuple:
    return floor_divide(x1, x2, **options), remainder(x1, x2, **options)


@implements("modf")
def modf(x: Any, /, **options: Any) -> tuple:
    return mantissa.modf(*promote_for(np.sin, (x,), checked_options(np.modf, (), options).get("dtype")))


@implements("frexp")
def frexp(x: Any, /, **options: Any) -> tuple:
    refuse("np.frexp", **checked_options(np.frexp, (), options))
    return mantissa.frexp(*promote_for(np.sin, (x,)))


@implements("ldexp")
def ldexp(x1: Any, x2: Any, /, **options: Any) -> Any:
    refuse("np.ldexp", **checked_options(np.ldexp, (), options))
    x, n = strong(as_array(x1)), strong(as_array(x2))
    (x,) = promote_for(np.sin, (x,))
    x, n = broadcast([x, n])
    return mantissa.ldexp(x, n)

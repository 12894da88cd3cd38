"""Elementwise functions with the names and the strictness of `jax.lax`: equal dtypes, equal shapes, no promotion.

Each takes arrays or numbers and gives NumPy's results on NumPy arrays. All raise TypeError for operands of unequal or
unsuitable dtype and of unequal shape (scalars may stand beside arrays); see operands.py. `accuracy=` of JAX's functions is
not taken: NumPy has one accuracy.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.lax.lax_operands import (
    ANY,
    BITS,
    FLOAT,
    INTEGER,
    NUMBER,
    ORDERED,
    REAL_FLOAT,
    equal_dtypes,
    equal_shapes,
    operands,
)
from funcad.primitives import arithmetic, comparison, conversion, extrema, powers, rounding, special, transcendental
from funcad.primitives.shape import broadcast_in_dim


def _one(name: str, kinds: str, x: Any) -> Any:
    return operands(name, kinds, x)[0]


def neg(x: Any) -> Any:
    """-x."""
    return arithmetic.neg(_one("neg", NUMBER, x))


def sign(x: Any) -> Any:
    """-1, 0 or 1; of complex x the number on the unit circle."""
    return arithmetic.sign(_one("sign", NUMBER, x))


def floor(x: Any) -> Any:
    """The largest integer <= x, as a float."""
    return rounding.floor(_one("floor", REAL_FLOAT, x))


def ceil(x: Any) -> Any:
    """The smallest integer >= x, as a float."""
    return rounding.ceil(_one("ceil", REAL_FLOAT, x))


def is_finite(x: Any) -> Any:
    """Is x neither infinite nor NaN? bool."""
    return comparison.isfinite(_one("is_finite", REAL_FLOAT, x))


def exp(x: Any) -> Any:
    """e**x."""
    return transcendental.exp(_one("exp", FLOAT, x))


def exp2(x: Any) -> Any:
    """2**x."""
    return transcendental.exp2(_one("exp2", FLOAT, x))


def expm1(x: Any) -> Any:
    """e**x - 1, exact near 0."""
    return transcendental.expm1(_one("expm1", FLOAT, x))


def log(x: Any) -> Any:
    """The natural logarithm."""
    return transcendental.log(_one("log", FLOAT, x))


def log1p(x: Any) -> Any:
    """log(1 + x), exact near 0."""
    return transcendental.log1p(_one("log1p", FLOAT, x))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return transcendental.tanh(_one("tanh", FLOAT, x))


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return transcendental.logistic(_one("logistic", FLOAT, x))


def sin(x: Any) -> Any:
    """The sine."""
    return transcendental.sin(_one("sin", FLOAT, x))


def cos(x: Any) -> Any:
    """The cosine."""
    return transcendental.cos(_one("cos", FLOAT, x))


def tan(x: Any) -> Any:
    """The tangent."""
    return transcendental.tan(_one("tan", FLOAT, x))


def asin(x: Any) -> Any:
    """The inverse of sin."""
    return transcendental.arcsin(_one("asin", FLOAT, x))


def acos(x: Any) -> Any:
    """The inverse of cos."""
    return transcendental.arccos(_one("acos", FLOAT, x))


def atan(x: Any) -> Any:
    """The inverse of tan."""
    return transcendental.arctan(_one("atan", FLOAT, x))


def sinh(x: Any) -> Any:
    """The hyperbolic sine."""
    return transcendental.sinh(_one("sinh", FLOAT, x))


def cosh(x: Any) -> Any:
    """The hyperbolic cosine."""
    return transcendental.cosh(_one("cosh", FLOAT, x))


def asinh(x: Any) -> Any:
    """The inverse of sinh."""
    return transcendental.arcsinh(_one("asinh", FLOAT, x))


def acosh(x: Any) -> Any:
    """The inverse of cosh."""
    return transcendental.arccosh(_one("acosh", FLOAT, x))


def atanh(x: Any) -> Any:
    """The inverse of tanh."""
    return transcendental.arctanh(_one("atanh", FLOAT, x))


def sqrt(x: Any) -> Any:
    """The square root."""
    return arithmetic.sqrt(_one("sqrt", FLOAT, x))


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return arithmetic.rsqrt(_one("rsqrt", FLOAT, x))


def cbrt(x: Any) -> Any:
    """The cube root."""
    return arithmetic.cbrt(_one("cbrt", REAL_FLOAT, x))


def square(x: Any) -> Any:
    """x * x."""
    return arithmetic.square(_one("square", NUMBER, x))


def reciprocal(x: Any) -> Any:
    """1 / x."""
    return arithmetic.reciprocal(_one("reciprocal", FLOAT, x))


def abs(x: Any) -> Any:
    """The absolute value; of complex x its real magnitude."""
    return arithmetic.abs_(_one("abs", NUMBER, x))


def real(x: Any) -> Any:
    """The real part of complex x."""
    return conversion.real(_one("real", "c", x))


def imag(x: Any) -> Any:
    """The imaginary part of complex x."""
    return conversion.imag(_one("imag", "c", x))


def bitwise_not(x: Any) -> Any:
    """~x, of integers and bools."""
    return comparison.not_(_one("bitwise_not", BITS, x))


def lgamma(x: Any) -> Any:
    """log(abs(gamma(x)))."""
    return special.gammaln(_one("lgamma", REAL_FLOAT, x))


def digamma(x: Any) -> Any:
    """The derivative of lgamma."""
    return special.digamma(_one("digamma", REAL_FLOAT, x))


def erf(x: Any) -> Any:
    """The error function."""
    return special.erf(_one("erf", REAL_FLOAT, x))


def erfc(x: Any) -> Any:
    """1 - erf(x), exact for large x."""
    return special.erfc(_one("erfc", REAL_FLOAT, x))


def erf_inv(x: Any) -> Any:
    """The inverse of erf."""
    return special.erfinv(_one("erf_inv", REAL_FLOAT, x))


def bessel_i0e(x: Any) -> Any:
    """exp(-abs(x)) * i0(x), the modified Bessel function of order 0."""
    return special.i0e(_one("bessel_i0e", REAL_FLOAT, x))


def bessel_i1e(x: Any) -> Any:
    """exp(-abs(x)) * i1(x), the modified Bessel function of order 1."""
    return special.i1e(_one("bessel_i1e", REAL_FLOAT, x))


def add(x: Any, y: Any) -> Any:
    """x + y."""
    return arithmetic.add(*operands("add", NUMBER, x, y))


def sub(x: Any, y: Any) -> Any:
    """x - y."""
    return arithmetic.sub(*operands("sub", NUMBER, x, y))


def mul(x: Any, y: Any) -> Any:
    """x * y."""
    return arithmetic.mul(*operands("mul", NUMBER, x, y))


def max(x: Any, y: Any) -> Any:
    """The larger of x and y; NaN if one is; the derivative is shared at ties."""
    return extrema.maximum(*operands("max", ORDERED, x, y))


def min(x: Any, y: Any) -> Any:
    """The smaller of x and y; NaN if one is; the derivative is shared at ties."""
    return extrema.minimum(*operands("min", ORDERED, x, y))


def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (y, x)."""
    return transcendental.arctan2(*operands("atan2", REAL_FLOAT, y, x))


def nextafter(x: Any, y: Any) -> Any:
    """The next float after x in the direction of y."""
    return arithmetic.nextafter(*operands("nextafter", REAL_FLOAT, x, y))


def eq(x: Any, y: Any) -> Any:
    """x == y."""
    return comparison.eq(*operands("eq", ANY, x, y))


def ne(x: Any, y: Any) -> Any:
    """x != y."""
    return comparison.ne(*operands("ne", ANY, x, y))


def lt(x: Any, y: Any) -> Any:
    """x < y."""
    return comparison.lt(*operands("lt", ORDERED, x, y))


def le(x: Any, y: Any) -> Any:
    """x <= y."""
    return comparison.le(*operands("le", ORDERED, x, y))


def gt(x: Any, y: Any) -> Any:
    """x > y."""
    return comparison.gt(*operands("gt", ORDERED, x, y))


def ge(x: Any, y: Any) -> Any:
    """x >= y."""
    return comparison.ge(*operands("ge", ORDERED, x, y))


def bitwise_and(x: Any, y: Any) -> Any:
    """x & y, of integers or bools."""
    return comparison.and_(*operands("bitwise_and", BITS, x, y))


def bitwise_or(x: Any, y: Any) -> Any:
    """x | y, of integers or bools."""
    return comparison.or_(*operands("bitwise_or", BITS, x, y))


def bitwise_xor(x: Any, y: Any) -> Any:
    """x ^ y, of integers or bools."""
    return comparison.xor(*operands("bitwise_xor", BITS, x, y))


def shift_left(x: Any, y: Any) -> Any:
    """x << y."""
    return comparison.shift_left(*operands("shift_left", INTEGER, x, y))


def igamma(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function."""
    return special.gammainc(*operands("igamma", REAL_FLOAT, a, x))


def igammac(a: Any, x: Any) -> Any:
    """1 - igamma(a, x)."""
    return special.gammaincc(*operands("igammac", REAL_FLOAT, a, x))


def igamma_grad_a(a: Any, x: Any) -> Any:
    """The derivative of igamma by a."""
    return special.gammainc_a(*operands("igamma_grad_a", REAL_FLOAT, a, x))


def random_gamma_grad(a: Any, x: Any) -> Any:
    """The derivative by a of a sample x of the gamma law: -igamma_grad_a(a, x) over the density at x, finite in the tails."""
    return special.random_gamma_grad(*operands("random_gamma_grad", REAL_FLOAT, a, x))


def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function."""
    return special.zeta(*operands("zeta", REAL_FLOAT, x, q))


def div(x: Any, y: Any) -> Any:
    """x / y; of integers the quotient rounded towards zero (NumPy's result and warning where y is 0).

    >>> div(np.array([-7, 7]), np.array([2, 2]))
    array([-3,  3])
    """
    x, y = operands("div", NUMBER, x, y)
    if dtype_of(x).kind in FLOAT:
        return arithmetic.div(x, y)
    return rounding.floor_divide(arithmetic.sub(x, rounding.fmod(x, y)), y)


def rem(x: Any, y: Any) -> Any:
    """The remainder of div, with the sign of x (C's fmod)."""
    return rounding.fmod(*operands("rem", "iuf", x, y))


def pow(x: Any, y: Any) -> Any:
    """x ** y for a float or complex x; y has its dtype or is an integer."""
    if dtype_of(y).kind in INTEGER:
        x = _one("pow", FLOAT, x)
        if is_a(y, (int, np.integer)):
            return integer_pow(x, int(y))
        x, y = equal_shapes("pow", [x, conversion.convert(y, dtype_of(x))])
        return powers.pow(x, y)
    return powers.pow(*operands("pow", FLOAT, x, y))


def integer_pow(x: Any, y: int) -> Any:
    """x ** y for a Python integer y; TypeError for integers to a negative power."""
    x = _one("integer_pow", NUMBER, x)
    if y < 0 and dtype_of(x).kind in INTEGER:
        raise TypeError(f"lax.integer_pow: integers cannot be raised to negative powers, got {aval_of(x)} and {y}")
    return arithmetic.integer_pow(x, y)


class RoundingMethod(enum.IntEnum):
    """Where `round` takes halves: away from zero, or to the even neighbour."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest integer, as a float; halves by `rounding_method`.

    >>> round(np.array([0.5, 1.5, -0.5]))
    array([ 1.,  2., -1.])
    """
    x = _one("round", REAL_FLOAT, x)
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return rounding.rint(x)
    whole = rounding.trunc(x)
    half = dtype_of(x).type(0.5)
    away = comparison.ge(arithmetic.abs_(arithmetic.sub(x, whole)), half)
    return comparison.select(away, arithmetic.add(whole, arithmetic.sign(x)), whole)


def conj(x: Any) -> Any:
    """The complex conjugate, always complex: a float x becomes complex first."""
    x = _one("conj", FLOAT, x)
    if dtype_of(x).kind == "f":
        x = conversion.convert(x, conversion.complex_dtype(dtype_of(x)))
    return conversion.conj(x)


def complex(x: Any, y: Any) -> Any:
    """x + 1j * y of floats."""
    return conversion.make_complex(*operands("complex", REAL_FLOAT, x, y))


def polygamma(m: Any, x: Any) -> Any:
    """The derivative of order m of digamma; m is a whole number."""
    return special.polygamma(m, _one("polygamma", REAL_FLOAT, x))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function."""
    return special.betainc(*operands("betainc", REAL_FLOAT, a, b, x))


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x limited to [min, max]; the derivative at the bounds is zero, as in JAX. The bounds may be scalars.

    >>> clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
    array([0. , 0.5, 1. ])
    """
    low, x, high = operands("clamp", ORDERED, min, x, max)
    return extrema.clamp(x, low, high)


def _condition(name: str, pred: Any, x: Any) -> Any:
    shape = shape_of(x)
    if shape_of(pred) not in ((), shape):
        raise TypeError(f"lax.{name}: the predicate must be a scalar or have the cases' shape {shape}, got {aval_of(pred)}")
    if dtype_of(pred).kind != "b":
        if dtype_of(pred).kind not in "iu":
            raise TypeError(f"lax.{name}: the predicate must be bool or int, got {aval_of(pred)}")
        pred = comparison.ne(pred, dtype_of(pred).type(0))
    if shape_of(pred) != shape:
        pred = broadcast_in_dim(pred, shape=shape, axes=())
    return pred


def _cases(name: str, cases: Any) -> list[Any]:
    cases = equal_dtypes(name, ANY, cases)
    shape = shape_of(cases[0])
    if any(shape_of(c) != shape for c in cases):
        raise TypeError(f"lax.{name}: cases must have equal shapes, got {[str(aval_of(c)) for c in cases]}")
    return cases


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """on_true where pred holds, else on_false, lane by lane; pred is a scalar or has the shape of both.

    >>> select(np.array([True, False]), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array([1., 4.])
    """
    on_true, on_false = _cases("select", (on_true, on_false))
    return comparison.select(_condition("select", pred, on_true), on_true, on_false)


def select_n(which: Any, *cases: Any) -> Any:
    """cases[which], lane by lane; `which` is bool (two cases) or int, a scalar or of the cases' shape.

    >>> select_n(np.array([2, 0]), np.array([1, 1]), np.array([2, 2]), np.array([3, 3]))
    array([3, 1])
    """
    cases = tuple(_cases("select_n", cases))
    if dtype_of(which).kind == "b":
        if len(cases) > 2:
            raise TypeError(f"lax.select_n: a bool chooses between at most two cases, got {len(cases)}")
        return comparison.select(_condition("select_n", which, cases[0]), cases[-1], cases[0])
    shape, kind = shape_of(cases[0]), dtype_of(which)
    if kind.kind not in INTEGER or shape_of(which) not in ((), shape):
        raise TypeError(f"lax.select_n: which must be a scalar or have the cases' shape {shape}, got {aval_of(which)}")
    result = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = _condition("select_n", comparison.ge(which, kind.type(i)), case)
        result = comparison.select(chosen, case, result)
    return result

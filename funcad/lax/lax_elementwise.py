"""Elementwise functions with the names and the strictness of `jax.lax`: equal dtypes, equal shapes, no promotion.

Each takes arrays or numbers and gives NumPy's results on NumPy arrays. All raise TypeError for operands of unequal or
unsuitable dtype and of unequal shape (scalars may stand beside arrays); see shapes.py. `accuracy=` of JAX's functions is
not taken: NumPy has one accuracy. Most are rows: the name, the kinds of dtype, what is bound, and the docstring.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.lax.shapes import ANY, BITS, FLOAT, INTEGER, NUMBER, ORDERED, REAL_FLOAT, equal_dtypes, equal_shapes, operands
from funcad.primitives import arithmetic, comparison, conversion, special, transcendental
from funcad.primitives.shape import broadcast_in_dim


class _OfOne(Protocol):
    def __call__(self, x: Any) -> Any: ...


class _OfTwo(Protocol):
    def __call__(self, x: Any, y: Any) -> Any: ...


def _one(name: str, kinds: str, x: Any) -> Any:
    return operands(name, kinds, x)[0]


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name: str, kinds: str, bound: Callable[[Any], Any], doc: str) -> _OfOne:
    """The public function of operands of these kinds for a function of the primitive layer."""

    def function(x: Any) -> Any:
        return bound(operands(name, kinds, x)[0])

    return _named(function, name, doc)  # type: ignore[no-any-return]


def _binary(name: str, kinds: str, bound: Callable[[Any, Any], Any], doc: str) -> _OfTwo:
    def function(x: Any, y: Any) -> Any:
        return bound(*operands(name, kinds, x, y))

    return _named(function, name, doc)  # type: ignore[no-any-return]


neg = _unary("neg", NUMBER, arithmetic.neg, "-x.")
sign = _unary("sign", NUMBER, arithmetic.sign, "-1, 0 or 1; of complex x the number on the unit circle.")
floor = _unary("floor", REAL_FLOAT, arithmetic.floor, "The largest integer <= x, as a float.")
ceil = _unary("ceil", REAL_FLOAT, arithmetic.ceil, "The smallest integer >= x, as a float.")
is_finite = _unary("is_finite", REAL_FLOAT, comparison.isfinite, "Is x neither infinite nor NaN? bool.")
exp = _unary("exp", FLOAT, transcendental.exp, "e**x.")
exp2 = _unary("exp2", FLOAT, transcendental.exp2, "2**x.")
expm1 = _unary("expm1", FLOAT, transcendental.expm1, "e**x - 1, exact near 0.")
log = _unary("log", FLOAT, transcendental.log, "The natural logarithm.")
log1p = _unary("log1p", FLOAT, transcendental.log1p, "log(1 + x), exact near 0.")
tanh = _unary("tanh", FLOAT, transcendental.tanh, "The hyperbolic tangent.")
logistic = _unary("logistic", FLOAT, transcendental.logistic, "1 / (1 + exp(-x)).")
sin = _unary("sin", FLOAT, transcendental.sin, "The sine.")
cos = _unary("cos", FLOAT, transcendental.cos, "The cosine.")
tan = _unary("tan", FLOAT, transcendental.tan, "The tangent.")
asin = _unary("asin", FLOAT, transcendental.arcsin, "The inverse of sin.")
acos = _unary("acos", FLOAT, transcendental.arccos, "The inverse of cos.")
atan = _unary("atan", FLOAT, transcendental.arctan, "The inverse of tan.")
sinh = _unary("sinh", FLOAT, transcendental.sinh, "The hyperbolic sine.")
cosh = _unary("cosh", FLOAT, transcendental.cosh, "The hyperbolic cosine.")
asinh = _unary("asinh", FLOAT, transcendental.arcsinh, "The inverse of sinh.")
acosh = _unary("acosh", FLOAT, transcendental.arccosh, "The inverse of cosh.")
atanh = _unary("atanh", FLOAT, transcendental.arctanh, "The inverse of tanh.")
sqrt = _unary("sqrt", FLOAT, arithmetic.sqrt, "The square root.")
rsqrt = _unary("rsqrt", FLOAT, arithmetic.rsqrt, "1 / sqrt(x).")
cbrt = _unary("cbrt", REAL_FLOAT, arithmetic.cbrt, "The cube root.")
square = _unary("square", NUMBER, arithmetic.square, "x * x.")
reciprocal = _unary("reciprocal", FLOAT, arithmetic.reciprocal, "1 / x.")
abs = _unary("abs", NUMBER, arithmetic.abs_, "The absolute value; of complex x its real magnitude.")
real = _unary("real", "c", conversion.real, "The real part of complex x.")
imag = _unary("imag", "c", conversion.imag, "The imaginary part of complex x.")
bitwise_not = _unary("bitwise_not", BITS, comparison.not_, "~x, of integers and bools.")
lgamma = _unary("lgamma", REAL_FLOAT, special.gammaln, "log(abs(gamma(x))).")
digamma = _unary("digamma", REAL_FLOAT, special.digamma, "The derivative of lgamma.")
erf = _unary("erf", REAL_FLOAT, special.erf, "The error function.")
erfc = _unary("erfc", REAL_FLOAT, special.erfc, "1 - erf(x), exact for large x.")
erf_inv = _unary("erf_inv", REAL_FLOAT, special.erfinv, "The inverse of erf.")
bessel_i0e = _unary("bessel_i0e", REAL_FLOAT, special.i0e, "exp(-abs(x)) * i0(x), the modified Bessel function of order 0.")
bessel_i1e = _unary("bessel_i1e", REAL_FLOAT, special.i1e, "exp(-abs(x)) * i1(x), the modified Bessel function of order 1.")
add = _binary("add", NUMBER, arithmetic.add, "x + y.")
sub = _binary("sub", NUMBER, arithmetic.sub, "x - y.")
mul = _binary("mul", NUMBER, arithmetic.mul, "x * y.")
max = _binary("max", ORDERED, arithmetic.maximum, "The larger of x and y; NaN if one is; the derivative is shared at ties.")
min = _binary("min", ORDERED, arithmetic.minimum, "The smaller of x and y; NaN if one is; the derivative is shared at ties.")
nextafter = _binary("nextafter", REAL_FLOAT, arithmetic.nextafter, "The next float after x in the direction of y.")
eq = _binary("eq", ANY, comparison.eq, "x == y.")
ne = _binary("ne", ANY, comparison.ne, "x != y.")
lt = _binary("lt", ORDERED, comparison.lt, "x < y.")
le = _binary("le", ORDERED, comparison.le, "x <= y.")
gt = _binary("gt", ORDERED, comparison.gt, "x > y.")
ge = _binary("ge", ORDERED, comparison.ge, "x >= y.")
bitwise_and = _binary("bitwise_and", BITS, comparison.and_, "x & y, of integers or bools.")
bitwise_or = _binary("bitwise_or", BITS, comparison.or_, "x | y, of integers or bools.")
bitwise_xor = _binary("bitwise_xor", BITS, comparison.xor, "x ^ y, of integers or bools.")
shift_left = _binary("shift_left", INTEGER, comparison.shift_left, "x << y.")


def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (y, x)."""
    return transcendental.arctan2(*operands("atan2", REAL_FLOAT, y, x))


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
    return arithmetic.floor_divide(arithmetic.sub(x, arithmetic.fmod(x, y)), y)


rem = _binary("rem", "iuf", arithmetic.fmod, "The remainder of div, with the sign of x (C's fmod).")


def pow(x: Any, y: Any) -> Any:
    """x ** y for a float or complex x; y has its dtype or is an integer."""
    if dtype_of(y).kind in INTEGER:
        x = _one("pow", FLOAT, x)
        if is_a(y, (int, np.integer)):
            return integer_pow(x, int(y))
        x, y = equal_shapes("pow", [x, conversion.convert(y, dtype_of(x))])
        return transcendental.pow(x, y)
    return transcendental.pow(*operands("pow", FLOAT, x, y))


def integer_pow(x: Any, y: int) -> Any:
    """x ** y for a Python integer y; TypeError for integers to a negative power."""
    x = _one("integer_pow", NUMBER, x)
    if y < 0 and dtype_of(x).kind in INTEGER:
        raise TypeError(f"lax.integer_pow: integers cannot be raised to negative powers, got {said(x)} and {y}")
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
        return arithmetic.rint(x)
    whole = arithmetic.trunc(x)
    half = dtype_of(x).type(0.5)
    away = comparison.ge(arithmetic.abs_(arithmetic.sub(x, whole)), half)
    return comparison.select(away, arithmetic.add(whole, arithmetic.sign(x)), whole)


def conj(x: Any) -> Any:
    """The complex conjugate, always complex: a float x becomes complex first."""
    x = _one("conj", FLOAT, x)
    if dtype_of(x).kind == "f":
        x = conversion.convert(x, conversion.complex_dtype(dtype_of(x)))
    return conversion.conj(x)


complex = _binary("complex", REAL_FLOAT, conversion.make_complex, "x + 1j * y of floats.")


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
    return arithmetic.clamp(x, low, high)


def _condition(name: str, pred: Any, x: Any) -> Any:
    shape = shape_of(x)
    if shape_of(pred) not in ((), shape):
        raise TypeError(f"lax.{name}: the predicate must be a scalar or have the cases' shape {shape}, got {said(pred)}")
    if dtype_of(pred).kind != "b":
        if dtype_of(pred).kind not in "iu":
            raise TypeError(f"lax.{name}: the predicate must be bool or int, got {said(pred)}")
        pred = comparison.ne(pred, dtype_of(pred).type(0))
    if shape_of(pred) != shape:
        pred = broadcast_in_dim(pred, shape=shape, axes=())
    return pred


def _cases(name: str, cases: Any) -> list[Any]:
    cases = equal_dtypes(name, ANY, cases)
    shape = shape_of(cases[0])
    if any(shape_of(c) != shape for c in cases):
        raise TypeError(f"lax.{name}: cases must have equal shapes, got {' and '.join(map(said, cases))}")
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
        raise TypeError(f"lax.select_n: which must be a scalar or have the cases' shape {shape}, got {said(which)}")
    result = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = _condition("select_n", comparison.ge(which, kind.type(i)), case)
        result = comparison.select(chosen, case, result)
    return result

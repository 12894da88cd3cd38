"""scipy.special's functions that are not ufuncs, and distribution functions, made of those that are.

With no tracer among the arguments all of them are SciPy's own, but `bessel_jn`, which only JAX has.
"""

from __future__ import annotations

import sys
from math import log as _log
from math import pi, sqrt
from typing import Any

import numpy as np

from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import where_am_i
from funcad.numpy.promote import array_of, as_array, broadcast, promote, promote_dtype, promote_for
from funcad.primitives import special
from funcad.primitives.activation import softplus as _softplus
from funcad.primitives.arithmetic import add, div, floor, mul, neg, square, sub, trunc
from funcad.primitives.comparison import and_, eq, ge, gt, isfinite, le, lt, ne, or_, select
from funcad.primitives.conversion import complex_dtype, convert, make_complex, real
from funcad.primitives.shape import broadcast_to, concatenate, reshape
from funcad.primitives.transcendental import cos, exp, sin
from funcad.primitives.transcendental import sinc as _sinc
from funcad.scipy.door import implements, scipy_function, since_1_18


def _floats(*args: Any, wide: bool = False) -> list[Any]:
    """Operands of one float dtype (float64 if `wide`, as SciPy's functions in Python give) and one shape; no complex ones."""
    operands = list(promote(*[as_array(a) for a in args]))
    dtype = next((dtype_of(a) for a in operands if not aval_of(a).weak), np.dtype(np.float64))
    if dtype.kind == "c":
        name = sys._getframe(1).f_code.co_name
        raise TypeError(
            f"scipy.special.{name} does not support complex arguments with traced values{where_am_i()}.\n"
            "Remedy: take np.real(x) first."
        )
    dtype = dtype if dtype.kind == "f" and not wide else np.dtype(np.float64)
    return broadcast([dtype.type(a) if type(a) in (bool, int, float) else a for a in promote_dtype(operands, dtype)])


def _static(n: Any, what: str, argument: str) -> int:
    if isinstance(n, Tracer) or shape_of(n) or int(n) != n:
        raise TypeError(f"{what}: {argument} must be a known integer, got {n!r:.60}")
    return int(n)


@implements("special.polygamma", lift=True)
def polygamma(n: Any, x: Any) -> Any:
    """`scipy.special.polygamma`: the n-th derivative of digamma; n is an integer or an array of integers.

    >>> from funcad.scipy.special import polygamma
    >>> float(polygamma(1, 1.0).round(6))
    1.644934
    """
    if not isinstance(n, Tracer) and not shape_of(n):
        return special.polygamma(n, *_floats(x, wide=True))
    if isinstance(n, Tracer) and dtype_of(n).kind not in "iu":
        raise TypeError(
            f"polygamma: the order must be an integer, got a traced {aval_of(n)}{where_am_i()}.\n"
            "Remedy: give the order as a Python integer."
        )
    n, x = _floats(n, x, wide=True)
    first = eq(n, 0.0)
    higher = special.polygamma(select(first, 1.0, n), x)
    return select(first, special.digamma(x), higher)


@implements("special.zeta", lift=True)
def zeta(x: Any, q: Any = None, out: Any = None) -> Any:
    """`scipy.special.zeta`: Hurwitz' zeta function, or Riemann's without q. Differentiable in both arguments.

    >>> from funcad.scipy.special import zeta
    >>> float(zeta(2.0).round(6))
    1.644934
    """
    return special.riemann_zeta(*_floats(x)) if q is None else special.zeta(*_floats(x, q))


@implements("special.multigammaln", lift=True)
def multigammaln(a: Any, d: Any) -> Any:
    """`scipy.special.multigammaln`: the logarithm of the multivariate gamma function of dimension d; NaN unless 2 a > d - 1.

    >>> from funcad.scipy.special import multigammaln
    >>> float(multigammaln(3.0, 2).round(6))
    1.550195
    """
    d = _static(d, "multigammaln", "d")
    (a,) = _floats(a, wide=True)
    total = special.gammaln(a)
    for j in range(1, d):
        total = add(total, special.gammaln(sub(a, 0.5 * j)))
    return select(gt(a, 0.5 * (d - 1)), add(total, _log(pi) * d * (d - 1) / 4), np.nan)


@implements("special.factorial", lift=True)
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """`scipy.special.factorial` of traced values: gamma(n + 1), 0 for negative n.

    >>> from funcad.scipy.special import factorial
    >>> float(factorial(4))
    24.0
    """
    if exact or extend != "zero":
        raise TypeError(
            f"factorial: exact= and extend= are not supported with traced values{where_am_i()}.\nRemedy: leave them out."
        )
    (n,) = _floats(n, wide=True)
    negative = lt(n, 0.0)
    return select(negative, 0.0, special.gamma(add(select(negative, 0.0, n), 1.0)))


@implements("special.comb", lift=True)
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """`scipy.special.comb` of traced values: the binomial coefficient, 0 unless 0 <= k <= N.

    >>> from funcad.scipy.special import comb
    >>> float(comb(5, 2))
    10.0
    """
    if exact:
        raise TypeError(f"comb: exact=True is not supported with traced values{where_am_i()}.\nRemedy: leave it out.")
    n, k = _floats(N, k)
    if repetition:
        nothing = and_(eq(k, 0.0), ge(n, 0.0))  # is chosen: 1
        return select(nothing, 1.0, special.binom(select(nothing, 2.0, sub(add(n, k), 1.0)), select(nothing, 1.0, k)))
    inside = and_(and_(ge(n, k), ge(n, 0.0)), ge(k, 0.0))
    return select(inside, special.binom(select(inside, n, 2.0), select(inside, k, 1.0)), 0.0)


@implements("special.perm", lift=True)
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """`scipy.special.perm` of traced values: N! / (N - k)!, 0 unless 0 <= k <= N.

    >>> from funcad.scipy.special import perm
    >>> float(perm(5, 2))
    20.0
    """
    if exact:
        raise TypeError(f"perm: exact=True is not supported with traced values{where_am_i()}.\nRemedy: leave it out.")
    n, k = _floats(N, k)
    inside = and_(and_(ge(n, k), ge(n, 0.0)), ge(k, 0.0))
    n, k = select(inside, n, 2.0), select(inside, k, 1.0)
    return select(inside, special.poch(add(sub(n, k), 1.0), k), 0.0)


@implements("special.bernoulli")
def bernoulli(n: Any) -> Any:
    """`scipy.special.bernoulli`: the Bernoulli numbers B0 to Bn, as an array; n is a known integer.

    >>> from funcad.scipy.special import bernoulli
    >>> bernoulli(2).round(3)
    array([ 1.   , -0.5  ,  0.167])
    """
    return scipy_function("special.bernoulli")(_static(n, "bernoulli", "n"))


@implements("special.lambertw", lift=True)
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """`scipy.special.lambertw`: w with w exp(w) = z, branch k, complex128 for real z too. Differentiable in z.

    >>> from funcad.scipy.special import lambertw
    >>> complex(lambertw(1.0).round(6))
    (0.567143+0j)
    """
    z = array_of(z)
    if isinstance(concrete_value(tol), Tracer):
        raise TypeError(f"scipy.special.lambertw: tol must be a known number{where_am_i()}.\nRemedy: leave it out.")
    tol = concrete_value(tol)
    return special.lambertw(promote_dtype([z], np.dtype(np.complex128))[0], _static(k, "lambertw", "k"), tol)


@implements("special.sph_harm_y", lift=True)
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: Any = None, n_max: Any = None) -> Any:
    """`scipy.special.sph_harm_y`: the spherical harmonic of degree n and order m at (theta, phi), complex.

    Differentiable in the angles; n and m are integers, or arrays of integers. SciPy's `diff_n` other than 0 is not supported
    with traced values: differentiate instead. `n_max` is JAX's, and not needed.

    >>> from funcad.scipy.special import sph_harm_y
    >>> complex(sph_harm_y(1, 0, 0.0, 0.0).round(6))
    (0.488603+0j)
    """
    if diff_n:
        raise TypeError(
            f"scipy.special.sph_harm_y does not support diff_n={diff_n} with traced values{where_am_i()}.\n"
            "Remedy: funcad.jvp of the function without it."
        )
    if dtype_of(as_array(n)).kind not in "iu" or dtype_of(as_array(m)).kind not in "iu":
        raise TypeError(
            f"scipy.special.sph_harm_y: n and m must be integers with traced values{where_am_i()}.\n"
            "Remedy: give them as Python's integers, or arrays of integers."
        )
    theta, phi = _floats(theta, phi, wide=not since_1_18())
    n, m, theta, phi = broadcast([*promote_dtype([as_array(n), as_array(m)], dtype_of(theta)), theta, phi])
    return special.sph_harm_y(n, m, theta, phi)


@implements("special.bessel_jn", always=True, lift=True)
def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """`jax.scipy.special.bessel_jn`: the Bessel functions of the first kind of orders 0 to v, along a new first axis.

    `n_iter` is accepted as JAX has it, and not needed: values are SciPy's.

    >>> from funcad.scipy.special import bessel_jn
    >>> bessel_jn(1.0, v=1).round(6)
    array([0.765198, 0.440051])
    """
    (z,) = _floats(z)
    shape = shape_of(z)
    orders = [special.jv(broadcast_to(dtype_of(z).type(k), shape) if shape else dtype_of(z).type(k), z) for k in range(v + 1)]
    return concatenate([reshape(o, shape=(1, *shape)) for o in orders], axis=0)


def _hankel(name: str, direction: float, scaled: bool) -> Any:
    def implementation(v: Any, z: Any) -> Any:
        v, z = _floats(v, z)
        dtype, back = complex_dtype(dtype_of(z)), lt(z, 0.0)
        size = select(eq(z, 0.0), np.nan, select(back, neg(z), z))
        first, second = [make_complex(special.jv(v, size), mul(sign, special.yv(v, size))) for sign in (1.0, -1.0)]
        turn = exp(mul(complex(0, -direction * pi), convert(v, dtype)))
        if direction > 0:  # above the cut: https://dlmf.nist.gov/10.11
            out = select(back, neg(mul(turn, second)), first)
        else:
            twice = mul(2.0, convert(cos(mul(pi, v)), dtype))
            out = select(back, add(mul(turn, first), mul(twice, second)), second)
        return mul(out, exp(mul(complex(0, -direction), convert(z, dtype)))) if scaled else out

    implementation.__doc__ = f"`scipy.special.{name}` of real arguments, complex; differentiable in both."
    implementation.__name__ = name
    return implements(f"special.{name}", lift=True)(implementation)


hankel1 = _hankel("hankel1", 1.0, False)
hankel2 = _hankel("hankel2", -1.0, False)
hankel1e = _hankel("hankel1e", 1.0, True)
hankel2e = _hankel("hankel2e", -1.0, True)


@implements("special.softplus", lift=True)
def softplus(x: Any) -> Any:
    """`scipy.special.softplus`: log(1 + exp(x)).

    >>> from funcad.scipy.special import softplus
    >>> float(softplus(0.0).round(6))
    0.693147
    """
    return _softplus(*_floats(x))


@implements("special.sinc")
def sinc(x: Any) -> Any:
    """`scipy.special.sinc`, which is NumPy's: sin(pi x) / (pi x).

    >>> from funcad.scipy.special import sinc
    >>> float(sinc(0.0))
    1.0
    """
    return _sinc(*_floats(x))


@implements("special.diric", lift=True)
def diric(x: Any, n: Any) -> Any:
    """`scipy.special.diric`: sin(n x / 2) / (n sin(x / 2)) of a positive integer n; NaN of other n.

    Near the multiples of 2 pi, where both sines are 0, it is a series in the square of sin(x / 2).

    >>> from funcad.scipy.special import diric
    >>> float(diric(0.0, 3))
    1.0
    """
    x, n = _floats(array_of(x), array_of(n))
    half = _half(x)
    sine, count = sin(half), square(n)
    z = square(sine)
    near = and_(lt(mul(count, z), 1.0), lt(z, 0.02))
    series = dtype_of(x).type(1.0)
    for m in range(21, 0, -2):
        factor = div(sub(float(m * m), count), float((m + 1) * (m + 2)))
        series = add(mul(mul(series, factor), select(near, z, 0.0)), 1.0)
    below = and_(lt(cos(half), 0.0), eq(mul(2.0, floor(_half(n))), n))
    out = div(sin(mul(n, half)), mul(n, select(near, 1.0, sine)))
    out = select(near, select(below, neg(series), series), out)
    return select(and_(gt(n, 0.0), eq(floor(n), n)), out, np.nan)


# -- distribution functions


def _distribution(name: str, formula: Any, text: str) -> Any:
    """The public function for a ufunc of SciPy's that other functions can express."""

    def implementation(*args: Any) -> Any:
        operands = promote_for(scipy_function(f"special.{name}"), args)
        dtype = np.result_type(*[aval_of(a).dtype for a in operands if not aval_of(a).weak] or [np.float64])
        return formula(*[dtype.type(a) if type(a) in (int, float) else a for a in operands])  # formulas keep the dtype

    implementation.__name__ = name
    implementation.__doc__ = f"`scipy.special.{name}`: {text}. Differentiable in all float arguments."
    return implements(f"special.{name}", lift=True)(implementation)


def _half(x: Any) -> Any:
    return mul(0.5, x)


def _fisher(function: str, complement: str) -> Any:
    """By the smaller of the shares n x / (d + n x) and d / (d + n x), as the other one may be rounded to 1."""

    def formula(n: Any, d: Any, x: Any) -> Any:
        scaled = mul(n, x)
        low = lt(scaled, d)
        a, b = _half(n), _half(d)
        share = div(select(low, scaled, d), add(d, scaled))
        out = getattr(special, function)(select(low, a, b), select(low, b, a), share)
        other = getattr(special, complement)(select(low, a, b), select(low, b, a), share)
        good = and_(and_(gt(n, 0.0), gt(d, 0.0)), and_(lt(n, np.inf), lt(d, np.inf)))
        return select(good, select(low, out, other), np.nan)

    return formula


def _poisson(function: str, at_zero: float) -> Any:
    def formula(k: Any, m: Any) -> Any:
        out = select(and_(eq(m, 0.0), ne(k, k)), at_zero, getattr(special, function)(add(floor(k), 1.0), m))
        return select(or_(lt(k, 0.0), lt(m, 0.0)), np.nan, out)

    return formula


def _gamma(function: str) -> Any:
    return lambda a, b, x: select(lt(x, 0.0), np.nan, getattr(special, function)(b, mul(a, x)))


chdtr = _distribution("chdtr", lambda v, x: special.gammainc(_half(v), _half(x)), "P(X < x), X chi-squared")
chdtrc = _distribution("chdtrc", lambda v, x: special.gammaincc(_half(v), _half(x)), "P(X > x), X chi-squared")
chdtri = _distribution(
    "chdtri",
    lambda v, p: select(_is_share(p), mul(2.0, special.gammainccinv(_half(v), p)), np.nan),
    "the inverse of chdtrc",
)
gdtr = _distribution("gdtr", _gamma("gammainc"), "P(X < x), X of the gamma law, rate a, shape b")
gdtrc = _distribution("gdtrc", _gamma("gammaincc"), "1 - gdtr")
fdtr = _distribution("fdtr", _fisher("betainc", "betaincc"), "P(X < x), X of Fisher's F law")
fdtrc = _distribution("fdtrc", _fisher("betaincc", "betainc"), "P(X > x), X of Fisher's F law")
pdtr = _distribution("pdtr", _poisson("gammaincc", 1.0), "P(X <= k), X of Poisson's law; k has derivative 0")
pdtrc = _distribution("pdtrc", _poisson("gammainc", 0.0), "P(X > k), X of Poisson's law; k has derivative 0")
gdtrix = _distribution("gdtrix", lambda a, b, p: div(special.gammaincinv(b, p), a), "the inverse of gdtr in x")


def _is_share(p: Any) -> Any:
    return and_(ge(p, 0.0), le(p, 1.0))


def _binomial(function: str, below: float, above: float) -> Any:
    """Of k < 0 it is `below`, of k = n `above`; SciPy counts whole trials."""

    def formula(k: Any, n: Any, p: Any) -> Any:
        k, n = floor(k), trunc(n)
        out = select(eq(k, n), above, getattr(special, function)(sub(n, k), add(k, 1.0), sub(1.0, p)))
        out = select(lt(k, 0.0), below, select(le(k, n), out, np.nan))
        return select(and_(_is_share(p), isfinite(n)), out, np.nan)

    return formula


def _negative_binomial(function: str) -> Any:
    def formula(k: Any, n: Any, p: Any) -> Any:
        k, n = trunc(k), trunc(n)
        good = and_(and_(ge(k, 0.0), isfinite(k)), and_(ge(n, 1.0), isfinite(n)))
        return select(and_(_is_share(p), good), getattr(special, function)(n, add(k, 1.0), p), np.nan)

    return formula


bdtr = _distribution("bdtr", _binomial("betainc", np.nan, 1.0), "P(X <= k), X of the binomial law of n trials")
bdtrc = _distribution("bdtrc", _binomial("betaincc", 1.0, 0.0), "P(X > k), X of the binomial law of n trials")
nbdtr = _distribution("nbdtr", _negative_binomial("betainc"), "P(X <= k), X of the negative binomial law")
nbdtrc = _distribution("nbdtrc", _negative_binomial("betaincc"), "P(X > k), X of the negative binomial law")


def _voigt(x: Any, sigma: Any, gamma: Any) -> Any:
    sharp = eq(sigma, 0.0)
    sigma = select(sharp, 1.0, sigma)
    width = mul(sqrt(2.0), sigma)
    w = special.wofz(make_complex(div(x, width), div(gamma, width)))
    size = add(square(x), square(gamma))
    point = eq(size, 0.0)
    cauchy = select(point, np.inf, div(gamma, mul(pi, select(point, 1.0, size))))
    return select(sharp, cauchy, div(real(w), mul(sqrt(2 * pi), sigma)))


voigt_profile = _distribution("voigt_profile", _voigt, "a normal density convolved with Cauchy's")

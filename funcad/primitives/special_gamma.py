"""Special functions whose derivatives are closed forms: gamma and beta functions, error functions, logarithms and entropies.

Derivatives are closed forms in the same functions. The derivative of zeta by its exponent is a primitive of its own, summed by
Euler and Maclaurin's formula.
"""

from __future__ import annotations

from math import factorial, inf, pi
from math import sqrt as _sqrt
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives import placement
from funcad.primitives.arithmetic import abs_, add, div, hypot, mod, mul, neg, sign, square, sub
from funcad.primitives.comparison import and_, eq, gt, le, select
from funcad.primitives.families import elementwise
from funcad.primitives.transcendental import cos, exp, log, log1p, logistic, pow, sin

from funcad.primitives.special_rules import (  # isort: skip
    TINY, function_of, gauss, kernel, numeric, numerical,
    ratio, special_of, ufunc,
)


def _trigamma(x: Any) -> Any:
    if dtype_of(x).kind == "c":
        raise TypeError(
            "the derivative of scipy.special.psi is known for real arguments only, got a complex one.\n"
            "Remedy: a funcad.custom_jvp function around it that says the derivative."
        )
    return polygamma(1, x)


gamma = ufunc("gamma", lambda t, out, x: mul(mul(out, digamma(x)), t))
# log(|gamma(x)|).
gammaln = ufunc("gammaln", lambda t, out, x: mul(digamma(x), t))
# The logarithm of gamma, continuous in the complex plane without the negative real axis.
loggamma = ufunc("loggamma", lambda t, out, x: mul(digamma(x), t))
# The sign of gamma; derivative 0.
gammasgn = ufunc("gammasgn", None, device=placement.gammasgn)
digamma = ufunc("digamma", lambda t, out, x: mul(_trigamma(x), t))


def _rgamma_slope(out: Any, x: Any) -> Any:
    """-out * digamma(x), which at the poles of gamma is (-1)**n n!."""
    at_pole = and_(eq(out, 0.0), le(x, 0.0))
    beyond = mul(gamma(sub(1.0, select(at_pole, x, 0.0))), cos(mul(pi, x)))
    return select(at_pole, beyond, neg(mul(out, digamma(select(at_pole, 1.0, x)))))


rgamma = ufunc("rgamma", lambda t, out, x: mul(_rgamma_slope(out, x), t))
# gamma(x + m) / gamma(x).
poch = ufunc(
    "poch",
    lambda t, out, x, m: mul(mul(out, sub(digamma(add(x, m)), digamma(x))), t),
    lambda t, out, x, m: mul(mul(out, digamma(add(x, m))), t),
)
binom = ufunc(
    "binom",
    lambda t, out, n, k: mul(mul(out, sub(digamma(add(n, 1.0)), digamma(add(sub(n, k), 1.0)))), t),
    lambda t, out, n, k: mul(mul(out, sub(digamma(add(sub(n, k), 1.0)), digamma(add(k, 1.0)))), t),
)
beta = ufunc(
    "beta",
    lambda t, out, a, b: mul(mul(out, sub(digamma(a), digamma(add(a, b)))), t),
    lambda t, out, a, b: mul(mul(out, sub(digamma(b), digamma(add(a, b)))), t),
    device=placement.in_double,
)
betaln = ufunc(
    "betaln",
    lambda t, out, a, b: mul(sub(digamma(a), digamma(add(a, b))), t),
    lambda t, out, a, b: mul(sub(digamma(b), digamma(add(a, b))), t),
    device=placement.in_double,
)


def _polygamma_impl(xp: Any, x: Any, *, n: int) -> Any:
    out = function_of(xp, "polygamma")(n, x)
    dtype = dtype_of(x)
    out = out if dtype.kind != "f" else out.astype(dtype)
    return out[()] if xp is np and not out.ndim else out


polygamma_p = elementwise("polygamma", _polygamma_impl, [lambda t, out, x, *, n: mul(polygamma(n + 1, x), t)])

# -- zeta
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330]


def _hurwitz_s(xp: Any, s: Any, q: Any) -> Any:
    """The derivative of sum((q + n)**-s) by s, for s > -1: twenty terms, and Euler and Maclaurin's formula for the rest."""
    total = 0.0
    for n in range(20):
        total = total - xp.log(q + n) * xp.power(q + n, -s)
    w = q + 20.0
    log, power = xp.log(w), xp.power(w, -s)
    total = total - power * (w * (log + 1.0 / (s - 1.0)) / (s - 1.0) + 0.5 * log)
    product, slope = s / w, 1.0 / w  # s (s + 1) ... (s + 2 k - 2) / w**(2 k - 1), and its derivative
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + power * (b / factorial(2 * k)) * (slope - log * product)
        for j in (2 * k - 1, 2 * k):
            product, slope = product * (s + j) / w, (slope * (s + j) + product) / w
    return total


def _zeta_s_kernel(xp: Any, s: Any, q: Any) -> Any:
    inside = (s > 1) & (q > 0) & (s < xp.inf) & (q < xp.inf)
    out = _hurwitz_s(xp, xp.where(inside, s, 2.0), xp.where(inside, q, 1.0))
    return xp.where(inside, out, xp.where((s > 1) & (q == xp.inf), 0.0, xp.nan))


def _riemann_zeta_s_kernel(xp: Any, s: Any) -> Any:
    mirrored = s < -0.5
    c = xp.where(mirrored, 1.0 - s, s)
    finite = abs(c) < xp.inf
    slope = _hurwitz_s(xp, xp.where(finite, c, 2.0), 1.0)
    slope = xp.where(c > 50.0, -0.6931471805599453 * xp.exp2(-c), slope)
    if mirrored.any():  # zeta(1 - c) = 2 (2 pi)**-c cos(pi c / 2) gamma(c) zeta(c)
        functions = special_of(xp)
        r = xp.where(mirrored, c, 2.0)
        zeta_r = functions.zeta(r, 1.0)
        angle = 0.5 * pi * xp.fmod(r, 4.0)
        terms = xp.cos(angle) * ((functions.digamma(r) - xp.log(2 * pi)) * zeta_r + slope)
        terms = terms - 0.5 * pi * xp.sin(angle) * zeta_r
        slope = xp.where(mirrored, -2 * xp.exp(functions.gammaln(r) - r * xp.log(2 * pi)) * terms, slope)
    return xp.where(finite, slope, xp.where(s == xp.inf, 0.0, xp.nan))


@kernel("zeta")
def _zeta_ss_kernel(xp: Any, s: Any, q: Any, *, orders: tuple) -> Any:
    inside = (s > 1) & (q > 0) & (s < xp.inf) & (q < xp.inf)
    out = _hurwitz_s(xp, xp.where(inside, s, 2.0) + 1j * TINY, xp.where(inside, q, 1.0)).imag / TINY
    return xp.where(inside, out, xp.where((s > 1) & (q == xp.inf), 0.0, xp.nan))


@kernel("riemann_zeta")
def _riemann_zeta_ss_kernel(xp: Any, s: Any, *, orders: tuple) -> Any:
    mirrored = s < -0.5
    c = xp.where(mirrored, 1.0 - s, s)
    finite = abs(c) < xp.inf
    c = xp.where(finite, c, 2.0)
    bent = _hurwitz_s(xp, c + 1j * TINY, 1.0).imag / TINY
    bent = xp.where(c > 50.0, 0.6931471805599453**2 * xp.exp2(-c), bent)
    if mirrored.any():
        functions = special_of(xp)
        r = xp.where(mirrored, c, 2.0)
        slope = _riemann_zeta_s_kernel(xp, r)
        zeta_r = functions.zeta(r, 1.0)
        angle = 0.5 * pi * xp.fmod(r, 4.0)
        score = functions.digamma(r) - xp.log(2 * pi)
        first = score * zeta_r + slope
        second = score * first + functions.polygamma(1, r) * zeta_r + score * slope + bent - 0.25 * pi**2 * zeta_r
        terms = xp.cos(angle) * second - pi * xp.sin(angle) * first
        bent = xp.where(mirrored, 2 * xp.exp(functions.gammaln(r) - r * xp.log(2 * pi)) * terms, bent)
    return xp.where(finite, bent, xp.where(s == xp.inf, 0.0, xp.nan))


# The derivative of zeta by its first argument.
zeta_s = numerical(
    "zeta_s",
    _zeta_s_kernel,
    lambda t, out, s, q: mul(numeric("zeta", s, q, orders=(2, 0)), t),
    lambda t, out, s, q: neg(mul(add(zeta(add(s, 1.0), q), mul(s, zeta_s(add(s, 1.0), q))), t)),
)
# Hurwitz' zeta function.
zeta = ufunc(
    "zeta",
    lambda t, out, s, q: mul(zeta_s(s, q), t),
    lambda t, out, s, q: mul(mul(neg(s), zeta(add(s, 1.0), q)), t),
)
# The derivative of Riemann's zeta function.
riemann_zeta_s = numerical(
    "riemann_zeta_s", _riemann_zeta_s_kernel, lambda t, out, s: mul(numeric("riemann_zeta", s, orders=(2,)), t)
)


def _riemann_zeta_impl(xp: Any, s: Any) -> Any:
    if xp is np:
        out = function_of(xp, "zeta")(s)
    else:  # CuPy's zeta is NaN below 1
        out = xp.where(s < 1.0, 1.0 + function_of(xp, "zetac")(s), function_of(xp, "zeta")(s, 1.0))
    return out.astype(np.float16) if getattr(s, "dtype", None) == np.float16 else out


riemann_zeta = elementwise("riemann_zeta", _riemann_zeta_impl, [lambda t, out, s: mul(riemann_zeta_s(s), t)])
zetac = ufunc("zetac", lambda t, out, s: mul(riemann_zeta_s(s), t))


def static_order(n: Any, what: str) -> int | None:
    """n as a Python integer, None if it is an array or traced."""
    if isinstance(n, Tracer) or shape_of(n):
        return None
    if int(n) != n:
        raise ValueError(f"{what}: the order must be an integer, got {n!r}")
    return int(n)


psi = digamma


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order n of digamma; an array of orders is computed by zeta and gamma (orders from 1)."""
    order = static_order(n, "polygamma")
    if order is not None:
        return polygamma_p(x, n=order)
    sign_of_order = sub(mul(2.0, mod(n, 2.0)), 1.0)
    return mul(mul(sign_of_order, gamma(add(n, 1.0))), zeta(add(n, 1.0), x))


# -- error functions, the normal distribution, and the integrals of exp(x**2) and of cos(x**2)
#
# Closed forms throughout.


_SQRT_PI, _SQRT_2PI = _sqrt(pi), _sqrt(2 * pi)


def _far_slope(x: Any, side: float) -> Any:
    """-1 / x**2 times the asymptotic series of the slopes of erfcx (side -1) and dawsn (side 1), for abs(x) > 20."""
    far = gt(abs_(x), 20.0)
    y = div(1.0, square(select(far, x, 1e3)))
    series = 1.0
    for factor in (6.5, 5.5, 4.5, 3.5, 2.5, 1.5):
        series = add(1.0, mul(mul(side * factor, y), series))
    return neg(mul(y, series))


def _erfcx_slope(out: Any, x: Any) -> Any:
    near = sub(mul(mul(2.0, x), out), 2 / _SQRT_PI)
    return near if dtype_of(x).kind == "c" else select(gt(x, 20.0), mul(1 / _SQRT_PI, _far_slope(x, -1.0)), near)


def _dawsn_slope(out: Any, x: Any) -> Any:
    near = sub(1.0, mul(mul(2.0, x), out))
    return near if dtype_of(x).kind == "c" else select(gt(abs_(x), 20.0), mul(0.5, _far_slope(x, 1.0)), near)


erf = ufunc("erf", lambda t, out, x: mul(mul(2 / _SQRT_PI, exp(neg(square(x)))), t), emit=lambda e, x: e.erf(x))
erfc = ufunc("erfc", lambda t, out, x: mul(mul(-2 / _SQRT_PI, exp(neg(square(x)))), t), emit=lambda e, x: e.erfc(x))
# exp(x**2) * erfc(x).
erfcx = ufunc("erfcx", lambda t, out, x: mul(_erfcx_slope(out, x), t))
# -i erf(i x).
erfi = ufunc("erfi", lambda t, out, x: mul(mul(2 / _SQRT_PI, exp(square(x))), t))
erfinv = ufunc("erfinv", lambda t, out, x: mul(mul(_SQRT_PI / 2, exp(square(out))), t))
erfcinv = ufunc("erfcinv", lambda t, out, x: mul(mul(-_SQRT_PI / 2, exp(square(out))), t))
# exp(-x**2) times the integral of exp(t**2) from 0 to x.
dawsn = ufunc("dawsn", lambda t, out, x: mul(_dawsn_slope(out, x), t))


def _wofz_jvp(t: Any, out: Any, z: Any) -> Any:
    return mul(sub(complex(0, 2 / _SQRT_PI), mul(mul(2.0, z), out)), t)


# exp(-z**2) * erfc(-i z), of complex z.
wofz = ufunc("wofz", _wofz_jvp)
# The distribution function of the normal law.
ndtr = ufunc("ndtr", lambda t, out, x: mul(mul(1 / _SQRT_2PI, exp(mul(-0.5, square(x)))), t))
ndtri = ufunc("ndtri", lambda t, out, x: mul(mul(_SQRT_2PI, exp(mul(0.5, square(out)))), t))
log_ndtr = ufunc("log_ndtr", lambda t, out, x: mul(ndtr_ratio(x), t))
# The inverse of log_ndtr.
ndtri_exp = ufunc("ndtri_exp", lambda t, out, x: div(t, ndtr_ratio(out)))


def _ndtr_ratio_impl(xp: Any, x: Any) -> Any:
    if dtype_of(x).kind == "c":
        raise TypeError(
            "the derivative of scipy.special.log_ndtr is known for real arguments only, got a complex one.\n"
            "Remedy: a funcad.custom_jvp function around it that says the derivative."
        )
    out = _sqrt(2 / pi) / function_of(xp, "erfcx")(x * -_sqrt(0.5))
    return out.astype(np.float16) if getattr(x, "dtype", None) == np.float16 else out


# density over distribution of the normal law, accurate in both tails
# The normal density over its distribution function (the derivative of log_ndtr).
ndtr_ratio = elementwise("ndtr_ratio", _ndtr_ratio_impl, [lambda t, out, x: neg(mul(mul(out, add(x, out)), t))])

# T(h, a): the probability of X > h and 0 < Y < a X for normal X, Y
owens_t = ufunc(
    "owens_t",
    lambda t, out, h, a: neg(
        mul(mul(0.5 / _SQRT_2PI, mul(exp(mul(-0.5, square(h))), erf(mul(_sqrt(0.5), mul(h, a))))), t)
    ),
    lambda t, out, h, a: mul(
        div(mul(0.5 / pi, exp(mul(mul(-0.5, square(h)), add(1.0, square(a))))), add(1.0, square(a))), t
    ),
)
fresnel_s_p = ufunc("fresnel_s", lambda t, out, x: mul(sin(mul(pi / 2, square(x))), t), of="fresnel", which=0)
fresnel_c_p = ufunc("fresnel_c", lambda t, out, x: mul(cos(mul(pi / 2, square(x))), t), of="fresnel", which=1)


def fresnel(x: Any) -> tuple[Any, Any]:
    """The integrals of sin(pi t**2 / 2) and cos(pi t**2 / 2) from 0 to x."""
    return fresnel_s_p(x), fresnel_c_p(x)


# -- entropies, logits, power transforms and robust losses: functions made of logarithms and powers, exact at their limits


# x * log(y), 0 where x is 0.
xlogy = ufunc(
    "xlogy",
    lambda t, out, x, y: mul(log(y), t),
    lambda t, out, x, y: mul(ratio(x, y), t),
    transpose=lambda ct, x, y: [mul(log(y), ct), None],
)
# x * log1p(y), 0 where x is 0.
xlog1py = ufunc(
    "xlog1py",
    lambda t, out, x, y: mul(log1p(y), t),
    lambda t, out, x, y: mul(ratio(x, add(1.0, y)), t),
    transpose=lambda ct, x, y: [mul(log1p(y), ct), None],
    device=placement.either_nan,
)
entr = ufunc("entr", lambda t, out, x: neg(mul(add(log(x), 1.0), t)))
rel_entr = ufunc(
    "rel_entr",
    lambda t, out, x, y: mul(add(log(div(x, y)), 1.0), t),
    lambda t, out, x, y: neg(mul(ratio(x, y), t)),
    device=placement.rel_entr,
)
kl_div = ufunc(
    "kl_div",
    lambda t, out, x, y: mul(log(div(x, y)), t),
    lambda t, out, x, y: mul(sub(1.0, ratio(x, y)), t),
)
logit = ufunc("logit", lambda t, out, x: div(t, mul(x, sub(1.0, x))))
log_expit = ufunc("log_expit", lambda t, out, x: mul(logistic(neg(x)), t))

# -- powers


def _exp_moment_kernel(xp: Any, z: Any, *, n: int) -> Any:
    """The integral of s**n exp(s z) over 0 < s < 1."""
    near = abs(z) < 16.0
    w = xp.where(near, z, 0.0)
    inner = 0.0
    for point, weight in zip(*gauss(24)):
        inner = inner + (weight * point**n) * xp.exp(w * point)
    w = xp.where(near, 1.0, z)
    power = xp.exp(w)
    outer = xp.expm1(w) / w
    for k in range(1, n + 1):
        outer = (power - k * outer) / w
    outer = xp.where(power == xp.inf, xp.inf, xp.where(power == 0, xp.where(z == -xp.inf, 0.0, outer), outer))
    return xp.where(near, inner, outer)


exp_moment_p = numerical("exp_moment", _exp_moment_kernel, lambda t, out, z, *, n: mul(exp_moment(z, n + 1), t))
# (exp(x) - 1) / x.
exprel = ufunc("exprel", lambda t, out, x: mul(exp_moment(x, 1), t), device=placement.at_infinity(inf))


def _slope_by_power(y: Any, m: Any) -> Any:
    """The derivative of (exp(m y) - 1) / m by m; at y = -inf, where x = 0, it is 1 / m**2 for positive m."""
    at_end = and_(eq(y, -inf), gt(m, 0.0))
    y = select(at_end, 0.0, y)
    return select(at_end, div(1.0, square(select(at_end, m, 1.0))), mul(square(y), exp_moment(mul(m, y), 1)))


boxcox = ufunc(
    "boxcox",
    lambda t, out, x, m: mul(pow(x, sub(m, 1.0)), t),
    lambda t, out, x, m: mul(_slope_by_power(log(x), m), t),
)
boxcox1p = ufunc(
    "boxcox1p",
    lambda t, out, x, m: mul(pow(add(1.0, x), sub(m, 1.0)), t),
    lambda t, out, x, m: mul(_slope_by_power(log1p(x), m), t),
)
inv_boxcox = ufunc(
    "inv_boxcox",
    lambda t, out, y, m: mul(pow(out, sub(1.0, m)), t),
    lambda t, out, y, m: neg(mul(mul(pow(out, sub(1.0, m)), _slope_by_power(log(out), m)), t)),
    device=placement.inv_boxcox("exp"),
)
inv_boxcox1p = ufunc(
    "inv_boxcox1p",
    lambda t, out, y, m: mul(pow(add(1.0, out), sub(1.0, m)), t),
    lambda t, out, y, m: neg(mul(mul(pow(add(1.0, out), sub(1.0, m)), _slope_by_power(log1p(out), m)), t)),
    device=placement.inv_boxcox("expm1"),
)
# x**y - 1.
powm1 = ufunc(
    "powm1",
    lambda t, out, x, y: mul(mul(y, pow(x, sub(y, 1.0))), t),
    lambda t, out, x, y: mul(xlogy(add(out, 1.0), x), t),
)
# cos(x) - 1.
cosm1 = ufunc("cosm1", lambda t, out, x: neg(mul(sin(x), t)))
exp10 = ufunc("exp10", lambda t, out, x: mul(mul(2.302585092994046, out), t))

# -- losses


def _huber_by_r(t: Any, out: Any, delta: Any, r: Any) -> Any:
    return mul(select(le(abs_(r), delta), r, mul(delta, sign(r))), t)


def _huber_by_delta(t: Any, out: Any, delta: Any, r: Any) -> Any:
    return mul(select(le(abs_(r), delta), mul(0.0, delta), sub(abs_(r), delta)), t)


huber = ufunc("huber", _huber_by_delta, _huber_by_r)


def _pseudo_huber_by_delta(t: Any, out: Any, delta: Any, r: Any) -> Any:
    h = hypot(delta, r)
    return mul(ratio(square(ratio(square(r), add(h, delta))), h), t)


pseudo_huber = ufunc(
    "pseudo_huber",
    _pseudo_huber_by_delta,
    lambda t, out, delta, r: mul(ratio(mul(r, delta), hypot(delta, r)), t),
    device=placement.pseudo_huber,
)


def expit(x: Any) -> Any:
    """The logistic function."""
    return logistic(x)


def exp_moment(z: Any, n: int) -> Any:
    """The integral of s**n exp(s z) over 0 < s < 1: the derivative of order n of exprel."""
    return exp_moment_p(z, n=n)

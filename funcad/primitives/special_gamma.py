"""Special functions whose derivatives are closed forms: gamma, beta and zeta functions.

Derivatives are closed forms in the same functions. The derivative of zeta by its exponent is a primitive of its own, summed by
Euler and Maclaurin's formula.
"""

from __future__ import annotations

from math import factorial, pi
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives import placement
from funcad.primitives.arithmetic import add, floor, mod, mul, neg, sub
from funcad.primitives.comparison import and_, eq, le, select
from funcad.primitives.families import elementwise
from funcad.primitives.special_rules import TINY, function_of, kernel, numeric, numerical, special_of, ufunc
from funcad.primitives.transcendental import cos, sin


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
    """-out * digamma(x); at the poles of gamma the derivative of sin(pi x) gamma(1 - x) / pi, which it is."""
    at_pole = and_(eq(out, 0.0), le(x, 0.0))
    other = sub(1.0, select(at_pole, x, 0.0))
    turned = sub(cos(mul(pi, x)), mul(mul(sin(mul(pi, x)), 1 / pi), digamma(other)))
    return select(at_pole, mul(gamma(other), turned), neg(mul(out, digamma(select(eq(out, 0.0), 1.0, x)))))


rgamma = ufunc("rgamma", lambda t, out, x: mul(_rgamma_slope(out, x), t))


def _by_divisor(out: Any, x: Any, rest: Any) -> Any:
    """The derivative by x of out = rest / gamma(x), also at the poles of gamma."""
    pole = and_(le(x, 0.0), eq(x, floor(x)))
    return select(pole, mul(rest, _rgamma_slope(rgamma(x), x)), neg(mul(out, digamma(select(pole, 1.0, x)))))


def _poch_slope(out: Any, x: Any, m: Any) -> Any:
    top = add(x, m)
    both = and_(and_(le(x, 0.0), eq(x, floor(x))), and_(le(top, 0.0), eq(top, floor(top))))
    a, b = [select(both, sub(1.0, v), v) for v in (top, x)]  # where both are poles, both are reflected
    return add(mul(out, digamma(a)), _by_divisor(out, b, gamma(a)))


# gamma(x + m) / gamma(x).
poch = ufunc(
    "poch",
    lambda t, out, x, m: mul(_poch_slope(out, x, m), t),
    lambda t, out, x, m: mul(mul(out, digamma(add(x, m))), t),
)


def _by_choice(out: Any, n: Any, k: Any) -> Any:
    """What binom moves by, of gamma(n - k + 1), which divides it."""
    return _by_divisor(out, add(sub(n, k), 1.0), mul(gamma(add(n, 1.0)), rgamma(add(k, 1.0))))


def _binom_by_k(out: Any, n: Any, k: Any) -> Any:
    rest = mul(gamma(add(n, 1.0)), rgamma(add(sub(n, k), 1.0)))
    return sub(_by_divisor(out, add(k, 1.0), rest), _by_choice(out, n, k))


binom = ufunc(
    "binom",
    lambda t, out, n, k: mul(add(mul(out, digamma(add(n, 1.0))), _by_choice(out, n, k)), t),
    lambda t, out, n, k: mul(_binom_by_k(out, n, k), t),
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

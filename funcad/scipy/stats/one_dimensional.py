"""Distributions of one variable: on the real line, with shape parameters, on the circle, of counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import log, pi, sqrt
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.errors import TracerArrayConversionError
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import remembers

from funcad.scipy.stats.family import (  # isort: skip
    Continuous, Discrete, from_scipy, inverse_of, known_density, poisoned, replaced, special, with_ends, with_rule,
)

_HALF_LOG_2PI = 0.5 * log(2 * pi)


def _log_normal_density(y: Any) -> Any:
    return -0.5 * (y * y) - _HALF_LOG_2PI


norm = Continuous(
    "norm",
    logpdf=_log_normal_density,
    cdf=lambda y: special.ndtr(y),
    sf=lambda y: special.ndtr(-y),
    logcdf=lambda y: special.log_ndtr(y),
    logsf=lambda y: special.log_ndtr(-y),
    ppf=lambda q: special.ndtri(q),
    isf=lambda q: -special.ndtri(q),
)

uniform = Continuous(
    "uniform",
    support=(0.0, 1.0),
    logpdf=lambda y: y * 0.0,
    pdf=lambda y: y * 0.0 + 1.0,
    cdf=lambda y: y,
    sf=lambda y: 1.0 - y,
    ppf=lambda q: q,
    isf=lambda q: 1.0 - q,
)

expon = Continuous(
    "expon",
    support=(0.0, None),
    logpdf=lambda y: -y,
    cdf=lambda y: -fnp.expm1(-y),
    sf=lambda y: fnp.exp(-y),
    logsf=lambda y: -y,
    ppf=lambda q: -fnp.log1p(-q),
    isf=lambda q: -fnp.log(q),
)

laplace = Continuous(
    "laplace",
    logpdf=lambda y: -fnp.abs(y) - log(2),
    cdf=lambda y: _laplace_cdf(y),
    sf=lambda y: _laplace_cdf(-y),
    logcdf=lambda y: _laplace_logcdf(y),
    logsf=lambda y: _laplace_logcdf(-y),
    ppf=lambda q: _laplace_quantile(q),
    isf=lambda q: -_laplace_quantile(q),
)


def _halves(y: Any) -> Any:
    """y where it is not positive, and -y where it is: 0 elsewhere. Both forms of a function are smooth at 0."""
    upper = y > 0
    return upper, fnp.where(upper, 0.0, y), fnp.where(upper, -y, 0.0)


def _laplace_cdf(y: Any) -> Any:
    upper, low, high = _halves(y)
    return fnp.where(upper, 1.0 - 0.5 * fnp.exp(high), 0.5 * fnp.exp(low))


def _laplace_logcdf(y: Any) -> Any:
    upper, low, high = _halves(y)
    return fnp.where(upper, fnp.log1p(-0.5 * fnp.exp(high)), low - log(2))


def _laplace_quantile(q: Any) -> Any:
    low = q <= 0.5
    return fnp.where(low, fnp.log(2.0 * fnp.where(low, q, 0.5)), -fnp.log(2.0 * fnp.where(low, 0.5, 1.0 - q)))


logistic = Continuous(
    "logistic",
    logpdf=lambda y: special.log_expit(y) + special.log_expit(-y),
    cdf=lambda y: special.expit(y),
    sf=lambda y: special.expit(-y),
    logcdf=lambda y: special.log_expit(y),
    logsf=lambda y: special.log_expit(-y),
    ppf=lambda q: special.logit(q),
    isf=lambda q: -special.logit(q),
)

cauchy = Continuous(
    "cauchy",
    logpdf=lambda y: -log(pi) - fnp.log1p(y * y),
    cdf=lambda y: fnp.arctan2(1.0, -y) / pi,
    sf=lambda y: fnp.arctan2(1.0, y) / pi,
    ppf=lambda q: _cauchy_quantile(q),
    isf=lambda q: -_cauchy_quantile(q),
)


def _cauchy_quantile(q: Any) -> Any:
    """tan(pi (q - 1/2)), as the reciprocal of a small tangent in the tails."""
    low, high = q < 0.25, q > 0.75
    tail = fnp.tan(pi * fnp.where(low, -q, fnp.where(high, 1.0 - q, 0.25)))
    return fnp.where(low | high, 1.0 / tail, fnp.tan(pi * (fnp.where(low | high, 0.5, q) - 0.5)))


gumbel_r = Continuous(
    "gumbel_r",
    logpdf=lambda y: -y - fnp.exp(-y),
    cdf=lambda y: fnp.exp(-fnp.exp(-y)),
    sf=lambda y: -fnp.expm1(-fnp.exp(-y)),
    logcdf=lambda y: -fnp.exp(-y),
    ppf=lambda q: -fnp.log(-fnp.log(q)),
    isf=lambda q: -fnp.log(-fnp.log1p(-q)),
)

gumbel_l = Continuous(
    "gumbel_l",
    logpdf=lambda y: y - fnp.exp(y),
    cdf=lambda y: -fnp.expm1(-fnp.exp(y)),
    sf=lambda y: fnp.exp(-fnp.exp(y)),
    logsf=lambda y: -fnp.exp(y),
    ppf=lambda q: fnp.log(-fnp.log1p(-q)),
    isf=lambda q: fnp.log(-fnp.log(q)),
)

pareto = Continuous(
    "pareto",
    "b",
    check=lambda b: b > 0,
    support=(1.0, None),
    interior=2.0,
    logpdf=lambda y, b: fnp.log(b) - (b + 1.0) * fnp.log(y),
    cdf=lambda y, b: -fnp.expm1(-b * fnp.log(y)),
    sf=lambda y, b: fnp.exp(-b * fnp.log(y)),
    logsf=lambda y, b: -b * fnp.log(y),
    ppf=lambda q, b: fnp.exp(-fnp.log1p(-q) / b),
    isf=lambda q, b: fnp.exp(-fnp.log(q) / b),
)


def _power(y: Any, c: Any) -> Any:
    """y**c, for shapes c > 0: NaN for others, where NaN**0 would be 1."""
    return poisoned(y**c, c > 0)


def _weibull_logpdf(y: Any, c: Any) -> Any:
    return fnp.log(c) + special.xlogy(c - 1.0, y) - _power(y, c)


weibull_min = Continuous(
    "weibull_min",
    "c",
    check=lambda c: c > 0,
    support=(0.0, None),
    logpdf=_weibull_logpdf,
    pdf=with_ends(_weibull_logpdf, lambda y, c: c * y ** (c - 1.0) * fnp.exp(-(y**c))),
    cdf=lambda y, c: -fnp.expm1(-_power(y, c)),
    sf=lambda y, c: fnp.exp(-_power(y, c)),
    logsf=lambda y, c: -_power(y, c),
    ppf=lambda q, c: (-fnp.log1p(-q)) ** (1.0 / c),
    isf=lambda q, c: (-fnp.log(q)) ** (1.0 / c),
)

rayleigh = Continuous(
    "rayleigh",
    support=(0.0, None),
    logpdf=lambda y: fnp.log(y) - 0.5 * y * y,
    pdf=lambda y: y * fnp.exp(-0.5 * y * y),
    cdf=lambda y: -fnp.expm1(-0.5 * y * y),
    sf=lambda y: fnp.exp(-0.5 * y * y),
    logsf=lambda y: -0.5 * y * y,
    ppf=lambda q: fnp.sqrt(-2.0 * fnp.log1p(-q)),
    isf=lambda q: fnp.sqrt(-2.0 * fnp.log(q)),
)

halfnorm = Continuous(
    "halfnorm",
    support=(0.0, None),
    logpdf=lambda y: 0.5 * log(2 / pi) - 0.5 * (y * y),
    cdf=lambda y: special.erf(y * sqrt(0.5)),
    sf=lambda y: special.erfc(y * sqrt(0.5)),
    logsf=lambda y: special.log_ndtr(-y) + log(2),
    ppf=lambda q: special.erfinv(q) * sqrt(2),
    isf=lambda q: -special.ndtri(0.5 * q),
)

lognorm = Continuous(
    "lognorm",
    "s",
    check=lambda s: s > 0,
    support=(0.0, None),
    closed=False,
    logpdf=lambda y, s: _log_normal_density(fnp.log(y) / s) - fnp.log(y) - fnp.log(s),
    cdf=lambda y, s: special.ndtr(fnp.log(y) / s),
    sf=lambda y, s: special.ndtr(-fnp.log(y) / s),
    logcdf=lambda y, s: special.log_ndtr(fnp.log(y) / s),
    logsf=lambda y, s: special.log_ndtr(-fnp.log(y) / s),
    ppf=lambda q, s: fnp.exp(s * special.ndtri(q)),
    isf=lambda q, s: fnp.exp(-s * special.ndtri(q)),
)


def _log_between(a: Any, b: Any) -> Any:
    """log of the normal probability of (a, b); by symmetry it is taken in the lower tail."""
    upper = a > 0
    low, high = special.log_ndtr(fnp.where(upper, -b, a)), special.log_ndtr(fnp.where(upper, -a, b))
    gap = high - low
    near = gap < log(2)
    return high + fnp.where(
        near, fnp.log(-fnp.expm1(-fnp.where(near, gap, 1.0))), fnp.log1p(-fnp.exp(-fnp.where(near, 1.0, gap)))
    )


truncnorm = Continuous(
    "truncnorm",
    "a b",
    check=lambda a, b: a < b,
    support=lambda a, b: (a, b),
    interior=lambda a, b: fnp.minimum(fnp.maximum(a, 0.0), b),
    logpdf=lambda y, a, b: _log_normal_density(y) - _log_between(a, b),
    cdf=lambda y, a, b: fnp.exp(_log_between(a, y) - _log_between(a, b)),
    sf=lambda y, a, b: fnp.exp(_log_between(y, b) - _log_between(a, b)),
    ppf=lambda q, a, b: _truncated_quantile(fnp.log(q), fnp.log1p(-q), a, b),
    isf=lambda q, a, b: _truncated_quantile(fnp.log1p(-q), fnp.log(q), a, b),
)


def _truncated_quantile(log_below: Any, log_above: Any, a: Any, b: Any) -> Any:
    """The point with these logarithms of the probabilities below and above, from the tail that is farther from 0."""
    left = a < 0
    end, log_part = fnp.where(left, a, -b), fnp.where(left, log_below, log_above)
    y = special.ndtri_exp(fnp.logaddexp(special.log_ndtr(end), log_part + _log_between(a, b)))
    return fnp.where(left, y, -y)


gennorm = Continuous(
    "gennorm",
    "beta",
    check=lambda beta: beta > 0,
    logpdf=lambda y, beta: fnp.log(0.5 * beta) - special.gammaln(1.0 / beta) - _power(fnp.abs(y), beta),
    cdf=lambda y, beta: _gennorm_cdf(y, beta),
    sf=lambda y, beta: _gennorm_cdf(-y, beta),
    ppf=lambda q, beta: _gennorm_quantile(q, beta),
    isf=lambda q, beta: -_gennorm_quantile(q, beta),
)


def _gennorm_lower(y: Any, beta: Any) -> Any:
    tail = 0.5 * special.gammaincc(1.0 / beta, _power(fnp.abs(y), beta))
    return fnp.where(y > 0, 1.0 - tail, tail)


def _gennorm_inverse(q: Any, beta: Any) -> Any:
    low = q < 0.5
    y = special.gammainccinv(1.0 / beta, 2.0 * fnp.where(low, q, 1.0 - q)) ** (1.0 / beta)
    return fnp.where(low, -y, y)


_gennorm_cdf: Callable[..., Any] = known_density(_gennorm_lower, gennorm.formulas["logpdf"])
_gennorm_quantile: Callable[..., Any] = inverse_of(
    _gennorm_cdf, lambda y, beta: fnp.exp(gennorm.formulas["logpdf"](y, beta)), _gennorm_inverse
)

skewnorm = Continuous(
    "skewnorm",
    "a",
    check=lambda a: a == a,
    logpdf=lambda y, a: _log_normal_density(y) + special.log_ndtr(a * y) + log(2),
    cdf=lambda y, a: _skewnorm_cdf(y, a),
    sf=lambda y, a: _skewnorm_cdf(-y, -a),
)


def _skewnorm_rule(out: Any, args: Any, tangents: Any) -> Any:
    (y, a), (ty, ta) = args, tangents
    t = None if ty is None else fnp.exp(skewnorm.formulas["logpdf"](y, a)) * ty
    if ta is None:
        return t
    square = 1.0 + a * a
    by_a = fnp.exp(-0.5 * y * y * square) / (-pi * square) * ta
    return by_a if t is None else t + by_a


_skewnorm_cdf: Callable[..., Any] = with_rule(lambda y, a: from_scipy("stats.skewnorm.cdf", y, a), _skewnorm_rule)


# -- the gamma and beta families: distributions through the incomplete gamma and beta functions


def _log_gamma_density(y: Any, a: Any) -> Any:
    return special.xlogy(a - 1.0, y) - y - special.gammaln(a)


def _log_beta_density(y: Any, a: Any, b: Any) -> Any:
    return special.xlogy(a - 1.0, y) + special.xlog1py(b - 1.0, -y) - special.betaln(a, b)


_gamma_density = with_ends(_log_gamma_density, lambda y, a: y ** (a - 1.0) * fnp.exp(-y - special.gammaln(a)))

gamma = Continuous(
    "gamma",
    "a",
    check=lambda a: a > 0,
    support=(0.0, None),
    logpdf=_log_gamma_density,
    pdf=_gamma_density,
    cdf=lambda y, a: special.gammainc(a, y),
    sf=lambda y, a: special.gammaincc(a, y),
    ppf=lambda q, a: special.gammaincinv(a, q),
    isf=lambda q, a: special.gammainccinv(a, q),
)

chi2 = Continuous(
    "chi2",
    "df",
    check=lambda df: df > 0,
    support=(0.0, None),
    logpdf=lambda y, df: _log_gamma_density(0.5 * y, 0.5 * df) - log(2),
    pdf=lambda y, df: 0.5 * _gamma_density(0.5 * y, 0.5 * df),
    cdf=lambda y, df: special.gammainc(0.5 * df, 0.5 * y),
    sf=lambda y, df: special.gammaincc(0.5 * df, 0.5 * y),
    ppf=lambda q, df: 2.0 * special.gammaincinv(0.5 * df, q),
    isf=lambda q, df: 2.0 * special.gammainccinv(0.5 * df, q),
)

invgamma = Continuous(
    "invgamma",
    "a",
    check=lambda a: a > 0,
    support=(0.0, None),
    closed=False,
    logpdf=lambda y, a: -(a + 1.0) * fnp.log(y) - special.gammaln(a) - 1.0 / y,
    cdf=lambda y, a: special.gammaincc(a, 1.0 / y),
    sf=lambda y, a: special.gammainc(a, 1.0 / y),
    ppf=lambda q, a: 1.0 / special.gammainccinv(a, q),
    isf=lambda q, a: 1.0 / special.gammaincinv(a, q),
)

beta = Continuous(
    "beta",
    "a b",
    check=lambda a, b: (a > 0) & (b > 0),
    support=(0.0, 1.0),
    logpdf=_log_beta_density,
    pdf=with_ends(
        _log_beta_density,
        lambda y, a, b: y ** (a - 1.0) * (1.0 - y) ** (b - 1.0) * fnp.exp(-special.betaln(a, b)),
        ends=(0.0, 1.0),
    ),
    cdf=lambda y, a, b: special.betainc(a, b, y),
    sf=lambda y, a, b: special.betainc(b, a, 1.0 - y),
    ppf=lambda q, a, b: special.betaincinv(a, b, q),
    isf=lambda q, a, b: special.betainccinv(a, b, q),
)


def _f_logpdf(y: Any, dfn: Any, dfd: Any) -> Any:
    m, n = 0.5 * dfn, 0.5 * dfd
    return m * fnp.log(dfn / dfd) + special.xlogy(m - 1.0, y) - (m + n) * fnp.log1p(dfn * y / dfd) - special.betaln(m, n)


def _f_part(function: Any, complement: Any, y: Any, dfn: Any, dfd: Any) -> Any:
    """By the smaller of the shares dfn y / (dfd + dfn y) and dfd / (dfd + dfn y), as the other one may be rounded to 1."""
    scaled = dfn * y
    low = scaled < dfd
    share = fnp.where(low, scaled, dfd) / (dfd + scaled)
    a, b = 0.5 * fnp.where(low, dfn, dfd), 0.5 * fnp.where(low, dfd, dfn)
    return fnp.where(low, function(a, b, share), complement(a, b, share))


def _f_at_zero(y: Any, dfn: Any, dfd: Any) -> Any:
    m, n = 0.5 * dfn, 0.5 * dfd
    return y ** (m - 1.0) * (1.0 + dfn * y / dfd) ** -(m + n) * fnp.exp(m * fnp.log(dfn / dfd) - special.betaln(m, n))


f = Continuous(
    "f",
    "dfn dfd",
    check=lambda dfn, dfd: (dfn > 0) & (dfd > 0) & (dfn < math.inf) & (dfd < math.inf),
    support=(0.0, None),
    logpdf=_f_logpdf,
    pdf=with_ends(_f_logpdf, _f_at_zero),
    cdf=lambda y, dfn, dfd: _f_part(special.betainc, special.betaincc, y, dfn, dfd),
    sf=lambda y, dfn, dfd: _f_part(special.betaincc, special.betainc, y, dfn, dfd),
    ppf=lambda q, dfn, dfd: _odds(special.betaincinv(0.5 * dfn, 0.5 * dfd, q)) * dfd / dfn,
    isf=lambda q, dfn, dfd: dfd / (dfn * _odds(special.betaincinv(0.5 * dfd, 0.5 * dfn, q))),
)


def _odds(p: Any) -> Any:
    return p / (1.0 - p)


def _t_logpdf(y: Any, df: Any) -> Any:
    return -0.5 * fnp.log(df) - special.betaln(0.5 * df, 0.5) - 0.5 * (df + 1.0) * fnp.log1p(y * y / df)


def _t_tail(y: Any, df: Any) -> Any:
    """P(T > |y|), from whichever form of the incomplete beta function has the small argument."""
    square = y * y
    near = square < df
    z = fnp.where(near, square, df) / (df + square)
    half = 0.5 * df
    one = half * 0.0 + 0.5
    inner = 0.5 - 0.5 * special.betainc(one, half, fnp.where(near, z, 0.5))
    return fnp.where(near, inner, 0.5 * special.betainc(half, one, fnp.where(near, 0.5, z)))


def _t_lower(y: Any, df: Any) -> Any:
    tail = _t_tail(y, df)
    return fnp.where(y > 0, 1.0 - tail, tail)


_t_cdf: Callable[..., Any] = known_density(_t_lower, _t_logpdf)


def _t_inverse(q: Any, df: Any) -> Any:
    """From the tail 2 P(T > |y|), or what is left of it around the median."""
    tail = 2.0 * fnp.where(q < 0.5, q, 1.0 - q)
    far = tail < 0.5
    half = 0.5 * df
    one = half * 0.0 + 0.5
    z = special.betaincinv(half, one, fnp.where(far, tail, 0.5))
    w = special.betaincinv(one, half, fnp.where(far, 0.5, 1.0 - tail))
    y = fnp.sqrt(df * fnp.where(far, (1.0 - z) / z, w / (1.0 - w)))
    return fnp.where(q < 0.5, -y, y)


_t_quantile: Callable[..., Any] = inverse_of(_t_cdf, lambda y, df: fnp.exp(_t_logpdf(y, df)), _t_inverse)


def _or_normal(formula: Callable[..., Any], normal: Callable[..., Any]) -> Callable[..., Any]:
    """The formula, and the normal distribution's for df = inf."""

    def f(y: Any, df: Any) -> Any:
        infinite = df == math.inf
        out = formula(y, replaced(df, infinite, 1.0))
        if type(infinite) is not Tracer and not infinite.any():
            return out
        return fnp.where(infinite, normal(y), out)

    return f


t = Continuous(
    "t",
    "df",
    check=lambda df: df > 0,
    logpdf=_or_normal(_t_logpdf, lambda y: -0.5 * (y * y) - 0.5 * log(2 * math.pi)),
    cdf=_or_normal(_t_cdf, lambda y: special.ndtr(y)),
    sf=_or_normal(lambda y, df: _t_cdf(-y, df), lambda y: special.ndtr(-y)),
    ppf=_or_normal(_t_quantile, lambda q: special.ndtri(q)),
    isf=_or_normal(lambda q, df: -_t_quantile(q, df), lambda q: -special.ndtri(q)),
)


# -- distributions on the circle


@remembers()
def _nodes() -> Any:
    """Gauss-Legendre on (0, 1), enough for a normal density over twelve standard deviations."""
    points, weights = np.polynomial.legendre.leggauss(64)
    return ((points + 1) / 2).tolist(), (weights / 2).tolist()


def _vonmises_logpdf(y: Any, kappa: Any) -> Any:
    half = fnp.sin(0.5 * y)
    return -2.0 * kappa * half * half - fnp.log(special.i0e(kappa)) - log(2 * pi)


def _vonmises_cdf(y: Any, kappa: Any) -> Any:
    """1/2 + the density's integral from 0, as far as it is not negligible; a turn more is one more."""
    turns = fnp.rint(y / (2 * pi))
    y = y - 2 * pi * turns
    reach = 12.0 / fnp.sqrt(fnp.maximum(kappa, 1.0))
    y = fnp.clip(y, -reach, reach)
    total = 0.0
    for point, weight in zip(*_nodes()):
        half = fnp.sin(0.5 * point * y)
        total = total + weight * fnp.exp(-2.0 * kappa * half * half)
    return turns + 0.5 + y * total / (2 * pi * special.i0e(kappa))


vonmises = Continuous(
    "vonmises",
    "kappa",
    check=lambda kappa: kappa >= 0,
    logpdf=_vonmises_logpdf,
    cdf=lambda y, kappa: _vonmises_integral(y, kappa),
    sf=lambda y, kappa: _vonmises_integral(-y, kappa),
)
_vonmises_integral: Callable[..., Any] = known_density(_vonmises_cdf, _vonmises_logpdf)

wrapcauchy = Continuous(
    "wrapcauchy",
    "c",
    check=lambda c: (c > 0) & (c < 1),
    support=(0.0, 2 * pi),
    logpdf=lambda y, c: fnp.log((1.0 - c * c) / (2 * pi * (1.0 + c * c - 2.0 * c * fnp.cos(y)))),
    cdf=lambda y, c: fnp.arctan2((1.0 + c) * fnp.sin(0.5 * y), (1.0 - c) * fnp.cos(0.5 * y)) / pi,
    sf=lambda y, c: fnp.arctan2((1.0 + c) * fnp.sin(0.5 * y), (c - 1.0) * fnp.cos(0.5 * y)) / pi,
    ppf=lambda q, c: 2.0 * fnp.arctan2((1.0 - c) * fnp.sin(pi * q), (1.0 + c) * fnp.cos(pi * q)),
    isf=lambda q, c: 2.0 * fnp.arctan2((1.0 - c) * fnp.sin(pi * q), (-1.0 - c) * fnp.cos(pi * q)),
)


# -- discrete distributions on the integers


def _is_probability(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def _is_count(n: Any) -> Any:
    return (n >= 0) & (fnp.floor(n) == n)


def _log_choose(n: Any, k: Any) -> Any:
    return -fnp.log1p(n) - special.betaln(k + 1.0, n - k + 1.0)


bernoulli = Discrete(
    "bernoulli",
    "p",
    check=_is_probability,
    support=(0.0, 1.0),
    logpmf=lambda k, p: special.xlogy(k, p) + special.xlog1py(1.0 - k, -p),
    pmf=lambda k, p: k * p + (1.0 - k) * (1.0 - p),
    cdf=lambda k, p: 1.0 - p + 0.0 * k,
    sf=lambda k, p: p + 0.0 * k,
)

binom = Discrete(
    "binom",
    "n p",
    check=lambda n, p: _is_count(n) & _is_probability(p),
    support=lambda n, p: (0.0, n),
    logpmf=lambda k, n, p: _log_choose(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
    cdf=lambda k, n, p: special.betainc(n - k, k + 1.0, 1.0 - p),
    sf=lambda k, n, p: special.betainc(k + 1.0, n - k, p),
)


def _betabinom_logpmf(k: Any, n: Any, a: Any, b: Any) -> Any:
    return _log_choose(n, k) + special.betaln(k + a, n - k + b) - special.betaln(a, b)


def _betabinom_sum(k: Any, n: Any, a: Any, b: Any, upper: Any) -> Any:
    """The sum over all counts up to k (above k), which are as many as the largest n, and must be known."""
    known = concrete_value(n)
    if type(known) is Tracer:
        raise TracerArrayConversionError(
            "betabinom's cdf and sf are sums over n terms, so n must be known, but it is traced.\n"
            "Remedy: leave n out of the arguments of jit and vmap (close over it, or name it in static_argnums)."
        )
    zero = k * 0.0
    n, a, b, total = n + zero, a + zero, b + zero, zero
    for j in range(int(np.max(known, initial=0)) + 1):
        counted = (n >= j) & ((k < j) if upper else (k >= j))
        inside = fnp.where(n >= j, zero + float(j), 0.0)
        total = total + fnp.where(counted, fnp.exp(_betabinom_logpmf(inside, n, a, b)), 0.0)
    return total


betabinom = Discrete(
    "betabinom",
    "n a b",
    check=lambda n, a, b: _is_count(n) & (a > 0) & (b > 0),
    support=lambda n, a, b: (0.0, n),
    logpmf=_betabinom_logpmf,
    cdf=lambda k, n, a, b: _betabinom_sum(k, n, a, b, False),
    sf=lambda k, n, a, b: _betabinom_sum(k, n, a, b, True),
)

geom = Discrete(
    "geom",
    "p",
    check=lambda p: (p > 0) & (p <= 1),
    support=(1.0, None),
    logpmf=lambda k, p: special.xlog1py(k - 1.0, -p) + fnp.log(p),
    cdf=lambda k, p: -fnp.expm1(special.xlog1py(k, -p)),
    sf=lambda k, p: fnp.exp(special.xlog1py(k, -p)),
    logsf=lambda k, p: special.xlog1py(k, -p),
)

nbinom = Discrete(
    "nbinom",
    "n p",
    check=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    logpmf=lambda k, n, p: -fnp.log(n + k) - special.betaln(k + 1.0, n) + n * fnp.log(p) + special.xlog1py(k, -p),
    cdf=lambda k, n, p: special.betainc(n, k + 1.0, p),
    sf=lambda k, n, p: special.betainc(k + 1.0, n, 1.0 - p),
)

poisson = Discrete(
    "poisson",
    "mu",
    check=lambda mu: mu >= 0,
    logpmf=lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1.0) - mu,
    cdf=lambda k, mu: special.gammaincc(k + 1.0, mu),
    sf=lambda k, mu: special.gammainc(k + 1.0, mu),
)

"""Distributions of one variable on the real line, with few shape parameters; the others: gamma_families.py, counts.py."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, pi, sqrt
from typing import Any

from funcad import numpy as fnp
from funcad.scipy.stats.family import Continuous, inverse_of, known_density, level_out, poisoned, special, with_ends, with_rule

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
    support=(0.0, inf),
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
    logpdf=level_out(lambda y: special.log_expit(y) + special.log_expit(-y)),
    cdf=lambda y: special.expit(y),
    sf=lambda y: special.expit(-y),
    logcdf=lambda y: special.log_expit(y),
    logsf=lambda y: special.log_expit(-y),
    ppf=lambda q: special.logit(q),
    isf=lambda q: -special.logit(q),
)

cauchy = Continuous(
    "cauchy",
    logpdf=level_out(lambda y: -log(pi) - fnp.log1p(y * y)),
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


def _gumbel_pdf(y: Any) -> Any:
    y = fnp.minimum(y, _FAR)
    return fnp.exp(y - fnp.exp(y))


def _gumbel_sf(y: Any) -> Any:
    return fnp.exp(-fnp.exp(fnp.minimum(y, _FAR)))


def _gumbel_cdf(y: Any) -> Any:
    return -fnp.expm1(-fnp.exp(fnp.minimum(y, _FAR)))


_FAR = 10.0  # exp(-exp(y)) is 0 in all precisions from here on: farther out its derivative would be 0 * inf

gumbel_r = Continuous(
    "gumbel_r",
    logpdf=level_out(lambda y: -y - fnp.exp(-y)),
    pdf=level_out(lambda y: _gumbel_pdf(-y)),
    cdf=lambda y: _gumbel_sf(-y),
    sf=lambda y: _gumbel_cdf(-y),
    logcdf=lambda y: -fnp.exp(-y),
    ppf=lambda q: -fnp.log(-fnp.log(q)),
    isf=lambda q: -fnp.log(-fnp.log1p(-q)),
)

gumbel_l = Continuous(
    "gumbel_l",
    logpdf=level_out(lambda y: y - fnp.exp(y)),
    pdf=level_out(_gumbel_pdf),
    cdf=_gumbel_cdf,
    sf=_gumbel_sf,
    logsf=lambda y: -fnp.exp(y),
    ppf=lambda q: fnp.log(-fnp.log1p(-q)),
    isf=lambda q: fnp.log(-fnp.log(q)),
)

pareto = Continuous(
    "pareto",
    "b",
    check=lambda b: b > 0,
    support=(1.0, inf),
    interior=2.0,
    logpdf=level_out(lambda y, b: fnp.log(b) - (b + 1.0) * fnp.log(y)),
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
    support=(0.0, inf),
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
    support=(0.0, inf),
    closed=False,
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
    support=(0.0, inf),
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
    support=(0.0, inf),
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
    logpdf=level_out(lambda y, beta: _gennorm_logpdf(y, beta)),
    cdf=lambda y, beta: _gennorm_cdf(y, beta),
    sf=lambda y, beta: _gennorm_cdf(-y, beta),
    ppf=lambda q, beta: _gennorm_quantile(q, beta),
    isf=lambda q, beta: -_gennorm_quantile(q, beta),
)


def _gennorm_logpdf(y: Any, beta: Any) -> Any:
    constant = fnp.log(0.5 * beta) - special.gammaln(1.0 / beta)
    return constant - _power(fnp.abs(y), beta)


def _gennorm_lower(y: Any, beta: Any) -> Any:
    tail = 0.5 * special.gammaincc(1.0 / beta, _power(fnp.abs(y), beta))
    return fnp.where(y > 0, 1.0 - tail, tail)


def _gennorm_inverse(q: Any, beta: Any) -> Any:
    low = q < 0.5
    y = special.gammainccinv(1.0 / beta, 2.0 * fnp.where(low, q, 1.0 - q)) ** (1.0 / beta)
    return fnp.where(low, -y, y)


_gennorm_cdf: Callable[..., Any] = known_density(_gennorm_lower, _gennorm_logpdf)
_gennorm_quantile: Callable[..., Any] = inverse_of(
    _gennorm_cdf, lambda y, beta: fnp.exp(_gennorm_logpdf(y, beta)), _gennorm_inverse
)

skewnorm = Continuous(
    "skewnorm",
    "a",
    check=lambda a: a == a,
    logpdf=level_out(
        lambda y, a: _log_normal_density(y) + special.log_ndtr(a * y) + log(2)
    ),
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


_skewnorm_cdf: Callable[..., Any] = with_rule("skewnorm.cdf", _skewnorm_rule)

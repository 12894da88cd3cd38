"""Distributions through the incomplete gamma and beta functions, and those on the circle."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.ir.tracer import Tracer
from funcad.memo import remembers
from funcad.scipy.stats.family import Continuous, inverse_of, known_density, level_out, replaced, special, with_ends


def _log_gamma_density(y: Any, a: Any) -> Any:
    return special.xlogy(a - 1.0, y) - y - special.gammaln(a)


def _log_beta_density(y: Any, a: Any, b: Any) -> Any:
    return special.xlogy(a - 1.0, y) + special.xlog1py(b - 1.0, -y) - special.betaln(a, b)


_gamma_density = with_ends(_log_gamma_density, lambda y, a: y ** (a - 1.0) * fnp.exp(-y - special.gammaln(a)))

gamma = Continuous(
    "gamma",
    "a",
    check=lambda a: a > 0,
    support=(0.0, math.inf),
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
    support=(0.0, math.inf),
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
    support=(0.0, math.inf),
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
    rising = m * fnp.log(dfn / dfd) + special.xlogy(m - 1.0, y)
    falling = (m + n) * fnp.log1p(dfn * y / dfd)
    return rising - falling - special.betaln(m, n)


def _f_part(function: Any, complement: Any, y: Any, dfn: Any, dfd: Any) -> Any:
    """By the smaller of the shares dfn y / (dfd + dfn y) and dfd / (dfd + dfn y), as the other one may be rounded to 1."""
    scaled = dfn * y
    low = scaled < dfd
    share = fnp.where(low, scaled, dfd) / (dfd + scaled)
    a, b = 0.5 * fnp.where(low, dfn, dfd), 0.5 * fnp.where(low, dfd, dfn)
    return fnp.where(low, function(a, b, share), complement(a, b, share))


def _f_at_zero(y: Any, dfn: Any, dfd: Any) -> Any:
    m, n = 0.5 * dfn, 0.5 * dfd
    constant = fnp.exp(m * fnp.log(dfn / dfd) - special.betaln(m, n))
    return y ** (m - 1.0) * (1.0 + dfn * y / dfd) ** -(m + n) * constant


f = Continuous(
    "f",
    "dfn dfd",
    check=lambda dfn, dfd: (dfn > 0) & (dfd > 0) & (dfn < math.inf) & (dfd < math.inf),
    support=(0.0, math.inf),
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
    logpdf=level_out(
        _or_normal(_t_logpdf, lambda y: -0.5 * (y * y) - 0.5 * log(2 * math.pi))
    ),
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

"""Distributions on the circle."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.scipy.stats.arguments import special
from funcad.scipy.stats.derivatives import known_density
from funcad.scipy.stats.family import Continuous


@functools.cache
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

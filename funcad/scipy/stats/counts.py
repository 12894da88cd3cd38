"""Distributions of counts: discrete ones, on the integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.errors import TracerArrayConversionError
from funcad.ir.tracer import Tracer, concrete_value
from funcad.scipy.stats.family import Discrete, special


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
    support=(1.0, np.inf),
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

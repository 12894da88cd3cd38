"""Counts: a negative binomial regression, and the buying of customers who drop out unseen (BG/NBD)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.real.program import ALL, Library, Program

RANDOM = numpy.random.default_rng(2)
N = 300
X = numpy.column_stack([numpy.ones(N), RANDOM.normal(size=(N, 4))])
COUNTS = RANDOM.negative_binomial(3, 0.4, size=N).astype(float)
AGE = RANDOM.uniform(20.0, 40.0, N)
FREQUENCY = RANDOM.poisson(1.5, N).astype(float)
RECENCY = numpy.where(FREQUENCY > 0.0, AGE * RANDOM.uniform(size=N), 0.0)


def negative_binomial(library: Library) -> Callable[[Any], Any]:
    """Five coefficients, and the logarithm of the dispersion behind them in one vector."""
    np, gammaln = library.np, library.special.gammaln

    def loss(params: Any) -> Any:
        beta, alpha = params[:-1], np.exp(params[-1])
        mean = np.exp(np.dot(X, beta))
        size = 1.0 / alpha
        likelihood = (
            gammaln(COUNTS + size)
            - gammaln(size)
            - gammaln(COUNTS + 1.0)
            + size * np.log(size / (size + mean))
            + COUNTS * np.log(mean / (size + mean))
        )
        return -np.sum(likelihood)

    return loss


def torch_negative_binomial(torch: Any) -> Callable[[Any], Any]:
    x, y = torch.from_numpy(X), torch.from_numpy(COUNTS)
    constant = torch.lgamma(y + 1.0)

    def loss(params: Any) -> Any:
        log_mean, log_size = x @ params[:-1], -params[-1]
        size = log_size.exp()
        log_total = torch.log(size + log_mean.exp())
        terms = torch.lgamma(y + size) - torch.lgamma(size) - constant
        return -(terms + size * (log_size - log_total) + y * (log_mean - log_total)).sum()

    return loss


def customers(library: Library) -> Callable[[Any], Any]:
    """Four positive parameters by their logarithms; those who never bought again have a likelihood of their own."""
    np, gammaln = library.np, library.special.gammaln

    def loss(log_params: Any) -> Any:
        r, alpha, a, b = np.exp(log_params)
        first = gammaln(r + FREQUENCY) - gammaln(r) + r * np.log(alpha)
        second = gammaln(a + b) + gammaln(b + FREQUENCY) - gammaln(b) - gammaln(a + b + FREQUENCY)
        alive = -(r + FREQUENCY) * np.log(alpha + AGE)
        gone = np.log(a) - np.log(b + np.maximum(FREQUENCY, 1.0) - 1.0) - (r + FREQUENCY) * np.log(alpha + RECENCY)
        either = np.where(FREQUENCY > 0.0, np.logaddexp(alive, gone), alive)
        return -np.mean(first + second + either) + 0.001 * np.sum(np.exp(log_params) ** 2)

    return loss


def torch_customers(torch: Any) -> Callable[[Any], Any]:
    age, frequency, recency = map(torch.from_numpy, (AGE, FREQUENCY, RECENCY))
    bought, last = frequency > 0.0, frequency.clamp(min=1.0) - 1.0

    def loss(log_params: Any) -> Any:
        params = log_params.exp()
        r, alpha, a, b = params.unbind()
        first = torch.lgamma(r + frequency) - torch.lgamma(r) + r * log_params[1]
        second = torch.lgamma(a + b) + torch.lgamma(b + frequency) - torch.lgamma(b) - torch.lgamma(a + b + frequency)
        alive = -(r + frequency) * (alpha + age).log()
        gone = log_params[2] - (b + last).log() - (r + frequency) * (alpha + recency).log()
        either = torch.where(bought, torch.logaddexp(alive, gone), alive)
        return -(first + second + either).mean() + 0.001 * (params * params).sum()

    return loss


PROGRAMS = [
    Program("negative binomial regression", negative_binomial, numpy.full(6, 0.1), ALL, torch_negative_binomial),
    Program("BG/NBD customers", customers, numpy.array([0.1, 1.0, 0.2, 0.5]), ("value_and_grad", "hessian"), torch_customers),
]

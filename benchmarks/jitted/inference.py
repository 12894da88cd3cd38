"""Inference: a Gaussian process, a Kalman filter, a hidden Markov model, HMC, Metropolis, a bootstrap, quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.jitted.program import Library, Program, draws


def gaussian_process(lib: Library) -> Callable[..., Any]:
    """The marginal likelihood by Cholesky's factor."""
    np = lib.np

    def loss(params: Any, x: Any, y: Any) -> Any:
        scaled = x / np.exp(params[2:])
        squares = np.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, axis=2)
        kernel = np.exp(params[0] - 0.5 * squares) + (np.exp(params[1]) + 1e-4) * np.eye(x.shape[0], dtype=x.dtype)
        factor = np.linalg.cholesky(kernel)
        return 0.5 * y @ np.linalg.solve(kernel, y) + np.sum(np.log(np.diagonal(factor)))

    return loss


def gaussian_process_data(dtype: Any) -> tuple:
    draw = draws(11, dtype)
    return numpy.array([0.1, -1.0, 0.2, 0.3, 0.1], dtype), draw(100, 3), draw(100)


def kalman(lib: Library) -> Callable[..., Any]:
    """The likelihood of 200 observations of a state of four numbers, two of which are seen."""
    np = lib.np

    def loss(params: Any, move: Any, see: Any, ys: Any) -> Any:
        noise = np.exp(params)
        eye = np.eye(4, dtype=ys.dtype)

        def step(state: Any, y: Any) -> Any:
            mean, covariance = state
            mean, covariance = move @ mean, move @ covariance @ move.T + noise[0] * eye
            away, spread = y - see @ mean, see @ covariance @ see.T + noise[1] * np.eye(2, dtype=ys.dtype)
            gain = np.linalg.solve(spread, see @ covariance).T
            value = np.linalg.slogdet(spread)[1] + away @ np.linalg.solve(spread, away)
            return (mean + gain @ away, covariance - gain @ see @ covariance), value

        start = np.zeros(4, ys.dtype), 10.0 * eye
        return 0.5 * np.sum(lib.lax.scan(step, start, ys)[1])

    return loss


def kalman_data(dtype: Any) -> tuple:
    move = numpy.kron([[1.0, 0.3], [0.0, 1.0]], numpy.eye(2)).astype(dtype)
    see = numpy.kron([[1.0, 0.0]], numpy.eye(2)).astype(dtype)
    return numpy.array([-1.0, 0.1], dtype), move, see, numpy.cumsum(draws(12, dtype)(200, 2), axis=0)


def markov(lib: Library) -> Callable[..., Any]:
    """The forward algorithm in logarithms, 200 steps of 8 states."""
    logsumexp = lib.special.logsumexp

    def loss(moves: Any, seen: Any) -> Any:
        moves = moves - logsumexp(moves, axis=1, keepdims=True)

        def step(alpha: Any, y: Any) -> Any:
            return logsumexp(alpha[:, None] + moves, axis=0) + y, None

        return -logsumexp(lib.lax.scan(step, seen[0], seen[1:])[0])

    return loss


def markov_data(dtype: Any) -> tuple:
    draw = draws(13, dtype)
    return draw(8, 8), draw(200, 8)


def _log_density(np: Any, x: Any, y: Any) -> Callable[[Any], Any]:
    return lambda w: -np.sum(np.logaddexp(0.0, -y * (x @ w))) - 0.5 * np.sum(w * w)


def hmc(lib: Library) -> Callable[..., Any]:
    """Fifty leapfrog steps for a logistic regression, the gradient taken inside the loop."""
    np = lib.np

    def path(w: Any, p: Any, x: Any, y: Any) -> Any:
        slope = lib.transforms.grad(_log_density(np, x, y))

        def step(_: Any, state: Any) -> Any:
            w, p = state
            p = p + 0.01 * slope(w)
            w = w + 0.02 * p
            return w, p + 0.01 * slope(w)

        w, p = lib.lax.fori_loop(0, 50, step, (w, p))
        return _log_density(np, x, y)(w) - 0.5 * np.sum(p * p)

    return path


def hmc_data(dtype: Any) -> tuple:
    draw = draws(14, dtype)
    return draw(10, scale=0.1), draw(10), draw(200, 10), numpy.sign(draw(200))


def metropolis(lib: Library) -> Callable[..., Any]:
    """A thousand steps of a random walk with given draws."""
    np = lib.np

    def chain(start: Any, moves: Any, chances: Any) -> Any:
        density = lambda w: -np.sum((w[1:] - w[:-1] ** 2) ** 2) - np.sum((1.0 - w) ** 2)

        def step(state: Any, given: Any) -> Any:
            w, value = state
            move, chance = given
            other = w + 0.1 * move
            found = density(other)
            taken = chance < found - value
            return (np.where(taken, other, w), np.where(taken, found, value)), w

        return np.mean(lib.lax.scan(step, (start, density(start)), (moves, chances))[1], axis=0)

    return chain


def metropolis_data(dtype: Any) -> tuple:
    chances = numpy.log(numpy.random.default_rng(15).uniform(size=1000)).astype(dtype)
    return numpy.zeros(5, dtype), draws(15, dtype)(1000, 5), chances


def bootstrap(lib: Library) -> Callable[..., Any]:
    """The spread of a weighted mean over 200 given resamples."""
    np = lib.np

    def spread(weights: Any, values: Any, chosen: Any) -> Any:
        w = np.exp(weights)[chosen]
        return np.std(np.sum(w * values[chosen], axis=1) / np.sum(w, axis=1))

    return spread


def bootstrap_data(dtype: Any) -> tuple:
    draw = draws(16, dtype)
    return draw(500, scale=0.1), draw(500), numpy.random.default_rng(16).integers(0, 500, (200, 500))


def quantiles(lib: Library) -> Callable[..., Any]:
    """The distance of two samples by their sorted values, and a quantile."""
    np = lib.np
    return lambda x, y: np.mean((np.sort(x) - np.sort(y)) ** 2) + np.quantile(x, 0.9)


def quantiles_data(dtype: Any) -> tuple:
    draw = draws(17, dtype)
    return draw(20_000), draw(20_000)


PROGRAMS = [
    Program("Gaussian process", gaussian_process, gaussian_process_data, tolerance=1e-6),
    Program("Kalman filter, 200 steps", kalman, kalman_data),
    Program("hidden Markov model, 200 steps", markov, markov_data),
    Program("HMC, 50 leapfrogs", hmc, hmc_data),
    Program("Metropolis, 1,000 steps", metropolis, metropolis_data, gradient=False),
    Program("bootstrap", bootstrap, bootstrap_data),
    Program("sorts and a quantile", quantiles, quantiles_data),
]

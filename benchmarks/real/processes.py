"""A Gaussian process: the marginal likelihood as a function of its hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy

from benchmarks.real.program import Library, Program

RANDOM = numpy.random.default_rng(4)
N, D = 40, 2
X = RANDOM.uniform(-2.0, 2.0, size=(N, D))
Y = numpy.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RANDOM.normal(size=N)


def marginal_likelihood(library: Library) -> Callable[[Any], Any]:
    """A squared exponential kernel: mean, variance, noise and a length scale for each coordinate."""
    np = library.np

    def loss(params: Any) -> Any:
        mean, variance, noise = params[0], np.exp(params[1]), np.exp(params[2]) + 1e-4
        lengths = np.exp(params[3:])
        differences = (X[:, None, :] - X[None, :, :]) / lengths
        kernel = variance * np.exp(-0.5 * np.sum(differences**2, axis=2)) + noise * np.eye(N)
        away = Y - mean
        weights = np.linalg.solve(kernel, away)
        _, log_determinant = np.linalg.slogdet(kernel)
        return 0.5 * (np.dot(away, weights) + log_determinant + N * log(2.0 * pi))

    return loss


def torch_marginal_likelihood(torch: Any) -> Callable[[Any], Any]:
    x, y, eye = torch.from_numpy(X), torch.from_numpy(Y), torch.eye(N, dtype=torch.float64)

    def loss(params: Any) -> Any:
        scaled = x / params[3:].exp()
        away = y - params[0]
        squares = (scaled[:, None] - scaled[None]).square().sum(2)
        kernel = params[1].exp() * torch.exp(-0.5 * squares) + (params[2].exp() + 1e-4) * eye
        factor = torch.linalg.cholesky(kernel)
        half = torch.linalg.solve_triangular(factor, away[:, None], upper=False)
        return 0.5 * ((half * half).sum() + N * log(2.0 * pi)) + factor.diagonal().log().sum()

    return loss


START = numpy.array([0.1, 0.2, -1.5, 0.3, -0.1])
PROGRAMS = [Program("Gaussian process", marginal_likelihood, START, ("value_and_grad", "hessian"), torch_marginal_likelihood)]

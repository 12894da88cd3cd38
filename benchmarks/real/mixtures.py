"""A Gaussian mixture with full covariances, and variational inference of a logistic regression with fixed draws."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy

from benchmarks.real.program import Library, Program

RANDOM = numpy.random.default_rng(3)
K, D, N = 4, 3, 200
POINTS = RANDOM.normal(size=(N, D)) + 3.0 * RANDOM.integers(0, 3, size=(N, 1))
SAMPLES, FEATURES, CASES = 20, 6, 100
X = RANDOM.normal(size=(CASES, FEATURES))
SIGNS = numpy.where(RANDOM.uniform(size=CASES) < 0.5, -1.0, 1.0)
NOISE = RANDOM.normal(size=(SAMPLES, FEATURES))


def mixture(library: Library) -> Callable[[Any], Any]:
    """Covariances by their triangles, the components one after the other, `logsumexp` over them."""
    np, logsumexp = library.np, library.special.logsumexp

    def log_density(x: Any, mean: Any, triangle: Any) -> Any:
        covariance = np.dot(triangle, triangle.T) + 1e-3 * np.eye(D)
        away = x - mean
        squares = np.sum(away * np.linalg.solve(covariance, away.T).T, axis=1)
        return -0.5 * (squares + np.linalg.slogdet(covariance)[1] + D * log(2.0 * pi))

    def loss(params: Any) -> Any:
        log_shares = params["log shares"] - logsumexp(params["log shares"])
        parts = [log_shares[k] + log_density(POINTS, params["means"][k], np.tril(params["triangles"][k])) for k in range(K)]
        return -np.sum(logsumexp(np.vstack(parts), axis=0))

    return loss


def torch_mixture(torch: Any) -> Callable[[Any], Any]:
    points, ridge = torch.from_numpy(POINTS), 1e-3 * torch.eye(D, dtype=torch.float64)

    def loss(params: Any) -> Any:
        triangles = params["triangles"].tril()
        factor = torch.linalg.cholesky(triangles @ triangles.transpose(1, 2) + ridge)
        away = points - params["means"][:, None]
        scaled = torch.linalg.solve_triangular(factor, away.transpose(1, 2), upper=False)
        half_log_determinant = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        density = -0.5 * ((scaled * scaled).sum(1) + D * log(2.0 * pi)) - half_log_determinant[:, None]
        return -(params["log shares"].log_softmax(0)[:, None] + density).logsumexp(0).sum()

    return loss


def variational(library: Library) -> Callable[[Any], Any]:
    """The lower bound of the evidence: means and logarithms of deviations in one vector, draws by reparametrisation."""
    np = library.np

    def log_probability(w: Any) -> Any:
        prior = -0.5 * np.sum(w**2, axis=1)
        return prior - np.sum(np.logaddexp(0.0, -SIGNS * np.dot(w, X.T)), axis=1)

    def loss(params: Any) -> Any:
        mean, log_deviation = params[:FEATURES], params[FEATURES:]
        draws = NOISE * np.exp(log_deviation) + mean
        entropy = 0.5 * FEATURES * (1.0 + np.log(2.0 * np.pi)) + np.sum(log_deviation)
        return -(entropy + np.mean(log_probability(draws)))

    return loss


def torch_variational(torch: Any) -> Callable[[Any], Any]:
    x, signs, noise = map(torch.from_numpy, (X, SIGNS, NOISE))
    signed = (signs[:, None] * x).T

    def loss(params: Any) -> Any:
        mean, log_deviation = params[:FEATURES], params[FEATURES:]
        draws = noise * log_deviation.exp() + mean
        likelihood = torch.nn.functional.logsigmoid(draws @ signed).sum(1)
        entropy = 0.5 * FEATURES * (1.0 + log(2.0 * pi)) + log_deviation.sum()
        return -(entropy + (likelihood - 0.5 * (draws * draws).sum(1)).mean())

    return loss


START = {
    "log shares": numpy.linspace(-0.3, 0.3, K),
    "means": RANDOM.normal(size=(K, D)),
    "triangles": numpy.tile(numpy.eye(D), (K, 1, 1)) + 0.1 * RANDOM.normal(size=(K, D, D)),
}
PROGRAMS = [
    Program("Gaussian mixture", mixture, START, ("value_and_grad", "hvp"), torch_mixture),
    Program("variational bound", variational, numpy.full(12, -0.2), ("value_and_grad", "hvp"), torch_variational),
]

"""SciPy's functions: likelihoods, equations, integrals."""

import numpy as np

from funcad import grad, jit
from funcad.scipy import integrate, optimize, special, stats
from funcad.scipy.linalg import cholesky, solve_triangular


def log_likelihood(p: np.ndarray, data: np.ndarray) -> float:
    return np.sum(stats.norm.logpdf(data, loc=p[0], scale=np.exp(p[1])))


data = np.array([0.1, -0.4, 1.2])
print(grad(log_likelihood)(np.zeros(2), data).shape)
print(special.gammaln(3.5).round(4), grad(special.logsumexp)(data).shape)
root = cholesky(np.eye(2), lower=True)
print(solve_triangular(root, np.ones(2), lower=True))


def decay(y: np.ndarray, t: float, rate: float) -> np.ndarray:
    return -rate * y


@jit
def final(rate: float) -> float:
    return integrate.odeint(decay, np.ones(1), np.array([0.0, 1.0]), rate)[-1, 0]


print(round(grad(final)(0.5), 4))
found = optimize.minimize(lambda p: np.sum((p - 1.0) ** 2), np.zeros(2), method="BFGS")
print(np.round(found.x, 3))

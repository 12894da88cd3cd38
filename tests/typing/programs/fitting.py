"""A curve is fitted by gradient descent; the matrices of second derivatives give error bars."""

from typing import assert_type

import numpy as np

import funcad
from funcad import grad, hessian, jacfwd, jit, value_and_grad


def model(p: np.ndarray, t: np.ndarray) -> np.ndarray:
    return p[0] * np.exp(-p[1] * t)


def loss(p: np.ndarray, t: np.ndarray, y: np.ndarray) -> float:
    return np.sum((model(p, t) - y) ** 2)


t = np.linspace(0.0, 3.0, 20)
y = 2.0 * np.exp(-0.5 * t)
p = np.array([1.0, 1.0])
step = jit(value_and_grad(loss))
value, slope = step(p, t, y)
for _ in range(10):
    p = p - 0.01 * slope
    value, slope = step(p, t, y)
assert_type(value, float)
print(round(value, 3), slope.shape)
covariance = np.linalg.inv(hessian(loss)(p, t, y))
print(np.sqrt(np.diag(covariance)).shape, jacfwd(model)(p, t).shape)
print(grad(loss)(p, t, y).sum(), funcad.__version__)

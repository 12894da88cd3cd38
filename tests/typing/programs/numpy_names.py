"""funcad.numpy in the place of numpy."""

from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import grad
from funcad.numpy import linalg


def gaussian(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    d = x - mean
    solved = linalg.solve(covariance, d)
    sign, logdet = fnp.linalg.slogdet(covariance)
    return -0.5 * (fnp.dot(d, solved) + logdet + len(d) * fnp.log(2 * fnp.pi))


x, mean = fnp.ones(2), fnp.zeros(2)
print(grad(gaussian, argnums=1)(x, mean, fnp.eye(2)))
a = fnp.concatenate([x, mean], axis=0)
a = fnp.at(a)[1].set(5.0)
b: np.ndarray[Any, Any] = fnp.where(a > 0, fnp.exp(-a), 0.0)
print(b.shape, fnp.mean(b, axis=0, keepdims=True).shape, fnp.linspace(0.0, 1.0, num=5)[1], fnp.fft.fft(b).dtype)
print(fnp.sum(fnp.sin(b)).round(3), fnp.stack([a, b]).T.shape, fnp.arange(5).dtype, fnp.float32(1.0).dtype)
print(fnp.einsum("i,i->", a, b).round(3), fnp.clip(a, 0.0, 1.0).max(), fnp.argsort(a, descending=True)[0])
print(fnp.nonzero(a)[0].shape, fnp.maximum(a, b).shape, fnp.sqrt(2.0).round(2), isinstance(a, fnp.ndarray))

"""Directions, transposes and matrices of derivatives."""

import numpy as np

from funcad import gnvp, grad, hvp, jacobian, jacrev, jvp, linear_transpose, linearize, vjp


def f(x: np.ndarray) -> np.ndarray:
    return np.sin(x) * x


def g(x: np.ndarray, y: float) -> float:
    return np.sum(x) * y


x = np.ones(3)
value, tangent = jvp(f, (x,), (x,))
value, pull = vjp(f, x)
(cotangent,) = pull(np.ones(3))
value, push = linearize(f, x)
print(push(x).shape)
print(tangent.shape, cotangent.shape, jacrev(f)(x).shape, jacobian(f)(x).diagonal().shape)
print(hvp(lambda x: np.sum(x**3), (x,), (x,)), gnvp(f, (x,), (x,)).shape)
print(linear_transpose(lambda x: 3.0 * x, x)(x)[0])
gx, gy = grad(g, argnums=(0, 1))(x, 2.0)
print(gx.shape, gy, grad(g, 1)(x, 2.0), grad(g, argnames="y")(x, y=2.0))
print(grad(np.sin)(0.0) + 1.0, grad(grad(lambda x: x**3))(2.0))

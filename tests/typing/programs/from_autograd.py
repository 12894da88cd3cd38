"""A program of HIPS autograd's with its imports changed."""

import numpy as onp

import funcad.autograd.numpy as np
from funcad.autograd import elementwise_grad, grad, jacobian
from funcad.autograd.extend import defvjp, primitive
from funcad.autograd.misc import flatten
from funcad.autograd.misc.optimizers import adam


@primitive
def logsumexp(x: onp.ndarray) -> float:
    top = onp.max(x)
    return top + onp.log(onp.sum(onp.exp(x - top)))


defvjp(logsumexp, lambda ans, x: lambda g: g * np.exp(x - ans))


def loss(w: onp.ndarray, i: int = 0) -> float:
    return np.sum(np.tanh(w) ** 2) + logsumexp(w)


w = np.ones(3)
print(grad(loss)(w).shape, elementwise_grad(np.tanh)(w).shape, jacobian(np.tanh)(w).shape)
print(adam(grad(loss), w, num_iters=3).shape)
flat, unflatten = flatten((w, w))
print(flat.shape, len(unflatten(flat)), np.linalg.norm(w).round(3))

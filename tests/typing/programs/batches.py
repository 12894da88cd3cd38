"""vmap and collectives."""

from typing import Any, assert_type

import numpy as np

from funcad import grad, jit, pmean, psum, vmap


def energy(w: np.ndarray, x: np.ndarray) -> float:
    return np.sum(np.tanh(x @ w))


def scaled(x: np.ndarray) -> np.ndarray:
    return x / psum(np.sum(x), "batch") + pmean(x, "batch")


w, xs = np.ones(3), np.ones((5, 3))
per_example = vmap(grad(energy), in_axes=(None, 0))(w, xs)
print(per_example.shape, vmap(energy, in_axes=(None, 0))(w, xs).mean())
out: np.ndarray[Any, Any] = jit(vmap(scaled, axis_name="batch"))(xs)
print(out.shape, vmap(lambda a, b: {"sum": a + b}, (0, None))(xs, w)["sum"].shape)
chunks = vmap(vmap(lambda a: a * 2.0), chunk_size=2)(xs)
print(chunks.shape)


@vmap
def lengths(x: np.ndarray) -> float:
    return np.sqrt(np.sum(x**2))


print(lengths(xs).shape)
assert_type(grad(energy)(w, xs[0]).ndim, int)

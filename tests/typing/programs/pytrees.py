"""Parameters in nested containers."""

from typing import NamedTuple, assert_type

import numpy as np

from funcad import flatten_util, grad, jit, tree, value_and_grad

Params = dict[str, np.ndarray]


class Weights(NamedTuple):
    w: np.ndarray
    b: float


def loss(params: Params, x: np.ndarray) -> float:
    return np.sum((params["w"] @ x + params["b"]) ** 2)


@jit
def descend(params: Params, x: np.ndarray) -> tuple[float, Params]:
    value, slopes = value_and_grad(loss)(params, x)
    return value, tree.map(lambda p, g: p - 0.1 * g, params, slopes)


params: Params = {"w": np.ones((2, 3)), "b": np.zeros(2)}
value, params = descend(params, np.ones(3))
assert_type(grad(loss)(params, np.ones(3)), Params)
assert_type(value, float)
leaves, structure = tree.flatten(params)
print(len(leaves), structure.num_leaves, tree.unflatten(structure, leaves)["w"].shape)
flat, back = flatten_util.ravel_pytree(params)
print(flat.shape, sorted(back(flat)))
slope = grad(lambda v: np.sum(v.w) * v.b)(Weights(np.ones(2), 3.0))
print(slope.w, slope.b)
for path, leaf in tree.leaves_with_path(params):
    print(tree.keystr(path), leaf.shape)

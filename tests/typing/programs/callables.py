"""Decorated functions are handed on, kept in containers, partially applied and decorated again."""

from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar, assert_type

import numpy as np

from funcad import grad, jit, remat, vmap

P = ParamSpec("P")
R = TypeVar("R")
Field = Callable[[np.ndarray], float]


def logged(f: Callable[P, R]) -> Callable[P, R]:
    @wraps(f)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        return f(*args, **kwargs)

    return wrapped


@logged
@jit
def bowl(x: np.ndarray, depth: float = 1.0) -> float:
    return depth * np.sum(x**2)


def descend(f: Field, x: np.ndarray, steps: int = 3) -> np.ndarray:
    slope: Callable[[np.ndarray], np.ndarray] = jit(grad(f))
    for _ in range(steps):
        x = x - 0.1 * slope(x)
    return x


fields: dict[str, Field] = {"bowl": bowl, "deep": partial(bowl, depth=2.0), "remat": remat(bowl)}
fields["sum"] = jit(lambda x: np.sum(x))
for name, field in fields.items():
    print(name, descend(field, np.ones(2)).shape)
assert_type(bowl(np.ones(2)), float)
print(list(zip([1, 2], vmap(grad(bowl))(np.ones((2, 2)))))[0][1].shape)

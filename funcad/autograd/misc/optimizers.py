"""autograd's optimizers: loops `optimizer(grad, x0, callback, num_iters, step_size, ...)` on pytrees.

`grad(x, i)` gives the gradient at step i, `callback(x, i, g)` is called before every step. They are differentiable, in x0 and
step_size too. `funcad.optimize` has the optimisers as pairs of pure functions, which go under jit and scan.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import funcad.numpy as fnp
from funcad import tree
from funcad.autograd.misc.flatten import flatten

__all__ = ["sgd", "rmsprop", "adam", "unflatten_optimizer"]


def unflatten_optimizer(optimize: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer of vectors, `optimize(grad, x0, callback, ...)`, as one of pytrees: a decorator for those of your own.

    >>> import numpy as np
    >>> @unflatten_optimizer
    ... def descent(grad, x, callback=None, num_iters=50, step_size=0.2):
    ...     for i in range(num_iters):
    ...         x = x - step_size * grad(x, i)
    ...     return x
    >>> found = descent(lambda p, i: {"a": 2.0 * (p["a"] - 3.0), "b": 2.0 * p["b"]}, {"a": 0.0, "b": np.ones(2)})
    >>> round(float(found["a"]), 3), found["b"].round(3)
    (3.0, array([0., 0.]))
    """

    @functools.wraps(optimize)
    def of_trees(
        grad: Callable[[Any, int], Any],
        x0: Any,
        callback: Callable[..., Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        x, unflatten = flatten(x0)
        slopes = lambda x, i: flatten(grad(unflatten(x), i))[0]
        told = None if callback is None else lambda x, i, g: callback(unflatten(x), i, unflatten(g))
        return unflatten(optimize(slopes, x, told, *args, **kwargs))

    return of_trees


def _run(
    step: Callable[..., Any],
    memory: Any,
    grad: Callable[[Any, int], Any],
    x: Any,
    callback: Callable[..., Any] | None,
    num_iters: int,
) -> Any:
    """`step(i, x, g, *memory) -> (x, *memory)` for each leaf; `memory` is a list of trees like x."""
    leaves, structure = tree.flatten(x)
    held = [tree.leaves(m) for m in memory]
    for i in range(num_iters):
        x = structure.unflatten(leaves)
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        results = [step(i, *values) for values in zip(leaves, structure.parts_of(g, "the gradient", "x0"), *held)]
        leaves, *held = [list(column) for column in zip(*results)] if results else [leaves, *held]
    return structure.unflatten(leaves)


def sgd(
    grad: Callable[[Any, int], Any], x: Any, callback: Any = None, num_iters: int = 200, step_size: Any = 0.1, mass: Any = 0.9
) -> Any:
    """Gradient descent with momentum: v = mass * v - (1 - mass) * g, x = x + step_size * v.

    >>> import numpy as np
    >>> sgd(lambda x, i: 2.0 * (x - 3.0), np.zeros(2)).round(3)
    array([3., 3.])
    """

    def step(i: int, x: Any, g: Any, v: Any) -> tuple:
        v = mass * v - (1.0 - mass) * g
        return x + step_size * v, v

    return _run(step, [tree.map(fnp.zeros_like, x)], grad, x, callback, num_iters)


def rmsprop(
    grad: Callable[[Any, int], Any],
    x: Any,
    callback: Any = None,
    num_iters: int = 100,
    step_size: Any = 0.1,
    gamma: Any = 0.9,
    eps: float = 1e-8,
) -> Any:
    """g over the root of the running mean of its square, which starts at 1.

    >>> import numpy as np
    >>> rmsprop(lambda x, i: 2.0 * (x - 3.0), np.zeros(2), step_size=0.05, num_iters=300).round(1)
    array([3., 3.])
    """

    def step(i: int, x: Any, g: Any, square: Any) -> tuple:
        square = square * gamma + g**2 * (1 - gamma)
        return x - step_size * g / (fnp.sqrt(square) + eps), square

    return _run(step, [tree.map(fnp.ones_like, x)], grad, x, callback, num_iters)


def adam(
    grad: Callable[[Any, int], Any],
    x: Any,
    callback: Any = None,
    num_iters: int = 100,
    step_size: Any = 0.001,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Adam (Kingma and Ba, 2015): bias-corrected running means of the gradient and of its square.

    >>> import numpy as np
    >>> adam(lambda x, i: 2.0 * (x - 3.0), np.zeros(2), step_size=0.1, num_iters=300).round(2)
    array([3., 3.])
    """

    def step(i: int, x: Any, g: Any, m: Any, v: Any) -> tuple:
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * (g**2) + b2 * v
        first, second = m / (1 - b1 ** (i + 1)), v / (1 - b2 ** (i + 1))
        return x - step_size * first / (fnp.sqrt(second) + eps), m, v

    return _run(step, [tree.map(fnp.zeros_like, x)] * 2, grad, x, callback, num_iters)

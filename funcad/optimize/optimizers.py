"""Optimisers: chains of the steps in transformations.py. A learning rate is a number, a traced value or a schedule."""

from __future__ import annotations

from typing import Any

from funcad.optimize.base import GradientTransformation, chain, described
from funcad.optimize.transformations import (
    add_decayed_weights,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_rms,
    scale_by_rss,
    stateless,
    trace,
)

__all__ = ["sgd", "adam", "adamw", "rmsprop", "adagrad"]


def _identity() -> GradientTransformation:
    return stateless(lambda updates, _: updates)


def _given(value: Any) -> bool:
    """Is an option on? (A traced number is.)"""
    return value is not None and not (type(value) in (int, float) and value == 0)


@described
def sgd(learning_rate: Any, momentum: Any = None, nesterov: bool = False, weight_decay: Any = 0.0) -> GradientTransformation:
    """Stochastic gradient descent: -learning_rate * t with t = g + weight_decay * params + momentum * t.

    By Nesterov's rule (Sutskever et al., 2013) it is g + momentum * t instead of t. As optax.sgd and torch.optim.SGD.
    `nesterov=True` takes that rule.

    >>> import numpy as np
    >>> optimizer = sgd(0.5)
    >>> optimizer.update(np.array([1.0, -2.0]), optimizer.init(np.zeros(2)))[0]
    array([-0.5,  1. ])
    """
    return chain(
        add_decayed_weights(weight_decay) if _given(weight_decay) else _identity(),
        trace(momentum, nesterov) if momentum is not None else _identity(),
        scale_by_learning_rate(learning_rate),
    )


@described
def adam(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """-learning_rate * m / (sqrt(v) + eps), m and v being bias-corrected running means of the gradient and its square.

    Kingma and Ba, 2015. As optax.adam; `eps_root` is added below the root. With `nesterov` it is NAdam (Dozat, 2016).
    `b1` and `b2` are the rates at which the means of the gradient and of its square forget.

    >>> import numpy as np
    >>> optimizer = adam(0.1)
    >>> optimizer.update(np.array([5.0, -0.1]), optimizer.init(np.zeros(2)))[0].round(6)
    array([-0.1,  0.1])
    """
    return chain(scale_by_adam(b1, b2, eps, eps_root, nesterov), scale_by_learning_rate(learning_rate))


@described
def adamw(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    weight_decay: Any = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """adam with decoupled weight decay: -learning_rate * (m / (sqrt(v) + eps) + weight_decay * params).

    Loshchilov and Hutter, 2019. As optax.adamw; `mask` is a tree of bools that says which leaves decay, or a function of
    the parameters that gives one.
    `b1`, `b2`, `eps_root` and `nesterov` mean what they mean in `adam`.

    >>> import numpy as np
    >>> optimizer = adamw(0.1, weight_decay=0.5)
    >>> p = np.array([2.0])
    >>> optimizer.update(np.array([1.0]), optimizer.init(p), p)[0].round(6)
    array([-0.2])
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@described
def rmsprop(
    learning_rate: Any,
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Any = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """-learning_rate * g / sqrt(v + eps), v being the running mean of g**2, and then momentum.

    Tieleman and Hinton, 2012; `centered` (Graves, 2013) subtracts the square of the running mean of g from v. As optax.rmsprop;
    `eps_in_sqrt=False` adds eps outside the root.
    `initial_scale` is what v starts from; `nesterov` as of `trace`.

    >>> import numpy as np
    >>> optimizer = rmsprop(0.1, decay=0.75)
    >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
    array([-0.2])
    """
    return chain(
        scale_by_rms(decay, eps, initial_scale, centered, eps_in_sqrt),
        scale_by_learning_rate(learning_rate),
        trace(momentum, nesterov) if momentum is not None else _identity(),
    )


@described
def adagrad(learning_rate: Any, initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> GradientTransformation:
    """-learning_rate * g / sqrt(s + eps), s being the sum of the squares of all gradients so far.

    Duchi, Hazan and Singer, 2011. As optax.adagrad.

    >>> import numpy as np
    >>> optimizer = adagrad(0.1, initial_accumulator_value=0.0)
    >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
    array([-0.1])
    """
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))

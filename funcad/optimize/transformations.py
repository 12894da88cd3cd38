"""The steps of which optimisers are made: momentum, scaling by running moments, clipping, weight decay, the learning rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import funcad.numpy as fnp
from funcad import tree
from funcad.optimize.base import (
    ZERO,
    EmptyState,
    GradientTransformation,
    described,
    fitted,
    global_norm,
    next_count,
    positive_sqrt,
    squared_size,
    where,
    zeros_like,
)

__all__ = [
    "scale",
    "scale_by_learning_rate",
    "scale_by_schedule",
    "trace",
    "scale_by_adam",
    "scale_by_rms",
    "scale_by_rss",
    "add_decayed_weights",
    "clip_by_global_norm",
    "clip_by_value",
]


def stateless(function: Callable[[Any, Any], Any]) -> GradientTransformation:
    """The transformation `updates -> function(updates, params)`."""
    return GradientTransformation(
        lambda params: EmptyState(), lambda updates, state, params=None, **extra: (function(updates, params), state)
    )


@described
def scale(step_size: Any) -> GradientTransformation:
    """Multiply by a number, which may be traced.

    `step_size` is that number. Returns a GradientTransformation; as optax.scale.

    >>> import numpy as np
    >>> scale(2.0).update(np.ones(2), EmptyState())[0]
    array([2., 2.])
    """
    return stateless(lambda updates, _: tree.map(lambda g: fitted(step_size, g) * g, updates))


class CountState(NamedTuple):
    """The number of updates done."""

    count: Any


@described
def scale_by_schedule(step_size: Callable[[Any], Any]) -> GradientTransformation:
    """Multiply by `step_size(count)`, count being 0 at the first update.

    >>> import numpy as np
    >>> halving = scale_by_schedule(lambda count: 0.5**count)
    >>> state = halving.init(None)
    >>> _, state = halving.update(1.0, state)
    >>> halving.update(1.0, state)[0]
    np.float64(0.5)
    """

    def update(updates: Any, state: CountState, params: Any = None, **extra: Any) -> tuple[Any, CountState]:
        factor = step_size(state.count)
        return tree.map(lambda g: fitted(factor, g) * g, updates), CountState(next_count(state.count))

    return GradientTransformation(lambda params: CountState(ZERO), update)


@described
def scale_by_learning_rate(learning_rate: Any) -> GradientTransformation:
    """Multiply by -learning_rate: a number (which may be traced), or a schedule.

    >>> import numpy as np
    >>> scale_by_learning_rate(0.1).update(np.ones(2), EmptyState())[0]
    array([-0.1, -0.1])
    """
    return scale_by_schedule(lambda count: -learning_rate(count)) if callable(learning_rate) else scale(-learning_rate)


class TraceState(NamedTuple):
    """The decaying sum of the updates."""

    trace: Any


@described
def trace(decay: Any, nesterov: bool = False) -> GradientTransformation:
    """Momentum: t = g + decay * t, and the update is t, or g + decay * t by Nesterov's rule.

    `decay` is the share of t that is kept; `nesterov=True` takes that rule. As optax.trace.

    >>> import numpy as np
    >>> momentum = trace(0.5)
    >>> _, state = momentum.update(1.0, momentum.init(1.0))
    >>> momentum.update(1.0, state)[0]
    np.float64(1.5)
    """

    def update(updates: Any, state: TraceState, params: Any = None, **extra: Any) -> tuple[Any, TraceState]:
        def step(g: Any, t: Any) -> Any:
            return g + fitted(decay, g) * t

        moved = tree.map(step, updates, state.trace)
        return (tree.map(step, updates, moved) if nesterov else moved), TraceState(moved)

    return GradientTransformation(lambda params: TraceState(zeros_like(params)), update)


class AdamState(NamedTuple):
    """Count of the updates, running means of the gradient and of its square."""

    count: Any
    mu: Any
    nu: Any


def _real_zeros(params: Any) -> Any:
    return tree.map(lambda p: fnp.zeros_like(squared_size(p)), params)


def _running(old: Any, new: Any, decay: Any) -> Any:
    return tree.map(lambda m, x: fitted(decay, x) * m + (1 - fitted(decay, x)) * x, old, new)


@described
def scale_by_adam(
    b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, eps_root: Any = 0.0, nesterov: bool = False
) -> GradientTransformation:
    """m / (sqrt(v + eps_root) + eps), with the bias-corrected running means m of the gradient and v of its square.

    Kingma and Ba, 2015; with `nesterov`, Dozat, 2016. Where v is 0, so is m, and the derivative of the square root counts 0.
    `b1` and `b2` are the rates at which the means of the gradient and of its square forget.

    >>> import numpy as np
    >>> rule = scale_by_adam()
    >>> rule.update(np.array([3.0, -0.1]), rule.init(np.zeros(2)))[0].round(6)
    array([ 1., -1.])
    """

    def init(params: Any) -> AdamState:
        return AdamState(ZERO, zeros_like(params), _real_zeros(params))

    def update(updates: Any, state: AdamState, params: Any = None, **extra: Any) -> tuple[Any, AdamState]:
        count = next_count(state.count)
        mu = _running(state.mu, updates, b1)
        nu = _running(state.nu, tree.map(squared_size, updates), b2)
        by_mu, by_nu = 1 - b1**count, 1 - b2**count

        def step(g: Any, m: Any, v: Any) -> Any:
            if nesterov:
                first = fitted(b1 / (1 - b1 ** (count + 1)), g) * m + fitted((1 - b1) / by_mu, g) * g
            else:
                first = m / fitted(by_mu, g)
            return first / (positive_sqrt(v / fitted(by_nu, g) + fitted(eps_root, g)) + fitted(eps, g))

        return tree.map(step, updates, mu, nu), AdamState(count, mu, nu)

    return GradientTransformation(init, update)


class RmsState(NamedTuple):
    """Running means of the square of the gradient, and of the gradient (None unless centred)."""

    nu: Any
    mu: Any


@described
def scale_by_rms(
    decay: Any = 0.9, eps: Any = 1e-8, initial_scale: Any = 0.0, centered: bool = False, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """g / sqrt(v + eps), with the running mean v of g**2, minus the square of that of g if `centered`.

    Tieleman and Hinton, 2012; Graves, 2013. With `eps_in_sqrt=False` it is g / (sqrt(v) + eps), as in PyTorch.
    `initial_scale` is what v starts from.

    >>> import numpy as np
    >>> rule = scale_by_rms(decay=0.75, eps=0.0)
    >>> rule.update(np.array([3.0]), rule.init(np.zeros(1)))[0]
    array([2.])
    """

    def init(params: Any) -> RmsState:
        nu = tree.map(lambda z: z + fitted(initial_scale, z), _real_zeros(params))
        return RmsState(nu, zeros_like(params) if centered else None)

    def update(updates: Any, state: RmsState, params: Any = None, **extra: Any) -> tuple[Any, RmsState]:
        nu = _running(state.nu, tree.map(squared_size, updates), decay)
        mu = _running(state.mu, updates, decay) if centered else None

        def step(g: Any, v: Any, *m: Any) -> Any:
            variance = v - squared_size(m[0]) if m else v
            if eps_in_sqrt:
                return g / positive_sqrt(variance + fitted(eps, g))
            return g / (positive_sqrt(variance) + fitted(eps, g))

        return tree.map(step, updates, nu, *([mu] if centered else [])), RmsState(nu, mu)

    return GradientTransformation(init, update)


class RssState(NamedTuple):
    """The sum of the squares of all gradients so far."""

    sum_of_squares: Any


@described
def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> GradientTransformation:
    """g / sqrt(s + eps), with the sum s of the squares of all gradients so far (0 where that is 0).

    Duchi, Hazan and Singer, 2011.
    `initial_accumulator_value` is what s starts from.

    >>> import numpy as np
    >>> rule = scale_by_rss(0.0, 0.0)
    >>> rule.update(np.array([3.0, 0.0]), rule.init(np.zeros(2)))[0]
    array([1., 0.])
    """

    def init(params: Any) -> RssState:
        return RssState(tree.map(lambda z: z + fitted(initial_accumulator_value, z), _real_zeros(params)))

    def update(updates: Any, state: RssState, params: Any = None, **extra: Any) -> tuple[Any, RssState]:
        sums = tree.map(lambda g, s: s + squared_size(g), updates, state.sum_of_squares)

        def step(g: Any, s: Any) -> Any:
            some = s > 0
            return where(some, g / fnp.sqrt(where(some, s, 1.0) + fitted(eps, g)), 0.0)

        return tree.map(step, updates, sums), RssState(sums)

    return GradientTransformation(init, update)


@described
def add_decayed_weights(weight_decay: Any, mask: Any = None) -> GradientTransformation:
    """g + weight_decay * params. `mask` is a tree (or a prefix of one) of bools, or a function of params that gives one.

    >>> import numpy as np
    >>> add_decayed_weights(0.5).update(np.ones(2), EmptyState(), np.array([2.0, 4.0]))[0]
    array([2., 3.])
    """

    def decayed(updates: Any, params: Any) -> Any:
        if params is None:
            raise ValueError("weight decay needs the parameters: call update(grads, state, params)")
        if mask is None:
            return tree.map(lambda g, p: g + fitted(weight_decay, g) * p, updates, params)
        chosen = tree.broadcast(mask(params) if callable(mask) else mask, params)
        return tree.map(lambda g, p, m: g + fitted(weight_decay, g) * p if m else g, updates, params, chosen)

    return stateless(decayed)


@described
def clip_by_global_norm(max_norm: Any) -> GradientTransformation:
    """All leaves times one factor, so that their norm together is at most `max_norm`; unchanged if it is smaller.

    >>> import numpy as np
    >>> clip_by_global_norm(1.0).update([np.array([3.0]), np.array([4.0])], EmptyState())[0]
    [array([0.6]), array([0.8])]
    """

    def clipped(updates: Any, _: Any) -> Any:
        norm = global_norm(updates)
        small = norm < max_norm
        safe = where(small, 1.0, norm)
        return tree.map(lambda g: where(small, g, g / fitted(safe, g) * fitted(max_norm, g)), updates)

    return stateless(clipped)


@described
def clip_by_value(max_delta: Any) -> GradientTransformation:
    """Every element between -max_delta and max_delta.

    >>> import numpy as np
    >>> clip_by_value(1.0).update(np.array([3.0, -0.5]), EmptyState())[0]
    array([ 1. , -0.5])
    """
    return stateless(lambda updates, _: tree.map(lambda g: fnp.clip(g, -fitted(max_delta, g), fitted(max_delta, g)), updates))

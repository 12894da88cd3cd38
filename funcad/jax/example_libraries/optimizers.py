"""`jax.example_libraries.optimizers`: an optimizer is three functions, `init`, `update` and `get_params`.

`init(params) -> state`, `update(step, gradients, state) -> state`, `get_params(state) -> params`. A rule is written for one
array and `optimizer` makes it one for trees. The state is a tree, so it goes through `jit`, `scan` and `checkpoint`.

>>> import numpy as np
>>> init, update, get_params = sgd(0.5)
>>> get_params(update(0, [np.array([1.0, 2.0])], init([np.array([3.0, 4.0])])))
[array([2.5, 3. ])]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import funcad.numpy as np
from funcad import tree

__all__ = [
    "JoinPoint",
    "Optimizer",
    "OptimizerState",
    "adagrad",
    "adam",
    "adamax",
    "clip_grads",
    "constant",
    "exponential_decay",
    "inverse_time_decay",
    "l2_norm",
    "make_schedule",
    "momentum",
    "nesterov",
    "optimizer",
    "pack_optimizer_state",
    "piecewise_constant",
    "polynomial_decay",
    "rmsprop",
    "rmsprop_momentum",
    "sgd",
    "sm3",
    "unpack_optimizer_state",
]
Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """The three functions of an optimizer."""

    init_fn: Callable[[Any], Any]
    update_fn: Callable[[Any, Any, Any], Any]
    params_fn: Callable[[Any], Any]


class OptimizerState:
    """For each array of the parameters the leaves of its state; `tree_def` is of the parameters, `subtree_defs` of these."""

    __slots__ = ("packed_state", "subtree_defs", "tree_def")

    def __init__(self, packed_state: Sequence[Sequence[Any]], tree_def: Any, subtree_defs: Sequence[Any]):
        self.packed_state, self.tree_def, self.subtree_defs = packed_state, tree_def, tuple(subtree_defs)

    def states(self) -> list[Any]:
        """The state of each array."""
        return [subtree.unflatten(leaves) for subtree, leaves in zip(self.subtree_defs, self.packed_state)]


tree.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda defs, parts: OptimizerState(parts[0], *defs),
)


def _packed(states: Sequence[Any], tree_def: Any) -> OptimizerState:
    flat = [tree.flatten(state) for state in states]
    return OptimizerState([leaves for leaves, _ in flat], tree_def, [subtree for _, subtree in flat])


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Decorate what makes the three functions for one array: they become those for a tree of arrays.

    >>> import numpy as np
    >>> descend = optimizer(lambda rate: (lambda x0: x0, lambda i, g, x: x - rate * g, lambda x: x))
    >>> init, update, get_params = descend(0.5)
    >>> get_params(update(0, {"w": np.ones(2)}, init({"w": np.zeros(2)})))
    {'w': array([-0.5, -0.5])}
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init_one, update_one, params_one = opt_maker(*args, **kwargs)

        def init(params: Any) -> OptimizerState:
            leaves, tree_def = tree.flatten(params)
            return _packed([init_one(x) for x in leaves], tree_def)

        def update(step: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            leaves, found = tree.flatten(gradients)
            if found != state.tree_def:
                raise TypeError(f"the gradients' structure, {found}, is not that of the parameters, {state.tree_def}")
            states = [update_one(step, g, one) for g, one in zip(leaves, state.states())]
            new = _packed(states, state.tree_def)
            if new.subtree_defs != state.subtree_defs:
                raise TypeError(f"the update made states of the structures {new.subtree_defs}, which were {state.subtree_defs}")
            return new

        def get_params(state: OptimizerState) -> Any:
            return state.tree_def.unflatten([params_one(one) for one in state.states()])

        return Optimizer(init, update, get_params)

    return make


# -- step sizes by the number of the step


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule as it is; of a number the schedule that is constant."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule  # type: ignore[no-any-return]
    if np.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(f"a step size is a number or a function of the step, got {type(scalar_or_schedule).__name__}")


def constant(step_size: Any) -> Schedule:
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    def schedule(i: Any) -> Any:
        turns = i / decay_steps
        return step_size / (1 + decay_rate * (np.floor(turns) if staircase else turns))

    return schedule


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    def schedule(i: Any) -> Any:
        left = 1 - np.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """values[k] from the step boundaries[k - 1] + 1 on.

    >>> [float(piecewise_constant([2], [1.0, 0.5])(i)) for i in (0, 2, 3)]
    [1.0, 1.0, 0.5]
    """
    ends, sizes = np.asarray(boundaries), np.asarray(values)
    if ends.ndim != 1 or sizes.shape != (ends.shape[0] + 1,):
        raise ValueError(f"n boundaries take n + 1 values, got arrays of shape {ends.shape} and {sizes.shape}")
    return lambda i: sizes[np.sum(i > ends)]


# -- optimizers


def _with_zeros(n: int, update: Callable[..., Any]) -> Any:
    """The functions of a rule whose state is x and n arrays like it, which are zero at first."""

    def init(x0: Any) -> Any:
        return x0, *[np.zeros_like(x0) for _ in range(n)]

    def get(state: Any) -> Any:
        return state[0]

    return init, update, get


@optimizer
def sgd(step_size: Any) -> Any:
    """Steps down the gradient."""
    size = make_schedule(step_size)
    return lambda x0: x0, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Steps by the velocity, which keeps `mass` of itself and takes the gradient."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return _with_zeros(1, update)


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """`momentum` whose step looks one velocity ahead."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return _with_zeros(1, update)


def _inverse_root(squares: Any) -> Any:
    return np.where(squares > 0, 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Gradients divided by the root of the sum of all squares so far, with momentum."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares + np.square(g)
        velocity = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * velocity
        return x - size(i) * velocity, squares, velocity

    return _with_zeros(2, update)


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Gradients divided by the root of the running mean of their squares."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        squares = squares * gamma + np.square(g) * (1.0 - gamma)
        return x - size(i) * g / np.sqrt(squares + eps), squares

    return _with_zeros(1, update)


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    """`rmsprop` with momentum."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares * gamma + np.square(g) * (1.0 - gamma)
        velocity = momentum * velocity + size(i) * g / np.sqrt(squares + eps)
        return x - velocity, squares, velocity

    return _with_zeros(2, update)


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Running means of gradients and of their squares, both corrected for their start at zero."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * np.square(g) + b2 * squares
        step = (mean / (1 - b1 ** (i + 1))) / (np.sqrt(squares / (1 - b2 ** (i + 1))) + eps)
        return x - size(i) * step, mean, squares

    return _with_zeros(2, update)


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """`adam` by the largest gradient, which is forgotten slowly, in the place of squares."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = np.maximum(b2 * largest, np.abs(g))
        return x - size(i) / (1 - b1 ** (i + 1)) * mean / (largest + eps), mean, largest

    return _with_zeros(2, update)


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """`adagrad` that keeps for each axis the maxima of the squares over all others, instead of all squares."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity, maxima = state
        along = [m.reshape([-1 if k == axis else 1 for k in range(x.ndim)]) for axis, m in enumerate(maxima)]
        squares = functools.reduce(np.minimum, along) + np.square(g)
        velocity = (1 - momentum) * (g * _inverse_root(squares)) + momentum * velocity
        others = [tuple([k for k in range(x.ndim) if k != axis]) for axis in range(x.ndim)]
        return x - size(i) * velocity, velocity, [np.max(squares, axis=axes) for axes in others]

    def init(x0: Any) -> Any:
        x0 = np.asarray(x0)
        return x0, np.zeros_like(x0), [np.zeros(n, x0.dtype) for n in x0.shape]

    return init, update, lambda state: state[0]


# -- helpers


def l2_norm(tree_: Any) -> Any:
    """The Euclidean norm of all numbers of a tree.

    >>> l2_norm([np.array([3.0]), np.array([4.0])])
    np.float64(5.0)
    """
    return np.sqrt(sum([np.vdot(x, x) for x in tree.leaves(tree_)]))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The gradients, scaled down to this norm if theirs is larger.

    >>> clip_grads([np.array([3.0, 4.0])], 1.0)
    [array([0.6, 0.8])]
    """
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: np.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """The place where the state of one array begins in the tree that `unpack_optimizer_state` gives: a leaf."""

    __slots__ = ("subtree",)

    def __init__(self, subtree: Any):
        self.subtree = subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as a tree of the parameters' structure with a `JoinPoint` for each array, for saving."""
    return opt_state.tree_def.unflatten([JoinPoint(state) for state in opt_state.states()])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state of what `unpack_optimizer_state` has given.

    >>> init, update, get_params = momentum(0.1, 0.9)
    >>> get_params(pack_optimizer_state(unpack_optimizer_state(init([np.ones(2)]))))
    [array([1., 1.])]
    """
    points, tree_def = tree.flatten(marked_pytree, is_leaf=lambda x: type(x) is JoinPoint)
    if not all([type(x) is JoinPoint for x in points]):
        raise TypeError("pack_optimizer_state takes the tree that unpack_optimizer_state gives, whose leaves are JoinPoints")
    return _packed([x.subtree for x in points], tree_def)

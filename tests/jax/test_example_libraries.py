"""`jax.example_libraries`: layers and optimizers do what their formulas say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import random, tree
from funcad.jax.example_libraries import optimizers, stax

GRADIENTS = [[np.array([[1.0, -2.0], [0.5, 0.0]]) * k, {"a": np.array([0.3, -k])}] for k in (1.0, -0.5, 2.0)]
PARAMS = [np.array([[1.0, -2.0], [0.5, 3.0]]), {"a": np.array([0.3, 0.1])}]
RULES: list[tuple[str, tuple]] = [
    ("sgd", (0.1,)), ("momentum", (0.1, 0.9)), ("nesterov", (0.1, 0.9)), ("adagrad", (0.1,)), ("rmsprop", (0.1,)),
    ("rmsprop_momentum", (0.1,)), ("adam", (0.1,)), ("adamax", (0.1,)), ("sm3", (0.1,)),
]  # fmt: skip


def trained(library: Any, rule: str, args: tuple, jit: Any = lambda f: f) -> list[Any]:
    init, update, get_params = getattr(library, rule)(*args)
    state = init(PARAMS)
    for step, gradients in enumerate(GRADIENTS):
        state = jit(update)(step, gradients, state)
    return tree.leaves(get_params(library.pack_optimizer_state(library.unpack_optimizer_state(state))))


@pytest.mark.parametrize(("rule", "args"), RULES)
def test_jitted_updates_are_the_same(rule: str, args: tuple) -> None:
    for plain, jitted in zip(trained(optimizers, rule, args), trained(optimizers, rule, args, funcad.jit)):
        np.testing.assert_allclose(plain, jitted, rtol=1e-14)


def test_the_first_steps_of_adam_and_momentum() -> None:
    first = trained(optimizers, "momentum", (0.1, 0.9))[0]
    velocity, x = 0.0, PARAMS[0]
    for gradients in GRADIENTS:
        velocity = 0.9 * velocity + gradients[0]
        x = x - 0.1 * velocity
    np.testing.assert_allclose(first, x)
    init, update, get_params = optimizers.adam(0.1)
    moved = get_params(update(0, GRADIENTS[0], init(PARAMS)))[0] - PARAMS[0]
    np.testing.assert_allclose(moved, -0.1 * np.sign(GRADIENTS[0][0]), rtol=1e-6)  # the size of the first step is the rate


def test_an_optimizer_finds_the_minimum_within_a_scan() -> None:
    init, update, get_params = optimizers.nesterov(0.05, 0.9)
    loss = lambda p: np.sum((p["w"] - np.array([1.0, -2.0])) ** 2)

    def step(state: Any, i: Any) -> Any:
        return update(i, funcad.grad(loss)(get_params(state)), state), None

    state, _ = funcad.jit(lambda s: funcad.scan(step, s, np.arange(200)))(init({"w": np.zeros(2)}))
    np.testing.assert_allclose(get_params(state)["w"], [1.0, -2.0], atol=1e-4)


def test_gradients_of_another_structure_are_refused() -> None:
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match="is not that of the parameters"):
        update(0, [np.ones(2)], init({"w": np.ones(2)}))
    with pytest.raises(TypeError, match="JoinPoints"):
        optimizers.pack_optimizer_state([np.ones(2)])
    with pytest.raises(ValueError, match="n boundaries take n"):
        optimizers.piecewise_constant([1, 2], [0.1, 0.2])
    with pytest.raises(TypeError, match="a number or a function"):
        optimizers.make_schedule([0.1, 0.2])


def network(s: Any) -> Any:
    return s.serial(
        s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu, s.MaxPool((2, 2), (2, 2)), s.Conv(3, (2, 2), (1, 2)), s.Gelu,
        s.AvgPool((2, 2), padding="SAME"), s.SumPool((2, 1)), s.FanOut(2),
        s.parallel(s.serial(s.Flatten, s.Dense(5), s.Dropout(0.7)), s.serial(s.Flatten, s.Dense(5), s.Selu, s.Elu, s.Softplus)),
        s.FanInSum, s.FanOut(2), s.FanInConcat(), s.shape_dependent(lambda shape: s.Dense(shape[-1])), s.Tanh, s.LogSoftmax,
    )  # fmt: skip


def test_shapes_and_gradients_of_anetwork() -> None:
    init, apply = network(stax)
    shape, params = init(random.key(0), (-1, 8, 9, 3))
    x = random.normal(random.key(1), (2, 8, 9, 3))
    assert shape == (-1, 10) and apply(params, x, rng=random.key(2)).shape == (2, 10)
    np.testing.assert_allclose(np.exp(apply(params, x, rng=random.key(2))).sum(1), 1.0)
    loss = lambda p: np.mean(apply(p, x, rng=random.key(2))[:, 0])
    funcad.testing.check_grads(loss, (params,), order=1, modes=("rev",), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="rng=key"):
        apply(params, x)
    assert stax.Dropout(0.5, mode="test")[1]((), x, rng=random.key(0)) is x


def test_dense_and_transposed_convolutions() -> None:
    init, apply = stax.Dense(3)
    shape, (weights, bias) = init(random.key(0), (5, 2))
    x = np.arange(10.0).reshape(5, 2)
    assert shape == (5, 3)
    np.testing.assert_allclose(apply((weights, bias), x), x @ weights + bias)
    init, apply = stax.Conv1DTranspose(4, (3,), (2,))
    shape, params = init(random.key(0), (-1, 8, 2))
    assert shape == (-1, *apply(params, np.ones((1, 8, 2))).shape[1:])

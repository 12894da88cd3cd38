"""No traced value outlives the trace of a jitted function in an object of the user's, and no random generator moves unseen."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, vmap
from funcad.errors import RandomStateError, UnexpectedTracerError
from tests.jitted.captured_cases import X, module


class Model:
    def __init__(self) -> None:
        self.h: Any = 0.0
        self.items: list[Any] = [1]
        self.table: dict[str, Any] = {}
        self.members: set[Any] = set()

    def store(self, x: Any) -> Any:
        self.h = self.h + x
        return self.h * 2

    def append(self, x: Any) -> Any:
        self.items.append(x)
        return x

    def enter(self, x: Any) -> Any:
        self.table["a"] = (x, [x])
        return x

    def store_and_fail(self, x: Any) -> Any:
        self.h = x
        raise RuntimeError("the user's")

    def in_a_gradient(self, x: Any) -> Any:
        def loss(y: Any) -> Any:
            self.h = y * 2
            return np.sum(y)

        return grad(loss)(x)

    def plain(self, x: Any) -> Any:
        self.h = 7.0
        return x


class Slotted:
    __slots__ = ("h",)

    def store(self, x: Any) -> Any:
        self.h = x
        return x


@pytest.mark.parametrize("method, where", [
    ("store", r"self\.h at .*test_left_behind\.py:\d+ \(store\)"),
    ("append", r"self\.items\[1\]"),
    ("enter", r"self\.table\['a'\]"),
    ("in_a_gradient", r"self\.h at .*\(loss\)"),
])  # fmt: skip
def test_a_stored_tracer_raises_and_is_taken_back(method: str, where: str) -> None:
    model = Model()
    with pytest.raises(UnexpectedTracerError, match=where):
        jit(getattr(model, method))(X)
    assert (model.h, model.items, model.table) == (0.0, [1], {})


def test_slots() -> None:
    thing = Slotted()
    with pytest.raises(UnexpectedTracerError, match=r"self\.h"):
        jit(thing.store)(X)
    assert not hasattr(thing, "h")


def test_globals_and_cells() -> None:
    made = module("g = 1\ndef f(x):\n    global g\n    g = x\n    return x")
    with pytest.raises(UnexpectedTracerError, match="global g"):
        jit(made.f)(X)
    assert made.g == 1
    n: Any = 2

    def f(x: Any) -> Any:
        nonlocal n
        n = x
        return x

    with pytest.raises(UnexpectedTracerError, match="closure variable n"):
        jit(f)(X)
    assert n == 2


def test_what_the_function_raises_comes_first() -> None:
    model = Model()
    with pytest.raises(RuntimeError, match="the user's"):
        jit(model.store_and_fail)(X)
    assert model.h == 0.0


def test_plain_values_may_be_stored() -> None:
    model = Model()
    np.testing.assert_array_equal(jit(model.plain)(X), X)
    assert model.h == 7.0


def test_an_argument_whose_attribute_is_stored() -> None:
    @funcad.tree.register_pytree_node_class
    class State:
        def __init__(self, h: Any):
            self.h = h

        def tree_flatten(self) -> Any:
            return (self.h,), None

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(*children)

        @jit
        def step(self, x: Any) -> Any:
            self.h = self.h + x
            return x

    with pytest.raises(UnexpectedTracerError, match=r"\.h at .*\(step\)"):
        State(np.ones(3)).step(X)


def test_containers_of_the_functions_own_may_hold_what_they_like() -> None:
    def f(x: Any) -> Any:
        model, found = Model(), []
        model.h = x
        found.append(model.h)
        return found[0] * 2

    np.testing.assert_array_equal(jit(f)(X), X * 2)


class Holder:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def f(self, x: Any) -> Any:
        return x + self.rng.normal()


_RNG, _STATE, _PYTHON = np.random.default_rng(0), np.random.RandomState(0), random.Random(0)
_NORMAL = _RNG.normal
_LIST = [np.random.default_rng(2)]
_DRAWS: dict[str, Callable[[Any], Any]] = {
    "Generator": lambda x: x + _RNG.normal(),
    "its method": lambda x: x + _NORMAL(),
    "RandomState": lambda x: x + _STATE.normal(),
    "Random": lambda x: x + _PYTHON.random(),
    "random": lambda x: x + random.random(),
    "in a list": lambda x: x + _LIST[0].normal(),
    "attribute": Holder().f,
    "in a branch of a gradient": lambda x: grad(lambda y: np.sum(y * _RNG.normal()))(x),
    "shuffle": lambda x: np.random.shuffle([1, 2, 3]) or x,
    "seed": lambda x: np.random.seed(1) or x,
}


@pytest.mark.parametrize("name", _DRAWS)
def test_a_generator_that_moved_raises_and_is_set_back(name: str) -> None:
    states = [_RNG.bit_generator.state, _PYTHON.getstate(), random.getstate(), np.random.get_state()[1].tolist()]
    with pytest.raises(RandomStateError, match="Remedy"):
        jit(_DRAWS[name])(X)
    assert states == [_RNG.bit_generator.state, _PYTHON.getstate(), random.getstate(), np.random.get_state()[1].tolist()]


def test_a_generator_made_inside_is_the_functions_own() -> None:
    f = lambda x: x + np.random.default_rng(5).normal(size=3)
    np.testing.assert_array_equal(jit(f)(X), f(X))


def test_unjitted_functions_draw_as_ever() -> None:
    rng = np.random.default_rng(3)
    first, second = [grad(lambda x: x * rng.normal())(1.0) for _ in range(2)]
    assert first != second
    assert vmap(lambda x: x * 2)(X).shape == (3,)

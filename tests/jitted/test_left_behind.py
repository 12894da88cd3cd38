"""No traced value outlives the trace of a jitted function in an object of the user's, and no random generator moves unseen."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, vmap
from funcad.errors import UnexpectedTracerError
from funcad.jitted import first_calls
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


@pytest.mark.parametrize("method", ["store", "append", "enter"])
def test_what_is_stored_is_stored_at_each_call(method: str) -> None:
    model, plain = Model(), Model()
    program = jit(getattr(model, method))
    for i in range(5):
        np.testing.assert_array_equal(program(X + i), getattr(plain, method)(X + i))
        np.testing.assert_equal(vars(model), vars(plain))
    assert type(model.h) is type(plain.h)


def test_a_value_that_is_being_derived_is_not_stored() -> None:
    model = Model()
    with pytest.warns(funcad.NotCompiledWarning, match=r"self\.h is given a value that is being derived"):
        np.testing.assert_array_equal(jit(model.in_a_gradient)(X), np.ones(3))
    model.h = 0.0
    with pytest.raises(UnexpectedTracerError, match=r"self\.h"):
        grad(lambda x: np.sum(jit(model.store)(x)))(X)


def test_slots() -> None:
    thing = Slotted()
    for i in range(3):
        jit(thing.store)(X + i)
        np.testing.assert_array_equal(thing.h, X + i)


def test_globals_and_cells() -> None:
    made = module("g = 1\ndef f(x):\n    global g\n    g = x\n    return x")
    n: Any = 2

    def f(x: Any) -> Any:
        nonlocal n
        n = x
        return x

    for i in range(3):
        jit(made.f)(X + i), jit(f)(X + i)
        np.testing.assert_array_equal(made.g, X + i)
        np.testing.assert_array_equal(n, X + i)


@pytest.mark.parametrize("method", ["store", "append", "enter"])
def test_without_a_source_it_runs_un_jitted(method: str) -> None:
    text = "class Made:\n    def __init__(self):\n        self.h, self.items, self.table = 0.0, [1], {}\n"
    text += "    def store(self, x):\n        self.h = self.h + x\n        return self.h * 2\n"
    text += "    def append(self, x):\n        self.items.append(x)\n        return x\n"
    text += "    def enter(self, x):\n        self.table['a'] = (x, [x])\n        return x\n"
    kind = module(text, source=False).Made
    made, plain = kind(), kind()
    with pytest.warns(funcad.NotCompiledWarning, match="is stored"):
        program = jit(getattr(made, method))
        for i in range(4):
            np.testing.assert_array_equal(program(X + i), getattr(plain, method)(X + i))
            np.testing.assert_equal(vars(made), vars(plain))


def test_what_the_function_raises_comes_first_and_what_it_stores_before_stays() -> None:
    model = Model()
    program = jit(model.store_and_fail)
    for x in (X, X + 1.0):
        with pytest.raises(RuntimeError, match="the user's"):
            program(x)
        np.testing.assert_array_equal(model.h, x)


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

    state = State(np.ones(3))
    with pytest.warns(funcad.NotCompiledWarning, match=r"\.h is stored, at .*\(step\)"):
        state.step(X)
    np.testing.assert_array_equal(state.h, 1.0 + X)


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
def test_a_generator_that_moves_moves_at_each_call(name: str) -> None:
    f = _DRAWS[name]
    held = getattr(f, "__self__", None)
    generators = [_RNG, _LIST[0], *([held.rng] if held is not None else [])]

    def read() -> list[Any]:
        return [g.bit_generator.state for g in generators] + [_STATE.get_state(), _PYTHON.getstate(), random.getstate()]

    def write(state: list[Any]) -> None:
        for g, s in zip(generators, state):
            g.bit_generator.state = s
        _STATE.set_state(state[-3]), _PYTHON.setstate(state[-2]), random.setstate(state[-1])

    before = read()
    wanted = [f(X) for _ in range(4)]
    write(before)
    with pytest.warns(funcad.NotCompiledWarning, match="generator") if name == "shuffle" else nullcontext():
        program = jit(f)
        found = [program(X) for _ in range(4)]
    np.testing.assert_array_equal(found, wanted)


_DRAWING = {
    "a generator": "rng.normal()",
    "a generator in an object": "held.rng.normal()",
    "a method": "draw()",
    "Python's": "random.random()",
    "NumPy's": "np.random.normal()",
}
_ENDS = {  # what a trace cannot do, or nobody can
    "an array that was found": "w[:] -= x",
    "a caught error": "try:\n        w[:] -= x\n    except Exception:\n        u = u * np.nan",
    "an error of the function's own": "x.nowhere",
}


@pytest.mark.parametrize("way", ["jit", "without a source", "in a jitted function", "static"])
@pytest.mark.parametrize("ends", _ENDS)
@pytest.mark.parametrize("draws", _DRAWING)
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_what_was_drawn_before_a_trace_failed_is_drawn_again(draws: str, ends: str, way: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    text = f"def f(x, n=1):\n    u = {_DRAWING[draws]}\n    {_ENDS[ends]}\n    return u + x"
    results = []
    for how in ("plain", way):
        held, rng = Holder(), np.random.default_rng(4)
        random.seed(4), np.random.seed(4)
        names = {"rng": rng, "held": held, "draw": rng.normal, "random": random, "w": np.zeros(3)}
        f = module(text, way != "without a source", **names).f
        if how == "in a jitted function":
            inner = jit(f)
            f = jit(lambda x, inner=inner: inner(x) * 1.0)
        elif how != "plain":
            f = jit(f, static_argnames="n")
        results.append([])
        for _ in range(4):
            try:
                results[-1].append(f(X, n=1) if how == "static" else f(X))
            except AttributeError:
                results[-1].append(X)
        drawn = [rng.normal(), held.rng.normal(), random.random(), np.random.normal()]
        results[-1] += [names["w"], drawn[:3], drawn[1:]]
    np.testing.assert_array_equal(*results)


def test_a_generator_made_inside_is_the_functions_own() -> None:
    f = lambda x: x + np.random.default_rng(5).normal(size=3)
    np.testing.assert_array_equal(jit(f)(X), f(X))


def test_unjitted_functions_draw_as_ever() -> None:
    rng = np.random.default_rng(3)
    first, second = [grad(lambda x: x * rng.normal())(1.0) for _ in range(2)]
    assert first != second
    assert vmap(lambda x: x * 2)(X).shape == (3,)

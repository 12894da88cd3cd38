"""State that jitted functions keep when one is called by another, is large, or grows beyond 64 bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from funcad import grad, hessian, jit, tree, value_and_grad, vjp, vmap
from funcad.errors import NotCompiledWarning
from funcad.jitted import first_calls

X = np.ones(1)


class Filter:
    """A filter of first order, which keeps what it gave."""

    def __init__(self) -> None:
        self.z = np.zeros(1)

    def __call__(self, x: Any) -> Any:
        self.z = 0.5 * self.z + x
        return self.z * 2.0


def as_it_is(f: Any) -> Any:
    return f


def by_closure(o: Filter, jit: Any) -> Any:
    def f(x: Any) -> Any:
        o.z = 0.5 * o.z + x
        return o.z * 2.0

    g = jit(f)
    return jit(lambda x: g(x) * 1.0)


def made_inside(o: Filter, jit: Any) -> Any:
    def f(x: Any) -> Any:
        o.z = 0.5 * o.z + x
        return o.z * 2.0

    return jit(lambda x: jit(f)(x) * 1.0)


def object_itself(o: Filter, jit: Any) -> Any:
    g = jit(o)
    return jit(lambda x: g(x) * 1.0)


def object_made_inside(o: Filter, jit: Any) -> Any:
    return jit(lambda x: jit(o)(x) * 1.0)


def three_deep(o: Filter, jit: Any) -> Any:
    g = jit(o)
    h = jit(lambda x: g(x) * 1.0)
    return jit(lambda x: h(x) + g(x))


def also_read_outside(o: Filter, jit: Any) -> Any:
    g = jit(o)
    return jit(lambda x: o.z + g(x) * 1.0 + o.z)


def also_stored_outside(o: Filter, jit: Any) -> Any:
    def f(x: Any) -> Any:
        o.z = 0.5 * o.z + x
        return o.z * 2.0

    def h(x: Any) -> Any:
        y = jit(f)(x)
        o.z = o.z * 0.9
        return y + jit(f)(y)

    return jit(h)


@pytest.mark.parametrize("make", [
    by_closure, made_inside, object_itself, object_made_inside, three_deep, also_read_outside, also_stored_outside,
], ids=lambda f: f.__name__)  # fmt: skip
def test_arrays_that_are_kept_go_on(make: Callable[..., Any]) -> None:
    mine, plain = Filter(), Filter()
    f, wanted = make(mine, jit), make(plain, as_it_is)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for i in range(7):
            np.testing.assert_allclose(f(X + i), wanted(X + i), rtol=1e-14)
            np.testing.assert_array_equal(mine.z, plain.z)


class Generator:
    """A linear congruential generator of 64 bits."""

    def __init__(self, state: int):
        self.state = state

    def jitter(self, x: Any) -> Any:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return x + self.state / 2**64

    def factorial(self, x: Any) -> Any:
        self.state = self.state * 3
        return x * float(self.state % 1000)


@pytest.mark.parametrize("name", ["jitter", "factorial"])
def test_integers_beyond_64_bits(name: str) -> None:
    mine, plain = Generator(1), Generator(1)
    f, wanted = jit(getattr(mine, name)), getattr(plain, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for _ in range(60):
            assert f(X) == wanted(X) and mine.state == plain.state


class Trained:
    """Parameters in a dict and in nested lists, which steps advance."""

    def __init__(self) -> None:
        self.p = {"w": np.ones((3, 2)), "b": np.zeros(2)}
        self.rows: Any = [np.ones(3), [np.zeros(3)]]


@dataclass
class Parameters:
    w: Any


def loss(p: Any, x: Any) -> Any:
    return np.sum((x @ p["w"] + p["b"]) ** 2)


def by_keys(s: Trained, x: Any) -> Any:
    g = grad(loss)(s.p, x)
    s.p = {k: s.p[k] - 0.1 * g[k] for k in s.p}
    return loss(s.p, x)


def by_items(s: Trained, x: Any) -> Any:
    value, g = jit(value_and_grad(loss))(s.p, x)
    for k, v in s.p.items():
        s.p[k] = v - 0.1 * g[k]
    return value


def by_tree(s: Trained, x: Any) -> Any:
    _, pull = vjp(lambda p: loss(p, x), s.p)
    s.p = tree.map(lambda a, b: a - 0.1 * b, s.p, pull(1.0)[0])
    return x


def by_position(s: Trained, x: Any) -> Any:
    g = grad(lambda rows: np.sum((x @ (rows[0] + rows[1][0])) ** 2))(s.rows)
    s.rows = [s.rows[0] - 0.1 * g[0], [s.rows[1][0] - 0.1 * g[1][0]]]
    return vmap(lambda rows, v: v @ rows[0], in_axes=(None, 0))(s.rows, x)


def by_second_derivatives(s: Trained, x: Any) -> Any:
    h = hessian(loss)(s.p, x)
    s.p = {"w": s.p["w"] - 0.001 * h["w"]["w"][0, 0], "b": s.p["b"]}
    return x


@pytest.mark.parametrize("step", [by_keys, by_items, by_tree, by_position, by_second_derivatives])
def test_steps_of_parameters_that_a_derivative_reads_are_compiled(step: Callable[[Trained, Any], Any]) -> None:
    plain, state, x = Trained(), Trained(), np.full((4, 3), 0.25)
    jitted = jit(lambda x: step(state, x))
    for _ in range(5):
        np.testing.assert_allclose(jitted(x), step(plain, x), rtol=1e-12)
    assert jitted.cache_info().misses <= 2
    for a, b in zip(tree.leaves([state.p, state.rows]), tree.leaves([plain.p, plain.rows])):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_where_such_a_step_is_not_compiled_the_line_is_named() -> None:
    s = Trained()
    s.p = Parameters(np.ones(2))  # type: ignore[assignment]

    @jit
    def step(x: Any) -> Any:
        g = grad(lambda p: np.sum((p.w * x) ** 2))(s.p)
        s.p = Parameters(s.p.w - 0.1 * g.w)
        return x

    with pytest.warns(NotCompiledWarning, match=r"s\.p\.w advances, and Python needs its value, at .*\(step\)"):
        for _ in range(4):
            step(np.ones(2))
    np.testing.assert_allclose(s.p.w, np.full(2, 0.8**4))


class Accumulator:
    """It writes into an array of its own."""

    def __init__(self, n: int):
        self.total = np.zeros(n)

    def add(self, x: Any) -> Any:
        self.total += x
        return self.total.mean()


@pytest.mark.parametrize("n", [100, 200_000])
def test_what_cannot_be_traced_runs_as_it_is_for_arguments_of_any_size(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    f = jit(Accumulator(n).add)
    with pytest.warns(NotCompiledWarning):
        assert [f(np.ones(n)) for _ in range(3)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("n", [10, 200_000])
def test_its_own_error_comes_from_it(n: int) -> None:
    def f(x: Any) -> Any:
        raise TypeError("its own")

    with pytest.raises(TypeError, match="^its own$") as caught:
        jit(f)(np.ones(n))
    assert caught.value.__cause__ is None and caught.value.__context__ is None

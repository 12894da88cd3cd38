"""State that jitted functions keep when one is called by another, is large, or grows beyond 64 bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import jit
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

"""A name that stands for a library's function or module, or for one of Python's, may stand for another at a later call."""

from __future__ import annotations

import gc
import math
import sys
import time
import types
import weakref
from collections.abc import Callable, Iterator
from math import exp
from typing import Any
from unittest import mock

import numpy as np
import numpy as xp
import pytest

from funcad import grad, jit

X = np.arange(1.0, 4.0)
Change = Callable[[str, Any], None]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Change]:
    module = sys.modules[__name__]
    yield lambda name, value: monkeypatch.setattr(module, name, value, raising=False)


def of_a_function(x: Any) -> Any:
    return x * exp(0.5)


def of_a_module(x: Any) -> Any:
    return xp.sin(x) + xp.cos(x)


def of_pythons_own(x: Any) -> Any:
    return x * abs(-2.0)


def of_keywords(x: Any, exp: Any = None, error: Any = None) -> Any:
    return xp.sin(x) * exp + error


def summed(f: Any) -> Any:
    return lambda x: np.sum(f(x))


WAYS: dict[str, tuple[Any, Any]] = {
    "jit": (lambda f: f, jit),
    "jit(grad)": (lambda f: grad(summed(f)), lambda f: jit(grad(summed(f)))),
    "grad(jit)": (lambda f: grad(summed(f)), lambda f: grad(jit(summed(f)))),
}


@pytest.mark.parametrize("calls", [1, 2, 3, 40])
@pytest.mark.parametrize("way", WAYS)
def test_the_name_is_what_it_is_now(way: str, calls: int, names: Change) -> None:
    other = types.ModuleType("other")
    other.sin, other.cos = np.exp, np.tanh  # type: ignore[attr-defined]
    for f, name, values in [
        (of_a_function, "exp", (np.exp2, math.log, math.exp)),
        (of_a_module, "xp", (other, np)),
        (of_pythons_own, "abs", (np.square, abs)),
    ]:
        plain, program = [transform(f) for transform in WAYS[way]]
        for value in values:
            for _ in range(calls):
                np.testing.assert_allclose(program(X), plain(X), rtol=1e-14)
            names(name, value)
        np.testing.assert_allclose(program(X), plain(X), rtol=1e-14)


def test_keywords_of_the_same_name_hide_nothing(names: Change) -> None:
    program = jit(of_keywords)
    for _ in range(5):
        np.testing.assert_allclose(program(X, exp=2.0, error=1.0), np.sin(X) * 2.0 + 1.0)
    names("xp", types.SimpleNamespace(sin=np.cos))
    np.testing.assert_allclose(program(X, exp=2.0, error=1.0), np.cos(X) * 2.0 + 1.0)


def test_a_name_that_is_deleted_is_pythons_error(monkeypatch: pytest.MonkeyPatch) -> None:
    program = jit(of_a_function)
    for _ in range(5):
        program(X)
    with monkeypatch.context() as gone:
        gone.delattr(sys.modules[__name__], "exp")
        with pytest.raises(NameError, match="'exp' is not defined"):
            program(X)
    np.testing.assert_allclose(program(X), X * math.exp(0.5))


def test_a_warm_call_looks_at_names_itself() -> None:
    """Each costs a comparison in the call that is written out, no call of Python's."""
    calls = []
    program = jit(of_a_function)
    for _ in range(40):
        program(2.0)

    def profile(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(profile)
    program(2.0)
    sys.setprofile(None)
    assert calls == ["_call"]


def test_a_vectorized_function_under_its_own_name_is_not_kept_alive() -> None:
    def make() -> tuple[Any, weakref.ref[Any]]:
        def g(v: float) -> float:
            return v * 2.0

        v = np.vectorize(g)
        program = jit(lambda x: x * v(1.0))
        for _ in range(3):
            program(X)
        return program, weakref.ref(g)

    program, held = make()
    np.testing.assert_allclose(program(X), X * 2.0)
    del program
    gc.collect()
    assert held() is None


# -- in the library's own module, as tests exchange a function

INSIDE: dict[str, tuple[Callable[[Any], Any], str, Any]] = {
    "a ufunc": (lambda x: np.sin(x), "numpy.sin", np.cos),
    "a function": (lambda x: x * np.linalg.norm(x), "numpy.linalg.norm", lambda x: 7.0),
    "a module": (lambda x: x * np.linalg.norm(x), "numpy.linalg", types.SimpleNamespace(norm=lambda x: 7.0)),
    "a number": (lambda x: x * math.pi, "math.pi", 3.0),
    "of math": (lambda x: x * math.exp(2.0), "math.exp", math.log),
    "the clock": (lambda x: x * 0.0 + time.time(), "time.time", lambda: 7.0),
    "a draw": (lambda x: x * 0.0 + np.random.normal(), "numpy.random.normal", lambda: 7.0),
    "Python's own": (lambda x: x * abs(-2.0), "builtins.abs", lambda x: 7.0),
    "with a door": (lambda x: np.array([x[0], 2.0]), "numpy.array", lambda x: np.ones(2)),
}


@pytest.mark.parametrize("calls", [1, 2, 40])
@pytest.mark.parametrize("name", INSIDE)
def test_a_librarys_own_name_is_what_it_is_now(name: str, calls: int) -> None:
    f, at, other = INSIDE[name]
    g = jit(f)
    for _ in range(calls):
        before = g(X)
    with mock.patch(at, other):
        np.testing.assert_array_equal(g(X), f(X))
    again = g(X)
    assert again.shape == before.shape
    if name not in ("the clock", "a draw"):
        np.testing.assert_array_equal(again, before)

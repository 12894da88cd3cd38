"""What is said of functions that are not compiled, and what stays as it is because the user says so."""

from __future__ import annotations

import collections
import os
import types
import warnings
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import NotCompiledWarning, grad, jit, vmap
from funcad.configuration import config

X = np.array([1.0, 2.0, 3.0])


def clocked(x: Any) -> Any:
    return x * len(os.urandom(2))


def test_it_is_said_once_at_the_users_line_after_the_result() -> None:
    log: list[int] = []

    def f(x: Any) -> Any:
        log.append(1)
        return clocked(x)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for g in (jit(f), jit(lambda x: f(x))):  # of one reason, once
            for _ in range(3):
                np.testing.assert_array_equal(g(X), X * 2.0)
    assert [(w.filename, w.category) for w in said] == [(__file__, NotCompiledWarning)]
    text = str(said[0].message)
    assert text.startswith("jit of f is not compiled: os.urandom gives other bytes at each call, at ")
    assert "test_not_compiled.py:" in text and "(clocked)" in text and "Remedy: pass what changes as an argument" in text
    assert len(log) == 6


def test_an_error_of_the_warning_comes_after_the_stores() -> None:
    o = types.SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        o.n += 1
        return x * len(os.urandom(2))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NotCompiledWarning, match="urandom"):
            jit(f)(X)
    assert o.n == 1


@pytest.mark.parametrize("how", ["setting", "option"])
def test_the_policy(how: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with config.set(not_compiled="ignore" if how == "setting" else "raise"):
            g = jit(clocked) if how == "setting" else jit(clocked, not_compiled="ignore")
            np.testing.assert_array_equal(g(X), X * 2.0)
    with config.set(not_compiled="raise" if how == "setting" else "warn"):
        g = jit(clocked) if how == "setting" else jit(clocked, not_compiled="raise")
        for _ in range(2):
            with pytest.raises(NotCompiledWarning, match="urandom"):
                g(X)
    with pytest.raises(ValueError, match="not_compiled must be 'warn' or 'ignore' or 'raise', got 'maybe'"):
        jit(clocked, not_compiled="maybe")


def test_nothing_is_lowered() -> None:
    for ask in (jit(clocked).lower, jit(clocked).source, jit(clocked).profile):
        with pytest.raises(NotCompiledWarning, match="urandom"):
            ask(X)


def test_transforms_of_it_and_functions_around_it_are_right() -> None:
    with pytest.warns(NotCompiledWarning):
        g = jit(clocked)
        np.testing.assert_array_equal(grad(lambda x: np.sum(g(x)))(X), np.full(3, 2.0))
        np.testing.assert_array_equal(vmap(g)(X), X * 2.0)
        np.testing.assert_array_equal(jit(lambda x: g(x) + 1.0)(X), X * 2.0 + 1.0)
        np.testing.assert_array_equal(jit(grad(lambda x: np.sum(g(x))))(X), np.full(3, 2.0))


def test_clearing_forgets_it() -> None:
    o = types.SimpleNamespace(call=lambda: 0.0 * len(os.urandom(2)))
    f = jit(lambda x: x + o.call())
    with pytest.warns(NotCompiledWarning):
        f(X)
    o.call = lambda: 1.0
    f.clear_cache()
    np.testing.assert_array_equal(f(X), X + 1.0)
    assert f.cache_info().currsize == 1


def test_a_constant_stays_as_it_is() -> None:
    table, o = {"rate": 2.0, "other": 1.0}, types.SimpleNamespace(k=1.0, w=np.ones(3), deep=[1.0, 2.0])

    def f(x: Any) -> Any:
        return x * funcad.constant(table["rate"]) * table["other"]

    def g(x: Any) -> Any:
        held = funcad.constant(o)
        return x * held.k + sum(held.deep)

    jitted, other = jit(f), jit(g)
    jitted(X), other(X)
    table["rate"], o.k = 5.0, 7.0
    o.deep[0] = 3.0
    np.testing.assert_array_equal(jitted(X), X * 2.0)
    np.testing.assert_array_equal(other(X), X + 3.0)
    assert jitted.cache_info().misses == other.cache_info().misses == 1
    table["other"] = 3.0
    np.testing.assert_array_equal(jitted(X), X * 15.0)  # what is no constant has changed, so that f is traced again
    assert funcad.constant(o) is o
    np.testing.assert_array_equal(grad(lambda x: np.sum(funcad.constant(x) * x))(X), 2.0 * X)


def test_what_is_read_elsewhere_is_no_constant() -> None:
    table = {"rate": 2.0}
    f = jit(lambda x: x * table["rate"] + funcad.constant(table["rate"]))
    f(X)
    table["rate"] = 3.0
    np.testing.assert_array_equal(f(X), X * 3.0 + 3.0)


def test_what_turns_up_on_a_later_path_is_said_then() -> None:
    it = iter(range(100))

    def f(x: Any) -> Any:
        if x > 0:
            return x * 2.0
        return x * next(it)

    program = jit(f)
    for _ in range(4):  # also by a call that is written out
        assert program(1.0) == 2.0
    with pytest.warns(NotCompiledWarning, match="closure variable it is an iterator"):
        assert [float(program(-1.0)) for _ in range(3)] == [0.0, -1.0, -2.0]
    assert program(1.0) == 2.0


def test_the_line_that_changes_something_is_named() -> None:
    """Not the line of the caller, though the change is found when the function has returned."""
    recent = collections.deque([1.0, 2.0])

    def f(x: Any) -> Any:
        recent.append(3.0)
        return x

    jitted = jit(f)
    with pytest.warns(NotCompiledWarning, match=r"a deque, is changed, at .*test_not_compiled\.py:\d+ \(f\)"):
        for _ in range(3):
            jitted(1.0)
    assert list(recent) == [1.0, 2.0, 3.0, 3.0, 3.0]


LOOKS = {
    "lower": lambda f, path: f.lower(X),
    "source": lambda f, path: f.source(X),
    "export": lambda f, path: f.export(path / "text.py", X),
    "export_c": lambda f, path: f.export_c(path / "text", X),
}
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("some", [lambda x, calls: next(calls), lambda x, calls: next(calls) if x[0] > 0.0 else 1.0])
def test_who_asks_for_a_program_is_told_why_there_is_none(look: str, some: Any, tmp_path: Any) -> None:
    calls = iter([2.0] * 9)
    f = jit(lambda x: x * some(x, calls))
    for _ in range(3):  # the second function comes to it in calls alone
        f(X)
    reason = f.explain(X).reason
    with pytest.raises(NotCompiledWarning) as told:
        LOOKS[look](f, tmp_path)
    text = str(told.value)
    assert reason.rstrip(".") in text and "Remedy: " in text and "guards" not in text


@pytest.mark.parametrize("look", LOOKS)
def test_who_asks_for_a_program_of_paths_is_told_where_python_asks(look: str, tmp_path: Any) -> None:
    f = jit(lambda x: x if x[0] > 0.0 else -x)
    for _ in range(3):
        f(X)
    with pytest.raises(funcad.errors.PathError, match=r"test_not_compiled\.py:(.|\n)*Remedy: ") as told:
        LOOKS[look](f, tmp_path)
    assert "guards" not in str(told.value)

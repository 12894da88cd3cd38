"""Context variables under jit: read at each call; set and set back inside a call; refused where others would see it."""

from __future__ import annotations

import contextvars
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from funcad import NotCompiledWarning, ShapeDtypeStruct, grad, jit, pure_callback

SCALE: contextvars.ContextVar[Any] = contextvars.ContextVar("SCALE", default=2.0)
DEPTH: contextvars.ContextVar[Any] = contextvars.ContextVar("DEPTH")


@contextmanager
def scaled(by: Any) -> Iterator[None]:
    token = SCALE.set(SCALE.get() * by)
    try:
        yield
    finally:
        SCALE.reset(token)


def inner(x: Any) -> Any:
    return x * SCALE.get() + DEPTH.get(0.5)


def within(x: Any) -> Any:
    with scaled(3.0):
        y = inner(x)
        with scaled(x):
            z = inner(x)
    return y + z + inner(x)


def nothing_before(x: Any) -> Any:
    token = DEPTH.set(x)
    y = inner(x) + DEPTH.get()
    DEPTH.reset(token)
    return y + inner(x)


def twice(x: Any) -> Any:
    y = x
    for by in (1.5, 2.5):
        token = SCALE.set(by)
        y = inner(y)
        SCALE.reset(token)
    return y


def by_error(x: Any) -> Any:
    try:
        with scaled(7.0):
            x = inner(x)
            raise KeyError("mine")
    except KeyError:
        return inner(x)


COMPILED = [within, nothing_before, twice, by_error]


@pytest.mark.parametrize("f", COMPILED)
def test_what_is_set_back_stays_compiled(f: Any) -> None:
    jitted = jit(f, not_compiled="raise")
    for scale in (2.0, 2.0, 5.0, 5.0, 2.0):
        token = SCALE.set(scale)
        for x in (1.5, -2.0):
            np.testing.assert_allclose(jitted(x), f(x), rtol=1e-15)
        SCALE.reset(token)
    for depth in (1.0, 1.0, 4.0):
        token = DEPTH.set(depth)
        np.testing.assert_allclose([jitted(3.0), grad(jitted)(3.0)], [f(3.0), grad(f)(3.0)], rtol=1e-15)
        DEPTH.reset(token)
    assert SCALE.get() == 2.0 and DEPTH.get(None) is None
    assert jitted.cache_info().misses <= 6


def test_a_default_of_get_and_a_variable_that_is_set_later() -> None:
    f = jit(lambda x: x + DEPTH.get(0.5))
    assert [f(1.0), f(1.0)] == [1.5, 1.5] and f.cache_info().misses == 1
    token = DEPTH.set(3.0)
    assert [f(1.0), f(1.0)] == [4.0, 4.0]
    DEPTH.reset(token)
    assert f(1.0) == 1.5


def stays_set(x: Any) -> Any:
    SCALE.set(SCALE.get() + 1.0)
    return x * SCALE.get()


def tells_the_old(x: Any) -> Any:
    token = SCALE.set(4.0)
    SCALE.reset(token)
    return x * (1.0 if token.old_value is contextvars.Token.MISSING else 2.0)


def is_read_by_a_callback(x: Any) -> Any:
    with scaled(3.0):
        return pure_callback(lambda v: v * SCALE.get(), ShapeDtypeStruct((), np.float64), x)


@pytest.mark.parametrize("f", [stays_set, tells_the_old, is_read_by_a_callback])
def test_what_others_would_see_runs_un_jitted(f: Any) -> None:
    def all_of(f: Any) -> list[Any]:
        found = []
        for _ in range(4):
            found += [float(f(np.float64(2.0))), SCALE.get()]
        return found

    jitted = jit(f)
    with pytest.warns(NotCompiledWarning):
        found = contextvars.copy_context().run(all_of, jitted)
    assert found == contextvars.copy_context().run(all_of, f)
    assert SCALE.get() == 2.0


def test_a_token_from_before_the_call_is_not_used_up_by_a_trace() -> None:
    def run() -> list[Any]:
        token = SCALE.set(9.0)
        f = jit(lambda x: (SCALE.reset(token), x * SCALE.get())[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotCompiledWarning)
            with pytest.raises(NotCompiledWarning, match="is set back to what it was before"):
                f.lower(1.0)
            return [SCALE.get(), f(1.0), SCALE.get()]

    assert contextvars.copy_context().run(run) == [9.0, 2.0, 2.0]


def test_threads_have_variables_of_their_own() -> None:
    f, found = jit(within), {}

    def run(scale: float) -> None:
        SCALE.set(scale)
        found[scale] = [f(1.5) for _ in range(50)]

    threads = [threading.Thread(target=run, args=(float(i),)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for scale, values in found.items():
        token = SCALE.set(scale)
        np.testing.assert_allclose(values, within(1.5))
        SCALE.reset(token)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="tokens are context managers from Python 3.14 on")
def test_a_token_as_a_manager() -> None:
    def f(x: Any) -> Any:
        with SCALE.set(x):
            y = inner(x)
        return y + inner(x)

    jitted = jit(f, not_compiled="raise")
    assert [jitted(v) for v in (1.0, 2.0, 3.0)] == [f(v) for v in (1.0, 2.0, 3.0)]

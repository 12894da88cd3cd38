"""`np.errstate(...="raise")` in functions that are traced once: their `try` is over when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.errors import FuncadError

X = np.array([1.0, -2.0])


def logarithm(x: Any) -> Any:
    try:
        with np.errstate(invalid="raise"):
            return np.log(x)
    except FloatingPointError:
        return 0.0 * x


def catches_all(x: Any) -> Any:
    try:
        with np.errstate(invalid="raise"):
            return np.log(x)
    except Exception:
        return 0.0 * x


def _custom(f: Any) -> Any:
    made = fc.custom_jvp(f)
    made.defjvp(lambda primals, tangents: fc.jvp(f, primals, tangents))
    return made


BODIES = {
    "map": lambda f: (lambda x: fc.map(f, x), X),
    "scan": lambda f: (lambda x: fc.scan(lambda c, v: (c, f(v)), 0.0, x)[1], X),
    "grad of scan": lambda f: (fc.grad(lambda x: np.sum(fc.scan(lambda c, v: (c, f(v)), 0.0, x)[1])), X),
    "fori_loop": lambda f: (lambda x: fc.fori_loop(0, 2, lambda i, c: f(c), x), -2.0),
    "while_loop": lambda f: (lambda x: fc.while_loop(lambda c: f(c) > 1.0, lambda c: c - 1.0, x), -2.0),
    "cond of lanes": lambda f: (fc.vmap(lambda x: fc.cond(x < 9.0, f, f, x)), X),
    "switch of lanes": lambda f: (lambda x: fc.vmap(lambda v: fc.switch(np.int64(0) + (v > 9.0), [f, f], v))(x), X),
    "custom_jvp of lanes": lambda f: (fc.vmap(_custom(f)), X),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("f", [logarithm, catches_all])
@pytest.mark.parametrize("where", BODIES)
def test_a_body_that_is_to_raise_is_refused(where: str, f: Any, jitted: bool) -> None:
    g, x = BODIES[where](f)
    g = fc.jit(g, not_compiled="ignore") if jitted else g
    for _ in range(3):
        with pytest.raises(FuncadError, match=r"(?s)test_raising_modes.*Remedy: funcad.cond"):
            g(x)


@pytest.mark.parametrize("jitted", [False, True])
def test_derivatives_of_checkpoint_run_the_function_itself(jitted: bool) -> None:
    g = fc.value_and_grad(fc.checkpoint(logarithm))
    g = fc.jit(g, not_compiled="ignore") if jitted else g
    for _ in range(3):
        assert [float(v) for v in g(-2.0)] == [0.0, 0.0]
        assert [float(v) for v in g(1.0)] == [0.0, 1.0]


def test_what_is_set_around_the_call_is_no_reason() -> None:
    def step(c: Any, x: Any) -> Any:
        with np.errstate(over="ignore"):
            return c, np.log(x)

    with np.errstate(all="raise"):
        assert fc.scan(step, 0.0, X[:1])[1] == [0.0]
        assert float(fc.grad(fc.checkpoint(np.log))(2.0)) == 0.5
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(fc.scan(step, 0.0, X)[1], [0.0, np.nan])

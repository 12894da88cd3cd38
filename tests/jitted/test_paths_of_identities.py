"""`x is True` and `case False`: Python compares truths by identity, which no traced value can answer; so these are read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import checkpoint, grad, hessian, jit, vmap


def match_case(x: Any, flag: bool) -> Any:
    match x > 2:
        case True:
            return x**2
        case _:
            return x**3 if flag else -x


def compared(x: Any, flag: bool) -> Any:
    big = x > 2
    return x**2 if big is True else x**3 if flag is not False else -x


def option(x: Any, flag: bool) -> Any:
    return x**2 if flag is True else x**3


def called(x: Any, flag: bool) -> Any:
    return option(x, flag) + option(x, x < 1)


def beside_a_loop(x: Any, flag: bool) -> Any:
    turned, _ = funcad.lax.scan(lambda c, _: (np.where(c > 2, c * 2, c * 3), None), x, None, length=3)
    return turned if flag is True else -turned


PROGRAMS = [match_case, compared, option, called, beside_a_loop]
HOWS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: (f, jit(f)),
    "jit of grad": lambda f: (grad(f), jit(grad(f))),
    "grad of jit": lambda f: (grad(f), grad(jit(f))),
    "jit of hessian": lambda f: (hessian(f), jit(hessian(f))),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_answers_are_those_of_python(f: Any, how: str) -> None:
    plain, transformed = HOWS[how](f)
    for _ in range(2):
        for x in (0.5, 1.5, 3.0):
            for flag in (True, False):
                np.testing.assert_allclose(transformed(x, flag), plain(x, flag), rtol=1e-12)


def test_an_option_that_is_not_mapped() -> None:
    x = np.array([0.5, 3.0])
    for flag in (True, False):
        assert grad(checkpoint(option))(3.0, flag) == grad(option)(3.0, flag)
        expected = [option(v, flag) for v in x]
        np.testing.assert_array_equal(vmap(option, in_axes=(0, None))(x, flag), expected)
        np.testing.assert_array_equal(jit(vmap(functools.partial(option, flag=flag)))(x), expected)
        np.testing.assert_allclose(vmap(grad(option), in_axes=(0, None))(x, flag), [grad(option)(v, flag) for v in x])


def test_truths_that_nobody_compares_stay_traced() -> None:
    f = jit(lambda x, flag: np.where(flag, x, -x) + np.where(x > 1, 1.0, 2.0))
    assert f(3.0, True) == 4.0 and f(3.0, False) == -2.0
    assert "where" in f.source(3.0, True)  # which is refused where there are paths


def test_a_captured_truth_that_changes() -> None:
    options = {"flag": True}
    f = jit(lambda x: x * 2 if options["flag"] is True else x * 3)
    for k in range(9):
        options["flag"] = bool(k % 3)
        assert f(3.0) == (6.0 if k % 3 else 9.0)

"""What NumPy copies is written alone, and what it gives as a view is written with its base: under every transformation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, scan, value_and_grad, vmap

X = np.array([1.5, -0.7, 2.2])


def third(f: Callable[..., Any], x: Any) -> Any:
    return [f(x) for _ in range(3)][2]


WAYS: dict[str, Callable[[Any], Any]] = {  # the value, or the value and the gradient
    "jvp": lambda f: jvp(f, (X,), (X,))[0],
    "jvp of grad": lambda f: jvp(value_and_grad(f), (X,), (X,))[0],
    "grad": lambda f: value_and_grad(f)(X),
    "vmap": lambda f: vmap(f)(X[None])[0],
    "vmap of grad": lambda f: [part[0] for part in vmap(value_and_grad(f))(X[None])],
    "scan": lambda f: scan(lambda c, x: (c + f(x), None), 0.0, X[None])[0],
    "jit at once": lambda f: jit(f)(X),
    "jit": lambda f: third(jit(f), X),
    "jit of grad at once": lambda f: jit(value_and_grad(f))(X),
    "jit of grad": lambda f: third(jit(value_and_grad(f)), X),
}


def slopes(f: Callable[[Any], Any]) -> np.ndarray:
    return np.array([(f(X + 1e-4 * e) - f(X - 1e-4 * e)) / 2e-4 for e in np.eye(len(X))])


def check(f: Callable[[Any], Any], way: str) -> None:
    found = WAYS[way](f)
    value, gradient = (found, None) if "grad" not in way else found
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    if gradient is not None:
        np.testing.assert_allclose(gradient, slopes(f), rtol=1e-6, atol=1e-6)


# -- of numbers

NUMBERS = {
    "sum": np.sum,
    "element": lambda x: x[0],
    "max": lambda x: x.max(),
    "product": lambda x: x @ x,
    "norm": np.linalg.norm,
    "in an operator": lambda x: x[1] * 2.0,
}
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "array": np.array,
    "asarray": np.asarray,
    "copy": np.copy,
    "contiguous": np.ascontiguousarray,
    "if needed": lambda s: np.array(s, copy=None),
    "copy.copy": lambda s: np.array(copy.copy(np.array(s))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", ARRAYS)
@pytest.mark.parametrize("number", NUMBERS)
def test_an_array_of_a_number_leaves_the_number_as_it_is(number: str, make: str, way: str) -> None:
    def f(x: Any) -> Any:
        s = NUMBERS[number](x)
        array, old = ARRAYS[make](s), s
        array *= 2.0
        s += 1.0
        return np.sum(array) * s * old

    check(f, way)


def test_an_argument_that_is_a_number() -> None:
    def f(s: Any) -> Any:
        array = np.array(s)
        array *= 2.0
        return array * s

    for s in (1.5, np.float64(1.5)):
        assert jvp(f, (s,), (1.0,)) == (4.5, 6.0) and grad(f)(s) == 6.0 and third(jit(grad(f)), s) == 6.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("another", [copy.copy, copy.deepcopy])
def test_a_copy_of_what_was_written(another: Callable[[Any], Any], way: str) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[0] = x[1] * 2.0
        z = another(y)
        z[1] = x[0] * 5.0
        y[2] = x[0] * 7.0
        return np.sum(y * y) + np.sum(z * z * x)

    check(f, way)

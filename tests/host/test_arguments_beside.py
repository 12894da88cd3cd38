"""Arrays beside those along which a function is differentiated: it writes into copies, un-jitted and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad as fc

ONES = np.ones(3)


def _helper(z: Any) -> None:
    z[0] = 5.0


def in_place(y: Any, z: Any) -> Any:
    z *= 2.0
    return np.sum(y * z)


def element(y: Any, z: Any) -> Any:
    z[0] = 7.0
    return np.sum(y * z)


def by_a_helper(y: Any, z: Any) -> Any:
    _helper(z)
    return np.sum(y * z)


def by_an_inner_function(y: Any, z: Any) -> Any:
    def write() -> None:
        z[1:] += 1.0

    write()
    return np.sum(y * z)


def by_out(y: Any, z: Any) -> Any:
    np.multiply(z, 3.0, out=z)
    return np.sum(y * z)


def by_method(y: Any, z: Any) -> Any:
    z.fill(4.0)
    return np.sum(y * z)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: fc.grad(f)(ONES, x),
    "value_and_grad": lambda f, x: fc.value_and_grad(f)(x * 1.0, x),
    "by name": lambda f, x: fc.grad(f)(ONES, z=x),
    "has_aux": lambda f, x: fc.grad(lambda y, z: (f(y, z), z), has_aux=True)(ONES, x),
    "jacobian": lambda f, x: fc.jacobian(f)(ONES, x),
    "jacfwd": lambda f, x: fc.jacfwd(f)(ONES, x),
    "hessian": lambda f, x: fc.hessian(f)(ONES, x),
    "vjp": lambda f, x: fc.vjp(f, ONES, x)[0],
    "vmap": lambda f, x: fc.vmap(f, in_axes=(0, None))(np.ones((2, 3)), x),
    "of what is made inside": lambda f, x: [(fc.grad(f)(ONES, w), w + 0.0) for w in [x * 3.0]],
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [in_place, element, by_a_helper, by_an_inner_function, by_out, by_method])
def test_the_callers_array_stays(f: Any, way: str, jitted: bool) -> None:
    call = lambda x: (WAYS[way](f, x), x + 0.0)
    x = np.array([1.0, 2.0, 3.0])
    expected = fc.tree.leaves(call(x.copy()))
    g = fc.jit(call) if jitted else call
    for _ in range(4):
        found = fc.tree.leaves(g(x))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(found[-1], x)

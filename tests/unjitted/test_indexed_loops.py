"""Un-jitted loops that read `x[i]`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.primitives.basic_indexing import basic_update

RNG = np.random.default_rng(11)
N = 200


def chain(x: Any) -> Any:
    s = 0.1
    for i in range(1, N):
        s = np.sin(s) * 0.9 + x[i] * s * 0.1 - x[i - 1]
    return s


def backwards(x: Any) -> Any:
    s = 0.1
    for i in range(1, N):
        s = np.sin(s) * 0.9 + x[-i] * s * 0.1 + x[np.int64(i)]
    return s


def repeated(x: Any) -> Any:
    s = 0.1
    for i in range(N):
        s = np.sin(s) * 0.9 + x[i % 3] ** 2 * 0.1
    return s


def of_rows(x: Any) -> Any:
    s = np.zeros(2)
    for i in range(N // 2):
        s = np.tanh(s * 0.9 + x.reshape(-1, 2)[i] * 0.3)
    return np.sum(s)


def squared(x: Any) -> Any:
    """Of absolute values, the squares are known exactly."""
    y, s = np.abs(x), 0.1
    for i in range(N):
        s = s * 0.9 + y[i] ** 2
    return s


@pytest.mark.share(10)
@pytest.mark.parametrize("f", [chain, backwards, repeated, of_rows, squared])
def test_gradients(f: Any) -> None:
    x = RNG.normal(size=N)
    x[::7] = 0.0
    expected = funcad.jit(funcad.grad(f))(x)
    for _ in range(4):
        np.testing.assert_allclose(funcad.grad(f)(x), expected, rtol=1e-11, atol=1e-12)
    v = RNG.normal(size=N)
    np.testing.assert_allclose(funcad.vjp(f, x)[1](2.0)[0], 2.0 * expected, rtol=1e-11, atol=1e-12)
    if f is not squared:
        product = funcad.jit(lambda x: funcad.hvp(f, (x,), (v,)))(x)
        np.testing.assert_allclose(funcad.hvp(f, (x,), (v,)), product, rtol=1e-8, atol=1e-10)


def test_bounds_are_numpys() -> None:
    caught = []

    def f(x: Any) -> Any:
        s = 0.1
        for i in range(N + 2):
            try:
                s = np.sin(s) * 0.9 + x[i]
            except IndexError as error:
                caught.append(str(error))
        return s

    funcad.grad(f)(RNG.normal(size=N))
    with pytest.raises(IndexError) as numpys:
        np.zeros(N)[N]
    assert len(caught) == 2 and caught[0] == str(numpys.value)


def test_large_arrays() -> None:
    x = RNG.normal(size=20_000)
    expected = np.zeros(20_000)
    expected[:N] = 2.0 * x[:N] + np.cos(x[:N])

    def f(x: Any) -> Any:
        s = 0.0
        for i in range(N):
            s = s + x[i] * x[i] + np.sin(x[i])
        return s

    for _ in range(3):
        np.testing.assert_allclose(funcad.grad(f)(x), expected, rtol=1e-12)


def test_writes_at_an_index_with_a_new_axis() -> None:
    """`x[1, None] = u`, of which the cotangents of lanes are recorded."""
    def f(x: Any, u: Any) -> Any:
        return basic_update(x, u, (1, None, (0, 3, 1)))

    def back(x: Any, u: Any, c: Any) -> Any:
        return funcad.vjp(f, x, u)[1](c)

    x, u, c = [RNG.normal(size=(2, *shape)) for shape in ((2, 3), (1, 3), (2, 3))]
    of_x, of_u = funcad.vmap(back)(x, u, c)
    np.testing.assert_array_equal(of_x[:, 0], c[:, 0])
    np.testing.assert_array_equal(of_x[:, 1], 0.0)
    np.testing.assert_array_equal(of_u, c[:, 1:])

"""Paths of functions of a device's arrays: what they capture is moved, as in programs that ask for no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad.numpy as fnp
from funcad import grad, jit, value_and_grad
from funcad.lax import dot_general
from funcad.nn import clamp
from tests.standin import DeviceArray, registered, to_device, to_host

WEIGHTS = np.array([1.0, -2.0, 3.0])


def weighted(x: Any) -> Any:
    y = x * WEIGHTS
    return np.sin(y) + WEIGHTS if np.sum(y) > 0 else y - WEIGHTS


def counted(x: Any) -> Any:
    n = int(np.max(x)) + 2
    return fnp.at(np.zeros(n))[np.array([0, 1, 0])].add(x * np.ones(3))


def growing(x: Any) -> Any:
    y = np.zeros(3)
    while np.sum(y) < 10.0:
        y = y + x * np.arange(1.0, 4.0)
    return y


def binned(x: Any) -> Any:
    return np.bincount(np.abs(x).astype(np.int64), minlength=5) * np.arange(5)


@pytest.mark.parametrize("f", [weighted, counted, growing, binned])
def test_captured_arrays_follow(f: Any) -> None:
    jitted = jit(f)
    with registered():
        for host in (np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.5, 4.0])) * 3:
            found = jitted(to_device(host))
            assert type(found) is DeviceArray
            np.testing.assert_allclose(to_host(found), f(host), rtol=1e-14)


def test_gradients_and_changed_contents() -> None:
    weights = WEIGHTS.copy()
    f = lambda x: np.sum(x * x * weights) if np.sum(x * weights) > 0 else np.sum(x)
    host = np.array([1.0, 0.5, 2.0])
    with registered():
        g = jit(value_and_grad(f))
        for _ in range(4):
            weights *= 1.5
            value, slope = g(to_device(host))
            np.testing.assert_allclose(to_host(slope), 2.0 * host * weights)
            np.testing.assert_allclose(float(value), np.sum(host * host * weights))
        np.testing.assert_allclose(to_host(grad(jit(f))(to_device(host))), 2.0 * host * weights)
    np.testing.assert_allclose(g(-host)[1], np.ones(3))


def masked(x: Any) -> Any:
    return x[x > 1.5] * 2.0


def asked(x: Any) -> Any:
    y = x * float(x[0]) if x[1].item() > 0.6 else x
    return y[np.nonzero(x)[0]] * [1.0, 2.0, 3.0, 4.0, 5.0][np.argmax(x)] + complex(x[2] * 1j).imag


def unique(x: Any) -> Any:
    return np.repeat(np.unique(x), 2)


@pytest.mark.parametrize("f", [masked, asked, unique, np.argwhere])
def test_numbers_and_indices_are_asked_of_the_device(f: Any) -> None:
    jitted = jit(f)
    with registered():
        for host in (np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.5, 4.0]), np.array([1.0, 0.0, 3.0])) * 3:
            found = jitted(to_device(host))
            assert type(found) is DeviceArray
            np.testing.assert_allclose(to_host(found), f(host), rtol=1e-14)


def test_a_number_of_the_host_is_compared() -> None:
    f = lambda t, xs: np.interp(t, xs, xs * 1j) + (np.sum(t * np.ones(2)) < xs) + grad(lambda t: np.sum(clamp(xs, 0.5, t)))(t)
    xs = np.array([0.1, 0.7, 1.9, 3.0])
    g = jit(f)
    with registered():
        for _ in range(4):
            np.testing.assert_allclose(to_host(g(1.3, to_device(xs))), f(1.3, xs), rtol=1e-14)


def test_an_outer_product_with_a_number_of_the_host() -> None:
    number = np.float64(2.0)
    f = jit(lambda x: dot_general(number, x, (((), ()), ((), ()))) + x)
    with registered():
        for _ in range(3):
            np.testing.assert_array_equal(to_host(f(to_device(WEIGHTS))), 3.0 * WEIGHTS)

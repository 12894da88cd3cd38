"""What un-jitted gradients of large arrays keep, counted in activations: no more than the linear part of each rule needs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jacobian

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

LAYERS, N = 20, 20_000


def relu(x: Any, scale: float) -> Any:
    for _ in range(LAYERS):
        x = np.maximum(x * scale, 0.0)
    return np.sum(x)


def where(x: Any, scale: float) -> Any:
    for _ in range(LAYERS):
        x = np.where(x > 0.0, x * scale, 0.0)
    return np.sum(x)


def maximum(x: Any, scale: float) -> Any:
    for _ in range(LAYERS):
        x = np.maximum(x, 0.5)
    return np.sum(x * scale)


def exp(x: Any, scale: float) -> Any:
    for _ in range(LAYERS):
        x = np.exp(-x)
    return np.sum(x * scale)


def peak(call: Callable[[], Any]) -> int:
    call()
    call()
    found = []
    for _ in range(3):  # one of them may compile the program, which takes memory, too
        tracemalloc.start()
        call()
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return min(found)


@pytest.mark.parametrize(("f", "activations"), [(relu, 28.0), (where, 7.0), (maximum, 27.0), (exp, 23.5)])
def test_chains(f: Any, activations: float) -> None:
    x = np.linspace(-1.0, 1.0, N)
    found = peak(lambda: grad(f)(x, 1.01)) / x.nbytes
    assert found <= activations


def test_a_network() -> None:
    """Of each layer: the activation, the mask of the next one and the weights' cotangent."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(100, 100)) / 10 for _ in range(LAYERS)]
    x = rng.normal(size=(200, 100))

    def loss(weights: Any) -> Any:
        h = x
        for w in weights:
            h = np.maximum(h @ w, 0.0)
        return np.sum(h * h)

    found = peak(lambda: grad(loss)(weights)) / x.nbytes
    assert found <= 47


def test_a_matrix_that_is_used_often() -> None:
    """An array from outside that is too large to be copied is protected, at each use the same; 300 vectors take three of it."""
    a = np.random.default_rng(0).normal(size=(100, 100)) / 20

    def f(x: Any) -> Any:
        for _ in range(300):
            x = a @ x
        return np.sum(x)

    x = np.ones(100)
    found = peak(lambda: grad(f)(x)) / a.nbytes
    assert found <= 6


def test_a_jacobian_of_many_rows_takes_little_more_than_itself() -> None:
    x = np.linspace(0.5, 1.0, 2_400)
    f = lambda x: np.sin(x) - np.dot(x, x) * x
    assert peak(lambda: jacobian(f)(x)) <= 1.5 * x.size * x.nbytes

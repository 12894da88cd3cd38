"""Reads of a large array in long loops: a chunk's program gives their cotangents, which are added up where they were read."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import funcad

N = 150_000  # more than a program may copy


def summed(x: Any) -> Any:
    s = np.sum(x * x) * 1e-3
    for i in range(200):
        s = s + np.tanh(x[i]) * x[-1 - i]
    return s


def read_again(x: Any) -> Any:
    s = 0.0
    for i in range(200):
        s = s + x[i % 7] * x[i % 3]
    return s


def carried(x: Any) -> Any:
    y, s = x * 2.0, 1.0
    for i in range(200):
        s = s * 0.5 + y[3 * i] * np.sin(x[i])
    return s + y[5]


def slices(x: Any) -> Any:
    s = 0.0
    for i in range(150):
        s = s + x[i : i + 3] @ x[2 * i : 2 * i + 3]
    return s


def with_others(x: Any) -> Any:
    """Each turn reads the whole, too."""
    s = 0.0
    for i in range(100):
        s = s + x[i] * 2.0 + (x @ x if i % 50 == 3 else 0.0)
    return s


def by_arrays(x: Any) -> Any:
    s, places = 0.0, np.arange(3)
    for i in range(150):
        s = s + np.sum(x[places + i]) * x[i]
    return s


def two(x: Any) -> Any:
    m = x.reshape(300, 500)
    s = 0.0
    for i in range(200):
        s = s + m[i, i] * x[i]
    return s


@pytest.mark.share(3)
@pytest.mark.parametrize("f", [summed, read_again, carried, slices, with_others, by_arrays, two])
def test_gradients(f: Any) -> None:
    x = np.cos(np.arange(N) / 7.0)
    direction = np.sin(np.arange(N) * 1.7)
    expected = funcad.jvp(f, (x,), (direction,))[1]
    first = funcad.grad(f)(x)
    for _ in range(3):
        found = funcad.grad(f)(x)
        np.testing.assert_allclose(found, first, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found @ direction, expected, rtol=1e-9)


def test_no_path_leads_to_a_slope_without_bounds() -> None:
    """A NaN of what is read sends the recording the way with masks."""

    def f(x: Any) -> Any:
        s = 0.0
        for i in range(200):
            s = s + np.where(x[i] > 0.0, np.sqrt(x[i]), 0.0)
        return s

    x = np.zeros(N)
    x[:100] = 4.0
    for _ in range(3):
        found = funcad.grad(f)(x)
        np.testing.assert_array_equal(found[:100], 0.25)
        np.testing.assert_array_equal(found[100:], 0.0)


def test_a_row_makes_nothing_that_the_collector_keeps_looking_at() -> None:
    """A list or tuple for each row would be visited by each collection, and there are thousands."""
    counts = []

    def f(x: Any) -> Any:
        s = x
        for i in range(3000):
            s = s * 1.0 + x
            if i in (500, 2500):
                gc.collect()
                counts.append(len(gc.get_objects()))
        return s

    x = np.float64(1.5)
    for _ in range(3):
        funcad.grad(f)(x)
    assert counts[-1] - counts[-2] < 200

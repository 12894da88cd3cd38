"""Slices at starts that a device has computed: nobody waits for them, and the results are NumPy's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, lax, vmap
from funcad.primitives.computed_slices import window_indices_p
from tests import standin
from tests.standin import registered, to_device, to_host

X = np.arange(60.0).reshape(3, 4, 5)


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with registered():
        yield


def both(x: Any, starts: Any, sizes: tuple) -> Any:
    found = lax.dynamic_slice(x, starts, sizes)
    return found, lax.dynamic_update_slice(x, found * 2.0 + 1.0, starts)


@pytest.mark.share(3)
@pytest.mark.parametrize("sizes", [(3, 2, 5), (1, 4, 2), (2, 3, 1), (3, 4, 5), (0, 4, 5), (3, 4, 2)])
@pytest.mark.parametrize("starts", [(0, 1, 2), (-1, -2, -3), (7, 7, 7), (-9, 0, 9)])
def test_slices_at_computed_starts(sizes: tuple, starts: tuple) -> None:
    expected = both(X, starts, sizes)
    x, there = to_device(X), tuple([to_device(np.array(s, np.int32)) for s in starts])
    f = jit(lambda x, starts: both(x, starts, sizes))
    for g in (lambda x, s: both(x, s, sizes), f, f, f):
        for a, b in zip(g(x, there), expected):
            np.testing.assert_array_equal(to_host(a), b)
    weights = np.arange(float(np.prod(sizes))).reshape(sizes)
    slope = lambda x, s: grad(lambda x: np.sum(lax.dynamic_slice(x, s, sizes) * weights + np.sum(x)))(x)
    np.testing.assert_array_equal(to_host(jit(slope)(x, there)), slope(X, starts))
    np.testing.assert_array_equal(to_host(x), X)


def test_nobody_waits() -> None:
    x, k = to_device(X), to_device(np.array(1))
    f = jit(lambda x, k: both(x, (k, 0, k), (1, 4, 2)))
    for _ in range(3):
        f(x, k)
    standin.work = found = Counter()
    try:
        f(x, k)
    finally:
        standin.work = None
    assert not found["waits"] and not found["copies"] and found["calls"]


def test_each_lane_from_its_own_start() -> None:
    starts = np.array([2, -1, 9])
    f = lambda x, k: lax.dynamic_slice(x, (k, 0, 0), (1, 4, 5))
    np.testing.assert_array_equal(
        to_host(vmap(f, in_axes=(None, 0))(to_device(X), to_device(starts))), vmap(f, in_axes=(None, 0))(X, starts)
    )


def test_nobody_writes_over_indices_that_are_one_in_memory() -> None:
    starts = np.array([0, 1]), np.array([1, 2])
    f = jit(lambda *starts: [index * 2 for index in window_indices_p(*starts, sizes=(2, 3), extents=(4, 5))])
    for run in range(4):
        for given in (starts, tuple(map(to_device, starts))):
            rows, columns = [to_host(x) for x in f(*given)]
            np.testing.assert_array_equal(rows[1], [[2, 2, 2], [4, 4, 4]], str(run))
            np.testing.assert_array_equal(columns[0], [[2, 4, 6], [2, 4, 6]], str(run))

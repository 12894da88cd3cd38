"""Sorting on arrays long enough for the quick ways: the same permutations as NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad.primitives.sorting import argsort, searchsorted, sort, sort_many, top_k

RNG = np.random.default_rng(0)
LONG = {
    "distinct": RNG.normal(size=5000),
    "ties": RNG.integers(0, 50, 5000).astype(float),
    "nan": np.where(RNG.random(5000) < 0.01, np.nan, RNG.normal(size=5000)),
    "integers": RNG.permutation(5000),
    "lanes": RNG.normal(size=(3, 2000)),
}


@pytest.mark.parametrize("x", LONG.values(), ids=LONG.keys())
def test_long_sorts_are_stable(x):
    axis = x.ndim - 1
    np.testing.assert_array_equal(argsort(x, axis), np.argsort(x, axis=axis, kind="stable"))
    keys = np.where(np.isnan(x), -np.inf, -x)  # NaN is the largest
    descending = np.argsort(keys, axis=axis, kind="stable")
    np.testing.assert_array_equal(argsort(x, axis, descending=True), descending)
    for k in (0, 1, 7, 100, 1900):
        values, positions = top_k(x, k)
        np.testing.assert_array_equal(positions, descending[..., :k])
        np.testing.assert_array_equal(values, np.take_along_axis(x, descending[..., :k], axis=-1))
    columns = x.reshape(-1, 2)
    np.testing.assert_array_equal(argsort(columns, 0), np.argsort(columns, axis=0, kind="stable"))


def test_gradients_follow_the_permutation():
    x, weights = LONG["ties"], RNG.normal(size=5000)
    _, pull = funcad.vjp(lambda x: sort(x, 0), x)
    expected = np.empty(5000)
    expected[np.argsort(x, kind="stable")] = weights
    np.testing.assert_array_equal(pull(weights)[0], expected)
    _, pull = funcad.vjp(lambda x: top_k(x, 3)[0], x)
    expected = np.zeros(5000)
    expected[np.argsort(-x, kind="stable")[:3]] = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(pull(np.array([1.0, 2.0, 3.0]))[0], expected)


def test_sort_many_is_lexicographic():
    a, b, c = RNG.integers(0, 3, 20), RNG.integers(0, 3, 20), RNG.normal(size=20)
    expected = sorted(zip(a, b, c), key=lambda row: row[:2])
    for got, want in zip(sort_many([a, b, c], 0, 2), zip(*expected)):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="num_keys"):
        sort_many([a, b], 0, 3)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="k=4"):
        top_k(np.ones(3), 4)
    with pytest.raises(ValueError, match="side"):
        searchsorted(np.ones(3), np.ones(1), "middle")

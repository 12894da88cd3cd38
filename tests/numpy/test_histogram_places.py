"""Bins of equal widths, found by arithmetic: the counts are NumPy's, also next to the edges."""

from __future__ import annotations

import numpy as np
import pytest

import funcad


@pytest.mark.share(5)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("first", range(5))
def test_counts_are_numpys(first: int, dtype: type) -> None:
    rng = np.random.default_rng(first)
    for turn in range(first, 60, 5):
        bins, scale = int(rng.integers(1, 80)), dtype(10.0 ** rng.integers(-5, 5))
        x = rng.normal(size=int(rng.integers(1, 200))).astype(dtype) * scale
        ends = None
        if turn % 2:
            low, high = np.sort(rng.normal(size=2).astype(dtype)) * scale
            edges = np.linspace(low, high, bins + 1)
            beside = [np.nextafter(edges, dtype(way)) for way in (-np.inf, np.inf)]
            x, ends = np.concatenate([x, edges, *beside, np.array([np.nan, np.inf, -np.inf], dtype)]), (low, high)
        elif turn % 8 == 0:
            x = np.round(x / scale)
        weights = rng.normal(size=x.shape)
        for engine in ("numpy", "native"):
            with funcad.config.set(engine=engine):
                found, edges = funcad.jit(lambda x: np.histogram(x, bins, ends))(x)  # noqa: B023
                by_weight = funcad.jit(lambda x, w: np.histogram(x, bins, ends, weights=w)[0])(x, weights)  # noqa: B023
            np.testing.assert_array_equal(found, np.histogram(x, bins, ends)[0])
            np.testing.assert_allclose(edges, np.histogram(x, bins, ends)[1], rtol=1e-6)
            np.testing.assert_allclose(by_weight, np.histogram(x, bins, ends, weights=weights)[0], atol=1e-12)


def test_in_several_dimensions_and_of_nothing() -> None:
    x = np.random.default_rng(2).normal(size=(300, 2))
    f = lambda x: np.histogramdd(x, (5, np.array([-1.0, 0.0, 2.0])), ((-2.0, 2.0), None))[0]
    np.testing.assert_array_equal(funcad.jit(f)(x), f(x))
    g = lambda x: np.histogram(x, 4)[0]
    for given in (np.zeros(0), np.ones(7), np.arange(9)):
        np.testing.assert_array_equal(funcad.jit(g)(given), g(given))


def test_edges_follow_the_data_and_places_do_not() -> None:
    x, w = np.array([0.1, 0.4, 0.45, 0.9]), np.array([1.0, 2.0, 3.0, 4.0])
    gradient = funcad.grad(lambda w: np.histogram(x, 3, weights=w)[0] @ np.array([1.0, 10.0, 100.0]))(w)
    np.testing.assert_array_equal(gradient, [1.0, 10.0, 10.0, 100.0])
    slopes = funcad.grad(lambda x: np.sum(np.histogram(x, 3)[1] * np.array([1.0, 0.0, 0.0, 2.0])))(x)
    np.testing.assert_allclose(slopes, [1.0, 0.0, 0.0, 2.0])
    with funcad.config.set(engine="numpy"):
        np.testing.assert_array_equal(funcad.jit(lambda x: np.histogram(x, 3, (0.0, 1.0))[0])(x), [1, 2, 1])

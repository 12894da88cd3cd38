"""Sums of many rows by index: NumPy's `add.at`, bit for bit, whichever way they are computed."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad.ops import segment_sum
from funcad.primitives.basic_indexing import scatter

R = np.random.default_rng(0)
SHAPES: list[tuple] = [((3000,), 100, (7,)), ((60, 50), 100, (2, 3)), ((5000,), 1, (2,)), ((4,), 9, (3,))]


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = R.normal(size=shape) + (1j * R.normal(size=shape) if dtype in "FD" else 0.0)
    x = x.astype(dtype)
    x.flat[5], x.flat[9], x.flat[11] = np.nan, np.inf, -0.0
    return x


@pytest.mark.parametrize("dtype", list("fdFD") + ["l"])
@pytest.mark.parametrize("shape, rows, rest", SHAPES)
def test_rows_added_to_zeros_and_to_others(dtype: str, shape: tuple, rows: int, rest: tuple) -> None:
    indices = R.integers(-rows, rows, shape)
    u = R.integers(-9, 9, (*shape, *rest)) if dtype == "l" else numbers((*shape, *rest), dtype)
    for start in (np.zeros((rows, *rest), dtype), np.ones((rows, *rest), dtype), np.full((rows, *rest), -0.0).astype(dtype)):
        expected = start.copy()
        np.add.at(expected, indices, u)
        for given in (u, np.asfortranarray(u)):
            found = scatter(start, given, indices, mode="add")
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    with pytest.raises(IndexError, match="out of bounds"):
        scatter(np.zeros((rows, *rest), dtype), u, np.where(indices == indices.flat[0], rows, indices), mode="add")


def test_two_index_arrays() -> None:
    i, j, u = R.integers(-5, 5, 4000), R.integers(0, 7, 4000), R.normal(size=(4000, 3))
    expected = np.zeros((5, 7, 3))
    np.add.at(expected, (i, j), u)
    assert scatter(np.zeros((5, 7, 3)), u, i, j, mode="add").tobytes() == expected.tobytes()


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("kind", ["i8", "i4", "u1", "u8"])
def test_segments_that_are_none_are_dropped(engine: str, kind: str) -> None:
    ids = R.integers(-3, 12, 3000) if kind[0] == "i" else R.integers(0, 12, 3000)
    x = R.normal(size=(3000, 4))
    expected = np.zeros((9, 4))
    inside = (ids >= 0) & (ids < 9)
    np.add.at(expected, ids[inside], x[inside])
    with funcad.config.set(engine=engine):
        f = funcad.jit(lambda x, i: segment_sum(x, i, num_segments=9))
        for _ in range(3):
            np.testing.assert_allclose(f(x, ids.astype(kind)), expected, rtol=1e-12)
        gradient = funcad.jit(funcad.grad(lambda x, i: np.sum(np.sin(segment_sum(x, i, num_segments=9)))))
        found = gradient(x, ids.astype(kind))
    np.testing.assert_allclose(found[inside], np.cos(expected)[ids[inside]], rtol=1e-9)
    assert not found[~inside].any()

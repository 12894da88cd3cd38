"""Extrema of many small windows: element by element in the NumPy engine's text, and the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, 1.0, -2.0, np.inf, -np.inf, np.nan])


@pytest.mark.share(3)
@pytest.mark.parametrize("extremum", [np.max, np.min])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.uint16, np.int64])
@pytest.mark.parametrize(
    ("shape", "axes", "in_parts"),
    [
        ((3, 12, 2, 12, 2), (2, 4), True),
        ((3, 12, 3, 12, 4), (4, 2), True),
        ((40, 10, 3), (2,), True),
        ((12, 2, 30, 2), (-1,), True),
        ((12, 2, 30, 2), (1,), False),
        ((3, 2, 2, 2, 2), (2, 4), False),
        ((30, 30, 9), (2,), False),
        ((300, 1), (1,), False),
        ((300, 2, 1), (1, 2), True),
    ],
)
def test_windows(shape: tuple, axes: tuple, in_parts: bool, extremum: Any, dtype: Any) -> None:
    x = RNG.choice(SPECIAL if np.dtype(dtype).kind == "f" else np.arange(5), shape).astype(dtype)

    def f(x: Any) -> Any:
        return extremum(x + x, axis=axes)

    with funcad.config.set(engine="numpy"):
        g = funcad.jit(f)
        for _ in range(3):
            np.testing.assert_array_equal(g(x), f(x))
            np.testing.assert_array_equal(g(x[::-1]), f(x[::-1]))
        assert (f"xp.{extremum.__name__}(" not in g.source(x)) == in_parts


def test_operands_stay_as_they_are_and_gradients_share_ties() -> None:
    x = RNG.integers(0, 2, (8, 16, 2, 8, 2)).astype(float)
    before = x.copy()

    def f(x: Any) -> Any:
        return np.sum(np.sin(np.max(x, axis=(2, 4)))), x

    for engine in ("numpy", "interpreter", "auto"):
        with funcad.config.set(engine=engine):
            g = funcad.jit(funcad.value_and_grad(f, has_aux=True))
            for _ in range(3):
                (value, aux), slope = g(x)
                np.testing.assert_array_equal(aux, before)
                np.testing.assert_allclose(value, f(x)[0], rtol=1e-12)
                np.testing.assert_allclose(slope, funcad.grad(lambda x: f(x)[0])(x), rtol=1e-12)
    np.testing.assert_array_equal(x, before)

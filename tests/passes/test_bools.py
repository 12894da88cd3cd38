"""Masks that became numbers on their way stay bools, and are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import lax
from funcad.ir.interpret import eval_jaxpr
from funcad.passes.bools import bools
from funcad.passes.redundancy import dce
from tests.whole.array_kernels import KERNELS

RNG = np.random.default_rng(7)


def names(jaxpr: Any) -> list[str]:
    return [e.primitive.name for e in jaxpr.equations]


def rewritten(f: Callable[..., Any], *args: Any) -> Any:
    """The program of f with bools; it computes the same bits."""
    closed = funcad.make_jaxpr(f)(*args)
    found = dce(bools(closed.jaxpr))
    values = [*closed.consts, *args]
    for one, other in zip(eval_jaxpr(closed.jaxpr, values), eval_jaxpr(found, values), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype and np.asarray(one).tobytes() == np.asarray(other).tobytes()
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_moves_writes_and_sums_of_bools(dtype: Any) -> None:
    def f(b: Any, u: Any, at: Any) -> Any:
        x = b.astype(dtype).T
        x = lax.dynamic_update_slice(x, np.zeros((1, 4), dtype), (at, 0))
        y = lax.dynamic_update_slice(x, u.astype(dtype), (0, at))
        part = lax.dynamic_slice(x, (at, 0), (2, 4))
        return y != 0.0, part != 0.0, np.sum(x, axis=1) != 0.0, (x[0] + np.reshape(x[:2, :2], (4,))) != 0.0, x[1:] != 0.0

    b = RNG.integers(0, 2, (4, 5)).astype(bool)
    u = np.array([[0.0, -0.0], [np.nan, np.inf], [1e-320, -3.0]])
    for at in range(3):
        found = names(rewritten(f, b, u.astype(np.float64), at))
        assert "reduce_any" in found and "or" in found and "reduce_sum" not in found and "add" not in found
        assert found.count("ne") <= 2  # of what was written


def test_numbers_that_are_no_bools_are_asked() -> None:
    def f(b: Any, x: Any) -> Any:
        numbers = b.astype(float)
        return np.sum(numbers * x, axis=0) != 0.0, numbers + x != 0.0, np.sum(numbers - 1.0, axis=0) != 0.0, numbers != 1.0

    found = rewritten(f, np.array([[True, False], [True, True]]), np.array([[1.0, np.nan], [-1.0, 0.0]]))
    assert names(found).count("ne") == 4


def test_literals_that_are_no_truths() -> None:
    def f(b: Any) -> Any:
        numbers = b.astype(float)
        return numbers + 0.5 != 0.0, numbers + -1.0 != 0.0, np.concatenate([numbers, numbers]) != 0.0

    assert names(rewritten(f, np.array([True, False]))).count("ne") == 3


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["lenet", "resnet", "conv2d_bias", "floyd_warshall", "cavity_flow"])
@pytest.mark.parametrize("special", [0.0, np.inf, np.nan])
def test_gradients_behind_masks(name: str, special: float) -> None:
    kernel = KERNELS[name]
    arrays = [i for i, a in enumerate(kernel.arguments) if type(a) is np.ndarray]

    def loss(given: list[Any]) -> Any:
        values = list(kernel.arguments)
        for i, a in zip(arrays, given):
            values[i] = a.copy()
        found = kernel.f(*values)
        return sum([np.sum(o) for o in (found if isinstance(found, tuple) else (found,))])

    given = [kernel.arguments[i].copy() for i in arrays]
    given[0].flat[1] = special
    with funcad.config.set(jit_patience=0), np.errstate(all="ignore"):
        expected = funcad.grad(loss)(given)
        compiled = funcad.jit(funcad.grad(loss))
        for one, other in zip(compiled(given), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_of_every_size(seed: int, dtype: Any) -> None:
    """Convolution, pooling and recursions along rows, rolled and compiled: gradients as un-jitted, special values included."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(11, 16)), int(rng.integers(1, 4))
    m = n - k + 1
    x, w = rng.normal(size=(2, n, n)).astype(dtype), rng.normal(size=(k, k)).astype(dtype)
    if seed % 3:
        x[0, 3, 4], x[1, 5, 5] = (np.nan, np.inf) if seed % 3 == 1 else (-0.0, -np.inf)

    def f(x: Any, w: Any) -> Any:
        out = np.empty((2, m, m), dtype)
        for i in range(m):
            for j in range(m):
                out[:, i, j] = np.sum(x[:, i : i + k, j : j + k] * w, axis=(1, 2))
        out = np.maximum(out, 0)
        pooled = np.zeros((2, m // 2, m // 2), dtype)
        for i in range(m // 2):
            for j in range(m // 2):
                pooled[:, i, j] = np.max(out[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2], axis=(1, 2))
        y = np.empty((m, m), dtype)
        y[-1] = 0.0
        y[-2] = out[0, -1]
        for i in range(m - 3, -1, -1):
            y[i] = out[1, i + 1] * dtype(0.5) + y[i + 1] * dtype(0.3) + y[i + 2] * dtype(0.1)
        return np.sum(pooled * pooled) + np.sum(np.sin(y))

    with funcad.config.set(jit_patience=0), np.errstate(all="ignore"):
        expected = funcad.grad(f, (0, 1))(x, w)
        for one, other in zip(funcad.jit(funcad.grad(f, (0, 1)))(x, w), expected, strict=True):
            assert one.dtype == dtype
            tolerance = 2e-4 if dtype is np.float32 else 1e-10
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)

"""Arrays from outside in an un-jitted gradient: protected once, however often they are used, and right if written meanwhile."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import funcad

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("n", [8, 30, 80])
def test_written_between_uses(n: int) -> None:
    """Of a few bytes, of some kilobytes, of 50: each use has the contents of its moment."""
    w = RNG.normal(size=(n, n))
    before = w.copy()

    def f(x: Any) -> Any:
        y = w @ x
        w[...] *= 2
        y = w @ y
        w[:, 0] = 0.0
        return np.sum(w @ y * x)

    doubled = before * 2
    zeroed = doubled.copy()
    zeroed[:, 0] = 0.0
    product = zeroed @ doubled @ before
    for _ in range(4):
        w[...] = before
        x = RNG.normal(size=n)
        np.testing.assert_allclose(funcad.grad(f)(x), (product + product.T) @ x, rtol=1e-10, atol=1e-8 * np.abs(product).max())


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # since NumPy 2.5
def test_seen_otherwise_between_uses() -> None:
    """The same object with another shape, or of another dtype, is another array."""
    w = RNG.uniform(1.0, 2.0, 512)

    def f(x: Any) -> Any:
        y = np.sum(w * x)
        w.shape = (2, 256)
        y = y + np.sum(w * x[:256])
        w.shape = (512,)
        return y

    for _ in range(3):
        expected = w.copy()
        expected[:256] += w[:256] + w[256:]
        np.testing.assert_allclose(funcad.grad(f)(np.ones(512)), expected)


def test_signs_of_zeros_and_nans_are_contents() -> None:
    w = np.zeros(512)

    def f(x: Any) -> Any:
        y = np.sum(w / x)
        w[:] = np.where(np.signbit(w), np.nan, -0.0)
        return y + np.sum(w / x)

    for _ in range(3):
        w[:] = 0.0
        np.testing.assert_array_equal(np.signbit(funcad.grad(f)(np.ones(512))), np.zeros(512, bool))
        w[:] = -0.0
        assert np.isnan(funcad.grad(f)(np.ones(512))).all()


def test_one_copy_of_many_uses() -> None:
    w = RNG.normal(size=(80, 80)) / 9  # 51 kB

    def f(x: Any) -> Any:
        for _ in range(300):
            x = np.tanh(w @ x)
        return np.sum(x)

    gradient = funcad.grad(f)
    for _ in range(3):
        gradient(np.ones(80))
    peaks = []
    for _ in range(3):  # one of them may compile the program, which takes memory, too
        tracemalloc.start()
        try:
            gradient(np.ones(80))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < 8e6  # 300 copies are 15 MB


def test_a_large_factor_stays_on_the_tape() -> None:
    """It is read-only until the derivative is done, then as before."""
    w = RNG.normal(size=(300, 100))
    seen = []

    def f(x: Any) -> Any:
        y = np.tanh(w @ x)
        z = x @ w.T
        seen.append((x.owner.tape is not None, w.flags.writeable))
        with pytest.raises(ValueError, match="read-only"):
            w[0, 0] = 1.0
        return np.sum(y * z)

    x = RNG.normal(size=100) / 100
    y = w @ x
    expected = w.T @ (np.tanh(y) + y * (1 - np.tanh(y) ** 2))
    for _ in range(4):
        np.testing.assert_allclose(funcad.grad(f)(x), expected, rtol=1e-9)
        assert w.flags.writeable
    assert set(seen) == {(True, False)}

    def failing(x: Any) -> Any:
        raise ZeroDivisionError(w @ x)

    with pytest.raises(ZeroDivisionError):
        funcad.grad(failing)(x)
    assert w.flags.writeable


def test_a_large_factor_that_others_can_write() -> None:
    """No flag reaches them, so the derivative has a copy."""
    memory = bytearray(300 * 100 * 8)
    w = np.frombuffer(memory).reshape(300, 100)
    w[...] = RNG.normal(size=(300, 100))
    kept = w.copy()

    def f(x: Any) -> Any:
        y = np.sum(w @ x)
        memory[:] = bytes(len(memory))
        return y

    for _ in range(3):
        w[...] = kept
        np.testing.assert_allclose(funcad.grad(f)(np.ones(100)), kept.sum(0))


def test_slogdet_on_a_tape() -> None:
    a = RNG.normal(size=(3, 3)) + 3 * np.eye(3)

    def f(a: Any) -> Any:
        sign, size = np.linalg.slogdet(a)
        assert a.owner.tape is not None and type(sign) is np.float64
        return sign * size**2

    for k in range(4):
        m = a * (k + 1) * (-1) ** k
        sign, size = np.linalg.slogdet(m)
        np.testing.assert_allclose(funcad.grad(f)(m), 2 * sign * size * np.linalg.inv(m).T)
    stacked = np.stack([a, -a])
    found = funcad.grad(lambda a: np.sum(np.linalg.slogdet(a).logabsdet))(stacked)
    np.testing.assert_allclose(found, np.swapaxes(np.linalg.inv(stacked), 1, 2))
    assert np.isnan(funcad.grad(lambda a: np.linalg.slogdet(a)[1])(np.zeros((2, 2)))).all()
    with pytest.raises(np.linalg.LinAlgError):
        funcad.grad(lambda a: np.linalg.slogdet(a)[1])(np.ones((2, 3)))
    size = lambda a: np.linalg.slogdet(a)[1]
    np.testing.assert_allclose(funcad.hessian(size)(a), funcad.jacfwd(funcad.jit(funcad.grad(size)))(a))

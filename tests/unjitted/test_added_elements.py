"""Elements that are written and added to, in every order and by every kind of index: beside differences, and in linear time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, vmap

pytestmark = pytest.mark.group("alone")  # of time
N = 4


def program(seed: int) -> Callable[[Any], Any]:
    """A few writes in any order, into arrays that alias, overlap and are read between."""
    rng = np.random.default_rng(seed)
    steps = [
        (int(rng.integers(14)), rng.integers(-N, N, size=4).tolist(), float(rng.normal())) for _ in range(rng.integers(3, 14))
    ]

    def f(x):
        K = np.zeros((N, N)) if seed % 2 else np.outer(x, x)
        b, kept = np.zeros(N), []
        for kind, (i, j, k, m), c in steps:
            e = np.array([i % N, (i + 1) % N])
            if kind == 0:
                K[i, j] += x[k] * x[m]
            elif kind == 1:
                K[i, j] = x[k] * c
            elif kind == 2:
                K[np.ix_(e, e)] += np.outer(x[:2], x[k % 3 : k % 3 + 2])
            elif kind == 3:
                b[k] += K[i, j] * x[m]
            elif kind == 4:
                K[i, j] = c
            elif kind == 5:
                K[i] += b * x[k]
            elif kind == 6:
                np.add.at(K, (np.array([i, i, j]), np.array([k, k, m])), x[:3] * c)
            elif kind == 7:
                kept.append(K[i].copy())
                K[i, j] += c
            elif kind == 8:
                row = K[i]
                K[i, j] += x[k]
                b += row
            elif kind == 9:
                K[e] += np.sin(x) * c
            elif kind == 10:
                K[i:, j] += x[0]
            elif kind == 11:
                b[e] += K[e, e[::-1]]
            elif kind == 12:
                K[i, j] -= x[k] * x[k]
                K[k, m] *= x[i]
            else:
                np.add.at(K, np.ix_(e, e), np.full((2, 2), c))
        return np.sum(np.sin(K) * np.arange(16.0).reshape(N, N)) + b @ K @ x + sum([np.sum(row**2) for row in kept])

    return f


def differences(f: Callable[[Any], Any], x: Any, t: Any) -> Any:
    return (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(40))
def test_writes_in_any_order(seed):
    f, rng = program(seed), np.random.default_rng(seed)
    x, t = rng.normal(size=N) * 0.5, rng.normal(size=N)
    slopes = grad(f)(x)
    np.testing.assert_allclose(slopes @ t, differences(f, x, t), rtol=1e-5, atol=1e-5)
    value, change = jvp(f, (x,), (t,))
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    np.testing.assert_allclose(change, slopes @ t, rtol=1e-9, atol=1e-9)
    second = jvp(grad(f), (x,), (t,))[1]
    np.testing.assert_allclose(second, differences(grad(f), x, t), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(grad(lambda x: grad(f)(x) @ t + 0 * x[0])(x), second, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(vmap(grad(f))(np.stack([x, t]))[0], slopes, rtol=1e-9, atol=1e-9)
    if seed < 10:
        np.testing.assert_allclose(jit(grad(f))(x), slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("index", [(1, 2), np.ix_([1, 2], [0, 2])], ids=["element", "block"])
def test_elements_are_those_that_were_read(index):
    """What is added writes there itself: NumPy adds it to what had been read before."""

    def f(x):
        K = np.zeros((3, 3))
        K[0, 0] = x[0]
        K[index] = K[index] + x[1]

        def meanwhile():
            K[index] = K[index] * x[2]
            return x[0] * x[1] + K[index] ** 2

        K[index] += meanwhile()
        return np.sum(np.sin(K))

    x, t = np.array([0.3, 0.7, 1.9]), np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(grad(f)(x) @ t, differences(f, x, t), rtol=1e-6)
    np.testing.assert_allclose(jvp(f, (x,), (t,))[1], differences(f, x, t), rtol=1e-6)


@pytest.mark.parametrize("zeros", [False, True])
def test_a_constant_begins_a_mask(zeros):
    """An element over which a constant was written depends on nothing, whatever slope meets it, and whichever write it was."""

    def f(x):
        y = np.zeros(3) if zeros else x * 1.0
        y[0] = x[1] * 2
        y[1] = x[0]
        y[2] = 0.0
        y[1] = 0.0
        return np.sum(np.sqrt(y))

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(jvp(f, (x,), (np.ones(3),))[1], np.sum(grad(f)(x)))
    np.testing.assert_allclose(grad(f)(x), [0, 0.5, 0])


def written(n):
    def f(x):
        K = np.zeros(n)
        for i in range(100):
            K[i] = x[i]
            K[i + 1] += x[i] * 2
        return K[:100] @ K[:100]

    return f


def blocks(n):
    def f(x):
        K = np.zeros((n // 1000, 1000))
        for i in range(0, 100, 2):
            e = np.arange(i, i + 2)
            K[e[:, None] % 2, e] += np.outer(x[e], x[e])
            np.add.at(K, (e % 2, e), x[e])
        return np.sum(K[:2, :100] ** 3)

    return f


@pytest.mark.parametrize("program", [written, blocks])
@pytest.mark.parametrize("way", ["grad", "jvp"])
def test_a_write_costs_its_own_size(program, way):
    """100 writes into 2,000,000 elements cost a few copies of these, not 100."""
    x = np.linspace(0.5, 1.5, 100)

    def seconds(n):
        f = program(n)
        call = {"grad": grad(f), "jvp": lambda x: jvp(f, (x,), (x,))}[way]
        return min(_seconds(lambda: call(x)) for _ in range(4))

    zeros = min(_seconds(lambda: np.ones(2_000_000) + 1) for _ in range(4))
    assert seconds(2_000_000) < 10 * seconds(2_000) + 100 * zeros


def _seconds(f: Callable[[], Any]) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def test_rows_of_sums():
    """One row for each sum, instead of those of reading, adding and writing: a program of many keeps little."""
    seen = []

    def f(x):
        K = np.zeros((3, 3))
        K[0, 0] = x[0]
        tape = x.owner.tape
        before = len(tape.pulls)
        for i in range(3):
            K[i, 0] += x[1]
        np.add.at(K, ([0, 0], [1, 1]), x[:2])
        seen.append([type(p).__name__ for p in tape.pulls[before:]])
        return np.sum(K**2)

    funcad.grad(f)(np.ones(3))
    assert [seen[-1].count(name) for name in ("_AddRow", "_AddPlacesRow")] == [2, 1]  # the first sum makes the buffer

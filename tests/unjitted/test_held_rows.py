"""What is read and written of an array that holds its buffer has a row of the tape, whatever the array's size."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import grad, hessian, jit, jvp


def eliminated(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]
    return A


def mixed(A):
    first = A[1]  # a view that lives while its base is written
    square = A * A  # keeps the whole of it
    A[0, 0] = 2.0 * A[-1, -2]
    A[1, 1:3] = A[0, :2] * A[2, ::2][:2]
    A[2] = first
    column = A[:, 1]
    column[0] = A[0, 0] * first[1]
    A[3, 0] = 1.5
    A[-1, -1] = np.float64(0.5)
    A[3] *= A[1]
    return A + square * A[1:2]


def broadcast(A):
    A[0] = A[1, 1]
    A[1:3] = A[0]
    A[:, 2] = 3
    A[2, 2] = A[0, 1] ** 2
    A[..., 0] = A[1]
    return A


def integers(A):
    for i in np.arange(3):
        A[i, i + 1] = A[i, i] * A[i + 1, i]
    return A


def loss(write):
    return lambda x: np.sum(np.sin(write(x.copy())))


@pytest.mark.share(4)
@pytest.mark.parametrize("write", [eliminated, mixed, broadcast, integers])
@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("order", "CF")
def test_gradients_are_those_of_the_compiled_program(write, n: int, order: str) -> None:
    if write is broadcast and n == 5:
        n = 4
    x = np.asarray(np.random.default_rng(n).normal(size=(n, n)) + 3 * np.eye(n), order=order)
    v = np.random.default_rng(1).normal(size=(n, n))
    f = loss(write)
    expected = jit(grad(f))(x)
    for _ in range(3):
        np.testing.assert_allclose(grad(f)(x), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(jvp(f, (x,), (v,))[1], np.sum(expected * v), rtol=1e-10)
    np.testing.assert_allclose(jvp(grad(f), (x,), (v,))[1], (hessian(f)(x) * v).sum((2, 3)), rtol=1e-9, atol=1e-9)


def test_a_buffer_that_is_too_large_for_rows_of_its_own_values() -> None:
    x = np.random.default_rng(0).normal(size=(120, 100))

    def f(x):
        y = x.copy()
        for i in range(1, 120):
            y[i, :5] = y[i - 1, :5] * np.cos(y[i, 5:10])
        return np.sum(y[-1] * y[-1]) + np.sum(y * x)

    v = np.random.default_rng(1).normal(size=x.shape)
    expected = jit(grad(f))(x)
    for _ in range(3):
        np.testing.assert_allclose(grad(f)(x), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(jvp(f, (x,), (v,))[1], np.sum(expected * v), rtol=1e-10)


def test_more_rows_than_a_tape_takes_at_first() -> None:
    def f(x):
        y = np.zeros(50)
        y[0] = x
        for i in range(7000):
            y[(i + 1) % 50] = y[i % 50] * 0.999
        return y[7000 % 50]

    np.testing.assert_allclose(grad(f)(2.0), 0.999**7000, rtol=1e-9)


def test_dtypes_are_cast_and_errors_are_numpys() -> None:
    def f(x):
        y = x.copy()
        y[0] = 1.0
        y[1] = 2.0 * y[2]
        y[2:] = y[0] + y[1]
        with pytest.raises(IndexError, match="out of bounds"):
            y[7] = 1.0
        with pytest.raises(IndexError, match="out of bounds"):
            y[-8]
        with pytest.raises(ValueError):
            y[1:3] = np.zeros(3)
        return np.sum(y * y)

    for dtype in (np.float32, np.float64):
        found = grad(f)(np.ones(4, dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, [0.0, 0.0, 32.0, 0.0])  # y = (1, 2 x2, s, s), s = 1 + 2 x2

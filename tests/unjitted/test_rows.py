"""The backward pass of rows gives what the rules of all rows give, for all shapes, and with masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, hessian, jacrev, value_and_grad
from funcad.backends.interpreter import counters
from funcad.primitives.arithmetic import mul_add_p
from funcad.primitives.families import reduce_sum_p
from funcad.unjitted.kinds import kinds
from tests.agreement import same_bits
from tests.unjitted.by_rules import by_rules

SCALES = np.linspace(0.5, 2.0, 12)


def broadcast(x: Any) -> Any:
    y = x.reshape(3, 4)
    for i in range(3):
        y = y * y[i] - y[:, i : i + 1] / (2.0 + y[i, 0]) + x[i] ** 2 * np.sin(y)
        y = np.maximum(y, x[0]) + y.dtype.type(2) * np.where(y > 1.0, y, y[0])
    return np.sum(y)


def factorised(x: Any) -> Any:
    a = np.outer(x[:4], x[4:8]) + 3 * np.eye(4, dtype=x.dtype)
    for k in range(3):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    a[0] = a[1, ::-1]
    a[a.shape[0] - 1, 1:] = a[1:, 2] @ a[1:, :3]
    return np.sum(a * a)


def of_numbers(x: Any) -> Any:
    u, v, total = x[0], x[1], 0.0
    for i in range(5):
        u, v = u * v - u * u, np.hypot(u, v) / (1.0 + abs(u)) + i
        total = total + np.exp(-u) ** 3 + np.float32(0.5) * v
    return total * np.sum(x[2:])


def by_arrays(x: Any) -> Any:
    index, y = np.array([0, 3, 3, 5]), x * 2.0
    for i in range(3):
        z = y[index] * y[i]
        y[index + i] = z
        y[:6].reshape(2, 3)[:, 1] += z[:2]
        y = np.concatenate([y[3:], np.cumsum(y[:3])]) * np.sort(y)[::-1]
    return np.sum(y) + y[4] * np.max(y) + np.prod(y[:3])


def of_matrices(x: Any) -> Any:
    a = x.reshape(3, 4)
    s = a @ a.T + np.eye(3, dtype=x.dtype)
    for _ in range(2):
        values, vectors = np.linalg.eigh(s)
        s = np.linalg.solve(s, vectors * values) @ s.T + np.einsum("ij,kj->ik", s, s)
    return np.trace(s) + np.sum(x[:3] @ s)


PROGRAMS = [broadcast, factorised, of_numbers, by_arrays, of_matrices]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_the_gradients_are_those_of_the_rules(f: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = SCALES.astype(dtype)
    value, slope = by_rules(monkeypatch, value_and_grad(f), x)
    for _ in range(2):
        same_value, by_row = value_and_grad(f)(x)
        assert same_bits(same_value, value) and by_row.dtype == slope.dtype
        np.testing.assert_allclose(by_row, slope, rtol=1e-12 if dtype is np.float64 else 1e-4)


def test_complex_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(z: Any) -> Any:
        w = z
        for i in range(4):
            w[i] = w[i + 1] * np.conj(w[0]) + z[i] / w[2]
            w = w * np.exp(1j * w.real) - abs(w)
        return np.sum(np.real(w * w))

    z = SCALES[:6] * np.exp(1j * SCALES[6:])
    np.testing.assert_allclose(grad(f)(z), by_rules(monkeypatch, grad(f), z), rtol=1e-12)


def test_large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which a row keeps what its rule does."""

    def f(x: Any) -> Any:
        y = np.outer(x, np.arange(1000.0))
        for i in range(3):
            y = np.tanh(y) * y + np.maximum(y, 0.5) * x[i]
            y[i] = y[i + 1] * 2.0
        return np.sum(y * y)

    np.testing.assert_allclose(grad(f)(SCALES), by_rules(monkeypatch, grad(f), SCALES), rtol=1e-12)


def test_a_nan_asks_for_masks() -> None:
    """A zero that no path leads to does not meet the infinite slope, also where no later call knows."""

    def f(x: Any) -> Any:
        with np.errstate(all="ignore"):
            y = np.sqrt(x)
            for _ in range(3):
                y = y * 1.5
            return np.sum(np.where(x > 0, y, 0.0)) + y[1]

    for _ in range(3):
        np.testing.assert_allclose(grad(f)(np.array([0.0, 4.0])), [0.0, 1.6875])
        np.testing.assert_allclose(grad(f)(np.array([1.0, 4.0])), [1.6875, 1.6875])
    with np.errstate(all="ignore"):
        assert np.isnan(grad(lambda x: 0.0 * np.sqrt(x) * 2.0 * x)(0.0))


def test_the_callers_cotangent_and_values_are_not_written() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        for i in range(4):
            y[i] = y[i + 1] * 2.0
        return y

    value, pull = fc.vjp(f, np.ones(6))
    ct = np.ones(6)
    first = pull(ct)[0]
    np.testing.assert_array_equal(ct, np.ones(6))
    np.testing.assert_array_equal(pull(ct)[0], first)

    def g(x: Any) -> Any:
        kept = x[1:3] * 3.0
        y = x + 0.0
        for i in range(3):
            y[i] = y[i + 1] * kept[i % 2]
        return np.sum(y)

    np.testing.assert_allclose(grad(g)(np.ones(5)), fc.jit(grad(g))(np.ones(5)))


def test_parts_of_a_large_array_make_no_copies_of_its_cotangent() -> None:
    x = np.full(200_000, 0.5)

    def f(x: Any) -> Any:
        s = 0.0
        for i in range(400):
            s = s + np.tanh(x[i]) * x[2 * i]
        return s

    expected = np.zeros(200_000)
    expected[:400] = (1 - np.tanh(0.5) ** 2) * 0.5
    expected[:800:2] += np.tanh(0.5)
    for _ in range(4):
        before = counters["programs"]
        np.testing.assert_allclose(grad(f)(x), expected)
    assert counters["programs"] == before


def test_a_view_writes_in_place_by_one_row() -> None:
    """And what lies apart from it is not read again."""
    rows = []

    def f(x: Any) -> Any:
        a = np.outer(x, x)
        a[0, 0] = 2.0
        apart, over = a[3], a[2:, 1]
        rows.append(len(a.owner.trace.tape.pulls))
        a[1, :2] -= x[:2]
        a[:2, 2:4] *= 3.0
        rows.append(len(a.owner.trace.tape.pulls))
        a[2, 1:3] += 1.0  # `over` reads some of it
        rows.append(len(a.owner.trace.tape.pulls))
        return np.sum(a) + np.sum(apart * over[0]) + np.sum(over)

    x = np.arange(1.0, 5.0)
    slope = grad(f)(x)
    assert rows == [rows[0], rows[0] + 7, rows[0] + 11]  # of x[:2] a read; of each a read, an operation, a write; `over` again
    step = 1e-6
    differences = [(f_of(x, i, step) - f_of(x, i, -step)) / (2 * step) for i in range(4)]
    np.testing.assert_allclose(slope, differences, rtol=1e-5)


def f_of(x: Any, i: int, step: float) -> Any:
    """The same by NumPy."""
    x = x.copy()
    x[i] += step
    a = np.outer(x, x)
    a[0, 0] = 2.0
    a[1, :2] -= x[:2]
    a[:2, 2:4] *= 3.0
    a[2, 1:3] += 1.0
    return np.sum(a) + np.sum(a[3] * a[2, 1]) + np.sum(a[2:, 1])


@pytest.mark.parametrize("first", [0, 1])
def test_of_many_operands_it_matters_which_are_traced(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`x * y + z * w` of constants, and of traced values, at the first place: neither is taken for the other."""
    c, d = np.linspace(-0.5, 0.5, 12), np.linspace(1.0, 1.2, 12)

    def constant(x: Any) -> Any:
        return np.sum(mul_add_p(c, np.sin(x) * 2.0, x, d) * x)

    def traced(x: Any) -> Any:
        return np.sum(mul_add_p(np.cos(x), np.sin(x) * 2.0, x, d) * x)

    both = [constant, traced]
    right = [by_rules(monkeypatch, grad(f), SCALES) for f in both]
    kinds.clear()
    for i in (first, 1 - first):
        assert same_bits(grad(both[i])(SCALES), right[i])


def doolittle(x: Any) -> Any:
    a, n = np.where(x > 0.0, np.sqrt(x), 0.0) + len(x) * np.eye(len(x)), len(x)
    for i in range(n):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return np.sum(a * a)


@pytest.mark.slow
def test_a_long_recording_whose_turns_are_unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2.0, (26, 26))
    expected = by_rules(monkeypatch, grad(doolittle), x)
    for _ in range(3):
        np.testing.assert_allclose(grad(doolittle)(x), expected, rtol=1e-12)
    x[3, 4] = 0.0  # NaN without masks
    found = grad(doolittle)(x)
    assert found[3, 4] == 0.0 and np.isfinite(found).all()
    np.testing.assert_allclose(found, by_rules(monkeypatch, grad(doolittle), x), rtol=1e-12)


def test_views_that_are_gone_are_forgotten_and_others_see_writes() -> None:
    def f(x: Any) -> Any:
        a, kept = x.copy(), []
        for i in range(100):
            a[i % 3] = a[i % 3] * 1.0
            kept += [a[i % 5]]
            kept = kept[-7:]
        assert type(a) is np.ndarray or a.box is None or len(a.box.views) <= 64
        a[2] = a[0] * a[1]
        return sum(np.sum(k * k) for k in kept)

    x = np.arange(10.0).reshape(5, 2) + 1.0
    np.testing.assert_allclose(grad(f)(x), fc.jit(grad(f))(x), rtol=1e-12)


def test_a_read_of_an_argument_keeps_no_copy_of_it() -> None:
    """What is linear asks for no values: the row names the argument, which may be written meanwhile by its owner."""
    x = np.arange(4.0)

    def f(x_: Any) -> Any:
        first = x_[1] * x_[2]
        x[:] = 100.0
        return first * 3.0

    np.testing.assert_array_equal(grad(f)(x), [0.0, 6.0, 3.0, 0.0])


def test_the_shapes_of_a_loop_may_all_differ() -> None:
    """Operations element by element have one kind for all shapes."""

    def f(a: Any) -> Any:
        y = a
        for _ in range(2, len(a)):
            y = np.tanh(y[:-1] * 1.5 + a[: len(y) - 1]) - y[1:]
        return np.sum(y)

    gradient = grad(f)
    gradient(np.ones(5) / 9)
    before = len([key for key in kinds if key[0] is not reduce_sum_p])
    found = gradient(np.ones(12) / 9)
    assert len([key for key in kinds if key[0] is not reduce_sum_p]) == before
    np.testing.assert_allclose(found, fc.jit(gradient)(np.ones(12) / 9), rtol=1e-12)


def added_into(x: Any) -> Any:
    y = np.zeros(())
    y[()] = x[0] * x[1]
    y[...] += x[2]
    z = np.array(y * y)
    z[()] = z * y
    return np.sin(z) * y[()]


def read_before(x: Any) -> Any:
    y = np.array(np.sum(x) * 1.0)
    a = y[()]
    y[()] = 2.0 * a
    return a * y + y[()]


@pytest.mark.parametrize("f", [added_into, read_before])
def test_arrays_of_rank_0_are_written(f: Any) -> None:
    """What comes back to them is a scalar of NumPy's, which cannot be written."""
    x = np.array([0.3, 1.2, -0.7])
    expected = [(f(x + step) - f(x - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(grad(f)(x), expected, rtol=1e-7)
    np.testing.assert_allclose(jacrev(f)(x), expected, rtol=1e-7)
    np.testing.assert_allclose(grad(lambda x: np.sum(grad(f)(x)))(x), np.sum(hessian(f)(x), 0), rtol=1e-10)

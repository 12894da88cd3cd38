"""One element of each row, picked by a label: its derivative is part of the loop over the rows, with the same bits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import nn
from funcad.passes.pipeline import optimize
from funcad.primitives.basic_indexing import scatter, scatter_p

N, C = 30, 7
DRAW = np.random.default_rng(0)
Z = DRAW.normal(size=(N, C))
LABELS = DRAW.integers(-C, C, N)
WEIGHTS = DRAW.normal(size=N)


def log_softmax(z: Any) -> Any:
    z = z - np.max(z, axis=1, keepdims=True)
    return z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))


LOSSES: dict[str, Callable[..., Any]] = {
    "rows and labels": lambda z, i: -np.mean(log_softmax(z)[np.arange(len(i)), i]),
    "along an axis": lambda z, i: -np.mean(np.take_along_axis(nn.log_softmax(z), i[:, None], axis=1)),
    "along the last": lambda z, i: np.sum(np.sin(np.take_along_axis(log_softmax(z), i[:, None], -1)[:, 0])),
    "weighted": lambda z, i: np.sum(log_softmax(z)[np.arange(N), i] * WEIGHTS),
    "squared": lambda z, i: np.sum(np.exp(z)[np.arange(N), i] ** 2) + np.sum(z * z),
    "negative zeros": lambda z, i: np.sum(np.exp(z)[np.arange(N), i] * -0.0),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_the_program_as_written(name: str, dtype: Any, engine: str) -> None:
    f, z = LOSSES[name], Z.astype(dtype)
    tolerance = 1e-12 if dtype is np.float64 else 2e-5
    with funcad.config.set(engine=engine):
        for g in (f, funcad.grad(f), funcad.grad(lambda z, i: np.sum(np.sin(funcad.grad(f)(z, i))))):
            expected = g(z, LABELS)
            found = funcad.jit(g)(z, LABELS)
            assert np.asarray(found).dtype == np.asarray(expected).dtype
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        stacked = np.stack([z, -z])
        mapped = funcad.vmap(funcad.grad(f), in_axes=(0, None))
        np.testing.assert_allclose(funcad.jit(mapped)(stacked, LABELS), mapped(stacked, LABELS), rtol=tolerance, atol=tolerance)


def scatters_in(f: Callable[..., Any], *args: Any) -> int:
    jaxpr = optimize(funcad.jit(f).lower(*args).jaxpr)
    return sum(e.primitive is scatter_p for e in jaxpr.equations)


@pytest.mark.parametrize("name", ["rows and labels", "along an axis", "along the last", "weighted"])
def test_no_array_is_written_at_the_labels(name: str) -> None:
    assert scatters_in(funcad.grad(LOSSES[name]), Z, LABELS) == 0
    assert scatters_in(funcad.grad(lambda z: LOSSES[name](z, LABELS)), Z) == 0
    assert scatters_in(funcad.value_and_grad(LOSSES[name]), Z, LABELS) == 0


def test_what_no_loop_reads_is_written() -> None:
    f = lambda z, i: np.sum(z[np.arange(N), i])
    assert scatters_in(funcad.grad(f), Z, LABELS) == 1
    np.testing.assert_array_equal(funcad.jit(funcad.grad(f))(Z, LABELS), funcad.grad(f)(Z, LABELS))


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("bad", [C, -C - 1])
@pytest.mark.parametrize("n", [N, 3000])
def test_a_label_out_of_bounds_raises(engine: str, bad: int, n: int) -> None:
    z, labels = np.ones((n, C)), np.zeros(n, int)
    labels[1] = bad
    with funcad.config.set(engine=engine):
        for name in ("rows and labels", "along an axis"):
            g = funcad.jit(funcad.grad(LOSSES[name]))
            g(z, labels * 0)
            with pytest.raises(IndexError, match=rf"index {bad} is out of bounds for axis 1 with size {C}"):
                g(z, labels)
            np.testing.assert_allclose(g(z, labels * 0), funcad.grad(LOSSES[name])(z, labels * 0), rtol=1e-12)


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("mode", ["set", "add"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4"])
def test_placements_are_the_same_to_the_bit(mode: str, dtype: str, engine: str) -> None:
    """In zeros, and in negative zeros, which stay what they are."""
    u = (WEIGHTS * 8).astype(dtype)
    u[::3] = -0.0
    for start in (0.0, -0.0):
        f = lambda u, i, k: scatter(np.full(k.shape, start, k.dtype), u, i, mode=mode, batch_dims=1) * k  # noqa: B023
        for shape in ((N,), (N, 1)):
            k = np.ones((N, C), dtype)
            with funcad.config.set(engine=engine):
                expected = f(u.reshape(shape), LABELS.reshape(shape), k)
                found = funcad.jit(f)(u.reshape(shape), LABELS.reshape(shape), k)
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_rows_that_somebody_may_write_are_read_at_every_call() -> None:
    rows = np.arange(N)
    f = lambda z: np.sum(np.floor(z * 8)[rows, LABELS] * (z * 0 + 1)[rows, LABELS])
    g = funcad.jit(f)
    assert g(Z) == f(Z)
    rows[:] = np.roll(rows, 1)
    assert g(Z) == f(Z)

    base = np.arange(N)
    f = lambda z: np.sum(np.floor(z * 8)[base[:], LABELS])  # a view that nobody else holds, of memory that somebody does
    g = funcad.jit(f)
    assert g(Z) == f(Z)
    base[:] = np.roll(base, 1)
    assert g(Z) == f(Z)


def test_places_of_several_axes() -> None:
    x = DRAW.normal(size=(4, 5, 6))
    labels = DRAW.integers(0, 6, (4, 5))
    f = lambda x: np.sum(np.tanh(x)[np.arange(4)[:, None], np.arange(5), labels] ** 2)
    g = lambda x: np.sum(np.take_along_axis(np.tanh(x), labels[..., None], -1) ** 2)
    expected = funcad.grad(f)(x)
    for h in (f, g):
        np.testing.assert_allclose(funcad.jit(funcad.grad(h))(x), expected, rtol=1e-13)
        assert scatters_in(funcad.grad(h), x) == 0
    assert funcad.jit(lambda x: x[np.arange(4), 1])(x).shape == (4, 6)
    assert funcad.jit(lambda x: x[np.arange(4), np.arange(4)])(x).shape == (4, 6)
    assert funcad.jit(lambda x: x[np.arange(3), np.array([1, 1, 0])])(x).shape == (3, 6)
    grid = np.arange(4)[:, None], np.array([[3, 1]])
    np.testing.assert_array_equal(funcad.jit(lambda x: x[np.arange(4)[:, None], [[3, 1]]])(x), x[grid])
    np.testing.assert_array_equal(funcad.jit(lambda x: x[np.arange(4)[:, None], np.array([[3, 1]])])(x), x[grid])


def test_rows_without_elements() -> None:
    for shape in ((0, C), (0, 0)):
        f = lambda z: np.sum(np.exp(z)[np.arange(0), np.arange(0)]) + np.sum(z * 2.0)
        assert funcad.jit(funcad.grad(f))(np.ones(shape)).shape == shape


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="no counts of references")
def test_a_loop_of_training_by_labels() -> None:
    def step(w: Any, batch: Any) -> tuple[Any, Any]:
        x, i = batch
        loss = lambda w: -np.mean(nn.log_softmax(x @ w)[np.arange(5), i])
        value, g = funcad.value_and_grad(loss)(w)
        return w - 0.1 * g, value

    xs, labels, w = DRAW.normal(size=(6, 5, 3)), DRAW.integers(0, C, (6, 5)), DRAW.normal(size=(3, C))
    expected, values = w, []
    for x, i in zip(xs, labels):
        expected, value = step(expected, (x, i))
        values.append(value)
    for run in (lambda w: funcad.scan(step, w, (xs, labels)), funcad.jit(lambda w: funcad.scan(step, w, (xs, labels)))):
        found, losses = run(w)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(losses, values, rtol=1e-12)

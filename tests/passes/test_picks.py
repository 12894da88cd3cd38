"""Elements that are picked before they are worked on: the same numbers and errors, and the array is not made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.passes.pipeline import optimize
from funcad.primitives.basic_indexing import gather

Z = np.random.default_rng(0).normal(size=(12, 40))
LABELS = np.random.default_rng(1).integers(-40, 40, 12)
ROWS, COLUMNS = np.arange(12), np.random.default_rng(2).normal(size=40)


def log_softmax(z: Any) -> Any:
    z = z - np.max(z, axis=1, keepdims=True)
    return z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))


PROGRAMS = {
    "rows and labels": lambda z, i: log_softmax(z)[ROWS, i],
    "along an axis": lambda z, i: np.take_along_axis(log_softmax(z), i[:, None], axis=1),
    "batched": lambda z, i: gather(log_softmax(z) * COLUMNS, i, batch_dims=1),
    "whole rows": lambda z, i: (np.sin(z) * COLUMNS + np.max(z, axis=1, keepdims=True))[i[:1] % 12],
    "repeated either way": lambda z, i: (z * COLUMNS + 2.0 * np.max(z, axis=1)[:, None] - np.sum(z))[ROWS[3:6], i[3:6]],
    "several of a row": lambda z, i: (z * np.exp(z))[[[1, 1], [2, 1]], [[3, 3], [4, -1]]],
    "a choice": lambda z, i: np.where(z > 0, z, COLUMNS * 3.0)[ROWS, i],
    "a literal everywhere": lambda z, i: (z * np.full((12, 40), 2.0) + np.ones((12, 1)))[ROWS, i],
    "of what is read twice": lambda z, i: (lambda y: y[ROWS, i] + y[0, 0])(np.tanh(z)),
    "three axes": lambda z, i: (np.reshape(z, (12, 8, 5)) * np.arange(5.0) + np.arange(8.0)[:, None])[ROWS[:2], i[:2] % 8],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_numbers(name: str, engine: str) -> None:
    f = PROGRAMS[name]
    total = lambda z, i: np.sum(np.sin(f(z, i)))
    with funcad.config.set(engine=engine):
        for g, z in ((f, Z), (funcad.grad(total), Z), (funcad.vmap(f, in_axes=(0, None)), np.stack([Z, -Z]))):
            expected = g(z, LABELS)
            np.testing.assert_allclose(funcad.jit(g)(z, LABELS), expected, rtol=1e-12, atol=1e-13)


def largest_written(f: Any, *args: Any) -> int:
    jaxpr = optimize(funcad.jit(f).lower(*args).jaxpr)
    work = [e for e in jaxpr.equations if e.primitive.emit is not None]
    return max([int(np.prod(v.aval.shape)) for e in work for v in e.outputs], default=0)


def test_the_array_is_not_made() -> None:
    assert largest_written(lambda z, i: (np.tanh(z) * 2.0 + COLUMNS)[ROWS, i], Z, LABELS) == 12
    assert largest_written(lambda z, i: np.tanh(z)[:, i], Z, LABELS) == 480  # what is picked is a large part
    assert largest_written(lambda z, i: (lambda y: (y, y[ROWS, i]))(np.tanh(z)), Z, LABELS) == 480  # it is needed


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_out_of_bounds(engine: str) -> None:
    with funcad.config.set(engine=engine):
        f = funcad.jit(lambda z, i: (np.max(z, axis=1)[:, None] + COLUMNS * z)[ROWS, i])
        for _ in range(3):
            with pytest.raises(IndexError, match="index 40 is out of bounds for axis 1 with size 40"):
                f(Z, np.where(LABELS == LABELS[3], 40, LABELS))
            np.testing.assert_allclose(f(Z, LABELS), (np.max(Z, axis=1)[:, None] + COLUMNS * Z)[ROWS, LABELS])
        only_repeated = funcad.jit(lambda c, i: (np.broadcast_to(c, (12, 40)) * 2.0)[ROWS, i])
        with pytest.raises(IndexError):
            only_repeated(COLUMNS, np.full(12, 41))
        with pytest.raises(IndexError):
            funcad.jit(lambda r, i: (np.broadcast_to(r, (12, 40)) * 2.0)[ROWS, i])(np.ones((12, 1)), np.full(12, 41))

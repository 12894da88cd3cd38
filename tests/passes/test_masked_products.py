"""Turns over a triangle that add outer products, or are products of parts of rows, become products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.passes.pipeline import optimize

N, M = 70, 64
VALUES = (np.inf, -np.inf, np.nan, 1e200)


def added(x: Any, y: Any) -> Any:
    """Outer products of columns and of parts of rows, added to the part of a matrix, and at its columns."""
    c = np.zeros((M, N))
    for i in range(N):
        c[:, i:] += x[:, i][:, None] * y[i, i:]
        c[:, i] += x[:, i]
    return c


def multiplied(x: Any, y: Any) -> Any:
    """Products of parts of rows with parts of a matrix."""
    return np.stack([x[:, i:] @ y[i, i:] for i in range(N)])


def arguments(value: float | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(M, N)), rng.normal(size=(N, N))
    if value is not None:  # in y also where nothing is read
        x[rng.integers(M, size=2), rng.integers(N, size=2)] = value
        y[rng.integers(N, size=5), rng.integers(N, size=5)] = value
    return x, y


def gradient(f: Any) -> Any:
    weights = np.random.default_rng(5).normal(size=f(*arguments(None, 0)).shape)
    return funcad.grad(lambda x, y: np.sum(f(x, y) * weights), (0, 1))


@pytest.mark.parametrize(
    "f", [added, multiplied, gradient(added), gradient(multiplied)], ids=["added", "multiplied", "d added", "d multiplied"]
)
@pytest.mark.parametrize("value", [None, *VALUES])
@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_only_terms_that_the_mask_names(f: Any, value: float | None, engine: str) -> None:
    with funcad.config.set(jit_patience=0, engine=engine), np.errstate(all="ignore"):
        compiled = funcad.jit(f)
        for seed in range(3):
            x, y = arguments(value, seed)
            found = funcad.tree_util.tree_leaves(compiled(x, y))
            wanted = funcad.tree_util.tree_leaves(f(x, y))
            for a, b in zip(found, wanted, strict=True):
                assert np.array_equal(np.isnan(a), np.isnan(b))
                scale = 1e-9 * np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=scale)


def kinds(f: Any) -> list[Any]:
    """The lengths of the loops of the optimised program, and its products of two matrices."""
    program = optimize(funcad.make_jaxpr(f)(*arguments(None, 0)).jaxpr)
    found = []
    for e in program.equations:
        if e.primitive.name == "loop":
            found.append(e.params["loop"].length)
        if e.primitive.name == "dot_general" and [len(a.aval.shape) for a in e.inputs] == [2, 2]:
            found.append("product")
    return found


def test_products_of_all_turns() -> None:
    """A loop of unknown length is that of the terms one by one, which turns where the product is not finite."""
    assert kinds(added) == ["product", None, N - 2]  # the loop that is left adds at columns
    assert kinds(multiplied) == ["product", None]
    assert kinds(gradient(multiplied)) == ["product", N - 1, "product", None]


def reversed_columns(x: Any, y: Any) -> Any:
    """Columns upside down: an index that names all elements, in another order."""
    c = np.zeros((M, N))
    for i in range(N):
        c[:, i:] += x[:, i][::-1, None] * y[i, i:]
    return c


def test_other_orders_are_kept() -> None:
    x, y = arguments(None, 0)
    with funcad.config.set(jit_patience=0):
        np.testing.assert_allclose(funcad.jit(reversed_columns)(x, y), reversed_columns(x, y), rtol=1e-12, atol=1e-12)


def test_masked_products_go_out_to_c(tmp_path: Any) -> None:
    funcad.jit(gradient(multiplied)).export_c(str(tmp_path / "model"), *arguments(None, 0))

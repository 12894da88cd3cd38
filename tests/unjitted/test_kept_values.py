"""Traced values that a function keeps in lists and attributes: outside jit and vmap they have values when it has returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import grad, hessian, jvp, make_jaxpr
from funcad.errors import TracerArrayConversionError, UnexpectedTracerError

X = np.array([1.0, 2.0])


class Model:
    hidden: Any = None

    def __init__(self) -> None:
        self.losses: list[Any] = []

    def loss(self, x: Any) -> Any:
        self.hidden = np.tanh(x)
        self.losses.append(np.sum(x * x))
        return self.losses[-1]


@pytest.mark.parametrize("transform", [grad, lambda f: lambda x: jvp(f, (x,), (x,)), lambda f: hessian(f)])
def test_kept_losses_are_read_afterwards(transform: Any) -> None:
    model = Model()
    for _ in range(4):
        transform(model.loss)(X)
    assert float(model.losses[0]) == 5.0 and model.losses[-1].item() == 5.0 and f"{model.losses[1]:.2f}" == "5.00"
    assert np.mean(model.losses) == 5.0 and max(map(float, model.losses)) == 5.0
    np.testing.assert_array_equal(np.asarray(model.hidden), np.tanh(X))
    assert np.asarray(model.hidden).tolist() == model.hidden.tolist()


def test_what_is_read_is_a_copy() -> None:
    kept = []

    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return np.sum(kept[-1] ** 2)

    grad(f)(X)
    np.asarray(kept[0])[:] = 7.0
    np.testing.assert_array_equal(np.asarray(kept[0]), 2.0 * X)


def test_arithmetic_on_them_says_what_to_write() -> None:
    model = Model()
    grad(model.loss)(X)
    with pytest.raises(UnexpectedTracerError, match="np.asarray"):
        model.hidden + 1.0
    with pytest.raises(UnexpectedTracerError, match="np.asarray"):
        grad(lambda x: np.sum(x * model.hidden))(X)
    hidden = np.asarray(model.hidden)
    np.testing.assert_array_equal(grad(lambda x: np.sum(x * hidden))(X), np.tanh(X))
    with pytest.raises(UnexpectedTracerError):
        grad(lambda x: np.sum(x * np.asarray(model.hidden)))(X)


def test_derivatives_of_functions_that_still_run_are_not_lost() -> None:
    model = Model()

    def outer(x: Any) -> Any:
        grad(model.loss)(x)
        return x[0] * float(model.losses[-1])

    with pytest.raises(TracerArrayConversionError, match="derivative"):
        grad(outer)(X)


def test_without_a_value_they_say_where_they_were_made() -> None:
    model = Model()
    with pytest.raises(UnexpectedTracerError, match="test_kept_values.py"):
        make_jaxpr(model.loss)(X)
        float(model.losses[-1])

"""The core promises in half a minute: run this first after a change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from funcad import grad, hessian, hvp, jacfwd, jacrev, jit, jvp, linearize, value_and_grad, vjp, vmap
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError
from funcad.testing import check_batch, check_grads
from tests.unseen import Noted


def loss(x):
    return np.sum(np.sin(x) * x)


X = np.linspace(0.1, 1.0, 5)
GRADIENT = np.cos(X) * X + np.sin(X)


def test_grad_is_the_derivative() -> None:
    np.testing.assert_allclose(grad(loss)(X), GRADIENT)
    value, gradient = value_and_grad(loss)(X)
    assert value == loss(X)
    np.testing.assert_allclose(gradient, GRADIENT)


def test_every_mode_gives_the_same_derivative() -> None:
    t = np.cos(X)
    y, dy = jvp(loss, (X,), (t,))
    assert y == loss(X)
    np.testing.assert_allclose(dy, GRADIENT @ t)
    np.testing.assert_allclose(linearize(loss, X)[1](t), GRADIENT @ t)
    np.testing.assert_allclose(vjp(loss, X)[1](2.0)[0], 2 * GRADIENT)
    np.testing.assert_allclose(jacrev(loss)(X), GRADIENT)
    np.testing.assert_allclose(jacfwd(loss)(X), GRADIENT)


def test_transforms_nest() -> None:
    second = 2 * np.cos(X) - np.sin(X) * X
    np.testing.assert_allclose(hessian(loss)(X), np.diag(second))
    np.testing.assert_allclose(hvp(loss, (X,), (X,)), second * X)
    np.testing.assert_allclose(grad(lambda x: np.sum(grad(loss)(x)))(X), second)
    np.testing.assert_allclose(jit(grad(jit(loss)))(X), GRADIENT)
    rows = np.stack([X, 2 * X])
    np.testing.assert_allclose(vmap(grad(loss))(rows), np.stack([grad(loss)(r) for r in rows]))
    np.testing.assert_allclose(grad(lambda x: np.sum(vmap(loss)(x)))(rows), vmap(grad(loss))(rows))


def test_results_are_plain_arrays() -> None:
    assert type(grad(loss)(X)) is np.ndarray
    assert type(loss(X)) is np.float64
    assert type(jit(loss)(X)) is np.float64
    assert type(grad(lambda x: x * x)(3.0)) is np.float64
    assert grad(loss)(X.astype(np.float32)).dtype == np.float32
    assert vmap(np.sin)(X).flags.writeable


def test_python_control_flow_on_values() -> None:
    def f(x):
        if x > 1.0:
            return x * x
        return np.sin(x)

    assert grad(f)(2.0) == 4.0
    assert grad(f)(0.5) == np.cos(0.5)
    with pytest.raises(TracerBoolConversionError):
        jit(f, guards=False)(2.0)
    for x in (2.0, 0.5, 2.0, 0.5):
        assert jit(f)(x) == f(x) and jit(grad(f))(x) == grad(jit(f))(x) == grad(f)(x)
    with pytest.raises(TracerArrayConversionError):
        grad(lambda x: float(x))(1.0)
    assert grad(lambda x: math.sin(x))(1.0) == math.cos(1.0)


def test_pytrees() -> None:
    params = {"w": np.ones(3), "b": [0.5, None]}
    gradient = grad(lambda p: np.sum(np.tanh(p["w"] * X[:3] + p["b"][0])))(params)
    assert set(gradient) == {"w", "b"} and gradient["b"][1] is None
    np.testing.assert_allclose(gradient["w"], (1 - np.tanh(X[:3] + 0.5) ** 2) * X[:3])


def test_jit_traces_once() -> None:
    traced = Noted()

    @jit
    def f(x):
        traced.note(x.shape)
        return np.sum(x * 2)

    assert f(np.ones(3)) == f(np.ones(3)) == 6.0
    f(np.ones(4))
    assert traced == [(3,), (4,)]


def test_numeric_checks_for_users() -> None:
    check_grads(loss, (X,), order=2)
    check_batch(loss, (np.stack([X, X]),))


def test_programs_can_be_read() -> None:
    text = jit(loss).lower(X).as_text()
    assert "sin" in text and "mul" in text and "reduce_sum" in text
    assert len(text.splitlines()) <= 8


def test_arguments_are_never_changed() -> None:
    x = X.copy()
    for f in (loss, grad(loss), jit(loss), jit(grad(loss)), vmap(lambda v: v * v)):
        f(x)
    assert np.array_equal(x, X) and x.flags.writeable


def test_shape_errors_are_numpys() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        grad(lambda x: np.sum(x + np.ones(2)))(np.ones(3))
    with pytest.raises(ValueError, match="broadcast"):
        jit(lambda x: x + np.ones(2))(np.ones(3))

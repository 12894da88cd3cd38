"""funcad.nn: values against NumPy and SciPy, derivatives against differences, dtypes, arguments, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import funcad.numpy as fnp
from funcad import grad, hvp, jit, nn, vjp, vmap
from funcad.testing import check_grads

X = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
T = np.array([[0.8, -1.7, 0.35], [-2.6, 0.45, 1.9]])


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _selu(x):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


ACTIVATIONS: dict[Any, Any] = {
    nn.identity: lambda x: x,
    nn.relu: lambda x: np.maximum(x, 0),
    nn.relu6: lambda x: np.clip(x, 0, 6),
    nn.leaky_relu: lambda x: np.where(x > 0, x, 0.01 * x),
    nn.elu: lambda x: np.where(x > 0, x, np.expm1(x)),
    nn.selu: _selu,
    nn.celu: lambda x: np.where(x > 0, x, np.expm1(x)),
    nn.gelu: lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    nn.silu: lambda x: x * _sigmoid(x),
    nn.swish: lambda x: x * _sigmoid(x),
    nn.mish: lambda x: x * np.tanh(np.log1p(np.exp(x))),
    nn.sigmoid: _sigmoid,
    nn.hard_sigmoid: lambda x: np.clip(x + 3, 0, 6) / 6,
    nn.hard_silu: lambda x: x * np.clip(x + 3, 0, 6) / 6,
    nn.log_sigmoid: lambda x: -np.log1p(np.exp(-x)),
    nn.tanh: np.tanh,
    nn.hard_tanh: lambda x: np.clip(x, -1, 1),
    nn.softplus: lambda x: np.log1p(np.exp(x)),
    nn.squareplus: lambda x: (x + np.sqrt(x * x + 4)) / 2,
    nn.soft_sign: lambda x: x / (1 + abs(x)),
    nn.softmax: lambda x: scipy.special.softmax(x, -1),
    nn.log_softmax: lambda x: scipy.special.log_softmax(x, -1),
    nn.smooth_abs: lambda x: np.sqrt(x * x + 1e-6),
    nn.safe_sqrt: lambda x: np.sqrt(np.maximum(x, 0)),
    nn.safe_log: lambda x: np.log(np.log1p(np.exp(x)) + 1e-6),
    nn.standardize: lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
}


@pytest.mark.parametrize("f", ACTIVATIONS, ids=lambda f: f.__name__)
def test_activation(f: Any) -> None:
    expected = ACTIVATIONS[f](X)
    np.testing.assert_allclose(f(X), expected, rtol=1e-12)
    np.testing.assert_allclose(jit(f)(X), expected, rtol=1e-12)
    np.testing.assert_allclose(vmap(f)(X), expected, rtol=1e-12)
    check_grads(f, (X,), 2)


@pytest.mark.parametrize("f", [f for f in ACTIVATIONS if f is not nn.identity], ids=lambda f: f.__name__)
def test_activation_dtypes(f: Any) -> None:
    for dtype in (np.float16, np.float32):
        x = X.astype(dtype)
        out, pullback = vjp(f, x)
        assert f(x).dtype == out.dtype == jit(f)(x).dtype == pullback(np.ones_like(out))[0].dtype == dtype
        np.testing.assert_allclose(out, ACTIVATIONS[f](X), rtol=0, atol=1e-2 if dtype == np.float16 else 1e-5)
    assert f(np.array([1, 2])).dtype == np.float64
    if f not in (nn.standardize,):
        assert type(f(0.5)) is np.float64
        assert type(f(2)) is np.float64
        assert type(f(np.float32(0.5))) is np.float32


@pytest.mark.parametrize("f", [f for f in ACTIVATIONS if f not in (nn.identity,)], ids=lambda f: f.__name__)
def test_activations_are_finite_far_out(f: Any) -> None:
    x = np.array([-1e4, -50.0, 0.0, 50.0, 1e4])
    out, pullback = vjp(f, x)
    assert np.all(np.isfinite(out))
    assert np.all(np.isfinite(pullback(np.ones(5))[0]))


def test_exact_gelu() -> None:
    f = lambda x: nn.gelu(x, approximate=False)
    np.testing.assert_allclose(f(X), X * scipy.special.ndtr(X), rtol=1e-13)
    check_grads(f, (X,), 2)


def test_slopes_may_be_traced() -> None:
    for f in (nn.leaky_relu, nn.elu, nn.celu, nn.squareplus):
        check_grads(f, (X, np.float64(0.7)), 2)
        check_grads(f, (X, np.array([0.7, 0.2, 1.3])), 1)


def test_glu() -> None:
    x = np.concatenate([X, T], axis=1)
    np.testing.assert_allclose(nn.glu(x), X * _sigmoid(T))
    np.testing.assert_allclose(nn.glu(x, axis=0), x[:1] * _sigmoid(x[1:]))
    check_grads(nn.glu, (x,), 2)
    with pytest.raises(ValueError, match="halved"):
        nn.glu(X)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 1, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis: Any, keepdims: bool) -> None:
    x = np.arange(12.0).reshape(2, 2, 3) / 5 + 700
    f = lambda x: nn.logsumexp(x, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(f(x), scipy.special.logsumexp(x, axis=axis, keepdims=keepdims), rtol=1e-14)
    assert np.shape(f(x)) == np.shape(scipy.special.logsumexp(x, axis=axis, keepdims=keepdims))
    check_grads(f, (x,), 2)


def test_log1mexp() -> None:
    x = np.array([1e-10, 0.3, 0.7, 40.0])
    np.testing.assert_allclose(nn.log1mexp(x), np.log(-np.expm1(-x)), rtol=1e-12, atol=1e-17)
    check_grads(nn.log1mexp, (x[1:],), 2)


def test_clamp_of_bounds() -> None:
    lo, hi = np.array([-1.0, 0.0, 0.5]), np.array([1.0, 1.0, 1.0])
    np.testing.assert_allclose(nn.clamp(X, lo, hi), np.clip(X, lo, hi))
    np.testing.assert_allclose(nn.clamp(0.2, lo, hi), np.clip(0.2, lo, hi))
    check_grads(nn.clamp, (X, lo, hi), 1)
    assert nn.clamp(X.astype(np.float32), -1.0, 1.0).dtype == np.float32


LOSSES = [
    nn.mse_loss, nn.mae_loss, nn.huber_loss, nn.smooth_l1_loss, nn.hinge_loss, nn.poisson_loss, nn.log_cosh_loss,
]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_loss_reductions(loss: Any) -> None:
    each = loss(X, T, reduction="none")
    assert each.shape == X.shape
    np.testing.assert_allclose(loss(X, T), each.mean())
    np.testing.assert_allclose(loss(X, T, reduction="sum"), each.sum())
    check_grads(loss, (X, T), 1)
    check_grads(loss, (X, np.float64(0.3)), 1)
    assert loss(X.astype(np.float32), T.astype(np.float32)).dtype == np.float32
    assert loss(np.array([1, 2]), 3).dtype == np.float64


def test_huber_and_smooth_l1_agree_at_one() -> None:
    np.testing.assert_allclose(nn.huber_loss(X, T), nn.smooth_l1_loss(X, T))
    np.testing.assert_allclose(nn.huber_loss(X, T, 2.0) / 2.0, nn.smooth_l1_loss(X, T, 2.0))


def test_softmax_cross_entropy_with_classes() -> None:
    classes = np.array([2, 0])
    one_hot = np.eye(3)[classes]
    np.testing.assert_allclose(nn.softmax_cross_entropy(X, classes), nn.softmax_cross_entropy(X, one_hot))
    np.testing.assert_allclose(nn.softmax_cross_entropy(X.T, classes, axis=0), nn.softmax_cross_entropy(X, one_hot))
    expected = (scipy.special.softmax(X, -1) - one_hot) / 2
    np.testing.assert_allclose(grad(nn.softmax_cross_entropy)(X, classes), expected)
    np.testing.assert_allclose(jit(grad(nn.softmax_cross_entropy))(X, classes), expected)


def test_softmax_cross_entropy_of_impossible_classes() -> None:
    z = np.array([[0.0, -np.inf, 0.0]])
    t = np.array([[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(nn.softmax_cross_entropy(z, t), np.log(2))
    np.testing.assert_allclose(grad(nn.softmax_cross_entropy)(z, t), [[-0.5, 0.0, 0.5]])


def test_one_hot() -> None:
    x = np.array([[1, 0], [2, 5]])
    expected = np.concatenate([np.eye(3), np.zeros((3, 3))])[x]
    np.testing.assert_array_equal(nn.one_hot(x, 3), expected)
    np.testing.assert_array_equal(nn.one_hot(x, 3, axis=0), np.moveaxis(expected, -1, 0))
    np.testing.assert_array_equal(vmap(lambda i: nn.one_hot(i, 3))(x), expected)
    assert nn.one_hot(1, 3, dtype=np.float32).dtype == np.float32
    floats = np.array([1.0, 0.5, np.inf, 2.0])
    np.testing.assert_array_equal(nn.one_hot(floats, 3), [[0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]])
    with pytest.raises(TypeError, match="integers or floats"):
        nn.one_hot(1j, 3)


def test_embedding() -> None:
    weight, x = np.arange(8.0).reshape(4, 2), np.array([[3, 0], [3, 1]])
    np.testing.assert_array_equal(nn.embedding(x, weight), weight[x])
    np.testing.assert_allclose(nn.embedding(nn.one_hot(x, 4), weight), weight[x])
    found = grad(lambda w: fnp.sum(nn.embedding(x, w)))(weight)
    np.testing.assert_array_equal(found, np.array([1, 1, 0, 2])[:, None] * np.ones(2))
    with pytest.raises(IndexError):
        nn.embedding(np.array([4]), weight)
    with pytest.raises(ValueError, match="embedding"):
        nn.embedding(np.ones((2, 3)), weight)


def test_linear() -> None:
    w, b = T, np.array([0.5, -0.5])
    np.testing.assert_allclose(nn.linear(w, b, X), X @ w.T + b)
    np.testing.assert_allclose(nn.linear(w, None, X[0]), w @ X[0])
    check_grads(nn.linear, (w, b, np.stack([X, X + 1])), 2)
    assert nn.linear(w.astype(np.float32), b.astype(np.float32), X.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="bias"):
        nn.linear(w, np.ones(3), X)


@pytest.mark.parametrize("axis", [0, -1, (0, 1)])
def test_layer_norm(axis: Any) -> None:
    shape = X.mean(axis=tuple({0, 1} - set(np.atleast_1d(axis) % 2)) or None).shape if axis != (0, 1) else X.shape
    gamma, beta = np.full(shape, 1.5) + np.arange(np.prod(shape)).reshape(shape), np.ones(shape)
    spread = (lambda p: p[:, None]) if axis == 0 else (lambda p: p)
    centred = X - X.mean(axis, keepdims=True)
    expected = spread(gamma) * centred / np.sqrt(X.var(axis, keepdims=True) + 1e-5) + spread(beta)
    f = lambda *args: nn.layer_norm(*args, axis=axis)
    np.testing.assert_allclose(f(X, gamma, beta), expected)
    check_grads(f, (X, gamma, beta), 2)
    with pytest.raises(ValueError, match="gamma"):
        nn.layer_norm(X, gamma=np.ones(7))


def test_batch_norm() -> None:
    gamma, beta = np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3])
    y, mean, variance = nn.batch_norm(X, gamma, beta)
    np.testing.assert_allclose(mean, X.mean(0))
    np.testing.assert_allclose(variance, X.var(0))
    np.testing.assert_allclose(y, gamma * (X - mean) / np.sqrt(variance + 1e-5) + beta)
    again, *same = nn.batch_norm(X, gamma, beta, statistics=(mean, variance))
    np.testing.assert_allclose(again, y)
    np.testing.assert_allclose(same, [mean, variance])
    check_grads(nn.batch_norm, (X, gamma, beta), 2)
    images = np.random.default_rng(0).normal(size=(2, 3, 2, 2))
    y, mean, _ = nn.batch_norm(images, gamma, beta, axes=(0, 2, 3))
    np.testing.assert_allclose(mean, images.mean((0, 2, 3)))
    np.testing.assert_allclose(y.mean((0, 2, 3)), beta, atol=1e-12)


def test_complex_numbers_are_refused() -> None:
    for f in (nn.relu, nn.softmax, nn.elu, nn.safe_log):
        with pytest.raises(TypeError, match="complex"):
            f(np.array([1j]))
    np.testing.assert_allclose(nn.sigmoid(np.array([0.3 + 1j])), 1 / (1 + np.exp(-np.array([0.3 + 1j]))))


def test_a_small_network_learns() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 2))
    classes = (x[:, 0] * x[:, 1] > 0).astype(int)
    params = [(rng.normal(size=(16, 2)), np.zeros(16)), (rng.normal(size=(2, 16)) / 4, np.zeros(2))]

    @jit
    def step(params):
        def loss(params):
            (w1, b1), (w2, b2) = params
            return nn.softmax_cross_entropy(nn.linear(w2, b2, nn.gelu(nn.linear(w1, b1, x))), classes)

        return [tuple(p - 0.5 * g for p, g in zip(ps, gs)) for ps, gs in zip(params, grad(loss)(params))]

    for _ in range(150):
        params = step(params)
    (w1, b1), (w2, b2) = params
    logits = nn.linear(w2, b2, nn.gelu(nn.linear(w1, b1, x)))
    assert np.mean(np.argmax(logits, axis=-1) == classes) > 0.95


@pytest.mark.parametrize("f", [nn.gelu, nn.safe_log, nn.silu, nn.softplus, nn.smooth_abs], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_derivatives_stay_finite_far_out(f: Any, dtype: Any) -> None:
    far = {np.float16: 300.0, np.float32: 1e30, np.float64: 1e200}[dtype]
    x = np.array([-far, -50.0, 0.5, 50.0, far], dtype)
    slope = grad(lambda x: np.sum(f(x)))(x)
    assert slope.dtype == dtype and np.isfinite(slope).all()
    assert np.isfinite(hvp(lambda x: np.sum(f(x)), (x,), (np.ones_like(x),))).all()

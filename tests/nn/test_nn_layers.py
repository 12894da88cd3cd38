"""funcad.nn's layers and sums of exponentials: attention, normalisation, convolution, pooling, with all their options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

from funcad import grad, jit, nn, random, vjp, vmap
from funcad.testing import check_grads

X = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
T = np.array([[0.8, -1.7, 0.35], [-2.6, 0.45, 1.9]])
MASK = np.array([[True, False, True], [True, True, False]])


def test_sparse_plus_and_its_derivative() -> None:
    x = np.array([-3.0, -1.0, -0.5, 0.5, 1.0, 3.0])
    np.testing.assert_allclose(nn.sparse_plus(x), [0, 0, 0.0625, 0.5625, 1, 3])
    np.testing.assert_allclose(vmap(grad(nn.sparse_plus))(x), nn.sparse_sigmoid(x))
    check_grads(nn.sparse_plus, (X,), 2)
    check_grads(nn.sparse_sigmoid, (X / 7,), 2)
    assert np.all(np.isfinite(vmap(grad(grad(nn.sparse_plus)))(x)))
    assert nn.hard_swish is nn.hard_silu


@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax], ids=lambda f: f.__name__)
def test_softmax_of_several_axes_and_of_some_elements(f: Any) -> None:
    theirs = getattr(scipy.special, f.__name__)
    x = np.stack([X, T])
    for axis in (None, (0, 2), (2, 0), 1):
        np.testing.assert_allclose(f(x, axis), theirs(x, axis), rtol=1e-13)
        check_grads(lambda x, axis=axis: f(x, axis), (x,), 2)
    masked = f(X, where=MASK)
    np.testing.assert_allclose(masked[0, [0, 2]], theirs(X[0, [0, 2]]), rtol=1e-13)
    assert masked[0, 1] == f(np.array([0.0]), where=np.array([False]))[0] == (0.0 if f is nn.softmax else -np.inf)
    slope = grad(lambda x: np.sum(np.where(MASK, f(x, where=MASK), 0.0) * T))
    x = X.copy()
    x[0, 1] = np.nan
    assert np.all(np.isfinite(slope(x))) and slope(x)[0, 1] == 0.0
    np.testing.assert_allclose(vmap(lambda x, m: f(x, where=m))(X, MASK), masked)
    np.testing.assert_allclose(jit(lambda x, m: f(x, where=m))(X, MASK), masked)
    with pytest.raises(TypeError, match="bools"):
        f(X, where=T)
    with pytest.raises(ValueError, match="broadcast"):
        f(X, where=np.ones((3, 2, 3), bool))


def test_logsumexp_with_weights() -> None:
    b = np.array([[0.5, -2.0, 0.0], [1.0, 0.0, 0.3]])
    for axis in (None, 0, 1, (0, 1)):
        f = lambda x, b, axis=axis: nn.logsumexp(x, axis, b, return_sign=True)
        for ours, theirs in zip(f(X, b), scipy.special.logsumexp(X, axis, b, return_sign=True)):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        check_grads(lambda x, b, f=f: f(x, b)[0], (X, np.where(b == 0, 0.1, b) * 3), 2, rtol=1e-5)
    by_weights = grad(lambda b: nn.logsumexp(X[0], b=b))(np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(by_weights, np.exp(X[0] - X[0, 0]))
    np.testing.assert_allclose(nn.logsumexp([1000.0, 5.0], b=[0.0, 1.0]), 5.0)
    assert np.all(grad(lambda x: nn.logsumexp(x, b=np.array([0.0, 1.0])))(np.array([1000.0, 5.0])) == [0.0, 1.0])
    assert np.isnan(nn.logsumexp([0.0, 0.0], b=[1.0, -2.0]))
    assert nn.logsumexp([1.0, 2.0], b=[0.0, 0.0]) == nn.logsumexp([-np.inf], b=[1.0]) == -np.inf
    assert np.isnan(nn.logsumexp([np.nan, 0.0], b=[1.0, 1.0]))
    assert nn.logsumexp(2.0, b=3.0) == 2.0 + np.log(3.0)
    value, sign = nn.logsumexp(X, 1, return_sign=True, keepdims=True, where=MASK)
    assert value.shape == (2, 1) and np.all(sign == 1.0)


def test_logmeanexp() -> None:
    np.testing.assert_allclose(nn.logmeanexp(X + 800, 1), np.log(np.exp(X).mean(1)) + 800)
    np.testing.assert_allclose(nn.logmeanexp(X, where=MASK, keepdims=True), [[np.log(np.exp(X[MASK]).mean())]])
    assert nn.logmeanexp(2.0) == 2.0
    assert np.isnan(nn.logmeanexp(np.zeros((2, 0)), 1)).all() and nn.softmax(np.zeros((2, 0))).shape == (2, 0)
    assert np.isnan(nn.logmeanexp(X, 1, where=np.array([[False], [True]]))).tolist() == [True, False]
    assert nn.logmeanexp(X.astype(np.float32)).dtype == np.float32
    check_grads(lambda x: nn.logmeanexp(x, 0, where=MASK), (X,), 2)


def test_standardize_with_given_statistics() -> None:
    mean, variance = np.array([0.3, -0.2, 1.0]), np.array([[2.0], [3.0]])
    np.testing.assert_allclose(nn.standardize(X, -1, mean, variance, 0.1), (X - mean) / np.sqrt(variance + 0.1))
    masked = nn.standardize(X, None, where=MASK)
    np.testing.assert_allclose(masked, (X - X[MASK].mean()) / np.sqrt(X[MASK].var() + 1e-5))
    check_grads(lambda x, m: nn.standardize(x, 0, m), (X, mean), 2)
    check_grads(lambda x: nn.standardize(x, None, where=MASK), (X,), 2)


def test_rms_norm() -> None:
    gamma = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(nn.rms_norm(X, gamma), gamma * X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5))
    check_grads(lambda x, g: nn.rms_norm(x, g, eps=0.1), (X, gamma), 2)
    assert np.all(np.isfinite(grad(lambda x: np.sum(nn.rms_norm(x)))(np.zeros(3))))
    assert nn.rms_norm(X.astype(np.float32)).dtype == np.float32


def test_group_and_instance_norm() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 4))
    gamma, beta = np.arange(1.0, 5.0), np.arange(4.0)
    parted = x.reshape(2, 3, 5, 2, 2)
    centred = parted - parted.mean((1, 2, 4), keepdims=True)
    expected = (centred / np.sqrt(parted.var((1, 2, 4), keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta
    np.testing.assert_allclose(nn.group_norm(x, 2, gamma, beta), expected)
    first = np.moveaxis(x, -1, 1)
    np.testing.assert_allclose(nn.group_norm(first, 2, gamma, beta, channel_axis=1), np.moveaxis(expected, -1, 1))
    np.testing.assert_allclose(vmap(lambda x: nn.group_norm(x, 2, gamma, beta, batch_axes=()))(x), expected)
    each = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.instance_norm(x), each)
    np.testing.assert_allclose(nn.instance_norm(x), nn.group_norm(x, 4))
    check_grads(lambda x, g, b: nn.group_norm(x, 2, g, b), (x[:, :2, :2], gamma, beta), 2)
    with pytest.raises(ValueError, match="3 groups"):
        nn.group_norm(x, 3)
    with pytest.raises(ValueError, match="batch_axes"):
        nn.group_norm(x, 2, channel_axis=0)


def test_one_hot_along_a_named_axis() -> None:
    x = np.array([2, 0, 5])
    found = vmap(lambda _: nn.one_hot(x, 4, axis="classes"), axis_name="classes")(np.arange(4))
    np.testing.assert_array_equal(found, nn.one_hot(x, 4, axis=0))
    with pytest.raises(ValueError, match="size 4"):
        vmap(lambda _: nn.one_hot(x, 3, axis="classes"), axis_name="classes")(np.arange(4))


def test_attention_with_lengths_and_windows() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, n, 2, 3)) for n in (4, 5, 5))
    distance = np.arange(4)[:, None] - np.arange(5)
    for window, allowed in ((1, abs(distance) <= 1), ((2, 0), (distance <= 2) & (distance >= 0))):
        found = nn.dot_product_attention(q, k, v, local_window_size=window)
        np.testing.assert_allclose(found[1], _attention(q[1], k[1], v[1], allowed), rtol=1e-12)
    lengths = {"query_seq_lengths": np.array([2, 4]), "key_value_seq_lengths": np.array([5, 3], np.int32)}
    found = nn.dot_product_attention(q, k, v, **lengths)
    assert np.all(found[0, 2:] == 0.0)
    np.testing.assert_allclose(found[0, :2], _attention(q[0, :2], k[0], v[0], True), rtol=1e-12)
    np.testing.assert_allclose(found[1], _attention(q[1], k[1, :3], v[1, :3], True), rtol=1e-12)
    check_grads(lambda *a: nn.dot_product_attention(*a, **lengths), (q, k, v), 2)
    f = lambda q, k, v, n: nn.dot_product_attention(q, k, v, key_value_seq_lengths=n)
    np.testing.assert_allclose(vmap(f)(q, k, v, np.array([5, 3])), f(q, k, v, np.array([5, 3])), rtol=1e-12)
    np.testing.assert_allclose(jit(f)(q, k, v, np.array([5, 3])), f(q, k, v, np.array([5, 3])), rtol=1e-12)
    out, residual = nn.dot_product_attention(q, k, v, return_residual=True)
    logits = np.einsum("bqhd,bkhd->bqhk", q, k) / np.sqrt(3)
    np.testing.assert_allclose(residual, scipy.special.logsumexp(logits, -1))
    np.testing.assert_allclose(out, nn.dot_product_attention(q, k, v))
    half = nn.dot_product_attention(*[x.astype(np.float16) for x in (q, k, v)])
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, out, atol=5e-3)


def test_what_attention_refuses() -> None:
    q = np.ones((2, 3, 1, 4))
    with pytest.raises(NotImplementedError, match="cudnn"):
        nn.dot_product_attention(q, q, q, implementation="cudnn")
    with pytest.raises(ValueError, match="query_seq_lengths"):
        nn.dot_product_attention(q, q, q, query_seq_lengths=np.array([1, 2, 3]))
    with pytest.raises(TypeError, match="integers"):
        nn.dot_product_attention(q, q, q, key_value_seq_lengths=np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="bias"):
        nn.dot_product_attention(q, q, q, np.ones((2, 3)))
    with pytest.raises(TypeError, match="complex"):
        nn.dot_product_attention(q * 1j, q, q)


def _convolved(x, kernel, stride):
    out = [x[:, i : i + kernel.shape[0]] for i in range(0, x.shape[1] - kernel.shape[0] + 1, stride)]
    return np.stack([np.einsum("nkc,kco->no", window, kernel) for window in out], axis=1)


def test_conv() -> None:
    rng = np.random.default_rng(0)
    x, kernel, bias = rng.normal(size=(2, 7, 4)), rng.normal(size=(3, 4, 6)), rng.normal(size=6)
    np.testing.assert_allclose(nn.conv(x, kernel, bias, 2), _convolved(x, kernel, 2) + bias)
    first = nn.conv(np.swapaxes(x, 1, 2), kernel.transpose(2, 1, 0), bias, 2, data_format="NCW")
    np.testing.assert_allclose(first, np.swapaxes(_convolved(x, kernel, 2) + bias, 1, 2))
    padded = np.pad(x, [(0, 0), (1, 1), (0, 0)])
    for padding in (1, "SAME", [(1, 1)], "same"):
        np.testing.assert_allclose(nn.conv(x, kernel, padding=padding), _convolved(padded, kernel, 1))
    wide = np.zeros((5, 4, 6))
    wide[::2] = kernel
    np.testing.assert_allclose(nn.conv(x, kernel, dilation=2), _convolved(x, wide, 1))
    grouped = nn.conv(x, kernel[:, :2], groups=2)
    halves = [_convolved(x[..., 2 * i : 2 * i + 2], kernel[:, :2, 3 * i : 3 * i + 3], 1) for i in range(2)]
    np.testing.assert_allclose(grouped, np.concatenate(halves, -1))
    check_grads(lambda *a: nn.conv(*a, strides=2, padding=1), (x, kernel, bias), 2)
    assert nn.conv(x.astype(np.float32), kernel.astype(np.float32), bias.astype(np.float32)).dtype == np.float32
    image = rng.normal(size=(2, 5, 6, 3))
    assert nn.conv(image, rng.normal(size=(3, 2, 3, 8)), strides=(2, 1)).shape == (2, 2, 5, 8)
    for bad in (lambda: nn.conv(x[0], kernel), lambda: nn.conv(x, kernel, bias[:2]), lambda: nn.conv(x, kernel, strides=0)):
        with pytest.raises(ValueError, match="nn.conv"):
            bad()


def test_conv_transpose_is_the_transpose_of_conv() -> None:
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(2, 8, 4)), rng.normal(size=(3, 4, 6))
    y, pullback = vjp(lambda x: nn.conv(x, kernel, strides=2, padding="SAME"), x)
    found = nn.conv_transpose(y, kernel, strides=2, padding="SAME", transpose_kernel=True)
    np.testing.assert_allclose(found, pullback(y)[0])
    check_grads(lambda x, k: nn.conv_transpose(x, k, strides=2), (x[:, :3], rng.normal(size=(2, 4, 3))), 2)


def test_pooling_by_data_format() -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 3))
    first = np.moveaxis(x, -1, 1)
    for pool in (nn.max_pool, nn.min_pool, nn.avg_pool):
        expected = pool(x, (2, 3))
        assert expected.shape == (2, 2, 2, 3)
        np.testing.assert_array_equal(pool(x, (2, 3), data_format="NHWC"), expected)
        np.testing.assert_array_equal(pool(first, (2, 3), data_format="NCHW"), np.moveaxis(expected, -1, 1))
        np.testing.assert_array_equal(pool(first, 2, data_format="NCHW"), np.moveaxis(pool(x, (2, 2)), -1, 1))
        assert pool(x, (2, 2), 1).shape == (2, 3, 5, 3)
        check_grads(lambda x, pool=pool: pool(x, 2, 1, "SAME", data_format="NHWC"), (x[:1, :2, :3],), 2)
        with pytest.raises(ValueError, match="data_format"):
            pool(x, 2, data_format="NCW")
        with pytest.raises(TypeError, match="not both"):
            pool(x, 2, axes=(1, 2), data_format="NHWC")
    with pytest.raises(TypeError, match="complex"):
        nn.max_pool(x * 1j, (2, 2))


def test_more_losses() -> None:
    t = 1 / (1 + np.exp(-T))
    p = 1 / (1 + np.exp(-X))
    expected = nn.binary_cross_entropy(p, t)
    np.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(X, t), expected)
    np.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(np.array([1e4, -1e4]), np.array([0.0, 0.0])), 5e3)
    check_grads(nn.sigmoid_binary_cross_entropy, (X, t), 2)
    target = scipy.special.softmax(T, -1)
    log_q = scipy.special.log_softmax(X, -1)
    terms = scipy.special.rel_entr(target, np.exp(log_q))
    np.testing.assert_allclose(nn.kl_div_loss(log_q, target), terms.sum(-1).mean())
    np.testing.assert_allclose(nn.kl_div_loss(log_q, target, reduction="elements"), terms.mean())
    np.testing.assert_allclose(nn.kl_div_loss(log_q, target, reduction="none"), terms.sum(-1))
    check_grads(nn.kl_div_loss, (log_q, target), 2)
    impossible = nn.kl_div_loss(np.array([0.0, -np.inf]), np.array([1.0, 0.0]))
    assert impossible == 0.0


def _attention(q, k, v, mask):
    logits = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    return np.einsum("hqk,khd->qhd", scipy.special.softmax(np.where(mask, logits, -1e30), -1), v)


def test_attention() -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(4, 2, 3)), rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 2, 6))
    with pytest.raises(ValueError, match="dot_product_attention"):
        nn.dot_product_attention(q, k, v[:, :1])
    v = v[..., :3]
    mask = rng.random((4, 5)) > 0.3
    np.testing.assert_allclose(nn.dot_product_attention(q, k, v), _attention(q, k, v, True), rtol=1e-12)
    np.testing.assert_allclose(nn.dot_product_attention(q, k, v, mask=mask), _attention(q, k, v, mask), rtol=1e-12)
    causal = np.tri(4, 5, dtype=bool)
    np.testing.assert_allclose(
        nn.dot_product_attention(q, k, v, mask=mask, is_causal=True), _attention(q, k, v, mask & causal), rtol=1e-12
    )
    check_grads(lambda *a: nn.dot_product_attention(*a, is_causal=True), (q, k, v), 2)
    batch = [np.stack([x, 2 * x]) for x in (q, k, v)]
    np.testing.assert_allclose(nn.dot_product_attention(*batch), vmap(nn.dot_product_attention)(*batch), rtol=1e-12)
    shared = nn.dot_product_attention(q, k[:, :1], v[:, :1])
    np.testing.assert_allclose(shared, nn.dot_product_attention(q, k[:, [0, 0]], v[:, [0, 0]]), rtol=1e-12)
    bias = rng.normal(size=(2, 4, 5))
    check_grads(lambda *a: nn.dot_product_attention(q, k, v, *a, scale=0.3), (bias,), 1)


def test_attention_of_a_query_that_sees_nothing() -> None:
    q = np.ones((2, 1, 3))
    v = np.arange(6.0).reshape(2, 1, 3)
    mask = np.array([[False, False], [True, False]])
    out, pullback = vjp(lambda q, v: nn.dot_product_attention(q, q, v, mask=mask), q, v)
    np.testing.assert_allclose(out[:, 0], [v.mean((0, 1)), v[0, 0]])
    assert all(np.all(np.isfinite(ct)) for ct in pullback(np.ones_like(out)))


def test_dropout() -> None:
    key, x = random.key(0), np.full((400, 5), 2.0)
    y = nn.dropout(key, x, 0.25)
    assert set(np.unique(y)) == {0.0, 2.0 / 0.75}
    np.testing.assert_allclose(y.mean(), 2.0, rtol=0.05)
    np.testing.assert_array_equal(jit(nn.dropout, static_argnums=2)(key, x, 0.25), y)
    np.testing.assert_array_equal(grad(lambda x: np.sum(nn.dropout(key, x, 0.25)))(x) * 2.0, y)
    rows = nn.dropout(key, x, 0.5, broadcast_axes=1)
    assert np.all(rows == rows[:, :1]) and 0 < np.count_nonzero(rows[:, 0]) < 400
    lanes = vmap(lambda k: nn.dropout(k, x, 0.5))(random.split(key, 3))
    np.testing.assert_array_equal(lanes[1], nn.dropout(random.split(key, 3)[1], x, 0.5))
    assert nn.dropout(None, x, 0.25, deterministic=True) is x and nn.dropout(None, x, 0.0) is x
    assert np.all(nn.dropout(key, x, 1.0) == 0.0)
    for rate in (0.5, np.float64(0.5), np.array(0.5)):
        for dtype in (np.float16, np.float32, np.complex64):
            assert nn.dropout(key, x.astype(dtype), rate).dtype == dtype
    for given in (x, x.astype(np.float32)):  # a traced rate scales what is left
        slope = grad(lambda rate, x: np.sum(nn.dropout(key, x, rate)))(0.25, given)
        np.testing.assert_allclose(slope, np.sum(y) / 0.75, rtol=1e-6)
    np.testing.assert_array_equal(jit(nn.dropout)(key, x, 0.25), y)
    with pytest.raises(ValueError, match="rate"):
        nn.dropout(key, x, 1.5)
    with pytest.raises(TypeError, match="key"):
        nn.dropout(None, x)

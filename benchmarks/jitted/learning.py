"""Networks and their training: convolutions, attention, gates, labels, Adam on many leaves, graphs, clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.jitted.program import Library, Program, draws


def cnn(lib: Library) -> Callable[..., Any]:
    """Two convolutions with pooling, a dense layer, cross-entropy by labels."""
    np = lib.np

    def convolved(x: Any, kernel: Any) -> Any:
        y = np.maximum(lib.lax.conv_general_dilated(x, kernel, (1, 1), "SAME"), 0.0)
        n, channels, height, width = y.shape
        return np.max(np.reshape(y, (n, channels, height // 2, 2, width // 2, 2)), axis=(3, 5))

    def loss(params: Any, x: Any, labels: Any) -> Any:
        first, second, dense = params
        y = convolved(convolved(x, first), second)
        z = np.reshape(y, (y.shape[0], -1)) @ dense
        z = z - lib.special.logsumexp(z, axis=1, keepdims=True)
        return -np.mean(np.take_along_axis(z, labels[:, None], axis=1))

    return loss


def cnn_data(dtype: Any) -> tuple:
    draw = draws(1, dtype)
    params = draw(8, 1, 3, 3, scale=0.3), draw(16, 8, 3, 3, scale=0.1), draw(16 * 49, 10, scale=0.05)
    return params, draw(16, 1, 28, 28), numpy.arange(16) % 10


def transformer(lib: Library) -> Callable[..., Any]:
    """A block of attention with four heads and a gated pair of layers, normalised before each."""
    np = lib.np
    heads = 4

    def normal(x: Any) -> Any:
        away = x - np.mean(x, axis=-1, keepdims=True)
        return away / np.sqrt(np.mean(away * away, axis=-1, keepdims=True) + 1e-5)

    def loss(params: Any, x: Any) -> Any:
        queries, keys, values, out, wide, narrow = params
        n, d = x.shape
        split = lambda y: np.transpose(np.reshape(y, (n, heads, d // heads)), (1, 0, 2))
        y = normal(x)
        q, k, v = split(y @ queries), split(y @ keys), split(y @ values)
        scores = q @ np.transpose(k, (0, 2, 1)) / numpy.sqrt(d // heads).astype(x.dtype)
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        weights = weights / np.sum(weights, axis=-1, keepdims=True)
        x = x + np.reshape(np.transpose(weights @ v, (1, 0, 2)), (n, d)) @ out
        y = normal(x) @ wide
        x = x + (0.5 * y * (1.0 + np.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))) @ narrow
        return np.mean(x * x)

    return loss


def transformer_data(dtype: Any) -> tuple:
    draw = draws(2, dtype)
    d = 64
    return (*[draw(d, d, scale=0.1) for _ in range(4)], draw(d, 4 * d, scale=0.1), draw(4 * d, d, scale=0.1)), draw(128, d)


def _gated(cell: Callable[..., Any]) -> Callable[[Library], Callable[..., Any]]:
    """A loss of a recurrent cell over the steps of a scan."""

    def function(lib: Library) -> Callable[..., Any]:
        np = lib.np

        def loss(params: Any, xs: Any) -> Any:
            size = params[1].shape[0]
            start = np.zeros((xs.shape[1], size), xs.dtype)

            def step(state: Any, x: Any) -> Any:
                state = cell(np, params, state, x)
                return state, np.sum(state[0] * state[0])

            return np.mean(lib.lax.scan(step, (start, start), xs)[1])

        return loss

    return function


def _lstm(np: Any, params: Any, state: Any, x: Any) -> Any:
    given, recurrent, bias = params
    h, c = state
    size = h.shape[1]
    z = x @ given + h @ recurrent + bias
    sigmoid = lambda y: 1.0 / (1.0 + np.exp(-y))
    c = sigmoid(z[:, size : 2 * size]) * c + sigmoid(z[:, :size]) * np.tanh(z[:, 2 * size : 3 * size])
    return sigmoid(z[:, 3 * size :]) * np.tanh(c), c


def _gru(np: Any, params: Any, state: Any, x: Any) -> Any:
    given, recurrent, bias = params
    h, unused = state
    size = h.shape[1]
    a, b = x @ given + bias, h @ recurrent
    gates = 1.0 / (1.0 + np.exp(-(a[:, : 2 * size] + b[:, : 2 * size])))
    candidate = np.tanh(a[:, 2 * size :] + gates[:, :size] * b[:, 2 * size :])
    return h + gates[:, size:] * (candidate - h), unused


def gates_data(count: int) -> Callable[[Any], tuple]:
    def data(dtype: Any) -> tuple:
        draw = draws(3, dtype)
        return (draw(16, 32 * count, scale=0.2), draw(32, 32 * count, scale=0.2), draw(32 * count)), draw(100, 8, 16)

    return data


def labelled(lib: Library) -> Callable[..., Any]:
    """Softmax cross-entropy: the one logit of each row picked by its label."""
    np = lib.np

    def loss(z: Any, labels: Any) -> Any:
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(z.shape[0]), labels])

    return loss


def labelled_data(dtype: Any) -> tuple:
    return draws(4, dtype)(2000, 200), numpy.random.default_rng(4).integers(0, 200, 2000)


def adam(lib: Library) -> Callable[..., Any]:
    """One step of Adam on a pytree of 200 leaves."""
    np = lib.np

    def step(params: Any, grads: Any, first: Any, second: Any) -> Any:
        first = lib.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = lib.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        params = lib.map(lambda p, m, v: p - 0.001 * m / (np.sqrt(v) + 1e-8), params, first, second)
        return params, first, second

    return step


def adam_data(dtype: Any) -> tuple:
    draw = draws(5, dtype)
    tree = lambda: [{"w": draw(20, 20), "b": draw(20)} for _ in range(100)]
    return tree(), tree(), tree(), [{"w": numpy.abs(leaf["w"]), "b": numpy.abs(leaf["b"])} for leaf in tree()]


def graph(lib: Library) -> Callable[..., Any]:
    """Two layers of graph convolution: features gathered along edges and summed by receiver."""
    np = lib.np

    def loss(params: Any, x: Any, senders: Any, receivers: Any) -> Any:
        for w in params:
            messages = (x @ w)[senders]
            x = np.tanh(lib.segment_sum(messages, receivers, num_segments=x.shape[0]))
        return np.mean(x * x)

    return loss


def graph_data(dtype: Any) -> tuple:
    draw, random = draws(6, dtype), numpy.random.default_rng(6)
    return (draw(32, 32, scale=0.1), draw(32, 16, scale=0.1)), draw(1000, 32), *random.integers(0, 1000, (2, 5000))


def clusters(lib: Library) -> Callable[..., Any]:
    """Ten rounds of k-means, sums by segment."""
    np = lib.np

    def fit(centres: Any, points: Any) -> Any:
        def turn(_: Any, centres: Any) -> Any:
            distances = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2)
            nearest = np.argmin(distances, axis=1)
            counts = lib.segment_sum(np.ones(points.shape[0], points.dtype), nearest, num_segments=8)
            return lib.segment_sum(points, nearest, num_segments=8) / np.maximum(counts, 1.0)[:, None]

        return lib.lax.fori_loop(0, 10, turn, centres)

    return fit


def clusters_data(dtype: Any) -> tuple:
    points = draws(7, dtype)(2000, 3)
    return points[:8], points


PROGRAMS = [
    Program("CNN", cnn, cnn_data),
    Program("transformer block", transformer, transformer_data),
    Program("LSTM, 100 steps", _gated(_lstm), gates_data(4)),
    Program("GRU, 100 steps", _gated(_gru), gates_data(3)),
    Program("cross-entropy by labels", labelled, labelled_data),
    Program("Adam, 200 leaves", adam, adam_data, gradient=False),
    Program("graph convolution", graph, graph_data),
    Program("k-means", clusters, clusters_data, gradient=False),
]

"""Layers of networks whose results are written into buffers."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import normal, program, uniform


def _relu(x):
    return np.maximum(x, 0)


def _softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def _conv2d(images, weights):
    size = weights.shape[0]
    n, h, w = images.shape[0], images.shape[1] - size + 1, images.shape[2] - size + 1
    out = np.empty((n, h, w, weights.shape[3]), dtype=images.dtype)
    for i in range(h):
        for j in range(w):
            patch = images[:, i : i + size, j : j + size, :, np.newaxis]
            out[:, i, j, :] = np.sum(patch * weights[np.newaxis, :, :, :], axis=(1, 2, 3))
    return out


def _maxpool2d(x):
    out = np.empty([x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]], dtype=x.dtype)
    for i in range(x.shape[1] // 2):
        for j in range(x.shape[2] // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def _batch_norm(x, eps=0.05):
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(std + eps)


@program(normal(2, 3, 4))
def softmax(x):
    top = np.max(x, axis=-1, keepdims=True)
    out = np.exp(x - top)
    total = np.sum(out, axis=-1, keepdims=True)
    return out / total


@program(normal(3, 4))
def softmax_in_place(x):
    x -= np.max(x, axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= np.sum(x, axis=-1, keepdims=True)


@program(normal(2, 3), normal(3, 4), normal(4), normal(4, 4), normal(4), normal(4, 2), normal(2), smooth=False)
def mlp(x, w1, b1, w2, b2, w3, b3):
    x = _relu(x @ w1 + b1)
    x = _relu(x @ w2 + b2)
    return _softmax(x @ w3 + b3)


@program(normal(3, 3), [4, 2], normal(3, 4), normal(4, 2))
def mlp_with_buffers(x, sizes, w1, w2):
    """Activations of every layer are kept in one workspace."""
    work = np.zeros((len(x), sum(sizes)))
    hidden, last = work[:, : sizes[0]], work[:, sizes[0] :]
    np.matmul(x, w1, out=hidden)
    np.tanh(hidden, out=hidden)
    np.matmul(hidden, w2, out=last)
    return work


@program(uniform(1, 8, 8, 1), *[normal(*s) for s in ((3, 3, 1, 2), (2,), (2, 2, 2, 2), (2,), (2, 3), (3,))], smooth=False)
def lenet(x, conv1, b1, conv2, b2, fc, b3):
    x = _maxpool2d(_relu(_conv2d(x, conv1) + b1))
    x = _relu(_conv2d(x, conv2) + b2)
    x = _maxpool2d(x)
    x = np.reshape(x, (x.shape[0], -1))
    return x @ fc + b3


@program(uniform(2, 2, 3, 2), normal(1, 1, 2, 3), normal(3, 3, 3, 3), normal(1, 1, 3, 2), smooth=False)
def resnet(x, conv1, conv2, conv3):
    padded = np.zeros((x.shape[0], x.shape[1] + 2, x.shape[2] + 2, conv1.shape[3]))
    padded[:, 1:-1, 1:-1, :] = _conv2d(x, conv1)
    x1 = _relu(_batch_norm(padded))
    x2 = _relu(_batch_norm(_conv2d(x1, conv2)))
    return _relu(_batch_norm(_conv2d(x2, conv3)) + x)


@program(normal(4, 2), normal(2, 12), normal(3, 12), normal(12))
def lstm(xs, w, u, b):
    n = 3
    h, c = np.zeros(n), np.zeros(n)
    out = np.empty((len(xs), n))
    for t, x in enumerate(xs):
        gates = x @ w + h @ u + b
        gates[: 3 * n] = 1.0 / (1.0 + np.exp(-gates[: 3 * n]))
        np.tanh(gates[3 * n :], out=gates[3 * n :])
        i, f, o, g = gates.reshape(4, n)
        c *= f
        c += i * g
        h[:] = o * np.tanh(c)
        out[t] = h
    return out


@program(normal(4, 2), normal(2, 3), normal(3, 3))
def recurrent_network(xs, w, u):
    states = np.zeros((len(xs) + 1, 3))
    for t in range(len(xs)):
        states[t + 1] = np.tanh(xs[t] @ w + states[t] @ u)
    return states[1:]


@program(normal(3, 4), normal(3, 4), normal(3, 4))
def masked_attention(q, k, v):
    scores = q @ k.T / 2.0
    scores[np.triu_indices(3, 1)] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ v


@program(normal(4, 3), np.array([True, False, True, True]), normal(3))
def rows_left_out(x, keep, filler):
    """A mask that is an argument chooses the rows that are written."""
    x[~keep] = filler
    x[keep] *= 2.0
    return np.tanh(x).sum(axis=0)


@program(normal(2, 5), normal(3))
def convolution_by_loops(signals, taps):
    out = np.zeros((2, 7))
    for n in range(2):
        for i in range(5):
            for j in range(3):
                out[n, i + j] += signals[n, i] * taps[j]
    return out


@program(normal(4, 3), normal(3), normal(3), np.zeros(3))
def running_norm(x, scale, shift, running):
    mean = x.mean(axis=0)
    x -= mean
    spread = np.sqrt(np.mean(x * x, axis=0) + 1e-5)
    x /= spread
    x *= scale
    x += shift
    running *= 0.9
    running += 0.1 * mean


class _Layer:
    def __init__(self, w, b):
        self.w, self.b = w, b
        self.dw, self.db = np.zeros_like(w), np.zeros_like(b)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, d):
        self.dw[...] = self.x.T @ d
        self.db[...] = d.sum(axis=0)
        return d @ self.w.T

    def step(self, rate):
        self.w -= rate * self.dw
        self.b -= rate * self.db


@program(normal(4, 2), normal(4, 1), normal(2, 3), normal(3), normal(3, 1), normal(1), 2)
def backpropagation_by_hand(x, y, w1, b1, w2, b2, steps):
    """A network that trains itself: its layers keep parameters and slopes, and write both."""
    first, second = _Layer(w1, b1), _Layer(w2, b2)
    losses = np.zeros(steps)
    for i in range(steps):
        hidden = np.tanh(first.forward(x))
        error = second.forward(hidden) - y
        losses[i] = np.mean(error**2)
        d = second.backward(2.0 * error / len(x))
        d *= 1.0 - hidden**2
        first.backward(d)
        first.step(0.1)
        second.step(0.1)
    return losses


@program(normal(5, 3), np.array([0, 2, 1, 2, 0]))
def cross_entropy(logits, labels):
    loss = np.array(0.0)
    for row, label in zip(logits, labels):
        top = row.max()
        loss += top + np.log(np.sum(np.exp(row - top)))
        loss -= row[label]
    loss /= len(labels)
    return loss


@program(normal(4, 2), np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]), normal(2, 2))
def graph_convolution(features, edges, weights):
    messages = np.zeros_like(features)
    degree = np.zeros(4)
    np.add.at(messages, edges[:, 1], features[edges[:, 0]])
    np.add.at(degree, edges[:, 1], 1.0)
    messages /= np.maximum(degree, 1.0)[:, None]
    features[:] = messages @ weights


@program(normal(6), 3)
def positional_table(x, n):
    table = np.zeros((n, 6))
    place = np.arange(n)[:, None]
    table[:, 0::2] = np.sin(place / 10.0 ** np.arange(3)) * x[0::2]
    table[:, 1::2] = np.cos(place / 10.0 ** np.arange(3)) * x[1::2]
    return table

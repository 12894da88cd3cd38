"""W2: value and gradient of a small network's loss (batch of 32, layers 64-64-10), un-jitted and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.harness import Row, Target, main
from benchmarks.workload import Workload, rows


def function(np: Any) -> Callable[..., Any]:
    """The loss, written with a library's NumPy; funcad takes NumPy itself."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        w, b, v, c = params
        z = np.dot(np.tanh(np.dot(x, w) + b), v) + c
        z = z - np.max(z, axis=1, keepdims=True)
        log_likelihood = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return -np.mean(np.sum(y * log_likelihood, axis=1))

    return loss


def torch_function(torch: Any) -> Callable[..., Any]:
    def loss(params: Any, x: Any, y: Any) -> Any:
        w, b, v, c = params
        z = torch.tanh(x @ w + b) @ v + c
        return torch.nn.functional.cross_entropy(z, y)

    return loss


def by_hand(params: Any, x: Any, y: Any) -> Any:
    w, b, v, c = params
    h = numpy.tanh(x @ w + b)
    z = h @ v + c
    z -= z.max(axis=1, keepdims=True)
    e = numpy.exp(z)
    s = e.sum(axis=1, keepdims=True)
    value = -numpy.mean(numpy.sum(y * (z - numpy.log(s)), axis=1))
    dz = (e / s - y) / len(x)
    dh = (dz @ v.T) * (1.0 - h * h)
    return value, (x.T @ dh, dh.sum(axis=0), h.T @ dz, dz.sum(axis=0))


def data(dtype: Any) -> tuple[Any, ...]:
    random = numpy.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(dtype)
    params = draw(64, 64) / 8, numpy.zeros(64, dtype), draw(64, 10) / 8, numpy.zeros(10, dtype)
    return params, draw(32, 64), numpy.eye(10, dtype=dtype)[random.integers(0, 10, 32)]


def run(rounds: int) -> list[Row]:
    target = Target("torch", None, 1.0)
    plain = Workload("W2 value_and_grad, un-jitted", function, data, "value_and_grad", target, torch_function)
    jitted = plain._replace(what="W2 value_and_grad, jitted call", target=Target("jax", 0.8, 0.35), by_hand=by_hand)
    return rows([plain._replace(jitted=False), jitted], rounds)


if __name__ == "__main__":
    main(run, __doc__)

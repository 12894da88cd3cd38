"""W6: softmax cross-entropy, value and gradient, on 4,096 x 1,000."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.harness import Row, Target, main
from benchmarks.workload import Workload, rows


def loss(np: Any) -> Callable[..., Any]:
    def f(z: Any, y: Any) -> Any:
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(z * y, axis=1))

    return f


def torch_loss(torch: Any) -> Callable[..., Any]:
    return lambda z, y: torch.nn.functional.cross_entropy(z, y)


def by_hand(z: Any, y: Any) -> Any:
    z = z - z.max(axis=1, keepdims=True)
    e = numpy.exp(z)
    s = e.sum(axis=1, keepdims=True)
    value = numpy.mean(numpy.log(s[:, 0]) - numpy.sum(z * y, axis=1))
    e /= s
    e -= y
    e /= len(z)
    return value, e


def data(dtype: Any) -> tuple:
    random = numpy.random.default_rng(0)
    z = random.normal(size=(4096, 1000)).astype(dtype)
    y = numpy.zeros_like(z)
    y[numpy.arange(4096), random.integers(0, 1000, 4096)] = 1
    return z, y


def run(rounds: int) -> list[Row]:
    target = Target("torch", 0.9, 0.3)
    workload = Workload("W6 softmax cross-entropy", loss, data, "value_and_grad", target, torch_loss, by_hand)
    return rows([workload], min(rounds, 9))


if __name__ == "__main__":
    main(run, __doc__)

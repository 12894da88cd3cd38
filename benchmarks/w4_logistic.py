"""W4: value and gradient of logistic regression on 100,000 x 100; W5: its Hessian-vector product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.harness import Row, Target, main
from benchmarks.workload import Workload, rows


def loss(np: Any) -> Callable[..., Any]:
    def f(w: Any, X: Any, y: Any) -> Any:
        z = np.dot(X, w)
        return np.mean(np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0.0) - y * z)

    return f


def torch_loss(torch: Any) -> Callable[..., Any]:
    return lambda w, X, y: torch.nn.functional.binary_cross_entropy_with_logits(X @ w, y)


def by_hand(w: Any, X: Any, y: Any) -> Any:
    z = X @ w
    e = numpy.exp(-numpy.abs(z))
    value = numpy.mean(numpy.log1p(e) + numpy.maximum(z, 0.0) - y * z)
    p = numpy.where(z >= 0, 1.0, e) / (1.0 + e)
    return value, ((p - y) / len(y)).astype(X.dtype) @ X


def hvp_by_hand(w: Any, v: Any, X: Any, y: Any) -> Any:
    e = numpy.exp(-numpy.abs(X @ w))
    return ((e / (1.0 + e) ** 2 * (X @ v)) / len(y)).astype(X.dtype) @ X


def data(dtype: Any) -> tuple:
    random = numpy.random.default_rng(0)
    X = random.normal(size=(100_000, 100)).astype(dtype)
    return (random.normal(size=100) / 10).astype(dtype), X, (random.random(100_000) < 0.5).astype(dtype)


def data_with_direction(dtype: Any) -> tuple:
    w, X, y = data(dtype)
    return w, numpy.random.default_rng(1).normal(size=100).astype(dtype), X, y


def run(rounds: int) -> list[Row]:
    target = Target("jax", 0.75, 0.3)
    return rows(
        [
            Workload("W4 logistic regression", loss, data, "value_and_grad", target, torch_loss, by_hand),
            Workload("W5 its HVP", loss, data_with_direction, "hvp", target, torch_loss, hvp_by_hand),
        ],
        min(rounds, 9),
    )


if __name__ == "__main__":
    main(run, __doc__)

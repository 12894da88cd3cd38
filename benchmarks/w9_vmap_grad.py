"""W9: vmap(grad(f)) of a function of four numbers over 100,000 points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.harness import Row, Target, main
from benchmarks.workload import Workload, rows


def rosenbrock(np: Any) -> Callable[[Any], Any]:
    """Over the last axis, so that autograd, which has no vmap, can take the whole batch."""
    return lambda x: np.sum(100.0 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1.0 - x[..., :-1]) ** 2, axis=-1)


def torch_rosenbrock(torch: Any) -> Callable[[Any], Any]:
    return lambda x: (100.0 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1.0 - x[..., :-1]) ** 2).sum(-1)


def by_hand(x: Any) -> Any:
    left, right = x[:, :-1], x[:, 1:]
    inner = right - left**2
    g = numpy.zeros_like(x)
    g[:, :-1] = -400.0 * left * inner - 2.0 * (1.0 - left)
    g[:, 1:] += 200.0 * inner
    return g


def data(dtype: Any) -> tuple:
    return (numpy.random.default_rng(0).normal(size=(100_000, 4)).astype(dtype),)


def run(rounds: int) -> list[Row]:
    target = Target("jax", 1.5, 0.4)
    workload = Workload("W9 vmap(grad) over 100,000", rosenbrock, data, "vmap_grad", target, torch_rosenbrock, by_hand)
    return rows([workload], rounds, compiled_torch=False)


if __name__ == "__main__":
    main(run, __doc__)

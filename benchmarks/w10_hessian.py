"""W10: the Hessian of the Rosenbrock function in 100 dimensions."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.harness import Row, Target, main
from benchmarks.w9_vmap_grad import rosenbrock, torch_rosenbrock
from benchmarks.workload import Workload, rows


def by_hand(x: Any) -> Any:
    n = len(x)
    h = numpy.zeros((n, n), x.dtype)
    left, right = x[:-1], x[1:]
    diagonal = numpy.zeros(n, x.dtype)
    diagonal[:-1] = 1200.0 * left**2 - 400.0 * right + 2.0
    diagonal[1:] += 200.0
    flat = h.reshape(-1)
    flat[:: n + 1] = diagonal
    flat[1 :: n + 1] = -400.0 * left
    flat[n :: n + 1] = -400.0 * left
    return h


def data(dtype: Any) -> tuple:
    return (numpy.random.default_rng(0).uniform(-1.0, 1.0, 100).astype(dtype),)


def run(rounds: int) -> list[Row]:
    target = Target("jax", 3.0, 0.5)
    workload = Workload("W10 Hessian, d=100", rosenbrock, data, "hessian", target, torch_rosenbrock, by_hand)
    return rows([workload], rounds, compiled_torch=False)


if __name__ == "__main__":
    main(run, __doc__)

"""W8: the gradient of a recurrent network over 1,000 small steps, as a scan (autograd and torch: a Python loop)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, Target, main, peer
from benchmarks.workload import Workload, rows


def loss(np: Any) -> Callable[..., Any]:
    jax = peer("jax")
    scan = jax.lax.scan if jax and np is jax.numpy else funcad.scan if np is numpy else None

    def step(parameters: Any, h: Any, x: Any) -> Any:
        recurrent, given, bias = parameters
        return np.tanh(np.dot(recurrent, h) + np.dot(given, x) + bias)

    def f(parameters: Any, xs: Any) -> Any:
        h = np.zeros(32, xs.dtype)
        if scan is None:
            total = 0.0
            for x in xs:
                h = step(parameters, h, x)
                total = total + np.sum(h * h)
            return total

        def body(h: Any, x: Any) -> Any:
            h = step(parameters, h, x)
            return h, np.sum(h * h)

        return np.sum(scan(body, h, xs)[1])

    return f


def torch_loss(torch: Any) -> Callable[..., Any]:
    def f(parameters: Any, xs: Any) -> Any:
        recurrent, given, bias = parameters
        h, total = torch.zeros(32, dtype=xs.dtype), 0.0
        for x in xs:
            h = torch.tanh(recurrent @ h + given @ x + bias)
            total = total + (h * h).sum()
        return total

    return f


def by_hand(parameters: Any, xs: Any) -> Any:
    recurrent, given, bias = parameters
    n = len(xs)
    hs = numpy.zeros((n + 1, 32), xs.dtype)
    inputs = xs @ given.T + bias
    for t in range(n):
        numpy.tanh(recurrent @ hs[t] + inputs[t], out=hs[t + 1])
    ks = numpy.empty((n, 32), xs.dtype)
    ct = numpy.zeros(32, xs.dtype)
    slope = 1.0 - hs[1:] ** 2
    for t in range(n - 1, -1, -1):
        numpy.multiply(ct + 2.0 * hs[t + 1], slope[t], out=ks[t])
        ct = ks[t] @ recurrent
    return ks.T @ hs[:-1], ks.T @ xs, ks.sum(axis=0)


def data(dtype: Any) -> tuple:
    random = numpy.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(dtype)
    return (draw(32, 32) / 8, draw(32, 8) / 4, draw(32)), draw(1000, 8)


def run(rounds: int) -> list[Row]:
    workload = Workload("W8 RNN of 1,000 steps", loss, data, "grad", Target("jax", 3.0, 0.4), torch_loss, by_hand)
    return rows([workload._replace(tolerance=100.0)], rounds, compiled_torch=False)  # a thousand steps take minutes to compile


if __name__ == "__main__":
    main(run, __doc__)

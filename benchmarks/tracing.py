"""What tracing and deriving cost per operation: is it small, and does it stay so for long programs?"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, main, peer
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_jaxpr
from funcad.transforms.linearize import linearize_jaxpr
from funcad.transforms.transpose import transpose_jaxpr

LENGTHS = (1_000, 5_000, 20_000)


def chain(np: Any, n: int) -> Callable[[Any], Any]:
    """A program of n operations."""

    def f(x: Any) -> Any:
        for _ in range(n // 4):
            x = np.sin(x) * 0.5 + x * 1.01
        return x

    return f


def per_operation(n: int, setup: Callable[[int], Any], f: Callable[[Any], Any], rounds: int) -> float:
    """Median seconds of f(setup(n)) over n; setup is not timed. Each round gives f something it has not seen."""
    seconds = []
    for _ in range(rounds):
        given = setup(n)
        start = time.perf_counter()
        f(given)
        seconds.append(time.perf_counter() - start)
    return median(seconds) / n


def fresh_jaxpr(n: int) -> Any:
    """A traced program on which nothing has been derived yet."""
    return funcad.jit(chain(numpy, n)).lower(numpy.ones(3)).jaxpr


def transpose(linear: Any) -> Any:
    n = len(linear.in_avals)
    return transpose_jaxpr(linear, (False,) * (n - 1) + (True,), (True,))


DERIVATIONS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "jvp": (fresh_jaxpr, lambda jaxpr: jvp_jaxpr(jaxpr, (True,))),
    "linearize": (fresh_jaxpr, lambda jaxpr: linearize_jaxpr(jaxpr, (True,))),
    "transpose": (lambda n: linearize_jaxpr(fresh_jaxpr(n), (True,)).linear, transpose),
    "batch": (fresh_jaxpr, lambda jaxpr: batch_jaxpr(jaxpr, 4, (True,))),
}


def run(rounds: int) -> list[Row]:
    """Whole programs take seconds: a fifth of the rounds, and JAX and autograd at 1,000 operations only."""
    rounds = max(3, rounds // 5)
    autograd, jax = peer("autograd"), peer("jax")
    x = numpy.ones(3)
    rows = []
    for n in LENGTHS:
        values = {"funcad": per_operation(n, lambda n: chain(numpy, n), lambda f: funcad.jit(f).lower(x), rounds)}
        if jax and n == LENGTHS[0]:
            values["jax"] = per_operation(n, lambda n: chain(jax.numpy, n), lambda f: jax.make_jaxpr(f)(x), rounds)
        rows.append(Row(f"trace, per operation of {n:,}", values))
    for what, (setup, derive) in DERIVATIONS.items():
        for n in LENGTHS:
            cost = per_operation(n, setup, derive, rounds)
            rows.append(Row(f"{what}, per equation of {n:,}", {"funcad": cost}))
    for n in (1_000, 100_000):
        values = {"funcad": per_operation(n, lambda n: chain(numpy, n), lambda f: funcad.grad(f)(1.0), rounds)}
        if autograd:
            import autograd.numpy as anp

            values["autograd"] = per_operation(n, lambda n: chain(anp, n), lambda f: autograd.grad(f)(1.0), rounds)
        if jax and n == 1_000:
            values["jax"] = per_operation(n, lambda n: chain(jax.numpy, n), lambda f: jax.grad(f)(1.0), 3)
        rows.append(Row(f"un-jitted grad of a Python loop, per operation of {n:,}", values))
    return rows


if __name__ == "__main__":
    main(run, __doc__)

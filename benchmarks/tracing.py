"""What tracing and deriving cost per operation: is it small, and does it stay so for long programs?"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy

import funcad
from benchmarks.harness import Row, main, peer
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_jaxpr
from funcad.transforms.partial import linearize_jaxpr
from funcad.transforms.transpose import transpose_jaxpr

LENGTHS = (1_000, 5_000, 20_000)


def chain(np: Any, n: int) -> Callable[[Any], Any]:
    """A program of n operations."""

    def f(x: Any) -> Any:
        for _ in range(n // 4):
            x = np.sin(x) * 0.5 + x * 1.01
        return x

    return f


class Job(NamedTuple):
    """One measurement: `f(setup(n))`, of which f is timed. Each round gives f something that it has not seen."""

    what: str
    library: str
    n: int
    setup: Callable[[int], Any]
    f: Callable[[Any], Any]


def measured(jobs: list[Job], rounds: int) -> list[Row]:
    """A row per `what`: median seconds over n, the jobs taking turns."""
    seconds: list[list[float]] = [[] for _ in jobs]
    for _ in range(rounds):
        for job, found in zip(jobs, seconds):
            given = job.setup(job.n)
            gc.collect()  # so that nobody pays for another's garbage
            start = time.perf_counter()
            job.f(given)
            found.append(time.perf_counter() - start)
    rows: dict[str, dict[str, float]] = {}
    for job, found in zip(jobs, seconds):
        rows.setdefault(job.what, {})[job.library] = median(found) / job.n
    return [Row(what, values) for what, values in rows.items()]


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
    """Whole programs take seconds: a third of the rounds, and JAX at 1,000 operations only."""
    autograd, jax = peer("autograd"), peer("jax")
    x = numpy.ones(3)
    jobs = []
    for n in LENGTHS:
        what = f"trace, per operation of {n:,}"
        jobs.append(Job(what, "funcad", n, lambda n: chain(numpy, n), lambda f: funcad.make_jaxpr(f)(x)))
        if jax and n == LENGTHS[0]:
            jobs.append(Job(what, "jax", n, lambda n: chain(jax.numpy, n), lambda f: jax.make_jaxpr(f)(x)))
    for name, (setup, derive) in DERIVATIONS.items():
        jobs += [Job(f"{name}, per equation of {n:,}", "funcad", n, setup, derive) for n in LENGTHS]
    for n in (1_000, 100_000):
        what = f"un-jitted grad of a Python loop, per operation of {n:,}"
        jobs.append(Job(what, "funcad", n, lambda n: chain(numpy, n), lambda f: funcad.grad(f)(1.0)))
        if autograd:
            import autograd.numpy as anp

            jobs.append(Job(what, "autograd", n, lambda n: chain(anp, n), lambda f: autograd.grad(f)(1.0)))
        if jax and n == 1_000:
            jobs.append(Job(what, "jax", n, lambda n: chain(jax.numpy, n), lambda f: jax.grad(f)(1.0)))
    return measured(jobs, max(3, rounds // 3))


if __name__ == "__main__":
    main(run, __doc__)

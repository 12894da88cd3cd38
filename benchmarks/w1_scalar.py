"""W1: the gradient of a scalar function of ten operations, un-jitted and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, Target, main, measure, peer
from benchmarks.workload import Workload, candidates


def function(np: Any) -> Callable[[Any], Any]:
    """The function, written with a library's NumPy; funcad takes NumPy itself."""

    def f(x: Any) -> Any:
        e = np.exp(-2.0 * x)
        t = (1.0 - e) / (1.0 + e)
        u = t * t + np.sin(x) * 0.5
        return u * t - x

    return f


def jitted_by_numba(numba: Any) -> Callable[[float], float]:
    """The gradient written out, since numba has none."""
    import math

    @numba.njit
    def g(x: float) -> float:
        e = math.exp(-2.0 * x)
        t = (1.0 - e) / (1.0 + e)
        u = t * t + math.sin(x) * 0.5
        dt = 4.0 * e / ((1.0 + e) * (1.0 + e))
        return (2.0 * t * dt + math.cos(x) * 0.5) * t + u * dt - 1.0

    return g


def second(rounds: int) -> Row:
    """The gradient of the gradient, un-jitted."""
    autograd, jax = peer("autograd"), peer("jax")
    calls: dict[str, Any] = {"funcad": funcad.grad(funcad.grad(function(numpy)))}
    if autograd:
        import autograd.numpy as anp

        calls["autograd"] = autograd.grad(autograd.grad(function(anp)))
    if jax:
        calls["jax"] = jax.grad(jax.grad(function(jax.numpy)))
    return measure("W1 grad of grad, un-jitted", {n: lambda f=f: jax_wait(f(0.5)) for n, f in calls.items()}, rounds)


def jax_wait(x: Any) -> Any:
    return x.block_until_ready() if hasattr(x, "block_until_ready") else x


def run(rounds: int) -> list[Row]:
    data = lambda dtype: (0.5,)
    plain = Workload("W1 grad", function, data, "grad", torch=function, jitted=False)
    jitted = Workload("W1 grad, jitted call", function, data, "grad", torch=function, others={"numba": jitted_by_numba})
    first = measure(plain.what, candidates(plain, numpy.float64, False), rounds)
    call = measure(jitted.what, candidates(jitted, numpy.float64, False), rounds)
    return [
        first._replace(what="W1 grad, un-jitted", target=Target("torch", None, 0.35)),
        second(rounds),
        call._replace(target=Target("jax", 0.3, 0.05)),
    ]


if __name__ == "__main__":
    main(run, __doc__)

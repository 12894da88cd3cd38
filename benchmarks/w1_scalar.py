"""W1: the gradient of a scalar function of ten operations, un-jitted and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, main, measure, peer


def function(np: Any) -> Callable[[Any], Any]:
    """The function, written with a library's NumPy; funcad takes NumPy itself."""

    def f(x: Any) -> Any:
        e = np.exp(-2.0 * x)
        t = (1.0 - e) / (1.0 + e)
        u = t * t + np.sin(x) * 0.5
        return u * t - x

    return f


def run(rounds: int) -> list[Row]:
    autograd, jax = peer("autograd"), peer("jax")
    f = function(numpy)
    ours, ours_second, ours_jitted = funcad.grad(f), funcad.grad(funcad.grad(f)), funcad.jit(funcad.grad(f))
    theirs = theirs_second = jax_plain = jax_second = jax_jitted = None
    if autograd:
        import autograd.numpy as anp

        g = autograd.grad(function(anp))
        h = autograd.grad(g)
        theirs, theirs_second = lambda: g(0.5), lambda: h(0.5)
    if jax:
        k = jax.grad(function(jax.numpy))
        kk, kj = jax.grad(k), jax.jit(k)
        jax_plain, jax_second = lambda: k(0.5).block_until_ready(), lambda: kk(0.5).block_until_ready()
        jax_jitted = lambda: kj(0.5).block_until_ready()
    return [
        measure("W1 grad, un-jitted", {"funcad": lambda: ours(0.5), "autograd": theirs, "jax": jax_plain}, rounds),
        measure(
            "W1 grad of grad, un-jitted",
            {"funcad": lambda: ours_second(0.5), "autograd": theirs_second, "jax": jax_second},
            rounds,
        ),
        measure("W1 grad, jitted call", {"funcad": lambda: ours_jitted(0.5), "jax": jax_jitted}, rounds),
    ]


if __name__ == "__main__":
    main(run, __doc__)

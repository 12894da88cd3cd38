"""W2: value and gradient of a small network's loss (batch of 32, layers 64-64-10), un-jitted and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, main, measure, peer


def function(np: Any) -> Callable[..., Any]:
    """The loss, written with a library's NumPy; funcad takes NumPy itself."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        w, b, v, c = params
        z = np.dot(np.tanh(np.dot(x, w) + b), v) + c
        z = z - np.max(z, axis=1, keepdims=True)
        log_likelihood = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return -np.mean(np.sum(y * log_likelihood, axis=1))

    return loss


def data() -> tuple[Any, ...]:
    random = numpy.random.default_rng(0)
    params = random.normal(size=(64, 64)) / 8, numpy.zeros(64), random.normal(size=(64, 10)) / 8, numpy.zeros(10)
    return params, random.normal(size=(32, 64)), numpy.eye(10)[random.integers(0, 10, 32)]


def run(rounds: int) -> list[Row]:
    autograd, jax = peer("autograd"), peer("jax")
    arguments = data()
    ours = funcad.value_and_grad(function(numpy))
    ours_jitted = funcad.jit(ours)
    theirs = jax_plain = jax_jitted = None
    if autograd:
        import autograd.numpy as anp

        g = autograd.value_and_grad(function(anp))
        theirs = lambda: g(*arguments)
    if jax:
        k = jax.value_and_grad(function(jax.numpy))
        kj = jax.jit(k)
        on_device = jax.tree.map(jax.numpy.asarray, arguments)
        jax_plain = lambda: jax.block_until_ready(k(*on_device))
        jax_jitted = lambda: jax.block_until_ready(kj(*on_device))
    return [
        measure(
            "W2 value_and_grad, un-jitted", {"funcad": lambda: ours(*arguments), "autograd": theirs, "jax": jax_plain}, rounds
        ),
        measure("W2 value_and_grad, jitted call", {"funcad": lambda: ours_jitted(*arguments), "jax": jax_jitted}, rounds),
    ]


if __name__ == "__main__":
    main(run, __doc__)

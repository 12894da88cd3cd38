"""Loops: the gradient of a scan of 1,000 small steps, and through a while_loop whose length depends on the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, main, measure, peer


def recurrent(np: Any, scan: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent network with 32 units over 1,000 steps (W8 of the other tables)."""

    def loss(params: Any, xs: Any) -> Any:
        w, u, b = params

        def step(h: Any, x: Any) -> Any:
            h = np.tanh(np.dot(w, h) + np.dot(u, x) + b)
            return h, np.sum(h * h)

        _, ys = scan(step, np.zeros(32), xs)
        return np.sum(ys)

    return loss


def python_scan(np: Any) -> Callable[..., Any]:
    def scan(step: Any, carry: Any, xs: Any) -> Any:
        ys = []
        for x in xs:
            carry, y = step(carry, x)
            ys.append(y)
        return carry, np.stack(ys)

    return scan


def root_by_loop(x: Any) -> Any:
    """The square root by a slow iteration, as a Python loop on values."""
    y = x
    while abs(y * y - x) > 1e-9:
        y = y - 0.02 * (y * y - x)
    return y


def root_by_while(lax: Any) -> Callable[[Any], Any]:
    def root(x: Any) -> Any:
        return lax.while_loop(lambda y: abs(y * y - x) > 1e-9, lambda y: y - 0.02 * (y * y - x), x)

    return root


def data() -> tuple[Any, Any]:
    random = numpy.random.default_rng(0)
    params = random.normal(size=(32, 32)) / 8, random.normal(size=(32, 8)) / 4, random.normal(size=32)
    return params, random.normal(size=(1000, 8))


def run(rounds: int) -> list[Row]:
    autograd, jax = peer("autograd"), peer("jax")
    params, xs = data()
    scan_grad = funcad.grad(recurrent(numpy, funcad.scan))
    scan_jit, loop_grad = funcad.jit(scan_grad), funcad.grad(recurrent(numpy, python_scan(numpy)))
    while_grad, root_grad = funcad.jit(funcad.grad(root_by_while(funcad))), funcad.grad(root_by_loop)
    while_jvp = funcad.jit(lambda x: funcad.jvp(root_by_while(funcad), (x,), (1.0,))[1])
    loop = root = scan_jax = while_jax = None
    if autograd:
        import autograd.numpy as anp

        g, h = autograd.grad(recurrent(anp, python_scan(anp))), autograd.grad(root_by_loop)
        loop, root = lambda: g(params, xs), lambda: h(2.0)
    if jax:
        k = jax.jit(jax.grad(recurrent(jax.numpy, jax.lax.scan)))
        forward = jax.jit(lambda x: jax.jvp(root_by_while(jax.lax), (x,), (1.0,))[1])
        scan_jax = lambda: jax.block_until_ready(k(params, xs))
        while_jax = lambda: forward(2.0).block_until_ready()
    return [
        measure("grad of a scan of 1,000 steps, jitted", {"funcad": lambda: scan_jit(params, xs), "jax": scan_jax}, rounds),
        measure("grad of a scan of 1,000 steps, un-jitted", {"funcad": lambda: scan_grad(params, xs)}, rounds),
        measure("the same as a Python loop, un-jitted", {"funcad": lambda: loop_grad(params, xs), "autograd": loop}, rounds),
        measure("jvp of a while_loop, jitted", {"funcad": lambda: while_jvp(2.0), "jax": while_jax}, rounds),
        measure("grad of a while_loop, jitted (JAX: refused)", {"funcad": lambda: while_grad(2.0)}, rounds),
        measure("the same as a Python while, un-jitted", {"funcad": lambda: root_grad(2.0), "autograd": root}, rounds),
    ]


if __name__ == "__main__":
    main(run, __doc__)

"""Un-jitted vmap of functions with Python's control flow, beside a loop over the lanes and JAX's vmap of while_loop and cond.

`python -m benchmarks.lanes` prints the table of RESULTS_LANES.md. JAX's programs are written with its own control flow, since
its vmap raises at Python's; its times are those of compiled programs, the first call left out. Where JAX is not installed its
column is empty. Time is the processor's, so that an interruption does not count.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad

R = np.random.default_rng(0)


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


def branches(k: Any, x: Any) -> Any:
    for i in range(400):
        x = x + 1.5 * k[i] if k[i] > 0 else x * 0.9
    return x


def length(n: Any) -> Any:
    total = 0
    for i in range(n):
        total += i
    return total


def leaky(x: Any) -> Any:
    return np.sum(np.sin(x)) if x[0] > 0 else np.sum(x * 0.1)


def jax_programs() -> dict[str, Callable[..., Any]]:
    if importlib.util.find_spec("jax") is None:
        return {}
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    lax, jnp = jax.lax, jax.numpy

    def newton(a: Any) -> Any:
        return lax.while_loop(lambda x: abs(x * x - a) > 1e-12 * a, lambda x: (x + a / x) / 2, a)

    def branches(k: Any, x: Any) -> Any:
        return lax.fori_loop(0, 400, lambda i, x: lax.cond(k[i] > 0, lambda: x + 1.5 * k[i], lambda: x * 0.9), x)

    def length(n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, total: total + i, 0)

    def leaky(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda: jnp.sum(jnp.sin(x)), lambda: jnp.sum(x * 0.1))

    found = {"newton": newton, "branches": branches, "length": length, "leaky": leaky, "leaky, gradient": jax.grad(leaky)}
    return {name: jax.jit(jax.vmap(f)) for name, f in found.items()}


PROGRAMS: dict[str, tuple[str, Callable[..., Any], tuple]] = {
    "newton": ("Newton's iteration, 10,000 lanes", newton, (R.uniform(0.1, 1e6, 10_000),)),
    "branches": ("400 ifs, 64 lanes", branches, (R.normal(size=(64, 400)), np.ones(64))),
    "length": ("range(n), 1,200 lanes of 1,200 lengths", length, (np.arange(1200),)),
    "leaky": ("one if, 2,000 lanes of 50 numbers", leaky, (R.normal(size=(2000, 50)),)),
    "leaky, gradient": ("its gradient", funcad.grad(leaky), (R.normal(size=(2000, 50)),)),
}


def milliseconds(f: Callable[[], Any], repeats: int) -> float:
    f()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        f()
        taken.append(time.process_time() - start)
    return 1e3 * float(np.median(taken))


def main() -> None:
    others = jax_programs()
    print("| program | loop over the lanes, ms | funcad's vmap, ms | JAX's compiled vmap, ms |\n|---|---|---|---|")
    for name, (title, f, args) in PROGRAMS.items():
        loop = lambda: np.stack([f(*lane) for lane in zip(*args)])  # noqa: B023
        mapped = lambda: funcad.vmap(f)(*args)  # noqa: B023
        np.testing.assert_allclose(mapped(), loop(), rtol=1e-9)
        times = [milliseconds(loop, 5), milliseconds(mapped, 5)]
        if name in others:
            times.append(milliseconds(lambda: np.asarray(others[name](*args)), 5))  # noqa: B023
        print(f"| {title} | " + " | ".join([f"{t:.1f}" for t in times]) + " |" * (4 - len(times)))


if __name__ == "__main__":
    main()

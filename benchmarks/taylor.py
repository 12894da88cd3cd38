"""Taylor mode and the forward Laplacian: beside nested jvp's, Hessian-vector products, and JAX's `jet`.

`python -m benchmarks.taylor`: processor's time, medians of 15 calls in turns, jitted on both sides, BLAS on one thread.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import hvp, jet, jit, jvp, laplacian, vmap

N = 100
WEIGHTS = [np.random.default_rng(i).normal(size=(N, N)) / 10 for i in range(4)]
X = np.random.default_rng(9).normal(size=N)


def network(np: Any, x: Any) -> Any:
    for w in WEIGHTS:
        x = np.tanh(w @ x)
    return np.sum(x)


def curve(np: Any, x: Any) -> Any:
    return np.sum(np.tanh(np.sin(x) * np.exp(-x * x)) / (1 + x * x))


def nested(f: Any, jvp: Any, x: Any, v: Any, n: int) -> Any:
    slope = lambda h: lambda t: jvp(h, (t,), (1.0,))[1]
    h = lambda t: f(x + t * v)
    for _ in range(n):
        h = slope(h)
    return h(0.0)


def medians(calls: dict[str, Callable[[], Any]], rounds: int = 15) -> dict[str, float]:
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            np.asarray(call())
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.process_time()
            turns = 0
            while turns < 3 or time.process_time() - begun < 2e-3:
                np.asarray(call())
                turns += 1
            spent[name].append((time.process_time() - begun) / turns)
    return {name: float(np.median(values)) for name, values in spent.items()}


def shown(title: str, found: dict[str, float]) -> None:
    print(f"\n| {title} | time |\n|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value * 1e6:.1f} us |")


def main() -> None:
    f, eye = lambda x: network(np, x), np.eye(N)
    one, all_at_once = jit(laplacian(f)), jit(lambda x: np.sum(vmap(lambda v: np.dot(v, hvp(f, (x,), (v,))))(eye)))
    product = jit(lambda x, v: hvp(f, (x,), (v,)))
    calls = {
        "funcad.laplacian": lambda: one(X),
        "100 hvps at once (vmap)": lambda: all_at_once(X),
        "100 jitted hvps, one after the other": lambda: sum([product(X, e) @ e for e in eye]),
    }
    try:
        jax: Any = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        g = lambda x: network(jax.numpy, x)
        hessian = jax.jit(lambda x: jax.numpy.trace(jax.hessian(g)(x)))
        calls["JAX: trace of the Hessian"] = lambda: hessian(X)
    except ImportError:
        jax = None
    shown("the Laplacian of a network of 4 layers in 100 dimensions", medians(calls))
    for n in (2, 4, 8, 16, 32):
        shown(f"derivative {n} along a line, 10 numbers", medians(along_a_line(n, jax)))


def along_a_line(n: int, jax: Any) -> dict[str, Callable[[], Any]]:
    x, v, zero = X[:10], np.ones(10), np.zeros(10)
    f = lambda x: curve(np, x)
    series = jit(lambda x: jet(f, (x,), ([v] + [zero] * (n - 1),))[1][-1])
    calls: dict[str, Callable[[], Any]] = {"funcad.jet": lambda: series(x)}
    if n <= 4:
        by_jvps = jit(lambda x: nested(f, jvp, x, v, n))
        calls["nested jvp's"] = lambda: by_jvps(x)
    if jax is not None and n <= 16:
        experimental = importlib.import_module("jax.experimental.jet")
        g = lambda x: curve(jax.numpy, x)
        theirs = jax.jit(lambda x: experimental.jet(g, (x,), ([v] + [zero] * (n - 1),))[1][-1])
        calls["JAX's jet"] = lambda: theirs(x)
    return calls


if __name__ == "__main__":
    main()

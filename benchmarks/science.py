"""Gradients of scientific programs beside finite differences, and beside JAX where it has such a function.

`python -m benchmarks.science`: processor's time, medians of 7 calls after the first two, BLAS on one thread. "differences" is
what central differences cost, two values for each parameter, with the same (un-jitted or jitted) function.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.interpolate
import scipy.sparse
import scipy.special

from funcad import grad, jit
from funcad.scipy.integrate import odeint, solve_ivp
from funcad.scipy.optimize import minimize
from funcad.scipy.sparse import csr_array
from funcad.scipy.sparse.linalg import spsolve

TIMES = np.linspace(0, 12, 25)
RATES = np.array([1.1, 0.9, 0.8, 0.6])


def lotka(np: Any, z: Any, p: Any) -> Any:
    return np.stack([p[0] * z[0] - p[1] * z[0] * z[1], -p[2] * z[1] + p[3] * z[0] * z[1]])


def by_odeint(p: Any) -> Any:
    return np.sum(odeint(lambda z, t, p: lotka(np, z, p), np.array([1.0, 0.5]), TIMES, p, rtol=1e-8, atol=1e-8) ** 2)


def stiff(p: Any) -> Any:
    def f(t: Any, y: Any) -> Any:
        a, b, c = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
        return np.stack([-a + b, a - b - c, c])

    return solve_ivp(f, (0.0, 40.0), [1.0, 0.0, 0.0], method="Radau", t_eval=[40.0], rtol=1e-6, atol=1e-9).y[2, 0]


def grid_waves(n: int) -> Callable[[Any], Any]:
    line = scipy.sparse.diags_array([np.ones(n - 1), -2 * np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])
    laplacian = (scipy.sparse.kron(line, np.eye(n)) + scipy.sparse.kron(np.eye(n), line)).tocsr()
    laplacian.sort_indices()
    diagonal = np.flatnonzero(laplacian.indices == np.repeat(np.arange(n * n), np.diff(laplacian.indptr)))
    source = np.zeros(n * n, complex)
    source[n * n // 2] = 1

    def power(epsilon: Any) -> Any:
        values = np.array(laplacian.data, complex)
        values[diagonal] += 0.27 * epsilon * (1 + 0.1j)
        field = spsolve(csr_array((values, laplacian.indices, laplacian.indptr), shape=laplacian.shape), source)
        return np.abs(field[-1]) ** 2

    return power


def ridge(data: np.ndarray) -> Callable[[Any], Any]:
    """How good the answer of an optimisation is, by its weights."""

    def score(weights: Any) -> Any:
        cost = lambda x: np.sum(weights * (x - data) ** 2) + np.sum(x**4) / 4
        return np.sum(minimize(cost, np.zeros_like(data), method="BFGS", tol=1e-10).x)

    return score


def spline(values: Any) -> Any:
    return np.sum(scipy.interpolate.make_interp_spline(np.linspace(0, 1, values.shape[0]), values)(np.linspace(0, 1, 500)) ** 2)


def shapes(a: Any) -> Any:
    return np.sum(scipy.special.gammainc(a, 2.0))


def median(call: Callable[[], Any]) -> float:
    spent = []
    for _ in range(9):
        begun = time.process_time()
        call()
        spent.append(time.process_time() - begun)
    return float(np.median(spent[2:]))


def jax_odeint() -> Callable[[], Any] | None:
    try:
        jax = importlib.import_module("jax")
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    ode, jnp = importlib.import_module("jax.experimental.ode"), jax.numpy

    def loss(p: Any) -> Any:
        start = jnp.array([1.0, 0.5])
        return jnp.sum(ode.odeint(lambda z, t, p: lotka(jnp, z, p), start, jnp.asarray(TIMES), p, rtol=1e-8, atol=1e-8) ** 2)

    slope = jax.jit(jax.grad(loss))
    return lambda: np.asarray(slope(RATES))


def main() -> None:
    rng = np.random.default_rng(0)
    rows: list[tuple[str, Callable[[Any], Any], np.ndarray, Callable[[], Any] | None]] = [
        ("odeint, 4 rates, jitted", jit(by_odeint), RATES, jax_odeint()),
        ("Robertson's kinetics by Radau, 3 rates", stiff, np.array([0.04, 1e4, 3e7]), None),
        ("waves on a 30 x 30 grid by spsolve, 900 cells", grid_waves(30), 1 + rng.random(900), None),
        ("the answer of a minimize, 20 weights", ridge(rng.normal(size=20)), 1 + rng.random(20), None),
        ("a spline of 200 values", spline, rng.normal(size=200), None),
        ("gammainc by its shape, 1000 numbers", jit(shapes), 1 + rng.random(1000), None),
    ]
    print("| program | value | gradient | differences | differences / gradient | JAX's gradient |")
    print("|---|---|---|---|---|---|")
    for name, f, x, peer in rows:
        slope = grad(f)
        value, gradient = median(lambda f=f, x=x: f(x)), median(lambda slope=slope, x=x: slope(x))
        theirs = f"{median(peer) * 1e3:.3g} ms" if peer is not None else ""
        cells = [f"{t * 1e3:.3g} ms" for t in (value, gradient, 2 * x.size * value)]
        print(f"| {name} | {' | '.join(cells)} | {2 * x.size * value / gradient:.3g} | {theirs} |")


if __name__ == "__main__":
    main()

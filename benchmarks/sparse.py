"""Sparse Jacobians and Hessians beside grouped finite differences and beside SciPy's colouring of them.

A row is one evaluation at a new point: funcad's with the program looked at again (`jacobian(f)`) and prepared, and SciPy's
`approx_derivative` with the true pattern and its groups given, which costs as many calls of f as there are groups and is good
to half the digits. The first call finds the pattern, colours it and compiles; that of differences is the grouping of a
pattern that somebody has to know. Hessians are differenced from gradients. Times are the processor's, medians of interleaved
rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize._numdiff import approx_derivative, group_columns

import funcad
from benchmarks import harness
from funcad.sparse import hessian, jacobian

SIZE, SIDE = 100_000, 300


def tridiagonal(x: Any) -> Any:
    padded = np.pad(x, 1)
    return padded[2:] - 2 * x + padded[:-2] + x**3


def grid(x: Any) -> Any:
    u = np.pad(x.reshape(SIDE, SIDE), 1)
    inner = u[1:-1, 1:-1]
    return (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner + np.exp(inner)).ravel()


def arrow(x: Any) -> Any:
    return np.sum(np.sin(x[1:]) * x[0] ** 2) + np.sum(x**3)


def chain(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def steps(x: Any) -> Any:
    """Ten turns of a loop: a band of 21."""

    def turn(u: Any, _: Any) -> Any:
        padded = np.pad(u, 1)
        return u + 0.1 * (padded[2:] - 2 * u + padded[:-2]) - 0.01 * u**3, None

    return funcad.scan(turn, x, None, length=10)[0]


PROBLEMS: dict[str, tuple[Callable[..., Any], bool, int]] = {
    "tridiagonal Jacobian, n = 100,000": (tridiagonal, False, SIZE),
    "stencil on a grid of 300 x 300": (grid, False, SIDE * SIDE),
    "ten steps of a scan, a band of 21, n = 100,000": (steps, False, SIZE),
    "tridiagonal Hessian, n = 100,000": (chain, True, SIZE),
    "arrow Hessian, n = 100,000": (arrow, True, SIZE),
}


def results() -> list[list[str]]:
    """The table: first call, call, prepared call; grouping and call of finite differences."""
    lines = [["", "elements", "directions", "first call", "call", "prepared", "groups", "grouping", "differences", "error"]]
    for name, (f, second, n) in PROBLEMS.items():
        x = np.random.default_rng(0).uniform(0.1, 1, n)
        derivative = (hessian if second else jacobian)(f)
        first = _once(lambda derivative=derivative, x=x: derivative(x))
        prepared = derivative.prepare(x)
        exact = prepared(x)
        start = time.process_time()
        groups = None if name.startswith("arrow") else group_columns(prepared.sparsity)
        grouping = time.process_time() - start
        g = funcad.jit(funcad.grad(f) if second else f)
        calls = {"call": lambda d=derivative, x=x: d(x), "prepared": lambda p=prepared, x=x: p(x)}
        if groups is not None:
            pair = (prepared.sparsity, groups)
            calls["differences"] = lambda g=g, x=x, pair=pair: approx_derivative(g, x, method="2-point", sparsity=pair)
        seconds = harness.interleaved(calls, 5, time.process_time)
        error = ""
        if groups is not None:
            error = f"{abs(calls['differences']() - exact).max() / abs(exact).max():.0e}"
        shown = lambda v: harness.formatted(v, "s")
        lines.append([
            name, str(prepared.sparsity.nnz), " + ".join(map(str, prepared.colors)), shown(first), shown(seconds["call"]),
            shown(seconds["prepared"]), "n" if groups is None else str(int(groups.max()) + 1),
            "" if groups is None else shown(grouping), "" if groups is None else shown(seconds["differences"]), error,
        ])  # fmt: skip
    return lines


def _once(f: Callable[[], Any]) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


if __name__ == "__main__":
    harness.arguments(__doc__.partition("\n")[0])
    print(harness.versions(), harness.markdown(results()), sep="\n\n")

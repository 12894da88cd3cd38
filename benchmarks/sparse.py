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
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
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


# -- finite elements: the stiffness matrix of a square by triangles, with a coefficient for each, solved by SuperLU


def square(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, triangles and inner points of a square with n edges along each side."""
    x = np.linspace(0, 1, n + 1)
    points = np.stack([a.ravel() for a in np.meshgrid(x, x, indexing="ij")], axis=1)
    i, j = np.indices((n, n)).reshape(2, -1)
    a = i * (n + 1) + j
    triangles = np.concatenate([np.stack([a, a + n + 1, a + 1], 1), np.stack([a + n + 2, a + 1, a + n + 1], 1)])
    return points, triangles, np.flatnonzero(((points > 1e-12) & (points < 1 - 1e-12)).all(1))


def _local(points: np.ndarray, triangles: np.ndarray, k: Any) -> tuple[np.ndarray, Any]:
    p = points[triangles]
    e = np.stack([p[:, 2] - p[:, 1], p[:, 0] - p[:, 2], p[:, 1] - p[:, 0]], axis=1)
    area = 0.5 * np.abs(e[:, 0, 0] * e[:, 1, 1] - e[:, 0, 1] * e[:, 1, 0])
    return area, np.einsum("tid,tjd->tij", e, e) / (4 * area)[:, None, None] * k[:, None, None]


def by_duplicates(points: np.ndarray, triangles: np.ndarray, inner: np.ndarray) -> Callable[[Any], Any]:
    """All elements at once into coo_matrix, where they add up, and spsolve."""
    n = len(points)

    def f(k: Any) -> Any:
        area, local = _local(points, triangles, k)
        row, col = np.repeat(triangles, 3, axis=1).ravel(), np.tile(triangles, (1, 3)).ravel()
        K = scipy.sparse.coo_matrix((local.ravel(), (row, col)), shape=(n, n)).tocsr()
        b, u = np.zeros(n), np.zeros(n)
        np.add.at(b, triangles.ravel(), np.repeat(area / 3, 3))
        u[inner] = scipy.sparse.linalg.spsolve(K[inner][:, inner].tocsc(), b[inner])
        return np.sum(u * b)

    return f


def by_add_at(points: np.ndarray, triangles: np.ndarray, inner: np.ndarray) -> Callable[[Any], Any]:
    """np.add.at into the elements of a known pattern, and splu."""
    n = len(points)
    keys = np.repeat(triangles, 3, axis=1).ravel() * n + np.tile(triangles, (1, 3)).ravel()
    keys, places = np.unique(keys, return_inverse=True)
    indptr, indices = np.searchsorted(keys // n, np.arange(n + 1)), keys % n

    def f(k: Any) -> Any:
        area, local = _local(points, triangles, k)
        data, b, u = np.zeros(len(keys)), np.zeros(n), np.zeros(n)
        np.add.at(data, places, local.ravel())
        np.add.at(b, triangles.ravel(), np.repeat(area / 3, 3))
        K = scipy.sparse.csr_matrix((data, indices, indptr), shape=(n, n))
        u[inner] = scipy.sparse.linalg.splu(K[inner][:, inner].tocsc()).solve(b[inner])
        return np.sum(u * b)

    return f


def by_loops(lil: bool, points: np.ndarray, triangles: np.ndarray, inner: np.ndarray) -> Callable[[Any], Any]:
    """Triangle by triangle into lists for coo_matrix, or into a lil_matrix."""
    n = len(points)

    def f(k: Any) -> Any:
        rows, cols, data = [], [], []
        K, b, u = scipy.sparse.lil_matrix((n, n)), np.zeros(n), np.zeros(n)
        for t in range(len(triangles)):
            nodes = triangles[t]
            p = points[nodes]
            e = np.array([p[2] - p[1], p[0] - p[2], p[1] - p[0]])
            area = 0.5 * abs(e[0, 0] * e[1, 1] - e[0, 1] * e[1, 0])
            local = k[t] * (e @ e.T) / (4 * area)
            for i in range(3):
                for j in range(3):
                    if lil:
                        K[nodes[i], nodes[j]] += local[i, j]
                    else:
                        rows.append(nodes[i])
                        cols.append(nodes[j])
                        data.append(local[i, j])
                b[nodes[i]] += area / 3
        K = K if lil else scipy.sparse.coo_matrix((data, (rows, cols)), shape=(n, n))
        u[inner] = scipy.sparse.linalg.spsolve(K.tocsr()[inner][:, inner].tocsc(), b[inner])
        return np.sum(u * b)

    return f


ASSEMBLIES: dict[str, tuple[Callable[..., Any], int]] = {
    "all at once, duplicates add up": (by_duplicates, 317),
    "`np.add.at`, a known pattern": (by_add_at, 317),
    "element loops, lists for coo": (partial(by_loops, False), 40),
    "element loops, lil": (partial(by_loops, True), 40),
}


def finite_elements() -> list[list[str]]:
    """The second table: forward time, gradients un-jitted and jitted, each at a new coefficient."""
    lines = [["finite elements", "unknowns", "forward", "un-jitted gradient", "ratio", "jitted", "ratio"]]
    shown = lambda v: harness.formatted(v, "s")
    for name, (assembly, n) in ASSEMBLIES.items():
        mesh = square(n)
        f, k = assembly(*mesh), np.random.default_rng(0).uniform(1, 2, len(mesh[1]))
        ways: dict[str, Callable[[Any], Any]] = {"forward": f, "gradient": funcad.grad(f)}
        if n > 300:  # a program of 20,000 turns is not repaid
            ways["jitted"] = funcad.jit(funcad.grad(f))
        best = dict.fromkeys(ways, np.inf)
        for turn in range(6):
            for way, call in ways.items():
                seconds = _once(lambda call=call, k=k * (1 + 0.01 * turn): call(k))
                best[way] = min(best[way], seconds)
        ratio = lambda way, best=best: f"{best[way] / best['forward']:.2f}"
        jitted = [shown(best["jitted"]), ratio("jitted")] if "jitted" in best else ["", ""]
        line = [name, str(len(mesh[2])), shown(best["forward"]), shown(best["gradient"]), ratio("gradient"), *jitted]
        lines.append(line)
    return lines


if __name__ == "__main__":
    harness.arguments(__doc__.partition("\n")[0])
    print(harness.versions(), harness.markdown(results()), harness.markdown(finite_elements()), sep="\n\n")

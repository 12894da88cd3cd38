"""Elements of arrays written and read one by one, by loops, and their gradients, beside NumPy by hand and JAX.

A row's NumPy is the loop as one writes it, in place, forward only, also beside gradients. JAX's Python loops are left out where
XLA compiles them for minutes. Time is the processor's, of all threads.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

import funcad
import funcad.numpy
from benchmarks.harness import ENGINES, Row, Target, interleaved, main, native_engine, peer, using_engine

COLUMNS = {"native": "funcad", "numpy": "funcad numpy"}
TURNS, SIZE = 799, 100_000

Loop = Callable[..., Any]


def own(x: Any) -> Any:
    return funcad.numpy.at(x)


def theirs(x: Any) -> Any:
    return x.at


def constant(np: Any, at: Any, i: Any, x: Any) -> Any:
    return at(x)[i].set(1.5)


def doubled(np: Any, at: Any, i: Any, x: Any) -> Any:
    return at(x)[i].set(x[i] * 2.0)


def chained(np: Any, at: Any, i: Any, x: Any) -> Any:
    return at(x)[i + 1].set(np.sin(x[i]) * 1.5)


BODIES: dict[str, Any] = {"a number": constant, "twice what is there": doubled, "a function of the one before": chained}


def written_by_hand(name: str, x: Any) -> Any:
    x = x.copy()
    for i in range(TURNS):
        if name == "a number":
            x[i] = 1.5
        elif name == "twice what is there":
            x[i] = x[i] * 2.0
        else:
            x[i + 1] = numpy.sin(x[i]) * 1.5
    return x


def covariance(np: Any, at: Any, data: Any) -> Any:
    n, m = data.shape
    data = data - np.mean(data, axis=0)
    found = np.zeros((m, m))
    for i in range(m):
        row = data[:, i] @ data[:, i:] / (n - 1.0)
        found = at(at(found)[i:, i].set(row))[i, i:].set(row)
    return found


def covariance_by_hand(data: Any) -> Any:
    n, m = data.shape
    data = data - numpy.mean(data, axis=0)
    found = numpy.zeros((m, m))
    for i in range(m):
        found[i:, i] = data[:, i] @ data[:, i:] / (n - 1.0)
        found[i, i:] = found[i:, i]
    return found


def diagonal(np: Any, at: Any, a: Any) -> Any:
    total = 0.0
    for i in range(a.shape[0]):
        total = total + np.tanh(a[i, i])
    return total


def factorised(a: Any) -> Any:
    """Doolittle's LU, element by element, in place: NumPy's text, also within a gradient."""
    a, n = a.copy(), a.shape[0]
    for i in range(n):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


class Forward(Exception):
    """The forward pass has ended."""


def forward(f: Loop, a: Any) -> None:
    """What a gradient does until its function returns."""

    def stopped(a: Any) -> Any:
        f(a)
        raise Forward

    try:
        funcad.grad(stopped)(a)
    except Forward:
        pass


def row(what: str, calls: dict[str, Any], rounds: int, target: Target | None) -> Row:
    return Row(what, interleaved(calls, rounds, time.process_time), target=target)


def jitted(f: Loop, *args: Any) -> dict[str, Any]:
    engines = [e for e in ENGINES if e == "numpy" or native_engine()]
    return {COLUMNS[e]: using_engine(e, partial(funcad.jit(f), *args)) for e in engines}


def with_jax(f: Callable[[Any, Any, Any], Loop], gradient: bool, *args: Any) -> dict[str, Any]:
    """`f(np, at, fori_loop)` is the function."""
    jax = peer("jax")
    if jax is None:
        return {}
    g = f(jax.numpy, theirs, jax.lax.fori_loop)
    g = jax.jit(jax.grad(g) if gradient else g)
    given = [jax.numpy.asarray(a) for a in args]
    return {"jax": lambda: jax.block_until_ready(g(*given))}


def loops(name: str, gradient: bool) -> Callable[[Any, Any, Any], Loop]:
    def of(np: Any, at: Any, fori_loop: Any) -> Loop:
        f = lambda x: fori_loop(0, TURNS, lambda i, x: BODIES[name](np, at, i, x), x)
        return (lambda x: np.sum(f(x) ** 2)) if gradient else f

    return of


def run(rounds: int) -> list[Row]:
    gc.collect()
    gc.freeze()  # or each collection looks at all of JAX
    rows = []
    x = numpy.linspace(0.0, 1.0, SIZE)
    for name in BODIES:
        by_hand = partial(written_by_hand, name, x)
        for gradient in (False, True):
            f = loops(name, gradient)(funcad.numpy, own, funcad.fori_loop)
            calls = {**jitted(funcad.grad(f) if gradient else f, x), "numpy": by_hand}
            calls |= with_jax(loops(name, gradient), gradient, x)
            target = Target("jax", 4.0, 1.0) if not gradient else None if name == "a number" else Target("jax", 0.02, 0.005)
            what = f"{TURNS} writes, {name}, into {SIZE:,}, {'gradient' if gradient else 'value'}"
            rows.append(row(what, calls, rounds, target))
    random = numpy.random.default_rng(0)
    for n, m in ((100, 80), (260, 240)):
        data, weights = random.normal(size=(n, m)), random.normal(size=(m, m))
        of = lambda np, at, _, weights=weights: lambda d: np.sum(covariance(np, at, d) * weights)
        g = funcad.grad(of(funcad.numpy, own, None))
        calls = {**jitted(g, data), "numpy": partial(covariance_by_hand, data), **with_jax(of, True, data)}
        rows.append(row(f"covariance of {n} x {m} by rows, gradient", calls, rounds, Target("numpy", 3.0, 3.0)))
        rows.append(row("the same un-jitted", {"funcad": partial(g, data), "numpy": calls["numpy"]}, rounds, None))
    a = random.normal(size=(2000, 2000))
    f = partial(diagonal, funcad.numpy, own)
    by_hand = partial(diagonal, numpy, None, a)
    calls = {**jitted(funcad.grad(f), a), "numpy": by_hand}
    rows.append(row("tanh of a diagonal of 2,000, gradient", calls, rounds, Target("numpy", 5.0, 5.0)))
    rows.append(row("the same un-jitted", {"funcad": partial(funcad.grad(f), a), "numpy": by_hand}, rounds, None))
    for n in (100, 200):
        a = random.normal(size=(n, n)) + n * numpy.eye(n)
        g = funcad.grad(lambda a: numpy.sum(factorised(a) ** 2))
        by_hand = partial(factorised, a)
        calls = {"funcad": partial(forward, factorised, a), "numpy": by_hand}
        rows.append(row(f"LU of {n} x {n}, forward pass of grad, un-jitted", calls, min(rounds, 3), Target("numpy", 3.0, 3.0)))
        calls = {"funcad": partial(g, a), "numpy": by_hand}
        rows.append(row(f"LU of {n} x {n}, gradient, un-jitted", calls, min(rounds, 3), Target("numpy", 10.0, 10.0)))
    return rows


if __name__ == "__main__":
    main(run, __doc__)

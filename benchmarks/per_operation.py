"""What an un-jitted operation costs over NumPy's own: at the user's line while a gradient records, and with its backward pass.

Idea: `recorded` times an operation inside a function that is being differentiated, on its tracer: what the user waits for at
that line. Of operations whose result has the shape of their operand, `chain` gives the gradient of many of them, forward and
backward, timed by the difference of two lengths. NumPy's time for the same operation on plain arrays is taken off; the column
"numpy" is that time itself. Traps: the loop around costs both alike; results are dropped at once, so nothing but the recording
keeps them; a gradient of which one operation leaves the tape runs its rules at once from there on, as in a program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy

import funcad
from benchmarks.harness import Row, main, peer

__all__ = ["run"]

N, REPEATS, SHORT, LONG = 100, 40, 10, 60
RANDOM = numpy.random.default_rng(12)
MATRIX = numpy.eye(N) + RANDOM.uniform(size=(N, N)) / N
MASK = RANDOM.uniform(size=N) < 0.5
OTHER = RANDOM.uniform(1.0, 2.0, N)
VECTOR, NUMBER = RANDOM.uniform(0.8, 1.2, N), 1.1
CHOSEN = RANDOM.integers(0, N, N)
SMALL = numpy.eye(4) + 0.1


class Operation(NamedTuple):
    """An operation, where it is applied, and whether it can be applied to its own result again."""

    what: str
    function: Callable[[Any], Callable[[Any], Any]]
    start: Any
    chained: bool = True


OPERATIONS = [
    Operation("x * c, scalar", lambda np: lambda x: x * 1.01, NUMBER),
    Operation("x + x, scalar", lambda np: lambda x: x + x, NUMBER, False),
    Operation("sin, scalar", lambda np: lambda x: np.sin(x), NUMBER),
    Operation("x ** 2, scalar", lambda np: lambda x: x**2, 1.0),
    Operation("x ** c, scalar", lambda np: lambda x: x**1.01, NUMBER),
    Operation("c / x, scalar", lambda np: lambda x: 2.0 / x, NUMBER),
    Operation("x * c, array", lambda np: lambda x: x * 1.01, VECTOR),
    Operation("x * array", lambda np: lambda x: x * OTHER, VECTOR, False),
    Operation("sin, array", lambda np: lambda x: np.sin(x), VECTOR),
    Operation("exp, array", lambda np: lambda x: np.exp(x), VECTOR, False),
    Operation("array / s, s a traced scalar", lambda np: lambda s: OTHER / s, NUMBER, False),
    Operation("x / s, both traced", lambda np: lambda x: x / x[0], VECTOR, False),
    Operation("x ** 2, array", lambda np: lambda x: x**2, VECTOR, False),
    Operation("x ** c, array", lambda np: lambda x: x**1.01, VECTOR),
    Operation("array ** s, s a traced scalar", lambda np: lambda s: OTHER**s, NUMBER, False),
    Operation("where(mask, x, 0)", lambda np: lambda x: np.where(MASK, x, 0.5), VECTOR),
    Operation("maximum(x, c)", lambda np: lambda x: np.maximum(x, 0.9), VECTOR),
    Operation("clip", lambda np: lambda x: np.clip(x, 0.9, 1.1), VECTOR),
    Operation("concatenate of two", lambda np: lambda x: np.concatenate([x, OTHER]), VECTOR, False),
    Operation("stack of two", lambda np: lambda x: np.stack([x, x]), VECTOR, False),
    Operation("stack of two scalars", lambda np: lambda x: np.stack([x, x]), NUMBER, False),
    Operation("sum", lambda np: lambda x: np.sum(x), VECTOR, False),
    Operation("mean", lambda np: lambda x: np.mean(x), VECTOR, False),
    Operation("std", lambda np: lambda x: np.std(x), VECTOR, False),
    Operation("max", lambda np: lambda x: np.max(x), VECTOR, False),
    Operation("cumsum", lambda np: lambda x: np.cumsum(x), VECTOR, False),
    Operation("p[i]", lambda np: lambda x: x[3], VECTOR, False),
    Operation("x[a:b]", lambda np: lambda x: x[3:50], VECTOR, False),
    Operation("x[::-1]", lambda np: lambda x: x[::-1], VECTOR),
    Operation("x[:, None]", lambda np: lambda x: x[:, None], VECTOR, False),
    Operation("x[array of numbers]", lambda np: lambda x: x[CHOSEN], VECTOR),
    Operation("a, b = x", lambda np: lambda x: tuple(x), VECTOR[:2], False),
    Operation("reshape", lambda np: lambda x: np.reshape(x, (10, 10)), VECTOR, False),
    Operation("x.T", lambda np: lambda x: x.T, MATRIX),
    Operation("matrix @ x", lambda np: lambda x: MATRIX @ x, VECTOR),
    Operation("dot(x, x)", lambda np: lambda x: np.dot(x, x), VECTOR, False),
    Operation("solve(matrix, x), 4", lambda np: lambda x: np.linalg.solve(SMALL, x), VECTOR[:4]),
    Operation("slogdet, 4", lambda np: lambda x: np.linalg.slogdet(x)[1], SMALL, False),
]


def _at_the_line(op: Callable[[Any], Any], x: Any, times: list[float]) -> None:
    start = time.process_time()
    for _ in range(REPEATS):
        op(x)
    times.append((time.process_time() - start) / REPEATS)


def recorded(np: Any, grad: Any, operation: Operation, times: list[float]) -> Callable[[], Any]:
    """A gradient that notes what the operation costs while it is taken."""
    op = operation.function(np)

    def f(x: Any) -> Any:
        _at_the_line(op, x, times)
        return np.sum(x)

    gradient = grad(f)
    return lambda: gradient(operation.start)


def chain(np: Any, grad: Any, operation: Operation, n: int) -> Callable[[], Any]:
    op = operation.function(np)

    def f(x: Any) -> Any:
        for _ in range(n):
            x = op(x)
        return np.sum(x)

    gradient = grad(f)
    return lambda: gradient(operation.start)


def _usual(f: Callable[[], Any], times: list[float]) -> None:
    start = time.process_time()
    f()
    times.append(time.process_time() - start)


def measured(operation: Operation, rounds: int) -> list[Row]:
    """Rows of both measurements, the libraries taking turns; the first third of the rounds only warms up."""
    libraries: dict[str, tuple[Any, Any]] = {"funcad": (numpy, funcad.grad)}
    autograd = peer("autograd")
    if autograd:
        import autograd.numpy as anp

        libraries["autograd"] = (anp, autograd.grad)
    plain = operation.function(numpy)
    lines: dict[str, list[float]] = {name: [] for name in ("numpy", *libraries)}
    chains: dict[tuple[str, int], list[float]] = {}
    at_line = {name: recorded(*library, operation, lines[name]) for name, library in libraries.items()}
    long = {(name, n): chain(*library, operation, n) for name, library in libraries.items() for n in (SHORT, LONG)}
    for _ in range(3 * rounds):
        _at_the_line(plain, operation.start, lines["numpy"])
        for f in at_line.values():
            f()
        for key, f in long.items() if operation.chained else ():
            _usual(f, chains.setdefault(key, []))
    usual = {name: median(found[rounds:]) for name, found in lines.items()}
    rows = [Row(f"{operation.what}: at its line, over NumPy", _over(usual))]
    if operation.chained:
        slopes = {n: (median(chains[n, LONG][rounds:]) - median(chains[n, SHORT][rounds:])) / (LONG - SHORT) for n in libraries}
        rows.append(Row(f"{operation.what}: with its backward pass, over NumPy", _over({"numpy": usual["numpy"], **slopes})))
    return rows


def _over(values: dict[str, float]) -> dict[str, float]:
    return {name: value if name == "numpy" else max(value - values["numpy"], 1e-9) for name, value in values.items()}


def run(rounds: int) -> list[Row]:
    return [row for operation in OPERATIONS for row in measured(operation, rounds)]


if __name__ == "__main__":
    main(run, __doc__)

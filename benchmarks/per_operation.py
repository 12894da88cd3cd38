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
import scipy.special

import funcad
import funcad.scipy.special
from benchmarks.harness import Row, main, peer
from benchmarks.real.program import Library

__all__ = ["run"]

N, REPEATS, SHORT, LONG = 100, 40, 10, 60
RANDOM = numpy.random.default_rng(12)
MATRIX = numpy.eye(N) + RANDOM.uniform(size=(N, N)) / N
MASK = RANDOM.uniform(size=N) < 0.5
OTHER = RANDOM.uniform(1.0, 2.0, N)
VECTOR, NUMBER = RANDOM.uniform(0.8, 1.2, N), 1.1
CHOSEN = RANDOM.integers(0, N, N)
SMALL = numpy.eye(4) + 0.1
SQUARE = RANDOM.uniform(0.5, 1.0, (10, 10))


class Operation(NamedTuple):
    """An operation, where it is applied, and whether it can be applied to its own result again."""

    what: str
    function: Callable[[Library], Callable[[Any], Any]]
    start: Any
    chained: bool = True
    plain: Callable[[Any], Any] | None = None  # what NumPy's users write, where that is not the same


def _logsumexp(x: Any) -> Any:
    top = numpy.max(x, axis=0)
    return numpy.log(numpy.sum(numpy.exp(x - top), axis=0)) + top


OPERATIONS = [
    Operation("x * c, scalar", lambda lib: lambda x: x * 1.01, NUMBER),
    Operation("x + x, scalar", lambda lib: lambda x: x + x, NUMBER, False),
    Operation("sin, scalar", lambda lib: lambda x: lib.np.sin(x), NUMBER),
    Operation("x ** 2, scalar", lambda lib: lambda x: x**2, 1.0),
    Operation("x ** c, scalar", lambda lib: lambda x: x**1.01, NUMBER),
    Operation("c / x, scalar", lambda lib: lambda x: 2.0 / x, NUMBER),
    Operation("x * c, array", lambda lib: lambda x: x * 1.01, VECTOR),
    Operation("x * array", lambda lib: lambda x: x * OTHER, VECTOR, False),
    Operation("sin, array", lambda lib: lambda x: lib.np.sin(x), VECTOR),
    Operation("exp, array", lambda lib: lambda x: lib.np.exp(x), VECTOR, False),
    Operation("array / s, s a traced scalar", lambda lib: lambda s: OTHER / s, NUMBER, False),
    Operation("x / s, both traced", lambda lib: lambda x: x / x[0], VECTOR, False),
    Operation("x ** 2, array", lambda lib: lambda x: x**2, VECTOR, False),
    Operation("x ** c, array", lambda lib: lambda x: x**1.01, VECTOR),
    Operation("array ** s, s a traced scalar", lambda lib: lambda s: OTHER**s, NUMBER, False),
    Operation("where(mask, x, 0)", lambda lib: lambda x: lib.np.where(MASK, x, 0.5), VECTOR),
    Operation("maximum(x, c)", lambda lib: lambda x: lib.np.maximum(x, 0.9), VECTOR),
    Operation("clip", lambda lib: lambda x: lib.np.clip(x, 0.9, 1.1), VECTOR),
    Operation("concatenate of two", lambda lib: lambda x: lib.np.concatenate([x, OTHER]), VECTOR, False),
    Operation("stack of two", lambda lib: lambda x: lib.np.stack([x, x]), VECTOR, False),
    Operation("stack of two scalars", lambda lib: lambda x: lib.np.stack([x, x]), NUMBER, False),
    Operation("where(x > c, x, 0)", lambda lib: lambda x: lib.np.where(x > 1.0, x, 0.0), VECTOR),
    Operation("2 * x, an integer", lambda lib: lambda x: 2 * x, VECTOR, False),
    Operation("abs", lambda lib: lambda x: lib.np.abs(x), VECTOR, False),
    Operation("row + column", lambda lib: lambda x: x[:, None] + x, VECTOR[:10], False),
    Operation("sum", lambda lib: lambda x: lib.np.sum(x), VECTOR, False),
    Operation("mean", lambda lib: lambda x: lib.np.mean(x), VECTOR, False),
    Operation("std", lambda lib: lambda x: lib.np.std(x), VECTOR, False),
    Operation("var over an axis", lambda lib: lambda x: lib.np.var(x, axis=0), SQUARE, False),
    Operation("norm", lambda lib: lambda x: lib.np.linalg.norm(x), VECTOR, False),
    Operation("prod", lambda lib: lambda x: lib.np.prod(x), VECTOR, False),
    Operation("sort", lambda lib: lambda x: lib.np.sort(x), VECTOR),
    Operation("diff", lambda lib: lambda x: lib.np.diff(x), VECTOR, False),
    Operation("max", lambda lib: lambda x: lib.np.max(x), VECTOR, False),
    Operation("cumsum", lambda lib: lambda x: lib.np.cumsum(x), VECTOR, False),
    Operation("p[i]", lambda lib: lambda x: x[3], VECTOR, False),
    Operation("x[a:b]", lambda lib: lambda x: x[3:50], VECTOR, False),
    Operation("x[::-1]", lambda lib: lambda x: x[::-1], VECTOR),
    Operation("x[:, None]", lambda lib: lambda x: x[:, None], VECTOR, False),
    Operation("x[array of numbers]", lambda lib: lambda x: x[CHOSEN], VECTOR),
    Operation("x[mask]", lambda lib: lambda x: x[MASK], VECTOR, False),
    Operation("x[[i, j]]", lambda lib: lambda x: x[[3, 5]], VECTOR, False),
    Operation("a, b = x", lambda lib: lambda x: tuple(x), VECTOR[:2], False),
    Operation("reshape", lambda lib: lambda x: lib.np.reshape(x, (10, 10)), VECTOR, False),
    Operation("x.T", lambda lib: lambda x: x.T, MATRIX),
    Operation("matrix @ x", lambda lib: lambda x: MATRIX @ x, VECTOR),
    Operation("dot(x, x)", lambda lib: lambda x: lib.np.dot(x, x), VECTOR, False),
    Operation("outer", lambda lib: lambda x: lib.np.outer(x, x), VECTOR[:10], False),
    Operation("einsum", lambda lib: lambda x: lib.np.einsum("ij,ij->i", x, SQUARE), SQUARE, False),
    Operation("small x.T", lambda lib: lambda x: x.T, SQUARE),
    Operation("diag of a matrix", lambda lib: lambda x: lib.np.diag(x), SQUARE, False),
    Operation("inv, 4", lambda lib: lambda x: lib.np.linalg.inv(x), SMALL, False),
    Operation("cholesky, 4", lambda lib: lambda x: lib.np.linalg.cholesky(x), SMALL, False),
    Operation("expit", lambda lib: lambda x: lib.special.expit(x), VECTOR, False),
    Operation("logsumexp over an axis", lambda lib: lambda x: lib.special.logsumexp(x, axis=0), SMALL, False, _logsumexp),
    Operation("gammaln", lambda lib: lambda x: lib.special.gammaln(x), VECTOR, False),
    Operation("logaddexp(x, c)", lambda lib: lambda x: lib.np.logaddexp(x, 0.5), VECTOR, False),
    Operation("x / s, s = exp of a traced number", lambda lib: lambda p: OTHER / lib.np.exp(p[0]), VECTOR, False),
    Operation("solve(matrix, x), 4", lambda lib: lambda x: lib.np.linalg.solve(SMALL, x), VECTOR[:4]),
    Operation("slogdet, 4", lambda lib: lambda x: lib.np.linalg.slogdet(x)[1], SMALL, False),
]


def _at_the_line(op: Callable[[Any], Any], x: Any, times: list[float]) -> None:
    start = time.process_time()
    for _ in range(REPEATS):
        op(x)
    times.append((time.process_time() - start) / REPEATS)


def recorded(library: Library, grad: Any, operation: Operation, times: list[float]) -> Callable[[], Any]:
    """A gradient that notes what the operation costs while it is taken."""
    np, op = library.np, operation.function(library)

    def f(x: Any) -> Any:
        _at_the_line(op, x, times)
        return np.sum(x)

    gradient = grad(f)
    return lambda: gradient(operation.start)


def chain(library: Library, grad: Any, operation: Operation, n: int) -> Callable[[], Any]:
    np, op = library.np, operation.function(library)

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
    libraries = {"funcad": (Library(numpy, funcad.scipy.special, numpy.stack), funcad.grad)}
    autograd = peer("autograd")
    if autograd:
        from autograd import numpy as anp
        from autograd.scipy import special

        libraries["autograd"] = (Library(anp, special, anp.array), autograd.grad)
    plain = operation.plain or operation.function(Library(numpy, scipy.special, numpy.stack))
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

"""W3: element operations on large arrays: a polynomial (cheap), and exp, tanh and log1p (dear); values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.harness import Row, Target, main
from benchmarks.workload import Workload, rows

COEFFICIENTS = (0.3, -0.7, 0.11, 0.5, -0.21, 0.05, -0.017, 0.003)


def polynomial(np: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = x * COEFFICIENTS[-1] + COEFFICIENTS[-2]
        for c in COEFFICIENTS[-3::-1]:
            y = y * x + c
        return y

    return f


def transcendental(np: Any) -> Callable[[Any], Any]:
    return lambda x: np.tanh(x) * np.exp(-x * x) + np.log1p(x * x)


def summed(make: Callable[[Any], Any]) -> Callable[[Any], Callable[[Any], Any]]:
    """The same, summed up, so that it has a gradient."""
    return lambda np: lambda x: np.sum(make(np)(x))


def data(n: int) -> Callable[[Any], tuple]:
    return lambda dtype: (numpy.random.default_rng(0).uniform(-2.0, 2.0, n).astype(dtype),)


def polynomial_numexpr(numexpr: Any) -> Callable[[Any], Any]:
    text = repr(COEFFICIENTS[-1])
    for c in COEFFICIENTS[-2::-1]:
        text = f"({text}) * x + ({c!r})"
    return lambda x: numexpr.evaluate(text, {"x": x}, casting="same_kind")


def transcendental_numexpr(numexpr: Any) -> Callable[[Any], Any]:
    return lambda x: numexpr.evaluate("tanh(x) * exp(-x * x) + log1p(x * x)", {"x": x})


def polynomial_numba(numba: Any) -> Callable[[Any], Any]:
    c0, c1, c2, c3, c4, c5, c6, c7 = COEFFICIENTS

    @numba.vectorize(["float64(float64)", "float32(float32)"], target="parallel", fastmath=True)
    def f(x: Any) -> Any:
        return ((((((x * c7 + c6) * x + c5) * x + c4) * x + c3) * x + c2) * x + c1) * x + c0

    return f


def transcendental_numba(numba: Any) -> Callable[[Any], Any]:
    import math

    @numba.vectorize(["float64(float64)", "float32(float32)"], target="parallel", fastmath=True)
    def f(x: Any) -> Any:
        return math.tanh(x) * math.exp(-x * x) + math.log1p(x * x)

    return f


def run(rounds: int) -> list[Row]:
    large, cached = Target("jax", 0.8, 0.2), Target("jax", None, 1.0)
    dear, dear_gradient = Target("jax", 0.75, 0.35), Target("jax", 1.5, 0.4)
    poly = {"numexpr": polynomial_numexpr, "numba": polynomial_numba}
    trans = {"numexpr": transcendental_numexpr, "numba": transcendental_numba}
    return rows(
        [
            *[
                Workload(
                    f"W3a polynomial of {n:,}", polynomial, data(n), target=large if n == 10**7 else cached, others=poly,
                    by_hand=polynomial(numpy), torch=polynomial,
                )
                for n in (10**5, 10**6, 10**7)
            ],
            Workload("W3a gradient, 10,000,000", summed(polynomial), data(10**7), "grad", large, torch=summed(polynomial)),
            Workload(
                "W3b tanh exp log1p of 10,000,000", transcendental, data(10**7), target=dear, others=trans,
                by_hand=transcendental(numpy), torch=transcendental,
            ),
            Workload(
                "W3b gradient, 10,000,000", summed(transcendental), data(10**7), "grad", dear_gradient,
                torch=summed(transcendental),
            ),
        ],
        min(rounds, 7),
    )  # fmt: skip


if __name__ == "__main__":
    main(run, __doc__)

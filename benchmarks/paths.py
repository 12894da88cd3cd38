"""Python's `if` and `while` on values, jitted by recorded paths, beside the same functions un-jitted.

Time is the processor's. `turns`: guards of the path that is measured. The row of paths that never repeat is of calls with new
arguments each time, after the first 20,000; its un-jitted column is the function itself.

The second table is of gradients with more and more questions, along one path or three in turn: what 25 calls have cost for each
question by the account's count, on which a quiet and a crowded machine agree, and the last five calls beside un-jitted ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy

import funcad
from benchmarks.harness import interleaved, markdown, peer, versions
from funcad.jitted.account import COSTS

Function = Callable[[Any], Any]


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


def slow_root(a: Any) -> Any:
    """Some 400 turns."""
    x = a
    while abs(x - a * numpy.sin(x) - 1) > 1e-9:
        x = x - 0.05 * (x - a * numpy.sin(x) - 1)
    return x


def relu(x: Any) -> Any:
    return x * 3.0 if x > 0 else x * 0.1


def early(x: Any) -> Any:
    s = 0.0
    for v in x:
        if s > 1:
            break
        s = s + v * v
    return s


def walk(x: Any) -> Any:
    s = numpy.sum(x)
    for i in range(20):
        if numpy.sin(s * (i + 1)) > 0:
            s = s + 0.1 * x[0]
        else:
            s = s * 0.9 + x[1]
    return s


CASES: dict[str, tuple[Function, Any]] = {
    "relu": (relu, numpy.float64(2.0)),
    "Newton": (newton, numpy.float64(7.0)),
    "slow root": (slow_root, numpy.float64(0.5)),
    "early exit": (early, numpy.arange(6.0) * 0.3),
}


def with_jax(name: str) -> dict[str, Function]:
    """Newton's iteration as JAX wants it written, whose loop has no reverse mode."""
    jax = peer("jax")
    if jax is None or name != "Newton":
        return {}
    jnp = jax.numpy
    step = lambda c: ((c[0] + c[1] / c[0]) / 2, c[1])
    f = jax.jit(lambda a: jax.lax.while_loop(lambda c: jnp.abs(c[0] * c[0] - c[1]) > 1e-12 * c[1], step, (a, a))[0])
    return {"jax while_loop": lambda x: jax.block_until_ready(f(x))}


def turns(f: Function, x: Any) -> int:
    j = funcad.jit(f)
    j(x)
    return sum([c.times for c in j.explain(x).paths[0].conditions])


def bound(calls: dict[str, Function], x: Any) -> dict[str, Callable[[], Any]]:
    return {name: (lambda f=f: f(x)) for name, f in calls.items()}


def never_repeating(rounds: int) -> dict[str, float]:
    rng, j = numpy.random.default_rng(0), funcad.jit(walk)
    for x in rng.normal(size=(20_000, 8)):
        j(x)

    def over(f: Function) -> Callable[[], Any]:
        def run() -> None:
            for x in rng.normal(size=(1000, 8)):
                f(x)

        return run

    found = interleaved({"jit": over(j), "un-jitted": over(walk)}, rounds, time.process_time)
    return {name: seconds / 1000 for name, seconds in found.items()}


COUNTS = (56, 64, 65, 120, 128, 129, 140, 256, 257)
CALLS = 25


def asking(n: int) -> Function:
    """A function with n questions."""

    def f(x: Any) -> Any:
        s, turns = x[0], 0
        for i in range(n):
            if s < 1.0:
                s, turns = s + numpy.sin(x[i]), turns + 1
                continue
            s = s * 0.5 - numpy.cos(x[i])
        return s * turns

    return f


def growing(n: int, period: int) -> list[str]:
    """A gradient with n questions whose paths come again after so many calls: what its calls cost."""
    f = funcad.grad(asking(n))
    j, jitted, plain = funcad.jit(f), [], []
    for k in range(CALLS):
        x = numpy.random.default_rng(k % period).normal(size=COUNTS[-1])
        start = time.process_time()
        f(x)
        between = time.process_time()
        j(x)
        plain.append(between - start)
        jitted.append(time.process_time() - between)
    cost = j.cost()
    counted = [microseconds((cost.recording - COSTS["first recording"]) / n), microseconds(cost.compiling / n)]
    last = numpy.median(jitted[-5:]) / numpy.median(plain[-5:])
    return [str(n), str(period), microseconds(float(numpy.median(plain)) / n), *counted, f"{last:.2f}"]


def microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.3g} us"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    lines = [["", "turns", "jit(f)", "f", "jit(grad(f))", "grad(jit(f))", "grad(f)", "JAX's while_loop"]]
    for name, (f, x) in CASES.items():
        calls = {"jit": funcad.jit(f), "f": f, "inside": funcad.jit(funcad.grad(f)), "outside": funcad.grad(funcad.jit(f))}
        calls = {**calls, "grad": funcad.grad(f), **with_jax(name)}
        times = interleaved(bound(calls, x), rounds, time.process_time)
        columns = ("jit", "f", "inside", "outside", "grad", "jax while_loop")
        lines.append([name, str(turns(f, x)), *[microseconds(times.get(k)) for k in columns]])
    times = never_repeating(rounds)
    own = [microseconds(times[k]) for k in ("jit", "un-jitted")]
    lines.append(["paths that never repeat", "20", *own, "", "", "", ""])
    print(versions())
    print(markdown(lines), "\n")
    header = ["questions", "paths", "un-jitted, each", "recording, each", "compiling, each", "last / un-jitted"]
    print(markdown([header, *[growing(n, period) for period in (1, 3) for n in COUNTS]]))


if __name__ == "__main__":
    main()

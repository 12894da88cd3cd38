"""Gradients of a loop within a memory budget: 40,000 steps of 500 numbers, time and peak memory by budget.

The peak is the process's own (`VmHWM`, Linux only) above what it held before the gradient was asked for; the time is the
processor's, the best of `--rounds`. Once as a scan, once as a while_loop, of which nobody knows how many steps it takes. "two
scans" is the same by hand: a scan of 200 checkpointed scans of 200 steps.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import funcad
from benchmarks import harness

STEPS, SIZE = 40_000, 500
BUDGETS = ("8 MB", "1 MB", "200 kB")
A, START = numpy.linspace(0.9, 1.1, SIZE), numpy.linspace(-1.0, 1.0, SIZE)


def step(a: Any) -> Callable[[Any, Any], Any]:
    return lambda c, _: (numpy.sin(a * c) + 0.1 * c, None)


def loss(a: Any, x: Any, policy: Any = None) -> Any:
    return numpy.sum(funcad.scan(step(a), x, length=STEPS, policy=policy)[0] ** 2)


def by_hand(a: Any, x: Any) -> Any:
    inner = funcad.checkpoint(lambda c, _: (funcad.scan(step(a), c, length=200)[0], None))
    return numpy.sum(funcad.scan(inner, x, length=STEPS // 200)[0] ** 2)


def unknown_length(a: Any, x: Any, policy: Any = None) -> Any:
    turn = lambda value: (value[0] + 1, step(a)(value[1], None)[0])
    return numpy.sum(funcad.while_loop(lambda value: value[0] < STEPS, turn, (0, x), policy=policy)[1] ** 2)


def within(size: str, loss: Callable[..., Any] = loss) -> Callable[..., Any]:
    policy = funcad.checkpoint_policies.memory_budget(size)
    return lambda a, x: loss(a, x, policy)


def peak(call: Callable[[], Any]) -> float:
    """Megabytes above what the process holds."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = highest()
    call()
    return highest() - before


def highest() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1e3


def run(rounds: int) -> list[list[str]]:
    known = {"all is kept": loss, "two scans": by_hand, **{size: within(size) for size in BUDGETS}}
    unknown = {"all is kept": unknown_length, **{size: within(size, unknown_length) for size in BUDGETS}}
    rows = []
    kinds = [("un-jitted", lambda f: f), ("jitted", funcad.jit)]
    for kind, transform, functions in [
        *[(name, f, known) for name, f in kinds],
        *[(f"while_loop {name}", f, unknown) for name, f in kinds],
    ]:
        full, expected = 0.0, None
        for name, f in functions.items():
            gradient = transform(funcad.grad(f, (0, 1)))
            for _ in range(3):
                found = gradient(A, START)
            seconds = []
            for _ in range(rounds):
                start = time.process_time()
                gradient(A, START)
                seconds.append(time.process_time() - start)
            full = full or min(seconds)
            expected = expected or [g.tobytes() for g in found]
            same = "yes" if [g.tobytes() for g in found] == expected else "no"
            megabytes = peak(lambda gradient=gradient: gradient(A, START))
            rows.append([f"{kind}, {name}", f"{min(seconds):.2f} s", f"{min(seconds) / full:.2f}", f"{megabytes:.1f} MB", same])
    return rows


if __name__ == "__main__":
    given = harness.arguments(__doc__)
    print(harness.versions())
    print("\n| | time | / all kept | peak | same bits |\n|---|---|---|---|---|")
    for row in run(given.rounds):
        print("| " + " | ".join(row) + " |")

"""Value and gradient of a logistic regression whose rows lie in a file: by parts, by hand, and all in memory.

10,000,000 rows of 10 numbers and a label (880 MB), of which the file cache holds all once they have been read. Each way runs
in a process of its own; the time is the wall clock's, the best of `--rounds` after a first call, which compiles. The peak is
the process's own (`VmHWM`, Linux only; of the process that asks, where there are more) above what it held before, mapped pages
of the file included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import funcad
from benchmarks import harness
from benchmarks.memory_budget import highest
from funcad import distributed

ROWS, COLUMNS, CHUNK = 10_000_000, 10, 100_000
W = numpy.linspace(-1.0, 1.0, COLUMNS)


def loss(w: Any, part: Any) -> Any:
    """Minus the log likelihood of labels 1 and -1, which stand in the last column."""
    margins = (part[:, :-1] @ w) * part[:, -1]
    return numpy.sum(numpy.logaddexp(0.0, -margins))


jitted = funcad.jit(loss)


def by_hand(w: Any, part: Any) -> tuple[Any, Any]:
    x, labels = part[:, :-1], part[:, -1]
    below = -(x @ w) * labels
    value = numpy.logaddexp(0.0, below)
    return value.sum(), -(numpy.exp(below - value) * labels) @ x


def parts_by_hand(path: str) -> Callable[[], Any]:
    def run() -> tuple[Any, Any]:
        total, slope = 0.0, numpy.zeros(COLUMNS)
        for start in range(0, ROWS, CHUNK):
            value, g = by_hand(W, numpy.asarray(numpy.load(path, mmap_mode="r")[start : start + CHUNK]))
            total, slope = total + value, slope + g
        return total, slope

    return run


def summed(f: Any, workers: int | None = None) -> Callable[[str], Callable[[], Any]]:
    def ready(path: str) -> Callable[[], Any]:
        both = funcad.value_and_grad(distributed.sum_over(f, distributed.chunks(path, CHUNK), workers=workers))
        return lambda: both(W)

    return ready


def in_memory(f: Any) -> Callable[[str], Callable[[], Any]]:
    def ready(path: str) -> Callable[[], Any]:
        data = []

        def run() -> Any:
            if not data:
                data.append(numpy.load(path))
            return f(W, data[0])

        return run

    return ready


WAYS: dict[str, Callable[[str], Callable[[], Any]]] = {
    "NumPy by hand, in parts": parts_by_hand,
    "sum_over": summed(loss),
    "sum_over, jitted": summed(jitted),
    "sum_over, jitted, 2 processes": summed(jitted, 2),
    "NumPy by hand, all in memory": in_memory(by_hand),
    "value_and_grad, all in memory": in_memory(funcad.value_and_grad(loss)),
    "value_and_grad, jitted, all in memory": in_memory(funcad.value_and_grad(jitted)),
}


def measured(way: str, path: str, rounds: int) -> str:
    """seconds, megabytes and the value, as text: in the process that is measured."""
    run = WAYS[way](path)
    before, times = highest(), []
    run()
    for _ in range(rounds):
        start = time.perf_counter()
        value, slope = run()
        times.append(time.perf_counter() - start)
    return f"{min(times)} {highest() - before} {value!r} {float(numpy.linalg.norm(slope))!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way")
    parser.add_argument("--file")
    given = parser.parse_args()
    if given.way:
        print(measured(given.way, given.file, given.rounds))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.npy")
        rows = numpy.lib.format.open_memmap(path, "w+", numpy.float64, (ROWS, COLUMNS + 1))
        draw = numpy.random.default_rng(0)
        for start in range(0, ROWS, CHUNK):
            x = draw.normal(size=(CHUNK, COLUMNS))
            labels = numpy.where(x @ W[::-1] + draw.logistic(size=CHUNK) > 0, 1.0, -1.0)
            rows[start : start + CHUNK] = numpy.column_stack([x, labels])
        del rows
        found = {}
        for way in WAYS:
            options = ["--way", way, "--file", path, "--rounds", str(given.rounds)]
            command = [sys.executable, "-m", "benchmarks.partitions", *options]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[way] = [float(x) for x in out.split()[:2]], out.split()[2:]
        base = found["NumPy by hand, in parts"][0][0]
        print(harness.versions())
        print("\n| | time | / by hand | peak |\n|---|---|---|---|")
        for way, ((seconds, peak), _) in found.items():
            print(f"| {way} | {seconds:.2f} s | {seconds / base:.2f} | {peak:.0f} MB |")
        for way, (_, answer) in found.items():
            print(f"{way}: value and norm of the gradient {' '.join(answer)}")


if __name__ == "__main__":
    main()

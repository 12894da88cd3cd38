"""What BLAS's threads are worth, on this machine as it is and with a process that keeps one core busy.

Products, decompositions and a transformer's gradient on one thread of BLAS and on all of them; of the gradient also what funcad
chooses (`funcad.config.blas_threads`). Wall-clock time, medians; the threads take turns.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = str(os.cpu_count())  # in place of the 1 of benchmarks/__init__.py; NumPy comes later

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy

import funcad
from benchmarks import harness
from funcad.backends import blas_threads

SIZES = (64, 128, 256, 512, 1024, 1536)


def operations() -> Iterator[tuple[str, Callable[[], Any]]]:
    random = numpy.random.default_rng(0)
    for n in SIZES:
        a = random.normal(size=(n, n))
        yield f"{n} x {n} @ {n} x {n}", lambda a=a: a @ a
    for n in (100, 200):
        a = random.normal(size=(n, n))
        yield f"solve, {n} rows", lambda a=a: numpy.linalg.solve(a, a.T)
        yield f"eigvalsh, {n} rows", lambda a=a: numpy.linalg.eigvalsh(a + a.T)


def block(p: dict[str, Any], x: Any) -> Any:
    n, d = x.shape

    def normal(x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    q, k, v = [(normal(x) @ p[w]).reshape(n, 4, d // 4).transpose(1, 0, 2) for w in "qkv"]
    s = q @ k.transpose(0, 2, 1) / numpy.sqrt(d // 4)
    s = numpy.exp(s - s.max(-1, keepdims=True))
    x = x + ((s / s.sum(-1, keepdims=True)) @ v).transpose(1, 0, 2).reshape(n, d) @ p["o"]
    return x + numpy.tanh(normal(x) @ p["a"]) @ p["b"]


def gradient() -> Callable[[], Any]:
    random, d = numpy.random.default_rng(0), 256
    p = {w: random.normal(size=(d, d)) / 16 for w in "qkvo"}
    p |= {"a": random.normal(size=(d, 4 * d)) / 16, "b": random.normal(size=(4 * d, d)) / 32}
    x = random.normal(size=(256, d))
    f = funcad.jit(funcad.grad(lambda p, x: numpy.sum(block(p, x) ** 2)))
    return lambda: f(p, x)


def timed(call: Callable[[], Any], settings: dict[Any, Callable[[], None]], rounds: int) -> dict[Any, float]:
    """Medians, by setting; short calls are repeated."""
    next(iter(settings.values()))()
    start = time.perf_counter()
    call()
    times = max(1, int(5e-3 / (time.perf_counter() - start)))
    seconds: dict[Any, list[float]] = {name: [] for name in settings}
    for _ in range(rounds):
        for name, choose in settings.items():
            choose()
            start = time.perf_counter()
            for _ in range(times):
                call()
            seconds[name].append((time.perf_counter() - start) / times)
    return {name: median(found) for name, found in seconds.items()}


def run(rounds: int) -> str:
    (library, *_), cores = blas_threads._libraries(), os.cpu_count() or 1
    lines = [["", "busy cores", "one thread", f"{cores} threads", "ratio", "funcad's choice"]]
    for busy in (0, 1):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            for what, call in operations():
                found = timed(call, {n: lambda n=n: library.set(n) for n in (1, cores)}, rounds)
                lines.append(_line(what, busy, found[1], found[cores]))
                print(lines[-1], file=sys.stderr, flush=True)
            library.set(cores)
            call = gradient()
            for _ in range(3):
                call()
            choices = {n: lambda n=n: funcad.config.update("blas_threads", n) for n in (1, 0, None)}
            found = timed(call, choices, rounds)
            lines.append(_line("transformer block, gradient", busy, found[1], found[0], found[None]))
        finally:
            for other in others:
                other.kill()
    return harness.markdown(lines)


def _line(what: str, busy: int, one: float, all_: float, ours: float | None = None) -> list[str]:
    own = "" if ours is None else harness.formatted(ours, "s")
    return [what, str(busy), harness.formatted(one, "s"), harness.formatted(all_, "s"), f"{all_ / one:.2f}", own]


if __name__ == "__main__":
    print(run(harness.arguments((__doc__ or "").partition("\n")[0]).rounds))

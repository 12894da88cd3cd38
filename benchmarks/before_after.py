"""Two checkouts side by side: is this one as fast as that one? `python -m benchmarks.before_after OLD_CHECKOUT [name ...]`.

Idea: a process for each checkout, both alive, take turns at every row; a row's figure is the minimum of the processor's time of
all threads over the rounds, which other work on the machine can only raise. Rows are W1 to W10 on both engines, the real
programs un-jitted, and the jitted programs with their gradients. Rows below 50 us are counted, too: a warm call's calls of
Python and C functions, which no noise touches. Traps: both processes must use the same benchmarks, so each takes those of its
own checkout and the rows that both have are compared; garbage is collected before a turn, not in it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from math import exp, log
from pathlib import Path
from typing import Any

SECONDS = 0.04  # of a turn
COUNTED = 50e-6  # rows below are compared by their calls


# -- a checkout's side


def rows_here() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Names of rows, each with what makes its call."""
    import numpy

    import funcad
    from benchmarks import (
        w1_scalar,
        w2_mlp,
        w3_elementwise,
        w4_logistic,
        w6_softmax,
        w7_layernorm,
        w8_rnn,
        w9_vmap_grad,
        w10_hessian,
    )
    from benchmarks.harness import peer
    from benchmarks.jitted import PROGRAMS as jitted
    from benchmarks.jitted.program import Library as JittedLibrary
    from benchmarks.real import PROGRAMS as real
    from benchmarks.real.program import Library
    from benchmarks.workload import TRANSFORMS

    special = peer("scipy.special")
    double = numpy.float64

    def of_workload(transform: str, function: Any, data: Any, engine: str | None) -> Callable[[], Any]:
        def made() -> Callable[[], Any]:
            call = TRANSFORMS[transform](funcad, function(numpy))
            if engine:
                funcad.config.update("engine", engine)
                call = funcad.jit(call)
            arguments = data(double)
            return lambda: call(*arguments)

        return made

    scalar = lambda dtype: (0.5,)
    workloads = {
        "W1 gradient": ("grad", w1_scalar.function, scalar),
        "W2 value_and_grad": ("value_and_grad", w2_mlp.function, w2_mlp.data),
        "W3 polynomial": ("value", w3_elementwise.polynomial, w3_elementwise.data(10**6)),
        "W3 transcendental": ("value", w3_elementwise.transcendental, w3_elementwise.data(10**6)),
        "W4 logistic": ("value_and_grad", w4_logistic.loss, w4_logistic.data),
        "W5 its hvp": ("hvp", w4_logistic.loss, w4_logistic.data_with_direction),
        "W6 softmax": ("value_and_grad", w6_softmax.loss, w6_softmax.data),
        "W7 layernorm": ("value_and_grad", w7_layernorm.weighted, w7_layernorm.data),
        "W8 RNN": ("grad", w8_rnn.loss, w8_rnn.data),
        "W9 vmap(grad)": ("vmap_grad", w9_vmap_grad.rosenbrock, w9_vmap_grad.data),
        "W10 Hessian": ("hessian", w9_vmap_grad.rosenbrock, w10_hessian.data),
    }
    found: dict[str, Callable[[], Callable[[], Any]]] = {}
    for what, (transform, function, data) in workloads.items():
        for engine in ("native", "numpy"):
            found[f"{what}, {engine}"] = of_workload(transform, function, data, engine)
    for what in ("W1 gradient", "W2 value_and_grad", "W4 logistic", "W5 its hvp"):
        found[f"{what}, un-jitted"] = of_workload(*workloads[what], None)

    library = Library(numpy, special, numpy.array)

    def of_real(program: Any, transform: Any) -> Callable[[], Any]:
        def made() -> Callable[[], Any]:
            f = transform(program.function(library))
            return lambda: f(program.start)

        return made

    for program in real:
        for derivative in program.derivatives:
            if derivative in ("value_and_grad", "hessian"):
                if derivative == "value_and_grad" or not isinstance(program.start, (dict, list, tuple)):
                    found[f"{program.what}, {derivative}, un-jitted"] = of_real(program, getattr(funcad, derivative))

    theirs = JittedLibrary(numpy, funcad.lax, special, funcad, funcad.ops.segment_sum, funcad.tree.map)

    def of_program(program: Any) -> Callable[[], Any]:
        def made() -> Callable[[], Any]:
            funcad.config.update("engine", "native")
            f = program.function(theirs)
            call = funcad.jit(funcad.grad(f) if program.gradient else f)
            arguments = program.data(double)
            return lambda: call(*arguments)

        return made

    for program in jitted:
        found[f"{program.what}, native"] = of_program(program)
    return found


def counted_calls(f: Callable[[], Any]) -> int:
    """How many functions, of Python and of C, one call of f enters."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        f()
    finally:
        sys.setprofile(None)
    return count


def serve() -> None:
    """Answers lines of JSON: a row's name and what is asked of it."""
    rows = rows_here()
    live: dict[str, tuple[Callable[[], Any], int]] = {}
    print(json.dumps(list(rows)), flush=True)
    for line in sys.stdin:
        what, question = json.loads(line)
        try:
            if question == "prepare":
                f = rows[what]()
                for _ in range(6):
                    f()  # traces and compiles
                start = time.perf_counter()
                f()
                live[what] = f, max(1, int(SECONDS / max(time.perf_counter() - start, 1e-7)))
                answer: Any = counted_calls(f)
            elif question == "forget":
                del live[what]
                answer = None
            else:
                f, n = live[what]
                gc.collect()
                gc.disable()
                start = time.process_time()
                for _ in range(n):
                    f()
                answer = (time.process_time() - start) / n
                gc.enable()
        except Exception as error:  # the row is said to fail, and the next one is asked for
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


# -- the side that asks


class Checkout:
    """A process that runs the rows of one checkout."""

    def __init__(self, root: Path):
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", str(root.resolve())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        self.rows = self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, what: str, question: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([what, question]) + "\n")
        self.process.stdin.flush()
        return self.answer()


def compared(old: Checkout, new: Checkout, names: list[str], rounds: int) -> Iterator[tuple[str, float, float, int, int]]:
    """Of each row: its name, seconds before and now, calls before and now."""
    for what in old.rows:
        if what not in new.rows or names and not any(name in what for name in names):
            continue
        calls = [side.ask(what, "prepare") for side in (old, new)]
        if any(isinstance(answer, str) for answer in calls):
            print(f"{what}: {calls}", flush=True)
            continue
        best = [float("inf")] * 2
        for turn in range(rounds):
            for i in ((0, 1), (1, 0))[turn % 2]:
                best[i] = min(best[i], (old, new)[i].ask(what, "time"))
        for side in (old, new):
            side.ask(what, "forget")
        yield what, *best, *calls


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, help="the checkout to compare with")
    parser.add_argument("names", nargs="*", help="parts of the rows' names (default: all rows)")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    old, new = Checkout(options.old), Checkout(Path(__file__).resolve().parents[1])
    ratios = []
    print("| row | before | now | now / before | calls before | now |\n|---|---|---|---|---|---|")
    for what, before, now, calls_before, calls_now in compared(old, new, options.names, options.rounds):
        counted = min(before, now) < COUNTED
        ratios.append(calls_now / calls_before if counted else now / before)
        shown = f"{calls_before} | {calls_now}" if counted else "|"
        print(f"| {what} | {before * 1e6:.1f} us | {now * 1e6:.1f} us | {now / before:.3f} | {shown} |", flush=True)
    mean = exp(sum(map(log, ratios)) / len(ratios))
    print(f"\nGeometric mean {mean:.3f}, worst {max(ratios):.3f}, {len(ratios)} rows (those below 50 us by their calls).")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        sys.path[0] = sys.argv[2]
        serve()
    else:
        main()

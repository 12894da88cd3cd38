"""What jit costs beside the same calls un-jitted, from the first call on: `python -m benchmarks.never_slower [name ...]`.

Idea: the bound says that at each prefix of any sequence of calls, jitted calls have cost at most twice the un-jitted ones and
.2 s and a microsecond a call. So each program is called in turn un-jitted and jitted, in a process of its own, and the worst
prefix counts. Time is the processor's, of all threads. Trap: each process loads the
compiler once, and that counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import funcad
from benchmarks.harness import markdown, versions
from benchmarks.never_slower_programs import CASES

FIXED, FACTOR, EACH = 0.2, 2.0, 1e-6  # of the bound: seconds, times the un-jitted time, seconds a call
CALLS = 40
LONGEST = 20.0  # seconds of both kinds of calls, after which a program is not called again
WARMS = "grad Newton, same path"
LAST = 5  # calls, of which the median tells what a call costs in the end


def measured(name: str, calls: int, longest: float = LONGEST) -> dict[str, Any]:
    """One program, in this process: what each call took, both ways, and the largest memory."""
    case = CASES[name]
    plain = case.transform(case.function)
    jitted = funcad.jit(case.transform(case.function))
    times: list[tuple[float, float]] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = time.process_time()
    for k in range(calls):
        arguments = case.arguments(k)
        gc.collect()
        a = time.process_time()
        expected = plain(*arguments)
        b = time.process_time()
        found = jitted(*arguments)
        c = time.process_time()
        times.append((b - a, c - b))
        for x, y in zip(funcad.tree.leaves(expected), funcad.tree.leaves(found)):
            np.testing.assert_allclose(y, x, rtol=1e-6, atol=1e-8)
        if time.process_time() - spent > longest:
            break
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"times": times, "megabytes": (after - before) / 1024}


def summary(times: list[tuple[float, float]]) -> dict[str, float]:
    """The worst excess over the bound, the worst ratio of what is beyond the fixed part, and the last calls."""
    un, jit, excess, ratio = 0.0, 0.0, -np.inf, 0.0
    for k, (u, j) in enumerate(times, 1):
        un, jit = un + u, jit + j
        excess = max(excess, jit - (FACTOR * un + FIXED + EACH * k))
        ratio = max(ratio, (jit - FIXED - EACH * k) / un)
    last = np.median(np.array(times[-LAST:]), axis=0)
    return {"calls": len(times), "un-jitted": un, "jitted": jit, "excess": excess, "ratio": ratio, "last": last[1] / last[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of programs")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds of a program, after which it is stopped")
    parser.add_argument("--one", help="one program, in this process; prints JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.calls, options.longest)))
        return
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as folder:  # modules are compiled once, as those of an installed package are
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([sys.executable, "-m", "benchmarks.never_slower", "--one", WARMS], capture_output=True, env=environment)
        rows, failed = everything(options, environment)
    report(rows, failed)


def everything(options: argparse.Namespace, environment: dict[str, str]) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """The rows of all programs, and what failed."""
    rows, failed = [], []
    for name in CASES:
        if options.names and not any(part in name for part in options.names):
            continue
        command = [sys.executable, "-m", "benchmarks.never_slower", "--one", name]
        command += ["--calls", str(options.calls), "--longest", str(options.longest)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            failed.append((name, done.stderr.strip().splitlines()[-1] if done.stderr else str(done.returncode)))
            continue
        found = json.loads(done.stdout)
        s = summary(found["times"])
        first = " ".join([f"{1e3 * j:.1f}" for _, j in found["times"][:4]])
        un = 1e3 * float(np.median([u for u, _ in found["times"]]))
        numbers = [f"{un:.2f}", first, str(s["calls"]), f"{s['ratio']:.2f}", f"{s['excess']:.2f}", f"{s['last']:.2f}"]
        rows.append([name, *numbers, f"{found['megabytes']:.0f}"])
        print(*rows[-1], sep=" | ", flush=True)
    return rows, failed


def report(rows: list[list[str]], failed: list[tuple[str, str]]) -> None:
    header = ["program", "un-jitted ms", "jitted ms, first calls", "calls", "worst ratio", "worst excess s", "last", "MB"]
    print(versions(), "\n")
    print(markdown([header, *rows]))
    kept = [row for row in rows if float(row[5]) <= 0]
    faster = [row for row in rows if float(row[6]) < 1]
    print(f"\n{len(rows)} programs: {len(kept)} within the bound, {len(faster)} faster in the last calls.")
    for name, error in failed:
        print(f"failed: {name}: {error}")


if __name__ == "__main__":
    main()

"""Jitted programs that nothing was tuned for, beside JAX: value and gradient, the native engine and NumPy's.

Idea: workloads that were tuned for say little about the next program. These (`benchmarks/jitted`) are of the kinds that people
write for JAX, from networks to lattices, each one function for both libraries. A row has the warm call of both engines and of
JAX, the un-jitted call, and the first calls, which trace and compile. Then all is compiled at once: a warm call is what a
program comes to, however late that is repaid. Traps: time is the processor's, of all threads, so that an interruption does not
count: run it with `--pin`, or a library that uses two cores pays for both; JAX's results are waited for; XLA takes minutes over
long Python loops with concatenations, so those are short here.
"""

from __future__ import annotations

import datetime
import gc
import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import numpy

import funcad
import funcad.lax
import funcad.ops
import funcad.scipy.special
from benchmarks import harness
from benchmarks.harness import ENGINES, Row, Target
from benchmarks.jitted import PROGRAMS
from benchmarks.jitted.program import Library, Program

__all__ = ["results", "run"]

COLUMNS = {"native": "funcad", "numpy": "funcad numpy"}
TARGET = Target("jax", 1.6, 1.0)
SETTLED = 100, 1.0  # calls, or seconds of them, before the warm ones: small programs are compiled once more
UNJITTED_SECONDS = 2.0  # of one call: what takes longer is measured once
Call = Callable[[], Any]


class Result(NamedTuple):
    """One row: seconds of the warm calls, of the first calls, and of an un-jitted call."""

    what: str
    seconds: dict[str, float]
    first: dict[str, float]
    unjitted: float


def own() -> Library:
    special, segment_sum = funcad.scipy.special, funcad.ops.segment_sum
    return Library(numpy, funcad.lax, special, funcad, segment_sum, funcad.tree.map)


def theirs(jax: Any) -> Library:
    from jax.scipy import special

    return Library(jax.numpy, jax.lax, special, jax, jax.ops.segment_sum, jax.tree.map)


def differentiated(lib: Library, program: Program, kind: str) -> Callable[..., Any]:
    f = program.function(lib)
    return f if kind == "value" else lib.transforms.value_and_grad(f)


def candidates(program: Program, kind: str, dtype: Any) -> tuple[dict[str, Call], Call]:
    """The jitted calls by column, and funcad's un-jitted one."""
    given = program.data(dtype)
    f = differentiated(own(), program, kind)
    calls: dict[str, Call] = {}
    for engine in ENGINES:
        if engine == "numpy" or harness.native_engine():
            jitted = funcad.jit(f)
            calls[COLUMNS[engine]] = harness.using_engine(engine, partial(jitted, *given))
            calls[COLUMNS[engine]].warm = partial(compiled_now, jitted, given)  # type: ignore[attr-defined]
    jax = harness.peer("jax")
    if jax:
        compiled = jax.jit(differentiated(theirs(jax), program, kind))
        on_device = jax.tree.map(jax.numpy.asarray, given)
        calls["jax"] = lambda: jax.block_until_ready(compiled(*on_device))
    return calls, lambda: f(*given)


def compiled_now(jitted: Any, given: tuple) -> None:
    """What later calls use, without waiting until it is repaid."""
    jitted.lower(*given).compile()


def timed(call: Call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def check(what: str, calls: dict[str, Call], tolerance: float) -> None:
    """All results equal, but for rounding."""
    name, *others = calls
    getattr(calls[name], "prepare", lambda: None)()
    expected = [numpy.asarray(a) for a in funcad.tree.leaves(calls[name]())]
    for other in others:
        getattr(calls[other], "prepare", lambda: None)()
        found = [numpy.asarray(a) for a in funcad.tree.leaves(calls[other]())]
        assert len(found) == len(expected), f"{what}: {other} gives {len(found)} results, {name} {len(expected)}"
        for a, b in zip(found, expected):
            scale = float(numpy.max(numpy.abs(b), initial=1e-30))
            numpy.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=f"{what}: {other}")


def measured(program: Program, kind: str, rounds: int, dtype: Any = numpy.float64) -> Result:
    calls, plain = candidates(program, kind, dtype)
    what = f"{program.what}, {kind}"
    gc.collect()
    first = {}
    for name, call in calls.items():
        getattr(call, "prepare", lambda: None)()
        first[name] = timed(call)
    check(what, {**calls, "un-jitted": plain}, program.tolerance if dtype == numpy.float64 else 1e5 * program.tolerance)
    for call in calls.values():
        getattr(call, "prepare", lambda: None)()
        getattr(call, "warm", lambda: None)()
        stop = time.process_time() + SETTLED[1]
        for _ in range(SETTLED[0]):
            if time.process_time() < stop:
                call()
    one = timed(plain)
    unjitted = one if one > UNJITTED_SECONDS else median([timed(plain) for _ in range(5)])
    return Result(what, harness.interleaved(dict(calls), rounds, time.process_time), first, unjitted)


def results(rounds: int, names: Iterable[str] = ()) -> list[Result]:
    """All programs, or those whose names contain one of `names`."""
    if harness.peer("jax") is None:
        print("jax is not installed: left out")
    gc.collect()
    gc.freeze()  # or each collection looks at all of JAX
    found = []
    for program in PROGRAMS:
        if not names or any(n in program.what for n in names):
            for kind in ("value", "gradient") if program.gradient else ("value",):
                found.append(measured(program, kind, rounds))
    return found


def run(rounds: int) -> list[Row]:
    """The warm calls as rows of the harness, with their targets."""
    return [Row(r.what, r.seconds, target=TARGET) for r in results(rounds)]


def table(found: list[Result]) -> str:
    lines = [["", "funcad", "funcad numpy", "jax", "/ jax", "numpy / jax", "un-jitted", "jitted / un-jitted"]]
    lines[0] += ["first call", "numpy: first", "jax: first"]
    for r in found:
        s = {"funcad": r.seconds["funcad numpy"], **r.seconds}
        time_of = lambda values, name: harness.formatted(values[name], "s") if name in values else ""
        ratio = lambda name, s=s: f"{s[name] / s['jax']:.2f}" if "jax" in s else ""
        line = [r.what, *[time_of(s, n) for n in ("funcad", "funcad numpy", "jax")], ratio("funcad"), ratio("funcad numpy")]
        line += [harness.formatted(r.unjitted, "s"), f"{s['funcad'] / r.unjitted:.2f}"]
        lines.append([*line, *[time_of(r.first, n) for n in ("funcad", "funcad numpy", "jax")]])
    return harness.markdown(lines)


def summary(found: list[Result]) -> str:
    """Of each engine: how many rows are as fast as JAX, the mean and the worst ratio; first calls; jit that does not pay."""
    lines = [["funcad's time / JAX's", "rows", "at least as fast", "geometric mean", "over 1.5", "over 2", "worst", "where"]]
    for column in COLUMNS.values():
        ratios = {r.what: r.seconds[column] / r.seconds["jax"] for r in found if {column, "jax"} <= set(r.seconds)}
        if ratios:
            worst = max(ratios, key=lambda what: ratios[what])
            counts = [sum(x <= 1.0 for x in ratios.values()), *[sum(x > y for x in ratios.values()) for y in (1.5, 2.0)]]
            line = [column, str(len(ratios)), str(counts[0]), f"{geometric_mean(ratios.values()):.2f}", *map(str, counts[1:])]
            lines.append([*line, f"{ratios[worst]:.3g}", worst])
    text = harness.markdown(lines)
    for column in COLUMNS.values():
        first = [r.first[column] / r.first["jax"] for r in found if {column, "jax"} <= set(r.first)]
        if first:
            slower = sum(x > 1.0 for x in first)
            text += f"\n\nFirst call, {column} / jax: geometric mean {geometric_mean(first):.2f}, worst {max(first):.2f}, "
            text += f"slower in {slower}."
        slow = [f"{r.what} ({r.seconds[column] / r.unjitted:.2f})" for r in found if r.seconds.get(column, 0.0) > r.unjitted]
        text += f"\n\nSlower jitted than un-jitted, {column}: {', '.join(slow) or 'none'}."
    return text


if __name__ == "__main__":
    options = harness.arguments((__doc__ or "").partition("\n")[0])
    print(f"{datetime.date.today()}, {harness.versions()}", end="\n\n", flush=True)
    everything = results(options.rounds)
    print(summary(everything), table(everything), sep="\n\n")

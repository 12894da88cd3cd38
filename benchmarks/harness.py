"""What every benchmark here shares: peers, interleaved medians, one table.

Idea: a figure means something only beside a peer's, measured in the same minute. `interleaved` calls the candidates in turns,
round after round, and takes each one's median, so a machine that is busy for a second is as unfair to all. Peers are
optional: what is not installed is left out and named. Traps: a JAX call returns before its work is done, so its results are
waited for; a round repeats a quick call until it takes `ROUND_SECONDS`, and the cost of the loop itself stays in.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from statistics import median
from typing import Any, NamedTuple

from funcad import config

ROUND_SECONDS = 0.02
PEERS = ("funcad numpy", "numpy", "autograd", "jax", "torch", "torch.compile", "numexpr", "numba", "un-jitted")  # the columns
ENGINES = ("native", "numpy")  # funcad's: the second needs NumPy only, and is the column "funcad numpy"
UNITS = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")), "activations": ((1.0, "activations"),)}


class Target(NamedTuple):
    """The highest ratio to a peer's time that is good enough, for each engine (None: not set)."""

    peer: str
    numpy: float | None
    native: float | None


class Row(NamedTuple):
    """One line of the table: what was measured, and the value for each library ("funcad" among them)."""

    what: str
    values: dict[str, float]
    unit: str = "s"
    target: Target | None = None


def peer(name: str) -> Any:
    """The module of a peer, or None where it is not installed. JAX is set to float64, the precision of the others."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    if name == "jax":
        module.config.update("jax_enable_x64", True)
    return module


def native_engine() -> bool:
    """Is funcad's native engine there (the extra `fast`)?"""
    try:
        from funcad.backends.native import target
    except ImportError:
        return False
    return bool(target.available())


def using_engine(engine: str, f: Callable[[], Any]) -> Callable[[], Any]:
    """f, run by one of funcad's engines: set before each of its turns, not at each call."""
    f.prepare = lambda: config.update("engine", engine)  # type: ignore[attr-defined]
    return f


def interleaved(
    candidates: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds, by `clock`, of one call of each candidate, over rounds in which each has its turn."""
    calls = {}
    prepare = lambda f: getattr(f, "prepare", lambda: None)()
    for name, f in candidates.items():
        prepare(f)
        for _ in range(4):
            f()  # traces and compiles
        start = clock()
        f()
        calls[name] = max(1, int(ROUND_SECONDS / max(clock() - start, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    for _ in range(rounds):
        order.append(order.pop(0))
        for name in order:
            f, n = candidates[name], calls[name]
            prepare(f)
            start = clock()
            for _ in range(n):
                f()
            seconds[name].append((clock() - start) / n)
    return {name: median(found) for name, found in seconds.items()}


def measure(what: str, candidates: dict[str, Callable[[], Any] | None], rounds: int) -> Row:
    """A row of times; candidates that are None are left out."""
    return Row(what, interleaved({name: f for name, f in candidates.items() if f is not None}, rounds))


def formatted(value: float, unit: str) -> str:
    """Three digits in the unit that suits the value."""
    scale, name = next((u for u in UNITS[unit] if abs(value) >= u[0]), UNITS[unit][-1])
    return f"{value / scale:.3g} {name}"


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table; a ratio below 1 means that funcad is faster, or smaller."""
    rows = [row if "funcad" in row.values else row._replace(values=_numpy_only(row.values)) for row in rows]
    names = [name for name in PEERS if any(name in row.values for row in rows)]
    lines = [["", "funcad", *names, *[f"funcad / {name}" for name in names]]]
    for row in rows:
        own = row.values["funcad"]
        others = [row.values.get(name) for name in names]
        lines.append(
            [
                row.what,
                formatted(own, row.unit),
                *["" if v is None else formatted(v, row.unit) for v in others],
                *["" if v is None else f"{own / v:.2g}" for v in others],
            ]
        )
    return markdown(lines)


def markdown(lines: list[list[str]]) -> str:
    """Lines of cells as a Markdown table; the first line is its head."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(text)


def _numpy_only(values: dict[str, float]) -> dict[str, float]:
    """The NumPy engine as the only one."""
    return {"funcad" if name == "funcad numpy" else name: value for name, value in values.items()}


def ratios(rows: Iterable[Row]) -> list[tuple[str, str, str, float, float]]:
    """(what, engine, peer, ratio, target) of the rows that have a target and the peer."""
    found = []
    for row in rows:
        if row.target is None or row.target.peer not in row.values:
            continue
        peer_value = row.values[row.target.peer]
        for engine, column, limit in (
            ("numpy", "funcad numpy", row.target.numpy),
            ("native", "funcad", row.target.native),
        ):
            if limit is not None and column in row.values:
                found.append((row.what, engine, row.target.peer, row.values[column] / peer_value, limit))
    return found


def targets_table(rows: Iterable[Row]) -> str:
    """The ratios beside their targets, as a Markdown table."""
    lines = ["| workload | engine | peer | ratio | target | |", "|---|---|---|---|---|---|"]
    for what, engine, name, ratio, limit in ratios(rows):
        lines.append(f"| {what} | {engine} | {name} | {ratio:.3g} | {limit:g} | {'met' if ratio <= limit else 'missed'} |")
    return "\n".join(lines)


def plot(rows: Iterable[Row], path: str) -> bool:
    """The ratios as bars beside their targets, written to `path` (SVG or PNG); False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    found = ratios(rows)
    figure = Figure(figsize=(9, 0.28 * len(found) + 1.2), layout="constrained")
    axes = figure.subplots()
    colours = {"numpy": "#7a9cc6", "native": "#2b4c7e"}
    for i, (_, engine, _, ratio, limit) in enumerate(reversed(found)):
        axes.barh(i, ratio, color=colours[engine])
        axes.plot([limit, limit], [i - 0.45, i + 0.45], color="#c0392b", linewidth=2)
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=0.8)
    labels = [f"{what} / {name}  ({engine})" for what, engine, name, _, _ in reversed(found)]
    axes.set_yticks(range(len(found)), labels, fontsize=7)
    axes.set_xlabel("funcad's time / the peer's (red: target; left of 1: funcad is faster)")
    figure.savefig(path)
    return True


def versions() -> str:
    """Python, NumPy and the peers: the versions measured, and the peers that are missing."""
    found = [f"Python {platform.python_version()}"]
    for name in (*PEERS[1:5], "numexpr", "numba", "llvmlite"):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} is not installed: left out")
    return ", ".join(found)


def arguments(description: str, names: Iterable[str] = ()) -> argparse.Namespace:
    """The command line of a benchmark; `--pin` takes effect at once."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=15, help="rounds, of which the median is taken (default: 15)")
    parser.add_argument("--pin", action="store_true", help="run on one core (Linux only)")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios beside their targets")
    names = list(names)
    if names:
        parser.add_argument("names", nargs="*", metavar="name", help=f"which to run (default: all): {', '.join(names)}")
    options = parser.parse_args()
    unknown = set(getattr(options, "names", ())) - set(names)
    if unknown:
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if options.pin:
        if not hasattr(os, "sched_setaffinity"):
            parser.error("--pin needs Linux")
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return options


def main(run: Callable[[int], list[Row]], description: str | None) -> None:
    """The command line of one benchmark: `python -m benchmarks.NAME`."""
    options = arguments((description or "").partition("\n")[0])
    print(versions(), end="\n\n")
    rows = run(options.rounds)
    print(table(rows))
    if ratios(rows):
        print("", targets_table(rows), sep="\n")
    if options.plot and not plot(rows, options.plot):
        print("no plot: matplotlib is not installed")

"""Data-parallel gradients on several processes: what they gain, what they send, and a model of what sending costs.

`python -m benchmarks.over_processes --results benchmarks/RESULTS_DISTRIBUTED.md` starts itself under mpirun on 1, 2 and 4
processes. Measured are the latency of a psum beside mpi4py's bare Allreduce, from which the model t = alpha + beta bytes is
fitted, and four workloads: a logistic regression of ten million rows, the tour's network on handwritten digits, the heat
equation on a grid that is cut into blocks, and a transformer of ten million parameters, of which the order of events in a step
is written down. Wall-clock time: the least over runs, because what else runs on the machine only adds to it, and the greatest
over the processes; beside it the processor's time, the least over runs of what the process took that took most: on a busy
machine it says how the work is divided. `predicted` is the model's step on any number of processes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import funcad
from funcad import distributed, lax
from funcad.distributed import Mpi, spmd

ROWS, COLUMNS = 10_000_000, 8
COUNTS = (1, 2, 4)
SIZES = (1, 100, 1000, 10_000, 100_000, 1_000_000)  # numbers of a sum
CHAIN = 8  # sums of one program, each of which needs the one before


class Timed(Mpi):
    """The processes, with the seconds that this one spent sending and waiting."""

    __slots__ = ("seconds",)

    def run(self, call: Any, x: np.ndarray) -> np.ndarray:
        start = time.perf_counter()
        try:
            return super().run(call, x)
        finally:
            self.seconds += time.perf_counter() - start

    def finish(self, number: int) -> np.ndarray:
        start = time.perf_counter()
        try:
            return super().finish(number)
        finally:
            self.seconds += time.perf_counter() - start


def timed() -> Timed:
    comm = Timed()
    comm.seconds = 0.0
    return comm


def each(f: Callable[..., Any], comm: Mpi, repeats: int, inner: int, *args: Any) -> float:
    """Seconds of a call, the least over repeats, which begin together: others that run on the machine only add to it."""
    found = []
    for _ in range(repeats):
        comm.comm.Barrier()
        start = time.perf_counter()
        for _ in range(inner):
            f(*args)
        found.append((time.perf_counter() - start) / inner)
    return max(comm.comm.allgather(min(found)))


# ---------------------------------------------------------------- latencies


def latencies(comm: Mpi) -> dict[str, Any]:
    def chain(x: Any) -> Any:
        for _ in range(CHAIN):
            x = lax.psum(x, "i") * 0.5
        return x

    total = spmd(lambda x: lax.psum(x, "i"), "i", comm=comm)
    jitted, chained = funcad.jit(total), funcad.jit(spmd(chain, "i", comm=comm))
    found: dict[int, list[float]] = {}
    for n in SIZES * 3:
        x, out = np.ones(n), np.empty(n)
        for f in (total, jitted, chained):
            f(x), f(x), f(x)
        often = (40, 20) if n <= 10_000 else (10, 2)
        times = [each(comm.comm.Allreduce, comm, *often, x, out)]
        times += [each(total, comm, *often, x), each(jitted, comm, *often, x), each(chained, comm, *often, x) / CHAIN]
        found[n] = list(map(min, times, found.get(n, times)))
    return {"latencies": [[8 * n, *times] for n, times in found.items()]}


def fitted(rows: list[list[float]], column: int) -> tuple[float, float]:
    """(alpha, beta) of seconds = alpha + beta bytes, where each size has the same say: least squares of relative errors."""
    a = np.array([[1.0 / row[column], row[0] / row[column]] for row in rows])
    alpha, beta = np.linalg.lstsq(a, np.ones(len(rows)), rcond=None)[0]
    return float(alpha), float(beta)


# ---------------------------------------------------------------- workloads


def regression(comm: Timed) -> dict[str, Any]:
    n = ROWS // comm.size
    draw = np.random.default_rng(comm.rank)
    truth = np.linspace(-1.0, 1.0, COLUMNS)
    x = draw.normal(size=(n, COLUMNS))
    y = (x @ truth + draw.logistic(size=n) > 0).astype(np.float64)

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return np.mean(np.maximum(z, 0.0) - z * y + np.log1p(np.exp(-np.abs(z))))

    return steps(comm, loss, np.zeros(COLUMNS), (x, y), 1.0, 8)


def network(comm: Timed) -> dict[str, Any]:
    from funcad import tour  # it needs scikit-learn

    x, y, _, _ = tour.make_data(np.random.default_rng(0))
    y = np.eye(10)[y]
    rows = len(x) // comm.size  # equally many, because processes count equally
    own = slice(comm.rank * rows, (comm.rank + 1) * rows)
    return steps(comm, tour.loss, tour.make_params(np.random.default_rng(1), 64, 128, 10), (x[own], y[own]), 0.1, 200)


WIDTH, DEPTH, WORDS, LENGTH, BATCH = 256, 12, 1000, 64, 2  # of the transformer
GRID = 1024  # points of a side of the plate


def transformer(comm: Timed) -> dict[str, Any]:
    draw = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return (draw.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)

    layers = [
        {
            "qkv": matrix(WIDTH, 3 * WIDTH),
            "out": matrix(WIDTH, WIDTH),
            "up": matrix(WIDTH, 4 * WIDTH),
            "down": matrix(4 * WIDTH, WIDTH),
        }
        for _ in range(DEPTH)
    ]
    w = {"words": matrix(WORDS, WIDTH), "layers": layers, "last": matrix(WIDTH, WORDS)}
    text = np.random.default_rng(comm.rank).integers(0, WORDS, size=(BATCH, LENGTH + 1))
    found = steps(comm, next_word, w, (text[:, :-1], text[:, 1:]), 0.01, 3)
    f = funcad.jit(distributed.value_and_grad(next_word, comm))
    f(w, text[:, :-1], text[:, 1:])
    comm.comm.Barrier()
    events: list[tuple[str, str, float]] = []
    start = time.perf_counter()
    comm.events = lambda what, where: events.append((what, where.split(" at ")[0], time.perf_counter() - start))
    f(w, text[:, :-1], text[:, 1:])
    comm.events = None
    parameters = sum([np.size(leaf) for leaf in funcad.tree.leaves(w)])
    return {**found, "events": events, "whole": time.perf_counter() - start, "parameters": parameters}


def next_word(w: Any, text: Any, wanted: Any) -> Any:
    x = w["words"][text]
    later = np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1)
    for layer in w["layers"]:
        q, k, v = np.split(norm(x) @ layer["qkv"], 3, axis=-1)
        x = x + funcad.nn.softmax(q @ np.swapaxes(k, -1, -2) / WIDTH**0.5 + later) @ v @ layer["out"]
        x = x + np.maximum(norm(x) @ layer["up"], 0.0) @ layer["down"]
    scores = funcad.nn.log_softmax(norm(x) @ w["last"])
    return -np.mean(np.take_along_axis(scores, wanted[..., None], axis=-1))


def norm(x: Any) -> Any:
    x = x - np.mean(x, axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + np.float32(1e-5))


def heat(comm: Timed) -> dict[str, Any]:
    """Ten steps of the heat equation by one row of blocks, and how the heat at the end depends on that at the beginning."""

    def ten(u: Any) -> Any:
        def turn(u: Any, _: Any) -> tuple[Any, None]:
            wide = distributed.halo(u, 1, "i", periodic=True)
            sides = np.roll(u, 1, axis=1) + np.roll(u, -1, axis=1)
            return u + 0.1 * (wide[:-2] + wide[2:] + sides - 4.0 * u), None

        u, _ = funcad.scan(turn, u, None, length=10)
        return lax.psum(np.sum(u**2), "i")

    f = funcad.jit(funcad.value_and_grad(spmd(ten, "i", out_axes=None, comm=comm)))
    u = distributed.shard(np.random.default_rng(0).normal(size=(GRID, GRID)), comm).copy()
    value: Any = None

    def step() -> None:
        nonlocal value
        value, _ = f(u)

    return {**timed_steps(comm, step, 10), "value": float(value), "equal": len({*comm.comm.allgather(float(value))}) == 1}


class Sent(NamedTuple):
    """What a step sends: the sums over all, the messages to neighbours, and beside which part of the work they may go."""

    sums: int = 1
    messages: int = 0
    beside: float = 0.0

    def messages_of(self, n: int) -> int:
        """At least so many messages of a process: a sum over n goes in ceil(log2 n) rounds."""
        return self.sums * int(np.ceil(np.log2(n))) + (self.messages if n > 1 else 0)


SENT = {
    "regression": Sent(),
    "network": Sent(),
    "heat": Sent(messages=40),  # to two neighbours in ten turns, and back; its sum is one number
    "transformer": Sent(sums=3, beside=0.5),  # the backward pass after the first bucket's start
}


def predicted(
    seconds: float, data: float, n: int, alpha: float, beta: float, sent: Sent = SENT["network"], weak: bool = False
) -> float:
    """Seconds of a step on n processes, which takes `seconds` on one and sends `data` bytes.

    Sums send 2 (n - 1) / n of their bytes, neighbours theirs. weak: n times as much work for n processes.
    """
    work = seconds if weak else seconds / n
    often = min(n - 1, 1) if sent.messages else 2.0 * (n - 1) / n
    sending = sent.messages_of(n) * alpha + often * beta * data
    return work + max(0.0, sending - sent.beside * work)


def steps(comm: Timed, loss: Callable[..., Any], w: Any, data: tuple, rate: float, n: int) -> dict[str, Any]:
    f = funcad.jit(distributed.value_and_grad(loss, comm))

    def step() -> None:
        nonlocal w, value
        value, slope = f(w, *data)
        w = funcad.tree.map(lambda a, g: a - rate * g, w, slope)

    value: Any = None
    found = timed_steps(comm, step, n)
    flat = [np.asarray(leaf).tobytes() for leaf in funcad.tree.leaves(w)]
    return {**found, "value": float(value), "equal": all(other == flat for other in comm.comm.allgather(flat))}


def timed_steps(comm: Timed, step: Callable[[], None], n: int) -> dict[str, Any]:
    for _ in range(3):
        step()
    sent, found, shares, worked = comm.sent, [], [], []
    for _ in range(n):
        comm.comm.Barrier()
        before, start, began = comm.seconds, time.perf_counter(), time.process_time()
        step()
        worked.append(time.process_time() - began)
        found.append(time.perf_counter() - start)
        shares.append((comm.seconds - before) / found[-1])
    return {
        "seconds": max(comm.comm.allgather(min(found))),
        "worked": max(comm.comm.allgather(min(worked))),
        "share": comm.comm.allgather(shares[found.index(min(found))]),
        "bytes": (comm.sent - sent) // n,
    }


def process(path: str, only: str) -> None:
    """What one of the processes does."""
    comm = timed()
    parts = {"latencies": latencies, "regression": regression, "network": network, "heat": heat, "transformer": transformer}
    found = {name: f(comm) for name, f in parts.items() if only in ("", name)}
    if comm.rank == 0:
        Path(path).write_text(json.dumps(found), encoding="utf8")


# ---------------------------------------------------------------- the table


def measured(counts: tuple[int, ...], only: str = "") -> dict[int, Any]:
    found = {}
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "FUNCAD_THREADS": "1", "OMPI_MCA_btl": "self,sm"}
    for n in counts:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "found.json")
            command = ["mpirun", "-n", str(n), "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
            command += [sys.executable, "-m", "benchmarks.over_processes", "--process", path, "--only", only]
            subprocess.run(command, check=True, env=environment)
            found[n] = json.loads(Path(path).read_text(encoding="utf8"))
    return found


def table(found: dict[int, Any], load: float) -> str:
    cores = os.cpu_count() or 1
    lines = ["# On several processes", ""]
    when, versions = time.strftime("%Y-%m-%d"), f"Python {platform.python_version()}, numpy {np.__version__}"
    lines += [f"{when}, {versions}, {cores} cores; the machine's load of the last minute was"]
    lines += [f"{load:.1f} when it began. The least of many runs; one thread of BLAS and of funcad a process."]
    lines += ["`python -m benchmarks.over_processes`. More processes than cores take turns on them: what 4 take"]
    lines += ["here says what that costs, not what 4 cores would give. In communication: the share of the"]
    lines += ["process that has least of it. By the model: what a sum of so many bytes takes of a step.", ""]
    models = {}
    for n, each_of in found.items():
        if n > 1 and "latencies" in each_of:
            rows = each_of["latencies"]["latencies"]
            models[n] = fitted(rows, 3)
            lines += latency_table(n, rows, fitted(rows, 1), models[n])
    titles = {"regression": f"Logistic regression, {ROWS:,} rows, {COLUMNS} columns", "network": "The digits network"}
    titles |= {
        "heat": f"The heat equation, {GRID} x {GRID} points, ten steps and the derivative",
        "transformer": "A transformer, each process with a batch of its own: 1.00 if nothing is lost",
    }
    for name, title in titles.items():
        lines += workload_table(title, {n: each_of[name] for n, each_of in found.items()}, models)
    if 2 in found:
        lines += timeline(found[2]["transformer"])
        lines += predictions({name: found[1][name] for name in titles}, models[2])
    return "\n".join(lines)


def timeline(run: dict[str, Any]) -> list[str]:
    """What the first of two processes did in one step, in order."""
    lines = [f"## Events in a step of the transformer, {run['parameters']:,} parameters, on two processes", ""]
    lines += ["| event | which | ms | of the step |", "|---|---|---|---|"]
    for what, which, seconds in run["events"]:
        lines.append(f"| {what} | {which} | {1e3 * seconds:,.0f} | {100 * seconds / run['whole']:.0f} % |")
    return [*lines, ""]


def predictions(runs: dict[str, Any], model: tuple[float, float]) -> list[str]:
    counts = [4**i for i in range(6)]
    lines = ["## By the model: speed-up with the same work (strong), and what of it is kept with n times the work (weak)", ""]
    lines += ["| workload | bytes a step | messages a step of 4, of 1024 | " + " | ".join([f"{n}" for n in counts]) + " |"]
    lines += ["|---" * (3 + len(counts)) + "|"]
    for name, run in runs.items():
        for weak in (False, True):
            times = [predicted(run["worked"], run["bytes"], n, *model, sent=SENT[name], weak=weak) for n in counts]
            cells = [f"{100 * times[0] / t:.0f} %" if weak else f"{times[0] / t:,.1f}" for t in times]
            head = [f"{name}, {'weak' if weak else 'strong'}", f"{run['bytes']:,}"]
            head.append(", ".join([str(SENT[name].messages_of(n)) for n in (4, 1024)]))
            lines.append("| " + " | ".join([*head, *cells]) + " |")
    return [*lines, ""]


def latency_table(n: int, rows: list, bare: tuple[float, float], model: tuple[float, float]) -> list[str]:
    lines = [f"## A sum over {n} processes, microseconds", ""]
    lines += ["| bytes | mpi4py's Allreduce | psum un-jitted | psum jitted | one of 8 in a program |", "|---|---|---|---|---|"]
    for size, *times in rows:
        lines.append("| " + " | ".join([f"{size:,}", *[f"{1e6 * t:,.1f}" for t in times]]) + " |")
    texts = [f"{1e6 * alpha:.1f} us + {1e9 * beta:.3f} ns a byte" for alpha, beta in (bare, model)]
    return [*lines, "", f"Allreduce: {texts[0]}. psum jitted: {texts[1]}.", ""]


def workload_table(title: str, runs: dict[int, Any], models: dict[int, tuple[float, float]]) -> list[str]:
    columns = ["processes", "ms a step", "speed-up", "ms of a processor", "share of one's", "bytes sent a step"]
    lines = [f"## {title}", "", f"| {' | '.join([*columns, 'in communication', 'by the model'])} |", "|---" * 8 + "|"]
    first = next(iter(runs.values()))
    for n, run in runs.items():
        assert run["equal"], "the processes do not have equal bits"
        alpha, beta = models.get(n, (0.0, 0.0))
        shares = [f"{100 * s:.1f} %" for s in (min(run["share"]), (alpha + beta * run["bytes"]) / run["seconds"])]
        shares[1] = shares[1] if n in models else ""
        cells = [str(n), f"{1e3 * run['seconds']:.2f}", f"{first['seconds'] / run['seconds']:.2f}"]
        cells += [f"{1e3 * run['worked']:.2f}", f"{run['worked'] / first['worked']:.2f}", f"{run['bytes']:,}", *shares]
        lines.append("| " + " | ".join(cells) + " |")
    values = ", ".join([f"{run['value']:.12g}" for run in runs.values()])
    return [*lines, "", f"The loss at the last step: {values}.", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", help="the file that is written")
    parser.add_argument("--only", default="", help="latencies, regression, network, heat or transformer")
    parser.add_argument("--counts", type=int, nargs="*", default=COUNTS, help="of processes")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process:
        process(given.process, given.only)
        return
    load = os.getloadavg()[0]
    found = measured(tuple(given.counts), given.only)
    text = json.dumps(found, indent=1) if given.only else table(found, load)
    print(text)
    if given.results:
        Path(given.results).write_text(text, encoding="utf8")


if __name__ == "__main__":
    main()

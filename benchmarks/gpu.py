"""funcad on a GPU: the tests that need one, then W1 to W10, a scan, a training step, attention, draws beside CuPy, JAX, torch.

    python -m benchmarks.gpu                 at most ten minutes on a machine with CuPy and an NVIDIA GPU
    python -m benchmarks.gpu --dry-run       the same on the stand-in for CuPy (tests/standin.py): the script, not the speed

Writes RESULTS_GPU.json and RESULTS_GPU.md into `--out` (benchmarks/; a trial must name another folder), again after each
program, so that an interrupted run leaves what it found. Times are medians of rounds in which each library has its turn: a
turn is as many calls as take 20 ms, and one wait for the device. "wall" is the time of a call on the host's clock, "device"
between two events of the stream (JAX gives none). Trap: JAX takes most of the device's memory unless it is told not to, and
computes products in TF32, which is a column of its own here.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy

import funcad
from benchmarks import workload
from benchmarks.gpu_programs import Program, programs, transformed
from benchmarks.harness import formatted, markdown, peer
from funcad.backends.cuda import launches
from funcad.backends.cuda.sketches import modules_of

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, TURN, MOST = 7, 0.02, 200  # rounds; seconds and calls of a turn
OWN, LINES = "funcad", "funcad, lines"
COMPILED = "torch.compile"
COLUMNS = (OWN, LINES, "cupy", "cupy kernel", "jax", "jax tf32", "torch", "torch tf32", COMPILED)
BESIDE = ("cupy", "jax", "torch", COMPILED)  # whose ratios are shown
SHARE_OF_TESTS = 0.4  # of the time, at most
LEFT = 60.0  # seconds that must be left for one more torch.compile
PACKAGES = ("numpy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc", "jax", "jaxlib", "torch", "llvmlite")


class Device:
    """A GPU by CuPy."""

    dry = False

    def __init__(self) -> None:
        self.xp: Any = importlib.import_module("cupy")
        if not self.xp.cuda.runtime.getDeviceCount():
            raise RuntimeError("CuPy finds no GPU")

    def there(self, x: Any) -> Any:
        return self.xp.asarray(x)

    def wait(self, result: Any) -> None:
        self.xp.cuda.get_current_stream().synchronize()

    def clocked(self, turn: Callable[[], Any]) -> float:
        """Seconds of the device's from before to behind what a turn starts."""
        begin, end = self.xp.cuda.Event(), self.xp.cuda.Event()
        begin.record()
        turn()
        end.record()
        end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(begin, end)) / 1e3

    def record(self) -> dict[str, Any]:
        runtime = self.xp.cuda.runtime
        found = runtime.getDeviceProperties(self.xp.cuda.Device().id)
        return {
            "device": found["name"].decode(),
            "compute capability": f"{found['major']}.{found['minor']}",
            "memory": int(found["totalGlobalMem"]),
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "CUPY_TF32": os.environ.get("CUPY_TF32", ""),
            "copy, bytes a second": self.bandwidth(),
        }

    def bandwidth(self) -> float:
        """What can be reached: bytes read and written by a copy of 1 GB."""
        a = self.xp.ones(1 << 27)
        b = self.xp.empty_like(a)
        copy = lambda: self.xp.copyto(b, a)
        copy()
        return 2 * a.nbytes / median([self.clocked(copy) for _ in range(9)])


class StandIn(Device):
    """The stand-in for CuPy: no speed, and kernels run by the CPU."""

    dry = True

    def __init__(self, xp: Any):
        self.xp = xp

    def wait(self, result: Any) -> None:
        pass

    def clocked(self, turn: Callable[[], Any]) -> float:
        start = time.perf_counter()
        turn()
        return time.perf_counter() - start

    def record(self) -> dict[str, Any]:
        return {"device": "stand-in for CuPy", "copy, bytes a second": None}

    def compile(self, jitted: Callable[..., Any], arguments: tuple) -> None:
        """All kernels of a program at once: a C++ compiler takes longer to start than for one of them."""
        shim = importlib.import_module("tests.cuda_shim")
        try:
            shim.compiled(modules_of(jitted.cuda(*arguments)))  # type: ignore[attr-defined]
        except ValueError:
            return  # there are none: the lines run


class Candidate(NamedTuple):
    """How one library computes it."""

    call: Callable[[], Any]
    wait: Callable[[Any], None]
    host: Callable[[Any], numpy.ndarray]
    clocked: Callable[[Callable[[], Any]], float] | None = None  # by the device
    prepare: Callable[[], Any] = lambda: None
    notes: Callable[[], dict[str, Any]] = dict


def tree(g: Callable[[Any], Any], x: Any) -> Any:
    return tuple([tree(g, y) for y in x]) if isinstance(x, (tuple, list)) else g(x)


def leaves(x: Any) -> list[Any]:
    return [leaf for y in x for leaf in leaves(y)] if isinstance(x, (tuple, list)) else [x]


def makers(program: Program, dtype: Any, device: Device, slow: bool) -> Iterator[tuple[str, Callable[[], Candidate]]]:
    """The libraries that compute it, each made when its turn comes, so that one that fails stands for itself.

    `slow`: those that compile for half a minute, beside funcad's lines, which they must agree with.
    """
    arguments = program.data(dtype, device.dry)
    given = tree(device.there, arguments)
    on_host = lambda x: numpy.asarray(device.xp.asarray(x).get())

    def ours(engine: str) -> Candidate:
        f = funcad.jit(transformed(funcad, program.transform, program.function(numpy)))
        if engine == "cuda" and isinstance(device, StandIn):
            device.compile(f, given)
        engine_set = lambda: funcad.config.update("engine", engine)
        return Candidate(lambda: f(*given), device.wait, on_host, device.clocked, engine_set, lambda: notes(f.explain(*given)))

    def cupy(make: Callable[[Any], Callable[..., Any]]) -> Candidate:
        g = make(device.xp)
        return Candidate(lambda: g(*given), device.wait, on_host, device.clocked)

    yield LINES, lambda: ours("numpy")
    if slow:
        torch = peer("torch")
        if torch and program.torch is not None and torch.cuda.is_available():
            yield COMPILED, lambda: of_torch(torch, program, arguments, "highest", True)
        return
    yield OWN, lambda: ours("cuda")
    if program.by_hand is not None and not (program.draws and device.dry):
        yield "cupy", lambda: cupy(program.by_hand)  # type: ignore[arg-type]
    if program.kernel is not None and not device.dry:
        yield "cupy kernel", lambda: cupy(program.kernel)  # type: ignore[arg-type]
    tf32 = program.products and dtype == numpy.float32
    jax = peer("jax")
    if jax and (device.dry or jax.default_backend() == "gpu"):
        yield "jax", lambda: of_jax(jax, program, arguments, "highest")
        if tf32:
            yield "jax tf32", lambda: of_jax(jax, program, arguments, "default")
    torch = peer("torch")
    if torch and program.torch is not None and (device.dry or torch.cuda.is_available()):
        yield "torch", lambda: of_torch(torch, program, arguments, "highest", False)
        if tf32:
            yield "torch tf32", lambda: of_torch(torch, program, arguments, "high", False)


def notes(found: Any) -> dict[str, Any]:
    """What `explain` says of the kernels."""
    kernels = [kernel for group in found.groups for kernel in group.get("kernels", ())]
    registers, spills = [[k[name] for k in kernels if k[name] is not None] for name in ("registers", "spills")]
    facts = {"kernels": len(kernels), "registers": max(registers, default=None), "spills": sum(spills) if spills else None}
    return {**facts, "bytes of kernels": found.bytes, "graphs": found.graphs} if kernels else {}


def of_jax(jax: Any, program: Program, arguments: tuple, precision: str) -> Candidate:
    inner = transformed(jax, program.transform, program.function(jax.numpy))

    @jax.jit
    def f(*given: Any) -> Any:
        with jax.default_matmul_precision(precision):
            return inner(*given)

    given = tree(jax.numpy.asarray, arguments)
    return Candidate(lambda: f(*given), jax.block_until_ready, numpy.asarray)


def of_torch(torch: Any, program: Program, arguments: tuple, precision: str, compiled: bool) -> Candidate:
    gpu = torch.cuda.is_available()
    place = lambda a: torch.from_numpy(numpy.array(a)).to("cuda" if gpu else "cpu")
    given = tree(place, arguments)
    assert program.torch is not None
    f = program.torch(torch)
    f = torch.compile(f) if compiled else f
    if program.transform == "step":
        g = transformed(Tape(torch), "step", f)
    else:
        g = workload._torch(torch, f, program.transform)

    def clocked(turn: Callable[[], Any]) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        turn()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    wait = (lambda result: torch.cuda.synchronize()) if gpu else lambda result: None
    host = lambda x: numpy.asarray(x.detach().cpu())
    set_precision = lambda: torch.set_float32_matmul_precision(precision)
    return Candidate(lambda: g(*given), wait, host, clocked if gpu else None, set_precision)


class Tape:
    """torch, as much of it as a training step asks for."""

    def __init__(self, torch: Any):
        self.torch = torch

    def value_and_grad(self, f: Any) -> Any:
        return workload._torch(self.torch, f, "value_and_grad")


def failed(error: Exception) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}".partition("\n")[0][:300]}


def measured(program: Program, dtype: Any, device: Device, stop: float, slow: bool = False) -> dict[str, Any]:
    """One row: all libraries, in turns."""
    found: dict[str, dict[str, Any]] = {}
    ready: dict[str, tuple[Candidate, int]] = {}
    expected: list[numpy.ndarray] = []
    for name, make in makers(program, dtype, device, slow):
        if time.monotonic() > stop:
            found[name] = {"error": "no time was left"}
            continue
        try:
            candidate = make()
            candidate.prepare()
            start = time.perf_counter()
            results = candidate.call()
            candidate.wait(results)
            seconds = time.perf_counter() - start
            if name in (OWN, LINES) or not program.draws:
                agree(program, dtype, [candidate.host(x) for x in leaves(results)], expected)
            for _ in range(3):
                start = time.perf_counter()
                results = candidate.call()
                candidate.wait(results)
            once = time.perf_counter() - start
            if name in (OWN, LINES) or not program.draws:  # again: runs that come again may be captured
                agree(program, dtype, [candidate.host(x) for x in leaves(results)], expected)
            ready[name] = candidate, 1 if device.dry else max(1, min(MOST, int(TURN / once)))
            found[name] = {"first": seconds, **candidate.notes()}
        except Exception as error:  # each library has its own, and the others go on
            found[name] = failed(error)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ready}
    order = list(ready)
    for _ in range(1 if device.dry else ROUNDS):
        if time.monotonic() > stop:
            break
        for name in order:
            candidate, calls = ready[name]
            times[name].append(turn(candidate, calls))
        order.append(order.pop(0))
    for name, pairs in times.items():
        if not pairs:
            found[name]["error"] = "no time was left"
            continue
        found[name]["wall"] = median([wall for wall, _ in pairs])
        if ready[name][0].clocked is not None:
            found[name]["device"] = median([device for _, device in pairs])
    arguments = leaves(program.data(dtype, device.dry))
    moved = sum([numpy.asarray(x).nbytes for x in arguments]) + sum([x.nbytes for x in expected])
    row = {"what": program.what, "dtype": numpy.dtype(dtype).name, "bytes": moved, "traffic": program.traffic}
    return row | {"libraries": found}


def turn(candidate: Candidate, calls: int) -> tuple[float, float]:
    """(seconds of a call by the host's clock, by the device's)."""
    kept: list[Any] = [None]

    def run() -> None:
        for _ in range(calls):
            kept[0] = candidate.call()

    candidate.prepare()
    start = time.perf_counter()
    run()
    candidate.wait(kept[0])
    wall = (time.perf_counter() - start) / calls
    return wall, wall if candidate.clocked is None else candidate.clocked(run) / calls


def agree(program: Program, dtype: Any, results: list[numpy.ndarray], expected: list[numpy.ndarray]) -> None:
    """Equal to what the first library gave, but for rounding; TF32 has ten bits."""
    if not expected:
        expected += results
    assert [x.shape for x in results] == [x.shape for x in expected], "the results have other shapes"
    rounding = 1e-8 if dtype == numpy.float64 else 3e-2 if program.products else 2e-3
    for a, b in zip(results, expected):
        scale = float(numpy.max(numpy.abs(b), initial=1e-30))
        worst = float(numpy.max(numpy.abs(a - b), initial=0.0)) / scale
        assert worst <= rounding * program.tolerance, f"the results differ by {worst:.1e} of the largest"


def tests_of_gpu(limit: float) -> dict[str, Any]:
    """The tests that are marked `gpu`, in a process of their own."""
    files = [p for p in sorted((ROOT / "tests").rglob("test_*.py")) if "pytest.mark.gpu" in p.read_text(encoding="utf8")]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", *map(str, files)]
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
        text, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        so_far = error.stdout or b""
        text = so_far if isinstance(so_far, str) else so_far.decode(errors="replace")
        text, status = f"{text}\nstopped after {limit:.0f} s", 124
    return {"status": status, "seconds": time.monotonic() - start, "end": text.strip().splitlines()[-12:]}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "funcad": funcad.__version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def share(row: dict[str, Any], name: str, bandwidth: float | None) -> float | None:
    """How much of the bandwidth of a copy the least traffic of the program takes, in the device's time."""
    seconds = row["libraries"].get(name, {}).get("device")
    return row["bytes"] / seconds / bandwidth if seconds and row["traffic"] and bandwidth else None


def page(record: dict[str, Any]) -> str:
    """The record in Markdown."""
    found = [row for row in record["rows"] if OWN in row["libraries"]]
    names = [n for n in COLUMNS if any([n in row["libraries"] for row in found])]
    bandwidth = record["machine"]["copy, bytes a second"]
    lines = [["", "dtype", *names, "device", "of the bandwidth", *[f"funcad / {n}" for n in names if n in BESIDE]]]
    for row in found:
        times = {n: row["libraries"].get(n, {}).get("wall") for n in names}
        device, part = row["libraries"][OWN].get("device"), share(row, OWN, bandwidth)
        cells = [row["what"], row["dtype"], *["" if t is None else formatted(t, "s") for t in times.values()]]
        cells += ["" if device is None else formatted(device, "s"), "" if part is None else f"{part:.0%}"]
        own = times[OWN]
        lines.append([*cells, *[f"{own / times[n]:.2g}" if own and times[n] else "" for n in names if n in BESIDE]])
    every = [(f"{row['what']}, {row['dtype']}", n, f) for row in found for n, f in row["libraries"].items()]
    errors = [f"* {what}, {n}: {f['error']}" for what, n, f in every if "error" in f]
    head = "a trial on the stand-in for CuPy: no time here means anything" if record["dry run"] else record["machine"]["device"]
    parts = [f"# funcad on a GPU: {head}", f"`python -m benchmarks.gpu`, {record['date']}. {json.dumps(record['machine'])}"]
    parts += [", ".join([f"{k} {v}" for k, v in record["versions"].items()]), "\n".join(record["tests"]["end"][-1:])]
    how = "a call's time by the host's clock, waits included; \"device\" is funcad's by events."
    parts.append(f"Medians of {ROUNDS} rounds; {how}")
    return "\n\n".join([*parts, markdown(lines), *(["\n".join(errors)] if errors else [])]) + "\n"


def write(record: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "RESULTS_GPU.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")
    (out / "RESULTS_GPU.md").write_text(page(record), encoding="utf8")


def run(device: Device, limit: float, out: Path, names: list[str]) -> dict[str, Any]:
    """Everything, within `limit` seconds."""
    stop = time.monotonic() + limit
    launches.BACKGROUND = False  # it is kernels that are timed
    now = datetime.datetime.now(datetime.UTC).isoformat("T", "seconds")
    record: dict[str, Any] = {"dry run": device.dry, "date": now}
    record |= {"machine": device.record(), "versions": versions(), "rows": [], "not reached": []}
    record["tests"] = tests_of_gpu(limit * SHARE_OF_TESTS)
    print(*record["tests"]["end"][-1:], flush=True)
    chosen = [p for p in programs(device.dry) if not names or any([name in p.what for name in names])]
    dtypes = lambda p: p.dtypes if not device.dry or p.transform == "step" else p.dtypes[:1]
    rows: list[tuple[dict[str, Any], Program, Any]] = []
    with funcad.config.set(engine=funcad.config.engine):
        for program, dtype in [(p, dtype) for p in chosen for dtype in dtypes(p)]:
            if time.monotonic() > stop:
                record["not reached"].append(f"{program.what}, {numpy.dtype(dtype).name}")
                continue
            row = measured(program, dtype, device, stop)
            rows.append((row, program, dtype))
            record["rows"].append(row)
            write(record, out)
            tell(row)
        for row, program, dtype in rows:  # in the time that is left: each takes half a minute to compile
            if time.monotonic() < stop - LEFT:
                found = measured(program, dtype, device, stop, slow=True)["libraries"]
                row["libraries"] |= {n: f for n, f in found.items() if n == COMPILED}
                write(record, out)
    write(record, out)
    return record


def tell(row: dict[str, Any]) -> None:
    brief = {n: formatted(f["wall"], "s") if "wall" in f else f["error"] for n, f in row["libraries"].items()}
    print(row["what"], row["dtype"], brief, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="on the stand-in for CuPy, with small arrays; needs --out")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds, at most (default: 540)")
    parser.add_argument("--out", type=Path, help="the folder of the results (default: benchmarks/)")
    parser.add_argument("names", nargs="*", help="parts of the names of what is measured (default: all)")
    options = parser.parse_args()
    if options.dry_run and options.out is None:
        parser.error("--dry-run needs --out: its times mean nothing")
    with ExitStack() as stack:
        if options.dry_run:
            device: Device = StandIn(stack.enter_context(importlib.import_module("tests.standin").registered()))
            stack.enter_context(importlib.import_module("tests.cuda_driver").driver())  # runs that come again are captured
        else:
            device = Device()
        record = run(device, options.limit, options.out or Path(__file__).parent, options.names)
    print(page(record))
    if record["not reached"]:
        print("not reached:", "; ".join(record["not reached"]))
    if record["tests"]["status"] not in (0, 5):  # 5: none could be collected, for there is no GPU
        sys.exit("tests on the GPU failed:\n" + "\n".join(record["tests"]["end"]))


if __name__ == "__main__":
    main()

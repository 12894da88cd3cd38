"""Peak memory of the programs of `benchmarks.cliffs`, beside JAX's: a process for each program, kind and library.

The figure is what the process needs at most (`VmHWM`, Linux only) above what it held when its data were made and its library
was loaded: tracing, compiling and three calls. In funcad's processes JAX is never loaded.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from pathlib import Path

import numpy

from benchmarks import harness
from benchmarks.cliffs import differentiated, own, theirs
from benchmarks.jitted import PROGRAMS

LIBRARIES = ("funcad", "jax")


def _kilobytes(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(what)))


def child(library: str, what: str, kind: str) -> int:
    """Kilobytes, of this process."""
    program = next(p for p in PROGRAMS if p.what == what)
    if library == "jax":
        jax = harness.peer("jax")
        assert jax is not None
        given = jax.tree.map(jax.numpy.asarray, program.data(numpy.float64))
        function, ready = jax.jit(differentiated(theirs(jax), program, kind)), jax.block_until_ready
        ready(jax.jit(lambda x: x + 1)(jax.numpy.ones(3)))  # loads the compiler
    else:
        import funcad

        given = program.data(numpy.float64)
        function, ready = funcad.jit(differentiated(own(), program, kind)), lambda x: x
        small = funcad.jit(lambda x: x + 1)
        for _ in range(3):
            small(numpy.ones(3))
    Path("/proc/self/clear_refs").write_text("5")
    before = _kilobytes("VmRSS")
    for _ in range(3):
        ready(function(*given))
    return _kilobytes("VmHWM") - before


def measured(library: str, what: str, kind: str) -> float | None:
    """Megabytes; None if that library is not there."""
    command = [sys.executable, "-m", "benchmarks.cliffs_memory", library, what, kind]
    environment = {**os.environ, "FUNCAD_CACHE_DIR": "off"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
    if done.returncode:
        print(f"{library}, {what}, {kind}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return int(done.stdout.split()[-1]) / 1024


def table() -> str:
    lines, more = [["", *[f"{library}, MiB" for library in LIBRARIES], "/ jax"]], []
    for program in PROGRAMS:
        for kind in ("value", "gradient") if program.gradient else ("value",):
            found = [measured(library, program.what, kind) for library in LIBRARIES]
            ratio = found[0] / found[1] if found[0] is not None and found[1] else None
            if ratio is not None and ratio > 1:
                more.append(f"{program.what}, {kind} ({ratio:.2f})")
            cells = ["" if x is None else f"{x:.1f}" for x in found]
            lines.append([f"{program.what}, {kind}", *cells, "" if ratio is None else f"{ratio:.2f}"])
            print(lines[-1], file=sys.stderr, flush=True)
    return f"More than JAX: {', '.join(more) or 'none'}.\n\n{harness.markdown(lines)}"


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(child(*sys.argv[1:]))
    else:
        print(f"{datetime.date.today()}, {harness.versions()}\n\n{table()}")

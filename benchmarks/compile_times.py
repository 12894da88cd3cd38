"""Trace and compile: from a Python function to its compiled program, and a changed batch size; each in a new process.

The process has compiled trivial functions before, so that loading the compiler is not counted (startup.py does), and keeps
no code on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

from benchmarks.harness import Row, Target, main, native_engine, peer

WORKLOADS = {  # name -> (module, function, data, transform)
    "W1": ("w1_scalar", "function", "lambda dtype: (0.5,)", "grad"),
    "W2": ("w2_mlp", "function", "module.data", "value_and_grad"),
    "W3b gradient": ("w3_elementwise", "summed(module.transcendental)", "module.data(1000000)", "grad"),
    "W6": ("w6_softmax", "loss", "module.data", "value_and_grad"),
    "W7": ("w7_layernorm", "weighted", "module.data", "value_and_grad"),
    "W8": ("w8_rnn", "loss", "module.data", "grad"),
}
PROGRAM = """
import importlib, sys, time
import numpy
library = sys.argv[1]
module = importlib.import_module("benchmarks." + sys.argv[2])
if library == "jax":
    import jax
    import jax.numpy as np
    jax.config.update("jax_enable_x64", True)
    def compiled(f, *arguments):
        return jax.jit(f).lower(*arguments).compile()
else:
    import funcad as jax
    import numpy as np
    from funcad.backends.engines import program_of
    jax.config.update("engine", "native" if library == "funcad" else "numpy")
    def compiled(f, *arguments):
        return program_of(jax.jit(f).lower(*arguments).jaxpr).written_out()
for n in (3, 1000000):  # as a whole, and as a kernel
    compiled(lambda x: np.tanh(x) + 1.0, numpy.ones(n))
arguments = ({data})(numpy.float64)
f = jax.{transform}(module.{function}(np))
start = time.perf_counter()
compiled(f, *arguments)
print(time.perf_counter() - start)
"""


def _seconds(library: str, name: str) -> float:
    module, function, data, transform = WORKLOADS[name]
    program = PROGRAM.format(function=function, data=data, transform=transform)
    environment = {**os.environ, "FUNCAD_CACHE_DIR": "off"}
    command = [sys.executable, "-c", program, library, module]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def run(rounds: int) -> list[Row]:
    libraries = ["funcad numpy", *(["funcad"] if native_engine() else []), *(["jax"] if peer("jax") else [])]
    rows = []
    for name in WORKLOADS:
        found: dict[str, list[float]] = {library: [] for library in libraries}
        for _ in range(min(rounds, 5)):
            for library in libraries:
                found[library].append(_seconds(library, name))
        values = {library: median(seconds) for library, seconds in found.items()}
        rows.append(Row(f"{name}, trace and compile", values, target=Target("jax", None, 0.15)))
    return rows


if __name__ == "__main__":
    main(run, __doc__)

"""Cold start: import time over NumPy's, the first gradient after import, and process start to first gradient."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from benchmarks.harness import Row, main, peer

FUNCTION = "lambda x: np.sin(x) * x + np.exp(x) / 2.0"
PROGRAM = """
import time
start = time.perf_counter()
import numpy
numpy_done = time.perf_counter()
{imports}
imported = time.perf_counter()
{gradient}
done = time.perf_counter()
print(numpy_done - start, imported - numpy_done, done - imported)
"""
LIBRARIES = {
    "funcad": ("import funcad, numpy as np", f"funcad.grad({FUNCTION})(0.5)"),
    "autograd": ("import autograd, autograd.numpy as np", f"autograd.grad({FUNCTION})(0.5)"),
    "jax": ("import jax, jax.numpy as np", f"jax.grad({FUNCTION})(0.5).block_until_ready()"),
}


def _once(program: str, cache: str) -> list[float]:
    """[import of numpy, import over numpy, first gradient, whole process], in seconds, of a new process."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}  # all start from compiled files, as installed packages do
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return [*map(float, printed.split()), time.perf_counter() - start]


def run(rounds: int) -> list[Row]:
    programs = {
        name: PROGRAM.format(imports=imports, gradient=gradient)
        for name, (imports, gradient) in LIBRARIES.items()
        if name == "funcad" or peer(name)
    }
    found: dict[str, list[list[float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as cache:
        for program in programs.values():
            _once(program, cache)  # compiles, and warms the file cache
        for _ in range(max(rounds, 20)):
            for name, program in programs.items():
                found[name].append(_once(program, cache))
    medians = {name: [median(column) for column in zip(*times)] for name, times in found.items()}
    labels = ["", "import, over numpy's", "first grad after import", "process start to first grad, to exit"]
    rows = [Row(label, {name: times[i] for name, times in medians.items()}) for i, label in enumerate(labels) if label]
    return [*rows, Row("(import numpy alone)", {"funcad": medians["funcad"][0]})]


if __name__ == "__main__":
    main(run, __doc__)

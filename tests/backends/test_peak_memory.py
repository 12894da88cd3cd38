"""Peak memory of compiled programs, of the whole process: the system's own count, since engines allocate beside NumPy.

A child process compiles the function on small arrays first, so that only the large call is counted. The bound is 1.2 times the
inputs, the outputs and the largest temporary of the program as it was traced.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

PROGRAM = """
import sys
import numpy as np
import funcad

funcad.config.update("engine", sys.argv[1])
random = np.random.default_rng(0)

def cross_entropy(z, y):
    z = z - np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(z * y, axis=1))

def layernorm(parameters, c):
    x, gain, bias = parameters
    centred = x - np.mean(x, axis=1, keepdims=True)
    variance = np.mean(centred * centred, axis=1, keepdims=True)
    return np.sum(c * (centred / np.sqrt(variance + 1e-5) * gain + bias))

def arguments(n, m):
    x, c = random.normal(size=(n, m)), random.normal(size=(n, m))
    return (x, c) if sys.argv[2] == "cross_entropy" else ((x, np.ones(m), np.zeros(m)), c)

f = funcad.jit(funcad.value_and_grad(cross_entropy if sys.argv[2] == "cross_entropy" else layernorm))

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))

small = arguments(70, 30)
for _ in range(3):
    f(*small)
large = arguments(4000, 1000)
jaxpr = f.lower(*large).jaxpr
size = lambda atoms: sum(a.aval.size * a.aval.dtype.itemsize for a in atoms)
temporary = max(size([v]) for e in jaxpr.equations for v in e.outputs)
allowed = 1.2 * (size(jaxpr.inputs) + size(jaxpr.outputs) + temporary) - size(jaxpr.inputs)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the high-water mark starts anew
before = status("VmRSS")
result = f(*large)
print(status("VmHWM") - before, allowed)
"""


@pytest.mark.share(4)
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's high-water mark of a process")
@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("function", ["cross_entropy", "layernorm"])
def test_peak_of_a_compiled_program(function: str, engine: str) -> None:
    if engine == "native":
        pytest.importorskip("llvmlite")
    done = subprocess.run([sys.executable, "-c", PROGRAM, engine, function], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak, allowed = map(float, done.stdout.split())
    assert peak <= allowed, f"{peak / 2**20:.0f} MiB above the inputs, {allowed / 2**20:.0f} MiB allowed"

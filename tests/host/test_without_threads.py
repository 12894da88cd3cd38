"""The NumPy engine where there are no threads, no fork, no mmap and no llvmlite: in a browser, as Pyodide has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REMOVED = """
import os, sys, threading

def missing(*args, **kwargs):
    raise RuntimeError("not here")

threading.Thread.start = missing
del os.fork, os.register_at_fork
for name in ("llvmlite", "mmap", "_posixshmem", "_multiprocessing"):
    sys.modules[name] = None
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/test_smoke.py"]))
"""


def test_smoke_test_runs_without_threads_fork_mmap_and_llvmlite() -> None:
    environment = {**os.environ, "FUNCAD_ENGINE": "numpy", "OPENBLAS_NUM_THREADS": "1"}
    checkout = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", REMOVED], cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "[100%]" in done.stdout, done.stdout + done.stderr

"""The benchmark of GPUs as a trial on the stand-in for CuPy: it runs, all ways agree, and it claims nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu
from benchmarks.gpu_programs import Program, programs
from tests import cuda_shim
from tests.standin import registered

pytestmark = pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
ROOT = Path(__file__).resolve().parents[2]


def test_a_row_and_its_page(tmp_path: Path, monkeypatch: Any) -> None:
    tests = {"status": 5, "seconds": 0.0, "end": ["1 skipped"]}
    monkeypatch.setattr(gpu, "tests_of_gpu", lambda limit: tests)
    monkeypatch.setattr(gpu, "peer", lambda name: None)  # they have a slow test
    with registered() as xp:
        record = gpu.run(gpu.StandIn(xp), 60.0, tmp_path, ["W3b its gradient"])
    (row,) = record["rows"]
    assert row["bytes"] == 2 * 300 * 8 and set(row["libraries"]) == {"funcad", "funcad, lines", "cupy"}
    assert not record["not reached"] and all([f["wall"] > 0 for f in row["libraries"].values()])
    assert json.loads((tmp_path / "RESULTS_GPU.json").read_text(encoding="utf8")) == record
    text = (tmp_path / "RESULTS_GPU.md").read_text(encoding="utf8")
    assert "no time here means anything" in text and "| W3b its gradient" in text and "%" not in text


def test_what_fails_stands_for_itself() -> None:
    def wrong(xp: Any) -> Any:
        return lambda x: x + 1.0

    def raising(torch: Any) -> Any:
        raise RuntimeError("no such thing")

    program = Program("x", lambda np: np.sin, "value", lambda dtype, small: (np.ones(3, dtype),), raising, wrong)
    with registered() as xp:
        found = gpu.measured(program, np.float64, gpu.StandIn(xp), gpu.time.monotonic() + 60.0)["libraries"]
        assert "the results differ" in found["cupy"]["error"] and "wall" in found["funcad"]
        assert "no such thing" in found.get("torch", {"error": "no such thing"})["error"]
        late = gpu.measured(program, np.float64, gpu.StandIn(xp), gpu.time.monotonic() - 1.0)["libraries"]
    assert {f["error"] for f in late.values()} == {"no time was left"}


def test_the_programs_have_names_of_their_own() -> None:
    for small in (False, True):
        names = [p.what for p in programs(small)]
        assert len(names) == len(set(names)) > 15


@pytest.mark.slow
def test_all_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry-run", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "RESULTS_GPU.json").read_text(encoding="utf8"))
    assert record["dry run"] and not record["not reached"]
    assert {r["what"] for r in record["rows"]} == {p.what for p in programs(True)}
    assert [f["error"] for r in record["rows"] for f in r["libraries"].values() if "error" in f] == []
    refused = subprocess.run(command[:4], cwd=ROOT, capture_output=True, text=True)
    assert refused.returncode == 2 and "--dry-run needs --out" in refused.stderr

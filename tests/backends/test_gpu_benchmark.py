"""The benchmark of GPUs as a trial on the stand-in for CuPy: it runs, all ways agree, and it claims nothing."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu
from benchmarks.gpu_programs import Program, programs
from funcad import config
from funcad.backends.cuda import launches
from tests import cuda_shim
from tests.standin import registered

pytestmark = [
    pytest.mark.group("alone"),
    pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with"),
]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def settings_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(launches, "BACKGROUND", launches.BACKGROUND)  # a benchmark sets it for good
    with config.set(engine=config.engine):
        yield


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


class Clock:
    """`cupy.cuda`, as much of it as the benchmark asks for."""

    def __init__(self) -> None:
        device = {"name": b"a GPU", "major": 9, "minor": 0, "totalGlobalMem": 1 << 30}
        self.runtime = SimpleNamespace(
            getDeviceProperties=lambda number: device, driverGetVersion=lambda: 13000, runtimeGetVersion=lambda: 13000
        )

    class Event:
        def record(self) -> None:
            self.time = gpu.time.perf_counter()

        def synchronize(self) -> None:
            assert self.time

    @staticmethod
    def get_elapsed_time(begin: Any, end: Any) -> float:
        return 1e3 * (end.time - begin.time)

    @staticmethod
    def get_current_stream() -> Any:
        return SimpleNamespace(synchronize=lambda: None)

    @staticmethod
    def Device() -> Any:
        return SimpleNamespace(id=0)


def test_what_a_gpu_is_asked(monkeypatch: Any) -> None:
    """The way of a real device, on the stand-in with a clock."""
    monkeypatch.setattr(gpu, "peer", lambda name: None)
    monkeypatch.setattr(gpu, "ROUNDS", 2)
    data = lambda dtype, small: (np.ones(30, dtype),)
    program = Program("x", lambda np: lambda x: np.sin(x) * x, "value", data, traffic=True)
    with registered() as xp:
        device = gpu.Device.__new__(gpu.Device)
        device.xp = SimpleNamespace(asarray=xp.asarray, cuda=Clock(), ones=lambda n: xp.ones(9), empty_like=xp.empty_like)
        device.xp.copyto = xp.copyto
        found = device.record()
        assert found["device"] == "a GPU" and found["compute capability"] == "9.0" and found["copy, bytes a second"] > 0
        row = gpu.measured(program, np.float64, device, gpu.time.monotonic() + 60.0)
    assert row["libraries"]["funcad"]["device"] > 0 and gpu.share(row, "funcad", 1e9) > 0


def test_cupy_has_what_the_benchmark_asks_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it finds no GPU
        cupy = pytest.importorskip("cupy", exc_type=ImportError)
    names = "cuda.Event cuda.get_elapsed_time cuda.get_current_stream cuda.Device cuda.runtime.getDeviceProperties copyto"
    names += " cuda.runtime.driverGetVersion cuda.runtime.runtimeGetVersion cuda.runtime.getDeviceCount ElementwiseKernel"
    for name in (*names.split(), "random.standard_normal", "random.random", "cuda.nvrtc.getProgramLog", "empty_like"):
        assert callable(operator.attrgetter(name)(cupy)), name


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

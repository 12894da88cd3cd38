"""The job that runs other projects' tests counts what pytest reports, and names what is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.clients import CLIENTS, ROOT, Outcome, compared, results_of

TESTS = """
import pytest
import {library}

def test_passes():
    assert {library}.grad(lambda x: x * x)(3.0) == 6.0 and {library}.__file__.startswith({package!r})

def test_fails():
    assert False

@pytest.mark.skip
def test_is_skipped(): ...
"""


def test_reports_are_counted_and_compared(tmp_path: Path) -> None:
    """A project of three tests, run as the clients are: funcad stands for a library that is not installed."""
    for library in ("autograd", "jax"):
        package = str(ROOT / "funcad" / library)
        (tmp_path / f"test_{library}.py").write_text(TESTS.format(library=library, package=package), encoding="utf8")
        report = tmp_path / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "benchmarks.clients_plugin"]
        done = subprocess.run(
            [*command, f"--junitxml={report}", f"test_{library}.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "FUNCAD_STANDS_FOR": library},
            capture_output=True,
            text=True,
            check=False,
        )
        assert report.exists(), done.stdout + done.stderr
        results = results_of(report)
        assert sorted(results.values()) == ["failed", "passed", "skipped"]
        ours = Outcome(results, 2.0, False)
        theirs = Outcome(dict.fromkeys(results, "passed"), 4.0, False)
        row, lost = compared(CLIENTS[0], theirs, ours)
        assert "| 3 passed | 1 passed, 1 failed |" in row and row.endswith("| 0.50 |")
        assert [name.rpartition("::")[2] for name in lost] == ["test_fails", "test_is_skipped"]
        cut = compared(CLIENTS[0], theirs, Outcome({}, 9.0, True))
        assert "| too long |" in cut[0] and cut[1] == []

"""The job that runs other projects' tests counts what pytest reports, and names what is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.clients import ROOT, Client, Outcome, compared, run

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


@pytest.mark.parametrize("library", ["autograd", pytest.param("jax", marks=pytest.mark.slow)])
def test_reports_are_counted_and_compared(tmp_path: Path, library: str) -> None:
    """A project of three tests, run as the clients are: funcad stands for a library that need not be installed."""
    package = str(ROOT / "funcad" / library)
    (tmp_path / "test_client.py").write_text(TESTS.format(library=library, package=package), encoding="utf8")
    client = Client("project", "1.0", library, (), ("test_client.py",))
    ours = run(Path(sys.executable), tmp_path, client, True, 300.0)
    assert [ours.count(kind) for kind in ("passed", "failed", "skipped")] == [1, 1, 1]
    theirs = Outcome(dict.fromkeys(ours.results, "passed"), 2 * ours.seconds, False)
    row, lost = compared(client, theirs, ours)
    assert row.startswith(f"| project 1.0 | {library} | 3 passed | 1 passed, 1 failed |") and row.endswith("| 0.50 |")
    assert [name.rpartition("::")[2] for name in lost] == ["test_fails", "test_is_skipped"]
    row, lost = compared(client, theirs, run(Path(sys.executable), tmp_path, client, True, 0.01))
    assert "| too long |" in row and lost == []


def test_what_does_not_start_is_an_error(tmp_path: Path) -> None:
    client = Client("project", "1.0", "nothing", (), ("test_client.py",))
    with pytest.raises(RuntimeError, match="project: pytest did not start"):
        run(Path(sys.executable), tmp_path, client, True, 300.0)

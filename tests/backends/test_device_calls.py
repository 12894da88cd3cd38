"""How often compiled programs call a device, counted on the stand-in: the table of benchmarks/RESULTS_DEVICE_CALLS.md."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import device_calls
from tests import cuda_shim

KERNELS = 2  # the column of the table that the default test leaves out


@pytest.mark.slow
def test_compiled_lines_take_fewer_calls() -> None:
    """The results are compared on the way, those by hand, too."""
    total: Counter = Counter()
    found = list(device_calls.rows(kernels=False))
    published = Path(device_calls.__file__).with_name("RESULTS_DEVICE_CALLS.md").read_text(encoding="utf8")
    for row in found:
        assert row.after["calls"] <= row.before["calls"] and not row.after["copies"] and not row.after["waits"], row
        total.update(before=row.before["calls"], after=row.after["calls"])
        (line,) = [line for line in published.splitlines() if line.startswith(f"| {row.what} |")]
        there = [cell.strip() for cell in line.split("|")[2:-1]]
        there[KERNELS] = ""
        assert there == device_calls.cells(row), "python -m benchmarks.device_calls gives another table"
    assert total["after"] < total["before"] / 2


@pytest.mark.slow
@pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
def test_kernels_take_fewer_still() -> None:
    found = list(device_calls.rows())
    for row in found:
        assert row.kernels is not None and row.kernels["calls"] <= row.after["calls"] and not row.kernels["copies"], row
    published = Path(device_calls.__file__).with_name("RESULTS_DEVICE_CALLS.md").read_text(encoding="utf8")
    assert device_calls.table(found) in published, "python -m benchmarks.device_calls gives another table"

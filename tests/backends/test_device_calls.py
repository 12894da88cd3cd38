"""How often compiled programs call a device, counted on the stand-in: the table of benchmarks/RESULTS_DEVICE_CALLS.md."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks import device_calls


def test_compiled_lines_take_fewer_calls() -> None:
    """The results are compared on the way, those by hand, too."""
    total: Counter = Counter()
    found = list(device_calls.rows())
    for row in found:
        assert row.after["calls"] <= row.before["calls"] and not row.after["copies"] and not row.after["waits"], row
        total.update(before=row.before["calls"], after=row.after["calls"])
    assert total["after"] < total["before"] / 2
    published = Path(device_calls.__file__).with_name("RESULTS_DEVICE_CALLS.md").read_text(encoding="utf8")
    assert device_calls.table(found) in published, "python -m benchmarks.device_calls gives another table"

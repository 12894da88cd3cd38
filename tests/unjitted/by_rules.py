"""What the tests of rows compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from funcad.unjitted import linearizing


def by_rules(monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], *args: Any) -> Any:
    """`f(*args)` without rows: rules run on tangents that are recorded, and the whole recording is transposed."""
    with monkeypatch.context() as m:
        m.setattr(linearizing, "on_device", lambda values: True)
        return f(*args)

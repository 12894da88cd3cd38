"""What a test file leaves behind (programs, compiled code, tables) is not searched for garbage again during the later ones."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from funcad.unjitted import structural


@pytest.fixture(scope="session", autouse=True)
def learning_fast() -> Iterator[None]:
    """Un-jitted programs come at the second sight, not when that is repaid, so that tests which repeat a call reach them."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(structural, "SIGHTS", 1)
        yield


@pytest.fixture(scope="module", autouse=True)
def settled_heap() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()

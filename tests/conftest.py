"""What a test file leaves behind (programs, compiled code, tables) is not searched for garbage again during the later ones."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def settled_heap() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()

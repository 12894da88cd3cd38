"""Which part of the slow tests runs: FUNCAD_SLOW_SHARD="k/n" is the k-th of n parts, everything where it is not set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["shard"]

T = TypeVar("T")


def shard(cases: Sequence[T]) -> Sequence[T]:
    """Every n-th of the cases, from the k-th on."""
    k, n = map(int, os.environ.get("FUNCAD_SLOW_SHARD", "1/1").split("/"))
    return cases[k - 1 :: n]

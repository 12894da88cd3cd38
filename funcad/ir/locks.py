"""Mutable buffers: how a NumPy array that the user can still write is kept safely.

Idea: NumPy arrays change in place, pure programs must not notice. An array that a trace captures is made read-only while
the trace is open; an array that a derivative keeps as a residual is copied when small (64 KiB) and made read-only otherwise,
until the derivative dies. So NumPy raises at the user's line, instead of a gradient being silently wrong. Locks are counted
per array. Trap: a view that the user made *before* has its own writeable flag, which no lock on its base reaches.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

__all__ = ["Locks", "SMALL", "root_of"]

SMALL = 64 * 1024

_counts: dict[int, list] = {}  # id -> [array, count]; the array is kept alive, so the id stays its own
_guard = threading.Lock()


def root_of(x: np.ndarray) -> Any:
    """The object that owns the memory of x."""
    base = x.base
    while type(base) is np.ndarray:
        x, base = base, base.base
    return x


def _lock(x: np.ndarray) -> bool:
    """Count one more lock on x; False if x was read-only already without our doing."""
    with _guard:
        entry = _counts.get(id(x))
        if entry is not None:
            entry[1] += 1
            return True
        if not x.flags.writeable:
            return False
        x.flags.writeable = False
        _counts[id(x)] = [x, 1]
        return True


def _unlock(x: np.ndarray) -> None:
    with _guard:
        entry = _counts[id(x)]
        entry[1] -= 1
        if entry[1] == 0:
            del _counts[id(x)]
            x.flags.writeable = True


class Locks:
    """The read-only locks that one trace or one pullback holds; released by `release` or when it dies."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[np.ndarray] = []

    def lock(self, x: np.ndarray) -> None:
        """Make x, and every array whose memory it views, read-only."""
        views: Any = x
        chain = []
        while type(views) is np.ndarray:
            chain.append(views)
            views = views.base
        for view in chain:
            if _lock(view):
                self.held.append(view)

    def release(self) -> None:
        held, self.held = self.held, []
        for x in reversed(held):  # bases first: a view can be writeable only if its base is
            _unlock(x)

    def __del__(self) -> None:
        self.release()

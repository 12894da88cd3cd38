"""Mutable buffers: how a NumPy array that the user can still write is kept safely.

Idea: NumPy arrays change in place, pure programs must not notice. An array that a trace captures is made read-only while
the trace is open; an array that a derivative keeps as a residual is copied when small (64 KiB) and made read-only otherwise,
until the derivative dies. So NumPy raises at the user's line, instead of a gradient being silently wrong. Locks are counted
per block of memory: of two views of one array, each locked by another derivative, neither becomes writeable before both are
gone (NumPy allows no writeable view of a read-only array). Trap: a view that the user made *before* has its own writeable
flag, which no lock on its base reaches.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from funcad.ir.forks import held_over_forks

__all__ = ["Locks", "SMALL", "root_of", "is_constant"]

SMALL = 64 * 1024


class _Record:
    """Locks on one block of memory: how many, and which arrays they made read-only."""

    __slots__ = ("root", "count", "changed")

    def __init__(self, root: np.ndarray):
        self.root = root
        self.count = 0
        self.changed: list[np.ndarray] = []

    def restore(self) -> None:
        """Make the arrays writeable again: a view can be so only while the owner of its memory is."""
        if not self.changed:
            return
        keep_root = self.root.flags.writeable or any(x is self.root for x in self.changed)
        self.root.flags.writeable = True
        for x in self.changed:
            x.flags.writeable = True
        self.root.flags.writeable = keep_root


_records: dict[int, _Record] = {}  # by id of the root; the record keeps the root alive, so the id stays its own
_guard = threading.RLock()  # re-entrant: the collector may release a dead derivative's locks while this thread holds it
held_over_forks(_guard)


def root_of(x: np.ndarray) -> Any:
    """The object that owns the memory of x."""
    base = x.base
    while type(base) is np.ndarray:
        x, base = base, base.base
    return x


def is_constant(x: Any) -> bool:
    """Is this an array that nobody can write to, as it is: read-only with all that it views, and not by a lock of ours?"""
    while type(x) is np.ndarray:
        if x.flags.writeable:
            return False
        if x.base is None:
            return bool(x.flags.owndata) and id(x) not in _records
        x = x.base
    return type(x) is bytes


def _has_buffer(owner: Any) -> bool:
    try:
        memoryview(owner)
    except TypeError:
        return False
    return True


class Locks:
    """The read-only locks that one trace or one pullback holds; released by `release` or when it dies."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[_Record] = []

    def lock(self, x: np.ndarray) -> bool:
        """Make x, and every array whose memory it views, read-only; False if that could not be undone.

        So it is with memory from C (some of SciPy's results): NumPy would never make it writeable again.
        """
        root = root_of(x)
        if not (root.flags.owndata or _has_buffer(root.base)):
            return False
        with _guard:
            record = _records.get(id(root))
            if record is None:
                record = _records[id(root)] = _Record(root)
            record.count += 1
            self.held.append(record)
            views: Any = x
            chain = []
            while views is not root:
                chain.append(views)
                views = views.base
            for view in (*reversed(chain), root):
                if view.flags.writeable:
                    record.changed.append(view)
                    view.flags.writeable = False
        return True

    def release(self) -> None:
        if not self.held:
            return
        held, self.held = self.held, []
        with _guard:
            for record in held:
                record.count -= 1
                if record.count == 0:
                    del _records[id(record.root)]
                    record.restore()

    def __del__(self) -> None:
        self.release()

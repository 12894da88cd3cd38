"""Locks and `os.fork`: a forked child has one thread, and a lock that another thread held would never be released there.

Idea: a fork waits until the locks are free and holds them while it happens, so that in the child what they protect is whole.
After LOCK_TIMEOUT seconds it goes on without a lock, which the child then has anew: whoever holds it for so long may wait for
the child. Trap: handlers run in the reverse order of their registration, and locks must be taken in the order in which programs
nest them: the modules that are imported later, which lie above, hold the outer locks. Where that does not fit, all of the locks
are given together, the outer ones first.
"""

from __future__ import annotations

import os
import threading
from typing import Any

__all__ = ["held_over_forks"]

LOCK_TIMEOUT = 5.0


def held_over_forks(*locks: Any) -> None:
    """Let every fork of this process from now on wait for these locks, outer ones first."""
    mine = threading.local()  # `taken`: missing if another thread registered these locks amid a fork

    def take() -> None:
        mine.taken = [lock for lock in locks if lock.acquire(timeout=LOCK_TIMEOUT)]

    def give_back() -> list[Any]:
        taken: list[Any] = mine.__dict__.pop("taken", [])
        for lock in reversed(taken):
            lock.release()
        return taken

    def in_child() -> None:
        taken = give_back()
        for lock in locks:
            if lock not in taken:
                lock._at_fork_reinit()  # as the locks of Python's own library are renewed

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=take, after_in_parent=give_back, after_in_child=in_child)

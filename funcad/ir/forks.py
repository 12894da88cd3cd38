"""Locks and `os.fork`: a forked child has one thread, and a lock that another thread held would never be released there.

Idea: a fork waits until the locks are free and holds them while it happens, so that in the child they are free and what they
protect is whole. Trap: handlers run in the reverse order of their registration, and locks must be taken in the order in which
programs nest them: the modules that are imported later, which lie above, hold the outer locks. Where that does not fit, all of
the locks are given together, the outer ones first.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["held_over_forks"]


def held_over_forks(*locks: Any) -> None:
    """Let every fork of this process from now on wait for these locks, outer ones first."""

    def take() -> None:
        for lock in locks:
            lock.acquire()

    def give_back() -> None:
        for lock in reversed(locks):
            lock.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=take, after_in_parent=give_back, after_in_child=give_back)

"""Threads that share the tiles of one large loop.

Idea: NumPy releases the interpreter's lock inside its loops, so two threads halve the time of transcendental tiles. The
threads are made at the first use, kept, and made anew in a forked child, which has none of them. Each task runs in a copy of
the caller's context, because NumPy's floating-point error mode is a context variable. Invariant: the parts are those of one
thread, in the same order, so results that are collected tile by tile do not depend on the number of threads. Trap: a task that
itself asks for threads would wait for a free one for ever; it gets its own.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from funcad.configuration import config

__all__ = ["thread_count", "parallel"]

_pool: list[Any] = []  # [executor, its threads]
_guard = threading.Lock()
_inside = threading.local()


def thread_count() -> int:
    """Threads that one program may use: `funcad.config.threads`, by default the cores of this process.

    >>> from funcad.backends.workers import thread_count
    >>> thread_count() >= 1
    True
    """
    if config.threads is not None:
        return max(config.threads, 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _executor(threads: int) -> Any:
    with _guard:
        if not _pool or _pool[1] < threads:
            _pool[:] = [ThreadPoolExecutor(threads, thread_name_prefix="funcad"), threads]
        return _pool[0]


def parallel(run: Callable[..., Any], count: int, step: int, *args: Any) -> list[Any]:
    """`[run(0, m, *args), run(m, 2 * m, *args), ...]` over `count` items, in threads; shares are multiples of `step`.

    >>> from funcad.backends.workers import parallel
    >>> sum(parallel(lambda low, high: high - low, 1000, 10))
    1000
    """
    tiles = -(-count // step)
    threads = 1 if getattr(_inside, "busy", False) else min(thread_count(), tiles)
    if threads <= 1:
        return [run(0, count, *args)]
    bounds = [min(count, step * (tiles * k // threads)) for k in range(threads)] + [count]

    def task(low: int, high: int) -> Any:
        _inside.busy = True
        try:
            return run(low, high, *args)
        finally:
            _inside.busy = False

    pool = _executor(threads - 1)
    try:
        futures = [pool.submit(contextvars.copy_context().run, task, bounds[k], bounds[k + 1]) for k in range(1, threads)]
    except RuntimeError:  # the interpreter is shutting down: no new threads
        return [run(0, count, *args)]
    try:
        first = run(bounds[0], bounds[1], *args)
    finally:
        for future in futures:  # also if the first share failed: the others write into the caller's arrays
            future.exception()
    return [first, *[future.result() for future in futures]]


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    _pool.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

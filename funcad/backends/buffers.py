"""Memory of large results, reused after their last reader is gone.

Idea: the first touch of fresh memory costs more than the arithmetic of a cheap loop, so blocks of at least `LARGE` bytes are
kept when the last array over them dies, and handed out again for results that need a block of that size. Who owns a block is
never guessed: each array that `empty` gives is a view of a private root array, every view that NumPy makes of it keeps that
root alive, and a weak reference to the root says when it is gone. Only then is the block free. Blocks are private anonymous
mappings with huge pages where the system has them; where they cannot be had, `empty` is `np.empty`. Traps: the callback of a
weak reference may run in any thread at any moment, also while this thread holds the lock, so it only appends to a deque and
never waits; a forked child has its own copy of all blocks, but the lock may have been held by a thread that it does not have.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import OrderedDict, deque
from typing import Any

import numpy as np

from funcad.configuration import config
from funcad.host.locks import private_memory

LARGE = 128 * 1024  # bytes from which on the C library gives memory back to the system, page by page; below, it is as good
PAGE = 2 * 1024 * 1024  # bytes of a huge page
HUGE = 3 * PAGE // 2  # from here on blocks are whole huge pages: at most a third more than was asked for
try:
    import mmap
except ImportError:  # as in browsers: there is no pool
    mmap = None  # type: ignore[assignment]


class PrivateMemory(mmap.mmap if mmap else object):  # type: ignore[misc]
    """Memory that is reached through one array and its views only."""


private_memory.add(PrivateMemory)
_PRIVATE = getattr(mmap, "MAP_PRIVATE", None)
_ANONYMOUS = getattr(mmap, "MAP_ANONYMOUS", getattr(mmap, "MAP_ANON", None))


class _Root(weakref.ref):
    """Watches the root array over one block."""

    __slots__ = ("block", "size")


_watching: dict[int, Any] = {}  # the weak references, which must outlive what they watch
_returned: deque[tuple[Any, int]] = deque()  # blocks whose root has died, not yet sorted in
_free: OrderedDict[int, list[Any]] = OrderedDict()  # by size; the size that was used last comes last
_bytes = 0  # in _free
_lock = threading.Lock()
_default: list[int] = []


def _default_limit() -> int:
    if not _default:
        try:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError, AttributeError):  # not a POSIX system, or it does not tell
            total = 2**31
        _default.append(min(2**30, total // 8))
    return _default[0]


def pool_limit() -> int:
    """The most bytes that are kept for reuse: `funcad.config.pool_bytes`, by default 1 GiB or an eighth of the memory.

    >>> from funcad.backends.buffers import pool_limit
    >>> pool_limit() >= 0
    True
    """
    return _default_limit() if config.pool_bytes is None else config.pool_bytes


def _died(root: Any) -> None:
    _returned.append((root.block, root.size))
    _watching.pop(id(root), None)
    _sort_in()


def _sort_in() -> None:
    """Move returned blocks to the free ones, and forget the oldest beyond the limit; never waits for the lock."""
    global _bytes
    while _returned and _lock.acquire(blocking=False):
        dropped = []  # unmapped after the lock is released
        try:
            limit = pool_limit()
            while True:
                try:
                    block, size = _returned.popleft()
                except IndexError:
                    break
                if size > limit:
                    dropped.append(block)
                    continue
                _free.setdefault(size, []).append(block)
                _free.move_to_end(size)
                _bytes += size
            while _bytes > limit and _free:
                size, blocks = next(iter(_free.items()))
                dropped.append(blocks.pop())
                _bytes -= size
                if not blocks:
                    del _free[size]
        finally:
            _lock.release()
        del dropped


def _rounded(size: int) -> int:
    """The size of a block for so many bytes, in eighths of it or huge pages: one serves arrays of about the same size, too."""
    step = PAGE if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE") else 1 << size.bit_length() - 4
    return -(-size // step) * step


def _new_block(size: int) -> Any:
    if _PRIVATE is None or _ANONYMOUS is None:
        return None
    try:
        # the system places mappings of whole huge pages at the start of one, others anywhere
        block = PrivateMemory(-1, size, flags=_PRIVATE | _ANONYMOUS)
        if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # no such mappings here, or none left: NumPy's allocator says what is wrong
        return None
    return block


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised C-contiguous array; of a large one the memory is reused when it and all its views are gone.

    >>> import numpy as np
    >>> from funcad.backends.buffers import empty
    >>> empty((512, 128), np.float64).shape
    (512, 128)
    """
    global _bytes
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or pool_limit() < size:
        return np.empty(shape, dtype)
    if _returned:
        _sort_in()
    block, kept = None, _rounded(size)
    if _lock.acquire(blocking=False) or _lock.acquire(timeout=1.0):
        try:
            blocks = _free.get(kept)
            if blocks:
                block = blocks.pop()
                _bytes -= kept
                if blocks:
                    _free.move_to_end(kept)
                else:
                    del _free[kept]
        finally:
            _lock.release()
    if block is None:
        block = _new_block(kept)
        if block is None:
            return np.empty(shape, dtype)
    root = np.ndarray((size,), np.uint8, block)
    watcher = _Root(root, _died)
    watcher.block, watcher.size = block, kept
    _watching[id(watcher)] = watcher
    return np.ndarray(shape, dtype, root)


def pooled_bytes() -> int:
    """How many bytes are kept for reuse now."""
    _sort_in()
    return _bytes


def drain() -> None:
    """Give all kept memory back to the system.

    >>> from funcad.backends.buffers import drain, pooled_bytes
    >>> drain()
    >>> pooled_bytes()
    0
    """
    global _bytes
    _sort_in()
    with _lock:
        dropped = list(_free.values())
        _free.clear()
        _bytes = 0
    del dropped


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

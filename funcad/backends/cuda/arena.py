"""The device memory of one captured run.

Idea: a graph's kernels write where they wrote when they were captured, so what lies there must be the graph's as long as it
lives. The program runs as it is; while it is captured CuPy asks an arena for memory, which gives what the program's own
`del`s have freed again, in the order of the stream: offsets by lifetime, with the temporaries of CuPy's own functions.
Invariant: two arrays that live at the same time share nothing. Trap: who gives memory back may be the collector, at any time.
"""

from __future__ import annotations

import threading
from bisect import insort
from typing import Any

__all__ = ["Arena"]

GRAIN = 512  # bytes, to whose multiples CUDA aligns memory


class Arena:
    """Memory from whom gives it now, `xp.cuda.get_allocator()`, in a chunk of `size` bytes, and more if that is not enough."""

    def __init__(self, xp: Any, size: int):
        self._source = xp.cuda.get_allocator()
        self._chunks: list[Any] = []
        self._starts: set[int] = set()  # of the chunks: what is free is not joined over their borders
        self._free: list[tuple[int, int]] = []  # (address, bytes), by address
        self._taken: dict[int, int] = {}
        self._lock = threading.RLock()
        self.used = self.peak = 0
        if size:
            self._grow(size)
        self.malloc = xp.cuda.PythonFunctionAllocator(self._take, self._give).malloc

    @property
    def size(self) -> int:
        """Bytes of all chunks."""
        return sum([size for _, size in self._chunks])

    def _grow(self, size: int) -> None:
        chunk = self._source(size)
        self._chunks.append((chunk, size))
        self._starts.add(chunk.ptr)
        insort(self._free, (chunk.ptr, size))

    def _take(self, size: int, device: int) -> int:
        size = -(-size // GRAIN) * GRAIN
        with self._lock:
            fitting = [(n, start) for start, n in self._free if n >= size]
            if not fitting:
                self._grow(max(size, self.size))
                return self._take(size, device)
            n, start = min(fitting)
            self._free.remove((start, n))
            if n > size:
                insort(self._free, (start + size, n - size))
            self._taken[start] = size
            self.used += size
            self.peak = max(self.peak, self.used)
            return int(start)

    def _give(self, start: int, device: int) -> None:
        with self._lock:
            size = self._taken.pop(start)
            self.used -= size
            for other in [f for f in self._free if f[0] + f[1] == start or start + size == f[0]]:
                if max(start, other[0]) not in self._starts:
                    self._free.remove(other)
                    start, size = min(start, other[0]), size + other[1]
            insort(self._free, (start, size))

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

__all__ = ["DeviceArena"]

GRAIN = 512  # bytes, to whose multiples CUDA aligns memory


class _Ranges:
    """What is free, and the first place that is large enough."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []  # (address, bytes), by address
        self.starts: set[int] = set()  # of chunks: what is free is not joined over their borders

    def add(self, start: int, size: int) -> None:
        self.starts.add(start)
        insort(self.free, (start, size))

    def take(self, size: int) -> int | None:
        for i, (start, n) in enumerate(self.free):
            if n >= size:
                self.free[i : i + 1] = [(start + size, n - size)] if n > size else []
                return start
        return None

    def give(self, start: int, size: int) -> None:
        for other in [f for f in self.free if f[0] + f[1] == start or start + size == f[0]]:
            if max(start, other[0]) not in self.starts:
                self.free.remove(other)
                start, size = min(start, other[0]), size + other[1]
        insort(self.free, (start, size))


class DeviceArena:
    """Memory from whom gives it now, `xp.cuda.get_allocator()`, in a chunk of `size` bytes, and more if that is not enough."""

    def __init__(self, xp: Any, size: int):
        self._source = xp.cuda.get_allocator()
        self._chunks: list[tuple[Any, int]] = []
        self._ranges = _Ranges()
        self._taken: dict[int, int] = {}
        self._log: list[tuple[int, int]] = []  # (address, bytes) of what was taken; 0 bytes: it was given back
        self._lock = threading.RLock()
        if size:
            self._grow(size)
        self.malloc = xp.cuda.PythonFunctionAllocator(self._take, self._give).malloc

    @property
    def size(self) -> int:
        """Bytes of all chunks."""
        return sum([size for _, size in self._chunks])

    @property
    def needed(self) -> int:
        """Bytes of one chunk with which the same is given."""
        ranges, places, end = _Ranges(), dict[int, tuple[int, int]](), 0
        ranges.add(0, 1 << 62)
        for address, size in self._log:
            if size:
                start = ranges.take(size) or 0
                places[address] = start, size
                end = max(end, start + size)
            else:
                ranges.give(*places.pop(address))
        return end

    def _grow(self, size: int) -> None:
        chunk = self._source(size)
        self._chunks.append((chunk, size))
        self._ranges.add(chunk.ptr, size)

    def _take(self, size: int, device: int) -> int:
        size = -(-size // GRAIN) * GRAIN
        with self._lock:
            start = self._ranges.take(size)
            if start is None:
                self._grow(max(size, self.size))
                return self._take(size, device)
            self._taken[start] = size
            self._log.append((start, size))
            return start

    def _give(self, start: int, device: int) -> None:
        with self._lock:
            self._log.append((start, 0))
            self._ranges.give(start, self._taken.pop(start))

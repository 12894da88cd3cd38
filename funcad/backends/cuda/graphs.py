"""Captured runs: a program that comes again with the same arrays is one CUDA graph, whose start is one call.

Idea: the lines of the program run once more while the stream records what they start, in memory of the graph's own (below).
From then on a run copies small arguments in, starts the graph, and copies the results out. Which graph it is: the stream, where
the large arguments lie, and the numbers of the host among the arguments, which are parts of the graph.

Invariants: whatever a graph cannot hold runs as lines, and `reason` says why: a program that waits for the device, or sends
numbers of the host there; one with effects; one whose results are memory of its arguments; and one where the copies would take
longer than the calls that are saved. A graph's memory is touched on its stream alone. Trap: while a stream records, nothing is
computed, so whoever looks at a value then sees an old one; CUDA raises for that, and the stream is given up.
"""

from __future__ import annotations

import re
import threading
from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from funcad.host.locks import held_over_forks
from funcad.ir.jaxpr import Jaxpr, subjaxprs

# -- the device memory of one captured run
#
# Idea: a graph's kernels write where they wrote when they were captured, so what lies there must be the graph's as long as it
# lives. The program runs as it is; while it is captured CuPy asks an arena for memory, which gives what the program's own
# `del`s have freed again, in the order of the stream: offsets by lifetime, with the temporaries of CuPy's own functions.
# Invariant: two arrays that live at the same time share nothing. Trap: who gives memory back may be the collector, at any time.


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


# -- captured runs


SIGHTS = 2  # runs by lines before a graph is made, which takes as long as some ten of them
KEPT = 4  # graphs of one program
KNOWN = 64  # of runs that have come once
STAGED = 1 << 16  # bytes of an argument that is copied in rather than known by its address: the time of a call
NODES = 20_000  # calls in one graph: each takes memory of the driver's
CALL, BANDWIDTH = 4e-6, 2e12  # seconds that a line takes; bytes a second that are copied
_WAITS = re.compile(r"^\s*(?:if|elif|while)\b|\b(?:int|float|bool|complex)\(", re.MULTILINE)


_lock = threading.RLock()  # what is copied in is for the start that follows
held_over_forks(_lock)
_recording = threading.local()  # `on` while this thread records: what runs within is a part of that


class WatchedLibrary:
    """The library, for a program that is to be captured: it notes whether numbers of the host are sent to the device."""

    def __init__(self, library: Any):
        self._library = library
        self.sent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def asarray(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        self.sent = self.sent or type(x) is not self._library.ndarray
        return self._library.asarray(x, *args, **kwargs)

    def array(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        self.sent = self.sent or type(x) is not self._library.ndarray
        return self._library.array(x, *args, **kwargs)


def _calls(jaxpr: Jaxpr) -> float:
    """How many calls a run makes, at most; infinite where nobody knows."""
    found = 0.0
    for equation in jaxpr.equations:
        inner = sum([_calls(j) for j in subjaxprs(equation.params)]) if equation.primitive.name != "fused" else 0
        length = getattr(equation.params.get("loop"), "length", 1)
        found += inner * (float("inf") if length is None else length) if inner else 1
    return found


class Graphs:
    """The graphs of one program: `generate(library)` writes it, `jaxpr` is what it was written from."""

    def __init__(self, generate: Callable[[Any], Any], jaxpr: Jaxpr, library: Any):
        self.library = library
        self.reason = ""  # why there are none
        self.kept: dict[tuple, _Graph] = {}
        self._watched = WatchedLibrary(library)
        self._seen: dict[tuple, int] = {}
        calls = _calls(jaxpr)
        staged = [v for v in jaxpr.inputs if v.aval.size * v.aval.dtype.itemsize <= STAGED]
        copied = sum([o.aval.size * o.aval.dtype.itemsize for o in jaxpr.outputs])
        copies = len(staged) + len(jaxpr.outputs) + 1
        if jaxpr.has_effects:
            self.reason = "it has effects"
        elif calls == float("inf"):
            self.reason = "Python waits for a value, the condition of a loop"
        elif calls > NODES:
            self.reason = f"a run makes more than {NODES:,} calls"
        elif (calls - copies) * CALL <= 2 * copied / BANDWIDTH:
            self.reason = f"{calls:.0f} calls take no longer than to copy {copies} arguments and results"
        else:
            self.program = generate(self._watched)
            if _WAITS.search(self.program.text.partition("\n")[2]):
                self.reason = "Python waits for a value"

    def run(self, values: Sequence[Any]) -> list[Any] | None:
        """The results for these arguments; None: lines are to run."""
        if self.reason or getattr(_recording, "on", False):
            return None
        key = self._key(values)
        with _lock:
            graph = self.kept.pop(key, None)
            if graph is None:
                seen = self._seen.pop(key, 0) + 1
                if seen < SIGHTS:
                    self._seen[key] = seen
                    while len(self._seen) > KNOWN:
                        del self._seen[next(iter(self._seen))]
                    return None
                graph = self._captured(values)
                if graph is None:
                    return None
                while len(self.kept) >= KEPT:
                    del self.kept[next(iter(self.kept))]
            self.kept[key] = graph
            return graph.run(self.library, values)

    def _key(self, values: Sequence[Any]) -> tuple:
        stream = self.library.cuda.get_current_stream()
        key: list[Any] = [self.library.cuda.runtime.getDevice(), stream.ptr]
        for x in values:
            if type(x) is not self.library.ndarray:
                key.append((type(x), repr(x)))
            else:
                key.append((x.strides, None if x.nbytes <= STAGED else x.data.ptr))
        return tuple(key)

    def _captured(self, values: Sequence[Any]) -> _Graph | None:
        xp, cuda = self.library, self.library.cuda
        inputs = [xp.array(x, order="K") if type(x) is xp.ndarray and x.nbytes <= STAGED else x for x in values]
        cuda.get_current_stream().synchronize()  # what the inputs are made by, for another stream follows
        stream = cuda.Stream(non_blocking=True)
        _recording.on = True
        try:
            first = DeviceArena(xp, 0)
            with stream, cuda.using_allocator(first.malloc):
                self.program.function(list(inputs))
            stream.synchronize()
            if self._watched.sent:
                self.reason = "it sends numbers of the host to the device"
                return None
            arena = DeviceArena(xp, first.needed)
            del first
            with stream, cuda.using_allocator(arena.malloc):
                graph, results = self._recorded(stream, inputs)
        except Exception as error:  # whatever it is, lines do not have it, or raise it where it belongs
            self.reason = f"{type(error).__name__}: {error}"
            return None
        finally:
            _recording.on = False
        mine = [x for x in inputs if type(x) is xp.ndarray]
        if any([xp.may_share_memory(r, x) for r in results for x in mine if type(r) is xp.ndarray]):
            self.reason = "a result is memory of an argument"
            return None
        return _Graph(graph, arena, [x if x is not v else None for x, v in zip(inputs, values)], results)

    def _recorded(self, stream: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
        stream.begin_capture()
        try:
            results = self.program.function(list(inputs))
        except BaseException:
            with suppress(Exception):  # it says that the recording was cut off, which is known
                stream.end_capture()
            raise
        return stream.end_capture(), results

    def describe(self) -> str:
        """A line for `explain`."""
        if self.reason:
            return f"no CUDA graph: {self.reason}"
        if not self.kept:
            return "no CUDA graph yet: from the third run with arguments that lie where they did"
        size = sum([graph.arena.size for graph in self.kept.values()])
        return f"CUDA graphs: {len(self.kept)}, of {KEPT} at most, with {size:,} bytes of memory of their own"


class _Graph:
    """One captured run."""

    __slots__ = ("graph", "arena", "inputs", "outputs")

    def __init__(self, graph: Any, arena: DeviceArena, inputs: list[Any], outputs: list[Any]):
        self.graph = graph
        self.arena = arena
        self.inputs = inputs  # where arguments are copied to; None: the graph reads the argument itself
        self.outputs = outputs

    def run(self, xp: Any, values: Sequence[Any]) -> list[Any]:
        for place, x in zip(self.inputs, values):
            if place is not None:
                place[...] = x
        self.graph.launch()
        return [xp.array(o, order="K") if type(o) is xp.ndarray else o for o in self.outputs]

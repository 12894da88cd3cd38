"""A recording driver for the stand-in: memory, streams, capture and replay, as CUDA has them, in the memory of the host.

While a `driver()` is open the stand-in's arrays lie in memory that is asked for and given back (`xp.cuda.get_allocator()`), and
what is given back is filled with NaN. While a stream records, calls and kernels are not done but written down with addresses
alone, so a graph that is started reads whatever is there by then. What CUDA would refuse then raises; what it would take and
do wrongly, numbers of the host that are sent and memory that is not the graph's, is put down in `faults`, too.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests import cuda_shim, standin

__all__ = ["Driver", "driver"]

ALIGNED = 512
_POISON = 0xFF  # of every byte: NaN, -1, True


class _Memory:
    """A range that is given back with this."""

    def __init__(self, start: int, back: Callable[[], None]):
        self.ptr, self._back = start, back

    def __del__(self) -> None:
        self._back()


def _dropped(memory: _Memory) -> None:
    """The last array in it has gone."""


class _Graph:
    def __init__(self, owner: Driver, steps: Sequence[Callable[[], None]]):
        self._owner, self._steps = owner, steps

    def launch(self, stream: Any = None) -> None:
        assert self._owner.recording is None, "a graph started within a recording"
        self._owner.launches += 1
        for step in self._steps:
            step()


class _Stream:
    def __init__(self, owner: Driver, number: int):
        self._owner, self.ptr, self._outer = owner, number, []

    def __enter__(self) -> _Stream:
        self._outer.append(self._owner.current())
        self._owner.local.stream = self
        return self

    def __exit__(self, *error: object) -> None:
        self._owner.local.stream = self._outer.pop()

    def synchronize(self) -> None:
        self._owner.refuse_if_recording("synchronize")

    def begin_capture(self) -> None:
        assert self._owner.recording is None
        self._owner.recording, self._owner.cut = [], ""

    def end_capture(self) -> _Graph:
        steps, self._owner.recording = self._owner.recording, None
        if self._owner.cut:
            raise RuntimeError(f"the recording was cut off by {self._owner.cut}")
        return _Graph(self._owner, steps)


class Driver:
    """What `xp.cuda` is."""

    def __init__(self) -> None:
        self.local = threading.local()
        self.cut = ""
        self.launches = 0
        self.faults: list[str] = []
        self._starts: list[int] = []  # of what is allocated
        self._ranges: dict[int, tuple[int, Any]] = {}  # start -> (end, the bytes)
        self._streams = 1
        self._null = _Stream(self, 0)
        self.runtime = SimpleNamespace(getDevice=lambda: 0)
        self.Device = nullcontext

    @property
    def recording(self) -> list[Callable[[], None]] | None:
        """What this thread's stream has recorded, if it does: the streams of other threads run meanwhile."""
        return getattr(self.local, "recording", None)

    @recording.setter
    def recording(self, steps: list[Callable[[], None]] | None) -> None:
        self.local.recording = steps

    # -- what CuPy has
    def current(self) -> _Stream:
        return getattr(self.local, "stream", self._null)

    get_current_stream = current

    def Stream(self, non_blocking: bool = False) -> _Stream:
        self._streams += 1
        return _Stream(self, self._streams)

    def get_allocator(self) -> Callable[[int], _Memory]:
        return getattr(self.local, "allocator", self.alloc)

    @contextmanager
    def using_allocator(self, allocator: Callable[[int], Any]) -> Iterator[None]:
        saved = self.get_allocator()
        self.local.allocator = allocator
        try:
            yield
        finally:
            self.local.allocator = saved

    def PythonFunctionAllocator(self, take: Callable[[int, int], int], give: Callable[[int, int], None]) -> Any:
        def malloc(size: int) -> _Memory:
            start = take(size, 0)

            def back() -> None:
                self._do(lambda: ctypes.memset(start, _POISON, size))
                give(start, 0)

            return _Memory(start, back)

        return SimpleNamespace(malloc=malloc)

    def alloc(self, size: int) -> _Memory:
        """Memory that is not in an arena."""
        if self.recording is not None:
            self.faults.append(f"{size} bytes from outside the graph")
        held = np.empty(size + ALIGNED, np.uint8)
        start = -(-held.ctypes.data // ALIGNED) * ALIGNED
        insort(self._starts, start)
        self._ranges[start] = start + size, held

        def back() -> None:
            held.fill(_POISON)
            self._starts.remove(start)
            del self._ranges[start]

        return _Memory(start, back)

    # -- what the stand-in asks
    def _do(self, step: Callable[[], Any]) -> None:
        if self.recording is None:
            step()
        else:
            self.recording.append(step)

    def refuse_if_recording(self, what: str) -> None:
        if self.recording is not None:
            self.cut = self.cut or what
            raise RuntimeError(f"{what}: operation not permitted when stream is capturing")

    def sends(self) -> None:
        if self.recording is not None:
            self.faults.append("numbers of the host are sent")

    def owns(self, x: np.ndarray) -> bool:
        address = x.__array_interface__["data"][0]
        i = bisect_right(self._starts, address) - 1
        return i >= 0 and address < self._ranges[self._starts[i]][0]

    def place(self, x: np.ndarray) -> np.ndarray:
        """The same in the device's memory."""
        if not x.size:
            return x
        memory = self.get_allocator()(x.nbytes)
        owner = (ctypes.c_char * x.nbytes).from_address(memory.ptr)
        weakref.finalize(owner, _dropped, memory).atexit = False
        order = np.argsort([-s for s in x.strides], kind="stable")
        back = np.argsort(order)
        found = np.ndarray([x.shape[i] for i in order], x.dtype, buffer=owner).transpose(back)
        found[...] = x
        return found

    def bare(self, x: Any) -> Any:
        """An array by its address alone."""
        if isinstance(x, (tuple, list)):
            return type(x)(self.bare(v) for v in x)
        if not issubclass(type(x), np.ndarray) or not x.size or not self.owns(x):
            return x
        address = x.__array_interface__["data"][0]
        start = self._starts[bisect_right(self._starts, address) - 1]
        whole = (ctypes.c_char * (self._ranges[start][0] - start)).from_address(start)
        return np.ndarray(x.shape, x.dtype, buffer=whole, offset=address - start, strides=x.strides)

    def perform(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], written: Sequence[Any]) -> Any:
        """`function(*args, **kwargs)`, which writes into `written`: done, or written down."""
        if self.recording is None:
            return function(*args, **kwargs)
        given, named = [self.bare(a) for a in args], {k: self.bare(v) for k, v in kwargs.items()}
        targets = [self.bare(w) for w in written]
        saved = [t.copy() for t in targets]
        with np.errstate(all="ignore"):
            result = function(*given, **named)
        for t, s in zip(targets, saved):
            t[...] = s
        several = isinstance(result, (tuple, list))
        parts = list(result) if several else [result]
        fresh = [i for i, r in enumerate(parts) if hasattr(r, "dtype") and np.size(r) and not self.owns(np.asarray(r))]
        places = {}
        for i in fresh:
            parts[i] = self.place(np.asarray(parts[i]))
            places[i] = self.bare(parts[i])
            ctypes.memset(places[i].ctypes.data, _POISON, places[i].nbytes)  # it has not been computed

        def step() -> None:
            with np.errstate(all="ignore"):
                found = function(*given, **named)
            for i, place in places.items():
                place[...] = found[i] if several else found

        if not (fresh or written):
            return function(*args, **kwargs)  # a view, which keeps its memory
        self.recording.append(step)
        return type(result)(parts) if several and not hasattr(result, "_fields") else parts if several else parts[0]

    def launch(self, start: Callable[[], None]) -> None:
        """A kernel, which knows addresses."""
        self._do(start)


@contextmanager
def driver() -> Iterator[Driver]:
    """While this is open the stand-in has `xp.cuda`."""
    found = Driver()
    standin.driver = cuda_shim.driver = found
    standin._Module.cuda = found  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        standin.driver = cuda_shim.driver = None
        del standin._Module.cuda  # type: ignore[attr-defined]

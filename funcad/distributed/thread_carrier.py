"""The carrier of threads: n threads of this process stand for n processes. For tests, notebooks and debugging."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.distributed.communicator import Communicator, here
from funcad.errors import CollectiveError

__all__ = ["Threads", "on_threads"]


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

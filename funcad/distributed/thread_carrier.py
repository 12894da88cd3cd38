"""The carrier of threads: n threads of this process stand for n processes, for tests, notebooks and debugging."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.distributed.communicator import Communicator, _sum, here
from funcad.errors import CollectiveError


class _Meeting:
    """What the threads of one group share: their rounds, where each is, and who does not come any more, with the reason."""

    def __init__(self, size: int):
        self.size = size
        self.changed = threading.Condition()
        self.rounds: dict[int, dict[int, np.ndarray]] = {}
        self.read: dict[int, int] = {}
        self.gone: dict[int, str] = {}
        self.places = ["no collective"] * size
        self.parts: dict[tuple[int, int], tuple[list[int], _Meeting]] = {}  # (round, color) -> members, their meeting

    def post(self, rank: int, number: int, x: np.ndarray, where: str) -> None:
        with self.changed:
            self.rounds.setdefault(number, {})[rank] = x.copy()
            self.places[rank] = where
            self.changed.notify_all()

    def collect(self, rank: int, number: int, where: str, timeout: float, remind: float) -> list[np.ndarray]:
        """What all posted in this round."""
        began = time.monotonic()
        told = 0
        with self.changed:
            came = self.rounds[number]
            while len(came) < self.size:
                lost = [f"process {r} {why}" for r, why in self.gone.items() if r not in came]
                if lost:
                    raise CollectiveError(f"process {rank} waits in {where}, but {'; '.join(lost)}")
                waited = time.monotonic() - began
                absent = [r for r in range(self.size) if r not in came]
                for_whom = "; ".join([f"process {r}, last in {self.places[r]}" for r in absent])
                if waited >= timeout:
                    raise CollectiveError(
                        f"process {rank} waited {timeout:g} s in {where} for the others: {for_whom}.\n"
                        "Remedy: let all processes reach the same collectives; or a longer timeout (FUNCAD_TIMEOUT)."
                    )
                if waited >= remind * (told + 1):
                    told += 1
                    if rank == min(came):  # one line, not one from each
                        text = f"process {rank} of {self.size} has waited {waited:.3g} s in {where} for {for_whom}"
                        print(text, file=sys.stderr, flush=True)
                self.changed.wait(min(timeout, remind * (told + 1)) - waited)
            values = [came[r] for r in range(self.size)]
            self.read[number] = self.read.get(number, 0) + 1
            if self.read[number] == self.size:
                del self.rounds[number], self.read[number]
        return values

    def leave(self, rank: int, why: str) -> None:
        with self.changed:
            self.gone[rank] = why
            parts = [(members.index(rank), part) for members, part in self.parts.values() if rank in members]
            self.changed.notify_all()
        for own, part in parts:
            part.leave(own, why)

    def part(self, number: int, color: int, members: list[int]) -> _Meeting:
        with self.changed:
            _, found = self.parts.setdefault((number, color), (members, _Meeting(len(members))))
            found.gone.update({members.index(r): why for r, why in self.gone.items() if r in members})
        return found


class Threads(Communicator):
    """One of n threads, see `on_threads`."""

    __slots__ = ("_meeting", "_round")

    def __init__(self, meeting: _Meeting, rank: int, timeout: float | None):
        super().__init__(meeting.size, rank, timeout)
        self._meeting = meeting
        self._round = 0

    def _collected(self, x: np.ndarray, where: str) -> Callable[[], list[np.ndarray]]:
        self._round += 1
        number = self._round
        self._meeting.post(self.rank, number, x, where)
        return lambda: self._meeting.collect(self.rank, number, where, self.timeout, self.remind)

    def swap(self, x: np.ndarray, where: str) -> np.ndarray:
        return np.stack(self._collected(x, where)())

    def start_sum(self, x: np.ndarray, where: str) -> Callable[[], np.ndarray]:
        collect = self._collected(x, where)
        return lambda: _sum(np.stack(collect()))

    def divided(self, color: int, key: int) -> Communicator:
        colors = self.swap(np.array([color, key]), "a split").tolist()
        members = sorted([r for r, (c, _) in enumerate(colors) if c == color], key=lambda r: colors[r][1])
        part = self._meeting.part(self._round, color, members)
        return Threads(part, members.index(self.rank), self.timeout)


def on_threads(n: int, f: Callable[[int], Any], timeout: float | None = None) -> list[Any]:
    """Run `f(rank)` in n threads that stand for n processes, and return what each of them returned.

    `spmd` without `comm` goes over these threads inside f. If one raises, the others stop at their next collective, and its
    error is raised here, saying which process it was; a collective that waits longer than `timeout` seconds (if None, those of
    `funcad.config.timeout`) raises CollectiveError, naming who is missing and where that was last. After an error the other
    threads have as many seconds to end; who has not ended then is left behind, and named in the error. JAX has nothing like it.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> total = distributed.spmd(lambda x: funcad.psum(x, "i"), "i")
    >>> [int(t) for t in distributed.on_threads(3, lambda rank: total(np.array(rank)))]
    [3, 3, 3]
    """
    meeting = _Meeting(n)
    comms = [Threads(meeting, rank, timeout) for rank in range(n)]
    results: list[Any] = [None] * n
    errors: list[tuple[int, BaseException]] = []

    def process(rank: int) -> None:
        try:
            with here(comms[rank]):
                results[rank] = f(rank)
            meeting.leave(rank, "has returned")
        except BaseException as error:
            errors.append((rank, error))
            meeting.leave(rank, f"raised {type(error).__name__}: {error}")

    threads = [threading.Thread(target=process, args=(rank,), daemon=True, name=f"process {rank}") for rank in range(n)]
    for thread in threads:
        thread.start()
    _join(threads, meeting, errors, comms[0].timeout if comms else 0.0)
    if errors:
        rank, error = errors[0]  # the others raise because of it, later
        error.add_note(f"in process {rank} of {n}")
        left = [r for r, thread in enumerate(threads) if thread.is_alive()]
        if left:
            error.add_note("left behind: " + "; ".join([f"process {r}, last in {meeting.places[r]}" for r in left]))
        raise error
    return results


def _join(threads: list[threading.Thread], meeting: _Meeting, errors: list, timeout: float) -> None:
    """Wait for all threads; after an error only so long."""
    end = float("inf")
    with meeting.changed:
        while len(meeting.gone) < len(threads) and (left := end - time.monotonic()) > 0:
            meeting.changed.wait(min(left, threading.TIMEOUT_MAX))
            if errors:
                end = min(end, time.monotonic() + timeout)
        gone = list(meeting.gone)
    for rank in gone:
        threads[rank].join()

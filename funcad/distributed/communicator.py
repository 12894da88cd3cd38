"""What carries collectives: `Communicator`, of which every carrier is a subclass in a file of its own.

Idea: a carrier moves buffers; what it has to give is `swap` (every process gets the arrays of all), and it may give faster ways
for sums and exchanges. Whether all processes are at the same collective is asked here, before any result is used: MPI would
give wrong numbers for two sums in swapped order without a word. So each collective first compares a hash of its name, dtype,
shape and number, rolled on from that of all that went before; where they differ, the processes tell each other their lines.
A compiled program compares beforehand what it will call, once for all up to the next branch or loop of unknown length. Where
the next collective is equal but the rest is not, as on a process whose program is not compiled, the rest goes one by one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.errors import CollectiveError
from funcad.host.state import setting, state
from funcad.primitives.axis_env import ProcessAxis
from funcad.primitives.carried import Agreement, CollectiveCall

__all__ = ["Communicator", "ambient", "here"]

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

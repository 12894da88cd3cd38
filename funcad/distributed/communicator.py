"""What carries collectives: `Communicator`, the base of the carriers for MPI and for threads.

Idea: a carrier moves buffers; what it has to give is `swap` (every process gets the arrays of all), and it may give faster ways
for sums and exchanges. Whether all processes are at the same collective is asked here, before any result is used: MPI would
give wrong numbers for two sums in swapped order without a word. So each collective first compares a hash of its name, dtype,
shape and number, rolled on from that of all that went before; where they differ, the processes tell each other their lines.
A compiled program compares beforehand what it will call, once for all up to the next branch or loop of unknown length. Where
the next collective is equal but the rest is not, as on a process whose program is not compiled, the rest goes one by one.

The line of each collective is compared with it. Processes may rightly meet from different lines, so there a difference is
warned of, once, and raises with `strict`; two sums of one shape in swapped order are found by nothing else.

Trap: whether a further message is needed must be decided from what all processes know alike, or one of them waits for ever.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad.configuration import config
from funcad.errors import CollectiveError
from funcad.host.devices import namespace_of
from funcad.host.where import outside, setting, state, user_source
from funcad.primitives.axis_env import Agreement, CollectiveCall, ProcessAxis, place_of

SMALL = 1 << 15  # bytes that all processes together receive at once, where time goes into waiting and not into sending
_TEXT = 400  # bytes of what a process tells about where it is
_RUNS = 8  # of a program, after which a sum that nobody waited for, because of an error, is forgotten
_LOOPS = 16  # loops of a program whose lengths are compared
_KEY = "the processes of this thread"  # no name of an axis that anybody would choose


class _Met(NamedTuple):
    """What is compared before a collective, or before all those of a program; 0: it is not known."""

    tag: int
    every: int
    place: int
    places: int
    number: int
    where: str
    loops: tuple[tuple[int, int, int], ...] = ()


class Communicator(ProcessAxis):
    """`size` processes, of which this one is `rank`; the base of all carriers.

    `timeout`: seconds that a collective waits for the others (`funcad.config.timeout`). `strict`: raise CollectiveError where
    processes meet from different lines, instead of a warning. Both may be set at any time, alike on all processes.
    """

    __slots__ = (
        "timeout",
        "strict",
        "count",
        "sent",
        "last",
        "before",
        "events",
        "_ahead",
        "_hash",
        "_warned",
        "_flying",
        "_parts",
        "__weakref__",
    )
    remind = 60.0  # seconds after which one line says who is waited for, and again

    def __init__(self, size: int, rank: int, timeout: float | None = None):
        super().__init__(size, rank)
        self.timeout = config.timeout if timeout is None else timeout
        self.strict = False
        self.count = 0  # collectives until now
        self.sent = 0  # bytes that this process gave to collectives
        self.last = self.before = "no collective"  # where this process is, or was last; and the collective before that
        self.events: Callable[[str, str], None] | None = None  # is told "start", "wait" and "done", and of which collective
        self._ahead = 0  # collectives that have been compared already
        self._hash = 0
        self._warned: dict[tuple, str] = {}
        self._flying: dict[int, tuple[Callable[[], np.ndarray], str, CollectiveCall]] = {}
        self._parts: dict[tuple, Communicator] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} processes)"

    # -- what a carrier gives

    def swap(self, x: np.ndarray, where: str) -> np.ndarray:
        """The arrays of all, along a new axis 0, in memory of their own; they have one shape and dtype. `where`: for errors."""
        raise NotImplementedError

    def spread(self, numbers: list[int], where: str) -> list[tuple[int, int]]:
        """Of each number the least and the greatest that a process has."""
        every = self.swap(np.array(numbers, np.int64), where)
        return list(zip(every.min(axis=0).tolist(), every.max(axis=0).tolist()))

    def start_sum(self, x: np.ndarray, where: str) -> Callable[[], np.ndarray]:
        """Begin the sum over the processes; what it returns waits for it. x stays as it is until then."""
        total = self.parted(x, where, _sum) if x.nbytes * self.size > SMALL else _sum(self.swap(x, where))
        return lambda: total

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

    def broadcast(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        """x of the process `root`."""
        return self.swap(x, where)[root]

    def reduce(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        """The sum over the processes on `root`, zeros on the others."""
        total = self.start_sum(x, where)()
        return total if self.rank == root else np.zeros_like(x)

    def gather(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        """The arrays of all processes along a new axis 0 on `root`, zeros on the others."""
        every = self.swap(x, where)
        return every if self.rank == root else np.zeros_like(every)

    def scatter(self, x: np.ndarray, root: int, where: str) -> np.ndarray:
        """Part `rank` of axis 0 of what `root` has."""
        return self.exchange(x, where)[root]

    def divided(self, color: int, key: int) -> Communicator:
        """The communicator of the processes that have this color, in the order of their keys; all processes call it at once."""
        raise NotImplementedError(
            f"a {type(self).__name__} cannot be split.\nRemedy: give the class a method `divided(color, key)`; or use Mpi or "
            "on_threads, which can."
        )

    # -- what is made of these

    def parted(self, x: np.ndarray, where: str, combine: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """What `combine` makes of the values of all, where each process does it for its part: 2 (n - 1) / n of x's bytes.

        Values are combined in the order of the processes, so they are equal on all, and in each run.
        """
        each = -(-x.size // self.size)
        padded = np.zeros(self.size * each, x.dtype)
        padded[: x.size] = x.reshape(-1)
        mine = combine(self.exchange(padded.reshape(self.size, each), where))
        return self.swap(np.ascontiguousarray(mine), where).reshape(-1)[: x.size].reshape(x.shape)

    def extremum(self, x: np.ndarray, where: str, ufunc: np.ufunc) -> np.ndarray:
        """The greatest or the smallest, and how many processes have it: fields `value` and `count` of the result."""
        count = np.min_scalar_type(self.size)
        kind = np.dtype([("value", x.dtype), ("count", count)])

        def combine(every: np.ndarray) -> np.ndarray:
            out = np.empty(every.shape[1:], kind)
            out["value"] = found = ufunc.reduce(every, axis=0)  # MPI's own do not say what a NaN does
            out["count"] = np.sum(every == found, axis=0, dtype=count)
            return out

        return self.parted(x, where, combine) if x.nbytes * self.size > SMALL else combine(self.swap(x, where))

    def split(self, color: int, key: int = 0) -> Communicator:
        """The communicator of those processes that give the same color here; all processes call it.

        They are in the order of their keys, and of their ranks where keys are equal.

        For grids: `row = comm.split(rank // 2)`, `column = comm.split(rank % 2)`, then `spmd(..., comm=row)` inside of
        `spmd(..., comm=column)`. Raises NotImplementedError for a carrier that cannot. As MPI's `Split`.

        >>> from funcad import distributed
        >>> distributed.on_threads(4, lambda rank: distributed.current().split(rank // 2).rank)
        [0, 1, 0, 1]
        """
        line = str(user_source(2) or "an unknown line")
        self._begin(CollectiveCall(self, "split", None, line, place_of(line)), np.zeros(0, np.int8))
        return self.divided(int(color), int(key))

    def part(self, groups: tuple[tuple[int, ...], ...]) -> Communicator:
        """The communicator of this process's group, each group being the ranks of its members in their order there."""
        self.asked += 1
        found = self._parts.get(groups)
        if found is None:
            ((color, key),) = [(i, group.index(self.rank)) for i, group in enumerate(groups) if self.rank in group]
            found = self._parts.setdefault(groups, self.split(color, key))
        return found

    # -- collectives

    def run(self, call: CollectiveCall, x: np.ndarray) -> np.ndarray:
        """One collective."""
        xp = namespace_of([x])
        x = np.asarray(x, x.dtype.newbyteorder("="), order="C") if xp is np else xp.ascontiguousarray(x)
        where = self._begin(call, x)
        if self.events is None:
            return self._made(call, x, where)
        self.events("start", where)
        out = self._made(call, x, where)
        self.events("done", where)
        return out

    def _made(self, call: CollectiveCall, x: np.ndarray, where: str) -> np.ndarray:
        out = _WAYS[call.what](self, x, call.more, where)
        if namespace_of([out]) is not np:
            return out
        return np.asarray(out, out.dtype if out.dtype.names else x.dtype, order="C")

    def start(self, call: CollectiveCall, x: np.ndarray) -> int:
        """Begin a sum, of an array that nobody writes until `finish` gives its result for this number."""
        where = self._begin(call, x)
        if self.events is not None:
            self.events("start", where)
        for number in [n for n, (_, _, other) in self._flying.items() if other is call][:-_RUNS]:
            del self._flying[number]
        self._flying[self.count] = self.start_sum(x, where), where, call
        return self.count

    def finish(self, number: int) -> np.ndarray:
        finish, where, _ = self._flying.pop(number)
        if self.events is None:
            return finish()
        self.events("wait", where)
        total = finish()
        self.events("done", where)
        return total

    def _begin(self, call: CollectiveCall, x: np.ndarray) -> str:
        """Count a collective, and see that the others are at the same."""
        where = call.where(x)
        self.before, self.last = self.last, where
        self.count += 1
        self._hash = zlib.crc32(f"{self.count} {call.tag(x)}".encode(), self._hash)
        if call.agreed and self._ahead:
            self._ahead -= 1
        else:
            self._ahead = 0
            self._compare(_Met(self._hash, 0, call.place, 0, self.count, where))
        self.sent += x.nbytes
        return where

    def agree_on(self, agreement: Agreement) -> None:
        """Compare all collectives up to the next agreement at once; if only the first is equal, the others go one by one."""
        self.before, self.last = self.last, agreement.where
        first = zlib.crc32(f"{self.count + 1} {agreement.first}".encode(), self._hash)
        every = zlib.crc32(f"{self.count} {agreement.every}".encode(), self._hash) + 1  # 0 says that there is one only
        met = _Met(
            first,
            every,
            agreement.place,
            agreement.places,
            self.count + 1,
            agreement.where,
            agreement.loops,
        )
        self._ahead = agreement.count if self._compare(met) else 1

    def _compare(self, met: _Met) -> bool:
        """Is the next collective the same everywhere (or else an error), and those that follow it, too?"""
        tag, every, place, places = self.spread(list(met[:4]), met.where)
        if tag[0] != tag[1]:
            raise CollectiveError(
                f"the processes are at different collectives, or came here over different ones:\n{self._told(met)}"
                "\nRemedy: call the same collectives on all processes, in one order, with equal shapes and dtypes; decide by "
                "values that are equal on all of them, as results of psum are."
            )
        if place[0] != place[1]:
            self._meets_from(place, met)
        if every[0] and every[0] != every[1]:
            self._compare_loops(met)
        return every[0] == every[1] and (not every[0] or places[0] == places[1])

    def _told(self, met: _Met) -> str:
        """Where each process is."""
        told = np.zeros(_TEXT, np.uint8)
        text = met.where.encode()[-_TEXT:]
        told[: len(text)] = np.frombuffer(text, np.uint8)
        lines = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in self.swap(told, met.where)]
        return "\n".join([f"  process {i}: collective {met.number}, {t}" for i, t in enumerate(lines)])

    def _meets_from(self, places: tuple[int, int], met: _Met) -> None:
        known = self._warned.get(places)
        if known is None:
            self._warned[places] = known = self._told(met)
        elif not self.strict:
            return
        text = f"the processes meet in one collective from different lines:\n{known}\n"
        remedy = "Remedy: one order of collectives on all processes: two of one shape in swapped order give wrong results"
        if self.strict:
            raise CollectiveError(f"{text}{remedy}; or comm.strict = False, if they are meant to meet.")
        if self.rank == 0:
            remedy += "; comm.strict = True raises here. If they are meant to meet, ignore this: it is said once."
            warnings.warn(f"{text}{remedy}", UserWarning, stacklevel=outside(2))

    def _compare_loops(self, met: _Met) -> None:
        """The collectives that follow are not the same: loops at one place whose lengths differ would end in waiting."""
        own = np.full((_LOOPS, 3), -1, np.int64)  # collectives before the loop, loops that begin with it inside, its turns
        if met.loops:
            own[: len(met.loops)] = met.loops[:_LOOPS]
        lengths: dict[tuple[int, int], set[int]] = {}
        for before, height, turns in self.swap(own, met.where).reshape(-1, 3).tolist():
            lengths.setdefault((before, height), set()).add(turns)
        for (before, _), turns in sorted(lengths.items()):
            if before >= 0 and len(turns) > 1:
                raise CollectiveError(
                    f"the processes are at a loop with collectives whose length differs, {sorted(turns)} turns, "
                    f"{before} collective(s) after this one:\n{self._told(met)}\nRemedy: loops of one length on all processes; "
                    "or a while_loop whose condition is equal on all of them."
                )


def _sum(parts: np.ndarray) -> np.ndarray:
    """One after the other, without NumPy's 0. in front: the sum of -0. is -0."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _same(comm: Communicator, x: np.ndarray, more: Any, where: str) -> np.ndarray:
    ((least, greatest),) = comm.spread([zlib.crc32(x.tobytes())], where)
    if least != greatest:
        raise CollectiveError(
            f"an argument that in_axes says is replicated differs between the processes: {where}.\n"
            "Remedy: in_axes=0 for what each process has a part of; or distributed.broadcast it first."
        )
    return x


_WAYS: dict[str, Callable[..., np.ndarray]] = {
    "sum": lambda comm, x, more, where: comm.start_sum(x, where)(),
    "max": lambda comm, x, more, where: comm.extremum(x, where, np.maximum),
    "min": lambda comm, x, more, where: comm.extremum(x, where, np.minimum),
    "all_gather": lambda comm, x, more, where: comm.swap(x, where),
    "sum_scatter": lambda comm, x, more, where: _sum(comm.exchange(x, where)),
    "permute": lambda comm, x, more, where: comm.permute(x, more, where),
    "exchange": lambda comm, x, more, where: comm.exchange(x, where),
    "broadcast": lambda comm, x, more, where: comm.broadcast(x, more, where),
    "reduce": lambda comm, x, more, where: comm.reduce(x, more, where),
    "gather": lambda comm, x, more, where: comm.gather(x, more, where),
    "scatter": lambda comm, x, more, where: comm.scatter(x, more, where),
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


# ---------------------------------------------------------------- the carrier of threads: n threads stand for n processes
#
# For tests, notebooks and debugging.


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

    threads = [
        threading.Thread(
            target=process,
            args=(rank,),
            daemon=True,
            name=f"process {rank}",
        )
        for rank in range(n)
    ]
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

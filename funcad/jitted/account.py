"""The account of a jitted function: what was spent on its programs, and what un-jitted calls would have taken.

Idea: the old rule of renting and buying. Work is spent on a program when the time that the calls so far have taken without it
would repay it; a little is free. What was spent and did not help (a path that does not come again) must be repaid twice as well
the next time. So jitted calls cost at most about twice what un-jitted ones do, whatever is called.

Invariant: everything is counted in equations, bytes and calls, and becomes seconds by one table, `COSTS`: no clock decides, so
the same calls compile at the same places in every run. Traps: how long f takes is known only when a part of it has been
recorded, and then from below: a recording that was given up tells how far it came. Where f cannot be run in the place of a
recording (effects have happened, other traces are open), nothing is limited.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from funcad.configuration import config
from funcad.show.compile_log import html_table

COSTS = {  # seconds of one core, of what is counted
    "recorded": 9e-5,  # an equation, while Python runs on traced values
    "program": 8e-3,  # a program that is compiled,
    "compiled": 1.5e-4,  # and each of its equations
    "un-jitted": 1.5e-6,  # an equation, as plain Python or NumPy does it
    "number": 6e-8,  # one of Python's numbers alone
    "byte": 1e-10,  # of results
}
FREE = 0.15  # seconds that need not be repaid: of .2, as loading the compiler takes some, once in a process
MOST_BYTES = 256 << 20  # of what a function's recordings keep
EQUATION_BYTES = 1500  # of a recorded equation
MOST_PATIENCE = 20  # doublings
SHOWN = 12  # decisions


class Abandoned(BaseException):
    """Leaves a recording that has become too dear: nothing has happened, and f itself runs. No `except Exception` takes it."""


class Cost(NamedTuple):
    """What jit has spent on a function, in seconds of counted work, and what it decided; `print` it.

    `unjitted` is what the calls so far would have taken at least; calls that go straight to a compiled program are not counted.
    """

    calls: int
    recording: float
    compiling: float
    unjitted: float
    decisions: tuple[str, ...]

    def __str__(self) -> str:
        spent = f"recording {self.recording:.3g} s, compiling {self.compiling:.3g} s"
        head = f"{self.calls} calls counted: {spent}; un-jitted they take at least {self.unjitted:.3g} s"
        return "\n".join([head, *[f"  {decision}" for decision in self.decisions]])

    def _repr_html_(self) -> str:
        return html_table(self._fields[:-1], [tuple([f"{x:.3g}" for x in self[:-1]])], len(self))


class Account:
    """Of one function; its derivatives and signatures share nothing but this."""

    __slots__ = ("calls", "earned", "recording", "compiling", "size", "work", "idle", "decisions")

    def __init__(self) -> None:
        self.calls = 0
        self.earned = self.recording = self.compiling = 0.0
        self.size = 0  # equations of the longest recording
        self.work = 0.0  # seconds that a call takes un-jitted, at least
        self.idle = 0  # recordings since one has come again
        self.decisions: deque[str] = deque(maxlen=SHOWN)

    def called(self, times: int = 1) -> None:
        """So many calls have been made, in one way or another."""
        self.calls += times
        self.earned += times * self.work

    @property
    def free(self) -> float:
        """Seconds that may be spent now."""
        patience = config.jit_patience
        if not patience:
            return float("inf")
        return FREE + self.earned / patience - self.recording - self.compiling

    @property
    def _doubled(self) -> int:
        """How many times over: the first thing of which nobody knows whether it comes again is not held against the next."""
        return int(2 ** min(max(0, self.idle - 1), MOST_PATIENCE))

    def affords(self, seconds: float) -> bool:
        """May so much be spent on something that has not come again for a while?"""
        return seconds * self._doubled <= self.free

    def affords_recording(self) -> bool:
        return self.affords(max(self.size, 1) * COSTS["recorded"])

    def until(self, seconds: float) -> int:
        """After how many more calls so much may be spent."""
        missing = seconds * self._doubled - self.free
        return 0 if missing <= 0 else int(missing * (config.jit_patience or 1.0) / max(self.work, 1e-9)) + 1

    def longest(self) -> int:
        """How many equations a recording may have that begins now."""
        room = self.free / self._doubled / COSTS["recorded"]
        return int(max(0.0, min(room, MOST_BYTES // EQUATION_BYTES)))

    def recorded(self, equations: int, work: float, what: str) -> None:
        """A recording of so many equations has ended; `work`: seconds that they take un-jitted."""
        self.recording += equations * COSTS["recorded"]
        if not self.work:
            self.earned = self.calls * work  # nothing was known of the calls so far
        self.size = max(self.size, equations)
        self.work = max(self.work, work)
        self.decided(f"{what} of {equations:,} equations")

    def compiled(self, seconds: float, what: str) -> None:
        self.compiling += seconds
        self.decided(what)

    def compiles(self, equations: int) -> bool:
        """Is a program of so many equations to be compiled now? If not, this call runs it as it is."""
        seconds = compile_cost(equations)
        if self.affords(seconds):
            self.compiled(seconds, f"a program of {equations:,} equations compiled")
            return True
        self.called()
        return False

    def comes_again(self) -> None:
        """What was recorded has been used."""
        self.idle = 0

    def unused(self) -> None:
        """Something was recorded, or compiled, of which nobody knows whether it comes again."""
        self.idle += 1

    def decided(self, what: str) -> None:
        self.decisions.append(f"call {self.calls}: {what}")

    def told(self) -> Cost:
        return Cost(self.calls, self.recording, self.compiling, self.earned, tuple(self.decisions))


def compile_cost(equations: int) -> float:
    """Seconds that it takes to compile a program."""
    return COSTS["program"] + equations * COSTS["compiled"]


def work_of(equations: Any, numbers: bool) -> float:
    """Seconds that they take un-jitted, from below; `numbers`: Python's own arithmetic is done where there are no arrays."""
    seconds = 0.0
    for e in equations:
        avals = [v.aval for v in e.outputs]
        if numbers and all([getattr(a, "weak", False) for a in avals]):
            seconds += COSTS["number"]
        else:
            seconds += COSTS["un-jitted"] + COSTS["byte"] * sum([_bytes(a) for a in avals])
    return seconds


def _bytes(aval: Any) -> int:
    size = getattr(aval, "size", None)
    if size is None:
        return 0
    return int(size) * int(aval.dtype.itemsize)


class Equations(list):  # type: ignore[type-arg]
    """The equations of a trace that is given up when there are too many; `stops` tells whether it may be."""

    __slots__ = ("most", "stops")

    def __init__(self, most: int, stops: Any):
        super().__init__()
        self.most, self.stops = most, stops

    def append(self, equation: Any) -> None:
        super().append(equation)
        if len(self) > self.most and self.stops():
            raise Abandoned

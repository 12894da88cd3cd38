"""The account of a jitted function: what was spent on its programs, and what un-jitted calls would have taken.

Idea: the old rule of renting and buying. Work is spent on a program when the time that the calls so far have taken without it
would repay it; a little is free. What was spent and did not help (a path that does not come again) must be repaid twice as well
the next time. So jitted calls cost at most about twice what un-jitted ones do, whatever is called.

Invariant: everything is counted in equations, bytes, rows and calls, and becomes seconds by one table, `COSTS`: no clock
decides, so the same calls compile at the same places in every run. What un-jitted calls take is counted from below, what is
spent as it was measured over benchmarks/never_slower_programs.py. Traps: how long f is, is known when it has been recorded; the
rows of a gradient tell it before, and else a short recording, which is given up. Where f cannot be run in the place of a
recording (effects have happened, other traces are open), nothing is limited.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from funcad.backends.cost import Extent
from funcad.configuration import config
from funcad.show.compile_log import html_table

COSTS = {  # seconds of one core, of what is counted, and what else decides
    "first recording": 8e-3,  # of a function, whose twin is written;
    "recording": 1e-3,  # another one;
    "recorded": 1.9e-5,  # an equation of numbers in it,
    "recorded array": 3.8e-5,  # or of arrays;
    "question": 2.6e-5,  # that Python asks meanwhile;
    "made ready": 9e-6,  # an equation of a program that is to run at once, as Python asked for no value
    "steps": 6e-6,  # one of a path, made ready to run by itself
    "step": 6e-7,  # an equation of a path that runs by itself,
    "hop": 8e-6,  # and from one such part to the next;
    "passed": 1e-5,  # an equation that the compiler looks at,
    "left": 2e-5,  # one that is left then,
    "text": 7e-4,  # a program that takes over the text of other sizes,
    "program": 3e-3,  # a program that it writes,
    "scalar": 2e-5,  # each of its equations, of numbers,
    "scalar of many": 6e-5,  # so much more where they are thousands,
    "array": 1.25e-4,  # or of arrays
    "row": 2.8e-6,  # what is written down, un-jitted, for one operation of a derivative,
    "row array": 8e-7,  # and for each equation of arrays in its recording;
    "un-jitted": 8e-7,  # where no rows are known, an equation of numbers of a derivative, as plain Python does it,
    "un-jitted array": 2e-6,  # or of arrays
    "derivative": 1e-5,  # of what is not counted in these
    "operation": 2.4e-7,  # an equation of arrays of no derivative,
    "number": 3e-8,  # one that gives a number of NumPy's
    "of Python": 1.5e-8,  # or of Python's
    "byte": 1e-10,  # of results
    "call": 4e-6,  # a call that goes along a path, or stores something: what takes less is faster without a program
    "stored": 2.5e-5,  # a call that does both
    "free": 0.11,  # what need not be repaid: of .2, as loading the compiler takes some, once in a process
    "first look": 0.06,  # a recording of which nothing is known
    # the rest are numbers of what is counted, and times
    "many": 5000,  # equations of a recording, after which most are like others,
    "like others": 0.6,  # and cost so much of what the first did
    "thousands": 4500,  # equations of a program, from which each of them costs as much as it can
    "of a row": 2.2,  # equations, in most functions; in some three times as many
    "from below": 1.3,  # times that un-jitted calls may take longer than is counted
    "little": 1e-4,  # seconds of a path that may run step by step in any case: un-jitted derivatives hardly take less
    "over": 1.25,  # times that a recording may be longer than was known: one that is given up shortly before its end is lost
    "both sides": 3.0,  # times that a recording is longer in which both sides of choices are computed
    "choices": 4,  # of which one other question may be asked where they are to be selections
    "seldom": 8,  # turns, in which a choice that goes the other way once does not so at the same turns of another call
    "of a question": 2,  # equations, in a program that runs past it
    "waits": 2.0,  # times that a program is repaid whose path runs step by step meanwhile: to wait costs little
    "at once": 4,  # such programs, which are compiled as soon as that is repaid; others when running step by step has cost it
    "strange": 6,  # calls in a row along unknown paths, after which what runs step by step rests
    "of a size": 3,  # calls of a new size that run un-jitted, where sizes share a text: so many cost less than a trace
    "eager": 8,  # segments of one function that are compiled at once, as its first program is
}
MOST_BYTES = 256 << 20  # of what a function's recordings keep, if `config.jit_bytes` says nothing
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

    __slots__ = ("calls", "earned", "recording", "compiling", "size", "rate", "rows", "work", "latest", "idle", "decisions")
    __slots__ += ("derivative", "plain", "selects", "rest", "strange")

    def __init__(self) -> None:
        self.calls = 0
        self.earned = self.recording = self.compiling = 0.0
        self.size = 0.0  # seconds that a recording takes, as far as is known
        self.rate = COSTS["recorded"]  # and each equation of it
        self.rows = 0  # of its gradients, in an un-jitted call
        self.work = 0.0  # seconds that a call takes un-jitted, at least
        self.latest = 0.0  # the same, of the call that was recorded last
        self.derivative = False  # was it one?
        self.plain = False  # is f known to trace nothing, so that its operations are NumPy's?
        self.selects = False  # are there both sides of choices in it, of which f computes one?
        self.rest = 0  # calls of the function itself that come next, as a recording is not repaid before
        self.strange = 0  # signatures that were observed; each that came again takes half of them away
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
        return COSTS["free"] + self.earned / patience - self.recording - self.compiling

    @property
    def _doubled(self) -> int:
        """How many times over: the first thing of which nobody knows whether it comes again is not held against the next."""
        return int(2 ** min(max(0, self.idle - 1), MOST_PATIENCE))

    def affords(self, seconds: float) -> bool:
        """May so much be spent on something that has not come again for a while?"""
        return seconds * self._doubled <= self.free

    def affords_recording(self) -> bool:
        return self.affords(self.size)

    def unrepaid(self) -> str | None:
        """Why no call is recorded now; None if one is."""
        if self.affords_recording():
            return None
        calls = self.until(self.size)
        return f"a recording takes about {self.size:.2g} s, which {calls:,} more calls will have repaid"

    def until(self, seconds: float) -> int:
        """After how many more calls so much may be spent."""
        missing = seconds * self._doubled - self.free
        return 0 if missing <= 0 else int(missing * (config.jit_patience or 1.0) / max(self.work, 1e-9)) + 1

    def longest(self) -> int:
        """How many equations a recording may have that begins now."""
        room = self.free / self._doubled
        if not self.size and config.jit_patience:
            room = min(room, COSTS["first look"])
        room = max(room, COSTS["over"] * self.size)
        return int(max(0.0, min(room / self.rate, most_bytes() // EQUATION_BYTES)))

    def observed(self, rows: int, plain: bool) -> None:
        """A call has run un-jitted, with so many rows of gradients; `plain`: it has traced nothing."""
        self.plain = plain
        self.rows = max(self.rows, rows)
        self.size = max(self.size, COSTS["of a row"] * rows * (COSTS["recorded"] + COSTS["made ready"]))
        self._takes(rows * COSTS["row"])

    def _takes(self, work: float) -> None:
        if not self.work:
            self.earned = self.calls * work  # nothing was known of the calls so far
        self.work = max(self.work, work)

    def recorded(self, equations: Any, derivative: bool, whole: bool, questions: int = 1) -> None:
        """A recording of these equations has ended, or was given up; `questions`: how many values Python asked for."""
        found, total = Extent(equations), len(equations)
        each = found.numbers * COSTS["recorded"] + found.arrays * COSTS["recorded array"]
        if total > COSTS["many"]:
            each *= (COSTS["many"] + COSTS["like others"] * (total - COSTS["many"])) / total
        each += questions * COSTS["question"] if questions or not whole else total * COSTS["made ready"]
        seconds = each + COSTS["recording" if self.recording else "first recording"]
        self.recording += seconds
        self.size = max(self.size, each + COSTS["recording"] if whole else 2 * seconds)
        self.rate = each / max(total, 1) or COSTS["recorded"]
        self.latest, self.derivative = self._unjitted(found, derivative), derivative
        self._takes(self.latest)
        self.decided(f"a recording {'' if whole else 'was given up '}of {total:,} equations")

    def _unjitted(self, found: Extent, derivative: bool) -> float:
        """Seconds that recorded equations take un-jitted, from below."""
        seconds, numpys = found.n_bytes * COSTS["byte"], found.numbers - found.python
        if not derivative:
            seconds += found.python * COSTS["of Python"] + numpys * COSTS["number"] + found.arrays * COSTS["operation"]
            return seconds
        counted = found.numbers * COSTS["un-jitted"] + found.arrays * COSTS["un-jitted array"]
        rows = self.rows * COSTS["row"] + found.arrays * COSTS["row array"]
        return seconds + COSTS["derivative"] + (rows if self.rows and self.selects else max(counted, rows))

    def slower_by_steps(self, equations: int) -> bool:
        """Does a call take longer equation by equation than un-jitted? A plain f makes NumPy's calls, and no others."""
        if not self.derivative:
            return self.plain and equations * COSTS["step"] > COSTS["little"]
        return equations * COSTS["step"] > COSTS["from below"] * self.latest

    def tiny(self) -> bool:
        """Does a call take less un-jitted than one of a program that stores something?"""
        return self.plain and config.jit_patience > 0 and self.latest < COSTS["call"]

    def recorded_anew(self, times: float) -> None:
        """The next recording is so many times longer, as both sides of choices are in it."""
        self.size, self.selects = self.size * times, True
        self.decided("choices between numbers go both ways: they will be recorded as selections")

    def compiled(self, seconds: float, what: str) -> None:
        self.compiling += seconds
        self.decided(what)

    def spends(self, seconds: float, what: str, times: float = 1.0) -> bool:
        """May so much, so many times over, be spent on compiling? Then it is."""
        if self.affords(times * seconds):
            self.compiled(seconds, what)
            return True
        return False

    def makes_ready(self, equations: int) -> bool:
        """Is a path of so many equations to be made ready to run one by one now? Then it is."""
        seconds = equations * COSTS["steps"]
        affords = self.affords(seconds)
        self.compiling += seconds * affords
        return affords

    def passes(self, equations: int) -> bool:
        """Is a program of so many equations to be looked at by the compiler now?"""
        return self.spends(equations * COSTS["passed"], f"a program of {equations:,} equations, made shorter")

    def passed(self, left: int) -> None:
        """It was looked at, and so many are left: this tells what it has taken."""
        self.compiling += left * COSTS["left"]

    def takes_over(self) -> bool:
        """May a program take over the text of other sizes now?"""
        return self.spends(COSTS["text"], "the text of other sizes taken over")

    def compiles(self, numbers: int, arrays: int, times: float = 1.0) -> bool:
        """Is a program of so many equations of numbers and of arrays, which are left, to be compiled now?"""
        return self.spends(compile_cost(numbers, arrays), f"{numbers + arrays:,} equations of it compiled", times)

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


def most_bytes() -> int:
    """Bytes that the recordings of a function may take."""
    return MOST_BYTES if config.jit_bytes is None else config.jit_bytes


def compile_cost(numbers: int, arrays: int) -> float:
    """Seconds that it takes to compile a program of so many equations, which the passes have left."""
    scalar = COSTS["scalar"] + COSTS["scalar of many"] * min(1.0, numbers / COSTS["thousands"])
    return COSTS["program"] + numbers * scalar + arrays * COSTS["array"]


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

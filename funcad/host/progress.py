"""Feedback on long work: what has taken two seconds says so, and how far it is.

Idea: who may take long asks for a meter, `meter(lambda: "scan", 10_000)`, and tells it each turn by `step()`; or stands in a
block, `with working(lambda: "compiling")`, where nothing can be counted. Where nobody reads (a pipe, or `config.progress` is
"off") there is no meter at all, and the work is what it would be without this module. Invariants: nothing is written before
`DELAY` seconds have passed; what is written goes to the standard error stream, by tqdm where that is installed, else as a line
that is written over; feedback never fails the work. Trap: a block that cannot be counted is watched by a timer's thread; where
threads cannot be started it is silent.

`many_objects` is for work that makes so many objects which stay that Python, looking for cycles among them, would take a third
of its time: meanwhile it looks a hundred times less often.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from _thread import RLock, get_ident
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from typing import Any

from funcad.configuration import OnDemand, config

threading = OnDemand("threading")  # which few need, and takes as long to load as ten modules of funcad's

DELAY = 2.0  # seconds without a word
EVERY = 0.2  # seconds between two updates on a terminal
EVERY_LINE = 10.0  # the same in a file or a pipe, where each update is a line
_UNWRITABLE = (OSError, ValueError)  # a terminal that has gone; a closed stream, or one that lacks a letter of the text
clock: Callable[[], float] = time.monotonic  # which the tests replace


def in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _on_terminal() -> bool:
    isatty = getattr(sys.stderr, "isatty", None)  # no stream at all in programs with windows
    try:
        return isatty is not None and bool(isatty())
    except ValueError:  # it is closed
        return False


def _say(text: str) -> None:
    """Write, if it can be written: a terminal may have gone, and the work goes on."""
    with suppress(*_UNWRITABLE):
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


def wanted() -> bool:
    """Does anybody read? As `funcad.config.progress` says; "auto": in a notebook and on a terminal."""
    if config.progress != "auto":
        return config.progress == "on" and sys.stderr is not None
    return _on_terminal() or in_notebook()


class Meter:
    """How far some work is. `total`: of how many steps; None if that is not known."""

    __slots__ = ("what", "total", "done", "started", "due", "shown", "bar", "note")

    def __init__(self, what: str, total: int | None):
        self.what = what
        self.total = total
        self.done = 0
        self.started = clock()
        self.due = self.started + DELAY
        self.shown = 0  # characters in the line
        self.bar: Any = None
        self.note = ""

    def step(self, note: str = "") -> None:
        """One more step is done; `note` is what there is to say of it, such as a loss."""
        self.done += 1
        self.note = note or self.note
        if clock() >= self.due:
            self.show()

    def show(self) -> None:
        now = clock()
        if self.bar is None and not self.shown:
            self.bar = _tqdm(self.what, self.total)
        if self.bar is not None:
            self.due = now + EVERY
            with suppress(*_UNWRITABLE):
                if self.note:
                    self.bar.set_postfix_str(self.note, refresh=False)
                self.bar.update(self.done - self.bar.n)
        elif _on_terminal():
            text = self.text(now)
            _say("\r" + text.ljust(self.shown))
            self.shown, self.due = len(text), now + EVERY
        else:
            _say(self.text(now) + "\n")
            self.shown, self.due = 1, now + EVERY_LINE

    def text(self, now: float) -> str:
        spent = now - self.started
        if self.total:
            left = f", {_seconds(spent / self.done * (self.total - self.done))} left" if 0 < self.done < self.total else ""
            how = f"{self.done / self.total:4.0%} ({self.done:,} of {self.total:,}), {_seconds(spent)}{left}"
        else:
            how = f"{self.done:,}, {_seconds(spent)}"
        return f"funcad: {self.what}: {how}{', ' if self.note else ''}{self.note}"

    def close(self) -> None:
        """The work has ended, in whatever way."""
        if self.bar is not None or self.shown:
            self.show()
        if self.bar is not None:
            with suppress(*_UNWRITABLE):
                self.bar.close()
        elif self.shown and _on_terminal():
            _say("\n")


def _tqdm(what: str, total: int | None) -> Any:
    """A bar of tqdm's, None if that is not installed."""
    try:
        bar = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
    with suppress(*_UNWRITABLE):
        return bar(desc=what, total=total, file=sys.stderr, initial=0, dynamic_ncols=True)
    return None


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"
    return f"{minutes}:{rest:02} min" if minutes else f"{seconds:.1f} s"


@contextmanager
def meter(what: Callable[[], str], total: int | None = None) -> Iterator[Meter | None]:
    """`with meter(what, total) as m`: a meter of `what()`, closed at the end; None where nobody reads."""
    if not wanted():
        yield None
        return
    made = Meter(what(), total)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def counted(
    function: Callable[..., Any], what: Callable[[], str], total: int | None = None, note: Callable[[Any], str] | None = None
) -> Iterator[Callable[..., Any]]:
    """The function, each call of which is a step; itself where nobody reads. `note(result)` is what there is to say."""
    with meter(what, total) as made:
        if made is None:
            return (yield function)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            made.step(note(result) if note is not None else "")
            return result

        yield call


def turns(rows: Iterable[Any] | None, what: str, total: int | None = None) -> Iterable[Any]:
    """What a written loop runs over (None: without end), each of which is a turn; itself where nobody reads."""
    rows = repeat(None) if rows is None else rows
    return _metered(rows, Meter(what, total)) if wanted() else rows


def _metered(rows: Iterable[Any], made: Meter) -> Iterator[Any]:
    try:
        for row in rows:
            yield row
            made.step()
    finally:
        made.close()


@contextmanager
def working(what: Callable[[], str]) -> Iterator[None]:
    """A block that says what it does (`what()`) when it takes long, and how long it took at its end."""
    if not wanted() or sys.platform == "emscripten":
        yield
        return
    started, said = clock(), threading.Event()

    def say() -> None:
        said.set()
        _say(f"funcad: {what()} ...\n")

    timer = threading.Timer(DELAY, say)
    timer.daemon = True
    with suppress(RuntimeError):  # no more threads: then without a word
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if said.is_set():
            _say(f"funcad: {what()}: {_seconds(clock() - started)}\n")


RARELY = 100_000  # objects that are made and stay, after which Python looks for cycles among them
_WHILE = RARELY, 1000, 1000  # and old ones are left alone


class _Collector:
    """What Python's collector of cycles is set to, while threads make many objects."""

    def __init__(self) -> None:
        self.making: dict[int, int] = {}  # thread -> blocks of `many_objects` that it is in
        self.before: tuple[int, int, int] | None = None  # what the outermost of them has found
        self.lock = RLock()

    def begins(self, thread: int) -> None:
        with self.lock:
            found = gc.get_threshold()
            if not self.making and 0 < found[0] < RARELY:
                self.before = found
                gc.set_threshold(*_WHILE)
            self.making[thread] = self.making.get(thread, 0) + 1

    def ends(self, thread: int, depth: int) -> None:
        """The thread is in so many blocks now, or in fewer: a generator that Ctrl-C has left behind says so late."""
        with self.lock:
            left = min(depth, self.making.pop(thread, 0))
            if left:
                self.making[thread] = left
            if not self.making and self.before is not None:
                if gc.get_threshold() == _WHILE:
                    gc.set_threshold(*self.before)
                self.before = None

    def in_child(self) -> None:
        """Of a fork: there are no other threads."""
        self.lock = RLock()
        for thread in {*self.making} - {get_ident()}:
            self.ends(thread, 0)


collector = _Collector()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=collector.in_child)


@contextmanager
def many_objects() -> Iterator[None]:
    """A block that makes many objects; what the collector was set to holds again at its end, unless others have set it."""
    thread = get_ident()
    depth = collector.making.get(thread, 0)
    try:
        collector.begins(thread)
        yield
    finally:
        collector.ends(thread, depth)

"""The net below the twins: which code of the user's ran as it is, while a program was traced.

Idea: a twin sees what its own code does. A function that a library calls, a method that Python calls by itself and a function
without a twin run unseen; the interpreter tells of each that begins. `sys.monitoring` does so from Python 3.12 on, at little
cost, because it can be told that a code is of no interest; before, `sys.setprofile` does.

Invariant: nobody else is disturbed. A tool's number is taken only if it is free, and is given back by the last net that needs
it; a profile function is set only if there is none. Where neither can be had, `why` says so, and nothing is seen. Threads are
told apart: a net sees those calls only that the thread makes in which it was opened.

Trap: before Python 3.12 all takes three times as long within a net, so hooks and recorders lift it (`unseen` of host/where.py)
where operands show that no code of the user's can run. A generator that was begun before may go on inside; that counts as
beginning.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any
from weakref import WeakSet, ref

from funcad.host.where import after_interrupts, is_internal, state
from funcad.twin.templates import origin_of

_NUMBERS = (4, 3, 5)  # of tools: those that Python has set aside for nobody, then that of optimisers


class Net:
    """`with Net() as net:` lists in `net.seen` the codes of the user's that ran un-twinned.

    `net.outside` has those of them of which `reads(frame)` is true.

    `is_users(code, globals)` says whether a code is the user's; it is not asked for funcad's own. What one net says of a code
    holds for all: what is nobody's is not told of again.
    """

    def __init__(
        self,
        is_users: Callable[[CodeType, dict[str, Any]], bool] = lambda code, globals_: True,
        reads: Callable[[FrameType], bool] = lambda frame: False,
    ) -> None:
        self._is_users, self._reads = is_users, reads
        self.outside: set[CodeType] = set()
        self._known: dict[int, CodeType] = {}  # holds what was looked at, so that no other has its identity
        self.seen: list[CodeType] = []
        self.why: str | None = None  # there is no net

    def __enter__(self) -> Net:
        self.why = _monitor.open(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _monitor.close(self)

    def began(self, code: CodeType, frame: FrameType) -> bool:
        """Is it the user's code?"""
        if id(code) in self._known:
            return True
        users = self._is_users(code, frame.f_globals)
        if users:
            self._known[id(code)] = code
            if not _comes_at_any_time(code):
                self.seen.append(code)
                if self._reads(frame):
                    self.outside.add(code)
        return users


def _comes_at_any_time(code: CodeType) -> bool:
    """Does the interpreter call it between two lines of whatever runs: for a signal, or at a collection of garbage?"""
    handlers = map(signal.getsignal, signal.valid_signals())
    return any([getattr(f, "__code__", None) is code for f in (*gc.callbacks, *handlers)])


def _is_ours(code: CodeType) -> bool:
    """Is it a twin, or funcad's, NumPy's or Python's frozen code?"""
    return is_internal(code.co_filename) or origin_of(code) is not None


class _Profiled:
    """Python 3.11: a profile function of the thread."""

    def __init__(self) -> None:
        self._here = threading.local()

    def open(self, net: Net) -> str | None:
        nets, now = self._nets(), sys.getprofile()
        if now is not None and now is not self._here.__dict__.get("told"):
            return "another profile function is set"
        nets.add(net)
        if sys.getprofile() is None:  # the calls here may have been the last that an old one heard of
            state.told = self._here.told = _teller(nets)
            sys.setprofile(self._here.told)
        return None

    def close(self, net: Net | None = None) -> None:
        nets = self._nets()
        if net is not None:
            nets.discard(net)
        if not nets:
            state.told = None
            if sys.getprofile() is self._here.__dict__.get("told"):
                sys.setprofile(None)

    def after_fork(self) -> None:
        """A profile function belongs to its thread."""

    def _nets(self) -> WeakSet[Net]:  # weakly: an interrupt may come before a net is closed
        return self._here.__dict__.setdefault("nets", WeakSet())


def _teller(nets: WeakSet[Net]) -> Callable[[FrameType, str, Any], None]:
    """A profile function. Every call, also of a function in C, and every return calls it: it does as little as it can."""
    ours: dict[int, CodeType] = {}

    def told(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and id(frame.f_code) not in ours and not state.asks_again:
            if not nets:  # one was left open, and is gone
                sys.setprofile(None)
            elif _is_ours(frame.f_code) or not any([net.began(frame.f_code, frame) for net in nets]):
                ours[id(frame.f_code)] = frame.f_code

    return told


class _Monitored:
    """Python 3.12 and later: a tool of `sys.monitoring`, one for all threads.

    Trap: an interrupt may come between any two steps here. So whether there is a tool is asked of `sys.monitoring`, never
    remembered, and its events are set last and taken first: where they are set, all is.
    """

    def __init__(self) -> None:
        self._nets: dict[int, list[ref[Net]]] = {}  # by thread; weakly: an interrupt may come before a net is closed
        self._lock = threading.RLock()
        self._name = str(b"funcad", "ascii")  # told by identity

    def open(self, net: Net) -> str | None:
        with self._lock:
            here = threading.get_ident()
            self._nets[here] = [*self._nets.get(here, ()), ref(net)]
            if self._watch():
                return None
            self.close(net)
            return "no number of a tool is free in sys.monitoring"

    def close(self, net: Net | None = None) -> None:
        with self._lock:
            for thread, nets in list(self._nets.items()):
                self._nets[thread] = [known for known in nets if known() not in (None, net)]
                if not self._nets[thread]:
                    self._nets.pop(thread, None)
            if not self._nets:
                self._give_back()

    def _watch(self) -> bool:
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        ours, free = [[n for n in _NUMBERS if monitoring.get_tool(n) is tool] for tool in (self._name, None)]
        if not ours and not free:
            return False
        number = [*ours, *free][0]
        if not ours:
            monitoring.use_tool_id(number, self._name)
        events = monitoring.events.PY_START, monitoring.events.PY_RESUME
        if monitoring.get_events(number) != sum(events):
            for event in events:
                monitoring.register_callback(number, event, self._told)
            monitoring.set_events(number, sum(events))
        return True

    def _give_back(self) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        for number in [n for n in _NUMBERS if monitoring.get_tool(n) is self._name]:
            monitoring.set_events(number, 0)
            for event in (monitoring.events.PY_START, monitoring.events.PY_RESUME):
                monitoring.register_callback(number, event, None)
            monitoring.restart_events()  # else the next tool of this number would not be told of what was of no interest here
            monitoring.free_tool_id(number)

    def _told(self, code: CodeType, offset: int) -> Any:
        if state.asks_again:
            return None
        nets = [net for known in self._nets.get(threading.get_ident(), ()) if (net := known()) is not None]
        if _is_ours(code) or nets and not any([net.began(code, sys._getframe(1)) for net in nets]):
            return sys.monitoring.DISABLE  # type: ignore[attr-defined]
        return None

    def after_fork(self) -> None:
        """The other threads, whose nets these are, are gone."""
        self._lock = threading.RLock()
        for thread in set(self._nets) - {threading.get_ident()}:
            del self._nets[thread]
        self.close()


_monitor: Any = _Monitored() if sys.version_info >= (3, 12) else _Profiled()
after_interrupts.append(_monitor.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_monitor.after_fork)

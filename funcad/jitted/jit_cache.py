"""The programs of a jitted function, by signature: a bounded cache that threads, forks and `clear_caches` may meet.

Idea: programs belong to the function, not to the `jit` object, so that two `jit(f)` share them. The table of caches is weak;
a bound method, which is made anew at each access, has its cache in the `jit` object. Invariants: an entry holds arrays that its
function captured, never a tracer; of threads that miss together one traces and the others wait, as long as the first makes
progress: traced functions may call each other, or wait for threads, and tracing twice only costs time. What calls entries
without asking the cache (see jit_call.py) registers in `users` and is told to stop when the cache is cleared.

A trace of what stores puts its values into the user's objects until it ends, where no other trace, and no call that writes
back, may find them: that is a turn, too (`storing`). Trap: calls that write back take its lock as it is, which costs less; who
waits for one of them does not know the thread, and takes it for one that stands.
"""

from __future__ import annotations

import copy
import itertools
import os
import sys
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from funcad.configuration import config
from funcad.control.call import forget_interned
from funcad.errors import FuncadError
from funcad.host.where import state
from funcad.ir.jaxpr import Jaxpr
from funcad.jitted.account import Account
from funcad.memo import CacheLine, after_switch, further, line_of, weak_table
from funcad.primitives.axis_env import over_processes
from funcad.reads.places import Guards, Place, evaluated, held_weakly, is_number, needed, path_of
from funcad.reads.refusals import Raised
from funcad.reads.stores import Store, lock
from funcad.show.compile_log import html_table
from funcad.unjitted.kinds import kinds
from funcad.unjitted.strides import Given, layout_of

MAX_PROGRAMS = 256  # per function; the least recently used goes first
STALLED_AFTER = 1.0  # seconds without a step of the thread whose turn it is, after which others stop waiting for it
POLL = 0.05
MOST_STATES = 16  # programs of one signature for different values of what the function reads beside its arguments
CHANGED = "changed"  # among a signature's answers: what the program before it read has changed


class CacheInfo(NamedTuple):
    """As functools.lru_cache's, and how many calls were observed."""

    hits: int
    misses: int
    maxsize: int
    currsize: int
    observed: int  # first calls of a signature, which ran un-jitted

    def _repr_html_(self) -> str:
        return html_table(self._fields, [tuple(map(str, self))], len(self))


class Signature(NamedTuple):
    """What a program was traced for: the key of the cache."""

    in_tree: Any  # structure of (args, kwargs) without statics
    orders: Any  # in which the keys of dicts among them came (`TreeDef.orders`); None: f cannot see it
    avals: tuple  # (shape, dtype, weak) of each leaf
    statics: Any
    options: tuple  # what `jit` was given that changes programs
    axes: tuple  # (name, size) of the axes that are bound around the call
    device: str
    arrays: type  # of the arguments, for which traced values answer type tests: NumPy's or the device's
    answers: tuple = ()  # to what programs asked of their arguments beyond avals, one program after the other (`Entry.answers`)


class Answers(NamedTuple):
    """What a program asked of its arguments while it was traced, and was told."""

    numbers: tuple | None  # which leaves are arrays of rank 0, where a number of the same dtype has the same aval
    strides: tuple  # of the leaves whose memory order was asked for


class Writes:
    """Notes which arguments a traced function writes, and which of these it returns."""

    __slots__ = ("written", "returned", "some")

    def __init__(self) -> None:
        self.written: list[int] = []
        self.returned: dict[int, int] = {}
        self.some = False  # also where the function has raised

    def noting(self, flat: Callable[..., list]) -> Callable[..., list]:
        """The flat function with the new values of the written arguments as further outputs."""

        def run(*leaves: Any) -> list:
            before = [(x.owner, x.atom) for x in leaves]
            try:
                outs = flat(*leaves)
            except BaseException as error:
                self.some = any([x.atom is not atom for x, (_, atom) in zip(leaves, before)])
                again = state.running is not None and state.running.missed is not None  # it starts again
                if self.some and isinstance(error, Exception) and not isinstance(error, FuncadError) and not again:
                    raise Raised(error) from error
                raise
            self.written = [i for i, x in enumerate(leaves) if (x.owner, x.atom) != before[i]]
            self.some = bool(self.written)
            self.returned = {k: i for k, o in enumerate(outs) for i in self.written if o is leaves[i]}
            return [*outs, *[leaves[i] for i in self.written]]

        return run


FEW_LEAVES = 64
RUNS_OF_SIZES = 4  # that repay writing the call of one of many sizes: it saves 40 us a run, and costs 120
REPAID = 80  # runs with more leaves, which by the general way cost as much more as writing their call does (jit_call.py)


class Entry:
    """One traced program."""

    __slots__ = ("jaxpr", "_consts", "in_tree", "out_tree", "runs", "write_at", "asked", "answers", "written", "returned")
    __slots__ += ("paths", "watched", "stores", "code", "weak", "living", "ordered", "given", "itself", "orders")
    watched: Guards | None  # what it depends on beside the arguments

    def __init__(self, jaxpr: Jaxpr, consts: list, in_tree: Any, out_tree: Any, given: Given, writes: Writes | None = None):
        self.jaxpr = jaxpr
        self.weak: Sequence[bool] = ()  # which of the captured values a guard holds, weakly, in the place of the program
        self.consts = consts
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.written = tuple(writes.written) if writes is not None else ()  # leaves, whose new values are the last outputs
        self.returned = writes.returned if writes is not None else {}  # outputs that are one of them -> which leaf
        self.orders = given.orders  # how results are to lie in memory
        self.asked = tuple(sorted(given.asked))  # the leaves whose strides the program depends on
        asks = self.asked or "asked" in jaxpr.memo
        self.answers = self._answers(given.values[: in_tree.num_leaves], "asked" in jaxpr.memo) if asks else None
        self.paths: Any = None  # in the place of one program, if the function asked for values (paths.py)
        self.watched = None
        self.given: tuple[Place, ...] = ()  # places of numbers that its paths take after the leaves
        self.ordered = True  # does it hold only for dicts whose keys come in this order?
        self.code: Any = None  # of f, where it is a function: its code can be exchanged
        self.stores: tuple[Store, ...] = ()  # what is written back, whose values are the outputs after all others
        self.living: tuple[Any, ...] = ()  # weak references to what must live, see Cache.put
        self.itself = False  # does f run until the program is compiled, as that takes less than its equations one by one?
        self.runs = 0  # calls that asked the cache
        self.write_at = 2 if in_tree.num_leaves <= FEW_LEAVES else REPAID  # the run at which a call of its own is written

    @property
    def consts(self) -> list[Any]:
        """The captured values; None in the place of an array that is gone."""
        return [x() if weak else x for x, weak in zip(self._consts, self.weak)] if self.weak else self._consts

    @consts.setter
    def consts(self, values: list[Any]) -> None:
        self._consts, self.weak = values, ()

    def let_go(self) -> None:
        """Captured arrays that a guard tells by identity are not kept alive by the program."""
        if self.watched is None or not any([type(x) is np.ndarray for x in self._consts]):
            return
        inputs = self.watched.inputs
        weak = [False] * inputs + self.watched.hand(self._consts[inputs:])
        if any(weak):
            self._consts = [weakref.ref(x) if is_weak else x for x, is_weak in zip(self._consts, weak)]
            self.weak = weak

    def fits(self) -> bool:
        """Have the captured arrays the shapes and dtypes that they had? `A.shape = s` changes them in place."""
        avals = self.jaxpr.in_avals if self.paths is None else ()
        return all([type(x) is not np.ndarray or (x.shape, x.dtype) == (a.shape, a.dtype) for x, a in zip(self.consts, avals)])

    def captured(self, f: Any) -> list | None:
        """The captured values, with the numbers that f reads now; None if what is watched has changed meanwhile."""
        consts, inputs = self.consts, self.watched.inputs if self.watched is not None else 0
        if self.weak and any([x is None for x in consts]):
            return None
        if self.watched is None or not inputs:
            return consts
        numbers = self.watched.holds(f)
        return [*numbers[:inputs], *consts[inputs:]] if numbers else None

    def as_of_now(self, f: Any) -> Entry:
        """This program with the numbers that f reads now, and with the arrays."""
        if not self.weak and (self.watched is None or not self.watched.inputs):
            return self
        found = copy.copy(self)
        found.consts = self.captured(f) or self.consts
        return found

    def _answers(self, leaves: Sequence[Any], numbers: bool) -> Answers:
        layouts = [layout_of(leaves[i]) for i in self.asked]
        strides = tuple([None if x is None else x.strides for x in layouts])
        rank_0 = tuple([issubclass(x.__class__, np.ndarray) and not x.ndim for x in leaves]) if numbers else None
        return Answers(rank_0, strides)

    def answers_for(self, leaves: Sequence[Any]) -> Answers | None:
        """What this program would be told of other arguments; None if it asked nothing."""
        return self.answers and self._answers(leaves, self.answers.numbers is not None)


class Turn:
    """A lock of which it is known who holds it."""

    __slots__ = ("lock", "holder")

    def __init__(self, lock: Any) -> None:
        self.lock = lock
        self.holder: tuple[int, int] | None = None  # the thread, as Python and the system name it

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A `with` block of which this thread alone is in one, unless the thread that is seems to wait for others.

        Threads that stand for processes do wait for each other, in collectives: they take no turns.
        """
        if over_processes():
            yield
            return
        outer, inside = None, self.lock._is_owned()
        try:
            if inside or self.lock.acquire(blocking=False) or self._wait():
                outer, self.holder = self.holder, (threading.get_ident(), threading.get_native_id())
            yield
        finally:  # an interrupt may come between any two steps: the lock itself knows who has it
            if self.lock._is_owned():
                self.holder = outer if inside else None
                if not inside:
                    self.lock.release()

    def _wait(self) -> bool:
        """Wait for the turn; False if who has it waits for this thread, or stands at one place of its program for long."""
        seen, since, me = None, time.monotonic(), threading.get_ident()
        _waiting.append(at := (me, self))
        try:
            while not self.lock.acquire(timeout=POLL):
                thread, native = self.holder or (0, 0)
                for _ in _waiting[:]:
                    for waits, other in _waiting[:]:
                        if waits == thread != me:  # it waits for its turn, too
                            thread, native = other.holder or (0, 0)
                if thread == me:
                    return False
                frame = sys._current_frames().get(thread)
                now = time.monotonic()
                where = (id(frame), frame.f_lasti, _busy(native) or now) if frame is not None else None
                if where != seen:
                    seen, since = where, now
                elif now - since > STALLED_AFTER:
                    return False
            return True
        finally:
            _waiting.remove(at)


_waiting: list[tuple[int, Turn]] = []  # threads that wait for their turn, and for which
storing = Turn(lock)  # of traces of what may store in the user's objects


def _busy(thread: int) -> Any:
    """What stays the same while a thread of this process waits for others; None: it computes, or a disk is read for it."""
    try:
        with open(f"/proc/self/task/{thread}/stat", "rb") as file:
            said = file.read().rpartition(b")")[2].split()
    except OSError:  # another system than Linux, where nobody says
        return (0, 0)
    return None if said[0] in (b"R", b"D") else tuple(said[11:13])  # its state, and the time that it has had of processors


class Cache:
    """Programs of one function, by signature."""

    __slots__ = ("entries", "misses", "lock", "turn", "users", "tick", "_ticks_read", "advised", "chooses")
    __slots__ += ("moved", "changes", "concrete", "proven", "sizes", "derived", "refused", "unseen", "refuser", "at_once")
    __slots__ += ("dead", "dropped", "observed", "first_calls", "places", "account", "mixes", "ordered", "__weakref__")

    def __init__(self) -> None:
        self.entries: OrderedDict[Signature, Entry] = OrderedDict()
        self.changes: Counter[str] = Counter()  # how often numbers changed that programs read
        self.concrete: set[str] = set()  # of these: Python needs their values
        self.proven: set[str] = set()  # of these: they were inputs
        self.places: dict[str, Place] = {}  # where programs have read what they advance
        self.account = Account()
        self.mixes = True  # may max and min select one of Python's numbers and NumPy's? See reads/selections.py
        self.chooses: bool | None = False  # are choices between numbers selections? None: they cannot be
        self.ordered = False  # has a path seen the order of keys that its signature's first path had not? See path_entries.py
        self.at_once = False  # are first calls traced, as f itself failed at one? `runs_itself` asks; see first_calls.py
        self.dead = False  # is something gone that a program depends on?
        self.dropped = 0  # programs, for that reason, since the last trace
        self.observed: OrderedDict[Signature, int] = OrderedDict()  # signatures whose first calls ran un-jitted, and how many
        self.unseen: list[Any] = []  # if a run has had a net: the user's codes that ran as they are, see reads/run.py
        self.refused: str | None = None  # why the function is not compiled
        self.refuser: Any = None  # the code that does what cannot be compiled
        self.moved: set[str] = set()  # what changed while a function was traced, see watched.py
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self.sizes: dict[Any, Any] = {}  # families of programs that differ in sizes, see backends/sizes.py
        self.derived: dict[Any, Cache] = {}  # of the function's derivatives, see derived_programs.py
        self.advised = False  # has explain_cache_misses advised on the number of shapes?
        self.renew_locks()
        self._count_from_zero()

    def renew_locks(self) -> None:
        """New locks: in a forked child, the thread that held one does not exist."""
        self.lock = threading.RLock()
        self.turn = Turn(threading.RLock())  # of threads that trace the function
        for entry in self.entries.values():
            if entry.paths is not None:
                entry.paths.trie.lock = threading.RLock()
        for cache in self.derived.values():
            cache.renew_locks()

    def _count_from_zero(self) -> None:
        self.misses = self.first_calls = 0
        self.tick: Callable[[], int] = itertools.count().__next__  # counts a hit, in one step, without a lock
        self._ticks_read = 0

    @property
    def hits(self) -> int:
        with self.lock:
            hits = self.tick() - self._ticks_read
            self._ticks_read += 1
            return hits

    def runs_itself(self, of: Any = None) -> bool:
        """May f itself run in the place of a program or a trace? `of`: what has a `rest`, such calls, of which this is one."""
        may = not self.at_once and (of is None or of.rest > 0)
        if may and of is not None:
            of.rest -= 1
            self.account.called()
        return may

    def find(self, key: Signature, leaves: list, f: Any) -> tuple[Signature, Entry | None]:
        """The program of a call and its key, to which belongs what programs of the same avals asked and were told.

        Programs for other values of what f reads beside its arguments come one after the other, those that hold for every
        order of the keys of dicts before the others.
        """
        if key.orders is None:
            return self.find_among(None, key, leaves, f)
        found, last = [self.find_among(orders, key, leaves, f) for orders in (None, key.orders)]
        return found if found[1] is not None or last[1] is None and len(found[0].answers) > len(last[0].answers) else last

    def find_among(
        self,
        orders: Any,
        key: Signature,
        leaves: list,
        f: Any,
    ) -> tuple[Signature, Entry | None]:
        """`find` among the programs for this order, or if it is None, for every one."""
        key = key._replace(answers=(), orders=orders) if key.answers or key.orders is not orders else key
        entry, changed = self.entries.get(key), []
        while entry is not None:
            if not entry.fits():
                del self.entries[key]
                return key, None
            answers: Answers | str | None = entry.answers_for(leaves)
            if answers == entry.answers:
                if entry.code is getattr(f, "__code__", None) and (entry.watched is None or entry.watched.holds(f)):
                    break
                changed.append(key)
                answers = CHANGED
            key = key._replace(answers=(*key.answers, answers))
            entry = self.entries.get(key)
        if entry is None and len(changed) >= MOST_STATES:
            key = next(k for k in self.entries if k in changed)  # the place of the one that was not used for longest
        return key, entry

    def in_order(self, entry: Entry, key: Signature, orders: Any, leaves: list, f: Any) -> Signature:
        """The place of what takes the place of this entry, which was for all orders, for one of them; no more are for all."""
        with self.lock:
            self.ordered = True
            for known in [k for k, e in self.entries.items() if e is entry]:
                del self.entries[known]
            return self.find_among((orders, None), key, leaves, f)[0]

    def get(self, key: Signature, leaves: list, f: Any) -> tuple[Signature, Entry | None]:
        with self.lock:
            if self.dead:
                self.drop_dead()
            key, entry = self.find(key, leaves, f)
            if entry is None:
                self.misses += 1
            else:
                self.tick()
                self.entries.move_to_end(key)
            return key, entry

    def shares_texts(self) -> bool:
        """Have programs of several sizes one text, which those of others take over (backends/sizes.py)?"""
        return bool(self.sizes) and any([family.templates for family in self.sizes.values()])

    def observe(self, key: Signature, calls: float) -> bool:
        """Is this one of the first calls of a signature, which are so many? It counts as observed, no longer as a miss."""
        key = key if key.orders is None else key._replace(orders=None)
        with self.lock:
            before = self.observed.get(key, 0)
            if before >= calls or key.answers:
                return False
            self.observed[key] = before + 1
            self.account.strange += not before
            while len(self.observed) > MAX_PROGRAMS:
                self.observed.popitem(last=False)
            self.misses -= 1
            self.first_calls += 1
            return True

    def in_vain(self) -> int:
        """Calls whose signatures nobody need look at: no trace is repaid, or more came in vain than are remembered."""
        account = self.account
        return max(account.until(account.size), account.strange - MAX_PROGRAMS)

    def forget(self, key: Signature) -> None:
        """The first call of a signature failed: the next one is the first."""
        with self.lock:
            self.observed.pop(key._replace(orders=None), None)

    def note_changes(self, key: Signature, f: Any) -> None:
        """Before a trace: which numbers changed that the program before read."""
        before = self.entries.get(key._replace(answers=key.answers[:-1])) if key.answers[-1:] == (CHANGED,) else None
        if before is not None and before.watched is not None:
            self.changes.update(before.watched.changed_numbers(f))

    def inputs(self) -> set[str]:
        """The numbers that have changed so often that they are to be inputs of programs."""
        return {label for label, n in self.changes.items() if n >= 2} - self.concrete

    def given(self, f: Any) -> tuple[Place, ...]:
        """The places of the numbers that advance, and of which Python needs the values: paths take them as arguments."""
        if self.concrete.isdisjoint(self.places):
            return ()
        labels = self.concrete | self.inputs()
        places = [self.places[label] for label in sorted(labels) if label in self.places]
        return tuple([w for w, x, _ in evaluated(needed(places), f) if w in places and is_number(x)])

    def advance(self, labels: set[str], guards: Guards | None, given: bool) -> str | None:
        """What a function reads and stores is to be an input; gives one of which Python needs the value."""
        before = {label: path_of(place) for label, place in self.places.items()}
        if guards is not None:
            for place in guards.places:
                if place.label in labels and place.check == "scalar":
                    self.places[place.label] = place
        for label in labels:
            self.changes[label] += 2
            now = self.places.get(label)
            moved = now is not None and path_of(now) != before.get(label)
            most = MOST_STATES if moved else 4 if given else 2
            if self.changes[label] > most and (given or label in self.concrete):
                return label
        return None

    def refuse(self, numbers: set[str]) -> None:
        """A trace with these as inputs failed: those that never were inputs are none from now on, or all."""
        self.concrete |= numbers - self.proven or numbers

    def put(self, key: Signature, entry: Entry) -> None:
        with self.lock:
            entry.jaxpr.memo.setdefault("siblings", len(self.entries))  # engines are in less of a hurry with later ones
            entry.jaxpr.memo.setdefault("sizes", self.sizes)
            entry.jaxpr.memo.setdefault("account" if config.jit_patience else "at once", self.account)
            if self.shares_texts():
                entry.write_at = max(entry.write_at, RUNS_OF_SIZES)
            self.entries[key] = entry
            self.entries.move_to_end(key)
            self.account.rest = 0  # what there is, is used from now on
            self.account.strange //= 2
            while len(self.entries) > MAX_PROGRAMS:
                self.entries.popitem(last=False)
            gone = partial(_gone, weakref.ref(self))
            objects = entry.watched.objects() if entry.watched is not None else []
            objects += held_weakly(key.statics)
            entry.living = tuple([weakref.ref(x, gone) for x in objects if x is not None])

    def drop_paths(self, paths: Any) -> None:
        """The function is traced anew where these were."""
        with self.lock:
            for key, entry in list(self.entries.items()):
                if entry.paths is paths:
                    del self.entries[key]
                    for user in list(self.users):
                        user.drop(entry)

    def drop_dead(self) -> None:
        """Drop the programs that depend on what is gone; those that were traced after them take their places."""
        with self.lock:
            self.dead = False
            for key, entry in list(self.entries.items()):
                if any([ref() is None for ref in entry.living]):
                    del self.entries[key]
                    self.dropped += 1
                    for user in list(self.users):
                        user.drop(entry)
            for key in sorted(self.entries, key=lambda key: len(key.answers)):
                while key.answers[-1:] == (CHANGED,) and (before := key._replace(answers=key.answers[:-1])) not in self.entries:
                    self.entries[before] = self.entries.pop(key)
                    key = before

    def use(self, user: Any, key: Signature, entry: Entry, install: Callable[[], None]) -> None:
        """Let `user` call the entry directly from now on, by `install`, unless it was forgotten meanwhile."""
        with self.lock:
            if self.entries.get(key) is entry:
                self.users.add(user)
                install()

    def clear(self) -> None:
        with self.lock:
            for user in list(self.users):
                user.forget_written()
            self.users.clear()
            self.entries.clear()
            self.observed.clear()
            self.sizes = {}
            self.advised, self.refused, self.refuser = False, None, None
            for seen in (self.moved, self.changes, self.concrete, self.proven, self.places):
                seen.clear()
            self._count_from_zero()
            self.account = Account()
            derived = list(self.derived.values())
        for cache in derived:
            cache.clear()


def _gone(cache: weakref.ref[Cache], _: Any, ends: Any = sys.is_finalizing) -> None:
    """Python has freed an object, in whatever code of whatever thread: nobody is waited for."""
    found = None if ends() else cache()
    if found is not None:
        found.dead = True  # the next call drops what depends on it, if it cannot be done now
        owned: bool = found.lock._is_owned()  # type: ignore[attr-defined]
        if not owned and found.lock.acquire(blocking=False):
            try:
                found.drop_dead()
            finally:
                found.lock.release()


_caches = weak_table(
    "jitted.caches",
    "function: the cache of its programs",
    same=None,
)
_private: weakref.WeakSet[Cache] = weakref.WeakSet()
_guard = threading.RLock()


def cache_for(f: Any) -> Cache:
    """The cache of a function."""
    with _guard:
        try:
            if hasattr(f, "__self__"):
                raise TypeError
            cache = _caches.get(f)
            if cache is None:
                cache = _caches[f] = Cache()
        except TypeError:  # a bound method, or something that cannot be hashed or weakly referred to
            cache = Cache()
            _private.add(cache)
    return cache


def _every_cache() -> list[Cache]:
    return [*list(_caches.values()), *list(_private)]


def _in_child() -> None:
    global _guard
    _guard = threading.RLock()
    if not lock._is_owned():  # type: ignore[attr-defined]
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as it is, since others refer to it
    storing.holder = None
    _waiting.clear()
    for cache in _every_cache():
        cache.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _ask_again() -> None:
    """Calls that were written out ask no cache: none of them is taken from now on."""
    for cache in _every_cache():
        with cache.lock:
            for user in list(cache.users):
                user.forget_written()
            cache.users.clear()
            for entry in cache.entries.values():
                entry.runs, entry.write_at = 0, max(entry.write_at, 2)


def _lines() -> Iterator[CacheLine]:
    caches = _every_cache()
    size = sum([len(c.entries) for c in caches])
    counts = sum([c.hits for c in caches]), sum([c.misses for c in caches])
    what = "signature: a traced program; each function has the bound for itself"
    yield line_of("jitted.programs", what, size, MAX_PROGRAMS, counts)


after_switch.append(_ask_again)
further.append(_lines)


def clear_caches() -> None:
    """Forget every traced and compiled program of every jitted function.

    Returns
    -------
    None

    Notes
    -----
    The next calls trace and compile again. Code that was kept on disk stays: `python -m funcad cache clear` takes that
    away. As `jax.clear_caches`. It raises nothing.

    Examples
    --------
    >>> import funcad
    >>> f = funcad.jit(lambda x: 2.0 * x)
    >>> y = f(1.0), f(1.0)
    >>> funcad.clear_caches()
    >>> f.cache_info().currsize
    0

    See also
    --------
    jit, funcad.debug.caches, disable_jit
    """
    with _guard:
        caches = _every_cache()
    for cache in caches:
        cache.clear()
    forget_interned()
    kinds.clear()

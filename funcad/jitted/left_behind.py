"""What a traced function left behind: traced values in objects of the user's, and random generators that moved.

Idea: before a jitted function is traced, the objects and containers that it can reach (watched.py) and the states of generators
are noted; afterwards they are looked at again. A traced value that was stored in an attribute, a container, a global or a
closure cell means nothing once the trace has ended, and a number that was drawn while tracing would be the same at every call:
both are reasons not to compile the function. What held the traced value holds again what it held before, also where the
function itself failed.

Traps: a state of NumPy's takes 40 microseconds to read, so the module-level generators are looked at only where some code that
can be reached speaks of them, and another thread may draw from them. Containers that the function made itself may hold
what they like.
"""

from __future__ import annotations

import collections
import functools
import importlib
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from funcad.errors import FuncadError
from funcad.host.real_types import is_a
from funcad.host.where import Source, setting, state
from funcad.ir.tracer import Tracer
from funcad.jitted.watched import Found, look
from funcad.reads.code_reads import MISSING, content, is_library, own_method, stores_attribute
from funcad.reads.places import bytes_of, dict_of
from funcad.reads.refusals import Refusal
from funcad.tree.containers import kind_of

_SPEAKING = frozenset(  # of the module-level generators
    "random rvs shuffle sample resample bootstrap kmeans kmeans2 permutation_test monte_carlo_test goodness_of_fit"
    " differential_evolution dual_annealing basinhopping rand random_array ttest_ind clarkson_woodruff_transform"
    " quadratic_assignment cdf logcdf multiscale_graphcorr".split()
)
LONGEST = 10_000  # containers with more items are not looked into
_WHOLE = (list, set, collections.deque)
_DEEP = 3  # containers in containers


@contextmanager
def nothing_left(found: Found, run: Any = None) -> Iterator[None]:
    """A `with` block in which a function is traced, that was looked at before; `run`: of its twin.

    Where it has no twin, or some code of the user's ran without one, such as a rule of a derivative, nobody replays what that
    stores: whatever has changed is a reason not to compile it.
    """
    twinned = not found.alone
    kept = [_Kept(label, x) for label, x in found.objects() if _length(x) <= LONGEST]
    kept += [_Kept(label, table, names) for label, table, names in found.stores()]
    generators = _Generators(found)
    try:
        with setting(drawing=(*state.drawing, generators)):
            yield
    except BaseException as error:
        for k in kept:
            k.restore(k.left(twinned and not isinstance(error, Refusal)))  # after which f runs once more, as it is
        refusal = generators.taken_back()
        if refusal is not None and isinstance(error, Exception) and not isinstance(error, FuncadError):
            raise refusal from error  # f itself draws, and raises it
        raise
    seen = twinned and (run is None or not run.unseen)
    left = [(k, names) for k in kept if (names := k.left(seen))]
    if left:
        first, names = left[0]
        problem = _stored(first.label_of(names[0]), names[0], first.is_object, found)
        for k in kept:
            k.restore(k.left(False))
        raise problem
    refusal = generators.taken_back()
    if refusal is not None:
        raise refusal


def untwinned(observer: Any, f: Any) -> Any:
    """A function of the user's that has no twin, called by one that has: what it can reach is looked at around its call."""
    walks: list[Found] = []
    observer.alone.append((f.__code__, False))

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        outside = [x for x in (*args, *kwargs.values()) if type(x) is not Tracer and observer.of(x) is not None]
        for x in outside:
            observer.content(x)
        found = walks[0] if walks and not outside else look(f, [("an argument", x) for x in outside])
        walks[:] = walks or [found] * (not outside)
        found.alone = True
        reason = importlib.import_module("funcad.reads.run").unplaceable(found)
        if reason is not None:
            observer.refuse(reason)
        try:
            with nothing_left(found):
                return f(*args, **kwargs)
        except Refusal as refusal:
            observer.refused = observer.refused or refusal
            raise

    return run


@contextmanager
def arguments_kept(found: Found, values: Iterator[Any] | list[Any]) -> Iterator[list[Any]]:
    """A `with` block in which f runs on arguments that were put together for it: what it stores in them is lost with them.

    It gives a list for f's result: an argument that is returned keeps what was stored.
    """
    kept = [*_parts("an argument", values, None)]
    results: list[Any] = []
    yield results
    for k, whole in kept:
        if (names := k.left(False)) and (whole is None or not _holds(results, whole)):
            raise _stored(k.label_of(names[0]), names[0], k.is_object, found)


def static_parts(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The objects in the fields of arguments that are told by identity: they are not put together anew."""
    for k, _ in _parts("an argument", values, None):
        for name, x in k.before.items():
            kind = type(x)
            if not is_library(kind) and kind_of(kind) is None and kind.__eq__ is object.__eq__ or kind is types.MethodType:
                yield k.label_of(name), x


def _parts(label: str, values: Iterable[Any], whole: Any) -> Iterator[tuple[_Kept, Any]]:
    """The containers and objects that these are made of, each with the outermost object that it is a part of."""
    for x in values:
        if is_a(x, tuple):
            for i, item in enumerate(x):
                yield from _parts(f"{label}[{i}]", [item], whole)
        elif x is not None and kind_of(type(x)) is not None and not is_a(x, np.ndarray):
            k = _Kept(label, x)
            outermost = x if whole is None and k.is_object else whole
            yield k, outermost
            for name, item in k.before.items():
                yield from _parts(k.label_of(name), [item], outermost)


def _holds(x: Any, wanted: Any) -> bool:
    """Is it in a container, or in one inside?"""
    if not is_a(x, (list, tuple, dict)):
        return x is wanted
    return any([_holds(v, wanted) for v in (x.values() if is_a(x, dict) else x)])


def _length(x: Any) -> int:
    return len(x) if type(x) in (*_WHOLE, dict) else 0


def _holds_traced(x: Any, deep: int = _DEEP) -> bool:
    """Is it a traced value whose trace has ended, or a container of one?"""
    if type(x) is Tracer:
        return bool(x.owner.level and x.owner.closed)
    if not deep or type(x) not in (list, tuple, dict, set) or len(x) > LONGEST:
        return False
    return any([_holds_traced(v, deep - 1) for v in (x.values() if type(x) is dict else x)])


class _Kept:
    """An object or a container, as it was."""

    def __init__(self, label: str, x: Any, names: frozenset[str] | None = None):
        self.label, self.x = label, x
        self.is_object = not is_a(x, (*_WHOLE, dict, np.ndarray)) and names is None
        self.names = names
        self.before = self.items()

    def items(self) -> dict[Any, Any]:
        x = self.x
        if type(x) is types.CellType:
            return {None: content(x)} if content(x) is not MISSING else {}
        if is_a(x, _WHOLE):
            return dict(enumerate(own_method(x, "__iter__")(x)))
        if is_a(x, dict):
            return dict(dict.items(x)) if self.names is None else {n: x[n] for n in self.names if n in x}
        if is_a(x, np.ndarray):
            return {...: x.copy()}
        if is_a(x, type):
            return {n: v for n, v in x.__dict__.items() if n[:2] != "__"}
        return {**dict_of(x), **dict(_slots(x))}

    def traced(self) -> list[Any]:
        """Where there is a traced value now that was not there before."""
        return [k for k, v in self.items().items() if v is not self.before.get(k, MISSING) and _holds_traced(v)]

    def left(self, twinned: bool) -> list[Any]:
        """Where something is left behind."""
        if twinned:
            return self.traced()
        now = self.items()
        if is_a(self.x, np.ndarray):
            return [] if bytes_of(now[...]) == bytes_of(self.before[...]) else [...]
        names = [k for k in {**self.before, **now} if now.get(k, MISSING) is not self.before.get(k, MISSING)]
        return [k for k in names if type(k) is not str or type(getattr(type(self.x), k, None)) is not functools.cached_property]

    def label_of(self, name: Any) -> str:
        if is_a(self.x, (set, types.CellType, np.ndarray)):
            return self.label
        if self.is_object:
            return f"{self.label}.{name}"
        if self.names is not None:
            return f"{self.label} {name}"
        return f"{self.label}[{name!r:.40}]"

    def restore(self, names: list[Any]) -> None:
        x = self.x
        if is_a(x, _WHOLE) and names:
            own_method(x, "clear")(x)
            own_method(x, "update" if is_a(x, set) else "extend")(x, self.before.values())
            return
        for n in names:
            if type(x) is types.CellType:
                if n in self.before:
                    x.cell_contents = self.before[n]
                else:
                    del x.cell_contents
            elif is_a(x, dict):
                if n in self.before:
                    own_method(x, "__setitem__")(x, n, self.before[n])
                else:
                    own_method(x, "__delitem__")(x, n)
            elif is_a(x, np.ndarray):
                _write(x, self.before[n])
            elif is_a(x, type):
                type.__setattr__(x, n, self.before[n]) if n in self.before else type.__delattr__(x, n)
            elif n in self.before:
                object.__setattr__(x, n, self.before[n])
            else:
                object.__delattr__(x, n)


def _write(x: Any, elements: Any) -> None:
    """Write into an array that the trace may have locked since (host/locks.py)."""
    chain = [x]
    while is_a(chain[-1].base, np.ndarray):
        chain.append(chain[-1].base)
    locked = [a for a in reversed(chain) if not a.flags.writeable]
    for a in locked:
        a.flags.writeable = True
    x[...] = elements
    for a in reversed(locked):
        a.flags.writeable = False


def _slots(x: Any) -> Iterator[tuple[str, Any]]:
    for base in type(x).__mro__:
        for name, raw in base.__dict__.items():
            if type(raw) is types.MemberDescriptorType:
                try:
                    yield name, raw.__get__(x)
                except AttributeError:  # not assigned yet
                    continue


def _stored(label: str, attribute: Any, is_object: bool, found: Found) -> Refusal:
    for code in found.codes if is_object else ():
        offset = stores_attribute(code, attribute)
        if offset is not None:
            return Refusal(f"{label} is stored", str(Source(*offset)))
    return Refusal(f"{label} is stored", "")


# -- random generators


def _state_of(x: Any) -> tuple[Callable[[], Any], Callable[[Any], None], Any] | None:
    """How to read and write a generator's state, and what it is."""
    numpy, python = np.random, importlib.import_module("random")
    if isinstance(x, (numpy.Generator, numpy.BitGenerator)):
        bits = x.bit_generator if isinstance(x, numpy.Generator) else x
        read, write = lambda: bits.state, lambda state: setattr(bits, "state", state)
    elif isinstance(x, numpy.RandomState):
        read, write = lambda: x.get_state(legacy=False), x.set_state
    elif isinstance(x, python.Random) and not isinstance(x, python.SystemRandom):
        read, write = lambda: python.Random.getstate(x), lambda state: python.Random.setstate(x, state)
    else:
        return None
    return read, write, read()


def _generators(found: Found) -> Iterator[tuple[str, Any]]:
    for label, x in found.generators():
        yield label, _state_of(x)
    if not _SPEAKING.isdisjoint(found.mentioned):
        numpy, python = np.random, importlib.import_module("random")
        whole = lambda: numpy.get_state(legacy=False)
        yield "the generator of numpy.random", (whole, numpy.set_state, whole())
        yield "the generator of Python's random module", (python.getstate, python.setstate, python.getstate())


class _Generators:
    """The generators that a function can reach: draws that are replayed may move them, and nothing else."""

    def __init__(self, found: Found):
        self.states = [(label, *kept) for label, kept in _generators(found) if kept is not None]
        self.moved = ""  # the label of one that something else has moved
        self.note()

    def note(self) -> None:
        self.now = [read() for _, read, _, _ in self.states]

    def look(self) -> None:
        for (label, read, _, _), now in zip(self.states, self.now):
            if not _same(read(), now):
                self.moved = self.moved or label

    def taken_back(self) -> Refusal | None:
        """Where something else has moved one, all are as they were before, and the function is not compiled."""
        self.look()
        if not self.moved:
            return None
        for _, _, write, before in self.states:
            write(before)
        return Refusal(f"{self.moved} draws, which moves the generator", "")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all([_same(a[k], b[k]) for k in a])
    return bool(np.array_equal(a, b)) if is_a(a, np.ndarray) else bool(a == b)

"""Ways to change what was there before: whatever f calls for it, the state after each call is plain Python's."""

from __future__ import annotations

import array
import bisect
import collections
import dataclasses
import heapq
import operator
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import jit

pytestmark = pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int = 0

    def advance(self) -> None:
        object.__setattr__(self, "n", self.n + 1)


class Owner:
    def __init__(self) -> None:
        self.k: Any = 1.0
        self.items = [1.0, 2.0]
        self.table: dict[str, float] = {}


class Setting(Owner):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class State:
    """One of each kind of object."""

    def __init__(self) -> None:
        self.o, self.s, self.frozen = Owner(), Setting(), Frozen()
        self.d, self.l, self.set, self.array = {"n": 1.0}, [1.0, 2.0], set[int](), np.zeros(3)
        self.counter, self.deque = collections.Counter[str](), collections.deque([1.0], maxlen=3)
        self.default: Any = collections.defaultdict(float)
        self.bytes, self.numbers = bytearray(b"ab"), array.array("d", [1.0, 2.0])

    def __repr__(self) -> str:
        return repr([vars(self.o), vars(self.s), *list(vars(self).values())[2:]])

    def change(self, i: int) -> None:
        """What somebody else does between two calls."""
        if i == 1:
            self.o.k, self.l[:], self.d["n"] = 1.0, [1.0, 2.0], 1.0
        elif i == 2:
            self.o.__dict__["k"] = 2.0
            self.d.clear(), self.counter.clear(), self.l.append(9.0)
        elif i == 3:
            self.l.sort(), self.deque.clear(), self.o.items.clear()
        elif i == 4:
            self.default.clear(), self.set.clear(), self.array.fill(0.0)
            self.bytes[:], self.numbers[0] = b"z", 5.0


WAYS: dict[str, Callable[[State, Any], Any]] = {
    "object.__setattr__": lambda s, x: object.__setattr__(s.o, "k", 7.0),
    "frozen dataclass": lambda s, x: (s.frozen.advance(), x * s.frozen.n)[1],
    "__dict__": lambda s, x: s.o.__dict__.__setitem__("k", 5.0),
    "vars": lambda s, x: (vars(s.o).update(k=9.0), x * s.o.k)[1],
    "__setitem__": lambda s, x: s.l.__setitem__(0, 5.0),
    "__delitem__": lambda s, x: s.d.__delitem__("n") if "n" in s.d else None,
    "operator.setitem": lambda s, x: operator.setitem(s.l, 1, 8.0),
    "operator.iadd": lambda s, x: operator.iadd(s.l, [1.0]) and None,
    "__iadd__": lambda s, x: (s.l.__iadd__([3.0]), x * len(s.l))[1],
    "list.append": lambda s, x: list.append(s.l, 4.0),
    "dict.__setitem__": lambda s, x: dict.__setitem__(s.d, "n", 3.0),
    "dict.update": lambda s, x: dict.update(s.d, {"n": 3.0}),
    "map": lambda s, x: list(map(s.l.append, [1.0, 2.0])) and None,
    "generator": lambda s, x: (s.l.extend(v for v in (1.0, 2.0)), x * sum(s.l))[1],
    "own __setattr__": lambda s, x: (setattr(s.s, "k", s.s.k + 1), x * s.s.k)[1],
    "delattr": lambda s, x: delattr(s.o, "k") if hasattr(s.o, "k") else None,
    "Counter.update": lambda s, x: (s.counter.update(["a"]), x * s.counter["a"])[1],
    "Counter item": lambda s, x: s.counter.__setitem__("a", s.counter["a"] + 1),
    "__missing__": lambda s, x: x * (s.default["q"] + 1.0),
    "deque": lambda s, x: (s.deque.append(2.0), x * sum(s.deque))[1],
    "clear": lambda s, x: s.d.clear(),
    "set": lambda s, x: (s.set.add(len(s.set)), x * len(s.set))[1],
    "array item": lambda s, x: (s.array.__setitem__(0, 4.0), x * s.array[0])[1],
    "array __iadd__": lambda s, x: (s.array.__iadd__(1.0), x * np.sum(s.array))[1],
    "bytearray": lambda s, x: s.bytes.append(99),
    "byte": lambda s, x: s.bytes.__setitem__(0, 65),
    "array.array": lambda s, x: (s.numbers.append(3.0), x * s.numbers[0])[1],
    "memoryview": lambda s, x: memoryview(s.array).__setitem__(0, 2.5),
    "np.copyto": lambda s, x: np.copyto(s.array, 3.0),
    "of an attribute": lambda s, x: (s.o.items.append(1.0), s.o.table.__setitem__("a", 2.0), x * len(s.o.items))[2],
    "heapq": lambda s, x: heapq.heappush(s.l, 0.5),
    "bisect": lambda s, x: bisect.insort(s.l, 1.5),
    "random.shuffle": lambda s, x: random.Random(0).shuffle(s.l),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_state_is_plain_pythons(way: str) -> None:
    def all_of(transform: Callable[[Any], Any]) -> list[Any]:
        s, seen = State(), []

        def f(x: Any) -> Any:
            y = WAYS[way](s, x)
            return x * 2.0 if y is None else y

        g = transform(f)
        for i in range(6):
            seen.append((g(2.0), repr(s)))
            s.change(i)
        return seen

    assert all_of(jit) == all_of(lambda f: f)


def _penalty(d: dict[Any, Any], x: Any) -> Any:
    return x + sum(v * x for v in d.values())


def _halved(d: dict[Any, Any], x: Any) -> Any:
    for k, v in d.items():
        d[k] = v * 0.5
    return x * 2.0


LOOKS: dict[str, Callable[[dict[Any, Any], Any], Any]] = {
    "values": _penalty,
    "items": lambda d, x: x * sum([v for k, v in d.items() if k != "z"]),
    "halved": _halved,
    "max": lambda d, x: x + max(d.values(), default=0.0),
    "next": lambda d, x: x + next(iter(d.values()), 0.0),
    "all": lambda d, x: x + 1.0 if all(v < 2.0 for v in d.values()) else x * 3.0,
    "len": lambda d, x: x * len(d.items()),
    "list": lambda d, x: x + np.sum(list(d.values())),
    "nested": lambda d, x: x + sum(v for e in [d] for v in e.values()),
}


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize("filled", [False, True])
def test_the_items_of_a_dict_that_was_empty(name: str, filled: bool) -> None:
    def all_of(transform: Callable[[Any], Any]) -> list[Any]:
        d: dict[Any, Any] = {"a": 1.0, "b": 2.0} if filled else {}
        g, found = transform(lambda x: LOOKS[name](d, x)), []
        for i in range(9):
            if i == 2:
                d.clear()
            elif i == 5:
                d["k"] = 5.0
            found.append((float(g(2.0)), repr(d)))
        return found

    assert all_of(jit) == all_of(lambda f: f)


def _all_of(transform: Callable[[Any], Any], f: Any, d: dict[Any, Any], changes: dict[int, Callable[[Any], Any]]) -> list[Any]:
    """What each of nine calls gives, and d after it; somebody else changes d before some of them."""
    g, found = transform(lambda x: f(d, x)), []
    for i in range(9):
        changes.get(i, len)(d)
        found.append((repr(g(float(i))), repr(d)))
    return found


def test_whether_a_key_is_in_a_dict_in_which_another_one_was_stored() -> None:
    def update(d: dict[Any, Any], x: Any) -> None:
        for k in ("w", "b", 1):
            if k in d:
                d[k] = d[k] + x
            else:
                d[k] = x

    for at in (1, 2, 3, 5):
        for key in ("w", "b", 1):
            changes = {at: lambda d: d.pop(key), at + 3: lambda d: d.clear()}  # noqa: B023
            assert _all_of(jit, update, {}, changes) == _all_of(lambda f: f, update, {}, changes)


def _stored_last(d: dict[Any, Any], x: Any) -> None:
    d.pop("w", None)
    d["w"] = x
    d["b"] = x


def _deleted_first(d: dict[Any, Any], x: Any) -> None:
    if "w" in d:
        del d["w"]
    d["w"] = x
    d["b"] = x


def _two(d: dict[Any, Any], x: Any) -> None:
    d["w"] = x
    d["b"] = x


def _for_a_while(d: dict[Any, Any], x: Any) -> None:
    d["w"] = x
    d["b"] = 1.0
    d.pop("w")


def _caught(d: dict[Any, Any], x: Any) -> None:
    try:
        del d["w"]
    except KeyError:
        d["b"] = x
    d["w"] = x


def _recently_used(d: dict[Any, Any], x: Any) -> None:
    d.pop("z", None)
    d["z"] = x
    if len(list(d)) > 2:
        del d[next(iter(d))]


def _used_again(d: dict[Any, Any], x: Any) -> None:
    if d:
        k = next(iter(d))
        d[k] = d.pop(k)
    d["z"] = x


def _sorted(d: dict[Any, Any], x: Any) -> None:
    items = sorted(d.items())
    d.clear()
    d.update(items)
    d["q"] = x


def _last_two_exchanged(d: dict[Any, Any], x: Any) -> None:
    if len(d) > 1:
        (k, v), (j, w) = d.popitem(), d.popitem()
        d[k], d[j] = v, w + x


def _moved(d: Any, x: Any) -> None:
    if "w" in d and isinstance(d, collections.OrderedDict):
        d.move_to_end("w", last="b" in d)
    d["b"] = x


REORDERING = [_stored_last, _deleted_first, _two, _for_a_while, _caught, _recently_used, _used_again, _sorted]
REORDERING += [_last_two_exchanged, _moved]


@pytest.mark.parametrize("f", REORDERING)
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_the_order_of_a_dict_is_plain_pythons(f: Any, kind: Any) -> None:
    others: list[Callable[[Any], Any]] = [
        lambda d: d.clear(),
        lambda d: d.pop("w", None),
        lambda d: d.pop("b", None),
        lambda d: d.update(w=7.0, b=8.0),
        lambda d: d.setdefault("c", 5.0),
    ]
    for first in ({}, {"b": 1.0, "w": 2.0, "c": 3.0}):
        for at in (1, 2, 3):
            for k, other in enumerate(others):
                changes = {at: other, at + 3: others[k - 1]}
                found = _all_of(jit, f, kind(first), changes)
                assert found == _all_of(lambda f: f, f, kind(first), changes)


def test_the_order_in_which_a_jitted_function_inside_stores() -> None:
    def made(transform: Callable[[Any], Any]) -> list[Any]:
        d: dict[Any, Any] = {}
        inner = transform(lambda x: _stored_last(d, x))

        def f(x: Any) -> Any:
            inner(x)
            d["z"] = x
            return x * 2.0

        g, found = transform(f), []
        for i in range(9):
            if i == 4:
                d.clear()
            found.append((float(g(float(i))), repr(d)))
        return found

    assert made(jit) == made(lambda f: f)


def test_to_look_at_an_entry_of_a_defaultdict_makes_none() -> None:
    """At a call that finds it deleted."""
    ways: list[Callable[[Any, Any], Any]] = [
        lambda d, x: d.setdefault("w", x),
        lambda d, x: x * d["w"] if "w" in d and d["w"] < 5.0 else x,
        lambda d, x: d.get("w", x),
        lambda d, x: d.pop("w", x),
        lambda d, x: (d.popitem() if d else 0, d.setdefault("b", x))[1],
    ]
    for way in ways:
        for at in (2, 3, 5):
            changes = {0: lambda d: d.update(w=2.0), at: lambda d: d.clear(), at + 2: lambda d: d.update(w=3.0)}
            changes[at + 3] = lambda d: d.pop("w", None)
            start = lambda: collections.defaultdict(float)
            assert _all_of(jit, way, start(), changes) == _all_of(lambda f: f, way, start(), changes)


PROXIED: dict[str, Callable[[Any, Any], Any]] = {
    **LOOKS,
    "loop": lambda p, x: x * sum([p[k] for k in p]),
    "keys": lambda p, x: x * len(p.keys()),
    "spread": lambda p, x: x + sum({**p}.values()),
    "copied": lambda p, x: x + sum(dict(p).values()),
    "text": lambda p, x: x * len(str(p)),
    "is there": lambda p, x: x if p else x * 3.0,
    "is in": lambda p, x: x + p.get("k", 1.0) + ("k" in p),
}
del PROXIED["halved"]


class Registry(collections.abc.Mapping[Any, Any]):
    def __init__(self, d: dict[Any, Any]) -> None:
        self.d = d

    def __getitem__(self, key: Any) -> Any:
        return self.d[key]

    def __iter__(self) -> Any:
        return iter(self.d)

    def __len__(self) -> int:
        return len(self.d)


@pytest.mark.parametrize("name", PROXIED)
@pytest.mark.parametrize("made", [lambda d: d, collections.OrderedDict, Registry])
def test_what_a_proxy_of_a_mapping_shows(name: str, made: Any) -> None:
    def all_of(transform: Callable[[Any], Any]) -> list[float]:
        d: dict[Any, Any] = {}
        inside = made(d)
        d, proxy = inside.d if made is Registry else inside, types.MappingProxyType(inside)
        g, found = transform(lambda x: PROXIED[name](proxy, x)), []
        for i in range(9):
            if i == 3:
                d["k"] = 5.0
            elif i == 5:
                d["k"] = 1.0
            elif i == 7:
                d.clear()
            found.append(float(g(2.0)))
        return found

    assert all_of(jit) == all_of(lambda f: f)

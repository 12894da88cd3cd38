"""Lists, tuples and dicts of numbers and texts, and rows of them, are told at once, by types, bits and lengths."""

from __future__ import annotations

import copy
import enum
import functools
import itertools
import json
import struct
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit
from funcad.errors import NotCompiledWarning
from funcad.jitted import first_calls

OTHER_NAN = struct.unpack("d", struct.pack("Q", 0x7FF8000000000001))[0]


class Half(float):
    """A number of the user's own."""

    def __add__(self, other: Any) -> Any:
        return 0.5 + other

    __radd__ = __add__


class Level(enum.IntEnum):
    LOW = 1


class Backwards(list):
    """A list of the user's own, which runs backwards."""

    def __iter__(self) -> Any:
        return reversed(self[:])


def bits(x: Any) -> bytes:
    return np.float64(x).tobytes()


READS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, t: x + sum(t),
    "loop": lambda x, t: functools.reduce(lambda a, v: a * 0.5 + v, [v + 1.0 for v in t], x),
    "array": lambda x, t: np.sum(x * np.asarray(t)),
    "dot": lambda x, t: x * np.dot(t, t),
    "types": lambda x, t: x + sum([len(type(v).__name__) for v in t]),
    "text": lambda x, t: x * len(str(t)),
    "in": lambda x, t: x * (3.0 in t),
    "compared": lambda x, t: x * (list(t) == [0.0, 1.0, 2.0, 3.0]),
    "signs": lambda x, t: x + sum([float(np.copysign(1.0, v)) for v in t]),
    "starred": lambda x, t: x * [*t][-1],
    "zip": lambda x, t: x + sum([a * b for a, b in zip(t, t[1:])]),
    "max": lambda x, t: x * max(t),
    "sorted": lambda x, t: x * sorted(t)[1],
    "tail": lambda x, t: x + sum(t[1:]) + len(t),
    "twice": lambda x, t: x * sum(t) + np.sum(np.asarray(t)) + t[0],
    "one first": lambda x, t: x * t[0] + sum(t),
}
CHANGES: dict[str, Callable[[list[Any]], Any]] = {
    "number": lambda t: t.__setitem__(1, 5.0),
    "last": lambda t: t.__setitem__(-1, 9.0),
    "sign of zero": lambda t: t.__setitem__(0, -0.0),
    "integer": lambda t: t.__setitem__(1, 1),
    "truth": lambda t: t.__setitem__(1, True),
    "NaN": lambda t: t.__setitem__(2, float("nan")),
    "NumPy's number": lambda t: t.__setitem__(1, np.float64(1.0)),
    "half": lambda t: t.__setitem__(3, np.float16(3.0)),
    "own number": lambda t: t.__setitem__(1, Half(1.0)),
    "enum": lambda t: t.__setitem__(1, Level.LOW),
    "longer": lambda t: t.append(4.0),
    "shorter": lambda t: t.pop(),
    "order": lambda t: t.reverse(),
    "the same": lambda t: t.__setitem__(1, float("1.0")),
    "large": lambda t: t.__setitem__(1, 2**70),
    "array": lambda t: t.__setitem__(1, np.array(7.0)),
}


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        found = f(*args)
        return type(found), bits(found)
    except Exception as error:
        return type(error)


@pytest.mark.share(3)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_a_list_by_every_change(read: str, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    table, of = [0.0, 1.0, 2.0, 3.0], READS[read]
    f = lambda x: of(x, table)
    jitted = jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert outcome(jitted, 2.0) == outcome(f, 2.0)
        for _ in range(3):
            CHANGES[change](table)
            for _ in range(2):
                assert outcome(jitted, 2.0) == outcome(f, 2.0)
        table[:] = [0.0, 1.0, 2.0, 3.0]
        assert outcome(jitted, 2.0) == outcome(f, 2.0)


def holder(kind: str) -> tuple[Any, Callable[[Any], Any]]:
    """(what holds rows, the rows of it)."""
    rows = [[1.0, 2.0], [3.0, 4.0]]
    if kind == "dict":
        return dict(zip("ab", rows)), lambda h: list(h.values())
    return (tuple(rows) if kind == "tuple" else rows), list


ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "array": lambda x, h: x * np.asarray(list(h.values()) if type(h) is dict else h).sum(),
    "dumped": lambda x, h: x * len(json.dumps(h)),
    "text": lambda x, h: x * len(f"{h}"),
    "copied": lambda x, h: x * deep(h),
    "loop": lambda x, h: x + sum([sum(row) for row in (h.values() if type(h) is dict else h)]),
    "chained": lambda x, h: x + sum(itertools.chain(*(h.values() if type(h) is dict else h))),
    "max": lambda x, h: x * max(h.values() if type(h) is dict else h)[0],
}


def deep(h: Any) -> Any:
    """Which rows are one shows when a copy is changed."""
    own = copy.deepcopy(h)
    rows = list(own.values()) if type(own) is dict else list(own)
    rows[0][0] = 7.0
    return sum([sum(row) for row in rows])


@pytest.mark.parametrize("kind", ["list", "tuple", "dict"])
@pytest.mark.parametrize("read", ROWS)
def test_rows_by_every_change(read: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    held, rows_of = holder(kind)
    of = ROWS[read]
    f = lambda x: of(x, held)
    jitted = jit(f)

    def check() -> None:
        for _ in range(3):
            assert outcome(jitted, 2.0) == outcome(f, 2.0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        check()
        rows_of(held)[1][0] = 30.5
        check()
        rows_of(held)[1][0] = 3
        check()
        rows_of(held)[0].append(8.0)
        check()
        rows_of(held)[0].pop()
        check()
        if kind != "tuple":
            first, second = ("a", "b") if kind == "dict" else (0, 1)
            kept = held[second]
            held[second] = [*held[first]]
            check()
            held[second] = held[first]  # they are one
            check()
            held[second] = tuple(held[first])
            check()
            held[second] = Backwards([3.0, 1.0])
            check()
            held[second] = kept
            check()
        if kind == "dict":
            held["b"] = held.pop("b")
            held["a"] = held.pop("a")  # another order
            check()


def test_entries_of_a_dict_and_its_keys() -> None:
    config = {"rate": 0.5, "name": "a", 3: 2.0, None: 1.0}

    def f(x: Any) -> Any:
        return x * sum([v for v in config.values() if type(v) is float]) + len("".join(map(str, config)))

    jitted = jit(f)
    changes: list[Callable[[], Any]] = [
        lambda: config.update(rate=0.75), lambda: config.update(name="bcd"), lambda: config.update(more=1.0),
        lambda: config.pop(3), lambda: config.update({True: 1.0}), lambda: config.update(rate="text"),
        lambda: config.update(rate=config.pop("rate")),
    ]  # fmt: skip
    for change in changes:
        for _ in range(3):
            assert jitted(2.0) == f(2.0)
        change()
        assert jitted(2.0) == f(2.0)


# -- what it costs, and what stays


def guards(jitted: Any) -> list[int]:
    return [len(entry.watched.places) for entry in jitted._core.cache.entries.values() if entry.watched is not None]


@pytest.mark.parametrize("read", ["sum", "loop", "array", "dot", "in", "text", "starred", "max", "sorted"])
def test_many_numbers_are_one_comparison(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    table, of = [float(i) for i in range(500)], READS[read]
    jitted = jit(lambda x: of(x, table))
    for _ in range(3):
        jitted(2.0)
    assert guards(jitted) and max(guards(jitted)) < 20


@pytest.mark.parametrize("read", ["array", "dumped", "text"])
def test_many_rows_are_one_comparison(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    held, of = [[float(i), 1.0] for i in range(300)], ROWS[read]
    jitted = jit(lambda x: of(x, held))
    for _ in range(3):
        jitted(2.0)
    assert guards(jitted) and max(guards(jitted)) < 20


def test_a_number_that_keeps_changing_becomes_an_input_and_the_rest_one_comparison() -> None:
    table = [float(i) for i in range(100)]
    f = lambda x: x + sum([v * v for v in table])
    jitted = jit(f)
    for i in range(20):
        table[7] = i + 0.5
        assert jitted(2.0) == f(2.0)
    assert jitted.cache_info().misses <= 4
    assert min(guards(jitted)) < 20
    table[8] = -1.0
    assert jitted(2.0) == f(2.0)


@pytest.mark.parametrize("way", [jit, lambda f: jit(grad(f)), lambda f: grad(jit(f))], ids=["jit", "jit(grad)", "grad(jit)"])
def test_what_is_read_at_once_and_then_stored(way: Any) -> None:
    state, plain = ({"w": [1.0, 2.0, 3.0], "n": {"a": 1.0, "b": 2.0}} for _ in range(2))

    def step(s: Any, x: Any) -> Any:
        total = sum(s["w"]) + sum(s["n"].values())
        s["w"][1] = s["w"][1] * 0.5 + 1.0
        s["n"]["a"] = s["n"]["a"] + 1.0
        return x * x * total + sum(s["w"])

    f, g = way(lambda x: step(state, x)), (lambda x: step(plain, x)) if way is jit else grad(lambda x: step(plain, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for _ in range(10):
            assert f(2.0) == g(2.0)
            assert state == plain


def test_only_what_is_stored_becomes_an_input() -> None:
    state = {"w": [float(i) for i in range(50)]}

    def f(x: Any) -> Any:
        total = sum(state["w"])
        state["w"][3] = state["w"][3] + 1.0
        return x * total

    jitted = jit(f)
    for _ in range(5):
        jitted(2.0)
    assert {entry.watched.inputs for entry in jitted._core.cache.entries.values()} <= {0, 1}
    assert max(guards(jitted)) < 20


def test_of_many_changes_some_are_told() -> None:
    said: list[str] = []
    table = [float(i) for i in range(100)]
    f = jit(lambda x: x * sum(table))
    with funcad.explain_cache_misses(said.append):
        f(2.0)
        table[:] = [v + 1.0 for v in table]
        f(2.0)
    assert "table[7]: 8.0, before 7.0" in said[1] and "table[8]" not in said[1]
    assert "closure variable table: 92 more" in said[1]


def test_it_is_rebound_after_it_was_read_at_once() -> None:
    state, plain = types.SimpleNamespace(w=[1.0, 2.0]), types.SimpleNamespace(w=[1.0, 2.0])

    def step(s: Any, x: Any) -> Any:
        total = sum(s.w)
        s.w = [v + 1.0 for v in s.w]
        return x * total

    jitted = jit(lambda x: step(state, x))
    for _ in range(10):
        assert jitted(2.0) == step(plain, 2.0)
        assert state.w == plain.w
    assert jitted.cache_info().misses <= 3


def test_others_change_it_while_the_function_runs() -> None:
    table = [1.0, 2.0]

    def f(x: Any) -> Any:
        first = sum(table)
        operator_append()
        return x * (first + sum(table))

    append = table.append
    operator_append = functools.partial(append, 1.0)
    jitted, n = jit(f), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for _ in range(5):
            wanted = sum(table) + sum(table) + 1.0
            assert jitted(1.0) == wanted
            n += 1
    assert len(table) == 2 + n


def test_messages_name_the_number() -> None:
    said: list[str] = []
    table, rows = [1.0, 2.0, 3.0], [[1.0, 2.0], [3.0, 4.0]]
    f = jit(lambda x: x * sum(table) * np.asarray(rows).sum())
    with funcad.explain_cache_misses(said.append):
        f(2.0)
        table[1] = 20.0
        f(2.0)
        rows[1][0] = 30.0
        f(2.0)
        rows.append([1.0])
        with pytest.raises(ValueError):
            f(2.0)
    assert "closure variable table[1]: 20.0, before 2.0" in said[1]
    assert "closure variable rows[1][0]: 30.0, before 3.0" in said[2]
    assert "closure variable rows: a list of 3, before a list of 2" in said[3]

"""Functions with `functools.cache` in a compiled function: they are asked at each call, as in plain Python."""

from __future__ import annotations

import enum
import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad as fc


class Way(enum.Enum):
    UP = 2.0
    DOWN = -1.0


class Rate:
    """What programs keep beside a cache."""

    def __init__(self) -> None:
        self.base = 1.0
        self.log: list[Any] = []
        rate = self

        @functools.lru_cache
        def by_number(k: Any, *, scale: float = 1.0) -> float:
            rate.log.append(k)
            return float(rate.base * k * scale)

        @functools.cache
        def of_object(other: Rate) -> float:
            rate.log.append("object")
            return other.base * 3.0

        @functools.cache
        def table(n: int) -> Any:
            rate.log.append(n)
            return np.arange(n) * rate.base

        @functools.cache
        def parts(n: int) -> Any:
            rate.log.append(n)
            return [rate.base] * n, {"a": rate.base}

        self.by_number, self.of_object, self.table, self.parts = by_number, of_object, table, parts

    @functools.lru_cache  # noqa: B019 people do
    def method(self, k: int) -> float:
        self.log.append(k)
        return self.base + k

    @staticmethod
    @functools.cache
    def static(k: int) -> float:
        return k / 2

    @classmethod
    @functools.cache
    def of_class(cls, k: int) -> float:
        return k / 4 + len(cls.__name__)


PROGRAMS: dict[str, Callable[[Rate, Any], Any]] = {
    "number": lambda s, x: x * s.by_number(2),
    "twice": lambda s, x: x * s.by_number(2) + s.by_number(2) - s.by_number(3),
    "keyword": lambda s, x: x * s.by_number(2, scale=0.5) * s.by_number(k=3),
    "enum": lambda s, x: x * s.by_number(Way.UP.value) + len(Way.DOWN.name),
    "tuple": lambda s, x: x * s.table(len((1, 2, 3)))[2],
    "array": lambda s, x: np.sum(x * s.table(4)),
    "list": lambda s, x: x * s.parts(2)[0][1] + s.parts(2)[1]["a"],
    "object": lambda s, x: x * s.of_object(s),
    "method": lambda s, x: x * s.method(4),
    "static method": lambda s, x: x * s.static(3) * Rate.static(2),
    "class method": lambda s, x: x * s.of_class(3) * Rate.of_class(2),
    "method, by its class": lambda s, x: x * Rate.method(s, 3),
    "in a turn": lambda s, x: sum([x * s.by_number(k) for k in range(3)]),
    "in a branch": lambda s, x: x * s.by_number(2) if x > 1.0 else x - s.by_number(5),
    "made inside": lambda s, x: x * functools.cache(lambda k: s.base * k)(2),
}


def clear(s: Rate) -> None:
    for f in (s.by_number, s.of_object, s.table, s.parts, Rate.method):
        f.cache_clear()


def history(name: str, wrap: Callable[..., Any]) -> list[Any]:
    s = Rate()
    f = wrap(lambda x: PROGRAMS[name](s, x))
    found = []
    for i in range(14):
        if i in (4, 9):
            s.base += 2.0  # which a cache does not see
        if i in (6, 11):
            clear(s)
        found.append((float(f(0.5 + i % 4)), list(s.log)))
    return found


def first(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: f(*args)[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_cache_is_asked_as_in_plain_python(name: str) -> None:
    expected = history(name, lambda f: f)
    assert history(name, fc.jit) == expected
    for gradient in (lambda f: fc.value_and_grad(f), lambda f: fc.jit(fc.value_and_grad(f))):
        found = history(name, lambda f, gradient=gradient: first(gradient(f)))
        assert [x for x, _ in found] == pytest.approx([x for x, _ in expected])


OF_ARGUMENTS: dict[str, Callable[[Rate, Any, int], Any]] = {
    "number": lambda s, x, n: x * s.by_number(n),
    "computed": lambda s, x, n: x * s.by_number(2 * n) + s.by_number(n > 2),
    "keyword": lambda s, x, n: x * s.by_number(n, scale=0.5) * s.by_number(k=n),
    "array": lambda s, x, n: np.sum(x * s.table(n)),
    "pair": lambda s, x, n: x * s.pair((n, 2)),
    "method": lambda s, x, n: x * s.method(n),
    "beside a number that moves": lambda s, x, n: x * s.by_number(n) + s.base,
}


@pytest.mark.parametrize("name", OF_ARGUMENTS)
def test_a_cache_is_asked_for_a_number_that_is_an_argument(name: str) -> None:
    found = []
    for wrap in (lambda f: f, fc.jit, lambda f: fc.jit(first(fc.value_and_grad(f)))):
        s = Rate()
        s.pair = functools.cache(lambda pair, log=s.log: log.append(pair) or float(sum(pair)))  # type: ignore[attr-defined]
        f, results = wrap(lambda x, n, s=s: OF_ARGUMENTS[name](s, x, n)), []
        for i in range(24):
            s.base += i % 6 == 5
            results.append((float(f(0.5 + i % 4, [3, 3, 3, 4, 3, 2][i % 6])), len(s.log)))
        found.append((results, list(s.log)))
    assert found[1] == found[0] and found[2] == found[0]


def test_hits_are_counted() -> None:
    s = Rate()
    f = fc.jit(lambda x: x * s.by_number(2))
    for i in range(6):
        f(1.0 + i)
    assert s.by_number.cache_info()[:2] == (5, 1)


def test_what_a_cache_holds_may_be_written() -> None:
    def run(wrap: Any) -> list[Any]:
        s = Rate()

        def f(x: Any) -> Any:
            s.table(3)[1] += 1.0
            return np.sum(s.table(3) * x)

        f, found = wrap(f), []
        for i in range(6):
            found.append(float(f(1.0 + i)))
        return found

    with pytest.warns(fc.errors.NotCompiledWarning, match=r"s.table\(3\) is written in place"):
        found = run(fc.jit)
    assert found == run(lambda f: f)


def test_an_argument_lives_no_longer() -> None:
    s, other = Rate(), Rate()
    here = [other]
    f = fc.jit(lambda x: x * s.of_object(here[0]))
    assert [f(1.0) for _ in range(4)] == [3.0] * 4
    gone = weakref.ref(other)
    del other
    here[0] = s
    s.base = 2.0
    assert f(1.0) == 6.0
    s.of_object.cache_clear()
    gc.collect()
    assert gone() is None


def test_what_cannot_be_hashed_is_refused_as_in_plain_python() -> None:
    s = Rate()
    f = fc.jit(lambda x: x * s.by_number([1]))
    for _ in range(3):
        with pytest.raises(TypeError, match="unhashable"):
            f(1.0)


class Held:
    """What a cached function may read or change beside its argument."""

    def __init__(self) -> None:
        self.k, self.log, self.table = 2.0, [], {"k": 3.0}  # type: ignore[var-annotated]
        held = self

        @functools.lru_cache
        def reads(v: float) -> float:
            return v * held.k

        @functools.lru_cache
        def reads_an_entry(v: float) -> float:
            return v * held.table["k"]

        @functools.lru_cache
        def measures(v: float) -> float:
            return v * len(held.log)

        @functools.lru_cache
        def stores(v: float) -> float:
            held.log.append(1.0)
            return v * v

        @functools.lru_cache
        def draws(v: float) -> float:
            return v * held.rng.normal()

        @functools.lru_cache
        def pure(v: float, power: int = 2) -> float:
            return scaled(v) ** power + np.sin(v) * np.pi

        self.rng = np.random.default_rng(0)
        self.functions = {f.__name__: f for f in (reads, reads_an_entry, measures, stores, draws, pure)}


def scaled(v: float, by: float = 3.0) -> float:
    return v * by


@pytest.mark.parametrize("name", ["reads", "reads_an_entry", "measures", "stores", "draws", "pure"])
def test_a_cache_that_is_given_a_traced_number(name: str) -> None:
    """Nobody can tell whether it has an answer, so what is not pure is not compiled."""

    def run(wrap: Callable[..., Any]) -> list[Any]:
        s = Held()
        f = wrap(lambda x: s.functions[name](x[0]) * x)
        found = []
        for i in range(12):
            if i == 7:
                s.k, s.table["k"] = 5.0, 7.0
                s.log.append(0.0)
            found.append((f(np.arange(1.0, 4.0) + i % 2).tolist(), len(s.log)))
        return found

    if name == "pure":
        found = run(fc.jit)
    else:
        with pytest.warns(fc.errors.NotCompiledWarning, match=f"in {name}, whose cache cannot be asked for a traced number"):
            found = run(fc.jit)
    assert found == run(lambda f: f)

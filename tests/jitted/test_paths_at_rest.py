"""Functions whose paths do not come again: they are called themselves for a while."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import funcad as fc
from funcad.backends.interpreter import counters
from funcad.jitted import account, first_calls
from tests.jitted.test_paths_calls import paths_of
from tests.unseen import Noted

pytestmark = pytest.mark.usefixtures("patient")


def bits(n):
    """A path of 80 questions for each n."""
    total = n * 0.0
    for i in range(80):
        total = total + i if int(n) >> (i % 14) & 1 else total - i
    return total


def test_recordings_are_rarer_while_no_path_comes_again():
    f, recorded = fc.jit(lambda n: bits(n)), []
    calls = np.random.default_rng(0).permutation(1 << 14)
    for k, n in enumerate(calls[:1500]):
        before = counters["traces"]
        assert f(float(n)) == bits(float(n))
        if counters["traces"] > before:
            recorded.append(k)
    assert len(recorded) < 12 and recorded[-1] < 1000
    with fc.config.set(jit_patience=0):  # a rest ends at its end; then the path that comes again and again is compiled
        paths_of(f).rest = 1
        for _ in range(8):
            assert f(float(calls[0])) == bits(float(calls[0]))
    assert paths_of(f).programs[0].leaf.visits > 1 and not paths_of(f).missed


def test_few_paths_are_recorded_until_they_are_known(monkeypatch):
    monkeypatch.setitem(account.COSTS, "free", 1.0)

    @fc.jit
    def signs(x):
        total = 0.0
        for i in range(5):
            if x[i] > 0:
                total = total + x[i]
                continue
            total = total - x[i]
        return total

    calls = np.random.default_rng(0).choice([-1.0, 1.0], size=(3000, 5))
    for x in calls[:2000]:
        signs(x)
    before = counters["traces"]
    for x in calls[2000:]:
        assert signs(x) == 5.0
    assert counters["traces"] == before and len(signs.explain(calls[0]).paths) == 32


def test_a_function_that_rests_gives_arrays_that_nobody_else_has():
    kept, mine = [], np.arange(3.0)

    @fc.jit
    def f(x, how):
        if how == 1:
            return x
        if how == 2:
            return x[::-1]
        if how == 3:
            return {"same": (x, x), "new": [x + 1.0, None]}
        if how == 4:
            return mine
        return x * 2.0

    f(mine, 0)
    paths_of(f).rest = 5
    for how in range(5):
        found = f(mine, how)
        kept += [x for x in fc.tree.leaves(found) if isinstance(x, np.ndarray)]
    assert paths_of(f).rest == 0
    for i, x in enumerate(kept):
        assert x.flags.writeable and not np.shares_memory(x, mine) and not any(np.shares_memory(x, y) for y in kept[:i])


def test_a_function_that_rests_is_called_itself():
    calls = Noted()

    def f(x):
        calls.note(type(x))
        s = np.sum(x)
        for i in range(70):
            if np.sin(s * (i + 1)) > 0:
                s = s + 0.1
                continue
            s = s * 0.9
        return s

    j, rng = fc.jit(f), np.random.default_rng(0)
    for _ in range(60):
        x = rng.normal(size=3)
        np.testing.assert_allclose(j(x), f(x), rtol=1e-12)
    assert len(calls) == 120  # each call runs Python once at most, and no program was right
    x = rng.normal(size=3)
    assert fc.grad(j)(x).shape == (3,)
    np.testing.assert_allclose(fc.grad(j)(x), fc.grad(f)(x), rtol=1e-9)


def calls_of(f, *args):
    """How many functions of Python's a call calls."""
    found = []
    sys.setprofile(lambda frame, event, arg: found.append(frame) if event == "call" else None)
    try:
        f(*args)
    finally:
        sys.setprofile(None)
    return len(found)


@pytest.mark.parametrize("ends", ["by patience", "by lower"])
def test_what_is_too_dear_to_be_recorded_is_called_itself_by_the_plainest_way(monkeypatch, ends):
    monkeypatch.setattr(first_calls, "OBSERVES", True)

    def long(x):
        for i in range(4000):
            x = x * 0.5 + i
        return x

    j, x = fc.jit(long), np.linspace(0.0, 1.0, 3)
    for k in range(20):
        np.testing.assert_array_equal(j(x + k), long(x + k))
    assert "given up" in str(j.cost()) and j.cost().calls == 20
    assert calls_of(j, x) <= calls_of(long, x) + 12
    with pytest.raises(TypeError, match="argument"):  # of another type: looked at
        j("text")
    np.testing.assert_array_equal(j(x), long(x))
    traces = counters["traces"]
    if ends == "by lower":
        j.lower(x).compile()
    with fc.config.set(jit_patience=0 if ends == "by patience" else fc.config.jit_patience):
        for _ in range(2):
            np.testing.assert_allclose(j(x), long(x), rtol=1e-12)
    assert counters["traces"] == traces + 1 and len(j._core.cache.entries) == 1
    assert next(iter(j._core.cache.entries.values())).runs == 2


def test_what_rests_beside_other_signatures_is_called_by_the_plainest_way(monkeypatch):
    monkeypatch.setitem(account.COSTS, "call", 4e-6)

    def relu(x):
        return x * 3.0 if x > 0 else x * 0.1

    j = fc.jit(relu)
    for k in range(40):
        for x in (2.0 - k, np.float64(2.0 - k)):
            assert j(x) == relu(x) and type(j(x)) is type(relu(x))
    assert all(e.paths.rest for e in j._core.cache.entries.values()) and len(j._core.cache.entries) == 2
    assert max(calls_of(j, 2.0), calls_of(j, np.float64(2.0))) <= 14


class Welford:
    def __init__(self):
        self.n, self.mean, self.total = 0, 0.0, 0.0

    def __call__(self, x):
        self.n += 1
        d = x - self.mean
        self.mean += d / self.n
        self.total += d * (x - self.mean)
        return self.total / (self.n - 1) if self.n > 1 else 0.0


class Average:
    def __init__(self):
        self.mean, self.high = 0.0, 0

    def __call__(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x
        if self.mean > 1.0:
            self.high += 1
        return self.mean


class Smoothed:
    mean = 0.0

    def __call__(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x
        return self.mean


@pytest.mark.parametrize("kind", [Welford, Average, Smoothed])
def test_few_numbers_that_advance_are_computed_by_the_function_itself(monkeypatch, kind):
    """A program that reads and stores them would take a hundred times as long."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    for call in ("call", "stored"):
        monkeypatch.setitem(account.COSTS, call, 1e-5)
    plain, advancing = kind(), kind()
    jitted = fc.jit(advancing)
    for k in range(3000):
        assert jitted(0.1 * (k % 37)) == pytest.approx(plain(0.1 * (k % 37)), rel=1e-12)
    assert vars(advancing) == pytest.approx(vars(plain), rel=1e-12)
    assert jitted.cost().calls > 2900 and calls_of(jitted, 1.0) <= 16  # what goes straight to a program is not counted

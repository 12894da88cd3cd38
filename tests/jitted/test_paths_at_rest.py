"""Functions whose paths do not come again: they are called themselves for a while."""

from __future__ import annotations

import numpy as np
import pytest

import funcad as fc
from funcad.backends.interpreter import counters
from funcad.jitted import account
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

"""Functions whose paths do not come again: they are called themselves for a while."""

from __future__ import annotations

import numpy as np

import funcad as fc
from funcad.backends.interpreter import counters
from funcad.jitted import path_entries, paths
from tests.jitted.test_paths_calls import paths_of
from tests.unseen import Noted


def test_rests_grow_while_no_path_comes_again(monkeypatch):
    clock = [0.0]

    def now():
        clock[0] += 1.0  # a look at the clock takes a second, a recording two of them
        return clock[0]

    for module in (paths, path_entries):
        monkeypatch.setattr(module, "perf_counter", now)
    monkeypatch.setattr(paths, "DEAR", 0)

    @fc.jit
    def bits(n):
        total, i = n * 0.0, 0
        while i < 14:
            total = total + i if int(n) >> i & 1 else total - i
            i += 1
        return total

    recorded, calls = [], np.random.default_rng(0).permutation(1 << 14)
    for k, n in enumerate(calls[:3000]):
        before = counters["traces"]
        bits(float(n))
        if counters["traces"] > before:
            recorded.append(k)
    rests = [b - a for a, b in zip(recorded, recorded[1:]) if b - a > 1][1:]  # the first is after more calls
    assert len(recorded) < 60 and len(rests) > 2 and all([b > 1.5 * a for a, b in zip(rests, rests[1:])])
    clock[0] += 1e9
    for _ in range(40):
        assert bits(float(calls[0])) == bits(float(calls[0]))
    bits(float(calls[-1]))  # a path that is unknown, after many that came again
    assert paths_of(bits)._rests == 0


def test_recordings_that_cost_little_beside_a_call_go_on_until_the_paths_are_known(monkeypatch):
    clock = [0.0]

    def now():
        clock[0] += 1.0
        return clock[0]

    for module in (paths, path_entries):
        monkeypatch.setattr(module, "perf_counter", now)

    @fc.jit
    def signs(x):
        total = 0.0
        for i in range(5):
            total = total + x[i] if x[i] > 0 else total - x[i]
        return total

    calls = np.random.default_rng(0).choice([-1.0, 1.0], size=(3000, 5))
    for x in calls[:2000]:
        signs(x)
    before = counters["traces"]
    for x in calls[2000:]:
        assert signs(x) == 5.0
    assert counters["traces"] == before and len(signs.explain(calls[0]).paths) == 32


def test_a_function_that_rests_gives_arrays_that_nobody_else_has(monkeypatch):
    monkeypatch.setattr(paths, "perf_counter", lambda: 0.0)
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
    paths_of(f).rest_until = 1.0
    for how in range(5):
        found = f(mine, how)
        kept += [x for x in fc.tree.leaves(found) if isinstance(x, np.ndarray)]
    for i, x in enumerate(kept):
        assert x.flags.writeable and not np.shares_memory(x, mine) and not any(np.shares_memory(x, y) for y in kept[:i])


def test_a_function_whose_paths_never_repeat_is_called_itself():
    calls = Noted()

    def f(x):
        calls.note(type(x))
        s = np.sum(x)
        for i in range(12):
            s = s + 0.1 if np.sin(s * (i + 1)) > 0 else s * 0.9
        return s

    j, rng = fc.jit(f), np.random.default_rng(0)
    for _ in range(60):
        x = rng.normal(size=3)
        np.testing.assert_allclose(j(x), f(x), rtol=1e-12)
        calls.pop()
    assert np.ndarray in calls  # not only traced
    paths_of(j).rest_until = 1e-9
    x = rng.normal(size=3)
    for _ in range(5):
        np.testing.assert_allclose(j(x), f(x), rtol=1e-12)
    assert fc.grad(j)(x).shape == (3,)

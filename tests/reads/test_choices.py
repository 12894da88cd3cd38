"""Choices between numbers become selections once paths have differed at them: one program, Python's values and derivatives."""

from __future__ import annotations

import importlib
import math
import sys
import warnings

import numpy as np
import pytest

import funcad as fc
from funcad.backends.interpreter import counters
from tests.jitted.test_paths_calls import paths_of

pytestmark = pytest.mark.usefixtures("patient")


def one_program(f):
    return next(iter(f._core.cache.entries.values())).paths is None


def normal(seed, n):
    return np.random.default_rng(seed).normal(size=n)


def leaky(x):
    return x * 3.0 if x > 0 else x * 0.1


def walk(x):
    s = 0.0
    for i in range(6):
        s = s + x[i] if s < 1.0 else 0.9 * s - abs(x[i])
    return s


def ball(x, v):
    for _ in range(30):
        v = v - 0.0981
        x = x + v * 0.1
        if x < 0:
            x, v = -x, -0.8 * v
    return x


def clipped(x):
    s = x[0]
    if s < 1e-8:
        s = 1e-8
    return s * x[1]


def piecewise(x):
    total = 0.0
    for i in range(4):
        if x[i] > 1:
            total = total + np.log(x[i])
        elif x[i] > 0:
            total += x[i] - 1
        else:
            total = total + 2 * x[i] - 1
    return total


def annealed(x, noise):
    best = x * x
    for i in range(5):
        y = x + 0.1 * noise[i]
        if y * y < best or noise[i] > 2.0 and y > 0:
            x, best = y, y * y
    return best + x


def halved(x):
    return [max(v, 0.2) if v > 0.5 else v / 2 for v in x][1] * x[0]


CASES = {
    leaky: [(1.0,), (-1.0,), (0.0,), (np.float64(2.0),)],
    walk: [(normal(k, 6),) for k in range(5)],
    ball: [(1.0, 0.0), (0.3, -0.4), (0.0, 1.0)],
    clipped: [(np.array([0.0, 2.0]),), (np.array([2.0, 3.0]),), (np.array([1e-8, 1.0]),)],
    piecewise: [(2 * normal(k, 4),) for k in range(6)],
    annealed: [(1.0 + k, normal(k, 5)) for k in range(5)],
    halved: [(normal(k, 2),) for k in range(6)],
}


def twice(f):
    return fc.grad(lambda *args: np.sum(fc.grad(f)(*args)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("transform", [lambda f: f, fc.grad, twice], ids=["values", "grad", "twice"])
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_values_types_and_derivatives_are_pythons(f, transform):
    plain, j = transform(f), fc.jit(transform(f))
    for args in 4 * CASES[f]:
        expected, found = plain(*args), j(*args)
        assert type(found) is type(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("f", [walk, ball, piecewise, annealed, halved], ids=lambda f: f.__name__)
def test_paths_become_one_program(f):
    j = fc.jit(fc.grad(f))
    for args in 3 * CASES[f]:
        j(*args)
    assert one_program(j)
    traces = counters["traces"]
    for args in CASES[f]:
        j(*args)
    assert counters["traces"] == traces
    assert "as selections" in str(j.cost()) and j.lower(*CASES[f][0]) is not None


def test_a_path_that_stays_the_same_stays_a_path():
    j = fc.jit(fc.grad(clipped))
    for _ in range(6):
        j(np.array([2.0, 3.0]))
    assert paths_of(j) is not None


@pytest.mark.parametrize("x", [0.0, -1.0, 4.0])
def test_what_is_not_chosen_has_no_part_in_derivatives(x):
    def root(x):
        return np.sqrt(x[0]) if x[0] > 0 else x[0] * 0.0

    def inverse(x):
        y = x[0]
        return 1.0 / y if y != 0 else y

    for f in (root, inverse):
        j = fc.jit(fc.grad(f))
        for y in (1.0, -1.0, 0.0, 2.0, x):
            np.testing.assert_array_equal(j(np.array([y])), fc.grad(f)(np.array([y])))
        assert one_program(j)


class Counted:
    """Has items, and counts who asks for them."""

    asked = 0

    def __getitem__(self, key):
        self.asked += 1
        return 2.0


def test_what_could_raise_or_act_is_not_computed():
    counted, zero, xs, log = Counted(), 0.0, [1.0, 2.0], [0]

    def item(x):
        return x * counted[0] if x > 0 else x

    def beyond(x):
        return x * xs[len(xs) + 3] if x > 9 else x * 2.0

    def by_zero(x):
        return x / zero if x > 9 else x * 2.0

    def outside_of_log(x):
        return math.log(x) if x > 0 else x * 2.0

    def unbound(x):
        if x > 9:
            y = x
        if x > 9:
            x = y
        return x

    def extended(x):
        mine = [x]
        if x > 0:
            mine += [x]
        return mine[-1] * len(mine)

    def said(x):
        return log.append(1) or x if x > 9 else x * 2.0

    for f in (item, beyond, by_zero, outside_of_log, unbound, extended, said):
        j = fc.jit(f)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for x in 3 * (1.5, -1.5, 0.0, 3.0):
                assert j(x) == f(x)
    before = counted.asked
    j = fc.jit(item)
    assert [j(-1.0) for _ in range(4)] == 4 * [-1.0] and counted.asked == before
    assert log == [0]


def test_ints_and_what_python_knows_stay_questions():
    def counts(x):
        n = 0
        for i in range(3):
            n = n + 1 if x[i] > 0 else n
        return x[0] * n

    def steps(x):
        h = 1.0
        while h > 0.1:
            h = h * 0.5 if x * h > 1.0 else h * 0.25
        return x * h

    for f, args in ((counts, [normal(k, 3) for k in range(6)]), (steps, [0.5, 3.0, 9.0, 30.0])):
        j = fc.jit(f)
        for x in 3 * args:
            assert j(x) == f(x)
        assert paths_of(j) is not None


def test_questions_that_are_no_choices_keep_their_paths():
    def f(x):
        s = x
        for _ in range(4):
            if s > 10.0:
                break
            s = s * 2.0 if s > 1.0 else s + 1.0
        return s

    j = fc.jit(f)
    for x in 3 * (0.1, 3.0, 20.0, -2.0):
        assert j(x) == f(x)
    assert paths_of(j) is not None and not j._core.cache.chooses


def test_a_handler_that_takes_everything_does_not_go_on():
    def f(x):
        try:
            for _ in range(6):
                x = x * 1.5 if x > 0 else x + 1.0
        except:  # noqa: E722
            x = x * 0.0 - 7.0
            x = x * 2.0 if x > 0 else x
        return x

    j = fc.jit(f)
    for x in 3 * (-2.0, 1.0, -0.5, 3.0, -4.0):
        assert j(x) == f(x)
    assert j._core.cache.chooses


def test_the_same_calls_decide_alike():
    def decisions():
        def f(x):
            return walk(x) * 2.0

        j = fc.jit(fc.grad(f))
        results = [j(normal(k, 6)) for k in range(12)]
        return j.cost().decisions, [r.tobytes() for r in results]

    assert decisions() == decisions()


def test_locals_and_globals_are_as_python_has_them():
    def f(x, y):
        if x > 0:
            y = y * 2.0
        return y, sorted(locals())

    j = fc.jit(lambda x, y: f(x, y)[0])
    for x in 3 * (1.0, -1.0):
        assert j(x, 3.0) == f(x, 3.0)[0]
    assert f(1.0, 2.0)[1] == ["x", "y"]


def module_of(text, name, folder, monkeypatch):
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module(name)


@pytest.mark.parametrize("terms", [2, 8])
def test_sides_may_be_long(terms, tmp_path, monkeypatch):
    one, other = ["".join([f" {sign} 0.{i + 1} * x[{i}]" for i in range(terms)]) for sign in "+-"]
    choice = f"s * 0.9{one} if s < x[i] else s * 0.5{other}"
    text = f"def f(x):\n    s = x[0]\n    for i in range(12):\n        s = {choice}\n    return s\n"
    f = module_of(text, f"sides_{terms}", tmp_path, monkeypatch).f
    for g in (f, fc.grad(f)):
        j = fc.jit(g)
        for k in range(5):
            np.testing.assert_allclose(j(normal(k, 12)), g(normal(k, 12)), rtol=1e-12)
        assert one_program(j)


def test_a_chain_of_elif_is_written_in_linear_time(tmp_path, monkeypatch):
    def chain(n):
        ways = "".join([f"    elif x < {k + 1}:\n        y = {k}.0 * x + 1.5\n" for k in range(n)])
        text = f"def f(x):\n    if x < 0:\n        y = 0.0 * x\n{ways}    else:\n        y = x\n    return y\n"
        return module_of(text, f"chain_{n}", tmp_path, monkeypatch).f

    def spent(n):
        f, found = chain(n), []
        j = fc.jit(f)
        sys.setprofile(lambda frame, event, arg: found.append(1) if event == "call" else None)
        try:
            j(0.5), j(n - 0.5)
        finally:
            sys.setprofile(None)
        for k in range(12):
            assert j(x := k * 7 % n + 0.5) == f(x)
        return len(found)

    spent(9)  # what is loaded once
    short, long = spent(30), spent(60)
    assert long <= 2.4 * short

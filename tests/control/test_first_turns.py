"""The first call of a long loop: it turns in Python until it is long enough for a program, which goes on from there."""

from __future__ import annotations

import numpy as np
import pytest

import funcad as fc
from funcad.backends import engines
from funcad.backends.engines import made
from funcad.backends.native import target
from funcad.control import loop_run
from tests.unseen import Noted

FEW, TURNS = 500, 3000


@pytest.fixture(autouse=True)
def soon_long(monkeypatch):
    monkeypatch.setattr(engines, "LONG_LOOP", FEW)
    monkeypatch.setattr(engines, "WHEN_LOADED", 1)  # whatever ran before


def looped(turns, stacked):
    def body(s):
        return s[0] + 1, (s[1] * 0.9 * (s[1] if stacked else 1.0) + 0.1) % 1.5

    return lambda x: fc.while_loop(lambda s: s[0] < turns, body, (0, x))[1]


def first_calls(f, x):
    """Of un-jitted and jitted functions and derivatives, each met for the first time."""
    return [f(x), fc.jit(f)(x), fc.grad(f)(x), fc.jit(fc.grad(f))(x), fc.jvp(f, (x,), (1.0,))[1]]


@pytest.mark.parametrize("stacked", [False, True])
def test_what_a_program_goes_on_with_is_the_loop(stacked):
    with fc.config.set(engine="interpreter"):
        expected = first_calls(looped(TURNS, stacked), 0.7)
    found = first_calls(looped(TURNS, stacked), 0.7)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("transform", [lambda f: f, fc.jit, fc.grad, lambda f: fc.jit(fc.grad(f))])
def test_few_turns_are_made_in_python(monkeypatch, transform):
    turns = Noted()
    own = loop_run.own_entry
    monkeypatch.setattr(loop_run, "own_entry", lambda value, roots: turns.note() or own(value, roots))
    compiled = made["compiled"]
    transform(looped(TURNS + 1, True))(0.6)
    assert made["compiled"] > compiled or transform is not fc.jit
    assert len(turns) < FEW


def test_entries_of_arrays_are_handed_on():
    def f(x):
        return np.sum(fc.while_loop(lambda s: s[0] < TURNS, lambda s: (s[0] + 1, np.sin(s[1] * 1.5) * s[1]), (0, x))[1])

    x = np.array([0.9, 1.1, 1.2])
    with fc.config.set(engine="interpreter"):
        expected = fc.grad(f)(x)
    np.testing.assert_allclose(fc.grad(f)(x), expected, rtol=1e-7, atol=1e-300)


@pytest.mark.parametrize("transform", [lambda f: f, fc.grad])
def test_short_loops_are_compiled_when_turns_have_cost_as_much(transform):
    def f(x):
        return fc.scan(lambda c, y: (np.sin(c) * y, c), x, np.arange(1.0, 6.0))[0]

    f, compiled = transform(f), made["compiled"]
    first = f(0.3)
    assert [f(0.3) for _ in range(FEW // 100)] == [first] * (FEW // 100)
    assert made["compiled"] == compiled
    np.testing.assert_allclose([f(0.3) for _ in range(FEW // 5)], first, rtol=1e-13)
    assert made["compiled"] > compiled


def test_an_unjitted_loop_is_a_text_for_numpy_before_it_is_native():
    f = looped(TURNS + 2, False)
    first = f(0.8)
    compiled = made["compiled"]
    assert [f(0.8) for _ in range(engines.TIER_UP_RUNS // 2)] == [first] * (engines.TIER_UP_RUNS // 2)
    assert made["compiled"] == compiled
    found = [f(0.8) for _ in range(engines.TIER_UP_RUNS)]
    np.testing.assert_allclose(found, first, rtol=1e-12)
    assert made["compiled"] > compiled or not target.available()

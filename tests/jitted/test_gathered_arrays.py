"""Many captured arrays become parts of few; what is read at each call stays what the caller's arrays hold then."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import config, grad, jit, value_and_grad
from funcad.jitted.captured_arrays import gathered, index_in
from funcad.jitted.jit_cache import Entry
from funcad.primitives.basic_indexing import basic_index_p

RNG = np.random.default_rng(31)


def entry_of(f: Callable[..., Any]) -> Entry:
    """The one program of a jitted function."""
    (entry,) = [e for e in gc.get_objects() if type(e) is Entry and e.code is f.__code__]
    return entry


def check(f: Callable[..., Any], x: np.ndarray, rtol: float = 1e-12) -> Entry:
    """Jitted, f gives what it gives, as does its gradient; the program."""
    with config.set(jit_patience=0):
        jitted = jit(f)
        for _ in range(3):
            np.testing.assert_allclose(jitted(x), f(x), rtol=rtol)
        np.testing.assert_allclose(jit(grad(f))(x), grad(f)(x), rtol=rtol)
    return entry_of(f)


def test_views_of_one_array_are_its_parts_and_read_at_each_call() -> None:
    columns, x = np.arange(96) * 7 % 50, RNG.normal(size=50)

    def f(x: Any) -> Any:
        return sum([x[columns[i : i + 3]] @ x[columns[i : i + 3]] * i for i in range(0, 90, 3)])

    assert len(check(f, x).consts) == 1
    with config.set(jit_patience=0):
        jitted = jit(f)
        jitted(x)
        columns[:] = columns[::-1].copy()
        np.testing.assert_allclose(jitted(x), f(x), rtol=1e-12)


def test_what_numpy_computes_on_the_way_is_put_together_once() -> None:
    def f(x: Any) -> Any:
        p, total = np.zeros(6), 0.0
        for j in range(40):
            p = -0.5 / (0.1 * p + 2.0 + j % 2)
            total = total + np.sum(np.sin(x * p))
        return total

    entry = check(f, RNG.normal(size=6))
    assert [np.shape(a) for a in entry.consts] == [(len({a.tobytes() for a in entry.consts[0]}), 6)]


def test_a_large_array_of_which_little_is_read_stays_outside() -> None:
    large = np.arange(10_000.0)

    def f(x: Any) -> Any:
        return sum([np.sum(x * large[i : i + 4]) for i in range(0, 80, 4)])

    assert {np.shape(a) for a in check(f, RNG.normal(size=4)).consts} == {(4,)}


def test_an_array_that_somebody_holds_is_read_where_it_is() -> None:
    held = [RNG.normal(size=4) for _ in range(12)]

    def f(x: Any) -> Any:
        return sum([np.sum(np.cos(x) * a) for a in held])

    x = RNG.normal(size=4)
    with config.set(jit_patience=0):
        jitted = jit(value_and_grad(f))
        for _ in range(3):
            for found, expected in zip(jitted(x), value_and_grad(f)(x), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            held[3][:] += 1.0


def test_results_and_few_arrays_are_left_alone() -> None:
    def f(x: Any) -> Any:
        made = [np.full(3, float(i)) for i in range(10)]
        return sum([x * a for a in made]), made[4]

    with config.set(jit_patience=0):
        jitted = jit(f)
        for _ in range(3):
            found = jitted(np.ones(3))
            np.testing.assert_array_equal(found[1], np.full(3, 4.0))
            found[1][:] = -1.0
        few = jit(lambda x: sum([x * np.full(3, float(i)) for i in range(4)]))
        np.testing.assert_array_equal(few(np.ones(3)), np.full(3, 6.0))


INDICES = [np.s_[2], np.s_[1:3], np.s_[:, 3], np.s_[::-1, 1:5:2], np.s_[0, ..., 2], np.s_[1:, 2:4, ::3], np.s_[3, 4]]


@pytest.mark.parametrize("index", INDICES)
def test_an_index_is_found_again(index: Any) -> None:
    base = np.arange(4 * 6 * 5).reshape(4, 6, 5)
    x = base[index]
    found = index_in(base, x)
    assert found is not None
    np.testing.assert_array_equal(basic_index_p(base, index=found), x)


def test_what_is_no_part_has_no_index() -> None:
    base = np.arange(24).reshape(4, 6)
    assert index_in(base, np.broadcast_to(base[0, :1], (3,))) is None
    assert index_in(base, base.T) is None
    assert index_in(base, base.reshape(24)[3:9]) is None


def test_a_program_of_few_captured_arrays_is_the_same() -> None:
    entry = check(lambda x: np.sum(x * np.arange(3.0)), np.ones(3))
    assert gathered(entry.jaxpr, entry.consts, 0)[0] is entry.jaxpr


def test_a_captured_broadcast_is_read_from_what_it_repeats() -> None:
    row, number, x = np.arange(4.0), np.array(2.0), RNG.normal(size=(3, 4))
    rows, numbers = np.broadcast_to(row, (3, 4)), np.broadcast_to(number, (3, 4))

    def f(x: Any) -> Any:
        return np.sum(x * rows + x * x * numbers)

    entry = check(f, x)
    assert sorted([np.shape(c) for c in entry.consts]) == [(3, 4), (4,)]  # the number itself is within the caller's reach
    with config.set(jit_patience=0):
        jitted = jit(f)
        jitted(x)
        row += 1.0
        number[...] = 5.0
        np.testing.assert_allclose(jitted(x), f(x), rtol=1e-12)


def test_a_broadcast_bool_that_nobody_can_write_is_one_of_the_program() -> None:
    x, ones = RNG.normal(size=(3, 4)), np.broadcast_to(True, (3, 4))

    def f(x: Any) -> Any:
        return np.sum(x * x * ones + ones)

    assert not check(f, x).consts
    with pytest.raises(ValueError):
        ones.flags.writeable = True
    np.testing.assert_array_equal(jit(lambda x: (ones, x))(x)[0], ones)  # a result stays an array of the caller's


def test_broadcasts_that_can_be_written_stay_arrays() -> None:
    x, memory = RNG.normal(size=(3, 4)), np.array([1.5])
    written = np.lib.stride_tricks.as_strided(memory, (3, 4), (0, 0))

    def f(x: Any) -> Any:
        return np.sum(x * x * written)

    assert len(check(f, x).consts) == 1
    with config.set(jit_patience=0):
        jitted = jit(f)
        jitted(x)
        memory[0] = -2.0
        np.testing.assert_allclose(jitted(x), f(x), rtol=1e-12)

"""A run of a mapped function may be broken off inside a `try`: what its `finally` then does counts for nothing."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad import vmap

X = np.array([1.0, -1.0, 2.0, -2.0])


def test_a_check_at_the_end_of_a_run_that_was_broken_off():
    def f(x):
        s = 0.0
        try:
            s = x * 2.0 if x > 0 else -x
        finally:
            assert s != 0.0, "too early"
        return s

    np.testing.assert_array_equal(vmap(f)(X), [2.0, 1.0, 4.0, 2.0])


def test_the_same_before_an_effect():
    seen = []

    def f(x):
        s = 0.0
        try:
            if x > 0:
                x = x * 2.0
            funcad.debug.callback(lambda v: seen.append(float(v)), x)
            s = x
        finally:
            assert s != 0.0, "too early"
        return s

    np.testing.assert_array_equal(vmap(f)(X), [2.0, -1.0, 4.0, -2.0])
    assert seen == [2.0, -1.0, 4.0, -2.0]


def test_what_it_finds_at_its_true_end_is_raised():
    def f(x):
        s = 0.0
        try:
            s = x * 2.0 if x > 0 else x + 1.0
        finally:
            assert s != 0.0, "is zero"
        return s

    with pytest.raises(AssertionError, match="is zero"):
        vmap(f)(X)
    np.testing.assert_array_equal(vmap(f)(X * 3.0), [6.0, -2.0, 12.0, -5.0])

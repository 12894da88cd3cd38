"""`max` and `min` of traced numbers are selections: no path, Python's values, types and derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import funcad as fc
from tests.jitted.test_paths_calls import paths_of

pytestmark = pytest.mark.usefixtures("patient")

VALUES = [0.0, -0.0, 1.0, -2.5, np.nan, np.inf, -np.inf]


def one_program(f):
    return next(iter(f._core.cache.entries.values())).paths is None


@pytest.mark.parametrize("best", [max, min])
@pytest.mark.parametrize("how", ["numbers", "list", "generator"])
def test_values_are_pythons(best, how):
    def f(a, b, c):
        if how == "numbers":
            return best(a, b, c)
        return best([a, b, c]) if how == "list" else best(x for x in (a, b, c))

    j = fc.jit(f)
    for a in VALUES:
        for b in VALUES:
            for c in (0.0, np.nan, 2.0):
                expected, found = f(a, b, c), j(a, b, c)
                assert type(found) is type(expected)
                assert np.float64(found).tobytes() == np.float64(expected).tobytes()
    assert one_program(j)


@pytest.mark.parametrize("best", [max, min])
def test_derivatives_are_those_of_the_first_of_equals(best):
    def f(x):
        return best(x[0] ** 2, x[1], 3.0 * x[2]) * best(x[1], x[0])

    j = fc.jit(fc.grad(f))
    for x in ([1.0, 1.0, 1.0], [1.0, 1.0, 1 / 3], [2.0, 4.0, 0.0], [0.5, 0.5, 0.5], [-1.0, 3.0, 2.0]):
        np.testing.assert_array_equal(j(np.array(x)), fc.grad(f)(np.array(x)))
    assert one_program(j)
    h = fc.jit(fc.hessian(f))
    np.testing.assert_allclose(h(np.array([2.0, 4.5, 0.1])), fc.hessian(f)(np.array([2.0, 4.5, 0.1])))


def test_dynamic_programmes_have_one_path():
    def distance(a, b):
        row = [1.0 * j for j in range(6)]
        for i in range(5):
            new = [1.0 * (i + 1)]
            for j in range(5):
                new.append(min(row[j + 1] + 1, new[j] + 1, row[j] + abs(a[i] - b[j])))
            row = new
        return row[-1]

    j = fc.jit(fc.grad(distance))
    for seed in range(6):
        a, b = np.random.default_rng(seed).normal(size=(2, 5))
        np.testing.assert_allclose(j(a, b), fc.grad(distance)(a, b), atol=1e-12)


def test_an_int_beside_a_float_and_keys_stay_questions():
    f, g = fc.jit(lambda x: max(x, 0)), fc.jit(lambda x, y: max(x, y, key=lambda v: -v))
    for x in (1.5, -1.5, 1.5, -1.5):
        assert f(x) == max(x, 0) and type(f(x)) is type(max(x, 0))
        assert g(x, 1.0) == min(x, 1.0)
    assert paths_of(f) is not None


def test_numbers_of_both_kinds_beside_narrow_arrays_are_questions():
    def f(x, w):
        return max(x[0], 1.0) * w

    j, w = fc.jit(f), np.ones(2, np.float32)
    for v in (0.5, 0.5, 2.0, 0.5, 2.0):
        found, expected = j(np.array([v]), w), f(np.array([v]), w)
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    assert not one_program(j) and len(j.explain(np.array([0.5]), w).paths) == 2
    wide = fc.jit(lambda x, w: f(x, w))
    for v in (0.5, 2.0):
        np.testing.assert_array_equal(wide(np.array([v]), np.ones(2)), f(np.array([v]), np.ones(2)))
    assert one_program(wide)


@pytest.mark.parametrize(
    "other", [np.float32(2), np.float16(2), np.int8(2), np.uint64(2), np.ones(1, np.int8), np.complex64(2j)]
)
@pytest.mark.parametrize("zero", [0.0, 0])
def test_numbers_of_both_kinds_beside_a_narrow_one_have_its_type(other, zero):
    f = lambda x: (other * max(zero, x[0] - 9), max(x[0] - 9, zero) + other)
    j = fc.jit(f)
    for v in (1, 1, 12, 1, 12):
        x = np.array([v], type(zero))
        for found, expected in zip(j(x), f(x)):
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_a_list_that_was_there_before_is_seen():
    bounds = [1.0, 2.0]
    f = fc.jit(lambda x: max([x, *bounds]) + max(bounds))
    for change in (1.0, 5.0, 7.0):
        bounds[0] = change
        assert f(3.0) == max([3.0, *bounds]) + max(bounds)


def test_lanes_of_vmap_need_not_split():
    x = np.random.default_rng(0).normal(size=(2, 9))
    f = fc.jit(fc.vmap(lambda a, b: max(a, b) - min(a, b)))
    np.testing.assert_array_equal(f(*x), np.abs(x[0] - x[1]))

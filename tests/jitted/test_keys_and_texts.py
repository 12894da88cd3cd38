"""Traced numbers as keys, as single masks and in texts; captured arrays whose shape is set in place."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

import funcad as fc


def as_plain(f: Any, *calls: tuple) -> None:
    jitted = fc.jit(f)
    for call in calls * 4:
        expected = f(*call)
        found = jitted(*call)
        assert repr(found) == repr(expected), call


def test_look_ups_ask_for_the_value():
    table = {1: 2.0, 2: 3.0, (1, 0): 5.0}
    as_plain(lambda x: {True: x, False: -x}[x > 0], (1.0,), (-1.0,))
    as_plain(lambda x, k: x * table[k], (1.0, 1), (1.0, 2), (1.0, np.int64(1)))
    as_plain(lambda x, k: x * table[k, 0], (1.0, 1))
    as_plain(lambda x, k: x * (k in {1, 2}) + (k not in table), (1.0, 1), (1.0, 2), (1.0, 3))
    f = lambda x, k: x * table[k]
    with pytest.raises(KeyError):
        fc.jit(f)(1.0, 3)
    assert fc.vmap(f)(np.ones(3), np.array([1, 2, 1])).tolist() == [2.0, 3.0, 2.0]
    assert fc.grad(fc.jit(f))(1.0, 2) == 3.0 == fc.grad(f)(1.0, 2)


def test_what_would_keep_the_key_is_refused():
    kept: dict[Any, Any] = {}

    def stores(x: Any, k: Any) -> Any:
        kept[k] = 1.0
        return x

    with pytest.raises(TypeError, match="unhashable type: a traced"):
        fc.jit(lambda x, k: x + len({x}))(1.0, 2)
    g = fc.jit(stores)
    g(1.0, 2), g(1.0, 3), g(1.0, 2)
    assert kept == {2: 1.0, 3: 1.0} and {type(k) for k in kept} == {int}
    table = {1: 2.0, 2: 3.0}
    for f in (
        lambda x, k: x * table.get(k, 5.0),
        lambda x, k: x * table.setdefault(k, 7.0),
        lambda x, k: x + hash(k),
        lambda x, k: x * {1: 2.0}.pop(k, 4.0),
    ):
        g = fc.jit(f)
        assert [g(1.0, k) for k in (1, 2, 5, 5, 1)] == [f(1.0, k) for k in (1, 2, 5, 5, 1)]
    assert fc.jit(lambda x, k: x * functools.lru_cache(lambda n: 2.0 * n)(k))(1.0, 2) == 4.0  # it is called without its cache
    with pytest.raises(TypeError, match=r"unhashable type: a traced int64 scalar"):
        fc.scan(lambda c, k: (c + {0: 1.0, 1: 2.0}[k], None), 0.0, np.arange(2))


def test_a_truth_is_a_mask_and_no_index():
    a = np.arange(3.0)
    as_plain(lambda a, k: a[k], (a, True), (a, False), (a, np.True_))
    as_plain(lambda a, k: a[k, 1:], (a, True), (a, False))
    as_plain(lambda a, x: a[x > 0], (a, 1.0), (a, -1.0))

    def writes(a: Any, x: Any) -> Any:
        a = a + 0.0
        a[x > 0] = 7.0
        return a

    as_plain(writes, (a, 1.0), (a, -1.0))


def test_format_codes_ask_for_the_value():
    as_plain(lambda x: x * (f"{x:.2f}" == "1.00"), (1.0,), (2.0,))
    as_plain(lambda x: x * float(f"{x:.2f}"), (1.234,), (2.0,))
    as_plain(lambda k, x: x * float(f"{k:03d}"), (1, 2.0), (2, 2.0))
    as_plain(lambda x: x * float(format(x, ".1e")), (1.234,))
    with pytest.raises(TypeError, match="float"):
        fc.make_jaxpr(lambda x: x * float(f"{x:.2f}"))(1.0)


@pytest.mark.parametrize("engine", ["auto", "numpy", "interpreter"])
def test_captured_arrays_whose_shape_is_set(engine: str):
    with fc.config.set(engine=engine), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy, on setting a shape
        a = np.arange(6.0)
        f = fc.jit(lambda x: (a * x).sum(0))
        slope = fc.jit(fc.grad(lambda x: (a * x).sum()))
        for shape in ((6,), (6,), (6,), (2, 3), (2, 3), (2, 3), (3, 2), (6,), (6,), (1, 6)):
            a.shape = shape
            np.testing.assert_array_equal(f(2.0), (a * 2.0).sum(0))
            assert slope(2.0) == 15.0

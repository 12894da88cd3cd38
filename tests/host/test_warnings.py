"""Warnings: at the user's line, from primal work only, in the errstate of the place where the operation was written."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from funcad import grad, hessian, jacrev, jvp, psum, vmap


def logs(x):
    y = np.log(x)
    z = 1.0 / x
    with np.errstate(divide="ignore"):
        return y + z + np.log(x)


@pytest.mark.parametrize("transform", [grad, lambda f: lambda x: jvp(f, (x,), (x,)), hessian], ids=["grad", "jvp", "hessian"])
def test_warnings_name_the_users_line_every_line(transform):
    first, later = [], []
    for found in (first, later):
        with warnings.catch_warnings(record=True) as caught_now:
            warnings.simplefilter("always")
            transform(logs)(np.float64(0.0))
        found += [(w.filename, w.lineno - logs.__code__.co_firstlineno, str(w.message)) for w in caught_now]
    names = [(line, text) for file, line, text in first if file == __file__]
    assert len(names) == len(first)
    assert set(names) >= {(1, "divide by zero encountered in log"), (2, "divide by zero encountered in scalar divide")}
    assert first == later


def test_two_lines_warn_once_each_under_pythons_default_filter():
    def f(x):
        y = np.log(x)
        return np.sum(y + np.log(2.0 * x))

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            grad(f)(np.zeros(2))
    lines = [w.lineno - f.__code__.co_firstlineno for w in found if "in log" in str(w.message)]
    assert lines == [1, 2]


def test_derivative_work_does_not_warn_under_vmap():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(vmap(grad(np.sqrt))(np.array([0.0, 1.0])), [np.inf, 0.5])
        np.testing.assert_array_equal(vmap(vmap(grad(np.sqrt)))(np.zeros((2, 2))), np.full((2, 2), np.inf))
        np.testing.assert_array_equal(jacrev(lambda x: np.sqrt(x))(np.array([0.0]))[0], [np.inf])
        vmap(lambda x: jvp(np.sqrt, (x,), (x,))[1])(np.zeros(2))
        vmap(lambda x: psum_of(grad(np.sqrt)(x)), axis_name="i")(np.zeros(2))


def psum_of(x):
    return psum(x, "i")


def test_primal_work_warns_under_vmap_and_obeys_errstate():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        vmap(logs)(np.array([0.0, 1.0]))
        vmap(grad(logs))(np.array([0.0, 1.0]))
    texts = [(w.filename, w.lineno - logs.__code__.co_firstlineno, str(w.message)) for w in found]
    assert [t for t in texts if "in log" in t[2]] == [(__file__, 1, "divide by zero encountered in log")] * 2
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        vmap(logs)(np.array([0.0, 1.0]))

    def raises(x):
        with np.errstate(divide="raise"):
            return np.log(x)

    with pytest.raises(FloatingPointError):
        vmap(raises)(np.zeros(2))
    np.testing.assert_array_equal(np.geterr()["divide"], "warn")


def test_the_users_own_error_handler_is_called():
    seen = []
    with np.errstate(divide="call", call=lambda kind, flag: seen.append(kind)):
        grad(np.log)(np.float64(0.0))
    assert seen == ["divide by zero"]

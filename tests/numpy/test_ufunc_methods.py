"""`accumulate`, `reduce`, `reduceat` of ufuncs without a rule of their own, object ufuncs, windows and strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import funcad
from funcad import config, grad, jit, vmap

X = np.random.default_rng(0).normal(size=6) + 2
PICK = np.frompyfunc(lambda a, b: a * b if a > b else a + b, 2, 1)
SPLIT = np.frompyfunc(lambda a: (a * a, -a), 1, 2)
PROGRAMS = {
    "logaddexp.accumulate": lambda x: np.sum(np.logaddexp.accumulate(x) ** 2),
    "subtract.accumulate": lambda x: np.sum(np.subtract.accumulate(x) ** 2),
    "power.accumulate": lambda x: np.sum(np.power.accumulate(x[:3])),
    "accumulate, axis": lambda x: np.sum(np.hypot.accumulate(x.reshape(2, 3), axis=1) ** 3),
    "divide.reduce": lambda x: np.divide.reduce(x),
    "hypot.reduce, axis": lambda x: np.sum(np.hypot.reduce(x.reshape(2, 3), axis=1) ** 3),
    "logaddexp.reduce, all": lambda x: np.logaddexp.reduce(x.reshape(2, 3), axis=None) ** 3,
    "logaddexp.reduce, keepdims": lambda x: np.sum(np.logaddexp.reduce(x.reshape(2, 3), axis=0, keepdims=True) ** 2),
    "initial": lambda x: np.logaddexp.reduce(x, initial=0.5),
    "add.reduceat": lambda x: np.sum(np.add.reduceat(x, [0, 2, 5, 3]) ** 2),
    "add.reduceat, rows": lambda x: np.sum(np.add.reduceat(x, [0, 2, 4, 5]) ** 2) + np.sum(np.add.reduceat(x, [1, 3, 5]) ** 3),
    "add.reduceat, axis": lambda x: np.sum(np.add.reduceat(x.reshape(2, 3).T, [0, 1, 2]) ** 2 * np.arange(6.0).reshape(3, 2)),
    "hypot.reduceat": lambda x: np.sum(np.hypot.reduceat(x - 3.0, [0, 2, 1, 4]) ** 3),
    "maximum.reduceat": lambda x: np.sum(np.maximum.reduceat(x, np.array([0, 3])) ** 2),
    "multiply.reduceat, axis": lambda x: np.sum(np.multiply.reduceat(x.reshape(2, 3), [0, 2], axis=1) ** 2),
    "logaddexp.outer": lambda x: np.sum(np.logaddexp.outer(x, x[:2])),
    "maximum.reduce, list": lambda x: np.sum(np.maximum.reduce([x, x**2 / 2, 3 - x]) ** 2),
    "minimum.reduce, tuple": lambda x: np.minimum.reduce((x[0], 2.0, x[1])) ** 2,
    "add.reduce, list": lambda x: np.sum(np.add.reduce([x, x**2], 1) ** 2),
    "multiply.reduce, list, keepdims": lambda x: np.sum(np.multiply.reduce([x, np.ones(6), x**2], keepdims=True)),
    "subtract.reduce, list": lambda x: np.sum(np.subtract.reduce([x**2, x, x**3]) ** 2),
    "hypot.reduce, list of lists": lambda x: np.hypot.reduce([[x[0], 1.0], [x[1], x[2]]], axis=None) ** 3,
    "logaddexp.reduce, list": lambda x: np.sum(np.logaddexp.reduce([x, 1 - x, np.zeros(6)])),
    "maximum.accumulate, list": lambda x: np.sum(np.maximum.accumulate([x, x**2 / 2, 3 - x]) ** 2),
    "logaddexp.accumulate, list": lambda x: np.sum(np.logaddexp.accumulate([x, 2 * x], axis=1)),
    "add.reduceat, list": lambda x: np.sum(np.add.reduceat([x[0], x[1], 2.0, x[2]], [0, 2]) ** 2),
    "multiply.outer, list": lambda x: np.sum(np.multiply.outer([x[0], x[1]], [x[2], 2.0]) ** 2),
    "list, out=": lambda x: np.sum(np.add.reduce([x, x**2], out=np.zeros(6)) ** 2),
    "initial= alone": lambda x: np.add.reduce(np.ones(3), initial=x[0]) ** 2,
    "fmax.reduce, where": lambda x: np.fmax.reduce(x, where=[True, False] * 3, initial=-9.0) ** 2,
    "logaddexp.reduce, where": lambda x: np.logaddexp.reduce(x, where=x > x[2] + 1e-3, initial=0.3),
    "hypot.reduce, where": lambda x: np.sum(np.hypot.reduce(x.reshape(2, 3), where=[[True], [False]], axis=1) ** 2),
    "logaddexp.reduce, where, all": lambda x: np.logaddexp.reduce(x.reshape(2, 3), None, where=[True, False, True]) ** 3,
    "divide.reduce, where": lambda x: np.divide.reduce(x, where=[True] * 5 + [False], initial=2.0),
    "order=": lambda x: np.sum(np.subtract(x.reshape(2, 3), 1.0, order="F").ravel("K") ** 2 * np.arange(6)),
    "subok=": lambda x: np.sum(np.sin(x, subok=False)),
    "frompyfunc": lambda x: np.sum(PICK(x, 2.5).astype(float) ** 2),
    "frompyfunc, two results": lambda x: np.sum(SPLIT(x)[0] * SPLIT(x)[1]),
    "sliding_window_view": lambda x: np.sum(np.sin(sliding_window_view(x.reshape(2, 3), (2, 2)))),
    "as_strided": lambda x: np.sum(as_strided(x, (4, 3), (8, 8)) ** 2),
    "as_strided of a transpose": lambda x: np.sum(as_strided(x.reshape(2, 3).T, (2, 2), (16, 8)) ** [[1.0, 2.0], [3.0, 4.0]]),
}


def diagonal(x: Any) -> Any:
    y = np.zeros((6, 6))
    d = as_strided(y, (6,), (56,))
    d[:] = x**2
    d[1] += x[0]
    y[2] = x[1] ** 3
    return np.sum(y * np.arange(36.0).reshape(6, 6)) + d @ np.arange(6.0)


def blocks(x: Any) -> Any:
    y = np.zeros((4, 4))
    parts = as_strided(y, (2, 2, 2, 2), (64, 16, 32, 8))
    parts[0, 1], parts[1, 1, 0] = x[0] ** 2, x[1:3]
    return np.sum(y * np.arange(16.0).reshape(4, 4)) + parts[1].sum()


def argument(x: Any) -> Any:
    x = x[1:]
    pairs, ends = as_strided(x, (2, 2), (8, 8)), as_strided(x, (2,), (32,))
    ends[1] = x[0] ** 2
    x[1] = x[2] * x[3]
    return np.sum(pairs * [[1.0, 2.0], [3.0, 4.0]]) + ends.sum() + x @ np.arange(5.0)


def of_a_buffer(x: Any) -> Any:
    y = np.zeros(5)
    windows, every = sliding_window_view(y, 2), sliding_window_view(y, 3, writeable=True)[:, ::2]
    y[1:3] = x[:2] ** 2
    return np.sum(windows * np.arange(8.0).reshape(4, 2)) + every[1:].sum()


def writeable(x: Any) -> Any:
    return np.sum(sliding_window_view(x, 2, writeable=True).sum(axis=1) ** 2)


PROGRAMS |= {f.__name__: f for f in (diagonal, blocks, argument, of_a_buffer, writeable)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, step = PROGRAMS[name], np.arange(6.0) * 1e-6
    expected = (f(X + step) - f(X - step)) / 2
    for g in (grad(f), jit(grad(f))):
        assert np.sum(g(X) * step) == pytest.approx(expected, rel=1e-5)
    jitted = jit(f)
    for _ in range(3):
        assert jitted(X.copy()) == pytest.approx(f(X.copy()), rel=1e-13)
    assert np.allclose(vmap(f)(np.stack([X, X + 0.1])), [f(X), f(X + 0.1)], rtol=1e-13)
    along = lambda x: np.sum(grad(f)(x) * step)
    second = (along(X + step) - along(X - step)) / 2
    assert np.sum(grad(along)(X) * step) == pytest.approx(second, rel=1e-4, abs=1e-18)


def test_an_object_ufunc_reduces_a_list() -> None:
    f = lambda x: PICK.reduce([x[0], 2.5, x[1]]) * 1.0
    x, step = np.array([3.0, 0.5]), np.array([1e-6, 2e-6])
    assert np.sum(grad(f)(x) * step) == pytest.approx((f(x + step) - f(x - step)) / 2, rel=1e-5)
    assert np.allclose(vmap(f)(np.stack([x, x + 0.1])), [f(x), f(x + 0.1)])


def test_refusals() -> None:
    with pytest.raises(ValueError, match="only supported for binary functions"):
        grad(lambda x: np.sum(np.sin.accumulate(x)))(X)
    with pytest.raises(ValueError, match="no identity"):
        grad(lambda x: np.sum(np.divide.reduce(x[:0])))(X)
    with pytest.raises(TypeError, match="where="):
        grad(lambda x: PICK.reduce(x, where=[True, False] * 3, initial=1.0))(X)
    with pytest.raises(ValueError, match="does not have an identity, so to use a where mask"):
        grad(lambda x: np.fmax.reduce(x, where=[True, False] * 3))(X)
    with pytest.raises(ValueError, match="not reorderable"):
        grad(lambda x: np.subtract.reduce(x.reshape(2, 3), axis=None))(X)
    with pytest.raises(ValueError, match="beyond the memory"):
        grad(lambda x: np.sum(as_strided(x, (9,), (8,))))(X)


REDUCED_AT = [
    lambda x: np.add.reduceat(x, [0, 2, 1], dtype=np.float32),
    lambda x: np.add.reduceat(x > 2, [2, 1]),
    lambda x: np.multiply.reduceat(x.astype(np.int8), [1, 5, 0]),
    lambda x: np.logical_and.reduceat(x, [2, 1, 0]),
]


@pytest.mark.parametrize("f", REDUCED_AT, ids=range(len(REDUCED_AT)))
def test_elements_alone_have_the_dtype_of_the_reduced_ones(f: Any) -> None:
    jitted, expected = jit(f), f(X)
    for found in (jitted(X), jitted(X), jitted(X), vmap(f)(X[None])[0]):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected)
    for index in (-1, 6):
        with pytest.raises(IndexError, match=f"index {index} out-of-bounds in add.reduceat"):
            grad(lambda x, i=index: np.add.reduceat(x, [0, i]).sum())(X)


def test_windows_are_written_where_numpys_are() -> None:
    read_only = [lambda x: sliding_window_view(x + 0, 2), lambda x: as_strided(x, (2,), (16,), writeable=False)]
    for view in read_only:
        for transform in (jit, grad, vmap):
            with pytest.raises(ValueError, match="read-only"):
                transform(lambda x, view=view: view(x).fill(1.0))(np.stack([X, X]) if transform is vmap else X.copy())
    with pytest.raises(funcad.errors.WriteError, match="overlapping"):
        grad(lambda x: sliding_window_view(x, 2, writeable=True).fill(x[0]) or np.sum(x))(X)


def test_flags_and_strides_of_traced_values() -> None:
    seen = []
    f = lambda x: seen.append((x.strides, x.T.strides, x.flags.c_contiguous, x.T.flags["F"], x.flags.writeable)) or x.sum()
    x = np.ones((2, 3))
    for g in (grad(f), jit(f), funcad.linearize):
        seen.clear()
        g(x) if g is not funcad.linearize else g(f, x)
        assert (x.strides, x.T.strides, True, True, True) in seen


FEW = [np.array([-2.5]), np.array([3, 2], "u1"), np.array([3]), np.ones((0, 2)), np.array([[1.5, 2.0]], "f4")]


@pytest.mark.parametrize("x", FEW, ids=range(len(FEW)))
@pytest.mark.parametrize("name", ["hypot", "logaddexp", "floor_divide", "copysign", "float_power"])
def test_few_elements_of_any_type_are_reduced_as_numpy_reduces_them(name: str, x: Any) -> None:
    """One element is combined with the identity, if there is one: hypot.reduce([-2.5]) is 2.5, and of integers a float."""
    for method in ("reduce", "accumulate"):
        f = lambda x, method=method: getattr(getattr(np, name), method)(x)
        with config.set(jit_patience=0):
            try:
                expected = f(x)
            except ValueError as error:  # no elements, and no identity
                with pytest.raises(ValueError, match=str(error)[:20]):
                    jit(f)(x)
            else:
                np.testing.assert_allclose(jit(f)(x), expected, rtol=1e-6 if x.dtype == "f4" else 1e-13, strict=True)


NARROW = np.array([1.1, 0.3, 2.7])


@pytest.mark.parametrize("name", ["maximum", "minimum", "hypot", "subtract", "add"])
def test_the_dtype_of_a_reduction_is_that_which_was_asked_for(name: str) -> None:
    def f(x: Any) -> Any:
        return getattr(np, name).reduce([x, x**2], dtype=np.float32)

    expected = f(NARROW)
    for found in (vmap(f)(NARROW[None])[0], jit(f)(NARROW), funcad.jvp(f, (NARROW,), (NARROW,))[0]):
        assert found.dtype == expected.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_list_is_reduced_once_in_a_function_that_acts() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        print("one line")
        return np.sum(np.maximum.reduce([x, 2 - x]))

    assert np.array_equal(grad(f)(np.array([0.5, 1.5])), [-1.0, 1.0])
    assert len(calls) == 1


def unary_at(x: Any) -> Any:
    y = x * 1
    np.negative.at(y, [0, 2])
    np.square.at(y, [1, 3, 3])
    np.exp.at(y, slice(4, 5))
    np.logaddexp.at(y, np.array([5, 5]), x[:2])
    y = y.reshape(2, 3)
    np.sin.at(y, (slice(None), 1))
    return np.sum(y * np.arange(1, 7).reshape(2, 3))


def test_ufuncs_at_places_that_are_repeated_go_on_from_each_result() -> None:
    step = np.arange(6.0) * 1e-6
    assert np.sum(grad(unary_at)(X) * step) == pytest.approx((unary_at(X + step) - unary_at(X - step)) / 2, rel=1e-6)
    assert np.array_equal(jit(unary_at)(X), unary_at(X))
    assert np.allclose(vmap(unary_at)(np.stack([X, X + 0.1])), [unary_at(X), unary_at(X + 0.1)], rtol=1e-13)
    for wrong in (lambda y: np.exp.at(y, [0], y[0]), lambda y: np.hypot.at(y, [0]), lambda y: np.modf.at(y, [0])):
        with pytest.raises(Exception) as expected:
            wrong(X * 1)
        with pytest.raises(type(expected.value), match=str(expected.value)):
            grad(lambda x, wrong=wrong: wrong(x * 1))(X)
    with pytest.raises(TypeError, match=r"Remedy: x\[index\] = np\.exp\(x\[index\]"):
        grad(lambda x: np.exp.at(x * 1, np.zeros(99, int)))(X)

"""Results whose shape depends on values, under jit: a guard on their number, then the operation with a known size."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import funcad as fc
import funcad.numpy as fnp
from funcad.backends.interpreter import counters
from funcad.errors import TracerBoolConversionError, TracerIntegerConversionError

X = np.array([0.5, -1.0, 2.0, 2.0, -3.0, 0.25])
MANY = [X, -X, X + 1.0, X - 10.0, X]
FUNCTIONS = {
    "returned": lambda x: x[x > 0],
    "in a list": lambda x: [x, x[x > 0]],
    "another mask": lambda x: x[x > 0] + x[~(x <= 0)],
    "sorted": lambda x: np.sort(x[x > 0]),
    "length": lambda x: len(x[x > 0]) * x,
    "shape": lambda x: np.zeros(x[x > 0].shape),
    "size in a condition": lambda x: x if x[x > 0].size else -x,
    "largest": lambda x: x[x < 100].max() if (x > 0).any() else x.min(),
    "dot": lambda x: np.dot(x[x > 0], x[x > 0]),
    "matmul": lambda x: x[x > 0] @ x[x > 0],
    "iterated": lambda x: sum(x[x > 0]) + 0.0 * x[0],
    "concatenated": lambda x: np.concatenate([x[x > 0], x[x <= 0]]),
    "with other indices": lambda x: x.reshape(2, 3)[x.reshape(2, 3)[:, 0] > 0, 1:],
    "rows": lambda x: x.reshape(3, 2)[x.reshape(3, 2)[:, 0] > 0],
    "written by values": lambda x: fnp.at(x)[x > 0].set(np.sort(x[x > 0])),
    "written by another mask": lambda x: fnp.at(x)[x > 0].set(-x[x > 0][::-1]),
    "nonzero": lambda x: np.sum(x[np.nonzero(x > 0)] ** 2),
    "where": lambda x: x[np.where(x > 0)[0]],
    "flatnonzero": lambda x: x[np.flatnonzero(x > 0)],
    "argwhere": lambda x: np.argwhere(x.reshape(2, 3) > 0),
    "two axes": lambda x: np.nonzero(x.reshape(2, 3) > 0),
    "compress": lambda x: np.compress(x > 0, x),
    "extract": lambda x: np.extract(x > 0, x),
    "unique": lambda x: np.unique(x),
    "unique and more": lambda x: np.unique(np.round(x), return_counts=True, return_inverse=True, return_index=True),
    "union1d": lambda x: np.union1d(x, np.array([2.0, 7.0])),
    "intersect1d": lambda x: np.intersect1d(x, np.array([2.0, 7.0])),
    "setdiff1d": lambda x: np.setdiff1d(x, np.array([2.0, 7.0])),
    "setxor1d": lambda x: np.setxor1d(np.unique(x), np.array([2.0, 7.0])),
    "repeat": lambda x: np.repeat(x, (x > 0) + 1),
    "bincount": lambda x: np.bincount((x > 0).astype(int)),
    "zeros": lambda x: np.zeros(int(np.sum(x > 0))),
    "slice": lambda x: x[: np.sum(x > 0)],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy(name):
    f = FUNCTIONS[name]
    jitted = fc.jit(f)
    for x in (*MANY, *MANY):
        compare(jitted(x), f(x) if not name.startswith("written") else fc.jvp(f, (x,), (x,))[0])


def compare(found, expected):
    found, expected = fc.tree_util.tree_leaves(found), fc.tree_util.tree_leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)


def loss(f):
    return lambda x: sum([np.sum(leaf * np.cos(leaf)) for leaf in fc.tree_util.tree_leaves(f(x)) if leaf.dtype.kind == "f"])


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["returned", "sorted", "concatenated", "nonzero", "unique", "repeat", "slice", "rows"])
def test_derivatives(name):
    f = loss(FUNCTIONS[name])
    inside, outside = fc.jit(fc.grad(f)), fc.grad(fc.jit(f))
    for x in (X, -X, X, X + 1.0, -X):
        expected = fc.grad(f)(x)
        np.testing.assert_allclose(inside(x), expected, rtol=1e-9)
        np.testing.assert_allclose(outside(x), expected, rtol=1e-9)


def test_one_path_for_each_count():
    f = fc.jit(lambda x: np.sort(x[x > 0]))
    f(X)
    traces = counters["traces"]
    for i in range(5):
        np.testing.assert_array_equal(f(np.roll(X, i)), np.sort(X[X > 0]))
    assert counters["traces"] == traces
    f(X - 10.0)
    assert counters["traces"] == traces + 1


def test_what_needs_no_count_asks_nothing():
    f = fc.jit(lambda x: np.sum(x[x > 0] ** 2) + x[x > 1].mean())
    f(X)
    traces = counters["traces"]
    f(X + 1.0), f(X + 2.0)
    assert counters["traces"] == traces
    assert "path" not in str(type(f.explain(X))).lower()


def test_without_guards_and_in_loops_as_before():
    with pytest.raises(TracerBoolConversionError):
        fc.jit(lambda x: np.sort(x[x > 0]), guards=False)(X)
    with pytest.raises(TracerIntegerConversionError):
        fc.jit(lambda x: np.nonzero(x), guards=False)(X)
    with pytest.raises(TracerIntegerConversionError):
        fc.jit(fc.vmap(lambda x: np.nonzero(x)[0]))(X[None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TracerBoolConversionError):
            fc.jit(lambda x: fc.lax.map(lambda v: v[v > 0], x[None]))(X)

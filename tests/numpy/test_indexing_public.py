"""Indexing as users write it: `x[...]`, `x.at[...]`, `fnp.at(x)[...]` with modes, take, put and select, against NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcad
import funcad.numpy as fnp
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from tests.numpy.test_indexing import arrays_and_indices, ramp

quick = settings(max_examples=120, deadline=None)


@quick
@given(arrays_and_indices())
def test_any_index_under_every_transform(case):
    shape, index = case
    x = ramp(shape) / 7.0
    try:
        expected = x[index]
    except (IndexError, DeprecationWarning):  # the latter of older NumPy, where the result has no elements
        with pytest.raises(IndexError):
            funcad.jit(lambda x: x[index])(x)
        return
    found = funcad.jit(lambda x: x[index])(x)
    assert np.array_equal(found, expected) and np.asarray(found).dtype == expected.dtype
    weights = np.cos(np.arange(np.size(expected), dtype=float)).reshape(np.shape(expected))
    gradient = np.zeros(shape)
    np.add.at(gradient, index, weights)
    assert np.allclose(funcad.grad(lambda x: (x[index] * weights).sum())(x), gradient)
    batch = np.stack([x, -2.0 * x])
    assert np.array_equal(funcad.vmap(lambda x: x[index])(batch), np.stack([expected, -2.0 * expected]))
    value, tangent = funcad.jvp(lambda x: x[index], (x,), (x + 1.0,))
    assert np.array_equal(value, expected) and np.array_equal(tangent, (x + 1.0)[index])


@quick
@given(arrays_and_indices(), st.sampled_from(["set", "add", "multiply", "min", "max"]))
def test_updates_under_jit_and_vmap(case, method):
    shape, index = case
    x = ramp(shape) / 3.0
    expected = x.copy()
    try:
        x[index]
    except (IndexError, DeprecationWarning):
        return
    {"set": np.ndarray.__setitem__, "add": np.add.at, "multiply": np.multiply.at, "min": np.minimum.at, "max": np.maximum.at}[
        method
    ](expected, index, 1.5)
    assert np.allclose(funcad.jit(lambda x, v: getattr(x.at[index], method)(v))(x, 1.5), expected)
    assert np.allclose(funcad.vmap(lambda x, v: getattr(x.at[index], method)(v), in_axes=(0, None))(x[None], 1.5)[0], expected)
    assert np.allclose(getattr(fnp.at(x)[index], method)(1.5), expected)


@pytest.mark.slow
@quick
@given(st.integers(1, 5), st.lists(st.integers(-9, 9), min_size=0, max_size=6), st.booleans())
def test_modes(n, positions, jitted):
    x = np.arange(1.0, n + 1.0)
    i = np.array(positions, int)
    whole = np.where(i < 0, i + n, i)
    inside = (whole >= 0) & (whole < n)
    v = np.linspace(2.0, 3.0, len(i))

    def run(f):
        return (funcad.jit(f) if jitted else f)(x, i, v)

    clipped = np.clip(whole, 0, n - 1)
    assert np.array_equal(run(lambda x, i, v: fnp.at(x)[i].get(mode="clip")), x[clipped])
    assert np.array_equal(
        run(lambda x, i, v: fnp.at(x)[i].get(mode="fill", fill_value=-7.0)), np.where(inside, x[clipped], -7.0)
    )
    assert np.isnan(run(lambda x, i, v: fnp.at(x)[i].get(mode="fill"))).sum() == (~inside).sum()
    for method, ufunc in (("add", np.add), ("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)):
        for mode, where, values in (("drop", whole[inside], v[inside]), ("clip", clipped, v)):
            expected = x.copy()
            ufunc.at(expected, where, values)
            assert np.allclose(run(lambda x, i, v, m=method, mode=mode: getattr(fnp.at(x)[i], m)(v, mode=mode)), expected)
    expected = x.copy()
    expected[whole[inside]] = v[inside]
    assert np.array_equal(run(lambda x, i, v: fnp.at(x)[i].set(v, mode="drop", unique_indices=False)), expected)


def test_modes_on_several_axes():
    x = np.arange(12.0).reshape(3, 4)
    found = fnp.at(x)[[0, 5, 1], [1, 2, 9]]
    assert np.array_equal(found.get(mode="fill", fill_value=-1.0), [1.0, -1.0, -1.0])
    assert np.array_equal(fnp.at(x)[7, 1:3].get(mode="fill", fill_value=0.0), [0.0, 0.0])
    assert np.array_equal(fnp.at(x)[7, 1:3].get(mode="clip"), x[2, 1:3])
    assert np.array_equal(fnp.at(x)[..., [1, 9]].get(mode="fill", fill_value=0.0), np.stack([x[:, 1], np.zeros(3)], 1))
    assert np.array_equal(
        fnp.at(x)[[0, 9], None, ::2].get(mode="fill", fill_value=0.0), np.stack([x[0, ::2], np.zeros(2)])[:, None]
    )
    expected = x.copy()
    expected[:, 1] *= 3.0
    assert np.array_equal(fnp.at(x)[:, [1, -9]].multiply(3.0, mode="drop"), expected)
    assert np.array_equal(fnp.at(x)[np.array([[True, False, True]]).repeat(4, 0).T].set(0.0, mode="drop")[1], x[1])
    assert fnp.at(np.arange(3))[[1, 7]].get(mode="fill").tolist() == [1, np.iinfo(int).min]
    assert fnp.at(np.arange(3, dtype=np.uint8))[[1, 7]].get(mode="fill").tolist() == [1, 255]
    assert fnp.at(np.array([False]))[[0, 7]].get(mode="fill").tolist() == [False, True]
    assert fnp.at(np.zeros((0, 2)))[[0, 1]].get(mode="fill", fill_value=5.0).tolist() == [[5.0, 5.0]] * 2
    gradient = funcad.grad(lambda x: (fnp.at(x)[[0, 9, 1], 0].multiply(x[2, 0], mode="drop") ** 2).sum())(x)
    loss = lambda x: x[2, 0] ** 2 * (x[0, 0] ** 2 + x[1, 0] ** 2) + (x[:, 1:] ** 2).sum() + x[2, 0] ** 2
    assert np.allclose(gradient, funcad.grad(loss)(x))


def test_out_of_bounds_raises_without_a_mode():
    x = np.arange(3.0)
    for f in (lambda x: fnp.at(x)[5].set(1.0), lambda x: fnp.at(x)[[0, 7]].get(), lambda x: x[7], lambda x: fnp.take(x, [7])):
        with pytest.raises(IndexError, match="out of bounds"):
            f(x)
        with pytest.raises(IndexError, match="out of bounds"):
            funcad.grad(lambda x, f=f: f(x).sum())(x)
    with pytest.raises(ValueError, match="mode='raise'"):
        fnp.at(x)[0].set(1.0, mode="raise")
    with pytest.raises(TypeError, match="fill_value"):
        fnp.at(x)[0].get(fill_value=1.0)


def test_traced_integer_indices():
    x = np.arange(12.0).reshape(3, 4)
    i = np.array([2, 0])
    assert np.array_equal(funcad.jit(lambda x, i: x[i, 1:])(x, i), x[i, 1:])
    assert np.array_equal(funcad.jit(lambda x, i: x[:, None, i[0]])(x, i), x[:, None, 2])
    assert np.array_equal(funcad.vmap(lambda i: fnp.take(x, i, 0))(i), x[i])
    with pytest.raises(TracerArrayConversionError, match=r"funcad.numpy.take\(x, i, 0\) instead of x\[i\]"):
        funcad.jit(funcad.vmap(lambda i: x[i]))(i)
    assert np.array_equal(funcad.vmap(lambda i: x[i])(i), x[i])  # each row is asked for
    assert np.array_equal(funcad.vmap(lambda i, x: x[..., i], in_axes=(0, None))(i, x), x.T[i])
    assert np.array_equal(funcad.jit(lambda x, i: x.at[i, 0].set(-1.0))(x, i), fnp.at(x)[i, 0].set(-1.0))
    assert np.array_equal(funcad.vmap(lambda i: fnp.at(x)[i].set(0.0))(i), np.stack([fnp.at(x)[k].set(0.0) for k in i]))
    with pytest.raises(TracerIntegerConversionError):
        funcad.jit(lambda x, n: x[:n], guards=False)(x, 2)


def test_masks():
    x = np.arange(6.0).reshape(2, 3)
    mask = x > 2.0
    assert np.array_equal(funcad.grad(lambda x: (x[x > 2.0] ** 2).sum())(x), 2 * x * mask)
    assert np.array_equal(funcad.jit(lambda x: x[mask])(x), x[mask])
    with pytest.raises(TracerBoolConversionError, match="np.where"):
        funcad.jit(lambda x: x[x > 2.0], guards=False)(x)
    assert np.array_equal(funcad.jit(lambda x: x.at[x > 2.0].set(0.0))(x), np.where(mask, 0.0, x))
    assert np.array_equal(funcad.jit(lambda x: x[np.True_, ...])(x), x[np.True_, ...])


def test_writing_functions_write():
    x = np.array([0.0, 1.5, 2.0])
    for f in (
        lambda x: np.put(x, 0, 1.0),
        lambda x: np.place(x, x > 1, 1.0),
        lambda x: np.putmask(x, x > 1, 1.0),
        lambda x: np.copyto(x, 1.0),
        lambda x: np.put_along_axis(x, np.array([0]), 1.0, 0),
        lambda x: np.fill_diagonal(x[:, None] * np.ones(3), 1.0),
    ):
        written = x.copy()
        assert f(written) is None
        value, gradient = funcad.value_and_grad(lambda x, f=f: f(x) or (x * x).sum())(x)
        assert value == (written * written).sum()
        np.testing.assert_array_equal(gradient, np.where(written == x, 2 * x, 0.0))
    fnp.put(x, [0], 5.0)
    fnp.place(x, x < 2.0, [7.0])
    fnp.put_along_axis(x, np.array([2]), -1.0, 0)
    assert x.tolist() == [5.0, 7.0, -1.0]


def test_functions_whose_size_is_given():
    x = np.array([0.0, 3.0, 0.0, 4.0])
    assert [i.tolist() for i in funcad.jit(lambda x: fnp.nonzero(x, size=3, fill_value=9))(x)] == [[1, 3, 9]]
    assert funcad.vmap(lambda x: fnp.flatnonzero(x, size=1))(np.stack([x, x[::-1]])).tolist() == [[1], [0]]
    assert funcad.jit(lambda x: fnp.argwhere(x.reshape(2, 2), size=1))(x).tolist() == [[0, 1]]
    assert funcad.jit(lambda x: fnp.unique(x, size=3))(x).tolist() == [0.0, 3.0, 4.0]
    assert funcad.jit(lambda x: fnp.unique(np.zeros_like(x[:0]), size=2, fill_value=1.0))(x).tolist() == [1.0, 1.0]
    assert funcad.grad(lambda x: (fnp.unique(x, size=5, fill_value=0.0) ** 2).sum())(x).tolist() == [0.0, 6.0, 0.0, 8.0]
    assert funcad.jit(lambda x: fnp.repeat(x, np.array([1, 0, 2, 0]) + 0 * x.astype(int), total_repeat_length=5))(
        x
    ).tolist() == [
        0.0,
        0.0,
        0.0,
        4.0,
        4.0,
    ]
    for f in (np.nonzero, np.unique, np.argwhere, np.flatnonzero):
        with pytest.raises(TracerIntegerConversionError, match="size=n"):
            funcad.jit(f, guards=False)(x)


def test_einsum_keeps_the_path_of_numpy():
    a, b, c = np.ones((3, 40)), np.ones((40, 5)), np.ones((5, 2))
    path = np.einsum_path("ij,jk,kl->il", a, b, c, optimize="optimal")[0]
    for optimize, count in ((True, 1), ("greedy", 1), (False, 1), ("optimal", 2), (path, 2), ([path[0], (1, 2), (0, 1)], 2)):
        f = functools.partial(np.einsum, "ij,jk,kl->il", optimize=optimize)
        products = [e for e in funcad.make_jaxpr(f)(a, b, c).equations if e.primitive.name in ("einsum", "dot_general")]
        assert len(products) == count, optimize
        assert np.allclose(funcad.jit(f)(a, b, c), f(a, b, c))
    assert np.allclose(funcad.grad(lambda a: np.einsum("ij,jk,kl->", a, b, c, optimize=path))(a), 10.0)


def test_vectorize_as_numpys():
    f = fnp.vectorize(lambda a, p: a**p, excluded=[1], otypes=[float])
    assert f(np.array([1, 2, 3]), 2).tolist() == [1.0, 4.0, 9.0]
    g = fnp.vectorize(lambda a, b=1.0: a + b)
    assert np.array_equal(g(np.arange(3.0), b=np.arange(2.0)[:, None]), np.arange(3.0) + np.arange(2.0)[:, None])
    h = fnp.vectorize(lambda x, y: (x @ y, x.sum()), signature="(n),(n)->(),()")
    out = h(np.ones((4, 3)), np.arange(3.0))
    assert out[0].shape == (4,) and out[1].tolist() == [3.0] * 4

    @fnp.vectorize
    def decorated(x):
        return x + 1

    assert decorated(np.arange(2)).tolist() == [1, 2]
    assert fnp.vectorize(signature="(n)->()")(lambda v: v.sum())(np.ones((2, 3))).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="otypes"):
        fnp.vectorize(lambda a: (a, a), otypes=[float])(np.ones(2))

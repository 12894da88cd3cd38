"""vmap: axes, pytree prefixes, sizes, names, chunks, errors."""

import numpy as np
import pytest

import funcad as fc
from funcad.errors import AxesMismatchError, TreeMismatchError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
Y = RNG.normal(size=(3, 4))


def test_in_and_out_axes():
    f = lambda x, y: x * 2.0 + np.sum(y)
    expected = X * 2.0 + Y.sum(0)[:, None]
    np.testing.assert_allclose(fc.vmap(f, in_axes=(0, 1))(X, Y), expected)
    np.testing.assert_allclose(fc.vmap(f, in_axes=(0, -1))(X, Y), expected)
    np.testing.assert_allclose(fc.vmap(f, in_axes=[0, 1], out_axes=1)(X, Y), expected.T)
    np.testing.assert_allclose(fc.vmap(f, in_axes=(0, 1), out_axes=-1)(X, Y), expected.T)
    np.testing.assert_allclose(fc.vmap(f, in_axes=(0, None))(X, Y), X * 2.0 + Y.sum())


def test_pytree_prefixes():
    f = lambda p, x: {"a": p["w"] * x, "b": (p["b"], x)}
    p = {"w": X, "b": 2.0}
    out = fc.vmap(f, in_axes=({"w": 0, "b": None}, None), out_axes={"a": 1, "b": (None, 0)})(p, 3.0)
    np.testing.assert_allclose(out["a"], 3 * X.T)
    assert out["b"][0] == 2.0
    np.testing.assert_array_equal(out["b"][1], np.full(4, 3.0))


def test_keyword_arguments_are_mapped_over_axis_0():
    np.testing.assert_allclose(fc.vmap(lambda x, *, s: x * s)(X, s=np.arange(4.0)), X * np.arange(4.0)[:, None])


def test_size_zero_and_one():
    assert fc.vmap(np.sin)(np.zeros((0, 3))).shape == (0, 3)
    np.testing.assert_array_equal(fc.vmap(np.sum)(np.ones((1, 3))), [3.0])


def test_axis_size():
    np.testing.assert_array_equal(fc.vmap(lambda x: x, in_axes=None, axis_size=3)(2.0), [2.0, 2.0, 2.0])
    with pytest.raises(AxesMismatchError, match="or axis_size=n"):
        fc.vmap(lambda x: x, in_axes=None)(2.0)
    with pytest.raises(AxesMismatchError, match="axis_size=3"):
        fc.vmap(lambda x: x, axis_size=3)(X)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 4, 9])
def test_chunk_size(chunk_size):
    f = lambda x, y: (np.sin(x), np.sum(x) * y)
    for a, b in zip(
        fc.vmap(f, in_axes=(0, 0), out_axes=(1, 0), chunk_size=chunk_size)(X, np.arange(4.0)),
        fc.vmap(f, in_axes=(0, 0), out_axes=(1, 0))(X, np.arange(4.0)),
    ):
        np.testing.assert_allclose(a, b)
    g = fc.grad(lambda x: np.sum(fc.vmap(np.sin, chunk_size=chunk_size)(x)))(X)
    np.testing.assert_allclose(g, np.cos(X))


def test_chunk_size_is_checked():
    with pytest.raises(ValueError, match="at least 1"):
        fc.vmap(np.sin, chunk_size=0)
    with pytest.raises(ValueError, match="cannot be combined"):
        fc.vmap(np.sin, chunk_size=2, axis_name="i")(X)


def test_out_axes_none_needs_an_unbatched_output():
    with pytest.raises(AxesMismatchError, match="depends on a mapped argument"):
        fc.vmap(lambda x: x, out_axes=None)(X)


def test_sizes_that_differ_are_named():
    with pytest.raises(AxesMismatchError) as info:
        fc.vmap(lambda p, y: y)({"w": X}, np.ones(3))
    assert str(info.value) == (
        "vmap of <lambda>: mapped axes must have equal sizes, but\n"
        "  argument [0]['w'] has size 4 along axis 0\n"
        "  argument [1] has size 3 along axis 0\n"
        "Remedy: None in in_axes, for an argument that is not mapped."
    )


def test_axis_out_of_range_is_named():
    with pytest.raises(AxesMismatchError, match=r"asks for axis 0 of argument \[1\], which is the float 2.0"):
        fc.vmap(lambda x, y: x)(X, 2.0)
    with pytest.raises(AxesMismatchError, match="has 1 entries"):
        fc.vmap(lambda x, y: x, in_axes=(0,))(X, X)
    with pytest.raises(TreeMismatchError, match=r"in_axes\[0\]"):
        fc.vmap(lambda x: x, in_axes=((0, 0),))((X, X, X))


def test_nested_with_every_transform():
    f = lambda x, y: np.sum(np.sin(x) * y)
    expected = np.array([[np.cos(x) * y for y in Y.T] for x in X])
    np.testing.assert_allclose(fc.vmap(lambda x: fc.vmap(lambda y: fc.grad(f)(x, y))(Y.T))(X), expected)
    np.testing.assert_allclose(fc.vmap(fc.vmap(fc.grad(f), (None, 0)), (0, None))(X, Y.T), expected)
    np.testing.assert_allclose(fc.jit(fc.vmap(fc.vmap(fc.grad(fc.jit(f)), (None, 0)), (0, None)))(X, Y.T), expected)


def test_values_have_no_truth_inside_jit():
    with pytest.raises(fc.errors.TracerBoolConversionError, match="inside vmap"):
        fc.jit(fc.vmap(lambda x: x if x > 0 else -x))(np.ones(3))


def test_results_belong_to_the_user():
    out = fc.vmap(lambda x, y: (y, x), in_axes=(0, None))(X, np.ones(3))
    out[0][0, 0] = 9.0  # a broadcast output is writeable and has no aliases
    assert out[0][1, 0] == 1.0
    assert not np.shares_memory(out[1], X)


def test_closures_over_outer_tracers():
    g = fc.grad(lambda w: np.sum(fc.vmap(lambda x: x * w)(X)))(2.0)
    np.testing.assert_allclose(g, X.sum())


@pytest.mark.parametrize("size", [2.5, "3"])
def test_chunks_have_whole_sizes(size):
    with pytest.raises(TypeError, match="chunk_size must be an int, got the"):
        fc.vmap(np.sin, chunk_size=size)(np.ones(4))


def test_integers_that_are_not_mapped_stay_pythons():
    seen = []

    def f(options, x):
        seen.append((type(options["n"]), options["exact"]))
        return x * [5.0, 6.0][options["n"]]

    given = {"n": 1, "exact": True}
    batch = fc.vmap(f, in_axes=(None, 0))
    assert batch(given, np.ones(2)).tolist() == [6.0, 6.0]
    assert fc.vmap(fc.grad(f, argnums=1), in_axes=(None, 0))(given, np.ones(2)).tolist() == [6.0, 6.0]
    assert fc.grad(lambda x: batch(given, x).sum())(np.ones(2)).tolist() == [6.0, 6.0]
    assert set(seen) == {(int, True)}

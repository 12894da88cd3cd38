"""funcad.ops, funcad.image, funcad.flatten_util: semantics and errors; values and derivatives are in tests/surface/ops.py."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import grad, hessian, image, jit, ops, vmap
from funcad.errors import TracerIntegerConversionError, TreeMismatchError
from funcad.flatten_util import ravel_pytree

X = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("compile", [lambda f: f, jit])
def test_ids_that_are_no_segment(compile) -> None:
    def total(mode):
        return compile(lambda x, i: ops.segment_sum(x, i, 3, mode=mode))

    for ids, dropped, clipped in (([0, 0, 1, 5], [3, 3, 0], [3, 3, 4]), ([-1, 0, 1, 1], [2, 7, 0], [3, 7, 0])):
        for mode in (None, "drop", "fill", "promise_in_bounds"):
            np.testing.assert_array_equal(total(mode)(X, np.array(ids)), dropped)
        np.testing.assert_array_equal(total("clip")(X, np.array(ids)), clipped)
    np.testing.assert_array_equal(compile(lambda x: ops.segment_sum(x, np.array([0, 0, 1, 5])))(X), [3, 3, 0, 0, 0, 4])
    with pytest.raises(ValueError, match="wrap"):
        total("wrap")(X, np.array([0, 0, 1, 1]))


@pytest.mark.parametrize("mode", [None, "clip"])
def test_no_segments(mode: str | None) -> None:
    for f in (ops.segment_sum, ops.segment_prod, ops.segment_max, ops.segment_min):
        assert f(X, np.array([0, 1, 2, 0]), 0, mode=mode).shape == (0,)


def test_ids_that_are_none_of_many_segments() -> None:
    """More segments than rows: what belongs to none is zeroed where it stands."""
    rows, ids = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, np.inf], [5.0, 6.0]]), np.array([-7, 4, 5, 4], np.int8)
    total = jit(lambda x, ids: ops.segment_sum(x, ids, 5))
    for f in (total, lambda x, ids: ops.segment_sum(x, ids, 5)):
        np.testing.assert_array_equal(f(rows, ids), [[0, 0]] * 4 + [[7, 9]])
        slope = grad(lambda x, f=f: np.sum(f(x, ids)[4] ** 2))(rows)
        np.testing.assert_array_equal(slope, [[0, 0], [14, 18], [0, 0], [14, 18]])
    np.testing.assert_array_equal(total(rows, np.array([0, 9, 200, 1], np.uint8))[:2], rows[[0, 3]])


def test_empty_segments_have_the_identity_of_the_dtype() -> None:
    ids = np.array([0, 0, 2, 2])
    for dtype, low, high in (
        (np.float32, -np.inf, np.inf),
        (np.int16, -(2**15), 2**15 - 1),
        (np.uint8, 0, 255),
        (bool, False, True),
    ):
        x = X.astype(dtype)
        assert ops.segment_max(x, ids, 3)[1] == low and ops.segment_max(x, ids, 3).dtype == dtype
        assert ops.segment_min(x, ids, 3)[1] == high
    assert ops.segment_prod(X, ids, 3)[1] == 1 and ops.segment_sum(X.astype(np.int32), ids, 3).dtype == np.int32
    assert ops.segment_sum(np.zeros((0, 2)), np.zeros(0, int), 3).shape == (3, 2)
    assert ops.segment_sum(X, ids, 0).shape == (0,)


def test_segments_over_several_axes() -> None:
    ids = np.array([[0, 1], [1, 0]])
    np.testing.assert_array_equal(ops.segment_sum(X.reshape(2, 2), ids, 2), [5.0, 5.0])
    np.testing.assert_array_equal(ops.segment_sum(np.ones((2, 2, 3)), ids, 2), np.full((2, 3), 2.0))


def test_derivatives_of_ties_and_zeros() -> None:
    ids = np.array([0, 0, 1, 0])
    x = np.array([2.0, 2.0, 5.0, 1.0])
    np.testing.assert_array_equal(grad(lambda x: ops.segment_max(x, ids, 3)[:2].sum())(x), [0.5, 0.5, 1.0, 0.0])
    np.testing.assert_array_equal(grad(lambda x: ops.segment_min(-x, ids, 3)[:2].sum())(x), [-0.5, -0.5, -1.0, 0.0])
    zeros = np.array([0.0, 3.0, 0.0, 2.0])
    np.testing.assert_array_equal(grad(lambda x: ops.segment_prod(x, ids, 2)[0])(zeros), [6.0, 0.0, 0.0, 0.0])
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = 2.0
    expected[0, 3] = expected[3, 0] = 3.0
    np.testing.assert_array_equal(hessian(lambda x: ops.segment_prod(x, ids, 2)[0])(zeros), expected)
    dropped = np.array([0, -1, 7, 0])
    np.testing.assert_array_equal(grad(lambda x: (ops.segment_max(x, dropped, 1) ** 2).sum())(X), [0.0, 0.0, 0.0, 8.0])


def test_segment_ids_per_lane() -> None:
    ids = np.array([[0, 0, 1, 1], [1, 5, -1, 0]])
    found = vmap(lambda x, i: ops.segment_sum(x, i, 2), in_axes=(None, 0))(X, ids)
    np.testing.assert_array_equal(found, [[3.0, 7.0], [4.0, 1.0]])


def test_errors_of_segments() -> None:
    ids = np.array([0, 0, 1, 1])
    with pytest.raises(TracerIntegerConversionError, match="num_segments=n"):
        jit(lambda x, i: ops.segment_sum(x, i))(X, ids)
    with pytest.raises(TracerIntegerConversionError, match="static_argnums"):
        jit(lambda x, n: ops.segment_sum(x, ids, n))(X, 2)
    for call, error, match in (
        (lambda: ops.segment_sum(X, ids * 1.0), TypeError, "integers"),
        (lambda: ops.segment_sum(X > 1, ids), TypeError, "not defined"),
        (lambda: ops.segment_max(X + 1j, ids), TypeError, "not defined"),
        (lambda: ops.segment_sum(X, ids[:2]), ValueError, "one row"),
        (lambda: ops.segment_sum(1.0, 0, 3), ValueError, "one row"),
        (lambda: ops.segment_sum(X, ids, -1), ValueError, "non-negative"),
        (lambda: ops.segment_sum(X, ids, bucket_size=0), ValueError, "bucket_size"),
        (lambda: ops.segment_sum(X, np.zeros(0, int)), ValueError, "one row"),
    ):
        with pytest.raises(error, match=match):
            call()


# -- images


@pytest.mark.parametrize("method", ["linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area"])
def test_resampling_keeps_constants(method: str) -> None:
    constant = np.full((5, 7), 3.0)
    for shape in ((3, 11), (5, 7), (10, 2), (1, 1)):
        for antialias in (True, False):
            np.testing.assert_allclose(image.resize(constant, shape, method, antialias), np.full(shape, 3.0), rtol=1e-12)


def test_resize() -> None:
    x = np.arange(6)
    np.testing.assert_array_equal(image.resize(x, (3,), "nearest"), [1, 3, 5])
    assert image.resize(x, (3,), "nearest").dtype == x.dtype
    assert image.resize(x, (3,), "linear").dtype == np.float64
    assert image.resize(x.astype(np.float32), (3,), image.ResizeMethod.CUBIC).dtype == np.float32
    np.testing.assert_allclose(image.resize(x, (3,), "area"), [0.5, 2.5, 4.5])
    assert image.resize(np.ones((2, 3)), (0, 3), "linear").shape == (0, 3)
    assert image.resize(x * 1.0, (6,), "lanczos5") is not None
    for call, error, match in (
        (lambda: image.resize(x, (3, 2), "linear"), ValueError, "as many axes"),
        (lambda: image.resize(x, (3,), "bogus"), ValueError, "unknown resize method"),
        (lambda: image.resize(x, (3,), 1), TypeError, "ResizeMethod"),
        (lambda: image.resize(x, (-3,), "linear"), ValueError, "negative"),
        (lambda: image.scale_and_translate(x, (3,), (0,), [1.0], [0.0], "nearest"), ValueError, "nearest"),
        (lambda: image.scale_and_translate(x, (3,), (0,), [1.0, 2.0], [0.0], "linear"), ValueError, "scale must have shape"),
        (lambda: image.scale_and_translate(x, (3,), (), [], [], "linear"), ValueError, "spatial_dims"),
    ):
        with pytest.raises(error, match=match):
            call()


def test_scale_and_translate_is_resize_where_both_apply() -> None:
    x = np.random.default_rng(0).normal(size=(5, 4))
    for method in ("linear", "lanczos3", "cubic"):
        found = image.scale_and_translate(x, (8, 3), (0, -1), np.array([8 / 5, 3 / 4]), np.zeros(2), method)
        np.testing.assert_allclose(found, image.resize(x, (8, 3), method), rtol=1e-12, atol=1e-14)


# -- ravel_pytree


def test_ravel_restores_dtypes_and_checks() -> None:
    tree = {"a": np.array([1, 2], np.float32), "b": (np.int32(3), [np.ones((2, 2))])}
    vector, unravel = ravel_pytree(tree)
    assert vector.dtype == np.float64
    back = unravel(vector)
    assert back["a"].dtype == np.float32 and back["b"][0].dtype == np.int32 and back["b"][1][0].shape == (2, 2)
    with pytest.raises(TreeMismatchError, match="7 elements"):
        unravel(vector[:3])
    with pytest.raises(TypeError, match="float64"):
        unravel(vector.astype(np.float32))
    vector, unravel = ravel_pytree({"w": np.ones(2), "b": 1.0})
    assert unravel(vector.astype(np.float32))["w"].dtype == np.float32
    assert unravel(vector + 1j)["w"].dtype == np.complex128
    vector, unravel = ravel_pytree([])
    assert vector.shape == (0,) and vector.dtype == np.float32 and unravel(vector) == []
    original = np.ones(3)
    vector, _ = ravel_pytree(original)
    vector[0] = 5.0
    assert original[0] == 1.0


def test_ravel_under_transforms() -> None:
    params = {"w": np.ones((2, 3)), "b": np.zeros(2)}
    vector, unravel = ravel_pytree(params)

    def loss(v):
        p = unravel(v)
        return p["w"].sum() ** 2 + (p["b"] ** 2).sum()

    np.testing.assert_array_equal(grad(loss)(vector), [0.0, 0.0, *[12.0] * 6])
    assert jit(hessian(loss))(vector).shape == (8, 8)
    assert vmap(lambda p: ravel_pytree(p)[0])({"w": np.ones((4, 2, 3)), "b": np.zeros((4, 2))}).shape == (4, 8)
    back = grad(lambda p: (ravel_pytree(p)[0] ** 2).sum())({"w": np.array([1, 2], np.float32), "b": 3.0})
    assert back["w"].dtype == np.float32 and back["b"] == 6.0

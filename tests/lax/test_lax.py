"""funcad.lax: JAX's names and strictness on NumPy arrays (tests/differential/test_lax_vs_jax.py compares it with JAX)."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import funcad
from funcad import lax
from funcad.testing import check_grads

X = np.array([[0.3, -1.2, 2.5], [1.7, 0.4, -0.6]])
Y = np.array([[1.1, 0.2, -0.5], [-2.0, 0.9, 3.1]])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    "name, ufunc",
    [
        ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("rem", np.fmod),
        ("max", np.maximum), ("min", np.minimum), ("atan2", np.arctan2), ("nextafter", np.nextafter), ("eq", np.equal),
        ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
        ("neg", np.negative), ("sign", np.sign), ("floor", np.floor), ("ceil", np.ceil), ("exp", np.exp), ("exp2", np.exp2),
        ("expm1", np.expm1), ("tanh", np.tanh), ("sin", np.sin), ("cos", np.cos), ("tan", np.tan), ("sinh", np.sinh),
        ("cosh", np.cosh), ("asinh", np.arcsinh), ("atan", np.arctan), ("cbrt", np.cbrt), ("square", np.square),
        ("abs", np.abs), ("is_finite", np.isfinite),
    ],
)  # fmt: skip
def test_elementwise_functions_are_numpys(name, ufunc):
    f = getattr(lax, name)
    args = (X, Y)[: ufunc.nin]
    out = f(*args)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, ufunc(*args))
    np.testing.assert_array_equal(funcad.jit(f)(*args), ufunc(*args))


@pytest.mark.parametrize(
    "call",
    [
        lambda: lax.add(np.ones(3, np.float32), np.ones(3)),
        lambda: lax.add(np.ones(3), 1),
        lambda: lax.add(np.ones(3), np.ones(2)),
        lambda: lax.add(np.ones(3), np.ones((2, 3))),
        lambda: lax.add(np.ones(3, bool), True),
        lambda: lax.add([1.0], [2.0]),
        lambda: lax.sin(np.arange(3)),
        lambda: lax.sqrt(4),
        lambda: lax.bitwise_and(np.ones(3), np.ones(3)),
        lambda: lax.real(np.ones(3)),
        lambda: lax.integer_pow(np.arange(3), -1),
        lambda: lax.max(np.ones(2, complex), np.ones(2, complex)),
        lambda: lax.select(np.array([True, False]), np.ones(3), np.ones(3)),
        lambda: lax.select(1.0, np.ones(3), np.ones(3)),
        lambda: lax.select_n(np.array([True] * 3), *[np.ones(3)] * 3),
        lambda: lax.clamp(0.0, np.ones(2, np.int32), 1.0),
        lambda: lax.concatenate([np.ones(3), np.ones(3, np.float32)], 0),
        lambda: lax.concatenate([np.ones((2, 3)), np.ones(3)], 0),
        lambda: lax.reshape(np.ones(3), (-1, 1)),
        lambda: lax.reshape(np.ones(3), (2, 2)),
        lambda: lax.transpose(np.ones((2, 3)), (0, 0)),
        lambda: lax.broadcast_in_dim(np.ones(3), (2, 3), (0,)),
        lambda: lax.broadcast_in_dim(np.ones((3, 3)), (3, 3), (1, 0)),
        lambda: lax.pad(np.ones(3, np.float32), np.float64(0), [(1, 1, 0)]),
        lambda: lax.pad(np.ones(3), 0.0, [(1, 1, -1)]),
        lambda: lax.slice(np.ones(3), (1,), (4,)),
        lambda: lax.dynamic_slice(np.ones(3), (0,), (4,)),
        lambda: lax.dynamic_slice(np.ones(3), (0.0,), (2,)),
        lambda: lax.dynamic_slice(np.ones((3, 2)), (0,), (2, 2)),
        lambda: lax.dynamic_update_slice(np.ones(3), np.ones(2, np.float32), (0,)),
        lambda: lax.dot_general(np.ones(3), np.ones(3), 0),
        lambda: lax.reduce((np.ones(3), np.ones(3)), 0.0, lax.add, (0,)),
        lambda: lax.reduce(np.ones(3), np.float32(0), lax.add, (0,)),
        lambda: lax.bitcast_convert_type(np.ones(3, np.uint8), np.float32),
        lambda: lax.sort(()),
    ],
)
def test_unequal_or_unsuitable_operands_raise_type_errors(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: lax.dot(2.0, np.ones(3)),
        lambda: lax.dot(np.ones(3), np.ones(4)),
        lambda: lax.batch_matmul(np.ones((2, 3, 4)), np.ones((4, 2))),
        lambda: lax.squeeze(np.ones(3), (0,)),
        lambda: lax.expand_dims(np.ones(3), (0, 0)),
        lambda: lax.split(np.ones(3), (1, 1)),
        lambda: lax.tile(np.ones(3), (1, 2)),
        lambda: lax.cumsum(np.ones(3), 1),
        lambda: lax.reduce_sum(np.ones(3), (1,)),
        lambda: lax.broadcast_shapes((2,), (3,)),
        lambda: lax.conv_transpose(np.ones((1, 3, 1)), np.ones((2, 1, 1)), (1,), "FULL"),
        lambda: lax.reduce_window(np.ones(3), 0.0, lax.add, (2, 2)),
        lambda: lax.top_k(np.ones(3), 4),
        lambda: lax.gather(np.ones(3), np.zeros((1, 1), int), lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="wrap"),
    ],
)
def test_parameters_that_do_not_fit_raise_value_errors(call):
    with pytest.raises(ValueError):
        call()


def test_messages_name_the_operands_and_the_remedy():
    with pytest.raises(TypeError, match=r"lax.add requires operands of equal dtypes, .*float32.* and .*float64.*funcad.numpy"):
        lax.add(np.ones(3, np.float32), np.ones(3))
    with pytest.raises(TypeError, match=r"lax.mul requires operands of equal shapes, .*\(3,\) and .*\(2,\).*broadcast_in_dim"):
        lax.mul(np.ones(3), np.ones(2))


def test_numbers_adapt_and_results_are_strong():
    x = np.ones(3, np.float32)
    assert lax.add(x, 1.0).dtype == np.float32
    assert lax.mul(np.ones(3, np.int8), 2).dtype == np.int8
    assert lax.add(np.ones(2, complex), 1.0).dtype == complex
    assert type(lax.add(1.0, 2.0)) is np.float64 and type(lax.sin(1.0)) is np.float64
    assert lax.mul(X, np.array(2.0)).shape == X.shape and lax.mul(X, np.ones((2, 1))).shape == X.shape
    assert funcad.jit(lambda x, c: lax.mul(x, c))(x, 2.0).dtype == np.float32


def test_integer_division_and_bits():
    x, y = np.array([-7, 7, -8, 8]), np.array([2, -2, 3, 3])
    np.testing.assert_array_equal(lax.div(x, y), [-3, -3, -2, 2])
    np.testing.assert_array_equal(lax.rem(x, y), [-1, 1, -2, 2])
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.uint64):
        bits = np.array([0, 1, 5, 127], dtype)
        np.testing.assert_array_equal(lax.population_count(bits), [0, 1, 2, 7])
        width = 8 * bits.dtype.itemsize
        np.testing.assert_array_equal(lax.clz(bits), [width, width - 1, width - 3, width - 7])
    negative = np.array([-8, -1], np.int8)
    np.testing.assert_array_equal(lax.shift_right_arithmetic(negative, np.int8(1)), [-4, -1])
    np.testing.assert_array_equal(lax.shift_right_logical(negative, np.int8(1)), [124, 127])
    np.testing.assert_array_equal(lax.round(np.array([0.5, -1.5, 0.49999999999999994, 2.5])), [1.0, -2.0, 0.0, 3.0])


def test_bitcasts_change_the_shape_with_the_width():
    x = np.array([1.0, -2.0])
    np.testing.assert_array_equal(lax.bitcast_convert_type(x, np.uint8), x.view(np.uint8).reshape(2, 8))
    back = lax.bitcast_convert_type(x.view(np.uint8).reshape(2, 8), np.float64)
    np.testing.assert_array_equal(back, x)
    np.testing.assert_array_equal(funcad.jit(lambda x: lax.bitcast_convert_type(x, np.int64))(x), x.view(np.int64))


def test_pad_has_derivatives_for_operand_and_value():
    config = [(1, -1, 1), (-1, 2, 0)]
    out = lax.pad(X, 9.0, config)
    np.testing.assert_array_equal(out, [[9.0] * 4, [*X[0, 1:], 9, 9], [9.0] * 4])
    check_grads(lambda x, v: lax.pad(x, v, config), (X, np.float64(0.5)), order=2)
    g = funcad.grad(lambda x: lax.pad(x, -np.inf, [(1, 0, 0)]).max())(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(g, [0.0, 1.0])


ROWS = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
INTO_ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
OUTSIDE = np.array([[0], [7], [-1]])


@pytest.mark.parametrize("jit", [False, True])
def test_gather_treats_windows_outside_by_mode(jit):
    wrap = funcad.jit if jit else lambda f: f
    x = normal(3, 2)

    def f(mode, **options):
        return wrap(lambda x, i: lax.gather(x, i, ROWS, (1, 2), mode=mode, **options))(x, OUTSIDE)

    np.testing.assert_array_equal(f("clip"), x[[0, 2, 0]])
    np.testing.assert_array_equal(f(None), x[[0, 2, 0]])
    np.testing.assert_array_equal(f("fill"), [x[0], [np.nan] * 2, [np.nan] * 2])
    np.testing.assert_array_equal(f("fill", fill_value=-1.0), [x[0], [-1] * 2, [-1] * 2])
    with pytest.raises(IndexError):
        f("promise_in_bounds")


@pytest.mark.parametrize("jit", [False, True])
def test_scatter_drops_windows_outside(jit):
    wrap = funcad.jit if jit else lambda f: f
    x, u = normal(3, 2), normal(3, 2, seed=1)
    for f, expected in ((lax.scatter, u[0]), (lax.scatter_add, x[0] + u[0]), (lax.scatter_max, np.maximum(x[0], u[0]))):
        out = wrap(lambda x, i, u, f=f: f(x, i, u, INTO_ROWS))(x, OUTSIDE, u)
        np.testing.assert_array_equal(out, [expected, x[1], x[2]])
        clipped = wrap(lambda x, i, u, f=f: f(x, i, u, INTO_ROWS, mode="clip"))(x, np.array([[5]]), u[:1])
        np.testing.assert_array_equal(clipped[:2], x[:2])
        assert not np.array_equal(clipped[2], x[2]) or f is lax.scatter_max
    check_grads(lambda x, u: lax.scatter_add(x, OUTSIDE, u, INTO_ROWS), (x, u), order=1)


def test_gather_of_windows_and_its_derivative():
    x = normal(5, 4)
    starts = np.array([[0, 1], [3, 2]])
    numbers = lax.GatherDimensionNumbers((0, 2), (), (0, 1))
    out = lax.gather(x, starts, numbers, (2, 2))
    np.testing.assert_array_equal(out, np.stack([x[0:2, 1:3], x[3:5, 2:4]], axis=1))
    check_grads(lambda x: lax.gather(x, starts, numbers, (2, 2)), (x,), order=2)
    batched = funcad.vmap(lambda x, s: lax.gather(x, s, numbers, (2, 2)))(np.stack([x, 2 * x]), np.stack([starts, starts]))
    np.testing.assert_array_equal(batched[1], 2 * out)


def test_dynamic_slices_clamp_and_wrap():
    x = np.arange(6.0)
    for start, first in ((9, 4), (-2, 4), (1, 1)):
        np.testing.assert_array_equal(lax.dynamic_slice(x, (start,), (2,)), x[first : first + 2])
        jitted = funcad.jit(lambda x, s: lax.dynamic_slice(x, s, (2,)))
        np.testing.assert_array_equal(jitted(x, np.array([start])), x[first : first + 2])
    np.testing.assert_array_equal(lax.dynamic_slice(x, (-2,), (2,), allow_negative_indices=False), x[:2])
    out = lax.dynamic_update_index_in_dim(X, np.array([7.0, 8.0]), 1, 1)
    np.testing.assert_array_equal(out[:, 1], [7.0, 8.0])


def test_reduce_knows_monoids_and_folds_other_functions():
    np.testing.assert_allclose(lax.reduce(X, 1.5, lax.add, (1,)), X.sum(1) + 1.5)
    np.testing.assert_allclose(lax.reduce(X, -np.inf, np.maximum, (0, 1)), X.max())
    np.testing.assert_allclose(lax.reduce(np.ones((0, 2)), 3.0, lax.add, (0,)), [3.0, 3.0])
    x = normal(7, 2)

    def compose(a, b):  # affine maps: associative, not commutative
        return a[0] * b[0], a[1] * b[0] + b[1]

    slope, offset = lax.reduce((x, x), (1.0, 0.0), compose, (0,))
    value = np.zeros(2)
    for row in x:
        value = value * row + row
    np.testing.assert_allclose(offset, value)
    np.testing.assert_allclose(slope, x.prod(0))
    check_grads(lambda x: lax.reduce((x, x), (1.0, 0.0), compose, (0,))[1], (x,), order=2)
    np.testing.assert_array_equal(lax.reduce_xor(np.arange(8), (0,)), 0)
    assert lax.reduce_max(np.ones((0,)), (0,)) == -np.inf and lax.reduce_and(np.ones((0,), bool), (0,))


def test_reduce_window_of_any_monoid():
    x = normal(6, seed=3)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3)
    np.testing.assert_allclose(lax.reduce_window(x, 0.0, lax.add, (3,)), windows.sum(1))
    np.testing.assert_allclose(lax.reduce_window(x, -np.inf, lax.max, (3,)), windows.max(1))
    np.testing.assert_allclose(lax.reduce_window(x, 1.0, lax.mul, (3,)), windows.prod(1))
    np.testing.assert_allclose(lax.reduce_window(x, 0.0, lambda a, b: a + b + a * b, (3,)), (1 + windows).prod(1) - 1)
    np.testing.assert_allclose(lax.reduce_window(x, 0.3, lax.max, (3,)), np.maximum(windows.max(1), 0.3))
    flags = x > 0
    np.testing.assert_array_equal(lax.reduce_window(flags, False, lax.bitwise_or, (3,)), windows.max(1) > 0)
    check_grads(lambda x: lax.reduce_window(x, 1.0, lax.mul, (3,), padding=[(1, 1)]), (x,), order=2)


@pytest.mark.parametrize("combine", [lax.add, lambda a, b: a + b])
@pytest.mark.parametrize("padding, expected", [("SAME", [3.0]), ("SAME_LOWER", [1.0])])
def test_same_padding_of_windows_knows_nothing_of_holes(combine, padding, expected):
    """As in JAX, and as for convolutions: the result has the size that it has without base_dilation, if that is met."""
    out = lax.reduce_window(np.array([1.0, 2.0]), 0.0, combine, (3,), (2,), padding, base_dilation=(2,))
    np.testing.assert_array_equal(out, expected)


def test_conv_transpose_is_the_transpose_of_conv():
    k = normal(3, 2, 4, 5)
    x = normal(2, 4, 6, 4, seed=1)
    numbers = ("NHWC", "HWIO", "NHWC")

    def conv(x):
        return lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=numbers)

    ct = normal(*conv(x).shape, seed=2)
    expected = funcad.vjp(conv, x)[1](ct)[0]
    np.testing.assert_allclose(lax.conv_transpose(ct, k, (2, 2), "SAME", transpose_kernel=True), expected)


def test_patches_are_the_windows_of_a_convolution():
    x, k = normal(2, 3, 5, 4), normal(6, 3, 2, 2, seed=1)
    patches = lax.conv_general_dilated_patches(x, (2, 2), (1, 2), "SAME")
    np.testing.assert_allclose(np.einsum("nfhw,of->nohw", patches, k.reshape(6, -1)), lax.conv(x, k, (1, 2), "SAME"))


def test_sorting_several_operands():
    keys, values = np.array([2, 1, 2, 1]), np.array([3.0, 1.0, 2.0, 4.0])
    one, two = lax.sort((keys, values), num_keys=2)
    np.testing.assert_array_equal(one, [1, 1, 2, 2])
    np.testing.assert_array_equal(two, [1.0, 4.0, 2.0, 3.0])
    np.testing.assert_array_equal(lax.sort_key_val(keys, values)[1], [1.0, 4.0, 3.0, 2.0])
    top, at = lax.top_k(X, 1, axis=0)
    np.testing.assert_array_equal(top, X.max(0, keepdims=True))
    np.testing.assert_array_equal(at, X.argmax(0)[None])


def test_optimization_barrier_and_platforms():
    x, y = lax.optimization_barrier((X, {"y": Y}))
    assert x is X and y["y"] is Y
    g = funcad.jit(funcad.grad(lambda x: lax.optimization_barrier((x * x, 1.0))[0].sum()))(X)
    np.testing.assert_array_equal(g, 2 * X)
    assert lax.platform_dependent(2.0, cpu=lambda x: x + 1, cuda=lambda x: x) == 3.0
    assert lax.platform_dependent(2.0, cuda=lambda x: x + 1, default=lambda x: x) == 2.0
    with pytest.raises(NotImplementedError):
        lax.platform_dependent(2.0, cuda=lambda x: x)


def test_select_never_lets_the_other_branch_in():
    def f(x):
        return lax.select(lax.gt(x, 0.0), lax.sqrt(lax.max(x, 0.0)), lax.full_like(x, 0)).sum()

    assert np.isfinite(funcad.grad(f)(np.array([4.0, 1.0]))).all()
    low = lax.select_n(np.array([0, 1, 2]), np.full(3, 1), np.full(3, 2), np.full(3, 3))
    np.testing.assert_array_equal(low, [1, 2, 3])


def test_every_name_is_documented():
    for name, value in vars(lax).items():
        if not name.startswith("_") and not inspect.ismodule(value):
            assert inspect.getdoc(value), name

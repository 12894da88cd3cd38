"""Convolution against SciPy and the definition, its transposes, groups, vmap; pooling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.signal as scipy_signal

import funcad
from funcad.nn.layers import avg_pool, max_pool, min_pool
from funcad.primitives import convolution
from funcad.primitives.convolution import conv_dimension_numbers, conv_general_dilated
from funcad.testing import check_grads


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_one_channel_is_scipys_correlation():
    x, k = normal(7, 6), normal(3, 2, seed=1)
    out = conv_general_dilated(x[None, None], k[None, None], (1, 1), "VALID")
    np.testing.assert_allclose(out[0, 0], scipy_signal.correlate2d(x, k, "valid"))
    full = conv_general_dilated(x[None, None], k[None, None], (1, 1), [(2, 2), (1, 1)])
    np.testing.assert_allclose(full[0, 0], scipy_signal.correlate2d(x, k, "full"))


def test_channels_are_summed_and_strides_skip():
    x, k = normal(2, 3, 9), normal(4, 3, 3, seed=1)
    dense = conv_general_dilated(x, k, (1,), "VALID")
    expected = np.einsum("ncwk,ock->now", np.lib.stride_tricks.sliding_window_view(x, 3, axis=2), k)
    np.testing.assert_allclose(dense, expected)
    np.testing.assert_allclose(conv_general_dilated(x, k, (2,), "VALID"), expected[:, :, ::2])


def test_groups_are_separate_convolutions():
    x, k = normal(2, 6, 5), normal(4, 3, 2, seed=1)
    out = conv_general_dilated(x, k, (1,), "SAME", feature_group_count=2)
    parts = [conv_general_dilated(x[:, 3 * g : 3 * g + 3], k[2 * g : 2 * g + 2], (1,), "SAME") for g in range(2)]
    np.testing.assert_allclose(out, np.concatenate(parts, axis=1))
    x, k = normal(4, 3, 5), normal(4, 3, 2, seed=1)
    out = conv_general_dilated(x, k, (1,), "SAME", batch_group_count=2)
    parts = [conv_general_dilated(x[2 * g : 2 * g + 2], k[2 * g : 2 * g + 2], (1,), "SAME") for g in range(2)]
    np.testing.assert_allclose(out, np.concatenate(parts, axis=1))


OPTIONS = [
    {},
    {"window_strides": (2, 1)},
    {"padding": "SAME_LOWER", "window_strides": (2, 2)},
    {"padding": [(2, 1), (-1, 3)], "lhs_dilation": (2, 1), "rhs_dilation": (1, 2)},
    {"padding": [(-1, -1), (-2, 0)], "lhs_dilation": (3, 2)},
    {"feature_group_count": 2, "kernel": (4, 1, 2, 3)},
    {"batch_group_count": 2},
    {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "x": (2, 4, 5, 2), "kernel": (2, 3, 2, 2)},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_derivatives_of_all_options(options):
    options = {"window_strides": (1, 1), "padding": "SAME", **options}
    x, k = normal(*options.pop("x", (2, 2, 4, 5))), normal(*options.pop("kernel", (2, 2, 2, 3)), seed=1)
    check_grads(lambda x, k: conv_general_dilated(x, k, **options), (x, k), order=2)


@pytest.mark.parametrize("mask", [m for m in itertools.product([False, True], repeat=2) if any(m)])
@pytest.mark.parametrize("groups", [1, 2])
def test_vmap_is_a_loop(mask, groups):
    x = normal(*([3] * mask[0]), 2, 4, 5)
    k = normal(*([3] * mask[1]), 4, 4 // groups, 2, seed=1)

    def f(x, k):
        return conv_general_dilated(x, k, (2,), "SAME", feature_group_count=groups)

    out = funcad.vmap(f, in_axes=tuple(0 if m else None for m in mask))(x, k)
    for i in range(3):
        np.testing.assert_allclose(out[i], f(x[i] if mask[0] else x, k[i] if mask[1] else k), atol=1e-12)


def test_large_inputs_are_done_in_chunks(monkeypatch):
    x, k = normal(5, 3, 8, 7), normal(4, 3, 3, 2, seed=1)
    whole = conv_general_dilated(x, k, (1, 1), "SAME")
    monkeypatch.setattr(convolution, "_COLUMNS", 1000)
    np.testing.assert_allclose(conv_general_dilated(x, k, (1, 1), "SAME"), whole, atol=1e-12)


def test_layouts_agree():
    x, k = normal(2, 3, 5, 6), normal(4, 3, 2, 3, seed=1)
    plain = conv_general_dilated(x, k, (1, 2), "SAME")
    last = conv_general_dilated(
        x.transpose(0, 2, 3, 1), k.transpose(2, 3, 1, 0), (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), plain)
    assert conv_dimension_numbers((2, 3, 5, 6), (4, 3, 2, 3), None).lhs_spec == (0, 1, 2, 3)


def test_integers_complex_numbers_and_empty_results():
    x = np.arange(5).reshape(1, 1, 5)
    np.testing.assert_array_equal(conv_general_dilated(x, np.array([[[1, -1]]]), (1,), "VALID"), -np.ones((1, 1, 4)))
    assert conv_general_dilated(x, np.ones((1, 1, 7), int), (1,), "VALID").shape == (1, 1, 0)
    z = normal(1, 1, 5) + 1j * normal(1, 1, 5, seed=1)
    np.testing.assert_allclose(
        conv_general_dilated(z, 1j * np.ones((1, 1, 2)), (1,), "VALID")[0, 0], 1j * (z[0, 0, 1:] + z[0, 0, :-1])
    )


@pytest.mark.parametrize(
    "x, k, options",
    [
        ((2, 3, 8), (4, 2, 3), {}),
        ((2, 3, 8), (4, 3), {}),
        ((2, 3, 8), (4, 3, 3), {"window_strides": (1, 1)}),
        ((2, 3, 8), (4, 3, 3), {"padding": "FULL"}),
        ((2, 3, 8), (4, 3, 3), {"padding": [(0, 0), (0, 0)]}),
        ((2, 3, 8), (4, 3, 3), {"padding": "SAME", "lhs_dilation": (2,)}),
        ((2, 3, 8), (4, 3, 3), {"feature_group_count": 2}),
        ((2, 3, 8), (4, 3, 3), {"dimension_numbers": ("NCW", "OIW", "NCH")}),
        ((2, 3, 8), (4, 3, 3), {"dimension_numbers": ("NCC", "OIW", "NCW")}),
    ],
)
def test_what_does_not_fit_raises_value_errors(x, k, options):
    with pytest.raises(ValueError):
        conv_general_dilated(np.ones(x), np.ones(k), **{"window_strides": (1,), "padding": "VALID", **options})


# ---- windows and pooling


def test_ties_share_the_cotangent_of_a_maximum():
    x = np.array([1.0, 1.0, 0.0, 2.0])
    g = funcad.grad(lambda x: max_pool(x, 2, axes=(0,)).sum())(x)
    np.testing.assert_array_equal(g, [0.5, 0.5, 0.0, 1.0])


def test_padding_never_wins_and_nan_propagates():
    x = np.array([-np.inf, -1.0, np.nan, 4.0])
    np.testing.assert_array_equal(max_pool(x, 2, 1, "SAME", axes=(0,)), [-1.0, np.nan, np.nan, 4.0])
    g = funcad.grad(lambda x: max_pool(x, 3, 1, [(2, 2)], axes=(0,)).sum())(np.full(1, -np.inf))
    np.testing.assert_array_equal(g, [3.0])


def test_pooling_of_images_by_layout():
    x = normal(2, 4, 6, 3)
    blocks = x.reshape(2, 2, 2, 3, 2, 3)
    np.testing.assert_allclose(max_pool(x, (2, 2)), blocks.max((2, 4)))
    np.testing.assert_allclose(min_pool(x, (2, 2)), blocks.min((2, 4)))
    np.testing.assert_allclose(avg_pool(x, (2, 2)), blocks.mean((2, 4)))
    np.testing.assert_allclose(max_pool(x[0], (2, 2)), blocks.max((2, 4))[0])
    np.testing.assert_allclose(
        max_pool(x.transpose(0, 3, 1, 2), (2, 2), axes=(-2, -1)), blocks.max((2, 4)).transpose(0, 3, 1, 2)
    )
    np.testing.assert_allclose(funcad.jit(funcad.vmap(lambda x: avg_pool(x, (2, 2))))(x), blocks.mean((2, 4)))


def test_average_with_and_without_padding():
    x = np.array([1.0, 3.0, 5.0])
    np.testing.assert_allclose(avg_pool(x, 2, 2, "SAME", axes=(0,)), [2.0, 2.5])
    np.testing.assert_allclose(avg_pool(x, 2, 2, "SAME", axes=(0,), count_include_pad=False), [2.0, 5.0])


def test_pooling_derivatives():
    x = np.random.default_rng(0).permutation(40).reshape(1, 5, 8, 1) * 0.3
    for pool in (max_pool, min_pool, avg_pool):
        check_grads(lambda x, p=pool: p(x, (2, 3), (2, 1), "SAME"), (x,), order=2)


def test_window_errors():
    with pytest.raises(ValueError, match="max_pool"):
        max_pool(np.ones(3), (2, 2))
    with pytest.raises(ValueError, match="window"):
        funcad.jit(
            lambda x: convolution.reduce_window_sum(
                x, window=(2,), strides=(1,), padding=((0, 0),), base_dilation=(1,), window_dilation=(0,)
            )
        )(np.ones(3))


@pytest.mark.parametrize("order", ["as it is", "turned", "read-only"])
@pytest.mark.parametrize(("strides", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 2))])
def test_windows_are_views_of_any_memory(order: str, strides: tuple, dilation: tuple) -> None:
    x = np.arange(42.0).reshape(1, 6, 7)
    x = np.asfortranarray(x) if order == "turned" else x
    x.flags.writeable = order != "read-only"
    window, out = (2, 3), tuple([(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip((6, 7), (2, 3), strides, dilation)])
    found = convolution.window_view(np, x, out, window, strides, dilation, 1)
    assert np.shares_memory(found, x)
    for i, j, a, b in np.ndindex(*out, *window):
        assert found[0, i, j, a, b] == x[0, i * strides[0] + a * dilation[0], j * strides[1] + b * dilation[1]]

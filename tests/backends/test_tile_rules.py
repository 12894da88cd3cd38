"""What tiles of a group write otherwise than plain lines: choices by bits, conversions in place, sums along rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import config, grad, jit, tree, value_and_grad
from funcad.backends import tiles
from funcad.backends.emission import generate
from funcad.backends.interpreter import Program
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import optimize
from funcad.primitives.basic_indexing import attains_p
from tests.agreement import same_bits

SPECIAL = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan]


@pytest.fixture(autouse=True)
def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles for all groups, a few numbers each, so that the last one is shorter."""
    monkeypatch.setattr(tiles, "SMALL", 0)
    monkeypatch.setattr(tiles, "TILE_BYTES", 128)


def run(f: Any, *args: Any) -> tuple[str, list[Any], list[Any]]:
    """(text, what the tiles give, what the reference gives)."""
    low = jit(f).lower(*args)
    leaves = [*low._entry.consts, *tree.leaves(args)]
    with np.errstate(all="ignore"):
        program = generate(fuse(optimize(low.jaxpr)))
        return program.text, program.function(list(leaves)), Program(low.jaxpr).run(list(leaves))


CHOICES = {
    "two arrays": lambda x, y: np.where(x > y, x, y) * 2,
    "zero last": lambda x, y: np.where(x > y, x, 0) * y,
    "zero first": lambda x, y: np.where(x > y, 0, y) * x,
    "a number": lambda x, y: np.where(x > y, x, 3) * y,
    "two numbers": lambda x, y: np.where(x > y, 3, 7) * x,
    "zero and a number": lambda x, y: np.where(x > y, 0, 7) * x,
    "an intermediate that dies": lambda x, y: np.where(x > y, x + y, x * y) - y,
    "an intermediate that lives": lambda x, y: [np.where(x > y, x, y) + (x + 1), np.where(x > y, x + 1, 0)],
    "an intermediate twice": lambda x, y: np.where(x > y, x * y, x * y) - y,
    "the result": lambda x, y: np.where(x + y > 0, x, y),
    "integers": lambda x, y: np.where(x > y, np.sign(x), 0) - np.sign(y),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", list(CHOICES))
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f8", ">f4", "i8", "i4", ">i4", "u2", "u8", "i1", "c16"])
def test_choices_keep_every_bit(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "fc":
        x, y = [np.where(rng.random(77) < 0.5, rng.choice(SPECIAL, 77), rng.normal(size=77)) for _ in range(2)]
    else:
        x, y = rng.integers(0, 5, (2, 77))
    x, y = x.astype(dtype), y.astype(dtype)
    _, found, expected = run(CHOICES[name], x, y)
    for a, b in zip(found, expected, strict=True):
        assert same_bits(a, b)
    _, found, expected = run(CHOICES[name], x[::-2], y[::2])
    for a, b in zip(found, expected, strict=True):
        assert same_bits(a, b)


def test_choices_and_conversions_allocate_nothing_in_the_loop() -> None:
    x = np.linspace(-1.0, 1.0, 300)
    for f in (CHOICES["two arrays"], CHOICES["zero last"], lambda x, y: (x > y).astype(float) * x):
        text, found, expected = run(f, x, x[::-1].copy())
        assert "where" not in text and "astype" not in text and same_bits(found[0], expected[0])
    assert "where" in run(CHOICES["zero last"], x + 1j, x)[0]  # nothing has as many bits as a complex number


def test_rows_are_chosen_from() -> None:
    x = np.random.default_rng(0).normal(size=(30, 8))
    x[3, 2], x[5] = np.nan, x[5, 0]
    f = grad(lambda x: np.sum(np.max(x, axis=1) ** 2))
    text, found, expected = run(f, x)
    assert "bitwise_and" in text and "where" not in text and same_bits(found[0], expected[0])


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
def test_sums_along_rows(dtype: str) -> None:
    for width, call in ((9, "np.matmul(s"), (65, "einsum")):  # short ones are products with ones
        x = np.random.default_rng(0).normal(size=(50, width)).astype(dtype)
        text, (found,), (expected,) = run(lambda x: x / np.sum(np.exp(x), axis=1, keepdims=True), x)
        assert call in text
        np.testing.assert_allclose(found, expected, rtol=width * np.finfo(dtype).eps)
    for other in (x.astype("f2"), np.zeros((2, 5000), dtype) + 1):
        assert "einsum" not in run(lambda x: x / np.sum(x * x, axis=1, keepdims=True), other)[0]


def test_a_softmax_and_its_gradient_make_no_array_in_a_tile() -> None:
    def loss(z: Any, y: Any) -> Any:
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(z * y, axis=1))

    z = np.random.default_rng(0).normal(size=(40, 6))
    text, _, _ = run(value_and_grad(loss), z, np.eye(6)[np.arange(40) % 6])
    body = text[text.index("for i in range") : text.index("def run")]
    assert "where" not in body and "astype" not in body and body.count("negative(") == body.count("not_equal(")  # of masks
    assert "np.isnan" not in body and body.count("attained(") == body.count("single(") == 1


@pytest.mark.parametrize("kind", [np.max, np.min])
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
def test_where_rows_attain_their_extrema(kind: Any, dtype: str) -> None:
    x = np.random.default_rng(1).normal(size=(60, 6)).astype(dtype)
    tied = x.copy()
    tied[9], tied[20, 1:4], tied[33, 2], tied[40, :2], tied[50] = 0.0, 9.0, np.nan, np.inf, -np.inf
    f = grad(lambda x, c: np.sum(kind(x, axis=1) ** 2 * c - np.sum(x * x, axis=1)))
    c = np.where(np.arange(60) % 3, -0.0, 2.0).astype(dtype)
    for values in (x, tied, np.round(x), np.zeros_like(x)):
        text, found, expected = run(f, values, c)
        assert "attained(" in text and "single(" in text and "fill(1.0)" in text and same_bits(found[0], expected[0])


def test_a_mask_that_is_read_otherwise_too_stays_what_it_is() -> None:
    x = np.random.default_rng(2).normal(size=(40, 5))
    x[3, 1] = np.nan
    y = x[:, ::-1].copy()
    y[7, 2] = np.nan

    def other(x: Any, y: Any) -> Any:  # the maximum is not that of the array that is asked for NaN
        return np.where((x == np.max(x, axis=1, keepdims=True)) | np.isnan(y), np.sum(y, axis=1, keepdims=True), 0.0)

    text, found, expected = run(other, x, y)
    assert "attained(" not in text
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14, atol=1e-14)

    def shared(x: Any) -> Any:
        bad = np.isnan(x)
        hit = (x == np.max(x, axis=1, keepdims=True)) | bad
        ones = hit.astype(float)
        return ones * np.sum(ones, axis=1, keepdims=True), bad, hit

    text, found, expected = run(shared, x)
    assert "attained(" not in text and "single(" not in text
    for a, b in zip(found, expected, strict=True):
        assert same_bits(a, b)


def test_masks_of_one_element_a_row() -> None:
    rows = np.arange(50)
    masks = [rows[:, None] % 5 == np.arange(5), np.zeros((50, 5), bool), np.ones((50, 5), bool)]
    masks.append(masks[0] ^ (rows[:, None] % 2 == 0) & (np.arange(5) < 1))
    z = np.array([*SPECIAL, 3.0, -4.0, 0.25] * 5)
    for mask in masks:
        f = lambda m, z: np.where(m > 0.5, z[:, None], 0.0) + np.sum((m > 0.5).astype(float), axis=1)[:, None]
        text, found, expected = run(f, mask.astype(float), z)
        assert text.count(" = single(") == text.count("fill(1.0)") == 1 and same_bits(found[0], expected[0])


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
def test_sums_of_squares_along_rows(dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=(20, 70)).astype(dtype)
    big = x * x.dtype.type(np.finfo(dtype).max / 16)
    x[2, 3], x[3, 4] = np.inf, np.nan
    for values in (x, big):
        text, (found,), (expected,) = run(lambda x: x / np.sum(x * x, axis=1, keepdims=True), values)
        assert "vecdot" in text and "multiply" not in text
        np.testing.assert_allclose(found, expected, rtol=70 * np.finfo(dtype).eps)
    products = lambda x: x / np.sum(x * (x + 1), axis=1, keepdims=True)
    for f in (products, lambda x: (x * x) / np.sum(x * x, axis=1, keepdims=True)):
        assert "vecdot" not in run(f, x)[0]


def test_what_is_read_twice_is_spread_once() -> None:
    rng = np.random.default_rng(0)
    x, c = rng.normal(size=(40, 6)), rng.normal(size=6)

    def f(x: Any, c: Any) -> Any:
        m = np.mean(x, axis=1, keepdims=True)
        y = np.exp((x * 3.0 - m) * c)
        return (y + 1.0 - m) / c, np.sum(y * 2.0, axis=0)

    text, found, expected = run(f, x, c)
    body = text[text.index("def fused") :]
    before, loop = body.split("for i in range", 1)
    assert before.count("[...] = a") == 1 and loop.count("[:, None]") == loop.count("[...] = v") == 1
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    (alone,) = [line for line in run(lambda x, c: np.exp(x * c) + 1.0, x, c)[0].splitlines() if "multiply" in line]
    assert "a" in alone and "[...]" not in alone


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f4"])
def test_numbers_beside_floats_are_converted_once(dtype: str) -> None:
    x = np.array(SPECIAL[:4] * 9).astype(dtype)
    for f in (
        lambda x: (x * 0.1 + 1e300) * x, lambda x: np.where(x > 0.3, x - np.inf, 0.1 - x),
        lambda x: np.maximum(x, 0.1) ** 2.5 * x, lambda x: np.ldexp(x, 3) * 0.5,
        lambda x: np.maximum(x, np.nan) + np.float64(0.1) * x,
    ):  # fmt: skip
        _, found, expected = run(f, x)
        assert same_bits(found[0], expected[0])
    text, _, _ = run(lambda x: (x * 0.1 + 0.25) * x, x)
    assert "0.25" not in text


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_products_with_rows_and_with_columns_of_a_matrix(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr("funcad.passes.fuse.MATRIX", 0)
    x = (np.random.default_rng(0).normal(size=(50, 7)) * 9).astype(dtype)
    for values in (x, np.asfortranarray(x), x[:, ::-1]):
        text, (found,), (expected,) = run(lambda x, w: np.dot(np.abs(np.dot(x, w)), x), values, x[0])
        assert "def fused" in text and ("matmul" in text) == (dtype == "i8")
        np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == "f8" else 1e-4)


def test_true_may_be_any_byte_but_zero() -> None:
    mask = (np.arange(200_000) % 3).astype(np.uint8).view(bool)
    x = np.linspace(-1.0, 2.0, mask.size)
    plain = mask.view(np.uint8) != 0
    choices = [
        lambda m, x: np.where(m, x + 1.0, x * 3.0),
        lambda m, x: np.where(m, x + 1.0, 0.0),
        lambda m, x: np.where(m, 0.0, x + 1.0),
    ]
    for f in choices:
        with config.set(engine="numpy"):
            jitted = jit(f)
            for _ in range(3):
                assert np.array_equal(jitted(mask, x), f(plain, x))


@pytest.mark.parametrize("shape", [(500_000,), (500, 1000), (5, 100, 1000)])
def test_ties_in_groups_of_any_shape(shape: tuple) -> None:
    """The lines for rows of a matrix are not written for arrays of other ranks, which are cut flat."""
    x = np.round(np.random.default_rng(0).normal(size=shape), 1)
    x.flat[::7] = np.nan
    y = np.where(np.random.default_rng(1).random(shape) < 0.5, x, 0.3)
    with config.set(engine="numpy"):
        found = jit(lambda x, y: np.logical_and(attains_p(x, y), x != 0.3))(x, y)
    np.testing.assert_array_equal(found, ((x == y) | np.isnan(x) & np.isnan(y)) & (x != 0.3), strict=True)

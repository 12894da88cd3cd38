"""What of an operation is worked out beforehand, for operands of known shapes, computes what its `impl` does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.interpreter import on_numpy
from funcad.ir.aval import aval_of
from funcad.primitives.arithmetic import add, div, mul, sub
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.shape import concatenate_p, reshape, slice_p, transpose

RNG = np.random.default_rng(7)


def _array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _numbers(cx: Any, cy: Any, bx: Any = (), by: Any = ()) -> dict:
    return {"dimension_numbers": ((cx, cy), (bx, by))}


CASES: list[tuple[Any, tuple, dict]] = [
    (reshape, (_array(2, 3),), {"shape": (3, 2)}),
    (reshape, (_array(2, 3).T,), {"shape": (6,)}),
    (reshape, (_array(1, 1),), {"shape": ()}),
    (reshape, (np.float64(2.0),), {"shape": (1, 1)}),
    (reshape, (_array(0, 3),), {"shape": (3, 0)}),
    (slice_p, (_array(5, 4),), {"start": (1, 0), "limit": (5, 4), "strides": (2, 3)}),
    (slice_p, (_array(5),), {"start": (2,), "limit": (2,), "strides": None}),
    (transpose, (_array(2, 3, 4),), {"perm": (2, 0, 1)}),
    (concatenate_p, (_array(2, 3), _array(2, 0), _array(2, 1)), {"axis": 1}),
    (dot_general_p, (_array(3), _array(4)), _numbers((), ())),
    (dot_general_p, (_array(2, 3), _array(2, 4)), _numbers((), (), (0,), (0,))),
    (dot_general_p, (_array(3, 2), _array(4, 2)), _numbers((), (), (1,), (1,))),
    (dot_general_p, (_array(5, 2, 3), _array(5, 3, 4)), _numbers((2,), (1,), (0,), (0,))),
    (dot_general_p, (_array(2, 5, 3), _array(3, 5)), _numbers((2,), (0,), (1,), (1,))),
    (dot_general_p, (_array(2, 3), _array(2, 3)), _numbers((1,), (1,), (0,), (0,))),
    (dot_general_p, (_array(2, 3, 4), _array(4, 3, 5)), _numbers((1, 2), (1, 0))),
    (dot_general_p, (_array(2, 3), _array(4, 3, 5)), _numbers((1,), (1,))),
    (dot_general_p, (_array(2, 3), _array(2, 3)), _numbers((0, 1), (0, 1))),
    (dot_general_p, (_array(2, 0, 3), _array(2, 0, 4)), _numbers((1,), (1,), (0,), (0,))),
    *[(p, (_array(3, 1), _array(1, 4)), {}) for p in (add, sub, mul, div)],
    *[(p, (_array(3), np.float64(0.0)), {}) for p in (mul, div)],
    *[(p, (np.float64(1.5), np.float64(0.0)), {}) for p in (add, div)],
    *[(p, (1.5, 0.0), {}) for p in (add, div)],
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].name}-{[np.shape(x) for x in case[1]]}")
def test_the_same_numbers(case: Any) -> None:
    primitive, args, params = case
    with np.errstate(all="ignore"):
        expected = primitive.impl(np, *args, **params)
        found = on_numpy(primitive, [aval_of(x) for x in args], params)(*args)
    assert type(found) is type(expected)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_array_equal(found, expected)
    if isinstance(found, np.ndarray):
        assert found.strides == expected.strides


OUTER = {
    "vectors": (_array(3), _array(4)),
    "matrices": (_array(2, 2), _array(3)),
    "numbers": (np.float64(2.0), _array(3)),
    "empty": (_array(0), _array(3)),
    "single precision": (_array(3).astype(np.float32), _array(2)),
    "complex": (_array(3) + 1j * _array(3), _array(2)),
}


@pytest.mark.parametrize("name", OUTER)
def test_outer_products(name: str) -> None:
    x, y = OUTER[name]
    weights = np.random.default_rng(1).normal(size=np.outer(x, y).shape)
    for _ in range(3):
        found, slope = funcad.value_and_grad(lambda x: np.sum(np.real(np.outer(x, y) * weights)))(x)
        np.testing.assert_allclose(found, np.sum(np.real(np.outer(x, y) * weights)))
        expected = np.reshape(weights @ np.ravel(y), np.shape(x))
        np.testing.assert_allclose(slope, np.conj(expected) if name == "complex" else expected, rtol=1e-6)
        assert np.asarray(slope).dtype == np.asarray(x).dtype


def test_an_outer_product_with_itself_and_behind_a_mask() -> None:
    x = np.array([0.5, -1.0, 2.0])

    def f(x: Any) -> Any:
        kept = np.where(x > 0, np.log(x), 0.0)
        return np.sum(np.outer(kept, kept))

    total = np.log(0.5) + np.log(2.0)
    expected = np.array([2 * total / 0.5, 0.0, 2 * total / 2.0])
    with np.errstate(all="ignore"):
        for _ in range(3):
            np.testing.assert_allclose(funcad.grad(f)(x), expected)
            np.testing.assert_allclose(funcad.jacfwd(f)(x), expected)
            np.testing.assert_allclose(funcad.jit(funcad.grad(f))(x), expected)
            second = funcad.hessian(f)(x)
            np.testing.assert_allclose(second[1], 0.0)
            np.testing.assert_allclose(second[0, 2], 2.0 / (0.5 * 2.0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_norm_over_all_axes(dtype: Any) -> None:
    for x in (_array(1000), _array(20, 30).T, _array(4, 6)[::2, ::3], _array(2, 3, 4)):
        x = x.astype(dtype)
        found, slope = funcad.value_and_grad(np.linalg.norm if x.ndim < 3 else lambda x: np.linalg.norm(np.ravel(x)))(x)
        expected = np.linalg.norm(x.ravel())
        assert type(found) is dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype is np.float32 else 1e-14)
        np.testing.assert_allclose(slope, x / expected, rtol=1e-5)


def test_a_norm_of_numbers_whose_squares_are_no_floats() -> None:
    for x in (np.array([3e200, 4e200]), np.array([3e-200, 4e-200])):
        found, slope = funcad.value_and_grad(np.linalg.norm)(x)
        np.testing.assert_allclose(found, np.max(x) * 1.25)
        np.testing.assert_allclose(slope, [0.6, 0.8])

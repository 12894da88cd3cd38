"""The NumPy engine on small arrays: few calls of NumPy, in their quickest form, with the reference's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import grad, scan
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import optimize
from tests.backends.test_numpy_engine import check, lowered


def optimized(f: Any, *args: Any) -> Any:
    """The program as it runs, compared with the reference."""
    jaxpr, leaves = lowered(f, *args)
    return check(jaxpr, leaves, passes=lambda j: fuse(optimize(j)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int8, np.uint16])
def test_numbers_among_arrays_are_arrays(dtype: Any) -> None:
    x = np.array([0, 1, 3], dtype)
    program = optimized(lambda x: (x * 3 + dtype(2), np.where(x == 1, x, 5), np.maximum(x, 1)), x)
    arrays = [v for name, v in program.scope.items() if name in program.text and isinstance(v, np.ndarray)]
    assert sorted([v.real.item() for v in arrays]) == [1, 2, 3, 5]
    assert all([v.dtype == dtype and not v.ndim and not v.flags.writeable for v in arrays])
    assert " 3" not in program.text and "int8(" not in program.text


def test_numbers_of_another_dtype_stay_numbers() -> None:
    x = np.array([0.5, 2.0], np.float32)
    program = optimized(lambda x, n: (x**2.5, n << 3, n[0] * 5), x, np.arange(2))
    assert "2.5" in program.text and "<< 3" in program.text and "* 5" in program.text
    assert not [v for v in program.scope.values() if isinstance(v, np.ndarray)]
    assert np.isinf(optimized(lambda x: x * 1e300, x).function([x])[0]).all()


def test_matrices_are_multiplied_by_dot() -> None:
    x = np.arange(6.0).reshape(2, 3)
    program = optimized(lambda x, y, n: (x @ y, y.T @ y, x[0] @ y, n @ n), x, x.T.copy(), np.arange(3))
    assert program.text.count("np.dot(") == 2 and program.text.count(" @ ") == 2  # of a matrix with itself BLAS does half


def test_a_vector_goes_to_strided_memory() -> None:
    def f(x: Any, w: Any) -> Any:
        return scan(lambda c, row: (c, w @ row), 0.0, x)[1]

    optimized(f, np.ones((5, 3)), np.arange(12.0).reshape(4, 3)[:, ::-1])


def test_a_total_of_totals_is_one_reduction() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    program = optimized(lambda x: (np.sum(np.sum(x, axis=1)), np.max(np.max(x, axis=(0, 2)))), x)
    assert program.text.count(".reduce(") == 2
    twice = optimized(lambda x: (s := np.sum(x, axis=1), np.sum(s)), x)  # the row totals are a result, too
    assert twice.text.count(".reduce(") == 2
    mixed = optimized(lambda x: np.sum(np.max(x, axis=0)), x)
    assert mixed.text.count(".reduce(") == 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_small_sums_are_products_with_ones(dtype: Any) -> None:
    special = np.array([[-0.0, 2.0, -1.0], [-0.0, -0.0, -0.0], [np.inf, np.nan, 1.0], [np.inf, -np.inf, 0.0]], dtype)
    for x in (special, special[:2], special[1:2], special[:, ::-1], special.T):
        for axis in (0, 1, None):
            program = optimized(lambda x, axis=axis: np.sum(x + x, axis=axis), x)
            single = axis == 0 and len(x) == 1  # BLAS gives -0.0 for one -0.0 alone
            assert ("np.dot(" in program.text, "reduce" in program.text) == (not single, single)
            with np.errstate(all="ignore"):
                total, expected = program.function([x])[0], np.sum(x + x, axis=axis)
            assert np.array_equal(np.signbit(total), np.signbit(expected)) or not np.isfinite(x).all()
    for f, args in (
        (lambda x: np.sum(x, axis=1), [np.ones((100, 100))]),  # large
        (lambda x: np.sum(x, axis=0), [np.ones((0, 2))]),
        (lambda x: np.sum(x, axis=0), [np.arange(4)]),
        (lambda x: np.sum(x, axis=0), [np.array([-0.0])]),
        (lambda x: np.sum(np.broadcast_to(x[:, None], (3, 4)) * 2.0, axis=1), [np.arange(3) * 1j]),
    ):
        assert "dot" not in optimized(f, *args).text


def test_a_sum_of_squares_is_a_product() -> None:
    x = np.array([[0.5, 2.0, -1.0], [np.inf, 1e200, np.nan]])
    for y in (x[:1], x[0], x):
        assert "np.vdot(" in optimized(lambda x: np.sum(x * x), y).text or y.ndim == 1
        assert "*" not in optimized(lambda x: np.sum(x * x), y).text
    assert "np.vdot(" in optimized(lambda x: np.mean(np.sum((x - 1.0) ** 2, axis=1)), x).text
    assert "np.vdot(" not in optimized(lambda x: np.sum(x * np.abs(x)), x).text  # its overflows might cancel
    assert "np.vdot(" not in optimized(lambda x: (y := x * x, np.sum(y)), x).text  # the squares are a result


def test_a_mask_is_put_over_an_array_that_dies() -> None:
    x = np.array([[1.0, -2.0, 0.0], [np.nan, 3.0, -0.0]])
    program = optimized(grad(lambda x: np.sum(np.sin(np.maximum(x, 0.0)))), x)
    assert program.text.count("np.putmask(") + program.text.count("np.where(") == 3
    assert program.text.count("np.putmask(") >= 1
    kept = optimized(lambda x: (y := np.sin(x), np.where(x > 0, 0.0, y)), x)
    assert "putmask" not in kept.text
    wide = optimized(lambda x, m: np.where(m, 0.0, np.sin(x)), x, np.array([True, False, True]))
    assert "putmask" not in wide.text


def test_the_gradient_of_a_maximum_is_a_mask_and_a_weight() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.maximum(x, y) * 3.0)

    x, y = np.array([1.0, 2.0, 3.0, np.nan]), np.array([2.0, 2.0, 1.0, 0.0])
    text = optimized(grad(f), x, y).text
    assert sum([text.count(name) for name in ("np.where(", "np.putmask(", "np.add(")]) == 3  # one for NaN
    np.testing.assert_array_equal(grad(f)(x, y), [0.0, 1.5, 3.0, np.nan])
    np.testing.assert_array_equal(grad(f, 1)(x, y), [3.0, 1.5, 0.0, np.nan])
    assert grad(lambda x: np.minimum(x, 2.0) * 3.0)(2.0) == 1.5
    assert grad(f)(x.astype(np.float32), y.astype(np.float32)).dtype == np.float32


def test_the_gradient_of_logaddexp_beside_a_finite_number() -> None:
    x = np.array([0.0, 1.0, np.inf, -np.inf, np.nan])
    text = optimized(grad(lambda x: np.sum(np.logaddexp(0.0, x))), x).text
    assert "isinf" not in text and "==" not in text
    text = optimized(grad(lambda x: np.sum(np.logaddexp(x, np.inf))), x).text
    assert "==" in text  # whether both are the same infinity
    assert grad(lambda x: np.logaddexp(np.inf, x))(np.inf) == 0.5
    assert [grad(lambda x: np.logaddexp(0.0, x))(v) for v in (0.0, np.inf, -np.inf)] == [0.5, 1.0, 0.0]

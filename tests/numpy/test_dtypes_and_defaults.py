"""Where NumPy's answer hangs on a dtype, a default or the order of steps, traced values give the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal

import funcad as fc

X = np.array([3.0, 1.0, 4.0, 1.0, 5.0])


def alike(f: Any, *args: Any) -> None:
    """As f, jitted and mapped: value, dtype and type."""
    expected = f(*args)
    for found in (fc.jit(f)(*args), fc.vmap(f)(*[np.stack([a, a]) for a in args])[0]):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.share(3)
@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_ufunc_at_casts_after_each_element(ufunc: Any, dtype: Any):
    index = np.array([0, 0, 1, 0])

    def f(v: Any) -> Any:
        a = np.array([1, 2, 3]).astype(dtype)
        ufunc.at(a, index, v)
        return a

    def g(v: Any) -> Any:
        a = np.array([[1, 2], [3, 4]]).astype(dtype)
        ufunc.at(a, (slice(None), index[:2]), v[0])
        return a

    for v in ([1.6, 2.6, 0.5, 1.5], [0.6, 0.6, 0.6, 3.0]):
        alike(f, np.array(v))
        alike(g, np.array(v))


def test_ufunc_at_that_casts_goes_with_known_indices():
    def f(a: Any, i: Any, v: Any) -> Any:
        np.add.at(a, i, v)
        return a

    with pytest.raises(TypeError, match=r"np.add.at of a float64 .* into int64 goes on from each.*\n.*an array of floats"):
        fc.jit(f)(np.zeros(3, int), np.array([0, 0]), np.array([0.6, 0.6]))
    assert fc.jit(f)(np.zeros(3), np.array([0, 0]), np.array([0.6, 0.6])).tolist() == [1.2, 0, 0]


def test_nan_to_num_replaces_what_was_there():
    x = np.array([np.nan, 1.0, np.inf, -np.inf])
    for options in ({"nan": np.inf}, {"nan": -np.inf}, {"posinf": -np.inf, "neginf": 2.0}, {"nan": np.inf, "posinf": 5.0}):
        alike(lambda x, options=options: np.nan_to_num(x, **options), x)


def replaced_in_place(x: Any) -> Any:
    y = np.stack([x, x / (x - 1.0)])
    with np.errstate(divide="ignore"):
        found = np.nan_to_num(y, copy=False, posinf=2.0, neginf=3.0)
    return np.sum((y + found) ** 2 * np.arange(1, 9).reshape(2, 4))


def filled(x: Any) -> Any:
    tall, wide, cube, turned = np.outer(np.arange(7.0), x[:3]), np.outer(x[:2], x), np.zeros((2, 2, 2)), np.zeros((3, 3))
    np.fill_diagonal(tall, x[:3], wrap=True)
    np.fill_diagonal(wide, x[2:], wrap=True)
    np.fill_diagonal(cube, [x[0], x[1]])
    np.fill_diagonal(turned, x.reshape(2, 2))
    return sum([np.sum(v**2 * np.arange(v.size).reshape(v.shape)) for v in (tall, wide, cube, turned)])


def cast(x: Any) -> Any:
    parts = np.concatenate([x, x**2], casting="no"), np.stack([x, np.arange(4)], casting="unsafe").ravel()
    whole = np.concatenate([x, x * 2], dtype=int, casting="unsafe"), np.hstack([x, x], dtype="f4", casting="unsafe")
    return np.sum(np.concatenate([*parts, *whole]) ** 2)


@pytest.mark.parametrize("f", [replaced_in_place, filled, cast])
def test_what_is_written_or_cast_as_numpy_does(f: Any):
    x, step = np.array([0.5, 1.5, 3.25, -0.25]), np.array([3e-6, 1e-6, -2e-6, 2e-6])
    right = f(x)
    for found in (fc.jvp(f, (x,), (step,))[0], fc.vmap(f)(x[None])[0], *[g(x) for g in [fc.jit(f)] for _ in range(3)]):
        assert found == pytest.approx(right, rel=1e-14) and found.dtype == right.dtype
    if f is not cast:  # a step is lost in float32
        assert np.sum(fc.grad(f)(x) * step) == pytest.approx((f(x + step) - f(x - step)) / 2, rel=1e-6)
    else:
        np.testing.assert_allclose(fc.grad(f)(x), 4 * x**3 + 8 * x, rtol=1e-6)


def test_casting_is_refused_in_numpys_words():
    for f in (lambda x: np.concatenate([x, np.arange(3)], casting="no"), lambda x: np.stack([x, [1, 2]], casting="equiv")):
        with pytest.raises(TypeError, match="according to the rule"):
            fc.jvp(f, (np.ones(2),), (np.ones(2),))
    for f in (lambda x: np.nan_to_num(x[0], copy=False), lambda x: np.nan_to_num([x[0], 1.0], copy=False)):
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            fc.jvp(f, (np.ones(2),), (np.ones(2),))


@pytest.mark.parametrize("name", ["sum", "prod", "any", "all", "nansum", "nanprod", "max", "min", "nanmax", "nanmin"])
def test_where_none_is_false(name: str):
    options = {"initial": 0.5} if "m" in name[-3:] and name not in ("sum", "nansum") else {}
    alike(lambda x: getattr(np, name)(x, where=None, **options), X)


@pytest.mark.parametrize("name", ["mean", "std", "var"])
def test_where_none_is_refused_where_numpy_counts(name: str):
    for f in (fc.jit(lambda x: getattr(np, name)(x, where=None)), lambda x: getattr(np, name)(x, where=None)):
        with pytest.raises(TypeError):
            f(X)


@pytest.mark.parametrize("bias", [None, 0, 1, False, True, 0.0, 2])
def test_bias_of_cov_is_compared_with_zero(bias: Any):
    alike(lambda x: np.cov(x, bias=bias), np.arange(6.0).reshape(2, 3) ** 2)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.int8])
@pytest.mark.parametrize("method", ["linear", "lower", "midpoint", "hazen", "weibull", "inverted_cdf", "closest_observation"])
def test_dtypes_of_quantiles(dtype: Any, method: Any):
    for q in (0, 1, np.int64(1), np.int8(0), np.array([0, 1]), [0, 1], 0.5, np.float32(0.25), np.float64(0.25), [0.25, 0.5]):
        expected = np.quantile(X.astype(dtype), q, method=method)
        found = fc.jit(lambda x, q=q: np.quantile(x, q, method=method))(X.astype(dtype))
        assert (type(found), np.asarray(found).dtype) == (type(expected), np.asarray(expected).dtype), q
        np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-3)


@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_keepdims_may_be_any_truth(name: str):
    for keepdims in (False, 0, True, 1, np.True_):
        alike(lambda x, k=keepdims: getattr(np, name)(x, keepdims=k), X)


def test_squares_of_lengths_keep_their_dtype():
    x = np.array([0.5, 1.5], np.float32)
    alike(lambda x: np.square(np.hypot(x, 1.0)), x)
    alike(lambda x: np.square(np.hypot(2, x)), x)
    assert fc.grad(lambda x: np.square(np.hypot(x, 1.0)).sum())(x).dtype == np.float32


def test_lanes_have_the_callers_layout():
    def f(x: Any, k: Any) -> Any:
        if k > 0:
            x = x * 1.0
        line = x.reshape(-1)
        line[0] = 107.0
        return x

    def g(x: Any, k: Any, table: Any) -> Any:
        if k > 0:
            x = x * 1.0
        line = table.reshape(-1)
        line[0] = 107.0
        return table + x

    k = np.array([1.0, -1.0])
    for x in (np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(4, 3, 2).T, np.asfortranarray(np.ones((2, 3, 4)))):
        expected = np.stack([f(row.copy("K"), a) for row, a in zip(x, k)])
        np.testing.assert_array_equal(fc.vmap(f)(x.copy("K"), k), expected)
        table = x[0]
        expected = np.stack([g(row, a, table.copy("K")) for row, a in zip(x, k)])
        np.testing.assert_array_equal(fc.vmap(g, in_axes=(0, 0, None))(x, k, table.copy("K")), expected)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.complex64])
def test_what_is_computed_in_double(dtype: Any):
    x = np.array([1, 2, 4, 5, 7, 6], dtype)
    alike(lambda x: np.geomspace(x[0], x[2], 4), x)
    alike(lambda x: np.geomspace(x[:2], x[2:4], 4, dtype=np.complex64), x)
    alike(lambda x: scipy.signal.savgol_filter(x, 5, 2), x)
    alike(lambda x: scipy.signal.savgol_filter(x, 3, 1, mode="nearest"), x)
    alike(lambda x: scipy.signal.detrend(x, type="linear").round(3), x)
    if dtype is not np.complex64:  # whose coefficients are real where the roots are
        alike(lambda x: np.poly(x[:3]), x)

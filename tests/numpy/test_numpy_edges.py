"""Edges of funcad.numpy that a fuzz over the surface table found: dtypes, refusals, ties, infinities; each against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad.numpy as fnp
from funcad import config, grad, jit, jvp, vmap
from funcad.errors import TracerArrayConversionError

TRACES: dict[str, Callable[..., Any]] = {
    "jit": lambda f, x: jit(f)(x),
    "jvp": lambda f, x: jvp(f, (x,), (np.ones_like(x)[()],))[0],
    "vmap": lambda f, x: vmap(f)(x[None]),
}


def agree(f: Callable[..., Any], *args: Any) -> None:
    """f under jit, vmap and (of floats) jvp gives NumPy's values and dtype."""
    expected = np.asarray(f(*args))
    runs = {"jit": jit(f)(*args), "vmap": vmap(f)(*[np.asarray(a)[None] for a in args])[0]}
    if all(np.asarray(a).dtype.kind in "fc" for a in args):
        runs["jvp"] = jvp(f, args, tuple([np.ones_like(a)[()] for a in args]))[0]
    for how, found in runs.items():
        found = np.asarray(found)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), how
        rtol = 8 * float(np.finfo(expected.dtype).eps) if expected.dtype.kind in "fc" else 0
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=0, err_msg=how)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[2.0, 0.7, -1.0], [-1.0, 0.7, 2.0], [0.5]])
def test_digitize_at_the_edges_of_rising_and_falling_bins(bins: list[float], right: bool) -> None:
    x, edges = np.array([0, 7, 2, 0, 1, -1, -3]), np.array(bins)
    agree(lambda x: np.digitize(x, edges, right), x)
    agree(lambda x, b: np.digitize(x, b, right), x, edges)  # the direction is only known when the program runs


@pytest.mark.share(3)
@pytest.mark.parametrize("method", ["lower", "higher", "nearest", "inverted_cdf", "closest_observation", "midpoint", "linear"])
@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "f8"])
def test_quantiles_that_are_elements_keep_the_dtype(method: str, dtype: str) -> None:
    x = np.array([1, 5, 3, 9], dtype)
    agree(lambda x: np.quantile(x, 0.3, method=method), x)
    agree(lambda x: np.nanquantile(x, 0.3, method=method), x)


def test_quantiles_of_large_integers_are_exact() -> None:
    agree(lambda x: np.quantile(x, 0.5, method="lower"), np.array([2**53 + 1, 2**53 + 3, 5]))


def test_nanmedian_beside_infinities() -> None:
    x = np.array([[np.inf, np.nan, 2.1], [1, 2, np.nan], [1, 5, 3], [np.inf, 0.0, 1]])
    agree(lambda x: np.nanmedian(x, axis=1), x)
    agree(np.nanmedian, np.array([1, 5, 3, 2]))
    np.testing.assert_allclose(grad(np.nanmedian)(np.array([1.0, 2, np.nan, 4, 3])), [0, 0.5, 0, 0, 0.5])


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", ["setdiff1d", "setxor1d", "intersect1d"])
def test_sets_keep_their_order_and_nan(name: str, unique: bool) -> None:
    x, other = np.array([3.0, np.nan, 2.0, 1.0]), np.array([2.0, 7.0, np.nan])
    for xs in [x] if unique else [x, np.array([np.nan, 3.0, 2.0, np.nan, 3.0]), x[:0]]:
        jitted, expected = jit(lambda x: getattr(np, name)(x, other, unique)), getattr(np, name)(xs, other, unique)
        for _ in range(3):
            np.testing.assert_array_equal(jitted(xs), expected)
        sized = lambda x: getattr(fnp, name)(x, other, unique, size=len(expected), fill_value=0.0)  # noqa: B023
        np.testing.assert_array_equal(vmap(sized)(xs[None])[0], expected)


def test_the_gradient_of_a_difference_that_is_not_sorted() -> None:
    slopes = grad(lambda x: np.setdiff1d(x, [2.0], assume_unique=True) @ np.array([1.0, 10.0]))
    for f in (slopes, jit(slopes), jit(slopes)):
        for _ in range(3):
            assert np.array_equal(f(np.array([3.0, 2.0, 1.0])), [1.0, 0.0, 10.0])


@pytest.mark.parametrize("x", [np.zeros(0), np.array([np.nan, np.nan]), np.array([1.0, np.nan, 3.0]), np.array([1, 3])])
@pytest.mark.parametrize("name", ["nanmax", "nanmin"])
def test_extremes_without_nan_begin_with_initial(name: str, x: np.ndarray) -> None:
    agree(lambda x: getattr(np, name)(x, initial=2), x)


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "D", "i4"])
@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_variances_without_nan_need_degrees_of_freedom(name: str, dtype: str) -> None:
    x = np.array([[1, 2, 4, 7], [1, 3, 4, 1]], dtype)
    if x.dtype.kind != "i":
        x[0, 1] = np.nan
    for ddof in (1, 3, 4, 5):
        with np.errstate(all="ignore"):
            agree(lambda x: getattr(np, name)(x, axis=1, ddof=ddof), x)  # noqa: B023


@pytest.mark.parametrize("start", [0.0, np.array([0.0, 0.5, 1.0]), np.array([[0.0], [0.5]])])
@pytest.mark.parametrize("axis", [0, -1])
def test_logspace_with_an_array_of_bases(start: Any, axis: int) -> None:
    bases = np.array([2.0, 3.0, 4.0])
    agree(lambda b: np.logspace(start, 1.5, 3, base=b, axis=axis), bases)
    agree(lambda a: np.logspace(a, 1.5, 4, base=bases, axis=axis), np.float64(0.5))
    tangent = jvp(lambda b: np.logspace(0, 1, 3, base=b), (bases,), (np.ones(3),))[1]
    np.testing.assert_allclose(tangent, [[0.0] * 3, 0.5 / np.sqrt(bases), [1.0] * 3])


@pytest.mark.parametrize("period", [4, 5, 8, 3.5])
def test_unwrap_of_integers(period: float) -> None:
    agree(lambda x: np.unwrap(x, period=period), np.array([1, 5, 9, 2, -7, 3, 20]))
    agree(lambda x: np.unwrap(x, period=period), np.array([3], "i2"))


@pytest.mark.parametrize(
    "ends", [(2.5, np.uint8(20)), (1j, 1000j), (1.0, 1j), (-1.0, -100.0), (-1.0, 1.0), (np.float32(1), 8.0)]
)
@pytest.mark.parametrize("options", [{}, {"endpoint": False}, {"num": 1}, {"num": 0}])
def test_geomspace(ends: tuple, options: dict[str, Any]) -> None:
    options = {"num": 4, **options}
    for function in (np.geomspace, np.linspace):
        with np.errstate(all="ignore"):
            expected = function(*ends, **options)
            found = jit(lambda a, b: function(a, b, **options))(*ends)  # noqa: B023
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_geomspace_refuses_zero_and_has_exact_ends() -> None:
    with pytest.raises(ValueError, match="cannot include zero"):
        jvp(lambda a: np.geomspace(a, 0.0, 3), (1.0,), (1.0,))
    assert jit(lambda a: np.geomspace(a, 0.3, 5))(0.1)[-1] == 0.3
    np.testing.assert_allclose(jvp(lambda a: np.geomspace(a, 8.0, 4), (1.0,), (1.0,))[1], [1, 4 / 3, 4 / 3, 0], atol=1e-12)


def test_ufuncs_with_dtype_take_numpys_loop() -> None:
    x = np.array([1, np.nan, np.inf, -np.inf, -0.0])
    for f in (np.signbit, np.isnan, np.isfinite):
        agree(lambda x: f(x, dtype=bool), x)  # noqa: B023
    agree(lambda x: np.add(x, 1.5, dtype=np.float64), np.array([1, 2], "f4"))
    agree(lambda x: np.sin(x, dtype=np.float32), np.array([1, 2], "i2"))


@pytest.mark.parametrize("dtype", ["f4", "f8", "D"])
def test_statistics_with_dtype(dtype: str) -> None:
    for f in (np.std, np.var):
        agree(lambda x: f(x, dtype=dtype), np.array([1.0, 2.0, 4.5]))  # noqa: B023
    agree(lambda x: np.cov(x, dtype=dtype), np.array([[1.0, 2.0, 0.5], [4.0, 3.0, 1.0]]))


@pytest.mark.parametrize("initial", [-1.5, 2.5, 7])
def test_initial_is_of_the_array(initial: float) -> None:
    for name in ("max", "min", "sum", "prod"):
        for x in (np.array([1, 2]), np.array([1, 2], "f4")):
            agree(lambda x: getattr(np, name)(x, initial=initial), x)  # noqa: B023
    agree(lambda x: np.max(x, axis=0, initial=initial, where=np.array([True, False])), np.array([1, 2]))


@pytest.mark.parametrize("dtype", ["u2", "i1", "u8"])
def test_index_arithmetic_is_done_in_intp(dtype: str) -> None:
    agree(lambda x: np.stack(np.unravel_index(x, (2, 3))), np.array([1, 5, 3], dtype))
    agree(lambda x: np.ravel_multi_index((x, x), (2, 300)), np.array([1, 0, 1], dtype))


REFUSED: dict[str, Callable[[Any], Any]] = {
    "astype str": lambda x: x.astype(str),
    "astype object": lambda x: x.astype(object),
    "astype datetime": lambda x: x.astype("M8[s]"),
    "sum dtype=object": lambda x: np.sum(x, dtype=object),
    "multiply dtype=int": lambda x: np.multiply(x, 2, dtype=int),
    "arctanh dtype=int": lambda x: np.arctanh(x, dtype=int),
    "positive dtype=float": lambda x: np.positive(x + 1j, dtype=float),
    "stack dtype=int": lambda x: np.stack([x, x], dtype=int),
    "concatenate dtype=int": lambda x: np.concatenate([x, x], dtype=int),
    "var dtype=int": lambda x: np.var(x, dtype=int),
    "ravel_multi_index of floats": lambda x: np.ravel_multi_index((x, x), (2, 3)),
    "cumsum axis=(0, 1)": lambda x: np.cumsum(x, axis=(0, 1)),
    "argsort axis=()": lambda x: np.argsort(x, axis=()),
    "diff axis=None": lambda x: np.diff(x, axis=None),
    "select by numbers": lambda x: np.select([x], [x]),
    "dict key": lambda x: {x[0]: 1},
    "set": lambda x: set(x),
}


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_cannot_do_either_or_would_lose_the_derivative(name: str, trace: str) -> None:
    with pytest.raises(TypeError):
        TRACES[trace](REFUSED[name], np.array([0.5, 0.25]))


OUTSIDE = np.zeros(2)


def test_remedies_name_what_exists() -> None:
    with pytest.raises(TracerArrayConversionError, match=r"\.subtract\(values\)"):
        jit(lambda x: np.subtract.at(OUTSIDE, [0], x))(np.ones(1))
    with pytest.raises(TypeError, match="Remedy"):
        jit(hash)(1.0)


@pytest.mark.parametrize("name", ["frexp", "modf", "ldexp", "divmod"])
@pytest.mark.parametrize("option", [{"where": np.array([True, False])}, {"out": np.zeros(2)}, {"order": "A"}, {"bogus": 1}])
def test_no_option_is_ignored(name: str, option: dict[str, Any]) -> None:
    x, rest = np.array([1.5, 2.5]), {"ldexp": (2,), "divmod": (0.7,)}.get(name, ())
    with pytest.raises(TypeError):
        jit(lambda x: getattr(fnp, name)(x, *rest, **option))(x)


def test_gradients_of_lanes_of_ldexp_by_one_exponent() -> None:
    np.testing.assert_array_equal(vmap(grad(lambda x: np.sum(np.ldexp(x, 2))))(np.ones((2, 3))), np.full((2, 3), 4.0))


@pytest.mark.parametrize("nodes", [[0.0, 1.0, np.inf], [-np.inf, 0.0, 1.0]])
def test_interp_at_infinite_nodes_is_numpys(nodes: list[float]) -> None:
    x = np.array([0.0, 0.5, 1.0, 3.0, np.inf, -np.inf])
    f = lambda x: np.interp(x, nodes, [1.0, 2.0, 2.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(jvp(f, (x,), (x,))[0], f(x))
        np.testing.assert_array_equal(jit(f)(x), f(x))


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge", "wrap", "mean", "linear_ramp"])
def test_pad_refuses_to_extend_an_empty_axis(mode: str) -> None:
    options = {"reflect_type": "odd"} if mode in ("reflect", "symmetric") else {}
    for function in (lambda x: np.pad(x, 2, mode, **options), jit(lambda x: np.pad(x, 2, mode, **options))):
        with pytest.raises(ValueError, match="can't extend empty axis 0"):
            function(np.zeros(0))


def test_trunc_reads_the_value() -> None:
    assert jvp(lambda x: x * math.trunc(x), (2.7,), (1.0,)) == (5.4, 2.0)


def test_squares_of_bools_are_int8():
    flags = np.array([True, False])
    for f in (lambda x: x**2, lambda x: x**3, lambda x: x**1):
        found, expected = jit(f)(flags), f(flags)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "f, x",
    [
        (np.argsort, np.array(2.0)),
        (lambda x: np.argsort(x, axis=1), np.array(2.0)),
        (np.round, np.array([True, False])),
        (lambda x: np.round(x, 1), np.array([True])),
        (lambda x: np.digitize(x, [0.0, 1.0]), np.array([0.5, 2.0])),
        (lambda x: np.digitize(x, [0.0, 1.0]), np.array([1j])),
        (lambda x: np.interp(x, [0.0, 1.0], [0.0, 2.0]), np.array([1j])),
    ],
    ids=range(7),
)
def test_numbers_bools_and_complex_arguments_are_as_in_numpy(f, x):
    with config.set(jit_patience=0):
        try:
            expected = f(x)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                jit(f)(x)
        else:
            np.testing.assert_array_equal(jit(f)(x), expected, strict=True)


@pytest.mark.parametrize(
    ("nodes", "values"),
    [
        ([0, 1, 2.5, 4], [1, np.nan, 2, np.inf]),
        ([0, 1, 2, 2], [1, 2, 3, 7]),
        ([0, 1, 2, 2], [1, 2, 3, np.nan]),
        ([0, 1, 2], [np.inf, np.inf, 2]),
        ([0, 1, 2], [np.inf, 2, -np.inf]),
    ],
)
def test_interp_beside_values_that_are_not_finite(nodes: list[float], values: list[float]) -> None:
    x, xp, fp = np.array([-1, 0, 0.3, 1, 1.7, 2, 2.5, 3, 4, 5, np.nan]), np.array(nodes, float), np.array(values, float)
    with np.errstate(invalid="ignore"):
        agree(lambda x: np.interp(x, xp, fp), x)
        agree(lambda v: np.interp(x, xp, v), fp)
        slopes = grad(lambda x: np.interp(x, xp, fp).sum())(x)
        np.testing.assert_array_equal(slopes, jvp(lambda x: np.interp(x, xp, fp), (x,), (np.ones_like(x),))[1])


def test_interp_at_a_node_beside_an_infinite_piece_has_its_slope() -> None:
    with np.errstate(invalid="ignore"):
        assert grad(lambda x: np.interp(x, [0.0, 1, 2], [0, 1, np.inf]))(1.0) == np.inf


@pytest.mark.parametrize("std", [np.std, np.nanstd, lambda x: np.std(x, ddof=1), lambda x: x.std(axis=0, keepdims=True).sum()])
@pytest.mark.parametrize("value", [0.1, 0.7, 1e100, 0.0])
def test_std_of_equal_numbers_has_no_slope_whatever_their_mean_rounds_to(std: Callable[..., Any], value: float) -> None:
    x = np.full(7, value)
    slope = grad(std)
    again = jit(slope)
    runs = [slope(x), vmap(slope)(np.stack([x, x]))[1], grad(jit(std))(x), again(x), again(x), again(x)]
    np.testing.assert_allclose(runs, np.zeros((6, 7)), atol=1e-14)
    assert abs(jvp(std, (x,), (np.arange(7.0),))[1]) < 1e-14


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: np.angle(x, deg=True), np.array([True, False])),
        (np.angle, np.array([True, False])),
        (np.angle, np.array([1, -2], "i1")),
        (lambda x: np.unwrap(x, period=4), np.array([1, 5, 9, 2], "i1")),
        (lambda x: np.unwrap(x, period=3), np.array([1, 5, 9, 2], "i2")),
        (lambda x: np.var(x, mean=np.array([2.1])), np.array([1, 2, 4], "f4")),
        (lambda x: np.std(x, mean=np.array([2.1]), keepdims=True), np.array([1, 2, 4], "f2")),
        (lambda x: np.var(x, mean=np.array([2.1], "f4")), np.array([1, 2, 4], "f2")),
        (lambda x: np.std(x, mean=2.1), np.array([1, 2, 4], "f4")),
        (lambda x: np.nanstd(x, mean=np.array([2.1])), np.array([1, 2, 4], "f4")),
    ],
)
def test_dtypes_of_small_numbers(f: Callable[..., Any], x: np.ndarray) -> None:
    agree(f, x)


def test_intersect1d_has_the_dtype_of_both() -> None:
    f = jit(lambda x: np.intersect1d(x, [1, 2.5]))
    assert [f(np.array([1, 2, 3])).dtype for _ in range(3)] == [np.float64] * 3


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "ihfft", "fftn", "rfft2", "irfft"])
def test_gradients_of_transforms_of_half_precision_have_their_dtype(name: str) -> None:
    x = np.ones((2, 3), np.float16)
    slope = grad(lambda x: np.sum(np.abs(getattr(np.fft, name)(x))))
    assert [slope(x).dtype, jit(slope)(x).dtype] == [np.float16] * 2


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd", "argmax", "argmin", "nanargmax", "nanargmin", "mean"])
@pytest.mark.parametrize("x", [np.array(1.5), np.array(3)], ids=["float", "int"])
def test_axes_of_numbers_of_rank_0(name: str, axis: int, x: np.ndarray) -> None:
    f = lambda x: getattr(np, name)(x, axis=axis, keepdims=True)
    try:
        f(x)
    except np.exceptions.AxisError:
        for run in TRACES.values() if x.dtype.kind == "f" else [TRACES["jit"], TRACES["vmap"]]:
            with pytest.raises(np.exceptions.AxisError):
                run(f, x)
    else:
        agree(f, x)


FLAT: dict[str, Any] = {
    "slice": slice(0, 4),
    "list": [0, 2, 4],
    "mask": np.array([True, False, True, True, False, False]),
    "fewer": slice(0, 1),
    "reversed": slice(None, None, -1),
}


@pytest.mark.parametrize("way", TRACES)
@pytest.mark.parametrize("index", FLAT)
def test_writes_by_flat_repeat_the_values(index: str, way: str) -> None:
    def f(x: Any) -> Any:
        x = x * 2.0
        x.flat[FLAT[index]] = x[0, :2] * x[1, 1]
        return x

    x = np.arange(1.0, 7).reshape(2, 3)
    np.testing.assert_array_equal(np.reshape(TRACES[way](f, x), (2, 3)), f(x))
    g = jit(f)
    np.testing.assert_array_equal([g(x), g(x), g(x)], [f(x)] * 3)


def test_one_element_by_flat_takes_one_value() -> None:
    def f(x: Any) -> Any:
        x.flat[1] = x[:2] * 1.0
        return x

    with pytest.raises(ValueError):
        jvp(f, (np.ones(3),), (np.ones(3),))


@pytest.mark.parametrize(
    ("low", "high", "x", "dtype"), [(0, 0.5, [1.5, 0.3], "f4"), (0, 2, [1, 3], "f8"), (None, 2, [1, 3], "f4")]
)
def test_clip_in_a_given_dtype(low: Any, high: Any, x: list, dtype: str) -> None:
    agree(lambda x: np.clip(x, low, high, dtype=dtype), np.array(x))
    agree(lambda x: x.clip(low, high, dtype=dtype), np.array(x))
    with pytest.raises(TypeError, match=r"np\.clip does not support casting="):
        vmap(lambda x: np.clip(x, low, high, casting="unsafe"))(np.ones((2, 2)))


@pytest.mark.parametrize("way", ["jvp", "vmap"])
def test_an_element_takes_no_list(way: str) -> None:
    def f(x: Any) -> Any:
        x[0, 0] = [x[1, 0]]
        return x

    with pytest.raises(ValueError, match="setting an array element"):
        TRACES[way](f, np.ones((2, 2)))

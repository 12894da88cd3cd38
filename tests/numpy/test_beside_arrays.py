"""What people write with NumPy beside functions of arrays: masked and structured arrays, arrays of objects, methods of ufuncs.

Also polynomials as classes, np.vectorize of functions that close over traced values, np.testing. Each program is compared with
itself on plain numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import funcad
from funcad import grad, jit, jvp, vmap
from funcad.host.real_types import NUMPY
from funcad.jitted import first_calls

V0 = np.linspace(0.1, 1.0, 5)
X = np.array([0.7, 1.3, 0.4])
V = np.array([0.3, -0.2, 0.5])
ROWS = np.stack([X, X * 1.1, X + 0.05])
PROGRAMS: dict[str, Callable[[Any], Any]] = {}
UNMAPPED = {"poly1d"}  # whose shapes depend on values


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[f.__name__] = f
    return f


@program
def np_testing_allclose(x):
    y = np.sin(x)
    np.testing.assert_allclose(y, np.sin(x))
    return (y * y).sum()


@program
def np_testing_array_equal(x):
    np.testing.assert_array_equal(x, x)
    return (x * x).sum()


@program
def np_testing_less(x):
    np.testing.assert_array_less(x, 10.0)
    return (x * x).sum()


@program
def np_testing_equal(x):
    np.testing.assert_equal(x.shape, (3,))
    np.testing.assert_almost_equal(x[0], x[0])
    return (x * x).sum()


@program
def np_testing_approx(x):
    np.testing.assert_approx_equal(x[0], x[0])
    np.testing.assert_array_almost_equal(x, x)
    return (x * x).sum()


@program
def np_testing_raises(x):
    try:
        np.testing.assert_allclose(x, x + 1)
    except AssertionError:
        return (x**3).sum()
    return x.sum()


@program
def ma_basic(x):
    m = np.ma.array(x, mask=[False, True, False])
    return m.filled(2.0).sum() ** 2


@program
def ma_sum(x):
    m = np.ma.array(x * x, mask=[False, True, False])
    return m.sum() * m.mean()


@program
def ma_arith(x):
    m = np.ma.masked_array(x, mask=[0, 1, 0])
    y = m * 2 + np.ma.array(x * x, mask=[1, 0, 0])
    return y.filled(0.5).prod() + y.sum()


@program
def ma_where(x):
    m = np.ma.masked_where(x > 1, x)
    return (m**2).sum()


@program
def ma_greater(x):
    m = np.ma.masked_greater(x, 1.0)
    return m.var() + m.max()


@program
def ma_invalid(x):
    m = np.ma.masked_invalid(np.log(x - 0.5))
    return m.sum()


@program
def ma_func(x):
    m = np.ma.array(x, mask=[0, 1, 0])
    return np.ma.sqrt(m).sum() + np.ma.average(m) + np.exp(m).sum()


@program
def ma_comp(x):
    m = np.ma.array(x, mask=[0, 1, 0])
    return (m.compressed() ** 2).sum() + m.count() * m.data.sum()


@program
def ma_median(x):
    m = np.ma.array(np.outer(x, x + 2.0), mask=np.eye(3, dtype=bool))
    along = np.ma.median(m, axis=-1, keepdims=True).sum() + 2.0 * np.ma.median(m, axis=0).sum()
    return np.ma.median(m) + np.ma.median(m, keepdims=True).sum() + along


OBSERVED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False], fill_value=0.25)


@program
def ma_known(x):
    return np.sqrt(((x - OBSERVED) ** 2).mean()) + np.abs(OBSERVED / x - 1.0).sum()


@program
def ma_known_first(x):
    return (OBSERVED * x).filled().sum() + (x**OBSERVED).max() + np.add(OBSERVED, x).std() + (2.0 * (OBSERVED // 2.0) * x).sum()


@program
def ma_compared(x):
    return (OBSERVED > x).sum() * x[0] + (x <= OBSERVED).sum() * x[1] + ((OBSERVED == x) | (x != OBSERVED)).sum() * x[2]


@program
def ma_masked_constant(x):
    return (np.ma.masked * x).filled(0.5).sum() * x[0] + (x + np.ma.masked).count() + x[1]


@program
def ma_chosen(x):
    return np.ma.where(OBSERVED > 1.5, x, 0.0).sum() + np.ma.clip(np.ma.masked_less(x, 1.0), 0.5, 1.5).sum()


@program
def ma_moved(x):
    m = np.ma.array(np.outer(x, x + 2.0), mask=np.eye(3, dtype=bool))
    rows = np.ma.stack([m, m * 2.0]).sum(axis=0)[0] + np.ma.vstack([m, m]).mean(axis=0) + np.ma.hstack([m, m])[1][:3]
    rows = rows * np.arange(3.0) + np.ma.diff(m, axis=0).sum()
    return rows.sum() + np.ma.diff(np.ma.array(x, mask=[1, 0, 0])).sum() + np.ma.outer(m[0], x).sum()


@program
def ma_ordered(x):
    m = np.ma.array(x * x, mask=[1, 0, 0])
    first = np.ma.sort(np.ma.array(-x, mask=[0, 1, 0]))
    return first[0] * 2.0 + first[1] + x[np.ma.argmax(m)] + x[np.ma.argmin(m)] * 3.0 + x[np.ma.argsort(m)[0]]


@program
def obj_arr(x):
    a = np.array([x[0], x[1] * 2, x[2]], dtype=object)
    return (a * a).sum() * a[1]


@program
def obj_empty(x):
    a = np.empty(3, dtype=object)
    for i in range(3):
        a[i] = x[: i + 1]
    return sum((v * v).sum() for v in a)


@program
def obj_dot(x):
    a = np.array([[x[0], 1.0], [x[1], x[2]]], dtype=object)
    return (a @ a).sum()


@program
def obj_float(x):
    a = np.array([x[0], x[1]], dtype=object)
    b = a.astype(float)
    return (b**2).sum()


@program
def masked_powers(x):
    m, some = np.ma.array(x - 0.6), np.ma.array(x, mask=[0, 1, 0])
    roots = np.ma.power(m, 0.5).filled(2.0) + (m**0.5).filled(x) + (m ** (x - 0.8)).filled(0)
    return (roots * V).sum() + (2.0**some).sum() + (2.0 ** ((some - 0.5) * 9e3)).filled(1.0).sum() + some.var()


@program
def struct(x):
    s = np.zeros(3, dtype=[("p", float), ("q", float, 2)])
    s["p"] = x
    s["q"][:, 0] = x**2
    return (s["p"] * s["q"].sum(axis=1)).sum()


@program
def struct_row(x):
    s = np.zeros(3, dtype=[("p", "f8"), ("q", "f8")])
    for i in range(3):
        s[i]["p"] = x[i]
        s["q"][i] = 2 * x[i]
    return (s["p"] * s["q"]).sum()


@program
def struct_rec(x):
    s = np.zeros(3, dtype=[("p", "f8"), ("q", "f8")]).view(np.recarray)
    s.p = x
    s.q[:] = x * 2
    return (s.p * s.q).sum()


@program
def struct_tuple(x):
    s = np.zeros(2, dtype=[("p", "f8"), ("q", "f8")])
    s[0] = (x[0], x[1])
    s[1] = (x[2], 1.0)
    return (s["p"] ** 2 * s["q"]).sum()


@program
def struct_list(x):
    s = np.zeros(3, dtype=[("p", "f8"), ("q", "f8")])
    s["p"] = x
    s[[0, 2]] = s[[2, 0]]
    s = s[[2, 1, 0]]
    s["p"][0] = x[1] ** 2
    return (s["p"] * [1.0, 2.0, 3.0]).sum()


@program
def struct_mask(x):
    s = np.zeros(3, dtype=[("p", "f8"), ("r", [("q", "f8", 2)])])
    s["p"], s["r"]["q"] = x, x[:, None] ** 2
    chosen = s[s["p"] > 0.5]
    chosen["p"], chosen["r"]["q"][0] = 0.0, 5.0
    s[s["p"] < 0.5] = (x[0] ** 3, ([x[1], 1.0],))
    return (s["p"] * s["r"]["q"].sum(axis=1)).sum() + chosen["r"]["q"].sum()


@program
def strided(x):
    w = as_strided(x, (2, 2), (x.strides[0], x.strides[0]))
    return (w**2).sum()


@program
def window(x):
    return (sliding_window_view(x, 2).mean(axis=-1) ** 2).sum()


@program
def window2(x):
    return (np.lib.stride_tricks.sliding_window_view(np.outer(x, x), (2, 2)).sum(axis=(2, 3)) ** 2).sum()


@program
def block(x):
    return (np.block([[np.outer(x, x), x[:, None]], [x[None], np.ones((1, 1))]]) ** 2).sum()


@program
def select(x):
    return np.select([x < 0.5, x > 1], [x**2, x**3], default=x).sum()


@program
def frompyfunc(x):
    g = np.frompyfunc(lambda a, b: a * b + 1, 2, 1)
    return (g(x, x[::-1]) ** 2).sum()


@program
def frompyfunc_if(x):
    g = np.frompyfunc(lambda a: a * a if a > 1 else -a, 1, 1)
    return g(x).astype(float).sum()


@program
def frompyfunc_reduce(x):
    g = np.frompyfunc(lambda a, b: a * b + 1, 2, 1)
    return g.reduce(x)


@program
def acc_add(x):
    return (np.add.accumulate(x) ** 2).sum()


@program
def acc_mul(x):
    return (np.multiply.accumulate(x) ** 2).sum()


@program
def acc_max(x):
    return (np.maximum.accumulate(x) ** 2).sum()


@program
def acc_lae(x):
    return (np.logaddexp.accumulate(x) ** 2).sum()


@program
def acc_sub(x):
    return (np.subtract.accumulate(x) ** 2).sum()


@program
def acc_div(x):
    return (np.divide.accumulate(x) ** 2).sum()


@program
def acc_hypot(x):
    return (np.hypot.accumulate(x) ** 2).sum()


@program
def acc_pow(x):
    return (np.power.accumulate(x) ** 2).sum()


@program
def acc_axis(x):
    return (np.add.accumulate(np.outer(x, x), axis=1) ** 2).sum()


@program
def redat_add(x):
    return (np.add.reduceat(np.concatenate([x, x * 2]), [0, 2, 4]) ** 2).sum()


@program
def redat_mul(x):
    return (np.multiply.reduceat(np.concatenate([x, x * 2]), [0, 3, 1]) ** 2).sum()


@program
def redat_max(x):
    return (np.maximum.reduceat(np.outer(x, x), [0, 1], axis=1) ** 2).sum()


@program
def redat_lae(x):
    return (np.logaddexp.reduceat(np.concatenate([x, x * 2]), [0, 2, 4]) ** 2).sum()


@program
def outer_sub(x):
    return (np.subtract.outer(x, x[:2]) ** 2).sum()


@program
def outer_hyp(x):
    return (np.hypot.outer(x, x) ** 2).sum() + np.power.outer(x, [1.0, 2.0]).sum()


@program
def red_lae(x):
    return np.logaddexp.reduce(x) ** 2 + np.hypot.reduce(x)


@program
def red_where(x):
    return np.add.reduce(x, where=np.array([True, False, True]), initial=2.0) ** 2


@program
def at_mul(x):
    a = np.ones(3)
    np.multiply.at(a, [0, 0, 1], x)
    return (a**2).sum()


@program
def at_max(x):
    a = np.ones(3)
    np.maximum.at(a, [0, 0, 1], x)
    return (a**2).sum()


@program
def poly(x):
    p = np.polynomial.Polynomial(x)
    return p(0.3) ** 2 + p.deriv()(0.5) + p.integ()(1.0)


@program
def poly_arith(x):
    p = np.polynomial.Polynomial(x)
    q = np.polynomial.Polynomial([1.0, 2.0])
    return ((p * q + p) ** 2).coef.sum()


@program
def poly_fit(x):
    t = np.array([0.0, 1.0, 2.0])
    p = np.polynomial.Polynomial.fit(t, x, 1)
    return p(3.0) ** 2


@program
def poly_roots(x):
    p = np.polynomial.Polynomial([x[0] - 5, x[1], x[2]])
    return np.sort(p.roots().real).sum() + (p.roots() ** 2).real.sum()


@program
def cheb(x):
    p = np.polynomial.Chebyshev(x, domain=[0, 2])
    return p(np.array([0.3, 0.4])).sum() ** 2 + p.convert().coef.sum()


@program
def legendre(x):
    p = np.polynomial.Legendre(x)
    return (p(V0) ** 2).sum() + np.polynomial.Hermite(x)(0.3)


@program
def poly1d(x):
    p = np.poly1d(x)
    return p(0.3) ** 2 + p.deriv()(0.2) + (p * p)(0.4)


@program
def aaa(x):
    A = np.outer(V0, V0)
    return np.apply_along_axis(lambda r: (r * x[0]).sum() ** 2 + x[1], 1, A).sum()


@program
def aaa2(x):
    A = np.outer(x, x)
    return np.apply_along_axis(lambda r: np.sort(r) * r[0], 0, A).sum()


@program
def written_lines(x):
    def doubled(line):
        line[0] = line[0] * 2
        return np.sum(line**2)

    p = np.outer(x, x) * 1.0
    return np.sum(np.apply_along_axis(doubled, 0, p)) + np.sum(np.apply_along_axis(doubled, 1, p)[1:]) + np.sum(p)


@program
def vect(x):
    return (np.vectorize(lambda t: t * x[0] + np.sin(t * x[1]))(V0) ** 2).sum()


@program
def vect_if(x):
    return np.vectorize(lambda t: t * x[0] if t > 0.5 else x[1] ** 2)(V0).sum()


@program
def vect_sig(x):
    return np.vectorize(lambda r: (r * x).sum(), signature="(n)->()")(np.outer(V0, np.ones(3))).sum() ** 2


@program
def vect_dec(x):
    @np.vectorize
    def g(a, b):
        return a * b + x[2]

    return (g(x, V0[:3]) ** 2).sum()


@program
def vect_otypes(x):
    return (np.vectorize(lambda t: t * x[0], otypes=[float])(V0) ** 2).sum()


@program
def piecewise(x):
    return np.piecewise(x, [x < 0.5, x >= 0.5], [lambda t: t**2, lambda t: t * x[1]]).sum()


@program
def piecewise_of_what_is_selected(x):
    a = np.piecewise(x, [x < 1.0], [lambda t: t * (t - t.mean()), lambda t: t * t.size])
    b = np.piecewise(np.outer(x, x), [x > 0.5], [lambda t: t / t.sum(axis=0), 3])
    return (a * V).sum() + (b * ROWS).sum()


@program
def piecewise_where_nothing_is_selected(x):
    def never(t):
        raise ValueError

    y = np.piecewise(x, [x > 9.0, x < 1.0], [never, np.square, lambda t: t / t.max()])
    return y @ V + np.piecewise(x[0], [x[0] > 9.0, x[0] < 1.0], [never, lambda t: t * t.sum()])


@program
def fromfunction(x):
    return np.fromfunction(lambda i, j: x[0] * i + x[1] * j, (3, 3)).sum() ** 2


@program
def fromiter(x):
    return (np.fromiter((v * x[0] for v in x), float) ** 2).sum()


@program
def nditer(x):
    s = 0.0
    for v in np.nditer(V0):
        s = s + v * x[0]
    return s**2


@program
def ndenum(x):
    s = 0.0
    for (i,), v in np.ndenumerate(x):
        s = s + v * (i + 1) ** 2
    return s**2


@program
def interp(x):
    return np.interp(x, V0, V0**2).sum() + np.interp(0.3, V0, np.concatenate([x, x[:2]]))


@program
def gradient_(x):
    return (np.gradient(x**2, 0.5) ** 2).sum()


@program
def histo(x):
    return (np.histogram(V0, bins=3, weights=np.concatenate([x, x[:2]]))[0] ** 2).sum()


@program
def cov_(x):
    return np.cov(np.outer(x, V0)).sum() + np.corrcoef(x, x**2)[0, 1]


@program
def nanf(x):
    return np.nansum(np.where(x > 1, np.nan, x)) ** 2 + np.nanmedian(x)


@program
def uniq(x):
    u, inv, c = np.unique(np.round(x, 3), return_inverse=True, return_counts=True)
    return (x[inv] * c).sum()


@program
def unwrap_(x):
    return (np.unwrap(x * 5) ** 2).sum()


@program
def r_c(x):
    return (np.r_[x, 1.0, x * 2] ** 2).sum() + (np.c_[x, x] ** 2).sum()


@program
def ix(x):
    return (np.outer(x, x)[np.ix_([0, 2], [1, 2])] ** 2).sum()


@program
def einsum_(x):
    return np.einsum("i,j,ij->", x, x, np.outer(x, x))


@program
def trapz(x):
    return np.trapezoid(x**2, V0[:3])


@program
def place_(x):
    a = x.copy()
    np.place(a, a > 1, [x[0]])
    np.put(a, [2], x[1])
    return (a**2).sum()


@program
def choose(x):
    return np.choose([0, 1, 0], [x, x**2]).sum()


@program
def lexs(x):
    return x[np.lexsort((x, -x))][0] ** 2


@program
def partition_(x):
    return np.partition(x, 1)[0] ** 2 + np.median(x)


@program
def pickle_(x):
    d = {"a": x, "b": [x * 2]}
    e = copy.deepcopy(d)
    e["a"][0] = x[1]
    return (e["a"] * e["b"][0]).sum() + d["a"][0]


@program
def fmt(x):
    return float(f"{2.0:.2f}") * (x**2).sum()


def slopes(f: Callable[[Any], Any], h: float = 1e-6) -> np.ndarray:
    return np.array([(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(3)])


cases = pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)


@cases
@pytest.mark.filterwarnings("ignore")
def test_derivatives(f: Callable[[Any], Any]) -> None:
    expected = slopes(f)
    assert grad(f)(X) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert jvp(f, (X,), (V,))[1] == pytest.approx(expected @ V, rel=1e-5, abs=1e-6)


known_shapes = pytest.mark.parametrize(
    "f", [f for name, f in PROGRAMS.items() if name not in UNMAPPED], ids=lambda f: f.__name__
)


@pytest.mark.share(2)
@known_shapes
@pytest.mark.filterwarnings("ignore")
def test_jit(f: Callable[[Any], Any]) -> None:
    compiled, slope = jit(f), jit(grad(f))
    for x in (X, X, X * 1.1, X):
        assert compiled(x) == pytest.approx(f(x), rel=1e-12)
        assert slope(x) == pytest.approx(grad(f)(x), rel=1e-10, abs=1e-12)


@known_shapes
@pytest.mark.filterwarnings("ignore")
def test_vmap(f: Callable[[Any], Any]) -> None:
    assert vmap(f)(ROWS) == pytest.approx(np.array([f(x) for x in ROWS]), rel=1e-12)
    assert vmap(grad(f))(ROWS) == pytest.approx(np.array([grad(f)(x) for x in ROWS]), rel=1e-10, abs=1e-12)


def test_an_assertion_that_fails_is_numpys() -> None:
    def f(x: Any) -> Any:
        np.testing.assert_allclose(x, x + 1.0)
        return x.sum()

    for transform in (grad, jit, vmap):
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            transform(f)(X if transform is not vmap else ROWS)


def test_nobody_takes_a_masked_array_for_a_plain_one() -> None:
    """np.ma.cov and np.ma.polyfit are no doors, and NumPy knows nothing of the class: it made an array of one object."""
    for f in (np.ma.cov, lambda m: np.ma.polyfit(np.arange(3.0), m, 1), np.asarray):
        with pytest.raises(TypeError, match=r"no plain array.*\n.*x.filled"):
            grad(lambda x, f=f: f(np.ma.array(x, mask=[0, 1, 0])).sum())(X)
    with pytest.raises(TypeError, match=r"np\.ma\.dot"):
        grad(lambda x: (OBSERVED @ x).sum())(X)


def test_what_a_masked_array_cannot_do_is_named() -> None:
    with pytest.raises(AttributeError, match="x.filled"):
        grad(lambda x: np.ma.array(x, mask=[0, 1, 0]).argsort().sum())(X)


def test_masked_elements_reach_no_derivative() -> None:
    f = lambda x: np.sqrt(np.ma.masked_less(x, 0.0)).sum()
    assert grad(f)(np.array([-1.0, 0.0, 4.0]))[[0, 2]] == pytest.approx([0.0, 0.25])
    assert funcad.hessian(f)(np.array([-1.0, 1.0, 4.0]))[1, 1] == pytest.approx(-0.25)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.float32, np.bool_])
def test_masked_arrays_keep_their_dtype(dtype: Any) -> None:
    def f(x: Any) -> Any:
        m, rows = np.ma.masked_equal(x, 1), np.ma.masked_equal(np.stack([x, x[::-1]]), 0)
        chosen = np.ma.where(x > 1, x, np.ma.masked).filled(1), np.ma.where(x > 1, np.ma.masked, x).filled(0)
        whole = rows.max(axis=1).filled(1), rows.min(axis=0).filled(0), np.ma.sort(m).filled(1)
        return m.max(), m.min(), m.filled(), m.filled(2.5), *whole, *chosen

    x = np.array([3, 0, 1, 2]).astype(dtype)
    if dtype is np.uint8 and NUMPY < (2, 2):
        pytest.skip("NumPy's own maximum of masked uint8 raises")
    jitted = jit(f)
    for _ in range(3):
        for found, expected in zip(jitted(x), f(x), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_structured_arrays_without_traced_values_are_numpys() -> None:
    def f(x: Any) -> Any:
        table = np.zeros(2, dtype=[("p", float), ("q", int)])
        table["q"] = 3
        return x.sum(), table

    _, table = grad(f, has_aux=True)(X)
    assert type(table) is np.ndarray and table["q"].tolist() == [3, 3]


PAIR = [("m", float), ("k", float)]


def pairs(x: Any, dtype: Any = PAIR) -> Any:
    table = np.zeros(len(x), dtype)
    table["m"], table["k"] = np.floor(x), -x
    return table


def in_place(x: Any, index: Any = ..., **options: Any) -> Any:
    table = pairs(x)
    table[index].sort(**options)
    return table


def inner(x: Any) -> Any:
    table = np.zeros(len(x), [("w", float), ("pair", PAIR), ("p", float, (2,))])
    table["w"], table["p"] = np.floor(x / 2.0), x[:, None] * np.array([1.0, -1.0])
    table["pair"]["m"], table["pair"]["k"] = np.floor(x), x
    return table


SORTED: dict[str, Callable[[Any], Any]] = {
    "by a field": lambda x: np.sort(pairs(x), order="k")["m"],
    "by all": lambda x: np.sort(pairs(x))["k"],
    "by a list": lambda x: np.sort(pairs(x), order=["m", "k"])["k"],
    "by a list turned": lambda x: np.sort(pairs(x), order=["k", "m"])["m"],
    "stable": lambda x: np.sort(pairs(x), kind="stable", order="m")["k"],
    "positions": lambda x: x[np.argsort(pairs(x))],
    "positions by a field": lambda x: x * np.argsort(pairs(x), order="k"),
    "positions of equal records": lambda x: np.argsort(pairs(0.0 * x)) * x,
    "in place": lambda x: in_place(x, order="m")["k"],
    "a part in place": lambda x: in_place(x, slice(2, None), order="k")["k"],
    "a method's positions": lambda x: pairs(x)[pairs(x).argsort(order="k")]["m"],
    "by attribute": lambda x: np.sort(pairs(x).view(np.recarray), order="m").k,
    "rows": lambda x: np.sort(np.flip(inner(x)))["p"],
    "records in records": lambda x: np.sort(inner(x), order="pair")["pair"]["k"],
    "given by name": lambda x: np.sort(a=inner(x), order=["w", "pair"])["p"][:, 1],
}


@pytest.mark.parametrize("name", SORTED)
def test_structured_arrays_are_sorted_as_numpys(name: str) -> None:
    f = SORTED[name]
    x = np.random.default_rng(7).permutation(np.linspace(0.1, 6.3, 24))
    jitted = jit(f, not_compiled="raise")
    for _ in range(3):
        np.testing.assert_array_equal(jitted(x), f(x))
    np.testing.assert_array_equal(funcad.vmap(f)(np.stack([x, x[::-1]])), [f(x), f(x[::-1])])
    t, h = np.cos(np.arange(24.0)), 1e-6
    slope = funcad.jvp(f, (x,), (t,))[1]
    np.testing.assert_allclose(slope, (f(x + h * t) - f(x - h * t)) / (2 * h), atol=1e-6)
    total = lambda x: np.sum(np.sin(f(x) * x[0]))
    np.testing.assert_allclose(grad(total)(x) @ t, (total(x + h * t) - total(x - h * t)) / (2 * h), atol=1e-5)


def test_structured_arrays_of_two_axes_are_sorted() -> None:
    def f(x: Any) -> Any:
        table = np.zeros((2, 3), PAIR)
        table["m"], table["k"] = np.floor(x), x
        rows, columns, whole = np.sort(table, order="k"), np.sort(table, axis=0), np.sort(table, axis=None)
        return rows["m"], columns["k"], whole["k"], np.argsort(table, axis=None), np.ndim(table), np.shape(table)

    x, jitted = np.random.default_rng(8).normal(size=(2, 3)), jit(f)
    for _ in range(3):
        for a, b in zip(jitted(x), f(x), strict=True):
            np.testing.assert_array_equal(a, b)


def test_errors_of_sorting_structured_arrays_are_numpys() -> None:
    for options in ({"order": "z"}, {"order": ["m", "m"]}, {"kind": "bad"}, {"axis": 1}):
        f = lambda x, o=options: np.sort(pairs(x), **o)["m"].sum()
        with pytest.raises(ValueError) as plain:
            f(X)
        for call in (jit(f), grad(f), grad(lambda x, o=options: in_place(x, **o)["m"].sum())):
            with pytest.raises(ValueError) as found:
                call(X)
            assert str(found.value) == str(plain.value)


def test_what_takes_no_structured_array_with_traced_values_runs_as_plain_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    for f in (np.copy, lambda p: np.concatenate([p, p]), lambda p: np.take(p, [1, 0]), lambda p: np.partition(p, 1)):
        jitted = jit(lambda x, f=f: f(pairs(x))["m"], not_compiled="ignore")
        for _ in range(3):
            np.testing.assert_array_equal(jitted(X), f(pairs(X))["m"])


BRANCHES: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda t: 1 if t > 0.5 else t * t, [0, 0, 0.8]),
    (lambda t: t * t if t > 0.5 else 1, [1.4, 2.6, 0]),
    (lambda t: True if t > 0.5 else t, [0, 0, 0]),
]


@pytest.mark.parametrize(("branches", "slopes"), BRANCHES)
def test_vectorize_has_the_dtype_of_its_first_result(branches: Callable[[Any], Any], slopes: list[float]) -> None:
    f = np.vectorize(branches)
    jitted, plain = jit(lambda x: f(x)), f(X)
    mapped = vmap(lambda x: f(x))(np.stack([X, X]))[1]
    followed, pullback = funcad.vjp(lambda x: f(x) * 1.0, X)
    pushed = jvp(lambda x: f(x), (X,), (X,))[0]
    for found in (jitted(X), jitted(X), jitted(X), mapped, pushed):
        assert found.dtype == plain.dtype
        np.testing.assert_array_equal(found, plain)
    np.testing.assert_array_equal(followed, plain)
    np.testing.assert_allclose(pullback(np.ones(3))[0], slopes if plain.dtype.kind == "f" else 0.0)


@pytest.mark.parametrize("f", [np.cov, np.corrcoef])
@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (4,), (3, 4), (1, 1)])
@pytest.mark.parametrize("rowvar", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_which_are_the_variables_of_a_covariance(f: Any, shape: tuple, rowvar: bool) -> None:
    x = np.linspace(0.3, 2.0, int(np.prod(shape))).reshape(shape) ** 2
    g = lambda x: f(x, rowvar=rowvar)
    jitted = jit(g)
    for found in (jitted(x), jitted(x), jitted(x), vmap(g)(np.stack([x, x]))[1], jvp(g, (x,), (x,))[0], funcad.vjp(g, x)[0]):
        np.testing.assert_allclose(found, g(x), rtol=1e-12)
    if shape == (1, 4) and not rowvar:
        with pytest.raises(ValueError):
            g = lambda x: f(x, np.tile(x, (2, 2)), rowvar=rowvar)
            jvp(g, (x,), (x,))

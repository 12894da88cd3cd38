"""Special points: the value and the derivatives of functions that bend, turn or jump there, the same in every mode.

TABLE has one row per convention: a function of a vector, the point, its value, gradient and Hessian there. Two rules are behind
it. Where a slope turns (norms, std, hypot, complex abs) it is 0, a number that infinite slopes outside make NaN, and so is its
own derivative; powers of such functions are exact. Functions that are linear on both sides have the second derivative 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
import funcad.scipy.special as special
from funcad import checkpoint, cond, grad, hessian, jacfwd, jacrev, jit, jvp, nn, scan, stop_gradient, vjp, vmap

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # values at special points warn as NumPy's do
    pytest.mark.filterwarnings("ignore:grad.*does not depend"),  # x ** 0
]

norm = np.linalg.norm
inf, nan = np.inf, np.nan
EYE = np.eye(3)
ZERO = np.zeros(3)
ONES = np.ones(3)
PAIR = np.zeros(2)
CENTRED = np.eye(3) - np.ones((3, 3)) / 3
NANS = np.full((3, 3), nan)
MATRIX = np.zeros(4)
jitted_norm = jit(norm)


def at(value: float) -> np.ndarray:
    return np.array([value])


def scalar(f: Any) -> Any:
    """A function of one number as one of a vector."""
    return lambda v: f(v[0])


def matrix(f: Any) -> Any:
    return lambda v: f(v.reshape(2, 2))


def complex_of(v: Any) -> Any:
    return v[0] + 1j * v[1]


def twice(r: Any) -> Any:
    return r * r


def rows_of(x: Any) -> Any:
    """Three rows, so that norms along an axis are norms of single numbers."""
    return x.reshape(3, 1)


def in_scan(x: Any) -> Any:
    return scan(lambda c, row: (c + norm(row) ** 2, None), 0.0, rows_of(x))[0]


def in_cond(x: Any) -> Any:
    return cond(x[0] > -1, lambda x: norm(x) ** 2, lambda x: norm(x), x)


def standardized(x: Any) -> Any:
    return ((x - np.mean(x)) / (np.std(x) + 0.1))[0]


def slogdet(a: Any) -> Any:
    return np.linalg.slogdet(a)[1]


def hessian_of_det() -> np.ndarray:
    h = np.zeros((4, 4))
    h[0, 3] = h[3, 0] = 1
    h[1, 2] = h[2, 1] = -1
    return h


TURNING: dict[str, tuple] = {
    "norm": (norm, ZERO),
    "norm by axis": (lambda x: np.sum(norm(np.stack([x, 2 * x]), axis=1)), ZERO),
    "vector_norm": (lambda x: np.linalg.vector_norm(x), ZERO),
    "Frobenius": (matrix(norm), MATRIX),
    "ord 2": (lambda x: norm(x, 2), ZERO),
    "ord 2 of a matrix": (matrix(lambda a: norm(a, 2)), MATRIX),
    "ord 3": (lambda x: norm(x, 3), ZERO),
    "ord 1.5": (lambda x: norm(x, 1.5), ZERO),
    "nuclear": (matrix(lambda a: norm(a, "nuc")), MATRIX),
    "std": (np.std, ONES),
    "nanstd": (np.nanstd, ONES),
    "std by axis": (lambda x: np.sum(np.std(np.stack([x, x]), axis=1)), ONES),
    "hypot": (lambda v: np.hypot(v[0], v[1]), PAIR),
    "hypot(x, 0)": (scalar(lambda x: np.hypot(x, 0.0)), at(0.0)),
    "complex abs": (lambda v: np.abs(complex_of(v)), PAIR),
    "norm of complex numbers": (lambda v: norm(v + 1j * v), PAIR),
    "lam * norm": (lambda x: 0.7 * norm(x), ZERO),
}

SQUARES: dict[str, tuple] = {
    "norm ** 2": (lambda x: norm(x) ** 2, ZERO, 2 * EYE),
    "norm ** 2.0": (lambda x: norm(x) ** 2.0, ZERO, 2 * EYE),
    "r * r": (lambda x: twice(norm(x)), ZERO, 2 * EYE),
    "np.multiply(r, r)": (lambda x: (lambda r: np.multiply(r, r))(norm(x)), ZERO, 2 * EYE),
    "np.square": (lambda x: np.square(norm(x)), ZERO, 2 * EYE),
    "fnp.square": (lambda x: fnp.square(norm(x)), ZERO, 2 * EYE),
    "np.power": (lambda x: np.power(norm(x), 2), ZERO, 2 * EYE),
    "norm ** 4": (lambda x: norm(x) ** 4, ZERO, 0 * EYE),
    "(norm ** 2) ** 2": (lambda x: (norm(x) ** 2) ** 2, ZERO, 0 * EYE),
    "norm by axis": (lambda x: np.sum(norm(rows_of(x), axis=1) ** 2), ZERO, 2 * EYE),
    "keepdims": (lambda x: np.sum(norm(x, keepdims=True) ** 2), ZERO, 2 * EYE),
    "Frobenius": (matrix(lambda a: norm(a) ** 2), MATRIX, 2 * np.eye(4)),
    "ord 2": (lambda x: norm(x, 2) ** 2, ZERO, 2 * EYE),
    "picked": (lambda x: np.sum(norm(rows_of(x), axis=1)[np.array([2, 0, 2])] ** 2), ZERO, np.diag([2.0, 0.0, 4.0])),
    "sliced": (lambda x: np.sum(norm(rows_of(x), axis=1)[1:].reshape(2, 1).T ** 2), ZERO, np.diag([0.0, 2.0, 2.0])),
    "stacked": (lambda x: np.sum(np.stack([norm(x), 2 * norm(x)]) ** 2), ZERO, 10 * EYE),
    "scaled": (lambda x: (norm(x) / 2) ** 2, ZERO, 0.5 * EYE),
    "negative": (lambda x: (-norm(x)) ** 2, ZERO, 2 * EYE),
    "abs of the norm": (lambda x: abs(norm(x)) ** 2, ZERO, 2 * EYE),
    "abs ** 2": (lambda x: np.sum(np.abs(x) ** 2), ZERO, 2 * EYE),
    "std ** 2": (lambda x: np.std(x) ** 2, ONES, 2 / 3 * CENTRED),
    "hypot ** 2": (lambda v: np.hypot(v[0], v[1]) ** 2, PAIR, 2 * np.eye(2)),
    "hypot(hypot) ** 2": (lambda x: np.hypot(np.hypot(x[0], x[1]), x[2]) ** 2, ZERO, 2 * EYE),
    "abs(z) ** 2": (lambda v: np.abs(complex_of(v)) ** 2, PAIR, 2 * np.eye(2)),
    "norm of complex ** 2": (lambda v: norm(v + 1j * v) ** 2, PAIR, 4 * np.eye(2)),
    "sqrt(norm ** 2 + 1)": (lambda x: np.sqrt(norm(x) ** 2 + 1), ZERO, EYE),
    "exp(norm ** 2)": (lambda x: np.exp(norm(x) ** 2), ZERO, 2 * EYE),
    "through jit": (lambda x: jitted_norm(x) ** 2, ZERO, 2 * EYE),
    "through jit in jit": (lambda x: jit(lambda x: 2 * jitted_norm(x))(x) ** 2, ZERO, 8 * EYE),
    "argument of jit": (lambda x: jit(lambda r: r**4 + np.square(r) + r * r)(norm(x)), ZERO, 4 * EYE),
    "argument of jit in jit": (lambda x: jit(lambda r: jit(twice)(r))(norm(x)), ZERO, 2 * EYE),
    "through vmap": (lambda x: np.sum(vmap(norm)(rows_of(x)) ** 2), ZERO, 2 * EYE),
    "through checkpoint": (lambda x: checkpoint(norm)(x) ** 2, ZERO, 2 * EYE),
    "in checkpoint": (lambda x: checkpoint(lambda x: norm(x) ** 2)(x), ZERO, 2 * EYE),
    "in scan": (in_scan, ZERO, 2 * EYE),
    "in cond": (in_cond, ZERO, 2 * EYE),
    "above 64 KiB": (lambda x: np.sum((norm(np.broadcast_to(x, (8192, 3)), axis=1) / 64) ** 2), ZERO, 4 * EYE),
}

TABLE: dict[str, tuple] = {f"turning: {k}": (f, x, None, 0, nan) for k, (f, x) in TURNING.items()}
TABLE |= {f"square: {k}": (f, x, None, 0, h) for k, (f, x, h) in SQUARES.items()}
TABLE |= {
    "norm ** 3": (lambda x: norm(x) ** 3, ZERO, 0, 0, 0),
    "abs ** 3": (scalar(lambda x: abs(x) ** 3), at(0.0), 0, 0, 0),
    "exp(-norm)": (lambda x: np.exp(-norm(x)), ZERO, 1, 0, nan),
    "standardized": (standardized, ONES, 0, [20 / 3, -10 / 3, -10 / 3], nan),
    "log(norm)": (lambda x: np.log(norm(x)), ZERO, -inf, nan, nan),
    "1 / norm": (lambda x: 1 / norm(x), ZERO, inf, nan, nan),
    "norm ** .3": (lambda x: norm(x) ** 0.3, ZERO, 0, nan, nan),
    "norm ** -2": (lambda x: norm(x) ** -2, ZERO, inf, nan, nan),
    "x / norm": (lambda x: (x / norm(x))[0], ZERO, nan, nan, nan),
    "log(std)": (lambda x: np.log(np.std(x)), ONES, -inf, nan, nan),
    "log(abs)": (scalar(lambda x: np.log(np.abs(x))), at(0.0), -inf, nan, nan),
    # linear on both sides
    "abs": (scalar(np.abs), at(0.0), 0, 0, 0),
    "L1": (lambda x: norm(x, 1), ZERO, 0, 0, 0),
    "largest": (lambda x: norm(x, inf), ZERO, 0, 0, 0),
    "smallest": (lambda x: norm(x, -inf), ZERO, 0, 0, 0),
    "matrix norm 1": (matrix(lambda a: norm(a, 1)), MATRIX, 0, 0, 0),
    "max": (np.max, np.array([1.0, 1.0, 0.0]), 1, [0.5, 0.5, 0.0], 0),
    "min": (np.min, np.array([1.0, 0.0, 0.0]), 0, [0.0, 0.5, 0.5], 0),
    "maximum": (lambda v: np.maximum(v[0], v[1]), np.ones(2), 1, 0.5, 0),
    "minimum": (lambda v: np.minimum(v[0], v[1]), np.ones(2), 1, 0.5, 0),
    "maximum of infinities": (lambda v: np.maximum(v[0], v[1]), np.full(2, inf), inf, 0.5, 0),
    "relu": (scalar(nn.relu), at(0.0), 0, 0, 0),
    "clip": (scalar(lambda x: np.clip(x, 0.0, 1.0)), at(0.0), 0, 0.5, 0),
    "prelu": (scalar(lambda x: np.where(x > 0, x, 0.2 * x)), at(0.0), 0, 0.2, 0),
    "where": (scalar(lambda x: np.where(x > 0, x, x**2)), at(0.0), 0, 0, 2),
    "sort": (lambda x: np.sort(x) @ np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0]), 5, [2.0, 3.0, 1.0], 0),
    "median": (np.median, np.array([1.0, 1.0, 0.0, 1.0]), 1, [0.5, 0.5, 0.0, 0.0], 0),
    "quantile": (lambda x: np.quantile(x, 0.5), np.array([1.0, 1.0, 0.0]), 1, [1.0, 0.0, 0.0], 0),
    # NaN operands
    "maximum(nan, 0)": (scalar(lambda x: np.maximum(x, 0.0)), at(nan), nan, nan, nan),
    "maximum(0, nan)": (scalar(lambda x: np.maximum(x, nan)), at(0.0), nan, nan, nan),
    "minimum(nan, 0)": (scalar(lambda x: np.minimum(x, 0.0)), at(nan), nan, nan, nan),
    "clip(nan)": (scalar(lambda x: np.clip(x, 0.0, 1.0)), at(nan), nan, nan, nan),
    "fmax(nan, 0)": (lambda v: np.fmax(v[0], v[1]), np.array([nan, 0.0]), 0, [0.0, 1.0], 0),
    "fmin(0, nan)": (lambda v: np.fmin(v[0], v[1]), np.array([0.0, nan]), 0, [1.0, 0.0], 0),
    "fmax": (lambda v: np.fmax(v[0], v[1]), np.ones(2), 1, 0.5, 0),
    # roots and powers
    "sqrt(x ** 2)": (scalar(lambda x: np.sqrt(x**2)), at(0.0), 0, nan, nan),
    "sqrt(x) ** 2": (scalar(lambda x: np.sqrt(x) ** 2), at(0.0), 0, nan, nan),
    "sqrt": (scalar(np.sqrt), at(0.0), 0, inf, -inf),
    "x ** .5": (scalar(lambda x: x**0.5), at(0.0), 0, inf, -inf),
    "x ** .3": (scalar(lambda x: x**0.3), at(0.0), 0, inf, -inf),
    "x ** 1.5": (scalar(lambda x: x**1.5), at(0.0), 0, 0, inf),
    "x ** 2": (scalar(lambda x: x**2), at(0.0), 0, 0, 2),
    "x ** 1": (scalar(lambda x: x**1), at(0.0), 0, 1, 0),
    "x ** 0": (scalar(lambda x: x**0), at(0.0), 1, 0, 0),
    "x ** -1": (scalar(lambda x: x**-1), at(0.0), inf, -inf, inf),
    "0 ** p, p = 1": (scalar(lambda p: 0.0**p), at(1.0), 0, 0, 0),
    "0 ** p, p = 0": (scalar(lambda p: 0.0**p), at(0.0), 1, -inf, inf),
    "x ** x": (scalar(lambda x: x**x), at(0.0), 1, -inf, inf),
    "xlogy(x, x)": (scalar(lambda x: special.xlogy(x, x)), at(0.0), 0, -inf, inf),
    # ends of domains
    "arccos": (scalar(np.arccos), at(1.0), 0, -inf, -inf),
    "arcsin": (scalar(np.arcsin), at(1.0), np.pi / 2, inf, inf),
    "arccosh": (scalar(np.arccosh), at(1.0), 0, inf, -inf),
    "arctan2": (lambda v: np.arctan2(v[0], v[1]), PAIR, 0, nan, nan),
    "angle": (lambda v: np.angle(complex_of(v)), PAIR, 0, nan, nan),
    # sums of exponentials of nothing
    "logsumexp": (special.logsumexp, np.full(2, -inf), -inf, 0.5, [[0.25, -0.25], [-0.25, 0.25]]),
    "logaddexp": (lambda v: np.logaddexp(v[0], v[1]), np.full(2, -inf), -inf, 0.5, [[0.25, -0.25], [-0.25, 0.25]]),
    "logsumexp of three": (special.logsumexp, np.full(3, -inf), -inf, 1 / 3, EYE / 3 - np.ones((3, 3)) / 9),
    "logaddexp of one": (lambda v: np.logaddexp(v[0], v[1]), np.array([-inf, 1.0]), 1, [0.0, 1.0], 0),
    # matrices
    "eigvalsh": (matrix(lambda a: np.linalg.eigvalsh(a) @ np.array([1.0, 2.0])), np.eye(2).ravel(), 3, [1, 0, 0, 2], nan),
    "svdvals": (matrix(lambda a: np.linalg.svdvals(a) @ np.array([1.0, 2.0])), np.eye(2).ravel(), 3, [1, 0, 0, 2], nan),
    "slogdet": (matrix(slogdet), np.ones(4), -inf, nan, nan),
    "det": (matrix(np.linalg.det), np.ones(4), 0, [1, -1, -1, 1], hessian_of_det()),
}

FIRST = {
    "grad": grad,
    "jacfwd": jacfwd,
    "jit grad": lambda f: jit(grad(f)),
    "grad jit": lambda f: grad(jit(f)),
    "jit jacfwd": lambda f: jit(jacfwd(f)),
    "vmap grad": lambda f: lambda x: vmap(grad(f))(x[None])[0],
}
SECOND = {
    "hessian": hessian,
    "forward forward": lambda f: jacfwd(jacfwd(f)),
    "reverse reverse": lambda f: jacrev(jacrev(f)),
    "reverse forward": lambda f: jacrev(jacfwd(f)),
    "jit hessian": lambda f: jit(hessian(f)),
    "hessian jit": lambda f: hessian(jit(f)),
    "jit reverse forward": lambda f: jit(jacrev(jacfwd(f))),
    "vmap hessian": lambda f: lambda x: vmap(hessian(f))(x[None])[0],
}


def check(found: Any, expected: Any, shape: tuple, what: str, dtype: Any = np.float64) -> None:
    assert found.dtype == dtype and found.shape == shape, what
    tolerance = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, np.broadcast_to(expected, shape), rtol=tolerance, atol=tolerance, err_msg=what)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", TABLE)
def test_value(name: str) -> None:
    f, x, value, _, _ = TABLE[name]
    if value is None:  # the functions that are 0 there, or do not fall below their value
        value = f(x)
        assert np.isfinite(value)
    for each in (f, jit(f), lambda x: vmap(f)(x[None])[0]):
        np.testing.assert_allclose(each(x), value, rtol=1e-12, atol=1e-12)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", TABLE)
def test_first_derivative(name: str) -> None:
    f, x, _, first, _ = TABLE[name]
    for mode, derivative in FIRST.items():
        check(derivative(f)(x), first, x.shape, mode)
    small = x.astype(np.float32)
    if f(small).dtype == np.float32:
        check(grad(f)(small), first, x.shape, "float32", np.float32)
        check(jit(grad(f))(small), first, x.shape, "jit, float32", np.float32)


@pytest.mark.share(6)
@pytest.mark.parametrize("name", TABLE)
def test_second_derivative(name: str) -> None:
    f, x, _, _, second = TABLE[name]
    for mode, derivative in SECOND.items():
        check(derivative(f)(x), second, x.shape * 2, mode)
    small = x.astype(np.float32)
    if f(small).dtype == np.float32:
        check(hessian(f)(small), second, x.shape * 2, "float32", np.float32)


def test_third_derivatives() -> None:
    cube, square, fourth = (lambda x, n=n: norm(x) ** n for n in (3, 2, 4))
    for third in (lambda f: jacfwd(hessian(f)), lambda f: jit(jacrev(hessian(f))), lambda f: jacrev(jacrev(jacrev(f)))):
        assert np.isnan(third(cube)(PAIR)).all()
        assert np.isnan(third(scalar(lambda x: abs(x) ** 3))(at(0.0))).all()
        assert not third(square)(PAIR).any() and not third(fourth)(PAIR).any()
        fourth_derivative = jacfwd(third(fourth))(PAIR)
        expected = 8 * sum(np.einsum(s, np.eye(2), np.eye(2)) for s in ("ij,kl->ijkl", "ik,jl->ijkl", "il,jk->ijkl"))
        np.testing.assert_array_equal(fourth_derivative, expected)


def test_eigenvectors_of_equal_eigenvalues_have_no_derivative() -> None:
    assert np.isnan(grad(lambda a: np.linalg.eigh(a)[1][0, 0])(np.eye(2))).any()
    assert np.isnan(grad(lambda a: np.linalg.svd(a)[0][0, 0])(np.eye(2))).any()


# -- squares know what made their operand


def random_points() -> tuple[np.ndarray, Any]:
    p = np.random.default_rng(0).normal(size=(4, 2))
    return p, np.triu_indices(4, 1)


@pytest.mark.parametrize("mode", SECOND)
def test_pair_energy(mode: str) -> None:
    """The distance of a point from itself, which turns, is not read."""
    p, pairs = random_points()

    def energy(p: Any) -> Any:
        d = norm(p[:, None] - p[None], axis=-1)[pairs]
        return np.sum(1 / d + d**3 + d**2 + np.exp(-d))

    def by_pairs(p: Any) -> Any:
        d = np.sqrt(np.sum((p[pairs[0]] - p[pairs[1]]) ** 2, axis=-1))
        return np.sum(1 / d + d**3 + d**2 + np.exp(-d))

    np.testing.assert_allclose(grad(energy)(p), grad(by_pairs)(p), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(SECOND[mode](energy)(p), hessian(by_pairs)(p), rtol=1e-10, atol=1e-12)


def test_squares_away_from_the_kink_are_as_before() -> None:
    x = np.array([0.3, -1.2, 0.7])
    for f, plain in (
        (lambda x: norm(x) ** 2, lambda x: x @ x),
        (lambda x: norm(x) ** 5, lambda x: (x @ x) ** 2.5),
        (lambda x: np.std(x) ** 4, lambda x: np.var(x) ** 2),
        (lambda x: np.hypot(x[0], x[1]) ** 3, lambda x: (x[0] ** 2 + x[1] ** 2) ** 1.5),
        (lambda x: np.sum(np.abs(x) ** 3 * x), lambda x: np.sum(np.sign(x) * x**4)),
    ):
        np.testing.assert_allclose(f(x), plain(x), rtol=1e-14)
        np.testing.assert_allclose(hessian(f)(x), hessian(plain)(x), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(jit(hessian(f))(x), hessian(plain)(x), rtol=1e-12, atol=1e-13)


def test_the_value_of_a_square_is_the_product() -> None:
    x = np.random.default_rng(1).normal(size=7)
    expected = norm(x) * norm(x)
    value, _ = funcad.value_and_grad(lambda x: norm(x) ** 2)(x)
    assert value == pytest.approx(expected, rel=1e-15) and type(value) is np.float64
    jaxpr = funcad.make_jaxpr(lambda x: norm(x) ** 2)(x).jaxpr
    from_program = jit(lambda x: norm(x) ** 2)
    assert from_program(x) == pytest.approx(expected, rel=1e-15)
    assert jaxpr.out_avals[0].dtype == np.float64


def test_what_the_square_is_made_of_may_be_traced_too() -> None:
    """A scale that is differentiated, and a value from outside of an inner transformation."""
    f = lambda lam, x: (lam * norm(x)) ** 2
    h = funcad.hessian(lambda v: f(v[0], v[1:]))(np.array([2.0, 0.0, 0.0]))
    assert not np.isnan(h[0]).any()
    inner = lambda x: grad(lambda y: y * norm(x) ** 2)(3.0)
    np.testing.assert_array_equal(hessian(inner)(PAIR), 2 * np.eye(2))
    r = lambda x: vjp(lambda y: y * twice(norm(x)), 1.0)[1](1.0)[0]
    np.testing.assert_array_equal(hessian(r)(PAIR), 2 * np.eye(2))
    assert grad(lambda x: stop_gradient(norm(x)) ** 2)(PAIR).tolist() == [0.0, 0.0]


def test_python_scalars_stay_what_they_are() -> None:
    assert jit(lambda x, y: abs(x) ** 2 * y)(-3.0, np.float32(2)).dtype == np.float32
    assert grad(lambda x: abs(x) ** 2)(-3.0) == -6.0 and hessian(lambda x: abs(x) ** 2)(0.0) == 2.0
    assert grad(lambda x: abs(x) * abs(x) * np.float32(1))(np.float32(2)).dtype == np.float32


def test_python_numbers_at_special_points() -> None:
    assert grad(lambda x: np.logaddexp(inf, x))(inf) == 0.5 and grad(lambda x: np.logaddexp(x, x))(-inf) == 1.0
    assert grad(lambda x: abs(x + 0j))(0.0) == 0.0 and np.isnan(hessian(lambda x: abs(x + 0j))(0.0))
    assert grad(lambda x: x**x)(0.0) == -inf and grad(lambda x: np.maximum(x, 0.0))(-1.0) == 0.0
    assert grad(np.arcsin)(1.0) == inf and grad(np.arcsinh)(1e300) == 1e-300


def test_honest_nans() -> None:
    """Formulas in which the square cannot be seen: no wrong number."""
    for f in (lambda x: np.sqrt(np.sum(x**2)) ** 2, lambda x: norm(x) * norm(x)):
        assert np.isnan(hessian(f)(PAIR)).all()


# -- sizes


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1.0, 1e160, 1e200])
def test_norms_of_tiny_and_huge_numbers(size: float) -> None:
    x = np.array([3.0, 0.0, -4.0]) * size
    z = x + 1j * x
    rows = np.stack([x, [1.0, 2.0, 2.0], ZERO])
    for f in (norm, jit(norm)):
        np.testing.assert_allclose(jvp(f, (x,), (x / size,)), [5 * size, 5.0], rtol=1e-14)
        np.testing.assert_allclose(grad(f)(x), [0.6, 0.0, -0.8], rtol=1e-14)
        np.testing.assert_allclose(grad(f)(z), np.conj(z / (norm(z / size) * size)), rtol=1e-14)
    by_row = lambda a: norm(a, axis=1)
    expected = [[0.6, 0.0, -0.8], [1 / 3, 2 / 3, 2 / 3], ZERO]
    for f in (by_row, jit(by_row), vmap(norm)):
        np.testing.assert_allclose(grad(lambda a, f=f: np.sum(f(a)))(rows), expected, rtol=1e-14)
    for f in (lambda v: np.hypot(v[0], v[2]), lambda v: np.abs(v[0] + 1j * v[2])):
        np.testing.assert_allclose(grad(f)(x), [0.6, 0.0, -0.8], rtol=1e-14)
        np.testing.assert_allclose(jit(grad(f))(x), [0.6, 0.0, -0.8], rtol=1e-14)


def test_norms_of_float32_and_of_nothing() -> None:
    for size in (1e-30, 1e25):
        x = np.array([3.0, -4.0], np.float32) * np.float32(size)
        for f in (norm, jit(norm)):
            found = grad(f)(x)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, [0.6, -0.8], rtol=1e-6)
    empty = np.zeros((0, 2))
    assert grad(norm)(empty).shape == (0, 2) and jit(hessian(norm))(np.zeros(0)).shape == (0, 0)
    for bad in (nan, inf):
        assert np.isnan(grad(norm)(np.array([bad, 1.0]))[0]) and np.isnan(jit(grad(norm))(np.array([bad, 1.0]))[0])


@pytest.mark.parametrize("x", [1e300, -1e300, 1e160, 1e9, -3.0, 0.5])
def test_inverse_functions_of_huge_numbers(x: float) -> None:
    slope = 1 / np.hypot(1.0, x)
    for f in (np.arcsinh, jit(np.arcsinh)):
        assert grad(f)(x) == pytest.approx(slope, rel=1e-14)
        assert jvp(f, (np.float64(x),), (1.0,))[1] == pytest.approx(slope, rel=1e-14)
        assert grad(grad(f))(x) == pytest.approx(-x * slope * slope * slope, rel=1e-13)
        assert grad(lambda x, f=f: np.real(f(x + 0j)))(x) == pytest.approx(slope, rel=1e-14)
    if x > 1:
        assert grad(np.arccosh)(x) == pytest.approx(1 / (np.sqrt(x - 1) * np.sqrt(x + 1)), rel=1e-14)
    assert np.isfinite(grad(np.arctan)(x)) and grad(np.cbrt)(x) > 0

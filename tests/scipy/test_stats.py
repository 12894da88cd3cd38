"""funcad.scipy.stats beside SciPy: values everywhere, also at the ends and outside; derivatives where formulas are singular."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, jit, jvp, vjp, vmap
from funcad.errors import MissingRuleError, TracerArrayConversionError
from funcad.scipy import stats
from tests.forked import in_a_process
from tests.surface.stats import CONTINUOUS, DISCRETE

scipy_stats = importlib.import_module("scipy.stats")

DENSITIES = ("logpdf", "pdf")
PROBABILITIES = ("cdf", "sf", "logcdf", "logsf")
MASSES = ("logpmf", "pmf")


def points(name: str, parameters: tuple) -> np.ndarray:
    """Points of the bulk and the tails, both ends of the support, points outside of it, NaN."""
    law = getattr(scipy_stats, name)
    low, high = law.support(*parameters)
    bulk = law.ppf(np.array([1e-6, 0.01, 0.2, 0.5, 0.77, 0.99, 1 - 1e-6]), *parameters)
    ends = [low if np.isfinite(low) else -3.0, high if np.isfinite(high) else 3.0]
    return np.concatenate([bulk, 1.3 * bulk + 0.2, ends, [ends[0] - 1.0, ends[1] + 1.0, np.nan]])


def agree(found: Any, expected: Any, rtol: float = 1e-11) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-15)


@pytest.mark.share(3)
@pytest.mark.parametrize("method", [*DENSITIES, *PROBABILITIES])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_values(name: str, method: str) -> None:
    parameters = CONTINUOUS[name][1]
    x = points(name, parameters)
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy_stats, name), method)
    rtol = 1e-9 if name in ("vonmises", "skewnorm") else 1e-11
    with np.errstate(all="ignore"):
        agree(ours(x, *parameters), theirs(x, *parameters), rtol)
        agree(ours(1.7 * x + 0.3, *parameters, 0.3, 1.7), theirs(1.7 * x + 0.3, *parameters, loc=0.3, scale=1.7), rtol)
        agree(ours(x, *parameters, scale=-1.0), theirs(x, *parameters, scale=-1.0))
        if parameters and name != "skewnorm":
            bad = [-3.0] * len(parameters)
            agree(ours(x, *bad), theirs(x, *bad))


@pytest.mark.parametrize("method", ["ppf", "isf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles(name: str, method: str) -> None:
    parameters = CONTINUOUS[name][1]
    q = np.array([0.0, 1e-9, 0.01, 0.3, 0.5, 0.6, 0.99, 1.0, -0.1, 1.1, np.nan])
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy_stats, name), method)
    agree(ours(q, *parameters, 0.3, 1.7), theirs(q, *parameters, 0.3, 1.7), 1e-7)
    agree(ours(q[3:7], *parameters, 0.3, 1.7), theirs(q[3:7], *parameters, 0.3, 1.7), 1e-9)
    inverse = getattr(getattr(stats, name), "cdf" if method == "ppf" else "sf")
    agree(inverse(ours(q[2:7], *parameters), *parameters), q[2:7], 1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_values(name: str) -> None:
    fixed, *rest = DISCRETE[name]
    parameters = (*fixed, *rest)
    whole = np.array([-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 20])
    ours, theirs = getattr(stats, name), getattr(scipy_stats, name)
    for k in (whole, np.concatenate([whole + 0.5, [np.nan]])):
        for method in (*MASSES, *PROBABILITIES):
            with np.errstate(all="ignore"):
                agree(getattr(ours, method)(k, *parameters), getattr(theirs, method)(k, *parameters))
                agree(getattr(ours, method)(k, *parameters, loc=1), getattr(theirs, method)(k, *parameters, loc=1))
                bad = [-0.5] * len(parameters)
                if method == "logcdf":  # SciPy gives 0 from the end of a support that there is not
                    assert np.isnan(getattr(ours, method)(k, *bad)).all()
                    continue
                agree(getattr(ours, method)(k, *bad), getattr(theirs, method)(k, *bad))
    q = np.array([0.0, 0.01, 0.3, 0.5, 0.99, 1.0, -0.1, np.nan])
    for method in ("ppf", "isf"):
        agree(getattr(ours, method)(q, *parameters, 1), getattr(theirs, method)(q, *parameters, 1))


@pytest.mark.share(4)
@pytest.mark.parametrize("method", [*DENSITIES, *PROBABILITIES])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_no_nan_in_derivatives_at_the_ends_and_outside(name: str, method: str) -> None:
    parameters = CONTINUOUS[name][1]
    x = points(name, parameters)[:-1]
    f = getattr(getattr(stats, name), method)
    for g in (f, jit(f)):
        slope = vjp(lambda z, g=g: g(z, *parameters), x)[1](np.ones_like(x))[0]
        assert not np.isnan(slope).any()
    with np.errstate(all="ignore"):
        outside = f(x, *parameters) == (-np.inf if method.startswith("log") else 0.0)
    outside &= (x < getattr(scipy_stats, name).support(*parameters)[0]) | (
        x > getattr(scipy_stats, name).support(*parameters)[1]
    )
    assert not slope[outside].any()


@pytest.mark.parametrize("name", ["gamma", "expon", "beta", "pareto", "lognorm", "uniform", "truncnorm"])
def test_what_lies_outside_reaches_no_parameter(name: str) -> None:
    parameters = CONTINUOUS[name][1]
    law = getattr(stats, name)

    def total(x: Any, *p: Any) -> Any:
        return fnp_sum_finite(law.logpdf(x, *p))

    inside = CONTINUOUS[name][0]
    args = [*map(np.float64, parameters), 0.0, 1.0]
    found = grad(total, argnums=tuple(range(1, 1 + len(args))))(np.concatenate([inside, [-50.0]]), *args)
    expected = grad(total, argnums=tuple(range(1, 1 + len(args))))(inside, *args)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def fnp_sum_finite(x: Any) -> Any:
    return np.sum(np.where(np.isfinite(x), x, 0.0))


def test_densities_at_zero_have_their_one_sided_derivatives() -> None:
    x = np.array([0.0])
    assert jvp(lambda z: stats.gamma.pdf(z, 2.0), (x,), (np.ones(1),))[1] == 1.0
    assert jvp(lambda z: stats.gamma.pdf(z, 3.0), (x,), (np.ones(1),))[1] == 0.0
    assert jvp(lambda z: stats.gamma.pdf(z, 1.0), (x,), (np.ones(1),))[1] == -1.0
    assert jvp(lambda z: stats.beta.pdf(1.0 - z, 1.0, 2.0), (x,), (np.ones(1),))[1] == 2.0


def test_symmetric_laws_at_their_centre() -> None:
    for law, p in ((stats.t, 3.7), (stats.gennorm, 1.6), (stats.vonmises, 2.2)):
        slope, by_shape = grad(law.cdf, argnums=(0, 1))(0.0, p)
        np.testing.assert_allclose(slope, law.pdf(0.0, p), rtol=1e-14)
        assert by_shape == 0.0
    np.testing.assert_allclose(grad(stats.laplace.cdf)(0.0), 0.5)


def test_tails() -> None:
    np.testing.assert_allclose(stats.norm.logcdf(-40.0), -804.6084420137538, rtol=1e-14)
    np.testing.assert_allclose(stats.norm.logsf(-10.0), -7.61985302416053e-24, rtol=1e-13)
    np.testing.assert_allclose(stats.logistic.logcdf(-800.0), -800.0)
    np.testing.assert_allclose(stats.expon.logcdf(50.0), -1.9287498479639178e-22, rtol=1e-14)
    np.testing.assert_allclose(stats.gamma.logcdf(60.0, 2.0), -61.0 * np.exp(-60.0), rtol=1e-12)
    np.testing.assert_allclose(stats.cauchy.ppf(1e-12), -1.0 / (np.pi * 1e-12), rtol=1e-13)
    np.testing.assert_allclose(stats.truncnorm.logsf(39.5, 38.0, np.inf), scipy_stats.truncnorm.logsf(39.5, 38.0, np.inf))
    slope = np.exp(scipy_stats.norm.logpdf(-40.0) - scipy_stats.norm.logcdf(-40.0))
    np.testing.assert_allclose(grad(stats.norm.logcdf)(-40.0), slope, rtol=1e-12)


def test_student_with_infinitely_many_degrees_of_freedom_is_normal() -> None:
    df, x, q = np.array([np.inf, 3.7]), np.array([0.4, 0.4]), np.array([0.3, 0.3])
    for method in (*DENSITIES, *PROBABILITIES, "ppf", "isf"):
        found, z = getattr(stats.t, method), q if method in ("ppf", "isf") else x
        np.testing.assert_allclose(found(z, df), getattr(scipy_stats.t, method)(z, df), rtol=1e-10)
        np.testing.assert_allclose(jit(found)(z, df), getattr(scipy_stats.t, method)(z, df), rtol=1e-10)
        assert np.isfinite(jit(grad(lambda v, d, f=found: f(v, d).sum(), argnums=(0, 1)))(z, df)).all()


def test_float32_stays_float32() -> None:
    x = np.array([0.4, 0.6], np.float32)
    for name, (_, parameters) in CONTINUOUS.items():
        for method in (*DENSITIES, *PROBABILITIES, "ppf"):
            assert getattr(getattr(stats, name), method)(x, *parameters).dtype == np.float32, (name, method)
    assert stats.poisson.logpmf(np.array([1, 2]), np.float32(2.5)).dtype == np.float32
    assert jit(stats.poisson.logpmf)(np.array([1, 2]), np.float32(2.5)).dtype == np.float32
    assert stats.norm.logpdf(1).dtype == np.float64
    with pytest.raises(TypeError, match="real numbers"):
        stats.norm.logpdf(1.0 + 2.0j)


def test_arguments() -> None:
    assert stats.norm(1.0, 2.0).logpdf(0.5) == stats.norm.logpdf(0.5, loc=1.0, scale=2.0)
    assert stats.gamma(a=2.0).cdf(0.5) == stats.gamma.cdf(0.5, 2.0)
    assert repr(stats.gamma(2.0, scale=3.0)) == "funcad.scipy.stats.gamma(2.0, scale=3.0)"
    with pytest.raises(TypeError, match="gamma.logpdf needs the parameter a"):
        stats.gamma.logpdf(1.0)
    with pytest.raises(TypeError, match="rate is none of its parameters a, loc, scale"):
        stats.gamma.logpdf(1.0, 2.0, rate=1.0)
    with pytest.raises(TypeError, match="a was given twice"):
        stats.gamma.logpdf(1.0, 2.0, a=1.0)
    with pytest.raises(TypeError, match="got 4 of them"):
        stats.gamma.logpdf(1.0, 2.0, 0.0, 1.0, 3.0)
    assert stats.norm.mean(1.0, 2.0) == 1.0  # other methods are SciPy's own
    with pytest.raises(AttributeError):
        _ = stats.norm.no_such_method
    np.testing.assert_allclose(
        stats.norm.logpdf([0.0, 1.0], [[0.0], [1.0]]), scipy_stats.norm.logpdf([0.0, 1.0], [[0.0], [1.0]])
    )


def test_second_derivatives_and_what_has_none() -> None:
    f = jit(hessian(lambda p: stats.gamma.logpdf(1.3, p[0], p[1], p[2])))
    p = np.array([2.2, 0.1, 1.4])
    numeric = np.stack([(grad_of_gamma(p + h) - grad_of_gamma(p - h)) / 2e-6 for h in 1e-6 * np.eye(3)])
    np.testing.assert_allclose(f(p), numeric, rtol=1e-6)
    by_shape = grad(lambda a: stats.gamma.cdf(1.3, a))
    assert grad(by_shape)(2.2) == pytest.approx((by_shape(2.201) - by_shape(2.199)) / 2e-3, rel=1e-5)
    with pytest.raises(MissingRuleError):
        grad(grad(by_shape))(2.2)
    with pytest.raises(TracerArrayConversionError, match="static_argnums"):
        jit(lambda n: stats.betabinom.cdf(2, n, 1.3, 2.2))(6)


def grad_of_gamma(p: np.ndarray) -> Any:
    return grad(lambda p: stats.gamma.logpdf(1.3, p[0], p[1], p[2]))(p)


def test_quantiles_under_jit_and_vmap() -> None:
    q = np.array([0.1, 0.5, 0.9])
    for name, parameters in (("vonmises", (2.2,)), ("poisson", (2.7,)), ("t", (3.7,))):
        f = getattr(stats, name).ppf
        expected = f(q, *parameters)
        np.testing.assert_allclose(jit(f)(q, *parameters), expected, rtol=1e-12)
        np.testing.assert_allclose(vmap(lambda v, f=f, p=parameters: f(v, *p))(q), expected, rtol=1e-12)
    assert jvp(lambda mu: stats.poisson.ppf(0.4, mu, mu), (2.7,), (1.0,))[1] == 1.0  # of loc alone


def test_scipy_stats_is_not_imported() -> None:
    program = (
        "import sys, numpy as np, funcad\n"
        "from funcad.scipy import stats\n"
        "funcad.grad(lambda x: stats.norm.logpdf(x) + stats.gamma.cdf(x, 2.0) + stats.t.ppf(0.3, x))(1.0)\n"
        "stats.poisson.logpmf(3, 2.0), stats.gaussian_kde(np.arange(4.0)).evaluate(1.0)\n"
        "print('scipy.stats' in sys.modules)"
    )
    assert in_a_process(program) == "False"


# -- vectors


def test_multivariate_normal() -> None:
    rng = np.random.default_rng(0)
    x, mean, a = rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=(3, 3))
    cov = a @ a.T + np.eye(3)
    law = stats.multivariate_normal
    np.testing.assert_allclose(hessian(lambda m: law.logpdf(x[0], m, cov))(mean), -np.linalg.inv(cov), rtol=1e-10)
    each = law.logpdf(x, x + 1.0, np.stack([cov] * 4))
    np.testing.assert_allclose(each, [law.logpdf(-np.ones(3), np.zeros(3), cov)] * 4)
    singular = np.diag([1.0, 1.0, 0.0])
    on = np.array([0.3, 0.2, 0.0])
    expected = scipy_stats.multivariate_normal.logpdf(on, np.zeros(3), singular, allow_singular=True)
    assert law.logpdf(on, np.zeros(3), singular, allow_singular=True) == expected
    with pytest.raises(NotImplementedError, match="subspace"):
        grad(lambda c: law.logpdf(on, np.zeros(3), c, allow_singular=True))(singular)
    off = np.array([0.3, 0.2, 1.0])  # outside of the subspace the density is 0
    assert grad(lambda x: law.pdf(x, cov=singular, allow_singular=True))(off).tolist() == [0.0, 0.0, 0.0]
    theirs = scipy_stats.multivariate_normal
    frozen = theirs(np.zeros(3), singular, allow_singular=True)
    for f in (
        lambda x: law.logpdf(x, np.zeros(3), singular, allow_singular=True),
        lambda x: theirs.logpdf(np.zeros(3), x, singular, True),
        lambda x: np.log(law.pdf(x, cov=singular, allow_singular=True)),
        frozen.logpdf,
        lambda x: np.log(frozen.pdf(x)),
    ):
        for transformed in (grad(f), jit(grad(f))):
            np.testing.assert_allclose(transformed(on), [-0.3, -0.2, 0.0], rtol=1e-12)
        np.testing.assert_allclose(jit(f)(on), expected, rtol=1e-14)
        np.testing.assert_allclose(vmap(grad(f))(np.stack([on, 2 * on])), [[-0.3, -0.2, 0.0], [-0.6, -0.4, 0.0]], rtol=1e-12)
    with pytest.raises(np.linalg.LinAlgError):
        law.logpdf(on, np.zeros(3), -np.eye(3))
    with pytest.raises(ValueError, match="cov must be 3 x 3"):
        law.logpdf(x, mean, np.eye(2))
    with pytest.raises(ValueError, match="dimension 3"):
        law.logpdf(np.ones(2), mean, cov)
    assert law(mean, cov).logpdf(x[0]) == law.logpdf(x[0], mean, cov)


def test_dirichlet_and_multinomial() -> None:
    alpha, x = np.array([2.0, 0.7, 3.0]), np.array([0.2, 0.3, 0.5])
    for bad in ([0.5, 0.6, 0.1], [1.2, -0.1, -0.1], [0.5, 0.0, 0.5]):
        with pytest.raises(ValueError):
            stats.dirichlet.logpdf(np.array(bad), alpha)
    with pytest.raises(ValueError):
        stats.dirichlet.logpdf(x, -alpha)
    assert jit(stats.dirichlet.logpdf)(np.array([0.5, 0.6, 0.1]), alpha) == -np.inf
    assert np.isnan(jit(stats.dirichlet.logpdf)(x, -alpha))
    counts = np.array([[1, 2, 3], [2, 2, 2], [1, 1, 1], [-1, 4, 3]])
    np.testing.assert_allclose(stats.multinomial.logpmf(counts, 6, x), scipy_stats.multinomial.logpmf(counts, 6, x))
    assert np.isnan(stats.multinomial.logpmf(counts[0], 6, [-0.2, 0.7, 0.5]))


def test_gaussian_kde() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=30)
    for data in (rng.normal(size=30), rng.normal(size=(2, 30))):
        for method in (None, "silverman", 0.4, lambda kde: kde.n**-0.2):
            ours, theirs = stats.gaussian_kde(data, method, weights), scipy_stats.gaussian_kde(data, method, weights)
            z = 3.0 * rng.normal(size=(ours.d, 6))
            np.testing.assert_allclose(ours(z), theirs(z), rtol=1e-11)
            np.testing.assert_allclose(ours.logpdf(z), theirs.logpdf(z), rtol=1e-10)
            np.testing.assert_allclose(ours.integrate_kde(ours), theirs.integrate_kde(theirs), rtol=1e-11)
            np.testing.assert_allclose(ours.inv_cov, theirs.inv_cov, rtol=1e-11)
    np.testing.assert_array_equal(jit(lambda kde, z: kde.evaluate(z))(ours, z), jit(ours.evaluate)(z))
    far = np.array([[1e3], [1e3]])
    assert ours.evaluate(far) == 0.0 and np.isfinite(ours.logpdf(far)).all()
    assert np.isfinite(grad(lambda d: stats.gaussian_kde(d).logpdf(far).sum())(data)).all()
    drawn = stats.gaussian_kde(np.array([0.0, 0.0, 10.0]), 0.01).resample(funcad.random.key(0), (2000,))
    assert drawn.shape == (1, 2000) and abs(float((drawn > 5).mean()) - 1 / 3) < 0.05
    for call, match in (
        (lambda: stats.gaussian_kde(np.ones(1)), "multiple elements"),
        (lambda: stats.gaussian_kde(data, "neat"), "bw_method"),
        (lambda: stats.gaussian_kde(data, weights=np.ones(3)), "weights"),
        (lambda: ours.evaluate(np.ones((3, 4))), "dimension"),
        (lambda: ours.integrate_box_1d(0, 1), "1D"),
        (lambda: ours.integrate_kde(stats.gaussian_kde(data[0])), "dimension"),
        (lambda: ours.integrate_gaussian(np.ones(3), np.eye(2)), "mean"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(NotImplementedError, match="integrate_box_1d"):
        ours.integrate_box(None, None)
    ours, theirs = stats.gaussian_kde(data), scipy_stats.gaussian_kde(data)
    for width in (0.4, "silverman"):
        ours.set_bandwidth(width)
        theirs.set_bandwidth(width)
        np.testing.assert_allclose(ours.evaluate(data[:, :2]), theirs.evaluate(data[:, :2]), rtol=1e-12)


def test_gumbel_far_out_has_no_slope() -> None:
    for family, side in ((stats.gumbel_l, 1.0), (stats.gumbel_r, -1.0)):
        for method in ("pdf", "cdf", "sf", "logcdf" if side > 0 else "logsf"):
            f = getattr(family, method)
            for x in (np.float64(800.0 * side), np.float32(90.0 * side), np.float64(12.0 * side)):
                for slope in (grad(f), jit(grad(f)), grad(grad(f)), lambda x, f=f: vmap(grad(f))(np.array([x, x]))[0]):
                    assert slope(x) == 0.0
                with np.errstate(over="ignore"):
                    assert f(x) == getattr(getattr(scipy_stats, family.name), method)(x)


# -- statistics


def test_ranks_and_modes_of_traced_data() -> None:
    rng = np.random.default_rng(0)
    for data in (np.array([3.0, 1.0, 3.0, 2.0, 2.0, 2.0, 0.0]), rng.integers(0, 4, (3, 5))):
        for axis in (None, 0, -1):
            for method in ("average", "min", "max", "dense", "ordinal"):
                found = jit(lambda z, m=method, a=axis: stats.rankdata(z, m, axis=a))(data)
                np.testing.assert_array_equal(found, scipy_stats.rankdata(data, method, axis=axis))
            found = jit(lambda z, a=axis: stats.mode(z, a, keepdims=True))(data)
            np.testing.assert_array_equal(found, scipy_stats.mode(data, axis, keepdims=True))
    for dtype in (np.float32, np.int8, np.bool_):  # SciPy's dtypes, which changed with 1.18
        for method in ("average", "min", "dense"):
            found = jit(lambda z, m=method: stats.rankdata(z, m))(np.array([1, 0, 1], dtype))
            assert found.dtype == scipy_stats.rankdata(np.array([1, 0, 1], dtype), method).dtype
    missing = np.array([1.0, np.nan, 2.0])
    assert np.isnan(jit(stats.rankdata)(missing)).all()
    x = np.array([0.3, 0.1, 0.2])
    np.testing.assert_allclose(grad(lambda z: (z * stats.rankdata(z)).sum())(x), [3.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="unknown method"):
        jit(lambda z: stats.rankdata(z, "best"))(x)
    with pytest.raises(TypeError, match="nan_policy"):
        jit(lambda z: stats.sem(z, nan_policy="omit"))(x)

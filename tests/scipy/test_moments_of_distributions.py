"""Mean, variance, entropy, intervals, expectations of distributions with traced parameters; estimates of densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import interpolate, stats
from scipy.stats._distr_params import distcont, distdiscrete

import funcad
from funcad import errors, grad, hessian, jit, jvp, vmap

SHAPES = {name: [float(s) for s in shapes] for name, shapes in [*distcont, *distdiscrete] if name != "poisson_binom"}
SHAPES |= {"kappa4": [0.2, 0.3]}  # not where its formulas have their holes
USUAL = "norm gamma t lomax expon uniform gennorm poisson binom geom".split()
WHOLE = set(
    "binom betabinom hypergeom nhypergeom nchypergeom_fisher nchypergeom_wallenius betanbinom randint zipfian boltzmann".split()
)
WHOLE |= {"erlang", "irwinhall", "ksone", "kstwo", "nbinom"}  # some of their parameters are integers
ASKED: dict[str, Any] = {
    "mean": lambda d: d.mean(),
    "var": lambda d: d.var(),
    "std": lambda d: d.std(),
    "median": lambda d: d.median(),
    "entropy": lambda d: d.entropy(),
    "moment": lambda d: d.moment(2),
    "stats": lambda d: np.sum(np.stack(d.stats("mvsk"))),
    "interval": lambda d: np.sum(np.stack(d.interval(0.8))),
    "expect": lambda d: d.expect(lambda v: 1.0 / (1.0 + v * v)),
}
# what SciPy computes of compiled densities, or what no fixed steps can integrate: refused, or NaN, never another number
COMPILED = set(
    "dpareto_lognorm genhyperbolic geninvgauss kstwobign ksone kstwo landau ncf nct levy_stable skellam irwinhall "
    "studentized_range nchypergeom_fisher nchypergeom_wallenius zipfian".split()
)
# the parameters move the ends of an integral
MOVED = set(
    "genextreme genhalflogistic genpareto irwinhall kappa4 kstwo loguniform reciprocal truncexpon truncnorm truncpareto "
    "truncweibull_min tukeylambda".split()
)
NAN = {"rel_breitwigner", "rdist", "pearson3", "pareto"}


def cells() -> list[Any]:
    marks = lambda name: [] if name in USUAL else [pytest.mark.slow]
    return [pytest.param(name, marks=marks(name)) for name in SHAPES]


def differences(f: Any, x: float) -> float | None:
    h = 1e-4 * max(1.0, abs(x))
    with np.errstate(all="ignore"):
        near, far = [(f(x + k * h) - f(x - k * h)) / (2 * k * h) for k in (1, 2)]
    return (4 * near - far) / 3 if abs(near - far) < 1e-3 * (1 + abs(near)) else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", cells())
def test_derivatives_in_all_parameters(name: str) -> None:
    family, shapes = getattr(stats, name), SHAPES[name]
    at = [*shapes, 0.7, 1.5] if hasattr(family, "pdf") else [*shapes, 1.0]
    compared = 0
    for what, asked in ASKED.items():
        for i, value in enumerate(at):
            if name in WHOLE and i < len(shapes) and value.is_integer():
                continue
            if (name, what) == ("levy_stable", "entropy"):  # SciPy's own raises: NumPy makes no scalars of arrays of rank 1
                continue

            def f(x: Any, i: int = i, asked: Any = asked) -> Any:
                return asked(family(*[x if j == i else v for j, v in enumerate(at)]))

            expected = differences(f, value)
            if expected is None or not np.isfinite(expected):
                continue
            try:
                found = grad(f)(value)
            except (errors.TracerArrayConversionError, TypeError):
                assert name in COMPILED | MOVED | NAN
                continue
            if np.isnan(found) and name in NAN:
                continue
            bound = 2e-3 if what == "expect" else 3e-4  # the quadratures of two values
            assert found == pytest.approx(expected, rel=bound, abs=bound), (what, i)
            compared += 1
    assert compared or name in COMPILED or name in WHOLE


@pytest.mark.parametrize("what", [pytest.param(w, marks=[pytest.mark.slow] if w == "expect" else []) for w in ASKED])
def test_in_every_transformation(what: str) -> None:
    asked = ASKED[what]

    def f(p: Any) -> Any:
        return asked(stats.gamma(p[0], loc=p[1], scale=p[2]))

    p, v = np.array([2.5, 0.3, 1.4]), np.array([0.2, -0.4, 0.6])
    value, slope = f(p), grad(f)(p)
    compiled = jit(f)
    compiled.lower(p).compile()
    assert compiled(p) == pytest.approx(value, rel=1e-9)
    assert jit(grad(f))(p) == pytest.approx(slope, rel=1e-7)
    assert jvp(f, (p,), (v,))[1] == pytest.approx(slope @ v, rel=1e-7)
    assert vmap(f)(np.stack([p, 1.1 * p])) == pytest.approx([value, f(1.1 * p)], rel=1e-7)
    assert vmap(grad(f))(np.stack([p, 1.1 * p])) == pytest.approx(np.stack([slope, grad(f)(1.1 * p)]), rel=1e-6, abs=1e-9)
    bent = (grad(f)(p + 1e-5 * v) - grad(f)(p - 1e-5 * v)) / 2e-5
    assert hessian(f)(p) @ v == pytest.approx(bent, rel=1e-4, abs=1e-6)


KNOWN: dict[str, Any] = {
    "norm": lambda a: stats.norm.expect(lambda x: np.exp(-a * x * x)),
    "place": lambda a: stats.norm.expect(lambda x: np.cos(a * x), loc=1.0, scale=2.0),
    "by name": lambda a: stats.norm.expect(func=lambda x: np.cos(a * x), scale=2.0),
    "shape": lambda a: stats.gamma.expect(lambda x: a**2 * x**2, args=(2.0,)),
    "frozen": lambda a: stats.gamma(2.0, scale=0.5).expect(lambda x: np.sin(a * x)),
    "ends": lambda a: stats.norm.expect(lambda x: a**3 * x, lb=0.0, ub=3.0, conditional=True),
    "sum": lambda a: stats.poisson.expect(lambda k: np.exp(-a * k), args=(2.0,)),
    "frozen sum": lambda a: stats.binom(5, 0.3).expect(lambda k: a**k),
}


@pytest.mark.parametrize("name", KNOWN)
def test_expectations_of_known_parameters_over_a_traced_closure(name: str) -> None:
    f, a = KNOWN[name], 0.7
    slope = (f(a + 1e-5) - f(a - 1e-5)) / 2e-5
    assert grad(f)(a) == pytest.approx(slope, rel=1e-6)
    assert jit(grad(f))(a) == pytest.approx(slope, rel=1e-6) and jit(f)(a) == pytest.approx(f(a), rel=1e-9)
    np.testing.assert_allclose(funcad.vmap(grad(f))(np.array([a, a])), [slope] * 2, rtol=1e-6)
    assert grad(grad(f))(a) == pytest.approx((grad(f)(a + 1e-5) - grad(f)(a - 1e-5)) / 2e-5, rel=1e-5)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_expectations_with_bad_parameters_are_nan() -> None:
    assert np.isnan(funcad.value_and_grad(lambda s: stats.gamma(s).expect(lambda v: v))(-1.0)).all()
    assert np.isnan(funcad.value_and_grad(lambda s: stats.norm(0.0, s).expect(lambda v: v * v))(-1.0)).all()


def test_what_frames_the_moments() -> None:
    """Bad parameters give NaN, known ones SciPy's own; the support has no slope where it is infinite; draws are refused."""
    assert np.isnan(grad(lambda s: stats.gamma(s).mean())(-1.0))
    assert grad(lambda s: stats.norm(0.0, s).support()[1] * 0.0 if s < 0 else stats.uniform(s, 2.0).support()[1])(1.0) == 1.0
    assert grad(lambda s: np.sum(np.exp(-np.stack(stats.gamma(2.0, scale=s).support()))))(1.0) == 0.0
    assert grad(lambda s: stats.gamma.mean(s) * stats.gamma.mean(2.0))(3.0) == 2.0
    assert grad(lambda m: stats.poisson(m).expect(lambda k: k * k, lb=0, ub=3))(0.1) == pytest.approx(
        grad(lambda m: np.sum(np.arange(4.0) ** 2 * stats.poisson.pmf(np.arange(4), m)))(0.1)
    )
    with pytest.raises(errors.TracerArrayConversionError, match="Remedy: scipy.stats.norm.ppf"):
        grad(lambda s: stats.norm(0.0, s).rvs(random_state=0))(1.0)
    z = stats.norm.rvs(size=3, random_state=0)  # the remedies
    assert grad(lambda s: np.sum(s * z))(1.0) == z.sum()
    assert grad(lambda s: np.sum(stats.norm.ppf(np.array([0.2, 0.9]), scale=s)))(1.0) == pytest.approx(0.4399303)
    with pytest.raises(errors.TracerArrayConversionError, match=r"Remedy: say which numbers"):
        vmap(lambda m: stats.poisson(m).entropy())(np.ones(2))
    k = np.arange(60)
    entropies = vmap(lambda m: -np.sum(stats.poisson.pmf(k, m) * stats.poisson.logpmf(k, m)))(np.array([1.3, 2.0]))
    assert entropies == pytest.approx(stats.poisson([1.3, 2.0]).entropy())


def test_a_sum_without_an_end_is_refused_before_it_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> None:
        raise AssertionError("the end was looked for")

    monkeypatch.setattr(type(stats.zipf), "isf", never)
    with pytest.raises(errors.TracerArrayConversionError, match="more than 1,000,000 numbers that matter"):
        grad(lambda a: stats.zipf.entropy(a))(2.3)


def test_an_estimate_of_a_density_is_differentiated_by_its_usual_name() -> None:
    """`scipy.stats.gaussian_kde`, at traced points or of traced data, in all that it is asked."""
    data, at = np.random.default_rng(0).normal(size=9), np.array([0.2, 1.3])
    asked = {
        "call": lambda d, x: stats.gaussian_kde(d)(x),
        "logpdf": lambda d, x: stats.gaussian_kde(d, bw_method="silverman").logpdf(x),
        "box": lambda d, x: stats.gaussian_kde(d).integrate_box_1d(x[0], x[1]),
        "normal": lambda d, x: stats.gaussian_kde(d).integrate_gaussian(x[0], 0.3),
        "weights": lambda d, x: stats.gaussian_kde(d, weights=d**2).pdf(x) * stats.gaussian_kde(d).factor,
    }
    for name, f in asked.items():
        for i in range(2):

            def g(v: Any, i: int = i, f: Any = f) -> Any:
                return np.sum(f(*[v if j == i else w for j, w in enumerate((data, at))]))

            x = (data, at)[i]
            step = 1e-6 * np.eye(len(x))
            expected = [(g(x + e) - g(x - e)) / 2e-6 for e in step]
            np.testing.assert_allclose(grad(g)(x), expected, rtol=1e-5, atol=1e-7, err_msg=name)
            np.testing.assert_allclose(jit(grad(g))(x), expected, rtol=1e-5, atol=1e-7, err_msg=name)


def test_splines_of_a_high_degree_at_traced_points() -> None:
    """SciPy's conversion to polynomials read beyond its memory from degree 8 on, and ended the process."""
    spline = interpolate.BSpline.basis_element(np.arange(12.0))
    assert spline.k == 10
    assert grad(lambda x: spline(x))(4.3) == pytest.approx(spline.derivative()(4.3), rel=1e-9)
    assert grad(lambda s: stats.irwinhall.pdf(4.3, 10.0, s))(0.7) == pytest.approx(
        (stats.irwinhall.pdf(4.3, 10.0, 0.7 + 1e-5) - stats.irwinhall.pdf(4.3, 10.0, 0.7 - 1e-5)) / 2e-5, rel=1e-6
    )
    assert funcad.grad(lambda c: interpolate.BSpline(np.arange(22.0), c, 9)(10.5))(np.ones(12)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name, at", [("invgauss", 1.1), ("fatiguelife", 1.1), ("alpha", 1.3), ("invweibull", 2.5)])
def test_expectations_whose_density_has_no_slope_at_the_end_of_the_support(name: str, at: float) -> None:
    f = lambda v: getattr(stats, name).expect(lambda x: np.exp(-x), args=(v,))
    slope, h = grad(f)(at), 1e-3
    assert slope == pytest.approx((f(at + h) - f(at - h)) / (2 * h), rel=1e-4)
    assert jvp(f, (at,), (1.0,))[1] == pytest.approx(slope, rel=1e-8)
    assert hessian(f)(at) == pytest.approx((grad(f)(at + h) - grad(f)(at - h)) / (2 * h), rel=1e-4)


@pytest.mark.parametrize("name", ["levy", "wald"])
def test_expectations_move_with_loc(name: str) -> None:
    f = lambda v: getattr(stats, name).expect(lambda x: np.exp(-x), loc=v)
    assert grad(f)(0.3) == pytest.approx(-f(0.3), rel=1e-6)
    assert jvp(f, (0.3,), (1.0,))[1] == pytest.approx(-f(0.3), rel=1e-6)
    assert hessian(f)(0.3) == pytest.approx(f(0.3), rel=1e-6)


@pytest.mark.parametrize("way", [lambda f: f, jit, lambda f: lambda k: vmap(f)(np.array([k]))[0]], ids=["plain", "jit", "vmap"])
def test_moments_on_the_circle(way: Any) -> None:
    """SciPy's integrals go once around it."""
    law, line, k, h = stats.vonmises, stats.vonmises_line, 0.4, 1e-4
    for of in (lambda law, k: law.var(k, scale=2.0), lambda law, k: law.expect(lambda x: x**4, args=(k,), loc=0.3)):
        f = lambda k, of=of: of(law, k)
        slope = (of(line, k + h) - of(line, k - h)) / (2 * h)
        assert way(grad(f))(k) == pytest.approx(slope, rel=1e-6)
        assert way(f)(k) == pytest.approx(of(line, k), rel=1e-8)


def test_all_moments_on_the_circle() -> None:
    value, slope = jvp(lambda k: np.stack([*stats.vonmises.stats(k, moments="mvsk"), stats.vonmises.std(k)]), (0.3,), (1.0,))
    line = lambda k: np.stack([*stats.vonmises_line.stats(k, moments="mvsk"), stats.vonmises_line.std(k)])
    np.testing.assert_allclose(value, line(0.3), atol=1e-8)
    np.testing.assert_allclose(slope, (line(0.3 + 1e-4) - line(0.3 - 1e-4)) / 2e-4, atol=1e-6)


@pytest.mark.parametrize("a", [2.0, 2.5, 3.0])
def test_a_variance_that_is_infinite_is_flat(a: float) -> None:
    f = lambda a: stats.zipf.var(a)
    jitted = jit(grad(f))
    found = [grad(f)(a), jitted(a), jitted(a), jitted(a), vmap(grad(f))(np.array([a]))[0], jvp(f, (a,), (1.0,))[1]]
    assert found == [0.0] * 6 and jvp(f, (a,), (1.0,))[0] == np.inf

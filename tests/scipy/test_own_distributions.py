"""SciPy's distributions by their own formulas: each method by x, loc, scale and all shapes, and what is refused."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.stats._distr_params import distcont, distdiscrete

import funcad
from funcad import errors, grad, jit, vmap
from funcad.lifting import own_answers
from funcad.scipy.stats import own_distributions

CONTINUOUS = "logpdf pdf cdf sf logcdf logsf ppf isf".split()
DISCRETE = "logpmf pmf cdf sf logcdf logsf".split()
SHAPES = {name: [float(s) for s in shapes] for name, shapes in [*distcont, *distdiscrete] if name != "poisson_binom"}
SHAPES |= {"kappa4": [0.2, 0.3]}  # not where its formulas have their holes
NAMES = [name for name in own_distributions.COMPARED.split() if name in SHAPES]  # reciprocal is loguniform, wald invgauss

# method and parameters that end in compiled code; `*`: all methods that are not named apart, or all parameters
DENSITIES = {"pdf": "*", "logpdf": "*"}
REFUSED: dict[str, dict[str, str]] = {
    "dpareto_lognorm": {**dict.fromkeys(["pdf", "logpdf"], "u s a b"), "sf": "u s a b", "logsf": "u s a b", "isf": "u s a b"},
    "genhyperbolic": {**DENSITIES, "*": "p a b"},
    "geninvgauss": {**DENSITIES, "*": "p b"},
    "irwinhall": {**DENSITIES, "*": "n"},
    "kstwobign": DENSITIES,
    "ksone": {**DENSITIES, **dict.fromkeys(["cdf", "logcdf", "logsf", "ppf"], "n")},
    "kstwo": {**DENSITIES, "*": "n"},
    "landau": DENSITIES,
    "ncf": {**DENSITIES, **dict.fromkeys(["sf", "logcdf", "logsf", "isf"], "dfn dfd nc")},
    "nct": {**DENSITIES, **dict.fromkeys(["sf", "logcdf", "logsf", "isf"], "df nc")},
    "nchypergeom_fisher": {"logpmf": "odds", "*": "*"},
    "nchypergeom_wallenius": {"logpmf": "odds", "*": "*"},
    "skellam": dict.fromkeys(["cdf", "sf", "logcdf", "logsf"], "*"),
    "zipfian": {"*": "*"},
}


def is_refused(name: str, method: str, parameter: str) -> bool:
    table = REFUSED.get(name, {})
    parameters = table.get(method, table.get("*", ""))
    return parameters == "*" or parameter in parameters.split()


class Program:
    """A method of a distribution, at three quantiles."""

    def __init__(self, name: str, method: str):
        self.family = getattr(stats, name)
        self.discrete = hasattr(self.family, "logpmf")
        shapes = SHAPES[name]
        at = np.array([0.21, 0.56, 0.83])
        x = at if method in ("ppf", "isf") else self.family.ppf(at, *shapes) * (1.0 if self.discrete else 1.5)
        self.method = getattr(self.family, method)
        self.args = [x, *shapes] if self.discrete else [x, *shapes, 0.0, 1.5]
        names = [s.strip() for s in (self.family.shapes or "").split(",") if s.strip()]
        self.names = ["x", *names] if self.discrete else ["x", *names, "loc", "scale"]

    def of(self, i: int, value: Any) -> Any:
        args = list(self.args)
        args[i] = value
        return self.method(*args)

    def differences(self, i: int) -> Any:
        """Of each element; None where the values or those beside them are none, or the two do not agree."""
        v = np.asarray(self.args[i])
        found = []
        for h in (1e-4 * np.abs(v) + (v == 0) * 1e-5, 5e-5 * np.abs(v) + (v == 0) * 5e-6):
            a, b = [(self.of(i, v + k * h) - self.of(i, v - k * h)) / (2 * k * h) for k in (1, 2)]
            found.append((4 * a - b) / 3)
        same = np.isclose(*found, rtol=1e-5, atol=1e-7)
        return np.sum(found[1]) if np.all(same) else None


@functools.cache
def methods_of(name: str) -> list[str]:
    return DISCRETE if hasattr(getattr(stats, name), "logpmf") else CONTINUOUS


SLOW = ("gausshyper", "norminvgauss")  # SciPy's own values are quadratures of quadratures


@pytest.mark.share(8)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in NAMES])
@pytest.mark.filterwarnings("ignore:The shape parameter of the erlang", "ignore:grad. the output")  # of whole numbers
def test_derivatives_in_x_and_all_parameters(name: str) -> None:
    compared = 0
    for method in methods_of(name):
        program = Program(name, method)
        with np.errstate(all="ignore"):
            plain = program.method(*program.args)
            for i in range(len(program.args)):
                if i == 0 and program.discrete:
                    continue
                f = lambda v, i=i, program=program: np.sum(program.of(i, v))
                try:
                    value, slope = funcad.value_and_grad(f)(program.args[i])
                except errors.TracerArrayConversionError as error:  # what is not refused must be right
                    assert is_refused(name, method, program.names[i]) and f"scipy.stats.{name}." in str(error)
                    continue
                expected = program.differences(i)
                if expected is None or not np.isfinite(expected):
                    continue
                compared += 1
                assert value == pytest.approx(np.sum(plain), rel=1e-10, abs=1e-12), (method, program.names[i])
                assert np.sum(slope) == pytest.approx(expected, rel=1e-4, abs=1e-6), (method, program.names[i])
    assert compared or name in ("nchypergeom_fisher", "nchypergeom_wallenius", "zipfian", "hypergeom", "nhypergeom", "randint")


@pytest.mark.filterwarnings("ignore:.*does not depend on the argument:UserWarning")  # of a count
@pytest.mark.share(8)
@pytest.mark.parametrize("name", NAMES)
def test_jit_and_vmap(name: str) -> None:
    method = methods_of(name)[0]
    program = Program(name, method)
    i = next((i for i, n in enumerate(program.names) if not is_refused(name, method, n) and (i or not program.discrete)), None)
    if i is None:
        pytest.skip("its first method is refused")
    f, v = (lambda v: np.sum(program.of(i, v))), program.args[i]
    value, slope = funcad.value_and_grad(f)(v)
    compiled = jit(funcad.value_and_grad(f))
    for _ in range(2):
        found = compiled(v)
        assert found[0] == pytest.approx(value, rel=1e-10) and np.allclose(found[1], slope, rtol=1e-8)
    assert np.allclose(vmap(grad(f))(np.stack([v, v]))[1], slope, rtol=1e-8)


def test_the_table_is_whole() -> None:
    """All of this version's distributions that funcad has not by hand, but for those that take minutes."""
    from funcad.scipy import stats as ours

    kinds = (stats.rv_continuous, stats.rv_discrete)
    found = {n for n in dir(stats) if isinstance(getattr(stats, n), kinds) and n not in dir(ours)}
    assert found - set(own_distributions.COMPARED.split()) == {"levy_stable", "studentized_range", "poisson_binom"}


@pytest.mark.parametrize(
    ("name", "parameter", "at"), [(n, p, at) for n, holes in own_distributions.HOLES.items() for p, at in holes.items()]
)
def test_a_hole_in_a_formula_has_a_value_and_no_derivative(name: str, parameter: str, at: float) -> None:
    family = getattr(stats, name)
    others = {p.strip(): 0.3 for p in family.shapes.split(",") if p.strip() != parameter}
    f = lambda c: family.logpdf(0.4, **others, **{parameter: c})
    value, slope = funcad.value_and_grad(f)(at)
    assert value == f(at) and np.isnan(slope)
    beside = 0.05
    assert grad(f)(beside) == pytest.approx((f(beside + 1e-5) - f(beside - 1e-5)) / 2e-5, rel=1e-4)
    assert np.isfinite(grad(lambda x: family.logpdf(x, **others, **{parameter: at}))(0.4))


def test_second_order_frozen_and_public_names() -> None:
    x = np.array([0.3, 0.5, 1.2])
    loss = lambda p: -np.sum(stats.genextreme.logpdf(x, p[0], p[1], p[2]))
    p, step = np.array([0.1, 0.2, 0.9]), 1e-5
    rows = [(grad(loss)(p + step * e) - grad(loss)(p - step * e)) / (2 * step) for e in np.eye(3)]
    assert np.allclose(funcad.hessian(loss)(p), rows, rtol=1e-5)
    assert np.allclose(jit(funcad.hessian(loss))(p), rows, rtol=1e-5)
    frozen = lambda c: np.sum(stats.gompertz(c, loc=0.1).logpdf(x))
    direct = lambda c: np.sum(funcad.scipy.stats.gompertz.logpdf(x, c, 0.1))
    assert grad(frozen)(0.7) == grad(direct)(0.7)
    assert np.array_equal(funcad.scipy.stats.gompertz.cdf(x, 0.7), stats.gompertz.cdf(x, 0.7))


def test_what_was_refused_before_changes_nothing() -> None:
    slope = lambda: grad(lambda x: stats.dpareto_lognorm.logpdf(x, 3.0, 1.2, 1.5, 2.0))(0.7)
    before = slope()
    with pytest.raises(errors.TracerArrayConversionError):
        grad(lambda u: stats.dpareto_lognorm.logpdf(0.7, u, 1.2, 1.5, 2.0))(3.0)
    assert slope() == before


WAYS = [
    lambda f, x: grad(f)(x),
    lambda f, x: funcad.jvp(f, (x,), (1.0,))[1],
    lambda f, x: vmap(grad(f))(np.array([x, x]))[1],
    lambda f, x: jit(grad(f))(x),
    lambda f, x: [slope(v) for slope in [jit(grad(f))] for v in (x, 1.1 * x, x)][2],
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "method"), [("rice", "logpdf"), ("nct", "logcdf"), ("dpareto_lognorm", "logcdf"), ("weibull_max", "logpdf")]
)
def test_a_slip_has_its_own_error_and_changes_nothing(name: str, method: str, way: Any) -> None:
    x = np.array([-0.6, -0.7, -0.8] if name == "weibull_max" else [0.6, 0.7, 0.8])
    family, shapes = getattr(stats, name), SHAPES[name][1:]
    f = lambda c: np.sum(getattr(family, method)(x, c, *shapes))
    for _ in range(2):
        with pytest.raises(ValueError, match="broadcast"):
            grad(f)(np.array([1.0, 2.0]))
    slope, h = (lambda: way(f, 3.1)), 1e-6
    if is_refused(name, method, (family.shapes or "").split(",")[0]):
        with pytest.raises(errors.TracerArrayConversionError, match="compiled code"):
            slope()
    else:
        assert slope() == pytest.approx((f(3.1 + h) - f(3.1 - h)) / (2 * h), rel=1e-5)


@pytest.mark.parametrize("way", WAYS[:3])
def test_what_jit_refuses_is_not_refused_elsewhere(way: Any) -> None:
    f = lambda s: stats.pearson3.logpdf(1.2, s)
    with pytest.raises(errors.TracerBoolConversionError, match="not known inside jit"):
        jit(grad(f)).lower(0.4)
    assert way(f, 0.4) == pytest.approx((f(0.4 + 1e-6) - f(0.4 - 1e-6)) / 2e-6, rel=1e-5)


def test_outside_the_support_and_bad_parameters() -> None:
    x = np.array([-1.0, 0.5, 3.0])
    f = lambda b: stats.powerlaw.logpdf(x, b)
    assert np.array_equal(jit(f)(2.0), stats.powerlaw.logpdf(x, 2.0))
    assert np.isfinite(grad(lambda b: np.sum(np.where(np.isfinite(f(b)), f(b), 0.0)))(2.0))
    assert np.isnan(jit(f)(-2.0)).all()
    for g, bad in ((lambda c: stats.triang.pdf(0.3, c), -1.0), (lambda q: stats.trapezoid.ppf(q, 0.3, 0.6), 1.5)):
        assert np.isnan(funcad.value_and_grad(g)(bad)).all() and np.isnan(jit(g)(bad))


def test_another_version_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(own_answers.VERSIONS, "scipy", ("1.1",))
    own_answers._warned.clear()
    own_answers.is_certified.cache_clear()
    try:
        with pytest.warns(funcad.UncertifiedDerivativeWarning, match=r"scipy\.stats\.gompertz"):
            grad(lambda c: stats.gompertz.logpdf(0.3, c))(0.7)
    finally:
        own_answers._warned.clear()
        own_answers.is_certified.cache_clear()


def test_a_distribution_function_that_is_a_sum_is_refused_under_jit() -> None:
    f = lambda p: stats.logser.cdf(3, p)
    assert grad(f)(0.6) == pytest.approx((f(0.6 + 1e-6) - f(0.6 - 1e-6)) / 2e-6, rel=1e-6)
    with pytest.raises(errors.TracerArrayConversionError, match=r"sum pmf\(m\)"):
        jit(grad(f))(0.6)
    assert jit(grad(lambda p: np.sum(stats.logser.pmf(np.arange(1, 4), p))))(0.6) == pytest.approx(grad(f)(0.6))


NARROW = [("norminvgauss", (1.4, 0.5)), ("norminvgauss", (20.0, -3.0)), ("vonmises_line", (1e3,))]


@pytest.mark.parametrize(("name", "shapes"), NARROW)
@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf"])
def test_integrals_far_from_the_peak_have_their_derivatives(name: str, shapes: tuple[float, ...], method: str) -> None:
    family, (a, *rest) = getattr(stats, name), shapes
    h, x = 1e-4 * a, family.ppf(np.array([1e-4, 0.3, 0.7, 1 - 1e-4]), *shapes)
    f = lambda x, a: getattr(family, method)(x, a, *rest)
    slopes = [(f(x, a + k * h) - f(x, a - k * h)) / (2 * k * h) for k in (1, 2)]
    expected = (4 * slopes[0] - slopes[1]) / 3
    assert np.allclose(funcad.jvp(lambda a: f(x, a), (a,), (1.0,))[1], expected, rtol=1e-5, atol=1e-12)
    assert np.allclose(vmap(lambda x: grad(lambda a: f(x, a))(a))(x), expected, rtol=1e-5, atol=1e-12)


def test_a_tail_probability_is_scipys_own_under_grad_too() -> None:
    for f, at in [(stats.norminvgauss.sf, 50.0), (stats.norminvgauss.logsf, 50.0), (stats.norminvgauss.isf, 1e-20)]:
        slopes = [(f(at, 1.4 + h, 0.5) - f(at, 1.4 - h, 0.5)) / (2 * h) for h in (1e-4, 2e-4)]
        value, slope = funcad.value_and_grad(lambda a, f=f, at=at: f(at, a, 0.5))(1.4)
        assert value == pytest.approx(f(at, 1.4, 0.5), rel=1e-12, abs=0)
        assert slope == pytest.approx((4 * slopes[0] - slopes[1]) / 3, rel=1e-4, abs=0)


WITH_SELECTIONS = """
triang.pdf triang.logpdf triang.logcdf trapezoid.logpdf trapezoid.sf trapezoid.ppf tukeylambda.logpdf recipinvgauss.pdf
ncx2.logpdf pearson3.pdf randint.pmf skellam.logpmf logser.cdf zipf.sf betanbinom.cdf
"""


@pytest.mark.parametrize("call", WITH_SELECTIONS.split())
def test_a_nan_among_the_data_is_seen(call: str) -> None:
    name, method = call.split(".")
    f, discrete = getattr(getattr(stats, name), method), "pmf" in dir(getattr(stats, name))
    x = np.array([1.0 if discrete else 0.3, np.nan])
    shapes = np.array(SHAPES[name])
    known = f(x, *shapes)
    assert np.isnan(known[1]) and np.isfinite(known[0])
    for ours in (jit(lambda x: f(x, *shapes)), vmap(lambda x: f(x, *shapes))):
        for _ in range(3):
            assert np.allclose(ours(x), known, equal_nan=True)
    if name != "randint":
        value, slope = funcad.value_and_grad(lambda s: np.sum(f(x, *s)))(shapes)
        assert np.isnan(value) and np.isnan(slope).all()
        assert np.isfinite(grad(lambda s: np.sum(f(x[:1], *s)))(shapes)).all()

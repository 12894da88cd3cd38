"""All distributions at special points: values are SciPy's, whoever traces them; derivatives are 0 outside and NaN of a NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from funcad import errors, grad, jit, jvp, vmap
from funcad.scipy.stats import own_distributions
from tests.scipy.test_own_distributions import SHAPES

OWN = own_distributions.COMPARED.split()
NAMES = [n for n in SHAPES if n not in ("levy_stable", "studentized_range")]
REFUSALS = (errors.TracerArrayConversionError, errors.TracerBoolConversionError)
QUANTILES = np.array([np.nan, -np.inf, -1.0, -0.0, 0.0, 0.5, 1.0, 1.5, np.inf])


class Law:
    """A distribution, its arguments after x, and points in and around its support."""

    def __init__(self, name: str):
        self.law = getattr(stats, name)
        self.discrete = hasattr(self.law, "pmf")
        place = [2.0] if self.discrete else [0.3, 1.7]
        self.parameters = [*map(np.float64, SHAPES[name]), *map(np.float64, place)]
        self.methods = [*("pmf logpmf" if self.discrete else "pdf logpdf").split(), *"cdf sf logcdf logsf".split()]
        low, high = self.ends = self.law.support(*self.parameters)
        around = [low, low - 1.0, np.nextafter(low, -np.inf), high, high + 1.0, np.nextafter(high, np.inf)]
        inside = [low + 0.5, low + 1.0, high - 1.0, self.law.median(*self.parameters)]
        fixed = [np.nan, np.inf, -np.inf, -0.0, 0.0, *place]
        self.x = np.array([*fixed, *[v for v in [*around, *inside] if np.isfinite(v)]])


def found(way: Callable[..., Any], *args: Any) -> Any:
    try:
        return way(*args)
    except REFUSALS:
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.share(60)
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str) -> None:
    law = Law(name)
    for method in [*law.methods, "ppf", "isf"]:
        x = QUANTILES if method in ("ppf", "isf") else law.x
        if law.discrete and method in ("logcdf", "logsf"):  # SciPy's are not those of cdf and sf between two counts
            x = np.floor(x)
        f = lambda x, law=law, method=method: getattr(law.law, method)(x, *law.parameters)
        as_probability = np.exp if method.startswith("log") else np.positive
        expected = as_probability(np.array([f(v) for v in x]))
        known = np.isnan(x) | ~np.isnan(expected)  # where a formula of SciPy's has no value, at infinity, the limit is one
        one = jit(f)
        ways = [*[jit(f)] * 3, vmap(f), lambda x, f=f: jvp(f, (x,), (x,))[0], lambda x, f=one: np.array([f(v) for v in x])]
        for way in ways:
            value = found(way, x)
            if value is not None:
                np.testing.assert_allclose(as_probability(value)[known], expected[known], 1e-6, 1e-14, err_msg=method)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.share(60)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name: str) -> None:
    law = Law(name)
    beyond = (law.x < law.ends[0]) | (law.x > law.ends[1])
    args = [law.x, *law.parameters]
    for method in law.methods:
        steps = law.discrete and method not in ("pmf", "logpmf")
        for i in range(law.discrete, len(args) - steps):
            f = lambda v, i=i, method=method: getattr(law.law, method)(*args[:i], v, *args[i + 1 :])
            for way in (f, jit(f)):
                pair = found(jvp, way, (args[i],), (np.ones_like(args[i]),))
                if pair is not None:
                    value, slope = pair
                    assert not slope[beyond].any(), (method, i)
                    assert not np.isnan(slope[np.isinf(law.x) & ~np.isnan(value)]).any(), (method, i)
                    assert np.isnan(slope[0]) or name not in OWN, (method, i)


ENDS = """
invgauss.pdf.0 invgauss.logpdf.-0. wald.pdf.-0. wald.cdf.inf wald.logsf.inf invweibull.logpdf.0 alpha.pdf.0 fatiguelife.pdf.-0.
levy.logpdf.0 levy_l.pdf.0 johnsonsb.logpdf.0 johnsonsb.pdf.1 rayleigh.pdf.inf rayleigh.logpdf.inf betaprime.pdf.inf
norminvgauss.pdf.inf norminvgauss.logpdf.inf vonmises.cdf.inf vonmises.sf.-inf invgauss.sf.inf recipinvgauss.cdf.inf
mielke.logcdf.inf exponnorm.cdf.-inf exponnorm.logsf.-inf kappa3.sf.inf powerlognorm.logpdf.0 norm.pdf.inf t.pdf.inf
norm.cdf.inf poisson.pmf.inf
"""


@pytest.mark.parametrize("call", ENDS.split())
def test_ends_and_infinity(call: str) -> None:
    name, method, end = call.split(".", 2)
    law = Law(name)
    args = [float(end), *SHAPES[name], *([] if law.discrete else [0.0, 1.0])]
    f = getattr(law.law, method)
    known = f(*args)
    assert known in (0.0, 1.0, -np.inf)
    for i, at in enumerate(args):
        for way in (grad, lambda f: jit(grad(f)), lambda f: lambda v: vmap(grad(f))(np.array([v, v]))[0]):
            assert way(lambda v, i=i: f(*args[:i], v, *args[i + 1 :]))(at) == 0.0, i
    assert jit(lambda *args: f(*args))(*args) == known


@pytest.mark.filterwarnings("ignore")
def test_between_two_counts() -> None:
    f = lambda k: stats.hypergeom.cdf(k, 20, 7, 12)
    k = np.array([0.5, 3.0, 3.5, np.nan])
    for found in (jit(f)(k), vmap(f)(k), jvp(f, (k,), (k,))[0]):
        np.testing.assert_allclose(found, f(k))
    assert grad(f)(3.0) == 0.0


def test_a_log_density_in_compiled_code_is_scipys_where_the_density_is_too_small() -> None:
    f = lambda x: stats.genhyperbolic.logpdf(x, 0.5, 1.5, -0.5)
    x = np.array([-800.0, 0.3])
    assert np.isfinite(f(x)).all()
    np.testing.assert_allclose(vmap(f)(x), f(x), rtol=1e-12)

"""`scipy.stats`: distributions as differentiable functions of values and parameters, and a few statistics.

Names and arguments are SciPy's (`gaussian_kde`: JAX's). SciPy's module itself, which takes half a second to import, is not
loaded: values come from the special functions. What differs: float32 stays float32; log-densities are -inf outside the
support with derivative 0; methods without a derivative (`rvs`, `fit` ...) are SciPy's own, for known values.

>>> import numpy as np, funcad
>>> from funcad.scipy import stats
>>> data = np.array([1.0, 2.5, 0.5])
>>> funcad.grad(lambda a: stats.gamma.logpdf(data, a).sum())(2.0).round(4)
np.float64(-1.0452)
"""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.configuration import later as _later
from funcad.scipy.door import absent as _absent
from funcad.scipy.door import scipy_function as _scipy_function

_FILES = {
    "one_dimensional": (
        "cauchy expon gennorm gumbel_l gumbel_r halfnorm laplace logistic lognorm norm pareto rayleigh skewnorm truncnorm "
        "uniform weibull_min"
    ),
    "gamma_families": "beta chi2 f gamma invgamma t vonmises wrapcauchy",
    "counts": "bernoulli betabinom binom geom nbinom poisson",
    "vector_distributions": "dirichlet multinomial multivariate_normal",
    "summary": "gaussian_kde mode rankdata sem",
}
_FILE_OF, _value_of = _later(globals(), _FILES)
__all__ = list(_FILE_OF)

if _typing.TYPE_CHECKING:
    # isort: off
    from funcad.scipy.stats.counts import (
        bernoulli as bernoulli, betabinom as betabinom, binom as binom, geom as geom, nbinom as nbinom, poisson as poisson,
    )  # fmt: skip
    from funcad.scipy.stats.gamma_families import (
        beta as beta, chi2 as chi2, f as f, gamma as gamma, invgamma as invgamma, t as t, vonmises as vonmises,
        wrapcauchy as wrapcauchy,
    )  # fmt: skip
    from funcad.scipy.stats.one_dimensional import (
        cauchy as cauchy, expon as expon, gennorm as gennorm, gumbel_l as gumbel_l, gumbel_r as gumbel_r,
        halfnorm as halfnorm, laplace as laplace, logistic as logistic, lognorm as lognorm, norm as norm, pareto as pareto,
        rayleigh as rayleigh, skewnorm as skewnorm, truncnorm as truncnorm, uniform as uniform, weibull_min as weibull_min,
    )  # fmt: skip
    from funcad.scipy.stats.summary import gaussian_kde as gaussian_kde, mode as mode, rankdata as rankdata, sem as sem
    from funcad.scipy.stats.vector_distributions import (
        dirichlet as dirichlet, multinomial as multinomial, multivariate_normal as multivariate_normal,
    )  # fmt: skip
    # isort: on


def _by_own_formulas(name: str) -> _Any:
    """A distribution of SciPy's that is not written here."""
    theirs = None if name.startswith("_") else _scipy_function(f"stats.{name}")
    if getattr(theirs, "name", None) != name or not hasattr(theirs, "_parse_args"):
        return None
    kind = "OwnDiscrete" if hasattr(theirs, "logpmf") else "OwnContinuous"
    value = globals()[name] = getattr(_importlib.import_module("funcad.scipy.stats.own_distributions"), kind)(theirs)
    return value


def _lazy(name: str) -> _Any:
    return _value_of(name) if name in _FILE_OF else _by_own_formulas(name)


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.stats", _lazy)


def __dir__() -> list[str]:
    return sorted(_FILE_OF)

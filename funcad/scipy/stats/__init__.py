"""`scipy.stats`: distributions as differentiable functions of values and parameters, and a few statistics.

Names and arguments are SciPy's (`gaussian_kde`: JAX's). SciPy's module itself, which takes half a second to import, is not
loaded: values come from the special functions. What differs: float32 stays float32; log-densities are -inf outside the
support with derivative 0; methods without a derivative (`rvs`, `fit`, `mean` ...) are SciPy's own, for known values.

>>> import numpy as np, funcad
>>> from funcad.scipy import stats
>>> data = np.array([1.0, 2.5, 0.5])
>>> funcad.grad(lambda a: stats.gamma.logpdf(data, a).sum())(2.0).round(4)
np.float64(-1.0452)
"""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.scipy.door import absent as _absent

_MODULES = {
    "real_line": [
        "cauchy",
        "expon",
        "gennorm",
        "gumbel_l",
        "gumbel_r",
        "halfnorm",
        "laplace",
        "logistic",
        "lognorm",
        "norm",
        "pareto",
        "rayleigh",
        "skewnorm",
        "truncnorm",
        "uniform",
        "weibull_min",
    ],
    "shaped": ["beta", "chi2", "f", "gamma", "invgamma", "t"],
    "circular": ["vonmises", "wrapcauchy"],
    "counts": ["bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"],
    "vector_distributions": ["dirichlet", "multinomial", "multivariate_normal"],
    "kde": ["gaussian_kde"],
    "summary": ["mode", "rankdata", "sem"],
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_NAMES)

if _typing.TYPE_CHECKING:
    from funcad.scipy.stats.circular import vonmises as vonmises
    from funcad.scipy.stats.circular import wrapcauchy as wrapcauchy
    from funcad.scipy.stats.counts import bernoulli as bernoulli
    from funcad.scipy.stats.counts import betabinom as betabinom
    from funcad.scipy.stats.counts import binom as binom
    from funcad.scipy.stats.counts import geom as geom
    from funcad.scipy.stats.counts import nbinom as nbinom
    from funcad.scipy.stats.counts import poisson as poisson
    from funcad.scipy.stats.kde import gaussian_kde as gaussian_kde
    from funcad.scipy.stats.real_line import cauchy as cauchy
    from funcad.scipy.stats.real_line import expon as expon
    from funcad.scipy.stats.real_line import gennorm as gennorm
    from funcad.scipy.stats.real_line import gumbel_l as gumbel_l
    from funcad.scipy.stats.real_line import gumbel_r as gumbel_r
    from funcad.scipy.stats.real_line import halfnorm as halfnorm
    from funcad.scipy.stats.real_line import laplace as laplace
    from funcad.scipy.stats.real_line import logistic as logistic
    from funcad.scipy.stats.real_line import lognorm as lognorm
    from funcad.scipy.stats.real_line import norm as norm
    from funcad.scipy.stats.real_line import pareto as pareto
    from funcad.scipy.stats.real_line import rayleigh as rayleigh
    from funcad.scipy.stats.real_line import skewnorm as skewnorm
    from funcad.scipy.stats.real_line import truncnorm as truncnorm
    from funcad.scipy.stats.real_line import uniform as uniform
    from funcad.scipy.stats.real_line import weibull_min as weibull_min
    from funcad.scipy.stats.shaped import beta as beta
    from funcad.scipy.stats.shaped import chi2 as chi2
    from funcad.scipy.stats.shaped import f as f
    from funcad.scipy.stats.shaped import gamma as gamma
    from funcad.scipy.stats.shaped import invgamma as invgamma
    from funcad.scipy.stats.shaped import t as t
    from funcad.scipy.stats.summary import mode as mode
    from funcad.scipy.stats.summary import rankdata as rankdata
    from funcad.scipy.stats.summary import sem as sem
    from funcad.scipy.stats.vector_distributions import dirichlet as dirichlet
    from funcad.scipy.stats.vector_distributions import multinomial as multinomial
    from funcad.scipy.stats.vector_distributions import multivariate_normal as multivariate_normal


def _lazy(name: str) -> _Any:
    if name not in _NAMES:
        return None
    value = getattr(_importlib.import_module(f"funcad.scipy.stats.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.stats", _lazy)


def __dir__() -> list[str]:
    return sorted(_NAMES)

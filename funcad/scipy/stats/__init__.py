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


def _lazy(name: str) -> _Any:
    if name not in _NAMES:
        return None
    value = getattr(_importlib.import_module(f"funcad.scipy.stats.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


__getattr__ = _absent("funcad.scipy.stats", _lazy)


def __dir__() -> list[str]:
    return sorted(_NAMES)

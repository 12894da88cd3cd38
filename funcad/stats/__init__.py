"""Statistics of log-likelihoods and log-densities that are written in NumPy, with exact derivatives.

>>> import numpy as np, funcad
>>> from funcad import stats
>>> heights = np.array([1.62, 1.75, 1.81, 1.69, 1.73])
>>> def log_likelihood(p):
...     return -0.5 * ((heights - p["mean"]) / np.exp(p["log_sd"])) ** 2 - p["log_sd"]
>>> fit = stats.maximum_likelihood(log_likelihood, {"mean": 1.7, "log_sd": 0.0})
>>> round(float(fit.params["mean"]), 4), round(float(fit.standard_errors["mean"]), 4)
(1.72, 0.0283)
>>> round(float(fit.propagate(lambda p: np.exp(p["log_sd"])).standard_errors), 4)
0.02
"""

from funcad.configuration import public_names as _public_names

# isort: off
from funcad.stats.estimates import (
    Fit as Fit, LaplaceApproximation as LaplaceApproximation, Profile as Profile, Propagated as Propagated, laplace as laplace,
    maximum_likelihood as maximum_likelihood, profile_likelihood as profile_likelihood, propagate as propagate,
)  # fmt: skip
from funcad.stats.sampling import Samples as Samples, sample as sample
# isort: on

__dir__ = _public_names(globals())

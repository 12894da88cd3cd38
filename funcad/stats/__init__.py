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
from funcad.stats.estimates import Fit as Fit
from funcad.stats.estimates import LaplaceApproximation as LaplaceApproximation
from funcad.stats.estimates import Profile as Profile
from funcad.stats.estimates import Propagated as Propagated
from funcad.stats.estimates import laplace as laplace
from funcad.stats.estimates import maximum_likelihood as maximum_likelihood
from funcad.stats.estimates import profile_likelihood as profile_likelihood
from funcad.stats.estimates import propagate as propagate
from funcad.stats.sampling import Samples as Samples
from funcad.stats.sampling import sample as sample

__dir__ = _public_names(globals())

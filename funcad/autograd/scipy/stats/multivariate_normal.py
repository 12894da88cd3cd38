"""`autograd.scipy.stats.multivariate_normal`: the one in funcad.scipy.stats, or else SciPy's."""

from __future__ import annotations

import math as _math
from typing import Any as _Any

import funcad.numpy as _fnp
from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.scipy.stats.multivariate_normal", "scipy.stats.multivariate_normal")


def entropy(mean: _Any = None, cov: _Any = 1) -> _Any:
    """The entropy of the normal distribution with this covariance: the mean does not matter.

    >>> import numpy as np
    >>> bool(np.isclose(entropy(cov=np.eye(2)), 1 + np.log(2 * np.pi)))
    True
    """
    cov = _fnp.atleast_2d(_fnp.asarray(cov))
    sign, logdet = _fnp.linalg.slogdet(cov)
    n = _fnp.shape(cov)[-1]
    return 0.5 * (n * (1 + _math.log(2 * _math.pi)) + logdet)

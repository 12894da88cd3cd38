"""Distributions of vectors.

Where SciPy raises for values that are no point of the distribution (`dirichlet`), known values raise too; inside of jit, where
nothing is known, they give -inf, and bad parameters NaN.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import is_traced
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.linear_systems import triangular_inverse
from funcad.scipy.door import scipy_function
from funcad.scipy.stats.family import Named, floats, quietly, replaced, special


def _squeezed(x: Any) -> Any:
    """SciPy drops all axes of length 1."""
    x = x.squeeze() if 1 in shape_of(x) else x
    return x if shape_of(x) or type(x) is Tracer else x[()]


# -- the normal distribution


def normal_logpdf(x: Any, mean: Any, cov: Any) -> Any:
    dim = shape_of(mean)[-1] if shape_of(mean) else shape_of(cov)[-1] if shape_of(cov) else 1
    if shape_of(mean) and shape_of(mean)[-1] != dim:
        raise ValueError(f"multivariate_normal: mean ({said(mean)}) does not fit dimension {dim}")
    if dim == 1 and len(shape_of(x)) < 2:
        x = fnp.reshape(x, (*shape_of(x), 1))
    if not shape_of(x) or shape_of(x)[-1] != dim:
        raise ValueError(f"multivariate_normal: x ({said(x)}) must be vectors of dimension {dim} along the last axis")
    y = x - mean
    if len(shape_of(cov)) < 2:  # a multiple of the identity, or a diagonal
        scaled = y * y / cov
        logs = fnp.broadcast_to(fnp.log(cov), (dim,))
        return -0.5 * (fnp.sum(scaled, axis=-1) + fnp.sum(logs) + dim * log(2 * pi))
    if shape_of(cov)[-2:] != (dim, dim):
        raise ValueError(f"multivariate_normal: cov must be {dim} x {dim}, got {said(cov)}")
    factor = fnp.linalg.cholesky(cov)
    whitened = fnp.matvec(triangular_inverse(factor), y) if shape_of(cov)[:-2] else y @ triangular_inverse(factor).T
    logs = fnp.sum(fnp.log(fnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    return -0.5 * (fnp.sum(whitened * whitened, axis=-1) + dim * log(2 * pi)) - logs


class _MultivariateNormal(Named):
    """Vectors along the last axis of x, normal with mean `mean` and covariance `cov` (a matrix, a diagonal or a number).

    `mean` and `cov` may have leading axes that broadcast with those of x (SciPy: one distribution only). Differentiable in all
    arguments; a covariance that is not positive definite raises `numpy.linalg.LinAlgError`.

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.multivariate_normal.logpdf(np.zeros(2), np.zeros(2), np.eye(2)).round(4)
    np.float64(-1.8379)
    """

    name = "multivariate_normal"

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool | None = False) -> Any:
        """log of the density at x, with mean `mean` (None: zeros) and covariance `cov` (a matrix, a diagonal or a number).

        `allow_singular=True` is SciPy's own, differentiable in x and mean; a traced covariance raises NotImplementedError.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> stats.multivariate_normal.logpdf([0.5, 0.0], [0.0, 0.0], np.eye(2)).round(4)
        np.float64(-1.9629)
        """
        if allow_singular:
            if is_traced(cov):
                raise NotImplementedError(
                    "multivariate_normal: allow_singular=True has no derivative by cov: the density of a singular distribution "
                    "lives on a subspace that changes with cov.\nRemedy: add a multiple of the identity to cov."
                )
            return scipy_function("stats.multivariate_normal").logpdf(x, mean, cov, allow_singular=True)
        x, mean, cov = floats(x, 0.0 if mean is None else mean, cov)
        return _squeezed(quietly(normal_logpdf, x, mean, cov))

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool | None = False) -> Any:
        """Density at x; mean, cov and `allow_singular` as for `logpdf`.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> stats.multivariate_normal.pdf([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0], [1.0, 4.0]).round(4)
        array([0.0796, 0.0483])
        """
        return fnp.exp(self.logpdf(x, mean, cov, allow_singular))


multivariate_normal = _MultivariateNormal()


# -- proportions and counts of several kinds


def _checked(name: str, condition: Any, message: str) -> None:
    known = concrete_value(condition)
    if type(known) is not Tracer and not known.all():
        raise ValueError(f"{name}: {message}")


def _dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    if len(shape_of(alpha)) != 1:
        raise ValueError(f"dirichlet: alpha must be a vector, got {said(alpha)}")
    k = shape_of(alpha)[0]
    if not shape_of(x) or shape_of(x)[0] not in (k - 1, k):
        raise ValueError(f"dirichlet: x ({said(x)}) must have {k} elements along its first axis, as alpha, or one less")
    if shape_of(x)[0] == k - 1:
        x = fnp.concatenate([x, 1.0 - fnp.sum(x, axis=0, keepdims=True)])
    alpha = fnp.reshape(alpha, (k, *[1] * (len(shape_of(x)) - 1)))
    _checked("dirichlet", alpha > 0, "all alpha must be positive")
    inside = ~((x < 0) | (x > 1))  # a NaN goes through, as in SciPy
    _checked("dirichlet", inside, "all x must be between 0 and 1")
    _checked("dirichlet", ~(x <= 0) | (alpha >= 1), "x must be positive where alpha is less than 1")
    complete = ~(fnp.abs(fnp.sum(x, axis=0) - 1.0) > (1e-9 if x.dtype.itemsize > 4 else 1e-5))
    _checked("dirichlet", complete, "x must sum to 1 along its first axis")
    out = fnp.sum(special.xlogy(alpha - 1.0, replaced(x, ~inside, 0.5)), axis=0)
    out = replaced(out, ~(complete & fnp.all(inside, axis=0)), -np.inf)
    out = out + special.gammaln(fnp.sum(alpha)) - fnp.sum(special.gammaln(alpha))
    return replaced(out, ~fnp.all(alpha > 0), np.nan)


class _Dirichlet(Named):
    """Proportions along the first axis of x, all of them or all but the last.

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.dirichlet.logpdf(np.array([0.25, 0.75]), np.array([2.0, 3.0])).round(4)
    np.float64(0.5232)
    """

    name = "dirichlet"

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """log of the density at x, whose parameters `alpha` are a vector of positive numbers; ValueError where SciPy raises it.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> stats.dirichlet.logpdf([0.25, 0.75], [2.0, 3.0]).round(4)
        np.float64(0.5232)
        """
        return _squeezed(quietly(_dirichlet_logpdf, *floats(x, alpha)))

    def pdf(self, x: Any, alpha: Any) -> Any:
        """Density at x; `alpha` as for `logpdf`.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> stats.dirichlet.pdf([0.25, 0.75], [2.0, 3.0]).round(4)
        np.float64(1.6875)
        """
        return fnp.exp(self.logpdf(x, alpha))


dirichlet = _Dirichlet()


def _multinomial_logpmf(x: Any, n: Any, p: Any) -> Any:
    last = 1.0 - fnp.sum(p[..., :-1], axis=-1, keepdims=True)
    apart = stop_gradient(p[..., -1:] - last)
    small = 10 * np.finfo(np.result_type(dtype_of(p), np.float32)).eps
    apart = fnp.where(fnp.abs(apart) > small, 0.0, apart)  # a rounding error: the value keeps it
    p = fnp.concatenate([p[..., :-1], last + apart], axis=-1)
    good = (n >= 0) & (fnp.floor(n) == n) & fnp.all((p >= 0) & (p <= 1), axis=-1)
    each = (x >= 0) & (fnp.floor(x) == x)
    possible = fnp.all(each, axis=-1) & (fnp.sum(x, axis=-1) == n)
    x = replaced(x, ~each, 0.0)
    out = special.gammaln(n + 1.0) + fnp.sum(special.xlogy(x, p) - special.gammaln(x + 1.0), axis=-1)
    return replaced(replaced(out, ~possible, -np.inf), ~good, np.nan)


class _Multinomial(Named):
    """Counts x along the last axis, of n trials with probabilities p, the last of which is what the others leave of 1.

    >>> from funcad.scipy import stats
    >>> stats.multinomial.pmf([1, 1], 2, [0.5, 0.5]).round(4)
    np.float64(0.5)
    """

    name = "multinomial"

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """log of the probability of the counts x in `n` trials, whose outcomes have the probabilities `p`.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> stats.multinomial.logpmf([1, 1], 2, [0.5, 0.5]).round(4)
        np.float64(-0.6931)
        """
        return quietly(_multinomial_logpmf, *floats(x, n, p))

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """Probability of the counts x in `n` trials, whose outcomes have the probabilities `p`.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> stats.multinomial.pmf([2, 0], 2, [0.5, 0.5]).round(4)
        np.float64(0.25)
        """
        return fnp.exp(self.logpmf(x, n, p))


multinomial = _Multinomial()

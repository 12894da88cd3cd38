"""Distributions of vectors.

Where SciPy raises for values that are no point of the distribution (`dirichlet`), known values raise too; inside of jit, where
nothing is known, they give -inf, and bad parameters NaN.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad import tree
from funcad.api.tools import stop_gradient
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import is_traced
from funcad.primitives.linear_systems import triangular_inverse
from funcad.scipy.door import scipy_function
from funcad.scipy.stats.family import Named, floats, quietly, replaced, special


def _squeezed(x: Any) -> Any:
    """SciPy drops all axes of length 1."""
    x = fnp.squeeze(x)
    return x if shape_of(x) or type(x) is Tracer else x[()]


# -- the normal distribution


def _normal_logpdf(x: Any, mean: Any, cov: Any) -> Any:
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

        `allow_singular=True` is SciPy's own, for known values; traced ones raise NotImplementedError.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> stats.multivariate_normal.logpdf([0.5, 0.0], [0.0, 0.0], np.eye(2)).round(4)
        np.float64(-1.9629)
        """
        if allow_singular:
            if is_traced((x, mean, cov)):
                raise NotImplementedError(
                    "multivariate_normal: allow_singular=True has no derivative: the density of a singular distribution lives "
                    "on a subspace that changes with cov.\nRemedy: add a multiple of the identity to cov."
                )
            return scipy_function("stats.multivariate_normal").logpdf(x, mean, cov, allow_singular=True)
        x, mean, cov = floats(x, 0.0 if mean is None else mean, cov)
        return _squeezed(quietly(_normal_logpdf, x, mean, cov))

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


# -- kernel density estimates


class gaussian_kde:
    """The density of points `dataset`, of shape (n,) or (dimensions, n), each blurred by a normal kernel.

    `bw_method`: "scott" (the default), "silverman", a number, or a function of the estimate; `weights`: one per point. As
    SciPy's, differentiable in data, weights and points, and itself a pytree; `resample` takes a key, as JAX's.

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.gaussian_kde(np.array([0.0, 1.0, 4.0])).evaluate(1.0).round(4)
    array([0.162])
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None):
        if weights is None:
            (dataset,) = floats(dataset)
        else:
            dataset, weights = floats(dataset, weights)
        self.dataset = dataset = fnp.atleast_2d(dataset)
        self.d, self.n = d, n = shape_of(dataset)
        if d * n <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        if weights is None:
            self.weights = fnp.full_like(dataset[0], 1.0 / n)
        else:
            weights = fnp.atleast_1d(weights)
            if shape_of(weights) != (n,):
                raise ValueError(f"gaussian_kde: weights must have shape ({n},), got {said(weights)}")
            self.weights = weights / fnp.sum(weights)
        self.neff = 1.0 / fnp.sum(self.weights * self.weights)
        self.factor = factor = self._factor(bw_method)
        spread = fnp.atleast_2d(fnp.cov(dataset, bias=False, aweights=self.weights))
        if dtype_of(spread) != dtype_of(dataset):  # np.cov computes in float64
            spread = fnp.astype(spread, dtype_of(dataset))
        self.covariance = spread * (factor * factor)

    def _factor(self, method: Any) -> Any:
        if method is None or isinstance(method, str) and method == "scott":
            return self.scotts_factor()
        if isinstance(method, str):
            if method != "silverman":
                raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar or a callable.")
            return self.silverman_factor()
        if callable(method):
            return method(self)
        if shape_of(method):
            raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar or a callable.")
        return method

    def scotts_factor(self) -> Any:
        """neff ** (-1 / (d + 4)), the width of Scott's rule.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.scotts_factor().round(4)
        np.float64(0.8027)
        """
        return self.neff ** (-1.0 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """(neff * (d + 2) / 4) ** (-1 / (d + 4)), the width of Silverman's rule.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.silverman_factor().round(4)
        np.float64(0.8503)
        """
        return (self.neff * (self.d + 2.0) / 4.0) ** (-1.0 / (self.d + 4))

    @property
    def inv_cov(self) -> Any:
        return fnp.linalg.inv(self.covariance)

    def _points(self, points: Any) -> Any:
        points = fnp.atleast_2d(floats(points, self.dataset)[0])
        d, m = shape_of(points)
        if d != self.d:
            if d != 1 or m != self.d:
                raise ValueError(f"points have dimension {d}, dataset has dimension {self.d}")
            points = fnp.reshape(points, (self.d, 1))
        return points

    def _log_kernels(self, points: Any) -> Any:
        """(number of points, n): the log-density of each kernel at each point."""
        factor = fnp.linalg.cholesky(self.covariance)
        whitening = triangular_inverse(factor)
        x, centres = whitening @ self._points(points), whitening @ self.dataset
        square: Any = 0.0
        for i in range(self.d):
            gap = x[i][:, None] - centres[i]
            square = square + gap * gap
        return -0.5 * (square + self.d * log(2 * pi)) - fnp.sum(fnp.log(fnp.diagonal(factor)))

    def evaluate(self, points: Any) -> Any:
        """The density at points of shape (m,) or (dimensions, m).

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.evaluate([1.0, 2.0]).round(4)
        array([0.162 , 0.1443])
        """
        return fnp.exp(self._log_kernels(points)) @ self.weights

    pdf = __call__ = evaluate

    def logpdf(self, x: Any) -> Any:
        """log of the density at the points x, where that underflows too.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.logpdf([100.0]).round(1)
        array([-1652.7])
        """
        logs = self._log_kernels(x)
        top = stop_gradient(fnp.max(fnp.where(self.weights > 0, logs, -fnp.inf), axis=1))
        top = fnp.where(fnp.isfinite(top), top, 0.0)
        return fnp.log(fnp.exp(logs - top[:, None]) @ self.weights) + top

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times a normal one, of mean `mean` and covariance `cov`.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.integrate_gaussian(1.0, 0.5).round(4)
        np.float64(0.1549)
        """
        mean, cov, _ = floats(mean, cov, self.dataset)
        mean, cov = fnp.atleast_1d(fnp.squeeze(mean)), fnp.atleast_2d(cov)
        if shape_of(mean) != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if shape_of(cov) != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return fnp.exp(_normal_logpdf(self.dataset.T, mean, self.covariance + cov)) @ self.weights

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of values between the numbers `low` and `high`; ValueError in several dimensions.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.integrate_box_1d(-1.0, 1.0).round(4)
        np.float64(0.2899)
        """
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        low, high, _ = floats(low, high, self.dataset)
        if shape_of(low) or shape_of(high):
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        scale = fnp.sqrt(self.covariance[0, 0])
        between = special.ndtr((high - self.dataset[0]) / scale) - special.ndtr((low - self.dataset[0]) / scale)
        return fnp.dot(self.weights, between)

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product with `other`, an estimate of as many dimensions.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.integrate_kde(estimate).round(4)
        np.float64(0.1163)
        """
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        small, large = (self, other) if self.n < other.n else (other, self)
        both = small.covariance + large.covariance
        total: Any = 0.0
        for i in range(small.n):
            densities = fnp.exp(_normal_logpdf(large.dataset.T, small.dataset[:, i], both))
            total = total + small.weights[i] * fnp.dot(densities, large.weights)
        return total

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Refused, as in JAX: the normal distribution function of several dimensions has no derivative here.

        `low_bounds`, `high_bounds` and `maxpts` are SciPy's. Raises NotImplementedError, always.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.integrate_box([0.0], [1.0])
        Traceback (most recent call last):
        NotImplementedError: gaussian_kde.integrate_box is there for one dimension.
        Remedy: integrate_box_1d, or SciPy's gaussian_kde.
        """
        raise NotImplementedError(
            "gaussian_kde.integrate_box is there for one dimension.\nRemedy: integrate_box_1d, or SciPy's gaussian_kde."
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Another width of the kernel: see `bw_method` above.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.set_bandwidth(0.5)
        >>> float(estimate.factor)
        0.5
        """
        gaussian_kde.__init__(self, self.dataset, bw_method, self.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Draws from the density, of shape (dimensions, *shape), with a key of `funcad.random`.

        >>> import numpy as np
        >>> from funcad.scipy import stats
        >>> import funcad
        >>> estimate = stats.gaussian_kde(np.array([0.0, 1.0, 4.0]))
        >>> estimate.resample(funcad.random.key(0), (5,)).shape
        (1, 5)
        """
        draw_index, draw_noise = _random("split")(key)
        index = _random("choice")(draw_index, self.n, shape=shape, p=self.weights)
        noise = _random("normal")(draw_noise, (self.d, *shape), dtype=self.dataset.dtype)
        return self.dataset[:, index] + fnp.tensordot(fnp.linalg.cholesky(self.covariance), noise, axes=1)


_PARTS = ("neff", "dataset", "weights", "covariance", "factor")


def estimate_of(theirs: Any) -> gaussian_kde:
    """The same estimate as SciPy's object."""
    return _rebuilt((theirs.d, theirs.n), tuple([getattr(theirs, name) for name in _PARTS]))


def _rebuilt(meta: tuple, children: tuple) -> gaussian_kde:
    estimate = gaussian_kde.__new__(gaussian_kde)
    estimate.d, estimate.n = meta
    for name, value in zip(_PARTS, children):
        setattr(estimate, name, value)
    return estimate


tree.register_pytree_with_keys(
    gaussian_kde,
    lambda kde: ([(tree.GetAttrKey(name), getattr(kde, name)) for name in _PARTS], (kde.d, kde.n)),
    _rebuilt,
)


def _random(name: str) -> Callable[..., Any]:
    return getattr(importlib.import_module("funcad.random"), name)

"""Statistics of data: ranks, modes, standard errors, and densities estimated from points."""

from __future__ import annotations

import importlib
from collections import namedtuple
from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad import tree
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.numpy.dispatch import refuse
from funcad.numpy.promote import axis_of
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.linear_systems import triangular_inverse
from funcad.scipy.door import implements, since_1_18
from funcad.scipy.stats.family import floats, special
from funcad.scipy.stats.vector_distributions import normal_logpdf

ModeResult = namedtuple("ModeResult", ("mode", "count"))


def _policy(name: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        refuse(f"stats.{name}", nan_policy=nan_policy)


def _runs(x: Any) -> tuple[Any, Any, Any, Any]:
    """Along the last axis: the sorted values, their order, and where the run of equal values begins and ends."""
    order = fnp.argsort(x, axis=-1, stable=True)
    values = fnp.take_along_axis(x, order, axis=-1)
    n = shape_of(x)[-1]
    changes = values[..., 1:] != values[..., :-1]
    edge = fnp.ones_like(values[..., :1], dtype=bool)
    places = _places(order)
    first = _running_max(fnp.where(fnp.concatenate([edge, changes], axis=-1), places, 0))
    reverse = fnp.flip(fnp.concatenate([changes, edge], axis=-1), axis=-1)
    last = fnp.flip(n - 1 - _running_max(fnp.where(reverse, places, 0)), axis=-1)
    return values, order, first, last


def _places(order: Any) -> Any:
    """0, 1, 2 ... along the last axis, where the argument is (on a device)."""
    return fnp.cumsum(fnp.ones_like(order), axis=-1) - 1


def _running_max(x: Any) -> Any:
    return np.maximum.accumulate(x, axis=-1)


@implements("stats.rankdata", lift=True)
def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Any:
    """`scipy.stats.rankdata`: the ranks of the data, from 1; ties by `method`. Ranks have derivative 0.

    Inside of jit and vmap, integer ranks (of SciPy before 1.18) count NaN as the largest values; otherwise ranks of data with
    NaN are NaN.

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.rankdata(np.array([3.0, 1.0, 3.0]))
    array([2.5, 1. , 2.5])
    """
    _policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f'unknown method "{method}"')
    x = stop_gradient(fnp.ravel(a) if axis is None else fnp.asarray(a))
    if type(x) is np.ndarray:  # known values: nothing but SciPy's own
        return rankdata(x, method, axis=-1 if axis is None else axis)
    where = axis_of(-1 if axis is None else axis, len(shape_of(x)))
    x = fnp.moveaxis(x, where, -1)
    own = np.dtype(x.dtype) if np.dtype(x.dtype).kind == "f" else np.dtype(np.float64)
    target = own if since_1_18() else np.dtype(np.float64 if method == "average" else np.int64)
    if not shape_of(x)[-1]:
        return fnp.moveaxis(fnp.zeros(shape_of(x), target), -1, where)
    _, order, first, last = _runs(x)
    if method == "dense":
        ranks = fnp.cumsum(first == _places(order), axis=-1)
    elif method == "average":
        ranks = 0.5 * (first + last) + 1.0
    else:
        ranks = (first if method == "min" else last if method == "max" else _places(order)) + 1
    ranks = fnp.astype(fnp.take_along_axis(ranks, fnp.argsort(order, axis=-1), axis=-1), target)
    if target.kind == "f" and np.dtype(x.dtype).kind == "f":  # NaN in the data: no ranks
        ranks = fnp.where(fnp.any(fnp.isnan(x), axis=-1, keepdims=True), np.nan, ranks)
    return fnp.moveaxis(ranks, -1, where)


@implements("stats.mode", lift=True)
def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.mode`: the most frequent value, the least of several, and how often it occurs. It has derivative 0.

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.mode(np.array([3.0, 1.0, 3.0]))
    ModeResult(mode=np.float64(3.0), count=np.int64(2))
    """
    _policy("mode", nan_policy)
    x = stop_gradient(fnp.ravel(a) if axis is None else fnp.asarray(a))
    where = axis_of(-1 if axis is None else axis, len(shape_of(x)))
    x = fnp.moveaxis(x, where, -1)
    values, _, first, last = _runs(x)
    counts = last - first + 1
    best = fnp.argmax(counts, axis=-1, keepdims=True)
    found, count = fnp.take_along_axis(values, best, axis=-1), fnp.take_along_axis(counts, best, axis=-1)
    if not keepdims:
        return ModeResult(found[..., 0], count[..., 0])
    if axis is None:
        shape = (1,) * len(shape_of(a))
        return ModeResult(fnp.reshape(found, shape), fnp.reshape(count, shape))
    return ModeResult(fnp.moveaxis(found, -1, where), fnp.moveaxis(count, -1, where))


@implements("stats.sem", lift=True)
def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """`scipy.stats.sem`: the standard error of the mean, std(a, ddof) / sqrt(n).

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.sem(np.array([1.0, 2.0, 3.0])).round(4)
    np.float64(0.5774)
    """
    _policy("sem", nan_policy)
    shape = shape_of(a)
    n = int(np.prod(shape)) if axis is None else shape[axis_of(axis, len(shape))]
    return fnp.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / float(n) ** 0.5


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
        return fnp.exp(normal_logpdf(self.dataset.T, mean, self.covariance + cov)) @ self.weights

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
            densities = fnp.exp(normal_logpdf(large.dataset.T, small.dataset[:, i], both))
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

"""Distances between vectors under the names of `scipy.spatial.distance`, differentiable in all vectors, weights and matrices.

Idea: a metric is a row of `METRICS`: a formula along the last axis, for vectors of any shape that broadcast. The function of
its name calls the formula on two vectors, `cdist` on all pairs of rows of two arrays, `pdist` on all pairs of one.
Trap: where two vectors coincide, most metrics have a kink. Its derivative is 0 there, as that of a norm, so that the diagonal
of a matrix of distances harms no gradient.
"""

from __future__ import annotations

import math
import typing as _typing
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad import numpy as fnp
from funcad.api.tools import stop_gradient
from funcad.configuration import public_names
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import python_number
from funcad.scipy.door import absent, implements, scipy_function, since_1_18
from funcad.scipy.spatial.structures import structure
from funcad.scipy.special import rel_entr

__all__ = [
    "braycurtis",
    "canberra",
    "cdist",
    "chebyshev",
    "cityblock",
    "correlation",
    "cosine",
    "dice",
    "directed_hausdorff",
    "euclidean",
    "hamming",
    "is_valid_dm",
    "is_valid_y",
    "jaccard",
    "jensenshannon",
    "mahalanobis",
    "minkowski",
    "num_obs_dm",
    "num_obs_y",
    "pdist",
    "rogerstanimoto",
    "russellrao",
    "seuclidean",
    "sokalsneath",
    "sqeuclidean",
    "squareform",
    "yule",
]
__dir__ = public_names(globals())


# -- formulas along the last axis


def _sum(x: Any, w: Any = None) -> Any:
    return fnp.sum(x if w is None else w * x, axis=-1)


def _root(x: Any) -> Any:
    """The square root, with the derivative 0 at 0."""
    return fnp.where(x == 0, 0.0, fnp.sqrt(x))


def _minkowski(u: Any, v: Any, w: Any = None, p: Any = 2) -> Any:
    d = u - v
    if type(p) is Tracer:
        powers = fnp.abs(d) ** p
        return fnp.sum(powers if w is None else w * powers, axis=-1) ** (1 / p)
    if w is not None:
        d = (w if p == 1 else w != 0 if p == np.inf else w ** (1 / p)) * d
    wide = p == 2 and dtype_of(d) == np.float32 and not (w is None and since_1_18())
    return fnp.linalg.norm(fnp.astype(d, np.float64) if wide else d, ord=p, axis=-1)


def _squared(u: Any, v: Any, w: Any = None) -> Any:
    return _sum((u - v) ** 2, w)


def _cityblock(u: Any, v: Any, w: Any = None) -> Any:
    return _sum(abs(u - v), w)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    return fnp.max(abs(u - v) if w is None else fnp.where(w > 0, abs(u - v), 0), axis=-1)


def _standardized(u: Any, v: Any, V: Any) -> Any:
    return _minkowski(u, v, 1 / V)


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    d = u - v
    return _root(_sum(fnp.matmul(d, VI) * d))


def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    return fnp.clip(1.0 - _sum(u * v, w) / fnp.sqrt(_sum(u * u, w) * _sum(v * v, w)), 0.0, 2.0)


def _correlation(u: Any, v: Any, w: Any = None) -> Any:
    if w is None:
        return _cosine(u - fnp.mean(u, axis=-1, keepdims=True), v - fnp.mean(v, axis=-1, keepdims=True))
    w = w / fnp.sum(w)
    return _cosine(u - _sum(u, w)[..., None], v - _sum(v, w)[..., None], w)


def _canberra(u: Any, v: Any, w: Any = None) -> Any:
    v = fnp.astype(v, np.float64)  # as SciPy does, here and below
    size = abs(u) + abs(v)
    return _sum(fnp.where(size == 0, 0.0, abs(u - v) / size), w)


def _braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    v = fnp.astype(v, np.float64)
    return _sum(abs(u - v), w) / _sum(abs(u + v), w)


def _jensenshannon(u: Any, v: Any) -> Any:
    u, v = u / fnp.sum(u, axis=-1, keepdims=True), v / fnp.sum(v, axis=-1, keepdims=True)
    m = (u + v) / 2.0
    return _root((_sum(rel_entr(u, m)) + _sum(rel_entr(v, m))) / 2.0)


def _hamming(u: Any, v: Any, w: Any = None) -> Any:
    return _sum(fnp.astype(u != v, np.float64), 1.0 / shape_of(u)[-1] if w is None else w / fnp.sum(w))


def _jaccard(u: Any, v: Any, w: Any = None) -> Any:
    u, v = u != 0, v != 0
    unequal, either = _sum(fnp.astype(u ^ v, np.float64), w), _sum(fnp.astype(u | v, np.float64), w)
    return fnp.where(either == 0, 0.0, unequal / either)


def _counted(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A metric of truths, of how often both are false, one is true, both are true, and of the sum of the weights."""

    def metric(u: Any, v: Any, w: Any = None) -> Any:
        u, v = fnp.astype(u, np.float64), fnp.astype(v, np.float64)
        neither, second, first, both = (
            _sum((1 - u) * (1 - v), w),
            _sum((1 - u) * v, w),
            _sum(u * (1 - v), w),
            _sum(u * v, w),
        )
        return formula(neither, second, first, both)

    return metric


def _yule(neither: Any, second: Any, first: Any, both: Any) -> Any:
    half = first * second
    return fnp.where(half == 0, 0.0, 2.0 * half / (both * neither + half))


class Metric(NamedTuple):
    """How two vectors are compared, by `formula(u, v, **options)`; `of`: what their elements are converted to in matrices."""

    formula: Callable[..., Any]
    names: str
    options: str = "w"
    of: Any = np.float64


_dice = _counted(lambda neither, second, first, both: (first + second) / (2.0 * both + first + second))
_tanimoto = _counted(lambda neither, second, first, both: 2.0 * (f := first + second) / (both + neither + 2.0 * f))
_russell = _counted(lambda neither, second, first, both: (neither + second + first) / (neither + second + first + both))
_sneath = _counted(lambda neither, second, first, both: 2.0 * (f := first + second) / (both + 2.0 * f))
METRICS = (
    Metric(_braycurtis, "braycurtis"),
    Metric(_canberra, "canberra"),
    Metric(_chebyshev, "chebyshev chebychev cheby cheb ch"),
    Metric(_cityblock, "cityblock cblock cb c"),
    Metric(_correlation, "correlation co"),
    Metric(_cosine, "cosine cos"),
    Metric(_dice, "dice", of=bool),
    Metric(_minkowski, "euclidean euclid eu e"),
    Metric(_hamming, "hamming matching hamm ha h"),
    Metric(_jaccard, "jaccard jacc ja j"),
    Metric(_jensenshannon, "jensenshannon js", ""),
    Metric(_mahalanobis, "mahalanobis mahal mah", "VI"),
    Metric(_minkowski, "minkowski mi m pnorm", "p w"),
    Metric(_tanimoto, "rogerstanimoto", of=bool),
    Metric(_russell, "russellrao", of=bool),
    Metric(_standardized, "seuclidean se s", "V"),
    Metric(_sneath, "sokalsneath", of=bool),
    Metric(_squared, "sqeuclidean sqe sqeuclid"),
    Metric(_counted(_yule), "yule", of=bool),
)
_OF = {name: metric for metric in METRICS for name in metric.names.split()}


# -- of two vectors


def _vector(x: Any, what: str = "Input vector", whole: bool = False, stacked: bool = False) -> Any:
    """`whole`: integers are not converted; `stacked`: since SciPy 1.18 there may be axes before the last one."""
    x = fnp.asarray(x)
    if len(shape_of(x)) != 1 and not (stacked and since_1_18()):
        raise ValueError(f"{what} should be 1-D.")
    return x if whole or np.dtype(dtype_of(x)).kind in "fcb" else fnp.astype(x, np.float64)


def _normed(u: Any, v: Any, w: Any, p: Any = 2) -> Any:
    """The norm of their difference: a number of Python's where SciPy asks BLAS, NumPy's where it asks NumPy."""
    u, v = [_vector(x, whole=True, stacked=True) for x in (u, v)]
    w = _weights(w, u)
    found = _minkowski(u, v, w, p)
    if since_1_18():
        return found
    dtype = np.result_type(*[dtype_of(x) for x in (u, v, w) if x is not None])
    return python_number(found) if type(p) is not Tracer and p == 2 and dtype.char in "fdFD" else found


def _weights(w: Any, like: Any) -> Any:
    """Weights as one vector; where their values are known, they must not be negative."""
    if w is None:
        return None
    w = fnp.astype(_vector(w, "Weight vector"), np.float64)
    known = stop_gradient(w)
    if type(known) is np.ndarray and np.any(known < 0):
        raise ValueError("Input weights should be all non-negative")
    if shape_of(w) != shape_of(like)[-1:]:
        raise ValueError(f"Weights must have same size as input vector. {shape_of(w)[0]} vs. {shape_of(like)[-1]}")
    return w


def _exponent(p: Any) -> Any:
    if type(p) is Tracer:
        return p
    if p <= 0:
        raise ValueError("p must be greater than 0")
    return p


def _of_two(metric: str, doc: str, example: str) -> Callable[..., Any]:
    """`scipy.spatial.distance.<metric>(u, v, w=None)`."""
    formula, whole = _OF[metric].formula, metric in ("cityblock", "chebyshev")  # of integers, an integer

    def distance(u: Any, v: Any, w: Any = None) -> Any:
        if metric == "euclidean":
            return _normed(u, v, w)
        u, v = [_vector(x, whole=whole, stacked=metric == "sqeuclidean") for x in (u, v)]
        return formula(u, v, _weights(w, u))

    distance.__name__ = distance.__qualname__ = metric
    distance.__doc__ = f"""`scipy.spatial.distance.{metric}`: {doc}

    `u` and `v` are vectors of one length, `w` their weights (or None); all may be traced. Gives a number. ValueError if an
    argument is no vector, or a known weight is negative.

    >>> from funcad.scipy.spatial import distance
    >>> {example}
    """
    return implements(f"spatial.distance.{metric}")(distance)


braycurtis = _of_two(
    "braycurtis",
    "the sum of |u - v| over the sum of |u + v|.",
    "float(distance.braycurtis([1.0, 0.0], [0.0, 1.0]))\n    1.0",
)
canberra = _of_two(
    "canberra",
    "the sum of |u - v| / (|u| + |v|), where 0 / 0 counts as 0.",
    "float(distance.canberra([1.0, 0.0], [0.0, 0.0]))\n    1.0",
)
chebyshev = _of_two(
    "chebyshev",
    "the largest |u - v|; ties share its derivative.",
    "float(distance.chebyshev([1.0, 0.0], [4.0, 1.0]))\n    3.0",
)
cityblock = _of_two("cityblock", "the sum of |u - v|.", "float(distance.cityblock([1.0, 0.0], [4.0, 1.0]))\n    4.0")
cosine = _of_two(
    "cosine",
    "1 minus the cosine of the angle between them.",
    "float(distance.cosine([1.0, 0.0], [0.0, 1.0]))\n    1.0",
)
dice = _of_two(
    "dice",
    "the dissimilarity of two vectors of truths; its derivative by numbers is that of its formula.",
    "float(distance.dice([True, False, True], [True, True, False]))\n    0.5",
)
euclidean = _of_two(
    "euclidean",
    "the norm of u - v. Its derivative is 0 where they are equal.",
    "float(distance.euclidean([0.0, 3.0], [4.0, 0.0]))\n    5.0",
)
hamming = _of_two(
    "hamming",
    "the share of elements that differ. Its derivative is 0.",
    "float(distance.hamming([1.0, 2.0], [1.0, 3.0]))\n    0.5",
)
jaccard = _of_two(
    "jaccard",
    "of the elements that are not both 0, the share that are 0 in one. Its derivative is 0.",
    "float(distance.jaccard([True, False], [True, True]))\n    0.5",
)
rogerstanimoto = _of_two(
    "rogerstanimoto",
    "the dissimilarity of two vectors of truths; its derivative by numbers is that of its formula.",
    "float(distance.rogerstanimoto([True, False], [True, True]))\n    0.6666666666666666",
)
russellrao = _of_two(
    "russellrao",
    "the share of elements that are not both true; its derivative by numbers is that of its formula.",
    "float(distance.russellrao([True, False], [True, True]))\n    0.5",
)
sokalsneath = _of_two(
    "sokalsneath",
    "the dissimilarity of two vectors of truths; its derivative by numbers is that of its formula.",
    "float(distance.sokalsneath([True, False], [True, True]))\n    0.6666666666666666",
)
sqeuclidean = _of_two(
    "sqeuclidean",
    "the sum of (u - v)**2.",
    "float(distance.sqeuclidean([0.0, 3.0], [4.0, 0.0]))\n    25.0",
)
yule = _of_two(
    "yule",
    "the dissimilarity of two vectors of truths; its derivative by numbers is that of its formula.",
    "float(distance.yule([True, False, True], [True, True, False]))\n    2.0",
)


@implements("spatial.distance.minkowski")
def minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """`scipy.spatial.distance.minkowski`: the norm of order p of u - v; p may be traced.

    >>> from funcad.scipy.spatial import distance
    >>> float(distance.minkowski([0.0, 3.0], [4.0, 0.0], 1))
    7.0
    """
    return _normed(u, v, w, _exponent(p))


@implements("spatial.distance.correlation")
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """`scipy.spatial.distance.correlation`: 1 minus the correlation of the elements; uncentered, that is `cosine`.

    >>> from funcad.scipy.spatial import distance
    >>> round(float(distance.correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])), 6)
    2.0
    """
    u, v = _vector(u), _vector(v)
    return (_correlation if centered else _cosine)(u, v, _weights(w, u))


@implements("spatial.distance.seuclidean")
def seuclidean(u: Any, v: Any, V: Any) -> Any:
    """`scipy.spatial.distance.seuclidean`: the norm of (u - v) / sqrt(V), V the variances of the elements.

    >>> from funcad.scipy.spatial import distance
    >>> round(float(distance.seuclidean([0.0, 3.0], [4.0, 0.0], [4.0, 1.0])), 6)
    3.605551
    """
    u, v, V = _vector(u), _vector(v), fnp.astype(_vector(V), np.float64)
    if not shape_of(u) == shape_of(v) == shape_of(V):
        raise TypeError("V must be a 1-D array of the same dimension as u and v.")
    return _normed(u, v, 1 / V)


@implements("spatial.distance.mahalanobis")
def mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    """`scipy.spatial.distance.mahalanobis`: sqrt((u - v) @ VI @ (u - v)). Its derivative is 0 where they are equal.

    >>> from funcad.scipy.spatial import distance
    >>> float(distance.mahalanobis([0.0, 3.0], [4.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]))
    5.0
    """
    return _mahalanobis(_vector(u), _vector(v), fnp.atleast_2d(fnp.asarray(VI)))


@implements("spatial.distance.jensenshannon")
def jensenshannon(p: Any, q: Any, base: Any = None, *, axis: int = 0, keepdims: bool = False) -> Any:
    """`scipy.spatial.distance.jensenshannon`: the root of the divergence of two distributions, which are normalised first.

    >>> from funcad.scipy.spatial import distance
    >>> float(distance.jensenshannon([1.0, 0.0], [0.0, 1.0], 2.0))
    1.0
    """
    p, q = fnp.asarray(p), fnp.asarray(q)
    if not shape_of(p) and not shape_of(q):  # NumPy sums a number along axis 0, too
        p, q, keepdims = p[None], q[None], False
    out = _jensenshannon(fnp.moveaxis(p, axis, -1), fnp.moveaxis(q, axis, -1))
    if base is not None:
        out = out / (fnp.sqrt(fnp.log(base)) if type(base) is Tracer else math.sqrt(math.log(base)))
    return fnp.expand_dims(out, axis) if keepdims else out


@implements("spatial.distance.directed_hausdorff")
def directed_hausdorff(u: Any, v: Any, rng: Any = 0, *, seed: Any = 0) -> Any:
    """`scipy.spatial.distance.directed_hausdorff`: how far a row of u may be from all of v, and which rows these are.

    Gives `(distance, i, j)`: the distance of u[i] and v[j], with its derivative; the rows are found from the values.

    >>> from funcad.scipy.spatial import distance
    >>> distance.directed_hausdorff([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0]])[1:]
    (1, 0)
    """
    u, v = fnp.astype(fnp.asarray(u), np.float64), fnp.astype(fnp.asarray(v), np.float64)
    rows = lambda u, v: (np.array(scipy_function("spatial.distance.directed_hausdorff")(u, v)[1:], np.int64),)
    (at,) = structure(rows, [(np.int64, (2,))], u, v)
    return _minkowski(u[at[0]], v[at[1]]), at[0], at[1]


# -- of many


def _compared(u: Any, v: Any, data: Any, metric: Any, options: dict[str, Any]) -> Any:
    """Vectors that broadcast; `data`: all of them as rows, for what follows from the data."""
    known = _OF.get(metric.lower()) if isinstance(metric, str) else None
    if known is None:
        raise ValueError(f"Unknown Distance Metric: {metric}")
    n = shape_of(u)[-1]
    name = known.names.split()[0]
    for option in options:
        if option not in known.options.split():
            raise TypeError(f"the metric {name} takes no option {option!r}")
    if "w" in options:
        options["w"] = _weights(options["w"], u)
    if "p" in options:
        _exponent(options["p"])
    if name == "seuclidean":
        options["V"] = fnp.var(data, axis=0, ddof=1) if options.get("V") is None else _vector(options["V"], "Variance vector V")
        if shape_of(options["V"]) != (n,):
            raise ValueError(f"Variance vector V must be of the same dimension as the vectors, {n}.")
    if name == "mahalanobis" and options.get("VI") is None:
        if len(data) <= n:
            raise ValueError(
                f"The number of observations ({len(data)}) is too small; the covariance matrix is singular. For observations "
                f"with {n} dimensions, at least {n + 1} observations are required."
            )
        options["VI"] = fnp.linalg.inv(fnp.atleast_2d(fnp.cov(data.T))).T
    return known.formula(fnp.astype(u, known.of), fnp.astype(v, known.of), **options)


def _rows(X: Any, text: str) -> Any:
    X = fnp.asarray(X)
    if len(shape_of(X)) != 2:
        raise ValueError(text)
    return X if np.dtype(dtype_of(X)).kind == "b" else fnp.astype(X, np.float64)


def _handed_over(distances: Any, out: Any) -> Any:
    if out is None:
        return distances
    if shape_of(out) != shape_of(distances):
        raise ValueError("Output array has incorrect shape.")
    out[...] = distances
    return out


@implements("spatial.distance.cdist")
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """`scipy.spatial.distance.cdist`: the distances of all rows of XA from all of XB, by a metric of SciPy's or a function.

    XA is (m, k), XB (n, k); gives (m, n) in float64. Options: `w` weights, `p` for minkowski, `V` for seuclidean, `VI` for
    mahalanobis, each of which may be traced but for p. A function as metric is called on each pair of rows.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import distance
    >>> distance.cdist(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[5., 1.]])
    """
    XA, XB = (_rows(X, f"{name} must be a 2-dimensional array.") for name, X in (("XA", XA), ("XB", XB)))
    if shape_of(XA)[1] != shape_of(XB)[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    if callable(metric):
        distances = [fnp.stack([fnp.asarray(metric(u, v, **kwargs)) for v in XB]) for u in XA]
        return _handed_over(fnp.stack(distances), out)
    options = {key: value for key, value in kwargs.items() if value is not None}
    data = fnp.concatenate([XA, XB])
    return _handed_over(_compared(XA[:, None, :], XB[None, :, :], data, metric, options), out)


@implements("spatial.distance.pdist")
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """`scipy.spatial.distance.pdist`: the distances of all pairs of rows of X, (n, k), as a vector of n * (n - 1) / 2.

    The order is that of `squareform`. Metrics and options are those of `cdist`.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import distance
    >>> distance.pdist(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    array([5.        , 1.        , 4.24264069])
    """
    X = _rows(X, f"A 2-dimensional array must be passed. (Shape was {shape_of(X)}).")
    n = shape_of(X)[0]
    first, second = np.triu_indices(n, 1)
    if callable(metric):
        return _handed_over(fnp.stack([fnp.asarray(metric(X[i], X[j], **kwargs)) for i, j in zip(first, second)]), out)
    options = {key: value for key, value in kwargs.items() if value is not None}
    return _handed_over(_compared(X[first], X[second], X, metric, options), out)


@implements("spatial.distance.squareform")
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """`scipy.spatial.distance.squareform`: a vector of distances as a symmetric matrix, and back.

    `checks`: a matrix without its values (under jit and vmap) is not checked to be symmetric.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import distance
    >>> distance.squareform(np.array([5.0, 1.0, 4.0]))
    array([[0., 5., 1.],
           [5., 0., 4.],
           [1., 4., 0.]])
    """
    X = fnp.atleast_1d(fnp.asarray(X))
    shape = shape_of(X)
    if type(known := stop_gradient(X)) is np.ndarray:
        scipy_function("spatial.distance.squareform")(known, force, checks)  # its errors
    elif force.lower() in ("tomatrix", "tovector") and len(shape) != (1 if force.lower() == "tomatrix" else 2):
        kind = "vector" if force.lower() == "tomatrix" else "matrix"
        raise ValueError(f"Forcing '{force.lower()}' but input X is not a distance {kind}.")
    if len(shape) == 1:
        n = num_obs_y(X) if shape[0] else 1
        places = np.zeros((n, n), np.int64)
        first, second = np.triu_indices(n, 1)
        places[first, second] = places[second, first] = np.arange(1, len(first) + 1)
        return fnp.concatenate([fnp.zeros_like(X, shape=(1,)), X])[places]
    if len(shape) != 2:
        raise ValueError(f"The first argument must have one or two dimensions, not {len(shape)}.")
    if shape[0] != shape[1]:
        raise ValueError("The matrix argument must be square.")
    return X[np.triu_indices(shape[0], 1)]


@implements("spatial.distance.num_obs_y")
def num_obs_y(Y: Any) -> int:
    """`scipy.spatial.distance.num_obs_y`: of how many vectors these are the distances; asked by the shape alone.

    >>> from funcad.scipy.spatial import distance
    >>> distance.num_obs_y([5.0, 1.0, 4.0])
    3
    """
    return scipy_function("spatial.distance.num_obs_y")(np.empty(shape_of(Y)))  # type: ignore[no-any-return]


@implements("spatial.distance.num_obs_dm")
def num_obs_dm(d: Any) -> int:
    """`scipy.spatial.distance.num_obs_dm`: of how many vectors this is the matrix of distances; asked by the shape alone.

    >>> from funcad.scipy.spatial import distance
    >>> distance.num_obs_dm([[0.0, 5.0], [5.0, 0.0]])
    2
    """
    return scipy_function("spatial.distance.num_obs_dm")(np.zeros(shape_of(d)))  # type: ignore[no-any-return]


@implements("spatial.distance.is_valid_y")
def is_valid_y(y: Any, warning: bool = False, throw: bool = False, name: str | None = None) -> bool:
    """`scipy.spatial.distance.is_valid_y`: can this be a vector of distances? Asked by the shape alone.

    >>> from funcad.scipy.spatial import distance
    >>> distance.is_valid_y([5.0, 1.0, 4.0])
    True
    """
    return scipy_function("spatial.distance.is_valid_y")(np.empty(shape_of(y)), warning, throw, name)  # type: ignore[no-any-return]


@implements("spatial.distance.is_valid_dm")
def is_valid_dm(D: Any, tol: float = 0.0, throw: bool = False, name: str = "D", warning: bool = False) -> bool:
    """`scipy.spatial.distance.is_valid_dm`: is this a symmetric matrix with zeros on its diagonal? Asks for the values.

    >>> from funcad.scipy.spatial import distance
    >>> distance.is_valid_dm([[0.0, 5.0], [5.0, 0.0]])
    True
    """
    shape = shape_of(D)
    D = stop_gradient(fnp.asarray(D))
    if type(D) is not np.ndarray and len(shape) == 2 and shape[0] == shape[1]:
        excess = abs(D - D.T) > tol if tol == 0.0 else D - D.T > tol
        diagonal = abs(fnp.diagonal(D)) > tol if tol == 0.0 else fnp.diagonal(D) > tol
        D = np.zeros(shape)  # what is as valid as the matrix
        if not bool(fnp.all(~excess)):
            D[0, -1] = np.inf
        elif not bool(fnp.all(~diagonal)):
            D[0, 0] = np.inf
    elif type(D) is not np.ndarray:
        D = np.zeros(shape)
    return scipy_function("spatial.distance.is_valid_dm")(D, tol, throw, name, warning)  # type: ignore[no-any-return]


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = absent("funcad.scipy.spatial.distance")

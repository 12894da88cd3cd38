"""Statistics: var, std, median, quantiles, average, cov, histogram, and the nan-functions.

`std` at a constant input has the derivative 0 (a square root of 0 would give nan), whose own derivative is nan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.real_types import dtype_kind, wide
from funcad.host.where import outside
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value, has_value
from funcad.memo import remembers
from funcad.numpy import indexing, reductions
from funcad.numpy.dispatch import implements, refuse
from funcad.numpy.promote import array_of, axes_of, axis_of, expand, reduced_axes, result_dtype
from funcad.numpy.reductions import counted, everywhere, float_of, mean, sum_, truth, variance_in_one
from funcad.primitives import arithmetic, comparison, sorting
from funcad.primitives.basic_indexing import take_along
from funcad.primitives.conversion import conj, convert, real, stop_gradient
from funcad.primitives.shape import broadcast_to, full, permute, reshape

_NO = np._NoValue


def _variance(
    name: str,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: Any,
    where_: Any,
    given: Any,
) -> Any:
    x = array_of(a)
    if type(a) is Tracer and a.owner.tape is not None and (where_ is _NO or where_ is True) and given is _NO and dtype is None:
        result = variance_in_one(x, axis, ddof, keepdims)
        if result is not None:
            return result
    own = aval_of(x).dtype
    target = float_of(own) if dtype is None else np.dtype(dtype)
    if dtype_kind(target) not in "fc":
        refuse(name, dtype=dtype)
    if given is not _NO and dtype is None and name in ("np.var", "np.std"):
        target = result_dtype([full(aval_of(x).update(dtype=target), 0), given])[0]
    x = convert(x, wide(target) if dtype is None else target)
    axes = axes_of(axis, len(shape_of(x)))
    center = mean(x, axis=axes, keepdims=True, where=where_) if given is _NO else given
    deviation = np.subtract(x, center)
    square = arithmetic.square(deviation) if target.kind != "c" else real(arithmetic.mul(deviation, conj(deviation)))
    count = counted(x, axes, where_)
    total = sum_(square, axis=axes, keepdims=True, where=where_)
    if type(count) is int:
        result = arithmetic.div(total, float(max(count - ddof, 0)))
    else:
        free = count - ddof
        skips = name.startswith("np.nan") and own.kind in "fc"
        if skips:
            _told(np.less_equal(free, 0), "Degrees of freedom <= 0 for slice.")
        free = np.where(free > 0, free, np.nan) if skips else np.maximum(free, 0)
        result = arithmetic.div(total, convert(free, aval_of(total).dtype))
    if keepdims is _NO or not keepdims:
        result = reshape(result, shape=tuple([n for i, n in enumerate(shape_of(x)) if i not in axes]))
    result = convert(result, np.empty(0, target).real.dtype if dtype is None else target)
    return result if shape_of(result) or type(result) is Tracer else result[()]


def _told(bad: Any, text: str) -> None:
    """NumPy's warning of results that have too few elements, if it is known which ones these are."""
    known = concrete_value(bad)
    if type(known) is not Tracer and known.any():
        warnings.warn(text, RuntimeWarning, stacklevel=outside(2))


def _ddof(ddof: Any, correction: Any) -> Any:
    if correction is not _NO and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return ddof if correction is _NO else correction


@implements("var", by_kind=True)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = _NO, *,
    where: Any = _NO, mean: Any = _NO, correction: Any = _NO,
) -> Any:  # fmt: skip
    return _variance("np.var", a, axis, dtype, out, _ddof(ddof, correction), keepdims, where, mean)


@implements("std", by_kind=True)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = _NO, *,
    where: Any = _NO, mean: Any = _NO, correction: Any = _NO,
) -> Any:  # fmt: skip
    """`numpy.std`; where all elements are equal the derivative is 0 and has none; `std(x)**2` has all.

    Of a single element it is the constant 0, as is its square, which has all derivatives."""
    square = _variance("np.std", a, axis, dtype, out, _ddof(ddof, correction), keepdims, where, mean)
    x = array_of(a)
    axes = axes_of(axis, len(shape_of(x)))
    if ddof or correction is not _NO or mean is not _NO:
        return arithmetic.root(square)
    if not everywhere(where):
        chosen = broadcast_to(convert(array_of(where), np.dtype(np.intp)), shape_of(x))
        single = np.equal(sum_(chosen, axis=axes, keepdims=keepdims is not _NO and bool(keepdims)), 1)
        return reductions.choice(single, square, arithmetic.root(square))
    return square if all([shape_of(x)[i] == 1 for i in axes]) else arithmetic.root(square)


@implements("average", lift=True)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = _NO) -> Any:
    x = array_of(a)
    axes = axes_of(axis, len(shape_of(x)))
    keep = {} if keepdims is _NO else {"keepdims": keepdims}
    if weights is None:
        result = mean(x, axis=axes, **keep)
        if not returned:
            return result
        return result, np.full(shape_of(result), float(counted(x, axes, _NO)))[()]
    w = array_of(weights)
    if shape_of(w) != shape_of(x):
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if shape_of(w) != tuple([shape_of(x)[i] for i in axes]):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        w = reshape(w, shape=tuple([n if i in axes else 1 for i, n in enumerate(shape_of(x))]))
        w = broadcast_to(w, shape_of(x))
    dtype = np.result_type(aval_of(x).dtype, aval_of(w).dtype, *(["f8"] if aval_of(x).dtype.kind in "biu" else []))
    scale = sum_(w, axis=axes, dtype=dtype, **keep)
    total = concrete_value(scale)
    if type(total) is not Tracer and not np.all(total):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    result = np.divide(sum_(np.multiply(x, w), axis=axes, dtype=dtype, **keep), scale)
    return (result, np.broadcast_to(scale, shape_of(result))) if returned else result


# -- order statistics


def _lines(x: Any, axis: Any) -> tuple[Any, tuple]:
    """x with the reduced axes joined into one last axis."""
    shape = shape_of(x)
    axes = axes_of(axis, len(shape))
    kept = [i for i in range(len(shape)) if i not in axes]
    size = 1
    for i in axes:
        size *= shape[i]
    return reshape(permute(x, [*kept, *axes]), shape=(*[shape[i] for i in kept], size)), axes


def _poisoned(result: Any, ordered: Any) -> Any:
    """NaN where the (sorted) line has one."""
    if dtype_kind(aval_of(ordered).dtype) not in "fc" or not shape_of(ordered)[-1]:
        return result
    bad = np.isnan(ordered[..., -1])
    return reductions.choice(bad, aval_of(result).dtype.type(np.nan), result)


def _kept(result: Any, axes: tuple, keepdims: Any, leading: int = 0) -> Any:
    return expand(result, [i + leading for i in axes]) if keepdims and keepdims is not _NO else result


def _median(name: str, a: Any, axis: Any, out: Any, overwrite_input: bool, keepdims: Any) -> Any:
    x = array_of(a)
    x = convert(x, float_of(aval_of(x).dtype))
    lines, axes = _lines(x, axis)
    ordered = sorting.sort(lines, len(shape_of(lines)) - 1)
    n = shape_of(ordered)[-1]
    middle = ordered[..., (n - 1) // 2 : n // 2 + 1] if n else ordered
    return _kept(_poisoned(mean(middle, axis=-1), ordered), axes, keepdims)


@implements("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    return _median("np.median", a, axis, out, overwrite_input, keepdims)


_CONTINUOUS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_STEPS = {"inverted_cdf": 1.0, "averaged_inverted_cdf": 1.0, "closest_observation": 1.5}
_ROUNDED = ("lower", "higher", "midpoint", "nearest")
_PICKED = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")  # results are elements


def _position(n: Any, q: Any, method: str) -> Any:
    """Where between the sorted elements the quantile lies."""
    if method in _CONTINUOUS and method != "linear":
        alpha, beta = _CONTINUOUS[method]
        return n * q + (alpha + q * (1 - alpha - beta)) - 1
    if method in _STEPS:
        return n * q - _STEPS[method]
    if method not in ("linear", "(median)", *_ROUNDED):  # "(median)": nanmedian's, the mean of the two in the middle
        raise ValueError(f"{method!r} is not a valid method. Use one of: {sorted({*_CONTINUOUS, *_STEPS, *_ROUNDED})}")
    return (n - 1) * q


def _interpolated(ordered: Any, n: Any, q: Any, method: str) -> Any:
    """One quantile of lines whose first n elements count, for q of shape () or (lines..., 1)."""
    at = _position(n, q, method)
    place = np.floor(at)
    if method == "lower":
        at = place
    elif method == "higher":
        at = place = np.ceil(at)
    elif method == "nearest":
        at = place = np.rint(at)
    elif method == "midpoint":
        at = place + np.where(np.not_equal(np.ceil(at), place), *_two(at, 0.5, 0.0))
    elif method in _STEPS:
        exact = np.equal(at, place)
        if method == "closest_observation":
            exact = np.logical_and(exact, np.equal(np.remainder(place, 2), 1))
        if method == "averaged_inverted_cdf":
            at = place + np.where(exact, *_two(at, 0.5, 1.0))
        else:
            at = place = np.where(exact, place, place + 1)
    last = np.maximum(n - 1, 0)
    low = np.clip(place, 0, last).astype(np.intp)
    high = np.clip(place + 1, 0, last).astype(np.intp)
    fraction = convert(np.clip(at, 0, last) - low, aval_of(at).dtype)
    a, b = _pick(ordered, low), _pick(ordered, high)
    fraction = fraction[..., 0] if np.ndim(low) else fraction
    if method in _PICKED:
        return a
    if method == "(median)":
        return reductions.choice(np.equal(fraction, 0), a, (a + b) / 2)
    step = np.subtract(b, a)
    return reductions.choice(fraction >= 0.5, b - step * (1 - fraction), a + step * fraction)


def _two(like: Any, a: float, b: float) -> tuple[Any, Any]:
    dtype = aval_of(like).dtype
    return dtype.type(a), dtype.type(b)


def _pick(ordered: Any, index: Any) -> Any:
    """The element of each line at an index: one for all lines, or one per line."""
    if not np.ndim(index):
        return indexing.getitem(ordered, (Ellipsis, index))
    return take_along(ordered, index, len(shape_of(ordered)) - 1)[..., 0]


@remembers(512)
def _quantile_dtype(dtype: np.dtype, of_q: np.dtype, kind: str, method: str, scale: float) -> np.dtype:
    """What NumPy gives for an array and a q of these dtypes, which is "weak", a "number" or an "array"; versions differ."""
    if method == "(median)":
        return np.median(np.zeros(2, dtype)).dtype
    q = np.zeros(1, of_q) if kind == "array" else of_q.type(0).item() if kind == "weak" else of_q.type(0)
    return (np.quantile if scale == 1.0 else np.percentile)(np.zeros(2, dtype), q, method=method).dtype  # type: ignore[call-overload]


def _by_weights(lines: Any, weights: Any, shape: tuple, axis: Any) -> tuple[Any, Any]:
    """Lines in order, and which share of the weights is reached with each element; a weight has no derivative."""
    w = array_of(weights)
    if shape_of(w) != shape:
        if len(shape_of(w)) != 1 or axis is None or np.ndim(axis):
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axis = axis_of(axis, len(shape))
        if shape_of(w)[0] != shape[axis]:
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        w = np.broadcast_to(np.expand_dims(w, [i for i in range(len(shape)) if i != axis]), shape)
    w = stop_gradient(_lines(w, axis)[0])
    if type(w) is not Tracer and np.any(w < 0):
        raise ValueError("Weights must be non-negative.")
    order = np.argsort(lines, axis=-1)
    reached = np.cumsum(np.take_along_axis(w, order, -1), axis=-1)
    reached = reached / reached[..., -1:]
    return np.take_along_axis(lines, order, -1), reductions.choice(reached == 0, -1.0, reached)


def _quantile(
    a: Any,
    q: Any,
    axis: Any,
    method: Any,
    keepdims: Any,
    skip_nan: bool = False,
    scale: float = 1.0,
    weights: Any = None,
) -> Any:
    x = array_of(a)
    dtype = aval_of(x).dtype
    if dtype.kind == "c" and method != "(median)":
        raise TypeError("a must be an array of real numbers")
    kind = "weak" if type(q) in (int, float) or type(q) is Tracer and q.aval.weak else "array" if np.ndim(q) else "number"
    own = _quantile_dtype(dtype, aval_of(array_of(q)).dtype, kind, method, scale)
    if method not in _PICKED:
        x = convert(x, float_of(dtype))
    real = float_of(dtype).type(0).real.dtype
    if type(q) in (int, float) or type(q) is Tracer and q.aval.weak and q.aval.dtype.kind != "b":
        q = convert(q, real)  # a Python number, traced or not, adapts
    q = array_of(q)
    q = np.divide(q, scale) if scale != 1.0 else q
    if type(q) is not Tracer and not (np.all(q >= 0) and np.all(q <= 1)):
        raise ValueError(
            "Quantiles must be in the range [0, 1]" if scale == 1.0 else "Percentiles must be in the range [0, 100]"
        )
    lines, axes = _lines(x, axis)
    if weights is None:
        ordered = sorting.sort(lines, len(shape_of(lines)) - 1)
    elif method == "inverted_cdf":
        ordered, reached = _by_weights(lines, weights, shape_of(x), axis)
    else:
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    n: Any = shape_of(ordered)[-1]
    if n == 0:
        if not skip_nan:
            raise IndexError("index -1 is out of bounds for axis 0 with size 0")
        own = np.result_type(own, np.float64) if dtype_kind(own) != "f" else own
        n, ordered = 1, full(aval_of(ordered).update(shape=(*shape_of(ordered)[:-1], 1)), np.nan)
    skip_nan = skip_nan and (dtype_kind(dtype) in "fc" or not shape_of(lines)[-1])
    if skip_nan:
        count = np.sum(np.logical_not(np.isnan(ordered)), axis=-1, keepdims=True)
        n = convert(count, real) if shape_of(count) else count
        _told(np.equal(count, 0), "All-NaN slice encountered")

    def one(p: Any) -> Any:
        if weights is None:
            result = convert(_interpolated(ordered, n, p, method), own)
        else:
            at = np.minimum(np.sum(reached < p, axis=-1, keepdims=True), n - 1)
            result = convert(np.take_along_axis(ordered, at, -1)[..., 0], own)
        if dtype_kind(own) not in "fc":  # NumPy takes elements of an integer array as they are, there is no NaN
            return result
        return reductions.choice(np.equal(n, 0)[..., 0], np.nan, result) if skip_nan else _poisoned(result, ordered)

    shape = shape_of(q)
    if not shape:
        return _kept(one(q), axes, keepdims)
    flat = np.reshape(q, (-1,))
    results = np.stack([_kept(one(flat[i]), axes, keepdims) for i in range(shape_of(flat)[0])])
    return np.reshape(results, (*shape, *shape_of(results)[1:]))


@implements("quantile", lift=True)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """`numpy.quantile`; differentiable in a and, with the continuous methods, in q."""
    return _quantile(a, q, axis, method, keepdims, weights=weights)


@implements("percentile", lift=True)
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """`numpy.percentile`; differentiable in a and, with the continuous methods, in q."""
    return _quantile(a, q, axis, method, keepdims, scale=100.0, weights=weights)


# -- leaving NaN out


def _without_nan(a: Any, fill: Any) -> tuple[Any, Any]:
    """x with its NaN replaced, and where they are not."""
    x = array_of(a)
    if dtype_kind(aval_of(x).dtype) not in "fc":
        return x, _NO
    bad = np.isnan(x)
    return comparison.select(bad, full(aval_of(x), fill), x), np.logical_not(bad)


def _both(valid: Any, mask: Any) -> Any:
    if everywhere(mask):
        return valid
    return truth(mask) if valid is _NO else np.logical_and(valid, truth(mask))


def _nan_fold(name: str, fill: int, original: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = _NO,
        initial: Any = _NO,
        where: Any = _NO,
    ) -> Any:
        options = {"keepdims": keepdims, "initial": initial, "where": where}
        options = {k: v for k, v in options.items() if v is not _NO}
        return original(_without_nan(a, fill)[0], axis=axis, dtype=dtype, **options)

    return implements(name)(implementation)


nansum = _nan_fold("nansum", 0, np.sum)
nanprod = _nan_fold("nanprod", 1, np.prod)


def _nan_extreme(name: str, fill: float, original: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NO, initial: Any = _NO, where: Any = _NO
    ) -> Any:
        options = {"keepdims": keepdims, "initial": initial, "where": where}
        options = {k: v for k, v in options.items() if v is not _NO}
        x, valid = _without_nan(a, fill)
        result = original(x, axis=axis, **options)
        if valid is _NO or initial is not _NO:
            return result
        empty = np.logical_not(np.any(valid, axis=axis, keepdims=bool(keepdims) and keepdims is not _NO))
        _told(empty, "All-NaN slice encountered")
        return reductions.choice(empty, np.nan, result)

    return implements(name)(implementation)


nanmax = _nan_extreme("nanmax", -np.inf, np.max)
nanmin = _nan_extreme("nanmin", np.inf, np.min)


def _moment(a: Any, axis: Any) -> tuple[Any, Any, Any]:
    """What NumPy takes moments of itself: a number of rank 0 has axes then."""
    x, valid = _without_nan(a, 0)
    return x, valid, axis if valid is _NO else reduced_axes(axis, len(shape_of(x)))


@implements("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NO, *, where: Any = _NO) -> Any:
    x, valid, axis = _moment(a, axis)
    return mean(x, axis=axis, dtype=dtype, keepdims=keepdims, where=_both(valid, where))


@implements("nanvar")
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = _NO, *,
    where: Any = _NO, mean: Any = _NO, correction: Any = _NO,
) -> Any:  # fmt: skip
    x, valid, axis = _moment(a, axis)
    ddof = _ddof(ddof, correction)
    return _variance("np.nanvar", x, axis, dtype, out, ddof, keepdims, _both(valid, where), mean)


@implements("nanstd")
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = _NO, *,
    where: Any = _NO, mean: Any = _NO, correction: Any = _NO,
) -> Any:  # fmt: skip
    x, valid, axis = _moment(a, axis)
    ddof = _ddof(ddof, correction)
    return arithmetic.root(_variance("np.nanstd", x, axis, dtype, out, ddof, keepdims, _both(valid, where), mean))


@implements("nanmedian")
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = _NO) -> Any:
    return _quantile(a, 0.5, axis, "(median)", keepdims, skip_nan=True)


@implements("nanquantile", lift=True)
def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = _NO, *, weights: Any = None,
) -> Any:  # fmt: skip
    refuse("np.nanquantile", weights=weights)
    return _quantile(a, q, axis, method, keepdims, skip_nan=True)


@implements("nanpercentile", lift=True)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = _NO, *, weights: Any = None,
) -> Any:  # fmt: skip
    refuse("np.nanpercentile", weights=weights)
    return _quantile(a, q, axis, method, keepdims, skip_nan=True, scale=100.0)


@implements("nancumsum")
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return np.cumsum(_without_nan(a, 0)[0], axis=axis, dtype=dtype)


@implements("nancumprod")
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return np.cumprod(_without_nan(a, 1)[0], axis=axis, dtype=dtype)


@implements("nanargmax")
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NO) -> Any:
    """`numpy.nanargmax`; inside jit, where NumPy would raise because a line is all NaN, it gives 0."""
    return np.argmax(_without_nan(a, -np.inf)[0], axis=axis, keepdims=keepdims is not _NO and bool(keepdims))


@implements("nanargmin")
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NO) -> Any:
    """`numpy.nanargmin`; inside jit, where NumPy would raise because a line is all NaN, it gives 0."""
    return np.argmin(_without_nan(a, np.inf)[0], axis=axis, keepdims=keepdims is not _NO and bool(keepdims))


# -- several variables


@remembers()
def _turns_one_row() -> bool:
    """From 2.2 on NumPy counts the elements of a single row as variables where variables are columns."""
    return np.cov(np.ones((1, 2)), rowvar=False, ddof=0).ndim == 2


@implements("cov")
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    x = array_of(m)
    if len(shape_of(x)) > 2:
        raise ValueError("m has more than 2 dimensions")
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")

    def rows(v: Any, one: bool) -> Any:
        v = np.atleast_2d(v)
        return np.transpose(v) if not rowvar and (one or shape_of(v)[0] != 1) else v

    x = rows(x, len(shape_of(x)) == 2 and _turns_one_row())
    if y is not None:
        x = np.concatenate([x, rows(array_of(y), False)], axis=0)
    x = convert(x, np.result_type(aval_of(x).dtype, np.float64) if dtype is None else np.dtype(dtype))
    ddof = int(bias == 0) if ddof is None else ddof
    w: Any = None
    if fweights is not None:
        w = array_of(fweights)
    if aweights is not None:
        w = array_of(aweights) if w is None else np.multiply(w, aweights)
    if w is not None:  # NumPy looks at the weights
        given = [v if v is None or has_value(v) else np.ones(shape_of(v)) for v in (fweights, aweights)]
        given = list(map(concrete_value, given))
        np.cov(given[given[0] is None], None, True, True, 0, *given)
    if w is None:
        center = np.mean(x, axis=1, keepdims=True)
        divisor: Any = shape_of(x)[1] - ddof
    else:
        total = np.sum(w)
        center = expand(np.average(x, axis=1, weights=w), (1,))
        divisor = total
        if ddof:
            divisor = total - (ddof if aweights is None else ddof * np.sum(np.multiply(w, aweights)) / total)
    deviation = np.subtract(x, center)
    other = deviation if w is None else np.multiply(deviation, w)
    product = np.matmul(deviation, np.conj(np.transpose(other)))
    none_left = type(divisor) is not Tracer and divisor <= 0
    if none_left:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=outside(2))
    scale = np.inf if none_left else np.divide(1.0, np.maximum(divisor, 0.0))
    return convert(np.squeeze(np.multiply(product, scale)), aval_of(product).dtype)


@implements("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(c):
        return np.divide(c, c)
    deviation = arithmetic.root(np.real(np.diagonal(c)))
    c = np.divide(np.divide(c, expand(deviation, (1,))), expand(deviation, (0,)))
    if aval_of(c).dtype.kind == "c":
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)

"""Histograms: counts in bins, which have no derivative; sums of weights, which have one; edges, which follow the data.

Equal bins over the range of the data have edges that are differentiable functions of its minimum and maximum; counts are
piecewise constant. Only `bins="auto"` and its like need values, for the number of bins. Loaded at its first use.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy import indexing
from funcad.numpy.dispatch import implements
from funcad.numpy.promote import array_of, expand
from funcad.numpy.searching import value_of
from funcad.primitives.basic_indexing import gather
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import reshape

_FLOAT = np.dtype(float)


def _ends(x: Any, range: Any) -> tuple[Any, Any]:
    """The outer edges: given, or the minimum and maximum of the data."""
    dtype = aval_of(x).dtype if aval_of(x).dtype.kind == "f" else _FLOAT
    if range is not None:
        low, high = [array_of(v) for v in range]
        low, high = [v if isinstance(v, Tracer) else dtype.type(v) for v in (low, high)]
    elif aval_of(x).size == 0:
        low, high = dtype.type(0), dtype.type(1)
    else:
        low, high = np.min(x), np.max(x)
    values = [concrete_value(v) for v in (low, high)]
    if not any(type(v) is Tracer for v in values):
        if values[0] > values[1]:
            raise ValueError("max must be larger than min in range parameter.")
        if not (np.isfinite(values[0]) and np.isfinite(values[1])):
            raise ValueError(
                f"{'autodetected' if range is None else 'supplied'} range of [{values[0]}, {values[1]}] is not finite"
            )
    low, high = convert(low, dtype), convert(high, dtype)
    width = np.where(np.equal(low, high), dtype.type(0.5), dtype.type(0))
    return low - width, high + width


def _edges(x: Any, bins: Any, range: Any, weights: Any = None) -> Any:
    if isinstance(bins, str):
        remedy = "give a number of bins or an array of edges."
        values = value_of(x, "np.histogram", remedy)
        bins = len(np.histogram_bin_edges(values, bins, range, weights)) - 1
    if isinstance(bins, Tracer) and not bins.shape and bins.dtype.kind in "iu":
        bins = operator.index(bins)
    if shape_of(array_of(bins)):
        edges = array_of(bins)
        if len(shape_of(edges)) > 1:
            raise ValueError("`bins` must be 1d, when an array")
        value = concrete_value(edges)
        if type(value) is not Tracer and np.any(value[:-1] > value[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges
    n = operator.index(bins)
    if n < 1:
        raise ValueError("`bins` must be positive, when an integer")
    low, high = _ends(x, range)
    return np.linspace(low, high, n + 1)


def _places(x: Any, edges: Any, bins: Any) -> tuple[Any, Any]:
    """(the bin of each element, is it inside); the last bin includes its upper edge."""
    n = shape_of(edges)[0] - 1
    (edges,) = on_device_of((edges,), (x,))
    if is_a(bins, str) or not shape_of(array_of(bins)):
        return _equal_places(x, edges, n)
    place = np.searchsorted(edges, x, side="right") - 1
    place = np.where(np.equal(x, edges[-1]), n - 1, place)
    return np.clip(place, 0, max(n - 1, 0)), np.logical_and(place >= 0, place < n)


def _equal_places(x: Any, edges: Any, n: int) -> tuple[Any, Any]:
    """The same for bins of equal widths: by arithmetic, which rounding leaves at most one bin away from the right one."""
    x, edges = stop_gradient(x), stop_gradient(edges)
    low, high = edges[0], edges[-1]
    inside = np.logical_and(x >= low, x <= high)
    share = (np.where(inside, x, low) - low) / (high - low)
    place = np.minimum(convert(share * aval_of(share).dtype.type(n), np.dtype(np.intp)), n - 1)
    place = place - np.logical_and(x < gather(edges, place), place > 0)
    return place + np.logical_and(x >= gather(edges, place + 1), place < n - 1), inside


def _tally(places: Any, inside: Any, weights: Any, size: int, dtype: Any) -> Any:
    amounts = np.where(inside, weights, aval_of(weights).dtype.type(0))
    (zeros,) = on_device_of((np.zeros(size, dtype),), (amounts,))
    return indexing.at(zeros)[places].add(convert(amounts, np.dtype(dtype)))


@implements("histogram_bin_edges", alias="same")
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """`numpy.histogram_bin_edges`; the edges of equal bins follow the minimum and maximum of the data, differentiably."""
    return _edges(np.reshape(array_of(a), (-1,)), bins, range, weights)


@implements("histogram", alias="same")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple:
    """`numpy.histogram`; counts have no derivative, sums of weights have one with respect to them, edges as they are made."""
    x = np.reshape(array_of(a), (-1,))
    edges = _edges(x, bins, range, weights)
    w = np.intp(1) if weights is None else np.reshape(array_of(weights), (-1,))
    if shape_of(w) and shape_of(w) != shape_of(x):
        raise ValueError("weights should have the same shape as a.")
    places, inside = _places(x, edges, bins)
    counts = _tally(places, inside, w, shape_of(edges)[0] - 1, aval_of(w).dtype)
    if density:
        counts = counts / convert(np.diff(edges), _FLOAT) / np.sum(counts)
    return counts, edges


@implements("histogramdd", alias="same")
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple:
    """`numpy.histogramdd`; derivatives as `histogram`."""
    if isinstance(sample, (list, tuple)):
        x = np.transpose(np.stack([array_of(s) for s in sample]))
    else:
        x = array_of(sample)
        x = np.transpose(np.atleast_2d(x)) if len(shape_of(x)) != 2 else x
    n, d = shape_of(x)
    several: Sequence[Any] = bins if isinstance(bins, (list, tuple)) or shape_of(array_of(bins)) else [bins] * d
    if len(several) != d:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * d if range is None else range
    if len(ranges) != d:
        raise ValueError("range argument must have one entry per dimension")
    columns = [x[:, i] for i in np.arange(d).tolist()]
    edges = [_edges(c, b, r) for c, b, r in zip(columns, several, ranges)]
    sizes = tuple([shape_of(e)[0] - 1 for e in edges])
    found = [_places(c, e, b) for c, e, b in zip(columns, edges, several)]
    flat: Any = 0
    for (places, _), size in zip(found, sizes):
        flat = flat * size + places
    inside = np.all(np.stack([i for _, i in found]), axis=0)
    w = np.float64(1) if weights is None else array_of(weights)
    total = int(np.prod(sizes, dtype=np.int64))
    counts = reshape(_tally(flat, inside, w, total, _FLOAT), shape=sizes)
    if density:
        total_count = np.sum(counts)
        for i, e in enumerate(edges):
            counts = counts / expand(np.diff(e), [k for k in np.arange(d).tolist() if k != i])
        counts = counts / total_count
    return counts, edges


@implements("histogram2d", alias="same")
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple:
    """`numpy.histogram2d`; derivatives as `histogram`."""
    if shape_of(array_of(x)) != shape_of(array_of(y)):
        raise ValueError("x and y must have the same length.")
    if isinstance(bins, (list, tuple)):
        bins = bins if len(bins) in (1, 2) else [bins, bins]
    elif shape_of(array_of(bins)) and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]

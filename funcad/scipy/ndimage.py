"""Interpolation at coordinates and linear filters of n-dimensional images, under SciPy's names, differentiable.

Idea: a coordinate meets the `order + 1` samples around it with the weights of a B-spline, polynomials in its fraction; what
lies outside is folded back by its index. Orders 2 to 5 first turn the samples into spline coefficients (SciPy's own filter, a
linear primitive). Filters pad by the mode and convolve. At a kink (order 1 at a sample) the derivative is that of the piece to
the right.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.names import public_names
from funcad.numpy.axes import array_of, axis_of, move
from funcad.numpy.indexing import getitem
from funcad.numpy.promote import promote_dtype, result_dtype
from funcad.primitives.conversion import convert
from funcad.primitives.convolution import conv
from funcad.primitives.families import REAL
from funcad.primitives.filtering import causal
from funcad.primitives.filtering import spline_filter as _spline_filter
from funcad.primitives.shape import reshape, rev
from funcad.scipy.constants import constant
from funcad.scipy.door import absent, implements, refuse

__all__ = [
    "map_coordinates",
    "spline_filter",
    "spline_filter1d",
    "correlate1d",
    "convolve1d",
    "correlate",
    "convolve",
    "gaussian_filter1d",
    "gaussian_filter",
    "uniform_filter1d",
    "uniform_filter",
    "sobel",
    "prewitt",
    "laplace",
]
__dir__ = public_names(globals())

_MODES = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap")
_BEYOND = 12  # samples that SciPy adds before it filters, where the mode has no spline of its own


def _check_mode(mode: str) -> str:
    if mode not in _MODES:
        raise RuntimeError("boundary mode not supported")
    return "reflect" if mode == "grid-mirror" else mode


def _floating(x: Any) -> Any:
    x = array_of(x)
    return x if dtype_of(x).kind in "fc" else convert(x, np.dtype(float))


def _finished(out: Any, dtype: np.dtype, rounded: bool = False) -> Any:
    """In the dtype of the input: interpolated integers are rounded, filtered ones cut off, as in SciPy."""
    if dtype.kind == "b" and rounded:
        return np.not_equal(np.trunc(out), 0.0)
    if dtype.kind in "iu" and rounded:
        out = np.trunc(out + np.where(out > 0.0, 0.5, -0.5))
    return out if dtype_of(out) == dtype else convert(out, dtype)


def _output_dtype(output: Any, x: Any, name: str) -> np.dtype:
    if output is None:
        return dtype_of(x)
    if is_a(output, (np.ndarray, Tracer)):
        refuse(f"ndimage.{name}", out=output)
    return np.dtype(output)


# ---- interpolation


def _spline_mode(mode: str) -> str:
    return {"reflect": "reflect", "nearest": "reflect", "grid-wrap": "grid-wrap"}.get(mode, "mirror")


def _filtered(x: Any, order: int, mode: str) -> Any:
    for axis, n in enumerate(shape_of(x)):
        if n > 1:
            x = _spline_filter(x, order=order, axis=axis, mode=_spline_mode(mode))
    return x


def _check_order(order: Any) -> int:
    order = operator.index(order)
    if not 0 <= order <= 5:
        raise RuntimeError("spline order not supported")
    return order


@implements("ndimage.spline_filter1d", lift=True)
def spline_filter1d(input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror") -> Any:
    order, x = _check_order(order), _floating(input)
    axis = axis_of(axis, len(shape_of(x)))
    dtype = np.result_type(np.dtype(output), np.complex64) if dtype_of(x).kind == "c" else np.dtype(output)
    x = convert(x, dtype)
    if order < 2 or shape_of(x)[axis] < 2:
        return x
    return _spline_filter(x, order=order, axis=axis, mode=_spline_mode(_check_mode(mode)))


@implements("ndimage.spline_filter", lift=True)
def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Any:
    if operator.index(order) not in (2, 3, 4, 5):
        raise RuntimeError("spline order not supported")
    x = _floating(input)
    for axis in range(len(shape_of(x))):
        x = spline_filter1d(x, order, axis, output, mode)
    return x


def _folded(index: Any, n: int, mode: str) -> Any:
    """Indices inside, by the mode's continuation of the samples."""
    if mode in ("nearest", "grid-constant") or n == 1:
        return np.clip(index, 0, n - 1)
    if mode == "grid-wrap":
        return np.remainder(index, n)
    if mode == "reflect":
        index = np.remainder(index, 2 * n)
        return np.minimum(index, 2 * n - 1 - index)
    index = np.remainder(index, 2 * n - 2)  # mirror; constant and wrap use it for the spline's support at the edges
    return np.minimum(index, 2 * n - 2 - index)


def _weights(fraction: Any, order: int) -> list[Any]:
    """The values of the order + 1 B-splines that are not zero, at a fraction of the interval between knots."""
    weights: list[Any] = [1.0]
    for k in range(1, order + 1):
        parts = []
        for j in range(k + 1):
            term: Any = 0.0
            if j:
                term = (fraction + (k - j)) * weights[j - 1]
            if j < k:
                term = term + ((j + 1) - fraction) * weights[j]
            parts.append(term / k)
        weights = parts
    return weights


@implements("ndimage.map_coordinates", lift=True)
def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """`scipy.ndimage.map_coordinates`, differentiable in the input and the coordinates; `output` may be a dtype."""
    order, mode = _check_order(order), _check_mode(mode)
    given = array_of(input)
    dtype = _output_dtype(output, given, "map_coordinates")
    x = _floating(given)
    places = list(coordinates) if isinstance(coordinates, (list, tuple)) else array_of(coordinates)
    rank = len(shape_of(x))
    if (len(places) if isinstance(places, list) else (*shape_of(places), -1)[0]) != rank or rank < 1:
        raise RuntimeError("invalid shape for coordinate array" if rank else "input and output rank must be > 0")
    beyond = 0
    if order > 1 and prefilter:
        if mode in ("nearest", "grid-constant"):
            beyond = _BEYOND
            options = {"mode": "edge"} if mode == "nearest" else {"mode": "constant", "constant_values": cval}
            x = np.pad(x, beyond, **options)
        x = _filtered(x, order, mode)
    outside: Any = False
    axes = []
    for axis, n in enumerate(shape_of(x)):
        c = convert(_floating(places[axis]), np.dtype(float))
        if mode == "constant":
            known = np.logical_and(c >= 0.0, c <= n - 1.0)  # a NaN is outside
            outside, c = np.logical_or(outside, np.logical_not(known)), np.where(known, c, 0.0)
        elif mode == "wrap" and n > 1:
            period = n - 1.0
            c = np.where(c < 0.0, c + period * (np.floor(-c / period) + 1.0), c)
            c = np.where(c > period, c - period * np.floor(c / period), c)
        c = c + (beyond + (0.0 if order % 2 else 0.5))
        whole = np.floor(c)
        first = convert(whole, np.dtype(int)) - order // 2
        entries = []
        for k, w in enumerate(_weights(c - whole, order)):
            index = first + k
            if mode == "grid-constant":
                entries.append((_folded(index, n, mode), w, np.logical_and(index >= 0, index < n)))
            else:
                entries.append((_folded(index, n, mode), w, True))
        axes.append(entries)
    total: Any = 0.0
    for corner in itertools.product(*axes):
        value = getitem(x, tuple([index for index, _, _ in corner]))
        if mode == "grid-constant":
            inside = corner[0][2]
            for _, _, other in corner[1:]:
                inside = np.logical_and(inside, other)
            value = np.where(inside, value, cval)
        for _, w, _ in corner:
            value = value * (w if is_a(w, float) else convert(w, REAL(dtype_of(x))))
        total = total + value
    if mode == "constant":
        total = np.where(outside, cval, total)
    return _finished(total, dtype, rounded=True)


# ---- filters

_PADDING = {"reflect": "symmetric", "mirror": "reflect", "nearest": "edge", "grid-wrap": "wrap", "wrap": "wrap"}


def _padded(x: Any, widths: list[tuple[int, int]], mode: str, cval: Any) -> Any:
    if mode in ("constant", "grid-constant"):
        return np.pad(x, widths, mode="constant", constant_values=cval)
    return np.pad(x, widths, mode=_PADDING[mode])  # type: ignore[call-overload]


def _with_weights(dtype: np.dtype, weights: Any) -> np.dtype:
    """The dtype of the result: complex if the weights are."""
    return np.result_type(dtype, np.complex64) if dtype_of(weights).kind == "c" else dtype


def _line_filter(input: Any, weights: Any, axis: int, output: Any, mode: str, cval: Any, origin: int, name: str) -> Any:
    mode = _check_mode(mode)
    given = array_of(input)
    x, weights = _together(given, weights)
    dtype = _with_weights(_output_dtype(output, given, name), weights)
    if len(shape_of(weights)) != 1 or shape_of(weights)[0] < 1:
        raise RuntimeError("no filter weights given")
    size = shape_of(weights)[0]
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError("Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1) // 2")
    axis = axis_of(axis, len(shape_of(x)))
    last = len(shape_of(x)) - 1
    lines = _padded(move(x, axis, last), [(0, 0)] * last + [(before, size - 1 - before)], mode, cval)
    shape = shape_of(lines)
    flat = reshape(lines, shape=(1, int(np.prod(shape[:-1])), shape[-1]))
    out = causal(flat, reshape(rev(weights, axes=(0,)), shape=(1, size)))[..., size - 1 :]
    return _finished(move(reshape(out, shape=(*shape[:-1], shape[-1] - size + 1)), last, axis), dtype)


def _together(x: Any, weights: Any) -> list[Any]:
    """Image and weights in one dtype, that of the image if it is of floats; known weights follow it to its device."""
    x, weights = _floating(x), array_of(weights)
    kind = result_dtype([x, weights])[0].kind if dtype_of(weights).kind == "c" else dtype_of(x).kind
    dtype = dtype_of(x) if kind == dtype_of(x).kind else np.result_type(dtype_of(x), np.complex64)
    if is_a(weights, np.ndarray):
        weights = constant(weights, x, dtype)
    return promote_dtype([x, weights], dtype)


def _conjugate(weights: Any) -> Any:
    """A correlation's complex weights, as SciPy takes them."""
    weights = array_of(weights)
    return np.conj(weights) if dtype_of(weights).kind == "c" else weights


@implements("ndimage.correlate1d", lift=True)
def correlate1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
) -> Any:
    return _line_filter(input, _conjugate(weights), axis, output, mode, cval, origin, "correlate1d")


@implements("ndimage.convolve1d", lift=True)
def convolve1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
) -> Any:
    weights = array_of(weights)
    origin = -origin if shape_of(weights)[0] % 2 else -origin - 1
    return _line_filter(input, np.flip(weights), axis, output, mode, cval, origin, "convolve1d")


def _block_filter(input: Any, weights: Any, output: Any, mode: str, cval: Any, origin: Any, flipped: bool, name: str) -> Any:
    mode = _check_mode(mode)
    given = array_of(input)
    x, weights = _together(given, weights)
    dtype = _with_weights(_output_dtype(output, given, name), weights)
    rank, sizes = len(shape_of(x)), shape_of(weights)
    if len(sizes) != rank:
        raise RuntimeError(f"filter weights array has incorrect shape: {sizes} for an image of {rank} axes")
    origins = [origin] * rank if is_a(origin, int) else list(origin)
    if flipped:
        weights = rev(weights, axes=tuple(range(rank)))
        origins = [-o if n % 2 else -o - 1 for o, n in zip(origins, sizes)]
    widths = [(n // 2 + o, n - 1 - n // 2 - o) for n, o in zip(sizes, origins)]
    if any(low < 0 or high < 0 for low, high in widths):
        raise ValueError("invalid origin")
    padded = _padded(x, widths, mode, cval)
    out = conv(
        reshape(padded, shape=(1, 1, 1, *shape_of(padded))),
        reshape(weights, shape=(1, 1, 1, *sizes)),
        strides=(1,) * rank,
        padding=((0, 0),) * rank,
    )
    return _finished(reshape(out, shape=shape_of(x)), dtype)


@implements("ndimage.correlate", lift=True)
def correlate(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    refuse("ndimage.correlate", axes=axes)
    return _block_filter(input, _conjugate(weights), output, mode, cval, origin, False, "correlate")


@implements("ndimage.convolve", lift=True)
def convolve(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    refuse("ndimage.convolve", axes=axes)
    return _block_filter(input, weights, output, mode, cval, origin, True, "convolve")


def _gaussian(sigma: Any, order: int, radius: int, like: Any) -> Any:
    """The Gaussian's samples, or those of its derivative of some order, normalised to the sum 1 of order 0."""
    x = constant(np.arange(-radius, radius + 1.0), like, np.float64)
    variance = sigma * sigma
    density = np.exp(-0.5 / variance * x**2)
    density = density / np.sum(density)
    factor: list[Any] = [1.0]  # the derivative's factor, a polynomial in x: q' - q x / variance
    for _ in range(order):
        slope = [(i + 1) * factor[i + 1] for i in range(len(factor) - 1)] + [0.0, 0.0]
        moved = [0.0] + [-q / variance for q in factor]
        factor = [a + b for a, b in zip(slope, moved)]
    total: Any = 0.0
    for power, q in enumerate(factor):
        total = total + q * x**power
    return density * total


@implements("ndimage.gaussian_filter1d")
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
) -> Any:
    """`scipy.ndimage.gaussian_filter1d`; sigma may be traced if `radius` is given."""
    if radius is None:
        if isinstance(sigma, Tracer):
            raise TypeError(
                "gaussian_filter1d: the filter's length depends on sigma, which is traced.\n"
                "Remedy: give radius=, the number of samples to each side (SciPy's is int(4 * sigma + 0.5))."
            )
        radius = int(truncate * float(sigma) + 0.5)
    if operator.index(radius) < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    weights = np.flip(_gaussian(sigma, operator.index(order), operator.index(radius), input))
    return _line_filter(input, weights, axis, output, mode, cval, 0, "gaussian_filter1d")


def _per_axis(value: Any, n: int) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * n


def _chosen_axes(axes: Any, rank: int) -> list[int]:
    return list(range(rank)) if axes is None else [axis_of(a, rank) for a in _per_axis(axes, 1)]


@implements("ndimage.gaussian_filter")
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    """`scipy.ndimage.gaussian_filter`; sigma may be traced if `radius` is given."""
    x = array_of(input)
    dtype = _output_dtype(output, x, "gaussian_filter")
    places = _chosen_axes(axes, len(shape_of(x)))
    options = zip(places, *[_per_axis(v, len(places)) for v in (sigma, order, mode, radius)])
    for axis, s, o, m, r in options:
        if not isinstance(s, Tracer) and s <= 1e-15:
            continue
        wide = s > 1e-15
        width = np.where(wide, s, 1.0) if r is not None else s
        smooth = gaussian_filter1d(x, width, axis, o, dtype, m, cval, truncate, radius=r)
        x = np.where(wide, smooth, x) if isinstance(s, Tracer) else smooth
    return _finished(x, dtype)


@implements("ndimage.uniform_filter1d")
def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
) -> Any:
    size = operator.index(size)
    if size < 1:
        raise RuntimeError("incorrect filter size")
    return _line_filter(input, np.full(size, 1.0 / size), axis, output, mode, cval, origin, "uniform_filter1d")


@implements("ndimage.uniform_filter")
def uniform_filter(
    input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    x = array_of(input)
    dtype = _output_dtype(output, x, "uniform_filter")
    places = _chosen_axes(axes, len(shape_of(x)))
    for axis, n, m, o in zip(places, *[_per_axis(v, len(places)) for v in (size, mode, origin)]):
        if n > 1:
            x = uniform_filter1d(x, n, axis, dtype, m, cval, o)
    return _finished(x, dtype)


def _edges(input: Any, axis: int, output: Any, mode: Any, cval: Any, across: tuple, name: str) -> Any:
    x = array_of(input)
    dtype = _output_dtype(output, x, name)
    rank = len(shape_of(x))
    axis = axis_of(axis, rank)
    modes = _per_axis(mode, rank)
    x = _line_filter(x, (-1, 0, 1), axis, dtype, modes[axis], cval, 0, name)
    for other in range(rank):
        if other != axis:
            x = _line_filter(x, across, other, dtype, modes[other], cval, 0, name)
    return x


@implements("ndimage.sobel")
def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _edges(input, axis, output, mode, cval, (1, 2, 1), "sobel")


@implements("ndimage.prewitt")
def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _edges(input, axis, output, mode, cval, (1, 1, 1), "prewitt")


@implements("ndimage.laplace")
def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None) -> Any:
    x = array_of(input)
    dtype = _output_dtype(output, x, "laplace")
    places = _chosen_axes(axes, len(shape_of(x)))
    parts = [
        _line_filter(x, (1, -2, 1), axis, dtype, m, cval, 0, "laplace") for axis, m in zip(places, _per_axis(mode, len(places)))
    ]
    total: Any = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


if not TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = absent("funcad.scipy.ndimage")

"""Linear filters of n-dimensional images, differentiable: they pad by the mode and convolve."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import refuse
from funcad.numpy.promote import array_of, axis_of, promote_dtype, result_dtype
from funcad.primitives.convolution import conv
from funcad.primitives.fourier import causal
from funcad.primitives.shape import move_axis, reshape, rev
from funcad.scipy import door
from funcad.scipy.constants import constant
from funcad.scipy.ndimage.spline_images import check_mode, finished, floating_image, implements, output_dtype
from funcad.scipy.spatial import structures

_PADDING = {"reflect": "symmetric", "mirror": "reflect", "nearest": "edge", "grid-wrap": "wrap", "wrap": "wrap"}


def padded(x: Any, widths: list[tuple[int, int]], mode: str, cval: Any) -> Any:
    if mode in ("constant", "grid-constant"):
        return np.pad(x, widths, mode="constant", constant_values=cval)
    return np.pad(x, widths, mode=_PADDING[mode])  # type: ignore[call-overload]


def _with_weights(dtype: np.dtype, weights: Any) -> np.dtype:
    """The dtype of the result: complex if the weights are."""
    return np.result_type(dtype, np.complex64) if dtype_of(weights).kind == "c" else dtype


def _line_filter(input: Any, weights: Any, axis: int, output: Any, mode: str, cval: Any, origin: int, name: str) -> Any:
    mode = check_mode(mode)
    given = array_of(input)
    x, weights = _together(given, weights)
    dtype = _with_weights(output_dtype(output, given), weights)
    if len(shape_of(weights)) != 1 or shape_of(weights)[0] < 1:
        raise RuntimeError("no filter weights given")
    size = shape_of(weights)[0]
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError("Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1) // 2")
    axis = axis_of(axis, len(shape_of(x)))
    last = len(shape_of(x)) - 1
    lines = padded(move_axis(x, axis, last), [(0, 0)] * last + [(before, size - 1 - before)], mode, cval)
    shape = shape_of(lines)
    flat = reshape(lines, shape=(1, int(np.prod(shape[:-1])), shape[-1]))
    out = causal(flat, reshape(rev(weights, axes=(0,)), shape=(1, size)))[..., size - 1 :]
    return finished(move_axis(reshape(out, shape=(*shape[:-1], shape[-1] - size + 1)), last, axis), dtype)


def _together(x: Any, weights: Any) -> list[Any]:
    """Image and weights in one dtype, that of the image if it is of floats; known weights follow it to its device."""
    x, weights = floating_image(x), array_of(weights)
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


def _spread(name: str, around: Any, origin: Any, axes: Any, rank: int) -> tuple[Any, list[int]]:
    """What is around an element, and its origin, over all axes of an image: along those not named an element is alone.

    As in SciPy, the axes of what is around come in the image's order, and origins in that of `axes`, unless all are named.
    """
    places = chosen_axes(axes, rank)
    origins = list(origin) if np.ndim(origin) else [origin] * len(places)
    if len(shape_of(around)) != len(places) or len(origins) != len(places):
        raise RuntimeError(f"scipy.ndimage.{name}: {shape_of(around)} and the origin {origin} are to be of {len(places)} axes")
    if len(places) == rank:
        return around, origins
    by_axis = dict(zip(places, origins))
    others = tuple([axis for axis in range(rank) if axis not in places])
    return np.expand_dims(around, others), [by_axis.get(axis, 0) for axis in range(rank)]


def _block_filter(
    input: Any,
    weights: Any,
    output: Any,
    mode: str,
    cval: Any,
    origin: Any,
    flipped: bool,
    name: str,
    axes: Any,
) -> Any:
    mode = check_mode(mode)
    given = array_of(input)
    x, weights = _together(given, weights)
    dtype = _with_weights(output_dtype(output, given), weights)
    rank = len(shape_of(x))
    weights, origins = _spread(name, weights, origin, axes, rank)
    sizes = shape_of(weights)
    if flipped:
        weights = rev(weights, axes=tuple(range(rank)))
        origins = [-o if n % 2 else -o - 1 for o, n in zip(origins, sizes)]
    widths = [(n // 2 + o, n - 1 - n // 2 - o) for n, o in zip(sizes, origins)]
    if any(low < 0 or high < 0 for low, high in widths):
        raise ValueError("invalid origin")
    wide = padded(x, widths, mode, cval)
    out = conv(
        reshape(wide, shape=(1, 1, 1, *shape_of(wide))),
        reshape(weights, shape=(1, 1, 1, *sizes)),
        strides=(1,) * rank,
        padding=((0, 0),) * rank,
    )
    return finished(reshape(out, shape=shape_of(x)), dtype)


@implements("ndimage.correlate", lift=True)
def correlate(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    return _block_filter(input, _conjugate(weights), output, mode, cval, origin, False, "correlate", axes)


@implements("ndimage.convolve", lift=True)
def convolve(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    return _block_filter(input, weights, output, mode, cval, origin, True, "convolve", axes)


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


def per_axis(value: Any, n: int) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * n


def chosen_axes(axes: Any, rank: int) -> list[int]:
    return list(range(rank)) if axes is None else [axis_of(a, rank) for a in per_axis(axes, 1)]


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
    dtype = output_dtype(output, x)
    places = chosen_axes(axes, len(shape_of(x)))
    options = zip(places, *[per_axis(v, len(places)) for v in (sigma, order, mode, radius)])
    for axis, s, o, m, r in options:
        if not isinstance(s, Tracer) and s <= 1e-15:
            continue
        wide = s > 1e-15
        width = np.where(wide, s, 1.0) if r is not None else s
        smooth = gaussian_filter1d(x, width, axis, o, dtype, m, cval, truncate, radius=r)
        x = np.where(wide, smooth, x) if isinstance(s, Tracer) else smooth
    return finished(x, dtype)


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
    dtype = output_dtype(output, x)
    places = chosen_axes(axes, len(shape_of(x)))
    for axis, n, m, o in zip(places, *[per_axis(v, len(places)) for v in (size, mode, origin)]):
        if n > 1:
            x = uniform_filter1d(x, n, axis, dtype, m, cval, o)
    return finished(x, dtype)


def _edges(input: Any, axis: int, output: Any, mode: Any, cval: Any, across: tuple, name: str) -> Any:
    x = array_of(input)
    dtype = output_dtype(output, x)
    rank = len(shape_of(x))
    axis = axis_of(axis, rank)
    modes = per_axis(mode, rank)
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
    dtype = output_dtype(output, x)
    places = chosen_axes(axes, len(shape_of(x)))
    parts = [
        _line_filter(x, (1, -2, 1), axis, dtype, m, cval, 0, "laplace") for axis, m in zip(places, per_axis(mode, len(places)))
    ]
    total: Any = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _of_gaussians(
    input: Any,
    sigma: Any,
    order: int,
    output: Any,
    mode: Any,
    cval: Any,
    axes: Any,
    options: dict,
) -> list[Any]:
    """The derivatives of that order of the smoothed image, along one axis after the other."""
    x = array_of(input)
    dtype = output_dtype(output, x)
    places = chosen_axes(axes, len(shape_of(x)))
    sigmas, modes = per_axis(sigma, len(places)), per_axis(mode, len(places))
    orders = [[order if k == i else 0 for k in range(len(places))] for i in range(len(places))]
    return [gaussian_filter(x, sigmas, o, dtype, modes, cval, axes=tuple(places), **options) for o in orders]


@implements("ndimage.gaussian_laplace")
def gaussian_laplace(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None, **kwargs: Any
) -> Any:
    """`scipy.ndimage.gaussian_laplace`; sigma may be traced if `radius` is given."""
    return sum(_of_gaussians(input, sigma, 2, output, mode, cval, axes, kwargs))


@implements("ndimage.gaussian_gradient_magnitude")
def gaussian_gradient_magnitude(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None, **kwargs: Any
) -> Any:
    """`scipy.ndimage.gaussian_gradient_magnitude`; where the gradient is 0 its size has no derivative, and 0 stands for it."""
    squares: Any = sum([d * d for d in _of_gaussians(input, sigma, 1, output, mode, cval, axes, kwargs)])
    flat = squares == 0
    return np.where(flat, squares, np.sqrt(np.where(flat, 1, squares)))


# -- filters that choose a value among neighbours by its rank: medians, maxima, minima; the derivative goes to who was chosen


def neighbours(x: Any, chosen: np.ndarray, mode: str, cval: Any, origins: tuple) -> Any:
    """For each element those at the places that `chosen` marks around it, along a new first axis."""
    shape = shape_of(x)
    before = [n // 2 + o for n, o in zip(chosen.shape, origins)]
    widths = [(b, n - 1 - b) for b, n in zip(before, chosen.shape)]
    wide = padded(x, widths, check_mode(mode), cval)
    corners = itertools.product(*[range(n) for n in chosen.shape])
    return np.stack([wide[tuple([slice(i, i + n) for i, n in zip(c, shape)])] for c in corners if chosen[c]])


def _footprint(size: Any, footprint: Any, rank: int) -> np.ndarray:
    if footprint is not None:
        return np.asarray(footprint, bool)
    if size is None:
        raise RuntimeError("no footprint or filter size provided")
    return np.ones(tuple(size) if np.ndim(size) else (int(size),) * rank, bool)


def _by_rank(name: str, which: Callable[[int], int], input: Any, among: tuple, beyond: tuple, output: Any, axes: Any) -> Any:
    """`among`: the size and the footprint of a neighbourhood, and its origin; `beyond`: how the image goes on."""
    x = array_of(input)
    rank = len(shape_of(x))
    size, footprint, origin = among
    places = chosen_axes(axes, rank)
    chosen = _footprint(size, footprint, len(places))
    if name in ("maximum_filter", "minimum_filter") and chosen.all():  # there sizes, too, come in the order of `axes`
        order = np.argsort(places)
        chosen, origin = np.transpose(chosen, order), np.asarray(origin)[order] if np.ndim(origin) else origin
        axes = sorted(places)
    chosen, origins = _spread(name, chosen, origin, axes, rank)
    values = neighbours(x, chosen, *beyond, tuple(origins))
    n = shape_of(values)[0]
    place = which(n)
    if not -n <= place < n:
        raise RuntimeError("rank not within filter footprint size")
    return finished(np.sort(values, axis=0)[place], output_dtype(output, x))


def _ranked(name: str, which: Callable[[int], int]) -> Any:
    def ranked(
        input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
        origin: Any = 0, *, axes: Any = None,
    ) -> Any:  # fmt: skip
        return _by_rank(name, which, input, (size, footprint, origin), (mode, cval), output, axes)

    ranked.__name__ = ranked.__qualname__ = name
    return implements(f"ndimage.{name}")(ranked)


median_filter = _ranked("median_filter", lambda n: n // 2)
maximum_filter = _ranked("maximum_filter", lambda n: n - 1)
minimum_filter = _ranked("minimum_filter", lambda n: 0)


@implements("ndimage.rank_filter")
def rank_filter(
    input: Any, rank: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """`scipy.ndimage.rank_filter`: of the neighbours in order the one of that rank."""
    return _by_rank("rank_filter", lambda n: int(rank), input, (size, footprint, origin), (mode, cval), output, axes)


@implements("ndimage.percentile_filter")
def percentile_filter(
    input: Any, percentile: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """`scipy.ndimage.percentile_filter`: of the neighbours in order the one of that percentile."""
    if not -100 <= percentile <= 100:
        raise RuntimeError("invalid percentile")
    share = percentile + 100.0 if percentile < 0 else float(percentile)
    which = lambda n: n - 1 if share == 100.0 else int(n * share / 100.0)
    return _by_rank("percentile_filter", which, input, (size, footprint, origin), (mode, cval), output, axes)


def _median(name: str, x: Any, size: Any) -> Any:
    x = array_of(x)
    rank = len(shape_of(x))
    sizes = (3,) * rank if size is None else tuple(size) if np.ndim(size) else (int(size),) * rank
    if any(n % 2 != 1 for n in sizes):
        raise ValueError(f"Each element of kernel_size should be odd, got {sizes} for {name}.")
    values = neighbours(x, np.ones(sizes, bool), "constant", 0, (0,) * rank)
    return door.in_c_order(np.sort(values, axis=0)[shape_of(values)[0] // 2])


@door.implements("signal.medfilt")
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    """`scipy.signal.medfilt`: the derivative of a median is that of the value in the middle."""
    return _median("medfilt", volume, kernel_size)


@door.implements("signal.medfilt2d")
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    return _median("medfilt2d", input, kernel_size)


# -- what is connected


@door.implements("ndimage.label")
def label(input: Any, structure: Any = None, output: Any = None) -> Any:
    """The connected features of an image, numbered from 1, and how many there are: asked at the values, without derivative."""
    if hasattr(output, "shape") and not isinstance(output, (type, np.dtype)):
        refuse("scipy.ndimage.label", output=output)
    dtype = np.dtype(np.int32 if output is None else output)
    scipys = door.scipy_function("ndimage.label")
    return structures.structure(
        lambda x: tuple(scipys(x, structure, dtype)), [(dtype, shape_of(array_of(input))), (int, ())], input
    )

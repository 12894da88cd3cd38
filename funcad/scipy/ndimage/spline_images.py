"""Interpolation at coordinates of n-dimensional images, differentiable.

Idea: a coordinate meets the `order + 1` samples around it with the weights of a B-spline, polynomials in its fraction; what
lies outside is folded back by its index. Orders 2 to 5 first turn the samples into spline coefficients (SciPy's own filter, a
linear primitive). At a kink (order 1 at a sample) the derivative is that of the piece to the right.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.api.tools import ShapeDtypeStruct, eval_shape
from funcad.api.vmap import vmap
from funcad.control.callback import pure_callback
from funcad.host.devices import on_device
from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import is_traced
from funcad.numpy.indexing import getitem
from funcad.numpy.promote import apart, array_of, axis_of
from funcad.numpy.views import function_out
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.families import REAL
from funcad.primitives.fourier import spline_filter as _spline_filter
from funcad.primitives.shape import reshape as _reshape
from funcad.scipy import door

_MODES = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap")
_BEYOND = 12  # samples that SciPy adds before it filters, where the mode has no spline of its own


def check_mode(mode: str) -> str:
    if mode not in _MODES:
        raise RuntimeError("boundary mode not supported")
    return "reflect" if mode == "grid-mirror" else mode


def floating_image(x: Any) -> Any:
    x = array_of(x)
    return x if dtype_of(x).kind in "fc" else convert(x, np.dtype(float))


def finished(out: Any, dtype: np.dtype, rounded: bool = False) -> Any:
    """In the dtype of the input: interpolated integers are rounded, filtered ones cut off, as in SciPy."""
    if dtype.kind == "b" and rounded:
        return np.not_equal(np.trunc(out), 0.0)
    if dtype.kind in "iu" and rounded:
        out = np.trunc(out + np.where(out > 0.0, 0.5, -0.5))
    return door.in_c_order(out if dtype_of(out) == dtype else convert(out, dtype))


def output_dtype(output: Any, x: Any) -> np.dtype:
    return dtype_of(x) if output is None else np.dtype(output)


def _whole(name: str, f: Any, args: Sequence[Any], kwargs: dict[str, Any], dtype: np.dtype) -> Any:
    """Images of whole numbers, which have no derivative, by SciPy itself: they are cut off after sums in SciPy's own order."""
    values, n = [*args, *kwargs.values()], len(args)
    traced = [i for i, v in enumerate(values) if is_traced([v]) or on_device([v])]

    def run(function: Any, *given: Any) -> Any:
        now = list(values)
        for i, v in zip(traced, given):
            now[i] = v
        return function(*now[:n], **dict(zip(kwargs, now[n:])))

    images = [stop_gradient(array_of(values[i])) for i in traced]
    result = ShapeDtypeStruct(eval_shape(functools.partial(run, f), *images).shape, dtype)
    theirs = functools.partial(run, door.scipy_function(name))
    return pure_callback(theirs, result, *images, vmap_method="sequential")


def implements(name: str, lift: bool = False) -> Callable[[Any], Any]:
    """As `funcad.scipy.door.implements`, of a function of scipy.ndimage whose `output` may be an array, too."""

    def decorate(f: Any) -> Any:
        place, default = f.__code__.co_varnames.index("output"), inspect.signature(f).parameters["output"].default
        f = apart(f)

        @functools.wraps(f)
        def into(*args: Any, **kwargs: Any) -> Any:
            output = args[place] if len(args) > place else kwargs.get("output")
            if not is_a(output, (np.ndarray, Tracer)):
                dtype = output_dtype(default if output is None else output, array_of(args[0] if args else kwargs["input"]))
                return _whole(name, f, args, kwargs, dtype) if dtype.kind in "iub" else f(*args, **kwargs)
            if len(args) > place:
                args = (*args[:place], output.dtype, *args[place + 1 :])
            else:
                kwargs = {**kwargs, "output": output.dtype}
            return function_out(name, output, f(*args, **kwargs))

        return door.implements(name, lift=lift)(into)

    return decorate


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
    order, x = _check_order(order), floating_image(input)
    axis = axis_of(axis, len(shape_of(x)))
    dtype = np.result_type(np.dtype(output), np.complex64) if dtype_of(x).kind == "c" else np.dtype(output)
    x = convert(x, dtype)
    if order < 2 or shape_of(x)[axis] < 2:
        return x
    return _spline_filter(x, order=order, axis=axis, mode=_spline_mode(check_mode(mode)))


@implements("ndimage.spline_filter", lift=True)
def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Any:
    if operator.index(order) not in (2, 3, 4, 5):
        raise RuntimeError("spline order not supported")
    x = floating_image(input)
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
    order, mode = _check_order(order), check_mode(mode)
    given = array_of(input)
    dtype = output_dtype(output, given)
    x = floating_image(given)
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
        c = convert(floating_image(places[axis]), np.dtype(float))
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
    return finished(total, dtype, rounded=True)


# -- images moved, stretched and turned (`shift`, `zoom`, `rotate`, `affine_transform`): `map_coordinates` at a grid of places


def _sampled(x: Any, places: list[Any], *options: Any) -> Any:
    places = np.broadcast_arrays(*places)
    return map_coordinates(x, list(places), *options)


def _grid(shape: tuple) -> list[np.ndarray]:
    return list(np.meshgrid(*[np.arange(float(n)) for n in shape], indexing="ij", sparse=True))


@implements("ndimage.affine_transform")
def affine_transform(
    input: Any, matrix: Any, offset: Any = 0.0, output_shape: Any = None, output: Any = None, order: int = 3,
    mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """`scipy.ndimage.affine_transform`, differentiable in the input, the matrix and the offset."""
    x, matrix = array_of(input), array_of(matrix)
    rank = len(shape_of(x))
    target = tuple(shape_of(x) if output_shape is None else output_shape)
    grid = _grid(target)
    if len(shape_of(matrix)) == 2 and shape_of(matrix)[1] == rank + 1 and shape_of(matrix)[0] in (rank, rank + 1):
        offset, matrix = matrix[:rank, rank], matrix[:rank, :rank]
    if shape_of(matrix) not in ((rank,), (rank, rank)):
        raise RuntimeError("affine matrix has wrong number of rows")
    start = np.broadcast_to(array_of(offset), (rank,))
    if len(shape_of(matrix)) == 1:
        places = [matrix[i] * grid[i] + start[i] for i in range(rank)]
    else:
        places = [sum((matrix[i, k] * grid[k] for k in range(rank)), start[i]) for i in range(rank)]
    return _sampled(x, places, output, order, mode, cval, prefilter)


@implements("ndimage.shift")
def shift(
    input: Any, shift: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0, prefilter: bool = True
) -> Any:
    """`scipy.ndimage.shift`, differentiable in the input and the shift."""
    x = array_of(input)
    by = np.broadcast_to(array_of(shift), (len(shape_of(x)),))
    places = [g - by[i] for i, g in enumerate(_grid(shape_of(x)))]
    return _sampled(x, places, output, order, mode, cval, prefilter)


@implements("ndimage.zoom")
def zoom(
    input: Any, zoom: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
    *, grid_mode: bool = False,
) -> Any:  # fmt: skip
    """`scipy.ndimage.zoom`, differentiable in the input; the zoom only says how many samples the result has, and is known."""
    if isinstance(zoom, Tracer):
        raise TypeError(
            "scipy.ndimage.zoom: the result's shape depends on zoom, which is traced.\n"
            "Remedy: scipy.ndimage.affine_transform takes a traced matrix."
        )
    x = array_of(input)
    factors = np.broadcast_to(np.asarray(zoom, float), (len(shape_of(x)),))
    target = tuple([int(round(n * z)) for n, z in zip(shape_of(x), factors)])
    if grid_mode:
        mode = {"constant": "grid-constant", "wrap": "grid-wrap"}.get(mode, mode)
        places = [(g + 0.5) * (n / m) - 0.5 for g, n, m in zip(_grid(target), shape_of(x), target)]
    else:
        places = [g * ((n - 1) / (m - 1) if m > 1 else 1.0) for g, n, m in zip(_grid(target), shape_of(x), target)]
    return _sampled(x, places, output, order, mode, cval, prefilter)


@implements("ndimage.rotate")
def rotate(
    input: Any, angle: Any, axes: Any = (1, 0), reshape: bool = True, output: Any = None, order: int = 3,
    mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """`scipy.ndimage.rotate`, differentiable in the input and the angle (degrees).

    With reshape=True the shape of the result depends on the angle, which needs a value then: inside jit give reshape=False.
    """
    x = array_of(input)
    rank = len(shape_of(x))
    first, second = sorted([axis_of(a, rank) for a in axes])
    plane = np.array([shape_of(x)[first], shape_of(x)[second]])
    radians = array_of(angle) * (np.pi / 180.0)
    c, s = np.cos(radians), np.sin(radians)
    target = plane
    if reshape:
        known = concrete_value(angle)
        if isinstance(known, Tracer):
            raise TypeError("rotate: the shape of the result depends on the angle, which has no value here; give reshape=False")
        turn = np.array([[np.cos(np.pi * known / 180), np.sin(np.pi * known / 180)],
                         [-np.sin(np.pi * known / 180), np.cos(np.pi * known / 180)]])  # fmt: skip
        turn[np.abs(turn) < 1e-15] = 0.0
        bounds = turn @ np.array([[0, 0, plane[0], plane[0]], [0, plane[1], 0, plane[1]]])
        target = (np.ptp(bounds, axis=1) + 0.5).astype(int)
    rows, columns = _grid(tuple(target))
    rows, columns = rows - (target[0] - 1) / 2, columns - (target[1] - 1) / 2
    places = [c * rows + s * columns + (plane[0] - 1) / 2, c * columns - s * rows + (plane[1] - 1) / 2]
    turned: Callable[[Any], Any] = lambda image: _sampled(image, places, output, order, mode, cval, prefilter)
    if rank == 2:
        return turned(x)
    images = np.moveaxis(x, (first, second), (-2, -1))
    lead = shape_of(images)[:-2]
    out = vmap(turned)(_flat(images, (-1, *plane)))
    return np.moveaxis(_flat(out, (*lead, *target)), (-2, -1), (first, second))


def _flat(x: Any, shape: tuple) -> Any:
    size = int(np.prod(shape_of(x)))
    known = int(np.prod([n for n in shape if n >= 0]))
    return _reshape(x, shape=tuple([int(n) if n >= 0 else size // known for n in shape]))

"""Interpolation at coordinates of n-dimensional images, differentiable.

Idea: a coordinate meets the `order + 1` samples around it with the weights of a B-spline, polynomials in its fraction; what
lies outside is folded back by its index. Orders 2 to 5 first turn the samples into spline coefficients (SciPy's own filter, a
linear primitive). At a kink (order 1 at a sample) the derivative is that of the piece to the right.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import array_of, axis_of
from funcad.numpy.indexing import getitem
from funcad.primitives.conversion import convert
from funcad.primitives.families import REAL
from funcad.primitives.filtering import spline_filter as _spline_filter
from funcad.scipy.door import implements, refuse

__all__ = ["check_mode", "finished", "floating_image", "map_coordinates", "output_dtype", "spline_filter", "spline_filter1d"]

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
    return out if dtype_of(out) == dtype else convert(out, dtype)


def output_dtype(output: Any, x: Any, name: str) -> np.dtype:
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
    dtype = output_dtype(output, given, "map_coordinates")
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

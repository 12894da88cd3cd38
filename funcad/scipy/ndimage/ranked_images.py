"""Filters that choose a value among neighbours by its rank: medians, maxima, minima; the derivative goes to who was chosen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from funcad.ir.aval import shape_of
from funcad.numpy.axes import array_of
from funcad.scipy.door import implements, refuse
from funcad.scipy.ndimage.image_filters import padded
from funcad.scipy.ndimage.spline_images import check_mode

__all__ = ["maximum_filter", "median_filter", "medfilt", "medfilt2d", "minimum_filter"]


def _neighbours(x: Any, chosen: np.ndarray, mode: str, cval: Any, origins: tuple) -> Any:
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


def _ranked(name: str, which: Any) -> Any:
    @implements(f"ndimage.{name}")
    def ranked(
        input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
        origin: Any = 0, *, axes: Any = None,
    ) -> Any:  # fmt: skip
        refuse(f"ndimage.{name}", output=output, axes=axes)
        x = array_of(input)
        rank = len(shape_of(x))
        chosen = _footprint(size, footprint, rank)
        origins = tuple(origin) if np.ndim(origin) else (origin,) * rank
        values = _neighbours(x, chosen, mode, cval, origins)
        return np.sort(values, axis=0)[which(shape_of(values)[0])]

    ranked.__name__ = ranked.__qualname__ = name
    return ranked


median_filter = _ranked("median_filter", lambda n: n // 2)
maximum_filter = _ranked("maximum_filter", lambda n: n - 1)
minimum_filter = _ranked("minimum_filter", lambda n: 0)


def _median(name: str, x: Any, size: Any) -> Any:
    x = array_of(x)
    rank = len(shape_of(x))
    sizes = (3,) * rank if size is None else tuple(size) if np.ndim(size) else (int(size),) * rank
    if any(n % 2 != 1 for n in sizes):
        raise ValueError(f"Each element of kernel_size should be odd, got {sizes} for {name}.")
    values = _neighbours(x, np.ones(sizes, bool), "constant", 0, (0,) * rank)
    return np.sort(values, axis=0)[shape_of(values)[0] // 2]


@implements("signal.medfilt")
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    """`scipy.signal.medfilt`: the derivative of a median is that of the value in the middle."""
    return _median("medfilt", volume, kernel_size)


@implements("signal.medfilt2d")
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    return _median("medfilt2d", input, kernel_size)

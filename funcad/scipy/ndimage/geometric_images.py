"""Images moved, stretched and turned (`shift`, `zoom`, `rotate`, `affine_transform`): `map_coordinates` at a grid of places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.vmap import vmap
from funcad.ir.aval import shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.axes import array_of, axis_of
from funcad.primitives.shape import reshape as _reshape
from funcad.scipy.door import implements
from funcad.scipy.ndimage.spline_images import map_coordinates

__all__ = ["affine_transform", "rotate", "shift", "zoom"]


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
        raise TypeError("zoom: the result's shape depends on zoom, which is traced; affine_transform takes a traced matrix")
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

"""`jax.image`: resampling of arrays along any axes.

Resampling is linear: along each axis it is a product with a matrix whose column j says how output pixel j is made of the input
pixels (a kernel around its place, normalised). The matrices of `resize` depend on shapes only and are remembered; those of
`scale_and_translate` are computed with traced values, so it is differentiable in scale and translation too.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.configuration import public_names
from funcad.host.real_types import dtype_kind
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.memo import remembers
from funcad.numpy.promote import as_array, axis_of
from funcad.primitives.placement import capture_as_inputs, on_device_of

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
__dir__ = public_names(globals())

_LEAST_WEIGHT = 1000.0 * float(np.finfo(np.float32).eps)  # of all input pixels together; less is outside the image


class ResizeMethod(enum.Enum):
    """How pixels are interpolated; `from_string` reads the names.

    >>> ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name; ValueError if there is none."""
        if s not in _METHOD_NAMES:
            raise ValueError(f"unknown resize method {s!r}; it is one of {', '.join(map(repr, _METHOD_NAMES))}")
        return _METHOD_NAMES[s]


_METHOD_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(["linear", "bilinear", "trilinear", "triangle"], ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(["cubic", "bicubic", "tricubic"], ResizeMethod.CUBIC),
    **dict.fromkeys(["cubic-pytorch", "bicubic-pytorch"], ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


# -- kernels, of distances in pixels


def _triangle(x: Any) -> Any:
    return fnp.maximum(1.0 - x, 0.0)


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        inside = (x > 1e-3) & (x <= radius)
        y = math.pi * fnp.where(inside, x, 1.0)
        return fnp.where(inside, radius * fnp.sin(y) * fnp.sin(y / radius) / (y * y), fnp.where(x <= 1e-3, 1.0, 0.0))

    return kernel


def _cubic(a: float) -> Callable[[Any], Any]:
    """Keys' kernel: a cubic on either side of 1, 0 from 2 on, whose slope at 1 is a."""

    def kernel(x: Any) -> Any:
        near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        return fnp.where(x < 1.0, near, fnp.where(x < 2.0, far, 0.0))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}
_EDGE = 2  # the cubic of CUBIC_PYTORCH reads as many pixels beyond the edge, which repeat the last one


def _weights(m: int, n: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool) -> Any:
    """The matrix (m, n) that resamples m pixels to n: output x shows input (x - translation) / scale."""
    step = 1.0 / scale
    beyond = _EDGE if method is ResizeMethod.CUBIC_PYTORCH else 0
    outputs, pixels = on_device_of([np.arange(float(n)), np.arange(float(-beyond), m + beyond)[:, None]], [scale, translation])
    places = (outputs + 0.5 - translation) * step - 0.5
    if method is ResizeMethod.AREA:
        left = (outputs - translation) * step
        weights = fnp.maximum(fnp.minimum(left + step, pixels + 1.0) - fnp.maximum(left, pixels), 0.0)
    else:
        distance = fnp.abs(places - pixels)
        weights = _KERNELS[method](distance / fnp.maximum(step, 1.0) if antialias else distance)
        if beyond:
            rows, inner = pixels[beyond : beyond + m], weights[beyond : beyond + m]
            first = fnp.where(rows == 0, inner + weights[:beyond].sum(0), inner)
            weights = fnp.where(rows == m - 1, first + weights[beyond + m :].sum(0), first)
    total = fnp.sum(weights, axis=0, keepdims=True)
    some = fnp.abs(total) > _LEAST_WEIGHT
    weights = fnp.where(some, weights / fnp.where(some, total, 1.0), 0.0)
    if method is ResizeMethod.CUBIC_PYTORCH:
        return weights
    return fnp.where((places >= -0.5) & (places <= m - 0.5), weights, 0.0)


@remembers(256)
def _known_weights(m: int, n: int, method: ResizeMethod, antialias: bool, dtype: np.dtype) -> np.ndarray:
    weights: np.ndarray = _weights(m, n, n / m if n and m else 1.0, 0.0, method, antialias).astype(dtype)
    weights.flags.writeable = False
    return weights


def _method_of(name: str, method: Any, antialias: bool) -> ResizeMethod:
    method = ResizeMethod.from_string(method) if isinstance(method, str) else method
    if not isinstance(method, ResizeMethod):
        raise TypeError(f"{name}: method must be a ResizeMethod or its name, got {method!r}")
    return ResizeMethod.CUBIC if method is ResizeMethod.CUBIC_PYTORCH and antialias else method


def _float_image(name: str, image: Any, shape: Any) -> tuple[Any, tuple[int, ...]]:
    image = as_array(image)
    shape = tuple([n.__index__() for n in shape])
    if len(shape) != len(shape_of(image)):
        raise ValueError(f"{name}: shape {shape} must have as many axes as the image, {said(image)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"{name}: shape {shape} is negative")
    return image, shape


def _applied(image: Any, matrices: Sequence[tuple[int, Any]]) -> Any:
    """The image times a matrix along each axis, those that make it smaller first."""
    for axis, matrix in sorted(matrices, key=lambda pair: shape_of(pair[1])[1] / max(1, shape_of(pair[1])[0])):
        (matrix,) = on_device_of([matrix], [image])
        image = fnp.moveaxis(fnp.tensordot(image, matrix, axes=(axis, 0)), -1, axis)
    return image


def _inexact(image: Any) -> Any:
    return image if dtype_kind(dtype_of(image)) in "fc" else fnp.astype(fnp.asarray(image), np.float64)


def resize(image: Any, shape: Sequence[int], method: Any, antialias: bool = True, precision: Any = None) -> Any:
    """The image in another shape; axes whose length stays are left alone.

    `method`: a `ResizeMethod` or its name: "nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area".
    `antialias` widens the kernel where the image gets smaller. Integer images become float64, except for "nearest". `precision`
    is accepted for JAX's signature: products are always computed in the full precision of the dtype.

    >>> import numpy as np
    >>> from funcad import image
    >>> image.resize(np.array([0.0, 4.0]), (4,), "linear")
    array([0., 1., 3., 4.])
    """
    image, shape = _float_image("resize", image, shape)
    method = _method_of("resize", method, antialias)
    old = shape_of(image)
    axes = [d for d in range(len(shape)) if shape[d] != old[d]]
    if method is ResizeMethod.NEAREST:
        for d in axes:
            places = (np.arange(shape[d], dtype=np.float32) + np.float32(0.5)) * np.float32(old[d]) / np.float32(shape[d])
            image = fnp.take(image, *on_device_of([np.floor(places).astype(np.int64)], [image]), axis=d)
        return image
    image = _inexact(image)
    dtype = dtype_of(image)
    return _applied(image, [(d, _known_weights(old[d], shape[d], method, bool(antialias), dtype)) for d in axes])


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: Any,
    antialias: bool = True,
    precision: Any = None,
) -> Any:
    """The image scaled and moved along the axes `spatial_dims`: output x shows the input at (x - translation) / scale.

    `scale` and `translation` have one element per axis of `spatial_dims` and are differentiable. Places outside of the image
    are 0 (`"cubic-pytorch"` without antialias: the edges are repeated). `shape` is the result's; `method` and `precision` as of
    `resize`, but "nearest" raises ValueError.

    >>> import numpy as np
    >>> from funcad import image
    >>> image.scale_and_translate(np.array([0.0, 4.0]), (4,), (0,), np.array([2.0]), np.array([1.0]), "linear")
    array([0., 0., 1., 3.])
    """
    image, shape = _float_image("scale_and_translate", image, shape)
    method = _method_of("scale_and_translate", method, antialias)
    if method is ResizeMethod.NEAREST:
        raise ValueError('scale_and_translate cannot use "nearest"; take "linear", or resize for a change of shape')
    image, scale, translation = capture_as_inputs([image, as_array(scale), as_array(translation)], [image, scale, translation])
    axes = [axis_of(d, len(shape)) for d in spatial_dims]
    for what, value in (("scale", scale), ("translation", translation)):
        if shape_of(value) != (len(axes),):
            raise ValueError(f"scale_and_translate: {what} must have shape ({len(axes)},), got {said(value)}")
    image = _inexact(image)
    dtype, old = dtype_of(image), shape_of(image)
    matrices = []
    for i, d in enumerate(axes):
        weights = _weights(old[d], shape[d], scale[i], translation[i], method, bool(antialias))
        matrices.append((d, weights if dtype_of(weights) == dtype else fnp.astype(weights, dtype)))
    unequal = [d for d in range(len(shape)) if d not in axes and shape[d] != old[d]]
    if unequal:
        raise ValueError(f"scale_and_translate: the axes {unequal} change their length but are not in spatial_dims")
    return _applied(image, matrices)

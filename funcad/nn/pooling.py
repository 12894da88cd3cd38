"""Pooling: maxima, minima and means over moving windows of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.nn.nn_operands import operand, real_operand
from funcad.primitives import window as windows
from funcad.primitives.arithmetic import div, mul
from funcad.primitives.convolution import padding_pairs
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["max_pool", "min_pool", "avg_pool"]


def _spatial_axes(what: str, x: Any, count: int, axes: Any, data_format: str | None) -> list[int]:
    ndim = len(shape_of(x))
    if data_format is not None:
        if axes is not None:
            raise TypeError(f"nn.{what}: give axes or data_format, not both")
        if len(data_format) != ndim or len(set(data_format)) != ndim or "C" not in data_format:
            raise ValueError(f"nn.{what}: data_format {data_format!r} must name the {ndim} axes of {aval_of(x)}, as 'NHWC'")
        return [i for i, letter in enumerate(data_format) if letter not in "NC"]
    if axes is None:  # between the batch axis, if there is one, and the channels
        first = max(ndim - 1 - count, 0)
        return list(range(first, first + count))
    return [a + ndim if a < 0 else a for a in axes]


def _parameters(what: str, x: Any, window: Any, strides: Any, padding: Any, axes: Any, data_format: Any) -> dict[str, tuple]:
    ndim = len(shape_of(x))
    count = 1 if is_a(window, int) else len(window)
    places = _spatial_axes(what, x, count, axes, data_format)
    sizes = (window,) * (len(places) if data_format else 1) if is_a(window, int) else tuple(window)
    moves = sizes if strides is None else (strides,) * len(sizes) if is_a(strides, int) else tuple(strides)
    if len(places) != len(sizes) or len(moves) != len(sizes) or any(not 0 <= a < ndim for a in places) or ndim < len(sizes):
        raise ValueError(
            f"nn.{what}: window {window}, strides {strides} and axes {tuple(places)} do not fit each other and {aval_of(x)}"
        )
    if len(set(places)) != len(places) or min((*sizes, *moves), default=1) < 1:
        raise ValueError(f"nn.{what}: window {window} and strides {strides} must be positive, axes {tuple(places)} different")
    full_window, full_strides, pads = [1] * ndim, [1] * ndim, [(0, 0)] * ndim
    pairs = padding_pairs([shape_of(x)[a] for a in places], sizes, moves, padding)
    for a, k, s, pair in zip(places, sizes, moves, pairs):
        full_window[a], full_strides[a], pads[a] = k, s, pair
    ones = (1,) * ndim
    return {
        "window": tuple(full_window),
        "strides": tuple(full_strides),
        "padding": tuple(pads),
        "base_dilation": ones,
        "window_dilation": ones,
    }


def max_pool(
    x: Any,
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Any = "VALID",
    *,
    axes: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Any:
    """The maximum of every window.

    x has shape (*batch, *spatial, channels), and the window one size per spatial axis. `axes` names the spatial axes if they
    are elsewhere, or `data_format` names all of them: "NCHW" (an int as window is then the size along each of H and W).
    `strides` is the window by default (windows side by side); padding is "VALID", "SAME", "SAME_LOWER" or pairs, and never
    wins. The derivative is shared at ties. ValueError where the arguments do not fit, TypeError for complex numbers.

    >>> import numpy as np
    >>> max_pool(np.array([1.0, 3.0, 2.0, 0.0]), 2, axes=(0,))
    array([3., 2.])
    """
    x = real_operand(x, "max_pool")
    return windows.reduce_window_max(x, **_parameters("max_pool", x, window, strides, padding, axes, data_format))


def min_pool(
    x: Any,
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Any = "VALID",
    *,
    axes: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Any:
    """The minimum of every window; arguments as of max_pool.

    `x`, `window`, `strides`, `padding` and `data_format` are those of `max_pool`.

    >>> import numpy as np
    >>> min_pool(np.array([1.0, 3.0, 2.0, 0.0]), 2, axes=(0,))
    array([1., 0.])
    """
    x = real_operand(x, "min_pool")
    return windows.reduce_window_min(x, **_parameters("min_pool", x, window, strides, padding, axes, data_format))


def avg_pool(
    x: Any,
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Any = "VALID",
    *,
    axes: Sequence[int] | None = None,
    data_format: str | None = None,
    count_include_pad: bool = True,
) -> Any:
    """The mean of every window; arguments as of max_pool.

    Padding counts as zeros (as in Flax and PyTorch) or, with `count_include_pad=False`, not at all.
    `x`, `window`, `strides`, `padding` and `data_format` are those of `max_pool`.

    >>> import numpy as np
    >>> avg_pool(np.array([1.0, 3.0, 2.0, 0.0]), 2, axes=(0,))
    array([2., 1.])
    """
    x = operand(x)
    parameters = _parameters("avg_pool", x, window, strides, padding, axes, data_format)
    total = windows.reduce_window_sum(x, **parameters)
    if count_include_pad or all(pair == (0, 0) for pair in parameters["padding"]):
        return mul(total, dtype_of(x).type(1 / prod(parameters["window"])))
    ones = broadcast_in_dim(dtype_of(x).type(1), shape=shape_of(x), axes=())
    return div(total, windows.reduce_window_sum(*on_device_of((ones,), (x,)), **parameters))

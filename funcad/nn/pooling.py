"""Pooling: maxima, minima and means over moving windows of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.nn.operands import operand
from funcad.primitives import window as windows
from funcad.primitives.arithmetic import div, mul
from funcad.primitives.convolution import padding_pairs
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["max_pool", "min_pool", "avg_pool"]


def _parameters(what: str, x: Any, window: Any, strides: Any, padding: Any, axes: Any) -> dict[str, tuple]:
    ndim, sizes = len(shape_of(x)), (window,) if isinstance(window, int) else tuple(window)
    moves = sizes if strides is None else (strides,) * len(sizes) if isinstance(strides, int) else tuple(strides)
    if axes is None:  # between the batch axis, if there is one, and the channels
        first = max(ndim - 1 - len(sizes), 0)
        axes = range(first, first + len(sizes))
    places = [a + ndim if a < 0 else a for a in axes]
    if len(places) != len(sizes) or len(moves) != len(sizes) or any(not 0 <= a < ndim for a in places) or ndim < len(sizes):
        raise ValueError(
            f"nn.{what}: window {window}, strides {strides} and axes {tuple(axes)} do not fit each other and {aval_of(x)}"
        )
    if len(set(places)) != len(places) or min((*sizes, *moves), default=1) < 1:
        raise ValueError(f"nn.{what}: window {window} and strides {strides} must be positive, axes {tuple(axes)} different")
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
) -> Any:
    """The maximum of every window.

    x has shape (*batch, *spatial, channels); `axes` names the spatial axes if they are elsewhere. `strides` is the window by
    default (windows side by side); padding is "VALID", "SAME", "SAME_LOWER" or pairs, and never wins. The derivative is
    shared at ties. ValueError where the arguments do not fit.

    >>> import numpy as np
    >>> max_pool(np.array([1.0, 3.0, 2.0, 0.0]), 2, axes=(0,))
    array([3., 2.])
    """
    x = operand(x)
    return windows.reduce_window_max(x, **_parameters("max_pool", x, window, strides, padding, axes))


def min_pool(
    x: Any,
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Any = "VALID",
    *,
    axes: Sequence[int] | None = None,
) -> Any:
    """The minimum of every window; arguments as of max_pool.

    >>> import numpy as np
    >>> min_pool(np.array([1.0, 3.0, 2.0, 0.0]), 2, axes=(0,))
    array([1., 0.])
    """
    x = operand(x)
    return windows.reduce_window_min(x, **_parameters("min_pool", x, window, strides, padding, axes))


def avg_pool(
    x: Any,
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Any = "VALID",
    *,
    axes: Sequence[int] | None = None,
    count_include_pad: bool = True,
) -> Any:
    """The mean of every window; arguments as of max_pool.

    Padding counts as zeros (as in Flax and PyTorch) or, with `count_include_pad=False`, not at all.

    >>> import numpy as np
    >>> avg_pool(np.array([1.0, 3.0, 2.0, 0.0]), 2, axes=(0,))
    array([2., 1.])
    """
    x = operand(x)
    parameters = _parameters("avg_pool", x, window, strides, padding, axes)
    total = windows.reduce_window_sum(x, **parameters)
    size = 1
    for k in parameters["window"]:
        size *= k
    if count_include_pad or all(pair == (0, 0) for pair in parameters["padding"]):
        return mul(total, dtype_of(x).type(1 / size))
    ones = broadcast_in_dim(dtype_of(x).type(1), shape=shape_of(x), axes=())
    return div(total, windows.reduce_window_sum(ones, **parameters))

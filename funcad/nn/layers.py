"""Layers: dense ones, convolutions, pooling.

Nothing is stored: parameters are arguments (pytrees of arrays in the user's hands). Normalisation is in norms.py,
attention in attention.py, convolution in convolution.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcad import lax
from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.ir.tracer import Tracer
from funcad.nn.activations import operand, operands, real_operand, same_dtype
from funcad.numpy.promote import array_of, axes_of, axis_of
from funcad.numpy.searching import take
from funcad.primitives import convolution as windows
from funcad.primitives.arithmetic import add, div, mul
from funcad.primitives.collective import axis_index, axis_size
from funcad.primitives.comparison import eq, select
from funcad.primitives.contraction import dot_general
from funcad.primitives.conversion import convert
from funcad.primitives.convolution import padding_pairs
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import kept_axes
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, static_slice
from funcad.random import bernoulli
from funcad.random.keys import check_key


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int | str = -1) -> Any:
    """Integers as rows of zeros with a one.

    Parameters
    ----------
    x : array of ints or floats
        The classes. One that is out of range, or no whole number, gives zeros only.
    num_classes : int
        The size of the new axis.
    dtype : dtype, optional
        Of the result: float64 by default.
    axis : int or hashable
        Where the new axis stands; or the name of a `vmap` axis of size num_classes, of which every example gets its own
        element.

    Returns
    -------
    array
        Of the shape of x with one more axis.

    Raises
    ------
    TypeError
        x is complex.

    Notes
    -----
    As `jax.nn.one_hot`, whose dtype is float32.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.one_hot(np.array([1, 0]), 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    >>> nn.one_hot(np.array([1, 5]), 3, dtype=np.int32, axis=0)
    array([[0, 0],
           [1, 0],
           [0, 0]], dtype=int32)

    See also
    --------
    embedding, softmax_cross_entropy
    """
    x = array_of(x)
    if dtype_of(x).kind not in "iubf":
        raise TypeError(f"one_hot: the classes must be integers or floats, got dtype {dtype_of(x)}")
    shape, kind = shape_of(x), dtype_of(x) if dtype_of(x).kind == "f" else np.dtype(np.int64)
    dtype = np.dtype(np.float64 if dtype is None else dtype)
    if isinstance(axis, str):
        if axis_size(axis) != num_classes:
            raise ValueError(f"one_hot: num_classes={num_classes}, but the axis {axis!r} has size {axis_size(axis)}")
        own = convert(broadcast_in_dim(axis_index(axis), shape=shape, axes=()), kind)
        return convert(eq(convert(x, kind), own), dtype)
    axis = axis_of(axis, len(shape) + 1)
    full = (*shape[:axis], num_classes, *shape[axis:])
    x = convert(x, kind)
    spread = broadcast_in_dim(x, shape=full, axes=kept_axes(len(full), (axis,)))
    return convert(eq(spread, *on_device_of((_positions(full, axis).astype(kind, copy=False),), (x,))), dtype)


def _positions(shape: tuple, axis: int) -> Any:
    inner = [1] * len(shape)
    inner[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis]).reshape(inner), shape)


def slice_range(x: Any, start: int, length: int) -> Any:
    """x[start:start + length] along axis 0; IndexError when that is out of range (a Python slice would clip).

    >>> import numpy as np; from funcad import nn
    >>> nn.slice_range(np.arange(5.0), 1, 3)
    array([1., 2., 3.])
    """
    x = array_of(x)
    n = shape_of(x)[0] if shape_of(x) else 0
    if not (0 <= start and 0 <= length and start + length <= n):
        raise IndexError(f"slice_range: [{start}, {start + length}) is not within axis 0 of shape {shape_of(x)}")
    return static_slice(x, int(start), int(start + length))


def linear(weight: Any, bias: Any, x: Any) -> Any:
    """weight @ x + bias for each vector along x's last axis; the weight is (out, in), the bias (out,) or None.

    >>> import numpy as np; from funcad import nn
    >>> nn.linear(np.array([[1.0, 2.0]]), np.array([0.5]), np.array([1.0, 1.0]))
    array([3.5])
    """
    weight, x = same_dtype(weight, x)
    sw, sx = shape_of(weight), shape_of(x)
    if len(sw) != 2 or not sx or sw[1] != sx[-1]:
        raise ValueError(f"linear: the weight must be (out, in) and x (..., in), got shapes {sw} and {sx}")
    out = dot_general(x, weight, dimension_numbers=(((len(sx) - 1,), (1,)), ((), ())))
    if bias is None:
        return out
    if shape_of(bias) not in ((sw[0],), ()):
        raise ValueError(f"linear: the bias must have shape ({sw[0]},), got {shape_of(bias)}")
    return add(*operands(out, bias))


def embedding(x: Any, weight: Any) -> Any:
    """Rows of `weight` (vocabulary, features): x @ weight for one-hot or other float x (..., vocabulary).

    Integers x (...) pick rows, as np.take: negative ones count from the end, IndexError out of range.

    >>> import numpy as np; from funcad import nn
    >>> nn.embedding(np.array([1]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3., 4.]])
    """
    weight = operand(weight)
    if len(shape_of(weight)) != 2:
        raise ValueError(f"embedding: the weight must be (vocabulary, features), got shape {shape_of(weight)}")
    size = shape_of(weight)[0]
    x = array_of(x)
    if dtype_of(x).kind in "iu":
        return take(weight, x, axis=0)
    x, weight = same_dtype(x, weight)
    sx = shape_of(x)
    if not sx or sx[-1] != size:
        raise ValueError(f"embedding: x must be (..., {size}) for a weight of shape {shape_of(weight)}, got {sx}")
    return dot_general(x, weight, dimension_numbers=(((len(sx) - 1,), (0,)), ((), ())))


def bmm(a: Any, b: Any) -> Any:
    """Matrix products of two stacks, (n, i, k) and (n, k, j), without broadcasting.

    `a` and `b` are these stacks, else ValueError.

    >>> import numpy as np; from funcad import nn
    >>> nn.bmm(np.ones((2, 1, 3)), np.ones((2, 3, 1)))[1]
    array([[3.]])
    """
    a, b = same_dtype(a, b)
    sa, sb = shape_of(a), shape_of(b)
    if len(sa) != 3 or len(sb) != 3 or sa[0] != sb[0] or sa[2] != sb[1]:
        raise ValueError(f"bmm: shapes must be (n, i, k) and (n, k, j), got {sa} and {sb}")
    return dot_general(a, b, dimension_numbers=(((2,), (1,)), ((0,), (0,))))


def dropout(key: Any, x: Any, rate: float = 0.5, *, broadcast_axes: Any = (), deterministic: bool = False) -> Any:
    """x, with random elements set to zero and the others divided by 1 - rate (Srivastava et al., 2014).

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`. The same key drops the same elements.
    x : array
        Real or complex.
    rate : float
        The probability of zero.
    broadcast_axes : int or tuple of ints
        Along these all elements are dropped together.
    deterministic : bool
        Return x as it is, for prediction.

    Returns
    -------
    array
        Of the shape and dtype of x; of integers, floats.

    Raises
    ------
    ValueError
        Not 0 <= rate <= 1.
    TypeError
        `key` is no key.

    Notes
    -----
    `torch.nn.Dropout` has a hidden state and a mode; here both are arguments.

    Examples
    --------
    >>> import numpy as np; from funcad import nn, random
    >>> y = nn.dropout(random.key(0), np.ones(1000), 0.2)
    >>> np.unique(y), float((y == 0).mean()) > 0.15
    (array([0.  , 1.25]), True)
    >>> nn.dropout(random.key(0), np.ones(3), deterministic=True)
    array([1., 1., 1.])

    See also
    --------
    batch_norm, linear, funcad.random.bernoulli
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"dropout: the rate must be between 0 and 1, got {rate!r}")
    if deterministic or rate == 0:
        return x
    if key is None:
        raise TypeError("dropout needs a key: nn.dropout(funcad.random.key(0), x), or deterministic=True")
    check_key("dropout", key)
    x = operand(x)
    shape = shape_of(x)
    shared = axes_of(broadcast_axes, len(shape))
    kept = bernoulli(key, 1.0 - rate, tuple([1 if i in shared else n for i, n in enumerate(shape)]))
    factor = 1.0 / (1.0 - rate) if rate < 1 else 1.0
    if type(factor) is Tracer:
        factor = broadcast_to(convert(factor, dtype_of(x)), shape)
    else:
        factor = float(factor)
    return select(broadcast_to(kept, shape), mul(x, factor), 0.0)


# -- convolution layers: `funcad.lax.conv_general_dilated` with the arguments of a layer


_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def _each(what: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    values = (value,) * count if is_a(value, int) else tuple(value)
    if len(values) != count or min(values, default=1) < 1:
        raise ValueError(f"nn.{what}: {name} must be a positive integer, or {count} of them, one per axis, got {value!r}")
    return values


def _layout(what: str, x: Any, kernel: Any, data_format: str | None, kernel_format: str | None) -> tuple[str, str, str]:
    """The letters of input, kernel and output; channels are last unless the format says otherwise."""
    rank = len(shape_of(x))
    if rank != len(shape_of(kernel)) or not 3 <= rank <= 5 and data_format is None:
        raise ValueError(
            f"nn.{what}: x must be (batch, *spatial, channels) and the kernel (*window, in, out) with 1, 2 or 3 spatial "
            f"axes, got shapes {shape_of(x)} and {shape_of(kernel)}; use funcad.vmap or x[None] for a single example"
        )
    data = data_format or f"N{_SPATIAL[rank - 2]}C"
    spatial = "".join([letter for letter in data if letter not in "NC"])
    last = data.endswith("C")
    return data, kernel_format or (f"{spatial}IO" if last else f"OI{spatial}"), data


def _with_bias(what: str, out: Any, bias: Any, data: str) -> Any:
    if bias is None:
        return out
    bias, channels = operand(bias), shape_of(out)[data.index("C")]
    if shape_of(bias) != (channels,):
        raise ValueError(f"nn.{what}: the bias must have shape ({channels},), got {shape_of(bias)}")
    return add(*operands(out, broadcast_in_dim(bias, shape=shape_of(out), axes=(data.index("C"),))))


def _padding(padding: Any, count: int) -> Any:
    """An int pads every end alike; an int per axis, both of its ends."""
    if isinstance(padding, str):
        return padding
    pads = (padding,) * count if is_a(padding, int) else tuple(padding)
    return [(p, p) if is_a(p, int) else tuple(p) for p in pads]


def conv(
    x: Any,
    kernel: Any,
    bias: Any = None,
    strides: int | Sequence[int] = 1,
    padding: Any = "VALID",
    *,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_format: str | None = None,
    kernel_format: str | None = None,
) -> Any:
    """The correlation of x with a kernel, plus a bias: what networks call convolution, in 1, 2 or 3 axes.

    Parameters
    ----------
    x : array of shape (batch, *spatial, channels)
        The input.
    kernel : array of shape (*window, channels // groups, out channels)
        The kernel.
    bias : array of shape (out channels,), optional
        Added to each channel.
    strides : int or sequence of ints
        How far the kernel moves, for all axes or for each.
    padding : str, int or pairs of ints
        "VALID", "SAME", "SAME_LOWER", a width, or (before, after) for each axis.
    dilation : int or sequence of ints
        The distance of the kernel's elements.
    groups : int
        Channels are split into so many groups, each with kernels of its own.
    data_format, kernel_format : str, optional
        "NHWC" and "HWIO" by default. With `data_format="NCHW"` the kernel is "OIHW", unless it is said: PyTorch's
        layout.

    Returns
    -------
    array of shape (batch, *spatial, out channels)
        Or in the layout of `data_format`.

    Raises
    ------
    ValueError
        Shapes do not fit.

    Notes
    -----
    The kernel is not turned round, as in `jax.lax.conv_general_dilated` and `torch.nn.functional.conv2d`; it is in
    `scipy.signal.convolve`.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.conv(np.array([[[1.0], [2.0], [4.0]]]), np.array([[[-1.0]], [[1.0]]]), np.array([0.5])).ravel()
    array([1.5, 2.5])
    >>> images, kernels = np.ones((1, 3, 8, 8)), np.ones((16, 3, 3, 3))
    >>> nn.conv(images, kernels, strides=2, padding="SAME", data_format="NCHW").shape
    (1, 16, 4, 4)

    See also
    --------
    conv_transpose, max_pool, avg_pool
    """
    x, kernel = same_dtype(x, kernel)
    layout = _layout("conv", x, kernel, data_format, kernel_format)
    count = len(shape_of(x)) - 2
    out = lax.conv_general_dilated(
        x,
        kernel,
        _each("conv", "strides", strides, count),
        _padding(padding, count),
        rhs_dilation=_each("conv", "dilation", dilation, count),
        dimension_numbers=layout,
        feature_group_count=groups,
    )
    return _with_bias("conv", out, bias, layout[2])


def conv_transpose(
    x: Any,
    kernel: Any,
    bias: Any = None,
    strides: int | Sequence[int] = 1,
    padding: Any = "SAME",
    *,
    dilation: int | Sequence[int] = 1,
    data_format: str | None = None,
    kernel_format: str | None = None,
    transpose_kernel: bool = False,
) -> Any:
    """A convolution whose strides enlarge x ("deconvolution"); arguments as of conv, meaning as `funcad.lax.conv_transpose`.

    `bias`, `dilation`, `data_format` and `kernel_format` are those of `conv`. Pairs as padding are those of the dilated input.
    `transpose_kernel=True` reverses the kernel and exchanges its channels: the transpose of `conv` towards its input.

    >>> import numpy as np; from funcad import nn
    >>> nn.conv_transpose(np.array([[[1.0], [2.0]]]), np.array([[[1.0]], [[3.0]]]), strides=2).ravel()
    array([3., 1., 6., 2.])
    """
    x, kernel = same_dtype(x, kernel)
    layout = _layout("conv_transpose", x, kernel, data_format, kernel_format)
    count = len(shape_of(x)) - 2
    out = lax.conv_transpose(
        x,
        kernel,
        _each("conv_transpose", "strides", strides, count),
        _padding(padding, count),
        rhs_dilation=_each("conv_transpose", "dilation", dilation, count),
        dimension_numbers=layout,
        transpose_kernel=transpose_kernel,
    )
    return _with_bias("conv_transpose", out, bias, layout[2])


# -- pooling: maxima, minima and means over moving windows of spatial axes


def _spatial_axes(what: str, x: Any, count: int, axes: Any, data_format: str | None) -> list[int]:
    ndim = len(shape_of(x))
    if data_format is not None:
        if axes is not None:
            raise TypeError(f"nn.{what}: give axes or data_format, not both")
        if len(data_format) != ndim or len(set(data_format)) != ndim or "C" not in data_format:
            raise ValueError(f"nn.{what}: data_format {data_format!r} must name the {ndim} axes of {said(x)}, as 'NHWC'")
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
            f"nn.{what}: window {window}, strides {strides} and axes {tuple(places)} do not fit each other and {said(x)}"
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

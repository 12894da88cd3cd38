"""Convolution layers: `funcad.lax.conv_general_dilated` with the arguments of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad import lax
from funcad.host.real_types import is_a
from funcad.ir.aval import shape_of
from funcad.nn.nn_operands import operand, operands, same_dtype
from funcad.primitives.arithmetic import add
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["conv", "conv_transpose"]

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
    """The correlation of x with a kernel, plus a bias per channel: what networks call convolution, in 1, 2 or 3 axes.

    x is (batch, *spatial, channels) and the kernel (*window, in channels // groups, out channels), "NHWC" and "HWIO"; with
    `data_format="NCHW"` the kernel is "OIHW" unless `kernel_format` says otherwise (PyTorch's layout). padding is "VALID",
    "SAME", "SAME_LOWER", an int, or pairs; the kernel is dilated by `dilation`, and moves by `strides`, an int or one per axis.
    ValueError where the shapes do not fit.

    >>> import numpy as np; from funcad import nn
    >>> nn.conv(np.array([[[1.0], [2.0], [4.0]]]), np.array([[[-1.0]], [[1.0]]]), np.array([0.5])).ravel()
    array([1.5, 2.5])
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

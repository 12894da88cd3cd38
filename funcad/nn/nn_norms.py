"""Normalisation: to mean 0 and variance 1 over some axes, or to root mean square 1. Population variance throughout.

Nothing is stored: gamma (scale) and beta (shift) are arguments, statistics are results. Idea: all of them are the one
primitive `layer_norm` (closed-form derivatives of every order) on a reshaped array, and then an affine map.
"""

from __future__ import annotations

from math import prod
from typing import Any

from funcad.ir.aval import dtype_of, shape_of
from funcad.nn.exponentials import mask_of
from funcad.nn.nn_operands import broadcasts, operand, operands, real_operand
from funcad.numpy.axes import axes_of, axis_of
from funcad.numpy.promote import promote_dtype
from funcad.primitives import activation
from funcad.primitives.arithmetic import add, div, mul, rsqrt, square, sub
from funcad.primitives.comparison import select
from funcad.primitives.conversion import convert
from funcad.primitives.reduction import kept_axes, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, reshape

__all__ = ["layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm", "standardize"]


def _affine(what: str, y: Any, gamma: Any, beta: Any, axes: tuple) -> Any:
    """gamma * y + beta, where gamma and beta have the shape of the given axes of y or broadcast."""
    for name, parameter, apply in (("gamma", gamma, mul), ("beta", beta, add)):
        if parameter is None:
            continue
        shape = shape_of(y)
        parameter = operand(parameter)
        if shape_of(parameter) == tuple([shape[a] for a in axes]):
            parameter = broadcast_in_dim(parameter, shape=shape, axes=axes)
        elif not broadcasts(shape_of(parameter), shape):
            raise ValueError(
                f"{what}: {name} must have shape {tuple([shape[a] for a in axes])} or broadcast to {shape}, "
                f"got {shape_of(parameter)}"
            )
        y = apply(*operands(parameter, y))
    return y


def _moment(x: Any, axes: tuple, mask: Any) -> Any:
    """The mean of x over the axes, of the elements in the mask only, spread over those axes again."""
    shape = shape_of(x)
    kept = kept_axes(len(shape), axes)
    if mask is None:
        mean = div(reduce_sum(x, axes=axes), float(prod([shape[a] for a in axes])))
    else:
        mean = div(reduce_sum(select(mask, x, 0.0), axes=axes), reduce_sum(convert(mask, dtype_of(x)), axes=axes))
    return broadcast_in_dim(mean, shape=shape, axes=kept)


def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: float = 1e-5, where: Any = None
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over an axis, several, or all of them (None); population variance.

    `mean` and `variance` (broadcast against x) replace those of x; `where` (bools) says which elements they are taken from.
    As `jax.nn.standardize(algorithm="stable")`: the variance is never the difference of two large numbers.

    >>> import numpy as np; from funcad import nn
    >>> nn.standardize(np.array([1.0, 3.0]), epsilon=0.0)
    array([-1.,  1.])
    """
    x = real_operand(x, "standardize")
    shape = shape_of(x)
    axes = axes_of(axis, len(shape))
    if mean is None and variance is None and where is None:
        return activation.layer_norm(x, axes=axes, eps=float(epsilon))[0]
    mask = None if where is None else mask_of(where, shape, "standardize")
    centred = sub(x, _moment(x, axes, mask)) if mean is None else sub(*operands(x, mean))
    if variance is None:
        variance = _moment(square(centred), axes, mask)
    return mul(*operands(centred, rsqrt(add(operand(variance), float(epsilon)))))


def layer_norm(x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, eps: float = 1e-5) -> Any:
    """gamma * (x - mean) / sqrt(variance + eps) + beta, normalised over an axis or several; population variance.

    gamma and beta have the shape of those axes (or broadcast); None leaves them out.

    >>> import numpy as np; from funcad import nn
    >>> nn.layer_norm(np.array([1.0, 3.0]), gamma=2.0, eps=0.0)
    array([-2.,  2.])
    """
    x = real_operand(x, "layer_norm")
    axes = axes_of(axis, len(shape_of(x)))
    return _affine("layer_norm", activation.layer_norm(x, axes=axes, eps=float(eps))[0], gamma, beta, axes)


def rms_norm(x: Any, gamma: Any = None, axis: Any = -1, eps: float = 1e-5) -> Any:
    """gamma * x / sqrt(mean(x**2) + eps), over an axis or several (Zhang and Sennrich, 2019).

    gamma has the shape of those axes (or broadcasts); None leaves it out.

    >>> import numpy as np; from funcad import nn
    >>> nn.rms_norm(np.array([3.0, 4.0, 5.0, -5.0, -5.0]), eps=0.0).round(4)
    array([ 0.6708,  0.8944,  1.118 , -1.118 , -1.118 ])
    """
    x = real_operand(x, "rms_norm")
    axes = axes_of(axis, len(shape_of(x)))
    y = mul(x, rsqrt(add(_moment(square(x), axes, None), float(eps))))
    return _affine("rms_norm", y, gamma, None, axes)


def batch_norm(
    x: Any, gamma: Any = None, beta: Any = None, axes: Any = 0, eps: float = 1e-5, statistics: Any = None
) -> tuple[Any, Any, Any]:
    """(y, mean, variance): x normalised per feature over the batch axes, and the statistics that were used.

    gamma, beta, mean and variance have the shape of the other axes. Nothing is stored: for running statistics average
    the returned ones yourself, and hand them back as `statistics=(mean, variance)` for prediction. Population variance.

    >>> import numpy as np; from funcad import nn
    >>> y, mean, variance = nn.batch_norm(np.array([[1.0], [3.0]]), eps=0.0)
    >>> y.tolist(), mean, variance
    ([[-1.0], [1.0]], array([2.]), array([1.]))
    """
    x = real_operand(x, "batch_norm")
    shape = shape_of(x)
    axes = axes_of(axes, len(shape))
    features = kept_axes(len(shape), axes)
    if statistics is None:
        count = float(prod([shape[a] for a in axes]))
        mean = div(reduce_sum(x, axes=axes), count)
        centred = sub(x, broadcast_in_dim(mean, shape=shape, axes=features))
        variance = div(reduce_sum(square(centred), axes=axes), count)
        y = activation.layer_norm(x, axes=axes, eps=float(eps))[0]
    else:
        mean, variance = [operand(s) for s in statistics]
        x, mean, variance = promote_dtype([x, mean, variance], dtype_of(x))
        scale = rsqrt(add(variance, float(eps)))
        y = mul(
            sub(x, broadcast_in_dim(mean, shape=shape, axes=features)),
            broadcast_in_dim(scale, shape=shape, axes=features),
        )
    return _affine("batch_norm", y, gamma, beta, features), mean, variance


def group_norm(
    x: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    *,
    channel_axis: int = -1,
    batch_axes: Any = 0,
    eps: float = 1e-5,
) -> Any:
    """x normalised per example over all other axes, its channels in `num_groups` groups (Wu and He, 2018).

    x is (batch, *spatial, channels); `channel_axis=1` for PyTorch's layout, `batch_axes=()` for a single example. gamma and
    beta have one element per channel. ValueError where the groups do not divide the channels.

    >>> import numpy as np; from funcad import nn
    >>> nn.group_norm(np.array([[1.0, 3.0, 10.0, 30.0]]), 2, eps=0.0)
    array([[-1.,  1., -1.,  1.]])
    """
    return _grouped("group_norm", x, num_groups, gamma, beta, channel_axis, batch_axes, eps)


def instance_norm(
    x: Any, gamma: Any = None, beta: Any = None, *, channel_axis: int = -1, batch_axes: Any = 0, eps: float = 1e-5
) -> Any:
    """x normalised per example and channel, over the spatial axes; arguments as of group_norm.

    `gamma`, `beta`, `channel_axis` and `batch_axes` are those of `group_norm`.

    >>> import numpy as np; from funcad import nn
    >>> nn.instance_norm(np.array([[[1.0], [3.0]]]), eps=0.0).ravel()
    array([-1.,  1.])
    """
    return _grouped("instance_norm", x, None, gamma, beta, channel_axis, batch_axes, eps)


def _grouped(
    what: str, x: Any, groups: int | None, gamma: Any, beta: Any, channel_axis: int, batch_axes: Any, eps: float
) -> Any:
    x = real_operand(x, what)
    shape = shape_of(x)
    channel = axis_of(channel_axis, len(shape))
    batch = axes_of(batch_axes, len(shape))
    if channel in batch:
        raise ValueError(f"{what}: axis {channel} of shape {shape} is both channel_axis and one of batch_axes")
    channels = shape[channel]
    groups = channels if groups is None else groups
    if groups < 1 or channels % groups:
        raise ValueError(f"{what}: {channels} channels (axis {channel} of shape {shape}) cannot be parted into {groups} groups")
    parted = reshape(x, shape=(*shape[:channel], groups, channels // groups, *shape[channel + 1 :]))
    kept = {a + (a > channel) for a in batch} | {channel}
    axes = tuple([a for a in range(len(shape) + 1) if a not in kept])
    y = reshape(activation.layer_norm(parted, axes=axes, eps=float(eps))[0], shape=shape)
    return _affine(what, y, gamma, beta, (channel,))

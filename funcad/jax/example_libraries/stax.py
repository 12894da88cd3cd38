"""`jax.example_libraries.stax`: a layer is a pair of functions.

`init(rng, input_shape) -> (output_shape, params)` and `apply(params, inputs, rng=None) -> outputs`; `serial` and `parallel`
make one pair of several. Parameters are those that JAX draws, in float64 unless `W_init` says otherwise.

>>> import numpy as np
>>> from funcad import random
>>> init, apply = serial(Dense(8), Relu, Dense(2), LogSoftmax)
>>> shape, params = init(random.key(0), (-1, 3))
>>> shape, apply(params, np.ones((5, 3))).shape
((-1, 2), (5, 2))
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import funcad.lax as lax
import funcad.numpy as np
from funcad import nn, random
from funcad.api.tools import ShapeDtypeStruct, eval_shape
from funcad.nn.initializers import glorot_normal, normal, ones, zeros

__all__ = [
    "AvgPool",
    "BatchNorm",
    "Conv",
    "Conv1DTranspose",
    "ConvTranspose",
    "Dense",
    "Dropout",
    "Elu",
    "Exp",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gelu",
    "GeneralConv",
    "GeneralConvTranspose",
    "Identity",
    "LeakyRelu",
    "LogSoftmax",
    "MaxPool",
    "Relu",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "SumPool",
    "Tanh",
    "elementwise",
    "parallel",
    "serial",
    "shape_dependent",
]
Layer = tuple[Callable[..., Any], Callable[..., Any]]
glorot, randn = glorot_normal, normal
elu, gelu, leaky_relu, relu, selu, sigmoid, softmax, softplus = [
    getattr(nn, name) for name in "elu gelu leaky_relu relu selu sigmoid softmax softplus".split()
]
log_softmax = logsoftmax = nn.log_softmax
_WEIGHTS, _BIAS, _SMALL_BIAS = glorot_normal(), normal(), normal(1e-6)

# -- layers with parameters


def Dense(out_dim: int, W_init: Any = _WEIGHTS, b_init: Any = _BIAS) -> Layer:
    """`inputs @ W + b`."""

    def init(rng: Any, input_shape: Any) -> Any:
        first, second = random.split(rng)
        params = W_init(first, (input_shape[-1], out_dim)), b_init(second, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    def apply(params: Any, inputs: Any, **options: Any) -> Any:
        weights, bias = params
        return np.dot(inputs, weights) + bias

    return init, apply


def _convolution(
    convolve: Callable[..., Any],
    dimension_numbers: tuple[str, str, str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL_BIAS,
) -> Layer:
    spec, kernel, out = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(kernel.index("I"), kernel.index("O"))

    def init(rng: Any, input_shape: Any) -> Any:
        sizes = iter(filter_shape)
        known = {"O": out_chan, "I": input_shape[spec.index("C")]}
        shape = tuple([known[c] if c in known else next(sizes) for c in kernel])
        first, second = random.split(rng)
        params = W_init(first, shape), b_init(second, tuple([out_chan if c == "C" else 1 for c in out]))
        at = spec.index("N")  # which may be -1: any number of examples
        example = [1 if i == at else n for i, n in enumerate(input_shape)]
        found = list(eval_shape(apply, params, ShapeDtypeStruct(tuple(example), params[0].dtype)).shape)
        found[out.index("N")] = input_shape[at]
        return tuple(found), params

    def apply(params: Any, inputs: Any, **options: Any) -> Any:
        weights, bias = params
        return convolve(inputs, weights, strides, padding, dimension_numbers=dimension_numbers) + bias

    return init, apply


def GeneralConv(
    dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int], *args: Any, **kw: Any
) -> Layer:
    """A convolution, by `lax.conv_general_dilated`; further: strides, padding, W_init, b_init."""
    return _convolution(lax.conv_general_dilated, dimension_numbers, out_chan, filter_shape, *args, **kw)


def GeneralConvTranspose(
    dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int], *args: Any, **kw: Any
) -> Layer:
    """A convolution whose strides enlarge, by `lax.conv_transpose`; arguments as of `GeneralConv`."""
    return _convolution(lax.conv_transpose, dimension_numbers, out_chan, filter_shape, *args, **kw)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Mean 0 and variance 1 over the axes, then `gamma * x + beta`, by the statistics of these inputs."""
    axes = (axis,) if type(axis) is int else tuple(axis)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = tuple([n for i, n in enumerate(input_shape) if i not in axes])
        first, second = random.split(rng)
        return input_shape, (beta_init(first, shape) if center else (), gamma_init(second, shape) if scale else ())

    def apply(params: Any, inputs: Any, **options: Any) -> Any:
        beta, gamma = params
        places = tuple([None if i in axes else slice(None) for i in range(np.ndim(inputs))])
        out = nn.standardize(inputs, axes, epsilon=epsilon)
        out = gamma[places] * out if scale else out
        return out + beta[places] if center else out

    return init, apply


# -- layers without parameters


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """`fun(inputs, **fun_kwargs)`, which keeps the shape."""
    return lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **options: fun(inputs, **fun_kwargs)


Tanh = elementwise(np.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(np.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity = elementwise(lambda x: x)


def _pooling(pool: Callable[..., Any]) -> Callable[..., Layer]:
    def layer(window_shape: Sequence[int], strides: Any = None, padding: str = "VALID", spec: str | None = None) -> Layer:
        rank = len(window_shape) + 2
        others = sorted((0, rank - 1) if spec is None else (spec.index("N"), spec.index("C")))
        window, steps = list(window_shape), list(strides or (1,) * len(window_shape))
        for i in others:
            window.insert(i, 1)
            steps.insert(i, 1)

        def init(rng: Any, input_shape: Any) -> Any:
            example = [1 if i == others[0] and n == -1 else n for i, n in enumerate(input_shape)]
            found = list(eval_shape(functools.partial(apply, ()), ShapeDtypeStruct(tuple(example), float)).shape)
            at = 0 if spec is None else spec.index("N")
            found[at] = input_shape[at]
            return tuple(found), ()

        def apply(params: Any, inputs: Any, **options: Any) -> Any:
            return pool(inputs, tuple(window), tuple(steps), padding)

        return init, apply

    return layer


def _largest(x: Any, *places: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, *places)


def _total(x: Any, *places: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, *places)


MaxPool = _pooling(_largest)
SumPool = _pooling(_total)
AvgPool = _pooling(lambda x, *places: _total(x, *places) / _total(np.ones_like(x), *places))


def _flattened(rng: Any, input_shape: Any) -> Any:
    return (input_shape[0], math.prod(input_shape[1:])), ()


Flatten: Layer = _flattened, lambda params, inputs, **options: np.reshape(inputs, (inputs.shape[0], -1))


def FanOut(num: int) -> Layer:
    """The inputs, so many times."""
    return lambda rng, input_shape: ([input_shape] * num, ()), lambda params, inputs, **options: [inputs] * num


FanInSum: Layer = lambda rng, input_shape: (input_shape[0], ()), lambda params, inputs, **options: sum(inputs)


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs joined along an axis."""

    def init(rng: Any, input_shape: Any) -> Any:
        first, at = input_shape[0], axis % len(input_shape[0])
        return (*first[:at], sum([shape[at] for shape in input_shape]), *first[at + 1 :]), ()

    return init, lambda params, inputs, **options: np.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Elements are kept with the probability `rate`, and divided by it; with another mode than "train" all are kept."""

    def apply(params: Any, inputs: Any, *, rng: Any = None, **options: Any) -> Any:
        if rng is None:
            raise ValueError("Dropout draws: call apply(params, inputs, rng=key), also for layers around it")
        if mode != "train":
            return inputs
        return np.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply


# -- several layers as one


def serial(*layers: Layer) -> Layer:
    """One layer after the other."""
    n = len(layers)

    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        for layer, _ in layers:
            rng, own = random.split(rng)
            input_shape, found = layer(own, input_shape)
            params.append(found)
        return input_shape, params

    def apply(params: Any, inputs: Any, *, rng: Any = None, **options: Any) -> Any:
        keys = [None] * n if rng is None else random.split(rng, n)
        for (_, layer), found, key in zip(layers, params, keys):
            inputs = layer(found, inputs, rng=key, **options)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Each layer on its own element of a list of inputs, as `FanOut` gives."""
    n = len(layers)

    def init(rng: Any, input_shape: Any) -> Any:
        found = [layer(key, shape) for (layer, _), key, shape in zip(layers, random.split(rng, n), input_shape)]
        return [shape for shape, _ in found], tuple([params for _, params in found])

    def apply(params: Any, inputs: Any, *, rng: Any = None, **options: Any) -> Any:
        keys = [None] * n if rng is None else random.split(rng, n)
        return [layer(p, x, rng=key, **options) for (_, layer), p, x, key in zip(layers, params, inputs, keys)]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """The layer that make_layer gives for the shape of the inputs."""
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **options: make_layer(inputs.shape)[1](params, inputs, **options),
    )

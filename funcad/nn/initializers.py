"""Initial values of parameters: functions `init(key, shape, dtype=float64)`, with JAX's numbers.

Each maker returns an initializer; `zeros` and `ones` are initializers themselves. `in_axis`, `out_axis` and `batch_axis` say
which axes of a weight are what; the others are the receptive field, which counts in both directions.

>>> import funcad
>>> init = funcad.nn.initializers.glorot_normal()
>>> init(funcad.random.key(0), (2, 3)).round(4)
array([[-0.1412, -0.5331,  1.1436],
       [ 0.1288,  0.0555, -0.2548]])
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from funcad import random
from funcad.configuration import also_says, public_names
from funcad.host.devices import namespace_of
from funcad.host.real_types import dtype_kind, is_a, native_dtype
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.promote import axis_of, shape_argument
from funcad.primitives.basic_indexing import basic_place_p
from funcad.primitives.conversion import convert, make_complex

__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
__dir__ = public_names(globals())


@runtime_checkable
class Initializer(Protocol):
    """What an initializer is: a function of a key, a shape and a dtype that gives an array.

    >>> import funcad
    >>> isinstance(funcad.nn.initializers.zeros, funcad.nn.initializers.Initializer)
    True
    """

    def __call__(self, key: Any, shape: Any, dtype: Any = None) -> Any: ...


def _dtype(dtype: Any) -> np.dtype:
    found = native_dtype(float if dtype is None else dtype)
    if dtype_kind(found) not in "fc":
        raise ValueError(f"initializers make floats or complex numbers, got dtype {found}")
    return found


def _full(key: Any, shape: Any, value: Any, dtype: Any) -> Any:
    """An array of one value, where the key is."""
    xp = namespace_of((concrete_value(key),))
    return xp.full(shape_argument(shape), value, native_dtype(float if dtype is None else dtype))


def zeros(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Zeros of a shape; the key is not used.

    >>> import funcad
    >>> funcad.nn.initializers.zeros(funcad.random.key(0), (2,))
    array([0., 0.])
    """
    return _full(key, shape, 0, dtype)


def ones(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Ones of a shape; the key is not used.

    >>> import funcad
    >>> funcad.nn.initializers.ones(funcad.random.key(0), (2,))
    array([1., 1.])
    """
    return _full(key, shape, 1, dtype)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that gives one value, or an array that broadcasts to the shape.

    >>> import funcad
    >>> funcad.nn.initializers.constant(0.5)(funcad.random.key(0), (2,))
    array([0.5, 0.5])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        if type(value) is Tracer:
            return convert(np.broadcast_to(value, shape_argument(shape)), native_dtype(float if dtype is None else dtype))
        return _full(key, shape, value, dtype)

    return init


def uniform(scale: Any = 0.01, dtype: Any = None) -> Initializer:
    """Uniform numbers in [0, scale).

    >>> import funcad
    >>> funcad.nn.initializers.uniform(1.0)(funcad.random.key(0), (2,)).round(4)
    array([0.4185, 0.2163])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        found = _dtype(dtype)
        return random.uniform(key, shape, found) * found.type(scale)

    return init


def normal(stddev: Any = 0.01, dtype: Any = None) -> Initializer:
    """Normal numbers of mean 0 and a standard deviation; complex ones too.

    `stddev` is that deviation.

    >>> import funcad
    >>> funcad.nn.initializers.normal(1.0)(funcad.random.key(0), (2,)).round(4)
    array([-0.2058, -0.7848])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        found = _dtype(dtype)
        return random.normal(key, shape, found) * found.type(stddev)

    return init


def truncated_normal(stddev: Any = 0.01, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """Normal numbers cut to [lower, upper] and then multiplied by stddev (which is that of the uncut law, as in JAX).

    >>> import funcad
    >>> funcad.nn.initializers.truncated_normal(1.0)(funcad.random.key(0), (2,)).round(4)
    array([-0.1964, -0.7415])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        found = _dtype(dtype)
        return random.truncated_normal(key, lower, upper, shape, found) * found.type(stddev)

    return init


def _length(shape: tuple, axes: Any) -> int:
    return shape[axes] if is_a(axes, int) else math.prod([shape[i] for i in axes])


def _fans(shape: tuple, in_axis: Any, out_axis: Any, batch_axis: Any) -> tuple[float, float]:
    """How many inputs an output has, and how many outputs an input."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(f"the fans of a weight of shape {shape} need in_axis: its default -2 asks for two axes at least")
    inputs, outputs, batch = (_length(shape, axes) for axes in (in_axis, out_axis, batch_axis))
    field = math.prod(shape) / inputs / outputs / batch
    return inputs * field, outputs * field


def _polar(key: Any, shape: tuple, dtype: np.dtype, radius: Any) -> Any:
    """Complex numbers of uniform phase; radius is a function of uniform numbers."""
    half = np.dtype(f"f{dtype.itemsize // 2}")
    keys = random.split(key)
    r = radius(random.uniform(keys[0], shape, half))
    phase = half.type(2 * np.pi) * random.uniform(keys[1], shape, half)
    return make_complex(r * np.cos(phase), r * np.sin(phase))


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Any = -2,
    out_axis: Any = -1,
    batch_axis: Any = (),
    dtype: Any = None,
) -> Initializer:
    """Numbers of variance scale / n, n being the fan that `mode` names.

    `mode`: "fan_in", "fan_out", "fan_avg" (their mean) or "fan_geo_avg"; `distribution`: "truncated_normal" (cut at two
    standard deviations), "normal" or "uniform". Raises ValueError for anything else, and for a weight with too few axes.

    >>> import funcad
    >>> init = funcad.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
    >>> init(funcad.random.key(0), (2, 2)).round(4)
    array([[-0.2058, -0.7848],
           [ 1.8161,  0.1878]])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = shape_argument(shape)
        found = _dtype(dtype)
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        fans = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": (fan_in * fan_out) ** 0.5,
        }
        if mode not in fans:
            raise ValueError(f"variance_scaling: mode must be one of {', '.join(fans)}, got {mode!r}")
        real = np.dtype(f"f{found.itemsize // 2}") if found.kind == "c" else found
        variance = real.type(scale / fans[mode])
        if distribution == "normal":
            return random.normal(key, shape, found) * np.sqrt(variance)
        if distribution == "truncated_normal":
            if dtype_kind(found) == "f":
                return random.truncated_normal(key, -2.0, 2.0, shape, found) * (np.sqrt(variance) / real.type(_CUT))
            kept = real.type(1) - np.exp(real.type(-4))
            cut = _polar(key, shape, found, lambda u: np.sqrt(-np.log(1 - kept * u)))
            return cut * (np.sqrt(variance) / real.type(_COMPLEX_CUT))
        if distribution == "uniform":
            if dtype_kind(found) == "f":
                return random.uniform(key, shape, found, -1.0, 1.0) * np.sqrt(3 * variance)
            return _polar(key, shape, found, lambda u: np.sqrt(2 * u)) * np.sqrt(variance)
        raise ValueError(
            f"variance_scaling: distribution must be 'truncated_normal', 'normal' or 'uniform', got {distribution!r}"
        )

    return init


_CUT = 0.87962566103423978  # the standard deviation of the normal law cut to [-2, 2]
_COMPLEX_CUT = 0.95311164380491208  # of the complex one, cut at radius 2


def _named(name: str, scale: float, mode: str, distribution: str, text: str) -> Any:
    def make(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{text}

    That is `variance_scaling({scale}, {mode!r}, {distribution!r})`, for weights of two axes or more.

    >>> import funcad
    >>> funcad.nn.initializers.{name}()(funcad.random.key(0), (3, 4)).shape
    (3, 4)
    """
    return make


glorot_uniform = _named("glorot_uniform", 1.0, "fan_avg", "uniform", "Glorot's (Xavier's) initializer, uniform.")
glorot_normal = _named("glorot_normal", 1.0, "fan_avg", "truncated_normal", "Glorot's (Xavier's) initializer, cut normal.")
lecun_uniform = _named("lecun_uniform", 1.0, "fan_in", "uniform", "LeCun's initializer, uniform.")
lecun_normal = _named("lecun_normal", 1.0, "fan_in", "truncated_normal", "LeCun's initializer, cut normal.")
he_uniform = _named("he_uniform", 2.0, "fan_in", "uniform", "He's (Kaiming's) initializer, uniform.")
he_normal = _named("he_normal", 2.0, "fan_in", "truncated_normal", "He's (Kaiming's) initializer, cut normal.")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Uniform orthogonal matrices: all axes but `column_axis` are one, and rows or columns are orthonormal, times scale.

    >>> import funcad
    >>> q = funcad.nn.initializers.orthogonal()(funcad.random.key(0), (2, 2))
    >>> (q @ q.T).round(6) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = shape_argument(shape)
        found = _dtype(dtype)
        if len(shape) < 2:
            raise ValueError(f"orthogonal: needs a shape of two axes at least, got {shape}")
        if 0 in shape:
            return _full(key, shape, 0, found)
        axis = axis_of(column_axis, len(shape))
        columns = shape[axis]
        q = random.orthogonal(key, math.prod(shape) // columns, (), found, columns)
        q = np.reshape(q, (*shape[:axis], *shape[axis + 1 :], columns))
        return found.type(scale) * np.moveaxis(q, -1, axis)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """For convolutions: an orthogonal matrix at the centre of the kernel, zeros elsewhere. Shapes (*kernel, fan_in, fan_out).

    The matrix is multiplied by `scale`; `column_axis` is the axis of its orthogonal columns.

    >>> import funcad
    >>> funcad.nn.initializers.delta_orthogonal()(funcad.random.key(0), (3, 2, 2))[0]
    array([[0., 0.],
           [0., 0.]])
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = shape_argument(shape)
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"delta_orthogonal: needs a shape of 3, 4 or 5 axes, got {shape}")
        if shape[-1] < shape[-2]:
            raise ValueError(f"delta_orthogonal: fan_in must not be larger than fan_out, got shape {shape}")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        centre = tuple([(n - 1) // 2 for n in shape[:-2]])
        return basic_place_p(matrix, index=(*centre, (0, shape[-2], 1), (0, shape[-1], 1)), shape=shape)

    return init


for _maker in [globals()[name] for name in __all__[1:]]:
    if "in_axis" in _maker.__code__.co_varnames:
        also_says(_maker, "`in_axis`, `out_axis` and `batch_axis` say which axes of a weight are what: ints or tuples of ints.")
    also_says(_maker, "`dtype` is float64 if None is given. As JAX's.")

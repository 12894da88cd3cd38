"""Continuous distributions, by inverting or transforming uniform and normal numbers.

All of JAX's: the uniform numbers are the same bit for bit, the results to the rounding of NumPy's log, exp and tan. Those with
parameters are differentiable in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.numpy.axes import shape_argument
from funcad.primitives.random_bits import draw
from funcad.random.basic import normal, rademacher, uniform
from funcad.random.draw_operands import check_key, float_dtype, parameters, shape_of_draw
from funcad.random.keys import split

__all__ = [
    "cauchy",
    "double_sided_maxwell",
    "exponential",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "maxwell",
    "pareto",
    "rayleigh",
    "triangular",
    "wald",
    "weibull_min",
]


def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Exponential numbers of mean 1, float64 unless dtype says otherwise.

    >>> import funcad
    >>> funcad.random.exponential(funcad.random.key(0), (2,)).round(6)
    array([0.542071, 0.243723])
    """
    check_key("exponential", key)
    dtype = float_dtype("exponential", dtype)
    return -np.log1p(-draw(key, "unit", dtype, shape_argument(shape)))


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Standard Gumbel numbers, float64 unless dtype says otherwise.

    `mode="high"` draws twice as many bits, for the far tail; "low" is the default; "highest" is as "high" but for float32,
    where it draws from all 64 bits.

    >>> import funcad
    >>> funcad.random.gumbel(funcad.random.key(0), (2,)).round(6)
    array([ 0.137906, -0.425993])
    """
    check_key("gumbel", key)
    dtype = float_dtype("gumbel", dtype)
    shape = shape_argument(shape)
    if mode not in (None, "low", "high", "highest"):
        raise ValueError(f"gumbel: mode must be 'low', 'high' or 'highest', got {mode!r}")
    tiny = np.finfo(dtype).tiny
    if mode in (None, "low"):
        return -np.log(-np.log(uniform(key, shape, dtype, tiny, 1.0)))
    if mode == "highest" and dtype == np.float32:
        return _gumbel_of_64_bits(key, shape)
    u = draw(key, "unit", dtype, (2, *shape))
    high, low = u[0], u[1]
    x = np.where(high >= 0.5, high, high + dtype.type(2.0 ** -np.finfo(dtype).nmant) * low + tiny)
    return -np.log(-np.log1p(-x))


def _gumbel_of_64_bits(key: Any, shape: tuple) -> Any:
    """From the smaller of u and 1 - u, u a fixed-point number of 64 bits, cut to the 24 bits of a float32."""
    words = draw(key, "bits", np.dtype(np.uint32), (2, *shape)).astype(np.uint64)
    number = words[0] << np.uint64(32) | words[1]
    is_low = number < np.uint64(1 << 63)
    with np.errstate(over="ignore"):
        number = np.where(is_low, number, ~number + np.uint64(1))
    number = np.where(number >> np.uint64(53) > 0, number & ~np.uint64(2047), number)  # exact as float64
    wide = number.astype(np.float64) * 2.0**-64
    x = wide.astype(np.float32)
    x = np.where(x.astype(np.float64) > wide, np.nextafter(x, np.float32(0)), x)
    return np.where(is_low, -np.log(-np.log1p(-x)), -np.log(-np.log(x)))[()]


def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Laplace numbers of scale 1, float64 unless dtype says otherwise.

    >>> import funcad
    >>> funcad.random.laplace(funcad.random.key(0), (2,)).round(6)
    array([0.178034, 0.837963])
    """
    check_key("laplace", key)
    dtype = float_dtype("laplace", dtype)
    u = uniform(key, shape, dtype, dtype.type(-1.0 + np.finfo(dtype).epsneg), 1.0)
    return np.sign(u) * np.log1p(-np.abs(u))


def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard logistic numbers, float64 unless dtype says otherwise.

    >>> import funcad
    >>> funcad.random.logistic(funcad.random.key(0), (2,)).round(6)
    array([-0.32911 , -1.287387])
    """
    check_key("logistic", key)
    dtype = float_dtype("logistic", dtype)
    u = uniform(key, shape, dtype, np.finfo(dtype).tiny, 1.0)
    return np.log(u) - np.log1p(-u)


def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Standard Cauchy numbers, float64 unless dtype says otherwise.

    >>> import funcad
    >>> funcad.random.cauchy(funcad.random.key(0), (2,)).round(6)
    array([-0.26193 , -1.237846])
    """
    check_key("cauchy", key)
    dtype = float_dtype("cauchy", dtype)
    u = uniform(key, shape, dtype, np.finfo(dtype).eps, 1.0)
    return np.tan(dtype.type(np.pi) * (u - dtype.type(0.5)))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Pareto numbers of scale 1 and shape b, which broadcasts to `shape`. Differentiable in b.

    >>> import funcad
    >>> funcad.random.pareto(funcad.random.key(0), 2.0, (2,)).round(6)
    array([1.311321, 1.129598])
    """
    check_key("pareto", key)
    dtype = float_dtype("pareto", dtype)
    (b,) = parameters("pareto", key, dtype, b)
    return np.exp(exponential(key, shape_of_draw("pareto", shape, b), dtype) / b)


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Weibull numbers of a scale and a concentration. Differentiable in both.

    As in JAX, `shape` is that of the uniform numbers, which broadcast against the parameters.

    >>> import funcad
    >>> funcad.random.weibull_min(funcad.random.key(0), 1.0, 2.0, (2,)).round(6)
    array([0.736254, 0.493683])
    """
    check_key("weibull_min", key)
    dtype = float_dtype("weibull_min", dtype)
    scale, concentration = parameters("weibull_min", key, dtype, scale, concentration)
    return np.power(exponential(key, shape, dtype), dtype.type(1) / concentration) * scale


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Rayleigh numbers of a scale, which broadcasts to `shape`. Differentiable in it.

    >>> import funcad
    >>> funcad.random.rayleigh(funcad.random.key(0), 1.0, (2,)).round(6)
    array([1.319986, 1.74992 ])
    """
    check_key("rayleigh", key)
    dtype = float_dtype("rayleigh", dtype)
    (scale,) = parameters("rayleigh", key, dtype, scale)
    u = draw(key, "unit", dtype, shape_of_draw("rayleigh", shape, scale))
    with np.errstate(divide="ignore"):
        return scale * np.sqrt(np.log(u) * dtype.type(-2))


def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the triangular law between left and right with its peak at mode. Differentiable in all three.

    >>> import funcad
    >>> funcad.random.triangular(funcad.random.key(0), 0.0, 0.5, 1.0, (2,)).round(6)
    array([0.457415, 0.328858])
    """
    check_key("triangular", key)
    dtype = float_dtype("triangular", dtype)
    left, mode, right = parameters("triangular", key, dtype, left, mode, right)
    u = draw(key, "unit", dtype, shape_of_draw("triangular", shape, left, mode, right))
    width = right - left
    rising = left + np.sqrt(u * width * (mode - left))
    falling = right - np.sqrt((1 - u) * width * (right - mode))
    return np.where(u < (mode - left) / width, rising, falling)[()]


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """exp(sigma z) with z standard normal; sigma broadcasts to `shape`. Differentiable in sigma.

    >>> import funcad
    >>> funcad.random.lognormal(funcad.random.key(0), 0.5, (2,)).round(6)
    array([0.902198, 0.675445])
    """
    check_key("lognormal", key)
    dtype = float_dtype("lognormal", dtype, "fc")
    (sigma,) = parameters("lognormal", key, dtype, sigma)
    return np.exp(normal(key, shape_of_draw("lognormal", shape, sigma), dtype) * sigma)


def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell numbers of scale 1: the lengths of normal vectors of three dimensions.

    >>> import funcad
    >>> funcad.random.maxwell(funcad.random.key(0), (2,)).round(6)
    array([1.98907 , 0.424607])
    """
    check_key("maxwell", key)
    dtype = float_dtype("maxwell", dtype)
    z = draw(key, "normal", dtype, (*shape_argument(shape), 3))
    return np.sqrt(np.sum(z * z, axis=-1))


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell numbers with a random sign, times scale, plus loc. Differentiable in both.

    As in JAX the result has shape `(*shape, *p)`, p being the parameters' shape together, and `(*p, *p)` if `shape` is ().

    >>> import funcad
    >>> funcad.random.double_sided_maxwell(funcad.random.key(0), 0.0, 1.0, (2,)).round(6)
    array([ 1.984612, -2.478207])
    """
    check_key("double_sided_maxwell", key)
    dtype = float_dtype("double_sided_maxwell", dtype)
    loc, scale = parameters("double_sided_maxwell", key, dtype, loc, scale)
    own = shape_of_draw("double_sided_maxwell", None, loc, scale)
    shape = (*(shape_argument(shape) or own), *own)
    keys = split(key)
    return rademacher(keys[1], shape, dtype) * maxwell(keys[0], shape, dtype) * scale + loc


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Wald (inverse Gaussian) numbers of a mean, scale 1; mean broadcasts to `shape`. Differentiable in it almost everywhere.

    The derivative is that of the transformation with its choice of root held fixed, as JAX's: it is not the implicit one.

    >>> import funcad
    >>> funcad.random.wald(funcad.random.key(0), 1.0, (2,)).round(6)
    array([0.187003, 1.610732])
    """
    check_key("wald", key)
    dtype = float_dtype("wald", dtype)
    (mean,) = parameters("wald", key, dtype, mean)
    shape = shape_of_draw("wald", shape, mean)
    keys = split(key)
    y = draw(keys[0], "normal", dtype, shape) ** 2
    z = draw(keys[1], "unit", dtype, shape)
    square = mean * mean
    x = mean + square * y / 2 - mean / 2 * np.sqrt(4 * mean * y + square * (y * y))
    return np.where(z <= mean / (mean + x), x, square / x)[()]

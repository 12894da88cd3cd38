"""The gamma distribution and what is made of it, differentiable in the shape parameters (implicit reparameterisation).

Samples are JAX's (Marsaglia and Tsang's method with the same keys per element) to the rounding of the elementary functions, but
where a rejection hangs on the last bit.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from funcad.ir.aval import shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import shape_argument
from funcad.primitives.activation import softmax
from funcad.primitives.random_bits import draw
from funcad.primitives.rejection import random_gamma_p
from funcad.random.basic import rademacher
from funcad.random.continuous import exponential
from funcad.random.draw_operands import check_key, float_dtype, parameters, shape_of_draw
from funcad.random.keys import split

__all__ = ["ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "t"]


def _gamma(name: str, key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Any:
    check_key(name, key)
    dtype = float_dtype(name, dtype)
    (a,) = parameters(name, key, dtype, a)
    return random_gamma_p(key, np.broadcast_to(a, shape_of_draw(name, shape, a)), log_space=log_space)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Gamma numbers of shape parameter a (scale 1), which broadcasts to `shape`. Differentiable in a.

    For a much below 1 the samples underflow: see `loggamma`.

    >>> import numpy as np, funcad
    >>> funcad.random.gamma(funcad.random.key(0), np.array([0.5, 3.0])).round(6)
    array([0.098054, 1.962139])
    """
    return _gamma("gamma", key, a, shape, dtype, False)


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Logarithms of gamma numbers, exact where the numbers underflow. Differentiable in a.

    >>> import numpy as np, funcad
    >>> funcad.random.loggamma(funcad.random.key(0), np.array([0.001, 3.0])).round(6)
    array([-1.11302585e+03,  6.74035000e-01])
    """
    return _gamma("loggamma", key, a, shape, dtype, True)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Beta numbers; a and b broadcast to `shape`. Differentiable in both.

    >>> import funcad
    >>> funcad.random.beta(funcad.random.key(0), 2.0, 3.0, (2,)).round(6)
    array([0.327956, 0.613809])
    """
    check_key("beta", key)
    dtype = float_dtype("beta", dtype)
    a, b = parameters("beta", key, dtype, a, b)
    shape = shape_of_draw("beta", shape, a, b)
    keys = split(key)
    x = random_gamma_p(keys[0], np.broadcast_to(a, shape), log_space=True)
    y = random_gamma_p(keys[1], np.broadcast_to(b, shape), log_space=True)
    top = np.maximum(x, y)
    x, y = np.exp(x - top), np.exp(y - top)
    return x / (x + y)


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Dirichlet vectors: alpha has shape (..., n), the result (*shape, n). Differentiable in alpha.

    >>> import numpy as np, funcad
    >>> funcad.random.dirichlet(funcad.random.key(0), np.ones(3)).round(6)
    array([0.157552, 0.115473, 0.726975])
    """
    check_key("dirichlet", key)
    dtype = float_dtype("dirichlet", dtype)
    (alpha,) = parameters("dirichlet", key, dtype, alpha)
    own = shape_of(alpha)
    if not own:
        raise ValueError("dirichlet: alpha must have at least one axis, got a scalar")
    batch = own[:-1] if shape is None else shape_argument(shape)
    if np.broadcast_shapes(batch, own[:-1]) != batch:
        raise ValueError(f"dirichlet: alpha of shape {own} does not broadcast to shape={batch} and its last axis")
    logs = random_gamma_p(key, np.broadcast_to(alpha, (*batch, own[-1])), log_space=True)
    return softmax(logs, axis=len(batch))


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Chi-square numbers of df degrees of freedom, which broadcasts to `shape`. Differentiable in df.

    >>> import funcad
    >>> funcad.random.chisquare(funcad.random.key(0), 3.0, (2,)).round(6)
    array([1.813893, 1.448354])
    """
    check_key("chisquare", key)
    dtype = float_dtype("chisquare", dtype)
    (df,) = parameters("chisquare", key, dtype, df)
    half = np.broadcast_to(df / dtype.type(2), shape_of_draw("chisquare", shape, df))
    return np.exp(random_gamma_p(key, half, log_space=True)) * dtype.type(2)


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """F-distributed numbers of dfnum and dfden degrees of freedom. Differentiable in both.

    >>> import funcad
    >>> funcad.random.f(funcad.random.key(0), 3.0, 8.0, (2,)).round(6)
    array([1.562634, 0.392363])
    """
    check_key("f", key)
    dtype = float_dtype("f", dtype)
    dfnum, dfden = parameters("f", key, dtype, dfnum, dfden)
    shape = shape_of_draw("f", shape, dfnum, dfden)
    keys = split(key)
    return (chisquare(keys[1], dfnum, shape, dtype) / dfnum) / (chisquare(keys[0], dfden, shape, dtype) / dfden)


def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Student's t numbers of df degrees of freedom, which broadcasts to `shape`. Differentiable in df.

    >>> import funcad
    >>> funcad.random.t(funcad.random.key(0), 5.0, (2,)).round(6)
    array([ 1.468067, -0.558693])
    """
    check_key("t", key)
    dtype = float_dtype("t", dtype)
    (df,) = parameters("t", key, dtype, df)
    shape = shape_of_draw("t", shape, df)
    keys = split(key)
    half = df / dtype.type(2)
    return draw(keys[0], "normal", dtype, shape) * np.sqrt(
        half / random_gamma_p(keys[1], np.broadcast_to(half, shape), log_space=False)
    )


def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers with density proportional to exp(-|x|**p). Differentiable in p.

    >>> import funcad
    >>> funcad.random.generalized_normal(funcad.random.key(0), 4.0, (2,)).round(6)
    array([ 0.708331, -0.981466])
    """
    check_key("generalized_normal", key)
    dtype = float_dtype("generalized_normal", dtype)
    (p,) = parameters("generalized_normal", key, dtype, p)
    keys = split(key)
    shape = shape_argument(shape)
    power = dtype.type(1) / p
    return rademacher(keys[1], shape, dtype) * gamma(keys[0], power, shape, dtype) ** power


def ball(key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None) -> Any:
    """Points of d coordinates, uniform in the unit ball of the p-norm: shape (*shape, d). Differentiable in p.

    >>> import funcad
    >>> funcad.random.ball(funcad.random.key(0), 3).round(6)
    array([-0.867038, -0.453104,  0.084509])
    """
    check_key("ball", key)
    dtype = float_dtype("ball", dtype)
    shape = shape_argument(shape)
    (p,) = parameters("ball", key, dtype, p)
    keys = split(key)
    g = generalized_normal(keys[0], p, (*shape, operator.index(d)), dtype)
    e = exponential(keys[1], shape, dtype)
    length = (np.sum(np.abs(g) ** p, axis=-1) + e) ** (dtype.type(1) / p)
    return g / (length[..., None] if type(length) is Tracer or np.ndim(length) else length)

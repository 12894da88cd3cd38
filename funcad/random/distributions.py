"""Distributions: continuous and discrete ones, the gamma's family, and arrays as a whole.

All of JAX's: the uniform numbers are the same bit for bit, the results to the rounding of NumPy's log, exp and tan. Those with
parameters are differentiable in them.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from funcad.host.real_types import native_dtype
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import array_of, axis_of, shape_argument
from funcad.primitives.activation import softmax
from funcad.primitives.arithmetic import sub
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.random_bits import draw
from funcad.primitives.rejection import binomial_draw, poisson_draw, random_gamma_p, shuffled
from funcad.primitives.sorting import top_k

from funcad.random.keys import (  # isort: skip
    check_key, float_dtype, inexact_dtype, normal, parameters, rademacher, randint, shape_of_draw, split, together, uniform,
)


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
    far = mean * y
    x = 2 * mean / (2 + far + np.sqrt(far) * np.sqrt(4 + far))  # the smaller root: nothing cancels
    if dtype.itemsize < 4:  # JAX's numbers, which are rounded much
        theirs = mean + mean * far / 2 - mean / 2 * np.sqrt(4 * far + far * far)
        x = np.where(theirs > 0, theirs, x)
    return np.where(z <= mean / (mean + x), x, mean * (mean / x))[()]


# -- discrete distributions: integers (and counts as floats), which have no derivative


def _integer_dtype(name: str, dtype: Any) -> np.dtype:
    found = native_dtype(int if dtype is None else dtype)
    if found.kind not in "iu":
        raise ValueError(f"{name}: dtype must be an integer dtype, got {found}")
    return found


def _constant(x: Any) -> Any:
    return stop_gradient(x) if type(x) is Tracer else x


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Numbers of categories, with probabilities proportional to exp(logits).

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    logits : array
        Logarithms of the probabilities, up to a constant.
    axis : int
        The axis of the categories.
    shape : tuple of ints, optional
        The shape of the result. It ends in the shape of logits without `axis`, which is the default.
    replace : bool
        False: the leading part of `shape` counts draws without replacement (Gumbel top-k).
    mode : {"low", "high"}, optional
        As for `gumbel`.

    Returns
    -------
    array of ints

    Raises
    ------
    TypeError
        `key` is no key.
    ValueError
        `shape` does not end as it has to.

    Notes
    -----
    The numbers are JAX's. There is no derivative with respect to logits.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.categorical(funcad.random.key(0), np.log([0.1, 0.2, 0.7]), shape=(4,))
    array([2, 2, 2, 1])
    >>> np.sort(funcad.random.categorical(funcad.random.key(0), np.zeros(3), shape=(3,), replace=False))
    array([0, 1, 2])

    See also
    --------
    choice, bernoulli, gumbel
    """
    check_key("categorical", key)
    (logits,) = together("categorical", key, logits)
    if dtype_of(logits).kind != "f":
        (logits,) = parameters("categorical", key, inexact_dtype(logits), logits)
    logits = _constant(logits)
    own = shape_of(logits)
    axis = axis_of(axis, len(own))
    batch = own[:axis] + own[axis + 1 :]
    shape = batch if shape is None else shape_argument(shape)
    if np.broadcast_shapes(shape, batch) != shape:
        raise ValueError(f"categorical: logits of shape {own} without axis {axis} do not broadcast to shape={shape}")
    first = len(shape) - len(batch)
    if replace:
        lengths = list(shape[first:])
        lengths.insert(axis, own[axis])
        noise = gumbel(key, (*shape[:first], *lengths), dtype_of(logits), mode)
        return np.argmax(noise + logits, axis=first + axis)
    number = math.prod(shape[:first])
    if number > own[axis]:
        raise ValueError(f"categorical: cannot draw {number} without replacement from {own[axis]} categories")
    noisy = logits + gumbel(key, own, dtype_of(logits), mode)
    _, chosen = top_k(np.moveaxis(noisy, axis, -1), number)
    return np.reshape(np.moveaxis(chosen, len(batch), 0), shape)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Poisson counts of mean lam, which broadcasts to `shape`; int64 unless dtype says otherwise.

    JAX's algorithms with JAX's keys, in float32 as there: equal but where a comparison hangs on the last bit.
    -1 for a mean that is negative or NaN.

    >>> import funcad
    >>> funcad.random.poisson(funcad.random.key(0), 4.0, (5,))
    array([0, 1, 5, 5, 2])
    """
    check_key("poisson", key)
    found = _integer_dtype("poisson", dtype)
    (lam,) = parameters("poisson", key, np.dtype(np.float32), lam)
    return poisson_draw(key, np.broadcast_to(_constant(lam), shape_of_draw("poisson", shape, lam)), dtype=found)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Binomial counts of n trials with probability p, as floats (float64 unless dtype says otherwise).

    n and p broadcast to `shape`. JAX's algorithms with JAX's keys. NaN where n or p is out of range. A derivative in p raises.

    >>> import funcad
    >>> funcad.random.binomial(funcad.random.key(0), 10, 0.3, (5,))
    array([4., 1., 3., 4., 3.])
    """
    check_key("binomial", key)
    found = native_dtype(float if dtype is None else dtype)
    if found.kind != "f":
        raise ValueError(f"binomial: dtype must be a float dtype, got {found}")
    (p,) = together("binomial", key, p)
    n, p = parameters("binomial", key, inexact_dtype(p), n, p)
    shape = shape_of_draw("binomial", shape, n, p)
    return binomial_draw(key, np.broadcast_to(n, shape), np.broadcast_to(p, shape), dtype=found)


def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1) -> Any:
    """Multinomial counts: n trials over the categories of the last axis of p; the result has the shape of p, or `shape`.

    Floats, float64 unless dtype says otherwise. `unroll` is JAX's and changes nothing here.

    >>> import numpy as np, funcad
    >>> funcad.random.multinomial(funcad.random.key(0), 10, np.array([0.2, 0.3, 0.5]))
    array([1., 4., 5.])
    """
    check_key("multinomial", key)
    n, p = together("multinomial", key, n, p)
    n, p = parameters("multinomial", key, inexact_dtype(n, p), n, p)
    shape = shape_of(p) if shape is None else shape_argument(shape)
    remaining = np.broadcast_to(n, shape[:-1])
    p = np.broadcast_to(p, shape)
    rest = np.flip(np.cumsum(np.flip(p, -1), axis=-1), -1)
    ratios = np.clip(p / np.where(rest == 0, dtype_of(p).type(1), rest), 0, 1)
    keys = split(key, shape[-1])
    counts = []
    for i in range(shape[-1]):
        counts.append(binomial_draw(keys[i], remaining, ratios[..., i], dtype=dtype_of(p)))
        remaining = sub(remaining, counts[-1])
    found = native_dtype(float if dtype is None else dtype)
    result = np.stack([array_of(c) for c in counts], axis=-1)
    return convert(result, found) if type(result) is Tracer else result.astype(found)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """How many trials of probability p it takes to succeed once, from 1 on; int64 unless dtype says otherwise. JAX's.

    >>> import funcad
    >>> funcad.random.geometric(funcad.random.key(0), 0.3, (5,))
    array([3, 5, 1, 2, 2])
    """
    check_key("geometric", key)
    found = _integer_dtype("geometric", dtype)
    (p,) = together("geometric", key, p)
    (p,) = parameters("geometric", key, inexact_dtype(p), p)
    p = _constant(p)
    u = uniform(key, shape_of_draw("geometric", shape, p), dtype_of(p))
    u = np.where(u == 0, dtype_of(p).type(1), u)
    least, most = np.float64(np.iinfo(found).min), np.float64(np.iinfo(found).max)
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.maximum(np.floor(np.log(u) / np.log1p(-p)) + 1, least)
    counts = np.where(count < most, count, 0).astype(found)
    return np.where(count >= most, found.type(np.iinfo(found).max), counts)[()]


# -- the gamma distribution and what is made of it, differentiable in the shape parameters (implicit reparameterisation)
#
# Samples are JAX's (Marsaglia and Tsang's method with the same keys per element) to the rounding of the elementary functions,
# but where a rejection hangs on the last bit.


def _gamma(name: str, key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Any:
    check_key(name, key)
    dtype = float_dtype(name, dtype)
    (a,) = parameters(name, key, dtype, a)
    return random_gamma_p(key, np.broadcast_to(a, shape_of_draw(name, shape, a)), log_space=log_space)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of a gamma distribution of scale 1.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    a : float or array
        The shape parameter, which broadcasts to `shape` and may be traced.
    shape : tuple of ints, optional
        The shape of the result: that of a by default.
    dtype : dtype, optional
        Of its elements: float64 by default.

    Returns
    -------
    array
        Of that shape and dtype.

    Raises
    ------
    TypeError
        `key` is no key.
    ValueError
        The dtype is no floating one.

    Notes
    -----
    It is differentiable in a (by the implicit function of the distribution), as `jax.random.gamma` is; the numbers are
    JAX's. For a much below 1 they underflow: `loggamma` gives their logarithms. For a scale, multiply by it.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.gamma(funcad.random.key(0), np.array([0.5, 3.0])).round(6)
    array([0.098054, 1.962139])
    >>> slope = funcad.grad(lambda a: np.mean(funcad.random.gamma(funcad.random.key(1), a, (10_000,))))(3.0)
    >>> round(float(slope), 1)  # the mean is a
    1.0

    See also
    --------
    loggamma, beta, dirichlet
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


# -- draws whose result is an array as a whole: permutations and choices, normal vectors, orthogonal matrices


def _count(name: str, x: Any) -> int:
    """x as a number of elements."""
    try:
        return operator.index(x if type(x) is int or type(x) is Tracer else x.item() if hasattr(x, "item") else x)
    except TypeError:
        raise TypeError(f"{name}: expected an integer or an array with at least one axis, got {x!r:.60}") from None


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> np.ndarray[Any, Any]:
    """The numbers 0 ... x - 1 in random order, or an array permuted along an axis.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    x : int or array
        How many numbers, or what is permuted.
    axis : int
        The axis of the array.
    independent : bool
        Permute each line along the axis in its own way.

    Returns
    -------
    array
        Of the shape and dtype of x; for an integer, int64 of shape (x,).

    Raises
    ------
    TypeError
        `key` is no key.

    Notes
    -----
    The numbers are JAX's. The result is differentiable in x.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.permutation(funcad.random.key(0), 5)
    array([0, 1, 4, 3, 2])
    >>> rows = funcad.random.permutation(funcad.random.key(0), np.array([[1, 2, 3], [4, 5, 6]]), axis=1, independent=True)
    >>> np.sort(rows, axis=1)
    array([[1, 2, 3],
           [4, 5, 6]])

    See also
    --------
    choice, randint
    """
    check_key("permutation", key)
    if shape_of(x if hasattr(x, "dtype") or type(x) is int else np.asarray(x)) == ():
        return shuffled(key, shape=(_count("permutation", x),), axis=0)
    (x,) = together("permutation", key, x)
    shape = shape_of(x)
    axis = axis_of(axis, len(shape))
    if independent and len(shape) > 1:
        return np.take_along_axis(x, shuffled(key, shape=shape, axis=axis), axis=axis)
    return np.take(x, shuffled(key, shape=(shape[axis],), axis=0), axis=axis)


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: str | None = None
) -> np.ndarray[Any, Any]:
    """Elements of a, at random.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    a : int or array
        What is drawn from; an integer stands for `range(a)`.
    shape : tuple of ints
        How many elements: it stands in the place of the axis.
    replace : bool
        False: no element twice.
    p : array, optional
        The probability of each element; all alike by default.
    axis : int
        The axis of the array.
    mode : {"low", "high"}, optional
        As for `gumbel`.

    Returns
    -------
    array
        Of the dtype of a.

    Raises
    ------
    TypeError
        `key` is no key.
    ValueError
        More elements than there are are drawn without replacement, or p has another length.

    Notes
    -----
    The numbers are JAX's. The result is differentiable in a, not in p.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.choice(funcad.random.key(0), 5, (3,), replace=False)
    array([0, 1, 4])
    >>> funcad.random.choice(funcad.random.key(0), np.array([10.0, 20.0]), (4,), p=np.array([0.0, 1.0]))
    array([20., 20., 20., 20.])

    See also
    --------
    permutation, categorical, randint
    """
    check_key("choice", key)
    shape = shape_argument(shape)
    is_number = shape_of(a if hasattr(a, "dtype") or type(a) is int else np.asarray(a)) == ()
    if is_number:
        n, own, axis = _count("choice", a), (), 0
    else:
        (a,) = together("choice", key, a)
        own = shape_of(a)
        axis = axis_of(axis, len(own))
        n = own[axis]
    draws = math.prod(shape)
    if draws == 0:
        return np.zeros(shape, int if is_number else dtype_of(a))
    if n <= 0:
        raise ValueError("choice: a must have elements unless none are drawn")
    if not replace and draws > n:
        raise ValueError(f"choice: cannot draw {draws} elements without replacement from {n}")
    if p is None:
        index = randint(key, shape, 0, n) if replace else shuffled(key, shape=(n,), axis=0)[:draws]
    else:
        index = _weighted(key, p, n, shape, draws, replace, mode)
    if is_number:
        return index if replace else np.reshape(index, shape)
    found = np.take(a, np.reshape(index, (draws,)), axis=axis)
    return np.reshape(found, (*own[:axis], *shape, *own[axis + 1 :]))[()]


def _weighted(key: Any, p: Any, n: int, shape: tuple, draws: int, replace: bool, mode: Any) -> Any:
    (p,) = together("choice", key, p)
    dtype = inexact_dtype(p)
    (p,) = parameters("choice", key, dtype, p)
    if shape_of(p) != (n,):
        raise ValueError(f"choice: p must have shape ({n},), one probability per element, got {shape_of(p)}")
    if replace:
        total = np.cumsum(p)
        level = total[-1] * (1 - uniform(key, shape, dtype))
        return np.searchsorted(total, level)
    with np.errstate(divide="ignore"):
        logs = np.log(p)
    return top_k(gumbel(key, (n,), dtype, mode) + logs, draws)[1]


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Any:
    """Normal vectors of a mean and a covariance.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    mean : array of shape (..., n)
        The mean; it may be traced.
    cov : array of shape (..., n, n)
        The covariance; it may be traced.
    shape : tuple of ints, optional
        How many vectors; as many as mean and cov have by default.
    dtype : dtype, optional
        Of the standard normal numbers that the vectors are made of.
    method : {"cholesky", "eigh", "svd"}
        How the covariance is factorised. "cholesky" needs it positive definite.

    Returns
    -------
    array of shape (*shape, n)
        Of the dtype of mean and cov together.

    Raises
    ------
    TypeError
        `key` is no key.
    ValueError
        Shapes do not fit, or there is no such method.

    Notes
    -----
    It is differentiable in mean and cov. The numbers are JAX's, to rounding.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.multivariate_normal(funcad.random.key(0), np.zeros(2), np.eye(2)).round(6)
    array([-0.205842, -0.784766])
    >>> flat = np.array([[1.0, 1.0], [1.0, 1.0]])  # of rank 1
    >>> x = funcad.random.multivariate_normal(funcad.random.key(0), np.zeros(2), flat, (3,), method="svd")
    >>> np.allclose(x[:, 0], x[:, 1])
    True

    See also
    --------
    normal
    """
    check_key("multivariate_normal", key)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f"multivariate_normal: method must be 'cholesky', 'eigh' or 'svd', got {method!r}")
    mean, cov = together("multivariate_normal", key, mean, cov)
    common = inexact_dtype(mean, cov)
    mean, cov = parameters("multivariate_normal", key, common, mean, cov)
    dtype = float_dtype("multivariate_normal", common if dtype is None else dtype)
    m, c = shape_of(mean), shape_of(cov)
    if len(m) < 1 or len(c) < 2 or c[-2:] != (m[-1], m[-1]):
        raise ValueError(f"multivariate_normal: mean must be (..., n) and cov (..., n, n), got shapes {m} and {c}")
    batch = np.broadcast_shapes(m[:-1], c[:-2])
    shape = batch if shape is None else shape_argument(shape)
    if np.broadcast_shapes(shape, batch) != shape:
        raise ValueError(f"multivariate_normal: mean {m} and cov {c} do not broadcast to shape={shape}")
    if method == "cholesky":
        factor = np.linalg.cholesky(cov)
    elif method == "eigh":
        w, v = np.linalg.eigh(cov)
        factor = v * np.sqrt(w)[..., None, :]
    else:
        u, s, _ = np.linalg.svd(cov)
        factor = u * np.sqrt(s)[..., None, :]
    z = draw(key, "normal", dtype, (*shape, m[-1]))
    return mean + np.einsum("...ij,...j->...i", factor, z)


def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Orthogonal matrices, uniform (Haar): shape (*shape, n, m), with orthonormal rows or columns if m is not n. JAX's.

    >>> import funcad
    >>> q = funcad.random.orthogonal(funcad.random.key(0), 3)
    >>> (q @ q.T).round(6) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    check_key("orthogonal", key)
    dtype = float_dtype("orthogonal", dtype, "fc")
    n = operator.index(n)
    columns = n if m is None else operator.index(m)
    shape = shape_argument(shape)
    wide, narrow = max(n, columns), min(n, columns)
    z = normal(key, (*shape, wide, narrow), dtype)
    q, r = np.linalg.qr(z)
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    x = q * np.sign(diagonal)[..., None, :]
    return np.swapaxes(x, -1, -2) if n < columns else x

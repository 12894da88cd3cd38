"""Discrete distributions: integers (and counts as floats), which have no derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from funcad.host.layout import native_dtype
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import array_of, axis_of, move, shape_argument
from funcad.primitives.arithmetic import sub
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.rejection import binomial_draw, poisson_draw
from funcad.primitives.sorting import top_k
from funcad.random.basic import uniform
from funcad.random.continuous import gumbel
from funcad.random.draw_operands import check_key, inexact_dtype, parameters, shape_of_draw, together
from funcad.random.keys import split

__all__ = ["binomial", "categorical", "geometric", "multinomial", "poisson"]


def _integer_dtype(name: str, dtype: Any) -> np.dtype:
    found = native_dtype(int if dtype is None else dtype)
    if found.kind not in "iu":
        raise ValueError(f"{name}: dtype must be an integer dtype, got {found}")
    return found


def _constant(x: Any) -> Any:
    return stop_gradient(x) if type(x) is Tracer else x


def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True, mode: str | None = None) -> Any:
    """Categories, with probabilities proportional to exp(logits) along an axis. JAX's.

    logits has any shape; `shape` must end in that shape without `axis` (the default). With `replace=False` (Gumbel top-k), the
    leading part of `shape` counts the draws. `mode` is that of `gumbel`.

    >>> import numpy as np, funcad
    >>> funcad.random.categorical(funcad.random.key(0), np.log([0.1, 0.2, 0.7]), shape=(4,))
    array([2, 2, 2, 1])
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
    _, chosen = top_k(move(noisy, axis, len(own) - 1), number)
    return np.reshape(move(chosen, len(batch), 0), shape)


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
    return (np.floor(np.log(u) / np.log1p(-p)) + 1).astype(found)

"""Draws that are accepted or rejected: gamma (Marsaglia and Tsang 2000), poisson (Knuth; Hormann's PTRS 1993), binomial
(geometric gaps; Hormann's BTRS 1993). And permutations, by sorting on random bits.

Idea: each element's numbers depend on its key and its count only (see bits.py), so a further round is drawn for the elements
that need it, and for those alone, and yet gives the numbers that JAX's loops over the whole array use. Keys of shape
(*lanes, 2) go with parameters of shape (*lanes, ...): that is the whole batching rule. NumPy works through tiles.

A gamma sample is differentiable in its shape by implicit differentiation: at a fixed value of the distribution function,
dx/da = -(dP/da) / (dP/dx). Poisson and binomial counts jump, so they have no derivative by their parameters: integers have
none anyway, floats raise. Trap: a comparison that falls within a rounding error of equality may fall the other way than JAX's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import ceil, log, prod
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.primitives import transcendental
from funcad.primitives.arithmetic import add, div, mul, sub
from funcad.primitives.comparison import lt, select
from funcad.primitives.families import native_order
from funcad.primitives.random_bits import draw_p, finished, hash_words, threefry
from funcad.primitives.shape import batched_with
from funcad.primitives.special_gamma import digamma
from funcad.primitives.special_incomplete import random_gamma_grad

_TILE = 1 << 13
_U4, _U8 = np.dtype(np.uint32), np.dtype(np.uint64)


def _gammaln(xp: Any, x: Any) -> Any:
    return importlib.import_module("scipy.special" if xp is np else "cupyx.scipy.special").gammaln(x)


def _uniform(xp: Any, keys: tuple, dtype: np.dtype) -> Any:
    """The first uniform number of each key."""
    return finished(xp, *hash_words(xp, keys, 0), "unit", dtype)


class _Elements:
    """The elements of a draw: the keys of its lanes, each element's lane, and its count in that lane."""

    __slots__ = ("xp", "words", "lane", "count")

    def __init__(self, xp: Any, keys: Any, shape: tuple):
        keys_flat = native_order(keys).reshape(-1, 2)
        per_lane = prod(shape[keys.ndim - 1 :])
        self.xp = xp
        self.words = (keys_flat[:, 0].copy(), keys_flat[:, 1].copy())
        self.lane, count = xp.divmod(xp.arange(prod(shape)), max(per_lane, 1))
        self.count = count.astype(_U4)

    def chunks(self, which: Any) -> list:
        """The elements `which` in parts that stay in the cache."""
        step = _TILE if self.xp is np else max(which.size, 1)
        return [which[i : i + step] for i in range(0, which.size, step)]

    def uniform(self, words: tuple, which: Any, dtype: np.dtype) -> Any:
        """Uniform numbers for some elements, from keys given by lane."""
        lane = self.lane[which]
        own = (words[0][lane], words[1][lane])
        return finished(self.xp, *threefry(self.xp, *own, self.count[which]), "unit", dtype)


def _over_tiles(xp: Any, keys: Any, a: Any, f: Callable[..., Any]) -> Any:
    """f(words of a key of its own per element, values of a), tile by tile over all elements."""
    elements = _Elements(xp, keys, a.shape)
    flat, out = a.reshape(-1), xp.empty(a.size, a.dtype)
    for which in elements.chunks(xp.arange(a.size)):
        lane = elements.lane[which]
        own = threefry(xp, elements.words[0][lane], elements.words[1][lane], elements.count[which])
        out[which] = f(own, flat[which])
    return out.reshape(a.shape)


def _last_accepted(elements: _Elements, dtype: np.dtype, rounds: int, propose: Callable[..., Any], parameters: tuple) -> Any:
    """What a rejection loop over whole lanes leaves: each element's last accepted proposal.

    JAX's loop goes on until every element of a lane has been accepted once, and takes over what is accepted meanwhile. So
    first find out when each lane stops, going forward with the elements not yet accepted; then go backward from there with
    those that have not been found. `propose(u, v, *parameters)` gives the candidate and whether it is accepted.
    """
    xp = elements.xp
    total = elements.lane.size
    out = xp.full(total, -1, dtype)
    found_in = xp.full(total, -1, np.int64)
    stop = xp.zeros(elements.words[0].size, np.int64)
    words, keys = elements.words, []
    open_ = xp.arange(total)
    while open_.size and len(keys) < rounds:
        keys.append((hash_words(xp, words, 1), hash_words(xp, words, 2)))
        words = hash_words(xp, words, 0)
        stop[elements.lane[open_]] = len(keys) - 1
        rest = []
        for which in elements.chunks(open_):
            u, v = (elements.uniform(w, which, dtype) for w in keys[-1])
            k, accepted = propose(u, v, *[p[which] for p in parameters])
            good = which[xp.nonzero(accepted)[0]]
            out[good] = k[xp.nonzero(accepted)[0]]
            found_in[good] = len(keys) - 1
            rest.append(which[xp.nonzero(~accepted)[0]])
        open_ = xp.concatenate(rest)
    table = [tuple(xp.stack([pair[i][j] for pair in keys]).reshape(-1) for j in (0, 1)) for i in (0, 1)]
    lanes = elements.words[0].size
    step = 0
    open_ = xp.nonzero(found_in < stop[elements.lane])[0]
    while open_.size:
        rest = []
        for which in elements.chunks(open_):
            lane = elements.lane[which]
            place = (stop[lane] - step) * lanes + lane
            u, v = (finished(xp, *threefry(xp, w[0][place], w[1][place], elements.count[which]), "unit", dtype) for w in table)
            k, accepted = propose(u, v, *[p[which] for p in parameters])
            good = xp.nonzero(accepted)[0]
            out[which[good]] = k[good]
            which = which[xp.nonzero(~accepted)[0]]
            rest.append(which[xp.nonzero(stop[elements.lane[which]] - step - 1 > found_in[which])[0]])
        open_ = xp.concatenate(rest)
        step += 1
    return out


def _check_keys(name: str, keys: Aval, *parameters: Aval) -> None:
    lanes = keys.shape[:-1]
    if keys.dtype != _U4 or keys.shape[-1:] != (2,) or any(p.shape[: len(lanes)] != lanes for p in parameters):
        raise TypeError(f"{name}: keys must be uint32 of shape (*lanes, 2), parameters (*lanes, ...), got {keys}, {parameters}")


def _unzip(keys: tuple, which: Any) -> tuple:
    return keys[0][which], keys[1][which]


# -- gamma


def _gamma_tile(xp: Any, keys: tuple, alpha: Any, log_space: bool) -> Any:
    dtype = alpha.dtype
    large = alpha >= 1
    d = xp.where(large, alpha, alpha + 1) - dtype.type(1 / 3)
    c = dtype.type(1 / 3) / xp.sqrt(d)
    boost_keys = hash_words(xp, keys, 1)
    keys = hash_words(xp, keys, 0)
    volume = xp.empty_like(alpha)
    open_ = xp.arange(alpha.size)
    while open_.size:
        v, x = _positive(xp, hash_words(xp, keys, 1), c[open_])
        square = x * x
        v = v * v * v
        uniform = _uniform(xp, hash_words(xp, keys, 2), dtype)
        volume[open_] = v
        rejected = (uniform >= 1 - dtype.type(0.0331) * (square * square)) & (
            xp.log(uniform) >= square * dtype.type(0.5) + d[open_] * (1 - v + xp.log(v))
        )
        again = xp.nonzero(rejected)[0]
        open_ = open_[again]
        keys = hash_words(xp, _unzip(keys, again), 0)
    if log_space:
        result = xp.log(d) + xp.log(volume)
    else:
        result = d * volume
    small = xp.nonzero(~large)[0]  # a sample for a + 1, times uniform ** (1 / a)
    if small.size:
        boost = _uniform(xp, _unzip(boost_keys, small), dtype)
        inverse = 1 / alpha[small]
        if log_space:
            boost = xp.log1p(-boost)
            result[small] = result[small] + xp.where(boost == 0, dtype.type(0), boost * inverse)
        else:
            result[small] = result[small] * (1 - boost) ** inverse
    return result


def _positive(xp: Any, keys: tuple, c: Any) -> tuple[Any, Any]:
    """1 + c x with x normal, drawn until it is positive; and x."""
    sub_keys = hash_words(xp, keys, 1)
    x = finished(xp, *hash_words(xp, sub_keys, 0), "normal", c.dtype)
    v = 1 + x * c
    open_ = xp.nonzero(v <= 0)[0]
    keys = _unzip(keys, open_)
    while open_.size:
        keys = hash_words(xp, keys, 0)
        drawn = finished(xp, *hash_words(xp, hash_words(xp, keys, 1), 0), "normal", c.dtype)
        x[open_] = drawn
        v[open_] = 1 + drawn * c[open_]
        again = xp.nonzero(v[open_] <= 0)[0]
        open_, keys = open_[again], _unzip(keys, again)
    return v, x


def _gamma_impl(xp: Any, keys: Any, a: Any, *, log_space: bool) -> Any:
    with np.errstate(all="ignore"):
        out = _over_tiles(xp, keys, native_order(xp.asarray(a)), lambda own, alpha: _gamma_tile(xp, own, alpha, log_space))
    return out[()] if xp is np else out


def _gamma_abstract(keys: Aval, a: Aval, *, log_space: bool) -> Aval:
    _check_keys("gamma", keys, a)
    return Aval(a.shape, a.dtype)


_LOG_TINY = -60.0  # below exp of this, the distribution function is its leading power x ** a / gamma(a + 1)


def _gamma_jvp(tangents: Any, out: Any, keys: Any, a: Any, *, log_space: bool) -> Any:
    t = tangents[1]
    if t is None:
        return None
    if not log_space:
        return mul(random_gamma_grad(a, out), t)
    is_tiny = lt(out, _LOG_TINY)
    sample = transcendental.exp(select(is_tiny, 0.0, out))
    usual = div(random_gamma_grad(a, sample), sample)
    return mul(select(is_tiny, div(sub(digamma(add(a, 1.0)), out), a), usual), t)


# A gamma sample, or its logarithm, for each element of a.
random_gamma_p = Primitive(
    "random_gamma",
    _gamma_impl,
    _gamma_abstract,
    jvp=_gamma_jvp,
    batch=batched_with(lambda: random_gamma_p),
)


# -- poisson


def _knuth(elements: _Elements, which: Any, rate: Any, rounds: int) -> Any:
    """How many uniform numbers can be multiplied before the product falls below exp(-rate)."""
    xp = elements.xp
    k = xp.zeros(rate.shape, np.int64)
    open_ = xp.nonzero(rate > 0)[0]
    total = xp.zeros(open_.shape, np.float32)
    words = elements.words
    while open_.size and rounds:
        sub, words = hash_words(xp, words, 1), hash_words(xp, words, 0)
        k[open_] += 1
        total = total + xp.log(elements.uniform(sub, which[open_], total.dtype))
        again = xp.nonzero(total > -rate[open_])[0]
        open_, total = open_[again], total[again]
        rounds -= 1
    return k - 1


def _ptrs(xp: Any) -> Callable[..., Any]:
    """Hormann's transformed rejection with squeeze, for rates from 10 on; in float32, as JAX."""

    def propose(u: Any, v: Any, rate: Any) -> tuple[Any, Any]:
        b = 0.931 + 2.53 * xp.sqrt(rate)
        a = -0.059 + 0.02483 * b
        u = u - np.float32(0.5)
        shifted = 0.5 - xp.abs(u)
        k = xp.floor((2 * a / shifted + b) * u + rate + np.float32(0.43))
        s = xp.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (shifted * shifted) + b))
        t = -rate + k * xp.log(rate) - _gammaln(xp, k + 1)
        inside = (shifted >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        outside = (k < 0) | (shifted < 0.013) & (v > shifted)
        return k, inside | ~outside & (s <= t)

    return propose


def _poisson_impl(xp: Any, keys: Any, rate: Any, *, dtype: np.dtype) -> Any:
    rounds = int(np.iinfo(dtype).max)
    rate = native_order(xp.asarray(rate))
    elements, flat = _Elements(xp, keys, rate.shape), rate.reshape(-1)
    is_large = flat >= 10
    out = xp.empty(flat.size, dtype)
    with np.errstate(all="ignore"):
        for which in elements.chunks(xp.nonzero(~is_large)[0]):
            out[which] = _knuth(elements, which, flat[which], rounds).astype(dtype)
        if bool(is_large.any()):  # the others take part with a rate of 1e5: the lane stops when all are accepted
            found = _last_accepted(elements, flat.dtype, rounds, _ptrs(xp), (xp.where(is_large, flat, flat.dtype.type(1e5)),))
            most = np.iinfo(dtype).max  # a larger count is that, and NaN is 0, as in JAX
            counts = xp.where(found < float(most), found, 0).astype(dtype)
            counts = xp.where(found >= float(most), dtype.type(most), counts)
            out = xp.where(is_large, counts, out)
    out = xp.where(flat == 0, dtype.type(0), out).reshape(rate.shape)
    return out[()] if xp is np else out


def _poisson_abstract(keys: Aval, rate: Aval, *, dtype: np.dtype) -> Aval:
    _check_keys("poisson", keys, rate)
    return Aval(rate.shape, dtype)


# Poisson counts for each element of rate (float32).
poisson_draw = Primitive(
    "random_poisson",
    _poisson_impl,
    _poisson_abstract,
    jvp=lambda tangents, out, keys, rate, *, dtype: None,
    batch=batched_with(lambda: poisson_draw),
)


# -- binomial

_STIRLING = [  # log(k!) minus Stirling's formula without its tail, k = 0 .. 9 (Hormann 1993)
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.010411265261972, 0.00925546218271273, 0.00833056343336287,
]  # fmt: skip


def _stirling_tail(xp: Any, k: Any) -> Any:
    small = xp.clip(k, 0.0, 9.0)
    squared = (small + 1) * (small + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / squared) / squared) / (small + 1)
    return xp.where(k <= 9, xp.asarray(np.array(_STIRLING, k.dtype))[xp.floor(small).astype(np.int64)], series)


def _by_gaps(elements: _Elements, which: Any, n: Any, p: Any) -> Any:
    """How many geometric gaps fit into n: few, as n p is small."""
    xp = elements.xp
    k = xp.zeros_like(p)
    log_rest = -xp.abs(xp.log1p(-p))  # -0 for p = -0 too, or the gaps would be negative and never fill n
    open_ = xp.nonzero(n >= 0)[0]
    total = xp.zeros(open_.shape, p.dtype)
    words = elements.words
    while open_.size:
        sub, words = hash_words(xp, words, 0), hash_words(xp, words, 1)
        k[open_] += 1
        total = total + xp.ceil(xp.log(elements.uniform(sub, which[open_], p.dtype)) / log_rest[open_])
        again = xp.nonzero(total <= n[open_])[0]
        open_, total = open_[again], total[again]
    return k - 1


def _btrs(xp: Any) -> Callable[..., Any]:
    """Hormann's transformed rejection with squeeze, for n p > 10."""

    def propose(u: Any, v: Any, n: Any, p: Any) -> tuple[Any, Any]:
        deviation = xp.sqrt(n * p * (1 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        odds = p / (1 - p)
        m = xp.floor((n + 1) * p)
        u = u - p.dtype.type(0.5)
        us = 0.5 - xp.abs(u)
        inside = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        k = xp.floor((2 * a / us + b) * u + (n * p + 0.5))
        outside = (k < 0) | (k > n)
        v = xp.log(v * ((2.83 + 5.1 / b) * deviation) / (a / (us * us) + b))
        bound = (
            (m + 0.5) * xp.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * xp.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * xp.log(odds * (n - k + 1) / (k + 1))
            + _stirling_tail(xp, m)
            + _stirling_tail(xp, n - m)
            - _stirling_tail(xp, xp.where(outside, m, k))
            - _stirling_tail(xp, xp.where(outside, m, n - k))
        )
        return k, inside | ~outside & (v <= bound)

    return propose


def _binomial_impl(xp: Any, keys: Any, n: Any, p: Any, *, dtype: np.dtype) -> Any:
    shape = p.shape
    elements = _Elements(xp, keys, shape)
    n, p = [native_order(xp.asarray(x)).reshape(-1) for x in (n, p)]
    kind = p.dtype.type
    out = xp.zeros(p.size, dtype)
    with np.errstate(all="ignore"):
        is_small = p < 0.5
        q = xp.where(is_small, p, 1 - p)
        bad_n = xp.isnan(n) | (n < 0)
        invalid = bad_n | xp.isnan(q) | (q < 0)
        q = xp.where(xp.isnan(q) | (q < 0), kind(0.01), q)
        infinite = xp.isinf(n)
        trials = xp.floor(n)
        by_gaps = bad_n | (n * q <= 10) | infinite & (q == 0)
        for which in elements.chunks(xp.nonzero(by_gaps & ~invalid & ~infinite)[0]):
            out[which] = _by_gaps(elements, which, trials[which], q[which]).astype(dtype)
        if not bool(by_gaps.all()):  # the others take part as JAX's do: the lane stops when all are accepted
            parameters = (xp.where(by_gaps, kind(1e4), trials), xp.where(by_gaps, kind(0.5), q))
            found = _last_accepted(elements, p.dtype, 1 << 62, _btrs(xp), parameters)
            out = xp.where(by_gaps, out, found.astype(dtype))
        out = xp.where(is_small, out, trials.astype(dtype) - out)
        out = xp.where(invalid, dtype.type(np.nan), xp.where(infinite, dtype.type(np.inf), out)).reshape(shape)
    return out[()] if xp is np else out


def _binomial_abstract(keys: Aval, n: Aval, p: Aval, *, dtype: np.dtype) -> Aval:
    _check_keys("binomial", keys, n, p)
    if n.shape != p.shape or n.dtype != p.dtype:
        raise TypeError(f"binomial: n and p must have one shape and one dtype, got {n} and {p}")
    return Aval(n.shape, dtype)


def _binomial_jvp(tangents: Any, out: Any, keys: Any, n: Any, p: Any, *, dtype: np.dtype) -> Any:
    if tangents[1] is None and tangents[2] is None:
        return None
    raise MissingRuleError(
        "binomial counts jump as n and p change, so they have no derivative by them.\n"
        "Remedy: take funcad.stop_gradient(p), and differentiate the log probability of the sample instead (score function)."
    )


# Binomial counts, as floats, for each element of n and p.
binomial_draw = Primitive(
    "random_binomial",
    _binomial_impl,
    _binomial_abstract,
    jvp=_binomial_jvp,
    batch=batched_with(lambda: binomial_draw),
)


# -- permutations


def _shuffled_impl(xp: Any, keys: Any, *, shape: tuple, axis: int) -> Any:
    length = shape[axis]
    size = prod(shape)
    rounds = ceil(3 * log(max(1, size)) / log(2**32 - 1))  # enough for equal sort keys not to matter
    lanes = keys.shape[:-1]
    along = xp.arange(length).reshape([length if i == axis else 1 for i in range(len(shape))])
    words = keys.reshape(-1, 2)
    words = (words[:, 0].copy(), words[:, 1].copy())
    order = xp.broadcast_to(along, (prod(lanes), *shape))
    place = along.astype(_U8)
    for _ in range(rounds):
        words, sub = hash_words(xp, words, 0), hash_words(xp, words, 1)
        bits = _bits(xp, sub, size).reshape(order.shape)
        ranked = xp.sort(bits.astype(_U8) << _U8.type(32) | place, axis=axis + 1)  # the place breaks ties: a stable order
        order = xp.take_along_axis(order, (ranked & _U8.type(0xFFFFFFFF)).astype(np.int64), axis=axis + 1)
    return xp.ascontiguousarray(order).reshape((*lanes, *shape))


def _bits(xp: Any, words: tuple, size: int) -> Any:
    from_keys = xp.stack(words, axis=-1)
    return draw_p.impl(xp, from_keys, kind="bits", dtype=_U4, shape=(size,))


def _shuffled_abstract(keys: Aval, *, shape: tuple, axis: int) -> Aval:
    _check_keys("permutation", keys)
    return Aval((*keys.shape[:-1], *shape), np.dtype(np.int64))


# The positions 0 .. shape[axis] - 1 along an axis, in random orders.
shuffled = Primitive(
    "random_permutation",
    _shuffled_impl,
    _shuffled_abstract,
    jvp=lambda tangents, out, keys, **params: None,
    batch=lambda size, args, batched, **params: (shuffled(args[0], **params), True),
)

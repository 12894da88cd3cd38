"""Reductions over moving windows: sums, maxima and minima (the heart of pooling).

All parameters have one entry per axis of x: `window` (how many elements), `strides` (how far it moves), `padding`
(pairs; negative ones crop), `base_dilation` (holes between the elements of x), `window_dilation` (holes between those
of the window). Padding and holes hold the neutral element and never win.

The sum is linear and is its own transpose with strides and base dilation exchanged. The derivative of max and min is
shared equally among the tied elements of a window, as everywhere in funcad (JAX gives it to the first of them); a NaN
result is tied with the NaNs that made it. `window_mean` and `window_spread` are the two linear maps of that
derivative, each other's transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.primitives import families
from funcad.primitives.convolution import dilated, placed, placement, window_count
from funcad.primitives.families import align_batched, structural
from funcad.primitives.shape import zeros

__all__ = ["reduce_window_sum", "reduce_window_max", "reduce_window_min", "windows_shape"]


def windows_shape(
    shape: tuple, *, window: tuple, strides: tuple, padding: tuple, base_dilation: tuple, window_dilation: tuple
) -> tuple:
    """The shape of the result of a window reduction."""
    return tuple(
        [
            window_count(max(dilated(n, b) + low + high, 0), dilated(w, d), s)
            for n, w, s, (low, high), b, d in zip(shape, window, strides, padding, base_dilation, window_dilation)
        ]
    )


def _abstract(x: Aval, **params: Any) -> Aval:
    for name, value in params.items():
        if len(value) != x.ndim or (name != "padding" and any(n < 1 for n in value)):
            raise ValueError(f"reduce_window: {name} {value} must have one positive entry for each axis of {x}")
    return Aval(windows_shape(x.shape, **params), x.dtype)


def _offsets(window: tuple, strides: tuple, window_dilation: tuple, out: tuple) -> Iterator[tuple]:
    """For each place in the window, the index that picks that element of every window."""
    for place in product(*[range(w) for w in window]):
        yield tuple([slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(place, window_dilation, out, strides)])


def _reduce(xp: Any, x: Any, combine: Callable[..., Any], neutral: Any, params: dict[str, Any]) -> Any:
    """One axis after the other: a window of a x b costs a + b steps instead of a * b."""
    out = windows_shape(x.shape, **params)
    if 0 in out:
        return xp.zeros(out, x.dtype)
    x = placed(xp, x, params["padding"], params["base_dilation"], 0, neutral)
    for axis, (w, s, d, n) in enumerate(zip(params["window"], params["strides"], params["window_dilation"], out)):
        if w == 1 and s == 1:
            continue
        before = (slice(None),) * axis
        total = x[(*before, slice(0, (n - 1) * s + 1, s))]
        if w > 1:
            total = total.copy()
        for k in range(1, w):
            combine(total, x[(*before, slice(k * d, k * d + (n - 1) * s + 1, s))], out=total)
        x = total
    return x


def _sum_impl(xp: Any, x: Any, **params: Any) -> Any:
    return _reduce(xp, x, xp.add, 0, params)


def lowest(dtype: np.dtype) -> Any:
    """The neutral element of max."""
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def highest(dtype: np.dtype) -> Any:
    """The neutral element of min."""
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _sum_transpose(ct: Any, x: Aval, **params: Any) -> Any:
    out = windows_shape(x.shape, **params)
    if 0 in out or 0 in x.shape:
        return zeros(x)
    pads = []
    sizes = zip(
        x.shape, out, params["window"], params["strides"], params["padding"], params["base_dilation"], params["window_dilation"]
    )
    for n, m, w, s, (low, _), b, d in sizes:
        reach = dilated(w, d)
        before = reach - 1 - low
        pads.append((before, dilated(n, b) + reach - 1 - dilated(m, s) - before))
    return reduce_window_sum(
        ct,
        window=params["window"],
        strides=params["base_dilation"],
        padding=tuple(pads),
        base_dilation=params["strides"],
        window_dilation=params["window_dilation"],
    )


def _batched(params: dict[str, Any]) -> dict[str, Any]:
    return {name: (((0, 0) if name == "padding" else 1), *value) for name, value in params.items()}


# Sums over windows; parameters as in the module's text, all required.
reduce_window_sum = structural(
    "reduce_window_sum",
    _sum_impl,
    _abstract,
    _sum_transpose,
    lambda size, x, **params: reduce_window_sum(x, **_batched(params)),
    reach="picks",
)


# ---- the derivative of max and min


def _ties(xp: Any, x: Any, out: Any, params: dict[str, Any]) -> tuple[tuple, tuple, tuple, list]:
    """Padded shape, target and source of x in it, and for each place in the window its index and where it ties with out."""
    padding, dilation = params["padding"], params["base_dilation"]
    shape, target, source = placement(x.shape, padding, dilation, 0)
    full = placed(xp, x, padding, dilation, 0)
    valid = None if full.shape == x.shape else placed(xp, xp.ones(x.shape, bool), padding, dilation, 0)
    pairs = []
    for index in _offsets(params["window"], params["strides"], params["window_dilation"], out.shape):
        part = full[index]
        mask = (part == out) | ((part != part) & (out != out))
        if valid is not None:
            mask &= valid[index]
        pairs.append((index, mask))
    return shape, target, source, pairs


def _count(xp: Any, pairs: list, dtype: np.dtype) -> Any:
    total = xp.zeros(pairs[0][1].shape, dtype)
    for _, mask in pairs:
        total += mask
    return xp.maximum(total, xp.ones((), dtype))  # a window of padding only ties with nothing


def _mean_impl(xp: Any, t: Any, x: Any, out: Any, **params: Any) -> Any:
    if 0 in out.shape:
        return xp.zeros(out.shape, t.dtype)
    *_, pairs = _ties(xp, x, out, params)
    tangent = placed(xp, t, params["padding"], params["base_dilation"], 0)
    total = xp.zeros(out.shape, t.dtype)
    zero = xp.zeros((), t.dtype)
    for index, mask in pairs:
        total += xp.where(mask, tangent[index], zero)
    return total / _count(xp, pairs, families.REAL(t.dtype))


def _spread_impl(xp: Any, ct: Any, x: Any, out: Any, **params: Any) -> Any:
    result = xp.zeros(x.shape, ct.dtype)
    if 0 in out.shape:
        return result
    shape, target, source, pairs = _ties(xp, x, out, params)
    share = ct / _count(xp, pairs, families.REAL(ct.dtype))
    total = xp.zeros(shape, ct.dtype)
    zero = xp.zeros((), ct.dtype)
    for index, mask in pairs:
        total[index] += xp.where(mask, share, zero)
    result[source] = total[target]
    return result


def _tied(name: str, impl: Callable[..., Any], aval: Callable[..., Aval], other: Any, reach: str) -> Primitive:
    def batch(size: int, args: Any, batched: Any, **params: Any) -> tuple[Any, bool]:
        return primitive(*align_batched(size, args, batched), **_batched(params)), True

    primitive = Primitive(
        name,
        impl,
        aval,
        jvp=lambda tangents, result, t, x, out, **params: (
            None if tangents[0] is None else primitive(tangents[0], x, out, **params)
        ),
        transpose=lambda ct, t, x, out, **params: [other()(ct, x, out, **params), None, None],
        batch=batch,
        reach=reach,
    )
    return primitive


window_mean_p = _tied(  # for each window the mean tangent of the elements that tie with its result
    "window_mean", _mean_impl, lambda t, x, out, **params: Aval(out.shape, t.dtype), lambda: window_spread_p, "reads"
)
window_spread_p = _tied(  # each of those elements gets its share of the window's cotangent
    "window_spread", _spread_impl, lambda ct, x, out, **params: Aval(x.shape, ct.dtype), lambda: window_mean_p, "picks"
)


def _extremum(name: str, combine: str, neutral: Callable[[np.dtype], Any]) -> Primitive:
    primitive = Primitive(
        name,
        lambda xp, x, **params: _reduce(xp, x, getattr(xp, combine), neutral(x.dtype), params),
        _abstract,
        jvp=lambda tangents, out, x, **params: window_mean_p(tangents[0], x, out, **params),
        batch=lambda size, args, batched, **params: (primitive(args[0], **_batched(params)), True),
    )
    return primitive


# Maxima over windows; windows of padding only give the dtype's lowest value.
reduce_window_max = _extremum("reduce_window_max", "maximum", lowest)
# Minima over windows; windows of padding only give the dtype's highest value.
reduce_window_min = _extremum("reduce_window_min", "minimum", highest)

"""Bessel functions by their order: plain numerics, no primitives.

Idea: nothing cancels. J and Y: Nicholson's integral gives the derivative of J^2 + Y^2, Watson's (13.73) J dY - Y dJ; the two
linear equations are well conditioned at every order. K: the mean of t tanh(v t) under exp(-x cosh t) cosh(v t). I: the mean of
log(x / 2) - digamma(k + v + 1) under the terms of the power series, summed outwards from the largest; where the order is small
beside the root of x these terms cancel, and Schlaefli's integral is used. All are ratios to SciPy's own values. The argument x
must be positive; at 0 the derivatives are 0 for positive orders, and elsewhere NaN.
"""

from __future__ import annotations

from math import pi
from typing import Any

from funcad.primitives.special_rules import TINY, bend, function_of, gauss, special_of

__all__ = ["jv_yv_order", "iv_order", "kv_order"]


def _span(xp: Any, x: Any, v: Any, rise: Any) -> tuple[Any, Any, Any]:
    """The interval where x rise(t) - v t exceeds its minimum by less than 40, and that minimum; v >= 0, rise: sinh or cosh."""
    cosh = rise is xp.cosh
    peak = xp.arcsinh(v / x) if cosh else xp.arccosh(xp.maximum(v / x, 1.0))
    least = x * rise(peak) - v * peak
    wide = 45.0 + abs(least)
    far_up = xp.arcsinh((wide + v * xp.arcsinh((wide + 40.0 * v) / x)) / x) + 1.0 - peak
    far_down, low_up, low_down = peak, 0.0 * x, 0.0 * x
    for _ in range(40):  # bisection on both sides of the peak
        up, down = 0.5 * (low_up + far_up), 0.5 * (low_down + far_down)
        beyond_up = x * rise(peak + up) - v * (peak + up) - least > 40.0
        beyond_down = x * rise(peak - down) - v * (peak - down) - least > 40.0
        far_up, low_up = xp.where(beyond_up, up, far_up), xp.where(beyond_up, low_up, up)
        far_down, low_down = xp.where(beyond_down, down, far_down), xp.where(beyond_down, low_down, down)
    return peak - far_down, far_down + far_up, least


def _jv_yv_moments(xp: Any, v: Any, x: Any) -> tuple[Any, Any, Any]:
    """Integrals over t > 0 of K0(2 x sinh t) times exp(-2 v t), times t sinh(2 v t) exp(-base), and that base.

    K0 has a logarithm at 0: the fourth power of Gauss' points makes it harmless.
    """
    k0e = special_of(xp).k0e
    side = xp.where(v.real < 0, -1.0, 1.0)
    order = side * v
    low, length, least = _span(xp, 2 * x, 2 * order.real, xp.sinh)
    reach = xp.minimum(low + length, 42.0 / (2 * (order.real + x)))  # of what falls off
    falling = rising = odd = 0.0
    for point, weight in zip(*gauss(96)):
        t = reach * point**4
        z = 2 * x * xp.sinh(t)
        falling = falling + weight * point**3 * k0e(z) * xp.exp(-2 * order * t - z)
        t = low + length * point**4
        z = 2 * x * xp.sinh(t)
        term = weight * point**3 * k0e(z) * xp.exp(2 * order * t - z + least)
        rising = rising + term
        odd = odd - term * t * 0.5 * xp.expm1(-4 * order * t)
    even = xp.where(side < 0, 4 * length * rising * xp.exp(-least), 4 * reach * falling)
    return even, 4 * length * odd * side, -least


def jv_yv_order(xp: Any, v: Any, x: Any, *, which: int, twice: bool = False) -> Any:
    """The derivative of jv (which=0) or yv (which=1) by the order, or the second one."""
    inside = (x > 0) & (x < xp.inf) & (abs(v) < xp.inf)
    w, z = xp.where(inside, v, 1.0), xp.where(inside, x, 1.0)
    j, y = function_of(xp, "jv")(w, z), function_of(xp, "yv")(w, z)
    even, odd, base = _jv_yv_moments(xp, w + 1j * TINY if twice else w, z)
    half = xp.exp(0.5 * base)
    scale = xp.maximum(abs(j), abs(y))
    a, b = j / scale, y / scale
    cross = -4 / pi * even / scale  # j dy - y dj
    along = 8 / pi**2 * odd * (half / scale)  # j dj + y dy, over half
    size = a * a + b * b
    if twice:  # a' and b' are as below, the derivative of `size` is twice `along`, all over the scale
        along, cross = along * half / scale, cross / scale
        step = (a * along - b * cross).real / size, (b * along + a * cross).real / size
        change = along.imag / TINY, cross.imag / TINY
        if which:
            out = b * change[0] + a * change[1] - along.real * step[1] + cross.real * step[0]
        else:
            out = a * change[0] - b * change[1] - along.real * step[0] - cross.real * step[1]
        out = scale * out / size
    else:
        out = (b * along * half + a * cross) / size if which else (a * along * half - b * cross) / size
    flat = (x == 0) & (v > 0) & (which == 0) | inside & xp.isinf(scale) & (which == 0)
    return xp.where(flat, 0.0, xp.where(inside, out, xp.nan))


def _kv_ratio(xp: Any, v: Any, x: Any) -> Any:
    """The logarithmic derivative of kv by the order, for orders v >= 0."""
    low, length, least = _span(xp, x, v.real, xp.cosh)
    mass = total = 0.0
    for point, weight in zip(*gauss(96)):
        t = low + length * point
        decay = xp.exp(-2 * v * t)
        term = weight * xp.exp(least + v * t - x * xp.cosh(t))
        mass = mass + term * (1.0 + decay)
        total = total + term * (1.0 - decay) * t
    return total / mass


def kv_order(xp: Any, v: Any, x: Any, *, scaled: bool, twice: bool = False) -> Any:
    """The derivative of kv or kve by the order, or the second one."""
    inside = (x > 0) & (x < xp.inf) & (abs(v) < xp.inf)
    w, z = xp.where(inside, v, 1.0), xp.where(inside, x, 1.0)
    out = function_of(xp, "kve" if scaled else "kv")(w, z)
    out = out * (bend(_kv_ratio(xp, abs(w) + 1j * TINY, z)) if twice else _kv_ratio(xp, abs(w), z) * xp.sign(w))
    return xp.where(inside, out, xp.where(x == xp.inf, 0.0, xp.nan))


def _iv_series(xp: Any, v: Any, x: Any) -> Any:
    """The logarithmic derivative of iv by the order, for v >= 0, from the terms of the power series."""
    digamma = special_of(xp).digamma
    level = xp.log(0.5 * x)
    middle = xp.floor(0.5 * (xp.hypot(v.real, x) - v.real))
    count = int(30 + 4.5 * float(xp.max(x)) ** 0.5) if x.size else 0
    quarter = 0.25 * x * x
    mass, total = 1.0, level - digamma(middle + v + 1.0)
    up, down = xp.ones_like(x), xp.ones_like(x)
    for i in range(count):
        k = middle + i  # from k to k + 1
        up = up * (quarter / ((k + 1.0) * (k + v + 1.0)))
        k = xp.maximum(middle - i, 0.0)  # from k to k - 1; nothing below 0
        down = down * (k * (k + v) / quarter)
        mass = mass + up + down
        total = total + up * (level - digamma(middle + i + v + 2.0)) + down * (level - digamma(xp.where(k > 0, k + v, 1.0)))
    return total / mass


def _iv_uniform(xp: Any, v: Any, x: Any) -> Any:
    """The logarithmic derivative of iv by the order for large x: Debye's expansion, two terms of which are exact enough."""
    size = xp.sqrt(v * v + x * x)
    sine = v / size
    return -xp.arcsinh(v / x) - 0.5 * sine / size + sine * (15.0 * sine**2 - 13.0) / (24.0 * size) / size


def _iv_integral(xp: Any, v: Any, x: Any) -> Any:
    """The derivative of ive by the order, for 0 <= v < sqrt(x), x > 2."""
    end = xp.minimum(pi, 2 * xp.arcsin(xp.sqrt(xp.minimum(20.0 / x, 1.0))))
    last = xp.arccosh(1.0 + 40.0 / x)
    arc = even = odd = 0.0
    for point, weight in zip(*gauss(64)):
        theta, t = end * point, last * point
        arc = arc + weight * theta * xp.sin(v * theta) * xp.exp(-2 * x * xp.sin(0.5 * theta) ** 2)
        term = weight * xp.exp(-x * (xp.cosh(t) + 1.0) - v * t)
        even = even + term
        odd = odd + term * t
    return -end * arc / pi - last * (xp.cos(pi * v) * even - xp.sin(pi * v) / pi * odd)


def iv_order(xp: Any, v: Any, x: Any, *, scaled: bool, twice: bool = False) -> Any:
    """The derivative of iv or ive by the order, or the second one."""
    inside = (x > 0) & (x < xp.inf) & (abs(v) < xp.inf)
    order, z = xp.where(inside, abs(v), 1.0), xp.where(inside, x, 1.0)
    ive, kve = function_of(xp, "ive"), function_of(xp, "kve")
    out = xp.empty(z.shape)
    by_integral = (z > 2.0) & (order < xp.sqrt(z))
    large = ~by_integral & (z > 1e5)
    for mask in (by_integral, large, ~(by_integral | large)):
        if mask.any():
            a, b = order[mask], z[mask]
            moved = a + 1j * TINY if twice else a
            if mask is by_integral:
                found = _iv_integral(xp, moved, b)
                out[mask] = found.imag / TINY if twice else found
            else:
                score = (_iv_uniform if mask is large else _iv_series)(xp, moved, b)
                out[mask] = ive(a, b) * (bend(score) if twice else score)
    negative = inside & (v < 0)
    if negative.any():  # iv(-v) = iv(v) + 2 / pi sin(pi v) kv(v)
        fall = xp.exp(-2 * z)
        k = kve(order, z) * fall
        score = _kv_ratio(xp, order + 1j * TINY, z)
        sine, cosine = 2 / pi * xp.sin(pi * order), 2 * xp.cos(pi * order)
        if twice:
            change = k * (sine * (bend(score) - pi**2) + 2 * cosine * score.real)
            out = xp.where(negative, out + change, out)
        else:
            out = xp.where(negative, -(out + cosine * k + sine * k * score.real), out)
    out = out if scaled else out * xp.exp(z)
    return xp.where(inside, out, xp.where((x == 0) & (v > 0), 0.0, xp.nan))

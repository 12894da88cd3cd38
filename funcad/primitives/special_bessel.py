"""Bessel functions and other solutions of differential equations, by their argument and by their order.

Derivatives by the argument are recurrences, those by the order primitives (below).
"""

from __future__ import annotations

import functools
from math import factorial, nan, pi
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of
from funcad.primitives import placement, shape, special_gamma
from funcad.primitives.arithmetic import add, div, mul, neg, sign, sqrt, square, sub
from funcad.primitives.comparison import and_, eq, gt, lt, select
from funcad.primitives.conversion import complex_dtype, convert, make_complex
from funcad.primitives.families import elementwise
from funcad.primitives.special_logarithms import exp_moment
from funcad.primitives.transcendental import cos, cosh, exp, log, log1p, pow

from funcad.primitives.special_rules import (  # isort: skip
    TINY, bend, by, function_of, gauss, kernel, numeric, numerical, partials, several, special_of, ufunc,
)

# -- Bessel functions by their order: plain numerics, no primitives
#
# Idea: nothing cancels. J and Y: Nicholson's integral gives the derivative of J^2 + Y^2, Watson's (13.73) J dY - Y dJ; the two
# linear equations are well conditioned at every order. K: the mean of t tanh(v t) under exp(-x cosh t) cosh(v t). I: the mean
# of log(x / 2) - digamma(k + v + 1) under the terms of the power series, summed outwards from the largest; where the order is
# small beside the root of x these terms cancel, and Schlaefli's integral is used. All are ratios to SciPy's own values. The
# argument x must be positive; at 0 the derivatives are 0 for positive orders, and elsewhere NaN.


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


# -- Bessel functions


def _over(y: Any, x: Any) -> Any:
    """y / x, one half at x = 0: for the functions of order 1, which start as x / 2."""
    at_zero = eq(x, 0.0)
    return select(at_zero, 0.5, div(y, select(at_zero, 1.0, x)))


_NONE_AT_INFINITY = placement.at_infinity(nan, negative=True)  # as SciPy; CuPy has the limit 0

i0 = ufunc("i0", lambda t, out, x: mul(i1(x), t))
i1 = ufunc("i1", lambda t, out, x: mul(sub(i0(x), _over(out, x)), t))
i0e = ufunc("i0e", lambda t, out, x: mul(sub(i1e(x), mul(sign(x), out)), t))
i1e = ufunc("i1e", lambda t, out, x: mul(sub(sub(i0e(x), _over(out, x)), mul(sign(x), out)), t))
j0 = ufunc("j0", lambda t, out, x: neg(mul(j1(x), t)), device=_NONE_AT_INFINITY)
j1 = ufunc("j1", lambda t, out, x: mul(sub(j0(x), _over(out, x)), t), device=_NONE_AT_INFINITY)
y0 = ufunc("y0", lambda t, out, x: neg(mul(y1(x), t)), device=_NONE_AT_INFINITY)
y1 = ufunc("y1", lambda t, out, x: mul(sub(y0(x), div(out, x)), t), device=_NONE_AT_INFINITY)
k0 = ufunc("k0", lambda t, out, x: neg(mul(k1(x), t)))
k1 = ufunc("k1", lambda t, out, x: neg(mul(add(k0(x), div(out, x)), t)))
k0e = ufunc("k0e", lambda t, out, x: mul(sub(out, k1e(x)), t))
k1e = ufunc("k1e", lambda t, out, x: mul(sub(sub(out, k0e(x)), div(out, x)), t))


def _neighbours(f: Any, combine: Any) -> Any:
    """(f of order v - 1 combined with f of order v + 1) / 2."""
    return lambda v, x: mul(0.5, combine(f(sub(v, 1.0), x), f(add(v, 1.0), x)))


def _by_order(name: str, compute: Any, by_argument: Any) -> Any:
    """The primitive for the derivative by the order: by the argument it obeys the function's own rule."""
    function = name.partition("_")[0]
    kernel(function)(lambda xp, v, x, *, orders: compute(xp, v, x, twice=True))  # it is asked for the second derivative alone
    return numerical(name, compute, lambda t, out, v, x: mul(numeric(function, v, x, orders=(2, 0)), t), by_argument)


jv_order_p: Any = _by_order(
    "jv_order",
    functools.partial(jv_yv_order, which=0),
    lambda t, out, v, x: mul(_neighbours(jv_order_p, sub)(v, x), t),
)
yv_order_p: Any = _by_order(
    "yv_order",
    functools.partial(jv_yv_order, which=1),
    lambda t, out, v, x: mul(_neighbours(yv_order_p, sub)(v, x), t),
)
iv_order_p: Any = _by_order(
    "iv_order",
    functools.partial(iv_order, scaled=False),
    lambda t, out, v, x: mul(_neighbours(iv_order_p, add)(v, x), t),
)
ive_order_p: Any = _by_order(
    "ive_order",
    functools.partial(iv_order, scaled=True),
    lambda t, out, v, x: mul(sub(_neighbours(ive_order_p, add)(v, x), mul(sign(x), out)), t),
)
kv_order_p: Any = _by_order(
    "kv_order",
    functools.partial(kv_order, scaled=False),
    lambda t, out, v, x: neg(mul(_neighbours(kv_order_p, add)(v, x), t)),
)
kve_order_p: Any = _by_order(
    "kve_order",
    functools.partial(kv_order, scaled=True),
    lambda t, out, v, x: mul(sub(out, _neighbours(kve_order_p, add)(v, x)), t),
)

jv = ufunc(
    "jv",
    lambda t, out, v, x: mul(jv_order_p(v, x), t),
    lambda t, out, v, x: mul(_neighbours(jv, sub)(v, x), t),
)
jve = ufunc(  # of real arguments the same function: the scale is exp(-|imaginary part|)
    "jve",
    lambda t, out, v, x: mul(jv_order_p(v, x), t),
    lambda t, out, v, x: mul(_neighbours(jv, sub)(v, x), t),
)
yv = ufunc(
    "yv",
    lambda t, out, v, x: mul(yv_order_p(v, x), t),
    lambda t, out, v, x: mul(_neighbours(yv, sub)(v, x), t),
)
yve = ufunc(
    "yve",
    lambda t, out, v, x: mul(yv_order_p(v, x), t),
    lambda t, out, v, x: mul(_neighbours(yv, sub)(v, x), t),
)
iv = ufunc(
    "iv",
    lambda t, out, v, x: mul(iv_order_p(v, x), t),
    lambda t, out, v, x: mul(_neighbours(iv, add)(v, x), t),
)
kv = ufunc(
    "kv",
    lambda t, out, v, x: mul(kv_order_p(v, x), t),
    lambda t, out, v, x: neg(mul(_neighbours(kv, add)(v, x), t)),
)
ive = ufunc(
    "ive",
    lambda t, out, v, x: mul(ive_order_p(v, x), t),
    lambda t, out, v, x: mul(sub(_neighbours(ive, add)(v, x), mul(sign(x), out)), t),
)
kve = ufunc(
    "kve",
    lambda t, out, v, x: mul(kve_order_p(v, x), t),
    lambda t, out, v, x: mul(sub(out, _neighbours(kve, add)(v, x)), t),
)


def _struve_slope(f: Any, signed: Any) -> Any:
    """Half of f of both neighbours and of what their recurrence leaves (https://dlmf.nist.gov/11.4.E28), also right at 0."""

    def slope(t: Any, out: Any, v: Any, x: Any) -> Any:
        v, x = shape.beside(v, x), shape.beside(x, v)
        more = mul(mul(pow(mul(0.5, x), v), special_gamma.rgamma(add(v, 1.5))), pi**-0.5)
        above, zero = signed(f(add(v, 1.0), x)), eq(v, 0.0)
        below = select(zero, add(more, above), f(select(zero, 0.0, sub(v, 1.0)), x))  # the order -1 by the order 1
        return mul(mul(0.5, add(add(below, above), more)), t)

    return slope


struve = ufunc(
    "struve",
    lambda t, out, v, x: mul(numeric("struve", v, x, orders=(1, 0)), t),
    _struve_slope(lambda v, x: struve(v, x), neg),
)
modstruve = ufunc(
    "modstruve",
    lambda t, out, v, x: mul(numeric("modstruve", v, x, orders=(1, 0)), t),
    _struve_slope(lambda v, x: modstruve(v, x), lambda above: above),
)


# -- solutions of differential equations: Airy, Kelvin, parabolic cylinder, Mathieu and spheroidal functions
#
# SciPy gives them with a derivative, further ones follow from the equation. Here are also the integrals of such functions, and
# functions of degrees. What has no known derivative by a parameter says so.


# -- Airy


def _positive_root(x: Any) -> Any:
    above = gt(x, 0.0)
    return select(above, sqrt(select(above, x, 1.0)), 0.0)


_ai, _aip, _bi, _bip = several(
    "airy",
    (lambda out, x: _aip(x),),
    (lambda out, x: mul(x, _ai(x)),),
    (lambda out, x: _bip(x),),
    (lambda out, x: mul(x, _bi(x)),),
)
_aie, _aipe, _bie, _bipe = several(
    "airye",
    (lambda out, x: add(_aipe(x), mul(sqrt(x), out)),),
    (lambda out, x: add(mul(x, _aie(x)), mul(sqrt(x), out)),),
    (lambda out, x: sub(_bipe(x), mul(_positive_root(x), out)),),
    (lambda out, x: sub(mul(x, _bie(x)), mul(_positive_root(x), out)),),
)
_airy_integrals = several(
    "itairy",
    (lambda out, x: _ai(x),),
    (lambda out, x: _bi(x),),
    (lambda out, x: _ai(neg(x)),),
    (lambda out, x: _bi(neg(x)),),
)

# -- Kelvin


def _over_or(y: Any, x: Any, limit: float) -> Any:
    at_zero = eq(x, 0.0)
    return select(at_zero, limit, div(y, select(at_zero, 1.0, x)))


ber = partials("ber", lambda out, x: berp(x))
bei = partials("bei", lambda out, x: beip(x))
ker = partials("ker", lambda out, x: kerp(x))
kei = partials("kei", lambda out, x: keip(x))
berp = partials("berp", lambda out, x: neg(add(bei(x), _over_or(out, x, 0.0))))
beip = partials("beip", lambda out, x: sub(ber(x), _over_or(out, x, 0.5)))
kerp = partials("kerp", lambda out, x: neg(add(kei(x), div(out, x))))
keip = partials("keip", lambda out, x: sub(ker(x), div(out, x)))

# -- parabolic cylinder functions, D, V and W

_pbdv, _pbdv_slope = several(
    "pbdv",
    ("v", lambda out, v, x: _pbdv_slope(v, x)),
    ("v", lambda out, v, x: mul(sub(sub(mul(0.25, square(x)), v), 0.5), _pbdv(v, x))),
)
_pbvv, _pbvv_slope = several(
    "pbvv",
    ("v", lambda out, v, x: _pbvv_slope(v, x)),
    ("v", lambda out, v, x: mul(sub(sub(mul(0.25, square(x)), v), 0.5), _pbvv(v, x))),
)
_pbwa, _pbwa_slope = several(
    "pbwa",
    ("a", lambda out, a, x: _pbwa_slope(a, x)),
    ("a", lambda out, a, x: mul(sub(a, mul(0.25, square(x))), _pbwa(a, x))),
)

# -- Mathieu functions: the order is an integer, the angle in degrees, SciPy's derivative by the angle in radians

mathieu_a = partials("mathieu_a", None, by("mathieu_a", 1, 2))
mathieu_b = partials("mathieu_b", None, by("mathieu_b", 1, 2))
_DEGREE = pi / 180


def _angular(name: str, level: Any) -> tuple[Any, ...]:
    def bent(out: Any, m: Any, q: Any, x: Any) -> Any:
        strength = sub(level(m, q), mul(mul(2.0, q), cos(mul(2 * _DEGREE, x))))
        return mul(mul(-_DEGREE, strength), pair[0](m, q, x))

    pair: Any = several(
        name,
        (None, by(name, 1, 3), lambda out, m, q, x: mul(_DEGREE, pair[1](m, q, x))),
        (None, by(f"{name}_slope", 1, 3), bent),
    )
    return pair


def _modified(name: str, level: Any) -> tuple[Any, ...]:
    def bent(out: Any, m: Any, q: Any, x: Any) -> Any:
        return mul(sub(level(m, q), mul(mul(2.0, q), cosh(mul(2.0, x)))), pair[0](m, q, x))

    pair: Any = several(name, (None, "q", lambda out, m, q, x: pair[1](m, q, x)), (None, "q", bent))
    return pair


_MATHIEU = {
    "mathieu_cem": _angular("mathieu_cem", mathieu_a),
    "mathieu_sem": _angular("mathieu_sem", mathieu_b),
    **{f"mathieu_modcem{kind}": _modified(f"mathieu_modcem{kind}", mathieu_a) for kind in (1, 2)},
    **{f"mathieu_modsem{kind}": _modified(f"mathieu_modsem{kind}", mathieu_b) for kind in (1, 2)},
}

# -- spheroidal functions: orders m and n are integers; `side` is 1 for prolate ones, -1 for oblate ones

pro_cv = partials("pro_cv", None, None, by("pro_cv", 2, 3))
obl_cv = partials("obl_cv", None, None, by("obl_cv", 2, 3))


def _spheroidal(name: str, side: int, radial: bool) -> tuple[Any, ...]:
    given = name.endswith("_cv")
    level = pro_cv if side > 0 else obl_cv

    def bent(out: Any, m: Any, n: Any, c: Any, *rest: Any) -> Any:
        x = rest[-1]
        cv = rest[0] if given else level(m, n, c)
        squared = square(x)
        edge = sub(1.0, squared) if side > 0 or not radial else add(1.0, squared)  # what vanishes at the poles
        wave = mul(square(c), squared)
        if side > 0 or radial:
            wave = neg(wave)
        pull = add(cv, wave)
        centre = div(square(m), edge)
        if side < 0 and radial:  # ((1 + x**2) R')' = (cv - c**2 x**2 - m**2 / (1 + x**2)) R
            force = sub(pull, centre)
            return div(sub(mul(force, pair[0](m, n, c, *rest)), mul(mul(2.0, x), out)), edge)
        force = sub(pull, centre)  # ((1 - x**2) S')' = -(cv -+ c**2 x**2 - m**2 / (1 - x**2)) S
        return div(sub(mul(mul(2.0, x), out), mul(force, pair[0](m, n, c, *rest))), edge)

    rules = (None, None, "c", *(["cv"] if given else []))
    pair: Any = several(name, (*rules, lambda out, *args: pair[1](*args)), (*rules, bent))
    return pair


_SPHEROIDAL = {
    name + ending: _spheroidal(name + ending, 1 if name.startswith("pro") else -1, "rad" in name)
    for name in ("pro_ang1", "pro_rad1", "pro_rad2", "obl_ang1", "obl_rad1", "obl_rad2")
    for ending in ("", "_cv")
}

# -- integrals of Bessel and Struve functions


@kernel("bessel_excess", counts=(0,))
def _bessel_excess(xp: Any, side: Any, x: Any, *, orders: tuple) -> Any:
    """(f(x) - 1) / x for f = i0 (side 1) or j0 (side -1), and its derivatives by x to the second."""
    near = abs(x) < 1.0
    w, far = xp.where(near, x, 0.0), xp.where(near, 1.0, x)
    series, factors = 0.0, [1.0] * 12
    for k in range(1, 12):
        factors[k] = 4.0**-k / factorial(k) ** 2
        power = 2 * k - 1
        for _ in range(orders[1]):
            power, slope = power - 1, power
            factors[k] = factors[k] * slope
        series = series + factors[k] * side**k * w ** max(power, 0)
    value = xp.where(side > 0, function_of(xp, "i0")(far), function_of(xp, "j0")(far))
    slope = xp.where(side > 0, function_of(xp, "i1")(far), -function_of(xp, "j1")(far))
    derivatives = [(value - 1.0) / far]
    for i, top in enumerate((slope, side * value - slope / far), 1):
        derivatives.append((top - i * derivatives[-1]) / far)
    return xp.where(near, series, derivatives[orders[1]])


def _excess(side: float, x: Any) -> Any:
    return numeric("bessel_excess", side, x, orders=(0, 0))


_INTEGRALS = {
    "iti0k0": several("iti0k0", (lambda out, x: i0(x),), (lambda out, x: k0(x),)),
    "itj0y0": several("itj0y0", (lambda out, x: j0(x),), (lambda out, x: y0(x),)),
    "it2i0k0": several("it2i0k0", (lambda out, x: _excess(1.0, x),), (lambda out, x: neg(div(k0(x), x)),)),
    "it2j0y0": several("it2j0y0", (lambda out, x: neg(_excess(-1.0, x)),), (lambda out, x: neg(div(y0(x), x)),)),
}
itstruve0 = partials("itstruve0", lambda out, x: struve(0.0, x))
it2struve0 = partials("it2struve0", lambda out, x: neg(div(struve(0.0, x), x)))
itmodstruve0 = partials("itmodstruve0", lambda out, x: modstruve(0.0, x))

# -- modified Fresnel integrals: complex functions of a real argument


def _modified_fresnel(name: str, direction: complex) -> tuple[Any, Any]:
    def impl(which: int) -> Any:
        def value(xp: Any, x: Any) -> Any:
            return function_of(xp, name)(x)[which].astype(complex_dtype(dtype_of(x)))[()]

        return value

    def turning(t: Any, out: Any, x: Any) -> Any:
        dtype = dtype_of(out)
        return mul(neg(exp(mul(direction, convert(square(x), dtype)))), convert(t, dtype))

    def resting(t: Any, out: Any, x: Any) -> Any:
        dtype = dtype_of(out)
        constant = np.exp(-direction * pi / 4) / np.sqrt(pi)
        return mul(neg(add(mul(mul(2 * direction, convert(x, dtype)), out), constant)), convert(t, dtype))

    return (
        elementwise(name, impl(0), [turning], dtype=complex_dtype),
        elementwise(f"{name}_phase", impl(1), [resting], dtype=complex_dtype),
    )


modfresnelp_p, modfresnelp_phase_p = _modified_fresnel("modfresnelp", 1j)
modfresnelm_p, modfresnelm_phase_p = _modified_fresnel("modfresnelm", -1j)

# -- degrees, and Tukey's lambda distribution
sindg = partials("sindg", lambda out, x: mul(_DEGREE, cosdg(x)))
cosdg = partials("cosdg", lambda out, x: mul(-_DEGREE, sindg(x)))
tandg = partials("tandg", lambda out, x: mul(_DEGREE, add(1.0, square(out))))
cotdg = partials("cotdg", lambda out, x: mul(-_DEGREE, add(1.0, square(out))))
radian = partials("radian", *[lambda out, d, m, s, unit=unit: unit for unit in (_DEGREE, _DEGREE / 60, _DEGREE / 3600)])
round_ = partials("round", None)


def _tukey(out: Any) -> Any:
    inside = and_(gt(out, 0.0), lt(out, 1.0))
    return inside, log(select(inside, out, 0.5)), log1p(neg(select(inside, out, 0.5)))


def _tukey_by_x(out: Any, x: Any, shape: Any) -> Any:
    inside, a, b = _tukey(out)
    rest = sub(shape, 1.0)
    return select(inside, div(1.0, add(exp(mul(rest, a)), exp(mul(rest, b)))), 0.0)


def _tukey_by_shape(out: Any, x: Any, shape: Any) -> Any:
    inside, a, b = _tukey(out)
    first, second = [mul(square(v), exp_moment(mul(shape, v), 1)) for v in (a, b)]
    return select(inside, neg(mul(sub(first, second), _tukey_by_x(out, x, shape))), 0.0)


tklmbda = partials("tklmbda", _tukey_by_x, _tukey_by_shape)


def airy(x: Any) -> tuple[Any, ...]:
    """Ai, Ai', Bi, Bi'."""
    return _ai(x), _aip(x), _bi(x), _bip(x)


def airye(x: Any) -> tuple[Any, ...]:
    return _aie(x), _aipe(x), _bie(x), _bipe(x)


def itairy(x: Any) -> tuple[Any, ...]:
    return tuple([f(x) for f in _airy_integrals])


def kelvin(x: Any) -> tuple[Any, ...]:
    """Be, Ke and their derivatives, complex."""
    pairs = ((ber, bei), (ker, kei), (berp, beip), (kerp, keip))
    return tuple([make_complex(f(x), g(x)) for f, g in pairs])


def modfresnelp(x: Any) -> tuple[Any, Any]:
    return modfresnelp_p(x), modfresnelp_phase_p(x)


def modfresnelm(x: Any) -> tuple[Any, Any]:
    return modfresnelm_p(x), modfresnelm_phase_p(x)


def _together(pair: Any) -> Any:
    return lambda *args: tuple([f(*args) for f in pair])


BY_NAME = {  # functions of two results, by name
    "pbdv": _together((_pbdv, _pbdv_slope)),
    "pbvv": _together((_pbvv, _pbvv_slope)),
    "pbwa": _together((_pbwa, _pbwa_slope)),
    **{name: _together(pair) for name, pair in {**_MATHIEU, **_SPHEROIDAL, **_INTEGRALS}.items()},
}


# -- Mathieu functions by q and spheroidal eigenvalues by c: perturbation of the symmetric matrix that has them
#
# Idea: in the basis of the unperturbed problem the operator is D + s P, with a small P; the derivatives of an eigenvalue and of
# its vector by s are sums over the other eigenvectors. Within a class of symmetry eigenvalues are simple: they keep their
# place.


def _perturbed(matrix: Any, push: Any, place: int) -> tuple[Any, ...]:
    """Derivatives of order 1 and 2 of an eigenvalue, and of orders 0 to 2 of its unit vector, in direction `push`."""
    values, vectors = np.linalg.eigh(matrix)
    gaps = values[place] - values
    gaps[place] = np.inf
    coupled = vectors.T @ push @ vectors
    to_this = coupled[:, place]
    first = to_this / gaps
    slope = coupled[place, place]
    second = 2.0 * (coupled @ first - slope * first) / gaps
    second[place] = -first @ first
    return slope, 2.0 * to_this @ first, vectors[:, place], vectors @ first, vectors @ second


def _mathieu_matrices(m: int, q: float, sine: bool) -> tuple[Any, Any, Any, int]:
    """The frequencies, the matrix, its derivative by q, and which eigenvalue it is."""
    size = 24 + m + int(2 * abs(q) ** 0.5)
    odd = m % 2
    frequencies = 2.0 * np.arange(size) + (1 if odd else 2 if sine else 0)
    push = np.eye(size, k=1) + np.eye(size, k=-1)
    if odd:
        push[0, 0] = -1.0 if sine else 1.0
    elif not sine:
        push[0, 1] = push[1, 0] = np.sqrt(2.0)
    return frequencies, np.diag(frequencies**2) + q * push, push, (m - sine) // 2


def _mathieu_value(sine: bool) -> Any:
    def compute(xp: Any, m: Any, q: Any, *, orders: tuple) -> Any:
        out = np.full(q.shape, np.nan)
        for i, (order, strength) in enumerate(zip(m, q)):
            if order >= sine and order == int(order) and abs(strength) < 1e6 and order < 500:
                _, matrix, push, place = _mathieu_matrices(int(order), strength, sine)
                out[i] = _perturbed(matrix, push, place)[orders[1] - 1]
        return out

    return compute


def _wave(frequencies: Any, angle: float, sine: bool, count: int) -> Any:
    """The derivative of order `count` of cos(f angle) or sin(f angle)."""
    values = frequencies**count * np.cos(frequencies * angle + (count - sine) * pi / 2)
    return values * np.where(frequencies == 0, np.sqrt(0.5), 1.0)


def _mathieu_function(name: str, sine: bool, slope: int) -> Any:
    """Derivatives of SciPy's function (slope 0) or its derivative (1): cosines or sines of the angle x, in degrees."""

    def compute(xp: Any, m: Any, q: Any, x: Any, *, orders: tuple) -> Any:
        out = np.full(q.shape, np.nan)
        theirs = function_of(xp, name)(m, q, x)
        for i, (order, strength, angle) in enumerate(zip(m, q, x * (pi / 180))):
            if not (order >= sine and order == int(order) and abs(strength) < 1e6 and order < 500):
                continue
            frequencies, matrix, push, place = _mathieu_matrices(int(order), strength, sine)
            vectors = _perturbed(matrix, push, place)[2:]

            ours = [vectors[0] @ _wave(frequencies, angle, sine, count) for count in (0, 1)]
            sign = np.sign(ours[0] * theirs[0][i] + ours[1] * theirs[1][i])  # an eigenvector's is arbitrary, SciPy's is not
            out[i] = sign * (vectors[orders[1]] @ _wave(frequencies, angle, sine, slope + orders[2])) * (pi / 180) ** orders[2]
        return out

    return compute


kernel("mathieu_a", counts=(0,))(_mathieu_value(False))
kernel("mathieu_b", counts=(0,))(_mathieu_value(True))
for _name, _sine in (("mathieu_cem", False), ("mathieu_sem", True)):
    kernel(_name, counts=(0,))(_mathieu_function(_name, _sine, 0))
    kernel(f"{_name}_slope", counts=(0,))(_mathieu_function(_name, _sine, 1))


def _spheroidal_value(side: float) -> Any:
    """Eigenvalues of L + side c**2 x**2 in the basis of associated Legendre functions of the order m."""

    def compute(xp: Any, m: Any, n: Any, c: Any, *, orders: tuple) -> Any:
        out = np.full(c.shape, np.nan)
        for i, (order, degree, width) in enumerate(zip(m, n, c)):
            if not (0 <= order <= degree < 500 and abs(width) < 1e3 and order == int(order) and degree == int(degree)):
                continue
            degrees = order + np.arange(30 + int(degree - order + 2 * abs(width)))
            steps = np.sqrt((degrees[1:] ** 2 - order**2) / (4.0 * degrees[1:] ** 2 - 1.0))
            x = np.diag(steps, 1) + np.diag(steps, -1)
            kept = np.arange(int(degree - order) % 2, len(degrees) - 1, 2)
            push = side * (x @ x)[np.ix_(kept, kept)]
            matrix = np.diag(degrees[kept] * (degrees[kept] + 1.0)) + width**2 * push
            slope, bend = _perturbed(matrix, push, int(degree - order) // 2)[:2]  # by c**2
            out[i] = 2.0 * width * slope if orders[2] == 1 else 2.0 * slope + 4.0 * width**2 * bend
        return out

    return compute


kernel("pro_cv", counts=(0, 1))(_spheroidal_value(1.0))
kernel("obl_cv", counts=(0, 1))(_spheroidal_value(-1.0))

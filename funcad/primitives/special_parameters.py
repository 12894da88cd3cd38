"""Hypergeometric and related functions by their parameters: power series at complex parameters, on circles (see `circle`).

A series is summed for parameters a small circle around the real ones, where it is as well conditioned as at its centre; the
derivatives by the argument are those of the series' own, with parameters moved. What such series cannot reach is NaN, or the
last digits are lost where they alternate; docs/special_functions.md has the errors.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.special_bessel_order import iv_order, jv_yv_order
from funcad.primitives.special_rules import gauss, special_of
from funcad.primitives.special_table import by, circle, kernel, partials
from funcad.primitives.transcendental import exp


def _rising(a: Any, k: int) -> Any:
    out: Any = 1.0
    for i in range(k):
        out = out * (a + i)
    return out


def _sum(x: Any, tops: tuple, bottoms: tuple, count: int) -> Any:
    """The sum of x**j / j! times the Pochhammer symbols of `tops` over those of `bottoms`, until it has converged."""
    term = 1.0 + 0.0 * sum(tops) + 0.0 * sum(bottoms) + 0.0 * x
    total = term
    for j in range(count):
        factor = x / (j + 1.0)
        for a in tops:
            factor = factor * (a + j)
        for b in bottoms:
            factor = factor / (b + j)
        term = term * factor
        total = total + term
        if j > 8 and j % 8 == 0 and (abs(term) <= 1e-18 * abs(total)).all():
            break
    return total


def _on_circles(value: Any, radii: Any, limit: Any, points: int = 24) -> Any:
    """A kernel from value(*parameters, x, k): the derivative k by x. `limit(*args)`: where the series has its value."""

    def compute(xp: Any, *args: Any, orders: tuple) -> Any:
        inside = limit(*args)
        held = [np.where(inside, a, 0.25 if i == len(args) - 1 else 1.25 + 0.3 * i) for i, a in enumerate(args)]
        f = functools.partial(value, k=orders[-1])
        out = circle(f, held, (*orders[:-1], 0), radii(*held), points)
        return np.where(inside, out, np.nan)

    return compute


def _room(b: Any) -> Any:
    """Half the distance of b to the poles at 0, -1, ..., at most one half."""
    return 0.5 * np.minimum(1.0, np.where(b > 0, b, abs(b - np.rint(b))))


# -- 1F1 and 2F1


def _kummer(a: Any, b: Any, x: Any, k: int) -> Any:
    """Of 1F1, by exp(x) M(b - a, b, -x) where x is negative."""
    scale = _rising(a, k) / _rising(b, k)
    a, b = a + k, b + k
    mirrored = x < 0
    count = int(200 + 2 * float(np.max(abs(x)))) if x.size else 0
    out = _sum(abs(x), (np.where(mirrored, b - a, a),), (b,), count)
    return scale * np.where(mirrored, np.exp(x) * out, out)


kernel("hyp1f1")(
    _on_circles(
        _kummer,
        lambda a, b, x: [0.0 * b + 0.5, _room(b), None],
        lambda a, b, x: (abs(x) < 650) & (abs(a) < 200) & (abs(b) < 1e5),
    )
)


def _gauss_series(a: Any, b: Any, c: Any, x: Any, k: int) -> Any:
    scale = _rising(a, k) * _rising(b, k) / _rising(c, k)
    a, b, c = a + k, b + k, c + k
    mirrored = x < 0
    place = np.where(mirrored, x / (x - 1.0), x)  # Pfaff
    most = float(np.max(place)) if x.size else 0.0
    count = int(60 + 60 / (1.0 - most))
    out = _sum(place, (a, np.where(mirrored, c - b, b)), (c,), count)
    return scale * np.where(mirrored, (1.0 - x) ** -a, 1.0) * out


kernel("hyp2f1")(
    _on_circles(
        _gauss_series,
        lambda a, b, c, x: [0.0 * c + 0.5, 0.0 * c + 0.5, _room(c), None],
        lambda a, b, c, x: (x < 0.995) & (x > -200.0) & (abs(a) < 200) & (abs(b) < 200) & (abs(c) < 1e5),
    )
)

# -- 0F1, by Bessel functions where its series is long


def _confluent(v: Any, x: Any, k: int) -> Any:
    return _sum(x, (), (v + k,), 400) / _rising(v, k)


_near = _on_circles(_confluent, lambda v, x: [_room(v), None], lambda v, x: abs(x) < 30.0)


@kernel("hyp0f1")
def _hyp0f1(xp: Any, v: Any, x: Any, *, orders: tuple) -> Any:
    out = _near(xp, v, x, orders=orders)
    far = abs(x) >= 30.0
    if not far.any():
        return out
    functions = special_of(np)
    a, w, above = v[far], abs(x[far]) ** 0.5, x[far] > 0
    order = a - 1.0 + orders[1]
    count = orders[0]
    score = functions.digamma(a) - np.log(w)
    derivatives = [
        np.where(above, functions.iv(order, 2 * w), functions.jv(order, 2 * w)),
        np.where(above, iv_order(np, order, 2 * w, scaled=False), jv_yv_order(np, order, 2 * w, which=0)),
    ]
    if count == 2:
        bends = [
            iv_order(np, order, 2 * w, scaled=False, twice=True),
            jv_yv_order(np, order, 2 * w, which=0, twice=True),
        ]
        derivatives.append(np.where(above, *bends))
        total = (score**2 + functions.polygamma(1, a)) * derivatives[0] + 2 * score * derivatives[1] + derivatives[2]
    else:
        total = score * derivatives[0] + derivatives[1]
    out[far] = functions.gamma(a) * w ** (1.0 - a - orders[1]) * total
    return out


# -- U: an integral for a > 1, and the recurrence downwards


def _tricomi_integral(a: Any, b: Any, x: Any) -> Any:
    """U(a, b, x) for real parts of a from 1: the trapezoidal rule in log(t) of exp(-x t) t**a (1 + t)**(b - a - 1)."""
    out: Any = 0.0
    low = -40.0 / a.real
    high = np.log(80.0 + 2 * abs(b)) - np.log(np.minimum(x, 1.0)) + 1.0
    count = int(float(np.max(high - low)) / 0.05) + 1 if x.size else 0
    step = (high - low) / max(count, 1)
    for j in range(count + 1):
        u = low + j * step
        t = np.exp(u)
        out = out + np.exp(a * u - x * t + (b - a - 1.0) * np.log1p(t))
    return out * step * special_of(np).rgamma(a + 0j)


def _tricomi(a: Any, b: Any, x: Any, k: int) -> Any:
    scale = (-1.0) ** k * _rising(a, k)
    a, b = a + k, b + k
    lifts = np.maximum(np.ceil(1.5 - a.real), 0.0)
    most = int(lifts.max()) if lifts.size else 0
    top = a + lifts
    above, here = _tricomi_integral(top + 1.0, b, x), _tricomi_integral(top, b, x)
    for j in range(most):
        going = j < lifts
        now = top - j
        lower = -(b - 2 * now - x) * here - now * (now - b + 1.0) * above
        above, here = np.where(going, here, above), np.where(going, lower, here)
    return scale * here


kernel("hyperu")(
    _on_circles(
        _tricomi,
        lambda a, b, x: [0.0 * b + 0.4, 0.0 * b + 0.4, None],
        lambda a, b, x: (x > 1e-8) & (x < 500.0) & (abs(a) < 100) & (abs(b) < 100),
        points=20,
    )
)

# -- Struve functions of positive arguments


def _struve_series(v: Any, x: Any, k: int, sign: float) -> Any:
    """Of H (sign -1) or L (1), or of its derivative by x."""
    if k:
        return _struve_series(v - 1.0, x, 0, sign) - v / x * _struve_series(v, x, 0, sign)
    square = sign * 0.25 * x * x
    term = np.exp((v + 1.0) * np.log(0.5 * x)) * special_of(np).rgamma(v + 1.5 + 0j) * (2 / np.sqrt(np.pi))
    total: Any = 0.0
    for j in range(60 + int(3 * float(np.max(x))) if x.size else 0):
        total = total + term
        term = term * square / ((j + 1.5) * (j + v + 1.5))
    return total


def _struve_rest(v: Any, x: Any, k: int) -> Any:
    """H - Y, by Laplace's integral, or its derivative by x."""
    if k:
        return _struve_rest(v - 1.0, x, 0) - v / x * _struve_rest(v, x, 0)
    out: Any = 0.0
    reach = (45.0 + 4 * abs(v.real)) / x
    for point, weight in zip(*gauss(64)):
        t = reach * point
        out = out + weight * np.exp(-x * t + (v - 0.5) * np.log1p(t * t))
    scale = np.exp(v * np.log(0.5 * x)) * special_of(np).rgamma(v + 0.5 + 0j) * (2 / np.sqrt(np.pi))
    return scale * reach * out


def _order_room(v: Any, x: Any) -> list[Any]:
    return [0.0 * v + 0.4, None]


_struve_near = _on_circles(functools.partial(_struve_series, sign=-1.0), _order_room, lambda v, x: (x > 0) & (x <= 9.0))
_struve_far = _on_circles(_struve_rest, _order_room, lambda v, x: (x > 9.0) & (x < np.inf) & (abs(v) < 50))
kernel("modstruve")(
    _on_circles(functools.partial(_struve_series, sign=1.0), _order_room, lambda v, x: (x > 0) & (x < 600) & (v > -20))
)


@kernel("struve")
def _struve(xp: Any, v: Any, x: Any, *, orders: tuple) -> Any:
    near, far = x <= 9.0, x > 9.0
    out = _struve_near(xp, v, x, orders=orders)
    if not far.any():
        return out
    w, z = xp.where(far, v, 1.0), xp.where(far, x, 10.0)
    slope = functools.partial(jv_yv_order, xp, which=1, twice=orders[0] == 2)
    if orders[1]:
        second = slope(w - 1.0, z) - (w * slope(w, z) + special_of(xp).yv(w, z)) / z
    else:
        second = slope(w, z)
    return xp.where(far, _struve_far(xp, v, x, orders=orders) + second, xp.where(near, out, xp.nan))


# -- Wright's function


def _wright(a: Any, b: Any, x: Any, k: int) -> Any:
    """The sum of x**j / (j! gamma(a j + b)), with b moved by a for each derivative by x."""
    functions = special_of(np)
    b = b + k * a
    logarithm = np.log(np.where(x > 0, x, 1.0))
    total: Any = 0.0
    for j in range(4000):
        fall = np.where((x > 0) | (j == 0), 1.0, 0.0)
        term = fall * np.exp(j * logarithm - functions.gammaln(j + 1.0) - functions.loggamma(a * j + b + 0j))
        total = total + term
        if j > 10 and (abs(term) <= 1e-18 * abs(total)).all():
            break
    return total


kernel("wright_bessel")(
    _on_circles(
        _wright,
        lambda a, b, x: [0.4 * np.minimum(1.0, np.where(a > 0, a, 1.0)), 0.4 * np.minimum(1.0, np.where(b > 0, b, 1.0)), None],
        lambda a, b, x: (a >= 0) & (b > 0) & (x >= 0) & (x < 1e3),
    )
)

# -- the integral of x**power jv(order, 2 a x) from 0 to 1


def _bessel_power(a: Any, power: Any, order: Any, k: int) -> Any:
    functions = special_of(np)
    total: Any = 0.0
    square = a * a
    term = np.exp(order * np.log(a + 0j) - functions.loggamma(order + 1.0 + 0j))
    for j in range(200):
        total = total + term / (2 * j + order + power + 1.0)
        term = -term * square / ((j + 1.0) * (order + j + 1.0))
        if j > 10 and (abs(term) <= 1e-18 * abs(total)).all():
            break
    return total


@kernel("besselpoly")
def _besselpoly(xp: Any, a: Any, power: Any, order: Any, *, orders: tuple) -> Any:
    inside = (a > 0) & (a < 12.0) & (order + power > -1.0)
    held = [np.where(inside, v, 1.0) for v in (a, power, order)]
    room = 0.4 * np.minimum(1.0, np.minimum(held[1] + held[2] + 1.0, np.minimum(held[2] + 1.0, 1.0)))
    f = functools.partial(_bessel_power, k=0)
    out = circle(f, held, orders, [0.4 * np.minimum(held[0], 1.0), room, room], 24)
    return np.where(inside, out, np.nan)


def _log_wright_by(position: int) -> Any:
    """By the quotient of Wright's functions' derivative and value, both as exponentials of logarithms where they are known."""
    rule = by("wright_bessel", position, 3)
    return lambda out, a, b, x: mul(rule(out, a, b, x), exp(neg(out)))


wright_bessel = partials(
    "wright_bessel",
    by("wright_bessel", 0, 3),
    by("wright_bessel", 1, 3),
    lambda out, a, b, x: wright_bessel(a, add(a, b), x),
)
log_wright_bessel = partials(
    "log_wright_bessel",
    _log_wright_by(0),
    _log_wright_by(1),
    lambda out, a, b, x: exp(sub(log_wright_bessel(a, add(a, b), x), out)),
)
besselpoly = partials(
    "besselpoly",
    lambda out, a, power, order: sub(
        besselpoly(a, add(power, 1.0), sub(order, 1.0)), besselpoly(a, add(power, 1.0), add(order, 1.0))
    ),
    by("besselpoly", 1, 3),
    by("besselpoly", 2, 3),
)

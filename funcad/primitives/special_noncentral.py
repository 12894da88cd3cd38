"""Derivatives of noncentral distributions, of Kolmogorov's and of Smirnov's: plain numerics, entered as kernels.

Idea: a noncentral chi-squared or F law is a mixture of central ones under Poisson's law. By the noncentrality the derivative is
the mixture of differences between neighbours, which are closed forms of one sign; by the shapes that of the central laws'
derivatives, of one sign too. Student's noncentral law is the mean of normal probabilities under the law of the scale.
Kolmogorov's function has two theta series, Smirnov's is a sum of powers.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from funcad.primitives.special_incomplete import betainc_partial, gammainc_partial
from funcad.primitives.special_rules import function_of, special_of
from funcad.primitives.special_table import kernel

__all__: list[str] = []


def _each(one: Any) -> Any:
    """A kernel from a function of numbers."""

    def compute(xp: Any, *args: Any, orders: tuple) -> Any:
        return np.array([one(*row, orders=orders) for row in zip(*[a.tolist() for a in args])])

    return compute


def _weights(mean: float, peak: float) -> tuple[Any, Any]:
    """Numbers and probabilities of Poisson's law; terms matter up to `peak` and somewhat more."""
    j = np.arange(1 if mean == 0 else int(max(mean, peak) + 12 * max(mean, peak) ** 0.5) + 40)
    return j, np.ones(1) if mean == 0 else np.exp(j * np.log(mean) - mean - special_of(np).gammaln(j + 1.0))


_MOST = 1e5  # terms


def _gamma_mixture(a: float, x: float, mean: float, *, orders: tuple) -> float:
    """Of sum(poisson(j, mean) * gammainc(a + j, x)), the derivative of these orders by a, x and mean."""
    if not (a > 0 and x > 0 and 0 <= mean < _MOST and a < np.inf and x < np.inf):
        return 0.0 if x == 0 and a > 0 and not orders[1] else np.nan
    j, weights = _weights(mean, (mean * x) ** 0.5)
    shapes, places = a + j, np.full(j.shape, x)
    if not orders[2]:
        return float(weights @ gammainc_partial(np, shapes, places, orders[:2]))
    step = -gammainc_partial(np, shapes + 1.0, places, (0, 1))
    if orders[2] == 2:
        step = step * (x / (shapes + 1.0) - 1.0)
    elif orders[0]:
        step = step * (np.log(x) - special_of(np).digamma(shapes + 1.0))
    elif orders[1]:
        step = step * (shapes / x - 1.0)
    return float(weights @ step)


def _beta_mixture(a: float, b: float, x: float, mean: float, *, orders: tuple) -> float:
    """Of sum(poisson(j, mean) * betainc(a + j, b, x)), the derivative of these orders."""
    if not (a > 0 and b > 0 and 0 < x < 1 and 0 <= mean < _MOST and a < np.inf and b < np.inf):
        return 0.0 if x in (0, 1) and not orders[2] else np.nan
    j, weights = _weights(mean, mean / 2 + (mean * mean / 4 + mean * b) ** 0.5)
    shapes, other, places = a + j, np.full(j.shape, b), np.full(j.shape, x)
    if not orders[3]:
        return float(weights @ betainc_partial(np, shapes, other, places, orders[:3]))
    digamma = special_of(np).digamma
    step = -betainc_partial(np, shapes + 1.0, other, places, (0, 0, 1)) * (1.0 - x) / (shapes + b)
    if orders[3] == 2:
        step = step * (x * (shapes + b) / (shapes + 1.0) - 1.0)
    elif orders[0]:
        step = step * (np.log(x) + digamma(shapes + b) - digamma(shapes + 1.0))
    elif orders[1]:
        step = step * (np.log1p(-x) + digamma(shapes + b) - digamma(b))
    elif orders[2]:
        step = step * (shapes / x - b / (1.0 - x))
    return float(weights @ step)


def _student(v: float, shift: float, t: float, *, orders: tuple) -> float:
    """Of the mean of ndtr(t s - shift) under the law of s = sqrt(chi-squared / v)."""
    if not (0 < v < np.inf and abs(shift) < np.inf and abs(t) < np.inf):
        return 0.0 if abs(t) == np.inf else np.nan
    functions = special_of(np)
    low, high = -1.0 - 45.0 / v, 1.0
    while v * (0.5 * np.expm1(2 * high) - high) < 45.0:
        high += 1.0
    for _ in range(60):  # the interval of log(s) outside which the density is nothing
        middle = 0.5 * high
        if v * (0.5 * np.expm1(2 * middle) - middle) < 45.0:
            break
        high = middle
    for _ in range(60):
        middle = 0.5 * low
        if v * (0.5 * np.expm1(2 * middle) - middle) < 45.0:
            break
        low = middle
    u = np.linspace(low, high, 4001)
    s, half = np.exp(u), 0.5 * v
    level = np.log(2.0) + half * np.log(half) - half - functions.gammaln(half)
    density = np.exp(level + v * (u - 0.5 * np.expm1(2 * u))) * (u[1] - u[0])
    z, normal = t * s - shift, orders[1] + orders[2]
    if normal:
        wave = np.exp(-0.5 * z * z) / np.sqrt(2 * pi) * (-z if normal == 2 else 1.0) * s ** orders[2] * (-1.0) ** orders[1]
    else:  # less the value at s = 1, whose mean does not depend on v
        side = 1.0 if t < shift else -1.0
        wave = side * (functions.ndtr(side * z) - functions.ndtr(side * (t - shift)))
    if orders[0]:
        score = 0.5 * (np.log(half) - functions.digamma(half)) + u - 0.5 * np.expm1(2 * u)
        bend = 0.5 / v - 0.25 * functions.polygamma(1, half)
        density = density * (score if orders[0] == 1 else score * score + bend)
    return float(density @ wave)


kernel("gamma_mixture")(_each(_gamma_mixture))
kernel("beta_mixture")(_each(_beta_mixture))
kernel("nctdtr")(_each(_student))


@kernel("kolmogorov")
def _kolmogorov(xp: Any, x: Any, *, orders: tuple) -> Any:
    (count,) = orders
    small = x < 1.0
    w = 1.0 / xp.where(small & (x > 0.04), x, 1.0)
    near: Any = 0.0
    for k in (1, 3, 5, 7):
        c = k * k * pi * pi / 8
        polynomial = np.polynomial.Polynomial([0.0, 1.0])  # of w, times exp(-c w**2)
        for _ in range(count):
            polynomial = (polynomial * np.polynomial.Polynomial([0.0, 2 * c]) - polynomial.deriv()) * np.polynomial.Polynomial(
                [0.0, 0.0, 1.0]
            )
        near = near - np.sqrt(2 * pi) * polynomial(w) * xp.exp(-c * w * w)
    y = xp.where(small, 1.0, x)
    hermite = function_of(xp, "eval_hermite")
    far: Any = 0.0
    for k in range(1, 7):
        root = 2.0**0.5 * k
        far = far + 2 * (-1.0) ** (k - 1) * (-root) ** count * hermite(count, root * y) * xp.exp(-2.0 * k * k * y * y)
    out = xp.where(small, xp.where(x > 0.04, near, 0.0), far)
    return xp.where(xp.isnan(x), xp.nan, out)


def _smirnov(n: float, d: float, *, orders: tuple) -> float:
    if not (n >= 1 and 0 <= d <= 1):
        return np.nan
    n = float(int(n))
    j = np.arange(int(n * (1.0 - d)) + 1.0)
    rest, power = 1.0 - d - j / n, n - j
    kept = rest > 0
    j, rest, power = j[kept], rest[kept], power[kept]
    sums = d + j / n
    functions = special_of(np)
    log = functions.gammaln(n + 1) - functions.gammaln(j + 1) - functions.gammaln(power + 1) + power * np.log(rest)
    log = log + np.where(sums > 0, (j - 1.0) * np.log(np.where(sums > 0, sums, 1.0)), 0.0)
    terms = np.exp(log)  # times d
    first = j == 0
    sums = np.where(sums > 0, sums, 1.0)
    slope = np.where(first, 0.0, (j - 1.0) / sums) - power / rest  # the term of j = 0 is rest**n alone
    bend = slope**2 - np.where(first, 0.0, (j - 1.0) / sums**2) - power / rest**2
    bare = np.where(first, rest**n, terms)
    if orders[1] == 1:
        return float(np.sum(np.where(first, bare * slope, bare * (1.0 + d * slope))))
    return float(np.sum(np.where(first, bare * bend, bare * (2.0 * slope + d * bend))))


kernel("smirnov", counts=(0,))(_each(_smirnov))

"""The incomplete gamma and beta functions by their shape parameters: plain numerics, no primitives.

Idea: the derivative of a distribution function by a shape is the integral of density times a score over the tail on which the
score has one sign, so nothing cancels: E[log t - E log t | t < x] P(x) on the left, the same with t > x on the right. In
u = |log(t / x)| (beta: of the odds) the integrands are entire, or nearly, and fall off at least like exp(-c u) or a normal
density, so that Gauss-Legendre on the interval where they exceed exp(-CUT) has full accuracy. A small shape, whose tail is
long, is first raised by recurrence, whose terms have the same sign too. Results come as (mass, slope) in units of the density
times x (beta: times x (1 - x)): ratios of them never overflow or underflow.
"""

from __future__ import annotations

from math import pi
from typing import Any

from funcad.primitives.special_rules import gauss, special_of

__all__ = ["gamma_tail", "gamma_side", "beta_tail", "beta_side", "log_minus_digamma", "gamma_density", "beta_density"]

_CUT = 37.0
_TOGETHER = 10_000  # so many points are computed at once, more of them one after the other
_SHIFTS = 8  # shapes below this are raised by as much


def _expm1_excess(xp: Any, u: Any) -> Any:
    """exp(-u) - 1 + u without cancellation."""
    small = abs(u) < 0.3
    s = xp.where(small, u, 0.0)
    series = 1.0
    for k in range(14, 1, -1):
        series = 1.0 - s * series / (k + 1)
    return xp.where(small, s * s * 0.5 * series, xp.expm1(-u) + u)


def _log1p_excess(xp: Any, e: Any, ratio: Any) -> Any:
    """e - log1p(e) without cancellation; ratio is 1 + e, known better than e when that is near -1."""
    small = abs(e) < 0.4
    s = xp.where(small, e, 0.0)
    r = s / (2.0 + s)
    square = r * r
    series = 0.0
    for k in range(31, 1, -2):
        series = 1.0 / k + square * series
    return xp.where(small, r * (s - 2.0 * square * series), e - xp.log(xp.where(small, 1.0, ratio)))


def log_minus_digamma(xp: Any, a: Any) -> Any:
    """log(a) - digamma(a)."""
    large = a > 16.0
    s = 1.0 / xp.where(large, a, 1.0) ** 2
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    return xp.where(large, 0.5 / a + series, xp.log(a) - special_of(xp).digamma(a))


def _moments(xp: Any, exponent: Any, slope: Any, length: Any, score: Any, count: int) -> tuple[Any, Any]:
    """Integrals of exp(-exponent(u)) and of score(u) times that, from 0 to where exponent(u) is about CUT.

    The exponent is convex, and `length` not far from the end of that interval; Newton's method finds it.
    """
    for _ in range(6):
        length = length - (exponent(length) - _CUT) / slope(length)
    length = length.real  # shapes may have an imaginary part, for a derivative; where the interval ends does not matter
    mass = total = 0.0
    points, weights = gauss(count)
    if length.size * count < _TOGETHER:
        u = xp.asarray(points)[:, None] * length
        terms = xp.asarray(weights)[:, None] * xp.exp(-exponent(u))
        return length * terms.sum(axis=0), length * (terms * score(u)).sum(axis=0)
    for point, weight in zip(points, weights):
        u = point * length
        term = weight * xp.exp(-exponent(u))
        mass = mass + term
        total = total + term * score(u)
    return length * mass, length * total


def _gamma_lower(xp: Any, a: Any, x: Any) -> tuple[Any, Any]:
    small = a < _SHIFTS
    raised = xp.where(small, a + _SHIFTS, a)
    gap = raised - x
    u = 2 * _CUT / (gap + xp.sqrt(gap * gap + 2 * _CUT * x))
    level = log_minus_digamma(xp, raised) + xp.where(
        abs(gap) < 0.5 * raised, xp.log1p(-gap / raised), xp.log(x) - xp.log(raised)
    )
    mass, slope = _moments(
        xp,
        lambda u: gap * u + x * _expm1_excess(xp, u),
        lambda u: gap - x * xp.expm1(-u),
        u,
        lambda u: level - u,
        48,
    )
    if small.any():
        unit = xp.where(small, 1.0 / a, 1.0)  # x**k / (a (a + 1) ... (a + k))
        score = xp.log(x) - special_of(xp).digamma(xp.where(small, a + 1.0, 1.0))
        masses, slopes = unit, unit * score
        for k in range(1, _SHIFTS):
            unit = unit * x / (a + k)
            score = score - 1.0 / (a + k)
            masses = masses + unit
            slopes = slopes + unit * score
        mass = xp.where(small, masses + unit * x * mass, mass)
        slope = xp.where(small, slopes + unit * x * slope, slope)
    return mass, slope


def _gamma_upper(xp: Any, a: Any, x: Any) -> tuple[Any, Any]:
    gap = x - a
    u = 2 * _CUT / (gap + xp.sqrt(gap * gap + 2 * _CUT * x))
    level = log_minus_digamma(xp, a) + xp.where(abs(gap) < 0.5 * a, xp.log1p(gap / a), xp.log(x) - xp.log(a))
    return _moments(
        xp,
        lambda u: gap * u + x * _expm1_excess(xp, -u),
        lambda u: gap + x * xp.expm1(u),
        u,
        lambda u: level + u,
        48,
    )


def gamma_tail(xp: Any, a: Any, x: Any, lower: Any) -> tuple[Any, Any]:
    """The tail of the gamma law below x (where `lower`) or above it, and that tail's derivative by a, which has its own sign.

    In units of x times the density at x; a, x > 0 and finite, of one shape. `lower` should be `gamma_side`.
    """
    return _subsets(xp, lower, _gamma_lower, _gamma_upper, (a, x))


def gamma_side(xp: Any, a: Any, x: Any) -> Any:
    """On which side of x nothing cancels: True means below."""
    return x < xp.maximum(a, 1.2)


def beta_side(xp: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """On which side of x nothing cancels: True means below (y is 1 - x)."""
    digamma = special_of(xp).digamma
    raised = (a < _SHIFTS) & (b * x < (a + _SHIFTS) * y) & (xp.log(x) < digamma(a + 1.0) - digamma(a + b))
    return (b * x < a * y) | raised


def beta_tail(xp: Any, a: Any, b: Any, x: Any, y: Any, lower: Any) -> tuple[Any, Any]:
    """As `gamma_tail`, of the beta law and its shape a, in units of x (1 - x) times the density; y is 1 - x."""
    return _subsets(xp, lower, _beta_lower, _beta_upper, (a, b, x, y))


def _beta_quadrature(xp: Any, a: Any, b: Any, x: Any, y: Any, score: Any) -> tuple[Any, Any]:
    """Moments of t**a (1 - t)**b in the odds of t, upwards from x; `score(u, g)` where g is log(y + x exp(u)) - x u."""
    least = xp.minimum(x, y)
    direction = xp.where(x <= y, 1.0, -1.0)
    both = a + b
    gap = b * x - a * y

    def excess(u: Any) -> Any:
        v = direction * u
        e = least * xp.expm1(v)
        return least * _expm1_excess(xp, -v) - _log1p_excess(xp, e, 1.0 + e)

    u = 2 * _CUT / (gap + xp.sqrt(gap * gap + 2 * _CUT * both * x * y))
    u = xp.minimum(u, xp.log1p(xp.expm1(xp.minimum((_CUT + a * u) / both, 600.0)) / x))
    return _moments(
        xp,
        lambda u: gap * u + both * excess(u),
        lambda u: both * x / (x + y * xp.exp(-u)) - a,
        u,
        lambda u: score(u, excess(u)),
        48,
    )


def _beta_level(xp: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """log(x) - digamma(a) + digamma(a + b): zero where x is the geometric mean."""
    gap = b * x - a * y
    log = xp.where(abs(gap) < 0.5 * a, xp.log1p(gap / a), xp.log(x) + xp.log1p(b / a))
    return log + (log_minus_digamma(xp, a) - log_minus_digamma(xp, a + b))


def _beta_lower(xp: Any, a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    small = a < _SHIFTS
    raised = xp.where(small, a + _SHIFTS, a)
    level = _beta_level(xp, raised, b, x, y)
    mass, slope = _beta_quadrature(xp, b, raised, y, x, lambda u, g: level - y * u - g)
    if small.any():
        digamma = special_of(xp).digamma
        unit = xp.where(small, 1.0 / a, 1.0)
        score = xp.log(x) - digamma(xp.where(small, a + 1.0, 1.0)) + digamma(xp.where(small, a + b, 1.0))
        masses, slopes = unit, unit * score
        for k in range(1, _SHIFTS):
            unit = unit * x * ((a + b + (k - 1)) / (a + k))
            score = score - 1.0 / (a + k) + 1.0 / (a + b + (k - 1))
            masses = masses + unit
            slopes = slopes + unit * score
        unit = unit * x * (a + b + (_SHIFTS - 1))
        mass = xp.where(small, masses + unit * mass, mass)
        slope = xp.where(small, slopes + unit * slope, slope)
    return mass, slope


def _beta_upper(xp: Any, a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    small = b < _SHIFTS
    raised = xp.where(small, b + _SHIFTS, b)
    level = _beta_level(xp, a, raised, x, y)
    mass, slope = _beta_quadrature(xp, a, raised, x, y, lambda u, g: level + y * u - g)
    if small.any():
        unit = xp.where(small, 1.0 / b, 1.0)
        score = _beta_level(xp, a, b, x, y)
        masses, slopes = unit, unit * score
        for k in range(1, _SHIFTS):
            unit = unit * y * ((a + b + (k - 1)) / (b + k))
            score = score + 1.0 / (a + b + (k - 1))
            masses = masses + unit
            slopes = slopes + unit * score
        unit = unit * y * (a + b + (_SHIFTS - 1))
        mass = xp.where(small, masses + unit * mass, mass)
        slope = xp.where(small, slopes + unit * slope, slope)
    return mass, slope


def _stirling_rest(xp: Any, a: Any) -> Any:
    """log gamma(a) - (a - 1/2) log(a) + a - log(2 pi) / 2, for a >= 16."""
    s = 1.0 / (a * a)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / a


def gamma_density(xp: Any, a: Any, x: Any) -> Any:
    """x**(a - 1) exp(-x) / gamma(a), accurate for large a too."""
    large = a >= 16.0
    b = xp.where(large, a, 16.0)
    inner = (x > 0) & (x < xp.inf)
    t = xp.where(inner, x, 1.0)
    main = xp.exp(-b * _log1p_excess(xp, (t - b) / b, t / b) - _stirling_rest(xp, b)) * xp.sqrt(b / (2 * pi)) / t
    small = xp.where(large, 1.0, a)
    power = xp.where(x == xp.inf, 0.0, xp.power(x, small - 1.0) * xp.exp(-x))
    return xp.where(large, xp.where(inner, main, 0.0), power * special_of(xp).rgamma(small))


def beta_density(xp: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """x**(a - 1) y**(b - 1) / beta(a, b) where y = 1 - x, accurate for large shapes too."""
    swap = a > b
    a, b, x, y = xp.where(swap, b, a), xp.where(swap, a, b), xp.where(swap, y, x), xp.where(swap, x, y)
    wide, large = b >= 16.0, a >= 16.0
    p, q = xp.where(large, a, 16.0), xp.where(wide, b, 16.0)
    inner = (x > 0) & (y > 0)
    s, t = xp.where(inner, x, 0.5), xp.where(inner, y, 0.5)
    gap = p * t - q * s
    rest = _stirling_rest(xp, p + q) - _stirling_rest(xp, q)
    exponent = rest - _stirling_rest(xp, p)
    exponent = exponent - p * _log1p_excess(xp, -gap / p, s * ((p + q) / p)) - q * _log1p_excess(xp, gap / q, t * ((p + q) / q))
    both = xp.exp(exponent) * xp.sqrt(p / (2 * pi) * (q / (p + q))) / s / t
    few = xp.where(large, 1.0, a)
    s = xp.where(y > 0, x, 0.5)
    gap = few * t - q * s
    rest = _stirling_rest(xp, few + q) - _stirling_rest(xp, q)
    exponent = rest - few + few * xp.log(few + q) - 0.5 * xp.log1p(few / q)
    exponent = exponent + q * xp.where(gap < -0.5 * q, xp.log(t * ((few + q) / q)), xp.log1p(gap / q))
    one = xp.power(s, few - 1.0) * xp.exp(exponent) / t * special_of(xp).rgamma(few)
    c, d = xp.where(wide, 1.0, a), xp.where(wide, 1.0, b)
    none = xp.power(x, c - 1.0) * xp.power(y, d - 1.0) / special_of(xp).beta(c, d)
    return xp.where(large, xp.where(inner, both, 0.0), xp.where(wide, xp.where(y > 0, one, 0.0), none))


def _subsets(xp: Any, chosen: Any, first: Any, second: Any, args: tuple) -> tuple[Any, Any]:
    """first(*args) where chosen, second(*args) elsewhere, each evaluated on its own elements only."""
    dtype = xp.result_type(*args)
    outs = (xp.empty(chosen.shape, dtype), xp.empty(chosen.shape, dtype))
    for mask, f in ((chosen, first), (~chosen, second)):
        if mask.any():
            values = f(xp, *[a[mask] for a in args])
            for out, value in zip(outs, values):
                out[mask] = value
    return outs

"""The incomplete gamma and beta functions and their inverses, differentiable in all arguments.

The derivatives by the shapes are primitives of their own (`gammainc_a`, `betainc_shape`), computed below; their
own derivatives by x are closed forms, those by the shapes come from the same integrals at complex shapes. Inverses follow from
the implicit function theorem. `random_gamma_grad` is what reparameterised gamma samples need.
"""

from __future__ import annotations

from math import pi
from typing import Any

from funcad.primitives import placement
from funcad.primitives.arithmetic import add, div, mul, neg, sqrt, square, sub
from funcad.primitives.special_gamma import digamma, poch
from funcad.primitives.special_rules import TINY, bend, function_of, gauss, kernel, numeric, numerical, ratio, special_of, ufunc
from funcad.primitives.transcendental import exp, log, log1p

# -- the incomplete gamma and beta functions by their shape parameters: plain numerics, no primitives
#
# Idea: the derivative of a distribution function by a shape is the integral of density times a score over the tail on which the
# score has one sign, so nothing cancels: E[log t - E log t | t < x] P(x) on the left, the same with t > x on the right. In u =
# |log(t / x)| (beta: of the odds) the integrands are entire, or nearly, and fall off at least like exp(-c u) or a normal
# density, so that Gauss-Legendre on the interval where they exceed exp(-CUT) has full accuracy. A small shape, whose tail is
# long, is first raised by recurrence, whose terms have the same sign too. Results come as (mass, slope) in units of the density
# times x (beta: times x (1 - x)): ratios of them never overflow or underflow.


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


def gamma_density_kernel(xp: Any, a: Any, x: Any) -> Any:
    """x**(a - 1) exp(-x) / gamma(a), accurate for large a too."""
    large = a >= 16.0
    b = xp.where(large, a, 16.0)
    inner = ~((x <= 0) | (x == xp.inf))  # a NaN too
    t = xp.where(inner, x, 1.0)
    main = xp.exp(-b * _log1p_excess(xp, (t - b) / b, t / b) - _stirling_rest(xp, b)) * xp.sqrt(b / (2 * pi)) / t
    small = xp.where(large, 1.0, a)
    power = xp.where(x == xp.inf, 0.0, xp.power(x, small - 1.0) * xp.exp(-x))
    return xp.where(large, xp.where(inner, main, 0.0), power * special_of(xp).rgamma(small))


def beta_density_kernel(xp: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """x**(a - 1) y**(b - 1) / beta(a, b) where y = 1 - x, accurate for large shapes too."""
    swap = a > b
    a, b, x, y = xp.where(swap, b, a), xp.where(swap, a, b), xp.where(swap, y, x), xp.where(swap, x, y)
    wide, large = b >= 16.0, a >= 16.0
    p, q = xp.where(large, a, 16.0), xp.where(wide, b, 16.0)
    there, inner = ~(y <= 0), ~((x <= 0) | (y <= 0))  # a NaN too
    s, t = xp.where(inner, x, 0.5), xp.where(inner, y, 0.5)
    gap = p * t - q * s
    rest = _stirling_rest(xp, p + q) - _stirling_rest(xp, q)
    exponent = rest - _stirling_rest(xp, p)
    exponent = exponent - p * _log1p_excess(xp, -gap / p, s * ((p + q) / p)) - q * _log1p_excess(xp, gap / q, t * ((p + q) / q))
    both = xp.exp(exponent) * xp.sqrt(p / (2 * pi) * (q / (p + q))) / s / t
    few = xp.where(large, 1.0, a)
    s = xp.where(there, x, 0.5)
    gap = few * t - q * s
    rest = _stirling_rest(xp, few + q) - _stirling_rest(xp, q)
    exponent = rest - few + few * xp.log(few + q) - 0.5 * xp.log1p(few / q)
    exponent = exponent + q * xp.where(gap < -0.5 * q, xp.log(t * ((few + q) / q)), xp.log1p(gap / q))
    one = xp.power(s, few - 1.0) * xp.exp(exponent) / t * special_of(xp).rgamma(few)
    c, d = xp.where(wide, 1.0, a), xp.where(wide, 1.0, b)
    none = xp.power(x, c - 1.0) * xp.power(y, d - 1.0) / special_of(xp).beta(c, d)
    return xp.where(large, xp.where(inner, both, 0.0), xp.where(wide, xp.where(there, one, 0.0), none))


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


# -- special incomplete


# -- gamma


def _gamma_score(a: Any, x: Any) -> Any:
    return sub(log(x), digamma(a))


# x**(a - 1) * exp(-x) / gamma(a).
gamma_density = numerical(
    "gamma_density",
    gamma_density_kernel,
    lambda t, out, a, x: mul(mul(out, _gamma_score(a, x)), t),
    lambda t, out, a, x: mul(mul(out, sub(ratio(sub(a, 1.0), x), 1.0)), t),
)


def _gamma_parts(xp: Any, a: Any, x: Any) -> tuple[Any, ...]:
    """Which elements are inside the domain, the tail where nothing cancels, and its mass and slope."""
    inside = (a > 0) & (a < xp.inf) & (x > 0) & (x < xp.inf)
    a, x = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    lower = gamma_side(xp, a, x)
    return (inside, a, x, lower, *gamma_tail(xp, a, x, lower))


def _gammainc_a_kernel(xp: Any, a: Any, x: Any) -> Any:
    functions = special_of(xp)
    inside, b, y, lower, mass, slope = _gamma_parts(xp, a, x)
    out = xp.where(lower, functions.gammainc(b, y), -functions.gammaincc(b, y)) * (slope / mass)
    flat = ((a > 0) & ((x == 0) | (x == xp.inf))) | ((a == xp.inf) & (x >= 0))
    at_zero = -functions.exp1(xp.where((a == 0) & (x > 0), x, 1.0))
    return xp.where(inside, out, xp.where(flat, 0.0, xp.where((a == 0) & (x > 0), at_zero, xp.nan)))


@kernel("gammainc")
def _gammainc_aa_kernel(xp: Any, a: Any, x: Any, *, orders: tuple) -> Any:
    """The second derivative of gammainc by a; (slope / mass) is the logarithm's first."""
    functions = special_of(xp)
    inside = (a > 0) & (a < xp.inf) & (x > 0) & (x < xp.inf)
    b, y = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    lower = gamma_side(xp, b, y)
    mass, slope = gamma_tail(xp, b + 1j * TINY, y, lower)
    tail = xp.where(lower, functions.gammainc(b, y), -functions.gammaincc(b, y))
    out = tail * bend(slope / mass)
    return xp.where(inside, out, xp.where((a > 0) & ((x == 0) | (x == xp.inf)), 0.0, xp.nan))


# The derivative of gammainc by a.
gammainc_a = numerical(
    "gammainc_a",
    _gammainc_a_kernel,
    lambda t, out, a, x: mul(numeric("gammainc", a, x, orders=(2, 0)), t),
    lambda t, out, a, x: mul(mul(gamma_density(a, x), _gamma_score(a, x)), t),
)
gammainc = ufunc(
    "gammainc",
    lambda t, out, a, x: mul(gammainc_a(a, x), t),
    lambda t, out, a, x: mul(gamma_density(a, x), t),
    device=placement.either_nan,
)
gammaincc = ufunc(
    "gammaincc",
    lambda t, out, a, x: neg(mul(gammainc_a(a, x), t)),
    lambda t, out, a, x: neg(mul(gamma_density(a, x), t)),
    device=placement.either_nan,
)


def _random_gamma_grad_kernel(xp: Any, a: Any, x: Any) -> Any:
    inside, _, y, lower, _, slope = _gamma_parts(xp, a, x)
    return xp.where(inside, xp.where(lower, -slope, slope) * y, xp.where((a > 0) & (x == 0), 0.0, xp.nan))


# The derivative by a of a sample of the gamma law, along the path on which its probability stays: -(dP/da) / density.
random_gamma_grad = numerical(
    "random_gamma_grad",
    _random_gamma_grad_kernel,
    lambda t, out, a, x: neg(
        mul(add(div(numeric("gammainc", a, x, orders=(2, 0)), gamma_density(a, x)), mul(out, _gamma_score(a, x))), t)
    ),
    lambda t, out, a, x: neg(mul(add(_gamma_score(a, x), mul(out, sub(ratio(sub(a, 1.0), x), 1.0))), t)),
)
gammaincinv = ufunc(
    "gammaincinv",
    lambda t, out, a, p: mul(random_gamma_grad(a, out), t),
    lambda t, out, a, p: div(t, gamma_density(a, out)),
)
gammainccinv = ufunc(
    "gammainccinv",
    lambda t, out, a, q: mul(random_gamma_grad(a, out), t),
    lambda t, out, a, q: neg(div(t, gamma_density(a, out))),
)

# -- beta


def _beta_score(a: Any, b: Any, x: Any, which: int) -> Any:
    """The derivative of the log density by a (which=0) or b (which=1)."""
    return add(sub(log1p(neg(x)), digamma(b)) if which else sub(log(x), digamma(a)), digamma(add(a, b)))


# x**(a - 1) * (1 - x)**(b - 1) / beta(a, b).
beta_density = numerical(
    "beta_density",
    lambda xp, a, b, x: beta_density_kernel(xp, a, b, x, 1.0 - x),
    lambda t, out, a, b, x: mul(mul(out, _beta_score(a, b, x, 0)), t),
    lambda t, out, a, b, x: mul(mul(out, _beta_score(a, b, x, 1)), t),
    lambda t, out, a, b, x: mul(
        mul(out, sub(ratio(sub(a, 1.0), x), ratio(sub(b, 1.0), sub(1.0, x)))), t
    ),
)


def _beta_complement(xp: Any) -> Any:
    if hasattr(special_of(xp), "betaincc"):
        return special_of(xp).betaincc
    betainc = function_of(xp, "betainc")
    return lambda a, b, x: betainc(b, a, 1.0 - x)


def _betainc_shape_kernel(xp: Any, a: Any, b: Any, x: Any, *, which: int) -> Any:
    inside = (a > 0) & (a < xp.inf) & (b > 0) & (b < xp.inf) & (x > 0) & (x < 1)
    a, b = xp.where(inside, a, 1.0), xp.where(inside, b, 1.0)
    s = xp.where(inside, x, 0.5)
    shapes = (b, a, 1.0 - s, s) if which else (a, b, s, 1.0 - s)
    lower = beta_side(xp, *shapes)
    mass, slope = beta_tail(xp, *shapes, lower)
    below, above = special_of(xp).betainc(a, b, s), _beta_complement(xp)(a, b, s)
    out = xp.where(lower, above, -below) if which else xp.where(lower, below, -above)
    out = out * (slope / mass) * (-1.0 if which else 1.0)
    return xp.where(inside, out, xp.where((x == 0) | (x == 1), 0.0, xp.nan))


def _beta_bend(xp: Any, a: Any, b: Any, x: Any, y: Any, orders: tuple) -> Any:
    """The second derivative of betainc by its shapes, where all is inside; y is 1 - x."""
    which = orders[0] == 0
    if which:  # betainc(a, b, x) is 1 - betainc(b, a, y)
        a, b, x, y = b, a, y, x
    mixed = orders[0] == orders[1]
    lower = beta_side(xp, a, b, x, y)
    moved = (a, b + 1j * TINY) if mixed else (a + 1j * TINY, b)
    first = xp.divide(*beta_tail(xp, *moved, x, y, lower)[::-1])
    below, above = special_of(xp).betainc(a, b, x), _beta_complement(xp)(a, b, x)
    tail = xp.where(lower, below, -above)
    if not mixed:
        out = tail * bend(first)
    else:
        out = tail * first.imag / TINY + first.real * _betainc_shape_kernel(xp, a, b, x, which=1)
    return -out if which else out


@kernel("betainc")
def _betainc_bend_kernel(xp: Any, a: Any, b: Any, x: Any, *, orders: tuple) -> Any:
    inside = (a > 0) & (a < xp.inf) & (b > 0) & (b < xp.inf) & (x > 0) & (x < 1)
    s = xp.where(inside, x, 0.5)
    out = _beta_bend(xp, xp.where(inside, a, 1.0), xp.where(inside, b, 1.0), s, 1.0 - s, orders)
    return xp.where(inside, out, xp.where((x == 0) | (x == 1), 0.0, xp.nan))


def _shape_twice(position: int) -> Any:
    def rule(t: Any, out: Any, a: Any, b: Any, x: Any, *, which: int) -> Any:
        orders = (2 - which - position, which + position, 0)
        return mul(numeric("betainc", a, b, x, orders=orders), t)

    return rule


# The derivative of betainc by a (which=0) or b (which=1).
betainc_shape = numerical(
    "betainc_shape",
    _betainc_shape_kernel,
    _shape_twice(0),
    _shape_twice(1),
    lambda t, out, a, b, x, *, which: mul(mul(beta_density(a, b, x), _beta_score(a, b, x, which)), t),
)
betainc = ufunc(
    "betainc",
    lambda t, out, a, b, x: mul(betainc_shape(a, b, x, which=0), t),
    lambda t, out, a, b, x: mul(betainc_shape(a, b, x, which=1), t),
    lambda t, out, a, b, x: mul(beta_density(a, b, x), t),
)
betaincc = numerical(
    "betaincc",
    lambda xp, a, b, x: _beta_complement(xp)(a, b, x),
    lambda t, out, a, b, x: neg(mul(betainc_shape(a, b, x, which=0), t)),
    lambda t, out, a, b, x: neg(mul(betainc_shape(a, b, x, which=1), t)),
    lambda t, out, a, b, x: neg(mul(beta_density(a, b, x), t)),
)


def _by_shape(which: int) -> Any:
    def rule(t: Any, out: Any, a: Any, b: Any, p: Any) -> Any:
        return neg(mul(div(betainc_shape(a, b, out, which=which), beta_density(a, b, out)), t))

    return rule


betaincinv = ufunc(
    "betaincinv", _by_shape(0), _by_shape(1), lambda t, out, a, b, p: div(t, beta_density(a, b, out))
)
betainccinv = ufunc(
    "betainccinv", _by_shape(0), _by_shape(1), lambda t, out, a, b, p: neg(div(t, beta_density(a, b, out)))
)

# -- Student's t law


def student_density(v: Any, t: Any) -> Any:
    scale = div(poch(mul(0.5, v), 0.5), sqrt(mul(pi, v)))
    return mul(scale, exp(mul(mul(-0.5, add(v, 1.0)), log1p(div(square(t), v)))))


def _stdtr_v_kernel(xp: Any, v: Any, t: Any) -> Any:
    """By the chain rule from betainc(v / 2, 1 / 2, v / (v + t**2)) / 2, the probability of the tail beyond abs(t)."""
    functions = special_of(xp)
    inside = (v > 0) & (v < xp.inf) & (abs(t) < xp.inf) & (t != 0)
    v, s = xp.where(inside, v, 1.0), xp.where(inside, abs(t), 1.0)
    a, b, square_of = 0.5 * v, xp.full(v.shape, 0.5), s * s
    x, y = v / (v + square_of), square_of / (v + square_of)
    lower = beta_side(xp, a, b, x, y)
    mass, slope = beta_tail(xp, a, b, x, y, lower)
    near = functions.betainc(b, a, y)
    far = xp.where(y < 0.5, _beta_complement(xp)(b, a, y), functions.betainc(a, b, x))
    by_shape = xp.where(lower, far, -near) * (slope / mass)
    by_place = beta_density_kernel(xp, a, b, x, y) * x * y / v
    out = -xp.sign(t) * (0.25 * by_shape + 0.5 * by_place)
    return xp.where(inside, out, xp.where((t == 0) | xp.isinf(t), 0.0, xp.nan))


def _student_score(v: Any, t: Any) -> Any:
    """The derivative of the log density by v."""
    level = sub(sub(digamma(mul(0.5, add(v, 1.0))), digamma(mul(0.5, v))), div(1.0, v))
    q = div(square(t), v)
    return mul(0.5, add(sub(level, log1p(q)), div(mul(div(add(v, 1.0), v), q), add(1.0, q))))


@kernel("stdtr")
def _stdtr_vv_kernel(xp: Any, v: Any, t: Any, *, orders: tuple) -> Any:
    inside = (v > 0) & (v < xp.inf) & (abs(t) < xp.inf) & (t != 0)
    v, s = xp.where(inside, v, 1.0), xp.where(inside, t * t, 1.0)
    a, b, total = 0.5 * v, xp.full(v.shape, 0.5), v + s
    x, y = v / total, s / total
    density, digamma = beta_density_kernel(xp, a, b, x, y), special_of(xp).digamma
    score = xp.where(x > 0.5, xp.log1p(-y), xp.log(x)) - digamma(a) + digamma(a + b)
    by_place = y / total  # of x, by v
    out = 0.25 * _beta_bend(xp, a, b, x, y, (2, 0))
    out = out + density * by_place * (score + ((a - 1.0) / x + 0.5 / y) * by_place - 2.0 / total)
    return xp.where(inside, -0.5 * xp.sign(t) * out, xp.where((t == 0) | xp.isinf(t), 0.0, xp.nan))


# The derivative of stdtr by df.
stdtr_v = numerical(
    "stdtr_v",
    _stdtr_v_kernel,
    lambda t, out, v, x: mul(numeric("stdtr", v, x, orders=(2, 0)), t),
    lambda t, out, v, x: mul(mul(student_density(v, x), _student_score(v, x)), t),
)
# The distribution function of Student's t law.
stdtr = ufunc(
    "stdtr", lambda t, out, v, x: mul(stdtr_v(v, x), t), lambda t, out, v, x: mul(student_density(v, x), t)
)

# -- Fisher's F law: y = n x / (d + n x) is of the beta law of n / 2 and d / 2


def _fisher(n: Any, d: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """n / 2, d / 2, y, and the density of y over (d + n x)**2."""
    total = add(d, mul(n, x))
    a, b, y = mul(0.5, n), mul(0.5, d), div(mul(n, x), total)
    return a, b, y, div(beta_density(a, b, y), square(total))


def _fdtri_by(which: int) -> Any:
    def rule(t: Any, out: Any, n: Any, d: Any, p: Any) -> Any:
        a, b, y, scale = _fisher(n, d, out)
        slope = mul(0.5, betainc_shape(a, b, y, which=which))
        change = add(slope, mul(scale, mul(out, d))) if which == 0 else sub(slope, mul(scale, mul(n, out)))
        return neg(mul(div(change, mul(scale, mul(n, d))), t))

    return rule


# The inverse of the distribution function of Fisher's F law.
fdtri = ufunc(
    "fdtri",
    _fdtri_by(0),
    _fdtri_by(1),
    lambda t, out, n, d, p: div(t, mul(_fisher(n, d, out)[3], mul(n, d))),
)
# The inverse of stdtr in t.
stdtrit = ufunc(
    "stdtrit",
    lambda t, out, v, p: neg(mul(div(stdtr_v(v, out), student_density(v, out)), t)),
    lambda t, out, v, p: div(t, student_density(v, out)),
)


def gammainc_partial(xp: Any, a: Any, x: Any, orders: tuple) -> Any:
    """The mixed derivative of gammainc of these orders by a and x, at most two in all; plain vectors inside the domain."""
    by_a, by_x = orders
    if by_a == 2:
        return _gammainc_aa_kernel(xp, a, x, orders=orders)
    if by_a and not by_x:
        return _gammainc_a_kernel(xp, a, x)
    density = gamma_density_kernel(xp, a, x)
    if by_a:
        return density * (xp.log(x) - special_of(xp).digamma(a))
    return density if by_x == 1 else density * ((a - 1.0) / x - 1.0)


def betainc_partial(xp: Any, a: Any, b: Any, x: Any, orders: tuple) -> Any:
    """As gammainc_partial, of betainc."""
    by_a, by_b, by_x = orders
    if not by_x:
        if by_a + by_b == 2:
            return _betainc_bend_kernel(xp, a, b, x, orders=orders)
        return _betainc_shape_kernel(xp, a, b, x, which=by_b)
    density, digamma = beta_density_kernel(xp, a, b, x, 1.0 - x), special_of(xp).digamma
    if by_a or by_b:
        score = xp.log1p(-x) - digamma(b) if by_b else xp.log(x) - digamma(a)
        return density * (score + digamma(a + b))
    return density if by_x == 1 else density * ((a - 1.0) / x - (b - 1.0) / (1.0 - x))

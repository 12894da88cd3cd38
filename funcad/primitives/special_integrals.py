"""Integrals and series: exponential, trigonometric and elliptic integrals, hypergeometric functions.

Derivatives by the argument are closed forms; those of hypergeometric functions by their parameters are in
special_integrals.py; expn has none by its order, an integer. The elliptic integrals' derivatives go through D = (F - E) / m,
which is regular at m = 0 (Carlson's RD).
"""

from __future__ import annotations

import functools
from math import inf, pi
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of
from funcad.primitives import placement
from funcad.primitives.arithmetic import abs_, add, div, mul, neg, sqrt, square, sub
from funcad.primitives.comparison import eq, gt, lt, select
from funcad.primitives.conversion import complex_dtype, convert
from funcad.primitives.families import elementwise
from funcad.primitives.shape import beside
from funcad.primitives.special_bessel import iv_order, jv_yv_order
from funcad.primitives.special_gamma import static_order
from funcad.primitives.transcendental import cos, cosh, exp, sin, sinc

from funcad.primitives.special_rules import (  # isort: skip
    by, circle, function_of, gauss, in_double, kernel,
    missing, numeric, numerical, partials, several,
    special_of, ufunc, rising,
)

# -- Carlson's elliptic integrals, those of Legendre by the parameter, Jacobi's functions, the arithmetic-geometric mean
#
# Idea: all derivatives are integrals over t > 0 of t**n times half-integer powers of t + x: positive, so nothing cancels, and
# closed under differentiation. In log(t) the integrand is analytic in a strip of width 2 pi and falls off exponentially at both
# ends, so that the trapezoidal rule has full accuracy. Negative last arguments (Cauchy's principal value) have no such
# integral: elliprc has closed forms there, elliprj's derivatives are NaN.


_STEP = 0.4
_CUT = 40.0


def moment_kernel(xp: Any, *args: Any, halves: tuple, power: int) -> Any:
    """The integral over t > 0 of t**power times (t + x)**(-n / 2) for each argument x and its n of `halves`."""
    args, halves = tuple([a for a, n in zip(args, halves) if n]), tuple([n for n in halves if n])
    good, far = sum([a > 0 for a in args]) > 0, sum([a == xp.inf for a in args]) > 0
    for a in args:
        good = good & (a >= 0)
    args = tuple([xp.where(good & ~far, a, 1.0) for a in args])
    rising = 1.0 + power - sum([xp.where(a == 0, 0.5 * n, 0.0) for a, n in zip(args, halves)])
    falling = 0.5 * sum(halves) - power - 1.0
    divergent = rising <= 0
    logs = [xp.log(xp.where(a > 0, a, 1.0)) for a in args]
    least = highest = None
    for a, log in zip(args, logs):
        low, high = xp.where(a > 0, log, xp.inf), xp.where(a > 0, log, -xp.inf)
        least = low if least is None else xp.minimum(least, low)
        highest = high if highest is None else xp.maximum(highest, high)
    start = least - _CUT / xp.where(divergent, 1.0, rising)
    length = highest + _CUT / falling - start
    count = int(float(xp.max(length)) / _STEP) + 2 if length.size else 0
    step = length / max(count, 1)
    total, mean = 0.0, 0.5 * (least + highest)
    for k in range(count + 1):
        u = start + k * step
        t = xp.exp(u)
        total = total + xp.exp(
            (1.0 + power) * u + falling * mean - sum([0.5 * n * xp.log(t + a) for a, n in zip(args, halves)])
        )
    out = xp.where(divergent, xp.inf, step * total * xp.exp(-falling * mean))
    return xp.where(good, xp.where(far, 0.0, out), xp.nan)


def _moment_jvp(tangents: Any, out: Any, *args: Any, halves: tuple, power: int) -> Any:
    total = None
    for position, (t, n) in enumerate(zip(tangents, halves)):
        if t is not None and n:
            raised = tuple([h + 2 * (i == position) for i, h in enumerate(halves)])
            term = mul(mul(-0.5 * n, carlson_moment_p(*args, halves=raised, power=power)), t)
            total = term if total is None else add(total, term)
    return total


carlson_moment_p: Any = elementwise("carlson_moment", in_double(moment_kernel), _moment_jvp)


def _slope(scale: float, halves: tuple, position: int, power: int = 0) -> Any:
    """The partial derivative of scale times a moment."""
    raised = tuple([n + 2 * (i == position) for i, n in enumerate(halves)])
    factor = -0.5 * halves[position] * scale
    return lambda out, *args: mul(factor, carlson_moment_p(*args, halves=raised, power=power))


def _moments(name: str, scale: float, *halves: int) -> Any:
    return partials(name, *[_slope(scale, halves, i) for i in range(len(halves))])


def _rc_by(position: int) -> Any:
    """Below the cut the closed form, above it the integral, which has no difference of equal numbers at y = x."""

    def partial(out: Any, x: Any, y: Any) -> Any:
        principal = lt(y, 0.0)
        gap = select(principal, sub(y, x), 1.0)
        root = sqrt(x)
        closed = sub(div(root, y), out) if position else sub(out, div(1.0, root))
        whole = _slope(0.5, (1, 2), position)(out, x, select(principal, 1.0, y))
        return select(principal, div(mul(0.5, closed), gap), whole)

    return partial


elliprc = partials("elliprc", _rc_by(0), _rc_by(1))
elliprf = _moments("elliprf", 0.5, 1, 1, 1)
elliprd = _moments("elliprd", 1.5, 1, 1, 3)
elliprj = _moments("elliprj", 1.5, 1, 1, 1, 2)


def _rg_by(position: int) -> Any:
    halves = tuple([1 + 2 * (i == position) for i in range(3)])
    return lambda out, *args: mul(0.125, carlson_moment_p(*args, halves=halves, power=1))


elliprg = partials("elliprg", _rg_by(0), _rg_by(1), _rg_by(2))


def _agm_by(position: int) -> Any:
    def partial(out: Any, a: Any, b: Any) -> Any:
        this, other = (b, a) if position else (a, b)
        rd = carlson_moment_p(0.0, square(other), square(this), halves=(1, 1, 3), power=0)
        return mul(mul(square(out), abs_(this)), mul(1 / pi, rd))

    return partial


agm = partials("agm", _agm_by(0), _agm_by(1))

# -- integrals of sines


def _sine_moment_kernel(xp: Any, phi: Any, m: Any, *, power: int, root: int) -> Any:
    turns = xp.rint(phi / pi)
    rest = phi - turns * pi
    halves = (1, root, 2 + 2 * power - root)

    def part(s: Any, c: Any) -> Any:
        return 0.5 * s ** (2 * power + 1) * moment_kernel(xp, c * c, 1.0 - m * s * s, xp.ones_like(m), halves=halves, power=0)

    out = part(xp.sin(rest), xp.cos(rest))
    return xp.where(turns == 0, out, out + 2 * turns * part(1.0, xp.zeros_like(m))) if (turns != 0).any() else out


def _sine_moment_jvp(tangents: Any, out: Any, phi: Any, m: Any, *, power: int, root: int) -> Any:
    by_phi, by_m = tangents
    total = None
    if by_phi is not None:
        s = square(sin(phi))
        level = sub(1.0, mul(m, s))
        top, low = 1.0, sqrt(level)
        for _ in range(power):
            top = mul(top, s)
        for _ in range(root // 2):
            low = mul(low, level)
        total = mul(div(top, low), by_phi)
    if by_m is not None:
        term = mul(mul(0.5 * root, sine_moment(phi, m, power=power + 1, root=root + 2)), by_m)
        total = term if total is None else add(total, term)
    return total


# The integral from 0 to phi of sin**(2 power) * (1 - m sin**2)**(-root / 2); root is odd.
sine_moment: Any = elementwise("sine_moment", in_double(_sine_moment_kernel), _sine_moment_jvp)


# -- Jacobi's elliptic functions


def _amplitude_by_m(out: Any, u: Any, m: Any) -> Any:
    angle = ellipj_phi(u, m)
    return mul(mul(-0.5, ellipj_dn(u, m)), sine_moment(angle, m, power=1, root=3))


def _dn_by_m(out: Any, u: Any, m: Any) -> Any:
    angle = ellipj_phi(u, m)
    s, c = sin(angle), cos(angle)
    change = add(mul(0.5, square(s)), mul(mul(m, mul(s, c)), _amplitude_by_m(out, u, m)))
    return neg(div(change, out))


ellipj_sn, ellipj_cn, ellipj_dn, ellipj_phi = several(
    "ellipj",
    (
        lambda out, u, m: mul(ellipj_cn(u, m), ellipj_dn(u, m)),
        lambda out, u, m: mul(ellipj_cn(u, m), _amplitude_by_m(out, u, m)),
    ),
    (
        lambda out, u, m: neg(mul(ellipj_sn(u, m), ellipj_dn(u, m))),
        lambda out, u, m: neg(mul(ellipj_sn(u, m), _amplitude_by_m(out, u, m))),
    ),
    (lambda out, u, m: neg(mul(m, mul(ellipj_sn(u, m), ellipj_cn(u, m)))), _dn_by_m),
    (lambda out, u, m: ellipj_dn(u, m), _amplitude_by_m),
)


def ellipj(u: Any, m: Any) -> tuple[Any, ...]:
    """sn, cn, dn and the amplitude."""
    return ellipj_sn(u, m), ellipj_cn(u, m), ellipj_dn(u, m), ellipj_phi(u, m)


# -- exponential, trigonometric and elliptic integrals, hypergeometric functions, Lambert's W, spherical harmonics


expi = ufunc("expi", lambda t, out, x: mul(div(exp(x), x), t), device=placement.at_infinity(inf))
exp1 = ufunc("exp1", lambda t, out, x: neg(mul(div(exp(neg(x)), x), t)), device=placement.nan_aside)
spence = ufunc("spence", lambda t, out, x: neg(mul(log_over_excess(x), t)))


def _log_over_excess_impl(xp: Any, x: Any) -> Any:
    e = x - 1.0
    near = abs(e) < 1e-8
    return xp.where(near, 1.0 - 0.5 * e, xp.log(xp.where(near, 2.0, x)) / xp.where(near, 1.0, e))[()]


def _log_over_excess_jvp(t: Any, out: Any, x: Any) -> Any:
    e = sub(x, 1.0)
    near = lt(abs_(e), 1e-3)
    far = div(sub(div(1.0, select(near, 1.0, x)), out), select(near, 1.0, e))
    series = add(-0.5, mul(e, add(2 / 3, mul(e, add(-0.75, mul(e, add(0.8, mul(e, -5 / 6))))))))
    return mul(select(near, series, far), t)


# log(x) / (x - 1), 1 at 1.
log_over_excess = elementwise("log_over_excess", _log_over_excess_impl, [_log_over_excess_jvp])


def _expn_slope(out: Any, n: Any, x: Any) -> Any:
    """-expn(n - 1, x), for which SciPy has no value at n = 0."""
    first = mul(out, add(1.0, div(1.0, x)))
    if is_a(n, float):
        return first if n == 0.0 else expn(n - 1.0, x)
    n = beside(n, x)
    at_zero = eq(n, 0.0)
    return select(at_zero, first, expn(sub(select(at_zero, 1.0, n), 1.0), x))


def _expn_impl(xp: Any, n: Any, x: Any) -> Any:
    n = np.asarray(n).astype(np.int64) if xp is np else n  # SciPy warns of orders that are not integers
    out = function_of(xp, "expn")(n, x)
    return out.astype(x.dtype) if hasattr(x, "dtype") else out


expn_p = elementwise(
    "expn", _expn_impl, [missing("expn", "n"), lambda t, out, n, x: neg(mul(_expn_slope(out, n, x), t))]
)


def _dying(wave: Any) -> Any:
    """The rule by a slope that goes to 0 at both infinities."""

    def slope(t: Any, out: Any, x: Any) -> Any:
        far = eq(abs_(x), inf)
        return mul(select(far, 0.0, wave(select(far, 1.0, x))), t)

    return slope


sine_integral_p = ufunc("sine_integral", _dying(lambda x: sinc(div(x, pi))), of="sici", which=0)
cosine_integral_p = ufunc("cosine_integral", _dying(lambda x: div(cos(x), x)), of="sici", which=1)


def _sinhc_impl(xp: Any, x: Any) -> Any:
    near = abs(x) < 1e-4
    return xp.where(near, 1.0 + x * x / 6, xp.sinh(x) / xp.where(near, 1.0, x))[()]


def _sinhc_jvp(t: Any, out: Any, x: Any) -> Any:
    near = lt(abs_(x), 1e-2)
    square_of = square(x)
    series = mul(x, add(1 / 3, mul(square_of, add(1 / 30, mul(square_of, 1 / 840)))))
    return mul(select(near, series, div(sub(cosh(x), out), select(near, 1.0, x))), t)


sinhc_p = elementwise("sinhc", _sinhc_impl, [_sinhc_jvp])
hyperbolic_sine_integral_p = ufunc(
    "hyperbolic_sine_integral", lambda t, out, x: mul(sinhc_p(x), t), of="shichi", which=0
)
hyperbolic_cosine_integral_p = ufunc(
    "hyperbolic_cosine_integral", lambda t, out, x: mul(div(cosh(x), x), t), of="shichi", which=1
)

# -- elliptic integrals of parameter m


def _root(phi: Any, m: Any) -> Any:
    return sqrt(sub(1.0, mul(m, square(sin(phi)))))


def _elliptic_d_kernel(xp: Any, phi: Any, m: Any) -> Any:
    """(F - E) / m: the integral of sin**2 / sqrt(1 - m sin**2) from 0 to phi."""
    rd = function_of(xp, "elliprd")
    turns = xp.rint(phi / pi)
    rest = phi - turns * pi
    s, c = xp.sin(rest), xp.cos(rest)
    out = s * s * s / 3.0 * rd(c * c, 1.0 - m * s * s, xp.ones_like(m))
    return out + xp.where(turns == 0, 0.0, turns * (2 / 3) * rd(xp.zeros_like(m), 1.0 - m, xp.ones_like(m)))


def _elliptic_d_by_phi(t: Any, out: Any, phi: Any, m: Any) -> Any:
    return mul(div(square(sin(phi)), _root(phi, m)), t)


# (F - E) / m of the incomplete elliptic integrals F and E.
elliptic_d = numerical(
    "elliptic_d",
    _elliptic_d_kernel,
    _elliptic_d_by_phi,
    lambda t, out, phi, m: mul(mul(0.5, sine_moment(phi, m, power=2, root=3)), t),
)


def _first_by_m(out: Any, phi: Any, m: Any, rest: Any = 0.0) -> Any:
    return div(mul(0.5, sub(sub(out, elliptic_d(phi, m)), rest)), sub(1.0, m))


ellipk = ufunc("ellipk", lambda t, out, m: mul(_first_by_m(out, pi / 2, m), t))
# ellipk(1 - p).
ellipkm1 = ufunc("ellipkm1", lambda t, out, p: neg(mul(_first_by_m(out, pi / 2, sub(1.0, p)), t)))
ellipe = ufunc("ellipe", lambda t, out, m: mul(mul(-0.5, elliptic_d(pi / 2, m)), t))
ellipkinc = ufunc(
    "ellipkinc",
    lambda t, out, phi, m: div(t, _root(phi, m)),
    lambda t, out, phi, m: mul(_first_by_m(out, phi, m, div(mul(sin(phi), cos(phi)), _root(phi, m))), t),
)
ellipeinc = ufunc(
    "ellipeinc",
    lambda t, out, phi, m: mul(_root(phi, m), t),
    lambda t, out, phi, m: mul(mul(-0.5, elliptic_d(phi, m)), t),
)

# -- hypergeometric functions


def _times(partial: Any) -> Any:
    """The rule of a partial derivative."""
    return lambda t, out, *args: mul(partial(out, *args), t)


hyp0f1 = ufunc(
    "hyp0f1", _times(by("hyp0f1", 0, 2)), lambda t, out, v, x: mul(div(hyp0f1(add(v, 1.0), x), v), t)
)
hyp1f1 = ufunc(
    "hyp1f1",
    lambda t, out, a, b, x: mul(kummer_slope(a, b, x, which=0), t),
    lambda t, out, a, b, x: mul(kummer_slope(a, b, x, which=1), t),
    lambda t, out, a, b, x: mul(mul(div(a, b), hyp1f1(add(a, 1.0), add(b, 1.0), x)), t),
)
hyp2f1 = ufunc(
    "hyp2f1",
    _times(by("hyp2f1", 0, 4)),
    _times(by("hyp2f1", 1, 4)),
    _times(by("hyp2f1", 2, 4)),
    lambda t, out, a, b, c, x: mul(
        mul(div(mul(a, b), c), hyp2f1(add(a, 1.0), add(b, 1.0), add(c, 1.0), x)), t
    ),
)
hyperu = ufunc(
    "hyperu",
    _times(by("hyperu", 0, 3)),
    _times(by("hyperu", 1, 3)),
    lambda t, out, a, b, x: neg(mul(mul(a, hyperu(add(a, 1.0), add(b, 1.0), x)), t)),
)


def _kummer_series(xp: Any, a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """The derivatives by a and by b of the sum of (a)_k x**k / ((b)_k k!), for x >= 0."""
    term, by_a, by_b = xp.ones_like(x), xp.zeros_like(x), xp.zeros_like(x)
    total_a = total_b = 0.0
    count = int(60 + float(xp.max(x + 8 * xp.sqrt(x) + xp.sqrt(abs(a) * x)))) if x.size else 0
    for k in range(count):
        factor, grow = x / ((b + k) * (k + 1.0)), (a + k)
        by_a = factor * (by_a * grow + term)
        by_b = factor * grow * (by_b - term / (b + k))
        term = term * factor * grow
        total_a, total_b = total_a + by_a, total_b + by_b
    return total_a, total_b


def _kummer_slope_kernel(xp: Any, a: Any, b: Any, x: Any, *, which: int) -> Any:
    inside = (abs(x) <= 700.0) & (abs(a) < xp.inf) & (abs(b) < xp.inf)  # beyond, the function over- or underflows
    inside = inside & (abs(x) <= 2e5 / (1.0 + abs(xp.where(x < 0, b - a, a))))  # or its terms do
    a, b, x = xp.where(inside, a, 1.0), xp.where(inside, b, 1.0), xp.where(inside, x, 1.0)
    mirrored = x < 0  # M(a, b, x) = exp(x) M(b - a, b, -x)
    by_a, by_b = _kummer_series(xp, xp.where(mirrored, b - a, a), b, abs(x))
    scale = xp.exp(x)
    out = xp.where(mirrored, (by_a + by_b) * scale, by_b) if which else xp.where(mirrored, -by_a * scale, by_a)
    return xp.where(inside, out, xp.nan)


# The derivative of hyp1f1 by a (which=0) or b (which=1).
kummer_slope = numerical(
    "kummer_slope",
    _kummer_slope_kernel,
    lambda t, out, a, b, x, *, which: mul(numeric("hyp1f1", a, b, x, orders=(2 - which, which, 0)), t),
    lambda t, out, a, b, x, *, which: mul(numeric("hyp1f1", a, b, x, orders=(1 - which, 1 + which, 0)), t),
    lambda t, out, a, b, x, *, which: mul(_kummer_slope_by_x(a, b, x, which), t),
)


def _kummer_slope_by_x(a: Any, b: Any, x: Any, which: int) -> Any:
    """The derivative by a or b of a / b M(a + 1, b + 1, x)."""
    next_ = (add(a, 1.0), add(b, 1.0), x)
    direct = neg(div(mul(a, hyp1f1(*next_)), b)) if which else hyp1f1(*next_)
    return div(add(mul(a, kummer_slope(*next_, which=which)), direct), b)


# -- complex results


def _lambertw_impl(xp: Any, z: Any, *, k: int, tol: float) -> Any:
    return function_of(xp, "lambertw")(z, k, tol)


lambertw_p = elementwise(
    "lambertw", _lambertw_impl, [lambda t, out, z, *, k, tol: mul(div(exp(neg(out)), add(1.0, out)), t)]
)


# The solution w of w + log(w) = z.
wrightomega = ufunc("wrightomega", lambda t, out, z: mul(div(out, add(1.0, out)), t))


def _sph_harm_y_impl(xp: Any, n: Any, m: Any, theta: Any, phi: Any) -> Any:
    n, m = [xp.asarray(v).astype(np.int64) for v in (n, m)]
    out = xp.where(abs(m) > n, 0.0, function_of(xp, "sph_harm_y")(n, xp.where(abs(m) > n, 0, m), theta, phi))
    return out.astype(complex_dtype(dtype_of(theta)))[()]


def _turned(x: Any, phi: Any, direction: complex) -> Any:
    return mul(exp(mul(direction, convert(phi, dtype_of(x)))), x)


def _ladder(x: Any, y: Any) -> Any:
    """sqrt(x y), 0 beyond the last order."""
    inside = gt(x, 0.0)
    return select(inside, sqrt(mul(select(inside, x, 1.0), select(inside, y, 1.0))), 0.0)


def _sph_harm_y_by_theta(t: Any, out: Any, n: Any, m: Any, theta: Any, phi: Any) -> Any:
    dtype = dtype_of(out)
    up, down = _ladder(sub(n, m), add(add(n, m), 1.0)), _ladder(add(n, m), add(sub(n, m), 1.0))
    above = _turned(mul(convert(up, dtype), sph_harm_y(n, add(m, 1.0), theta, phi)), phi, -1j)
    below = _turned(mul(convert(down, dtype), sph_harm_y(n, sub(m, 1.0), theta, phi)), phi, 1j)
    side = select(lt(sin(theta), 0.0), -0.5, 0.5)  # SciPy's value beyond a pole is that of the point mirrored at it
    return mul(convert(side, dtype), mul(sub(above, below), convert(t, dtype)))


# Spherical harmonics, complex; degree n and order m are given as floats.
sph_harm_y = elementwise(
    "sph_harm_y",
    _sph_harm_y_impl,
    [
        None,
        None,
        _sph_harm_y_by_theta,
        lambda t, out, n, m, theta, phi: mul(mul(mul(1j, convert(m, dtype_of(out))), out), convert(t, dtype_of(out))),
    ],
    dtype=complex_dtype,
)


def expn(n: Any, x: Any) -> Any:
    """The generalised exponential integral of integer orders, which have derivative 0."""
    order = static_order(n, "expn")
    return expn_p(n if order is None else float(order), x)


def sici(x: Any) -> tuple[Any, Any]:
    """The sine and cosine integrals."""
    return sine_integral_p(x), cosine_integral_p(x)


def shichi(x: Any) -> tuple[Any, Any]:
    """The hyperbolic sine and cosine integrals."""
    return hyperbolic_sine_integral_p(x), hyperbolic_cosine_integral_p(x)


def lambertw(z: Any, k: int = 0, tol: float = 1e-8) -> Any:
    """The branch k of the inverse of w exp(w), of complex z."""
    return lambertw_p(z, k=k, tol=tol)


# -- hypergeometric and related functions by their parameters: power series at complex parameters, on circles (see `circle`)
#
# A series is summed for parameters a small circle around the real ones, where it is as well conditioned as at its centre; the
# derivatives by the argument are those of the series' own, with parameters moved. What such series cannot reach is NaN, or the
# last digits are lost where they alternate; docs/special_functions.md has the errors.


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
    """A quarter of the distance of b to the poles at 0, -1, ..., at most one: the terms left out are below 4**-24."""
    return 0.25 * np.minimum(1.0, np.where(b > 0, b, abs(b - np.rint(b))))


# -- 1F1 and 2F1


def _kummer(a: Any, b: Any, x: Any, k: int) -> Any:
    """Of 1F1, by exp(x) M(b - a, b, -x) where x is negative."""
    scale = rising(a, k) / rising(b, k)
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
    scale = rising(a, k) * rising(b, k) / rising(c, k)
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
    return _sum(x, (), (v + k,), 400) / rising(v, k)


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
    scale = (-1.0) ** k * rising(a, k)
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
        lambda a, b, x: [*[0.25 * np.minimum(1.0, np.where(v > 0, v, 1.0)) for v in (a, b)], None],
        lambda a, b, x: (a >= 0) & (b >= 0) & (x >= 0) & (x < 1e3),
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
    room = 0.25 * np.minimum(1.0, np.minimum(held[1] + held[2] + 1.0, np.minimum(held[2] + 1.0, 1.0)))
    f = functools.partial(_bessel_power, k=0)
    out = circle(f, held, orders, [0.25 * np.minimum(held[0], 1.0), room, room], 24)
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

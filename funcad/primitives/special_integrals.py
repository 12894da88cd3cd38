"""Exponential, trigonometric and elliptic integrals, hypergeometric functions, Lambert's W, spherical harmonics.

Derivatives by the argument are closed forms; those of hypergeometric functions by their parameters are in
special_parameters.py; expn has none by its order, an integer. The elliptic integrals' derivatives go through D = (F - E) / m,
which is regular at m = 0 (Carlson's RD).
"""

from __future__ import annotations

from math import inf, pi
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of
from funcad.primitives import device_elements
from funcad.primitives.arithmetic import abs_, add, div, mul, neg, sqrt, square, sub
from funcad.primitives.comparison import eq, gt, lt, select
from funcad.primitives.conversion import complex_dtype, convert
from funcad.primitives.families import elementwise
from funcad.primitives.shape import beside
from funcad.primitives.special_carlson import sine_moment
from funcad.primitives.special_gamma import static_order
from funcad.primitives.special_rules import function_of, missing, numerical, ufunc
from funcad.primitives.special_table import by, numeric
from funcad.primitives.transcendental import cos, cosh, exp, sin, sinc

expi = ufunc("expi", lambda t, out, x: mul(div(exp(x), x), t), device=device_elements.at_infinity(inf))
exp1 = ufunc("exp1", lambda t, out, x: neg(mul(div(exp(neg(x)), x), t)), device=device_elements.nan_aside)
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
sine_integral_p = ufunc("sine_integral", lambda t, out, x: mul(sinc(div(x, pi)), t), of="sici", which=0)
cosine_integral_p = ufunc("cosine_integral", lambda t, out, x: mul(div(cos(x), x), t), of="sici", which=1)


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

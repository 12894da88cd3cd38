"""Special functions: error functions, the normal distribution, and the integrals of exp(x**2) and of cos(x**2).

Derivatives are closed forms throughout.
"""

from __future__ import annotations

from math import pi
from math import sqrt as _sqrt
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of
from funcad.primitives.arithmetic import abs_, add, div, mul, neg, square, sub
from funcad.primitives.comparison import gt, select
from funcad.primitives.families import elementwise
from funcad.primitives.special_rules import function_of, ufunc
from funcad.primitives.transcendental import cos, exp, sin

_SQRT_PI, _SQRT_2PI = _sqrt(pi), _sqrt(2 * pi)


def _far_slope(x: Any, side: float) -> Any:
    """-1 / x**2 times the asymptotic series of the slopes of erfcx (side -1) and dawsn (side 1), for abs(x) > 20."""
    far = gt(abs_(x), 20.0)
    y = div(1.0, square(select(far, x, 1e3)))
    series = 1.0
    for factor in (6.5, 5.5, 4.5, 3.5, 2.5, 1.5):
        series = add(1.0, mul(mul(side * factor, y), series))
    return neg(mul(y, series))


def _erfcx_slope(out: Any, x: Any) -> Any:
    near = sub(mul(mul(2.0, x), out), 2 / _SQRT_PI)
    return near if dtype_of(x).kind == "c" else select(gt(x, 20.0), mul(1 / _SQRT_PI, _far_slope(x, -1.0)), near)


def _dawsn_slope(out: Any, x: Any) -> Any:
    near = sub(1.0, mul(mul(2.0, x), out))
    return near if dtype_of(x).kind == "c" else select(gt(abs_(x), 20.0), mul(0.5, _far_slope(x, 1.0)), near)


erf = ufunc("erf", lambda t, out, x: mul(mul(2 / _SQRT_PI, exp(neg(square(x)))), t), emit=lambda e, x: e.erf(x))
erfc = ufunc("erfc", lambda t, out, x: mul(mul(-2 / _SQRT_PI, exp(neg(square(x)))), t), emit=lambda e, x: e.erfc(x))
# exp(x**2) * erfc(x).
erfcx = ufunc("erfcx", lambda t, out, x: mul(_erfcx_slope(out, x), t))
# -i erf(i x).
erfi = ufunc("erfi", lambda t, out, x: mul(mul(2 / _SQRT_PI, exp(square(x))), t))
erfinv = ufunc("erfinv", lambda t, out, x: mul(mul(_SQRT_PI / 2, exp(square(out))), t))
erfcinv = ufunc("erfcinv", lambda t, out, x: mul(mul(-_SQRT_PI / 2, exp(square(out))), t))
# exp(-x**2) times the integral of exp(t**2) from 0 to x.
dawsn = ufunc("dawsn", lambda t, out, x: mul(_dawsn_slope(out, x), t))


def _wofz_jvp(t: Any, out: Any, z: Any) -> Any:
    return mul(sub(complex(0, 2 / _SQRT_PI), mul(mul(2.0, z), out)), t)


# exp(-z**2) * erfc(-i z), of complex z.
wofz = ufunc("wofz", _wofz_jvp)


def _ndtr_ratio_impl(xp: Any, x: Any) -> Any:
    if dtype_of(x).kind == "c":
        raise TypeError(
            "the derivative of scipy.special.log_ndtr is known for real arguments only, got a complex one.\n"
            "Remedy: a funcad.custom_jvp function around it that says the derivative."
        )
    out = _sqrt(2 / pi) / function_of(xp, "erfcx")(x * -_sqrt(0.5))
    return out.astype(np.float16) if getattr(x, "dtype", None) == np.float16 else out


# density over distribution of the normal law, accurate in both tails
# The normal density over its distribution function (the derivative of log_ndtr).
ndtr_ratio = elementwise("ndtr_ratio", _ndtr_ratio_impl, [lambda t, out, x: neg(mul(mul(out, add(x, out)), t))])

# The distribution function of the normal law.
ndtr = ufunc("ndtr", lambda t, out, x: mul(mul(1 / _SQRT_2PI, exp(mul(-0.5, square(x)))), t))
ndtri = ufunc("ndtri", lambda t, out, x: mul(mul(_SQRT_2PI, exp(mul(0.5, square(out)))), t))
log_ndtr = ufunc("log_ndtr", lambda t, out, x: mul(ndtr_ratio(x), t))
# The inverse of log_ndtr.
ndtri_exp = ufunc("ndtri_exp", lambda t, out, x: div(t, ndtr_ratio(out)))

# T(h, a): the probability of X > h and 0 < Y < a X for normal X, Y
owens_t = ufunc(
    "owens_t",
    lambda t, out, h, a: neg(
        mul(mul(0.5 / _SQRT_2PI, mul(exp(mul(-0.5, square(h))), erf(mul(_sqrt(0.5), mul(h, a))))), t)
    ),
    lambda t, out, h, a: mul(
        div(mul(0.5 / pi, exp(mul(mul(-0.5, square(h)), add(1.0, square(a))))), add(1.0, square(a))), t
    ),
)
fresnel_s_p = ufunc("fresnel_s", lambda t, out, x: mul(sin(mul(pi / 2, square(x))), t), of="fresnel", which=0)
fresnel_c_p = ufunc("fresnel_c", lambda t, out, x: mul(cos(mul(pi / 2, square(x))), t), of="fresnel", which=1)


def fresnel(x: Any) -> tuple[Any, Any]:
    """The integrals of sin(pi t**2 / 2) and cos(pi t**2 / 2) from 0 to x."""
    return fresnel_s_p(x), fresnel_c_p(x)

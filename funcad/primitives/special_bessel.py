"""Bessel functions. Derivatives by the argument are recurrences, those by the order primitives (special_bessel_order.py)."""

from __future__ import annotations

import functools
from math import nan
from typing import Any

from funcad.primitives import device_elements
from funcad.primitives import special_bessel_order as order
from funcad.primitives.arithmetic import add, div, mul, neg, sign, sub
from funcad.primitives.comparison import eq, select
from funcad.primitives.special_rules import numerical, ufunc
from funcad.primitives.special_table import kernel, numeric


def _over(y: Any, x: Any) -> Any:
    """y / x, one half at x = 0: for the functions of order 1, which start as x / 2."""
    at_zero = eq(x, 0.0)
    return select(at_zero, 0.5, div(y, select(at_zero, 1.0, x)))


_NONE_AT_INFINITY = device_elements.at_infinity(nan, negative=True)  # as SciPy; CuPy has the limit 0

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
    functools.partial(order.jv_yv_order, which=0),
    lambda t, out, v, x: mul(_neighbours(jv_order_p, sub)(v, x), t),
)
yv_order_p: Any = _by_order(
    "yv_order",
    functools.partial(order.jv_yv_order, which=1),
    lambda t, out, v, x: mul(_neighbours(yv_order_p, sub)(v, x), t),
)
iv_order_p: Any = _by_order(
    "iv_order",
    functools.partial(order.iv_order, scaled=False),
    lambda t, out, v, x: mul(_neighbours(iv_order_p, add)(v, x), t),
)
ive_order_p: Any = _by_order(
    "ive_order",
    functools.partial(order.iv_order, scaled=True),
    lambda t, out, v, x: mul(sub(_neighbours(ive_order_p, add)(v, x), mul(sign(x), out)), t),
)
kv_order_p: Any = _by_order(
    "kv_order",
    functools.partial(order.kv_order, scaled=False),
    lambda t, out, v, x: neg(mul(_neighbours(kv_order_p, add)(v, x), t)),
)
kve_order_p: Any = _by_order(
    "kve_order",
    functools.partial(order.kv_order, scaled=True),
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


struve = ufunc(
    "struve",
    lambda t, out, v, x: mul(numeric("struve", v, x, orders=(1, 0)), t),
    lambda t, out, v, x: mul(sub(struve(sub(v, 1.0), x), mul(div(v, x), out)), t),
)
modstruve = ufunc(
    "modstruve",
    lambda t, out, v, x: mul(numeric("modstruve", v, x, orders=(1, 0)), t),
    lambda t, out, v, x: mul(sub(modstruve(sub(v, 1.0), x), mul(div(v, x), out)), t),
)

"""Orthogonal polynomials and Legendre functions: by the argument of the next lower degree, by the parameters from kernels.

The degree may be any real number; given as integers it has no derivative, and SciPy computes by recurrence. By the parameters
polynomials are differentiated on circles in the complex plane, where the recurrence in the degree holds as well.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from funcad.primitives.arithmetic import abs_, add, div, mul, neg, sqrt, square, sub
from funcad.primitives.comparison import eq, gt, select
from funcad.primitives.special_rules import circle, kernel, missing, numeric, partials, rising, special_of
from funcad.primitives.transcendental import arccos, arccosh, cos, cosh, sin, sinh


def _by_parameter(name: str, position: int, count: int) -> Any:
    orders = tuple([int(i == position) for i in range(count)])

    def partial(out: Any, *args: Any, whole: int = 0) -> Any:
        if not whole:
            missing(f"eval_{name} of a degree that is not given as an integer", "by a parameter")(None, None)
        return numeric(name, *args, orders=orders)

    return partial


def _lower(f: Any, factor: Any, *shifts: float) -> Any:
    """factor(*args) times f of arguments moved by the shifts; 0 at degree 0, for which SciPy may have no lower one."""

    def partial(out: Any, n: Any, *rest: Any, whole: int = 0) -> Any:
        first = eq(n, 0.0)
        moved = [add(a, s) if s else a for a, s in zip((select(first, 1.0, n), *rest), shifts)]
        return select(first, 0.0, mul(factor(n, *rest), later[f](*moved, whole=whole)))

    return partial


later: dict[str, Any] = {}


def _polynomial(name: str, *by_argument: Any) -> Any:
    later[name] = partials(f"eval_{name}", *by_argument)
    return later[name]


jacobi = _polynomial(
    "jacobi",
    "n",
    _by_parameter("jacobi", 1, 4),
    _by_parameter("jacobi", 2, 4),
    _lower("jacobi", lambda n, a, b, x: mul(0.5, add(add(n, 1.0), add(a, b))), -1.0, 1.0, 1.0, 0.0),
)
sh_jacobi = _polynomial(
    "sh_jacobi",
    "n",
    _by_parameter("sh_jacobi", 1, 4),
    _by_parameter("sh_jacobi", 2, 4),
    _lower("sh_jacobi", lambda n, p, q, x: n, -1.0, 2.0, 1.0, 0.0),
)
gegenbauer = _polynomial(
    "gegenbauer",
    "n",
    _by_parameter("gegenbauer", 1, 3),
    _lower("gegenbauer", lambda n, a, x: mul(2.0, a), -1.0, 1.0, 0.0),
)
genlaguerre = _polynomial(
    "genlaguerre", "n", _by_parameter("genlaguerre", 1, 3), _lower("genlaguerre", lambda n, a, x: -1.0, -1.0, 1.0, 0.0)
)


# -- of one parameter, the degree: by the degree, polynomials of Chebyshev are cosines


def _angle(x: Any) -> tuple[Any, Any, Any]:
    """Whether x is above 1, arccos(x) and arccosh(x), each where it is one; NaN below -1, as SciPy's value is infinite."""
    above = gt(x, 1.0)
    return above, arccos(select(above, 0.5, x)), arccosh(select(above, x, 2.0))


def _cosine_by_degree(n: Any, x: Any) -> Any:
    above, angle, area = _angle(x)
    return select(above, mul(area, sinh(mul(n, area))), neg(mul(angle, sin(mul(n, angle)))))


def _sine_by_degree(n: Any, x: Any) -> Any:
    above, angle, area = _angle(x)
    m = add(n, 1.0)
    at_one = eq(x, 1.0)
    low = select(at_one, 1.0, div(angle, select(at_one, 1.0, sin(angle))))
    return select(above, mul(div(area, sinh(area)), cosh(mul(m, area))), mul(low, cos(mul(m, angle))))


def _chebyshev(name: str, second: bool, place: Any, pace: float, scale: float = 1.0) -> None:
    """T or U (`second`) of place(x), whose slope is `pace`, times scale."""

    def by_degree(out: Any, n: Any, x: Any, whole: int = 0) -> Any:
        return mul(scale, (_sine_by_degree if second else _cosine_by_degree)(n, place(x)))

    def by_argument(out: Any, n: Any, x: Any, whole: int = 0) -> Any:
        first = eq(n, 0.0)
        lower = sub(select(first, 1.0, n), 1.0)
        slope = _gegenbauer(2.0, lower, place(x), whole) if second else later["chebyu"](lower, place(x), whole=whole)
        return select(first, 0.0, mul(mul(2.0 if second else n, pace * scale), slope))

    _polynomial(name, by_degree, by_argument)


def _gegenbauer(a: float, n: Any, x: Any, whole: int) -> Any:
    return gegenbauer(n, a, x, whole=whole)


def _shifted(x: Any) -> Any:
    return sub(mul(2.0, x), 1.0)


_chebyshev("chebyt", False, lambda x: x, 1.0)
_chebyshev("chebyu", True, lambda x: x, 1.0)
_chebyshev("chebyc", False, lambda x: mul(0.5, x), 0.5, 2.0)
_chebyshev("chebys", True, lambda x: mul(0.5, x), 0.5)
_chebyshev("sh_chebyt", False, _shifted, 2.0)
_chebyshev("sh_chebyu", True, _shifted, 2.0)


def _legendre(name: str, place: Any, pace: float) -> None:
    def by_argument(out: Any, n: Any, x: Any, whole: int = 0) -> Any:
        first = eq(n, 0.0)
        lower = sub(select(first, 1.0, n), 1.0)
        return select(first, 0.0, mul(pace, _gegenbauer(1.5, lower, place(x), whole)))

    _polynomial(name, "n", by_argument)


_legendre("legendre", lambda x: x, 1.0)
_legendre("sh_legendre", _shifted, 2.0)


def _laguerre_slope(out: Any, n: Any, x: Any, whole: int = 0) -> Any:
    first = eq(n, 0.0)
    lower = sub(select(first, 1.0, n), 1.0)
    return select(first, 0.0, neg(genlaguerre(lower, 1.0, x, whole=whole)))


_polynomial("laguerre", "n", _laguerre_slope)
_polynomial("hermite", None, _lower("hermite", lambda n, x: mul(2.0, n), -1.0, 0.0))
_polynomial("hermitenorm", None, _lower("hermitenorm", lambda n, x: n, -1.0, 0.0))


def _lpmv_slope(out: Any, m: Any, v: Any, x: Any) -> Any:
    level = sub(1.0, square(x))
    end = eq(level, 0.0)
    level = select(end, 1.0, level)
    inner = neg(add(div(lpmv(add(m, 1.0), v, x), sqrt(level)), div(mul(mul(m, x), out), level)))
    order = abs_(m)
    at_end = select(eq(m, 0.0), mul(mul(0.5, mul(x, out)), mul(v, add(v, 1.0))), select(gt(order, 2.0), 0.0, np.nan))
    return select(end, at_end, inner)


lpmv = partials("lpmv", None, "v", _lpmv_slope)

# -- by the parameters, of integer degree


def _recurrence(n: Any, first: Any, step: Any) -> Any:
    """The member n of a sequence of polynomials, by vectors; `step(k, one, two)` gives the member k from those before."""
    two, one = 1.0 + 0.0 * first, first
    out = np.where(n < 0, 0.0, np.where(n == 0, two, one))
    for k in range(2, int(max(n.max(), 1.0)) + 1 if n.size else 0):
        two, one = one, step(k, one, two)
        out = np.where(n == k, one, out)
    return out


def _jacobi(n: Any, a: Any, b: Any, x: Any, k: int) -> Any:
    factor = rising(n + a + b + 1.0, k) * 0.5**k
    n, a, b = n - k, a + k, b + k

    def step(j: int, one: Any, two: Any) -> Any:
        c = 2 * j + a + b
        top = (c - 1.0) * (c * (c - 2.0) * x + a * a - b * b) * one - 2 * (j + a - 1.0) * (j + b - 1.0) * c * two
        return top / (2 * j * (j + a + b) * (c - 2.0))

    return factor * _recurrence(n, a + 1.0 + (a + b + 2.0) * (0.5 * (x - 1.0)), step)


def _shifted_jacobi(n: Any, p: Any, q: Any, x: Any, k: int) -> Any:
    loggamma = special_of(np).loggamma
    scale = np.exp(loggamma(n + 1.0 + 0j) + loggamma(n + p + 0j) - loggamma(2 * n + p + 0j))
    return scale * 2.0**k * _jacobi(n, p - q, q - 1.0, 2 * x - 1.0, k)


def _gegenbauer_value(n: Any, a: Any, x: Any, k: int) -> Any:
    factor = rising(a, k) * 2.0**k
    n, a = n - k, a + k
    return factor * _recurrence(
        n, 2 * a * x, lambda j, one, two: (2 * x * (j + a - 1.0) * one - (j + 2 * a - 2.0) * two) / j
    )


def _laguerre_value(n: Any, a: Any, x: Any, k: int) -> Any:
    n, a = n - k, a + k
    return (-1.0) ** k * _recurrence(
        n, 1.0 + a - x, lambda j, one, two: ((2 * j - 1.0 + a - x) * one - (j - 1.0 + a) * two) / j
    )


def _enter(name: str, value: Any, radius: Any) -> None:
    def compute(xp: Any, *args: Any, orders: tuple) -> Any:
        f = functools.partial(value, k=orders[-1])
        return circle(f, args, (*orders[:-1], 0), [radius(*args[1:-1])] * len(args), points=24)

    kernel(name, counts=(0,))(compute)


_enter("jacobi", _jacobi, lambda a, b: 0.25 * np.minimum(1.0, np.minimum(abs(a + 1.0), abs(b + 1.0))))
_enter("sh_jacobi", _shifted_jacobi, lambda p, q: 0.25 * np.minimum(1.0, np.minimum(abs(p), abs(q))))
_enter("gegenbauer", _gegenbauer_value, lambda a: np.full(a.shape, 0.5))
_enter("genlaguerre", _laguerre_value, lambda a: np.full(a.shape, 0.5))

BY_NAME = {f"eval_{name}": polynomial for name, polynomial in later.items()}

"""Solutions of differential equations: Airy, Kelvin, parabolic cylinder, Mathieu and spheroidal functions.

SciPy gives them with a derivative, further ones follow from the equation. Here are also the integrals of such functions, and
functions of degrees. What has no known derivative by a parameter says so.
"""

from __future__ import annotations

from math import factorial, pi
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of
from funcad.primitives.arithmetic import add, div, mul, neg, sqrt, square, sub
from funcad.primitives.comparison import and_, eq, gt, lt, select
from funcad.primitives.conversion import complex_dtype, convert, make_complex
from funcad.primitives.families import elementwise
from funcad.primitives.special_bessel import i0, j0, k0, modstruve, struve, y0
from funcad.primitives.special_logs import exp_moment
from funcad.primitives.special_rules import function_of
from funcad.primitives.special_table import by, kernel, numeric, partials, several
from funcad.primitives.transcendental import cos, cosh, exp, log, log1p

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


def _over(y: Any, x: Any, limit: float) -> Any:
    at_zero = eq(x, 0.0)
    return select(at_zero, limit, div(y, select(at_zero, 1.0, x)))


ber = partials("ber", lambda out, x: berp(x))
bei = partials("bei", lambda out, x: beip(x))
ker = partials("ker", lambda out, x: kerp(x))
kei = partials("kei", lambda out, x: keip(x))
berp = partials("berp", lambda out, x: neg(add(bei(x), _over(out, x, 0.0))))
beip = partials("beip", lambda out, x: sub(ber(x), _over(out, x, 0.5)))
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
    return numeric("bessel_excess", add(mul(x, 0.0), side), x, orders=(0, 0))


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


SEVERAL = {  # functions of two results, by name
    "pbdv": _together((_pbdv, _pbdv_slope)),
    "pbvv": _together((_pbvv, _pbvv_slope)),
    "pbwa": _together((_pbwa, _pbwa_slope)),
    **{name: _together(pair) for name, pair in {**_MATHIEU, **_SPHEROIDAL, **_INTEGRALS}.items()},
}

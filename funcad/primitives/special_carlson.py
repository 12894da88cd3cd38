"""Carlson's elliptic integrals, those of Legendre by the parameter, Jacobi's functions, the arithmetic-geometric mean.

Idea: all derivatives are integrals over t > 0 of t**n times half-integer powers of t + x: positive, so nothing cancels, and
closed under differentiation. In log(t) the integrand is analytic in a strip of width 2 pi and falls off exponentially at both
ends, so that the trapezoidal rule has full accuracy. Negative last arguments (Cauchy's principal value) have no such integral:
elliprc has closed forms there, elliprj's derivatives are NaN.
"""

from __future__ import annotations

from math import pi
from typing import Any

from funcad.primitives.arithmetic import abs_, add, div, mul, neg, sqrt, square, sub
from funcad.primitives.comparison import lt, select
from funcad.primitives.families import elementwise
from funcad.primitives.special_rules import in_double
from funcad.primitives.special_table import partials, several
from funcad.primitives.transcendental import cos, sin

_STEP = 0.4
_CUT = 40.0


def moment_kernel(xp: Any, *args: Any, halves: tuple, power: int) -> Any:
    """The integral over t > 0 of t**power times (t + x)**(-n / 2) for each argument x and its n of `halves`."""
    args, halves = tuple([a for a, n in zip(args, halves) if n]), tuple([n for n in halves if n])
    good = sum([a > 0 for a in args]) > 0
    for a in args:
        good = good & (a >= 0) & (a < xp.inf)
    args = tuple([xp.where(good, a, 1.0) for a in args])
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
    return xp.where(good, xp.where(divergent, xp.inf, step * total * xp.exp(-falling * mean)), xp.nan)


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

"""Special functions: jax.scipy.special's, and those that it lacks, under SciPy's names, of real numbers.

Idea: the primitives' own implementations ask a library for `scipy.special`; `Special` answers for JAX. What JAX lacks is a
closed form in what it has; an integral over a fixed grid (Bessel functions: the integrands are analytic, so that the error
falls exponentially); an arithmetic-geometric mean or a duplication with a fixed number of steps (elliptic integrals); or an
inverse by bisection, to the last bits of the function that is inverted. All are loops of known length.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from funcad.backends.export.xla_program import COMPANIONS, RULES, Library, as_dtype, cells, jnp, lax, own, plain, rule, special
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Equation

BESIDE: dict[str, Callable[..., Any]] = {}  # by SciPy's names


class Special(Library):
    """jax.scipy.special and what is beside it here."""

    def __getattr__(self, name: str) -> Any:
        found = BESIDE.get(name)
        if found is None:
            return super().__getattr__(name)

        def call(*args: Any) -> Any:
            arrays = [jnp.asarray(plain(a)) for a in args]
            if any([x.dtype.kind == "c" for x in arrays]):
                raise Unsupported(f"{name} of complex numbers")
            dtype = jnp.result_type(*arrays, np.float32)
            return cells(found(*jnp.broadcast_arrays(*[x.astype(dtype) for x in arrays])))

        return call


COMPANIONS["special"] = Special(special)


def beside(f: Callable[..., Any]) -> Callable[..., Any]:
    BESIDE[f.__name__.removeprefix("_")] = f
    return f


# -- closed forms


@beside
def _rgamma(x: Any) -> Any:
    pole = (x <= 0) & (jnp.floor(x) == x)
    return jnp.where(pole, 0, 1 / special.gamma(jnp.where(pole, 1, x)))


@beside
def _exp10(x: Any) -> Any:
    return jnp.power(10, x)


@beside
def _exprel(x: Any) -> Any:
    small = jnp.abs(x) < np.finfo(x.dtype).eps
    return jnp.where(small, 1, jnp.expm1(x) / jnp.where(small, 1, x))


@beside
def _log_expit(x: Any) -> Any:
    return -jnp.logaddexp(0, -x)


@beside
def _inv_boxcox(y: Any, power: Any) -> Any:
    zero = power == 0
    return jnp.where(zero, jnp.exp(y), jnp.exp(jnp.log1p(power * y) / jnp.where(zero, 1, power)))


@beside
def _inv_boxcox1p(y: Any, power: Any) -> Any:
    zero = power == 0
    return jnp.where(zero, jnp.expm1(y), jnp.expm1(jnp.log1p(power * y) / jnp.where(zero, 1, power)))


@beside
def _powm1(x: Any, y: Any) -> Any:
    small = y * jnp.log(jnp.where(x > 0, x, 1))
    return jnp.where((x > 0) & (jnp.abs(small) < 1), jnp.expm1(small), jnp.power(x, y) - 1)


@beside
def _cosm1(x: Any) -> Any:
    return -2 * jnp.sin(x / 2) ** 2


@beside
def _huber(delta: Any, r: Any) -> Any:
    size = jnp.abs(r)
    found = jnp.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return jnp.where(delta < 0, jnp.inf, found)


@beside
def _pseudo_huber(delta: Any, r: Any) -> Any:
    safe = jnp.where(delta == 0, 1, delta)
    found = jnp.where((delta == 0) | (r == 0), 0, delta * delta * jnp.expm1(0.5 * jnp.log1p((r / safe) ** 2)))
    return jnp.where(delta < 0, jnp.inf, found)


@beside
def _erfi(x: Any) -> Any:
    return 2 / pi**0.5 * jnp.exp(x * x) * special.dawsn(x)


@beside
def _erfcinv(x: Any) -> Any:
    return -special.ndtri(x / 2) * 0.5**0.5


@beside
def _binom(n: Any, k: Any) -> Any:
    whole = (jnp.floor(k) == k) & (jnp.abs(k) < 30)
    count = jnp.where(whole, k, 0)

    def step(i: Any, total: Any) -> Any:
        return jnp.where(i <= count, total * (n + i - count) / i, total)

    product = lax.fori_loop(1, 30, lambda i, total: step(as_dtype(i, n.dtype), total), jnp.ones_like(n))
    product = jnp.where(count < 0, 0, product)
    return jnp.where(whole, product, special.poch(n - k + 1, k) * _rgamma(k + 1))


@beside
def _zetac(x: Any) -> Any:
    mirrored = x < 0
    c = jnp.where(mirrored, 1 - x, x)
    direct = special.zeta(jnp.where(c > 1, c, 2.0), 1.0)
    # between 0 and 1, by the alternating sum (Borwein's weights)
    inside = jnp.where((c >= 0) & (c < 1), c, 0.5)
    total = jnp.zeros_like(c)
    for k, weight in enumerate(_BORWEIN):
        total = total + weight * jnp.exp(-inside * np.log(k + 1))
    alternating = total / (1 - jnp.exp2(1 - inside))
    found = jnp.where(c > 1, direct, jnp.where(c == 1, jnp.inf, alternating))
    reflected = 2 * jnp.exp(special.gammaln(c) - c * np.log(2 * pi)) * jnp.cos(0.5 * pi * jnp.fmod(c, 4.0)) * found
    return jnp.where(mirrored, jnp.where(c > 1, reflected, found), found) - 1


def _borwein(n: int) -> list[float]:
    from_start, total = [], 0.0
    term = 1.0 / n
    for i in range(n + 1):
        total += term * n
        from_start.append(total)
        term *= 4.0 * (n + i) * (n - i) / ((2 * i + 1) * (2 * i + 2))
    return [(-1) ** k * (from_start[n] - from_start[k]) / from_start[n] for k in range(n)]


_BORWEIN = _borwein(24)


@beside
def _betaincc(a: Any, b: Any, x: Any) -> Any:
    return special.betainc(b, a, 1 - x)


@beside
def _stdtr(df: Any, t: Any) -> Any:
    tail = 0.5 * special.betainc(0.5 * df, jnp.full_like(df, 0.5), df / (df + t * t))
    return jnp.where(t > 0, 1 - tail, tail)


@beside
def _fdtri(dfn: Any, dfd: Any, p: Any) -> Any:
    x = _betaincinv(0.5 * dfd, 0.5 * dfn, 1 - p)
    return dfd * (1 - x) / (dfn * x)


@beside
def _shichi(x: Any) -> Any:
    size = jnp.abs(x)
    up, down = special.expi(jnp.where(size > 0, size, 1)), special.exp1(jnp.where(size > 0, size, 1))
    q, term, total = size * size, size, size
    for k in range(1, 12):
        term = term * q / ((2 * k) * (2 * k + 1))
        total = total + term / (2 * k + 1)
    sine = jnp.where(size < 2, total, 0.5 * (up + down))
    return jnp.sign(x) * sine, jnp.where(size > 0, 0.5 * (up - down), -jnp.inf)


# -- inverses: a bracket, halved on the scale of exponents, then of numbers


def _inverse(f: Callable[[Any], Any], target: Any, low: Any, high: Any, rising: bool = True) -> Any:
    """x in [low, high] with f(x) = target, f monotone; both ends positive, so that halves are geometric means at first."""

    def halve(i: Any, ends: Any) -> Any:
        low, high = ends
        middle = jnp.where(high > 2 * low, jnp.sqrt(low) * jnp.sqrt(high), low + 0.5 * (high - low))
        below = (f(middle) < target) == rising
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    steps = 76 if target.dtype == np.float64 else 40
    low, high = lax.fori_loop(0, steps, halve, (low, high))
    return low + 0.5 * (high - low)


def _limits(x: Any) -> tuple[Any, Any]:
    info = np.finfo(x.dtype)
    return jnp.full_like(x, info.tiny), jnp.full_like(x, info.max)


@beside
def _gammaincinv(a: Any, p: Any) -> Any:
    found = _inverse(lambda x: special.gammainc(a, x), p, *_limits(p))
    return jnp.where(p == 0, 0, jnp.where(p == 1, jnp.inf, jnp.where((p < 0) | (p > 1), jnp.nan, found)))


@beside
def _gammainccinv(a: Any, q: Any) -> Any:
    found = _inverse(lambda x: special.gammaincc(a, x), q, *_limits(q), rising=False)
    return jnp.where(q == 1, 0, jnp.where(q == 0, jnp.inf, jnp.where((q < 0) | (q > 1), jnp.nan, found)))


@beside
def _betaincinv(a: Any, b: Any, p: Any) -> Any:
    found = _inverse(lambda x: special.betainc(a, b, x), p, _limits(p)[0], jnp.ones_like(p))
    return jnp.where((p == 0) | (p == 1), p, jnp.where((p < 0) | (p > 1), jnp.nan, found))


@beside
def _betainccinv(a: Any, b: Any, q: Any) -> Any:
    found = _inverse(lambda x: _betaincc(a, b, x), q, _limits(q)[0], jnp.ones_like(q), rising=False)
    return jnp.where((q == 0) | (q == 1), 1 - q, jnp.where((q < 0) | (q > 1), jnp.nan, found))


@beside
def _stdtrit(df: Any, p: Any) -> Any:
    tail = jnp.minimum(p, 1 - p)
    size = _inverse(lambda t: _stdtr(df, -t), tail, *_limits(p), rising=False)
    return jnp.where(p == 0.5, 0, jnp.where(p < 0.5, -size, size))


@beside
def _ndtri_exp(y: Any) -> Any:
    """x with log_ndtr(x) = y; below -2 by bisection of the size of x."""
    near = special.ndtri(jnp.exp(y))
    far = -_inverse(lambda s: special.log_ndtr(-s), y, jnp.full_like(y, 0.1), jnp.full_like(y, 1e20), rising=False)
    above = -special.ndtri(-jnp.expm1(jnp.minimum(y, 0)))
    return jnp.where(y < -2, far, jnp.where(y > -0.1, above, near))


# -- elliptic integrals


def _means(m1: Any) -> tuple[Any, Any]:
    """The arithmetic-geometric mean of 1 and sqrt(m1), and the sum of 2^(n - 1) c_n^2, of which E is made."""
    a, b, total, power = jnp.ones_like(m1), jnp.sqrt(m1), 0.5 * (1 - m1), 0.5
    for _ in range(9 if m1.dtype == np.float64 else 7):
        c = 0.5 * (a - b)
        a, b, power = 0.5 * (a + b), jnp.sqrt(a * b), 2 * power
        total = total + power * c * c
    return a, total


@beside
def _ellipkm1(p: Any) -> Any:
    return jnp.where(p == 0, jnp.inf, 0.5 * pi / _means(p)[0])


@beside
def _ellipk(m: Any) -> Any:
    return _ellipkm1(1 - m)


@beside
def _ellipe(m: Any) -> Any:
    mean, total = _means(jnp.where(m == 1, 0.5, 1 - m))
    return jnp.where(m == 1, 1, 0.5 * pi / mean * (1 - total))


def _duplicated(x: Any, y: Any, z: Any, steps: int) -> Any:
    """x, y, z after so many steps of Carlson's duplication, with the sum that R_D needs."""
    total, factor = jnp.zeros_like(x), 1.0
    for _ in range(steps):
        rx, ry, rz = jnp.sqrt(x), jnp.sqrt(y), jnp.sqrt(z)
        step = rx * (ry + rz) + ry * rz
        total = total + factor / (rz * (z + step))
        factor = 0.25 * factor
        x, y, z = 0.25 * (x + step), 0.25 * (y + step), 0.25 * (z + step)
    return x, y, z, total, factor


@beside
def _elliprf(x: Any, y: Any, z: Any) -> Any:
    x, y, z, _, _ = _duplicated(x, y, z, 12)
    mean = (x + y + z) / 3
    dx, dy = 1 - x / mean, 1 - y / mean
    dz = -dx - dy
    e2, e3 = dx * dy - dz * dz, dx * dy * dz
    return (1 - e2 / 10 + e3 / 14 + e2 * e2 / 24 - 3 * e2 * e3 / 44) / jnp.sqrt(mean)


@beside
def _elliprd(x: Any, y: Any, z: Any) -> Any:
    x, y, z, total, factor = _duplicated(x, y, z, 12)
    mean = (x + y + 3 * z) / 5
    dx, dy, dz = [1 - v / mean for v in (x, y, z)]
    ea, eb = dx * dy, dz * dz
    ec = ea - eb
    ed, ef = ea - 6 * eb, ea - 6 * eb + 2 * ec
    s = ed * (-3 / 14 + 9 / 88 * ed - 4.5 / 26 * dz * ef) + dz * (ef / 6 + dz * (-9 / 22 * ec + 3 / 26 * dz * ea))
    return 3 * total + factor * (1 + s) / (mean * jnp.sqrt(mean))


def _to_quarter(phi: Any) -> tuple[Any, Any, Any]:
    """How many half turns, and sine and cosine of the rest."""
    turns = jnp.round(phi / pi)
    rest = phi - turns * pi
    return turns, jnp.sin(rest), jnp.cos(rest)


@beside
def _ellipkinc(phi: Any, m: Any) -> Any:
    turns, s, c = _to_quarter(phi)
    rest = s * _elliprf(c * c, 1 - m * s * s, jnp.ones_like(s))
    return jnp.where(turns == 0, rest, rest + 2 * turns * _ellipk(m))


@beside
def _ellipeinc(phi: Any, m: Any) -> Any:
    turns, s, c = _to_quarter(phi)
    arguments = c * c, 1 - m * s * s, jnp.ones_like(s)
    rest = s * _elliprf(*arguments) - m * s**3 / 3 * _elliprd(*arguments)
    return jnp.where(turns == 0, rest, rest + 2 * turns * _ellipe(m))


# -- Bessel functions of real order and positive argument, by their integrals
#
# J and Y up to 25 by Schläfli's integrals (whole orders need the first one only), beyond by Hankel's expansion; J of small
# arguments by the series, whose terms fall quickly; K by the integral of exp(-x cosh t) cosh(v t). What decays is cut where it
# is below the last bit.


_POINTS = 96


def _nodes(low: Any, high: Any) -> tuple[Any, Any]:
    """Gauss-Legendre points between two arrays, along a new last axis, and their weights."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    half = 0.5 * (high - low)[..., None]
    return low[..., None] + half * as_dtype(points + 1, half.dtype), half * as_dtype(weights, half.dtype)


def _series(v: Any, x: Any, sign: float) -> Any:
    """sum of (sign x^2 / 4)^k / k! / gamma(v + k + 1), times (x / 2)^v."""
    q, term, total = sign * x * x / 4, jnp.ones_like(x), jnp.ones_like(x)
    for k in range(1, 40):
        term = term * q / (k * (v + k))
        total = total + term
    return jnp.power(0.5 * x, v) * _rgamma(v + 1) * total


def _kve(v: Any, x: Any) -> Any:
    v = jnp.abs(v)
    t, w = _nodes(jnp.zeros_like(x), _end(v, x))
    return (w * jnp.exp(-2 * x[..., None] * jnp.sinh(t / 2) ** 2) * jnp.cosh(v[..., None] * t)).sum(-1)


def _end(v: Any, x: Any) -> Any:
    """Where exp(-x (cosh t - 1) + v t) is below 1e-18 of its size at 0."""
    end = jnp.arccosh(1 + 42 / x)
    for _ in range(6):
        end = jnp.arccosh(1 + (42 + v * end) / x)
    return end


def _hankel(v: Any, x: Any) -> tuple[Any, Any]:
    """(P, Q) of the expansion for large arguments."""
    mu, term = 4 * v * v, jnp.ones_like(x)
    parts = [term, jnp.zeros_like(x)]
    for k in range(1, 22):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8 * x)
        sign = -1 if k % 4 in (2, 3) else 1
        parts[k % 2] = parts[k % 2] + sign * term
    return parts[0], parts[1]


def _oscillating(v: Any, x: Any, second: bool) -> Any:
    """J, or Y, of order v and positive x."""
    near = jnp.clip(x, 1e-30, 25)
    theta, w = _nodes(jnp.zeros_like(x), jnp.full_like(x, pi))
    phase = v[..., None] * theta - near[..., None] * jnp.sin(theta)
    t, u = _nodes(jnp.zeros_like(x), jnp.arcsinh((42 + jnp.abs(v) * 12) / near))
    fall = jnp.exp(-near[..., None] * jnp.sinh(t))
    if second:
        whole = (jnp.exp(v[..., None] * t) + jnp.exp(-v[..., None] * t) * jnp.cos(pi * v)[..., None]) * fall
        found = (-(w * jnp.sin(phase)).sum(-1) - (u * whole).sum(-1)) / pi
    else:
        rest = (u * jnp.exp(-v[..., None] * t) * fall).sum(-1)
        turn = jnp.where(jnp.floor(v) == v, 0, jnp.sin(pi * v))
        found = ((w * jnp.cos(phase)).sum(-1) - turn * rest) / pi
        found = jnp.where(near * near < 4 * (jnp.abs(v) + 1), _series(v, near, -1.0), found)
    far = jnp.maximum(x, 25)
    p, q = _hankel(v, far)
    angle = far - (0.5 * v + 0.25) * pi
    s, c = jnp.sin(angle), jnp.cos(angle)
    beyond = jnp.sqrt(2 / (pi * far)) * (p * s + q * c if second else p * c - q * s)
    return jnp.where(x > 25, beyond, found)


def _of_positive(x: Any, found: Any, at_zero: float) -> Any:
    return jnp.where(x > 0, found, jnp.where(x == 0, at_zero, jnp.nan))


BESIDE["j0"] = lambda x: _oscillating(jnp.zeros_like(x), jnp.abs(x), False)
BESIDE["j1"] = lambda x: jnp.sign(x) * _oscillating(jnp.ones_like(x), jnp.abs(x), False)
BESIDE["y0"] = lambda x: _of_positive(x, _oscillating(jnp.zeros_like(x), x, True), -jnp.inf)
BESIDE["y1"] = lambda x: _of_positive(x, _oscillating(jnp.ones_like(x), x, True), -jnp.inf)
BESIDE["k0e"] = lambda x: _of_positive(x, _kve(jnp.zeros_like(x), jnp.abs(x)), jnp.inf)
BESIDE["k1e"] = lambda x: _of_positive(x, _kve(jnp.ones_like(x), jnp.abs(x)), jnp.inf)
BESIDE["k0"] = lambda x: BESIDE["k0e"](x) * jnp.exp(-x)
BESIDE["k1"] = lambda x: BESIDE["k1e"](x) * jnp.exp(-x)
BESIDE["kve"] = lambda v, x: _of_positive(x, _kve(v, jnp.abs(x)), jnp.inf)
BESIDE["jve"] = BESIDE["jv"] = lambda v, x: jnp.where(x >= 0, _oscillating(v, jnp.abs(x), False), jnp.nan)
BESIDE["yve"] = BESIDE["yv"] = lambda v, x: _of_positive(x, _oscillating(v, jnp.abs(x), True), -jnp.inf)
BESIDE["kv"] = lambda v, x: BESIDE["kve"](v, x) * jnp.exp(-x)


# -- and by primitive


@rule("ndtr_ratio")
def _ndtr_ratio(equation: Equation, values: list) -> Any:
    """The normal density over its distribution function."""
    return (2 / pi) ** 0.5 / special.erfcx(-(0.5**0.5) * values[0])


@rule("polygamma")
def _polygamma(equation: Equation, values: list, *, n: int) -> Any:
    return special.polygamma(n, values[0]) if n else special.digamma(values[0])


_NAMES = (
    "beta beta_density betainc betainc_shape betaincc betainccinv betaincinv betaln binom boxcox boxcox1p cosine_integral "
    "cosm1 dawsn digamma ellipe ellipeinc ellipk ellipkinc ellipkm1 elliptic_d entr erfcinv erfcx erfi erfinv exp10 exp1 "
    "exp_moment expi expn exprel fdtri fresnel_c fresnel_s gamma gamma_density gammainc gammainc_a gammaincc gammainccinv "
    "gammaincinv gammaln gammasgn huber hyperbolic_cosine_integral hyperbolic_sine_integral "
    "hyp1f1 hyp2f1 i0 i0e i1 i1e inv_boxcox inv_boxcox1p j0 j1 k0 k0e k1 k1e kl_div log_expit log_ndtr "
    "log_over_excess loggamma logit ndtr ndtri ndtri_exp owens_t poch powm1 pseudo_huber random_gamma_grad "
    "rel_entr rgamma riemann_zeta riemann_zeta_s sine_integral sinhc spence stdtr stdtr_v stdtrit wofz xlog1py xlogy y0 y1 "
    "zeta zeta_s zetac kv kve kv_order kve_order jv yv jve yve jv_order yv_order"
).split()
RULES.update(dict.fromkeys(_NAMES, own))

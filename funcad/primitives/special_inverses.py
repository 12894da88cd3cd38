"""Distribution functions that are mixtures, and the inverses of distribution functions in any argument.

Values come from SciPy (special_rules.py has the door), derivatives from the implicit function theorem and from numerics of full
accuracy, which are entered into the table of special_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from funcad.primitives.arithmetic import add, div, floor, mul, neg, square, sub
from funcad.primitives.comparison import ge, le, or_, select
from funcad.primitives.special_errors import ndtri
from funcad.primitives.special_rules import by, function_of, kernel, numeric, partials, special_of
from funcad.primitives.transcendental import exp

from funcad.primitives.special_incomplete import (  # isort: skip
    beta_density, betainc_partial, betainc_shape, gamma_density, gammainc_a, gammainc_partial, stdtr_v, student_density,
)

# -- inverses of distribution functions in any argument: the implicit function theorem, from a table of laws
#
# A law is the partial derivatives of its distribution function by its arguments, named. An inverse is written as its arguments
# in SciPy are, "P" being the probability: `_inverse("btdtria", BETA, "P b x")` solves for a.


_Law = dict[str, Callable[..., Any]]


def _of_beta(which: int) -> Any:
    return lambda a, b, x: beta_density(a, b, x) if which == 2 else betainc_shape(a, b, x, which=which)


_A, _B, _X = [_of_beta(i) for i in range(3)]


def _trials(k: Any, n: Any, p: Any) -> tuple[Any, Any, Any]:
    return sub(n, k), add(k, 1.0), sub(1.0, p)


def _shares(n: Any, d: Any, x: Any) -> tuple[Any, Any, Any]:
    return mul(0.5, n), mul(0.5, d), div(mul(n, x), add(d, mul(n, x)))


def _shared(n: Any, d: Any, x: Any) -> Any:
    """The density of the share over (d + n x)**2."""
    return div(beta_density(*_shares(n, d, x)), square(add(d, mul(n, x))))


BETA: _Law = {"a": _A, "b": _B, "x": _X}
BINOMIAL: _Law = {
    "k": lambda k, n, p: sub(_B(*_trials(k, n, p)), _A(*_trials(k, n, p))),
    "n": lambda k, n, p: _A(*_trials(k, n, p)),
    "p": lambda k, n, p: neg(_X(*_trials(k, n, p))),
}
NEGATIVE_BINOMIAL: _Law = {
    "k": lambda k, n, p: _B(n, add(k, 1.0), p),
    "n": lambda k, n, p: _A(n, add(k, 1.0), p),
    "p": lambda k, n, p: _X(n, add(k, 1.0), p),
}
GAMMA: _Law = {
    "a": lambda a, b, x: mul(x, gamma_density(b, mul(a, x))),
    "b": lambda a, b, x: gammainc_a(b, mul(a, x)),
    "x": lambda a, b, x: mul(a, gamma_density(b, mul(a, x))),
}
CHI_SQUARED: _Law = {
    "v": lambda v, x: mul(0.5, gammainc_a(mul(0.5, v), mul(0.5, x))),
    "x": lambda v, x: mul(0.5, gamma_density(mul(0.5, v), mul(0.5, x))),
}
POISSON: _Law = {
    "k": lambda k, m: neg(gammainc_a(add(k, 1.0), m)),
    "m": lambda k, m: neg(gamma_density(add(k, 1.0), m)),
}
FISHER: _Law = {
    "n": lambda n, d, x: add(mul(0.5, _A(*_shares(n, d, x))), mul(mul(x, d), _shared(n, d, x))),
    "d": lambda n, d, x: sub(mul(0.5, _B(*_shares(n, d, x))), mul(mul(n, x), _shared(n, d, x))),
    "x": lambda n, d, x: mul(mul(n, d), _shared(n, d, x)),
}
STUDENT: _Law = {"v": stdtr_v, "t": student_density}


def _of_numeric(name: str, letters: str) -> _Law:
    def one(position: int) -> Any:
        rule = by(name, position, len(names))
        return lambda *args: rule(None, *args)

    names = letters.split()
    return {letter: one(i) for i, letter in enumerate(names)}


def _chi_mixture(*orders: int) -> Any:
    return lambda x, v, nc: mul(0.5, numeric("gamma_mixture", mul(0.5, v), mul(0.5, x), mul(0.5, nc), orders=orders))


def _fisher_mixture(*orders: int) -> Any:
    return lambda n, d, nc, x: numeric("beta_mixture", *_shares(n, d, x), mul(0.5, nc), orders=orders)


def _moving(n: Any, d: Any, nc: Any, x: Any) -> Any:
    """The derivative by the share n x / (d + n x), over (d + n x)**2."""
    return div(_fisher_mixture(0, 0, 1, 0)(n, d, nc, x), square(add(d, mul(n, x))))


NONCENTRAL_CHI_SQUARED: _Law = {"x": _chi_mixture(0, 1, 0), "v": _chi_mixture(1, 0, 0), "nc": _chi_mixture(0, 0, 1)}
NONCENTRAL_FISHER: _Law = {
    "n": lambda *args: add(mul(0.5, _fisher_mixture(1, 0, 0, 0)(*args)), mul(mul(args[3], args[1]), _moving(*args))),
    "d": lambda *args: sub(mul(0.5, _fisher_mixture(0, 1, 0, 0)(*args)), mul(mul(args[0], args[3]), _moving(*args))),
    "nc": lambda *args: mul(0.5, _fisher_mixture(0, 0, 0, 1)(*args)),
    "x": lambda *args: mul(mul(args[0], args[1]), _moving(*args)),
}
NONCENTRAL_STUDENT = _of_numeric("nctdtr", "v nc t")
SMIRNOV: _Law = {"d": lambda n, d: numeric("smirnov", n, d, orders=(0, 1))}
KOLMOGOROV: _Law = {"x": lambda x: numeric("kolmogorov", x, orders=(1,))}


def _inverse(name: str, law: _Law, arguments: str, counts: str = "", letters: str = "", ends: Any = None) -> Any:
    """The inverse with SciPy's arguments; those among `counts` are rounded down, as SciPy does, and have derivative 0.

    Where there is no solution between the `ends` of SciPy's search, its value is constant, and so the derivative 0.
    """
    given = arguments.split()
    order = letters.split() or list(law)
    (solved,) = [letter for letter in order if letter not in given]

    def rule(letter: str) -> Any:
        def partial(out: Any, *args: Any) -> Any:
            known = dict(zip(given, args))
            known[solved] = out
            at = [floor(known[v]) if v in counts.split() else known[v] for v in order]
            slope = law[solved](*at)
            found = div(1.0, slope) if letter == "P" else neg(div(law[letter](*at), slope))
            return found if ends is None else select(or_(le(out, ends[0]), ge(out, ends[1])), 0.0, found)

        return None if letter in counts.split() else partial

    return partials(name, *[rule(letter) for letter in given])


_COUNTS, _TINY, _WIDE, _NARROW = (0.0, np.inf), (1e-300, np.inf), (1e-100, 1e100), (1e-100, 1e10)

bdtri = _inverse("bdtri", BINOMIAL, "k n P", "k n")
bdtrik = _inverse("bdtrik", BINOMIAL, "P n p", ends=_COUNTS)
bdtrin = _inverse("bdtrin", BINOMIAL, "k P p")
nbdtri = _inverse("nbdtri", NEGATIVE_BINOMIAL, "k n P", "k n")
nbdtrik = _inverse("nbdtrik", NEGATIVE_BINOMIAL, "P n p", ends=_COUNTS)
nbdtrin = _inverse("nbdtrin", NEGATIVE_BINOMIAL, "k P p")
btdtria = _inverse("btdtria", BETA, "P b x")
btdtrib = _inverse("btdtrib", BETA, "a P x")
chdtriv = _inverse("chdtriv", CHI_SQUARED, "P x")
fdtridfd = _inverse("fdtridfd", FISHER, "n P x", ends=_WIDE)
gdtria = _inverse("gdtria", GAMMA, "P b x")
gdtrib = _inverse("gdtrib", GAMMA, "a P x")
pdtri = _inverse("pdtri", POISSON, "k P", "k")
pdtrik = _inverse("pdtrik", POISSON, "P m", ends=_COUNTS)
stdtridf = _inverse("stdtridf", STUDENT, "P t", ends=_NARROW)
chndtrix = _inverse("chndtrix", NONCENTRAL_CHI_SQUARED, "P v nc", ends=_TINY)
chndtridf = _inverse("chndtridf", NONCENTRAL_CHI_SQUARED, "x P nc", ends=_TINY)
chndtrinc = _inverse("chndtrinc", NONCENTRAL_CHI_SQUARED, "x v P", ends=_TINY)
ncfdtri = _inverse("ncfdtri", NONCENTRAL_FISHER, "n d nc P")
ncfdtridfn = _inverse("ncfdtridfn", NONCENTRAL_FISHER, "P d nc x", ends=_WIDE)
ncfdtridfd = _inverse("ncfdtridfd", NONCENTRAL_FISHER, "n P nc x", ends=_WIDE)
ncfdtrinc = _inverse("ncfdtrinc", NONCENTRAL_FISHER, "n d P x", ends=(0.0, 1e4))
nctdtrit = _inverse("nctdtrit", NONCENTRAL_STUDENT, "v nc P")
nctdtridf = _inverse("nctdtridf", NONCENTRAL_STUDENT, "P nc t", ends=_WIDE)
nctdtrinc = _inverse("nctdtrinc", NONCENTRAL_STUDENT, "v P t")
smirnovi = _inverse("smirnovi", SMIRNOV, "n P", "n", "n d")
kolmogi = _inverse("kolmogi", KOLMOGOROV, "P")


def _law(name: str, law: _Law) -> Any:
    return partials(name, *[lambda out, *args, rule=rule: rule(*args) for rule in law.values()])


chndtr = _law("chndtr", NONCENTRAL_CHI_SQUARED)
ncfdtr = _law("ncfdtr", NONCENTRAL_FISHER)
nctdtr = _law("nctdtr", NONCENTRAL_STUDENT)
smirnov = partials("smirnov", None, by("smirnov", 1, 2))
kolmogorov = partials("kolmogorov", by("kolmogorov", 0, 1))


def _normal_by_p(top: Any, z: Any) -> Any:
    """The derivative of top / z by p, z = ndtri(p): numerics are of no use where z is 0."""
    return neg(mul(div(top, square(z)), _quantile_slope(z)))


def _quantile_slope(z: Any) -> Any:
    """The derivative of ndtri, at its value z."""

    return mul(2.5066282746310002, exp(mul(0.5, square(z))))


nrdtrimn = partials(
    "nrdtrimn",
    lambda out, p, s, x: neg(mul(s, _quantile_slope(ndtri(p)))),
    lambda out, p, s, x: neg(ndtri(p)),
    lambda out, p, s, x: 1.0,
)
nrdtrisd = partials(
    "nrdtrisd",
    lambda out, m, p, x: div(-1.0, ndtri(p)),
    lambda out, m, p, x: _normal_by_p(sub(x, m), ndtri(p)),
    lambda out, m, p, x: div(1.0, ndtri(p)),
)


# -- derivatives of noncentral distributions, of Kolmogorov's and of Smirnov's: plain numerics, entered as kernels
#
# Idea: a noncentral chi-squared or F law is a mixture of central ones under Poisson's law. By the noncentrality the derivative
# is the mixture of differences between neighbours, which are closed forms of one sign; by the shapes that of the central laws'
# derivatives, of one sign too. Student's noncentral law is the mean of normal probabilities under the law of the scale.
# Kolmogorov's function has two theta series, Smirnov's is a sum of powers.


def _each(one: Any) -> Any:
    """A kernel from a function of numbers."""

    def compute(xp: Any, *args: Any, orders: tuple) -> Any:
        return np.array([one(*row, orders=orders) for row in zip(*[a.tolist() for a in args])])

    return compute


def _weights(mean: float, peak: float) -> tuple[Any, Any]:
    """Numbers and probabilities of Poisson's law; terms matter up to `peak` and somewhat more. NaN if they are too many."""
    if not peak < _MOST:
        return np.zeros(1), np.full(1, np.nan)
    j = np.arange(1 if mean == 0 else int(max(mean, peak) + 12 * max(mean, peak) ** 0.5) + 40)
    return j, np.ones(1) if mean == 0 else np.exp(j * np.log(mean) - mean - special_of(np).gammaln(j + 1.0))


_MOST = 1e5  # terms


def _gamma_mixture(a: float, x: float, mean: float, *, orders: tuple) -> float:
    """Of sum(poisson(j, mean) * gammainc(a + j, x)), the derivative of these orders by a, x and mean."""
    if not (a > 0 and x > 0 and 0 <= mean < _MOST and a < np.inf and x < np.inf):
        return 0.0 if x == 0 and a > 0 and not orders[1] else np.nan
    j, weights = _weights(mean, (mean * x) ** 0.5)
    shapes, places = a + j, np.full(j.shape, x)
    if not orders[2]:
        return float(weights @ gammainc_partial(np, shapes, places, orders[:2]))
    step = -gammainc_partial(np, shapes + 1.0, places, (0, 1))
    if orders[2] == 2:
        step = step * (x / (shapes + 1.0) - 1.0)
    elif orders[0]:
        step = step * (np.log(x) - special_of(np).digamma(shapes + 1.0))
    elif orders[1]:
        step = step * (shapes / x - 1.0)
    return float(weights @ step)


def _beta_mixture(a: float, b: float, x: float, mean: float, *, orders: tuple) -> float:
    """Of sum(poisson(j, mean) * betainc(a + j, b, x)), the derivative of these orders."""
    if not (a > 0 and b > 0 and 0 < x < 1 and 0 <= mean < _MOST and a < np.inf and b < np.inf):
        return 0.0 if x in (0, 1) and not orders[2] else np.nan
    j, weights = _weights(mean, mean / 2 + (mean * mean / 4 + mean * b) ** 0.5)
    shapes, other, places = a + j, np.full(j.shape, b), np.full(j.shape, x)
    if not orders[3]:
        return float(weights @ betainc_partial(np, shapes, other, places, orders[:3]))
    digamma = special_of(np).digamma
    step = -betainc_partial(np, shapes + 1.0, other, places, (0, 0, 1)) * (1.0 - x) / (shapes + b)
    if orders[3] == 2:
        step = step * (x * (shapes + b) / (shapes + 1.0) - 1.0)
    elif orders[0]:
        step = step * (np.log(x) + digamma(shapes + b) - digamma(shapes + 1.0))
    elif orders[1]:
        step = step * (np.log1p(-x) + digamma(shapes + b) - digamma(b))
    elif orders[2]:
        step = step * (shapes / x - b / (1.0 - x))
    return float(weights @ step)


def _student(v: float, shift: float, t: float, *, orders: tuple) -> float:
    """Of the mean of ndtr(t s - shift) under the law of s = sqrt(chi-squared / v)."""
    if not (0 < v < np.inf and abs(shift) < np.inf and abs(t) < np.inf):
        return 0.0 if abs(t) == np.inf else np.nan
    functions = special_of(np)
    low, high = -1.0 - 45.0 / v, 1.0
    while v * (0.5 * np.expm1(2 * high) - high) < 45.0:
        high += 1.0
    for _ in range(60):  # the interval of log(s) outside which the density is nothing
        middle = 0.5 * high
        if v * (0.5 * np.expm1(2 * middle) - middle) < 45.0:
            break
        high = middle
    for _ in range(60):
        middle = 0.5 * low
        if v * (0.5 * np.expm1(2 * middle) - middle) < 45.0:
            break
        low = middle
    u = np.linspace(low, high, 4001)
    s, half = np.exp(u), 0.5 * v
    level = np.log(2.0) + half * np.log(half) - half - functions.gammaln(half)
    density = np.exp(level + v * (u - 0.5 * np.expm1(2 * u))) * (u[1] - u[0])
    z, normal = t * s - shift, orders[1] + orders[2]
    if normal:
        wave = np.exp(-0.5 * z * z) / np.sqrt(2 * pi) * (-z if normal == 2 else 1.0) * s ** orders[2] * (-1.0) ** orders[1]
    else:  # less the value at s = 1, whose mean does not depend on v
        side = 1.0 if t < shift else -1.0
        wave = side * (functions.ndtr(side * z) - functions.ndtr(side * (t - shift)))
    if orders[0]:
        score = 0.5 * (np.log(half) - functions.digamma(half)) + u - 0.5 * np.expm1(2 * u)
        bend = 0.5 / v - 0.25 * functions.polygamma(1, half)
        density = density * (score if orders[0] == 1 else score * score + bend)
    return float(density @ wave)


kernel("gamma_mixture")(_each(_gamma_mixture))
kernel("beta_mixture")(_each(_beta_mixture))
kernel("nctdtr")(_each(_student))


@kernel("kolmogorov")
def _kolmogorov(xp: Any, x: Any, *, orders: tuple) -> Any:
    (count,) = orders
    small = x < 1.0
    w = 1.0 / xp.where(small & (x > 0.04), x, 1.0)
    near: Any = 0.0
    for k in (1, 3, 5, 7):
        c = k * k * pi * pi / 8
        polynomial = np.polynomial.Polynomial([0.0, 1.0])  # of w, times exp(-c w**2)
        for _ in range(count):
            polynomial = (polynomial * np.polynomial.Polynomial([0.0, 2 * c]) - polynomial.deriv()) * np.polynomial.Polynomial(
                [0.0, 0.0, 1.0]
            )
        near = near - np.sqrt(2 * pi) * polynomial(w) * xp.exp(-c * w * w)
    y = xp.where(small, 1.0, xp.minimum(x, 40.0))  # where all is 0, as at infinity
    hermite = function_of(xp, "eval_hermite")
    far: Any = 0.0
    for k in range(1, 7):
        root = 2.0**0.5 * k
        far = far + 2 * (-1.0) ** (k - 1) * (-root) ** count * hermite(count, root * y) * xp.exp(-2.0 * k * k * y * y)
    out = xp.where(small, xp.where(x > 0.04, near, 0.0), far)
    return xp.where(xp.isnan(x), xp.nan, out)


def _smirnov(n: float, d: float, *, orders: tuple) -> float:
    if not (n >= 1 and 0 <= d <= 1):
        return np.nan
    n = float(int(n))
    j = np.arange(int(n * (1.0 - d)) + 1.0)
    rest, power = 1.0 - d - j / n, n - j
    kept = rest > 0
    j, rest, power = j[kept], rest[kept], power[kept]
    sums = d + j / n
    functions = special_of(np)
    log = functions.gammaln(n + 1) - functions.gammaln(j + 1) - functions.gammaln(power + 1) + power * np.log(rest)
    log = log + np.where(sums > 0, (j - 1.0) * np.log(np.where(sums > 0, sums, 1.0)), 0.0)
    terms = np.exp(log)  # times d
    first = j == 0
    sums = np.where(sums > 0, sums, 1.0)
    slope = np.where(first, 0.0, (j - 1.0) / sums) - power / rest  # the term of j = 0 is rest**n alone
    bend = slope**2 - np.where(first, 0.0, (j - 1.0) / sums**2) - power / rest**2
    bare = np.where(first, rest**n, terms)
    if orders[1] == 1:
        return float(np.sum(np.where(first, bare * slope, bare * (1.0 + d * slope))))
    return float(np.sum(np.where(first, bare * bend, bare * (2.0 * slope + d * bend))))


kernel("smirnov", counts=(0,))(_each(_smirnov))

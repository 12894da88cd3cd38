"""Inverses of distribution functions in any argument: the implicit function theorem, from a table of laws.

A law is the partial derivatives of its distribution function by its arguments, named. An inverse is written as its arguments in
SciPy are, "P" being the probability: `_inverse("btdtria", BETA, "P b x")` solves for a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.primitives.arithmetic import add, div, mul, neg, square, sub
from funcad.primitives.rounding import floor
from funcad.primitives.special_error import ndtri
from funcad.primitives.special_incomplete import (
    beta_density,
    betainc_shape,
    gamma_density,
    gammainc_a,
    stdtr_v,
    student_density,
)
from funcad.primitives.special_table import by, numeric, partials
from funcad.primitives.transcendental import exp

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


def _inverse(name: str, law: _Law, arguments: str, counts: str = "", letters: str = "") -> Any:
    """The inverse with SciPy's arguments; those among `counts` are rounded down, as SciPy does, and have derivative 0."""
    given = arguments.split()
    order = letters.split() or list(law)
    (solved,) = [letter for letter in order if letter not in given]

    def rule(letter: str) -> Any:
        def partial(out: Any, *args: Any) -> Any:
            known = dict(zip(given, args))
            known[solved] = out
            at = [floor(known[v]) if v in counts.split() else known[v] for v in order]
            slope = law[solved](*at)
            return div(1.0, slope) if letter == "P" else neg(div(law[letter](*at), slope))

        return None if letter in counts.split() else partial

    return partials(name, *[rule(letter) for letter in given])


bdtri = _inverse("bdtri", BINOMIAL, "k n P", "k n")
bdtrik = _inverse("bdtrik", BINOMIAL, "P n p")
bdtrin = _inverse("bdtrin", BINOMIAL, "k P p")
nbdtri = _inverse("nbdtri", NEGATIVE_BINOMIAL, "k n P", "k n")
nbdtrik = _inverse("nbdtrik", NEGATIVE_BINOMIAL, "P n p")
nbdtrin = _inverse("nbdtrin", NEGATIVE_BINOMIAL, "k P p")
btdtria = _inverse("btdtria", BETA, "P b x")
btdtrib = _inverse("btdtrib", BETA, "a P x")
chdtriv = _inverse("chdtriv", CHI_SQUARED, "P x")
fdtridfd = _inverse("fdtridfd", FISHER, "n P x")
gdtria = _inverse("gdtria", GAMMA, "P b x")
gdtrib = _inverse("gdtrib", GAMMA, "a P x")
pdtri = _inverse("pdtri", POISSON, "k P", "k")
pdtrik = _inverse("pdtrik", POISSON, "P m")
stdtridf = _inverse("stdtridf", STUDENT, "P t")
chndtrix = _inverse("chndtrix", NONCENTRAL_CHI_SQUARED, "P v nc")
chndtridf = _inverse("chndtridf", NONCENTRAL_CHI_SQUARED, "x P nc")
chndtrinc = _inverse("chndtrinc", NONCENTRAL_CHI_SQUARED, "x v P")
ncfdtri = _inverse("ncfdtri", NONCENTRAL_FISHER, "n d nc P")
ncfdtridfn = _inverse("ncfdtridfn", NONCENTRAL_FISHER, "P d nc x")
ncfdtridfd = _inverse("ncfdtridfd", NONCENTRAL_FISHER, "n P nc x")
ncfdtrinc = _inverse("ncfdtrinc", NONCENTRAL_FISHER, "n d P x")
nctdtrit = _inverse("nctdtrit", NONCENTRAL_STUDENT, "v nc P")
nctdtridf = _inverse("nctdtridf", NONCENTRAL_STUDENT, "P nc t")
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

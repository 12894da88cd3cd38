"""Mean, variance, entropy, quantile intervals and expectations of distributions with traced parameters.

Idea: of the standard variable SciPy's own formulas `_stats`, `_munp` and `_entropy` run on traced values (funcad/lifting);
here is what surrounds them: moments that follow from others, loc and scale, NaN for bad parameters. Where SciPy integrates, the
value is SciPy's, and its derivative the integral of the density's. With nothing traced all methods are SciPy's own.

Trap: `_stats` gives None for what is to be found from raw moments, and may want to be told which moments are asked for.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.errors import TracerArrayConversionError
from funcad.ir.tracer import concrete_value
from funcad.lifting.own_answers import is_compared, through
from funcad.lifting.own_code import lifted_object
from funcad.numpy.dispatch import is_traced, where_am_i
from funcad.scipy.door import scipy_function
from funcad.scipy.stats import own_distributions
from funcad.scipy.stats.family import Continuous, floats, from_scipy, poisoned, quietly, with_rule

_LETTERS = "mvsk"


class _Standard:
    """The standard variable of a distribution, with known or traced parameters."""

    def __init__(self, family: Any, parameters: Sequence[Any]):
        self.family, self.parameters = family, tuple(parameters)
        self.theirs = scipy_function(f"stats.{family.name}")
        self.form = lifted_object(self.theirs)
        self.found: dict[str, Any] = {}  # mean, variance, skewness, excess kurtosis
        self.answers: dict[str, Any] = {}  # those that `_stats` has

    def asked(self, letter: str) -> Any:
        """What `_stats` has of this moment; None if it follows from raw ones, or has no formula that can be differentiated."""
        if letter not in self.answers:
            self.answers[letter] = self._answer(letter)
        return self.answers[letter]

    def _answer(self, letter: str) -> Any:
        if not is_traced(self.parameters):
            return self.theirs.stats(*self.parameters, moments=letter)
        options = {"moments": letter} if self.theirs._stats_has_moments else {}
        at = _LETTERS.index(letter)
        return self._own("_stats", lambda *p: self.form._stats(*p, **options)[at])

    def raw(self, n: int) -> Any:
        """E(Y ** n)."""
        if not is_traced(self.parameters):
            return self.theirs.moment(n, *self.parameters)
        found = self._own("_munp", functools.partial(self.form._munp, n))
        if found is not None:
            return found
        return self._integrated(
            f"moment {n}", lambda *p: self.theirs._munp(n, *p), lambda y, p, now: y**n * p
        )

    def entropy(self) -> Any:
        if not is_traced(self.parameters):
            return self.theirs.entropy(*self.parameters)
        found = self._own("_entropy", self.form._entropy)
        if found is not None:
            return found
        # the density's integral stays 1, so its logarithm needs no derivative
        return self._integrated(
            "entropy", self.theirs.vecentropy, lambda y, p, now: -p * fnp.log(now)
        )

    def _own(self, name: str, formula: Callable[..., Any]) -> Any:
        """The formula of SciPy's; None where it has none, or one that refuses traced values."""
        if not own_distributions.is_written(self.theirs, name):
            return None
        try:
            return own_distributions.by_elements(formula, self.parameters)
        except own_distributions.REFUSALS:
            return None

    def _integrated(self, what: str, value: Callable[..., Any], part: Callable[..., Any]) -> Any:
        """SciPy's value, whose tangent is the integral or the sum of that of `part(y, density, density now)`."""
        family = self.family
        if not isinstance(family, Continuous):
            k = _numbers(family, self.parameters, what)
            k = k.reshape(-1, *[1] * max([np.ndim(p) for p in self.parameters], default=0))
            mass = family.pmf(k, *self.parameters)
            there = mass > 0
            return fnp.sum(
                fnp.where(there, part(k, mass, fnp.where(there, mass, 1.0)), 0.0), axis=0
            )

        _refuse_moved_ends(family, what)

        def rule(out: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
            low, high = _ends(family, args)
            circle = family.name == "vonmises"  # its peak is at 0, and the steps are dense at ends
            pieces = ((low, 0.0), (0.0, high)) if circle else ((low, high),)

            def integral(density: Any, parameters: Any, along: Any) -> Any:
                over = own_distributions.integral
                return sum([over(density, *ends, parameters, along) for ends in pieces])

            def term(y: Any, *p: Any) -> Any:
                now = family.formulas["pdf"](y, *args)
                there = now > 0  # elsewhere, far out, the derivative may be 0 * inf
                return fnp.where(
                    there, part(y, family.formulas["pdf"](y, *p), fnp.where(there, now, 1.0)), 0.0
                )

            moved = integral(term, args, tangents)
            # where the same steps do not see the whole density, as of a narrow peak far out, they do not see its derivative
            seen = integral(lambda y, s: s * family.formulas["pdf"](y, *args), (1.0,), (1.0,))
            good = fnp.isfinite(out) & (fnp.abs(seen - 1.0) < 1e-6)
            return moved * fnp.where(good, 1.0, np.nan)  # a factor, which no transposition leaves out

        return with_rule(functools.partial(from_scipy, value), rule)(*self.parameters)

    def mean(self) -> Any:
        return self._once("m", lambda: self.raw(1))

    def variance(self) -> Any:
        def derived() -> Any:
            mean, second = self.mean(), self.raw(2)
            return fnp.where(fnp.isinf(mean) | fnp.isinf(second), np.inf, second - mean**2)

        return self._once("v", derived)

    def third(self) -> Any:
        """The third central moment."""
        return self.skewness() * self.variance() ** 1.5

    def skewness(self) -> Any:
        def derived() -> Any:
            mean, variance = self.mean(), self.variance()
            return ((-mean * mean - 3 * variance) * mean + self.raw(3)) / variance**1.5

        return self._once("s", derived)

    def kurtosis(self) -> Any:
        def derived() -> Any:
            mean, variance = self.mean(), self.variance()
            fourth = ((-(mean**2) - 6 * variance) * mean - 4 * self.third()) * mean + self.raw(4)
            return fourth / variance**2.0 - 3.0

        return self._once("k", derived)

    def _once(self, letter: str, derived: Callable[[], Any]) -> Any:
        if letter not in self.found:
            asked = self.asked(letter)
            self.found[letter] = derived() if asked is None else asked
        return self.found[letter]

    def moment(self, n: int) -> Any:
        """E(Y ** n), from the central moments where there are formulas of these."""
        if n == 0 or n > 4 or any([self.asked(letter) is None for letter in _LETTERS[:n]]):
            return 1.0 if n == 0 else self.raw(n)
        mean, variance = self.mean(), self.variance() if n > 1 else 0.0
        if n < 3:
            return mean if n == 1 else variance + mean * mean
        third = self.third()
        if n == 3:
            return third + 3 * mean * variance + mean**3
        return (
            (self.kurtosis() + 3.0) * variance**2
            + 4 * mean * third
            + 6 * mean * mean * variance
            + mean**4
        )


def _ends(family: Any, parameters: Sequence[Any], scale: Any = 1.0) -> tuple[Any, Any]:
    """Where integrals begin and end, in the standard variable: SciPy goes once around the circle, whatever the scale."""
    if family.name == "vonmises":
        return -np.pi / scale, np.pi / scale
    ends: tuple[Any, Any] = family._support(*parameters)
    return ends


def _refuse_moved_ends(family: Any, what: str) -> None:
    name = f"scipy.stats.{family.name}"
    if own_distributions.is_written(scipy_function(name[6:]), "_get_support"):
        raise TracerArrayConversionError(
            f"the {what} of {name} is an integral whose ends its parameters move{where_am_i()}.\n"
            f"Remedy: scipy.integrate.quad of a formula with {name}.pdf, between ends that you say."
        )


def _method(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """`body(family, standard variable, loc, scale, *leading arguments)` as a method; SciPy's own for known values."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        leading = _LEADING.get(name, 0)
        if not is_traced(args, kwargs):
            return getattr(scipy_function(f"stats.{self.name}"), name)(*args, **kwargs)
        unlisted = hasattr(self, "theirs") and self.name not in own_distributions.COMPARED.split()
        if unlisted or not is_compared("scipy"):
            label = f"scipy.stats.{self.name}"
            args, kwargs = (
                tuple(through(label, list(args))),
                dict(zip(kwargs, through(label, list(kwargs.values())))),
            )
        options = {key: kwargs.pop(key) for key in _OPTIONS.get(name, ()) if key in kwargs}
        found = self._parameters(name, args[leading:], kwargs)
        values = iter(floats(*[p for p in found if p is not None]))
        found = [None if p is None else next(values) for p in found]
        n = len(self.parameters)
        parameters, loc, scale = found[:n], found[n], found[n + 1] if len(found) > n + 1 else None
        conditions = [] if self._check is None else [self._check(*parameters)]
        conditions += [] if scale is None else [scale > 0]
        asked = functools.partial(
            body, self, _Standard(self, parameters), loc, scale, *args[:leading], **options
        )
        out = quietly(asked)
        return (
            tuple([poisoned(fnp.asarray(o), *conditions) for o in out])
            if type(out) is tuple
            else poisoned(out, *conditions)
        )

    method.__name__ = method.__qualname__ = name
    return method


_LEADING = {"moment": 1, "interval": 1}  # arguments before the parameters
_OPTIONS = {
    "stats": ["moments"],
    "moment": ["order"],
    "interval": ["confidence"],
    "rvs": ["size", "random_state"],
}


def _moved(y: Any, loc: Any, scale: Any) -> Any:
    """A value of the standard variable, with loc and scale; None stands for 0 and 1."""
    y = y if scale is None else y * scale
    y = y if loc is None else y + loc
    return fnp.asarray(y, dtype=float) if type(y) in (int, float) else y


def _spread(variance: Any, scale: Any) -> Any:
    return _moved(_moved(variance, None, scale), None, scale)


def _stats(family: Any, y: _Standard, loc: Any, scale: Any, moments: str = "mv") -> Any:
    each = {
        "m": lambda: _moved(y.mean(), loc, scale),
        "v": lambda: _spread(y.variance(), scale),
        "s": lambda: _moved(y.skewness(), None, None),
        "k": lambda: _moved(y.kurtosis(), None, None),
    }
    out = tuple([each[letter]() for letter in _LETTERS if letter in moments])
    return out[0] if len(out) == 1 else out


def _moment(family: Any, y: _Standard, loc: Any, scale: Any, order: int) -> Any:
    if order != int(order) or order < 0:
        raise ValueError(
            f"{family.name}.moment takes an order that is an integer of 0 or more, got {order}"
        )
    if loc is None:
        return _moved(y.moment(order), None, None if scale is None else scale**order)
    s = 1.0 if scale is None else scale
    return sum([comb(order, k) * s**k * loc ** (order - k) * y.moment(k) for k in range(order + 1)])


def _entropy(family: Any, y: _Standard, loc: Any, scale: Any) -> Any:
    return _moved(y.entropy(), None if scale is None else fnp.log(scale), None)


def _quantiles(family: Any, y: _Standard, loc: Any, scale: Any, *q: float) -> tuple:
    known = {"loc": 0.0 if loc is None else loc} | (
        {"scale": 1.0 if scale is None else scale} if "scale" in family.location else {}
    )
    return tuple([family.ppf(p, *y.parameters, **known) for p in q])


def _interval(family: Any, y: _Standard, loc: Any, scale: Any, confidence: float) -> tuple:
    return _quantiles(family, y, loc, scale, (1.0 - confidence) / 2, (1.0 + confidence) / 2)


def _end(family: Any, y: _Standard, loc: Any, scale: Any, which: int) -> Any:
    end = family._support(*y.parameters)[which]
    if is_traced((end,)) or np.isfinite(end).all():
        return _moved(end, loc, scale)
    return fnp.zeros_like(_moved(0.0, loc, scale)) + end  # without a derivative in loc and scale


def _support(family: Any, y: _Standard, loc: Any, scale: Any) -> tuple:
    return _end(family, y, loc, scale, 0), _end(family, y, loc, scale, 1)


_TAIL = 1e-14  # a sum over a support without an end goes half as far again as to this probability
_MOST = 1_000_000


def _numbers(family: Any, parameters: Sequence[Any], what: str) -> np.ndarray:
    """All numbers of a discrete distribution that matter."""
    known = tuple(map(concrete_value, parameters))
    ends: Sequence[Any] = ()
    if not is_traced(known):
        theirs = scipy_function(f"stats.{family.name}")
        low, high = map(np.asarray, theirs.support(*known))
        first = np.floor(theirs.ppf(_TAIL, *known))
        within = np.isfinite(high) | (theirs.sf(first + _MOST, *known) < _TAIL)  # else SciPy adds up all of it
        near = first, np.ceil(theirs.isf(_TAIL, *known)) if within.all() else np.inf
        beyond = np.ceil((near[1] - near[0]) / 2) + 10
        low = np.where(np.isfinite(low), low, near[0] - beyond)
        high = np.where(np.isfinite(high), high, near[1] + beyond)
        ends = float(np.min(low)), float(np.max(high))
    if not ends or not ends[1] - ends[0] < _MOST:
        where = (
            "has no end that is known inside jit and vmap"
            if not ends
            else f"has more than {_MOST:,} numbers that matter"
        )
        raise TracerArrayConversionError(
            f"the {what} of scipy.stats.{family.name} is a sum over its support{where_am_i()}, which {where}.\n"
            f"Remedy: say which numbers: np.sum(f(k) * scipy.stats.{family.name}.pmf(k, ...)) with k = np.arange(1000)."
        )
    return np.arange(ends[0], ends[1] + 1.0)


def _rvs(family: Any, *args: Any, **options: Any) -> Any:
    name = f"scipy.stats.{family.name}"
    raise TracerArrayConversionError(
        f"{name}.rvs was called with traced parameters{where_am_i()}; what it draws has no derivative in them.\n"
        f"Remedy: {name}.ppf(u, ...) of uniform draws u; or loc + scale * {name}.rvs(...), of known shapes."
    )


def expect(
    self: Any,
    func: Any = None,
    args: Any = (),
    loc: Any = 0.0,
    *rest: Any,
    **options: Any,
) -> Any:
    """The expectation of func(x): the integral, or the sum over a finite support, of func(x) times the density."""
    continuous = isinstance(self, Continuous)
    names = ("scale", "lb", "ub", "conditional") if continuous else ("lb", "ub", "conditional")
    given = {
        "scale": 1.0,
        "lb": None,
        "ub": None,
        "conditional": False,
        **dict(zip(names, rest)),
        **options,
    }
    scale, low, high, conditional = [given.pop(key) for key in ("scale", "lb", "ub", "conditional")]
    place = {"loc": loc, "scale": scale} if continuous else {"loc": loc}
    f = func or (lambda x: x)
    if not continuous:
        k = _numbers(self, args, "expectation") + loc
        kept = (k >= (-np.inf if low is None else low)) & (k <= (np.inf if high is None else high))
        masses = fnp.where(kept, self.pmf(k, *args, **place), 0.0)
        total = fnp.sum(fnp.stack([f(v) for v in k]) * masses)
        return total / fnp.sum(masses) if conditional else total
    if is_traced(args):
        _refuse_moved_ends(self, "expectation")
    # in the standard variable, whose density knows nothing of loc and scale
    low, high = [
        end if given_end is None else (given_end - loc) / scale
        for given_end, end in zip((low, high), _ends(self, args, scale))
    ]

    def part(y: Any) -> Any:
        density = self.pdf(y, *args)
        return fnp.where(density == 0, 0.0, f(loc + scale * y) * density)  # NaN where a parameter is bad

    total = importlib.import_module("funcad.scipy.integrate").quad(part, low, high, **given)[0]
    total = poisoned(total, fnp.asarray(scale) > 0)
    return total / (self.cdf(high, *args) - self.cdf(low, *args)) if conditional else total


METHODS: dict[str, Callable[..., Any]] = {
    "mean": _method("mean", lambda family, y, loc, scale: _moved(y.mean(), loc, scale)),
    "var": _method("var", lambda family, y, loc, scale: _spread(y.variance(), scale)),
    "std": _method("std", lambda family, y, loc, scale: fnp.sqrt(_spread(y.variance(), scale))),
    "median": _method(
        "median", lambda family, y, loc, scale: _quantiles(family, y, loc, scale, 0.5)[0]
    ),
    "stats": _method("stats", _stats),
    "moment": _method("moment", _moment),
    "entropy": _method("entropy", _entropy),
    "interval": _method("interval", _interval),
    "support": _method("support", _support),
    "rvs": _method("rvs", _rvs),
    "expect": expect,
}

"""What the distributions share: arguments, location and scale, the support, and how a formula becomes SciPy's methods.

A distribution is one expression, `Continuous(name, parameters, logpdf=..., cdf=..., ...)`: formulas of the standard
distribution (loc = 0, scale = 1), which need be right inside the support only. The methods bring `(x - loc) / scale`
to them and fix what lies outside.

* Bad parameters give NaN, as SciPy: where a check fails, x is poisoned with NaN before the formula, which so needs no
  check of its own. Checks on known values cost nothing further once they have passed.
* Outside the support the formula gets a harmless interior point and its result is replaced, so that its infinities
  reach no derivative (`0 * inf` would be NaN): densities are 0 there, log-densities -inf, with derivative 0. So it is with
  distribution functions at infinity; densities have the formula's value there.
* All floats of a call decide its dtype; integers adapt to it (float32 data with integer counts stay float32, where SciPy
  computes in float64).
* A quantile without a closed form gets SciPy's value, and its derivative by the implicit function theorem from the
  distribution's own `cdf` and `logpdf`; quantiles of discrete distributions are step functions, with derivative 0.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.host.devices import device_in_use, namespace_of, restore_warnings, suppress_warnings
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.memo import Table
from funcad.numpy import ufuncs
from funcad.numpy.dispatch import is_traced
from funcad.numpy.promote import as_array, one_dtype, promote, promote_dtype, promote_shaped, result_dtype
from funcad.primitives import special as _special
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.placement import capture_as_inputs
from funcad.scipy.door import scipy_function

# -- arguments as the formulas take them, and special functions on operands of different shapes


_FLOAT64 = np.dtype(np.float64)


class _Special:
    """The special functions on operands that need not have one shape: `special.gammaln(x)`."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(_special, name)

        def call(*args: Any) -> Any:
            operands = promote(*args)
            dtype = next((dtype_of(a) for a in operands if type(a) is not float), _FLOAT64)
            return function(*[dtype.type(a) if type(a) is float else a for a in operands])  # SciPy takes floats for float64

        call.__name__ = name
        setattr(self, name, call)
        return call


special = _Special()


def floats(*args: Any) -> list[Any]:
    """The arguments as values of one float dtype, in their own shapes; integers adapt, complex numbers raise."""
    values = list(map(as_array, args))
    if one_dtype(values):
        return capture_as_inputs(values, values)
    avals = list(map(aval_of, values))
    strong = [v for v, a in zip(values, avals) if a.dtype.kind == "f" and not a.weak]
    for a in avals:
        if a.dtype.kind == "c":
            raise TypeError(f"distributions take real numbers, got {a}; take np.real first")
    dtype = result_dtype(strong)[0] if strong else _FLOAT64
    values = promote_dtype(capture_as_inputs(values, values), dtype)
    if float not in map(type, values):
        return values
    return [dtype.type(v) if type(v) is float else v for v in values]


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """The function's value, without NumPy's warnings about what is replaced afterwards."""
    token = suppress_warnings()
    try:
        return function(*args)
    finally:
        restore_warnings(token)


def _holds(condition: Any) -> bool:
    """Is the condition known to be true everywhere?"""
    return condition is True or type(condition) is not Tracer and bool(condition.all())


def poisoned(x: Any, *conditions: Any) -> Any:
    """x, NaN where a condition fails, and so is its derivative: a product, since `where` would say that x is not looked at."""
    for condition in conditions:
        if not _holds(condition):
            kind = np.result_type(aval_of(x).dtype, np.float16).type
            x = x * fnp.where(condition, kind(1), kind(np.nan))
    return x


def replaced(x: Any, condition: Any, value: Any) -> Any:
    """x, with another value where the condition holds."""
    if type(condition) is not Tracer and not condition.any():
        if shape_of(condition) == shape_of(x):
            return x
    return fnp.where(condition, value, x)


def level_out(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula, with derivatives 0 at infinity, where its own are `0 * inf`."""

    def level(y: Any, *parameters: Any) -> Any:
        out = formula(y, *parameters)
        return replaced(out, fnp.isinf(y) & (out == out), stop_gradient(out))

    return level


def of_numbers(formula: Callable[..., Any], inside: Callable[..., Any]) -> Callable[..., Any]:
    """The formula, which sees no NaN, as SciPy's do not: where y is one, so are the value and all derivatives."""

    def seeing(y: Any, *parameters: Any) -> Any:
        there = y == y
        if _holds(there):
            return formula(y, *parameters)
        out = formula(replaced(y, ~there, inside(*parameters)), *parameters)
        return fnp.where(there, out, y * sum(parameters, y))

    return seeing


# -- derivatives that are said rather than derived: of inverses, of functions through singular points, of SciPy's own values


def with_rule(value: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """`value(y, *parameters)` with the derivative `rule(out, args, tangents)`, where a tangent is None if it is zero.

    The name of a method of SciPy's stands for its values.
    """
    value = functools.partial(from_scipy, f"stats.{value}") if type(value) is str else value
    made = Table("scipy.stats.rules", "which arguments are not traced: the function with the rule", same=None)

    def function(known: tuple[int, ...]) -> Any:  # arguments that are not traced have no derivative to be computed
        f = Tracer.namespace.custom_jvp(value, nondiff_argnums=known)

        def jvp_rule(*given: Any) -> tuple[Any, Any]:
            *constants, primals, tangents = given
            pairs = list(zip(primals, tangents))
            for i, constant in zip(known, constants):
                pairs.insert(i, (constant, None))
            args = [p for p, _ in pairs]
            out = f(*args)
            return out, rule(out, args, [t for _, t in pairs])

        f.defjvp(jvp_rule)
        return made.put(known, f)

    def call(*args: Any) -> Any:
        args = tuple(promote(*args))
        known = tuple([i for i, a in enumerate(args) if type(a) is not Tracer])
        if len(known) == len(args):
            return value(*args)
        return (made.get(known) or function(known))(*args)

    return call


def in_parameters(f: Callable[..., Any], parameters: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The tangent of `f(*parameters)`; None if all are zero."""
    moved = [i for i, t in enumerate(tangents) if t is not None]
    if not moved:
        return None

    def of_moved(*values: Any) -> Any:
        full = list(parameters)
        for i, value in zip(moved, values):
            full[i] = value
        return f(*full)

    primals = tuple([parameters[i] for i in moved])
    along = tuple([tangents[i] for i in moved])
    return Tracer.namespace.jvp(of_moved, primals, along)[1]


def _sum(s: Any, t: Any) -> Any:
    return t if s is None else s if t is None else s + t


def known_density(cdf: Callable[..., Any], logpdf: Callable[..., Any]) -> Callable[..., Any]:
    """The distribution function of a density that is symmetric about 0, whose derivative in y is said to be the density.

    For formulas that are singular at 0, where the distribution is not: there, the derivative in the parameters is 0.
    """

    def rule(out: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
        y, *parameters = args
        centre = y == 0
        beside = replaced(y, centre, 1.0)
        t = in_parameters(lambda *p: cdf(beside, *p), parameters, tangents[1:])
        t = None if t is None else replaced(t, centre, 0.0)
        return t if tangents[0] is None else _sum(ufuncs.exp(logpdf(*args)) * tangents[0], t)

    return with_rule(cdf, rule)


def inverse_of(goal: Callable[..., Any], slope: Callable[..., Any], values: Any) -> Callable[..., Any]:
    """x with goal(x, *parameters) = q, computed by `values(q, *parameters)`; `slope` is the derivative of goal in x."""

    def rule(out: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
        parameters = args[1:]
        t = in_parameters(lambda *p: goal(out, *p), parameters, tangents[1:])
        t = _sum(tangents[0], None if t is None else -t)
        return t / slope(out, *parameters)

    return with_rule(values, rule)


def with_ends(
    logpdf: Callable[..., Any],
    at_ends: Callable[..., Any],
    ends: Sequence[float] = (0.0,),
) -> Callable[..., Any]:
    """The density exp(logpdf); at ends of the support, where its logarithm is infinite, `at_ends` computes it directly."""

    def pdf(y: Any, *parameters: Any) -> Any:
        ended = y == ends[0]
        for end in ends[1:]:
            ended = ended | (y == end)
        inside = ufuncs.exp(logpdf(replaced(y, ended, 0.5), *parameters))
        if type(ended) is not Tracer and not ended.any():
            return inside
        return fnp.where(ended, at_ends(fnp.where(ended, y, 0.5), *parameters), inside)

    return pdf


def from_scipy(path: Any, *args: Any) -> Any:
    """`scipy.<path>(*args)`, or that function, elementwise and without derivative; compiled programs call it when they run."""

    def call(*values: Any) -> Any:
        values = tuple([np.asarray(v) for v in values])
        f = path if callable(path) else scipy_function(path)
        return np.asarray(f(*values), dtype=values[0].dtype)

    if not is_traced(args):
        if device_in_use() and namespace_of(args) is not np:
            raise NotImplementedError(
                f"scipy.{path} is computed on the CPU only.\n"
                "Remedy: compute it there: funcad.device_get(x), then funcad.device_put of the result."
            )
        return call(*args)[()]
    funcad = Tracer.namespace  # which loads what few distributions need
    args = tuple(promote_shaped(*[stop_gradient(a) for a in args]))
    result = funcad.ShapeDtypeStruct(shape_of(args[0]), dtype_of(args[0]))
    return funcad.pure_callback(call, result, *args, vmap_method="broadcast_all")


# -- what the distributions share


class Frozen:
    """A distribution with its parameters: `norm(1.0, 2.0).logpdf(x)` is `norm.logpdf(x, 1.0, 2.0)`."""

    def __init__(self, family: Any, args: tuple, kwargs: dict[str, Any]):
        self.dist, self.args, self.kwds = family, args, kwargs

    def stats(self, moments: str = "mv") -> Any:
        return self.dist.stats(*self.args, **self.kwds, moments=moments)

    def expect(self, func: Any = None, lb: Any = None, ub: Any = None, conditional: bool = False, **options: Any) -> Any:
        n = len(self.dist.parameters)
        found = self.dist._parameters("expect", self.args, self.kwds)
        place = {key: value for key, value in zip(self.dist.location, found[n:]) if value is not None}
        return self.dist.expect(func, tuple(found[:n]), **place, lb=lb, ub=ub, conditional=conditional, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self.dist, name)
        return lambda *x, **options: method(*x, *self.args, **self.kwds, **options)

    def __repr__(self) -> str:
        arguments = [*map(repr, self.args), *[f"{k}={v!r}" for k, v in self.kwds.items()]]
        return f"{self.dist}({', '.join(arguments)})"


class Named:
    """A distribution of SciPy's name: calling it freezes parameters; methods not defined here are SciPy's, for known values."""

    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        return Frozen(self, args, kwargs)

    def __repr__(self) -> str:
        return f"funcad.scipy.stats.{self.name}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(scipy_function(f"stats.{self.name}"), name)


class _Family(Named):
    """Distributions of numbers: the arguments of their methods."""

    location: tuple[str, ...] = ("loc", "scale")
    _later = frozenset("mean var std median stats moment entropy interval support rvs expect".split())  # methods of moments.py

    def __init__(self, name: str, parameters: str = "", *, check: Callable[..., Any] | None = None):
        self.name = name
        self.parameters = tuple(parameters.split())
        self._check = check

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        self._parameters("", args, kwargs)
        return super().__call__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in self._later:
            return functools.partial(importlib.import_module("funcad.scipy.stats.moments").METHODS[name], self)
        return super().__getattr__(name)

    def _parameters(self, method: str, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The parameters, then loc (and scale): None where the default holds."""
        names = (*self.parameters, *self.location)
        given = dict(zip(names, args))
        label = f"{self.name}.{method}" if method else self.name
        if len(args) > len(names):
            raise TypeError(f"{label} takes the parameters {', '.join(names)}; got {len(args)} of them")
        for name, value in kwargs.items():
            if name not in names or name in given:
                how = "was given twice" if name in given else f"is none of its parameters {', '.join(names)}"
                raise TypeError(f"{label}: {name} {how}")
            given[name] = value
        missing = [n for n in self.parameters if n not in given]
        if missing:
            raise TypeError(f"{label} needs the parameter{'s' * (len(missing) > 1)} {', '.join(missing)}")
        found = [given.get(n) for n in names]
        for i, name in enumerate(self.location, len(self.parameters)):
            if type(found[i]) in (int, float) and found[i] == (name == "scale"):
                found[i] = None
        return found

    def _arguments(self, method: str, x: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """x, the parameters as a list, loc and scale, in one dtype."""
        found = self._parameters(method, args, kwargs)
        present = [x, *[p for p in found if p is not None]]
        values = iter(floats(*present))
        x = next(values)
        found = [None if p is None else next(values) for p in found]
        n = len(self.parameters)
        return x, found[:n], *found[n:]


_DOC = """{doc}

    The first argument, x, broadcasts with the parameters, which follow by position or by name: the distribution's own as
    SciPy has them, then loc and, of continuous distributions, scale. Returns floats of the common shape, NaN where SciPy's
    parameters are bad; TypeError for parameters that the distribution does not have. Differs from `scipy.stats` in taking
    traced values, in x and in all parameters.

    >>> from funcad.scipy import stats
    >>> round(float(stats.{call}), 6)
    {value}
    """


def _method(name: str, doc: str, body: Callable[..., Any], call: str, value: float) -> Callable[..., Any]:
    """A method of all distributions; `call` and `value` are its example."""

    def method(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return quietly(body, self, *self._arguments(name, x, args, kwargs))

    method.__name__ = name
    method.__qualname__ = name
    method.__doc__ = _DOC.format(doc=doc, name=name, call=call, value=value)
    return method


# -- continuous distributions


def _standard(self: Any, x: Any, parameters: list, loc: Any, scale: Any) -> Any:
    """(x - loc) / scale, NaN where a parameter is bad."""
    conditions = [] if self._check is None else [self._check(*parameters)]
    if loc is not None:
        x = x - loc
    if scale is not None:
        x = x / scale
        conditions.append(scale > 0)
    return poisoned(x, *conditions)


def _is_infinite(end: Any) -> bool:
    return type(end) is float and abs(end) == np.inf


def _in_support(self: Any, y: Any, parameters: list, formula: Callable[..., Any], below: float, above: float) -> Any:
    """The formula inside the open support, and its limits at the ends and beyond."""
    low, high = self._support(*parameters)
    under, over = y <= low, y >= high
    out = formula(replaced(y, under | over, self._interior(*parameters)), *parameters)
    return replaced(replaced(out, under, below), over, above)


def _density(self: Any, x: Any, parameters: list, loc: Any, scale: Any, formula: Any, nothing: float) -> Any:
    """A density's formula on the closed support (the open one if the density has no value at the ends)."""
    y = _standard(self, x, parameters, loc, scale)
    outside = self._outside(y, parameters)
    if outside is None:
        return formula(y, *parameters)
    out = formula(replaced(y, outside, self._interior(*parameters)), *parameters)
    return replaced(out, outside, nothing)


def _logpdf(self: Any, x: Any, parameters: list, loc: Any, scale: Any) -> Any:
    formula = standard = self.formulas["logpdf"]
    if scale is not None:
        formula = lambda *args: standard(*args) - ufuncs.log(scale)
    return _density(self, x, parameters, loc, scale, formula, -np.inf)


def _pdf(self: Any, x: Any, parameters: list, loc: Any, scale: Any) -> Any:
    out = _density(self, x, parameters, loc, scale, self.formulas["pdf"], 0.0)
    return out if scale is None else out / scale


def _cumulative(name: str, below: float, above: float) -> Callable[..., Any]:
    def body(self: Any, x: Any, parameters: list, loc: Any, scale: Any) -> Any:
        y = _standard(self, x, parameters, loc, scale)
        return _in_support(self, y, parameters, self.formulas[name], below, above)

    return body


def _quantile(name: str) -> Callable[..., Any]:
    def body(self: Any, q: Any, parameters: list, loc: Any, scale: Any) -> Any:
        conditions = [] if self._check is None else [self._check(*parameters)]
        if scale is not None:
            conditions.append(scale > 0)
        low, high = self._support(*parameters)
        at_zero, at_one = (low, high) if name == "ppf" else (high, low)
        q = poisoned(q, ~(q < 0), ~(q > 1), *conditions)
        under, over = q <= 0, q >= 1
        out = self.formulas[name](replaced(q, under | over, 0.5), *parameters)
        out = replaced(replaced(out, under, at_zero), over, at_one)
        if scale is not None:
            out = out * scale
        return out if loc is None else out + loc

    return body


def _log_of(probability: Any, complement: Any) -> Callable[..., Any]:
    """log of a probability, from whichever of the two is small."""

    def formula(y: Any, *parameters: Any) -> Any:
        p, q = probability(y, *parameters), complement(y, *parameters)
        low = p < 0.5
        return fnp.where(low, ufuncs.log(fnp.where(low, p, 0.5)), ufuncs.log1p(-fnp.where(low, 0.5, q)))

    return formula


class Continuous(_Family):
    """A continuous distribution of SciPy's, differentiable in x and in all parameters, loc and scale included.

    >>> import numpy as np, funcad
    >>> from funcad.scipy import stats
    >>> funcad.grad(stats.norm.logpdf, argnums=(0, 2))(1.0, 0.0, 2.0)
    (np.float64(-0.25), np.float64(-0.375))
    """

    def __init__(
        self,
        name: str,
        parameters: str = "",
        *,
        check: Callable[..., Any] | None = None,
        support: Any = (-np.inf, np.inf),
        interior: Any = 0.5,
        closed: bool = True,
        logpdf: Callable[..., Any],
        cdf: Callable[..., Any],
        sf: Callable[..., Any],
        **formulas: Callable[..., Any],
    ):
        super().__init__(name, parameters, check=check)
        self._support = support if callable(support) else lambda *parameters: support
        self._interior = interior if callable(interior) else lambda *parameters: interior
        self.closed = closed
        self.formulas: dict[str, Callable[..., Any]] = {"logpdf": logpdf, "cdf": cdf, "sf": sf, **formulas}
        add = self.formulas.setdefault
        add("pdf", level_out(lambda y, *parameters: ufuncs.exp(logpdf(y, *parameters))))
        add("logcdf", _log_of(cdf, sf))
        add("logsf", _log_of(sf, cdf))
        for method, goal, sign in (("ppf", cdf, 1.0), ("isf", sf, -1.0)):
            if method not in formulas:
                slope = self._slope(sign)
                self.formulas[method] = inverse_of(goal, slope, f"{name}.{method}")

    def _outside(self, y: Any, parameters: list) -> Any:
        """Where there is no density; None if it is nowhere."""
        low, high = self._support(*parameters)
        if not self.closed:
            return (y <= low) | (y >= high)
        under = None if _is_infinite(low) else y < low
        if _is_infinite(high):
            return under
        over = y > high
        return over if under is None else under | over

    def _slope(self, sign: float) -> Callable[..., Any]:
        return lambda y, *parameters: sign * ufuncs.exp(self.formulas["logpdf"](y, *parameters))

    logpdf = _method("logpdf", "log of the density at x.", _logpdf, "norm.logpdf(0.25)", -0.950189)
    pdf = _method("pdf", "Density at x.", _pdf, "norm.pdf(0.25)", 0.386668)
    cdf = _method("cdf", "Probability of values up to x.", _cumulative("cdf", 0.0, 1.0), "norm.cdf(0.25)", 0.598706)
    sf = _method(
        "sf", "Probability of values above x, accurate where it is small.", _cumulative("sf", 1.0, 0.0),
        "norm.sf(0.25)", 0.401294
    )
    logcdf = _method(
        "logcdf", "log of `cdf`, accurate in both tails.", _cumulative("logcdf", -np.inf, 0.0), "norm.logcdf(0.25)", -0.512984
    )
    logsf = _method(
        "logsf", "log of `sf`, accurate in both tails.", _cumulative("logsf", 0.0, -np.inf), "norm.logsf(0.25)", -0.913062
    )
    ppf = _method("ppf", "The value that `cdf` takes to q: the inverse of `cdf`.", _quantile("ppf"), "norm.ppf(0.25)", -0.67449)
    isf = _method("isf", "The inverse of `sf`.", _quantile("isf"), "norm.isf(0.25)", 0.67449)


# -- discrete distributions


def _counts(self: Any, k: Any, parameters: list, loc: Any) -> Any:
    """k - loc, NaN where a parameter is bad."""
    conditions = [] if self._check is None else [self._check(*parameters)]
    return poisoned(k if loc is None else k - loc, *conditions)


def _under(k: Any, low: Any) -> Any:
    """Is k less than all values? An infinite end is none of them."""
    return k <= low if _is_infinite(low) else k < low


def _mass(name: str, nothing: float) -> Callable[..., Any]:
    def body(self: Any, k: Any, parameters: list, loc: Any) -> Any:
        k = _counts(self, k, parameters, loc)
        low, high = self._support(*parameters)
        outside = _under(k, low) | _under(-k, -high)
        outside = outside | (ufuncs.floor(k) < k)
        inside = replaced(k, outside, self._first(parameters))
        return replaced(self.formulas[name](inside, *parameters), outside, nothing)

    return body


def _steps(name: str, below: float, above: float) -> Callable[..., Any]:
    def body(self: Any, k: Any, parameters: list, loc: Any) -> Any:
        k = self._step(name, _counts(self, k, parameters, loc))
        low, high = self._support(*parameters)
        under, over = _under(k, low), k >= high
        inside = replaced(k, under | over, self._first(parameters))
        out = self.formulas[name](inside, *parameters)
        return replaced(replaced(out, under, below), over, above)

    return body


def _step_quantile(name: str) -> Callable[..., Any]:
    def body(self: Any, q: Any, parameters: list, loc: Any) -> Any:
        out = from_scipy(f"stats.{self.name}.{name}", q, *parameters)
        return out if loc is None else out + loc

    return body


class Discrete(_Family):
    """A discrete distribution of SciPy's, differentiable in its parameters.

    `logpmf` and `pmf` are -inf and 0 except at the integers of the support; there, their derivative in k is that of the
    formula (as JAX's), where k is a float. `cdf` and the like are step functions of k.

    >>> import numpy as np, funcad
    >>> from funcad.scipy import stats
    >>> funcad.grad(lambda mu: stats.poisson.logpmf(3, mu))(2.0)
    np.float64(0.5)
    """

    location = ("loc",)

    def __init__(
        self,
        name: str,
        parameters: str,
        *,
        check: Callable[..., Any],
        support: Any = (0.0, np.inf),
        logpmf: Callable[..., Any],
        cdf: Callable[..., Any],
        sf: Callable[..., Any],
        **formulas: Callable[..., Any],
    ):
        super().__init__(name, parameters, check=check)
        self._support = support if callable(support) else lambda *parameters: support
        self.formulas: dict[str, Callable[..., Any]] = {"logpmf": logpmf, "cdf": cdf, "sf": sf, **formulas}
        self.formulas.setdefault("pmf", lambda k, *parameters: ufuncs.exp(logpmf(k, *parameters)))
        self.formulas.setdefault("logcdf", _log_of(cdf, sf))
        self.formulas.setdefault("logsf", _log_of(sf, cdf))

    def _step(self, name: str, k: Any) -> Any:
        """k as that formula takes it: without a derivative."""
        return ufuncs.floor(k)

    def _first(self, parameters: Sequence[Any]) -> Any:
        """A value that it takes: the least one, or 0."""
        low = self._support(*parameters)[0]
        return 0.0 if _is_infinite(low) else low

    logpmf = _method("logpmf", "log of the probability of k.", _mass("logpmf", -np.inf), "poisson.logpmf(1, 2.0)", -1.306853)
    pmf = _method("pmf", "Probability of k.", _mass("pmf", 0.0), "poisson.pmf(1, 2.0)", 0.270671)
    cdf = _method("cdf", "Probability of values up to k.", _steps("cdf", 0.0, 1.0), "poisson.cdf(1, 2.0)", 0.406006)
    sf = _method(
        "sf", "Probability of values above k, accurate where it is small.", _steps("sf", 1.0, 0.0),
        "poisson.sf(1, 2.0)", 0.593994
    )
    logcdf = _method(
        "logcdf", "log of `cdf`, accurate in both tails.", _steps("logcdf", -np.inf, 0.0), "poisson.logcdf(1, 2.0)", -0.901388
    )
    logsf = _method(
        "logsf", "log of `sf`, accurate in both tails.", _steps("logsf", 0.0, -np.inf), "poisson.logsf(1, 2.0)", -0.520886
    )
    ppf = _method(
        "ppf", "The least value whose `cdf` reaches q; SciPy's, with derivative 0.", _step_quantile("ppf"),
        "poisson.ppf(0.5, 2.0)", 2.0
    )
    isf = _method(
        "isf", "The least value whose `sf` does not exceed q; SciPy's, with derivative 0.", _step_quantile("isf"),
        "poisson.isf(0.5, 2.0)", 2.0
    )

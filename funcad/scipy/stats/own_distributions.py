"""SciPy's other distributions, each by its own formulas: `_logpdf`, `_cdf`, `_ppf` ... run by their code (funcad/lifting).

Idea: a distribution of SciPy's is a class of formulas in the standard variable; `family.py` says what surrounds them. Here the
formulas are the lifted methods of SciPy's object, and so are its support and the check of its parameters. With nothing traced
the methods are SciPy's own.

A formula that ends in compiled code, or is computed by quadrature or a search, has SciPy's values, and a derivative that is
known otherwise: of a distribution function in x the density, of a quantile by the implicit function theorem, of a distribution
function in its parameters the integral (or the sum) of the density's. What is left is refused, with the compiled name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.custom.custom_jvp import custom_jvp
from funcad.errors import FuncadError, TracerArrayConversionError, TracerBoolConversionError
from funcad.ir.aval import aval_of
from funcad.ir.tracer import concrete_value
from funcad.lifting.own_answers import is_compared, through
from funcad.lifting.own_code import all_codes, lifted_object
from funcad.lifting.stand_ins import of_elements
from funcad.numpy.dispatch import is_traced, where_am_i
from funcad.primitives.conversion import stop_gradient
from funcad.scipy.stats.family import Continuous, Discrete, in_parameters, inverse_of, level_out, of_numbers, quietly, with_rule

# A test compares their values and derivatives, on the versions of `own_answers.VERSIONS`
COMPARED = """
alpha anglit arcsine argus betanbinom betaprime boltzmann bradford burr burr12 chi cosine crystalball dgamma dlaplace
dpareto_lognorm dweibull erlang exponnorm exponpow exponweib fatiguelife fisk foldcauchy foldnorm gausshyper genexpon
genextreme gengamma genhalflogistic genhyperbolic geninvgauss genlogistic genpareto gibrat gompertz halfcauchy
halfgennorm halflogistic hypergeom hypsecant invgauss invweibull irwinhall jf_skew_t johnsonsb johnsonsu kappa3 kappa4
ksone kstwo kstwobign landau laplace_asymmetric levy levy_l loggamma loglaplace logser loguniform lomax maxwell mielke
moyal nakagami ncf nchypergeom_fisher nchypergeom_wallenius nct ncx2 nhypergeom norminvgauss pearson3 planck powerlaw
powerlognorm powernorm randint rdist recipinvgauss reciprocal rel_breitwigner rice semicircular skellam skewcauchy
trapezoid triang truncexpon truncpareto truncweibull_min tukeylambda vonmises_line wald weibull_max yulesimon zipf
zipfian
"""

# Where a formula chooses by the value of a parameter, since it has a hole there: its code has the value, and no derivative in
# that parameter, which is NaN here. A test looks for others.
HOLES: dict[str, dict[str, float]] = {
    "genextreme": {"c": 0.0},
    "genpareto": {"c": 0.0},
    "kappa4": {"h": 0.0, "k": 0.0},
    "pearson3": {"skew": 0.0},
}


@custom_jvp
def _at_hole(x: Any, hole: Any) -> Any:
    """Zeros, whose derivative in x is NaN where x is the hole."""
    return fnp.zeros_like(x)


@_at_hole.defjvp
def _slope_at_hole(primals: Any, tangents: Any) -> Any:
    x, hole = primals
    kind = aval_of(x).dtype.type
    return fnp.zeros_like(x), tangents[0] * fnp.where(x == hole, kind(np.nan), kind(0))


REFUSALS = (
    FuncadError,
    TypeError,
    NotImplementedError,
    AttributeError,
    ValueError,
)  # of code that cannot run on traced values


def _own(formula: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The formula by its own code; `otherwise` where that is refused, which may depend on all that an argument is."""

    def run(*args: Any) -> Any:
        try:
            return by_elements(formula, args)
        except REFUSALS as error:
            np.broadcast_shapes(*map(np.shape, args))  # a slip of the caller's has NumPy's error
            refusal = error
        try:
            return otherwise(*args)
        except TracerArrayConversionError as error:
            if error.__cause__ is not None:
                raise
            if isinstance(refusal, TracerBoolConversionError):
                raise refusal from None
            raise error from refusal

    return run


def is_written(theirs: Any, name: str) -> bool:
    """Does the distribution have a formula of its own, which is no quadrature or search?"""
    method = getattr(type(theirs), name)
    names = {n for code in all_codes(method.__code__) for n in code.co_names}
    return not is_general(theirs, name) and not names & {"integrate", "optimize", "quad"}


def is_general(theirs: Any, name: str) -> bool:
    """Is a formula the one of all distributions?"""
    return getattr(type(theirs), name).__qualname__.startswith(("rv_continuous", "rv_discrete", "rv_generic"))


def by_elements(formula: Callable[..., Any], parameters: Sequence[Any]) -> Any:
    """The formula of all parameters by its own code, if need be of arrays, as SciPy calls it."""
    if not parameters:
        return formula()
    try:
        return formula(*parameters)
    except REFUSALS:
        return of_elements(formula, fnp.broadcast_arrays(*parameters))


def _refused(name: str, method: str, what: str) -> Callable[..., Any]:
    def refused(*args: Any) -> Any:
        raise TracerArrayConversionError(
            f"scipy.stats.{name}.{method} was called with traced values{where_am_i()}, and {what} is compiled code, whose "
            "derivative is not known.\nRemedy: funcad.stop_gradient(x) of its arguments if no derivative is wanted; or the "
            f"distribution in funcad.custom_jvp, with {method} of SciPy's in funcad.pure_callback and your derivative."
        )

    return refused


def _without_derivative(name: str, method: str) -> Callable[..., Any]:
    """SciPy's value, whose derivative is refused."""
    refuse = _refused(name, method, f"its {method}")
    return with_rule(f"{name}.{method}", lambda out, args, tangents: refuse())


def _moving(tangents: Sequence[Any]) -> bool:
    return any([t is not None for t in tangents])


# Double exponential quadrature: the ends of an interval, infinite ones too, and what is singular there are approached smoothly
_STEPS = np.linspace(-4.0, 4.0, 321)
_RATES = np.pi / 2 * np.sinh(_STEPS)
_SLOPES = np.pi / 2 * np.cosh(_STEPS) * (_STEPS[1] - _STEPS[0])


def integral(
    density: Callable[..., Any],
    low: Any,
    high: Any,
    parameters: Sequence[Any],
    tangents: Sequence[Any],
) -> Any:
    """The tangent in the parameters of the integral of the density from low to high."""
    if _is_endless(low) and _is_endless(high):
        halves = ((low, 0.0), (0.0, high))
        return sum([integral(density, *ends, parameters, tangents) for ends in halves])
    return _summed(density, _nodes(low, high, parameters), parameters, tangents)


def _is_endless(end: Any) -> bool:
    """Is an end of the support known to be infinite?"""
    return not is_traced((end,)) and np.ndim(end) == 0 and bool(np.isinf(end))


def _nodes(low: Any, high: Any, parameters: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Where the density is taken between the ends, with which weights, and which of these places are inside."""
    shape = (-1, *[1] * max(map(np.ndim, [low, high, *parameters])))
    rates, slopes = _RATES.reshape(shape), _SLOPES.reshape(shape)
    if _is_endless(low) or _is_endless(high):
        away = np.exp(rates)
        at = high - away if _is_endless(low) else low + away
        weights: Any = away * slopes
    else:
        part = 1 / (1 + np.exp(-2 * rates))
        at = fnp.where(
            rates < 0,
            low + (high - low) * part,
            high - (high - low) / (1 + np.exp(2 * rates)),
        )
        weights = (high - low) * part / (1 + np.exp(2 * rates)) * 2 * slopes
    return at, weights, fnp.logical_and(at > low, at < high)


def _summed(
    density: Callable[..., Any],
    nodes: Sequence[Any],
    parameters: Sequence[Any],
    tangents: Sequence[Any],
) -> Any:
    at, weights, inside = nodes
    tangent = in_parameters(functools.partial(quietly, density, at), parameters, tangents)
    return fnp.sum(fnp.where(inside, tangent * weights, 0.0), axis=0)


def _smaller_side(density: Callable[..., Any], ends: Any, y: Any, lower: Any, parameters: Any, tangents: Any) -> Any:
    """The tangent of the integral up to y: that of the lower side, or less that of the upper one, whichever has no peak.

    Nodes are dense at y and at finite ends. A peak many widths away from them would fall between two.
    """
    sides = [_nodes(ends[0], y, parameters), _nodes(y, ends[1], parameters)]
    t = _summed(density, [fnp.where(lower, *pair) for pair in zip(*sides)], parameters, tangents)
    return fnp.where(lower, t, -t)


def _tail_sum(
    pmf: Callable[..., Any],
    low: Any,
    k: Any,
    parameters: Sequence[Any],
    tangents: Sequence[Any],
) -> Any:
    """The tangent in the parameters of the sum of pmf from low to k."""
    last = concrete_value(k)
    first = concrete_value(low)
    if is_traced((last, first)):
        raise TracerArrayConversionError(
            f"the derivative of a distribution function in its parameters is a sum up to k{where_am_i()}, and inside jit or "
            "vmap k has no value.\nRemedy: differentiate without jit and vmap, or sum pmf(m) over m in range(low, k + 1)."
        )
    steps = np.arange(int(np.max(last - first)) + 1)
    at = first + steps.reshape(-1, *[1] * np.ndim(last))
    tangent = in_parameters(functools.partial(pmf, at), parameters, tangents)
    return fnp.sum(fnp.where(at <= last, tangent, 0.0), axis=0)


def _own_methods(kind: type, names: str) -> Callable[[type], type]:
    """SciPy's methods where nothing is traced."""

    def decorate(cls: type) -> type:
        for name in names.split():
            traced = getattr(kind, name)

            def method(
                self: Any,
                x: Any,
                *args: Any,
                _name: str = name,
                _traced: Any = traced,
                **kwargs: Any,
            ) -> Any:
                if not is_traced((x, *args), kwargs):
                    return getattr(self.theirs, _name)(x, *args, **kwargs)
                name = self.theirs.name
                if name not in COMPARED.split() or not is_compared("scipy"):
                    x, *args = through(f"scipy.stats.{name}", [x, *args])  # type: ignore[assignment]
                    kwargs = dict(
                        zip(
                            kwargs,
                            through(f"scipy.stats.{name}", list(kwargs.values())),
                        )
                    )
                return _traced(self, x, *args, **kwargs)

            method.__name__ = method.__qualname__ = name
            method.__doc__ = traced.__doc__
            setattr(cls, name, method)
        return cls

    return decorate


def _between(low: Any, high: Any) -> Any:
    """A point inside the support."""
    if _is_endless(low):
        return 0.5 if _is_endless(high) else high - 1.0
    if _is_endless(high):
        return low + 1.0
    middle = fnp.where(
        fnp.isinf(high),
        low + 1.0,
        fnp.where(fnp.isinf(low), high - 1.0, (low + high) / 2),
    )
    return fnp.where(fnp.isinf(low) & fnp.isinf(high), 0.5, middle)


class _Own:
    """What both kinds share: SciPy's object, and the one that shares its attributes and has lifted methods."""

    theirs: Any

    def _prepared(self, theirs: Any) -> Any:
        self.theirs = theirs
        self.form = lifted_object(theirs)
        return self.form

    def _written(self, method: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """A formula that the distribution has of its own."""
        if is_written(self.theirs, f"_{method}"):
            return _own(getattr(self.form, f"_{method}"), otherwise)
        return otherwise

    def _arguments(
        self, method: str, x: Any, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        x, parameters, *rest = super()._arguments(method, x, args, kwargs)  # type: ignore[misc]
        holes = HOLES.get(self.theirs.name, {})
        for name, value in zip(self.parameters, parameters):  # type: ignore[attr-defined]
            if name in holes and is_traced(
                (value,)
            ):  # added to x: the branch that reads the parameter is not selected
                x = x + _at_hole(value, aval_of(value).dtype.type(holes[name]))
        return x, parameters, *rest


@_own_methods(Continuous, "logpdf pdf cdf sf logcdf logsf ppf isf")
class OwnContinuous(_Own, Continuous):
    """A continuous distribution of SciPy's by its own formulas."""

    def _outside(self, y: Any, parameters: list) -> Any:
        inside = self.form._support_mask(y, *parameters)
        return fnp.logical_not(inside | (y != y))

    def __init__(self, theirs: Any):
        form = self._prepared(theirs)
        name = theirs.name
        ends = form._get_support
        density = _without_derivative(name, "pdf")
        if is_written(theirs, "_logpdf"):
            density = _own(lambda *args: fnp.exp(form._logpdf(*args)), density)
        density = self._written("pdf", density)

        def probability(method: str, sign: float) -> Callable[..., Any]:
            def rule(out: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
                y, *parameters = args
                t = None if tangents[0] is None else sign * density(*args) * tangents[0]
                if not _moving(tangents[1:]):
                    return t
                lower = out <= 0.5 if method == "cdf" else out > 0.5
                moved = sign * _smaller_side(
                    density,
                    ends(*parameters),
                    y,
                    lower,
                    parameters,
                    tangents[1:],
                )
                return moved if t is None else t + moved

            values = with_rule(f"{name}.{method}", rule)
            if method == "sf" and is_general(theirs, "_sf"):
                return lambda y, *parameters: 1.0 - cdf(y, *parameters)
            return self._written(method, values)

        cdf, sf = probability("cdf", 1.0), probability("sf", -1.0)
        formulas: dict[str, Any] = {"pdf": density, "cdf": cdf, "sf": sf}
        formulas["logpdf"] = log_density = lambda *args: fnp.log(density(*args))
        if is_written(theirs, "_logpdf"):
            rule = lambda out, args, along: in_parameters(log_density, args, along)
            # its values also where the density is too small
            values = with_rule(f"{name}.logpdf", rule)
            formulas["logpdf"] = _own(form._logpdf, values)
        for method, plain in (("logcdf", cdf), ("logsf", sf)):
            if is_written(theirs, f"_{method}"):
                log = functools.partial(lambda f, *args: fnp.log(f(*args)), plain)
                formulas[method] = _own(getattr(form, f"_{method}"), log)
        for method, goal, sign in (("ppf", cdf, 1.0), ("isf", sf, -1.0)):
            slope = functools.partial(lambda s, *args: s * density(*args), sign)
            values = inverse_of(goal, slope, f"{name}.{method}")
            formulas[method] = self._written(method, values)
        inside = lambda *parameters: _between(*ends(*parameters))
        for method, formula in formulas.items():
            at = (lambda *parameters: 0.5) if method in ("ppf", "isf") else inside
            formula = level_out(formula) if "pdf" in method else formula
            formulas[method] = of_numbers(formula, at)
        super().__init__(
            name,
            (theirs.shapes or "").replace(",", " "),
            check=lambda *parameters: fnp.asarray(form._argcheck(*parameters)) != 0,
            support=ends,
            interior=inside,
            **formulas,
        )


@_own_methods(Discrete, "logpmf pmf cdf sf logcdf logsf ppf isf")
class OwnDiscrete(_Own, Discrete):
    """A discrete distribution of SciPy's by its own formulas."""

    def _step(self, name: str, k: Any) -> Any:
        # SciPy's cdf and sf take what lies between two counts as it is
        return stop_gradient(k) if name in ("cdf", "sf") else super()._step(name, k)

    def __init__(self, theirs: Any):
        form = self._prepared(theirs)
        name = theirs.name
        ends = form._get_support
        mass = _without_derivative(name, "pmf")
        if is_written(theirs, "_logpmf"):
            mass = _own(lambda *args: fnp.exp(form._logpmf(*args)), mass)
        mass = self._written("pmf", mass)

        def probability(method: str, sign: float) -> Callable[..., Any]:
            def rule(out: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
                k, *parameters = args
                if not _moving(tangents[1:]):
                    return fnp.zeros_like(out)
                low = ends(*parameters)[0]
                if _is_endless(low):
                    _refused(name, method, "its distribution function")()
                return sign * _tail_sum(mass, low, k, parameters, tangents[1:])

            values = with_rule(f"{name}.{method}", rule)
            if method == "sf" and is_general(theirs, "_sf"):
                return lambda k, *parameters: 1.0 - cdf(k, *parameters)
            return self._written(method, values)

        cdf = probability("cdf", 1.0)
        formulas = {
            "logpmf": _own(form._logpmf, lambda *args: fnp.log(mass(*args))),
            "pmf": mass,
            "cdf": cdf,
            "sf": probability("sf", -1.0),
        }
        first = lambda *parameters: self._first(parameters)
        super().__init__(
            name,
            (theirs.shapes or "").replace(",", " "),
            check=lambda *parameters: fnp.asarray(form._argcheck(*parameters)) != 0,
            support=ends,
            **{method: of_numbers(f, first) for method, f in formulas.items()},
        )

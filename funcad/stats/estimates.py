"""Maximum likelihood with standard errors, the intervals of profile likelihoods, and Laplace's approximation.

Idea: parameters are a pytree, which is one vector inside. The maximum is found by `funcad.scipy.optimize.minimize` with exact
derivatives; minus the Hessian there is the observed information, whose inverse is the covariance. Trap: where the maximum is at
a border, or not the only one, neither is true, and no number here can tell; a Hessian that is no maximum's is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad import random, tree
from funcad.api.border import api
from funcad.api.grad import grad
from funcad.api.jacobian import hessian, jacfwd, jacobian, jacrev
from funcad.errors import TreeMismatchError
from funcad.host.where import outside
from funcad.ir.aval import aval_of, shape_of
from funcad.jitted.jit import jit
from funcad.scipy.door import scipy_function
from funcad.scipy.optimize import minimize
from funcad.scipy.tree_vectors import Vector
from funcad.show.compile_log import html_table, text_table

# -- linear propagation of uncertainties: what errors of the arguments make of a function's results


class Propagated(NamedTuple):
    """f(values), the standard errors of its results, like them, and their covariance, a matrix."""

    value: Any
    standard_errors: Any
    covariance: np.ndarray


@api
def propagate(f: Callable[[Any], Any], values: Any, errors: Any) -> Propagated:
    """`f(values)` with standard errors and covariance, to first order: the delta method, the propagation of uncertainties.

    values: a pytree of real arrays and numbers.
    errors: their covariance, a matrix over all numbers of `values` one behind the other; or their standard errors, a pytree
        like `values`, which are then independent.

    Returns a Propagated: `value`, `standard_errors` like it, `covariance` over its numbers, J C J^T with the Jacobian J.
    Raises ValueError where the covariance is no symmetric matrix of that size, or is negative.

    >>> import numpy as np
    >>> from funcad import stats
    >>> found = stats.propagate(lambda p: p["m"] * p["v"] ** 2 / 2, {"m": 2.0, "v": 3.0}, {"m": 0.1, "v": 0.2})
    >>> float(found.value), round(float(found.standard_errors), 4)
    (9.0, 1.2816)
    """
    into = Vector("propagate: values", values)
    if into.dtype.kind != "f":
        raise TypeError("propagate: values must be real")
    x = np.asarray(into.flat(values))
    given = _covariance(errors, values, into)
    value = f(values)
    out = Vector("propagate: the result of f", value)
    if out.dtype.kind != "f" or any([aval_of(leaf).dtype.kind not in "fiu" for leaf in tree.leaves(value)]):
        raise TypeError("propagate: f must return real numbers")
    mode = jacfwd if into.size <= out.size else jacrev
    slopes = np.asarray(mode(lambda v: out.flat(f(into.tree(v))))(x))
    covariance = slopes @ given @ slopes.T
    return Propagated(value, out.tree(np.sqrt(np.diag(covariance))), covariance)


def _covariance(errors: Any, values: Any, into: Vector) -> np.ndarray:
    n = into.size
    if tree.structure(errors) == tree.structure(values) and [np.shape(e) for e in tree.leaves(errors)] == into.shapes:
        widths = np.asarray(into.flat(errors))
        if not np.all(widths >= 0):
            raise ValueError("propagate: standard errors must not be negative or NaN")
        return np.diag(widths**2)
    if tree.structure(errors) != tree.structure(0.0) or np.shape(errors) != (n, n):
        shape = f"shape {np.shape(errors)}" if tree.structure(errors) == tree.structure(0.0) else f"{tree.structure(errors)}"
        raise TreeMismatchError(
            f"propagate: errors must be standard errors like the values, or a covariance matrix ({n}, {n}), got {shape}"
        )
    covariance = np.asarray(errors, float)
    scale = np.sqrt(np.abs(np.outer(np.diag(covariance), np.diag(covariance))))
    if not np.all(np.abs(covariance - covariance.T) <= 1e-8 * scale) or not np.all(np.diag(covariance) >= 0):
        raise ValueError("propagate: the covariance must be symmetric, with a diagonal that is not negative")
    return covariance


# -- estimates


NEWTON_STEPS = 50
SMALLEST_PART = 1e-3  # of the way to the end of an interval, that is followed in parts


class _Peak:
    """The maximum of a function of a pytree, and the curvature there."""

    def __init__(self, what: str, f: Callable[..., Any], start: Any, args: tuple, method: Any, tol: float | None):
        self.what, self.f, self.args = what, f, args
        self.vector = Vector(f"{what}: start", start)
        if self.vector.dtype.kind != "f" or not self.vector.size:
            raise TypeError(f"{what}: start must hold real numbers, at least one, got {start!r}")
        self.total = jit(lambda v: np.sum(f(self.vector.tree(v), *args)))
        first = np.asarray(self.vector.flat(start))
        if not np.isfinite(self.total(first)):
            raise ValueError(f"{what}: the function is {self.total(first)} at the start.\nRemedy: start where it is finite.")
        found = minimize(lambda v: -self.total(v), first, method=method, tol=tol)
        self.x, self.message = np.asarray(found.x), str(found.message)
        self.information = -np.asarray(hessian(self.total)(self.x))
        flat = self._polish()
        self.converged = flat or bool(found.success)
        if not self.converged:
            warnings.warn(f"{what} did not converge: {found.message}", RuntimeWarning, stacklevel=outside(1))
        self.value = float(self.total(self.x))

    def _polish(self) -> bool:
        """Steps of Newton's method, which make the most of the digits; is the slope what rounding leaves?"""
        for _ in range(3):
            slope = np.asarray(grad(self.total)(self.x))
            try:
                step = np.linalg.solve(self.information, slope)
            except np.linalg.LinAlgError:
                return False
            if not np.all(np.abs(step) <= 1e-3 * (1 + np.abs(self.x))):  # also of NaN
                return False
            self.x = self.x + step
            self.information = -np.asarray(hessian(self.total)(self.x))
        return bool(np.all(np.abs(step) <= 1e-6 * (1 + np.abs(self.x))))

    def covariance(self) -> np.ndarray:
        """The inverse of the information."""
        widths, directions = np.linalg.eigh(self.information) if np.all(np.isfinite(self.information)) else ([np.nan], None)
        scale = np.abs(widths).max()
        if not widths[0] > len(self.x) * np.finfo(self.x.dtype).eps * scale:
            where = "" if directions is None else f", along {self.named(directions[:, 0])}"
            raise np.linalg.LinAlgError(
                f"{self.what}: the Hessian of minus the function has the eigenvalue {widths[0]:.3g}{where}: it is not a "
                "maximum that the data determine.\nRemedy: fix one of these parameters, add a prior, or start elsewhere."
            )
        return (directions / widths) @ directions.T

    def names(self) -> list[str]:
        """Of the vector's elements: paths in the pytree."""
        found = []
        for (path, _), shape in zip(tree.leaves_with_path(self.vector.tree(self.x)), self.vector.shapes):
            name = tree.keystr(path, simple=True, separator=".") or "x"
            found += [f"{name}[{', '.join(map(str, i))}]" if shape else name for i in np.ndindex(shape)]
        return found

    def named(self, direction: np.ndarray) -> str:
        """The largest parts of a direction."""
        order = np.argsort(-np.abs(direction))[:3]
        names = self.names()
        return " ".join([f"{direction[i]:+.2f} {names[i]}" for i in order if abs(direction[i]) > 0.1])


def _quantile(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}")
    return float(scipy_function("special.ndtri")((1 + level) / 2))


class Fit:
    """A maximum-likelihood estimate; see `maximum_likelihood`."""

    def __init__(self, peak: _Peak):
        self._peak = peak
        self.params = peak.vector.tree(peak.x)
        self.log_likelihood = peak.value
        self.converged = peak.converged
        self.information = peak.information
        self.covariance = peak.covariance()
        self.standard_errors = self._errors(self.covariance)

    def _errors(self, covariance: np.ndarray) -> Any:
        return self._peak.vector.tree(np.sqrt(np.diag(covariance)))

    @api
    def robust(self) -> Fit:
        """The same estimate with the sandwich covariance, which holds though the model is wrong (Huber, 1967; White, 1982).

        The log-likelihood must return an array, one number for each independent observation; TypeError otherwise.
        """
        peak = self._peak
        contributions = lambda v: peak.f(peak.vector.tree(v), *peak.args)
        if len(shape_of(contributions(peak.x))) != 1:
            raise TypeError(
                f"robust: needs the log-likelihood of each observation, an array (n,), got shape "
                f"{shape_of(contributions(peak.x))}.\nRemedy: return it without the sum; maximum_likelihood adds them up."
            )
        scores = np.asarray(jacobian(contributions)(peak.x))
        bread = peak.covariance()
        other = Fit.__new__(Fit)
        other.__dict__.update(self.__dict__)
        other.covariance = bread @ (scores.T @ scores) @ bread
        other.standard_errors = self._errors(other.covariance)
        return other

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """(low, high): Wald's confidence limits, pytrees like the parameters."""
        z = _quantile(level)
        step = lambda sign: tree.map(lambda x, e: x + sign * z * e, self.params, self.standard_errors)
        return step(-1), step(1)

    def propagate(self, f: Callable[[Any], Any]) -> Propagated:
        """f(parameters) with its standard errors, by the delta method."""
        return propagate(f, self.params, self.covariance)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        low, high = map(self._peak.vector.flat, self.interval())
        errors = np.sqrt(np.diag(self.covariance))
        columns = zip(*[[f"{x:.5g}" for x in column] for column in (self._peak.x, errors, low, high)], self._peak.names())
        return ["estimate", "error", "2.5%", "97.5%", "parameter"], [list(row) for row in columns]

    def __repr__(self) -> str:
        state = "" if self.converged else f" (not converged: {self._peak.message})"
        return f"log-likelihood {self.log_likelihood:.6g}{state}\n{text_table(*self._table(), right=4)}"

    def _repr_html_(self) -> str:
        return f"<p>log-likelihood {self.log_likelihood:.6g}</p>{html_table(*self._table(), right=4)}"


@api
def maximum_likelihood(
    log_likelihood: Callable[..., Any], start: Any, args: tuple = (), *, method: Any = "trust-exact", tol: float | None = None
) -> Fit:
    """The parameters that maximise `log_likelihood(parameters, *args)`, with the covariance by the observed information.

    log_likelihood: returns the log-likelihood, a number, or that of each observation, an array, which is summed.
    start: a pytree of real arrays and numbers, from where the search begins.
    method, tol: SciPy's solver and its tolerance, see `funcad.scipy.optimize.minimize`; the Hessians are exact.

    Returns a Fit: `params`, `standard_errors` (like start), `covariance` (a matrix over the parameters one behind the other),
    `information`, `log_likelihood`, `converged`, `interval(level)`, `propagate(f)`, `robust()`. Raises LinAlgError where the
    curvature is not that of a maximum; a search that fails warns. SciPy and JAX have no such function.

    >>> import numpy as np
    >>> from funcad import stats
    >>> data = np.array([1.0, 2.0, 3.0, 6.0])
    >>> def normal(p):
    ...     return -0.5 * ((data - p["mu"]) / np.exp(p["log_sigma"])) ** 2 - p["log_sigma"]
    >>> stats.maximum_likelihood(normal, {"mu": 0.0, "log_sigma": 0.0})
    log-likelihood -4.50553
    estimate    error      2.5%   97.5%  parameter
     0.62638  0.35355  -0.06657  1.3193  log_sigma
           3  0.93541    1.1666  4.8334  mu
    """
    return Fit(_Peak("maximum_likelihood", log_likelihood, start, args, method, tol))


class Profile(NamedTuple):
    """An interval of a profile likelihood: of `value` = g(estimate), and the parameters at its ends."""

    value: float
    low: float
    high: float
    at_low: Any
    at_high: Any


@api
def profile_likelihood(fit: Fit, g: Callable[[Any], Any], level: float = 0.95) -> Profile:
    """The interval of the number `g(parameters)` within which the profile likelihood is not refuted at this level.

    Of a value t, the profile likelihood is the largest likelihood of parameters with g = t; the ends are where it has fallen
    by half the quantile of chi-square. They are found by Newton's method on all parameters at once, without a search for each
    t (Venzon and Moolgavkar, 1988), from the ends of Wald's interval.

    fit: of `maximum_likelihood`. g: a smooth function to a number, such as `lambda p: p["mu"]`.
    Returns a Profile. Raises RuntimeError where an end is not found: the likelihood may never fall so far.

    >>> import numpy as np
    >>> from funcad import stats
    >>> fit = stats.maximum_likelihood(lambda p: 7 * np.log(p) + 3 * np.log1p(-p), 0.5)
    >>> found = stats.profile_likelihood(fit, lambda p: p)
    >>> round(found.low, 4), round(found.high, 4)
    (0.3935, 0.9154)
    """
    peak, n = fit._peak, fit._peak.vector.size
    drop = 0.5 * _quantile(level) ** 2
    of = lambda v: np.reshape(g(peak.vector.tree(v)), ())
    slope = np.asarray(grad(of)(peak.x))
    direction = peak.covariance() @ slope
    spread = float(slope @ direction)
    if not spread > 0:
        raise ValueError("profile_likelihood: g does not depend on the parameters at the estimate")

    @jit
    def stationary(z: Any, drop: Any) -> Any:
        """Zero where the likelihood has fallen by `drop`, and g is extreme among the parameters with that likelihood."""
        v, multiplier = z[:n], z[n]
        return np.append(grad(of)(v) - multiplier * grad(peak.total)(v), peak.total(v) - peak.value + drop)

    ends = []
    for sign in (-1.0, 1.0):
        step = sign * np.sqrt(2 * drop / spread)
        ends.append(_followed(stationary, peak.x, np.append(step * direction, -1 / step), drop, sign))
    low, high = [float(of(v)) for v in ends]
    return Profile(float(of(peak.x)), low, high, *[peak.vector.tree(v) for v in ends])


def _followed(f: Callable[..., Any], x: np.ndarray, way: np.ndarray, drop: float, sign: float) -> np.ndarray:
    """Where f(z, drop) is zero, from z = (x, 0) + way on; if that does not lead there, by smaller drops, one by one."""
    slopes, reached, step, n = jacobian(f), 0.0, 1.0, len(x)
    found = way
    while reached < 1:
        aim = min(1.0, reached + step)
        ratio = np.sqrt(aim / (reached or 1.0))  # of a parabola: so the way grows, and the multiplier falls
        begin = np.append(x + found[:n] * ratio, found[n] / ratio)
        z = _newton(lambda z: f(z, drop * aim), lambda z: slopes(z, drop * aim), begin)  # noqa: B023 called here
        if z is not None and sign * z[n] < 0:
            found, reached = np.append(z[:n] - x, z[n]), aim
        elif step > SMALLEST_PART:
            step = step / 4
        else:
            raise RuntimeError(
                f"profile_likelihood: the {'upper' if sign > 0 else 'lower'} end was not found; the likelihood may not fall so "
                "far.\nRemedy: a lower level, or parameters in which it is nearer to a parabola (a logarithm, a logit)."
            )
    return x + found[:n]


def _newton(f: Callable[..., Any], slopes: Callable[..., Any], z: np.ndarray) -> np.ndarray | None:
    """A zero of f, or None; a step that makes it no smaller is halved."""
    value = np.asarray(f(z))
    for _ in range(NEWTON_STEPS):
        if np.abs(value).max() <= 1e-10:
            return z
        with np.errstate(all="ignore"):
            try:
                step = np.linalg.solve(np.asarray(slopes(z)), value)
            except np.linalg.LinAlgError:
                return None
            for _ in range(NEWTON_STEPS):
                found = np.asarray(f(z - step))
                if np.linalg.norm(found) < np.linalg.norm(value):  # not of NaN
                    break
                step = 0.5 * step
            else:
                break
        z, value = z - step, found
    return z if np.abs(value).max() <= 1e-6 else None


class LaplaceApproximation:
    """The normal distribution that a log-density has at its mode; see `laplace`."""

    def __init__(self, peak: _Peak):
        self._peak = peak
        self.mode = peak.vector.tree(peak.x)
        self.covariance = peak.covariance()
        self.standard_errors = peak.vector.tree(np.sqrt(np.diag(self.covariance)))
        logdet = np.linalg.slogdet(self.covariance)[1]
        self.log_evidence = peak.value + 0.5 * (peak.vector.size * np.log(2 * np.pi) + float(logdet))

    def sample(self, key: Any, n: int) -> Any:
        """n draws: a pytree like the mode, whose arrays have a new first axis."""
        draws = random.multivariate_normal(key, self._peak.x, self.covariance, (n,))
        leaves = [self._peak.vector.tree(row) for row in draws]
        return tree.map(lambda *rows: np.stack(rows), *leaves)

    def propagate(self, f: Callable[[Any], Any]) -> Propagated:
        """f(mode) with its standard errors, by the delta method."""
        return propagate(f, self.mode, self.covariance)

    def __repr__(self) -> str:
        errors = np.sqrt(np.diag(self.covariance))
        columns = zip([f"{x:.5g}" for x in self._peak.x], [f"{x:.5g}" for x in errors], self._peak.names())
        table = text_table(["mode", "error", "parameter"], [list(row) for row in columns], right=2)
        return f"log-evidence {self.log_evidence:.6g}\n{table}"


@api
def laplace(
    log_density: Callable[..., Any], start: Any, args: tuple = (), *, method: Any = "trust-exact", tol: float | None = None
) -> LaplaceApproximation:
    """Laplace's approximation of a posterior: the normal distribution with its mode and the curvature there.

    log_density: of a pytree of parameters, such as log-prior plus log-likelihood, up to a constant; arrays are summed.
    start, args, method, tol: as of `maximum_likelihood`.

    Returns a LaplaceApproximation: `mode`, `standard_errors`, `covariance`, `log_evidence` (the logarithm of the integral of
    the density, which tells models apart if no constant is left out), `sample(key, n)`, `propagate(f)`. Raises LinAlgError
    where the curvature is not that of a maximum.

    >>> import numpy as np
    >>> from funcad import stats
    >>> found = stats.laplace(lambda x: -0.5 * np.sum((x - 3.0) ** 2) / 4, np.zeros(1))
    >>> found.mode, found.standard_errors, round(found.log_evidence - np.log(2 * np.sqrt(2 * np.pi)), 12)
    (array([3.]), array([2.]), np.float64(0.0))
    """
    return LaplaceApproximation(_Peak("laplace", log_density, start, args, method, tol))

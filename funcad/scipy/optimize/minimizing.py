"""Minimizing, fitting curves, and SciPy's older names for both."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.api.grad import grad, value_and_grad
from funcad.api.jacobian import hessian, hvp, jacfwd
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vjp import vjp
from funcad.configuration import mirrors
from funcad.host.progress import counted
from funcad.host.where import outside
from funcad.ir.aval import shape_of
from funcad.numpy.dispatch import is_traced
from funcad.primitives.conversion import convert
from funcad.primitives.linear_systems import cholesky, triangular_solve
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.optimize.roots import dense_rows, jacobian_claims, number_of, ravelled, root
from funcad.scipy.tree_vectors import Vector

from funcad.scipy.optimize.implicit import (  # isort: skip
    OWN, Claim, Solved, Flat, Handed, Hoisted, bounds_of, constraint_function, given_constraints, host_call, integer, lend,
    multipliers_of, near, projected, result_of, scipy_optimize, settled, unknown, warn_degenerate, warn_failure,
)

# -- least squares: `least_squares` on pytrees and `curve_fit`


_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
    "cauchy": lambda z: np.log1p(z),
    "arctan": lambda z: np.arctan(z),
}
_INT = np.dtype(np.int64)
_FIT_FIELDS = {"success": np.dtype(bool), "status": _INT, "nfev": _INT}


def _cost(residual: Callable[..., Any], loss: str, f_scale: float) -> Callable[[Any], Any]:
    rho = _LOSSES[loss]
    return lambda v: 0.5 * f_scale**2 * np.sum(rho((residual(v) / f_scale) ** 2))


def _ends(bounds: Any, n: int, dtype: Any) -> tuple[Any, Any, bool]:
    """(low, high, whether there are any)."""
    sides = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    low, high = (fnp.broadcast_to(fnp.asarray(s, dtype), (n,)) for s in sides)
    if is_traced((low, high)):
        return low, high, True
    return low, high, bool(np.isfinite(low).any() or np.isfinite(high).any())


def _slope(f: Flat, options: Any, v: Any, low: Any, high: Any, *values: Any) -> Any:
    """What is zero where a sum of squares is least."""
    *of_cost, bounded = options
    slope = grad(_cost(lambda v: f(v, *values), *of_cost))(v)
    return projected(v, slope, (low, high) if bounded else None)


def _fitted(f: Flat, options: Any, v: Any, low: Any, high: Any, *values: Any) -> dict[str, Any]:
    at = lambda v: f(v, *values)
    cost, slope = value_and_grad(_cost(at, *options[:2]))(v)
    return {"x": v, "cost": cost, "fun": at(v), "grad": slope}


@api
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = OWN,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = None,
    loss: str = "linear",
    f_scale: float = 1.0,
    tr_solver: Any = None,
    tr_options: Any = None,
    max_nfev: int | None = None,
    verbose: int = 0,
    args: tuple = (),
    kwargs: Any = None,
) -> Any:
    """Minimize half the sum of squares of `fun(x, *args, **kwargs)` over pytrees x, from x0, as `scipy.optimize.least_squares`.

    A number as x0 is a vector of one element, as in SciPy. `jac` left out is funcad's Jacobian; "2-point" and the like are
    SciPy's differences, and a function is compared with funcad's at x0: a difference warns. `loss` is one of SciPy's names,
    `bounds` two numbers or vectors. The result's `x`, `cost`, `fun` and `grad` are differentiable, in both modes and at any
    order, in `args` and whatever fun closes over (the residuals' curvature counts), not in x0. Traced, a solver that fails
    warns, besides `success`.

    >>> import numpy as np, funcad
    >>> fit = lambda y: funcad.scipy.optimize.least_squares(lambda p: p[0] * np.arange(3.0) - y, np.ones(1)).x[0]
    >>> funcad.grad(fit)(np.array([0.0, 1.0, 2.0])).round(6)
    array([0. , 0.2, 0.4])
    """
    if loss not in _LOSSES:
        raise ValueError(f"`loss` must be one of {sorted(_LOSSES)} for funcad.scipy.optimize.least_squares, got {loss!r}")
    args = args if isinstance(args, tuple) else (args,)
    vector, start = unknown("least_squares: x0", x0, one=True)
    flat = lambda v: ravelled("least_squares", fun(vector.tree(v), *args, **(kwargs or {})), vector)
    residuals = Hoisted(flat, start)
    rows = lambda v: dense_rows(jac(vector.tree(v), *args, **(kwargs or {})))
    claims = jacobian_claims("least_squares", rows if callable(jac) else None, flat, start)
    value, slope = residuals.plain(), residuals.compiled(jacfwd)
    given = Handed(residuals, vector.dtype)
    given_slope = given.slope(jac, rows, start)
    dtype, n, m = vector.dtype, vector.size, len(residuals.values)
    low, high, bounded = _ends(bounds, n, dtype)
    more = {} if x_scale is None else {"x_scale": x_scale}

    def run(x: Any, *values: Any) -> Any:
        *values, low, high = values
        f = lambda v: np.asarray(value(np.asarray(v).astype(dtype), *values[:m]), float)
        j = given_slope(values)
        if j == OWN:
            j = lambda v: np.asarray(slope(np.asarray(v).astype(dtype), *values[:m]), float)
        with counted(f, lambda: "least_squares", note=lambda r: f"cost {0.5 * float(np.dot(r, r)):.6g}") as f:
            return scipy_optimize().least_squares(
                f,
                np.asarray(x, float),
                j,
                (np.asarray(low, float), np.asarray(high, float)),
                method=method,
                ftol=ftol,
                xtol=xtol,
                gtol=gtol,
                loss=loss,
                f_scale=f_scale,
                tr_solver=tr_solver,
                tr_options=tr_options or {},
                max_nfev=max_nfev,
                verbose=verbose,
                **more,
            )

    if given.known(claims, start, low, high):
        found = run(start, *given.values, low, high)
        x = vector.tree(np.asarray(found.x).astype(dtype))
        return result_of(**{**found, "x": x, "grad": vector.tree(np.asarray(found.grad).astype(dtype))})
    vectors = {
        "x": ShapeDtypeStruct((n,), dtype),
        "grad": ShapeDtypeStruct((n,), dtype),
        "cost": dtype,
    }
    fields = {
        **_FIT_FIELDS,
        **vectors,
        "fun": ShapeDtypeStruct(residuals.shapes[0], dtype),
    }

    def host(x: Any, *values: Any) -> tuple[Any, dict]:
        found = run(x, *values)
        if not found.success:
            warn_failure("least_squares", found.message)
        counts = {
            "status": integer(found, "status"),
            "nfev": integer(found, "nfev"),
            "success": np.bool_(found.success),
        }
        known = {name: np.asarray(found[name]).astype(dtype)[()] for name in ("x", "grad", "cost", "fun")}
        return known["x"], {**counts, **known}

    whole = ShapeDtypeStruct((n,), dtype)
    x, aux = host_call(host, (whole, fields), start, [*given.values, low, high], claims)
    equation = Solved(_slope, _fitted, (loss, f_scale, bounded), not bounded)
    lent = settled(residuals.function, equation, x, low, high, *residuals.values)
    lent = {name: lend(aux.pop(name), moving) for name, moving in lent.items()}
    return result_of(**{**lent, "x": vector.tree(lent["x"]), "grad": vector.tree(lent["grad"])}, **aux)


def _whitened(residual: Any, sigma: Any) -> Any:
    if sigma is None:
        return residual
    shape = shape_of(sigma)
    if len(shape) < 2:
        return residual / sigma
    factor = cholesky(fnp.asarray(sigma))
    return triangular_solve(factor, residual[:, None], lower=True)[:, 0]


def _whitened_by(f: Flat, ydata: Any, sigma: Any) -> Flat:
    """The weighted residuals of a model."""
    return lambda p, *values: _whitened(fnp.ravel(f(p, *values) - ydata), sigma)


def _model_slope(f: Flat, options: Any, p: Any, low: Any, high: Any, ydata: Any, sigma: Any, *values: Any) -> Any:
    return _slope(_whitened_by(f, ydata, sigma), options[0], p, low, high, *values)


def _modelled(
    f: Flat, options: Any, p: Any, low: Any, high: Any, ydata: Any, sigma: Any, *values: Any
) -> tuple[Any, Any, Any]:  # fmt: skip
    (*of_cost, _), absolute_sigma = options
    residual = lambda p: _whitened_by(f, ydata, sigma)(p, *values)
    slopes, at = jacfwd(residual)(p), residual(p)
    size, n = shape_of(slopes)
    covariance = np.linalg.inv(fnp.matmul(slopes.T, slopes))
    if not absolute_sigma:
        covariance = covariance * (2 * _cost(residual, *of_cost)(p) / (size - n) if size > n else np.inf)
    return p, covariance, at


def _first_parameters(f: Callable[..., Any], bounds: Any) -> np.ndarray:
    """Where SciPy's curve_fit begins if it is not told."""
    n = len(inspect.signature(f).parameters) - 1
    if n < 1:
        raise ValueError("Unable to determine number of fit parameters.")
    low, high, _ = _ends(bounds, n, float)
    between = 0.5 * (np.where(np.isfinite(low), low, 0.0) + np.where(np.isfinite(high), high, 0.0))
    one_side = np.where(np.isfinite(low), low + 1, np.where(np.isfinite(high), high - 1, 1.0))
    return np.where(np.isfinite(low) & np.isfinite(high), between, one_side)


@api
def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    jac: Any = OWN,
    *,
    full_output: bool = False,
    **kwargs: Any,
) -> tuple[Any, ...]:
    """Fit `f(xdata, *parameters)` to ydata by least squares: `(parameters, their covariance)`, as `scipy.optimize.curve_fit`.

    `p0` is a vector of starting values; further keyword arguments go to SciPy's solver. `jac` left out is funcad's Jacobian,
    None or "2-point" SciPy's differences; a function is compared with funcad's, and a difference warns. Differentiable in the
    data, in sigma and in whatever f closes over; both results. With `full_output` of traced data infodict has fvec and nfev,
    and the message says to look at ier.

    >>> import numpy as np, funcad
    >>> fit = lambda y: funcad.scipy.optimize.curve_fit(lambda x, a: a * x, np.arange(3.0), y)[0][0]
    >>> funcad.grad(fit)(np.array([0.0, 1.0, 2.0])).round(6)
    array([0. , 0.2, 0.4])
    """
    p0 = _first_parameters(f, bounds) if p0 is None else p0
    vector, start = unknown("curve_fit: p0", np.atleast_1d(p0) if not is_traced((p0,)) else p0)
    n, dtype = vector.size, np.dtype(float)
    start = convert(start, dtype)
    ydata, sigma = [v if v is None else fnp.asarray(v) for v in (ydata, sigma)]
    if kwargs.get("nan_policy") == "omit":
        kwargs.pop("nan_policy")
        xdata = fnp.asarray(xdata)
        rows = fnp.isnan(xdata).any(axis=tuple(range(len(shape_of(xdata)) - 1)))
        kept = np.flatnonzero(~(rows | fnp.isnan(ydata)))  # asked at the values
        xdata, ydata = xdata[..., kept], ydata[kept]
        if sigma is not None:
            sigma = sigma[kept] if len(shape_of(sigma)) < 2 else sigma[kept][:, kept]
    predict = lambda p: fnp.asarray(f(xdata, *[p[i] for i in range(n)]), float)
    loss, f_scale = kwargs.get("loss", "linear"), kwargs.get("f_scale", 1.0)
    if loss not in _LOSSES:
        raise ValueError(f"`loss` must be one of {sorted(_LOSSES)} for funcad.scipy.optimize.curve_fit, got {loss!r}")
    low, high, bounded = _ends(bounds, n, dtype)
    model = Hoisted(predict, start)
    rows = lambda p: fnp.asarray(jac(xdata, *[p[i] for i in range(n)]), float)
    claims = jacobian_claims("curve_fit", rows if callable(jac) else None, predict, start)
    value, slope = model.plain(), model.compiled(jacfwd)
    given = Handed(model, dtype)
    given_slope = given.add(jac, rows, start)
    known = [v for v in (ydata, sigma) if v is not None]

    def run(x: Any, *operands: Any) -> Any:
        *operands, low, high = operands
        y, *deviation = operands[: len(known)]
        values = operands[len(known) :]
        own = values[: len(model.values)]
        by_rows = lambda g: lambda _, *p: np.asarray(g(np.asarray(p, float)))
        j = given_slope(values)
        j = by_rows(lambda p: slope(p, *own)) if j == OWN else by_rows(j) if callable(j) else j
        return scipy_optimize().curve_fit(
            by_rows(lambda p: value(p, *own)),
            np.zeros(1),
            y,
            x,
            deviation[0] if deviation else None,
            absolute_sigma,
            check_finite,
            (np.asarray(low), np.asarray(high)),
            method,
            j,
            full_output=True,
            **kwargs,
        )

    if given.known(claims, start, *known, low, high):
        return run(start, *known, *given.values, low, high)[: 5 if full_output else 2]
    size = int(np.prod(np.broadcast_shapes(model.shapes[0], shape_of(ydata))))
    shapes = {"x": (n,), "covariance": (n, n), "fvec": (size,)}
    fields = {k: ShapeDtypeStruct(shape, dtype) for k, shape in shapes.items()} | dict.fromkeys(("nfev", "ier"), _INT)

    def host(x: Any, *operands: Any) -> tuple[Any, dict]:
        x, covariance, info, _, ier = run(x, *operands)
        nfev = np.int64(info["nfev"])
        found = {"x": x, "covariance": covariance, "fvec": np.ravel(info["fvec"])}
        return x, {"nfev": nfev, "ier": np.int64(ier), **{k: np.asarray(v, float) for k, v in found.items()}}

    whole = ShapeDtypeStruct((n,), dtype)
    x, aux = host_call(host, (whole, fields), start, [*known, *given.values, low, high], claims)
    equation = Solved(_model_slope, _modelled, ((loss, f_scale, bounded), absolute_sigma), not bounded)
    x, covariance, at = settled(model.function, equation, x, low, high, ydata, sigma, *model.values)
    parameters, covariance = lend(aux["x"], x), lend(aux["covariance"], covariance)
    infodict = {"fvec": lend(aux["fvec"], at), "nfev": aux["nfev"]}
    whole = parameters, covariance, infodict, "success is ier in (1, 2, 3, 4)", aux["ier"]
    return whole if full_output else whole[:2]


mirrors([curve_fit, least_squares], "scipy.optimize")


# -- `minimize`: SciPy's solvers fed with funcad's gradients and Hessian-vector products


_WITH_GRADIENT = {
    *["cg", "bfgs", "newton-cg", "l-bfgs-b", "tnc", "slsqp"],
    *["dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"],
}
_WITH_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
_WITH_HESSIAN = {"dogleg", "trust-exact"}
_FIELDS = {
    "success": np.dtype(bool),
    **dict.fromkeys(["status", "nit", "nfev", "njev"], np.dtype(np.int64)),
}


def _scalar(value: Any) -> Any:
    """The one number that an objective gives, in an array or not."""
    shape = shape_of(value)
    if math.prod(shape) != 1:
        raise ValueError("The user-provided objective function must return a scalar value.")
    return reshape(value, shape=()) if shape else value


def _callback(callback: Any, vector: Vector) -> Any:
    """The user's callback, called with pytrees."""
    if callback is None:
        return None
    try:
        names = set(inspect.signature(callback).parameters)
    except (TypeError, ValueError):
        names = set()
    if names == {"intermediate_result"}:

        def with_result(intermediate_result: Any) -> Any:
            x = vector.tree(intermediate_result.x.astype(vector.dtype))
            return callback(intermediate_result=result_of(**{**intermediate_result, "x": x}))

        return with_result
    return lambda x, *rest: callback(vector.tree(np.asarray(x, vector.dtype)), *rest)


def _always(given: Any, values: Any) -> Any:
    return given


def _solver(method: Any) -> str:
    return (method if isinstance(method, str) else "").lower()


_product = lambda f: lambda v, p, *values: hvp(lambda u: f(u, *values), (v,), (p,))


class _Run:
    """One call of SciPy's minimize on NumPy arrays: everything but the starting point, the bounds and the traced values."""

    def __init__(self, vector: Vector, fun: Hoisted, limits: Hoisted | None, method: Any, options: dict[str, Any]):
        self.vector, self.limits, self.options = vector, limits, options
        self.method = method
        self.name = _solver(method)
        self.n_values = len(fun.values)
        self.value = fun.plain()
        self.both = fun.compiled(value_and_grad)
        self.products = fun.compiled(_product)
        self.hessian = fun.compiled(hessian)
        if limits is not None:
            self.limit_values, self.limit_slopes = limits.compiled(), limits.compiled(jacfwd)

    def __call__(self, x0: Any, bounds: Any, values: Any) -> Any:
        dtype = self.vector.dtype
        own = values[: self.n_values]
        narrow = lambda v: np.asarray(v).astype(dtype)
        wide = lambda v: np.asarray(v, float)
        options = {k: given(values) for k, given in self.options.items()}
        fun = lambda v: float(self.value(narrow(v), *own))
        if options["jac"] == OWN:
            x0, options["jac"] = wide(x0), None
            if not self.name or self.name in _WITH_GRADIENT:

                def fun(v: Any) -> Any:
                    f, g = self.both(narrow(v), *own)
                    return float(f), wide(g)

                options["jac"] = True
        left_out = [k for k in ("hess", "hessp") if options[k] == OWN]
        alone = left_out and all([options[k] in (OWN, None) for k in ("hess", "hessp")])
        if alone and self.name in _WITH_PRODUCTS:
            options["hessp"] = lambda v, p: wide(self.products(narrow(v), narrow(p), *own))
        if alone and self.name in _WITH_HESSIAN:
            options["hess"] = lambda v: wide(self.hessian(narrow(v), *own))
        options |= {k: None for k in ("hess", "hessp") if options[k] == OWN}
        if bounds is not None:
            keep = options.pop("keep_feasible")
            options["bounds"] = scipy_optimize().Bounds(wide(bounds[0]), wide(bounds[1]), keep)
        note = lambda result: f"value {result[0] if type(result) is tuple else result:.6g}"
        with counted(fun, lambda: "minimize", note=note) as fun:
            x0 = np.asarray(x0)
            return scipy_optimize().minimize(fun, x0, method=self.method, **options)

    def gradient(self, x: Any, values: Any) -> Any:
        return self.both(x, *values[: self.n_values])[1]

    def look_at_ends(self, x: Any, bounds: Any, values: Any) -> None:
        """Warn of a minimum at a bound that does not hold it there: the gradient is 0."""
        if bounds is not None and self.limits is None:
            low, high = bounds
            at_end = ((x == low) | (x == high)) & (low != high)
            gradient = self.gradient(x, values)
            if (at_end & (np.abs(gradient) <= 1e-9)).any():
                warn_degenerate("minimize", "it is at a bound, and would be there without it")

    def multipliers(self, x: Any, bounds: Any, values: Any) -> np.ndarray:
        limit_values = values[len(values) - len(self.limits.values) :]  # type: ignore[union-attr]
        gradient = self.gradient(x, values)
        slopes, reached = self.limit_slopes(x, *limit_values), self.limit_values(x, *limit_values)
        found = multipliers_of(x, gradient, reached, slopes, bounds)
        loose = (np.abs(reached[1]) <= 1e-7) & (found[1] <= 1e-7 * (1 + np.abs(gradient).max(initial=0)))
        if loose.any():
            warn_degenerate("minimize", "a constraint holds with equality, and the minimum would be there without it")
        return np.concatenate(found).astype(self.vector.dtype)


@api
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple = (),
    method: Any = None,
    jac: Any = OWN,
    hess: Any = OWN,
    hessp: Any = OWN,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Any = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Minimize the scalar `fun(x, *args)` over pytrees x, from x0, by SciPy's solvers; an OptimizeResult, its x like x0.

    `jac`, `hess` and `hessp` left out are funcad's; None is what it means for SciPy: differences, or none. Functions (`jac`
    True: fun returns the gradient beside the value) are compared with funcad's at x0, and a difference warns. The result's
    `x`, `fun` and `jac` are differentiable, in both modes and at any order, in `args` and in whatever `fun`, the bounds and
    the constraints close over, by the implicit function theorem: within `bounds`, x stays at those that are active; with
    `constraints`, by the equations of Karush, Kuhn and Tucker (LinAlgError if these are singular). They do not depend on x0.
    The derivative is that of the minimum beside the point which SciPy found, if there is one within a tenth of its size.
    Traced, a solver that fails warns, besides `success`, and what SciPy returns only for the record (message, hess_inv ...) is
    left out; under vmap the solver runs once per lane. A list of plain numbers as x0 is an array and a number a vector of one
    element, as in SciPy.

    >>> import numpy as np, funcad
    >>> def distance(x, a):
    ...     return np.sum((x - a) ** 2) + np.sum(x**4)
    >>> best = lambda a: funcad.scipy.optimize.minimize(distance, np.zeros(1), (a,), tol=1e-10).x[0]
    >>> round(float(funcad.grad(best)(6.0)), 6)
    0.086469
    """
    args = args if isinstance(args, tuple) else (args,)
    if jac is True:  # SciPy's meaning: fun returns both
        fun, jac = (lambda x, *a, both=fun: both(x, *a)[0]), (lambda x, *a, both=fun: both(x, *a)[1])
    vector, start = unknown("minimize: x0", x0, one=True)
    if vector.dtype.kind == "c":
        raise TypeError("minimize: x0 must be real; minimize over the real and imaginary parts of complex unknowns")
    limits_given = constraints is not None and not (isinstance(constraints, (list, tuple)) and not constraints)
    value = lambda v: _scalar(fun(vector.tree(v), *args))
    objective = Hoisted(value, start)
    ones = np.ones(vector.size, vector.dtype)
    own = lambda g, rest: lambda v: ravelled("minimize", g(vector.tree(v), *rest, *args), vector)
    claims = [
        Claim(f"minimize: {name}", own(given, rest), ours, start)
        for name, given, rest, ours in (
            ("jac", jac, (), grad(value)),
            ("hess", hess, (), lambda v: reshape(hessian(value)(v), shape=(vector.size**2,))),
            ("hessp", hessp, (vector.tree(ones),), lambda v: hvp(value, (v,), (ones,))),
        )
        if callable(given)
    ]  # fmt: skip
    limits = Hoisted(constraint_function(constraints, vector), start) if limits_given else None
    sides = bounds_of(bounds, vector)
    given = Handed(objective, vector.dtype)
    as_is = {"tol": tol, "callback": _callback(callback, vector), "options": options}
    handed: dict[str, Callable[[Any], Any]] = {k: partial(_always, v) for k, v in as_is.items()}
    handed["jac"] = given.slope(jac, own(jac, ()), start)
    bend = lambda v: fnp.asarray(dense_rows(hess(vector.tree(v), *args)))
    product = lambda v, p: hessp(vector.tree(v), vector.tree(p), *args)
    along = lambda v, p: ravelled("minimize", product(v, p), vector)
    handed["hess"] = given.derivative(hess, bend, start)
    handed["hessp"] = given.derivative(hessp, along, start, start)
    if limits_given:
        left_out = jac == OWN, jac == OWN and _solver(method) == "trust-constr"
        handed["constraints"] = given_constraints(constraints, vector, given, start, left_out)
    if sides is not None:
        handed["keep_feasible"] = partial(_always, getattr(bounds, "keep_feasible", False))
    run = _Run(vector, objective, limits, method, handed)
    values = [*given.values, *(limits.values if limits else [])]
    if given.known(claims, start, *values, *(sides or ())):
        return _concrete(vector, run(start, sides, values))
    objective.check_callback("minimize", callback, start, *values, *(sides or ()))
    return _traced(vector, objective, limits, sides, start, run, values, claims)


def _concrete(vector: Vector, result: Any) -> Any:
    fields = dict(result)
    fields["x"] = vector.tree(np.asarray(result.x).astype(vector.dtype))
    if "jac" in fields and np.shape(fields["jac"]) == (vector.size,):
        fields["jac"] = vector.tree(np.asarray(result.jac).astype(vector.dtype))
    return result_of(**fields)


def _optimality(f: Flat, options: Any, z: Any, *operands: Any) -> Any:
    """What is zero at a minimum, of the vector and the multipliers behind it."""
    n_sides, n_values, limits, n, shapes = options
    sides, values = operands[:n_sides] or None, operands[n_sides : n_sides + n_values]
    v = z[:n]
    slope = grad(f)(v, *values)
    if limits is None:
        return projected(v, slope, sides)
    equal, unequal = z[n : n + shapes[0]], z[n + shapes[0] :]
    c, pull = vjp(lambda v: limits(v, *operands[n_sides + n_values :]), v)
    (pressed,) = pull((equal, unequal))
    inactive = c[1] > unequal
    return concatenate([projected(v, slope - pressed, sides), c[0], np.where(inactive, unequal, c[1])], axis=0)


def _minimum(f: Flat, options: Any, z: Any, *operands: Any) -> tuple[Any, Any, Any]:
    n_sides, n_values, _, n, _ = options
    return z[:n], *value_and_grad(f)(z[:n], *operands[n_sides : n_sides + n_values])


def _traced(
    vector: Vector, objective: Hoisted, limits: Hoisted | None, sides: Any, start: Any, run: _Run, values: list[Any],
    claims: list[Claim],
) -> Any:  # fmt: skip
    n, dtype = vector.size, vector.dtype
    shapes = [n for (n,) in limits.shapes] if limits else []
    guess = start if limits is None else concatenate([start, np.zeros(sum(shapes), dtype)], axis=0)
    options = len(sides or ()), len(objective.values), limits and limits.function, n, tuple(shapes)
    equation = Solved(_optimality, _minimum, options, sides is None and limits is None)
    own = [*(sides or ()), *objective.values, *(limits.values if limits else ())]
    n_sides = 0 if sides is None else 2
    n_operands = n_sides + len(values)
    small = 100 * float(np.sqrt(np.finfo(np.zeros(0, dtype).dtype).eps))
    gradient_name = "grad" if run.name == "trust-constr" else "jac"

    def host(z0: Any, *operands: Any) -> tuple[Any, dict]:
        bounds, inner = operands[:n_sides] or None, operands[n_sides:n_operands]
        found = run(np.asarray(z0)[:n], bounds, inner)
        x = np.asarray(found.x).astype(dtype)
        run.look_at_ends(x, bounds, inner)
        z = x if limits is None else np.concatenate([x, run.multipliers(x, bounds, inner)])
        value = np.asarray(found.fun).astype(dtype).reshape(())[()]
        left = 0.0 if found.success else near(objective.function, equation, z, *operands[n_operands:])[1]
        if not left <= small * (1 + abs(value)):
            warn_failure("minimize", found.message)
        gradient = np.asarray(found.get(gradient_name, ()))
        gradient = gradient if gradient.shape == (n,) else run.gradient(x, inner)
        counts = {k: np.asarray(integer(found, k)).astype(d)[()] for k, d in _FIELDS.items()}
        return z, {"x": x, "fun": value, "gradient": gradient.astype(dtype), **counts}

    whole = ShapeDtypeStruct((n,), dtype)
    fields = {**_FIELDS, "x": whole, "fun": dtype, "gradient": whole}
    operands = [*(sides or ()), *values, *own]
    z, aux = host_call(host, (ShapeDtypeStruct(shape_of(guess), dtype), fields), guess, operands, claims)
    x, value, gradient = settled(objective.function, equation, z, *own)
    x, fun = lend(aux.pop("x"), x), lend(aux.pop("fun"), convert(value, dtype))
    gradient = lend(aux.pop("gradient"), convert(gradient, dtype))
    return result_of(x=vector.tree(x), fun=fun, **{gradient_name: vector.tree(gradient)}, **aux)


mirrors([minimize], "scipy.optimize")


# -- `fsolve` and `leastsq`, with SciPy's signatures over `root` and `least_squares`, and `minimize_scalar`


@api
def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: bool = False,
    col_deriv: bool = False,
    xtol: float = 1.49012e-8,
    maxfev: int = 0,
    band: Any = None,
    epsfcn: float | None = None,
    factor: float = 100,
    diag: Any = None,
) -> Any:
    """`scipy.optimize.fsolve`: the x with `func(x, *args) = 0`, differentiable in args and what func closes over.

    With traced values `fprime` is compared with funcad's Jacobian at x0, of infodict there are fvec and nfev, and the message
    says to look at ier.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.optimize.fsolve(lambda x: x * x - a, 1.0)[0]
    >>> round(float(funcad.grad(f)(4.0)), 6)
    0.25
    """
    options = {"xtol": xtol, "maxfev": maxfev, "band": band, "eps": epsfcn, "factor": factor, "diag": diag}
    found = root(func, np.ravel(x0), args, "hybr", _by_rows(fprime, col_deriv), options=options)
    plain = "message" in found
    if not full_output:
        if plain and found.status != 1:
            warnings.warn(found.message, RuntimeWarning, stacklevel=outside(2))
        return found.x
    known = ("nfev", "njev", "fjac", "r", "qtf") if plain else ("nfev",)
    infodict = {k: found[k] for k in known if k in found}
    return found.x, {**infodict, "fvec": found.fun}, found.status, found.get("message", "success is ier == 1")


def _by_rows(slope: Any, col_deriv: bool) -> Any:
    """The user's Jacobian with one row for each equation."""
    return (lambda x, *args: fnp.asarray(slope(x, *args)).T) if slope is not None and col_deriv else slope


@api
def leastsq(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    Dfun: Any = None,
    full_output: bool = False,
    col_deriv: bool = False,
    ftol: float = 1.49012e-8,
    xtol: float = 1.49012e-8,
    gtol: float = 0.0,
    maxfev: int = 0,
    epsfcn: float | None = None,
    factor: float = 100,
    diag: Any = None,
) -> Any:
    """`scipy.optimize.leastsq`: (x, ier), and with full_output (x, cov_x, infodict, mesg, ier); x and cov_x differentiable.

    With traced values `Dfun` is compared with funcad's Jacobian at x0, of infodict there are fvec and nfev, and the message
    says to look at ier.

    >>> import numpy as np, funcad
    >>> f = lambda y: funcad.scipy.optimize.leastsq(lambda p: p[0] * np.arange(3.0) - y, np.ones(1))[0][0]
    >>> funcad.grad(f)(np.array([0.0, 1.0, 2.0])).round(6)
    array([0. , 0.2, 0.4])
    """
    args = args if isinstance(args, tuple) else (args,)
    vector, start = unknown("leastsq: x0", np.ravel(x0))
    start, dtype, n = convert(start, np.dtype(float)), np.dtype(float), vector.size
    flat = lambda p: fnp.asarray(fnp.ravel(fnp.asarray(func(p, *args))), float)
    residuals = Hoisted(flat, start)
    rows = lambda p: fnp.asarray(_by_rows(Dfun, col_deriv)(p, *args), float)
    claims = jacobian_claims("leastsq", rows if callable(Dfun) else None, flat, start)
    value, given = residuals.plain(), Handed(residuals, dtype)
    given_slope = given.add(Dfun, rows, start)

    def run(x: Any, *values: Any) -> Any:
        f = lambda p: np.asarray(value(np.asarray(p, float), *values[: len(residuals.values)]))
        return scipy_optimize().leastsq(
            f, x, (), given_slope(values), True, False, ftol, xtol, gtol, maxfev, epsfcn, factor, diag
        )

    if given.known(claims, start):
        found = run(start, *given.values)
        return found if full_output else (found[0], found[4])
    shapes = {"x": (n,), "covariance": (n, n), "fvec": residuals.shapes[0]}
    fields = {k: ShapeDtypeStruct(shape, dtype) for k, shape in shapes.items()} | dict.fromkeys(("nfev", "ier"), _INT)

    def host(x: Any, *values: Any) -> tuple[Any, dict]:
        x, covariance, info, message, ier = run(x, *values)
        if ier not in (1, 2, 3, 4):
            warn_failure("leastsq", message)
        covariance = np.full((n, n), np.nan) if covariance is None else covariance
        counts = {"nfev": np.int64(info["nfev"]), "ier": np.int64(ier)}
        return x, {"x": x, "covariance": covariance, "fvec": info["fvec"], **counts}

    x, aux = host_call(host, (ShapeDtypeStruct((n,), dtype), fields), start, given.values, claims)
    equation = Solved(_model_slope, _modelled, (("linear", 1.0, False), True), True)
    x, covariance, at = settled(residuals.function, equation, x, None, None, 0.0, None, *residuals.values)
    if not full_output:
        return lend(aux["x"], x), aux["ier"]
    covariance, infodict = lend(aux["covariance"], covariance), {"fvec": lend(aux["fvec"], at), "nfev": aux["nfev"]}
    return lend(aux["x"], x), covariance, infodict, "success is ier in (1, 2, 3, 4)", aux["ier"]


def _scalar_slope(f: Flat, n_sides: int, v: Any, *operands: Any) -> Any:
    slope = grad(f)(v[0], *operands[n_sides:])
    return reshape(projected(v[0], slope, operands[:n_sides] or None), shape=(1,))


_scalar_minimum = lambda f, n, v, *operands: (v[0], convert(f(v[0], *operands[n:]), np.dtype(float)))


@api
def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    options: Any = None,
) -> Any:
    """`scipy.optimize.minimize_scalar`: x and fun of the result are differentiable in args, bounds and what fun closes over.

    Brent's and the golden section's x is good to about 8 digits; its derivative is that of the minimum beside it. Traced, the
    result holds x, fun, success, nit and nfev. At a bound x moves with the bound.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.optimize.minimize_scalar(lambda x: (x - a) ** 2 + x**4).x
    >>> round(float(funcad.grad(f)(6.0)), 4)
    0.0865
    """
    args = args if isinstance(args, tuple) else (args,)
    objective = Hoisted(lambda x: number_of("minimize_scalar", fun(x, *args), np.dtype(float)), np.float64(1))
    sides = None if bounds is None else [fnp.asarray(b, float) for b in bounds]
    value = objective.plain()

    def run(values: Any, sides: Any) -> Any:
        return scipy_optimize().minimize_scalar(
            lambda x: float(value(np.float64(x), *values)),
            bracket,
            None if sides is None else tuple([float(s) for s in sides]),
            (),
            method,
            tol,
            options,
        )

    start = np.zeros(1)
    if Handed(objective, start.dtype).known((), start, *(sides or ())):
        return run(objective.values, sides)
    n = 0 if sides is None else 2

    def host(_: Any, *operands: Any) -> tuple[Any, dict]:
        found = run(operands[n:], operands[:n] or None)
        if not found.success:
            warn_failure("minimize_scalar", found.message)
        counts = {"success": np.bool_(found.success), "nit": integer(found, "nit"), "nfev": integer(found, "nfev")}
        return np.asarray([found.x], float), {"x": np.float64(found.x), "fun": np.float64(found.fun), **counts}

    fields = {
        "x": np.dtype(float),
        "fun": np.dtype(float),
        "success": np.dtype(bool),
        "nit": _INT,
        "nfev": _INT,
    }
    operands = [*(sides or ()), *objective.values]
    x, aux = host_call(host, (ShapeDtypeStruct((1,), start.dtype), fields), start, operands, ())
    x, least = settled(objective.function, Solved(_scalar_slope, _scalar_minimum, n, True), x, *operands)
    x, fun = lend(aux.pop("x"), x), lend(aux.pop("fun"), least)
    return result_of(x=x, fun=fun, **aux)


mirrors([fsolve, leastsq, minimize_scalar], "scipy.optimize")

"""Minimizing, fitting curves, and SciPy's older names for both."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import api
from funcad.api.grad import grad, value_and_grad
from funcad.api.jacobian import hessian, hvp, jacfwd
from funcad.api.vjp import vjp
from funcad.api.vmap import vmap
from funcad.configuration import mirrors
from funcad.host.progress import counted
from funcad.ir.aval import shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import is_traced
from funcad.primitives.conversion import convert
from funcad.primitives.linear_systems import cholesky, triangular_solve
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.optimize.roots import jacobian_claims, number_of, ravelled, root
from funcad.scipy.tree_vectors import Vector

from funcad.scipy.optimize.implicit import (  # isort: skip
    Claim, Hoisted, bounds_of, check_claims, constraint_function, implicit_root, integer, is_abstract, multipliers_of,
    projected, result_of, scipy_optimize, unknown, warn_degenerate, warn_failure,
)

# -- least squares: `least_squares` on pytrees and `curve_fit`


_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
    "cauchy": lambda z: np.log1p(z),
    "arctan": lambda z: np.arctan(z),
}
_FIT_FIELDS = {"success": np.dtype(bool), "status": np.dtype(np.int64), "nfev": np.dtype(np.int64)}


@api
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
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

    A number as x0 is a vector of one element, as in SciPy. The Jacobian is funcad's; a function as `jac` is compared with it
    at x0, and a difference warns. `loss` is one of SciPy's names, `bounds` two numbers or vectors. The result's `x`, `cost`,
    `fun` and `grad` are differentiable, in both modes and at any order, in `args` and whatever fun closes over (the residuals'
    curvature counts), not in x0. Traced, a solver that fails warns, besides `success`.

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
    given = (lambda x: jac(x, *args, **(kwargs or {}))) if callable(jac) else None
    claims = jacobian_claims("least_squares", given, flat, vector, start)
    value, slope = residuals.compiled(), residuals.compiled(jacfwd)
    dtype, n = vector.dtype, vector.size
    sides = bounds if not hasattr(bounds, "lb") else (bounds.lb, bounds.ub)
    low, high = (np.broadcast_to(np.asarray(s, dtype), (n,)) for s in sides)
    bounded = bool(np.isfinite(low).any() or np.isfinite(high).any())
    more = {} if x_scale is None else {"x_scale": x_scale}

    def run(x: Any, *values: Any) -> Any:
        f, j = (lambda v, g=g: np.asarray(g(np.asarray(v).astype(dtype), *values), float) for g in (value, slope))
        with counted(f, lambda: "least_squares", note=lambda r: f"cost {0.5 * float(np.dot(r, r)):.6g}") as f:
            return scipy_optimize().least_squares(
                f, np.asarray(x, float), j, (low.astype(float), high.astype(float)), method=method, ftol=ftol, xtol=xtol,
                gtol=gtol, loss=loss, f_scale=f_scale, tr_solver=tr_solver, tr_options=tr_options or {}, max_nfev=max_nfev,
                verbose=verbose, **more,
            )  # fmt: skip

    if not is_abstract(start, *residuals.values):
        check_claims(claims, start)
        found = run(start)
        x = vector.tree(np.asarray(found.x).astype(dtype))
        return result_of(**{**found, "x": x, "grad": vector.tree(np.asarray(found.grad).astype(dtype))})
    if residuals.error is not None:
        raise residuals.error

    def host(x: Any, *values: Any) -> tuple[Any, dict]:
        found = run(x, *values)
        if not found.success:
            warn_failure("least_squares", found.message)
        counts = {"status": integer(found, "status"), "nfev": integer(found, "nfev")}
        return np.asarray(found.x).astype(dtype), {"success": np.bool_(found.success), **counts}

    f = lambda v: residuals.function(v, *residuals.values)
    rho = _LOSSES[loss]
    cost = lambda v: 0.5 * f_scale**2 * np.sum(rho((f(v) / f_scale) ** 2))
    gradient = grad(cost)
    active = (low, high) if bounded else None
    equation = lambda v: projected(v, gradient(v), active)
    x, counts = implicit_root(equation, start, host, residuals.values, _FIT_FIELDS, not bounded, claims)
    return result_of(x=vector.tree(x), cost=cost(x), fun=f(x), grad=vector.tree(gradient(x)), **counts)


def _whitened(residual: Any, sigma: Any) -> Any:
    if sigma is None:
        return residual
    shape = shape_of(sigma)
    if len(shape) < 2:
        return residual / sigma
    factor = cholesky(fnp.asarray(sigma))
    return triangular_solve(factor, residual[:, None], lower=True)[:, 0]


@api
def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Fit `f(xdata, *parameters)` to ydata by least squares: `(parameters, their covariance)`, as `scipy.optimize.curve_fit`.

    `p0` is a vector of starting values (ones if left out, one per argument of f); further keyword arguments go to
    `least_squares`. Its own `jac` is compared with funcad's Jacobian. Differentiable in the data, in sigma and
    in whatever f closes over; both results.

    >>> import numpy as np, funcad
    >>> fit = lambda y: funcad.scipy.optimize.curve_fit(lambda x, a: a * x, np.arange(3.0), y)[0][0]
    >>> funcad.grad(fit)(np.array([0.0, 1.0, 2.0])).round(6)
    array([0. , 0.2, 0.4])
    """
    kwargs.pop("check_finite", None)  # traced data have no values to be looked at
    if p0 is None:
        count = len(inspect.signature(f).parameters) - 1
        if count < 1:
            raise ValueError("Unable to determine number of fit parameters.")
        p0 = np.ones(count)
    p0 = np.atleast_1d(p0) if not is_traced((p0,)) else p0
    n = shape_of(p0)[0]
    predict = lambda p: f(xdata, *[p[i] for i in range(n)])
    residual = lambda p: _whitened(fnp.ravel(predict(p) - ydata), sigma)
    bounded = any(np.isfinite(b).any() for b in ((bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds))
    method = method or ("trf" if bounded else "lm")
    if callable(kwargs.get("jac")):
        rows = kwargs["jac"]
        columns = vmap(lambda column: _whitened(column, sigma), in_axes=1, out_axes=1)
        kwargs["jac"] = lambda p: columns(fnp.asarray(rows(xdata, *[p[i] for i in range(n)])))
    if method == "lm" and "maxfev" in kwargs:
        kwargs["max_nfev"] = kwargs.pop("maxfev")
    found = least_squares(residual, p0, bounds=bounds, method=method, **kwargs)
    if not is_abstract(found.success) and not found.success:
        raise RuntimeError(f"Optimal parameters not found: {found.get('message', 'the solver did not converge')}")
    jacobian = jacfwd(residual)(found.x)
    size = shape_of(found.fun)[0]
    covariance = np.linalg.inv(fnp.matmul(jacobian.T, jacobian))
    if not absolute_sigma:
        covariance = covariance * (2 * found.cost / (size - n) if size > n else np.inf)
    return found.x, covariance


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
    return reshape(value, shape=()) if shape_of(value) == (1,) else value


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


def _bend(i: int) -> Callable[..., Any]:
    """The Hessian of multipliers times the equalities (0) or the inequalities (1)."""
    return lambda f: lambda v, m, *values: hessian(lambda u: np.sum(m * f(u, *values)[i]))(v)


class _Run:
    """One call of SciPy's minimize on NumPy arrays: everything but the starting point, the bounds and the traced values."""

    def __init__(self, vector: Vector, fun: Hoisted, limits: Hoisted | None, method: Any, options: dict[str, Any]):
        self.vector, self.limits, self.options = vector, limits, options
        self.method = method
        self.name = name = (method if isinstance(method, str) else "").lower()
        self.n_values = len(fun.values)
        self.by_gradient = not name or name in _WITH_GRADIENT
        self.value = fun.compiled()
        self.both = fun.compiled(value_and_grad)
        self.products = fun.compiled(lambda f: lambda v, p, *values: hvp(lambda u: f(u, *values), (v,), (p,)))
        self.hessian = fun.compiled(hessian)
        if limits is not None:
            self.limit_values = limits.compiled()
            self.limit_slopes = limits.compiled(jacfwd)
            self.limit_bends = [limits.compiled(_bend(i)) for i in (0, 1)]

    def __call__(self, x0: Any, bounds: Any, values: Any) -> Any:
        dtype = self.vector.dtype
        own, limit_values = values[: self.n_values], values[self.n_values :]
        narrow = lambda v: np.asarray(v).astype(dtype)
        wide = lambda v: np.asarray(v, float)
        options: dict[str, Any] = dict(self.options)
        if self.by_gradient:

            def fun(v: Any) -> Any:
                f, g = self.both(narrow(v), *own)
                return float(f), wide(g)

            options["jac"] = True
        else:
            fun = lambda v: float(self.value(narrow(v), *own))
        if self.name in _WITH_PRODUCTS:
            options["hessp"] = lambda v, p: wide(self.products(narrow(v), narrow(p), *own))
        if self.name in _WITH_HESSIAN:
            options["hess"] = lambda v: wide(self.hessian(narrow(v), *own))
        if bounds is not None:
            options["bounds"] = scipy_optimize().Bounds(wide(bounds[0]), wide(bounds[1]))
        if self.limits is not None:
            options["constraints"] = [
                self._constraint(i, narrow, wide, limit_values)
                for i in (0, 1)
                if len(self.limit_values(narrow(x0), *limit_values)[i])
            ]
        note = lambda result: f"value {result[0] if type(result) is tuple else result:.6g}"
        with counted(fun, lambda: "minimize", note=note) as fun:
            return scipy_optimize().minimize(fun, wide(x0), method=self.method, **options)

    def _constraint(self, i: int, narrow: Any, wide: Any, values: Any) -> Any:
        """All equalities (0) or all inequalities (1), as SciPy takes them."""
        fun = lambda v: wide(self.limit_values(narrow(v), *values)[i])
        jac = lambda v: wide(self.limit_slopes(narrow(v), *values)[i])
        if self.name != "trust-constr":
            return {"type": ("eq", "ineq")[i], "fun": fun, "jac": jac}
        bend = lambda v, m: wide(self.limit_bends[i](narrow(v), narrow(m), *values))
        return scipy_optimize().NonlinearConstraint(fun, 0.0, (0.0, np.inf)[i], jac=jac, hess=bend)

    def is_minimum(self, found: Any, bounds: Any, values: Any) -> bool:
        """Is the gradient as small as rounding lets it be, although the solver asked for more?"""
        if self.limits is not None:
            return False
        x = np.asarray(found.x).astype(self.vector.dtype)
        f, gradient = self.both(x, *values[: self.n_values])
        small = np.finfo(x.dtype).eps ** 0.5 * (1 + abs(float(f)))
        return bool(np.all(np.abs(projected(x, gradient, bounds)) <= 100 * small))

    def look_at_ends(self, x: Any, bounds: Any, values: Any) -> None:
        """Warn of a minimum at a bound that does not hold it there: the gradient is 0."""
        if bounds is not None and self.limits is None:
            low, high = bounds
            at_end = ((x == low) | (x == high)) & (low != high)
            gradient = self.both(x, *values[: self.n_values])[1]
            if (at_end & (np.abs(gradient) <= 1e-9)).any():
                warn_degenerate("minimize", "it is at a bound, and would be there without it")

    def multipliers(self, x: Any, bounds: Any, values: Any) -> np.ndarray:
        own, limit_values = values[: self.n_values], values[self.n_values :]
        gradient = self.both(x, *own)[1]
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
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Any = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Minimize the scalar `fun(x, *args)` over pytrees x, from x0, by SciPy's solvers; an OptimizeResult, its x like x0.

    Gradients, Hessians and their products are funcad's. `jac` (a function, or True if fun returns the gradient beside the
    value), `hess` and `hessp` may be given: they are compared with funcad's at x0, and a difference warns. The result's
    `x`, `fun` and `jac` are differentiable, in both modes and at any order, in `args` and in whatever `fun`, the bounds and
    the constraints close over, by the implicit function theorem: within `bounds`, x stays at those that are active; with
    `constraints`, by the equations of Karush, Kuhn and Tucker (LinAlgError if these are singular). They do not depend on x0.
    The derivative is as accurate as the solution: set `tol`. Traced, a solver that fails warns, besides `success`, and what
    SciPy returns only for the record (message, hess_inv ...) is left out; under vmap the solver runs once per lane. A list of
    plain numbers as x0 is an array and a number a vector of one element, as in SciPy.

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
    run = _Run(vector, objective, limits, method, {"tol": tol, "callback": _callback(callback, vector), "options": options})
    values = [*objective.values, *(limits.values if limits else [])]
    if not is_abstract(start, *values, *(sides or ())):
        check_claims(claims, start)
        return _concrete(vector, run(start, sides, values))
    for hoisted in (objective, limits):
        if hoisted is not None and hoisted.error is not None:
            raise hoisted.error
    objective.check_callback("minimize", callback, start, *values, *(sides or ()))
    return _traced(vector, objective, limits, sides, start, run, values, claims)


def _concrete(vector: Vector, result: Any) -> Any:
    fields = dict(result)
    fields["x"] = vector.tree(np.asarray(result.x).astype(vector.dtype))
    if "jac" in fields and np.shape(fields["jac"]) == (vector.size,):
        fields["jac"] = vector.tree(np.asarray(result.jac).astype(vector.dtype))
    return result_of(**fields)


def _traced(
    vector: Vector, objective: Hoisted, limits: Hoisted | None, sides: Any, start: Any, run: _Run, values: list[Any],
    claims: list[Claim],
) -> Any:  # fmt: skip
    n = vector.size
    f = lambda v: objective.function(v, *objective.values)
    g = (lambda v: limits.function(v, *limits.values)) if limits is not None else None
    slope = grad(f)

    def host(z0: Any, *operands: Any) -> tuple[Any, dict]:
        bounds, inner = (operands[:2], operands[2:]) if sides is not None else (None, operands)
        found = run(np.asarray(z0)[:n], bounds, inner)
        if not found.success and not run.is_minimum(found, bounds, inner):
            warn_failure("minimize", found.message)
        x = np.asarray(found.x).astype(vector.dtype)
        run.look_at_ends(x, bounds, inner)
        z = x if limits is None else np.concatenate([x, run.multipliers(x, bounds, inner)])
        return z, {k: np.asarray(integer(found, k)).astype(d)[()] for k, d in _FIELDS.items()}

    if g is None:
        residual = lambda v: projected(v, slope(v), sides)
        guess = start
    else:
        shapes = [shape_of(c)[0] for c in g(start)]
        guess = concatenate([start, np.zeros(sum(shapes), vector.dtype)], axis=0)

        def residual(z: Any) -> Any:
            v, equal, unequal = z[:n], z[n : n + shapes[0]], z[n + shapes[0] :]
            c, pull = vjp(g, v)
            (pressed,) = pull((equal, unequal))
            inactive = c[1] > unequal
            return concatenate(
                [projected(v, slope(v) - pressed, sides), c[0], np.where(inactive, unequal, c[1])], axis=0
            )

    operands = [*(sides or ()), *values]
    z, counts = implicit_root(residual, guess, host, operands, _FIELDS, sides is None and g is None, claims)
    x = z[:n] if g is not None else z
    value, gradient = value_and_grad(f)(x)
    return result_of(x=vector.tree(x), fun=value, jac=vector.tree(convert(gradient, vector.dtype)), **counts)


mirrors([minimize], "scipy.optimize")


# -- `fsolve` and `leastsq`, with SciPy's signatures over `root` and `least_squares`, and `minimize_scalar`


def _plain(func: Callable[..., Any], x0: Any, args: Any) -> bool:
    """Is nothing traced, so that SciPy can do it?"""
    args = args if isinstance(args, tuple) else (args,)
    if is_abstract(*tree.leaves((x0, args))):
        return False
    return not any(type(x) is Tracer for x in tree.leaves(func(np.atleast_1d(np.asarray(x0, float)), *args)))


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

    With traced values: `root` with the method "hybr"; `fprime` is checked as there; of infodict there are fvec and nfev, and
    the message says to look at ier.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.optimize.fsolve(lambda x: x * x - a, 1.0)[0]
    >>> round(float(funcad.grad(f)(4.0)), 6)
    0.25
    """
    if _plain(func, x0, args):
        return scipy_optimize().fsolve(
            func, x0, args, fprime, full_output, col_deriv, xtol, maxfev, band, epsfcn, factor, diag
        )
    options = {"xtol": xtol, "maxfev": maxfev, "factor": factor, "diag": diag}
    found = root(func, np.ravel(x0), args, "hybr", _by_rows(fprime, col_deriv), options=options)
    infodict = {"fvec": found.fun, "nfev": found.nfev}
    return (found.x, infodict, found.status, "success is ier == 1") if full_output else found.x


def _by_rows(slope: Any, col_deriv: bool) -> Any:
    """The user's Jacobian with one row for each equation."""
    return (lambda x, *args: fnp.asarray(slope(x, *args)).T) if slope is not None and col_deriv else slope


_EPS = float(np.finfo(float).eps)  # the least that least_squares takes
_IER = np.array([5, 4, 1, 2, 3])  # MINPACK's words for the status of least_squares, 0 to 4


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

    With traced values: `least_squares` with the method "lm", which chooses its first step itself (factor and diag are refused);
    of infodict there are fvec and nfev, and the message says to look at ier.

    >>> import numpy as np, funcad
    >>> f = lambda y: funcad.scipy.optimize.leastsq(lambda p: p[0] * np.arange(3.0) - y, np.ones(1))[0][0]
    >>> funcad.grad(f)(np.array([0.0, 1.0, 2.0])).round(6)
    array([0. , 0.2, 0.4])
    """
    if _plain(func, x0, args):
        return scipy_optimize().leastsq(
            func, x0, args, Dfun, full_output, col_deriv, ftol, xtol, gtol, maxfev, epsfcn, factor, diag
        )
    if factor != 100 or diag is not None:
        raise TypeError(
            "leastsq does not support factor and diag with traced values.\n"
            "Remedy: least_squares(..., x_scale=) has their place."
        )
    args = args if isinstance(args, tuple) else (args,)
    start = np.ravel(x0)
    options = {"ftol": ftol, "xtol": xtol, "gtol": max(gtol, _EPS), "max_nfev": maxfev or None}
    found = least_squares(func, start, _by_rows(Dfun, col_deriv), method="lm", args=args, **options)
    ier = fnp.take(_IER, found.status)
    if not full_output:
        return found.x, ier
    slopes = jacfwd(lambda p: fnp.ravel(fnp.asarray(func(p, *args))))(found.x)
    covariance = np.linalg.inv(fnp.matmul(slopes.T, slopes))
    infodict = {"fvec": found.fun, "nfev": found.nfev}
    return found.x, covariance, infodict, "success is ier in (1, 2, 3, 4)", ier


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

    Brent's and the golden section's x is good to about 8 digits, and its derivative as well. Traced, the result holds x, fun,
    success, nit and nfev. At a bound x moves with the bound.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.optimize.minimize_scalar(lambda x: (x - a) ** 2 + x**4).x
    >>> round(float(funcad.grad(f)(6.0)), 4)
    0.0865
    """
    args = args if isinstance(args, tuple) else (args,)
    objective = Hoisted(lambda x: number_of("minimize_scalar", fun(x, *args), np.dtype(float)), np.float64(1))
    sides = None if bounds is None else [fnp.asarray(b, float) for b in bounds]
    value = objective.compiled()

    def run(values: Any, sides: Any) -> Any:
        return scipy_optimize().minimize_scalar(
            lambda x: float(value(np.float64(x), *values)), bracket,
            None if sides is None else tuple([float(s) for s in sides]), (), method, tol, options,
        )  # fmt: skip

    if not is_abstract(*objective.values, *(sides or ())):
        return run((), sides)
    if objective.error is not None:
        raise objective.error
    n = 0 if sides is None else 2

    def host(_: Any, *operands: Any) -> tuple[Any, dict]:
        found = run(operands[n:], operands[:n] or None)
        if not found.success:
            warn_failure("minimize_scalar", found.message)
        counts = {"success": np.bool_(found.success), "nit": integer(found, "nit"), "nfev": integer(found, "nfev")}
        return np.asarray([found.x], float), counts

    f = lambda x: objective.function(x, *objective.values)
    slope = grad(f)
    residual = lambda v: reshape(projected(v[0], slope(v[0]), sides and (sides[0], sides[1])), shape=(1,))
    fields = {"success": np.dtype(bool), "nit": np.dtype(np.int64), "nfev": np.dtype(np.int64)}
    x, counts = implicit_root(residual, np.zeros(1), host, [*(sides or ()), *objective.values], fields, True)
    return result_of(x=x[0], fun=f(x[0]), **counts)


mirrors([fsolve, leastsq, minimize_scalar], "scipy.optimize")

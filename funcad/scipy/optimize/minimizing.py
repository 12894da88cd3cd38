"""`minimize`: SciPy's solvers fed with funcad's gradients and Hessian-vector products."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import api
from funcad.api.grad import grad, value_and_grad
from funcad.api.jacobian import hessian, hvp, jacfwd
from funcad.api.vjp import vjp
from funcad.host.progress import counted
from funcad.ir.aval import shape_of
from funcad.primitives.conversion import convert
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.optimize.constraints import bounds_of, constraint_function, multipliers_of, projected
from funcad.scipy.optimize.implicit import (
    Claim,
    Hoisted,
    check_claims,
    implicit_root,
    integer,
    is_abstract,
    result_of,
    scipy_optimize,
    unknown,
    warn_degenerate,
    warn_failure,
)
from funcad.scipy.optimize.roots import ravelled
from funcad.scipy.tree_vectors import Vector
from funcad.show.docstrings import mirrors

__all__ = ["minimize"]

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

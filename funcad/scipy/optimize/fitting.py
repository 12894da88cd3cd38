"""Least squares: `least_squares` on pytrees and `curve_fit`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.api.grad import grad
from funcad.api.jacobian import jacfwd
from funcad.api.vmap import vmap
from funcad.host.progress import counted
from funcad.ir.aval import shape_of
from funcad.numpy.dispatch import is_traced
from funcad.primitives.linear_systems import cholesky
from funcad.primitives.triangular import triangular_solve
from funcad.scipy.optimize.constraints import projected
from funcad.scipy.optimize.implicit import (
    Hoisted,
    check_claims,
    implicit_root,
    integer,
    is_abstract,
    result_of,
    scipy_optimize,
    unknown,
    warn_failure,
)
from funcad.scipy.optimize.roots import jacobian_claims, ravelled
from funcad.show.docstrings import mirrors

__all__ = ["curve_fit", "least_squares"]

_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
    "cauchy": lambda z: np.log1p(z),
    "arctan": lambda z: np.arctan(z),
}
_FIELDS = {"success": np.dtype(bool), "status": np.dtype(np.int64), "nfev": np.dtype(np.int64)}


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
    x, counts = implicit_root(equation, start, host, residuals.values, _FIELDS, not bounded, claims)
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

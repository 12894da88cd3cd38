"""Problems whose data are matrices: `linprog`, `lsq_linear`, `nnls`, `linear_sum_assignment`; why `milp` has no derivative.

Values are SciPy's. The derivatives are those of the equations that a solution satisfies (Karush, Kuhn and Tucker), of which
those that hold with equality at the solution are the active ones. A degenerate solution, where one of them holds without being
pressed on, warns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.tools import ShapeDtypeStruct
from funcad.control.callback import pure_callback
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.dispatch import is_traced
from funcad.numpy.promote import python_number
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.shape import concatenate
from funcad.scipy.door import implements
from funcad.scipy.tree_vectors import Vector

from funcad.scipy.optimize.implicit import (  # isort: skip
    bounds_of, implicit_root, integer, lend, projected, result_of, scipy_optimize, warn_degenerate, warn_failure,
)

_DOUBLE = np.dtype(float)
_FIELDS = {"success": np.dtype(bool), "status": np.dtype(np.int64), "nit": np.dtype(np.int64)}


def _doubles(x: Any) -> Any:
    x = fnp.asarray(x.toarray() if hasattr(x, "toarray") else x)
    return x if dtype_of(x) == _DOUBLE else convert(x, _DOUBLE)


def _counts(found: Any) -> dict[str, Any]:
    return {"success": np.bool_(found.success), "status": integer(found, "status"), "nit": integer(found, "nit")}


def _warn_of_ends(what: str, x: np.ndarray, gradient: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    at_end = ((x == low) | (x == high)) & (low != high)
    if (at_end & (np.abs(gradient) <= 1e-10 * (1 + np.abs(gradient).max(initial=0)))).any():
        warn_degenerate(what, "an unknown is at its bound, and would be there without it")


# -- linear least squares


@implements("optimize.lsq_linear")
def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    tol: float = 1e-10,
    lsq_solver: Any = None,
    lsmr_tol: Any = None,
    max_iter: int | None = None,
    verbose: int = 0,
    *,
    lsmr_maxiter: int | None = None,
) -> Any:
    """`scipy.optimize.lsq_linear`: the x within bounds that minimizes |A x - b|², differentiable in A, b and the bounds.

    The result has x, cost, fun (the residuals), success, status and nit. An unknown at its bound moves with it.

    >>> import numpy as np, funcad
    >>> f = lambda b: funcad.scipy.optimize.lsq_linear(np.diag([1.0, 2.0]), b, (0.0, 1.0)).x
    >>> funcad.jacobian(f)(np.array([3.0, 1.0])) + 0.0
    array([[0. , 0. ],
           [0. , 0.5]])
    """
    A, b = _doubles(A), _doubles(b)
    n = shape_of(A)[1]
    sides = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    low, high = [fnp.broadcast_to(_doubles(s), (n,)) for s in sides]

    def host(start: Any, A: Any, b: Any, low: Any, high: Any) -> tuple[Any, dict]:
        options = dict(lsq_solver=lsq_solver, lsmr_tol=lsmr_tol, max_iter=max_iter, verbose=verbose, lsmr_maxiter=lsmr_maxiter)
        found = scipy_optimize().lsq_linear(A, b, (low, high), method, tol, **options)
        if not found.success:
            warn_failure("lsq_linear", found.message)
        x = np.where(found.active_mask < 0, low, np.where(found.active_mask > 0, high, found.x))  # "trf" stays short of them
        _warn_of_ends("lsq_linear", x, A.T @ (A @ x - b), low, high)
        return x, {"x": found.x, "fun": found.fun, "cost": np.float64(found.cost), **_counts(found)}

    residual = lambda x: projected(x, fnp.matmul(A.T, fnp.matmul(A, x) - b), (low, high))
    vectors = {
        "x": ShapeDtypeStruct((n,), _DOUBLE),
        "fun": ShapeDtypeStruct(shape_of(b), _DOUBLE),
        "cost": _DOUBLE,
    }
    x, aux = implicit_root(residual, np.zeros(n), host, [A, b, low, high], {**_FIELDS, **vectors})
    fun = fnp.matmul(A, x) - b
    lent = {"x": x, "fun": fun, "cost": 0.5 * np.sum(fun * fun)}
    return result_of(**{**aux, **{name: lend(aux[name], moving) for name, moving in lent.items()}})


@implements("optimize.nnls")
def nnls(A: Any, b: Any, **options: Any) -> tuple[Any, Any]:
    """`scipy.optimize.nnls`: (x, |A x - b|) with the x >= 0 that minimizes it, differentiable in A and b.

    >>> import numpy as np, funcad
    >>> f = lambda b: funcad.scipy.optimize.nnls(np.eye(2), b)[0]
    >>> funcad.jacobian(f)(np.array([3.0, -1.0])) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """
    A, b = _doubles(A), _doubles(b)
    n = shape_of(A)[1]

    def host(start: Any, A: Any, b: Any) -> tuple[Any, dict]:
        nothing = np.zeros(0), np.float64(np.linalg.norm(b))  # SciPy 1.17 crashes without unknowns
        x, norm = scipy_optimize().nnls(A, b, **options) if n else nothing
        _warn_of_ends("nnls", x, A.T @ (A @ x - b), np.zeros(n), np.full(n, np.inf))
        return x, {"norm": np.float64(norm)}

    residual = lambda x: projected(x, fnp.matmul(A.T, fnp.matmul(A, x) - b), (0.0, np.inf))
    x, aux = implicit_root(residual, np.zeros(n), host, [A, b], {"norm": _DOUBLE})
    return x, python_number(lend(aux["norm"], np.linalg.norm(fnp.matmul(A, x) - b)))


# -- linear programs


def _rows(A: Any, b: Any, n: int) -> tuple[Any, Any]:
    return (np.zeros((0, n)), np.zeros(0)) if A is None else (_doubles(A), _doubles(b))


def _sides(bounds: Any, n: int) -> Any:
    """(low, high) of linprog's bounds: none, one pair for all, or a pair for each."""
    if bounds is None:
        bounds = (0.0, None)
    given = fnp.asarray(bounds) if hasattr(bounds, "shape") else list(bounds)
    one = shape_of(given) == (2,) if hasattr(given, "shape") else len(given) == 2 and not hasattr(given[0], "__len__")
    return bounds_of([tuple(given)] * n if one else [tuple(pair) for pair in given], Vector("linprog: x", np.zeros(n)))


@implements("optimize.linprog")
def linprog(
    c: Any,
    A_ub: Any = None,
    b_ub: Any = None,
    A_eq: Any = None,
    b_eq: Any = None,
    bounds: Any = (0, None),
    method: str = "highs",
    callback: Any = None,
    options: Any = None,
    x0: Any = None,
    integrality: Any = None,
) -> Any:
    """`scipy.optimize.linprog`: the x that minimizes c @ x under linear constraints, differentiable in all of its data.

    x is a corner: it moves with the constraints that meet there, and stands still as c changes; `fun` and the `marginals` of
    eqlin, ineqlin, lower and upper are differentiable too. Integer unknowns are refused (see `milp`).

    >>> import numpy as np, funcad
    >>> best = lambda b: funcad.scipy.optimize.linprog([-1.0, -2.0], [[1.0, 1.0], [0.0, 1.0]], b).fun
    >>> funcad.grad(best)(np.array([4.0, 3.0]))
    array([-1., -1.])
    """
    if integrality is not None and np.any(np.asarray(integrality)):
        raise TypeError(_NO_DERIVATIVE.format("linprog"))
    c = _doubles(c)
    n = shape_of(c)[0]
    (A_ub, b_ub), (A_eq, b_eq), (low, high) = _rows(A_ub, b_ub, n), _rows(A_eq, b_eq, n), _sides(bounds, n)
    n_eq, n_ub = shape_of(b_eq)[0], shape_of(b_ub)[0]

    def host(start: Any, c: Any, A_ub: Any, b_ub: Any, A_eq: Any, b_eq: Any, low: Any, high: Any) -> tuple[Any, dict]:
        found = scipy_optimize().linprog(
            c, A_ub, b_ub, A_eq, b_eq, np.stack([low, high], axis=1), method, callback, options, x0
        )
        if found.status != 0:
            warn_failure("linprog", found.message)
            return np.full(n + n_eq + n_ub, np.nan), _counts(found)
        pressure, slack = -found.ineqlin.marginals, b_ub - A_ub @ found.x
        if ((slack <= 1e-10 * (1 + np.abs(b_ub))) & (pressure <= 1e-10 * (1 + np.abs(c).max(initial=0)))).any():
            warn_degenerate("linprog", "an inequality holds with equality, and the solution would be there without it")
        _warn_of_ends("linprog", found.x, found.lower.marginals + found.upper.marginals, low, high)
        return np.concatenate([found.x, found.eqlin.marginals, pressure]), _counts(found)

    def parts(z: Any) -> tuple[Any, Any, Any]:
        """x, the multipliers of the inequalities, and what is left of c for the bounds."""
        x, equal, pressure = z[:n], z[n : n + n_eq], z[n + n_eq :]
        return x, pressure, c - fnp.matmul(A_eq.T, equal) + fnp.matmul(A_ub.T, pressure)

    def residual(z: Any) -> Any:
        x, pressure, reduced = parts(z)
        slack = b_ub - fnp.matmul(A_ub, x)
        active = slack + 1e-12 * (1.0 + np.abs(b_ub)) < pressure  # not those where both are 0: there may be too many
        rows = [projected(x, reduced, (low, high)), fnp.matmul(A_eq, x) - b_eq, np.where(active, slack, pressure)]
        return concatenate([row for row in rows if shape_of(row)[0]], axis=0)

    z, counts = implicit_root(
        residual, np.zeros(n + n_eq + n_ub), host, [c, A_ub, b_ub, A_eq, b_eq, low, high], _FIELDS
    )
    x, pressure, reduced = parts(z)
    return result_of(
        x=x,
        fun=fnp.matmul(c, x),
        slack=b_ub - fnp.matmul(A_ub, x),
        con=b_eq - fnp.matmul(A_eq, x),
        eqlin=result_of(residual=b_eq - fnp.matmul(A_eq, x), marginals=z[n : n + n_eq]),
        ineqlin=result_of(residual=b_ub - fnp.matmul(A_ub, x), marginals=-pressure),
        lower=result_of(residual=x - low, marginals=np.where(reduced > 0.0, reduced, 0.0)),
        upper=result_of(residual=high - x, marginals=np.where(reduced < 0.0, reduced, 0.0)),
        **counts,
    )


# -- whole numbers

_NO_DERIVATIVE = (
    "{} with integer unknowns has no derivative: they stay as they are while the data change a little, and then jump.\n"
    "Remedy: solve it on values (funcad.stop_gradient), then call linprog with the integer unknowns fixed by their bounds."
)


def milp(c: Any, *, integrality: Any = None, bounds: Any = None, constraints: Any = None, options: Any = None) -> Any:
    """`scipy.optimize.milp` on plain values; traced ones raise TypeError, which says why and what to do instead.

    `c`, `integrality`, `bounds`, `constraints` and `options` are SciPy's, and so is the result.

    >>> import funcad, scipy.optimize
    >>> funcad.scipy.optimize.milp([-1.0], integrality=1, bounds=scipy.optimize.Bounds(0, 2.5)).x
    array([2.])
    """
    limits = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    data = [getattr(k, name, k) for k in (bounds, *limits) for name in ("A", "lb", "ub")]
    if is_traced((c, data), {}):
        raise TypeError(_NO_DERIVATIVE.format("milp"))
    return scipy_optimize().milp(c, integrality=integrality, bounds=bounds, constraints=constraints, options=options)


@implements("optimize.linear_sum_assignment")
def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> tuple[Any, Any]:
    """`scipy.optimize.linear_sum_assignment`: (rows, columns), which do not move: index the traced costs with them.

    >>> import numpy as np, funcad
    >>> def least(cost):
    ...     return np.sum(cost[funcad.scipy.optimize.linear_sum_assignment(cost)])
    >>> funcad.grad(least)(np.array([[4.0, 1.0], [2.0, 3.0]]))
    array([[0., 1.],
           [1., 0.]])
    """
    cost = stop_gradient(fnp.asarray(cost_matrix))
    indices = ShapeDtypeStruct((min(shape_of(cost)),), np.dtype(np.int64))
    host = lambda cost: tuple([i.astype(np.int64) for i in scipy_optimize().linear_sum_assignment(cost, maximize)])
    rows, columns = pure_callback(host, (indices, indices), cost, vmap_method="sequential")
    return rows, columns

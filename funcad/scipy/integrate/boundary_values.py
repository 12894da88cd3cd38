"""`solve_bvp`: SciPy finds the mesh and the solution, whose collocation equations on that mesh define the derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.control.closure import closure_convert
from funcad.ir.tracer import Tracer, concrete_value
from funcad.jitted.jit import jit
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.door import scipy_function
from funcad.scipy.interpolate.splines import CubicHermiteSpline
from funcad.scipy.optimize.implicit import implicit_root, result_of, warn_failure
from funcad.show.docstrings import mirrors

__all__ = ["solve_bvp"]


def _stacked(x: Any) -> Any:
    return np.stack([fnp.asarray(v) for v in x]) if isinstance(x, (list, tuple)) else fnp.asarray(x)


def _on_values(f: Callable[..., Any]) -> Callable[..., Any]:
    """f on plain arrays, with the values behind what it closes over; traced anew for each number of nodes."""
    traced: dict[tuple, tuple] = {}

    def of_values(*args: Any) -> np.ndarray:
        shapes = tuple([np.shape(x) for x in args])
        if shapes not in traced:
            function, values = closure_convert(lambda *args: _stacked(f(*args)), *args)
            known = [concrete_value(v) for v in values]
            if any(type(v) is Tracer for v in known):
                raise NotImplementedError(
                    "solve_bvp chooses the nodes of its mesh by values, which there are not inside jit and vmap.\n"
                    "Remedy: solve_bvp outside of them (grad, jvp and jacobians are fine), with what is around it jitted."
                )
            traced[shapes] = jit(function), known
        function, known = traced[shapes]
        return np.asarray(function(*args, *known))

    return of_values


def solve_bvp(
    fun: Callable[..., Any],
    bc: Callable[..., Any],
    x: Any,
    y: Any,
    p: Any = None,
    S: Any = None,
    fun_jac: Any = None,
    bc_jac: Any = None,
    tol: float = 1e-3,
    max_nodes: int = 1000,
    verbose: int = 0,
    bc_tol: float | None = None,
) -> Any:
    """`scipy.integrate.solve_bvp`: y, p, yp and sol of the result are differentiable in what fun and bc close over.

    With traced values S, fun_jac and bc_jac must be left out (TypeError); the mesh has as many nodes as values tell, so inside
    jit and vmap it raises NotImplementedError. The derivative is that of the collocation equations on the final mesh, which
    stands still.

    >>> import numpy as np, funcad
    >>> def middle(k):
    ...     bend = lambda x, y: np.stack([y[1], -k * y[0]])
    ...     ends = lambda ya, yb: np.stack([ya[0], yb[0] - 1.0])
    ...     x = np.linspace(0.0, 1.0, 5)
    ...     return funcad.scipy.integrate.solve_bvp(bend, ends, x, np.ones((2, 5)), tol=1e-8).sol(0.5)[0]
    >>> bool(np.isclose(funcad.grad(middle)(1.0), np.tan(0.5) / 8 / np.cos(0.5)))
    True
    """
    x, y = np.asarray(concrete_value(x), float), np.asarray(concrete_value(y))
    known = () if p is None else (np.asarray(concrete_value(p), float),)
    if any(type(v) is Tracer for v in tree.leaves((fun(x, y, *known), bc(y[:, 0], y[:, -1], *known)))):
        for name, given in (("S", S), ("fun_jac", fun_jac), ("bc_jac", bc_jac)):
            if given is not None:
                raise TypeError(f"solve_bvp: leave {name} out with traced values; Jacobians are funcad's")
    else:
        original = scipy_function("integrate.solve_bvp")
        return original(fun, bc, x, y, p, S, fun_jac, bc_jac, tol, max_nodes, verbose, bc_tol)
    y = y.astype(float)
    n = len(y)
    found = scipy_function("integrate.solve_bvp")(
        _on_values(fun), _on_values(bc), x, y, *(known or (None,)), None, None, None, tol, max_nodes, verbose, bc_tol
    )
    if not found.success:
        warn_failure("solve_bvp", found.message)
    mesh, m = found.x, len(found.x)
    h = np.diff(mesh)

    def parts(z: Any) -> tuple[Any, tuple]:
        return reshape(z[: n * m], shape=(n, m)), tuple([z[n * m :]] * len(known))

    def residual(z: Any) -> Any:
        y, p = parts(z)
        f = _stacked(fun(mesh, y, *p))
        middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
        at_middle = _stacked(fun(mesh[:-1] + 0.5 * h, middle, *p))
        steps = y[:, 1:] - y[:, :-1] - h / 6.0 * (f[:, :-1] + f[:, 1:] + 4.0 * at_middle)
        ends = fnp.ravel(_stacked(bc(y[:, 0], y[:, -1], *p)))
        return concatenate([reshape(steps, shape=(n * (m - 1),)), ends], axis=0)

    solution = np.concatenate([found.y.ravel(), found.p if known else np.zeros(0)])
    z, _ = implicit_root(residual, solution, lambda start: (np.asarray(start), {}), [], {}, dense=4000)
    y, p = parts(z)
    yp = _stacked(fun(mesh, y, *p))
    return result_of(
        x=mesh, y=y, yp=yp, p=p[0] if known else None, sol=CubicHermiteSpline(mesh, y, yp, axis=1), niter=found.niter,
        rms_residuals=found.rms_residuals, status=found.status, success=found.success, message=found.message,
    )  # fmt: skip


mirrors([solve_bvp], "scipy.integrate")

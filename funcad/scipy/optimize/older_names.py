"""`fsolve` and `leastsq`, with SciPy's signatures over `root` and `least_squares`, and `minimize_scalar`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import api
from funcad.api.grad import grad
from funcad.api.jacobian import jacfwd
from funcad.ir.tracer import Tracer
from funcad.primitives.shape import reshape
from funcad.scipy.optimize.constraints import projected
from funcad.scipy.optimize.fitting import least_squares
from funcad.scipy.optimize.implicit import Hoisted, implicit_root, integer, is_abstract, result_of, scipy_optimize, warn_failure
from funcad.scipy.optimize.roots import number_of, root
from funcad.show.docstrings import mirrors

__all__ = ["fsolve", "leastsq", "minimize_scalar"]


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
        raise TypeError("leastsq: leave factor and diag out with traced values; least_squares(..., x_scale=) has their place")
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

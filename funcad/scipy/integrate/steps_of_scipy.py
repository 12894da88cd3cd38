"""Methods whose steps SciPy makes, called from the program: DOP853, Radau, BDF and LSODA. Their Jacobians are funcad's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.jacobian import jacfwd
from funcad.api.tools import ShapeDtypeStruct
from funcad.control.callback import pure_callback
from funcad.ir.aval import dtype_of, shape_of
from funcad.scipy.door import scipy_function
from funcad.scipy.integrate.runge_kutta_solvers import Options
from funcad.scipy.optimize.implicit import Hoisted

__all__ = ["solve_by_scipy"]


def solve_by_scipy(rate: Callable[..., Any], y0: Any, times: Any, options: Options) -> Any:
    """The states (m, n) at `times` (m,), not decreasing, as `runge_kutta_solvers.solve` gives them; NaN where there is none."""
    hoisted = Hoisted(rate, y0, times[0])
    if hoisted.error is not None:
        raise hoisted.error
    value = hoisted.compiled()
    slope = hoisted.compiled(lambda f: jacfwd(f)) if options.is_stiff and dtype_of(y0).kind == "f" else None
    m, n, dtype = shape_of(times)[0], shape_of(y0)[0], dtype_of(y0)

    def host(y0: Any, times: Any, *values: Any) -> Any:
        y0, times = np.asarray(y0), np.asarray(times)
        at, places = np.unique(times, return_inverse=True)
        if len(at) < 2:
            return np.broadcast_to(y0, (m, n)).astype(dtype)
        more: dict[str, Any] = {}
        if slope is not None:
            more["jac"] = lambda t, y: np.asarray(slope(y.astype(dtype), times.dtype.type(t), *values))
        slopes = lambda t, y: np.asarray(value(y.astype(dtype), times.dtype.type(t), *values))
        found = scipy_function("integrate.solve_ivp")(
            slopes, (at[0], at[-1]), y0, options.by_scipy, t_eval=at, rtol=options.rtol,
            atol=options.atol, max_step=options.hmax, first_step=options.first, **more,
        )  # fmt: skip
        states = np.full((len(at), n), np.nan, dtype)
        states[: found.y.shape[1]] = found.y.T
        return states[places.reshape(-1)]

    return pure_callback(host, ShapeDtypeStruct((m, n), dtype), y0, times, *hoisted.values, vmap_method="sequential")

"""`minimize` over data that lie in several processes, or in partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.api.border import api
from funcad.distributed.communicator import Communicator
from funcad.distributed.spmd import spmd
from funcad.primitives.collective import pmean
from funcad.scipy.optimize import minimize as _minimize

__all__ = ["minimize"]

_AXIS = "the processes of minimize"
_METHODS = {"l-bfgs": "l-bfgs-b"}  # SciPy's has bounds in its name; other methods are called as SciPy calls them


@api
def minimize(
    loss: Callable[..., Any],
    parameters: Any,
    *data: Any,
    method: str = "l-bfgs",
    tol: float | None = None,
    bounds: Any = None,
    callback: Any = None,
    options: dict[str, Any] | None = None,
    comm: Communicator | None = None,
) -> Any:
    """Minimize `loss(parameters, *data)`, the mean over the processes, each of which has data of its own; an OptimizeResult.

    All processes call it, from equal parameters, and all get the same result, bit by bit: each runs the same solver on values
    and gradients that were added up over all of them (CollectiveError, if a solver should go another way on one). The loss is
    this process's alone and calls no collectives. Without data the loss is the whole function: one that `sum_over` made, say,
    which has its data in partitions; no process waits for another then.

    `method`: "l-bfgs"; "newton-cg", whose products with the Hessian are sums over the data too; or another of SciPy's. The
    other options, and the result, whose x is like the parameters, are those of `funcad.scipy.optimize.minimize`; `comm` is as
    `distributed.current` says. JAX has none.

    >>> import numpy as np
    >>> from funcad import distributed
    >>> rows = np.arange(6.0)
    >>> square = lambda m, x: np.mean((x - m) ** 2)
    >>> fit = lambda rank: distributed.minimize(square, np.zeros(1), distributed.shard(rows)).x.round(6)
    >>> distributed.on_threads(2, fit)
    [array([2.5]), array([2.5])]
    >>> total = distributed.sum_over(lambda m, x: np.sum((x - m) ** 2), distributed.chunks(rows, 4))
    >>> distributed.minimize(total, np.zeros(1), method="newton-cg").x.round(6)
    array([2.5])
    """
    if data:

        def mean(w: Any, *own: Any) -> Any:
            return pmean(loss(w, *own), _AXIS)

        over_all = spmd(mean, _AXIS, in_axes=(None, *[0] * len(data)), out_axes=None, comm=comm, check=True)
        fun = lambda w: over_all(w, *data)
    else:
        fun = loss
    name = _METHODS.get(method.lower(), method)
    return _minimize(fun, parameters, method=name, tol=tol, bounds=bounds, callback=callback, options=options)

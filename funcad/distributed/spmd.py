"""`spmd`: one function on many processes; and what is made of it: broadcasts, gradients of means, `minimize`.

Idea: the axis is bound to a communicator (`state.axis_env`), and what crosses the border has a derivative that knows of the
other processes. What is replicated goes in through `enter`, which adds up the cotangents of all, and comes out through `leave`,
which seeds one. So `spmd(f)` on n processes is `vmap(f)` on their stacked arguments.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from funcad import tree
from funcad.api.border import Transformed, api, check_leaves, check_second, flat_values, name_of, shown
from funcad.api.grad import value_and_grad as _value_and_grad
from funcad.distributed.communicator import Communicator, ambient
from funcad.distributed.mpi_carrier import world
from funcad.errors import AxesMismatchError
from funcad.host.real_types import is_a
from funcad.host.where import outside, setting, state
from funcad.ir.aval import aval_of, dtype_of, is_inexact
from funcad.primitives.axis_env import enter, leave, reduce_all_over
from funcad.primitives.collective import pmean
from funcad.scipy.optimize import minimize as _minimize


def current(comm: Communicator | None = None) -> Communicator:
    """The communicator that is meant: the one given, else that of `on_threads`, else MPI's with all processes.

    Raises ImportError if there is none, and TypeError for what is no communicator. Its `rank` and `size` are ints.

    >>> from funcad import distributed
    >>> distributed.on_threads(2, lambda rank: distributed.current().rank)
    [0, 1]
    """
    if comm is None:
        comm = ambient() or world()
    if not isinstance(comm, Communicator):
        raise TypeError(f"comm must be a communicator of funcad.distributed, got {shown(comm)}.\nRemedy: Mpi(comm).")
    return comm


@api
def spmd(
    f: Callable[..., Any],
    axis_name: Any,
    in_axes: Any = 0,
    out_axes: Any = 0,
    comm: Communicator | None = None,
    check: bool = False,
) -> Callable[..., Any]:
    """Run f on every process, with `psum`, `all_gather` and the other collectives over `axis_name` between them.

    `in_axes`: 0 says that an argument is this process's own, None that all processes have it with equal bits (`check=True`
    compares them, and raises CollectiveError). It may be a tuple with one entry per argument, each a pytree prefix; keyword
    arguments are own. `out_axes` says the same of the results: 0 for this process's own, None for one that all have, which is
    not looked at. Anything else raises AxesMismatchError. `comm`: as `distributed.current` says.

    `spmd(f)` on n processes is `vmap(f, axis_name=...)` on their stacked arguments, with all derivatives: the gradient by an
    argument that all have is the sum over the processes, and a result that all have counts once. All processes must call the
    same collectives in one order, those of derivatives included; otherwise CollectiveError names the lines. JAX has shard_map.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> def loss(w, x):
    ...     return funcad.pmean((w - x) ** 2, "i")
    >>> full = funcad.grad(distributed.spmd(loss, "i", in_axes=(None, 0), out_axes=None))
    >>> [float(g) for g in distributed.on_threads(3, lambda rank: full(1.0, [2.0, 3.0, 7.0][rank]))]
    [-6.0, -6.0, -6.0]
    """
    if not callable(f):
        raise TypeError(f"spmd takes a function, got {shown(f)}.\nRemedy: spmd(f, 'i')(x) instead of spmd(f(x), 'i').")
    check_second(axis_name, "spmd", "axis_name")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    here = f"spmd of {name_of(f)}"

    @api
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise AxesMismatchError(
                f"{here}: in_axes={in_axes!r} has {len(in_axes)} entries, but the function was called with {len(args)} "
                "positional argument(s).\nRemedy: one entry per argument; or a single one."
            )
        over = current(comm)
        leaves, in_tree = tree.flatten((args, kwargs))
        check_leaves(leaves, f"{here}: argument", (args, kwargs))
        args_tree, kwargs_tree = in_tree.children()
        axes = tree.flatten_axes("in_axes", args_tree, in_axes) + [0] * kwargs_tree.num_leaves
        _refuse_others(here, "in_axes", axes)
        leaves = [enter(x, over, check) if a is None and (check or _is_real(x)) else x for x, a in zip(leaves, axes)]
        with setting(axis_env=(*state.axis_env, (axis_name, over.size, over))):
            given, keywords = in_tree.unflatten(leaves)
            result = f(*given, **keywords)
        outs, out_tree = flat_values(result)
        check_leaves(outs, f"{here}: output", result)
        axes = tree.flatten_axes("out_axes", out_tree, out_axes)
        _refuse_others(here, "out_axes", axes)
        return out_tree.unflatten([leave(x, over) if a is None and _is_real(x) else x for x, a in zip(outs, axes)])

    options = {"axis_name": axis_name, "in_axes": in_axes, "out_axes": out_axes, "comm": comm, "check": check}
    return Transformed(mapped, f, functools.partial(spmd, **options))


def _is_real(x: Any) -> bool:
    return is_inexact(aval_of(x))


def _refuse_others(here: str, what: str, axes: list) -> None:
    for axis in axes:
        if axis is not None and (is_a(axis, bool) or axis != 0):
            raise AxesMismatchError(
                f"{here}: {what} holds 0 for what a process has of its own and None for what all have, got {axis!r}.\n"
                "Remedy: 0 or None; every process gives its own part, not all of it."
            )


# -- gradients of a loss that is a mean over the data of all processes


@api
def value_and_grad(loss: Callable[..., Any], comm: Communicator | None = None) -> Callable[..., tuple[Any, Any]]:
    """(mean, gradient) of `loss(parameters, *data)` over the processes: each has data of its own, all have the parameters.

    The loss is this process's alone; one sum of one array carries value and gradient, which are equal bit by bit on all
    processes. A loss that calls collectives over these processes is warned of: its own gradient is a part of the whole one
    only. Processes count equally, whatever the sizes of their data. Raises what `funcad.value_and_grad` raises. JAX has none.

    >>> from funcad import distributed
    >>> full = distributed.value_and_grad(lambda w, x: (w - x) ** 2)
    >>> [tuple(map(float, v)) for v in distributed.on_threads(2, lambda rank: full(1.0, [2.0, 4.0][rank]))]
    [(5.0, -4.0), (5.0, -4.0)]
    """
    local = _value_and_grad(loss)
    warned = False

    def everywhere(parameters: Any, *data: Any) -> tuple[Any, Any]:
        nonlocal warned
        over = current(comm)
        before = over.asked, over.count
        value, slope = local(parameters, *data)
        if not warned and (over.asked, over.count) != before:
            warned = True
            warnings.warn(
                f"value_and_grad of {name_of(loss)}: the loss calls collectives over the processes whose mean is taken, and "
                "its gradient inside is this process's part only.\nRemedy: leave them out of the loss; or write "
                "value_and_grad(spmd(loss, 'i', in_axes=(None, 0), out_axes=None)), with funcad's own value_and_grad.",
                UserWarning,
                stacklevel=outside(2),
            )
        leaves, structure = tree.flatten((value, slope))
        sums = reduce_all_over(leaves, over)
        return structure.unflatten([total / dtype_of(total).type(over.size) for total in sums])

    return everywhere


# -- `minimize` over data that lie in several processes, or in partitions


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

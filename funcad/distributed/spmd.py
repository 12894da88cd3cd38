"""`spmd`: one function on many processes, whose collectives over a named axis go between them.

Idea: the axis is bound to a communicator (`state.axis_env`), and what crosses the border has a derivative that knows of the
other processes. What is replicated goes in through `enter`, which adds up the cotangents of all, and comes out through `leave`,
which seeds one. So `spmd(f)` on n processes is `vmap(f)` on their stacked arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from funcad import tree
from funcad.api.border import api, check_leaves, check_second, flat_values, name_of, shown
from funcad.api.pickling import Transformed
from funcad.distributed.communicator import Communicator, ambient
from funcad.distributed.mpi_carrier import world
from funcad.errors import AxesMismatchError
from funcad.host.real_types import is_a
from funcad.host.state import setting, state
from funcad.ir.aval import aval_of, is_inexact
from funcad.primitives.carried import enter, leave

__all__ = ["current", "spmd"]


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

"""`spmd`: one function on many processes; and what is made of it: messages, gradients of means, `minimize`.

Idea: the axis is bound to a communicator (`state.axis_env`), and what crosses the border has a derivative that knows of the
other processes. What is replicated goes in through `enter`, which adds up the cotangents of all, and comes out through `leave`,
which seeds one. So `spmd(f)` on n processes is `vmap(f)` on their stacked arguments.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad import tree
from funcad.api.border import Transformed, api, check_leaves, check_second, flat_values, name_of, runs
from funcad.api.grad import value_and_grad as _value_and_grad
from funcad.distributed.communicator import Communicator, ambient
from funcad.distributed.mpi_carrier import world
from funcad.errors import AxesMismatchError
from funcad.host.real_types import is_a
from funcad.host.where import outside, setting, state
from funcad.ir.aval import aval_of, dtype_of, is_inexact, said, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives.axis_env import communicator, enter, gather_over, leave, reduce_all_over, rooted_over, single
from funcad.primitives.basic_indexing import gather as rows_of
from funcad.primitives.collective import all_gather, axis_index, pmean, ppermute, psum
from funcad.primitives.comparison import eq, select
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_in_dim
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
        raise TypeError(f"comm must be a communicator of funcad.distributed, got {said(comm)}.\nRemedy: Mpi(comm).")
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
        raise TypeError(f"spmd takes a function, got {said(f)}.\nRemedy: spmd(f, 'i')(x) instead of spmd(f(x), 'i').")
    check_second(f, axis_name, "spmd", "axis_name")
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
        check_leaves(leaves, f"{here}: argument", (args, kwargs), given=True)
        args_tree, kwargs_tree = in_tree.children()
        axes = tree.flatten_axes("in_axes", args_tree, in_axes) + [0] * kwargs_tree.num_leaves
        _refuse_others(here, "in_axes", axes)
        leaves = [enter(x, over, check) if a is None and (check or _is_real(x)) else x for x, a in zip(leaves, axes)]
        with setting(axis_env=(*state.axis_env, (axis_name, over.size, over))):
            given, keywords = in_tree.unflatten(leaves)
            result = runs(f)(*given, **keywords)
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


# -- messages, borders of blocks, and rows of arrays
#
# Idea: each has a meaning over the lanes of `vmap`, in operations that lanes have, and over processes one message of its own;
# so each works in both, in all derivatives, and one is the test of the other. A process without a part in a result has zeros.


def _rooted(what: str, x: Any, axis_name: Any, root: int, over_lanes: Callable[[Any, Any, Any], Any], name: str) -> Any:
    axis, size = single(axis_name, name)
    if not 0 <= root < size:
        raise ValueError(f"{name}: root must be one of the {size} lanes, got {root!r}")
    comm = communicator(axis)
    if comm is not None:
        return tree.map(lambda leaf: rooted_over(leaf, comm, what, root), x)
    here = eq(axis_index(axis), np.int64(root))
    return tree.map(lambda leaf: over_lanes(leaf, axis, here), x)


def _where(here: Any, leaf: Any, zero: float = 0.0) -> Any:
    """The leaf on this lane, nothing on the others."""
    shape, dtype = shape_of(leaf), aval_of(leaf).dtype
    nothing = dtype.type(zero) if dtype.kind in "fc" else dtype.type(0)
    return select(broadcast_in_dim(here, shape=shape, axes=()) if shape else here, leaf, nothing)


def _from_lane(leaf: Any, name: Any, here: Any) -> Any:
    dtype = aval_of(leaf).dtype
    if dtype.kind == "b":
        return convert(_from_lane(convert(leaf, np.dtype(np.int8)), name, here), dtype)
    return psum(_where(here, leaf, -0.0), name)  # -0. added to 0. and to -0. changes neither


def broadcast(x: Any, axis_name: Any, root: int = 0) -> Any:
    """The value of one lane on all of them; x may be a pytree. ValueError if there is no such lane. JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> funcad.vmap(lambda x: distributed.broadcast(x, "i", 1), axis_name="i")(np.array([1.0, 3.0]))
    array([3., 3.])
    """
    return _rooted("broadcast", x, axis_name, root, _from_lane, "broadcast")


def reduce_to(x: Any, axis_name: Any, root: int = 0) -> Any:
    """The sum over the lanes, on one of them; zeros on the others. x may be a pytree. ValueError if there is no such lane.

    Bools are counted, as by `psum`. MPI's Reduce; JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> funcad.vmap(lambda x: distributed.reduce_to(x, "i", 1), axis_name="i")(np.array([1.0, 3.0]))
    array([0., 4.])
    """
    x = tree.map(lambda leaf: convert(leaf, np.dtype(int)) if aval_of(leaf).dtype.kind == "b" else leaf, x)
    return _rooted("reduce", x, axis_name, root, lambda leaf, name, here: _where(here, psum(leaf, name)), "reduce_to")


def gather_to(x: Any, axis_name: Any, root: int = 0) -> Any:
    """The values of all lanes along a new axis 0, on one of them; zeros on the others. x may be a pytree.

    ValueError if there is no such lane. MPI's Gather; JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> funcad.vmap(lambda x: distributed.gather_to(x, "i", 1), axis_name="i")(np.array([1.0, 3.0]))
    array([[0., 0.],
           [1., 3.]])
    """
    return _rooted("gather", x, axis_name, root, lambda leaf, name, here: _where(here, all_gather(leaf, name)), "gather_to")


def scatter_from(x: Any, axis_name: Any, root: int = 0) -> Any:
    """Row i of what one lane has, on lane i. Axis 0 of x has the size of the mapped axis on all lanes; x may be a pytree.

    ValueError if it has another, or if there is no such lane. MPI's Scatter; JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> funcad.vmap(lambda x: distributed.scatter_from(x, "i", 1), axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 4.])
    """
    _, size = single(axis_name, "scatter_from")
    for leaf in tree.leaves(x):
        if shape_of(leaf)[:1] != (size,):
            raise ValueError(f"scatter_from: axis 0 of {said(leaf)} must have the size {size} of the axis {axis_name!r}")

    def over_lanes(leaf: Any, name: Any, here: Any) -> Any:
        return rows_of(_from_lane(leaf, name, here), axis_index(name))

    return _rooted("scatter", x, axis_name, root, over_lanes, "scatter_from")


def send_recv(x: Any, axis_name: Any, source: int, destination: int) -> Any:
    """The value of the lane `source` on the lane `destination`, zeros on the others; x may be a pytree.

    All lanes call it, for in a derivative the message goes back: `ppermute` with one pair. Raises as `ppermute`; JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> funcad.vmap(lambda x: distributed.send_recv(x, "i", 0, 2), axis_name="i")(np.array([1.0, 2.0, 3.0]))
    array([0., 0., 1.])
    """
    return ppermute(x, axis_name, [(source, destination)])


def halo(x: Any, width: Any, axis_name: Any, axis: int = 0, periodic: bool = False) -> Any:
    """This lane's block of an array that is cut along `axis`, with the borders of its neighbours' blocks at both ends.

    `width`: how many elements come from the lane before and from the one after it; a pair where they differ. The first and the
    last lane get zeros from outside; with `periodic` they are neighbours. x, which may be a pytree, has the same shape on all
    lanes. Raises ValueError if a block is narrower than what its neighbours need. In a derivative the borders' part goes back
    and is added where it came from. JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> funcad.vmap(lambda x: distributed.halo(x, 1, "i"), axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[0., 1., 2., 3.],
           [2., 3., 4., 0.]])
    """
    name, size = single(axis_name, "halo")
    before, after = [w.__index__() for w in (width if isinstance(width, (tuple, list)) else (width, width))]
    up = [(i, (i + 1) % size) for i in range(size if periodic else size - 1)]
    down = [(d, s) for s, d in up]

    def one(leaf: Any) -> Any:
        shape = shape_of(leaf)
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"halo: axis {axis} is out of bounds for {said(leaf)}")
        n, lead = shape[axis], (slice(None),) * (axis % len(shape))
        if min(before, after) < 0 or max(before, after) > n:
            raise ValueError(f"halo: width {width!r} must be 0 to {n}, the block's size along axis {axis} of {said(leaf)}")
        parts = [ppermute(leaf[(*lead, slice(n - before, None))], name, up)] if before else []
        parts.append(leaf)
        parts += [ppermute(leaf[(*lead, slice(None, after))], name, down)] if after else []
        return fnp.concatenate(parts, axis=axis)

    return tree.map(one, x)


# -- parts of an array to each, and back


def shard(array: Any, comm: Communicator | None = None) -> Any:
    """This process's part of the rows of an array that all have; x may be a pytree. Sizes differ by one row at most.

    >>> import numpy as np
    >>> from funcad import distributed
    >>> distributed.on_threads(2, lambda rank: distributed.shard(np.arange(5)))
    [array([0, 1, 2]), array([3, 4])]
    """
    over = current(comm)

    def one(leaf: Any) -> Any:
        start, stop = _rows(shape_of(leaf)[0], over.size, over.rank)
        return leaf[start:stop]

    return tree.map(one, array)


def _rows(n: int, size: int, rank: int) -> tuple[int, int]:
    each, more = divmod(n, size)
    return rank * each + min(rank, more), (rank + 1) * each + min(rank + 1, more)


def gather(part: Any, comm: Communicator | None = None, sizes: Sequence[int] | None = None) -> Any:
    """The rows of all processes, one after the other, on every process: `gather(shard(x))` is x. part may be a pytree.

    `sizes`: how many rows each process has, alike on all of them; if None, they ask each other, which needs plain arrays. With
    sizes the parts may be traced: each gets its rows of the derivative. ValueError where a part has other rows than sizes say.
    MPI's Allgatherv, except that as many rows travel for each process as the longest part has.

    >>> import numpy as np
    >>> from funcad import distributed
    >>> distributed.on_threads(2, lambda rank: distributed.gather(np.full(rank + 1, rank)))
    [array([0, 1, 1]), array([0, 1, 1])]
    """
    over = current(comm)

    def one(leaf: Any) -> Any:
        traced = type(leaf) is Tracer
        if sizes is None and traced:
            raise ValueError("gather of a traced part needs the rows of each process.\nRemedy: gather(part, sizes=(3, 2)).")
        leaf = leaf if traced else np.asarray(leaf)
        rows, *shape = shape_of(leaf)
        counts = gather_over(np.int64(rows), over).tolist() if sizes is None else list(sizes)
        if len(counts) != over.size or counts[over.rank] != rows:
            raise ValueError(f"gather: process {over.rank} of {over.size} has {rows} rows, but sizes={sizes!r}")
        missing = np.zeros((max(counts) - rows, *shape), aval_of(leaf).dtype)
        every = gather_over(fnp.concatenate([leaf, missing]) if len(missing) else leaf, over)
        return fnp.concatenate([every[i, :n] for i, n in enumerate(counts)])

    return tree.map(one, part)


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

"""What goes from one process to others, and parts of arrays: rooted collectives, borders of blocks, rows of an array.

Idea: each has a meaning over the lanes of `vmap`, in operations that lanes have, and over processes one message of its own; so
each works in both, in all derivatives, and the one is the test of the other. A process that has no part in a result has zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad import tree
from funcad.distributed.communicator import Communicator
from funcad.distributed.spmd import current
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives.axis_env import communicator, gather_over, rooted_over, single
from funcad.primitives.basic_indexing import gather as rows_of
from funcad.primitives.collective import all_gather, axis_index, ppermute, psum
from funcad.primitives.comparison import eq, select
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_in_dim


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
            raise ValueError(f"scatter_from: axis 0 of {aval_of(leaf)} must have the size {size} of the axis {axis_name!r}")

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
            raise ValueError(f"halo: axis {axis} is out of bounds for {aval_of(leaf)}")
        n, lead = shape[axis], (slice(None),) * (axis % len(shape))
        if min(before, after) < 0 or max(before, after) > n:
            raise ValueError(f"halo: width {width!r} must be 0 to {n}, the block's size along axis {axis} of {aval_of(leaf)}")
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

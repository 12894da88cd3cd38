"""Values from one process to all, parts of an array to each, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad import tree
from funcad.distributed.communicator import Communicator
from funcad.distributed.spmd import current
from funcad.ir.aval import aval_of, shape_of
from funcad.primitives.axis_env import single
from funcad.primitives.carried import gather_over
from funcad.primitives.collective import axis_index, psum
from funcad.primitives.comparison import eq, select
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["broadcast", "gather", "shard"]

def broadcast(x: Any, axis_name: Any, root: int = 0) -> Any:
    """The value of one lane on all of them; x may be a pytree. ValueError if there is no such lane. JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> funcad.vmap(lambda x: distributed.broadcast(x, "i", 1), axis_name="i")(np.array([1.0, 3.0]))
    array([3., 3.])
    """
    name, size = single(axis_name, "broadcast")
    if not 0 <= root < size:
        raise ValueError(f"broadcast: root must be one of the {size} lanes, got {root!r}")
    here = eq(axis_index(name), np.int64(root))

    def one(leaf: Any) -> Any:
        dtype = aval_of(leaf).dtype
        if dtype.kind == "b":
            return convert(one(convert(leaf, np.dtype(np.int8))), dtype)
        nothing = dtype.type(-0.0) if dtype.kind in "fc" else dtype.type(0)  # which added to 0. and to -0. changes neither
        shape = aval_of(leaf).shape
        mask = broadcast_in_dim(here, shape=shape, axes=()) if shape else here
        return psum(select(mask, leaf, nothing), name)

    return tree.map(one, x)


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


def gather(part: Any, comm: Communicator | None = None) -> Any:
    """The rows of all processes, one after the other, on every process: `gather(shard(x))` is x. The parts are plain arrays.

    >>> import numpy as np
    >>> from funcad import distributed
    >>> distributed.on_threads(2, lambda rank: distributed.gather(np.full(rank + 1, rank)))
    [array([0, 1, 1]), array([0, 1, 1])]
    """
    over = current(comm)

    def one(leaf: Any) -> Any:
        leaf = np.asarray(leaf)
        sizes = gather_over(np.int64(leaf.shape[0]), over)
        filled = np.zeros((int(sizes.max()), *leaf.shape[1:]), leaf.dtype)
        filled[: leaf.shape[0]] = leaf
        return np.concatenate([rows[:n] for rows, n in zip(gather_over(filled, over), sizes)])

    return tree.map(one, part)

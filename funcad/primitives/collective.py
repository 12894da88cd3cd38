"""The collectives as users call them, over the named axes of `vmap` and of `distributed.spmd`.

Idea: a name is bound to lanes (an index tracer) or to processes (a communicator). Over lanes the operations of
lanes_exchange.py are recorded; over processes those of carried.py run. Over names of both kinds, one goes after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.ir.aval import Aval, aval_of, dtype_of, is_inexact
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import add, div, mul
from funcad.primitives.axis_env import bound, bound_names, communicator, refuse_groups, single, tell_what_is_shared
from funcad.primitives.carried import exchange_over, gather_over, permute_over, reduce_over, scatter_over, tie_over
from funcad.primitives.conversion import convert
from funcad.primitives.lanes_exchange import (
    all_gather_p,
    all_to_all_p,
    axis_position,
    gathered,
    is_constant,
    merged,
    moved,
    parted,
    pmax_p,
    pmin_p,
    ppermute_p,
    psum_over_lanes,
    psum_scatter_p,
)

__all__ = [
    "psum",
    "pmean",
    "pmax",
    "pmin",
    "all_gather",
    "psum_scatter",
    "ppermute",
    "pshuffle",
    "all_to_all",
    "axis_index",
    "axis_size",
]


def _split_names(names: tuple) -> tuple[tuple, list]:
    """The names that are bound to lanes, and the communicators of the others."""
    comms = {name: communicator(name) for name in names}
    return tuple([n for n in names if comms[n] is None]), [c for c in comms.values() if c is not None]


def _sum(x: Any, names: tuple) -> Any:
    lanes, comms = _split_names(names)
    x = psum_over_lanes(x, lanes) if lanes else x
    for comm in comms:
        x = _python(reduce_over(x, comm), x)
    return x


def _python(out: Any, x: Any) -> Any:
    """What was made of a Python number is one, where it has a value."""
    return out.item() if type(x) in (bool, int, float, complex) and is_constant(out) else out


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over a mapped axis, or over several (a tuple of names); x may be a pytree.

    `psum(1, name)` is the size of the axis, a Python int. Bools are counted. Raises UnboundAxisNameError. As JAX's.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x / funcad.lax.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    refuse_groups(axis_index_groups, "psum")
    names = bound_names(axis_name, "psum")

    def one(leaf: Any) -> Any:
        if aval_of(leaf).dtype.kind == "b":
            leaf = convert(leaf, np.dtype(int)) if type(leaf) is not bool else int(leaf)
        return _sum(leaf, names)

    return tree.map(one, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over a mapped axis, or over several; x may be a pytree. As JAX's.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x - funcad.lax.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    refuse_groups(axis_index_groups, "pmean")
    total = psum(x, axis_name)
    size = axis_size(axis_name)

    def one(leaf: Any) -> Any:
        if not is_inexact(aval_of(leaf)):
            leaf = convert(leaf, np.dtype(float))
        return leaf / size if type(leaf) in (float, complex) else div(leaf, dtype_of(leaf).type(size))

    return tree.map(one, total)


def _extremum_over(primitive: Primitive, x: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    refuse_groups(axis_index_groups, primitive.name)
    lanes, comms = _split_names(bound_names(axis_name, primitive.name))

    def one(leaf: Any) -> Any:
        if lanes and not is_constant(leaf):
            leaf = primitive(leaf, axis_name=lanes)
        for comm in comms:
            leaf = _python(tie_over(leaf, comm, primitive.name[1:]), leaf)
        return leaf

    return tree.map(one, x)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The maximum over a mapped axis, or over several; x may be a pytree. Ties share the derivative (JAX's has none).

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.lax.pmax(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([3., 3.])
    """
    return _extremum_over(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The minimum over a mapped axis, or over several; x may be a pytree. Ties share the derivative (JAX's has none).

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.lax.pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([1., 1.])
    """
    return _extremum_over(pmin_p, x, axis_name, axis_index_groups)


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False) -> Any:
    """The values of all lanes, stacked along a new axis, or joined along an existing one (`tiled`). As JAX's.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.lax.all_gather(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([[1., 3.],
           [1., 3.]])
    """
    refuse_groups(axis_index_groups, "all_gather")
    names = bound_names(axis_name, "all_gather")

    def one(leaf: Any) -> Any:
        ndim = len(aval_of(leaf).shape)
        at = axis_position(axis, ndim + (not tiled), "all_gather")
        for i, name in enumerate(reversed(names)):
            size = bound(name, "all_gather")[0]
            comm = communicator(name)
            if comm is not None:
                leaf = moved(gather_over(leaf, comm), 0, at)
                leaf = merged(leaf, at) if tiled else leaf
            elif is_constant(leaf):
                leaf = gathered(size, [leaf], [False], axis_name=name, axis=at, size=size, tiled=tiled)[0][0]
            else:
                leaf = all_gather_p(leaf, axis_name=name, axis=at, size=size, tiled=tiled)
            if i and not tiled:
                leaf = merged(leaf, at)
        return leaf

    return tree.map(one, x)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """The sum over a mapped axis, of which each lane keeps its part along `scatter_dimension`. As JAX's.

    That dimension has the axis's size and is dropped; with `tiled` its size is a multiple, and each lane keeps a block.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.lax.psum_scatter(x, "i"), axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    refuse_groups(axis_index_groups, "psum_scatter")
    name, size = single(axis_name, "psum_scatter")
    comm = communicator(name)

    def one(leaf: Any) -> Any:
        at = axis_position(scatter_dimension, len(aval_of(leaf).shape), "psum_scatter")
        if comm is not None:
            aval = aval_of(leaf)
            psum_scatter_p.abstract_eval(Aval(aval.shape, aval.dtype), axis_name=name, axis=at, size=size, tiled=tiled)
            return scatter_over(moved(parted(leaf, at, size) if tiled else leaf, at, 0), comm)
        return psum_scatter_p(leaf, axis_name=name, axis=at, size=size, tiled=tiled)

    return tree.map(one, x)


def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    """Send values from lane to lane: `perm` has pairs (source, destination); a lane that receives nothing gets zeros.

    x may be a pytree. Raises ValueError if a source or a destination occurs twice or is no lane. As JAX's.

    >>> import numpy as np, funcad
    >>> shift = lambda x: funcad.lax.ppermute(x, "i", [(0, 1), (1, 2)])
    >>> funcad.vmap(shift, axis_name="i")(np.array([1.0, 2.0, 3.0]))
    array([0., 1., 2.])
    """
    name, size = single(axis_name, "ppermute")
    pairs = tuple([(s.__index__() % size if -size <= s < size else s, d.__index__()) for s, d in perm])
    for side, lanes in (("source", [s for s, _ in pairs]), ("destination", [d for _, d in pairs])):
        if len(set(lanes)) != len(lanes) or any(not 0 <= i < size for i in lanes):
            raise ValueError(f"ppermute: every {side} must be one of the {size} lanes, once; got perm={list(perm)!r}")
    comm = communicator(name)
    if comm is not None:
        return tree.map(lambda leaf: permute_over(leaf, comm, pairs), x)
    return tree.map(lambda leaf: ppermute_p(leaf, axis_name=name, perm=pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Lane i receives the value of lane `perm[i]`; `perm` is a permutation of the lanes. As JAX's.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(np.array([1.0, 2.0, 3.0]))
    array([3., 1., 2.])
    """
    _, size = single(axis_name, "pshuffle")
    if sorted(perm) != list(range(size)):
        raise ValueError(f"pshuffle: perm must be a permutation of the {size} lanes, got {list(perm)!r}")
    return ppermute(x, axis_name, list(zip(perm, range(size))))


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """Each lane sends part i of its `split_axis` to lane i, and stacks what it receives along a new axis `concat_axis`.

    `split_axis` has the axis's size; with `tiled` its size is a multiple, and blocks are joined along `concat_axis`. As JAX's.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.lax.all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 3.],
           [2., 4.]])
    """
    refuse_groups(axis_index_groups, "all_to_all")
    name, size = single(axis_name, "all_to_all")
    comm = communicator(name)

    def one(leaf: Any) -> Any:
        ndim = len(aval_of(leaf).shape)
        split, concat = axis_position(split_axis, ndim, "all_to_all"), axis_position(concat_axis, ndim, "all_to_all")
        if comm is not None:
            aval, params = aval_of(leaf), {"axis_name": name, "split_axis": split, "concat_axis": concat}
            all_to_all_p.abstract_eval(Aval(aval.shape, aval.dtype), **params, size=size, tiled=tiled)
            parts = exchange_over(moved(parted(leaf, split, size) if tiled else leaf, split, 0), comm)
            return merged(moved(parts, 0, concat), concat) if tiled else moved(parts, 0, concat)
        return all_to_all_p(leaf, axis_name=name, split_axis=split, concat_axis=concat, size=size, tiled=tiled)

    return tree.map(one, x)


def axis_index(axis_name: Any) -> Any:
    """The number of the lane along a mapped axis, counted row by row over several names; an integer without derivative.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x + funcad.lax.axis_index("i"), axis_name="i")(np.zeros(3))
    array([0., 1., 2.])
    """
    names = bound_names(axis_name, "axis_index")
    total = None
    for name in names:
        size, index = bound(name, "axis_index")
        index = index if communicator(name) is None else np.int64(index.rank)
        total = index if total is None else add(mul(total, np.int64(size)), index)
    return 0 if total is None else total


def axis_size(axis_name: Any) -> int:
    """The number of lanes along a mapped axis, or the product over several names: a Python int.

    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x / funcad.lax.axis_size("i"), axis_name="i")(np.ones(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    size = 1
    for name in bound_names(axis_name, "axis_size"):
        size *= bound(name, "axis_size")[0]
    return size


for _public in (psum, pmean, pmax, pmin, all_gather, psum_scatter, ppermute, pshuffle, all_to_all, axis_index, axis_size):
    tell_what_is_shared(_public)

"""Collectives: operations across a named axis of `vmap`.

Idea: `vmap(axis_name="i")` puts ("i", size, index tracer) into `state.axis_env` while its function is traced. A collective is
recorded by the trace of its axis, or further inside, never further out: `bind` sees to it, so that a collective on a value
from outside stays in the mapped program. When `vmap` removes that axis, the primitive's `collective` rule runs, with the
mapped axis as axis 0; a collective on an unmapped value acts on `size` equal copies. When another axis is removed, the
ordinary `batch` rule runs. Derivatives are those of JAX's vmap: psum is its own transpose, all_gather's is psum_scatter,
ppermute's is the inverse permutation, all_to_all's swaps its axes.

Trap: sizes are parameters, taken from the environment when the collective is recorded; so the environment is part of every
cache key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.errors import UnboundAxisNameError
from funcad.host.state import state
from funcad.ir.aval import Aval, aval_of, dtype_of, is_inexact, shape_of
from funcad.ir.primitive import Primitive
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import add, div, mul
from funcad.primitives.axis_env import bound, bound_names, refuse_groups, single, tell_what_is_shared
from funcad.primitives.comparison import eq, select
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_max, reduce_min, reduce_sum
from funcad.primitives.scatter import gather
from funcad.primitives.shape import broadcast_in_dim, broadcast_leading, reshape, transpose

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


# ---------------------------------------------------------------- shapes


def _moved(x: Any, source: int, destination: int) -> Any:
    order = [i for i in range(len(shape_of(x))) if i != source]
    order.insert(destination, source)
    return x if order == sorted(order) else transpose(x, perm=tuple(order))


def _axis(axis: Any, ndim: int, what: str) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(f"{what}: axis {axis} is out of bounds for an array of {ndim} dimension(s)")
    return axis.__index__() % ndim


def _is_constant(x: Any) -> bool:
    return type(x) is not Tracer


# ---------------------------------------------------------------- reductions


def _rest(primitive: Callable[[], Primitive], x: Any, axis_name: tuple) -> tuple[list, list]:
    """The result over the axis that has been removed, still to be reduced over the other names."""
    names = tuple([n for n in axis_name if n != state.batching])
    return [primitive()(x, axis_name=names) if names else x], [False]


def _times(x: Any, size: int) -> Any:
    kind = type(x)
    return x * size if kind in (int, float, complex) else mul(x, dtype_of(x).type(size))


def _sum_collective(size: int, args: Sequence[Any], batched: Sequence[bool], *, axis_name: tuple) -> tuple[list, list]:
    (x,) = args
    return _rest(lambda: psum_p, reduce_sum(x, axes=(0,)) if batched[0] else _times(x, size), axis_name)


def _outside(name: str) -> Callable[..., Any]:
    def impl(xp: Any, *args: Any, axis_name: Any, **params: Any) -> Any:
        raise UnboundAxisNameError(f"{name} over {axis_name!r} ran outside the vmap that binds this axis")

    return impl


psum_p = Primitive(
    "psum",
    _outside("psum"),
    lambda x, *, axis_name: Aval(x.shape, x.dtype),
    jvp=lambda tangents, out, x, *, axis_name: _psum(tangents[0], axis_name),
    transpose=lambda ct, x, *, axis_name: [_psum(ct, axis_name)],
    batch=lambda size, args, batched, *, axis_name: (psum_p(args[0], axis_name=axis_name), True),
    collective=_sum_collective,
)


def _psum(x: Any, names: tuple) -> Any:
    if _is_constant(x):
        for name in names:
            x = _times(x, bound(name, "psum")[0])
        return x
    return psum_p(x, axis_name=names)


def _extremum(name: str, reduce: Callable[..., Any]) -> Primitive:
    def collective(size: int, args: Sequence[Any], batched: Sequence[bool], *, axis_name: tuple) -> tuple[list, list]:
        (x,) = args
        return _rest(lambda: primitive, reduce(x, axes=(0,)) if batched[0] else x, axis_name)

    def jvp(tangents: Sequence[Any], out: Any, x: Any, *, axis_name: tuple) -> Any:
        """Ties share the derivative."""
        dtype = dtype_of(x)
        tied = eq(x, out)
        count = _psum(convert(tied, dtype), axis_name)
        return div(_psum(select(tied, tangents[0], dtype.type(0)), axis_name), count)

    primitive = Primitive(
        name,
        _outside(name),
        lambda x, *, axis_name: Aval(x.shape, x.dtype),
        jvp=jvp,
        batch=lambda size, args, batched, *, axis_name: (primitive(args[0], axis_name=axis_name), True),
        collective=collective,
    )
    return primitive


pmax_p = _extremum("pmax", reduce_max)
pmin_p = _extremum("pmin", reduce_min)


# ---------------------------------------------------------------- gathers and exchanges


def _whole(size: int, args: Sequence[Any], batched: Sequence[bool]) -> Any:
    return args[0] if batched[0] else broadcast_leading(args[0], size)


def _merged(x: Any, axis: int) -> Any:
    """Axes `axis` and `axis + 1` as one."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _parted(x: Any, axis: int, n: int) -> Any:
    """Axis `axis` as two, the first of size n."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:axis], n, shape[axis] // n, *shape[axis + 1 :]))


def _gather_abstract(x: Aval, *, axis_name: Any, axis: int, size: int, tiled: bool) -> Aval:
    shape = list(x.shape)
    if tiled:
        shape[axis] *= size
    else:
        shape.insert(axis, size)
    return Aval(tuple(shape), x.dtype)


def _gather_collective(
    n: int, args: Sequence[Any], batched: Sequence[bool], *, axis_name: Any, axis: int, size: int, tiled: bool
) -> tuple[list, list]:
    x = _moved(_whole(n, args, batched), 0, axis)
    return [_merged(x, axis) if tiled else x], [False]


def _shifted(primitive: Callable[[], Primitive], *axes: str) -> Callable[..., Any]:
    """The batch rule over another axis: axes move one to the right."""

    def batch(n: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool]:
        params.update({a: params[a] + 1 for a in axes})
        return primitive()(args[0], **params), True

    return batch


all_gather_p = Primitive(
    "all_gather",
    _outside("all_gather"),
    _gather_abstract,
    jvp=lambda tangents, out, x, **params: all_gather_p(tangents[0], **params),
    transpose=lambda ct, x, **params: [psum_scatter_p(ct, **params)],
    batch=_shifted(lambda: all_gather_p, "axis"),
    collective=_gather_collective,
)


def _scatter_abstract(x: Aval, *, axis_name: Any, axis: int, size: int, tiled: bool) -> Aval:
    shape = list(x.shape)
    if tiled:
        if shape[axis] % size:
            raise ValueError(f"psum_scatter: axis {axis} of {x} is not divisible by the size {size} of the axis {axis_name!r}")
        shape[axis] //= size
    else:
        if shape[axis] != size:
            raise ValueError(f"psum_scatter: axis {axis} of {x} must have the size {size} of the axis {axis_name!r}")
        del shape[axis]
    return Aval(tuple(shape), x.dtype)


def _scatter_collective(
    n: int, args: Sequence[Any], batched: Sequence[bool], *, axis_name: Any, axis: int, size: int, tiled: bool
) -> tuple[list, list]:
    x = reduce_sum(args[0], axes=(0,)) if batched[0] else _times(args[0], n)
    return [_moved(_parted(x, axis, size) if tiled else x, axis, 0)], [True]


psum_scatter_p = Primitive(
    "psum_scatter",
    _outside("psum_scatter"),
    _scatter_abstract,
    jvp=lambda tangents, out, x, **params: psum_scatter_p(tangents[0], **params),
    transpose=lambda ct, x, **params: [all_gather_p(ct, **params)],
    batch=_shifted(lambda: psum_scatter_p, "axis"),
    collective=_scatter_collective,
)


def _permute_collective(
    n: int, args: Sequence[Any], batched: Sequence[bool], *, axis_name: Any, perm: tuple
) -> tuple[list, list]:
    source = {d: s for s, d in perm}
    if not batched[0] and len(source) == n:
        return [args[0]], [False]
    x = _whole(n, args, batched)
    places = [np.array([source.get(i, 0) for i in range(n)]), np.array([i in source for i in range(n)])]
    lanes, received = on_device_of(places, [x])
    rows = gather(x, lanes, unique=len(source) == n)
    if len(source) < n:
        rows = select(broadcast_in_dim(received, shape=shape_of(x), axes=(0,)), rows, dtype_of(x).type(0))
    return [rows], [True]


ppermute_p = Primitive(
    "ppermute",
    _outside("ppermute"),
    lambda x, *, axis_name, perm: Aval(x.shape, x.dtype),
    jvp=lambda tangents, out, x, **params: ppermute_p(tangents[0], **params),
    transpose=lambda ct, x, *, axis_name, perm: [ppermute_p(ct, axis_name=axis_name, perm=tuple([(d, s) for s, d in perm]))],
    batch=_shifted(lambda: ppermute_p),
    collective=_permute_collective,
)


def _exchange_abstract(x: Aval, *, axis_name: Any, split_axis: int, concat_axis: int, size: int, tiled: bool) -> Aval:
    shape = list(x.shape)
    if tiled:
        if shape[split_axis] % size:
            raise ValueError(f"all_to_all: axis {split_axis} of {x} is not divisible by the size {size} of {axis_name!r}")
        shape[split_axis] //= size
        shape[concat_axis] *= size
    else:
        if shape[split_axis] != size:
            raise ValueError(f"all_to_all: axis {split_axis} of {x} must have the size {size} of the axis {axis_name!r}")
        del shape[split_axis]
        shape.insert(concat_axis, size)
    return Aval(tuple(shape), x.dtype)


def _exchange_collective(
    n: int,
    args: Sequence[Any],
    batched: Sequence[bool],
    *,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    size: int,
    tiled: bool,
) -> tuple[list, list]:
    x = _whole(n, args, batched)
    if tiled:  # the lane that receives is the first half of the split axis
        x = _parted(x, split_axis + 1, size)
    x = _moved(x, split_axis + 1, 0)  # (receiver, sender, the other axes)
    x = _moved(x, 1, concat_axis + 1)
    return [_merged(x, concat_axis + 1) if tiled else x], [True]


def _exchange_transpose(ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any) -> list[Any]:
    return [all_to_all_p(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


all_to_all_p = Primitive(
    "all_to_all",
    _outside("all_to_all"),
    _exchange_abstract,
    jvp=lambda tangents, out, x, **params: all_to_all_p(tangents[0], **params),
    transpose=_exchange_transpose,
    batch=_shifted(lambda: all_to_all_p, "split_axis", "concat_axis"),
    collective=_exchange_collective,
)

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
        return _psum(leaf, names)

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
    names = bound_names(axis_name, primitive.name)
    return tree.map(lambda leaf: leaf if _is_constant(leaf) else primitive(leaf, axis_name=names), x)


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
        at = _axis(axis, ndim + (not tiled), "all_gather")
        for i, name in enumerate(reversed(names)):
            size = bound(name, "all_gather")[0]
            if _is_constant(leaf):
                leaf = _gather_collective(size, [leaf], [False], axis_name=name, axis=at, size=size, tiled=tiled)[0][0]
            else:
                leaf = all_gather_p(leaf, axis_name=name, axis=at, size=size, tiled=tiled)
            if i and not tiled:
                leaf = _merged(leaf, at)
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

    def one(leaf: Any) -> Any:
        at = _axis(scatter_dimension, len(aval_of(leaf).shape), "psum_scatter")
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

    def one(leaf: Any) -> Any:
        ndim = len(aval_of(leaf).shape)
        split, concat = _axis(split_axis, ndim, "all_to_all"), _axis(concat_axis, ndim, "all_to_all")
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

"""Collectives: over named axes of `vmap` and of `distributed.spmd`.

Idea: a name is bound to lanes (an index tracer) or to processes (a communicator). Over lanes the operations of
collective.py are recorded; over processes those of axis_env.py run. Over names of both kinds, one goes after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.errors import UnboundAxisNameError
from funcad.host.where import setting, state
from funcad.ir.aval import Aval, aval_of, dtype_of, is_inexact, shape_of
from funcad.ir.primitive import Primitive
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import add, div, mul
from funcad.primitives.basic_indexing import gather
from funcad.primitives.comparison import eq, select
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_max, reduce_min, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_leading, concatenate, reshape, transpose

from funcad.primitives.axis_env import (  # isort: skip
    bound, bound_names, communicator, exchange_over, gather_over, groups_of, permute_over, reduce_over, scatter_over, single,
    tell_what_is_shared, tie_over,
)

# -- collectives: operations across a named axis of `vmap`
#
# Idea: `vmap(axis_name="i")` puts ("i", size, index tracer) into `state.axis_env` while its function is traced. A collective is
# recorded by the trace of its axis, or further inside, never further out: `bind` sees to it, so that a collective on a value
# from outside stays in the mapped program. When `vmap` removes that axis, the primitive's `collective` rule runs, with the
# mapped axis as axis 0; a collective on an unmapped value acts on `size` equal copies. When another axis is removed, the
# ordinary `batch` rule runs. Derivatives are those of JAX's vmap: psum is its own transpose, all_gather's is psum_scatter,
# ppermute's is the inverse permutation, all_to_all's swaps its axes.
#
# Trap: sizes are parameters, taken from the environment when the collective is recorded; so the environment is part of every
# cache key.


# ---------------------------------------------------------------- shapes


def moved(x: Any, source: int, destination: int) -> Any:
    order = [i for i in range(len(shape_of(x))) if i != source]
    order.insert(destination, source)
    return x if order == sorted(order) else transpose(x, perm=tuple(order))


def axis_position(axis: Any, ndim: int, what: str) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(f"{what}: axis {axis} is out of bounds for an array of {ndim} dimension(s)")
    return axis.__index__() % ndim


def is_constant(x: Any) -> bool:
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
    jvp=lambda tangents, out, x, *, axis_name: psum_over_lanes(tangents[0], axis_name),
    transpose=lambda ct, x, *, axis_name: [psum_over_lanes(ct, axis_name)],
    batch=lambda size, args, batched, *, axis_name: (psum_p(args[0], axis_name=axis_name), True),
    collective=_sum_collective,
)


def psum_over_lanes(x: Any, names: tuple) -> Any:
    if is_constant(x):
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
        count = psum_over_lanes(convert(tied, dtype), axis_name)
        return div(psum_over_lanes(select(tied, tangents[0], dtype.type(0)), axis_name), count)

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


def merged(x: Any, axis: int) -> Any:
    """Axes `axis` and `axis + 1` as one."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def parted(x: Any, axis: int, n: int) -> Any:
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


def gathered(
    n: int, args: Sequence[Any], batched: Sequence[bool], *, axis_name: Any, axis: int, size: int, tiled: bool
) -> tuple[list, list]:
    x = moved(_whole(n, args, batched), 0, axis)
    return [merged(x, axis) if tiled else x], [False]


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
    collective=gathered,
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
    return [moved(parted(x, axis, size) if tiled else x, axis, 0)], [True]


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
        x = parted(x, split_axis + 1, size)
    x = moved(x, split_axis + 1, 0)  # (receiver, sender, the other axes)
    x = moved(x, 1, concat_axis + 1)
    return [merged(x, concat_axis + 1) if tiled else x], [True]


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


# -- the collectives as users call them, over the named axes of `vmap` and of `distributed.spmd`


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


def _in_groups(
    alone: Callable[[Any, Any], Any],
    x: Any,
    axis_name: Any,
    groups: Any,
    rule: Callable[[Any, int], tuple[Primitive, dict[str, Any]]],
    what: str,
) -> Any:
    """The collective in each group: between processes over a communicator of their own, between lanes by one gather.

    alone: the collective without groups. rule: of an operand and the size of a group, the primitive and its parameters.
    """
    name, size = single(axis_name, what)
    groups = groups_of(groups, size, what)
    comm = communicator(name)
    if comm is not None:
        part = comm.part(groups)
        with setting(axis_env=(*state.axis_env, (name, part.size, part))):
            return alone(x, name)
    most, equal = max(map(len, groups)), len(set(map(len, groups))) == 1
    members, own = np.full((size, most), size), np.zeros(size, np.int64)  # of each lane: who is in its group, its place there
    for group in groups:
        for i, lane in enumerate(group):
            members[lane, : len(group)], own[lane] = group, i

    def one(leaf: Any) -> Any:
        shape, dtype = shape_of(leaf), dtype_of(leaf)
        primitive, params = rule(leaf, most)
        if "size" in params:
            primitive.abstract_eval(Aval(shape, dtype), **params)
        every = all_gather(leaf, name)
        if not equal:  # who is missing in a group counts as zero
            every = concatenate([every, broadcast_in_dim(dtype.type(0), shape=(1, *shape), axes=())], axis=0)
        table, places = on_device_of([members, own], [every])
        at = axis_index(name)
        rows = gather(every, gather(table, at), unique=equal)
        (out,), (mapped,) = primitive.collective(most, [rows], [True], **params)
        return gather(out, gather(places, at)) if mapped else out

    return tree.map(one, x)


def _size_of_group(axis_name: Any, groups: Any) -> Any:
    name, size = single(axis_name, "pmean")
    sizes = {lane: len(group) for group in groups_of(groups, size, "pmean") for lane in group}
    if len(set(sizes.values())) == 1:
        return sizes[0]
    at, table = axis_index(name), np.array([sizes[i] for i in range(size)])
    return table[at] if is_constant(at) else gather(on_device_of([table], [at])[0], at)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over a mapped axis.

    Parameters
    ----------
    x : array, number or container of them
        What this example has.
    axis_name : hashable, or tuple of them
        A name that an enclosing `vmap(axis_name=...)` or `distributed.spmd` binds, or several.
    axis_index_groups : list of lists of ints, optional
        Sums side by side: lists of the numbers of examples, each of which is in one of them.

    Returns
    -------
    like x
        The same for all examples. Booleans are counted; `psum(1, name)` is the size of the axis, a Python integer.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.

    Notes
    -----
    Its derivative is a `psum`, too. As `jax.lax.psum`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x / funcad.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    >>> pairs = lambda x: funcad.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]])
    >>> funcad.vmap(pairs, axis_name="i")(np.array([1.0, 2.0, 10.0, 20.0]))
    array([ 3.,  3., 30., 30.])

    See also
    --------
    pmean, pmax, all_gather, vmap
    """
    names = bound_names(axis_name, "psum")

    def counted(leaf: Any) -> Any:
        if aval_of(leaf).dtype.kind == "b":
            return convert(leaf, np.dtype(int)) if type(leaf) is not bool else int(leaf)
        return leaf

    x = tree.map(counted, x)
    if axis_index_groups is not None:
        return _in_groups(psum, x, axis_name, axis_index_groups, lambda leaf, m: (psum_p, {"axis_name": ()}), "psum")
    return tree.map(lambda leaf: _sum(leaf, names), x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over a mapped axis.

    Parameters
    ----------
    x : array, number or container of them
        What this example has.
    axis_name, axis_index_groups
        As for `psum`.

    Returns
    -------
    like x
        The same for all examples; float64 for integers and booleans.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.

    Notes
    -----
    As `jax.lax.pmean`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x - funcad.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    >>> pairs = lambda x: funcad.pmean(x, "i", axis_index_groups=[[0, 1], [2, 3]])
    >>> funcad.vmap(pairs, axis_name="i")(np.array([1.0, 2.0, 10.0, 20.0]))
    array([ 1.5,  1.5, 15. , 15. ])

    See also
    --------
    psum, vmap
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = axis_size(axis_name) if axis_index_groups is None else _size_of_group(axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        if not is_inexact(aval_of(leaf)):
            leaf = convert(leaf, np.dtype(float))
        if type(size) is Tracer:
            n = convert(size, dtype_of(leaf))
            return div(leaf, broadcast_in_dim(n, shape=shape_of(leaf), axes=()) if shape_of(leaf) else n)
        return leaf / size if type(leaf) in (float, complex) else div(leaf, dtype_of(leaf).type(size))

    return tree.map(one, total)


def _extremum_over(primitive: Primitive, x: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    if axis_index_groups is not None:
        alone, rule = functools.partial(_extremum_over, primitive, axis_index_groups=None), (primitive, {"axis_name": ()})
        return _in_groups(alone, x, axis_name, axis_index_groups, lambda leaf, m: rule, primitive.name)
    lanes, comms = _split_names(bound_names(axis_name, primitive.name))

    def one(leaf: Any) -> Any:
        if lanes and not is_constant(leaf):
            leaf = primitive(leaf, axis_name=lanes)
        for comm in comms:
            leaf = _python(tie_over(leaf, comm, primitive.name[1:]), leaf)
        return leaf

    return tree.map(one, x)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The maximum over a mapped axis.

    Parameters
    ----------
    x : array, number or container of them
        What this example has.
    axis_name, axis_index_groups
        As for `psum`.

    Returns
    -------
    like x
        The same for all examples.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.

    Notes
    -----
    Examples that tie share the derivative; `jax.lax.pmax` has none.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.pmax(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([3., 3.])
    >>> pairs = lambda x: funcad.pmax(x, "i", axis_index_groups=[[0, 1], [2, 3]])
    >>> funcad.vmap(pairs, axis_name="i")(np.array([1.0, 2.0, 10.0, 20.0]))
    array([ 2.,  2., 20., 20.])

    See also
    --------
    pmin, psum
    """
    return _extremum_over(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The minimum over a mapped axis.

    Parameters
    ----------
    x : array, number or container of them
        What this example has.
    axis_name, axis_index_groups
        As for `psum`.

    Returns
    -------
    like x
        The same for all examples.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.

    Notes
    -----
    Examples that tie share the derivative; `jax.lax.pmin` has none.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([1., 1.])
    >>> pairs = lambda x: funcad.pmin(x, "i", axis_index_groups=[[0, 1], [2, 3]])
    >>> funcad.vmap(pairs, axis_name="i")(np.array([1.0, 2.0, 10.0, 20.0]))
    array([ 1.,  1., 10., 10.])

    See also
    --------
    pmax, psum
    """
    return _extremum_over(pmin_p, x, axis_name, axis_index_groups)


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False) -> Any:
    """The values of all examples along a mapped axis.

    Parameters
    ----------
    x : array, number or container of them
        What this example has.
    axis_name, axis_index_groups
        As for `psum`.
    axis : int
        Where the axis of the examples stands in the result.
    tiled : bool
        Join along the existing axis, instead of stacking along a new one.

    Returns
    -------
    like x
        The same for all examples, with one more axis of the size of the mapped one; with `tiled`, with a longer axis.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.

    Notes
    -----
    As `jax.lax.all_gather`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: funcad.all_gather(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([[1., 3.],
           [1., 3.]])
    >>> joined = lambda x: funcad.all_gather(x, "i", tiled=True)
    >>> funcad.vmap(joined, axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2., 3., 4.],
           [1., 2., 3., 4.]])

    See also
    --------
    psum, ppermute, vmap
    """
    names = bound_names(axis_name, "all_gather")
    if axis_index_groups is not None:

        def rule(leaf: Any, size: int) -> tuple[Primitive, dict[str, Any]]:
            at = axis_position(axis, len(shape_of(leaf)) + (not tiled), "all_gather")
            return all_gather_p, {"axis_name": axis_name, "axis": at, "size": size, "tiled": tiled}

        alone = functools.partial(all_gather, axis=axis, tiled=tiled)
        return _in_groups(alone, x, axis_name, axis_index_groups, rule, "all_gather")

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
    if axis_index_groups is not None:

        def rule(leaf: Any, size: int) -> tuple[Primitive, dict[str, Any]]:
            at = axis_position(scatter_dimension, len(shape_of(leaf)), "psum_scatter")
            return psum_scatter_p, {"axis_name": axis_name, "axis": at, "size": size, "tiled": tiled}

        alone = functools.partial(psum_scatter, scatter_dimension=scatter_dimension, tiled=tiled)
        return _in_groups(alone, x, axis_name, axis_index_groups, rule, "psum_scatter")
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
    """Send values from example to example along a mapped axis.

    Parameters
    ----------
    x : array, number or container of them
        What this example sends.
    axis_name : hashable, or tuple of them
        A name that an enclosing `vmap(axis_name=...)` or `distributed.spmd` binds, or several.
    perm : sequence of pairs of ints
        Pairs (source, destination).

    Returns
    -------
    like x
        What this example receives; zeros where nothing arrives.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.
    ValueError
        A source or a destination occurs twice, or is no example.

    Notes
    -----
    As `jax.lax.ppermute`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> shift = lambda x: funcad.ppermute(x, "i", [(0, 1), (1, 2)])
    >>> funcad.vmap(shift, axis_name="i")(np.array([1.0, 2.0, 3.0]))
    array([0., 1., 2.])

    See also
    --------
    all_gather, psum, axis_index
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
    if axis_index_groups is not None:

        def rule(leaf: Any, size: int) -> tuple[Primitive, dict[str, Any]]:
            axes = [axis_position(axis, len(shape_of(leaf)), "all_to_all") for axis in (split_axis, concat_axis)]
            params = {"split_axis": axes[0], "concat_axis": axes[1]}
            return all_to_all_p, {"axis_name": axis_name, **params, "size": size, "tiled": tiled}

        alone = functools.partial(all_to_all, split_axis=split_axis, concat_axis=concat_axis, tiled=tiled)
        return _in_groups(alone, x, axis_name, axis_index_groups, rule, "all_to_all")
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
    """The number of the example along a mapped axis.

    Parameters
    ----------
    axis_name : hashable, or tuple of them
        A name that an enclosing `vmap(axis_name=...)` or `distributed.spmd` binds. Several names are counted row by
        row.

    Returns
    -------
    int array of shape ()
        From 0 on; it has no derivative.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.

    Notes
    -----
    As `jax.lax.axis_index`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x + funcad.axis_index("i"), axis_name="i")(np.zeros(3))
    array([0., 1., 2.])

    See also
    --------
    axis_size, vmap
    """
    names = bound_names(axis_name, "axis_index")
    total = None
    for name in names:
        size, index = bound(name, "axis_index")
        index = index if communicator(name) is None else np.int64(index.rank)
        total = index if total is None else add(mul(total, np.int64(size)), index)
    return 0 if total is None else total


def axis_size(axis_name: Any) -> int:
    """The number of examples along a mapped axis.

    Parameters
    ----------
    axis_name : hashable, or tuple of them
        A name that an enclosing `vmap(axis_name=...)` or `distributed.spmd` binds; several give the product.

    Returns
    -------
    int
        A Python integer, never traced.

    Raises
    ------
    UnboundAxisNameError
        Nothing around it binds the name.

    Notes
    -----
    As `jax.lax.axis_size`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x: x / funcad.axis_size("i"), axis_name="i")(np.ones(4))
    array([0.25, 0.25, 0.25, 0.25])

    See also
    --------
    axis_index, psum
    """
    size = 1
    for name in bound_names(axis_name, "axis_size"):
        size *= bound(name, "axis_size")[0]
    return size


for _public in (psum, pmean, pmax, pmin, all_gather, psum_scatter, ppermute, pshuffle, all_to_all, axis_index, axis_size):
    tell_what_is_shared(_public)

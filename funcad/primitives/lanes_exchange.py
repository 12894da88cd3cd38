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

from funcad.errors import UnboundAxisNameError
from funcad.host.state import state
from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import div, mul
from funcad.primitives.axis_env import bound
from funcad.primitives.comparison import eq, select
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_max, reduce_min, reduce_sum
from funcad.primitives.scatter import gather
from funcad.primitives.shape import broadcast_in_dim, broadcast_leading, reshape, transpose

__all__ = ["all_gather_p", "all_to_all_p", "axis_position", "gathered", "is_constant", "merged", "moved", "parted", "pmax_p"]
__all__ += ["pmin_p", "ppermute_p", "psum_over_lanes", "psum_scatter_p"]


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

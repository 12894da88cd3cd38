"""Python functions applied along axes, and positions in arrays: vectorize, apply_along_axis, unravel_index ..."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.aval import shape_of
from funcad.ir.tracer import Tracer, has_value
from funcad.numpy.axes import array_of, axis_of, move, shape_argument
from funcad.numpy.dispatch import implements
from funcad.primitives.shape import broadcast_to, reshape
from funcad.transforms.vmap import vmap

__all__ = ["vectorize", "apply_along_axis", "apply_over_axes", "unravel_index", "ravel_multi_index"]

_ARGUMENT = re.compile(r"\(([^()]*)\)")


def _core_names(signature: str) -> tuple[list[list[str]], list[list[str]]]:
    sides = signature.replace(" ", "").split("->")
    if len(sides) != 2:
        raise ValueError(f"not a valid gufunc signature: {signature!r}")
    names = [[[d for d in inner.split(",") if d] for inner in _ARGUMENT.findall(side)] for side in sides]
    return names[0], names[1]


def vectorize(pyfunc: Callable[..., Any], *, excluded: Any = frozenset(), signature: str | None = None) -> Callable[..., Any]:
    """A function that broadcasts its arguments and maps `pyfunc` over their elements (or cores, given a gufunc signature).

    Unlike `numpy.vectorize` it calls `pyfunc` once, with traced values, by `vmap`: it is fast and differentiable.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.vectorize(lambda a, b: a * b + 1.0)(np.arange(3.0), 2.0)
    array([1., 3., 5.])
    """
    excluded = set(excluded)

    @functools.wraps(pyfunc)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {i: a for i, a in enumerate(args) if i in excluded}
        arrays = [array_of(a) for i, a in enumerate(args) if i not in excluded]
        ranks = [0] * len(arrays)
        if signature is not None:
            cores = _core_names(signature)[0]
            if len(cores) != len(arrays):
                raise TypeError(f"wrong number of positional arguments: expected {len(cores)}, got {len(arrays)}")
            ranks = [len(c) for c in cores]
        shapes = [shape_of(a) for a in arrays]
        loop = np.broadcast_shapes(*[s[: len(s) - r] for s, r in zip(shapes, ranks)])
        flat = []
        for a, s, r in zip(arrays, shapes, ranks):
            core = s[len(s) - r :]
            flat.append(reshape(broadcast_to(a, (*loop, *core)), shape=(int(np.prod(loop, dtype=np.int64)), *core)))

        def call(*values: Any) -> Any:
            it = iter(values)
            return pyfunc(*[fixed[i] if i in fixed else next(it) for i in range(len(args))], **kwargs)

        if not loop:
            return call(*arrays)
        result = vmap(call)(*flat)
        if isinstance(result, tuple):
            return tuple([np.reshape(r, (*loop, *shape_of(r)[1:])) for r in result])
        return np.reshape(result, (*loop, *shape_of(result)[1:]))

    return mapped


@implements("apply_along_axis")
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    x = array_of(arr)
    axis = axis_of(axis, len(shape_of(x)))
    lines = move(x, axis, len(shape_of(x)) - 1)
    outer = shape_of(lines)[:-1]
    lines = reshape(lines, shape=(int(np.prod(outer, dtype=np.int64)), shape_of(lines)[-1]))
    if type(x) is Tracer and not has_value(x):
        result = vmap(lambda line: func1d(line, *args, **kwargs))(lines)
    else:
        result = np.stack([func1d(lines[i], *args, **kwargs) for i in range(shape_of(lines)[0])])
    inner = shape_of(result)[1:]
    result = np.reshape(result, (*outer, *inner))
    return np.moveaxis(result, range(len(outer), len(outer) + len(inner)), range(axis, axis + len(inner)))


@implements("apply_over_axes")
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    x = array_of(a)
    ndim = len(shape_of(x))
    for axis in np.atleast_1d(axes):
        result = func(x, int(axis) % ndim)
        x = result if len(shape_of(result)) == ndim else np.expand_dims(result, int(axis) % ndim)
    return x


@implements("unravel_index")
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple:
    """`numpy.unravel_index`; inside jit, positions out of bounds are not noticed."""
    index = array_of(indices)
    sizes = shape_argument(shape)
    places = []
    for n in sizes[::-1] if order == "C" else sizes:
        places.append(np.remainder(index, n))
        index = np.floor_divide(index, n)
    return tuple(places[::-1] if order == "C" else places)


@implements("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """`numpy.ravel_multi_index`; inside jit, positions out of bounds are not noticed (mode="raise")."""
    sizes = shape_argument(dims)
    modes = mode if isinstance(mode, tuple) else (mode,) * len(sizes)
    result: Any = 0
    entries = [array_of(m) for m in multi_index]
    steps = list(zip(entries, sizes, modes))
    for index, n, how in steps if order == "C" else steps[::-1]:
        if how == "wrap":
            index = np.remainder(index, n)
        elif how == "clip":
            index = np.clip(index, 0, n - 1)
        result = result * n + index
    return result

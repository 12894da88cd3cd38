"""`associative_scan`: all prefixes of an associative operation, in a number of steps that grows like the logarithm.

Idea: combine neighbours, scan the half as long result, which gives every second prefix, and combine those with the elements
in between for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad import tree
from funcad.api.border import api, call_as, name_of, own_memory
from funcad.control.body import check_structure, prepare
from funcad.ir.aval import aval_of, shape_of
from funcad.primitives.basic_indexing import static_slice
from funcad.primitives.shape import concatenate, reshape, rev, slice_p

__all__ = ["associative_scan"]


def _every_second(x: Any, start: int, stop: int, axis: int) -> Any:
    """x[start:stop:2] along an axis."""
    shape = shape_of(x)
    return slice_p(
        x,
        start=tuple([start if i == axis else 0 for i in range(len(shape))]),
        limit=tuple([stop if i == axis else n for i, n in enumerate(shape)]),
        strides=tuple([2 if i == axis else 1 for i in range(len(shape))]),
    )


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ...; `even` may have one element more."""
    shape = shape_of(odd)
    n = shape[axis]
    paired = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    both = [reshape(static_slice(even, 0, n, axis), shape=paired), reshape(odd, shape=paired)]
    woven = reshape(concatenate(both, axis=axis + 1), shape=(*shape[:axis], 2 * n, *shape[axis + 1 :]))
    last = shape_of(even)[axis]
    return woven if last == n else concatenate([woven, static_slice(even, n, last, axis)], axis=axis)


@api
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Prefixes `e0, fn(e0, e1), fn(fn(e0, e1), e2), ...` of an associative fn along an axis of a pytree of arrays.

    `fn(a, b)` takes two pytrees like elems, with any length along the axis, and combines them element by element. The work is
    done in about 2 log2(n) calls of fn, on many elements at once. `reverse` gives suffixes. ValueError if lengths differ. As
    JAX's.

    >>> import numpy as np, funcad
    >>> funcad.associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])
    """
    leaves, structure = prepare("associative_scan", elems, "elems")
    axes, lengths = [], []
    for path, x in zip(structure.paths(), leaves):
        ndim = len(shape_of(x))
        if not -ndim <= axis < ndim:
            where = f"elems{tree.keystr(path)}, which is {aval_of(x)}"
            raise ValueError(f"associative_scan: axis {axis} is out of bounds for {where}")
        axes.append(axis % ndim)
        lengths.append(shape_of(x)[axis])
    if len(set(lengths)) > 1:
        lines = "\n".join(f"  elems{tree.keystr(p)} has {n}" for p, n in zip(structure.paths(), lengths))
        raise ValueError(f"associative_scan: lengths along axis {axis} must be equal, but\n{lines}")

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        out = call_as("associative_scan calls fn(a, b)", fn, structure.unflatten(a), structure.unflatten(b))
        result, found = prepare("associative_scan", out, f"the value returned by {name_of(fn)}")
        check_structure("associative_scan", found, structure, f"the value returned by {name_of(fn)}", "elems")
        for path, x, y in zip(structure.paths(), a, result):
            if shape_of(x) != shape_of(y):
                raise TypeError(
                    f"associative_scan: {name_of(fn)} returned {aval_of(y)} for elems{tree.keystr(path)}, where it was given "
                    f"{aval_of(x)}; it must keep shapes"
                )
        return result

    def prefixes(values: list[Any]) -> list[Any]:
        n = shape_of(values[0])[axes[0]]
        if n < 2:
            return values
        firsts = [_every_second(x, 0, n - 1, a) for x, a in zip(values, axes)]
        seconds = [_every_second(x, 1, n, a) for x, a in zip(values, axes)]
        odd = prefixes(combine(firsts, seconds))
        before = [static_slice(x, 0, (n - 1) // 2, a) for x, a in zip(odd, axes)]
        even = [static_slice(x, 0, 1, a) for x, a in zip(values, axes)]
        if n > 2:
            rest = combine(before, [_every_second(x, 2, n, a) for x, a in zip(values, axes)])
            even = [concatenate([x, y], axis=a) for x, y, a in zip(even, rest, axes)]
        return [_interleave(x, y, a) for x, y, a in zip(even, odd, axes)]

    if not leaves:
        return elems
    values = [rev(x, axes=(a,)) for x, a in zip(leaves, axes)] if reverse else leaves
    found = prefixes(values)
    if reverse:
        found = [rev(x, axes=(a,)) for x, a in zip(found, axes)]
    return structure.unflatten(own_memory(found, leaves))

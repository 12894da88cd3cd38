"""Groups of small examples (kind "batch") on NumPy: a block of examples at a time, the examples along the last axis.

Idea: NumPy is slow on arrays whose last axis is a few elements long, since that axis is its inner loop. So a block of examples
is copied with the batch as the last axis, the group's program is rewritten for such arrays (`turned`), and what it computes
stays in the processor's cache until the results are copied back. Invariants: the last block overlaps the one before it, and
writes the same bits again; blocks are the same whatever the number of threads. Trap: a product becomes a sum of products in
the order of the axes, not a call of BLAS, which has nothing to gain from a few elements.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from funcad.backends.buffers import empty
from funcad.backends.workers import parallel
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.passes.batch import batched_inputs
from funcad.primitives.arithmetic import mul_p
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim_p, transpose_p

__all__ = ["runner", "turned"]

BLOCK_BYTES = 192 * 1024  # of the largest value of a block
LEAST = 1 << 14  # elements of the largest value of the whole batch, below which blocks do not pay
THREADED = 300_000  # elements that are computed, from which on threads pay


def runner(equation: Equation) -> Callable[..., list[Any]] | None:
    """`function(*arrays) -> results` of a group; None if it is too small for blocks."""
    params = equation.params
    group, (size,) = params["jaxpr"], params["shape"]
    widest = max([prod(v.aval.shape[1:]) * v.aval.dtype.itemsize for e in group.equations for v in e.outputs])
    if widest * size < 8 * LEAST:
        return None
    block = min(size, max(64, BLOCK_BYTES // widest))
    batched = batched_inputs(group)
    computed = sum([prod(e.outputs[0].aval.shape) for e in group.equations if e.primitive.emit is not None])
    results = [(v.aval.shape, v.aval.dtype) for v in group.outputs]
    compiled: list[Callable[[list], list]] = []

    def blocks(low: int, high: int, arrays: tuple, found: list) -> None:
        (function,) = compiled
        for i in range(low, high, block):
            start = min(i, size - block)
            values = [_last(a[start : start + block]) if own else a for a, own in zip(arrays, batched)]
            for out, part in zip(found, function(values)):
                np.copyto(out[start : start + block], _first(part))

    def run(*arrays: Any) -> list[Any]:
        if not compiled:
            generate = importlib.import_module("funcad.backends.generate").generate
            compiled.append(generate(turned(group, block)).function)
        found = [empty(*r) for r in results]
        if computed >= THREADED:
            parallel(blocks, size, block, arrays, found)
        else:
            blocks(0, size, arrays, found)
        return found

    return run


def _last(a: np.ndarray) -> np.ndarray:
    """A contiguous copy with the first axis as the last."""
    a = np.asarray(a)
    out = np.empty((*a.shape[1:], a.shape[0]), a.dtype.newbyteorder("="))
    np.copyto(out, np.moveaxis(a, 0, -1) if a.ndim > 1 else a)
    return out


def _first(a: np.ndarray) -> np.ndarray:
    return np.moveaxis(a, -1, 0) if a.ndim > 1 else a


def turned(jaxpr: Jaxpr, size: int) -> Jaxpr:
    """A group for `size` examples, all values having the batch as their last axis."""
    new: dict[Any, Any] = {}
    equations: list[Equation] = []
    for v, own in zip(jaxpr.inputs, batched_inputs(jaxpr)):
        new[v] = _var((*v.aval.shape[1:], size), v.aval.dtype) if own else v
    for equation in jaxpr.equations:
        (out,) = equation.outputs
        new[out] = _var((*out.aval.shape[1:], size), out.aval.dtype)
        inputs = [new.get(a, a) for a in equation.inputs]
        if equation.primitive.name == "dot_general":
            equations += _product(equation, inputs, new[out], size)
            continue
        params = _params(equation, size)
        equations.append(Equation(equation.primitive, tuple(inputs), params, (new[out],), equation.source))
    return Jaxpr(tuple([new[v] for v in jaxpr.inputs]), tuple(equations), tuple([new[o] for o in jaxpr.outputs]))


def _var(shape: tuple, dtype: np.dtype) -> Var:
    return Var(Aval(shape, dtype))


def _turn(items: tuple, last: Any = None) -> tuple:
    """The first item as the last, or `last` in its place."""
    return (*items[1:], items[0] if last is None else last)


def _params(equation: Equation, size: int) -> dict[str, Any]:
    """An equation's params with the batch as the last axis."""
    name, params = equation.primitive.name, dict(equation.params)
    if equation.primitive.emit is not None:
        return params
    whole = (0, size, 1)
    end = len(equation.outputs[0].aval.shape) - 1
    if name == "broadcast_in_dim":
        params["shape"] = _turn(params["shape"], size)
        axes = tuple([axis - 1 if axis else end for axis in params["axes"]])
        params["axes"] = (*axes[1:], end) if params["axes"][:1] == (0,) else axes
    elif name == "reshape":
        params["shape"] = _turn(params["shape"], size)
    elif name == "transpose":
        params["perm"] = tuple([axis - 1 if axis else end for axis in _turn(params["perm"])])
    elif name in ("basic_index", "basic_place", "basic_update"):
        params["index"] = _turn(params["index"], whole)
    elif name == "place_sum":
        params["indices"] = tuple([_turn(index, whole) for index in params["indices"]])
    elif name == "slice":
        params["start"], params["limit"] = _turn(params["start"]), _turn(params["limit"], size)
        params["strides"] = params["strides"] and _turn(params["strides"])
    elif name == "pad":
        params |= {key: _turn(params[key]) for key in ("low", "high", "interior")}
    elif name == "concatenate":
        params["axis"] -= 1
    else:  # rev and the reductions
        params["axes"] = tuple([axis - 1 for axis in params["axes"]])
    if name in ("basic_place", "place_sum"):
        params["shape"] = _turn(params["shape"], size)
    return params


def _product(equation: Equation, inputs: list[Any], out: Var, size: int) -> list[Equation]:
    """A product as a sum of products: axes of both, of the first, of the second, summed ones, batch."""
    (cx, cy), (bx, by) = equation.params["dimension_numbers"]
    x, y = equation.inputs
    free_x = [i for i in range(1, x.aval.ndim) if i not in (*cx, *bx)]
    batch_y = bool(by)
    free_y = [i for i in range(batch_y, y.aval.ndim) if i not in (*cy, *by)]
    order_x = [*bx[1:], *free_x, *cx]
    shape = [x.aval.shape[i] for i in [*bx[1:], *free_x]] + [y.aval.shape[i] for i in free_y]
    n = len(shape)
    shape += [x.aval.shape[i] for i in cx] + [size]
    place_x = dict(zip(order_x, [*range(n - len(free_y)), *range(n, len(shape) - 1)]))
    place_y = dict(zip([*by[1:], *free_y, *cy], [*range(len(by[1:])), *range(n - len(free_y), len(shape) - 1)]))
    axes_x = [place_x[i] for i in range(1, x.aval.ndim)] + [len(shape) - 1]
    axes_y = [place_y[i] for i in range(batch_y, y.aval.ndim)] + [len(shape) - 1] * batch_y
    equations, terms = [], []
    for v, axes in zip(inputs, (axes_x, axes_y)):
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order != list(range(len(axes))):  # broadcast_in_dim keeps the order of axes
            turned_v = _var(tuple([v.aval.shape[i] for i in order]), v.aval.dtype)
            equations.append(Equation(transpose_p, (v,), {"perm": tuple(order)}, (turned_v,), equation.source))
            v = turned_v
        term = _var(tuple(shape), v.aval.dtype)
        params = {"shape": tuple(shape), "axes": tuple(sorted(axes))}
        equations.append(Equation(broadcast_in_dim_p, (v,), params, (term,), equation.source))
        terms.append(term)
    product = _var(tuple(shape), out.aval.dtype)
    equations.append(Equation(mul_p, tuple(terms), {}, (product,), equation.source))
    axes_sum = tuple(range(n, len(shape) - 1))
    return [*equations, Equation(reduce_sum_p, (product,), {"axes": axes_sum}, (out,), equation.source)]

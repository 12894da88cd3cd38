"""One element of each row: a value placed there is a choice, which a loop over rows takes in.

Idea: the derivative of `log_softmax(z)[rows, labels]` places one number in each row of an array of zeros. Written out it is a
whole array, written, and read again by the loop that follows; as `select(label == position, number, 0)` it is element
operations of that loop, and the sum of such a row is the number. Invariants: the same bits, signs of zero included; an index
out of bounds raises, since it is looked at first. Trap: what no loop reads stays as it is, for there writing n numbers is less
than n rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.rewrite import Work, fits, rewrite
from funcad.primitives.arithmetic import add
from funcad.primitives.atoms import fold_of
from funcad.primitives.comparison import eq, select
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.row_places import checked_index_p, positions_p
from funcad.primitives.scatter import scatter_p
from funcad.primitives.shape import broadcast_in_dim, reshape

__all__ = ["row_scatters"]

WIDEST = 1 << 14  # elements of a row: beyond, comparing each costs more than an array of zeros


def row_scatters(jaxpr: Jaxpr) -> Jaxpr:
    """The program with placements of one element per row, which loops read, as choices."""
    if not any([e.primitive is scatter_p for e in jaxpr.equations]):
        return jaxpr
    read = {a for e in jaxpr.equations if e.primitive.emit is not None or fold_of(e.primitive) for a in e.inputs}
    masks: dict[tuple, Any] = {}  # one look at the indices, one comparison
    numbers: dict[Var, Any] = {}  # what was placed -> the numbers of the rows

    def step(work: Work, equation: Equation) -> Any:
        if equation.primitive is scatter_p and equation.outputs[0] in read:
            return _choice(work, equation, masks, numbers)
        if equation.primitive is reduce_sum_p:
            x, axes = equation.inputs[0], equation.params["axes"]
            found = numbers.get(x) if axes == (x.aval.ndim - 1,) else None
            if type(found) is Literal:
                params = {"shape": x.aval.shape[:-1], "axes": ()}
                found = work.add(broadcast_in_dim, [found], params, equation.source)
            return None if found is None or not fits(found.aval, equation.outputs[0].aval) else [found]
        return None

    return rewrite(jaxpr, step)


def _choice(work: Work, equation: Equation, masks: dict, numbers: dict) -> Any:
    x, u, *indices = equation.inputs
    (out,), params, source = equation.outputs, equation.params, equation.source
    shape = out.aval.shape
    rows, axis = shape[:-1], len(shape) - 1
    if params["mode"] not in ("add", "set") or params["batch_dims"] != axis or not axis or not 0 < shape[-1] <= WIDEST:
        return None
    made = work.definition(x, broadcast_in_dim)
    start = made.inputs[0] if made is not None else None
    if type(start) is not Literal or any(np.asarray(start.value).tobytes()):  # 0.0, never -0.0
        return None
    index = indices[0]
    if type(index) is Literal or index.aval.shape not in (rows, (*rows, 1)):
        return None
    key = index, shape
    if key not in masks:
        dtype = np.dtype(np.int32 if out.aval.dtype.itemsize <= 4 else np.int64)  # compared in lanes of the same width
        own = work.add(checked_index_p, [index], {"shape": rows, "size": shape[-1], "axis": axis, "dtype": dtype}, source)
        every = work.add(positions_p, [], {"size": shape[-1], "dtype": dtype}, source)
        own = work.add(broadcast_in_dim, [own], {"shape": shape, "axes": tuple(range(axis))}, source)
        every = work.add(broadcast_in_dim, [every], {"shape": shape, "axes": (axis,)}, source)
        masks[key] = work.add(eq, [own, every], {}, source)
    filled = work.definition(u, broadcast_in_dim) if type(u) is not Literal else None
    number = filled.inputs[0] if filled is not None and type(filled.inputs[0]) is Literal else _in_shape(work, u, rows, source)
    if params["mode"] == "add" and out.aval.dtype.kind in "fc":
        if type(number) is Literal:
            number = Literal(out.aval.dtype.type(number.value) + out.aval.dtype.type(0))
        else:
            number = work.add(add, [number, Literal(out.aval.dtype.type(0))], {}, source)  # -0.0 becomes 0.0
    if type(number) is Literal:
        chosen = number
    else:
        chosen = work.add(broadcast_in_dim, [number], {"shape": shape, "axes": tuple(range(axis))}, source)
    placed = work.add(select, [masks[key], chosen, Literal(out.aval.dtype.type(0))], {}, source)
    if not fits(placed.aval, out.aval):
        return None
    if params["mode"] == "add":
        numbers[placed] = number
    return [placed]


def _in_shape(work: Work, x: Any, shape: tuple, source: Any) -> Any:
    return x if x.aval.shape == shape else work.add(reshape, [x], {"shape": shape}, source)

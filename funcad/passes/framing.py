"""Writes to most of an array as whole arrays, for engines that read arrays in pieces (native/program_pieces.py).

`u.at[1:-1, 1:-1].set(v)` is v in a frame of u, a concatenation; `basic_add` to most of an array is an addition of the part in a
frame of negative zeros, which change nothing; several placements are added up as arrays in frames of zeros. So a step of a
stencil, and of its derivative, is element operations on index maps: one loop, whose result may be a loop's other buffer.
Trap: what writes only some elements stays in place, which is cheaper by far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from funcad.ir.jaxpr import Equation, Jaxpr, Literal
from funcad.passes.rewrite import Work, rewrite
from funcad.passes.subprograms import kind_of, with_subprograms
from funcad.primitives.arithmetic import add_p
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_place_p, basic_update_p, place_sum_p
from funcad.primitives.shape import broadcast_in_dim_p, concatenate_p

__all__ = ["framing"]

WIDE = 16  # elements of a row of the part, at least
TERMS = 8  # placements in one sum
Box = tuple[tuple[int, int], ...]


def framing(jaxpr: Jaxpr) -> Jaxpr:
    """The program with such writes as whole arrays, in the programs inside, too."""
    found: Jaxpr | None = jaxpr.memo.get("framing")
    if found is None:
        found = jaxpr.memo["framing"] = rewrite(jaxpr, _step)
        found.memo["framing"] = found
    return found


def _step(work: Work, equation: Equation) -> list[Any] | None:
    primitive, params, source = equation.primitive, equation.params, equation.source
    if primitive.multiple and kind_of(equation) is not None:
        new = with_subprograms(equation, framing)
        if new is not equation:
            work.keep(new)
            return list(new.outputs)
    elif primitive is basic_update_p or primitive is basic_add_p:
        x, u = equation.inputs
        box = _box(params["index"])
        if box is None or 2 * prod([b - a for a, b in box]) < prod(x.aval.shape):
            return None
        if primitive is basic_update_p:
            rest = lambda part: work.add(basic_index_p, (x,), {"index": tuple([(a, b - a, 1) for a, b in part])}, source)
            return [_framed(work, u, box, x.aval.shape, rest, source)]
        dtype = x.aval.dtype
        nothing = Literal(dtype.type(complex(-0.0, -0.0) if dtype.kind == "c" else -0.0 if dtype.kind == "f" else 0))
        shape_of = lambda part: {"shape": tuple([b - a for a, b in part]), "axes": ()}
        around = lambda part: work.add(broadcast_in_dim_p, (nothing,), shape_of(part), source)
        return [work.add(add_p, (x, _framed(work, u, box, x.aval.shape, around, source)), {}, source)]
    elif primitive is place_sum_p and len(params["indices"]) <= TERMS and None not in map(_box, params["indices"]):
        place = lambda x, index: work.add(basic_place_p, (x,), {"index": index, "shape": params["shape"]}, source)
        total, *others = map(place, equation.inputs, params["indices"])
        for x in others:
            total = work.add(add_p, (total, x), {}, source)
        return [total]
    return None


def _box(index: Sequence[Any]) -> Box | None:
    """The intervals that a basic index selects, if it selects one of each axis, the last one wide."""
    if not index or any([type(entry) is not tuple or entry[2] != 1 for entry in index]) or index[-1][1] < WIDE:
        return None
    return tuple([(start, start + count) for start, count, _ in index])


def _framed(work: Work, x: Any, box: Box, shape: tuple, around: Callable[[Box], Any], source: Any) -> Any:
    """x in its box of an array, of which `around(box)` is what lies in another box."""
    for axis in range(len(shape) - 1, -1, -1):
        (a, b), n = box[axis], shape[axis]
        beside = lambda start, stop: (*box[:axis], (start, stop), *[(0, m) for m in shape[axis + 1 :]])  # noqa: B023
        parts = [around(beside(s, e)) if at is None else at for s, e, at in ((0, a, None), (a, b, x), (b, n, None)) if s < e]
        x = parts[0] if len(parts) == 1 else work.add(concatenate_p, parts, {"axis": axis}, source)
    return x

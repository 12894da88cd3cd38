"""Writes to most of an array as whole arrays, for engines that read arrays in pieces (native/program_pieces.py).

`u.at[1:-1, 1:-1].set(v)` is v in a frame of u, a concatenation; `basic_add` to most of an array is an addition of the part in a
frame of negative zeros, which change nothing; several placements are added up as arrays in frames of zeros. So a step of a
stencil, and of its derivative, is element operations on index maps: one loop, whose result may be a loop's other buffer. A
cheap formula of one array is computed where it is read, at each place, so that nobody need write it: maps move in front of it.
Traps: what writes only some elements stays in place, which is cheaper by far; a frame may move in front of a formula only if
the formula gives what the frame holds, to the bit, for one of the two zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.prune import prune
from funcad.passes.rewrite import Work, rewrite
from funcad.passes.subprograms import kind_of, with_subprograms
from funcad.primitives.arithmetic import add
from funcad.primitives.atoms import atoms_of
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_place_p, basic_update_p, place_sum_p
from funcad.primitives.shape import broadcast_in_dim, concatenate_p, roll_p, slice_p

__all__ = ["framing"]

WIDE = 16  # elements of a row of the part, at least
TERMS = 8  # placements in one sum
CHEAP = frozenset(["add", "sub", "mul", "neg"])
REPEATED = 6  # operations of a formula that is computed at each place where it is read
ONCE = 16  # of one that is read at one place only
Box = tuple[tuple[int, int], ...]


def framing(jaxpr: Jaxpr) -> Jaxpr:
    """The program with such writes as whole arrays, in the programs inside, too."""
    found: Jaxpr | None = jaxpr.memo.get("framing")
    if found is None:
        found = jaxpr.memo["framing"] = prune(rewrite(jaxpr, _step))
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
        place = _placed(work, u, box, x.aval.shape, -0.0 if x.aval.dtype.kind in "fc" else 0, source)
        return [work.add(add, (x, place), {}, source)]
    elif primitive is place_sum_p and len(params["indices"]) <= TERMS:
        boxes = [_box(index) for index in params["indices"]]
        if None in boxes:
            return None
        total, *others = [_placed(work, x, box, params["shape"], 0, source) for x, box in zip(equation.inputs, boxes)]
        for x in others:
            total = work.add(add, (total, x), {}, source)
        return [total]
    elif primitive is basic_place_p and (box := _box(params["index"])) is not None:
        return [_placed(work, equation.inputs[0], box, params["shape"], 0, source)]
    elif primitive is roll_p or primitive is slice_p or primitive is basic_index_p:
        found = _formula(work, equation.inputs[0])
        if found is not None and equation.outputs[0].aval.shape:
            move = lambda x: work.add(primitive, (x,), params, source)
            return [_computed(work, found, {x: move(x) for x in found.leaves}, equation.outputs[0].aval.shape)]
    return None


def _box(index: Sequence[Any]) -> Box | None:
    """The intervals that a basic index selects, if it selects one of each axis, the last one wide."""
    if not index or any([type(entry) is not tuple or entry[2] != 1 for entry in index]) or index[-1][1] < WIDE:
        return None
    return tuple([(start, start + count) for start, count, _ in index])


def _placed(work: Work, x: Any, box: Box, shape: tuple, fill: float, source: Any) -> Any:
    """x in its box of an array that is `fill` elsewhere."""
    formula = _formula(work, x)
    if formula is not None:
        for zero in (0.0, -0.0):
            given = formula.at(zero)
            if given == fill and np.signbit(given) == np.signbit(fill):
                (leaf,) = formula.leaves
                return _computed(work, formula, {leaf: _placed(work, leaf, box, shape, zero, source)}, shape)
    if not fill and not np.signbit(fill):
        index = tuple([(a, b - a, 1) for a, b in box])
        return work.add(basic_place_p, (x,), {"index": index, "shape": shape}, source)
    dtype = x.aval.dtype
    value = Literal(dtype.type(complex(fill, fill) if dtype.kind == "c" else fill))
    shape_of = lambda part: {"shape": tuple([b - a for a, b in part]), "axes": ()}
    around = lambda part: work.add(broadcast_in_dim, (value,), shape_of(part), source)
    return _framed(work, x, box, shape, around, source)


class _Formula(NamedTuple):
    """Cheap operations in their order, and the arrays of floats that they are computed from."""

    equations: list[Equation]
    leaves: list[Var]

    def at(self, value: float) -> Any:
        """What it gives where its one array is `value`; NaN if there are more, or a number that is not known."""
        values: dict[Any, Any] = {}
        for equation in self.equations:
            dtype = equation.outputs[0].aval.dtype.type
            if equation.primitive is broadcast_in_dim or len(self.leaves) > 1:
                return dtype(np.nan)
            inputs = [dtype(a.value) if type(a) is Literal else values.get(a, dtype(value)) for a in equation.inputs]
            with np.errstate(all="ignore"):
                values[equation.outputs[0]] = equation.primitive.impl(np, *inputs, **equation.params)
        return values[self.equations[-1].outputs[0]]


def _formula(work: Work, x: Any) -> _Formula | None:
    """The formula that x is the result of: of one array, or each step of it read only once."""
    equations: list[Equation] = []
    leaves: list[Var] = []
    seen: set[Any] = set()
    shared = False

    def visit(a: Any) -> None:
        nonlocal shared
        if type(a) is Literal or a in seen or len(equations) > ONCE:
            return
        seen.add(a)
        maker = work.definitions.get(a)
        number = maker is not None and maker.primitive is broadcast_in_dim and not maker.inputs[0].aval.shape
        if maker is None or not (number or _cheap(maker, a)):
            leaves.append(a)
            return
        shared = shared or work.shared(a)
        if not number:
            for b in maker.inputs:
                visit(b)
        equations.append(maker)

    visit(x)
    most = REPEATED if len(leaves) == 1 else 0 if shared else ONCE
    return _Formula(equations, leaves) if equations and leaves and len(equations) <= most else None


def _cheap(equation: Equation, v: Var) -> bool:
    kept = all([type(a) is Literal or a.aval.shape == v.aval.shape and a.aval.dtype == v.aval.dtype for a in equation.inputs])
    atoms = atoms_of(equation)
    return kept and v.aval.dtype.kind == "f" and bool(v.aval.shape) and len(atoms) > 0 and CHEAP.issuperset(atoms)


def _computed(work: Work, formula: _Formula, values: dict[Any, Any], shape: tuple) -> Any:
    """The formula of these arrays in the place of its leaves."""
    for e in formula.equations:
        params = {**e.params, "shape": shape} if e.primitive is broadcast_in_dim else e.params
        values[e.outputs[0]] = work.add(e.primitive, [values.get(a, a) for a in e.inputs], params, e.source)
    return values[formula.equations[-1].outputs[0]]


def _framed(work: Work, x: Any, box: Box, shape: tuple, around: Callable[[Box], Any], source: Any) -> Any:
    """x in its box of an array, of which `around(box)` is what lies in another box."""
    for axis in range(len(shape) - 1, -1, -1):
        (a, b), n = box[axis], shape[axis]
        beside = lambda start, stop: (*box[:axis], (start, stop), *[(0, m) for m in shape[axis + 1 :]])  # noqa: B023
        parts = [around(beside(s, e)) if at is None else at for s, e, at in ((0, a, None), (a, b, x), (b, n, None)) if s < e]
        x = parts[0] if len(parts) == 1 else work.add(concatenate_p, parts, {"axis": axis}, source)
    return x

"""Writing and reading at known places.

The derivative of indexing is `basic_place`, zeros with a value at an index, and the derivative of several indexings of one
array is a sum of those: full-size arrays of zeros, written, read and added. Here such a sum is one `place_sum`, which adds
every value at its place in one array; values at the same place are added first. Invariant: not a bit changes, signs of zero
included. Traps: additions are not reassociated, so only a chain is taken, term after term; a placement that others read, too,
stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.passes.rewrite import Work, fits, rewrite, uses_of
from funcad.passes.subprograms import kind_of, with_subprograms
from funcad.primitives.arithmetic import add, neg, sub
from funcad.primitives.atoms import atoms_of, fold_of
from funcad.primitives.comparison import eq, select
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, concatenate_p, reshape, roll_p, slice_p

from funcad.primitives.basic_indexing import (  # isort: skip
    basic_add_p, basic_index_p, basic_place_p, basic_update_p, gather_p, place_sum_p, scatter_p,
)
from funcad.primitives.computed_slices import (  # isort: skip
    checked_index_p, dynamic_add_p, dynamic_slice_p, dynamic_update_slice_p, positions_p,
)

RELEVANT = frozenset([basic_place_p, basic_add_p, dynamic_slice_p, dynamic_update_slice_p, dynamic_add_p, gather_p, scatter_p])


def scatters(jaxpr: Jaxpr) -> Jaxpr:
    """The program with sums of placements in one array, and known bounds as slices."""
    if not any([e.primitive in RELEVANT for e in jaxpr.equations]):
        return jaxpr
    uses = uses_of(jaxpr)

    def step(work: Work, equation: Equation) -> Any:
        rule = _RULES.get(equation.primitive)
        found = None if rule is None else rule(work, equation, uses)
        if found is not None:
            uses[found] = uses.get(equation.outputs[0], 0)
            return [found]
        return None

    return rewrite(jaxpr, step)


def _placed(work: Work, atom: Any, uses: dict[Any, int]) -> Equation | None:
    """The placement, or sum of placements, that makes this value for one reader."""
    if type(atom) is Literal or uses.get(atom) != 1:
        return None
    return work.definition(atom, place_sum_p) or work.definition(atom, basic_place_p)


def _indices(equation: Equation) -> tuple:
    return equation.params["indices"] if equation.primitive is place_sum_p else (equation.params["index"],)


def _is_zero(work: Work, atom: Any) -> bool:
    """Is this 0.0 everywhere (or False), not -0.0?"""
    made = None if type(atom) is Literal else work.definition(atom, broadcast_in_dim)
    zero = atom if made is None else made.inputs[0]
    return type(zero) is Literal and not any(np.asarray(zero.value).tobytes())


def _windows(work: Work, atom: Any, uses: dict[Any, int]) -> list[Equation]:
    """The additions of windows to zeros that make this value for one reader, the first one first; [] if it is anything else."""
    found: list[Equation] = []
    while type(atom) is Var and uses.get(atom) == 1 and (e := work.definition(atom, dynamic_add_p)) is not None:
        found.append(e)
        atom = e.inputs[0]
    return found[::-1] if found and _is_zero(work, atom) else []


def _add_windows(work: Work, equation: Equation, x: Any, y: Any, uses: dict[Any, int]) -> Any:
    """x + y, where x is zeros to which one or two windows are added: these are added to y.

    Where both windows are, their sum is added, as in x: the second one is added to the first one there, and nothing of it to y.
    """
    windows = _windows(work, x, uses)
    if not windows or len(windows) > 2 or type(y) is not Var or not fits(y.aval, x.aval):
        return None
    shape, source = x.aval.shape, equation.source
    values = [w.inputs[1] for w in windows]
    starts = [w.inputs[2:] for w in windows]
    truths = x.aval.dtype.kind == "b"
    if len(windows) == 2 and not truths:
        both = _both(values, starts, shape)
        if both is None:
            return None
        sizes, first, second = both
        zeros = work.add(broadcast_in_dim, [Literal(x.aval.dtype.type(0))], {"shape": sizes, "axes": ()}, source)
        more = work.add(dynamic_slice_p, [values[1], *second], {"sizes": sizes}, source)
        values = [
            work.add(dynamic_add_p, [values[0], more, *first], {}, source),
            work.add(dynamic_update_slice_p, [values[1], zeros, *second], {}, source),
        ]
    if not truths:
        y = work.add(add, [y, Literal(x.aval.dtype.type(0))], {}, source)  # no -0.0 is left, as after zeros are added
    for value, start in zip(values, starts):
        y = work.add(dynamic_add_p, [y, value, *start], {}, source)
    return y


def _both(values: Sequence[Any], starts: Sequence[Sequence[Any]], shape: tuple) -> tuple[tuple, list[Any], list[Any]] | None:
    """What is in both of two windows, of which one is whole along each axis: its shape, and where it begins in each of them."""
    sizes, places = [], ([], [])  # type: tuple[list[int], tuple[list[Any], list[Any]]]
    for axis, n in enumerate(shape):
        lengths = [v.aval.shape[axis] for v in values]
        if n not in lengths:
            return None
        whole = lengths.index(n)
        sizes.append(lengths[1 - whole])
        places[whole].append(starts[1 - whole][axis])
        places[1 - whole].append(Literal(np.int64(0)))
    return tuple(sizes), *places


def _add(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    for a, b in (equation.inputs, equation.inputs[::-1]):
        found = _add_windows(work, equation, a, b, uses)
        if found is not None:
            return found
    x, y = [_placed(work, a, uses) for a in equation.inputs]
    if x is None or y is None:
        return _add_to_sum(work, equation, uses)
    first, second = (_indices(x), _indices(y))
    if len(second) > 1:
        if len(first) > 1:
            return None
        x, y, first, second = y, x, second, first  # a + b is b + a
    shape = equation.outputs[0].aval.shape
    if first == second:
        total = _sum(work, x.inputs[0], y.inputs[0], equation.source)
        return work.add(basic_place_p, [total], {"index": first[0], "shape": shape}, equation.source)
    params = {"indices": (*first, *second), "shape": shape}
    return work.add(place_sum_p, [*x.inputs, *y.inputs], params, equation.source)


def _add_to_sum(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    """(a + x) + y, where x and y are placements and a is any array: one placed everywhere."""
    for sum_, other in (equation.inputs, equation.inputs[::-1]):
        y = _placed(work, other, uses)
        made = work.definition(sum_, add) if y is not None and uses.get(sum_) == 1 else None
        for a, b in () if made is None else (made.inputs, made.inputs[::-1]):
            x = _placed(work, b, uses)
            if x is not None and x.primitive is y.primitive is basic_place_p and type(a) is Var and fits(a.aval, b.aval):
                shape = equation.outputs[0].aval.shape
                indices = (tuple([(0, n, 1) for n in shape]), *_indices(x), *_indices(y))
                params = {"indices": indices, "shape": shape}
                return work.add(place_sum_p, [a, x.inputs[0], y.inputs[0]], params, equation.source)
    return None


def _sum(work: Work, x: Any, y: Any, source: Any) -> Any:
    """x + y, where one may be -z."""
    for a, b in ((x, y), (y, x)):
        made = work.definition(b, neg)
        if made is not None:
            return work.add(sub, [a, made.inputs[0]], {}, source)
    return work.add(add, [x, y], {}, source)


def _known_starts(starts: Any, sizes: tuple, shape: tuple) -> tuple | None:
    """The index of a window whose starts are literals: wrapped once if negative, then clamped."""
    if not starts or not all([type(s) is Literal for s in starts]):
        return None
    index = []
    for s, k, n in zip(starts, sizes, shape):
        start = int(s.value)
        index.append((min(max(start + n if start < 0 else start, 0), n - k), k, 1))
    return tuple(index)


def _slice(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    x, *starts = equation.inputs
    index = _known_starts(starts, equation.params["sizes"], x.aval.shape)
    return None if index is None else work.add(basic_index_p, [x], {"index": index}, equation.source)


def _update(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    x, u, *starts = equation.inputs
    index = _known_starts(starts, u.aval.shape, x.aval.shape)
    primitive = basic_add_p if equation.primitive is dynamic_add_p else basic_update_p
    return None if index is None else work.add(primitive, [x, u], {"index": index}, equation.source)


def _known_place(indices: Any, shape: tuple, params: dict) -> tuple | None:
    """The index of the row that literals name."""
    if params["batch_dims"] or not all([type(i) is Literal for i in indices]):
        return None
    index = []
    for i, n in zip(indices, shape):
        place = int(i.value)
        if not -n <= place < n:  # raises when it runs
            return None
        index.append(place % n)
    return *index, *[(0, n, 1) for n in shape[len(indices) :]]


def _gather(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    x, *indices = equation.inputs
    index = _known_place(indices, x.aval.shape, equation.params) if type(x) is Var else None
    return None if index is None else work.add(basic_index_p, [x], {"index": index}, equation.source)


_WRITES = {"set": basic_update_p, "add": basic_add_p}


def _scatter(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    x, u, *indices = equation.inputs
    primitive = _WRITES.get(equation.params["mode"])
    index = _known_place(indices, x.aval.shape, equation.params) if primitive is not None else None
    return None if index is None else work.add(primitive, [x, u], {"index": index}, equation.source)


def _given_back(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    """x with a part set to zero, to which the part is added, as `x[part] -= v` leaves it backwards: zero is added to the part.

    That is x, but for a -0.0 in the part, which becomes 0.0.
    """
    (x, part), index = equation.inputs, equation.params["index"]
    if index == tuple([(0, n, 1) for n in x.aval.shape]):
        return _add_windows(work, equation, x, part, uses)
    update, read = work.definition(x, basic_update_p), work.definition(part, basic_index_p)
    if update is None or read is None or update.params["index"] != index or read.params["index"] != index:
        return None
    zeros = update.inputs[1]
    if update.inputs[0] is not read.inputs[0] or not _is_zero(work, zeros):
        return None
    return work.add(basic_add_p, [update.inputs[0], zeros], equation.params, equation.source)


_RULES: dict[Any, Any] = {
    add: _add,
    basic_add_p: _given_back,
    dynamic_slice_p: _slice,
    dynamic_update_slice_p: _update,
    dynamic_add_p: _update,
    gather_p: _gather,
    scatter_p: _scatter,
}


# -- one element of each row: a value placed there is a choice, which a loop over rows takes in
#
# Idea: the derivative of `log_softmax(z)[rows, labels]` places one number in each row of an array of zeros. Written out it is a
# whole array, written, and read again by the loop that follows; as `select(label == position, number, 0)` it is element
# operations of that loop, and the sum of such a row is the number. Invariants: the same bits, signs of zero included; an index
# out of bounds raises, since it is looked at first. Trap: what no loop reads stays as it is, for there writing n numbers is
# less than n rows.


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


# -- writes to most of an array as whole arrays, for engines that read arrays in pieces (native/program_pieces.py)
#
# `u.at[1:-1, 1:-1].set(v)` is v in a frame of u, a concatenation, and so is a sum where one part alone is added to; of several
# additions each is one of an array in a frame of negative zeros, which change nothing; several placements are added up as
# arrays in frames of zeros. So a step of a stencil, and of its derivative, is element operations on index maps: one loop, whose
# result may be a loop's other buffer. A cheap formula of one array is computed where it is read, at each place, so that nobody
# need write it: maps move in front of it. Traps: what writes only some elements stays in place, which is cheaper by far; a
# frame may move in front of a formula only if the formula gives what the frame holds, to the bit, for one of the two zeros.


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
        alone = _alone(jaxpr)
        found = jaxpr.memo.setdefault("framing", prune(rewrite(jaxpr, lambda work, e: _step(work, e, alone))))
        found.memo["framing"] = found
    return found


def _alone(jaxpr: Jaxpr) -> set[Any]:
    """The results of additions to a part of an array to which no other is added before or after."""
    additions = [e for e in jaxpr.equations if e.primitive is basic_add_p]
    targets, results = {e.inputs[0] for e in additions}, {e.outputs[0] for e in additions}
    return {e.outputs[0] for e in additions if e.inputs[0] not in results and e.outputs[0] not in targets}


def _step(work: Work, equation: Equation, alone: set[Any]) -> list[Any] | None:
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
        if primitive is basic_add_p and equation.outputs[0] in alone:
            u = work.add(add, (work.add(basic_index_p, (x,), params, source), u), {}, source)
        if primitive is basic_update_p or equation.outputs[0] in alone:
            rest = lambda part: work.add(basic_index_p, (x,), {"index": tuple([(a, b - a, 1) for a, b in part])}, source)
            return [_framed(work, u, box, x.aval.shape, rest, source)]
        place = _placed_box(work, u, box, x.aval.shape, -0.0 if x.aval.dtype.kind in "fc" else 0, source)
        return [work.add(add, (x, place), {}, source)]
    elif primitive is place_sum_p and len(params["indices"]) <= TERMS:
        boxes = [_box(index) for index in params["indices"]]
        if None in boxes:
            return None
        total, *others = [_placed_box(work, x, box, params["shape"], 0, source) for x, box in zip(equation.inputs, boxes)]
        for x in others:
            total = work.add(add, (total, x), {}, source)
        return [total]
    elif primitive is basic_place_p and (box := _box(params["index"])) is not None:
        return [_placed_box(work, equation.inputs[0], box, params["shape"], 0, source)]
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


def _placed_box(work: Work, x: Any, box: Box, shape: tuple, fill: float, source: Any) -> Any:
    """x in its box of an array that is `fill` elsewhere."""
    formula = _formula(work, x)
    if formula is not None:
        for zero in (0.0, -0.0):
            given = formula.at(zero)
            if given == fill and np.signbit(given) == np.signbit(fill):
                (leaf,) = formula.leaves
                return _computed(work, formula, {leaf: _placed_box(work, leaf, box, shape, zero, source)}, shape)
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

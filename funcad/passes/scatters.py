"""Writing and reading at known places: several placements become one, computed bounds that are known become slices.

The derivative of indexing is `basic_place`, zeros with a value at an index, and the derivative of several indexings of one
array is a sum of those: full-size arrays of zeros, written, read and added. Here such a sum is one `place_sum`, which adds
every value at its place in one array; values at the same place are added first. Invariant: not a bit changes, signs of zero
included. Traps: additions are not reassociated, so only a chain is taken, term after term; a placement that others read, too,
stays as it is.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.rewrite import Work, rewrite, uses_of
from funcad.primitives.arithmetic import add, neg, sub
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_place_p, basic_update_p, place_sum_p
from funcad.primitives.computed_slices import dynamic_add_p, dynamic_slice_p, dynamic_update_slice_p
from funcad.primitives.scatter import gather_p, scatter_p

__all__ = ["scatters"]

RELEVANT = frozenset([basic_place_p, dynamic_slice_p, dynamic_update_slice_p, dynamic_add_p, gather_p, scatter_p])


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


def _add(work: Work, equation: Equation, uses: dict[Any, int]) -> Any:
    x, y = [_placed(work, a, uses) for a in equation.inputs]
    if x is None or y is None:
        return None
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


_RULES: dict[Any, Any] = {
    add: _add,
    dynamic_slice_p: _slice,
    dynamic_update_slice_p: _update,
    dynamic_add_p: _update,
    gather_p: _gather,
    scatter_p: _scatter,
}

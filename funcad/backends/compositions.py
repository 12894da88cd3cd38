"""The equations of a program as the NumPy engine writes them.

`lowered` replaces compositions (a * b + c * d, ...) by the equations that their implementations are made of, so that their
temporaries take part in the memory plan. `shortened` replaces what small arrays spend their time on, calls of NumPy: a total of
row totals is one reduction, a sum of squares one product, and a small sum a product with ones, which takes half the time.
Invariant of both: the same values, sums up to rounding. NumPy's sums start at 0.0, as BLAS's do, so signs of zero agree. Trap:
BLAS may add a product that it has not rounded, whose overflow another term could undo; squares have one sign, so only they are
summed as they are multiplied.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.split_up import parts_of
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.basic_indexing import basic_index_p, place_sum_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import convert_p
from funcad.primitives.extrema import maximum, minimum
from funcad.primitives.reduction import reduce_max_p, reduce_min_p, reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, concatenate_p, reshape

__all__ = ["lowered", "shortened"]


def lowered(jaxpr: Jaxpr) -> list[Equation]:
    """The equations, compositions replaced by their parts."""
    result: list[Equation] = []
    for equation in jaxpr.equations:
        parts = None
        if len(equation.outputs) == 1 and isinstance(equation.outputs[0].aval, Aval) and equation.outputs[0].aval.shape:
            parts = _place_sum(equation) if equation.primitive is place_sum_p else parts_of(equation)
        result += [equation] if parts is None else parts
    return result


def _place_sum(equation: Equation) -> list[Equation] | None:
    """Pieces that lie beside each other along one axis and leave nothing out are joined, and added to zero all the same."""
    xs, (out,), indices, shape = equation.inputs, equation.outputs, equation.params["indices"], equation.params["shape"]
    steps: list[Equation] = []

    def do(primitive: Any, *inputs: Any, out: Any = None, **params: Any) -> Var:
        var = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params)) if out is None else out
        steps.append(Equation(primitive, inputs, params, (var,), equation.source))
        return var

    if len(xs) < 2 or out.aval.dtype.kind not in "fc" or any([type(x) is Literal for x in xs]):
        return None
    if len(shape) == 1:  # numbers are pieces, too
        xs = tuple([do(reshape, x, shape=(1,)) if type(index[0]) is int else x for x, index in zip(xs, indices)])
        indices = tuple([((index[0], 1, 1),) if type(index[0]) is int else index for index in indices])
    if any([len(index) != len(shape) or not all([type(entry) is tuple for entry in index]) for index in indices]):
        return None
    axes = {i for index in indices for i, (entry, n) in enumerate(zip(index, shape)) if entry != (0, n, 1)}
    if len(axes) != 1:
        return None
    (axis,) = axes
    order = sorted(range(len(xs)), key=lambda k: indices[k][axis][0])
    end = 0
    for k in order:
        start, count, step = indices[k][axis]
        if start != end or step != 1 and count != 1:
            return None
        end += count
    if end != shape[axis]:
        return None
    do(add, do(concatenate_p, *[xs[k] for k in order], axis=axis), Literal(0.0), out=out)
    return steps


# ---------------------------------------------------------------- fewer calls

FEW = 8192  # elements that are summed by a product; in larger arrays the work outweighs the call
WINDOW = 4  # elements of a window along each axis, up to which an extremum is taken element by element,
WINDOWS = 256  # if there are so many: for few, the calls take longer
_EXTREMA = (reduce_max_p, reduce_min_p)


def shortened(equations: list[Equation], outputs: Sequence[Any], device: bool = False) -> list[Equation]:
    """The equations, in fewer and quicker calls; on a `device`, where every call takes as long to start, in fewer ones."""
    if not any([e.primitive is reduce_sum_p or e.primitive in _EXTREMA for e in equations]):
        return equations
    reads = Counter([a for e in equations for a in e.inputs if type(a) is Var])
    reads.update([o for o in outputs if type(o) is Var])
    place = {e.outputs[0]: i for i, e in enumerate(equations) if len(e.outputs) == 1}
    result: list[Equation | None] = list(equations)

    def made(x: Var) -> Equation | None:
        return result[place[x]] if x in place else None

    def inner(equation: Equation, primitive: Any) -> Equation | None:
        """What makes the operand, if it is of this kind and nobody else reads it."""
        found = made(equation.inputs[0]) if reads[equation.inputs[0]] == 1 else None
        return found if found is not None and found.primitive is primitive else None

    for i, equation in enumerate(equations):
        if equation.primitive is not reduce_sum_p and equation.primitive not in _EXTREMA:
            continue
        part = None if equation.outputs[0].aval.shape else inner(equation, equation.primitive)
        if part is not None:
            result[place[part.outputs[0]]] = None
            axes = tuple(range(len(part.inputs[0].aval.shape)))
            equation = result[i] = equation._replace(inputs=part.inputs, params={"axes": axes})
        x = equation.inputs[0]
        mask = inner(equation, convert_p) if device and equation.primitive is reduce_sum_p else None
        if mask is not None and mask.inputs[0].aval.dtype.kind == "b" and not mask.params.get("weak"):
            result[place[x]] = None  # CuPy adds up what it reads in the dtype of the result
            result[i] = equation._replace(inputs=mask.inputs)
            continue
        if equation.primitive is not reduce_sum_p or x.aval.dtype.char not in "fd" or not x.aval.size:
            continue
        square = None if equation.outputs[0].aval.shape else inner(equation, mul)
        if square is not None and square.inputs[0] is square.inputs[1] and _is_array(square.inputs[0], made):
            result[place[x]] = None
            axes = equation.params["axes"]
            params = {"dimension_numbers": ((axes, axes), ((), ()))}
            result[i] = Equation(dot_general_p, square.inputs, params, equation.outputs, equation.source)
        elif device or len(x.aval.shape) > 2 or x.aval.size > FEW:
            continue
        elif _several(x.aval.shape, equation) and _is_array(x, made):
            result[i] = equation._replace(params={**equation.params, "by_product": True})
    return [step for e in result if e is not None for step in ([e] if device else _pooled(e))]


def _pooled(equation: Equation) -> list[Equation]:
    """The extrema of many small windows along the last axis, element by element: NumPy begins a loop for each window."""
    if equation.primitive not in _EXTREMA:
        return [equation]
    (x,), (out,), axes = equation.inputs, equation.outputs, equation.params["axes"]
    small = all([1 < x.aval.shape[a] <= WINDOW for a in axes]) and len(x.aval.shape) - 1 in axes
    if not small or out.aval.size < WINDOWS or x.aval.dtype.kind not in "iuf":
        return [equation]
    larger = maximum if equation.primitive is reduce_max_p else minimum
    steps: list[Equation] = []

    def do(primitive: Any, *inputs: Any, **params: Any) -> Var:
        var = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params))
        steps.append(Equation(primitive, inputs, params, (var,), equation.source))
        return var

    for axis in sorted(axes, reverse=True):
        shape = x.aval.shape
        whole = [(0, n, 1) for n in shape]
        parts = [do(basic_index_p, x, index=(*whole[:axis], i, *whole[axis + 1 :])) for i in range(shape[axis])]
        x = reduce(lambda a, b: do(larger, a, b), parts)
    steps[-1] = steps[-1]._replace(outputs=equation.outputs)
    return steps


def _several(shape: tuple, reduction: Equation) -> bool:
    """Does each sum have several terms? BLAS does not add a single one, which may be -0.0, to 0.0."""
    return math.prod([shape[a] for a in reduction.params["axes"]]) > 1


def _is_array(x: Any, made: Callable[[Var], Equation | None]) -> bool:
    """Is it an array, not a broadcast that is left to its readers?"""
    equation = made(x)
    return equation is None or equation.primitive is not broadcast_in_dim

"""Bools that became numbers to be moved, and are asked whether they are zero, stay bools.

Idea: which elements of a cotangent are zero goes back through a program as numbers, by the rules of the cotangents themselves
(masks/), and is `ne(..., 0)` at the end. In a loop this costs a pass over whole arrays in each turn: a carried mask becomes
numbers, one place of them is written, all are asked. Here the same moves, writes, sums and additions are done to the bools: a
sum of bools is not zero where any is true. Invariant: such numbers are zeros and ones and what they add up to, never NaN and
never negative, so not a bit changes. Trap: programs are long, so chains are followed DEEP equations only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.rewrite import Work, fits, rewrite
from funcad.primitives.arithmetic import add
from funcad.primitives.basic_indexing import basic_index_p, basic_place_p, basic_update_p
from funcad.primitives.comparison import ne, or_
from funcad.primitives.computed_slices import dynamic_slice_p, dynamic_update_slice_p
from funcad.primitives.conversion import convert_p
from funcad.primitives.reduction import reduce_any, reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, reshape, slice_p, transpose

DEEP = 32  # equations from bools to the question
OPERANDS = {  # what does to bools what it does to numbers, or has a counterpart that does, and how many operands are arrays
    **dict.fromkeys([reshape, transpose, broadcast_in_dim, slice_p, basic_index_p, basic_place_p, dynamic_slice_p, reduce_sum_p], 1),
    **dict.fromkeys([basic_update_p, dynamic_update_slice_p, add], 2),
}
COUNTERPARTS = {add: or_, reduce_sum_p: reduce_any}


def bools(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which bools are not made numbers for a question whether they are zero.

    >>> import numpy as np, funcad
    >>> from funcad.passes.bools import bools
    >>> from funcad.passes.redundancy import dce
    >>> f = lambda x: np.reshape((x > 0.0).astype(float), (3, 1)) != 0.0
    >>> print(dce(bools(funcad.make_jaxpr(f)(np.ones(3)).jaxpr)))
    { lambda a:f64[3] . let
        b:bool[3] = gt a 0.0
        c:bool[3,1] = reshape[shape=(3, 1)] b
      in (c,) }
    """
    if not any([e.primitive is ne for e in jaxpr.equations]) or not any([_made(e) for e in jaxpr.equations]):
        return jaxpr
    depths: dict[Var, int] = {}  # of numbers that were bools: how many equations ago
    twins: dict[Var, Any] = {}  # the bools that they were

    def step(work: Work, equation: Equation) -> Any:
        primitive, atoms = equation.primitive, equation.inputs
        if _made(equation):
            depths[equation.outputs[0]] = 0
            twins[equation.outputs[0]] = atoms[0]
        elif primitive in OPERANDS:
            moved = atoms[: OPERANDS[primitive]]
            if all([a in depths if type(a) is Var else _truth(a) is not None for a in moved]):
                deep = 1 + max([depths[a] for a in moved if type(a) is Var], default=0)
                if deep <= DEEP:
                    depths[equation.outputs[0]] = deep
        elif primitive is ne and type(atoms[1]) is Literal and atoms[1].value == 0 and atoms[0] in depths:
            found = twin(work, atoms[0])
            return [found] if fits(found.aval, equation.outputs[0].aval) else None
        return None

    def twin(work: Work, atom: Any) -> Any:
        if type(atom) is Literal:
            return _truth(atom)
        found = twins.get(atom)
        if found is None:
            made = work.definitions[atom]
            count = OPERANDS[made.primitive]
            inputs = [*[twin(work, a) for a in made.inputs[:count]], *made.inputs[count:]]
            found = work.add(COUNTERPARTS.get(made.primitive, made.primitive), inputs, made.params, made.source)
            twins[atom] = found
        return found

    return rewrite(jaxpr, step)


def _made(equation: Equation) -> bool:
    """Are these bools that become numbers?"""
    return equation.primitive is convert_p and type(equation.inputs[0]) is Var and equation.inputs[0].aval.dtype == bool


def _truth(literal: Any) -> Literal | None:
    value = literal.value
    return Literal(np.bool_(value)) if value in (0, 1) else None

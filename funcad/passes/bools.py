"""Bools that became numbers to be moved, and are asked whether they are zero, stay bools.

Idea: which elements of a cotangent are zero goes back through a program as numbers, by the rules of the cotangents themselves
(masks/), and is `ne(..., 0)` at the end. In a loop this costs a pass over whole arrays in each turn: a carried mask becomes
numbers, one place of them is written, all are asked. Here the same moves, writes, sums and additions are done to the bools: a
sum of bools is not zero where any is true. What is written into bools is asked for itself. Invariant: such numbers are zeros
and ones and what they add up to, never NaN and never negative, so not a bit changes. Trap: bools are moved where the numbers
were, not where they are asked, or they would be read after the next place has been written; what nobody asks for is dead code.
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

MOVES = frozenset([reshape, transpose, broadcast_in_dim, slice_p, basic_index_p, basic_place_p, dynamic_slice_p])
WRITES = frozenset([basic_update_p, dynamic_update_slice_p])


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
    twins: dict[Any, Any] = {}  # of numbers that were bools: the bools

    def of(atom: Any) -> Any:
        return twins.get(atom) if type(atom) is Var else _truth(atom)

    def step(work: Work, equation: Equation) -> Any:
        primitive, atoms, params, outputs, source = equation
        if len(outputs) != 1 or not atoms:
            return None
        output = outputs[0]
        if primitive is ne:
            x, y = atoms
            found = twins.get(x)
            if found is None:
                return None
            if type(y) is not Literal or y.value != 0:
                return None
            same = fits(found.aval, output.aval)
            return [found] if same else None
        found = of(atoms[0])
        if _made(equation):
            twins[output] = atoms[0]
        elif found is None:
            return None
        elif primitive in MOVES:
            moved = [found, *atoms[1:]]
            twins[output] = work.add(primitive, moved, params, source)
        elif primitive in WRITES:
            written = of(atoms[1])
            if written is None:
                asked = [atoms[1], Literal(0.0)]
                written = work.add(ne, asked, {}, source)
            moved = [found, written, *atoms[2:]]
            twins[output] = work.add(primitive, moved, params, source)
        elif primitive is reduce_sum_p:
            twins[output] = work.add(reduce_any, [found], params, source)
        elif primitive is add and output.aval.shape:
            other = of(atoms[1])
            if other is not None:
                both = [found, other]
                twins[output] = work.add(or_, both, {}, source)
        return None

    return rewrite(jaxpr, step)


def _made(equation: Equation) -> bool:
    """Are these bools that become numbers?"""
    return equation.primitive is convert_p and type(equation.inputs[0]) is Var and equation.inputs[0].aval.dtype == bool


def _truth(literal: Any) -> Literal | None:
    return Literal(np.bool_(literal.value)) if literal.value in (0, 1) else None

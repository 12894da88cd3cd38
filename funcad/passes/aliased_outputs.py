"""Results stay arrays of their own, whatever the passes found out about them.

A program that computes `x * 1.0` gives a new array; the simplified program would give x itself, and a caller who goes on with
`y *= 2` would write into x, or fail, if x is a broadcast. The same holds for two results that turned out to be equal. So the
engines compare the program as traced with the one that they run: a result that was an array of its own and is now an argument,
a view of one, a repeated element or another result again is copied. Views that the user asked for stay views.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.primitive import may_share
from funcad.passes.inline import inline
from funcad.passes.pipeline import optimize
from funcad.passes.subprograms import called, kind_of
from funcad.primitives.arithmetic import sub
from funcad.primitives.comparison import or_
from funcad.primitives.loop import Loop
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["copy_aliased_outputs", "pipeline_end"]


def _base(makers: dict[Var, Equation], atom: Any) -> tuple[Any, bool]:
    """What an output is a view of, and whether elements of it stand there more than once."""
    repeated = False
    while type(atom) is Var and atom in makers:
        maker = makers[atom]
        if not maker.primitive.multiple and may_share(maker):
            repeated = repeated or maker.primitive is broadcast_in_dim
            atom = maker.inputs[0]
            continue
        through = _start_of(maker, atom)
        if through is None:
            break
        atom, again = through
        repeated = repeated or again
    return atom, repeated


def _start_of(equation: Equation, output: Var) -> tuple[Any, bool] | None:
    """The operand that a call or a loop hands through, or gives a view of, as `_base` says it; None for an array of its own."""
    position = equation.outputs.index(output)
    inside = called(equation)
    if inside is not None:
        program, operands = inside
        base, repeated = _base({v: e for e in program.equations for v in e.outputs}, program.outputs[position])
        return (operands[program.inputs.index(base)], repeated) if base in program.inputs else None
    if kind_of(equation) != "scan" or position >= equation.params["loop"].n_carry:
        return None
    loop: Loop = equation.params["loop"]
    first, body, operands = loop.n_consts, loop.body, loop.counted(equation.inputs)[1]
    given = body.outputs[position]
    if loop.length == 0 or given is body.inputs[first + position]:
        return operands[first + position], False
    if loop.length is not None and given in body.inputs[:first]:  # what the loop captures, from the first turn on
        return operands[body.inputs.index(given)], False
    return None


def _hands_through(equation: Equation, output: Var) -> bool:
    """May this result of an equation be one of its operands?"""
    if not equation.primitive.multiple:
        return False
    position = equation.outputs.index(output)
    inside = called(equation)
    if inside is not None:
        return _borrowed(inside[0], position)
    if kind_of(equation) != "scan":
        return True
    loop: Loop = equation.params["loop"]
    return position < loop.n_carry and _borrowed(loop.body, position)  # others are arrays of all steps


def _borrowed(jaxpr: Jaxpr, position: int) -> bool:
    """Is this output perhaps no array of its own?"""
    shared, _, repeated = _shared(jaxpr)[position]
    return shared or repeated


def _shared(jaxpr: Jaxpr) -> list[tuple[bool, bool, bool]]:
    """Of each output: may it share memory with an argument or itself, with an earlier output, and is it repeated elements?"""
    makers = {v: e for e in jaxpr.equations for v in e.outputs}
    inputs = set(jaxpr.inputs)
    earlier: set[Any] = set()
    found = []
    for o in jaxpr.outputs:
        if type(o) is not Var:
            found.append((False, False, False))
            continue
        base, repeated = _base(makers, o)
        several = base in makers and _hands_through(makers[base], base)
        found.append((several or base in inputs, base in earlier, repeated))
        earlier.add(base)
    return found


def copy_aliased_outputs(before: Jaxpr, after: Jaxpr) -> Jaxpr:
    """`after`, the optimised form of `before`, with copies where a result of `before` was an array of its own.

    >>> import numpy as np, funcad
    >>> from funcad.passes.pipeline import optimize
    >>> program = funcad.make_jaxpr(lambda x: x * 1.0)(np.ones(2)).jaxpr
    >>> print(copy_aliased_outputs(program, optimize(program)))
    { lambda a:f64[2] . let
        b:f64[2] = sub a 0
      in (b,) }
    """
    now = _shared(after)
    if before is after or not any(map(any, now)):
        return after
    makers = {v: e for e in after.equations for v in e.outputs}
    equations = list(after.equations)
    outputs = list(after.outputs)
    before = inline(before)
    copies: dict[Any, Var] = {}  # by the results of `before`
    for i, (was, is_shared) in enumerate(zip(_shared(before), now)):
        o = outputs[i]
        if before.outputs[i] in copies:
            outputs[i] = copies[before.outputs[i]]
            continue
        same = all([a or not b for a, b in zip(was, is_shared)])
        if same or isinstance(o.aval, StackAval) or o.aval.weak or o.aval.dtype.kind not in "biufc":
            continue
        copy = copies[before.outputs[i]] = Var(o.aval)
        primitive, zero = (or_, False) if o.aval.dtype.kind == "b" else (sub, 0)  # every bit stays as it is
        equations.append(Equation(primitive, (o, Literal(zero)), {}, (copy,), makers[o].source if o in makers else None))
        outputs[i] = copy
    if len(equations) == len(after.equations):
        return after
    found = Jaxpr(after.inputs, tuple(equations), tuple(outputs))
    found.memo.update({k: v for k, v in after.memo.items() if k in ("is_optimized", "fast_math")})
    return found


def pipeline_end(jaxpr: Jaxpr) -> Jaxpr:
    """The optimised program with results of its own: what the engines run, whole or in the groups of `batch.grouped`."""
    return copy_aliased_outputs(jaxpr, optimize(jaxpr, fast_math=bool(jaxpr.memo.get("fast_math"))))

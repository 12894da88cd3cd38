"""Operations that nobody writes: groups of equations, and the barrier to optimisation.

Made by passes/fuse.py only; it has no AD rules by design.

A group is a program in a normal form, so that engines need not analyse it. `shape` is its iteration space.

`kind="elementwise"`, any shape S (rank 0 never): each equation is
  - `broadcast_in_dim` of an input to S (of rank 0, of fewer axes, of axes of size 1), or
  - a primitive with `emit` whose operands are Literals and variables of shape S and whose result has shape S, or
  - an accumulation: a reduction by an atom over all axes, of shape (); nothing in the group reads it.

`kind="rows"`, shape (R, N): each variable is *full* (R, N), a *row* value (R,), a *column* value (N,) or a scalar (); inputs
too. Each equation is
  - a primitive with `emit` whose variables all have one of these shapes, the same for operands and result, or
  - `broadcast_in_dim` of a row value (axes=(0,)), a column value (axes=(1,)) or a scalar (axes=()) to full; or of a scalar
    to a row or column value, or
  - a reduction along the row (by an atom, see `fold_of`) with axes=(1,) of a full value; or `dot_general` of a full value with
    a column value, ((1,), (0,)): both give a row value, which the group may read, or
  - an accumulation over the rows, which nothing in the group reads: a reduction with axes=(0,) of a full value (a column value)
    or of a row value (a scalar); `dot_general` of a full value with a row value, ((0,), (0,)): a column value.

`kind="batch"`, shape (B,): what is computed for each of B small examples; every variable that an equation computes has B as the
extent of its first axis. Inputs have it, too, or are read by `broadcast_in_dim` only, which puts their axes behind the first,
or are the second operand of a `dot_general` along other axes. Each equation is
  - a primitive with `emit` whose variables all have the shape of the result, or
  - a move within each example: `broadcast_in_dim`, `basic_index`, `slice`, `rev`, `reshape`, `transpose`, `concatenate`, `pad`,
    `basic_place`, `place_sum`, `basic_update`, or
  - a reduction by an atom along other axes than the first, or
  - `dot_general`, the first axis being a batch axis of both operands, or one of the first operand that stays.

For engines of devices, one equation each: `kind="draw"`, the shape of the result, a draw (random_bits.py); `kind="loop"`, its
length, if that is known, a loop (loop.py).

An output is neither a Literal nor an input. Scalars computed from scalars alone, and column values computed from column
values, stay outside of groups of rows. In all kinds dtypes may differ between equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Jaxpr, Literal
from funcad.ir.primitive import Primitive, is_linear


def _fused_impl(xp: Any, *args: Any, jaxpr: Jaxpr, kind: str, shape: tuple) -> list[Any]:
    values = dict(zip(jaxpr.inputs, args))
    for equation, dead in zip(jaxpr.equations, jaxpr.last_uses):
        operands = [a.value if type(a) is Literal else values[a] for a in equation.inputs]
        out = equation.primitive.impl(xp, *operands, **equation.params)
        values.update(zip(equation.outputs, out if equation.primitive.multiple else [out]))
        del operands
        for v in dead:
            del values[v]
    return [values[o] for o in jaxpr.outputs]


fused_p = Primitive("fused", _fused_impl, lambda *avals, jaxpr, kind, shape: jaxpr.out_avals, multiple=True)


# -- `optimization_barrier`: the identity on several values, which optimisation does not look through


def _jvp(tangents: Sequence[Any], out: Any, *primals: Any) -> list[Any]:
    present = [t for t in tangents if t is not None]
    values = iter(optimization_barrier(*present) if present else ())
    return [None if t is None else next(values) for t in tangents]


def _transpose(cts: Sequence[Any], *inputs: Any) -> list[Any]:
    present = [c for c, x in zip(cts, inputs) if c is not None and is_linear(x)]
    values = iter(optimization_barrier(*present) if present else ())
    return [next(values) if c is not None and is_linear(x) else None for c, x in zip(cts, inputs)]


# The values themselves; passes neither merge nor move computations across.
optimization_barrier = Primitive(
    "optimization_barrier",
    lambda xp, *xs: list(xs),
    lambda *avals: [Aval(a.shape, a.dtype, a.weak) for a in avals],
    jvp=_jvp,
    transpose=_transpose,
    partial_eval=lambda linear: (linear, lambda args: _jvp(args, ())),
    batch=lambda size, args, batched: (optimization_barrier(*args), list(batched)),
    multiple=True,
    barrier=True,
    may_share=True,
)

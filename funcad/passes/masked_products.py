"""Sums of products of which a mask says which terms there are, as one product of matrices.

    sum over k, where mask[k, j], of x[k, i] * y[k, j]

Turns over a triangle (ragged.py) add such terms, one turn for each k. With zeros in the place of the values of y that the mask
leaves out it is a product of matrices, but zero times what is infinite or NaN is NaN, and such terms are none. Idea: where a
term without meaning is NaN, so is the element of the product. A product without infinities and NaN has therefore no such term;
any other one is computed again, term by term, by a loop that makes no turn in the first case.

Invariant: the terms are those that the mask names, whatever stands in x and y; they are added in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.trace import trace_function
from funcad.primitives.arithmetic import add, mul, sub
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.comparison import gt, isfinite, not_, select
from funcad.primitives.computed_slices import dynamic_slice
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import convert
from funcad.primitives.loop import Loop, loop_p
from funcad.primitives.reduction import reduce_all
from funcad.primitives.shape import broadcast_in_dim, reshape

WORTH = 1 << 18  # multiplications from which on a product is worth its check and the code of the loop
_INT = np.dtype(np.int64)


def worth(dtype: np.dtype, *sizes: int) -> bool:
    return dtype.kind == "f" and prod(sizes) >= WORTH


def outer(e: Equation | None, made: Callable[[Any], Equation | None]) -> list[Any] | None:
    """The two vectors whose outer product this equation computes, that along axis 0 first."""
    if e is None or len(e.outputs[0].aval.shape) != 2:
        return None
    if e.primitive is dot_general_p and e.params["dimension_numbers"] == (((), ()), ((), ())):
        return list(e.inputs) if [len(a.aval.shape) for a in e.inputs] == [1, 1] else None
    found = (
        dict([along for a in e.inputs if (along := spread(a, made)) is not None])
        if e.primitive is mul
        else {}
    )
    return [found[0], found[1]] if len(found) == 2 else None


def spread(atom: Any, made: Callable[[Any], Equation | None]) -> tuple[int, Any] | None:
    """(axis, vector) of a matrix in which a vector stands along one axis, again and again."""
    e = made(atom)
    if e is None or e.primitive is not broadcast_in_dim or len(e.outputs[0].aval.shape) != 2:
        return None
    (v,), axes = e.inputs, [axis for n, axis in zip(e.inputs[0].aval.shape, e.params["axes"]) if n != 1]
    if len(v.aval.shape) == 2:  # x[:, None]
        before = made(v)
        if before is not None and (
            before.primitive is reshape or before.primitive is basic_index_p and _all(before)
        ):
            v = before.inputs[0]
        axes = axes if v.aval.shape == (e.inputs[0].aval.size,) else []
    return (axes[0], v) if len(axes) == 1 and len(v.aval.shape) == 1 else None


def _all(e: Equation) -> bool:
    """Does the index name each element, in order?"""
    return [entry for entry in e.params["index"] if entry is not None] == [
        (0, n, 1) for n in e.inputs[0].aval.shape
    ]


def cleared(atom: Any, made: Callable[[Any], Equation | None]) -> tuple[Any, Any] | None:
    """(mask, value) of a value that is zero where its mask is not true."""
    e = made(atom)
    if (
        e is None
        or e.primitive is not select
        or type(e.inputs[2]) is not Literal
        or np.any(e.inputs[2].value != 0)
    ):
        return None
    return e.inputs[0], e.inputs[1]


def masked_product(x: Any, y: Any, mask: Any) -> Any:
    """The sum over k, where mask[k, j], of x[k, i] * y[k, j], as [i, j]."""
    (k, m), n = x.aval.shape, y.aval.shape[1]
    product = dot_general_p(x, select(mask, y, 0.0), dimension_numbers=_FIRST)
    sound = reduce_all(isfinite(product), axes=(0, 1))
    turns = mul(convert(not_(sound), _INT), k)
    start = select(broadcast_in_dim(sound, shape=(m, n), axes=()), product, 0.0)
    body = _term(x.aval, y.aval, mask.aval)
    more = _traced(lambda at, total: [gt(at, 0)], body.in_avals[3:])
    return loop_p(x, y, mask, turns, start, loop=Loop(body, n_consts=3, n_carry=2, cond=more))[2]


_FIRST = (((0,), (0,)), ((), ()))


def _term(x: Aval, y: Aval, mask: Aval) -> Jaxpr:
    """The body of the loop that adds term after term."""
    shape = (x.shape[1], y.shape[1])

    def step(*given: Any) -> list[Any]:
        rows, at, total = given[:3], sub(given[3], 1), given[4]
        parts = [
            reshape(dynamic_slice(a, (at, 0), (1, a.aval.shape[1])), shape=a.aval.shape[1:])
            for a in rows
        ]
        one, other, here = [
            broadcast_in_dim(p, shape=shape, axes=(axis,)) for p, axis in zip(parts, (0, 1, 1))
        ]
        return [at, select(here, add(total, mul(one, other)), total)]

    return _traced(step, [x, y, mask, Aval((), _INT), Aval(shape, y.dtype)])


def _traced(f: Callable[..., Any], avals: Sequence[Any]) -> Jaxpr:
    traced, captured = trace_function(f, avals, name="product", abstract=False)
    assert not captured, "what these operations read are their operands"
    return traced


def written(f: Callable[..., Any], operands: Sequence[Any], place: list[Equation]) -> Any:
    """f of these atoms, by equations that are added at this place."""
    program = _traced(lambda *xs: [f(*xs)], [Aval(a.aval.shape, a.aval.dtype) for a in operands])
    names: dict[Var, Any] = dict(zip(program.inputs, operands))
    for e in program.equations:
        names.update({v: Var(v.aval) for v in e.outputs})
        inputs = tuple([names[a] if type(a) is Var else a for a in e.inputs])
        place.append(e._replace(inputs=inputs, outputs=tuple([names[v] for v in e.outputs])))
    (result,) = program.outputs
    assert type(result) is Var
    return names[result]

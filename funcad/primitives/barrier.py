"""`optimization_barrier`: the identity on several values, which optimisation does not look through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive, is_linear

__all__ = ["optimization_barrier"]


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

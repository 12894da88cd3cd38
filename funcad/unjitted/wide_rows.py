"""Rows of operations of more than two operands: `Tape.record` and `Tape._row` for any number of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.locks import SMALL
from funcad.host.where import user_source
from funcad.ir.aval import SCALAR_AVALS
from funcad.ir.trace import compute
from funcad.ir.tracer import Tracer
from funcad.unjitted.structural import frozen
from funcad.unjitted.tape_program import gives_tangent

__all__ = ["FLOATING", "NO_VALUE", "record_wide", "write_wide"]

NO_VALUE: Any = object()  # in a row, of a result that somebody could change
FLOATING = frozenset([kind for kind, aval in SCALAR_AVALS.items() if aval.dtype.kind in "fc"])


def record_wide(tape: Any, primitive: Any, args: Sequence[Any], params: dict, shape: Any) -> Any:
    """As `Tape.record`."""
    primals, tangents = [], []
    bits = None
    if params:
        bits = frozen(params)
        if bits is None:
            return None
    for p in args:
        t = None
        if type(p) is Tracer:
            if p.owner is not tape.trace:
                return None
            p, t = p.primal, p.tangent
        if p.nbytes > SMALL or not p.dtype.isnative if type(p) is np.ndarray else type(p) not in SCALAR_AVALS:
            return None
        primals.append(p)
        tangents.append(t)
    out = compute(primitive, primals, params)
    kind = type(out)
    if out.nbytes > SMALL or out.dtype.kind not in "fc" if kind is np.ndarray else kind not in FLOATING:
        return (out,)
    gives = gives_tangent(primitive, args, tangents, out, params, bits, shape)
    if not gives:
        return (out,) if gives is False else (out, None)
    return tape.wide_row(primitive, args, primals, tangents, params, bits, shape, out, user_source(5))


def write_wide(
    tape: Any, primitive: Any, args: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any],
    params: dict | None, bits: bytes | None, shape: Any, out: Any, source: Any,
) -> Any:  # fmt: skip
    """As `Tape._row`."""
    operands: list[Any] = []
    new = []
    for i, p in enumerate(primals):
        t = tangents[i]
        number = None
        if t is not None:
            if t[1] is p:
                operands.append(t[0])
                continue
            number = t[0]
        for j in range(i):
            if primals[j] is p:
                operands.append((number, j))
                break
        else:
            if type(p) is np.ndarray:
                operands.append((number, p.shape, p.dtype.char))
                new.append(tape._outside(p, args[i], primitive, NO_VALUE))
            else:
                operands.append(type(p) if t is None else (number, type(p)))
                new.append(p)
    tape.values += new
    kind = type(out)
    held = out if kind is not np.ndarray or out.base is None and not any([out is p for p in primals]) else NO_VALUE
    row = [tape.first + len(tape.rows), held, len(tape.values), source, params]
    tape.steps.append((primitive, bits, shape, *operands, kind))
    tape.rows.append(row)
    tape.values.append(out)
    return Tracer(tape.trace, None, out, row, source)

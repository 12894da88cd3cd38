"""Rows of a tape for operations on large arrays: they hold what the rule keeps, no operand and no result.

Idea: `Rows.record` writes down operands and results, which cost nothing while they are small. Of large ones what the derivative
needs is computed at the user's line (split_rules.py), so that the rest dies as it would without a derivative. Operations whose
rules look at tangents alone keep nothing. Invariant: what is kept is protected from the user as the operands would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from funcad.host.devices import compute
from funcad.host.locks import SMALL, handed, read_only
from funcad.host.where import state, user_source
from funcad.ir.aval import SCALAR_AVALS
from funcad.ir.tracer import Tracer, snapshot
from funcad.passes.subprograms import params_key
from funcad.primitives.families import keeps_operands
from funcad.unjitted.split_rules import split_of, stand_in
from funcad.unjitted.tape_plans import linear
from funcad.unjitted.tape_steps import RESULT, SPLIT, in_step

NO_VALUE: Any = object()  # in a row, of a result that somebody could change
_ONE = (None,), (0,)


def _plain(x: Any, primals: Sequence[Any]) -> Any:
    """A result that has no tangent, as the user gets it."""
    return read_only(x) if type(x) is np.ndarray and x.ndim and any([x is p for p in primals]) else handed(x)


class LargeRows:
    """That part of a tape, see `Rows`."""

    __slots__ = ()
    trace: Any
    protector: Any
    first: int
    held: list[Any]
    made: Any
    steps: list[Any]
    values: list[Any]
    lifted: Mapping[int, Tracer]
    notes: Any
    row: Any
    _operands: Any
    _outside: Any
    _many: Any
    lifts: Any

    def large(self, primitive: Any, args: Sequence[Any], params: dict, shape: Any, known: tuple | None) -> Any:
        """`record` where an array is large: the row holds what the rule keeps, no operand and no result."""
        trace = self.trace
        if state.checked and self.notes is None:
            return known
        if self.lifts(args):
            return self._many(primitive, args, params, shape, known)
        bits = None
        if params:
            bits = params_key(params)
            if bits is None:
                return known
        primals: list[Any] = []
        rows: list[Any] = []
        for x in args:
            row = None
            if type(x) is Tracer:
                if x.owner is not trace:
                    return known
                x, row = x.primal, x.tangent
            if not x.dtype.isnative if type(x) is np.ndarray else type(x) not in SCALAR_AVALS:
                return known
            primals.append(x)
            rows.append(row)
        if primitive.turns:
            trace.turned = True
        out = compute(primitive, primals, params) if known is None else known[0]
        return self.large_row(primitive, args, primals, rows, params or {}, bits, shape, out, user_source(5))

    def large_row(
        self, primitive: Any, args: Sequence[Any], primals: Sequence[Any], rows: Sequence[Any], params: dict,
        bits: bytes | None, shape: Any, out: Any, source: Any,
    ) -> Any:  # fmt: skip
        """What `large` gives if `out` is what has been computed."""
        if self.notes is not None:  # remembered.py knows small arrays alone
            self.notes["looked"] = True
        if linear(primitive) and not primitive.multiple:
            if out.dtype.kind not in "fc":
                return (out,)
            start = len(self.values)
            operands = self._operands(primitive, args, primals, rows)
            self.values[start:] = map(stand_in, self.values[start:])
            step: tuple = (primitive, bits, shape, *operands, type(out))
            return self.result(step, primitive, args, primals, params, shape, out, 0, source)
        key: list[Any] = [primitive, bits, shape]
        for p in primals:
            if type(p) is np.ndarray:
                key += p.shape, p.dtype.char
            else:
                key.append(type(p))
        numbers: Any
        if len(rows) == 1:
            numbers = (rows[0],)
        elif len(rows) == 2:
            t, u = rows
            key.append((t == u, t is None, u is None, primals[0] is primals[1]))
            numbers = (u,) if t is None else (t,) if u is None or t == u else (t, u)
        else:
            first: dict[int, int] = {}
            numbers = list(dict.fromkeys([n for n in rows if n is not None]))
            key += [first.setdefault(id(p), i) for i, p in enumerate(primals)]
            key += [None if n is None else numbers.index(n) for n in rows]
        outs = list(out) if primitive.multiple else [out]
        split, kept = split_of(tuple(key), primitive, primals, rows, outs, params, shape)
        if split is False:
            return (out,)
        if split is None:
            return ([_plain(o, primals) for o in outs] if primitive.multiple else _plain(out, primals), None)
        values = self.values
        for x, n in zip(kept, split.sources):
            values.append(self._kept(x, n, args, primals) if type(x) is np.ndarray else x)
        if not primitive.multiple:
            step = (SPLIT, split, None, *in_step(numbers), _ONE)
            return self.result(step, primitive, args, primals, params, shape, out, 0, source)
        there = split.there
        step = (SPLIT, split, None, *in_step(numbers), ((None,) * len(there), tuple(range(len(there)))))
        for i in there:
            outs[i] = self.result(step, primitive, args, primals, params, shape, outs[i], i, source)
            step = (RESULT, i, None, *in_step(()), *step[-1:])
        return [o if i in there else _plain(o, primals) for i, o in enumerate(outs)]

    def result(
        self, step: tuple, primitive: Any, args: Sequence[Any], primals: Sequence[Any], params: dict, shape: Any, out: Any,
        i: int, source: Any,
    ) -> Tracer:  # fmt: skip
        """A row of the result number i, which says what its rule keeps."""
        kept = out
        held = NO_VALUE
        if type(out) is not np.ndarray:
            held = out
        elif out.nbytes > SMALL:
            kept = stand_in(out)
        elif out.base is None and not any([out is p for p in primals]):
            held = out
        self.values.append(kept)
        result: Tracer = self.row(step, params, out, held, len(self.values) - 1, source)
        if primitive.square is not None and self.trace.turned and keeps_operands(primitive, args, params, i):
            self.made = {**self.made, result.tangent: (primitive, list(map(snapshot, args)), params, i, shape)}
        return result

    def _kept(self, x: np.ndarray, number: int, args: Sequence[Any], primals: Sequence[Any]) -> np.ndarray:
        """What a rule keeps, safe from the user: an operand, a result, or what was computed of these."""
        if number < len(args):
            return self._outside(x, args[number], None, NO_VALUE)
        if x.base is None and not any([x is p for p in primals]):
            return x
        self.protector.args = primals
        try:
            return self.protector(x)
        finally:
            self.protector.args = ()

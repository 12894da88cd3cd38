"""Operations apart: what a tape has no row of its own for runs by its rule at once, and a row says what that left.

Idea: a call of a jitted function, a loop, a custom rule compute their results and what their derivative keeps in one go. So the
rule runs at the user's line on tangents of its own, and what was recorded of these, a linear program, is the row's, as that of
a rule that was split (split_rules.py). The program is another one at each call, so no key can tell of it: a recording with such
rows is cut around them (chunks.py), and they go backwards by the rules while what is around them goes by programs.

Limits: in abstract traces, on devices, and where outer traces have a part in the values, no row is written: rules from then on;
and where there is little around, since to be apart costs as much as some rows save.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.where import open_traces, state
from funcad.ir.aval import SCALAR_AVALS, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import prune
from funcad.ir.tracer import Tracer
from funcad.transforms.partial import TangentTrace, drop_unused_residuals
from funcad.unjitted.split_rules import Split
from funcad.unjitted.structural import forgetting
from funcad.unjitted.tape_steps import RESULT, SPLIT, in_step

ROWS = 8  # to each operation apart, with less of which it is not worth it
FEW, MANY = 6, 24  # more operations than the first need as many rows to each at once
_little: set[tuple] = set()  # names of traces and lines of operations that were not worth it
forgetting(_little.clear)


def worth(tape: Any, by_programs: bool) -> None:
    """Was it, at the end of a tape with operations apart? The next call knows."""
    if by_programs and len(tape.places) >= ROWS * len(tape.apart):
        return
    if len(_little) > 1000:
        _little.clear()
    sources = [tape.sources[i] for i in tape.apart]
    _little.update([(tape.trace.name, *source[:2]) for source in sources if source])


def apart(tape: Any, args: Sequence[Any], source: Any) -> Apart | None:
    """The operation on these operands that comes next, if a row can tell of it, and has been worth it at this line."""
    if source and (tape.trace.name, *source[:2]) in _little:
        return None
    if open_traces or tape.lifted or state.checked and tape.notes is None or not tape.has_room(1):
        return None
    if len(tape.apart) > FEW and len(tape.places) < MANY * len(tape.apart):
        return None
    for x in args:
        if type(x) is Tracer:
            if x.owner is not tape.trace:
                return None
            x = x.primal
        if type(x) is not np.ndarray and type(x) not in SCALAR_AVALS:
            return None
    return Apart(tape)


def _kind(x: Any) -> Any:
    """What rows that read it depend on."""
    return (x.shape, x.dtype.char) if type(x) is np.ndarray else type(x)


class Apart:
    """One operation, whose rule runs on `tangent(x)` of its operands."""

    __slots__ = ("tape", "recording", "rows", "tangents")

    def __init__(self, tape: Any):
        self.tape = tape
        self.recording = TangentTrace(tape.trace.name, protect=tape.protector)
        self.rows: list[int] = []  # of the operands
        self.tangents: list[Tracer] = []

    def tangent(self, x: Tracer) -> Tracer:
        row = x.tangent
        for known, t in zip(self.rows, self.tangents):
            if known == row:
                return t
        self.rows.append(row)
        self.tangents.append(self.recording.new_input(aval_of(x.primal).update()))
        return self.tangents[-1]

    def rows_or_tangents(
        self, trace: Any, primitive: Any, args: Sequence[Any], primals: Sequence[Any], params: dict, shape: Any,
        outs: Sequence[Any], touts: Sequence[Any], source: Any,
    ) -> tuple[list[Any] | None, Sequence[Any]]:  # fmt: skip
        """(traced results where there are tangents, these); (None, tangents by the rules) if no row can say what they are."""
        rows = self._written(primitive, args, primals, params, shape, outs, touts, source)
        if rows is None:
            trace.give_up(self.tape)
            touts = self._flushed(touts, [trace.settled[n] for n in self.rows])
        return rows, touts

    def _written(
        self, primitive: Any, args: Sequence[Any], primals: Sequence[Any], params: dict, shape: Any,
        outs: Sequence[Any], touts: Sequence[Any], source: Any,
    ) -> list[Any] | None:  # fmt: skip
        tape, there = self.tape, [i for i, t in enumerate(touts) if t is not None]
        if tape.notes is not None:  # remembered.py knows other rows alone
            tape.notes["looked"] = True
        for i in there:
            t = touts[i]
            if type(t) is not Tracer or t.owner is not self.recording or t.aval != aval_of(outs[i]).update():
                return None
        rest, kept = self.recording.jaxpr([touts[i] for i in there])
        rest, kept = drop_unused_residuals(prune(rest), kept)
        if Tracer in map(type, (*outs, *kept)):
            return None
        results: list[Any] = [None] * len(outs)
        if not there:
            return results
        self.recording.closed = True
        tape.values += kept
        split = Split(rest, None, [0] * len(kept), there)
        kind = tuple([_kind(outs[i]) for i in there]), tuple(range(len(there)))
        step: tuple = (SPLIT, len(kept), None, *in_step(self.rows), kind)
        for i in there:
            results[i] = tape.result(step, primitive, args, primals, params, shape, outs[i], i, source)
            if step[0] is SPLIT:
                tape.params[results[i].tangent] = {"rule": split}
                tape.apart = tape.apart or {}
                tape.apart[results[i].tangent - tape.first] = None
            step = (RESULT, i, None, *in_step(()), kind)
        return results

    def _flushed(self, touts: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the results, recorded where those of the operands, which are given, have been."""
        there = [i for i, t in enumerate(touts) if t is not None]
        rest, kept = self.recording.jaxpr([touts[i] for i in there])
        self.recording.closed = True
        found = dict(zip(there, eval_jaxpr(rest, [*kept, *tangents])))
        return [found.get(i) for i in range(len(touts))]

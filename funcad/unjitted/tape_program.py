"""The backward program of a tape: what its steps mean for the derivative, derived once for all tapes of one key.

Idea: the rules of the rows run on a program's variables in place of values, in the order of the rows, and what they recorded is
transposed. Invariant: this gives the operations that the rules would have given at once; a rule that needs a value raises, and
then there is no program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Var
from funcad.ir.prune import prune
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import rule_of
from funcad.primitives.squares import keeps_operands
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted.structural import compiled

__all__ = ["derive", "gives_tangent", "maker", "maker_of", "rule_of", "wiring"]


def maker_of(tape: Any, row: list) -> Any:
    """What made the value of a row that has not been flushed, see `Trace.made_by`."""
    step = tape.steps[row[0] - tape.first]
    if step[0].square is None or not _may_turn(tape, step):
        return None
    primitive, _, shape, *steps, _ = step
    operands: list[tuple[int, int | None]] = []
    free = row[2] - sum([type(a) is type or type(a) is tuple and type(a[-1]) is not int for a in steps])
    for a in steps:
        if type(a) is int:
            operands.append((_row(tape, a)[2], a))
        elif type(a) is tuple and type(a[-1]) is int:
            operands.append((operands[a[1]][0], a[0]))
        elif a is not None:
            operands.append((free, a[0] if type(a) is tuple else None))
            free += 1
    return next(iter(maker(tape, primitive, operands, row[4], shape)), None)


def _may_turn(tape: Any, step: tuple) -> bool:
    """May the square of this step's result be known? Looks at numbers only: most squares are of other things."""
    while step[0].square is not None:
        if step[0].turns:
            return True
        found = [a[0] if type(a) is tuple else a for a in step[3:-1]]
        numbers = [n for n in found if type(n) is int and n >= tape.first]
        if len(numbers) != 1:  # two are looked at by the fact itself
            return any([tape.steps[n - tape.first][0].square is not None for n in numbers])
        step = tape.steps[numbers[0] - tape.first]
    return False


def _row(tape: Any, number: int) -> list:
    return tape.inputs[number] if number < tape.first else tape.rows[number - tape.first]


def maker(tape: Any, primitive: Any, operands: Sequence[tuple], params: dict | None, shape: Any) -> Sequence[Any]:
    """The same of operands given as by `wiring`; nothing if nobody will ask."""
    if primitive.square is None or tape.trace.closed or not tape.trace.turned:
        return ()
    rows = [None if n is None else _row(tape, n) for _, n in operands]
    found = [tape.values[i] if r is None else Tracer(tape.trace, None, tape.values[i], r) for r, (i, _) in zip(rows, operands)]
    if not keeps_operands(primitive, found, params or {}):
        return ()
    return ((primitive, found, params or {}, 0, shape),)


class _LinearTrace(AbstractTrace):
    """Captures values of the backward program as they are: a scalar may stand beside shaped operands there too."""

    __slots__ = ()

    def _capture(self, x: Any) -> tuple[Var, Any]:
        entry = self.captured[id(x)] = Var(aval_of(x)), x
        return entry


def wiring(tape: Any) -> Iterator[tuple]:
    """Of each step: (primitive, shape, [(where in `values` the operand is, the number of its row or None), ...])."""
    places = [row[2] for row in tape.inputs]
    free = len(places)
    for primitive, _, shape, *operands, _ in tape.steps:
        found: list[tuple[int, int | None]] = []
        for a in operands:
            if type(a) is int:
                found.append((places[a], a))
            elif type(a) is tuple and type(a[-1]) is int:
                found.append((found[a[1]][0], a[0]))
            elif a is not None:
                found.append((free, a[0] if type(a) is tuple else None))
                free += 1
        yield primitive, shape, found
        places.append(free)
        free += 1


def derive(tape: Any, ends: Sequence[Any]) -> Any:
    """(run, which inputs get a cotangent), or False where a rule needs values."""
    outer, inner = AbstractTrace("the backward pass"), _LinearTrace("linearize")
    try:
        values = [_input(outer, v) for v in tape.values]
        avals = [aval_of(tape.values[row[2]]).update() for row in (*tape.inputs, *tape.rows)]
        seeds = [outer.new_input(avals[row[0]]) for row in ends]
        tangents = [inner.new_input(aval) for aval in avals[: len(tape.inputs)]]
        for row, (primitive, shape, operands) in zip(tape.rows, wiring(tape)):
            number, _, out, _, params = row
            given = [None if n is None else tangents[n] for _, n in operands]
            primals = [values[place] for place, _ in operands]
            result = rule_of(primitive, primals, given, values[out], params or {}, shape)
            if result is None or result.variable.aval != avals[number]:
                return False
            tangents.append(result)
        linear, residuals = inner.jaxpr([tangents[row[0]] for row in ends])
        n = len(tape.inputs)
        mask = [False] * len(residuals) + [True] * n
        outs = transpose_eval(linear, mask, residuals + [None] * n, seeds, all_linear=True)
        derived, consts = outer.jaxpr([o for o in outs if o is not None])
    except Exception:  # a rule that needs values: without the tape, and what is truly wrong is raised there
        return False
    finally:
        inner.close()
        outer.close()
    return compiled(prune(derived), consts), [o is not None for o in outs]


_probed: dict[tuple, bool | None] = {}
_UNKNOWN = object()
_MOST_PROBED = 4096


def gives_tangent(
    primitive: Any, args: Sequence[Any], tangents: Sequence[Any], out: Any, params: Any, bits: bytes | None, shape: Any
) -> bool | None:
    """Has its rule a tangent for operands like these? None: it has none; False: the rule raises, or looks at values.

    It is asked once for parameters (by their `bits`) and operands of such kinds, with variables in the place of the values.
    """
    primals = [x.primal if type(x) is Tracer else x for x in args]
    kinds = [x.dtype.char if type(x) is np.ndarray else type(x) for x in primals]
    key = (primitive, bits, shape is None, *kinds, *[t is None for t in tangents])
    found: Any = _probed.get(key, _UNKNOWN)
    if found is _UNKNOWN:
        outer, inner = AbstractTrace("the backward pass"), _LinearTrace("linearize")
        try:
            values = [_input(outer, v) for v in primals]
            given = [None if t is None else inner.new_input(aval_of(p).update()) for t, p in zip(tangents, primals)]
            result = rule_of(primitive, values, given, _input(outer, out), params or {}, shape)
            found = None if result is None else type(result) is Tracer and result.owner is inner
        except Exception:  # whatever it is, it happens again where the operation stands
            found = False
        finally:
            inner.close()
            outer.close()
        if len(_probed) > _MOST_PROBED:
            _probed.clear()
        _probed[key] = found
    return found


def _input(trace: AbstractTrace, value: Any) -> Tracer:
    aval = aval_of(value)
    if type(aval) is Aval:
        return trace.new_input(aval)
    variable = Var(aval)  # a LiteralAval, so that it may stand beside shaped operands, as the scalar does
    trace.inputs.append(variable)
    return Tracer(trace, variable)

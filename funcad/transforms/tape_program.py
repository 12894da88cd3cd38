"""The backward program of a tape: what its steps mean for the derivative, derived once for all tapes of one key.

Idea: the rules of the rows run on a program's variables in place of values, in the order of the rows, and what they recorded is
transposed. Invariant: this gives the operations that the rules would have given at once; a rule that needs a value raises, and
then there is no program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Var
from funcad.ir.prune import prune
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.transforms.masked_rules import rule_of
from funcad.transforms.structural import compiled
from funcad.transforms.transpose import transpose_eval

__all__ = ["derive", "rule_of", "wiring"]


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


def _input(trace: AbstractTrace, value: Any) -> Tracer:
    aval = aval_of(value)
    if type(aval) is Aval:
        return trace.new_input(aval)
    variable = Var(aval)  # a LiteralAval, so that it may stand beside shaped operands, as the scalar does
    trace.inputs.append(variable)
    return Tracer(trace, variable)

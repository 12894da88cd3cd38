"""The one loop over a program's equations, `walk`, and the plain interpreter that it makes: `eval_jaxpr`.

With arrays an interpreter computes; with tracers it records, so the same loop inlines a program into the trace that is open.
Each equation runs under its own source location, which the equations recorded by it inherit; values die after their last use.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from funcad.host.where import note_source, state
from funcad.ir.aval import Value
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.trace import AbstractTrace, bind, stage_constants


def walk(
    jaxpr: Jaxpr,
    args: list[Value],
    step: Callable[[Equation, list[Any]], Sequence[Any]],
    stage: AbstractTrace | None,
    beside: MutableMapping[Var, Any],
) -> list[Any]:
    """The outputs of a program, of which `step(equation, operands)` gives the results equation by equation; `args` is emptied.

    `beside` is what goes with some values, by variable, and dies with them. `stage`: see `stage_constants`.
    """
    if len(jaxpr.inputs) != len(args):
        raise TypeError(f"program takes {len(jaxpr.inputs)} values, got {len(args)}")
    values: dict[Var, Any] = dict(zip(jaxpr.inputs, args))
    args.clear()
    saved = state.source
    try:
        for equation, dead in zip(jaxpr.equations, jaxpr.last_uses):
            primitive, atoms, params, variables, source = equation
            state.source = source or saved
            operands: Any = [a.value if type(a) is Literal else values[a] for a in atoms]
            if stage is not None and atoms and not primitive.multiple and all([type(a) is Literal for a in atoms]):
                found: Any = (stage.record(primitive, operands, params),)
            else:
                found = step(equation, operands)
            if len(found) == 1:
                values[variables[0]] = found[0]
            else:
                values.update(zip(variables, found))
            operands = found = None  # or they would live through the next equation
            for v in dead:
                del values[v]
            for v in dead if beside else ():
                beside.pop(v, None)
        return [o.value if type(o) is Literal else values[o] for o in jaxpr.outputs]
    except Exception as error:
        note_source(error, state.source)
        raise
    finally:
        state.source = saved


def _bound(equation: Equation, operands: list[Any]) -> Sequence[Any]:
    out = bind(equation.primitive, *operands, **equation.params)
    return out if equation.primitive.multiple else (out,)


def eval_jaxpr(jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """The outputs of the program for these inputs (arrays or tracers)."""
    stage, values = stage_constants(args), list(args)
    del args
    return walk(jaxpr, values, _bound, stage, {})

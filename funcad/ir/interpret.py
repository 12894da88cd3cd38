"""The plain interpreter: run a jaxpr by binding its equations, dropping every value after its last use.

With arrays it computes; with tracers it records, so the same loop inlines a program into the trace that is open. Each
equation runs under its own source location, which the equations recorded by it inherit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.host.state import state
from funcad.host.where import note_source
from funcad.ir.jaxpr import Jaxpr, Literal, Var, reads_numbers
from funcad.ir.trace import bind, home_of
from funcad.ir.types import Atom, Value

__all__ = ["eval_jaxpr", "Environment"]


class Environment:
    """Values of a program's variables while it is interpreted."""

    __slots__ = ("values",)

    def __init__(self, variables: Sequence[Var], values: Sequence[Any]):
        if len(variables) != len(values):
            raise TypeError(f"program takes {len(variables)} values, got {len(values)}")
        self.values = dict(zip(variables, values))

    def read(self, atom: Atom) -> Any:
        return atom.value if type(atom) is Literal else self.values[atom]


def eval_jaxpr(jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """The outputs of the program for these inputs (arrays or tracers)."""
    env = Environment(jaxpr.inputs, args)
    values, read = env.values, env.read
    home = home_of(args)
    del args
    saved = state.source
    try:
        for equation, dead in zip(jaxpr.equations, jaxpr.last_uses):
            state.source = equation.source or saved
            if home is not None and reads_numbers(equation):
                out = home.record(equation.primitive, [read(a) for a in equation.inputs], equation.params)
            else:
                out = bind(equation.primitive, *[read(a) for a in equation.inputs], **equation.params)
            if equation.primitive.multiple:
                values.update(zip(equation.outputs, out))
            else:
                values[equation.outputs[0]] = out
            for v in dead:
                del values[v]
        return [read(o) for o in jaxpr.outputs]
    except Exception as error:
        note_source(error, state.source)
        raise
    finally:
        state.source = saved

"""The machinery that passes share: walk a program once, replace equations, get a program again.

Idea: `rewrite(jaxpr, step)` goes through the equations in order. `step(work, equation)` sees the equation with its operands
already replaced, and returns None (keep it) or one atom per output (use these instead; equations that make them are added by
`work.add`). Everything that is not replaced is shared with the old program: variables, equations, sub-programs.

Invariants: outputs keep shape, dtype and weakness exactly (`fits`), equations keep their source and their order, and a walk
that changes nothing returns the program itself. Trap: variables are shared between the old and the new program, and between
programs derived from one another, so whoever copies equations into a program (inlining) must rename them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs


def fits(found: Any, wanted: Any) -> bool:
    """May a value of one aval stand for a variable of the other, to the last detail?"""
    if found is wanted:
        return True
    if type(found) is StackAval or type(wanted) is StackAval:
        return bool(found == wanted)
    return found.shape == wanted.shape and found.dtype == wanted.dtype and found.weak == wanted.weak


def recast(atom: Any, aval: Any) -> Any:
    """The atom as one of exactly this aval, or None: a literal may change its dtype on the way, a variable never does."""
    if fits(atom.aval, aval):
        return atom
    if type(atom) is Literal and not aval.shape and type(aval) is not StackAval and atom.aval.weak and not aval.weak:
        return Literal(aval.dtype.type(atom.value))
    return None


def uses_of(jaxpr: Jaxpr) -> Counter[Any]:
    """How often each value is read, by equations and as an output."""
    found = Counter([a for e in jaxpr.equations for a in e.inputs])
    found.update(jaxpr.outputs)
    return found


def size_of(jaxpr: Jaxpr) -> int:
    """The number of equations, those of sub-programs included, each program counted once."""
    seen, found, waiting = {jaxpr}, 0, [jaxpr]
    while waiting:
        program = waiting.pop()
        found += len(program.equations)
        for equation in program.equations:
            for inner in subjaxprs(equation.params) if equation.primitive.multiple else ():
                if inner not in seen:
                    seen.add(inner)
                    waiting.append(inner)
    return found


class Work:
    """A program while it is rewritten: what replaces which variable, the equations so far, and who defines what."""

    __slots__ = ("jaxpr", "names", "equations", "definitions", "counts")

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.counts: Counter[Any] | None = None
        self.names: dict[Var, Any] = {}
        self.equations: list[Equation] = []
        self.definitions: dict[Var, Equation] = {}  # of variables that are the only output of their equation

    def keep(self, equation: Equation) -> None:
        self.equations.append(equation)
        outputs = equation.outputs
        if len(outputs) == 1:
            self.definitions[outputs[0]] = equation

    def add(self, primitive: Any, inputs: Sequence[Any], params: dict[str, Any], source: Any) -> Var:
        """A new equation with one output, which is returned."""
        output = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params))
        self.keep(Equation(primitive, tuple(inputs), params, (output,), source))
        return output

    def definition(self, atom: Any, primitive: Any) -> Equation | None:
        """The equation that makes this variable, if it applies this primitive."""
        found = self.definitions.get(atom)
        return found if found is not None and found.primitive is primitive else None

    def shared(self, atom: Any) -> bool:
        """Did the old program read this variable more than once?"""
        if self.counts is None:
            self.counts = Counter([a for e in self.jaxpr.equations for a in e.inputs if type(a) is Var])
            self.counts.update([o for o in self.jaxpr.outputs if type(o) is Var])
        return self.counts[atom] > 1


Step = Callable[[Work, Equation], "Sequence[Any] | None"]


def rewrite(jaxpr: Jaxpr, step: Step) -> Jaxpr:
    """The program that `step` makes of this one; see the module's text."""
    work = Work(jaxpr)
    names: dict[Any, Any] = work.names
    read, keep = names.get, work.keep
    changed = False
    for equation in jaxpr.equations:
        if names:
            for a in equation.inputs:
                if a in names:
                    inputs = tuple([read(a, a) for a in equation.inputs])
                    equation = Equation(equation.primitive, inputs, equation.params, equation.outputs, equation.source)
                    break
        found = step(work, equation)
        if found is None:
            keep(equation)
            continue
        changed = True
        names.update(zip(equation.outputs, found))
    if not changed:
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(work.equations), tuple([read(o, o) for o in jaxpr.outputs]))

"""The order in which a whole program's equations are written, and which of them share a loop.

Elementwise equations of one shape wait in a group until something outside the group needs one of their results; then the
group becomes one loop, or several where nothing connects its equations. Since programs have no effects here, an equation may
be moved behind everything that does not read it.
Trap: a group that reads an array must not wait until elements of it have been written, or that could not be done in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from funcad.backends.memory import writes_elements
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.ir.primitive import may_share

COMPLEX_PARTS = frozenset(["real", "imag", "conj", "make_complex"])  # they need no instruction, hence have no `emit`


class ScheduleStep(NamedTuple):
    """One loop over the elements (`shape`), or, with shape None, one equation."""

    equations: tuple[Equation, ...]
    shape: tuple[int, ...] | None
    reads: frozenset
    dead: tuple  # variables that nobody reads afterwards


def is_elementwise(equation: Equation) -> bool:
    """One result, each element of which is made of the operands' elements at its place."""
    primitive = equation.primitive
    if (primitive.emit is None and primitive.name not in COMPLEX_PARTS) or len(equation.outputs) != 1:
        return False
    shape = equation.outputs[0].aval.shape
    return all(type(a) is not Var or a.aval.shape == shape for a in equation.inputs)


def schedule(jaxpr: Jaxpr) -> list[ScheduleStep]:
    """The steps of a program without dead code."""
    groups: list[tuple[list[Equation], Any]] = []
    waiting: dict[tuple, list[Equation]] = {}
    where: dict[Var, tuple] = {}
    base: dict[Any, Any] = {}  # of views: what they are views of
    writes = writes_elements(jaxpr.equations)

    def flush(shape: tuple) -> None:
        equations = waiting.pop(shape)
        groups.extend([(together, shape) for together in _connected(equations)])
        for equation in equations:
            del where[equation.outputs[0]]

    for equation in jaxpr.equations:
        shape: Any = None
        if is_elementwise(equation) and equation.outputs[0].aval.shape:
            shape = equation.outputs[0].aval.shape
        for other in dict.fromkeys([where[v] for v in equation.inputs if type(v) is Var and v in where]):
            if other != shape:
                flush(other)
        if writes and not equation.primitive.multiple and may_share(equation):
            base[equation.outputs[0]] = base.get(equation.inputs[0], equation.inputs[0])
        if equation.primitive.over is not None:
            written = base.get(equation.inputs[0], equation.inputs[0])
            for other, group in list(waiting.items()):
                if any([base.get(a, a) is written for e in group for a in e.inputs]):
                    flush(other)
        if shape is None:
            groups.append(([equation], None))
        else:
            waiting.setdefault(shape, []).append(equation)
            where[equation.outputs[0]] = shape
    for shape in list(waiting):
        flush(shape)
    return _with_last_uses(groups, jaxpr.outputs)


def _connected(equations: Sequence[Equation]) -> list[list[Equation]]:
    """The equations apart where no array leads from one to the other: a loop of all would hold the values of all at once."""
    above: dict[Var, Var] = {}  # from an array to another one of its part, in the end to the one that stands for the part

    def top(a: Var) -> Var:
        while above[a] is not a:
            above[a] = above[above[a]]
            a = above[a]
        return a

    for equation in equations:
        arrays = [a for a in (*equation.outputs, *equation.inputs) if type(a) is Var]
        for a in arrays:
            above.setdefault(a, a)
            above[top(a)] = top(arrays[0])
    parts: dict[Var, list[Equation]] = {}
    for equation in equations:
        parts.setdefault(top(equation.outputs[0]), []).append(equation)
    return list(parts.values())


def _with_last_uses(groups: Sequence[tuple[list[Equation], Any]], outputs: Sequence[Any]) -> list[ScheduleStep]:
    seen = {v for v in outputs if type(v) is Var}
    steps = []
    for equations, shape in reversed(groups):
        made = {v for e in equations for v in e.outputs}
        reads = {a for e in equations for a in e.inputs if type(a) is Var} - made
        dead = [v for v in (*made, *reads) if v not in seen]
        seen |= reads
        steps.append(ScheduleStep(tuple(equations), shape, frozenset(reads), tuple(dead)))
    return steps[::-1]

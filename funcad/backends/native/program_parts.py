"""A program that is too long for one native function, as several, one after the other.

Idea: the equations are cut where few values live on, into parts of some hundred; each part is a program of its own, which is
handed what it reads and gives what later parts read. Between parts values are Python's objects: what crosses costs a tenth of a
microsecond. Compiling takes longer than in proportion to the length of a function, so parts are short. Invariants: a value dies
with the last part that reads it; what a part cannot finish as NumPy would, its reference does. Trap: one equation that is too
long, a loop with a long body, cannot be cut.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from funcad.backends.native.program_build import TooLong
from funcad.backends.native.program_cost import work_of
from funcad.ir.jaxpr import Jaxpr, Literal, Var, subjaxprs

LENGTH = 800  # equations of a part, at most; at least half of them


class ProgramParts:
    """Called as a NativeProgram is."""

    __slots__ = ("jaxpr", "lines", "arena_bytes", "_parts", "_template", "_outputs", "__weakref__")
    fast = None  # a call is several

    def __init__(self, jaxpr: Jaxpr, compiled: Callable[[Jaxpr], Any]):
        """`compiled(program)`: native code for a part, which raises TooLong."""
        self.jaxpr = jaxpr
        slots: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.inputs)}
        last = _last_readers(jaxpr)
        self._parts: list[tuple[Any, list[int], list[int], list[int]]] = []
        todo = _cuts(jaxpr, last)
        while todo:
            start, end = todo.pop(0)
            part = _part(jaxpr, start, end, last)
            try:
                program = compiled(part)
            except TooLong:
                if end - start == 1:
                    raise
                todo[:0] = [(start, (start + end) // 2), ((start + end) // 2, end)]
                continue
            for v in part.outputs:
                slots.setdefault(v, len(slots))
            dead = [v for v in part.inputs if last[v] < end]
            ins, outs, gone = [[slots[v] for v in found] for found in (part.inputs, part.outputs, dead)]
            self._parts.append((program, ins, outs, gone))
        self._template: list[Any] = [None] * (len(slots) - len(jaxpr.inputs))
        self._outputs = [(o, -1) if type(o) is Literal else (o, slots[o]) for o in jaxpr.outputs]
        self.lines = sum([program.lines for program, *_ in self._parts])
        self.arena_bytes = max([program.arena_bytes for program, *_ in self._parts])

    @property
    def count(self) -> int:
        return len(self._parts)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        slots = [*values, *self._template]
        for program, ins, outs, dead in self._parts:
            operands = [slots[i] for i in ins]
            results = program.fast(*operands) if program.fast is not None else NotImplemented
            if results is NotImplemented:
                results = program(operands)
            elif len(outs) == 1:
                results = (results,)
            for i, x in zip(outs, results):
                slots[i] = x
            for i in dead:
                slots[i] = None
        return [o.value if i < 0 else slots[i] for o, i in self._outputs]


def _last_readers(jaxpr: Jaxpr) -> dict[Var, int]:
    """The last equation that reads a variable, by its number; of the program's results, the one after all."""
    last = {a: i for i, e in enumerate(jaxpr.equations) for a in e.inputs if type(a) is Var}
    last.update({o: len(jaxpr.equations) for o in jaxpr.outputs if type(o) is Var})
    return last


def _cuts(jaxpr: Jaxpr, last: dict[Var, int]) -> list[tuple[int, int]]:
    """Where parts begin and end: where the fewest values live on, of the places that are allowed."""
    n = len(jaxpr.equations)
    change = [0] * (n + 2)  # of the number of values that are alive before an equation
    for i, e in enumerate(jaxpr.equations):
        for v in e.outputs:
            if last.get(v, i) > i:
                change[i + 1] += 1
                change[last[v] + 1 if last[v] < n else n + 1] -= 1
    alive = list(itertools.accumulate(change))
    sizes = list(itertools.accumulate([1 + sum([work_of(j).equations for j in subjaxprs(e.params)]) for e in jaxpr.equations]))
    cuts, start = [], 0
    while start < n:
        before = sizes[start - 1] if start else 0
        latest = max(start + 1, bisect.bisect_right(sizes, before + LENGTH))
        earliest = max(start + 1, bisect.bisect_right(sizes, before + LENGTH // 2))
        end = latest if latest == n else min(range(earliest, latest + 1), key=lambda i: (alive[i], -i))
        cuts.append((start, end))
        start = end
    return cuts


def _part(jaxpr: Jaxpr, start: int, end: int, last: dict[Var, int]) -> Jaxpr:
    """The equations from one to another as a program."""
    equations = jaxpr.equations[start:end]
    made = {v for e in equations for v in e.outputs}
    read = dict.fromkeys([a for e in equations for a in e.inputs if type(a) is Var and a not in made])
    given = [v for e in equations for v in e.outputs if last.get(v, -1) >= end]
    part = Jaxpr(tuple(read), tuple(equations), tuple(given))
    if "fast_math" in jaxpr.memo:
        part.memo["fast_math"] = jaxpr.memo["fast_math"]
    return part

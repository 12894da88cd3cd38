"""What a group of kind "rows" computes in which pass over a block of rows; no code yet.

Idea: values have *levels*. A row input has level 0, an element operation the highest level of its operands, and a reduction
along the row gives a value one level above its operand. A block of rows, small enough to stay in the cache, is processed level
by level: a *row phase* computes the row values of the level, for all rows of the block side by side, then a *full phase* runs
over the elements and computes the reductions, outputs and sums over rows of the level. A full value that a later phase needs
too is computed again if that is cheap; else it is *kept* in a buffer of the block's size.

Trap: shapes do not tell rows from columns in square groups; what a rank-1 value is follows from the axes of the equations
that use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from funcad.backends.plans.element_plan import Unsupported, instructions
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.primitives.atoms import fold_of
from funcad.primitives.contraction import dot_general_p

KEEP = 7  # the cost from which a value is kept rather than computed again


def kind_of(equation: Equation) -> str | None:
    """What a reduction, or a product with a vector, does with its elements; None for other equations."""
    if equation.primitive is dot_general_p:
        return "add"
    return fold_of(equation.primitive)


class Sink(NamedTuple):
    """What a full phase leaves behind: `kind` is reduction, column, output or keep."""

    kind: str
    var: Var  # the value that is computed; for an output or a kept value the value itself
    equation: Any = None


class Phase(NamedTuple):
    """The work on one level: element operations and sums of row values, then the sinks of the full phase."""

    rows: list[Equation]
    scalars: list[Equation]
    sinks: list[Sink]


class RowPlan:
    """The analysis of one group; Unsupported if it is not in the normal form. With `keeps` False nothing is kept."""

    def __init__(self, jaxpr: Jaxpr, shape: tuple[int, int], keeps: bool = True):
        self.jaxpr = jaxpr = prune(jaxpr)
        self.shape = shape
        self.keeps = keeps
        self.maker = {v: e for e in jaxpr.equations for v in e.outputs}
        self.kind = _kinds(jaxpr)
        self.level: dict[Var, int] = {}
        self.by_row: dict[Var, bool] = {}  # full and column values: do rows (columns) of it differ?
        self.by_column: dict[Var, bool] = {}
        self.kept: set[Var] = set()
        self.slots: dict[Var, int] = {}  # row values that live in scratch memory
        self.columns: list[Equation] = []  # sums over the rows of full values
        self.scalars: list[Equation] = []  # sums of row values
        self.outputs: dict[Var, list[int]] = {}
        self.results: tuple[Var, ...] = tuple([o for o in jaxpr.outputs if type(o) is Var])  # that is all of them
        for i, o in enumerate(self.results):
            self.outputs.setdefault(o, []).append(i)
        for v in jaxpr.inputs:
            self._place(v, 0, self.kind[v] in ("full", "row"), self.kind[v] in ("full", "column"))
        for equation in jaxpr.equations:
            self._equation(equation)
        self.reached: list[list[Var]] = []  # what `needed` says of each phase, once they are what they will be
        self.phases = self._phases()
        self.reached = [self.needed(phase, number) for number, phase in enumerate(self.phases)]

    def _place(self, v: Var, level: int, by_row: bool, by_column: bool) -> None:
        self.level[v], self.by_row[v], self.by_column[v] = level, by_row, by_column

    def _equation(self, equation: Equation) -> None:
        (out,) = equation.outputs
        operands = list(variables(equation))
        level = max([self.level[a] for a in operands], default=0)
        name, kind = equation.primitive.name, self.kind[out]
        if kind_of(equation) is not None:
            if kind == "row":
                self._place(out, level + 1, True, False)
                self.slots[out] = len(self.slots)
            else:
                (self.columns if kind == "column" else self.scalars).append(equation)
                self._place(out, level, False, kind == "column")
            return
        if kind == "scalar" or kind == "column" and out in self.outputs:
            raise Unsupported(f"{name} of {kind} values belongs before a group of rows, not into it")
        self._place(out, level, any(self.by_row[a] for a in operands), any(self.by_column[a] for a in operands))

    # -- phases, from the last to the first, because later ones say what earlier ones keep

    def _phases(self) -> list[Phase]:
        last = max(self.level.values(), default=0)
        phases = [Phase([], [], []) for _ in range(last + 1)]
        for equation in self.jaxpr.equations:
            (out,) = equation.outputs
            kind, level = self.kind[out], self.level[out]
            if kind_of(equation) is not None:
                if kind == "row":
                    phases[level - 1].sinks.append(Sink("reduction", out, equation))
                elif kind == "column":
                    phases[level].sinks.append(Sink("column", out, equation))
                else:
                    phases[level].scalars.append(equation)
            elif kind == "row":
                phases[level].rows.append(equation)
            elif kind == "full" and out in self.outputs:
                phases[level].sinks.append(Sink("output", out))
        for number in range(last, -1, -1):
            self._keep(phases, number)
        for phase in phases:  # sums over the rows come first: they and reductions read what outputs may be stored over
            phase.sinks.sort(key=lambda s: s.kind in ("output", "keep"))
        self._slots(phases)
        return phases

    def needed(self, phase: Phase, number: int) -> list[Var]:
        """The full and column values that a full phase computes or loads, each once, operands first."""
        if self.reached:
            return self.reached[number]
        found: list[Var] = []
        seen: set[Var] = set()
        for sink in phase.sinks:
            roots = (sink.var,) if sink.equation is None else variables(sink.equation)
            for root in roots:
                if self.kind[root] != "row":
                    self.walk(root, number, seen, found)
        return found

    def walk(self, v: Var, number: int, seen: set[Var], found: list[Var]) -> None:
        waiting = [(v, False)]  # a list of our own: chains of operations may be longer than Python's stack
        while waiting:
            x, complete = waiting.pop()
            if complete:
                found.append(x)
            elif x not in seen:
                seen.add(x)
                waiting.append((x, True))
                if x in self.maker and not self.loaded(x, number):
                    before = [a for a in variables(self.maker[x]) if self.kind[a] in ("full", "column")]
                    waiting += [(a, False) for a in reversed(before)]

    def loaded(self, v: Var, number: int) -> bool:
        """Is v of an earlier phase, and kept?"""
        return v in self.kept and self.level[v] < number

    def _keep(self, phases: list[Phase], number: int) -> None:
        price: dict[Var, int] = {}
        for v in self.needed(phases[number], number):
            equation = self.maker.get(v)
            if equation is None or not self.by_column[v] or self.kind[v] != "full":
                price[v] = 0
                continue
            price[v] = instructions(equation) + sum({a: price.get(a, 0) for a in variables(equation)}.values())
            if self.keeps and price[v] >= KEEP and self.by_row[v] and self.level[v] < number:
                price[v] = 0
                if v not in self.kept:
                    self.kept.add(v)
                    phases[self.level[v]].sinks.append(Sink("keep", v))

    def _slots(self, phases: list[Phase]) -> None:
        """Row values that another phase reads."""
        for number, phase in enumerate(phases):
            for equation in phase.rows + phase.scalars:
                for a in variables(equation):
                    if self.kind[a] == "row" and self.level[a] < number and a in self.maker:
                        self.slots.setdefault(a, len(self.slots))
        for equation in self.jaxpr.equations:
            if self.kind[equation.outputs[0]] in ("full", "column"):
                for a in variables(equation):
                    if self.kind[a] == "row" and a in self.maker:
                        self.slots.setdefault(a, len(self.slots))

    def row_operands(self, number: int) -> list[Var]:
        """The row values that a full phase reads."""
        found: dict[Var, None] = {}
        for v in self.needed(self.phases[number], number):
            if v in self.maker and not self.loaded(v, number):
                found.update({a: None for a in variables(self.maker[v]) if self.kind[a] == "row"})
        for sink in self.phases[number].sinks:
            if sink.equation is not None:
                found.update({a: None for a in variables(sink.equation) if self.kind[a] == "row"})
        return list(found)

    def weight(self, number: int) -> int:
        """About how many instructions a full phase is, per vector."""
        phase, total = self.phases[number], 0
        for v in self.needed(phase, number):
            if v in self.maker and not self.loaded(v, number):
                total += instructions(self.maker[v]) if self.by_column[v] else 0
            else:
                total += 1
        named = [s.equation.primitive.name for s in phase.sinks if s.equation is not None]
        extrema = [name for name in named if name in ("reduce_max", "reduce_min")]
        return total + 2 * len(phase.sinks) + 2 * len(extrema)  # these look for NaN


def variables(equation: Equation) -> Iterator[Var]:
    return (a for a in equation.inputs if type(a) is not Literal)


def _kinds(jaxpr: Jaxpr) -> dict[Var, str]:
    """full, row, column or scalar, for every variable."""
    kind: dict[Var, str] = {}
    parent: dict[Var, Var] = {}  # rank-1 values that are alike

    def root(v: Var) -> Var:
        while parent.setdefault(v, v) is not v:
            v = parent[v]
        return v

    def say(v: Var, what: str) -> None:
        r = root(v)
        if kind.setdefault(r, what) != what:
            raise Unsupported(f"a value is used both as {kind[r]} and as {what} value of a group")

    def alike(a: Var, b: Var) -> None:
        a, b = root(a), root(b)
        if a is not b:
            parent[a] = b
            if a in kind:
                say(b, kind[a])

    for equation in jaxpr.equations:
        (out,) = equation.outputs
        name, params = equation.primitive.name, equation.params
        operands = list(variables(equation))
        if name == "broadcast_in_dim":
            if operands and operands[0].aval.ndim == 1 and out.aval.ndim == 2:
                say(operands[0], "row" if params["axes"] == (0,) else "column")
        elif name == "dot_general":
            along = params["dimension_numbers"][0] == ((1,), (0,))
            if [a.aval.ndim for a in operands] != [2, 1]:
                raise Unsupported("a product that is not of a full value with a vector")
            say(operands[1], "column" if along else "row")
            say(out, "row" if along else "column")
        elif kind_of(equation) is not None:
            (x,) = operands
            if x.aval.ndim == 1:
                say(x, "row")
            else:
                say(out, "row" if params["axes"] == (1,) else "column")
        else:
            for a in operands:
                if out.aval.ndim == 1:
                    alike(a, out)
    ranks = {0: "scalar", 2: "full"}
    every = [*jaxpr.inputs, *[v for e in jaxpr.equations for v in e.outputs]]
    return {v: ranks.get(v.aval.ndim) or kind.get(root(v), "row") for v in every}

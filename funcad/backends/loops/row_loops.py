"""Groups of kind "rows" as loop nests, from the phases of plans/row_plan.py.

Idea: long rows are taken vector by vector. A block of rows small enough for the cache passes through the phases of the plan, so
that its elements come from memory once. In a full phase several rows run abreast if they share column values or sums over rows,
several vectors of a row if they share nothing: That hides latency and splits sums. Row values of a block lie in slots, and a
row phase takes them a vector of rows at a time. Rows of a few elements are vectors of rows instead: Their columns are written
out, so that a full value is one lane for each, and all phases are one piece of code.

Arrays are ("in", i), ("out", k); ("slot", v) and ("kept", v) of a block; and ("column", i), ("scalar", i), the sums over rows.
Amounts are `begin`, `end`, `block`, `columns`, `padded` (the columns, up to whole vectors) and "in 0", "out 1": bytes from one
row of a full value to the next. Memory of a block is padded, so only that of the arguments needs masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.backends.plans.element_plan import instructions
from funcad.backends.plans.element_writer import identity_of
from funcad.backends.plans.row_plan import RowPlan, kind_of, variables
from funcad.ir.jaxpr import Equation, Var

from funcad.backends.loops.nest import (  # isort: skip
    BACK, ONES, VECTORS, WRITTEN, Ask, At, Blocks, Constant, Fold, For, Into, Load, Put, Total, element,
)

MOST_ROWS = 128  # in a block
CACHE = 1 << 16  # bytes of full values that a block of rows should not exceed
TILE = 4096  # elements of a row that are summed before the sum is added to others
BUSY = 20  # the weight of a phase that computes rather than waits for memory: it asks for the rows of the next block
WIDEST = 8  # columns of rows that are written out
MOST = 160  # instructions of one vector of such rows
RUN = 64  # vectors of rows that are summed before their sum is added to others


def row_bytes(plan: RowPlan) -> int:
    """Memory that one row of everything that is in memory takes."""
    full = [v.aval.dtype.itemsize for v in plan.kind if plan.kind[v] == "full" and (v not in plan.maker or v in plan.outputs)]
    return max(plan.shape[1] * (sum(full) + sum([v.aval.dtype.itemsize for v in plan.kept])), 1)


def block_rows(plan: RowPlan) -> int:
    """How many rows a block has: what the cache holds, in whole vectors of rows if possible."""
    block = min(MOST_ROWS, max(CACHE // row_bytes(plan), 1))
    return block // 8 * 8 if block >= 8 else 4 if block >= 4 else block if block < 3 else 2


def is_narrow(plan: RowPlan, lanes: int) -> bool:
    """Would vectors of columns be a quarter empty, and are there rows enough to fill vectors of rows?"""
    r, n = plan.shape
    values = plan.kind
    if n > WIDEST or -(-n // lanes) * lanes * 4 < n * 5 or r < lanes or any([v.aval.dtype.kind == "c" for v in values]):
        return False
    work = 0
    for equation in plan.jaxpr.equations:
        wide = any([values[v] == "full" for v in (*variables(equation), *equation.outputs)])
        work += instructions(equation) * (n if wide else 1)
    work += 2 * n * sum([values[v] == "full" for v in (*plan.jaxpr.inputs, *plan.outputs)])
    return work <= MOST


def row_loops(plan: RowPlan, lanes: int, nontemporal: bool = False) -> list[Any]:
    """The loops over the rows `begin` .. `end`; sums over them go to their places."""
    return narrow(plan) if is_narrow(plan, lanes) else Wide(plan, lanes, nontemporal).nest()


def factors(equation: Equation) -> tuple[Any, Any]:
    """What a reduction adds up, and what it is multiplied by, if it is a product with a vector."""
    return equation.inputs[0], equation.inputs[1] if len(equation.inputs) > 1 else None


def _place(array: Any, v: Var, kind: str) -> At:
    """An argument's element: `array` is ("in", i) or ("out", k)."""
    size, row = v.aval.dtype.itemsize, f"{array[0]} {array[1]}"
    rows = {"full": (("b", row), ("r", row)), "row": (("b", size), ("r", size))}
    return At(array, (*rows.get(kind, ()), *((("c", size),) if kind in ("full", "column") else ())))


def _load(v: Var, at: At) -> Load:
    return Load(v, v.aval.dtype, at)


def _put(at: At, v: Var, past: bool = False) -> Put:
    return Put(at, v, v.aval.dtype, past)


def _sum(plan: RowPlan, equation: Equation) -> At:
    """Where a sum over rows is."""
    if equation in plan.scalars:
        return At(("scalar", plan.scalars.index(equation)))
    return At(("column", plan.columns.index(equation)), (("c", equation.outputs[0].aval.dtype.itemsize),))


def _total(equation: Equation, over: tuple = (), chain: bool = False) -> Total:
    (out,) = equation.outputs
    return Total(out, out.aval.dtype, kind_of(equation) or "", over, chain=chain)


def _into(plan: RowPlan, equation: Equation, *values: Any) -> Into:
    """A step of a sum over rows."""
    return Into(_sum(plan, equation), equation.outputs[0].aval.dtype, kind_of(equation) or "", *values)


def _cleared(plan: RowPlan, equation: Equation) -> Put:
    """What a sum over rows begins with."""
    dtype = equation.outputs[0].aval.dtype
    return Put(_sum(plan, equation), Constant(identity_of(kind_of(equation) or "", dtype), dtype), dtype)


class Wide:
    """Rows that are long enough to be taken vector by vector."""

    def __init__(self, plan: RowPlan, lanes: int, nontemporal: bool):
        self.plan, self.lanes, self.nontemporal = plan, lanes, nontemporal
        self.given = {v: _place(("in", i), v, plan.kind[v]) for i, v in enumerate(plan.jaxpr.inputs)}
        self.read: dict[Var, int] = {}  # how many phases have read a full input

    def nest(self) -> list[Any]:
        plan = self.plan
        first: list[Any] = [_load(v, at) for v, at in self.given.items() if plan.kind[v] == "scalar"]
        first += [_cleared(plan, q) for q in plan.scalars]
        if plan.columns:
            first.append(For("c", 0, "columns", VECTORS, [_cleared(plan, q) for q in plan.columns]))
        body = [s for number in range(len(plan.phases)) for s in (*self.row_phase(number), *self.full_phase(number))]
        return [*first, Blocks("b", "begin", "end", "block", "rows", body)]

    # -- places

    def row(self, v: Var) -> At:
        return At(("slot", v), (("r", v.aval.dtype.itemsize),)) if v in self.plan.slots else self.given[v]

    def kept(self, v: Var) -> At:
        size = v.aval.dtype.itemsize
        return At(("kept", v), (("r", ("padded", size)), ("c", size)))

    def stores(self, v: Var) -> list[Put]:
        kind = self.plan.kind[v]
        return [_put(_place(("out", k), v, kind), v, self.nontemporal and kind == "full") for k in self.plan.outputs[v]]

    # -- phases

    def row_phase(self, number: int) -> list[Any]:
        plan, phase = self.plan, self.plan.phases[number]
        body: list[Any] = []
        known: set[Var] = set()

        def need(atoms: Sequence[Any]) -> None:
            for v in atoms:
                if type(v) is Var and plan.kind[v] == "row" and v not in known:
                    known.add(v)
                    body.append(_load(v, self.row(v)))

        for equation in phase.rows:
            (out,) = equation.outputs
            need(equation.inputs)
            known.add(out)
            body.append(element(equation))
            if out in plan.slots:
                body.append(_put(self.row(out), out))
        for v in plan.outputs:
            if plan.kind[v] == "row" and plan.level[v] == number:
                need([v])
                body += self.stores(v)
        for equation in phase.scalars:
            need(equation.inputs)
            body.append(Fold(equation.outputs[0], equation.inputs[0]))
        if not body:
            return []
        after = [_into(plan, q, q.outputs[0]) for q in phase.scalars]
        return [For("r", 0, "rows", VECTORS, body, totals=list(map(_total, phase.scalars))), *after]

    def full_phase(self, number: int) -> list[Any]:
        plan, phase = self.plan, self.plan.phases[number]
        if not phase.sinks:
            return []
        outside: list[Any] = [_load(v, self.row(v)) for v in plan.row_operands(number)]
        inside: list[Any] = []
        for v in plan.needed(phase, number):
            (inside if plan.by_column[v] else outside).extend(self.value(v, number))
        totals, after = [], []
        for sink in phase.sinks:
            if sink.kind == "keep":
                inside.append(_put(self.kept(sink.var), sink.var))
            elif sink.kind == "output":
                inside += self.stores(sink.var)
            elif sink.kind == "column":
                inside.append(_into(plan, sink.equation, *factors(sink.equation)))
            else:
                totals.append(_total(sink.equation))
                inside.append(Fold(sink.var, *factors(sink.equation)))
                after.append(_put(self.row(sink.var), sink.var))
        rows, vectors = self.abreast(number)
        (r, n), run = plan.shape, TILE // (vectors * self.lanes)
        along = For("c", 0, "columns", VECTORS, inside, vectors, totals, n, run=run if n > TILE else 0)
        return [For("r", 0, "rows", ONES, [*outside, along, *after], rows, extent=r)]

    def value(self, v: Var, number: int) -> list[Any]:
        """A full or column value of a phase."""
        plan = self.plan
        if plan.loaded(v, number):
            return [_load(v, self.kept(v))]
        if v in plan.maker:
            return [element(plan.maker[v])]
        found: list[Any] = [_load(v, self.given[v])]
        if plan.kind[v] == "full":
            self.read[v] = self.read.get(v, 0) + 1
            if self.read[v] == 2 and plan.weight(number) > BUSY:
                found.insert(0, Ask(self.given[v], v.aval.dtype.itemsize, ("block", f"in {plan.jaxpr.inputs.index(v)}")))
        return found

    def abreast(self, number: int) -> tuple[int, int]:
        """How many rows, and how many vectors of a row, are abreast in a full phase."""
        plan, weight = self.plan, self.plan.weight(number)
        r, n = plan.shape
        shared = any(s.kind == "column" for s in plan.phases[number].sinks) or any(
            plan.by_column[v] and not plan.by_row[v] for v in plan.needed(plan.phases[number], number)
        )
        if weight <= 9:
            rows, vectors = (4, 2) if shared else (1, 4)
        elif weight <= 18:
            rows, vectors = (2, 2) if shared else (1, 2)
        else:
            rows, vectors = (2, 1) if shared and weight <= 36 else (1, 1)
        while rows > min(r, block_rows(plan), self.lanes):
            rows //= 2
        whole = n // self.lanes
        if self.nontemporal and any(s.kind == "output" for s in plan.phases[number].sinks):
            return 1, max(1, 64 // min(v.aval.dtype.itemsize * self.lanes for v in plan.outputs if plan.kind[v] == "full"))
        if vectors > 1 and whole % vectors:  # rather another number of vectors than a loop for what is left over
            fit = [v for v in (3, 5, 7) if not whole % v and v <= 2 * vectors]
            if fit:
                rows, vectors = max(1, rows // 2 if fit[0] > vectors and rows * fit[0] > 10 else rows), fit[0]
        return rows, max(min(vectors, whole), 1)


def narrow(plan: RowPlan) -> list[Any]:
    """Rows of a few elements: a vector of rows at a time, their columns written out."""
    n, kinds = plan.shape[1], plan.kind
    given = {v: _place(("in", i), v, kinds[v]) for i, v in enumerate(plan.jaxpr.inputs)}

    def each(kind: str, statement: Any, totals: Sequence[Total] = ()) -> Any:
        """For each column, if it is a value of columns."""
        return For("c", 0, n, WRITTEN, [statement], n, totals) if kind in ("full", "column") else statement

    once = [each(kinds[v], _load(v, at)) for v, at in given.items() if kinds[v] in ("scalar", "column")]
    body = [each(kinds[v], _load(v, at)) for v, at in given.items() if kinds[v] in ("full", "row")]
    for equation in plan.jaxpr.equations:
        (out,) = equation.outputs
        if kind_of(equation) is None:
            body.append(each(kinds[out], element(equation)))
            continue
        term, times = factors(equation)
        own = [_total(equation, chain=times is not None)] if kinds[out] == "row" else []
        body.append(each(kinds[term], Fold(out, term, times), own))
    for v, places in plan.outputs.items():
        if kinds[v] in ("full", "row"):
            body += [each(kinds[v], _put(_place(("out", k), v, kinds[v]), v)) for k in places]
    totals = [*map(_total, plan.scalars), *[_total(q, (("c", n),)) for q in plan.columns]]
    rows = For("r", "begin", "end", VECTORS, body, totals=totals, rest=BACK, run=RUN)
    sums = [("scalar", q) for q in plan.scalars] + [("column", q) for q in plan.columns]
    return [*once, rows, *[each(what, _put(_sum(plan, q), q.outputs[0])) for what, q in sums]]

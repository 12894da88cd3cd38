"""Rows of a few elements: vectors of rows instead of vectors of columns.

Idea: with N columns written out, a full value is N lanes, each of which holds one column of several rows; a reduction along
the row is N - 1 additions of lanes, a row value is one lane, and all levels are one straight piece of code. The elements of a
column lie a row apart, so they are gathered; LLVM takes single loads where the processor gathers slowly.

Invariants: the last vector of rows overlaps the one before it, so nothing but the sums over rows needs a mask; rows computed
twice are written twice, with equal bits. Sums are carried in registers for at most `RUN` vectors, then added to others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.backends.native import ir
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.rows_base import Base, OperandPlaces, is_product
from funcad.backends.native.target import Host, lanes_of
from funcad.backends.plans.element_plan import instructions
from funcad.backends.plans.row_plan import RowPlan, kind_of, variables
from funcad.ir.jaxpr import Equation, Literal, Var

WIDEST = 8  # columns
MOST = 160  # instructions of one vector of rows
RUN = 64  # vectors of rows that are summed before their sum is added to others


def is_narrow(plan: RowPlan, host: Host) -> bool:
    """Would vectors of columns be a quarter empty, and are there rows enough to fill vectors of rows?"""
    r, n = plan.shape
    values = plan.kind
    lanes = lanes_of(host, [v.aval.dtype for v in values])
    if n > WIDEST or -(-n // lanes) * lanes * 4 < n * 5 or r < lanes or any([v.aval.dtype.kind == "c" for v in values]):
        return False
    work = 0
    for equation in plan.jaxpr.equations:
        wide = any([values[v] == "full" for v in (*variables(equation), *equation.outputs)])
        work += instructions(equation) * (n if wide else 1)
    work += 2 * n * sum([values[v] == "full" for v in (*plan.jaxpr.inputs, *plan.outputs)])
    return work <= MOST


class NarrowRows(Base):
    """The loop over vectors of rows."""

    def __init__(self, function: ir.Function, plan: RowPlan, host: Host, places: OperandPlaces):
        super().__init__(function, plan, host, places)
        self.n = plan.shape[1]
        self.known: dict[tuple[Var, int | None], Lane] = {}
        self.fixed: dict[tuple[Var, int | None], Lane] = {}
        for v in plan.jaxpr.inputs:
            if plan.kind[v] == "column":
                for j in range(self.n):
                    self.fixed[v, j] = self.e.load(v.aval.dtype, places.inputs[plan.jaxpr.inputs.index(v)][0], str(j), stride=0)
        steps = ", ".join([f"i64 {i}" for i in range(self.lanes)])
        self.lane_numbers = f"<{steps}>"
        self.sums: list[tuple[Equation, int | None]] = [(q, None) for q in plan.scalars]
        self.sums += [(q, j) for q in plan.columns for j in range(self.n)]

    def run(self) -> None:
        f, e, places, lanes = self.f, self.e, self.places, self.lanes
        starts = [self.start(kind_of(q), q.outputs[0].aval.dtype) for q, _ in self.sums]
        with f.loop(places.begin, places.end, lanes * RUN, self.carried(starts)) as outer:
            stop = self.least(self.add(lanes * RUN, outer.index), places.end)
            with f.loop(outer.index, stop, lanes, self.carried(starts)) as loop:
                first = self.least(loop.index, f.put(f"sub i64 {places.end}, {lanes}"))
                first = f.intrinsic("llvm.smax.i64", "i64", ("i64", first), ("i64", "0"))
                mask = self.beyond(f.put(f"sub i64 {loop.index}, {first}"), f.put(f"sub i64 {places.end}, {first}"))
                after = self.rows(first, mask, self.rebuilt(starts, loop.values))
                loop.next(*[p for lane in after for p in lane.parts])
            totals = [
                e.combine(kind_of(q), a, b)
                for (q, _), a, b in zip(self.sums, self.rebuilt(starts, outer.values), self.rebuilt(starts, loop.results))
            ]
            outer.next(*[p for lane in totals for p in lane.parts])
        for (equation, j), lane in zip(self.sums, self.rebuilt(starts, outer.results)):
            if j is None:
                e.store(lane, self.scalar_place(places.partials, self.plan.scalars.index(equation)), "0")
            else:
                place = self.column_place(places.partials, self.plan.columns.index(equation))
                self.one.store(e.horizontal(kind_of(equation), lane), place, str(j))

    def beyond(self, done: str, count: str) -> str:
        """The mask of the rows that belong to this vector and not to the one before it."""
        vector = f"<{self.lanes} x i64>"
        low, high = self.e.broadcast("i64", done), self.e.broadcast("i64", count)
        fresh = self.f.put(f"icmp sge {vector} {self.lane_numbers}, {low}")
        inside = self.f.put(f"icmp slt {vector} {self.lane_numbers}, {high}")
        return self.f.put(f"and <{self.lanes} x i1> {fresh}, {inside}")

    def rows(self, first: str, mask: str, totals: list[Lane]) -> list[Lane]:
        """All equations for one vector of rows."""
        plan, e = self.plan, self.e
        self.known = dict(self.fixed)
        for i, v in enumerate(plan.jaxpr.inputs):
            pointer, stride = self.places.inputs[i]
            if plan.kind[v] == "row":
                self.known[v, None] = e.load(v.aval.dtype, pointer, first)
            elif plan.kind[v] == "full":
                addresses = self.addresses(pointer, stride, first)
                for j in range(self.n):
                    self.known[v, j] = self.gather(v.aval.dtype, addresses, j)
            elif plan.kind[v] == "scalar":
                self.known[v, None] = self.scalar_values[v]
        totals = list(totals)
        for equation in plan.jaxpr.equations:
            (out,) = equation.outputs
            kind = plan.kind[out]
            if kind_of(equation) is None:
                for place in range(self.n) if kind in ("full", "column") else (None,):
                    lanes = [None if type(a) is Literal else self.lane(a, place) for a in equation.inputs]
                    self.known[out, place] = self.broadcast(equation, lanes)
            elif kind == "row":
                self.known[out, None] = self.along(equation)
            else:
                self.down(equation, mask, totals)
        for v, places in plan.outputs.items():
            for k in places:
                pointer, stride = self.places.outputs[k]
                if plan.kind[v] == "row":
                    e.store(self.lane(v, None), pointer, first)
                elif plan.kind[v] == "full":
                    addresses = self.addresses(pointer, stride, first)
                    for j in range(self.n):
                        self.scatter(self.lane(v, j), addresses, j)
        return totals

    def lane(self, v: Var, j: int | None) -> Lane:
        found = self.known.get((v, j))
        return self.known[v, None] if found is None else found

    def along(self, equation: Equation) -> Lane:
        kind, x = kind_of(equation), equation.inputs[0]
        total = self.start(kind, equation.outputs[0].aval.dtype)
        if not is_product(equation):
            lanes = [self.lane(x, j) for j in range(self.n)]
            return self.e.combine(kind, total, self.tree(kind, lanes)) if kind == "add" else self.tree(kind, lanes)
        for j in range(self.n):
            total = self.multiply_add(self.lane(x, j), self.lane(equation.inputs[1], j), total)
        return total

    def down(self, equation: Equation, mask: str, totals: list[Lane]) -> None:
        """Add these rows to a sum over rows."""
        kind, x = kind_of(equation), equation.inputs[0]
        for i, (other, j) in enumerate(self.sums):
            if other is not equation:
                continue
            own = self.only(mask, self.lane(x, j), kind)
            if is_product(equation):
                by = self.only(mask, self.lane(equation.inputs[1], None), kind)
                totals[i] = self.multiply_add(own, by, totals[i])
            else:
                totals[i] = self.e.combine(kind, totals[i], own)

    # -- memory

    def addresses(self, pointer: str, stride: Any, first: str) -> str:
        """Where the rows of this vector begin."""
        count, f = self.lanes, self.f
        base = self.at(pointer, self.times(first, stride))
        offsets = f.put(f"mul <{count} x i64> {self.lane_numbers}, {self.e.broadcast('i64', stride)}")
        return f.put(f"getelementptr i8, ptr {base}, <{count} x i64> {offsets}")

    def _column(self, dtype: np.dtype, addresses: str, j: int) -> tuple[str, str, str, str]:
        """Element type in memory, vector type, name of the intrinsics' suffix, and the addresses of column j."""
        kind = "i8" if dtype.kind == "b" else self.e.element(dtype)
        place = addresses
        if j:
            place = self.f.put(f"getelementptr i8, <{self.lanes} x ptr> {addresses}, i64 {j * dtype.itemsize}")
        short = {"double": "f64", "float": "f32"}.get(kind, kind)
        return f"<{self.lanes} x {kind}>", f"v{self.lanes}{short}.v{self.lanes}p0", f"<{self.lanes} x ptr>", place

    def gather(self, dtype: np.dtype, addresses: str, j: int) -> Lane:
        vector, suffix, pointers, place = self._column(dtype, addresses, j)
        ones = f"<{self.lanes} x i1>"
        name = self.f.module.declare(f"llvm.masked.gather.{suffix}", vector, [pointers, "i32", ones, vector])
        every = self.e.constant("i1", "true")
        found = self.f.load(
            f"call {vector} {name}({pointers} {place}, i32 {dtype.itemsize}, {ones} {every}, {vector} zeroinitializer)"
        )
        if dtype.kind == "b":
            found = self.f.put(f"icmp ne {vector} {found}, zeroinitializer")
        return Lane(dtype, (found,))

    def scatter(self, lane: Lane, addresses: str, j: int) -> None:
        dtype = lane.dtype
        vector, suffix, pointers, place = self._column(dtype, addresses, j)
        value = lane.name
        if dtype.kind == "b":
            value = self.f.put(f"zext <{self.lanes} x i1> {value} to {vector}")
        ones = f"<{self.lanes} x i1>"
        name = self.f.module.declare(f"llvm.masked.scatter.{suffix}", "void", [vector, pointers, "i32", ones])
        every = self.e.constant("i1", "true")
        self.f.do(f"call void {name}({vector} {value}, {pointers} {place}, i32 {dtype.itemsize}, {ones} {every})")

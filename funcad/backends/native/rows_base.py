"""What all loops over a group of rows share: where its operands are, emitters, partial sums.

Idea: emission is given SSA names of pointers and extents (`OperandPlaces`) and so can write into a kernel of its own or into a
larger program. Sums over the rows are accumulated in memory of their own, one piece per chunk of rows, of `partial_bytes`.
Trap: lanes beyond the end hold zeros (or, in padding, anything), so they must not reach a reduction: `only` puts the identity
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.native import ir
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.target import Host, lanes_of
from funcad.backends.plans.element_plan import operand_dtypes
from funcad.backends.plans.row_plan import RowPlan, kind_of
from funcad.ir.jaxpr import Equation

MOST_ROWS = 128  # in a block
CACHE = 1 << 16  # bytes of full values that a block of rows should not exceed
SLOT = MOST_ROWS * 16 + 64  # bytes of one row value of a block; not a power of two, which would collide in the cache
SCALAR = 128  # bytes of one partial sum over everything: a vector of the widest kind


class OperandPlaces(NamedTuple):
    """Where a group finds its operands: SSA names, or numbers where an integer is known."""

    inputs: Sequence[tuple[str, Any]]  # pointer, bytes between rows (of full values)
    outputs: Sequence[tuple[str, Any]]
    columns: Any  # N
    begin: Any
    end: Any
    block: Any  # `block_rows`
    partials: str  # memory for the sums over the rows begin..end, `partial_bytes`
    scratch: str  # memory for one block, `scratch_bytes`
    nontemporal: bool = False  # do full results bypass the caches?


def _padded(n: int) -> int:
    return (n + 63) // 64 * 64


def row_bytes(plan: RowPlan) -> int:
    """Memory that one row of everything that is in memory takes."""
    full = [v.aval.dtype.itemsize for v in plan.kind if plan.kind[v] == "full" and (v not in plan.maker or v in plan.outputs)]
    return max(plan.shape[1] * (sum(full) + sum([v.aval.dtype.itemsize for v in plan.kept])), 1)


def block_rows(plan: RowPlan) -> int:
    """How many rows a block has: what the cache holds, in whole vectors of rows if possible."""
    block = min(MOST_ROWS, max(CACHE // row_bytes(plan), 1))
    return block // 8 * 8 if block >= 8 else 4 if block >= 4 else block if block < 3 else 2


def partial_bytes(plan: RowPlan) -> int:
    """Memory that the sums over rows of one chunk need."""
    sizes = [e.outputs[0].aval.dtype.itemsize for e in plan.columns]
    return SCALAR * len(plan.scalars) + _padded(plan.shape[1]) * sum(sizes)


def scratch_bytes(plan: RowPlan, block: int) -> int:
    """Memory that a block of rows needs besides the operands."""
    return SLOT * len(plan.slots) + block * _padded(plan.shape[1]) * sum([v.aval.dtype.itemsize for v in plan.kept])


def is_product(equation: Equation) -> bool:
    return equation.primitive.name == "dot_general"


class Base:
    """What all loops over a group need: emitters, pointers, element operations."""

    def __init__(self, function: ir.Function, plan: RowPlan, host: Host, places: OperandPlaces, scalars: bool = True):
        self.f, self.plan, self.places = function, plan, places
        every = [*plan.jaxpr.inputs, *[e.outputs[0] for e in plan.jaxpr.equations]]
        self.lanes = lanes_of(host, [v.aval.dtype for v in every])
        self.e = Emitter(function, self.lanes, host)
        self.one = Emitter(function, 1, host)
        self.pointers = dict(zip(plan.jaxpr.inputs, places.inputs))
        self.scalar_values = {
            v: self.e.load(v.aval.dtype, self.pointers[v][0], "0", stride=0)
            for v in plan.jaxpr.inputs
            if scalars and plan.kind[v] == "scalar"
        }
        self.padded = self.add(63, places.columns)
        self.padded = function.put(f"and i64 {self.padded}, -64")

    def add(self, a: Any, b: Any) -> str:
        if b in (0, "0"):
            return str(a)
        return str(b) if a in (0, "0") else self.f.put(f"add i64 {b}, {a}")

    def times(self, a: Any, b: Any) -> str:
        return str(a) if b == 1 else "0" if b == 0 or a in (0, "0") else self.f.put(f"mul i64 {a}, {b}")

    def least(self, a: Any, b: Any) -> str:
        return self.f.intrinsic("llvm.smin.i64", "i64", ("i64", str(a)), ("i64", str(b)))

    def at(self, pointer: str, offset: Any) -> str:
        """The pointer some bytes further."""
        return pointer if offset in (0, "0") else self.f.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def apply(self, equation: Equation, operands: Sequence[Lane | None]) -> Lane:
        """An element operation; None stands for a Literal."""
        dtypes = operand_dtypes(equation)
        lanes = [
            self.e.literal(atom.value, dtype) if lane is None else lane
            for atom, lane, dtype in zip(equation.inputs, operands, dtypes)
        ]
        return self.e.apply(equation, lanes)

    def broadcast(self, equation: Equation, operands: Sequence[Lane | None]) -> Lane:
        """An equation without reduction; broadcasts are what their operand is."""
        if equation.primitive.name != "broadcast_in_dim":
            return self.apply(equation, operands)
        (lane,) = operands
        return self.e.literal(equation.inputs[0].value, equation.outputs[0].aval.dtype) if lane is None else lane

    def start(self, kind: str, dtype: Any) -> Lane:
        """What a reduction starts from: NumPy's sums from +0.0, so that a sum of -0.0 is 0.0."""
        return self.e.identity(kind, dtype)

    def multiply_add(self, a: Lane, b: Lane, total: Lane) -> Lane:
        """total + a * b, in one instruction where the processor has it: contractions may round either way."""
        e = self.e
        if a.dtype.kind != "f" or not e.fused:
            return e.add(total, e.mul(a, b))
        kind = e.register(a.dtype)
        name = f"llvm.fma.{e.suffix(e.element(a.dtype))}"
        return Lane(a.dtype, (self.f.intrinsic(name, kind, (kind, a.name), (kind, b.name), (kind, total.name)),))

    def only(self, mask: str | None, lane: Lane, kind: str) -> Lane:
        """The lane, with the identity of a reduction where the mask is off."""
        if mask is None:
            return lane
        return self.e.select(Lane(np.dtype(bool), (mask,)), lane, self.start(kind, lane.dtype))

    def tree(self, kind: str, lanes: list[Lane]) -> Lane:
        while len(lanes) > 1:
            pairs = [self.e.combine(kind, a, b) for a, b in zip(lanes[::2], lanes[1::2])]
            lanes = pairs + lanes[2 * len(pairs) :]
        return lanes[0]

    def carried(self, lanes: Sequence[Lane]) -> list[tuple[str, str]]:
        return [(self.e.register(lane.dtype), p) for lane in lanes for p in lane.parts]

    @staticmethod
    def rebuilt(like: Sequence[Lane], parts: Sequence[str]) -> list[Lane]:
        rest = iter(parts)
        return [Lane(lane.dtype, tuple([next(rest) for _ in lane.parts])) for lane in like]

    # -- partial sums

    def scalar_place(self, partials: str, number: int) -> str:
        return self.at(partials, SCALAR * number)

    def column_place(self, partials: str, number: int) -> str:
        before = self.times(self.padded, self.column_bytes(number))
        return self.at(partials, self.add(SCALAR * len(self.plan.scalars), before))

    def column_bytes(self, number: int) -> int:
        """Bytes of the first `number` column sums, per column."""
        return sum([e.outputs[0].aval.dtype.itemsize for e in self.plan.columns[:number]])

    def clear(self) -> None:
        """Partial sums of no rows."""
        size = partial_bytes(self.plan)
        if not size:
            return
        if {kind_of(q) for q in (*self.plan.scalars, *self.plan.columns)} == {"add"}:
            fill = self.f.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
            columns = self.times(self.padded, self.column_bytes(len(self.plan.columns)))
            size_now = self.add(SCALAR * len(self.plan.scalars), columns)
            self.f.do(f"call void {fill}(ptr {self.places.partials}, i8 0, i64 {size_now}, i1 false)")
            return
        for i, equation in enumerate(self.plan.scalars):
            start = self.start(kind_of(equation), equation.outputs[0].aval.dtype)
            self.e.store(start, self.scalar_place(self.places.partials, i), "0")
        for i, equation in enumerate(self.plan.columns):
            place = self.column_place(self.places.partials, i)
            with self.f.loop(0, self.places.columns, self.lanes) as loop:
                self.e.store(self.start(kind_of(equation), equation.outputs[0].aval.dtype), place, loop.index)

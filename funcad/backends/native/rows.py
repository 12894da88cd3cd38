"""Groups of kind "rows" as native code.

    plan = plan_rows(jaxpr, shape)                    # what is computed in which pass, plans/row_plan.py
    emit_rows(function, plan, host, places)           # rows places.begin .. places.end, into any ir.Function
    emit_finish(function, plan, host, places, 1, 0)   # sums over all rows, from the partial sums of the chunks
    rows_kernel(module, plan, host)                   # both as functions of their own: a program for wrapper.py

Invariants: sums over rows are accumulated per chunk of rows, and the chunks are combined in order, so results do not depend on
the number of threads. The text depends on the shape only by small facts (is a row a whole number of vectors?), so kernels are
shared by most batch sizes. Rows and columns must not be empty: whoever calls leaves that case to the reference.

`rows_kernel` writes `kernel(slots, arena, context)`. Slots: inputs, numbers, results of rank 1 and 2, results of rank 0. The
words of `numbers`: the runner and its pool (threads.py; 0: none), rows of a chunk, rows, columns, rows of a block, then for
every input the bytes between its rows. Along a row full values are contiguous; row and column values are contiguous.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.loops.row_loops import MOST_ROWS, block_rows, row_bytes, row_loops
from funcad.backends.native import ir
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.nest_printer import Memory, NestPrinter
from funcad.backends.native.target import Host, lanes_of
from funcad.backends.plans.element_plan import Unsupported
from funcad.backends.plans.row_plan import RowPlan, kind_of
from funcad.ir.jaxpr import Equation, Jaxpr

RUNNER, POOL, CHUNK, ROWS, COLUMNS, BLOCK, STRIDES = range(7)  # words of `numbers`
CHUNK_BYTES = 1 << 18  # of full values that are worth a chunk of their own
CHUNKS = 32  # at most
ARENA = 1 << 25  # bytes of memory for all chunks together, which makes them fewer
STACK = 1 << 16  # bytes of scratch memory that a function takes from the stack
SLOT = MOST_ROWS * 16 + 64  # bytes of one row value of a block; not a power of two, which would collide in the cache
SCALAR = 16  # bytes of one partial sum over everything


class OperandPlaces(NamedTuple):
    """Where a group finds its operands: LLVM values, or numbers where an integer is known."""

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


def _scalars(plan: RowPlan) -> int:
    """Memory of the sums over everything."""
    return _padded(SCALAR * len(plan.scalars))


def partial_bytes(plan: RowPlan) -> int:
    """Memory that the sums over rows of one chunk need."""
    sizes = [e.outputs[0].aval.dtype.itemsize for e in plan.columns]
    return _scalars(plan) + _padded(plan.shape[1]) * sum(sizes)


def scratch_bytes(plan: RowPlan, block: int) -> int:
    """Memory that a block of rows needs besides the operands."""
    return SLOT * len(plan.slots) + block * _padded(plan.shape[1]) * sum([v.aval.dtype.itemsize for v in plan.kept])


def plan_rows(jaxpr: Jaxpr, shape: tuple[int, int]) -> RowPlan:
    """The phases of a group; Unsupported if it is not in the normal form, or holds what no vector can."""
    for v in [*jaxpr.inputs, *[v for e in jaxpr.equations for v in e.outputs]]:
        dtype = np.dtype(v.aval.dtype)
        if dtype.char in "egG" or dtype.kind not in "biufc":
            raise Unsupported(f"{dtype} has no native arithmetic")
    return RowPlan(jaxpr, shape)


class Sizes(NamedTuple):
    """How a group is cut, the same for every number of threads, and the memory that it needs."""

    block: int  # rows
    chunk: int  # rows
    chunks: int
    partial: int  # bytes of partial sums of a chunk
    scratch: int  # bytes that a chunk needs for a block of rows
    on_stack: bool  # is `scratch` taken from the stack?

    @property
    def arena(self) -> int:
        return self.chunks * self.per_chunk

    @property
    def per_chunk(self) -> int:
        return self.partial + (0 if self.on_stack else self.scratch)


def sizes_of(plan: RowPlan) -> Sizes:
    """Blocks that the cache holds, and chunks that several threads can share."""
    r = plan.shape[0]
    row, block = row_bytes(plan), block_rows(plan)
    scratch = (scratch_bytes(plan, block) + 63) // 64 * 64
    on_stack = scratch <= STACK and os.name != "nt"  # there, so much of it must be asked for page by page
    partial = partial_bytes(plan)
    most = max(2, min(CHUNKS, ARENA // (partial + (0 if on_stack else scratch) + 1)))
    chunk = max(CHUNK_BYTES // row, -(-r // most), 16 * len(plan.columns), 1)
    chunk = min(-(-chunk // block), -(-r // block)) * block
    return Sizes(block, chunk, -(-r // chunk), partial, scratch, on_stack)


def printer_of(function: ir.Function, plan: RowPlan, host: Host, places: OperandPlaces) -> NestPrinter:
    """A printer that knows the group's arrays: arguments, and the memory of blocks and of sums."""
    every = [*plan.jaxpr.inputs, *[e.outputs[0] for e in plan.jaxpr.equations]]
    printer = NestPrinter(function, host, lanes_of(host, [v.aval.dtype for v in every]), {}, {})
    names, memory = printer.names, printer.memory
    padded = function.put(f"and i64 {printer.add(63, places.columns)}, -64")
    names |= {name: getattr(places, name) for name in ("begin", "end", "block", "columns")}
    names["padded"] = padded
    for what, given in (("in", places.inputs), ("out", places.outputs)):
        for k, (pointer, stride) in enumerate(given):
            memory[what, k], names[f"{what} {k}"] = Memory(pointer), stride

    def own(pointer: str, offset: Any, more: Any = 0) -> Memory:
        return Memory(printer.further(pointer, printer.add(offset, more)), True)

    for i in range(len(plan.scalars)):
        memory["scalar", i] = own(places.partials, SCALAR * i)
    before = 0
    for i, q in enumerate(plan.columns):
        memory["column", i] = own(places.partials, _scalars(plan), printer.times(padded, before))
        before += q.outputs[0].aval.dtype.itemsize
    for v, i in plan.slots.items():
        memory["slot", v] = own(places.scratch, SLOT * i)
    before, rows = 0, printer.times(padded, places.block)
    for v in sorted(plan.kept, key=lambda v: plan.level[v]):
        memory["kept", v] = own(places.scratch, SLOT * len(plan.slots), printer.times(rows, before))
        before += v.aval.dtype.itemsize
    return printer


def emit_rows(function: ir.Function, plan: RowPlan, host: Host, places: OperandPlaces) -> None:
    """Write the loops over the rows places.begin .. places.end; sums over them go to places.partials."""
    printer = printer_of(function, plan, host, places)
    printer.write(row_loops(plan, printer.lanes, places.nontemporal))


def emit_finish(function: ir.Function, plan: RowPlan, host: Host, places: OperandPlaces, chunks: Any, stride: Any) -> None:
    """Write the sums over all rows to the outputs; places.partials holds those of the chunks, `stride` bytes apart."""
    printer = printer_of(function, plan, host, places)

    def totals(e: Any, what: str, equations: Sequence[Equation], index: str) -> list[Lane]:
        pointers = [printer.memory[what, i].pointer for i in range(len(equations))]
        dtypes = [q.outputs[0].aval.dtype for q in equations]
        found = {i: e.load(dtype, pointer, index) for i, (dtype, pointer) in enumerate(zip(dtypes, pointers))}
        if chunks != 1 and equations:
            with printer.carried(1, chunks, 1, found, e) as chunk:
                offset = printer.times(chunk, stride)
                for i, equation in enumerate(equations):
                    term = e.load(dtypes[i], printer.further(pointers[i], offset), index)
                    found[i] = e.combine(kind_of(equation) or "", found[i], term)
        return list(found.values())

    for equation, lane in zip(plan.scalars, totals(printer.one, "scalar", plan.scalars, "0")):
        for k in plan.outputs[equation.outputs[0]]:
            printer.one.store(lane, places.outputs[k][0], "0")
    if not plan.columns:
        return
    e = printer.wide
    with function.loop(0, places.columns, printer.lanes) as loop:
        mask = e.mask(printer.less(places.columns, loop.index)) if plan.shape[1] % printer.lanes else None
        for equation, lane in zip(plan.columns, totals(e, "column", plan.columns, loop.index)):
            for k in plan.outputs[equation.outputs[0]]:
                e.store(lane, places.outputs[k][0], loop.index, mask=mask)


def result_order(plan: RowPlan) -> list[int]:
    """The outputs in the order of their slots: those of rank 0 come last."""
    outputs = plan.results
    return sorted(range(len(outputs)), key=lambda k: outputs[k].aval.ndim == 0)


def rows_kernel(module: ir.Module, plan: RowPlan, host: Host, nontemporal: bool = False) -> None:
    """Add `part`, which runs one chunk, and `kernel`, which runs all of them and combines their sums.

    With `nontemporal` full results bypass the caches: rows must be whole vectors, and aligned to them.
    """
    sizes, sums = sizes_of(plan), bool(plan.scalars or plan.columns)
    part = ir.Function(module, "part", [("ptr", "%slots"), ("i64", "%lo"), ("i64", "%hi"), ("ptr", "%arena")])
    numbers = part.word("%slots", len(plan.jaxpr.inputs), "ptr")
    own = scratch = "null"
    if sizes.per_chunk:
        number = part.put(f"udiv i64 %lo, {part.word(numbers, CHUNK)}")
        own = _bytes(part, "%arena", part.put(f"mul i64 {number}, {sizes.per_chunk}"))
    if sizes.scratch and sizes.on_stack:
        scratch = part.load(f"alloca [{sizes.scratch} x i8], align 64")
    elif sizes.scratch:
        scratch = _bytes(part, own, sizes.partial)
    places = _places(part, plan, numbers, {"full", "row", "column", "scalar"}, {"full", "row"})
    places = places._replace(begin="%lo", end="%hi", partials=own, scratch=scratch, nontemporal=nontemporal)
    emit_rows(part, plan, host, places)
    if nontemporal:  # other threads must see what was written past the caches
        if platform.machine().lower() in ("x86_64", "amd64", "i686", "i386"):
            part.do(f"call void {module.declare('llvm.x86.sse.sfence', 'void', [])}()")
        else:
            part.do("fence seq_cst")
    part.do("ret void")
    module.add(part)

    kernel = ir.Function(module, "kernel", [("ptr", "%slots"), ("ptr", "%arena"), ("ptr", "%context")], "i32")
    numbers = kernel.word("%slots", len(plan.jaxpr.inputs), "ptr")
    runner, length, rows = kernel.word(numbers, RUNNER, "ptr"), kernel.word(numbers, CHUNK), kernel.word(numbers, ROWS)
    kernel.run_parts(runner, (numbers, POOL), rows, length, True)
    if sums:
        places = _places(kernel, plan, numbers, set(), {"column", "scalar"})._replace(partials="%arena")
        chunks: Any = 1
        if sizes.chunks > 1:
            last = kernel.put(f"sub i64 {kernel.put(f'add i64 {rows}, {length}')}, 1")
            chunks = kernel.put(f"udiv i64 {last}, {length}")
        emit_finish(kernel, plan, host, places, chunks, sizes.per_chunk)
    else:  # the sums' ends are loops over columns
        kernel.attributes = ir.RUNS_ONCE
    kernel.do("ret i32 0")
    module.add(kernel)


def _bytes(function: ir.Function, pointer: str, offset: Any) -> str:
    return function.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def _places(function: ir.Function, plan: RowPlan, numbers: str, inputs: set, outputs: set) -> OperandPlaces:
    """The operands of these kinds, from the slots."""
    columns, count = function.word(numbers, COLUMNS), len(plan.jaxpr.inputs)
    found_in: list[Any] = [("null", 0)] * count
    found_out: list[Any] = [("null", 0)] * len(plan.results)
    for i, v in enumerate(plan.jaxpr.inputs):
        if plan.kind[v] in inputs:
            stride = function.word(numbers, STRIDES + i) if plan.kind[v] == "full" else 0
            found_in[i] = function.word("%slots", i, "ptr"), stride
    for place, k in enumerate(result_order(plan)):
        v = plan.results[k]
        if plan.kind[v] in outputs:
            stride = function.put(f"mul i64 {columns}, {v.aval.dtype.itemsize}") if plan.kind[v] == "full" else 0
            found_out[k] = function.word("%slots", count + 1 + place, "ptr"), stride
    return OperandPlaces(found_in, found_out, columns, 0, 0, function.word(numbers, BLOCK), "null", "null")

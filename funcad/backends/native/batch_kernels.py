"""Groups of kind "batch": vectors of examples, each number of an example in a register of its own.

Idea: lane i of a vector belongs to example i, and plans/batch_plan.py says what becomes of the numbers of an example. In memory
these lie together: vectors are read along them, a square of examples and numbers at a time, and transposed in registers, and so
are the results. Invariant: the last vector of examples overlaps the one before it, and writes the same bits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.native import ir
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.target import Host, lanes_of
from funcad.backends.plans.batch_plan import Example, array_of
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.passes.example_loops import layouts


def lanes_for(jaxpr: Jaxpr, host: Host, size: int) -> int:
    """Examples of one vector."""
    dtypes = [v.aval.dtype for v in (*jaxpr.inputs, *[e.outputs[0] for e in jaxpr.equations])]
    if any([d.kind not in "biuf" or d.itemsize > 8 or d.char == "e" for d in dtypes]):
        raise Unsupported("complex numbers and float16 of a batch have no native code")
    lanes = lanes_of(host, dtypes)
    while lanes > size:
        lanes //= 2
    return lanes


class BatchLoop(Example):
    """One loop under construction; the pointers are to contiguous arrays."""

    def __init__(
        self,
        function: ir.Function,
        jaxpr: Jaxpr,
        host: Host,
        lanes: int,
        inputs: Sequence[str],
        outputs: Sequence[str],
    ):
        self.f, self.jaxpr, self.lanes = function, jaxpr, lanes
        self.e = Emitter(function, lanes, host)
        self.outputs = outputs
        self.pointers = dict(zip(jaxpr.inputs, inputs))
        self.layouts = dict(zip(jaxpr.inputs, layouts(jaxpr)))
        self.shared: dict[Var, np.ndarray] = {}  # what all examples read, in registers before the loop
        for v, pointer in self.pointers.items():
            if self.layouts[v] == "shared":
                lanes_of_v = [self.e.load(v.aval.dtype, pointer, str(k), stride=0) for k in range(v.aval.size)]
                self.shared[v] = array_of(lanes_of_v, v.aval.shape)

    def run(self, begin: Any, end: Any) -> None:
        """Write the loop over the examples begin .. end, `end` being at least `lanes`."""
        f = self.f
        with f.loop(begin, end, self.lanes) as loop:
            last = f.put(f"sub i64 {end}, {self.lanes}")
            first = f.intrinsic("llvm.smin.i64", "i64", ("i64", loop.index), ("i64", last))
            values: dict[Any, np.ndarray] = dict(self.shared)
            for v, layout in self.layouts.items():
                if layout == "first":
                    shape = v.aval.shape[1:]
                    values[v] = array_of(self.read(v.aval.dtype, self.pointers[v], first, prod(shape)), shape)
                elif layout == "last":
                    values[v] = self.read_last(v, first)
            for equation in self.jaxpr.equations:
                values[equation.outputs[0]] = self.value(equation, values)
            for o, pointer in zip(self.jaxpr.outputs, self.outputs):
                self.write(list(values[o].flat), pointer, first)
            loop.next()

    # -- numbers of one example

    def literal(self, value: Any, dtype: np.dtype) -> Lane:
        return self.e.literal(value, dtype)

    def apply(self, equation: Equation, lanes: Sequence[Lane]) -> Lane:
        return self.e.apply(equation, lanes)

    def combine(self, kind: str, a: Lane, b: Lane) -> Lane:
        return self.e.combine(kind, a, b)

    def add(self, a: Lane, b: Lane) -> Lane:
        return self.e.add(a, b)

    def multiply_add(self, a: Lane, b: Lane, total: Lane) -> Lane:
        """In one instruction where the processor has it: contractions may round either way."""
        e = self.e
        if a.dtype.kind != "f" or not e.fused:
            return e.add(total, e.mul(a, b))
        kind = e.register(a.dtype)
        name = f"llvm.fma.{e.suffix(e.element(a.dtype))}"
        return Lane(a.dtype, (self.f.intrinsic(name, kind, (kind, a.name), (kind, b.name), (kind, total.name)),))

    # -- memory

    def read(self, dtype: np.dtype, pointer: str, first: str, count: int) -> list[Lane]:
        """`count` numbers of each example from `first` on, one lane for each."""
        found: list[str] = [""] * count
        for start, width in _pieces(count, self.lanes):
            kind = f"<{width} x {_memory(self.e, dtype)}>" if width > 1 else _memory(self.e, dtype)
            if count == 1:
                return [self.e.load(dtype, pointer, first)]
            rows = []
            for i in range(self.lanes):
                address = self.address(dtype, pointer, first, count, start + i * count)
                rows.append(self.f.load(f"load {kind}, ptr {address}, align {dtype.itemsize}"))
            found[start : start + width] = self.turned(self.joined(rows, dtype, width), dtype)
        if dtype.kind == "b":
            vector = f"<{self.lanes} x i8>"
            found = [self.f.put(f"icmp ne {vector} {name}, zeroinitializer") for name in found]
        return [Lane(dtype, (name,)) for name in found]

    def read_last(self, v: Var, first: str) -> np.ndarray:
        """The numbers of an array with the batch as its last axis: as they lie."""
        *shape, size = v.aval.shape
        places = [self.f.put(f"add i64 {first}, {k * size}") for k in range(prod(shape))]
        return array_of([self.e.load(v.aval.dtype, self.pointers[v], place) for place in places], tuple(shape))

    def write(self, lanes: list[Lane], pointer: str, first: str) -> None:
        """The numbers of the examples from `first` on."""
        count, dtype = len(lanes), lanes[0].dtype
        if count == 1:
            self.e.store(lanes[0], pointer, first)
            return
        names = [lane.name for lane in lanes]
        if dtype.kind == "b":
            names = [self.f.put(f"zext <{self.lanes} x i1> {name} to <{self.lanes} x i8>") for name in names]
        element = _memory(self.e, dtype)
        for start, width in _pieces(count, self.lanes):
            vectors = self.turned(names[start : start + width], dtype)
            for i in range(self.lanes):
                part = [f"i32 {i // width * width + k}" for k in range(width)]
                whole = f"<{self.lanes} x {element}> {vectors[i % width]}"
                row = vectors[i % width]
                if width < self.lanes:
                    row = self.f.put(
                        f"shufflevector {whole}, <{self.lanes} x {element}> poison, <{width} x i32> <{', '.join(part)}>"
                    )
                address = self.address(dtype, pointer, first, count, start + i * count)
                self.f.do(f"store <{width} x {element}> {row}, ptr {address}, align {dtype.itemsize}")

    def address(self, dtype: np.dtype, pointer: str, first: str, count: int, offset: int) -> str:
        base = self.f.put(f"mul i64 {first}, {count * dtype.itemsize}")
        base = self.f.put(f"getelementptr i8, ptr {pointer}, i64 {base}")
        return self.f.put(f"getelementptr i8, ptr {base}, i64 {offset * dtype.itemsize}") if offset else base

    def joined(self, rows: list[str], dtype: np.dtype, width: int) -> list[str]:
        """Pieces of `width` numbers of each example as full vectors: number j has examples j, j + width, ..."""
        element = _memory(self.e, dtype)
        groups = [rows[j::width] for j in range(width)]
        while len(groups[0]) > 1:
            own = self.lanes // len(groups[0])
            numbers = ", ".join([f"i32 {k}" for k in range(2 * own)])
            vector = f"<{own} x {element}>"
            groups = [
                [
                    self.f.put(f"shufflevector {vector} {a}, {vector} {b}, <{2 * own} x i32> <{numbers}>")
                    for a, b in zip(group[::2], group[1::2])
                ]
                for group in groups
            ]
        return [group[0] for group in groups]

    def turned(self, vectors: list[str], dtype: np.dtype) -> list[str]:
        """The squares in w vectors transposed: place j of square s of vector i goes to place i of square s of vector j."""
        width, vectors = len(vectors), list(vectors)
        vector = f"<{self.lanes} x {_memory(self.e, dtype)}>"
        half = 1
        while half < width:
            orders = []
            for side in (0, half):
                places = [
                    base + side + k + other * self.lanes
                    for base in range(0, self.lanes, 2 * half)
                    for other in (0, 1)
                    for k in range(half)
                ]
                orders.append(", ".join([f"i32 {p}" for p in places]))
            for i in range(width):
                if not i & half:
                    a, b = vectors[i], vectors[i + half]
                    vectors[i], vectors[i + half] = (
                        self.f.put(f"shufflevector {vector} {a}, {vector} {b}, <{self.lanes} x i32> <{order}>")
                        for order in orders
                    )
            half *= 2
        return vectors


def _memory(e: Emitter, dtype: np.dtype) -> str:
    return "i8" if dtype.kind == "b" else e.element(dtype)


def _pieces(count: int, lanes: int) -> list[tuple[int, int]]:
    """(first number, how many) of the squares that cover an example; the last may overlap the one before it."""
    width = 1
    while 2 * width <= min(count, lanes):
        width *= 2
    return [(min(start, count - width), width) for start in range(0, count, width)]

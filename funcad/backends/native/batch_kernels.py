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

from funcad.backends.native import ir, squares
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
                lanes_of_v = [self.e.splat(self.e.one.load(v.aval.dtype, pointer, str(k))) for k in range(v.aval.size)]
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
                    values[v] = array_of(self.read(v, first), shape)
                elif layout == "last":
                    values[v] = self.read_last(v, first)
            for equation in self.jaxpr.equations:
                values[equation.outputs[0]] = self.value(equation, values)
            for o, pointer in zip(self.jaxpr.outputs, self.outputs):
                lanes = list(values[o].flat)
                step = len(lanes) * o.aval.dtype.itemsize
                squares.write(self.e, lanes, self.row(pointer, first, step), step)
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
        return self.e.multiply_add(a, b, total)

    # -- memory

    def row(self, pointer: str, first: str, step: int) -> str:
        """Where the numbers of an example lie."""
        return self.f.put(f"getelementptr i8, ptr {pointer}, i64 {self.f.put(f'mul i64 {first}, {step}')}")

    def read(self, v: Var, first: str) -> list[Lane]:
        """The numbers of each example from `first` on, one lane for each."""
        count, dtype = prod(v.aval.shape[1:]), v.aval.dtype
        step = count * dtype.itemsize
        return squares.read(self.e, dtype, self.row(self.pointers[v], first, step), step, count)

    def read_last(self, v: Var, first: str) -> np.ndarray:
        """The numbers of an array with the batch as its last axis: as they lie."""
        *shape, size = v.aval.shape
        places = [self.f.put(f"add i64 {first}, {k * size}") for k in range(prod(shape))]
        return array_of([self.e.load(v.aval.dtype, self.pointers[v], place) for place in places], tuple(shape))

"""Groups of kind "batch": vectors of examples, each number of an example in a register of its own.

Idea: a value of the group is a NumPy array of lanes, of the shape that it has for one example; lane i of a vector belongs to
example i. So slices, reshapes, transposes and placements are done to that array while the code is written, and cost nothing; a
sum is a few additions of registers. In memory the numbers of an example lie together: vectors are read along them, a square of
examples and numbers at a time, and transposed in registers, and so are the results.

Invariants: the last vector of examples overlaps the one before it, and writes the same bits again; sums and products of an
example are added in the same order for all. Trap: `place_sum` adds a zero wherever not all parts meet: there -0.0 becomes 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.native import ir
from funcad.backends.native.emitter import Emitter, Lane, operand_dtypes
from funcad.backends.native.target import Host, lanes_of
from funcad.backends.plans.unsupported import Unsupported
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.example_loops import layouts
from funcad.passes.lift import turns
from funcad.primitives.atoms import fold_of

__all__ = ["BatchLoop", "lanes_for"]



def lanes_for(jaxpr: Jaxpr, host: Host, size: int) -> int:
    """Examples of one vector."""
    dtypes = [v.aval.dtype for v in (*jaxpr.inputs, *[e.outputs[0] for e in jaxpr.equations])]
    if any([d.kind not in "biuf" or d.itemsize > 8 or d.char == "e" for d in dtypes]):
        raise Unsupported("complex numbers and float16 of a batch have no native code")
    lanes = lanes_of(host, dtypes)
    while lanes > size:
        lanes //= 2
    return lanes


class BatchLoop:
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
                self.shared[v] = _array(lanes_of_v, v.aval.shape)

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
                    values[v] = _array(self.read(v.aval.dtype, self.pointers[v], first, prod(shape)), shape)
                elif layout == "last":
                    values[v] = self.read_last(v, first)
            for equation in self.jaxpr.equations:
                values[equation.outputs[0]] = self.value(equation, values)
            for o, pointer in zip(self.jaxpr.outputs, self.outputs):
                self.write(list(values[o].flat), pointer, first)
            loop.next()

    # -- one example

    def value(self, equation: Equation, values: dict[Any, np.ndarray]) -> np.ndarray:
        """The numbers that an equation computes, from those of its operands."""
        (out,) = equation.outputs
        shape, params, name = out.aval.shape[1:], equation.params, equation.primitive.name
        xs: list[Any] = [a if type(a) is Literal else values[a] for a in equation.inputs]
        if equation.primitive.emit is not None:
            dtypes = operand_dtypes(equation)
            flat = [
                [self.e.literal(x.value, d)] * prod(shape) if type(x) is Literal else list(x.flat) for x, d in zip(xs, dtypes)
            ]
            return _array([self.e.apply(equation, operands) for operands in zip(*flat)], shape)
        if name == "broadcast_in_dim":
            return self.broadcast(equation, xs[0], shape)
        if equation.primitive.reduction is not None:
            return self.reduced(equation, xs[0])
        if name == "dot_general":
            return self.product(equation, *xs)
        if name == "place_sum":
            return self.placed(xs, params["indices"], shape, out.aval.dtype)
        if name == "concatenate":
            return np.concatenate(xs, axis=params["axis"] - 1)
        x = xs[0]
        if name == "basic_index":
            return _array(list(_at(x, params["index"]).flat), shape)
        if name == "slice":
            steps = params["strides"] or (1,) * len(params["start"])
            index = [slice(*bounds) for bounds in zip(params["start"], params["limit"], steps)]
            return x[tuple(index[1:])]
        if name == "rev":
            return np.flip(x, tuple([axis - 1 for axis in params["axes"]]))
        if name == "reshape":
            return _array(list(x.flat), shape)
        if name == "transpose":
            if turns(equation):
                return x  # of lanes, whose axes are those of one example
            return x.transpose([axis - 1 for axis in params["perm"][1:]])
        if name == "pad":
            found = self.zeros(shape, out.aval.dtype)
            inner = zip(params["low"][1:], params["interior"][1:], x.shape)
            found[tuple([slice(low, low + n * (k + 1), k + 1) for low, k, n in inner])] = x
            return found
        if name in ("basic_place", "basic_update"):
            found = self.zeros(shape, out.aval.dtype) if name == "basic_place" else x.copy(order="C")
            where = _at(np.arange(prod(shape)).reshape(shape), params["index"])
            for k, lane in zip(where.flat, xs[-1].flat):
                found.reshape(-1)[k] = lane
            return found
        raise Unsupported(f"{name} of a batch has no native code")

    def zeros(self, shape: tuple, dtype: np.dtype) -> np.ndarray:
        return _array([self.e.literal(0, dtype)] * prod(shape), shape)

    def broadcast(self, equation: Equation, x: Any, shape: tuple) -> np.ndarray:
        """Along new axes of an example, or to all examples."""
        axes = equation.params["axes"]
        if type(x) is Literal:
            return _array([self.e.literal(x.value, equation.outputs[0].aval.dtype)] * prod(shape), shape)
        if axes[:1] == (0,):
            axes = axes[1:]
        inner = [1] * len(shape)
        for axis, n in zip(axes, x.shape):
            inner[axis - 1] = n
        return np.broadcast_to(x.reshape(inner), shape)

    def reduced(self, equation: Equation, x: np.ndarray) -> np.ndarray:
        kind, dtype = fold_of(equation.primitive), equation.outputs[0].aval.dtype
        axes = [axis - 1 for axis in equation.params["axes"]]
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        shape = tuple([x.shape[axis] for axis in kept])
        lines = x.transpose([*kept, *axes]).reshape(prod(shape), -1)
        return _array([self.total(kind, list(line), dtype) for line in lines], shape)

    def total(self, kind: str, lanes: list[Lane], dtype: np.dtype) -> Lane:
        """All combined; sums begin with +0.0, as NumPy's."""
        e = self.e
        while len(lanes) > 1:
            pairs = [e.combine(kind, a, b) for a, b in zip(lanes[::2], lanes[1::2])]
            lanes = pairs + lanes[2 * len(pairs) :]
        return e.add(lanes[0], e.literal(0, dtype)) if kind == "add" and dtype.kind == "f" else lanes[0]

    def product(self, equation: Equation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        (cx, cy), (bx, by) = equation.params["dimension_numbers"]
        dtype, shared = equation.outputs[0].aval.dtype, not bx
        own = lambda axes, gone: [axis - gone for axis in axes]
        cx, bx = own(cx, 1), own(bx[1:], 1)
        if not shared:
            cy, by = own(cy, 1), own(by[1:], 1)
        free_x = [i for i in range(x.ndim) if i not in (*cx, *bx)]
        free_y = [i for i in range(y.ndim) if i not in (*cy, *by)]
        shape = [x.shape[i] for i in (*bx, *free_x)] + [y.shape[i] for i in free_y]
        batch, inner = prod([x.shape[i] for i in bx]), prod([x.shape[i] for i in cx])
        left = x.transpose([*bx, *free_x, *cx]).reshape(batch, -1, inner)
        right = y.transpose([*by, *free_y, *cy]).reshape(batch, -1, inner)
        lanes = [self.inner(a, b, dtype) for b1, b2 in zip(left, right) for a in b1 for b in b2]
        return _array(lanes, tuple(shape))

    def inner(self, a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> Lane:
        """A sum of products, in one instruction each where the processor has it: contractions may round either way."""
        e = self.e
        total = e.literal(0, dtype)
        for x, y in zip(a, b):
            if dtype.kind == "f" and e.fused:
                kind = e.register(dtype)
                name = f"llvm.fma.{e.suffix(e.element(dtype))}"
                total = Lane(dtype, (self.f.intrinsic(name, kind, (kind, x.name), (kind, y.name), (kind, total.name)),))
            else:
                total = e.add(total, e.mul(x, y))
        return total

    def placed(self, xs: list[np.ndarray], indices: Sequence[tuple], shape: tuple, dtype: np.dtype) -> np.ndarray:
        """The sum of the operands, each at its index."""
        cells: list[list[Lane]] = [[] for _ in range(prod(shape))]
        numbers = np.arange(prod(shape)).reshape(shape)
        for x, index in zip(xs, indices):
            for cell, lane in zip(_at(numbers, index).flat, x.flat):
                cells[cell].append(lane)
        zero, found = self.e.literal(0, dtype), []
        for cell in cells:
            total = cell[0] if cell else zero
            for lane in cell[1:]:
                total = self.e.add(total, lane)
            found.append(self.e.add(total, zero) if 0 < len(cell) < len(xs) and dtype.kind == "f" else total)
        return _array(found, shape)

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
        return _array([self.e.load(v.aval.dtype, self.pointers[v], place) for place in places], tuple(shape))

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


def _array(lanes: list[Lane], shape: tuple) -> np.ndarray:
    found = np.empty(len(lanes), object)
    for i, lane in enumerate(lanes):  # one by one: NumPy would take the tuples apart
        found[i] = lane
    return found.reshape(shape)


def _at(x: np.ndarray, index: Sequence[Any]) -> np.ndarray:
    """One example's numbers at a canonical basic index of the batch."""
    places: list[Any] = []
    for entry in index[1:]:
        if type(entry) is tuple:
            start, count, step = entry
            stop = start + count * step
            entry = slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)
        places.append(entry)
    return x[(*places, ...)]

"""A group of kind "batch": what one example computes, number by number, for engines that keep each in a register.

Idea: a value of the group is a NumPy array of *lanes*, of the shape that it has for one example; a lane is whatever an engine
calls one number while it writes code. So slices, reshapes, transposes and placements are done to that array and cost nothing; a
sum is a few additions. An engine says how numbers are computed: `literal`, `apply`, `combine` and `multiply_add`. Invariant:
sums and products of an example are added in the same order for all. Trap: `place_sum` adds a zero wherever not all parts meet:
there -0.0 becomes 0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.plans.element_plan import Unsupported, operand_dtypes
from funcad.ir.jaxpr import Equation, Literal
from funcad.passes.example_loops import turns
from funcad.primitives.atoms import fold_of
from funcad.primitives.basic_indexing import python_index


class Example:
    """Writes the computation of one example."""

    def literal(self, value: Any, dtype: np.dtype) -> Any:
        raise NotImplementedError

    def apply(self, equation: Equation, lanes: Sequence[Any]) -> Any:
        """An operation of elements."""
        raise NotImplementedError

    def combine(self, kind: str, a: Any, b: Any) -> Any:
        """Two parts of a reduction by this atom."""
        raise NotImplementedError

    def multiply_add(self, a: Any, b: Any, total: Any) -> Any:
        raise NotImplementedError

    def add(self, a: Any, b: Any) -> Any:
        return self.combine("add", a, b)

    def value(self, equation: Equation, values: dict[Any, np.ndarray]) -> np.ndarray:
        """The numbers that an equation computes, from those of its operands."""
        (out,) = equation.outputs
        shape, params, name = out.aval.shape[1:], equation.params, equation.primitive.name
        xs: list[Any] = [a if type(a) is Literal else values[a] for a in equation.inputs]
        if equation.primitive.emit is not None:
            dtypes = operand_dtypes(equation)
            flat = [
                [self.literal(x.value, d)] * prod(shape) if type(x) is Literal else list(x.flat) for x, d in zip(xs, dtypes)
            ]
            return array_of([self.apply(equation, operands) for operands in zip(*flat)], shape)
        if name == "broadcast_in_dim":
            return self.broadcast(equation, xs[0], shape)
        if equation.primitive.reduction is not None:
            return self.reduced(equation, xs[0])
        if name == "dot_general":
            return self.product(equation, *xs)
        if name == "place_sum":
            return self.placed(xs, params["indices"], shape, out.aval.dtype)
        if name == "transpose" and turns(equation):
            return xs[0]  # of lanes, whose axes are those of one example
        if equation.primitive.reach != "moves" and name != "basic_update":
            raise Unsupported(f"{name} of a batch has no code")
        if "shape" in params:
            params = {**params, "shape": (1, *params["shape"][1:])}
        zero = self.literal(0, out.aval.dtype)
        found = equation.primitive.impl(np, *[x[None] for x in xs], **params)
        return array_of([zero if type(lane) is int else lane for lane in found.flat], shape)

    def broadcast(self, equation: Equation, x: Any, shape: tuple) -> np.ndarray:
        """Along new axes of an example, or to all examples."""
        axes = equation.params["axes"]
        if type(x) is Literal:
            return array_of([self.literal(x.value, equation.outputs[0].aval.dtype)] * prod(shape), shape)
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
        return array_of([self.total(kind, list(line), dtype) for line in lines], shape)

    def total(self, kind: str, lanes: list[Any], dtype: np.dtype) -> Any:
        """All combined; sums begin with +0.0, as NumPy's."""
        while len(lanes) > 1:
            pairs = [self.combine(kind, a, b) for a, b in zip(lanes[::2], lanes[1::2])]
            lanes = pairs + lanes[2 * len(pairs) :]
        return self.add(lanes[0], self.literal(0, dtype)) if kind == "add" and dtype.kind == "f" else lanes[0]

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
        return array_of(lanes, tuple(shape))

    def inner(self, a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> Any:
        """A sum of products."""
        total = self.literal(0, dtype)
        for x, y in zip(a, b):
            total = self.multiply_add(x, y, total)
        return total

    def placed(self, xs: list[np.ndarray], indices: Sequence[tuple], shape: tuple, dtype: np.dtype) -> np.ndarray:
        """The sum of the operands, each at its index."""
        zero, found = self.literal(0, dtype), []
        for cell in cells_of([x.flat for x in xs], indices, (1, *shape)):
            total = cell[0] if cell else zero
            for lane in cell[1:]:
                total = self.add(total, lane)
            found.append(self.add(total, zero) if 0 < len(cell) < len(xs) and dtype.kind == "f" else total)
        return array_of(found, shape)


def cells_of(xs: Iterable[Iterable[Any]], indices: Iterable[tuple], shape: tuple) -> list[list[Any]]:
    """For each element of an array the elements that are placed there, in their order."""
    cells: list[list[Any]] = [[] for _ in range(prod(shape))]
    numbers = np.arange(len(cells)).reshape(shape)
    for x, index in zip(xs, indices):
        for cell, element in zip(numbers[python_index(index)].flat, x):
            cells[cell].append(element)
    return cells


def array_of(lanes: Sequence[Any], shape: tuple) -> np.ndarray:
    """The lanes as an array of objects."""
    found = np.empty(len(lanes), object)
    for i, lane in enumerate(lanes):  # one by one: NumPy would take the tuples apart
        found[i] = lane
    return found.reshape(shape)

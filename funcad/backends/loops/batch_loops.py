"""Groups of kind "batch" as loop nests: vectors of examples, each number of an example a value of its own.

Idea: plans/batch_plan.py says what becomes of the numbers of an example, so a lane of its arrays is the name of a value here.
In memory the numbers of an example lie together: a loop over them that is written out loads and stores them, which printers do
a square of examples and numbers at a time. What all examples share is loaded before the loop. The last vector of examples goes
back from the end, and writes the same bits again.

Arrays are ("in", i) and ("out", k), all of them contiguous. Amounts are `begin` and `end`; indices are "n", and "k" of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.loops.nest import BACK, VECTORS, WRITTEN, At, Constant, For, Let, Load, Put, Steps
from funcad.backends.plans.batch_plan import Example, array_of
from funcad.ir.jaxpr import Equation, Jaxpr
from funcad.passes.example_loops import layouts


def batch_loops(jaxpr: Jaxpr, extent: int | None = None) -> list[Any]:
    """The loop over the examples `begin` .. `end`, of which there are at least as many as a vector has lanes."""
    once, numbers = list[Any](), Numbers()
    body, values = numbers.body, dict[Any, np.ndarray]()
    for i, (v, layout) in enumerate(zip(jaxpr.inputs, layouts(jaxpr))):
        size = v.aval.dtype.itemsize
        shape = {"shared": v.aval.shape, "first": v.aval.shape[1:], "last": v.aval.shape[:-1]}[layout]
        count, names = prod(shape), numbers.named(prod(shape))
        steps = {"shared": (), "first": (("n", count * size),), "last": (("n", size),)}[layout]
        along = ("k", size if layout != "last" else v.aval.shape[-1] * size)
        load = For("k", 0, count, WRITTEN, [Load(v, v.aval.dtype, At(("in", i), (*steps, along)))], count)
        (once if layout == "shared" else body).extend([load, Steps(v, "k", tuple(names))])
        values[v] = array_of(names, shape)
    for equation in jaxpr.equations:
        values[equation.outputs[0]] = numbers.value(equation, values)
    for k, o in enumerate(jaxpr.outputs):
        names, dtype = list(values[o].flat), o.aval.dtype
        at = At(("out", k), (("n", len(names) * dtype.itemsize), ("k", dtype.itemsize)))
        put = For("k", 0, len(names), WRITTEN, [Put(at, ("out", k), dtype)], len(names))
        body += [Steps(("out", k), "k", tuple(names)), put]
    return [*once, For("n", "begin", "end", VECTORS, body, extent=extent, rest=BACK)]


class Numbers(Example):
    """The statements that compute one example, number by number."""

    def __init__(self) -> None:
        self.body: list[Any] = []
        self.count = 0

    def named(self, count: int) -> list[Any]:
        """So many new values."""
        self.count += count
        return [("number", k) for k in range(self.count - count, self.count)]

    def let(self, write: Callable[[Any, list[Any]], Any], *operands: Any) -> Any:
        (name,) = self.named(1)
        self.body.append(Let((name,), operands, lambda e, lanes: [write(e, lanes)]))
        return name

    def literal(self, value: Any, dtype: np.dtype) -> Constant:
        return Constant(value, dtype)

    def apply(self, equation: Equation, lanes: Sequence[Any]) -> Any:
        return self.let(lambda e, xs: e.apply(equation, xs), *lanes)

    def combine(self, kind: str, a: Any, b: Any) -> Any:
        return self.let(lambda e, xs: e.combine(kind, *xs), a, b)

    def add(self, a: Any, b: Any) -> Any:
        return self.let(lambda e, xs: e.add(*xs), a, b)

    def multiply_add(self, a: Any, b: Any, total: Any) -> Any:
        return self.let(lambda e, xs: e.multiply_add(*xs), a, b, total)

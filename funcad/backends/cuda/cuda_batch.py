"""Fused groups of kind "batch" as CUDA C++: a thread computes one small example after another, each number in a register.

Idea: plans/batch_plan.py says what becomes of the numbers of an example; here they are read, computed and written. Numbers that
all examples share are read once, before the loop. An adjacent array has no strides: number k of example i is at i * count + k,
or at k * n + i where the batch is the last axis; else each axis has a stride as an argument. Results are adjacent.

Arguments of `kernel`: inputs, results, the number of examples, then the strides of inputs that are not adjacent (`modes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.cuda.by_layout import ByLayout
from funcad.backends.cuda.elements import Elements, ElementValue, Unsupported, c_type, literal
from funcad.backends.cuda.prelude import PRELUDE
from funcad.backends.plans.batch_plan import Example, array_of
from funcad.backends.plans.element_plan import contiguous_strides
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.passes.example_loops import layouts

__all__ = ["BatchLaunches"]

THREADS = 128  # of a block, which leaves each of them all registers that it can use
BLOCKS = 1 << 14  # at most


class _BatchText(Example):
    """The text of one group and layout: "1" for an adjacent input, "s" for one with strides."""

    def __init__(self, jaxpr: Jaxpr, modes: Sequence[str]):
        self.jaxpr, self.modes = jaxpr, modes
        self.e = Elements()
        self.layouts = layouts(jaxpr)

    # -- numbers of one example

    def literal(self, value: Any, dtype: np.dtype) -> ElementValue:
        return literal(value, dtype)

    def apply(self, equation: Equation, lanes: Sequence[ElementValue]) -> ElementValue:
        return self.e.apply(equation, lanes)

    def combine(self, kind: str, a: ElementValue, b: ElementValue) -> ElementValue:
        if a.dtype == np.float16:
            raise Unsupported("totals of float16, which NumPy adds up in float32")
        return self.e.atom(kind, a, b)

    def multiply_add(self, a: ElementValue, b: ElementValue, total: ElementValue) -> ElementValue:
        return self.add(total, self.e.atom("mul", a, b))

    # -- the kernel

    def read(self, i: int, v: Var) -> np.ndarray:
        """The numbers of an input, for example `i` if it has any of its own."""
        layout, shape = self.layouts[i], v.aval.shape
        batch = {"first": 0, "last": len(shape) - 1, "shared": -1}[layout]
        inner = [axis for axis in range(len(shape)) if axis != batch]
        own, found = tuple([shape[axis] for axis in inner]), []
        for k, place in enumerate(np.ndindex(own)):
            if self.modes[i] == "1":
                text = {"first": f"i * {prod(own)} + {k}", "last": f"{k} * n + i", "shared": f"{k}"}[layout]
            else:
                terms = [f"{x} * s{i}_{axis}" for axis, x in zip(inner, place) if x]
                text = " + ".join([*([f"i * s{i}_{batch}"] if batch >= 0 else []), *terms]) or "0"
            found.append(self.e.put(v.aval.dtype, f"in{i}[{text}]"))
        return array_of(found, own)

    def text(self) -> str:
        jaxpr, put, values = self.jaxpr, self.e.lines.append, dict[Any, np.ndarray]()
        parameters = [f"const {c_type(v.aval.dtype)}* __restrict__ in{i}" for i, v in enumerate(jaxpr.inputs)]
        parameters += [f"{c_type(v.aval.dtype)}* __restrict__ out{k}" for k, v in enumerate(jaxpr.outputs)]
        parameters.append("const long long n")
        for i, v in enumerate(jaxpr.inputs):
            parameters += [f"const long long s{i}_{axis}" for axis in range(v.aval.ndim) if self.modes[i] == "s"]
        bounds = f"__launch_bounds__({THREADS}, 2)"
        for i, v in enumerate(jaxpr.inputs):
            if self.layouts[i] == "shared":
                values[v] = self.read(i, v)
        put(f"for (long long i = blockIdx.x * {THREADS}ll + threadIdx.x; i < n; i += gridDim.x * {THREADS}ll) {{")
        for i, v in enumerate(jaxpr.inputs):
            if self.layouts[i] != "shared":
                values[v] = self.read(i, v)
        for equation in jaxpr.equations:
            values[equation.outputs[0]] = self.value(equation, values)
        for k, o in enumerate(jaxpr.outputs):
            for j, lane in enumerate(values[o].flat):
                put(f"out{k}[i * {values[o].size} + {j}] = {lane.text};")
        put("}")
        head = f'extern "C" __global__ void {bounds} kernel({", ".join(parameters)}) {{'
        return PRELUDE + "\n".join([head, *[f"  {line}" for line in self.e.lines], "}"]) + "\n"


class BatchLaunches(ByLayout):
    """The kernels of one group; `make(text)` gives the module of a text.

    >>> from funcad.ir.aval import Aval
    >>> from funcad.primitives.shape import rev_p
    >>> x, y = Var(Aval((3, 2), np.dtype(float))), Var(Aval((3, 2), np.dtype(float)))
    >>> group = Jaxpr((x,), (Equation(rev_p, (x,), {"axes": (1,)}, (y,)),), (y,))
    >>> print(BatchLaunches(group, None, None).text(["1"]).partition("{\\n  for")[2])
     (long long i = blockIdx.x * 128ll + threadIdx.x; i < n; i += gridDim.x * 128ll) {
      const double v1 = in0[i * 2 + 0];
      const double v2 = in0[i * 2 + 1];
      out0[i * 2 + 0] = v2;
      out0[i * 2 + 1] = v1;
      }
    }
    <BLANKLINE>
    """

    def __init__(self, jaxpr: Jaxpr, xp: Any, make: Callable[[str], Any] | None):
        self.jaxpr, self.xp, self.make = jaxpr, xp, make
        self.avals = jaxpr.in_avals
        self.results = [(v.aval.shape, v.aval.dtype) for v in jaxpr.outputs]
        self.size = self.results[0][0][0]
        self.blocks = min(-(-self.size // THREADS), BLOCKS)
        self.variants: dict[Any, tuple[Any, list[np.int64]]] = {}  # strides -> the kernel, its numbers
        self.text(["1"] * len(self.avals))  # may be Unsupported

    def text(self, modes: Sequence[str]) -> str:
        return _BatchText(self.jaxpr, modes).text()

    def made(self, given: Sequence[Any]) -> tuple[Any, list[np.int64]]:
        modes, numbers = [], [np.int64(self.size)]
        for a in given:
            strides = tuple([s // a.itemsize for s in a.strides])
            alike = zip(strides, contiguous_strides(a.shape), a.shape)
            modes.append("1" if all([s == c or n == 1 for s, c, n in alike]) else "s")
            numbers += [np.int64(s) for s in strides] * (modes[-1] == "s")
        assert self.make is not None
        return self.make(self.text(modes)).get_function("kernel"), numbers

    def __call__(self, *arrays: Any) -> list[Any]:
        given = self.given(arrays)
        function, numbers = self.variant_for(given)
        results = [self.xp.empty(*r) for r in self.results]
        function((self.blocks,), (THREADS,), (*given, *results, *numbers))
        return results

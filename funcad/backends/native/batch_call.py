"""Calling a compiled group of kind "batch": `BatchKernel(jaxpr, size).function(*arrays) -> list of arrays`.

Idea: as for groups of rows: contiguous arrays of the right dtypes go through one built-in function (wrapper.py), others are
copied and go through ctypes; several threads share the chunks of a large batch; large results come from the buffer pool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.buffers import LARGE, empty
from funcad.backends.loops.batch_loops import batch_loops
from funcad.backends.native import ir, target, threads, wrapper
from funcad.backends.native.nest_printer import Memory, NestPrinter
from funcad.backends.native.program_cost import may_contract
from funcad.backends.native.wrapper import KernelArgument, Wanted, readable
from funcad.backends.plans.element_plan import Unsupported, instructions
from funcad.ir.jaxpr import Jaxpr

RUNNER, POOL, CHUNK, SIZE = range(4)  # words of `numbers`
CHUNK_WORK, LEAST = 25.0, 256  # microseconds, and examples, of a chunk
UNLOCK = 20.0  # microseconds of work from which other Python threads may run meanwhile


class BatchKernel:
    """The kernel of one group for batches of one size; raises Unsupported if it cannot be compiled.

    >>> import numpy as np
    >>> from funcad.ir.aval import Aval
    >>> from funcad.ir.jaxpr import Equation, Var
    >>> from funcad.primitives.shape import rev_p
    >>> x, y = Var(Aval((3, 2), np.dtype(float))), Var(Aval((3, 2), np.dtype(float)))
    >>> group = Jaxpr((x,), (Equation(rev_p, (x,), {"axes": (1,)}, (y,)),), (y,))
    >>> BatchKernel(group, 3).function(np.arange(6.0).reshape(3, 2))
    [array([[1., 0.],
           [3., 2.],
           [5., 4.]])]
    """

    def __init__(self, jaxpr: Jaxpr, size: int):
        self.avals = [v.aval for v in jaxpr.inputs]
        self.results = [(v.aval.shape, v.aval.dtype) for v in jaxpr.outputs]
        host = target.host()
        lanes = lanes_for(jaxpr, host, size)
        work = _estimate(jaxpr, size, lanes)
        chunk = max(LEAST, int(CHUNK_WORK / work * size)) // lanes * lanes
        self.parallel = work > threads.WORTH and size > chunk
        self.pooled = any([math.prod(s) * d.itemsize >= LARGE for s, d in self.results])
        self.numbers = np.array([*(threads.runner() if self.parallel else (0, 0)), chunk, size], np.int64)
        module = ir.Module(may_contract(jaxpr))
        _kernel(module, jaxpr, host, lanes)
        code = target.compile_module(module.text(), ["kernel"])
        given = [KernelArgument("array", a.shape, a.dtype) for a in (*self.avals, self.numbers)]
        if self.pooled:
            given += [KernelArgument("array", *r) for r in self.results]
        wanted = [] if self.pooled else [Wanted("array", *r) for r in self.results]
        self.plan = wrapper.make_plan(given, wanted, code.address["kernel"], 0, work > UNLOCK, [code])
        self.call = wrapper.make_builtin(self.plan)

    def function(self, *arrays: Any) -> list[Any]:
        if self.parallel:
            threads.ready()
        fresh = [empty(*r) for r in self.results] if self.pooled else []
        answer = NotImplemented if self.call is None else self.call(*arrays, self.numbers, *fresh)
        if answer is NotImplemented:
            return self._other(arrays)
        return fresh or (list(answer) if type(answer) is tuple else [answer])

    def _other(self, arrays: Sequence[Any]) -> list[Any]:
        """A call with arrays of any layout, by ctypes."""
        given = [np.ascontiguousarray(readable(a, aval)) for a, aval in zip(arrays, self.avals)]
        found = [empty(*r) for r in self.results]
        wrapper.call_by_ctypes(self.plan, [a.__array_interface__["data"][0] for a in (*given, self.numbers, *found)])
        return found


def lanes_for(jaxpr: Jaxpr, host: Any, size: int) -> int:
    """Examples of one vector."""
    dtypes = [v.aval.dtype for v in (*jaxpr.inputs, *[e.outputs[0] for e in jaxpr.equations])]
    if any([d.kind not in "biuf" or d.itemsize > 8 or d.char == "e" for d in dtypes]):
        raise Unsupported("complex numbers and float16 of a batch have no native code")
    lanes = target.lanes_of(host, dtypes)
    while lanes > size:
        lanes //= 2
    return lanes


def write(
    function: ir.Function, jaxpr: Jaxpr, host: Any, lanes: int, pointers: Sequence[str], places: Sequence[str], **bounds: Any
) -> None:
    """The loop over the examples `begin` .. `end`; the pointers are to contiguous arrays."""
    memory = {("in", i): Memory(pointer) for i, pointer in enumerate(pointers)}
    memory |= {("out", k): Memory(pointer) for k, pointer in enumerate(places)}
    known = bounds["end"] if bounds["begin"] == 0 else None
    NestPrinter(function, host, lanes, memory, bounds).write(batch_loops(jaxpr, known))


def _estimate(jaxpr: Jaxpr, size: int, lanes: int) -> float:
    """Microseconds that one thread needs, roughly."""
    arithmetic = sum(
        [instructions(e) * math.prod(e.outputs[0].aval.shape[1:]) for e in jaxpr.equations if e.primitive.emit is not None]
    )
    moved = sum([math.prod(v.aval.shape[1:]) for v in (*jaxpr.inputs, *jaxpr.outputs)])
    return size * (arithmetic * 0.4 / lanes + moved) * 1e-3


def _kernel(module: ir.Module, jaxpr: Jaxpr, host: Any, lanes: int) -> None:
    """Add `part`, which runs one chunk, and `kernel`, which runs all of them."""
    part = ir.Function(module, "part", [("ptr", "%slots"), ("i64", "%lo"), ("i64", "%hi"), ("ptr", "%arena")])
    n = len(jaxpr.inputs)
    pointers = [part.word("%slots", i, "ptr") for i in range(n)]
    results = [part.word("%slots", n + 1 + k, "ptr") for k in range(len(jaxpr.outputs))]
    write(part, jaxpr, host, lanes, pointers, results, begin="%lo", end="%hi")
    part.do("ret void")
    module.add(part)
    parameters = [("ptr", "%slots"), ("ptr", "%arena"), ("ptr", "%context")]
    kernel = ir.Function(module, "kernel", parameters, "i32", ir.RUNS_ONCE)
    numbers = kernel.word("%slots", n, "ptr")
    runner, length, total = [kernel.word(numbers, i, kind) for i, kind in ((RUNNER, "ptr"), (CHUNK, "i64"), (SIZE, "i64"))]
    kernel.run_parts(runner, (numbers, POOL), total, length, False, "null")
    kernel.do("ret i32 0")
    module.add(kernel)

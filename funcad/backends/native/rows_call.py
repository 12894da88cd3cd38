"""Calling a compiled group of kind "rows": `RowsKernel(jaxpr, shape).function(*arrays) -> list of arrays`.

Idea: contiguous arrays of the right dtypes go through one built-in function (wrapper.py). Others are made readable first, and
go through ctypes with the distances between their rows; a full operand whose rows are not contiguous is copied. Large results
come from the buffer pool, and bypass the caches if they are larger than half of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.backends.buffers import LARGE, empty
from funcad.backends.native import ir, target, threads, wrapper
from funcad.backends.native.program_cost import may_contract
from funcad.backends.native.rows import STRIDES, plan_rows, result_order, rows_kernel, sizes_of
from funcad.backends.native.wrapper import ALIGN, KernelArgument, Wanted, aligned, last_cache, readable
from funcad.backends.plans.row_plan import RowPlan
from funcad.ir.jaxpr import Jaxpr
from funcad.primitives.fused import fused_p

UNLOCK = 20.0  # microseconds of work from which other Python threads may run meanwhile


class RowsKernel:
    """The kernel of one group and shape; raises Unsupported if it cannot be compiled.

    >>> import numpy as np
    >>> from funcad.ir.aval import Aval
    >>> from funcad.ir.jaxpr import Equation, Jaxpr, Var
    >>> from funcad.primitives.reduction import reduce_sum_p
    >>> x, s = Var(Aval((3, 4), np.dtype(float))), Var(Aval((3,), np.dtype(float)))
    >>> group = Jaxpr((x,), (Equation(reduce_sum_p, (x,), {"axes": (1,)}, (s,)),), (s,))
    >>> RowsKernel(group, (3, 4)).function(np.ones((3, 4)))
    [array([4., 4., 4.])]
    """

    def __init__(self, jaxpr: Jaxpr, shape: tuple[int, int]):
        self.avals = [v.aval for v in jaxpr.inputs]
        if 0 in shape:
            self.function: Callable[..., list] = partial(fused_p.impl, np, jaxpr=jaxpr, kind="rows", shape=shape)
            return
        self.rows = plan = plan_rows(jaxpr, shape)
        sizes = sizes_of(plan)
        order = result_order(plan)
        self.places = [order.index(k) for k in range(len(order))]
        results = [(plan.results[k].aval.shape, plan.results[k].aval.dtype) for k in order]
        self.fresh = [r for r in results if r[0]]
        work = _estimate(plan)
        self.parallel = work > threads.WORTH and sizes.chunks > 1
        self.pooled = any([math.prod(s) * d.itemsize >= LARGE for s, d in self.fresh])
        runner = threads.runner() if self.parallel else (0, 0)
        self.numbers = np.array([*runner, sizes.chunk, *shape, sizes.block, *[self._stride(a) for a in self.avals]], np.int64)
        given = [KernelArgument("array", a.shape, a.dtype) for a in (*self.avals, self.numbers)]
        wanted = [Wanted("array", *r) for r in results]
        if self.pooled:
            n = len(self.fresh)
            given, wanted = [*given, *[KernelArgument("array", *r) for r in self.fresh]], wanted[n:]

        def planned(nontemporal: bool) -> Any:
            module = ir.Module(may_contract(jaxpr))
            rows_kernel(module, plan, target.host(), nontemporal)
            code = target.compile_module(module.text(), ["kernel"])
            return wrapper.make_plan(given, wanted, code.address["kernel"], sizes.arena, work > UNLOCK, [code])

        self.planned = planned
        self.plan: Any = None  # of the code that any call may use
        self.call: Any = None
        self.streamed: Any = None
        full = [math.prod(s) * d.itemsize for s, d in self.fresh if len(s) == 2]
        whole = all([s[1] * d.itemsize % ALIGN == 0 for s, d in self.fresh if len(s) == 2])
        if self.pooled and whole and sum(full) > last_cache() // 2:
            self.streamed = wrapper.make_builtin(planned(True))
        if self.streamed is None:
            self._plain()
        self.function = self._large if self.pooled else self._small

    def _plain(self) -> Any:
        """The built-in that does not bypass the caches, made when a call needs it."""
        if self.plan is None:
            self.plan = self.planned(False)
            self.call = wrapper.make_builtin(self.plan)
        return self.call

    @staticmethod
    def _stride(aval: Any) -> int:
        return aval.shape[1] * aval.dtype.itemsize if aval.ndim == 2 else 0

    def _small(self, *arrays: Any) -> list[Any]:
        if self.parallel:
            threads.ready()
        answer = NotImplemented if self.call is None else self.call(*arrays, self.numbers)
        if answer is NotImplemented:
            return self._other(arrays)
        found = answer if type(answer) is tuple else (answer,)
        return [found[i] for i in self.places]

    def _large(self, *arrays: Any) -> list[Any]:
        if self.parallel:
            threads.ready()
        fresh = [empty(*r) for r in self.fresh]
        call = self.streamed if self.streamed is not None and aligned(fresh) else self._plain()
        answer = NotImplemented if call is None else call(*arrays, self.numbers, *fresh)
        if answer is NotImplemented:
            return self._other(arrays)
        found = [*fresh, *(answer if type(answer) is tuple else (answer,))]
        return [found[i] for i in self.places]

    def _other(self, arrays: Sequence[Any]) -> list[Any]:
        """A call with arrays of any layout, by ctypes."""
        given = [_rows_of(readable(a, aval)) for a, aval in zip(arrays, self.avals)]
        numbers = self.numbers.copy()
        numbers[STRIDES:] = [a.strides[0] if a.ndim == 2 else 0 for a in given]
        found = [empty(*r) for r in self.fresh]
        scalars = [self.rows.results[k].aval for k in result_order(self.rows)[len(found) :]]
        found += [np.empty((), a.dtype) for a in scalars]
        self._plain()
        wrapper.call_by_ctypes(self.plan, [a.__array_interface__["data"][0] for a in (*given, numbers, *found)])
        return [found[i] if found[i].ndim else found[i][()] for i in self.places]


def _rows_of(a: np.ndarray) -> np.ndarray:
    """An array that is contiguous along its last axis."""
    if a.ndim and a.strides[-1] != a.itemsize and a.shape[-1] > 1:
        return np.ascontiguousarray(a)
    return a


def _estimate(plan: RowPlan) -> float:
    """Microseconds that one thread needs, roughly."""
    r, n = plan.shape
    kinds = [plan.kind[v] for v in (*plan.jaxpr.inputs, *plan.results)]
    lanes = target.lanes_of(target.host(), [v.aval.dtype for v in plan.kind])
    arithmetic = sum([plan.weight(number) for number in range(len(plan.phases))]) * 0.4 / lanes
    moved = sum([8 for kind in kinds if kind == "full"]) / 16
    return r * n * max(arithmetic, moved) * 1e-3

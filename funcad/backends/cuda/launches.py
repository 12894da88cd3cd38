"""Fused groups as functions of a device's arrays: `kernel_for(equation, xp)(*arrays) -> list of arrays`.

Idea: how a call's arrays lie decides which text runs it; equal texts are one module (compile_kernels.py). Invariants: results
are fresh, in the order of axes in which the operands lie, as NumPy's are; nothing waits for the device. Trap: what is adjacent
need not be aligned (a slice that begins at the second element), so packs of 16 bytes are taken only where every address allows
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.backends.cuda.by_layout import ByLayout
from funcad.backends.cuda.compile_kernels import OPTIONS, module_of
from funcad.backends.cuda.cuda_batch import BatchLaunches
from funcad.backends.cuda.cuda_draws import Draw
from funcad.backends.cuda.cuda_loops import LoopKernel
from funcad.backends.cuda.cuda_text import BLOCKS, kernel_text, pack_of
from funcad.backends.cuda.elements import Unsupported
from funcad.backends.cuda.prelude import THREADS
from funcad.backends.cuda.row_launches import RowLaunches
from funcad.backends.plans.element_plan import Layout, analyse, contiguous_strides, layout_of

__all__ = ["Unsupported", "kernel_for", "OPTIONS"]



def kernel_for(equation: Any, xp: Any) -> Callable[..., list[Any]]:
    """A function of arrays for an equation of `fused`; raises Unsupported where lines of CuPy's must do."""
    jaxpr, kind, shape = [equation.params[name] for name in ("jaxpr", "kind", "shape")]
    if 0 in shape:
        raise Unsupported(f"a group of kind {kind} and shape {shape}")
    if kind == "rows":
        return RowLaunches(jaxpr, shape, xp, partial(module_of, xp))
    if kind == "loop":
        return LoopKernel(jaxpr, xp, partial(module_of, xp))
    if kind == "draw":
        return Draw(jaxpr, xp, partial(module_of, xp))
    if kind == "batch":
        return BatchLaunches(jaxpr, xp, partial(module_of, xp))
    return ElementwiseLaunches(jaxpr, shape, xp)


class ElementwiseLaunches(ByLayout):
    """The kernels of one group and shape."""

    def __init__(self, jaxpr: Any, shape: tuple[int, ...], xp: Any):
        self.xp, self.shape = xp, shape
        self.group = group = analyse(jaxpr)
        self.avals = jaxpr.in_avals
        outputs = jaxpr.outputs
        self.full = [k for k, v in enumerate(outputs) if v not in group.sums]
        self.totals = [k for k, v in enumerate(outputs) if v in group.sums]
        self.dtypes = [v.aval.dtype for v in outputs]
        self.variants: dict[Any, _ElementwiseVariant] = {}
        self._variant([contiguous_strides(a.shape) for a in self.avals]).text(1)  # may be Unsupported

    def _variant(self, strides: Sequence[tuple[int, ...]]) -> _ElementwiseVariant:
        return _ElementwiseVariant(self, layout_of(self.shape, self.group.accesses, strides, [a.shape for a in self.avals]))

    def made(self, given: Sequence[Any]) -> _ElementwiseVariant:
        return self._variant([tuple([s // a.itemsize for s in a.strides]) for a in given])

    def __call__(self, *arrays: Any) -> list[Any]:
        given = self.given(arrays)
        return self.variant_for(given).run([given[i] for i, _ in self.group.accesses])  # type: ignore[no-any-return]


class _ElementwiseVariant:
    """The kernels for one layout."""

    def __init__(self, owner: ElementwiseLaunches, layout: Layout):
        self.owner, self.layout, self.count = owner, layout, math.prod(layout.extents)
        self.modules: dict[int, Any] = {}  # by the width of the packs
        pack, modes = pack_of(owner.group), layout.modes
        self.width = pack if pack > 1 and "1" in modes and set(modes) <= {"0", "1"} else 1
        strides = [s for row, mode in zip(layout.strides, modes) for s, m in zip(row, mode) if m == "s"]
        self.numbers = [np.int64(self.count)]
        self.strided = [*self.numbers, *[np.int64(e) for e in layout.extents[1:]], *[np.int64(s) for s in strides]]
        order = list(layout.order)
        self.made = tuple([owner.shape[axis] for axis in order]) if order != sorted(order) else owner.shape
        self.back = tuple(sorted(range(len(order)), key=order.__getitem__)) if order != sorted(order) else None

    def text(self, width: int) -> str:
        return kernel_text(self.owner.group, self.layout.modes, width)

    def run(self, arrays: list[Any]) -> list[Any]:
        owner, xp = self.owner, self.owner.xp
        width = self.width
        if width > 1:
            modes = self.layout.modes
            adjacent = [a for a, mode in zip(arrays, modes) if mode == "1"]
            width = width if not any([a.data.ptr % (width * a.itemsize) for a in adjacent]) else 1
        module = self.modules.get(width)
        if module is None:
            module = self.modules[width] = module_of(xp, self.text(width))
        blocks = min(-(-self.count // (THREADS * width)), BLOCKS)
        results: list[Any] = [None] * len(owner.dtypes)
        for k in owner.full:
            results[k] = xp.empty(self.made, owner.dtypes[k])
        for k in owner.totals:
            results[k] = xp.empty((), owner.dtypes[k])
        parts = {k: results[k] if blocks == 1 else xp.empty((blocks,), owner.dtypes[k]) for k in owner.totals}
        written = [*[results[k] for k in owner.full], *parts.values()]
        numbers = self.numbers if width > 1 else self.strided
        module.get_function("kernel")((blocks,), (THREADS,), (*arrays, *written, *numbers))
        if blocks > 1:
            for k, part in parts.items():
                module.get_function(f"finish{k}")((1,), (THREADS,), (part, results[k], np.int64(blocks)))
        if self.back is not None:
            for k in owner.full:
                results[k] = results[k].transpose(self.back).reshape(owner.shape)
        return results

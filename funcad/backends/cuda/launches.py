"""Kernels compiled and launched: fused groups as functions of a device's arrays.

Idea: how a call's arrays lie decides which text runs it; equal texts are one module (below). Invariants: results
are fresh, in the order of axes in which the operands lie, as NumPy's are; nothing waits for the device. Trap: what is adjacent
need not be aligned (a slice that begins at the second element), so packs of 16 bytes are taken only where every address allows
it.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from funcad.backends.cuda.cuda_loops import Draw, LoopKernel
from funcad.backends.cuda.cuda_rows import RowText, SpreadText, planned
from funcad.backends.cuda.cuda_text import BLOCKS, BatchLaunches, ByLayout, kernel_text, no_variants, pack_of
from funcad.backends.cuda.elements import THREADS
from funcad.backends.plans.element_plan import Layout, Unsupported, analyse, contiguous_strides, layout_of
from funcad.host.locks import held_over_forks
from funcad.memo import table
from funcad.show.compile_log import CompileEvent, log

# -- kernels are compiled in the background: until they are there, a program runs CuPy's lines in their place
#
# Idea: a module of CuPy's compiles when it is asked to, for the device that is current, and CuPy keeps the machine code on disk
# (by text, options, processor and compiler, each file renamed into its place). Here threads ask, NVRTC working without the
# interpreter's lock. Whoever calls a kernel waits for it, but for `Deferred`, which programs run: it takes the lines.
# Invariant: an error of the compiler is in the log of compilations, and raised at whoever waits; a program notes it and keeps
# to the lines. Trap: lines may give views of their operands, kernels never do, and what writes over results rests on that. A
# forked child has none of the threads, so that it asks anew.


OPTIONS = ("--std=c++17", "--fmad=false")
COMPILERS = 4
BACKGROUND = True  # False: programs wait, too (tests and benchmarks of kernels)
_modules = table(
    "cuda.modules",
    "library, device and text: the module, or the future that compiles it",
    same=None,
)
_pool: list[ThreadPoolExecutor] = []
_lock = threading.RLock()
held_over_forks(_lock)
_deferring = threading.local()  # `on`: this thread does not wait


class NotYet(Exception):
    """A kernel is being compiled; `key` says which."""

    def __init__(self, key: Hashable):
        super().__init__("a kernel is being compiled")
        self.key = key


class Failed(Exception):
    """A kernel that the compiler, which is the cause, does not take."""


def module_of(xp: Any, text: str) -> Any:
    """The compiled module of a text; raises NotYet within `Deferred`, and Failed."""
    device = xp.cuda.runtime.getDevice() if hasattr(xp, "cuda") else 0
    key = (xp, device, text)
    found = _modules.get(key)
    if found is None:
        with _lock:
            found = _modules.get(key)
            if found is None:
                module = xp.RawModule(code=text, options=OPTIONS)
                if hasattr(module, "compile"):  # else it is there at once
                    if not _pool:
                        _pool.append(ThreadPoolExecutor(COMPILERS, thread_name_prefix="funcad kernels"))
                    found = _pool[0].submit(_compile, xp, device, module)
                else:
                    found = module
                _modules[key] = found
    if type(found) is not Future:
        return found
    if BACKGROUND and getattr(_deferring, "on", False) and not found.done():
        raise NotYet(key)
    try:
        module = found.result()
    except Exception as error:  # anew each time, for a traceback that is raised again grows
        raise Failed(f"{type(error).__name__}: {error}") from error
    _modules[key] = module
    return module


def _compile(xp: Any, device: int, module: Any) -> Any:
    start, why = time.perf_counter(), "engine cuda"
    try:
        with xp.cuda.Device(device) if hasattr(xp, "cuda") else nullcontext():
            module.compile()
    except Exception as error:
        why = f"engine cuda: it failed, {type(error).__name__}: {error}"
        raise
    finally:
        log.append(CompileEvent("compiled", "a kernel", "", time.perf_counter() - start, why))
    return module


def pending(key: Hashable) -> bool:
    """Is this kernel being compiled?"""
    found = _modules.get(key)
    return type(found) is Future and not found.done()


def _forget() -> None:
    _pool.clear()
    for key in [key for key, found in _modules.items() if type(found) is Future]:
        del _modules[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Deferred:
    """`kernel(*arrays)`, and its lines until it is compiled: `lines()` writes them, `note(text)` hears of an error."""

    def __init__(self, xp: Any, kernel: Any, avals: Any, lines: Callable[[], Any], note: Callable[[str], None]):
        self.xp, self.kernel, self.avals, self.lines, self.note = xp, kernel, avals, lines, note
        self.waits: Hashable = None  # for what the last call waited
        self.written: Any = None

    @property
    def pending(self) -> bool:
        return self.waits is not None and pending(self.waits)

    def __call__(self, *arrays: Any) -> list[Any]:
        before = getattr(_deferring, "on", False)
        _deferring.on = True
        try:
            return self.kernel(*arrays)
        except NotYet as reason:
            self.waits = reason.key
        except Failed as reason:
            self.note(str(reason))
        finally:
            _deferring.on = before
        return self._by_lines(arrays)

    def _by_lines(self, arrays: Any) -> list[Any]:
        xp = self.xp
        if self.written is None:
            self.written = self.lines()
        given = [a if type(a) is xp.ndarray else xp.full((), a, v.dtype) for a, v in zip(arrays, self.avals)]
        results: list[Any] = []
        for r in self.written.function(list(given)):
            shares = any([xp.may_share_memory(r, x) for x in (*given, *results)])
            results.append(xp.array(r, order="C") if shares or not r.flags.c_contiguous else r)
        return results


# -- calling the kernels of a group of rows: `RowLaunches(jaxpr, shape, xp)(*arrays) -> list of arrays`
#
# Idea: as for elementwise groups, a text for each way in which the elements of a row lie, with the distances between rows as
# arguments. A group without sums over rows is one launch; sums take one more for all of them together, if there was more than
# one block, and the columns of long rows a third; few long rows take one for each phase. Invariant: the number of blocks
# follows from the shape alone, and with it the order of all sums.


ROW_BLOCKS = 1 << 16  # of a launch that adds up nothing
PARTS = 1024  # at most, of a sum
DEEP = 16  # rows of a part of a sum, at least: parts are written and read, which costs an eighth of reading the rows


def text_of(jaxpr: Any, shape: tuple[int, int]) -> RowText:
    """The writer of the kernels of a group."""
    return (SpreadText if planned(jaxpr, shape)[1].spread else RowText)(jaxpr, shape)


class RowLaunches(ByLayout):
    """The kernels of one group and shape; `make(text)` gives the module of a text."""

    def __init__(self, jaxpr: Any, shape: tuple[int, int], xp: Any, make: Any):
        self.xp, self.make, self.shape = xp, make, shape
        self.text = text = text_of(jaxpr, shape)
        self.avals = jaxpr.in_avals
        plan, way, (rows, n) = text.plan, text.way, shape
        self.results = [(v.aval.shape, v.aval.dtype) for v in plan.results]
        across = -(-n // THREADS)
        self.spread = max(min(-(-n // (way.team * DEEP)), PARTS // rows), 1) if way.spread else 0  # blocks of a row
        here = -(-rows // way.rows)
        adds = bool(text.sums) and not (text.apart and not plan.scalars)
        self.blocks = rows if way.spread else min(-(-rows // max(way.rows, DEEP)), PARTS) if adds else min(here, ROW_BLOCKS)
        self.deep = min(-(-rows // DEEP), max(PARTS // across, 1)) if text.apart else 0
        self.across = across
        self.parts = [self.deep if text.apart and s.column else self.blocks for s in text.sums]
        self.single = max(self.parts, default=1) == 1
        self.counts = [text.finished(s.column) for s in text.sums]
        self.ends = [plan.outputs[s.equation.outputs[0]][0] for s in text.sums]
        self.finishing = sum([-(-count // width) for count, width in self.counts])
        self.variants = no_variants()
        self.text.text(["1"] * len(self.avals))  # may be Unsupported

    def made(self, given: Sequence[Any]) -> _RowVariant:
        return _RowVariant(self, given)

    def __call__(self, *arrays: Any) -> list[Any]:
        given = self.given(arrays)
        return self.variant_for(given).run(given)  # type: ignore[no-any-return]


class _RowVariant:
    """The kernels for one layout."""

    def __init__(self, owner: RowLaunches, arrays: Sequence[Any]):
        self.owner = owner
        kinds = [owner.text.plan.kind[v] for v in owner.text.inputs]
        self.modes, numbers = [], [owner.shape[0]]
        for a, kind in zip(arrays, kinds):
            *outer, inner = [s // a.itemsize for s in a.strides] or [1]
            along = kind in ("full", "column")
            self.modes.append("s" if along and inner != 1 and a.shape[-1] != 1 else "1")
            numbers += [outer[0] if outer else inner] * (kind in ("full", "row"))
            numbers += [inner] * (self.modes[-1] == "s")
        self.numbers = [np.int64(x) for x in numbers]
        self.functions: dict[str, Any] | None = None

    def found(self) -> dict[str, Any]:
        """The kernels, by their names."""
        if self.functions is None:
            text = self.owner.text
            module = self.owner.make(text.text(self.modes))
            stages = [f"stage{number}" for number in text.stages] if isinstance(text, SpreadText) else ["kernel"]
            names = stages * text.first + ["columns"] * text.apart + ["finish"] * bool(text.sums)
            self.functions = {name: module.get_function(name) for name in names}
        return self.functions

    def run(self, arrays: list[Any]) -> list[Any]:
        owner, functions = self.owner, self.functions or self.found()
        xp, text = owner.xp, owner.text
        results = [xp.empty(*r) for r in owner.results]
        left = [xp.empty(owner.shape[:1], v.aval.dtype) for v in text.left]
        parts = []
        for end, count, (n, _) in zip(owner.ends, owner.parts, owner.counts):
            parts.append(results[end] if owner.single else xp.empty((count, n), results[end].dtype))
        if text.first:
            own = [part for part, s in zip(parts, text.sums) if not (s.column and text.apart)]
            written = [results[k] for k in text.written]
            given = [*arrays, *written, *left, *own]
            blocks = owner.blocks
            if isinstance(text, SpreadText):
                blocks *= owner.spread
                given += [*[xp.empty((blocks,), d) for d in text.dtypes], np.int64(owner.spread)]
            for name in functions:
                if name not in ("columns", "finish"):
                    functions[name]((blocks,), (text.way.block,), (*given, *self.numbers))
        if text.apart:
            passed = [*left, *[results[int(what[3:])] for v, what in text.passed("columns")[len(left) :]]]
            own = [part for part, s in zip(parts, text.sums) if s.column]
            blocks = owner.deep * owner.across
            functions["columns"]((blocks,), (THREADS,), (*arrays, *passed, *own, *self.numbers))
        if not owner.single:
            ends = [x for end, part, n in zip(owner.ends, parts, owner.parts) for x in (part, results[end], np.int64(n))]
            functions["finish"]((owner.finishing,), (THREADS,), tuple(ends))
        return results


# -- fused groups as functions of a device's arrays: `kernel_for(equation, xp)(*arrays) -> list of arrays`


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
        self.variants = no_variants()
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

"""Fused groups as native functions of arrays: `kernel_for(equation)(*arrays) -> list of arrays`.

Idea: the text of a kernel knows how arrays lie in memory (adjacent, broadcast, strided; how many axes remain when those that
can be are taken together) but neither extents nor strides: these are in `numbers`, an array that is one more argument. So
equal groups share machine code whatever their sizes, in this process (target.py keeps what is alive by its text) and on disk.
A call with contiguous arrays goes through one built-in function (wrapper.py), which checks the arrays and allocates small
results; other layouts find their variant by their strides. Large results come from the buffer pool, and bypass the caches if
they are larger than half of the last one and memory is what the kernel waits for.

Invariants: results are fresh; arrays that the code cannot read as they are (misaligned, byte-swapped, of another class) are
copied first; a group without elements runs on NumPy. Sums are made of the same parts whatever the number of threads. Trap: the
axes of a variant may be in another order than the arrays', so that transposed operands give transposed results, as in NumPy.

The slots of a kernel are: inputs, numbers, full results, results of rank 0. The words of `numbers`: the runner and its pool
(threads.py; 0: none), elements of the outermost axis per part, extents, then the strides of each access.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.backends.batches import thread_count
from funcad.backends.buffers import LARGE, empty
from funcad.backends.loops.element_loops import element_loops
from funcad.backends.native import ir, target, threads, wrapper
from funcad.backends.native.batch_call import BatchKernel
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.exact_sums import emit_total
from funcad.backends.native.nest_printer import Memory, NestPrinter
from funcad.backends.native.program_cost import may_contract
from funcad.backends.native.rows_call import RowsKernel
from funcad.backends.native.wrapper import KernelArgument, Wanted, aligned, last_cache, readable
from funcad.backends.plans.element_plan import Group, Layout, Unsupported, analyse, contiguous_strides, instructions, layout_of
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.memo import Table
from funcad.primitives.fused import fused_p
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.transcendental import exp

RUNNER, POOL, PART, EXTENTS = range(4)  # words of `numbers`
PART_WORK, LEAST_PART, MOST_PART = 25.0, 1 << 12, 1 << 16  # microseconds, and elements, of a part
VARIANTS = 8  # of one group; further layouts are copied to contiguous ones
ABREAST = 64  # operations of the vectors that are abreast, at most: each is a line of text to be compiled
FAR = 1 << 20  # bytes of operands and results that the nearer caches do not hold
DEAR = 3.0  # arithmetic in units of the memory's time, per thread, from which on plain stores are the quicker ones
UNLOCK = 20.0  # microseconds of work from which other Python threads may run meanwhile
_FLOAT = np.dtype(np.float64)
SLOT = 16  # bytes of one accumulation of one part


def _probe() -> str | None:
    """The sum of the exponentials of known numbers, by the same way as any group: vectors, their rest, a sum."""
    x, y, total = Var(Aval((37,), _FLOAT)), Var(Aval((37,), _FLOAT)), Var(Aval((), _FLOAT))
    equations = Equation(exp, (x,), {}, (y,)), Equation(reduce_sum_p, (y,), {"axes": (0,)}, (total,))
    given = np.linspace(-2.0, 2.0, 37)
    values, found = ElementwiseKernel(Jaxpr((x,), equations, (y, total)), (37,)).function(given)
    wrong = np.max(np.abs(values / np.exp(given) - 1)) + abs(found / np.exp(given).sum() - 1)
    return None if wrong < 1e-14 else f"a sum of exponentials is wrong by {wrong:.1e}"


target.probes.append(_probe)


def analysed(jaxpr: Jaxpr) -> Group:
    """`analyse`; raises Unsupported for dtypes without native code."""
    group = analyse(jaxpr)
    for dtype in group.dtypes:
        if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype.kind == "f" and dtype.itemsize not in (4, 8):
            raise Unsupported(f"{dtype} has no native code")
        if dtype.kind == "c" and dtype.itemsize not in (8, 16):
            raise Unsupported(f"{dtype} has no native code")
    return group


def kernel_for(equation: Any) -> Callable[..., list[Any]]:
    """A native function for an equation of `fused`; raises Unsupported where NumPy must do.

    >>> from funcad.primitives.arithmetic import mul
    >>> x, y = Var(Aval((3,), np.dtype(float))), Var(Aval((3,), np.dtype(float)))
    >>> group = Jaxpr((x,), (Equation(mul, (x, x), {}, (y,)),), (y,))
    >>> params = {"jaxpr": group, "kind": "elementwise", "shape": (3,)}
    >>> kernel_for(Equation(fused_p, (x,), params, (y,)))(np.array([1.0, 2.0, 3.0]))
    [array([1., 4., 9.])]
    """
    reason = target.why_not()
    if reason is not None:
        raise Unsupported(reason)
    jaxpr, shape = equation.params["jaxpr"], equation.params["shape"]
    if equation.params["kind"] == "rows":
        return RowsKernel(jaxpr, shape).function
    if equation.params["kind"] == "batch":
        return BatchKernel(jaxpr, shape[0]).function
    if 0 in shape:
        return partial(fused_p.impl, np, **equation.params)
    return ElementwiseKernel(jaxpr, shape).function


class ElementwiseKernel:
    """The kernels of one group and shape."""

    def __init__(self, jaxpr: Any, shape: tuple[int, ...]):
        self.group = group = analysed(jaxpr)
        self.shape = shape
        self.avals = [v.aval for v in jaxpr.inputs]
        self.full = [i for i, v in enumerate(jaxpr.outputs) if v not in group.sums]
        self.totals = [i for i, v in enumerate(jaxpr.outputs) if v in group.sums]
        self.places = [[*self.full, *self.totals].index(i) for i in range(len(jaxpr.outputs))]
        self.dtypes = [jaxpr.outputs[i].aval.dtype for i in (*self.full, *self.totals)]
        self.work = _estimate(group, math.prod(shape))
        self.pooled = any(math.prod(shape) * d.itemsize >= LARGE for d in self.dtypes[: len(self.full)])
        sizes = [(a.shape, a.dtype) for a in self.avals] + [(shape, d) for d in self.dtypes[: len(self.full)]]
        self.far = sum([math.prod(s) * d.itemsize for s, d in sizes]) > FAR
        # strides come and go: the code is kept by whoever uses it, and on disk
        self.variants = Table("native.layouts", "strides: the kernel of a group", 64, same=None)
        self.texts: set[Any] = set()
        shapes = [a.shape for a in self.avals]
        self.layout = layout_of(shape, group.accesses, [contiguous_strides(s) for s in shapes], shapes)
        self.default = _Variant(self, self.layout)
        self.function = self._function()

    def _function(self) -> Callable[..., list[Any]]:
        """What callers call: contiguous arrays at once, anything else by `other`."""
        default, other, places = self.default, self.other, self.places
        call, streamed, numbers = default.call, default.streamed, default.numbers
        parallel, ready = default.parallel, threads.ready
        if call is None and streamed is None:
            return lambda *arrays: other(arrays)
        if self.pooled:
            shape, dtypes = self.shape, self.dtypes[: len(self.full)]

            def large(*arrays: Any) -> list[Any]:
                fresh = [empty(shape, d) for d in dtypes]
                if parallel:
                    ready()
                answer = NotImplemented
                if streamed is None:
                    answer = call(*arrays, numbers, *fresh)  # type: ignore[misc]
                elif aligned(fresh):
                    answer = streamed(*arrays, numbers, *fresh)
                if answer is NotImplemented:
                    del fresh  # its memory serves the other call
                    return other(arrays)
                found = [*fresh, *(answer if type(answer) is tuple else (answer,))]
                return [found[i] for i in places]

            large.overwriting = self.overwriting  # type: ignore[attr-defined]
            return large
        single = len(places) == 1

        def small(*arrays: Any) -> list[Any]:
            if parallel:
                ready()
            answer = call(*arrays, numbers)  # type: ignore[misc]
            if answer is NotImplemented:
                return other(arrays)
            return [answer] if single else [answer[i] for i in places]

        return small

    def overwriting(self, wanted: dict[int, int]) -> tuple[dict[int, int], Callable[..., list[Any]]] | None:
        """`function`, but result k is written over argument wanted[k]: those for which that can be done, and what to call."""
        spread = {i for i, axes in self.group.accesses if axes is not None}
        over = {k: i for k, i in wanted.items() if i not in spread}
        default = self.default
        builtin = None
        if over and not self.group.sums and len(default.layout.extents) == 1 and not default.turned:
            builtin = wrapper.make_builtin(default.made((), True))
        if builtin is None:
            return None
        call, other, numbers, parallel = builtin, self.other, default.numbers, default.parallel
        shape, dtypes = self.shape, self.dtypes

        def overwrite(*arrays: Any) -> list[Any]:
            if parallel:
                threads.ready()
            results = [arrays[over[k]] if k in over else empty(shape, d) for k, d in enumerate(dtypes)]
            answer = call(*arrays, numbers, *results)
            return other(arrays) if answer is NotImplemented else results

        return over, overwrite

    def other(self, arrays: Sequence[Any]) -> list[Any]:
        """A call with arrays of any layout."""
        variant = self.variants.get(tuple([getattr(a, "strides", None) for a in arrays]))
        answer = NotImplemented if variant is None or variant.call is None else variant.run(arrays)
        if answer is NotImplemented:
            arrays = [readable(a, aval) for a, aval in zip(arrays, self.avals)]
            variant = self._variant(arrays)
            if variant is None:
                arrays, variant = [np.array(a, order="C") for a in arrays], self.default
            answer = NotImplemented if variant.call is None else variant.run(arrays)
            if answer is NotImplemented:
                answer = variant.run_by_ctypes(arrays)
        return answer  # type: ignore[no-any-return]

    def _variant(self, arrays: Sequence[np.ndarray]) -> _Variant | None:
        """The kernel for this layout; None if the group has too many of them already."""
        key = tuple([a.strides for a in arrays])
        variant = self.variants.get(key)
        if variant is None:
            strides = [tuple([s // a.itemsize for s in a.strides]) for a in arrays]
            layout = layout_of(self.shape, self.group.accesses, strides, [a.shape for a in arrays])
            sort = (layout.modes, len(layout.extents))
            if layout == self.layout:
                variant = self.default
            elif sort in self.texts or len(self.texts) < VARIANTS:
                self.texts.add(sort)
                variant = _Variant(self, layout, key)
            else:
                return None
            self.variants.put(key, variant)
        return variant  # type: ignore[no-any-return]


class _Variant:
    """A kernel for one layout, with its numbers."""

    def __init__(self, owner: ElementwiseKernel, layout: Layout, strides: Any = None):
        self.owner, self.layout, self.strides = owner, layout, strides
        extents = layout.extents
        self.turned = list(layout.order) != sorted(layout.order)
        self.shape = tuple([owner.shape[axis] for axis in layout.order]) if self.turned else owner.shape
        elements = PART_WORK / owner.work * math.prod(extents) // LEAST_PART * LEAST_PART
        part = max(1, int(min(max(elements, LEAST_PART), MOST_PART)) // math.prod(extents[1:]))
        self.split = extents[0] > part
        self.parallel = owner.work > threads.WORTH and self.split
        self.arena = -(-extents[0] // part) * len(owner.totals) * SLOT
        words = [*(threads.runner() if self.parallel else (0, 0)), part, *extents, *[s for row in layout.strides for s in row]]
        self.numbers = np.array(words, np.int64)
        self.plan: Any = None  # of the code that any call may use; made when one does
        self.call = self.streamed = None
        if strides is None:
            heavy = sum([math.prod(owner.shape) * d.itemsize for d in owner.dtypes[: len(owner.full)]])
            hurried = _ratio(owner.group) < DEAR * (thread_count() if self.parallel else 1)
            if owner.pooled and len(extents) == 1 and heavy > last_cache() // 2 and hurried:
                self.streamed = wrapper.make_builtin(self.made(tuple(owner.full)))
        if self.streamed is None:
            self.call = wrapper.make_builtin(self.plain())

    def made(self, nontemporal: tuple[int, ...], over: bool = False) -> Any:
        """The plan of the code for this layout, compiled; `over`: results may be written over arguments."""
        owner, n = self.owner, len(self.owner.full)
        extents = self.layout.extents
        host = target.host()
        lanes = target.lanes_of(host, owner.group.dtypes)
        while lanes > extents[-1]:
            lanes //= 2
        unroll = _unroll(owner.group, host) if extents[-1] >= 64 * lanes else 1
        text = kernel_text(owner.group, host, lanes, unroll, self.layout.modes, nontemporal, self.split, owner.far, over)
        code = target.compile_module(text, ["kernel"])
        strides = [None] * len(owner.avals) if self.strides is None else self.strides
        given = [KernelArgument("array", a.shape, a.dtype, own) for a, own in zip(owner.avals, strides)]
        given.append(KernelArgument("array", self.numbers.shape, self.numbers.dtype))
        full = [(self.shape, d) for d in owner.dtypes[:n]]
        wanted = [Wanted("array", (), d) for d in owner.dtypes[n:]]
        if owner.pooled:
            given += [KernelArgument("array", *r) for r in full]
        else:
            wanted = [*[Wanted("array", *r) for r in full], *wanted]
        return wrapper.make_plan(given, wanted, code.address["kernel"], self.arena, owner.work > UNLOCK, [code])

    def plain(self) -> Any:
        if self.plan is None:
            self.plan = self.made(())
        return self.plan

    def run(self, arrays: Sequence[Any]) -> Any:
        """A call with arrays of these strides; NotImplemented if they are not what they should be."""
        owner = self.owner
        if self.parallel:
            threads.ready()
        n = len(owner.full)
        fresh = [empty(self.shape, d) for d in owner.dtypes[:n]] if owner.pooled else []
        answer = self.call(*arrays, self.numbers, *fresh)
        if answer is NotImplemented:
            return answer
        return self._results([*fresh, *(answer if type(answer) is tuple else (answer,))])

    def run_by_ctypes(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        """The same where objects cannot be read natively, for arrays that were made readable."""
        owner = self.owner
        if self.parallel:
            threads.ready()
        n = len(owner.full)
        fresh = [empty(self.shape, d) for d in owner.dtypes[:n]] + [np.empty((), d) for d in owner.dtypes[n:]]
        pointers = [a.__array_interface__["data"][0] for a in (*arrays, self.numbers, *fresh)]
        wrapper.call_by_ctypes(self.plain(), pointers)
        return self._results([*fresh[:n], *[a[()] for a in fresh[n:]]])

    def _results(self, found: list[Any]) -> list[Any]:
        owner = self.owner
        if self.turned:
            found = [_as_given(a, owner.shape, self.layout.order) if i < len(owner.full) else a for i, a in enumerate(found)]
        return [found[i] for i in owner.places]


def _as_given(a: np.ndarray, shape: tuple[int, ...], order: tuple[int, ...]) -> np.ndarray:
    """A result whose axes are in the order of the loops (without those of size 1), with those of the group."""
    places = sorted(range(len(order)), key=order.__getitem__)
    return a.transpose(places).reshape(shape) if len(order) != len(shape) else a.transpose(places)


def _estimate(group: Group, size: int) -> float:
    """Microseconds that one thread needs, roughly."""
    return size * max(_ratio(group), 1.0) * _moved(group) * 1e-3


def _moved(group: Group) -> float:
    """Nanoseconds of one element for the memory."""
    return max(sum([v.aval.dtype.itemsize for v in (*group.jaxpr.inputs, *group.jaxpr.outputs) if v.aval.shape]), 1) / 16


def _ratio(group: Group) -> float:
    """How many times as long as on the memory one thread takes for the arithmetic, roughly."""
    lanes = target.lanes_of(target.host(), group.dtypes)
    return sum([instructions(e) for e in group.equations]) * 0.3 / lanes / _moved(group)


def _unroll(group: Group, host: Any) -> int:
    """How many vectors are abreast: the operations of a chain wait for each other, those of several vectors do not.

    Sums have that many accumulators. Without sums it is as many as the registers hold, of groups whose text stays short.
    """
    work = sum([instructions(e) for e in group.equations])
    if group.sums:
        return 4 if work <= 8 else 2 if work <= 30 else 1
    most = min((32 if host.vector_bits == 512 else 16) // max(_alive(group), 1), ABREAST // max(work, 1))
    return 4 if most >= 4 else 2 if most >= 2 else 1


def _alive(group: Group) -> int:
    """How many registers the values of one vector need at once: all reads come first, and full results are stored last."""
    last = {a: i for i, e in enumerate(group.equations) for a in e.inputs if type(a) is not Literal}
    last |= dict.fromkeys(group.jaxpr.outputs, len(group.equations))
    alive = {v for v in group.reads if v in last}
    most = 0
    for i, equation in enumerate(group.equations):
        most = max(most, sum([2 if v.aval.dtype.kind == "c" else 1 for v in alive]))
        alive = {v for v in alive if last[v] > i} | {v for v in equation.outputs if v in last}
    return max(most, len(alive))


# -- the text


def kernel_text(
    group: Group,
    host: Any,
    lanes: int,
    unroll: int,
    modes: Sequence[str],
    nontemporal: Sequence[int] = (),
    split: bool = True,
    far: bool = False,
    over: bool = False,
) -> str:
    """The module of one variant: `kernel` runs all elements, in parts if `split`: `part` runs lo..hi of the outermost axis."""
    module = ir.Module(may_contract(group.jaxpr))
    nest = element_loops(group, modes, len(modes[0]) if modes else 1, unroll, nontemporal, far, over)
    totals = [i for i, v in enumerate(group.jaxpr.outputs) if v in group.sums]
    kernel = ir.Function(module, "kernel", [("ptr", "%slots"), ("ptr", "%arena"), ("ptr", "%context")], "i32")
    numbers = kernel.word("%slots", len(group.jaxpr.inputs), "ptr")
    if not split:
        _emit_part(kernel, group, host, lanes, modes, nest, bool(nontemporal), "0", None)
        kernel.do("ret i32 0")
        module.add(kernel)
        return module.text()
    kernel.attributes = ir.RUNS_ONCE
    part = ir.Function(module, "part", [("ptr", "%slots"), ("i64", "%lo"), ("i64", "%hi"), ("ptr", "%arena")])
    _emit_part(part, group, host, lanes, modes, nest, bool(nontemporal), "%lo", "%hi")
    part.do("ret void")
    module.add(part)
    runner, size = kernel.word(numbers, RUNNER, "ptr"), kernel.word(numbers, PART)
    extent = kernel.word(numbers, EXTENTS)
    kernel.run_parts(runner, (numbers, POOL), extent, size, bool(totals))
    if totals:
        rounded = kernel.put(f"sub i64 {kernel.put(f'add i64 {extent}, {size}')}, 1")
        count = kernel.put(f"udiv i64 {rounded}, {size}")
        one = Emitter(kernel, 1, host)
        for j, k in enumerate(totals):
            v = group.jaxpr.outputs[k]
            step = len(totals) * SLOT // v.aval.dtype.itemsize
            found = emit_total(kernel, host, group.sums[v][0], v.aval.dtype, _bytes(kernel, "%arena", str(j)), count, step)
            one.store(found, _slot(kernel, group, k), "0")
    kernel.do("ret i32 0")
    module.add(kernel)
    return module.text()


def _emit_part(
    f: ir.Function, group: Group, host: Any, lanes: int, modes: Any, nest: Any, past: bool, lo: str, hi: str | None
) -> None:
    """The loops over lo..hi; accumulations go to their slots, or, if there is `hi`, to the arena, at the number of the part."""
    n_in, ndim, outputs = len(group.jaxpr.inputs), len(modes[0]) if modes else 1, group.jaxpr.outputs
    numbers = f.word("%slots", n_in, "ptr")
    pointers = {i: f.word("%slots", i, "ptr") for i in sorted({i for i, _ in group.accesses})}
    names: dict[str, Any] = {f"e{axis}": f.word(numbers, EXTENTS + axis) for axis in range(ndim)}
    names |= {"begin": lo if hi else 0, "end": hi or names["e0"]}
    for k, row in enumerate(modes):
        for axis, mode in enumerate(row):
            if mode == "s":
                names[f"s{k}.{axis}"] = f.word(numbers, EXTENTS + ndim + k * ndim + axis)
    totals = [k for k, v in enumerate(outputs) if v in group.sums]
    places = {k: _slot(f, group, k) for k in range(len(outputs)) if hi is None or k not in totals}
    if totals and hi is not None:
        number = f.put(f"udiv i64 {lo}, {f.word(numbers, PART)}")
        first = f.put(f"mul i64 {number}, {len(totals)}")
        places |= {k: _bytes(f, "%arena", f.put(f"add i64 {first}, {j}")) for j, k in enumerate(totals)}
    memory = {("in", k): Memory(pointers[i]) for k, (i, _) in enumerate(group.accesses)}
    memory |= {("out", k): Memory(place) for k, place in places.items()}
    NestPrinter(f, host, lanes, memory, names).write(nest)
    if past:  # other threads must see what was written past the caches
        if platform.machine().lower() in ("x86_64", "amd64", "i686", "i386"):
            f.do(f"call void {f.module.declare('llvm.x86.sse.sfence', 'void', [])}()")
        else:
            f.do("fence seq_cst")


def _slot(f: ir.Function, group: Group, k: int) -> str:
    """Where output k goes: full results come first, then those of rank 0."""
    outputs = group.jaxpr.outputs
    order = sorted(range(len(outputs)), key=lambda i: outputs[i] in group.sums)
    return f.word("%slots", len(group.jaxpr.inputs) + 1 + order.index(k), "ptr")


def _bytes(f: ir.Function, pointer: str, index: str) -> str:
    """The place of an accumulation."""
    return f.put(f"getelementptr [{SLOT} x i8], ptr {pointer}, i64 {index}")

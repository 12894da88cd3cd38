"""Small static programs as one native function each: the whole-program half of the native engine.

    program = compile_program(jaxpr)     # or Unsupported, with the reason
    outputs = program(values)            # any values that the jaxpr takes; a list
    program.fast(*values)                # a built-in: one object, or a tuple; NotImplemented for values of another kind

What is compiled as a whole: there are no effects, every operation has native code, outside loops there is not much to do for
kernels of groups, which use all cores (program_cost.py), and it works for longer than it takes to get memory beyond what a plan
keeps between calls, not counting the arrays that loops read or fill row by row. How often a loop runs does not matter; how much
code there is to compile does (program_build.py).

Invariants: results are fresh arrays, or the argument itself where the program passes one through; a program that cannot finish
as NumPy would (an index out of bounds) is run again by the reference, which raises NumPy's error at the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.interpreter import program_of
from funcad.backends.memory import carries_of
from funcad.backends.native import growing, llvm_loops, matrix_rules, program_rules, wrapper  # noqa: F401 two enter rules
from funcad.backends.native.ir import Function, Module
from funcad.backends.native.program_build import MAX_LINES, PER_EQUATION, Build, TooLong, too_long
from funcad.backends.native.program_cost import may_contract, work_of
from funcad.backends.native.program_parts import ProgramParts
from funcad.backends.native.program_region import Region
from funcad.backends.native.program_values import Splat, View
from funcad.backends.native.shared_functions import compiled_function
from funcad.backends.native.target import compile_module, host
from funcad.backends.native.wrapper import KernelArgument, Wanted
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides
from funcad.backends.py_loops import read_by_loops_alone
from funcad.ir.aval import Aval, LiteralAval, StackAval
from funcad.ir.jaxpr import Jaxpr, Literal, Var, prune, subjaxprs
from funcad.primitives.loop import Loop, loop_p

PER_FRESH_BYTE = 0.25  # nanoseconds to get a byte of memory from the system
LONG = 300  # equations from which on loops of one kind are one function
MAX_ORDERS = 4  # memory orders of arguments that are remembered
LOCKED = 50_000  # nanoseconds up to which other Python threads wait
PYTHON_KINDS = {"f": "float", "i": "int", "b": "bool", "c": "complex"}


class NativeProgram:
    """A compiled program; see the module's text. `lines` is how much code it is, `arena_bytes` its working memory."""

    __slots__ = ("jaxpr", "fast", "plan", "given", "wanted", "lines", "arena_bytes", "_others", "__weakref__")

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.given, self.wanted = _interface(jaxpr)
        self.lines = self.arena_bytes = 0
        self.plan = self._plan(self.given)
        self.fast: Callable[..., Any] | None = None if self._stacks() else wrapper.make_builtin(self.plan)
        self._others: dict[tuple, int] = {}  # memory orders of arguments that the code is not made for: how often they came

    def _stacks(self) -> bool:
        """Are there lists among arguments or results? Such a program has no built-in, it is called by ctypes."""
        return any([item.kind == "stack" for item in (*self.given, *self.wanted)])

    def _plan(self, given: list[KernelArgument]) -> wrapper.PlanWords:
        """Code for arguments in these memory orders."""
        module, build = _written(self.jaxpr, given, self.wanted)
        arena_bytes, stacked = build.arena.size, _stacked(self.jaxpr)
        fresh = arena_bytes - stacked
        if fresh > wrapper.KEPT_ARENA and fresh * PER_FRESH_BYTE > work_of(self.jaxpr).nanoseconds:
            raise Unsupported(f"it needs {fresh} bytes of working memory, which take longer to get than it works on them")
        text = module.text()
        self.lines, self.arena_bytes = text.count("\n"), arena_bytes
        helpers = [compiled_function(name, dtype) for name, dtype in build.helpers]
        compiled = compile_module(text, ["program"])
        unlock = work_of(self.jaxpr).nanoseconds > LOCKED or _has_while(self.jaxpr)
        kept = [compiled, self.jaxpr]
        described = ([], []) if self._stacks() else (given, self.wanted)
        return wrapper.make_plan(*described, compiled.address["program"], arena_bytes, unlock, kept, helpers)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for any values that the program takes: another memory order, a 0-d array for a scalar, a subclass."""
        if self.fast is not None:
            result = self.fast(*values)
            if result is not NotImplemented:
                return [result] if len(self.wanted) == 1 else list(result)
        pointers, kept = [], []
        for x, item in zip(values, self.given, strict=True):
            array = _prepared(x, item)
            if array is None:
                return program_of(self.jaxpr).run(values)
            kept.append(array)
            pointers.append(array.ctypes.data)
        made = [_memory(w) for w in self.wanted]
        pointers += [0 if array is None else array.ctypes.data for array in made]
        if wrapper.call_by_ctypes(self.plan, pointers):
            return program_of(self.jaxpr).run(values)
        self._learn(values)
        outputs: list[Any] = []
        for array, w in zip(made, self.wanted):
            if array is None:
                outputs.append(values[w.which] if w.kind == "argument" else outputs[w.which] if w.kind == "again" else w.which)
            elif w.kind == "stack":
                outputs.append(growing.taken_over(array, w.which))
            elif w.kind != "array":
                outputs.append(array.item())
            else:
                outputs.append(array if w.shape else array[()])
        return outputs

    def _learn(self, values: Sequence[Any]) -> None:
        """Compile for the memory order of these arguments, if it is the second time that they come so."""
        orders = tuple([_order(x, item) for x, item in zip(values, self.given)])
        if self.fast is None or not any(orders) or False in orders:
            return
        if orders not in self._others and len(self._others) == MAX_ORDERS:
            return
        times = self._others[orders] = self._others.get(orders, 0) + 1
        if times == 2:
            given = [item._replace(strides=order or None) for item, order in zip(self.given, orders)]
            try:
                plan = self._plan(given)
            except Unsupported:  # more working memory than in C order: such arguments go on being copied
                return
            wrapper.add_plan(self.fast, plan)


def _order(x: Any, item: KernelArgument) -> Any:
    """The strides of an array that is not in C order; None if nothing is special, False if the code cannot read it in place."""
    if item.kind != "array" or not item.shape or type(x) is np.ndarray and x.flags.c_contiguous and x.flags.aligned:
        return None
    if type(x) is not np.ndarray or not x.flags.aligned or any(s % x.itemsize for s in x.strides):
        return False
    return x.strides


def _memory(item: Wanted) -> np.ndarray | None:
    """Where a result goes; of a stack, its address and its length."""
    if item.kind == "stack":
        return np.zeros(2, np.int64)
    return np.empty(item.shape, item.dtype) if item.kind in ("array", *PYTHON_KINDS.values()) else None


def _prepared(x: Any, item: KernelArgument) -> np.ndarray | None:
    """The value as an array of exactly the dtype, shape and order that the code reads; None if it is another value."""
    if item.kind == "stack":
        return growing.packed(x, Aval(item.shape, item.dtype))
    if item.kind != "array":
        if type(x) is not wrapper.PYTHON[item.kind] or type(x) is int and not -(2**63) <= x < 2**63:
            return None
        return np.array(x, item.dtype)
    array = np.asarray(x)
    if array.shape != item.shape or array.dtype != item.dtype:
        return None
    return np.require(array, item.dtype.newbyteorder("="), ["C", "A"])


def compile_program(jaxpr: Jaxpr) -> NativeProgram | ProgramParts:
    """One native function for a whole program, or several; Unsupported, with the reason, where that cannot or should not be.

    >>> import numpy as np, funcad
    >>> jaxpr = funcad.jit(lambda x: np.sum(x * x)).lower(np.ones(3)).jaxpr
    >>> compile_program(jaxpr)([np.array([1.0, 2.0, 3.0])])  # doctest: +SKIP
    [np.float64(14.0)]
    """
    try:
        return NativeProgram(jaxpr)
    except TooLong:
        if len(jaxpr.equations) < 2:
            raise
        return ProgramParts(jaxpr, NativeProgram)


def program_text(jaxpr: Jaxpr) -> str:
    """The LLVM code of a whole program."""
    return _written(jaxpr, *_interface(jaxpr))[0].text()


def _has_while(jaxpr: Jaxpr) -> bool:
    asks = lambda e: getattr(e.params.get("loop"), "cond", None) is not None
    return any(asks(e) or any(map(_has_while, subjaxprs(e.params))) for e in jaxpr.equations)


def _stacked(jaxpr: Jaxpr) -> int:
    """Bytes of what the program's loops read and fill row by row, and of the carries of which they only write elements."""
    arrays = set()
    for equation in jaxpr.equations:
        if equation.primitive is loop_p:
            loop: Loop = equation.params["loop"]
            _, _, first, xs = loop.parts(equation.inputs)
            results: Sequence[Any] = equation.outputs[loop.first :]
            if loop.cond is None:
                arrays |= {*xs, *results[loop.n_carry :]}
            for kind, *pair in zip(carries_of(loop), first, results):
                if kind == "place":
                    arrays.update(pair)
    return sum([prod(v.aval.shape) * v.aval.dtype.itemsize for v in arrays])


def _interface(jaxpr: Jaxpr) -> tuple[list[KernelArgument], list[Wanted]]:
    """What goes in and what comes out; Unsupported for what is no array or number, and for programs with too much work."""
    if jaxpr.has_effects:
        raise Unsupported("it has effects")
    if not read_by_loops_alone(jaxpr):
        raise Unsupported("an operation on lists of unknown length (the derivative of a while_loop)")
    work = work_of(jaxpr)
    if work.for_groups:
        raise Unsupported(f"it takes about {work.outside / 1e6:.1f} ms outside loops: kernels of groups serve it better")
    if work.equations * PER_EQUATION > MAX_LINES:
        raise too_long()
    given = [KernelArgument(*_kind(v.aval)) for v in jaxpr.inputs]
    wanted: list[Wanted] = []
    places = {v: i for i, v in enumerate(jaxpr.inputs)}
    seen: dict[Var, int] = {}
    for i, o in enumerate(jaxpr.outputs):
        if isinstance(o, Literal):
            wanted.append(Wanted("constant", which=o.value))
        elif o in places:
            wanted.append(Wanted("argument", which=places[o]))
        elif o in seen:
            wanted.append(Wanted("again", which=seen[o]))
        else:
            seen[o] = i
            wanted.append(Wanted(*_kind(o.aval), o.aval if type(o.aval) is StackAval else None))
    return given, wanted


def _kind(aval: Any) -> tuple[str, tuple, np.dtype]:
    if type(aval) is StackAval:
        return ("stack", *_kind(growing.element_of(aval))[1:])
    if type(aval) not in (Aval, LiteralAval) or aval.dtype.kind not in "biufc" or aval.dtype.itemsize > 16:
        raise Unsupported(f"{aval} is not an array of numbers")
    if aval.dtype.char in "egG":
        raise Unsupported(f"{aval.dtype} has no native code")
    kind = PYTHON_KINDS[aval.dtype.kind] if aval.weak and not aval.shape else "array"
    return kind, aval.shape, aval.dtype


def _written(jaxpr: Jaxpr, given: Sequence[KernelArgument], wanted: Sequence[Wanted]) -> tuple[Module, Build]:
    """The module that has `program`, and what is known of the program once it is written."""
    module = Module(may_contract(jaxpr))
    jaxpr = prune(jaxpr)
    f = Function(module, "program", [("ptr", "%slots"), ("ptr", "%arena"), ("ptr", "%context")], "i32")
    build = Build(f, host())
    build.sharing = work_of(jaxpr).equations > LONG
    f.lines.append("  %asking = getelementptr ptr, ptr %context, i64 2")
    f.lines.append("  %helping = getelementptr ptr, ptr %context, i64 3")
    f.lines.append("  %helpers = load ptr, ptr %helping")

    def slot(i: int, aval: Any, strides: Any = None) -> Any:
        pointer = f.load(f"load ptr, ptr {f.put(f'getelementptr ptr, ptr %slots, i64 {i}')}")
        if type(aval) is StackAval:
            return growing.given(pointer, aval)
        if strides is not None:
            return View(pointer, aval.dtype, aval.shape, tuple([s // aval.dtype.itemsize for s in strides]))
        return View(pointer, aval.dtype, aval.shape, contiguous_strides(aval.shape))

    read = {a for e in jaxpr.equations for a in e.inputs}
    unread = lambda aval: Splat(build.one.literal(0, aval.dtype), aval.dtype, aval.shape)  # of a stack, too
    values: list[Any] = []
    for i, (v, item) in enumerate(zip(jaxpr.inputs, given)):
        values.append(slot(i, v.aval, item.strides) if v in read else unread(v.aval))
    results: dict[Any, Any] = {
        o: slot(len(values) + i, o.aval)
        for i, (o, w) in enumerate(zip(jaxpr.outputs, wanted))
        if w.kind not in ("argument", "again", "constant")
    }
    region = Region(build, jaxpr, values, {o: view for o, view in results.items() if o.aval.shape})
    region.hand_back()
    outputs = dict(zip(jaxpr.outputs, region.run()))
    for o, view in results.items():
        value = outputs[o]
        if type(value) is growing.Pile:
            growing.hand_over(build, value, view.entries.pointer)
        elif not llvm_loops.same_place(value, view):
            build.copy(value, view)
    f.do("ret i32 0")
    growing.with_heap(module, f, build)
    return module, build

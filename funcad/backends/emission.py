"""Equations to lines: the NumPy engine, from a program to one Python function.

Idea: a walk over the equations with an environment of `Value`s (see memory.py). The result of an equation goes, in this order:
into a row of the array that collects it (in a loop), over an operand that dies, into scratch memory of the loop, into pooled
memory if it is large, into new memory. Broadcasts whose readers broadcast by themselves are not made. Invariants: lines are in
the order of the equations; large values are dropped after their last use; what an operation without a known text may have seen
is never written again, since it may have been a callback that kept it: in loops it sees copies. Trap: names are counted, as
several values may share one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import Any

import numpy as np

from funcad.backends import batches, in_place, py_loops, tiles
from funcad.backends.blas_threads import around, by_product
from funcad.backends.buffers import LARGE, empty
from funcad.backends.interpreter import on
from funcad.backends.memory import Storage, Value, deaths, let_go, writable_operand, writes_elements, writes_of
from funcad.backends.text import Block, Writer, compile_text, dtype_text, shape_text, write_scalars
from funcad.backends.text_rules import Expression, TextCall, broadcasts, repeated, text_of, text_on_device
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import note_source
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, split
from funcad.ir.primitive import may_share
from funcad.passes.lower import parts_of
from funcad.primitives.arithmetic import abs_, add, maximum, minimum, mul, neg
from funcad.primitives.basic_indexing import basic_index_p, place_sum_p
from funcad.primitives.comparison import lt, select
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import convert_p
from funcad.primitives.fused import fused_p
from funcad.primitives.reduction import reduce_max_p, reduce_min_p, reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, concatenate_p, reshape
from funcad.primitives.transcendental import exp

# -- the equations of a program as the NumPy engine writes them
#
# `lowered` replaces compositions (a * b + c * d, ...) by the equations that their implementations are made of, so that their
# temporaries take part in the memory plan. `shortened` replaces what small arrays spend their time on, calls of NumPy: a total
# of row totals is one reduction, a sum of squares one product, and a small sum a product with ones, which takes half the time.
# Invariant of both: the same values, sums up to rounding. NumPy's sums start at 0.0, as BLAS's do, so signs of zero agree.
# Trap: BLAS may add a product that it has not rounded, whose overflow another term could undo; squares have one sign, so only
# they are summed as they are multiplied.


def lowered(jaxpr: Jaxpr) -> list[Equation]:
    """The equations, compositions replaced by their parts."""
    result: list[Equation] = []
    for equation in jaxpr.equations:
        parts = None
        if len(equation.outputs) == 1 and isinstance(equation.outputs[0].aval, Aval) and equation.outputs[0].aval.shape:
            parts = _place_sum(equation) if equation.primitive is place_sum_p else parts_of(equation)
        result += [equation] if parts is None else parts
    return result


def _place_sum(equation: Equation) -> list[Equation] | None:
    """Pieces that lie beside each other along one axis and leave nothing out are joined, and added to zero all the same."""
    xs, (out,), indices, shape = equation.inputs, equation.outputs, equation.params["indices"], equation.params["shape"]
    steps: list[Equation] = []

    def do(primitive: Any, *inputs: Any, out: Any = None, **params: Any) -> Var:
        var = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params)) if out is None else out
        steps.append(Equation(primitive, inputs, params, (var,), equation.source))
        return var

    if len(xs) < 2 or out.aval.dtype.kind not in "fc" or any([type(x) is Literal for x in xs]):
        return None
    if len(shape) == 1:  # numbers are pieces, too
        xs = tuple([do(reshape, x, shape=(1,)) if type(index[0]) is int else x for x, index in zip(xs, indices)])
        indices = tuple([((index[0], 1, 1),) if type(index[0]) is int else index for index in indices])
    if any([len(index) != len(shape) or not all([type(entry) is tuple for entry in index]) for index in indices]):
        return None
    axes = {i for index in indices for i, (entry, n) in enumerate(zip(index, shape)) if entry != (0, n, 1)}
    if len(axes) != 1:
        return None
    (axis,) = axes
    order = sorted(range(len(xs)), key=lambda k: indices[k][axis][0])
    end = 0
    for k in order:
        start, count, step = indices[k][axis]
        if start != end or step != 1 and count != 1:
            return None
        end += count
    if end != shape[axis]:
        return None
    do(add, do(concatenate_p, *[xs[k] for k in order], axis=axis), Literal(0.0), out=out)
    return steps


# ---------------------------------------------------------------- fewer calls

FEW = 8192  # elements that are summed by a product; in larger arrays the work outweighs the call
WINDOW = 4  # elements of a window along each axis, up to which an extremum is taken element by element,
WINDOWS = 256  # if there are so many: for few, the calls take longer
_EXTREMA = (reduce_max_p, reduce_min_p)


def shortened(equations: list[Equation], outputs: Sequence[Any], device: bool = False) -> list[Equation]:
    """The equations, in fewer and quicker calls; on a `device`, where every call takes as long to start, in fewer ones."""
    if not device and any([e.primitive is select for e in equations]):
        equations = _bounded_exponentials(equations, outputs)
    if not any([e.primitive is reduce_sum_p or e.primitive in _EXTREMA for e in equations]):
        return equations
    reads = Counter([a for e in equations for a in e.inputs if type(a) is Var])
    reads.update([o for o in outputs if type(o) is Var])
    place = {e.outputs[0]: i for i, e in enumerate(equations) if len(e.outputs) == 1}
    result: list[Equation | None] = list(equations)

    def made(x: Var) -> Equation | None:
        return result[place[x]] if x in place else None

    def inner(equation: Equation, primitive: Any) -> Equation | None:
        """What makes the operand, if it is of this kind and nobody else reads it."""
        found = made(equation.inputs[0]) if reads[equation.inputs[0]] == 1 else None
        return found if found is not None and found.primitive is primitive else None

    for i, equation in enumerate(equations):
        if equation.primitive is not reduce_sum_p and equation.primitive not in _EXTREMA:
            continue
        part = None if equation.outputs[0].aval.shape else inner(equation, equation.primitive)
        if part is not None:
            result[place[part.outputs[0]]] = None
            axes = tuple(range(len(part.inputs[0].aval.shape)))
            equation = result[i] = equation._replace(inputs=part.inputs, params={"axes": axes})
        x = equation.inputs[0]
        mask = inner(equation, convert_p) if device and equation.primitive is reduce_sum_p else None
        if mask is not None and mask.inputs[0].aval.dtype.kind == "b" and not mask.params.get("weak"):
            result[place[x]] = None  # CuPy adds up what it reads in the dtype of the result
            result[i] = equation._replace(inputs=mask.inputs)
            continue
        if equation.primitive is not reduce_sum_p or x.aval.dtype.char not in "fd" or not x.aval.size:
            continue
        square = None if equation.outputs[0].aval.shape else inner(equation, mul)
        if square is not None and square.inputs[0] is square.inputs[1] and _is_array(square.inputs[0], made):
            result[place[x]] = None
            axes = equation.params["axes"]
            params = {"dimension_numbers": ((axes, axes), ((), ()))}
            result[i] = Equation(dot_general_p, square.inputs, params, equation.outputs, equation.source)
        elif not device and _is_array(x, made) and (by_product(equation) or _few_terms(x.aval.shape, equation)):
            result[i] = equation._replace(params={**equation.params, "by_product": True})
    return [step for e in result if e is not None for step in ([e] if device else _pooled(e))]


def _bounded_exponentials(equations: list[Equation], outputs: Sequence[Any]) -> list[Equation]:
    """`select(x < 0, exp(-abs(x)), 1)`, a part of the logistic function, is `exp(minimum(x, 0))`, without a mask."""
    makers: dict[Any, Equation] = {e.outputs[0]: e for e in equations if len(e.outputs) == 1}
    result: list[Equation] = []
    asked: set[Any] = set()

    def of(atom: Any, primitive: Any) -> Any:
        """The first operand of what makes it, if it is this operation."""
        found = makers.get(atom)
        return found.inputs[0] if found is not None and found.primitive is primitive else None

    is_number = lambda atom, value: type(atom) is Literal and atom.value == value
    for e in equations:
        if e.primitive is select and e.outputs[0].aval.shape and is_number(e.inputs[2], 1.0):
            mask, x = e.inputs[0], of(of(of(e.inputs[1], exp), neg), abs_)
            zero = makers[mask].inputs[-1] if mask in makers else None
            if x is not None and of(mask, lt) is x and is_number(zero, 0.0):
                below = Var(minimum.abstract_eval(x.aval, zero.aval))
                result.append(Equation(minimum, (x, zero), {}, (below,), e.source))
                asked.add(mask)
                e = Equation(exp, (below,), {}, e.outputs, e.source)
        result.append(e)
    asked = asked.difference(outputs, *[e.inputs for e in result])
    return [e for e in result if not asked.intersection(e.outputs)]


def _pooled(equation: Equation) -> list[Equation]:
    """The extrema of many small windows along the last axis, element by element: NumPy begins a loop for each window."""
    if equation.primitive not in _EXTREMA:
        return [equation]
    (x,), (out,), axes = equation.inputs, equation.outputs, equation.params["axes"]
    small = all([1 < x.aval.shape[a] <= WINDOW for a in axes]) and len(x.aval.shape) - 1 in axes
    if not small or out.aval.size < WINDOWS or x.aval.dtype.kind not in "iuf":
        return [equation]
    larger = maximum if equation.primitive is reduce_max_p else minimum
    steps: list[Equation] = []

    def do(primitive: Any, *inputs: Any, **params: Any) -> Var:
        var = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params))
        steps.append(Equation(primitive, inputs, params, (var,), equation.source))
        return var

    for axis in sorted(axes, reverse=True):
        shape = x.aval.shape
        whole = [(0, n, 1) for n in shape]
        parts = [do(basic_index_p, x, index=(*whole[:axis], i, *whole[axis + 1 :])) for i in range(shape[axis])]
        x = reduce(lambda a, b: do(larger, a, b), parts)
    steps[-1] = steps[-1]._replace(outputs=equation.outputs)
    return steps


def _few_terms(shape: tuple, reduction: Equation) -> bool:
    """Has each sum several terms, and are all not many? BLAS does not add a single one, which may be -0.0, to 0.0."""
    terms = math.prod([shape[a] for a in reduction.params["axes"]])
    return len(shape) <= 2 and terms > 1 and math.prod(shape) <= FEW


def _is_array(x: Any, made: Callable[[Var], Equation | None]) -> bool:
    """Is it an array, not a broadcast that is left to its readers?"""
    equation = made(x)
    return equation is None or equation.primitive is not broadcast_in_dim


# -- equations to lines: the part of the NumPy engine that writes one program, sub-programs in place


CLEAR = 1024  # bytes from which on a dead value is dropped at once
CLEAR_IN_LOOPS = 64 * 1024  # in loops the next turn drops it
STRAIGHT = 16 * 1024  # bytes that are copied more quickly than NumPy sets out along uneven operands, half a microsecond
_CALLS = ("call", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call")  # they run their program once
_SOLVES = ("linear_solve", "root")


class Destination:
    """Where a value is to be stored: the row of an array (`text`, written whole), or one element of it (`ys[i]`)."""

    __slots__ = ("text", "whole")

    def __init__(self, text: str, whole: bool):
        self.text = text
        self.whole = whole

    def statement(self, text: str) -> str:
        return f"{self.text}[...] = {text}" if self.whole else f"{self.text} = {text}"


class Frame:
    """Scratch arrays of a loop: `block` is in front of it, `shape` gives the scratch shape of an aval, None if it has none."""

    __slots__ = ("block", "free", "shape", "bytes", "names", "views", "boxes", "full", "fixed")

    def __init__(self, block: Block, shape: Callable[[Any], tuple | None] = lambda aval: aval.shape):
        self.block = block
        self.shape = shape
        self.free: dict[Any, list[str]] = {}
        self.bytes = 0
        self.names: list[tuple[str, tuple, Any]] = []
        self.views: dict[Any, str] = {}  # (scratch array, dtype) -> a view of it as that dtype
        self.full: tuple | None = None  # of a group of rows: the shape of a whole tile
        self.fixed: set[str] = set()  # texts of what no turn of the loop changes
        self.boxes: dict[tuple[str, np.dtype], str] | None = None  # (scalar, dtype) -> name of the array that holds it


class Emission:
    """Writes programs through a `Writer`."""

    def __init__(
        self,
        w: Writer,
        kernels: Callable[[Equation], Any] | None = None,
        names: dict[Var, str] | None = None,
        overwrites: bool = False,
    ):
        self.w = w
        self.kernels = kernels
        self.wanted = names or {}
        self.overwrites = overwrites  # may kernels write over dying operands?
        self.frame: Frame | None = None
        self.depth = 0  # of loops
        self.counts: Counter[str] = Counter()
        self.doomed: list[str] = []
        self.positional = w.np == "np"  # `out` by position is quicker, by name it is easier to read
        self.settled: set[str] = set()  # texts of scalars that do not change while loops run
        self.lists = False  # may stacks be lists?
        self.copied: set[Var] = set()  # views that are read after the array was written
        self.filled: set[str] = set()  # names of stacks with an entry for each turn of the loop that filled them

    # -- values

    def fresh_name(self, var: Var) -> str:
        name = self.wanted.get(var)
        return self.w.name() if name is None else self.w.reserve(name)

    def value(self, text: str, aval: Any, storages: Sequence[Storage] = (), whole: bool = False, shape: Any = None) -> Value:
        self.counts[text] += 1
        return Value(text, aval, storages, whole, shape)

    def alias(self, v: Value) -> Value:
        found = self.value(v.text, v.aval, v.storages, v.whole, v.shape)
        found.strided = v.strided
        return found

    def literal(self, atom: Literal) -> Value:
        text = self.w.literal(atom.value)
        self.settled.add(text)
        return self.value(text, atom.aval, shape=())

    def release(self, v: Value) -> None:
        if not v.alive:
            return
        v.alive = False
        if v.copy is not None:
            self.release(v.copy)
        for s in let_go(v):
            if s.scratch is not None and self.frame is not None:
                self.frame.free.setdefault(s.key, []).append(s.scratch)
        self.counts[v.text] -= 1
        if not self.counts[v.text] and v.text.isidentifier():
            aval = v.aval
            size = aval.size * aval.dtype.itemsize if isinstance(aval, Aval) else CLEAR
            scratch = any([s.scratch is not None for s in v.storages])
            if not scratch and v.storages and size >= (CLEAR_IN_LOOPS if self.depth or self.w.np == 'xp' else CLEAR):
                self.doomed.append(v.text)

    def drop(self) -> None:
        """The line that lets dead values go."""
        if self.doomed:
            self.w.line(" = ".join([*self.doomed, "None"]))
            self.doomed.clear()

    def drop_none(self) -> None:
        """Forget what was to be dropped: the end of a loop's turn or of a branch does it."""
        self.doomed.clear()

    def new_frame(self, block: Block) -> Frame:
        return Frame(block)

    def lowered(self, jaxpr: Jaxpr) -> list[Equation]:
        return lowered(jaxpr)

    def shortened(self, jaxpr: Jaxpr) -> list[Equation]:
        return shortened(lowered(jaxpr), jaxpr.outputs, self.w.device)

    def unmade_broadcasts(self, equations: Sequence[Equation], keep: set[Var]) -> dict[Var, tuple]:
        numbers = in_place.unmade_reshapes(equations, keep) if not self.w.device else {}
        return {**unmade_broadcasts(equations, keep), **numbers}

    def in_loop(self) -> bool:
        """Is this the body of a loop of the program, not of tiles?"""
        return self.frame is not None and self.frame.boxes is not None

    def row(self, text: str, whole: bool) -> Destination:
        return Destination(text, whole)

    def empty(self, shape: tuple, dtype: np.dtype) -> str:
        size = int(np.prod(shape, dtype=float)) * dtype.itemsize
        if size >= LARGE and self.w.np == "np":
            return f"{self.w.helper('empty', empty)}({shape_text(shape)}, {dtype_text(self.w, dtype)})"
        return f"{self.w.np}.empty({shape_text(shape)}, {dtype_text(self.w, dtype)})"

    def scratch(self, aval: Aval, shape: tuple | None = None) -> tuple[str, Storage] | None:
        """A scratch array of the loop for a value of this aval, or of the given shape."""
        frame = self.frame
        if shape is None:
            shape = frame.shape(aval) if frame is not None else None
        if frame is None or not shape or 0 in shape:
            return None
        key = (shape, aval.dtype)
        free = frame.free.get(key)
        if free:
            name = free.pop()
        else:
            name = self.w.name("s")
            self.counts[name] += 1  # it outlives the values in it
            with self.w.within(frame.block):
                self.w.line(f"{name} = {self.empty(shape, aval.dtype)}")
            frame.names.append((name, shape, aval.dtype))
            frame.bytes += int(np.prod(shape)) * aval.dtype.itemsize
        return name, Storage(True, name, key)

    # -- programs

    def program(self, jaxpr: Jaxpr, inputs: list[Value], rows: dict[Var, list[Destination]] | None = None) -> list[Value]:
        """The lines of a program; gives its outputs. It takes the inputs over: pass aliases. `rows`: values to be stored."""
        return self.equations(self.shortened(jaxpr), dict(zip(jaxpr.inputs, inputs)), jaxpr.outputs, rows or {})

    def equations(
        self, equations: list[Equation], env: dict[Var, Value], outputs: Sequence[Any], rows: dict[Var, list[Destination]]
    ) -> list[Value]:
        keep = {o for o in outputs if type(o) is Var}
        lazy = self.unmade_broadcasts(equations, keep | set(rows))
        dying = deaths(equations, keep)
        if writes_elements(equations):
            self.copied |= writes_of(list(env), equations, outputs, None).copied
        read = keep.union(*[e.inputs for e in equations])
        self.store([v for v in env if v in rows], env, rows)
        for v in [v for v in env if v not in read]:
            self.release(env.pop(v))
        self.drop()
        saved = self.w.equation
        for equation, dead in zip(equations, dying):
            self.w.equation = equation if equation.source is not None or saved is None else saved
            operands = [self.literal(a) if type(a) is Literal else env[a] for a in equation.inputs]
            ends = [env[v] for v in dead if v in env]
            var = equation.outputs[0] if equation.outputs else None
            if var in lazy and equation.primitive is not broadcast_in_dim and equation.primitive is not reshape:
                self.narrow(equation, operands, env, ends, rows)
            elif var in lazy:
                env[var] = self.unmade(operands[0], equation, lazy[var])
            elif (threads := around(equation)) is not None and self.w.np == "np":
                self.w.line(f"{self.w.helper(threads[0].__name__, threads[0])}()")
                self.equation(equation, operands, env, ends, rows)
                self.w.line(f"{self.w.helper(threads[1].__name__, threads[1])}()")
            else:
                self.equation(equation, operands, env, ends, rows)
            for v in dead:
                self.release(env.pop(v))
            self.drop()
        self.w.equation = saved
        return [self.literal(o) if type(o) is Literal else env[o] for o in outputs]

    def equation(
        self,
        equation: Equation,
        operands: list[Value],
        env: dict[Var, Value],
        dying: list[Value],
        rows: dict[Var, list[Destination]],
    ) -> None:
        primitive = equation.primitive
        if primitive is fused_p:
            kernel = None if self.kernels is None else self.kernels(equation)
            if kernel is not None:
                over, kernel = self._overwriting(kernel, equation, operands, dying)
                name = self.w.constant("kernel_", kernel)
                self.several(equation, f"{name}({', '.join([v.text for v in operands])})", env, rows, True, operands, over)
            elif self.w.device:  # tiles are for the caches of a processor
                self.inline(equation.params["jaxpr"], equation, operands, env, dying, rows)
            elif equation.params["kind"] == "batch" and batches.write(self, equation, operands, env, rows):
                return
            elif not tiles.write(self, equation, operands, env, dying, rows):
                self.inline(equation.params["jaxpr"], equation, operands, env, dying, rows)
        elif primitive.name in _CALLS:
            self.inline(equation.params["jaxpr"], equation, operands, env, dying, rows)
        elif primitive.name in _SOLVES:  # what they are solutions of is for derivatives
            _, mine, _, last = split(operands, *equation.params["n_consts"])
            self.inline(equation.params["solve"], equation, [*mine, *last], env, dying, rows)
        elif primitive.name == "optimization_barrier":
            for v, x in zip(equation.outputs, operands):
                env[v] = self.alias(x)
            self.store(equation.outputs, env, rows)
        elif in_place.write_places(self, equation, operands, env, rows):
            return
        elif not py_loops.write(self, equation, operands, env, dying, rows):
            self.operation(equation, operands, env, dying, rows)

    def inline(
        self,
        jaxpr: Jaxpr,
        equation: Equation,
        operands: list[Value],
        env: dict[Var, Value],
        dying: list[Value],
        rows: dict[Var, list[Destination]],
    ) -> None:
        """A sub-program in the place of its equation."""
        inner = [self.alias(v) for v in operands]
        for v in dying:
            self.release(v)
        through: dict[Var, list[Destination]] = {}
        for v, o in zip(equation.outputs, jaxpr.outputs):
            if v in rows and type(o) is Var:
                through.setdefault(o, []).extend(rows[v])
        found = self.program(jaxpr, inner, through)
        for v, x in zip(equation.outputs, found):
            env[v] = self.alias(x)
        for x in found:
            self.release(x)
        self.store([v for v, o in zip(equation.outputs, jaxpr.outputs) if type(o) is Literal], env, rows)

    def operation(
        self,
        equation: Equation,
        operands: list[Value],
        env: dict[Var, Value],
        dying: list[Value],
        rows: dict[Var, list[Destination]],
    ) -> None:
        primitive = equation.primitive
        if in_place.write_in_place(self, equation, operands, env, dying, rows):
            return
        result = (text_on_device if self.w.device else text_of)(self.w, equation, operands)
        if type(result) is Expression and result.shares and equation.outputs[0] in self.copied:
            result = Expression(f"{self.w.np}.array({result.text})", fresh=True)
        if primitive is broadcast_in_dim and type(result) is Expression and self._is_fixed(operands[0]):
            (out,) = equation.outputs
            if out.aval.shape and 0 not in out.aval.shape:  # else it has no scratch
                made = env[out] = self._in_front(out.aval, result.text)
                self.store(equation.outputs, {out: made}, rows)
                return
        if result is not None:
            made = env[equation.outputs[0]] = self.assign(equation.outputs[0], result, operands, dying, rows)
            is_part = bool(made.storages) and made.storages == operands[0].storages
            made.strided = is_part and _lies_apart(equation)
            return
        name = self.w.callee(equation, on(self.w.library, equation))
        text = f"{name}({', '.join(py_loops.seen(self, equation, operands))})"
        fresh = not may_share(equation)
        if not fresh and not primitive.free:
            for v in operands:
                for s in v.storages:
                    s.owned = False  # it may have been kept by a callback
        if primitive.multiple:
            self.several(equation, text, env, rows, fresh, operands)
        else:
            if not fresh and equation.outputs[0] in self.copied:
                text, fresh = f"{self.w.np}.array({text})", True
            shares = () if fresh else operands
            result = Expression(text, shares, fresh=fresh, whole=fresh)
            made = env[equation.outputs[0]] = self.assign(equation.outputs[0], result, operands, dying, rows)
            made.strided = primitive is broadcast_in_dim and len(made.shape) > 1 and equation.outputs[0] not in rows

    def _overwriting(self, kernel: Any, equation: Equation, operands: list[Value], dying: list[Value]) -> tuple[dict, Any]:
        """Which results the kernel of a group writes over which operands, and the kernel that does."""
        wanted: dict[int, int] = {}
        if self.overwrites and self.frame is None and hasattr(kernel, "overwriting"):
            seen = Counter([s for x in operands for s in x.storages])
            for k, v in enumerate(equation.outputs):
                for i, x in enumerate(operands):
                    if i not in wanted.values() and writable_operand([x], dying, v.aval) and seen[x.storages[0]] == 1:
                        wanted[k] = i
                        break
        return (kernel.overwriting(wanted) if wanted else None) or ({}, kernel)

    def several(
        self,
        equation: Equation,
        text: str,
        env: dict[Var, Value],
        rows: dict[Var, list[Destination]],
        fresh: bool,
        operands: Sequence[Value] = (),
        over: dict[int, int] | None = None,
    ) -> None:
        """`a, b = text`; the results `over` are in the memory of operands."""
        names = [self.fresh_name(v) for v in equation.outputs]
        self.w.line(f"[{', '.join(names)}] = {text}")
        for k, (v, name) in enumerate(zip(equation.outputs, names)):
            storages = [Storage(True)] if fresh else [s for x in operands for s in x.storages] or [Storage(False)]
            if over and k in over:
                storages = list(operands[over[k]].storages)
            env[v] = self.value(name, v.aval, storages, whole=fresh)
        if not fresh:  # outputs may share memory with each other, too
            for v in equation.outputs:
                for s in env[v].storages:
                    s.owned = False
        self.store(equation.outputs, env, rows)

    # -- results

    def assign(
        self,
        var: Var,
        result: TextCall | Expression,
        operands: Sequence[Value],
        dying: Sequence[Value],
        rows: dict[Var, list[Destination]],
    ) -> Value:
        """The line that computes `var`."""
        aval: Any = var.aval
        wanted = rows.get(var, [])
        direct = wanted[0] if wanted and wanted[0].whole and aval.shape else None
        if type(result) is TextCall:
            found = self._call(var, result, operands, dying, direct)
        elif direct is not None:
            self.w.line(direct.statement(result.text))
            found = self.value(direct.text, aval, [Storage(False)])
        else:
            if self.w.np != "np" and not aval.shape and not result.fresh:
                if any([s.owned for v in operands if v.aval.shape for s in v.storages]):  # an element is a view on a device
                    result = Expression(f"{result.text}.copy()")
            storages = [Storage(True)] if result.fresh else [s for v in result.shares for s in v.storages]
            if not aval.shape and (aval.weak or result.fresh and not self.w.device):  # a number
                storages = []
            if not storages and aval.shape:
                storages = [Storage(False)]
            whole = result.whole and bool(aval.shape)
            if result.text.isidentifier() and len(result.shares) == 1:
                found = self.value(result.text, aval, storages, whole)
            else:
                name = self.fresh_name(var)
                self.w.line(f"{name} = {result.text}")
                found = self.value(name, aval, storages, whole)
        for row in wanted[1:] if direct is not None else wanted:
            self.w.line(row.statement(found.text))
        return found

    def _call(
        self, var: Var, call: TextCall, operands: Sequence[Value], dying: Sequence[Value], direct: Destination | None
    ) -> Value:
        aval: Any = var.aval
        possible = call.out and bool(aval.shape) and aval.size > 0
        quickly = self.depth > 0  # what a call costs before it starts counts in every turn
        if possible and call.elementwise and self.in_loop() and not self.w.device:
            self._box_scalars(call, operands)
            operands, dying = self._straightened(call, operands, dying, aval)
        if direct is not None:
            if possible:
                self.w.line(call.text(direct.text, self.positional, quickly))
            else:
                self.w.line(direct.statement(call.text(None, self.positional, quickly)))
            return self.value(direct.text, aval, [Storage(False)])
        if possible and call.elementwise:
            v = writable_operand(operands, dying, aval)
            if v is not None:
                name = self.fresh_name(var) if not self.depth else v.text
                line = call.text(v.text, self.positional, quickly)
                self.w.line(line if name == v.text else f"{name} = {line}")
                return self.value(name, aval, v.storages, whole=True)
        if possible:
            found = self.scratch(aval)
            if found is not None:
                target, storage = found
                self.w.line(call.text(target, self.positional, quickly))
                return self.value(target, aval, [storage], whole=True)
        name = self.fresh_name(var)
        target = None
        if possible and self.w.np == "np" and aval.size * aval.dtype.itemsize >= LARGE:
            target = self.empty(aval.shape, aval.dtype)
        self.w.line(f"{name} = {call.text(target, self.positional, quickly)}")
        return self.value(name, aval, [Storage(True)] if aval.shape else (), whole=bool(aval.shape))

    def boxed(self, v: Value, dtype: np.dtype) -> str:
        """The name of an array in front of the loop that holds the scalar, or what is the value's text anyway."""
        frame = self.frame
        if v.shape or v.text not in self.settled or frame is None or frame.boxes is None:
            return v.text
        name = frame.boxes.get((v.text, dtype))
        if name is None:
            name = frame.boxes[v.text, dtype] = self.w.name("k")
            with self.w.within(frame.block):
                self.w.line(f"{name} = {self.w.np}.array({v.text}, {dtype_text(self.w, dtype)})")
        return name

    def _straightened(self, call: TextCall, operands: Sequence[Value], dying: Sequence[Value], aval: Aval) -> tuple:
        """Small operands that broadcast, or whose rows lie apart, are copied: that starts more quickly than a ufunc on them."""
        for i, v in enumerate(operands):
            uneven = v.shape and v.aval.shape == aval.shape and (v.shape != v.aval.shape or v.strided)
            if not uneven or aval.size * v.aval.dtype.itemsize > STRAIGHT or call.args[i] != v.text:
                continue
            if v.copy is None:
                v.copy = self._in_front(v.aval, v.text) if self._is_fixed(v) else self._copy(v)
            call.args[i] = v.copy.text
        copies = {v: v.copy for v in operands if v.copy is not None}
        gone = [c for v, c in copies.items() if v in dying]
        return [copies.get(v, v) for v in operands], [*dying, *gone]

    def _copy(self, v: Value) -> Value:
        name, storage = self.scratch(Aval(v.aval.shape, v.aval.dtype))  # type: ignore[misc]
        self.w.line(f"{name}[...] = {v.text}")
        return self.value(name, v.aval, [storage], whole=True)

    def _in_front(self, aval: Any, text: str) -> Value:
        """What no turn changes, made once in front of the loop, as an array of its own."""
        name = self.frame.views.get((text, aval))
        if name is None:
            free, self.frame.free = self.frame.free, {}  # memory that no other line writes
            name, _ = self.scratch(aval, aval.shape)  # type: ignore[misc]
            self.frame.free = free
            self.frame.views[text, aval] = name
            with self.w.within(self.frame.block):
                self.w.line(f"{name}[...] = {text}")
        return self.value(name, aval, [Storage(False)])

    def _is_fixed(self, v: Value) -> bool:
        return self.frame is not None and v.text in self.frame.fixed

    def _box_scalars(self, call: TextCall, operands: Sequence[Value]) -> None:
        """Scalars that no turn of the loop changes become arrays before it: a ufunc would turn them into arrays each time."""
        (dtype, *others) = {v.aval.dtype for v in operands if v.aval.shape or not v.aval.weak}
        if others or dtype.kind not in "fc" or call.function.endswith("power"):
            return
        for i, v in enumerate(operands):
            kind = v.aval.dtype.kind
            short = kind == "i" and call.operator and len(v.text) < 10  # no more digits than floats hold
            if call.args[i] == v.text and (kind == "f" or kind == dtype.kind or short):
                call.args[i] = self.boxed(v, dtype)

    def store(self, variables: Sequence[Var], env: dict[Var, Value], rows: dict[Var, list[Destination]]) -> None:
        """Write values that were computed without regard to the rows they belong into."""
        for v in variables:
            for row in rows.get(v, ()):
                self.w.line(row.statement(env[v].text))

    # -- broadcasts that are not made

    def narrow(self, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> None:
        """An operation on broadcasts that are not made gives one."""
        (var,), shape = equation.outputs, np.broadcast_shapes(*[v.shape for v in operands])
        if shape == var.aval.shape:  # one was made after all
            self.equation(equation, operands, env, dying, rows)
            return
        small = Var(Aval(shape, var.aval.dtype))
        alone = [self.value(v.text, Aval(v.shape, v.aval.dtype, v.aval.weak), v.storages, shape=v.shape) for v in operands]
        found: dict[Var, Value] = {}
        self.operation(equation._replace(outputs=(small,)), alone, found, [], {})
        (made,) = found.values()
        env[var] = self.value(made.text, var.aval, made.storages, shape=shape)
        for v in (*alone, made):
            self.release(v)

    def unmade(self, x: Value, equation: Equation, shape: tuple) -> Value:
        """The operand as its readers can broadcast it."""
        aval = equation.outputs[0].aval
        if x.shape == shape or not x.shape and not shape:
            return self.value(x.text, aval, x.storages, shape=shape)
        axes = equation.params["axes"]
        full = equation.params["shape"]
        made = repeated(x, full, axes) if self.w.np == "np" else None
        if made is not None:
            name = self.w.name()
            self.w.line(f"{name} = {made.text}")
            return self.value(name, aval, [Storage(True)], whole=True)
        first = len(full) - len(shape)
        if not [n for n in x.aval.shape if n == 1]:
            index = ", ".join([":" if i in axes else "None" for i in range(first, len(full))])
            text = f"{x.text}[{index}]"
        else:
            text = f"{x.text}.reshape({shape_text(shape)})"
        name = self.w.name()
        self.w.line(f"{name} = {text}")
        return self.value(name, aval, x.storages, shape=shape)


def _lies_apart(equation: Equation) -> bool:
    """Is it a part of an array of which not all axes behind the first are whole?"""
    shape, part = equation.inputs[0].aval.shape, equation.outputs[0].aval.shape
    return equation.primitive is basic_index_p and len(part) > 1 and shape[1 - len(part) :] != part[1:]


def unmade_broadcasts(equations: Sequence[Equation], keep: set[Var]) -> dict[Var, tuple]:
    """The broadcasts that need not be made, with the shape that stands for each of them."""
    small: dict[Var, tuple] = {}
    for e in equations:
        if e.primitive.name == "broadcast_in_dim" and e.outputs[0] not in keep:
            x, shape, axes = e.inputs[0], e.params["shape"], e.params["axes"]
            strong = type(x) is Literal or not x.aval.weak
            if not shape or not strong or (type(x) is Literal and x.aval.dtype != e.outputs[0].aval.dtype) or 0 in shape:
                continue
            inner = [1] * len(shape)
            for axis, n in zip(axes, x.aval.shape):
                inner[axis] = n
            first = next((i for i, n in enumerate(inner) if n != 1), len(inner)) if x.aval.shape else len(inner)
            first = min(first, axes[0]) if axes else first
            small[e.outputs[0]] = tuple(inner[first:])
    changed = bool(small)
    made: set[Any] = set(keep)
    while changed:
        changed = False
        for e in equations:
            mine = [a for a in e.inputs if type(a) is Var and a in small]
            if not mine:
                continue
            shapes = [small.get(a, a.aval.shape) if type(a) is Var else () for a in e.inputs]
            out, plain = e.outputs[0], broadcasts(e.primitive) and not e.params
            shape = np.broadcast_shapes(*shapes) if plain else ()
            if plain and shape in (out.aval.shape, small.get(out)):
                continue
            if shape and out not in made and out not in small:  # of these alone, and no more is made than they are
                small[out] = shape
            else:
                for a in mine:
                    small.pop(a, None)  # an operand may stand there twice
                    made.add(a)
                if small.pop(out, None):
                    made.add(out)
            changed = True
    return small


# -- the NumPy engine: a program as one Python function over NumPy, or over CuPy, a readable line per equation
#
# Idea: `generate` writes an optimised program as text and runs `exec` once; a call then does nothing but NumPy's own work.
# Lines come from text_rules.py, memory is planned in memory.py and emission.py, loops are in py_loops.py, groups of fused
# equations run tile by tile (tiles.py), programs of Python and float64 scalars run through `math` (text.py). Invariants:
# results agree with the reference backend (bit for bit where DESIGN asks for it); user arrays are never written, except those
# named in `donated`; an error is traced to its equation by the line that raised it. The function does not silence NumPy's
# warnings: whoever calls it does (host/devices.py), unless `Generated.quiet`.


class Generated:
    """A program as Python: `function(values) -> outputs` empties the list of values; `text` is what runs.

    `callees`: what was made ready for the shapes of an equation, by name.
    `quiet`: the function gives no floating-point warnings of its own accord. `note(error)` names the user's line in an error
    that the function raised. `long`: may a run take so long that it says so?
    """

    __slots__ = ("function", "text", "owners", "scope", "quiet", "callees", "long")

    def __init__(
        self, function: Callable[[list], list], text: str, owners: dict[int, Equation], scope: dict, quiet: bool = False
    ):
        self.callees: dict[str, Any] = {}
        self.long = False
        self.function = function
        self.text = text
        self.owners = owners
        self.scope = scope
        self.quiet = quiet

    def step_of(self, error: BaseException) -> Equation | None:
        """The equation in which the function raised."""
        entry, found = error.__traceback__, None
        while entry is not None:
            if entry.tb_frame.f_globals is self.scope:
                found = self.owners.get(entry.tb_lineno, found)
            entry = entry.tb_next
        return found

    def note(self, error: BaseException) -> None:
        equation = self.step_of(error)
        if equation is not None:
            note_source(error, equation.source)


_MAY_WARN = re.compile(r"\bnp\.(?!maximum|minimum)")  # in lines about numbers


def generate(
    jaxpr: Jaxpr,
    kernels: Callable[[Equation], Any] | None = None,
    donated: Collection[int] = frozenset(),
    library: Any = np,
) -> Generated:
    """The program as a Python function.

    `kernels(equation)` may give a callable for a `fused` equation, which then takes the arrays and returns the list of results.
    `donated`: positions of inputs that may be overwritten; every call must pass writeable C-contiguous arrays there that own
    their memory and share it with no other input.
    `library`: whose arrays the program takes, NumPy's or CuPy's.

    >>> import numpy as np, funcad
    >>> from funcad.backends.emission import generate
    >>> program = generate(funcad.jit(lambda x, y: np.exp(-x) * y).lower(np.ones(3), np.ones(3)).jaxpr)
    >>> print(program.text)
    def run(values):
        [v0, v1] = values
        values.clear()
        v2 = -v0
        v3 = np.exp(v2, v2)
        v4 = np.multiply(v3, v1, v3)
        return [v4]
    >>> program.function([np.zeros(2), np.ones(2)])
    [array([1., 1.])]
    """
    if library is not np:
        w = Writer("cp", device=True, library=library)
        w.helper("cp", library)
        return _written(w, jaxpr, kernels, donated)
    w = Writer()
    w.helper("np", np)
    if not write_scalars(w, jaxpr, _by_numpy(jaxpr)):
        return _written(_of_arrays(), jaxpr, kernels, donated)
    function, text, owners = compile_text(w, ["def run(values):"], "run")
    return Generated(function, text, owners, w.scope, quiet=not _MAY_WARN.search(text))


def _by_numpy(jaxpr: Jaxpr) -> Callable[[list], list]:
    """The program on NumPy scalars, written at the first call."""
    written: list[Any] = []

    def run(values: list) -> list:
        if not written:
            written.append(_written(_of_arrays(), jaxpr, None, frozenset()).function)
        token = suppress_warnings()
        try:
            return written[0](values)
        finally:
            restore_warnings(token)

    return run


def _of_arrays() -> Writer:
    w = Writer()
    w.helper("np", np)
    return w


def _written(w: Writer, jaxpr: Jaxpr, kernels: Callable[[Equation], Any] | None, donated: Collection[int]) -> Generated:
    e = Emission(w, kernels, overwrites=bool(donated))
    inputs = []
    for i, v in enumerate(jaxpr.inputs):
        inputs.append(e.value(w.name(), v.aval, [Storage(i in donated)], whole=i in donated))
    if inputs:
        w.line(f"[{', '.join([v.text for v in inputs])}] = values")
    w.line("values.clear()")
    texts = [v.text for v in e.program(jaxpr, inputs)]
    if w.device:  # a number that the program knows goes with a call that fills
        dtypes = [dtype_text(w, o.aval.dtype) if type(o) is Literal and not o.aval.weak else None for o in jaxpr.outputs]
        texts = [text if dtype is None else f"{w.np}.full((), {text}, {dtype})" for text, dtype in zip(texts, dtypes)]
    w.line(f"return [{', '.join(texts)}]")
    function, text, owners = compile_text(w, ["def run(values):"], "run")
    generated = Generated(function, text, owners, w.scope)
    generated.callees = w.callees
    return generated

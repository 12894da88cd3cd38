"""Loops over a few numbers, as straight lines of Python's own arithmetic.

Idea: a NumPy call costs twenty times what it does to three numbers. Where a loop's carry, and all that its body computes, are
few float64 numbers, arrays are taken apart into names, one for each element, and a turn is lines of arithmetic of Python's
floats, which is the same IEEE arithmetic (elementary functions are `math`'s, as in scalars.py). Operations that only move
elements run here, on arrays of these names. Before the loop arrays become lists, after it lists become arrays. Which way is
quicker is predicted: lines against calls of NumPy.

Invariants: what Python's arithmetic refuses and NumPy does not (division by zero, a logarithm of zero) is asked for before it
happens, or is an exception upon which the whole loop is run by the reference; nothing is written until the loop has ended, so
that it can be. Traps: integers that are NumPy's wrap around, so that they are only compared and converted; a number of Python's
own (weak) raises where NumPy's does not, which the reference decides.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends import scalars
from funcad.backends.interpreter import on_numpy
from funcad.backends.memory import Storage, Value
from funcad.backends.number_lines import (
    HELPERS,
    INLINE,
    SAME,
    TEXTS,
    Lines,
    Numbers,
    Refused,
    adds,
    fits,
    moves,
    numbers,
    texts_of,
)
from funcad.backends.text import Writer, dtype_text, shape_text
from funcad.ir.aval import Aval, Stack, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.primitives.atoms import ELEMENTARY, UFUNCS, atoms_of
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import Loop, WhileLoop
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["worth", "write"]

# microseconds of arithmetic of two of Python's numbers, of a function of `math`, of NumPy's operators on arrays and on
# numbers, of a call of a ufunc with a number, and of what brings an element into a list or out of one
LINE, FUNCTION, CALL, SCALAR, UFUNC, MOVED = 0.012, 0.045, 0.25, 0.03, 0.35, 0.012
TURNS, SHORT = 100, 10  # of a loop whose length nobody knows, and of one in a loop
LINES = 2_000  # of one loop: what compiling more takes is not repaid
_F64, _I64, _BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)


def _cost(jaxpr: Jaxpr) -> tuple[float, float]:
    """Microseconds of a run as lines and as calls of NumPy; infinite where it cannot be lines."""
    found: tuple[float, float] | None = jaxpr.memo.get("number_cost")
    if found is None:
        lines = calls = 0.0
        for equation in jaxpr.equations:
            own = _cost_of(equation)
            lines, calls = lines + own[0], calls + own[1]
        if not all([fits(v.aval) for v in jaxpr.inputs]):
            lines = math.inf
        found = jaxpr.memo["number_cost"] = lines, calls
    return found


def _cost_of(equation: Equation) -> tuple[float, float]:
    primitive, params, avals = equation.primitive, equation.params, [a.aval for a in equation.inputs]
    outs = [v.aval for v in equation.outputs]
    if primitive is fused_p or primitive.name in INLINE:
        return _cost(params["jaxpr"])
    if primitive.name == "cond":
        parts = [_cost(branch) for branch in params["branches"]]
        return max(p[0] for p in parts) + LINE, max(p[1] for p in parts)
    if primitive.name == "while_loop" and not params["loop"].n_emitted:
        parts = [_cost(params["loop"].cond), _cost(params["loop"].body)]
        return SHORT * (parts[0][0] + parts[1][0]), SHORT * (parts[0][1] + parts[1][1])
    if primitive.name == "scan" and params["loop"].length is not None:
        loop: Loop = params["loop"]
        own = _cost(loop.body)
        moved = MOVED * sum(a.size for a in (*avals, *outs))
        return own[0] * loop.length + moved, own[1] * loop.length + CALL * len(outs)
    if not all([fits(a) for a in (*avals, *outs)]) or primitive.effect:
        return math.inf, 0.0
    shaped = any([a.shape for a in (*avals, *outs)])
    call = CALL if shaped else SCALAR
    size = sum(a.size for a in outs)
    if primitive.emit is not None or primitive.name == "convert":
        each = [_cost_of_atom(atom) for atom in atoms_of(equation)] or [LINE]
        return size * sum(each), sum([call if cost == LINE else max(call, UFUNC) for cost in each])
    if primitive.reduction is not None:
        return LINE * avals[0].size, call
    if primitive is dot_general_p:
        (cx, _), _ = params["dimension_numbers"]
        return LINE * size * 2 * math.prod([avals[0].shape[i] for i in cx]), call
    if primitive.name in SAME:
        return 0.0, 0.0
    if not moves(primitive):
        return math.inf, 0.0
    return (LINE * size, call) if adds(primitive) else (0.0, 0.0 if primitive is broadcast_in_dim else call)


def _cost_of_atom(name: str) -> float:
    if name not in TEXTS:
        return UFUNC if name in UFUNCS else LINE
    return FUNCTION if name in ELEMENTARY else LINE


def worth(equation: Equation) -> bool:
    """Are lines predicted to be quicker, with what goes in and comes out?"""
    loop: Loop | WhileLoop = equation.params["loop"]
    lines, calls = _cost(loop.body)
    turns = TURNS if loop.length is None else loop.length
    if isinstance(loop, WhileLoop):
        more = _cost(loop.cond)
        lines, calls = lines + more[0], calls + more[1]
        loop, consts = loop.steps, equation.inputs[: loop.n_cond + loop.n_consts]
        each: list[Any] = []
    else:
        consts, _, each = loop.split(loop.counted(loop.body.inputs)[1] if loop.length is None else loop.body.inputs)
    if lines > LINE * LINES:
        return False
    outs = loop.body.outputs
    rows = MOVED * sum(v.aval.size for v in (*each, *outs[loop.n_carry :])) + LINE / 2 * sum([o.aval.size for o in outs])
    stores = SCALAR * len(outs[loop.n_carry :])
    once = MOVED * sum([a.aval.size for a in (*consts, *outs[: loop.n_carry])])
    return turns * (lines + rows) + once < turns * (calls + stores) + CALL


def write(e: Any, equation: Equation, operands: list[Value], env: dict, rows: dict) -> bool:
    """Write a loop as lines about numbers, if it is one and that is quicker; `e` is the Emission."""
    loop: Loop | WhileLoop = equation.params["loop"]
    if e.w.np != "np" or not _possible(equation, loop) or not worth(equation):
        return False
    w, names = e.w, [e.fresh_name(v) for v in equation.outputs]
    before = len(w.block.parts)
    w.line("try:")
    try:
        with w.within(w.inner()):
            if isinstance(loop, Loop):
                _counted(w, loop, operands, names, equation, e.depth + 1)
            else:
                _uncounted(w, loop, operands, names, equation, e.depth + 1)
    except Refused:
        del w.block.parts[before:]
        return False
    avals = [a.aval for a in equation.inputs]
    reference = w.callee(equation, on_numpy(equation.primitive, avals, equation.params))
    w.line("except (ValueError, OverflowError, ZeroDivisionError, NotImplementedError):")  # the last: of the other byte order
    with w.within(w.inner()):
        w.line(f"[{', '.join(names)}] = {reference}({', '.join([v.text for v in operands])})")
        for v, name in zip(equation.outputs, names):
            if type(v.aval) is not StackAval and not v.aval.weak:
                w.line(f"{name} = np.array({name})" + ("" if v.aval.shape else "[()]"))
    for name, value in {**HELPERS, **{n: getattr(math, n) for n in scalars.MATH}, "Stack": Stack, "array": array}.items():
        w.helper(name, value)
    for v, name in zip(equation.outputs, names):
        shaped = type(v.aval) is not StackAval and bool(v.aval.shape)
        storages = [Storage(shaped)] if shaped or type(v.aval) is StackAval else []
        env[v] = e.value(name, v.aval, storages, whole=shaped)
    e.store(equation.outputs, env, rows)
    return True


def _possible(equation: Equation, loop: Loop | WhileLoop) -> bool:
    """Are all operands and results numbers, arrays of them or lists of these? A loop that fills a list of lists is not."""
    for v in (*equation.inputs, *equation.outputs):
        element = v.aval.element if type(v.aval) is StackAval else v.aval
        if not fits(element):
            return False
    return not (isinstance(loop, Loop) and loop.length == 0)


def _read(w: Writer, v: Value, lines: Lines) -> Numbers:
    """The operand, taken apart."""
    aval = v.aval
    kind = {_F64: "float", _I64: "int", _BOOL: "bool"}[aval.dtype]
    if not v.shape:  # of no axes, or all elements of one value
        one = lines.named(f"{kind}({v.text})").text
        return numbers([one] * aval.size, aval.shape, lines)
    texts = [w.name() for _ in range(math.prod(v.shape))]
    if texts:
        w.line(f"[{', '.join(texts)}] = {v.text}{'.ravel()' if len(v.shape) > 1 else ''}.tolist()")
    found = numbers(texts, v.shape, lines)
    return found if v.shape == aval.shape else np.broadcast_to(found, aval.shape)


def _counted(w: Writer, loop: Loop, operands: Sequence[Value], names: Sequence[str], equation: Equation, depth: int) -> None:
    lines = Lines(w, depth)
    count, operands = loop.counted(operands)
    times = f"int({count[0].text})" if count else str(loop.length)
    consts, starts, xs = loop.split(operands)
    given = [_read(w, v, lines) for v in (*consts, *starts)]
    sources: list[str] = []
    for x in xs:
        element = x.aval.element if type(x.aval) is StackAval else Aval(x.aval.shape[1:], x.aval.dtype)
        if not element.size:
            continue
        back = "[::-1]" if loop.reverse else ""
        if type(x.aval) is StackAval:
            text = f"{w.helper('numbers_of', _numbers_of)}({x.text}, {times}){back}"
        elif x.shape != x.aval.shape:
            raise Refused
        else:
            text = f"{x.text}{back}"
        text = f"memoryview({text}{'.ravel()' if element.shape else ''})"  # it gives Python's numbers, one by one
        if element.size > 1:
            name = w.name("x")
            w.line(f"{name} = iter({text})")
            text = name
        sources += [text] * element.size
    over = None if not sources else sources[0] if len(sources) == 1 else f"zip({', '.join(sources)})"
    carry, lists = lines.turns(loop, given[: len(consts)], given[len(consts) :], over, times)
    _results(w, carry, lists, names, equation.outputs, loop.reverse, times)


def _uncounted(
    w: Writer, loop: WhileLoop, operands: Sequence[Value], names: Sequence[str], equation: Equation, depth: int
) -> None:
    lines = Lines(w, depth)
    count, carry, lists = lines.repeated(loop, *loop.split([_read(w, v, lines) for v in operands]))
    _results(w, carry, lists, names[1:], equation.outputs[1:], False, count)
    w.line(f"{names[0]} = np.int64({count})")


def _results(
    w: Writer,
    carry: Sequence[Numbers],
    lists: Sequence[tuple[str, Any]],
    names: Sequence[str],
    outputs: Sequence[Var],
    reverse: bool,
    times: str,
) -> None:
    """Numbers become arrays again."""
    for name, v, c in zip(names, outputs, carry):
        texts = texts_of(c)
        if v.aval.shape:
            made = f"np.array([{', '.join(texts)}], {dtype_text(w, v.aval.dtype)})"
            w.line(f"{name} = {made}{'' if len(v.aval.shape) == 1 else f'.reshape({shape_text(v.aval.shape)})'}")
        else:
            w.line(f"{name} = {texts[0]}" if v.aval.weak else f"{name} = {dtype_text(w, v.aval.dtype)}({texts[0]})")
    for name, v, (found, aval) in zip(names[len(carry) :], outputs[len(carry) :], lists):
        stack = type(v.aval) is StackAval
        made = f"np.array({found}, {dtype_text(w, aval.dtype)})"
        if aval.shape:
            made += f".reshape(({times}, {', '.join(map(str, aval.shape))}))"
        w.line(f"{name} = {made}{'[::-1].copy()' if reverse else ''}")
        if stack:
            kept = w.constant("entries", v.aval, key=v.aval)
            entries = f"{name}.tolist()" if v.aval.element.weak else name
            w.line(f"{name} = Stack({entries}, {kept}, {name})")
        w.line(f"{found} = {found}_add = None")


def _numbers_of(stack: Any, times: int) -> np.ndarray:
    """The entries of a stack as one array; an empty one stands for zeros."""
    element = stack.aval.element
    if not stack:
        return np.zeros((times, *element.shape), element.dtype)
    if stack.packed is None:
        stack.packed = np.array(stack, element.dtype)
    return stack.packed

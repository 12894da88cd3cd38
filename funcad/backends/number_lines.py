"""Programs of numbers as plain Python: lines for equations, and loops.

Operations that only move elements run while the text is written, on arrays of these names, by their own implementations.
What Python's arithmetic refuses and NumPy does not (division by zero, a logarithm of zero) is asked for before it happens,
where that is cheap; elsewhere an exception says so. Traps: integers that are NumPy's wrap around, so that they are only
compared and converted; a number of Python's own (weak) raises where NumPy's does not, so nothing is asked for it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends import text
from funcad.backends.memory import Storage, Value, carries_of
from funcad.backends.plans.batch_plan import cells_of
from funcad.backends.text import Writer, dtype_text, shape_text
from funcad.host.devices import on_numpy, restore_warnings, suppress_warnings
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, Stack, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.atoms import ELEMENTARY, UFUNCS, atoms_of
from funcad.primitives.basic_indexing import basic_add_p, basic_update_p, place_sum_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import Loop
from funcad.primitives.shape import broadcast_in_dim

MAX_DEPTH = 12  # of loops in loops: Python refuses more than twenty nested blocks
LONG = 100_000  # numbers from which on a list, which takes five times the memory of an array and a third of its time, is none
_F64, _I64, _BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)
_CODES = {_F64: "d", _I64: "q", _BOOL: "b"}
INLINE = ("call", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call")  # they run their program once
SAME = ("stop_gradient", "optimization_barrier", "name")
_ADDS = (place_sum_p, basic_add_p, dot_general_p)  # movements that add up what meets
_MOVES = (broadcast_in_dim, basic_update_p, *_ADDS)  # besides those whose reach says so


def adds(primitive: Any) -> bool:
    return primitive in _ADDS


def moves(primitive: Any) -> bool:
    return primitive.reach == "moves" or primitive in _MOVES


def _by_ufunc(name: str) -> Callable[..., float]:
    """NumPy's result for Python's numbers, for arguments that `math` refuses."""
    ufunc = UFUNCS[name]

    def function(*args: float) -> float:
        token = suppress_warnings()
        try:
            return float(ufunc(*args))
        finally:
            restore_warnings(token)

    return function


# what is asked before an operation that may raise
_GUARDED = {
    "div": "{0} / {1} if {1} else div_({0}, {1})",
    "reciprocal": "1.0 / {0} if {0} else reciprocal_({0})",
    "log": "log({0}) if {0} > 0.0 else log_({0})",
    "sqrt": "sqrt({0}) if {0} >= 0.0 else sqrt_({0})",
    "exp": "exp({0}) if {0} < 709.0 else exp_({0})",
    "maximum": "{0} if {0} > {1} or {0} != {0} else {1}",
    "minimum": "{0} if {0} < {1} or {0} != {0} else {1}",
    "sign": "1.0 if {0} > 0.0 else -1.0 if {0} < 0.0 else {0} + 0.0",
}
HELPERS = {f"{name}_": _by_ufunc(name) for name in ("div", "reciprocal", "log", "sqrt", "exp")}
TEXTS = {**text.TEXTS, **_GUARDED}
_OF_INTEGERS = {
    **{name: TEXTS[name] for name in ("eq", "ne", "lt", "le", "gt", "ge", "select")},
    **{name: text.TEXTS[name] for name in ("add", "sub", "mul", "neg")},
}


class Refused(Exception):
    """The loop holds what numbers cannot do."""


class _Number:
    """The text of a number; adding two writes a line."""

    __slots__ = ("text", "lines")

    def __init__(self, text: str, lines: Lines | None = None):
        self.text = text
        self.lines = lines

    def __add__(self, other: Any) -> _Number:
        return self._with(self, other, "+")

    def __radd__(self, other: Any) -> _Number:
        return self._with(other, self, "+")

    def __mul__(self, other: Any) -> _Number:
        return self._with(self, other, "*")

    def _with(self, x: Any, y: Any, sign: str) -> _Number:
        if self.lines is None:
            raise TypeError("these are not added up")
        if sign == "+":
            return self.lines.sum_of(_text_of(x), _text_of(y))
        return self.lines.named(f"{_text_of(x)} {sign} {_text_of(y)}")


def _text_of(x: Any) -> str:
    """A movement's zeros are integers here."""
    return x.text if type(x) is _Number else repr(float(x))


Numbers = np.ndarray  # of `_Number`s, in the shape of the value


def numbers(texts: Sequence[str], shape: tuple, lines: Lines | None = None) -> Numbers:
    found = np.empty(len(texts), object)
    found[:] = [_Number(t, lines) for t in texts]
    return found.reshape(shape)


def texts_of(x: Numbers) -> list[str]:
    return [_text_of(n) for n in np.ravel(x)]


def fits(aval: Any) -> bool:
    return type(aval) is not StackAval and aval.dtype in (_F64, _BOOL, _I64)


class Lines:
    """Writes equations as lines about numbers."""

    def __init__(self, w: Writer, depth: int = 0):
        self.w = w
        self.depth = depth  # of loops around
        self.env: dict[Var, Numbers] = {}
        self.no_negative_zeros: set[str] = set()  # adding 0.0 changes them not

    def named(self, text: str) -> _Number:
        """A name for what the text says, if it is none."""
        if not text.isidentifier():
            name = self.w.name()
            self.w.line(f"{name} = {text}")
            text = name
        return _Number(text, self)

    def sum_of(self, x: str, y: str) -> _Number:
        zeros = self.no_negative_zeros
        if y == "0.0" and x in zeros:
            return _Number(x, self)
        found = self.named(f"{x} + {y}")
        if "0.0" in (x, y) or x in zeros or y in zeros:
            zeros.add(found.text)
        return found

    def literal(self, atom: Literal, dtype: np.dtype) -> str:
        value = atom.value
        if dtype == _BOOL and is_a(value, (bool, np.bool_)):
            return repr(bool(value))
        if dtype == _I64 and is_a(value, (int, np.integer)):
            return str(self.w.literal(int(value)))
        if dtype == _F64 and (is_a(value, float) or is_a(value, (int, np.integer)) and abs(int(value)) < 2**53):
            return str(self.w.literal(float(value)))
        raise Refused

    def read(self, atom: Any, dtype: Any = None) -> Numbers:
        if type(atom) is Literal:
            return numbers([self.literal(atom, atom.aval.dtype if dtype is None else dtype)], (), self)
        return self.env[atom]

    def program(self, jaxpr: Jaxpr, inputs: Sequence[Numbers]) -> list[Numbers]:
        self.env.update(zip(jaxpr.inputs, inputs))
        saved = self.w.equation
        for equation in jaxpr.equations:
            self.w.equation = equation if equation.source is not None or saved is None else saved
            outs = self.equation(equation)
            self.env.update(zip(equation.outputs, outs, strict=True))
        self.w.equation = saved
        return [self.read(o) for o in jaxpr.outputs]

    def equation(self, equation: Equation) -> list[Numbers]:
        primitive, params, name = equation.primitive, equation.params, equation.primitive.name
        if not all([fits(a.aval) for a in (*equation.inputs, *equation.outputs)]):
            raise Refused
        if primitive is fused_p or name in INLINE:
            return self.program(params["jaxpr"], [self.read(a) for a in equation.inputs])
        if name == "cond":
            return self.cond(params["branches"], *[self.read(a) for a in equation.inputs])
        if name == "loop":
            return self.loop(params["loop"], [self.read(a) for a in equation.inputs])
        if name in SAME:
            return [self.read(a) for a in equation.inputs]
        if primitive.emit is not None or name == "convert":
            return [self.elementwise(equation)]
        if primitive.reduction is not None:
            return [self.reduction(equation)]
        if primitive is place_sum_p:
            return [self.placed(equation)]
        if moves(primitive):
            return [self.moved(equation)]
        raise Refused

    def elementwise(self, equation: Equation) -> Numbers:
        shape = equation.outputs[0].aval.shape
        dtypes = {a.aval.dtype for a in equation.inputs if type(a) is Var}
        dtype = None if len(dtypes) != 1 else next(iter(dtypes))
        if equation.primitive.name == "select":
            dtype = equation.outputs[0].aval.dtype
        columns = []
        for i, a in enumerate(equation.inputs):
            mask = equation.primitive.name == "select" and i == 0
            columns.append(np.broadcast_to(self.read(a, None if mask or type(a) is Var else dtype), shape).ravel())
        found = [self.element(equation, [n.text for n in row], dtypes) for row in zip(*columns)]
        return numbers([n.text for n in found], shape, self)

    def element(self, equation: Equation, operands: list[str], dtypes: set) -> _Number:
        primitive, out = equation.primitive, equation.outputs[0].aval
        texts = text.TEXTS if out.weak else TEXTS
        if _I64 in dtypes or out.dtype == _I64:
            if primitive.name == "convert" and out.dtype in (_F64, _BOOL):
                return self.named(f"{'float' if out.dtype == _F64 else 'bool'}({operands[0]})")
            if primitive.name == "convert" and dtypes <= {_I64, _BOOL}:
                return self.named(operands[0] if _I64 in dtypes else f"int({operands[0]})")
            atoms = atoms_of(equation)
            if len(atoms) != 1 or atoms[0] not in _OF_INTEGERS or out.dtype == _I64 and not out.weak and atoms[0] != "select":
                raise Refused
            if _F64 in dtypes and atoms[0] != "select":
                raise Refused
            return self.named(_OF_INTEGERS[atoms[0]].format(*operands))
        if primitive.name == "convert" and params_same(equation):
            return self.named(operands[0])
        if atoms_of(equation) == ("add",) and not out.weak and dtypes == {_F64}:
            return self.sum_of(*operands)
        found = text.lines_of(self.w, equation, operands, texts)
        if found is None:
            raise Refused
        for line in found[0]:
            self.w.line(line)
        result = self.named(found[1])
        if atoms_of(equation) == ("mul",) and operands[0] == operands[1]:
            self.no_negative_zeros.add(result.text)
        return result

    def reduction(self, equation: Equation) -> Numbers:
        (x,), (out,) = equation.inputs, equation.outputs
        reduction, axes = equation.primitive.reduction, equation.params["axes"]
        n = math.prod([x.aval.shape[i] for i in axes])
        if reduction.element is not None or x.aval.dtype != _F64 or out.aval.dtype != _F64 or not n:
            raise Refused
        values = np.moveaxis(self.read(x), axes, range(-len(axes), 0)) if axes else self.read(x)[..., None]
        rows = values.reshape(out.aval.size, n)
        if reduction.ufunc is np.add:
            texts = [self.total(texts_of(row)) for row in rows]
        elif reduction.ufunc in (np.maximum, np.minimum):
            template = TEXTS["maximum" if reduction.ufunc is np.maximum else "minimum"]
            texts = []
            for row in rows:
                first, *rest = texts_of(row)
                for other in rest:
                    first = self.named(template.format(first, other)).text
                texts.append(first)
        elif reduction.ufunc is np.multiply:
            texts = [self.named(" * ".join(texts_of(row))).text for row in rows]
        else:
            raise Refused
        return numbers(texts, out.aval.shape, self)

    def total(self, terms: Sequence[str]) -> str:
        zero = [] if terms[0] in self.no_negative_zeros else ["0.0"]
        found = self.named(" + ".join([*zero, *terms])).text
        self.no_negative_zeros.add(found)
        return found

    def moved(self, equation: Equation) -> Numbers:
        """By the implementation itself, on arrays of names."""
        (out,) = equation.outputs
        dtype = out.aval.dtype
        if adds(equation.primitive) and dtype != _F64:
            raise Refused
        try:
            found = equation.primitive.impl(np, *[self.read(a, dtype) for a in equation.inputs], **equation.params)
        except (TypeError, AttributeError, ValueError):
            raise Refused from None
        found = np.asarray(found, object)
        if found.shape != out.aval.shape:
            raise Refused
        zero = {_F64: "0.0", _I64: "0", _BOOL: "False"}[dtype]  # what an implementation fills up with
        items = [n[()] if type(n) is np.ndarray else n for n in found.ravel()]  # an object array keeps 0-d arrays as they are
        texts = [n.text if type(n) is _Number else zero for n in items if type(n) is _Number or type(n) is int and n == 0]
        if len(texts) < len(items):
            raise Refused
        return numbers(texts, found.shape, self)

    def placed(self, equation: Equation) -> Numbers:
        """The sum of arrays, each in its place: where one has no element, it adds a zero."""
        shape = equation.outputs[0].aval.shape
        xs = [self.read(a) for a in equation.inputs]
        if equation.outputs[0].aval.dtype != _F64:
            raise Refused
        texts = []
        for row in cells_of(map(texts_of, xs), equation.params["indices"], shape):
            first, *rest = row if len(row) == len(xs) else ["0.0", *row]
            for other in rest:
                first = self.sum_of(other, "0.0").text if first == "0.0" else self.sum_of(first, other).text
            texts.append(first)
        return numbers(texts, shape, self)

    # -- programs in programs

    def cond(self, branches: Sequence[Jaxpr], index: Numbers, *operands: Numbers) -> list[Numbers]:
        names = [[self.w.name() for _ in range(o.aval.size)] for o in branches[0].outputs]
        last = len(branches) - 1
        (chosen,) = texts_of(index)
        for i, branch in enumerate(branches):
            if not last:
                self.w.line("if True:")
            else:
                self.w.line("else:" if i == last else f"{'if' if i == 0 else 'elif'} {chosen} {'<=' if i == 0 else '=='} {i}:")
            with self.w.within(self.w.inner()):
                outs = self.program(branch, operands)
                self.assign([n for row in names for n in row], [t for out in outs for t in texts_of(out)])
                text.nest(self.w.block)
        return [numbers(row, o.aval.shape, self) for row, o in zip(names, branches[0].outputs)]

    def assign(self, names: Sequence[str], texts: Sequence[str]) -> None:
        """All at once, at the end of a block."""
        pairs = [(n, t) for n, t in zip(names, texts) if n != t]
        if not pairs and not self.w.block.parts:
            self.w.line("pass")
        elif pairs:
            self.w.line(f"{', '.join([n for n, _ in pairs])} = {', '.join([t for _, t in pairs])}")

    def loop(self, loop: Loop, values: Sequence[Numbers]) -> list[Numbers]:
        """A loop in the loop: what it reads row by row are tuples, what it collects are lists that are taken apart."""
        if not loop.length and (loop.cond is None or loop.n_ys):
            raise Refused
        tested, consts, starts, xs = loop.parts(values)
        order = range(loop.length or 0)[:: -1 if loop.reverse else 1]
        rows = ["(" + "".join([f"{t}, " for x in xs for t in texts_of(x[i])]) + ")" for i in order]
        times, carry, collected = self.turns(loop, tested, consts, starts, rows if xs else None, str(loop.length))
        results = [*[numbers([times], (), self)] * loop.first, *carry]
        for name, aval in collected:
            texts = [self.w.name() for _ in range((loop.length or 0) * aval.size)]
            if texts:
                self.w.line(f"[{', '.join(texts)}] = {name}")
            y = numbers(texts, (loop.length or 0, *aval.shape), self)
            results.append(y[::-1] if loop.reverse else y)
        return results

    def turns(
        self,
        loop: Loop,
        tested: Sequence[Numbers],
        consts: Sequence[Numbers],
        starts: Sequence[Numbers],
        rows: Any,
        times: str,
        shown: Any = None,
    ) -> tuple[str, list[Numbers], list[tuple[str, Any]]]:
        """The lines of a loop: how many turns, its last carry, and the names of the lists of what it collects, in its order.

        `tested`: what its condition reads besides the carry; `rows`: the text of what it runs over, or that of each row, in the
        order in which they are read; `times`: how many turns, if that is counted; `shown`: the equation of an outermost loop,
        whose turns are counted for the user.
        """
        w, body, cond = self.w, loop.body, loop.cond
        count = times if cond is None else w.name("n")
        self.enter()
        carry, moving = self.begin(loop, starts)
        lists = self.lists(body.outputs[loop.n_carry :], loop.length)
        items = [numbers([w.name() for _ in range(v.aval.size)], v.aval.shape, self) for v in loop.split(body.inputs)[2]]
        names = [t for item in items for t in texts_of(item)]
        if rows is None or not names:
            item, over = "_", None if cond is not None else f"range({times})"
        else:
            over = rows if type(rows) is str else f"({', '.join(rows)},)"
            item = f"{', '.join(names)}{',' if len(names) == 1 and type(rows) is not str else ''}"
        if cond is not None:
            w.line(f"{count} = 0")
        w.loop(item, over, shown, times)
        with w.within(w.inner()):
            if cond is not None:
                (test,) = self.program(cond, [*tested, *carry])
                w.line(f"if not {texts_of(test)[0]}: break")
                w.line(f"{count} += 1")
            self.end(loop, lists, carry, moving, self.program(body, [*consts, *carry, *items]))
        self.depth -= 1
        return count, carry, lists

    def begin(self, loop: Any, starts: Sequence[Numbers]) -> tuple[list[Numbers], list[bool]]:
        """The carry's names, with their first values; which of it changes."""
        moving = [kind != "same" for kind in carries_of(loop)]
        carry = []
        for v, start, moves in zip(loop.carried(loop.body.inputs), starts, moving):
            carry.append(numbers([self.w.name("c") for _ in range(v.aval.size)], v.aval.shape, self) if moves else start)
            if moves:
                self.assign(texts_of(carry[-1]), texts_of(start))
        return carry, moving

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Refused

    def lists(self, atoms: Sequence[Any], length: int | None) -> list[tuple[str, Any]]:
        """Empty lists for what is collected of these, one number after the other; long ones are arrays."""
        found = []
        for o in atoms:
            name = self.w.name("y")
            long = length is not None and length * o.aval.size > LONG
            self.w.line(f"{name} = " + (f"array({_CODES[o.aval.dtype]!r})" if long else "[]"))
            self.w.line(f"{name}_add = {name}.{'append' if o.aval.size == 1 else 'extend'}")
            found.append((name, o.aval))
        return found

    def end(
        self, loop: Any, lists: Sequence[Any], carry: Sequence[Numbers], moving: Sequence[bool], outs: Sequence[Numbers]
    ) -> None:
        """The end of a turn: what is collected, and the next carry."""
        for (name, aval), out in zip(lists, outs[loop.n_carry :]):
            texts = ", ".join(texts_of(out))
            self.w.line(f"{name}_add({texts})" if aval.size == 1 else f"{name}_add(({texts}{',' if texts else ''}))")
        pairs = [(c, o) for c, o, moves in zip(carry, outs, moving) if moves]
        self.assign([t for c, _ in pairs for t in texts_of(c)], [t for _, o in pairs for t in texts_of(o)])
        text.nest(self.w.block)


def params_same(equation: Equation) -> bool:
    """Does a conversion change nothing that Python's numbers have?"""
    return bool(equation.inputs[0].aval.dtype == equation.params["dtype"])


# -- loops over a few numbers, as straight lines of Python's own arithmetic
#
# Idea: a NumPy call costs twenty times what it does to three numbers. Where a loop's carry, and all that its body computes, are
# few float64 numbers, arrays are taken apart into names, one for each element, and a turn is lines of arithmetic of Python's
# floats, which is the same IEEE arithmetic (elementary functions are `math`'s, as in text.py). Operations that only move
# elements run here, on arrays of these names. Before the loop arrays become lists, after it lists become arrays. Which way is
# quicker is predicted: lines against calls of NumPy.
#
# Invariants: what Python's arithmetic refuses and NumPy does not (division by zero, a logarithm of zero) is asked for before it
# happens, or is an exception upon which the whole loop is run by the reference; nothing is written until the loop has ended, so
# that it can be. Traps: integers that are NumPy's wrap around, so that they are only compared and converted; a number of
# Python's own (weak) raises where NumPy's does not, which the reference decides.


# microseconds of arithmetic of two of Python's numbers, of a function of `math`, of NumPy's operators on arrays and on
# numbers, of a call of a ufunc with a number, and of what brings an element into a list or out of one
LINE, FUNCTION, CALL, SCALAR, UFUNC, MOVED = 0.012, 0.045, 0.25, 0.03, 0.35, 0.012
TURNS, SHORT = 100, 10  # of a loop whose length nobody knows, and of one in a loop
LINES = 2_000  # of one loop: what compiling more takes is not repaid


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
        found = jaxpr.memo.setdefault("number_cost", (lines, calls))
    return found


def _cost_of(equation: Equation) -> tuple[float, float]:
    primitive, params, avals = equation.primitive, equation.params, [a.aval for a in equation.inputs]
    outs = [v.aval for v in equation.outputs]
    if primitive is fused_p or primitive.name in INLINE:
        return _cost(params["jaxpr"])
    if primitive.name == "cond":
        parts = [_cost(branch) for branch in params["branches"]]
        return max(p[0] for p in parts) + LINE, max(p[1] for p in parts)
    if primitive.name == "loop" and params["loop"].keeps:
        loop: Loop = params["loop"]
        own = _cost(loop.body)
        if loop.length is None:
            test = _cost(loop.cond)
            return SHORT * (test[0] + own[0]), SHORT * (test[1] + own[1])
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
    loop: Loop = equation.params["loop"]
    lines, calls = _cost(loop.body)
    turns = TURNS if loop.length is None else loop.length
    each: list[Any] = []
    if loop.cond is not None:
        more = _cost(loop.cond)
        lines, calls = lines + more[0], calls + more[1]
        consts = list(equation.inputs[: loop.n_counts + loop.n_consts])
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
    loop: Loop = equation.params["loop"]
    if e.w.np != "np" or not _possible(equation, loop) or not worth(equation):
        return False
    w, names = e.w, [e.fresh_name(v) for v in equation.outputs]
    before = len(w.block.parts)
    w.line("try:")
    try:
        with w.within(w.inner()):
            _write(w, loop, operands, names, equation, e.depth + 1)
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
    for name, value in {**HELPERS, **{n: getattr(math, n) for n in text.MATH}, "Stack": Stack, "array": array}.items():
        w.helper(name, value)
    for v, name in zip(equation.outputs, names):
        shaped = type(v.aval) is not StackAval and bool(v.aval.shape)
        storages = [Storage(shaped)] if shaped or type(v.aval) is StackAval else []
        env[v] = e.value(name, v.aval, storages, whole=shaped)
    e.store(equation.outputs, env, rows)
    return True


def _possible(equation: Equation, loop: Loop) -> bool:
    """Are all operands and results numbers, arrays of them or lists of these? A loop that fills a list of lists is not."""
    for v in (*equation.inputs, *equation.outputs):
        element = v.aval.element if type(v.aval) is StackAval else v.aval
        if not fits(element):
            return False
    return loop.length != 0


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


def _write(w: Writer, loop: Loop, operands: Sequence[Value], names: Sequence[str], equation: Equation, depth: int) -> None:
    lines = Lines(w, depth)
    counts, consts, starts, xs = loop.parts(operands)
    times = str(loop.length) if loop.cond is not None or loop.length is not None else f"int({counts[0].text})"
    taken = [counts if loop.cond is not None else [], consts, starts]
    tested, consts, starts = [[_read(w, v, lines) for v in values] for values in taken]
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
    shown = equation if depth == 1 else None
    times, carry, lists = lines.turns(loop, tested, consts, starts, over, times, shown)
    _results(w, carry, lists, names[loop.first :], equation.outputs[loop.first :], loop.reverse, times)
    if loop.cond is not None:
        w.line(f"{names[0]} = np.int64({times})")


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

"""Programs of a few numbers as lines of Python's own arithmetic: an array is names, one for each element.

Operations that only move elements run while the text is written, on arrays of these names, by their own implementations.
What Python's arithmetic refuses and NumPy does not (division by zero, a logarithm of zero) is asked for before it happens,
where that is cheap; elsewhere an exception says so. Traps: integers that are NumPy's wrap around, so that they are only
compared and converted; a number of Python's own (weak) raises where NumPy's does not, so nothing is asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends import scalars
from funcad.backends.text import Writer
from funcad.host.real_types import is_a
from funcad.host.user_warnings import restore_warnings, suppress_warnings
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.atoms import UFUNCS, atoms_of
from funcad.primitives.basic_indexing import basic_add_p, basic_update_p, place_sum_p, python_index
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import Loop, WhileLoop
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["HELPERS", "INLINE", "Lines", "Numbers", "Refused", "SAME", "TEXTS", "adds", "fits", "moves", "numbers", "texts_of"]

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
TEXTS = {**scalars.TEXTS, **_GUARDED}
_OF_INTEGERS = {
    **{name: TEXTS[name] for name in ("eq", "ne", "lt", "le", "gt", "ge", "select")},
    **{name: scalars.TEXTS[name] for name in ("add", "sub", "mul", "neg")},
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
        if name == "scan":
            return self.scan(params["loop"], [self.read(a) for a in equation.inputs])
        if name == "while_loop" and not params["loop"].n_emitted:
            loop, values = params["loop"], [self.read(a) for a in equation.inputs]
            (count, carry, _) = self.repeated(loop, *loop.split(values))
            return [numbers([count], (), self), *carry]
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
        texts = scalars.TEXTS if out.weak else TEXTS
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
        found = scalars.lines_of(self.w, equation, operands, texts)
        if found is None:
            raise Refused
        for line in found[0]:
            self.w.line(line)
        return self.named(found[1])

    def reduction(self, equation: Equation) -> Numbers:
        (x,), (out,) = equation.inputs, equation.outputs
        reduction, axes = equation.primitive.reduction, equation.params["axes"]
        n = math.prod([x.aval.shape[i] for i in axes])
        if reduction.element is not None or x.aval.dtype != _F64 or out.aval.dtype != _F64 or not n:
            raise Refused
        values = np.moveaxis(self.read(x), axes, range(-len(axes), 0)) if axes else self.read(x)[..., None]
        rows = values.reshape(out.aval.size, n)
        if reduction.ufunc is np.add:
            texts = [self.named(" + ".join(["0.0", *texts_of(row)])).text for row in rows]
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
        terms: list[list[str]] = [[] for _ in range(math.prod(shape))]
        for x, index in zip(xs, equation.params["indices"]):
            places = np.arange(len(terms)).reshape(shape)[python_index(index)]
            for place, text in zip(np.ravel(places), texts_of(x)):
                terms[place].append(text)
        texts = []
        for row in terms:
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
        return [numbers(row, o.aval.shape, self) for row, o in zip(names, branches[0].outputs)]

    def assign(self, names: Sequence[str], texts: Sequence[str]) -> None:
        """All at once, at the end of a block."""
        pairs = [(n, t) for n, t in zip(names, texts) if n != t]
        if not pairs and not self.w.block.parts:
            self.w.line("pass")
        elif pairs:
            self.w.line(f"{', '.join([n for n, _ in pairs])} = {', '.join([t for _, t in pairs])}")

    def scan(self, loop: Loop, values: Sequence[Numbers]) -> list[Numbers]:
        """A loop in the loop: what it reads row by row are tuples, what it collects are lists that are taken apart."""
        if loop.length is None or not loop.length:
            raise Refused
        consts, starts, xs = loop.split(values)
        order = range(loop.length)[:: -1 if loop.reverse else 1]
        rows = ["(" + "".join([f"{t}, " for x in xs for t in texts_of(x[i])]) + ")" for i in order]
        collected = self.turns(loop, consts, starts, rows if xs else None, str(loop.length))
        results = list(collected[0])
        for (name, aval), _ in zip(collected[1], range(loop.n_ys)):
            texts = [self.w.name() for _ in range(loop.length * aval.size)]
            if texts:
                self.w.line(f"[{', '.join(texts)}] = {name}")
            y = numbers(texts, (loop.length, *aval.shape), self)
            results.append(y[::-1] if loop.reverse else y)
        return results

    def turns(
        self, loop: Loop, consts: Sequence[Numbers], starts: Sequence[Numbers], rows: Any, times: str
    ) -> tuple[list[Numbers], list[tuple[str, Any]]]:
        """The lines of a counted loop: its last carry, and the names of the lists of what it collects, in its order.

        `rows`: the text of what it runs over, or that of each row, in the order in which they are read.
        """
        w, body = self.w, loop.body
        self.enter()
        carry, moving = self.begin(loop, starts)
        lists = self.lists(body.outputs[loop.n_carry :], loop.length)
        items = [numbers([w.name() for _ in range(v.aval.size)], v.aval.shape, self) for v in loop.split(body.inputs)[2]]
        names = [t for item in items for t in texts_of(item)]
        if rows is None or not names:
            w.line(f"for _ in range({times}):")
        else:
            text = rows if type(rows) is str else f"({', '.join(rows)},)"
            w.line(f"for {', '.join(names)}{',' if len(names) == 1 and type(rows) is not str else ''} in {text}:")
        with w.within(w.inner()):
            outs = self.program(body, [*consts, *carry, *items])
            self.end(loop, lists, carry, moving, outs)
        self.depth -= 1
        return carry, [(name, aval) for name, aval in lists]

    def repeated(
        self, loop: WhileLoop, cond_consts: Sequence[Numbers], consts: Sequence[Numbers], starts: Sequence[Numbers]
    ) -> tuple[str, list[Numbers], list[tuple[str, Any]]]:
        """The lines of a loop of unknown length: the name of its count, its last carry and the lists that it fills."""
        w, count = self.w, self.w.name("n")
        self.enter()
        carry, moving = self.begin(loop, starts)
        lists = self.lists(loop.body.outputs[loop.n_carry :], None)
        w.line(f"{count} = 0")
        w.line("while True:")
        with w.within(w.inner()):
            (test,) = self.program(loop.cond, [*cond_consts, *carry])
            w.line(f"if not {texts_of(test)[0]}: break")
            w.line(f"{count} += 1")
            self.end(loop, lists, carry, moving, self.program(loop.body, [*consts, *carry]))
        self.depth -= 1
        return count, carry, lists

    def begin(self, loop: Any, starts: Sequence[Numbers]) -> tuple[list[Numbers], list[bool]]:
        """The carry's names, with their first values; which of it changes."""
        ins, outs = loop.body.inputs[loop.n_consts : loop.n_consts + loop.n_carry], loop.body.outputs
        moving = [o is not v for v, o in zip(ins, outs)]
        carry = []
        for v, start, moves in zip(ins, starts, moving):
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


def params_same(equation: Equation) -> bool:
    """Does a conversion change nothing that Python's numbers have?"""
    return bool(equation.inputs[0].aval.dtype == equation.params["dtype"])



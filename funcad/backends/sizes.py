"""Programs that differ in sizes only share one text: a new batch size is traced, and compiled no more.

Idea: two programs of one function are of one *family* if they apply the same operations, wired alike, and all their numbers
(extents, integer and float parameters, literals) stand in the same order, 0, 1 and 2 among them. So no comparison that a pass
or a writer made between two of them comes out otherwise, none becomes equal to another, and none becomes 0 or 1. The texts of
the first two members are laid beside each other: a number that differs must follow from the numbers of the programs (one of
them, a multiple, a reciprocal, a sum, difference or product). The third member is compiled, too, and compared with what was
foretold of it; from the fourth on the text is taken over with its numbers filled in. What does not fit is compiled by itself.

Invariants: a program is always traced, and its own numbers are filled in, so a literal such as log2(n) need not be understood.
Where several laws explain a number, they must agree on the new one. Traps: how tiles are cut depends on sizes in other ways, so
groups that run tile by tile are left alone; what an operation made ready for its shapes (a callee) is made anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from funcad.backends.generate import Generated
from funcad.backends.interpreter import on_numpy, over_on_numpy
from funcad.host.real_types import is_a
from funcad.host.where import GENERATED
from funcad.ir.aval import Aval, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, literal_key

__all__ = ["Member", "member_of"]

MOST_FAMILIES = 64  # of one function
PROBES = 3  # members that are compiled: two to learn from, one to check
_LANDMARKS = (0, 1, 2)
_MULTIPLES = (1, 2, 0.5, -1)

Values = Sequence[Any]  # the different numbers of a program, sorted
Law = Callable[[Values], Any]


class _Unlike(Exception):
    """Two programs, or their texts, differ in more than numbers."""


# ---------------------------------------------------------------- families


class Family:
    """What is known of programs that differ in numbers only."""

    __slots__ = ("known", "template", "members", "closed")

    def __init__(self) -> None:
        self.known: list[tuple[Values, Generated]] = []
        self.template: Template | None = None
        self.members = 0  # that were compiled
        self.closed = False  # their texts differ in other ways


class Member:
    """A program in its family."""

    __slots__ = ("family", "values")

    def __init__(self, family: Family, values: Values):
        self.family = family
        self.values = values

    def taken_over(self) -> Generated | None:
        """The text of the family with the numbers of this program."""
        family = self.family
        if family.template is None or family.closed or family.members < PROBES:
            return None
        return family.template.filled(self.values)

    def learn(self, generated: Generated) -> None:
        """Note what this program, which is not like another one's, was compiled to."""
        family = self.family
        if family.closed or family.members >= PROBES:
            return
        family.members += 1
        family.closed = generated.tiled
        try:
            if family.template is not None:
                family.closed = family.closed or not family.template.foretells(self.values, generated)
            elif family.known:
                family.template = Template(family.known.pop(), (self.values, generated))
            elif not family.closed:
                family.known.append((self.values, generated))
        except _Unlike:
            family.closed = True


def member_of(jaxpr: Jaxpr) -> Member | None:
    """The place of a program of a jitted function among those of other sizes; None if there is none."""
    families: dict[Any, Family] | None = jaxpr.memo.get("sizes")
    if families is None:
        return None
    parts: list[Any] = [jaxpr.memo.get("fast_math")]
    numbers: list[Any] = []
    try:
        _read(jaxpr, parts, numbers)
        values = sorted({*numbers, *_LANDMARKS})
        ranks = {x: i for i, x in enumerate(values)}
        key = (tuple(parts), tuple([ranks[x] for x in numbers]))
        family = families.get(key)
    except TypeError:  # a parameter without a key
        return None
    if family is None:
        if len(families) >= MOST_FAMILIES:
            return None
        family = families.setdefault(key, Family())
    return Member(family, values)


def _read(jaxpr: Jaxpr, parts: list[Any], numbers: list[Any]) -> None:
    """What of a program must be equal, and its numbers, in order."""
    places: dict[Any, int] = {}
    for v in jaxpr.inputs:
        places[v] = len(places)
        _read_value(v.aval, parts, numbers)
    for primitive, atoms, params, outputs, _ in jaxpr.equations:
        parts.append(primitive)
        for a in atoms:
            if type(a) is Literal:
                parts.append(a.aval.weak)
                _read_value(a.value, parts, numbers)
            else:
                parts.append(places[a])
        if params:
            _read_value(params, parts, numbers)
        for v in outputs:
            places[v] = len(places)
            _read_value(v.aval, parts, numbers)
    for o in jaxpr.outputs:
        if type(o) is Var:
            parts.append(places[o])
        else:
            _read_value(o.value, parts, numbers)


def _read_value(value: Any, parts: list[Any], numbers: list[Any]) -> None:
    kind = type(value)
    if kind is int or (kind is float and value and math.isfinite(value)):
        parts.append(kind)
        numbers.append(value)
    elif kind is Aval:
        parts += (Aval, value.dtype, value.weak, len(value.shape))
        numbers += value.shape
    elif isinstance(value, tuple) and kind.__eq__ is tuple.__eq__:  # a loop, too
        parts += (kind, len(value))
        for item in value:
            _read_value(item, parts, numbers)
    elif kind is dict:
        parts.append(tuple(value))
        for item in value.values():
            _read_value(item, parts, numbers)
    elif kind is slice:
        parts.append(slice)
        for item in (value.start, value.stop, value.step):
            _read_value(item, parts, numbers)
    elif isinstance(value, Jaxpr):
        parts.append(Jaxpr)
        _read(value, parts, numbers)
    elif kind is StackAval:
        parts.append(StackAval)
        _read_value(value.element, parts, numbers)
    elif is_a(value, (np.integer, np.floating)) and value and value.dtype.itemsize <= 8 and np.isfinite(value):
        parts.append(value.dtype)
        numbers.append(value.item())
    elif is_a(value, (bool, float, complex, np.generic)):
        parts.append(literal_key(value))
    else:
        parts += (kind, value)


# ---------------------------------------------------------------- texts

_NUMBER = re.compile(r"('[^']*'|\"[^\"]*\"|(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.]))")


class Template:
    """A text with places for numbers, and the laws by which they follow from the numbers of a program."""

    __slots__ = ("code", "text", "pieces", "laws", "given", "owners", "names", "callees")

    def __init__(self, one: tuple[Values, Generated], other: tuple[Values, Generated]):
        (values, first), (others, second) = one, other
        seen = _Pair(values, others)
        pieces, again = _NUMBER.split(first.text), _NUMBER.split(second.text)
        if len(pieces) != len(again) or first.scope.keys() != second.scope.keys():
            raise _Unlike
        self.names: list[tuple[str, int]] = []  # of the numbers that differ, and where they stand
        self.laws: dict[str, Law] = {}
        self.callees: dict[str, Law] = {}  # the equations of what is made ready for shapes
        for i, (x, y) in enumerate(zip(pieces, again)):
            if x != y:
                if i % 2 == 0 or x[0] in "'\"":
                    raise _Unlike
                name = f"size_{i}"
                self.laws[name] = seen.law(_number(x), _number(y))
                self.names.append((name, i))
                pieces[i] = name
        self.given: dict[str, Any] = {}  # what the text names and what is the same for all
        for name, x in first.scope.items():
            if name in self.laws:
                raise _Unlike
            if name == "__builtins__" or type(x) is FunctionType and x.__globals__ is first.scope:
                continue
            y = second.scope[name]
            if x is y:
                self.given[name] = x
            elif name in first.callees:
                self.callees[name] = seen.callee(first.callees[name], second.callees.get(name))
            else:
                self.laws[name] = seen.law(x, y)
        self.pieces, self.text = pieces, "".join(pieces)
        self.code: CodeType = compile(self.text, GENERATED, "exec")
        self.owners = first.owners

    def filled(self, values: Values) -> Generated | None:
        """The program for these numbers; None if the laws do not agree."""
        scope = dict(self.given)
        try:
            for name, law in self.laws.items():
                scope[name] = law(values)
            for name, law in self.callees.items():
                scope[name] = _made_ready(*law(values))
        except _Unlike:
            return None
        exec(self.code, scope)
        return Generated(scope["run"], self.text, self.owners, scope)

    def foretells(self, values: Values, generated: Generated) -> bool:
        """Is this what was compiled for these numbers?"""
        filled = self.filled(values)
        if filled is None:
            return False
        pieces = list(self.pieces)
        for name, i in self.names:
            pieces[i] = repr(filled.scope[name])
        if "".join(pieces) != generated.text:
            return False
        numbers = [name for name, _ in self.names]
        for name in {*self.given, *self.laws}.difference(numbers):
            if name not in generated.scope or not _alike(filled.scope[name], generated.scope[name]):
                return False
        for name, law in self.callees.items():
            equation, rule = generated.callees[name]
            found = (equation.primitive, rule, tuple([a.aval for a in equation.inputs]), equation.params)
            if law(values) != found:
                return False
        return True


def _made_ready(primitive: Any, rule: str, avals: tuple, params: dict[str, Any]) -> Any:
    """What the text of the NumPy engine calls for an equation."""
    if rule == "over":
        return over_on_numpy(Equation(primitive, (), params, ()))
    return on_numpy(primitive, avals, params)


def _number(text: str) -> Any:
    return int(text) if text.isdigit() else float(text)


def _alike(x: Any, y: Any) -> bool:
    """Are two constants of texts the same?"""
    if x is y or type(x) is not type(y):
        return x is y
    if type(x) is np.ndarray:
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return bool(literal_key(x) == literal_key(y)) if is_a(x, (np.generic, int, float)) else bool(x == y)


# ---------------------------------------------------------------- laws


class _Pair:
    """The numbers of two programs, and what follows from them in both."""

    def __init__(self, values: Values, others: Values):
        self.values = values
        self.others = others
        self.places = [i for i, (x, y) in enumerate(zip(values, others)) if x != y]
        self.factors = [*_MULTIPLES, *[x for x, y in zip(values, others) if x == y and x not in _MULTIPLES and x]]

    def law(self, x: Any, y: Any) -> Law:
        """How a part of a program follows from its numbers; _Unlike if it does not."""
        kind = type(x)
        if x is y:
            return lambda values: x
        if kind is not type(y):
            raise _Unlike
        if kind is int or kind is float:
            return self._number(x, y, kind)
        if is_a(x, (np.integer, np.floating)) and x.dtype == y.dtype:
            return self._number(x, y, kind)
        if kind is np.ndarray and x.dtype == y.dtype and x.ndim == y.ndim:
            return self._array(x, y)
        if isinstance(x, tuple) and kind.__eq__ is tuple.__eq__ and len(x) == len(y):
            laws = [self.law(a, b) for a, b in zip(x, y)]
            make = kind._make if hasattr(kind, "_make") else kind
            return lambda values: make([law(values) for law in laws])
        if kind is dict and list(x) == list(y):
            named = {name: self.law(x[name], y[name]) for name in x}
            return lambda values: {name: law(values) for name, law in named.items()}
        if kind is slice:
            ends = self.law((x.start, x.stop, x.step), (y.start, y.stop, y.step))
            return lambda values: slice(*ends(values))
        if kind is Aval and (x.dtype, x.weak) == (y.dtype, y.weak):
            shape = self.law(x.shape, y.shape)
            return lambda values: Aval(shape(values), x.dtype, x.weak)
        if isinstance(x, Jaxpr) or not (isinstance(x, np.dtype) or is_a(x, (str, bool, bytes))) or x != y:
            raise _Unlike
        return lambda values: x

    def callee(self, called: Any, other: Any) -> Law:
        """The (primitive, rule, avals, parameters) of an operation that is made ready for its shapes."""
        (equation, rule), (again, other_rule) = called, other or (None, None)
        if other_rule != rule or again.primitive is not equation.primitive:
            raise _Unlike
        avals = self.law(tuple([a.aval for a in equation.inputs]), tuple([a.aval for a in again.inputs]))
        params = self.law(equation.params, again.params)
        return lambda values: (equation.primitive, rule, avals(values), params(values))

    def _array(self, x: np.ndarray, y: np.ndarray) -> Law:
        """A constant array: the same in both, or full of one number."""
        writeable = x.flags.writeable
        if x.shape == y.shape and x.tobytes() == y.tobytes():
            return lambda values: x
        if not x.size or not y.size or (x != x.flat[0]).any() or (y != y.flat[0]).any():
            raise _Unlike
        shape, fill = self.law(x.shape, y.shape), self.law(x.dtype.type(x.flat[0]), y.dtype.type(y.flat[0]))

        def full(values: Values) -> np.ndarray:
            array = np.full(shape(values), fill(values), x.dtype)
            array.flags.writeable = writeable
            return array

        return full

    def _number(self, x: Any, y: Any, kind: Any) -> Law:
        if literal_key(x) == literal_key(y):
            return lambda values: x
        whole = not is_a(x, (float, np.floating))
        laws = self._laws(x, y, kind, whole)
        if not laws:
            raise _Unlike

        def number(values: Values) -> Any:
            raw = [law(values) for law in laws]
            found = [kind(x) for x in raw]
            if any([x != found[0] for x in found]) or whole and any([x != y for x, y in zip(raw, found)]):
                raise _Unlike
            return found[0]

        return number

    def _laws(self, x: Any, y: Any, kind: Any, whole: bool) -> list[Law]:
        """Ways to compute x from the one numbers and y from the others."""
        found: list[Law] = []
        for i in self.places:
            s, t = self.values[i], self.others[i]
            if s == x and t == y:
                found.append(lambda v, i=i: v[i])
            if whole and type(s) is int:
                if x - s == y - t != 0:
                    found.append(lambda v, i=i, k=int(x - s): v[i] + k)
                if x + s == y + t:
                    found.append(lambda v, i=i, k=int(x + s): k - v[i])
                if s and x != s and x % s == 0 and t * (x // s) == y:
                    found.append(lambda v, i=i, k=int(x // s): v[i] * k)
                for j in self.places:
                    a, b = self.values[j], self.others[j]
                    if j <= i and s + a == x and t + b == y:
                        found.append(lambda v, i=i, j=j: v[i] + v[j])
                    if j < i and s - a == x and t - b == y:
                        found.append(lambda v, i=i, j=j: v[i] - v[j])
                    if j <= i and s * a == x and t * b == y:
                        found.append(lambda v, i=i, j=j: v[i] * v[j])
            elif not whole:
                for c in self.factors:
                    if c != 1 and kind(s * c) == x and kind(t * c) == y:
                        found.append(lambda v, i=i, c=c: v[i] * c)
                    if s and t and kind(c / s) == x and kind(c / t) == y:
                        found.append(lambda v, i=i, c=c: c / v[i])
                    if s and t and c != 1 and kind(c * (1 / s)) == x and kind(c * (1 / t)) == y:
                        found.append(lambda v, i=i, c=c: c * (1 / v[i]))
        return found

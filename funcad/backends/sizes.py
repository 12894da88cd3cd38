"""Programs that differ in sizes only share one text: a new batch size is traced, and compiled no more.

Idea: two programs of one function are of one *family* if they apply the same operations, wired alike, and the same of their
numbers (extents, integer and float parameters, literals) are equal to each other, or to 0, 1 or 2. A single integer that is no
extent, as an exponent, must be equal. What else a pass or a writer may ask of numbers is a program's `Standing`: their order,
which literals are integers, and which are powers of two, by which division is exact. A text is taken over by programs of a
standing that one of its members had, so that no comparison comes out otherwise; or whose literals are powers of two where that
one's were not: it makes no use of it.
The texts of the first three members are laid beside each other: a number that differs must follow in all of them by one law
from the numbers of the programs (be one of them, a multiple, a quotient, a sum, difference or product). From the fourth on the
text is taken over with its numbers filled in. What does not fit is compiled by itself. A writer may choose by the size of
arrays which of two ways is quicker: each such form of a text is learnt for itself, and the one whose members are the nearest
is taken, which is right for every member and quick for its neighbours; numbers that were the same in all that it was learnt
from must be so again.

Invariants: a program is always traced, and its own numbers are filled in, so a literal such as log2(n) need not be understood.
Where several laws explain a number, they must agree on the new one. Trap: what an operation made ready for its shapes (a
callee) is made anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.emission import Generated
from funcad.backends.interpreter import over_on
from funcad.backends.text import BOUND, code_of
from funcad.host.devices import on_numpy
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.subprograms import program_key
from funcad.tree.same import same_key

MOST_FAMILIES = 64  # of one function
PROBES = 3  # members of a form that are compiled before its text is taken over: two would follow a law by chance
MOST_KNOWN = 6  # members of a form that are learnt from: some where the laws of three did not agree
FORMS = 16  # of one family, each for an order of its numbers
_LANDMARKS = (0, 1, 2)
_TINY, _HUGE = 1e-30, 1e30  # other floats must be equal: near the ends of a dtype's range, laws of arithmetic fail
_MULTIPLES = (1, 2, 0.5, -1)

Values = Sequence[Any]  # the different numbers of a program, in the order in which they come
Law = Callable[[Values], Any]


class _Unlike(Exception):
    """Two programs, or their texts, differ in more than numbers."""


# ---------------------------------------------------------------- families


class Family:
    """Programs that differ in numbers only, by the forms that their texts have."""

    __slots__ = ("compiled", "templates")

    def __init__(self) -> None:
        self.compiled: dict[Any, list[tuple[Values, Standing, Generated]]] = {}
        self.templates: dict[Any, Template] = {}


class Standing(NamedTuple):
    """What may be asked of the numbers of a program beyond which of them are equal."""

    order: tuple[int, ...]  # their places, from the least to the greatest
    powers: tuple[bool, ...]  # of literals: is it a power of two?

    def may_be(self, other: Standing) -> bool:
        """Is a text that was written for the other one right, too?"""
        return self.order == other.order and all([mine or not theirs for mine, theirs in zip(self.powers, other.powers)])


class SizedProgram:
    """A program in its family."""

    __slots__ = ("family", "values", "standing")

    def __init__(self, family: Family, values: Values, standing: Standing):
        self.family = family
        self.values = values
        self.standing = standing

    def taken_over(self) -> Generated | None:
        """The text of the family with the numbers of this program, in the form of the members that are the nearest."""
        templates = [t for t in self.family.templates.values() if t.fits(self.values, self.standing)]
        return min(templates, key=self._distance).filled(self.values) if templates else None

    def _distance(self, template: Template) -> float:
        return min([sum([abs(x - y) / (abs(x) + abs(y) + 1) for x, y in zip(self.values, m)]) for m in template.members])

    def learn(self, generated: Generated) -> None:
        """Note what this program was compiled to, since it could not take over another one's text.

        It is one more member where the text of others turns out to follow by the same laws in its standing.
        """
        compiled, templates, order = self.family.compiled, self.family.templates, self.standing.order
        form = (_NUMBER.sub(_form, generated.text), frozenset(generated.scope))
        member = self.values, self.standing, generated
        own = (form, order)
        for key in [key for key in templates if key[0] == form]:
            if order in [standing.order for standing in templates[key].standings]:
                own = key
                break
            try:
                templates[key] = Template([*compiled[key], member])
            except _Unlike:
                continue
            compiled[key].append(member)
            return
        if own not in compiled and len(compiled) == FORMS:
            return
        known = compiled.setdefault(own, [])
        if len(known) >= MOST_KNOWN:
            return
        known.append(member)
        if len(known) >= PROBES:
            try:
                templates[own] = Template(known)
            except _Unlike:
                templates.pop(own, None)


def member_of(jaxpr: Jaxpr) -> SizedProgram | None:
    """The place of a program of a jitted function among those of other sizes; None if there is none."""
    families: dict[Any, Family] | None = jaxpr.memo.get("sizes")
    if families is None:
        return None
    parts: list[Any] = [jaxpr.memo.get("fast_math")]
    numbers: list[Any] = []
    powers: list[bool] = []
    try:
        _read(jaxpr, parts, numbers, powers)
        values = list(dict.fromkeys((*_LANDMARKS, *numbers)))
        places = {x: i for i, x in enumerate(values)}
        key = (tuple(parts), tuple([places[x] for x in numbers]))
        family = families.get(key)
    except TypeError:  # a parameter without a key
        return None
    if family is None:
        if len(families) >= MOST_FAMILIES:
            return None
        family = families.setdefault(key, Family())
    return SizedProgram(family, values, Standing(tuple(sorted(places.values(), key=values.__getitem__)), tuple(powers)))


def _read(jaxpr: Jaxpr, parts: list[Any], numbers: list[Any], powers: list[bool]) -> None:
    """What of a program must be equal, its numbers, in order, and which of its literals are powers of two."""
    places: dict[Any, int] = {}
    for v in jaxpr.inputs:
        places[v] = len(places)
        _read_value(v.aval, parts, numbers, powers)
    for primitive, atoms, params, outputs, _ in jaxpr.equations:
        parts.append(primitive)
        for a in atoms:
            if type(a) is Literal:
                parts.append(a.aval.weak)
                _read_value(a.value, parts, numbers, powers)
                if a.aval.dtype.kind in "iuf" and math.isfinite(a.value):
                    parts.append(a.value == int(a.value))
                    powers.append(abs(math.frexp(a.value)[0]) == 0.5)
            else:
                parts.append(places[a])
        for v in outputs:
            places[v] = len(places)
            _read_value(v.aval, parts, numbers, powers)
        if int in map(type, params.values()):  # an exponent, which decides on operations, is no extent
            extents = {n for a in (*atoms, *outputs) for n in a.aval.shape}
            parts += [x for x in params.values() if type(x) is int and x not in extents]
        if params:
            _read_value(params, parts, numbers, powers)
    for o in jaxpr.outputs:
        if type(o) is Var:
            parts.append(places[o])
        else:
            _read_value(o.value, parts, numbers, powers)


def _read_value(value: Any, parts: list[Any], numbers: list[Any], powers: list[bool]) -> None:
    kind = type(value)
    if kind is int or kind is float and _TINY < abs(value) < _HUGE:
        parts.append(kind)
        numbers.append(value)
    elif kind is Aval:
        parts += (Aval, value.dtype, value.weak, len(value.shape))
        numbers += value.shape
    elif isinstance(value, tuple) and kind.__eq__ is tuple.__eq__:  # a loop, too
        parts += (kind, len(value))
        for item in value:
            _read_value(item, parts, numbers, powers)
    elif kind is dict:
        parts.append(tuple(value))
        for item in value.values():
            _read_value(item, parts, numbers, powers)
    elif kind is slice:
        parts.append(slice)
        for item in (value.start, value.stop, value.step):
            _read_value(item, parts, numbers, powers)
    elif isinstance(value, Jaxpr):
        parts.append(Jaxpr)
        _read(value, parts, numbers, powers)
    elif kind is StackAval:
        parts.append(StackAval)
        _read_value(value.element, parts, numbers, powers)
    elif is_a(value, (np.integer, np.floating)) and value.dtype.itemsize <= 8 and _TINY < abs(value.item()) < _HUGE:
        parts.append(value.dtype)
        numbers.append(value.item())
    elif is_a(value, (bool, float, complex, np.generic)):
        parts.append(same_key(value))
    else:
        parts += (kind, value)


# ---------------------------------------------------------------- texts

_NUMBER = re.compile(r"('[^']*'|\"[^\"]*\"|(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.]))")


class Template:
    """A text with places for numbers, and the laws by which they follow from the numbers of a program."""

    __slots__ = ("code", "text", "laws", "given", "owners", "members", "standings", "fixed", "long")

    def __init__(self, known: Sequence[tuple[Values, Standing, Generated]]):
        self.members = [values for values, _, _ in known]
        self.standings = {standing for _, standing, _ in known}
        seen = _Laws(self.members)
        self.fixed = [(i, x) for i, x in enumerate(self.members[0]) if i not in seen.places]
        programs = [generated for _, _, generated in known]
        first = programs[0]
        pieces, *others = [_NUMBER.split(generated.text) for generated in programs]
        self.laws: dict[str, Law] = {}
        for i, same in enumerate(zip(pieces, *others)):
            if len(set(same)) > 1:
                name = f"size_{i}"
                self.laws[name] = seen.law(*map(_number, same))
                pieces[i] = name
        self.given: dict[str, Any] = {}  # what the text names and what is the same for all
        for name, x in first.scope.items():
            if name in self.laws:
                raise _Unlike
            if name == "__builtins__" or name.startswith(BOUND) or type(x) is FunctionType and x.__globals__ is first.scope:
                continue
            if all([generated.scope[name] is x for generated in programs]):
                self.given[name] = x
            elif name in first.callees:
                self.laws[name] = seen.callee(*[generated.callees[name] for generated in programs])
            else:
                self.laws[name] = seen.law(*[generated.scope[name] for generated in programs])
        self.text = "".join(pieces)
        self.code: CodeType = code_of(self.text, self.given)
        self.owners, self.long = first.owners, any([generated.long for generated in programs])

    def fits(self, values: Values, standing: Standing) -> bool:
        return all([values[i] == x for i, x in self.fixed]) and any(map(standing.may_be, self.standings))

    def filled(self, values: Values) -> Generated | None:
        """The program for these numbers; None if the laws do not agree."""
        scope = dict(self.given)
        try:
            for name, law in self.laws.items():
                scope[name] = law(values)
        except _Unlike:
            return None
        exec(self.code, scope)
        found = Generated(scope["run"], self.text, self.owners, scope)
        found.long = self.long
        return found


def _form(found: re.Match[str]) -> str:
    return found[0] if found[0][0] in "'\"" else "#"


def _number(text: str) -> Any:
    return int(text) if text.isdigit() else float(text)


# ---------------------------------------------------------------- laws


class _Laws:
    """The numbers of several programs, and what follows from them in all of these."""

    def __init__(self, members: Sequence[Values]):
        self.columns = list(zip(*members))  # of each number, what it is in each program
        self.places = [i for i, column in enumerate(self.columns) if len(set(column)) > 1]
        constants = [column[0] for column in self.columns if len(set(column)) == 1]
        self.factors = [*_MULTIPLES, *[x for x in constants if x not in _MULTIPLES and x]]

    def law(self, *xs: Any) -> Law:
        """How a part of a program follows from its numbers, if it was these in those programs; _Unlike if it does not."""
        x = xs[0]
        kind = type(x)
        if all([y is x for y in xs]):
            return lambda values: x
        if any([type(y) is not kind for y in xs]):
            raise _Unlike
        if kind is int or kind is float:
            return self._number(xs, kind)
        if is_a(x, (np.integer, np.floating)):
            return self._number(xs, kind)
        if kind is np.ndarray:
            return self._array(xs)
        if isinstance(x, tuple) and kind.__eq__ is tuple.__eq__ and len(set(map(len, xs))) == 1:
            laws = [self.law(*parts) for parts in zip(*xs)]
            make = kind._make if hasattr(kind, "_make") else kind
            return lambda values: make([law(values) for law in laws])
        if kind is dict and all([list(y) == list(x) for y in xs]):
            named = {name: self.law(*[y[name] for y in xs]) for name in x}
            return lambda values: {name: law(values) for name, law in named.items()}
        if kind is slice:
            ends = self.law(*[(y.start, y.stop, y.step) for y in xs])
            return lambda values: slice(*ends(values))
        if kind is Aval and len({(y.dtype, y.weak) for y in xs}) == 1:
            shape = self.law(*[y.shape for y in xs])
            return lambda values: Aval(shape(values), x.dtype, x.weak)
        if kind is Jaxpr and len({program_key(y, program_key) for y in xs}) == 1:  # of a loop whose turns know no sizes
            return lambda values: x
        if (isinstance(x, np.dtype) or is_a(x, (str, bool, bytes))) and all([y == x for y in xs]):
            return lambda values: x
        raise _Unlike

    def callee(self, *called: Any) -> Law:
        """An operation made ready for its shapes."""
        equations = [equation for equation, _ in called]
        primitive, rule = equations[0].primitive, called[0][1]
        if any([equation.primitive is not primitive or r != rule for equation, r in called]):
            raise _Unlike
        params = self.law(*[equation.params for equation in equations])
        if rule == "over":
            return lambda values: over_on(np, Equation(primitive, (), params(values), ()))
        avals = self.law(*[tuple([a.aval for a in equation.inputs]) for equation in equations])
        return lambda values: on_numpy(primitive, avals(values), params(values))

    def _array(self, xs: Sequence[np.ndarray]) -> Law:
        """A constant array: the same in all, or full of one number."""
        x = xs[0]
        if len({y.dtype for y in xs}) > 1 or len({y.ndim for y in xs}) > 1:
            raise _Unlike
        if all([y.shape == x.shape and y.tobytes() == x.tobytes() for y in xs]):
            return lambda values: x
        if any([not y.size or (y != y.flat[0]).any() for y in xs]):
            raise _Unlike
        shape, fill = self.law(*[y.shape for y in xs]), self.law(*[y.dtype.type(y.flat[0]) for y in xs])

        def full(values: Values) -> np.ndarray:
            array = np.full(shape(values), fill(values), x.dtype)
            array.flags.writeable = x.flags.writeable
            return array

        return full

    def _number(self, xs: Sequence[Any], kind: Any) -> Law:
        if len({same_key(x) for x in xs}) == 1:
            return lambda values: xs[0]
        whole = not is_a(xs[0], (float, np.floating))
        laws = self._whole_laws(xs) if whole else self._laws(xs, kind)
        laws += [lambda v, i=i: v[i] for i in self.places if self.columns[i] == tuple(xs)]
        if not laws:
            raise _Unlike

        def number(values: Values) -> Any:
            raw = [law(values) for law in laws]
            found = [kind(x) for x in raw]
            if any([x != found[0] for x in found]) or whole and any([x != y for x, y in zip(raw, found)]):
                raise _Unlike
            return found[0]

        return number

    def _whole_laws(self, xs: Sequence[Any]) -> list[Law]:
        """Ways to compute these integers."""
        found: list[Law] = []

        def is_law(compute: Callable[..., Any], *places: int) -> bool:
            return all([x == compute(*row) for x, *row in zip(xs, *[self.columns[i] for i in places])])

        x = int(xs[0])
        for i in self.places:
            s = self.columns[i][0]
            if type(s) is not int:
                continue
            if x != s and is_law(lambda s, k=x - s: s + k, i):
                found.append(lambda v, i=i, k=x - s: v[i] + k)
            if is_law(lambda s, k=x + s: k - s, i):
                found.append(lambda v, i=i, k=x + s: k - v[i])
            if s and x != s and x % s == 0 and is_law(lambda s, k=x // s: s * k, i):
                found.append(lambda v, i=i, k=x // s: v[i] * k)
            for j in self.places:
                if j <= i and is_law(lambda s, t: s + t, i, j):
                    found.append(lambda v, i=i, j=j: v[i] + v[j])
                if j <= i and is_law(lambda s, t: s * t, i, j):
                    found.append(lambda v, i=i, j=j: v[i] * v[j])
                if j < i and is_law(lambda s, t: s - t, i, j):
                    found.append(lambda v, i=i, j=j: v[i] - v[j])
        return found

    def _laws(self, xs: Sequence[Any], kind: Any) -> list[Law]:
        """Ways to compute these floats: multiples, and what was divided by a number, in either order of the rounding."""
        found: list[Law] = []
        for i in self.places:
            column = self.columns[i]
            for c in self.factors:
                if c != 1 and all([kind(s * c) == x for x, s in zip(xs, column)]):
                    found.append(lambda v, i=i, c=c: v[i] * c)
                if 0 not in column and all([kind(c / s) == x for x, s in zip(xs, column)]):
                    found.append(lambda v, i=i, c=c: c / v[i])
                if 0 not in column and c != 1 and all([kind(c * (1 / s)) == x for x, s in zip(xs, column)]):
                    found.append(lambda v, i=i, c=c: c * (1 / v[i]))
        return found

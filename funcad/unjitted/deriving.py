"""The text of a pull: the vector-Jacobian product of an operation, derived from the rules of its primitive.

Idea: pulls are derived as at first use (derived_pulls.py), and what such a pull computes is printed as straight Python over the
implementations of primitives. Sizes are named by the operands' shapes, so that one text serves all sizes of a kind. The same
pull, batched, gives that of many cotangents at once.

Invariants: nothing here is written for one primitive; a text computes what the rule would have computed, in the same order.
What cannot be printed (an array that a rule captured, a size that no shape tells) raises `Unprintable`, and then the rule
itself runs at each call. Trap: a size that two shapes have is named by the first of them, so texts for all sizes are derived
where all sizes differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, nan, prod
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.jaxpr import Equation, Jaxpr, Var, used_inputs
from funcad.ir.primitive import CALM, Primitive
from funcad.masks.masks import reach_of
from funcad.unjitted.derived_pulls import DerivedPull, derived
from funcad.unjitted.kinds import RuleQuestion
from funcad.unjitted.pulls import FIRST, LETTERS, Traced, Unprintable, is_elementwise, number, plain

MANY = 1009  # cotangents at once, in the place of any number of them
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_LONG = 100  # characters of a line that a value is still written into


class Text(NamedTuple):
    """A pull: the lines of its function, its parameters beside xp and ct, and what they are of the operation."""

    lines: tuple[str, ...]
    reads: tuple[Any, ...]  # i: operand, ~i: result, FIRST + i: what is computed `first`, "shapes", "params"
    calls: dict[str, Primitive]
    begins: bool  # may a mask begin here?
    elementwise: bool  # it works on arrays of any rank, also of several
    # where it would read more than the rule keeps: what is computed where the operation stands, and what this reads
    first: tuple[str, ...] = ()
    first_reads: tuple[Any, ...] = ()
    asks: bool = False  # does it hold only where the last value that is computed `first` is true everywhere?
    there: tuple[int, ...] = (0,)  # the results that have tangents


def name_of(read: Any) -> str:
    """What a text calls something that it reads."""
    if type(read) is str:
        return read
    if read >= FIRST:
        return f"k{read - FIRST}"
    if read < 0:
        return "out" if read == -1 else f"out{~read}"
    return LETTERS[read] if read < len(LETTERS) else f"x{read}"


def text_of_pull(
    primitive: Primitive,
    avals: Sequence[Any],
    traced: Traced,
    params: dict,
    *,
    columns: bool = False,
    free: Sequence[str] = (),
    given: Sequence[int] | None = None,
) -> Text | None:
    """The pull of an operation on operands of these avals; None if the rule gives no tangent.

    `columns`: the cotangent is many, along a leading axis; `free` are the parameters that the text may name and must not hold.
    `given`: of the results that have tangents, the places of those that have cotangents, if these are not all. Where several
    results have tangents, `ct` is a list of these cotangents.
    """
    # rules look whether two are one
    alike = [n if i is None or avals[i] != aval else i for n, (i, aval) in enumerate(zip(traced, avals))]
    out = primitive.abstract_eval(*avals, **params)
    outs = list(out) if primitive.multiple else [out]
    use = primitive, avals, alike, traced, outs, params, None
    pull, question = derived([], use, False), None
    if type(pull) is RuleQuestion and not primitive.multiple:
        # mostly the answer is yes; what is to be done if it is not, the rule says
        question, asked = pull.part, len(avals) + len(pull.part.program.jaxpr.outputs)
        pull = derived([(True, asked + 1)], use, False) if pull.number == asked else None
        if not isinstance(pull, DerivedPull) or pull.part is not None:
            raise Unprintable("the rule asks for more than one value")
    if pull is None:
        return None
    if not isinstance(pull, DerivedPull):
        raise Unprintable("the rule asks for values")
    shapes, named, n = [a.shape for a in avals], {name: params[name] for name in free}, len(avals)
    last = n + len(outs)
    kept = [i if i < n else n + ~i if i < last else FIRST + i - last for i in pull.sources]
    absent = tuple([given is not None and i not in given for i in range(len(pull.there))])
    jaxpr, consts, _, m, which = pull.batched(absent, MANY) if columns else pull.transposed(absent)
    if not jaxpr.outputs:
        return None
    seeds = [f"ct[{i}]" for i in range(absent.count(False))] if pull.many else ["ct"]
    names = dict(zip(jaxpr.inputs[len(consts) :], [*map(name_of, kept), *seeds]))
    printer = _Printer(names, shapes, named)
    printer.program(jaxpr, consts)
    there = dict(zip(which, map(printer.atom, jaxpr.outputs)))
    lines = printer.text([there.get(j, "None") for j in range(m)])
    made = [e.outputs[0].aval.shape for e in jaxpr.equations if is_elementwise(e.primitive)]
    elementwise = not primitive.multiple and made == [out.shape] * len(jaxpr.equations)
    reads: list[Any] = list(kept)
    if not (elementwise and is_elementwise(primitive)):
        reads.append("shapes")
    if free:
        reads.append("params")
    text = Text(lines, tuple(reads), printer.called(lines), mask_begins(pull.rest), elementwise, there=pull.there)
    if question is not None:
        text = text._replace(asks=True)
    part = question or pull.part
    return text if part is None else _with_first(text, part, n, _Printer({}, shapes, named))


def _with_first(text: Text, part: Any, n: int, printer: _Printer) -> Text:
    """The text, and that of what the rule computes where the operation stands, of n operands."""
    jaxpr, codes = part.program.jaxpr, [i if i < n else n + ~i for i in part.reads]
    printer.names.update(zip(jaxpr.inputs[len(part.consts) :], map(name_of, codes)))
    printer.program(jaxpr, part.consts)
    lines = printer.text(list(map(printer.atom, jaxpr.outputs)))
    words = set(re.findall(r"\w+", "\n".join(lines)))
    reads: list[Any] = [code for code in codes if name_of(code) in words]
    reads += [word for word in ("shapes", "params") if word in words]
    elementwise = text.elementwise and all([is_elementwise(e.primitive) for e in jaxpr.equations])
    calls = text.calls | printer.called(lines)
    return text._replace(first=lines, first_reads=tuple(reads), calls=calls, elementwise=elementwise)


def mask_begins(linear: Jaxpr) -> bool:
    """May a cotangent that goes back through this program have elements that no path leads to?"""
    for primitive, inputs, params, outputs, _ in linear.equations:
        reach = None if primitive.needs is not None else reach_of(primitive, params)
        if primitive.needs is not None or reach in ("choice", "reads", "picks"):
            return True
        if reach not in CALM and any([a.aval.size > outputs[0].aval.size for a in inputs if type(a) is Var]):
            return True
    return False


def _is_ufunc(primitive: Primitive, n: int) -> bool:
    """Is it what NumPy's function of this name is on traced values, too? Several primitives may compute by one function."""
    ufunc = primitive.ufunc
    return ufunc is not None and primitive.emit is not None and ufunc.__name__ == primitive.name and ufunc.nin == n


class _Printer:
    """Equations as Python: a line for each, (names of the results, expression)."""

    def __init__(self, names: dict[Any, str], shapes: Sequence[tuple[int, ...]], free: dict[str, Any]):
        self.names = names
        self.shapes = shapes
        self.free = free
        self.lines: list[tuple[str, str]] = []
        self.known: dict[str, str] = {}  # expression: the value that it is
        self.calls: dict[str, Primitive] = {}
        self.loose: set[str] = set()  # values that need brackets where they are written into others

    def program(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None:
        """Write the equations; `consts` are the values of the first inputs."""
        for v, array, used in zip(jaxpr.inputs, consts, used_inputs(jaxpr)):
            if used:
                self.array(v, array)
        for equation in jaxpr.equations:
            self.write(equation)

    def text(self, answers: Sequence[str]) -> tuple[str, ...]:
        """The lines of a function that returns these."""
        lines = [f"{name} = {value}" for name, value in self.lines]
        return tuple(inlined(lines, f"return {', '.join(answers)}", self.loose))

    def called(self, lines: Sequence[str]) -> dict[str, Primitive]:
        used = set(re.findall(r"\w+", "\n".join(lines)))
        return {name: p for name, p in self.calls.items() if name in used}

    def atom(self, a: Any) -> str:
        return self.names[a] if type(a) is Var else number(a.value)

    def write(self, equation: Equation) -> None:
        primitive, inputs, params, outputs, _ = equation
        given = [self.atom(a) for a in inputs]
        n = len(self.lines)
        name, loose = f"v{n}", False
        if primitive.name in _INFIX and primitive.ufunc is not None and not params:
            text, loose = f"{given[0]} {_INFIX[primitive.name]} {given[1]}", True
        elif primitive.name == "neg" and primitive.ufunc is np.negative:
            text, loose = f"-{given[0]}", True
        elif not params and _is_ufunc(primitive, len(given)):
            text = f"xp.{primitive.name}({', '.join(given)})"
        else:
            called = re.sub(r"\W", "_", primitive.name) + "_p"
            if self.calls.setdefault(called, primitive) is not primitive:
                raise Unprintable(f"two primitives have the name {primitive.name}")
            words = [f"{key}={self.parameter(key, value)}" for key, value in params.items()]
            text = f"{called}.impl({', '.join(['xp', *given, *words])})"
        if primitive.multiple:
            several = [f"{name}_{i}" for i in range(len(outputs))]
            self.names.update(zip(outputs, several))
            name = ", ".join(several) + "," * (len(several) == 1)
        else:
            self.names[outputs[0]] = name
        if primitive.multiple or text not in self.known:
            self.known[text] = name
            self.lines.append((name, text))
            if loose:
                self.loose.add(name)
        else:  # rules of two operands often compute the same twice
            self.names[outputs[0]] = self.known[text]

    def array(self, v: Var, array: Any) -> None:
        """An array that a rule makes of shapes alone, if it is the same number everywhere."""
        if type(array) is not np.ndarray or not array.size or array.tobytes() != array.flat[0].tobytes() * array.size:
            raise Unprintable("a rule captures an array")
        text = f'xp.full({self.sizes(array.shape)}, {number(array.flat[0].item())}, dtype("{array.dtype.name}"))'
        self.names[v] = self.known.setdefault(text, f"v{len(self.lines)}")
        if self.names[v] == f"v{len(self.lines)}":
            self.lines.append((self.names[v], text))

    def parameter(self, key: str, value: Any) -> str:
        for name, known in self.free.items():
            alike = type(known) is type(value) and known == value and name == key and key not in _SIZES
            if alike or type(value) is tuple and known is value:
                return f'params["{name}"]'
        if key in self.free and key not in _SIZES:
            for i, shape in enumerate(self.shapes):
                for j, n in enumerate(shape):
                    if n - self.free[key] == value:
                        return f'shapes[{i}][{j}] - params["{key}"]'
            raise Unprintable(f"{key} is of no kind, and another one is read")
        if key == "index":  # of basic indexing: (start, count, step) of each axis that stays
            entries = []
            for entry in value:
                if type(entry) is tuple:
                    start, count, step = entry
                    entries.append(f"({plain(start)}, {self.size(count)}, {plain(step)})")
                else:
                    entries.append(plain(entry))
            return "(" + ", ".join(entries) + "," * (len(entries) == 1) + ")"
        return self.sizes(value) if key in _SIZES and type(value) is tuple else plain(value)

    def sizes(self, shape: tuple) -> str:
        for i, known in enumerate(self.shapes):
            if shape and known == shape:
                return f"shapes[{i}]"
        return "(" + "".join([self.size(n) + ", " for n in shape]).rstrip(" ").removesuffix("," if len(shape) > 1 else "") + ")"

    def size(self, n: Any) -> str:
        if type(n) is not int or n in (0, 1):
            return plain(n)
        if n % MANY == 0:
            return "ct.shape[0]" + f" * {self.size(n // MANY)}" * (n != MANY)
        known = [(f"shapes[{i}][{j}]", m) for i, shape in enumerate(self.shapes) for j, m in enumerate(shape)]
        for name, m in known:
            if m == n:
                return name
        for i, shape in enumerate(self.shapes):
            for j in range(len(shape)):
                for k in range(j + 2, len(shape) + 1):
                    if prod(shape[j:k]) == n:
                        return f"prod(shapes[{i}][{j}:{k}])"
        for axis in range(max(map(len, self.shapes), default=0)):  # what a concatenation adds up
            along = [(f"shapes[{i}][{axis}]", shape[axis]) for i, shape in enumerate(self.shapes) if len(shape) > axis]
            for j in range(len(along)):
                for k in range(j + 2, len(along) + 1):
                    if sum([m for _, m in along[j:k]]) == n:
                        return " + ".join([name for name, _ in along[j:k]])
        raise Unprintable(f"a size {n} that no shape tells")


_SIZES = {"shape", "sizes", "start", "limit"}  # parameters that are sizes


def inlined(lines: Sequence[str], last: str, loose: set[str]) -> list[str]:
    """The lines, with values that are read once written where they are read, as long as lines stay short."""
    lines = [*lines, last]
    i = 0
    while i < len(lines) - 1:
        name, _, value = lines[i].partition(" = ")
        uses = [(j, m) for j in range(i + 1, len(lines)) for m in re.finditer(rf"\b{re.escape(name)}\b", lines[j])]
        if len(uses) == 1 and "," not in name:
            j, m = uses[0]
            line = lines[j]
            alone = name not in loose or line[: m.start()].endswith(("return ", " = ")) and m.end() == len(line)
            written = value if alone or _is_argument(line, m) else f"({value})"
            if len(line) + len(written) - len(name) <= _LONG:
                lines[j] = line[: m.start()] + written + line[m.end() :]
                del lines[i]
                continue
        i += 1
    return lines


def _is_argument(line: str, m: re.Match) -> bool:
    """Does the value stand alone between brackets or commas?"""
    before, after = line[: m.start()], line[m.end() :]
    return before.endswith(("(", ", ", "return ", " = ")) and (not after or after[0] in "),")


def source_of(text: Text, name: str, reads: Sequence[Any] | None = None) -> str:
    """The text as a function of xp, ct and what the row keeps, in the order of `reads`."""
    if text.first and name == "first":
        words = ", ".join(["xp", *map(name_of, text.first_reads)])
        return f"def {name}({words}):\n" + "".join([f"    {line}\n" for line in text.first])
    missing = set(text.reads) - set(text.reads if reads is None else reads)
    if missing:
        raise Unprintable(f"it reads {missing}, which the row does not keep")
    parameters = ", ".join(["xp", "ct", *map(name_of, text.reads if reads is None else reads)])
    return f"def {name}({parameters}):\n" + "".join([f"    {line}\n" for line in text.lines])


# what a text may name beside its parameters and the primitives that it calls
WORDS: dict[str, Any] = {
    "inf": inf, "nan": nan, "prod": prod, "dtype": np.dtype,
    **{np.dtype(c).name: np.dtype(c).type for c in "bhilBHILefdFD"}, "bool_": np.bool_,
}  # fmt: skip

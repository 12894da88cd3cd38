"""The text of a pull: the vector-Jacobian product of an operation, derived from the rules of its primitive.

Idea: the primitive's `jvp` is run on variables, what it recorded is transposed, pruned, and printed as straight Python over the
implementations of the primitives that are left. Sizes are named by the operands' shapes, so that one text serves all sizes of
a kind. The same rule, batched, gives the pull of many cotangents at once; and where masks are wanted, the linear program itself
is transposed with them (masks/masks.py).

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

from funcad.host.where import state, user_source
from funcad.ir.jaxpr import Equation, Jaxpr, Var, prune, used_inputs
from funcad.ir.primitive import Primitive
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import rule_of
from funcad.masks.masks import CALM, reach_of
from funcad.transforms.batch import batch_eval
from funcad.transforms.partial import drop_unused_residuals
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted.derived_pulls import LinearTrace, input_of
from funcad.unjitted.pulls import FIRST, LETTERS, Traced, Unprintable, is_elementwise, number, plain

MANY = 1009  # cotangents at once, in the place of any number of them
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_LONG = 100  # characters of a line that a value is still written into


class _Unasked(AbstractTrace):
    """Rules that ask whether a condition holds everywhere have a text for each answer: those are found on values (kinds.py)."""

    __slots__ = ()

    def decide(self, condition: Tracer) -> bool:
        raise Unprintable("the rule asks for values")


class Linear(NamedTuple):
    """The rule of an operation: `jaxpr` maps (kept, tangents) to tangents of the results `there`, and `known` maps what it
    captures, the operands and the results to what is kept."""

    outer: AbstractTrace
    values: list[Tracer]
    outs: list[Tracer]
    jaxpr: Jaxpr
    kept: list[Any]
    known: Jaxpr
    consts: list[Any]
    positions: list[int]  # of the operands that have a tangent of their own
    there: list[int]


class Text(NamedTuple):
    """A pull: the lines of its function, its parameters beside xp and ct, and what they are of the operation."""

    lines: tuple[str, ...]
    reads: tuple[Any, ...]  # i: operand, ~i: result, "shapes", "params"
    which: tuple[int, ...]  # positions of the operands that get a cotangent
    calls: dict[str, Primitive]
    begins: bool  # may a mask begin here?
    elementwise: bool  # it works on arrays of any rank, also of several
    plain: bool  # it computes element by element, and reads no more memory than a row of the rule would keep
    # where it would read more: the lines of what is computed where the operation stands, and what these read
    first: tuple[str, ...] = ()
    first_reads: tuple[Any, ...] = ()


def name_of(read: Any) -> str:
    """What a text calls something that it reads."""
    if type(read) is str:
        return read
    if read >= FIRST:
        return f"k{read - FIRST}"
    return _letter(read) if read >= 0 else "out" if read == -1 else f"out{~read}"


def _letter(i: int) -> str:
    return LETTERS[i] if i < len(LETTERS) else f"x{i}"


def linear_of(
    primitive: Primitive, avals: Sequence[Any], traced: Traced, params: dict, out_avals: Sequence[Any], shape: Any = None
) -> Linear | None:
    """The rule for operands of these avals; None if it gives no tangent. The caller closes `outer`."""
    outer, inner = _Unasked("the backward pass"), LinearTrace("linearize")
    try:
        values: list[Tracer] = []
        tangents: dict[int, Tracer] = {}
        for i, aval in enumerate(avals):
            first = traced[i]
            if first is not None and first != i and avals[first] == aval:  # rules look whether two are one
                values.append(values[first])
            else:
                values.append(input_of(outer, aval))
            if first == i:
                tangents[i] = inner.new_input(aval.update())
        outs = [input_of(outer, a) for a in out_avals]
        given = [None if i is None else tangents[i] for i in traced]
        found = rule_of(primitive, values, given, outs if primitive.multiple else outs[0], params, shape)
        results = found if primitive.multiple else [found]
        there = [i for i, t in enumerate(results) if t is not None]
        if not there:
            outer.close()
            return None
        if not all([type(results[i]) is Tracer and results[i].owner is inner for i in there]):
            raise Unprintable("a rule gives a tangent that is none")
        jaxpr, kept = inner.jaxpr([results[i] for i in there])
        jaxpr, kept = drop_unused_residuals(_without_lines(jaxpr), kept)
        known, consts = outer.jaxpr(kept)
    except BaseException:
        outer.close()
        raise
    finally:
        inner.close()
    return Linear(outer, values, outs, jaxpr, kept, _without_lines(known), consts, list(tangents), there)


def _without_lines(jaxpr: Jaxpr) -> Jaxpr:
    return Jaxpr(jaxpr.inputs, tuple([e._replace(source=None) for e in prune(jaxpr).equations]), jaxpr.outputs)


def text_of_pull(
    primitive: Primitive,
    avals: Sequence[Any],
    traced: Traced,
    params: dict,
    *,
    columns: bool = False,
    free: Sequence[str] = (),
) -> Text | None:
    """The pull of an operation on operands of these avals; None if the rule gives no tangent.

    Where it would read more than the rule keeps, what the rule keeps is a text of its own, `first`. `columns`: the cotangent is
    many, along a leading axis; `free` are the parameters that the text may name and must not hold.
    """
    found = primitive.abstract_eval(*avals, **params)
    out_avals = list(found) if primitive.multiple else [found]
    saved, state.source = state.source, state.source or user_source()  # what is derived has no lines
    try:
        linear = linear_of(primitive, avals, traced, params, out_avals)
        if linear is None:
            return None
        shapes, named = [a.shape for a in avals], {name: params[name] for name in free}
        try:
            try:
                text = _text_of(primitive, shapes, named, linear, {}, columns)
            except Unprintable:
                text = None
                if not linear.known.equations:
                    raise
            if linear.known.equations and not (text and text.plain):
                text = _in_two(primitive, shapes, named, linear, columns) or text
            return text
        finally:
            linear.outer.close()
    finally:
        state.source = saved


def _text_of(
    primitive: Primitive, shapes: Sequence[tuple[int, ...]], free: dict[str, Any], linear: Linear, first: dict[Any, Any],
    columns: bool,
) -> Text | None:  # fmt: skip
    """The text; `first`: values that are kept -> inputs in their places, in the order of their names."""
    outer = linear.outer
    seeds = {i: outer.new_input(v.aval.update()) for i, v in zip(linear.there, linear.jaxpr.outputs)}
    cts = [seeds[i] for i in linear.there]
    n = len(linear.positions)
    flags = [False] * len(linear.kept) + [True] * n
    kept = [first.get(outer.atom(k), k) for k in linear.kept]
    cotangents = transpose_eval(linear.jaxpr, flags, [*kept, *[None] * n], cts, all_linear=True)
    derived, consts = outer.jaxpr([c for c in cotangents if c is not None])
    arrays = dict(zip(derived.inputs, consts))
    names: dict[Any, str] = {t.atom: f"ct[{i}]" if primitive.multiple else "ct" for i, t in seeds.items()}
    for a, code in _codes(linear).items():
        names.setdefault(a, name_of(code))
    for i, t in enumerate(first.values()):
        names[t.atom] = name_of(FIRST + i)
    jaxpr = prune(derived)
    if columns:
        jaxpr, names, arrays = _batched(jaxpr, names, arrays)
    return _printed(primitive, shapes, free, names, jaxpr, arrays, linear, cotangents, first)


def _codes(linear: Linear) -> dict[Any, int]:
    """What the variables of the rule are of the operation; of operands that are one, the first."""
    found: dict[Any, int] = {}
    for code, t in [*enumerate(linear.values), *[(~i, t) for i, t in enumerate(linear.outs)]]:
        found.setdefault(t.atom, code)
    return found


def _in_two(
    primitive: Primitive, shapes: Sequence[tuple[int, ...]], free: dict[str, Any], linear: Linear, columns: bool
) -> Text | None:
    """The text over what the rule keeps, and that of what it keeps; None if one of them has none."""
    codes, atoms = _codes(linear), [linear.outer.atom(k) for k in linear.kept]
    made = list(dict.fromkeys([a for a in atoms if a not in codes]))
    if not all([type(a) is Var for a in made]):
        return None
    first = {a: linear.outer.new_input(a.aval) for a in made}
    try:
        text = _text_of(primitive, shapes, free, linear, first, columns)
        if text is None or not text.plain:
            return None
        printer = _Printer({a: name_of(code) for a, code in codes.items()}, shapes, free)
        for v, array, used in zip(linear.known.inputs, linear.consts, used_inputs(linear.known)):
            if used:
                printer.array(v, array)
        for equation in linear.known.equations:
            printer.write(equation)
        answers = [printer.atom(a) for a, k in zip(linear.known.outputs, atoms) if k in first]
    except Unprintable:
        return None
    lines = [f"{name} = {value}" for name, value in printer.lines]
    lines = inlined(lines, f"return {', '.join(answers)}", printer.loose)
    words = set(re.findall(r"\w+", "\n".join(lines)))
    reads: list[Any] = [code for code in codes.values() if name_of(code) in words]
    reads += [word for word in ("shapes", "params") if word in words]
    plain = all([is_elementwise(e.primitive) for e in linear.known.equations])
    calls = text.calls | {name: p for name, p in printer.calls.items() if name in words}
    plain = plain and text.elementwise
    return text._replace(first=tuple(lines), first_reads=tuple(reads), calls=calls, elementwise=plain)


def _batched(
    jaxpr: Jaxpr,
    names: dict[Any, str],
    arrays: dict[Any, Any],
) -> tuple[Jaxpr, dict[Any, str], dict[Any, Any]]:
    """The program for many cotangents."""
    trace = AbstractTrace("columns")
    try:
        mapped = [names.get(v, "").startswith("ct") for v in jaxpr.inputs]
        avals = [v.aval.batched(MANY) if m else v.aval for v, m in zip(jaxpr.inputs, mapped)]
        inputs = [arrays[v] if v in arrays else input_of(trace, a) for v, a in zip(jaxpr.inputs, avals)]
        outs, flags = batch_eval(jaxpr, MANY, list(inputs), mapped)
        if not all(flags):
            raise Unprintable("a cotangent that does not depend on those of the results")
        wide, consts = trace.jaxpr(outs)
    finally:
        trace.close()
    names = {t.atom: names[v] for t, v in zip(inputs, jaxpr.inputs) if v in names}
    return prune(wide), names, dict(zip(wide.inputs, consts))


def _printed(
    primitive: Primitive, shapes: Sequence[tuple[int, ...]], free: dict[str, Any], names: dict[Any, str],
    jaxpr: Jaxpr, arrays: dict[Any, Any], linear: Linear, cotangents: Sequence[Any],
    first: dict[Any, Any],
) -> Text | None:  # fmt: skip
    printer, codes = _Printer(names, shapes, free), _codes(linear)
    used_arrays = {a for e in jaxpr.equations for a in e.inputs} | set(jaxpr.outputs)
    for v, array in arrays.items():
        if v in used_arrays:
            printer.array(v, array)
    for equation in jaxpr.equations:
        printer.write(equation)
    there = iter(jaxpr.outputs)
    answers = ["None" if c is None else printer.atom(next(there)) for c in cotangents]
    if not jaxpr.outputs:
        return None
    answer = f"({answers[0]},)" if primitive.multiple and len(answers) == 1 else ", ".join(answers)
    text = inlined([f"{name} = {value}" for name, value in printer.lines], f"return {answer}", printer.loose)
    used = set(re.findall(r"\w+", "\n".join(text)))
    shape = linear.jaxpr.outputs[0].aval.shape
    elementwise = all([is_elementwise(e.primitive) and e.outputs[0].aval.shape == shape for e in jaxpr.equations])
    needed = {codes.get(v) for v, u in zip(linear.known.inputs, used_inputs(linear.known)) if u and not first}
    kept = {a: codes.get(a) for a in linear.known.outputs if type(a) is Var}
    if first:
        places = dict(zip(first, range(FIRST, FIRST + len(first))))
        kept = {a: codes.get(a, places.get(a)) for a in map(linear.outer.atom, linear.kept) if type(a) is Var}
    reads: list[Any] = list(dict.fromkeys([code for code in kept.values() if code is not None]))
    more = [c for c in codes.values() if c not in reads and (name_of(c) in used or c in needed)]
    sizes = {code: _bytes(v.aval) for v, code in codes.items()}
    late = all([e.primitive.emit is not None and "shape" not in e.params for e in linear.known.equations])
    computed = [_bytes(v.aval) for v, code in kept.items() if code is None]
    plain = not more or not first and late and sum([sizes[c] for c in more]) <= sum(computed)
    reads += more
    if not (elementwise and is_elementwise(primitive)):
        reads.append("shapes")
    reads += ["params"] * bool(free)
    calls = {name: p for name, p in printer.calls.items() if name in used}
    return Text(tuple(text), tuple(reads), tuple(linear.positions), calls, mask_begins(linear.jaxpr), elementwise, plain)


def _bytes(aval: Any) -> int:
    return aval.size * aval.dtype.itemsize


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
        self.many = min([name for name in names.values() if name.startswith("ct")], default="ct")

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
            return f"{self.many}.shape[0]" + f" * {self.size(n // MANY)}" * (n != MANY)
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

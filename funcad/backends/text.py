"""Python text being written, and programs of numbers as such text.

Idea: a program is a tree of blocks, so that lines can still be put in front of a loop whose body is being written. Every line
remembers the equation it came from, and `compile_text` gives back which line of the final text belongs to which equation.
Invariant: a name is given once. Trap: texts of scalars must read back as the same type, dtype and bits, so all that `repr` does
not promise (strong scalars, complex numbers, NaN) is a named constant or spelled out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from funcad.host.progress import turns
from funcad.host.real_types import is_a
from funcad.host.where import GENERATED
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Jaxpr, Literal
from funcad.primitives.atoms import UFUNCS, formula_of
from funcad.show.pretty import shown_as

_NAMES = {
    "bool": "bool_",
    "float96": "longdouble",
    "float128": "longdouble",
    "complex192": "clongdouble",
    "complex256": "clongdouble",
}


class Line:
    """One line at its depth, with the equation that it belongs to."""

    __slots__ = ("depth", "text", "equation")

    def __init__(self, depth: int, text: str, equation: Any):
        self.depth = depth
        self.text = text
        self.equation = equation


class Block:
    """Lines and blocks, in order."""

    __slots__ = ("depth", "parts")

    def __init__(self, depth: int):
        self.depth = depth
        self.parts: list[Any] = []

    def lines(self) -> list[Line]:
        found: list[Line] = []
        for part in self.parts:
            if type(part) is Block:
                found += part.lines()
            else:
                found.append(part)
        return found


class Writer:
    """Where the text goes. `np` is the name under which NumPy is called ("np", or "xp" in exported text, "cp" on a device).

    `device`: all arrays are a device's, those of `library` where the text is to run.
    """

    def __init__(self, np_name: str = "np", depth: int = 1, device: bool = False, library: Any = np):
        self.np = np_name
        self.device = device
        self.library = library
        self.block = Block(depth)
        self.top = self.block
        self.equation: Any = None
        self.scope: dict[str, Any] = {}
        self.spelled: dict[str, str] = {}  # named constants that text can define
        self.callees: dict[str, Any] = {}  # name -> equation whose implementation it is, and which of its primitive's that is
        self.functions: list[Block] = []  # written in front of the program
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}  # by a name, the first number behind it that may be free
        self._count = 0
        self._constants: dict[Any, str] = {}

    # -- names

    def reserve(self, name: str) -> str:
        """This name, or the next free one like it."""
        chosen, k = name, self._next.get(name, 2)
        while chosen in self._taken or chosen in self.scope:
            chosen, k = f"{name}_{k}", k + 1
        self._next[name] = k
        self._taken.add(chosen)
        return chosen

    def name(self, prefix: str = "v") -> str:
        while True:
            chosen = f"{prefix}{self._count}"
            self._count += 1
            if chosen not in self._taken:
                self._taken.add(chosen)
                return chosen

    def constant(self, prefix: str, value: Any, spelled: str | None = None, key: Any = None) -> str:
        """The name of a value that is a global of the text."""
        if key is not None and key in self._constants:
            return self._constants[key]
        name = self.reserve(prefix) if prefix.isidentifier() and not prefix[-1].isdigit() else self.name(prefix)
        self.scope[name] = value
        if spelled is not None:
            self.spelled[name] = spelled
        if key is not None:
            self._constants[key] = name
        return name

    def helper(self, name: str, value: Any) -> str:
        """A function of funcad's that the text calls by this name."""
        self.scope[name] = value
        return name

    def loop(self, item: str, rows: str | None, equation: Any, total: str = "None") -> None:
        """The head of a loop over rows (None: without end). `equation`: of an outermost one, whose turns users can see."""
        if equation is not None and self.np != "xp":
            where = f" at {equation.source.short()}" if equation.source is not None else ""
            rows = f"{self.helper('turns', turns)}({rows}, {f'loop{where}'!r}, {total})"
        self.line("while True:" if rows is None else f"for {item} in {rows}:")

    def callee(self, equation: Any, function: Callable[..., Any], rule: str = "impl") -> str:
        """The name of an operation that has no text of its own."""
        stem = re.sub(r"\W", "_", shown_as(equation))
        name = self.reserve(f"call_{stem}" if not stem.isidentifier() or stem in ("and", "or", "not") else f"{stem}_")
        self.scope[name] = function
        self.callees[name] = equation, rule
        return name

    # -- lines

    def line(self, text: str) -> None:
        self.block.parts.append(Line(self.block.depth, text, self.equation))

    def inner(self) -> Block:
        """A new block here, one step further in; the caller enters it by `within`."""
        block = Block(self.block.depth + 1)
        self.block.parts.append(block)
        return block

    def aside(self) -> Block:
        """A new block here, at this depth, to be filled later."""
        block = Block(self.block.depth)
        self.block.parts.append(block)
        return block

    def within(self, block: Block) -> _Within:
        return _Within(self, block)

    # -- scalars

    def literal(self, value: Any) -> str:
        """The text of a scalar, or the name of a constant that holds it."""
        kind = type(value)
        if kind is bool or kind is int:
            return repr(value) if value >= 0 else f"({value!r})"
        if kind is float:
            return self._float(value)
        if is_a(value, np.generic):
            spelled = f"{self.np_module()}.{scalar_name(value.dtype)}({_number(value)})" if value.dtype.kind in "biuf" else None
            if value.dtype.kind == "f" and (math.isnan(value) or value.dtype.itemsize > 8):
                spelled = None
            return self.constant("k", value, spelled, key=(value.dtype.str, value.tobytes()))
        key = (kind, np.complex128(value).tobytes()) if kind is complex else None
        spelled = f"complex({_number(value.real)}, {_number(value.imag)})" if kind is complex else None
        return self.constant("k", value, spelled, key=key)

    def _float(self, value: float) -> str:
        if math.isnan(value):
            return f"{self.np}.nan" if math.copysign(1.0, value) > 0 else self.constant("k", value, 'float("-nan")', key="-nan")
        if math.isinf(value):
            return f"{self.np}.inf" if value > 0 else f"(-{self.np}.inf)"
        return repr(value) if math.copysign(1.0, value) > 0 else f"({value!r})"

    def np_module(self) -> str:
        return "np"


class _Within:
    def __init__(self, writer: Writer, block: Block):
        self.writer = writer
        self.block = block

    def __enter__(self) -> Block:
        self.saved, self.writer.block = self.writer.block, self.block
        return self.block

    def __exit__(self, *exception: Any) -> None:
        self.writer.block = self.saved


def _number(value: Any) -> str:
    if is_a(value, (np.integer, int, np.bool_)):
        return repr(value.item() if is_a(value, np.generic) else value)
    value = float(value)
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def scalar_name(dtype: np.dtype) -> str:
    return _NAMES.get(dtype.name, dtype.name)


def dtype_text(writer: Writer, dtype: np.dtype) -> str:
    """The dtype as text, `np.float64`."""
    return f"{writer.np}.{scalar_name(dtype)}"


def shape_text(shape: tuple) -> str:
    return repr(tuple([int(n) for n in shape]))


def index_text(index: tuple) -> str:
    """What stands between the brackets of `x[...]`."""
    if not index:
        return "()"
    parts = []
    for entry in index:
        if type(entry) is slice:
            start = "" if entry.start is None else str(entry.start)
            stop = "" if entry.stop is None else str(entry.stop)
            step = "" if entry.step in (None, 1) else f":{entry.step}"
            parts.append(f"{start}:{stop}{step}")
        else:
            parts.append(repr(entry))
    return ", ".join(parts) + ("," if len(parts) == 1 and index[0] is Ellipsis else "")


def compile_text(writer: Writer, head: list[str], name: str) -> tuple[Any, str, dict[int, Any]]:
    """(the function of that name, the text, line number -> equation); `head` opens it, at depth 0."""
    lines = [line for block in writer.functions for line in block.lines()]
    lines += [Line(0, text, None) for text in head] + writer.top.lines()
    text = "\n".join(["    " * line.depth + line.text for line in lines])
    owners = {number: line.equation for number, line in enumerate(lines, 1) if line.equation is not None}
    exec(code_of(text, writer.scope), writer.scope)
    return writer.scope[name], text, owners


BOUND = "np__"  # what the names begin with that `code_of` gives
_OF_NUMPY = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|(?<![\w.])np((?:\.[^\W\d]\w*)+)")


def code_of(text: str, scope: dict[str, Any]) -> CodeType:
    """The code of a text, with what it names of NumPy's as globals of their own, which are put into the scope.

    To find a function in its module costs a tenth of what it takes to start it.
    """
    module = scope.get("np")

    def put(found: re.Match) -> str:
        path = found[1]
        if path is None or module is not np:
            return str(found[0])
        name = BOUND + path[1:].replace(".", "__")
        if name not in scope:
            value: Any = np
            for part in path[1:].split("."):
                value = getattr(value, part, None)
            if value is None:
                return str(found[0])
            scope[name] = value
        return name

    return compile(_OF_NUMPY.sub(put, text), GENERATED, "exec")


# -- whole programs of float64 scalars, run through Python's `math`
#
# Idea: a ufunc on one number costs a microsecond's fraction that is twenty times the arithmetic; Python's floats and `math` do
# the same in tens of nanoseconds. Arithmetic is the same IEEE operation; `math` and NumPy call the same kind of library and
# agree to one ulp. Where Python raises and NumPy does not (log of zero, overflow, division by zero), the whole run is redone by
# NumPy. Invariants: only rank-0 float64 and bool values, no effects; results are NumPy scalars where the aval is strong,
# Python's where it is weak. Trap: integers among the operands would give integers (-0 is 0), so literals are written as floats.


_F64, _BOOL = np.dtype(np.float64), np.dtype(bool)

# Python's text of each atom of one element's formula; atoms that are not here are NumPy's ufuncs
TEXTS = {
    "neg": "-{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "reciprocal": "1.0 / {0}",
    "abs": "abs({0})",
    "select": "{1} if {0} else {2}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "isnan": "{0} != {0}",
    "not_": "not {0}",
    "and_": "{0} and {1}",
    "or_": "{0} or {1}",
    "xor": "{0} != {1}",
    **{name: f"{name}({{0}})" for name in "sin cos tan exp expm1 log log1p log2 log10 sinh cosh tanh sqrt".split()},
    **{name: f"{name}({{0}})" for name in ("isinf", "isfinite")},
    **{f"arc{name}": f"a{name}({{0}})" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arctan2": "atan2({0}, {1})",
    **{name: f"{name}({{0}}, {{1}})" for name in ("hypot", "copysign", "pow")},
    "integer_pow": "pow({0}, {1}.0)",
}
_LOGICAL = ("not_", "and_", "or_", "xor")  # on numbers they mean something else
MATH = [name for name in dir(math) if any([text.startswith(f"{name}(") for text in TEXTS.values()])]  # what they call


def _scalar(aval: Any) -> bool:
    return isinstance(aval, Aval) and not aval.shape and aval.dtype in (_F64, _BOOL)


def write_scalars(w: Writer, jaxpr: Jaxpr, general: Callable[[list], list]) -> bool:
    """Write the program if it is made of scalars that `math` computes; `general` runs it by NumPy."""
    if not jaxpr.equations or not all([_scalar(v.aval) and v.aval.dtype == _F64 for v in jaxpr.inputs]):
        return False
    names: dict[Any, str] = {}
    body: list[tuple[str, Any]] = []
    for v in jaxpr.inputs:
        names[v] = w.name()
    given = ", ".join([names[v] for v in jaxpr.inputs])

    def text(atom: Any) -> str | None:
        if type(atom) is not Literal:
            return names[atom]
        value = atom.value
        if is_a(value, (bool, np.bool_)):
            return repr(bool(value))
        if is_a(value, (int, float)) and abs(value) < 2**53 or is_a(value, float):
            return w.literal(float(value))
        return None

    for equation in jaxpr.equations:
        primitive = equation.primitive
        if primitive.multiple or primitive.effect or not _scalar(equation.outputs[0].aval):
            return False
        operands = [text(a) for a in equation.inputs]
        if any([o is None for o in operands]):
            return False
        found = lines_of(w, equation, operands, TEXTS)
        if found is None:
            return False
        (v,) = equation.outputs
        names[v] = w.name()
        body += [(line, equation) for line in (*found[0], f"{names[v]} = {found[1]}")]
    outputs = []
    for o in jaxpr.outputs:
        if type(o) is Literal:
            outputs.append(w.literal(o.value))
        elif o in jaxpr.inputs:
            return False  # what came in goes out unchanged, whatever it is
        else:
            kind = "float64" if o.aval.dtype == _F64 else "bool_"
            outputs.append(names[o] if o.aval.weak else f"{kind}({names[o]})")
    scope = {name: getattr(math, name) for name in MATH}
    for name, value in {**scope, "float64": np.float64, "bool_": np.bool_, "general": general}.items():
        w.helper(name, value)
    w.line(f"[{given}] = values" if given else "values.clear()")
    w.line("try:")
    with w.within(w.inner()):
        for v in jaxpr.inputs:
            if not v.aval.weak:
                w.line(f"{names[v]} = float({names[v]})")
        for line, equation in body:
            w.equation = equation
            w.line(line)
        w.equation = None
        w.line(f"results = [{', '.join(outputs)}]")
        nest(w.block)
        w.line("values.clear()")  # now that nothing can raise
        w.line("return results")
    w.line("except (ValueError, OverflowError, ZeroDivisionError):")
    with w.within(w.inner()):
        w.line("return general(values)")
    return True


_NAME = re.compile(r"\bv\d+\b")
_NAMED = re.compile(r"(v\d+) = (.+)")
NESTED = 20  # brackets in brackets; Python's parser takes 200


def nest(block: Block) -> None:
    """What one later line of the block reads once goes into that line: a name costs a store and a load.

    The lines are about numbers, have no effects, and name each value once; carries are given their next values at the end.
    """
    reads = Counter([name for line in block.lines() for name in _NAME.findall(line.text)])
    held: dict[str, tuple[str, int, int]] = {}  # name -> (its text, how deep it is, its place)
    parts: list[Any] = []
    for part in block.parts:
        if type(part) is Line:
            deep = 0

            def put(found: re.Match) -> str:
                nonlocal deep
                text, depth, place = held.pop(found.group(), ("", 0, 0))
                if not text or depth > NESTED:
                    return str(found.group())
                parts[place] = None
                deep = max(deep, depth)
                return text

            text = _NAME.sub(put, part.text)
            part = Line(part.depth, text, part.equation)
            named = _NAMED.fullmatch(text)
            if named is not None and reads[named[1]] == 2:  # with the one before the sign
                held[named[1]] = f"({named[2]})", deep + 1, len(parts)
        parts.append(part)
    block.parts = [part for part in parts if part is not None]


def lines_of(w: Writer, equation: Any, operands: list[Any], own_texts: dict[str, str]) -> tuple[list[str], str] | None:
    """Lines for what the formula of an element uses more than once, and the text of the result; None if NumPy is to do it."""
    primitive, params = equation.primitive, equation.params
    kinds = {a.aval.dtype for a in equation.inputs}
    if primitive.name == "convert":
        if params["dtype"] == _BOOL:
            return [], f"{operands[0]} != 0.0"
        return ([], f"float({operands[0]})") if params["dtype"] == _F64 else None
    if primitive.name == "python_checked" and equation.outputs[0].aval.dtype == _F64:
        x = operands[0]
        return [f"if {x} - {x} != 0.0: raise OverflowError"], x  # the reference asks Python
    if primitive.emit is None:
        by_numpy = None if params or _BOOL in kinds else _by_numpy(primitive.ufunc, operands)
        return None if by_numpy is None else ([], by_numpy)
    formula = formula_of(equation)
    atoms = set(formula.computed)
    if atoms.intersection(_LOGICAL) and kinds != {_BOOL} or _BOOL in kinds and not atoms <= {*_LOGICAL, "select"}:
        return None  # arithmetic of bools is NumPy's own
    lines: list[str] = []
    texts = dict(enumerate(operands, -len(operands)))
    often = formula.read_often()
    for i, call in enumerate(formula.calls):
        if call.name == "const":
            texts[i] = w.literal(float(call.told[0]))
            continue
        own = [*[texts[a] for a in call.reads], *call.told]
        template = own_texts.get(call.name)
        for k, operand in enumerate(own if template else ()):
            if type(operand) is str and operand[0] == "(" and template.count(f"{{{k}}}") > 1:
                own[k] = w.name()
                lines.append(f"{own[k]} = {operand}")
        text = template.format(*own) if template else _by_numpy(UFUNCS.get(call.name), own)
        if text is None:
            return None
        if i in often:
            temporary = w.name()
            lines.append(f"{temporary} = {text}")
            text = temporary
        texts[i] = text if i == formula.result or text.isidentifier() else f"({text})"
    return lines, texts[formula.result]


def _by_numpy(ufunc: Any, operands: list[Any]) -> str | None:
    """The call of NumPy's ufunc, if it has a loop for these numbers."""
    loops = "d" * len(operands) + "->"
    for kind, dtype in (("float", "d"), ("bool", "?")):
        if ufunc is not None and loops + dtype in ufunc.types:
            return f"{kind}(np.{ufunc.__name__}({', '.join(operands)}))"
    return None

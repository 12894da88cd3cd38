"""Python text being written: lines with their equations, names, and the values that the text names but cannot spell.

Idea: a program is a tree of blocks, so that lines can still be put in front of a loop whose body is being written. Every line
remembers the equation it came from, and `compile_text` gives back which line of the final text belongs to which equation.
Invariant: a name is given once. Trap: texts of scalars must read back as the same type, dtype and bits, so all that `repr` does
not promise (strong scalars, complex numbers, NaN) is a named constant or spelled out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.host.where import GENERATED

__all__ = ["Block", "Writer", "Line", "dtype_text", "shape_text", "index_text", "compile_text"]

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

    def callee(self, equation: Any, function: Callable[..., Any], rule: str = "impl") -> str:
        """The name of an operation that has no text of its own."""
        stem = re.sub(r"\W", "_", equation.primitive.name)
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
    exec(compile(text, GENERATED, "exec"), writer.scope)
    return writer.scope[name], text, owners

"""The program: `Jaxpr(inputs, equations, outputs)`.

A Jaxpr holds no arrays: what a traced function captures becomes leading inputs, so every interpreter is a loop over
equations with an environment of values and nothing else. Literals hold a Python scalar (weak) or a NumPy scalar (strong)
and compare by type, dtype and bit pattern, never by `==` (0.0 == -0.0, 1 == True, nan != nan). A Jaxpr is compared by
identity and carries `memo`: everything derived from it (its jvp, its transpose, its compiled program) hangs there and dies
with it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import LiteralAval, aval_of
from funcad.show.pretty import format_equation, format_jaxpr

__all__ = ["Var", "Literal", "Atom", "Equation", "Jaxpr", "subjaxprs", "literal_key", "split"]


class Var:
    """A value that an equation computes or that the program receives."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var:{self.aval}"


class Literal:
    """A scalar written into an equation."""

    __slots__ = ("value", "aval")

    def __init__(self, value: Any, aval: Any = None):
        self.value = value
        self.aval = aval_of(value) if aval is None else aval
        if not isinstance(self.aval, LiteralAval):
            raise TypeError(f"a Literal is a scalar, got {self.aval}")

    def __repr__(self) -> str:
        return repr(self.value)


Atom = Var | Literal


def literal_key(value: Any) -> tuple:
    """A hashable key that distinguishes scalars by type, dtype and bits."""
    if is_a(value, np.generic):
        return (value.dtype.str, value.tobytes())
    if is_a(value, (float, complex)):
        return (type(value), np.complex128(value).tobytes())
    return (type(value), value)


class Equation(NamedTuple):
    """outputs = primitive[params](inputs), written at `source` in the user's program."""

    primitive: Any
    inputs: tuple
    params: dict
    outputs: tuple
    source: Any = None

    def __repr__(self) -> str:
        return format_equation(self)


_NO_MODES: dict[int, Any] = {}


class Jaxpr:
    """A program in single-assignment form; immutable after construction, compared by identity."""

    __slots__ = ("inputs", "equations", "outputs", "memo", "modes", "__weakref__")

    def __init__(self, inputs: tuple[Var, ...], equations: tuple[Equation, ...], outputs: tuple[Atom, ...]):
        self.inputs = inputs
        self.equations = equations
        self.outputs = outputs
        self.memo: dict[Any, Any] = {}
        self.modes: dict[int, Any] = _NO_MODES  # error modes of equations that run un-jitted, see host/user_warnings.py

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.inputs]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outputs]

    @property
    def last_uses(self) -> list[tuple[Var, ...]]:
        """For each equation, the variables that nobody reads after it (so that values die early)."""
        uses = self.memo.get("last_uses")
        if uses is None:
            seen = {v for v in self.outputs if isinstance(v, Var)}
            uses = []
            for equation in reversed(self.equations):
                dead = []
                for atom in (*equation.outputs, *equation.inputs):
                    if isinstance(atom, Var) and atom not in seen:
                        seen.add(atom)
                        dead.append(atom)
                uses.append(tuple(dead))
            uses.reverse()
            self.memo["last_uses"] = uses
        return uses

    @property
    def axis_names(self) -> frozenset:
        """Names of the mapped axes that collectives in this program (or in its sub-programs) act on."""
        names = self.memo.get("axis_names")
        if names is None:
            found: set = set()
            for equation in self.equations:
                found |= equation_axis_names(equation)
            names = self.memo["axis_names"] = frozenset(found)
        return names

    @property
    def has_effects(self) -> bool:
        """Does running this program do something besides computing its outputs?"""
        answer = self.memo.get("has_effects")
        if answer is None:
            answer = any(equation_has_effects(e) for e in self.equations)
            self.memo["has_effects"] = answer
        return answer

    @property
    def moves(self) -> frozenset[str]:
        """The devices to which equations of this program (or of its sub-programs) move arrays, "cpu" and "cuda"."""
        devices = self.memo.get("moves")
        if devices is None:
            found: set[str] = set()
            for equation in self.equations:
                if equation.primitive.moves is not None:
                    found.add(equation.primitive.moves(**equation.params))
                for jaxpr in subjaxprs(equation.params):
                    found |= jaxpr.moves
            devices = self.memo["moves"] = frozenset(found)
        return devices

    def __str__(self) -> str:
        return format_jaxpr(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks; the module is loaded when something is shown."""
        return importlib.import_module("funcad.show.html").jaxpr_html(self)

    def graph(self) -> Any:
        """The program as a picture (`Graph`: shown by notebooks, `.svg`, `.save(path)`); ValueError if it is very long."""
        return importlib.import_module("funcad.show.graph").Graph(self)


def equation_axis_names(equation: Equation) -> frozenset:
    name = equation.params.get("axis_name")
    own = frozenset() if name is None else frozenset(name if isinstance(name, tuple) else (name,))
    for jaxpr in subjaxprs(equation.params):
        own |= jaxpr.axis_names
    return own


def equation_has_effects(equation: Equation) -> bool:
    return equation.primitive.effect or any(j.has_effects for j in subjaxprs(equation.params))


def subjaxprs(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs among an equation's parameters."""
    for value in params.values():
        if isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, tuple):  # branches, or a loop
            for item in value:
                if isinstance(item, Jaxpr):
                    yield item


def split(values: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """Consecutive parts of these sizes, and the rest."""
    parts, start = [], 0
    for n in sizes:
        parts.append(list(values[start : start + n]))
        start += n
    parts.append(list(values[start:]))
    return parts

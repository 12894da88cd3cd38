"""Printing programs: short, tidy, with sub-programs indented and the user's lines on request.

This module sits below `jaxpr` and tells its parts apart by their attributes: a Literal has a `value`, a Jaxpr `equations`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from funcad.host.real_types import is_a

# -- printing programs


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def fresh_names() -> Iterator[str]:
    for n in itertools.count(1):
        for letters in itertools.product(_LETTERS, repeat=n):
            yield "".join(letters)


class Names:
    """The names of one program's variables, in the order in which they are met."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.fresh = fresh_names()

    def __call__(self, atom: Any) -> str:
        if hasattr(atom, "value"):
            return scalar(atom)
        name = self.names.get(atom)
        if name is None:
            name = self.names[atom] = next(self.fresh)
        return name

    def typed(self, atom: Any) -> str:
        return f"{self(atom)}:{atom.aval.short}"


def scalar(literal: Any) -> str:
    value = literal.value
    text = str(value.item() if is_a(value, np.generic) else value)
    return text if literal.aval.weak else f"{text}:{literal.aval.short}"


def parameter(key: str, value: Any) -> str:
    if callable(value) and not isinstance(value, type):
        return f"{key}={getattr(value, '__name__', type(value).__name__)}"
    if isinstance(value, type):
        return f"{key}={value.__name__}"
    text = value.short if hasattr(value, "weak") else str(value)  # an aval
    return f"{key}={text if len(text) <= 60 else text[:57] + '...'}"


def described(params: dict[str, Any]) -> tuple[list[str], list[tuple[str, Any]]]:
    """The parameters as text, but for the programs, which come by name; the parts of a loop stand in its place."""
    plain: list[str] = []
    programs = []
    for key, value in params.items():
        if not isinstance(value, tuple) or not any(hasattr(item, "equations") for item in value):
            if hasattr(value, "equations"):
                programs.append((key, value))
            elif value is not None:
                plain.append(parameter(key, value))
        elif hasattr(value, "_asdict"):
            texts, inside = described(value._asdict())
            plain, programs = plain + texts, programs + inside
        else:
            programs += [(f"{key}[{i}]", item) for i, item in enumerate(value)]
    return plain, programs


def shown_as(equation: Any) -> str:
    """What users know an operation as; of a loop, the function that makes such ones."""
    return str(equation.params["loop"].name if equation.primitive.name == "loop" else equation.primitive.name)


def _equation_lines(equation: Any, names: Names, indent: str, source: bool) -> Iterator[str]:
    plain, programs = described(equation.params)
    params = f"[{' '.join(plain)}]" if plain else ""
    outputs = " ".join(map(names.typed, equation.outputs)) or "_"
    line = f"{indent}{outputs} = {shown_as(equation)}{params} {' '.join(map(names, equation.inputs))}".rstrip()
    if source and equation.source is not None:
        line += f"  # {equation.source.short()}"
    yield line
    for key, jaxpr in programs:
        yield f"{indent}  {key}:"
        yield from _jaxpr_lines(jaxpr, indent + "    ", source)


def _jaxpr_lines(jaxpr: Any, indent: str, source: bool) -> Iterator[str]:
    names = Names()
    inputs = " ".join(map(names.typed, jaxpr.inputs))
    yield f"{indent}{{ lambda {inputs} . let" if inputs else f"{indent}{{ lambda . let"
    for equation in jaxpr.equations:
        yield from _equation_lines(equation, names, indent + "    ", source)
    outputs = ", ".join(map(names, jaxpr.outputs)) + ("," if len(jaxpr.outputs) == 1 else "")
    yield f"{indent}  in ({outputs}) }}"


def format_jaxpr(jaxpr: Any, source: bool = False) -> str:
    """The program as text; with `source=True` every equation names the user's file, line and function."""
    return "\n".join(_jaxpr_lines(jaxpr, "", source))


def format_equation(equation: Any) -> str:
    return "\n".join(_equation_lines(equation, Names(), "", True))

"""Tables of pulls that were written ahead, and the kinds by which they are found.

Idea: what takes the cotangent of a row's result to its operands is text that the rules say (deriving.py, writing.py). A kind is
the primitive, which operands are traced and which of them are one, dtypes, ranks and parameters where they matter; never sizes.
The tables of primitives that are always loaded are one file, those of each other family stand beside it and are loaded with its
first miss. What is in no table is derived at first use (kinds.py).

Invariants: a text never depends on sizes that its kind does not tell; what a pull gives may be `ct` itself, so nobody writes in
it. Trap: a rule that was replaced is another kind, so a table counts only as long as the rules are funcad's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from math import isinf, isnan
from operator import is_
from sys import modules
from types import FunctionType
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.host.real_types import is_a
from funcad.ir.primitive import Primitive
from funcad.memo import remembers
from funcad.primitives.families import broadcast_in_dim, reshape
from funcad.primitives.shape import roll_p
from funcad.unjitted import pulls_core

LETTERS = "xyzwuvabdefgh"  # what texts call operands
Traced = tuple[int | None, ...]  # for each operand: None, or the position of the first that has the same tangent
_SCALARS = {bool, int, float, str, type(None)}  # types of parameters that are text as they are
_READS: dict[str, Any] = {**{letter: i for i, letter in enumerate(LETTERS)}, "out": ~0, "shapes": "shapes", "params": "params"}
FREE = {reshape: ("shape",), broadcast_in_dim: ("shape",), roll_p: ("shift",)}  # parameters that are of no kind
BY_ONES = frozenset([broadcast_in_dim])  # primitives whose rule asks for axes of size 1
COLUMNS = " columns"  # the end of a kind whose cotangents are many, along a leading axis
FIRST = 1000  # and above: the numbers of what texts call k0, k1 ..., which is computed where the operation stands


def ones_of(shapes: Sequence[tuple[int, ...]]) -> tuple:
    """Which axes have the size 1."""
    return tuple(["".join(["01"[n == 1] for n in shape]) for shape in shapes])


_CLASSES = {"f": "n", "c": "n", "i": "i", "u": "i", "b": "b"}, {"f": "f", "c": "c", "i": "i", "u": "i", "b": "b"}


class WrittenAhead(NamedTuple):
    """What a table has of a kind: `function(xp, ct, *reads)`."""

    function: Any
    reads: tuple  # operands (i), results (~i), what is computed `first` (FIRST + i), and then "shapes" or "params"
    begins: bool
    first: Any  # `first(xp, *reads)`, where the operation stands: what the row keeps in the place of operands; or None
    asks: bool = False  # does it hold only where the last value of `first` is true everywhere?
    # of several results: which of them have cotangents ("01", "1") -> the function of a list of these; that of all is the first
    ways: dict[str, Any] | None = None


def written_ahead(
    primitive: Primitive, pattern: Traced, avals: Sequence[Any], params: dict, ones: tuple = (), columns: bool = False
) -> WrittenAhead | None:
    """The pull of a kind that a table has, if the primitive has the rule that it was written from.

    `ones` is `ones_of` the shapes of operands and results for the primitives of BY_ONES.
    """
    kinds = _table_of(primitive)
    if kinds is None:
        return None
    ranks = [len(a.shape) for a in avals]
    for precise in range(3):  # all inexact dtypes are one, or real and complex, or each its own
        classes = [_CLASSES[precise > 0][a.dtype.kind] for a in avals]
        if precise == 2:
            classes = [a.dtype.name if c in "fc" else c for a, c in zip(avals, classes)]
        try:
            key = key_of_kind(primitive, pattern, classes, ranks, params, ones)
        except Unprintable:
            return None
        if columns:
            key += COLUMNS
        for mark in ("", "!", "!?"):
            found = kinds.get(key + mark)
            if found is not None:
                first, function = found if type(found) is tuple else (None, found)
                ways = function if type(function) is dict else None
                if ways is not None:
                    function = next(iter(ways.values()))
                return WrittenAhead(function, reads_of(function, 2), mark != "", first, mark == "!?", ways)
    return None


def _table_of(primitive: Primitive) -> dict[str, Any] | None:
    found = pulls_core.PULLS.get(primitive) or _family_table(primitive)
    return found if own_rule(primitive.jvp) else None


@remembers(1000)
def _family_table(primitive: Primitive) -> dict[str, Any] | None:
    """What the family that a primitive is of has of it."""
    for family in pulls_core.FAMILIES:
        module = modules.get(f"funcad.primitives.{family}")
        if module is not None and any(map(partial(is_, primitive), vars(module).values())):
            known = import_module(f"funcad.primitives.pulls_{family}").PULLS
            if primitive in known:
                return known[primitive]
    return None


def own_rule(jvp: Any) -> bool:
    """Is it a rule of funcad's? Another one was put into its place."""
    while type(jvp) is partial:
        jvp = jvp.func
    return str(getattr(jvp, "__module__", "")).startswith("funcad.")


@remembers(1000)
def _text_of(pattern: Traced) -> str:
    return "".join(["-" if i is None else str(i) for i in pattern])


def key_of_kind(
    primitive: Primitive, pattern: Traced, classes: Sequence[str], ranks: Sequence[int], params: dict, ones: tuple
) -> str:
    """The kind of an operation as tables have it: which operands are traced, their classes of dtypes, and what else matters."""
    if not is_elementwise(primitive):
        classes = [f"{c}{rank}" for c, rank in zip(classes, ranks)]
    key = f"{_text_of(pattern)} {','.join(classes)}"
    if params:
        free = FREE.get(primitive, ())
        words = [f" {name}={plain(value)}" for name, value in sorted(params.items()) if name not in free]
        key += "".join(words).replace('"', "'")
    return f"{key} {'|'.join(ones)}" if ones else key


def reads_of(function: Any, start: int) -> tuple:
    """What a written function reads, by the names of its parameters from this one on."""
    code = function.__code__
    names = code.co_varnames[start : code.co_argcount]
    found = tuple(map(_READS.get, names))
    return found if None not in found else tuple([_READS[name] if name in _READS else code_of(name) for name in names])


def code_of(name: str) -> int:
    """What a text reads by this name: an operand, a result, or what was computed first."""
    if name.startswith("out"):
        return ~int(name[3:])
    return FIRST + int(name[1:]) if name[0] == "k" else int(name[1:])


def is_elementwise(primitive: Primitive) -> bool:
    """Is an element of its result made of those at the same place, whatever the shapes?"""
    return primitive.emit is not None or primitive.reach == "pointwise"


# -- parameters as text


class Unprintable(Exception):
    """A pull that has no text."""


def number(value: Any) -> str:
    """A scalar as Python writes it."""
    if type(value) is float:
        return "nan" if isnan(value) else ("inf" if value > 0 else "(-inf)") if isinf(value) else _signed(value)
    if type(value) in (bool, int):
        return _signed(value)
    if type(value) is complex and value == value:
        return f"complex({number(value.real)}, {number(value.imag)})"
    if is_a(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.char not in "gG":
        return f"{value.dtype.name.replace('bool', 'bool_')}({number(value.item())})"
    if is_a(value, np.generic) and value.dtype.char in "FD":
        return f"{value.dtype.name}({number(complex(value))})"
    raise Unprintable(f"the number {value!r}")


def _signed(value: Any) -> str:
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def plain(value: Any) -> str:
    """A parameter as Python writes it."""
    kind = type(value)
    if kind in _SCALARS:
        return number(value) if kind is float else repr(value).replace("'", '"')
    if kind is tuple:
        return "(" + ", ".join(map(plain, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, np.dtype) and value.isnative and value.kind in "biufc":
        return f'dtype("{value.name}")'
    if kind is type and issubclass(value, np.generic):
        return value.__name__
    raise Unprintable(f"a parameter that is a {kind.__name__}")


# -- where values are traced


class _Recorded:
    """A primitive as a text names it, where values are traced: it is bound, wherever it is called."""

    __slots__ = ("primitive",)

    def __init__(self, primitive: Primitive):
        self.primitive = primitive

    def impl(self, xp: Any, *args: Any, **params: Any) -> Any:
        return self.primitive(*args, **params)


@remembers(64)
def _recorded_names(module: str) -> dict[str, Any]:
    """What a table's texts name, where values are traced."""
    return {name: _Recorded(x) if type(x) is Primitive else x for name, x in vars(modules[module]).items()}


def recording(function: Any) -> Any:
    """The same function for traced values."""
    return FunctionType(function.__code__, _recorded_names(function.__module__))

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
from sys import modules
from typing import Any, NamedTuple

from funcad.ir.primitive import Primitive
from funcad.memo import table
from funcad.primitives.families import broadcast_in_dim, reshape
from funcad.unjitted import deriving, pulls_core
from funcad.unjitted.deriving import Traced, Unprintable, is_elementwise, plain

_READS = {"shapes": "shapes", "params": "params"}
FREE = {reshape: ("shape",), broadcast_in_dim: ("shape",)}  # parameters that are of no kind
BY_ONES = frozenset([broadcast_in_dim])  # primitives whose rule asks for axes of size 1
COLUMNS = " columns"  # the end of a kind whose cotangents are many, along a leading axis


def ones_of(shapes: Sequence[tuple[int, ...]]) -> tuple:
    """Which axes have the size 1."""
    return tuple(["".join(["01"[n == 1] for n in shape]) for shape in shapes])


_tables = table("unjitted.written pulls", "family of primitives: what was written ahead, once it was asked for", None, None)
_CLASSES = {"f": "f", "c": "c", "i": "i", "u": "i", "b": "b"}


class WrittenAhead(NamedTuple):
    """What a table has of a kind: `function(xp, ct, *reads)`."""

    function: Any
    reads: tuple  # operands (i) and results (~i), and then "shapes" or "params"
    begins: bool


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
    classes = [_CLASSES[a.dtype.kind] for a in avals]
    for precise in range(3):  # all inexact dtypes are one, or real and complex, or each its own
        if precise == 0:
            of = ["n" if c in "fc" else c for c in classes]
        else:
            of = classes if precise == 1 else [a.dtype.name if c in "fc" else c for a, c in zip(avals, classes)]
        try:
            key = key_of_kind(primitive, pattern, of, ranks, params, ones) + COLUMNS * columns
        except Unprintable:
            return None
        for mark in ("", "!"):
            found = kinds.get(key + mark)
            if found is not None:
                return WrittenAhead(found, reads_of(found), mark == "!")
    return None


def _table_of(primitive: Primitive) -> dict[str, Any] | None:
    found = pulls_core.PULLS.get(primitive)
    if found is None:
        for family in pulls_core.FAMILIES:
            module = modules.get(f"funcad.primitives.{family}")
            if family not in _tables and module is not None and any([x is primitive for x in vars(module).values()]):
                _tables.put(family, import_module(f"funcad.primitives.pulls_{family}").PULLS)
            if primitive in _tables.get(family, ()):
                found = _tables[family][primitive]
    return found if _own_rule(primitive.jvp) else None


def _own_rule(jvp: Any) -> bool:
    """Is it a rule of funcad's? Another one was put into its place."""
    while type(jvp) is partial:
        jvp = jvp.func
    return str(getattr(jvp, "__module__", "")).startswith("funcad.")


def key_of_kind(
    primitive: Primitive, pattern: Traced, classes: Sequence[str], ranks: Sequence[int], params: dict, ones: tuple
) -> str:
    """The kind of an operation as tables have it: which operands are traced, their classes of dtypes, and what else matters."""
    elementwise = is_elementwise(primitive)
    traced = "".join(["-" if i is None else str(i) for i in pattern])
    operands = ",".join([c if elementwise else f"{c}{rank}" for c, rank in zip(classes, ranks)])
    free = FREE.get(primitive, ())
    words = "".join([f" {key}={plain(value)}" for key, value in sorted(params.items()) if key not in free])
    return f"{traced} {operands}{words}{' ' * bool(ones)}{'|'.join(ones)}".replace('"', "'")


def reads_of(function: Any) -> tuple:
    """What a written function reads, by the names of its parameters."""
    code = function.__code__
    return tuple([_READS.get(name) or deriving.code_of(name) for name in code.co_varnames[2 : code.co_argcount]])

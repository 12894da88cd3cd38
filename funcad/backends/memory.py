"""Which memory a value lives in, and when it may be written again.

Idea: every value of a program being written out knows the blocks of memory (`Storage`) that it may share, and every block
knows the values that may see it. A block that the program itself allocated may be overwritten by an operation exactly when all
values that see it die with that operation. What an unknown operation gives may share the memory of all its operands. Nothing
of this is written into the IR. Invariants: inputs are never owned (unless donated); outputs never die, so what they see is
never written; a broadcast view is never a target.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from funcad.ir.jaxpr import Var

__all__ = ["Storage", "Value", "writable_operand", "let_go", "deaths"]


class Storage:
    """One block of memory. `owned`: the program may write it; `scratch`: the name under which a loop keeps it."""

    __slots__ = ("owned", "users", "scratch", "key")

    def __init__(self, owned: bool, scratch: str | None = None, key: Any = None):
        self.owned = owned
        self.scratch = scratch
        self.key = key  # (shape, dtype) of the scratch array
        self.users: set[Value] = set()


class Value:
    """A variable while its program is written out.

    `text` names it; `shape` is the array's own shape, which is smaller than the aval's where a broadcast was left to the
    consumers; `whole` says that an operation may write its result into it, if the storage allows.
    """

    __slots__ = ("text", "aval", "shape", "storages", "whole", "alive")

    def __init__(self, text: str, aval: Any, storages: Iterable[Storage] = (), whole: bool = False, shape: Any = None):
        self.text = text
        self.aval = aval
        self.shape = aval.shape if shape is None else shape
        self.storages = tuple(dict.fromkeys(storages))
        self.whole = whole and len(self.storages) == 1
        self.alive = True
        for s in self.storages:
            s.users.add(self)


def let_go(value: Value) -> list[Storage]:
    """The value is dead; the storages that nobody sees any more."""
    gone = []
    for s in value.storages:
        s.users.discard(value)
        if not s.users:
            gone.append(s)
    return gone


def deaths(equations: Sequence[Any], keep: Iterable[Any]) -> list[tuple[Var, ...]]:
    """For each equation, the variables that nobody reads after it; those in `keep` never die."""
    seen = set(keep)
    result = []
    for equation in reversed(equations):
        dead = []
        for atom in (*equation.outputs, *equation.inputs):
            if type(atom) is Var and atom not in seen:
                seen.add(atom)
                dead.append(atom)
        result.append(tuple(dead))
    result.reverse()
    return result


def writable_operand(operands: Iterable[Value], dying: Iterable[Value], aval: Any) -> Value | None:
    """An operand into which an elementwise operation may write a result of this aval."""
    dead = set(dying)
    for v in operands:
        if v in dead and v.whole and v.shape == aval.shape and v.aval.dtype == aval.dtype and v.aval.shape == aval.shape:
            (storage,) = v.storages
            if storage.owned and storage.users <= dead:
                return v
    return None

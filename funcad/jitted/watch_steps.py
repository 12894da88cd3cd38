"""Steps from a function to what it reads, how each value is told from another one, and the comparison written out as code.

Idea: a `Watch` is one step (`.__globals__`, `["lr"]`, `.cell_contents`, `.rate`) from another watch, the first of which is the
function. A program's watches are written out as one Python function of the traced function, which takes the steps that watches
share once: a global costs some 20 nanoseconds. What goes wrong on the way means that something changed.

Invariant: what is kept refers to no object of the user's but weakly, to scalars, to types and to codes: caches belong to
functions, and a cache that referred to its own function would never be freed. Traps: `==` is never asked of the user's objects;
steps read attributes that were found in an object's or a class's own dict, so no property and no `__getattr__` is called.
"""

from __future__ import annotations

import builtins
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.jitted.code_reads import MISSING
from funcad.memo import remembers
from funcad.tree.same import same, same_key

SCALARS = frozenset([bool, int, float, complex, str, bytes, type(None), slice, range, type(Ellipsis)])


def is_scalar(x: Any) -> bool:
    """Is x told from others by its type and its bits?"""
    kind = type(x)
    return kind in SCALARS or is_a(x, (np.generic, np.dtype)) and kind is not np.void


def same_keys(x: Any, known: tuple[type, tuple[Any, ...]]) -> bool:
    return type(x) is known[0] and same((*x,), known[1])


def reference(x: Any) -> tuple[str, Any]:
    """The comparison by identity: weak, where Python can."""
    try:
        return "ref", weakref.ref(x)
    except TypeError:
        return "is", x


# name -> (does it hold?, the same as text)
CHECKS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "is": (lambda x, known: x is known, "{x} is {k}"),
    "ref": (lambda x, known: known() is x, "{k}() is {x}"),
    "scalar": (lambda x, known: x is known or same(x, known), "({x} is {k} or _same({x}, {k}))"),
    "number": (lambda x, known: type(x) is known, "type({x}) is {k}"),  # an input of the program
    "code": (lambda x, known: x.__code__ is known, "{x}.__code__ is {k}"),
    "class": (lambda x, known: known() is type(x), "{k}() is type({x})"),
    "items": (lambda x, known: type(x) is known[0] and len(x) == known[1], "(type({x}) is {k}[0] and len({x}) == {k}[1])"),
    "sized": (lambda x, known: x is known[0] and len(x) == known[1], "({x} is {k}[0] and len({x}) == {k}[1])"),
    "keys": (same_keys, "_same_keys({x}, {k})"),
    "set": (lambda x, known: same_key(x, True) == known, "_same_key({x}, True) == {k}"),
}
# name -> (the step, the same as text); {k} is the key as it is, {c} as a constant
STEPS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "root": (lambda x, key: x, "{p}"),
    "constant": (lambda x, key: key, "{c}"),
    "attribute": (getattr, "{p}.{k}"),
    "hidden": (object.__getattribute__, "_hidden({p}, {c})"),  # of objects with a `__getattribute__` of their own
    "item": (lambda x, key: x[key], "{p}[{c}]"),
    "entry": (lambda x, key: dict.__getitem__(x, key), "_entry({p}, {c})"),  # of objects with a `__getitem__` of their own
    "get": (lambda x, key: x.get(key, MISSING), "{p}.get({c}, _M)"),
    "cell": (lambda x, key: x[key].cell_contents, "{p}[{k}].cell_contents"),
    "type": (lambda x, key: type(x), "type({p})"),
    "base": (lambda x, key: x.__mro__[key[0]].__dict__[key[1]], "{p}.__mro__[{c}[0]].__dict__[{c}[1]]"),
}


class Watch:
    """A step, and what was found there; without a `check` it is only on the way."""

    __slots__ = ("parent", "step", "key", "label", "check", "known")

    def __init__(self, parent: Watch | None, step: str, key: Any, label: str, check: str | None = None, known: Any = None):
        self.parent = parent
        self.step = step
        self.key = key
        self.label = label  # what the user calls it
        self.check = check
        self.known = known  # an "alias" knows the watch that found the same object

    def value(self, found: dict[Watch, Any], f: Any) -> Any:
        return STEPS[self.step][0](f if self.parent is None else found[self.parent], self.key)

    def holds(self, x: Any, found: dict[Watch, Any]) -> bool:
        if self.check is None:
            return True
        return x is found.get(self.known) if self.check == "alias" else CHECKS[self.check][0](x, self.known)


def evaluated(watches: Sequence[Watch], f: Any) -> Iterator[tuple[Watch, Any, bool]]:
    """(watch, what is there now, is it what was found?), of those that can be reached still."""
    found: dict[Watch, Any] = {}
    for w in watches:
        if w.parent is not None and w.parent not in found:
            continue
        try:
            x = w.value(found, f)
            holds = w.holds(x, found)
        except Exception:  # deleted, emptied, or of another kind than it was
            yield w, MISSING, False
            continue
        if holds:
            found[w] = x
        yield w, x, holds


def shown(x: Any) -> str:
    """A value, for messages."""
    if x is MISSING:
        return "nothing"
    if type(x) is weakref.ref:
        x = x()
        return "another object" if x is None else shown(x)
    if is_scalar(x):
        return f"{x!r:.60}"
    if is_a(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}"
    if type(x) in (list, tuple, dict, set):
        return f"a {type(x).__name__} of {len(x)}"
    return f"a {type(x).__name__}"


def written_out(watches: Sequence[Watch]) -> Callable[[Any], Any]:
    """`holds(f)`: is everything as it was found? Where numbers are inputs, these are returned."""
    scope: dict[str, Any] = {"_same": same, "_same_key": same_key, "_same_keys": same_keys, "_M": MISSING}
    scope.update(_hidden=object.__getattribute__, _entry=dict.__getitem__)
    names: dict[int, str] = {}
    lines = ["def _holds(f):", "    try:"]
    for i, w in enumerate(watches):
        names[id(w)] = x = f"x{i}"
        scope[f"c{i}"], scope[f"k{i}"] = w.key, w.known
        constant = repr(w.key) if type(w.key) in (str, int) else f"c{i}"
        parent = "f" if w.parent is None else names[id(w.parent)]
        lines.append(f"        {x} = " + STEPS[w.step][1].format(p=parent, k=w.key, c=constant))
        if w.check == "alias":
            lines.append(f"        if {x} is not {names[id(w.known)]}: return False")
        elif w.check is not None:
            lines.append(f"        if not {CHECKS[w.check][1].format(x=x, k=f'k{i}')}: return False")
    inputs = "".join([f"{names[id(w)]}, " for w in watches if w.check == "number"])
    inputs = inputs and f"({inputs})"
    lines += ["    except Exception:", "        return False"]  # deleted, or of another kind than it was
    lines.append(f"    return {inputs or True}")
    exec(_compiled("\n".join(lines)), scope)
    holds: Callable[[Any], Any] = scope.pop("_holds")
    return holds


@remembers(512)
def _compiled(text: str) -> types.CodeType:
    return builtins.compile(text, f"{__file__}<holds>", "exec")

"""Does a function look at the order in which the keys of its dict arguments came?

Idea: a dict tells its order to who runs over it (or its keys, values, items), opens it by `**`, makes a text of it, or gets it
as a whole: a library's function, a caller, an attribute. Who asks for single keys, for the number of them or whether one is
there sees no order; a program that was traced by nothing else holds for every order. Invariant: in doubt the order is seen,
which costs a trace for each order and no right answer. Trap: dicts that the function makes have the order that it gave them,
unless they were made from one of these, which somebody ran over then.
"""

from __future__ import annotations

import builtins
import collections
import functools
import types
from typing import Any

import numpy as np

from funcad import tree
from funcad.errors import TreeDepthError
from funcad.host.real_types import is_a
from funcad.ir.tracer import Tracer
from funcad.reads.code_reads import is_library
from funcad.tree.containers import LEAF_TYPES
from funcad.tree.same import held_by, slots_of

_BY_KEY = frozenset("get __getitem__ __contains__ __len__ __eq__ __ne__".split())  # methods that tell no order
_TOLD_NOTHING = frozenset([builtins.len, builtins.bool, builtins.id, builtins.type, builtins.getattr, builtins.hasattr])
_OPAQUE = (*LEAF_TYPES, Tracer, np.ndarray, np.generic, type, types.ModuleType, types.FunctionType)


def _dicts_in(x: Any) -> list[Any]:
    """The dicts of several keys that x is made of, x among them."""
    found: list[Any] = []

    def noted(part: Any) -> bool:
        if is_a(part, dict) and len(part) > 1 and not is_a(part, collections.OrderedDict):  # whose order is its structure's
            found.append(part)
        return False

    todo, met = [x], set()
    while todo:
        for part in tree.leaves(todo.pop(), noted):
            if id(part) in met or is_a(part, _OPAQUE):
                continue
            met.add(id(part))
            if is_a(part, (set, frozenset, collections.deque)):
                todo += part
            elif is_a(part, (types.BuiltinMethodType, types.MethodType)):
                todo.append(part.__self__)
            elif is_a(part, functools.partial):
                todo += [part.args, part.keywords]
            elif not is_library(type(part)):
                todo += held_by(part, slots_of(type(part))).values()
    return found


class KeyOrders:
    """The dicts among the arguments of one run of a function: `seen` says whether it saw the order of one."""

    __slots__ = ("dicts", "seen")

    def __init__(self) -> None:
        self.dicts: dict[int, Any] = {}
        self.seen = False

    def begin(self, *arguments: Any) -> None:
        try:
            self.dicts = {id(x): x for x in _dicts_in(arguments)}
        except TreeDepthError:  # too deep for what is left of Python's stack
            self.dicts, self.seen = {}, True

    def opened(self, x: Any, depth: int = 1) -> None:
        """Somebody runs over x, and where it is so deep, over what is in it."""
        if not self.dicts or self.seen:
            return
        try:
            self.seen = id(x) in self.dicts or depth > 1 and any([id(d) in self.dicts for d in _dicts_in(x)])
        except TreeDepthError:  # it contains itself
            self.seen = True

    def handed(self, *values: Any) -> None:
        """Values that go where nobody sees what becomes of them."""
        self.opened(values, 2)

    def asked(self, f: Any, owner: Any, args: tuple, kwargs: dict) -> None:
        """A library's function is called; `owner`: of a method."""
        if not self.dicts:
            return
        if id(owner) in self.dicts and f.__name__ not in _BY_KEY:
            self.seen = True
        if is_a(f, (types.BuiltinFunctionType, type)) and f in _TOLD_NOTHING:
            return
        self.handed(*args, *kwargs.values())

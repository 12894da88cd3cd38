"""What a traced function read from closures, globals, defaults and attributes: found before the trace, compared at every call.

Idea: for functions without a source, or with code that runs un-twinned. Bytecode says which names f reads
(reads/code_reads.py). From f, its globals, cells, defaults, and the objects that these hold are walked: an attribute is watched
where an object that can be reached has one of a name which some code that can be reached reads. So no order of attributes,
alias or loop needs to be understood; a little more is watched than is read. Scalars are told by type and bits, containers of up
to 64 scalars by content, functions of the user's by code, other objects by identity.

Invariants: nothing of the user's runs: no property, no `__eq__`, no `__getattr__`. Values are taken before the trace, and what
f changed itself while it was traced is not watched: names that it stores, attributes that it stores and changed, items that
changed. What somebody else changed meanwhile stays, with the value of before, so that the next call traces
again; if that happens twice, f changes it by ways that cannot be seen. Traps: of functions, classes and modules of libraries
nothing is watched; arrays are watched by identity, their contents are inputs of the program (see jit.py).
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import sys
import types
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from funcad.api.border import name_of
from funcad.host.real_types import is_a
from funcad.ir.tracer import Tracer
from funcad.reads.code_reads import MISSING, Reads, content, is_library, is_of_library, reads_of
from funcad.reads.places import (
    Guards,
    Place,
    bytes_of,
    dict_of,
    elements_of,
    evaluated,
    found_as,
    is_scalar,
    keys_of,
    reference,
)

MOST_SCALARS = 64  # in a container that is watched by content
MOST_ITEMS = 256  # in a container whose items are looked at
MOST_WATCHES = 2000
_LISTS = (list, tuple, collections.deque)
_NOT_READ = frozenset("__init__ __new__ __repr__ __str__ __eq__ __hash__ __del__ __init_subclass__ __class_getitem__".split())
_RECORDS = (types.SimpleNamespace,)  # told by their class and the attributes that are read, as dataclasses are
_DRAWING = ("numpy.random", "random")  # modules of generators
_DEEP = 3  # libraries' objects in one another that may hold one
_STORING = frozenset(["setattr", "delattr", "vars", "__dict__", "__setattr__", "__delattr__"])
_WHOLE = frozenset(["asdict", "astuple", "fields", "vars", "__dict__"])  # whoever says so reads all attributes
_CATCHING = frozenset(["AttributeError", "Exception"])  # whoever says so may read what is not there
_LEADING = ("__getattr__", "__getitem__", "__call__")  # methods that read attributes of names which no code of the user's says


def _of_rules(x: Any) -> bool:
    """Is it what holds a rule for each argument?"""
    return type(x) in (tuple, dict) and any(map(callable, x.values() if type(x) is dict else x))


def _is_plain_key(key: Any) -> bool:
    return is_scalar(key) or type(key) is tuple and all(map(_is_plain_key, key)) or type(key).__eq__ is object.__eq__


class Found:
    """A walk from a function over what it may read."""

    def __init__(self, f: Any, constants: Iterable[tuple[str, Any]]):
        self.names: set[str] = set()
        self.asked: set[str] = set()
        self.mentioned: set[str] = set()
        self.reads: list[Reads] = []
        self.stored_attributes: set[str] = set()
        self.alone = False  # has the function no twin, which would tell what it stores?
        self.ruled = False  # are there rules of the user's, which may be defined again?
        constants = list(constants)
        while True:
            before = len(self.names) + len(self.asked)
            self.watches: list[Place] = []
            self.live: dict[int, tuple[Place, Any]] = {}  # objects and containers by identity; they live while f is traced
            self.holders: dict[Place, object] = {}  # of globals and cells: which one it is
            self.own: set[object] = set()  # those that the functions found store themselves
            self.stored: list[tuple[str, Any, frozenset[str]]] = []  # the same: where they are
            self.codes: list[types.CodeType] = []
            self.unlooked: list[str] = []  # what holds more than is looked at
            self.reads.clear()
            self.todo: collections.deque[tuple[Place, Any]] = collections.deque()
            self.on_the_way(Place(None, "root", None, ""), f)
            for label, x in constants:
                if not is_scalar(x):
                    self.on_the_way(found_as(x, label), x)
            while self.todo and len(self.watches) < MOST_WATCHES:
                self.expand(*self.todo.popleft())
            if self.todo:
                self.unlooked.append(f"what it reads, more than {MOST_WATCHES:,} values,")
            if len(self.names) + len(self.asked) == before:
                break
        self.stored_attributes = {name for reads in self.reads for name in reads.stored_attributes}

    # -- one value
    def on_the_way(self, w: Place, x: Any = None) -> Place:
        """Without a comparison: it cannot change, or what is found behind it tells."""
        self.watches.append(w)
        if x is not None and id(x) not in self.live:
            self.live[id(x)] = (w, x)
            self.todo.append((w, x))
        return w

    def step(
        self,
        parent: Place,
        step: str,
        key: Any,
        x: Any,
        label: str,
        check: str | None = None,
    ) -> None:
        """A value that may change."""
        w = Place(parent, step, key, label)
        if is_scalar(x):
            w.check, w.known = "scalar", x
            self.watches.append(w)
            return
        kind = type(x)
        if kind is Tracer:
            return
        if id(x) in self.live:
            w.check, w.known = "alias", self.live[id(x)][0]
            self.watches.append(w)
            return
        if kind is types.FunctionType and not is_library(x):
            w.check, w.known = "code", x.__code__
        elif _is_list(kind):
            self._items(w, x)
        elif issubclass(kind, dict):
            self._keys(w, x)
        elif kind in (set, frozenset) and len(x) <= MOST_ITEMS:
            w.check, w.known = "set", elements_of(x)
            self._told_by_identity(x)
        elif kind in (types.MethodType, functools.partial):  # made anew at each access
            w.check, w.known = "class", weakref.ref(kind)
        elif kind in _RECORDS or _raw(kind, "__dataclass_fields__") is not None:
            w.check, w.known = "class", weakref.ref(kind)
        else:
            w.check, w.known = reference(x)
        self.on_the_way(w, x)

    def _items(self, w: Place, x: Any) -> None:
        if _is_long(x):
            w.check, w.known = "sized", (x, len(x))
            self.unlooked.append(w.label)
        else:
            w.check, w.known = "items", (type(x), len(x))

    def _keys(self, w: Place, x: Any) -> None:
        keys = [*dict.keys(x)]
        if type(x).__iter__ not in (dict.__iter__, collections.OrderedDict.__iter__) or not all(map(_is_plain_key, keys)):
            w.check, w.known = reference(x)
        elif _is_long(dict.values(x)):
            w.check, w.known = "sized", (x, len(x))
            self.unlooked.append(w.label)
        else:
            w.check, w.known = "keys", (type(x), keys_of(x))
            self._told_by_identity(keys)

    def _told_by_identity(self, keys: Iterable[Any]) -> None:
        for k in keys:
            if not is_scalar(k) and type(k) is not tuple and reference(k)[0] == "ref":
                self.on_the_way(Place(None, "weak", weakref.ref(k), "a key"), k)

    # -- what is behind it
    def expand(self, w: Place, x: Any) -> None:
        kind = type(x)
        if kind is types.FunctionType:
            self._function(w, x)
        elif kind is types.MethodType:
            if w.parent is None:
                self.on_the_way(Place(w, "attribute", "__self__", "self"), x.__self__)
                self.on_the_way(Place(w, "attribute", "__func__", ""), x.__func__)
            else:
                self.step(w, "attribute", "__self__", x.__self__, f"{w.label}.__self__")
                self.step(w, "attribute", "__func__", x.__func__, w.label)
        elif kind is functools.partial:
            for name in ("func", "args", "keywords"):
                self.step(w, "attribute", name, getattr(x, name), f"{w.label}.{name}".removeprefix("."))
        elif _is_list(kind):
            for i, v in enumerate(x) if not _is_long(x) else ():
                self.step(w, "item", i, v, f"{w.label}[{i}]")
        elif issubclass(kind, dict):
            self._dict(w, x)
        elif issubclass(kind, types.ModuleType):
            self._module(w, x)
        elif issubclass(kind, type):
            if not is_library(x) and not issubclass(x, enum.Enum):
                self._class(w, x, None, {})
        elif kind.__module__.partition(".")[0] == "funcad":
            self._ours(w, x)
        elif kind.__module__.partition(".")[0] != "numpy" and not issubclass(kind, (enum.Enum, np.ndarray)):
            self._object(w, x)

    def _dict(self, w: Place, x: dict) -> None:
        plain = type(x).__getitem__ is dict.__getitem__ and not hasattr(type(x), "__missing__")
        if not _is_long(dict.values(x)):
            for k, v in dict.items(x):
                if _is_plain_key(k):
                    self.step(w, "item" if plain else "entry", k, v, f"{w.label}[{k!r:.40}]")
        if type(x) is not dict and dict_of(x):
            self._object(w, x)

    def _function(self, w: Place, f: types.FunctionType) -> None:
        closure = list(zip(f.__code__.co_freevars, f.__closure__ or ()))
        cells = self.on_the_way(Place(w, "attribute", "__closure__", "")) if closure else w
        if is_library(f):
            for i, (_, cell) in enumerate(closure):
                x = content(cell)
                if (callable(x) or _of_rules(x)) and str(f.__globals__.get("__name__")).partition(".")[0] == "funcad":
                    self.on_the_way(Place(cells, "cell", i, w.label), x)
            return
        reads = reads_of(f.__code__)
        self.reads.append(reads)
        self.names |= reads.attributes | reads.asked
        self.asked |= reads.asked
        self.mentioned |= reads.attributes | reads.globals
        table = f.__globals__
        names = self.on_the_way(Place(w, "attribute", "__globals__", ""))
        self.codes.append(f.__code__)
        if reads.stored_globals:
            self.own.update([(id(table), name) for name in reads.stored_globals])
            self.stored.append(("global", table, reads.stored_globals))
        for name, cell in closure:
            if name in reads.stored_cells:
                self.own.add(id(cell))
                self.stored.append((f"closure variable {name}", cell, frozenset()))
        for name in sorted(reads.globals):
            if name in table:
                self._named(names, name, table, f"global {name}")
            elif hasattr(builtins, name):
                self.watches.append(Place(names, "has", name, f"global {name}", "is", False))
            else:
                self.watches.append(Place(names, "get", name, f"global {name}", "is", MISSING))
        for i, (name, cell) in enumerate(closure):
            x = content(cell)
            if x is not MISSING and name != "__class__":
                self.step(cells, "cell", i, x, f"closure variable {name}")
                self.holders[self.watches[-1]] = id(cell)
        for attribute in ("__defaults__", "__kwdefaults__"):
            if getattr(f, attribute):
                self.step(w, "attribute", attribute, getattr(f, attribute), f"defaults of {f.__name__}")
        modules = self.on_the_way(Place(None, "constant", sys.modules, "")) if reads.imports else w
        for name in sorted(reads.imports):
            if name in sys.modules:
                self._named(modules, name, sys.modules, f"the module {name}")
            else:
                self.watches.append(Place(modules, "get", name, f"the module {name}", "is", MISSING))

    def _named(self, names: Place, name: str, table: dict[str, Any], label: str) -> None:
        """What stands in the namespace of a module."""
        x = table[name]
        if is_of_library(x):
            self.watches.append(Place(names, "item", name, label, "name", x))
        elif issubclass(type(x), types.ModuleType):
            self.on_the_way(Place(names, "item", name, label.removeprefix("global ")), x)
            return
        else:
            self.step(names, "item", name, x, label)
        self.holders[self.watches[-1]] = (id(table), name)

    def _module(self, w: Place, x: types.ModuleType) -> None:
        if not is_library(x):
            names = self.on_the_way(Place(w, "attribute", "__dict__", ""))
            for name in sorted(self.names & vars(x).keys()):
                self._named(names, name, vars(x), f"{w.label}.{name}")

    def _ours(self, w: Place, x: Any) -> None:
        """The functions of the user's in a function that a transform returned."""
        slots = [n for c in type(x).__mro__ for n in c.__dict__.get("__slots__", ()) if n[:2] != "__" and hasattr(x, n)]
        for name in [*dict_of(x), *slots]:
            v = getattr(x, name)
            if name in getattr(type(x), "defined", ()):
                self.step(w, "attribute", name, v, f"a rule of {name_of(x)}")
                self.ruled = True
            elif callable(v) and (name == "__wrapped__" or name[:2] != "__") and type(v) is not weakref.ref:
                self.on_the_way(Place(w, "attribute", name, w.label), v)

    def _object(self, w: Place, x: Any) -> None:
        kind, inside = type(x), dict_of(x)
        leading = is_library(kind) and any([type(_raw(kind, m)) is types.FunctionType for m in _LEADING])
        leading = leading or not _WHOLE.isdisjoint(self.mentioned)
        step = "hidden" if type(_raw(kind, "__getattribute__")) is types.FunctionType else "attribute"
        for name in [n for n in inside if type(n) is str and n.isidentifier() and (leading or n in self.names)]:
            if not hasattr(type(_raw(kind, name)), "__set__"):
                self.step(w, step, name, inside[name], f"{w.label}.{name}")
        if not is_library(kind):
            self._class(self.on_the_way(Place(w, "type", None, w.label)), kind, w, inside)
        if kind.__dictoffset__ and (not is_library(kind) or kind in _RECORDS):
            own = self.on_the_way(Place(w, "hidden", "__dict__", ""))
            absent = self.asked if _CATCHING.isdisjoint(self.mentioned) else self.names
            for name in sorted(absent - inside.keys()):
                if _raw(kind, name) is None:
                    self.watches.append(Place(own, "get", name, f"{w.label}.{name}", "is", MISSING))
            if not _WHOLE.isdisjoint(self.mentioned):
                self.watches.append(Place(own, "again", "keys", f"the names in {w.label}", "names", keys_of(inside)))

    def _class(self, w: Place, kind: type, of: Place | None, inside: dict[str, Any]) -> None:
        """Attributes of a class, read of it or of an instance, `of`, that has those of `inside` itself."""
        if not is_library(type(kind)):
            self._class(self.on_the_way(Place(w, "type", None, w.label)), type(kind), None, {})
        done: set[str] = set()
        for i, base in enumerate(kind.__mro__):
            if base is object or is_library(base):
                continue
            for name, raw in list(base.__dict__.items()):
                special = name[:2] == "__" == name[-2:] and (of is None or name not in _NOT_READ)
                if name not in self.names and not (special and type(raw) is types.FunctionType):
                    continue
                first = name not in done
                done.add(name)
                self._class_attribute(w, (i, name), raw, first, of, name in inside, special)

    def _class_attribute(
        self,
        w: Place,
        at: Any,
        raw: Any,
        first: bool,
        of: Place | None,
        hidden: bool,
        special: bool,
    ) -> None:
        label = f"{w.label}.{at[1]}"
        way, key = ("attribute", at[1]) if first else ("base", at)
        if type(raw) is types.FunctionType:
            if special:
                self.on_the_way(Place(w, way, key, label), raw)
            else:
                self.step(w, way, key, raw, label)
        elif type(raw) in (property, functools.cached_property, staticmethod, classmethod):
            inner = "fget" if type(raw) is property else "func" if type(raw) is functools.cached_property else "__func__"
            found = getattr(raw, inner)
            if type(found) is types.FunctionType:
                self.on_the_way(Place(self.on_the_way(Place(w, "base", at, "")), "attribute", inner, label), found)
        elif type(raw) is types.MemberDescriptorType:
            if of is not None and first:
                x = _content_of(raw, self.live, of)
                if x is not MISSING:
                    self.step(of, "attribute", at[1], x, label)
        elif type(raw).__module__.partition(".")[0] == "funcad":
            self.on_the_way(Place(w, "base", at, label), raw)
        elif first and not hidden and not hasattr(type(raw), "__get__"):
            self.step(w, "attribute", at[1], raw, label) if of is None else self.step(of, "attribute", at[1], raw, label)

    def looks_at(self, code: types.CodeType) -> bool:
        """Is it one of the codes that were found, or inside of one?"""
        return any([code is known or _is_inside(code, known) for known in self.codes])

    # -- what may be left behind, see left_behind.py
    def objects(self) -> list[tuple[str, Any]]:
        """The objects and containers of the user's, whose attributes and items may be stored."""
        found: list[tuple[str, Any]] = []
        for w, x in self.live.values():
            kind = type(x)
            label = w.label.removeprefix("global ").removeprefix("closure variable ") or "the function"
            mine = kind in _RECORDS or not is_library(x if issubclass(kind, (type, types.FunctionType)) else kind)
            if issubclass(kind, (list, dict, set, collections.deque)):
                found += [(label, x), (label, dict_of(x))]
            elif mine and (self.stored_attributes or not _STORING.isdisjoint(self.mentioned)):
                found.append((label, x))
            elif self.alone and is_a(x, np.ndarray):
                found.append((label, x))
        return found

    def stores(self) -> list[tuple[str, Any, frozenset[str]]]:
        return self.stored

    def generators(self) -> list[tuple[str, Any]]:
        """Random generators that are held, by libraries' objects too, or methods of such."""
        found: dict[int, tuple[str, Any]] = {}
        todo = [(w.label, x, _DEEP) for w, x in self.live.values()]
        while todo:
            label, x, deep = todo.pop()
            x = getattr(x, "__self__", x) if type(x) in (types.BuiltinFunctionType, types.MethodType) else x
            if any([str(base.__module__).startswith(_DRAWING) for base in type(x).__mro__]):
                found.setdefault(id(x), (label, x))
            elif deep and not is_a(x, (type, types.ModuleType, types.FunctionType)) and is_library(type(x)):
                todo += [(label, v, deep - 1) for v in dict_of(x).values()]
        return [*found.values()]

    # -- after the trace
    def settle(self, f: Any, moved: set[str], contents: bool) -> Guards | None:
        """What to compare from now on; None if there is nothing. `moved`: labels of what changed before without f's code.

        contents: of arrays too, because not all that was read of them was seen.
        """
        elements: list[Place] = []
        dropped = {id(w) for w, holder in self.holders.items() if holder in self.own}
        globals_ = set(map(id, self.holders))
        items = {key for reads in self.reads for key in reads.stored_items}  # rules may run after the trace
        dropped |= {id(w) for w in self.watches if w.step in ("item", "entry") and w.key in items and id(w) not in globals_}
        for w, x, holds in evaluated(self.watches, f):
            if holds:
                if contents and type(x) is np.ndarray and w.check != "alias":
                    elements.append(Place(w, "again", "bytes", f"the elements of {w.label}", "bytes", bytes_of(x)))
                continue
            if w.check in ("items", "keys", "sized"):
                w.check = None  # f changed which items there are; those that it left as they were are watched
            elif w.check == "set" or w.step in ("item", "entry") and id(w) not in globals_:
                dropped.add(id(w))
            elif w.step in ("attribute", "hidden", "get") and w.key in self.stored_attributes or w.label in moved:
                dropped.add(id(w))
            else:
                moved.add(w.label)
        for w in self.watches:  # parents come first
            if w.parent is not None and id(w.parent) in dropped:
                dropped.add(id(w))
        needed: set[int] = set()
        for w in reversed(self.watches):
            if id(w) not in dropped and (w.check is not None or id(w) in needed):
                needed.update([id(w), id(w.parent)])
                if w.check == "alias":
                    if id(w.known) in dropped:
                        w.check = None
                    else:
                        needed.add(id(w.known))
        kept = [w for w in self.watches if id(w) in needed and id(w) not in dropped]
        kept += [w for w in elements if w.known is not None and id(w.parent) in needed and id(w.parent) not in dropped]
        self.live, self.todo = {}, []
        return Guards(kept) if any([w.check is not None for w in kept]) else None


def _content_of(slot: Any, live: dict[int, tuple[Place, Any]], of: Place) -> Any:
    x = next((value for w, value in live.values() if w is of), MISSING)
    try:
        return slot.__get__(x)
    except AttributeError:  # not assigned yet
        return MISSING


def _raw(kind: type, name: str) -> Any:
    """What a class has under a name, as it stands there; None if nothing."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def _is_inside(code: types.CodeType, known: types.CodeType) -> bool:
    return any([code is inner or _is_inside(code, inner) for inner in known.co_consts if type(inner) is types.CodeType])


def _is_list(kind: type) -> bool:
    """A list, a tuple, a deque, or a class of the user's that reads its items as these do."""
    own = next((c for c in _LISTS if issubclass(kind, c)), None)
    return own is not None and all([getattr(kind, m) is getattr(own, m) for m in ("__getitem__", "__len__", "__iter__")])


def _is_long(items: Any) -> bool:
    return len(items) > MOST_ITEMS or sum(map(is_scalar, items)) > MOST_SCALARS


def look(f: Any, constants: Sequence[tuple[str, Any]]) -> Found:
    """What f may read, as it is before f is traced; constants: the static arguments, with what to call them."""
    return Found(f, constants)

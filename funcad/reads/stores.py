"""What a function stored in what was there before it: taken back when its trace ends, and replayed after each call.

Idea: a container or an object is copied before the function changes it for the first time. When the function has returned, what
is there is compared with the copy; the differences are outputs of the program, and the user's objects hold again what they
held. A call writes the outputs back when it has succeeded. What the function read of a place that it then stored would keep the
value of the trace, so such places become inputs of the next trace (`advancing`).

Traps: a list that grew is appended to, never replaced; all containers are found before the first is written, because one store
may hide the next; what cannot be made anew at each call (an object made inside, a function) is refused.
"""

from __future__ import annotations

import collections
import threading
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.errors import UnexpectedTracerError
from funcad.host.real_types import is_a
from funcad.ir.tracer import Tracer
from funcad.reads.code_reads import MISSING, content, is_library
from funcad.reads.places import Place, dict_of, is_scalar, reference, value_at
from funcad.tree.same import same

if TYPE_CHECKING:
    from funcad.reads.observer import Observer

_FIXED = (type, types.ModuleType, types.FunctionType, types.MethodType)
lock = threading.RLock()  # of calls that write back: what they read is held until it is written


class Store(NamedTuple):
    """One entry that is written back."""

    place: Place  # of what holds it
    how: str
    key: Any
    label: str
    count: int  # of the outputs that are its leaves
    make: Callable[[Sequence[Any]], Any]  # the value, of these


def _attributes(x: Any) -> dict[str, Any]:
    inside = dict(x.__dict__) if is_a(x, type) else dict_of(x).copy()
    for base in type(x).__mro__ if not is_a(x, type) else ():
        for name, raw in base.__dict__.items():
            if type(raw) is types.MemberDescriptorType:
                try:
                    inside[name] = raw.__get__(x)
                except AttributeError:  # not assigned
                    continue
    return inside


def copied(x: Any) -> Any:
    """What x holds."""
    if is_a(x, dict):
        return dict(dict.items(x))
    if is_a(x, (list, collections.deque)):
        return list(x)
    if is_a(x, set):
        return set(x)
    return _attributes(x)


class Stores:
    """The stores of one run."""

    def __init__(self, observer: Observer):
        self.observer = observer
        self.before: dict[int, tuple[Any, Place, Any]] = {}  # by identity: what was changed, where it is, what it held
        self.names: dict[Place, tuple[Any, Any]] = {}  # of globals and cells: the table or the cell, and what it held
        self.advancing: set[str] = set()  # labels of what was read and then stored

    # -- told by the hooks, before it happens

    def name(self, parent: Place, table: dict[str, Any], name: str, label: str) -> None:
        place = self.observer.place(parent, "item", name, label)
        self.names.setdefault(place, (table, table.get(name, MISSING)))

    def cell(self, parent: Place, cell: Any, at: int, label: str) -> None:
        place = self.observer.place(parent, "cell", at, label)
        self.names.setdefault(place, (cell, content(cell)))

    def attribute(self, x: Any, name: str) -> None:
        place = self._changes(x)
        if place is not None:
            step = "raw" if is_a(x, type) else "attribute"
            self._mark(place, step, name, f"{place.label}.{name}")
            self._mark(place, "own", name, f"{place.label}.{name}")

    def item(self, x: Any, key: Any, value: Any) -> None:
        observer = self.observer
        if is_a(x, np.ndarray):
            place = observer.of(x)
            if place is not None and type(value) is not Tracer and type(key) is not Tracer:
                observer.refuse(f"{place.label} is written in place")
            return
        place = self._changes(x)
        if place is None:
            return
        label = f"{place.label}[{key!r:.40}]"
        if is_a(x, list) and (type(key) is not int or key < 0):
            observer.refuse(f"{label} is stored")
        for step in ("item", "entry", "has"):
            self._mark(place, step, key, label)

    def deleted(self, x: Any, key: Any) -> None:
        if is_a(x, list) and self._changes(x) is not None:
            self.observer.refuse(f"an item of {self.observer.origin[id(x)].label} is deleted")
        self.item(x, key, None)

    def method(self, x: Any, name: str, args: tuple) -> None:
        """A method or an operator that changes x: a list that grows and a dict that is updated are replayed."""
        if is_a(x, np.ndarray):
            place = self.observer.of(x)
            if place is not None:
                self.observer.refuse(f"{place.label}.{name} writes in place")
        elif self._changes(x) is None:
            return
        elif is_a(x, dict) and name in ("update", "ior") and len(args) == 1 and type(args[0]) is dict:
            for key, value in args[0].items():
                self.item(x, key, value)
        elif not is_a(x, list) or name not in ("append", "extend", "iadd"):
            self.observer.refuse(f"{self.observer.origin[id(x)].label}, a {type(x).__name__}, is changed by {name}")

    def may_change(self, x: Any) -> bool:
        """Is x a container or an object that was there before, which code that nobody sees may change?"""
        if id(x) not in self.observer.origin or id(x) in self.before or is_scalar(x):
            return False
        if is_a(x, (list, dict, set, collections.deque)):
            return True
        return bool(dict_of(x)) and not is_a(x, _FIXED) and not is_library(type(x))

    def unchanged(self, held: Sequence[tuple[Any, Any]], by: str) -> None:
        """Such code has run: it is refused if it has changed one of these, of which it is known what they held."""
        for x, known in held:
            self.before[id(x)] = x, self.observer.origin[id(x)], known
            if not self.changed(x):
                del self.before[id(x)]
            else:
                self.observer.refuse(f"{self.observer.origin[id(x)].label} is changed by {by}")

    def _mark(self, place: Place, step: str, key: Any, label: str) -> None:
        self.observer.stored_places.add(self.observer.place(place, step, key, label))

    def _changes(self, x: Any) -> Place | None:
        place = self.observer.origin.get(id(x))
        if place is not None and id(x) not in self.before:
            if is_a(x, (types.ModuleType, types.FunctionType)) or place.label == "os.environ":
                self.observer.refuse(f"{place.label} is changed")
            self.before[id(x)] = x, place, copied(x)
        return place

    # -- asked by the hooks

    def changed(self, x: Any) -> bool:
        """Has the function changed what x holds?"""
        known = self.before.get(id(x))
        if known is None:
            return False
        before, now = known[2], copied(x)
        if isinstance(before, dict):
            return before.keys() != now.keys() or any([now[k] is not v for k, v in before.items()])
        return len(before) != len(now) or any([a is not b for a, b in zip(before, now)])

    def rearranged(self, x: Any) -> bool:
        """Has it changed what x holds in another way than item by item?"""
        if id(x) not in self.before or not self.changed(x):
            return False
        before, now = self.before[id(x)][2], copied(x)
        return before.keys() != now.keys() if isinstance(before, dict) else len(before) != len(now)

    def measured(self, x: Any) -> None:
        if self.rearranged(x):
            self.observer.refuse(f"{self.before[id(x)][1].label} is measured after the function has changed it")

    def renamed(self, place: Place, x: Any) -> bool:
        """Has the function given this name another value than it found?"""
        return place in self.names and self.names[place][1] is not x

    # -- when the function has returned

    def taken(self) -> tuple[list[Store], list[Any]]:
        """What is to be written back, and the outputs that it is made of."""
        stores: list[Store] = []
        outputs: list[Any] = []

        def put(place: Place, how: str, key: Any, label: str, before: Any, now: Any) -> None:
            step = {"cell": "cell", "global": "item"}.get(how, how)
            read = self.observer.place_if_known(place, step, key)
            stored = how in ("cell", "global") or read in self.observer.stored_places
            if before is now and (now is MISSING or not stored):
                return
            if read is not None and read in self.observer.values:
                if type(self.observer.values[read]) is not Tracer and not (is_scalar(now) and same(now, before)):
                    self.advancing.update([p.label for p in self.observer.values if _is_below(p, read)])
            leaves, make = self._made(label, now)
            outputs.extend(leaves)
            stores.append(Store(place, how if now is not MISSING else "delete " + how, key, label, len(leaves), make))

        for place, (table, before) in self.names.items():
            is_cell = type(table) is types.CellType
            now = content(table) if is_cell else table.get(place.key, MISSING)
            put(place.parent, "cell" if is_cell else "global", place.key, place.label, before, now)  # type: ignore[arg-type]
        for x, place, before in self.before.values():
            now = copied(x)
            if is_a(x, dict) or not is_a(x, (list, set, collections.deque)):
                how = "item" if is_a(x, dict) else "raw" if is_a(x, type) else "attribute"
                for key in {**before, **now}:
                    label = f"{place.label}[{key!r:.40}]" if how == "item" else f"{place.label}.{key}"
                    put(place, how, key, label, before.get(key, MISSING), now.get(key, MISSING))
            else:
                for i, (old, new) in enumerate(zip(before, now)):
                    put(place, "item", i, f"{place.label}[{i}]", old, new)
                for value in now[len(before) :]:
                    put(place, "append", None, f"{place.label}[...]", MISSING, value)
        return stores, outputs

    def _made(self, label: str, value: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
        """The outputs of which a stored value is made, and how."""
        plain = is_scalar(value) and not is_a(value, np.generic)
        if value is MISSING or plain or isinstance(value, type) and value is not Tracer:
            return [], lambda _: value
        if self.observer.origin.get(id(value)) is not None and not is_a(value, np.ndarray):
            check, known = reference(value)
            self.observer.guard(self.observer.origin[id(value)], check, known)
            return [], lambda _: known() if check == "ref" else known
        leaves, structure = tree.flatten(value)
        if any([type(x) is Tracer and x.owner.level and x.owner.closed for x in leaves]):
            self.observer.refuse(f"{label} is given a value that is being derived or mapped")
        if type(value) in (list, dict, tuple, set) and not value:
            return [], lambda _: type(value)()
        if all([_is_number(x) or is_scalar(x) or is_a(x, type) for x in leaves]):
            fixed = [MISSING if type(x) is Tracer or is_a(x, (np.ndarray, np.generic)) else x for x in leaves]

            def made(found: Sequence[Any]) -> Any:
                it = iter(found)
                return structure.unflatten([next(it) if x is MISSING else x for x in fixed])

            return [x for x, known in zip(leaves, fixed) if known is MISSING], made
        return self.observer.refuse(f"{label} is stored, a {type(value).__name__}") or ([], lambda _: None)

    def any(self) -> bool:
        """Has the function stored something?"""
        return bool(self.before or self.names)

    def undo(self) -> None:
        """What was there before holds again what it held."""
        for place, (table, before) in self.names.items():
            _put(table, "cell" if type(table) is types.CellType else "item", place.key, before)
        for x, _, before in self.before.values():
            if is_a(x, dict):
                dict.clear(x)
                dict.update(x, before)
            elif is_a(x, (list, collections.deque, set)):
                x.clear()
                (x.update if is_a(x, set) else x.extend)(before)
            else:
                now = _attributes(x)
                for name in {**before, **now}:
                    if now.get(name, MISSING) is not before.get(name, MISSING):
                        _put(x, "attribute", name, before.get(name, MISSING))


def _is_below(place: Place | None, other: Place) -> bool:
    """Is a place that one, or reached through it?"""
    while place is not None and place is not other:
        place = place.parent
    return place is other


def _is_number(x: Any) -> bool:
    return (
        type(x) is Tracer
        or type(x) in (int, float, complex, bool)
        or is_a(x, (np.ndarray, np.generic))
        and x.dtype.kind in "biufc"
    )


def _put(x: Any, how: str, key: Any, value: Any) -> None:
    if how == "cell":
        if value is MISSING:
            del x.cell_contents
        else:
            x.cell_contents = value
    elif how == "append":
        x.append(value)
    elif how in ("item", "global"):
        if value is MISSING:
            del x[key]
        else:
            x[key] = value
    else:
        set_, delete = (type.__setattr__, type.__delattr__) if is_a(x, type) else (object.__setattr__, object.__delattr__)
        if value is MISSING:
            delete(x, key)
        else:
            set_(x, key, value)


def write_back(stores: Sequence[Store], f: Any, outputs: Sequence[Any], observer: Observer | None, name: str) -> None:
    """Store what a call's outputs are; where that call is a part of one that is traced, its observer is told."""
    holders = [value_at(s.place, f) for s in stores]
    it = iter(outputs)
    for s, x in zip(stores, holders):
        leaves = [next(it) for _ in range(s.count)]
        if observer is None and any([type(v) is Tracer for v in leaves]):
            raise UnexpectedTracerError(
                f"jit of {name} stores in {s.label} a value that is being derived or mapped, which means nothing later.\n"
                "Remedy: return the value, with has_aux=True; or store funcad.stop_gradient of it."
            )
        value = MISSING if s.how.startswith("delete") else s.make(leaves)
        how = s.how.removeprefix("delete ")
        if how == "cell":
            x = x[s.key]
        elif observer is not None and how == "item":
            observer.stores.item(x, s.key, value)
        elif observer is not None and how in ("attribute", "raw"):
            observer.stores.attribute(x, s.key)
        elif observer is not None and how == "append":
            observer.stores.method(x, "append", ())
        _put(x, how, s.key, value)

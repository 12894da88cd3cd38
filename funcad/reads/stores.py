"""What a function stored in what was there before it: taken back when its trace ends, and replayed after each call.

Idea: a container or an object is copied before the function changes it for the first time. When the function has returned, what
is there is compared with the copy; the differences are outputs of the program, and the user's objects hold again what they
held. A call writes the outputs back when it has succeeded. What the function read of a place that it then stored would keep the
value of the trace, so such places become inputs of the next trace (`advancing`).

Traps: what a method or a library rearranges is guarded as a whole, as it was before (`told`), and is the function's own from
then on; a list that grew is appended to, never replaced; all containers are found before the first is written, because one
store may hide the next; what cannot be made anew at each call (an object made inside, a function) is refused.
"""

from __future__ import annotations

import collections
import operator
import threading
import types
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.errors import UnexpectedTracerError
from funcad.host.real_types import dtype_kind, is_a
from funcad.ir.tracer import Tracer
from funcad.reads.code_reads import MISSING, content, copies, is_library, own_method, top_of
from funcad.reads.later import Later, all_now, deferred
from funcad.reads.places import Place, dict_of, elements_of, is_scalar, keys_of, value_at
from funcad.tree.same import same

if TYPE_CHECKING:
    from funcad.reads.observer import Observer

_HOLDING = (dict, list, set, collections.deque)
_KEEPING = frozenset("builtins functools itertools numpy scipy funcad math json statistics".split())  # they change no list
_GROWING = frozenset(["append", "extend", "iadd"])  # methods that leave what is there where it is
lock = threading.RLock()  # of calls that write back: what they read is held until it is written


class Store(NamedTuple):
    """One entry that is written back."""

    place: Place  # of what holds it
    how: str
    key: Any
    label: str
    count: int  # of the outputs that are its leaves
    make: Callable[[Sequence[Any]], Any]  # the value, of these
    shared: Sequence[tuple[int, int]] = ()  # leaves that are another output or an argument, and which of these
    arrays: Sequence[tuple[int, Place]] = ()  # leaves that are an array which was found, and where
    others: Sequence[Place | int] = ()  # leaves after those: what was found there, or what that store has stored


class _Made(NamedTuple):
    """How a stored value is made, as `Store` has it."""

    outputs: Sequence[Any]
    make: Callable[[Sequence[Any]], Any]
    arrays: Sequence[tuple[int, Place]] = ()
    others: Sequence[Place | int] = ()


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


def _copied(x: Any) -> Any:
    """What x holds."""
    if is_a(x, dict):
        return dict(collections.OrderedDict.items(x) if is_a(x, collections.OrderedDict) else dict.items(x))
    if is_a(x, (list, collections.deque)):
        return list(list.__iter__(x) if is_a(x, list) else collections.deque.__iter__(x))
    if is_a(x, set):
        return set(set.__iter__(x))
    return _attributes(x)


class Stores:
    """The stores of one run."""

    def __init__(self, observer: Observer):
        self.observer = observer
        # by identity, of the attributes of containers with a word: what was changed, where it is, what it held
        self.before: dict[Any, tuple[Any, Place, Any]] = {}
        # of globals and cells: the table or the cell, what it held, and the input that stands there until it is bound
        self.names: dict[Place, tuple[Any, Any, Any]] = {}
        self.branch = ""  # in which nothing can be stored
        self.by_method: set[int] = set()  # of these: not item by item
        # of dicts: the keys that were stored or deleted, in the order of their entries; True: it was deleted and came again,
        # None: it was not there when it was stored or looked for
        self.keys: dict[int, dict[Any, bool | None]] = {}
        self.variables: dict[Any, tuple[Place, Any, Any]] = {}  # context variables: the place, the first token, the line
        self.told: set[Place] = set()  # of containers whose items are all guarded, as they were before
        self.advancing: set[str] = set()  # labels of what was read and then stored
        self.changed_at: dict[Any, Any] = {}  # a name's place, or an object's identity: the user's line that changed it first

    @contextmanager
    def none_in(self, branch: str) -> Iterator[None]:
        """A `with` block in which a branch is traced, which runs at some calls only: nothing can be stored there."""
        outer, self.branch = self.branch, branch
        try:
            yield
        finally:
            self.branch = outer

    # -- told by the hooks, before it happens

    def name(self, parent: Place, table: dict[str, Any], name: str, label: str) -> None:
        self._name(self.observer.place(parent, "item", name, label), table, table.get(name, MISSING))

    def cell(self, place: Place, cell: Any) -> None:
        self._name(place, cell, content(cell))

    def _name(self, place: Place, table: Any, before: Any) -> None:
        """A name may be bound from now on. Where it is an input, that stands there: it is told from all that is bound, also
        from the very object that was there."""
        if self.branch:
            self.observer.refuse(f"{place.label} is stored in {self.branch}")
        if place in self.names:
            return
        self.names[place] = table, before, MISSING
        self.changed_at[place] = self.observer.users_line()
        if (place.label in self.observer.inputs or self.observer.given) and before is not MISSING:
            found = self.observer.read(place.parent, place.step, place.key, place.label, before)
            if type(found) is Tracer:
                self.names[place] = table, before, found
                _put(table, "cell" if place.step == "cell" else "item", place.key, found)

    def attribute(self, x: Any, name: str) -> None:
        place = self._changes(x, True)
        if place is not None:
            step = "raw" if is_a(x, type) else "attribute"
            self._mark(place, step, name, f"{place.label}.{name}")
            self._mark(place, "own", name, f"{place.label}.{name}")

    def item(self, x: Any, key: Any, value: Any) -> None:
        observer = self.observer
        if is_a(x, np.ndarray):
            place = observer.of(x)
            if place is not None:
                observer.refuse(f"{place.label} is written in place")
            return
        place = self._changes(x)
        if place is None:
            return
        if is_a(x, collections.deque) or is_a(x, list) and (type(key) is not int or key < 0):
            self.whole(x)
            return
        label = f"{place.label}[{key!r:.40}]"
        for step in ("item", "entry", "has"):
            self._mark(place, step, key, label)
        if is_a(x, dict):
            self._ordered(x, key)

    def deleted(self, x: Any, key: Any) -> None:
        """An entry is deleted: whether it is there is told, for Python raises where it is not."""
        place = self.observer.origin.get(id(x))
        if place is not None and is_a(x, dict):
            at = self.observer.place(place, "has", key, f"{key!r:.40} in {place.label}")
            self.observer.guard(at, "is", dict.__contains__(x, key))
        self.item(x, key, None)

    def _ordered(self, x: Any, key: Any) -> None:
        """An entry is stored or deleted: one that is not there now comes last."""
        keys = self.keys.setdefault(id(x), {})
        if dict.__contains__(x, key):
            keys[key] = bool(keys.get(key))
        else:
            keys[key] = keys.pop(key, MISSING) is not MISSING or key in self.before[id(x)][2] or None

    def whole(self, x: Any) -> None:
        """x is changed in a way that reads it: all its items, as they were before, are guarded, and read as they are then."""
        place = self._changes(x)
        if place is None or place in self.told:
            return
        self.by_method.add(id(x))
        observer, before = self.observer, self.before[id(x)][2]
        if is_a(x, dict):
            observer.guard(observer.place(place, "again", "keys", f"the keys of {place.label}"), "names", keys_of(before))
            found = [(k, v, "entry") for k, v in before.items()]
        elif is_a(x, (list, collections.deque)):
            observer.sized(place, len(before))
            found = [(i, v, "item") for i, v in enumerate(before)]
        elif is_a(x, set):
            observer.guard(observer.place(place, "again", "set", place.label), "set", elements_of(x, before))
            found = []
        else:
            found = [(k, v, "own") for k, v in before.items()]
        for k, v, step in found:
            if observer.is_input(observer.read(place, step, k, f"{place.label}[{k!r:.40}]", v)):
                raise observer.not_placed(observer.values[observer.place(place, step, k, "")])
        self.told.add(place)

    def method(self, x: Any, name: str, args: tuple) -> None:
        if is_a(x, np.ndarray):
            place = self.observer.of(x)
            if place is not None:
                self.observer.refuse(f"{place.label}.{name} writes in place")
            return
        if name not in _GROWING:
            self.whole(x)
        elif self._changes(x) is not None:
            self.by_method.add(id(x))

    def entrusted(self, x: Any, f: Any) -> None:
        """x goes into a library's function, which may change it."""
        if is_a(f, np.ufunc) or top_of(f) in _KEEPING:
            return
        self.observer.shares = self.observer.shares or copies(f)
        if is_a(x, _HOLDING):
            self.whole(x)
        elif not is_library(type(x)) and not is_a(x, type):
            self._changes(x)

    def _mark(self, place: Place, step: str, key: Any, label: str) -> None:
        self.observer.stored_places.add(self.observer.place(place, step, key, label))

    def _changes(self, x: Any, attributes: bool = False) -> Place | None:
        observer = self.observer
        place = observer.origin.get(id(x))
        key = (id(x), "attributes") if attributes and is_a(x, _HOLDING) else id(x)
        if place is not None and self.branch:
            observer.refuse(f"{place.label} is changed in {self.branch}")
        if place is None and id(x) in observer.copies:
            observer.refuse(f"{observer.copies[id(x)][1]} is changed by a function that is not compiled")
        if place is not None and key not in self.before:
            if is_a(x, (types.ModuleType, bytearray, memoryview, array)) or place.label == "os.environ":
                observer.refuse(f"{place.label} is changed")
            self.before[key] = x, place, _copied(x) if key == id(x) else _attributes(x)
            self.changed_at.setdefault(id(x), observer.users_line())
        return place

    # -- asked by the hooks

    @property
    def some(self) -> bool:
        return bool(self.before or self.names)

    def changed(self, x: Any) -> bool:
        """Has the function changed what x holds?"""
        known = self.before.get(id(x))
        if known is None:
            return False
        before, now = known[2], _copied(x)
        if isinstance(before, dict):
            return before.keys() != now.keys() or any([now[k] is not v for k, v in before.items()])
        return len(before) != len(now) or any([a is not b for a, b in zip(before, now)])

    def length(self, x: Any) -> int:
        """How long a list was before the function changed it."""
        known = self.before.get(id(x))
        return len(x) if known is None or known[1] in self.told else len(known[2])

    def rearranged(self, x: Any) -> bool:
        """Has it changed what x holds in another way than item by item?"""
        if id(x) not in self.before or self.before[id(x)][1] in self.told or not self.changed(x):
            return False
        before, now = self.before[id(x)][2], _copied(x)
        keys = before.keys() != now.keys() if isinstance(before, dict) else len(before) != len(now)
        return keys or id(x) in self.by_method

    def measured(self, x: Any) -> None:
        if self.rearranged(x):
            self.observer.refuse(f"{self.before[id(x)][1].label} is measured after the function has changed it")

    def renamed(self, place: Place, x: Any) -> bool:
        """Has the function given this name another value than it found?"""
        return place in self.names and (self.names[place][2] is not MISSING or self.names[place][1] is not x)

    # -- when the function has returned

    def taken(self, arguments: Sequence[Any]) -> tuple[list[Store], list[Any]]:
        """What is to be written back, and the outputs that it is made of."""
        stores: list[Store] = []
        outputs: list[Any] = []
        stored_by: dict[int, int] = {}  # a container or an object that the function made: which store stores it first
        for variable, (place, token, at) in self.variables.items():
            if variable.get(MISSING) is not held_before(token):
                self.observer.refuse(f"{place.label} is set, and not set back", at)

        def put(place: Place, how: str, key: Any, label: str, before: Any, now: Any) -> None:
            step = {"cell": "cell", "global": "item"}.get(how, how)
            known = [self.observer.place_if_known(place, s, key) for s in ((step, "entry") if step == "item" else (step,))]
            stored = how in ("cell", "global") or not self.observer.stored_places.isdisjoint(known)
            if before is now and (now is MISSING or not stored):
                return
            for read in [p for p in known if p is not None and p in self.observer.values]:
                if type(self.observer.values[read]) is not Tracer and not (is_scalar(now) and same(now, before)):
                    self.advancing.update(self.observer.below(read))
            if how == "item" and self.observer.in_data(place, key):
                self.advancing.add(label)
            made = self._made(label, now, at, stored_by)
            outputs.extend(made.outputs)
            if not (is_scalar(now) or type(now) is Tracer or is_a(now, np.ndarray)):
                stored_by.setdefault(id(now), len(stores))
            how = how if now is not MISSING else "delete " + how
            stores.append(Store(place, how, key, label, len(made.outputs), made.make, (), made.arrays, made.others))

        for place, (table, before, standing) in self.names.items():
            is_cell = type(table) is types.CellType
            now = content(table) if is_cell else table.get(place.key, MISSING)
            at = self.changed_at[place]
            if now is not standing or now is MISSING:
                put(place.parent, "cell" if is_cell else "global", place.key, place.label, before, now)  # type: ignore[arg-type]
        for known_by, (x, place, before) in self.before.items():
            at, whole = self.changed_at[id(x)], type(known_by) is int
            now = _copied(x) if whole else _attributes(x)
            if is_a(x, dict) or not whole or not is_a(x, _HOLDING):
                how = "raw" if is_a(x, type) else "item" if is_a(x, dict) and whole else "attribute"
                keys, again = self._in_order(x, place, before, now) if how == "item" else ({**before, **now}, ())
                for key in keys:
                    if key in again:
                        first = "move item" if key in now else "delete item"
                        stores.append(Store(place, first, key, f"{place.label}[{key!r:.40}]", 0, lambda _: None))
                    label = f"{place.label}[{key!r:.40}]" if how == "item" else f"{place.label}.{key}"
                    put(place, how, key, label, before.get(key, MISSING), now.get(key, MISSING))
            elif is_a(x, list) and len(now) >= len(before):
                for i, (old, new) in enumerate(zip(before, now)):
                    put(place, "item", i, f"{place.label}[{i}]", old, new)
                for value in now[len(before) :]:
                    put(place, "append", None, f"{place.label}[...]", MISSING, value)
            elif now != before:
                self.observer.refuse(f"{place.label}, a {type(x).__name__}, is changed", at)
        places: dict[int, int] = {}
        for i, x in enumerate([*outputs, *arguments]):
            if i >= len(outputs):
                places[id(x)] = i  # what is an argument, too, is that
            places.setdefault(id(x), i)
        each = iter(enumerate([places[id(x)] for x in outputs]))
        found = [[(k, *next(each)) for k in range(s.count)] for s in stores]
        return [s._replace(shared=[(k, i) for k, own, i in at if i != own]) for s, at in zip(stores, found)], outputs

    def _in_order(self, x: Any, place: Place, before: dict[Any, Any], now: dict[Any, Any]) -> tuple[list[Any], set[Any]]:
        """The keys of a dict in the order in which they are written, and those of them that are deleted before that.

        At a call the dict may have other keys, in another order, than it has now. So the steps of the function are written
        in their own order. Where all keys are guarded, as they were before, they end in the order that they have now.
        """
        if place not in self.told:
            known = self.keys.get(id(x), {})
            again = {k for k, how in known.items() if (how if k in now else how is not None and k not in before)}
            return [*[k for k in {**before, **now} if k not in known], *known], again
        gone, kept, last = [k for k in before if k not in now], [k for k in before if k in now], [*now]
        n = next((i for i, k in enumerate(kept) if last[i] is not k), len(kept))
        return gone + last, {k for k in last[n:] if k in before}

    def _found(self, x: Any) -> Place | None:
        """Where x, which is stored, was found: what stands there is stored at each call, as that object."""
        observer = self.observer
        place = observer.arrays.get(id(x)) if type(x) is Tracer else observer.origin.get(id(x))
        if place is not None and (type(x) is tuple or type(x) is frozenset) and (not x or observer.twins.says(x)):
            at = observer.place(place, "again", "written", place.label)  # what was stored there after x was found is no matter
            at.check, at.known = "is", x  # who knows whether it is meant as what stands there or as the constant?
            return None
        return place

    def _made(self, label: str, value: Any, at: Any, stored_by: dict[int, int]) -> _Made:
        """The outputs of which a stored value is made, and how."""
        plain = is_scalar(value) and not is_a(value, np.generic)
        self.observer.orders.handed(value)
        if value is MISSING or plain or isinstance(value, type) and value is not Tracer:
            return _Made([], lambda _: value)

        def there(x: Any) -> Place | int | None:
            return stored_by[id(x)] if id(x) in stored_by else self._found(x)

        leaves, structure = tree.flatten(value, lambda x: there(x) is not None)
        if any([type(x) is Later for x in leaves]):
            if all([type(x) is Later and x.timed or is_scalar(x) for x in leaves]):
                return _Made(*deferred(value))
            return self._made(label, all_now(value, lambda x: there(x) is not None), at, stored_by)
        if any([type(x) is Tracer and x.owner.level and x.owner.closed for x in leaves]):
            self.observer.refuse(f"{label} is given a value that is being derived or mapped", at)
        if type(value) in (list, dict, tuple, set) and not value and there(value) is None:
            return _Made([], lambda _: type(value)())
        known = [None if type(x) is Tracer else there(x) for x in leaves]
        if not all([k is not None or _is_number(x) or is_scalar(x) or is_a(x, type) for k, x in zip(known, leaves)]):
            return self.observer.refuse(f"{label} is stored, a {type(value).__name__}", at) or _Made([], lambda _: None)
        computed = [type(x) is Tracer or k is None and is_a(x, (np.ndarray, np.generic)) for k, x in zip(known, leaves)]
        order = [i for i, c in enumerate(computed) if c]
        outputs = [leaves[i] for i in order]
        order += [i for i, k in enumerate(known) if k is not None]
        fixed = [None if i in order else x for i, x in enumerate(leaves)]

        def made(found: Sequence[Any]) -> Any:
            filled = fixed.copy()
            for i, x in zip(order, found):
                filled[i] = x
            return structure.unflatten(filled)

        arrays = [(i, place) for i, x in enumerate(outputs) if type(x) is Tracer and (place := self._found(x)) is not None]
        make = operator.itemgetter(0) if structure is tree.LEAF and order else made
        return _Made(outputs, make, arrays, [k for k in known if k is not None])

    def undo(self) -> None:
        """What was there before holds again what it held."""
        for variable, (_, token, _) in self.variables.items():
            if variable.get(MISSING) is not held_before(token):
                variable.reset(token)
        for place, (table, before, _) in self.names.items():
            _put(table, "cell" if type(table) is types.CellType else "item", place.key, before)
        for at, (x, _, before) in self.before.items():
            if is_a(x, _HOLDING) and type(at) is int:
                own_method(x, "clear")(x)
                own_method(x, "update" if is_a(x, (dict, set)) else "extend")(x, before)
            else:
                now = _attributes(x)
                for name in {**before, **now}:
                    if now.get(name, MISSING) is not before.get(name, MISSING):
                        _put(x, "attribute", name, before.get(name, MISSING))


def held_before(token: Any) -> Any:
    """What a context variable held before it was set; MISSING if nothing."""
    return MISSING if token.old_value is token.MISSING else token.old_value


def _is_number(x: Any) -> bool:
    return (
        type(x) is Tracer
        or type(x) in (int, float, complex, bool)
        or is_a(x, (np.ndarray, np.generic))
        and dtype_kind(x.dtype) in "biufc"
    )


def _put(x: Any, how: str, key: Any, value: Any) -> None:
    if how == "cell":
        if value is MISSING:
            del x.cell_contents
        else:
            x.cell_contents = value
    elif how == "append":
        own_method(x, "append")(x, value)
    elif how in ("item", "global"):
        if value is MISSING:
            if how == "global" or own_method(x, "__contains__")(x, key):
                own_method(x, "__delitem__")(x, key)
        else:
            own_method(x, "__setitem__")(x, key, value)
    else:
        set_, delete = (type.__setattr__, type.__delattr__) if is_a(x, type) else (object.__setattr__, object.__delattr__)
        if value is MISSING:
            delete(x, key)
        else:
            set_(x, key, value)


def _move(x: Any, key: Any, observer: Observer | None) -> None:
    """An entry of a dict is deleted, where it is there, and stored again: it comes last."""
    if own_method(x, "__contains__")(x, key):
        entry = own_method(x, "get")(x, key)
        for value in (MISSING, entry):
            if observer is not None:
                observer.stores.item(x, key, value)
            _put(x, "item", key, value)


def write_back(
    stores: Sequence[Store], f: Any, outputs: Sequence[Any], arguments: Sequence[Any], observer: Observer | None, name: str
) -> None:
    """Store what a call's outputs are; where that call is a part of one that is traced, its observer is told.

    An argument is stored as that object, unless it is being derived or mapped, or donated; and what is stored twice, as one.
    What was found at a place is what stood there before anything was stored.
    """
    shared = [*outputs, *arguments]
    held = {place: value_at(place, f) for place in {s.place for s in stores}}
    standing: dict[Any, Any] = {}
    for s in stores:
        for _, of in s.arrays:
            standing[of] = value_at(of, f)
        for of in s.others:
            if type(of) is Place:
                standing[of] = value_at(of, f)
    values: list[Any] = []  # that were stored
    it = iter(outputs)
    for s in stores:
        x = held[s.place]
        leaves = [next(it) for _ in range(s.count)]
        for k, i in s.shared:
            if i < len(shared) and (type(shared[i]) is not Tracer or observer is not None):
                leaves[k] = shared[i]
        if observer is None:
            for k, place in s.arrays:
                leaves[k] = standing[place]
        if observer is None and any([type(v) is Tracer for v in leaves]):
            raise UnexpectedTracerError(
                f"jit of {name} stores in {s.label} a value that is being derived or mapped, which means nothing later.\n"
                "Remedy: return the value, with has_aux=True; or store funcad.stop_gradient of it."
            )
        if s.others:
            leaves += [values[of] if type(of) is int else standing[of] for of in s.others]
        value = MISSING if s.how.startswith("delete") else s.make(leaves)
        values.append(value)
        how = s.how.removeprefix("delete ")
        if how == "move item":
            _move(x, s.key, observer)
            continue
        if how == "cell":
            x = x[s.key]
        elif observer is not None and how == "item":
            observer.stores.item(x, s.key, value)
        elif observer is not None and how in ("attribute", "raw"):
            observer.stores.attribute(x, s.key)
        elif observer is not None and how == "append":
            observer.stores.method(x, "append", ())
        _put(x, how, s.key, value)

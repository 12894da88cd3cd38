"""The hooks of the twins that a trace runs: each does what Python does, and tells the thread's observer.

Idea: a read of an object with a place is a read of a further place; what has no place was made in this call and is nobody's
concern. Properties, descriptors, operators and managers that the user wrote in Python are code of the user's and run as twins,
which is why the hooks look for them before Python would. Where no observer is, a hook is Python's own operation.

Trap: these hooks stand between the user's line and what it calls, so whatever looks for the user's frame skips them: frames of
`CALLING` count as the user's own (host/where.py).
"""

from __future__ import annotations

import array
import builtins
import collections
import operator
import types
import warnings
from contextlib import nullcontext
from sys import setprofile
from threading import get_ident
from typing import Any

import numpy as np

from funcad.api.value_reads import as_truth
from funcad.host.real_types import is_a
from funcad.host.where import Source, state, unseen
from funcad.ir.tracer import Tracer
from funcad.reads.calls import called, told_on_its_way
from funcad.reads.code_reads import MISSING, awaits_warning, content, is_library, reads_of, top_of
from funcad.reads.later import Later, all_now, combined, is_live, joined, now, of_percent, text
from funcad.reads.lending import lend_item, lend_new
from funcad.reads.observer import CONTAINERS, LISTS, Observer, is_argument
from funcad.reads.places import Place, dict_of, is_scalar, own, reference
from funcad.reads.replays import spoken, told_key
from funcad.reads.selections import NOTHING, applied, element, may_choose, noted, operated, selected, together
from funcad.twin.hooks import Hooks

from funcad.reads.attributes import (  # isort: skip
    attribute, delete_attribute, imported, is_users_function, method_of, raw_of, store_attribute, twin_of,
)  # fmt: skip

_PLAIN = frozenset([float, int, bool, complex, str, Tracer])
_QUICK = _PLAIN - {str}  # whose operators see nothing, whatever of `_PLAIN` is on the other side
_SEES_NONE = frozenset([float, int, bool, complex, np.float64, np.ndarray, Tracer])  # whose operators are no code of the user's
_INDEXED = frozenset([list, tuple, Tracer])
_HELD = frozenset([list, tuple, np.ndarray, Tracer])
_KEYS = frozenset([int, slice, type(None), type(...), Tracer])
_SHIFTS = (operator.lshift, operator.rshift, operator.ilshift, operator.irshift)
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


class Seen(Hooks):
    """The hooks of one function's twin."""

    def begin(self, observer: Observer) -> None:
        """The twin is made: a global that is not there yet may be there at a later call."""
        self.known: dict[str, Any] = {}  # globals that were read, and are what they were
        table, code = self.function.__globals__, self.function.__code__
        place = awaits_warning(code)
        if place is not None:
            observer.refuse("warnings that are raised as errors are caught", (str(Source(code, place)), code))
        for name in reads_of(code).globals:
            if name not in table and not hasattr(builtins, name):
                observer.missing(self._names(observer), "get", name, f"global {name}")
        for name, cell in self.cells.items():
            if content(cell) is MISSING and (place := self._cell(observer, name)) is not None:
                observer.missing(place.parent, "filled", place.key, place.label)

    def close(self) -> None:
        super().close()
        self.known = {}

    # -- names

    def load_global(self, name: str, value: Any) -> Any:
        observer = state.observer
        if observer is None:
            return value
        known = self.known
        if known.get(name, known) is value and not observer.cached:  # as when it was guarded
            observer.last = None
            return value
        if name not in self.function.__globals__:  # one of Python's own
            known[name] = value
            observer.missing(self._names(observer), "has", name, f"global {name}")
            if value is vars(builtins).get(name):
                observer.of_library(vars(builtins), name, name)
            return value
        found = observer.read(self._names(observer), "item", name, f"global {name}", value)
        if found is value:
            known[name] = value
        return found

    def load_free(self, name: str, value: Any) -> Any:
        observer = state.observer
        if observer is None or name == "__class__":
            return value
        told = state.told
        try:
            if told is not None:
                setprofile(None)
            place = self._cell(observer, name)
            return value if place is None else observer.read(place.parent, "cell", place.key, place.label, value)
        finally:
            if told is not None:
                setprofile(told)

    def will_store_global(self, name: str) -> None:
        observer = state.observer
        if observer is not None:
            observer.stores.name(self._names(observer), self.function.__globals__, name, f"global {name}")

    def will_store_free(self, name: str) -> None:
        observer = state.observer
        place = self._cell(observer, name) if observer is not None else None
        if observer is not None and place is not None:
            at = self.function.__code__.co_freevars.index(name)
            observer.stores.cell(place, self.function.__closure__[at])

    def will_import(self, level: int, module: str, *names: str) -> None:
        if state.observer is not None:
            imported(state.observer, module, self.function.__globals__, names, level)

    def _names(self, observer: Observer) -> Place:
        """The namespace of the function's module: functions that share it share its place."""
        table = self.function.__globals__
        place = observer.origin.get(id(table))
        if place is None:
            of = observer.origin.get(id(self.function))
            if of is not None and of.step != "weak":
                place = observer.place(of, "attribute", "__globals__", "")
            else:  # the function may be gone at the next call, as one that a loop is given
                place = observer.place(None, "constant", table, "")
            observer.known_as(table, place)
        return place

    def _cells(self, observer: Observer) -> Place | None:
        cells = self.function.__closure__
        place = observer.origin.get(id(cells))
        if place is None:
            of = observer.found_nowhere(self.function, self.function.__qualname__)
            if of is not None:
                place = observer.place(of, "attribute", "__closure__", "")
                observer.known_as(cells, place)
                observer.closure(self.function, place)
        return place

    def _cell(self, observer: Observer, name: str) -> Place | None:
        """Where a variable of the closure is: functions that share it share its place."""
        cells = self._cells(observer)
        if cells is None:
            return None
        at = self.function.__code__.co_freevars.index(name)
        found = observer.cells.get(id(self.function.__closure__[at]))
        if found is None:
            return observer.place(cells, "cell", at, f"closure variable {name}")
        if found.parent is not cells:  # as long as they do
            known = observer.place(found.parent, "item", found.key, "")
            observer.guard(observer.place(cells, "item", at, f"closure variable {name}"), "alias", known)
        return found

    # -- attributes

    def load_attribute(self, owner: Any, name: str) -> Any:
        observer = state.observer
        if observer is not None and (id(owner), name) in observer.libraries:
            return getattr(owner, name)
        elif observer is not None and (known := observer.attributes.get((id(owner), name), MISSING)) is not MISSING:
            if own(owner, name) is known:  # as when it was guarded
                observer.last = None
                return known
        return attribute(owner, name)

    def store_attribute(self, owner: Any, name: str, value: Any) -> None:
        store_attribute(owner, name, value)

    def delete_attribute(self, owner: Any, name: str) -> None:
        delete_attribute(owner, name)

    # -- items

    def load_item(self, owner: Any, key: Any) -> Any:
        told = state.told
        if told is None or type(owner) not in _HELD:
            return lend_item(owner, item(owner, key))
        if not (_KEYS.issuperset(map(type, key)) if type(key) is tuple else type(key) in _KEYS):
            return lend_item(owner, item(owner, key))
        try:
            setprofile(None)
            return lend_item(owner, item(owner, key))
        finally:
            setprofile(told)

    def store_item(self, owner: Any, key: Any, value: Any) -> None:
        observer, key = state.observer, all_now(key)
        if state.told is not None and type(owner) is Tracer and type(value) in _SEES_NONE:
            with unseen():
                owner[key] = value
            return
        if observer is not None and type(owner) is not Tracer:
            method = method_of(observer, type(owner), "__setitem__")
            if method is not None:
                method(owner, key, value)
                return
            key = told_key(observer, key) if issubclass(type(owner), dict) else key
            _key(observer, key)
            observer.stores.item(owner, key, value)
        owner[key] = value

    def delete_item(self, owner: Any, key: Any) -> None:
        observer, key = state.observer, all_now(key)
        if observer is not None and type(owner) is not Tracer:
            method = method_of(observer, type(owner), "__delitem__")
            if method is not None:
                method(owner, key)
                return
            key = told_key(observer, key) if issubclass(type(owner), dict) else key
            if isinstance(owner, list):
                observer.stores.whole(owner)
            else:
                observer.stores.deleted(owner, key)
        del owner[key]

    # -- what runs, and over what

    def call(self, function: Any) -> Any:
        observer = state.observer
        return function if observer is None else called(observer, function, self.function)

    def iterate(self, value: Any, depth: int) -> Any:
        return iterated(value, depth)

    def spread(self, value: Any) -> Any:
        observer = state.observer
        if observer is None:
            return value
        observer.orders.opened(value)
        return observer.handed(observer.behind(value))

    def enter(self, manager: Any, depth: int) -> Any:
        observer = state.observer
        if observer is None:
            return manager
        kind = type(manager)
        opens, closes = raw_of(kind, "__enter__")[1], raw_of(kind, "__exit__")[1]
        if is_users_function(opens) or is_users_function(closes):
            return _Manager(manager, opens, closes)
        if issubclass(kind, warnings.catch_warnings) and manager._record:  # one of pytest's, or of a class of the user's
            observer.refuse("warnings are recorded")
        return manager

    # -- tests

    def test(self, value: Any, kept: bool) -> Any:
        observer = state.observer
        kind = type(value)
        if observer is None or kind in _PLAIN:
            return self._number(observer, value)
        if kind is Later:
            return value.now()
        if not is_library(kind):
            for name in ("__bool__", "__len__"):
                method = method_of(observer, kind, name)
                if method is not None:
                    truth = bool(method(value))
                    return value if kept else truth
                if raw_of(kind, name)[1] is not MISSING:
                    break
        inside = observer.behind(value)
        place = observer.of(inside)
        if place is not None:
            if kind is np.ndarray:
                observer.content(value)
            elif issubclass(type(inside), CONTAINERS):
                observer.stores.measured(inside)
                observer.sized(place, len(value))
        return value

    def _number(self, observer: Observer | None, value: Any) -> Any:
        if observer is not None and id(value) in observer.tracers and observer.tracers[id(value)] is not None:
            raise observer.not_placed(value)
        return value

    def compare(self, op: Any, a: Any, b: Any) -> Any:
        observer = state.observer
        if observer is None:
            return op(a, b)
        if op is operator.is_ or op is operator.is_not:
            if a is None or b is None:
                return op(a, b)
            if a is not b and any([is_argument(x) and (is_argument(y) or is_a(y, np.ndarray)) for x, y in ((a, b), (b, a))]):
                observer.refuse("whether an argument is the same object as another one, or as an array, is asked")
            return op(_identity(observer, a), _identity(observer, b))
        a, b = now(a), now(b)
        if op.__name__ in ("contains", "lacks"):
            return _membership(observer, op, a, b)
        return self.binary(op, a, b)

    def chained(self, op: Any, value: Any) -> Any:
        observer = state.observer
        if observer is not None:
            if op is operator.is_ or op is operator.is_not:
                return _identity(observer, value)
            value = now(value)
            observer.content(value) if type(value) is not Tracer else None
        return value

    # -- choices

    def either(self, condition: Any) -> bool:
        super().either(condition)
        return may_choose(condition)

    def asked_too(self, value: Any, kept: bool) -> Any:
        may_choose(value)
        return self.test(value, kept)

    def also(self, op: Any, *more: Any) -> bool:
        """`and`, `or`: the condition and these, which compute only."""
        now = self._choosing[get_ident()]
        now[1] = together(op, (now[1], *more))
        return now[1] is not NOTHING

    def tried(self, *sides: Any) -> bool:
        """Is one side's value selected for each variable? `sides`: first what the first one gives."""
        now, n = self._choosing[get_ident()], len(sides) // 2
        found = [selected(now[1], x, y) for x, y in zip(sides[:n], sides[n:])]
        chosen = not any([x is NOTHING for x in found])
        noted(chosen)
        if not chosen:
            return False
        now[0] = tuple(found) if n > 1 else found[0]
        return True

    def chosen(self) -> Any:
        return self._choosing.pop(get_ident())[0]

    def sure(self, op: Any, *operands: Any) -> Any:
        return operated(self, op, operands)

    def sure_item(self, owner: Any, *keys: Any) -> Any:
        return element(self, owner, keys)

    def sure_attribute(self, owner: Any, name: str) -> Any:
        known = isinstance(owner, types.ModuleType) and hasattr(owner, name)
        return self.load_attribute(owner, name) if known else NOTHING

    def sure_call(self, function: Any, *numbers: Any) -> Any:
        return applied(self, function, numbers)

    def sure_choice(self, condition: Any, x: Any, y: Any) -> Any:
        if type(condition) is bool or type(condition) is np.bool_:
            return x if condition else y
        return selected(condition, x, y) if may_choose(condition) else NOTHING

    def sure_truth(self, op: Any, *conditions: Any) -> Any:
        return together(op, conditions)

    def match(self, value: Any) -> Any:
        observer, value = state.observer, all_now(value)
        if observer is not None:
            if type(value) is Tracer:
                return as_truth(self._number(observer, value))
            observer.orders.handed(value)
            observer.content(value)
            _matched(observer, value, 3)
        return value

    def formatted(self, value: Any, conversion: int, spec: Any) -> Any:
        observer = state.observer
        if observer is None:
            return super().formatted(value, conversion, spec)
        if is_live(observer, value) or type(spec) is Later:
            found = text(observer, super().formatted, [value, conversion, spec])
            if found is not MISSING:
                return found
        return super().formatted(spoken(observer, value), conversion, now(spec))

    def message(self, value: Any) -> Any:
        return all_now(value)

    def joined(self, *parts: Any) -> Any:
        observer = state.observer
        if observer is not None and Later in map(type, parts):
            return joined(observer, parts)
        return super().joined(*parts)

    # -- operators

    def binary(self, op: Any, a: Any, b: Any) -> Any:
        observer = state.observer
        if observer is None:
            return op(a, b)
        told, short = state.told, type(a) in _QUICK and type(b) in _PLAIN and not observer.tracers
        if told is None or type(a) not in _SEES_NONE or type(b) not in _SEES_NONE:
            out = op(a, b) if short else binary(observer, op, a, b)
        else:
            try:
                setprofile(None)
                out = op(a, b) if short else binary(observer, op, a, b)
            finally:
                setprofile(told)
        return lend_new(out, (a, b)) if type(out) is np.ndarray and state.lender is not None else out

    def unary(self, op: Any, a: Any) -> Any:
        observer = state.observer
        if observer is None:
            return op(a)
        a = now(a)
        if type(a) is np.ndarray:
            observer.content(a)
        with unseen() if type(a) is Tracer else nullcontext():
            out = op(a)
        if id(a) in observer.tracers:
            observer.derived(out)
        return lend_new(out, (a,)) if type(out) is np.ndarray and state.lender is not None else out


# -- items


def _matched(observer: Observer, x: Any, deep: int) -> None:
    """A pattern asks of what class a value is, and which attributes stand for its positions."""
    kind = type(x)
    if issubclass(kind, CONTAINERS):
        parts = dict.values(x) if issubclass(kind, dict) else x
    elif is_library(kind):
        return
    else:
        observer.content(attribute(kind, "__match_args__", None))
        parts = dict_of(x).values()
    for part in parts if deep else ():
        _matched(observer, part, deep - 1)


def _key(observer: Observer, key: Any) -> None:
    """A key that was found somewhere, and is told by identity."""
    if type(key) is tuple:
        for part in key:
            _key(observer, part)
    elif type(key) is np.ndarray or type(key) is list:
        observer.content(key)
    elif type(key) is Tracer and observer.tracers.get(id(key)) is not None:
        raise observer.not_placed(key)
    elif not is_scalar(key) and type(key) is not Tracer:
        _identity(observer, key)


def item(x: Any, key: Any) -> Any:
    """`x[key]`."""
    observer = state.observer
    if observer is None:
        return x[key]
    kind = type(x)
    if type(key) is int and kind in _INDEXED:  # nothing is made later, and no code is the user's
        place = observer.origin.get(id(x)) if kind is not Tracer else None
        return x[key] if place is None else _read_item(observer, place, x, key)
    x, key = observer.behind(now(x)), all_now(key)
    kind = type(x)
    if kind is Tracer or kind.__module__.partition(".")[0] == "funcad":
        for k in key if type(key) is tuple else (key,):
            if type(k) is list or type(k) is np.ndarray and k.dtype.kind == "b":
                observer.content(k)
        return x[key]
    if not is_library(kind):
        method = method_of(observer, kind, "__getitem__")
        if method is not None:
            return method(x, key)
    if isinstance(x, type):
        own_way = type(raw_of(x, "__class_getitem__")[1]) is classmethod and not is_library(x)
        return called(observer, attribute(x, "__class_getitem__"), None)(key) if own_way else x[key]
    if type(key) is Tracer and observer.tracers.get(id(key)) is None:
        return _by_traced(observer, x, key)
    place = observer.of(x)
    _key(observer, key)
    if place is None:
        return x[key]
    if kind is np.ndarray:
        return _of_array(observer, place, x, key)
    if issubclass(kind, np.ndarray):
        observer.content(x)
        return x[key]
    if type(key) is slice and kind in (list, tuple):
        return observer.sliced(x, key)
    if type(key) is slice or not issubclass(kind, _ITEMS) and is_library(kind) and kind.__module__ != "os":
        observer.spread(x, 3)
        return x[key]
    return _read_item(observer, place, x, key)


def _read_item(observer: Observer, place: Place, x: Any, key: Any) -> Any:
    """What a list, a dict or the like holds, which was there before."""
    kind, label = type(x), f"{place.label}[{key!r:.40}]"
    if hasattr(kind, "__missing__") and key not in x:
        observer.missing(place, "has", key, label)
        if raw_of(kind, "__missing__")[1] is not MISSING and is_users_function(raw_of(kind, "__missing__")[1]):
            return twin_of(raw_of(kind, "__missing__")[1])(x, key)
        observer.stores.item(x, key, None)
        if issubclass(kind, collections.defaultdict) and x.default_factory is not None:
            x[key] = found = called(observer, attribute(x, "default_factory"), None)()
            return found
        return x[key]
    try:
        found = x[key]
    except (KeyError, IndexError) as error:
        if type(error) is KeyError:
            observer.missing(place, "has", key, label)
        else:
            n = observer.stores.length(x)
            observer.sized(place, n)
        raise
    if type(key) is int and issubclass(kind, LISTS):
        n = observer.stores.length(x)
        if key < 0:
            observer.sized(place, n)
            key += len(x)
        if key >= n:  # what the function has appended
            return found
    step = "entry" if issubclass(kind, dict) and hasattr(kind, "__missing__") else "item"  # to look makes no entry
    return observer.read(place, step, key, label, found)


_ITEMS = (dict, list, tuple, types.MappingProxyType, collections.deque, bytearray, memoryview, array.array)


def _by_traced(observer: Observer, x: Any, key: Any) -> Any:
    """A list or an array at a traced place: all of it is read."""
    if not issubclass(type(x), np.ndarray):
        observer.spread(x)
        return x[key]
    found = x[key]
    if type(found) is not Tracer:  # Python has asked for the index, and NumPy has read the elements
        observer.content(x)
    return found


def _of_array(observer: Observer, place: Place, x: np.ndarray, key: Any) -> Any:
    if x.dtype.hasobject:
        observer.content(x)
        return x[key]
    found = x[key]
    if type(found) is Tracer or type(found) is np.ndarray and found.base is not None and found.size:
        return found
    if is_a(found, np.number) and observer.origin.get(id(x)) is place and observer.looks_at_one(place, x, key):
        return observer.read(place, "item", key, f"{place.label}[{key!r:.40}]", found)
    observer.content(x)
    return found


def iterated(x: Any, depth: int) -> Any:
    """What a loop runs over."""
    observer, x = state.observer, now(x)
    kind = type(x)
    if observer is None or kind is Tracer:
        return x
    observer.orders.opened(x, depth)
    x = observer.behind(x)
    kind = type(x)
    if not is_library(kind):
        method = method_of(observer, kind, "__iter__")
        if method is not None:
            return method(x)
    place = observer.of(x)
    if place is None:
        return observer.handed(x, depth) if depth > 1 and issubclass(kind, CONTAINERS) else x
    if kind is np.ndarray:
        if x.ndim <= depth:
            observer.content(x)
    elif hasattr(kind, "__next__"):
        observer.refuse(f"{place.label} is an iterator, which moves on")
    elif issubclass(kind, dict):
        observer.stores.measured(x)
        observer.keys(place, x)
    elif issubclass(kind, CONTAINERS):
        return observer.handed(x, depth)
    else:
        observer.content(x)
    return x


# -- tests


def _identity(observer: Observer, x: Any) -> Any:
    """x, of which somebody asks which object it is."""
    if type(x) is Tracer:
        if observer.tracers.get(id(x)) is not None or id(x) in observer.arrays:
            raise observer.not_placed(x)
        return as_truth(x)
    if not is_scalar(x):
        place = observer.origin.get(id(x))
        if place is not None and place.parent is not None:
            observer.guard(place, *reference(x))
    return x


def _membership(observer: Observer, op: Any, a: Any, b: Any) -> Any:
    b = observer.behind(b)
    kind = type(b)
    if not is_library(kind):
        method = method_of(observer, kind, "__contains__")
        if method is not None:
            return bool(method(b, a)) == (op.__name__ == "contains")
    _key(observer, a)
    place = observer.of(b)
    if kind is Tracer:
        return op(a, b)
    if place is None:
        if issubclass(kind, CONTAINERS) and not is_scalar(a) and type(a) is not Tracer:  # told by a `__eq__` of the user's
            observer.content(a)
            observer.content(b)
        return op(a, told_on_its_way(observer, b, op))
    if issubclass(kind, (dict, set, frozenset, types.MappingProxyType)) and (
        is_scalar(a) or observer.origin.get(id(a)) is not None
    ):
        found = a in b
        observer.guard(observer.place(place, "has", a, f"{a!r:.40} in {place.label}"), "is", found)
        return found == (op.__name__ == "contains")
    if hasattr(kind, "__next__"):
        observer.refuse(f"{place.label} is an iterator, which moves on")
    observer.content(b)
    return op(a, b)


# -- operators


def binary(observer: Observer, op: Any, a: Any, b: Any) -> Any:
    """An operator of two operands, comparisons too."""
    if observer.laters and Later in (type(a), type(b)):
        found = combined(observer, op, a, b) if op is not operator.mod or type(a) is not str else MISSING
        if found is not MISSING:
            return found
        a, b = now(a), b if op is operator.mod else now(b)
    first, second = type(a), type(b)
    if first is str and op in (operator.mod, operator.imod):
        found = of_percent(observer, a, b) if is_live(observer, b) else MISSING
        return a % spoken(observer, b) if found is MISSING else found
    if observer.tracers and (id(a) in observer.tracers or id(b) in observer.tracers):
        return _of_inputs(observer, op, a, b)
    if first in _PLAIN and second in _PLAIN:
        return op(a, b)
    name = op.__name__.strip("_")
    if name in ("or", "ior", "add", "iadd", "mod", "mul"):
        observer.orders.handed(a, b)
    if name[:1] == "i" and issubclass(first, (list, set, dict, collections.deque, np.ndarray)) and second is not Tracer:
        observer.stores.method(a, name, (b,))
        sides = [(b, first)]
    else:
        sides = [(a, second), (b, first)]
    for x, other in sides:
        kind, alone = type(x), other is not Tracer
        told = issubclass(kind, CONTAINERS) or is_library(kind) and top_of(kind) not in ("funcad", "numpy")
        if alone and (told or is_library(kind) or kind is np.ndarray):
            observer.content(x)
        elif told:
            observer.content(_by_reference(x))
    for x, other, prefix in ((a, b, ""), (b, a, "r")):
        kind = type(x)
        if kind in _PLAIN or is_library(kind) or prefix and kind is first:
            continue
        short = _SWAPPED[name] if prefix and name in _SWAPPED else prefix + (name.removeprefix("i") if prefix else name)
        method = method_of(observer, kind, f"__{short}__")
        if method is None and not prefix and name[:1] == "i":
            method = method_of(observer, kind, f"__{name[1:]}__")
        if method is not None:
            found = method(x, other)
            if found is not NotImplemented:
                return found
    return op(a, b)


_PARTS = {"csr": ("data", "indices", "indptr"), "dok": ("_dict",)}  # the last is not the program's


def _by_reference(x: Any) -> Any:
    """What is to be told of an operand: of a sparse matrix whose arrays the program reads at each call, the rest."""
    names = _PARTS.get(getattr(x, "format", None), ())
    return [attribute(x, name) for name in names][-1] if names else x


def _of_inputs(observer: Observer, op: Any, a: Any, b: Any) -> Any:
    """Of numbers that are inputs: what Python's arithmetic would refuse is refused by the operation (python_numbers.py)."""
    numbers = all([type(x) in (int, float, bool, complex) or id(x) in observer.tracers for x in (a, b)])
    if numbers and op in _SHIFTS:
        raise observer.not_placed(a if id(a) in observer.tracers else b)
    out = op(a, b)
    if numbers:
        observer.derived(out)
    return out


class _Manager:
    """A context manager of the user's, whose methods run as twins."""

    def __init__(self, x: Any, opens: Any, closes: Any):
        self.x, self.opens, self.closes = x, opens, closes

    def __enter__(self) -> Any:
        return twin_of(self.opens)(self.x) if is_users_function(self.opens) else self.x.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return twin_of(self.closes)(self.x, *error) if is_users_function(self.closes) else self.x.__exit__(*error)

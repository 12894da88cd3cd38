"""What one run of a function reads of, and stores in, what was there before it.

Idea: while a program is traced, the twin of the user's function (twin/) tells an `Observer` of every load, call, store and
test. An object that was there before is known by its place (places.py), and what is read of it makes a guard there, or an
input. What goes where nobody sees what becomes of it, into a library's function, a comparison by identity or a text, is told as
a whole: `content`. What can be neither read again nor replayed raises `Refusal` before it happens.

Invariants: f runs on its own objects; nothing of the user's is called that f does not call. A place is weakened to an input in
the line that puts the traced value there (`_input`), nowhere else. Traps: `keep` holds all objects whose `id` is a key; a place
that f stored itself says nothing about what was there before, so it is not guarded from then on.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from funcad import tree
from funcad.host.where import Source, is_internal, state, tracing, user_source
from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Var
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer, concrete_value
from funcad.reads.code_reads import MISSING, content, draws, is_library, is_of_library, own_method
from funcad.reads.key_orders import KeyOrders
from funcad.reads.refusals import Refusal, Unplaced
from funcad.reads.refused_calls import refusal_of
from funcad.tree.same import held_by, same, slots_of
from funcad.twin.twins import Untwinnable, is_twin

from funcad.reads.places import (  # isort: skip
    INPUTS, Guards, Place, array_of, bytes_of, data_of, dict_of, elements_of, found_as, is_below, is_data, is_number, is_scalar,
    key_of, keys_of, labels_of, needed, path_of, reference, shown_by,
)  # fmt: skip

LISTS = (list, tuple, collections.deque)
CONTAINERS = (*LISTS, dict, set, frozenset)
_OPEN = (*CONTAINERS, types.SimpleNamespace, functools.partial, types.MappingProxyType, weakref.ref, threading.local)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, np.ufunc)
_ONE = 256  # bytes of an array that are compared in the time in which one of its elements is
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
_OF_DATA = frozenset(["scalar", "data", "bytes", "names", "set"])  # checks of what a function computes with
VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
DEEP = 6  # libraries' objects in one another that are told; others are without end


def may_change(kind: type) -> bool:
    """Are objects of this class changed in place?"""
    own = not is_library(kind) and not issubclass(kind, (*_CODE, enum.Enum, tuple, frozenset, np.ndarray))
    return own or kind in (list, dict, set, collections.deque)


def how_printed() -> str:
    """How arrays are printed."""
    return str([id(x) if callable(x) else x for x in np.get_printoptions().values()])


def outside() -> tuple[Any, ...]:
    """Where output and warnings go, and how arrays are printed."""
    return id(sys.stdout), id(sys.stderr), id(warnings.filters), id(warnings.showwarning), how_printed()


def how_computed(context: Any = None) -> str:
    """To how many digits, and how, decimals are rounded."""
    context = sys.modules["decimal"].getcontext() if context is None else context
    told = [getattr(context, name) for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")]
    return str([*told, *[error.__name__ for error, raises in context.traps.items() if raises]])


def _fields_of(kind: type) -> list[str]:
    """Of a frame of pandas what its compiled manager and its blocks hold, which is exchanged there."""
    bases = [base for base in kind.__mro__ if base.__module__ == "pandas._libs.internals"]
    return [name for name in ("blocks", "axes", "values") if any([name in vars(base) for base in bases])]


def is_argument(x: Any) -> bool:
    """Does x stand for an argument of a function that is traced? At another call it may be another object."""
    x = concrete_value(x) if type(x) is Tracer else x
    return type(x) is Tracer and any([v is x.atom for v in getattr(x.owner, "inputs", ())])


class Observer:
    """One run of a function's twin."""

    def __init__(self, f: Any, statics: list[tuple[str, Any]], inputs: set[str]):
        self.function = lambda: f
        self.inputs = inputs  # labels of the places whose values are to be inputs, where they can
        self.holders = {label[:i] for label in inputs for i, c in enumerate(label) if c == "["}  # and of what they may be in
        self.places: list[Place] = []
        self.table: dict[tuple[int, str, Any], Place] = {}
        self.origin: dict[int, Place] = {}
        self.keep: list[Any] = []
        self.values: dict[Place, Any] = {}  # what was found there
        self.stored_places: set[Place] = set()
        self.copies: dict[int, tuple[Any, str]] = {}  # that were handed out in the place of containers, which have these labels
        self.constants: set[Place] = set()  # what stays as it is now, because the user says so
        self.last: Place | None = None  # where the last value was loaded, if it was met there for the first time
        self.tracers: dict[int, Place | None] = {}  # traced values that stand for Python's numbers -> their place, of loads
        self.given: dict[Any, Any] = {}  # places (`path_of`) of what the program takes as further arguments -> these
        self.placed: list[Place] = []  # the inputs, in the order in which the program has them
        self.arrays: dict[int, Place] = {}  # traced values that stand for arrays which are read at each call
        self.refused: Refusal | None = None
        self.unplaced: Unplaced | None = None
        self.cached = ""  # the function that runs though it has a cache, which may hold the answer already
        self.storing = ""  # code of the user's that ran as it is, and stores something
        self.stores: Any = None  # see stores.py
        self.twins: Any = None
        self.cells: dict[int, Place] = {}  # where the cells of closures are that were there before
        self.method_of: Callable[..., Any] = lambda observer, kind, name: None  # see attributes.py
        self.defaults_of: Callable[..., None] = lambda observer, f: None  # see attributes.py
        self.untwinned: Callable[..., Any] = lambda observer, f: f  # see jitted/attempts.py
        self.alone: list[tuple[types.CodeType, bool]] = []  # codes of functions that have no twin
        self.ran: tuple[tuple[Any, bool], ...] = ()  # the user's codes that ran as they are, see reads/run.py
        self.trace: Any = None  # in which f runs
        self.chooses: bool | None = False  # are choices of numbers selections there? None: they cannot be; see selections.py
        self.chosen = False  # was one?
        self.shares = False  # does somebody see which of the objects that were there before are one?
        self.classes: set[int] = set()  # whose bases are told
        self.results: dict[Any, Any] = {}  # results of functions of the user's that have a cache
        self.spread_over: dict[Place, int] = {}  # how deep
        self.looked_at: collections.Counter[Place] = collections.Counter()  # of arrays: bytes that elements are worth
        self.later: set[int] = set()  # objects whose methods are called when the program runs
        self.ufuncs: dict[Any, Any] = {}  # what is called in their place
        self.attributes: dict[tuple[int, str], Any] = {}  # of objects, that were read and are what they were
        self.libraries: dict[tuple[int, str], Any] = {}  # modules, by their functions, classes and numbers that were read
        self.outside = outside()
        self.laters = False  # was something made that is another at each call? (later.py)
        self.orders = KeyOrders()  # of the function's arguments, see TwinRun
        self.root = self.place(None, "root", None, "")
        self._begin(f, self.root)
        for label, x in statics:
            if not is_scalar(x):
                self._static(x, label)

    def _static(self, x: Any, label: str) -> None:
        """A static argument; of a method, its object and its function as well."""
        found = found_as(x, label)
        place = self.place(None, found.step, found.key, label)
        self._as_it_was(x, place)
        if type(x) is types.MethodType:
            self._method(x, place, label)

    def _method(self, f: types.MethodType, place: Place, label: str) -> None:
        """What a bound method is made of, which may change: the class of the object, and the code of the function."""
        self._as_it_was(f.__self__, self.place(place, "attribute", "__self__", label))
        self._as_it_was(f.__func__, self.place(place, "attribute", "__func__", place.label))

    def _as_it_was(self, x: Any, place: Place) -> None:
        """An object that is told by identity, whose class may be exchanged, or a function, whose code may."""
        self.known_as(x, place)
        if place.check is not None:
            return
        kind = type(x)
        if not is_library(kind):
            place.check, place.known = "class", weakref.ref(kind)
        elif kind is types.FunctionType and not is_library(x):
            code = x.__code__
            if not is_twin(code):
                place.check, place.known = "code", code

    def _begin(self, f: Any, root: Place) -> None:
        """The function itself is what it was; what it is made of may change."""
        kind = type(f)
        if kind is types.MethodType:
            self._method(f, root, "self")
            return
        if kind is not types.FunctionType:  # whose code the cache compares
            self._as_it_was(f, root)
        self.known_as(f, root)
        if kind is types.FunctionType:
            if f.__closure__:
                cells = self.place(root, "attribute", "__closure__", "")
                self.known_as(f.__closure__, cells)
                self.closure(f, cells)

    # -- places

    def place(self, parent: Place | None, step: str, key: Any, label: str) -> Place:
        at = (id(parent), step, key if type(key) is str else key_of(key))
        found = self.table.get(at)
        if found is None:
            found = self.table[at] = Place(parent, step, key, label)
            self.places.append(found)
        return found

    def place_if_known(self, parent: Place | None, step: str, key: Any) -> Place | None:
        return self.table.get((id(parent), step, key_of(key)))

    def known_as(self, x: Any, place: Place) -> None:
        """x was there before, at that place."""
        if id(x) not in self.origin:
            self.origin[id(x)] = place
            self.keep.append(x)

    def of(self, x: Any) -> Place | None:
        """Where x was found; of a view, the array whose memory it shows."""
        found = self.origin.get(id(x))
        while found is None and type(x) is np.ndarray and type(x.base) is np.ndarray:
            x = x.base
            found = self.origin.get(id(x))
        return self._member(x) if found is None and isinstance(x, enum.Enum) else found

    def _member(self, x: Any) -> Place | None:
        """A member of an enum of the user's is found in that, by whatever way it has come."""
        kind = type(x)
        if is_library(kind) or kind._member_map_.get(x._name_) is not x:
            return None
        table = self.place(self.found_nowhere(kind, kind.__name__), "raw", "_member_map_", "")
        self.known_as(x, self.place(table, "item", x._name_, f"{kind.__name__}.{x._name_}"))
        return self.origin[id(x)]

    def found_nowhere(self, x: Any, label: str) -> Place | None:
        """A place for an object that is reached by no steps: it stays what it is as long as it lives."""
        found = self.origin.get(id(x))
        if found is None:
            check, known = reference(x)
            if check != "ref":
                return None
            found = self.place(None, "weak", known, label)
            self.known_as(x, found)
        return found

    def reached(self, f: Any) -> None:
        """What a function of funcad's that was there before holds of the user's was there as well."""
        todo, seen = [f], set()
        while todo:
            x = todo.pop()
            kind = type(x)
            if id(x) in seen or not callable(x):
                continue
            seen.add(id(x))
            if kind is types.MethodType:
                todo.append(x.__func__)
                self._held(x.__self__, "self")
            elif kind is functools.partial:
                todo += [x.func, *x.args, *x.keywords.values()]
            elif kind is types.FunctionType:
                if is_library(x):
                    todo += [getattr(x, "__wrapped__", None), *[content(cell) for cell in x.__closure__ or ()]]
                else:
                    self._held(x, x.__name__)
            elif kind.__module__.partition(".")[0] == "funcad":
                slots = [name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ()) if name[:2] != "__"]
                todo += [*dict_of(x).values(), *[getattr(x, name, None) for name in slots]]
            elif not isinstance(x, type) and not is_library(kind):
                self._held(x, kind.__name__)

    def _held(self, x: Any, label: str) -> None:
        self._as_it_was(x, self.found_nowhere(x, label) or self.place(None, "constant", x, label))

    def guard(self, place: Place, check: str, known: Any) -> None:
        """Another comparison at a place, which is made at each call."""
        if self.cached and check in _OF_DATA:
            self._not_cached(place.label)
        if place in self.stored_places or place.parent in self.stores.told:
            return
        if place in self.constants or place.parent in self.constants:
            return
        other = place.check is not None and (place.check, type(place.known)) != (check, type(known))
        if other or check == "alias" and place.check is None and place is not self.places[-1]:  # what it is comes before it
            place = self.place(place, "again", check, place.label)
        if place.check is None:
            place.check, place.known, place.source = check, known, user_source(3)

    def sized(self, place: Place, n: int) -> None:
        self.guard(self.place(place, "length", None, f"the length of {place.label}"), "scalar", n)

    # -- reads

    def read(self, parent: Place | None, step: str, key: Any, label: str, x: Any) -> Any:
        """A value that was loaded: as it is, with a guard at its place, or the traced value of an input."""
        kind = type(x)
        if self.cached and (kind is Tracer or is_scalar(x) or issubclass(kind, np.ndarray)) and parent not in self.constants:
            self._not_cached(label)
        if kind is Tracer and x.owner.level:
            return x
        place = self.place(parent, step, key, label)
        if self._is_set(place, x):
            return x
        if kind is Tracer:
            return self._lent(place, x)
        before = self.values.get(place, MISSING)
        self.last = place if before is MISSING else None
        if parent in self.constants:
            self.constants.add(place)
        if before is not MISSING:
            if type(before) is Tracer:
                return before
            if before is not x and not (is_scalar(before) and same(x, before)) and kind is not types.MethodType:
                self.refuse(f"{label} changes while the function runs")
            return x
        if (
            self.given
            and is_number(x)
            and place not in self.constants
            and (found := self.given.get(path_of(place))) is not None
        ):
            place.check, place.known, place.source = "given", kind, user_source(3)
            self.values[place] = found
            return found
        if label in self.inputs and place not in self.constants and (is_number(x) or kind is np.ndarray):
            return self._input(place, x)
        self.values[place] = x
        if is_scalar(x):
            self.guard(place, "scalar", x)
            return x
        if is_of_library(x):
            self.guard(place, "name", x)
        elif not issubclass(kind, types.ModuleType) or id(x) in self.origin:
            self._object(place, x, kind)
        if issubclass(kind, types.ModuleType):
            self.known_as(x, place)
        return x

    def in_cache(self, label: str, f: Callable[[], Any]) -> Any:
        """f(), whose result a cache may have kept: nobody sees it where f is pure, else it is refused."""
        kept, n = (self.cached, self.attributes), len(self.trace.equations)
        self.cached, self.attributes = label, {}
        try:
            with self.stores.none_in(label):
                found = f()
        finally:
            self.cached, self.attributes = kept
        if any([e.primitive.effect for e in self.trace.equations[n:]]):
            self.refuse(f"something is printed, drawn or asked in {label}")
        return found

    def _not_cached(self, label: str) -> None:
        self.refuse(f"{label} is read in {self.cached}")

    def _is_set(self, place: Place, x: Any) -> bool:
        """Is x, which is at that place, what the function has stored there?"""
        return place in self.stored_places or place.parent in self.stores.told or self.stores.renamed(place, x)

    def _lent(self, place: Place, x: Tracer) -> Any:
        """An array that was lent to a run before, which has left it there (writes/plain.py): its memory is read."""
        if type(x.primal) is not np.ndarray:
            return x
        if place not in self.values:
            self.guard(place, *reference(x))
            self.values[place] = x.primal
        return self.read(place, "attribute", "primal", place.label, x.primal)

    def of_library(self, table: dict[str, Any], name: str, label: str) -> None:
        """What stands under a name in a library's module, or among Python's own, may be exchanged there, as tests do."""
        self.guard(self.place(self.place(None, "constant", table, ""), "item", name, label), "name", table[name])

    def _object(self, place: Place, x: Any, kind: type) -> None:
        known = self.origin.get(id(x))
        if known is not None:
            self.guard(place, "alias", known)
            return
        self.known_as(x, place)
        if kind.__module__ == "decimal":
            settings = functools.partial(how_computed, x) if hasattr(kind, "prec") else how_computed
            self.asks(settings, "how decimals are rounded")
        if kind is types.FunctionType and not is_library(x):
            self.guard(place, "code", x.__code__)
        elif kind is types.MethodType:
            self.guard(place, "class", weakref.ref(kind))
            self._method(x, place, f"{place.label}.__self__")
            self.guard(self.place(place, "attribute", "__func__", place.label), *reference(x.__func__))
        elif kind in _BOUND and not isinstance(x.__self__, (types.ModuleType, type(None))):
            self.guard(place, "class", weakref.ref(kind))  # a method of an object in C, made anew at each access
            self.read(place, "attribute", "__self__", f"{place.label}.__self__", x.__self__)
            self.guard(self.place(place, "attribute", "__name__", place.label), "scalar", x.__name__)
        elif kind in VIEWS:
            self.refuse(f"{place.label} is a view of a dict, which shows what that holds by then")
        elif kind is contextvars.Context:
            self.refuse(f"{place.label} holds what context variables are in it")
        elif issubclass(kind, weakref.ref):
            self.guard(place, *reference(x))
            self.read(place, "call", None, f"{place.label}()", x())
        elif kind is np.ndarray:
            self.guard(place, "array", array_of(x))
            if type(x.base) is np.ndarray:  # whose memory other views show, too
                self.known_as(x.base, self.place(place, "attribute", "base", f"the memory of {place.label}"))
        elif issubclass(kind, _CODE) or issubclass(kind, enum.Enum) or is_library(kind) and not issubclass(kind, _OPEN):
            self.guard(place, *reference(x))
        else:
            self.guard(place, "class", weakref.ref(kind))

    def _input(self, place: Place, x: Any) -> Any:
        """The traced value of a place that is read again at each call: here it is placed, and its guard weakened."""
        trace = self.trace
        if type(trace) is not AbstractTrace or trace.closed:
            raise self.not_placed()
        aval = aval_of(x)
        variable = Var(Aval(aval.shape, aval.dtype, aval.weak))
        trace.captured[("read", id(variable))] = (variable, x)
        trace.stands_for[variable] = x
        if is_number(x):
            place.check, place.known = "integer" if type(x) is int else "number", type(x)
            place.source = user_source(3)
            state.unread += (variable,)
        else:
            place.check, place.known, place.source = "aval", (x.shape, x.dtype), user_source(3)
        self.placed.append(place)
        self.values[place] = found = Tracer(trace, variable)
        (self.tracers if is_number(x) else self.arrays)[id(found)] = place
        return found

    def constant(self, x: Any) -> None:
        """x stays as it is now: neither it nor what is read of it is looked at again."""
        place = self.origin.get(id(x))
        if place is None and self.last is not None and self.values.get(self.last) is x:
            place = self.last
        if place is not None and place is self.last and place not in self.placed:
            place.check = None
            self.constants.add(place)

    def missing(self, parent: Place | None, step: str, key: Any, label: str) -> None:
        """Something was looked for, and is not there: a guard that it is not."""
        self.guard(self.place(parent, step, key, label), "is", False if step == "has" else MISSING)

    def asks(self, f: Callable[[], Any], label: str) -> None:
        """What f(), which reads a setting of the process, answers."""
        at = self.place(self.place(None, "constant", f, ""), "call", None, label)
        self.guard(at, "scalar", f())

    def bases(self, kind: type) -> None:
        """Where attributes of a class are looked for, and of what it is a subclass."""
        if id(kind) in self.classes or is_library(kind):
            return
        self.classes.add(id(kind))
        self.keep.append(kind)
        place = self.origin.get(id(kind)) or self.found_nowhere(kind, kind.__name__)
        bases = kind.__mro__
        check = ("long", 2) if len(bases) == 2 else ("each", tuple(map(weakref.ref, bases)))
        self.guard(self.place(place, "attribute", "__mro__", f"the bases of {kind.__name__}"), *check)

    def content(self, x: Any, deep: int = DEEP) -> None:
        """x goes where nobody sees what becomes of it: all that it holds is told."""
        todo, made = [(x, deep)], {}
        while todo:
            x, deep = todo.pop()
            kind = type(x)
            if kind is Tracer:
                if id(x) in self.tracers:
                    raise self.not_placed(x)
            elif is_scalar(x) or issubclass(kind, _CODE) or id(x) in made:
                continue
            elif issubclass(kind, np.ndarray):
                self._array_content(x)
            elif self.of(x) is not None:
                if self._data(x, 2) != ():
                    todo += self._told(x, deep)
            elif issubclass(kind, CONTAINERS) or not is_library(kind):
                made[id(x)] = x  # by the function, which may change it later
                todo += self._told(x, deep)

    def looks_at_one(self, place: Place, x: np.ndarray, key: Any) -> bool:
        """Is an element of an array compared by itself? So many are not, that to compare all of it costs less."""
        if not {int}.issuperset(map(type, key if type(key) is tuple else (key,))):
            return False
        if self.place_if_known(place, "item", key) is None:
            self.looked_at[place] += _ONE
        return self.looked_at[place] <= x.nbytes

    def _array_content(self, x: Any) -> None:
        place, base = self.origin.get(id(x)), x
        while place is None and getattr(base, "base", None) is not None:
            base = base.base
            place = self.origin.get(id(base))
        if place is None or place in self.stored_places:
            return
        if type(base) is not np.ndarray:  # what it is beside its elements
            self.guard(self.place(place, "type", None, f"the type of {place.label}"), "is", type(base))
            self.spread(base, 2)
        if base.dtype.hasobject:
            for i, v in enumerate(base.ravel().tolist()):
                found = self.read(self.place(place, "attribute", "flat", place.label), "item", i, f"{place.label}.flat[{i}]", v)
                if self.is_input(found):
                    raise self.not_placed(found)
                self.content(found)
        else:
            self.guard(self.place(place, "again", "bytes", f"the elements of {place.label}"), "bytes", bytes_of(base))

    def spread(self, x: Any, deep: int = 1) -> None:
        """All items of a container are read, or all attributes of an object."""
        for v, left in list(self._told(x, deep)):
            self.content(v, left)

    def _told(self, x: Any, deep: int) -> Iterator[tuple[Any, int]]:
        place, kind = self.origin.get(id(x)), type(x)
        self._as_found(x, place)
        if not deep or deep > 1 and place is not None and self.spread_over.get(place, 0) >= deep:
            return
        if place is not None:
            self.spread_over[place] = deep
        left = deep - (not issubclass(kind, _OPEN) and is_library(kind) and "blocks" not in _fields_of(kind))
        for v in self.parts(place, x, kind):
            if self.is_input(v):  # which Python hands out as it is
                raise self.not_placed(v)
            if deep > 1:
                yield v, left

    def handed(self, x: Any, depth: int = 1, whole: bool = False) -> Any:
        """Items of a container, so deep, are handed out (`whole`: the rest is told): x, or a copy with inputs."""
        place, kind = self.origin.get(id(x)), type(x)
        if not depth or not issubclass(kind, CONTAINERS):
            if whole and not depth and kind is not Tracer:
                self.content(x)
            return x
        self._as_found(x, place)
        values = list(self.parts(place, x, kind))
        if kind not in (list, tuple, dict):
            if any(map(self.is_input, values)):
                raise self.not_placed(next(filter(self.is_input, values)))
            return x
        values = [self.handed(v, depth - 1, whole) for v in values]
        if all([a is b for a, b in zip(values, x.values() if kind is dict else x)]):
            return x
        made = dict(zip(x, values)) if kind is dict else kind(values)
        self.copies[id(made)] = made, place.label if place is not None else f"a {kind.__name__}"
        return made

    def returned(self, x: Any) -> Any:
        """What the function gives, a copy with inputs where it holds some: its containers that were there before are told."""
        place, kind = self.origin.get(id(x)), type(x)
        if not tree.is_tree_node(kind):
            return x
        self._as_found(x, place)
        values = list(self.parts(place, x, kind))
        found = [self.returned(v) for v in values]
        changed = id(x) in self.stores.before  # it is soon what it was before the call
        if not changed and all([a is b for a, b in zip(found, values)]) and not any(map(self.is_input, values)):
            return x
        if kind not in (list, tuple, dict):
            if changed:
                self.refuse(f"{place.label if place else kind.__name__} is changed and returned")
            raise self.not_placed(next(filter(self.is_input, values), None))
        return dict(zip(x, found)) if kind is dict else kind(found)

    def _as_found(self, x: Any, place: Place | None) -> None:
        if self.stores.rearranged(x):
            self.refuse(f"{place.label if place else type(x).__name__} is read as a whole after the function has changed it")

    def sliced(self, x: Any, key: slice) -> Any:
        """Part of a list or a tuple that was there before: no more of it is read."""
        self._as_found(x, self.origin[id(x)])
        return type(x)(self._elements(self.origin[id(x)], x, key))

    def _elements(self, place: Place, x: Any, which: slice) -> Iterator[Any]:
        self.sized(place, len(x))
        for i, v in list(enumerate(own_method(x, "__iter__")(x)))[which]:
            yield self.read(place, "item", i, f"{place.label}[{i}]", v)

    def _data(self, x: Any, deep: int = 1) -> tuple[Any, ...] | None:
        """One guard of all that x holds, but for inputs, whose keys are given; None: each thing is told for itself."""
        place = self.origin.get(id(x))
        deep = 0 if place is None or self.given else next((n for n in range(1, deep + 1) if is_data(x, n)), 0)
        if place is None or not deep:
            return None
        stored, held = self.stores.before, place.label in self.holders
        values = x.values() if type(x) is dict else x
        if stored and any([id(v) in stored for v in (x, *values)]) or deep > 1 and held:
            return None
        items = zip(x, values) if type(x) is dict else enumerate(x)
        but = tuple([k for k, v in items if f"{place.label}[{k!r:.40}]" in self.inputs and is_number(v)]) if held else ()
        known, at = data_of(x, deep, but), self.place(place, "again", ("data", deep), place.label)
        if at.check is not None and at.known != known:
            self.refuse(f"{place.label} changes while the function runs")
        self.guard(at, "data", known)
        return but

    def in_data(self, place: Place, key: Any) -> bool:
        """Is what stands there told with all the rest?"""
        at = self.place_if_known(place, "again", ("data", 1))
        return at is not None and at.check is not None and key not in at.known[1]

    def below(self, place: Place) -> list[str]:
        """The labels of all that was read there, and of what it holds."""
        found = [p for p in [*self.values, *self.places] if is_below(p, place)]
        return [label for p in found for label in (labels_of(p) if p.check == "data" else [p.label])]

    def parts(self, place: Place | None, x: Any, kind: type) -> Iterator[Any]:
        if place is None:
            yield from (
                own_method(x, "__iter__")(x) if issubclass(kind, LISTS) else dict.values(x) if issubclass(kind, dict) else ()
            )
            yield from () if is_library(kind) else held_by(x, slots_of(kind)).values()
        elif (but := self._data(x)) is not None:
            step, items = ("entry", x.items()) if kind is dict else ("item", enumerate(x))
            read = set(but)
            yield from [self.read(place, step, k, f"{place.label}[{k!r:.40}]", v) if k in read else v for k, v in items]
        elif issubclass(kind, LISTS):
            yield from self._elements(place, x, slice(None))
        elif issubclass(kind, dict):
            self.keys(place, x)
            for k, v in list(dict.items(x)):
                yield self.read(place, "entry", k, f"{place.label}[{k!r:.40}]", v)
        elif issubclass(kind, (set, frozenset)):
            self.guard(self.place(place, "again", "set", place.label), "set", elements_of(x))
            self._keyed(x, place)
        elif kind is types.MappingProxyType:
            inside = self.behind(x)
            yield from self.parts(self.origin.get(id(inside)), inside, type(inside))
        elif issubclass(kind, (bytearray, memoryview)) or kind.__module__ == "array":
            self.guard(self.place(place, "memory", None, f"the contents of {place.label}"), "scalar", memoryview(x).tobytes())
        else:
            yield from self._attributes(place, x, kind)

    def behind(self, x: Any) -> Any:
        """The mapping that a proxy shows, which is what is read of it; anything else as it is."""
        place = self.origin.get(id(x)) if type(x) is types.MappingProxyType else None
        if place is None:
            return x
        inside = self.read(place, "shows", None, place.label, shown_by(x))
        if not issubclass(type(inside), dict) or not is_library(type(inside)):  # the proxy calls methods that nobody sees
            self.content(inside)
        return inside

    def keys(self, place: Place, x: Any) -> None:
        """The keys of a dict are read, in their order."""
        self._keyed(dict.keys(x) if issubclass(type(x), dict) else x, place)
        self.guard(self.place(place, "again", "keys", f"the keys of {place.label}"), "names", keys_of(x))

    def _keyed(self, keys: Any, place: Place) -> None:
        """Keys and elements that are told by identity were there before, and may change."""
        for k in keys:
            if type(k) is tuple:
                self._keyed(k, place)
            elif not is_scalar(k):
                self._held(k, f"a key of {place.label}")
                if issubclass(type(k), weakref.ref) and k() is not None:
                    self._held(k(), f"a key of {place.label}")

    def _attributes(self, place: Place, x: Any, kind: type) -> Iterator[Any]:
        if draws(kind) or kind.__module__.partition(".")[0] == "funcad":
            return
        self.guard(place, *reference(x))
        inside = dict_of(x)
        held = inside or held_by(x, [*(slots_of(kind) if hasattr(kind, "__slots__") else ()), *_fields_of(kind)])
        for name, v in list(held.items()):
            if type(name) is str and not issubclass(type(v), _CODE):
                yield self.read(place, "own" if name in inside else "attribute", name, f"{place.label}.{name}", v)

    def is_input(self, x: Any) -> bool:
        """Does x stand for what is read again at each call?"""
        if type(x) is not Tracer:
            return False
        read = id(x) in self.tracers or id(x) in self.arrays
        return read or any([x is y for y in self.given.values()])

    def derived(self, x: Any) -> None:
        """x was computed of numbers that are inputs, and stands for a number of Python's as they do."""
        if type(x) is Tracer:
            self.tracers[id(x)] = None
            self.keep.append(x)

    def runs_once(self, does: str) -> bool:
        """Does what runs now run once in each run of f, on values that are there then? The body of a loop does not.

        Refused in what vmap maps, which runs for all examples at once: un-jitted they go one after the other.
        """
        trace, mapped = state.abstract, False
        while trace is not self.trace:
            if trace is None or trace.given is None:
                return False
            mapped, trace = mapped or any(trace.given.lanes), trace.around[1]
        if mapped:
            self.refuse(f"a function that vmap maps {does}")
        return True

    # -- what stops it

    def not_placed(self, x: Any = None) -> Unplaced:
        """A number that was to be an input goes where Python needs its value. The user's `except Exception` may take this."""
        if self.given:
            self.refuse("a number that the function advances is read where nobody sees it")
        place = self.tracers.get(id(x)) or self.arrays.get(id(x))
        self.unplaced = self.unplaced or Unplaced(place.label if place is not None else "")
        return self.unplaced

    @staticmethod
    def users_line() -> tuple[str, types.CodeType | None]:
        """The line of the user's that runs, as text, and its code."""
        frame: Any = sys._getframe(1)
        while frame is not None and is_internal(frame.f_code.co_filename):
            frame = frame.f_back
        return ("", None) if frame is None else (str(Source(frame.f_code, frame.f_lasti)), tracing.shown_code(frame.f_code))

    def see(self, f: Any) -> None:
        """Something of a library's, or of the user's that has no code in Python, is about to be called."""
        reason = refusal_of(f)
        if reason is not None:
            self.refuse(reason)

    def refuse(self, reason: str, at: tuple[str, types.CodeType | None] | None = None) -> None:
        """`at`: the line to name, where it is not the one that runs."""
        self.refused = self.refused or Refusal(reason, *(at or self.users_line()))
        raise self.refused

    def guards(self) -> Guards | None:
        """What the program depends on."""
        self._keep_distinct()
        places = needed([*self.placed, *self.places])
        return Guards(places) if places else None

    def _keep_distinct(self) -> None:
        """What is changed, or copied with all that it holds, is not one with something else that is read, unless it was."""
        kinds = {type(x) for x, _, _ in self.stores.before.values()}
        found: dict[type, dict[Place, str]] = {}
        for x in self.keep:
            place, kind = self.origin.get(id(x)), type(x)
            if place is not None and (kind in kinds or self.shares and may_change(kind)):
                found.setdefault(kind, {})[place] = place.label
        for places in found.values():
            if len(places) > 1:
                key = "distinct", hash(tuple(map(path_of, places)))
                self.guard(self.place(self.root, "again", key, ", ".join(places.values())), "distinct", tuple(places))

    def forget(self) -> None:
        """The run has ended: nothing of the user's is held from now on."""
        self.function = lambda: None
        self.orders.begin()
        self.trace = self.last = self.refused = self.unplaced = None
        stores = self.stores.before, self.stores.names, self.stores.keys
        for table in (*stores, *[x for x in vars(self).values() if type(x) in (dict, list, set) and x is not self.inputs]):
            table.clear()

    def twin(self, f: Any) -> Any:
        """The twin of a function of the user's; where it can have none, f with a look at what it can reach."""
        self.defaults_of(self, f)
        try:
            return self.twins.of(f)
        except Untwinnable:
            return self.untwinned(self, f)

    def runs_as(self, f: Any, refusal: Refusal | None = None) -> Any:
        """What funcad calls in the place of a function that it was given: the twin of one of the user's."""
        if refusal is not None and type(f) is types.FunctionType and is_twin(f.__code__):  # it has run, and may have stored
            self.refuse(f"a jitted function that is made inside is not compiled: {refusal}")
        if type(f) is types.MethodType and type(f.__func__) is types.FunctionType and not is_library(f.__func__):
            return types.MethodType(self.twin(f.__func__), f.__self__)
        if type(f) is functools.partial:
            return functools.partial(self.runs_as(f.func), *f.args, **f.keywords)
        if not isinstance(f, type) and not is_library(type(f)):
            method = self.method_of(self, type(f), "__call__")
            if method is not None:
                return types.MethodType(method, f)
        if type(f) is types.FunctionType and not is_library(f):
            return self.twin(f)
        self.see(f)
        return f

    def also(self, guards: Guards | None, f: Any) -> list[Any] | None:
        """What another function's program depends on, which is a part of this one; gives the values of its inputs.

        None: some of it is gone.
        """
        values: list[Any] = []
        if type(f) is types.FunctionType and id(f) not in self.origin:
            if not is_twin(f.__code__):  # else it was made in this call
                self._held(f, f.__name__)
        if guards is None:
            return values
        at: dict[int, Place | None] = {}
        found: dict[int, Any] = {}
        for other in guards.places:
            try:
                x = found[id(other)] = other.value_of(f if other.parent is None else found[id(other.parent)])
            except Exception:  # as `evaluated` has it
                return None
            place = at[id(other)] = self._placed(other, x, at, found)
            if place is not None and other.check not in INPUTS and not is_scalar(x) and type(x) is not Tracer:
                self.known_as(x, place)
            if place is None:
                if other.check in INPUTS:
                    values.append(x)
            elif other.check in INPUTS:
                values.append(self.read(place.parent, place.step, place.key, place.label, x))
            elif other.check == "distinct":
                self.shares = True
            elif other.check != "alias":
                if other.check is not None:
                    self.guard(place, other.check, other.known)
            else:
                known = at[id(other.known)]
                if known is not None and known is not place:
                    self.guard(place, "alias", known)
        return values

    def _placed(self, other: Place, x: Any, at: dict[int, Place | None], found: dict[int, Any]) -> Place | None:
        """A place of another function's, as one of this one's; None if what is there was made in this call."""
        if other.parent is None:
            if other.step != "root":
                return self.place(None, other.step, other.key, other.label)
            made = type(x) is types.FunctionType and is_twin(x.__code__)
            return self.origin.get(id(x)) or (
                None if made else self.found_nowhere(x, "") or self.place(None, "constant", x, "")
            )
        parent = at[id(other.parent)]
        if other.step == "attribute" and other.key == "__globals__" and (parent is None or parent.step == "weak"):
            return self.origin.get(id(x)) or self.place(None, "constant", x, other.label)  # the function may be gone
        if parent is not None:
            place = self.place(parent, other.step, other.key, other.label)
            holder = found[id(other.parent)]
            appended = type(other.key) is int and type(holder) is list and other.key >= self.stores.length(holder)
            return self.origin.get(id(x)) if appended or self._is_set(place, x) else place
        cell = found[id(other.parent)][other.key] if other.step == "cell" else None
        return self.cells.get(id(cell)) or (None if is_scalar(x) else self.origin.get(id(x)))

    def closure(self, f: types.FunctionType, place: Place) -> None:
        """The cells of a function that was there before."""
        for i, cell in enumerate(f.__closure__ or ()):
            label = f"closure variable {f.__code__.co_freevars[i]}"
            self.cells.setdefault(id(cell), self.place(place, "cell", i, label))

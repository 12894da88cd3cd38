"""What runs in the place of what the user's code calls: twins of the user's functions, and libraries' functions with a look at
what goes into them.

Idea: a function of the user's is called as its twin, wherever it came from: a global, an attribute, a method, a partial. A
library's function is code that nobody sees, so what is handed to it and was there before is told as a whole, unless a traced
value goes in beside it: then it is funcad's function that runs, which reads arrays by reference. refused_calls.py and `_method`
are the table of what can be neither read again nor replayed.

Traps: NumPy's function of a captured array gives a number that no program computes, so its elements are a guard; a function
that is handed to one of ours or of Python's is called by that, and goes as its twin; a list keeps what it is given, so it gets
the function itself.
"""

from __future__ import annotations

import abc
import array
import builtins
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import io
import itertools
import operator
import os
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import Remade, of_method
from funcad.host.real_types import is_a
from funcad.host.where import handing, setting, state, tracing, unseen
from funcad.ir.tracer import Tracer
from funcad.memo import remembers
from funcad.primitives.host import results_of
from funcad.reads.answered_calls import TEXTS, answers
from funcad.reads.code_reads import COPYING, MISSING, content, copies, draws, is_library, is_of_library, own_method, top_of
from funcad.reads.later import Later, LaterMethod, all_now, is_live, text
from funcad.reads.lending import call_lending
from funcad.reads.observer import CONTAINERS, DEEP, VIEWS, Observer, how_computed
from funcad.reads.places import call_key, is_scalar, reference, shown
from funcad.reads.refused_calls import named
from funcad.reads.replays import replayed, spoken, told_argument, told_key
from funcad.reads.stores import held_before
from funcad.tree.same import held_by, slots_of

from funcad.reads.attributes import (  # isort: skip
    attribute, is_users_function, method_of, raw_of, twin_of,
)  # fmt: skip

_MANAGED = contextlib.contextmanager(lambda: None).__code__  # type: ignore[arg-type, return-value]
_DISPATCHED = functools.singledispatch(lambda x: x).__code__
_METHOD = getattr(functools.singledispatchmethod(lambda x: x).__get__(0), "__code__", None)
_AS_THEY_ARE = frozenset(  # they look at their caller, or at nothing that can change
    [
        builtins.locals,
        builtins.super,
        builtins.range,
    ]
    + [builtins.slice, builtins.property, builtins.staticmethod, builtins.classmethod, sys._getframe, inspect.currentframe]
    + [inspect.stack, builtins.object, builtins.__build_class__]
)
_SHARED = frozenset("queue _queue threading _thread multiprocessing socket subprocess sqlite3 concurrent".split())
_CHANGING = {  # methods that change what they belong to
    list: "append extend insert pop remove clear sort reverse".split(),
    dict: "update setdefault pop popitem clear move_to_end".split(),
    set: "add discard remove pop clear update difference_update intersection_update symmetric_difference_update".split(),
    collections.deque: "append appendleft pop popleft extend extendleft rotate clear".split(),
    np.ndarray: "fill sort partition itemset setflags resize put byteswap".split(),
}
_VIEWS = frozenset("reshape transpose ravel view swapaxes squeeze diagonal".split())  # methods that read no element
_KEEPERS = frozenset([functools.partial, functools.wraps, functools.update_wrapper, builtins.id, builtins.hash, builtins.repr])


def called(observer: Observer, f: Any, caller: Any) -> Any:
    """What is called in the place of f, in a function `caller` of the user's."""
    kind = type(f)
    if kind is np.ufunc:  # of which nothing else is asked
        return observer.ufuncs.get(f) or observer.ufuncs.setdefault(f, LibraryCall(observer, _of_twin(observer, f)))
    if kind is types.FunctionType:
        return _library(observer, f, caller) if is_library(f) else twin_of(f)
    if kind is types.MethodType:
        inner = f.__func__
        if is_users_function(inner):
            return types.MethodType(twin_of(inner), f.__self__)
        made = of_method(inner, f.__self__) if isinstance(inner, Remade) else None  # `@grad` on a method
        return _library(observer, f if made is None else made, caller)
    if kind is functools.partial:
        return _partial(observer, f, caller)
    if isinstance(f, type):
        if not is_library(f):
            return _class(observer, f)
        return _library(observer, f, caller)
    if kind in _GETTERS:
        return _getter(observer, f)
    if kind is np.vectorize and is_users_function(f.pyfunc):
        return _vectorized(observer, f)
    if not is_library(kind):
        method = method_of(observer, kind, "__call__")
        if method is not None:
            return types.MethodType(method, f)
    return _library(observer, f, caller)


def _partial(observer: Observer, f: Any, caller: Any) -> Any:
    place = observer.origin.get(id(f))
    if place is not None:
        for name in ("args", "keywords"):
            held = getattr(f, name)
            observer.known_as(held, observer.place(place, "attribute", name, place.label))
            observer.spread(held)
        observer.read(place, "attribute", "func", place.label, f.func)
    return functools.partial(called(observer, f.func, caller), *f.args, **f.keywords)


def _of_twin(observer: Observer, f: np.ufunc) -> np.ufunc:
    """A ufunc that np.frompyfunc made, which calls the twin of its function; any other ufunc as it is."""
    inner = gc.get_referents(f) if "(" in f.__name__ else []
    if is_users_function(inner[0] if inner else None):
        return np.frompyfunc(twin_of(inner[0]), f.nin, f.nout, **({} if f.identity is None else {"identity": f.identity}))
    if inner and not is_of_library(inner[0]):
        observer.refuse(f"np.{f.__name__} calls a {type(inner[0]).__name__}, and nobody sees what it reads")
    return f


def _vectorized(observer: Observer, f: np.vectorize) -> LibraryCall:
    """`np.vectorize(g)`, which calls the twin of g."""
    place = observer.origin.get(id(f))
    if place is not None:
        observer.known_as(f.pyfunc, observer.place(place, "attribute", "pyfunc", place.label))
    made = copy.copy(f)
    vars(made).update(pyfunc=twin_of(f.pyfunc), _ufunc={})
    return LibraryCall(observer, made)


def _class(observer: Observer, f: type) -> Any:
    """A class of the user's: what its `__new__` and `__init__` do is seen."""
    observer.see(f)
    made_by = method_of(observer, type(f), "__call__") if type(f) is not type else None
    if made_by is not None:
        return types.MethodType(made_by, f)
    new, begin = f.__new__, f.__init__
    theirs = [("__new__", "attribute", new)] if issubclass(f, np.ndarray) and is_users_function(new) else []
    if type(f) is not type or not theirs and (new is not object.__new__ or not is_users_function(begin)):
        observer.orders.seen = observer.orders.seen or issubclass(f, CONTAINERS) and bool(observer.orders.dicts)
        return lambda *args, **kwargs: f(*map(all_now, args), **{k: all_now(a) for k, a in kwargs.items()})
    for name, step, function in [*theirs, *[("__init__", "raw", begin)] * is_users_function(begin)]:
        base = raw_of(f, name)[0]
        place = observer.origin.get(id(base)) or observer.found_nowhere(base, base.__name__)
        at = observer.place(place, step, name, f"{base.__name__}.{name}")
        observer.guard(at, "code", function.__code__)
        observer.known_as(function, at)

    def make(*args: Any, **kwargs: Any) -> Any:
        made = twin_of(new)(f, *args, **kwargs) if theirs else object.__new__(f)
        if is_users_function(begin) and isinstance(made, f):
            twin_of(begin)(made, *args, **kwargs)
        return made

    return make


def _library(observer: Observer, f: Any, caller: Any) -> Any:
    try:
        if f in _AS_THEY_ARE:
            return f
        if f in _OF_CLASSES:
            return functools.partial(_of_classes, observer, f)
    except TypeError:  # what cannot be hashed
        pass
    observer.see(f)
    if getattr(f, "__module__", None) == "traceback":  # it looks at its caller, too
        return f
    if getattr(f, "__module__", None) == "decimal":
        observer.asks(how_computed, "how decimals are rounded")
    if id(f) in observer.origin and (type(f) is types.FunctionType or type(f).__module__.partition(".")[0] == "funcad"):
        observer.reached(f)
    if type(f) is types.FunctionType and f.__code__ is _MANAGED and is_users_function(f.__wrapped__):
        place = observer.origin.get(id(f))
        if place is not None:
            observer.known_as(f.__wrapped__, observer.place(place, "attribute", "__wrapped__", place.label))
        return contextlib.contextmanager(twin_of(f.__wrapped__))
    if type(f) is types.FunctionType and f.__code__ is _DISPATCHED:
        return _dispatched(observer, f, caller)
    if type(f) is types.FunctionType and f.__code__ is _METHOD:  # made anew at each access
        held = {name: content(cell) for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ())}
        dispatcher = f.register.__self__.dispatcher  # in which cell it is depends on Python's version
        for x in (held["obj"], dispatcher) if id(f) in observer.origin else ():
            observer.found_nowhere(x, f.__name__)
        return _dispatched(observer, dispatcher, caller, held["obj"], held["cls"])
    if f is builtins.globals:
        table = caller.__globals__
        of = observer.found_nowhere(caller, caller.__qualname__)
        gone = of is None or of.step == "weak"  # at the next call it may be
        of, step, key = (None, "constant", table) if gone else (of, "attribute", "__globals__")
        place = observer.place(of, step, key, "globals()")
        observer.known_as(table, place)
        return lambda: table
    return LibraryCall(observer, f)


_OF_CLASSES = frozenset([builtins.isinstance, builtins.issubclass, builtins.callable])


def _of_classes(observer: Observer, f: Any, /, *args: Any) -> bool:
    """isinstance, issubclass or callable: bases, and what is registered, may be others later."""
    kind = args[0] if f is builtins.issubclass and isinstance(args[0], type) else type(args[0])
    if kind is Tracer or kind is Later or len(args) != 1 + (f is not builtins.callable):
        return bool(f(*args))
    observer.bases(kind)
    if f is not builtins.callable:
        return any([_of_class(observer, f, args[0], c, kind) for c in _each(args[1])])
    if not is_library(kind):
        method_of(observer, kind, "__call__")
    return bool(f(*args))


def _each(classes: Any) -> list[Any]:
    parts = classes if type(classes) is tuple else classes.__args__ if type(classes) is types.UnionType else None
    return [classes] if parts is None else [c for part in parts for c in _each(part)]


def _of_class(observer: Observer, f: Any, x: Any, c: Any, kind: type) -> bool:
    way = type(c)
    if way is type or is_library(kind) and is_library(c):
        return bool(f(x, c))
    method = method_of(observer, way, "__subclasscheck__" if f is builtins.issubclass else "__instancecheck__")
    if method is not None:
        return bool(method(c, x))
    if issubclass(way, abc.ABCMeta):
        observer.asks(abc.get_cache_token, "the classes that are registered")
        hook = raw_of(c, "__subclasshook__")[1]
        if type(hook) is classmethod and is_users_function(hook.__func__):
            twin_of(hook.__func__)(c, kind)
        if getattr(c, "_is_protocol", False) and f is builtins.isinstance:
            for name in [*[n for n in dir(c) if n[:1] != "_"], *getattr(c, "__annotations__", ())]:
                attribute(x, name, None)
    return bool(f(x, c))


def _getter(observer: Observer, f: Any) -> Callable[[Any], Any]:
    """operator.attrgetter and operator.methodcaller, step by step."""
    make, args = f.__reduce__()
    if make is operator.attrgetter:
        paths = [path.split(".") for path in args]

        def get(x: Any) -> Any:
            found = [functools.reduce(attribute, path, x) for path in paths]
            return found[0] if len(found) == 1 else tuple(found)

        return get
    name, *rest = (*make.args, *args) if type(make) is functools.partial else args
    kwargs = make.keywords if type(make) is functools.partial else {}
    return lambda x: called(observer, attribute(x, name), None)(*rest, **kwargs)


_GETTERS = frozenset([operator.attrgetter, operator.methodcaller])


def _dispatched(observer: Observer, f: Any, caller: Any, *of: Any) -> Any:
    """A function of functools.singledispatch, or a method `of` an object: what is registered is compared, a twin called."""
    place = observer.origin.get(id(f))
    if place is not None:
        asked = observer.place(place, "attribute", "dispatch", place.label)
        i = f.dispatch.__code__.co_freevars.index("registry")
        cells = observer.place(asked, "attribute", "__closure__", place.label)
        at = observer.place(cells, "cell", i, f"what is registered for {place.label}")
        held = f.dispatch.__closure__[i].cell_contents
        observer.keys(at, held)
        for kind, function in held.items():
            observer.read(at, "entry", kind, at.label, function)
    found = lambda x: f.dispatch(x.__class__).__get__(*of) if of else f.dispatch(x.__class__)
    return lambda *args, **kwargs: called(observer, found(args[0]), caller)(*args, **kwargs)


class LibraryCall:
    """A call of somebody else's code: what goes in is seen, what is done with it is not."""

    __slots__ = ("observer", "f")

    def __init__(self, observer: Observer, f: Any):
        self.observer, self.f = observer, f

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if state.told is None or not _is_numpys(self.f) or not all(map(_is_plain, (*args, *kwargs.values()))):
            return self._called(*args, **kwargs)
        with unseen():
            return self._called(*args, **kwargs)

    def _called(self, /, *args: Any, **kwargs: Any) -> Any:
        observer, f = self.observer, self.f
        if type(f) is np.ufunc and not kwargs and _NUMBERS.issuperset(map(type, args)):  # which it computes with, and no more
            return tracing.door_of(f)(*args)
        owner = getattr(f, "__self__", None)
        observer.orders.asked(f, owner, args, kwargs)
        if kwargs and kwargs.get("rng", f) is None:
            observer.refuse(f"{named(f)[1]} begins with other numbers at each call")
        if type(f) is LaterMethod:
            return f(*args, **kwargs)
        answer = _answers.get(named(f)) or (_answers.get(f) if type(f) in _HASHABLE else None)
        if observer.laters and answer is not None and f not in TEXTS:
            args, kwargs = tuple(map(all_now, args)), {k: all_now(a) for k, a in kwargs.items()}
        if answer is not None:
            found = answer(observer, args, kwargs)
            if found is not MISSING:
                return found
        cached = f.__func__ if type(f) is types.MethodType else f
        if type(cached) is functools._lru_cache_wrapper and is_users_function(cached.__wrapped__):
            return _remembered(observer, cached, args if cached is f else (owner, *args), kwargs)
        if type(f) is weakref.ref:
            place = observer.origin.get(id(f))
            return f() if place is None else observer.read(place, "call", None, f"{place.label}()", f())
        if args and type(args[0]) is Tracer and (f is builtins.hash or issubclass(type(owner), dict)):
            args = (told_key(observer, args[0]), *args[1:])
        if type(owner) is str and owner is not f:  # "{}".format(x)
            live = [is_live(observer, a) for a in (*args, *kwargs.values())]
            if any(live) and f.__name__ in ("format", "join"):
                found = text(observer, lambda given, named: f(*given, **named), [[*args], kwargs])
                if found is not MISSING:
                    return found
            args, kwargs = tuple([spoken(observer, a) for a in args]), {k: spoken(observer, a) for k, a in kwargs.items()}
        found = replayed(observer, f, owner, args, kwargs)
        if found is not MISSING:
            return found
        if observer.laters and not (type(owner) is list and f.__name__ == "append"):
            args, kwargs = tuple(map(all_now, args)), {k: all_now(a) for k, a in kwargs.items()}
        x, name, rest = _changed_by(f, owner, args)
        if x is not None and type(x) is not Tracer:
            found = MISSING
            if not _changes(observer, x, name, rest) and (x is owner or issubclass(type(x), tuple(_CHANGING))):
                found = _method(observer, f, x, rest, kwargs)
            if found is not MISSING:
                return found
        elif type(f) not in _HASHABLE and id(f) in observer.origin and top_of(type(f)) != "funcad":
            observer.spread(f, 3)  # an object that can be called, which reads what it holds
        if type(f) in _HASHABLE and f in _APPLYING:
            args = tuple([_applied(observer, a) for a in args])
            kwargs = {k: _applied(observer, a) for k, a in kwargs.items()}
        if type(f) in _HASHABLE and f in _RUNNING or top_of(f) in ("math", "statistics", "heapq", "_heapq", "collections"):
            args = tuple([told_on_its_way(observer, a, f) for a in args])
        traced = any(map(_is_traced, args))
        if not traced:
            _writes(observer, f, args, kwargs)
            traced = bool(kwargs) and any(map(_is_traced, kwargs.values()))
        args = tuple([_given(observer, a, traced, f) for a in args])
        if kwargs:
            kwargs = {k: _given(observer, a, traced, f) for k, a in kwargs.items()}
        if top_of(f) in COPYING:
            _copied(observer, [args, kwargs], f)
        return tracing.door_of(f)(*args, **kwargs) if state.lender is None else call_lending(f, args, kwargs)


def _copied(observer: Observer, values: list[Any], f: Any) -> None:
    """A copy of a generator that was there before would go on from where that is now."""
    todo, met = values, set()
    while todo:
        x = todo.pop()
        kind = type(x)
        if id(x) in met or issubclass(kind, (type, types.ModuleType, types.FunctionType)):
            continue
        met.add(id(x))
        if draws(kind) and observer.of(x) is not None and f is not dataclasses.replace:
            observer.refuse(f"{f.__name__} copies {observer.origin[id(x)].label}, which is a generator")
        todo += x.values() if issubclass(kind, dict) else x if issubclass(kind, CONTAINERS) else ()
        todo += held_by(x, slots_of(kind)).values()


def _applied(observer: Observer, x: Any) -> Any:
    """What is handed to `map` and the like: what a library's function is given there is seen, each time."""
    if x is None or type(x) in _HASHABLE and x in _answers:  # `filter(None, ...)`
        f: Any = bool if x is None else x
        return lambda *args: f(*[_given(observer, a, False, f) for a in args])
    applied = callable(x) and type(x) is not Tracer and not is_users_function(x) and not hasattr(type(x), "__iter__")
    return called(observer, x, None) if applied else x


def told_on_its_way(observer: Observer, x: Any, f: Any) -> Any:
    """What f, of a library, runs through: of an iterator that the function has made, or a view of a dict, each is told then."""
    if type(x) in VIEWS or hasattr(type(x), "__next__") and observer.of(x) is None:
        return map(functools.partial(_given, observer, traced=False, f=f), x)
    return x


def _changed_by(f: Any, owner: Any, args: tuple) -> tuple[Any, str, tuple]:
    """What a method belongs to, its name, its further arguments: of `x.m(v)`, `type(x).m(x, v)`, functions of operator."""
    name = getattr(f, "__name__", "")
    if owner is not None and type(owner) is not types.ModuleType:
        return owner, name, args
    if args and type(f) in (types.WrapperDescriptorType, types.MethodDescriptorType):
        return args[0], name, args[1:]
    if args and getattr(f, "__module__", None) == "_operator" and (name in ("setitem", "delitem") or name in _IN_PLACE):
        return args[0], f"__{name}__", args[1:]
    return None, "", ()


def _changes(observer: Observer, x: Any, name: str, args: tuple) -> bool:
    """A special method that changes x, called by its name; False if it is none."""
    if name == "__setitem__" and len(args) == 2:
        observer.stores.item(x, args[0], None)
    elif name == "__delitem__":
        observer.stores.whole(x) if isinstance(x, list) or len(args) != 1 else observer.stores.deleted(x, args[0])
    elif name in ("__setattr__", "__delattr__") and args and type(args[0]) is str:
        observer.stores.attribute(x, args[0])
    elif name.strip("_") in _IN_PLACE and name[:2] == "__":
        observer.stores.method(x, name.strip("_").replace("iconcat", "iadd"), args)
    else:
        return False
    return True


_IN_PLACE = frozenset("iadd iconcat imul isub iand ior ixor itruediv ifloordiv imod ipow ilshift irshift imatmul".split())


handing.add(LibraryCall.__call__.__code__)
handing.add(LibraryCall._called.__code__)
_PLAIN = frozenset([float, int, bool, complex, str, type(None), np.float64, np.ndarray, Tracer])


def _is_plain(x: Any) -> bool:
    """Is it nothing that a function of NumPy's would call?"""
    return type(x) in _PLAIN or (type(x) is tuple or type(x) is list) and all(map(_is_plain, x))


def _is_numpys(f: Any) -> bool:
    return type(f) in _NUMPYS and getattr(np, getattr(f, "__name__", ""), None) is f


_NUMPYS = frozenset([np.ufunc, type(np.sum), type(np.array)])


def _writes(observer: Observer, f: Any, args: tuple, kwargs: dict) -> None:
    """An array that was there before, into which a function writes; no argument is traced."""
    out = kwargs.get("out")
    for x in (*(out if type(out) is tuple else (out,)), *args[_place_of_out(f) :][: max(1, getattr(f, "nout", 1))]):
        if is_a(x, np.ndarray):
            observer.stores.item(x, None, None)
    scatters = type(getattr(f, "__self__", None)) is np.ufunc and f.__name__ == "at"
    if args and (scatters or type(f) in _HASHABLE and f in _WRITERS):
        if type(args[0]) is np.ndarray:
            observer.stores.item(args[0], None, None)


def _place_of_out(f: Any) -> int:
    """Where NumPy's function or method takes `out` by position."""
    if type(f) is np.ufunc:
        return f.nin
    is_method = type(getattr(f, "__self__", None)) is np.ndarray
    function = getattr(np, f.__name__, None) if is_method else f
    if function is np.dot:
        return 2 - is_method
    return _position_of_out(function) - is_method if type(function) is type(np.copyto) else sys.maxsize


@remembers(512)
def _position_of_out(function: Any) -> int:
    """A function of NumPy's in Python."""
    try:
        names = [*inspect.signature(function).parameters]
    except ValueError:  # written in C
        names = []
    return names.index("out") if "out" in names else sys.maxsize


_WRITERS = frozenset([np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis])


def _remembered(observer: Observer, f: Any, args: tuple, kwargs: dict) -> Any:
    """A function of the user's that has a cache, which is asked at each call, as in plain Python.

    A cache that the function has just made is not kept: it runs, once for each set of arguments, so that what it reads is seen.
    Where the program alone knows an argument, a traced float, nobody can tell whether the cache has an answer: it runs, and is
    refused where that shows, because it reads or stores more than its arguments.
    """
    args = told_argument(observer, args)
    kwargs = {k: told_argument(observer, a) for k, a in kwargs.items()}
    place, given = observer.origin.get(id(f)), (*args, *kwargs.values())
    key = None if any(map(_is_traced, given)) else (id(f), functools._make_key(args, kwargs, True))
    call = None if key is None or place is None else call_key(args, kwargs)
    if call is not None and place is not None:
        for at, x in [(observer.origin[id(x)], x) for x in given if id(x) in observer.origin]:
            observer.guard(at, *reference(x))  # the cache goes by it
        with setting(asks_again=True):
            found = f(*args, **kwargs)
        said = ", ".join([*map(shown, args), *[f"{k}={shown(x)}" for k, x in kwargs.items()]])
        call = observer.results.setdefault(key, (f.cache_info().misses, *call))
        return observer.read(place, "called", call, f"{place.label}({said})", found)
    if key not in observer.results:
        if place is not None:
            observer.known_as(f.__wrapped__, observer.place(place, "attribute", "__wrapped__", place.label))
        run = functools.partial(twin_of(f.__wrapped__), *args, **kwargs)
        if key is None:
            says = f"{f.__name__}, whose cache cannot be asked for a traced number"
            return run() if place is None else observer.in_cache(says, run)
        observer.results[key] = run()
    return observer.results[key]


_HASHABLE = frozenset(
    [types.BuiltinFunctionType, types.FunctionType, type, np.ufunc, functools._lru_cache_wrapper, type(np.copyto)]
)


def _is_traced(x: Any) -> bool:
    values = x.values() if type(x) is dict else x if type(x) in (list, tuple) else ()
    return type(x) is Tracer or not _TOLD.issuperset(map(type, values)) and any(map(_is_traced, values))


def _given(observer: Observer, x: Any, traced: bool, f: Any) -> Any:
    """An argument on its way into a library's function."""
    kind = type(x)
    shallow = type(f) in _HASHABLE and f in _SHALLOW
    if kind is Tracer:
        if id(x) in observer.tracers and top_of(f) in ("math", "cmath", "builtins") and not shallow and f is not builtins.sum:
            raise observer.not_placed(x)
        return x
    if is_scalar(x) or kind is LibraryCall or kind is map:
        return x
    if issubclass(kind, enum.EnumType) and not shallow:
        observer.content([*x])
    if callable(x) and not isinstance(x, (type, np.ufunc)):
        keeps = type(f) in _HASHABLE and f in _KEEPERS or getattr(f, "__name__", "").endswith("callback")
        if not keeps and top_of(kind) != "funcad":
            observer.see(x)
        door = tracing.door_of(x)
        if door is not x:
            return door
    if kind is types.FunctionType or kind is types.MethodType or kind is functools.partial or kind in _GETTERS:
        return _given_function(observer, x, f)
    if kind is types.BuiltinFunctionType and top_of(f) != "funcad" and observer.of(x.__self__) is not None:
        if x.__name__ in _CHANGING.get(type(x.__self__), ()):  # map(found.append, ...)
            observer.refuse(f"{observer.origin[id(x.__self__)].label} is changed by {x.__name__}, which is handed over")
    if kind is np.ndarray:
        by_reference = traced and x.dtype.kind not in "bi" or _takes_by_reference(f, traced)
        if not by_reference:
            observer.content(x)
    elif kind in (list, tuple) and observer.of(x) is None:
        if not _TOLD.issuperset(map(type, x)):
            given = [_given(observer, v, traced, f) for v in x]
            return x if all([a is b for a, b in zip(given, x)]) else kind(given)
    else:
        inside, place, top = issubclass(kind, CONTAINERS), observer.of(x), top_of(f)
        if place is not None:
            if hasattr(kind, "__next__"):
                observer.refuse(f"{place.label} is an iterator, which moves on")
            observer.stores.entrusted(x, f)
        if inside and (shallow or traced or top == "funcad" or f is builtins.sum):
            return observer.handed(x, 1 if shallow or f is builtins.sum else DEEP, not shallow)
        told = place or inside or not is_library(kind) and copies(f)
        if told and not (top == "funcad" and callable(x)):  # which calls it, as its twin
            observer.content(x)
    return x


_TOLD = frozenset([float, int, bool, complex, str, bytes, type(None)])  # what a list of them holds needs no look
_NUMBERS = frozenset([Tracer, float, int, bool, complex])
_SHALLOW = frozenset(  # these hand on what they are given
    [
        builtins.zip,
        builtins.enumerate,
        builtins.reversed,
        builtins.list,
        builtins.tuple,
        builtins.iter,
        builtins.map,
        builtins.filter,
        builtins.dict,
        functools.reduce,
        itertools.chain,
        itertools.product,
        builtins.len,
    ]
)

_RUNNING = frozenset(  # these run through all of it, or until they know
    [
        builtins.sum,
        builtins.max,
        builtins.min,
        builtins.sorted,
        builtins.any,
        builtins.all,
    ]
)
_APPLYING = _RUNNING.union(  # these call what they are given
    [
        builtins.map,
        builtins.filter,
        functools.reduce,
        itertools.starmap,
        itertools.accumulate,
        itertools.takewhile,
        itertools.dropwhile,
        itertools.filterfalse,
        itertools.groupby,
    ]
)
_HIGHER = (*_APPLYING, builtins.list)

_BY_REFERENCE = frozenset(  # functions that read arrays of positions and masks when the program runs
    [
        np.take,
        np.where,
        np.take_along_axis,
        np.put_along_axis,
        np.choose,
        np.searchsorted,
        np.interp,
        np.dot,
        np.matmul,
        np.sum,
        np.einsum,
        np.tensordot,
        np.mean,
        np.compress,
        np.multiply,
        np.add,
        np.subtract,
        np.divide,
        np.logical_and,
        np.logical_or,
        np.maximum,
        np.minimum,
        np.concatenate,
        np.stack,
        np.power,
        np.equal,
        np.not_equal,
        np.less,
        np.greater,
    ]
)


def _takes_by_reference(f: Any, traced: bool) -> bool:
    """Does the program read the arrays that f is given beside traced values?"""
    owner = getattr(f, "__self__", f)
    ours = "funcad.numpy.indexing" in (type(owner).__module__, getattr(f, "__module__", None))
    return ours or traced and type(f) in _HASHABLE and f in _BY_REFERENCE


def _given_function(observer: Observer, x: Any, f: Any) -> Any:
    """A function of the user's that is handed over: whoever calls it calls its twin."""
    module = str(getattr(f, "__module__", None) or type(f).__module__).partition(".")[0]
    if module == "inspect" and type(x) is types.FunctionType:
        observer.defaults_of(observer, x)
    if (
        f not in _HIGHER and getattr(f, "__name__", "") != "sort"
        if module == "builtins" or f in _KEEPERS
        else module not in ("funcad", "functools", "itertools", "scipy")
    ):
        return x
    if f in _KEEPERS or getattr(f, "__name__", "").endswith("callback"):  # which is called at each run, and reads what is there
        return x
    if type(x) is functools.partial:
        return functools.partial(_given_function(observer, x.func, f), *x.args, **x.keywords)
    if type(x) in _GETTERS:
        return _getter(observer, x)
    inner = x.__func__ if type(x) is types.MethodType else x
    if not is_users_function(inner):
        return x
    twin = twin_of(inner)
    return types.MethodType(twin, x.__self__) if type(x) is types.MethodType else twin


# -- methods


def _method(observer: Observer, f: Any, owner: Any, args: tuple, kwargs: dict) -> Any:
    """A method of a library's: MISSING if nothing is to be done but to call it."""
    kind, name = type(owner), getattr(f, "__name__", "")
    if name in ("__setattr__", "__delattr__") and type(f) is types.MethodWrapperType:
        observer.stores.attribute(owner, args[0])  # of `super()`
        return f(*args)
    place = observer.of(owner)
    if issubclass(kind, random.SystemRandom) or issubclass(kind, random.Random) and owner is random.random.__self__:
        observer.refuse(f"{name} moves a generator of Python's random module")
    if place is None:
        if kind.__module__ == "numpy.random.mtrand" and owner is np.random.mtrand._rand and tracing.door_of(f) is f:
            if observer.trace is None and name != "shuffle":  # f runs again
                return next(iter(results_of(f"numpy.random.{name}", lambda: [f(*args, **kwargs)])), None)
            observer.refuse(f"np.random.{name} moves the generator")
        return MISSING
    if kind is functools._lru_cache_wrapper:
        observer.refuse(f"{place.label}.{name} tells, or changes, what a cache holds")
    if draws(kind):
        observer.refuse(f"{place.label} draws, which moves the generator")
    if issubclass(kind, io.IOBase) or hasattr(kind, "__next__"):
        observer.refuse(f"{place.label} moves on")
    if top_of(kind) in _SHARED and kind is not threading.local:
        observer.refuse(f"{place.label}.{name} is seen by other threads or processes")
    if kind is contextvars.ContextVar:
        return _of_variable(observer, place, f, owner, name, args)
    if issubclass(kind, os._Environ) or issubclass(kind, (dict, types.MappingProxyType)):
        return _of_mapping(observer, f, owner, name, args, kwargs)
    if issubclass(kind, (bytearray, memoryview, array.array)) and name not in _READING:
        observer.stores.whole(owner)
    changing = next((names for base, names in _CHANGING.items() if issubclass(kind, base)), ())
    if name in changing:
        observer.stores.method(owner, name, args)
    elif issubclass(kind, np.ndarray):
        if name not in _VIEWS and not any(map(_is_traced, args)):
            observer.content(owner)
    elif issubclass(kind, CONTAINERS):
        observer.spread(owner)
    elif top_of(kind) != "funcad" and not isinstance(owner, type):
        observer.spread(owner, 3)
    return MISSING


def _of_variable(observer: Observer, place: Any, f: Any, variable: Any, name: str, args: tuple) -> Any:
    """A context variable: what f has set itself is nobody else's concern, if it is set back before f returns."""
    own = observer.stores.variables.get(variable)
    is_own = own is not None and variable.get(MISSING) is not held_before(own[1])
    if name == "set":
        token = f(*args)
        if not is_own:
            observer.stores.variables[variable] = place, token, observer.users_line()
        return token
    if name != "get" and (own is None or observer.of(args[0]) is not None):
        observer.refuse(f"{place.label} is set back to what it was before the call")
    found = variable.get(MISSING)
    if name != "get" or is_own:
        return f(*args)
    if found is MISSING:
        observer.missing(place, "set", None, f"{place.label}.get()")
        return f(*args)
    return observer.read(place, "set", None, f"{place.label}.get()", found)


def _entry_of(x: Any) -> tuple[str, Callable[[Any, Any], Any]]:
    """The step to an entry of a mapping as Python's own methods read it: by no `__getitem__` or `__missing__`."""
    own_way = is_users_function(raw_of(type(x), "__getitem__")[1]) or hasattr(type(x), "__missing__")
    return ("entry", dict.__getitem__) if own_way else ("item", operator.getitem)


def _of_mapping(observer: Observer, f: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
    if owner is not (inside := observer.behind(owner)):
        if not issubclass(type(inside), dict) or not is_library(type(inside)):
            return MISSING
        owner = inside
    place: Any = observer.of(owner)
    if name == "copy" and issubclass(type(owner), os._Environ):
        observer.known_as(owner._data, observer.place(place, "attribute", "_data", place.label))
        observer.content(owner._data)
        return MISSING
    if name in ("get", "__getitem__") and args and is_scalar(args[0]):
        label = f"{place.label}[{args[0]!r:.40}]"
        if args[0] in owner:
            step, get = _entry_of(owner)
            return observer.read(place, step, args[0], label, get(owner, args[0]))
        observer.missing(place, "has", args[0], label)
        return MISSING
    if name in _CHANGING[dict]:
        return _changed_mapping(observer, place, f, owner, name, args, kwargs)
    if name in ("keys", "__iter__"):
        observer.stores.measured(owner)
        observer.keys(place, owner)
    elif name in ("items", "values") and type(owner) is dict:
        observer.stores.measured(owner)
        found = dict(zip(dict.keys(owner), [*observer.parts(place, owner, dict)]))  # begun, where there is no key, too
        return getattr(found, name)() if any(map(observer.is_input, found.values())) else MISSING
    else:
        observer.spread(owner)
    return MISSING


_READING = frozenset("decode hex find rfind index count startswith endswith tobytes tolist __getitem__ __len__".split())
_BY_ENTRIES = frozenset(["pop", "setdefault", "clear", "update"])


def _changed_mapping(observer: Observer, place: Any, f: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
    """A method that changes a mapping, entry by entry, where it is Python's own; others read what they like."""
    stores = observer.stores
    if type(f) is not types.BuiltinFunctionType or not issubclass(type(owner), dict) or name not in _BY_ENTRIES:
        stores.whole(owner)
        return MISSING
    if name in ("pop", "setdefault"):
        if not args or type(args[0]) is Tracer:
            return MISSING
        key, label = args[0], f"{place.label}[{args[0]!r:.40}]"
        if key not in owner:
            observer.missing(place, "has", key, label)
            stores.item(owner, key, None)
            return MISSING
        found = observer.read(place, _entry_of(owner)[0], key, label, dict.__getitem__(owner, key))
        if name == "pop":
            stores.item(owner, key, None)
            own_method(owner, "pop")(owner, key)  # an OrderedDict's keeps its order
        return found
    if name == "clear":
        stores.measured(owner)
        observer.keys(place, owner)
        for key in list(owner):
            stores.item(owner, key, None)
        return MISSING
    given = dict(*[observer.handed(a) for a in args], **kwargs)
    for key, value in given.items():
        stores.item(owner, key, value)
        own_method(owner, "__setitem__")(owner, key, value)
    return None


def _getenv(observer: Observer, args: tuple, kwargs: dict) -> Any:
    module = observer.found_nowhere(os, "os")
    if module is not None and args:
        observer.known_as(os.environ, observer.place(module, "attribute", "environ", "os.environ"))
        return _of_mapping(observer, os.environ.get, os.environ, "get", args, kwargs)
    return MISSING


_answers = {**answers, os.getenv: _getenv}

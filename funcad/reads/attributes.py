"""Attributes that the user's code asks for: of modules, classes, objects, and what their classes make of the name.

Idea: Python's own search, told step by step. What the user wrote on the way (a property, a descriptor, `__getattr__`,
`functools.cached_property`) is code of the user's and runs as a twin; what stands in a class is a place of the class; what the
object holds itself is a place of the object. An object without a place was made in this call.

Trap: what a library's object answers is read again by asking again, which a property written in C may do at some cost.
"""

from __future__ import annotations

import contextvars
import functools
import importlib.util
import sys
import types
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.where import state
from funcad.ir.tracer import Tracer
from funcad.reads.code_reads import MISSING, draws, is_library, is_settled
from funcad.reads.later import Later, attribute_of
from funcad.reads.observer import Observer
from funcad.reads.places import Place, has_dict, is_scalar, own, reference

_MEMORY = frozenset(["flat", "data", "ctypes", "__array_interface__", "__array_struct__", "__buffer__"])
_STATES = frozenset(["state", "gauss_next", "ctypes", "cffi", "capsule"])  # of a generator
_MAKING = frozenset(["__init__", "__new__", "__setattr__", "__delattr__", "__call__"])
_CODES = frozenset([types.FunctionType, types.BuiltinFunctionType, types.ModuleType])


def raw_of(kind: type, name: str) -> tuple[Any, Any]:
    """The class that holds a name, and what stands there; (None, MISSING) if none does."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base, base.__dict__[name]
    return None, MISSING


def is_users_function(f: Any) -> bool:
    return type(f) is types.FunctionType and not is_library(f)


def twin_of(f: Any) -> Any:
    """The twin of a function of the user's; f itself where it can have none, which the net sees."""
    observer = state.observer
    if observer is None or not is_users_function(f):
        return f
    return observer.twin(f)


def defaults_of(observer: Observer, f: Any) -> None:
    """The defaults of a function that was there before are read when it is called."""
    place = observer.origin.get(id(f))
    if place is None or not (f.__defaults__ or f.__kwdefaults__):
        return
    kept, observer.cached = observer.cached, ""  # nobody exchanges them between two calls
    for name in ("__defaults__", "__kwdefaults__"):
        held = getattr(f, name)
        if held:
            at = observer.place(place, "attribute", name, f"defaults of {f.__name__}")
            observer.known_as(held, at)
            observer.guard(at, "class", weakref.ref(type(held)))
            observer.spread(held)
    observer.cached = kept


def attribute(x: Any, name: str, default: Any = MISSING) -> Any:
    """`x.name`, or the default where there is no such attribute."""
    observer = state.observer
    try:
        return getattr(x, name) if observer is None or type(x) is Tracer else _read(observer, x, name)
    except AttributeError:
        if default is MISSING:
            raise
        return default


def _read(observer: Observer, x: Any, name: str) -> Any:
    kind = type(x)
    if issubclass(kind, types.ModuleType):
        return _of_module(observer, x, name)
    if kind is Later:
        return attribute_of(observer, x, name)
    if kind is np.ndarray:
        if name in _MEMORY:
            observer.content(x)
        found = getattr(x, name)
        if name == "flags" and id(x) in observer.origin:
            place = observer.origin[id(x)]
            observer.known_as(found, observer.place(place, "attribute", name, f"{place.label}.{name}"))
        return found
    if kind is super:
        found = _of_super(observer, x, name)
        if found is not MISSING:
            return found
    place = observer.of(x)
    users = not is_library(kind) and not issubclass(kind, type)
    if users:
        found = _by_class(observer, x, kind, name)
        if found is not MISSING:
            return found
    elif issubclass(kind, type) and not is_library(x):
        found = _in_class(observer, x, kind, name)
        if found is not MISSING:
            return found
    if place is None:
        if name == "old_value" and kind is contextvars.Token:
            observer.refuse("old_value tells what a context variable held before the call")
        return getattr(x, name)
    _no_state(observer, x, name)
    if id(x) in observer.later and not callable(getattr(x, name, None)):
        observer.refuse(f"{place.label}.{name} is read after the function has moved it")
    try:
        found = getattr(x, name)
    except AttributeError:
        observer.missing(place, "own" if has_dict(x) else "asked", name, f"{place.label}.{name}")
        raise
    if type(found) in (types.BuiltinFunctionType, types.MethodWrapperType) and own(x, name) is MISSING:
        return found
    if type(found) is types.MethodType and found.__self__ is x and own(x, name) is MISSING:
        return found
    if not users and kind.__module__.partition(".")[0] == "funcad":
        return found
    if not users and not is_scalar(found) and getattr(x, name) is not found:  # a library makes it anew, of what x holds
        observer.content(x)
        return found
    value = observer.read(place, "attribute", name, f"{place.label}.{name}", found)
    if value is found and own(x, name) is found:
        observer.attributes[id(x), name] = found
    return value


def _no_state(observer: Observer, x: Any, name: str) -> None:
    """The state of a generator that was there before is another one after each draw."""
    if name in _STATES and draws(type(x)) and observer.of(x) is not None:
        observer.refuse(f"{name} is what a generator goes on from")


def _of_module(observer: Observer, x: Any, name: str) -> Any:
    place = observer.origin.get(id(x)) or observer.found_nowhere(x, x.__name__)
    try:
        found = getattr(x, name)
    except AttributeError:
        if place is not None:
            observer.missing(place, "own", name, f"{x.__name__}.{name}")
        raise
    if is_library(x) and (is_settled(x) or not is_scalar(found)):
        if name in vars(x):  # where a door leaves the original
            observer.of_library(vars(x), name, f"{x.__name__}.{name}")
        if type(found) in _CODES or isinstance(found, (type, np.ufunc)) or is_scalar(found):
            observer.libraries[id(x), name] = x
            return found
        if place is not None:
            observer.known_as(found, observer.place(place, "attribute", name, f"{x.__name__}.{name}"))
        return found
    return found if place is None else observer.read(place, "attribute", name, f"{x.__name__}.{name}", found)


def imported(observer: Observer, module: str, names: Any, parts: Sequence[str] = (), level: int = 0) -> None:
    """A module, or `parts` of it, is imported in the namespace `names`: what sys.modules has for it, or that it has nothing."""
    name = module
    if level:
        name = importlib.util.resolve_name("." * level + module, names.get("__package__") or "")
    table = observer.place(None, "constant", sys.modules, "")
    try:
        found = __import__(module, names, None, parts or ("__name__",), level)
    finally:
        for i in [*[i for i, c in enumerate(name) if c == "."], len(name)]:
            if name[:i] in sys.modules:
                observer.read(table, "item", name[:i], f"the module {name[:i]}", sys.modules[name[:i]])
            else:
                observer.missing(table, "get", name[:i], f"the module {name[:i]}")
    for part in parts:
        attribute(found, part, None)


def _of_super(observer: Observer, x: Any, name: str) -> Any:
    """What the classes behind the one that asks have under a name; MISSING if it is nothing that is data."""
    classes = (x.__self_class__ or object).__mro__
    observer.bases(x.__self_class__)
    behind = classes[classes.index(x.__thisclass__) + 1 :] if x.__thisclass__ in classes else ()
    for base in behind:
        if name in base.__dict__:
            passed(observer, behind, base, name)
            raw = base.__dict__[name]
            if type(raw) is types.FunctionType and not is_library(base):
                at = of_class(observer, base, name)
                observer.guard(at, "code", raw.__code__)
                observer.known_as(raw, at)
            elif not hasattr(type(raw), "__get__") and not is_library(base):
                at = of_class(observer, base, name)
                return observer.read(at.parent, "raw", name, at.label, raw)
            return MISSING
    return MISSING


def of_class(observer: Observer, base: type, name: str) -> Place:
    """What a class holds under a name."""
    place = observer.origin.get(id(base)) or observer.found_nowhere(base, base.__name__)
    return observer.place(place, "raw", name, f"{base.__name__}.{name}")


def through(observer: Observer, at: Place, name: str, function: Any) -> None:
    """The function inside what stands in a class: it is the same as long as its code is."""
    place = observer.place(at, "attribute", name, at.label)
    if type(function) is types.FunctionType:
        observer.guard(place, "code", function.__code__)
    else:
        observer.guard(place, *reference(function))
    observer.known_as(function, place)


def passed(observer: Observer, classes: Sequence[type], base: type | None, name: str) -> None:
    """Those of the user's classes where a name was looked for in vain, up to the one that has it, may get it later."""
    observer.bases(classes[0])
    for c in classes:
        if c is base:
            return
        if not is_library(c):
            place = observer.origin.get(id(c)) or observer.found_nowhere(c, c.__name__)
            observer.missing(place, "own", name, f"{c.__name__}.{name}")


def method_of(observer: Observer, kind: type, name: str) -> Any:
    """A method that Python itself looks up in the class of an object, to be called with the object; None if it is no twin's."""
    base, raw = raw_of(kind, name)
    if not is_library(kind):
        passed(observer, kind.__mro__, base, name)
    if not is_users_function(raw):
        if name != "__call__":  # of which the object itself tells more
            observer.see(raw)
        return None
    at = of_class(observer, base, name)
    observer.guard(at, "code", raw.__code__)
    observer.known_as(raw, at)
    if name not in _MAKING and raw.__code__.co_filename == "<string>":  # of a dataclass: nobody sees what it reads

        def told(*args: Any) -> Any:
            for x in args:
                observer.content(x)
            return raw(*args)

        return told
    return twin_of(raw)


def _in_class(observer: Observer, x: type, kind: type, name: str) -> Any:
    """An attribute that is asked of a class of the user's; its own class, `kind`, may be the user's, too."""
    base, raw = raw_of(x, name)
    first = raw is MISSING or hasattr(type(raw_of(kind, name)[1]), "__set__")
    passed(observer, x.__mro__, base, name)
    if first and not is_library(kind):
        return _by_class(observer, x, kind, name)
    if raw is MISSING or is_library(base):
        return MISSING
    at = of_class(observer, base, name)
    if type(raw) is types.FunctionType:
        observer.guard(at, "code", raw.__code__)
        observer.known_as(raw, at)
        return raw
    if type(raw) in (staticmethod, classmethod) or hasattr(type(raw), "__get__"):
        observer.guard(at, *reference(raw))
        observer.known_as(raw, at)
        if type(raw) in (staticmethod, classmethod):
            through(observer, at, "__func__", raw.__func__)
        return getattr(x, name)
    return observer.read(at.parent, "raw", name, at.label, raw)


def _by_class(observer: Observer, x: Any, kind: type, name: str) -> Any:
    """An attribute that the class of an object gives it; MISSING where the object has it itself, or nobody."""
    if is_users_function(raw_of(kind, "__getattribute__")[1]):
        return method_of(observer, kind, "__getattribute__")(x, name)
    base, raw = raw_of(kind, name)
    has = own(x, name) is not MISSING
    if not has:
        passed(observer, kind.__mro__, base, name)
    if raw is MISSING or is_library(base):
        other = method_of(observer, kind, "__getattr__") if raw is MISSING and not has else None
        return MISSING if other is None else other(x, name)
    way = type(raw)
    at = of_class(observer, base, name)
    place = observer.origin.get(id(x))
    if place is not None and not has and not hasattr(way, "__set__") and kind.__dictoffset__:
        observer.missing(place, "own", name, f"{place.label}.{name}")
    if way is property and is_users_function(raw.fget):
        through(observer, at, "fget", raw.fget)
        return twin_of(raw.fget)(x)
    if way is functools.cached_property and not has and is_users_function(raw.func):
        through(observer, at, "func", raw.func)
        found = twin_of(raw.func)(x)
        observer.stores.attribute(x, name)
        x.__dict__[name] = found
        return found
    if way is property:
        observer.see(raw.fget)
    if has or way is types.MemberDescriptorType:
        return MISSING
    if way is types.FunctionType:
        observer.guard(at, "code", raw.__code__)
        observer.known_as(raw, at)
        return types.MethodType(raw, x)
    if way is functools._lru_cache_wrapper:
        observer.guard(at, *reference(raw))
        observer.known_as(raw, at)
        return types.MethodType(raw, x)
    if way is staticmethod or way is classmethod:
        through(observer, at, "__func__", raw.__func__)
        return getattr(x, name)
    if way is functools.singledispatchmethod:  # calls.py has the rest
        through(observer, at, "dispatcher", raw.dispatcher)
        return getattr(x, name)
    getter = raw_of(way, "__get__")[1]
    if is_users_function(getter):
        observer.guard(at, *reference(raw))
        observer.known_as(raw, at)
        return twin_of(getter)(raw, x, kind)
    if hasattr(way, "__get__"):
        return MISSING
    return observer.read(at.parent, "raw", name, f"{at.label}", raw)


def store_attribute(x: Any, name: str, value: Any) -> None:
    """`x.name = value`"""
    observer = state.observer
    if observer is not None and type(x) is not Tracer:
        kind = type(x)
        base, raw = raw_of(kind, name)
        if type(raw) is property and is_users_function(raw.fset):
            through(observer, of_class(observer, base, name), "fset", raw.fset)
            twin_of(raw.fset)(x, value)
            return
        way = raw_of(type(raw), "__set__")[1]
        if is_users_function(way):
            observer.guard(of_class(observer, base, name), *reference(raw))
            twin_of(way)(raw, x, value)
            return
        setter = method_of(observer, kind, "__setattr__")
        if setter is not None:
            setter(x, name, value)
            return
        _no_state(observer, x, name)
        observer.stores.attribute(x, name)
    setattr(x, name, value)


def delete_attribute(x: Any, name: str) -> None:
    """`del x.name`"""
    observer = state.observer
    if observer is not None and type(x) is not Tracer:
        deleter = method_of(observer, type(x), "__delattr__")
        if deleter is not None:
            deleter(x, name)
            return
        observer.stores.attribute(x, name)
    delattr(x, name)

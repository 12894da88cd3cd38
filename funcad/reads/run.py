"""A run of a function under an observer: its twin in its place, and a net under it.

Idea: the twin tells what the function's own code does; the net tells which code of the user's ran that is no twin (the rule of
a custom derivative, a key function, a `__eq__`). Where there is none, the twins have seen all; where there is some, or no net
can be had, the static walk looks at that function as well (jitted/watched.py).

What a function without a twin can reach that is no place, an iterator, a clock, a file, keeps it from being compiled
(`unplaceable`): nobody sees when it comes to it.

Invariant: the user's objects hold again what they held when the run ends, however it ends (stores.py).
"""

from __future__ import annotations

import array
import builtins
import contextvars
import dis
import io
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from funcad.host.where import handing, is_internal, setting
from funcad.memo import remembers
from funcad.reads.attributes import defaults_of, is_users_function, method_of
from funcad.reads.calls import called
from funcad.reads.code_reads import MISSING, awaits_warning, content, is_library, is_library_module, reads_of
from funcad.reads.observer import Observer
from funcad.reads.refused_calls import refusal_of
from funcad.reads.replays import is_replayed
from funcad.reads.seeing import Seen
from funcad.reads.stores import Stores
from funcad.twin.net import Net
from funcad.twin.templates import Untwinnable, origin_of, rewritten_code
from funcad.twin.twins import Twins

# codes of the user's that ran as they are, and whether they read more than their arguments; None: there was no net
Ran = dict[types.CodeType | None, bool]
_FREE = sys.version_info >= (3, 12)  # is a net free, where code runs that it has looked at?
_KINDS = {contextvars.ContextVar: "a context variable", array.array: "an array.array", bytearray: "a bytearray"}
_KINDS |= {memoryview: "a memoryview", weakref.ref: "a weak reference", threading.local: "a threading.local"}
_FUNCTIONS = {builtins.globals: "globals()", os.getenv: "os.getenv", warnings.catch_warnings: "catch_warnings"}
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodType)
_MAKING = frozenset(["__init__", "__new__", "__post_init__", "__setstate__"])  # what these store in is new


def _stores(code: types.CodeType) -> bool:
    """Does a code that ran as it is advance what it reads: an attribute, a global, a variable of an outer function?"""
    if code.co_name in _MAKING:
        return False
    reads = reads_of(code)
    advanced = reads.stored_attributes & reads.attributes or reads.stored_globals & reads.globals
    return bool(advanced or reads.stored_cells & set(code.co_freevars))


def users_function(f: Any) -> Any:
    """The function of the user's that is called first when f is called, if that is told by f alone."""
    while True:
        if type(f) is types.MethodType:
            f = f.__func__
        elif hasattr(f, "func") and hasattr(f, "keywords") and type(f).__name__ == "partial":
            f = f.func
        else:
            return f if is_users_function(f) else None


def has_twin(f: Any) -> bool:
    """Can the function of the user's that is called first be twinned? A gradient, which calls that of others, counts too."""
    first = users_function(f)
    if first is not None:
        try:
            rewritten_code(first.__code__, first.__globals__)
        except Untwinnable:
            return False
    return True


def begin(f: Any, statics: list[tuple[str, Any]], inputs: set[str]) -> Observer:
    """An observer of one run of f."""
    observer = Observer(f, statics, inputs)

    def hooks_for(function: types.FunctionType) -> Seen:
        made = Seen(function)
        made.begin(observer)
        return made

    observer.twins = Twins(hooks_for)
    if users_function(f) is None:
        observer.reached(f)
    observer.stores, observer.method_of, observer.defaults_of = Stores(observer), method_of, defaults_of
    return observer


def _is_users(code: types.CodeType, names: dict[str, Any]) -> bool:
    """Is it code that the user wrote, rather than a library's, or what Python makes for a dataclass or a named tuple?"""
    file = code.co_filename
    made = file[:1] == "<" and not file.startswith(("<stdin", "<ipython", "<frozen"))
    return not (made or is_internal(file) or is_library_module(str(names.get("__name__", ""))))


def _reads_outside(frame: types.FrameType) -> bool:
    """Does a code read a closure variable, or a global that is no function, class or module?"""
    caller = frame.f_back
    while caller is not None and origin_of(caller.f_code) is None and _is_users(caller.f_code, caller.f_globals):
        caller = caller.f_back  # code of the user's that was called so
    if caller is not None and is_internal(caller.f_code.co_filename) and caller.f_code not in handing:
        return False  # funcad calls it, and says so
    names = reads_of(frame.f_code).globals & frame.f_globals.keys()
    held = [frame.f_globals[name] for name in names]
    data = [x for x in held if not isinstance(x, _CODES) and not (callable(x) and is_library(type(x)))]
    return bool(data) or not {"__class__"}.issuperset(frame.f_code.co_freevars)


_CODES = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


@contextmanager
def under(observer: Observer, known: list[Ran]) -> Iterator[Callable[[Any], Any]]:
    """A `with` block in which f runs; gives what is called in the place of a function.

    `known`: what the net said of the runs of this function before. Where a net costs much, only the first run has one.
    """
    net = Net(_is_users, _reads_outside) if _FREE or not known else None
    try:
        with net if net is not None else nullcontext(), setting(observer=observer):
            yield lambda f: called(observer, f, None)
    finally:
        if net is not None:
            observer.storing = next((code.co_qualname for code in net.seen if _stores(code)), "")
            before = known[0] if known else {}
            known[:] = [{**before, **{code: code in net.outside for code in net.seen}, **({None: False} if net.why else {})}]
        observer.ran = (*known[0].items(), *observer.alone)
        observer.twins.close()


# -- functions without a twin


def unplaceable(found: Any) -> str | None:
    """Why a function that is looked at by the walk alone cannot be compiled; None if there is no reason."""
    if any([awaits_warning(code) is not None for code in found.codes]):
        return "warnings that are raised as errors are caught, in a function without a source"
    if found.unlooked:
        return f"{found.unlooked[0]} holds more than is compared in a function without a source"
    for place, x in found.live.values():
        owner = getattr(x, "__self__", x) if type(x) in _BOUND else x
        kind = type(owner)
        what = next((text for base, text in _KINDS.items() if isinstance(owner, base)), None)
        if hasattr(kind, "__next__"):
            what = "an iterator"
        elif isinstance(owner, io.IOBase):
            what = "a file"
        if what is not None:
            return f"{place.label} is {what}, and the function has no source that could be read"
        named = _named_in(owner, owner.__code__) if kind is types.FunctionType and not is_library(owner) else ()
        for found_there in (x, *named):
            reason = _reason(found_there)
            if reason is not None:
                return reason
    return None


def _reason(x: Any) -> str | None:
    try:
        known = is_library(type(x)) or is_library_module(str(getattr(x, "__module__", "")))
        reason = refusal_of(x) or refusal_of(x if known else type(x))  # an object of a class that is compiled
        reason = reason or (f"{_FUNCTIONS[x]} in a function without a source" if x in _FUNCTIONS else None)
    except TypeError:  # what cannot be hashed
        reason = None
    if reason is None and is_replayed(x):
        reason = f"{getattr(x, '__name__', 'sys.stdout')} in a function without a source"
    return "os.environ in a function without a source" if x is os.environ else reason


_LOADS = {"LOAD_GLOBAL": "global", "LOAD_NAME": "global", "LOAD_DEREF": "cell"}
_LOADS |= {"LOAD_ATTR": "attribute", "LOAD_METHOD": "attribute", "CACHE": "", "PUSH_NULL": ""}


@remembers(4096)
def _names_in(code: types.CodeType) -> tuple[tuple[str, str], ...]:
    """What a code loads by name, in order; "other" is what it does between."""
    found: list[tuple[str, str]] = []
    for op in dis.get_instructions(code):
        kind = _LOADS.get(op.opname, "other")
        if kind == "other":
            found.append((kind, ""))
        elif kind:
            found.append((kind, op.argval))
    return tuple(found)


def _named_in(f: Any, code: types.CodeType) -> Iterator[Any]:
    """What the names and dotted names in a code stand for, as far as these are of modules and classes."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
    now: Any = MISSING
    for kind, name in _names_in(code):
        if kind == "global":
            now = f.__globals__.get(name, getattr(builtins, name, MISSING))
        elif kind == "cell":
            now = content(cells[name]) if name in cells else MISSING
        elif kind == "attribute" and isinstance(now, (types.ModuleType, type)):
            now = getattr(now, name, MISSING) if is_library(now) else vars(now).get(name, MISSING)
        else:
            now = MISSING
        if now is not MISSING:
            yield now
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            yield from _named_in(f, inner)

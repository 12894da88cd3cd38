"""What a function without a twin reads that the static walk cannot place: then it runs un-jitted.

Idea: the walk (jitted/watched.py) has found the objects that the function can reach, and its bytecode names what it calls of
modules. An iterator, a file, a clock, a context variable or a text on the screen is no place that could be read again, and
without a twin nobody sees when the function comes to it; so that it can be reached is enough.

Trap: what the function stores is found when it has run (jitted/left_behind.py), not here.
"""

from __future__ import annotations

import array
import builtins
import contextvars
import dis
import io
import os
import threading
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

from funcad.reads.calls import refusal_of
from funcad.reads.code_reads import MISSING, content, is_library

_KINDS = {contextvars.ContextVar: "a context variable", array.array: "an array.array", bytearray: "a bytearray"}
_KINDS |= {memoryview: "a memoryview", weakref.ref: "a weak reference", threading.local: "a threading.local"}
_FUNCTIONS = {builtins.globals: "globals()", builtins.print: "print", warnings.warn: "warnings.warn", os.getenv: "os.getenv"}
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodType)


def unplaceable(found: Any) -> str | None:
    """Why a function that is looked at by the walk alone cannot be compiled; None if there is no reason."""
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
        if kind is types.FunctionType and not is_library(owner):
            for called in _named_in(owner, owner.__code__):
                reason = _reason(called)
                if reason is not None:
                    return reason
    return None


def _reason(x: Any) -> str | None:
    try:
        reason = refusal_of(x) or (f"{_FUNCTIONS[x]} in a function without a source" if x in _FUNCTIONS else None)
    except TypeError:  # what cannot be hashed
        reason = None
    return "os.environ in a function without a source" if x is os.environ else reason


def _named_in(f: Any, code: types.CodeType) -> Iterator[Any]:
    """What the names and dotted names in a code stand for, as far as these are of modules and classes."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
    now: Any = MISSING
    for op in dis.get_instructions(code):
        if op.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            now = f.__globals__.get(op.argval, getattr(builtins, op.argval, MISSING))
        elif op.opname == "LOAD_DEREF":
            now = content(cells[op.argval]) if op.argval in cells else MISSING
        elif op.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(now, (types.ModuleType, type)) and is_library(now):
            now = getattr(now, op.argval, MISSING)
        elif op.opname not in ("CACHE", "PUSH_NULL"):
            now = MISSING
        if now is not MISSING:
            yield now
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            yield from _named_in(f, inner)

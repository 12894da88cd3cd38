"""What a function may do outside itself, read off its code: whoever does such a thing is not started again (conversions.py).

Idea: names tell (`print`, `open`), stores to globals, attributes and outer variables, and what the function refers to:
an object, a list or a dict may be changed. An array that was there before is followed along Python's stack:
it counts where it is stored into, gets another name, or is handed to who writes. What is in doubt counts, too.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Sequence
from opcode import opmap
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.host.where import tracing
from funcad.memo import weak_table

from funcad.host.conversions import (  # isort: skip
    WRITING_NAMES, WRITTEN_ATTRIBUTES, contents, functions_behind, makes_lists, mark_of, needs_buffers, reached_from, referred,
    with_inner,
)

_CALLED = frozenset(  # names of what acts, or answers anew
    "print open input next exec eval setattr delattr breakpoint random time logging warnings os sys"
    " callback io_callback send write writelines flush save savetxt savez dump readline perf_counter monotonic"
    " normal standard_normal uniform integers randint rand randn choice permutation exponential".split()
)
_FIXED: tuple[type, ...] = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
_FIXED += (np.ufunc, type(np.sum), np.generic, np.dtype)
_FIXED += (int, float, complex, str, bytes, type(None), type(...), slice, range)
_STORES = frozenset([opmap[name] for name in "STORE_GLOBAL DELETE_GLOBAL STORE_ATTR DELETE_ATTR STORE_DEREF".split()])
_SHOWS = frozenset(["T", "flat", "real", "imag"])  # attributes that are views
# on Python's stack: an array that was there before, a new list, an attribute
_ARRAY, _LIST, _METHOD = object(), object(), object()
# operations that leave nothing there
_TAKING = tuple("POP STORE PRECALL END DELETE LIST_APPEND MAP_ADD SET_ADD RETURN".split())
_CALL = "PRECALL" if "PRECALL" in opmap else "CALL"  # where the arguments are on the stack
# of these NumPy looks into lists
_JOINING = "array asarray concatenate stack vstack hstack dstack column_stack block meshgrid".split()
_NUMPYS = frozenset(["numpy", "scipy"])
_KNOWN = _NUMPYS | {"funcad"}
_installed = weak_table("host.acting", "function of an installed package: may it act?")
_hung = weak_table("host.lists", "function: the doors of what it gives lists are hung")


def acts(f: Any) -> bool:
    """May it do something that shows outside, or read what such a thing changes?"""
    users = [inspect.unwrap(user) for user in functions_behind(f)]
    if any([is_a(u, types.MethodType) or is_a(mark_of(u), type) for u in users if _library(u) not in _KNOWN]):
        return True  # it has an object, which may change
    return any(_acts(g) for user in users for g in reached_from(user))  # the first that does is enough


def _acts(f: types.FunctionType) -> bool:
    if "-packages" not in f.__code__.co_filename:
        return _acts_now(f)
    found = _installed.get(f)
    if found is None:
        found = _installed[f] = _acts_now(f)
    return found


def _acts_now(f: types.FunctionType) -> bool:
    codes = list(with_inner(f.__code__))
    if any([not _CALLED.isdisjoint(code.co_names) for code in codes]):
        return True
    held = referred(f)
    while held:
        x = held.pop()
        kind = type(x)
        if kind is tuple or kind is frozenset:
            held += x
        elif kind is functools.partial:
            held += [*x.args, *x.keywords.values()]
        elif is_a(x, _FIXED) or kind is np.ndarray or hasattr(x, "__wrapped__"):
            continue
        elif kind.__module__.partition(".")[0] not in ("funcad", "scipy") and kind.__name__ != "fortran":  # LAPACK's
            return True
    names = _names(f)
    arrays = any(map(_may_be_written, names.values()))
    suspects = codes if arrays else [code for code in codes if not _STORES.isdisjoint(code.co_code[::2])]
    return any(StackOf(names, code, f.__code__).found for code in suspects)


def _may_be_written(x: Any) -> bool:
    return type(x) is np.ndarray and x.flags.writeable


def _names(f: types.FunctionType) -> dict[str, Any]:
    """What its names stand for that was there before."""
    return {name: f.__globals__.get(name) for code in with_inner(f.__code__) for name in code.co_names} | contents(f)


def hang_for_lists(functions: Sequence[types.FunctionType]) -> None:
    """Doors of NumPy's functions that these give lists, of which it does not look into them."""
    for f in [f for f in functions if f not in _hung]:
        _hung[f] = True
        for code in filter(makes_lists, with_inner(f.__code__)):
            names = _names(f)
            if not _NUMPYS.isdisjoint([_library(names.get(n)) for n in code.co_names + code.co_freevars]):
                for function in StackOf(names, code, f.__code__).listed:
                    if _library(function) in _NUMPYS and getattr(function, "__name__", None) not in _JOINING:
                        tracing.learned(function)


def _library(x: Any) -> str:
    """Where a function, method or module is from."""
    name = "__name__" if is_a(x, types.ModuleType) else "__module__"
    return "numpy" if is_a(x, np.ufunc) else str(getattr(x, name, None)).partition(".")[0]


class StackOf:
    """Python's stack along a code. `found`: may something be written that was there before?

    `outer` is the code of the function that the code stands in: what this one has from around it was there before.
    `listed`: the functions of NumPy's that are given a list which is made there.
    """

    def __init__(self, names: dict[str, Any], code: types.CodeType, outer: types.CodeType):
        self.names, self.found, self.listed = names, False, list[Any]()
        self.code, self.outer = code, outer
        self.stack: list[Any] = []
        self.locals: dict[str, Any] = {}
        self.result: Any = None  # of the last call
        for op in dis.get_instructions(code):
            self.step(op)

    def step(self, op: dis.Instruction) -> None:
        stack, name, n = self.stack, op.opname, op.arg or 0
        effect = dis.stack_effect(op.opcode, op.arg if op.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
        top, out = stack[-1] if stack else None, None
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            x = self.names.get(op.argval)
            found = [_ARRAY if _may_be_written(x) else x]
            null: list[Any] = [None] * (effect - 1)  # beside what is called
            stack += [*found, *null] if sys.version_info >= (3, 13) else [*null, *found]
            return
        if name in ("COPY", "SWAP"):
            if n <= len(stack):
                out = stack[-n]
                stack[-1], stack[-n] = (top, out) if name == "COPY" else (out, top)
        elif name.startswith("LOAD_FAST"):
            out = self.locals.get(op.argval) if type(op.argval) is str else None
        elif name == "LOAD_CONST" or name == "MAKE_FUNCTION":
            out = op.argval if name == "LOAD_CONST" and type(op.argval) is types.CodeType else top
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self.found = self.found or top is _ARRAY and op.argval in WRITING_NAMES
            out = getattr(top, op.argval, None) if isinstance(top, types.ModuleType) else _METHOD
            stack[-1:] = [top if top is _ARRAY and op.argval in _SHOWS else out] * (effect + 1)
            return
        elif name == "BINARY_SUBSCR" or name == "BINARY_OP" and op.argrepr == "[]":
            out = _ARRAY if self.is_array(2) else None
        elif name in ("STORE_SUBSCR", "STORE_SLICE"):
            at = 2 if name == "STORE_SUBSCR" else 3
            self.found = self.found or self.is_array(at)
        elif name.endswith("_GLOBAL"):
            self.found = True
        elif name in ("STORE_ATTR", "DELETE_ATTR"):
            made = op.argval in WRITTEN_ATTRIBUTES or self.code.co_name == "__init__"
            self.found = self.found or not made
        elif name in ("STORE_FAST", "STORE_DEREF", "GET_ITER"):
            self.found = self.found or top is _ARRAY or name == "STORE_DEREF" and op.argval in self.outer.co_freevars
            self.locals[op.argval] = top
        elif name == "BUILD_LIST":
            out = _LIST
        elif name == "BINARY_OP" and op.argrepr.endswith("="):
            self.found = self.found or self.is_array(2)
        elif name == _CALL or name == "CALL_KW":
            out = self.result = self.call(stack[:-1] if name == "CALL_KW" else stack, n)
        elif name == "CALL":
            out = self.result
        elif name == "JUMP_BACKWARD":
            effect = 1  # which the end of the loop takes away
        if effect > 0:
            stack += [out] * effect
        elif effect < 0 or name == "MAKE_FUNCTION":
            del stack[max(len(stack) + effect, 0) :]
            if stack and not name.startswith(_TAKING):
                stack[-1] = out

    def is_array(self, at: int) -> bool:
        """Is an array there, so many from the top? By identity: what else is there may have a `==` of its own."""
        return len(self.stack) >= at and self.stack[-at] is _ARRAY

    def call(self, stack: list[Any], n: int) -> Any:
        at = max(len(stack) - n, 0)
        callee, given = next((x for x in stack[max(at - 2, 0) : at] if x is not None), None), stack[at:]
        if any([x is _ARRAY for x in given]):  # whoever is not known may write it
            users = type(callee) is types.FunctionType
            self.found = self.found or callee is None or users and needs_buffers(callee)
        if any([x is _LIST for x in given]):
            self.listed.append(callee)
        return _LIST if type(callee) is types.CodeType and callee.co_name == "<listcomp>" else None

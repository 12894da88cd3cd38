"""Which names a function reads and stores, read off its bytecode.

Idea: `dis` names the globals, closure cells and attributes of a code object and of those nested in it; facts are kept by code,
which functions made anew share. Attributes are names only: which objects they are read of is for watched.py to find.

Trap: Python 3.11, 3.12 and 3.13 differ in opcodes (LOAD_METHOD is a part of LOAD_ATTR from 3.12 on), not in `argval`.
"""

from __future__ import annotations

import builtins
import dis
import random
import sys
import types
from typing import Any, NamedTuple

import numpy as np

from funcad.host.where import is_internal
from funcad.memo import remembers

MISSING: Any = object()
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"])
_ASKING = frozenset(["getattr", "hasattr", "attrgetter", "vars", "__dict__"])  # whose names are strings
LIBRARIES = {"numpy", "scipy", "numba", "pandas", "funcad", "builtins", *sys.stdlib_module_names}
COPYING = frozenset(["copy", "pickle", "_pickle", "dataclasses"])
_INSTALLED = ("site-packages", "dist-packages")


class Reads(NamedTuple):
    """The names in a code and in the codes nested in it."""

    globals: frozenset[str]
    attributes: frozenset[str]
    asked: frozenset[str]  # strings that `getattr` or `hasattr` may be given
    imports: frozenset[str]
    stored_globals: frozenset[str]
    stored_cells: frozenset[str]
    stored_attributes: frozenset[str]
    stored_items: frozenset[str]  # keys of `d["k"] = v` and `d["k"] += v`
    truths: frozenset[str]  # of True and False, those that something is compared with by identity: `x is True`, `case False`


@remembers(4096)
def reads_of(code: types.CodeType) -> Reads:
    found: dict[str, set[str]] = {name: set() for name in Reads._fields}
    strings: set[str] = set()
    ops: list[dis.Instruction] = []
    for op in dis.get_instructions(code):
        ops.append(op)
        name = op.opname
        if name == "STORE_SUBSCR":
            found["stored_items"].update(_stored_key(ops))
        elif name == "IS_OP":
            found["truths"].update([str(op.argval) for op in ops[-4:] if op.opname == "LOAD_CONST" and type(op.argval) is bool])
        if name == "LOAD_GLOBAL" or name == "LOAD_NAME":
            found["globals"].add(op.argval)
        elif name in _ATTRIBUTES:
            found["attributes"].add(op.argval)
        elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            found["stored_globals"].add(op.argval)
        elif name in ("STORE_DEREF", "DELETE_DEREF"):
            found["stored_cells"].add(op.argval)
        elif name in ("STORE_ATTR", "DELETE_ATTR"):
            found["stored_attributes"].add(op.argval)
        elif name == "IMPORT_NAME":
            found["imports"].add(op.argval)
        elif type(op.argval) is str and op.argval.isidentifier():
            strings.add(op.argval)
    if not _ASKING.isdisjoint(found["globals"] | found["attributes"]):
        found["asked"] = strings
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            for name, more in reads_of(inner)._asdict().items():
                found[name] |= more
    return Reads(**{name: frozenset(names) for name, names in found.items()})


def _stored_key(ops: list[dis.Instruction]) -> list[str]:
    """The key of the last instruction, which stores an item, where it is a constant."""
    at = len(ops) - 2
    if ops[at].opname != "LOAD_CONST":  # of `d["k"] += v`, the key is copied before the item is read
        at = next((i - 1 for i in range(at, 0, -1) if ops[i].opname == "COPY" and ops[i - 1].opname == "LOAD_CONST"), at)
    return [ops[at].argval] if ops[at].opname == "LOAD_CONST" and type(ops[at].argval) is str else []


def stores_attribute(code: types.CodeType, name: str) -> tuple[types.CodeType, int] | None:
    """Where the code stores that attribute."""
    for op in dis.get_instructions(code):
        if op.opname == "STORE_ATTR" and op.argval == name:
            return code, op.offset
    inner = [stores_attribute(c, name) for c in code.co_consts if type(c) is types.CodeType]
    return next((found for found in inner if found is not None), None)


def awaits_warning(code: types.CodeType) -> int | None:
    """Where a handler of the code takes what NumPy and SciPy warn of; None if none does."""
    if _OF_LIBRARIES.isdisjoint(code.co_names):
        return None
    taken: list[str] = []
    for op in dis.get_instructions(code):
        if op.opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH") and not _OF_LIBRARIES.isdisjoint(taken):
            return op.offset
        if op.opname.startswith("LOAD_"):
            taken.append(op.argval if type(op.argval) is str else "")
        elif op.opname != "BUILD_TUPLE":
            taken.clear()
    return None


_OF_LIBRARIES = frozenset("Warning RuntimeWarning ComplexWarning LinAlgWarning RankWarning".split())


def content(cell: Any) -> Any:
    """Of a closure cell; MISSING if it is not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


@remembers(4096)
def is_library_module(name: str) -> bool:
    top = name.partition(".")[0]
    if top in LIBRARIES or name in LIBRARIES:
        return True
    if top == "__main__":  # also where it is a tool's file, which runs the user's program in its place
        return False
    file = str(getattr(sys.modules.get(top), "__file__", None) or "")
    return any([part in file for part in _INSTALLED])


def top_of(x: Any) -> str:
    """The package that a function or a class says it is of; what funcad made of a function of the user's is funcad's."""
    ours = str(type(x).__module__).partition(".")[0] == "funcad"
    return "funcad" if ours else str(getattr(x, "__module__", None)).partition(".")[0]


def copies(f: Any) -> bool:
    """May a function of a library's copy what it is given, with all that this holds? Of those that are known, few do."""
    top = top_of(f)
    return top in COPYING or top not in LIBRARIES and top != "None"  # as methods of Python's containers say


def is_library(found: Any) -> bool:
    """Is a function, a class or a module a part of Python or of an installed package, rather than the user's?"""
    kind = type(found)
    if kind is types.FunctionType:
        return is_internal(found.__code__.co_filename) or is_library_module(str(found.__globals__.get("__name__", "")))
    if kind is types.ModuleType or issubclass(kind, types.ModuleType):
        return is_library_module(found.__name__)
    if issubclass(kind, type):
        name = str(type.__dict__["__module__"].__get__(found))
        if name == "builtins" and found.__flags__ & _HEAP:  # also of one that was made where there is no `__name__`
            return vars(builtins).get(found.__name__) is found or found.__name__ == found.__base__.__name__  # as of doors
        return is_library_module(name)
    return kind is types.BuiltinFunctionType or getattr(builtins, getattr(found, "__name__", ""), None) is found


def own_method(x: Any, name: str) -> Any:
    """A method of Python's of a container, not what a class of the user's makes of it."""
    kind = type(x)
    if kind is dict or kind is list:
        return getattr(kind, name)
    return next(base.__dict__[name] for base in kind.__mro__ if name in base.__dict__ and is_library(base))


_SLOTS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)


def is_compiled(f: Any) -> bool:
    """Is it a function, a method or a class of the user's that is machine code (Cython, C, C++)? Nobody sees what it does."""
    f = f.__func__ if type(f) is types.MethodType else f
    kind = type(f)
    if kind is types.FunctionType or kind is types.ModuleType:
        return False
    if issubclass(kind, type):
        made = kind is type and not is_library(f)
        return made and (not f.__flags__ & _HEAP or any([is_compiled(getattr(f, name)) for name in ("__new__", "__init__")]))
    if kind in _SLOTS:
        owner = getattr(f, "__objclass__", None) or getattr(f, "__self__", None)
        if owner is None or type(owner) is types.ModuleType:
            return not is_library_module(str(f.__module__))
        bases = (owner if isinstance(owner, type) else type(owner)).__mro__
        return not is_library(next((b for b in bases if type(vars(b).get(f.__name__)) not in _NO_SLOTS), bases[0]))
    known = is_library(kind) or is_library_module(str(getattr(f, "__module__", "")))
    return not known and callable(f) and is_compiled(kind.__call__)


_NO_SLOTS = (type(None), types.FunctionType)  # what hides a method that `super()` gives
_HEAP = 1 << 9  # of the flags of a class: it was made by a class statement


def draws(kind: type) -> bool:
    """Is it a class of random generators? NumPy's are told by their modules, which are imported when somebody draws."""
    return any([base is random.Random or base.__module__.startswith("numpy.random.") for base in kind.__mro__])


def is_of_library(x: Any) -> bool:
    """Is it a library's module, function or class? Nothing of the user's hangs on it, so it may be held.

    The method of an object is none: it is read of that object.
    """
    kind = type(x)
    if issubclass(kind, types.ModuleType):
        return is_library(x)
    if kind is np.ufunc:
        return "(" not in x.__name__  # as those of np.frompyfunc have it
    if kind is types.BuiltinFunctionType:
        is_code = isinstance(x.__self__, (types.ModuleType, types.NoneType))
    else:
        is_code = issubclass(kind, type) or kind is types.FunctionType and not x.__closure__
    return kind is type(np.sum) or is_code and is_library(x) and is_library_module(str(x.__module__))


def is_settled(x: types.ModuleType) -> bool:
    """Is it a module of Python's, NumPy's or the like, whose numbers nobody exchanges?"""
    return x.__name__.partition(".")[0] in LIBRARIES

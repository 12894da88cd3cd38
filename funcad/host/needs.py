"""Which functions need buffers: those that write into arrays, or call functions that do.

Idea: `np.zeros` gives a handle that can be written (plain.py) only where it may be. Whether a function writes is read off its
code, and off the codes of the functions that it refers to by globals, closures, modules, methods and defaults. What cannot be
seen so (a function found in a dict) is learned: a traced value was about to be written into a plain array, so the function is
started again, with buffers, and from then on begins with them. Trap: it may be started again only if no array of an outer
function has been written by then.
"""

from __future__ import annotations

import dis
import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from funcad.errors import BufferNeeded, TracerArrayConversionError
from funcad.host.locks import SMALL, handed, read_only
from funcad.host.state import state, tracing
from funcad.host.where import is_internal, is_locked

__all__ = ["given", "marks_of", "missed", "needs_buffers", "starts_again"]

_WRITING_NAMES = frozenset(  # methods and functions that write into an array that they are given
    "at copyto fill fill_diagonal itemset partition place put put_along_axis putmask setfield shuffle sort".split()
)
_WRITTEN_ATTRIBUTES = {"flat", "imag", "real", "shape"}
_LIBRARIES = {"numpy", "scipy", "numba", "pandas", "funcad", "builtins"}
_known: weakref.WeakKeyDictionary[Any, frozenset[types.CodeType]] = weakref.WeakKeyDictionary()  # none if none writes
_learned: set[Any] = set()  # codes, which functions and methods made anew share, or types of callable objects
_writing_codes: dict[types.CodeType, bool] = {}


def starts_again(trace: Any, error: Exception) -> bool:
    """Is the function of this trace to be started again, because it turned out that it needs buffers?"""
    first = error if isinstance(error, TracerArrayConversionError) else error.__cause__
    if isinstance(first, TracerArrayConversionError) and first.learned and not trace.writes_outside:
        first.learned, trace.missed = False, None
        return True
    if not isinstance(error, BufferNeeded) and not isinstance(error.__cause__, BufferNeeded) and not is_locked(error):
        return False  # NumPy raises a ValueError of its own, because of ours
    users, marks = _functions(trace.function), marks_of(trace.function)
    if trace.writes_outside or marks <= _learned:
        return False
    _learned.update(marks)
    trace.lends, trace.missed = True, None
    if any(["ndarray" in code.co_names for user in users for code in _codes(user, set())]):
        tracing.learned(np.ndarray)
    return True


def needs_buffers(f: Any, code: types.CodeType | None = None, learned: bool = False) -> bool:
    """Does f write into arrays, or refer to what does? Of code: is it f's, or of a function that f refers to?

    `learned`: was it started again?
    """
    if type(f) is types.FunctionType and is_internal(f.__code__.co_filename):  # around the user's
        return any([needs_buffers(held, code, learned) for held in _held(f)])
    try:
        if learned or _mark(f) in _learned:
            return _mark(f) in _learned
        known = _known.get(f)
    except TypeError:  # what cannot be hashed or weakly referred to is looked at each time
        known = None
    if known is None:
        known = frozenset([inner for c in _codes(f, set()) for inner in _with_inner(c)])
        known = known if any(map(_code_writes, known)) else frozenset()
        _remember(f, known)
    return bool(known) if code is None else code in known


def marks_of(f: Any) -> set[Any]:
    """By what the user's functions behind f are known again."""
    return {_mark(user) for user in _functions(f)}


def missed(error: TracerArrayConversionError) -> TracerArrayConversionError:
    """The error, which is raised when the function ends, too: whoever wrote `except TypeError` did not mean it."""
    if state.running is not None:
        state.running.missed = error
    return error


def given(x: Any, own: bool = True) -> Any:
    """x, a plain result of traced values (a mask, positions, whole parts), as the user's code gets it.

    In a function that was started again it can be written with traced values. `own=False`: it is the operand's own array, of
    which a function that writes gets a copy.
    """
    trace = state.running
    if not own:
        copied = x.nbytes <= SMALL or not x.flags.forc or trace is not None and needs_buffers(trace.function)
        x = x.copy(order="K") if copied else read_only(x)
    if trace is None or trace.lends is False:
        return handed(x)
    if trace.lends is None:
        trace.lends = needs_buffers(trace.function, None, True)
    return tracing.lend(x) if trace.lends else handed(x)


def _functions(f: Any) -> list[Any]:
    """The user's functions behind one of funcad's."""
    if type(f) is types.FunctionType and is_internal(f.__code__.co_filename):
        return [user for held in _held(f) for user in _functions(held)]
    return [f]


def _mark(f: Any) -> Any:
    """By what a function is known again."""
    while type(f) is functools.partial or hasattr(f, "__wrapped__"):
        f = f.func if type(f) is functools.partial else f.__wrapped__
    kind = type(f)
    is_theirs = issubclass(kind, type) or kind.__module__.partition(".")[0] in _LIBRARIES  # one of NumPy's is no other
    return getattr(getattr(f, "__func__", f), "__code__", f if is_theirs else kind)


def _held(f: types.FunctionType) -> list[Any]:
    return [c.cell_contents for c in f.__closure__ or () if _is_full(c) and callable(c.cell_contents)]


def _remember(f: Any, codes: frozenset[types.CodeType]) -> None:
    try:
        _known[f] = codes
    except TypeError:
        return


def _codes(found: Any, seen: set[Any]) -> Iterator[types.CodeType]:
    """The codes of the functions that can be reached from an object that is a function or stands for one."""
    todo = [found]
    while todo:
        f = todo.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        kind = type(f)
        if kind is types.FunctionType:
            if is_internal(f.__code__.co_filename):
                todo += _held(f)
                continue
            yield f.__code__
            todo += _referred(f)
        elif kind is types.MethodType:
            todo += [f.__func__, *_methods(type(f.__self__), f.__func__)]
        elif kind is functools.partial:
            todo += [f.func, *f.args, *f.keywords.values()]
        elif isinstance(f, type):
            if f.__module__.partition(".")[0] not in _LIBRARIES:
                todo += [v for v in vars(f).values() if type(v) is types.FunctionType]
        elif callable(f) and kind.__module__.partition(".")[0] != "numba":
            todo += [getattr(f, "__wrapped__", None), vars(kind).get("__call__")]


def _referred(f: types.FunctionType) -> list[Any]:
    """What a function refers to: by cells, defaults, globals, and attributes of modules among these."""
    names = [name for code in _with_inner(f.__code__) for name in code.co_names]
    found = [c.cell_contents for c in f.__closure__ or () if _is_full(c)]
    found += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    found += [f.__globals__[name] for name in names if name in f.__globals__]
    for thing in list(found):
        name = thing.__name__ if type(thing) is types.ModuleType else type(thing).__module__
        if str(name).partition(".")[0] not in _LIBRARIES:
            inside = getattr(thing, "__dict__", {})
            found += [inside[name] for name in names if name in inside]
            found += _methods(type(thing), f)
    return [v for v in found if callable(v)]


def _methods(kind: type, function: Any) -> list[Any]:
    """The methods that a method names, of its own object."""
    names = function.__code__.co_names if type(function) is types.FunctionType else ()
    return [v for v in [getattr(kind, name, None) for name in names] if type(v) is types.FunctionType]


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
        return True
    except ValueError:  # not assigned yet
        return False


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for c in code.co_consts:
        if type(c) is types.CodeType:
            yield from _with_inner(c)


def _code_writes(code: types.CodeType) -> bool:
    found = _writing_codes.get(code)
    if found is None:
        found = _writing_codes[code] = any(map(_one_writes, _with_inner(code)))
    return found


def _one_writes(code: types.CodeType) -> bool:
    if not _WRITING_NAMES.isdisjoint(code.co_names):
        return True
    if any([type(c) is tuple and "out" in c for c in code.co_consts]):  # names of keyword arguments
        return True
    for op in dis.get_instructions(code):
        if op.opname in ("STORE_SUBSCR", "STORE_SLICE") or op.opname == "BINARY_OP" and op.argrepr.endswith("="):
            return True
        if op.opname == "STORE_ATTR" and op.argval in _WRITTEN_ATTRIBUTES:
            return True
    return False

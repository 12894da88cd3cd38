"""What is said when a traced value is asked for what it does not have, and which functions need buffers.

Idea: the error names the user's line, why there is nothing to hand over, and one remedy: that for the spelling which asked.
Which one that was, `a[x]` or a function of NumPy's or of SciPy's, stands in the frames between the user's and ours. The texts
need a shape and a dtype (`what`), the name of the trace, and whether the function of that name exists in funcad: no more of
the tracer, which raises what these functions give.
"""

from __future__ import annotations

import dis
import functools
import math
import opcode
import re
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from opcode import opmap
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, config
from funcad.host.locks import SMALL, handed, read_only
from funcad.host.real_types import is_a
from funcad.memo import remembers, table, weak_table

from funcad.host.where import (  # isort: skip
    OF_LIBRARY, callee, caller, is_installed, is_internal, is_locked, noted, opening, outside, state, static_number, tracing,
    user_source, users_call, users_text, wants_memory,
)
from funcad.errors import (  # isort: skip
    BufferNeeded, TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError, UnexpectedTracerError,
)

acting = OnDemand("funcad.host.acting")

# -- which functions need buffers: those that write into arrays, or call functions that do
#
# Idea: `np.zeros` gives a handle that can be written (plain.py) only where it may be. Whether a function writes is read off its
# code, and off the codes of the functions that it refers to by globals, closures, modules, methods and defaults. What cannot be
# seen so (by `next(functions)`) is learned: a traced value was about to be written into a plain array, so the function
# is started again, with buffers, and from then on begins with them. Invariant: what the user's code does outside itself
# (a print, a draw, an append to a list that was there) happens once. So one that may do such a thing (acting.py) and
# writes begins with everything lent, as its twin, and nothing has to start again; one that does not seem to write is
# not started again: its error stands, and the next call begins so. Trap: it may be started again only if no array of an
# outer function has been written by then, either.


WRITING_NAMES = frozenset(  # methods and functions that write into an array that they are given
    "at copyto fill fill_diagonal itemset partition place put put_along_axis putmask setfield setitem shuffle sort"
    " __setitem__ __iadd__ __isub__ __imul__ __itruediv__ iadd isub imul itruediv".split()
)
_CLOSED = frozenset(  # types of what nothing is in
    [bool, int, float, complex, str, type(None), np.ndarray, np.float64, BuiltinFunctionType]
)
_OF_COMPILED = frozenset(  # methods of SciPy's compiled trees and, before 1.17, rotations
    "apply query query_ball_point query_ball_tree query_pairs count_neighbors sparse_distance_matrix".split()
)
_USERS = frozenset([types.FunctionType, types.MethodType])
_HOLDING: tuple[type, ...] = (classmethod, staticmethod, property)  # what stands in a class in the place of a function
_HOLDING += (functools.cached_property, functools.partialmethod, functools.singledispatchmethod)
_BY_NAME = frozenset(["getattr", "attrgetter"])  # to which names are given that nobody sees
_HELD_AS = "__func__ fget fset func dispatcher".split()
_OPERATED = [f"__{n}__" for n in "call get set add radd sub rsub mul rmul truediv rtruediv matmul rmatmul getitem".split()]
OF_ARRAYS = frozenset("choose dot repeat searchsorted take".split())  # compiled methods of arrays that ask for others
STARTING = frozenset("max min prod sum".split())  # and those that do by `initial`
OF_UFUNCS = frozenset("accumulate outer reduce reduceat".split())  # methods of ufuncs, which make an array of a list
_ASKING = OF_ARRAYS | OF_UFUNCS
WRITTEN_ATTRIBUTES = {"flat", "imag", "real", "shape"}
_STORES = frozenset([opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opmap])
_BINARY, _STORE_ATTRIBUTE, _LIST = opmap["BINARY_OP"], opmap["STORE_ATTR"], opmap["BUILD_LIST"]
_GLOBAL, _CACHE, _EXTENDED = opmap["LOAD_GLOBAL"], opmap["CACHE"], opmap["EXTENDED_ARG"]
_OF_IT = (opmap["LOAD_ATTR"], opmap.get("LOAD_METHOD"))
_SHIFT = int(sys.version_info >= (3, 12))  # of its name's number: the last bit says whether it is called
_SIGNS = [i for i, (_, sign) in enumerate(opcode._nb_ops) if sign.endswith("=")]  # type: ignore[attr-defined]
_IN_PLACE = frozenset([memoryview(bytes([_BINARY, i])).cast("H")[0] for i in _SIGNS])  # operation and argument as one number
# in which nothing is looked for; pytest's stands in every `assert` of a test, and leads to all of pytest
_LIBRARIES = {"numpy", "scipy", "numba", "pandas", "funcad", "builtins", "pytest", "_pytest", *sys.stdlib_module_names}
_known = weak_table(  # which f refers to anew is learned when it writes into a plain array: nothing is compared
    "host.writing functions",
    "function: the codes behind it that write, none if none does",
    same=None,
)
_asked = table("host.asked", "id of a code that asked for an array, and was looked for: a weak reference", same=None)
_learned: set[Any] = set()  # codes, which functions and methods made anew share, or types of callable objects
SELDOM = frozenset(["arange", "linspace", "tri"])  # seldom written, and often handed to compiled code: only where learned
makers = table(
    "host.makers",
    "id of one of these: it. To these is lent whatever they make, by operators too (reads/lending.py)",
    same=None,
)
plainly = table(
    "host.plainly",
    "id of the mark of a function that begins as it is, or ids of that and of those of what it holds: weak references",
    same=None,
)
_MOST_CODES = 10_000
_reached = table(
    "host.reached",
    "function of an installed package: the functions and objects that it may call",
    _MOST_CODES,
    same=None,  # what a name of a module stands for may change: then it is learned, as of functions that cannot be seen
)


def starts_again(trace: Any, error: Exception) -> bool:
    """Is the function of this trace to be started again, because it turned out that it needs buffers?"""
    first = error if isinstance(error, TracerArrayConversionError) else error.__cause__
    again = getattr(trace.missed, "undone", False)  # what it has done was taken back, so that it may do it again
    if isinstance(first, TracerArrayConversionError) and first.learned and not trace.writes_outside:
        first.learned, trace.missed = False, None
        return again or not acting.acts(trace.function)
    met = [isinstance(e, BufferNeeded) for e in (error, error.__cause__, trace.missed)]  # NumPy's own ValueError may hide ours
    if not (any(met) or is_locked(error) or wants_memory(error)):
        return False
    users, marks = functions_behind(trace.function), marks_of(trace.function)
    if trace.writes_outside or not trace.late and all([id(mark) in makers for mark in marks]):
        return False
    stays = not again and acting.acts(trace.function)
    begun_so = marks <= _learned or needs_buffers(trace.function) and not _names_seldom(users)
    if begun_so or stays:  # and yet it has met a plain array
        codes = [user.__code__ for user in users if type(user) is types.FunctionType]
        for mark in (*marks, *codes):
            makers[id(mark)] = mark
            plainly.pop(id(mark), None)
    _learned.update(marks)
    if any(["ndarray" in code.co_names for user in users for code in _codes_of(reached_from(user))]):
        tracing.learned(np.ndarray)
    outer = trace.outer
    while outer is not None:  # has begun without
        outer.late, outer = True, outer.outer
    if stays:
        return False
    trace.lends, trace.late, trace.missed = True, False, None
    return True


def _codes_of(functions: Iterable[types.FunctionType]) -> list[CodeType]:
    return [c for f in functions for c in with_inner(tracing.shown_code(f.__code__))]  # a twin writes by hooks


def _names_seldom(users: list[Any]) -> bool:
    return any([not SELDOM.isdisjoint(f.__code__.co_names) for user in users for f in reached_from(user)])


def lends_all(f: Any) -> bool:
    """Does it begin with all that it makes lent to it?"""
    return id(f.__code__ if type(f) is types.FunctionType else mark_of(f)) in makers


def begins_lending(f: Any) -> bool:
    """The same of a function that is about to run un-jitted, which is looked at the first time."""
    mark = f.__code__ if type(f) is types.FunctionType else mark_of(f)
    if id(mark) in makers or (is_internal(mark.co_filename) if type(mark) is CodeType else not isinstance(mark, type)):
        return id(mark) in makers  # funcad's own looks at what it calls itself
    at = _place_of(f, mark)
    if at in plainly:
        return False
    if _acts_and_writes(f):
        makers[id(mark)] = mark
        plainly.pop(id(mark), None)  # another of this code
        return True
    plainly[at] = [weakref.ref(mark, functools.partial(_forget, at=at)) for mark in _marks_within(f, mark)]
    return False


def begins_plainly(f: types.FunctionType) -> bool:
    """Was it looked at, and begins as it is?"""
    return id(f.__code__) not in makers and _place_of(f, f.__code__) in plainly


def _place_of(f: Any, mark: Any) -> Any:
    """Where it stands in `plainly`, if it does: most functions hold nothing that counts."""
    if type(f) in _USERS and _holds_nobody(f):
        return id(mark)
    marks = _marks_within(f, mark)
    return id(mark) if len(marks) == 1 else tuple(map(id, marks))


def _holds_nobody(f: Any) -> bool:
    """Is there nothing but numbers, arrays and texts in the cells of a function, or in the attributes of a method's object?"""
    try:
        at = f.__self__.__dict__.values() if type(f) is types.MethodType else [c.cell_contents for c in f.__closure__ or ()]
    except (AttributeError, ValueError):  # it has slots, or a cell is not assigned yet
        return False
    return _CLOSED.issuperset(map(type, at))


def _marks_within(f: Any, mark: Any) -> list[Any]:
    """That of f, and those of the functions and objects in its cells and attributes, which differ where the code is one."""
    while type(f) is functools.partial or type(f) not in _USERS and hasattr(f, "__wrapped__"):
        f = f.func if type(f) is functools.partial else f.__wrapped__
    found, todo = {id(mark): mark}, _users_in(f)
    while todo:
        x = todo.pop()
        mark = getattr(getattr(x, "__func__", x), "__code__", x) if type(x) in _USERS else type(x)
        if id(mark) not in found:
            found[id(mark)] = mark
            todo += _users_in(x)
    return list(found.values())


def _users_in(x: Any) -> list[Any]:
    x = x.__self__ if type(x) is types.MethodType else x
    held = contents(x) if type(x) is types.FunctionType else {} if isinstance(x, type) else getattr(x, "__dict__", {})
    found = [v.func if type(v) is functools.partial else v for v in held.values() if type(v) not in _CLOSED]
    return [v for v in found if type(v) in _USERS or type(v).__module__.partition(".")[0] not in _LIBRARIES]


def _acts_and_writes(f: Any) -> bool:
    """Does it act, and write or call what only a twin gives traced values? If it acts, what it gives lists gets its doors."""
    reached = list(reached_from(f))
    codes = _codes_of(reached)
    writes = needs_buffers(f, codes=codes) or any([not _OF_COMPILED.isdisjoint(c.co_names) for c in codes])
    writes = writes or any([_asks_by_method(c, g.__globals__) for g in reached for c in with_inner(g.__code__)])
    if not (writes or any(map(makes_lists, codes))) or not acting.acts(f):
        return False
    acting.hang_for_lists(reached)
    return writes


def _asks_by_method(code: CodeType, space: dict[str, Any]) -> bool:
    """Does it call a compiled method of what may be a plain array or a ufunc, which asks for arrays?"""
    names = code.co_names
    if not STARTING.isdisjoint(names) and any([type(c) is tuple and "initial" in c for c in code.co_consts]):
        return True
    if "__new__" in names:  # which may be given traced memory
        return True
    if _ASKING.isdisjoint(names):
        return False
    operations, before, extended = memoryview(code.co_code), "", 0
    for operation, at in zip(operations[::2], operations[1::2]):  # first of all of `np.dot`, so without `dis`
        at |= extended << 8
        if extended := at if operation == _EXTENDED else 0:
            continue
        if operation in _OF_IT and names[at >> _SHIFT] in _ASKING and not is_a(space.get(before), types.ModuleType):
            return True
        if operation != _CACHE:
            before = names[at >> 1] if operation == _GLOBAL else ""
    return False


def makes_lists(code: CodeType) -> bool:
    return _LIST in code.co_code[::2] or "<listcomp>" in [getattr(c, "co_name", None) for c in code.co_consts]


def _forget(gone: Any, at: object, known: Any = plainly) -> None:  # a default: at Python's end the name is gone
    known.pop(at, None)


def needs_buffers(f: Any, code: Any = None, learned_only: bool = False, codes: Sequence[Any] | None = None) -> bool:
    """Does f write into arrays, or refer to what does? Of code: is it f's, or of a function that f refers to?

    `learned_only`: was it started again? `codes`: those behind it, if they are known.
    """
    if learned_only and not _learned:
        return False
    if type(f) is types.FunctionType and is_internal(f.__code__.co_filename):  # around the user's
        return any([needs_buffers(held, code, learned_only) for held in _held(f)])
    try:
        if learned_only or _learned and mark_of(f) in _learned:
            return mark_of(f) in _learned
        known = _known.get(f)
    except TypeError:  # what cannot be hashed or weakly referred to is looked at each time
        known = None
    if known is None:
        codes = codes or _codes_of(reached_from(f))
        known = frozenset(codes if any(map(_code_writes, codes)) else ())
        with suppress(TypeError):
            _known.setdefault(f, known)
    return bool(known) if code is None else code in known


def writing_users(trace: Any) -> list[Any]:
    """Those of the user's functions behind the one of a trace that need buffers: looked up again when one was learned."""
    if trace.users is None or trace.users[0] != len(_learned):
        trace.users = len(_learned), [user for user in functions_behind(trace.function) if needs_buffers(user)]
    found: list[Any] = trace.users[1]
    return found


def looks_again(trace: Any, code: CodeType) -> bool:
    """Does a code that asks for an array write, and was not behind the function when that was looked at?

    A name may stand for another function by now.
    """
    at = id(code)
    if at in _asked:
        return False
    _asked[at] = weakref.ref(code, functools.partial(_forget, at=at, known=_asked))
    if not _code_writes(code):
        return False
    for user in functions_behind(trace.function):
        with suppress(TypeError):
            _known.pop(user, None)
    trace.users = None
    return bool(writing_users(trace))


def marks_of(f: Any) -> set[Any]:
    """By what the user's functions behind f are known again."""
    return {mark_of(user) for user in functions_behind(f)}


def missed(error: TracerArrayConversionError) -> TracerArrayConversionError:
    """The error, which is raised when the function ends, too: whoever wrote `except TypeError` did not mean it."""
    if state.running is not None:
        state.running.missed = error
    return error


def is_told(error: Exception) -> bool:
    """Of one that has not come out of the function: may its result stand, with a warning?

    Many a `try: float(x)` asks whether x is a number, and means what it does then.
    """
    told = isinstance(error, TracerArrayConversionError) and error.of_number
    if told:
        text = str(error).partition("\n")[0]
        then = "The error was caught by a `try`, and the function has gone on as if plain numbers raised it, too"
        warnings.warn(f"{text}\n{then}.\nRemedy: float(funcad.stop_gradient(x)) if a number is enough.", stacklevel=outside(1))
    return told


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


def functions_behind(f: Any) -> list[Any]:
    """The user's functions behind one of funcad's."""
    found: list[Any] = []
    todo = [f]
    while todo:
        g = todo.pop()
        if type(g) is types.FunctionType and is_internal(g.__code__.co_filename):
            todo += reversed(_held(g))
        # beside a function there may be its derivative, which calls it
        elif not found or getattr(g, "__wrapped__", None) is not found[-1]:
            found.append(g)
    return found


def mark_of(f: Any) -> Any:
    """By what a function is known again."""
    while type(f) is functools.partial or hasattr(f, "__wrapped__"):
        f = f.func if type(f) is functools.partial else f.__wrapped__
    kind = type(f)
    is_theirs = issubclass(kind, type) or kind.__module__.partition(".")[0] in _LIBRARIES  # one of NumPy's is no other
    return getattr(getattr(f, "__func__", f), "__code__", f if is_theirs else kind)


def _held(f: types.FunctionType) -> list[Any]:
    return list(filter(callable, contents(f).values()))


def reached_from(found: Any) -> Iterator[types.FunctionType]:
    """The functions that can be reached from an object that is a function or stands for one."""
    todo, seen = [found], set()
    inside: dict[int, tuple] = {}
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
            if str(f.__globals__.get("__name__")).partition(".")[0] in sys.stdlib_module_names:
                todo += [getattr(f, "__wrapped__", None), *getattr(f, "registry", {}).values()]  # functools, contextlib
                continue
            yield f
            todo += _next(f, inside)
        elif kind is types.MethodType:
            todo += [f.__self__] if isinstance(f.__self__, type) else []
            todo += _of_object(f.__self__, f.__func__, inside)
        elif kind is functools.partial:
            todo += [f.func, *f.args, *f.keywords.values()]
        elif isinstance(f, type):
            if f.__module__.partition(".")[0] not in _LIBRARIES:
                todo += [v for v in [*vars(f).values(), *f.__mro__[1:], kind] if type(v) not in _CLOSED]
        elif is_a(f, _HOLDING):
            todo += [getattr(f, name, None) for name in _HELD_AS]
        elif kind.__module__.partition(".")[0] not in _LIBRARIES:
            todo += [v for g in _methods(kind, None) for v in _of_object(f, g, inside)]
        if callable(f) and kind.__module__.partition(".")[0] != "numba":
            todo.append(getattr(f, "__wrapped__", None))


def _next(f: types.FunctionType, inside: dict[int, tuple]) -> list[Any]:
    """What may be called by f; of an installed package's functions it is looked up once, for all functions that call them."""
    lasts = "-packages" in f.__code__.co_filename and "<locals>" not in f.__qualname__
    found: Any = _reached.get(f) if lasts else None
    if found is None:
        held = referred(f)
        found = list(filter(callable, held))
        for x in held:
            if type(x) not in _CLOSED and type(x) is not types.ModuleType:
                found += _inside(x, f, inside)
        if lasts:
            found = _reached.put(f, [v for v in {id(v): v for v in found}.values() if not _ends(v)])
    return found


def _ends(v: Any) -> bool:
    """Does `reached_from` find nothing in it or behind it?"""
    return isinstance(v, BuiltinFunctionType | np.ufunc) or isinstance(v, type) and v.__module__.partition(".")[0] in _LIBRARIES


def referred(f: types.FunctionType) -> list[Any]:
    """What a function refers to: by cells, defaults, globals, and attributes of modules among these."""
    names = _names_in(f.__code__)
    by_name = not _BY_NAME.isdisjoint(names)
    found = [*contents(f).values(), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    scope = f.__globals__
    for name in names:
        if name in scope:
            found.append(scope[name])
    for thing in list(found):
        if type(thing) in _CLOSED:
            continue
        name = thing.__name__ if type(thing) is types.ModuleType else type(thing).__module__
        if str(name).partition(".")[0] not in _LIBRARIES:
            inside = getattr(thing, "__dict__", {})
            found += inside.values() if by_name else [inside[name] for name in names if name in inside]
            found += _methods(type(thing), f)
    return found


def _inside(x: Any, function: Any, known: dict[int, tuple]) -> list[Any]:
    """The functions in a container or an object of the user's, and the methods that a function names of objects there."""
    if id(x) not in known:
        known[id(x)] = x, *_contained(x)
    _, functions, kinds = known[id(x)]
    return functions + [m for kind in kinds for m in _methods(kind, function)]


def _contained(x: Any) -> tuple[list[Any], dict[type, None]]:
    """What can be called in a container or an object of the user's, three deep, and the types of what is there."""
    functions, kinds, parts = list[Any](), dict[type, None](), [x]
    for _ in range(3):
        found: list[Any] = []  # of data there may be millions: nothing is done for each number
        for part in parts:
            if isinstance(part, (list, tuple, dict)):
                found += part.values() if isinstance(part, dict) else part
            elif not (is_a(part, (type, types.ModuleType)) or type(part).__module__.partition(".")[0] in _LIBRARIES):
                found += getattr(part, "__dict__", {}).values()
        met = dict.fromkeys(map(type, found))
        parts = [] if _CLOSED.issuperset(met) else [v for v in found if type(v) not in _CLOSED]
        functions += filter(callable, parts)
        kinds |= met
    return functions, kinds


def _of_object(x: Any, method: Any, known: dict[int, tuple]) -> list[Any]:
    """What a method may call of its object, and itself."""
    found = [method, *_methods(type(x), method)]
    return found + [v for own in found for v in _inside(x, own, known)]


def _methods(kind: type, function: Any) -> list[Any]:
    """The functions behind what a function names of an object, behind what these name of it, and behind its operators."""
    space = dict[str, Any]()
    for k in reversed(kind.__mro__):
        if k.__module__.partition(".")[0] not in _LIBRARIES:
            space |= vars(k)
    found, names = dict[int, Any](), list[str](_OPERATED)
    names += _names_in(function.__code__) if type(function) is types.FunctionType else ()
    names += () if _BY_NAME.isdisjoint(names) else space
    for name in names if space else ():  # which grow
        v = space.get(name)
        for g in [getattr(v, part, None) for part in _HELD_AS] if is_a(v, _HOLDING) else [v]:
            if type(g) is types.FunctionType and id(g) not in found:
                found[id(g)] = g
                names += _names_in(g.__code__)
    return list(found.values())


def contents(f: types.FunctionType) -> dict[str, Any]:
    """What its cells hold that have been assigned, by the variables' names."""
    found = {}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def with_inner(code: CodeType) -> list[CodeType]:
    """The code, and those inside it."""
    found = [code]
    for c in code.co_consts:
        if type(c) is CodeType:
            found += with_inner(c)
    return found


def _names_in(code: CodeType) -> Sequence[str]:
    codes = with_inner(code)
    return code.co_names if len(codes) == 1 else [name for c in codes for name in c.co_names]


@remembers(_MOST_CODES)
def _code_writes(code: CodeType) -> bool:
    operations = code.co_code[::2]
    if not (WRITING_NAMES.isdisjoint(code.co_names) and _STORES.isdisjoint(operations)):
        return True
    if any([type(c) is tuple and "out" in c for c in code.co_consts]):  # names of keyword arguments
        return True
    if not _IN_PLACE.isdisjoint(memoryview(code.co_code).cast("H")):
        return True
    if WRITTEN_ATTRIBUTES.isdisjoint(code.co_names) or _STORE_ATTRIBUTE not in operations:
        return False
    return any([op.opname == "STORE_ATTR" and op.argval in WRITTEN_ATTRIBUTES for op in dis.get_instructions(code)])


# -- what is said when a traced value is asked for what it does not have (its truth


_REMEDIES = {
    "float": "keep x as it is instead of float(x)",
    "complex": "keep x as it is instead of complex(x), and write x + 1j * y instead of complex(x, y)",
    "item": "keep x as it is instead of x.item(): a rank-0 value works as a number",
    "array": "call what needs a real array in funcad.pure_callback",
}

_INSTEAD = {  # of SciPy's classes that compiled code fills
    "CloughTocher2DInterpolator": "scipy.interpolate.LinearNDInterpolator or RBFInterpolator, which take traced values",
    "HalfspaceIntersection": "find which half-spaces meet with funcad.stop_gradient(x), and solve their equations by "
    "np.linalg.solve",
    "RigidTransform": "rotation.apply(x) + translation, where rotation is a scipy.spatial.transform.Rotation",
    "ode": "scipy.integrate.solve_ivp(f, (t0, t1), y0), which takes traced values",
    "SphericalVoronoi": "find the regions with funcad.stop_gradient(x), and compute with their points, x[region]",
}

_IF = "np.where(condition, a, b) chooses between values, funcad.cond(condition, f, g, x) between computations"
_STATEMENTS = {  # how the user's line begins, and what to write instead
    "while": "funcad.while_loop(cond_fun, body_fun, carry) instead of `while`",
    "if": _IF,
    "elif": _IF,
    "assert": "assert in funcad.debug.callback(f, x), which calls f with the values when the program runs; or outside",
}


def _where() -> str:
    source = user_source()
    return f" at {source}" if source is not None else ""


def _public(name: str) -> str:
    """`interpolate.PPoly` of its `__init__`, or of that of a base: the class whose name is in the user's line."""
    if not name.endswith(".__init__"):
        return name
    module, _, kind = name.removesuffix(".__init__").rpartition(".")
    written = users_text()[1].partition("(")[0].rpartition(".")[2]
    return f"{module}.{written if written.isidentifier() else kind}"


def runs_own_code() -> bool:
    """Does a function of the libraries run by its own code (lifting/)?"""
    return bool(state.scope) and state.scope[-1].endswith(" by its own code")


def _of_scipy(names: list[str], offers: Callable[[str], bool]) -> str:
    """What to write instead of a function of SciPy's that cannot take traced values."""
    if runs_own_code():  # whose inner functions nobody called
        names = [state.scope[-1].removesuffix(" by its own code").removeprefix("scipy.").removesuffix(".__init__")]
    names = [_public(name) for name in names[:1]] + names[1:]
    for name in names:
        if offers(f"scipy.{name}"):
            return f"call funcad.scipy.{name}, which takes traced values, instead of scipy.{name}"
    name = f"scipy.{names[0]}" if names else "it"
    return (
        f"call {name}, which funcad.scipy does not have, in funcad.pure_callback, and that in a "
        "funcad.custom_vjp function if it is to have a derivative (docs/implicit)"
    )


def _of_truth() -> str:
    """What to write instead of what asked for a truth."""
    before, part, behind = users_text()
    name, bracket, given = part.partition("(")
    if name in ("max", "min") and bracket:
        other = f"np.{name}imum(a, b) instead of {name}(a, b)"
        return other if "," in given else f"np.{name}(x) instead of {name}(x)"
    if name in ("any", "all", "sorted") and bracket:
        return f"np.{name.removesuffix('ed')}(x) instead of {name}(x)"
    if " in " in part and " for " not in part:
        return "np.any(a == x) instead of `x in a`"
    statement = (before or part).partition(" ")[0]
    if statement in _STATEMENTS:
        return _STATEMENTS[statement]
    for word in ("and", "or"):
        if f" {word} " in part or behind.startswith(f"{word} ") or before.endswith(f" {word}"):
            return f"np.logical_{word}(a, b) instead of `a {word} b`"
    if part.startswith("not "):
        return "np.logical_not(x) instead of `not x`"
    return _IF


def _of_index() -> str:
    """What to write instead of `a[x]`, where a is a NumPy array or a list."""
    part = users_text()[1]
    if not part.endswith("]"):
        part = ""
    start = opening(part, "[]")
    a, index = part[:start], part[start + 1 : -1]
    if ":" in index and "," not in index:
        new, old = f"funcad.lax.dynamic_slice_in_dim({a}, start, n)", part
    elif ":" in index:
        new, old = f"funcad.lax.dynamic_slice({a}, starts, lengths)", part
    elif "," in index:
        new, old = f"funcad.numpy.at({a})[{index}].get()", part
    else:
        new, old = (f"funcad.numpy.take({a}, {index}, 0)", part) if index else ("funcad.numpy.take(a, x, 0)", "a[x]")
    return f"{new} instead of {old}: NumPy's arrays and lists take no index that is only known when the program runs"


def no_truth(what: Any, trace: str, offers: Callable[[str], bool]) -> TracerBoolConversionError:
    library, names = caller()
    remedy = _of_scipy(names, offers) if library == "scipy" else _of_truth()
    if trace.startswith("jit(") and library != "scipy":  # of guards=False, or a program that is asked for without values
        remedy += "; or call the jitted function: without guards=False it goes by the values"
    return TracerBoolConversionError(
        f"the truth of a traced {what} was asked for{_where()}, but inside {trace} it has no value.\n"
        f"Remedy: {remedy}."
    )


def no_integer(how: str, what: Any, trace: str, offers: Callable[[str], bool]) -> TracerIntegerConversionError:
    library, names = caller()
    remedy = {"range": "funcad.fori_loop(0, n, body_fun, carry) instead of a loop over range(n)",
              "int": "x.astype(int) instead of int(x)"}.get(callee()[0]) or static_number(trace)  # fmt: skip
    if library == "scipy":
        remedy = _of_scipy(names, offers)
    if library == "subscript":
        remedy = _of_index()
    problem = f"{how} of a traced {what} was asked for{_where()}, but inside {trace} it has no value"
    return TracerIntegerConversionError(f"{problem}.\nRemedy: {remedy}.")


def _handed_over(function: Any) -> str:
    """The name of math's function that was itself given to a transformation, as in `grad(math.sin)(x)`; "" of others."""
    whole = getattr(function, "__wrapped__", None)  # of `slope = grad(math.sin)`
    if isinstance(whole, BuiltinFunctionType):
        name = whole.__name__
    else:
        found = re.search(r"([\w.]+)[,)]", users_text()[1]) if _is_ours(function) else None
        name = found[1].rpartition(".")[2] if found else ""
    return name if hasattr(math, name) else ""


def _is_ours(function: Any) -> bool:
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "funcad"


def _of_array(function: Any) -> bool:
    return type(getattr(function, "__self__", None)) is np.ndarray


def _of_call(how: str, called: str, function: Any) -> str:
    """What to write instead of a function in C that was called with a traced value, if it is known which."""
    if how not in ("float", "array") or function is complex:
        return _REMEDIES["complex" if function is complex else how]
    if isinstance(function, type) and issubclass(function, np.generic):
        return f"write x.astype({called}) instead of {called}(x)"
    if function is np.arange:
        return "make n a static argument, jit(..., static_argnums=...): the length of np.arange(n) is needed when f is traced"
    module = getattr(function, "__module__", None)
    if module in ("math", "numpy") and isinstance(function, BuiltinFunctionType):
        name = f"{module}.{function.__name__}"
        if not config.doors:
            return f"set funcad.config.doors to True, so that {name} takes traced values"
        return f"import {module} and write {name}(x): a function that was imported by its name does not see traced values"
    if not called or _is_ours(function) or function is float or function is None and how == "float":
        return ""
    if isinstance(getattr(function, "__self__", None), np.ufunc):
        return f"write {called}(np.stack(x)) instead of {called}(x), where x is a list"
    generator, dot, method = called.rpartition(".")
    if method in dir(np.ndarray) and method in dir(np) and (function is None or _of_array(function)):
        part = users_text()[1]
        return f"write np.{method}({generator}, {part[len(called) + 1 :].strip()} instead of {part}"
    if dot and method in ("choice", "permutation", "permuted", "shuffle"):
        draws = "choice" if method == "choice" else "permutation"
        return f"draw positions, and take the elements there: x[{generator}.{draws}(len(x))]"
    source = user_source()
    if source is not None and is_installed(source.code.co_filename):
        return OF_LIBRARY
    return f"call {called} in funcad.pure_callback: it needs a real array or number"


def no_array(
    how: str, what: Any, reason: str, has_value: bool, offers: Callable[[str], bool]
) -> TracerArrayConversionError:
    """`how`: a key of `_REMEDIES`. With a value, the derivative may be given up."""
    called, function = callee()
    whole = _handed_over(function) if how == "float" else ""
    if whole or _is_ours(function):
        called, function = f"math.{whole}" if whole else "", None
    spelled = {
        "float": f"{called or 'float'}(x)",
        "complex": "complex(x)",
        "item": "x.item()",
    }.get(how, "conversion to a NumPy array")
    library, names = caller()
    name = names[0].rpartition(".")[2] if names else ""
    # np.fill_diagonal(K, x); of an array of objects, whose elements are traced, a.astype(float)
    method = ""
    if "." in called and (function is None or _of_array(function)):
        method = called.rpartition(".")[2]
    writes = name in WRITING_NAMES and name not in ("sort", "partition")  # NumPy's functions of these names copy
    if library == "numpy" and writes or how == "float" and method == "astype":
        library = "store"
    elif method in ("fill", "put"):
        library = "store"
    source = user_source()
    if library == "store" and source is not None and is_installed(source.code.co_filename):  # it does so for itself
        library, called = "", called or "it"
    remedy = _of_scipy(names, offers) if library == "scipy" else _of_call(how, called, function) or _REMEDIES[how]
    parts = [*called.split("."), *(names[0].split(".") if library == "scipy" else ())]
    remedy = next((_INSTEAD[p] for p in parts if p in _INSTEAD), remedy)
    if library == "subscript" and how == "array":
        remedy = _of_index()
    elif whole:
        new = f"np.{whole}" if hasattr(np, whole) else f"lambda *args: math.{whole}(*args)"
        remedy = f"write {new} instead of math.{whole}, which does not look for traced values when transformed itself"
    elif how == "float" and users_text()[1][:1] in ("'", '"'):
        remedy = "funcad.debug.print('{:.3f}', x), which prints the value when the program runs, instead of '%.3f' % x"
    elif library == "numpy" and how == "array" and name[0] != "_" and offers(f"numpy.{name}"):
        remedy = f"call funcad.numpy.{name} instead of np.{name}, which does not look for traced values there"
    elif library == "store":
        remedy = "K = np.array(K) inside the traced function makes a copy that takes traced values"
    if has_value:
        remedy += "; or take funcad.stop_gradient(x) first if no derivative is wanted"
    if library == "store":
        text = f"a traced {what} was written into a plain NumPy array{_where()}: {reason}.\nRemedy: {remedy}."
        return missed(BufferNeeded(text))
    by = ""
    if library == "scipy" and names and not runs_own_code():  # which the place says
        by = f" by scipy.{_public(names[0])}"
    noted.text = f"{spelled} of a traced {what}{by}{_where()}: {reason}.\nRemedy: {remedy}."
    # a twin calls funcad's in its place
    if method in _OF_COMPILED | _ASKING | STARTING or hasattr(tracing.door_of(function), "by_twin"):
        return missed(BufferNeeded(noted.text))
    error = TracerArrayConversionError(noted.text)
    if how == "array" and tracing.threads and tracing.learned(users_call()):  # from now on that function takes traced values
        error.learned = True
        missed(error)
    return error


def no_hash(what: Any) -> TypeError:
    whole = not what.shape and what.dtype.kind in "biu"
    key = "int(k) as the key, for which jit asks for the value" if whole else "take its name or position as the key"
    return TypeError(
        f"unhashable type: a traced {what} was used as a key of a dict, in a set or in a cache{_where()}.\n"
        f"Remedy: {key}; leave functools.cache away from functions of traced values."
    )


def is_looking_up(frame: FrameType) -> bool:
    """Is a container asked, by `d[k]` or `k in d`, which keeps nothing?"""
    return frame.f_lasti in _look_ups(frame.f_code)


def makes_text(frame: FrameType) -> bool:
    """Is a number asked for by `text % x`? What else is divided by a traced value leaves the remainder to that."""
    return frame.f_lasti in _percents(frame.f_code)


@remembers(256)
def _percents(code: CodeType) -> frozenset[int]:
    return frozenset([i.offset for i in dis.get_instructions(code) if i.opname == "BINARY_OP" and i.argrepr in ("%", "%=")])


@remembers(256)
def _look_ups(code: CodeType) -> frozenset[int]:
    found = [i for i in dis.get_instructions(code) if i.opname in ("BINARY_SUBSCR", "CONTAINS_OP") or i.argrepr == "[]"]
    return frozenset([i.offset for i in found])


def leaked_error(what: Any, trace: str, made_at: str, has_value: bool) -> UnexpectedTracerError:
    made = f" It was made at {made_at}." if made_at else ""
    return UnexpectedTracerError(
        f"a traced {what} was used after the function that it belongs to ({trace}) had returned."
        f"{made}\nRemedy: return the value from the function instead of keeping it in a global, an attribute or a closure"
        f"{'; np.asarray(x) and float(x) give its value' if has_value else ''}."
    )


def _as_numbers(x: Any) -> str:
    """How an array of something else becomes one of numbers."""
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    remedy = {
        "O": "x.astype(float)",
        "U": "np.unique(x, return_inverse=True)[1], which numbers the strings",
        "S": "np.unique(x, return_inverse=True)[1], which numbers the strings",
        "M": "x.astype('datetime64[ns]').astype(float)",
        "m": "x.astype('timedelta64[ns]').astype(float)",
        "V": "pass the fields one by one, {name: x[name] for name in x.dtype.names}",
    }.get(kind, "")
    if kind == "V" and x.dtype.type is not np.void:  # ml_dtypes' integers, and its powers of two
        remedy = "x.astype(np.float32), and result.astype(x.dtype) at the end"
    return f".\nRemedy: {remedy}." if remedy else ""


# Arrays with labels or units, which funcad's rules would drop, and those of other engines: how they are handed over
_CONVERSIONS = {
    "pandas": "x.to_numpy(); inside the function Series and frames are operands, and count as their values",
    "xarray": "x.data. xarray.apply_ufunc hands plain arrays to a function, also to a gradient or a jitted function, and "
    "labels the result; inside the function xarray computes with traced values, and .data of the last result is what to return",
    "pint": "x.magnitude, or x.to(unit).magnitude; inside the function make it a quantity again, and return the magnitude",
}
_APART = {  # the libraries that compute nothing with traced values, although these are operands of theirs
    "astropy": "x.to_value(unit); the result has no unit, write result * unit",
    "torch": "np.from_dlpack(x.detach().cpu()), which shares its memory, and torch.from_dlpack(result); or make a node of "
    "torch's graph of the function, funcad.interop.to_torch(f)",
    "jaxlib": "np.asarray(x); jax.numpy.asarray(result) makes JAX's array of the result",
}


def conversion_of(kind: type) -> str | None:
    """How an array of another library, with labels or units or of an engine of its own, is handed over; None of all others."""
    libraries = [k.__module__.partition(".")[0] for k in kind.__mro__]
    return next((text for name in libraries for text in [_CONVERSIONS.get(name) or _APART.get(name)] if text), None)


_OPERATORS = "add sub mul truediv floordiv mod pow matmul".split()
_MEANING = [*[f"__{side}{name}__" for side in ("", "r") for name in _OPERATORS], "__array_ufunc__", "__array_function__"]
_MEANING += ["__neg__", "__abs__", "__getitem__"]
plain_kinds: set[type] = set()  # subclasses that are plain arrays beside traced values, whatever they define (funcad/jax)


def own_meaning(kind: type) -> str | None:
    """The operator or protocol by which a user's subclass of np.ndarray computes as no array does; None of all others."""
    if kind is np.ndarray or not issubclass(kind, np.ndarray) or kind.__module__.partition(".")[0] == "numpy":
        return None
    if kind in plain_kinds:
        return None
    return next((name for name in _MEANING if getattr(kind, name) is not getattr(np.ndarray, name)), None)


def is_masked(kind: type) -> bool:
    """Is it NumPy's class of masked arrays, or derived from it?"""
    return issubclass(kind, np.ndarray) and "MaskedArray" in [k.__name__ for k in kind.__mro__]


def means_other(kind: type) -> bool:
    """Is it one of NumPy's classes, or derived from one, whose operators are not those of arrays?"""
    return is_masked(kind) or issubclass(kind, np.ndarray) and "matrix" in [k.__name__ for k in kind.__mro__]


def their_say(*operands: Any) -> Any:
    """NotImplemented, so that operands of other libraries have their say; raises where these cannot compute with traces."""
    for x in operands:
        if any([k.__module__.partition(".")[0] in _APART for k in type(x).__mro__]):
            raise no_aval(x)
    return NotImplemented


def no_aval(x: Any) -> TypeError:
    """Of an argument that is no array and no number, or none that funcad computes with."""
    kind, dtype = type(x), None if isinstance(x, type) else getattr(x, "dtype", None)
    conversion = conversion_of(kind)
    if conversion is None and not is_a(x, (np.ndarray, np.generic)) and hasattr(kind, "__dlpack__"):
        conversion = "np.from_dlpack(x)"
    if conversion is not None or getattr(x, "aval", None) is not None:
        return TypeError(
            f"got a {kind.__module__.partition('.')[0]} {kind.__name__}; funcad computes with NumPy's and CuPy's arrays.\n"
            f"Remedy: {conversion or 'np.asarray(x) of it'}."
        )
    if means_other(kind):
        return TypeError(
            f"funcad computes with plain arrays; a {kind.__name__} means something else by its operators.\n"
            "Remedy: np.asarray(x) of a matrix; x.filled(value) of a masked array, with np.where on x.mask in the function."
        )
    if is_a(x, np.ndarray) or dtype is not None:
        return TypeError(f"funcad computes with bool, int, float and complex arrays; got dtype {dtype}{_as_numbers(x)}")
    return TypeError(f"expected an array or a number, got {kind.__name__}: {x!r:.60}")

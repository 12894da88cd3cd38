"""Doors of functions written in C, which are names in a module: the module's class has a property of that name.

A property comes before the module's own dict, where the original stays, and is asked at each access: `np.array` is the door
where the thread traces and NumPy's own function elsewhere (`Entrance.__get__`). A module's class can be exchanged in 40 ns,
and other names of the module cost what they did.

Traps: compiled code, which has no frame, is not shown the doors whose answers are no arrays of NumPy's: it would read memory
that is not there. Code that an import runs must not keep a door (numba registers NumPy's functions by identity when it is
imported), nor must numba's compiler see one; a door that was kept all the same goes on working, and is pickled by the name of
the original.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import importlib
import itertools
import operator
import os
import sys
import types
from _thread import RLock, get_ident
from opcode import opmap
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.configuration import config
from funcad.doors.asking import holds_traced
from funcad.doors.codes import Answer, Maker
from funcad.host.conversions import OF_ARRAYS, OF_UFUNCS, STARTING
from funcad.host.real_types import is_a
from funcad.host.where import is_internal, state, tracing
from funcad.ir.tracer import Tracer
from funcad.memo import remembers, table
from funcad.numpy.dispatch import array_ufunc, find

if TYPE_CHECKING:
    from types import FrameType


_FUNCAD = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IMPORTING = "<frozen importlib._bootstrap>"
_KINDS = (types.BuiltinFunctionType, type(np.copy))  # of functions that are pickled by name; the second is NumPy's own
PATIENCE = 64  # accesses by threads that trace nothing, until the doors are taken down: between two gradients there may be one
_in_vain = itertools.count(1)
_asking = table("doors.asking", "file name: is code there shown a door?")


class _Module:
    """A module, to be pickled."""

    def __init__(self, name: str):
        self.name = name

    def __reduce__(self) -> tuple:
        return importlib.import_module, (self.name,)


def _by_name(f: Any) -> tuple:
    """How a function is pickled whose module may show another one under its name."""
    return operator.attrgetter(f.__name__), (_Module(f.__module__),)


class _Kind(type):
    """The type of the classes with doors: `isinstance(scipy, type(np))` holds as ever."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.__base__)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.__base__)


class Door:
    """A function of NumPy's or Python's that looks at its arguments first: `own` answers where `is_for_us` says so.

    It compares equal to the original, and has its name, docstring, signature and attributes.
    """

    def __init__(self, original: Any, answer: Answer):
        self.original = original
        self.is_for_us, self.own = answer
        self.lines = getattr(self.own, "lines", getattr(self.is_for_us, "makes", False))  # only where a line names it?
        functools.update_wrapper(self, original)
        self.read_only = getattr(self.is_for_us, "read_only", None)  # of what makes arrays: answers where they are only read
        if hasattr(self.own, "by_twin"):
            self.by_twin = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self.own if self.is_for_us(args, kwargs) else self.original)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)

    def __repr__(self) -> str:
        return repr(self.original)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.original

    def __hash__(self) -> int:
        return hash(self.original)

    def __copy__(self) -> Door:
        return self

    def __deepcopy__(self, memo: object) -> Door:
        return self

    def __reduce__(self) -> tuple:
        return _by_name(self.original)


class Entrance:
    """The property behind a name of a module that has a door; that of a type or ufunc is for calls alone."""

    __slots__ = ("module", "name", "original", "maker", "door")
    door: Door

    def __init__(self, module: str, name: str, original: Any, maker: Maker):
        self.module, self.name, self.original, self.maker = module, name, original, maker

    def __getattr__(self, name: str) -> Any:
        """The door, which is made when a function of the user's first asks for it: most functions never do."""
        if name != "door":
            raise AttributeError(name)
        self.door = Door(self.original, self.maker(f"{self.module}.{self.name}", self.original))
        return self.door

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return self
        try:
            found = module.__dict__[self.name]
        except KeyError:
            raise AttributeError(f"module {module.__name__!r} has no attribute {self.name!r}") from None
        notes = tracing.threads.get(get_ident())
        if notes is not None:
            frame = sys._getframe(1)
            known = _asking.get(frame.f_code.co_filename)
            wanted = (is_users(frame) if known is None else known) and config.doors and found is self.original
            if wanted and isinstance(found, (type, np.ufunc)):
                wanted = frame.f_lasti in _called(frame.f_code, self.name)
            if wanted and (not self.door.lines or _asks(frame)) and not _is_away(frame, notes):
                return self.door
            return found
        if next(_in_vain) % PATIENCE == 0 and not (tracing.threads and config.doors):
            take_down()
        return found

    def __set__(self, module: Any, value: Any) -> None:
        module.__dict__[self.name] = self.original if value is self.door else value  # who patched it puts it back

    def __delete__(self, module: Any) -> None:
        try:
            del module.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None


def is_users(frame: FrameType) -> bool:
    """Is it no code of funcad itself, nor of a library that tells arrays from traced values?"""
    filename = frame.f_code.co_filename
    known = _asking.get(filename)
    if known is None:
        library = str(frame.f_globals.get("__name__")).partition(".")[0]
        known = _asking.put(filename, not is_internal(filename) and library not in ("numba", "pandas"))
    return known  # type: ignore[no-any-return]


_ASKING = frozenset([opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") if name in opmap])


@remembers(1024)
def _called(code: CodeType, name: str) -> frozenset[int]:
    """Where the code asks for that attribute in order to call it: Python pushes NULL before what is called, or behind it."""
    steps = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    found = []
    for i, step in enumerate(steps):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval == name:
            before, far, after = steps[i - 1], steps[i - 2] if i > 1 else None, steps[i + 1]
            pushed = before.opname == "LOAD_GLOBAL" and bool((before.arg or 0) & 1) or after.opname == "PUSH_NULL"
            method = step.opname == "LOAD_METHOD" or sys.version_info >= (3, 12) and bool((step.arg or 0) & 1)
            if pushed or method or far is not None and far.opname == "PUSH_NULL":
                found.append(step.offset)
    return frozenset(found)


def _asks(frame: FrameType) -> bool:
    """Does this line ask for a name? Otherwise compiled code that it calls does, as numpy.random's, which has no frame."""
    return frame.f_code.co_code[frame.f_lasti] in _ASKING


def _is_away(frame: FrameType | None, notes: dict[Any, Any]) -> bool:
    """Does the code run because a module is imported, or for numba's compiler?

    The stack is searched when there are other modules than at the last search of this trace.
    """
    numba = sys.modules.get("numba.core.compiler_lock")
    if numba is not None and numba.global_compiler_lock.is_locked():
        return True
    n = len(sys.modules)
    if notes.get("modules") == n:
        return False
    while frame is not None and not frame.f_code.co_filename.startswith(_FUNCAD):
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    notes["modules"] = n
    return False


def door_of(f: Any) -> Any:
    """What a call of f by the user's code calls while this thread traces: the door, if f has one."""
    notes = tracing.threads.get(get_ident())
    entrance = _originals.get(id(f)) if notes is not None and config.doors else None
    if entrance is None:
        if notes is None or not config.doors:
            return f
        if type(f) is types.BuiltinFunctionType and type(f.__self__) is np.ndarray:
            return _of_array(f) if f.__name__ in OF_ARRAYS or f.__name__ in STARTING else f
        if type(f) is types.BuiltinFunctionType and type(f.__self__) is np.ufunc:
            seen = state.observer is not None and "(" in f.__self__.__name__  # of np.frompyfunc: what its function reads
            return _of_ufunc(f) if f.__name__ in OF_UFUNCS and not seen else f
        if type(f) is types.BuiltinFunctionType and f == np.ndarray.__new__:  # of `super()`, too
            return _of_new(f)
        return _of_class(f) if is_a(f, (type, types.MethodType)) else f
    return f if _is_away(None, notes) else entrance.door  # type: ignore[arg-type]


_CLASSES = {  # compiled classes, which have no doors of their own; `Rotation` is one before SciPy 1.17
    ("scipy.spatial._ckdtree", "cKDTree"): "scipy.spatial.cKDTree",
    ("scipy.spatial.transform._rotation", "Rotation"): "scipy.spatial.transform.Rotation",
}


def _of_class(f: Any) -> Any:
    """A compiled class, or a method of one or of its objects, for which funcad's class of that name answers."""
    owner = getattr(f, "__self__", None)
    kind = f if is_a(f, type) else owner if is_a(owner, type) else type(owner)
    name = _CLASSES.get((kind.__module__, kind.__name__))
    if name is None or type(getattr(f, "__func__", None)) is types.FunctionType or kind.__flags__ & 1 << 9:  # of Python's
        return f

    def own(*args: Any, **kwargs: Any) -> Any:
        if not holds_traced(args, kwargs):
            return f(*args, **kwargs)
        made = find(Tracer.namespace, name.split("."))
        if f is kind:
            return made(*args, **kwargs)
        if owner is not kind:
            made = made.of(owner) if hasattr(made, "of") else made.from_quat(owner.as_quat())
        return getattr(made, f.__name__)(*args, **kwargs)

    own.by_twin = True  # type: ignore[attr-defined]
    return own


def _of_array(f: Any) -> Any:
    """A compiled method of a plain array, for which NumPy's function of that name answers."""

    def own(*args: Any, **kwargs: Any) -> Any:
        if not holds_traced(args, kwargs):
            return f(*args, **kwargs)
        return find(Tracer.namespace.numpy, [f.__name__])(f.__self__, *args, **kwargs)

    own.by_twin = True  # type: ignore[attr-defined]
    return own


def _of_ufunc(f: Any) -> Any:
    """A method of a ufunc: of a list of traced values, NumPy would make a plain array."""

    def own(*args: Any, **kwargs: Any) -> Any:
        asks = any([type(a) is not np.ndarray and hasattr(type(a), "__array_ufunc__") for a in (*args, kwargs.get("array"))])
        if asks or not holds_traced(args, kwargs):
            return f(*args, **kwargs)
        return array_ufunc(f.__self__, f.__name__, args, kwargs)

    own.by_twin = True  # type: ignore[attr-defined]
    return own


def _of_new(f: Any) -> Any:
    """`np.ndarray.__new__`, which a subclass calls with what is to be its memory."""

    def own(kind: Any, *args: Any, **kwargs: Any) -> Any:
        memory = importlib.import_module("funcad.doors.answers").over_memory
        make = functools.partial(f, kind)
        return memory("", make, kind)[1](*args, **kwargs) if holds_traced(args, kwargs) else make(*args, **kwargs)

    return own


tracing.door_of = door_of
lock = RLock()  # of whoever hangs doors or takes them down
_hung: list[tuple[types.ModuleType, type, type]] = []  # a module, its class with doors and its own class
_originals: dict[int, Entrance] = {}  # id of a function -> the entrance to its door


def _reduce(f: Any) -> Any:
    return _by_name(f) if id(f) in _originals else f.__reduce__()


def make_entrances(doors: dict[str, dict[str, Maker]], arrived: bool = False) -> None:
    """`doors`: module -> name -> who answers. Those of the modules that are there, ready to be hung; call it under the lock.

    `arrived`: the module has just run.
    """
    known = {module.__name__ for module, _, _ in _hung}
    for name, answers in doors.items():
        module = sys.modules.get(name)
        if module is not None and name not in known and (arrived or not getattr(module.__spec__, "_initializing", False)):
            space = module.__dict__
            entrances = {n: Entrance(name, n, space[n], maker) for n, maker in answers.items() if n in space}
            for entrance in entrances.values():
                _originals[id(entrance.original)] = entrance
            own = type(module)
            more = {"__module__": own.__module__, "__reduce__": lambda self: (importlib.import_module, (self.__name__,))}
            _hung.append((module, _Kind(own.__name__, (own,), {**more, **entrances}), own))


def hang_modules(doors: dict[str, dict[str, Maker]], arrived: bool = False) -> None:
    """What is there is hung; as above."""
    make_entrances(doors, arrived)
    for module, with_doors, _ in _hung:
        module.__class__ = with_doors
    for kind in _KINDS:
        copyreg.dispatch_table.setdefault(kind, _reduce)


def hang_more(doors: dict[str, dict[str, Maker]]) -> bool:
    """More doors in the modules that have some; to be called under the lock. Was one missing?"""
    missing = False
    for module, with_doors, _ in _hung:
        for n, maker in doors.get(module.__name__, {}).items():
            if n not in vars(with_doors) and n in module.__dict__:
                missing = True
                original = module.__dict__[n]
                entrance = _originals[id(original)] = Entrance(module.__name__, n, original, maker)
                setattr(with_doors, n, entrance)
    return missing


def take_down() -> None:
    """The modules are as they were, unless a thread traces."""
    with lock:
        tracing.ready = False  # in this order: a trace that opens now either is seen below or hangs the doors anew
        if tracing.threads and config.doors:
            tracing.ready = True
            return
        for module, _, own in _hung:
            module.__class__ = own
        for kind in _KINDS:
            if copyreg.dispatch_table.get(kind) is _reduce:
                del copyreg.dispatch_table[kind]

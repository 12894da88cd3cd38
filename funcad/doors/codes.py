"""Doors of functions written in Python: the function stays, its code looks for traced values first.

Idea: `f.__code__` is exchanged for five lines that call funcad's function where an argument is traced, and otherwise a second
function object that has the original code. So it does not matter who imported f by name, and when; `pickle`, `is` and
`inspect.signature` find the function they knew. The exchange lasts: SciPy's functions take microseconds at least, and asking
costs a quarter of one while a thread traces, and less while none does.

Trap: `warnings.warn(..., stacklevel=2)` in the original must still name its caller's line. When it counts, Python skips
frames of the import system, which it knows by the words "importlib" and "_bootstrap" in the name of the file: hence `_FILE`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from opcode import opname
from typing import Any

from funcad.host.where import tracing
from funcad.memo import remembers

# of a door: is a call for us, and who answers it
Answer = tuple[Callable[[tuple, dict[str, Any]], bool], Callable[..., Any]]
Maker = Callable[[str, Callable[..., Any]], Answer]  # of a door's name and the original function

_FILE = "<frozen importlib._bootstrap: a door of funcad>"
_originals: dict[types.FunctionType, types.FunctionType] = {}  # function -> what has its original code
_methods: dict[tuple[type, str], Any] = {}  # class and name -> the compiled method that stood there itself, or None


def python_function(found: Any) -> types.FunctionType | None:
    """The function in Python behind a function, a method or a dispatcher of NumPy's."""
    if type(found) is types.FunctionType:
        return found
    found = getattr(found, "__func__", getattr(found, "_implementation", found))
    return found if isinstance(found, types.FunctionType) else None


_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # whose code a door's cannot replace


def public_functions(module: types.ModuleType) -> dict[str, types.FunctionType]:
    """A module's public functions in Python that its library defines, by name."""
    library = module.__name__.partition(".")[0]
    inside, found = library + ".", {}
    for name in getattr(module, "__all__", None) or dir(module):
        f = getattr(module, name, None)
        if type(f) is types.FunctionType and name[0] != "_" and not f.__code__.co_flags & _SUSPENDED:
            if f.__module__ == library or str(f.__module__).startswith(inside):
                found[name] = f
    return found


def methods_of(module: str) -> Iterator[tuple[str, types.FunctionType]]:
    """The public methods in Python of a module's classes, operators and `__init__` among them: their paths and functions."""
    for kind in vars(sys.modules.get(module, types)).values():
        if isinstance(kind, type) and kind.__module__ == module and not issubclass(kind, BaseException):
            for name, member in vars(kind).items():
                f = getattr(member, "fget", None) or getattr(member, "__func__", member)
                if type(f) is not types.FunctionType or f.__code__.co_flags & _SUSPENDED:
                    continue
                special = name in _SPECIAL and not issubclass(kind, tuple)
                if name[0] != "_" or special or name.startswith("_process_"):  # the last are called by other classes
                    yield f"{kind.__name__}.{name}", f


_SPECIAL = [f"__{name}__" for name in "init call add radd sub rsub mul rmul matmul truediv rtruediv pow neg getitem".split()]


def _never_called(_cell: Any = None) -> Any:
    """Every door has the code of the function in it, with values in the place of the words, and a name for each cell."""

    def door(*_args: Any, **_kwargs: Any) -> Any:
        nonlocal _cell
        _threads, _answering, _original = "threads", "answering", "original"
        if _threads:
            _is_for_us, _own = _answering()  # type: ignore[operator]
            if _is_for_us(_args, _kwargs):
                return _own(*_args, **_kwargs)
        return _original(*_args, **_kwargs)  # type: ignore[operator]

    return door


_TEMPLATE: types.CodeType = _never_called().__code__.replace(co_filename=_FILE)
_WORDS = [type(c) is tuple and len(c) > 0 for c in _TEMPLATE.co_consts].index(True)  # the constant from which they are unpacked


@remembers()
def _door(cells: int) -> types.CodeType:
    """The code of a door of a function with so many cells, which the first instruction copies into the frame."""
    code = bytearray(_TEMPLATE.co_code)
    assert opname[code[0]] == "COPY_FREE_VARS" and code[1] == 1
    code[1] = cells
    return _TEMPLATE.replace(co_code=bytes(code), co_freevars=tuple([f"c{i}" for i in range(cells)]))


def _code(f: types.FunctionType, values: tuple) -> types.CodeType:
    """The code of a door of f."""
    old = f.__code__
    cells = old.co_freevars
    constants = (*_TEMPLATE.co_consts[:_WORDS], values, *_TEMPLATE.co_consts[_WORDS + 1 :])
    return _door(len(cells)).replace(co_consts=constants, co_name=old.co_name, co_qualname=old.co_qualname, co_freevars=cells)


class _Answering:
    """Who answers a call while a thread traces: asked for when the first comes, for most functions never do."""

    __slots__ = ("answer", "name", "original", "found")

    def __init__(self, answer: Maker, name: str, original: Callable[..., Any]):
        self.answer, self.name, self.original = answer, name, original
        self.found: Answer | None = None

    def __call__(self) -> Answer:
        if self.found is None:
            self.found = self.answer(self.name, self.original)
        return self.found


# Python 3.14 makes them when asked
_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"


def hang_code(f: types.FunctionType, answer: Maker, name: str) -> None:
    """Put a door into f; `answer(name, original)` says for which arguments and who answers."""
    if f in _originals:
        return
    original = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    original.__kwdefaults__ = f.__kwdefaults__
    if f.__dict__:
        original.__dict__.update(f.__dict__)
    original.__module__, original.__qualname__, original.__doc__ = f.__module__, f.__qualname__, f.__doc__
    setattr(original, _ANNOTATIONS, getattr(f, _ANNOTATIONS))
    code = _code(f, (tracing.threads, _Answering(answer, name, original), original))
    _originals[f] = original
    if "__wrapped__" not in f.__dict__:
        f.__wrapped__ = original  # type: ignore[attr-defined]
    f.__code__ = code


def _own_code(f: types.FunctionType) -> types.CodeType:
    """The code without the door, if it is still there."""
    code = f.__code__
    return _originals[f].__code__ if code.co_filename == _FILE and f in _originals else code


tracing.own_code = _own_code


def _by_own_code(f: types.FunctionType) -> bool:
    """Is it the function's own code that answers at its door?"""
    held = [c for c in f.__code__.co_consts if type(c) is tuple]
    return f in _originals and bool(held) and getattr(held[0][1].answer, "by_own_code", False)


tracing.by_own_code = _by_own_code


def hang_method(owner: type, name: str, answer: Maker, path: str) -> None:
    """Put a door before a method that is compiled, of a class whose names can be set."""
    if (owner, name) in _methods:
        return
    original = getattr(owner, name)
    answering, threads = _Answering(answer, path, original), tracing.threads

    @functools.wraps(original)
    def door(*args: Any, **kwargs: Any) -> Any:
        if threads:
            is_for_us, own = answering()
            if is_for_us(args, kwargs):
                return own(*args, **kwargs)
        return original(*args, **kwargs)

    _methods[owner, name] = owner.__dict__.get(name)
    setattr(owner, name, door)


def is_door(found: Any) -> bool:
    """Has the function in Python behind it a door?"""
    return python_function(found) in _originals


def restore_codes() -> None:
    """Every function has its own code again."""
    while _originals:
        f, original = _originals.popitem()
        f.__code__ = original.__code__
        if f.__dict__.get("__wrapped__") is original:
            del f.__dict__["__wrapped__"]
    while _methods:
        (owner, name), method = _methods.popitem()
        if method is None:  # it is the base's
            delattr(owner, name)
        else:
            setattr(owner, name, method)

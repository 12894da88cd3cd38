"""Doors of functions written in Python: the function stays, its code looks for traced values first.

Idea: `f.__code__` is exchanged for five lines that call funcad's function where an argument is traced, and otherwise a second
function object that has the original code. All doors share these lines, which find what is behind them (`_Behind`) among the
function's defaults: to hang one takes some microseconds, and SciPy has 1,700. So it does not matter who imported f by name,
and when; `pickle`, `is` and `inspect.signature` find the function they knew. The exchange lasts: SciPy's functions take
microseconds at least, and asking costs a quarter of one while a thread traces, and less while none does.

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
_behind: dict[types.FunctionType, _Behind] = {}  # function -> what is behind its door
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
    inside, found, space = library + ".", {}, vars(module)
    for name in space.get("__all__") or dir(module):
        f = space.get(name)
        if type(f) is types.FunctionType and name[0] != "_" and f"{f.__module__}.".startswith(inside):
            if not f.__code__.co_flags & _SUSPENDED:
                found[name] = f
    return found


def methods_of(module: str) -> Iterator[tuple[str, types.FunctionType]]:
    """The public methods in Python of a module's classes, operators and `__init__` among them: their paths and functions."""
    for kind in vars(sys.modules.get(module, types)).values():
        if isinstance(kind, type) and kind.__module__ == module and not issubclass(kind, BaseException):
            special = () if issubclass(kind, tuple) else _SPECIAL
            for name, f in vars(kind).items():
                if name[0] != "_" or name in special or name[:9] == "_process_":  # the last are called by other classes
                    if type(f) is not types.FunctionType:
                        f = f.fget if type(f) is property else getattr(f, "__func__", None)
                        if type(f) is not types.FunctionType:
                            continue
                    if not f.__code__.co_flags & _SUSPENDED:
                        yield f"{kind.__name__}.{name}", f


_SPECIAL = frozenset(
    [f"__{name}__" for name in "init call add radd sub rsub mul rmul matmul truediv rtruediv pow neg getitem".split()]
)


def _never_called(_cell: Any = None) -> Any:
    """Every door has the code of the function in it, with a name for each cell."""

    def door(*_args: Any, _door: Any, **_kwargs: Any) -> Any:
        nonlocal _cell
        _threads = "threads"
        if _threads:
            _is_for_us, _own = _door.answers()
            if _is_for_us(_args, _kwargs):
                return _own(*_args, **_kwargs)
        return _door.original(*_args, **_kwargs)

    return door


_TEMPLATE: types.CodeType = _never_called().__code__


@remembers(256)
def _code(cells: tuple[str, ...]) -> types.CodeType:
    """The code of all doors of functions with these cells, which the first instruction copies into the frame."""
    code = bytearray(_TEMPLATE.co_code)
    assert opname[code[0]] == "COPY_FREE_VARS" and code[1] == 1
    code[1] = len(cells)
    constants = tuple([tracing.threads if c == "threads" else c for c in _TEMPLATE.co_consts])
    return _TEMPLATE.replace(co_filename=_FILE, co_code=bytes(code), co_consts=constants, co_freevars=cells)


class _Behind:
    """What is behind the door of a function, which is made when it is asked for: most functions are never called.

    `original`: the function that has its own code. It stands for that as `__wrapped__`, too, until it is made.
    """

    __slots__ = ("function", "code", "options", "answer", "module", "path", "original", "found")
    original: Any
    found: Answer

    def __init__(self, function: types.FunctionType, answer: Maker, module: str, path: str):
        self.function, self.answer, self.module, self.path = function, answer, module, path
        self.code, self.options = function.__code__, function.__kwdefaults__

    def answers(self) -> Answer:
        """For which calls, and who answers them while a thread traces."""
        try:
            return self.found
        except AttributeError:  # the slot is empty
            self.found = self.answer(f"{self.module}.{self.path}", self.original)
            return self.found

    def __getattr__(self, name: str) -> Any:
        if name in _Behind.__slots__:
            if name != "original":
                raise AttributeError(name)
            return self._make()
        return self.original if name == "__wrapped__" else getattr(self.original, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.original(*args, **kwargs)

    def _make(self) -> types.FunctionType:
        f = self.function
        original = types.FunctionType(self.code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
        original.__kwdefaults__ = self.options
        original.__dict__.update({name: value for name, value in f.__dict__.items() if value is not self})
        original.__module__, original.__qualname__, original.__doc__ = f.__module__, f.__qualname__, f.__doc__
        setattr(original, _ANNOTATIONS, getattr(f, _ANNOTATIONS))
        self.original = original
        if f.__dict__.get("__wrapped__") is self:
            f.__wrapped__ = original  # type: ignore[attr-defined]
        return original


# Python 3.14 makes them when asked
_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"


def hang_code(f: types.FunctionType, answer: Maker, module: str, path: str) -> None:
    """Put a door into f; `answer(name, original)` says for which arguments and who answers."""
    if f in _behind:
        return
    behind = _behind[f] = _Behind(f, answer, module, path)
    if "__wrapped__" not in f.__dict__:
        f.__wrapped__ = behind  # type: ignore[attr-defined]
    # in this order: another thread may call it in between
    f.__kwdefaults__ = {**(behind.options or {}), "_door": behind}
    f.__code__ = _code(behind.code.co_freevars)


def _own_code(f: types.FunctionType) -> types.CodeType:
    """The code without the door, if it is still there."""
    code = f.__code__
    return _behind[f].code if code.co_filename == _FILE and f in _behind else code


tracing.own_code = _own_code


def _by_own_code(f: types.FunctionType) -> bool:
    """Is it the function's own code that answers at its door?"""
    return f in _behind and getattr(_behind[f].answer, "by_own_code", False)


tracing.by_own_code = _by_own_code


def hang_method(owner: type, name: str, answer: Maker, path: str) -> None:
    """Put a door before a method that is compiled, of a class whose names can be set."""
    if (owner, name) in _methods:
        return
    original = getattr(owner, name)
    threads = tracing.threads
    found: Answer | None = None

    @functools.wraps(original)
    def door(*args: Any, **kwargs: Any) -> Any:
        nonlocal found
        if threads:
            is_for_us, own = found = found or answer(path, original)
            if is_for_us(args, kwargs):
                return own(*args, **kwargs)
        return original(*args, **kwargs)

    _methods[owner, name] = owner.__dict__.get(name)
    setattr(owner, name, door)


def is_door(found: Any) -> bool:
    """Has the function in Python behind it a door?"""
    return python_function(found) in _behind


def restore_codes() -> None:
    """Every function has its own code again."""
    while _behind:
        f, behind = _behind.popitem()
        f.__code__ = behind.code
        f.__kwdefaults__ = behind.options
        if f.__dict__.get("__wrapped__") in (behind, behind.original):
            del f.__dict__["__wrapped__"]
    while _methods:
        (owner, name), method = _methods.popitem()
        if method is None:  # it is the base's
            delattr(owner, name)
        else:
            setattr(owner, name, method)

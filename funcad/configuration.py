"""The configuration; and what modules show to `dir`.

Each setting has an environment variable that gives its first value; an empty one is as good as none, and what is not understood
stops the import. Whoever depends on a setting reads it when it is needed, so `config.update` takes effect at once; programs
compiled by one engine are kept beside those of another.
"""

from __future__ import annotations

import importlib
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])  # what a decorator gives back with the signature that it was given

# -- what a module shows to `dir`, and what docstrings of many functions say

MARGIN = "\n" if sys.version_info >= (3, 13) else "\n    "  # of docstrings in a file; a newer Python takes it away itself
REST = "Else parameters, results and errors are those of"


def public_names(names: dict[str, Any], more: Iterable[str] = ()) -> Callable[[], list[str]]:
    """The `__dir__` of a module with these `globals()`: its `__all__` if it has one, else all that is no module and public.

    `more` are the modules and what is loaded when it is first used.
    """

    def __dir__() -> list[str]:
        own = [name for name, value in names.items() if not name.startswith("_") and type(value) is not ModuleType]
        return sorted({*names.get("__all__", own), *more})

    return __dir__


def named_as(call: Function, function: Any) -> Function:
    """What `functools.wraps` makes of a function that stands for another one, but for annotations, at a fifth of the time."""
    if function.__dict__:
        call.__dict__.update(function.__dict__)
    own: Any = call
    own.__name__, own.__qualname__, own.__doc__ = function.__name__, function.__qualname__, function.__doc__
    own.__module__, own.__wrapped__ = function.__module__, function
    return call


def also_says(function: Any, text: str) -> None:
    """Put a paragraph, of lines without indentation, into a docstring before its example; one in sections says all itself."""
    if "Parameters\n" in (function.__doc__ or ""):
        return
    told, example, rest = (function.__doc__ or "").strip().replace(MARGIN, "\n").partition(">>>")
    function.__doc__ = f"{told.rstrip()}\n\n{text}" + (f"\n\n{example}{rest}" if example else "")


def mirrors(functions: Iterable[Any], library: str) -> None:
    """Of functions that keep the name of one in a library, "scipy.optimize": what is not told here is as there."""
    for function in functions:
        if REST not in (function.__doc__ or ""):
            also_says(function, f"{REST} `{library}.{function.__name__}`.")


def named_after(namespace: dict[str, Any], library: str) -> list[Any]:
    """The functions of a module whose docstrings begin with the name that they have in the library."""
    found = [f for f in namespace.values() if type(f) is FunctionType]
    return [f for f in found if (f.__doc__ or "").startswith(f"`{library}.{f.__name__}`")]


# -- what few calls need: modules that are loaded with them, not by `import funcad`


class OnDemand:
    """A module, which is loaded when something of it is first asked for."""

    def __init__(self, name: str):
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        self.__dict__ = vars(module)  # its own, so what is set there is seen here
        return getattr(module, name)


def later(space: dict[str, Any], files: dict[str, str]) -> tuple[dict[str, str], Callable[[str], Any]]:
    """What a package loads when it is first asked for: name -> file, and the `__getattr__` that does.

    `space` are its globals, `files` the names that are found in each of its files.
    """
    file_of = {name: file for file, names in files.items() for name in names.split()}

    def value_of(name: str) -> Any:
        package = space["__name__"]
        if name not in file_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = space[name] = getattr(importlib.import_module(f"{package}.{file_of[name]}"), name)
        return value

    return file_of, value_of


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The one that was meant, for an error's remedy; none if nothing is near."""
    return importlib.import_module("difflib").get_close_matches(word, list(known), 1, cutoff)  # type: ignore[no-any-return]


def escape(text: str) -> str:
    """Text in HTML, for notebooks."""
    return importlib.import_module("html").escape(text)  # type: ignore[no-any-return]


# -- classes of fields as in `typing`, where each annotation is compiled when the class is made: a seventh of `import funcad`


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
    from typing import TypedDict as TypedDict
else:
    from _collections import _tuplegetter

    _new = tuple.__new__
    _MAKERS = [  # of so many fields, whose names are put into the code: `namedtuple` compiles each anew
        None,
        lambda cls, a: _new(cls, (a,)),
        lambda cls, a, b: _new(cls, (a, b)),
        lambda cls, a, b, c: _new(cls, (a, b, c)),
        lambda cls, a, b, c, d: _new(cls, (a, b, c, d)),
        lambda cls, a, b, c, d, e: _new(cls, (a, b, c, d, e)),
        lambda cls, a, b, c, d, e, f: _new(cls, (a, b, c, d, e, f)),
        lambda cls, a, b, c, d, e, f, g: _new(cls, (a, b, c, d, e, f, g)),
        lambda cls, a, b, c, d, e, f, g, h: _new(cls, (a, b, c, d, e, f, g, h)),
        lambda cls, a, b, c, d, e, f, g, h, i: _new(cls, (a, b, c, d, e, f, g, h, i)),
        lambda cls, a, b, c, d, e, f, g, h, i, j: _new(cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k: _new(cls, (a, b, c, d, e, f, g, h, i, j, k)),
    ]

    class _Tuple(tuple):
        """What all such classes have, as those of `collections.namedtuple`."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Any:
            return cls(*values)

        def _replace(self, /, **values: Any) -> Any:
            made = self._make(map(values.pop, self._fields, self))
            if values:
                missing = ", ".join(map(repr, values))
                raise ValueError(f"{type(self).__name__}._replace: there is no field {missing}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self))

        def __repr__(self) -> str:
            fields = [f"{name}={x!r}" for name, x in zip(self._fields, self)]
            return f"{type(self).__name__}({', '.join(fields)})"

        def __getnewargs__(self) -> tuple:
            return tuple(self)

    class _Tuples(type):
        def __new__(cls, name: str, bases: tuple, body: dict[str, Any]) -> Any:
            fields = tuple(body["__annotations__"])
            defaults = tuple([body[field] for field in fields if field in body])
            n = len(fields)
            code = _MAKERS[n].__code__
            code = code.replace(co_varnames=("cls", *fields), co_name="__new__")
            body["__new__"] = FunctionType(code, globals(), "__new__", defaults)
            for i, field in enumerate(fields):
                body[field] = _tuplegetter(i, "A field of the record.")
            body["__slots__"] = ()
            body["_fields"] = body["__match_args__"] = fields
            body["_field_defaults"] = dict(zip(fields[n - len(defaults) :], defaults))
            return type.__new__(type, name, (_Tuple,), body)

    class _Keys(type):
        def __new__(cls, name: str, bases: tuple, body: dict[str, Any], total: bool = True) -> Any:
            parts = [part.get("__annotations__", {}) for part in (*map(vars, bases), body)]
            body["__annotations__"] = {key: value for part in parts for key, value in part.items()}
            return type.__new__(cls, name, bases, body)

    NamedTuple = type.__new__(_Tuples, "NamedTuple", (), {})
    TypedDict = type.__new__(_Keys, "TypedDict", (), {"__annotations__": {}})


# -- settings


listeners: dict[str, Callable[[], None]] = {}  # setting -> who is told when it changes, beside those who read it when needed
reports: list[Callable[[], str]] = []  # lines that other modules add to show_config()


def _one_of(default: str | None, *choices: str) -> Callable[[str, Any], str | None]:
    def check(name: str, value: Any) -> str | None:
        if value is None or value == "":
            return default
        if value not in choices:
            raise ValueError(f"config: {name} must be {' or '.join(map(repr, choices))}, got {value!r}")
        return str(value)

    return check


def _count(name: str, value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        number = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):  # a float, or text such as 1e9
        number = _whole(value)
    if number < 0:
        raise ValueError(f"config: {name} must be a whole number, 0 or more, got {value!r}")
    return number


def _whole(value: Any) -> int:
    """The integer that is written as a float, or as text; -1 if there is none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return -1
    return int(number) if number.is_integer() else -1


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not seconds > 0:
        raise ValueError(f"config: {name} must be a number of seconds above 0, got {value!r}")
    return seconds


def _flag(name: str, value: Any) -> bool:
    word = str(value).strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if value is None or word in ("", "0", "false", "no", "off"):
        return False
    raise ValueError(f"config: {name} must be 1 or 0, true or false, got {value!r}")


def _patience(name: str, value: Any) -> float:
    try:
        number = 1.0 if value is None or value == "" else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise ValueError(f"config: {name} must be a number, 0 or more, got {value!r}")
    return number


def _folder(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"config: {name} must be the path of a folder, or 'off', got {value!r}")
    return str(value) if value else None


def _progress(name: str, value: Any) -> str | None:
    if value is None or value in ("", "auto", "on", "off"):
        return value or "auto"
    try:
        return "on" if _flag(name, value) else "off"  # the words of the other settings: 1, true ...
    except ValueError:
        raise ValueError(f"config: {name} must be 'auto' or 'on' or 'off', got {value!r}") from None


_engine = _one_of("auto", "auto", "native", "numpy", "interpreter", "cuda")

_not_compiled = _one_of("warn", "warn", "ignore", "raise")

# name -> (environment variable, default, check, what it means)
SETTINGS: dict[str, tuple[str, Any, Callable[[str, Any], Any], str]] = {
    "engine": ("FUNCAD_ENGINE", "auto", _engine, "auto (native if llvmlite works, or numpy), native, numpy, interpreter, cuda"),
    "threads": ("FUNCAD_THREADS", None, _count, "threads of a compiled program; None: the cores of this process"),
    "blas_threads": ("FUNCAD_BLAS_THREADS", None, _count, "most threads of BLAS in a program; None: by work; 0: left alone"),
    "pool_bytes": ("FUNCAD_POOL_BYTES", None, _count, "most memory kept for reuse; None: a default"),
    "cache_dir": ("FUNCAD_CACHE_DIR", None, _folder, "folder of compiled kernels; None: the user's cache folder, 'off': none"),
    "print": ("FUNCAD_PRINT", None, _one_of(None, "passes"), "'passes': print each program as the compiler's passes leave it"),
    "explain_cache_misses": ("FUNCAD_EXPLAIN_CACHE_MISSES", False, _flag, "say why jitted functions are traced again"),
    "progress": ("FUNCAD_PROGRESS", "auto", _progress, "feedback on long work; auto: on a terminal and in a notebook; on; off"),
    "not_compiled": ("FUNCAD_NOT_COMPILED", "warn", _not_compiled, "where jit compiles nothing: warn, ignore, raise"),
    "jit_patience": ("FUNCAD_JIT_PATIENCE", 1.0, _patience, "times that what jit spends is repaid first; 0: compile at once"),
    "jit_bytes": ("FUNCAD_JIT_BYTES", None, _count, "most memory of what jit has recorded of a function; None: 256 MB"),
    "audit": ("FUNCAD_AUDIT", False, _flag, "compute again what is remembered, and raise where that differs (slow)"),
    "timeout": ("FUNCAD_TIMEOUT", 600.0, _seconds, "seconds that a collective waits for the other processes"),
    "doors": ("FUNCAD_DOORS", True, _flag, "np.array, math.sin, scipy.linalg.expm ... look for traced values"),
}


def _unknown(name: str) -> AttributeError:
    near = nearest(name, SETTINGS)
    remedy = f"funcad.config.{near[0]}" if near else f"one of {', '.join(SETTINGS)}"
    return AttributeError(f"funcad.config has no setting {name!r}.\nRemedy: {remedy}.")


class Config:
    """Settings as attributes; `update(name, value)` sets one, `with config.set(name=value)` for a while."""

    def __init__(self) -> None:
        for name, (variable, default, check, _) in SETTINGS.items():
            value = os.environ.get(variable) or default
            try:
                self.__dict__[name] = check(name, value)
            except ValueError as error:
                raise ValueError(f"the environment variable {variable} is {value!r}: {error}") from None

    def __getattr__(self, name: str) -> Any:
        raise _unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.update(name, value)

    def update(self, name: str, value: Any) -> None:
        """Set one setting, for all threads, from now on."""
        if name not in SETTINGS:
            raise _unknown(name)
        self._put(name, SETTINGS[name][2](name, value))

    def _put(self, name: str, value: Any) -> None:
        changed = self.__dict__.get(name) != value
        self.__dict__[name] = value
        if changed and name in listeners:
            listeners[name]()

    @contextmanager
    def set(self, **values: Any) -> Iterator[None]:
        """Settings for the duration of a `with` block.

        Parameters
        ----------
        **values : any
            Settings by their names. `help(funcad.config)` and `funcad.show_config()` list them.

        Returns
        -------
        context manager
            It holds in all threads. After the block, and after an error in it, the settings are what they were before.

        Raises
        ------
        AttributeError
            There is no such setting.
        ValueError
            The setting does not take this value.

        Notes
        -----
        `funcad.config.threads = 1` sets one for good. JAX's counterparts, such as `jax.default_device(...)`, hold in
        one thread.

        Examples
        --------
        >>> import funcad
        >>> with funcad.config.set(engine="interpreter", threads=1):
        ...     print(funcad.jit(lambda x: 2.0 * x)(1.5), funcad.config.engine)
        3.0 interpreter
        >>> with funcad.config.set(not_compiled="raise"):
        ...     funcad.config.not_compiled
        'raise'

        See also
        --------
        funcad.show_config, funcad.disable_jit
        """
        saved = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                self.update(name, value)
            yield
        finally:
            for name, value in saved.items():
                self._put(name, value)

    def _repr_html_(self) -> str:
        rows = [(n, repr(getattr(self, n)), variable, meaning) for n, (variable, _, _, meaning) in SETTINGS.items()]
        lines = ["".join([f'<td style="text-align:left">{escape(cell)}</td>' for cell in row]) for row in rows]
        return f"<table>{''.join([f'<tr>{line}</tr>' for line in lines])}</table>"

    def __repr__(self) -> str:
        return "funcad.config(" + ", ".join([f"{n}={self.__dict__[n]!r}" for n in SETTINGS]) + ")"


config = Config()


def checked_setting(name: str, value: Any) -> Any:
    """A value as the setting of that name would take it; ValueError if it does not."""
    return SETTINGS[name][2](name, value)


def show_config() -> None:
    """Print the settings, the engine in use and, where the native engine is not, why.

    Returns
    -------
    None

    Notes
    -----
    `python -m funcad config` prints the same. NumPy's `show_config` tells how NumPy was built. It raises nothing.

    Examples
    --------
    >>> import funcad
    >>> funcad.show_config()  # doctest: +ELLIPSIS
    engine = ...

    See also
    --------
    config, devices
    """
    for name, (variable, _, _, meaning) in SETTINGS.items():
        print(f"{name} = {getattr(config, name)!r}  ({variable}: {meaning})")
    for report in reports:
        print(report())

"""What a function says and what it reads that is another at each time: done again at each call of its program, in order.

Idea: a print, a log message, a warning and a line written to sys.stdout are effects of the program (primitives/host.py) with
that call's values; so are draws from a generator that was there before and readings of a clock, whose results are values of the
program. Invariant: nothing is said or drawn while f is traced.

Traps: a value that Python's `str` would look into (an object of the user's that holds a traced value) cannot be said later, so
it is refused. Output that goes elsewhere while f runs (`redirect_stdout`, `catch_warnings`) would go astray. In bodies of
loops, which run once for all turns, Python does these things once, as without jit. What vmap maps would say the first thing for
all examples, and then the next one, so it is refused (`Observer.runs_once`).
"""

from __future__ import annotations

import builtins
import copy
import operator
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from typing import Any

import numpy as np

from funcad import tree
from funcad.host.real_types import dtype_kind, is_a
from funcad.host.where import is_internal, state, users_frame
from funcad.ir.aval import Aval
from funcad.ir.tracer import Tracer
from funcad.primitives.host import HostCall, debug_callback, host_read_p, rewinding
from funcad.reads.code_reads import MISSING, draws, is_library
from funcad.reads.later import Later, asked, deferred, later, of_clock, tells_time
from funcad.reads.observer import Observer, how_printed, outside
from funcad.reads.places import is_scalar, reference

_CLOCKS = [name + end for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time") for end in ("", "_ns")]
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50, "fatal": 50}  # logging's
_NUMBERS = {float: Aval((), np.dtype(float), True), int: Aval((), np.dtype(int), True), bool: Aval((), np.dtype(bool))}


def told_key(observer: Observer, x: Any) -> Any:
    """A key of a dict: a traced integer or truth is asked for its value."""
    if type(x) is not Tracer or x.aval.shape or x.aval.dtype.kind not in "biu" or state.abstract is not observer.trace:
        return x
    if id(x) in observer.tracers:
        raise observer.not_placed(x)
    value = bool(x) if x.aval.dtype.kind == "b" else operator.index(x)
    return value if x.aval.weak or type(value) is bool else x.aval.dtype.type(value)


def told_argument(observer: Observer, x: Any) -> Any:
    """An argument of a function that has a cache, which goes by it as by a key; where nobody can tell it, it stays traced."""
    if type(x) is tuple:
        return tuple([told_argument(observer, v) for v in x])
    return told_key(observer, x) if type(x) is Tracer and (x.owner.recorder is not None or observer.inputs) else x


def is_replayed(f: Any) -> bool:
    """Is it a function that says something or reads a clock? Of a generator's or a stream's methods, their objects tell."""
    name, module = getattr(f, "__name__", ""), getattr(f, "__module__", None)
    if f is builtins.print or f is warnings.warn or f is sys.stdout or f is sys.stderr:
        return True
    if tells_time(f) or module == "time" and name in _CLOCKS:
        return True
    return module == "logging" and (name in _LEVELS or name in ("log", "exception"))


def replayed(observer: Observer, f: Any, owner: Any, args: tuple, kwargs: dict) -> Any:
    """What a call of a library's function gives that is done again at each call; MISSING if it is none of these."""
    found = _replay(observer, f, owner, args, kwargs)
    if found is None:
        return MISSING
    name = getattr(f, "__name__", "")
    if not observer.runs_once(f"calls {name}"):  # in the body of a loop
        return observer.refuse(f"{name} reads a clock in the body of a loop") if tells_time(f) else MISSING
    return found()


def _replay(observer: Observer, f: Any, owner: Any, args: tuple, kwargs: dict) -> Callable[[], Any] | None:
    """What does such a call again; None if it is none of these."""
    name, module = getattr(f, "__name__", ""), getattr(f, "__module__", None)
    logs = name in _LEVELS or name in ("log", "exception")
    if tells_time(f):
        read = lambda: _read_anew("time.time_ns", lambda: time.time_ns(), time.time_ns())
        return partial(of_clock, observer, f, args, kwargs, read)
    if owner is None or type(owner) is types.ModuleType:
        if module is not None and module.startswith("tqdm.") and (is_a(f, type) or name == "trange"):
            return partial(_progress, observer, f, args, kwargs)
        if f is builtins.print:
            return partial(_print, observer, args, kwargs)
        if f is warnings.warn:
            return partial(_warn, observer, *args, **kwargs)
        if module == "time" and name in _CLOCKS:
            return lambda: _read_anew(f"time.{name}", lambda: f(), f())
        if module == "logging" and logs:
            return partial(_logged, observer, sys.modules["logging"].getLogger(), name, args, kwargs)  # the root logger
        return None
    kind = type(owner)
    if kind.__module__.startswith("tqdm."):
        return partial(_progressed, observer, owner, name, args, kwargs)
    if (owner is sys.stdout or owner is sys.stderr) and name in ("write", "flush"):
        return partial(_written, observer, owner, name, args)
    if kind.__module__ == "logging" and hasattr(kind, "makeRecord") and logs:
        return partial(_logged, observer, owner, name, args, kwargs)
    if draws(kind) and state.abstract is observer.trace:
        return partial(_drawn, observer, f, owner, name, args, kwargs)
    return None


# -- what is said


def spoken(observer: Observer, x: Any) -> Any:
    """x on its way into a text: traced numbers are asked for, also those in containers."""
    if type(x) is Tracer:
        return asked(observer, x) if state.abstract is observer.trace or id(x) in observer.tracers else x
    if type(x) is Later:
        return x.now()
    if any([is_a(v, np.ndarray) for v in tree.leaves(x)]):
        observer.asks(how_printed, "how arrays are printed")
    if not is_library(type(x)):
        for name in ("__format__", "__str__", "__repr__"):
            observer.method_of(observer, type(x), name)
    observer.orders.handed(x)
    if type(x) in (list, tuple, dict) and any([type(v) in (Tracer, Later) for v in tree.leaves(x)]):
        return tree.map(lambda v: spoken(observer, v), x)
    observer.content(x)
    return x


def _effect(name: str, say: Callable[..., Any], args: tuple, kwargs: dict) -> None:
    """`say(*args, **kwargs)` whenever the program runs; traced values among the arguments are those of that run."""
    operands, made = deferred((args, kwargs))

    def flat(*values: Any) -> list[Any]:
        given, keywords = made(values)
        say(*given, **keywords)
        return []

    debug_callback(HostCall(name, flat, (), ()), *operands)


def _seen(observer: Observer, what: str, said: Any) -> None:
    """What is said is told by what it holds now; what Python's `str` looks into later than that is refused."""
    for x in tree.leaves(said):
        if type(x) in (Tracer, Later) or is_scalar(x) or is_a(x, (type, types.FunctionType)):
            continue
        if is_a(x, np.ndarray) and not x.dtype.hasobject:
            observer.content(x)
        else:
            observer.refuse(f"{what} shows an object, a {type(x).__name__}")
    args, kwargs = said
    for part in (*args, *kwargs.values()):
        leaves = tree.leaves(part)
        if not {Tracer, Later}.isdisjoint(map(type, leaves)):  # which are operands of what is said
            part = [x for x in leaves if type(x) not in (Tracer, Later)]
        observer.content(part)


_SAID = ("pathlib", "datetime", "decimal", "fractions", "uuid")  # modules of classes whose objects never change


def _said(x: Any) -> Any:
    """A text in the place of an error or of an object that never changes."""
    if is_a(x, BaseException) and not any([type(v) is Tracer for v in tree.leaves(x.args)]) or type(x).__module__ in _SAID:
        return str(x)
    return x


def _print(observer: Observer, args: tuple, kwargs: dict) -> None:
    file = kwargs.get("file")
    _stays(observer, "print")
    args = tuple(map(_said, args))
    if file is not None and file is not sys.stdout and file is not sys.stderr:
        observer.refuse("print writes into a file")
    _seen(observer, "print", [args, {k: v for k, v in kwargs.items() if k != "file"}])
    error = file is not None and file is sys.stderr
    kwargs = {k: v for k, v in kwargs.items() if k != "file"}
    _effect("print", lambda *args, **kw: builtins.print(*args, file=sys.stderr if error else sys.stdout, **kw), args, kwargs)


def _written(observer: Observer, stream: Any, name: str, args: tuple) -> Any:
    _stays(observer, f"{name} of a stream")
    error = stream is sys.stderr
    if any([(x.kind if type(x) is Later else type(x)) is not str for x in args]):
        return MISSING  # an error
    _effect(name, lambda *args: getattr(sys.stderr if error else sys.stdout, name)(*args), args, {})
    if args and type(args[0]) is Later:
        return later(observer, len, [args[0]])
    return len(args[0]) if args else None


def _warn(observer: Observer, message: Any, category: Any = None, stacklevel: int = 1, **others: Any) -> None:
    _stays(observer, "warnings.warn")
    made_later = type(message) is Later and message.kind is str
    if others or type(message) is not str and not made_later and not is_a(message, Warning) or type(stacklevel) is not int:
        observer.refuse("warnings.warn is given what cannot be said later")
    frame: Any = users_frame(2)
    for _ in range(stacklevel - 1):
        frame = frame.f_back or frame
        while is_internal(frame.f_code.co_filename) and frame.f_back is not None:
            frame = frame.f_back
    names, where, line = frame.f_globals, frame.f_code.co_filename, frame.f_lineno
    module = names.get("__name__", "<string>")
    kind = category or UserWarning if made_later or type(message) is str else type(message)

    def say(message: Any) -> None:
        warnings.warn_explicit(message, kind, where, line, module, names.setdefault("__warningregistry__", {}))

    _effect("warnings.warn", say, (message,), {})


def _logged(observer: Observer, logger: Any, name: str, args: tuple, kwargs: dict) -> None:
    if name == "exception" or kwargs.keys() - {"extra"} or not args:
        observer.refuse(f"logging's {name} is given what cannot be said later")
    level, args = (args[0], args[1:]) if name == "log" else (_LEVELS[name], args)
    if type(level) is not int or not args:
        observer.refuse(f"logging's {name} is given what cannot be said later")
    args = tuple(map(_said, args))
    _seen(observer, f"logging's {name}", [args, kwargs])
    place = observer.of(logger)
    if place is not None:
        observer.guard(place, *reference(logger))
    frame: Any = users_frame(2)
    where, line, function = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name

    def say(message: Any, *values: Any, extra: Any = None) -> None:
        if logger.isEnabledFor(level):
            logger.handle(logger.makeRecord(logger.name, level, where, line, message, values, None, function, extra))

    _effect(f"logging.{name}", say, args, kwargs)


class Progress:
    """Stands for a bar of tqdm that f makes: the bar is made, moved and closed whenever the program runs."""

    def __init__(self, observer: Observer, make: Any, args: tuple, kwargs: dict):
        self._bars: dict[int, Any] = {}  # of the threads in which the program runs
        given = args[0] if args else kwargs.get("iterable")
        self._items = None if given is None else observer.handed(given)
        if self._items is not None:
            kwargs = {"total": len(given) if hasattr(given, "__len__") else None, **kwargs, "iterable": None}
        _stays(observer, "tqdm")
        _seen(observer, "tqdm", [args[1:], {k: v for k, v in kwargs.items() if k != "file"}])
        rest = args[1:]

        def begin() -> None:
            self._bars[get_ident()] = make(None, *rest, **{k: v for k, v in kwargs.items() if k != "iterable"})

        _effect("tqdm", begin, (), {})

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in _MOVING:
            raise AttributeError(f"{name} of a bar of tqdm is not known while the function is traced")

        def move(*args: Any, **kwargs: Any) -> None:
            getattr(self._bars[get_ident()], name)(*args, **kwargs)

        return lambda *args, **kwargs: _effect(name, move, args, kwargs)

    def __iter__(self) -> Iterator[Any]:
        try:
            for x in self._items:  # type: ignore[union-attr]
                yield x
                self.update()
        finally:
            self.close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_MOVING = frozenset("update close refresh reset clear write set_description set_description_str".split())
_MOVING |= {"set_postfix", "set_postfix_str"}


def _progress(observer: Observer, f: Any, args: tuple, kwargs: dict) -> Any:
    if getattr(f, "__name__", "") == "trange":
        f, args = sys.modules[f.__module__].tqdm, (range(*args),)
    given = args[0] if args else kwargs.get("iterable")
    place = observer.of(given) if given is not None else None
    if place is not None and hasattr(type(given), "__next__"):
        observer.refuse(f"{place.label} is an iterator, which moves on")
    if kwargs.get("file") not in (None, sys.stdout, sys.stderr):
        observer.refuse("tqdm writes into a file")
    return Progress(observer, f, args, kwargs)


def _progressed(observer: Observer, bar: Any, name: str, args: tuple, kwargs: dict) -> Any:
    """A method of a bar that was there before."""
    place = observer.of(bar)
    if place is None or name not in _MOVING:
        return MISSING
    observer.guard(place, *reference(bar))
    observer.later.add(id(bar))
    _seen(observer, f"tqdm's {name}", [args, kwargs])
    _effect(name, getattr(bar, name), args, kwargs)
    return None


def _stays(observer: Observer, what: str) -> None:
    """Does what is said go where it goes when f is called?"""
    if observer.outside != outside():
        observer.refuse(f"{what} is led elsewhere while the function runs")


# -- what is read anew


def _aval(x: Any) -> Aval | None:
    """Of what was read; None if a program has no such values."""
    if type(x) in _NUMBERS:
        return _NUMBERS[type(x)]
    return Aval(x.shape, x.dtype) if is_a(x, (np.ndarray, np.generic)) and dtype_kind(x.dtype) in "biufc" else None


def _read_anew(name: str, read: Callable[[], Any], example: Any, rewind: Any = None) -> Any:
    """The program's value for what `read()` gives at each call; MISSING if it is none of numbers."""
    leaves, structure = tree.flatten(example)
    avals = [_aval(x) for x in leaves]
    if None in avals or not avals:
        return MISSING
    call = HostCall(name, lambda: tree.leaves(read()), avals, [f"what {name} gives"] * len(avals), rewind)  # type: ignore[arg-type]
    return structure.unflatten(host_read_p(call=call))


def _drawn(observer: Observer, f: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
    """A draw from the user's own generator, of which one was there before."""
    shared = getattr(sys.modules["random"].random, "__self__", None) is owner
    place = observer.of(owner)
    if place is None and not shared or type(owner).__module__ == "random" and type(owner).__name__ == "SystemRandom":
        return MISSING
    label = f"random.{name}" if place is None else f"{place.label}.{name}"
    if any([type(x) is Tracer for x in tree.leaves((args, kwargs))]) or kwargs.get("out") is not None:
        observer.refuse(f"{label} is given a traced value, or an array to write into")
    before = copy.deepcopy((args, kwargs))
    example = getattr(copy.deepcopy(owner), name)(*before[0], **before[1])  # the user's own does not move
    if place is not None:
        observer.guard(place, *reference(owner))
    observer.content([args, kwargs])
    found = _read_anew(label, lambda: getattr(owner, name)(*args, **kwargs), example, rewinding(owner))
    if found is MISSING:
        observer.refuse(f"{label} moves the generator, and gives no numbers")
    return found

"""What is made at each call of the values of that call: texts of traced values, and the time of now.

Idea: a `Later` stands for what `make` gives of what its operands are when the program runs. It may be printed, logged and
stored, and further texts and times may be made of it. Whoever asks what it is (`now`) asks for its operands, which is a branch,
as it is for who calls `float(x)`; nobody can ask a clock, so that is refused.

Invariant: the hooks alone see a Later; whoever else looks at one is refused, so nobody computes with what is no text. Trap:
operands are those of the time when it was made, though arrays are written afterwards.
"""

from __future__ import annotations

import datetime
import operator
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.value_reads import shown_value
from funcad.host.real_types import is_a
from funcad.host.where import state
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.reads.code_reads import MISSING
from funcad.reads.observer import Observer, outside
from funcad.reads.places import is_scalar

_TIMES = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, time.struct_time)
_READ = frozenset("year month day hour minute second microsecond fold tzinfo days seconds microseconds".split())
_READ |= {name for name in vars(time.struct_time) if name[:3] == "tm_"}
_CALLED = frozenset("isoformat strftime date time timetz ctime weekday isoweekday timestamp astimezone replace".split())
_CALLED |= {"total_seconds", "timetuple", "utctimetuple", "toordinal", "utcoffset", "tzname", "isocalendar"}
_OF_TEXTS = frozenset("ljust rjust center upper lower title capitalize strip lstrip rstrip zfill".split())
_SUMS = frozenset([operator.add, operator.sub, operator.iadd, operator.isub, operator.mul, operator.imul])
_WHOLE = re.compile(r"%[^%a-zA-Z]*[diuxXoc]")  # digits of integers, which floats may have none of


Maker = Callable[[Sequence[Any]], Any]  # of the values of operands


class Later:
    """What `make` gives of the values of its operands at a call.

    `clock`: what reads the time, if it is told by that; `timed`: it is told by nothing else.
    """

    __slots__ = ("observer", "make", "operands", "kind", "clock", "timed")

    def __init__(self, observer: Observer, make: Maker, operands: list[Any], kind: type):
        self.observer, self.make, self.operands, self.kind = observer, make, operands, kind
        self.clock, self.timed = "", False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What the value stands for, so that `isinstance` answers as without jit."""
        return self.kind

    def now(self) -> Any:
        """What it is in this call: its operands are asked for."""
        if self.clock:
            self.observer.refuse(f"{self.clock} reads a clock")
        if state.abstract is not self.observer.trace:
            self.observer.refuse("the text of a traced value is read in the body of a loop")
        return self.make([asked(self.observer, x) for x in self.operands])

    def _unseen(self, *args: Any) -> Any:
        what = f"{self.clock} reads a clock" if self.clock else "the text of a traced value"
        self.observer.refuse(f"{what}, and goes where nobody sees what becomes of it")


_SPECIAL = "getattr str repr format bool hash eq ne lt le gt ge len iter contains getitem int float index reduce_ex add radd"
for _name in f"{_SPECIAL} sub rsub mul rmul mod rmod truediv rtruediv floordiv neg pos abs call".split():
    setattr(Later, f"__{_name}__", Later._unseen)


class LaterMethod:
    """A method of a Later, as what is to be called."""

    __slots__ = ("owner", "name")

    def __init__(self, owner: Later, name: str):
        self.owner, self.name = owner, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name, observer = self.name, self.owner.observer
        if Tracer in map(type, tree.leaves((args, kwargs))):
            observer.refuse(f"{name} of what is made later is given a traced value")
        parts = [self.owner, [*args], kwargs]
        return later(observer, lambda x, given, named: getattr(x, name)(*given, **named), parts)


def asked(observer: Observer, x: Any) -> Any:
    """A traced value, of whose text somebody asks what it is now."""
    if id(x) in observer.tracers:
        raise observer.not_placed(x)
    return shown_value(x)


def now(x: Any) -> Any:
    """x, or what it is in this call."""
    return x.now() if type(x) is Later else x


_SIMPLE = frozenset([int, slice, type(None), type(...), Tracer])  # of which indices are made


def all_now(x: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The same of the items of lists, tuples and dicts."""
    if type(x) is tuple and _SIMPLE.issuperset(map(type, x)):
        return x
    if type(x) in (list, tuple, dict) and Later in map(type, tree.leaves(x)):
        return tree.map(now, x, is_leaf=is_leaf)
    return now(x)


def is_live(observer: Observer, x: Any) -> bool:
    """Is x a traced value or made later, or a list, tuple or dict with one of these?"""
    found = [type(v) for v in tree.leaves(x)] if type(x) in (list, tuple, dict) else [type(x)]
    return (Tracer in found or Later in found) and observer.runs_once("makes a text of a traced value")


def deferred(x: Any) -> tuple[list[Any], Maker]:
    """The traced values that x is made of, and what makes it of what they are at a call."""
    leaves, structure = tree.flatten(x)
    operands: list[Any] = []
    makers: list[tuple[int, Maker]] = []
    for v in map(concrete_value, leaves):  # a text says nothing of derivatives
        if type(v) is Tracer:
            operands.append(snapshot(v))
            makers.append((1, _number if v.aval.weak else _itself))
        elif type(v) is Later:
            operands += v.operands
            makers.append((len(v.operands), v.make))
        else:
            makers.append((0, _fixed(v.copy() if type(v) is np.ndarray else v)))

    def made(values: Sequence[Any]) -> Any:
        found = iter(values)
        return structure.unflatten([make([next(found) for _ in range(n)]) for n, make in makers])

    return operands, made


def _number(values: Sequence[Any]) -> Any:
    return values[0].item() if is_a(values[0], np.generic) else values[0]


def _itself(values: Sequence[Any]) -> Any:
    return values[0]


def _fixed(x: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda values: x


def later(observer: Observer, make: Callable[..., Any], parts: list[Any], clock: str = "") -> Any:
    """`make(*parts)`, of which some are traced or made later; errors that `make` raises for any value are raised now."""
    observer.orders.handed(*parts)
    leaves = tree.leaves(parts)
    for x in leaves:
        if type(x) is not Later and type(x) is not Tracer:
            observer.content(x)
    operands, made = deferred(parts)
    avals = [x.aval for x in operands]
    example = make(*made([np.zeros(a.shape, a.dtype)[()] + a.dtype.type(not a.shape) for a in avals]))
    observer.laters = True
    found = Later(observer, lambda values: make(*made(values)), operands, type(example))
    found.clock = clock or next((x.clock for x in leaves if type(x) is Later and x.clock), "")
    found.timed = bool(clock) or all([x.timed if type(x) is Later else type(x) is not Tracer for x in leaves])
    return found


# -- texts


def text(observer: Observer, make: Callable[..., Any], parts: list[Any]) -> Any:
    """A text that `make` makes of parts: later, where these are seen for what they are then."""
    for x in tree.leaves(parts):
        if not (type(x) in (Tracer, Later) or is_scalar(x) or is_a(x, np.ndarray) and not x.dtype.hasobject):
            return MISSING
    if observer.outside != outside():  # how arrays are printed is another here
        return MISSING
    return later(observer, make, parts)


def joined(observer: Observer, parts: Sequence[Any]) -> Any:
    return later(observer, lambda *texts: "".join(texts), [*parts])


def of_percent(observer: Observer, format_: str, x: Any) -> Any:
    """`format_ % x`"""
    return MISSING if _WHOLE.search(format_) else text(observer, operator.mod, [format_, x])


# -- what is made of a Later


def attribute_of(observer: Observer, x: Later, name: str) -> Any:
    if issubclass(x.kind, _TIMES):
        if name in _READ:
            return later(observer, lambda v: getattr(v, name), [x])
        if name in _CALLED and hasattr(x.kind, name):
            return LaterMethod(x, name)
    elif x.kind is str and name in _OF_TEXTS:
        return LaterMethod(x, name)
    return getattr(x.now(), name)


def combined(observer: Observer, op: Any, a: Any, b: Any) -> Any:
    """An operator of two, of which one is a Later; MISSING where it is asked for."""
    kinds = [x.kind if type(x) is Later else type(x) for x in (a, b)]
    if kinds == [str, str]:
        return later(observer, op, [a, b]) if op in (operator.add, operator.iadd) else MISSING
    clock = any([type(x) is Later and x.clock for x in (a, b)])
    if clock and op in _SUMS and all([issubclass(k, (*_TIMES, int, float)) for k in kinds]):
        return later(observer, op, [a, b])
    if clock and op is operator.truediv and type(b) in (int, float) and b:
        return later(observer, op, [a, b])
    return MISSING


# -- the time of now


def _moment(zone: Any, ns: int) -> datetime.datetime:
    """The time of a clock's nanoseconds, to the microsecond."""
    return datetime.datetime.fromtimestamp(ns // 10**9, zone).replace(microsecond=ns // 1000 % 10**6)


def _local(ns: int) -> time.struct_time:
    return time.localtime(ns // 10**9)


_OF_CLOCKS: dict[Any, tuple[int, Callable[..., Any]]] = {  # function -> how many arguments it has, what it gives of a clock
    datetime.datetime.now: (1, _moment),
    datetime.datetime.today: (0, lambda ns: _moment(None, ns)),
    datetime.datetime.utcnow: (0, lambda ns: _moment(datetime.UTC, ns).replace(tzinfo=None)),
    datetime.date.today: (0, lambda ns: _moment(None, ns).date()),
    time.localtime: (0, _local),
    time.gmtime: (0, lambda ns: time.gmtime(ns // 10**9)),
    time.ctime: (0, lambda ns: time.ctime(ns // 10**9)),
    time.asctime: (0, lambda ns: time.asctime(_local(ns))),
    time.strftime: (1, lambda form, ns: time.strftime(form, _local(ns))),
}
_ALSO_OF = (time.asctime, time.strftime)  # which take a time that was read before, too


def tells_time(f: Any) -> bool:
    """Does it give the time of now, when it is called with no other?"""
    try:
        return f in _OF_CLOCKS
    except TypeError:  # what cannot be hashed
        return False


def of_clock(observer: Observer, f: Any, args: tuple, kwargs: dict, read: Callable[[], Any]) -> Any:
    """What such a function gives at each call, of a clock that `read` reads."""
    name = f"{getattr(f, '__module__', None) or f.__self__.__name__}.{f.__name__}"
    most, make = _OF_CLOCKS[f]
    args = () if not most and args == (None,) else args
    if f == datetime.datetime.now:  # a method of a class in C, made anew at each access
        args = (*args, *([kwargs["tz"]] if kwargs.keys() == {"tz"} else [None] if not args else []))
        kwargs = {}
    if f in _ALSO_OF and any([type(x) is Later for x in args]):
        return later(observer, f, [*args])
    if kwargs or len(args) != most or any([type(x) is Tracer for x in args]):
        return observer.refuse(f"{name} reads a clock") if not args else MISSING
    for x in args:
        if not is_scalar(x) and not is_a(x, datetime.tzinfo):
            observer.refuse(f"{name} is given a {type(x).__name__}")
    return later(observer, make, [*args, read()], name)

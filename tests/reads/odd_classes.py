# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-overload"
"""Classes that are read as objects, enums and those of a metaclass: (the function, what changes between the calls)."""

from __future__ import annotations

import abc
import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

CASES: dict[str, Callable[[], Any]] = {}


def made() -> types.SimpleNamespace:
    """An enum `E` whose members have a number, and classes with a metaclass: `Own`, whose `__getattr__` knows one name more."""

    class E(enum.Enum):
        A = "a"
        B = "b"

        def __init__(self, word):
            self.gain, self.parts = 1.0, [1.0]

        def __lt__(self, other):
            return self.gain < other.gain

        def __str__(self):
            return str(self.gain)

    class Whole(enum.IntEnum):
        A = 1
        B = 2

        def __init__(self, n):
            self.gain = 1.0

    class F(enum.Flag):
        A = 1
        B = 2

    class Meta(type):
        unit, items, text = 1.0, [1.0, 2.0], "a"

        def __iter__(cls):
            return iter(cls.items)

        def __reversed__(cls):
            return reversed(cls.items)

        def __len__(cls):
            return len(cls.items)

        def __getitem__(cls, i):
            return cls.items[i]

        def __contains__(cls, x):
            return x in cls.items

        def __float__(cls):
            return cls.unit

        def __int__(cls):
            return int(cls.unit)

        def __index__(cls):
            return int(cls.unit) % 2

        def __str__(cls):
            return cls.text

        def __format__(cls, spec):
            return cls.text

        def __add__(cls, other):
            return cls.unit

        @property
        def twice(cls):
            return 2.0 * cls.unit

        def method(cls):
            return cls.unit

        def __getattr__(cls, name):
            return {"further": cls.unit}[name]  # a KeyError, if it is another one

        def __call__(cls):
            new = super().__call__()
            new.unit = cls.unit
            return new

    class Own(metaclass=Meta):
        k = 1.0

        def run(self, f):
            return f(type(self))

    class Sub(Own):
        pass

    class Counted(abc.ABCMeta):
        unit = 1.0

    class Both(metaclass=Counted):
        pass

    return types.SimpleNamespace(E=E, Whole=Whole, F=F, Meta=Meta, Own=Own, Sub=Sub, Both=Both, Counted=Counted, own=Own())


def gain(s, i):
    s.E.B.gain = s.Whole.B.gain = s.F.B.gain = 2.0 + i


def parts(s, i):
    s.E.B.parts[0] = 2.0 + i
    s.E.B.gain = -1.0 * i


def unit(s, i):
    s.Meta.unit = s.Counted.unit = 2.0 + i


def items(s, i):
    s.Meta.items.append(3.0 + i)
    s.Meta.text = "b" * (2 + i)


def replaced(s, i):
    s.Own.unit = 3.0 + i  # the property is asked before


def case(name: str, change: Callable[[Any, int], Any]) -> Callable[[Any], None]:
    def noted(f: Callable[[Any, Any], Any]) -> None:
        def make() -> Any:
            s = made()
            s.F.B.gain = s.F.A.gain = 1.0
            return functools.partial(f, s), functools.partial(change, s)

        CASES[name] = make

    return noted


case("members", gain)(lambda s, x: x * sum(m.gain for m in s.E))
case("members, of a list", gain)(lambda s, x: x * list(s.E)[1].gain)
case("members, opened", gain)(lambda s, x: x * [*s.E][1].gain)
case("members, of a dict", gain)(lambda s, x: x * s.E.__members__["B"].gain)
case("members, reversed", gain)(lambda s, x: x * sum(m.gain for m in reversed(s.E)))
case("members, compared", gain)(lambda s, x: x + (max(s.E) is s.E.B))
case("members, sorted", parts)(lambda s, x: x * sorted(s.E)[0].gain)
case("members, by value", gain)(lambda s, x: x * s.E("b").gain)
case("members, by name", gain)(lambda s, x: x * s.E["B"].gain)
case("members, counted", gain)(lambda s, x: x * sum(m.gain * i for i, m in enumerate(s.E)))
case("members, texts of them", gain)(lambda s, x: x * len(",".join(map(str, s.E))) + float(f"{[*s.E][1]}"))
case("members, lists in them", parts)(lambda s, x: x * sum(m.parts[0] for m in s.E))
case("members, whole numbers", gain)(lambda s, x: x * sum(m.gain * m for m in s.Whole))
case("members, flags", gain)(lambda s, x: x * sum(m.gain for m in s.F.A | s.F.B))
case("members, through one", gain)(lambda s, x: x * sum(m.gain for m in type(s.E.A)))


@case("members, in a loop", gain)
def in_a_loop(s, x):
    for m in s.E:
        x = x * m.gain
    return x


case("iterated", items)(lambda s, x: x * sum([2.0 * v for v in s.Own]))
case("summed", items)(lambda s, x: x * sum(s.Own))
case("listed", items)(lambda s, x: x * list(s.Sub)[-1])
case("opened", items)(lambda s, x: x * [*s.Own][-1])
case("reversed", items)(lambda s, x: x * next(reversed(s.Own)))
case("measured", items)(lambda s, x: x * len(s.Own))
case("an item of it", items)(lambda s, x: x * s.Own[-1])
case("in it", items)(lambda s, x: x * (4.0 in s.Own) + (5.0 in s.Sub))
case("a float of it", unit)(lambda s, x: x * float(s.Own))
case("an int of it", unit)(lambda s, x: x * int(s.Own))
case("an index", unit)(lambda s, x: x * [1.0, 5.0][s.Own])
case("a text of it", items)(lambda s, x: x * len(str(s.Own)))
case("a text with it", items)(lambda s, x: x * len(f"{s.Own}"))
case("formatted", items)(lambda s, x: x * len("{}".format(s.Own)))  # noqa: UP032
case("in percent", items)(lambda s, x: x * len("%s" % s.Own))  # noqa: UP031
case("an operand", unit)(lambda s, x: x * (s.Own + 1.0))
case("an array of it", items)(lambda s, x: x * np.sum(np.fromiter(s.Own, float)))
case("of the type, iterated", items)(lambda s, x: s.own.run(lambda c: x * sum([2.0 * v for v in c])))
case("of the type, listed", items)(lambda s, x: s.own.run(lambda c: x * list(c)[-1]))
case("of the type, a float", unit)(lambda s, x: s.own.run(lambda c: x * float(c)))
case("of the type, an attribute", unit)(lambda s, x: s.own.run(lambda c: x * c.unit))
case("of the type, a property", unit)(lambda s, x: s.own.run(lambda c: x * c.twice))
case("of the type, a method", unit)(lambda s, x: s.own.run(lambda c: x * c.method()))
case("of the type, what it is asked", unit)(lambda s, x: s.own.run(lambda c: x * c.further))
case("of the class, an attribute", unit)(lambda s, x: x * s.own.__class__.unit)
case("an attribute", unit)(lambda s, x: x * s.Sub.unit)
case("a property", unit)(lambda s, x: x * s.Sub.twice)
case("a method", unit)(lambda s, x: x * s.Own.method())
case("what it is asked", unit)(lambda s, x: x * s.Own.further)
case("an attribute by name", unit)(lambda s, x: x * getattr(type(s.own), "unit", 7.0))
case("a library's metaclass", unit)(lambda s, x: x * type(s.Both()).unit)
case("what it makes", unit)(lambda s, x: x * s.Own().unit)
case("own before the metaclass's", replaced)(lambda s, x: s.own.run(lambda c: x * c.unit))

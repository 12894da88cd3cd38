"""One equality for all tables: two values are the same if no code can tell them apart but by `is`."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import math
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from funcad.tree.same import same, same_key, value_of


@dataclasses.dataclass(frozen=True)
class Frozen:
    v: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    v: Any


@dataclasses.dataclass
class Open:
    v: Any


class ByValue:
    def __init__(self, v: Any):
        self.v = v

    def __eq__(self, other: Any) -> bool:
        return self.v == other.v

    def __hash__(self) -> int:
        return hash(self.v)


class InSlots:
    __slots__ = ("v", "__dict__")
    __init__, __eq__, __hash__ = ByValue.__init__, ByValue.__eq__, ByValue.__hash__


class Pair(NamedTuple):
    v: Any


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1


class Colour(enum.Enum):
    RED = 0
    BLUE = 1


class Text(str):
    pass


class Real(float):
    pass


class Group(frozenset):
    pass


class Hashable(dict):
    def __hash__(self) -> int:  # type: ignore[override]
        return len(self)


VALUES: list[Any] = [
    0, False, 1, True, 1.0, 0.0, -0.0, None, float("nan"), -float("nan"), "0", "", b"", 0j, complex(0, -0.0), complex(-0.0, 0),
    np.float64(0), np.float64(-0.0), np.float32(0), np.int64(0), np.int64(1), np.int32(0), np.bool_(False), np.bool_(True),
    np.longdouble(0), np.longdouble(-0.0), np.datetime64(0, "s"), np.datetime64(0, "ms"), np.str_("0"), np.bytes_(b""),
    Level.LOW, Level.HIGH, Colour.RED, Colour.BLUE, Text("0"), Real(0.0), Real(-0.0), fractions.Fraction(0),
    decimal.Decimal("0"), decimal.Decimal("-0"), decimal.Decimal("0.0"), ..., NotImplemented, int, float, len, np.sin,
    np.dtype("f8"), np.dtype(">f8"), np.dtype("f4"), range(0), range(1, 1), range(0, 3, 2), range(0, 4, 2),
]  # fmt: skip
WRAPPINGS: dict[str, Any] = {
    "itself": lambda v: v,
    "tuple": lambda v: (v,),
    "nested tuples": lambda v: (((v,),), "a"),
    "frozen dataclass": Frozen,
    "dataclass with slots": Slotted,
    "tuple in a dataclass": lambda v: Frozen((v,)),
    "an __eq__ of its own": ByValue,
    "slots and an __eq__ of its own": InSlots,
    "dataclass in an __eq__": lambda v: ByValue(Frozen(v)),
    "named tuple": Pair,
    "frozenset": lambda v: frozenset([v]),
    "frozenset of tuples": lambda v: frozenset([(v,)]),
    "subclass of frozenset": lambda v: Group([v]),
    "value of a hashable dict": lambda v: Hashable({"a": v}),
    "key of a hashable dict": lambda v: Hashable({v: "a"}),
    "partial": lambda v: functools.partial(max, v),
}
NEVER = {"an __eq__ of its own", "slots and an __eq__ of its own", "value of a hashable dict"}  # where nan is not nan
if Frozen(math.nan) != Frozen(math.nan):  # from Python 3.13 on, dataclasses do not ask first whether fields are identical
    NEVER.add("dataclass in an __eq__")


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_no_two_values_have_one_key(wrapping: str):
    wrap = WRAPPINGS[wrapping]
    keys = [same_key(wrap(v)) for v in VALUES]
    assert len(set(keys)) == len(VALUES)
    for v in VALUES:
        if not (v != v and wrapping in NEVER) and wrapping != "partial":  # partials are told by identity
            first, second = wrap(v), wrap(v)
            assert same(first, second) and hash(same_key(first)) == hash(same_key(second))
    for a, b in itertools.combinations(VALUES, 2):
        assert not same(wrap(a), wrap(b))


def test_no_two_wrappings_have_one_key():
    keys = [same_key(wrap(v)) for wrap in WRAPPINGS.values() for v in (0, 1.0, "b", None)]
    assert len(set(keys)) == len(keys)


def test_what_can_be_changed_is_compared_by_what_is_in_it():
    makes: list[Any] = [
        lambda: [1, {"a": (2.0, [None])}], lambda: {1: [2], "b": {3}}, lambda: {1, 2.0}, lambda: collections.deque([1], 3),
        lambda: collections.OrderedDict(a=1), lambda: collections.defaultdict(list, a=1), lambda: Open([1]),
    ]  # fmt: skip
    for make in makes:
        assert same(make(), make()) and make() is not make()
        with pytest.raises(TypeError, match="unhashable type"):
            same_key(make())
        with pytest.raises(TypeError, match="unhashable type"):
            same_key((make(),))
        key = same_key(make(), True)
        assert key == same_key(make(), True) and hash(key) == hash(same_key(make(), True))
    others = [[0], [False], [0.0], (0,), {0}, {False}, collections.deque([0]), {0: 0}, {False: 0}, {0: False}]
    others += [Open(0), Open(False), collections.OrderedDict({0: 0})]
    others += [collections.defaultdict(int, {0: 0}), collections.defaultdict(list, {0: 0})]
    assert [same(a, b) for a, b in itertools.combinations(others, 2)] == [False] * (len(others) * (len(others) - 1) // 2)
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        same_key(Frozen([1]))


def test_the_order_of_keys_counts():
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1}) and same({"a": 1, "b": 2}, {"a": 1, "b": 2})
    assert same({1, 2, 3}, {3, 2, 1})


def test_a_key_is_of_what_was_there():
    items = [1]
    key = same_key(items, True)
    items.append(2)
    assert key == same_key([1], True) != same_key(items, True)


def test_arrays_and_objects_are_told_by_identity():
    class Plain:
        pass

    for make in (lambda: np.zeros(2), Plain, lambda: lambda y: y, lambda: memoryview(b"a")):
        x = make()
        assert same(x, x) and not same(x, make()) and same([x], [x])


def test_an_equality_of_the_users_is_believed_where_the_types_agree():
    class Mod3:
        def __init__(self, n: int, note: Any = None):
            self.n, self.note = n, note

        def __eq__(self, other: Any) -> bool:
            return self.n % 3 == other.n % 3

        def __hash__(self) -> int:
            return self.n % 3

    assert same(Mod3(1), Mod3(4)) and not same(Mod3(1), Mod3(2)) and not same(Mod3(1), Mod3(np.int64(4)))
    assert same(Mod3(1, "a"), Mod3(1, "b")) and not same(Mod3(1, "a"), Mod3(1, 2))
    assert not same(Mod3(1, [0.0]), Mod3(1, [-0.0])) and not same(Mod3(1, {1: 0}), Mod3(1, {True: 0}))
    assert not same(Mod3(1, np.zeros(2)), Mod3(1, np.zeros(2, int)))
    one, other = Mod3(1), Mod3(1)
    one.note, other.note = one, other  # which refer to themselves
    assert same(one, other)


def test_what_is_computed_from_the_others_does_not_count():
    class Lazy(ByValue):
        @functools.cached_property
        def square(self) -> Any:
            return self.v**2

    first, second = Lazy(3), Lazy(3)
    assert first.square == 9 and same(first, second)


def test_fields_that_are_not_compared_do_not_count():
    @dataclasses.dataclass(frozen=True)
    class Named:
        v: int
        table: dict = dataclasses.field(default_factory=dict, compare=False)

    assert same(Named(1), Named(1, {"a": 1})) and not same(Named(1), Named(True))


def test_pythons_own_classes():
    utc, zone = datetime.UTC, datetime.timezone(datetime.timedelta(hours=1))
    assert not same(datetime.datetime(2000, 1, 1, 0, tzinfo=utc), datetime.datetime(2000, 1, 1, 1, tzinfo=zone))
    assert not same(datetime.datetime(2000, 1, 1), datetime.datetime(2000, 1, 1, fold=1))
    assert same(datetime.date(2000, 1, 1), datetime.date(2000, 1, 1)) and same(re.compile("a"), re.compile("a"))
    assert same(slice(1, None), slice(1, None)) and not same(slice(1), slice(True)) and not same(slice(0.0), slice(-0.0))


def test_the_value_of_a_key_is_shown():
    for v in (1, True, 2.5, -0.0, None, "a", (1, ("b", np.float32(2))), frozenset([1]), slice(1, 2), 1 - 2j, np.sin, Level.LOW):
        assert repr(value_of(same_key(v))) == repr(v)
    assert np.isnan(value_of(same_key(float("nan")))) and value_of(same_key(Frozen((1, 2)))) == ((1, 2),)


def test_what_is_known_is_asked_first():
    known = lambda x: x.v if type(x) is Frozen else None
    assert same_key((Frozen([1]),), known=lambda x: 7 if type(x) is Frozen else None) == same_key(
        (Frozen({}),), known=lambda x: 7 if type(x) is Frozen else None
    )
    assert same_key(Frozen(1), known=known) != same_key(Frozen(2), known=known)

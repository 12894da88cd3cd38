"""Which values are the same: the one equality of all tables, and the key that is made from it.

Idea: `==` says that 0, False and 0.0 are equal, and 0.0 and -0.0, and that nan is not nan, and code tells them all apart: a
table that goes by `==` gives one value's program to another. Here two values are the same if no code can tell them apart but
by `is`. Numbers have one type and one bit pattern; containers have one type and the same parts in the same order; sets and
dataclasses have the same parts; everything else is the same object. `same_key(x)` is hashable, and equal for two values exactly
where they are the same. Whoever keeps a table by values uses `same_key`, and whoever compares two values uses `same`.

Invariant: a user's `__eq__` is believed where it says that two objects differ. Where it says that they are equal, their
attributes have to be of the same types besides, all the way down, with zeros of the same sign: `==` of the attributes, on
which it rests, says nothing of these. What a class's `__eq__` leaves out is not compared. Libraries' `==` is believed.

Traps: a key holds what it was made of, where that is told by identity, unless `weakly` is asked. What can be changed has no
key, as it has no hash, but with `contents=True`, which takes what is in it now. An array is told by identity: its contents are
nobody's key.
"""

from __future__ import annotations

import functools
import math
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import datetime, time
from enum import Enum
from operator import is_
from struct import Struct
from typing import Any

import numpy as np

_BITS = Struct("d").pack
_PLAIN = frozenset([int, bool, bytes, type(Ellipsis), type(NotImplemented)])  # `==` is enough for two of one type
are_strings = frozenset([str]).issuperset
_IN_PYTHON = 1 << 9  # the flag of classes that a `class` statement made
_PADDED = (np.longdouble, np.clongdouble)  # whose bytes are not all their value's
_BASES: tuple[type, ...] = (tuple, frozenset, str, int, float, complex, bytes, OrderedDict, dict, list, set, deque)
_LIBRARIES = sys.stdlib_module_names | {"numpy", "scipy", "cupy", "pandas", "funcad"}


def same(a: Any, b: Any) -> bool:
    """Can no code tell the two apart but by `is`?

    >>> from funcad.tree.same import same
    >>> same(0, False), same(0.0, -0.0), same((1, float("nan")), (1, float("nan"))), same({1: []}, {1: []})
    (False, False, True, True)
    """
    if a is b:
        return True
    kind = type(a)
    if type(b) is not kind:
        return False
    if kind is str or kind in _PLAIN:
        return bool(a == b)
    if kind is tuple and len(a) == len(b):
        if all(map(is_, a, b)):
            return True
        if are_strings(map(type, a)):
            return bool(a == b) and are_strings(map(type, b))
    return bool(same_key(a, True) == same_key(b, True))


def same_key(x: Any, contents: bool = False, known: Callable[[Any], Any] | None = None) -> Any:
    """A hashable key that two values share exactly if they are the same.

    TypeError for what can be changed, unless `contents` says that what is in it now is meant. `known(x)` is asked first of
    each part that is no plain number, text or tuple, and gives its key, or None.

    >>> from funcad.tree.same import same_key
    >>> len({same_key(x) for x in (0, False, 0.0, -0.0, None, (0,), (False,), frozenset([0]), frozenset([False]))})
    9
    """
    kind = type(x)
    if kind in _PLAIN:
        return kind, x
    if kind is str or x is None:
        return x
    if kind is float:
        return (kind, x) if x == x != 0.0 else (kind, x, math.copysign(1.0, x)) if x == x else (kind, _BITS(x))
    if kind is tuple:
        return (kind, *x) if are_strings(map(type, x)) else (kind, *[same_key(part, contents, known) for part in x])
    if known is not None and (found := known(x)) is not None:
        return kind, found
    if issubclass(kind, np.generic):
        return _of_scalar(x)
    if kind.__eq__ is object.__eq__ or issubclass(kind, Enum):
        return kind, Itself(x)
    if (make := _OF.get(kind)) is not None:
        return kind, *make(x, contents, known)
    for base in _BASES:
        if issubclass(kind, base) and kind.__eq__ is base.__eq__ and kind.__hash__ is base.__hash__:
            own, parts = _own(x, contents, known), _OF[base](x, contents, known)
            return (kind, *parts) if own is None else (kind, own, *parts)
    return _of_object(x, contents, known)


class Itself:
    """A key of one object: equal to those of the same object only."""

    __slots__ = ("x",)

    def __init__(self, x: Any):
        self.x = x

    def __eq__(self, other: object) -> bool:
        return type(other) is Itself and self.x is other.x

    def __hash__(self) -> int:
        return id(self.x)

    def __repr__(self) -> str:
        return repr(self.x)


class Weakly:
    """The same, which holds it weakly: when the object is gone, it is equal to no key."""

    __slots__ = ("ref", "_hash")

    def __init__(self, x: Any):
        self.ref = weakref.ref(x)
        self._hash = id(x)

    def __eq__(self, other: object) -> bool:
        return type(other) is Weakly and self.ref() is other.ref() is not None

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(self.ref())


def weakly(x: Any) -> Any:
    """The weak key of what is told by identity, of a method two, for its object and its function; None of other things."""
    kind = type(x)
    if kind is types.MethodType:
        parts = weakly(x.__self__), weakly(x.__func__)
        return None if None in parts else parts
    if kind.__eq__ is not object.__eq__ or not kind.__weakrefoffset__ or issubclass(kind, Enum):
        return None
    return Weakly(x)


def again(x: Any) -> Callable[[], Any]:
    """What gives x again, or None when it is gone; what is told by its parts is held."""
    kind = type(x)
    try:
        if kind is types.MethodType:
            return weakref.WeakMethod(x)
        return weakref.ref(x) if weakly(x) is not None else lambda: x
    except TypeError:
        return lambda: x


def value_of(key: Any) -> Any:
    """For people: the value that a key stands for; of dataclasses and containers that can be changed, their parts."""
    if type(key) is not tuple:
        return key
    kind, *parts = key
    if kind in (set, frozenset):
        return kind(map(value_of, parts[0]))
    if issubclass(kind, np.generic) and type(parts[-1]) is bytes:
        return np.frombuffer(parts[-1], parts[0])[0]
    if kind in (float, complex) and type(parts[0]) is bytes:
        return kind(*np.frombuffer(parts[0]).tolist())
    if kind in (slice, range):
        return kind(*map(value_of, parts))
    if issubclass(kind, (tuple, list)) or _is_generated(kind.__eq__):
        return tuple(map(value_of, parts))
    value = parts[0] if kind is float else parts[-1]
    return value.x if type(value) is Itself else value.ref() if type(value) is Weakly else value


# ---------------------------------------------------------------- numbers and containers


def _of_scalar(x: np.generic) -> tuple[Any, ...]:
    kind = type(x)
    if issubclass(kind, _PADDED):
        return kind, repr(x), str(x.dtype)
    return (kind, Itself(x)) if x.dtype.hasobject else (kind, x.dtype.str, x.tobytes())


def _items(x: dict[Any, Any], contents: bool, known: Any) -> tuple[Any, ...]:
    items = [(same_key(k, contents, known), same_key(v, contents, known)) for k, v in dict.items(x)]
    return (same_key(x.default_factory, contents, known), *items) if isinstance(x, defaultdict) else tuple(items)


def _changeable(make: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    def of(x: Any, contents: bool, known: Any) -> tuple[Any, ...]:
        if not contents:
            raise TypeError(f"unhashable type: {type(x).__name__!r}")
        return make(x, contents, known)

    return of


def _parts(x: Any, contents: bool, known: Any) -> tuple[Any, ...]:
    return tuple([same_key(part, contents, known) for part in x])


def _elements(x: Any, contents: bool, known: Any) -> tuple[Any, ...]:
    return (frozenset(_parts(x, contents, known)),)


# the keys of what is in an instance of these classes, or of a class that has taken over their `==`
_OF: dict[type, Callable[..., tuple[Any, ...]]] = {
    tuple: _parts,
    frozenset: _elements,
    str: lambda x, *_: (str.__str__(x),),
    int: lambda x, *_: (int.__index__(x),),
    float: lambda x, *_: same_key(float(x))[1:],
    complex: lambda x, *_: (_BITS(x.real) + _BITS(x.imag),),
    bytes: lambda x, *_: (bytes(x),),
    OrderedDict: _changeable(_items),
    dict: _changeable(_items),
    list: _changeable(_parts),
    set: _changeable(_elements),
    deque: _changeable(lambda x, contents, known: (x.maxlen, *_parts(x, contents, known))),
}


def _own(x: Any, contents: bool, known: Any) -> Any:
    """The key of what an instance of a subclass holds besides; None if nothing."""
    held = held_by(x, () if issubclass(type(x), (tuple, int, bytes)) else slots_of(type(x)))
    return _items(held, contents, known) if held else None


# ---------------------------------------------------------------- objects


def slots_of(cls: type) -> list[str]:
    """The names of the slots, as they are mangled."""
    members = [pair for base in cls.__mro__ for pair in vars(base).items() if type(pair[1]) is types.MemberDescriptorType]
    return [name for name, _ in members if name != "__dict__"]


def held_by(x: Any, slots: Any) -> dict[str, Any]:
    """The attributes that an instance holds."""
    held = dict(getattr(x, "__dict__", ()))
    for name in slots:
        try:
            held[name] = object.__getattribute__(x, name)
        except AttributeError:  # a slot that is empty
            continue
    return held


def _of_object(x: Any, contents: bool, known: Any) -> tuple[Any, ...]:
    """Of what has an `==` of its own."""
    kind = type(x)
    if kind is slice or kind is range:
        return kind, same_key(x.start), same_key(x.stop), same_key(x.step)
    if kind is types.SimpleNamespace and contents:
        return kind, *_items(vars(x), contents, known)
    if kind.__hash__ is None and not contents:
        raise TypeError(f"unhashable type: {kind.__name__!r}")
    if _is_generated(kind.__eq__):
        inside = contents or not _is_generated(kind.__hash__)  # a hash of the user's own allows for parts that have none
        fields: Any = kind.__dataclass_fields__
        names = [name for name, field in fields.items() if field.compare and field._field_type.name == "_FIELD"]
        return kind, *[same_key(getattr(x, name), inside, known) for name in names]
    if kind.__hash__ is None or kind in (memoryview, weakref.ref):
        return kind, Itself(x)
    return kind, _beside(x) if _is_library(kind) else _kinds(x, {}), x


def _is_generated(method: Any) -> bool:
    """Did `dataclasses` write it?"""
    code = getattr(method, "__code__", None)
    return code is not None and code.co_qualname.startswith("__create_fn__.")


def _is_library(kind: type) -> bool:
    return not kind.__flags__ & _IN_PYTHON or kind.__module__.partition(".")[0] in _LIBRARIES


def _beside(x: Any) -> Any:
    """What `==` of Python's own classes does not tell."""
    decimal: Any = sys.modules.get("decimal")
    if decimal is not None and isinstance(x, decimal.Decimal):
        return x.as_tuple()
    if type(x) is range:
        return same_key(x)
    return (x.fold, same_key(x.tzinfo)) if isinstance(x, (datetime, time)) else None


def _kinds(x: Any, around: dict[int, int]) -> Any:
    """The types in x, all the way down, and the signs of zeros: what `==` of two objects does not tell."""
    kind = type(x)
    if id(x) in around:
        return around[id(x)]
    if issubclass(kind, (float, complex, np.number)):
        return same_key(x) if x == 0 else kind
    if issubclass(kind, np.generic):
        return kind, x.dtype
    if kind is set or kind is frozenset:
        return _elements(x, True, None)
    if issubclass(kind, np.ndarray):
        return kind, x.dtype.str, x.shape
    around = {**around, id(x): len(around)}
    if issubclass(kind, (tuple, list, deque)):
        return kind, *[_kinds(part, around) for part in x]
    if issubclass(kind, dict):
        return kind, *[(same_key(k, True), _kinds(v, around)) for k, v in dict.items(x)]
    if kind.__eq__ is object.__eq__ or _is_library(kind):
        return kind, _beside(x)
    held = held_by(x, slots_of(kind) if hasattr(kind, "__slots__") else ())
    names = [name for name in sorted(held) if type(getattr(kind, name, None)) is not functools.cached_property]
    return kind, *[(name, _kinds(held[name], around)) for name in names]

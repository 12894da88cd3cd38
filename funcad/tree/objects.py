"""Objects that nobody registered, as containers: dataclasses, attrs objects, SimpleNamespaces, subclasses of np.ndarray.

Idea: such an object is its attributes. Those that its instance holds are the children, declared fields first; it is built
again by `object.__new__` and setting them, so that no `__init__` or `__post_init__` runs twice, frozen or slotted. What can
hold no array (a string, a function, a bool, an Enum) is *static* there: it has no leaf and is part of the structure, compared
by type and value, also inside a list or a dict of options. Python's other numbers are leaves, as in JAX's pytrees, unless the
field's metadata says `static`. Explicit registration wins. Invariant: structures of equal objects are equal; classes share
one kind, whose meta has the class, so that no table keeps a class alive. Traps: `cached_property` keeps values in the
instance, which are not taken along, because they belong to the old arrays; a class with a layout in C (a dict, an exception)
cannot be built by `object.__new__`, and is a leaf; an instance that is callable or hashable may hide arrays, and is static
only if it holds none.
"""

from __future__ import annotations

import functools
import types
from enum import Enum

import numpy as np

from funcad.memo import Table, table, weak_table
from funcad.tree.containers import DATA_TYPES, IN_PYTHON, MOST_REMEMBERED, is_array_like
from funcad.tree.same import Itself, held_by, same_key, slots_of

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from typing import Any

# ---------------------------------------------------------------- static values


class Static:
    """A value that is part of a structure: equal to another of the same type and value; numbers by their bits."""

    __slots__ = ("value", "key")

    def __init__(self, value: Any):
        self.value = set(value) if type(value) is set else value
        self.key = same_key(self.value, True)

    def __eq__(self, other: object) -> bool:
        return type(other) is Static and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key if type(self.value) is set else same_key(self.value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Static, (self.value,)

    def __repr__(self) -> str:
        return repr(self.value)


def static_again(meta: Static) -> Any:
    return set(meta.value) if type(meta.value) is set else meta.value


_ALWAYS = (str, bytes, bool, Enum, type, set, frozenset, range, slice, functools.partial) + (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.EllipsisType,
    types.NotImplementedType,
)
_DEPTH = 3  # how deep arrays are looked for
_UNKNOWN = object()
_verdicts = table(
    "tree.verdicts",
    "class: is it static in a field? None: it depends on the instance",
    MOST_REMEMBERED,
)


def is_static(x: Any) -> bool:
    """Is x, which is no container, static in an object's field?"""
    cls = type(x)
    if cls in DATA_TYPES and cls is not bool:
        return False
    verdict = _verdicts.get(cls, _UNKNOWN)
    if verdict is _UNKNOWN:
        verdict = _verdicts.put(cls, _verdict(cls))
        if verdict is False and len(DATA_TYPES) < MOST_REMEMBERED:
            DATA_TYPES.add(cls)
    return not _hides_arrays(x, _DEPTH) if verdict is None else verdict


def _verdict(cls: type) -> bool | None:
    if issubclass(cls, _ALWAYS):
        return True
    if issubclass(cls, (int, float, complex)) or is_array_like(cls):
        return False
    by_value = cls.__hash__ is not None and cls.__hash__ is not object.__hash__
    if not by_value and not any(["__call__" in vars(base) for base in cls.__mro__]):
        return False
    own = not cls.__flags__ & IN_PYTHON or cls.__module__.partition(".")[0] == "funcad"
    return True if own else None


def _hides_arrays(x: Any, depth: int) -> bool:
    if type(x) in (list, tuple, dict):
        return any([_hides_arrays(item, depth) for item in (x.values() if type(x) is dict else x)])
    if is_array_like(type(x)) or hasattr(x, "shape") and hasattr(x, "dtype"):
        return True
    if issubclass(type(x), _ALWAYS) or depth == 0 or not type(x).__flags__ & IN_PYTHON:
        return False
    return any([_hides_arrays(value, depth - 1) for value in held_by(x, slots_of(type(x))).values()])


_HASH = "_attrs_cached_hash"  # where attrs keeps the hash of an object, None before it was asked for

# ---------------------------------------------------------------- objects


class _Fields:
    """What is known of a class: its declared fields, those marked static, those not to be taken along, its slots."""

    __slots__ = ("declared", "marked", "derived", "slots", "orders")

    def __init__(self, cls: type):
        declared = _declared(cls)
        self.declared = tuple(declared)
        self.marked = frozenset([name for name, metadata in declared.items() if metadata.get("static", False)])
        known = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        self.derived = frozenset([name for name, value in known.items() if isinstance(value, functools.cached_property)])
        slots = slots_of(cls)
        by_attrs = hasattr(cls, "__attrs_attrs__")
        self.slots = tuple([name for name in slots if name in declared or name == _HASH] if by_attrs else slots)
        self.orders = Table(
            "tree.orders",
            "names of attributes: in which order they are parts",
            MOST_REMEMBERED,
        )

    def order(self, held: dict[str, Any]) -> tuple[str, ...]:
        """The names of what an instance holds: the fields as they were declared, then the others, sorted."""
        names = tuple(held)
        order = self.orders.get(names)
        if order is None:
            fields = [name for name in self.declared if name in held]
            others = sorted([name for name in held if name not in self.declared and name not in self.derived])
            order = self.orders.put(names, (*fields, *others))
        return order


def _same_fields(a: _Fields, b: _Fields) -> bool:
    names = "declared", "marked", "derived", "slots"
    return all([getattr(a, name) == getattr(b, name) for name in names])


_known = weak_table("tree.fields", "class: its fields", _same_fields)


def _declared(cls: type) -> dict[str, Any]:
    """The fields and their metadata."""
    attributes = getattr(cls, "__attrs_attrs__", None)
    if attributes is not None:
        return {a.name: a.metadata for a in attributes}
    if not hasattr(cls, "__dataclass_fields__"):
        return {}
    import dataclasses  # it loads inspect, and whoever has a dataclass has it loaded already

    return {field.name: field.metadata for field in dataclasses.fields(cls)}


def _fields(cls: type) -> _Fields:
    fields = _known.get(cls)
    if fields is None:
        fields = _known.setdefault(cls, _Fields(cls))
    return fields


def marked_fields(cls: type) -> frozenset[str]:
    """The names of the fields whose metadata says that they are static."""
    return _fields(cls).marked


def open_object(x: Any) -> tuple[list[Any], tuple[type, tuple[str, ...]]]:
    cls = type(x)
    fields = _fields(cls)
    held = held_by(x, fields.slots) if fields.slots else getattr(x, "__dict__", {})
    if _HASH in held:
        held = {**held, _HASH: None}
    names = fields.order(held)
    return [held[name] for name in names], (cls, names)


def object_again(meta: tuple[type, tuple[str, ...]], children: tuple[Any, ...]) -> Any:
    cls, names = meta
    x = types.SimpleNamespace.__new__(cls) if issubclass(cls, types.SimpleNamespace) else object.__new__(cls)
    slots = _fields(cls).slots
    if names and not slots:
        x.__dict__.update(zip(names, children))
        return x
    for name, value in zip(names, children):
        if name in slots:
            object.__setattr__(x, name, value)
        else:
            x.__dict__[name] = value
    return x


# ---------------------------------------------------------------- objects of subclasses of np.ndarray
#
# Idea: an object of a user's subclass is a container of one plain array, its memory; the class and the attributes belong to the
# structure. So every transform gives its function an object of the class, with a traced array behind it (numpy/subclasses.py),
# and gives back what NumPy would. Attributes are compared by value; arrays and objects in them by identity and by what they
# hold. Attributes with traced values are parts of the tree.


class Attributes:
    """What an object of a subclass of np.ndarray holds beside its array: a part of its structure."""

    __slots__ = ("held", "_key")

    def __init__(self, held: dict[str, Any]):
        self.held = held
        self._key: Any = None

    def key(self) -> Any:
        if self._key is None:
            self._key = same_key(self.held, True, _told)
        return self._key

    def __eq__(self, other: object) -> bool:
        return type(other) is Attributes and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __reduce__(self) -> tuple[Any, ...]:
        return Attributes, (self.held,)

    def __repr__(self) -> str:
        return repr(self.held)


def _told(x: Any, around: tuple[Any, ...] = ()) -> Any:
    """The key of an array or object in an attribute, which can change: what it holds, besides that it is this one."""
    cls = type(x)
    if issubclass(cls, np.ndarray):
        return Itself(x), x.dtype.str, x.shape, x.tobytes()
    if cls.__eq__ is not object.__eq__ or not cls.__flags__ & IN_PYTHON or issubclass(cls, _ALWAYS):
        return None
    inner = functools.partial(_told, around=(*around, x))
    held = {} if any([x is outer for outer in around]) else held_by(x, slots_of(cls))
    return Itself(x), same_key(held, True, inner)


def _is_traced(x: Any) -> bool:
    if type(x) in (list, tuple, dict):
        return any(map(_is_traced, x.values() if type(x) is dict else x))
    return hasattr(type(x), "aval") or hasattr(type(x), "stands_for")


def open_view(x: Any) -> tuple[list[Any], tuple[type, tuple[str, ...], Attributes]]:
    cls = type(x)
    held = held_by(x, slots_of(cls) if cls.__flags__ & IN_PYTHON else ())
    array = held.pop("array") if hasattr(cls, "stands_for") else x.view(np.ndarray)
    traced = tuple([name for name, value in held.items() if _is_traced(value)])
    parts = [array, *[held.pop(name) for name in traced]]
    return parts, (getattr(cls, "stands_for", cls), traced, Attributes(held))


def view_again(meta: tuple[type, tuple[str, ...], Attributes], children: tuple[Any, ...]) -> Any:
    """An object of the class; of a number, as an element is one, and of what is no array, only that."""
    cls, names, attributes = meta
    array = children[0]
    if not issubclass(array.__class__, np.ndarray):  # what a traced value stands for, too
        return array
    x = array.view(cls)
    for name, value in {**attributes.held, **dict(zip(names, children[1:]))}.items():
        object.__setattr__(x, name, value)
    return x


# ---------------------------------------------------------------- what is refused


def registering(x: Any) -> str:
    """The lines that make the class of x, which has attributes of its own, a container; empty if they would not."""
    cls = type(x)
    held = vars(x) if hasattr(x, "__dict__") else {}
    if not held or not cls.__flags__ & IN_PYTHON or not all([name.isidentifier() for name in held]):
        return ""
    fixed = [name for name, value in held.items() if value is None or is_static(value)]
    data = [name for name in held if name not in fixed]
    if not data:
        return ""
    parts, meta = ("(" + "".join([f"x.{name}, " for name in names]).strip() + ")" for names in (data, fixed))
    name = cls.__name__
    return (
        f"def {name.lower()}_of(meta, parts): x = object.__new__({name}); {parts}, {meta} = parts, meta; return x\n"
        f"funcad.tree_util.register_pytree_node({name}, lambda x: ({parts}, {meta}), {name.lower()}_of)"
    )

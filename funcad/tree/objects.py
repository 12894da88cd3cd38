"""Objects that nobody registered: dataclasses, attrs objects and SimpleNamespaces as containers of what they hold.

Idea: such an object is its attributes. Those that its instance holds are the children, declared fields first; it is built again
by `object.__new__` and setting them, so that no `__init__` or `__post_init__` runs twice, frozen or slotted. What can hold no
array (a string, a function, a bool, an Enum) is *static* there: it has no leaf and is part of the structure, compared by type
and value, also inside a list or a dict of options. Python's other numbers are leaves, as in JAX's pytrees, unless the field's
metadata says `static`. Explicit registration wins. Invariant: structures of equal objects are equal; classes share one kind,
whose meta has the class, so that no table keeps a class alive. Traps: `cached_property` keeps values in the instance, which are
not taken along, because they belong to the old arrays; a class with a layout in C (a dict, an exception) cannot be built by
`object.__new__`, and is a leaf; an instance that is callable or hashable may hide arrays, and is static only if it holds none.
"""

from __future__ import annotations

import functools
import types
import weakref
from enum import Enum

from funcad.tree.containers import KINDS, LEAF_TYPES, MOST_REMEMBERED, NAMED_TUPLE, ContainerKind, GetAttrKey

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DATA_TYPES", "OBJECT", "STATIC", "Static", "is_static", "kind_of", "marked_fields", "registering"]


class _Named(ContainerKind):
    """A kind of no class of its own, pickled by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str, flatten: Any, unflatten: Any, **options: Any):
        super().__init__(object, flatten, unflatten, **options)
        self.name = name

    def __reduce__(self) -> str:
        return self.name


# ---------------------------------------------------------------- static values


class Static:
    """A value that is part of a structure: equal to another of the same type and value; numbers by their bits."""

    __slots__ = ("value", "key")

    def __init__(self, value: Any):
        self.value = set(value) if type(value) is set else value
        self.key = _key(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Static and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Static, (self.value,)

    def __repr__(self) -> str:
        return repr(self.value)


def _key(x: Any) -> Any:
    cls = type(x)
    if cls is float or cls is complex:
        return cls, repr(x)
    if cls is set or cls is frozenset:
        return cls, frozenset([_key(item) for item in x])
    if cls is slice:
        return cls, _key(x.start), _key(x.stop), _key(x.step)
    return cls, x


def _static_again(meta: Static, children: tuple[Any, ...]) -> Any:
    return set(meta.value) if type(meta.value) is set else meta.value


_ALWAYS = (str, bytes, bool, Enum, type, set, frozenset, range, slice, functools.partial) + (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.EllipsisType,
    types.NotImplementedType,
)
_IN_PYTHON = 1 << 9  # the flag of classes that a `class` statement made
_DEPTH = 3  # how deep arrays are looked for
_verdicts: dict[type, bool | None] = {}  # None: it depends on the instance
# Types of leaves that are no static data, as many as MOST_REMEMBERED
DATA_TYPES: set[type] = {int, float, complex, bool}


def is_static(x: Any) -> bool:
    """Is x, which is no container, static in an object's field?"""
    cls = type(x)
    if cls in DATA_TYPES and cls is not bool:
        return False
    try:
        verdict = _verdicts[cls]
    except KeyError:
        verdict = _verdict(cls)
        if len(_verdicts) < MOST_REMEMBERED:
            _verdicts[cls] = verdict
            if verdict is False:
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
    own = not cls.__flags__ & _IN_PYTHON or cls.__module__.partition(".")[0] == "funcad"
    return True if own else None


def is_array_like(cls: type) -> bool:
    """Do instances stand for arrays? A dtype has a shape too, but no dtype."""
    return any([hasattr(cls, name) for name in ("aval", "__array__", "__array_interface__")]) or (
        hasattr(cls, "shape") and hasattr(cls, "dtype")
    )


def _hides_arrays(x: Any, depth: int) -> bool:
    if type(x) in (list, tuple, dict):
        return any([_hides_arrays(item, depth) for item in (x.values() if type(x) is dict else x)])
    if is_array_like(type(x)) or hasattr(x, "shape") and hasattr(x, "dtype"):
        return True
    if issubclass(type(x), _ALWAYS) or depth == 0 or not type(x).__flags__ & _IN_PYTHON:
        return False
    return any([_hides_arrays(value, depth - 1) for value in _held(x, _slots(type(x))).values()])


_HASH = "_attrs_cached_hash"  # where attrs keeps the hash of an object, None before it was asked for

STATIC = _Named("STATIC", lambda x: ((), x), _static_again)

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
        slots = _slots(cls)
        by_attrs = hasattr(cls, "__attrs_attrs__")
        self.slots = tuple([name for name in slots if name in declared or name == _HASH] if by_attrs else slots)
        self.orders: dict[tuple[str, ...], tuple[str, ...]] = {}

    def order(self, held: dict[str, Any]) -> tuple[str, ...]:
        """The names of what an instance holds: the fields as they were declared, then the others, sorted."""
        names = tuple(held)
        order = self.orders.get(names)
        if order is None:
            fields = [name for name in self.declared if name in held]
            others = sorted([name for name in held if name not in self.declared and name not in self.derived])
            order = (*fields, *others)
            if len(self.orders) < MOST_REMEMBERED:
                self.orders[names] = order
        return order


_known: weakref.WeakKeyDictionary[type, _Fields] = weakref.WeakKeyDictionary()


def _declared(cls: type) -> dict[str, Any]:
    """The fields and their metadata."""
    attributes = getattr(cls, "__attrs_attrs__", None)
    if attributes is not None:
        return {a.name: a.metadata for a in attributes}
    if not hasattr(cls, "__dataclass_fields__"):
        return {}
    import dataclasses  # it loads inspect, and whoever has a dataclass has it loaded already

    return {field.name: field.metadata for field in dataclasses.fields(cls)}


def _slots(cls: type) -> list[str]:
    """The names of the slots, as they are mangled."""
    members = [pair for base in cls.__mro__ for pair in vars(base).items() if type(pair[1]) is types.MemberDescriptorType]
    return [name for name, _ in members if name != "__dict__"]


def _held(x: Any, slots: Any) -> dict[str, Any]:
    """The attributes that an instance holds."""
    held = dict(getattr(x, "__dict__", ()))
    for name in slots:
        try:
            held[name] = object.__getattribute__(x, name)
        except AttributeError:  # a slot that is empty
            continue
    return held


def _fields(cls: type) -> _Fields:
    fields = _known.get(cls)
    if fields is None:
        fields = _known[cls] = _Fields(cls)
    return fields


def kind_of(cls: type) -> ContainerKind | None:
    """The kind of a class; None if its instances are leaves."""
    kind = KINDS.get(cls)
    if kind is None and cls not in LEAF_TYPES:
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return NAMED_TUPLE
        if _is_object(cls):
            return OBJECT
    return kind


def _is_object(cls: type) -> bool:
    """Are instances containers of their attributes, without registration?"""
    if issubclass(cls, types.SimpleNamespace):
        return True
    if not hasattr(cls, "__dataclass_fields__") and not hasattr(cls, "__attrs_attrs__"):
        return False
    in_python = all([base is object or base.__flags__ & _IN_PYTHON for base in cls.__mro__])
    return in_python and not issubclass(cls, (Enum, type)) and not is_array_like(cls)


def marked_fields(cls: type) -> frozenset[str]:
    """The names of the fields whose metadata says that they are static."""
    return _fields(cls).marked


def _open(x: Any) -> tuple[list[Any], tuple[type, tuple[str, ...]]]:
    cls = type(x)
    fields = _fields(cls)
    held = _held(x, fields.slots) if fields.slots else getattr(x, "__dict__", {})
    if _HASH in held:
        held = {**held, _HASH: None}
    names = fields.order(held)
    return [held[name] for name in names], (cls, names)


def _again(meta: tuple[type, tuple[str, ...]], children: tuple[Any, ...]) -> Any:
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


OBJECT = _Named("OBJECT", _open, _again, keys=lambda meta, _: map(GetAttrKey, meta[1]))

# ---------------------------------------------------------------- what is refused


def registering(x: Any) -> str:
    """The lines that make the class of x, which has attributes of its own, a container; empty if they would not."""
    cls = type(x)
    held = vars(x) if hasattr(x, "__dict__") else {}
    if not held or not cls.__flags__ & _IN_PYTHON or not all([name.isidentifier() for name in held]):
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

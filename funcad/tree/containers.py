"""The classes that pytrees are made of: how each is opened, closed, and what its path keys are; and registering more.

A container is recognised by its exact type, so a subclass of dict is a leaf until it is registered. All that funcad
knows of a class is one `ContainerKind`; `KINDS` holds the built-in ones and the registered ones. Named tuples need no
registration and share one kind, whose meta is their class; so do the objects of this file, which has `kind_of`.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, defaultdict
from enum import Enum

import numpy as np

from funcad.memo import Table, table, weak_table
from funcad.tree.same import Itself, held_by, same_key, slots_of

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self, TypeVar


if TYPE_CHECKING:

    Class = TypeVar("Class", bound=type)
    KeyPath = tuple[Any, ...]

# ---------------------------------------------------------------- keys and paths


class Key:
    """One step of a path; `str` of it is the Python that takes the step."""

    __slots__ = ("_value",)
    __match_args__: tuple[str, ...] = ("key",)
    _value: Any

    def __init__(self, *value: Any, **named: Any) -> None:
        name = self.__match_args__[0]
        if len(value) + len(named) != 1 or not named.keys() <= {name}:
            raise TypeError(f"{type(self).__name__}({name}) takes one argument, got {len(value)} and {[*named]} by name")
        object.__setattr__(self, "_value", value[0] if value else named[name])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value,)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._value == other._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__match_args__[0]}={self._value!r})"


class DictKey(Key):
    """A key of a dict."""

    __slots__ = ()
    key = property(lambda self: self._value)

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class SequenceKey(Key):
    """An index of a list or tuple."""

    __slots__ = ()
    __match_args__ = ("idx",)
    idx = property(lambda self: self._value)

    def __str__(self) -> str:
        return f"[{self._value}]"


class GetAttrKey(Key):
    """A field of a named tuple or dataclass."""

    __slots__ = ()
    __match_args__ = ("name",)
    name = property(lambda self: self._value)

    def __str__(self) -> str:
        return f".{self._value}"


class FlattenedIndexKey(Key):
    """The number of a child of a class that was registered without keys."""

    __slots__ = ()
    key = property(lambda self: self._value)

    def __str__(self) -> str:
        return f"[<flat index {self._value}>]"


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """The path as Python source; `simple` leaves out brackets, dots and quotes.

    >>> from funcad import tree
    >>> path = (tree.DictKey('w'), tree.SequenceKey(0))
    >>> tree.keystr(path), tree.keystr(path, simple=True, separator='/')
    ("['w'][0]", 'w/0')
    """
    return separator.join([str(key._value if simple and isinstance(key, Key) else key) for key in keys])


# ---------------------------------------------------------------- kinds


class ContainerKind:
    """How to open and close one class of containers.

    `flatten(tree)` gives `(children, meta)`, or `(pairs of key and child, meta)` if `keyed`; `unflatten(meta,
    children)` takes a tuple; `keys(meta, number)` are the path keys of that many children, unless `keyed`; `fields` are
    the names of the parts of a dataclass's meta.
    """

    __slots__ = ("cls", "flatten", "unflatten", "keys", "keyed", "fields")

    def __init__(
        self,
        cls: type,
        flatten: Callable[[Any], tuple[Iterable[Any], Any]],
        unflatten: Callable[[Any, tuple[Any, ...]], Any],
        keys: Callable[[Any, int], Iterable[Any]] = lambda meta, number: map(FlattenedIndexKey, range(number)),
        keyed: bool = False,
        fields: tuple[str, ...] = (),
    ) -> None:
        self.cls = cls
        self.flatten = flatten
        self.unflatten = unflatten
        self.keys = keys
        self.keyed = keyed
        self.fields = fields

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "NAMED_TUPLE" if self is NAMED_TUPLE else (_registered, (self.cls,))

    def open(self, tree: Any) -> tuple[tuple[Any, ...], Any, tuple[Any, ...] | None]:
        """The children, the meta, and the path keys if the class gives them itself."""
        children, meta = self.flatten(tree)
        if not self.keyed:
            return tuple(children), meta, None
        pairs = tuple(children)
        return tuple([child for _, child in pairs]), meta, tuple([key for key, _ in pairs])


def _registered(cls: type) -> ContainerKind:
    """What a pickled ContainerKind becomes."""
    if cls not in KINDS:
        raise TypeError(
            f"this PyTreeDef has a {cls.__qualname__} in it, which is not registered as a pytree in this process. "
            "Import the module that registers it before unpickling."
        )
    return KINDS[cls]


def _sorted_keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError:
        return tuple(tree)


def _flatten_dict(tree: dict[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    keys = _sorted_keys(tree)
    return [tree[key] for key in keys], keys


def _flatten_default_dict(tree: defaultdict[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    keys = _sorted_keys(tree)
    return [tree[key] for key in keys], (tree.default_factory, keys)


TUPLE = ContainerKind(tuple, lambda x: (x, None), lambda _, children: children, lambda _, n: map(SequenceKey, range(n)))
LIST = ContainerKind(list, lambda x: (x, None), lambda _, children: list(children), lambda _, n: map(SequenceKey, range(n)))
DICT = ContainerKind(dict, _flatten_dict, lambda keys, children: dict(zip(keys, children)), lambda keys, _: map(DictKey, keys))
ORDERED_DICT = ContainerKind(
    OrderedDict,
    lambda x: (x.values(), tuple(x)),
    lambda keys, children: OrderedDict(zip(keys, children)),
    lambda keys, _: map(DictKey, keys),
)
DEFAULT_DICT = ContainerKind(
    defaultdict,
    _flatten_default_dict,
    lambda meta, children: defaultdict(meta[0], zip(meta[1], children)),
    lambda meta, _: map(DictKey, meta[1]),
)
NONE = ContainerKind(type(None), lambda x: ((), None), lambda meta, children: None)
NAMED_TUPLE = ContainerKind(
    tuple, lambda x: (x, type(x)), lambda cls, children: cls(*children), lambda cls, _: map(GetAttrKey, cls._fields)
)

KINDS: dict[type, ContainerKind] = {kind.cls: kind for kind in (TUPLE, LIST, DICT, ORDERED_DICT, DEFAULT_DICT, NONE)}
# Types that have turned out to be leaves, as many as MOST_REMEMBERED: `flatten` asks here first.
LEAF_TYPES: set[type] = {bool, int, float, complex, str}
MOST_REMEMBERED = 512
OBJECTS: set[type] = set()  # whose instances are containers of their attributes, though they are no dataclasses


# ---------------------------------------------------------------- registration


def register(kind: ContainerKind) -> None:
    if not isinstance(kind.cls, type):
        raise TypeError(f"only a class can be registered as a pytree, not {kind.cls!r}.")
    if kind.cls in KINDS:
        raise ValueError(f"{kind.cls.__qualname__} is already registered as a pytree. Register each class once.")
    KINDS[kind.cls] = kind
    LEAF_TYPES.discard(kind.cls)


# ---------------------------------------------------------------- Partial


class Partial(functools.partial):
    """A `functools.partial` that is a container: its arguments are children, its function is static data.

    The arguments of a plain `functools.partial` inside it stay static, as in JAX.

    >>> from funcad import tree
    >>> tree.map(lambda x: 10 * x, tree.Partial(max, 1, 2))()
    20
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Self:
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            func = _StaticPartial(func)
        return super().__new__(cls, func, *args, **keywords)


class _StaticPartial:
    """A plain partial under a Partial: functools would merge the two, and partials compare by identity."""

    __slots__ = ("partial",)

    def __init__(self, partial: functools.partial[Any]) -> None:
        self.partial = partial

    def _value(self) -> tuple[Any, ...]:
        return self.partial.func, self.partial.args, tuple(self.partial.keywords.items())

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.partial(*args, **keywords)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StaticPartial) and same_key(self._value()) == same_key(other._value())

    def __hash__(self) -> int:
        return hash(same_key(self._value()))

    def __repr__(self) -> str:
        return repr(self.partial)


register(
    ContainerKind(
        Partial,
        lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
        lambda func, children: Partial(func, *children[0], **children[1]),
        keyed=True,
    )
)


# -- objects that nobody registered: dataclasses, attrs objects and SimpleNamespaces as containers of what they hold
#
# Idea: such an object is its attributes. Those that its instance holds are the children, declared fields first; it is built
# again by `object.__new__` and setting them, so that no `__init__` or `__post_init__` runs twice, frozen or slotted. What can
# hold no array (a string, a function, a bool, an Enum) is *static* there: it has no leaf and is part of the structure, compared
# by type and value, also inside a list or a dict of options. Python's other numbers are leaves, as in JAX's pytrees, unless the
# field's metadata says `static`. Explicit registration wins. Invariant: structures of equal objects are equal; classes share
# one kind, whose meta has the class, so that no table keeps a class alive. Traps: `cached_property` keeps values in the
# instance, which are not taken along, because they belong to the old arrays; a class with a layout in C (a dict, an exception)
# cannot be built by `object.__new__`, and is a leaf; an instance that is callable or hashable may hide arrays, and is static
# only if it holds none.


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
        self.key = same_key(self.value, True)

    def __eq__(self, other: object) -> bool:
        return type(other) is Static and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key if type(self.value) is set else same_key(self.value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Static, (self.value,)

    def __repr__(self) -> str:
        return repr(self.value)


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
_UNKNOWN = object()
_verdicts = table(
    "tree.verdicts",
    "class: is it static in a field? None: it depends on the instance",
    MOST_REMEMBERED,
)
# Types of leaves that are no static data, as many as MOST_REMEMBERED
DATA_TYPES: set[type] = {int, float, complex, bool}


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
    return any([_hides_arrays(value, depth - 1) for value in held_by(x, slots_of(type(x))).values()])


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


def kind_of(cls: type) -> ContainerKind | None:
    """The kind of a class; None if its instances are leaves."""
    kind = KINDS.get(cls)
    if kind is None and cls not in LEAF_TYPES:
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return NAMED_TUPLE
        if _is_object(cls):
            return OBJECT
        if _is_view(cls):
            return VIEW
    return kind


def _is_object(cls: type) -> bool:
    """Are instances containers of their attributes, without registration?"""
    if issubclass(cls, types.SimpleNamespace) or cls in OBJECTS:
        return True
    if not hasattr(cls, "__dataclass_fields__") and not hasattr(cls, "__attrs_attrs__"):
        return False
    in_python = all([base is object or base.__flags__ & _IN_PYTHON for base in cls.__mro__])
    return in_python and not issubclass(cls, (Enum, type)) and not is_array_like(cls)


def register_object(cls: type) -> None:
    """Makes a class a container of the attributes that its instances hold, as dataclasses are."""
    OBJECTS.add(cls)
    LEAF_TYPES.discard(cls)


def marked_fields(cls: type) -> frozenset[str]:
    """The names of the fields whose metadata says that they are static."""
    return _fields(cls).marked


def _open(x: Any) -> tuple[list[Any], tuple[type, tuple[str, ...]]]:
    cls = type(x)
    fields = _fields(cls)
    held = held_by(x, fields.slots) if fields.slots else getattr(x, "__dict__", {})
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

# ---------------------------------------------------------------- objects of subclasses of np.ndarray
#
# Idea: an object of a user's subclass is a container of one plain array, its memory; the class and the attributes belong to the
# structure. So every transform gives its function an object of the class, with a traced array behind it (numpy/subclasses.py),
# and gives back what NumPy would. Attributes are compared by value; arrays and objects in them by identity and by what they
# hold. Attributes with traced values are parts of the tree.


NOT_VIEWED = {"numpy", "funcad", "astropy"}  # libraries whose subclasses are no such containers: leaves, or refused


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
    if cls.__eq__ is not object.__eq__ or not cls.__flags__ & _IN_PYTHON or issubclass(cls, _ALWAYS):
        return None
    inner = functools.partial(_told, around=(*around, x))
    held = {} if any([x is outer for outer in around]) else held_by(x, slots_of(cls))
    return Itself(x), same_key(held, True, inner)


class _OwnArray(Key):
    """The array of such an object, which is no step."""

    __slots__ = ()

    def __str__(self) -> str:
        return ""


def _is_view(cls: type) -> bool:
    """Is it a user's subclass of np.ndarray, or what stands for one?"""
    if hasattr(cls, "stands_for"):
        return True
    if not issubclass(cls, np.ndarray) or cls is np.ndarray:
        return False
    own = [base for base in cls.__mro__ if base is not np.ndarray and base is not object]
    return NOT_VIEWED.isdisjoint([base.__module__.partition(".")[0] for base in own])


def _is_traced(x: Any) -> bool:
    if type(x) in (list, tuple, dict):
        return any(map(_is_traced, x.values() if type(x) is dict else x))
    return hasattr(type(x), "aval") or hasattr(type(x), "stands_for")


def _open_view(x: Any) -> tuple[list[Any], tuple[type, tuple[str, ...], Attributes]]:
    cls = type(x)
    held = held_by(x, slots_of(cls) if cls.__flags__ & _IN_PYTHON else ())
    array = held.pop("array") if hasattr(cls, "stands_for") else x.view(np.ndarray)
    traced = tuple([name for name, value in held.items() if _is_traced(value)])
    parts = [array, *[held.pop(name) for name in traced]]
    return parts, (getattr(cls, "stands_for", cls), traced, Attributes(held))


def _view_again(meta: tuple[type, tuple[str, ...], Attributes], children: tuple[Any, ...]) -> Any:
    """An object of the class; of a number, as an element is one, and of what is no array, only that."""
    cls, names, attributes = meta
    array = children[0]
    if not issubclass(array.__class__, np.ndarray):  # what a traced value stands for, too
        return array
    x = array.view(cls)
    for name, value in {**attributes.held, **dict(zip(names, children[1:]))}.items():
        object.__setattr__(x, name, value)
    return x


VIEW = _Named(
    "VIEW",
    _open_view,
    _view_again,
    keys=lambda meta, _: [_OwnArray(None), *map(GetAttrKey, meta[1])],
)

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

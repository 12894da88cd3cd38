"""The classes that pytrees are made of: how each is opened, closed, and what its path keys are.

A container is recognised by its exact type, so a subclass of dict is a leaf until it is registered. All that funcad
knows of a class is one `ContainerKind`; `KINDS` holds the built-in ones and the registered ones. Named tuples need no
registration and share one kind, whose meta is their class; so do objects that nobody registered (objects.py). Of those, and of
paths, here is what says that they are containers: the first gradient of a list or a dict loads no more.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict
from enum import Enum

import numpy as np

from funcad.configuration import OnDemand

objects = OnDemand("funcad.tree.objects")
paths = OnDemand("funcad.tree.path_keys")

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# ---------------------------------------------------------------- kinds


def _numbers(_: Any, n: int) -> Iterable[Any]:
    return map(paths.FlattenedIndexKey, range(n))


def _indices(_: None, n: int) -> Iterable[Any]:
    return map(paths.SequenceKey, range(n))


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
        keys: Callable[[Any, int], Iterable[Any]] = _numbers,
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


TUPLE = ContainerKind(tuple, lambda x: (x, None), lambda _, children: children, _indices)
LIST = ContainerKind(list, lambda x: (x, None), lambda _, children: list(children), _indices)
DICT = ContainerKind(
    dict,
    _flatten_dict,
    lambda keys, children: dict(zip(keys, children)),
    lambda keys, _: map(paths.DictKey, keys),
)
ORDERED_DICT = ContainerKind(
    OrderedDict,
    lambda x: (x.values(), tuple(x)),
    lambda keys, children: OrderedDict(zip(keys, children)),
    lambda keys, _: map(paths.DictKey, keys),
)
DEFAULT_DICT = ContainerKind(
    defaultdict,
    _flatten_default_dict,
    lambda meta, children: defaultdict(meta[0], zip(meta[1], children)),
    lambda meta, _: map(paths.DictKey, meta[1]),
)
NONE = ContainerKind(type(None), lambda x: ((), None), lambda meta, children: None)
NAMED_TUPLE = ContainerKind(
    tuple,
    lambda x: (x, type(x)),
    lambda cls, children: cls(*children),
    lambda cls, _: map(paths.GetAttrKey, cls._fields),
)

KINDS: dict[type, ContainerKind] = {kind.cls: kind for kind in (TUPLE, LIST, DICT, ORDERED_DICT, DEFAULT_DICT, NONE)}
# Types that have turned out to be leaves, as many as MOST_REMEMBERED: `flatten` asks here first.
LEAF_TYPES: set[type] = {bool, int, float, complex, str}
MOST_REMEMBERED = 512
# Types of leaves that are no static data, as many as MOST_REMEMBERED
DATA_TYPES: set[type] = {int, float, complex, bool}
OBJECTS: set[type] = set()  # whose instances are containers of their attributes, though they are no dataclasses


# ---------------------------------------------------------------- registration


def register(kind: ContainerKind) -> None:
    if not isinstance(kind.cls, type):
        raise TypeError(f"only a class can be registered as a pytree, not {kind.cls!r}.")
    if kind.cls in KINDS:
        raise ValueError(f"{kind.cls.__qualname__} is already registered as a pytree. Register each class once.")
    KINDS[kind.cls] = kind
    LEAF_TYPES.discard(kind.cls)


# -- what nobody registered: objects of dataclasses and others, objects of subclasses of np.ndarray, and static data; how they
# are opened is in objects.py


class _Named(ContainerKind):
    """A kind of no class of its own, pickled by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str, flatten: Any, unflatten: Any, **options: Any):
        super().__init__(object, flatten, unflatten, **options)
        self.name = name

    def __reduce__(self) -> str:
        return self.name


STATIC = _Named("STATIC", lambda x: ((), x), lambda meta, children: objects.static_again(meta))
OBJECT = _Named(
    "OBJECT",
    lambda x: objects.open_object(x),
    lambda meta, children: objects.object_again(meta, children),
    keys=lambda meta, _: map(paths.GetAttrKey, meta[1]),
)
VIEW = _Named(
    "VIEW",
    lambda x: objects.open_view(x),
    lambda meta, children: objects.view_again(meta, children),
    keys=lambda meta, _: [paths.OwnArray(None), *map(paths.GetAttrKey, meta[1])],
)
IN_PYTHON = 1 << 9  # the flag of classes that a `class` statement made
NOT_VIEWED = {"numpy", "funcad", "astropy"}  # libraries whose subclasses are no such containers: leaves, or refused


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
    in_python = all([base is object or base.__flags__ & IN_PYTHON for base in cls.__mro__])
    return in_python and not issubclass(cls, (Enum, type)) and not is_array_like(cls)


def _is_view(cls: type) -> bool:
    """Is it a user's subclass of np.ndarray, or what stands for one?"""
    if hasattr(cls, "stands_for"):
        return True
    if not issubclass(cls, np.ndarray) or cls is np.ndarray:
        return False
    own = [base for base in cls.__mro__ if base is not np.ndarray and base is not object]
    return NOT_VIEWED.isdisjoint([base.__module__.partition(".")[0] for base in own])


def is_array_like(cls: type) -> bool:
    """Do instances stand for arrays? A dtype has a shape too, but no dtype."""
    return any([hasattr(cls, name) for name in ("aval", "__array__", "__array_interface__")]) or (
        hasattr(cls, "shape") and hasattr(cls, "dtype")
    )


def register_object(cls: type) -> None:
    """Makes a class a container of the attributes that its instances hold, as dataclasses are."""
    OBJECTS.add(cls)
    LEAF_TYPES.discard(cls)

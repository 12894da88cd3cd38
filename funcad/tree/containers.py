"""The classes that pytrees are made of: how each is opened, closed, and what its path keys are; and registering more.

A container is recognised by its exact type, so a subclass of dict is a leaf until it is registered. All that funcad
knows of a class is one `ContainerKind`; `KINDS` holds the built-in ones and the registered ones. Named tuples need no
registration and share one kind, whose meta is their class; so do the objects of objects.py, which has `kind_of`.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict, defaultdict
from operator import attrgetter

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Self, TypeVar

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


# ---------------------------------------------------------------- registration


def _register(kind: ContainerKind) -> None:
    if not isinstance(kind.cls, type):
        raise TypeError(f"only a class can be registered as a pytree, not {kind.cls!r}.")
    if kind.cls in KINDS:
        raise ValueError(f"{kind.cls.__qualname__} is already registered as a pytree. Register each class once.")
    KINDS[kind.cls] = kind
    LEAF_TYPES.discard(kind.cls)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Makes a class a container: `flatten_func(tree)` gives `(children, static data)`, `unflatten_func(static data,
    children)` gives the tree again. The static data must be hashable; it is compared with `==`.
    """
    if flatten_with_keys_func is None:
        _register(ContainerKind(nodetype, flatten_func, unflatten_func))
    else:
        _register(ContainerKind(nodetype, flatten_with_keys_func, unflatten_func, keyed=True))


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """`register_pytree_node`, where each child comes in a pair with its path key.

    `flatten_func` is there for JAX's signature and is not called: structures remember their keys, for the messages.
    """
    _register(ContainerKind(nodetype, flatten_with_keys, unflatten_func, keyed=True))


def register_pytree_node_class(cls: Class) -> Class:
    """Decorator for a class with the methods `tree_flatten(self)` and, as a classmethod, `tree_unflatten(cls, meta,
    children)`.

    >>> from funcad import tree
    >>> @tree.register_pytree_node_class
    ... class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    ...     def tree_flatten(self):
    ...         return (self.low, self.high), None
    ...     @classmethod
    ...     def tree_unflatten(cls, meta, children):
    ...         return cls(*children)
    >>> tree.leaves(Interval(1, 2))
    [1, 2]
    """
    register_pytree_node(cls, lambda tree: tree.tree_flatten(), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys_class(cls: Class) -> Class:
    """Decorator for a class with the methods `tree_flatten_with_keys` and `tree_unflatten`."""
    unflatten = cls.tree_unflatten  # type: ignore[attr-defined]
    register_pytree_with_keys(cls, lambda tree: tree.tree_flatten_with_keys(), unflatten)
    return cls


def register_static(cls: Class) -> Class:
    """Makes a class a container without children, whose instances are static data: hashable, compared with `==`."""
    _register(ContainerKind(cls, lambda tree: ((), tree), lambda meta, children: meta))
    return cls


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Makes a dataclass a container of its data fields; the meta fields are static data. Also a decorator.

    Without the two lists, a field is data unless its metadata says `static`. The constructor sets the dropped fields.

    >>> from dataclasses import dataclass, field
    >>> from funcad import tree
    >>> @tree.register_dataclass
    ... @dataclass
    ... class Layer:
    ...     w: float
    ...     act: str = field(metadata={'static': True})
    >>> tree.map(lambda w: 2 * w, Layer(1.5, 'relu'))
    Layer(w=3.0, act='relu')
    """
    fields = _dataclass_fields(nodetype, drop_fields)
    if data_fields is None and meta_fields is None and fields is not None:
        data_fields = [name for name, static in fields.items() if not static]
        meta_fields = [name for name, static in fields.items() if static]
    if data_fields is None or meta_fields is None:
        raise TypeError(
            f"register_dataclass({nodetype.__qualname__}): give both data_fields and meta_fields, or neither for a "
            "class that is a dataclass already (@register_dataclass goes above @dataclass)."
        )
    data, meta = tuple(data_fields), tuple(meta_fields)
    names = data + meta
    if len(set(names)) < len(names):
        raise ValueError(f"register_dataclass({nodetype.__qualname__}): a field is listed twice in {sorted(names)}.")
    if fields is not None and sorted(names) != sorted(fields):
        raise ValueError(
            f"register_dataclass({nodetype.__qualname__}): the fields that the constructor takes are {sorted(fields)}, "
            f"but data_fields and meta_fields together are {sorted(names)}. List every field, or name it in "
            "drop_fields."
        )
    get_data, get_meta = _getter(data), _getter(meta)
    _register(
        ContainerKind(
            nodetype,
            lambda tree: (get_data(tree), get_meta(tree)),
            lambda static, children: nodetype(**dict(zip(names, children + static))),
            lambda static, number: map(GetAttrKey, data),
            fields=meta,
        )
    )
    return nodetype


def static(**options: Any) -> Any:
    """A dataclass field that is static data of the tree; takes the arguments of `dataclasses.field`.

    >>> from dataclasses import dataclass
    >>> from funcad import tree
    >>> @tree.register_dataclass
    ... @dataclass
    ... class Layer:
    ...     w: float
    ...     act: str = tree.static(default='relu')
    >>> tree.leaves(Layer(1.5))
    [1.5]
    """
    import dataclasses  # it loads inspect, and the user of a dataclass has it loaded already

    metadata = {"static": True, **(options.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **options)


def _dataclass_fields(cls: type, dropped: Sequence[str]) -> dict[str, bool] | None:
    """The fields and whether each is static; None if `cls` is no dataclass, or derives from one and adds fields."""
    known = getattr(cls, "__dataclass_fields__", None)
    if known is None or "__dataclass_fields__" not in cls.__dict__ and not _own_annotations(cls).keys() <= known.keys():
        return None
    import dataclasses  # it loads inspect, and the user of a dataclass has it loaded already

    fields = {}
    for field in dataclasses.fields(cls):
        if field.name in dropped:
            continue
        if not field.init:
            raise ValueError(
                f"register_dataclass({cls.__qualname__}): the field {field.name!r} has init=False, so it cannot be "
                "passed to the constructor. If __post_init__ sets it, name it in drop_fields."
            )
        fields[field.name] = bool(field.metadata.get("static", False))
    return fields


def _own_annotations(cls: type) -> dict[str, Any]:
    """The annotations of the class body, not of its bases. From Python 3.14 on they are made when somebody asks."""
    if sys.version_info < (3, 14):
        return cls.__dict__.get("__annotations__", {})
    import annotationlib

    return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda tree: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda tree: (get(tree),)


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
        return isinstance(other, _StaticPartial) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash(self._value())

    def __repr__(self) -> str:
        return repr(self.partial)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)

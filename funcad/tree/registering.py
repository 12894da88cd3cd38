"""Registering classes as containers of pytrees, and fields that are static.

Apart from containers.py, which a first gradient of a list or a dict loads.
"""

from __future__ import annotations

import functools
import sys
from operator import attrgetter

from funcad.configuration import OnDemand
from funcad.tree.containers import ContainerKind, register

paths, same = OnDemand("funcad.tree.path_keys"), OnDemand("funcad.tree.same")

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Self, TypeVar

    Class = TypeVar("Class", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Makes a class a container.

    Parameters
    ----------
    nodetype : class
        The class.
    flatten_func : callable
        `flatten_func(tree)` gives `(children, static data)`.
    unflatten_func : callable
        `unflatten_func(static data, children)` gives the tree again.
    flatten_with_keys_func : callable, optional
        As flatten_func, with pairs `(key, child)` instead of children, for paths in messages.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        The class is registered already.

    Notes
    -----
    The static data must be hashable; two are equal if their types and `==` agree, inside, too. As
    `jax.tree_util.register_pytree_node`.

    Examples
    --------
    >>> from funcad import tree
    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> tree.register_pytree_node(Interval, lambda i: ((i.low, i.high), None), lambda _, children: Interval(*children))
    >>> tree.map(lambda x: 2 * x, Interval(1, 2)).high
    4
    >>> class Pair(Interval):
    ...     pass
    >>> keys = lambda i: (((tree.GetAttrKey('low'), i.low), (tree.GetAttrKey('high'), i.high)), None)
    >>> tree.register_pytree_node(Pair, lambda i: ((i.low, i.high), None), lambda _, parts: Pair(*parts), keys)
    >>> [tree.keystr(path) for path, leaf in tree.leaves_with_path(Pair(1, 2))]
    ['.low', '.high']

    See also
    --------
    register_pytree_node_class, register_dataclass, register_static
    """
    if flatten_with_keys_func is None:
        register(ContainerKind(nodetype, flatten_func, unflatten_func))
    else:
        register(ContainerKind(nodetype, flatten_with_keys_func, unflatten_func, keyed=True))


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """`register_pytree_node`, where each child comes in a pair with its path key.

    `flatten_func` is there for JAX's signature and is not called: structures remember their keys, for the messages.
    """
    register(ContainerKind(nodetype, flatten_with_keys, unflatten_func, keyed=True))


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
    """Makes a class a container without children, whose instances are static data: hashable, compared by type and `==`."""
    register(ContainerKind(cls, lambda tree: ((), tree), lambda meta, children: meta))
    return cls


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Makes a dataclass a container of its data fields. Also a decorator.

    Parameters
    ----------
    nodetype : dataclass
        The class.
    data_fields, meta_fields : sequence of strs, optional
        Fields that are parts of the tree, and fields that are static data. Without the two, a field is data unless its
        metadata says `static`.
    drop_fields : sequence of strs
        Fields that the constructor sets.

    Returns
    -------
    class
        The class itself.

    Raises
    ------
    TypeError
        It is no dataclass.
    ValueError
        The fields are not those of the class, or it is registered already.

    Notes
    -----
    Static data must be hashable: it is part of the signature under `jit`. As `jax.tree_util.register_dataclass`. A
    dataclass that is not registered is a container, too: of all its fields.

    Examples
    --------
    >>> from dataclasses import dataclass, field
    >>> from funcad import tree
    >>> @tree.register_dataclass
    ... @dataclass
    ... class Layer:
    ...     w: float
    ...     act: str = field(metadata={'static': True})
    >>> tree.map(lambda w: 2 * w, Layer(1.5, 'relu'))
    Layer(w=3.0, act='relu')
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     name: str
    >>> tree.leaves(tree.register_dataclass(Point, data_fields=['x'], meta_fields=['name'])(1.5, 'a'))
    [1.5]

    See also
    --------
    static, register_pytree_node, register_pytree_node_class
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
    register(
        ContainerKind(
            nodetype,
            lambda tree: (get_data(tree), get_meta(tree)),
            lambda static, children: nodetype(**dict(zip(names, children + static))),
            lambda static, number: map(paths.GetAttrKey, data),
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
        return isinstance(other, _StaticPartial) and same.same_key(self._value()) == same.same_key(other._value())

    def __hash__(self) -> int:
        return hash(same.same_key(self._value()))

    def __repr__(self) -> str:
        return repr(self.partial)


def _parts(p: Partial) -> Any:
    args, keywords = map(paths.GetAttrKey, ("args", "keywords"))
    return ((args, p.args), (keywords, p.keywords)), p.func


def _again(func: Any, children: Any) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


register(ContainerKind(Partial, _parts, _again, keyed=True))

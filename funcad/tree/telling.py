"""What trees and structures are, in words: where one is too deep or contains itself, how two differ, a structure as text.

Loaded when there is something to tell, which most programs never have.
"""

from __future__ import annotations

import sys

from funcad.configuration import OnDemand
from funcad.errors import TreeDepthError
from funcad.tree.treedef import LEAF, differ, same_meta

from funcad.tree.containers import (  # isort: skip
    DEFAULT_DICT, DICT, LIST, NAMED_TUPLE, NONE, OBJECT, ORDERED_DICT, STATIC, TUPLE, VIEW, kind_of,
)

paths = OnDemand("funcad.tree.path_keys")

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from funcad.tree.containers import ContainerKind
    from funcad.tree.treedef import TreeDef


# -- what to say when a tree is too deep for Python's recursion: that it contains itself, or how deep it is and where
#
# Trees are walked by recursion. Only when that has failed is the tree walked once more, with a list in place of the stack, to
# find the cause; so trees that work pay nothing. Trap: a RecursionError may come from the user's own code (a class that
# flattens itself for ever); where the tree is neither cyclic nor deep, it passes on as it is.


_SHALLOW = 50  # levels that cannot be the cause
_ENDLESS = 20_000  # levels after which the end is not waited for: of a class that makes its children as it is opened
_SHOWN = 4  # steps of a long path


def tree_too_deep(tree: Any, is_leaf: Callable[[Any], bool] | None, error: RecursionError) -> RecursionError:
    """The error to raise in place of `error`, which came while the tree was walked."""
    if isinstance(error, TreeDepthError):
        return error
    levels: list[tuple[Any, Any, Iterator[tuple[Any, Any]]]] = [(None, None, iter([(None, tree)]))]
    places: dict[int, int] = {}  # id of each container on the path -> the number of steps to it
    deepest: list[Any] = []
    while levels:
        for key, part in levels[-1][2]:
            kind = None if is_leaf is not None and is_leaf(part) else kind_of(type(part))
            if kind is None:
                continue
            steps = len(levels) - 1
            if id(part) in places or steps > _ENDLESS:
                path = [*[k for k, _, _ in levels[2:]], key]
                return _cyclic(path, path[: places[id(part)]]) if id(part) in places else _deep(path, f"more than {_ENDLESS}")
            children, meta, keys = kind.open(part)
            places[id(part)] = steps
            levels.append((key, part, iter(list(zip(kind.keys(meta, len(children)) if keys is None else keys, children)))))
            break
        else:
            if len(levels) > len(deepest) + 2:
                deepest = [k for k, _, _ in levels[2:]]
            places.pop(id(levels.pop()[1]), None)
    return _deep(deepest) if len(deepest) > _SHALLOW else error


def structure_too_deep(treedef: TreeDef, error: RecursionError, inner: bool = False) -> RecursionError:
    """The same for a structure, which cannot contain itself; `inner`: this may be only a part of one."""
    if isinstance(error, TreeDepthError):
        return error
    waiting: list[tuple[TreeDef, int, Any]] = [(treedef, 0, None)]
    most, end = 0, None  # the path backwards: (last step, the steps before it)
    while waiting:
        node, depth, link = waiting.pop()
        if depth > most:
            most, end = depth, link
        pairs = zip(node._child_keys(), node._children)
        waiting += [(child, depth + 1, (key, link)) for key, child in pairs if child._children]
    if inner:
        return _deep([], f"more than {most}") if most > _SHALLOW else error
    path = []
    while end is not None:
        key, end = end
        path.append(key)
    return _deep(path[::-1]) if most > _SHALLOW else error


def _cyclic(path: list[Any], outer: list[Any]) -> TreeDepthError:
    return TreeDepthError(
        f"this pytree contains itself: {_shown('tree', path)} is {_shown('tree', outer)} again.\n"
        "Remedy: keep references to parents and owners out of the tree; in a class of your own, make them static data "
        "(tree.register_dataclass with meta_fields) or leave them out of its children."
    )


def _deep(path: list[Any], depth: str = "") -> TreeDepthError:
    place = f", at {_shown('tree', path)}" if path else ""
    return TreeDepthError(
        f"this pytree is nested {depth or len(path) + 1} levels deep{place}: too deep for what is left of Python's recursion "
        f"limit of {sys.getrecursionlimit()}.\n"
        "Remedy: keep a long chain as one list, or as arrays with a leading axis, on which funcad.scan works; or raise the "
        "limit by sys.setrecursionlimit."
    )


def _shown(name: str, path: list[Any]) -> str:
    if len(path) <= 2 * _SHOWN:
        return name + paths.keystr(tuple(path))
    start, end = paths.keystr(tuple(path[:_SHOWN])), paths.keystr(tuple(path[-_SHOWN:]))
    return f"{name}{start} ... {end}"


# -- how two structures differ


def describe_difference(a: TreeDef, b: TreeDef, name_a: str, name_b: str) -> str:
    """A sentence that names the first path where `a` differs from `b`, and how; empty if they are equal.

    >>> from funcad import tree
    >>> tree.describe_difference(tree.structure({'w': (1, 2)}), tree.structure({'w': 3}), 'tangents', 'primals')
    "tangents['w'] is a tuple of length 2, but primals['w'] is a leaf."
    """
    try:
        steps = first_difference(a, b)
    except RecursionError as error:
        raise structure_too_deep(a, error) from None
    return "" if steps is None else say_difference(a, b, steps, name_a, name_b)


def first_difference(a: TreeDef, b: TreeDef, prefix: bool = False) -> tuple[int, ...] | None:
    """The numbers of the children on the way to the first difference; a leaf of a prefix `a` stands for anything."""
    if a is b or (prefix and a is LEAF):
        return None
    if differ(a, b):
        return ()
    for i, (child_a, child_b) in enumerate(zip(a._children, b._children)):
        steps = first_difference(child_a, child_b, prefix)
        if steps is not None:
            return i, *steps
    return None


def say_difference(
    a: TreeDef, b: TreeDef, steps: tuple[int, ...], name_a: str, name_b: str, tree: Any = None
) -> str:
    """The sentence for the difference at the end of `steps`; `tree`, of structure `a`, tells the type of a leaf."""
    for i in steps:
        step = str(a._child_keys()[i])
        name_a, name_b = name_a + step, name_b + step
        if tree is not None:
            tree = a._kind.open(tree)[0][i]  # type: ignore[union-attr]
        a, b = a._children[i], b._children[i]
    if a._kind is b._kind and a._kind in (DICT, ORDERED_DICT, DEFAULT_DICT):
        missing = [key for key in _dict_keys(b) if key not in _dict_keys(a)]
        extra = [key for key in _dict_keys(a) if key not in _dict_keys(b)]
        how = [f"without the {_listed('key', missing)}"] * bool(missing) + [
            f"with the extra {_listed('key', extra)}"
        ] * bool(extra)
        if how:
            return f"{name_a} is {_a(a._kind.cls)} {' and '.join(how)}, unlike {name_b}."
    leaf = "a leaf" if tree is None else f"a leaf of type {type(tree).__name__}"
    return f"{name_a} is {leaf if a is LEAF else _what(a, b)}, but {name_b} is {_what(b, a)}."


def _what(node: TreeDef, other: TreeDef) -> str:
    """What a structure has at its root, as far as it matters beside `other`."""
    kind = node._kind
    if kind is None:
        return "a leaf"
    if kind is NONE:
        return "None (which has no leaves)"
    if kind is TUPLE or kind is LIST:
        return f"a {kind.cls.__name__} of length {len(node._children)}"
    if kind is DEFAULT_DICT and other._kind is kind:
        return f"a defaultdict with the factory {getattr(node._meta[0], '__name__', node._meta[0])}"
    if kind in (DICT, ORDERED_DICT, DEFAULT_DICT):
        keys = _dict_keys(node)
        return f"{_a(kind.cls)} {'with the ' + _listed('key', keys) if keys else 'without keys'}"
    if kind is STATIC:
        return short(repr(node._meta))
    if kind is not other._kind or _class(node) is not _class(other):
        return _a(_class(node), other._kind and _class(other))
    if kind is OBJECT:
        return f"{_a(_class(node))} {'with the ' + _listed('field', node._meta[1]) if node._meta[1] else 'without fields'}"
    if same_meta(kind, node._meta, other._meta):
        number = len(node._children)
        return f"{_a(kind.cls)} with {number} {'child' if number == 1 else 'children'}"
    if kind.fields:
        theirs = _field_texts(kind, other._meta)
        return f"{_a(kind.cls)} with {', '.join([t for t in _field_texts(kind, node._meta) if t not in theirs])}"
    return f"{_a(kind.cls)} with the static data {short(repr(node._meta))}"


def _class(node: TreeDef) -> type:
    kind = node._kind
    cls: type = node._meta if kind is NAMED_TUPLE else node._meta[0] if kind in (OBJECT, VIEW) else kind.cls  # type: ignore[union-attr]
    return cls


def _dict_keys(node: TreeDef) -> tuple[Any, ...]:
    return node._meta[1] if node._kind is DEFAULT_DICT else node._meta


def _field_texts(kind: ContainerKind, meta: tuple[Any, ...]) -> list[str]:
    return [f"{name}={short(repr(value))}" for name, value in zip(kind.fields, meta)]


def _a(cls: type, other: Any = None) -> str:
    """The name of a class with its article, and with its module if another class has the same name."""
    name = cls.__name__
    if other is not None and other is not cls and getattr(other, "__name__", None) == name:
        name = f"{cls.__module__}.{cls.__qualname__}"
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def _listed(noun: str, items: Iterable[Any], most: int = 5) -> str:
    texts = [short(repr(item)) for item in items]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{noun}{'s' * (len(texts) > 1)} {', '.join(texts[:most])}{more}"


def short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


# -- structures as text


def text_of(node: TreeDef) -> str:
    kind, meta, children = node._kind, node._meta, [text_of(child) for child in node._children]
    if kind is None:
        return "*"
    if kind is NONE:
        return "None"
    if kind is TUPLE:
        return f"({children[0]},)" if len(children) == 1 else f"({', '.join(children)})"
    if kind is LIST:
        return f"[{', '.join(children)}]"
    if kind in (DICT, ORDERED_DICT, DEFAULT_DICT):
        items = ", ".join([f"{key!r}: {child}" for key, child in zip(_dict_keys(node), children)])
        factory = f"{getattr(meta[0], '__name__', meta[0])}, " if kind is DEFAULT_DICT else ""
        return f"{{{items}}}" if kind is DICT else f"{kind.cls.__name__}({factory}{{{items}}})"
    if kind is STATIC:
        return short(repr(meta))
    keys = node._child_keys()
    named = all(isinstance(key, paths.GetAttrKey) for key in keys)
    parts = [f"{key.name}={child}" for key, child in zip(keys, children)] if named else children
    if kind in (NAMED_TUPLE, OBJECT, VIEW):
        return f"{_class(node).__name__}({', '.join(parts)})"
    if kind.fields:
        return f"{kind.cls.__name__}({', '.join(parts + _field_texts(kind, meta))})"
    return f"{kind.cls.__name__}{'' if meta is None else f'[{short(repr(meta))}]'}({', '.join(parts)})"

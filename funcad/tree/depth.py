"""What to say when a tree is too deep for Python's recursion: that it contains itself, or how deep it is and where.

Trees are walked by recursion. Only when that has failed is the tree walked once more, with a list in place of the stack, to
find the cause; so trees that work pay nothing. Trap: a RecursionError may come from the user's own code (a class that flattens
itself for ever); where the tree is neither cyclic nor deep, it passes on as it is.
"""

from __future__ import annotations

import sys

from funcad.errors import TreeDepthError
from funcad.tree.containers import keystr
from funcad.tree.objects import kind_of

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from funcad.tree.treedef import TreeDef

__all__ = ["tree_too_deep", "structure_too_deep"]

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
        return name + keystr(tuple(path))
    return f"{name}{keystr(tuple(path[:_SHOWN]))} ... {keystr(tuple(path[-_SHOWN:]))}"

"""`jax.tree`: funcad.tree, to which objects of classes that nobody registered are leaves, as they are in JAX.

>>> import dataclasses
>>> from funcad.jax import tree
>>> Point = dataclasses.make_dataclass("Point", ["x", "y"])
>>> tree.map(lambda point: point.x + point.y, [Point(1, 2)])
[3]
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from funcad.foreign_names import mirror as _mirror
from funcad.tree import structure
from funcad.tree.containers import OBJECT, kind_of
from funcad.tree.functions import has_object

__all__ = ["with_objects_as_leaves"]


def _is_object(x: Any) -> bool:
    return kind_of(type(x)) is OBJECT


def with_objects_as_leaves(f: Any) -> Any:
    """A function of trees that takes `is_leaf`, with objects as leaves; all else as it is."""
    names = list(inspect.signature(f).parameters) if inspect.isfunction(f) else []
    if "is_leaf" not in names or "iterable" in names:
        return f
    at = next(i for i, name in enumerate(names) if "tree" in name)

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= at or kwargs.get("is_leaf_takes_path") or not has_object(structure(args[at])):
            return f(*args, **kwargs)
        place = names.index("is_leaf")
        if "rest" not in names and len(args) > place:
            return f(*args[:place], _either(args[place]), *args[place + 1 :], **kwargs)
        return f(*args, **{**kwargs, "is_leaf": _either(kwargs.get("is_leaf"))})

    return call


def _either(is_leaf: Callable[[Any], bool] | None) -> Callable[[Any], bool]:
    return _is_object if is_leaf is None else lambda x: is_leaf(x) or _is_object(x)


__getattr__, __dir__ = _mirror(__name__, "funcad.tree", dress=with_objects_as_leaves)

"""`autograd.util`: replacing items of argument lists; `flatten` under its old name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from funcad.autograd.misc.flatten import flatten as flatten

__all__ = ["flatten", "func", "subval", "subvals"]


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """The tuple of x with some items replaced.

    >>> subvals((1, 2, 3), [(0, 9), (2, 7)])
    (9, 2, 7)
    """
    items = list(x)
    for i, value in ivs:
        items[i] = value
    return tuple(items)


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """The tuple of x with one item replaced.

    >>> subval((1, 2, 3), 1, 0)
    (1, 0, 3)
    """
    return subvals(x, [(i, v)])


def func(f: Callable[..., Any]) -> Callable[..., Any]:
    """f: what a class calls an unbound method is a function.

    >>> func(len)
    <built-in function len>
    """
    return f

"""`autograd.util`: replacing items of argument lists, the order of nodes; `flatten` and `quick_grad_check` as they were."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from funcad.autograd.misc.flatten import flatten as flatten
from funcad.autograd.nodes import toposort as toposort

__all__ = ["flatten", "func", "quick_grad_check", "subval", "subvals", "toposort"]


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


def quick_grad_check(fun: Callable[..., Any], arg0: Any, extra_args: Sequence[Any] = (), kwargs: Mapping = {}) -> None:
    """`check_grads(fun, modes=["rev"], order=1)(arg0, *extra_args, **kwargs)`, which is to be used instead.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     quick_grad_check(lambda x, y: x**2 + y, 1.0, (2.0,))
    """
    warnings.warn("quick_grad_check is deprecated: use autograd.test_util.check_grads", stacklevel=2)
    check_grads = importlib.import_module("funcad.autograd.test_util").check_grads
    check_grads(fun, modes=["rev"], order=1)(arg0, *extra_args, **kwargs)

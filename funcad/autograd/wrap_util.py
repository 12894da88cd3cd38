"""`autograd.wrap_util`: from operators of functions of one argument to operators that choose it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from funcad.autograd.differential_operators import on_argument

__all__ = ["unary_to_nary", "wraps"]

wraps = functools.wraps


def unary_to_nary(unary_operator: Callable[..., Any]) -> Callable[..., Any]:
    """`operator(fun, x)` as `operator(fun, argnum=0)(*args)`: fun as a function of the chosen argument, or of a tuple of them.

    Further arguments of the new operator are handed on to the old one.

    >>> @unary_to_nary
    ... def doubled(fun, x):
    ...     return fun(2 * x)
    >>> doubled(lambda x, y: x - y, argnum=1)(10.0, 1.0)
    8.0
    """

    @functools.wraps(unary_operator)
    def nary_operator(fun: Callable[..., Any], argnum: Any = 0, *options: Any, **named: Any) -> Callable[..., Any]:
        operator: Any = functools.partial(unary_operator, **named)
        if options:
            operator = lambda f, x: unary_operator(f, x, *options, **named)
        return on_argument(operator, fun, argnum, lambda f, **again: nary_operator(f, again["argnum"], *options, **named))

    return nary_operator

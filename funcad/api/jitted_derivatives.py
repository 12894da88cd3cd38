"""Derivatives of jitted functions: `grad(jit(f))` is called as `jit(grad(f))`.

Idea: outside of other traces the two mean the same, and the second is one program, where the first is a recording around one
that runs its function twice where Python decides by values (once to see which way). So what a transform returns for a jitted
function has a jitted function of its own behind it, made when it is first wanted and kept by the jitted function, and asks that
first. Where it must not be (a trace is open, an argument is no array or number, jit is disabled), that gives NotImplemented,
and the transform goes on as for any function. Arguments may carry derivatives: to an outer derivative it is one operation.

Trap: what is kept here must not refer to the jitted function that keeps it, or arrays that a dead function had captured would
wait for the collector. So `make` is given the function that was jitted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

__all__ = ["derivative_of", "derivatives_by", "with_compiled"]

_makers: dict[type, Callable[..., Any]] = {}
with_compiled: set[type] = set()  # classes whose attribute `compiled` is what this gave for them


def derivatives_by(maker: Callable[..., Any], kind: type) -> None:
    """`maker(f, key, make, same)` is `derivative_of` for jitted functions of this type."""
    _makers[kind] = maker


def derivative_of(f: Any, key: Hashable, make: Callable[[Any], Any], same: bool = True) -> Any:
    """A jitted function for `make` of the function behind f; None if f is neither jitted nor the gradient of what is.

    `key` tells the transform and its options; `same`: does what `make` returns take the same arguments as f?
    """
    if type(f) in with_compiled:
        f = f.compiled
    maker = _makers.get(type(f))
    return None if maker is None else maker(f, key, make, same)

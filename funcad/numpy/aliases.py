"""Which results are arrays of their own, and which are views of an operand or the operand itself: as NumPy has it.

Idea: each public function says `alias="copy"`, `"view"` or `"same"`, the most that NumPy's function gives for some arguments:
new memory, another array over the operand's memory, the operand's own object. Where a result is written, that tells what else
is. Invariant: a result is the operand's own object exactly where NumPy's is. So a function that has nothing to do
(`np.concatenate([x])`, `x.T` of one axis) gives a `fresh` object of the same value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from funcad.ir.tracer import Tracer, snapshot
from funcad.ir.types import Function
from funcad.primitives.arithmetic import neg
from funcad.primitives.comparison import or_
from funcad.writes.boxes import Box, is_array

__all__ = ["aliased", "apart", "arrays", "as_array_of_rank_0", "as_number", "fresh", "numbers"]


def fresh(x: Any) -> Any:
    """The same value as another object: a tracer at no cost, an array that is not traced as a copy."""
    if type(x) is not Tracer:
        return x.copy() if type(x) is np.ndarray else x
    made = snapshot(x)
    if x.box is not None and made.box is None and not x.shape:
        made.box = Box()  # of an array of rank 0: it is one, too
    return made


def as_array_of_rank_0(x: Any) -> Any:
    """What is traced and has rank 0 as an array, which can be written; all else as it is."""
    if type(x) is not Tracer or x.shape or is_array(x):
        return x
    made = snapshot(x)
    made.box = Box()
    return made


def arrays(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an implementation of what gives arrays in NumPy, and never numbers: of rank 0 they can be written, too."""

    @functools.wraps(implementation)
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_array_of_rank_0(implementation(*args, **kwargs))

    return call


def as_number(x: Any) -> Any:
    """What is traced and has rank 0 as a number, which cannot be written; all else as it is."""
    if type(x) is not Tracer or x.shape or not is_array(x):
        return x
    if x.box is not None:
        x = snapshot(x)
        x.box = None
    if not is_array(x):
        return x
    return or_(x, x) if x.dtype.kind == "b" else neg(neg(x))  # an array that was given; this is the number in it


def numbers(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an implementation of what gives numbers in NumPy, and never arrays of rank 0."""

    @functools.wraps(implementation)
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_number(implementation(*args, **kwargs))

    call.of_numbers = True  # type: ignore[attr-defined]
    return call


def _among(x: Any, values: Iterable[Any]) -> bool:
    for v in values:
        if v is x or (type(v) is list or type(v) is tuple) and _among(x, v):
            return True
    return False


def apart(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an implementation that may have nothing to do: it never returns an operand's own object."""

    def other(x: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        kind = type(x)
        if kind is Tracer or kind is np.ndarray:
            return fresh(x) if _among(x, args) or kwargs and _among(x, kwargs.values()) else x
        return kind([other(v, args, kwargs) for v in x]) if kind is list or kind is tuple else x

    @functools.wraps(implementation)
    def call(*args: Any, **kwargs: Any) -> Any:
        return other(implementation(*args, **kwargs), args, kwargs)

    return call


def aliased(alias: str) -> Callable[[Function], Function]:
    """Decorate an implementation by what its results share with its operands."""
    assert alias in ("copy", "view", "same")

    def decorate(implementation: Any) -> Any:
        implementation.alias = alias
        return implementation

    return decorate

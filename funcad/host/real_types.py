"""Types that values really have, and what a class needs that is to pass for another.

A traced value answers `isinstance` as what it stands for, by its `__class__`. Two answers come from elsewhere: `hasattr` and
`collections.abc` look for methods in the class, where a traced number must have no length and be no iterable because traced
arrays are. So `Length` is there for arrays only, and `Unseen` keeps the methods from collections.abc.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["is_a", "kind_of", "Length", "Unseen"]

_Kind = TypeVar("_Kind")


def is_a(x: Any, kinds: type[_Kind] | tuple[type[_Kind], ...]) -> TypeIs[_Kind]:
    """`isinstance` by the type that x really has.

    A traced value answers `isinstance` as the array or number that it stands for, so funcad itself asks here. What tells
    containers, strings and its own classes apart may go on using `isinstance`: no traced value stands for one of these.
    """
    return issubclass(type(x), kinds)


_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}


def kind_of(aval: Any, array: type) -> type:
    """The type of the values that an aval stands for: `array`, or what NumPy and Python have for one number."""
    if aval.shape or array is not np.ndarray:  # other libraries have no scalars: their numbers are arrays of rank 0
        return array
    return _PYTHON[aval.dtype.kind] if aval.weak else aval.dtype.type


class _Unsized(TypeError, AttributeError):
    """What `len(x)` of a number raises, a TypeError, and what makes `hasattr(x, "__len__")` false."""


class Length:
    """`__len__` of traced values that stand for what has one: arrays, not numbers."""

    def __get__(self, x: Any, owner: Any = None) -> Any:
        if x is None or hasattr(x.__class__, "__len__"):
            return _length if x is None else types.MethodType(_length, x)
        raise _Unsized(f"object of type {x.__class__.__name__!r} has no len()")


def _length(x: Any) -> int:
    shape = x.aval.shape
    if not shape:
        raise TypeError("len() of unsized object")
    return shape[0]


class Unseen(type):
    """The type of `Tracer`, which tells collections.abc nothing of its methods.

    `isinstance(x, Iterable)` looks for `__iter__` in the classes of `type(x).__mro__` beside `x.__class__`: a traced number
    must not be iterable because traced arrays are.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return ()

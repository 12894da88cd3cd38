"""What a program is: one function written as the users of HIPS autograd write it, and the same as those of torch do.

Idea: `function(library)` gives the function for a library's NumPy (`library.np`), special functions and way to make a vector of
numbers; the data are captured, as they are in such programs. funcad takes NumPy itself. `torch` is a version of its own, not a
translation: what torch has as one operation (`logsumexp`, `cross_entropy`, `lgamma`) is used as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["ALL", "Library", "Program"]

ALL = ("value_and_grad", "hvp", "hessian")


class Library(NamedTuple):
    """The modules that a program is written with; `vector` makes an array of some numbers."""

    np: Any
    special: Any
    vector: Callable[[Any], Any]


class Program(NamedTuple):
    """A function of one pytree, where it is evaluated, and which derivatives its users want."""

    what: str
    function: Callable[[Library], Callable[[Any], Any]]
    start: Any
    derivatives: tuple[str, ...] = ALL
    torch: Callable[[Any], Callable[[Any], Any]] | None = None

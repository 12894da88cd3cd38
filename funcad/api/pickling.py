"""Pickling and copying what transforms return: by name where it has one, else as the transform of its function.

A function that `@jit` or `@vmap` decorates is found in its module under its own name, as plain functions are, and so are
methods in their classes. `g = vmap(f)` becomes `vmap(f)` again in the process that loads it; programs are not pickled. So the
function in it must pickle: lambdas and functions made inside others do not, and are refused here with the remedy, unless a
pickler that copies functions by value (cloudpickle, dill) is at work; it copies those of `__main__` too, which is another
module elsewhere. Trap: what holds values of one call (a pullback, the
function that `linearize` returns) is no transform of a function and is not pickled.
"""

from __future__ import annotations

import copy
import functools
import pickle
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType
from typing import Any

from funcad import tree
from funcad.api.border import dress_as, name_of

__all__ = ["Remade", "Transformed", "with_rules"]

_BY_VALUE = ("cloudpickle", "dill")


class Remade:
    """A function made of another one: it pickles, copies and binds to instances as `make(f)` made it."""

    __slots__ = ()

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        """The function, and what makes this of it."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        copied = _copies_functions(sys._getframe(1))
        if _found_by_name(self) and not (copied and getattr(self, "__module__", None) == "__main__"):
            return self.__qualname__  # type: ignore[attr-defined]
        problem = "" if copied else _problem(self)
        if problem:
            raise pickle.PicklingError(
                f"a transformed function is pickled as its function, and {problem}.\nRemedy: define the function at the top "
                "level of a module; give it what it captured by functools.partial, or as arguments."
            )
        f, make = self.remaking()
        return make, (f,)

    def __copy__(self) -> Any:
        f, make = self.remaking()
        return make(f)

    def __deepcopy__(self, memo: Any) -> Any:
        f, make = self.remaking()
        return make(copy.deepcopy(f, memo))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)  # type: ignore[arg-type]


def with_rules(cls: Any, options: dict[str, Any], rules: dict[str, Any], f: Any) -> Any:
    """A function of a class of custom rules, which are set after it has been made."""
    made = cls(f, **options)
    for name, rule in rules.items():
        setattr(made, name, rule)
    return made


class Transformed(Remade):
    """What a transform returns in place of a closure: `call`, under the name of f; `make(f)` is the transform again.

    `like` gives it its name and signature, if that is not f.
    """

    __slots__ = ("__call__", "_f", "_make", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, call: Callable[..., Any], f: Any, make: functools.partial, like: Any = None):
        dress_as(self, f if like is None else like)
        self.__call__ = call
        self._f = f
        self._make = make

    def __repr__(self) -> str:
        return f"<{name_of(self._make.func)} of {name_of(self._f)}>"

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._f, self._make


def _found_by_name(x: Any) -> bool:
    """Is x what its module has under its name?"""
    name = getattr(x, "__qualname__", None)
    found: Any = sys.modules.get(getattr(x, "__module__", None) or "")
    if found is None or not isinstance(name, str):
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is x


def _problem(f: Any) -> str:
    """Why pickle would refuse f; empty if it is not known to."""
    if isinstance(f, Remade):
        return "" if _found_by_name(f) else next(filter(None, map(_problem, f.remaking())), "")
    if isinstance(f, functools.partial):
        parts = tree.leaves((f.func, f.args, f.keywords))
        return next(filter(None, [_problem(x) for x in parts if callable(x)]), "")
    if type(f) is MethodType:
        owner = f.__self__ if isinstance(f.__self__, type) else type(f.__self__)
        known = _found_by_name(owner)
        return "" if known else f"the class {owner.__qualname__} of the method {f.__name__} is not found by its name"
    if type(f) is not FunctionType:
        return ""
    if _found_by_name(f):
        return ""
    if f.__name__ == "<lambda>":
        return "lambdas have no name to find them by"
    place = f"{f.__module__}.{f.__qualname__}"
    if "<locals>" in f.__qualname__:
        return f"{place} is made when another function runs"
    return f"{place} is now something else than the function of that name"


def _copies_functions(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _BY_VALUE:
            return True
        frame = frame.f_back
    return False

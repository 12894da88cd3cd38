"""Pickling jitted functions: by name where they have one, else as `jit` of their function; programs are not pickled.

A function that `@jit` decorates is found in its module under its own name, as plain functions are, and so are methods in their
classes. `g = jit(f)` becomes `jit(f)` again in the process that loads it, where its programs are traced and compiled anew. So
the function in it must pickle: lambdas and functions made inside others do not, and are refused here with the remedy, unless a
pickler that copies functions by value (cloudpickle, dill) is at work.
"""

from __future__ import annotations

import functools
import pickle
import sys
from types import FrameType, FunctionType, MethodType
from typing import Any

__all__ = ["reduced"]

_BY_VALUE = ("cloudpickle", "dill")


def reduced(jitted: Any, f: Any, remake: Any) -> Any:
    """What `__reduce__` of a jitted function returns; `remake(f)` makes it anew."""
    if _found_by_name(jitted):
        return jitted.__qualname__
    problem = _problem(f)
    if problem and not _copies_functions(sys._getframe(1)):
        raise pickle.PicklingError(
            f"a jitted function is pickled as its function, and {problem}.\nRemedy: define the function at the top level of a "
            "module; give it what it captured by functools.partial, or as arguments."
        )
    return remake, (f,)


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
    if isinstance(f, functools.partial):
        parts = [f.func, *f.args, *f.keywords.values()]
        return next(filter(None, [_problem(x) for x in parts if callable(x)]), "")
    if type(f) is MethodType:
        owner = f.__self__ if isinstance(f.__self__, type) else type(f.__self__)
        known = _found_by_name(owner)
        return "" if known else f"the class {owner.__qualname__} of the method {f.__name__} is not found by its name"
    if type(f) is not FunctionType:
        inner = getattr(f, "__wrapped__", None)  # of grad(f), jit(f)
        return "" if inner is None or _found_by_name(f) else _problem(inner)
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

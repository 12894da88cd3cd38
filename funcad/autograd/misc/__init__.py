"""`autograd.misc`: flatten, optimizers, fixed points, programs that are traced once, each loaded when it is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from funcad.autograd.misc.flatten import flatten as flatten
from funcad.configuration import OnDemand

jit = OnDemand("funcad.jitted.jit")


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """The function of the remaining arguments, traced once and compiled: `funcad.jit(functools.partial(fun, *args, **kwargs))`.

    Its effects happen when it is traced. It is traced again for other shapes and dtypes, and where an `if` goes another way.

    >>> power = const_graph(lambda n, x: x**n, 3)
    >>> float(power(2.0))
    8.0
    """
    return jit.jit(functools.partial(fun, *args, **kwargs))  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if name == "tracers":
        return import_module("funcad.autograd.misc")
    if name == "fixed_points":
        return import_module("funcad.autograd.misc.fixed_points")
    if name == "optimizers":
        return import_module("funcad.autograd.misc.optimizers")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

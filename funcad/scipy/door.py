"""How a module of `funcad.scipy` answers for SciPy's functions.

Idea: `@implements("special.betaln")` on a function with SciPy's signature makes the public function. With no tracer among its
arguments that *is* SciPy's own function (cupyx.scipy's for device arrays, where it has one): same result, same warnings, same
errors; the decorated body handles traced values. Invariant: SciPy is imported when such a function is first called on plain
arrays, never before. A function that this version of SciPy does not have, or that only JAX has, is computed by the body.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from funcad.configuration import Function
from funcad.host.real_types import contiguous, ufunc_behind
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import remembers
from funcad.numpy.dispatch import documented, find, lifted, public_function
from funcad.primitives.shape import reshape
from funcad.unjitted.remembered import remembered
from funcad.unjitted.strides import layouts_of


def _module(name: str) -> Any:
    try:
        return sys.modules.get(name) or importlib.import_module(name)
    except ImportError:
        return None


def _of_library(library: str, path: Sequence[str]) -> Any:
    """`stats.norm.logpdf`, `sparse.linalg.cg`: a function in a module, a sub-module or an object of the library; or None."""
    for depth in range(len(path) - 1, 0, -1):
        module = _module(".".join([library, *path[:depth]]))
        if module is not None:
            return find(module, path[depth:])
    return None


def scipy_function(name: str) -> Any:
    """SciPy's own function (`scipy_function("linalg.expm")`), or None if this version has none of that name."""
    return ufunc_behind(_of_library("scipy", name.split(".")))


@remembers()
def since_1_18() -> bool:
    """Is it SciPy 1.18 or later? Several functions answer float32 with float32 there, and norms with numbers of NumPy's."""
    version = importlib.import_module("scipy").__version__.split(".")
    return (int(version[0]), int(version[1])) >= (1, 18)


def in_c_order(x: Any) -> Any:
    """x, which SciPy makes as a new array in C's order: as a result of a program it lies so, too."""
    value: Any = concrete_value(x)
    if type(value) is not Tracer or len(value.shape) < 2:
        return x
    made = reshape(x, shape=value.shape)
    inner: Any = concrete_value(made)
    layouts_of(inner.owner)[inner.atom] = contiguous(made.shape, made.dtype), {}
    return made


def absent(module: str, lazy: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a module of funcad.scipy: says what to do about a name of SciPy's that is not there.

    `lazy(name)` gives what the module loads at the first use, or None.
    """

    def __getattr__(name: str) -> Any:
        found = None if lazy is None else lazy(name)
        if found is not None:
            return found
        text = f"module '{module}' has no attribute {name!r}"
        theirs = None if name.startswith("_") else scipy_function(f"{module.removeprefix('funcad.scipy.')}.{name}")
        if isinstance(theirs, FunctionType):
            return functools.update_wrapper(by_own_code(f"{module.removeprefix('funcad.scipy.')}.{name}"), theirs)
        if theirs is not None:
            text += (
                ".\nscipy has it: call it on values without derivative (funcad.stop_gradient(x)), in funcad.pure_callback "
                "under jit, and in funcad.custom_jvp if you know its derivative."
            )
        raise AttributeError(text)

    return __getattr__


def by_own_code(name: str) -> Callable[..., Any]:
    """The public function `scipy.<name>`, SciPy's own, whose code runs on traced values (funcad/lifting)."""

    def implementation(*args: Any, **kwargs: Any) -> Any:
        own = importlib.import_module("funcad.lifting.own_answers")
        return own.own_answer(scipy_function(name), f"scipy.{name}")(*args, **kwargs)

    implementation.__name__ = implementation.__qualname__ = name.rpartition(".")[2]
    public = implements(name)(implementation)
    public.by_own_code = True  # type: ignore[attr-defined]
    return public


def _lazily(name: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    found: list[Any] = []

    def original(*args: Any, **kwargs: Any) -> Any:
        if not found:
            theirs = scipy_function(name)
            found.append(implementation if theirs is None else theirs)
        return found[0](*args, **kwargs)

    return original


def implements(
    name: str, *, always: bool = False, lift: bool = False, by_kind: bool = False
) -> Callable[[Function], Function]:
    """Decorate the implementation for traced arguments of `scipy.<name>`; gives the public function.

    `always`: the implementation also computes where nothing is traced (functions that have an option more than SciPy's, or take
    a callable that may hold traced values). `lift`: array arguments beside abstract ones are read by reference (see
    `capture_as_inputs` of primitives/placement.py), for functions made of several operations, some of them on those arguments
    alone.
    `by_kind`: as of `funcad.numpy.dispatch.implements`.
    """

    def decorate(implementation: Any) -> Any:
        if lift:
            implementation = lifted(implementation)
        if by_kind:
            implementation = remembered(implementation)
        path = name.split(".")
        public = public_function(
            implementation, name, _lazily(name, implementation), lambda xp: _of_library("cupyx.scipy", path), always
        )
        public.__doc__ = documented(f"scipy.{name}", implementation.__doc__)
        public.scipy_name = name  # type: ignore[attr-defined]
        return public

    return decorate

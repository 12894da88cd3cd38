"""`funcad.debug`: printing, callbacks and breakpoints that work inside transformed functions; NaN and bounds checks.

Effects happen when the program runs, in program order, once per execution, iteration and lane; never when it is traced. They
are not differentiated and are not removed. Outside jit and vmap they happen at once.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import tree
from funcad.errors import NanError
from funcad.ir.locks import read_only
from funcad.ir.source import user_source
from funcad.ir.state import setting, state
from funcad.ir.tracer import Tracer
from funcad.primitives.host import HostCall, debug_callback
from funcad.transforms.plumbing import name_of

__all__ = ["print", "callback", "breakpoint", "debug_nans", "debug_checks"]


# ---------------------------------------------------------------- effects


def _effect(name: str, function: Callable[..., Any], args: tuple, kwargs: dict) -> None:
    """Call `function(*args, **kwargs)` when the program runs; only traced leaves are operands, the rest is kept as it is."""
    leaves, structure = tree.flatten((args, kwargs))
    traced = [type(x) is Tracer for x in leaves]

    def flat(*values: Any) -> list[Any]:
        found = iter(values)
        given, keywords = structure.unflatten([next(found) if t else x for t, x in zip(traced, fixed)])
        function(*given, **keywords)
        return []

    fixed = [None if t else read_only(x) if type(x) is np.ndarray else x for t, x in zip(traced, leaves)]
    call = HostCall(name, flat, (), ())
    debug_callback(call, *[x for x, t in zip(leaves, traced) if t])


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)` whenever the program runs: `debug.print("x = {x}", x=x)`.

    Under vmap it prints once per lane of the mapped arguments. Programs run in order, so `ordered` changes nothing.
    As jax.debug.print.

    >>> import numpy as np, funcad
    >>> from funcad import debug
    >>> funcad.jit(lambda x: debug.print("x = {}", x))(2.0)
    x = 2.0
    """
    if not isinstance(fmt, str):
        raise TypeError(f"debug.print takes a format string first, as in debug.print('x = {{}}', x); got {type(fmt).__name__}")
    fmt.format(*[_Anything()] * len(args), **dict.fromkeys(kwargs, _Anything()))  # mistakes show here, at the user's line
    _effect("print", lambda *values, **named: builtins.print(fmt.format(*values, **named)), args, kwargs)


class _Anything:
    """Takes part in `str.format` as any value would."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: Any) -> _Anything:
        return self

    def __format__(self, spec: str) -> str:
        return ""


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call `callback(*args, **kwargs)` with NumPy arrays (read-only) whenever the program runs; its result is ignored.

    Under vmap it is called once per lane of the mapped arguments. Programs run in order, so `ordered` changes nothing.
    As jax.debug.callback.

    >>> import numpy as np, funcad
    >>> from funcad import debug
    >>> seen = []
    >>> funcad.jit(lambda x: debug.callback(lambda v: seen.append(float(v)), x))(2.0)
    >>> seen
    [2.0]
    """
    if not callable(callback):
        raise TypeError(f"debug.callback takes a function first, got {type(callback).__name__}")
    _effect(name_of(callback), callback, args, kwargs)


def breakpoint() -> None:
    """Stop here, in the debugger that Python's `breakpoint()` would start (`PYTHONBREAKPOINT`); the caller is one frame up.

    Inside jit and vmap it stops whenever the program runs, lane by lane, with the caller's local variables as they are then in
    the dict `variables`. As jax.debug.breakpoint.
    """
    frame = sys._getframe(1)
    if state.abstract is None:
        builtins.breakpoint()
        return
    names = {k: v for k, v in frame.f_locals.items() if k.isidentifier()}

    def stop(**variables: Any) -> None:
        builtins.breakpoint()

    _effect("breakpoint", stop, (), names)


# ---------------------------------------------------------------- checks


def _has_nan(x: Any) -> bool:
    kind = type(x)
    if kind is float or kind is complex:
        return x != x
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind in "fc" and bool((x != x).any())


def _checked(primitive: Any, xp: Any, args: Any, params: dict[str, Any]) -> Any:
    """`impl`, refusing a NaN that no operand had."""
    out = primitive.impl(xp, *args, **params)
    for o in out if primitive.multiple else (out,):
        if _has_nan(o) and not any(_has_nan(a) for a in args):
            raise NanError(f"{primitive.name} made a NaN from operands without one", user_source())
    return out


def debug_nans(enabled: bool = True) -> Any:
    """A context in which the first operation that makes a NaN raises NanError, naming the user's line.

    An operation whose operands have a NaN already passes. Forward and backward, jitted or not; a NaN in a derivative names
    the line of the operation whose derivative it is. Plain NumPy calls on plain arrays are NumPy's alone: they are not seen.

    >>> import numpy as np, funcad
    >>> with funcad.debug_nans():
    ...     funcad.jit(np.log)(-1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NanError: log made a NaN from operands without one
    """
    return setting(debug_nans=_checked if enabled else False)


def debug_checks(enabled: bool = True) -> Any:
    """A context in which computed indices are checked on every backend: out of bounds raises IndexError.

    >>> import funcad
    >>> with funcad.debug_checks():
    ...     pass
    """
    return setting(debug_checks=bool(enabled))

"""Floating-point warnings: who is silent, and whose line is named.

Tangent, cotangent and masked work never warns, whatever `np.errstate` the user has set: `token = suppress_warnings()` ...
`restore_warnings(token)`. Un-jitted primal operations warn as NumPy does, at the user's line rather than at the line of ours
that calls NumPy (of one line Python shows a warning only once, so a second place would stay silent): `warn_at_user_line()`
turns NumPy's modes "warn" into calls of `_warn`, which notes the line in `pending`, and whoever ran the operation says which it
was (`deliver`); `user_line_mode(mode)` is the mode to enter for that, or None. A program that runs later than it was traced
(vmap's) runs each operation in the mode that was set where the user wrote it: `error_mode()` when recording, `enter(mode)` when
running.

`np.errstate` costs more than most scalar operations, so NumPy's own context variable is set directly where this NumPy has it;
the fallback is `np.errstate` itself, and NumPy's own idea of the line.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.host.state import state
from funcad.host.where import Source, after_interrupts, is_internal

__all__ = ["suppress_warnings", "restore_warnings", "warn_at_user_line", "error_mode", "enter", "user_line_mode"]
__all__ += ["pending", "deliver"]


def _slow_enter(mode: Any) -> Any:
    context = np.errstate(**dict(mode))
    context.__enter__()
    return context


def _slow_suppress() -> Any:
    return _slow_enter({"all": "ignore"})


def _slow_restore(context: Any) -> None:
    context.__exit__(None, None, None)


def _slow_mode() -> Any:
    return tuple(np.geterr().items())


def _slow_user_line() -> Any:
    return None


def _fast() -> Any:
    """The same six on NumPy's context variable behind errstate (numpy >= 2.0), if it is there and does what we think."""
    try:
        from numpy._core.umath import _extobj_contextvar, _make_extobj

        silent = _make_extobj(all="ignore")
        token = _extobj_contextvar.set(silent)
        try:
            works = set(np.geterr().values()) == {"ignore"}
        finally:
            _extobj_contextvar.reset(token)
    except (ImportError, TypeError, AttributeError):
        return None
    if not works:
        return None
    get, enter, leave = _extobj_contextvar.get, _extobj_contextvar.set, _extobj_contextvar.reset
    last: Any = (None, None)  # a mode, and the same with _warn in the place of "warn"

    def user_line_mode(mode: Any) -> Any:
        nonlocal last
        known, found = last
        if mode is known:
            return found
        if mode is silent or mode is found:
            return None
        modes = np.geterr()
        found = None  # nothing to say, or the user's own handler has the place
        if "warn" in modes.values() and "call" not in modes.values() and "log" not in modes.values():
            modes_called: Any = {k: "call" if v == "warn" else v for k, v in modes.items()}
            found = _make_extobj(call=_warn, **modes_called)
        last = mode, found
        return found

    def warn_at_user_line() -> Any:
        mode, (known, found) = get(), last  # `last` in one look: other threads set it
        found = found if mode is known else user_line_mode(mode)
        return None if found is None else enter(found)

    def recover() -> None:
        """Back to the user's mode, which is no object of ours."""
        known, found = last
        if known is not None and (get() is silent or get() is found):
            enter(known)

    after_interrupts.append(recover)
    return lambda: enter(silent), leave, warn_at_user_line, get, enter, user_line_mode


suppress_warnings, restore_warnings, warn_at_user_line, error_mode, enter, user_line_mode = _fast() or (
    _slow_suppress, _slow_restore, _slow_user_line, _slow_mode, _slow_enter, lambda mode: None,
)  # fmt: skip

pending: list[tuple] = []  # what operations that run now were warned of: (thread, message, file, line, registry)
after_interrupts.append(pending.clear)  # or the next operation would be named in place of one that was broken off
_registry: dict[Any, Any] = {}  # what was warned of at lines whose function is not running any more
_OPERATORS = frozenset([np.add, np.subtract, np.multiply, np.divide])


def _warn(error: str, flag: int) -> None:
    """NumPy's call in the middle of an operation: notes the user's line."""
    frame: Any = sys._getframe(1)
    source, user = state.source, None
    while frame is not None:
        code = frame.f_code
        if code is source.code if type(source) is Source else not is_internal(code.co_filename):
            user = frame
            break
        frame = frame.f_back
    if type(source) is Source:
        filename, line = source.code.co_filename, source.line
    elif user is not None:
        filename, line = user.f_code.co_filename, user.f_lineno
    else:
        filename, line = "<unknown>", 0
    registry = _registry if user is None else user.f_globals.setdefault("__warningregistry__", {})
    pending.append((threading.get_ident(), error, filename, line, registry))


def deliver(primitive: Any, args: Sequence[Any]) -> None:
    """NumPy's RuntimeWarnings of this operation, which has just run in this thread."""
    thread = threading.get_ident()
    own = [entry for entry in pending if entry[0] == thread]
    for entry in own:  # one by one: other threads append meanwhile
        pending.remove(entry)
    for _, error, filename, line, registry in own:
        text = f"{error} encountered in {_label(primitive, args)}"
        warnings.warn_explicit(text, RuntimeWarning, filename, line, registry=registry)


def _label(primitive: Any, args: Any) -> str:
    """The name that NumPy gives to the operation."""
    if primitive.ufunc in _OPERATORS and not any([is_a(a, np.ndarray) for a in args]):
        return f"scalar {primitive.label}"
    return str(primitive.label)

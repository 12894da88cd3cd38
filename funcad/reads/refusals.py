"""What is said of functions that are not compiled, and the one way to say that a value stays what it is.

Idea: the warning comes once for each reason, which names a line, after the result stands and its stores are written, at the
user's line that called. So a warning that is an error loses no result that could still be asked for by a second call.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, TypeVar

from funcad.api.border import api
from funcad.errors import NotCompiledWarning
from funcad.host.where import is_internal

_T = TypeVar("_T")
_said: set[str] = set()  # reasons, with their lines
_INSTALLED = ("site-packages", "dist-packages")


def warn_once(reason: str, text: str) -> None:
    """Warn at the user's first line outside funcad and installed packages, unless that was said before."""
    if reason in _said:
        return
    _said.add(reason)
    frame: Any = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _is_theirs(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(NotCompiledWarning(text), stacklevel=level)


def forget_warnings() -> None:
    """Say everything again."""
    _said.clear()


def _is_theirs(filename: str) -> bool:
    return is_internal(filename) or any([part in filename for part in _INSTALLED])


class Refusal(BaseException):
    """f does what can be neither read again nor replayed: its calls are to run un-jitted. No `except Exception` takes it."""

    def __init__(self, reason: str, where: str, once: bool = False):
        super().__init__(f"{reason}, at {where}" if where else reason)
        self.once = once  # only this call, which raises as f does


class Unplaced(Exception):
    """Python needs a number that was to be an input: it is a guard instead."""

    def __init__(self, label: str):
        super().__init__(label)
        self.label = label  # "" where it was computed of several


@api
def constant(x: _T) -> _T:
    """x, as it is now, for ever: inside a jitted function what x was read from is not looked at again.

    Outside jit it is x itself. Raises nothing; a traced value is given as it is. No counterpart in JAX, where all that a
    function reads beside its arguments is constant.

    >>> import numpy as np, funcad
    >>> table = {"rate": 2.0}
    >>> f = funcad.jit(lambda x: x * funcad.constant(table["rate"]))
    >>> float(f(1.0))
    2.0
    """
    return x

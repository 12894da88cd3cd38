"""What is said of functions that are not compiled, and the one way to say that a value stays what it is.

Idea: the warning comes once for each reason of each code, after the result stands and its stores are written, at the user's
line that called. So a warning that is an error loses no result that could still be asked for by a second call.

Trap: the code is the one that refuses, not the jitted function's, which may be made anew at each call; it is held weakly, so
that a cell that is run again, or a module that is loaded again, is told anew.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from funcad.api.border import api
from funcad.errors import NotCompiledWarning
from funcad.host.where import is_internal
from funcad.memo import weak_table

_T = TypeVar("_T")
_MOST_REASONS = 100  # of one code, whose reasons may name keys and attributes
given_reasons = weak_table("reads.said", "code that is not compiled: its files, and the reasons that were given", same=None)
_INSTALLED = ("site-packages", "dist-packages")


def warn_once(code: CodeType | None, reason: str, text: Callable[[str], str]) -> None:
    """Warn at the user's first line outside funcad and installed packages, unless this was said of this code before."""
    code = warn_once.__code__ if code is None else code
    said = given_reasons.setdefault(code, set())
    if (code.co_filename, reason) in said:  # codes of two files may be equal
        return
    if len(said) >= _MOST_REASONS:
        said.clear()
    said.add((code.co_filename, reason))
    frame: Any = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _is_theirs(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(NotCompiledWarning(text(reason)), stacklevel=level)


def _is_theirs(filename: str) -> bool:
    return is_internal(filename) or any([part in filename for part in _INSTALLED])


class Refusal(BaseException):
    """f does what can be neither read again nor replayed: its calls are to run un-jitted. No `except Exception` takes it."""

    lasts = True  # is it of all calls?

    def __init__(self, reason: str, where: str, code: CodeType | None = None):
        super().__init__(f"{reason}, at {where}" if where else reason)
        self.code = code  # that does it; None: the function's own
        self.outside: list[tuple[str, str, str]] = []  # what f had read before, as `Guards.listed` has it
        self.happened: list[tuple[str, Any]] = []  # effects of this call until then, by name, with what they gave
        self.error: Exception | None = None  # that was raised, which may be one of f's


class Raised(Refusal):
    """f raised after it had stored something: this call is run un-jitted, and raises with what Python has stored by then."""

    lasts = False

    def __init__(self, error: Exception) -> None:
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        super().__init__(f"it fails while it is traced, {type(error).__name__}: {text}", "")
        self.error = error


class InLane(Refusal):
    """f, in a lane that runs as plain Python, has met a rule for batches: this call runs un-jitted, and tells the lane."""

    lasts = False


class Unplaced(Exception):
    """Python needs a number that was to be an input: it is a guard instead."""

    def __init__(self, label: str):
        super().__init__(label)
        self.label = label  # "" where it was computed of several


@api
def constant(x: _T) -> _T:
    """x, as it is now, for ever: inside a jitted function what x was read from is not looked at again.

    Parameters
    ----------
    x : any object, array or number
        Of an object or a container, all that is read of it stays what it is, too.

    Returns
    -------
    like x
        x itself, outside `jit` as well; a traced value is given as it is.

    Notes
    -----
    It saves the time of looking, and stops traces for a number that changes but does not matter. JAX has no
    counterpart: there all that a function reads beside its arguments is constant. It raises nothing.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> table = {"rate": 2.0}
    >>> f = funcad.jit(lambda x: x * funcad.constant(table["rate"]))
    >>> float(f(1.0))
    2.0
    >>> y, table["rate"] = f(1.0), 5.0  # the second call has been traced: the rate is the number that it was
    >>> float(f(1.0))
    2.0

    See also
    --------
    jit, clear_caches
    """
    return x

"""What a test does behind jit's back: code that counts as a library's, which no twin looks into.

A jitted function's own stores are replayed at each call, so a list that it appends to counts calls. What counts traces is done
by a function that `unseen` has made: it runs when the user's function runs, and nobody takes it back.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any


def unseen(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, as code of an installed library."""
    assert isinstance(f, types.FunctionType)
    names = {**f.__globals__, "__name__": "numpy.tests"}
    made = types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__, made.__module__ = f.__kwdefaults__, "numpy.tests"
    return made


class Noted(list[Any]):
    """A list whose method `note` is unseen: one entry for each time that Python ran the line."""

    def __init__(self) -> None:
        super().__init__()
        self.note = unseen(lambda *x: self.append(x[0] if x else None))

"""Arrays from outside, as the rows of a tape keep them: once, however often they are used.

Idea: the user may write into such an array between two uses. So a small one is copied, and the same copy serves as long as the
contents are the same; a large one is made read-only until the derivative dies (host/locks.py).
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from funcad.host.locks import SMALL

_NOTHING = lambda: None, None
COPIED = 2048  # bytes: below, the tape makes a copy at each use, which costs less than to look for one


class Outside:
    """What one tape keeps; `protector` locks a large array, or copies it if that is impossible."""

    __slots__ = ("protector", "kept")

    def __init__(self, protector: Any):
        self.protector = protector
        self.kept: dict[int, tuple] = {}  # by id, a reference to the array, and what is kept of it

    def keep(self, x: np.ndarray) -> np.ndarray:
        found, kept = self.kept.get(id(x), _NOTHING)
        again = found() is x and kept.shape == x.shape and kept.dtype == x.dtype
        if x.nbytes > SMALL:
            if again:
                return kept
            self.protector.args = (x,)
            kept = self.protector(x)
            self.protector.args = ()
            if kept is not x:
                return kept
            kept = x.view()  # which keeps its shape, whatever becomes of x's
        elif again and kept.tobytes() == x.tobytes():
            return kept
        else:
            kept = x.copy("K")
        self.kept[id(x)] = ref(x), kept
        return kept

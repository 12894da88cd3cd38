"""Arrays from outside, as the rows of a tape keep them: once, however often they are used.

Idea: the user may write into such an array between two uses. So a small one is copied, and the same copy serves as long as the
contents are the same; a large one is made read-only until the derivative dies (host/locks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from funcad.host.locks import NO_LOCKS, SMALL, Locks, root_of, was_handed
from funcad.host.where import Source, state, user_source
from funcad.ir.tracer import concrete_value
from funcad.unjitted.following import with_value


class Protector:
    """Keeps residuals safe from in-place writes by the user: copies the small ones, locks the others."""

    __slots__ = ("primals", "roots", "args", "locks", "behind")

    def __init__(self, primals: Sequence[Any]):
        self.primals = primals
        self.roots: set[int] | None = None  # of the arrays behind them, which `behind` keeps alive
        self.args: Sequence[Any] = ()
        self.locks = NO_LOCKS

    def is_users(self, x: np.ndarray) -> bool:
        root = x if x.base is None else root_of(x)
        if self.roots is None:
            arrays = [a for a in map(concrete_value, self.primals) if type(a) is np.ndarray]
            self.behind = [a if a.base is None else root_of(a) for a in arrays]
            self.roots = set(map(id, self.behind))
        if id(root) in self.roots:
            return True
        for a in self.args:
            if type(a) is np.ndarray and (a is root or root_of(a) is root):
                return True
        return False

    def add_users(self, x: np.ndarray) -> None:
        """From now on x is the user's."""
        if not self.is_users(x):
            root = x if x.base is None else root_of(x)
            self.behind.append(root)
            self.roots.add(id(root))  # type: ignore[union-attr]

    def __call__(self, x: Any) -> Any:
        array = concrete_value(x)
        if type(array) is not np.ndarray or not self.is_users(array) or array.size == 0:
            return x
        compact = array[tuple([slice(None) if s else slice(1) for s in array.strides])]
        if compact.nbytes <= SMALL or was_handed(array):
            whole = compact.size == array.size
            return with_value(x, array.copy("K") if whole else np.broadcast_to(compact.copy(), array.shape))
        if self.locks is NO_LOCKS:
            self.locks = Locks()
        source = state.source or user_source()
        locked = self.locks.lock(array, Source(*source) if source is not None else None)
        return x if locked else with_value(x, array.copy("K"))


_NOTHING = lambda: None, None
COPIED = 2048  # bytes: below, the tape makes a copy at each use, which costs less than to look for one


class Outside:
    """What one tape keeps."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: dict[int, tuple] = {}  # by id, a reference to the array, and what is kept of it

    def keep(self, x: np.ndarray, protector: Protector) -> np.ndarray:
        """x, which the protector locks if it is large, or copies if that is impossible."""
        found, kept = self.kept.get(id(x), _NOTHING)
        again = found() is x and kept.shape == x.shape and kept.dtype == x.dtype
        if x.nbytes > SMALL:
            if again:
                return kept
            protector.args = (x,)
            kept = protector(x)
            protector.args = ()
            if kept is not x:
                return kept
            kept = x.view()  # which keeps its shape, whatever becomes of x's
        elif again and kept.tobytes() == x.tobytes():
            return kept
        else:
            kept = x.copy("K")
        self.kept[id(x)] = ref(x), kept
        return kept

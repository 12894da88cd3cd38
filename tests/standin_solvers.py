"""How CuPy's solvers treat singular matrices: they raise only inside `cupyx.errstate(linalg="raise")`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["SOLVERS", "errstate", "left_behind"]

_full = np.full  # NumPy's own, also while a trace is open
SOLVERS = {"solve", "inv", "cholesky"}
_raising: list[str] = ["ignore"]  # what errors of linear algebra do


@contextmanager
def errstate(*, linalg: str) -> Iterator[None]:
    """`cupyx.errstate`."""
    _raising.append(linalg)
    try:
        yield
    finally:
        _raising.pop()


def left_behind(function: Any) -> Any:
    """A solver that hands out what is left of a singular matrix; stacks are solved without a look at the errors."""

    @functools.wraps(function)
    def solver(a: Any, *b: Any, **options: Any) -> Any:
        try:
            return function(a, *b, **options)
        except np.linalg.LinAlgError:
            if _raising[-1] == "raise" and (a.ndim == 2 or function.__name__ != "solve"):
                raise
        if a.ndim == 2:
            return _full(b[0].shape if b else a.shape, np.inf, a.dtype)
        return np.stack([solver(*parts, **options) for parts in zip(a, *b)])

    return solver

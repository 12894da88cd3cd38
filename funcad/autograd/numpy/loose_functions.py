"""Functions of `autograd.numpy` that take more than NumPy's: arguments by name, iterators."""

from __future__ import annotations

import functools
from typing import Any

import funcad.numpy as fnp

__all__ = ["column_stack", "concatenate", "dstack", "hstack", "make_diagonal", "stack", "vstack", "where"]


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`numpy.where`, whose arguments may also be given by name, as in autograd.

    >>> where(condition=[True, False], x=1.0, y=2.0)
    array([1., 2.])
    """
    return fnp.where(condition) if x is None and y is None else fnp.where(condition, x, y)


def _of_any_iterable(name: str) -> Any:
    """The function of that name, which also takes generators, maps and views of dictionaries, as autograd's does."""
    join = getattr(fnp, name)

    @functools.wraps(join)
    def joined(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        return join(arrays if hasattr(arrays, "__getitem__") else list(arrays), *args, **kwargs)

    return joined


stack, vstack, hstack, dstack, column_stack, concatenate = [
    _of_any_iterable(name) for name in ("stack", "vstack", "hstack", "dstack", "column_stack", "concatenate")
]


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Square matrices along the last two axes with the vectors of the last axis of D on their diagonals.

    As in autograd, offset must be 0 and the axes the last two: axis1=-1, axis2=-2.

    >>> import numpy as np
    >>> make_diagonal(np.array([1.0, 2.0]), axis1=-1, axis2=-2)
    array([[1., 0.],
           [0., 2.]])
    """
    if offset != 0 or (axis1, axis2) != (-1, -2):
        raise NotImplementedError(
            f"make_diagonal: offset={offset}, axis1={axis1}, axis2={axis2}; there is offset=0, axis1=-1, axis2=-2 alone.\n"
            "Remedy: np.vectorize or np.diag for other places."
        )
    return fnp.asarray(D)[..., None] * fnp.eye(fnp.shape(D)[-1])



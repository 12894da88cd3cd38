"""`autograd.numpy`: funcad.numpy, and what that does not have from NumPy.

>>> import funcad.autograd.numpy as np
>>> from funcad.autograd import grad
>>> float(grad(np.tanh)(0.0))
1.0
"""

from __future__ import annotations

import functools as _functools
from typing import Any as _Any

import funcad.numpy as _fnp
from funcad.autograd.mirror import mirror as _mirror
from funcad.autograd.numpy.numpy_vjps import metadata as metadata

__getattr__, __dir__ = _mirror(__name__, "funcad.numpy", "numpy")
__all__ = ["make_diagonal", "where", *[name for name in __dir__() if name not in ("test", "testing", "where")]]


def where(condition: _Any, x: _Any = None, y: _Any = None) -> _Any:
    """`numpy.where`, whose arguments may also be given by name, as in autograd.

    >>> where(condition=[True, False], x=1.0, y=2.0)
    array([1., 2.])
    """
    return _fnp.where(condition) if x is None and y is None else _fnp.where(condition, x, y)


def _of_any_iterable(name: str) -> _Any:
    """The function of that name, which also takes generators, maps and views of dictionaries, as autograd's does."""
    join = getattr(_fnp, name)

    @_functools.wraps(join)
    def joined(arrays: _Any, *args: _Any, **kwargs: _Any) -> _Any:
        return join(arrays if hasattr(arrays, "__getitem__") else list(arrays), *args, **kwargs)

    return joined


stack, vstack, hstack, dstack, column_stack, concatenate = [
    _of_any_iterable(name) for name in ("stack", "vstack", "hstack", "dstack", "column_stack", "concatenate")
]


def make_diagonal(D: _Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> _Any:
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
    return _fnp.asarray(D)[..., None] * _fnp.eye(_fnp.shape(D)[-1])



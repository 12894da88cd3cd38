"""`ravel_pytree`: a tree of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad import tree
from funcad.configuration import public_names
from funcad.errors import TreeMismatchError
from funcad.ir.aval import Aval, aval_of, dtype_of, said, shape_of
from funcad.numpy.promote import as_array
from funcad.primitives.placement import on_device_of

__all__ = ["ravel_pytree"]
__dir__ = public_names(globals())


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The leaves of a tree, one behind the other in a vector, and the function that makes such a tree of such a vector.

    The vector's dtype is NumPy's promotion of the leaves' (float32 if there are none). The function restores shapes and dtypes
    and raises `TreeMismatchError` for a vector of another length; where leaves were converted it takes the vector's dtype
    only, where they were not it takes any dtype, and the leaves get that. Differentiable both ways. As
    `jax.flatten_util.ravel_pytree`.
    `pytree` may hold arrays and numbers of any shapes.

    >>> import numpy as np
    >>> from funcad.flatten_util import ravel_pytree
    >>> vector, unravel = ravel_pytree({"b": 3.0, "w": np.array([[1.0, 2.0]])})
    >>> vector, unravel(2 * vector)
    (array([3., 1., 2.]), {'b': np.float64(6.0), 'w': array([[2., 4.]])})
    """
    leaves, treedef = tree.flatten(pytree)
    leaves = [as_array(leaf) for leaf in leaves]
    leaves = on_device_of([_strong(leaf) for leaf in leaves], leaves, scalars=True)
    avals = [aval_of(leaf) for leaf in leaves]
    if not leaves:
        return np.zeros(0, np.float32), lambda vector: treedef.unflatten(_parts(vector, [], np.dtype(np.float32), False))
    avals = [Aval(a.shape, a.dtype) for a in avals]
    dtype = np.result_type(*[a.dtype for a in avals])
    mixed = any(a.dtype != dtype for a in avals)
    rows = [_row(_converted(leaf, dtype)) for leaf in leaves]
    vector = fnp.concatenate(rows) if len(rows) > 1 else fnp.copy(rows[0])
    return vector, lambda vector: treedef.unflatten(_parts(vector, avals, dtype, mixed))


def _strong(x: Any) -> Any:
    return np.asarray(x) if type(x) in (bool, int, float, complex) else x


def _row(x: Any) -> Any:
    return fnp.reshape(x, -1) if shape_of(x) else fnp.broadcast_to(x, (1,))  # a fill: it may join what is on a device


def _converted(x: Any, dtype: np.dtype) -> Any:
    return x if dtype_of(x) == dtype else fnp.astype(x, dtype)


def _parts(vector: Any, avals: Sequence[Any], dtype: np.dtype, mixed: bool) -> list[Any]:
    vector = as_array(vector)
    size = sum([a.size for a in avals])
    if shape_of(vector) != (size,):
        raise TreeMismatchError(f"unravel takes a vector of {size} elements, as ravel_pytree gave it, got {said(vector)}")
    if mixed and dtype_of(vector) != dtype:
        raise TypeError(
            f"unravel takes a vector of dtype {dtype}, as ravel_pytree gave it, got {said(vector)}; convert it with astype"
        )
    parts, start = [], 0
    for a in avals:
        part = fnp.reshape(vector[start : start + a.size], a.shape)
        start += a.size
        if mixed and a.dtype != dtype:
            real = dtype.kind == "c" and a.dtype.kind != "c"
            part = fnp.astype(fnp.real(part) if real else part, a.dtype)
        parts.append(part if a.shape else part[()])
    return parts

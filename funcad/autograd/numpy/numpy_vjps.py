"""`autograd.numpy.numpy_vjps`: what rules need to sum a cotangent back over the axes along which an argument was broadcast."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.ir.aval import aval_of

__all__ = ["match_complex", "metadata", "replace_zero", "unbroadcast", "unbroadcast_f"]


def metadata(x: Any) -> tuple[tuple[int, ...], int, np.dtype, bool]:
    """Shape, number of axes, dtype, and whether it is complex.

    >>> metadata(np.zeros((2, 3)))
    ((2, 3), 2, dtype('float64'), False)
    """
    aval = aval_of(x)
    return aval.shape, aval.ndim, aval.dtype, aval.dtype.kind == "c"


def unbroadcast(x: Any, target_meta: tuple[tuple[int, ...], int, np.dtype, bool], broadcast_idx: int = 0) -> Any:
    """x summed over the axes along which an argument of that `metadata` was broadcast; its real part for a real argument.

    broadcast_idx is the place at which NumPy put axes in front: 0, or -1 where they stand at the end.

    >>> unbroadcast(np.ones((4, 2, 3)), metadata(np.zeros((2, 1))))
    array([[12.],
           [12.]])
    """
    shape, ndim, _, is_complex = target_meta
    while fnp.ndim(x) > ndim:
        x = fnp.sum(x, axis=broadcast_idx)
    thin = tuple([i for i, n in enumerate(shape) if n == 1 and fnp.shape(x)[i] != 1])
    x = fnp.sum(x, axis=thin, keepdims=True) if thin else x
    return fnp.real(x) if aval_of(x).dtype.kind == "c" and not is_complex else x


def unbroadcast_f(target: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The pullback f, whose results are summed to the shape of the argument `target`.

    >>> unbroadcast_f(np.zeros(2), lambda g: 3.0 * g)(np.ones((5, 2)))
    array([15., 15.])
    """
    target_meta = metadata(target)
    return lambda g: unbroadcast(f(g), target_meta)


def wrap_namespace(old: Mapping[str, Any], new: MutableMapping[str, Any]) -> None:
    """Puts the public names of `old` into `new`: functions of NumPy's and SciPy's take traced values as they are.

    >>> names = {}
    >>> wrap_namespace({"sin": len, "_private": len}, names)
    >>> names
    {'sin': <built-in function len>}
    """
    new.update({name: value for name, value in old.items() if name[:1] != "_"})


def match_complex(target: Any, x: Any) -> Any:
    """x as a complex array where target is complex, and its real part where target is real.

    >>> match_complex(1.0, np.array([1 + 2j]))
    array([1.])
    """
    wanted, given = metadata(target)[3], metadata(x)[3]
    return fnp.real(x) if given and not wanted else x + 0j if wanted and not given else x


def replace_zero(x: Any, val: Any) -> Any:
    """x with val where it is zero.

    >>> replace_zero(np.array([0.0, 2.0]), 1.0)
    array([1., 2.])
    """
    return fnp.where(fnp.asarray(x) != 0, x, val)


# -- functions of `autograd.numpy` that take more than NumPy's: arguments by name, iterators

_PLAIN = frozenset([bool, int, float, complex, list])


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`numpy.where`, whose arguments may also be given by name; of Python's numbers and lists it gives such. As in autograd.

    >>> where(condition=[True, False], x=1.0, y=2.0), where(True, 1, [2.0])
    (array([1., 2.]), [1.0])
    """
    found = fnp.where(condition) if x is None and y is None else fnp.where(condition, x, y)
    chosen = type(condition) is bool and type(x) in _PLAIN and type(y) in _PLAIN and type(found) is np.ndarray
    return found.tolist() if chosen else found


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

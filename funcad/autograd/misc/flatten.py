"""Nested containers as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.ir.aval import aval_of
from funcad.primitives.conversion import convert

__all__ = ["flatten", "flatten_func"]


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The leaves of a pytree in one vector, and the function that goes back; both can be differentiated.

    Dictionaries are taken in the order of their sorted keys. Float leaves come back in their dtypes, integers as floats.

    >>> vector, unflatten = flatten({"b": [1.0, 2.0], "a": 3.0})
    >>> vector
    array([3., 1., 2.])
    >>> unflatten(vector + 1.0)["a"]
    np.float64(4.0)
    """
    leaves, structure = tree.flatten(value)
    avals = [aval_of(x) for x in leaves]
    vector = fnp.concatenate([fnp.ravel(x) for x in leaves]) if leaves else np.zeros(0)

    def unflatten(vector: Any) -> Any:
        parts, start = [], 0
        for aval in avals:
            part = fnp.reshape(vector[start : start + aval.size], aval.shape)
            start += aval.size
            if aval.dtype.kind in "fc" and aval_of(part).dtype != aval.dtype:
                part = convert(part, aval.dtype)
            parts.append(part[()] if type(part) is np.ndarray and not part.ndim else part)
        return structure.unflatten(parts)

    return vector, unflatten


def flatten_func(func: Callable[..., Any], example: Any) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """func as a function from vector to vector, with the way back to its argument and the example as a vector.

    >>> f, unflatten, x = flatten_func(lambda pair: [pair[1], pair[0]], [1.0, 2.0])
    >>> f(x)
    array([2., 1.])
    """
    vector, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, vector

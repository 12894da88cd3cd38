"""Arguments of `funcad.nn` as its primitives take them: strong floats of one dtype and one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import aval_of, dtype_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import as_array, broadcast, promote_dtype, result_dtype

__all__ = ["real_operand", "operand", "operands", "same_dtype", "broadcasts"]

_FLOAT64 = np.dtype(np.float64)


def operand(x: Any) -> Any:
    """x as a strong float or complex value; integers and bools become float64, float32 stays float32."""
    if (type(x) is Tracer or type(x) is np.ndarray) and dtype_of(x).kind in "fc" and not aval_of(x).weak:
        return x
    x = as_array(x)
    aval = aval_of(x)
    if type(x) in (int, float, bool):
        return np.float64(x)
    return promote_dtype([x], aval.dtype if aval.dtype.kind in "fc" else _FLOAT64)[0]


def real_operand(x: Any, what: str) -> Any:
    """As `operand`; complex numbers raise."""
    x = operand(x)
    if dtype_of(x).kind == "c":
        raise TypeError(f"{what} is not defined for complex numbers, got {aval_of(x)}; take np.real or np.abs first")
    return x


def operands(*args: Any) -> Sequence[Any]:
    """The arguments in one float dtype and one shape (NumPy's promotion); Python scalars beside arrays stay scalars."""
    values = [as_array(a) for a in args]
    dtype, weak = result_dtype(values)
    if dtype.kind not in "fc":
        dtype = _FLOAT64
    values = promote_dtype(values, dtype)
    if weak:  # Python scalars only: a function's result is strong
        values = [np.float64(v) if type(v) is float else operand(v) for v in values]
    return broadcast(values)


def same_dtype(*args: Any) -> list[Any]:
    """The arguments as floats of one dtype, each in its own shape."""
    values = [operand(a) for a in args]
    return promote_dtype(values, np.result_type(*[dtype_of(v) for v in values]))


def broadcasts(small: tuple, shape: tuple) -> bool:
    """Does an array of the first shape broadcast to the second?"""
    return len(small) <= len(shape) and all(n in (1, m) for n, m in zip(small[::-1], shape[::-1]))

"""Operands of linear algebra: NumPy's dtypes, shapes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from funcad.host.devices import NAMESPACES
from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.trace import abstract_trace_of
from funcad.ir.tracer import concrete_value
from funcad.numpy.axes import array_of
from funcad.numpy.promote import convert_in
from funcad.primitives.shape import broadcast_to

__all__ = ["common", "stack_of_matrices", "square", "same_stack", "known_array"]

_UNSUPPORTED = (np.dtype(np.float16), np.dtype(np.longdouble), np.dtype(np.clongdouble))


def common(*arrays: Any) -> list[Any]:
    """The operands in the one dtype in which NumPy computes: float64 for integers."""
    xs = [array_of(a) for a in arrays]
    dtypes = []
    for x in xs:
        dtype = dtype_of(x)
        if dtype.kind not in "fc":
            dtype = np.dtype(np.float64)
        elif dtype in _UNSUPPORTED and dtype.itemsize not in (4, 8):
            raise TypeError(f"array type {dtype.name} is unsupported in linalg")
        dtypes.append(dtype)
    target = np.result_type(*dtypes)
    trace = abstract_trace_of(xs)
    return [x if dtype_of(x) == target else convert_in(trace, x, target) for x in xs]


def stack_of_matrices(a: Any) -> Any:
    """The operand as floats; LinAlgError if it is no stack of matrices."""
    (x,) = common(a)
    ndim = len(shape_of(x))
    if ndim < 2:
        raise LinAlgError(f"{ndim}-dimensional array given. Array must be at least two-dimensional")
    return x


def square(a: Any) -> Any:
    x = stack_of_matrices(a)
    shape = shape_of(x)
    if shape[-1] != shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return x


def same_stack(*xs: Any) -> list[Any]:
    """Stacks of matrices with their leading axes broadcast against each other."""
    lead = np.broadcast_shapes(*[shape_of(x)[:-2] for x in xs])
    return [broadcast_to(x, (*lead, *shape_of(x)[-2:])) for x in xs]


def known_array(x: Any) -> Any:
    """The array behind x if it has a value now, otherwise None."""
    value = concrete_value(x)
    return value if is_a(value, (np.ndarray, np.generic)) or type(value) in NAMESPACES else None

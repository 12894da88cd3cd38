"""What the functions of `funcad.lax` ask of their operands: equal dtypes, and equal shapes but for scalars and axes of size 1.

Nothing is promoted, as in JAX: TypeError names the operands. A Python number adapts to the dtype of the arrays that it meets
if its kind fits (a float beside float32, an int beside int8; JAX with 64-bit types enabled refuses some of these).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import LiteralAval, aval_of
from funcad.primitives.conversion import convert
from funcad.primitives.families import avals_text
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["operands", "equal_dtypes", "equal_shapes", "axis_in", "axes_in", "NUMBER", "FLOAT", "REAL_FLOAT", "INTEGER"]

NUMBER, FLOAT, REAL_FLOAT, INTEGER, BITS, ANY, ORDERED = "iufc", "fc", "f", "iu", "biu", "biufc", "biuf"
_NAMES = {"b": "bool", "i": "int", "u": "unsigned int", "f": "float", "c": "complex"}
_FITS = {"b": "b", "i": "iu", "f": "fc", "c": "c"}


def equal_dtypes(name: str, kinds: str, xs: Sequence[Any]) -> list[Any]:
    """The operands with Python numbers made NumPy scalars of the common dtype; TypeError if the dtypes differ."""
    avals = [aval_of(x) for x in xs]
    strong = [a.dtype for a in avals if not a.weak]
    dtype = strong[0] if strong else np.result_type(*[a.dtype for a in avals])
    for a in avals:
        if a.dtype != dtype and not (a.weak and dtype.kind in _FITS[a.dtype.kind]):
            raise TypeError(
                f"lax.{name} requires operands of equal dtypes, got {avals_text(avals)}. Convert them with "
                "lax.convert_element_type, or use funcad.numpy, which promotes."
            )
    if dtype.kind not in kinds:
        raise TypeError(
            f"lax.{name} takes {' or '.join([_NAMES[k] for k in kinds])} operands, got {avals_text(avals)}. Convert them "
            "with lax.convert_element_type, or use funcad.numpy, which promotes."
        )
    result = []
    for x, a in zip(xs, avals):
        if a.weak:
            x = dtype.type(x) if isinstance(a, LiteralAval) else convert(x, dtype)
        result.append(x)
    return result


def equal_shapes(name: str, xs: Sequence[Any]) -> list[Any]:
    """The operands in one shape: scalars and axes of size 1 are repeated; TypeError if the shapes differ otherwise."""
    avals = [aval_of(x) for x in xs]
    first = avals[0].shape
    if all(a.shape == first for a in avals):
        return list(xs)
    shaped = [a.shape for a in avals if a.shape]
    shape = tuple([next((n for n in sizes if n != 1), 1) for sizes in zip(*shaped)])
    result = []
    for x, a in zip(xs, avals):
        if a.shape and (len(a.shape) != len(shape) or any(n not in (1, m) for n, m in zip(a.shape, shape))):
            raise TypeError(
                f"lax.{name} requires operands of equal shapes, got {avals_text(avals)}. Broadcast them with "
                "lax.broadcast_in_dim, or use funcad.numpy, which broadcasts."
            )
        if a.shape != shape and not isinstance(a, LiteralAval):
            x = broadcast_in_dim(x, shape=shape, axes=tuple(range(len(a.shape))))
        result.append(x)
    return result


def operands(name: str, kinds: str, *xs: Any) -> list[Any]:
    """The operands of an elementwise function, ready for its primitive."""
    xs = equal_dtypes(name, kinds, xs)  # type: ignore[assignment]
    return equal_shapes(name, xs) if len(xs) > 1 else list(xs)


def axis_in(name: str, axis: int, ndim: int) -> int:
    """The axis counted from the front; ValueError if there is none."""
    axis = axis.__index__()
    if not -ndim <= axis < ndim:
        raise ValueError(f"lax.{name}: axis {axis} is out of bounds for an operand with {ndim} axes")
    return axis % ndim


def axes_in(name: str, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """The axes counted from the front, in order; ValueError if one is missing or repeated."""
    found = sorted([axis_in(name, a, ndim) for a in axes])
    if len(set(found)) != len(found):
        raise ValueError(f"lax.{name}: axes {tuple(axes)} of an operand with {ndim} axes are repeated")
    return tuple(found)

"""Operands of linear algebra: one float or complex dtype, equal leading axes, right-hand sides as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.dispatch import where_am_i
from funcad.numpy.promote import array_of, one_dtype, promote_dtype, result_dtype
from funcad.primitives.arithmetic import add
from funcad.primitives.conversion import conj
from funcad.primitives.linear_systems import mH, mT, triangle
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_to, reshape

_LAPACK: dict[str, np.dtype] = {"e": np.dtype("f"), "g": np.dtype("d"), "G": np.dtype("D")}  # dtypes that LAPACK does not have


def inexact(*arrays: Any) -> list[Any]:
    """The arrays in the dtype in which LAPACK computes with them."""
    if one_dtype(arrays):
        return list(arrays)
    xs = [array_of(a) for a in arrays]
    dtype = result_dtype(xs)[0]
    wanted: np.dtype = _LAPACK.get(dtype.char, dtype) if dtype.kind in "fc" else np.dtype(float)
    return promote_dtype(xs, wanted)


def matrices(name: str, *arrays: Any) -> list[Any]:
    """As `inexact`, for functions of matrices."""
    xs = inexact(*arrays)
    for x in xs:
        if len(shape_of(x)) < 2:
            raise ValueError(f"{name}: expected a matrix or a stack of them, got the shape {shape_of(x)}")
    return xs


def at_least_a_matrix(a: Any) -> Any:
    """A number as a matrix of one element, for functions that SciPy has for it."""
    return reshape(a, shape=(1, 1)) if not shape_of(a) else a


def double(*arrays: Any) -> list[Any]:
    """The arrays in double precision, for functions that SciPy computes in it whatever it is given."""
    xs = inexact(*arrays)
    dtype: np.dtype = np.dtype(complex if dtype_of(xs[0]).kind == "c" else float)
    return promote_dtype(xs, dtype)


def constant(x: np.ndarray, like: Any) -> Any:
    """A constant of ours beside an operand: on the operand's device."""
    return on_device_of([x], [like])[0]


def identity(a: Any) -> Any:
    """Identity matrices with the shape and dtype of a."""
    return broadcast_to(constant(np.eye(*shape_of(a)[-2:], dtype=dtype_of(a)), a), shape_of(a))


def check_square(name: str, a: Any, error: type[ValueError] = ValueError) -> None:
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise error(f"{name}: expected a square matrix or a stack of them, got the shape {shape}")


def stacks(*xs: Any) -> list[Any]:
    """Matrices (..., n, m) with their leading axes broadcast."""
    shapes = list(map(shape_of, xs))
    if len({s[:-2] for s in shapes}) == 1:
        return list(xs)
    lead = np.broadcast_shapes(*[s[:-2] for s in shapes])
    return [broadcast_to(x, (*lead, *s[-2:])) for x, s in zip(xs, shapes)]


def system(name: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """(matrices, right-hand sides as matrices, was it a vector?); `a` holds matrices (..., m, n), b n rows."""
    shape = shape_of(b)
    vector = len(shape) == 1
    if vector:
        b = reshape(b, shape=(*shape, 1))
    if not shape or shape_of(b)[-2] != shape_of(a)[-1]:
        raise ValueError(f"{name}: the shapes {shape_of(a)} and {shape} do not fit")
    a, b = stacks(a, b)
    return a, b, vector


def as_given(x: Any, vector: bool) -> Any:
    """The solution as a vector if the right-hand side was one."""
    return reshape(x, shape=shape_of(x)[:-1]) if vector else x


def is_complex(x: Any) -> bool:
    return dtype_of(x).kind == "c"


def conjugated(x: Any) -> Any:
    return conj(x) if is_complex(x) else x


def symmetric(a: Any, lower: bool, hermitian: bool = True) -> Any:
    """The matrix of which one triangle is given; the other triangle of a is not read."""
    half = triangle(a, lower=lower, diagonal=0.5)
    return add(half, mH(half) if hermitian and is_complex(a) else mT(half))


def unsupported(name: str, remedy: str = "leave the argument out", **arguments: Any) -> None:
    """Raise for the first argument that is not None."""
    for argument, value in arguments.items():
        if value is not None:
            raise TypeError(
                f"scipy.linalg.{name} does not support {argument}={value!r:.40} with traced values{where_am_i()}.\n"
                f"Remedy: {remedy}."
            )



"""Norms and condition numbers.

Conventions where a norm has no derivative. At 0 the slope is 0, which every norm's subgradient contains; times an infinite
slope outside (`log(norm(x))`) that is nan, and so is the derivative of the slope where it turns: at 0 in norms of order p > 1,
whereas norms made of absolute values and maxima are linear on both sides and have the second derivative 0. Powers of Euclidean
norms are exact: `norm(x)**2` has all derivatives. Between equal candidates of a maximum or minimum (elements, rows, largest
singular values) the derivative is shared. The nuclear norm has its right first and second derivatives at equal singular
values; at singular values 0 it has the subgradient of least norm, whose derivative is nan. The values of Euclidean norms
neither overflow nor underflow; NumPy's do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.linalg import LinAlgError

from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.numpy.axes import array_of, permute
from funcad.numpy.dispatch import implements
from funcad.numpy.linalg_operands import square, stack_of_matrices
from funcad.primitives import eigen, factorizations, linear_systems, norms
from funcad.primitives.arithmetic import abs_, div, mul
from funcad.primitives.comparison import and_, isnan, ne, not_, select
from funcad.primitives.conversion import convert
from funcad.primitives.families import REAL
from funcad.primitives.powers import pow
from funcad.primitives.reduction import reduce_any, reduce_max, reduce_min, reduce_sum
from funcad.primitives.shape import full, reshape

_INF = float("inf")


def _maximum(x: Any, axis: int) -> Any:
    """The largest of numbers >= 0, 0 if there are none."""
    shape = shape_of(x)
    if not shape[axis]:
        return full(Aval((*shape[:axis], *shape[axis + 1 :]), dtype_of(x)), 0)
    return reduce_max(x, axes=(axis,))


def _minimum(x: Any, axis: int) -> Any:
    if not shape_of(x)[axis]:
        raise ValueError("zero-size array to reduction operation minimum which has no identity")
    return reduce_min(x, axes=(axis,))


def _vector(x: Any, ord: Any, axis: int) -> Any:
    if ord is None or ord == 2:
        return norms.norm(x, axes=(axis,))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == _INF:
        return _maximum(abs_(x), axis)
    if ord == -_INF:
        return _minimum(abs_(x), axis)
    if ord == 0:
        nonzero = ne(x, dtype_of(x).type(0))
        return reduce_sum(convert(nonzero, REAL(dtype_of(x))), axes=(axis,))
    size = abs_(x)
    if ord == 1:
        return reduce_sum(size, axes=(axis,))
    ord = float(ord)
    total = reduce_sum(pow(size, ord), axes=(axis,))
    return norms.rooted(total, ord) if ord > 1 else pow(total, 1.0 / ord)


def _matrix(x: Any, ord: Any) -> Any:
    """Over the last two axes."""
    columns, rows = len(shape_of(x)) - 1, len(shape_of(x)) - 2
    if ord in (None, "fro", "f"):
        return norms.norm(x, axes=(rows, columns))
    if ord == "nuc":
        return factorizations.nuclear_norm(stack_of_matrices(x))
    if ord in (2, -2):
        s = eigen.svdvals(stack_of_matrices(x))
        extreme = _maximum(s, rows) if ord == 2 else _minimum(s, rows)
        return norms.norm(extreme, axes=())  # its slope at 0: of zero matrices any direction is a singular vector
    if ord in (1, -1):
        return (_maximum if ord == 1 else _minimum)(reduce_sum(abs_(x), axes=(rows,)), rows)
    if ord in (_INF, -_INF):
        return (_maximum if ord == _INF else _minimum)(reduce_sum(abs_(x), axes=(columns,)), rows)
    raise ValueError("Invalid norm order for matrices.")


@implements("linalg.norm", by_kind=True)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`numpy.linalg.norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    x = array_of(x)
    if dtype_of(x).kind not in "fc":
        x = convert(x, np.dtype(float))
    shape = shape_of(x)
    ndim = len(shape)
    if axis is None:
        axes: tuple = tuple(range(ndim))
        if ord is None or ord in ("f", "fro") and ndim == 2 or ord == 2 and ndim == 1:
            result = norms.norm(x, axes=axes)
            return reshape(result, shape=(1,) * ndim) if keepdims else result
    elif isinstance(axis, tuple):
        axes = axis
    else:
        try:
            axes = (int(axis),)
        except Exception as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    if len(axes) == 1:
        axes = (normalize_axis_index(axes[0], ndim),)
        result = _vector(x, ord, axes[0])
    elif len(axes) == 2:
        axes = tuple([normalize_axis_index(a, ndim) for a in axes])
        if axes[0] == axes[1]:
            raise ValueError("Duplicate axes given.")
        rest = [i for i in range(ndim) if i not in axes]
        result = _matrix(permute(x, (*rest, *axes)), ord)
    else:
        raise ValueError("Improper number of dimensions to norm.")
    return reshape(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else result


@implements("linalg.vector_norm", by_kind=True)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """`numpy.linalg.vector_norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    x = array_of(x)
    shape = shape_of(x)
    ndim = len(shape)
    if axis is None:
        axes = tuple(range(ndim))
        result = norm(reshape(x, shape=(aval_of(x).size,)), ord, axis=0)
    elif isinstance(axis, tuple):
        axes = normalize_axis_tuple(axis, ndim)
        rest = [i for i in range(ndim) if i not in axes]
        count = 1
        for i in axes:
            count *= shape[i]
        result = norm(reshape(permute(x, (*axes, *rest)), shape=(count, *[shape[i] for i in rest])), ord, axis=0)
    else:
        axes = (normalize_axis_index(axis, ndim),)
        result = norm(x, ord, axis=axes[0])
    return reshape(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else result


@implements("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """`numpy.linalg.matrix_norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    return norm(x, ord, axis=(-2, -1), keepdims=keepdims)


@implements("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    x = stack_of_matrices(x)
    shape = shape_of(x)
    if 0 in shape[-2:]:
        raise LinAlgError("cond is not defined on empty arrays")
    with np.errstate(all="ignore"):  # as NumPy's: a singular matrix has the condition number inf
        if p is None or p in (2, -2):
            s = eigen.svdvals(x)
            first, last = s[..., 0], s[..., -1]
            result = div(last, first) if p == -2 else div(first, last)
        else:
            x = square(x)
            result = mul(norm(x, p, axis=(-2, -1)), norm(linear_systems.inv(x, strict=False), p, axis=(-2, -1)))
        missing = reduce_any(isnan(x), axes=(len(shape) - 2, len(shape) - 1))
        return select(and_(isnan(result), not_(missing)), _INF, result)

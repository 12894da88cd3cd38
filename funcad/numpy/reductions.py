"""NumPy's reductions and cumulative functions: sum, prod, max, min, mean, any, all, argmax, cumsum; and `where`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.host.real_types import dtype_kind, is_a, wide
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import implements
from funcad.primitives import arithmetic, comparison, reduction
from funcad.primitives.conversion import convert
from funcad.primitives.reduction import variance
from funcad.primitives.shape import broadcast_to, concatenate, full, reshape
from funcad.unjitted.remembered import remembered

from funcad.numpy.promote import (  # isort: skip
    array_of, as_array, as_array_of_rank_0, axes_of, axis_of, broadcast, expand, fresh, promote, promote_dtype, ravelled,
    reduced_axes, result_dtype, same_aval,
)

_NO = np._NoValue
_FLOAT64, _INT64, _BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)


def _absent(value: Any) -> bool:
    return value is None or value is _NO


def everywhere(where: Any) -> bool:
    """No mask. None is one: NumPy takes it for False."""
    return where is True or where is _NO


def truth(x: Any) -> Any:
    """x != 0, as bool."""
    x = array_of(False if x is None else x)
    return x if aval_of(x).dtype == _BOOL else comparison.ne(x, aval_of(x).dtype.type(0))


def masked(x: Any, where: Any, fill: Any) -> Any:
    """x where the mask holds, `fill` elsewhere."""
    if everywhere(where):
        return x
    where = truth(where)
    aval = aval_of(x)
    shape = np.broadcast_shapes(aval.shape, shape_of(where))
    if aval.shape != shape:
        x, where = broadcast([x, where])
    elif shape_of(where) != shape:
        where = broadcast_to(where, shape)
    return comparison.select(where, x, full(aval.update(shape=shape), fill))


def _finish(result: Any, x: Any, axes: tuple, keepdims: Any) -> Any:
    if keepdims is _NO or not keepdims or not axes:
        return fresh(result) if result is x else result
    return reshape(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape_of(x))]))


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy sums and multiplies: small integers and bools are widened."""
    if dtype.kind in "bi" and dtype.itemsize < 8:
        return _INT64
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


class _Fold(NamedTuple):
    """A reduction, what combines two elements (or `initial` and the result), and what no elements give."""

    name: str
    reduce: Callable[..., Any]
    combine: Callable[..., Any]
    identity: int


_SUM = _Fold("np.sum", reduction.reduce_sum, arithmetic.add, 0)
_PROD = _Fold("np.prod", reduction.reduce_prod, arithmetic.mul, 1)


def _folded(fold: _Fold, a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    name, reduce, combine, identity = fold
    if type(a) is Tracer and dtype is None and (where is _NO or where is True) and _absent(initial):
        shape = a.shape
        if shape and a.dtype.kind in "fc":  # the common case
            axes = axes_of(axis, len(shape))
            return _finish(reduce(a, axes=axes), a, axes, keepdims)
    x = array_of(a)
    x = convert(x, _wide(aval_of(x).dtype) if dtype is None else np.dtype(dtype))
    x = masked(x, where, identity)
    axes = reduced_axes(axis, len(shape_of(x)))
    result = _finish(reduce(x, axes=axes), x, axes, keepdims)
    if not _absent(initial):
        result = combine(*promote(result, convert(array_of(initial), aval_of(x).dtype)))
    return result


@implements("sum")
def sum_(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NO,
    initial: Any = _NO,
    where: Any = _NO,
) -> Any:
    if type(a) is Tracer and dtype is None and out is None and initial is _NO and where is _NO:
        short = a.owner.short
        result = None if short is None else short.reduction(reduction.reduce_sum_p, a, axis, keepdims is not _NO and keepdims)
        if result is not None:
            return result
    return _folded(_SUM, a, axis, dtype, out, keepdims, initial, where)


@implements("prod", by_kind=True)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NO,
    initial: Any = _NO,
    where: Any = _NO,
) -> Any:
    return _folded(_PROD, a, axis, dtype, out, keepdims, initial, where)


def _extreme(
    name: str, reduce: Callable[..., Any], combine: Callable[..., Any],
    a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any,
) -> Any:  # fmt: skip
    if type(a) is Tracer and where is _NO and initial is _NO and a.shape and not a.aval.weak:  # the common case
        axes = axes_of(axis, len(a.shape))
        return _finish(reduce(a, axes=axes), a, axes, keepdims)
    x = array_of(a)
    aval = aval_of(x)
    axes = reduced_axes(axis, len(aval.shape))
    if not _absent(initial):
        initial = convert(array_of(initial), aval.dtype)
    if not everywhere(where):
        if _absent(initial):
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask one has to specify 'initial'"
            )
        x = masked(x, where, initial)
    if not _absent(initial) and any(aval.shape[i] == 0 for i in axes):
        shape = tuple([n for i, n in enumerate(aval.shape) if i not in axes])
        result = broadcast_to(initial, shape)
        return _finish(result, x, axes, keepdims)
    result = _finish(reduce(x, axes=axes), x, axes, keepdims)
    return result if _absent(initial) else combine(*promote(result, initial))


@implements("max", "amax")
def max_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NO, initial: Any = _NO, where: Any = _NO) -> Any:
    """`numpy.max`; where several elements are the largest, each gets an equal share of the derivative."""
    if type(a) is Tracer and out is None and initial is _NO and where is _NO:
        short = a.owner.short
        result = None if short is None else short.reduction(reduction.reduce_max_p, a, axis, keepdims is not _NO and keepdims)
        if result is not None:
            return result
    return _extreme("maximum", reduction.reduce_max, arithmetic.maximum, a, axis, out, keepdims, initial, where)


@implements("min", "amin")
def min_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NO, initial: Any = _NO, where: Any = _NO) -> Any:
    """`numpy.min`; where several elements are the smallest, each gets an equal share of the derivative."""
    if type(a) is Tracer and out is None and initial is _NO and where is _NO:
        short = a.owner.short
        result = None if short is None else short.reduction(reduction.reduce_min_p, a, axis, keepdims is not _NO and keepdims)
        if result is not None:
            return result
    return _extreme("minimum", reduction.reduce_min, arithmetic.minimum, a, axis, out, keepdims, initial, where)


@implements("ptp", by_kind=True)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NO) -> Any:
    return arithmetic.sub(max_(a, axis, keepdims=keepdims), min_(a, axis, keepdims=keepdims))


def _quantify(
    name: str, reduce: Callable[..., Any], neutral: bool, a: Any, axis: Any, out: Any, keepdims: Any, where: Any
) -> Any:
    x = masked(truth(a), where, neutral)
    axes = reduced_axes(axis, len(shape_of(x)))
    return _finish(reduce(x, axes=axes), x, axes, keepdims)


@implements("any")
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NO, *, where: Any = _NO) -> Any:
    return _quantify("np.any", reduction.reduce_any, False, a, axis, out, keepdims, where)


@implements("all")
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NO, *, where: Any = _NO) -> Any:
    return _quantify("np.all", reduction.reduce_all, True, a, axis, out, keepdims, where)


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return sum_(truth(a), axis=axis, keepdims=keepdims, dtype=_INT64)


def float_of(dtype: np.dtype) -> np.dtype:
    """The dtype of means and quantiles: float64 for integers."""
    return dtype if dtype_kind(dtype) in "fc" else _FLOAT64


def counted(x: Any, axes: tuple, where: Any) -> Any:
    """How many elements go into each result, as a Python int or (with a mask) an array that keeps its axes."""
    shape = shape_of(x)
    if where is None:
        raise TypeError("int() argument must be a string, a bytes-like object or a real number, not 'NoneType'")  # NumPy's
    if everywhere(where):
        n = 1
        for i in axes:
            n *= shape[i]
        return n
    mask = truth(where)
    mask = broadcast_to(mask, shape) if shape_of(mask) != shape else mask
    return sum_(mask, axis=axes, keepdims=True, dtype=_INT64)


@implements("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NO, *, where: Any = _NO) -> Any:
    if type(a) is Tracer and dtype is None and (where is _NO or where is True):
        short = a.owner.short
        total = None if short is None else short.reduction(reduction.reduce_sum_p, a, axis, keepdims is not _NO and keepdims)
        if total is not None:
            p = a.primal
            n = p.size if axis is None else p.shape[axis] if type(axis) is int else counted(a, axes_of(axis, p.ndim), True)
            return total / float(n)
        aval = a.aval
        if aval.dtype.kind in "fc" and aval.dtype.itemsize > 2 and not aval.weak:  # the common case
            axes = axes_of(axis, len(aval.shape))
            total = _finish(reduction.reduce_sum(a, axes=axes), a, axes, keepdims)
            return arithmetic.div(total, float(counted(a, axes, True)))
    x = array_of(a)
    own = aval_of(x).dtype
    target = float_of(own) if dtype is None else np.dtype(dtype)
    x = convert(x, wide(target) if dtype is None else target)
    axes = axes_of(axis, len(shape_of(x)))
    count = counted(x, axes, where)
    total = sum_(x, axis=axes, keepdims=True if type(count) is not int else keepdims, where=where)
    if type(count) is int:
        result = arithmetic.div(total, float(count))
    else:
        result = arithmetic.div(total, convert(count, aval_of(total).dtype))
        if keepdims is _NO or not keepdims:
            result = reshape(result, shape=tuple([n for i, n in enumerate(shape_of(x)) if i not in axes]))
    return convert(result, target)


def variance_in_one(x: Any, axis: Any, ddof: Any, keepdims: Any) -> Any:
    """The variance as one operation of a tape; None where it is not known to be an ordinary number."""
    shape, dtype = shape_of(x), dtype_of(x)
    if not shape or dtype.kind != "f" or dtype.itemsize < 4 or type(ddof) not in (int, float):
        return None
    axes = axes_of(axis, len(shape))
    if not axes or not counted(x, axes, True) > max(ddof, 0):
        return None
    return _finish(variance(x, axes=axes, ddof=ddof), x, axes, keepdims)


def _arg(name: str, primitive: Callable[..., Any], a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    x = array_of(a)
    ndim = len(shape_of(x))
    if axis is None or not ndim and not reduced_axes(axis, ndim):
        result = primitive(ravelled(x), axis=0)
        return result if keepdims is _NO or not keepdims else reshape(result, shape=(1,) * ndim)
    axis = axis_of(axis, ndim)
    result = primitive(x, axis=axis)
    return result if keepdims is _NO or not keepdims else expand(result, (axis,))


@implements("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NO) -> Any:
    return _arg("np.argmax", reduction.argmax, a, axis, out, keepdims)


@implements("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NO) -> Any:
    return _arg("np.argmin", reduction.argmin, a, axis, out, keepdims)


# -- cumulative


def _cumulative(name: str, primitive: Callable[..., Any], a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    x = array_of(a)
    x = convert(x, _wide(aval_of(x).dtype) if dtype is None else np.dtype(dtype))
    if axis is None or not shape_of(x):
        x, axis = ravelled(x), 0 if axis is None else axis
    return primitive(x, axis=axis_of(axis, len(shape_of(x))))


@implements("cumsum", by_kind=True)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _cumulative("np.cumsum", reduction.cumsum, a, axis, dtype, out)


@implements("cumprod", by_kind=True)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _cumulative("np.cumprod", reduction.cumprod, a, axis, dtype, out)


def cummax(a: Any, axis: int = 0, dtype: Any = None) -> Any:
    """What `np.maximum.accumulate` computes."""
    x = array_of(a)
    return reduction.cummax(x if dtype is None else convert(x, np.dtype(dtype)), axis=axis_of(axis, len(shape_of(x))))


def cummin(a: Any, axis: int = 0, dtype: Any = None) -> Any:
    """What `np.minimum.accumulate` computes."""
    x = array_of(a)
    return reduction.cummin(x if dtype is None else convert(x, np.dtype(dtype)), axis=axis_of(axis, len(shape_of(x))))


def _array_api(
    name: str, function: Callable[..., Any], start: int, x: Any, axis: Any, dtype: Any, out: Any, initial: bool
) -> Any:
    x = array_of(x)
    ndim = len(shape_of(x))
    if axis is None:
        if ndim != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    result = function(x, axis=axis, dtype=dtype)
    if not initial:
        return result
    aval = aval_of(result)
    axis = axis_of(axis, ndim)
    first = full(aval.update(shape=tuple([1 if i == axis else n for i, n in enumerate(aval.shape)])), start)
    return concatenate([first, result], axis=axis)


@implements("cumulative_sum", by_kind=True)
def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
    return _array_api("np.cumulative_sum", cumsum, 0, x, axis, dtype, out, include_initial)


@implements("cumulative_prod", by_kind=True)
def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
    return _array_api("np.cumulative_prod", cumprod, 1, x, axis, dtype, out, include_initial)


# -- choosing by a mask


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return np.nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    return as_array_of_rank_0(choice(condition, x, y))


def _choice(condition: Any, x: Any, y: Any) -> Any:
    """`np.where` with three arguments."""
    if type(condition) is np.ndarray and condition.dtype == bool and same_aval(x, y):  # the common case of a plain mask
        aval = x.aval if type(x) is Tracer else y.aval
        if aval.shape == condition.shape and not aval.weak:
            return comparison.select(condition, x, y)
    mask, x, y = truth(condition), as_array(x), as_array(y)
    dtype = result_dtype([x, y], False)[0]
    x, y = promote_dtype([x, y], dtype)
    if is_a(x, (int, float, complex)) and is_a(y, (int, float, complex)):
        x = dtype.type(x)
    return comparison.select(*broadcast([mask, x, y]))


choice = remembered(_choice, numbers=True)

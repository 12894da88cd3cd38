"""Comparison, logic, bits and tests of values: bool or integer results, which carry no derivative."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy import reductions
from funcad.numpy.axes import array_of
from funcad.numpy.creation import library
from funcad.numpy.dispatch import TABLE, elementwise_ufunc, implements, refuse
from funcad.numpy.promote import as_array, broadcast, promote, promote_dtype, result_dtype, same_aval, strong
from funcad.primitives import comparison, conversion
from funcad.primitives.shape import broadcast_to
from funcad.unjitted.remembered import remembered

ANY = "biufc"
INTEGER = "biu"


def compare(bound: Callable[..., Any], python: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """A comparison in which a Python integer may lie outside the other operand's dtype, as NumPy allows."""
    try:
        operands = promote(x, y)
    except OverflowError:
        answer = python(x if type(x) is int else 0, y if type(y) is int else 0)
        other = aval_of(y if type(x) is int else x)
        return broadcast_to(np.bool_(answer), other.shape) if other.shape else np.bool_(answer)
    return bound(*operands)


def _comparison(name: str, bound: Callable[..., Any], python: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    public = elementwise_ufunc(name, bound, ANY)
    fast = TABLE[getattr(np, name)]

    def implementation(x: Any, y: Any, *, dtype: Any = None) -> Any:
        if dtype is not None and np.dtype(dtype) != np.dtype(bool):
            refuse(f"np.{name}", dtype=dtype)
        if type(x) is int or type(y) is int:
            return strong(compare(bound, python, x, y))
        return fast(x, y)

    TABLE[getattr(np, name)] = implementation
    return public


equal = _comparison("equal", comparison.eq, operator.eq)
not_equal = _comparison("not_equal", comparison.ne, operator.ne)
less = _comparison("less", comparison.lt, operator.lt)
less_equal = _comparison("less_equal", comparison.le, operator.le)
greater = _comparison("greater", comparison.gt, operator.gt)
greater_equal = _comparison("greater_equal", comparison.ge, operator.ge)

logical_and = elementwise_ufunc("logical_and", comparison.logical_and, ANY, reduce=reductions.all_)
logical_or = elementwise_ufunc("logical_or", comparison.logical_or, ANY, reduce=reductions.any_)
logical_xor = elementwise_ufunc("logical_xor", comparison.logical_xor, ANY)
logical_not = elementwise_ufunc("logical_not", comparison.logical_not, ANY)

bitwise_and = elementwise_ufunc("bitwise_and", comparison.and_, INTEGER)
bitwise_or = elementwise_ufunc("bitwise_or", comparison.or_, INTEGER)
bitwise_xor = elementwise_ufunc("bitwise_xor", comparison.xor, INTEGER)
invert = elementwise_ufunc("invert", comparison.not_, INTEGER)
left_shift = elementwise_ufunc("left_shift", comparison.shift_left, "iu")
right_shift = elementwise_ufunc("right_shift", comparison.shift_right, "iu")

isnan = elementwise_ufunc("isnan", comparison.isnan, ANY)
isinf = elementwise_ufunc("isinf", comparison.isinf, ANY)
isfinite = elementwise_ufunc("isfinite", comparison.isfinite, ANY)
signbit = elementwise_ufunc("signbit", comparison.signbit, "f")


@implements("isposinf")
def isposinf(x: Any, out: Any = None) -> Any:
    refuse("np.isposinf", out=out)
    return comparison.logical_and(isinf(x), logical_not(signbit(x)))


@implements("isneginf")
def isneginf(x: Any, out: Any = None) -> Any:
    refuse("np.isneginf", out=out)
    return comparison.logical_and(isinf(x), signbit(x))


def _constant(x: Any, value: bool) -> Any:
    return library(like=x).full(shape_of(x), value)[()]


@implements("isreal")
def isreal(x: Any) -> Any:
    x = array_of(x)
    if aval_of(x).dtype.kind != "c":
        return _constant(x, True)
    return equal(conversion.imag(x), 0.0)


@implements("iscomplex")
def iscomplex(x: Any) -> Any:
    x = array_of(x)
    return not_equal(conversion.imag(x), 0.0) if aval_of(x).dtype.kind == "c" else _constant(x, False)


@implements("isclose")
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    a, b = promote(array_of(a), array_of(b))
    if aval_of(b).dtype.kind in "biu":
        a, b = conversion.convert(a, np.dtype(float)), conversion.convert(b, np.dtype(float))
    a, b = conversion.stop_gradient(a), conversion.stop_gradient(b)
    with np.errstate(invalid="ignore", over="ignore"):
        bound = np.add(atol, np.multiply(rtol, np.abs(b)))
        close = np.less_equal(np.abs(np.subtract(a, b)), bound)
        close = np.logical_or(np.logical_and(close, np.isfinite(b)), np.equal(a, b))
    if equal_nan:
        close = np.logical_or(close, np.logical_and(np.isnan(a), np.isnan(b)))
    return close


@implements("allclose")
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """`numpy.allclose`; a traced bool where the values are not known yet."""
    return _python_bool(reductions.all_(isclose(a, b, rtol, atol, equal_nan)))


def _python_bool(x: Any) -> Any:
    return x if type(x) is Tracer else bool(x)


@implements("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """`numpy.array_equal`; a traced bool where the values are not known yet."""
    a1, a2 = array_of(a1), array_of(a2)
    if shape_of(a1) != shape_of(a2):
        return False
    same = equal(a1, a2)
    if equal_nan:
        same = logical_or(same, logical_and(isnan(a1), isnan(a2)))
    return _python_bool(reductions.all_(same))


@implements("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    """`numpy.array_equiv`; a traced bool where the values are not known yet."""
    a1, a2 = array_of(a1), array_of(a2)
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return False
    return _python_bool(reductions.all_(equal(a1, a2)))


# -- choosing


def choice(condition: Any, x: Any, y: Any) -> Any:
    """`np.where` with three arguments."""
    trace = x.owner if type(x) is Tracer else y.owner if type(y) is Tracer else None
    if trace is not None and trace.tape is not None and type(condition) is np.ndarray:
        out = trace.tape.choice(condition, x, y)
        if out is not None:
            return out
    return _remembered_choice(condition, x, y)


def _choice(condition: Any, x: Any, y: Any) -> Any:
    if type(condition) is np.ndarray and condition.dtype == bool and same_aval(x, y):  # the common case of a plain mask
        aval = x.aval if type(x) is Tracer else y.aval
        if aval.shape == condition.shape and not aval.weak:
            return comparison.select(condition, x, y)
    mask, x, y = reductions.truth(condition), as_array(x), as_array(y)
    dtype = result_dtype([x, y])[0]
    x, y = promote_dtype([x, y], dtype)
    if is_a(x, (int, float, complex)) and is_a(y, (int, float, complex)):
        x = dtype.type(x)
    return comparison.select(*broadcast([mask, x, y]))


_remembered_choice = remembered(_choice, numbers=True)


# -- questions about shape and dtype, answered without a value


def _plain(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
    answer.__name__ = name
    return implements(name)(answer)


shape = _plain("shape", lambda a: shape_of(array_of(a)))
ndim = _plain("ndim", lambda a: len(shape_of(array_of(a))))


@implements("size")
def size(a: Any, axis: Any = None) -> int:
    own = shape_of(array_of(a))
    if axis is None:
        return int(np.prod(own, dtype=np.int64))
    return int(np.prod([own[i] for i in (axis if isinstance(axis, tuple) else (axis,))], dtype=np.int64))


iscomplexobj = _plain("iscomplexobj", lambda x: aval_of(array_of(x)).dtype.kind == "c")
isrealobj = _plain("isrealobj", lambda x: aval_of(array_of(x)).dtype.kind != "c")


@implements("isscalar")
def isscalar(element: Any) -> bool:
    """`numpy.isscalar`: also true for a traced number, not for a traced array of rank 0."""
    return np.isscalar(element)


def _stand_in(x: Any) -> Any:
    """What NumPy's dtype functions can look at instead of a traced value."""
    if type(x) is not Tracer:
        return x
    aval = x.aval
    if aval.weak:
        return {"b": False, "i": 0, "f": 0.0, "c": 0j}[aval.dtype.kind]
    return aval.dtype


@implements("result_type")
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    return np.result_type(*[_stand_in(x) for x in arrays_and_dtypes])


@implements("can_cast")
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(aval_of(from_).dtype if type(from_) is Tracer else from_, to, casting)


@implements("common_type")
def common_type(*arrays: Any) -> Any:
    return np.common_type(*[np.empty(0, aval_of(array_of(a)).dtype) for a in arrays])


@implements("min_scalar_type")
def min_scalar_type(a: Any) -> np.dtype:
    return aval_of(a).dtype

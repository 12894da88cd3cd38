"""NumPy's questions: tests of values, whose results are bools without a derivative, and what shapes and dtypes tell.

Apart from elementwise.py, which many first gradients load for `clip`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import implements
from funcad.numpy.promote import array_of, library, promote, python_number
from funcad.primitives import comparison, conversion

ufuncs = OnDemand("funcad.numpy.ufuncs")

# -- tests of values: bool results, which carry no derivative


@implements("isposinf")
def isposinf(x: Any, out: Any = None) -> Any:
    return comparison.logical_and(ufuncs.isinf(x), ufuncs.logical_not(ufuncs.signbit(x)))


@implements("isneginf")
def isneginf(x: Any, out: Any = None) -> Any:
    return comparison.logical_and(ufuncs.isinf(x), ufuncs.signbit(x))


def _constant(x: Any, value: bool) -> Any:
    return library(like=x).full(shape_of(x), value)[()]


@implements("isreal")
def isreal(x: Any) -> Any:
    x = array_of(x)
    if aval_of(x).dtype.kind != "c":
        return _constant(x, True)
    return ufuncs.equal(conversion.imag(x), 0.0)


@implements("iscomplex")
def iscomplex(x: Any) -> Any:
    x = array_of(x)
    return ufuncs.not_equal(conversion.imag(x), 0.0) if aval_of(x).dtype.kind == "c" else _constant(x, False)


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
    return python_number(np.all(isclose(a, b, rtol, atol, equal_nan)))


@implements("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """`numpy.array_equal`; a traced bool where the values are not known yet."""
    a1, a2 = array_of(a1), array_of(a2)
    if shape_of(a1) != shape_of(a2):
        return False
    same = ufuncs.equal(a1, a2)
    if equal_nan:
        same = ufuncs.logical_or(same, ufuncs.logical_and(ufuncs.isnan(a1), ufuncs.isnan(a2)))
    return python_number(np.all(same))


@implements("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    """`numpy.array_equiv`; a traced bool where the values are not known yet."""
    a1, a2 = array_of(a1), array_of(a2)
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return False
    return python_number(np.all(ufuncs.equal(a1, a2)))


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

"""NumPy's elementwise functions that are no ufuncs: rounding, parts of complex numbers, tests of values, choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.errors import TracerBoolConversionError
from funcad.host.conversions import given
from funcad.host.real_types import FLOAT32, NARROW, finfo, is_a, is_narrow
from funcad.host.where import written_for_others
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy import reductions
from funcad.numpy.dispatch import checked_options, implements, refuse, where_am_i
from funcad.numpy.reductions import truth
from funcad.primitives import arithmetic, comparison, conversion, transcendental
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.shape import broadcast_to
from funcad.unjitted.remembered import remembered

from funcad.numpy.promote import (  # isort: skip
    apart, array_of, arrays, as_array, as_array_of_rank_0, broadcast, fresh, library, numbers, promote,
    promote_dtype, promote_for, result_dtype, same_aval, strong,
)

strides, ufuncs = OnDemand("funcad.unjitted.strides"), OnDemand("funcad.numpy.ufuncs")

# -- not ufuncs


@implements("real_if_close", alias="same")
@arrays
def real_if_close(a: Any, tol: float = 100) -> Any:
    """`numpy.real_if_close`, where values are known: the dtype of the result depends on them."""
    x = array_of(a)
    dtype = aval_of(x).dtype
    if dtype.kind != "c":
        return x
    value = concrete_value(x)
    if type(value) is Tracer:
        raise TracerBoolConversionError(
            f"the dtype of np.real_if_close's result depends on the values of a traced {aval_of(x)}{where_am_i()}, but inside "
            f"{value.owner.name} it has no value.\nRemedy: np.real(x)."
        )
    limit = tol * np.finfo(dtype).eps if tol > 1 else tol
    return real(x) if np.all(np.absolute(np.imag(value)) < limit) else x


@implements("sinc", by_kind=True)
def sinc(x: Any) -> Any:
    x = array_of(x)
    return transcendental.sinc(conversion.convert(x, np.result_type(aval_of(x).dtype, 1.0)))


@implements("clip", by_kind=True, numbers=True)
@apart
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """`numpy.clip`; the bounds are differentiable; where x equals one, each gets half the derivative (as `maximum`)."""
    low, high = a_min if min is None else min, a_max if max is None else max
    a = array_of(a)
    if NARROW and is_narrow(aval_of(a).dtype) and not written_for_others():  # NumPy has no loop for these
        a = conversion.convert(a, FLOAT32)
    if aval_of(a).dtype.kind in "iu":  # Python integers beyond what the dtype holds bound nothing
        limits = np.iinfo(aval_of(a).dtype)
        low = None if type(low) is int and low < limits.min else low
        high = None if type(high) is int and high > limits.max else high
    if low is not None:
        a = ufuncs.maximum(a, low)
    if high is not None:
        a = ufuncs.minimum(a, high)
    return a


@implements("round", "around")
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    a = as_array(a)
    aval = aval_of(a)
    if aval.dtype.kind == "b":
        np.round(np.ones(1, bool), decimals)  # which raises, unless there are no decimals
        return ufuncs.rint(a)
    if aval.dtype.kind in "iu":
        if decimals < 0:
            scale = 10**-decimals
            return conversion.convert(arithmetic.mul(arithmetic.rint(arithmetic.div(a, scale)), float(scale)), aval.dtype)
        return fresh(strong(a))
    if decimals == 0:
        return ufuncs.rint(a)
    if aval.dtype.kind == "c":
        return conversion.make_complex(round_(conversion.real(a), decimals), round_(conversion.imag(a), decimals))
    scale = 10.0 ** abs(decimals)
    up, down = (arithmetic.mul, arithmetic.div) if decimals > 0 else (arithmetic.div, arithmetic.mul)
    result = down(ufuncs.rint(up(a, scale)), scale)
    own = concrete_value(a)
    if type(result) is np.ndarray and type(own) is np.ndarray and own.ndim > 1:  # as NumPy lays it out
        result = np.asarray(result, order="F" if own.flags.fnc else "C")
    return strides.doubt(given(result))


@implements("fix")
def fix(x: Any, out: Any = None) -> Any:
    return ufuncs.trunc(x)


@implements("real", alias="same")
def real(val: Any) -> Any:
    val = as_array(val)
    return conversion.real(val) if aval_of(val).dtype.kind == "c" else val


@implements("imag", alias="view")
def imag(val: Any) -> Any:
    val = as_array(val)
    aval = aval_of(val)
    return conversion.imag(val) if aval.dtype.kind == "c" else given(library(like=val).zeros(aval.shape, aval.dtype)[()])


@implements("angle")
def angle(z: Any, deg: bool = False) -> Any:
    z = as_array(z)
    result = ufuncs.arctan2(imag(z), real(z))
    return strides.doubt(ufuncs.rad2deg(result) if deg else result)


@implements("nan_to_num", alias="same")
@numbers
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """`numpy.nan_to_num`; the derivative is 0 where a value is replaced. `copy=False` is refused on traced values."""
    if not copy:
        refuse("np.nan_to_num", copy=False)
    x = strong(as_array(x))
    dtype = aval_of(x).dtype
    if dtype.kind in "biu":
        return fresh(x)
    if dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (real(x), imag(x))]
        return conversion.make_complex(*promote(*parts))
    limits = finfo(dtype)
    positive, negative = [comparison.eq(x, dtype.type(end)) for end in (np.inf, -np.inf)]  # before nan becomes one of them
    x = _replace(comparison.isnan(x), nan, x)
    x = _replace(positive, limits.max if posinf is None else posinf, x)
    return _replace(negative, limits.min if neginf is None else neginf, x)


def _replace(mask: Any, value: Any, x: Any) -> Any:
    aval = aval_of(x)
    value = np.asarray(value, aval.dtype) if not isinstance(value, Tracer) else conversion.convert(value, aval.dtype)
    return comparison.select(mask, broadcast_to(value, aval.shape), x)


@implements("divmod")
def divmod_(x1: Any, x2: Any, /, **options: Any) -> tuple:
    return ufuncs.floor_divide(x1, x2, **options), ufuncs.remainder(x1, x2, **options)


@implements("modf")
def modf(x: Any, /, **options: Any) -> tuple:
    return arithmetic.modf(*promote_for(np.sin, (x,), checked_options(np.modf, (), options).get("dtype")))


@implements("frexp")
def frexp(x: Any, /, **options: Any) -> tuple:
    refuse("np.frexp", **checked_options(np.frexp, (), options))
    return arithmetic.frexp(*promote_for(np.sin, (x,)))


@implements("ldexp")
def ldexp(x1: Any, x2: Any, /, **options: Any) -> Any:
    refuse("np.ldexp", **checked_options(np.ldexp, (), options))
    x, n = strong(as_array(x1)), strong(as_array(x2))
    (x,) = promote_for(np.sin, (x,))
    x, n = broadcast([x, n])
    return arithmetic.ldexp(x, n)


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
    return _python_bool(reductions.all_(isclose(a, b, rtol, atol, equal_nan)))


def _python_bool(x: Any) -> Any:
    return x if type(x) is Tracer else bool(x)


@implements("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """`numpy.array_equal`; a traced bool where the values are not known yet."""
    a1, a2 = array_of(a1), array_of(a2)
    if shape_of(a1) != shape_of(a2):
        return False
    same = ufuncs.equal(a1, a2)
    if equal_nan:
        same = ufuncs.logical_or(same, ufuncs.logical_and(ufuncs.isnan(a1), ufuncs.isnan(a2)))
    return _python_bool(reductions.all_(same))


@implements("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    """`numpy.array_equiv`; a traced bool where the values are not known yet."""
    a1, a2 = array_of(a1), array_of(a2)
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return False
    return _python_bool(reductions.all_(ufuncs.equal(a1, a2)))


# -- choosing


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
    mask, x, y = reductions.truth(condition), as_array(x), as_array(y)
    dtype = result_dtype([x, y], False)[0]
    x, y = promote_dtype([x, y], dtype)
    if is_a(x, (int, float, complex)) and is_a(y, (int, float, complex)):
        x = dtype.type(x)
    return comparison.select(*broadcast([mask, x, y]))


choice = remembered(_choice, numbers=True)


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


# -- choosing among arrays by conditions or positions: select, piecewise and choose, which are made of `where`


@implements("select")
@arrays
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    for i, condition in enumerate(condlist):
        if aval_of(array_of(condition)).dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    result = default
    for condition, chosen in zip(reversed(condlist), reversed(choicelist)):
        result = choice(condition, chosen, result)
    return np.asarray(result, order="C") if type(result) is np.ndarray else strides.doubt(result)


@implements("piecewise")
@arrays
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """`numpy.piecewise`; every function is applied to all of x (masked elements get no derivative from it)."""
    x = array_of(x)
    if not isinstance(condlist, (list, tuple)) and not np.ndim(condlist) or not np.ndim(condlist[0]) and shape_of(x):
        condlist = [condlist]
    conditions = [truth(c) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected"
        )
    dtype = aval_of(x).dtype
    if len(functions) == len(conditions) + 1:
        conditions.append(np.logical_not(np.any(np.stack(conditions), axis=0)))
    result = broadcast_to(dtype.type(0), shape_of(x))
    for condition, function in zip(conditions, functions):
        value = function(_inside(x, condition), *args, **kw) if callable(function) else function
        result = choice(condition, convert(array_of(value), dtype), result)
    return strides.doubt(result)


def _inside(x: Any, condition: Any) -> Any:
    """x where the condition holds, elsewhere its stop_gradient: no derivative leaks from there."""
    return choice(condition, x, stop_gradient(x))


@implements("choose")
@numbers
@apart
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    index, options = array_of(a), [array_of(c) for c in choices]
    n = len(options)
    if mode == "wrap":
        index = np.remainder(index, n)
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    elif type(concrete_value(index)) is not Tracer and np.any((concrete_value(index) < 0) | (concrete_value(index) >= n)):
        raise ValueError("invalid entry in choice array")
    result = options[-1]
    for i in range(n - 2, -1, -1):
        result = choice(np.equal(index, i), options[i], result)
    return strides.doubt(broadcast_to(result, np.broadcast_shapes(shape_of(index), shape_of(result))))

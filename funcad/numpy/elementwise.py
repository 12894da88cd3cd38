"""NumPy's elementwise functions that are no ufuncs: rounding, parts of complex numbers."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.errors import TracerBoolConversionError
from funcad.host.conversions import given
from funcad.host.real_types import FLOAT32, NARROW, finfo, is_narrow
from funcad.host.where import written_for_others
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.numpy.dispatch import checked_options, implements, refuse, where_am_i
from funcad.numpy.views import destination
from funcad.primitives import arithmetic, comparison, conversion, transcendental
from funcad.primitives.shape import broadcast_to
from funcad.writes.boxes import assign, is_array

from funcad.numpy.promote import (  # isort: skip
    apart, array_of, arrays, as_array, broadcast, fresh, numbers, promote, promote_for, strong,
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
    return ufuncs.real(x) if np.all(np.absolute(np.imag(value)) < limit) else x


@implements("sinc", by_kind=True)
def sinc(x: Any) -> Any:
    x = array_of(x)
    return transcendental.sinc(conversion.convert(x, np.result_type(aval_of(x).dtype, 1.0)))


@implements("clip", by_kind=True, numbers=True)
@apart
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, dtype: Any = None,
    where: Any = True, casting: Any = "same_kind",
) -> Any:  # fmt: skip
    """`numpy.clip`; the bounds are differentiable; where x equals one, each gets half the derivative (as `maximum`)."""
    refuse("np.clip", where=None if where is True else where, casting=None if casting == "same_kind" else casting)
    if not (a_min is a_max is None or min is max is None):
        raise ValueError("np.clip takes a_min and a_max or `min` and `max`, not both")
    low, high = a_min if min is None else min, a_max if max is None else max
    a = array_of(a)
    if NARROW and is_narrow(aval_of(a).dtype) and not written_for_others():  # NumPy has no loop for these
        a = conversion.convert(a, FLOAT32)
    if dtype is None and aval_of(a).dtype.kind in "iu":  # Python integers beyond what the dtype holds bound nothing
        limits = np.iinfo(aval_of(a).dtype)
        low = None if type(low) is int and low < limits.min else low
        high = None if type(high) is int and high > limits.max else high
    options = {} if dtype is None else {"dtype": dtype}  # without options there are short ways
    if low is not None:
        a = ufuncs.maximum(a, low, **options)
    if high is not None:
        a = ufuncs.minimum(a, high, **options)
    return a


@implements("round", "around")
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    a, decimals = as_array(a), index(decimals)
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


@implements("angle")
def angle(z: Any, deg: bool = False) -> Any:
    z = as_array(z)
    result = ufuncs.arctan2(ufuncs.imag(z) if aval_of(z).dtype.kind == "c" else 0, ufuncs.real(z))
    return strides.doubt(ufuncs.rad2deg(result) if deg else result)


@implements("nan_to_num", alias="same")
@numbers
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """`numpy.nan_to_num`; the derivative is 0 where a value is replaced."""
    if not copy:
        if type(x) is not np.ndarray and not (type(x) is Tracer and is_array(x)):
            np.array(0.0 if type(x) is Tracer else [], copy=False)  # NumPy's error, which has to copy it
        x = destination(x, "np.nan_to_num(..., copy=False)")
        assign(x, nan_to_num(snapshot(x), True, nan, posinf, neginf))
        return x
    x = strong(as_array(x))
    dtype = aval_of(x).dtype
    if dtype.kind in "biu":
        return fresh(x)
    if dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (ufuncs.real(x), ufuncs.imag(x))]
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
    return arithmetic.ldexp(x, broadcast_to(n, shape_of(x)))  # a number of another dtype is no scalar beside x

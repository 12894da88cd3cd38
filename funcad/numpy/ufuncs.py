"""NumPy's ufuncs: arithmetic, transcendental functions, rounding, comparison, logic and bits; and parts of complex numbers.

Idea: what a ufunc means on traced values is an entry of `UFUNCS`; the public function, and the entry of `dispatch.TABLE`, are
made when the ufunc is first asked for, since a program uses few of them. A function's result is strong (`np.multiply(x, 2.0)`
is a np.float64) where an operator's between Python scalars is weak; which dtype an operand is converted to is NumPy's own table
of loops (`promote_for`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.conversions import given
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of
from funcad.numpy import reductions
from funcad.numpy.dispatch import TABLE, elementwise_ufunc, implements, laid_out, refuse
from funcad.numpy.promote import as_array, as_number, fresh, library, promote, strong
from funcad.primitives import arithmetic, comparison, conversion, transcendental
from funcad.primitives.shape import broadcast_to


@implements("real", alias="same")
def real(val: Any) -> Any:
    val = as_array(val)
    return val.real if aval_of(val).dtype.kind == "c" else val


@implements("imag", alias="view")
def imag(val: Any) -> Any:
    val = as_array(val)
    aval = aval_of(val)
    return val.imag if aval.dtype.kind == "c" else given(library(like=val).zeros(aval.shape, aval.dtype)[()])


def conj_(x: Any) -> Any:
    return conversion.conj(x) if aval_of(x).dtype.kind == "c" else fresh(laid_out(x, "K"))


def _to_radians(x: Any) -> Any:
    return arithmetic.mul(x, np.deg2rad(aval_of(x).dtype.type(1)))


def _to_degrees(x: Any) -> Any:
    return arithmetic.mul(x, np.rad2deg(aval_of(x).dtype.type(1)))


def exponent_of(y: Any) -> Any:
    """The exponent as a Python number if it is a plain scalar, else None."""
    kind = type(y)
    if kind is int or kind is float:
        return y
    if is_a(y, (np.floating, np.integer)) and not is_a(y, np.longdouble):
        return y.item()
    return None


def power_of(x: Any, y: Any) -> Any:
    """x ** y for operands of one dtype and one shape; constant exponents go to the cheap primitives."""
    n = exponent_of(y)
    kind = aval_of(x).dtype.kind
    if n is None or kind == "b":
        return transcendental.pow(x, y)
    if kind in "iu":
        if n < 0:
            raise ValueError("Integers to negative integer powers are not allowed.")
        return arithmetic.square(x) if n == 2 else arithmetic.integer_pow(x, int(n))
    if n == 2:
        return arithmetic.square(x)
    if n == 0.5:
        return arithmetic.sqrt(x)
    if n == int(n) if math.isfinite(n) and abs(n) < 2**31 else False:
        return arithmetic.integer_pow(x, int(n))
    return transcendental.pow(x, y)


def compare(bound: Callable[..., Any], python: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """A comparison in which a Python integer may lie outside the other operand's dtype, as NumPy allows."""
    try:
        operands = promote(x, y)
    except OverflowError:
        answer = python(x if type(x) is int else 0, y if type(y) is int else 0)
        other = aval_of(y if type(x) is int else x)
        return broadcast_to(np.bool_(answer), other.shape) if other.shape else np.bool_(answer)
    return bound(*operands)


def _of_module(module: Any, names: str, kinds: str, by_kind: bool = True) -> dict[str, tuple[Any, str, bool]]:
    return {name: (getattr(module, name), kinds, by_kind) for name in names.split()}


_ANY, _ARITHMETIC, _INTEGER, _REAL = "biufc", "iufc", "biu", "iuf"
_COMPARED = {  # the operator that says it of Python's integers
    "equal": (comparison.eq, operator.eq), "not_equal": (comparison.ne, operator.ne), "less": (comparison.lt, operator.lt),
    "less_equal": (comparison.le, operator.le), "greater": (comparison.gt, operator.gt),
    "greater_equal": (comparison.ge, operator.ge),
}  # fmt: skip
_METHODS: dict[str, dict[str, Any]] = {
    "add": {"reduce": reductions.sum_, "accumulate": reductions.cumsum},
    "multiply": {"reduce": reductions.prod, "accumulate": reductions.cumprod},
    "maximum": {"reduce": reductions.max_, "accumulate": reductions.cummax},
    "minimum": {"reduce": reductions.min_, "accumulate": reductions.cummin},
    "logical_and": {"reduce": reductions.all_},
    "logical_or": {"reduce": reductions.any_},
}
UFUNCS: dict[str, tuple[Callable[..., Any], str, bool]] = {  # name -> what it is, the dtypes that it keeps, and is it `by_kind`
    "add": (arithmetic.add, _ARITHMETIC, True),
    "subtract": (arithmetic.sub, _ARITHMETIC, True),
    "multiply": (arithmetic.product, _ARITHMETIC, True),
    "divide": (arithmetic.div, "fc", True),
    "negative": (arithmetic.neg, _ARITHMETIC, True),
    "positive": (lambda x: as_number(fresh(laid_out(x, "K"))), _ARITHMETIC, True),
    "remainder": (arithmetic.mod, _REAL, True),
    "absolute": (arithmetic.abs_, _ARITHMETIC, True),
    "fabs": (arithmetic.abs_, "f", True),
    "conjugate": (conj_, _ARITHMETIC, True),
    "power": (power_of, _ARITHMETIC, False),
    "float_power": (power_of, "", False),
    **dict.fromkeys(["deg2rad", "radians"], (_to_radians, "f", True)),
    **dict.fromkeys(["rad2deg", "degrees"], (_to_degrees, "f", True)),
    **_of_module(arithmetic, "floor_divide fmod", _REAL),
    **_of_module(arithmetic, "sign", _ARITHMETIC, False),
    **_of_module(arithmetic, "square reciprocal maximum minimum fmax fmin", _ARITHMETIC),
    **_of_module(arithmetic, "sqrt", "fc"),
    **_of_module(arithmetic, "floor ceil trunc", "f", False),
    **_of_module(arithmetic, "rint", "fc", False),
    **_of_module(arithmetic, "cbrt copysign nextafter hypot heaviside", "f"),
    **_of_module(transcendental, "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan", "fc"),
    **_of_module(transcendental, "sinh cosh tanh arcsinh arccosh arctanh", "fc"),
    **_of_module(transcendental, "arctan2 logaddexp logaddexp2", "f"),
    **_of_module(comparison, "logical_and logical_or logical_xor logical_not isnan isinf isfinite", _ANY, False),
    **_of_module(comparison, "signbit", "f", False),
    "bitwise_and": (comparison.and_, _INTEGER, True),
    "bitwise_or": (comparison.or_, _INTEGER, True),
    "bitwise_xor": (comparison.xor, _INTEGER, True),
    "invert": (comparison.not_, _INTEGER, True),
    "left_shift": (comparison.shift_left, "iu", True),
    "right_shift": (comparison.shift_right, "iu", True),
    **{name: (bound, _ANY, False) for name, (bound, _) in _COMPARED.items()},
}


def __getattr__(name: str) -> Any:
    """The public function of a ufunc, which is made now."""
    if name not in UFUNCS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    bound, kinds, by_kind = UFUNCS[name]
    made = globals()[name] = elementwise_ufunc(name, bound, kinds, by_kind=by_kind, **_METHODS.get(name, {}))
    if name in _COMPARED:
        TABLE[getattr(np, name)] = _comparison(name, *_COMPARED[name])
    return made


def _comparison(name: str, bound: Callable[..., Any], python: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    fast = TABLE[getattr(np, name)]

    def implementation(x: Any, y: Any, *, dtype: Any = None) -> Any:
        if dtype is not None and np.dtype(dtype) != np.dtype(bool):
            refuse(f"np.{name}", dtype=dtype)
        if type(x) is int or type(y) is int:
            return strong(compare(bound, python, x, y))
        return fast(x, y)

    return implementation

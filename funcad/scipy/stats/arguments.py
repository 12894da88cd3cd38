"""Arguments as the formulas take them, and special functions on operands of different shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.host.user_warnings import restore_warnings, suppress_warnings
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import as_array, promote, promote_dtype, result_dtype
from funcad.primitives import special as _special
from funcad.primitives.placement import capture_as_inputs

__all__ = ["floats", "poisoned", "quietly", "replaced", "special"]

_FLOAT64 = np.dtype(np.float64)


class _Special:
    """The special functions on operands that need not have one shape: `special.gammaln(x)`."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(_special, name)

        def call(*args: Any) -> Any:
            operands = promote(*args)
            dtype = next((dtype_of(a) for a in operands if type(a) is not float), _FLOAT64)
            return function(*[dtype.type(a) if type(a) is float else a for a in operands])  # SciPy takes floats for float64

        call.__name__ = name
        setattr(self, name, call)
        return call


special = _Special()


def floats(*args: Any) -> list[Any]:
    """The arguments as values of one float dtype, in their own shapes; integers adapt, complex numbers raise."""
    values = [as_array(a) for a in args]
    avals = [aval_of(v) for v in values]
    strong = [v for v, a in zip(values, avals) if a.dtype.kind == "f" and not a.weak]
    for a in avals:
        if a.dtype.kind == "c":
            raise TypeError(f"distributions take real numbers, got {a}; take np.real first")
    dtype = result_dtype(strong)[0] if strong else _FLOAT64
    values = promote_dtype(capture_as_inputs(values, values), dtype)
    return [dtype.type(v) if type(v) is float else v for v in values]


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """The function's value, without NumPy's warnings about what is replaced afterwards."""
    token = suppress_warnings()
    try:
        return function(*args)
    finally:
        restore_warnings(token)


def _holds(condition: Any) -> bool:
    """Is the condition known to be true everywhere?"""
    return condition is True or type(condition) is not Tracer and bool(condition.all())


def poisoned(x: Any, *conditions: Any) -> Any:
    """x, NaN where a condition fails, and so is its derivative: a product, since `where` would say that x is not looked at."""
    for condition in conditions:
        if not _holds(condition):
            kind = np.result_type(aval_of(x).dtype, np.float16).type
            x = x * fnp.where(condition, kind(1), kind(np.nan))
    return x


def replaced(x: Any, condition: Any, value: Any) -> Any:
    """x, with another value where the condition holds."""
    if type(condition) is not Tracer and not condition.any():
        if shape_of(condition) == shape_of(x):
            return x
    return fnp.where(condition, value, x)

"""The namespace of the array API standard, revision 2024.12: what `x.__array_namespace__()` of a traced value gives.

Idea: all of `funcad.numpy`, with the standard's answer where NumPy's is another one. Where a function must follow NumPy (a
plain `np.floor_divide(x, y)` of traced values gives what it gives un-traced), it cannot follow the standard as well, so the few
that differ stand here a second time: lists of arrays, `finfo` and `iinfo` of arrays, and special cases of `floor_divide`,
`pow`, `expm1` and `sign`. Operators are NumPy's. Invariant: between special cases each function here is NumPy's own, bit for
bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.host.real_types import dtype_kind, is_a
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import array_of
from funcad.primitives.conversion import make_complex

__all__ = ["acosh", "broadcast_arrays", "clip", "expm1", "finfo", "floor_divide", "iinfo", "meshgrid", "pow", "sign"]


def __getattr__(name: str) -> Any:
    return getattr(fnp, name)


def __dir__() -> list[str]:
    return sorted({*dir(fnp), *__all__})


# -- data types


def _dtype_asked(type: Any) -> np.dtype:
    """The dtype of an array, a traced value or a NumPy scalar; or the dtype itself."""
    if is_a(type, (Tracer, np.ndarray, np.generic)):
        return aval_of(type).dtype
    own = getattr(type, "dtype", None)  # of a device array; classes of scalars have a descriptor there
    return own if isinstance(own, np.dtype) else np.dtype(type)


class _Limits:
    """What the standard names, as Python's numbers; any other attribute of NumPy's object is NumPy's."""

    _fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_numpy"], name)

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!s}" for name in self._fields])
        return f"{type(self).__name__}({values})"


class finfo(_Limits):
    """The limits of a floating-point dtype, or of an array's; a complex one stands for its parts.

    Parameters
    ----------
    type: a dtype, an array or a traced value.

    `bits` is an int; `eps`, `max`, `min` and `smallest_normal` are Python floats where NumPy has scalars of the dtype.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.finfo(np.zeros(3, np.complex64)).eps
    1.1920928955078125e-07
    """

    _fields = ("bits", "eps", "max", "min", "smallest_normal", "dtype")

    def __init__(self, type: Any, /) -> None:
        info = np.finfo(_dtype_asked(type))
        python: Any = float if info.dtype.itemsize <= 8 else info.dtype.type  # a long double is more than a Python float
        self._numpy = info
        self.bits = int(info.bits)
        self.eps = python(info.eps)
        self.max = python(info.max)
        self.min = python(info.min)
        self.smallest_normal = python(info.smallest_normal)
        self.dtype = info.dtype


class iinfo(_Limits):
    """The limits of an integer dtype, or of an array's.

    Parameters
    ----------
    type: a dtype, an array or a traced value.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.iinfo(np.zeros(3, np.int8)).max
    127
    """

    _fields = ("bits", "max", "min", "dtype")

    def __init__(self, type: Any, /) -> None:
        info = np.iinfo(_dtype_asked(type))
        self._numpy = info
        self.bits = int(info.bits)
        self.max = int(info.max)
        self.min = int(info.min)
        self.dtype = np.dtype(info.dtype)


# -- lists of arrays


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The arrays, broadcast against one another: a list, where NumPy's is a tuple.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.broadcast_arrays(np.zeros(2), np.ones(1))
    [array([0., 0.]), array([1., 1.])]
    """
    return list(fnp.broadcast_arrays(*arrays))


def meshgrid(*arrays: Any, indexing: str = "xy", **options: Any) -> list[Any]:
    """Matrices of coordinates: a list, where NumPy's is a tuple. `options` are NumPy's sparse= and copy=.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.meshgrid(np.zeros(1), np.ones(1))
    [array([[0.]]), array([[1.]])]
    """
    return list(fnp.meshgrid(*arrays, indexing=indexing, **options))


# -- elementwise functions


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Each element brought between the bounds; None is no bound. `numpy.clip` by the standard's names.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.clip(np.array([1.0, 5.0]), max=3.0)
    array([1., 3.])
    """
    return fnp.clip(x, min, max)


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """`numpy.floor_divide`, and floor(x1 / x2) where one of them is infinite: NumPy has NaN and -1 there.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.floor_divide(np.array([np.inf, 1.0]), np.array([2.0, -np.inf]))
    array([inf, -0.])
    """
    if not _is_float(x1, x2):
        return fnp.floor_divide(x1, x2)
    infinite = fnp.logical_or(fnp.isinf(x1), fnp.isinf(x2))
    with np.errstate(invalid="ignore"):
        ordinary = fnp.floor_divide(x1, x2)
    return _where(infinite, fnp.trunc(fnp.divide(x1, x2)), ordinary)  # the quotient is infinite, NaN or a zero


def pow(x1: Any, x2: Any, /) -> Any:
    """`numpy.power`, which takes a scalar exponent .5 for a square root: that of -0.0 is -0.0, and that of -inf NaN.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.pow(np.array([-np.inf, -0.0, 4.0]), 0.5)
    array([inf,  0.,  2.])
    """
    if not _is_float(x1, x2) or shape_of(x2) != () or (not _is_traced(x2) and x2 != 0.5):
        return fnp.power(x1, x2)
    half = fnp.equal(x2, 0.5)
    x = array_of(x1)
    base = fnp.where(half, x + 0.0, x)  # -0.0 + 0.0 is 0.0
    return fnp.power(fnp.where(fnp.logical_and(half, fnp.equal(x, -np.inf)), np.inf, base), x2)


def acosh(x: Any, /) -> Any:
    """`numpy.acosh`; the imaginary part of what NaN j gives is that of 0 j, where NumPy before 2.4 has NaN.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.acosh(np.array([complex(0, np.nan)])).imag
    array([1.57079633])
    """
    result = fnp.acosh(x)
    if dtype_of(array_of(x)).kind != "c":
        return result
    without = fnp.logical_and(fnp.equal(fnp.real(x), 0), fnp.isnan(fnp.imag(x)))
    return _where(without, dtype_of(result).type(complex(np.nan, np.pi / 2)), result)


def expm1(x: Any, /) -> Any:
    """`numpy.expm1`; complex numbers that are not finite have the parts of exp(x), less 1, where NumPy has NaN.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.expm1(np.array([complex(-np.inf, np.nan)])).real
    array([-1.])
    """
    if dtype_of(array_of(x)).kind != "c":
        return fnp.expm1(x)
    with np.errstate(invalid="ignore"):
        power, ordinary = fnp.exp(x), fnp.expm1(x)
    return _where(fnp.isfinite(x), ordinary, make_complex(fnp.real(power) - 1, fnp.imag(power)))


def sign(x: Any, /) -> Any:
    """`numpy.sign`; of a complex number with a part that is NaN it is NaN in both parts.

    >>> import numpy as np
    >>> from funcad.numpy import array_api as xp
    >>> xp.sign(np.array([complex(np.inf, np.nan)]))
    array([nan+nanj])
    """
    result = fnp.sign(x)
    if dtype_of(array_of(x)).kind != "c":
        return result
    return _where(fnp.isnan(x), dtype_of(result).type(complex(np.nan, np.nan)), result)


def _where(condition: Any, x: Any, y: Any) -> Any:
    """`numpy.where`, with a scalar of rank 0 as the result, as elementwise functions have it."""
    result = fnp.where(condition, x, y)
    return result[()] if type(result) is np.ndarray else result


def _is_traced(x: Any) -> bool:
    return type(x) is Tracer


def _is_float(*operands: Any) -> bool:
    return dtype_kind(fnp.result_type(*operands)) == "f"

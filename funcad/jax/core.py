"""`jax.core`: `Tracer`, for isinstance, and `ShapedArray`, which is `ShapeDtypeStruct`.

>>> import funcad, numpy as np
>>> seen = []
>>> _ = funcad.grad(lambda x: (seen.append(isinstance(x, Tracer)), x)[1])(1.0)
>>> seen, isinstance(np.ones(1), Tracer)
([True], False)
"""

from funcad.api.tools import ShapeDtypeStruct as _Struct
from funcad.ir.tracer import Tracer as _Tracer

ShapedArray = _Struct


class _IsTraced(type):
    def __instancecheck__(cls, x: object) -> bool:
        return type(x) is _Tracer


class Tracer(metaclass=_IsTraced):
    """The type of traced values, which answer other type tests as the arrays that they stand for."""

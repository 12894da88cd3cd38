"""`table`: known numbers as an array, which the compiler makes of numbers that differ from turn to turn of a loop it has found.

Programs hold no arrays; a table holds the bytes of a few. It has no operands, and no derivative: it is made after everything
has been differentiated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive

__all__ = ["table_p"]


def _impl(xp: Any, *, data: bytes, dtype: np.dtype) -> Any:
    return xp.asarray(np.frombuffer(data, dtype).copy())


table_p = Primitive("table", _impl, lambda *, data, dtype: Aval((len(data) // dtype.itemsize,), dtype))

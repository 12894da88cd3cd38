"""Constants of an algorithm (windows, weights, nodes) as operands: in the dtype and on the device of what they meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of
from funcad.primitives.families import REAL
from funcad.primitives.placement import on_device_of

__all__ = ["constant", "moved"]


def constant(values: Any, like: Any, dtype: Any = None) -> Any:
    """Known numbers beside `like`: on its device, in its real dtype unless another is given."""
    return moved(np.asarray(values, REAL(dtype_of(like)) if dtype is None else dtype), like)


def moved(array: Any, like: Any) -> Any:
    """An array of NumPy's on the device of `like`, in its own dtype."""
    return on_device_of([array], [like])[0]

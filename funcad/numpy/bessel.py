"""NumPy's Bessel function: it alone of `funcad.numpy` needs the special functions, so it is loaded when it is first called."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import aval_of
from funcad.numpy.aliases import arrays
from funcad.numpy.axes import array_of
from funcad.numpy.dispatch import implements
from funcad.primitives import special
from funcad.primitives.conversion import convert


@implements("i0")
@arrays
def i0(x: Any) -> Any:
    x = array_of(x)
    kind = aval_of(x).dtype.kind
    if kind == "c":
        raise TypeError("i0 not supported for complex values")
    return special.i0(x if kind == "f" else convert(x, np.dtype(float)))

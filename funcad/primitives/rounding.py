"""Rounding, and the quotients and remainders that round."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of
from funcad.primitives import device_elements
from funcad.primitives.arithmetic import div, mul, neg, sub
from funcad.primitives.conversion import convert
from funcad.primitives.families import elementwise
from funcad.primitives.python_operators import operator_impl, with_ufunc

floor_divide = elementwise(
    "floor_divide",
    operator_impl(operator.floordiv, np.floor_divide, device_elements.floor_divide),
    [None, None],
    emit=lambda e, x, y: e.floor_divide(x, y),
    weak=True,
)
# The remainder with the divisor's sign (`%`, np.remainder).
mod = elementwise(  # the sign of the divisor, as Python's and NumPy's remainder
    "mod",
    operator_impl(operator.mod, np.remainder, device_elements.remainder),
    [lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(floor_divide(x, y), t))],
    emit=lambda e, x, y: e.mod(x, y),
    weak=True,
)
fmod = elementwise(  # the sign of the dividend, as C's
    "fmod",
    np.fmod,
    [lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(rint(div(sub(x, out), y)), t))],
    emit=lambda e, x, y: e.fmod(x, y),
)

# -- rounding: no derivative
floor = elementwise("floor", np.floor, [None], emit=lambda e, x: e.floor(x))
ceil = elementwise("ceil", np.ceil, [None], emit=lambda e, x: e.ceil(x))
rint = elementwise("rint", np.rint, [None], emit=lambda e, x: e.rint(x))
trunc = elementwise("trunc", np.trunc, [None], emit=lambda e, x: e.trunc(x))

with_ufunc(floor_divide, np.floor_divide)
with_ufunc(mod, np.remainder)


def round_(x: Any, decimals: int = 0) -> Any:
    """NumPy's rounding to decimals: scale, round half to even, scale back. Integers for decimals >= 0: x itself."""
    kind = dtype_of(x).kind
    if decimals == 0 or (kind in "biu" and decimals > 0):
        return x if kind in "biu" else rint(x)
    if kind in "biu":
        scale = dtype_of(x).type(10**-decimals)
        return convert(mul(rint(div(x, scale)), float(scale)), dtype_of(x))
    scale = float(10 ** abs(decimals))
    return div(rint(mul(x, scale)), scale) if decimals > 0 else mul(rint(div(x, scale)), scale)

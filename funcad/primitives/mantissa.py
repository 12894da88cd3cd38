"""Mantissa and exponent: ldexp, frexp, modf."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.primitives.arithmetic import copysign, neg
from funcad.primitives.comparison import isinf, select
from funcad.primitives.families import elementwise
from funcad.primitives.rounding import fmod, trunc

# x * 2**n with an integer n.
ldexp = elementwise(
    "ldexp",
    np.ldexp,
    [lambda t, out, x, n: ldexp(t, n), None],
    transpose=lambda ct, x, n: [ldexp(ct, n), None],
    abstract_eval=lambda x, n: Aval(x.shape or n.shape, x.dtype),
)
# The first part of np.frexp.
mantissa = elementwise(
    "mantissa", lambda xp, x: xp.frexp(x)[0], [lambda t, out, x: ldexp(t, neg(exponent(x)))]
)
# The second part of np.frexp, int32.
exponent = elementwise("exponent", lambda xp, x: xp.frexp(x)[1], [None], dtype=np.dtype(np.int32))


def frexp(x: Any) -> tuple[Any, Any]:
    return mantissa(x), exponent(x)


def modf(x: Any) -> tuple[Any, Any]:
    """Fractional and integral part, both with x's sign."""
    return select(isinf(x), copysign(0.0, x), fmod(x, 1.0)), trunc(x)

"""The Euclidean norm over axes, for numbers of almost all sizes.

The squares of numbers below 1e-150 or above 1e150 leave the range of float64. So the norm is the root of one of two sums of
squares, of the operand times a large and a small power of two, which changes no digit; only above 1e230 it is inf, as
NumPy's is above 1e154. The slope of a norm is x / norm(x), 0 at 0 where it turns, see `turn`; its square is the sum of squares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.ir.aval import aval_of, dtype_of
from funcad.ir.primitive import Primitive
from funcad.memo import remembers
from funcad.primitives.arithmetic import add, mul, sqrt, square, turn
from funcad.primitives.comparison import lt, select
from funcad.primitives.conversion import conj, imag, real
from funcad.primitives.families import REAL, elementwise
from funcad.primitives.reduction import reduce_sum, reduced_aval
from funcad.primitives.transcendental import pow


def squares(x: Any) -> Any:
    """abs(x)**2, element by element."""
    return add(square(real(x)), square(imag(x))) if dtype_of(x).kind == "c" else square(x)


@remembers(8)
def scales(dtype: np.dtype) -> tuple[Any, Any, Any]:
    """(up, down, low): the factors; `up` is needed where the sum of squares of `down` times the operand is below `low`.

    `down` is not so small that squares of ordinary numbers would be subnormal: computing with those is slow. Half precision
    has no room for either.
    """
    info, kind = np.finfo(dtype), dtype.type
    if dtype.itemsize < 4:
        return kind(1), kind(1), kind(0)
    up, down = kind(2) ** ((info.maxexp + info.nmant) // 2), 1 / kind(2) ** (info.maxexp // 4)
    return up, down, info.smallest_normal / info.eps


def _sum_of_squares(xp: Any, x: Any, axes: tuple) -> Any:
    s = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
    if not axes:
        return s
    return np.add.reduce(s, axis=axes, dtype=s.dtype) if xp is np else xp.sum(s, axis=axes, dtype=s.dtype)


def _norm_impl(xp: Any, x: Any, *, axes: tuple) -> Any:
    token = suppress_warnings()
    try:
        s = _sum_of_squares(xp, x, axes)
        up, down, low = scales(s.dtype)
        if xp is np and (low <= s < np.inf if type(s) is not np.ndarray else ((s >= low) & (s < np.inf)).all()):
            return np.sqrt(s)
        small, large = (_sum_of_squares(xp, x * x.dtype.type(by), axes) for by in (up, down))
        return xp.where(large < low, xp.sqrt(small) * (1 / up), xp.sqrt(large) * (1 / down))[()]
    finally:
        restore_warnings(token)


def _norm_tangent(tangents: Any, out: Any, x: Any, *, axes: tuple) -> Any:
    product = mul(x, tangents[0]) if dtype_of(x).kind != "c" else real(mul(conj(x), tangents[0]))
    total = reduce_sum(product, axes=axes)
    return turn(total, out) if aval_of(x).size else total  # the norm of nothing is 0 and stays so


def _norm_lowering(x: Any, *, axes: tuple) -> Any:
    up, down, low = scales(REAL(x.dtype))
    small, large = (reduce_sum(squares(mul(x, x.dtype.type(by))), axes=axes) for by in (up, down))
    return select(lt(large, low), mul(sqrt(small), 1 / up), mul(sqrt(large), 1 / down))


# The square root of the sum of abs(x)**2 over axes.
norm = Primitive(
    "norm",
    _norm_impl,
    lambda x, *, axes: reduced_aval(x, axes, REAL(x.dtype)),
    jvp=_norm_tangent,
    batch=lambda size, args, batched, *, axes: (norm(args[0], axes=tuple([a + 1 for a in axes])), True),
    square=lambda x, *, axes: reduce_sum(squares(x), axes=axes),
    turns=True,
    lowering=_norm_lowering,
)
rooted_p = elementwise(  # x**(1/p) of a sum of p-th powers, whose derivatives at 0 are 0, for p > 1
    "rooted",
    None,
    [lambda t, out, x, *, p: turn(mul(1 / p, t), pow(out, p - 1))],
    emit=lambda e, x, *, p: e.pow(x, e.const(1 / p)),
    turns=True,
)


def rooted(x: Any, p: float) -> Any:
    """x**(1/p) of a sum of p-th powers of absolute values, p > 1."""
    return rooted_p(x, p=p)

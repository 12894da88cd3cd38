"""The arithmetic of a Runge-Kutta step, as two operations: what is between the calls of the user's function.

They have no derivatives: a solver that uses them has rules of its own (funcad/scipy/integrate/ode.py). States are (..., n)
with scalars of shape (...), so a batch of independent steps is a leading axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import abs_, add, div, maximum, minimum, mul, sqrt, sub
from funcad.primitives.comparison import and_, ge, isfinite, le, lt, not_, select
from funcad.primitives.conversion import convert
from funcad.primitives.families import broadcast_in_dim, reduce_sum
from funcad.primitives.shape import batched_with
from funcad.primitives.transcendental import pow

_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0


def _change(h: Any, slopes: Any, weights: Any) -> Any:
    """h times the weighted sum of the slopes, in their dtype."""
    total: Any = None
    for k, w in zip(slopes, weights):
        if w:
            total = k * w if total is None else total + k * w
    scale = h if not h.ndim else h[..., None]
    return total * scale.astype(total.dtype)


def _advance_impl(xp: Any, y: Any, h: Any, *slopes: Any, weights: tuple) -> Any:
    return y + _change(h, slopes, weights)


def _spread(x: Any, like: Any) -> Any:
    """A scalar of each step, for all numbers of its state."""
    shape = shape_of(like)
    return broadcast_in_dim(x, shape=shape, axes=tuple(range(len(shape) - 1)))


def _written_change(h: Any, slopes: Any, weights: Any) -> Any:
    total: Any = None
    for k, w in zip(slopes, weights):
        if w:
            total = mul(k, w) if total is None else add(total, mul(k, w))
    return mul(total, _spread(convert(h, dtype_of(total)), total))


def _written_advance(y: Any, h: Any, *slopes: Any, weights: tuple) -> Any:
    return add(y, _written_change(h, slopes, weights))


advance_p: Primitive = Primitive(
    "advance",
    _advance_impl,
    lambda y, h, *slopes, weights: Aval(y.shape, y.dtype),
    lowering=_written_advance,
    batch=batched_with(lambda: advance_p),
)


def advance(y: Any, h: Any, slopes: Any, weights: tuple) -> Any:
    """y + h * (weights[0] * slopes[0] + ...)."""
    return advance_p(y, h, *slopes, weights=weights)


def _control_impl(xp: Any, *args: Any, rtol: float, atol: float, hmax: float, order: int, error: tuple) -> list:
    stages = len(error)
    t, h, rejected, t_old, y, y_old = args[:6]
    used, end, new = args[6:9]
    old, tried = args[9 : 9 + stages], args[9 + stages :]
    scale = atol + xp.maximum(xp.abs(y), xp.abs(new)) * rtol
    ratio = xp.abs(_change(used, tried, error)) / scale
    norm = xp.sqrt((ratio * ratio).mean(-1))
    norm = xp.where(xp.isfinite(norm), norm, xp.inf)
    accepted = norm < 1.0
    factor = _SAFETY * xp.maximum(norm, 1e-30) ** (-1.0 / (order + 1))
    most = xp.where(rejected, 1.0, _MOST)
    factor = xp.where(accepted, xp.minimum(most, factor), xp.maximum(_LEAST, factor))
    after = xp.where(accepted, xp.where(used >= end - t, end, t + used), t).astype(t.dtype)
    h_new = xp.minimum(used * factor, hmax).astype(t.dtype)
    h_new = xp.where(xp.logical_and(after + h_new <= after, after < end), 0.0, h_new).astype(t.dtype)  # stuck
    head = [after, h_new, xp.logical_not(accepted), xp.where(accepted, t, t_old)]
    if xp is np and not t.ndim:  # one step: nothing is selected element by element
        chosen = [new, y, *tried] if accepted else [y, y_old, *old]
        return [*[x[()] for x in head], *chosen]
    mask = accepted[..., None]
    return [*head, *[xp.where(mask, a, b) for a, b in zip([new, y, *tried], [y, y_old, *old])]]


def _written_control(
    *args: Any, rtol: float, atol: float, hmax: float, order: int, error: tuple
) -> list[Any] | None:
    stages = len(error)
    t, h, rejected, t_old, y, y_old = args[:6]
    used, end, new = args[6:9]
    old, tried = args[9 : 9 + stages], args[9 + stages :]
    if dtype_of(y).kind == "c" or any([dtype_of(x) != dtype_of(y) for x in (t, h, t_old, used, end)]):
        return None
    scale = add(mul(maximum(abs_(y), abs_(new)), rtol), atol)
    ratio = div(abs_(_written_change(used, tried, error)), scale)
    axis = len(shape_of(y)) - 1
    norm = sqrt(div(reduce_sum(mul(ratio, ratio), axes=(axis,)), float(shape_of(y)[-1])))
    norm = select(isfinite(norm), norm, np.inf)
    accepted = lt(norm, 1.0)
    factor = mul(pow(maximum(norm, 1e-30), -1.0 / (order + 1)), _SAFETY)
    most = sub(_MOST, mul(_MOST - 1.0, convert(rejected, dtype_of(norm))))
    factor = select(accepted, minimum(most, factor), maximum(factor, _LEAST))
    after = select(accepted, select(ge(used, sub(end, t)), end, add(t, used)), t)
    h_new = minimum(mul(used, factor), hmax)
    h_new = select(and_(le(add(after, h_new), after), lt(after, end)), 0.0, h_new)  # stuck
    head = [after, h_new, not_(accepted), select(accepted, t, t_old)]
    mask = _spread(accepted, y)
    return [*head, *[select(mask, a, b) for a, b in zip([new, y, *tried], [y, y_old, *old])]]


def _control_abstract(*avals: Any, error: tuple, **params: Any) -> list:
    t, h, rejected, t_old, y, y_old = avals[:6]
    plain = [Aval(a.shape, a.dtype) for a in (t, h, rejected, t_old, y, y_old)]
    return [*plain, *[Aval(y.shape, y.dtype)] * len(error)]


# control_p(*state, used, end, new, *old, *tried, rtol, atol, hmax, order, error) accepts or rejects a step of size `used` to
# `new`, whose slopes were `tried`, and gives the next state and the slopes kept (of the `old` ones, if it was rejected).
# The state is (t, h, rejected, t_old, y, y_old): h is the next step to try, 0 if it would no longer move t
control_p: Primitive = Primitive(
    "control",
    _control_impl,
    _control_abstract,
    batch=batched_with(lambda: control_p),
    lowering=_written_control,
    multiple=True,
    may_share=True,
)

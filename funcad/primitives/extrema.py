"""Extrema of two values, element by element, and clamp.

A tie splits the derivative in halves. `maximum` and `minimum` propagate NaN, and so do their derivatives; `fmax` and `fmin`
ignore it, and the operand that they return has the whole derivative. `clamp` says by a parameter what its derivative on the
bounds is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import mul
from funcad.primitives.comparison import and_, eq, ge, gt, isnan, lt, ne, not_, or_, select
from funcad.primitives.families import elementwise


def _share(t: Any, out: Any, wins: Any, loses: Any) -> Any:
    """The share of t of one of two competitors: all, nothing, a half in a tie, NaN if the result is.

    A mask and a weight: its transpose is no longer than itself. Where there are values, they say what is not needed.
    """
    if _everywhere(or_, wins, loses):
        return select(loses, 0.0, t)
    undefined, kind = isnan(out), out.dtype.type
    if not issubclass(kind, np.floating):
        return select(wins, t, select(loses, 0.0, mul(select(undefined, out, 0.5), t)))
    tied = kind(0.5) if _everywhere(not_, undefined) else select(undefined, out, kind(0.5))
    return mul(select(loses, 0.0, t), select(wins, kind(1.0), tied))


_KNOWN = frozenset([np.ndarray, np.bool_, bool])


def _everywhere(condition: Any, *of: Any) -> bool:
    """Does the condition hold everywhere? False where nobody can say."""
    traced = [x for x in of if type(x) not in _KNOWN]
    if not traced:
        known = condition(*of)
        return bool(known.all()) if type(known) is np.ndarray else bool(known)
    decide = traced[0].owner.decide if type(traced[0]) is Tracer else None
    return decide is not None and decide(condition(*of))


maximum = elementwise(
    "maximum",
    np.maximum,
    [
        lambda t, out, x, y: _share(t, out, gt(x, y), lt(x, y)),
        lambda t, out, x, y: _share(t, out, lt(x, y), gt(x, y)),
    ],
    emit=lambda e, x, y: e.maximum(x, y),
    commutes="value",
)
minimum = elementwise(
    "minimum",
    np.minimum,
    [
        lambda t, out, x, y: _share(t, out, lt(x, y), gt(x, y)),
        lambda t, out, x, y: _share(t, out, gt(x, y), lt(x, y)),
    ],
    emit=lambda e, x, y: e.minimum(x, y),
    commutes="value",
)


def _in_contest(out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Whether x wins, and whether it loses, against y, where a NaN loses against numbers and two are a tie."""
    differ = ne(x, y)
    return and_(eq(out, x), differ), and_(eq(out, y), differ)


fmax = elementwise(
    "fmax",
    np.fmax,
    [
        lambda t, out, x, y: _share(t, out, *_in_contest(out, x, y)),
        lambda t, out, x, y: _share(t, out, *_in_contest(out, y, x)),
    ],
    emit=lambda e, x, y: e.fmax(x, y),
    commutes="value",
)
fmin = elementwise(
    "fmin",
    np.fmin,
    [
        lambda t, out, x, y: _share(t, out, *_in_contest(out, x, y)),
        lambda t, out, x, y: _share(t, out, *_in_contest(out, y, x)),
    ],
    emit=lambda e, x, y: e.fmin(x, y),
    commutes="value",
)


def _clamp_by_x(t: Any, out: Any, x: Any, lo: Any, hi: Any, *, boundary_grad: float) -> Any:
    if boundary_grad == 1.0:
        return select(and_(ge(x, lo), ge(hi, x)), t, 0.0)
    inside = select(and_(gt(x, lo), gt(hi, x)), t, 0.0)
    if boundary_grad == 0.0:
        return inside
    at_bound = and_(or_(eq(x, lo), eq(x, hi)), and_(ge(x, lo), ge(hi, x)))
    return select(at_bound, mul(boundary_grad, t), inside)


clamp_p = elementwise(
    "clamp",
    None,
    [
        _clamp_by_x,
        lambda t, out, x, lo, hi, *, boundary_grad: select(and_(gt(lo, x), gt(hi, lo)), t, 0.0),
        lambda t, out, x, lo, hi, *, boundary_grad: select(or_(gt(x, hi), gt(lo, hi)), t, 0.0),
    ],
    emit=lambda e, x, lo, hi, *, boundary_grad: e.minimum(hi, e.maximum(lo, x)),
)


def clamp(x: Any, lo: Any, hi: Any, *, boundary_grad: float = 0.0) -> Any:
    """min(hi, max(lo, x)); the derivative is 1 inside, 0 outside and `boundary_grad` on the bounds. NaN stays NaN."""
    return clamp_p(x, lo, hi, boundary_grad=float(boundary_grad))

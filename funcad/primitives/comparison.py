"""Comparison, logic, bits, and `select`.

Results of comparisons are bool and carry no derivative. `select(pred, on_true, on_false)` takes from each lane one of
two values: it is what rules use in place of multiplying by a mask, because a mask's zero times inf would be NaN. It
is linear in both values; `pred` is bool and has their shape (literals excepted).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import keep
from funcad.ir.aval import Aval, LiteralAval
from funcad.ir.primitive import Primitive, is_linear
from funcad.primitives.families import BOOL, align_batched, avals_text, choose, elementwise, operator_impl, with_ufunc
from funcad.primitives.placement import logical


def _comparison(name: str, python: Any, ufunc: np.ufunc, emit: Any, commutes: str | None = None) -> Primitive:
    primitive = elementwise(name, operator_impl(python, ufunc), dtype=BOOL, weak=True, emit=emit, commutes=commutes)
    return with_ufunc(primitive, ufunc)


eq = _comparison("eq", operator.eq, np.equal, lambda e, x, y: e.eq(x, y), "bits")
ne = _comparison("ne", operator.ne, np.not_equal, lambda e, x, y: e.ne(x, y), "bits")
lt = _comparison("lt", operator.lt, np.less, lambda e, x, y: e.lt(x, y))
le = _comparison("le", operator.le, np.less_equal, lambda e, x, y: e.le(x, y))
gt = _comparison("gt", operator.gt, np.greater, lambda e, x, y: e.gt(x, y))
ge = _comparison("ge", operator.ge, np.greater_equal, lambda e, x, y: e.ge(x, y))

# bitwise on integers, logical on bools
and_ = elementwise(
    "and", operator_impl(operator.and_, np.bitwise_and), weak=True, emit=lambda e, x, y: e.and_(x, y), commutes="bits"
)
or_ = elementwise(
    "or", operator_impl(operator.or_, np.bitwise_or), weak=True, emit=lambda e, x, y: e.or_(x, y), commutes="bits"
)
xor = elementwise(
    "xor", operator_impl(operator.xor, np.bitwise_xor), weak=True, emit=lambda e, x, y: e.xor(x, y), commutes="bits"
)
not_ = elementwise("not", np.invert, emit=lambda e, x: e.not_(x))
shift_left = elementwise(
    "shift_left", operator_impl(operator.lshift, np.left_shift), weak=True, emit=lambda e, x, y: e.shift_left(x, y)
)
# Arithmetic for signed integers, logical for unsigned ones.
shift_right = elementwise(
    "shift_right", operator_impl(operator.rshift, np.right_shift), weak=True, emit=lambda e, x, y: e.shift_right(x, y)
)
for _p, _u in (
    (and_, np.bitwise_and),
    (or_, np.bitwise_or),
    (xor, np.bitwise_xor),
    (shift_left, np.left_shift),
    (shift_right, np.right_shift),
):
    with_ufunc(_p, _u)

# truth of any dtype
logical_and = elementwise(
    "logical_and", np.logical_and, dtype=BOOL, emit=lambda e, x, y: e.logical_and(x, y), commutes="bits", device=logical
)
logical_or = elementwise(
    "logical_or", np.logical_or, dtype=BOOL, emit=lambda e, x, y: e.logical_or(x, y), commutes="bits", device=logical
)
logical_xor = elementwise(
    "logical_xor", np.logical_xor, dtype=BOOL, emit=lambda e, x, y: e.logical_xor(x, y), commutes="bits", device=logical
)
logical_not = elementwise("logical_not", np.logical_not, dtype=BOOL, emit=lambda e, x: e.logical_not(x), device=logical)

isnan = elementwise("isnan", np.isnan, dtype=BOOL, emit=lambda e, x: e.isnan(x))
isinf = elementwise("isinf", np.isinf, dtype=BOOL, emit=lambda e, x: e.isinf(x))
isfinite = elementwise("isfinite", np.isfinite, dtype=BOOL, emit=lambda e, x: e.isfinite(x))
signbit = elementwise("signbit", np.signbit, dtype=BOOL, emit=lambda e, x: e.signbit(x))


def _select_abstract(pred: Aval, on_true: Aval, on_false: Aval) -> Aval:
    avals = (pred, on_true, on_false)
    if pred.dtype != BOOL:
        raise TypeError(f"select: the first operand must be bool, got {avals_text(avals)}; compare first")
    shaped = [a for a in avals if not isinstance(a, LiteralAval)] or [on_true]
    strong = [a.dtype for a in avals[1:] if not a.weak]
    if any(a.shape != shaped[0].shape for a in shaped) or len(set(strong)) > 1:
        raise TypeError(f"select: operands must have equal shapes and dtypes, got {avals_text(avals)}")
    return Aval(shaped[0].shape, strong[0] if strong else np.result_type(on_true.dtype, on_false.dtype))


def _select_jvp(tangents: Sequence[Any], out: Any, pred: Any, on_true: Any, on_false: Any) -> Any:
    _, t, f = tangents
    return select(pred, 0.0 if t is None else t, 0.0 if f is None else f)


def _select_batch(size: int, args: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, bool]:
    return select(*align_batched(size, args, batched)), True


# Lane by lane `on_true` where `pred` is true, else `on_false`.
select = Primitive(
    "select",
    choose,
    _select_abstract,
    jvp=_select_jvp,
    transpose=lambda ct, pred, x, y: [
        None,
        select(pred, ct, 0.0) if is_linear(x) else None,
        select(pred, 0.0, ct) if is_linear(y) else None,
    ],
    batch=_select_batch,
    layout=keep,
    reach="choice",
    emit=lambda e, pred, x, y: e.select(pred, x, y),
)

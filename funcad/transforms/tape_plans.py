"""Which operations a tape writes down, and what it decides once per shape.

That is how NumPy reduces, whether operands fit and are small, and the parameters by their bits.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod
from typing import Any

from funcad.ir.locks import SMALL
from funcad.primitives import arithmetic, conversion, extrema, reduction, shape, transcendental
from funcad.primitives.arithmetic import add_p, mul_p, neg_p, sub_p
from funcad.primitives.comparison import select_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.shape import shape_of_two
from funcad.transforms.structural import frozen

__all__ = ["BILINEAR", "LINEAR", "NO_PLAN", "ROWS", "plans", "product_plan", "reduction_plan", "small_shape"]

LINEAR = frozenset(  # their rules look at tangents only
    [add_p, sub_p, neg_p, shape.broadcast_in_dim_p, shape.reshape_p, shape.transpose_p, shape.slice_p, reduction.reduce_sum_p]
    + [conversion.convert_p, shape.concatenate_p]
)
BILINEAR = frozenset([mul_p, dot_general_p])  # an operand matters only if the other one has a tangent
ROWS = LINEAR | BILINEAR
ROWS |= {getattr(arithmetic, f"{n}_p") for n in ("div", "square", "sqrt", "cbrt", "integer_pow", "reciprocal", "abs")}
_UNARY = "sin cos tan exp exp2 expm1 log log2 log10 log1p sinh cosh tanh arcsin arccos arctan arcsinh logistic"
ROWS |= {getattr(transcendental, f"{n}_p") for n in _UNARY.split()}
ROWS |= {reduction.reduce_max_p, reduction.reduce_min_p, extrema.maximum_p, extrema.minimum_p, select_p}
NO_PLAN: tuple = (None,)
plans: dict[tuple, tuple] = {}  # (primitive, shape, axis) -> how NumPy does it, and the parameters, also of keeping the axes
_MOST_PLANS = 1000


def reduction_plan(primitive: Any, shape: tuple, axis: int | None) -> tuple:
    if len(plans) > _MOST_PLANS:
        plans.clear()
    rank = len(shape)
    plan = NO_PLAN
    if rank and (axis is None or -rank <= axis < rank):  # otherwise the general way raises
        axes = tuple(range(rank)) if axis is None else (axis % rank,)
        params = {"axes": axes}
        kept = {"shape": tuple([1 if i in axes else n for i, n in enumerate(shape)])}
        run = partial(primitive.reduction.ufunc.reduce, axis=axes if rank > 1 and axis is None else axes[0])
        plan = run, params, frozen(params), kept, frozen(kept)
    plans[primitive, shape, axis] = plan
    return plan


@lru_cache(maxsize=1024)
def product_plan(a: tuple, b: tuple) -> tuple | None:
    """Parameters of the product of arrays of these shapes, of rank 1 or 2, that fit and are small; None for all others."""
    if not (0 < len(a) < 3 and 0 < len(b) < 3) or a[-1] != b[0] or 8 * max(prod(a), prod(b), prod(a[:-1] + b[1:])) > SMALL:
        return None
    params = {"dimension_numbers": (((len(a) - 1,), (0,)), ((), ()))}
    return params, frozen(params)


@lru_cache(maxsize=1024)
def small_shape(a: tuple, b: tuple) -> tuple | None:
    """The shape that two arrays of at most eight bytes an element broadcast to; None if it is too large for a row."""
    shape = shape_of_two(a, b)
    return shape if 8 * max(prod(a), prod(b), prod(shape)) <= SMALL else None

"""What a tape decides once per shape: how NumPy reduces, whether operands fit, and the parameters by their bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from funcad.memo import remembers, table
from funcad.passes.subprograms import params_key
from funcad.primitives import conversion, shape
from funcad.primitives.arithmetic import add, neg, sub
from funcad.primitives.basic_indexing import basic_update_p

_LINEAR = frozenset([add, sub, neg, conversion.convert_p, shape.concatenate_p, basic_update_p])
_MOST_PLANS = 1000


@remembers(_MOST_PLANS)
def linear(primitive: Any) -> bool:
    """Does its rule look at tangents only?"""
    return primitive.structural or primitive in _LINEAR


NO_PLAN: tuple = (None,)
# how NumPy does it, and the parameters, also of keeping the axes
plans = table(
    "unjitted.reduction plans",
    "primitive, shape and axis: how NumPy reduces",
    _MOST_PLANS,
)


def reduction_plan(primitive: Any, shape: tuple, axis: Any) -> tuple:
    rank = len(shape)
    plan = NO_PLAN
    given = tuple(range(rank)) if axis is None else axis if type(axis) is tuple else (axis,)
    if given and all([type(i) is int and -rank <= i < rank for i in given]) and len({i % rank for i in given}) == len(given):
        axes = tuple(sorted([i % rank for i in given]))  # otherwise the general way raises
        params = {"axes": axes}
        kept = {"shape": tuple([1 if i in axes else n for i, n in enumerate(shape)])}
        run = partial(primitive.reduction.ufunc.reduce, axis=axes if len(axes) > 1 else axes[0])
        plan = run, params, params_key(params), kept, params_key(kept)
    return plans.put((primitive, shape, axis), plan)


def moving_plan(primitive: Any, run: Callable[[Any], Any], params: dict) -> tuple:
    """How a tape does what only moves the elements of an array: `run` does it to NumPy's."""
    return primitive, run, params, params_key(params)


@remembers(1024)
def product_plan(a: tuple, b: tuple) -> tuple | None:
    """Parameters of the product of arrays of these shapes, of rank 1 or 2, that fit; None for all others."""
    if not (0 < len(a) < 3 and 0 < len(b) < 3) or a[-1] != b[0]:
        return None
    params = {"dimension_numbers": (((len(a) - 1,), (0,)), ((), ()))}
    return params, params_key(params)

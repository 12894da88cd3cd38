"""Lanes: what batched branches and batched loops do with the examples that take no part.

A lane that does not take a branch (or whose loop has ended) must not make the branch fail, warn, run for ever or poison a
derivative with 0 * inf. So the branch is run on borrowed inputs: `pick_lanes` replaces the inputs of every idle lane by those
of a lane that takes the branch, and the results are thrown away by `select_lanes`. Idle lanes get zero tangents.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.aval import Aval, Stack, StackAval, aval_of, shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.comparison import select
from funcad.primitives.loop import batched_entries, is_stack, map_entries, stack_empty, stack_select
from funcad.primitives.reduction import reduce_any
from funcad.primitives.shape import broadcast_in_dim


def spread_mask(mask: Any, shape: tuple) -> Any:
    """The mask over lanes (leading axes), repeated over the other axes."""
    own = shape_of(mask)
    return mask if own == shape else broadcast_in_dim(mask, shape=shape, axes=tuple(range(len(own))))


def any_lane(mask: Any) -> Any:
    return reduce_any(mask, axes=(0,))


def select_lanes(mask: Any, x: Any, y: Any) -> Any:
    """x on the lanes where the mask holds, y on the others."""
    return stack_select(mask, x, y) if is_stack(x) else select(spread_mask(mask, shape_of(x)), x, y)


def _pick_impl(xp: Any, x: Any, mask: Any) -> Any:
    if type(x) is Stack:
        return map_entries(lambda entry: _pick_impl(xp, entry, mask), x.aval, x)
    lanes = mask.size
    flat = mask.reshape(lanes)
    n_active = int(xp.count_nonzero(flat))
    if n_active in (0, lanes):
        return x
    source = xp.where(flat, xp.arange(lanes), xp.argmax(flat))
    return x.reshape((lanes, *x.shape[mask.ndim :]))[source].reshape(x.shape)


def _pick_abstract(x: Any, mask: Aval) -> Any:
    if type(x) is StackAval:
        return x
    if mask.dtype.kind != "b" or x.shape[: len(mask.shape)] != mask.shape:
        raise TypeError(f"pick_lanes: needs a value and a bool mask over its leading axes, got {x}, {mask}")
    return Aval(x.shape, x.dtype)


def _keep_lanes(t: Any, mask: Any) -> Any:
    """t on the lanes of the mask, zero on the others."""
    if is_stack(t):
        return stack_select(mask, t, stack_empty(aval_of(t)))
    return select(spread_mask(mask, shape_of(t)), t, 0.0)


# x, with the lanes where the mask does not hold replaced by one where it does (if there is one).
pick_lanes = Primitive(
    "pick_lanes",
    _pick_impl,
    _pick_abstract,
    jvp=lambda tangents, out, x, mask: _keep_lanes(tangents[0], mask),
    transpose=lambda ct, x, mask: [_keep_lanes(ct, mask), None],  # results of idle lanes are dropped: zero cotangents
    batch=batched_entries(lambda: pick_lanes),
    reach="picks",
    may_share=True,
)

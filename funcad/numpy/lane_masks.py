"""Masks of lanes: un-jitted vmap knows how many elements a mask selects in each lane, and lanes part by that number.

Idea: with the number, `np.nonzero(mask, size=n)` has a shape, and all else is made of it: `x[mask]` is `x[np.nonzero(mask)]`.
A function that is still traced without values (api/split_batch.py) is asked for the number, too, and runs with values then.
Trap: sums and writes of one value by a mask need no number (selections.py); asking for it would part lanes for nothing.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from funcad.api.lane_trace import LaneTrace
from funcad.api.split_batch import Trial
from funcad.ir.tracer import Tracer, concrete_value

__all__ = ["countable", "counted", "is_unknown", "of_lanes", "with_places"]


def countable(mask: Any) -> bool:
    """May Python ask how many elements hold, although they have no value?"""
    value: Any = concrete_value(mask)
    return type(value) is Tracer and type(value.owner.recorder) in (LaneTrace, Trial)


def counted(mask: Any) -> int | None:
    """How many elements hold, in all lanes that go on; None where that cannot be asked."""
    return operator.index(np.count_nonzero(mask)) if countable(mask) else None


def is_unknown(index: Tracer) -> bool:
    return index.dtype.kind == "b" and bool(index.shape) and type(concrete_value(index)) is Tracer


def of_lanes(mask: Tracer) -> bool:
    """Is it a mask with values, those of all lanes?"""
    value: Any = concrete_value(mask)
    return type(value) is Tracer and type(value.owner.recorder) is LaneTrace


def with_places(index: tuple) -> tuple:
    """An index with the places where masks of lanes hold instead of the masks."""
    if not any([type(e) is Tracer and is_unknown(e) and of_lanes(e) for e in index]):
        return index
    found: list[Any] = []
    for e in index:
        found += np.nonzero(e) if type(e) is Tracer and is_unknown(e) else [e]
    return tuple(found)

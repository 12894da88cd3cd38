"""Running one operation on arrays, now: what every computation that nobody records ends in.

Idea: a primitive's `impl` computes with the library that the arrays belong to. Around it stand three services for the user: an
array that may not be moved raises, `debug_nans` and its like look at the result, and NumPy's warnings name the user's line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.devices import NAMESPACES, namespace_of, place
from funcad.host.state import state
from funcad.host.user_warnings import deliver, pending, restore_warnings, warn_at_user_line

__all__ = ["compute"]


def compute(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run a primitive on arrays, now, on numpy or on the arrays' device."""
    xp: Any = np
    if NAMESPACES or "cupy" in sys.modules:
        xp = namespace_of(args)
        if xp is not np and primitive.primal_and_jvp is None:  # programs move what they captured themselves
            args = place(xp, args, primitive.name)
    if state.checked:
        return state.checked(primitive, xp, args, params)
    token = None if primitive.silent else warn_at_user_line()
    if token is None:
        return primitive.impl(xp, *args, **params)
    try:
        return primitive.impl(xp, *args, **params)
    finally:
        restore_warnings(token)
        if pending:
            deliver(primitive, args)



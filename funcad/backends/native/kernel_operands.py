"""Operands of native kernels as their code can read them, and facts about the machine's caches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.memo import memoised

ALIGN = 128  # bytes: what stores that bypass the caches need, on every machine


@memoised("bytes of the last level of cache")
def last_cache() -> int:
    """Bytes of the last level of cache."""
    for level in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL4_CACHE_SIZE"):
        if hasattr(os, "sysconf") and level in os.sysconf_names and os.sysconf(level) > 0:
            return os.sysconf(level)
    return 32 << 20


def readable(a: Any, aval: Any) -> np.ndarray:
    """An operand as an array that native code can read: of the right dtype and byte order, elements where NumPy aligns them.

    >>> import numpy as np
    >>> from funcad.ir.aval import Aval
    >>> readable(np.arange(3, dtype=">f8"), Aval((3,), np.dtype(float)))
    array([0., 1., 2.])
    """
    if type(a) is not np.ndarray:
        a = a.view(np.ndarray) if is_a(a, np.ndarray) else np.asarray(a, aval.dtype)
    if a.shape != aval.shape:
        raise TypeError(f"a fused group was compiled for an operand of shape {aval.shape}, got {a.shape}")
    native = a.dtype == aval.dtype and a.dtype.isnative
    if not native or not a.flags.aligned or any([s % a.itemsize for s in a.strides]):
        a = np.array(a, aval.dtype, order="C")
    return a


def aligned(arrays: Sequence[np.ndarray]) -> bool:
    """May their whole vectors be stored past the caches?"""
    return not any([a.__array_interface__["data"][0] % ALIGN for a in arrays])

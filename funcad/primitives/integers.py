"""Whole numbers and the grid of floats: gcd, lcm, the number of set bits, the distance to the next float.

None has a derivative other than zero. Trap: NumPy counts the bits of the absolute value of a signed integer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.primitives.families import elementwise

__all__ = ["gcd", "lcm", "bit_count", "spacing"]


def _bit_count(xp: Any, x: Any) -> Any:
    if xp is np:
        return np.bitwise_count(x)
    dtype = np.dtype(f"u{x.dtype.itemsize}")  # on the device: neighbours added in ever wider fields
    bits, width, shift = xp.abs(x).astype(dtype), 8 * dtype.itemsize, 1
    while shift < width:
        mask = dtype.type(sum([((1 << shift) - 1) << i for i in range(0, width, 2 * shift)]))
        bits = (bits & mask) + ((bits >> dtype.type(shift)) & mask)
        shift *= 2
    return bits.astype(np.uint8)


def _spacing(xp: Any, x: Any) -> Any:
    if xp is np:
        return np.spacing(x)
    return xp.copysign(xp.nextafter(xp.abs(x), x.dtype.type(np.inf)) - xp.abs(x), x)


gcd = elementwise("gcd", np.gcd, [None, None])
lcm = elementwise("lcm", np.lcm, [None, None])
# The number of ones in the binary form of |x|, as uint8.
bit_count = elementwise("bit_count", _bit_count, [None], dtype=np.dtype(np.uint8))
# The distance from x to the next float away from zero, with x's sign.
spacing = elementwise("spacing", _spacing, [None])

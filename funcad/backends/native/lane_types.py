"""The values that an emitter computes with, and how LLVM writes constants.

A `Lane` is one value of one dtype on every lane of a vector register (or one scalar); its parts are names of LLVM values or
constants.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import Unsupported
from funcad.backends.plans.element_writer import part_of

_FLOATS = {4: "float", 8: "double"}


class Lane(NamedTuple):
    """One value on every lane: its dtype and its SSA names (two, real and imaginary, of a complex dtype)."""

    dtype: np.dtype
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The only part of a lane that is not complex."""
        if len(self.parts) != 1:
            raise Unsupported(f"this operation has no native code for {self.dtype}")
        return self.parts[0]


def element_of(dtype: np.dtype) -> str:
    """The LLVM type of one element in a register; of one part, for a complex dtype."""
    part = part_of(dtype)
    if part.kind == "b":
        return "i1"
    if part.kind in "iu":
        return f"i{8 * part.itemsize}"
    if part.kind == "f" and part.itemsize in _FLOATS:
        return _FLOATS[part.itemsize]
    raise Unsupported(f"{dtype} has no native code")


def float_text(value: Any, itemsize: int) -> str:
    """A float as LLVM writes it: the bits of the double that equals it, so that -0.0, inf and NaN payloads survive.

    >>> from funcad.backends.native.lane_types import float_text
    >>> float_text(-0.0, 8), float_text(0.5, 4)
    ('0x8000000000000000', '0x3FE0000000000000')
    """
    if itemsize == 8:
        data = struct.pack("<d", value) if type(value) is float else np.float64(value).tobytes()
        return f"0x{int.from_bytes(data, 'little'):016X}"
    single = np.float32(value)
    if np.isnan(single):  # widened by hand: a conversion would quieten and could drop the payload
        bits = struct.unpack("<I", single.tobytes())[0]
        return f"0x{(bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29:016X}"
    return f"0x{struct.unpack('<Q', np.float64(single).tobytes())[0]:016X}"

"""Is this machine code, as LLVM writes it for this machine?

LLVM loads objects on trust: bytes that are no object, or whose tables point outside of it, end the process. So what comes from
a file is looked at first: it must begin as every object for this machine begins, and its sections must lie inside it.
"""

from __future__ import annotations

import struct

_ELF, _MACH_O = b"\x7fELF", b"\xcf\xfa\xed\xfe"
_NO_BITS = 8  # type of an ELF section that takes no room in the file


def is_object(data: bytes, sample: bytes) -> bool:
    """Could LLVM load this? `sample` is any object for this machine."""
    same = 20 if sample.startswith(_ELF) else 16 if sample.startswith(_MACH_O) else 2  # format, kind of file, processor
    if len(data) < same or data[:same] != sample[:same]:
        return False
    return not sample.startswith(_ELF) or _sections_fit(data)


def _sections_fit(data: bytes) -> bool:
    """Do the sections of an ELF object, and the table of them, lie inside it?"""
    order = "<" if data[5] == 1 else ">"
    if data[4] != 2 or len(data) < 64:  # not of 64 bits, or no whole header
        return False
    (table,) = struct.unpack_from(f"{order}Q", data, 40)
    size, count, names = struct.unpack_from(f"{order}HHH", data, 58)
    if size != 64 or not 0 < names < count or table + size * count > len(data):
        return False
    for i in range(count):
        kind, _, _, start, length = struct.unpack_from(f"{order}IQQQQ", data, table + size * i + 4)
        if kind != _NO_BITS and start + length > len(data):
            return False
    return True

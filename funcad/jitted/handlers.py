"""Whether the user's function would see an error that an operation raises here: is the operation inside a `try`?

Idea: Python notes for each function which instructions which handler covers (its exception table). Of the frames between an
operation and the traced function, the user's are looked up there. What leaves a `with` block on an error is no handler: it
goes on with the error. Trap: an error that a handler does not take, or that leaves a block, comes to the handler around that.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from opcode import opname
from types import CodeType, FrameType

from funcad.host.where import is_internal

__all__ = ["inside_try"]


def inside_try(outermost: CodeType) -> bool:
    """Is an operation of the user's that runs now, in a function which `outermost` called, inside a `try`?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outermost:
        if not is_internal(frame.f_code.co_filename) and _covered(frame.f_code, frame.f_lasti):
            return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=1024)
def _covered(code: CodeType, place: int) -> bool:
    entries = list(_entries(code))
    seen: set[int] = set()
    while True:
        target = next((target for start, end, target in entries if start <= place < end), None)
        if target is None or target in seen:
            return False
        names = [opname[op] for op in code.co_code[target : target + 40 : 2] if opname[op] != "CACHE"]
        if names[0] == "PUSH_EXC_INFO" and names[1] != "WITH_EXCEPT_START":
            return True
        seen.add(target)
        place = target


def _entries(code: CodeType) -> Iterator[tuple[int, int, int]]:
    """(start, end, handler) of the code's exception table, in bytes of its instructions."""
    table = iter(code.co_exceptiontable)

    def number() -> int:
        byte = next(table)
        value = byte & 63
        while byte & 64:
            byte = next(table)
            value = value << 6 | byte & 63
        return value

    while table.__length_hint__():
        start, length, target, _ = number() * 2, number() * 2, number() * 2, number()
        yield start, start + length, target

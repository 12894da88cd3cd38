"""Doors of the functions that make arrays: in a traced function that writes, they can be written with traced values."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.doors.asking import holds_traced, is_tracing
from funcad.doors.codes import Answer
from funcad.host.conversions import SELDOM, looks_again, needs_buffers, writing_users
from funcad.host.where import handing, internal, is_internal, state, tracing, users_frame
from funcad.memo import table
from funcad.writes.plain import buffer

templates = OnDemand("funcad.twin.templates")
_sights = table("doors.sights", "identity of a code object: how often it asked for an array", 256, same=None)
_SIGHTS = 64  # to find and rewrite its source costs as much as some hundreds of arrays that need not be writable
_FILLS = {"ndarray": 0, "zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1, "empty": 0, "empty_like": 0}


def _wanted(code: CodeType | None = None, learned: bool = False) -> bool:
    """Does the function that runs need buffers, and is this code its own or that of a function which it refers to?"""
    users = () if state.running is None else writing_users(state.running)
    return any([needs_buffers(user, code, learned) for user in users]) if users else False


def _only_read(frame: FrameType) -> bool:
    """Is what the user's code makes there only read by it? That is looked at in its source, if it has made many arrays."""
    code = frame.f_code
    seen = _sights.pop(id(code), 0) + 1
    _sights.put(id(code), min(seen, _SIGHTS))
    if seen < _SIGHTS and "funcad.twin.templates" not in sys.modules:
        return False
    return bool(templates.is_only_read(frame, seen >= _SIGHTS))


def making(name: str, original: Callable[..., Any], traced: Callable[..., Any] | None = None) -> Answer:
    """np.zeros and the like; `traced` answers where an argument is traced."""
    own_name = name.rpartition(".")[2]
    fill = _FILLS.get(own_name)
    empty = name.endswith(("empty", "empty_like", "ndarray"))

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        if traced is not None and holds_traced(args, kwargs):
            return True
        caller = sys._getframe(2).f_code
        direct = caller in handing
        if state.running is None or not direct and internal.get(caller.co_filename):
            return False
        if not writing_users(state.running) and not looks_again(state.running, caller):
            return False
        code = tracing.shown_code(users_frame(2).f_code)
        if own_name == "ndarray" and (len(args) > 2 or not kwargs.keys() <= {"shape", "dtype"}):
            return False  # of somebody's memory
        named = direct or own_name in code.co_names  # otherwise compiled code calls, which has no frame
        if not (named and is_tracing() and not is_internal(code.co_filename) and _wanted(code, own_name in SELDOM)):
            return False
        return state.abstract is not None or not _only_read(users_frame(2))

    def own(*args: Any, **kwargs: Any) -> Any:
        out = read_only(*args, **kwargs)
        if type(out) is not np.ndarray or not _wanted():
            return out
        if out.dtype.names:
            return importlib.import_module("funcad.doors.records").Records.of(out)
        if empty and out.dtype.kind in "biufc":
            out[...] = 0  # what is there differs from run to run, and a program is to be one
        return buffer(out, fill)

    def read_only(*args: Any, **kwargs: Any) -> Any:
        """Where the user's code only reads what is made."""
        return (original if traced is None or not holds_traced(args, kwargs) else traced)(*args, **kwargs)

    is_for_us.makes = True  # type: ignore[attr-defined]
    is_for_us.read_only = read_only  # type: ignore[attr-defined]
    return is_for_us, own


def making_of(answer: Callable[[str, Callable[..., Any]], Answer]) -> Callable[[str, Callable[..., Any]], Answer]:
    """The door of a function that makes an array of its argument, which may be traced."""
    return lambda name, original: making(name, original, answer(name, original)[1])


def _lending(f: Any, how: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    return functools.partial(importlib.import_module("funcad.reads.lending").run_lending, f, how)


tracing.lending = _lending

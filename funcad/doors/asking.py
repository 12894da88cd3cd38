"""What a door asks: does this thread trace, and is there a traced value among the arguments?"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Iterable
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, config
from funcad.host.where import is_internal, tracing, users_frame
from funcad.ir.tracer import Tracer

tree_same = OnDemand("funcad.tree.same")


def is_tracing() -> bool:
    """Does a function of the user's run on traced values in this thread?"""
    return get_ident() in tracing.threads and config.doors


def users_call() -> bool:
    """Does the user's function, or SciPy's, call this door? Where funcad itself calls SciPy's function, it means that one."""
    name = str(users_frame(3).f_globals.get("__name__"))  # between: who asks, and the door
    return is_tracing() and (not name.startswith("funcad.") or name == "funcad.reads.lending")  # which hands on


def _stands(kind: type) -> bool:
    """Do its objects stand for traced arrays: those of a user's subclass, or what a mask selects?"""
    return hasattr(kind, "stands_for") or hasattr(kind, "as_operand")


def any_traced(values: Iterable[Any]) -> bool:
    """Is one of them traced, also in lists and tuples? A list of numbers is read as quickly as NumPy reads it."""
    kinds = set(map(type, values))
    if _PLAIN.issuperset(kinds):
        return False
    if Tracer in kinds or any(map(_stands, kinds)):
        return True
    nested = tuple([kind for kind in kinds if issubclass(kind, (list, tuple))])
    return bool(nested) and any(any_traced(v) for v in values if type(v) in nested)


_PLAIN = frozenset([float, int, bool, complex, str, type(None), np.ndarray, np.float64, np.int64])


def _has_traced(values: Iterable[Any]) -> bool:
    for a in values:
        kind = type(a)
        if kind is Tracer:
            return True
        if kind not in _PLAIN and (any_traced(a) if issubclass(kind, (list, tuple)) else _stands(kind)):
            return True
    return False


def _others_answer(values: Iterable[Any]) -> bool:
    """Is there an object of somebody else's, in lists and tuples too, which answers for NumPy's functions?"""
    for a in values:
        kind = type(a)
        if kind is list or kind is tuple:
            if _others_answer(a):
                return True
        elif kind is not Tracer and kind not in _PLAIN and hasattr(kind, "__array_function__"):
            return True
    return False


def lists_traced(args: Iterable[Any], kwargs: dict[str, Any]) -> bool:
    """Does the user call, with a traced value in a list or tuple among the arguments, where NumPy does not look for one?"""
    lists = [a for a in (*args, *kwargs.values()) if type(a) not in _PLAIN and type(a) is not Tracer]
    if not (_has_traced(lists) and bool(tracing.threads) and config.doors):
        return False
    if _others_answer(lists):  # NumPy asks them
        return False
    return not is_internal(users_frame(2).f_code.co_filename)  # the frame between is the door's


def holds_traced(args: Iterable[Any], kwargs: dict[str, Any]) -> bool:
    """Is an argument traced, where doors are open?"""
    return (_has_traced(args) or bool(kwargs) and _has_traced(kwargs.values())) and bool(tracing.threads) and config.doors


def keeps_traced(x: Any, depth: int = 3) -> bool:
    """Does an object of a library's keep a traced value, in its attributes or in theirs?"""
    kind = type(x)
    if kind in (list, tuple, dict):
        held = x.values() if kind is dict else x
        return kind is dict and _has_traced(held) or any([keeps_traced(v, depth) for v in held])
    if kind in _PLAIN or kind is Tracer or not str(kind.__module__).startswith("scipy."):
        return False
    kept = [*tree_same.held_by(x, tree_same.slots_of(kind)).values()]
    kept += [v for held in kept if type(held) in (dict, list) for v in (held.values() if type(held) is dict else held)]
    return _has_traced(kept) or depth > 0 and any([keeps_traced(v, depth - 1) for v in kept])

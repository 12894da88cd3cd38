"""`max`, `min`, `a if c else b` of traced numbers: selections, where Python would ask which of them it is.

Idea: of numbers of one type that are there already, nothing depends on which one is chosen but the result. So `max(a, b, c)` is
a comparison and a selection for each further number, in Python's order, and no path: its derivative is that of the number that
Python gives, the first of equals. A NaN is chosen where Python chooses it, because the comparisons are the same.

A choice whose sides compute only, with floats, selects as well (twin/choices.py): what they compute never raises here, in
Python's way or NumPy's. Else there is `NOTHING`, and Python asks its question.

Invariant: the result's type is what Python's is. A number of NumPy's beside one of Python's has the type of the one that is
chosen, which matters only to arrays and numbers of fewer bits than it has: where such are met, the function is traced again and
asked.
Trap: an int beside a float stays a question, because the int may become an index.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from funcad.host.where import state
from funcad.ir.aval import Aval, aval_of
from funcad.ir.tracer import Tracer
from funcad.primitives.comparison import gt, lt, select
from funcad.primitives.conversion import convert_p
from funcad.reads.code_reads import MISSING

NOTHING: Any = object()  # no number: Python is to compute it
_NUMBERS = frozenset([Tracer, float, int, np.float64, np.int64])
_FLOAT = np.dtype(np.float64)
_SURE = (abs, max, min)
_CHECKED = (operator.truediv, operator.pow)  # which Python refuses for some of its own floats
_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def extreme(f: Callable[..., Any], compare: Any) -> Callable[[Any, tuple, dict], Any]:
    """What answers a call of `max` or `min`; `compare`: is the further number better than the best one so far?"""

    def answer(observer: Any, args: tuple, kwargs: dict) -> Any:
        numbers: Any = args
        made = len(args) == 1 and type(args[0]) is types.GeneratorType and not kwargs
        if len(args) == 1:
            if not made and (type(args[0]) not in (list, tuple) or id(args[0]) in observer.origin):
                return MISSING  # what is read of a list that was there before is to be seen
            numbers = [*args[0]]
        dtype = None if kwargs or Tracer not in map(type, numbers) else _common(numbers)
        if dtype is None:
            return f(numbers) if made else MISSING  # a generator has been used up
        best = numbers[0]
        for x in numbers[1:]:
            best = select(compare(x, best), x, best)
        if all([_aval(x).weak for x in numbers]):
            best = convert_p(best, dtype=dtype, weak=True)
        return best

    return answer


def _aval(x: Any) -> Any:
    return x.aval if type(x) is Tracer else aval_of(x)


def _common(numbers: Any) -> Any:
    """The dtype of numbers of which one may be selected; None where Python is to choose."""
    if len(numbers) < 2 or not all([type(x) in _NUMBERS for x in numbers]):
        return None
    avals = [_aval(x) for x in numbers]
    dtypes = {getattr(a, "dtype", None) for a in avals}
    if len(dtypes) > 1 or any([not isinstance(a, Aval) or a.shape for a in avals]):
        return None
    dtype = dtypes.pop()
    if dtype not in (np.float64, np.int64):
        return None
    if len({a.weak for a in avals}) > 1:
        recorder = getattr(state.abstract, "recorder", None)
        if not getattr(recorder, "mixes", False):
            return None
        recorder.mixed.add(dtype)
    return dtype


SELECTIONS = {max: extreme(max, gt), min: extreme(min, lt)}


# -- choices


def may_choose(condition: Any) -> bool:
    """Is it a traced truth, of which a recording would ask what it is?"""
    observer = state.observer
    if observer is None or type(condition) is not Tracer or condition.owner is not observer.trace:
        return False
    aval, recorder = condition.aval, observer.trace.recorder
    if type(aval) is not Aval or aval.shape or aval.dtype != bool or observer.tracers.get(id(condition)) is not None:
        return False
    if observer.chooses is False and hasattr(recorder, "open"):  # not that of lanes
        recorder.open = condition
        return bool(recorder.tries)
    return bool(observer.chooses)


def noted(chosen: bool) -> None:
    """Was there a selection? Where the first of a function's choices is none, no other one is tried."""
    observer: Any = state.observer
    recorder: Any = observer.trace.recorder
    if chosen and observer.chooses is False:
        recorder.begins_choosing()
    observer.chosen = observer.chosen or chosen
    if not observer.chosen:
        observer.chooses = None
        if hasattr(recorder, "never"):
            recorder.never, recorder.tries = True, False


def selected(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y, if these are floats. What Python knows it goes on knowing: it may decide by it."""
    if x is y:
        return x
    if not _is_float(x) or not _is_float(y):
        return NOTHING
    if Tracer not in (type(x), type(y)):
        return NOTHING
    if _common((x, y)) is None:
        return NOTHING
    best = select(condition, x, y)
    if _aval(x).weak and _aval(y).weak:
        best = convert_p(best, dtype=_FLOAT, weak=True)
    return best


def together(op: Any, conditions: Any) -> Any:
    """`and` or `or` of conditions; `op`: that of bits."""
    if not all([may_choose(c) or type(c) in (bool, np.bool_) for c in conditions]):
        return NOTHING
    return functools.reduce(op, conditions)


def operated(hooks: Any, op: Any, operands: Any) -> Any:
    """An operator of numbers, where Python's does not raise."""
    for x in operands:
        if type(x) is not int and not _is_float(x):
            return NOTHING
    if op in _CHECKED and _may_raise(op, operands):
        return NOTHING
    if len(operands) == 1:
        return hooks.unary(op, *operands)
    way = hooks.compare if op in _COMPARISONS else hooks.binary
    return way(op, *operands)


def _may_raise(op: Any, operands: Any) -> bool:
    """May Python refuse these? NumPy's numbers are not refused."""
    traced = [x for x in operands if type(x) is Tracer]
    if traced and not any([_aval(x).weak for x in traced]):
        return False
    if op is operator.pow:
        return True
    divisor = operands[1]
    return type(divisor) is Tracer or not divisor


def applied(hooks: Any, function: Any, numbers: Any) -> Any:
    """A function of numbers that computes only."""
    if not all(map(_is_float, numbers)):
        return NOTHING
    if Tracer not in map(type, numbers):
        return NOTHING
    if type(function) is np.ufunc:
        known = function.nin == len(numbers) and function.nout == 1
    else:
        known = any([function is f for f in _SURE])
    return hooks.call(function)(*numbers) if known else NOTHING


def element(hooks: Any, owner: Any, keys: Any) -> Any:
    """`owner[keys]`, if it is there."""
    shape: Any = ()
    if type(owner) in (list, tuple):
        shape = (len(owner),)
    elif type(owner) in (Tracer, np.ndarray):
        shape = owner.shape
    if len(keys) > len(shape):
        return NOTHING
    for k, n in zip(keys, shape):
        if type(k) is not int or not -n <= k < n:
            return NOTHING
    return hooks.load_item(owner, keys if len(keys) > 1 else keys[0])


def _is_float(x: Any) -> bool:
    kind = type(x)
    if kind is not Tracer:
        return kind is float or kind is np.float64
    aval = x.aval
    if type(aval) is not Aval or aval.shape:
        return False
    return bool(aval.dtype == _FLOAT)


def narrow(numbers: Iterable[np.dtype], met: Iterable[np.dtype], equations: Any, values: Any) -> bool:
    """Is there something for which Python's numbers and NumPy's, of these dtypes, differ: of fewer bits, or unsigned?

    `met`: dtypes of NumPy's numbers that no equation has, because they were converted on their way into one.
    """
    avals = [v.aval for e in equations for v in e.outputs] + [aval_of(x) for x in values]
    dtypes = {*met, *[a.dtype for a in avals if isinstance(a, Aval) and a.dtype.kind in "biufc"]}
    return any([np.result_type(d, n) != np.result_type(d, n.type(0).item()) for d in dtypes for n in numbers])

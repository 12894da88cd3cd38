"""`max`, `min`, `a if c else b` of traced numbers: selections, where Python would ask which of them it is.

Idea: of numbers of one type that are there already, nothing depends on which one is chosen but the result. So `max(a, b, c)` is
a comparison and a selection for each further number, in Python's order, and no path: its derivative is that of the number that
Python gives, the first of equals. A NaN is chosen where Python chooses it, because the comparisons are the same.

A choice whose sides compute only, with floats, selects as well (twin/choices.py): what they compute never raises here, in
Python's way or NumPy's. Else there is `NOTHING`, and Python asks its question.

Invariant: the result's type is what Python's is. A number of NumPy's beside one of Python's has the type of the one that is
chosen, which matters only to arrays of fewer bits than it has: where such are met, the function is traced again and asked.
Trap: an int beside a float stays a question, because the int may become an index.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.where import state
from funcad.ir.aval import Aval, aval_of
from funcad.ir.tracer import Tracer
from funcad.primitives.comparison import gt, lt, select
from funcad.primitives.conversion import convert_p
from funcad.reads.code_reads import MISSING

NOTHING: Any = object()  # no number: Python is to compute it
MOST = 64  # numbers of which one is chosen
_NUMBERS = frozenset([Tracer, float, int, np.float64, np.int64])
_FLOAT = np.dtype(np.float64)
_ARRAYS = (Tracer, np.ndarray)
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
    if not 1 < len(numbers) <= MOST or not all([type(x) in _NUMBERS for x in numbers]):
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
        recorder.mixed = True
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
    if not observer.chooses and hasattr(recorder, "open"):  # not that of lanes
        recorder.open = condition
    return bool(observer.chooses)


def selected(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y, if these are floats. What Python knows it goes on knowing: it may decide by it."""
    if x is y:
        return x
    numbers = (x, y)
    if not all(map(_is_float, numbers)) or Tracer not in map(type, numbers) or _common(numbers) is None:
        return NOTHING
    best = select(condition, x, y)
    return convert_p(best, dtype=_FLOAT, weak=True) if _aval(x).weak and _aval(y).weak else best


def together(op: Any, conditions: Any) -> Any:
    """`and` or `or` of conditions; `op`: that of bits."""
    if not all([may_choose(c) or type(c) in (bool, np.bool_) for c in conditions]):
        return NOTHING
    return functools.reduce(op, conditions)


def operated(hooks: Any, op: Any, operands: Any) -> Any:
    """An operator of numbers, where Python's does not raise."""
    if not all([_is_float(x) or type(x) is int for x in operands]):
        return NOTHING
    if op in _CHECKED and any([_aval(x).weak for x in operands if type(x) is Tracer] or [True]):
        if op is operator.pow or type(operands[1]) is Tracer or not operands[1]:
            return NOTHING
    if len(operands) == 1:
        return hooks.unary(op, *operands)
    return (hooks.compare if op in _COMPARISONS else hooks.binary)(op, *operands)


def applied(hooks: Any, function: Any, numbers: Any) -> Any:
    """A function of numbers that computes only."""
    known = function in _SURE if type(function) is types.BuiltinFunctionType else type(function) is np.ufunc
    if not known or not all(map(_is_float, numbers)) or Tracer not in map(type, numbers):
        return NOTHING
    if type(function) is np.ufunc and (function.nin != len(numbers) or function.nout > 1):
        return NOTHING
    return hooks.call(function)(*numbers)


def element(hooks: Any, owner: Any, key: Any) -> Any:
    """`owner[key]`, if it is there."""
    keys = key if type(key) is tuple else (key,)
    shape = (len(owner),) if type(owner) in (list, tuple) else getattr(owner, "shape", ()) if type(owner) in _ARRAYS else ()
    if len(keys) > len(shape) or not all([type(k) is int and -n <= k < n for k, n in zip(keys, shape)]):
        return NOTHING
    return hooks.load_item(owner, key)


def _is_float(x: Any) -> bool:
    if type(x) is Tracer:
        return type(x.aval) is Aval and not x.aval.shape and x.aval.dtype == _FLOAT
    return type(x) is float or type(x) is np.float64


def narrow(equations: Any, values: Any) -> bool:
    """Are there floating-point arrays among these for which Python's numbers and NumPy's differ?"""
    avals = [v.aval for e in equations for v in e.outputs] + [aval_of(x) for x in values]
    return any([getattr(getattr(a, "dtype", None), "char", "") in "efF" for a in avals if getattr(a, "dtype", None)])

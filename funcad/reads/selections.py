"""`max` and `min` of traced numbers: selections, where Python would ask which of them is larger.

Idea: of numbers of one type that are there already, nothing depends on which one is chosen but the result. So `max(a, b, c)` is
a comparison and a selection for each further number, in Python's order, and no path: its derivative is that of the number that
Python gives, the first of equals. A NaN is chosen where Python chooses it, because the comparisons are the same.

Invariant: the result's type is what Python's is. A number of NumPy's beside one of Python's has the type of the one that is
chosen, which matters only to arrays of fewer bits than it has: where such are met, the function is traced again and asked.
Trap: an int beside a float stays a question, because the int may become an index.
"""

from __future__ import annotations

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

MOST = 64  # numbers of which one is chosen
_NUMBERS = frozenset([Tracer, float, int, np.float64, np.int64])


def extreme(f: Callable[..., Any], compare: Any) -> Callable[[Any, tuple, dict], Any]:
    """What answers a call of `max` or `min`; `compare`: is the further number better than the best one so far?"""

    def answer(observer: Any, args: tuple, kwargs: dict) -> Any:
        numbers: Any = args
        made = len(args) == 1 and type(args[0]) is types.GeneratorType and not kwargs
        if len(args) == 1:
            if not made and (type(args[0]) not in (list, tuple) or id(args[0]) in observer.origin):
                return MISSING  # what is read of a list that was there before is to be seen
            numbers = [*args[0]]
        dtype = None if kwargs else _common(numbers)
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
    if not 1 < len(numbers) <= MOST or Tracer not in map(type, numbers) or not all([type(x) in _NUMBERS for x in numbers]):
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


def narrow(equations: Any, values: Any) -> bool:
    """Are there floating-point arrays among these for which Python's numbers and NumPy's differ?"""
    avals = [v.aval for e in equations for v in e.outputs] + [aval_of(x) for x in values]
    return any([getattr(getattr(a, "dtype", None), "char", "") in "efF" for a in avals if getattr(a, "dtype", None)])

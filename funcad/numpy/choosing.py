"""Choosing among arrays by conditions or positions: select, piecewise and choose, which are made of `where`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.aliases import apart, arrays, numbers
from funcad.numpy.axes import array_of
from funcad.numpy.dispatch import implements, refuse
from funcad.numpy.logic import choice
from funcad.numpy.reductions import truth
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.shape import broadcast_to
from funcad.unjitted.strides import doubt


@implements("select")
@arrays
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    for i, condition in enumerate(condlist):
        if aval_of(array_of(condition)).dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    result = default
    for condition, chosen in zip(reversed(condlist), reversed(choicelist)):
        result = choice(condition, chosen, result)
    return np.asarray(result, order="C") if type(result) is np.ndarray else doubt(result)


@implements("piecewise")
@arrays
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """`numpy.piecewise`; every function is applied to all of x (masked elements get no derivative from it)."""
    x = array_of(x)
    if not isinstance(condlist, (list, tuple)) or not np.ndim(condlist[0]) and shape_of(x):
        condlist = [condlist]
    conditions = [truth(c) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected"
        )
    dtype = aval_of(x).dtype
    if len(functions) == len(conditions) + 1:
        conditions.append(np.logical_not(np.any(np.stack(conditions), axis=0)))
    result = broadcast_to(dtype.type(0), shape_of(x))
    for condition, function in zip(conditions, functions):
        value = function(_inside(x, condition), *args, **kw) if callable(function) else function
        result = choice(condition, convert(array_of(value), dtype), result)
    return doubt(result)


def _inside(x: Any, condition: Any) -> Any:
    """x where the condition holds, elsewhere its stop_gradient: no derivative leaks from there."""
    return choice(condition, x, stop_gradient(x))


@implements("choose")
@numbers
@apart
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    refuse("np.choose", out=out)
    index, options = array_of(a), [array_of(c) for c in choices]
    n = len(options)
    if mode == "wrap":
        index = np.remainder(index, n)
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    elif type(concrete_value(index)) is not Tracer and np.any((concrete_value(index) < 0) | (concrete_value(index) >= n)):
        raise ValueError("invalid entry in choice array")
    result = options[-1]
    for i in range(n - 2, -1, -1):
        result = choice(np.equal(index, i), options[i], result)
    return doubt(broadcast_to(result, np.broadcast_shapes(shape_of(index), shape_of(result))))

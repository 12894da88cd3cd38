"""NumPy's promotion and broadcasting, made explicit.

`promote(x, y, ...)` gives operands of one dtype and one shape, ready for an elementwise primitive: conversions and broadcasts
become equations. NEP 50: Python scalars (weak) adapt to the dtype of what they meet, NumPy scalars and arrays do not; scalars
stay scalars, they become literals. Fast path: tracers and arrays that agree already.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from funcad.ir.aval import aval_of
from funcad.ir.trace import AbstractTrace, bind
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import convert_p
from funcad.primitives.shape import broadcast_in_dim_p

__all__ = ["promote", "promote_dtype", "strengthen", "as_array", "result_dtype", "convert_in", "broadcast_in", "innermost"]

_PYTHON: dict[type, type] = {bool: bool, int: int, float: float, complex: complex}
_CAST: dict[str, Callable[[Any], Any]] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def as_array(x: Any) -> Any:
    """x itself if funcad can compute with it, otherwise NumPy's array of it (lists, tuples)."""
    kind = type(x)
    if kind is Tracer or kind is np.ndarray or kind in _PYTHON or isinstance(x, np.generic):
        return x
    if isinstance(x, (list, tuple)):
        if any(type(v) is Tracer for v in _flat(x)):
            return Tracer.namespace.array(x)
        return np.asarray(x)
    return x


def _flat(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        for v in x:
            yield from _flat(v)
    else:
        yield x


def innermost(args: Sequence[Any]) -> Any:
    """The innermost trace among the arguments, if it is abstract; else None."""
    top = None
    for a in args:
        if type(a) is Tracer and (top is None or a.trace.level > top.level):
            top = a.trace
    return top if isinstance(top, AbstractTrace) else None


def convert_in(trace: Any, x: Any, dtype: np.dtype) -> Any:
    """Convert x; an array that meets an abstract trace is converted *in* it, so that it goes on being read by reference."""
    if trace is not None and type(x) is np.ndarray:
        return trace.record(convert_p, (x,), {"dtype": dtype})
    return bind(convert_p, x, dtype=dtype)


def broadcast_in(trace: Any, x: Any, shape: tuple, axes: tuple) -> Any:
    if trace is not None and type(x) is np.ndarray and not x.ndim:
        return trace.record(broadcast_in_dim_p, (x,), {"shape": shape, "axes": axes})
    return bind(broadcast_in_dim_p, x, shape=shape, axes=axes)


def result_dtype(args: Sequence[Any]) -> tuple[np.dtype, bool]:
    """NumPy's result dtype, and whether it is weak (all operands are Python scalars)."""
    avals = [aval_of(a) for a in args]
    strong = [a.dtype for a in avals if not a.weak]
    if not strong:
        return np.result_type(*[a.dtype for a in avals]), True
    weak = [_PYTHON_VALUE[a.dtype.kind] for a in avals if a.weak]
    return np.result_type(*strong, *weak), False


_PYTHON_VALUE = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def promote_dtype(args: Sequence[Any], dtype: np.dtype, weak: bool = False) -> list[Any]:
    """The operands in one dtype; Python scalars stay Python scalars of that kind."""
    trace = innermost(args)
    result = []
    for a in args:
        kind = type(a)
        if kind in _PYTHON:
            if dtype.kind == "u" and a < 0:
                raise OverflowError(f"Python integer {a} out of bounds for {dtype}")
            a = a if kind is _CAST[dtype.kind] else _CAST[dtype.kind](a)
        else:
            aval = aval_of(a)
            if aval.dtype != dtype or (aval.weak and not weak):
                a = dtype.type(a) if isinstance(a, np.generic) and dtype.kind == "c" else convert_in(trace, a, dtype)
        result.append(a)
    return result


def _same_at_a_glance(x: Any, y: Any) -> bool:
    if type(x) is Tracer:
        a = x.aval
        if type(y) is float:
            return a.dtype.kind == "f" and not a.weak
        if a.weak:
            return False
        if type(y) is Tracer or type(y) is np.ndarray:
            return y.dtype is a.dtype and y.shape == a.shape and not (type(y) is Tracer and y.aval.weak)
        return type(y) is np.float64 and a.dtype == y.dtype
    return type(y) is Tracer and type(x) is not Tracer and _same_at_a_glance(y, x)


def promote(*args: Any) -> Sequence[Any]:
    """Operands of one dtype and one shape, for an elementwise primitive."""
    if len(args) == 2 and _same_at_a_glance(*args):
        return args
    operands = [as_array(a) for a in args]
    dtype, weak = result_dtype(operands)
    return broadcast(promote_dtype(operands, dtype, weak))


def broadcast(operands: Sequence[Any]) -> list[Any]:
    """The operands in one shape; plain scalars stay scalars (they become literals)."""
    shapes = [aval_of(a).shape for a in operands]
    first = shapes[0]
    if all(s == first for s in shapes):
        return list(operands)
    shape = np.broadcast_shapes(*shapes)
    trace = innermost(operands)
    result = []
    for a, s in zip(operands, shapes):
        if s != shape and not (s == () and type(a) is not Tracer and not isinstance(a, np.ndarray)):
            a = broadcast_in(trace, a, shape, tuple(range(len(shape) - len(s), len(shape))))
        result.append(a)
    return result


def strengthen(x: Any) -> Any:
    """A function's result is strong, where an operator between Python scalars gives a Python scalar."""
    aval = aval_of(x)
    return convert_p(x, dtype=aval.dtype) if aval.weak else x

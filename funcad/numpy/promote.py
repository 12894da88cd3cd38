"""NumPy's promotion and broadcasting, made explicit.

`promote(x, y, ...)` gives operands of one dtype and one shape, ready for an elementwise primitive: conversions and broadcasts
become equations. NEP 50: Python scalars (weak) adapt to the dtype of what they meet, NumPy scalars and arrays do not; scalars
stay scalars, they become literals. `promote_for(ufunc, ...)` asks NumPy which loop the ufunc would run, once per combination
of dtypes. Fast path: tracers and arrays that agree already. Trap: a weak operand beside a strong one of its own dtype and
shape () needs no conversion, because primitives give strong results as soon as one operand is strong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.host.conversions import their_say
from funcad.host.devices import NAMESPACES, device_in_use, is_device, namespace_of
from funcad.host.layout import native_dtype
from funcad.host.real_types import is_a
from funcad.host.state import state
from funcad.ir.aval import KINDS, SCALAR_AVALS, aval_of
from funcad.ir.trace import abstract_trace_of, bind
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.labelled import is_labelled, values_of
from funcad.primitives.conversion import convert_p
from funcad.primitives.placement import device_put_p, on_device_of
from funcad.primitives.shape import broadcast_in_dim, shape_of_two
from funcad.unjitted.linearizing import FOLLOWING
from funcad.unjitted.nested import with_value

__all__ = [
    "promote",
    "promote_for",
    "promote_dtype",
    "promote_shaped",
    "same_aval",
    "with_integer",
    "is_operand",
    "overrides",
    "strong",
    "as_array",
    "beside",
    "result_dtype",
    "convert_in",
    "broadcast",
    "broadcast_in",
    "let_numpy_broadcast",
]

_PYTHON: dict[type, type] = {bool: bool, int: int, float: float, complex: complex}
_CAST: dict[str, Callable[[Any], Any]] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_PYTHON_VALUE = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def overrides(kind: type, method: str) -> bool:
    """Does a type have a say in what NumPy does with it, by `__array_ufunc__` or `__array_function__` of its own?

    Other libraries' arrays, and subclasses of NumPy's with a meaning of their own; not traced values, nor a device's arrays,
    nor pandas' objects, which count for their values.
    """
    own = getattr(np.ndarray, method)
    return getattr(kind, method, own) is not own and kind is not Tracer and not is_device(kind) and not is_labelled(kind)


def is_operand(x: Any) -> bool:
    """Can an operator combine x with a traced value? Otherwise it answers NotImplemented, and x has its say."""
    kind = type(x)
    if kind is Tracer or kind in SCALAR_AVALS or kind is list or kind is tuple:
        return True
    if kind is np.ndarray:
        return x.dtype.kind in KINDS
    their_say(x)
    if overrides(kind, "__array_ufunc__") or getattr(x, "__array_priority__", 0.0) > Tracer.__array_priority__:
        return False
    if is_a(x, np.ndarray):
        return x.dtype.kind in KINDS
    if kind in NAMESPACES or is_a(x, (int, float, complex)) or is_labelled(kind):
        return True
    return device_in_use() and namespace_of((x,)) is not np


def as_array(x: Any) -> Any:
    """x itself if funcad can compute with it, otherwise NumPy's array of it (lists, tuples)."""
    kind = type(x)
    if kind is Tracer or kind is np.ndarray or kind in SCALAR_AVALS:
        return x
    if isinstance(x, (list, tuple)):
        if any(type(v) is Tracer for v in _flat(x)):
            return Tracer.namespace.numpy.array(x)
        return np.asarray(x)
    if is_labelled(kind):
        return as_array(values_of(x))
    for number in (int, float, complex):
        if is_a(x, number):  # of a subclass, an enumeration's member say: only the number itself becomes a literal
            return number(x)
    aval_of(x)  # raises for what is no array, or one with a meaning of its own
    return np.asarray(x) if is_a(x, np.ndarray) else x


def _flat(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        for v in x:
            yield from _flat(v)
    else:
        yield x


def convert_in(trace: Any, x: Any, dtype: np.dtype) -> Any:
    """Convert x; an array that meets an abstract trace is converted *in* it, so that it goes on being read by reference."""
    if trace is not None and type(x) is np.ndarray:
        return trace.record(convert_p, (x,), {"dtype": dtype})
    return bind(convert_p, x, dtype=dtype)


def broadcast_in(trace: Any, x: Any, shape: tuple, axes: tuple) -> Any:
    """Broadcast x, in the trace that it meets if that is abstract (by reference, as `convert_in`)."""
    if trace is not None and type(x) is np.ndarray:
        return trace.record(broadcast_in_dim, (x,), {"shape": shape, "axes": axes})
    return bind(broadcast_in_dim, x, shape=shape, axes=axes)


def result_dtype(args: Sequence[Any]) -> tuple[np.dtype, bool]:
    """NumPy's result dtype, and whether it is weak (all operands are Python scalars)."""
    strong, weak = [], []
    for a in args:
        kind = type(a)
        if kind in _PYTHON:
            weak.append(kind)
            continue
        aval = aval_of(a)
        if aval.weak:
            weak.append(type(_PYTHON_VALUE[aval.dtype.kind]))
        else:
            strong.append(aval.dtype)
    if not strong:
        return np.result_type(*[SCALAR_AVALS[k].dtype for k in weak]), True
    return np.result_type(*strong, *[k() for k in weak]), False


def promote_dtype(args: Sequence[Any], dtype: np.dtype, weak: bool | None = False) -> list[Any]:
    """The operands in one dtype; Python scalars stay Python scalars of that kind.

    What happens to traced Python scalars: they become strong (False), stay weak in the new kind (True), or stay what they are
    if they have the dtype already (None: for primitives that care for the dtype only).
    """
    if not dtype.isnative:
        dtype = native_dtype(dtype)
    trace = abstract_trace_of(args)
    result = []
    for a in args:
        kind = type(a)
        if kind in _PYTHON:
            if dtype.kind in "iu" and kind is int:
                dtype.type(a)  # OverflowError for what does not fit, in NumPy's words
            a = a if kind is _CAST[dtype.kind] else _CAST[dtype.kind](a)
        else:
            aval = aval_of(a)
            if aval.weak and (weak or weak is None and aval.dtype == dtype):
                a = a if aval.dtype == dtype else bind(convert_p, a, dtype=dtype, weak=True)
            elif aval.dtype != dtype or aval.weak:
                a = dtype.type(a) if is_a(a, np.generic) and trace is None else convert_in(trace, a, dtype)
        result.append(a)
    return result


_FLOATS = (np.float64, float)


def same_aval(x: Any, y: Any) -> bool:
    """Can an elementwise primitive take x and y as they are? (False may also mean: not seen at a glance.)"""
    if type(x) is not Tracer:
        if type(y) is not Tracer:
            return False
        x, y = y, x
    kind = type(y)
    if x.atom is None:  # following: rank-0 values are told by their types
        p = x.primal
        q = y.primal if kind is Tracer and y.atom is None else y
        if type(p) in _FLOATS and type(q) in _FLOATS:
            return True
        if type(p) is np.ndarray and type(q) is np.ndarray and q is not y:
            return p.dtype is q.dtype and p.shape == q.shape
    a = x.aval
    if kind is float:
        return a.dtype.kind == "f"
    if kind is Tracer:
        b = y.aval
        return a.dtype is b.dtype and a.shape == b.shape
    if kind is np.ndarray:
        return y.dtype is a.dtype and y.shape == a.shape
    return kind is a.dtype.type


def with_integer(x: Any, y: Any) -> Any:
    """The pair with a Python integer beside a traced float made a float, as NumPy does; None where this is not the case."""
    if type(y) is int:
        if type(x) is Tracer and x.aval.dtype.kind == "f":
            return x, float(y)
    elif type(x) is int and type(y) is Tracer and y.aval.dtype.kind == "f":
        return float(x), y
    return None


def promote(*args: Any) -> Sequence[Any]:
    """Operands of one dtype and one shape, for an elementwise primitive."""
    if len(args) == 2:
        x, y = args
        if same_aval(x, y):
            return args
        if type(x) in _ARRAYS and type(y) in _ARRAYS:
            a, b = aval_of(x), aval_of(y)
            if a.dtype is b.dtype and not a.weak and not b.weak and a.dtype.isnative:
                return broadcast(args)
    operands = [as_array(a) for a in args]
    dtype, weak = result_dtype(operands)
    return broadcast(promote_dtype(operands, dtype, weak))


def promote_shaped(*args: Any) -> list[Any]:
    """As `promote`, but scalars become arrays too: for primitives whose operands may not be literals."""
    operands = promote(*args)
    shape = np.broadcast_shapes(*[aval_of(a).shape for a in operands])
    trace = abstract_trace_of(operands)
    return [a if aval_of(a).shape == shape else broadcast_in(trace, a, shape, ()) for a in operands]


_ARRAYS = (Tracer, np.ndarray)


def let_numpy_broadcast(primitive: Any, x: Any, y: Any) -> Any:
    """An elementwise operation on floats of one dtype and different shapes, left to NumPy's own broadcasting.

    None where that is not possible: only a following trace computes at once, so only there equations can be spared.
    """
    if type(x) not in _ARRAYS or type(y) not in _ARRAYS or state.staging is not None:
        return None
    dtype = x.dtype
    if dtype is not y.dtype or dtype.kind not in "fc":
        return None
    if type(x) is Tracer and x.aval.weak or type(y) is Tracer and y.aval.weak:
        return None
    if type(x) is Tracer and not x.owner.level or type(y) is Tracer and not y.owner.level:
        return None
    top = x.owner if type(x) is Tracer else y.owner
    if type(y) is Tracer and y.owner.level > top.level:
        top = y.owner
    if type(top) not in FOLLOWING:
        return None
    return top.record(primitive, (x, y), {}, shape_of_two(x.shape, y.shape))


_loops: dict[tuple, np.dtype] = {}


def loop_dtype(ufunc: np.ufunc, args: Sequence[Any]) -> np.dtype:
    """The dtype to which the ufunc converts its operands; TypeError, as NumPy's, if it takes none such."""
    keys: list[Any] = []
    strong = False
    for a in args:
        kind = type(a)
        if kind in _PYTHON:
            keys.append(kind)
        else:
            aval = aval_of(a)
            if aval.weak:
                keys.append(type(_PYTHON_VALUE[aval.dtype.kind]))
            else:
                keys.append(aval.dtype)
                strong = True
    key = (ufunc, *keys)
    found = _loops.get(key)
    if found is None:
        given = tuple([k if strong and k is not bool and isinstance(k, type) else np.dtype(k) for k in keys])
        dtypes = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))[: ufunc.nin]
        found = dtypes[0] if all(d == dtypes[0] for d in dtypes) else np.result_type(*dtypes)
        _loops[key] = found
    return found


def _loop_giving(ufunc: np.ufunc, operands: Sequence[Any], dtype: np.dtype) -> np.dtype:
    """The dtype of the operands where the ufunc's results are to be of `dtype`; NumPy's TypeError if it has no such loop."""
    avals = [aval_of(a) for a in operands]
    given = tuple([type(_PYTHON_VALUE[a.dtype.kind]) if a.weak and a.dtype.kind != "b" else a.dtype for a in avals])
    if all(isinstance(g, type) for g in given):
        given = tuple([a.dtype for a in avals])
    signature = (*[None] * ufunc.nin, *[dtype] * ufunc.nout)
    found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout), signature=signature)[: ufunc.nin]
    return found[0] if all(d == found[0] for d in found) else np.result_type(*found)


def promote_for(ufunc: np.ufunc, args: Sequence[Any], dtype: Any = None) -> list[Any]:
    """Operands as the ufunc's loop takes them: one dtype, one shape. `dtype` overrules, as the ufunc's argument does."""
    operands = [as_array(a) for a in args]
    target = loop_dtype(ufunc, operands) if dtype is None else _loop_giving(ufunc, operands, np.dtype(dtype))
    return broadcast(promote_dtype(operands, target, None))


def broadcast(operands: Sequence[Any]) -> list[Any]:
    """The operands in one shape; plain scalars stay scalars (they become literals)."""
    shapes = [aval_of(a).shape for a in operands]
    first = shapes[0]
    if all(s == first for s in shapes):
        return list(operands)
    shape = shape_of_two(*shapes) if len(shapes) == 2 else np.broadcast_shapes(*shapes)
    trace = abstract_trace_of(operands)
    if device_in_use():
        operands = _beside(operands, shapes)
    result = []
    for a, s in zip(operands, shapes):
        if s != shape and not (s == () and (is_a(a, np.generic) or not hasattr(a, "shape"))):
            a = broadcast_in(trace, a, shape, tuple(range(len(shape) - len(s), len(shape))))
        result.append(a)
    return result


def beside(x: Any, like: Any) -> Any:
    """x, made of constants or scalars, where `like` is."""
    if not device_in_use():
        return x
    if type(x) is Tracer:
        values = [concrete_value(v) for v in (x, like)]
        if is_a(values[0], _HOST_SCALARS) and namespace_of(values[1:]) is not np:
            return device_put_p(x, device="cuda", number=None)
        return x
    return on_device_of((x,), (like,))[0]


def _beside(operands: Sequence[Any], shapes: Sequence[tuple]) -> Sequence[Any]:
    """Traced scalars of NumPy's follow to the device of a shaped operand: what is computed of them alone is there then too."""
    values = [concrete_value(a) for a in operands]
    if namespace_of(values) is np:
        return operands
    return [
        device_put_p(a, device="cuda", number=None) if type(a) is Tracer and s == () and is_a(v, _HOST_SCALARS) else a
        for a, v, s in zip(operands, values, shapes)
    ]


_HOST_SCALARS = (bool, int, float, complex, np.generic, np.ndarray)


def strong(x: Any) -> Any:
    """A function's result is strong, where an operator between Python scalars gives a Python scalar."""
    if type(x) is Tracer and x.atom is None:  # following: the tangent does not change, only the scalar's type
        value = x.primal
        if type(value) in _PYTHON:
            return with_value(x, aval_of(value).dtype.type(value))
        if type(value) is not Tracer:
            return x
    aval = aval_of(x)
    return convert_p(x, dtype=aval.dtype) if aval.weak else x

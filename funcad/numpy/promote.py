"""Operands made definite: promotion and broadcasting, axes and shapes, and which results share an operand's memory.

`promote(x, y, ...)` gives operands of one dtype and one shape, ready for an elementwise primitive: conversions and broadcasts
become equations. NEP 50: Python scalars (weak) adapt to the dtype of what they meet, NumPy scalars and arrays do not; scalars
stay scalars, they become literals. `promote_for(ufunc, ...)` asks NumPy which loop the ufunc would run, once per combination
of dtypes. Fast path: tracers and arrays that agree already. Trap: a weak operand beside a strong one of its own dtype and
shape () needs no conversion, because primitives give strong results as soon as one operand is strong.
"""

from __future__ import annotations

import functools
import warnings
from _thread import get_ident
from collections.abc import Callable, Iterable, Sequence
from math import prod
from operator import index
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from funcad.api.value_reads import as_truth
from funcad.configuration import Function, named_as
from funcad.host.conversions import is_masked, own_meaning, plain_kinds, their_say
from funcad.host.devices import NAMESPACES, device_in_use, is_device, namespace_of
from funcad.host.real_types import HALVES, KINDS, NARROW, NUMBERS, dtype_kind, is_a, is_narrow, native_dtype
from funcad.host.where import outside, state, tracing, user_source, written_for_others
from funcad.ir.aval import SCALAR_AVALS, aval_of, is_labelled, shape_of
from funcad.ir.trace import abstract_trace_of, bind, plain_values
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.memo import table
from funcad.primitives.arithmetic import neg
from funcad.primitives.comparison import or_
from funcad.primitives.conversion import convert, convert_p
from funcad.primitives.placement import cupy_module, device_put_p, on_device_of
from funcad.primitives.shape import broadcast_in_dim, reshape, shape_of_two, transpose
from funcad.unjitted.following import with_value
from funcad.unjitted.linearizing import FOLLOWING
from funcad.writes.boxes import Box, is_array

# -- pandas' Series, DataFrames and Indexes beside traced values: they are the arrays of their values
#
# A traced value has no labels, so elements are taken by position, where pandas would align two Series by their labels. That is
# the same unless one has the labels of the other in another order: which raises, once both were met in one trace.


def values_of(x: Any) -> np.ndarray:
    """The values of a Series, a DataFrame or an Index, whose labels are as those that were met before."""
    met = tracing.threads.get(get_ident())
    if met is not None:
        for labels in (getattr(x, "index", None), getattr(x, "columns", None)):
            if labels is not None:
                _compare(labels, met.setdefault(len(labels), []))
    return np.asarray(x)


def _compare(labels: Any, met: list[Any]) -> None:
    for known in met:
        if known is labels or known.equals(labels):
            return
        if len(known.difference(labels, sort=False)) == 0 and len(labels.difference(known, sort=False)) == 0:
            source = user_source()
            raise ValueError(
                f"two objects of pandas{'' if source is None else f' at {source}'} have the same labels in another order, and "
                "a traced value, which has none, stands between them: pandas would align them.\n"
                "Remedy: b = b.reindex(a.index) before the traced function, or .to_numpy() if positions are meant."
            )
    met.append(labels)


# -- NumPy's promotion and broadcasting, made explicit


_F64, _F32 = np.dtype(np.float64), np.dtype(np.float32)
_PYTHON: dict[type, type] = {bool: bool, int: int, float: float, complex: complex}
_CAST: dict[str, Callable[[Any], Any]] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_PYTHON_VALUE = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def overrides(kind: type, method: str) -> bool:
    """Does a type have a say in what NumPy does with it, by `__array_ufunc__` or `__array_function__` of its own?

    Other libraries' arrays, and subclasses of NumPy's with a meaning of their own; not traced values, nor a device's arrays,
    nor pandas' objects, which count for their values.
    """
    own = getattr(np.ndarray, method)
    if getattr(kind, method, own) is own or kind is Tracer or kind in plain_kinds:
        return False
    return not is_device(kind) and not is_labelled(kind)


def is_operand(x: Any) -> bool:
    """Can an operator combine x with a traced value? Otherwise it answers NotImplemented, and x has its say."""
    kind = type(x)
    if kind is Tracer or kind in SCALAR_AVALS or kind is list or kind is tuple:
        return True
    if kind is np.ndarray:
        return dtype_kind(x.dtype) in KINDS
    their_say(x)
    if overrides(kind, "__array_ufunc__") or getattr(x, "__array_priority__", 0.0) > Tracer.__array_priority__:
        return False
    if is_a(x, np.ndarray):
        return dtype_kind(x.dtype) in KINDS and own_meaning(kind) is None and not is_masked(kind)
    if kind in NAMESPACES or is_a(x, (int, float, complex)) or is_labelled(kind):
        return True
    return device_in_use() and namespace_of((x,)) is not np


def as_array(x: Any) -> Any:
    """x itself if funcad can compute with it, otherwise NumPy's array of it (lists, tuples)."""
    kind = type(x)
    if kind is Tracer or kind is np.ndarray or kind in SCALAR_AVALS:
        return x
    if isinstance(x, (list, tuple, range)):
        if any(type(v) is Tracer for v in _flat(x)):
            return Tracer.namespace.numpy.array(x)
        return np.asarray(x)
    if is_labelled(kind):
        return as_array(values_of(x))
    if hasattr(kind, "as_operand"):  # what a mask selects, or a masked array
        return x.as_operand()
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


def cast(x: Any, dtype: np.dtype) -> Any:
    """`convert`, where the user asks for it: NumPy warns of lost imaginary parts, jit's programs do not."""
    if dtype.kind in "fiu" and state.observer is None and aval_of(x).dtype.kind == "c":
        text = "Casting complex values to real discards the imaginary part"
        warnings.warn(text, np.exceptions.ComplexWarning, stacklevel=outside(2))
    return convert(x, dtype)


def broadcast_in(trace: Any, x: Any, shape: tuple, axes: tuple) -> Any:
    """Broadcast x, in the trace that it meets if that is abstract (by reference, as `convert_in`)."""
    (x,) = (x,) if trace is None else plain_values((x,))
    if trace is not None and type(x) is np.ndarray:
        return trace.record(broadcast_in_dim, (x,), {"shape": shape, "axes": axes})
    return bind(broadcast_in_dim, x, shape=shape, axes=axes)


def result_dtype(args: Sequence[Any], of_ufuncs: bool = True) -> tuple[np.dtype, bool]:
    """NumPy's result dtype, and whether it is weak (all operands are Python scalars).

    Of narrow floats ufuncs know more than `np.result_type`: beside a Python float they are float32, not float64.
    """
    strong: list[np.dtype] = []
    weak: list[Any] = []
    for a in args:
        kind = type(a)
        if kind in _PYTHON:
            weak.append(kind)
            continue
        p = a.primal if kind is Tracer and a.atom is None else a
        if type(p) is np.ndarray and (p.dtype is _F64 or p.dtype is _F32):
            strong.append(p.dtype)
            continue
        aval = aval_of(a)
        if aval.weak:
            weak.append(type(_PYTHON_VALUE[aval.dtype.kind]))
        else:
            strong.append(aval.dtype)
    if not strong:
        return np.result_type(*[SCALAR_AVALS[k].dtype for k in weak]), True
    narrow = NARROW and any(map(is_narrow, strong))
    if narrow and complex not in weak and written_for_others():  # JAX's narrow floats stay so beside Python's numbers
        return functools.reduce(lambda a, b: np.multiply.resolve_dtypes((a, b, None))[0], strong), False
    if of_ufuncs and narrow:
        given = [*strong, *[k if k is not bool else np.dtype(k) for k in weak]]
        return functools.reduce(lambda a, b: np.multiply.resolve_dtypes((a, b, None))[0], given), False
    found = np.result_type(*strong, *[k() for k in weak])
    return HALVES.get(found, found) if HALVES and written_for_others() else found, False


def _tell(dtype: np.dtype) -> None:
    """A number of NumPy's is converted here, so that no equation says of which dtype it was."""
    met = getattr(getattr(state.abstract, "recorder", None), "met", None)
    if met is not None:
        met.add(dtype)


def promote_dtype(args: Sequence[Any], dtype: np.dtype, weak: bool | None = False) -> list[Any]:
    """The operands in one dtype; Python scalars stay Python scalars of that kind.

    What happens to traced Python scalars: they become strong (False), stay weak in the new kind (True), or stay what they are
    if they have the dtype already (None: for primitives that care for the dtype only).
    """
    if not dtype.isnative:
        dtype = native_dtype(dtype)
    trace: Any = args  # looked for where it is needed
    result = []
    for a in args:
        kind = type(a)
        p = a.primal if kind is Tracer and a.atom is None else a
        if type(p) is np.ndarray and p.dtype is dtype and (dtype is _F64 or dtype is _F32):
            result.append(a)
            continue
        if kind in _PYTHON:
            if dtype.kind in "iu" and kind is int:
                dtype.type(a)  # OverflowError for what does not fit, in NumPy's words
            cast = _CAST[dtype_kind(dtype)]
            a = a if kind is cast else cast(a)
        else:
            aval = aval_of(a)
            if aval.weak and (weak or weak is None and aval.dtype == dtype):
                a = a if aval.dtype == dtype else bind(convert_p, a, dtype=dtype, weak=True)
            elif aval.dtype != dtype or aval.weak:
                trace = abstract_trace_of(args) if trace is args else trace
                if is_a(a, np.generic):
                    _tell(aval.dtype)
                a = dtype.type(a) if is_a(a, np.generic) and trace is None else convert_in(trace, a, dtype)
        result.append(a)
    return result


def one_dtype(xs: Sequence[Any]) -> bool:
    """Are they arrays of one dtype in double or single precision, and NumPy's promotion has nothing to do? (As `same_aval`.)"""
    found: Any = None
    for x in xs:
        p = x.primal if type(x) is Tracer and x.atom is None else x
        if type(p) is not np.ndarray or p.dtype is not _F64 and p.dtype is not _F32 or p.dtype is not found is not None:
            return False
        found = p.dtype
    return True


_FLOATS = (np.float64, float)
_FLOAT = frozenset([np.dtype(c).num for c in "efdg"])  # not narrow ones, which a Python float makes float32
_INEXACT = _FLOAT.union([np.dtype(c).num for c in "FDG"])


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
        return a.dtype.num in _FLOAT
    if kind is Tracer:
        b = y.aval
        return a.dtype is b.dtype and a.shape == b.shape and not (a.weak and a.dtype.num == 0)  # Python's truths are ints
    if kind is np.ndarray:
        return y.dtype is a.dtype and y.shape == a.shape
    return kind is a.dtype.type


def with_integer(x: Any, y: Any) -> Any:
    """The pair with a Python integer beside a traced float made a float, as NumPy does; None where this is not the case."""
    if type(y) is int:
        if type(x) is Tracer and x.aval.dtype.num in _FLOAT:
            return x, float(y)
    elif type(x) is int and type(y) is Tracer and y.aval.dtype.num in _FLOAT:
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
    if dtype is not y.dtype or dtype.num not in _INEXACT:
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


_loops = table("numpy.loops", "ufunc and dtypes: the dtype of its operands", 4096)


def loop_dtype(ufunc: np.ufunc, args: Sequence[Any]) -> np.dtype:
    """The dtype to which the ufunc converts its operands; TypeError, as NumPy's, if it takes none such."""
    keys: list[Any] = []
    strong = False
    if NARROW and any([is_narrow(aval_of(a).dtype) for a in args]) and written_for_others():
        weak = [type(a) in _PYTHON or aval_of(a).weak for a in args]
        if not any([w and aval_of(a).dtype.kind == "c" for a, w in zip(args, weak)]):
            strong_one = args[weak.index(False)]
            args = [strong_one if w else a for a, w in zip(args, weak)]  # beside which Python's numbers change nothing
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
        _loops.put(key, found)
    return HALVES.get(found, found) if HALVES and written_for_others() else found


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
    if len(args) == 1 and dtype is None and type(args[0]) is Tracer and args[0].atom is None and not HALVES:
        p = args[0].primal  # an array whose loop is known to take it as it is
        if type(p) is np.ndarray and p.dtype is _loops.get((ufunc, p.dtype)):
            return [args[0]]
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


# -- arguments that name axes and shapes, made definite: non-negative, sorted, checked in NumPy's words


def array_of(x: Any) -> Any:
    """An argument as an array, tracer or strong scalar; lists (of tracers too) become arrays."""
    p = x.primal if type(x) is Tracer and x.atom is None else x
    return x if type(p) is np.ndarray and p.dtype.num in NUMBERS else strong(as_array(x))


def axis_of(axis: Any, ndim: int) -> int:
    return normalize_axis_index(axis if type(axis) is int else index(axis), ndim)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Sorted non-negative axes; None means all."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (normalize_axis_index(axis, ndim),)
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """As `axes_of` for what ufuncs reduce: they let an array of rank 0 have the axes 0 and -1."""
    return () if not ndim and type(axis) is int and axis in (0, -1) else axes_of(axis, ndim)


def shape_argument(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints."""
    if isinstance(shape, (tuple, list, range)) or is_a(shape, np.ndarray) and shape.ndim:
        return tuple([n if type(n) is int else index(n) for n in shape])
    return (index(shape),)


def expand(x: Any, axes: Any) -> Any:
    """New axes of size 1 at the given places of the result."""
    shape = list(shape_of(x))
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshape(x, shape=tuple(shape)) if axes else x


def ravelled(x: Any) -> Any:
    aval = aval_of(x)
    return x if len(aval.shape) == 1 else reshape(x, shape=(aval.size,))


def merge_axes(x: Any, axes: tuple[int, ...]) -> tuple[Any, int, Callable[[Any], Any]]:
    """x with its `axes` as one, which one that is, and how to come back; a scalar becomes an array of one element."""
    shape = shape_of(x)
    if not shape:
        return reshape(x, shape=(1,)), 0, lambda y: reshape(y, shape=())
    if len(axes) == 1:
        return x, axes[0], lambda y: y
    kept = [i for i in range(len(shape)) if i not in axes]
    perm = (*kept, *axes)
    moved = tuple([shape[i] for i in perm])
    one = reshape(transpose(x, perm=perm), shape=(*moved[: len(kept)], prod(moved[len(kept) :])))
    inverse = tuple([perm.index(i) for i in range(len(shape))])
    return one, len(kept), lambda y: transpose(reshape(y, shape=moved), perm=inverse)


def check_kth(a: Any, kth: Any, axis: Any, kind: Any) -> None:
    """Of np.partition: NumPy's error if there is no such kind, or no such position along the axis."""
    np.partition((0,), 0, kind=kind)
    aval = aval_of(array_of(a))
    n = aval.size if axis is None or not aval.shape else aval.shape[axis_of(axis, len(aval.shape))]
    if n and not np.all((np.asarray(kth) >= -n) & (np.asarray(kth) < n)):
        np.partition(np.empty(n), kth)


def library(device: Any = None, like: Any = None) -> Any:
    """numpy, or the library of the device that is asked for."""
    if like is not None:
        return namespace_of((concrete_value(like),))
    name = state.default_device if device is None else str(device)
    if name.startswith(("cpu", "numpy")):
        return np
    if name.startswith(("cuda", "gpu", "cupy")):
        return cupy_module(f"device={name!r}")
    raise ValueError(f"unknown device {device!r}; use 'cpu' or 'cuda'")


# -- which results are arrays of their own, and which are views of an operand or the operand itself: as NumPy has it
#
# Idea: each public function says `alias="copy"`, `"view"` or `"same"`, the most that NumPy's function gives for some arguments:
# new memory, another array over the operand's memory, the operand's own object. Where a result is written, that tells what else
# is. Invariant: a result is the operand's own object exactly where NumPy's is. So a function that has nothing to do
# (`np.concatenate([x])`, `x.T` of one axis) gives a `fresh` object of the same value.


def fresh(x: Any) -> Any:
    """The same value as another object: a tracer at no cost, an array that is not traced as a copy."""
    if type(x) is not Tracer:
        return x.copy("K") if type(x) is np.ndarray else x
    made = snapshot(x)
    if x.box is not None and made.box is None and not x.shape:
        made.box = Box()  # of an array of rank 0: it is one, too
    return made_here(made)


def made_here(x: Tracer) -> Tracer:
    """x, a copy of a value that may be of an outer trace: the body that is being traced may write it."""
    body = state.abstract
    if body is not None and x.owner.level < body.level:
        body.hoisted.append(x)
    return x


def as_array_of_rank_0(x: Any) -> Any:
    """What is traced and has rank 0 as an array, which can be written; all else as it is."""
    if type(x) is not Tracer or x.shape or is_array(x):
        return x
    made = x.owner.again(x)  # and no snapshot, which may be the number itself
    made.box = Box()
    return made_here(made)


def arrays(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an implementation of what gives arrays in NumPy, and never numbers: of rank 0 they can be written, too."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return as_array_of_rank_0(implementation(*args, **kwargs))

    return named_as(call, implementation)


def as_number(x: Any) -> Any:
    """What is traced and has rank 0 as a number, which cannot be written; all else as it is."""
    if type(x) is not Tracer or x.shape or not is_array(x):
        return x
    if x.box is not None:
        x = snapshot(x)
        x.box = None
    if not is_array(x):
        return x
    return or_(x, x) if x.dtype.kind == "b" else neg(neg(x))  # an array that was given; this is the number in it


_NUMPYS = {"b": np.dtype(bool), "i": np.dtype(np.int64), "u": np.dtype(np.int64), "f": _F64, "c": np.dtype(complex)}


def python_number(x: Any) -> Any:
    """A number as Python's: it adapts to the dtype of what it meets, and its truth is True itself. A longdouble has none."""
    if type(x) is not Tracer:
        return x.item() if is_a(x, np.generic) else x
    if x.aval.weak or x.dtype.char in "gG":
        return x
    found = convert_p(x, dtype=_NUMPYS[x.dtype.kind], weak=True)
    return as_truth(found) if state.identities else found


def numbers(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an implementation of what gives numbers in NumPy, and never arrays of rank 0."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return as_number(implementation(*args, **kwargs))

    call.of_numbers = True  # type: ignore[attr-defined]
    return named_as(call, implementation)


def _among(x: Any, values: Iterable[Any]) -> bool:
    for v in values:
        if v is x or (type(v) is list or type(v) is tuple) and _among(x, v):
            return True
    return False


def apart(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an implementation that may have nothing to do: it never returns an operand's own object, nor a view of one."""

    def other(x: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        kind = type(x)
        if kind is Tracer or kind is np.ndarray:
            view = kind is Tracer and x.box is not None and x.box.base is not None
            return fresh(x) if view or _among(x, args) or kwargs and _among(x, kwargs.values()) else x
        return kind([other(v, args, kwargs) for v in x]) if kind is list or kind is tuple else x

    def call(*args: Any, **kwargs: Any) -> Any:
        return other(implementation(*args, **kwargs), args, kwargs)

    return named_as(call, implementation)


def aliased(alias: str) -> Callable[[Function], Function]:
    """Decorate an implementation by what its results share with its operands."""
    assert alias in ("copy", "view", "same")

    def decorate(implementation: Any) -> Any:
        implementation.alias = alias
        return implementation

    return decorate

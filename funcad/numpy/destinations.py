"""Where results are written: the destinations of `out=`, of in-place operators and of `ufunc.at`, traced arrays.

Idea: a result is computed as without a destination, cast and broadcast as NumPy casts and broadcasts into it, and then assigned
(boxes.py). Trap: a plain NumPy array cannot take a traced value, and a number cannot be written.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from funcad.errors import BufferNeeded
from funcad.host.needs import missed
from funcad.host.user_warnings import deliver, restore_warnings, warn_at_user_line
from funcad.host.where import user_source
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.numpy.axes import array_of
from funcad.numpy.indexing import at
from funcad.primitives.conversion import convert, real
from funcad.primitives.shape import broadcast_to, reshape
from funcad.unjitted.strides import layout_of
from funcad.writes.boxes import assign, is_array

__all__ = ["add_at", "destination", "fitted", "function_out", "out_given", "warn_where", "with_out", "write_out"]
__all__ += ["write_result"]


def _where() -> str:
    source = user_source()
    return f" at {source}" if source is not None else ""


def destination(x: Any, what: str, instead: str = "") -> Tracer:
    """x, which is about to be written with traced values, or the error that says why it cannot be; `instead`: a remedy."""
    if type(x) is not Tracer:
        error = (
            f"{what} writes a traced value{_where()} into a plain NumPy array, which cannot hold it.\n"
            f"Remedy: K = np.array(K) inside the traced function makes a copy that can{instead}."
        )
        raise missed(BufferNeeded(error))
    if not is_array(x):
        raise TypeError(f"{what} writes into a number{_where()}: NumPy's scalars cannot be written.")
    return x


def fitted(x: Tracer, value: Any, casting: str = "unsafe") -> Any:
    """The value in x's dtype and shape."""
    value = array_of(value)
    own, aval = aval_of(x), aval_of(value)
    if casting != "unsafe" and not np.can_cast(aval.dtype, own.dtype, casting):
        np.copyto(np.empty(0, own.dtype), np.empty(0, aval.dtype), casting=casting)  # NumPy's TypeError
    if aval.dtype != own.dtype:
        value = real(value) if aval.dtype.kind == "c" and own.dtype.kind != "c" else value
        value = convert(value, own.dtype)
    shape = aval.shape
    if shape == own.shape:
        return value
    if len(shape) > len(own.shape) and all([n == 1 for n in shape[: len(shape) - len(own.shape)]]):
        shape = shape[len(shape) - len(own.shape) :]
        value = reshape(value, shape=shape)
    if np.broadcast_shapes(shape, own.shape) != own.shape:
        raise ValueError(f"could not broadcast input array from shape {aval.shape} into shape {own.shape}")
    return broadcast_to(value, own.shape)


def write_result(x: Tracer, out: Any, ufunc: Any, operands: Sequence[Any], casting: str = "same_kind") -> None:
    """x becomes the result of a ufunc, in its own dtype."""
    own, aval = aval_of(x), aval_of(out)
    if aval.shape != own.shape and ufunc.signature is not None:
        _check_core(own.shape, aval.shape, ufunc, operands)
    if aval.shape != own.shape and np.broadcast_shapes(aval.shape, own.shape) != own.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {_text(own.shape)} doesn't match the broadcast shape "
            f"{_text(aval.shape)}"
        )
    if aval.dtype != own.dtype and not np.can_cast(aval.dtype, own.dtype, casting):
        empty = np.empty(0, own.dtype)
        given = [np.empty(0, aval_of(array_of(a)).dtype) for a in operands]
        ufunc(*given, out=(empty, *[None] * (ufunc.nout - 1)), casting=casting)  # NumPy's TypeError
    assign(x, fitted(x, out))


def _check_core(own: tuple, shape: tuple, ufunc: Any, operands: Sequence[Any]) -> None:
    """The axes that a generalised ufunc computes are not broadcast into its output."""
    core = ufunc.signature.partition("->")[2].strip("()").split(",")
    flat = sum([aval_of(array_of(a)).ndim == 1 for a in operands])  # of matmul: their optional axis is left out
    n = len([name for name in core if name]) - min(flat, sum([name.endswith("?") for name in core]))
    for i, (a, b) in enumerate(zip(own[len(own) - n :], shape[len(shape) - n :])):
        if a != b or len(own) < n:
            raise ValueError(
                f"{ufunc.__name__}: Output operand 0 has a mismatch in its core dimension {i}, with gufunc signature "
                f"{ufunc.signature} (size {a} is different from {b})"
            )


def _text(shape: tuple) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def write_out(ufunc: Any, inputs: Sequence[Any], out: Any, where: Any, casting: str, results: Any) -> Any:
    """The outputs of a ufunc's call with `out`, after they were written where `where` holds."""
    outs = out if type(out) is tuple else (out,)
    found = results if type(results) is tuple else (results,)
    written = []
    for x, value in zip(outs, found):
        if x is None:
            written.append(value)
            continue
        x = destination(x, f"np.{ufunc.__name__}(..., out=)", f"; or use the result, y = np.{ufunc.__name__}(...)")
        if where is not True:
            value = np.where(where, value, convert(snapshot(x), aval_of(value).dtype))
        write_result(x, value, ufunc, inputs, casting)
        written.append(x)
    return written[0] if len(written) == 1 else tuple(written)


def warn_where(ufunc: Any, inputs: Sequence[Any], where: Any, options: dict[str, Any]) -> None:
    """NumPy's warnings of the elements where the mask holds, if there are values; of the others it gives none."""
    values = [concrete_value(a) for a in (*inputs, where)]
    if any([type(v) is Tracer or np.shape(v) != shape_of(a) for v, a in zip(values, (*inputs, where))]):
        return
    token = warn_at_user_line()
    try:
        ufunc(*values[:-1], where=values[-1], out=None, **options)
    finally:
        if token is not None:
            restore_warnings(token)
            deliver(SimpleNamespace(ufunc=ufunc, label=ufunc.__name__), values[:-1])


def function_out(name: str, out: Any, value: Any) -> Any:
    """`out` after a function of NumPy's that is no ufunc has written its result."""
    x = destination(out[0] if type(out) is tuple else out, f"np.{name}(..., out=)", f"; or use the result, y = np.{name}(...)")
    own, aval = aval_of(x), aval_of(value)
    if own.shape != aval.shape:
        raise ValueError(f"np.{name}: output array has the shape {_text(own.shape)}, the result {_text(aval.shape)}")
    if name == "dot":
        layout = layout_of(x)
        if own.dtype != aval.dtype or layout is not None and not layout.flags.c_contiguous:
            raise ValueError(
                "output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)"
            )
    casting = "safe" if name == "einsum" else "same_kind"
    kinds = (own.dtype, aval.dtype) if name in ("argmax", "argmin") else (aval.dtype, own.dtype)  # as NumPy asks there
    if not np.can_cast(*kinds, casting):
        raise TypeError(f"np.{name}: cannot cast the result from {aval.dtype!r} to {own.dtype!r} according to {casting!r}")
    assign(x, fitted(x, value))
    return x


_ACCUMULATED = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "minimum": "min",
    "maximum": "max",
    "power": "power",
}


def add_at(ufunc: Any, x: Any, index: Any, *values: Any) -> None:
    """`ufunc.at(x, index, values)`: repeated indices count each time."""
    method = _ACCUMULATED.get(ufunc.__name__)
    instead = f"; or take y = funcad.numpy.at(K)[indices].{method}(values), a new array" if method is not None else ""
    x = destination(x, f"np.{ufunc.__name__}.at", instead)
    if method is None:
        raise TypeError(
            f"np.{ufunc.__name__}.at was called with traced values{_where()}; repeated indices are counted for "
            f"{', '.join(_ACCUMULATED)}.\nRemedy: x[index] = np.{ufunc.__name__}(x[index], ...), if no index is repeated."
        )
    updater = at(snapshot(x))[index]
    own = aval_of(x).dtype
    given, shape = [array_of(v) for v in values], updater.shape()
    if shape is not None and any([len(shape_of(v)) > len(shape) for v in given]):
        raise ValueError("array is not broadcastable to correct shape")
    result = ufunc(np.empty(0, own), *[np.empty(0, aval_of(v).dtype) for v in given]).dtype
    if not np.can_cast(result, own, "same_kind"):
        ufunc.at(np.empty(1, own), [0], *[np.ones(1, aval_of(v).dtype) for v in given])  # NumPy's TypeError
    assign(x, getattr(updater, method)(*given))


@functools.cache
def _place_of_out(implementation: Callable[..., Any]) -> int:
    """Which positional argument is `out`; a large number if there is none."""
    for i, parameter in enumerate(inspect.signature(implementation).parameters.values()):
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            break
        if parameter.name == "out":
            return i
    return 1000


def with_out(implementation: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The implementation of a function or method of NumPy's, called directly: what is given as `out` is written."""
    place = _place_of_out(implementation)
    if place == 1000:
        return implementation

    @functools.wraps(implementation)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= place and "out" not in kwargs:
            return implementation(*args, **kwargs)
        out, args, kwargs = out_given(implementation, args, kwargs)
        result = implementation(*args, **kwargs)
        return result if out is None else function_out(name, out, result)

    return call


def out_given(implementation: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Sequence, dict]:
    """(what is given as `out`, the other arguments); None if nothing is."""
    if "out" in kwargs:
        out = kwargs["out"]
        return out, args, {name: value for name, value in kwargs.items() if name != "out"}
    place = _place_of_out(implementation)
    if len(args) > place and args[place] is not None and args[place] is not np._NoValue:
        return args[place], [*args[:place], None, *args[place + 1 :]], kwargs
    return None, args, kwargs

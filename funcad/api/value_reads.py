"""What Python reads of traced values: truth, numbers, indices, arrays and text.

Idea: Python's control flow reads the value behind a tracer, where there is one; a conversion that would cut the derivative
raises (host/conversions.py has the words). Where there is none, the trace may have a recorder, which runs what was recorded
and answers (jitted/path_recording.py, lane_trace.py): `asked` is the one question. The functions at the end are methods
of `Tracer` (METHODS of numpy/methods.py).
"""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.errors import TracerArrayConversionError
from funcad.host.conversions import is_looking_up, makes_text, no_array, no_hash, no_integer, no_truth
from funcad.host.where import is_installed, is_stored, state, user_source
from funcad.ir.aval import Value
from funcad.ir.tracer import Tracer, concrete_value, leaked

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def carries_derivative(x: Value | None) -> bool:
    """Does one lead to x, of a function that still runs, or ran inside one that still runs?"""
    while type(x) is Tracer:
        if x.atom is None and x.tangent is not None and not (x.owner.closed and state.running is None):
            return True
        x = x.primal if x.atom is None else getattr(x.tangent, "value", None)  # of an un-jitted vmap: what its lanes are
    return False


def _told(x: Tracer, how: str) -> Value:
    """`concrete_value`, for Python's control flow: the traces that wish to know are told what asked for it."""
    value: Value = x
    while type(value) is Tracer and value.atom is None:
        if value.owner.reads is not None:
            value.owner.reads(value, how)
        value = value.primal
    return value


def as_truth(x: Any) -> Any:
    """x, but Python's own True or False for one of them whose recorder can tell which."""
    value = concrete_value(x)
    if type(value) is not Tracer or value.owner.recorder is None:
        return x
    aval = value.aval
    return bool(x) if aval.weak and aval.dtype.kind == "b" and not aval.shape else x


def plain_value(x: Tracer, how: str) -> Any:
    """The value, if nothing is lost by leaving the trace."""
    value = concrete_value(x)
    if type(value) is Tracer and not carries_derivative(x):
        if how == "array" and not x.aval.shape and x.aval.dtype.kind in "biu":  # of NumPy's functions that need a number
            value = asked(value, "item")
        elif how != "array":
            value = asked(value, how)
    if carries_derivative(x):
        reason = "it carries a derivative, which would silently be lost"
    elif type(value) is Tracer:
        if value.owner.closed:
            raise leaked(x)
        reason = f"inside {value.owner.name} it has no value"
    else:
        return value
    error = no_array(how, x.aval, reason, type(value) is not Tracer, _offers)
    if how == "array" and x.aval.dtype.kind in "biu" and type(value) is Tracer and type(error) is TracerArrayConversionError:
        if not error.learned:  # of whoever takes plain arrays only, as `plain[mask]`; nothing of a derivative is lost
            found = asked(value, "indices")
            if type(found) is not Tracer:
                return found
    running, source = state.running, user_source() if type(error) is TracerArrayConversionError else None
    if running is not None and carries_derivative(x) and source is not None:
        called = str(error).startswith(("float(x)", "complex(x)", "x.item()"))  # and by no function of a library's
        error.of_number = called and not is_installed(source.code.co_filename)
        running.missed = running.missed or (error if error.of_number else None)
    raise error


def asked(x: Value, how: str) -> Value:
    """The value that Python's control flow asks for, if the trace can tell (jitted/path_recording.py); else x itself."""
    if type(x) is not Tracer:
        return x
    if x.owner.recorder is not None:
        return x.owner.recorder.answer(x, how)
    if not is_stored(how):
        part_lanes_around(x.owner)
    observer = state.observer
    if observer is not None and observer.inputs and x.owner is observer.trace:
        observer.not_placed()  # the function is traced once more without inputs, also if it catches the error that comes
    return x


def shown_value(x: Value, text: bool = True) -> Value:
    """`concrete_value`, for a text that the program makes, or for who only looks (`repr`)."""
    value = concrete_value(x)
    if type(value) is not Tracer:
        return value
    recorder, observer = value.owner.recorder, state.observer
    if recorder is None and text:
        part_lanes_around(value.owner)
    shown: Value = value if recorder is None else recorder.shown(value, text)
    if shown is value and text and observer is not None and _is_of(observer, value):
        if observer.inputs:  # a number is one that was to be an input
            raise observer.not_placed()
        observer.refuse("the text of a traced array is made" if value.aval.shape else "the text of a traced value is made")
    return value if shown is value else shown_value(shown, text)


def part_lanes_around(trace: Any) -> None:
    """Its values are asked for: where it runs once for each lane of a vmap (a checkpoint), the lanes part before."""
    if state.observer is not None:  # of jit, which answers by a guard or refuses
        return
    while trace is not None and trace.recorder is None and trace.given is not None:
        trace = trace.around and trace.around[1]
    if trace is not None and getattr(trace.recorder, "of_lanes", False):
        trace.recorder.part()


def _is_of(observer: Any, x: Tracer) -> bool:
    """Is x a value of the function that is traced, or of what runs once in each of its runs?"""
    if x.owner is observer.trace:
        return True
    inside = observer.trace is not None and x.owner.level > observer.trace.level
    return inside and bool(observer.runs_once("makes a text of a traced value"))


def _offers(name: str) -> bool:
    """Does funcad have that, "numpy.take" or "scipy.optimize.brentq"?"""
    found = Tracer.namespace
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None and not hasattr(found, "by_own_code")


def bool_(x: Tracer) -> bool:
    value = _told(x, "bool()")
    if type(value) is Tracer:
        value = asked(value, "bool()")
    if type(value) is Tracer:
        raise no_truth(value.aval, value.owner.name, _offers)
    return bool(value)


def int_(x: Tracer) -> int:
    return int(_integer(x, "int()"))


def index_(x: Tracer) -> int:
    return operator.index(_integer(x, "an index"))


def _integer(x: Tracer, how: str) -> Any:
    value = _told(x, how)
    if type(value) is Tracer:
        value = asked(value, how)
    if type(value) is Tracer:
        raise no_integer(how, value.aval, value.owner.name, _offers)
    return value


def float_(x: Tracer) -> float:
    if carries_derivative(x) and makes_text(sys._getframe(1)):  # "%.2f" % x, as `format_` gives it
        value = shown_value(x)
        if type(value) is not Tracer:
            return float(np.asarray(value))
    return float(plain_value(x, "float"))


def complex_(x: Tracer) -> complex:
    return complex(plain_value(x, "complex"))


def array_(x: Tracer, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
    if dtype is not None and np.dtype(dtype).kind in "biu":  # as `x.astype(int)`, it has no derivative that could be lost
        value = concrete_value(x)
        if type(value) is not Tracer:
            return np.array(value, dtype=dtype)
    own = (not x.owner.level or x.owner.closed) and copy is None  # a buffer that will be written, or a residual
    return np.array(plain_value(x, "array"), dtype=dtype, copy=True if own else copy)


def trunc_(x: Tracer) -> int:
    return int_(x)


def format_(x: Tracer, spec: str) -> str:
    value = shown_value(x)
    if type(value) is Tracer and spec:  # whoever asks for digits uses them
        value = complex_(x) if x.dtype.kind == "c" else int_(x) if x.dtype.kind in "iu" else float_(x)
    return format(value, spec) if type(value) is not Tracer else repr(value)


def str_(x: Tracer) -> str:
    value = shown_value(x)
    return str(value) if type(value) is not Tracer else repr(value)


def repr_(x: Tracer) -> str:
    value = shown_value(x, False)
    if state.unread and type(value) is Tracer and value.atom in state.unread:
        raise no_array("str", value.aval, "it stands for a number", False, _offers)
    inner = f", value={value!r}" if type(value) is not Tracer else ""
    return f"Tracer<{x.aval.short} in {x.owner.name}{inner}>"


def hash_(x: Tracer) -> int:
    if not x.shape and x.dtype.kind in "biu" and is_looking_up(sys._getframe(1)):  # who stores it would keep it too long
        value = _told(x, "int()")
        value = asked(value, "int()") if type(value) is Tracer else value
        if type(value) is not Tracer:
            return hash(operator.index(np.asarray(value).item()))
    raise no_hash(x.aval)


CONVERSIONS = {
    f"__{function.__name__.rstrip('_')}__": function
    for function in (bool_, int_, index_, float_, complex_, array_, trunc_, hash_, format_, str_, repr_)
}

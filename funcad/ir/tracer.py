"""The tracer: what a traced function receives in place of its arrays.

One class for every transform. A tracer of an *abstract* trace (jit, vmap, scan bodies) has a variable and no value. A tracer
of a *following* trace (jvp, grad outside jit) holds a primal, which is an array or an outer tracer, and a tangent, or None.
Python control flow (`if`, `int`, `len`, `print`, masks) reads the primal; conversions that would cut the derivative raise
(host/conversions.py says it). Operators, attributes and NumPy's protocols are the functions of one table, `METHODS` of
numpy/operators.py, put into the class by `funcad.numpy`: no call stands in between. `Tracer.namespace`, set once by `funcad`,
is the package itself: the one upward reference. Trap: a tracer passes for an array or a number in every `isinstance`, so code
of funcad's own asks for `type(x)`, or `is_a` of host/real_types.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.errors import UnexpectedTracerError
from funcad.host.conversions import leaked_error, no_array, no_hash, no_integer, no_truth
from funcad.host.devices import device_in_use, is_device
from funcad.host.real_types import Length, Unseen, kind_of
from funcad.host.state import state
from funcad.host.where import Source
from funcad.ir.aval import Aval, aval_of
from funcad.ir.types import AnyAval, Value

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_NUMBERS = frozenset([float, np.float64])
__all__ = ["Tracer", "snapshot", "value_key", "tangent_of"]
__all__ += ["asked", "concrete_value", "array_type", "has_value", "carries_derivative", "leaked", "plain_value"]


def has_value(x: Value) -> bool:
    """Is there an array behind x (x is no tracer, or one whose primals end in an array)?"""
    return type(concrete_value(x)) is not Tracer


def tangent_of(x: Tracer) -> Any:
    """The tangent of a following tracer, or None; it may be in a list, the row of a tape or beside what made the value."""
    tangent = x.tangent
    return tangent[0] if type(tangent) is list else tangent


def snapshot(x: Value) -> Any:
    """The value that a traced x names now, by a tracer that no write changes: what recorders keep is never the user's own."""
    if type(x) is not Tracer or type(x.primal) in _NUMBERS and x.box is None:  # a number is never written
        return x
    if x.owner.settle is not None:
        x.owner.settle(x)
    return x.owner.again(x)


def value_key(x: Value) -> object:
    """Which value x is, or names now, as long as somebody keeps it."""
    if type(x) is not Tracer:
        return id(x)
    return (id(x.variable),) if x.variable is not None else (id(x.primal), id(x.tangent))


def carries_derivative(x: Value) -> bool:
    """Does one lead to x, of a function that still runs, or ran inside one that still runs?"""
    while type(x) is Tracer and x.variable is None:
        if x.tangent is not None and not (x.owner.closed and state.running is None):
            return True
        x = x.primal
    return False


def concrete_value(x: Value) -> Value:
    """The array behind x, or the abstract tracer where the search ended."""
    while type(x) is Tracer and x.variable is None:
        x = x.primal
    return x


def array_type(values: Sequence[Value]) -> type:
    """The type of the arrays that a program with these inputs computes with: numpy.ndarray, or the device's."""
    if device_in_use():
        for x in map(concrete_value, values):
            kind = x.owner.array if type(x) is Tracer else type(x)
            if is_device(kind):
                return kind
    return np.ndarray


def _told(x: Tracer, how: str) -> Value:
    """`concrete_value`, for Python's control flow: the traces that wish to know are told what asked for it."""
    value: Value = x
    while type(value) is Tracer and value.variable is None:
        if value.owner.reads is not None:
            value.owner.reads(value, how)
        value = value.primal
    return value


def leaked(x: Tracer) -> UnexpectedTracerError:
    made_at = Source(*x.source) if x.source is not None else ""
    return leaked_error(x.aval, x.owner.name, str(made_at), has_value(x))


def plain_value(x: Tracer, how: str) -> Any:
    """The value, if nothing is lost by leaving the trace."""
    value = concrete_value(x)
    if type(value) is Tracer and not carries_derivative(x):
        if how == "array" and not x.aval.shape and x.aval.dtype.kind in "biu":  # of NumPy's functions that need a number
            value = asked(value, "item")
        elif how not in ("array", "tolist"):
            value = asked(value, how)
    if carries_derivative(x):
        reason = "it carries a derivative, which would silently be lost"
    elif type(value) is Tracer:
        if value.owner.closed:
            raise leaked(x)
        reason = f"inside {value.owner.name} it has no value"
    else:
        return value
    raise no_array(how, x.aval, reason, type(value) is not Tracer, _offers)


def asked(x: Value, how: str) -> Value:
    """The value that Python's control flow asks for, if the trace can tell (jitted/path_recording.py); else x itself."""
    return x if type(x) is not Tracer or x.owner.recorder is None else x.owner.recorder.answer(x, how)


def _shown(x: Value) -> Value:
    """`concrete_value`, for a text."""
    value = concrete_value(x)
    if type(value) is not Tracer or value.owner.recorder is None:
        return value
    shown: Value = value.owner.recorder.shown(value)
    return value if shown is value else _shown(shown)


def _offers(name: str) -> bool:
    """Does funcad have that, "numpy.take" or "scipy.optimize.brentq"?"""
    found = Tracer.namespace
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


class Tracer(metaclass=Unseen):
    """A traced array: it has a shape and a dtype, takes part in NumPy expressions, and is recorded.

    It answers type tests as the value it stands for: `isinstance` (NumPy's, Python's and a device's types, `numbers`,
    `collections.abc`), `x.__class__`, `match`, `functools.singledispatch`, `np.isscalar`. Shaped values are arrays; a value of
    rank 0 is float, int, bool or complex where Python's arithmetic would give one, else NumPy's scalar. Out of reach, so use
    `isinstance`, `np.ndim(x)` or `np.iterable(x)`: `type(x) is float`, C and typed Cython code, `hasattr(x, "__iter__")`, and,
    where there is no value (jit, vmap, loops), arrays of rank 0 that are made inside: they answer as scalars.
    """

    # `owner` is the trace and `variable` the var: arrays have methods called trace and var
    __slots__ = ("owner", "variable", "primal", "tangent", "source", "_aval", "box", "__weakref__")
    __array_priority__ = 1001.0  # pandas' own is 1000: it leaves operations to whoever has more
    __pandas_priority__ = 5000.0
    namespace: Any = None  # the package funcad

    def __init__(self, trace: Any, var: Any, primal: Any = None, tangent: Any = None, source: Any = None):
        self.owner = trace
        self.variable = var
        self.primal = primal
        self.tangent = tangent
        self.source = source  # a `Source`, or the tuple of its fields
        self._aval: AnyAval | None = None
        self.box: Any = None  # of arrays that are or have views, see writes/boxes.py

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What the value stands for, so that `isinstance`, `match` and `np.isscalar` answer as without funcad.

        Type tests of funcad's own ask `type(x) is Tracer`, or `is_a` of host/real_types.py.
        """
        value: Any = concrete_value(self)
        if type(value) is not Tracer:
            return type(value)
        variable, trace = value.variable, value.owner
        if not variable.aval.shape and not variable.aval.weak:
            trace.asked = True
            kind = trace.stands_for[variable].__class__ if variable in trace.stands_for else None
            if kind is trace.array:
                return kind
        return kind_of(variable.aval, trace.array)

    # -- what is known without a value
    @property
    def aval(self) -> Aval:
        if self.variable is not None:
            return self.variable.aval
        aval = self._aval
        if aval is None:
            primal = self.primal
            aval = aval_of(primal)
            if type(primal) is not np.ndarray and isinstance(aval, Aval):
                aval = Aval(aval.shape, aval.dtype, aval.weak)  # a variable, never a LiteralAval
            self._aval = aval
        return aval  # type: ignore[return-value]

    @property
    def shape(self) -> tuple[int, ...]:
        primal = self.primal
        return primal.shape if type(primal) is np.ndarray else self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        primal = self.primal
        return primal.dtype if type(primal) is np.ndarray and primal.dtype.isnative else self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    __len__ = Length()

    # -- reading the value
    def __bool__(self) -> bool:
        value = _told(self, "bool()")
        if type(value) is Tracer:
            value = asked(value, "bool()")
        if type(value) is Tracer:
            raise no_truth(value.aval, value.owner.name, _offers)
        return bool(value)

    def __int__(self) -> int:
        return int(self._integer("int()"))

    def __index__(self) -> int:
        return operator.index(self._integer("an index"))

    def _integer(self, how: str) -> Any:
        value = _told(self, how)
        if type(value) is Tracer:
            value = asked(value, how)
        if type(value) is Tracer:
            raise no_integer(how, value.aval, value.owner.name, _offers)
        return value

    def __float__(self) -> float:
        return float(plain_value(self, "float"))

    def __complex__(self) -> complex:
        return complex(plain_value(self, "complex"))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        own = (not self.owner.level or self.owner.closed) and copy is None  # a buffer that will be written, or a residual
        return np.array(plain_value(self, "array"), dtype=dtype, copy=True if own else copy)

    def __hash__(self) -> int:
        raise no_hash(self.aval)

    def __trunc__(self) -> int:
        return int(self)

    def __format__(self, spec: str) -> str:
        value = _shown(self)
        return format(value, spec) if type(value) is not Tracer else repr(value)

    def __str__(self) -> str:
        value = _shown(self)
        return str(value) if type(value) is not Tracer else repr(value)

    def __repr__(self) -> str:
        value = _shown(self)
        if state.unread and type(value) is Tracer and value.variable in state.unread:
            raise no_array("str", value.aval, "it stands for a number", False, _offers)
        inner = f", value={value!r}" if type(value) is not Tracer else ""
        return f"Tracer<{self.aval} in {self.owner.name}{inner}>"

    def __copy__(self) -> Tracer:
        return self if self.aval.weak else self.owner.again(self)  # a copy of Python's number is that number

    def __deepcopy__(self, memo: object) -> Tracer:
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        if not self.owner.level:
            return np.array, (np.array(self.primal),)
        raise TypeError(f"a traced value ({self.aval}) cannot be pickled; return it from the traced function instead")

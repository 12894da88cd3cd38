"""The tracer: what a traced function receives in place of its arrays.

One class for every transform. A tracer of an *abstract* trace (jit, vmap, scan bodies) has a variable and no value. A tracer
of a *following* trace (jvp, grad outside jit) holds a primal, which is an array or an outer tracer, and a tangent, or None.
What Python reads of it (`if`, `int`, `print`) is in api/value_reads.py. Operators, attributes and NumPy's protocols are the
functions of one table, `METHODS` of numpy/methods.py, put into the class by `funcad.numpy`: no call stands in between.
`Tracer.namespace`, set once by `funcad`, is the package itself: the one upward reference. Trap: a tracer passes for an array or
a number in every `isinstance`, so code of funcad's own asks for `type(x)`, or `is_a` of host/real_types.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.errors import UnexpectedTracerError
from funcad.host.conversions import leaked_error
from funcad.host.devices import device_in_use, is_device
from funcad.host.real_types import Length, Unseen, kind_of
from funcad.host.where import Source
from funcad.ir.aval import TRACERS, AnyAval, Aval, LiteralAval, Value, aval_of

_FLOAT64 = np.dtype(np.float64)
_new = object.__new__
_OF_NUMBERS = {float: Aval((), _FLOAT64, True), np.float64: Aval((), _FLOAT64)}
_NUMBERS = frozenset([float, np.float64])


def has_value(x: Value) -> bool:
    """Is there an array behind x (x is no tracer, or one whose primals end in an array)?"""
    return type(concrete_value(x)) is not Tracer


def tangent_of(x: Tracer) -> Any:
    """The tangent of a following tracer, or None; it may be in a list beside what made the value, or the number of a row."""
    tangent = x.tangent
    if type(tangent) is int and x.owner.settled is not None:
        return x.owner.settled[tangent]
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
    if x.atom is not None:
        return (id(x.atom),)
    return (id(x.primal), id(x.owner), x.tangent) if type(x.tangent) is int else (id(x.primal), id(x.tangent))


def concrete_value(x: Value) -> Value:
    """The array behind x, or the abstract tracer where the search ended."""
    while type(x) is Tracer and x.atom is None:
        x = x.primal
    return x


def aval_behind(x: Tracer) -> AnyAval:
    """The aval of a tracer that has a primal: worked out when it is asked for the first time, then an attribute like others."""
    primal = x.primal
    if type(primal) is np.ndarray and primal.dtype is _FLOAT64:
        x.aval = made = _new(Aval)  # as `aval_of` gives it, which most values ask for
        made.shape, made.dtype, made.weak = primal.shape, _FLOAT64, False
        return made
    aval = primal.aval if type(primal) is Tracer else _OF_NUMBERS.get(type(primal)) or aval_of(primal)
    if type(aval) is LiteralAval:
        aval = Aval(aval.shape, aval.dtype, aval.weak)  # it stands for a variable
    x.aval = aval  # type: ignore[assignment]
    return aval


def array_type(values: Sequence[Value]) -> type:
    """The type of the arrays that a program with these inputs computes with: numpy.ndarray, or the device's."""
    if device_in_use():
        for x in map(concrete_value, values):
            kind = x.owner.array if type(x) is Tracer else type(x)
            if is_device(kind):
                return kind
    return np.ndarray


def leaked(x: Tracer) -> UnexpectedTracerError:
    made_at = Source(*x.source) if x.source is not None else ""
    return leaked_error(x.aval, x.owner.name, str(made_at), has_value(x))


class Tracer(metaclass=Unseen):
    """A traced array: it has a shape and a dtype, takes part in NumPy expressions, and is recorded.

    It answers type tests as the value it stands for: `isinstance` (NumPy's, Python's and a device's types, `numbers`,
    `collections.abc`), `x.__class__`, `match`, `functools.singledispatch`, `np.isscalar`. Shaped values are arrays; a value of
    rank 0 is float, int, bool or complex where Python's arithmetic would give one, else NumPy's scalar. Out of reach, so use
    `isinstance`, `np.ndim(x)` or `np.iterable(x)`: `type(x) is float` (but in the code of a jitted function, see reads/), C and
    typed Cython code, `hasattr(x, "__iter__")`, and, where there is no value (jit, vmap, loops), arrays of rank 0 that are made
    inside: they answer as scalars.
    """

    # `owner` is the trace and `atom` the variable: arrays have methods called trace and var, and xarray asks for `variable`
    __slots__ = ("owner", "atom", "primal", "tangent", "source", "aval", "box", "__weakref__")
    __array_priority__ = 1001.0  # pandas' own is 1000: it leaves operations to whoever has more
    __pandas_priority__ = 5000.0
    namespace: Any = None  # the package funcad

    def __init__(self, trace: Any, var: Any, primal: Any = None, tangent: Any = None, source: Any = None):
        self.owner = trace
        self.atom = var
        self.primal = primal
        self.tangent = tangent
        self.source = source  # a `Source`, or the tuple of its fields
        if var is not None:  # else it is worked out when it is asked for: `aval_behind`
            self.aval: Aval = var.aval
        self.box: Any = None  # of arrays that are or have views, see writes/boxes.py

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What the value stands for, so that `isinstance`, `match` and `np.isscalar` answer as without funcad.

        Type tests of funcad's own ask `type(x) is Tracer`, or `is_a` of host/real_types.py.
        """
        value: Any = concrete_value(self)
        if type(value) is not Tracer:
            return type(value)
        variable, trace = value.atom, value.owner
        if not variable.aval.shape and not variable.aval.weak:
            trace.asked = True
            kind = trace.stands_for[variable].__class__ if variable in trace.stands_for else None
            if kind is trace.array:
                return kind
        return kind_of(variable.aval, trace.array)

    # -- what is known without a value
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

    def __reduce__(self) -> tuple[object, ...]:
        if not self.owner.level:
            return np.array, (np.array(self.primal),)
        raise TypeError(f"a traced value ({self.aval}) cannot be pickled; return it from the traced function instead")


TRACERS.add(Tracer)

"""The tracer: what a traced function receives in place of its arrays.

One class for every transform. A tracer of an *abstract* trace (jit, vmap, scan bodies) has a variable and no value. A tracer
of a *following* trace (jvp, grad outside jit) holds a primal, which is an array or an outer tracer, and a tangent, or None.
Python control flow (`if`, `int`, `len`, `print`, masks) reads the primal; conversions that would cut the derivative raise.
NumPy-like operators and methods come from `Tracer.namespace`, set once by `funcad.numpy`: the one upward reference. Trap: a
tracer passes for an array or a number in every `isinstance`, so code of funcad's own asks for `type(x)`, or `is_a` of aval.py.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from funcad.errors import (
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from funcad.host.where import Source, caller, user_source
from funcad.ir.aval import Aval, aval_of, kind_of

__all__ = ["Tracer", "tangent_of", "origin", "concrete_value", "has_value", "carries_derivative", "with_value"]


def has_value(x: Any) -> bool:
    """Is there an array behind x (x is no tracer, or one whose primals end in an array)?"""
    while type(x) is Tracer:
        if x.variable is not None:
            return False
        x = x.primal
    return True


def origin(x: Tracer) -> str:
    """Where it was made, to be read; empty if that is not known."""
    return str(Source(*x.source)) if x.source is not None else ""


def tangent_of(x: Tracer) -> Any:
    """The tangent of a following tracer, or None; it may be in a list, the row of a tape or beside what made the value."""
    tangent = x.tangent
    return tangent[0] if type(tangent) is list else tangent


def carries_derivative(x: Any) -> bool:
    while type(x) is Tracer and x.variable is None:
        if x.tangent is not None:
            return True
        x = x.primal
    return False


def concrete_value(x: Any) -> Any:
    """The array behind x, or the abstract tracer where the search ended."""
    while type(x) is Tracer and x.variable is None:
        x = x.primal
    return x


def with_value(x: Any, value: Any) -> Any:
    """The value; for a traced x (not an abstract one) the same tracer with this value behind it."""
    if type(x) is not Tracer:
        return value
    result = Tracer(x.owner, None, with_value(x.primal, value), x.tangent, x.source)
    if x.owner.tape is not None and x.owner.tape.traced is not None:
        x.owner.tape.traced.append(result)
    return result


def _told(x: Tracer, how: str) -> Any:
    """`concrete_value`, for Python's control flow: the traces that wish to know are told what asked for it."""
    value: Any = x
    while type(value) is Tracer and value.variable is None:
        if value.owner.reads is not None:
            value.owner.reads(value, how)
        value = value.primal
    return value


def _where() -> str:
    source = user_source()
    return f" at {source}" if source is not None else ""


_INDEX = (
    "write funcad.numpy.take(a, x, 0) instead of a[x], or funcad.numpy.at(a)[x, y].get() instead of a[x, y], "
    "funcad.lax.dynamic_slice instead of a[x:x + 3]: a NumPy array or a list takes no index that is only known when the "
    "program runs"
)
_REMEDIES = {
    "float": "write np.sin(x) instead of math.sin(x) and keep x as it is instead of float(x)",
    "complex": "keep x as it is instead of complex(x)",
    "item": "keep x as it is instead of x.item(): a rank-0 value works as a number",
    "tolist": "keep x as it is, or iterate over it, instead of x.tolist()",
    "array": "write x or x.astype(dtype) instead of np.asarray(x) and np.float64(x), np.stack or funcad.numpy.array instead of "
    "np.array of a list, funcad.numpy.take(a, x, 0) instead of a[x], funcad.numpy.full instead of np.full, "
    "funcad.numpy.at(a)[i].set(x) instead of a[i] = x, a = a + x instead of a += x or out=a, and np.sin(x) or "
    "funcad.pure_callback instead of a function that needs a real array; the length of np.arange(n) must be known when the "
    "function is traced: make n a static argument, jit(..., static_argnums=...)",
}


_BRANCH = (
    "Use np.where(condition, a, b), funcad.cond or funcad.while_loop; or pass the argument that decides as static "
    "(jit(..., static_argnums=...))"
)


def _of_scipy(names: list[str]) -> str:
    """What to write instead of a function of SciPy's that cannot take traced values."""
    for name in names:
        if Tracer.namespace.of_scipy(name):
            return f"call funcad.scipy.{name}, which takes traced values, instead of scipy.{name}"
    return (
        "call funcad.scipy's function of the same name, which takes traced values, instead of scipy's; for one that is not "
        "there use funcad.pure_callback, in funcad.custom_jvp if it is to have a derivative"
    )


class _Unsized(TypeError, AttributeError):
    """What `len(x)` of a number raises, a TypeError, and what makes `hasattr(x, "__len__")` false."""


class _Length:
    """`__len__` of traced values that stand for what has one: arrays, not numbers."""

    def __get__(self, x: Any, owner: Any = None) -> Any:
        if x is None or hasattr(x.__class__, "__len__"):
            return _length if x is None else types.MethodType(_length, x)
        raise _Unsized(f"object of type {x.__class__.__name__!r} has no len()")


def _length(x: Tracer) -> int:
    shape = x.aval.shape
    if not shape:
        raise TypeError("len() of unsized object")
    return shape[0]


class _Unseen(type):
    """The type of `Tracer`, which tells collections.abc nothing of its methods.

    `isinstance(x, Iterable)` looks for `__iter__` in the classes of `type(x).__mro__` beside `x.__class__`: a traced number
    must not be iterable because traced arrays are.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return ()


class Tracer(metaclass=_Unseen):
    """A traced array: it has a shape and a dtype, takes part in NumPy expressions, and is recorded.

    It answers type tests as the value it stands for: `isinstance` (NumPy's, Python's and a device's types, `numbers`,
    `collections.abc`), `x.__class__`, `match`, `functools.singledispatch`, `np.isscalar`. Shaped values are arrays; a value of
    rank 0 is float, int, bool or complex where Python's arithmetic would give one, else NumPy's scalar. Out of reach, so use
    `isinstance`, `np.ndim(x)` or `np.iterable(x)`: `type(x) is float`, C and typed Cython code, `hasattr(x, "__iter__")`, and,
    where there is no value (jit, vmap, loops), arrays of rank 0 that are made inside: they answer as scalars.
    """

    # `owner` is the trace and `variable` the var: arrays have methods called trace and var
    __slots__ = ("owner", "variable", "primal", "tangent", "source", "_aval")
    __array_priority__ = 1000.0
    namespace: Any = None

    def __init__(self, trace: Any, var: Any, primal: Any = None, tangent: Any = None, source: Any = None):
        self.owner = trace
        self.variable = var
        self.primal = primal
        self.tangent = tangent
        self.source = source  # a `Source`, or the tuple of its fields
        self._aval: Any = None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What the value stands for, so that `isinstance`, `match` and `np.isscalar` answer as without funcad.

        Type tests of funcad's own ask `type(x) is Tracer`, or `is_a` of host/real_types.py.
        """
        value = self
        while type(value) is Tracer and value.variable is None:
            value = value.primal
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
        return aval

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

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.aval.size * self.aval.dtype.itemsize

    __len__ = _Length()

    # -- reading the value
    def __bool__(self) -> bool:
        value = _told(self, "bool()")
        if type(value) is not Tracer:
            return bool(value)
        library, names = caller()
        remedy = f"Remedy: {_of_scipy(names)}" if library == "scipy" else _BRANCH
        raise TracerBoolConversionError(
            f"the truth of a traced {value.aval} was asked for{_where()}, but inside {value.owner.name} it has no value.\n"
            f"{remedy}."
        )

    def __int__(self) -> int:
        return int(self._integer("int()"))

    def __index__(self) -> int:
        return operator.index(self._integer("an index"))

    def _integer(self, what: str) -> Any:
        value = _told(self, what)
        if type(value) is not Tracer:
            return value
        remedy = (
            "Pass the argument as static (jit(..., static_argnums=...)), or index an array with it instead of a list "
            "(funcad.numpy.take); a range over it is funcad.fori_loop"
        )
        library, names = caller()
        if library == "scipy":
            remedy = f"Remedy: {_of_scipy(names)}"
        if library == "subscript":
            remedy = f"Remedy: {_INDEX}; or pass x as static (jit(..., static_argnums=...))"
        problem = f"{what} of a traced {value.aval} was asked for{_where()}, but inside {value.owner.name} it has no value"
        raise TracerIntegerConversionError(f"{problem}.\n{remedy}.")

    def _plain(self, how: str) -> Any:
        """The value, if nothing is lost by leaving the trace."""
        if carries_derivative(self):
            reason = "it carries a derivative, which would silently be lost"
        elif not has_value(self):
            reason = f"inside {concrete_value(self).owner.name} it has no value"
        else:
            return concrete_value(self)
        spelled = {
            "float": "float(x) or math.*",
            "complex": "complex(x)",
            "item": "x.item()",
            "tolist": "x.tolist()",
        }.get(how, "conversion to a NumPy array")
        library, names = caller()
        name = names[0].rpartition(".")[2] if names else ""
        remedy = _of_scipy(names) if library == "scipy" else _REMEDIES[how]
        if library == "subscript" and how == "array":
            remedy = _INDEX
        elif library == "numpy" and how == "array" and name[0] != "_" and hasattr(Tracer.namespace.namespace[0], name):
            remedy = f"call funcad.numpy.{name} instead of np.{name}, which does not look for traced values there"
        if has_value(self):
            remedy += "; or take funcad.stop_gradient(x) first if no derivative is wanted"
        raise TracerArrayConversionError(f"{spelled} of a traced {self.aval}{_where()}: {reason}.\nRemedy: {remedy}.")

    def __float__(self) -> float:
        return float(self._plain("float"))

    def __complex__(self) -> complex:
        return complex(self._plain("complex"))

    def item(self, *args: Any) -> Any:
        return np.asarray(self._plain("item")).item(*args)

    def tolist(self) -> Any:
        return np.asarray(self._plain("tolist")).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._plain("array"), dtype=dtype, copy=copy)

    def __hash__(self) -> int:
        raise TypeError(
            f"unhashable type: a traced {self.aval} was used as a key of a dict, in a set or in a cache{_where()}.\n"
            "Remedy: take its name or position as the key; leave functools.cache away from functions of traced values."
        )

    def __trunc__(self) -> int:
        return int(self)

    def __format__(self, spec: str) -> str:
        value = concrete_value(self)
        return format(value, spec) if type(value) is not Tracer else repr(value)

    def __str__(self) -> str:
        value = concrete_value(self)
        return str(value) if type(value) is not Tracer else repr(value)

    def __repr__(self) -> str:
        value = concrete_value(self)
        inner = f", value={value!r}" if type(value) is not Tracer else ""
        return f"Tracer<{self.aval} in {self.owner.name}{inner}>"

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"a traced value ({self.aval}) cannot be pickled; return it from the traced function instead")

    # -- taking part in NumPy expressions
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.namespace.array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.namespace.array_function(function, args, kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return self.namespace.array_namespace(api_version)

    def __getattr__(self, name: str) -> Any:
        return self.namespace.attribute(self, name)

    def __getitem__(self, index: Any) -> Any:
        return self.namespace.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.namespace.setitem(self, index, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.aval.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.aval.shape[0]))

    def __contains__(self, item: Any) -> bool:
        return bool(self.namespace.contains(self, item))

    def __neg__(self) -> Any:
        return self.namespace.neg(self)

    def __pos__(self) -> Any:
        return self.namespace.pos(self)

    def __abs__(self) -> Any:
        return self.namespace.absolute(self)

    def __invert__(self) -> Any:
        return self.namespace.invert(self)

    def __round__(self, digits: int | None = None) -> Any:
        return self.namespace.round_(self, digits)

    def __add__(self, other: Any) -> Any:
        return self.namespace.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return self.namespace.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return self.namespace.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.namespace.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return self.namespace.mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.namespace.mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.namespace.truediv(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.namespace.truediv(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self.namespace.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.namespace.floordiv(other, self)

    def __mod__(self, other: Any) -> Any:
        return self.namespace.mod(self, other)

    def __rmod__(self, other: Any) -> Any:
        return self.namespace.mod(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self.namespace.divmod_(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self.namespace.divmod_(other, self)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        return self.namespace.pow(self, other) if modulo is None else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        return self.namespace.pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return self.namespace.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self.namespace.matmul(other, self)

    def __and__(self, other: Any) -> Any:
        return self.namespace.and_(self, other)

    def __rand__(self, other: Any) -> Any:
        return self.namespace.and_(other, self)

    def __or__(self, other: Any) -> Any:
        return self.namespace.or_(self, other)

    def __ror__(self, other: Any) -> Any:
        return self.namespace.or_(other, self)

    def __xor__(self, other: Any) -> Any:
        return self.namespace.xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return self.namespace.xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return self.namespace.lshift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self.namespace.lshift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return self.namespace.rshift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self.namespace.rshift(other, self)

    def __eq__(self, other: Any) -> Any:
        return self.namespace.eq(self, other)

    def __ne__(self, other: Any) -> Any:
        return self.namespace.ne(self, other)

    def __lt__(self, other: Any) -> Any:
        return self.namespace.lt(self, other)

    def __le__(self, other: Any) -> Any:
        return self.namespace.le(self, other)

    def __gt__(self, other: Any) -> Any:
        return self.namespace.gt(self, other)

    def __ge__(self, other: Any) -> Any:
        return self.namespace.ge(self, other)

"""Attributes, methods and operators of traced values.

Idea: `Tracer.__getattr__` asks `attribute` for what the class itself does not have; each entry is the function of
funcad.numpy that does the work. Methods that write in place are those of array_writes.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from funcad.api.value_reads import CONVERSIONS, as_truth, carries_derivative, plain_value
from funcad.configuration import OnDemand, nearest
from funcad.errors import TracerArrayConversionError
from funcad.host.conversions import given, runs_own_code
from funcad.host.devices import device_in_use, namespace_of
from funcad.host.real_types import dtype_kind, is_a
from funcad.host.where import OF_LIBRARY, is_installed, open_traces, state, user_source, written_for_others
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.jaxpr import params_key
from funcad.ir.trace import bind
from funcad.ir.tracer import Tracer, aval_behind, concrete_value
from funcad.memo import remembers
from funcad.numpy import indexing, reductions
from funcad.numpy.dispatch import QUICK, function_of_tracer, laid_out, order_of, ufunc_of_tracer, where_am_i
from funcad.numpy.views import added_by, with_out, write_result
from funcad.primitives import arithmetic, comparison, transcendental
from funcad.primitives.arithmetic import add as add_p
from funcad.primitives.arithmetic import div
from funcad.primitives.arithmetic import mul as mul_p
from funcad.primitives.arithmetic import neg as neg_p
from funcad.primitives.arithmetic import sub as sub_p
from funcad.primitives.conversion import convert, convert_p
from funcad.primitives.placement import put
from funcad.writes.boxes import is_array

from funcad.numpy.promote import (  # isort: skip
    aliased, apart, as_array, as_number, broadcast, cast, fresh, is_operand, let_numpy_broadcast, promote, promote_dtype,
    python_number, result_dtype, same_aval, with_integer,
)

array_writes = OnDemand("funcad.numpy.array_writes")
elementwise, ufuncs = OnDemand("funcad.numpy.elementwise"), OnDemand("funcad.numpy.ufuncs")
linear = OnDemand("funcad.numpy.linear")
python_numbers = OnDemand("funcad.primitives.python_numbers")
shaping = OnDemand("funcad.numpy.shaping")
strides = OnDemand("funcad.unjitted.strides")


@aliased("same")
def astype(x: Any, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Any:
    """x in another dtype."""
    dtype = np.dtype(dtype)
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule {casting!r}")
    if dtype.kind == "O":
        return import_module("funcad.numpy.creation").objects_of(x)
    order, result = order_of(order, "CFAK", "K"), cast(x, dtype)
    line = order == "A" and max(x.shape, default=0) == x.size
    if not copy and x.shape and (order in "CF" or line):  # x itself, if it lies so
        creation = import_module("funcad.numpy.creation")
        return creation.array(result, order="C" if line else order, copy=None)
    if order != "K" or copy and result is x:
        result = laid_out(result, order)
    return fresh(result) if copy and result is x else result


@aliased("view")
def _reshape(x: Any, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    if len(shape) == 1 and not is_a(shape[0], int) and hasattr(shape[0], "__iter__"):
        shape = shape[0]
    return shaping.reshape(x, shape) if order == "C" and copy is None else shaping.reshape(x, shape, order=order, copy=copy)


@aliased("view")
def _transpose(x: Any, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or not hasattr(axes[0], "__index__")):
        axes = axes[0]
    return linear.transpose(x, axes or None)


@apart
def _flatten(x: Any, order: str = "C") -> Any:
    return shaping.flattened(x, order, "flatten")


def _copy(x: Any, order: str = "C") -> Any:
    return fresh(laid_out(x, order_of(order, "CFAK", "C")))


@aliased("same")
def _conjugate(x: Any) -> Any:
    """Of real numbers, where NumPy's function makes a copy, the method gives the array itself; Python's stay Python's."""
    if x.dtype.kind != "c":
        return _weak_bool(x)
    return python_number(ufuncs.conjugate(x)) if x.aval.weak else ufuncs.conjugate(x)


def _view(x: Any, *args: Any, **kwargs: Any) -> Any:
    kind = next(iter((*args, *kwargs.values())), np.ndarray)
    is_array = isinstance(kind, type) and (issubclass(kind, np.ndarray) or hasattr(kind, "stands_for"))
    named = getattr(kind, "__name__", "") == "matrix"
    if kind is np.ndarray or not is_array and np.dtype(kind) == x.dtype:
        return indexing.getitem(x, ...)
    if is_array:
        subclasses = import_module("funcad.numpy.subclasses")
        standing = kind if issubclass(kind, subclasses.Viewed) else subclasses.standing_for(kind)
        if standing is not None:
            return subclasses.made(standing, indexing.getitem(x, ...), x)
        raise TypeError(
            f"x.view({kind.__name__}) of a traced value{where_am_i()}: a {kind.__name__} holds no traced values.\n"
            f"Remedy: write functions of x in the place of methods of {kind.__name__}{'; x @ y for * of matrices' * named}."
        )
    raise TypeError(
        f"x.view() of a traced value{where_am_i()}: a traced value has no memory.\n"
        "Remedy: x.astype(dtype) converts; funcad.lax.bitcast_convert_type(x, dtype) reinterprets the bits."
    )


def _later(module: str, name: str, alias: str = "copy") -> Callable[..., Any]:
    """The function of a module that is loaded when the method is first called, and takes this one's place."""

    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(import_module(f"funcad.numpy.{module}"), name)
        own = ARRAY_METHODS[name.rstrip("_")] = with_out(_for_traced(function), name)
        return own(x, *args, **kwargs)

    method.__name__ = name
    return aliased(alias)(method)


def _refused(name: str, remedy: str) -> Callable[..., Any]:
    def refuse(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not x.owner.level and (state.running is None or runs_own_code()):  # a buffer
            return getattr(x.owner.value(x), name)(*args, **kwargs)
        source = user_source()
        others = source is not None and is_installed(source.code.co_filename)  # it does so for itself
        raise TracerArrayConversionError(
            f"x.{name}() of a traced value{where_am_i()}, which has no memory of its own.\n"
            f"Remedy: {OF_LIBRARY if others else remedy}."
        )

    return refuse


@aliased("same")
def _block_until_ready(x: Any) -> Any:
    return x


@aliased("same")
def _to_device(x: Any, device: Any, /, *, stream: Any = None) -> Any:
    if stream is not None:
        raise ValueError(
            "x.to_device of a traced value takes no stream: it is moved when the program runs.\nRemedy: leave stream out."
        )
    name, _, number = str(device).partition(":")
    if name not in ("cpu", "cuda", "gpu", "cupy") or number and not number.isdigit():
        raise ValueError(f"Unsupported device: {device!r}; use 'cpu', 'cuda' or 'cuda:0'")
    value = concrete_value(x)
    if name == "cpu" and (not device_in_use() or type(value) is not Tracer and namespace_of((value,)) is np):
        return x  # it is there
    return put(x, "cpu" if name == "cpu" else "cuda", int(number) if number else None)


def _dlpack(x: Any, **options: Any) -> Any:
    """Memory can be handed over if nothing is lost by it; otherwise the error says why not."""
    memory: Any = np.asarray(x)
    return memory.__dlpack__(**options)


def _dlpack_device(x: Any) -> Any:
    return np.asarray(x).__dlpack_device__()


def _item(x: Any, *index: Any) -> Any:
    """One element: Python's number, or a traced one where that would cut a derivative."""
    if x.owner.closed:
        return np.asarray(x).item(*index)
    place = np.arange(x.size).reshape(x.shape).item(*index)  # which raises what NumPy raises
    element = indexing.getitem(shaping.flattened(x, "C", "flatten"), place)
    if type(element) is not Tracer or not _would_be_cut(element):
        return np.asarray(plain_value(element, "item") if type(element) is Tracer else element).item()
    return python_number(element)


def _would_be_cut(x: Tracer) -> bool:
    """Has it a derivative, also by the arguments of a jitted function, whose values jit asks?"""
    asked = getattr(x.owner.recorder, "leaves", ()) if x.dtype.kind in "fc" else ()
    return carries_derivative(x) or any([type(v) is Tracer and _would_be_cut(v) for v in asked])


def _tolist(x: Any) -> Any:
    """Nested lists: of Python's numbers, or of traced ones where there is no value, or where they would cut a derivative."""
    if x.owner.closed or type(concrete_value(x)) is not Tracer and not carries_derivative(x):
        return np.asarray(plain_value(x, "array")).tolist()
    return [_tolist(part) for part in x] if x.shape else python_number(x)


ARRAY_METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all_,
    "any": reductions.any_,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "argpartition": _later("searching", "argpartition"),
    "argsort": _later("searching", "argsort"),
    "astype": astype,
    "block_until_ready": _block_until_ready,
    "choose": _later("searching", "choose"),
    "clip": _later("elementwise", "clip"),
    "compress": lambda x, condition, axis=None, out=None: np.compress(condition, x, axis, out),
    "conj": _conjugate,
    "conjugate": _conjugate,
    "copy": _copy,
    "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum,
    "diagonal": _later("linear", "diagonal", "view"),
    "dot": _later("linear", "dot"),
    "flatten": _flatten,
    "item": _item,
    "max": reductions.max_,
    "mean": reductions.mean,
    "min": reductions.min_,
    "nonzero": _later("searching", "nonzero"),
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": _later("shaping", "ravel", "view"),
    "repeat": _later("joining", "repeat"),
    "reshape": _reshape,
    "round": _later("elementwise", "round_"),
    "searchsorted": _later("searching", "searchsorted"),
    "squeeze": _later("shaping", "squeeze", "same"),
    "std": _later("statistics", "std"),
    "sum": reductions.sum_,
    "swapaxes": _later("shaping", "swapaxes", "view"),
    "take": _later("searching", "take"),
    "to_device": _to_device,
    "tolist": _tolist,
    "trace": _later("linear", "trace"),
    "transpose": _transpose,
    "var": _later("statistics", "var"),
    "view": _view,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "sort": _later("array_writes", "sort"),
    "partition": _later("array_writes", "partition"),
    "fill": _later("array_writes", "fill"),
    "put": _later("searching", "put"),
    "resize": _refused("resize", "y = np.resize(x, shape), which repeats x where x.resize pads with zeros"),
    "setflags": _refused("setflags", "leave it out"),
}


def _for_traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The part of a public function that is for traced values."""
    public = hasattr(function, "numpy_function") and not is_a(function.numpy_function, np.ufunc)
    return function.__wrapped__ if public else function  # type: ignore[attr-defined]


ARRAY_METHODS = {name: with_out(_for_traced(method), name) for name, method in ARRAY_METHODS.items()}


def _device(x: Any) -> Any:
    value = concrete_value(x)
    return getattr(value, "device", "cpu") if type(value) is not Tracer and namespace_of((value,)) is not np else "cpu"


class _MemoryFlags:
    """`x.flags` of a traced value: how its numbers would lie in memory, where that is known."""

    _SHORT = {"C": "c_contiguous", "F": "f_contiguous", "W": "writeable", "O": "owndata", "A": "aligned"}

    def __init__(self, x: Any):
        object.__setattr__(self, "_x", x)

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not True and not runs_own_code():  # which nobody writes behind its back
            self._x.setflags(**{{"writeable": "write", "aligned": "align"}.get(name, name): value})

    def __getattr__(self, name: str) -> Any:
        if name in ("writeable", "owndata", "aligned"):
            return name != "writeable" or hasattr(self._x.__class__, "__len__")  # NumPy's numbers cannot be written
        return getattr(_layout(self._x, "flags").flags, name)

    __getitem__ = lambda self, key: getattr(self, self._SHORT.get(key, key.lower()))
    __setitem__ = lambda self, key, value: setattr(self, self._SHORT.get(key, key.lower()), value)


def _layout(x: Any, name: str) -> np.ndarray:
    layout = strides.layout_of(x)
    if layout is None:
        if name == "flags" and runs_own_code():
            return np.empty(shape_of(x))  # what a library's code asks for before it calls compiled code
        raise TypeError(
            f"x.{name} of a traced {aval_of(x)}{where_am_i()} asks how it lies in memory, which is not known here: only of "
            "arguments, captured arrays, their views, and what was computed from them element by element or by sums.\n"
            "Remedy: np.empty(x.shape, x.dtype) lies as an array in C's order does."
        )
    return layout


ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "flags": _MemoryFlags,
    "strides": lambda x: _layout(x, "strides").strides,
    "T": aliased("view")(lambda x: linear.transpose.__wrapped__(x)),
    "mT": aliased("view")(lambda x: linear.matrix_transpose.__wrapped__(x)),
    "itemsize": lambda x: x.dtype.itemsize,
    "nbytes": lambda x: x.size * x.dtype.itemsize,
    "at": indexing.at,
    "device": _device,
}
# What can be assigned to: `x.shape = s`, `x.flat = v`, `x.real = v`.


def _part(name: str) -> property:
    """An attribute that is read and written by functions of array_writes.py, which few programs load."""

    def read(x: Any) -> Any:
        return getattr(array_writes, f"{name}_of")(x)

    def write(x: Any, value: Any) -> None:
        getattr(array_writes, f"set_{name}")(x, value)

    return property(read, write)


def _set_shape(x: Any, shape: Any) -> None:
    array_writes.set_shape(x, shape)


PROPERTIES = {
    "shape": Tracer.shape.setter(_set_shape),  # type: ignore[attr-defined]
    **{name: _part(name) for name in ("flat", "real", "imag")},
}


def _is_integer(x: Any) -> Any:
    if x.dtype.kind in "biu":
        return True
    return convert_p(np.logical_and(np.isfinite(x), np.floor(x) == x), dtype=np.dtype(bool), weak=True)


# What Python's and NumPy's numbers have beside, where the number that x stands for has it.
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "numerator": lambda x: +x,
    "denominator": lambda x: 1,
    "is_integer": lambda x: functools.partial(_is_integer, x),
}

_REMEDIES = {
    "backward": "funcad.grad(f)(x) instead of f(x).backward(): it takes the function and returns the gradient",
    "grad": "funcad.grad(f)(x), which returns the gradient",
    "requires_grad": "funcad.grad(f, argnums=...) says with respect to which arguments",
    "requires_grad_": "funcad.grad(f, argnums=...) says with respect to which arguments",
    "detach": "funcad.stop_gradient(x)",
    **dict.fromkeys(("cpu", "cuda", "to", "values", "contiguous"), "leave it out: the value stands for a NumPy array"),
    **{"clone": "x.copy()", "dim": "x.ndim", "numel": "x.size", "unsqueeze": "x[None]", "pow": "x**n"},
    "base": "return the value from the function first: a traced one has no memory",
    "ctypes": "use funcad.pure_callback to call foreign code",
    "data": "return the value from the function first: a traced one has no memory",
    "numpy": "return the value from the traced function first, or take funcad.stop_gradient(x)",
    **dict.fromkeys(("newbyteorder", "get"), "return the value from the traced function first"),
}
_OF_MEMORY = {  # what buffers have and other traced arrays refuse
    name: _refused(name, "return the value from the traced function first, or take funcad.stop_gradient(x)")
    for name in "tobytes tofile dump dumps byteswap getfield setfield".split()
}


class _NoAttribute(AttributeError):
    """Says what to use when it is shown: `hasattr` and `getattr` with a default, which libraries call often, show nothing."""

    def __str__(self) -> str:
        name, remedy = self.name, _REMEDIES.get(self.name)
        if remedy is None:
            near = nearest(name, [*ARRAY_METHODS, *ATTRIBUTES])
            remedy = f"np.{name}(x)" if hasattr(np, name) else f"x.{near[0]}" if near else "the functions of funcad.numpy"
        return f"a traced {self.obj.aval} has no attribute {name!r}.\nRemedy: {remedy}."


def attribute(x: Any, name: str) -> Any:
    """The attribute or bound method of a traced value."""
    if name == "aval":
        return aval_behind(x)
    method = ARRAY_METHODS.get(name)
    if method is not None:
        return functools.partial(method, x)
    get = ATTRIBUTES.get(name)
    if get is not None:
        return get(x)
    if name.startswith("__"):
        raise AttributeError(name)
    if name in NUMBERS and hasattr(x.__class__, name):
        return NUMBERS[name](x)
    if not x.owner.level and hasattr(np.ndarray, name):  # a buffer: the array behind it has one
        return getattr(x.owner.value(x), name)
    if name in _OF_MEMORY and hasattr(x.__class__, name):
        return functools.partial(_OF_MEMORY[name], x)
    raise _NoAttribute(name=name, obj=x)


# -- what Python's operators do with traced values, and the one table of what is put into the class `Tracer`: `METHODS`
#
# Idea: an operator between Python scalars stays weak (`x * 2.0` of a Python float x is a Python float), where a NumPy
# function's result is strong. An operand that is no array and no number gets NotImplemented, so that it has its say. The fast
# path costs one comparison of avals: operands that agree already go straight to the primitive.


_INT = np.dtype(int)
_FLOAT, _COMPLEX = np.dtype(float), np.dtype(complex)
_NUMBERS = frozenset([float, int, bool, complex])


def _is_number(x: Any) -> bool:
    """Is it one of Python's numbers?"""
    if type(x) is not Tracer:
        return type(x) in _NUMBERS
    return type(x.primal) is not np.ndarray and x.aval.weak and not x.aval.shape


def _as_python(name: str, function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """`function`, NumPy's, which raises what Python's operator does where both are Python's numbers (python_numbers.py)."""
    if not (_is_number(x) and _is_number(y)):
        return function(x, y)
    if type(y) is not Tracer and y != 0 and (name != "**" or y == 1):  # nothing can be refused
        return function(x, y)
    p, q = concrete_value(x), concrete_value(y)
    if type(p) is Tracer or type(q) is Tracer:
        return python_numbers.checked(function(x, y), x, y, function=name)
    if type(python_numbers.OPERATORS[name](p, q)) is complex and type(p) is not complex:  # a negative number to a broken power
        x = convert_p(x, dtype=_COMPLEX, weak=True) if type(x) is Tracer else complex(x)
    return function(x, y)


def _repeats(x: Any, n: Any) -> bool:
    """Is it a list or tuple times a whole number, which is no product: Python asks for the number's value?"""
    return type(x) in (list, tuple) and n.dtype.kind in "iu" and not n.ndim and not hasattr(n.__class__, "__len__")


def _arithmetic(function: Any, x: Any, y: Any) -> Any:
    """The general way: promotion, and Python's own rule that bools count as integers."""
    pair = with_integer(x, y)
    if pair is not None:
        return function(*pair)
    if not (is_operand(x) and is_operand(y)) or function is arithmetic.product and (_repeats(x, y) or _repeats(y, x)):
        return NotImplemented
    operands = promote(x, y)
    if aval_of(operands[0]).weak and aval_of(operands[1]).weak and aval_of(operands[0]).dtype.kind == "b":
        operands = promote_dtype(operands, _INT, weak=True)
    return function(*operands)


def add(x: Any, y: Any) -> Any:
    short = (x if type(x) is Tracer else y).owner.short
    if short is not None:
        out = short.binary(add_p, operator.add, x, y)
        if out is not None:
            return out
    if same_aval(x, y):
        return bind(add_p, x, y)
    out = let_numpy_broadcast(add_p, x, y)
    return _arithmetic(arithmetic.add, x, y) if out is None else out


def sub(x: Any, y: Any) -> Any:
    short = (x if type(x) is Tracer else y).owner.short
    if short is not None:
        out = short.binary(sub_p, operator.sub, x, y)
        if out is not None:
            return out
    if same_aval(x, y):
        return bind(sub_p, x, y)
    out = let_numpy_broadcast(sub_p, x, y)
    return _arithmetic(_subtract, x, y) if out is None else out


def _subtract(x: Any, y: Any) -> Any:
    aval = aval_of(x)
    if aval.dtype.kind == "b" and not aval.weak:
        raise TypeError(
            "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the "
            "logical_xor function instead."
        )
    return arithmetic.sub(x, y)


def mul(x: Any, y: Any) -> Any:
    if x is y and x.owner.turned:
        out = arithmetic.exact_power(x, 2)
        if out is not None:
            return out
    short = (x if type(x) is Tracer else y).owner.short
    if short is not None:
        out = short.binary(mul_p, operator.mul, x, y)
        if out is not None:
            return out
    if same_aval(x, y):
        return bind(mul_p, x, y)
    out = let_numpy_broadcast(mul_p, x, y)
    return _arithmetic(arithmetic.product, x, y) if out is None else out


def truediv(x: Any, y: Any) -> Any:
    short = (x if type(x) is Tracer else y).owner.short
    if short is not None:
        out = short.binary(div, operator.truediv, x, y)
        if out is not None:
            return out
    return _as_python("/", _divide, x, y)


def _divide(x: Any, y: Any) -> Any:
    if same_aval(x, y):
        return bind(div, x, y)
    out = let_numpy_broadcast(div, x, y)
    return _quotient(x, y) if out is None else out


def _quotient(x: Any, y: Any) -> Any:
    """Quotients of integers are computed in float64, so that a Python integer need not fit the other operand's dtype."""
    pair = with_integer(x, y)
    if pair is not None:
        return arithmetic.div(*pair)
    if not (is_operand(x) and is_operand(y)):
        return NotImplemented
    operands = [as_array(a) for a in (x, y)]
    dtype, weak = result_dtype(operands)
    return arithmetic.div(*broadcast(promote_dtype(operands, _FLOAT if dtype.kind in "biu" else dtype, weak)))


def _loop(function: Any, ufunc: Any, x: Any, y: Any) -> Any:
    """Operators whose bools NumPy computes in int8."""
    if not (is_operand(x) and is_operand(y)):
        return NotImplemented
    operands = promote(x, y)
    a, b = aval_of(operands[0]), aval_of(operands[1])
    if a.dtype.kind == "b":
        operands = promote_dtype(operands, _INT if a.weak and b.weak else np.dtype(np.int8), weak=a.weak and b.weak)
    elif a.dtype.kind == "c" and ufunc in (np.floor_divide, np.remainder):
        ufunc.resolve_dtypes((a.dtype, a.dtype, None))  # NumPy's TypeError
    return function(*operands)


def floordiv(x: Any, y: Any) -> Any:
    return _as_python("//", functools.partial(_loop, arithmetic.floor_divide, np.floor_divide), x, y)


def mod(x: Any, y: Any) -> Any:
    return _as_python("%", functools.partial(_loop, arithmetic.mod, np.remainder), x, y)


def divmod_(x: Any, y: Any) -> Any:
    quotient = floordiv(x, y)
    return quotient if quotient is NotImplemented else (quotient, mod(x, y))


def pow(x: Any, y: Any, modulo: Any = None) -> Any:
    """x ** y; constant exponents go to square, sqrt and integer powers."""
    if modulo is not None:
        return NotImplemented
    short = (x if type(x) is Tracer else y).owner.short
    if short is not None:
        out = _short_power(short, x, y)
        if out is not None:
            return out
    return _as_python("**", _power, x, y)


def _power(x: Any, y: Any) -> Any:
    if type(x) is Tracer and dtype_kind(x.aval.dtype) in "fc":
        if type(y) is int and abs(y) < 2**31:
            return arithmetic.integer_pow(x, y)
        if type(y) is float and y == 0.5 and not x.aval.weak and x.aval.dtype.num < 256:
            return arithmetic.sqrt(x)
    elif type(y) is int and y == 2 and type(x) is Tracer and x.aval.dtype.kind == "b" and not x.aval.weak:
        return arithmetic.square(convert(x, np.dtype(np.int8)))  # NumPy squares, and the square of a bool is int8
    return _loop(transcendental.pow, np.power, x, y)


def _short_power(short: Any, x: Any, y: Any) -> Any:
    """The power by a derivative's short ways, as `pow` would choose it; None for everything else."""
    n = y if type(y) is int else int(y) if type(y) is float and y.is_integer() else None
    if n is not None:
        if short.trace.turned or not n or abs(n) >= 2**31 or type(x) is not Tracer:
            return None
        p = concrete_value(x.primal) if type(x.primal) is Tracer and x.primal.atom is None else x.primal
        if type(p) is float:
            operator.pow(p, n)  # or Python's own error
        run, params, bits = _integer_power(n)
        return short.unary(arithmetic.integer_pow_p, run, x, params, bits)
    return None if type(y) is float and y == 0.5 else short.binary(transcendental.pow_p, operator.pow, x, y)


@remembers(256)
def _integer_power(n: int) -> tuple:
    params = {"n": n}
    return functools.partial(arithmetic.integer_pow_p.impl, np, n=n), params, params_key(params)


def matmul(x: Any, y: Any) -> Any:
    short = (x if type(x) is Tracer else y).owner.short
    out = None if short is None else short.product(x, y)
    if out is not None:
        return out
    return linear.matmul_of(x, y) if is_operand(x) and is_operand(y) else NotImplemented


def _bits(function: Any, ufunc: Any, x: Any, y: Any) -> Any:
    if not (is_operand(x) and is_operand(y)):
        return NotImplemented
    operands = promote(x, y)
    dtype = aval_of(operands[0]).dtype
    if dtype.kind not in "biu":
        ufunc.resolve_dtypes((dtype, dtype, None))  # NumPy's TypeError
    return function(*operands)


def and_(x: Any, y: Any) -> Any:
    return _bits(comparison.and_, np.bitwise_and, x, y)


def or_(x: Any, y: Any) -> Any:
    return _bits(comparison.or_, np.bitwise_or, x, y)


def xor(x: Any, y: Any) -> Any:
    return _bits(comparison.xor, np.bitwise_xor, x, y)


def _shift(function: Any, ufunc: Any, x: Any, y: Any) -> Any:
    if is_operand(x) and is_operand(y) and result_dtype([as_array(a) for a in (x, y)])[0].kind == "b":
        return _loop(function, ufunc, x, y)
    return _bits(function, ufunc, x, y)


def lshift(x: Any, y: Any) -> Any:
    return _shift(comparison.shift_left, np.left_shift, x, y)


def rshift(x: Any, y: Any) -> Any:
    return _shift(comparison.shift_right, np.right_shift, x, y)


_COMPARED = frozenset([np.ndarray, np.float64, float, int])


def _known(operation: Any, x: Any, y: Any) -> Any:
    """A comparison of floats that a tape knows: NumPy's own, of their values; None for everything else."""
    trace = (x if type(x) is Tracer else y).owner
    if trace.tape is None or open_traces != trace.tape.open:
        return None
    p = x.primal if type(x) is Tracer and x.owner is trace else x
    q = y.primal if type(y) is Tracer and y.owner is trace else y
    for a in (p, q):
        if type(a) not in _COMPARED or type(a) is np.ndarray and dtype_kind(a.dtype) != "f":
            return None
    return given(operation(p, q))


def _compare(function: Any, python: Any, x: Any, y: Any) -> Any:
    if same_aval(x, y):
        out = function(x, y)
    elif (pair := with_integer(x, y)) is not None:
        out = function(*pair)
    elif is_operand(x) and is_operand(y):
        out = ufuncs.compare(function, python, x, y)
    else:
        return NotImplemented
    return as_truth(out) if state.identities else out


def _weak_kind(x: Any) -> Any:
    """The Python type that a scalar is or stands for; None for what is strong."""
    if type(x) is not Tracer:
        return type(x) if type(x) in (bool, int, float, complex) else None
    aval = x.aval
    return (complex if aval.dtype.kind == "c" else float) if aval.weak else None


def _order(function: Any, python: Any, x: Any, y: Any) -> Any:
    """Python does not order complex numbers, NumPy does."""
    kinds = _weak_kind(x), _weak_kind(y)
    if complex in kinds and None not in kinds:
        return NotImplemented
    return _compare(function, python, x, y)


def eq(x: Any, y: Any) -> Any:
    if y is None or is_a(y, str):
        return _nothing_equal(x, False)
    out = _known(operator.eq, x, y)
    return _compare(comparison.eq, int.__eq__, x, y) if out is None else out


def ne(x: Any, y: Any) -> Any:
    if y is None or is_a(y, str):
        return _nothing_equal(x, True)
    out = _known(operator.ne, x, y)
    return _compare(comparison.ne, int.__ne__, x, y) if out is None else out


def _nothing_equal(x: Any, answer: bool) -> Any:
    """Comparison with None or a string: False for each element, as NumPy says."""
    shape = shape_of(x)
    return np.full(shape, answer) if shape else answer


def lt(x: Any, y: Any) -> Any:
    out = _known(operator.lt, x, y)
    return _order(comparison.lt, int.__lt__, x, y) if out is None else out


def le(x: Any, y: Any) -> Any:
    out = _known(operator.le, x, y)
    return _order(comparison.le, int.__le__, x, y) if out is None else out


def gt(x: Any, y: Any) -> Any:
    out = _known(operator.gt, x, y)
    return _order(comparison.gt, int.__gt__, x, y) if out is None else out


def ge(x: Any, y: Any) -> Any:
    out = _known(operator.ge, x, y)
    return _order(comparison.ge, int.__ge__, x, y) if out is None else out


def _weak_bool(x: Any) -> Any:
    aval = aval_of(x)
    return bind(convert_p, x, dtype=_INT, weak=True) if aval.weak and aval.dtype.kind == "b" else x


def neg(x: Any) -> Any:
    short = x.owner.short if type(x) is Tracer else None
    if short is not None:
        out = short.unary(neg_p, operator.neg, x)
        if out is not None:
            return out
    aval = aval_of(x)
    if aval.dtype.kind == "b" and not aval.weak:
        raise TypeError(
            "The numpy boolean negative, the `-` operator, is not supported, use the `~` operator or the logical_not function "
            "instead."
        )
    return arithmetic.neg(_weak_bool(x))


def pos(x: Any) -> Any:
    aval = aval_of(x)
    if aval.dtype.kind == "b" and not aval.weak:
        np.positive(True)  # NumPy's TypeError
    return _weak_bool(x) if aval.weak else as_number(fresh(x))


def absolute(x: Any) -> Any:
    short = x.owner.short if type(x) is Tracer else None
    if short is not None:
        out = short.unary(arithmetic.abs_, operator.abs, x)
        if out is not None:
            x.owner.turned = True
            return out
    return arithmetic.abs_(_weak_bool(x))


def invert(x: Any) -> Any:
    aval = aval_of(x)
    if aval.dtype.kind not in "biu":
        np.invert.resolve_dtypes((aval.dtype, None))  # NumPy's TypeError
    return arithmetic.sub(-1, _weak_bool(x)) if aval.weak else comparison.not_(x)  # an int of Python's stays one


def round_(x: Any, digits: Any = None) -> Any:
    """`round(x)`: an integer, which has no derivative; with digits a float of which the derivative is 0."""
    weak, kind = x.aval.weak, x.dtype.kind
    if weak and kind == "c" or shape_of(x) or is_array(x):
        name = "complex" if weak else "numpy.ndarray"
        raise TypeError(f"type {name} doesn't define __round__ method" + "; use np.round(x)" * (not weak))
    if digits is not None and weak and kind == "f":
        return python_numbers.round_p(x, digits=operator.index(digits))
    if digits is not None:
        rounded = elementwise.round_(x, digits)
        return convert_p(rounded, dtype=_INT, weak=True) if weak else rounded
    value = concrete_value(x)
    if type(value) is not Tracer:
        return round(value)
    rounded = elementwise.round_(x)
    whole = convert_p(rounded, dtype=_INT, weak=True)
    return python_numbers.checked(whole, rounded, function="round") if kind == "f" else whole


def contains(x: Any, item: Any) -> Any:
    """`item in x`: is any element equal to it?"""
    found = eq(x, item)
    return False if found is NotImplemented else np.any(found)


@aliased("view")
def elements(x: Any) -> Iterator[Any]:
    """`iter(x)`: along the first axis."""
    shape = shape_of(x)
    if not shape:
        raise TypeError("iteration over a 0-d array")
    return (indexing.getitem(x, i) for i in range(shape[0]))


_API_VERSIONS = (None, "2021.12", "2022.12", "2023.12", "2024.12")


def array_namespace(x: Any, api_version: Any = None) -> Any:
    """`funcad.numpy.array_api`, as `__array_namespace__` gives it."""
    if api_version not in _API_VERSIONS:
        raise ValueError(f'Version "{api_version}" of the Array API Standard is not supported.')
    return Tracer.namespace.numpy.array_api


# -- a derivative's short ways for NumPy's functions

_UNARY = "sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p".split()
QUICK.update({getattr(np, n): (getattr(transcendental, n), None) for n in _UNARY})
QUICK.update({p.ufunc: (p, None) for p in (arithmetic.sqrt, arithmetic.square_p, arithmetic.reciprocal)})
_OTHERS = (arithmetic.abs_, arithmetic.maximum, arithmetic.minimum, transcendental.logaddexp, transcendental.arctan2)
QUICK.update({p.ufunc: (p, p.ufunc) for p in _OTHERS})
QUICK.update({np.add: (arithmetic.add, operator.add), np.subtract: (arithmetic.sub, operator.sub)})
QUICK.update({np.power: (transcendental.pow_p, operator.pow)})  # of constant exponents the operators know more
QUICK.update({np.multiply: (arithmetic.mul, operator.mul), np.divide: (arithmetic.div, operator.truediv)})


# -- the methods


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method of the right operand."""
    return lambda y, x: function(x, y)


_BINARY = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "truediv": truediv,
    "floordiv": floordiv,
    "mod": mod,
    "divmod": divmod_,
    "pow": pow,
    "matmul": matmul,
    "and": and_,
    "or": or_,
    "xor": xor,
    "lshift": lshift,
    "rshift": rshift,
}
def in_place(function: Callable[[Any, Any], Any], ufunc: Any) -> Callable[[Any, Any], Any]:
    """The operator `x op= y` of the operator `x op y`: a number is rebound, an array written, but in code written for JAX."""

    def operator(x: Any, y: Any) -> Any:
        out = function(x, y)
        p = x.primal
        if out is NotImplemented:
            selected = is_array(x) and indexing.index_plan.is_selected(y)
            return operator(x, y.closed_up()) if selected else out
        if p is not None and type(p) is not np.ndarray and type(p) is not Tracer and x.box is None:
            return out
        if not is_array(x) or written_for_others():
            return out
        if x.box is not None and (indexing.stored_by(x, out) or added_by(x, out, ufunc, y)):
            return x
        write_result(x, out, ufunc, (x, y))
        return x

    return operator


_UFUNCS = {  # whose rules of casting `x op= y` follows
    **{name: getattr(np, name) for name in ("add", "matmul")},
    **{"sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide, "mod": np.remainder},
    **{"pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"lshift": np.left_shift, "rshift": np.right_shift},
}
METHODS: dict[str, Any] = {  # of the class `Tracer`, which funcad/numpy/__init__.py puts there
    **{f"__{name}__": function for name, function in _BINARY.items()},
    **{f"__r{name}__": _reflected(function) for name, function in _BINARY.items()},
    **{f"__i{name}__": in_place(_BINARY[name], ufunc) for name, ufunc in _UFUNCS.items()},
    **{f"__{f.__name__}__": f for f in (eq, ne, lt, le, gt, ge, neg, pos, invert, indexing.getitem, indexing.setitem)},
    **CONVERSIONS,
    "__abs__": absolute,
    "__round__": round_,
    "__contains__": contains,
    "__copy__": lambda x: x if x.aval.weak else fresh(x),  # a copy of Python's number is that number
    "__deepcopy__": lambda x, memo: x.__copy__(),
    "__iter__": elements,
    "__getattr__": attribute,
    "__array_ufunc__": ufunc_of_tracer,
    "__array_function__": function_of_tracer,
    "__array_namespace__": array_namespace,
}

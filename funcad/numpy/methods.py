"""Attributes and methods of traced values that NumPy arrays have: `x.T`, `x.sum()`, `x.at[i].set(v)` ...

Idea: `Tracer.__getattr__` asks `attribute` for what the class itself does not have; each entry is the function of
funcad.numpy that does the work. Methods that write in place are those of writing.py.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.python_values import plain_value
from funcad.host.devices import device_in_use, namespace_of
from funcad.host.real_types import is_a
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy import choosing, elementwise, indexing, joining, linear, reductions, searching, shaping, statistics, writing
from funcad.numpy.aliases import aliased, apart, fresh
from funcad.numpy.destinations import with_out
from funcad.numpy.dispatch import where_am_i
from funcad.numpy.memory_order import laid_out, order_of
from funcad.primitives.conversion import convert
from funcad.primitives.placement import put

__all__ = ["PROPERTIES", "attribute"]


@aliased("same")
def astype(x: Any, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Any:
    """x in another dtype."""
    dtype = np.dtype(dtype)
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule {casting!r}")
    order, result = order_of(order, "CFAK", "K"), convert(x, dtype)
    result = result if order == "K" and result is not x else laid_out(result, order)
    return fresh(result) if copy and result is x else result


@aliased("view")
def _reshape(x: Any, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    if len(shape) == 1 and not is_a(shape[0], int) and hasattr(shape[0], "__iter__"):
        shape = shape[0]
    return shaping.reshape(x, shape) if order == "C" else shaping.reshape(x, shape, order=order)


@aliased("view")
def _transpose(x: Any, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or not hasattr(axes[0], "__index__")):
        axes = axes[0]
    return shaping.transpose(x, axes or None)


@apart
def _flatten(x: Any, order: str = "C") -> Any:
    return shaping.flattened(x, order, "flatten")


def _copy(x: Any, order: str = "C") -> Any:
    return fresh(laid_out(x, order_of(order, "CFAK", "C")))


@aliased("same")
def _conjugate(x: Any) -> Any:
    """Of real numbers, where NumPy's function makes a copy, the method gives the array itself."""
    return elementwise.conjugate(x) if x.dtype.kind == "c" else x


def _view(x: Any, *args: Any, **kwargs: Any) -> Any:
    if not args and not kwargs:
        return indexing.getitem(x, ...)
    raise TypeError(
        f"x.view() of a traced value{where_am_i()}: a traced value has no memory.\n"
        "Remedy: x.astype(dtype) converts; funcad.lax.bitcast_convert_type(x, dtype) reinterprets the bits."
    )


def _refused(name: str, remedy: str) -> Callable[..., Any]:
    def refuse(x: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"x.{name}() of a traced value{where_am_i()}, which has no memory of its own.\nRemedy: {remedy}.")

    return refuse


@aliased("same")
def _block_until_ready(x: Any) -> Any:
    return x


@aliased("same")
def _to_device(x: Any, device: Any, /, *, stream: Any = None) -> Any:
    if stream is not None:
        raise ValueError("x.to_device of a traced value takes no stream: it is moved when the program runs")
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


METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all_,
    "any": reductions.any_,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "argpartition": searching.argpartition,
    "argsort": searching.argsort,
    "astype": astype,
    "block_until_ready": _block_until_ready,
    "choose": choosing.choose,
    "clip": elementwise.clip,
    "compress": lambda x, condition, axis=None: searching.compress(condition, x, axis),
    "conj": _conjugate,
    "conjugate": _conjugate,
    "copy": _copy,
    "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum,
    "diagonal": shaping.diagonal,
    "dot": linear.dot,
    "flatten": _flatten,
    "item": lambda x, *args: np.asarray(plain_value(x, "item")).item(*args),
    "max": reductions.max_,
    "mean": reductions.mean,
    "min": reductions.min_,
    "nonzero": searching.nonzero,
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": shaping.ravel,
    "repeat": joining.repeat,
    "reshape": _reshape,
    "round": elementwise.round_,
    "searchsorted": searching.searchsorted,
    "squeeze": shaping.squeeze,
    "std": statistics.std,
    "sum": reductions.sum_,
    "swapaxes": shaping.swapaxes,
    "take": searching.take,
    "to_device": _to_device,
    "tolist": lambda x: np.asarray(plain_value(x, "tolist")).tolist(),
    "trace": shaping.trace,
    "transpose": _transpose,
    "var": statistics.var,
    "view": _view,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "sort": writing.sort,
    "partition": writing.partition,
    "fill": writing.fill,
    "put": searching.put,
    "resize": _refused("resize", "y = np.resize(x, shape), which repeats x where x.resize pads with zeros"),
    "setflags": _refused("setflags", "leave it out"),
}


def _for_traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The part of a public function that is for traced values."""
    public = hasattr(function, "numpy_function") and not is_a(function.numpy_function, np.ufunc)
    return function.__wrapped__ if public else function  # type: ignore[attr-defined]


METHODS = {name: with_out(_for_traced(method), name) for name, method in METHODS.items()}


def _device(x: Any) -> Any:
    value = concrete_value(x)
    return getattr(value, "device", "cpu") if type(value) is not Tracer and namespace_of((value,)) is not np else "cpu"


ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "T": _for_traced(shaping.transpose),
    "mT": _for_traced(shaping.matrix_transpose),
    "itemsize": lambda x: x.dtype.itemsize,
    "nbytes": lambda x: x.size * x.dtype.itemsize,
    "at": indexing.at,
    "device": _device,
}
# What can be assigned to: `x.shape = s`, `x.flat = v`, `x.real = v`.
PROPERTIES = {
    "shape": Tracer.shape.setter(writing.set_shape),  # type: ignore[attr-defined]
    "flat": property(writing.flat_of, writing.set_flat),
    "real": property(writing.real_of, writing.set_real),
    "imag": property(writing.imag_of, writing.set_imag),
}


def _is_integer(x: Any) -> Any:
    return True if x.dtype.kind in "biu" else np.logical_and(np.isfinite(x), np.floor(x) == x)


# What Python's and NumPy's numbers have beside, where the number that x stands for has it.
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "numerator": lambda x: +x,
    "denominator": lambda x: 1,
    "is_integer": lambda x: functools.partial(_is_integer, x),
}

_REMEDIES = {
    "base": "return the value from the function first: a traced one has no memory",
    "ctypes": "use funcad.pure_callback to call foreign code",
    "data": "return the value from the function first: a traced one has no memory",
    "flags": "return the value from the function first: a traced one has no memory",
    "strides": "return the value from the function first: a traced one has no memory",
    "tobytes": "return the value from the traced function first",
    "tofile": "return the value from the traced function first",
    "dump": "return the value from the traced function first",
    "dumps": "return the value from the traced function first",
    "byteswap": "return the value from the traced function first",
    "newbyteorder": "return the value from the traced function first",
    "numpy": "return the value from the traced function first, or take funcad.stop_gradient(x)",
    "get": "return the value from the traced function first",
}


def attribute(x: Any, name: str) -> Any:
    """The attribute or bound method of a traced value."""
    method = METHODS.get(name)
    if method is not None:
        return functools.partial(method, x)
    get = ATTRIBUTES.get(name)
    if get is not None:
        return get(x)
    if name.startswith("__"):
        raise AttributeError(name)
    if name in NUMBERS and hasattr(x.__class__, name):
        return NUMBERS[name](x)
    remedy = _REMEDIES.get(name)
    if remedy is None:
        near = difflib.get_close_matches(name, [*METHODS, *ATTRIBUTES], 1)
        remedy = f"np.{name}(x)" if hasattr(np, name) else f"x.{near[0]}" if near else "the functions of funcad.numpy"
    raise AttributeError(f"a traced {x.aval} has no attribute {name!r}.\nRemedy: {remedy}.", name=name, obj=x)

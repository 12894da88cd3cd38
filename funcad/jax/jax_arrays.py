"""What JAX programs expect of concrete arrays: `x.at[i].set(v)`, and `isinstance(x, jax.Array)`.

Idea: funcad's arrays are NumPy's, whose type has no `at`. The functions of `funcad.jax.numpy` hand out `Array`, a subclass with
that one attribute; NumPy keeps it through arithmetic, and every transformation takes it as the NumPy array that it is. For
`isinstance` every NumPy array, scalar and traced value is an `Array`. What `funcad.jit(f)` returns, of funcad's own name, is a
plain array; `funcad.numpy.at(x)[i].set(v)` works on all. Its methods and its index take traced values, which NumPy's cannot
see; with `jax_enable_x64` off what is handed out has 32 bits.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.errors import TracerArrayConversionError
from funcad.host.conversions import plain_kinds
from funcad.host.real_types import HALVES, is_a, is_narrow
from funcad.host.where import others, written_for_others
from funcad.ir.tracer import Tracer
from funcad.jax.sharding import Sharding, SingleDeviceSharding
from funcad.memo import weak_table
from funcad.numpy import asarray, at
from funcad.numpy.dispatch import is_traced
from funcad.numpy.indexing import getitem
from funcad.numpy.methods import ARRAY_METHODS

__all__ = [
    "Array",
    "array_modules",
    "dressed",
    "halved",
    "handed",
    "placed",
    "with_at",
]


class _AnyJaxArray(type):
    def __instancecheck__(cls, x: object) -> bool:
        return type(x) is Tracer or is_a(x, (np.ndarray, np.generic))


class Array(np.ndarray, metaclass=_AnyJaxArray):
    """A NumPy array with `x.at[i].set(v)`, which gives a changed copy. `isinstance(x, Array)` is true of every array.

    `x += y` and its like make a new array and rebind the name, as in JAX: other names keep what they had.

    >>> from funcad.jax import numpy as jnp
    >>> x = jnp.zeros(3)
    >>> x.at[1].set(5.0), x
    (Array([0., 5., 0.]), Array([0., 0., 0.]))
    """

    @property
    def at(self) -> Any:
        return _At(at(self.view(np.ndarray)))

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except (TracerArrayConversionError, IndexError, TypeError):
            if not is_traced((index,)):
                raise
            return getitem(asarray(self.view(np.ndarray)), index)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        return handed(self.view(np.ndarray).astype(dtype, *args, **kwargs))

    def sort(self, *args: Any, **kwargs: Any) -> Any:
        """Another array, in order, for code written for JAX itself; what it calls, as np.unique, sorts this one."""
        frame = sys._getframe(1)
        if not any([asks(frame.f_code, frame.f_globals) for asks in others]):
            return super().sort(*args, **kwargs)
        return handed(np.sort(self.view(np.ndarray), *args, **kwargs))

    def __round__(self, ndigits: int | None = None) -> Any:
        return int(round(self.item())) if ndigits is None else np.round(self, ndigits)

    def block_until_ready(self) -> Array:
        return self

    is_fully_addressable = is_fully_replicated = committed = True

    @property
    def sharding(self) -> Sharding:
        """What `device_put` was told, or one device."""
        return self.__dict__.get("_sharding") or SingleDeviceSharding()

    def devices(self) -> set[Any]:
        return self.sharding.device_set

    @property
    def addressable_shards(self) -> list[Any]:
        """The whole array, as the one piece that it is in."""
        (device, *_), index = self.devices(), tuple([slice(None)] * self.ndim)
        return [types.SimpleNamespace(data=self, device=device, index=index, replica_id=0)]


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if type(x) in (Array, RuledArray) else x


class RuledArray(Array):
    """An `Array` whose operators follow JAX's rules of types where NumPy's differ: bfloat16 and float8 stay so beside Python's
    numbers, where NumPy's would be float32; and nothing has 64 bits while `jax_enable_x64` is off."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if is_traced(inputs, kwargs):
            return NotImplemented
        kind = self.dtype.type if is_narrow(self.dtype) else lambda x: x
        plain = [kind(x) if type(x) in (int, float) else _bare(x) for x in inputs]
        kwargs = {name: tuple(map(_bare, x)) if type(x) is tuple else _bare(x) for name, x in kwargs.items()}
        out = getattr(ufunc, method)(*plain, **kwargs)
        return tuple(map(handed, out)) if type(out) is tuple else handed(out)


RuledArray.__name__ = "Array"  # as they are shown
plain_kinds.update((Array, RuledArray))


def _method(name: str, method: Callable[..., Any], traced: bool = False) -> Callable[..., Any]:
    """The method of that name, to which `where=None` means no mask; of traced values where code written for JAX calls it.

    That of arrays takes traced arguments, which NumPy's own does not see.
    """

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("where", True) is None and not (traced and not written_for_others()):
            del kwargs["where"]
        kwargs = _with_tuple(kwargs)
        if not traced and is_traced(args, kwargs):
            return ARRAY_METHODS[name](asarray(self.view(np.ndarray)), *args, **kwargs)
        return method(self, *args, **kwargs)

    functools.update_wrapper(call, method)
    call.__name__, call.__qualname__ = name, f"Array.{name}"
    call.__doc__ = f"`numpy.ndarray.{name}`, to which `where=None` means no mask."
    return call


def _with_tuple(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Of axes in a list a tuple, as NumPy wants them."""
    if type(kwargs.get("axis")) is list:
        kwargs["axis"] = tuple(kwargs["axis"])
    return kwargs


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    setattr(Array, f"__i{_name}__", getattr(np.ndarray, f"__{_name}__"))
for _name in ("all", "any", "max", "mean", "min", "prod", "std", "sum", "var"):
    setattr(Array, _name, _method(_name, getattr(np.ndarray, _name)))
    ARRAY_METHODS[_name] = _method(_name, ARRAY_METHODS[_name], True)
for _name in ("choose", "clip", "compress", "dot", "repeat", "searchsorted", "take"):
    setattr(Array, _name, _method(_name, getattr(np.ndarray, _name)))


class _At:
    """`x.at`, whose results have an `at` again."""

    def __init__(self, places: Any):
        self.places = places

    def __getitem__(self, index: Any) -> _At:
        return _At(self.places[index])

    def __getattr__(self, name: str) -> Any:
        return dressed(getattr(self.places, name))


def with_at(x: Any) -> Any:
    """A plain NumPy array as an `Array`, without a copy; everything else as it is.

    >>> type(with_at(np.zeros(2))).__name__
    'Array'
    """
    if type(x) is not np.ndarray:
        return x
    return x.view(RuledArray if HALVES or x.dtype.num > 255 and is_narrow(x.dtype) else Array)


def halved(x: Any) -> Any:
    """An array, a number of NumPy's, a traced one, or a dtype, with 32 bits while `jax_enable_x64` is off; else as it is."""
    if not HALVES:
        return x
    if isinstance(x, np.dtype):
        return HALVES.get(x, x)
    half = HALVES.get(x.dtype) if type(x) is Tracer or is_a(x, (np.ndarray, np.generic)) else None
    return x if half is None or type(x) is Tracer and x.aval.weak else x.astype(half)


def handed(x: Any) -> Any:
    """What a function of `jax.numpy` hands out: with an `at`, and of the width that `jax_enable_x64` asks for."""
    return with_at(halved(x) if HALVES else x)


def placed(x: Any, sharding: Sharding) -> Any:
    """x, which says that it lies so."""
    if type(x) in (Array, RuledArray):
        x = x.view()
        x._sharding = sharding
    return x


_programs = weak_table("jax.programs", "code: has its module a module of JAX's names?")


def _is_of_jax(code: types.CodeType, names: dict[str, Any]) -> bool:
    """Is the code of a module that imports JAX's names? There traced arrays do not change either, nor is None a mask."""
    found = _programs.get(code)
    if found is None:
        found = any([type(v) is types.ModuleType and v.__name__.startswith("funcad.jax") for v in list(names.values())])
        _programs[code] = found
    return bool(found)


others.append(_is_of_jax)
_FUNCTIONS = {types.FunctionType, types.MethodType, types.BuiltinFunctionType, type(np.sum), np.ufunc}
_IGNORED = ("precision", "out_sharding")
_ABSTRACT = set(
    "generic number integer signedinteger unsignedinteger inexact floating complexfloating flexible character".split()
)


class _ScalarType(type):
    """`jnp.float32`: a dtype to whoever asks, and a conversion of arrays, also traced ones, when it is called."""

    dtype: np.dtype

    def __call__(cls, x: Any = 0) -> Any:
        return handed(asarray(x, dtype=cls.dtype))

    def __instancecheck__(cls, x: object) -> bool:
        return type(x) is cls.dtype.type

    def __eq__(cls, other: object) -> bool:
        return cls.dtype == (other.dtype if type(other) is _ScalarType else other)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __repr__(cls) -> str:
        return f"jnp.{cls.__name__}"


def _module(module: types.ModuleType) -> types.ModuleType:
    """The module with dressed functions."""
    proxy = types.ModuleType(module.__name__, module.__doc__)

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = dressed(getattr(module, name))
        setattr(proxy, name, value)
        return value

    vars(proxy).update(__getattr__=get, __dir__=lambda: dir(module), __file__=module.__file__)
    if hasattr(module, "__path__"):
        proxy.__path__ = []  # a package to `import jax.scipy.special`
    return proxy


def array_modules(value: Any) -> Any:
    """What funcad's own namespace has: modules of functions on arrays dressed, all else as it is."""
    return dressed(value) if getattr(value, "__name__", None) in _ARRAY_MODULES else value


_ARRAY_MODULES = {f"funcad.{name}" for name in ("image", "nn", "ops", "scipy")}


def dressed(f: Any) -> Any:
    """A function whose arrays have `at`, and that takes JAX's `precision` and `out_sharding`: all here is computed in full
    precision, in one process. Of a module one of such functions; of a class of NumPy's scalars what converts to it.

    >>> dressed(np.vdot)(np.ones(2), np.ones(2), precision="highest")
    np.float64(2.0)
    """
    if type(f) is types.ModuleType:
        return _module(f)
    if type(f) is type and issubclass(f, np.generic) and f.__name__ not in _ABSTRACT:
        return _ScalarType(f.__name__, (), {"dtype": np.dtype(f)})
    if type(f) not in _FUNCTIONS:
        return f

    @functools.wraps(f, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in _IGNORED:
            kwargs.pop(name, None)
        result = f(*args, **_with_tuple(kwargs))
        if type(result) in (list, tuple):
            return type(result)(map(handed, result))
        return handed(result)

    return call

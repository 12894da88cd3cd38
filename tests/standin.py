"""A stand-in for CuPy, so that placement is tested without a GPU.

`xp` is a module with NumPy's functions on its own array type, and CuPy's manners: a NumPy array as an operand is refused (rank
0 too), it does not turn into a NumPy array unless asked (`get`), rank-0 results are arrays, what CuPy lacks is absent, nothing
warns, indices in arrays wrap, singular matrices raise only inside `cupyx.errstate(linalg="raise")`, logical operations take no
complex numbers, and `add.at` adds in an order of its own, the few dtypes that the device can.
tests/primitives/test_cupy_names.py compares with the package what is listed in tests/standin_names.py.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from funcad.host.devices import NAMESPACES
from funcad.host.real_types import is_a
from tests import cuda_shim
from tests.standin_names import ABSENT, LINALG, SPECIAL
from tests.standin_solvers import SOLVERS, errstate, left_behind

__all__ = ["xp", "DeviceArray", "registered", "to_device", "to_host"]

# NumPy's own, also while a trace is open: the library that this stands for does not call NumPy's functions
_array, _asarray, _zeros, _arange, _full = np.array, np.asarray, np.zeros, np.arange, np.full

# The ufuncs that have a method; for others it raises NotImplementedError.
_METHODS = {
    "at": {"add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"},
    "accumulate": {"add", "multiply"},
    "reduceat": {"add"},
}
_ATOMIC = {"add": "ILQifdFDe", "subtract": "ILQifdFDe", "maximum": "ILQifd", "minimum": "ILQifd"}  # dtypes of `at`
_SIZED = {"nonzero", "flatnonzero", "argwhere", "unique", "extract", "compress", "delete", "union1d", "intersect1d"}
_IN_PLACE = (np.copyto, np.put, np.put_along_axis, np.fill_diagonal)


class DeviceArray:
    """An array "on the device"."""

    __module__ = "standin"  # whose functions, of that module, `registered` provides
    __slots__ = ("_array",)
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any, dtype: Any = float):
        self._array = _placed(_zeros(shape, dtype))

    @property
    def shape(self) -> tuple:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def size(self) -> int:
        return self._array.size

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    @property
    def strides(self) -> tuple:
        return self._array.strides

    @property
    def flags(self) -> Any:
        return self._array.flags

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self._array.__array_interface__["data"][0])

    @property
    def T(self) -> DeviceArray:
        return wrap(self._array.T)

    @property
    def mT(self) -> DeviceArray:
        return wrap(self._array.swapaxes(-2, -1))

    @property
    def real(self) -> DeviceArray:
        return wrap(self._array.real)

    @property
    def imag(self) -> DeviceArray:
        return wrap(self._array.imag)

    @real.setter
    def real(self, value: Any) -> None:
        self._array.real = unwrap(value)

    @imag.setter
    def imag(self, value: Any) -> None:
        self._array.imag = unwrap(value)

    def get(self) -> np.ndarray:
        _waits()
        return self._array.copy()

    def tolist(self) -> list:
        _waits()
        return self._array.tolist()

    def set(self, array: np.ndarray) -> None:
        _sends()
        self._array[...] = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _call(function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("tolist", "aval", "tobytes") or name not in dir(np.ndarray):
            raise AttributeError(name)
        def method(*args: Any, **kwargs: Any) -> Any:
            _note(f"ndarray.{name}", (self, *args), kwargs)
            return _call(_method(name), (self, *args), kwargs, ["fill", "sort", "put"].count(name) * (self._array,))

        return method

    def __getitem__(self, index: Any) -> DeviceArray:
        if any([getattr(i, "dtype", np.dtype(int)).char == "?" for i in (index if isinstance(index, tuple) else (index,))]):
            _sized()
        found = _perform(_part, (self._array, unwrap(index, indices=True)), {})
        if np.size(found) and not np.isscalar(found) and not np.may_share_memory(found, self._array):
            _count("calls")
        return wrap(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        where, given = unwrap(index, indices=True), unwrap(value)
        if work is not None and not (issubclass(type(given), np.ndarray) and _is(_part(self._array, where), given)):
            _count("calls")
        _perform(_put, (self._array, where, given), {}, (self._array,))

    def __len__(self) -> int:
        return len(self._array)

    def __bool__(self) -> bool:
        _waits()
        return bool(self._array)

    def __int__(self) -> int:
        _waits()
        return int(self._array)

    def __float__(self) -> float:
        _waits()
        return float(self._array)

    def __complex__(self) -> complex:
        _waits()
        return complex(self._array)

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"device({self._array!r})"

    def __format__(self, spec: str) -> str:
        return format(self._array[()], spec)


@functools.cache
def _method(name: str) -> Any:
    """The method as a function of the array."""

    def method(array: np.ndarray, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, name)(*args, **kwargs)

    method.__name__ = name
    return method


def _operator(name: str) -> Any:
    def method(self: DeviceArray, *others: Any) -> Any:
        for other in others:
            if not issubclass(type(other), (DeviceArray, np.ndarray, np.generic, bool, int, float, complex)):
                return NotImplemented
        _count("calls")
        return wrap(_perform(_method(name), (self._array, *[unwrap(o) for o in others]), {}))

    return method


for _base in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split():
    for _name in (f"__{_base}__", f"__r{_base}__"):
        setattr(DeviceArray, _name, _operator(_name))
for _name in "__neg__ __pos__ __abs__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__".split():
    setattr(DeviceArray, _name, _operator(_name))


def wrap(x: Any) -> Any:
    if issubclass(type(x), (np.ndarray, np.generic)):  # a traced value would say that it is an array
        result = DeviceArray.__new__(DeviceArray)
        object.__setattr__(result, "_array", _placed(_asarray(x)))
        return result
    if isinstance(x, tuple):
        kind = [wrap(v) for v in x]
        return type(x)(*kind) if hasattr(x, "_fields") else tuple(kind)
    if isinstance(x, list):
        return [wrap(v) for v in x]
    return x


def unwrap(x: Any, indices: bool = False) -> Any:
    if is_a(x, DeviceArray):
        return x._array
    if issubclass(type(x), np.ndarray) and not indices:
        raise TypeError(f"Unsupported type {type(x)}")
    if isinstance(x, (list, tuple)):
        return type(x)(unwrap(v, indices) for v in x) if not hasattr(x, "_fields") else type(x)(*[unwrap(v) for v in x])
    return x


def _wrapped(index: Any, array: np.ndarray) -> Any:
    """The index with integers in arrays brought inside, as the device does; numbers outside raise, as ever."""
    parts = index if isinstance(index, tuple) else (index,)
    axes = [p.ndim if isinstance(p, np.ndarray) and p.dtype == bool else p is not None and p is not Ellipsis for p in parts]
    found, axis = [], 0
    for p, taken in zip(parts, axes):
        if isinstance(p, np.ndarray) and p.dtype.kind in "iu" and p.ndim and array.shape[axis]:
            p = p % array.shape[axis]
        found.append(p)
        axis += array.ndim - sum(axes) if p is Ellipsis else taken
    return tuple(found) if isinstance(index, tuple) else found[0]


def _part(array: np.ndarray, index: Any) -> Any:
    return array[_wrapped(index, array)]


def _put(array: np.ndarray, index: Any, value: Any) -> None:
    array[_wrapped(index, array)] = value


def _call(function: Any, args: Any, kwargs: Any, own: Sequence[np.ndarray] = ()) -> Any:
    out = kwargs.get("out")
    name = getattr(function, "__name__", "")
    if name.startswith("logical_") and any([getattr(a, "dtype", np.dtype(bool)).kind == "c" for a in args]):
        raise TypeError(f"Wrong type of arguments for cupy_{name}: no loop of complex numbers")
    if name in _SIZED:
        _sized()
    if name == "take":
        kwargs = {"mode": "wrap", **kwargs}
    with np.errstate(all="ignore"):
        given = [unwrap(a) for a in args]
        named = {k: unwrap(v) for k, v in kwargs.items()}
        into = named.get("out")
        written = (*own, *(into if isinstance(into, tuple) else () if into is None else (into,)))
        if getattr(function, "func", None) is _at or any([function is f for f in _IN_PLACE]):
            written = (given[0],)
        places = _inputs_of(function)
        written = written if places is None else (*written, *given[places:])
        result = _perform(function, given, named, written)
    if work is not None and name not in ("empty", "empty_like", "may_share_memory"):
        read = [a for a in (*own, *given) if issubclass(type(a), np.ndarray)]
        found = [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else (result,)) if hasattr(r, "dtype")]
        new = [r for r in found if r.size and not any([np.may_share_memory(r, a) for a in read])]
        if new or out is not None or result is None:
            _count("calls")
    if out is not None:
        return out[0] if isinstance(out, tuple) else out
    return wrap(result)


def _inputs_of(function: Any) -> int | None:
    """How many operands a function has that takes an output by position behind them; None: all are operands."""
    if isinstance(function, np.ufunc):
        return function.nin
    return {"dot": 2, "vdot": 2}.get(getattr(function, "__name__", ""))


class _Function:
    """A function of NumPy's as CuPy has it."""

    def __init__(self, function: Any, path: str):
        self._function = function
        self._path = path
        self.__name__ = getattr(function, "__name__", type(function).__name__)  # SciPy 1.16 has some without a name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _note(self._path, args, kwargs)
        return _call(self._function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._function, name)
        if name in _METHODS and self.__name__ not in _METHODS[name]:
            raise NotImplementedError(f"{self.__name__}.{name} is not implemented on the device")
        return _Function(functools.partial(_at, self._function) if name == "at" else method, f"{self._path}.{name}")


def _at(ufunc: Any, a: np.ndarray, index: Any, b: Any) -> None:
    """`ufunc.at` by atomic operations: of some dtypes, in no order that anyone knows (here the last first)."""
    if a.dtype.char not in _ATOMIC.get(ufunc.__name__, "ilqILQ"):
        raise TypeError(f"{ufunc.__name__}.at does not support {a.dtype}")
    cells = _arange(a.size).reshape(a.shape)[_wrapped(index, a)]
    values = np.broadcast_to(b, cells.shape).reshape(-1)
    flat = a.reshape(-1).copy()
    ufunc.at(flat, cells.reshape(-1)[::-1], values[::-1])
    a[...] = flat.reshape(a.shape)


class _Module:
    """NumPy, or a module of it."""

    def __init__(self, module: Any, path: str = ""):
        self._module = module
        self._path = path
        self.__name__ = f"standin.{path}" if path else "standin"

    def __getattr__(self, name: str) -> Any:
        if name in ABSENT.get(self._path, ()) or name.startswith("_"):
            raise AttributeError(f"module {self.__name__} has no attribute {name}")
        found = vars(self._module).get(name)  # NumPy's own: the library that this stands for does not ask NumPy
        found = getattr(self._module, name) if found is None else found
        if isinstance(found, type(np)):
            return _Module(found, f"{self._path}.{name}" if self._path else name)
        if isinstance(found, type) or not callable(found):
            return found
        path = f"{self._path}.{name}" if self._path else name
        return _Function(left_behind(found) if self._path == "linalg" and name in SOLVERS else found, path)

    ndarray = DeviceArray

    @staticmethod
    def RawModule(*, code: str, options: tuple[str, ...]) -> Any:
        """Kernels, which run on the CPU: tests/cuda_shim.py."""
        return _Kernels(cuda_shim.Module(code))

    @staticmethod
    def empty(shape: Any, dtype: Any = float) -> DeviceArray:
        """With NaNs, or the greatest numbers: what is read before it is written is seen."""
        kind = np.dtype(dtype)
        return wrap(_full(shape, np.nan if kind.kind in "fc" else kind.kind == "b" or np.iinfo(kind).max, kind))

    @staticmethod
    def asarray(x: Any, dtype: Any = None) -> DeviceArray:
        """Also from the host: this is how arrays get here."""
        moved.append(x) if isinstance(x, np.ndarray) else None
        if not is_a(x, DeviceArray):
            _count("copies")
            _sends()
        if is_a(x, DeviceArray) and dtype in (None, x.dtype):
            return x
        return wrap(_array(x._array if is_a(x, DeviceArray) else unwrap_all(x), dtype=dtype))

    @staticmethod
    def array(x: Any, dtype: Any = None, *, order: str = "C") -> DeviceArray:
        """As `asarray`, but always a new one."""
        found = _Module.asarray(x, dtype)
        if found is x:
            _count("calls")
        return wrap(_perform(_method("copy"), (found._array, order), {})) if found is x else found


class _Kernels:
    """A module of kernels, whose launches are counted."""

    def __init__(self, module: Any):
        self._module = module

    def get_function(self, name: str) -> Any:
        function = self._module.get_function(name)

        def launch(*args: Any, **kwargs: Any) -> None:
            _count("calls")
            function(*args, **kwargs)

        return launch


class _Special(_Module):
    """scipy.special, as far as CuPy has it."""

    def __getattr__(self, name: str) -> Any:
        if name not in SPECIAL:
            raise AttributeError(name)
        return super().__getattr__(name)


class _Linalg(_Module):
    """scipy.linalg, as far as CuPy has it."""

    def __getattr__(self, name: str) -> Any:
        if name not in LINALG:
            raise AttributeError(name)
        return super().__getattr__(name)


def unwrap_all(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [unwrap_all(v) for v in x]
    return x._array if is_a(x, DeviceArray) else x


def _note(path: str, args: Any, kwargs: Any) -> None:
    if calls is not None:
        dtypes = "".join([a.dtype.char for a in args if is_a(a, DeviceArray)])
        calls.setdefault(path, set()).add((len(args), tuple(sorted(kwargs)), dtypes))


def _perform(function: Any, args: Sequence[Any], kwargs: dict[str, Any], written: Sequence[Any] = ()) -> Any:
    return function(*args, **kwargs) if driver is None else driver.perform(function, args, kwargs, written)


def _placed(x: np.ndarray) -> np.ndarray:
    return x if driver is None or driver.owns(x) else driver.place(x)


def _waits() -> None:
    _count("waits")
    if driver is not None:
        driver.refuse_if_recording("a value that is read")


def _sized() -> None:  # the size of a result depends on values: CuPy waits for them
    if driver is not None:
        driver.refuse_if_recording("a size that depends on values")


def _sends() -> None:
    driver is None or driver.sends()


def _count(what: str) -> None:
    if work is not None:
        work[what] += 1


def _is(a: Any, b: np.ndarray) -> bool:
    """Are they the same elements in memory?"""
    same = issubclass(type(a), np.ndarray) and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    return bool(same and a.__array_interface__["data"] == b.__array_interface__["data"])


# if somebody asks: how often the device was called to compute ("calls": what only gives a view is none, nor is making room),
# how often a value was sent to it ("copies"), and how often Python waited for one of its values ("waits")
work: Counter[str] | None = None
calls: dict[str, set] | None = None  # if somebody asks: what was called, with how many operands, which keywords and dtypes
moved: list[np.ndarray] = []  # the NumPy arrays that were copied to the device
xp: Any = _Module(np)
driver: Any = None  # of tests/cuda_driver.py, while one is open


@contextmanager
def registered() -> Iterator[Any]:
    """While this is open, funcad knows the stand-in's arrays."""
    NAMESPACES[DeviceArray] = xp
    moved.clear()
    cupyx = ModuleType("cupyx")
    cupyx.errstate = errstate  # type: ignore[attr-defined]
    special, linalg = _Special(scipy.special, "special"), _Linalg(scipy.linalg, "scipy.linalg")
    modules: dict[str, Any] = {"standin": xp, "cupyx": cupyx, "cupyx.scipy.special": special, "cupyx.scipy.linalg": linalg}
    saved = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)  # type: ignore[arg-type]
    try:
        yield xp
    finally:
        del NAMESPACES[DeviceArray]
        for name, module in saved.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
        moved.clear()


def to_device(x: Any) -> Any:
    """NumPy arrays become device arrays, in the machine's byte order, as CuPy's all are; scalars stay."""
    return wrap(x.astype(x.dtype.newbyteorder("="), order="K")) if isinstance(x, np.ndarray) else x


def to_host(x: Any) -> Any:
    return x.get() if is_a(x, DeviceArray) else x

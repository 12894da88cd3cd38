"""A stand-in for CuPy, so that placement is tested without a GPU.

`xp` is a module with NumPy's functions on its own array type, and CuPy's manners: a NumPy array as an operand is refused (rank
0 too), it does not turn into a NumPy array unless asked (`get`), rank-0 results are arrays, and what CuPy lacks is absent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from funcad.ir.place import NAMESPACES

__all__ = ["xp", "DeviceArray", "registered", "to_device", "to_host"]

# Public functions of NumPy that CuPy 14 does not have.
ABSENT = {
    "": set(
        "asmatrix block bmat einsum_path frompyfunc geomspace insert isnat matvec nanpercentile nanquantile nested_iters "
        "polyder polydiv polyint spacing unstack vecdot vecmat errstate longdouble clongdouble".split()
    ),
    "linalg": set("diagonal matrix_norm multi_dot outer svdvals tensordot trace vecdot vector_norm".split()),
    "lib": {"stride_tricks.sliding_window_view"},
}
_METHODS = {"at": {"add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}}
_NO_METHODS = {"outer", "reduceat", "accumulate"}  # of CuPy's ufuncs: absent, or for some ufuncs only

# What `cupyx.scipy.special` of CuPy 14 has.
SPECIAL = set(
    """
    bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p btdtr btdtri cbrt chdtr chdtrc chdtri
    cosdg cosm1 cotdg digamma ellipeinc ellipj ellipk ellipkinc ellipkm1 entr erf erfc erfcinv erfcx erfinv exp1
    exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc fdtri gamma gammainc gammaincc gammainccinv gammaincinv
    gammaln gammasgn gdtr gdtrc huber i0 i0e i1 i1e inv_boxcox inv_boxcox1p j0 j1 k0 k0e k1 k1e kl_div lambertw
    log1p log_expit log_ndtr log_softmax loggamma logit logsumexp lpmv multigammaln nbdtr nbdtrc nbdtri ndtr ndtri
    pdtr pdtrc pdtri poch polygamma pseudo_huber radian rel_entr rgamma round shichi sici sinc sindg softmax
    sph_harm sph_harm_y spherical_yn tandg wright_bessel xlog1py xlogy y0 y1 yn zeta zetac
    """.split()
)

# What `cupyx.scipy.linalg` has.
LINALG = set(
    """
    bandwidth block_diag circulant companion convolution_matrix dft expm fiedler fiedler_companion hadamard hankel helmert
    hilbert khatri_rao kron leslie lu lu_factor lu_solve solve_triangular toeplitz tri tril triu
    """.split()
)


class DeviceArray:
    """An array "on the device"."""

    __slots__ = ("_array",)
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any, dtype: Any = float):
        self._array = np.zeros(shape, dtype)

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

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return xp

    def get(self) -> np.ndarray:
        return self._array.copy()

    def tolist(self) -> list:
        return self._array.tolist()

    def set(self, array: np.ndarray) -> None:
        self._array[...] = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _call(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _call(function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("tolist", "aval", "tobytes") or name not in dir(np.ndarray):
            raise AttributeError(name)
        return lambda *args, **kwargs: _call(getattr(self._array, name), args, kwargs)

    def __getitem__(self, index: Any) -> DeviceArray:
        return wrap(self._array[unwrap(index, indices=True)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[unwrap(index, indices=True)] = unwrap(value)

    def __len__(self) -> int:
        return len(self._array)

    def __bool__(self) -> bool:
        return bool(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __complex__(self) -> complex:
        return complex(self._array)

    def __index__(self) -> int:
        return self._array.__index__()

    def __iter__(self) -> Iterator[DeviceArray]:
        return (wrap(x) for x in self._array)

    def __repr__(self) -> str:
        return f"device({self._array!r})"

    def __format__(self, spec: str) -> str:
        return format(self._array[()], spec)


def _operator(name: str) -> Any:
    def method(self: DeviceArray, *others: Any) -> Any:
        for other in others:
            if not isinstance(other, (DeviceArray, np.ndarray, np.generic, bool, int, float, complex)):
                return NotImplemented
        return wrap(getattr(self._array, name)(*[unwrap(o) for o in others]))

    return method


for _base in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split():
    for _name in (f"__{_base}__", f"__r{_base}__"):
        setattr(DeviceArray, _name, _operator(_name))
for _name in "__neg__ __pos__ __abs__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__".split():
    setattr(DeviceArray, _name, _operator(_name))


def wrap(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        result = DeviceArray.__new__(DeviceArray)
        object.__setattr__(result, "_array", np.asarray(x))
        return result
    if isinstance(x, tuple):
        kind = [wrap(v) for v in x]
        return type(x)(*kind) if hasattr(x, "_fields") else tuple(kind)
    if isinstance(x, list):
        return [wrap(v) for v in x]
    return x


def unwrap(x: Any, indices: bool = False) -> Any:
    if type(x) is DeviceArray:
        return x._array
    if isinstance(x, np.ndarray) and not indices:
        raise TypeError(f"Unsupported type {type(x)}")
    if isinstance(x, (list, tuple)):
        return type(x)(unwrap(v, indices) for v in x) if not hasattr(x, "_fields") else type(x)(*[unwrap(v) for v in x])
    return x


def _call(function: Any, args: Any, kwargs: Any) -> Any:
    out = kwargs.get("out")
    result = function(*[unwrap(a) for a in args], **{k: unwrap(v) for k, v in kwargs.items()})
    if out is not None:
        return out[0] if isinstance(out, tuple) else out
    return wrap(result)


class _Function:
    """A function of NumPy's as CuPy has it."""

    def __init__(self, function: Any):
        self._function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)  # SciPy 1.16 has some without a name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in _NO_METHODS or name in _METHODS and self.__name__ not in _METHODS[name]:
            raise AttributeError(f"{self.__name__}.{name} does not exist on the device")
        return _Function(getattr(self._function, name))


class _Module:
    """NumPy, or a module of it."""

    def __init__(self, module: Any, path: str = ""):
        self._module = module
        self._path = path
        self.__name__ = f"standin.{path}" if path else "standin"

    def __getattr__(self, name: str) -> Any:
        if name in ABSENT.get(self._path, ()) or name.startswith("_"):
            raise AttributeError(f"module {self.__name__} has no attribute {name}")
        found = getattr(self._module, name)
        if isinstance(found, type(np)):
            return _Module(found, f"{self._path}.{name}" if self._path else name)
        if isinstance(found, type) or not callable(found):
            return found
        return _Function(found)

    ndarray = DeviceArray

    @staticmethod
    def asarray(x: Any, dtype: Any = None) -> DeviceArray:
        """Also from the host: this is how arrays get here."""
        moved.append(x) if isinstance(x, np.ndarray) else None
        if type(x) is DeviceArray and dtype in (None, x.dtype):
            return x
        return wrap(np.array(x._array if type(x) is DeviceArray else unwrap_all(x), dtype=dtype))

    @staticmethod
    def array(x: Any, dtype: Any = None, *, order: str = "C") -> DeviceArray:
        """As `asarray`, but always a new one."""
        found = _Module.asarray(x, dtype)
        return wrap(found._array.copy(order)) if found is x else found


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
    return x._array if type(x) is DeviceArray else x


moved: list[np.ndarray] = []  # the NumPy arrays that were copied to the device
xp: Any = _Module(np)


@contextmanager
def registered() -> Iterator[Any]:
    """While this is open, funcad knows the stand-in's arrays."""
    NAMESPACES[DeviceArray] = xp
    moved.clear()
    sys.modules["cupyx.scipy.special"] = _Special(scipy.special, "special")
    sys.modules["cupyx.scipy.linalg"] = _Linalg(scipy.linalg, "scipy.linalg")
    try:
        yield xp
    finally:
        del NAMESPACES[DeviceArray], sys.modules["cupyx.scipy.special"], sys.modules["cupyx.scipy.linalg"]
        moved.clear()


def to_device(x: Any) -> Any:
    """NumPy arrays become device arrays; scalars stay."""
    return wrap(x.copy()) if isinstance(x, np.ndarray) else x


def to_host(x: Any) -> Any:
    return x.get() if type(x) is DeviceArray else x

# ruff: noqa: F401, I001 -- every import here is the public list
"""`import funcad.numpy as fnp`: NumPy's names, on NumPy and CuPy arrays and on traced values.

Each function is NumPy's own when nothing is traced. Plain `numpy` calls on traced values reach the same implementations
(`dispatch.TABLE`), so importing this module is a matter of taste, except for what NumPy does not hand over:
`fnp.array([x, y])`, `fnp.asarray(x)`, `fnp.full(n, x)`, `fnp.at(a)[i].set(x)`, `fnp.vectorize(f)`.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import numpy as _np

from funcad.host.devices import device_in_use as _device_in_use
from funcad.host.devices import namespace_of as _namespace_of
from funcad.ir.tracer import Tracer as _Tracer
from funcad.configuration import public_names as _public_names
from funcad.numpy.dispatch import LATER_NAMES as _LATER_NAMES
from funcad.numpy.methods import PROPERTIES as _PROPERTIES
from funcad.numpy.methods import METHODS as _METHODS

# isort: off
from funcad.numpy.indexing import at
from funcad.numpy.reductions import (
    all_ as all, any_ as any, argmax, argmin, count_nonzero, cumprod, cumsum, cumulative_prod, cumulative_sum, max_ as max,
    mean, min_ as min, prod, ptp, sum_ as sum,
)  # fmt: skip

if _TYPE_CHECKING:
    from funcad.numpy.creation import (
        arange, array, asanyarray, asarray, ascontiguousarray, asfortranarray, astype, copy, empty, empty_like,
        eye, fromfunction, frompyfunc, full, full_like, geomspace, identity, indices, ix_, linspace, logspace,
        meshgrid, ones, ones_like, tri, zeros, zeros_like,
    )  # fmt: skip
    from funcad.numpy.elementwise import (
        angle, clip, divmod_ as divmod, fix, frexp, ldexp, modf, nan_to_num, real_if_close, round_ as round, sinc,
    )  # fmt: skip
    from funcad.numpy.questions import (
        allclose, array_equal, array_equiv, can_cast, common_type, isclose, iscomplex, iscomplexobj, isneginf, isposinf,
        isreal, isrealobj, isscalar, ndim, result_type, shape, size,
    )  # fmt: skip
    from funcad.numpy.searching import choose, piecewise, select
    from funcad.numpy.ufuncs import (
        absolute, add, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, bitwise_and, bitwise_or,
        bitwise_xor, cbrt, ceil, conjugate, copysign, cos, cosh, deg2rad, degrees, divide, equal, exp, exp2,
        expm1, fabs, float_power, floor, floor_divide, fmax, fmin, fmod, greater, greater_equal, heaviside,
        hypot, imag, invert, isfinite, isinf, isnan, left_shift, less, less_equal, log, log10, log1p, log2,
        logaddexp, logaddexp2, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, multiply,
        negative, nextafter, not_equal, positive, power, rad2deg, radians, real, reciprocal, remainder,
        right_shift, rint, sign, signbit, sin, sinh, sqrt, square, subtract, tan, tanh, trunc,
    )  # fmt: skip
    from funcad.numpy.linear import (
        cross, diag, diagflat, diagonal, dot, einsum, einsum_path, inner, kron, matmul, matrix_transpose, matvec,
        outer, permute_dims, tensordot, trace, transpose, vdot, vecdot, vecmat,
    )  # fmt: skip
    from funcad.numpy.shaping import (
        atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_to,
        expand_dims, fill_diagonal, flip, fliplr, flipud, moveaxis, ravel,
        reshape, rollaxis, rot90, squeeze, swapaxes, tril, triu,
    )  # fmt: skip
# isort: on

# other names of the same functions
amax, amin = max, min
_OTHER_NAMES = {
    **{"round": "round_", "around": "round_", "divmod": "divmod_", "abs": "absolute", "true_divide": "divide"},
    **{"mod": "remainder", "pow": "power", "conj": "conjugate", "bitwise_not": "invert", "bitwise_invert": "invert"},
    **{"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"},
    **{f"a{name}": f"arc{name}" for name in ("cos", "sin", "tan", "tan2", "cosh", "sinh", "tanh")},
}

# NumPy's own: nothing in them can be traced
broadcast_shapes = _np.broadcast_shapes
diag_indices = _np.diag_indices
tril_indices, triu_indices = _np.tril_indices, _np.triu_indices
mask_indices = _np.mask_indices
mgrid, ogrid, s_, index_exp = _np.mgrid, _np.ogrid, _np.s_, _np.index_exp
issubdtype, promote_types, isdtype = _np.issubdtype, _np.promote_types, _np.isdtype
iterable = _np.iterable
bartlett, blackman, hamming, hanning, kaiser = _np.bartlett, _np.blackman, _np.hamming, _np.hanning, _np.kaiser
frombuffer, fromfile, fromiter, fromstring, from_dlpack = (
    _np.frombuffer,
    _np.fromfile,
    _np.fromiter,
    _np.fromstring,
    _np.from_dlpack,
)
load, save, savez, savez_compressed = _np.load, _np.save, _np.savez, _np.savez_compressed
loadtxt, savetxt, genfromtxt = _np.loadtxt, _np.savetxt, _np.genfromtxt
printoptions, set_printoptions, get_printoptions = _np.printoptions, _np.set_printoptions, _np.get_printoptions
base_repr, binary_repr = _np.base_repr, _np.binary_repr
format_float_positional, format_float_scientific = _np.format_float_positional, _np.format_float_scientific
ndindex, ndenumerate, min_scalar_type = _np.ndindex, _np.ndenumerate, _np.min_scalar_type
errstate, seterr, geterr = _np.errstate, _np.seterr, _np.geterr

# constants and dtypes
e, pi, euler_gamma, inf, nan, newaxis = _np.e, _np.pi, _np.euler_gamma, _np.inf, _np.nan, None
bool_ = bool = _np.bool_
int_, uint, intp, uintp = _np.int_, _np.uint, _np.intp, _np.uintp
byte, short, intc, long, longlong = _np.byte, _np.short, _np.intc, _np.long, _np.longlong
ubyte, ushort, uintc, ulong, ulonglong = _np.ubyte, _np.ushort, _np.uintc, _np.ulong, _np.ulonglong
int8, int16, int32, int64 = _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float16, float32, float64 = _np.float16, _np.float32, _np.float64
complex64, complex128 = _np.complex64, _np.complex128
half, single, double, longdouble = _np.half, _np.single, _np.double, _np.longdouble
csingle, cdouble, clongdouble = _np.csingle, _np.cdouble, _np.clongdouble
True_, False_ = _np.True_, _np.False_
generic, number, integer, inexact = _np.generic, _np.number, _np.integer, _np.inexact
signedinteger, unsignedinteger = _np.signedinteger, _np.unsignedinteger
floating, complexfloating, character = _np.floating, _np.complexfloating, _np.character
flexible, object_, dtype, finfo, iinfo, ufunc = _np.flexible, _np.object_, _np.dtype, _np.finfo, _np.iinfo, _np.ufunc
ComplexWarning = _np.exceptions.ComplexWarning

_LATER_MODULES = ["linalg", "fft", "array_api"]
_NUMPYS_MODULES = "char dtypes emath exceptions lib ma polynomial random rec strings testing typing".split()


def __getattr__(name: str) -> _Any:
    if name in _LATER_MODULES:
        return _importlib.import_module(f"funcad.numpy.{name}")
    if name == "special":  # where SciPy looks for functions of the arrays of a namespace, with SCIPY_ARRAY_API=1
        return _Tracer.namespace.scipy.special
    if name in _NUMPYS_MODULES:  # which take traced values themselves; libraries look for them in a namespace
        return getattr(_np, name)
    module = _LATER_NAMES.get(name) or _LATER_NAMES.get(_OTHER_NAMES.get(name, name))
    if module is None:
        raise AttributeError(f"module 'funcad.numpy' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"funcad.numpy.{module}"), _OTHER_NAMES.get(name, name))
    globals()[name] = value
    return value


__dir__ = _public_names(globals(), [*_LATER_MODULES, *_LATER_NAMES, *_OTHER_NAMES])


__array_api_version__ = "2024.12"
__array_namespace_info__ = _np.__array_namespace_info__


class _AnyArray(type):
    def __instancecheck__(cls, x: _Any) -> _Any:
        if type(x) is _Tracer or issubclass(type(x), _np.ndarray):
            return True
        return _device_in_use() and _namespace_of((x,)) is not _np

    def __getattr__(cls, name: str) -> _Any:
        """NumPy's methods as functions, `ndarray.flatten(x)`, which take all that is an instance."""
        if not callable(getattr(_np.ndarray, name)):
            raise AttributeError(f"funcad.numpy.ndarray has methods; take x.{name}")
        return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


class ndarray(metaclass=_AnyArray):
    """`isinstance(x, ndarray)` holds for NumPy arrays, device arrays and traced values. Not to be called: see `zeros`.

    >>> import numpy as np, funcad.numpy as fnp
    >>> isinstance(np.zeros(3), fnp.ndarray)
    True
    """

    def __new__(cls, *args: _Any, **kwargs: _Any) -> _Any:
        raise TypeError("funcad.numpy.ndarray is for isinstance; make arrays with zeros, full, array ...")


for _name, _method in {**_METHODS, **_PROPERTIES}.items():
    setattr(_Tracer, _name, _method)

# ruff: noqa: F401, I001 -- every import here is the public list
"""`import funcad.numpy as fnp`: NumPy's names, on NumPy and CuPy arrays and on traced values.

Each function is NumPy's own when nothing is traced. Plain `numpy` calls on traced values reach the same implementations
(`dispatch.TABLE`), so importing this module is a matter of taste, except for what NumPy does not hand over:
`fnp.array([x, y])`, `fnp.asarray(x)`, `fnp.full(n, x)`, `fnp.at(a)[i].set(x)`, `fnp.vectorize(f)`.
"""

import importlib as _importlib
from typing import Any as _Any

import numpy as _np

from funcad.host.devices import device_in_use as _device_in_use
from funcad.host.devices import namespace_of as _namespace_of
from funcad.ir.tracer import Tracer as _Tracer
from funcad.names import public_names as _public_names
from funcad.numpy.calculus import (
    convolve as convolve,
    correlate as correlate,
    diff as diff,
    ediff1d as ediff1d,
    gradient as gradient,
    interp as interp,
    polyadd as polyadd,
    polyder as polyder,
    polyint as polyint,
    polymul as polymul,
    polysub as polysub,
    polyval as polyval,
    trapezoid as trapezoid,
    unwrap as unwrap,
    vander as vander,
)
from funcad.numpy.creation import (
    arange as arange,
    array as array,
    asanyarray as asanyarray,
    asarray as asarray,
    ascontiguousarray as ascontiguousarray,
    asfortranarray as asfortranarray,
    astype as astype,
    copy as copy,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    fromfunction as fromfunction,
    frompyfunc as frompyfunc,
    full as full,
    full_like as full_like,
    geomspace as geomspace,
    identity as identity,
    indices as indices,
    ix_ as ix_,
    linspace as linspace,
    logspace as logspace,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    tri as tri,
    zeros as zeros,
    zeros_like as zeros_like,
)
from funcad.numpy.elementwise import (
    absolute as absolute,
    add as add,
    angle as angle,
    arccos as arccos,
    arccosh as arccosh,
    arcsin as arcsin,
    arcsinh as arcsinh,
    arctan as arctan,
    arctan2 as arctan2,
    arctanh as arctanh,
    cbrt as cbrt,
    ceil as ceil,
    clip as clip,
    conjugate as conjugate,
    copysign as copysign,
    cos as cos,
    cosh as cosh,
    deg2rad as deg2rad,
    degrees as degrees,
    divide as divide,
    divmod_ as divmod,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    fabs as fabs,
    fix as fix,
    float_power as float_power,
    floor as floor,
    floor_divide as floor_divide,
    fmax as fmax,
    fmin as fmin,
    fmod as fmod,
    frexp as frexp,
    heaviside as heaviside,
    hypot as hypot,
    imag as imag,
    ldexp as ldexp,
    log as log,
    log10 as log10,
    log1p as log1p,
    log2 as log2,
    logaddexp as logaddexp,
    logaddexp2 as logaddexp2,
    maximum as maximum,
    minimum as minimum,
    modf as modf,
    multiply as multiply,
    nan_to_num as nan_to_num,
    negative as negative,
    nextafter as nextafter,
    positive as positive,
    power as power,
    rad2deg as rad2deg,
    radians as radians,
    real as real,
    real_if_close as real_if_close,
    reciprocal as reciprocal,
    remainder as remainder,
    rint as rint,
    round_ as round,
    sign as sign,
    sin as sin,
    sinc as sinc,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
)
from funcad.numpy.indexing import (
    at as at,
)
from funcad.numpy.joining import (
    append as append,
    array_split as array_split,
    block as block,
    column_stack as column_stack,
    concatenate as concatenate,
    delete as delete,
    dsplit as dsplit,
    dstack as dstack,
    hsplit as hsplit,
    hstack as hstack,
    insert as insert,
    pad as pad,
    repeat as repeat,
    resize as resize,
    roll as roll,
    split as split,
    stack as stack,
    tile as tile,
    unstack as unstack,
    vsplit as vsplit,
    vstack as vstack,
)
from funcad.numpy.linear import (
    cross as cross,
    dot as dot,
    einsum as einsum,
    einsum_path as einsum_path,
    inner as inner,
    kron as kron,
    matmul as matmul,
    matvec as matvec,
    outer as outer,
    tensordot as tensordot,
    vdot as vdot,
    vecdot as vecdot,
    vecmat as vecmat,
)
from funcad.numpy.logic import (
    allclose as allclose,
    array_equal as array_equal,
    array_equiv as array_equiv,
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    can_cast as can_cast,
    common_type as common_type,
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    invert as invert,
    isclose as isclose,
    iscomplex as iscomplex,
    iscomplexobj as iscomplexobj,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    isneginf as isneginf,
    isposinf as isposinf,
    isreal as isreal,
    isrealobj as isrealobj,
    isscalar as isscalar,
    left_shift as left_shift,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    ndim as ndim,
    not_equal as not_equal,
    result_type as result_type,
    right_shift as right_shift,
    shape as shape,
    signbit as signbit,
    size as size,
)
from funcad.numpy.mapping import (
    apply_along_axis as apply_along_axis,
    apply_over_axes as apply_over_axes,
    c_ as c_,
    diag_indices_from as diag_indices_from,
    r_ as r_,
    ravel_multi_index as ravel_multi_index,
    tril_indices_from as tril_indices_from,
    triu_indices_from as triu_indices_from,
    unravel_index as unravel_index,
    vectorize as vectorize,
)
from funcad.numpy.methods import PROPERTIES as _PROPERTIES
from funcad.numpy.operators import METHODS as _METHODS
from funcad.numpy.reductions import (
    all_ as all,
    any_ as any,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    cumprod as cumprod,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    max_ as max,
    mean as mean,
    min_ as min,
    prod as prod,
    ptp as ptp,
    sum_ as sum,
)
from funcad.numpy.choosing import choose as choose
from funcad.numpy.choosing import piecewise as piecewise
from funcad.numpy.choosing import select as select
from funcad.numpy.searching import (
    argpartition as argpartition,
    argsort as argsort,
    argwhere as argwhere,
    bincount as bincount,
    compress as compress,
    digitize as digitize,
    extract as extract,
    flatnonzero as flatnonzero,
    lexsort as lexsort,
    nonzero as nonzero,
    partition as partition,
    place as place,
    put as put,
    put_along_axis as put_along_axis,
    searchsorted as searchsorted,
    sort as sort,
    sort_complex as sort_complex,
    take as take,
    take_along_axis as take_along_axis,
    where as where,
)
from funcad.numpy.shaping import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    broadcast_arrays as broadcast_arrays,
    broadcast_to as broadcast_to,
    diag as diag,
    diagflat as diagflat,
    diagonal as diagonal,
    expand_dims as expand_dims,
    fill_diagonal as fill_diagonal,
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    ravel as ravel,
    reshape as reshape,
    rollaxis as rollaxis,
    rot90 as rot90,
    squeeze as squeeze,
    swapaxes as swapaxes,
    trace as trace,
    transpose as transpose,
    tril as tril,
    triu as triu,
)
from funcad.numpy.statistics import (
    average as average,
    corrcoef as corrcoef,
    cov as cov,
    median as median,
    nanargmax as nanargmax,
    nanargmin as nanargmin,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
    nanmax as nanmax,
    nanmean as nanmean,
    nanmedian as nanmedian,
    nanmin as nanmin,
    nanpercentile as nanpercentile,
    nanprod as nanprod,
    nanquantile as nanquantile,
    nanstd as nanstd,
    nansum as nansum,
    nanvar as nanvar,
    percentile as percentile,
    quantile as quantile,
    std as std,
    var as var,
)

# other names of the same functions
abs = absolute
true_divide = divide
mod = remainder
pow = power
conj = conjugate
around = round
amax, amin = max, min
bitwise_not = bitwise_invert = invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
acos, asin, atan, atan2 = arccos, arcsin, arctan, arctan2
acosh, asinh, atanh = arccosh, arcsinh, arctanh
concat = concatenate
permute_dims = transpose

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
array_repr, array_str, array2string = _np.array_repr, _np.array_str, _np.array2string
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
_LATER_NAMES = {  # name -> the module that is loaded at its first use
    "i0": "bessel",
    **dict.fromkeys(["poly", "polydiv", "polyfit", "roots"], "polynomials"),
    **dict.fromkeys(["bitwise_count", "gcd", "lcm", "packbits", "spacing", "unpackbits"], "bit_patterns"),
    **dict.fromkeys(["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"], "histograms"),
    **dict.fromkeys(["intersect1d", "isin", "setdiff1d", "setxor1d", "trim_zeros", "union1d", "unique"], "sets"),
    **dict.fromkeys(["unique_all", "unique_counts", "unique_inverse", "unique_values"], "sets"),
}


def __getattr__(name: str) -> _Any:
    if name in _LATER_MODULES:
        return _importlib.import_module(f"funcad.numpy.{name}")
    if name == "special":  # where SciPy looks for functions of the arrays of a namespace, with SCIPY_ARRAY_API=1
        return _Tracer.namespace.scipy.special
    if name not in _LATER_NAMES:
        raise AttributeError(f"module 'funcad.numpy' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"funcad.numpy.{_LATER_NAMES[name]}"), name)
    globals()[name] = value
    return value


__dir__ = _public_names(globals(), [*_LATER_MODULES, *_LATER_NAMES])


__array_api_version__ = "2024.12"
__array_namespace_info__ = _np.__array_namespace_info__


class _AnyArray(type):
    def __instancecheck__(cls, x: _Any) -> _Any:
        if type(x) is _Tracer or issubclass(type(x), _np.ndarray):
            return True
        return _device_in_use() and _namespace_of((x,)) is not _np


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

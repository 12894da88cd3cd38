# Written by `python -m tests.stubs` from the signatures of the functions; do not edit. What a function takes is NumPy's where
# it says `from numpy`, and written out where it has another option or not all of them.

import builtins as _builtins
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

import numpy as _np
from numpy.typing import ArrayLike as _ArrayLike
from numpy.typing import DTypeLike as _DTypeLike

_Shape = TypeVar("_Shape", bound=tuple[int, ...])
_Array = _np.ndarray[Any, _np.dtype[Any]]
_Axis = SupportsIndex | Sequence[SupportsIndex]

from numpy import False_ as False_
from numpy import True_ as True_
from numpy import all as all
from numpy import allclose as allclose
from numpy import amax as amax
from numpy import amin as amin
from numpy import angle as angle
from numpy import any as any
from numpy import append as append
from numpy import apply_along_axis as apply_along_axis
from numpy import apply_over_axes as apply_over_axes
from numpy import argmax as argmax
from numpy import argmin as argmin
from numpy import argpartition as argpartition
from numpy import around as around
from numpy import array2string as array2string
from numpy import array_equal as array_equal
from numpy import array_equiv as array_equiv
from numpy import array_repr as array_repr
from numpy import array_split as array_split
from numpy import array_str as array_str
from numpy import asanyarray as asanyarray
from numpy import asarray as asarray
from numpy import ascontiguousarray as ascontiguousarray
from numpy import asfortranarray as asfortranarray
from numpy import astype as astype
from numpy import atleast_1d as atleast_1d
from numpy import atleast_2d as atleast_2d
from numpy import atleast_3d as atleast_3d
from numpy import average as average
from numpy import bartlett as bartlett
from numpy import base_repr as base_repr
from numpy import binary_repr as binary_repr
from numpy import blackman as blackman
from numpy import block as block
from numpy import bool as bool
from numpy import bool_ as bool_
from numpy import broadcast_arrays as broadcast_arrays
from numpy import broadcast_shapes as broadcast_shapes
from numpy import broadcast_to as broadcast_to
from numpy import byte as byte
from numpy import c_ as c_
from numpy import can_cast as can_cast
from numpy import cdouble as cdouble
from numpy import character as character
from numpy import choose as choose
from numpy import clongdouble as clongdouble
from numpy import column_stack as column_stack
from numpy import common_type as common_type
from numpy import complex128 as complex128
from numpy import complex64 as complex64
from numpy import complexfloating as complexfloating
from numpy import compress as compress
from numpy import concat as concat
from numpy import concatenate as concatenate
from numpy import convolve as convolve
from numpy import copy as copy
from numpy import copyto as copyto
from numpy import corrcoef as corrcoef
from numpy import correlate as correlate
from numpy import count_nonzero as count_nonzero
from numpy import cov as cov
from numpy import cross as cross
from numpy import csingle as csingle
from numpy import cumprod as cumprod
from numpy import cumsum as cumsum
from numpy import cumulative_prod as cumulative_prod
from numpy import cumulative_sum as cumulative_sum
from numpy import delete as delete
from numpy import diag as diag
from numpy import diag_indices as diag_indices
from numpy import diag_indices_from as diag_indices_from
from numpy import diagflat as diagflat
from numpy import diagonal as diagonal
from numpy import diff as diff
from numpy import digitize as digitize
from numpy import dot as dot
from numpy import double as double
from numpy import dsplit as dsplit
from numpy import dstack as dstack
from numpy import dtype as dtype
from numpy import e as e
from numpy import ediff1d as ediff1d
from numpy import einsum_path as einsum_path
from numpy import empty as empty
from numpy import errstate as errstate
from numpy import euler_gamma as euler_gamma
from numpy import expand_dims as expand_dims
from numpy import extract as extract
from numpy import eye as eye
from numpy import finfo as finfo
from numpy import fix as fix
from numpy import flexible as flexible
from numpy import flip as flip
from numpy import fliplr as fliplr
from numpy import flipud as flipud
from numpy import float16 as float16
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import floating as floating
from numpy import format_float_positional as format_float_positional
from numpy import format_float_scientific as format_float_scientific
from numpy import from_dlpack as from_dlpack
from numpy import frombuffer as frombuffer
from numpy import fromfile as fromfile
from numpy import fromiter as fromiter
from numpy import fromstring as fromstring
from numpy import full as full
from numpy import full_like as full_like
from numpy import generic as generic
from numpy import genfromtxt as genfromtxt
from numpy import geomspace as geomspace
from numpy import get_printoptions as get_printoptions
from numpy import geterr as geterr
from numpy import gradient as gradient
from numpy import half as half
from numpy import hamming as hamming
from numpy import hanning as hanning
from numpy import histogram as histogram
from numpy import histogram2d as histogram2d
from numpy import histogram_bin_edges as histogram_bin_edges
from numpy import histogramdd as histogramdd
from numpy import hsplit as hsplit
from numpy import hstack as hstack
from numpy import i0 as i0
from numpy import iinfo as iinfo
from numpy import imag as imag
from numpy import index_exp as index_exp
from numpy import inexact as inexact
from numpy import inf as inf
from numpy import inner as inner
from numpy import insert as insert
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import int8 as int8
from numpy import int_ as int_
from numpy import intc as intc
from numpy import integer as integer
from numpy import interp as interp
from numpy import intp as intp
from numpy import isclose as isclose
from numpy import iscomplex as iscomplex
from numpy import iscomplexobj as iscomplexobj
from numpy import isdtype as isdtype
from numpy import isin as isin
from numpy import isneginf as isneginf
from numpy import isposinf as isposinf
from numpy import isreal as isreal
from numpy import isrealobj as isrealobj
from numpy import isscalar as isscalar
from numpy import issubdtype as issubdtype
from numpy import iterable as iterable
from numpy import ix_ as ix_
from numpy import kaiser as kaiser
from numpy import kron as kron
from numpy import lexsort as lexsort
from numpy import load as load
from numpy import loadtxt as loadtxt
from numpy import logspace as logspace
from numpy import long as long
from numpy import longdouble as longdouble
from numpy import longlong as longlong
from numpy import mask_indices as mask_indices
from numpy import matrix_transpose as matrix_transpose
from numpy import max as max
from numpy import mean as mean
from numpy import median as median
from numpy import meshgrid as meshgrid
from numpy import mgrid as mgrid
from numpy import min as min
from numpy import min_scalar_type as min_scalar_type
from numpy import moveaxis as moveaxis
from numpy import nan as nan
from numpy import nan_to_num as nan_to_num
from numpy import nanargmax as nanargmax
from numpy import nanargmin as nanargmin
from numpy import nancumprod as nancumprod
from numpy import nancumsum as nancumsum
from numpy import nanmax as nanmax
from numpy import nanmean as nanmean
from numpy import nanmedian as nanmedian
from numpy import nanmin as nanmin
from numpy import nanpercentile as nanpercentile
from numpy import nanprod as nanprod
from numpy import nanquantile as nanquantile
from numpy import nanstd as nanstd
from numpy import nansum as nansum
from numpy import nanvar as nanvar
from numpy import ndarray as ndarray
from numpy import ndenumerate as ndenumerate
from numpy import ndim as ndim
from numpy import ndindex as ndindex
from numpy import newaxis as newaxis
from numpy import number as number
from numpy import object_ as object_
from numpy import ogrid as ogrid
from numpy import ones as ones
from numpy import ones_like as ones_like
from numpy import outer as outer
from numpy import packbits as packbits
from numpy import pad as pad
from numpy import partition as partition
from numpy import percentile as percentile
from numpy import permute_dims as permute_dims
from numpy import pi as pi
from numpy import piecewise as piecewise
from numpy import poly as poly
from numpy import polyadd as polyadd
from numpy import polyder as polyder
from numpy import polydiv as polydiv
from numpy import polyfit as polyfit
from numpy import polyint as polyint
from numpy import polymul as polymul
from numpy import polysub as polysub
from numpy import polyval as polyval
from numpy import printoptions as printoptions
from numpy import prod as prod
from numpy import promote_types as promote_types
from numpy import ptp as ptp
from numpy import quantile as quantile
from numpy import r_ as r_
from numpy import ravel as ravel
from numpy import ravel_multi_index as ravel_multi_index
from numpy import real as real
from numpy import real_if_close as real_if_close
from numpy import resize as resize
from numpy import result_type as result_type
from numpy import roll as roll
from numpy import rollaxis as rollaxis
from numpy import roots as roots
from numpy import rot90 as rot90
from numpy import round as round
from numpy import s_ as s_
from numpy import save as save
from numpy import savetxt as savetxt
from numpy import savez as savez
from numpy import savez_compressed as savez_compressed
from numpy import searchsorted as searchsorted
from numpy import select as select
from numpy import set_printoptions as set_printoptions
from numpy import seterr as seterr
from numpy import shape as shape
from numpy import short as short
from numpy import signedinteger as signedinteger
from numpy import sinc as sinc
from numpy import single as single
from numpy import size as size
from numpy import sort_complex as sort_complex
from numpy import split as split
from numpy import squeeze as squeeze
from numpy import stack as stack
from numpy import std as std
from numpy import sum as sum
from numpy import swapaxes as swapaxes
from numpy import take as take
from numpy import take_along_axis as take_along_axis
from numpy import tensordot as tensordot
from numpy import tile as tile
from numpy import trace as trace
from numpy import transpose as transpose
from numpy import trapezoid as trapezoid
from numpy import tril as tril
from numpy import tril_indices as tril_indices
from numpy import tril_indices_from as tril_indices_from
from numpy import trim_zeros as trim_zeros
from numpy import triu as triu
from numpy import triu_indices as triu_indices
from numpy import triu_indices_from as triu_indices_from
from numpy import ubyte as ubyte
from numpy import ufunc as ufunc
from numpy import uint as uint
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64
from numpy import uint8 as uint8
from numpy import uintc as uintc
from numpy import uintp as uintp
from numpy import ulong as ulong
from numpy import ulonglong as ulonglong
from numpy import unpackbits as unpackbits
from numpy import unravel_index as unravel_index
from numpy import unsignedinteger as unsignedinteger
from numpy import unstack as unstack
from numpy import unwrap as unwrap
from numpy import ushort as ushort
from numpy import vander as vander
from numpy import var as var
from numpy import vdot as vdot
from numpy import vectorize as vectorize
from numpy import vsplit as vsplit
from numpy import vstack as vstack
from numpy import zeros as zeros
from numpy import zeros_like as zeros_like
from numpy.exceptions import ComplexWarning as ComplexWarning
from funcad.numpy import array_api as array_api
from funcad.numpy import fft as fft
from funcad.numpy import linalg as linalg
from funcad.numpy.indexing import at as at

@overload
def abs(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def abs(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def absolute(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def absolute(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def acos(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def acos(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def acosh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def acosh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def add(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def arange(
    start: _ArrayLike | None = None, stop: _ArrayLike | None = None, step: _ArrayLike | None = None, dtype: _DTypeLike | None = None, *, device: Any = None, like: Any = None
) -> _Array: ...
@overload
def arccos(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def arccos(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def arccosh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def arccosh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def arcsin(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def arcsin(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def arcsinh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def arcsinh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def arctan(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def arctan(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def arctan2(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def arctanh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def arctanh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def argsort(
    a: _ArrayLike, axis: _Axis | None = -1, kind: str | None = None, order: str | Sequence[str] | None = None, *, stable: _builtins.bool | None = None, descending: _builtins.bool = False
) -> _Array: ...
def argwhere(a: _ArrayLike, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> _Array: ...
def array(
    object: Any, dtype: _DTypeLike | None = None, *, copy: _builtins.bool | None = True, order: str = 'K', subok: _builtins.bool = False, ndmin: int = 0, device: Any = None, like: Any = None
) -> _Array: ...
@overload
def asin(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def asin(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def asinh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def asinh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def atan(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def atan(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def atan2(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def atanh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def atanh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def bincount(
    x: _ArrayLike, /, weights: _ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> _Array: ...
def bitwise_and(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def bitwise_count(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def bitwise_count(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def bitwise_invert(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def bitwise_invert(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def bitwise_left_shift(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def bitwise_not(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def bitwise_not(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def bitwise_or(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def bitwise_right_shift(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def bitwise_xor(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def cbrt(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def cbrt(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def ceil(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def ceil(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def clip(
    a: _ArrayLike, a_min: _ArrayLike | None = None, a_max: _ArrayLike | None = None, out: _Array | None = None, *, min: _ArrayLike | None = None, max: _ArrayLike | None = None, dtype: _DTypeLike | None = None, where: _ArrayLike = True, casting: str = 'same_kind'
) -> Any: ...
@overload
def conj(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def conj(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def conjugate(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def conjugate(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def copysign(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def cos(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def cos(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def cosh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def cosh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def deg2rad(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def deg2rad(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def degrees(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def degrees(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def divide(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def divmod(x1: _ArrayLike, x2: _ArrayLike, /, **options: Any) -> tuple[Any, Any]: ...
def einsum(
    *operands: Any, out: _Array | None = None, dtype: _DTypeLike | None = None, order: str = 'K', casting: str = 'safe', optimize: Any = False
) -> Any: ...
def empty_like(
    a: _ArrayLike, dtype: _DTypeLike | None = None, order: str = 'K', subok: _builtins.bool = True, shape: int | Sequence[int] | None = None, *, device: Any = None
) -> _Array: ...
def equal(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def exp(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def exp(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def exp2(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def exp2(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def expm1(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def expm1(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def fabs(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def fabs(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def fill_diagonal(
    a: _Array, val: _ArrayLike, wrap: _builtins.bool = False, *, inplace: _builtins.bool = True
) -> _Array | None: ...
def flatnonzero(a: _ArrayLike, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> _Array: ...
def float_power(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def floor(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def floor(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def floor_divide(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def fmax(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def fmin(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def fmod(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def frexp(x: _ArrayLike, /, **options: Any) -> tuple[Any, Any]: ...
def fromfunction(
    function: Callable[..., Any], shape: int | Sequence[int] | None, *, dtype: _DTypeLike | None = ..., **kwargs: Any
) -> _Array: ...
def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, **options: Any) -> Any: ...
def gcd(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def greater(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def greater_equal(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def heaviside(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def hypot(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def identity(n: int, dtype: _DTypeLike | None = None, *, device: Any = None, like: Any = None) -> _Array: ...
def indices(
    dimensions: Sequence[int], dtype: _DTypeLike | None = ..., sparse: _builtins.bool = False, *, device: Any = None, like: Any = None
) -> Any: ...
def intersect1d(
    ar1: _ArrayLike, ar2: _ArrayLike, assume_unique: _builtins.bool = False, return_indices: _builtins.bool = False, *, size: int | None = None, fill_value: _ArrayLike | None = None
) -> Any: ...
@overload
def invert(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def invert(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def isfinite(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def isfinite(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def isinf(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def isinf(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def isnan(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def isnan(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def lcm(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def ldexp(x1: _ArrayLike, x2: _ArrayLike, /, **options: Any) -> Any: ...
def left_shift(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def less(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def less_equal(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def linspace(
    start: _ArrayLike, stop: _ArrayLike, num: SupportsIndex = 50, endpoint: _builtins.bool = True, retstep: _builtins.bool = False, dtype: _DTypeLike | None = None, axis: int = 0, *, device: Any = None, like: Any = None
) -> Any: ...
@overload
def log(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def log(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def log10(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def log10(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def log1p(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def log1p(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def log2(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def log2(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def logaddexp(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def logaddexp2(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def logical_and(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def logical_not(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def logical_not(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def logical_or(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def logical_xor(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def matmul(x1: _ArrayLike, x2: _ArrayLike, /, out: _Array | None = None, *, dtype: _DTypeLike | None = None) -> Any: ...
def matvec(x1: _ArrayLike, x2: _ArrayLike, /, out: _Array | None = None, *, dtype: _DTypeLike | None = None) -> Any: ...
def maximum(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def minimum(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def mod(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def modf(x: _ArrayLike, /, **options: Any) -> tuple[Any, Any]: ...
def multiply(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def negative(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def negative(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def nextafter(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def nonzero(a: _ArrayLike, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> tuple[_Array, ...]: ...
def not_equal(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def place(arr: _Array, mask: _ArrayLike, vals: _ArrayLike, *, inplace: _builtins.bool = True) -> _Array | None: ...
@overload
def positive(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def positive(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def pow(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def power(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def put(
    a: _Array, ind: _ArrayLike, v: _ArrayLike, mode: str | None = None, *, inplace: _builtins.bool = True
) -> _Array | None: ...
def put_along_axis(
    arr: _Array, indices: _ArrayLike, values: _ArrayLike, axis: _Axis | None, *, inplace: _builtins.bool = True
) -> _Array | None: ...
def putmask(a: _ArrayLike, mask: _ArrayLike, values: _ArrayLike) -> None: ...
@overload
def rad2deg(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def rad2deg(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def radians(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def radians(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def reciprocal(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def reciprocal(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def remainder(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def repeat(
    a: _ArrayLike, repeats: _ArrayLike, axis: _Axis | None = None, *, total_repeat_length: int | None = None
) -> _Array: ...
def reshape(
    a: _ArrayLike, /, shape: int | Sequence[int] | None = None, order: str = 'C', *, newshape: int | Sequence[int] | None = None, copy: _builtins.bool | None = None
) -> _Array: ...
def right_shift(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def rint(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def rint(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def setdiff1d(
    ar1: _ArrayLike, ar2: _ArrayLike, assume_unique: _builtins.bool = False, *, size: int | None = None, fill_value: _ArrayLike | None = None
) -> _Array: ...
def setxor1d(
    ar1: _ArrayLike, ar2: _ArrayLike, assume_unique: _builtins.bool = False, *, size: int | None = None, fill_value: _ArrayLike | None = None
) -> _Array: ...
@overload
def sign(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def sign(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def signbit(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def signbit(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def sin(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def sin(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def sinh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def sinh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def sort(
    a: _ArrayLike, axis: _Axis | None = -1, kind: str | None = None, order: str | Sequence[str] | None = None, *, stable: _builtins.bool | None = None, descending: _builtins.bool = False
) -> _Array: ...
@overload
def spacing(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def spacing(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def sqrt(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def sqrt(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def square(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def square(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def subtract(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def tan(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def tan(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def tanh(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def tanh(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def tri(
    N: int, M: int | None = None, k: int = 0, dtype: _DTypeLike | None = None, *, device: Any = None, like: Any = None
) -> _Array: ...
def true_divide(x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
@overload
def trunc(x: _np.ndarray[_Shape, Any], *, dtype: _DTypeLike | None = None) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...
@overload
def trunc(x: _ArrayLike, *, dtype: _DTypeLike | None = None) -> Any: ...
def union1d(ar1: _ArrayLike, ar2: _ArrayLike, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> _Array: ...
def unique(
    ar: _ArrayLike, return_index: _builtins.bool = False, return_inverse: _builtins.bool = False, return_counts: _builtins.bool = False, axis: _Axis | None = None, *, equal_nan: _builtins.bool = True, size: int | None = None, fill_value: _ArrayLike | None = None, **options: Any
) -> Any: ...
def unique_all(x: _ArrayLike, /, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> Any: ...
def unique_counts(x: _ArrayLike, /, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> Any: ...
def unique_inverse(x: _ArrayLike, /, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> Any: ...
def unique_values(x: _ArrayLike, /, *, size: int | None = None, fill_value: _ArrayLike | None = None) -> _Array: ...
def vecdot(
    x1: _ArrayLike, x2: _ArrayLike, /, out: _Array | None = None, *, axis: int = -1, dtype: _DTypeLike | None = None
) -> Any: ...
def vecmat(x1: _ArrayLike, x2: _ArrayLike, /, out: _Array | None = None, *, dtype: _DTypeLike | None = None) -> Any: ...
def where(
    condition: _ArrayLike, x: _ArrayLike | None = None, y: _ArrayLike | None = None, /, *, size: int | None = None, fill_value: _ArrayLike | None = None
) -> Any: ...

"""Types that values really have, and how NumPy lays out its results.

A traced value answers `isinstance` as what it stands for, by its `__class__`. Two answers come from elsewhere: `hasattr` and
`collections.abc` look for methods in the class, where a traced number must have no length and be no iterable because traced
arrays are. So `Length` is there for arrays only, and `Unseen` keeps the methods from collections.abc.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from funcad.memo import remembers, table

if TYPE_CHECKING:
    from typing_extensions import TypeIs


_Kind = TypeVar("_Kind")


def is_a(x: Any, kinds: type[_Kind] | tuple[type[_Kind], ...]) -> TypeIs[_Kind]:
    """`isinstance` by the type that x really has.

    A traced value answers `isinstance` as the array or number that it stands for, so funcad itself asks here. What tells
    containers, strings and its own classes apart may go on using `isinstance`: no traced value stands for one of these.
    """
    return issubclass(type(x), kinds)


def ufunc_behind(function: Any) -> Any:
    """The ufunc of a function that SciPy puts before it with SCIPY_ARRAY_API=1; other functions are left alone."""
    inner = getattr(function, "__wrapped__", None)
    return inner if type(inner) is np.ufunc else function


NUMPY = tuple(map(int, np.__version__.split(".")[:2]))  # the version that is installed, whose answers are given
_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}


def kind_of(aval: Any, array: type) -> type:
    """The type of the values that an aval stands for: `array`, or what NumPy and Python have for one number."""
    if aval.shape or array is not np.ndarray:  # other libraries have no scalars: their numbers are arrays of rank 0
        return array
    return _PYTHON[aval.dtype.kind] if aval.weak else aval.dtype.type


class _Unsized(TypeError, AttributeError):
    """What `len(x)` of a number raises, a TypeError, and what makes `hasattr(x, "__len__")` false."""


class Length:
    """`__len__` of traced values that stand for what has one: arrays, not numbers."""

    def __get__(self, x: Any, owner: Any = None) -> Any:
        if x is None or hasattr(x.__class__, "__len__"):
            return _length if x is None else types.MethodType(_length, x)
        raise _Unsized(f"object of type {x.__class__.__name__!r} has no len()")


def _length(x: Any) -> int:
    shape = x.aval.shape
    if not shape:
        raise TypeError("len() of unsized object")
    return shape[0]


class Unseen(type):
    """The type of `Tracer`, which tells collections.abc nothing of its methods.

    `isinstance(x, Iterable)` looks for `__iter__` in the classes of `type(x).__mro__` beside `x.__class__`: a traced number
    must not be iterable because traced arrays are.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return ()


# -- how NumPy lays out its results: memory order as a fact that primitives derive from that of their operands
#
# Idea: a layout is an array of the right shape, dtype and strides *with nothing behind it*: its views are NumPy's own views,
# and nobody reads or writes it. A primitive's `layout(*layouts, **params)` gives what NumPy would give for these operands; None
# stands for a literal among them. The rules below are those of NumPy's iterator for order="K". Trap: a view keeps strides,
# which may be negative, zero or those of a slice; a new array has none of these, so the two are not the same fact.


def contiguous(shape: tuple[int, ...], dtype: Any, axes: Sequence[int] | None = None) -> np.ndarray:
    """The layout of a new array; `axes` from the outermost in memory to the innermost, by default C's."""
    return _contiguous(shape, np.dtype(dtype), None if axes is None or len(shape) < 2 else tuple(axes))


@remembers(256, lambda a, b: (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype))  # its memory is not there
def _contiguous(shape: tuple[int, ...], dtype: np.dtype, axes: tuple[int, ...] | None) -> np.ndarray:
    """Shape, dtype and axes of a new array: its layout."""
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(range(len(shape)) if axes is None else axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return strided(np.empty((), dtype), shape, strides)


def memory_axes(layouts: Sequence[np.ndarray]) -> list[int]:
    """The axes from the outermost in memory to the innermost, as NumPy's iterator finds them for operands of one shape.

    Of two axes the one with the longer stride is outside, if all operands agree; else they stay in C's order.
    """
    ndim = layouts[0].ndim
    if ndim < 2:
        return [0] * ndim
    strides = [[abs(s) if n > 1 else 0 for s, n in zip(x.strides, x.shape)] for x in layouts]
    axes = list(range(ndim))[::-1]  # from the innermost: an insertion sort
    for start in range(1, ndim):
        axis, place = axes[start], start
        for i in reversed(range(start)):
            pairs = [(s[axis], s[axes[i]]) for s in strides if s[axis] and s[axes[i]]]
            if pairs:
                if any([other <= own for own, other in pairs]):
                    break
                place = i
        axes.insert(place, axes.pop(start))
    return axes[::-1]


def keep(*layouts: Any, **params: Any) -> Any:
    """Of an operation element by element: a new array in the order that the operands have (order="K")."""
    shaped = [x for x in layouts if x is not None]
    shape = np.broadcast_shapes(*[x.shape for x in shaped])  # a number of a lane, and an array
    wide = [np.broadcast_to(x, shape) for x in shaped]
    return contiguous(shape, wide[0].dtype, memory_axes(wide)) if wide else None


def of_copy(layout: Any, **params: Any) -> Any:
    """Of a conversion, or of a copy in order="K": here an axis of equal elements lies inside of the others."""
    if layout is None:
        return None
    axes = sorted(range(layout.ndim), key=lambda i: -abs(layout.strides[i]) if layout.shape[i] > 1 else 0)
    return contiguous(layout.shape, layout.dtype, axes)


def same(layout: Any, **params: Any) -> Any:
    """Of an operation that hands its operand on."""
    return layout


def of_reduction(layout: np.ndarray, *, axes: tuple[int, ...], **params: Any) -> np.ndarray:
    if not axes:
        return layout
    left = [i for i in range(layout.ndim) if i not in axes]
    kept = [left.index(i) for i in memory_axes([layout]) if i in left]
    return contiguous(tuple([layout.shape[i] for i in left]), layout.dtype, kept)


def of_reshape(layout: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """A view where NumPy gives one, else a new array."""
    found = view_of_reshape(layout, shape)
    return contiguous(shape, layout.dtype) if found is None else found


def view_of_reshape(layout: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The view, None if NumPy would have to copy. Whether memory is shared cannot be asked: there is none behind a layout."""
    try:
        return np.reshape(layout, shape, copy=False)
    except (AttributeError, ValueError):  # it would have to copy
        return None


def native_dtype(dtype: Any) -> np.dtype:
    """A dtype that the user names, in the machine's byte order: what is made by us has no other."""
    found = np.dtype(dtype)
    return found if found.isnative else found.newbyteorder("=")


def ordinary(values: Any) -> Any:
    """Arrays as programs compute with them: of NumPy's own class (no memmap, say), in the machine's byte order.

    Avals tell neither apart. So what is traced is made ordinary where it enters: else it would depend on the engine, and on
    the operations, whether a result is in the other byte order. The list itself, if there is nothing to do.
    """
    for x in values:
        if not x.dtype.isnative if type(x) is np.ndarray else issubclass(type(x), np.ndarray):
            return [np.asarray(v, native_dtype(v.dtype)) if is_a(v, np.ndarray) else v for v in values]
    return values


COMPUTED = frozenset([np.ndarray, np.float64, np.float32, np.complex128])
_SUMMED = frozenset("fdFD")  # BLAS sums their squares


def without_nan(value: Any) -> bool:
    """Is a number or an array known to have no NaN? A sum of squares has no other way to one; of complex numbers it may say
    so without need."""
    if type(value) not in COMPUTED:
        return False
    if type(value) is not np.ndarray or value.dtype.char not in _SUMMED:
        return not np.isnan(value).any()
    total = np.vdot(value, value)
    return bool(total == total)


# -- what a dtype is: the one place that knows the narrow floats of ml_dtypes (bfloat16, float8_e4m3fn, float8_e5m2 and others)
#
# To NumPy most of these are records ("V"), so `dtype.kind` says nothing of them, and their ufuncs exist for operands of that
# one dtype alone. Idea: `dtype_kind` answers for them "f", as for all floats; and operations on them are computed in float32
# and rounded once (`impl_of`), but for those that only move elements. So do the ufuncs of ml_dtypes, whose bits these are;
# sums, products and composite formulas are rounded once here, and after each step there. ml_dtypes is imported where somebody
# asks for one of its names. `NARROW` is empty until the first is met, so everybody else pays for one look at it.
#
# Invariant: programs on narrow floats run equation by equation (`backends/engines.py`), since generated text and native code
# write Python's operators, where a narrow float beside a Python number becomes a float32.


KINDS = "biufc"  # of the dtypes that funcad computes with
NUMBERS = frozenset([np.dtype(c).num for c in "?bhilqBHILQefdgFDG"])  # the numbers of NumPy's own
FLOAT32 = np.dtype(np.float32)
NARROW = table("host.narrow floats", "type of numbers of ml_dtypes: its dtype", 64)
HALVES = table("host.halves", "dtype of 64 bits: that of 32 for which programs for JAX ask, while they do", 8)
seen: list[Callable[[np.dtype], None]] = []  # what is told of each of these


def is_narrow(dtype: np.dtype) -> bool:
    """Is it a float of ml_dtypes? Not float8_e8m0fnu, which has neither a sign nor a zero, nor its integers."""
    kind = dtype.type
    if kind in NARROW:
        return True
    if dtype.num < 256 or kind.__module__ != "ml_dtypes" or "float" not in dtype.name or "e8m0" in dtype.name:
        return False
    NARROW[kind] = dtype
    for tell in seen:
        tell(dtype)
    return True


def dtype_kind(dtype: np.dtype) -> str:
    """`dtype.kind`, which is "f" of narrow floats."""
    return dtype.kind if dtype.num < 256 else "f" if is_narrow(dtype) else "V"


def library(wanted: str) -> Any:
    """ml_dtypes, of which somebody wants this name."""
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        text = f"{wanted} is a type of the package ml_dtypes, which is not installed.\nRemedy: pip install ml_dtypes."
        raise AttributeError(text) from None
    return ml_dtypes


def finfo(dtype: Any) -> Any:
    """`np.finfo`, of narrow floats that of ml_dtypes."""
    own = getattr(dtype, "dtype", None)
    found = own if isinstance(own, np.dtype) else np.dtype(dtype)
    return library("finfo").finfo(found) if is_narrow(found) else np.finfo(found)


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype in which means are taken: float32 of float16, as NumPy has it, and of narrow floats."""
    return FLOAT32 if dtype == np.float16 or is_narrow(dtype) else dtype


def strided(x: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """`as_strided`, which asks for dtypes by texts that NumPy does not know of all narrow ones."""
    as_strided = np.lib.stride_tricks.as_strided
    if x.dtype.num < 256:
        return as_strided(x, shape, strides)
    return as_strided(x.view(f"u{x.itemsize}"), shape, strides).view(x.dtype)


def narrow_among(values: Sequence[Any]) -> np.dtype | None:
    """The narrow dtype of one of these arrays, numbers or avals."""
    for x in values:
        dtype = getattr(x, "dtype", None)
        if dtype is not None and dtype.num > 255 and is_narrow(dtype):
            return dtype
    return None


def impl_of(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Callable[..., Any]:
    """`impl(xp, *operands, **params)` of an operation on these arrays and numbers, or on what has these avals."""
    dtype = narrow_among(operands) if NARROW else None
    if dtype is None or primitive.primal_and_jvp is not None or primitive.linearize is not None or primitive.effect:
        return primitive.impl
    as_it_is = primitive.silent or primitive.name in _NEIGHBOURS or "dtype" in params
    return partial(_moved if as_it_is else _rounded, primitive.impl, dtype)


_NEIGHBOURS = ("nextafter", "spacing")  # which are others in float32


def _moved(impl: Any, narrow: np.dtype, xp: Any, /, *operands: Any, **params: Any) -> Any:
    return impl(xp, *[narrow.type(x) if type(x) is float else x for x in operands], **params)


def _rounded(impl: Any, narrow: np.dtype, xp: Any, /, *operands: Any, **params: Any) -> Any:
    dtypes = {x.dtype for x in operands if hasattr(x, "dtype") and dtype_kind(x.dtype) == "f"}
    out = impl(xp, *[x.astype(FLOAT32) if getattr(x, "dtype", None) == narrow else x for x in operands], **params)
    if len(dtypes) > 1:  # the result is wide, too
        return out
    if type(out) in (list, tuple):
        return [_narrowed(x, narrow) for x in out]
    return _narrowed(out, narrow)


def _narrowed(x: Any, dtype: np.dtype) -> Any:
    return x.astype(dtype) if getattr(x, "dtype", None) == FLOAT32 else x

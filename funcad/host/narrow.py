"""What a dtype is: the one place that knows the narrow floats of ml_dtypes (bfloat16, float8_e4m3fn, float8_e5m2 and others).

To NumPy most of these are records ("V"), so `dtype.kind` says nothing of them, and their ufuncs exist for operands of that
one dtype alone. Idea: `dtype_kind` answers for them "f", as for all floats; and operations on them are computed in float32 and
rounded once (`impl_of`), but for those that only move elements. So do the ufuncs of ml_dtypes, whose bits these are; sums,
products and composite formulas are rounded once here, and after each step there. ml_dtypes is imported
where somebody asks for one of its names. `NARROW` is empty until the first is met, so everybody else pays for one look at it.

Invariant: programs on narrow floats run equation by equation (`backends/engines.py`), since generated text and native code
write Python's operators, where a narrow float beside a Python number becomes a float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.memo import table

KINDS = "biufc"  # of the dtypes that funcad computes with
NUMBERS = frozenset([np.dtype(c).num for c in "?bhilqBHILQefdgFDG"])  # the numbers of NumPy's own
FLOAT32 = np.dtype(np.float32)
NARROW = table("host.narrow.NARROW", "type of numbers of ml_dtypes: its dtype", 64)
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

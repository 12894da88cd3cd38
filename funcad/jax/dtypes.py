"""`jax.dtypes`: the functions of dtypes, NumPy's; keys are plain arrays of uint32 here, so that no dtype is `prng_key`.

>>> canonicalize_dtype(float), issubdtype(np.float32, prng_key)
(dtype('float64'), False)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.api.border import float0 as float0
from funcad.host.real_types import dtype_kind, is_narrow, library
from funcad.host.real_types import finfo as finfo
from funcad.jax.jax_arrays import halved
from funcad.numpy import result_type as result_type

__all__ = [
    "canonicalize_dtype",
    "finfo",
    "float0",
    "issubdtype",
    "prng_key",
    "promote_types",
    "result_type",
]


def promote_types(a: Any, b: Any) -> np.dtype:
    """`numpy.promote_types`; bfloat16 and float16, of which NumPy knows nothing common, are float32 together.

    >>> promote_types("float32", int)
    dtype('float64')
    """
    first, second = np.dtype(a), np.dtype(b)
    if first != second and first.itemsize == second.itemsize == 2 and dtype_kind(first) == dtype_kind(second) == "f":
        return np.dtype(np.float32)
    return np.promote_types(first, second)


class extended(np.generic):
    """Stands for JAX's dtypes beyond NumPy's, of which funcad has none."""


class prng_key(extended):
    """Stands for the dtype of JAX's new-style keys, which no array of funcad has."""


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype:
    """The dtype itself: 64 bits are 64 bits, but with `jax_enable_x64` off.

    >>> canonicalize_dtype("int64")
    dtype('int64')
    """
    return halved(np.dtype(dtype))  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if name == "bfloat16" or name.startswith(("float8_", "int4", "uint4")):
        return getattr(library(f"jax.dtypes.{name}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """`numpy.issubdtype`; nothing is a `prng_key`, and bfloat16 and float8 are floating.

    >>> issubdtype(np.float32, np.floating)
    True
    """
    own = getattr(arg1, "dtype", None)
    own = own if isinstance(own, np.dtype) else np.dtype(arg1) if isinstance(arg1, str) else arg1
    kind = own.type if isinstance(own, np.dtype) else own
    narrow = isinstance(kind, type) and kind.__module__ == "ml_dtypes" and is_narrow(np.dtype(kind))
    return np.issubdtype(own, arg2) or narrow and isinstance(arg2, type) and issubclass(np.floating, arg2)

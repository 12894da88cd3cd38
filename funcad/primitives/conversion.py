"""Conversion between dtypes, and stop_gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval, aval_of, is_inexact
from funcad.ir.primitive import Primitive


def _convert_impl(xp: Any, x: Any, *, dtype: np.dtype) -> Any:
    if getattr(x, "dtype", None) == dtype:
        return x
    if dtype.kind != "c" and (type(x) is complex or getattr(x, "dtype", dtype).kind == "c"):
        x = x.real if dtype.kind != "b" else x != 0
    return x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)


def _convert_jvp(tangents: Any, out: Any, x: Any, *, dtype: np.dtype) -> Any:
    return convert(tangents[0], dtype) if dtype.kind in "fc" else None


def _convert_transpose(ct: Any, x: Any, *, dtype: np.dtype) -> list:
    return [convert(ct, x.aval.dtype)]


def _convert_batch(size: int, args: Any, batched: Any, *, dtype: np.dtype) -> tuple[Any, bool]:
    return convert_p(args[0], dtype=dtype), True


convert_p = Primitive(
    "convert",
    _convert_impl,
    lambda x, *, dtype: Aval(x.shape, dtype),
    jvp=_convert_jvp,
    transpose=_convert_transpose,
    batch=_convert_batch,
    emit=lambda e, x, *, dtype: e.convert(x, dtype),
)


def convert(x: Any, dtype: np.dtype) -> Any:
    """x in another dtype, strong; complex to real takes the real part. A no-op when nothing changes."""
    aval = aval_of(x)
    if aval.dtype == dtype and not aval.weak:
        return x
    return convert_p(x, dtype=dtype)


stop_gradient_p = Primitive(
    "stop_gradient",
    lambda xp, x: x,
    lambda x: Aval(x.shape, x.dtype, x.weak),
    jvp=lambda tangents, out, x: None,
    batch=lambda size, args, batched: (stop_gradient_p(args[0]), True),
)


def instantiate(tangent: Any, aval: Any, zeros: Any) -> Any:
    return zeros(aval) if tangent is None and is_inexact(aval) else tangent

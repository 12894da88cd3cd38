"""Conversions between all dtypes, as `ndarray.astype` does them on this machine.

Trap: a float out of the integer's range (or NaN) has no value in C, and NumPy gives what the processor gives. On x86 that is
the least integer of the 32 or 64 bits in which the conversion is done, cut to the result's width; on ARM the nearest integer
of those bits, 0 for NaN. LLVM's own instruction is undefined there, so such lanes are chosen apart. (For uint32, NumPy's
vector loop and its scalar loop differ out of range; here it is what the scalar loop does.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.backends.native.lane_types import Lane, element_of
from funcad.backends.plans.element_writer import part_of

_INT32, _INT64, _UINT32, _UINT64 = (np.dtype(t) for t in ("i4", "i8", "u4", "u8"))


def _cast(e: Any, op: str, source: np.dtype, target: np.dtype, name: str) -> str:
    return e.put(f"{op} {e.register(source)} {name} to {e.register(target)}")


def convert(e: Any, a: Lane, dtype: np.dtype) -> Lane:
    """The lane in another dtype; complex to real takes the real part, anything to bool asks whether it is not 0."""
    dtype = np.dtype(dtype)
    source = a.dtype
    element_of(dtype)  # refuses what has no native code
    if source == dtype:
        return a
    if dtype.kind == "b":
        return e.ne(a, e.like(a, 0))  # type: ignore[no-any-return]
    if dtype.kind == "c":
        part = part_of(dtype)
        if source.kind == "c":
            return Lane(dtype, tuple([convert(e, Lane(part_of(source), (p,)), part).name for p in a.parts]))
        return Lane(dtype, (convert(e, a, part).name, e.number(part, 0.0)))
    if source.kind == "c":
        return convert(e, Lane(part_of(source), (a.parts[0],)), dtype)
    if dtype.kind == "f":
        if source.kind == "f":
            op = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
        else:
            op = "sitofp" if source.kind == "i" else "uitofp"
        return Lane(dtype, (_cast(e, op, source, dtype, a.name),))
    if source.kind == "f":
        return Lane(dtype, (_from_float(e, a, dtype),))
    if dtype.itemsize == source.itemsize and source.kind != "b":
        return Lane(dtype, a.parts)  # the same bits
    if dtype.itemsize < source.itemsize:
        return Lane(dtype, (_cast(e, "trunc", source, dtype, a.name),))
    return Lane(dtype, (_cast(e, "sext" if source.kind == "i" else "zext", source, dtype, a.name),))


def _from_float(e: Any, a: Lane, dtype: np.dtype) -> str:
    """A float cut to an integer, by way of the integer in which the processor converts."""
    if e.x86:
        if dtype == _UINT64:
            return _to_uint64(e, a)
        middle = _INT64 if dtype in (_INT64, _UINT32) else _INT32
        out = _cut(e, a, middle)
    else:
        middle = dtype if dtype.itemsize >= 4 else _INT32 if dtype.kind == "i" else _UINT32
        op = "fptosi" if middle.kind == "i" else "fptoui"
        source, target = e.register(a.dtype), e.register(middle)
        names = e.suffix(element_of(middle)), e.suffix(element_of(a.dtype))
        out = e.function.intrinsic(f"llvm.{op}.sat.{names[0]}.{names[1]}", target, (source, a.name))
    return out if middle.itemsize == dtype.itemsize else _cast(e, "trunc", middle, dtype, out)


def _cut(e: Any, a: Lane, target: np.dtype) -> str:
    """To a signed integer as x86 does: the least one where it does not fit, for NaN too."""
    source = a.dtype
    limit = 2.0 ** (8 * target.itemsize - 1)
    least = np.iinfo(target).min
    below = e.op("fcmp olt", source, a.name, e.number(source, limit))
    if float(source.type(-limit - 1)) < -limit:  # the float has numbers between that still cut to the least integer
        above = e.op("fcmp ogt", source, a.name, e.number(source, -limit - 1))
    else:
        above = e.op("fcmp oge", source, a.name, e.number(source, -limit))
    cut = _cast(e, "fptosi", source, target, a.name)
    return e.choose(target, e.logic("and", below, above), cut, e.number(target, least))


def _to_uint64(e: Any, a: Lane) -> str:
    """Below 2**63 as a signed integer; from there on what exceeds 2**63, with the highest bit turned over."""
    source = a.dtype
    limit = e.number(source, 2.0**63)
    small = _cut(e, a, _INT64)
    large = _cut(e, Lane(source, (e.op("fsub", source, a.name, limit),)), _INT64)
    large = e.op("xor", _INT64, large, e.number(_INT64, -(2**63)))
    return e.choose(_INT64, e.op("fcmp oge", source, a.name, limit), large, small)

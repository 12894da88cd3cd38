"""Conversions and bit patterns, with the names of `jax.lax`."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import native_dtype
from funcad.ir.aval import aval_of, dtype_of, said, shape_of
from funcad.lax.shapes import INTEGER, REAL_FLOAT, operands
from funcad.primitives import arithmetic, comparison, conversion
from funcad.primitives.shape import broadcast_in_dim, reshape, slice_p


def _one(name: str, kinds: str, x: Any) -> Any:
    return operands(name, kinds, x)[0]


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """x >> y, filling with the sign of x."""
    x, y = operands("shift_right_arithmetic", INTEGER, x, y)
    if dtype_of(x).kind == "i":
        return comparison.shift_right(x, y)
    return _as_bits(x, "i", lambda bits: comparison.shift_right(bits, _reinterpret(y, "i")))


def shift_right_logical(x: Any, y: Any) -> Any:
    """x >> y, filling with zeros."""
    x, y = operands("shift_right_logical", INTEGER, x, y)
    if dtype_of(x).kind == "u":
        return comparison.shift_right(x, y)
    return _as_bits(x, "u", lambda bits: comparison.shift_right(bits, _reinterpret(y, "u")))


def _reinterpret(x: Any, kind: str) -> Any:
    return conversion.bitcast(x, np.dtype(f"{kind}{dtype_of(x).itemsize}"))


def _as_bits(x: Any, kind: str, f: Any) -> Any:
    """f of x read as integers of another kind, read back."""
    return conversion.bitcast(f(_reinterpret(x, kind)), dtype_of(x))


def _bit_count(bits: Any) -> Any:
    """The number of set bits of unsigned integers, by adding neighbours in ever wider fields."""
    dtype = dtype_of(bits)
    width = 8 * dtype.itemsize
    shift = 1
    while shift < width:
        mask = sum([((1 << shift) - 1) << i for i in range(0, width, 2 * shift)])
        low, high = dtype.type(mask), dtype.type(shift)
        bits = arithmetic.add(comparison.and_(bits, low), comparison.and_(comparison.shift_right(bits, high), low))
        shift *= 2
    return bits


def population_count(x: Any) -> Any:
    """The number of bits of an integer that are set."""
    return _as_bits(_one("population_count", INTEGER, x), "u", _bit_count)


def _leading_zeros(bits: Any) -> Any:
    dtype = dtype_of(bits)
    width, shift = 8 * dtype.itemsize, 1
    while shift < width:  # every bit below the highest one is set
        bits = comparison.or_(bits, comparison.shift_right(bits, dtype.type(shift)))
        shift *= 2
    return arithmetic.sub(dtype.type(width), _bit_count(bits))


def clz(x: Any) -> Any:
    """The number of zero bits above the highest one that is set."""
    return _as_bits(_one("clz", INTEGER, x), "u", _leading_zeros)


def _high_product(x: Any, y: Any) -> Any:
    """The upper 64 bits of the product of uint64 numbers, from the products of their halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    shift, both, mul, add = comparison.shift_right, comparison.and_, arithmetic.mul, arithmetic.add
    xh, xl, yh, yl = shift(x, half), both(x, mask), shift(y, half), both(y, mask)
    left, right = mul(xh, yl), mul(xl, yh)
    middle = add(add(shift(mul(xl, yl), half), both(left, mask)), both(right, mask))
    return add(add(mul(xh, yh), shift(middle, half)), add(shift(left, half), shift(right, half)))


def mulhi(x: Any, y: Any) -> Any:
    """The upper half of the bits of the product of integers.

    >>> mulhi(np.uint8(200), np.uint8(100))
    np.uint8(78)
    """
    x, y = operands("mulhi", INTEGER, x, y)
    own = dtype_of(x)
    bits = 8 * own.itemsize
    if bits < 64:
        wide = np.dtype(f"{own.kind}{2 * own.itemsize}")
        product = arithmetic.mul(conversion.convert(x, wide), conversion.convert(y, wide))
        return conversion.convert(comparison.shift_right(product, wide.type(bits)), own)
    if own.kind == "u":
        return _high_product(x, y)
    high = conversion.bitcast(_high_product(_reinterpret(x, "u"), _reinterpret(y, "u")), own)
    sign = own.type(bits - 1)  # a negative number is read as 2**64 more than it is
    high = arithmetic.sub(high, comparison.and_(comparison.shift_right(x, sign), y))
    return arithmetic.sub(high, comparison.and_(comparison.shift_right(y, sign), x))


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """operand in another dtype; complex to real takes the real part.

    >>> convert_element_type(np.array([1.5, -2.5]), int)
    array([ 1, -2])
    """
    return conversion.convert(operand, np.dtype(new_dtype))


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of operand read as another dtype; a narrower one adds a last axis, a wider one takes the last axis away.

    >>> bitcast_convert_type(np.float32(1.0), np.uint32)
    np.uint32(1065353216)
    """
    dtype, own = native_dtype(new_dtype), dtype_of(operand)
    if aval_of(operand).weak:
        operand = conversion.convert(operand, own)
    if dtype.itemsize == own.itemsize:
        return conversion.bitcast(operand, dtype)
    return _resized_bits(operand, own, dtype)


def _resized_bits(x: Any, own: np.dtype, dtype: np.dtype) -> Any:
    shape, word = shape_of(x), np.dtype(f"u{min(own.itemsize, dtype.itemsize)}")
    ratio = max(own.itemsize, dtype.itemsize) // word.itemsize
    wide = np.dtype(f"u{word.itemsize * ratio}")
    if own.itemsize > dtype.itemsize:  # the words of each number, lowest first
        bits = conversion.bitcast(x, wide)
        bits = broadcast_in_dim(bits, shape=(*shape, ratio), axes=tuple(range(len(shape))))
        shifts = np.arange(ratio, dtype=wide) * wide.type(8 * word.itemsize)
        shifts = broadcast_in_dim(shifts, shape=(*shape, ratio), axes=(len(shape),))
        return conversion.bitcast(conversion.convert(comparison.shift_right(bits, shifts), word), dtype)
    if not shape or shape[-1] != ratio:
        raise TypeError(f"lax.bitcast_convert_type: {said(x)} needs a last axis of size {ratio} to become {dtype}")
    bits = conversion.convert(conversion.bitcast(x, word), wide)
    total = None
    for i in range(ratio):
        part = reshape(_last(bits, i), shape=shape[:-1])
        part = comparison.shift_left(part, wide.type(8 * word.itemsize * i))
        total = part if total is None else comparison.or_(total, part)
    return conversion.bitcast(total, dtype)


def _last(x: Any, i: int) -> Any:
    shape = shape_of(x)
    start, limit = (*[0] * (len(shape) - 1), i), (*shape[:-1], i + 1)
    return slice_p(x, start=start, limit=limit, strides=None)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """operand rounded to a format with fewer bits, in its own dtype."""
    x = _one("reduce_precision", REAL_FLOAT, operand)
    return conversion.reduce_precision(x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)

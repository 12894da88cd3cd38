"""Functions that few programs call: of whole numbers and bit patterns, NumPy's Bessel function, and texts of arrays.

Loaded at its first use: `import funcad` does not pay for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.value_reads import plain_value, shown_value
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import elementwise_ufunc, implements
from funcad.numpy.promote import array_of, arrays, axis_of, ravelled
from funcad.primitives import arithmetic, special
from funcad.primitives.conversion import convert
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import move_axis, pad_p, reshape, static_slice

gcd = elementwise_ufunc("gcd", arithmetic.gcd, "iu")
lcm = elementwise_ufunc("lcm", arithmetic.lcm, "iu")
bitwise_count = elementwise_ufunc("bitwise_count", arithmetic.bit_count, "iu")
spacing = elementwise_ufunc("spacing", arithmetic.spacing, "f")

_BYTE = np.dtype(np.uint8)


def _bytes(a: Any, axis: Any, name: str, kinds: str) -> tuple[Any, int]:
    """The argument with the axis in question last, and that axis."""
    x = array_of(a)
    if aval_of(x).dtype.kind not in kinds or "b" not in kinds and aval_of(x).dtype != _BYTE:
        expected = "an input array of unsigned byte" if name == "unpackbits" else "an input array of integer or boolean"
        raise TypeError(f"Expected {expected} data type")
    if axis is None:
        x, axis = ravelled(x), 0
    x = reshape(x, shape=(1,)) if not shape_of(x) else x
    axis = axis_of(axis, len(shape_of(x)))
    return move_axis(x, axis, len(shape_of(x)) - 1), axis


def _weights(bitorder: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ValueError("'bitorder' must be either 'little' or 'big'")
    weights = np.left_shift(np.uint8(1), np.arange(8, dtype=np.uint8))
    return weights if bitorder == "little" else weights[::-1].copy()


@implements("packbits")
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    x, axis = _bytes(a, axis, "packbits", "biu")
    *outer, n = shape_of(x)
    bits = convert(np.not_equal(x, 0), _BYTE)
    size = -(-n // 8)
    if 8 * size > n:
        bits = pad_p(
            bits, low=(0,) * (len(outer) + 1), high=(*[0] * len(outer), 8 * size - n), interior=(0,) * (len(outer) + 1)
        )
    bits = reshape(bits, shape=(*outer, size, 8))
    packed = reduce_sum(np.multiply(bits, _weights(bitorder)), axes=(len(outer) + 1,))
    return move_axis(packed, len(outer), axis)


@implements("unpackbits")
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    x, axis = _bytes(a, axis, "unpackbits", "u")
    *outer, n = shape_of(x)
    bits = np.bitwise_and(reshape(x, shape=(*outer, n, 1)), _weights(bitorder))
    bits = reshape(convert(np.not_equal(bits, 0), _BYTE), shape=(*outer, 8 * n))
    if count is not None:
        size = count if count >= 0 else 8 * n + count
        if size < 0:
            raise ValueError("-ve count must not be larger than the number of bits")
        if size <= 8 * n:
            bits = static_slice(bits, 0, size, len(outer))
        else:
            zero = (0,) * (len(outer) + 1)
            bits = pad_p(bits, low=zero, high=(*zero[1:], size - 8 * n), interior=zero)
    return move_axis(bits, len(outer), axis)


# -- NumPy's Bessel function


@implements("i0")
@arrays
def i0(x: Any) -> Any:
    x = array_of(x)
    kind = aval_of(x).dtype.kind
    if kind == "c":
        raise TypeError("i0 not supported for complex values")
    return special.i0(x if kind == "f" else convert(x, np.dtype(float)))


# -- texts


def _text(name: str) -> Callable[..., str]:
    def text(a: Any, *args: Any, **kwargs: Any) -> str:
        value = shown_value(a)
        return getattr(np, name)(plain_value(a, "array") if type(value) is Tracer else value, *args, **kwargs)  # type: ignore[no-any-return]

    text.__signature__ = inspect.signature(getattr(np, name))  # type: ignore[attr-defined]
    return implements(name)(text)


array2string, array_repr, array_str = map(_text, ("array2string", "array_repr", "array_str"))

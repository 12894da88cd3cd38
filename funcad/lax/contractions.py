"""Products of matrices and convolutions, with the names and arguments of `jax.lax`.

`precision` may be given everywhere and changes nothing: NumPy and CuPy compute with the full precision of the operands.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.lax.lax_operands import ANY, equal_dtypes
from funcad.primitives import contraction, convolution
from funcad.primitives.contraction import permute
from funcad.primitives.convolution import ConvDimensionNumbers as ConvDimensionNumbers
from funcad.primitives.convolution import conv_dimension_numbers as conv_dimension_numbers
from funcad.primitives.convolution import conv_general_dilated as conv_general_dilated
from funcad.primitives.convolution import padding_pairs
from funcad.primitives.shape import rev


class Precision(enum.Enum):
    """JAX's names of precisions; all mean the operands' own."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


def _pairs(name: str, dimension_numbers: Any) -> Any:
    try:
        (cx, cy), (bx, by) = dimension_numbers
        pairs = [tuple([int(i) for i in axes]) for axes in (cx, cy, bx, by)]
    except (TypeError, ValueError):
        raise TypeError(
            f"lax.{name}: dimension_numbers is ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)), got "
            f"{dimension_numbers!r}"
        ) from None
    return (pairs[0], pairs[1]), (pairs[2], pairs[3])


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sum of products over contracted axes, for each index of the batch axes; result: batch, free axes of lhs, of rhs.

    >>> dot_general(np.ones((2, 3)), np.ones((2, 3)), (((1,), (1,)), ((0,), (0,))))
    array([3., 3.])
    """
    numbers = _pairs("dot_general", dimension_numbers)
    if preferred_element_type is None:
        lhs, rhs = equal_dtypes("dot_general", ANY, (lhs, rhs))
        return contraction.dot_general(lhs, rhs, dimension_numbers=numbers)
    dtype = np.dtype(preferred_element_type)
    if dtype_of(lhs) != dtype_of(rhs):
        lhs, rhs = [contraction.convert(x, np.promote_types(dtype_of(lhs), dtype_of(rhs))) for x in (lhs, rhs)]
    return contraction.dot_general(lhs, rhs, dimension_numbers=numbers, preferred_dtype=dtype)


def dot(lhs: Any, rhs: Any, *, dimension_numbers: Any = None, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The product of vectors and matrices; with dimension_numbers as dot_general.

    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    np.float64(11.0)
    """
    if dimension_numbers is None:
        nl, nr = len(shape_of(lhs)), len(shape_of(rhs))
        if nl not in (1, 2) or nr not in (1, 2) or shape_of(lhs)[-1] != shape_of(rhs)[0]:
            raise ValueError(
                f"lax.dot: {aval_of(lhs)} and {aval_of(rhs)} are not vectors or matrices that fit; give dimension_numbers "
                "for other products"
            )
        dimension_numbers = (((nl - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Products of the matrices in the last two axes; all other axes are equal."""
    n = len(shape_of(lhs))
    if n < 2 or len(shape_of(rhs)) != n:
        raise ValueError(f"lax.batch_matmul: operands must have equal ranks >= 2, got {aval_of(lhs)}, {aval_of(rhs)}")
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), precision)


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution of lhs (N, C, *S) with rhs (O, C, *K), without dilation; see conv_general_dilated."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type)


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution of lhs (N, C, *S) with rhs (O, C, *K); see conv_general_dilated."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, preferred_element_type=preferred_element_type
    )


def _transposed_padding(k: int, s: int, padding: str) -> tuple[int, int]:
    """Padding with which stride becomes dilation: SAME gives s times the size, VALID every place that the kernel reaches."""
    if padding == "SAME":
        total = k + s - 2
        before = k - 1 if s > k - 1 else -(-total // 2)
    elif padding == "VALID":
        total = k + s - 2 + max(k - s, 0)
        before = k - 1
    else:
        raise ValueError(f'lax.conv_transpose: padding is "SAME", "VALID" or pairs of integers, got {padding!r}')
    return before, total - before


_CHANNELS_LAST = {2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"), 5: ("NHWDC", "HWDIO", "NHWDC")}


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution whose strides enlarge ("deconvolution"): lhs is dilated by the strides.

    By default the channels are last: (N, *S, C) with kernels (*K, I, O). `transpose_kernel=True` reverses the kernel and
    exchanges its I and O, which gives the transpose of conv_general_dilated towards lhs. Pairs of padding are those of the
    dilated input.

    >>> conv_transpose(np.ones((1, 2, 1)), np.ones((2, 1, 1)), (2,), "SAME").ravel()
    array([1., 1., 1., 1.])
    """
    ndim = len(shape_of(lhs))
    if dimension_numbers is None:
        if ndim not in _CHANNELS_LAST:
            raise ValueError(f"lax.conv_transpose: no default dimension_numbers for {ndim} axes")
        dimension_numbers = _CHANNELS_LAST[ndim]
    numbers = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    kernel = [shape_of(rhs)[i] for i in numbers.rhs_spec[2:]]
    dilation = (1,) * len(kernel) if rhs_dilation is None else tuple(rhs_dilation)
    if isinstance(padding, str):
        windows = [convolution.dilated(k, d) for k, d in zip(kernel, dilation)]
        padding = [_transposed_padding(k, s, padding.upper()) for k, s in zip(windows, strides)]
    if transpose_kernel:
        rhs = rev(rhs, axes=tuple(sorted(numbers.rhs_spec[2:])))
        perm = list(range(ndim))
        out, in_ = numbers.rhs_spec[:2]
        perm[out], perm[in_] = in_, out
        rhs = permute(rhs, perm)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(kernel),
        padding,
        tuple(strides),
        dilation,
        numbers,
        preferred_element_type=preferred_element_type,
    )


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: Any
) -> list[tuple[int, int]]:
    """The pairs (low, high) that "SAME", "SAME_LOWER" or "VALID" stand for.

    >>> padtype_to_pads((5,), (3,), (1,), "SAME")
    [(1, 1)]
    """
    return list(padding_pairs(in_shape, window_shape, window_strides, padding))


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The windows of lhs that a convolution reads, as features in the order (C, *filter_shape)."""
    spatial = len(filter_shape)
    rhs_shape = (1,) * (spatial + 2)
    numbers = conv_dimension_numbers(shape_of(lhs), rhs_shape, dimension_numbers)
    size = int(np.prod(filter_shape, dtype=int))
    channels = shape_of(lhs)[numbers.lhs_spec[1]]
    picks = np.eye(size, dtype=dtype_of(lhs)).reshape((size, 1, *filter_shape))
    kernel = np.concatenate([picks] * channels, axis=0)
    kernel = permute(kernel, [list(numbers.rhs_spec).index(i) for i in range(spatial + 2)])
    return conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=channels,
        preferred_element_type=preferred_element_type,
    )

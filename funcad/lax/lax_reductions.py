"""Reductions, cumulative operations, sorting, and contractions.

`reduce` and `reduce_window` know the usual monoids (add, mul, max, min, and, or, by the functions of funcad.lax, funcad.numpy,
NumPy and `operator`) and hand them to their primitives. Any other associative function is folded pairwise; its derivative is
that of the fold.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from funcad.api.vmap import vmap
from funcad.host.devices import NAMESPACES, namespace_of
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.lax import lax_elementwise
from funcad.primitives import arithmetic, comparison, contraction, conversion, convolution, reduction, sorting
from funcad.primitives.convolution import ConvDimensionNumbers as ConvDimensionNumbers
from funcad.primitives.convolution import conv_dimension_numbers as conv_dimension_numbers
from funcad.primitives.convolution import conv_general_dilated as conv_general_dilated
from funcad.primitives.convolution import padding_pairs
from funcad.primitives.fused import optimization_barrier as _barrier
from funcad.primitives.shape import broadcast_in_dim, permute, reshape, rev, slice_p, transpose
from funcad.tree import flatten, unflatten

from funcad.lax.shapes import (  # isort: skip
    ANY, BITS, NUMBER, ORDERED, axes_in, axis_in, concatenate, equal_dtypes, operands, pad, slice_in_dim,
)

_MONOIDS: dict[Any, str] = {}
for _name, _functions in {
    "add": (lax_elementwise.add, arithmetic.add, operator.add, np.add),
    "mul": (lax_elementwise.mul, arithmetic.mul, operator.mul, np.multiply),
    "max": (lax_elementwise.max, arithmetic.maximum, np.maximum),
    "min": (lax_elementwise.min, arithmetic.minimum, np.minimum),
    "and": (lax_elementwise.bitwise_and, comparison.and_, operator.and_, np.bitwise_and, np.logical_and),
    "or": (lax_elementwise.bitwise_or, comparison.or_, operator.or_, np.bitwise_or, np.logical_or),
}.items():
    for _f in _functions:
        _MONOIDS[_f] = _name


def _monoid(computation: Any, dtype: np.dtype) -> str | None:
    """The monoid that a function stands for, if a primitive reduces over it in this dtype."""
    try:
        name = _MONOIDS.get(computation)
    except TypeError:  # not hashable
        return None
    return None if name in ("and", "or") and dtype.kind != "b" else name


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": reduction.reduce_sum,
    "mul": reduction.reduce_prod,
    "max": reduction.reduce_max,
    "min": reduction.reduce_min,
    "and": reduction.reduce_all,
    "or": reduction.reduce_any,
}
_COMBINE: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "mul": arithmetic.mul,
    "max": arithmetic.maximum,
    "min": arithmetic.minimum,
    "and": comparison.and_,
    "or": comparison.or_,
}


def _neutral(name: str, dtype: np.dtype) -> Any:
    if name in ("add", "or"):
        return dtype.type(0)
    if name in ("mul", "and"):
        return dtype.type(1)
    return dtype.type(convolution.lowest(dtype) if name == "max" else convolution.highest(dtype))


def _is_neutral(value: Any, name: str, dtype: np.dtype) -> bool:
    return not isinstance(value, Tracer) and bool(value == _neutral(name, dtype))


def _fill(value: Any, shape: tuple) -> Any:
    return broadcast_in_dim(value, shape=shape, axes=()) if shape else value


def reduce(operands: Any, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int]) -> Any:
    """operands (an array or a pytree of arrays of one shape) folded over axes by an associative function of scalars.

    For a pytree, `computation(x, y)` takes and returns pytrees of that structure, and so does `init_values`.

    >>> reduce(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.0, lax_elementwise.add, (1,))
    array([3., 7.])
    """
    leaves, tree = flatten(operands)
    inits, init_tree = flatten(init_values)
    if tree != init_tree or not leaves:
        raise TypeError(f"lax.reduce: operands {tree} and init_values {init_tree} must have the same structure")
    pairs = [equal_dtypes("reduce", ANY, pair) for pair in zip(leaves, inits)]
    leaves, inits = [x for x, _ in pairs], [i for _, i in pairs]
    shape = shape_of(leaves[0])
    axes = axes_in("reduce", dimensions, len(shape))
    if any(shape_of(x) != shape for x in leaves) or any(shape_of(i) != () for i in inits):
        raise TypeError(f"lax.reduce: operands must have equal shapes and init_values be scalars, got {leaves}, {inits}")
    rest = tuple([n for i, n in enumerate(shape) if i not in axes])
    if len(leaves) == 1:
        name = _monoid(computation, dtype_of(leaves[0]))
        if name is not None:
            return unflatten(tree, [_reduce_monoid(name, leaves[0], inits[0], axes, rest)])
    perm = (*axes, *[i for i in range(len(shape)) if i not in axes])
    count = 1
    for a in axes:
        count *= shape[a]
    size = 1
    for n in rest:
        size *= n
    xs = [reshape(transpose(x, perm=perm), shape=(count, size)) for x in leaves]
    step = _on_lanes(computation, tree)
    result = [_fill(i, (1, size)) for i in inits]
    if count:
        folded = _fold(step, xs)
        result = step(result, folded)
    return unflatten(tree, [reshape(r, shape=rest) for r in result])


def _reduce_monoid(name: str, x: Any, init: Any, axes: tuple, rest: tuple) -> Any:
    dtype = dtype_of(x)
    if not all(shape_of(x)[a] for a in axes):
        return _fill(init, rest)
    result = _REDUCTIONS[name](x, axes=axes)
    return result if _is_neutral(init, name, dtype) else _COMBINE[name](result, _fill(init, rest))


def _on_lanes(computation: Callable[..., Any], tree: Any) -> Callable[..., list]:
    """The function of scalars on lists of arrays of shape (n, size)."""

    def scalars(*values: Any) -> tuple:
        half = len(values) // 2
        out, out_tree = flatten(computation(unflatten(tree, values[:half]), unflatten(tree, values[half:])))
        if out_tree != tree:
            raise TypeError(f"lax.reduce: computation must return the operands' structure {tree}, got {out_tree}")
        return tuple(out)

    lanes = vmap(vmap(scalars))
    return lambda xs, ys: list(lanes(*xs, *ys))


def _fold(step: Callable[..., list], xs: list) -> list:
    """Neighbours combined until one row is left; the order of the rows is kept."""
    n = shape_of(xs[0])[0]
    while n > 1:
        even = n - n % 2
        joined = step([slice_in_dim(x, 0, even, 2) for x in xs], [slice_in_dim(x, 1, even, 2) for x in xs])
        xs = [concatenate([j, slice_in_dim(x, even, n)], 0) if n % 2 else j for j, x in zip(joined, xs)]
        n = shape_of(xs[0])[0]
    return xs


def _axes_of(name: str, kinds: str, operand: Any, axes: Sequence[int]) -> tuple[Any, tuple]:
    (operand,) = operands(name, kinds, operand)
    return operand, axes_in(name, axes, len(shape_of(operand)))


def reduce_sum(operand: Any, axes: Sequence[int]) -> Any:
    """The sum over axes, in the operand's dtype."""
    x, axes = _axes_of("reduce_sum", NUMBER, operand, axes)
    return reduction.reduce_sum(x, axes=axes)


def reduce_prod(operand: Any, axes: Sequence[int]) -> Any:
    """The product over axes, in the operand's dtype."""
    x, axes = _axes_of("reduce_prod", NUMBER, operand, axes)
    return reduction.reduce_prod(x, axes=axes)


def reduce_max(operand: Any, axes: Sequence[int]) -> Any:
    """The maximum over axes; of nothing the dtype's lowest value. The derivative is shared at ties."""
    x, axes = _axes_of("reduce_max", ORDERED, operand, axes)
    return reduce(x, convolution.lowest(dtype_of(x)), lax_elementwise.max, axes)


def reduce_min(operand: Any, axes: Sequence[int]) -> Any:
    """The minimum over axes; of nothing the dtype's highest value. The derivative is shared at ties."""
    x, axes = _axes_of("reduce_min", ORDERED, operand, axes)
    return reduce(x, convolution.highest(dtype_of(x)), lax_elementwise.min, axes)


def reduce_and(operand: Any, axes: Sequence[int]) -> Any:
    """x & y & ... over axes, of bools or integers."""
    x, axes = _axes_of("reduce_and", BITS, operand, axes)
    return reduce(x, dtype_of(x).type(True) if dtype_of(x).kind == "b" else ~dtype_of(x).type(0), comparison.and_, axes)


def reduce_or(operand: Any, axes: Sequence[int]) -> Any:
    """x | y | ... over axes, of bools or integers."""
    x, axes = _axes_of("reduce_or", BITS, operand, axes)
    return reduce(x, dtype_of(x).type(0), comparison.or_, axes)


def reduce_xor(operand: Any, axes: Sequence[int]) -> Any:
    """x ^ y ^ ... over axes, of bools or integers."""
    x, axes = _axes_of("reduce_xor", BITS, operand, axes)
    return reduce(x, dtype_of(x).type(0), comparison.xor, axes)


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The position of the first maximum (or NaN) along an axis, in index_dtype."""
    axis = axis_in("argmax", axis, len(shape_of(operand)))
    return conversion.convert(reduction.argmax(operand, axis), np.dtype(index_dtype))


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The position of the first minimum (or NaN) along an axis, in index_dtype."""
    axis = axis_in("argmin", axis, len(shape_of(operand)))
    return conversion.convert(reduction.argmin(operand, axis), np.dtype(index_dtype))


# ---- windows


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The elements of every window folded by an associative function, beginning with init_value, its neutral element.

    The derivative of max and min is shared at ties (JAX gives it to the first). Functions other than add, mul, max, min,
    and, or are applied to arrays, once per place in the window. One array operand.

    >>> reduce_window(np.array([1.0, 3.0, 2.0]), -np.inf, lax_elementwise.max, (2,))
    array([3., 3.])
    """
    x, init = equal_dtypes("reduce_window", ANY, (operand, init_value))
    shape = shape_of(x)
    ones = (1,) * len(shape)
    size = tuple(window_dimensions)
    strides = ones if window_strides is None else tuple(window_strides)
    base = ones if base_dilation is None else tuple(base_dilation)
    dilation = ones if window_dilation is None else tuple(window_dilation)
    if not len(size) == len(strides) == len(base) == len(dilation) == len(shape) or min((*size, *strides, *base, 1)) < 1:
        raise ValueError(f"lax.reduce_window: all parameters need one positive entry for each axis of {said(x)}")
    if shape_of(init) != ():
        raise TypeError(f"lax.reduce_window: init_value must be a scalar, got {said(init)}")
    reach = [convolution.dilated(k, d) for k, d in zip(size, dilation)]
    pads = padding_pairs(shape, reach, strides, padding)  # whatever is between the elements
    name = _monoid(computation, dtype_of(x))
    if name in _WINDOWS:
        result = _WINDOWS[name](x, window=size, strides=strides, padding=pads, base_dilation=base, window_dilation=dilation)
        return result if _is_neutral(init, name, dtype_of(x)) else _COMBINE[name](result, _fill(init, shape_of(result)))
    combine = computation if name is None else _COMBINE[name]
    neutral = init if name is None else _neutral(name, dtype_of(x))
    x = pad(x, neutral, [(low, high, b - 1) for (low, high), b in zip(pads, base)])
    out = convolution.windows_shape(
        shape_of(x), window=size, strides=strides, padding=((0, 0),) * len(shape), base_dilation=ones, window_dilation=dilation
    )
    result = _fill(init, out)
    if 0 in out:
        return result
    for place in product(*[range(k) for k in size]):
        start = tuple([k * d for k, d in zip(place, dilation)])
        limit = tuple([a + (n - 1) * s + 1 for a, n, s in zip(start, out, strides)])
        result = combine(result, slice_p(x, start=start, limit=limit, strides=strides))
    return result


_WINDOWS: dict[Any, Callable[..., Any]] = {
    "add": convolution.reduce_window_sum,
    "max": convolution.reduce_window_max,
    "min": convolution.reduce_window_min,
    "and": convolution.reduce_window_min,
    "or": convolution.reduce_window_max,
}


# ---- cumulative


def _cumulative(name: str, kinds: str, f: Callable[..., Any], operand: Any, axis: int, reverse: bool) -> Any:
    (x,) = operands(name, kinds, operand)
    return f(x, axis_in(name, axis, len(shape_of(x))), bool(reverse))


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running sums along an axis, in the operand's dtype; from the end if reverse."""
    return _cumulative("cumsum", NUMBER, reduction.cumsum, operand, axis, reverse)


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running products along an axis, in the operand's dtype; from the end if reverse."""
    return _cumulative("cumprod", NUMBER, reduction.cumprod, operand, axis, reverse)


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running maxima along an axis; from the end if reverse."""
    return _cumulative("cummax", ORDERED, reduction.cummax, operand, axis, reverse)


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running minima along an axis; from the end if reverse."""
    return _cumulative("cummin", ORDERED, reduction.cummin, operand, axis, reverse)


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running log(sum(exp(x))) along an axis, without overflow; from the end if reverse."""
    return _cumulative("cumlogsumexp", "f", reduction.cumlogsumexp, operand, axis, reverse)


# ---- sorting


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """An array sorted along an axis, or a tuple of arrays in the order of the first num_keys of them; always stable.

    >>> sort((np.array([3, 1, 2]), np.array([10.0, 20.0, 30.0])))
    (array([1, 2, 3]), array([20., 30., 10.]))
    """
    if isinstance(operand, (tuple, list)):
        if not operand:
            raise TypeError("lax.sort: needs at least one operand")
        axis = axis_in("sort", dimension, len(shape_of(operand[0])))
        return tuple(sorting.sort_many(list(operand), axis, num_keys))
    return sorting.sort(operand, axis_in("sort", dimension, len(shape_of(operand))))


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """keys sorted along an axis, and values in the same order."""
    keys, values = sort((keys, values), dimension)
    return keys, values


def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Any, Any]:
    """The k largest elements along an axis, largest first, and their positions (int64; JAX: int32).

    >>> top_k(np.array([1.0, 3.0, 2.0]), 2)
    (array([3., 2.]), array([1, 2]))
    """
    ndim = len(shape_of(operand))
    axis = axis_in("top_k", axis, ndim)
    if axis == ndim - 1:
        return sorting.top_k(operand, k)
    perm = (*[i for i in range(ndim) if i != axis], axis)
    back = tuple([perm.index(i) for i in range(ndim)])
    values, positions = sorting.top_k(transpose(operand, perm=perm), k)
    return transpose(values, perm=back), transpose(positions, perm=back)


def approx_max_k(operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95) -> tuple[Any, Any]:
    """The k largest elements along an axis and their positions; exact, whatever the recall_target."""
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95) -> tuple[Any, Any]:
    """The k smallest elements along an axis and their positions; exact, whatever the recall_target."""
    values, positions = top_k(arithmetic.neg(operand), k, axis=reduction_dimension)
    return arithmetic.neg(values), positions


# ---- identities


def optimization_barrier(operand: Any) -> Any:
    """operand (a pytree) itself; no optimisation merges or moves computations across it."""
    leaves, tree = flatten(operand)
    return unflatten(tree, _barrier(*leaves)) if leaves else operand


def platform_dependent(*args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]) -> Any:
    """The function for the platform of the arguments, `cpu` or `cuda` (or `gpu`), called with them; else the default.

    Where arguments have no value yet (inside jit) and a CuPy array has been seen, the platform is unknown: TypeError.

    >>> platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x)
    3.0
    """
    leaves = [concrete_value(x) for x in flatten(args)[0]]
    f: Any = None
    if any(type(x) is Tracer for x in leaves) and NAMESPACES and per_platform:
        raise TypeError("lax.platform_dependent: inside jit the platform of the arguments is not known; call it outside")
    names = ("cpu",) if namespace_of([x for x in leaves if type(x) is not Tracer]) is np else ("cuda", "gpu")
    for name in names:
        f = f or per_platform.get(name)
    f = f or default
    if f is None:
        raise NotImplementedError(f"lax.platform_dependent: no function for {names[0]} and no default")
    return f(*args)


# -- products of matrices and convolutions, with the names and arguments of `jax.lax`
#
# `precision` may be given everywhere and changes nothing: NumPy and CuPy compute with the full precision of the operands.


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


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
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
                f"lax.dot: {said(lhs)} and {said(rhs)} are not vectors or matrices that fit; give dimension_numbers "
                "for other products"
            )
        dimension_numbers = (((nl - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Products of the matrices in the last two axes; all other axes are equal."""
    n = len(shape_of(lhs))
    if n < 2 or len(shape_of(rhs)) != n:
        raise ValueError(f"lax.batch_matmul: operands must have equal ranks >= 2, got {said(lhs)}, {said(rhs)}")
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

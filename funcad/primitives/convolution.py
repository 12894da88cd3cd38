"""Convolution in one canonical form with an explicit group axis, and reductions over moving windows.

`conv(x, kernel, ...)` correlates x of shape (G, N, C, *S) with kernel (G, O, C, *K) and gives (G, N, O, *out): G is a
batch axis of both. Everything that other systems have separate rules for is a reshape in front of it: feature groups
and batch groups are G, vmap over x goes into N, over the kernel into O, over both into G. The transposes are the same
primitive: towards x with the kernel reversed and O and C exchanged, towards the kernel with N and C exchanged.

The implementation gathers the windows of x into columns (a strided view and one copy) and multiplies them by the
kernel as a matrix. `conv_general_dilated` has JAX's arguments; padding may be negative (it crops), dilation of x puts
zeros between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.memo import remembers
from funcad.primitives import families
from funcad.primitives.conversion import convert
from funcad.primitives.families import align_batched, avals_text, structural
from funcad.primitives.shape import multilinear, permute, reshape, rev, zeros

_COLUMNS = 1 << 22  # elements of the buffer of columns; larger inputs are done in chunks of N


def dilated(n: int, dilation: int) -> int:
    """The length of n elements with dilation - 1 holes between neighbours."""
    return (n - 1) * dilation + 1 if n else 0


def window_count(n: int, window: int, stride: int) -> int:
    return (n - window) // stride + 1 if n >= window else 0


@remembers(512)
def _spatial_shape(x: Any, kernel: Any, strides: Any, padding: Any, x_dilation: Any, kernel_dilation: Any) -> tuple:
    """How many windows there are along each axis."""
    result = []
    for n, k, s, (low, high), dx, dk in zip(x[3:], kernel[3:], strides, padding, x_dilation, kernel_dilation):
        result.append(window_count(max(dilated(n, dx) + low + high, 0), dilated(k, dk), s))
    return tuple(result)


@remembers(512)
def placement(
    shape: Sequence[int], padding: Sequence[tuple], dilation: Sequence[int], first: int
) -> tuple[tuple, tuple, tuple]:
    """The padded shape, where in it the elements go, and which of them are not cropped."""
    new, target, source = list(shape), [slice(None)] * first, [slice(None)] * first
    for i, ((low, high), d) in enumerate(zip(padding, dilation), first):
        n = shape[i]
        size = new[i] = max(dilated(n, d) + low + high, 0)
        begin = min(-(low // d), n) if low < 0 else 0
        at = low + begin * d
        count = max(0, min(n - begin, -(-(size - at) // d)))
        source.append(slice(begin, begin + count))
        target.append(slice(at, at + (count - 1) * d + 1, d) if count else slice(0, 0))
    return tuple(new), tuple(target), tuple(source)


def placed(xp: Any, x: Any, padding: Sequence[tuple], dilation: Sequence[int], first: int, fill: Any = 0) -> Any:
    """x with its axes from `first` on dilated and padded (or cropped) with `fill`; a view if nothing is added."""
    shape, target, source = placement(x.shape, padding, dilation, first)
    if all(d == 1 for d in dilation) and all(low <= 0 and high <= 0 for low, high in padding):
        return x[source]
    out = xp.zeros(shape, x.dtype) if type(fill) is int and not fill else xp.full(shape, fill, x.dtype)
    out[target] = x[source]
    return out


def window_view(xp: Any, x: Any, out: tuple, window: tuple, strides: Any, dilation: Any, first: int) -> Any:
    """A read-only view (*x.shape[:first], *out, *window) of the windows over the axes from `first` on."""
    steps = x.strides[first:]
    shape = (*x.shape[:first], *out, *window)
    moved = [s * k for s, k in zip(steps, strides)] + [s * d for s, d in zip(steps, dilation)]
    if 0 in shape:
        return xp.zeros(shape, x.dtype)
    if xp is np and x.flags.c_contiguous:  # in a tenth of the time
        return np.ndarray(shape, x.dtype, x, 0, (*x.strides[:first], *moved))
    return xp.lib.stride_tricks.as_strided(x, shape, (*x.strides[:first], *moved))


def _conv_impl(xp: Any, x: Any, kernel: Any, *, strides: Any, padding: Any, x_dilation: Any, kernel_dilation: Any) -> Any:
    if x.ndim == 4 and xp is np and strides == x_dilation == kernel_dilation == (1,):
        if x.shape[:3] == kernel.shape[:3] == (1, 1, 1) and x.shape[3] and kernel.shape[3]:
            return _along_a_line(x, kernel, padding)
    groups, n, channels = x.shape[:3]
    features, window = kernel.shape[1], kernel.shape[3:]
    out = _spatial_shape(x.shape, kernel.shape, strides, padding, x_dilation, kernel_dilation)
    phases = phases_of(x.shape, kernel.shape, out, strides, padding, x_dilation, kernel_dilation)
    if phases and 0 not in out and 0 not in window:
        result = xp.zeros((groups, n, features, *out), x.dtype)
        for into, some, pads, dilation in phases:
            result[into] = _conv_impl(
                xp, x, kernel[some], strides=strides, padding=pads, x_dilation=dilation, kernel_dilation=kernel_dilation
            )
        return result
    per_example = groups * channels * prod(out) * prod(window)
    if not per_example or not n or not features:
        return xp.zeros((groups, n, features, *out), x.dtype)
    matrix = kernel.reshape((groups, features, channels * prod(window)))
    chunk = max(1, (_COLUMNS if xp is np else 32 * _COLUMNS) // per_example)
    if chunk >= n:
        x = placed(xp, x, padding, x_dilation, 3)
        return _multiply(xp, matrix, window_view(xp, x, out, window, strides, kernel_dilation, 3), len(out))
    result = xp.empty((groups, n, features, *out), x.dtype)
    for i in range(0, n, chunk):
        part = placed(xp, x[:, i : i + chunk], padding, x_dilation, 3)
        view = window_view(xp, part, out, window, strides, kernel_dilation, 3)
        result[:, i : i + chunk] = _multiply(xp, matrix, view, len(out))
    return result


def _along_a_line(x: np.ndarray, kernel: np.ndarray, padding: Sequence[tuple]) -> np.ndarray:
    """Of two vectors, by NumPy's sums, which need no columns, and at the ends no zeros (0 * inf would be NaN)."""
    k, (low, high) = kernel.shape[3], padding[0]
    full = low + high > 0 and 0 <= low < k and 0 <= high < k
    line, kernel = x.reshape(-1) if full else placed(np, x, padding, (1,), 3).reshape(-1), kernel.reshape(-1)
    if not full and line.shape[0] < k:
        return np.zeros((1, 1, 1, 0), x.dtype)
    mode: Any = "full" if full else "valid"
    found = np.convolve(line, kernel[::-1], mode) if x.dtype.kind == "c" else np.correlate(line, kernel, mode)
    if full:
        found = found[k - 1 - low : found.shape[0] - (k - 1 - high)]
    return found.reshape((1, 1, 1, -1))


def phases_of(
    x: tuple, kernel: tuple, out: tuple, strides: Any, padding: Any, x_dilation: Any, kernel_dilation: Any
) -> list[tuple[tuple, tuple, tuple, tuple]]:
    """Along one axis the holes of x meet only every d-th element of the kernel: d small convolutions, no zeros.

    Which results each gives (those that it leaves out are 0), by which part of the kernel, with which padding and dilation of
    x; none if there is no such axis.
    """
    phased = [i for i, d in enumerate(x_dilation) if d > 1 and strides[i] == kernel_dilation[i] == 1]
    found = []
    for axis in phased[:1]:
        d, low, whole = x_dilation[axis], padding[axis][0], (slice(None),) * (3 + axis)
        n, k = x[3 + axis], kernel[3 + axis]
        for phase in range(min(d, out[axis])):
            first = (low - phase) % d
            size, count = -((first - k) // d), -((phase - out[axis]) // d)
            start = (low - phase - first) // d
            pads, dilation = list(padding), list(x_dilation)
            pads[axis], dilation[axis] = (start, count + size - 1 - n - start), 1
            if size > 0:
                some = (*whole, slice(phase, None, d)), (*whole, slice(first, None, d))
                found.append((*some, tuple(pads), tuple(dilation)))
    return found


def _multiply(xp: Any, matrix: Any, view: Any, spatial: int) -> Any:
    """The kernel's matrix (G, O, C * K) times the windows (G, N, C, *out, *K)."""
    groups, n, channels = view.shape[:3]
    out, window = view.shape[3 : 3 + spatial], view.shape[3 + spatial :]
    size, rows = prod(out), matrix.shape[2]
    inner_out = tuple(range(3, 3 + spatial))
    inner_window = tuple(range(3 + spatial, 3 + 2 * spatial))
    wide = size >= prod(window)  # which of the two runs innermost while the columns are copied
    if n == 1 or (wide and size >= 256):
        if wide:
            columns = view.transpose((0, 1, 2, *inner_window, *inner_out)).reshape((groups, n, rows, size))
        else:
            columns = view.transpose((0, 1, *inner_out, 2, *inner_window)).reshape((groups, n, size, rows))
            columns = columns.swapaxes(2, 3)
        return xp.matmul(matrix[:, None], columns).reshape((groups, n, matrix.shape[1], *out))
    if wide:  # one product for all N
        columns = view.transpose((0, 2, *inner_window, 1, *inner_out)).reshape((groups, rows, n * size))
    else:
        columns = view.transpose((0, 1, *inner_out, 2, *inner_window)).reshape((groups, n * size, rows)).swapaxes(1, 2)
    result = xp.matmul(matrix, columns).reshape((groups, matrix.shape[1], n, *out))
    return result.transpose((0, 2, 1, *inner_out))


def _conv_abstract(x: Aval, kernel: Aval, *, strides: Any, padding: Any, x_dilation: Any, kernel_dilation: Any) -> Aval:
    spatial = len(strides)
    if x.dtype != kernel.dtype:
        raise TypeError(f"conv: operands must have equal dtypes, got {avals_text([x, kernel])}; convert one of them")
    if x.ndim != spatial + 3 or kernel.ndim != spatial + 3 or x.shape[0::2][:2] != kernel.shape[0::2][:2]:
        raise ValueError(f"conv: {avals_text([x, kernel])} are not (G, N, C, *S), (G, O, C, *K) of rank {spatial + 3}")
    out = _spatial_shape(x.shape, kernel.shape, strides, padding, x_dilation, kernel_dilation)
    return Aval((*x.shape[:2], kernel.shape[1], *out), x.dtype)


def _exchange(x: Any) -> Any:
    """Axes 1 and 2 exchanged: N and C, or O and C."""
    ndim = len(shape_of(x))
    return permute(x, (0, 2, 1, *range(3, ndim)))


def _conv_transpose(ct: Any, x: Any, kernel: Any, *, strides: Any, padding: Any, x_dilation: Any, kernel_dilation: Any) -> list:
    aval = x.aval if is_linear(x) else kernel.aval
    sx = aval.shape if is_linear(x) else shape_of(x)
    sk = shape_of(kernel) if is_linear(x) else aval.shape
    out = shape_of(ct)
    if 0 in out or 0 in sx or 0 in sk:
        return [zeros(aval), None] if is_linear(x) else [None, zeros(aval)]
    pads = []
    for n, k, o, s, (low, _), dx, dk in zip(sx[3:], sk[3:], out[3:], strides, padding, x_dilation, kernel_dilation):
        size, window, spread = dilated(n, dx), dilated(k, dk), dilated(o, s)
        before = window - 1 - low if is_linear(x) else low
        total = size + window - 1 - spread if is_linear(x) else spread + window - 1 - size
        pads.append((before, total - before))
    if is_linear(x):
        flipped = rev(_exchange(kernel), axes=tuple(range(3, len(sk))))
        result = conv_p(
            ct,
            flipped,
            strides=x_dilation,
            padding=tuple(pads),
            x_dilation=strides,
            kernel_dilation=kernel_dilation,
        )
        return [result, None]
    result = conv_p(
        _exchange(x),
        _exchange(ct),
        strides=kernel_dilation,
        padding=tuple(pads),
        x_dilation=x_dilation,
        kernel_dilation=strides,
    )
    return [None, _exchange(result)]


def _conv_batch(size: int, args: Any, batched: Any, **params: Any) -> tuple[Any, bool]:
    x, kernel = args
    sx, sk = shape_of(x), shape_of(kernel)
    if all(batched):
        x, kernel = reshape(x, shape=(size * sx[1], *sx[2:])), reshape(kernel, shape=(size * sk[1], *sk[2:]))
        out = conv_p(x, kernel, **params)
        shape = shape_of(out)
        return reshape(out, shape=(size, sx[1], *shape[1:])), True
    if batched[0]:
        out = conv_p(_fold(x), kernel, **params)
        shape = shape_of(out)
        out = reshape(out, shape=(shape[0], size, sx[2], *shape[2:]))
        return permute(out, (1, 0, *range(2, len(shape) + 1))), True
    out = conv_p(x, _fold(kernel), **params)
    shape = shape_of(out)
    out = reshape(out, shape=(*shape[:2], size, sk[2], *shape[3:]))
    return permute(out, (2, 0, 1, *range(3, len(shape) + 1))), True


def _fold(x: Any) -> Any:
    """(B, G, N, ...) as (G, B * N, ...)."""
    shape = shape_of(x)
    moved = permute(x, (1, 0, *range(2, len(shape))))
    return reshape(moved, shape=(shape[1], shape[0] * shape[2], *shape[3:]))


def _conv_paths(position: int, factor: np.ndarray, shape: tuple, **params: Any) -> tuple[np.ndarray, np.ndarray]:
    """With one element of the other operand alone, an element of the result comes from one of this operand at most."""
    own, found = np.arange(1.0, prod(shape) + 1).reshape(shape), []
    for place in zip(*factor.nonzero()):
        one = np.zeros(factor.shape)
        one[place] = 1
        out = _conv_impl(np, *((one, own) if position else (own, one)), **params).reshape(-1)
        rows = out.nonzero()[0]
        found.append((rows, np.rint(out[rows]).astype(np.intp) - 1))
    rows, columns = zip(*found) if found else ([np.zeros(0, np.intp)],) * 2
    return np.concatenate(rows), np.concatenate(columns)


conv_p: Primitive = Primitive(
    "conv", _conv_impl, _conv_abstract, jvp=multilinear(lambda: conv_p), transpose=_conv_transpose, batch=_conv_batch,
    paths=_conv_paths,
)


def conv(
    x: Any, kernel: Any, *, strides: tuple, padding: tuple, x_dilation: tuple | None = None, kernel_dilation: Any = None
) -> Any:
    """Correlate x (G, N, C, *S) with kernel (G, O, C, *K); padding is a pair of integers per spatial axis."""
    ones = (1,) * len(strides)
    return conv_p(
        x,
        kernel,
        strides=strides,
        padding=padding,
        x_dilation=x_dilation or ones,
        kernel_dilation=kernel_dilation or ones,
    )


# ---- JAX's arguments


class ConvDimensionNumbers(NamedTuple):
    """Where the axes are: (N, C, *S) of the input, (O, I, *K) of the kernel, (N, C, *S) of the output."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> ConvDimensionNumbers:
    """The axes that a triple of strings such as ("NHWC", "HWIO", "NHWC") names; None is ("NCHW", "OIHW", "NCHW").

    Raises ValueError where the strings do not fit the ranks. As JAX's `lax.conv_dimension_numbers`.

    >>> conv_dimension_numbers((1, 5, 5, 3), (2, 2, 3, 8), ("NHWC", "HWIO", "NHWC")).lhs_spec
    (0, 3, 1, 2)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if len(rhs_shape) != rank:
        raise ValueError(f"convolution: input and kernel must have equal ranks, got shapes {lhs_shape} and {rhs_shape}")
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    if not isinstance(dimension_numbers, (tuple, list)) or len(dimension_numbers) != 3:
        raise TypeError(
            "convolution: dimension_numbers is None, a ConvDimensionNumbers or three strings such as "
            f'("NCHW", "OIHW", "NCHW"), got {dimension_numbers!r}'
        )
    lhs, rhs, out = dimension_numbers
    for text, pair in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if len(text) != rank or len(set(text)) != rank or not set(pair) <= set(text):
            raise ValueError(f"convolution: {text!r} must hold {rank} different letters, among them {pair!r}")
    spatial = [c for c in rhs if c not in "OI"]
    for text in (lhs, out):
        if sorted([c for c in text if c not in "NC"]) != sorted(spatial):
            raise ValueError(f"convolution: the spatial letters of {text!r} differ from those of the kernel, {rhs!r}")
    return ConvDimensionNumbers(
        tuple([lhs.index(c) for c in ["N", "C", *spatial]]),
        tuple([rhs.index(c) for c in ["O", "I", *spatial]]),
        tuple([out.index(c) for c in ["N", "C", *spatial]]),
    )


def padding_pairs(sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int], padding: Any) -> tuple:
    """Pairs (low, high) for "SAME", "SAME_LOWER", "VALID" (of dilated windows) or for given pairs."""
    if not isinstance(padding, str):
        pairs = tuple([(int(low), int(high)) for low, high in padding])
        if len(pairs) != len(sizes):
            raise ValueError(f"padding {padding} has {len(pairs)} pairs for {len(sizes)} axes")
        return pairs
    kind = padding.upper()
    if kind == "VALID":
        return ((0, 0),) * len(sizes)
    if kind not in ("SAME", "SAME_LOWER"):
        raise ValueError(f'padding is "SAME", "SAME_LOWER", "VALID" or pairs of integers, got {padding!r}')
    pairs = []
    for n, k, s in zip(sizes, windows, strides):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        low = total // 2 if kind == "SAME" else total - total // 2
        pairs.append((low, total - low))
    return tuple(pairs)


def _inverse(perm: Sequence[int]) -> list[int]:
    return [list(perm).index(i) for i in range(len(perm))]


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution (correlation) of any spatial rank, with strides, padding, dilations and groups.

    lhs is (batch, features, *spatial) and rhs (out features, in features, *spatial), unless dimension_numbers says
    otherwise; dtypes are equal. Raises TypeError and ValueError on operands that do not fit. As JAX's, but
    `precision` changes nothing, because NumPy always computes with the operands' full precision.

    >>> conv_general_dilated(np.ones((1, 1, 4)), np.ones((1, 1, 2)), (1,), "VALID")
    array([[[2., 2., 2.]]])
    """
    lhs_spec, rhs_spec, out_spec = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    x, kernel = permute(lhs, lhs_spec), permute(rhs, rhs_spec)
    sx, sk = shape_of(x), shape_of(kernel)
    spatial = len(sx) - 2
    strides = tuple([int(s) for s in window_strides])
    x_dilation = tuple([int(d) for d in lhs_dilation]) if lhs_dilation is not None else (1,) * spatial
    kernel_dilation = tuple([int(d) for d in rhs_dilation]) if rhs_dilation is not None else (1,) * spatial
    if not len(strides) == len(x_dilation) == len(kernel_dilation) == spatial or min((*strides, *x_dilation, 1)) < 1:
        raise ValueError(
            f"convolution over {spatial} spatial axes: window_strides {strides}, lhs_dilation {x_dilation} and "
            f"rhs_dilation {kernel_dilation} must have one positive integer for each"
        )
    if isinstance(padding, str) and any(d != 1 for d in x_dilation):
        raise ValueError("convolution: with lhs_dilation, give the padding as pairs of integers, or use conv_transpose")
    windows = [dilated(k, d) for k, d in zip(sk[2:], kernel_dilation)]
    pads = padding_pairs(sx[2:], windows, strides, padding)
    groups, batches = feature_group_count, batch_group_count
    if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
        raise ValueError(f"convolution: of feature_group_count {groups} and batch_group_count {batches} one must be 1")
    if sx[1] != sk[1] * groups or sk[0] % (groups * batches) or sx[0] % batches:
        raise ValueError(
            f"convolution: input {sx} (batch, features, ...) and kernel {sk} (out, in, ...) do not fit together with "
            f"feature_group_count {groups} and batch_group_count {batches}"
        )
    dtype = dtype_of(lhs)
    narrow = None
    if preferred_element_type is not None and np.dtype(preferred_element_type) != dtype:
        narrow = np.dtype(preferred_element_type)
        if np.promote_types(narrow, dtype) == narrow:
            x, kernel, narrow = convert(x, narrow), convert(kernel, narrow), None
    count = groups * batches
    if groups > 1:
        x = permute(reshape(x, shape=(sx[0], groups, sk[1], *sx[2:])), (1, 0, *range(2, spatial + 3)))
    else:
        x = reshape(x, shape=(count, sx[0] // batches, *sx[1:]))
    kernel = reshape(kernel, shape=(count, sk[0] // count, *sk[1:]))
    out = conv(x, kernel, strides=strides, padding=pads, x_dilation=x_dilation, kernel_dilation=kernel_dilation)
    shape = shape_of(out)
    if count > 1:
        out = permute(out, (1, 0, *range(2, spatial + 3)))
    out = reshape(out, shape=(shape[1], count * shape[2], *shape[3:]))
    if narrow is not None:
        out = convert(out, narrow)
    return permute(out, _inverse(out_spec))


# -- reductions over moving windows: sums, maxima and minima (the heart of pooling)
#
# All parameters have one entry per axis of x: `window` (how many elements), `strides` (how far it moves), `padding` (pairs;
# negative ones crop), `base_dilation` (holes between the elements of x), `window_dilation` (holes between those of the window).
# Padding and holes hold the neutral element and never win.
#
# The sum is linear and is its own transpose with strides and base dilation exchanged. The derivative of max and min is shared
# equally among the tied elements of a window, as everywhere in funcad (JAX gives it to the first of them); a NaN result is tied
# with the NaNs that made it. `window_mean` and `window_spread` are the two linear maps of that derivative, each other's
# transposes.


def windows_shape(
    shape: tuple, *, window: tuple, strides: tuple, padding: tuple, base_dilation: tuple, window_dilation: tuple
) -> tuple:
    """The shape of the result of a window reduction."""
    return tuple(
        [
            window_count(max(dilated(n, b) + low + high, 0), dilated(w, d), s)
            for n, w, s, (low, high), b, d in zip(shape, window, strides, padding, base_dilation, window_dilation)
        ]
    )


def _abstract(x: Aval, **params: Any) -> Aval:
    for name, value in params.items():
        if len(value) != x.ndim or (name != "padding" and any(n < 1 for n in value)):
            raise ValueError(f"reduce_window: {name} {value} must have one positive entry for each axis of {x}")
    return Aval(windows_shape(x.shape, **params), x.dtype)


def _offsets(window: tuple, strides: tuple, window_dilation: tuple, out: tuple) -> Iterator[tuple]:
    """For each place in the window, the index that picks that element of every window."""
    for place in product(*[range(w) for w in window]):
        yield tuple([slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(place, window_dilation, out, strides)])


def _reduce(xp: Any, x: Any, combine: Callable[..., Any], neutral: Any, params: dict[str, Any]) -> Any:
    """One axis after the other: a window of a x b costs a + b steps instead of a * b."""
    out = windows_shape(x.shape, **params)
    if 0 in out:
        return xp.zeros(out, x.dtype)
    x = placed(xp, x, params["padding"], params["base_dilation"], 0, neutral)
    for axis, (w, s, d, n) in enumerate(zip(params["window"], params["strides"], params["window_dilation"], out)):
        if w == 1 and s == 1:
            continue
        before = (slice(None),) * axis
        total = x[(*before, slice(0, (n - 1) * s + 1, s))]
        if w > 1:
            total = total.copy()
        for k in range(1, w):
            combine(total, x[(*before, slice(k * d, k * d + (n - 1) * s + 1, s))], out=total)
        x = total
    return x


def _sum_impl(xp: Any, x: Any, **params: Any) -> Any:
    return _reduce(xp, x, xp.add, 0, params)


def lowest(dtype: np.dtype) -> Any:
    """The neutral element of max."""
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def highest(dtype: np.dtype) -> Any:
    """The neutral element of min."""
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _sum_transpose(ct: Any, x: Aval, **params: Any) -> Any:
    out = windows_shape(x.shape, **params)
    if 0 in out or 0 in x.shape:
        return zeros(x)
    pads = []
    sizes = zip(
        x.shape, out, params["window"], params["strides"], params["padding"], params["base_dilation"], params["window_dilation"]
    )
    for n, m, w, s, (low, _), b, d in sizes:
        reach = dilated(w, d)
        before = reach - 1 - low
        pads.append((before, dilated(n, b) + reach - 1 - dilated(m, s) - before))
    return reduce_window_sum(
        ct,
        window=params["window"],
        strides=params["base_dilation"],
        padding=tuple(pads),
        base_dilation=params["strides"],
        window_dilation=params["window_dilation"],
    )


def _batched(params: dict[str, Any]) -> dict[str, Any]:
    return {name: (((0, 0) if name == "padding" else 1), *value) for name, value in params.items()}


# Sums over windows; parameters as in the module's text, all required.
reduce_window_sum = structural(
    "reduce_window_sum",
    _sum_impl,
    _abstract,
    _sum_transpose,
    lambda size, x, **params: reduce_window_sum(x, **_batched(params)),
    reach="picks",
)


# ---- the derivative of max and min


def _ties(xp: Any, x: Any, out: Any, params: dict[str, Any]) -> tuple[tuple, tuple, tuple, list]:
    """Padded shape, target and source of x in it, and for each place in the window its index and where it ties with out."""
    padding, dilation = params["padding"], params["base_dilation"]
    shape, target, source = placement(x.shape, padding, dilation, 0)
    full = placed(xp, x, padding, dilation, 0)
    valid = None if full.shape == x.shape else placed(xp, xp.ones(x.shape, bool), padding, dilation, 0)
    pairs = []
    for index in _offsets(params["window"], params["strides"], params["window_dilation"], out.shape):
        part = full[index]
        mask = (part == out) | ((part != part) & (out != out))
        if valid is not None:
            mask &= valid[index]
        pairs.append((index, mask))
    return shape, target, source, pairs


def _count(xp: Any, pairs: list, dtype: np.dtype) -> Any:
    total = xp.zeros(pairs[0][1].shape, dtype)
    for _, mask in pairs:
        total += mask
    return xp.maximum(total, xp.ones((), dtype))  # a window of padding only ties with nothing


def _mean_impl(xp: Any, t: Any, x: Any, out: Any, **params: Any) -> Any:
    if 0 in out.shape:
        return xp.zeros(out.shape, t.dtype)
    *_, pairs = _ties(xp, x, out, params)
    tangent = placed(xp, t, params["padding"], params["base_dilation"], 0)
    total = xp.zeros(out.shape, t.dtype)
    zero = xp.zeros((), t.dtype)
    for index, mask in pairs:
        total += xp.where(mask, tangent[index], zero)
    return total / _count(xp, pairs, families.REAL(t.dtype))


def _spread_impl(xp: Any, ct: Any, x: Any, out: Any, **params: Any) -> Any:
    result = xp.zeros(x.shape, ct.dtype)
    if 0 in out.shape:
        return result
    shape, target, source, pairs = _ties(xp, x, out, params)
    share = ct / _count(xp, pairs, families.REAL(ct.dtype))
    total = xp.zeros(shape, ct.dtype)
    zero = xp.zeros((), ct.dtype)
    for index, mask in pairs:
        total[index] += xp.where(mask, share, zero)
    result[source] = total[target]
    return result


def _tied(name: str, impl: Callable[..., Any], aval: Callable[..., Aval], other: Any, reach: str) -> Primitive:
    def batch(size: int, args: Any, batched: Any, **params: Any) -> tuple[Any, bool]:
        return primitive(*align_batched(size, args, batched), **_batched(params)), True

    primitive = Primitive(
        name,
        impl,
        aval,
        jvp=lambda tangents, result, t, x, out, **params: (
            None if tangents[0] is None else primitive(tangents[0], x, out, **params)
        ),
        transpose=lambda ct, t, x, out, **params: [other()(ct, x, out, **params), None, None],
        batch=batch,
        reach=reach,
    )
    return primitive


window_mean_p = _tied(  # for each window the mean tangent of the elements that tie with its result
    "window_mean", _mean_impl, lambda t, x, out, **params: Aval(out.shape, t.dtype), lambda: window_spread_p, "reads"
)
window_spread_p = _tied(  # each of those elements gets its share of the window's cotangent
    "window_spread", _spread_impl, lambda ct, x, out, **params: Aval(x.shape, ct.dtype), lambda: window_mean_p, "picks"
)


def _extremum(name: str, combine: str, neutral: Callable[[np.dtype], Any]) -> Primitive:
    primitive = Primitive(
        name,
        lambda xp, x, **params: _reduce(xp, x, getattr(xp, combine), neutral(x.dtype), params),
        _abstract,
        jvp=lambda tangents, out, x, **params: window_mean_p(tangents[0], x, out, **params),
        batch=lambda size, args, batched, **params: (primitive(args[0], **_batched(params)), True),
    )
    return primitive


# Maxima over windows; windows of padding only give the dtype's lowest value.
reduce_window_max = _extremum("reduce_window_max", "maximum", lowest)
# Minima over windows; windows of padding only give the dtype's highest value.
reduce_window_min = _extremum("reduce_window_min", "minimum", highest)
